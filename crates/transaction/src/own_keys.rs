//! The keys of a transaction's pending rows in one index, which its own lookups and scans have to find.
//!
//! The map is made when an index first needs it, and kept up to date from then on: a lookup takes in what was written
//! since the last one, and rows whose keys have changed again move. So a lookup costs the logarithm of the number of
//! pending rows, and a transaction of a million statements that each look and write is not quadratic.
//!
//! # Scans
//! A scan visits the keys as they were when it began, whatever is written meanwhile, and takes them out a few at a time
//! ([`OwnScan`]), so that it costs what it visits. For that, each entry tells from which turn of a clock until which it
//! holds; a scan begins in a turn of its own. While a scan is open, entries that have ended stay:
//!
//! ```text
//! turn        0        │ 1 scan begins              │ 2
//! row 7       key 5 ───┼── key 5 becomes 9 ──► ended at 1, kept for the scan    key 9 from 1: not for the scan
//! ```

use ankerdb_base::{ColumnSet, Error, IndexPosition, Result, RowId};
use ankerdb_index::Direction;
use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::{BTreeMap, TryReserveError, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

/// Bytes of a key that lie in the node of the map, where comparing them costs no further cache miss.
const INLINE_BYTES: usize = 22;

/// An encoded key. Ordered by its bytes.
#[derive(Clone, Debug)]
pub(crate) enum EncodedKey {
    Short { length: u8, bytes: [u8; INLINE_BYTES] },
    Long(Arc<[u8]>),
}

impl From<&[u8]> for EncodedKey {
    fn from(key: &[u8]) -> EncodedKey {
        let mut bytes = [0; INLINE_BYTES];
        match bytes.get_mut(..key.len()) {
            Some(place) => {
                place.copy_from_slice(key);
                EncodedKey::Short { length: key.len() as u8, bytes }
            }
            None => EncodedKey::Long(key.into()),
        }
    }
}

impl std::ops::Deref for EncodedKey {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            EncodedKey::Short { length, bytes } => &bytes[..usize::from(*length)],
            EncodedKey::Long(bytes) => bytes,
        }
    }
}

impl PartialEq for EncodedKey {
    fn eq(&self, other: &EncodedKey) -> bool {
        **self == **other
    }
}

impl Eq for EncodedKey {}

impl PartialOrd for EncodedKey {
    fn partial_cmp(&self, other: &EncodedKey) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for EncodedKey {
    fn cmp(&self, other: &EncodedKey) -> Ordering {
        (**self).cmp(&**other)
    }
}

/// A row under a key that it has from a turn on.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    key: EncodedKey,
    row: RowId,
    from: u64,
}

/// The end of an entry that has not ended.
const ALWAYS: u64 = u64::MAX;

/// Keys of pending rows in one index.
pub(crate) struct OwnKeys {
    /// The number of the table, and the position of the index.
    pub place: (usize, IndexPosition),
    key_columns: ColumnSet,
    /// Entries, and the turns in which they ended.
    entries: BTreeMap<Entry, u64>,
    /// The entry of each write's row, if it has one, by the writes' numbers.
    current: Vec<Option<Entry>>,
    /// Those writes among `current` that have changed since.
    changed: Vec<usize>,
    /// Open scans.
    scans: usize,
    /// Entries that are kept for them.
    ended: Vec<Entry>,
    /// Entries that scans and lookups have looked at, for tests that count work.
    looked_at: Cell<usize>,
}

impl OwnKeys {
    pub(crate) fn new(place: (usize, IndexPosition), key_columns: ColumnSet) -> OwnKeys {
        OwnKeys {
            place,
            key_columns,
            entries: BTreeMap::new(),
            current: Vec::new(),
            changed: Vec::new(),
            scans: 0,
            ended: Vec::new(),
            looked_at: Cell::new(0),
        }
    }

    /// Makes room to take one more write in, but for the nodes of the tree.
    ///
    /// # Errors
    /// `OutOfMemory`.
    #[inline]
    pub(crate) fn make_room(&mut self) -> Result<()> {
        let reserved = self.current.try_reserve(1).and_then(|()| self.ended.try_reserve(1));
        reserved.map_err(|_| Error::out_of_memory(2 * self.current.len() * size_of::<Option<Entry>>()))
    }

    /// Whether a change of what it knows can be noted.
    pub(crate) fn can_note(&self) -> bool {
        self.changed.len() < self.changed.capacity()
    }

    /// Makes room to note a change.
    pub(crate) fn try_grow(&mut self) -> Result<(), TryReserveError> {
        self.changed.try_reserve(1)
    }

