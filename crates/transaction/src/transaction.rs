//! One transaction: reads at its timestamp, keeps its writes to itself, commits or vanishes.

use crate::announced::Announced;
use crate::blocker::Blocker;
use crate::contested::ContestedKey;
use crate::isolation::Isolation;
use crate::logging::Redo;
use crate::manager::{TransactionManager, Versioning};
use crate::progress::CommitProgress;
use crate::read_set::{Mark, ReadSet, RowFilter};
use crate::references::References;
use crate::refusal::concurrent_update;
use crate::row_locks::RowLocks;
use crate::rows_to_load::Load;
use crate::stale::Stale;
use crate::touched_tables::TouchedTables;
use crate::worker::Worker;
use crate::write_set::{ROWS_KEPT, WriteKind, WriteSet};
use ankerdb_base::{ColumnSet, Error, IndexPosition, Result, RowId, SqlState, TableId, Timestamp};
use ankerdb_memory::{account, emergency_pool, release};
use ankerdb_snapshot::{OwnChange, OwnWrites, ReadView, Snapshot, reader_slot};
use ankerdb_sync::interrupt::Interrupt;
use ankerdb_sync::lock_table::Holder;
use ankerdb_sync::memory_limit::check_system;
use ankerdb_table::{ReadAt, Storage, Table};
use std::num::NonZeroU64;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

/// A transaction. Dropping it rolls back. After a retryable error it can only be rolled back.
pub struct Transaction {
    pub(crate) manager: Arc<TransactionManager>,
    pub(crate) worker: Arc<Worker>,
    pub(crate) announced: Announced,
    pub(crate) isolation: Isolation,
    pub(crate) kind: TransactionKind,
    pub(crate) before_reads: BeforeReads,
    pub(crate) start: Timestamp,
    /// How cells are read: like everything else, or only while they are in place.
    pub(crate) cells_at: ReadAt,
    pub(crate) tables: TouchedTables,
    /// What was read and has to hold at the commit. Below SERIALIZABLE: for foreign keys only.
    pub(crate) reads: ReadSet,
    pub(crate) references: References,
    pub(crate) contested: Vec<ContestedKey>,
    pub(crate) statement: StatementStart,
    /// The earliest timestamp as of which a constraint on a changed row was tested.
    pub(crate) checked_at: Option<Timestamp>,
    pub(crate) writes: WriteSet,
    /// Rows that were loaded beside the write set.
    pub(crate) load: Option<Box<Load>>,
    /// See [`refused_row`](Self::refused_row).
    pub(crate) refused_row: Option<usize>,
    /// Its entry in the lock table, once it has one.
    pub(crate) holder: Option<Holder>,
    /// Rows locked by `lock`, until the end.
    pub(crate) locked: RowLocks,
    /// The row of another owner that the last conflict was about, to be waited for before another try.
    pub(crate) blocked_by: Option<Blocker>,
    /// The commit that the last conflict was with, which may not be visible yet.
    pub(crate) conflict: Option<Timestamp>,
    pub(crate) interrupt: Interrupt,
    pub(crate) lock_timeout: Option<Duration>,
    pub(crate) stale: Stale,
    /// The snapshot that it reads, if queries share what is lent and copied for that.
    pub(crate) shared: Option<Snapshot>,
    /// Whether commits wait until they are on disk.
    pub(crate) waits_for_log: bool,
    /// The number by which it closes the gates of tables that it redefines.
    pub(crate) closer: Option<NonZeroU64>,
    pub(crate) buffers: CommitBuffers,
}

/// How the transaction is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TransactionKind {
    /// It has ended, or has not begun.
    Over,
    /// A closure, which runs at once.
    Procedure,
    /// Statements of a client, with waits between them.
    Interactive,
}

/// What every read begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BeforeReads {
    Nothing,
    /// Reading what is committed now: each read of a procedure is a statement at READ COMMITTED.
    NewStatement,
    /// Ending if a cell that was read was not in place: the transaction aborts as soon as it would have to look for an old
    /// version (AnKer §6.1, HEE).
    CheckInPlace,
}

impl BeforeReads {
    fn of(isolation: Isolation, kind: TransactionKind, versioning: Versioning) -> BeforeReads {
        match isolation {
            Isolation::Serializable if versioning.aborts_on_versions => BeforeReads::CheckInPlace,
            Isolation::ReadCommitted if kind == TransactionKind::Procedure => BeforeReads::NewStatement,
            _ => BeforeReads::Nothing,
        }
    }
}

