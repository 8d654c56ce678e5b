//! One transaction: reads at its timestamp, keeps its writes to itself, commits or vanishes.

use crate::manager::{TransactionManager, Worker};
use crate::read_set::{KeyRange, RangeRead, ReadSet, RowFilter, TableRead};
use crate::write_set::{WriteKind, WriteSet};
use ankerdb_base::{ColumnSet, Error, Result, RowId, SqlState, TableId, Timestamp};
use ankerdb_index::Direction;
use ankerdb_snapshot::{OwnChange, OwnWrites, ReadView, Snapshot};
use ankerdb_sync::lock_table::Owner;
use ankerdb_sync::readers::ReaderSlot;
use ankerdb_table::{Cell, Index, ReadAt, Table};
use ankerdb_value::Value;
use crossbeam_epoch::Guard;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Isolation level of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Isolation {
    /// Reads the newest installed values, as they come. (PostgreSQL gives READ COMMITTED for it; this is the
    /// SEE_RU configuration of AnKer §6.1, except that writes of running transactions are never in place.)
    ReadUncommitted,
    /// Each statement reads what was committed when it began.
    ReadCommitted,
    /// Snapshot isolation: reads what was committed when the transaction began; the first of two writers of a
    /// row wins.
    RepeatableRead,
    /// As if transactions had run one after the other, in the order of their commits, which respects real time.
    #[default]
    Serializable,
}

/// A transaction. Dropping it rolls back. After a retryable error only rolling back makes sense.
pub struct Transaction {
    pub(crate) manager: Arc<TransactionManager>,
    pub(crate) worker: Arc<Worker>,
    /// Shared with the views that were made of this transaction.
    slot: Arc<ReaderSlot>,
    pub(crate) isolation: Isolation,
    /// Whether somebody waits for the next statement between two of them. Procedures run at once, and each read
    /// of theirs counts as a statement at READ COMMITTED.
    pub(crate) interactive: bool,
    pub(crate) start: Timestamp,
    pub(crate) reads: ReadSet,
    pub(crate) writes: WriteSet,
    pub(crate) owner: Option<Owner>,
    /// Rows locked by `lock`, until the end.
    pub(crate) locked: Vec<LockedRow>,
    /// Where the last conflict was met, for waiting before another try.
    pub(crate) blocked_by: Option<(u32, u64)>,
    pub(crate) cancel: Option<Arc<AtomicBool>>,
    /// Whether a row was read that had gone since its statement; see [`cell`](Self::cell).
    pub(crate) has_read_vanished: AtomicBool,
    pub(crate) buffers: CommitBuffers,
    pub(crate) active: bool,
}

/// A row locked over several statements.
pub(crate) struct LockedRow {
    pub table: Arc<Table>,
    pub row: RowId,
    /// Whether the commit has given the row up by installing into it.
    pub given_up: bool,
}

/// Memory that commits reuse.
#[derive(Default)]
pub(crate) struct CommitBuffers {
    pub order: Vec<usize>,
    pub in_use: Vec<Timestamp>,
    pub in_use_age: u32,
}

impl Transaction {
    /// A transaction that has not begun; see [`begin`](Self::begin).
    pub fn new(manager: Arc<TransactionManager>, worker: Arc<Worker>) -> Transaction {
        let slot = Arc::new(manager.readers().register());
        Transaction {
            manager,
            worker,
            slot,
            isolation: Isolation::Serializable,
            interactive: true,
            start: Timestamp::ZERO,
            reads: ReadSet::default(),
            writes: WriteSet::default(),
            owner: None,
            locked: Vec::new(),
            blocked_by: None,
            cancel: None,
            has_read_vanished: AtomicBool::new(false),
            buffers: CommitBuffers::default(),
            active: false,
        }
    }

    /// Begins: from here on the transaction reads what is committed now. Costs some tens of nanoseconds.
    pub fn begin(&mut self, isolation: Isolation, interactive: bool) {
        assert!(!self.active, "a transaction ends before it begins again");
        self.isolation = isolation;
        self.interactive = interactive;
        self.blocked_by = None;
        *self.has_read_vanished.get_mut() = false;
        self.active = true;
        self.enter();
    }

    fn enter(&mut self) {
        if Arc::strong_count(&self.slot) > 1 {
            // A view still reads at the old timestamp: leave it that slot.
            self.slot = Arc::new(self.manager.readers().register());
        }
        let manager = &self.manager;
        self.start = self.slot.enter(|| manager.watermark());
    }

