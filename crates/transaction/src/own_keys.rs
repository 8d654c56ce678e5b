//! The keys of a transaction's pending rows in one index: what its own lookups and scans have to find.
//!
//! Made when an index is first asked for them, and from then on kept up to date: a lookup takes in what was written since
//! the last one, and rows whose keys have changed again move. So a lookup costs the logarithm of the number of
//! pending rows, and a transaction of a million statements that each look and write is not quadratic.

use crate::number_map::NumberMap;
use ankerdb_base::{ColumnSet, RowId};
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

/// Bytes of a key that lie in the node of the map, where comparing them costs no further cache miss.
const INLINE_BYTES: usize = 22;

/// An encoded key. Ordered by its bytes.
#[derive(Clone, Debug)]
pub(crate) enum Key {
    Short { length: u8, bytes: [u8; INLINE_BYTES] },
    Long(Arc<[u8]>),
}

impl From<&[u8]> for Key {
    fn from(key: &[u8]) -> Key {
        let mut bytes = [0; INLINE_BYTES];
        match bytes.get_mut(..key.len()) {
            Some(place) => {
                place.copy_from_slice(key);
                Key::Short { length: key.len() as u8, bytes }
            }
            None => Key::Long(key.into()),
        }
    }
}

impl std::ops::Deref for Key {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Key::Short { length, bytes } => &bytes[..usize::from(*length)],
            Key::Long(bytes) => bytes,
        }
    }
}

impl Borrow<[u8]> for Key {
    #[inline]
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        **self == **other
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Key) -> Ordering {
        (**self).cmp(&**other)
    }
}

/// Keys of pending rows in one index.
pub(crate) struct OwnKeys {
    /// The number of the table, and the position of the index.
    pub place: (usize, usize),
    key_columns: ColumnSet,
    rows: BTreeMap<Key, Rows>,
    /// The key under which the row of each write is entered.
    keys: NumberMap<usize, Key>,
    /// Writes looked at so far.
    pub absorbed: usize,
    /// Those among them that have changed since.
    changed: Vec<usize>,
}

/// The rows with one key: usually one.
enum Rows {
    One(RowId),
    Several(BTreeSet<RowId>),
}

impl OwnKeys {
    pub fn new(place: (usize, usize), key_columns: ColumnSet) -> OwnKeys {
        OwnKeys {
            place,
            key_columns,
            rows: BTreeMap::new(),
            keys: NumberMap::default(),
            absorbed: 0,
            changed: Vec::new(),
        }
    }

    /// A write has changed these columns, or was taken back (all).
    pub fn note_change(&mut self, table: usize, write: usize, columns: ColumnSet) {
        if self.place.0 == table && write < self.absorbed && self.key_columns.intersects(columns) {
            self.changed.push(write);
        }
    }

    /// The next write that has changed; its former key is forgotten. `row` is that of the write.
    pub fn take_changed(&mut self, row: impl FnOnce(usize) -> RowId) -> Option<usize> {
        let write = self.changed.pop()?;
        if let Some(key) = self.keys.remove(&write) {
            self.remove(&key, row(write));
        }
        Some(write)
    }

    /// Enters the key of a write's row.
    pub fn add(&mut self, write: usize, key: &[u8], row: RowId) {
        let key: Key = key.into();
        self.keys.insert(write, key.clone());
        self.rows.entry(key).and_modify(|rows| rows.add(row)).or_insert(Rows::One(row));
    }

    fn remove(&mut self, key: &[u8], row: RowId) {
        match self.rows.get_mut(key) {
            Some(Rows::Several(rows)) => {
                rows.remove(&row);
                if rows.is_empty() {
                    self.rows.remove(key);
                }
            }
            Some(Rows::One(_)) => {
                self.rows.remove(key);
            }
            None => {}
        }
    }

    /// The keys and rows between two bounds, in order.
    pub fn between<'a>(
        &'a self,
        (lower, upper): (Bound<&[u8]>, Bound<&[u8]>),
    ) -> impl Iterator<Item = (&'a Key, RowId)> {
        let range = (!is_empty(lower, upper)).then(|| self.rows.range::<[u8], _>((lower, upper)));
        range.into_iter().flatten().flat_map(|(key, rows)| rows.iter().map(move |row| (key, row)))
    }
}

