//! What a transaction is going to write: private until it commits, so that abort is free.
//!
//! Pending cells of all rows lie one behind the other in one buffer, and the bytes of their strings in another. Both
//! are kept from transaction to transaction: writing allocates nothing once they are large enough.

use crate::key_filter::{KeyFilter, key_hash};
use crate::own_keys::{OwnKeys, OwnScan};
use crate::places::{Places, RowName};
use crate::undo::UndoLog;
use ankerdb_base::{ColumnPosition, ColumnSet, IndexPosition, Result, RowId};
use ankerdb_index::Direction;
use ankerdb_memory::release;
use ankerdb_sync::row_set::{RowKey, RowSet};
use ankerdb_table::{Cell, Index};
use std::ops::Bound;

/// What a write is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// New cells.
    Keeps,
    /// A deletion, which may take more: in the end it frees memory.
    Frees,
}

/// What one more write needs room for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Needs {
    pub cells: usize,
    pub bytes: usize,
}

/// What happens to a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WriteKind {
    /// A new row: one cell per column.
    Insert,
    /// New cells of some columns.
    Update,
    /// The row is deleted.
    Delete,
    /// A new row that was deleted again: nothing to do.
    Nothing,
}

/// One row's pending change.
#[derive(Clone, Copy)]
pub(crate) struct Write {
    /// Its number in `TouchedTables`.
    pub table: usize,
    /// The committed row; for a new row its provisional identity.
    pub row: RowId,
    pub kind: WriteKind,
    /// Where its cells lie in the set's buffer.
    first: usize,
    count: usize,
}

impl Write {
    fn name(&self) -> RowName {
        (self.table, self.row.0)
    }
}

/// A cell in the set's buffers.
#[derive(Clone, Copy)]
enum Stored {
    Null,
    Word(u64),
    /// The lower half first.
    Wide([u64; 2]),
    Bytes {
        start: usize,
        length: u32,
    },
}

#[derive(Clone, Copy)]
struct PendingCell {
    column: u32,
    stored: Stored,
}

/// What is known about the writes to one table.
#[derive(Clone, Copy, Default)]
struct TableWrites {
    has_inserts: bool,
    /// Where in `writes` its first new row may be.
    first_insert: usize,
    /// Columns that some update changes.
    changed: ColumnSet,
}

/// Steps of a loop between two looks at the interrupt: some hundred microseconds.
pub(crate) const STEPS_BETWEEN_CHECKS: usize = 1_024;

/// Cells that an update may have to move, at most: those of a row. Rows with more columns find room by doubling.
const MOVED_MAX: usize = 64;
/// Rows written for which memory is kept from one transaction to the next.
pub(crate) const ROWS_KEPT: usize = 1 << 12;
/// Bytes of string for which memory is kept from one transaction to the next.
const BYTES_KEPT: usize = 1 << 20;

/// What a version takes without its cells.
const VERSION_BYTES: usize = 32;

/// Words of the filter over written rows.
const FILTER_WORDS: usize = 8;
/// Committed rows written beyond which the filter is useless, and a set of them takes its place.
const FILTER_ROWS: usize = 256;

/// Pending writes in the order in which rows were first written.
#[derive(Default)]
pub(crate) struct WriteSet {
    pub writes: Vec<Write>,
    cells: Vec<PendingCell>,
    bytes: Vec<u8>,
    /// By the tables' numbers.
    tables: Vec<TableWrites>,
    /// Committed rows only; a new row's number is its position in `writes`.
    places: Places,
    /// A bit for each committed row in `places`, so that reads of other rows need not look there.
    filter: [u64; FILTER_WORDS],
    /// All of them, once they are many: a bit each, where `places` would be one cache miss for each row that is scanned.
    written: Option<Box<RowSet>>,
    /// Keys of pending inserts and key updates, for each index that was asked for them.
    own_keys: Vec<OwnKeys>,
    /// Their hashes, for each unique index that was asked for them.
    key_filters: Vec<KeyFilter>,
    /// The turn of scans over `own_keys`.
    turn: u64,
    /// How often something was inserted, updated or deleted, or taken back.
    changes: usize,
    undo: UndoLog<Write>,
    /// Whether anything was inserted or updated.
    keeps: bool,
}

