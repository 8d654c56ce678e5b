//! Scans: of a range of an index, in key order and with the transaction's own rows between the committed ones, and of whole
//! tables.
//!
//! A scan reads at one moment from its first row to its last, also if the visitor of its rows reads on at later ones.
//!
//! Entries of deleted rows stay in an index as long as some reader sees those rows. A scan that meets many of them in a row
//! notes that in the index, so that later scans leave them out: a queue whose first ten thousand rows have been taken is as
//! fast as a new one.

use crate::own_keys::OwnScan;
use crate::read_set::{KeyRange, RowFilter, end_of_prefix};
use crate::transaction::{BeforeReads, Transaction};
use crate::write_set::WriteKind;
use ankerdb_base::{BlockNumber, ColumnSet, IndexPosition, Result, RowId, Timestamp};
use ankerdb_index::Direction;
use ankerdb_sync::readers::ReaderSlot;
use ankerdb_table::{Entries, Index, ReadAt, Storage, Table};
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

/// One timestamp to read at, announced for as long as this lives.
struct Moment {
    at: ReadAt,
    /// Keeps the slot if the transaction itself may leave it.
    _announced: Option<Arc<ReaderSlot>>,
}

impl Moment {
    /// The stamp of entries that are dead at this moment: the timestamp of the newest deletion that it sees.
    fn since(&self) -> u64 {
        match self.at {
            ReadAt::Snapshot(at) | ReadAt::InPlace(at) => at.0,
            ReadAt::Newest => u64::MAX,
        }
    }
}

/// Entries in a row that a scan has met, and of which none was visible: dead ones perhaps, which later scans can leave out.
#[derive(Default)]
struct DeadRun(u32);

/// Entries in such a row after which it is worth asking about all entries of their leaf, each time: a part of a leaf.
const DEAD_RUN: u32 = 32;

impl DeadRun {
    #[inline]
    fn end(&mut self) {
        self.0 = 0;
    }

    #[inline]
    fn add(&mut self, table: &Table, index: &Index, entry: (&[u8], RowId)) {
        self.0 += 1;
        if self.0.is_multiple_of(DEAD_RUN) {
            mark_dead(table, index, entry);
        }
    }
}

/// Makes later scans leave out the entries around one, if all of their rows are deleted. A deleted row stays deleted
/// until its slot is reused by another one, which enters its keys: such entries take the mark away. A slot that is
/// being reused is locked.
#[cold]
fn mark_dead(table: &Table, index: &Index, (key, row): (&[u8], RowId)) {
    let storage = Storage::of(table);
    Entries::of(index).mark_dead(key, row.0, |row| {
        let header = storage.block(RowId(row).block()).header(RowId(row).offset());
        let is_dead = !header.exists() && !header.is_locked() && header.timestamp() > Timestamp::ZERO;
        is_dead.then_some(header.timestamp().0)
    });
}

impl Transaction {
    /// What a scan reads at, from its first row to its last.
    ///
    /// In a procedure at READ COMMITTED each read is a statement, even one that the visitor of a scan makes: it moves the
    /// transaction's timestamp. Were the rest of the scan read at that one, then an entry of the index that the scan has
    /// copied already might belong to a row that has been swept since, and whose slot holds another row by then.
    fn moment(&self) -> Moment {
        let moves = self.before_reads == BeforeReads::NewStatement;
        Moment { at: self.read_at(), _announced: moves.then(|| self.announced.slot().clone()) }
    }

    /// Begins to visit the pending rows whose keys come from this transaction and lie in the range, in key order.
    fn open_own_scan(
        &mut self,
        number: usize,
        position: IndexPosition,
        index: &Index,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        direction: Direction,
    ) -> Result<Option<OwnScan>> {
        if !self.writes.has_own_keys(number, index.key_columns()) {
            return Ok(None);
        }
        self.own_keys(number, position, index)?;
        Ok(Some(self.writes.open_scan((number, position), bounds, direction)))
    }

    /// Visits the visible rows whose keys start with `prefix` as [`scan_index`](Self::scan_index) does: equality on
    /// the leading key columns.
    ///
    /// # Errors
    /// Those of [`scan_index`](Self::scan_index).
    pub fn scan_prefix(
        &mut self,
        table: &Arc<Table>,
        index: IndexPosition,
        prefix: &[u8],
        direction: Direction,
        columns: ColumnSet,
        visit: &mut dyn FnMut(&mut Transaction, RowId) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let mut end = std::mem::take(&mut self.buffers.prefix);
        end.clear();
        end.extend_from_slice(prefix);
        let range = (Bound::Included(prefix), end_of_prefix(&mut end));
        let outcome = self.scan_bounds(table, index, range, direction, columns, visit);
        self.buffers.prefix = end;
        outcome
    }

    /// Visits the visible rows with keys in the range, own writes included, in key order. Changes that the visitor
    /// makes to the table do not change what is visited.
    ///
    /// # Errors
    /// Those of the visitor and of [`find`](Self::find).
    pub fn scan_index(
        &mut self,
        table: &Arc<Table>,
        index: IndexPosition,
        range: &KeyRange,
        direction: Direction,
        columns: ColumnSet,
        visit: &mut dyn FnMut(&mut Transaction, RowId) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        self.scan_bounds(table, index, range.bounds(), direction, columns, visit)
    }

