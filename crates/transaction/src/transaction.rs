//! One transaction: reads at its timestamp, keeps its writes to itself, commits or vanishes.

use crate::commit::Progress;
use crate::key_batch::KeyBatch;
use crate::key_filter::key_hash;
use crate::lock::Blocker;
use crate::manager::{TransactionManager, Worker};
use crate::own_keys::OwnKeys;
use crate::read_set::{ReadSet, RowFilter};
use crate::row::RowReader;
use crate::row_locks::RowLocks;
use crate::statement::Statement;
use crate::write::concurrent_update;
use crate::write_set::{ROWS_KEPT, TouchedTables, Write, WriteKind, WriteSet};
use ankerdb_base::{ColumnSet, Error, Result, RowId, SqlState, TableId, Timestamp};
use ankerdb_memory::{account, emergency_pool, release};
use ankerdb_snapshot::{OwnChange, OwnWrites, ReadView, Snapshot, reader_slot};
use ankerdb_sync::interrupt::Interrupt;
use ankerdb_sync::lock_table::Holder;
use ankerdb_sync::memory_limit::check_system;
use ankerdb_sync::readers::ReaderSlot;
use ankerdb_table::{Cell, Entries, Index, ReadAt, Storage, Table};
use ankerdb_value::Value;
use crossbeam_epoch::Guard;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

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

/// Tables that a session keeps at hand between two procedures.
const TABLES_KEPT: usize = 32;

/// A transaction. Dropping it rolls back. After a retryable error only rolling back makes sense.
pub struct Transaction {
    pub(crate) manager: Arc<TransactionManager>,
    pub(crate) worker: Arc<Worker>,
    /// Shared with the views that were made of this transaction.
    pub(crate) slot: Arc<ReaderSlot>,
    /// Announces an earlier statement's timestamp where rows found by it may still be written: until the end, their
    /// slots are not given to other rows. See [`enter`](Self::enter).
    pub(crate) anchor: Option<Arc<ReaderSlot>>,
    /// Announces nothing; kept for the next need.
    pub(crate) spare: Option<Arc<ReaderSlot>>,
    /// Whether an interactive transaction whose timestamp may move has written to a row without locking it.
    pub(crate) has_unlocked_writes: bool,
    pub(crate) isolation: Isolation,
    /// Whether somebody waits for the next statement between two of them. Procedures run at once, and each read
    /// of theirs counts as a statement at READ COMMITTED.
    pub(crate) interactive: bool,
    pub(crate) start: Timestamp,
    /// How cells are read: as all else, or only while they are in place.
    pub(crate) cells_at: ReadAt,
    /// Whether there is something to do before a read; see [`before_read`](Self::before_read).
    pub(crate) acts_before_reads: bool,
    pub(crate) tables: TouchedTables,
    /// Whether procedures leave `tables` to their successors.
    keeps_tables: bool,
    /// The definitions when `tables` was begun; see [`TransactionManager::note_definitions`].
    definitions: u64,
    pub(crate) reads: ReadSet,
    pub(crate) statement: Statement,
    pub(crate) writes: WriteSet,
    /// What it is in the lock table, once it has been there.
    pub(crate) holder: Option<Holder>,
    /// Rows locked by `lock`, until the end.
    pub(crate) locked: RowLocks,
    /// The row in somebody else's hands that the last conflict was about, for waiting before another try.
    pub(crate) blocked_by: Option<Blocker>,
    /// The commit that the last conflict was with, which may not be visible yet.
    pub(crate) conflict: Option<Timestamp>,
    pub(crate) interrupt: Interrupt,
    pub(crate) lock_timeout: Option<Duration>,
    /// Whether a row was read that had gone since its statement, or, where that ends the transaction, a cell that was
    /// no longer in place; see [`cell`](Self::cell).
    pub(crate) has_read_vanished: AtomicBool,
    pub(crate) buffers: CommitBuffers,
    pub(crate) active: bool,
}