fn filter_place(row: RowId) -> (usize, u64) {
    let hash = row.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    ((hash >> 6) as usize % FILTER_WORDS, 1 << (hash % 64))
}

impl WriteSet {
    pub(crate) fn clear(&mut self) {
        if self.writes.capacity() > ROWS_KEPT || self.bytes.capacity() > BYTES_KEPT {
            // Also because emptying a large hash table costs as much as its size, each time.
            let large = std::mem::take(self);
            release(large.writes);
            release(large.cells);
            release(large.bytes);
            large.places.release();
            return;
        }
        self.keeps = false;
        self.undo.clear();
        if self.changes == 0 {
            return;
        }
        self.writes.clear();
        self.cells.clear();
        self.bytes.clear();
        self.tables.clear();
        self.places.clear();
        self.filter = [0; FILTER_WORDS];
        self.written = None;
        self.own_keys.clear();
        self.key_filters.clear();
        self.changes = 0;
    }

    /// Notes what the next write is for; returns whether that is another purpose than all writes so far had.
    #[inline]
    pub(crate) fn set_purpose(&mut self, purpose: Purpose) -> bool {
        match purpose {
            Purpose::Keeps => !std::mem::replace(&mut self.keeps, true),
            Purpose::Frees => self.writes.is_empty() && !self.keeps,
        }
    }

    /// Whether rows are deleted and nothing else.
    pub(crate) fn only_frees(&self) -> bool {
        !self.keeps
    }

    /// Whether one more write of this size finds room. An update may move the cells that its row has already.
    #[inline]
    pub(crate) fn has_room(&self, needs: Needs) -> bool {
        fn room<T>(buffer: &Vec<T>) -> usize {
            buffer.capacity() - buffer.len()
        }
        room(&self.writes) > 0
            && room(&self.cells) >= needs.cells + MOVED_MAX
            && room(&self.bytes) >= needs.bytes
            && self.undo.has_room()
            && self.places.has_room()
            && self.written.as_ref().is_none_or(|written| written.has_room())
            && self.own_keys.iter().all(OwnKeys::can_note)
            && self.key_filters.iter().all(KeyFilter::can_note)
    }

    /// Bytes that [`try_grow`](Self::try_grow) would add.
    pub(crate) fn growth(&self, needs: Needs) -> usize {
        fn more<T>(buffer: &Vec<T>, count: usize) -> usize {
            let is_full = buffer.capacity() - buffer.len() < count;
            if is_full { (buffer.len() + count).max(2 * buffer.capacity()) - buffer.capacity() } else { 0 }
        }
        more(&self.writes, 1) * size_of::<Write>()
            + more(&self.cells, needs.cells + MOVED_MAX) * size_of::<PendingCell>()
            + more(&self.bytes, needs.bytes)
            + self.places.growth()
    }

    /// Makes room for one more write of this size; fails, with everything as it was, if there is no memory.
    pub(crate) fn try_grow(&mut self, needs: Needs) -> Result<(), ()> {
        (self.writes.try_reserve(1).map_err(drop))
            .and_then(|()| self.cells.try_reserve(needs.cells + MOVED_MAX).map_err(drop))
            .and_then(|()| self.bytes.try_reserve(needs.bytes).map_err(drop))
            .and_then(|()| self.undo.try_grow())
            .and_then(|()| self.places.try_grow(|place| self.writes[place].name()))
            .and_then(|()| self.written.as_mut().map_or(Ok(()), |written| written.try_grow().map_err(drop)))
            .and_then(|()| self.own_keys.iter_mut().try_for_each(|own| own.try_grow().map_err(drop)))
            .and_then(|()| self.key_filters.iter_mut().try_for_each(|own| own.try_grow().map_err(drop)))
    }

    /// Bytes of strings.
    pub(crate) fn string_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// About what the states take that the writes replace: a version for each row that is updated or deleted, with a word for each
    /// cell that is updated. Strings do not count.
    pub(crate) fn history_bytes(&self) -> u64 {
        let version = |write: &Write| match write.kind {
            WriteKind::Update => VERSION_BYTES + write.count * size_of::<u64>(),
            WriteKind::Delete => VERSION_BYTES,
            WriteKind::Insert | WriteKind::Nothing => 0,
        };
        self.writes.iter().map(version).sum::<usize>() as u64
    }

