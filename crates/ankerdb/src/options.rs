//! The options with which a database is opened.

use crate::error::Result;
use ankerdb_engine::{Configuration, Isolation};
use std::path::PathBuf;
use std::time::Duration;

/// The options of a database, for [`Database::with`](crate::Database::with).
///
/// ```
/// use ankerdb::{Database, Options};
/// use std::time::Duration;
///
/// let options = Options::new().memory_limit(512 << 20).threads(2).statement_timeout(Duration::from_secs(30));
/// let db = Database::with(options)?;
/// # let _ = db;
/// # Ok::<(), ankerdb::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Options {
    pub(crate) engine: ankerdb_engine::Options,
    folder: Option<PathBuf>,
    pub(crate) threads: usize,
    pub(crate) query_memory: Option<usize>,
    isolation: Option<Isolation>,
    pub(crate) statement_timeout: Option<Duration>,
    pub(crate) lock_timeout: Option<Duration>,
}

impl Default for Options {
    fn default() -> Options {
        Options::new()
    }
}

impl Options {
    /// What [`Database::in_memory`](crate::Database::in_memory) takes: all cores for queries, four fifths of the machine's
    /// memory, SERIALIZABLE transactions, no limits of time.
    pub fn new() -> Options {
        let threads = std::thread::available_parallelism().map_or(1, |count| count.get());
        Options {
            engine: ankerdb_engine::Options::default(),
            folder: None,
            threads,
            query_memory: None,
            isolation: None,
            statement_timeout: None,
            lock_timeout: None,
        }
    }

    /// Keeps the database in a folder, which is made if it is not there: what was committed outlives the process. One process at a time
    /// opens it.
    pub fn data_dir(mut self, folder: impl Into<PathBuf>) -> Options {
        self.folder = Some(folder.into());
        self
    }

    /// Bytes that the process may use before statements and transactions that ask for more fail with 53200; at least 32 MB.
    /// The whole process counts, since all of its databases share its memory.
    pub fn memory_limit(mut self, bytes: usize) -> Options {
        self.engine.memory_limit = Some(bytes);
        self
    }

    /// No limit of memory: past the system's own limit the process ends.
    pub fn without_memory_limit(mut self) -> Options {
        self.engine.memory_limit = None;
        self
    }

    /// Threads that run analytical queries, at least one. They start with the first SQL statement.
    pub fn threads(mut self, count: usize) -> Options {
        self.threads = count.max(1);
        self
    }

    /// Bytes that all analytical queries together may use for hash tables, sorts and the like; a quarter of the memory limit
    /// by default.
    pub fn query_memory(mut self, bytes: usize) -> Options {
        self.query_memory = Some(bytes);
        self
    }

    /// The isolation level of transactions and statements that name none; SERIALIZABLE by default.
    pub fn isolation(mut self, isolation: Isolation) -> Options {
        self.isolation = Some(isolation);
        self
    }

    /// How long an SQL statement may take before it ends with 57014.
    pub fn statement_timeout(mut self, limit: Duration) -> Options {
        self.statement_timeout = Some(limit);
        self
    }

    /// How long to wait for a row that another transaction has locked before 55P03. By default there is no limit.
    pub fn lock_timeout(mut self, limit: Duration) -> Options {
        self.lock_timeout = Some(limit);
        self
    }

    /// How transactions and queries are processed: AnKerDB's own way, or one that research compares it with.
    pub fn configuration(mut self, configuration: Configuration) -> Options {
        self.engine.configuration = configuration;
        self
    }

    /// The isolation level of transactions that name none: the configuration's own, which is SERIALIZABLE in ours.
    pub(crate) fn default_isolation(&self) -> Isolation {
        self.isolation.unwrap_or_else(|| self.engine.configuration.isolation())
    }

    /// Bytes for analytical queries.
    #[cfg(feature = "sql")]
    pub(crate) fn query_bytes(&self) -> usize {
        const LEAST: usize = 64 << 20;
        let quarter = || self.engine.memory_limit.map_or(1 << 30, |limit| limit / 4);
        self.query_memory.unwrap_or_else(quarter).max(LEAST)
    }

    pub(crate) fn open(&self) -> Result<ankerdb_engine::Database> {
        let engine = self.engine.clone();
        Ok(match &self.folder {
            None => ankerdb_engine::Database::open(engine)?,
            Some(folder) => {
                let durability = ankerdb_engine::Durability::in_folder(folder);
                #[cfg(feature = "sql")]
                let binder = ankerdb_sql::KeptTexts::new();
                #[cfg(not(feature = "sql"))]
                let binder = ankerdb_engine::NoTexts;
                ankerdb_engine::Database::open_in(engine, &durability, &binder)?
            }
        })
    }
}
