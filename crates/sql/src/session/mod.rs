//! A session: one connection's settings, its open transaction, and the running of its statements.
//!
//! A statement outside of a transaction block is a transaction of its own and is run again after a serialization
//! failure. Inside of a block an error ends the transaction at once, so that its locks are free, and the block
//! stays `Failed` until it is closed.

mod deadline;
mod setting;
pub use setting::SERVER_VERSION;
mod transaction;

use crate::copy;
use crate::engine::SqlEngine;
use crate::execute::{self, Done, Environment};
use crate::parse::{self, Statement};
use crate::plan::access::Access;
use crate::plan::{Definition, DeletePlan, InsertPlan, InsertSource, Kind, Planned, SelectPlan};
use crate::prepared::{OutputColumn, Prepared};
use crate::{Outcome, Rows};
use ankerdb_engine::{
    Cause, ColumnSet, DataType, Error, Interrupt, Isolation, Result, Session, SqlState, Transaction, Value,
};
use deadline::Deadline;
pub(crate) use deadline::Deadlines;
use setting::Settings;
use std::sync::Arc;
use transaction::Block;

/// How often INSERT ... ON CONFLICT looks again after a key appeared between its look and its commit. A key that is
/// still taken then is that of another index than the statement resolves.
const MERGES_MAX: u32 = 20;

/// Whether a transaction block is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransactionStatus {
    /// None is.
    Idle,
    /// One is, and takes statements.
    InTransaction,
    /// One is, but an error has ended it: only COMMIT and ROLLBACK are accepted.
    Failed,
}

/// Ends the running statement of a session from another thread.
#[derive(Clone)]
pub struct CancelHandle(pub(crate) Interrupt);

impl CancelHandle {
    /// Ends the statement that runs now, if any, with 57014.
    pub fn cancel(&self) {
        self.0.raise(Cause::Request);
    }
}

/// What running a statement needs besides a transaction.
pub(crate) struct Runner {
    engine: SqlEngine,
    cancel: CancelHandle,
}

/// One connection's state: settings, open transaction. Not shared between threads at the same time.
pub struct SqlSession {
    runner: Runner,
    session: Session,
    settings: Settings,
    block: Block,
    /// Of the statement that runs, or whose result is being read.
    deadline: Option<Deadline>,
}

impl SqlSession {
    pub(crate) fn new(engine: SqlEngine) -> SqlSession {
        let mut session = engine.database().session();
        // A client may think for long between two statements.
        session.set_keeps_tables(false);
        let cancel = CancelHandle(Interrupt::new());
        let settings = Settings::new(engine.database().configuration().isolation());
        let runner = Runner { engine, cancel };
        SqlSession { runner, session, settings, block: Block::default(), deadline: None }
    }

    /// What all sessions share.
    pub fn engine(&self) -> &SqlEngine {
        &self.runner.engine
    }

    /// Splits a simple-query string into statements (empty ones dropped) and parses them. 42601 on bad syntax.
    pub fn parse(&self, sql: &str) -> Result<Vec<Statement>> {
        parse::parse(sql)
    }

    /// Binds names and types. `parameters`: types the client declared, by position; missing or None = infer. An
    /// error in an explicit transaction makes it `Failed`.
    pub fn prepare(
        &mut self,
        statement: Statement,
        parameters: &[Option<DataType>],
    ) -> Result<Arc<Prepared>> {
        let prepared = Prepared::new(&self.runner.engine, statement, parameters);
        if prepared.is_err() {
            self.fail();
        }
        prepared.map(Arc::new)
    }

    /// Runs the statement. In autocommit the statement is its own transaction and is retried by itself after a
    /// serialization failure. An error in an explicit transaction makes it `Failed`.
    pub fn execute(&mut self, prepared: &Arc<Prepared>, parameters: &[Value]) -> Result<Outcome> {
        self.deadline = None;
        self.runner.cancel.0.clear();
        if let Some(limit) = self.settings.statement_timeout {
            self.deadline = Some(self.runner.engine.deadlines().set(limit, self.cancel_handle()));
        }
        match self.execute_current(prepared, parameters) {
            Ok(outcome) => {
                if !matches!(outcome, Outcome::Rows(_) | Outcome::CopyOut(_)) {
                    self.deadline = None;
                }
                Ok(outcome)
            }
            Err(error) => {
                self.fail();
                Err(self.expired(error))
            }
        }
    }

    /// The error, with the words for a timeout if it was that which canceled the statement.
    fn expired(&mut self, error: Error) -> Error {
        match self.deadline.take() {
            Some(deadline) if deadline.has_expired() && error.state() == SqlState::QueryCanceled => {
                Error::new(SqlState::QueryCanceled, "canceling statement due to statement timeout")
            }
            _ => error,
        }
    }