impl Rows {
    fn add(&mut self, row: RowId) {
        match self {
            Rows::One(first) => *self = Rows::Several([*first, row].into()),
            Rows::Several(rows) => {
                rows.insert(row);
            }
        }
    }

    fn iter(&self) -> impl Iterator<Item = RowId> {
        let (one, several) = match self {
            Rows::One(row) => (Some(*row), None),
            Rows::Several(rows) => (None, Some(rows)),
        };
        one.into_iter().chain(several.into_iter().flatten().copied())
    }
}

/// Whether nothing lies between the bounds, whatever the keys.
fn is_empty(lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> bool {
    match (lower, upper) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(lower), Bound::Included(upper)) => lower > upper,
        (
            Bound::Included(lower) | Bound::Excluded(lower),
            Bound::Included(upper) | Bound::Excluded(upper),
        ) => lower >= upper,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(own: &OwnKeys, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> Vec<(u8, u64)> {
        own.between((lower, upper)).map(|(key, row)| (key[0], row.0)).collect()
    }

    #[test]
    fn rows_are_found_under_the_keys_that_they_have_now() {
        let mut own = OwnKeys::new((0, 0), ColumnSet::of(&[1]));
        for (write, key) in [5u8, 3, 5, 9].into_iter().enumerate() {
            own.add(write, &[key], RowId(10 + write as u64));
            own.absorbed = write + 1;
        }
        let all = (Bound::Unbounded, Bound::Unbounded);
        assert_eq!(found(&own, all.0, all.1), [(3, 11), (5, 10), (5, 12), (9, 13)]);
        own.note_change(0, 2, ColumnSet::of(&[0]));
        own.note_change(1, 2, ColumnSet::of(&[1]));
        own.note_change(0, 4, ColumnSet::of(&[1]));
        assert!(
            own.take_changed(|_| unreachable!()).is_none(),
            "another column, another table, not yet seen"
        );
        for (write, key) in [(2, 4), (1, 5)] {
            own.note_change(0, write, ColumnSet::ALL);
            assert_eq!(own.take_changed(|write| RowId(10 + write as u64)), Some(write));
            own.add(write, &[key], RowId(10 + write as u64));
        }
        assert_eq!(found(&own, all.0, all.1), [(4, 12), (5, 10), (5, 11), (9, 13)]);
    }

    #[test]
    fn keys_are_ordered_by_their_bytes_whatever_their_length() {
        let mut bytes: Vec<Vec<u8>> = (0..60).map(|length| vec![7; length]).collect();
        bytes.extend((0..60).map(|length| [vec![7; length], vec![3]].concat()));
        let mut keys: Vec<Key> = bytes.iter().map(|bytes| Key::from(&bytes[..])).collect();
        bytes.sort();
        keys.sort();
        assert!(keys.iter().zip(&bytes).all(|(key, bytes)| **key == bytes[..]));
    }

    #[test]
    fn ranges_have_the_bounds_that_were_asked_for() {
        let mut own = OwnKeys::new((0, 0), ColumnSet::ALL);
        (1..=4u8).for_each(|key| own.add(key.into(), &[key], RowId(key.into())));
        let keys = |lower, upper| found(&own, lower, upper).iter().map(|found| found.0).collect::<Vec<_>>();
        let (two, three): (&[u8], &[u8]) = (&[2], &[3]);
        assert_eq!(keys(Bound::Included(two), Bound::Included(three)), [2, 3]);
        assert_eq!(keys(Bound::Excluded(two), Bound::Unbounded), [3, 4]);
        assert_eq!(keys(Bound::Unbounded, Bound::Excluded(three)), [1, 2]);
        assert!(keys(Bound::Excluded(two), Bound::Excluded(two)).is_empty());
        assert!(keys(Bound::Included(three), Bound::Included(two)).is_empty());
        assert!(keys(Bound::Excluded(two), Bound::Excluded(three)).is_empty());
    }
}
