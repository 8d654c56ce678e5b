//! Keys of many rows in the order of their index, to be entered one behind the other.
//!
//! Entries that come in key order find the path to their leaf in the processor's caches, and leave full leaves behind them.
//! A run is sorted by its keys' first eight bytes, which lie beside the rows; a key that has more bytes lies elsewhere as a whole, and is
//! looked at only where these are equal. Such keys are put in order, too, when a run is sorted, so that going through them in
//! order does not wait for the memory at each. Keys that were added in order are not sorted at all.
//!
//! Several runs are merged: entered one behind the other, each one after the first would find full leaves in its way and split
//! them, and in the end they would be half full. The order of all keys can be cut into parts, for a thread each.

use ankerdb_base::{Error, Result, RowId};
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// One key of a run.
#[derive(Clone, Copy)]
struct Place {
    /// The key's first bytes, padded with zeros.
    head: [u8; HEAD_BYTES],
    /// Where a key is that has more.
    start: u32,
    length: u32,
    row: RowId,
    has_null: bool,
}

/// Keys with their rows.
#[derive(Default)]
pub struct KeyRun {
    bytes: Vec<u8>,
    places: Vec<Place>,
    is_sorted: bool,
}

/// Bytes of a key that lie beside its row.
const HEAD_BYTES: usize = 8;
/// Bytes of runs that are worth being held to be merged.
pub const RUNS_BYTES_MAX: usize = 512 << 20;
/// Rows that one run takes at most: some dozen megabytes of keys.
const ROWS_MAX: usize = 1 << 20;
/// Bytes of keys that one run takes at most.
const BYTES_MAX: usize = 64 << 20;

impl KeyRun {
    /// No keys yet.
    pub fn new() -> KeyRun {
        KeyRun::default()
    }

    /// Whether it has as many keys as it should.
    pub fn is_full(&self) -> bool {
        self.places.len() >= ROWS_MAX || self.bytes.len() >= BYTES_MAX
    }

    /// Bytes of memory that its keys take.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.places.capacity() * size_of::<Place>()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Adds the key of a row, as `push` appends it; `push` returns whether a part is NULL, or `None` if there is no key.
    ///
    /// # Errors
    /// Those of `push`, and 53200 if there is no memory.
    pub fn add(&mut self, row: RowId, push: impl FnOnce(&mut Vec<u8>) -> Result<Option<bool>>) -> Result<()> {
        let reserved = self.places.try_reserve(1).and_then(|()| self.bytes.try_reserve(128));
        reserved
            .map_err(|_| Error::out_of_memory(self.bytes.len() + self.places.len() * size_of::<Place>()))?;
        let start = self.bytes.len();
        let Some(has_null) = push(&mut self.bytes)? else {
            self.bytes.truncate(start);
            return Ok(());
        };
        let key = &self.bytes[start..];
        let (head, length) = (head_of(key), key.len() as u32);
        if key.len() <= HEAD_BYTES {
            self.bytes.truncate(start);
        }
        let place = Place { head, start: start as u32, length, row, has_null };
        let goes_on = self.places.last().is_none_or(|last| compare((self, last), (self, &place)).is_le());
        self.is_sorted = goes_on && (self.is_sorted || self.places.is_empty());
        self.places.push(place);
        Ok(())
    }

    #[inline]
    fn key<'r>(&'r self, place: &'r Place) -> &'r [u8] {
        match place.length as usize {
            length @ ..=HEAD_BYTES => &place.head[..length],
            length => &self.bytes[place.start as usize..][..length],
        }
    }

    /// Whether the keys have come in order, or have been sorted.
    pub fn is_sorted(&self) -> bool {
        self.is_sorted
    }

    /// Sorts the keys: in their order, those of one key in the order of their rows.
    pub fn sort(&mut self) {
        if !std::mem::replace(&mut self.is_sorted, true) {
            let mut places = std::mem::take(&mut self.places);
            places.sort_unstable_by(|one, other| compare((self, one), (self, other)));
            let mut bytes = Vec::new();
            // Without memory they stay as they are.
            if bytes.try_reserve(self.bytes.len()).is_ok() {
                for place in places.iter_mut().filter(|place| place.length as usize > HEAD_BYTES) {
                    let start = bytes.len() as u32;
                    bytes.extend_from_slice(self.key(place));
                    place.start = start;
                }
                self.bytes = bytes;
            }
            self.places = places;
        }
    }
}

/// Orders two keys of runs, equal ones by their rows.
#[inline]
fn compare((run, one): (&KeyRun, &Place), (other_run, other): (&KeyRun, &Place)) -> Ordering {
    u64::from_be_bytes(one.head)
        .cmp(&u64::from_be_bytes(other.head))
        .then_with(|| match one.length.min(other.length) as usize {
            // The shorter one begins the longer one: what the head has of it is followed by zeros, and the heads are equal.
            ..=HEAD_BYTES => one.length.cmp(&other.length),
            _ => run.key(one)[HEAD_BYTES..].cmp(&other_run.key(other)[HEAD_BYTES..]),
        })
        .then_with(|| one.row.cmp(&other.row))
}

/// A part of the order of all keys of several runs: an iterator over the keys, each with its row and whether a part of it is
/// NULL. A step costs a few comparisons for each doubling of the runs.
pub struct MergedKeys<'r> {
    sources: BinaryHeap<Reverse<Source<'r>>>,
}

/// What is left of a run.
struct Source<'r> {
    run: &'r KeyRun,
    next: &'r Place,
    behind: &'r [Place],
}