    fn execute_current(&mut self, prepared: &Prepared, parameters: &[Value]) -> Result<Outcome> {
        if parameters.len() < prepared.parameters().len() {
            let message = format!(
                "bind message supplies {} parameters, but prepared statement requires {}",
                parameters.len(),
                prepared.parameters().len()
            );
            return Err(Error::new(SqlState::ProtocolViolation, message));
        }
        self.check_usable(prepared)?;
        let planned = prepared.current(&self.runner.engine)?;
        if let Some(command) = planned.kind.writes() {
            self.check_writable(command)?;
        }
        match &planned.kind {
            Kind::Empty => Ok(Outcome::Command(String::new())),
            Kind::Select(plan) => self.select(&planned, plan, parameters),
            Kind::Analytical(plan) => self.analytical(plan, parameters),
            Kind::Insert(_) | Kind::Update(_) | Kind::Delete(_) => self.write(&planned, parameters),
            Kind::Define(definition) => self.define(definition),
            Kind::Utility(utility) => self.utility(utility, &planned),
            Kind::Copy(statement) => copy::start(self, statement),
            Kind::Explain(lines) => {
                let rows = lines.iter().map(|line| vec![Value::text(line.as_str())]).collect();
                Ok(self.ready(&planned, rows, Some("EXPLAIN".into())))
            }
        }
    }

    /// A handle that ends the running statement with 57014 from another thread.
    pub fn cancel_handle(&self) -> CancelHandle {
        self.runner.cancel.clone()
    }

    /// The isolation level of transactions that name none.
    pub fn set_default_isolation(&mut self, isolation: Isolation) {
        self.settings.default_isolation = isolation;
    }

    fn ready(&self, planned: &Planned, rows: Vec<Vec<Value>>, tag: Option<String>) -> Outcome {
        let columns: Arc<[OutputColumn]> = planned.output.clone().unwrap_or_else(|| Arc::new([]));
        Outcome::Rows(Rows::ready(columns, rows, tag))
    }

    fn select(&mut self, planned: &Planned, plan: &SelectPlan, parameters: &[Value]) -> Result<Outcome> {
        let done = if self.block.is_open() {
            let now = self.block_now();
            let transaction = self.block_transaction();
            transaction.begin_statement();
            let environment = Environment { parameters, subqueries: &[], now, locking: true };
            execute::select(plan, transaction, &environment)?
        } else {
            let environment =
                Environment { parameters, subqueries: &[], now: transaction::now(), locking: false };
            match plan.lock {
                Some(_) => {
                    self.autocommit(|_, transaction| execute::select(plan, transaction, &environment))?
                }
                None => self.read_only(|transaction| execute::select(plan, transaction, &environment))?,
            }
        };
        Ok(self.ready(planned, done.rows, None))
    }

    fn analytical(&mut self, plan: &crate::olap::OlapPlan, parameters: &[Value]) -> Result<Outcome> {
        let cancel = self.runner.cancel.clone();
        let rows = if self.block.is_open() {
            let transaction = self.block_transaction();
            transaction.begin_statement();
            note_reads(plan, transaction);
            let view = transaction.read_view();
            self.runner.engine.olap().run(plan, parameters, view, cancel)
        } else {
            let view = self.session.snapshot_at(self.settings.default_isolation).read_view();
            self.runner.engine.olap().run_outside_of_blocks(plan, parameters, view, cancel)
        };
        Ok(Outcome::Rows(rows?))
    }

    fn write(&mut self, planned: &Planned, parameters: &[Value]) -> Result<Outcome> {
        let done = if self.block.is_open() {
            let now = self.block_now();
            self.block_transaction().begin_statement();
            self.within_block(|runner, transaction| {
                runner.run_write(&planned.kind, transaction, parameters, now, true)
            })?
        } else {
            self.write_alone(&planned.kind, parameters)?
        };
        let tag = match &planned.kind {
            Kind::Insert(_) => format!("INSERT 0 {}", done.count),
            Kind::Update(_) => format!("UPDATE {}", done.count),
            _ => format!("DELETE {}", done.count),
        };
        Ok(match planned.output {
            Some(_) => self.ready(planned, done.rows, Some(tag)),
            None => Outcome::Command(tag),
        })
    }