/// Memory that commits reuse.
#[derive(Default)]
pub(crate) struct CommitBuffers {
    pub order: Vec<(TableId, RowId, usize)>,
    pub in_use: Vec<Timestamp>,
    pub in_use_age: u32,
    /// A table whose dead rows the commit is to sweep once it is over.
    pub crowded: Option<Arc<Table>>,
    /// The end of a scan by prefix.
    pub prefix: Vec<u8>,
    /// The key of a new row, being checked.
    pub key: Vec<u8>,
    /// Hashes of the keys of a new row that have been checked, with the positions of their indexes.
    pub checked_keys: Vec<(usize, u64)>,
    pub progress: Progress,
}

impl CommitBuffers {
    /// Lets memory go that only a large transaction needs.
    fn shrink(&mut self) {
        if self.order.capacity() > ROWS_KEPT {
            let crowded = self.crowded.take();
            let large = std::mem::replace(self, CommitBuffers { crowded, ..CommitBuffers::default() });
            release(large.order);
            large.progress.release();
        }
    }
}

impl Transaction {
    /// A transaction that has not begun; see [`begin`](Self::begin).
    pub fn new(manager: Arc<TransactionManager>, worker: Arc<Worker>) -> Transaction {
        let slot = Arc::new(manager.readers().register());
        let interrupt = Interrupt::new();
        interrupt.limit_memory(manager.memory_limit());
        Transaction {
            manager,
            worker,
            slot,
            anchor: None,
            spare: None,
            has_unlocked_writes: false,
            isolation: Isolation::Serializable,
            interactive: true,
            start: Timestamp::ZERO,
            cells_at: ReadAt::Newest,
            acts_before_reads: false,
            tables: TouchedTables::default(),
            keeps_tables: true,
            definitions: 0,
            reads: ReadSet::default(),
            statement: Statement::default(),
            writes: WriteSet::default(),
            holder: None,
            locked: RowLocks::default(),
            blocked_by: None,
            conflict: None,
            interrupt,
            lock_timeout: None,
            has_read_vanished: AtomicBool::new(false),
            buffers: CommitBuffers::default(),
            active: false,
        }
    }

    /// Begins: from here on the transaction reads what is committed now. Costs some tens of nanoseconds.
    pub fn begin(&mut self, isolation: Isolation, interactive: bool) {
        assert!(!self.active, "a transaction ends before it begins again");
        account::begin_work();
        emergency_pool::forget();
        self.isolation = isolation;
        self.interactive = interactive;
        self.blocked_by = None;
        self.conflict = None;
        self.statement = Statement::default();
        *self.has_read_vanished.get_mut() = false;
        self.active = true;
        self.acts_before_reads = self.is_strict() || (!interactive && isolation == Isolation::ReadCommitted);
        let definitions = self.manager.definitions();
        if self.definitions != definitions || self.tables.len() > TABLES_KEPT {
            self.tables.clear();
            self.definitions = definitions;
        }
        self.enter();
    }

    /// Reads at the watermark from now on.
    ///
    /// The statement before this one has found rows. Procedures may write to them at any later time, interactive
    /// transactions lock them first or have written to them already. Were such a row deleted meanwhile, and its slot
    /// given to another row, then that one would be written; so the first such statement's slot stays announced.
    pub(crate) fn enter(&mut self) {
        let keeps_rows = !self.interactive || self.has_unlocked_writes;
        if keeps_rows && self.slot.timestamp().is_some() && !self.has_anchor() {
            self.slot.set_anchor();
            let idle = self.anchor.take().unwrap_or_else(|| Arc::new(self.manager.readers().register()));
            self.anchor = Some(std::mem::replace(&mut self.slot, idle));
        }
        if Arc::strong_count(&self.slot) > 1 {
            // A view still reads at the old timestamp: leave it that slot.
            self.slot = Arc::new(self.manager.readers().register());
        }
        let manager = &self.manager;
        let start = match self.isolation {
            // Finds rows at later timestamps than the one that it announces.
            Isolation::ReadUncommitted => self.slot.enter_as_anchor(|| manager.watermark()),
            _ => self.slot.enter(|| manager.watermark()),
        };
        self.start_at(start);
    }

