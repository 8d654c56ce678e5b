//! The keys of a join's build side, as a set that a scan asks.
//!
//! Each thread of the build side gathers the keys that it sees ([`KeyCollector`]). When the last one has seen all, the set is there
//! ([`JoinKeys::set`]): bits, which are asked for many rows at once. Where they would be too many, or the keys are, there is never one,
//! and the join does without.

use ankerdb_compiler::{Key, KeyBits};
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Int32Type, Int64Type};
use datafusion::execution::memory_pool::MemoryReservation;
use parking_lot::Mutex;
use std::ops::RangeInclusive;
use std::sync::{Arc, OnceLock};

/// Keys that are gathered at most, of all threads.
const KEYS_MAX: usize = 1 << 22;
/// There are at most as many keys as the scan has rows, by this: more would leave out too little to be worth gathering.
const ROWS_OF_KEY_MIN: usize = 8;
/// Rows of a batch, in order; `None` for all of them.
pub(crate) type ListedRows = Option<Vec<u32>>;

/// Bytes of the largest set, of which few keys touch a few pages.
const BYTES_MAX: usize = 16 << 20;

/// Whether keys of this type can be gathered.
pub(super) fn is_key(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Int32 | DataType::Int64)
}

/// How many are gathered at most for a scan of so many rows.
pub(super) fn keys_max(rows: usize) -> usize {
    KEYS_MAX.min(rows / ROWS_OF_KEY_MIN)
}

/// What a join tells a scan below its other side.
#[derive(Debug)]
pub(crate) struct JoinKeys {
    /// How many may be gathered, of all threads.
    most: usize,
    gathered: Mutex<GatheredKeys>,
    set: OnceLock<KeySet>,
}

#[derive(Debug)]
struct GatheredKeys {
    /// Threads that have not come to their ends.
    collectors_left: usize,
    keys: Vec<i64>,
    /// Whether somebody could not gather all.
    is_incomplete: bool,
}

impl JoinKeys {
    /// To be gathered by so many threads, for a scan of a table of so many rows.
    pub(super) fn new(collectors: usize, rows: usize) -> Arc<JoinKeys> {
        let gathered = GatheredKeys { collectors_left: collectors, keys: Vec::new(), is_incomplete: false };
        Arc::new(JoinKeys { most: keys_max(rows), gathered: Mutex::new(gathered), set: OnceLock::new() })
    }

    /// All keys of the build side; `None` as long as not all are known, or for ever.
    pub(crate) fn set(&self) -> Option<&KeySet> {
        self.set.get()
    }

    fn end(&self, collected: Option<Vec<i64>>, memory: &MemoryReservation) {
        let mut gathered = self.gathered.lock();
        gathered.collectors_left = gathered.collectors_left.saturating_sub(1);
        match collected {
            Some(keys) if gathered.keys.len() + keys.len() <= self.most => gathered.keys.extend(keys),
            _ => gathered.is_incomplete = true,
        }
        if gathered.is_incomplete {
            gathered.keys = Vec::new();
        } else if gathered.collectors_left == 0
            && let Some(set) = KeySet::of(&std::mem::take(&mut gathered.keys), memory)
        {
            // Nobody else is the last one.
            let _ = self.set.set(set);
        }
    }
}

/// The keys that one thread has seen.
pub(super) struct KeyCollector {
    of: Arc<JoinKeys>,
    /// `None` where it has given up.
    keys: Option<Vec<i64>>,
}

impl KeyCollector {
    pub(super) fn new(of: Arc<JoinKeys>) -> KeyCollector {
        KeyCollector { of, keys: Some(Vec::new()) }
    }

    /// Adds those of a column that are not NULL, which equal nothing.
    pub(super) fn add(&mut self, column: &ArrayRef) {
        let Some(keys) = &mut self.keys else { return };
        match column.data_type() {
            DataType::Int32 => {
                keys.extend(column.as_primitive::<Int32Type>().iter().flatten().map(i64::from));
            }
            DataType::Int64 => keys.extend(column.as_primitive::<Int64Type>().iter().flatten()),
            _ => return self.give_up(),
        }
        if keys.len() > self.of.most {
            self.keys = None;
        }
    }

    /// Bytes of what it has gathered.
    pub(super) fn bytes(&self) -> usize {
        self.keys.as_ref().map_or(0, |keys| keys.capacity() * size_of::<i64>())
    }

    pub(super) fn give_up(&mut self) {
        self.keys = None;
    }

    /// It has seen all rows of its thread. The set that the last one makes is a part of the same memory.
    pub(super) fn end(&mut self, memory: &MemoryReservation) {
        self.of.end(self.keys.take(), memory);
    }
}

/// A set of integers.
#[derive(Debug)]
pub(crate) struct KeySet {
    bits: KeyBits,
    /// For its bits.
    _reserved: MemoryReservation,
}