    /// A statement that writes, as a transaction of its own.
    fn write_alone(&mut self, kind: &Kind, parameters: &[Value]) -> Result<Done> {
        let now = transaction::now();
        let merges = matches!(kind, Kind::Insert(plan) if plan.conflict.is_some());
        let mut attempt = 0;
        loop {
            let done = self.autocommit(|runner, transaction| {
                runner.run_write(kind, transaction, parameters, now, false)
            });
            match done {
                // The row in the way was committed after this statement looked: now it is a conflict to resolve.
                Err(error)
                    if merges && error.state() == SqlState::UniqueViolation && attempt < MERGES_MAX =>
                {
                    attempt += 1;
                }
                other => return other,
            }
        }
    }

    fn define(&mut self, definition: &Definition) -> Result<Outcome> {
        if let Definition::Truncate { names } = definition {
            self.truncate(names)?;
        } else {
            self.prepare_definition(definition.command())?;
            execute::define::define(self.runner.engine.database(), definition)?;
        }
        Ok(Outcome::Command(definition.command().into()))
    }

    /// Deletes all rows, as a DELETE without condition does.
    fn truncate(&mut self, names: &[String]) -> Result<()> {
        let catalog = self.runner.engine.database().catalog();
        for name in names {
            let table = catalog.table(name)?;
            let plan = DeletePlan {
                table,
                access: Access::Scan,
                filter: None,
                columns: ColumnSet::EMPTY,
                returning: None,
                subqueries: Vec::new(),
            };
            let locking = self.block.is_open();
            self.with_transaction_again(|transaction| {
                let environment = Environment { parameters: &[], subqueries: &[], now: 0, locking };
                execute::delete(&plan, transaction, &environment).map(drop)
            })?;
        }
        Ok(())
    }
}

impl Runner {
    fn run_write(
        &self,
        kind: &Kind,
        transaction: &mut Transaction,
        parameters: &[Value],
        now: i64,
        locking: bool,
    ) -> Result<Done> {
        let subqueries = match kind {
            Kind::Insert(plan) => &plan.subqueries,
            Kind::Update(plan) => &plan.subqueries,
            Kind::Delete(plan) => &plan.subqueries,
            _ => return Err(Error::internal("not a statement that writes")),
        };
        let mut results = Vec::with_capacity(subqueries.len());
        for subquery in subqueries {
            let environment = Environment { parameters, subqueries: &[], now, locking };
            let rows = self.run_query(subquery, transaction, &environment)?;
            results.push(rows.into_iter().map(|row| row.into_iter().next().unwrap_or(Value::Null)).collect());
        }
        let environment = Environment { parameters, subqueries: &results, now, locking };
        match kind {
            Kind::Insert(plan) => self.run_insert(plan, transaction, &environment),
            Kind::Update(plan) => execute::update(plan, transaction, &environment),
            Kind::Delete(plan) => execute::delete(plan, transaction, &environment),
            _ => Err(Error::internal("not a statement that writes")),
        }
    }

    fn run_insert(
        &self,
        plan: &InsertPlan,
        transaction: &mut Transaction,
        environment: &Environment,
    ) -> Result<Done> {
        match &plan.source {
            InsertSource::Values(rows) => {
                let context = environment.constant();
                let rows = rows.iter().map(|row| {
                    row.iter().map(|expression| crate::expression::evaluate(expression, &context)).collect()
                });
                execute::insert(plan, rows, transaction, environment)
            }
            InsertSource::Query(kind, places) => {
                let rows = self.run_query(kind, transaction, environment)?;
                let rows = rows.into_iter().map(|row| {
                    let value = |place: &Option<usize>| place.map_or(Value::Null, |place| row[place].clone());
                    Ok(places.iter().map(value).collect())
                });
                execute::insert(plan, rows, transaction, environment)
            }
        }
    }

    /// All rows of a query inside of a statement that writes.
    fn run_query(
        &self,
        kind: &Kind,
        transaction: &mut Transaction,
        environment: &Environment,
    ) -> Result<Vec<Vec<Value>>> {
        match kind {
            Kind::Select(plan) => Ok(execute::select(plan, transaction, environment)?.rows),
            Kind::Analytical(plan) => {
                note_reads(plan, transaction);
                let view = transaction.read_view();
                let cancel = self.cancel.clone();
                let mut result = self.engine.olap().run(plan, environment.parameters, view, cancel)?;
                let mut rows = Vec::new();
                while let Some(batch) = futures::executor::block_on(result.next())? {
                    rows.extend(batch);
                }
                Ok(rows)
            }
            _ => Err(Error::internal("not a query")),
        }
    }
}

/// At SERIALIZABLE, what an analytical query reads takes part in validation.
fn note_reads(plan: &crate::olap::OlapPlan, transaction: &mut Transaction) {
    if transaction.isolation() == Isolation::Serializable {
        for (table, columns) in plan.tables() {
            transaction.note_table_read(table, *columns, None);
        }
    }
}
