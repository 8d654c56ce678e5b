//! What all transactions of a database share.

use crate::ends_process::EndsProcess;
use crate::isolation::Isolation;
use crate::logging::Logging;
use crate::old_records::OldRecords;
use crate::quiescence::Quiescence;
use crate::record::CommitRecord;
use crate::relations::Relations;
use crate::retired::{collect_retired, free_retired};
use crate::worker::{Worker, Workers};
use ankerdb_base::{DatabaseId, Error, Result, SqlState, TableId, Timestamp};
use ankerdb_log::{Log, LogStart};
use ankerdb_memory::account;
use ankerdb_snapshot::{Snapshot, SnapshotCounters, SnapshotOrigin, SnapshotStrategy, TightLoops};
use ankerdb_sync::commit_order::CommitOrder;
use ankerdb_sync::lock_table::{LockTable, Owner, Wait};
use ankerdb_sync::memory_limit::{Claim, MemoryLimit};
use ankerdb_sync::readers::ActiveReaders;
use ankerdb_table::Table;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// Commits whose write sets are kept for validation. A transaction during whose life more commits happened is
/// validated against the tables themselves (`validate`).
const COMMITS_KEPT: usize = 1 << 14;

/// The commit order, the active readers, the row locks of interactive transactions.
pub struct TransactionManager {
    database: DatabaseId,
    /// Tables made so far.
    tables: AtomicU32,
    pub(crate) order: CommitOrder<CommitRecord>,
    readers: Arc<ActiveReaders>,
    pub(crate) locks: LockTable,
    owners: AtomicU64,
    definitions: AtomicU64,
    workers: Workers,
    snapshots: Arc<SnapshotCounters>,
    versioning: Versioning,
    quiescence: Quiescence,
    memory_limit: MemoryLimit,
    pub(crate) old_records: OldRecords,
    relations: OnceLock<Weak<dyn Relations>>,
    /// Where commits are told, if they are to outlive the process.
    logging: OnceLock<Logging>,
}

/// Rows from which on a commit installs them ahead of its timestamp. Fewer are installed after it in some
/// microseconds.
const AHEAD_FROM: usize = 512;

/// How old versions are read and freed, and how new ones are made.
#[derive(Clone, Copy, Debug)]
pub struct Versioning {
    /// How analytics read.
    pub strategy: SnapshotStrategy,
    /// Whether writers leave the versions of the rows that they write to for a pass of the collector, instead of
    /// pruning them.
    pub is_left_to_collector: bool,
    /// Whether commits can be stopped, see [`TransactionManager::quiesce`].
    pub can_quiesce: bool,
    /// Whether serializable transactions abort as soon as they would have to look for an old version (AnKer §6.1,
    /// HEE). Queries over snapshots do not.
    pub aborts_on_versions: bool,
    /// Rows from which on a commit installs them ahead of its timestamp, so that others need not wait for it. Not for
    /// databases in which cells are read as they lie, or only while they are in place.
    pub ahead_from: usize,
}

impl Default for Versioning {
    fn default() -> Versioning {
        Versioning {
            strategy: SnapshotStrategy::default(),
            is_left_to_collector: false,
            can_quiesce: false,
            aborts_on_versions: false,
            ahead_from: AHEAD_FROM,
        }
    }
}

impl TransactionManager {
    /// A manager with nothing committed yet and without a memory limit.
    pub fn new(versioning: Versioning) -> Arc<TransactionManager> {
        TransactionManager::with_limit(versioning, MemoryLimit::NONE)
    }

    /// A manager with nothing committed yet; transactions that ask for memory past the limit end with 53200.
    pub fn with_limit(versioning: Versioning, memory_limit: MemoryLimit) -> Arc<TransactionManager> {
        Arc::new(TransactionManager {
            database: DatabaseId::new(),
            tables: AtomicU32::new(0),
            order: CommitOrder::new(COMMITS_KEPT),
            readers: ActiveReaders::new(),
            locks: LockTable::new(),
            owners: AtomicU64::new(1),
            definitions: AtomicU64::new(0),
            workers: Workers::default(),
            snapshots: Arc::default(),
            versioning,
            quiescence: Quiescence::default(),
            memory_limit,
            old_records: OldRecords::default(),
            relations: OnceLock::new(),
            logging: OnceLock::new(),
        })
    }

    /// Whose transactions these are.
    #[inline]
    pub fn database(&self) -> DatabaseId {
        self.database
    }

    /// The identity of a new table, which only transactions of this database take.
    pub fn new_table(&self) -> TableId {
        TableId::new(self.database, self.tables.fetch_add(1, Ordering::Relaxed))
    }

    /// The identity of a table that another process has made; new ones get others.
    pub fn table_with_number(&self, number: u32) -> TableId {
        self.leave_tables(number.saturating_add(1));
        TableId::new(self.database, number)
    }

    /// No new table gets a number below this one.
    pub fn leave_tables(&self, end: u32) {
        self.tables.fetch_max(end, Ordering::Relaxed);
    }

    /// Behind the largest number of a table so far.
    pub fn tables_end(&self) -> u32 {
        self.tables.load(Ordering::Relaxed)
    }