    /// Forgets everything. The slot stays announced only if a view still reads through it.
    pub(crate) fn end(&mut self) {
        self.reads.clear();
        self.writes.clear();
        self.release_locks();
        if Arc::strong_count(&self.slot) > 1 {
            self.slot = Arc::new(self.manager.readers().register());
        } else {
            self.slot.leave();
        }
        self.active = false;
    }

    /// The worker that this transaction runs as.
    pub fn worker(&self) -> &Arc<Worker> {
        &self.worker
    }

    /// The slot that announces what this transaction reads; whoever holds it keeps that readable.
    pub fn reader_slot(&self) -> &Arc<ReaderSlot> {
        &self.slot
    }

    /// Its isolation level.
    pub fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// What this transaction (at READ COMMITTED: this statement) reads: everything committed up to here.
    pub fn read_timestamp(&self) -> Timestamp {
        self.start
    }

    /// READ COMMITTED and below: starts a new statement, which reads everything committed up to now. Does nothing
    /// above.
    pub fn begin_statement(&mut self) {
        if matches!(self.isolation, Isolation::ReadCommitted | Isolation::ReadUncommitted) {
            self.enter();
        }
    }

    /// A flag that another thread raises to end waits and scans with 57014.
    pub fn set_cancel_flag(&mut self, flag: Arc<AtomicBool>) {
        self.cancel = Some(flag);
    }

    /// Whether anything would be committed.
    pub fn has_writes(&self) -> bool {
        !self.writes.is_empty()
    }

    pub(crate) fn check_canceled(&self) -> Result<()> {
        match &self.cancel {
            Some(flag) if flag.load(Ordering::Relaxed) => {
                Err(Error::new(SqlState::QueryCanceled, "canceling statement due to user request"))
            }
            _ => Ok(()),
        }
    }

    /// What every read begins with.
    fn before_read(&mut self) {
        debug_assert!(self.active);
        if !self.interactive && self.isolation == Isolation::ReadCommitted {
            self.enter();
        }
    }

    pub(crate) fn read_at(&self) -> ReadAt {
        match self.isolation {
            Isolation::ReadUncommitted => ReadAt::Newest,
            _ => ReadAt::Snapshot(self.start),
        }
    }

    fn validates(&self) -> bool {
        self.isolation == Isolation::Serializable
    }

    fn note_row(&mut self, table: &Arc<Table>, row: RowId, columns: ColumnSet) {
        if self.validates() && row.provisional_number().is_none() {
            self.reads.add_row(table, row, columns);
        }
    }

    fn note_range(&mut self, table: &Arc<Table>, index: usize, range: KeyRange) {
        if self.validates() {
            self.reads.ranges.push(RangeRead { table: table.clone(), index, range });
        }
    }