    /// Writes looked at so far.
    pub(crate) fn absorbed(&self) -> usize {
        self.current.len()
    }

    /// A write has changed these columns, or was taken back (all).
    pub(crate) fn note_change(&mut self, table: usize, write: usize, columns: ColumnSet) {
        if self.place.0 == table && write < self.absorbed() && self.key_columns.intersects(columns) {
            self.changed.push(write);
        }
    }

    /// Whether there is a write that has changed.
    pub(crate) fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// The next write that has changed; its former key ends in this turn.
    pub(crate) fn take_changed(&mut self, turn: u64) -> Option<usize> {
        let write = self.changed.pop()?;
        if let Some(entry) = self.current[write].take() {
            self.end_entry(entry, turn);
        }
        Some(write)
    }

    /// An entry ends in this turn.
    fn end_entry(&mut self, entry: Entry, turn: u64) {
        if self.scans > 0 && entry.from < turn {
            self.entries.insert(entry.clone(), turn);
            self.ended.push(entry);
        } else {
            self.entries.remove(&entry);
        }
    }

    /// All writes but the first so many were taken back.
    pub(crate) fn cut_off(&mut self, writes: usize, turn: u64) {
        self.changed.retain(|write| *write < writes);
        while self.current.len() > writes {
            if let Some(entry) = self.current.pop().flatten() {
                self.end_entry(entry, turn);
            }
        }
    }

    /// Enters the key of a write's row from this turn on, or notes that it has none. The write is the next one, or one
    /// that has changed.
    pub(crate) fn set(&mut self, write: usize, key: Option<&[u8]>, row: RowId, turn: u64) {
        let entry = key.map(|key| Entry { key: key.into(), row, from: turn });
        if let Some(entry) = &entry {
            self.entries.insert(entry.clone(), ALWAYS);
        }
        match self.current.get_mut(write) {
            Some(current) => *current = entry,
            None => self.current.push(entry),
        }
    }

    /// Some row that has exactly this key.
    pub(crate) fn get(&self, key: &[u8]) -> Option<RowId> {
        self.get_other(key, None)
    }

    /// Some row other than `myself` that has exactly this key.
    pub(crate) fn get_other(&self, key: &[u8], myself: Option<RowId>) -> Option<RowId> {
        let key = Bound::Included(EncodedKey::from(key));
        let mut entries = self.entries.range((lower_cut(&key), upper_cut(&key)));
        let holds =
            |(entry, until): &(&Entry, &u64)| self.look() && **until == ALWAYS && Some(entry.row) != myself;
        entries.find(holds).map(|(entry, _)| entry.row)
    }

    /// Counts an entry that was looked at.
    fn look(&self) -> bool {
        self.looked_at.set(self.looked_at.get() + 1);
        true
    }

    #[cfg(test)]
    pub(crate) fn looked_at(&self) -> usize {
        self.looked_at.get()
    }

    /// Another scan is open, from this turn on.
    pub(crate) fn open_scan(&mut self) {
        self.scans += 1;
    }

    /// A scan has ended.
    pub(crate) fn close_scan(&mut self) {
        self.scans = self.scans.saturating_sub(1);
        if self.scans == 0 {
            for entry in self.ended.drain(..) {
                self.entries.remove(&entry);
            }
        }
    }
}

/// The cut before, or behind, all entries of the keys at a lower bound.
fn lower_cut(bound: &Bound<EncodedKey>) -> Bound<Entry> {
    match bound {
        Bound::Included(key) => Bound::Included(Entry { key: key.clone(), row: RowId(0), from: 0 }),
        Bound::Excluded(key) => Bound::Excluded(last_of(key)),
        Bound::Unbounded => Bound::Unbounded,
    }
}

/// The cut before, or behind, all entries of the keys at an upper bound.
fn upper_cut(bound: &Bound<EncodedKey>) -> Bound<Entry> {
    match bound {
        Bound::Included(key) => Bound::Included(last_of(key)),
        Bound::Excluded(key) => Bound::Excluded(Entry { key: key.clone(), row: RowId(0), from: 0 }),
        Bound::Unbounded => Bound::Unbounded,
    }
}

/// Behind all entries of a key.
fn last_of(key: &EncodedKey) -> Entry {
    Entry { key: key.clone(), row: RowId(u64::MAX), from: u64::MAX }
}

/// Entries taken out at first, and at most; each time twice as many as the time before.
const FIRST_BATCH: usize = 4;
const BATCH: usize = 256;