    /// Reads are as of this timestamp, which a slot announces.
    pub(crate) fn start_at(&mut self, timestamp: Timestamp) {
        self.start = timestamp;
        self.cells_at = if self.is_strict() { ReadAt::InPlace(self.start) } else { self.read_at() };
    }

    pub(crate) fn has_anchor(&self) -> bool {
        self.anchor.as_ref().is_some_and(|anchor| anchor.timestamp().is_some())
    }

    /// Whether the transaction aborts as soon as it would have to look for an old version (AnKer §6.1, HEE).
    pub(crate) fn is_strict(&self) -> bool {
        self.manager.history().aborts_on_versions && self.isolation == Isolation::Serializable
    }

    /// Forgets everything. The slot stays announced only if a view still reads through it.
    pub(crate) fn end(&mut self) {
        self.reads.clear();
        self.writes.clear();
        self.buffers.shrink();
        self.interrupt.set_frees(false);
        self.release_locks();
        if self.interactive || !self.keeps_tables {
            self.tables.clear();
        }
        if Arc::strong_count(&self.slot) > 1 {
            self.slot = Arc::new(self.manager.readers().register());
        } else {
            self.slot.leave();
        }
        match &self.anchor {
            // A view still reads through it.
            Some(anchor) if Arc::strong_count(anchor) > 1 => self.anchor = None,
            Some(anchor) => anchor.leave(),
            None => {}
        }
        self.has_unlocked_writes = false;
        self.active = false;
    }

    /// Whether tables stay at hand between two procedures, which saves counting references that all threads share. A
    /// session that may rest for long should not keep them: a table that is dropped meanwhile would keep its memory.
    pub fn set_keeps_tables(&mut self, keeps: bool) {
        self.keeps_tables = keeps;
    }

    /// Its isolation level.
    pub fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// Whether somebody waits for its next statement: rows are locked then before they are written. Not of procedures.
    pub fn is_interactive(&self) -> bool {
        self.interactive
    }

    /// What this transaction (at READ COMMITTED: this statement) reads: everything committed up to here. Moves at
    /// SERIALIZABLE when a statement is [restarted](Self::restart_statement).
    pub fn read_timestamp(&self) -> Timestamp {
        self.start
    }

    /// What ends waits, scans and all other work up to the drawing of a commit's timestamp, when another thread raises
    /// it. Stays from one transaction to the next.
    pub fn set_interrupt(&mut self, interrupt: Interrupt) {
        interrupt.limit_memory(self.manager.memory_limit());
        self.interrupt = interrupt;
    }

    /// How long to wait for a row that another transaction has locked, before 55P03; without end if `None`. Stays from
    /// one transaction to the next.
    pub fn set_lock_timeout(&mut self, limit: Option<Duration>) {
        self.lock_timeout = limit;
    }

    /// Whether the transaction is to go on. To be asked in every loop that may be long; one load.
    ///
    /// # Errors
    /// `QueryCanceled`, `ConnectionFailure` or `AdminShutdown` once the interrupt is raised.
    #[inline]
    pub fn check_interrupt(&self) -> Result<()> {
        self.interrupt.check()
    }

    /// Whether anything would be committed.
    pub fn has_writes(&self) -> bool {
        !self.writes.is_empty()
    }

    /// Rows that would be inserted, changed or deleted.
    pub fn write_count(&self) -> usize {
        self.writes.writes.len()
    }

    /// What every read begins with.
    #[inline]
    pub(crate) fn before_read(&mut self) -> Result<()> {
        debug_assert!(self.active);
        check_system()?;
        self.reads.check()?;
        if self.acts_before_reads { self.act_before_read() } else { Ok(()) }
    }

    /// Each read of a procedure is a statement at READ COMMITTED. A strict transaction ends here if a cell that it has
    /// read was not in place.
    #[cold]
    fn act_before_read(&mut self) -> Result<()> {
        if !self.is_strict() {
            self.enter();
        } else if *self.has_read_vanished.get_mut() {
            return Err(concurrent_update());
        }
        Ok(())
    }