    /// Bytes of the set's buffers.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.writes.capacity() * size_of::<Write>()
            + self.cells.capacity() * size_of::<PendingCell>()
            + self.bytes.capacity()
            + self.places.memory_bytes()
    }

    /// How often the set has been changed: tells whether it was since an earlier call.
    pub(crate) fn changes(&self) -> usize {
        self.changes
    }

    /// Notes that the transaction reads at another timestamp: keys encoded from rows as of the former one are out of
    /// date.
    pub(crate) fn forget_keys(&mut self) {
        self.own_keys.clear();
        self.key_filters.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Whether some pending row of the table may have a key over these columns that comes from this transaction.
    #[inline]
    pub(crate) fn has_own_keys(&self, table: usize, key_columns: ColumnSet) -> bool {
        let known = self.tables.get(table);
        known.is_some_and(|table| table.has_inserts || table.changed.intersects(key_columns))
    }

    fn note_write(&mut self, table: usize) -> &mut TableWrites {
        if self.tables.len() <= table {
            self.tables.resize(table + 1, TableWrites::default());
        }
        &mut self.tables[table]
    }

    /// The pending change of a row.
    #[inline]
    pub(crate) fn get(&self, table: usize, row: RowId) -> Option<&Write> {
        self.place(table, row).map(|place| &self.writes[place])
    }

    #[inline]
    fn place(&self, table: usize, row: RowId) -> Option<usize> {
        if let Some(number) = row.provisional_number() {
            return Some(number);
        }
        let (word, bit) = filter_place(row);
        if self.filter[word] & bit == 0 {
            return None;
        }
        if let Some(written) = &self.written
            && !written.contains(RowKey::new(table as u32, row.0))
        {
            return None;
        }
        self.places.find((table, row.0), |place| self.writes[place].name() == (table, row.0))
    }

    /// The pending cells of a row, each with its column: all columns in order for a new row.
    #[inline]
    pub(crate) fn cells(&self, write: &Write) -> impl Iterator<Item = (usize, Cell<'_>)> + Clone {
        let cells = &self.cells[write.first..write.first + write.count];
        cells.iter().map(|cell| (cell.column as usize, self.load(cell.stored)))
    }

    /// The pending cell of one column.
    #[inline]
    pub(crate) fn cell(&self, write: &Write, column: usize) -> Option<Cell<'_>> {
        let cells = &self.cells[write.first..write.first + write.count];
        let found = match write.kind {
            WriteKind::Insert => Some(&cells[column]),
            WriteKind::Update => cells.iter().find(|cell| cell.column as usize == column),
            WriteKind::Delete | WriteKind::Nothing => None,
        };
        found.map(|cell| self.load(cell.stored))
    }

    #[inline]
    fn load(&self, stored: Stored) -> Cell<'_> {
        match stored {
            Stored::Null => Cell::Null,
            Stored::Word(word) => Cell::Word(word),
            Stored::Wide([low, high]) => Cell::Wide(low as u128 | (high as u128) << 64),
            Stored::Bytes { start, length } => Cell::Bytes(&self.bytes[start..start + length as usize]),
        }
    }

    fn store(&mut self, cell: Cell<'_>) -> Stored {
        match cell {
            Cell::Null => Stored::Null,
            Cell::Word(word) => Stored::Word(word),
            Cell::Wide(wide) => Stored::Wide([wide as u64, (wide >> 64) as u64]),
            Cell::Bytes(bytes) => {
                let start = self.bytes.len();
                self.bytes.extend_from_slice(bytes);
                Stored::Bytes { start, length: bytes.len() as u32 }
            }
        }
    }

    /// Adds a new row: one cell per column, in order.
    pub(crate) fn insert<'a>(&mut self, table: usize, cells: impl Iterator<Item = Cell<'a>>) -> RowId {
        self.changes += 1;
        let place = self.writes.len();
        let written = self.note_write(table);
        if !std::mem::replace(&mut written.has_inserts, true) {
            written.first_insert = place;
        }
        let row = RowId::provisional(place);
        let first = self.cells.len();
        for (column, cell) in cells.enumerate() {
            let stored = self.store(cell);
            self.cells.push(PendingCell { column: column as u32, stored });
        }
        let count = self.cells.len() - first;
        self.writes.push(Write { table, row, kind: WriteKind::Insert, first, count });
        row
    }

    /// Adds new cells of a row, given with their columns.
    pub(crate) fn update<'a>(
        &mut self,
        table: usize,
        row: RowId,
        changes: impl Iterator<Item = (usize, Cell<'a>)>,
    ) {
        self.changes += 1;
        let place = match self.place(table, row) {
            Some(place) => {
                self.note_former(place);
                place
            }
            None => self.add(table, row, WriteKind::Update),
        };
        let mut changed = ColumnSet::EMPTY;
        for (column, cell) in changes {
            changed.insert(column);
            let stored = self.store(cell);
            self.set(place, ColumnPosition(column), stored);
        }
        let written = self.note_write(table);
        written.changed = written.changed.union(changed);
        self.own_keys.iter_mut().for_each(|own| own.note_change(table, place, changed));
        self.key_filters.iter_mut().for_each(|filter| filter.note_change(table, place, changed));
    }

    fn set(&mut self, place: usize, column: ColumnPosition, stored: Stored) {
        let write = &mut self.writes[place];
        let cells = &mut self.cells[write.first..write.first + write.count];
        let pending = match write.kind {
            WriteKind::Insert => Some(&mut cells[column.0]),
            WriteKind::Update => cells.iter_mut().find(|cell| cell.column as usize == column.0),
            kind => unreachable!("a deleted row is not visible: {kind:?}"),
        };
        if let Some(pending) = pending {
            pending.stored = stored;
            return;
        }
        if write.first + write.count != self.cells.len() {
            // Another row's cells are behind: move to the end.
            let cells = write.first..write.first + write.count;
            write.first = self.cells.len();
            self.cells.extend_from_within(cells);
        }
        self.cells.push(PendingCell { column: column.0 as u32, stored });
        write.count += 1;
    }

    pub(crate) fn delete(&mut self, table: usize, row: RowId) {
        self.changes += 1;
        let Some(place) = self.place(table, row) else {
            self.add(table, row, WriteKind::Delete);
            self.note_write(table);
            return;
        };
        self.note_former(place);
        let write = &mut self.writes[place];
        write.kind = match write.kind {
            WriteKind::Insert | WriteKind::Nothing => WriteKind::Nothing,
            WriteKind::Update | WriteKind::Delete => WriteKind::Delete,
        };
        write.count = 0;
        self.own_keys.iter_mut().for_each(|own| own.note_change(table, place, ColumnSet::ALL));
    }

    /// A write is going to be changed: what it was at the last savepoint stays where it is, and its cells are copied.
    #[inline]
    fn note_former(&mut self, place: usize) {
        let write = &mut self.writes[place];
        if self.undo.needs(place, write.first, write.count) {
            self.undo.note(place, *write);
            let cells = write.first..write.first + write.count;
            write.first = self.cells.len();
            self.cells.extend_from_within(cells);
        }
    }

    /// Sets a savepoint; returns how many there were. Fails, with everything as it was, if there is no memory.
    pub(crate) fn set_savepoint(&mut self) -> Result<usize, ()> {
        self.undo.set(self.writes.len(), self.cells.len(), self.bytes.len())?;
        Ok(self.undo.depth() - 1)
    }

    /// Whether there is a savepoint.
    pub(crate) fn has_savepoint(&self) -> bool {
        self.undo.is_kept()
    }

    /// Forgets a savepoint and those after it; what was written stays.
    pub(crate) fn release_savepoint(&mut self, depth: usize) {
        self.undo.release(depth);
    }

    /// Takes back what was written since a savepoint, which stays. Costs what was written since.
    pub(crate) fn rollback_to(&mut self, depth: usize) {
        let Some(mark) = self.undo.back_to(depth) else { return };
        self.changes += 1;
        while let Some((place, former)) = self.undo.pop_since(mark) {
            self.writes[place] = former;
            if place < mark.writes {
                self.note_taken_back(former.table, place);
            }
        }
        for place in (mark.writes..self.writes.len()).rev() {
            let write = &self.writes[place];
            if write.row.provisional_number().is_none() {
                self.places.remove(write.name(), place, |other| self.writes[other].name());
            }
        }
        self.own_keys.iter_mut().for_each(|own| own.cut_off(mark.writes, self.turn));
        self.key_filters.iter_mut().for_each(|filter| filter.cut_off(mark.writes));
        for table in &mut self.tables {
            table.has_inserts &= table.first_insert < mark.writes;
        }
        self.writes.truncate(mark.writes);
        self.cells.truncate(mark.cells);
        self.bytes.truncate(mark.bytes);
    }

    /// A write is what it was before: its key has changed again.
    fn note_taken_back(&mut self, table: usize, place: usize) {
        // Where there is no memory to note it, the keys are collected anew.
        self.own_keys.retain_mut(|own| own.try_grow().is_ok());
        self.key_filters.retain_mut(|filter| filter.try_grow().is_ok());
        self.own_keys.iter_mut().for_each(|own| own.note_change(table, place, ColumnSet::ALL));
        self.key_filters.iter_mut().for_each(|filter| filter.note_change(table, place, ColumnSet::ALL));
    }

    fn add(&mut self, table: usize, row: RowId, kind: WriteKind) -> usize {
        let place = self.writes.len();
        self.writes.push(Write { table, row, kind, first: self.cells.len(), count: 0 });
        self.places.insert((table, row.0), place);
        let (word, bit) = filter_place(row);
        self.filter[word] |= bit;
        if let Some(written) = &mut self.written {
            written.insert(RowKey::new(table as u32, row.0));
        } else if self.places.count() > FILTER_ROWS {
            let mut written = Box::new(RowSet::default());
            for place in self.places.iter() {
                let (table, row) = self.writes[place].name();
                written.insert(RowKey::new(table as u32, row));
            }
            self.written = Some(written);
        }
        place
    }

    /// Where among the writes the pending new rows of a table are, so far.
    pub(crate) fn inserts(&self, table: usize) -> std::ops::Range<usize> {
        let known = self.tables.get(table).filter(|table| table.has_inserts);
        known.map_or(0..0, |table| table.first_insert..self.writes.len())
    }

    /// The new row of a write, if it belongs to the table and has not been taken back.
    pub(crate) fn inserted(&self, table: usize, place: usize) -> Option<RowId> {
        let write = &self.writes[place];
        (write.table == table && write.kind == WriteKind::Insert).then_some(write.row)
    }

    /// Whether the key of a pending row in an index comes from this transaction.
    fn gives_key(&self, write: &Write, index: &Index) -> bool {
        match write.kind {
            WriteKind::Insert => true,
            WriteKind::Update => self.cells(write).any(|(column, _)| index.key_columns().contains(column)),
            WriteKind::Delete | WriteKind::Nothing => false,
        }
    }

    /// Pending rows of a table whose keys in the index come from this transaction: new rows, and rows whose key
    /// columns it updates. `push_key` appends the key as this transaction sees it, and says whether there is one;
    /// `check` ends the work early with its error.
    pub(crate) fn own_keys(
        &mut self,
        place: (usize, IndexPosition),
        index: &Index,
        push_key: impl Fn(&WriteSet, &Write, &mut Vec<u8>) -> bool,
        check: impl Fn() -> Result<()>,
    ) -> Result<&OwnKeys> {
        let known = self.own_keys.iter().position(|own| own.place == place).unwrap_or_else(|| {
            self.own_keys.push(OwnKeys::new(place, index.key_columns()));
            self.own_keys.len() - 1
        });
        // Taken out of the set while the set is read.
        let mut own = self.own_keys.swap_remove(known);
        let absorbed = self.absorb(&mut own, index, push_key, check);
        self.own_keys.push(own);
        absorbed.map(|()| self.own_keys.last().expect("pushed just now"))
    }

    fn absorb(
        &self,
        own: &mut OwnKeys,
        index: &Index,
        push_key: impl Fn(&WriteSet, &Write, &mut Vec<u8>) -> bool,
        check: impl Fn() -> Result<()>,
    ) -> Result<()> {
        let mut key = Vec::new();
        let mut take_in = |own: &mut OwnKeys, place: usize| {
            let write = &self.writes[place];
            let is_given = self.push_given_key(own.place.0, write, index, &push_key, &mut key);
            own.set(place, is_given.then_some(&key), write.row, self.turn);
        };
        while own.has_changed() {
            own.make_room()?;
            if let Some(place) = own.take_changed(self.turn) {
                take_in(own, place);
            }
        }
        while own.absorbed() < self.writes.len() {
            check()?;
            own.make_room()?;
            take_in(own, own.absorbed());
        }
        Ok(())
    }

    /// The key in an index of a table that a write gives its row; false if it gives none.
    fn push_given_key(
        &self,
        table: usize,
        write: &Write,
        index: &Index,
        push_key: impl Fn(&WriteSet, &Write, &mut Vec<u8>) -> bool,
        key: &mut Vec<u8>,
    ) -> bool {
        key.clear();
        write.table == table && self.gives_key(write, index) && push_key(self, write, key)
    }

    /// Begins a scan of the own keys of an index, which [`own_keys`](Self::own_keys) has brought up to date. To be
    /// [closed](Self::close_scan).
    pub(crate) fn open_scan(
        &mut self,
        place: (usize, IndexPosition),
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        direction: Direction,
    ) -> OwnScan {
        let scan = OwnScan::new(place, self.turn, bounds, direction);
        self.turn += 1;
        self.own_keys.iter_mut().filter(|own| own.place == place).for_each(OwnKeys::open_scan);
        scan
    }

    /// Ends a scan. One that was opened before the keys were forgotten has ended already.
    pub(crate) fn close_scan(&mut self, scan: &OwnScan) {
        self.own_keys.iter_mut().filter(|own| own.place == scan.place).for_each(OwnKeys::close_scan);
    }

    /// The next row of a scan, if its key is wanted now. Rows that were deleted since the scan began are left out.
    pub(crate) fn next_of_scan(&self, scan: &mut OwnScan, wanted: impl Fn(&[u8]) -> bool) -> Option<RowId> {
        let own = self.own_keys.iter().find(|own| own.place == scan.place);
        loop {
            let row = scan.next_if(own, &wanted)?;
            let kind = self.get(scan.place.0, row).map(|write| write.kind);
            if matches!(kind, Some(WriteKind::Insert | WriteKind::Update)) {
                return Some(row);
            }
        }
    }

    /// Whether some pending row of a table may have a key of this hash in a unique index that comes from this
    /// transaction. Parameters as of [`own_keys`](Self::own_keys); costs some nanoseconds.
    pub(crate) fn may_have_key(
        &mut self,
        place: (usize, IndexPosition),
        index: &Index,
        hash: u64,
        push_key: impl Fn(&WriteSet, &Write, &mut Vec<u8>) -> bool,
        check: impl Fn() -> Result<()>,
    ) -> Result<bool> {
        let known = self.key_filters.iter().position(|filter| filter.place == place).unwrap_or_else(|| {
            self.key_filters.push(KeyFilter::new(place, index.key_columns()));
            self.key_filters.len() - 1
        });
        // Taken out of the set while the set is read.
        let mut filter = self.key_filters.swap_remove(known);
        let mut key = Vec::new();
        let mut take_in = |filter: &mut KeyFilter, place: usize| {
            if self.push_given_key(filter.place.0, &self.writes[place], index, &push_key, &mut key) {
                filter.add(key_hash(&key));
            }
        };
        let mut checked = Ok(());
        while checked.is_ok() && filter.has_changed() {
            checked = filter.make_room();
            if checked.is_ok()
                && let Some(place) = filter.take_changed()
            {
                take_in(&mut filter, place);
            }
        }
        while filter.absorbed < self.writes.len() && checked.is_ok() {
            checked = check().and_then(|()| filter.make_room());
            if checked.is_err() {
                break;
            }
            let next = filter.absorbed;
            take_in(&mut filter, next);
            filter.absorbed = next + 1;
        }
        let may_have = filter.may_have(hash);
        self.key_filters.push(filter);
        checked.map(|()| may_have)
    }

    /// Tells the filter of a unique index what key a new row has, so that it need not be encoded again.
    pub(crate) fn note_key(&mut self, place: (usize, IndexPosition), row: RowId, hash: u64) {
        let filter = self.key_filters.iter_mut().find(|filter| filter.place == place);
        if let (Some(filter), Some(write)) = (filter, row.provisional_number()) {
            filter.add_next(write, hash);
        }
    }

    /// Whether the pending change of a committed row touches these columns or ends the row.
    pub(crate) fn hides(&self, table: usize, row: RowId, key_columns: ColumnSet) -> bool {
        self.get(table, row).is_some_and(|write| match write.kind {
            WriteKind::Insert => false,
            WriteKind::Update => self.cells(write).any(|(column, _)| key_columns.contains(column)),
            WriteKind::Delete | WriteKind::Nothing => true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ankerdb_base::BlockNumber;

    fn words(set: &WriteSet, table: usize, row: RowId) -> Vec<(usize, u64)> {
        let write = set.get(table, row).unwrap();
        let word = |cell: Cell<'_>| if let Cell::Word(word) = cell { word } else { panic!("{cell:?}") };
        set.cells(write).map(|(column, cell)| (column, word(cell))).collect()
    }

    fn update(set: &mut WriteSet, table: usize, row: RowId, column: usize, word: u64) {
        set.try_grow(Needs { cells: 1, bytes: 0 }).unwrap();
        set.update(table, row, [(column, Cell::Word(word))].into_iter());
    }

    #[test]
    fn later_changes_of_a_row_join_the_earlier_ones() {
        let mut set = WriteSet::default();
        let (one, other) = (RowId::new(BlockNumber(0), 1), RowId::new(BlockNumber(0), 2));
        let update = |set: &mut WriteSet, row, column, word| update(set, 3, row, column, word);
        update(&mut set, one, 5, 50);
        update(&mut set, other, 5, 51);
        update(&mut set, one, 6, 60);
        update(&mut set, one, 5, 52);
        assert_eq!(words(&set, 3, one), [(5, 52), (6, 60)]);
        assert_eq!(words(&set, 3, other), [(5, 51)]);
        assert!(set.get(2, one).is_none() && !set.has_own_keys(3, ColumnSet::of(&[0])));
        update(&mut set, one, 0, 1);
        assert!(set.has_own_keys(3, ColumnSet::of(&[0])) && set.hides(3, one, ColumnSet::of(&[0])));
        set.delete(3, one);
        assert_eq!(set.get(3, one).unwrap().kind, WriteKind::Delete);
        set.clear();
        assert!(set.get(3, one).is_none() && set.is_empty());
    }

    #[test]
    fn many_rows_are_known_one_by_one_and_a_small_transaction_after_them_costs_little() {
        let mut set = WriteSet::default();
        let row = |number: u64| RowId(number * 3);
        for number in 0..10_000 {
            update(&mut set, 0, row(number), 1, number);
            assert!(set.get(0, row(number)).is_some() && set.get(0, RowId(number * 3 + 1)).is_none());
        }
        assert!((0..10_000).all(|number| words(&set, 0, row(number)) == [(1, number)]));
        assert!((0..10_000).all(|number| set.get(1, row(number)).is_none()));
        set.clear();
        assert!(set.get(0, row(5)).is_none());
        assert!(set.places.memory_bytes() <= 8 * ROWS_KEPT && set.writes.capacity() <= ROWS_KEPT);
        update(&mut set, 0, row(5), 1, 1);
        set.clear();
        assert!(set.places.memory_bytes() > 0, "a little is kept");
    }

    #[test]
    fn strings_keep_their_bytes() {
        let mut set = WriteSet::default();
        let new = set.insert(0, [Cell::Bytes(b"one"), Cell::Null, Cell::Wide(u128::MAX / 3)].into_iter());
        set.insert(0, [Cell::Bytes(b"another"), Cell::Word(2), Cell::Null].into_iter());
        let write = set.get(0, new).unwrap();
        let cells: Vec<_> = set.cells(write).map(|(_, cell)| cell).collect();
        assert_eq!(cells, [Cell::Bytes(b"one"), Cell::Null, Cell::Wide(u128::MAX / 3)]);
        set.delete(0, new);
        assert_eq!(set.get(0, new).unwrap().kind, WriteKind::Nothing);
    }
}