/// The state when the running statement began.
#[derive(Clone, Copy, Default)]
pub(crate) struct StatementStart {
    pub reads: Mark,
    /// How often the write set had been changed.
    pub changes: usize,
}

/// Memory that commits reuse.
#[derive(Default)]
pub(crate) struct CommitBuffers {
    pub order: Vec<(TableId, RowId, usize)>,
    pub in_use: Vec<Timestamp>,
    pub in_use_age: u32,
    /// A table whose dead rows the commit is to sweep once it is over.
    pub to_sweep: Option<Arc<Table>>,
    /// The end of a scan by prefix.
    pub prefix: Vec<u8>,
    /// The key of a new row, being checked.
    pub key: Vec<u8>,
    /// Hashes of the keys of a new row that have been checked, with the positions of their indexes.
    pub checked_keys: Vec<(IndexPosition, u64)>,
    pub progress: CommitProgress,
    /// What the log is told.
    pub redo: Redo,
}

impl CommitBuffers {
    /// Frees memory that only a large transaction needs.
    fn shrink(&mut self) {
        if self.redo.is_large() {
            self.redo = Redo::default();
        }
        if self.order.capacity() > ROWS_KEPT {
            let to_sweep = self.to_sweep.take();
            let large = std::mem::replace(self, CommitBuffers { to_sweep, ..CommitBuffers::default() });
            release(large.order);
            large.progress.release();
        }
    }
}

impl Transaction {
    /// A transaction that has not begun; see [`begin`](Self::begin).
    pub fn new(manager: Arc<TransactionManager>, worker: Arc<Worker>) -> Transaction {
        let announced = Announced::new(manager.readers().clone());
        let (interrupt, database) = (Interrupt::new(), manager.database());
        interrupt.limit_memory(manager.memory_limit());
        Transaction {
            manager,
            worker,
            announced,
            isolation: Isolation::Serializable,
            kind: TransactionKind::Over,
            before_reads: BeforeReads::Nothing,
            start: Timestamp::ZERO,
            cells_at: ReadAt::Newest,
            tables: TouchedTables::new(database),
            reads: ReadSet::default(),
            references: References::default(),
            contested: Vec::new(),
            statement: StatementStart::default(),
            checked_at: None,
            writes: WriteSet::default(),
            load: None,
            refused_row: None,
            holder: None,
            locked: RowLocks::default(),
            blocked_by: None,
            conflict: None,
            interrupt,
            lock_timeout: None,
            stale: Stale::default(),
            shared: None,
            waits_for_log: true,
            closer: None,
            buffers: CommitBuffers::default(),
        }
    }

    /// Begins: from here on the transaction reads what is committed now. Costs some tens of nanoseconds.
    pub fn begin(&mut self, isolation: Isolation, interactive: bool) {
        assert!(self.kind == TransactionKind::Over, "a transaction ends before it begins again");
        account::begin_work();
        emergency_pool::forget();
        self.isolation = isolation;
        self.kind = if interactive { TransactionKind::Interactive } else { TransactionKind::Procedure };
        self.before_reads = BeforeReads::of(isolation, self.kind, self.manager.versioning());
        self.blocked_by = None;
        self.conflict = None;
        self.statement = StatementStart::default();
        self.checked_at = None;
        self.refused_row = None;
        self.stale.clear();
        self.closer = None;
        self.tables.begin(self.manager.definitions());
        self.announced.set_keeps_rows(!interactive);
        self.enter();
    }

    /// Reads at the watermark from now on.
    pub(crate) fn enter(&mut self) {
        if !self.reads.is_empty() && self.reads_moved() {
            return;
        }
        let (manager, announced) = (&self.manager, &mut self.announced);
        // Finds rows at later timestamps than the one that it announces.
        let as_anchor = self.isolation == Isolation::ReadUncommitted;
        let start = announced.enter(as_anchor, || manager.watermark());
        self.start_at(start);
    }

    /// Reads are as of this timestamp, which a slot announces.
    pub(crate) fn start_at(&mut self, timestamp: Timestamp) {
        self.start = timestamp;
        self.tables.read_at(if self.isolation == Isolation::ReadUncommitted {
            Timestamp::MAX
        } else {
            timestamp
        });
        self.cells_at = if self.is_strict() { ReadAt::InPlace(self.start) } else { self.read_at() };
    }

