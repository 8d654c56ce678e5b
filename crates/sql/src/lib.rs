//! SQL over the engine: a session classifies each statement, runs reads and writes by key on the OLTP path and
//! everything analytical on the OLAP path.
#![deny(unsafe_code)]
#![allow(missing_docs, unused_variables)]

mod olap;
mod rows;

pub use olap::{AnalyticalQuery, MemoryBaseline};
pub use rows::Rows;

use ankerdb_engine::{DataType, Database, Isolation, Result, Value};
use std::sync::Arc;

/// SQL over one database: the analytical thread pool, its memory limit, and the functions known.
#[derive(Clone)]
pub struct SqlEngine(Arc<SqlShared>);

struct SqlShared {
    database: Database,
    olap: olap::OlapEngine,
}

#[derive(Clone, Debug)]
pub struct SqlOptions {
    /// Threads that run analytical queries, and the number of partitions of a plan.
    pub olap_threads: usize,
    /// Bytes that all analytical queries together may use for hash tables, sorts and so on; past it the query
    /// that asks for more fails with 53200.
    pub memory_limit_bytes: usize,
}

impl SqlEngine {
    pub fn new(database: Database, options: SqlOptions) -> Result<SqlEngine> {
        let olap = olap::OlapEngine::new(&database, &options)?;
        Ok(SqlEngine(Arc::new(SqlShared { database, olap })))
    }
    pub fn database(&self) -> &Database {
        &self.0.database
    }
    pub fn session(&self) -> SqlSession {
        unimplemented!()
    }
    /// Plans one SELECT for repeated analytical use from Rust (benchmarks, embedding).
    pub fn plan(&self, sql: &str) -> Result<AnalyticalQuery> {
        self.0.olap.query(sql)
    }
    /// Copies the named tables, as the view shows them, into DataFusion's own in-memory tables: the yardstick
    /// for what our storage costs. Queries planned by it run on the same threads and settings.
    pub fn memory_baseline(
        &self,
        view: &ankerdb_engine::ReadView,
        tables: &[&str],
    ) -> Result<MemoryBaseline> {
        self.0.olap.memory_baseline(view, tables)
    }
}

/// A prepared statement: parsed once; planned once for each version of the catalog.
pub struct Prepared {}

impl Prepared {
    pub fn sql(&self) -> &str {
        unimplemented!()
    }
    /// Types of $1, $2, ...; those that the client left open are inferred.
    pub fn parameters(&self) -> &[DataType] {
        unimplemented!()
    }
    /// Columns of the result; `None` for statements without one.
    pub fn output(&self) -> Option<&[OutputColumn]> {
        unimplemented!()
    }
    pub fn is_empty(&self) -> bool {
        unimplemented!()
    }
}

#[derive(Clone, Debug)]
pub struct OutputColumn {
    pub name: String,
    pub data_type: DataType,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransactionStatus {
    Idle,
    InTransaction,
    Failed,
}

/// One connection's state: settings, open transaction. Not shared between threads at the same time.
pub struct SqlSession {}

impl SqlSession {
    /// Splits a simple-query string into statements (empty ones dropped) and parses them. 42601 on bad syntax.
    pub fn parse(&self, sql: &str) -> Result<Vec<Statement>> {
        unimplemented!()
    }
    /// Binds names and types. `parameters`: types the client declared, by position; missing or None = infer.
    pub fn prepare(
        &mut self,
        statement: Statement,
        parameters: &[Option<DataType>],
    ) -> Result<Arc<Prepared>> {
        unimplemented!()
    }
    /// Runs the statement. In autocommit the statement is its own transaction and is retried by itself after a
    /// serialization failure. An error in an explicit transaction makes it `Failed`.
    /// `max_rows` does not belong here: the caller stops reading `Rows`.
    pub fn execute(&mut self, prepared: &Arc<Prepared>, parameters: &[Value]) -> Result<Outcome> {
        unimplemented!()
    }
    pub fn transaction_status(&self) -> TransactionStatus {
        unimplemented!()
    }
    pub fn set_default_isolation(&mut self, isolation: Isolation) {
        unimplemented!()
    }
    /// A handle that ends the running statement with 57014 from another thread.
    pub fn cancel_handle(&self) -> CancelHandle {
        unimplemented!()
    }
    /// Implicit transaction of a multi-statement simple query, as PostgreSQL has it: begun by the server before the
    /// first statement of several, ended after the last.
    pub fn begin_implicit(&mut self) {
        unimplemented!()
    }
    pub fn end_implicit(&mut self) -> Result<()> {
        unimplemented!()
    }
    pub fn fail_implicit(&mut self) {
        unimplemented!()
    }
}

#[derive(Clone)]
pub struct CancelHandle(Arc<std::sync::atomic::AtomicBool>);
impl CancelHandle {
    pub fn cancel(&self) {
        unimplemented!()
    }
}

/// A parsed statement.
pub struct Statement {}

/// What a statement gave.
pub enum Outcome {
    /// Done; the command tag, e.g. `INSERT 0 3`.
    Command(String),
    /// Rows; the tag is `SELECT <rows sent>` unless `tag` says otherwise (INSERT ... RETURNING).
    Rows(Rows),
    CopyIn(CopyIn),
    CopyOut(CopyOut),
}

/// COPY table FROM STDIN under way. Dropping it ends the copy with an error, nothing stored.
pub struct CopyIn {}
impl CopyIn {
    pub fn column_count(&self) -> usize {
        unimplemented!()
    }
    pub fn push(&mut self, session: &mut SqlSession, data: &[u8]) -> Result<()> {
        unimplemented!()
    }
    /// Returns the command tag `COPY n`.
    pub fn finish(self, session: &mut SqlSession) -> Result<String> {
        unimplemented!()
    }
    pub fn fail(self, session: &mut SqlSession, message: &str) {
        unimplemented!()
    }
}

/// COPY ... TO STDOUT under way.
pub struct CopyOut {}
impl CopyOut {
    pub fn column_count(&self) -> usize {
        unimplemented!()
    }
    /// The next whole lines, or `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>> {
        unimplemented!()
    }
    /// The command tag `COPY n` once all was read.
    pub fn tag(&self) -> String {
        unimplemented!()
    }
}
