//! The entries of an index, kept in the way that the index was declared with.
//!
//! Operations on whole keys cost what they cost in the structure underneath. Ranges need the ordered tree: a hash
//! index answers them, too, but by looking at all of its entries, so planners do not use it for that.

use crate::schema::IndexKind;
use ankerdb_base::Result;
use ankerdb_index::{Direction, HashIndex, OrderedIndex, UniqueInsert};
use std::ops::{Bound, ControlFlow};

/// A concurrent multimap from keys to rows; see `ankerdb_index` for what each method promises.
#[expect(
    clippy::large_enum_variant,
    reason = "one for each index; a box would be one more miss for each lookup"
)]
pub enum Entries {
    /// A tree in key order.
    Ordered(OrderedIndex),
    /// A hash table.
    Hash(HashIndex),
}

impl Entries {
    /// No entries.
    pub(crate) fn new(kind: IndexKind) -> Entries {
        match kind {
            IndexKind::Ordered => Entries::Ordered(OrderedIndex::new()),
            IndexKind::Hash => Entries::Hash(HashIndex::new()),
        }
    }

    /// Inserts the entry; false if it was there already.
    ///
    /// # Errors
    /// 54000 if the key is too long.
    #[inline]
    pub fn insert(&self, key: &[u8], row: u64) -> Result<bool> {
        match self {
            Entries::Ordered(index) => index.insert(key, row),
            Entries::Hash(index) => index.insert(key, row),
        }
    }

    /// Inserts the entry unless another one with the same key is a conflict, as `conflicts` says.
    ///
    /// # Errors
    /// 54000 if the key is too long.
    #[inline]
    pub fn insert_unique<C>(
        &self,
        key: &[u8],
        row: u64,
        conflicts: impl FnMut(u64) -> Option<C>,
    ) -> Result<UniqueInsert<C>> {
        match self {
            Entries::Ordered(index) => index.insert_unique(key, row, conflicts),
            Entries::Hash(index) => index.insert_unique(key, row, conflicts),
        }
    }

    /// Removes the entry; false if it was not there.
    #[inline]
    pub fn remove(&self, key: &[u8], row: u64) -> bool {
        match self {
            Entries::Ordered(index) => index.remove(key, row),
            Entries::Hash(index) => index.remove(key, row),
        }
    }

    /// Visits all rows with exactly this key, in ascending order, until `visit` breaks.
    #[inline]
    pub fn get(&self, key: &[u8], visit: impl FnMut(u64) -> ControlFlow<()>) {
        match self {
            Entries::Ordered(index) => index.get(key, visit),
            Entries::Hash(index) => index.get(key, visit),
        }
    }

    /// Asks for the memory that a lookup of this key begins with, where that is known without looking.
    #[inline]
    pub fn prefetch(&self, key: &[u8]) {
        if let Entries::Hash(index) = self {
            index.prefetch(key);
        }
    }

    /// Visits all entries, those of one key one after the other, until `visit` breaks. In key order only if there is one.
    pub fn visit_all(&self, visit: impl FnMut(&[u8], u64) -> ControlFlow<()>) {
        match self {
            Entries::Ordered(index) => {
                index.scan(Bound::Unbounded, Bound::Unbounded, Direction::Forward, visit);
            }
            Entries::Hash(index) => index.visit_all(visit),
        }
    }

    /// Visits the entries in a range in key order (or the reverse), until `visit` breaks. Of a hash index: at once for
    /// the range from a key to the same key, both included, and for any other one by sorting what a look at all
    /// entries has found.
    pub fn scan(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        direction: Direction,
        mut visit: impl FnMut(&[u8], u64) -> ControlFlow<()>,
    ) {
        match self {
            Entries::Ordered(index) => index.scan(lower, upper, direction, visit),
            Entries::Hash(index) => match (lower, upper) {
                (Bound::Included(key), Bound::Included(last)) if key == last => {
                    index.get(key, |row| visit(key, row));
                }
                _ => scan_all(index, lower, upper, direction, visit),
            },
        }
    }

    /// Like [`scan`](Self::scan), but an ordered index leaves out entries that are [marked](Self::mark_dead)
    /// dead.
    #[inline]
    pub fn scan_since(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        direction: Direction,
        since: u64,
        visit: impl FnMut(&[u8], u64) -> ControlFlow<()>,
    ) {
        match self {
            Entries::Ordered(index) => index.scan_since(lower, upper, direction, since, visit),
            Entries::Hash(_) => self.scan(lower, upper, direction, visit),
        }
    }