    /// Whether the transaction aborts as soon as it would have to look for an old version.
    #[inline]
    pub(crate) fn is_strict(&self) -> bool {
        self.before_reads == BeforeReads::CheckInPlace
    }

    /// Forgets everything. The slot stays announced only if a view still reads through it.
    pub(crate) fn end(&mut self) {
        self.reads.clear();
        self.references.clear();
        self.contested = Vec::new();
        self.writes.clear();
        self.load = None;
        self.buffers.shrink();
        self.interrupt.set_frees(false);
        self.release_locks();
        self.tables.end(self.is_interactive());
        self.announced.leave();
        self.shared = None;
        self.kind = TransactionKind::Over;
    }

    /// Whether tables stay cached between two procedures, which saves counting references that all threads share. A
    /// session that may be idle for long should not keep them: a table that is dropped meanwhile would keep its
    /// memory.
    pub fn set_keeps_tables(&mut self, keeps: bool) {
        self.tables.set_keeps(keeps);
    }

    /// Its isolation level.
    pub fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// Whether this is an interactive transaction, which locks rows before they are written.
    #[inline]
    pub fn is_interactive(&self) -> bool {
        self.kind == TransactionKind::Interactive
    }

    /// The timestamp that this transaction (at READ COMMITTED: this statement) reads at: everything committed up
    /// to here. Moves at SERIALIZABLE when a statement is [restarted](Self::restart_statement).
    pub fn read_timestamp(&self) -> Timestamp {
        self.start
    }

    /// The interrupt that ends waits, scans and all other work up to the drawing of a commit's timestamp. Stays from
    /// one transaction to the next.
    pub fn set_interrupt(&mut self, interrupt: Interrupt) {
        interrupt.limit_memory(self.manager.memory_limit());
        self.interrupt = interrupt;
    }

    /// How long to wait for a row that another transaction has locked, before 55P03; `None` sets no limit. Stays from
    /// one transaction to the next.
    pub fn set_lock_timeout(&mut self, limit: Option<Duration>) {
        self.lock_timeout = limit;
    }

    /// Fails if the transaction has to end. To be called in every loop that may be long; one load.
    ///
    /// # Errors
    /// `QueryCanceled`, `ConnectionFailure` or `AdminShutdown` once the interrupt is raised.
    #[inline]
    pub fn check_interrupt(&self) -> Result<()> {
        self.interrupt.check()
    }

    /// Whether anything would be committed.
    pub fn has_writes(&self) -> bool {
        !self.writes.is_empty() || self.load.is_some()
    }

    /// Rows that would be inserted, changed or deleted.
    pub fn write_count(&self) -> usize {
        self.writes.writes.len() + self.load.as_ref().map_or(0, |load| load.rows())
    }

    /// What every read begins with.
    #[inline]
    pub(crate) fn before_read(&mut self) -> Result<()> {
        debug_assert!(self.kind != TransactionKind::Over);
        check_system()?;
        self.reads.check()?;
        if self.before_reads == BeforeReads::Nothing { Ok(()) } else { self.act_before_read() }
    }

    #[cold]
    fn act_before_read(&mut self) -> Result<()> {
        match self.before_reads {
            BeforeReads::CheckInPlace if self.stale.has_stale_cells() => return Err(concurrent_update()),
            BeforeReads::CheckInPlace | BeforeReads::Nothing => {}
            BeforeReads::NewStatement => self.enter(),
        }
        Ok(())
    }

    pub(crate) fn read_at(&self) -> ReadAt {
        match self.isolation {
            Isolation::ReadUncommitted => ReadAt::Newest,
            _ => ReadAt::Snapshot(self.start),
        }
    }

    /// Whether what is read is noted.
    #[inline]
    pub(crate) fn notes_reads(&self) -> bool {
        self.isolation.validates() || self.references.is_noting
    }

    /// Whether what was noted has to hold at the commit.
    #[inline]
    pub(crate) fn validates(&self) -> bool {
        self.isolation.validates() || !self.reads.is_empty()
    }

    pub(crate) fn note_row(&mut self, table: TableId, row: RowId, columns: ColumnSet) {
        if self.notes_reads() && row.provisional_number().is_none() {
            self.reads.add_row(table, row, columns);
        }
    }

