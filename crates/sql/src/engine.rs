//! The state that all sessions share: the database and the analytical threads.

use crate::activity::Activities;
use crate::advisory::AdvisoryLocks;
use crate::channels::Channels;
use crate::deadline::Deadlines;
use crate::exported::ExportedSnapshots;
use crate::expression::{function, zone};
use crate::kept_snapshots::KeptSnapshots;
use crate::olap::OlapEngine;
use crate::{AnalyticalQuery, ForkCounters, MemoryBaseline};
use ankerdb_engine::{Database, ReadView, Result};
use ankerdb_value::Zone;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// SQL over one database: the analytical thread pool, its memory limit, and the functions known. Cheap to clone.
#[derive(Clone)]
pub struct SqlEngine(Arc<EngineParts>);

struct EngineParts {
    database: Database,
    olap: OlapEngine,
    deadlines: Deadlines,
    channels: Arc<Channels>,
    exported: Arc<ExportedSnapshots>,
    /// The folder whose files COPY may use.
    copy_folder: OnceLock<PathBuf>,
}

/// How analytical queries run.
#[derive(Clone, Debug)]
pub struct SqlOptions {
    /// Threads that run analytical queries, and the number of partitions of a plan.
    pub olap_threads: usize,
    /// Bytes that all analytical queries together may use for hash tables, sorts and so on; past it the query
    /// that asks for more fails with 53200.
    pub memory_limit_bytes: usize,
}

impl SqlEngine {
    /// Starts the analytical threads.
    ///
    /// # Errors
    /// Those of the system, if it refuses the threads.
    pub fn new(database: Database, options: SqlOptions) -> Result<SqlEngine> {
        Zone::name_by(zone::in_text);
        let olap = OlapEngine::new(&database, &options)?;
        let (deadlines, channels, exported) = (Deadlines::default(), Arc::default(), Arc::default());
        Ok(SqlEngine(Arc::new(EngineParts {
            database,
            olap,
            deadlines,
            channels,
            exported,
            copy_folder: OnceLock::new(),
        })))
    }

    /// Lets COPY read and write the files below a folder, for every session. What was said first holds.
    pub fn give_files(&self, folder: PathBuf) {
        let _ = self.0.copy_folder.set(folder);
    }

    /// The folder whose files COPY may use.
    pub(crate) fn copy_folder(&self) -> Option<&Path> {
        self.0.copy_folder.get().map(PathBuf::as_path)
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.0.database
    }

    /// Plans one SELECT for repeated analytical use from Rust (benchmarks, embedding).
    ///
    /// # Errors
    /// 42601 on bad syntax, and the planner's: names and types that do not exist, 0A000 for what is not supported.
    pub fn plan(&self, sql: &str) -> Result<AnalyticalQuery> {
        self.0.olap.query(sql)
    }

    /// Copies the named tables, as the view shows them, into DataFusion's own in-memory tables: the yardstick
    /// for what our storage costs. Queries planned by it run on the same threads and settings.
    ///
    /// # Errors
    /// 42P01 if there is no such table, 53200 if there is no memory.
    pub fn memory_baseline(&self, view: &ReadView, tables: &[&str]) -> Result<MemoryBaseline> {
        self.0.olap.memory_baseline(view, tables)
    }

    /// The names of all functions that statements may call, aggregates, window functions and functions that stand for a
    /// table among them: for documentation and completion.
    pub fn function_names(&self) -> BTreeSet<String> {
        let ours = function::names().map(str::to_owned);
        let system = crate::system::function_names().map(str::to_owned);
        ours.chain(self.0.olap.function_names()).chain(system).collect()
    }

    /// How often queries ran in copies of the process, and what making them cost.
    pub fn fork_counters(&self) -> ForkCounters {
        self.0.olap.fork_counters()
    }

    pub(crate) fn advisory(&self) -> &Arc<AdvisoryLocks> {
        &self.0.olap.live().advisory
    }

    pub(crate) fn snapshots(&self) -> &Arc<KeptSnapshots> {
        &self.0.olap.live().snapshots
    }

    pub(crate) fn activities(&self) -> &Arc<Activities> {
        &self.0.olap.live().activities
    }

    pub(crate) fn exported(&self) -> &Arc<ExportedSnapshots> {
        &self.0.exported
    }

    pub(crate) fn channels(&self) -> &Arc<Channels> {
        &self.0.channels
    }

    pub(crate) fn deadlines(&self) -> &Deadlines {
        &self.0.deadlines
    }

    pub(crate) fn olap(&self) -> &OlapEngine {
        &self.0.olap
    }
}