    fn usable<'t>(&self, table: &'t Table, position: usize) -> Result<&'t Index> {
        let index = table.index(position);
        if index.is_dropped() {
            let message = format!("index \"{}\" does not exist", index.definition().name);
            return Err(Error::new(SqlState::UndefinedObject, message));
        }
        if index.valid_from() > self.start && self.isolation != Isolation::ReadUncommitted {
            return Err(Error::serialization("index is newer than this transaction"));
        }
        Ok(index)
    }

    /// Who has read an index while it was dropped may have missed entries. Another try finds it gone.
    fn check_still_there(&self, index: &Index) -> Result<()> {
        if index.is_dropped() {
            return Err(Error::serialization("index was dropped while this transaction was reading it"));
        }
        Ok(())
    }

    /// Whether a committed row found under `key` is visible under that key.
    fn visible_as(&self, table: &Table, index: &Index, key: &[u8], row: RowId, pin: &Guard) -> bool {
        if !self.writes.is_empty() && self.writes.hides(table.id(), row, index.key_columns()) {
            return false;
        }
        let at = self.read_at();
        if !index.keys_move() {
            return table.block(row.block()).exists_at(row.offset(), at, pin);
        }
        table.key_at(index, row, at, pin).ok().flatten().is_some_and(|(found, _)| found == key)
    }

    /// The visible row with exactly this key in a unique index. `columns` are those the caller is going to look at:
    /// a concurrent change of any other column is no conflict.
    pub fn find(
        &mut self,
        table: &Arc<Table>,
        index: usize,
        key: &[u8],
        columns: ColumnSet,
    ) -> Result<Option<RowId>> {
        self.before_read();
        let position = index;
        let index = self.usable(table, position)?;
        if self.has_written(table) {
            let range =
                KeyRange { lower: Bound::Included(key.to_vec()), upper: Bound::Included(key.to_vec()) };
            if let Some((_, row)) = self.own_entries(table, position, index, &range).first() {
                return Ok(Some(*row));
            }
        }
        let mut found = None;
        let pin = crossbeam_epoch::pin();
        index.tree().get(key, |row| {
            let row = RowId(row);
            if self.visible_as(table, index, key, row, &pin) {
                found = Some(row);
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        self.check_still_there(index)?;
        match found {
            Some(row) => self.note_row(table, row, columns.union(index.key_columns())),
            None => {
                let key = Bound::Included(key.to_vec());
                self.note_range(table, position, KeyRange { lower: key.clone(), upper: key });
            }
        }
        Ok(found)
    }

    fn has_written(&self, table: &Table) -> bool {
        !self.writes.is_empty() && self.writes.table_position(table.id()).is_some()
    }

    /// Pending rows whose keys come from this transaction and lie in the range, in key order.
    fn own_entries(
        &mut self,
        table: &Arc<Table>,
        position: usize,
        index: &Index,
        range: &KeyRange,
    ) -> Vec<(Vec<u8>, RowId)> {
        if !self.has_written(table) {
            return Vec::new();
        }
        let at = self.read_at();
        let pin = crossbeam_epoch::pin();
        let key_of = |writes: &WriteSet, row: RowId| pending_key(writes, table, index, row, at, &pin);
        let entries = self.writes.own_keys(table.id(), position, index, key_of);
        let Some(entries) = entries else { return Vec::new() };
        let lower = match &range.lower {
            Bound::Included(key) | Bound::Excluded(key) => Bound::Included((key.clone(), RowId(0))),
            Bound::Unbounded => Bound::Unbounded,
        };
        let in_range: Vec<_> = entries
            .range((lower, Bound::Unbounded))
            .skip_while(|(key, _)| !range.contains(key))
            .take_while(|(key, _)| range.contains(key))
            .cloned()
            .collect();
        in_range.into_iter().filter(|(_, row)| self.is_pending(table.id(), *row)).collect()
    }

    fn is_pending(&self, table: TableId, row: RowId) -> bool {
        matches!(self.writes.get(table, row), Some(WriteKind::Insert(_) | WriteKind::Update(_)))
    }

    /// Visits the visible rows with keys in the range, own writes included, in key order. What the visitor does to
    /// the table meanwhile does not change what is visited.
    pub fn scan_index(
        &mut self,
        table: &Arc<Table>,
        index: usize,
        range: &KeyRange,
        direction: Direction,
        columns: ColumnSet,
        visit: &mut dyn FnMut(&mut Transaction, RowId) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        self.before_read();
        let position = index;
        let index = self.usable(table, position)?;
        let mut own = self.own_entries(table, position, index, range);
        if direction == Direction::Backward {
            own.reverse();
        }
        let read = self.reads.ranges.len();
        self.note_range(table, position, range.clone());
        let mut own = own.into_iter().peekable();
        let columns = columns.union(index.key_columns());
        let mut outcome = Ok(ControlFlow::Continue(()));
        let (lower, upper) = (as_slice(&range.lower), as_slice(&range.upper));
        let mut last_key = Vec::new();
        index.tree().scan(lower, upper, direction, |key, row| {
            outcome = self.check_canceled().map(|()| ControlFlow::Continue(()));
            let before = |own: &[u8]| match direction {
                Direction::Forward => own < key,
                Direction::Backward => own > key,
            };
            while let Ok(ControlFlow::Continue(())) = outcome
                && let Some((_, row)) = own.next_if(|(own, _)| before(own))
            {
                outcome = visit(self, row);
            }
            let visible = || self.visible_as(table, index, key, RowId(row), &crossbeam_epoch::pin());
            if matches!(outcome, Ok(ControlFlow::Continue(()))) && visible() {
                self.note_row(table, RowId(row), columns);
                outcome = visit(self, RowId(row));
            }
            match outcome {
                Ok(ControlFlow::Continue(())) => ControlFlow::Continue(()),
                _ => {
                    last_key = key.to_vec();
                    ControlFlow::Break(())
                }
            }
        });
        let outcome = outcome?;
        self.check_still_there(index)?;
        if outcome.is_break() {
            self.narrow_range(read, direction, last_key);
            return Ok(());
        }
        for (_, row) in own {
            if visit(self, row)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// A scan that stopped early has read only as far as it came.
    fn narrow_range(&mut self, read: usize, direction: Direction, last_key: Vec<u8>) {
        if let Some(read) = self.reads.ranges.get_mut(read) {
            let end = Bound::Included(last_key);
            match direction {
                Direction::Forward => read.range.upper = end,
                Direction::Backward => read.range.lower = end,
            }
        }
    }

    /// Visits all visible rows, own writes included, in no order; those that `filter` rejects are left out and do
    /// not count as read. `columns` are those looked at, by the filter too: other columns may change without conflict.
    /// What the visitor does to the table meanwhile does not change what is visited.
    pub fn scan_table(
        &mut self,
        table: &Arc<Table>,
        columns: ColumnSet,
        filter: Option<RowFilter>,
        visit: &mut dyn FnMut(&mut Transaction, RowId) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        self.before_read();
        self.note_table_read(table, columns, filter.clone());
        let own: Vec<RowId> = self.writes.inserts(table.id()).map(|(row, _)| row).collect();
        let mut rows = Vec::new();
        for number in 0..table.block_count() {
            self.check_canceled()?;
            self.visible_rows(table, number, &mut rows);
            for row in rows.drain(..) {
                if self.passes(table, row, &filter) && visit(self, row)?.is_break() {
                    return Ok(());
                }
            }
        }
        for row in own {
            if self.is_pending(table.id(), row)
                && self.passes(table, row, &filter)
                && visit(self, row)?.is_break()
            {
                break;
            }
        }
        Ok(())
    }

    /// The rows of one block that exist for this transaction before its own writes to them by the visitor.
    fn visible_rows(&self, table: &Arc<Table>, number: usize, rows: &mut Vec<RowId>) {
        let (at, pin) = (self.read_at(), crossbeam_epoch::pin());
        let block = table.block(number);
        let exists = (0..block.fill()).filter(|&offset| block.exists_at(offset, at, &pin));
        rows.extend(exists.map(|offset| RowId::new(number, offset)).filter(|&row| {
            !matches!(self.writes.get(table.id(), row), Some(WriteKind::Delete | WriteKind::Nothing))
        }));
    }

    fn passes(&self, table: &Arc<Table>, row: RowId, filter: &Option<RowFilter>) -> bool {
        filter.as_ref().is_none_or(|filter| filter(&|column| self.value(table, row, column)))
    }

    /// Notes that the whole table, or the rows that satisfy `filter`, was read by other means, such as an
    /// analytical query over a view of this transaction. `columns` are those looked at, by the filter too.
    pub fn note_table_read(&mut self, table: &Arc<Table>, columns: ColumnSet, filter: Option<RowFilter>) {
        if self.validates() {
            self.reads.tables.push(TableRead { table: table.clone(), columns, filter });
        }
    }

    /// The pending value of a cell, if this transaction has written it.
    fn pending(&self, table: &Table, row: RowId, column: usize) -> Option<&Value> {
        if self.writes.is_empty() {
            return None;
        }
        match self.writes.get(table.id(), row)? {
            WriteKind::Insert(values) => Some(&values[column]),
            WriteKind::Update(changes) => {
                changes.iter().find(|(position, _)| *position == column).map(|(_, value)| value)
            }
            WriteKind::Delete | WriteKind::Nothing => None,
        }
    }

    /// One cell of a visible row, own writes included. Panics if the row is not visible: rows come from this
    /// transaction's own `find` and scans.
    pub fn value(&self, table: &Arc<Table>, row: RowId, column: usize) -> Value {
        let data_type = table.data_type(column);
        self.cell(table, row, column, |cell| cell.to_value(data_type))
    }

    /// As [`value`](Self::value), handing the cell to a function.
    ///
    /// Below REPEATABLE READ a row may be gone since it was found: then the cell is what it was in the end. At READ
    /// COMMITTED its slot may even hold another row by then, so the transaction will not commit (40001).
    #[inline]
    pub fn cell<R>(
        &self,
        table: &Arc<Table>,
        row: RowId,
        column: usize,
        use_cell: impl FnOnce(Cell<'_>) -> R,
    ) -> R {
        if let Some(value) = self.pending(table, row, column) {
            return use_cell(Cell::of(value, table.data_type(column)).expect("checked when it was written"));
        }
        let pin = crossbeam_epoch::pin();
        let block = table.block(row.block());
        let mut use_cell = Some(use_cell);
        let mut once = |cell: Cell<'_>| (use_cell.take().expect("a cell is read once"))(cell);
        if let Some(result) = block.read(row.offset(), column, self.read_at(), &pin, &mut once) {
            return result;
        }
        let is_weak = matches!(self.isolation, Isolation::ReadUncommitted | Isolation::ReadCommitted);
        assert!(is_weak, "rows come from this transaction's own finds and scans");
        // At READ UNCOMMITTED the slot stays as it is: the transaction has announced an older timestamp.
        self.has_read_vanished.fetch_or(self.isolation == Isolation::ReadCommitted, Ordering::Relaxed);
        block.read_in_place(row.offset(), column, &pin, once)
    }

    #[inline]
    fn word(&self, table: &Arc<Table>, row: RowId, column: usize) -> u64 {
        self.cell(table, row, column, |cell| match cell {
            Cell::Word(word) => word,
            other => panic!("column {column} of {} is not a narrow number: {other:?}", table.name()),
        })
    }

    /// A smallint cell that is not NULL. As the other typed reads: for procedures, no [`Value`] is built; panics if the
    /// column has another type or the cell is NULL.
    pub fn smallint(&self, table: &Arc<Table>, row: RowId, column: usize) -> i16 {
        self.word(table, row, column) as i16
    }

    /// An integer cell that is not NULL.
    pub fn integer(&self, table: &Arc<Table>, row: RowId, column: usize) -> i32 {
        self.word(table, row, column) as i32
    }

    /// A bigint cell, or a timestamp, that is not NULL.
    pub fn bigint(&self, table: &Arc<Table>, row: RowId, column: usize) -> i64 {
        self.word(table, row, column) as i64
    }

    /// The unscaled digits of a numeric that is not NULL; the scale is the column's.
    pub fn decimal(&self, table: &Arc<Table>, row: RowId, column: usize) -> i128 {
        self.cell(table, row, column, |cell| match cell {
            Cell::Word(word) => word as i64 as i128,
            Cell::Wide(wide) => wide as i128,
            other => panic!("column {column} of {} is not a number: {other:?}", table.name()),
        })
    }

    /// A text cell that is not NULL.
    pub fn text(&self, table: &Arc<Table>, row: RowId, column: usize) -> Box<str> {
        self.cell(table, row, column, |cell| match cell {
            Cell::Bytes(bytes) => std::str::from_utf8(bytes).expect("stored text is UTF-8").into(),
            other => panic!("column {column} of {} is not text: {other:?}", table.name()),
        })
    }

    /// What analytics inside this transaction read: what it reads itself, and its own writes so far. Keeps that
    /// readable for as long as it lives, also after the transaction.
    pub fn read_view(&self) -> ReadView {
        let counters = self.manager.snapshot_counters().clone();
        let strategy = self.manager.strategy_at(self.isolation);
        let snapshot = Snapshot::new(self.start, self.slot.clone(), strategy, counters);
        ReadView::of_transaction(snapshot, self.own_writes())
    }

    /// The uncommitted writes so far, for analytics inside this transaction.
    fn own_writes(&self) -> OwnWrites {
        let mut own = OwnWrites::default();
        for write in &self.writes.writes {
            let table = own.entry(self.writes.tables[write.table].id()).or_default();
            match &write.kind {
                WriteKind::Insert(values) => table.inserts.push(values.clone()),
                WriteKind::Update(changes) => {
                    table.changes.insert(write.row, OwnChange::Updated(changes.clone()));
                }
                WriteKind::Delete => {
                    table.changes.insert(write.row, OwnChange::Deleted);
                }
                WriteKind::Nothing => {}
            }
        }
        own
    }

    /// Ends the transaction; nothing of it remains.
    pub fn rollback(&mut self) {
        if self.active {
            self.worker.count_abort();
            self.end();
        }
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.rollback();
    }
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(|key| &key[..])
}

/// The key of a row that this transaction has written, as it sees it.
fn pending_key(
    writes: &WriteSet,
    table: &Table,
    index: &Index,
    row: RowId,
    at: ReadAt,
    pin: &Guard,
) -> Option<Vec<u8>> {
    let kind = writes.get(table.id(), row)?;
    let mut key = Vec::new();
    let value = |column: usize| match kind {
        WriteKind::Insert(values) => values[column].clone(),
        WriteKind::Update(changes) => changes
            .iter()
            .find(|(position, _)| *position == column)
            .map(|(_, value)| value.clone())
            .unwrap_or_else(|| table.value(row, column, at, pin).unwrap_or(Value::Null)),
        WriteKind::Delete | WriteKind::Nothing => Value::Null,
    };
    if matches!(kind, WriteKind::Delete | WriteKind::Nothing) {
        return None;
    }
    index.encode_row(value, &mut key).ok()?;
    Some(key)
}