    /// Says where the tables of foreign keys are found. To be called once, before the first transaction.
    pub fn set_relations(&self, relations: Weak<dyn Relations>) {
        let _ = self.relations.set(relations);
    }

    /// Goes on behind the commits of earlier runs. To be called once, before the first transaction.
    pub fn go_on_behind(&self, last: Timestamp) {
        self.order.go_on_behind(last);
    }

    /// Commits are told to this log from now on. To be called once, before the first transaction.
    pub fn log_to(&self, log: Arc<Log>) {
        let _ = self.logging.set(Logging::to(log));
    }

    pub(crate) fn logging(&self) -> Option<&Logging> {
        self.logging.get()
    }

    /// Whether commits are told to a log.
    pub fn is_logged(&self) -> bool {
        self.logging.get().is_some()
    }

    /// Appends a record with a timestamp of its own to the log, if there is one, and returns when it is on disk.
    ///
    /// # Errors
    /// `DiskFull`, `OutOfMemory`; `IoError` if the log is closed.
    pub fn log_alone(&self, kind: u8, payload: &[u8]) -> Result<()> {
        let Some(logging) = self.logging.get() else { return Ok(()) };
        let worker = self.acquire_worker();
        self.begin_commit(&worker);
        let committed = logging.reserve(payload.len()).map(|reserved| {
            let _no_way_back = EndsProcess("while it was telling the log something");
            let pin = crossbeam_epoch::pin();
            let commit = self.order.begin(Arc::default(), |former| self.old_records.retire(former, &pin));
            logging.append(reserved, kind, commit, payload);
            self.order.finish(commit, true);
            commit
        });
        if let Ok(commit) = committed {
            self.order.wait_until_visible(commit);
        }
        worker.end_commit();
        self.release_worker(worker);
        logging.wait_until_durable(committed?)
    }

    /// Returns when the commits up to here are on disk. One load if they are, or if there is no log.
    ///
    /// # Errors
    /// `IoError` if the log is closed: then nobody knows.
    pub fn wait_until_durable(&self, commit: Timestamp) -> Result<()> {
        self.logging.get().map_or(Ok(()), |logging| logging.wait_until_durable(commit))
    }

    /// From where on the log has all commits but those up to the timestamp there, which are visible. Waits for commits under way. `None`
    /// if there is no log.
    ///
    /// What lies in front of that place was appended before the call, by transactions that had drawn their timestamps or are in the list
    /// of those which send parts ahead; so a timestamp that is drawn last *after* both were looked at covers all others.
    pub fn checkpoint_start(&self) -> Option<LogStart> {
        let start = self.logging.get()?.unfinished_from();
        let timestamp = self.order.drawn();
        self.order.wait_until_visible(timestamp);
        Some(LogStart { timestamp, ..start })
    }

    /// Returns when everything that has been drawn up to the call is visible and on disk; its timestamp.
    ///
    /// # Errors
    /// `IoError` if the log is closed.
    pub fn make_durable(&self) -> Result<Timestamp> {
        let timestamp = self.order.drawn();
        self.order.wait_until_visible(timestamp);
        self.wait_until_durable(timestamp).map(|()| timestamp)
    }

    /// The log that commits are told to.
    pub fn log(&self) -> Option<&Arc<Log>> {
        self.logging.get().map(Logging::log)
    }

    /// Writes to the log what there is, and ends it: commits fail from now on.
    ///
    /// # Errors
    /// `IoError`.
    pub fn close_log(&self) -> Result<()> {
        self.logging.get().map_or(Ok(()), Logging::close)
    }

    /// The table that all see with this origin.
    pub(crate) fn relation(&self, origin: TableId) -> Option<Arc<Table>> {
        self.relations.get()?.upgrade()?.relation(origin)
    }

    /// How much memory may be taken.
    pub fn memory_limit(&self) -> MemoryLimit {
        self.memory_limit
    }

    /// Everything up to here is committed and visible to transactions that begin now.
    pub fn watermark(&self) -> Timestamp {
        self.order.watermark()
    }

    /// Notes that tables have been made or dropped: sessions drop those that they have cached when they next begin.
    pub fn note_definitions(&self) {
        self.definitions.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn definitions(&self) -> u64 {
        self.definitions.load(Ordering::Acquire)
    }

    /// The active readers and their timestamps.
    pub fn readers(&self) -> &Arc<ActiveReaders> {
        &self.readers
    }

    /// The oldest timestamp that a reader reads at, or may begin to read at.
    pub fn horizon(&self) -> Timestamp {
        self.readers.oldest(self.watermark())
    }

    /// Gives up the records of large commits that no transaction will validate against any more, and frees as much as
    /// possible if memory is short. To be called now and then.
    pub fn keep_account(&self) {
        self.old_records.forget_large(&self.order, self.horizon());
        self.old_records.free_unwanted();
        account::sample();
        if self.memory_limit.check(Claim::Large, 0).is_err() {
            self.reclaim();
        }
    }

    /// Frees memory that sweeps have retired, as far as a few milliseconds get. For the background thread: otherwise commits
    /// would come to free it, a few hundred objects at a time.
    pub fn free_retired(&self) {
        free_retired();
    }

    /// Frees what is no longer needed, as far as it can be found at once: records, and what was retired.
    pub fn reclaim(&self) {
        self.old_records.forget_all(&self.order, self.horizon(), COMMITS_KEPT);
        collect_retired();
        self.old_records.free_unwanted();
    }

    /// How snapshots were used.
    pub fn snapshot_counters(&self) -> &Arc<SnapshotCounters> {
        &self.snapshots
    }

    /// A consistent image of everything committed so far, read as the database does. Costs well under a microsecond at
    /// any size: the watermark is read and announced.
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot_by(self.versioning.strategy)
    }