impl<'r> MergedKeys<'r> {
    /// Cuts the order of all keys of runs that are sorted into at most so many parts, about equally long where the longest run
    /// is like the others. No two parts have a key in common.
    pub fn parts(runs: &'r [KeyRun], count: usize) -> Vec<MergedKeys<'r>> {
        let Some(longest) = runs.iter().max_by_key(|run| run.places.len()) else { return Vec::new() };
        debug_assert!(runs.iter().all(|run| run.is_sorted || run.is_empty()));
        let mut rest: Vec<(&KeyRun, &[Place])> = runs.iter().map(|run| (run, &run.places[..])).collect();
        let mut parts = Vec::with_capacity(count);
        for part in 1..=count {
            let end = longest.places.get(part * longest.places.len() / count).filter(|_| part < count);
            let cut = rest.iter_mut().filter_map(|(run, places)| {
                let taken = match end {
                    Some(end) => places.partition_point(|place| run.key(place) < longest.key(end)),
                    None => places.len(),
                };
                let (before, behind) = places.split_at(taken);
                *places = behind;
                Source::new(run, before).map(Reverse)
            });
            parts.push(MergedKeys { sources: cut.collect() });
        }
        parts.retain(|part| !part.sources.is_empty());
        parts
    }

    /// All keys of runs that are sorted.
    pub fn all(runs: &'r [KeyRun]) -> MergedKeys<'r> {
        MergedKeys::parts(runs, 1).pop().unwrap_or(MergedKeys { sources: BinaryHeap::new() })
    }
}

impl<'r> Source<'r> {
    fn new(run: &'r KeyRun, places: &'r [Place]) -> Option<Source<'r>> {
        places.split_first().map(|(next, behind)| Source { run, next, behind })
    }
}

impl<'r> Iterator for MergedKeys<'r> {
    type Item = (&'r [u8], RowId, bool);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let mut first = self.sources.peek_mut()?;
        let Source { run, next, behind } = &first.0;
        let (run, next, behind) = (*run, *next, *behind);
        match Source::new(run, behind) {
            Some(source) => first.0 = source,
            None => drop(PeekMut::pop(first)),
        }
        Some((run.key(next), next.row, next.has_null))
    }
}

impl Ord for Source<'_> {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        compare((self.run, self.next), (other.run, other.next))
    }
}

impl PartialOrd for Source<'_> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Source<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Source<'_> {}

/// The first bytes, padded with zeros.
#[inline]
fn head_of(key: &[u8]) -> [u8; HEAD_BYTES] {
    match key.first_chunk() {
        Some(head) => *head,
        None => {
            let mut head = [0; HEAD_BYTES];
            head[..key.len()].copy_from_slice(key);
            head
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ankerdb_base::BlockNumber;
    use proptest::collection::vec;
    use proptest::{prop_assert, prop_assert_eq, proptest};

    /// Keys that differ in length, in the first bytes, behind them, or in nothing but their rows.
    #[test]
    fn keys_come_in_their_bytes_order_and_then_by_row() {
        let keys: [&[u8]; 9] = [
            b"",
            b"\0",
            b"\0\0\0\0\0\0\0\0",
            b"\0\0\0\0\0\0\0\0\0",
            b"abcdefgh",
            b"abcdefghi",
            b"abcdefgh\0",
            b"b",
            b"\xff",
        ];
        for turn in 0..3 {
            let (mut run, mut expected) = (KeyRun::new(), Vec::new());
            for number in 0..200usize {
                // Ascending in the first turn, mixed in the others.
                let pick = if turn == 0 { number / 23 } else { number * 7 % keys.len() };
                let row = RowId::new(BlockNumber(0), if turn == 2 { 200 - number } else { number });
                run.add(row, |out| {
                    out.extend_from_slice(keys[pick]);
                    Ok(Some(pick == 3))
                })
                .unwrap();
                expected.push((keys[pick].to_vec(), row, pick == 3));
            }
            run.add(RowId::new(BlockNumber(1), 0), |out| {
                out.push(1);
                Ok(None)
            })
            .unwrap();
            expected.sort();
            run.sort();
            let found = MergedKeys::all(std::slice::from_ref(&run));
            let found: Vec<_> = found.map(|(key, row, null)| (key.to_vec(), row, null)).collect();
            assert_eq!(found, expected);
        }
    }

    proptest! {
        /// Whatever runs there are, their parts one behind the other are all keys in order, and no key is in two parts.
        #[test]
        fn runs_are_merged_in_parts(
            keys in vec(vec((0u8..3, 0usize..12), 0..60), 0..6),
            count in 1usize..5,
        ) {
            let mut expected = Vec::new();
            let fill = |(number, keys): (usize, &Vec<(u8, usize)>)| {
                let mut run = KeyRun::new();
                for (offset, (byte, length)) in keys.iter().enumerate() {
                    let (row, key) = (RowId::new(BlockNumber(number), offset), vec![*byte; *length]);
                    let added = run.add(row, |out| {
                        out.extend_from_slice(&key);
                        Ok(Some(false))
                    });
                    added.unwrap();
                    expected.push((key, row, false));
                }
                run.sort();
                run
            };
            let runs: Vec<KeyRun> = keys.iter().enumerate().map(fill).collect();
            expected.sort();
            let parts = MergedKeys::parts(&runs, count);
            prop_assert!(parts.len() <= count);
            let mut found: Vec<(Vec<u8>, RowId, bool)> = Vec::new();
            for part in parts {
                let before = found.len();
                found.extend(part.map(|(key, row, null)| (key.to_vec(), row, null)));
                prop_assert!(found.len() > before, "a part without a key");
                prop_assert!(before == 0 || found[before - 1].0 < found[before].0, "a key in two parts");
            }
            prop_assert_eq!(found, expected.clone());
            prop_assert_eq!(MergedKeys::all(&runs).count(), expected.len());
        }
    }
}
