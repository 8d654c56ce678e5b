//! The keys of a join's build side, as a set that a scan asks.
//!
//! Each thread of the build side gathers the keys that it sees ([`KeyCollector`]). When the last one has seen all, the set is there
//! ([`JoinKeys::set`]): one bit for each integer between the least and the greatest key. Where that would be too many, or the keys are, there is
//! never one, and the join does without.

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
/// Words of a set that are looked at for a block: as many as there are for half a million of keys in a row.
const WORDS_LOOKED_AT: usize = 8192;
/// Bits of the largest set: 16 MiB, of which few keys touch a few pages.
const BITS_MAX: u64 = 1 << 27;

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

/// Keeps the rows of a list for which this is so, without a branch that goes either way.
fn keep(rows: &mut Vec<u32>, is_kept: impl Fn(usize) -> bool) {
    let mut kept = 0;
    for at in 0..rows.len() {
        let row = rows[at];
        rows[kept] = row;
        kept += usize::from(is_kept(row as usize));
    }
    rows.truncate(kept);
}

/// A set of integers.
#[derive(Debug)]
pub(crate) struct KeySet {
    least: i64,
    bits: Vec<u64>,
    /// For its bits.
    _reserved: MemoryReservation,
}

impl KeySet {
    /// `None` if they lie too far apart, or there is no memory.
    fn of(keys: &[i64], memory: &MemoryReservation) -> Option<KeySet> {
        let reserved = memory.new_empty();
        let (Some(&least), Some(&greatest)) = (keys.iter().min(), keys.iter().max()) else {
            return Some(KeySet { least: 0, bits: Vec::new(), _reserved: reserved });
        };
        let places = greatest.abs_diff(least);
        if places >= BITS_MAX {
            return None;
        }
        let words = places as usize / 64 + 1;
        reserved.try_grow(words * size_of::<u64>()).ok()?;
        let mut bits = vec![0; words];
        for &key in keys {
            let place = key.abs_diff(least);
            bits[(place / 64) as usize] |= 1 << (place % 64);
        }
        Some(KeySet { least, bits, _reserved: reserved })
    }

    fn contains(&self, key: i64) -> bool {
        let place = key.wrapping_sub(self.least) as u64;
        self.bits.get((place / 64) as usize).is_some_and(|word| word >> (place % 64) & 1 != 0)
    }

    /// Whether a key may lie within bounds. Wide bounds are looked through in part.
    pub(crate) fn may_hold(&self, bounds: RangeInclusive<i64>) -> bool {
        let places = (self.bits.len() as i128) << 6;
        let place = |number: i64| i128::from(number) - i128::from(self.least);
        let (first, last) = (place(*bounds.start()).max(0), place(*bounds.end()).min(places - 1));
        if first > last {
            return false;
        }
        let (first, last) = (first as usize, last as usize);
        let words = first / 64..=last / 64;
        words.clone().count() > WORDS_LOOKED_AT
            || words.into_iter().any(|at| {
                let from = if at == first / 64 { !0 << (first % 64) } else { !0 };
                let to = if at == last / 64 { !0 >> (63 - last % 64) } else { !0 };
                self.bits[at] & from & to != 0
            })
    }

    /// Keeps of a list of rows those of which the column has a key that is in the set; `None`, and all of them, for another type.
    pub(crate) fn retain(&self, column: &ArrayRef, rows: &mut Vec<u32>) -> Option<()> {
        match column.data_type() {
            DataType::Int32 => {
                let values = column.as_primitive::<Int32Type>().values();
                keep(rows, |row| self.contains(values[row].into()));
            }
            DataType::Int64 => {
                let values = column.as_primitive::<Int64Type>().values();
                keep(rows, |row| self.contains(values[row]));
            }
            _ => return None,
        }
        if column.null_count() > 0 {
            keep(rows, |row| column.is_valid(row));
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{Int32Array, Int64Array};
    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryConsumer, MemoryPool};

    fn memory(bytes: usize) -> MemoryReservation {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(bytes));
        MemoryConsumer::new("keys").register(&pool)
    }

    fn held(keys: &[i64], column: ArrayRef) -> Vec<bool> {
        let set = KeySet::of(keys, &memory(1 << 30)).expect("a set");
        let mut rows: Vec<u32> = (0..column.len() as u32).collect();
        set.retain(&column, &mut rows).expect("integers");
        (0..column.len() as u32).map(|row| rows.contains(&row)).collect()
    }

    #[test]
    fn a_set_has_its_keys_and_no_others() {
        let column: ArrayRef =
            Arc::new(Int32Array::from(vec![Some(-3), None, Some(4), Some(5), Some(i32::MIN)]));
        assert_eq!(held(&[4, -3, 4], column.clone()), [true, false, true, false, false]);
        assert_eq!(held(&[], column), [false; 5]);
        let ends: ArrayRef = Arc::new(Int64Array::from(vec![i64::MIN, i64::MAX, 0]));
        assert_eq!(held(&[i64::MAX, i64::MAX - 1], ends.clone()), [false, true, false]);
        assert_eq!(held(&[i64::MIN, i64::MIN + 100], ends), [true, false, false]);
    }

    #[test]
    fn bounds_may_hold_a_key_where_one_lies_within_them() {
        let keys = [-700, -3, 0, 61, 62, 200, 1000];
        let set = KeySet::of(&keys, &memory(1 << 30)).expect("a set");
        for start in (-900..1200).step_by(7) {
            for width in [-1, 0, 1, 2, 61, 63, 64, 65, 127, 300, 5000] {
                let bounds = start..=start + width;
                let has_one = keys.iter().any(|key| bounds.contains(key));
                assert_eq!(set.may_hold(bounds.clone()), has_one, "{bounds:?}");
            }
        }
        assert!(set.may_hold(i64::MIN..=i64::MAX) && set.may_hold(i64::MIN..=-700));
        assert!(!set.may_hold(i64::MIN..=-701) && !set.may_hold(1001..=i64::MAX));
        let ends = KeySet::of(&[i64::MAX], &memory(1 << 30)).expect("a set");
        assert!(ends.may_hold(0..=i64::MAX) && !ends.may_hold(i64::MIN..=i64::MAX - 1));
        assert!(!KeySet::of(&[], &memory(100)).expect("a set").may_hold(i64::MIN..=i64::MAX));
        // More than is looked at.
        let far = KeySet::of(&[0, 10_000_000], &memory(1 << 30)).expect("a set");
        assert!(far.may_hold(1..=9_999_999) && !far.may_hold(1..=100_000));
    }

    #[test]
    fn keys_that_lie_too_far_apart_make_no_set() {
        let memory = memory(BITS_MAX as usize / 8);
        assert!(KeySet::of(&[i64::MIN, i64::MAX], &memory).is_none());
        assert!(KeySet::of(&[0, BITS_MAX as i64], &memory).is_none());
        let set = KeySet::of(&[0, BITS_MAX as i64 - 1], &memory);
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
