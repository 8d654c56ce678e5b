//! The database: catalog, transactions, snapshots.

use crate::catalog::Catalog;
use crate::checkpointer::Checkpointer;
use crate::configuration::Configuration;
use crate::contention::Contention;
use crate::options::Options;
use crate::pruner::Pruner;
use crate::shared::DatabaseState;
use crate::snapshot_manager::{SnapshotManager, SnapshotReport};
use ankerdb_base::{DatabaseId, Result, Timestamp};
use ankerdb_memory::account;
use ankerdb_region::PageSize;
use ankerdb_snapshot::{Snapshot, column_snapshot_bytes};
use ankerdb_table::{IndexDefinition, MemoryUse, Placement, Table, TableDefinition};
use ankerdb_transaction::{MemoryLimit, Owner, Quiesced, TransactionManager, Versioning, Wait};
use parking_lot::{Mutex, RwLock};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// An in-memory database. Cheap to clone; the data is freed with the last clone, session, transaction and snapshot.
#[derive(Clone)]
pub struct Database {
    pub(crate) shared: Arc<DatabaseState>,
    _pruner: Arc<Pruner>,
    /// Of a database that is kept in a folder.
    pub(crate) checkpointer: Arc<OnceLock<Checkpointer>>,
}

/// Counters since the database was created.
#[derive(Clone, Copy, Debug, Default)]
pub struct Statistics {
    /// Transactions committed.
    pub commits: u64,
    /// Transactions that ended otherwise.
    pub aborts: u64,
    /// Snapshots taken.
    pub snapshots: u64,
    /// Column arrays handed to readers without a copy.
    pub columns_lent: u64,
    /// Column arrays copied for a snapshot, because the block had changed or was not full.
    pub columns_materialized: u64,
    /// Snapshots of whole columns taken by a technique of the operating system.
    pub column_snapshots: u64,
    /// Snapshots of columns that a snapshot shared with an earlier one, because the column had not changed.
    pub column_snapshots_shared: u64,
    /// Nanoseconds spent taking them, waiting for rows that are being installed included.
    pub column_snapshot_nanos: u64,
    /// Nanoseconds spent correcting rows in them that were newer than the snapshot.
    pub column_correction_nanos: u64,
    /// Bytes of column snapshots kept with their columns now: the newest of each, and those to be used again. Techniques
    /// that share pages need less memory than that.
    pub column_snapshot_bytes: usize,
    /// Bytes of row versions kept now.
    pub version_bytes: usize,
    /// Bytes of the newest values now.
    pub table_bytes: usize,
}

impl Default for Database {
    fn default() -> Database {
        Database::new()
    }
}

impl Database {
    /// An empty database.
    pub fn new() -> Database {
        Database::with(Configuration::default())
    }

    /// An empty database.
    ///
    /// # Errors
    /// `FeatureNotSupported` with what is missing, if this machine cannot run the configuration;
    /// `InvalidParameterValue` for a memory limit that is too small to work with.
    pub fn open(options: impl Into<Options>) -> Result<Database> {
        let options = options.into();
        options.check()?;
        Ok(Database::of(&options))
    }