    pub(crate) fn read_at(&self) -> ReadAt {
        match self.isolation {
            Isolation::ReadUncommitted => ReadAt::Newest,
            _ => ReadAt::Snapshot(self.start),
        }
    }

    pub(crate) fn validates(&self) -> bool {
        self.isolation == Isolation::Serializable
    }

    pub(crate) fn note_row(&mut self, table: TableId, row: RowId, columns: ColumnSet) {
        if self.validates() && row.provisional_number().is_none() {
            self.reads.add_row(table, row, columns);
        }
    }

    pub(crate) fn note_range(
        &mut self,
        number: usize,
        index: usize,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
    ) {
        if self.validates() {
            self.reads.add_range((self.tables[number].id(), number), index, lower, upper);
        }
    }

    pub(crate) fn usable<'t>(&self, table: &'t Table, position: usize) -> Result<&'t Index> {
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
    pub(crate) fn check_still_there(&self, index: &Index) -> Result<()> {
        if index.is_dropped() {
            return Err(Error::serialization("index was dropped while this transaction was reading it"));
        }
        Ok(())
    }

    /// Whether a committed row found under `key` is visible under that key.
    pub(crate) fn visible_as(
        &self,
        number: usize,
        index: &Index,
        (key, row): (&[u8], RowId),
        at: ReadAt,
        pin: &Guard,
    ) -> bool {
        if self.writes.hides(number, row, index.key_columns()) {
            return false;
        }
        let storage = self.tables.storage(number);
        if !index.keys_move() {
            let block = storage.block(row.block());
            if !block.exists_at(row.offset(), at, pin) {
                return false;
            }
            // Who reads the newest state may meet another row in a slot whose former row's entry was just found.
            if at != ReadAt::Newest || block.header(row.offset()).timestamp() <= self.start {
                return true;
            }
        }
        storage.key_at(index, row, at, pin).ok().flatten().is_some_and(|(found, _)| found == key)
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
        self.before_read()?;
        let position = index;
        let index = self.usable(table, position)?;
        let number = self.tables.number(table);
        if self.writes.has_own_keys(number, index.key_columns())
            && self.may_have_key(number, position, index, key_hash(key))?
            && let Some(row) = self.own_keys(number, position, index)?.get(key)
        {
            return Ok(Some(row));
        }
        let found = self.committed_row(number, index, key, &crossbeam_epoch::pin());
        self.check_still_there(index)?;
        self.note_lookup(number, position, index, key, columns, found);
        Ok(found)
    }

    /// The rows with these keys in a unique index, as [`find`](Self::find) finds each: `rows` gets one for each key, or
    /// `None`. For procedures that know several keys at once: the index, and then the headers and `columns` of all rows,
    /// are asked for before the first row is looked at, so that the waits for memory overlap.
    pub fn find_all(
        &mut self,
        table: &Arc<Table>,
        index: usize,
        keys: &KeyBatch,
        columns: ColumnSet,
        rows: &mut Vec<Option<RowId>>,
    ) -> Result<()> {
        self.before_read()?;
        rows.clear();
        let position = index;
        let index = self.usable(table, position)?;
        let number = self.tables.number(table);
        if self.writes.has_own_keys(number, index.key_columns()) {
            for key in keys.iter() {
                rows.push(self.find(table, position, key, columns)?);
            }
            return Ok(());
        }
        let pin = crossbeam_epoch::pin();
        let (storage, entries) = (Storage::of(table), Entries::of(index));
        keys.iter().for_each(|key| entries.prefetch(key));
        rows.extend(keys.iter().map(|key| {
            let row = candidate(index, key);
            if let Some(row) = row {
                storage.block(row.block()).prefetch(row.offset(), columns, &pin);
            }
            row
        }));
        for (key, row) in keys.iter().zip(rows.iter_mut()) {
            let is_visible =
                row.is_some_and(|row| self.visible_as(number, index, (key, row), self.read_at(), &pin));
            if !is_visible {
                // Rare: the entry is out of date, or there are several.
                *row = self.committed_row(number, index, key, &pin);
            }
            self.note_lookup(number, position, index, key, columns, *row);
        }
        self.check_still_there(index)
    }

    /// The committed row that this transaction sees under a key.
    fn committed_row(&self, number: usize, index: &Index, key: &[u8], pin: &Guard) -> Option<RowId> {
        let mut found = None;
        Entries::of(index).get(key, |row| {
            let row = RowId(row);
            if self.visible_as(number, index, (key, row), self.read_at(), pin) {
                found = Some(row);
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        found
    }

    /// Notes what a lookup has read: the row, or that there is none with the key.
    fn note_lookup(
        &mut self,
        number: usize,
        position: usize,
        index: &Index,
        key: &[u8],
        columns: ColumnSet,
        found: Option<RowId>,
    ) {
        match found {
            Some(row) => {
                let table = self.tables[number].id();
                self.note_row(table, row, columns.union(index.key_columns()));
            }
            None => self.note_range(number, position, Bound::Included(key), Bound::Included(key)),
        }
    }

    /// The keys of pending rows that come from this transaction.
    pub(crate) fn own_keys(&mut self, number: usize, position: usize, index: &Index) -> Result<&OwnKeys> {
        let (table, at, interrupt) = (&self.tables[number], self.read_at(), &self.interrupt);
        let push_key = push_as_of(table, index, at);
        self.writes.own_keys((number, position), index, push_key, || interrupt.check())
    }

    /// Whether some pending row may have a key of this hash in a unique index that comes from this transaction.
    pub(crate) fn may_have_key(
        &mut self,
        number: usize,
        position: usize,
        index: &Index,
        hash: u64,
    ) -> Result<bool> {
        let (table, at, interrupt) = (&self.tables[number], self.read_at(), &self.interrupt);
        let push_key = push_as_of(table, index, at);
        self.writes.may_have_key((number, position), index, hash, push_key, || interrupt.check())
    }

    pub(crate) fn passes(&self, table: &Arc<Table>, row: RowId, filter: &Option<RowFilter>) -> bool {
        filter.as_ref().is_none_or(|filter| filter(&|column| self.value(table, row, column)))
    }

    /// Notes that the whole table, or the rows that satisfy `filter`, was read by other means, such as an
    /// analytical query over a view of this transaction. `columns` are those looked at, by the filter too.
    pub fn note_table_read(&mut self, table: &Arc<Table>, columns: ColumnSet, filter: Option<RowFilter>) {
        if self.validates() {
            self.reads.add_table(table.clone(), columns, filter);
        }
    }

    /// Notes that cells of a visible row were looked at which its `find` or scan had not named: from here on a concurrent
    /// change of these columns is a conflict, too. For callers that learn late what they read; a few nanoseconds.
    #[inline]
    pub fn note_columns_read(&mut self, table: &Table, row: RowId, columns: ColumnSet) {
        if self.validates() && row.provisional_number().is_none() {
            self.reads.add_columns(table.id(), row, columns);
        }
    }

    /// Begins to read what a snapshot shows, at REPEATABLE READ, so that nothing is validated. Further
    /// statements read the same. Costs what an allocation does.
    pub fn begin_at(&mut self, snapshot: &Snapshot) {
        self.begin(Isolation::RepeatableRead, false);
        self.slot.leave();
        self.slot = reader_slot(snapshot).clone();
        self.start_at(snapshot.timestamp());
    }

    /// A visible row, to read cells of it. Rows come from this transaction's own finds and scans.
    #[inline]
    pub fn row<'t>(&'t self, table: &'t Arc<Table>, row: RowId) -> RowReader<'t> {
        let pending = match self.writes.is_empty() {
            true => None,
            false => self.tables.find(table.id()).and_then(|number| self.writes.get(number, row)),
        };
        RowReader::new(self, table, row, pending)
    }

    /// Asks for the memory of the strings in cells of rows that [`find_all`](Self::find_all) has found: their bytes lie
    /// elsewhere.
    #[inline]
    pub fn prefetch_texts(&self, table: &Arc<Table>, row: RowId, columns: ColumnSet) {
        if row.provisional_number().is_none() {
            let block = Storage::of(table).block(row.block());
            block.prefetch_bytes(row.offset(), columns, &crossbeam_epoch::pin());
        }
    }

    /// One cell of a visible row, own writes included. Panics if the row is not visible: rows come from this
    /// transaction's own `find` and scans.
    pub fn value(&self, table: &Arc<Table>, row: RowId, column: usize) -> Value {
        self.row(table, row).value(column)
    }

    /// As [`RowReader::cell`].
    #[inline]
    pub fn cell<R>(
        &self,
        table: &Arc<Table>,
        row: RowId,
        column: usize,
        use_cell: impl FnOnce(Cell<'_>) -> R,
    ) -> R {
        self.row(table, row).cell(column, use_cell)
    }

    /// A smallint cell that is not NULL. As the other typed reads: for procedures, no [`Value`] is built; panics if the
    /// column has another type or the cell is NULL.
    pub fn smallint(&self, table: &Arc<Table>, row: RowId, column: usize) -> i16 {
        self.row(table, row).smallint(column)
    }

    /// An integer cell that is not NULL.
    pub fn integer(&self, table: &Arc<Table>, row: RowId, column: usize) -> i32 {
        self.row(table, row).integer(column)
    }

    /// A bigint cell, or a timestamp, that is not NULL.
    pub fn bigint(&self, table: &Arc<Table>, row: RowId, column: usize) -> i64 {
        self.row(table, row).bigint(column)
    }

    /// The unscaled digits of a numeric that is not NULL; the scale is the column's.
    pub fn decimal(&self, table: &Arc<Table>, row: RowId, column: usize) -> i128 {
        self.row(table, row).decimal(column)
    }

    /// A text cell that is not NULL.
    pub fn text(&self, table: &Arc<Table>, row: RowId, column: usize) -> Box<str> {
        self.row(table, row).text(column, |text| text.into())
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
            let table = &self.tables[write.table];
            let own = own.entry(table.id()).or_default();
            let cells = self.writes.cells(write);
            let values = cells.map(|(column, cell)| (column, cell.to_value(table.data_type(column))));
            match write.kind {
                WriteKind::Insert => own.inserts.push(values.map(|(_, value)| value).collect()),
                WriteKind::Update => {
                    own.changes.insert(write.row, OwnChange::Updated(values.collect()));
                }
                WriteKind::Delete => {
                    own.changes.insert(write.row, OwnChange::Deleted);
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

/// The first row that has an entry under a key, to ask for its memory: not yet known to be visible.
fn candidate(index: &Index, key: &[u8]) -> Option<RowId> {
    let mut candidate = None;
    Entries::of(index).get(key, |row| {
        candidate = Some(RowId(row));
        ControlFlow::Break(())
    });
    candidate
}

/// Appends pending rows' keys as of a timestamp, and says whether there is one.
fn push_as_of<'a>(
    table: &'a Table,
    index: &'a Index,
    at: ReadAt,
) -> impl Fn(&WriteSet, &Write, &mut Vec<u8>) -> bool + 'a {
    move |writes, write, key| {
        push_pending_key(writes, write, table, index, at, &crossbeam_epoch::pin(), key).is_ok()
    }
}

/// Appends the key in an index that a row with a pending write is going to have; returns whether a part is NULL. What
/// the write does not give is read from the table.
pub(crate) fn push_pending_key(
    writes: &WriteSet,
    write: &Write,
    table: &Table,
    index: &Index,
    at: ReadAt,
    pin: &Guard,
    out: &mut Vec<u8>,
) -> Result<bool> {
    let mut has_null = false;
    let mut push = |part: usize, cell: Cell<'_>| {
        has_null |= matches!(cell, Cell::Null);
        index.push_part(part, cell, out)
    };
    for (part, &column) in index.definition().columns.iter().enumerate() {
        if let Some(cell) = writes.cell(write, column) {
            push(part, cell)?;
            continue;
        }
        let block = Storage::of(table).block(write.row.block());
        match block.read(write.row.offset(), column, at, pin, |cell| push(part, cell)) {
            Some(pushed) => pushed?,
            None => push(part, Cell::Null)?,
        }
    }
    Ok(has_null)
}