    /// Makes later scans leave out the entries around one, if `dead_from` knows for each of their rows since when it is
    /// dead; see [`OrderedIndex::mark_dead`]. Returns whether they will.
    pub fn mark_dead(&self, key: &[u8], row: u64, dead_from: impl FnMut(u64) -> Option<u64>) -> bool {
        match self {
            Entries::Ordered(index) => index.mark_dead(key, row, dead_from),
            Entries::Hash(_) => false,
        }
    }

    /// The number of entries; approximate while others insert and remove.
    pub fn len(&self) -> usize {
        match self {
            Entries::Ordered(index) => index.len(),
            Entries::Hash(index) => index.len(),
        }
    }

    /// Whether there are no entries; approximate while others insert and remove.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of heap memory, approximately.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Entries::Ordered(index) => index.memory_bytes(),
            Entries::Hash(index) => index.memory_bytes(),
        }
    }
}

#[cold]
fn scan_all(
    index: &HashIndex,
    lower: Bound<&[u8]>,
    upper: Bound<&[u8]>,
    direction: Direction,
    mut visit: impl FnMut(&[u8], u64) -> ControlFlow<()>,
) {
    let is_behind = |key: &[u8]| match lower {
        Bound::Included(lower) => key >= lower,
        Bound::Excluded(lower) => key > lower,
        Bound::Unbounded => true,
    };
    let is_before = |key: &[u8]| match upper {
        Bound::Included(upper) => key <= upper,
        Bound::Excluded(upper) => key < upper,
        Bound::Unbounded => true,
    };
    let mut found: Vec<(Vec<u8>, u64)> = Vec::new();
    index.visit_all(|key, row| {
        if is_behind(key) && is_before(key) {
            found.push((key.to_vec(), row));
        }
        ControlFlow::Continue(())
    });
    found.sort_unstable();
    if direction == Direction::Backward {
        found.reverse();
    }
    let _ = found.iter().try_for_each(|(key, row)| visit(key, *row));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(kind: IndexKind) -> Entries {
        let entries = Entries::new(kind);
        for number in 0..500u64 {
            let key = (number / 2).to_be_bytes();
            assert!(entries.insert(&key, number).unwrap());
        }
        entries
    }

    #[test]
    fn both_kinds_answer_alike() {
        let (ordered, hash) = (entries(IndexKind::Ordered), entries(IndexKind::Hash));
        let key = |number: u64| number.to_be_bytes();
        let (low, high) = (key(17), key(200));
        let bounds = [
            (Bound::Included(&low[..]), Bound::Included(&low[..])),
            (Bound::Included(&low[..]), Bound::Excluded(&high[..])),
            (Bound::Excluded(&low[..]), Bound::Unbounded),
            (Bound::Unbounded, Bound::Included(&high[..])),
            (Bound::Unbounded, Bound::Unbounded),
            (Bound::Included(&high[..]), Bound::Included(&low[..])),
        ];
        let scan = |entries: &Entries, (lower, upper), direction, limit: usize| {
            let mut found = Vec::new();
            entries.scan(lower, upper, direction, |key, row| {
                found.push((key.to_vec(), row));
                if found.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            found
        };
        for (number, &bounds) in bounds.iter().enumerate() {
            let expected = scan(&ordered, bounds, Direction::Forward, 1_000);
            assert_eq!(expected.is_empty(), number == 5);
            assert_eq!(scan(&hash, bounds, Direction::Forward, 1_000), expected);
            assert_eq!(
                scan(&hash, bounds, Direction::Forward, 5),
                scan(&ordered, bounds, Direction::Forward, 5)
            );
            if number > 0 {
                let expected = scan(&ordered, bounds, Direction::Backward, 1_000);
                assert_eq!(scan(&hash, bounds, Direction::Backward, 1_000), expected);
            }
        }
        let mut found = Vec::new();
        hash.visit_all(|key, row| {
            found.push((key.to_vec(), row));
            ControlFlow::Continue(())
        });
        found.sort_unstable();
        assert_eq!(found, scan(&ordered, bounds[4], Direction::Forward, 1_000));
        assert!(hash.remove(&low, 34) && !hash.remove(&low, 34));
        assert_eq!((hash.len(), hash.is_empty()), (499, false));
    }
}