    pub(crate) fn note_range(
        &mut self,
        number: usize,
        index: IndexPosition,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
    ) {
        if self.notes_reads() {
            self.reads.add_range((self.tables[number].id(), number), index, lower, upper);
        }
    }

    /// Notes that the whole table, or the rows that satisfy `filter`, was read by other means, such as an
    /// analytical query over a view of this transaction. `columns` are those looked at, by the filter too.
    ///
    /// # Errors
    /// `UndefinedTable` if the table is of another database.
    pub fn note_table_read(
        &mut self,
        table: &Arc<Table>,
        columns: ColumnSet,
        filter: Option<RowFilter>,
    ) -> Result<()> {
        self.tables.number(table)?;
        if self.notes_reads() {
            self.reads.add_table(table.clone(), columns, filter);
        }
        Ok(())
    }

    /// Notes that cells of a visible row were looked at which its `find` or scan had not named: from here on a concurrent
    /// change of these columns is a conflict, too. For callers that learn late which columns they read; costs a few
    /// nanoseconds.
    #[inline]
    pub fn note_columns_read(&mut self, table: &Table, row: RowId, columns: ColumnSet) {
        if self.notes_reads() && row.provisional_number().is_none() {
            self.reads.add_columns(table.id(), row, columns);
        }
    }

    /// Begins, as an interactive transaction, to read what a snapshot shows, at REPEATABLE READ, so that nothing is validated.
    /// Further statements read the same. A write to a row that was changed since the snapshot fails to serialize. Costs what an
    /// allocation does.
    ///
    /// # Errors
    /// `InvalidParameterValue` if the snapshot is of another database; nothing has begun then.
    pub fn begin_at(&mut self, snapshot: &Snapshot) -> Result<()> {
        if snapshot.database() != self.manager.database() {
            let message = "the snapshot is of another database";
            return Err(Error::new(SqlState::InvalidParameterValue, message));
        }
        self.begin(Isolation::RepeatableRead, true);
        self.announced.share(reader_slot(snapshot).clone());
        self.start_at(snapshot.timestamp());
        Ok(())
    }

    /// Like [`begin_at`](Self::begin_at); its queries share what is lent and copied for this snapshot.
    ///
    /// # Errors
    /// Those of [`begin_at`](Self::begin_at).
    pub fn begin_sharing(&mut self, snapshot: &Snapshot) -> Result<()> {
        self.begin_at(snapshot)?;
        // Another one may be read in a way that this transaction's level forbids.
        self.shared = snapshot.keeps_copies().then(|| snapshot.clone());
        Ok(())
    }

    /// What this transaction reads now, without its own writes. Keeps that readable for as long as it lives, even after the
    /// transaction.
    pub fn snapshot(&self) -> Snapshot {
        if let Some(shared) = &self.shared
            && shared.timestamp() == self.start
        {
            return shared.clone();
        }
        let manager = &self.manager;
        let (strategy, counters) = (manager.strategy_at(self.isolation), manager.snapshot_counters().clone());
        let slot = self.announced.slot().clone();
        Snapshot::new(manager.snapshot_origin(), self.start, slot, strategy, counters)
    }

    /// What analytics inside this transaction read: its [snapshot](Self::snapshot), and its own writes so far.
    pub fn read_view(&self) -> ReadView {
        ReadView::of_transaction(self.snapshot(), self.own_writes())
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
                WriteKind::Insert => {
                    own.inserts.push(values.map(|(_, value)| value).collect());
                    own.new_rows.push(write.row);
                }
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

    /// Passes the gates that were closed by this number, until it ends.
    pub fn set_closer(&mut self, closer: NonZeroU64) {
        self.closer = Some(closer);
    }

    /// The table has another definition for this transaction from now on, of the same rows; what it has written stays.
    pub fn redefine(&mut self, old: &Arc<Table>, new: &Arc<Table>) {
        debug_assert!(std::ptr::eq(Storage::of(old), Storage::of(new)));
        self.tables.redefine(old, new);
    }

    /// What is committed now, and the transaction's own writes: for work on a table to which nobody else commits meanwhile.
    pub fn newest_view(&self) -> ReadView {
        let snapshot = self.manager.snapshot_at(self.isolation);
        ReadView::of_transaction(snapshot, self.own_writes())
    }

    /// Ends the transaction; nothing of it remains.
    pub fn rollback(&mut self) {
        if self.kind != TransactionKind::Over {
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