impl KeySet {
    /// `None` if they lie too far apart, or there is no memory.
    fn of(keys: &[i64], memory: &MemoryReservation) -> Option<KeySet> {
        let bytes = KeyBits::bytes_of(keys).filter(|bytes| *bytes <= BYTES_MAX)?;
        let reserved = memory.new_empty();
        reserved.try_grow(bytes).ok()?;
        Some(KeySet { bits: KeyBits::of(keys)?, _reserved: reserved })
    }

    /// Whether a key may lie within bounds. Wide bounds are looked through in part.
    pub(crate) fn may_hold(&self, bounds: RangeInclusive<i64>) -> bool {
        self.bits.may_hold(bounds)
    }

    /// Keeps of rows those of which the column has a key that is in the set; `None`, and all of them, for another type.
    pub(crate) fn retain(&self, column: &ArrayRef, rows: &mut ListedRows) -> Option<()> {
        let kept = match column.data_type() {
            DataType::Int32 => self.kept(column.as_primitive::<Int32Type>().values(), rows),
            DataType::Int64 => self.kept(column.as_primitive::<Int64Type>().values(), rows),
            _ => return None,
        };
        if let Some(nulls) = column.nulls().filter(|nulls| nulls.null_count() > 0) {
            kept.retain(|&row| nulls.is_valid(row as usize));
        }
        Some(())
    }

    fn kept<'rows>(&self, values: &[impl Key], rows: &'rows mut ListedRows) -> &'rows mut Vec<u32> {
        if let Some(rows) = rows {
            self.bits.retain(values, rows);
        }
        rows.get_or_insert_with(|| self.bits.list(values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{Int32Array, Int64Array, StringArray};
    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryConsumer, MemoryPool};

    fn memory(bytes: usize) -> MemoryReservation {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(bytes));
        MemoryConsumer::new("keys").register(&pool)
    }

    #[test]
    fn rows_of_a_list_and_of_all_are_kept_that_have_a_key() {
        let narrow: ArrayRef =
            Arc::new(Int32Array::from(vec![Some(-3), None, Some(4), Some(5), Some(i32::MIN)]));
        let wide: ArrayRef =
            Arc::new(Int64Array::from(vec![Some(-3), None, Some(4), Some(5), Some(i64::MIN)]));
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["-3", "0", "4", "5", "6"]));
        for (keys, of, expected) in [
            (vec![4, -3, 0, 4], None, vec![0, 2]),
            (vec![4, -3, 0, 4], Some(vec![1, 2, 3]), vec![2]),
            (vec![], None, vec![]),
            (vec![], Some(vec![0, 1]), vec![]),
        ] {
            let set = KeySet::of(&keys, &memory(1 << 30)).expect("a set");
            for column in [&narrow, &wide] {
                let mut rows = of.clone();
                set.retain(column, &mut rows).expect("integers");
                assert_eq!(rows, Some(expected.clone()), "{keys:?} of {of:?}");
            }
            let mut rows = of.clone();
            assert!(set.retain(&texts, &mut rows).is_none());
            assert_eq!(rows, of);
        }
    }

    #[test]
    fn keys_that_lie_too_far_apart_make_no_set() {
        let memory = memory(BYTES_MAX);
        assert!(KeySet::of(&[i64::MIN, i64::MAX], &memory).is_none());
        assert!(KeySet::of(&[0, BYTES_MAX as i64 * 8 - 32], &memory).is_none());
        let set = KeySet::of(&[0, BYTES_MAX as i64 * 8 - 33], &memory);
        assert!(set.is_some());
        // Its memory is taken as long as it lives.
        assert!(KeySet::of(&[0, 64], &memory).is_none());
        drop(set);
        assert!(KeySet::of(&[0, 64], &memory).is_some());
    }

    #[test]
    fn a_set_is_there_when_all_threads_have_ended_and_nobody_has_given_up() {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![7]));
        for gives_up in [false, true] {
            let keys = JoinKeys::new(2, 100);
            let (mut one, mut other) = (KeyCollector::new(keys.clone()), KeyCollector::new(keys.clone()));
            one.add(&column);
            one.end(&memory(100));
            assert!(keys.set().is_none());
            if gives_up {
                other.give_up();
            }
            other.end(&memory(100));
            assert_eq!(keys.set().is_some(), !gives_up);
        }
    }

    #[test]
    fn keys_of_most_rows_make_no_set() {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10));
        for (rows, is_set) in [(80, true), (79, false)] {
            let keys = JoinKeys::new(1, rows);
            let mut collector = KeyCollector::new(keys.clone());
            collector.add(&column);
            collector.end(&memory(100));
            assert_eq!(keys.set().is_some(), is_set);
        }
    }
}