/// A scan of the keys between two bounds as of the turn in which it began.
pub(crate) struct OwnScan {
    pub place: (usize, IndexPosition),
    turn: u64,
    lower: Bound<Entry>,
    upper: Bound<Entry>,
    direction: Direction,
    /// Taken out, and not yet visited.
    batch: VecDeque<(EncodedKey, RowId)>,
    next_batch: usize,
    is_over: bool,
}

impl OwnScan {
    pub(crate) fn new(
        place: (usize, IndexPosition),
        turn: u64,
        (lower, upper): (Bound<&[u8]>, Bound<&[u8]>),
        direction: Direction,
    ) -> OwnScan {
        OwnScan {
            place,
            turn,
            lower: lower_cut(&lower.map(EncodedKey::from)),
            upper: upper_cut(&upper.map(EncodedKey::from)),
            direction,
            batch: VecDeque::new(),
            next_batch: FIRST_BATCH,
            is_over: is_empty(lower, upper),
        }
    }

    /// The next row, if its key is wanted now. `own` are the keys that the scan is of.
    pub(crate) fn next_if(
        &mut self,
        own: Option<&OwnKeys>,
        wanted: impl FnOnce(&[u8]) -> bool,
    ) -> Option<RowId> {
        if self.batch.is_empty() {
            self.fill(own);
        }
        let (key, _) = self.batch.front()?;
        if wanted(key) { self.batch.pop_front().map(|(_, row)| row) } else { None }
    }

    fn fill(&mut self, own: Option<&OwnKeys>) {
        let Some(own) = own.filter(|_| !self.is_over) else { return };
        let entries = own.entries.range((self.lower.clone(), self.upper.clone()));
        let last = match self.direction {
            Direction::Forward => self.take_out(own, entries),
            Direction::Backward => self.take_out(own, entries.rev()),
        };
        let Some(last) = last else {
            self.is_over = true;
            return;
        };
        match self.direction {
            Direction::Forward => self.lower = Bound::Excluded(last),
            Direction::Backward => self.upper = Bound::Excluded(last),
        }
        self.next_batch = (self.next_batch * 2).min(BATCH);
    }