    /// An empty database with pages of this size under the columns, where they lie in regions.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub fn in_pages(configuration: Configuration, pages: PageSize) -> Result<Database> {
        Database::open(Options { pages: Some(pages), ..configuration.into() })
    }

    /// An empty database that processes transactions and queries in this way. Where the machine cannot run the
    /// configuration ([`Configuration::check`]) no table can be made: 0A000.
    pub fn with(configuration: Configuration) -> Database {
        Database::of(&configuration.into())
    }

    fn of(options: &Options) -> Database {
        let configuration = options.configuration;
        let placement = configuration.technique().map(Placement::of);
        let placement = placement.map(|own| Placement { pages: options.pages.unwrap_or(own.pages), ..own });
        let limit = options.memory_limit.map_or(MemoryLimit::NONE, MemoryLimit::of);
        let own = configuration.versioning();
        let versioning =
            Versioning { ahead_from: options.large_commits_from.unwrap_or(own.ahead_from), ..own };
        let shared = Arc::new(DatabaseState {
            contention: Contention::default(),
            configuration,
            placement,
            manager: TransactionManager::with_limit(versioning, limit),
            catalog: RwLock::default(),
            version: AtomicU64::new(0),
            numbers: AtomicU64::new(0),
            snapshots: SnapshotManager::new(options.history_limit),
            defining: Mutex::new(()),
            checkpoints: OnceLock::new(),
            recovery: OnceLock::new(),
            loss: OnceLock::new(),
            splits_commits: AtomicBool::new(false),
        });
        let relations = Arc::downgrade(&shared);
        shared.manager.set_relations(relations);
        let pruner = Arc::new(Pruner::start(Arc::downgrade(&shared), configuration.collection_interval()));
        Database { shared, _pruner: pruner, checkpointer: Arc::default() }
    }

    /// How much memory the process may take on behalf of this database.
    pub fn memory_limit(&self) -> MemoryLimit {
        self.shared.manager.memory_limit()
    }

    /// Tells it from all others of the process: its tables and snapshots are for its own sessions.
    #[inline]
    pub fn id(&self) -> DatabaseId {
        self.shared.manager.database()
    }

    /// How it processes transactions and queries.
    pub fn configuration(&self) -> Configuration {
        self.shared.configuration
    }

    /// The tables and indexes as they are now.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.shared.catalog.read().clone()
    }

    /// The catalog's version: one load, for cached plans.
    pub fn catalog_version(&self) -> u64 {
        self.shared.version.load(Ordering::Acquire)
    }

    /// A consistent image of everything committed so far. Costs well under a microsecond at any size.
    pub fn snapshot(&self) -> Snapshot {
        self.shared.manager.snapshot()
    }

    /// A consistent image of what was committed up to a moment in the last `staleness`, for a query that may miss the rest: the one of
    /// another such query where that is young enough, with what was lent and copied for it. Shows everything up to
    /// `seen`, and the tables of now. A short mutex, and in a new snapshot's name a thread for what is worth making ready.
    pub fn snapshot_within(&self, staleness: Duration, seen: Timestamp) -> Snapshot {
        self.shared.snapshots.snapshot_within(&self.shared.to_read(), staleness, seen)
    }

    /// What became of queries that may share snapshots.
    pub fn snapshot_report(&self) -> SnapshotReport {
        self.shared.snapshots.report(&self.shared.to_read())
    }

    /// Everything up to here is committed and visible. One load.
    pub fn visible_timestamp(&self) -> Timestamp {
        self.shared.manager.watermark()
    }

    /// Returns when no commit is between drawing its timestamp and being visible; none begins until the result is
    /// dropped, so keep it as short as possible. The arrays are as of the watermark then, for
    /// [`SnapshotStrategy::Forked`](crate::SnapshotStrategy).
    ///
    /// # Errors
    /// `FeatureNotSupported` in any other configuration than `hee-fork`.
    pub fn quiesce(&self) -> Result<Quiesced> {
        self.shared.manager.quiesce()
    }

    /// A number that no other session of this database has, to name things by that are a session's own.
    pub fn new_session_number(&self) -> u64 {
        self.shared.next_version()
    }

    /// Adds a table.
    ///
    /// # Errors
    /// `DuplicateTable` if the name, or the name of one of its indexes, is taken; `InvalidTableDefinition` and
    /// `DuplicateColumn` if the definition is malformed.
    pub fn create_table(&self, definition: TableDefinition) -> Result<Arc<Table>> {
        self.define(|definitions| definitions.create_table(definition.clone()))
    }

    /// Removes a table. Transactions and snapshots that use it keep it until they end.
    ///
    /// # Errors
    /// `UndefinedTable`.
    pub fn drop_table(&self, name: &str) -> Result<()> {
        self.define(|definitions| definitions.drop_table(name, None))
    }

    /// Adds an index and fills it from the rows there are, while transactions go on.
    ///
    /// # Errors
    /// `UndefinedTable`, `DuplicateTable`; `UniqueViolation` if the index is unique and two rows share a key, and
    /// `OutOfMemory` past the memory limit, in which cases nothing remains of it.
    pub fn create_index(&self, table: &str, definition: IndexDefinition) -> Result<()> {
        self.define(|definitions| definitions.create_index(table, definition.clone()))
    }

    /// Removes an index.
    ///
    /// # Errors
    /// `UndefinedObject`; `FeatureNotSupported` for the index of a primary key.
    pub fn drop_index(&self, name: &str) -> Result<()> {
        self.define(|definitions| definitions.drop_index(name))
    }

    /// Transactions committed, and those that ended otherwise, so far. Looks at a counter of each session.
    pub fn transaction_counts(&self) -> (u64, u64) {
        self.shared.manager.counts()
    }

    /// The transactions that wait for rows, and for whom: a moment's picture, which stops nobody.
    pub fn row_waits(&self) -> Vec<Wait> {
        self.shared.manager.row_waits()
    }

    /// The transactions that hold rows over several statements, with the numbers of tables in which they do: those of the first
    /// rows of each.
    pub fn row_holders(&self) -> Vec<(Owner, u32)> {
        self.shared.manager.row_holders()
    }

    /// Counters. Walks all versions and arrays: milliseconds for large databases.
    pub fn statistics(&self) -> Statistics {
        let (commits, aborts) = self.shared.manager.counts();
        let snapshots = self.shared.manager.snapshot_counters();
        let pin = crossbeam_epoch::pin();
        let catalog = self.catalog();
        Statistics {
            commits,
            aborts,
            snapshots: snapshots.taken.load(Ordering::Relaxed),
            columns_lent: snapshots.columns_lent.load(Ordering::Relaxed),
            columns_materialized: snapshots.columns_materialized.load(Ordering::Relaxed),
            column_snapshots: snapshots.columns_snapshotted.load(Ordering::Relaxed),
            column_snapshots_shared: snapshots.columns_shared.load(Ordering::Relaxed),
            column_snapshot_nanos: snapshots.snapshot_nanos.load(Ordering::Relaxed),
            column_correction_nanos: snapshots.correction_nanos.load(Ordering::Relaxed),
            column_snapshot_bytes: catalog.tables().map(|table| column_snapshot_bytes(table)).sum(),
            version_bytes: catalog.tables().map(|table| table.version_bytes(&pin)).sum(),
            table_bytes: catalog.tables().map(|table| table.memory_bytes(&pin)).sum(),
        }
    }

    /// What the memory of a table goes to. Looks at each of its blocks.
    pub fn table_memory(table: &Table) -> MemoryUse {
        table.memory_use(&crossbeam_epoch::pin())
    }

    /// Bytes that this process has taken, by its own account; those that the system says lie in memory; and how many it may take.
    pub fn process_memory(&self) -> (usize, Option<usize>, Option<usize>) {
        let limit = self.memory_limit().bytes();
        (account::used(), account::resident_bytes(), limit)
    }

    /// Approximate bytes that the newest values of a table's rows take. Looks at each of its blocks.
    pub fn table_bytes(table: &Table) -> usize {
        table.memory_bytes(&crossbeam_epoch::pin())
    }
}