    fn scan_bounds(
        &mut self,
        table: &Arc<Table>,
        index: IndexPosition,
        (lower, upper): (Bound<&[u8]>, Bound<&[u8]>),
        direction: Direction,
        columns: ColumnSet,
        visit: &mut dyn FnMut(&mut Transaction, RowId) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        self.before_read()?;
        let (position, number) = (index, self.tables.number(table)?);
        let index = self.usable(table, position)?;
        let mut own = self.open_own_scan(number, position, index, (lower, upper), direction)?;
        let outcome = self.scan_merged(
            (number, position),
            index,
            (lower, upper),
            direction,
            columns,
            own.as_mut(),
            visit,
        );
        if let Some(own) = &own {
            self.writes.close_scan(own);
        }
        outcome
    }

    /// Visits the committed rows of a range, and those of a scan of own keys between them.
    #[expect(clippy::too_many_arguments, reason = "the rest of the function above, named")]
    fn scan_merged(
        &mut self,
        (number, position): (usize, IndexPosition),
        index: &Index,
        (lower, upper): (Bound<&[u8]>, Bound<&[u8]>),
        direction: Direction,
        columns: ColumnSet,
        mut own: Option<&mut OwnScan>,
        visit: &mut dyn FnMut(&mut Transaction, RowId) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let table = self.tables[number].id();
        let moment = self.moment();
        // Only a range that is noted here is shortened.
        let read = if self.notes_reads() { self.reads.ranges.len() } else { usize::MAX };
        self.note_range(number, position, lower, upper);
        let columns = columns.union(index.key_columns());
        let mut outcome = Ok(ControlFlow::Continue(()));
        let mut dead = DeadRun::default();
        Entries::of(index).scan_since(lower, upper, direction, moment.since(), |key, row| {
            let is_before = |own: &[u8]| match direction {
                Direction::Forward => own < key,
                Direction::Backward => own > key,
            };
            outcome = self.visit_own(own.as_deref_mut(), is_before, visit);
            let entry = (key, RowId(row));
            let visible = || self.visible_as(number, index, entry, moment.at, &crossbeam_epoch::pin());
            if matches!(outcome, Ok(ControlFlow::Continue(()))) {
                if visible() {
                    dead.end();
                    self.note_row(table, RowId(row), columns);
                    outcome = visit(self, RowId(row));
                } else {
                    dead.add(&self.tables[number], index, entry);
                }
            }
            match outcome {
                Ok(ControlFlow::Continue(())) => ControlFlow::Continue(()),
                _ => {
                    // A scan that stops early has read only as far as it came.
                    if outcome.is_ok() {
                        self.reads.narrow_range(read, direction, key);
                    }
                    ControlFlow::Break(())
                }
            }
        });
        let outcome = outcome?;
        self.check_still_there(index)?;
        if outcome.is_continue() {
            let _ = self.visit_own(own, |_| true, visit)?;
        }
        Ok(())
    }

    /// Visits the next own rows of a scan, as long as their keys are wanted.
    fn visit_own(
        &mut self,
        own: Option<&mut OwnScan>,
        is_wanted: impl Fn(&[u8]) -> bool,
        visit: &mut dyn FnMut(&mut Transaction, RowId) -> Result<ControlFlow<()>>,
    ) -> Result<ControlFlow<()>> {
        self.check_interrupt()?;
        let Some(own) = own else { return Ok(ControlFlow::Continue(())) };
        while let Some(row) = self.writes.next_of_scan(own, &is_wanted) {
            self.check_interrupt()?;
            if visit(self, row)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Visits all visible rows, own writes included, in no order; those that `filter` rejects are left out and do not
    /// count as read. `columns` are those looked at, by the filter too: other columns may change without conflict.
    /// Changes that the visitor makes to the table do not change what is visited.
    ///
    /// # Errors
    /// Those of the visitor, of the filter and of [`find`](Self::find).
    pub fn scan_table(
        &mut self,
        table: &Arc<Table>,
        columns: ColumnSet,
        filter: Option<RowFilter>,
        visit: &mut dyn FnMut(&mut Transaction, RowId) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        self.before_read()?;
        let touched = self.tables.number(table)?;
        self.note_table_read(table, columns, filter.clone())?;
        let own = self.writes.inserts(touched);
        let moment = self.moment();
        let mut rows = Vec::new();
        for number in Storage::of(table).block_numbers() {
            self.check_interrupt()?;
            self.visible_rows(touched, number, moment.at, &mut rows);
            for row in rows.drain(..) {
                self.check_interrupt()?;
                if self.passes(table, row, &filter) && visit(self, row)?.is_break() {
                    return Ok(());
                }
            }
        }
        for place in own {
            self.check_interrupt()?;
            if let Some(row) = self.writes.inserted(touched, place)
                && self.passes(table, row, &filter)
                && visit(self, row)?.is_break()
            {
                break;
            }
        }
        Ok(())
    }

    /// The rows of one block that exist for this transaction before its own writes to them by the visitor.
    fn visible_rows(&self, table: usize, number: BlockNumber, at: ReadAt, rows: &mut Vec<RowId>) {
        let pin = crossbeam_epoch::pin();
        let block = self.tables.storage(table).block(number);
        let exists = (0..block.fill()).filter(|&offset| block.exists_at(offset, at, &pin));
        rows.extend(exists.map(|offset| RowId::new(number, offset)).filter(|&row| {
            let kind = self.writes.get(table, row).map(|write| write.kind);
            !matches!(kind, Some(WriteKind::Delete | WriteKind::Nothing))
        }));
    }
}