    /// Fills the batch; returns the last entry looked at if there may be more.
    fn take_out<'a>(
        &mut self,
        own: &OwnKeys,
        entries: impl Iterator<Item = (&'a Entry, &'a u64)>,
    ) -> Option<Entry> {
        for (entry, until) in entries {
            own.look();
            if entry.from <= self.turn && self.turn < *until {
                self.batch.push_back((entry.key.clone(), entry.row));
                if self.batch.len() == self.next_batch {
                    return Some(entry.clone());
                }
            }
        }
        None
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

    type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

    const ALL: Bounds<'static> = (Bound::Unbounded, Bound::Unbounded);

    fn rest(scan: &mut OwnScan, own: &OwnKeys) -> Vec<u64> {
        std::iter::from_fn(|| scan.next_if(Some(own), |_| true)).map(|row| row.0).collect()
    }

    /// The rows found by scans both ways.
    fn found(own: &OwnKeys, bounds: Bounds, turn: u64) -> Vec<u64> {
        let scan = |direction| rest(&mut OwnScan::new((0, IndexPosition(0)), turn, bounds, direction), own);
        let (forward, mut backward) = (scan(Direction::Forward), scan(Direction::Backward));
        backward.reverse();
        assert_eq!(forward, backward);
        forward
    }

    fn change(own: &mut OwnKeys, write: usize, key: Option<&[u8]>, turn: u64) {
        own.note_change(0, write, ColumnSet::ALL);
        assert_eq!(own.take_changed(turn), Some(write));
        own.set(write, key, RowId(10 + write as u64), turn);
    }

    fn filled(keys: &[u8]) -> OwnKeys {
        let mut own = OwnKeys::new((0, IndexPosition(0)), ColumnSet::of(&[1]));
        for (write, key) in keys.iter().enumerate() {
            own.set(write, Some(&[*key]), RowId(10 + write as u64), 0);
        }
        own
    }

    #[test]
    fn rows_are_found_under_the_keys_that_they_have_now() {
        let mut own = filled(&[5, 3, 5, 9]);
        assert_eq!(found(&own, ALL, 0), [11, 10, 12, 13]);
        own.note_change(0, 2, ColumnSet::of(&[0]));
        own.note_change(1, 2, ColumnSet::of(&[1]));
        own.note_change(0, 4, ColumnSet::of(&[1]));
        assert!(own.take_changed(0).is_none(), "another column, another table, not yet seen");
        change(&mut own, 2, Some(&[4]), 0);
        change(&mut own, 1, Some(&[5]), 0);
        assert_eq!(found(&own, ALL, 0), [12, 10, 11, 13]);
        change(&mut own, 1, None, 0);
        change(&mut own, 0, Some(&[9]), 0);
        assert_eq!(found(&own, ALL, 0), [12, 10, 13]);
        assert_eq!([4, 5, 9].map(|key| own.get(&[key])), [Some(RowId(12)), None, Some(RowId(10))]);
    }

    #[test]
    fn a_scan_sees_the_keys_as_they_were_when_it_began() {
        let mut own = filled(&[1, 2, 3, 4, 5, 6, 7, 8]);
        own.open_scan();
        let mut scan = OwnScan::new((0, IndexPosition(0)), 0, ALL, Direction::Forward);
        assert_eq!(scan.next_if(Some(&own), |_| true), Some(RowId(10)));
        assert_eq!(scan.next_if(Some(&own), |key| key == [9]), None, "not wanted yet");
        // The visitor moves what it has visited ahead, ends and moves others, and adds one.
        change(&mut own, 0, Some(&[7]), 1);
        change(&mut own, 6, Some(&[0]), 1);
        change(&mut own, 6, Some(&[7]), 1);
        change(&mut own, 7, None, 1);
        own.set(8, Some(&[9]), RowId(18), 1);
        assert_eq!(rest(&mut scan, &own), [11, 12, 13, 14, 15, 16, 17]);
        assert_eq!(found(&own, ALL, 1), [11, 12, 13, 14, 15, 10, 16, 18]);
        assert_eq!((own.get(&[8]), own.get(&[0])), (None, None));
        own.close_scan();
        assert_eq!((own.entries.len(), own.ended.len()), (8, 0), "nothing is kept longer");
        assert_eq!(found(&own, ALL, 1), [11, 12, 13, 14, 15, 10, 16, 18]);
    }

    #[test]
    fn a_scan_looks_at_what_it_visits_and_a_few_more() {
        let mut own = OwnKeys::new((0, IndexPosition(0)), ColumnSet::ALL);
        for write in 0..10_000u64 {
            own.set(write as usize, Some(&write.to_be_bytes()), RowId(write), 0);
        }
        for number in 0..1_000u64 {
            let (first, last) = ((number * 7).to_be_bytes(), (number * 7 + 2).to_be_bytes());
            assert_eq!(found(&own, (Bound::Included(&first), Bound::Included(&last)), 0).len(), 3);
            let mut ahead = OwnScan::new(
                (0, IndexPosition(0)),
                0,
                (Bound::Included(&first), Bound::Unbounded),
                Direction::Forward,
            );
            assert_eq!(ahead.next_if(Some(&own), |_| true), Some(RowId(number * 7)));
            assert_eq!(own.get(&first), Some(RowId(number * 7)));
        }
        assert!(own.looked_at() < 1_000 * (3 + 3 + FIRST_BATCH + 2), "{}", own.looked_at());
    }

    #[test]
    fn keys_are_ordered_by_their_bytes_whatever_their_length() {
        let mut bytes: Vec<Vec<u8>> = (0..60).map(|length| vec![7; length]).collect();
        bytes.extend((0..60).map(|length| [vec![7; length], vec![3]].concat()));
        let mut keys: Vec<EncodedKey> = bytes.iter().map(|bytes| EncodedKey::from(&bytes[..])).collect();
        bytes.sort();
        keys.sort();
        assert!(keys.iter().zip(&bytes).all(|(key, bytes)| **key == bytes[..]));
    }

    #[test]
    fn ranges_have_the_bounds_that_were_asked_for() {
        let own = filled(&[1, 2, 3, 4]);
        let rows = |lower, upper| found(&own, (lower, upper), 0);
        let (two, three): (&[u8], &[u8]) = (&[2], &[3]);
        assert_eq!(rows(Bound::Included(two), Bound::Included(three)), [11, 12]);
        assert_eq!(rows(Bound::Excluded(two), Bound::Unbounded), [12, 13]);
        assert_eq!(rows(Bound::Unbounded, Bound::Excluded(three)), [10, 11]);
        assert!(rows(Bound::Excluded(two), Bound::Excluded(two)).is_empty());
        assert!(rows(Bound::Included(three), Bound::Included(two)).is_empty());
        assert!(rows(Bound::Excluded(two), Bound::Excluded(three)).is_empty());
    }
}