    /// A consistent image of everything committed so far, read as queries at this isolation level do.
    pub fn snapshot_at(&self, isolation: Isolation) -> Snapshot {
        self.snapshot_by(self.strategy_at(isolation))
    }

    /// How snapshots are read.
    pub fn strategy(&self) -> SnapshotStrategy {
        self.versioning.strategy
    }

    /// A [snapshot](Self::snapshot) whose readers' work is counted.
    pub fn watched_snapshot(&self) -> Snapshot {
        self.snapshot().watched()
    }

    fn snapshot_by(&self, strategy: SnapshotStrategy) -> Snapshot {
        let slot = self.readers.register();
        let timestamp = slot.enter(|| self.watermark());
        Snapshot::new(self.snapshot_origin(), timestamp, Arc::new(slot), strategy, self.snapshots.clone())
    }

    pub(crate) fn snapshot_origin(&self) -> SnapshotOrigin {
        SnapshotOrigin { database: self.database, memory_limit: self.memory_limit }
    }

    /// How queries at this level read. A level that promises consistency gets it in every configuration.
    pub fn strategy_at(&self, isolation: Isolation) -> SnapshotStrategy {
        match self.versioning.strategy {
            SnapshotStrategy::Newest if isolation != Isolation::ReadUncommitted => {
                SnapshotStrategy::Versions(TightLoops::default())
            }
            strategy => strategy,
        }
    }

    pub(crate) fn versioning(&self) -> Versioning {
        self.versioning
    }

    pub(crate) fn next_owner(&self) -> Owner {
        Owner(self.owners.fetch_add(1, Ordering::Relaxed))
    }

    /// A worker for a new session; give it back with [`release_worker`](Self::release_worker).
    pub fn acquire_worker(&self) -> Arc<Worker> {
        self.workers.acquire()
    }

    /// Takes a worker back. Its counters go on counting for the database.
    pub fn release_worker(&self, worker: Arc<Worker>) {
        self.workers.release(worker);
    }

    /// Returns when every commit that was under way at the call is over, and visible to snapshots taken from now on.
    /// Commits that begin later see whatever list of indexes the caller has published before;
    /// [`under_way`](ankerdb_sync::under_way) has the proof.
    pub fn wait_for_commits(&self) {
        self.workers.wait_for_commits();
    }

    /// The first step of every commit of a transaction with writes.
    #[inline]
    pub(crate) fn begin_commit(&self, worker: &Worker) {
        match self.versioning.can_quiesce {
            true => self.quiescence.begin_commit(worker),
            false => worker.begin_commit(),
        }
    }

    /// Returns when no commit is between drawing its timestamp and being visible; none begins until the result is dropped.
    /// Waits for the commits under way.
    ///
    /// # Errors
    /// 0A000 where the database cannot quiesce.
    pub fn quiesce(self: &Arc<Self>) -> Result<Quiesced> {
        if !self.versioning.can_quiesce {
            let message =
                "commits can be stopped only in a database whose queries run in copies of the process";
            return Err(Error::new(SqlState::FeatureNotSupported, message));
        }
        self.quiescence.close();
        let held = Quiesced { manager: self.clone() };
        self.wait_for_commits();
        Ok(held)
    }

    /// The transactions that wait for rows which others have locked: a moment's picture.
    pub fn row_waits(&self) -> Vec<Wait> {
        self.locks.waits()
    }

    /// The transactions that hold rows over several statements, with numbers of tables in which they do: those of the first rows of
    /// each.
    pub fn row_holders(&self) -> Vec<(Owner, u32)> {
        self.locks.holders()
    }

    /// About the bytes of all states that commits have replaced so far, and of arrays that they have copied because readers had them
    /// on loan: a snapshot keeps at most what has come since it was taken. Strings do not count. Looks at a counter of each
    /// session.
    pub fn history_bytes(&self) -> u64 {
        self.workers.history_bytes()
    }

    /// Commits and aborts so far.
    pub fn counts(&self) -> (u64, u64) {
        self.workers.counts()
    }
}

/// While this lives no commit is under way and none begins: all data is as of the watermark. Keep it as short as
/// possible; a thread that holds it must not commit.
pub struct Quiesced {
    manager: Arc<TransactionManager>,
}

impl Drop for Quiesced {
    fn drop(&mut self) {
        self.manager.quiescence.open();
    }
}
