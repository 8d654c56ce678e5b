//! A session: one connection's settings, its open transaction, and the running of its statements.
//!
//! A statement outside of a transaction block is a transaction of its own and is run again after a serialization
//! failure ([`autocommit`]); so is the first one inside a block, of which the client has not seen anything yet. Inside
//! of a block any other error ends the transaction at once, so that its locks are free, and the block stays `Failed`
//! until it is closed.
//!
//! Every loop that may be long, in planning and in execution, looks at the session's interrupt ([`cancel`]); its limit of
//! time raises it ([`crate::deadline`]).

mod absent;
mod as_of;
mod autocommit;
mod cancel;
mod cursor;
mod define;
mod do_block;
mod explained;
mod functions;
mod lasting;
mod named;
mod notice;
mod own;
mod path;
mod recent;
mod savepoint;
pub(crate) mod setting;
mod staleness;
mod table_lock;
mod temporary;
mod time;
pub use cancel::CancelHandle;
pub use notice::{Notice, Severity};
mod channel;
mod led;
mod transaction;
mod truncate;
mod upkeep;

use table_lock::HeldTableLocks;
pub(crate) use table_lock::LockedTables;

use crate::activity::{Activity, Publisher, State};
use crate::copy;
use crate::deadline::Deadline;
use crate::engine::SqlEngine;
use crate::execute::{self, Done};
use crate::expression::{SessionFunction, fold};
use crate::olap::OlapPlan;
use crate::parse::{self, ParameterNames, Statement};
use crate::plan::{InsertSource, LookupPlan, PlanKind, Planned, QueryPlan, SelectPlan, Setting, WritePlan};
use crate::position::located;
use crate::prepared::{OutputColumn, Prepared};
use crate::recent::Recent;
use crate::runner::{Runner, note_reads};
use crate::session_sequences::SessionSequences;
use crate::{Outcome, ResultRows};
use ankerdb_engine::{
    Catalog, Claim, DataType, Error, Isolation, ReadView, Result, SchemaId, Session, SqlState, Transaction,
    Value,
};
use autocommit::{Sleeps, Tries};
use cursor::Cursors;
use functions::Functions;
use named::NamedStatements;
use setting::Settings;
use staleness::Seen;
use std::sync::Arc;
use std::time::Duration;
use transaction::{Block, ends_block};

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

/// One connection's state: settings, open transaction. Not shared between threads at the same time.
pub struct SqlSession {
    runner: Runner,
    session: Session,
    /// What others see of it.
    publisher: Publisher,
    settings: Settings,
    block: Block,
    statements: NamedStatements,
    recent: Recent,
    functions: Arc<Functions>,
    /// Locks on tables.
    tables: HeldTableLocks,
    /// Whether the statement that runs may call functions of the session, which may wait.
    calls_session: bool,
    cursors: Cursors,
    /// Of the statement that runs, or whose result is being read.
    deadline: Option<Deadline>,
    /// Whether the time of the next statement has begun already, with the message that contains it.
    has_begun: bool,
    /// Whether a client's message is served, up to the end of its answer.
    in_message: bool,
    /// Whether settings may have changed since the client was told of them.
    has_set: bool,
    /// What the client has not been told yet.
    notices: Vec<Notice>,
    /// Whether there may be temporary relations of the session.
    has_temporary: bool,
    /// What its queries have to see where they may be late.
    seen: Seen,
}

impl SqlEngine {
    /// A session: one connection.
    pub fn session(&self) -> SqlSession {
        SqlSession::new(self.clone(), CancelHandle::default())
    }

    /// A session whose statements this handle ends.
    pub fn session_with(&self, cancel: CancelHandle) -> SqlSession {
        SqlSession::new(self.clone(), cancel)
    }
}

impl SqlSession {
    fn new(engine: SqlEngine, cancel: CancelHandle) -> SqlSession {
        let mut session = engine.database().session();
        // A client may be idle for long between two statements.
        session.set_keeps_tables(false);
        let temporary = format!("pg_temp_{}", engine.database().new_session_number());
        let mut settings = Settings::new(engine.database().configuration().isolation(), &temporary);
        settings.keep();
        let activity = Arc::new(Activity::new(cancel.interrupt().clone(), engine.advisory().new_owner()));
        let tables = HeldTableLocks::new(engine.olap().live().tables.clone(), activity.lock_owner);
        let publisher = Publisher::new(activity.clone(), engine.activities().clone());
        let functions = Arc::new(Functions::new(activity.clone(), &engine));
        let sequences = Arc::new(SessionSequences::new(engine.database().clone(), functions.clone()));
        let path = settings.path.clone();
        sequences.look_along(path.clone());
        let runner = Runner { engine, cancel, activity, sequences, definitions: None, path, meter: None };
        let block = Block::default();
        SqlSession {
            runner,
            session,
            publisher,
            settings,
            block,
            statements: NamedStatements::default(),
            recent: Recent::default(),
            functions,
            tables,
            calls_session: false,
            cursors: Cursors::default(),
            deadline: None,
            has_begun: false,
            in_message: false,
            has_set: true,
            notices: Vec::new(),
            has_temporary: false,
            seen: Seen::default(),
        }
    }

    /// The engine that all sessions share.
    pub fn engine(&self) -> &SqlEngine {
        &self.runner.engine
    }

    /// Splits a simple-query string into statements (empty ones dropped) and parses them.
    ///
    /// # Errors
    /// 42601 on bad syntax.
    pub fn parse(&self, sql: &str) -> Result<Vec<Statement>> {
        parse::parse(sql)
    }

    /// Parses like [`parse`](Self::parse), but parameters may be written as `$name`, and are numbered in the order in
    /// which their names come first ([`Prepared::parameter_names`]).
    ///
    /// # Errors
    /// `SyntaxError`, also where some parameters have names and others numbers.
    pub fn parse_named(&self, sql: &str) -> Result<Vec<Statement>> {
        parse::parse_with(sql, ParameterNames::Allowed)
    }

    /// Binds names and types. `parameters`: types the client declared, by position; missing or None = infer. An
    /// error in an explicit transaction makes it `Failed`.
    ///
    /// # Errors
    /// Those of names and types that do not exist or do not fit, 0A000 for what is not supported, 25P02 in a transaction that
    /// has failed.
    pub fn prepare(
        &mut self,
        statement: Statement,
        parameters: &[Option<DataType>],
    ) -> Result<Arc<Prepared>> {
        if !self.has_begun {
            // Forgets interrupts of an earlier statement, whose caller does without `begin_message`.
            self.runner.interrupt().clear();
        }
        self.settings.clocks.enter();
        self.publisher.begin(&statement.sql);
        self.enter_present(true);
        let due = self.runner.interrupt().check().and_then(|()| self.check_alive(&statement));
        let due = due.and_then(|()| if ends_block(&statement) { Ok(()) } else { self.catch_up() });
        let (text, before) = (statement.sql.clone(), statement.before);
        let prepared = due.and_then(|()| self.plan(statement, parameters));
        let prepared = prepared.map_err(|error| located(self.explain_label(error), &text, before));
        if let Err(error) = &prepared {
            self.fail_for(Some(error));
        }
        prepared.map(Arc::new)
    }

    fn plan(&mut self, statement: Statement, parameters: &[Option<DataType>]) -> Result<Prepared> {
        if let Some(command) = &statement.command {
            return self.prepare_command(command, &statement, parameters);
        }
        match self.explain_named(&statement)? {
            Some(explained) => Ok(explained),
            None => fold::interruptible(self.runner.interrupt(), || {
                Prepared::new(&self.runner, statement, parameters)
            }),
        }
    }

    /// Notes that a message of the client has arrived: interrupts of earlier statements are forgotten, and
    /// `statement_timeout` of the next one counts from here, so that its parsing and planning are part of it. Callers
    /// that do without begin the time of each statement with [`execute`](Self::execute).
    pub fn begin_message(&mut self) {
        // Values of parameters may be read before a statement begins.
        self.enter_present(false);
        self.begin_time();
        (self.has_begun, self.in_message) = (true, true);
    }

    /// Notes which text of statements a message of the client has, for those who look at what sessions do. Without it each
    /// statement of the text is shown alone.
    pub fn show_message(&mut self, sql: &str) {
        self.publisher.begin_message(sql);
    }

    /// Notes that everything that the client has asked for is done, so that no time limit runs until its next
    /// message.
    pub fn end_message(&mut self) {
        self.deadline = None;
        (self.has_begun, self.in_message) = (false, false);
        self.leave_tables();
        self.publisher.rest(match self.transaction_status() {
            TransactionStatus::Idle => State::Idle,
            TransactionStatus::InTransaction => State::InTransaction,
            TransactionStatus::Failed => State::Failed,
        });
    }

    fn begin_time(&mut self) {
        // In this order: a deadline that was taken back does not come any more.
        self.deadline = None;
        self.runner.interrupt().clear();
        let limit = self.settings.limits.statement;
        self.deadline = limit.map(|limit| self.runner.engine.deadlines().set(limit, self.cancel_handle()));
    }

    /// Runs the statement. In autocommit the statement is its own transaction and is retried by itself after a
    /// serialization failure. An error in an explicit transaction makes it `Failed`.
    ///
    /// # Errors
    /// The statement's; 25P02 in a transaction that has failed, 57014 if the statement is to end.
    pub fn execute(&mut self, prepared: &Arc<Prepared>, parameters: &[Value]) -> Result<Outcome> {
        self.execute_by(prepared, |session| session.execute_current(prepared, parameters))
    }

    /// Runs a statement in the way that is given, and does what belongs to each.
    fn execute_by(
        &mut self,
        prepared: &Prepared,
        run: impl FnOnce(&mut SqlSession) -> Result<Outcome>,
    ) -> Result<Outcome> {
        if !std::mem::take(&mut self.has_begun) {
            self.begin_time();
        }
        self.settings.clocks.enter();
        self.recent.enter(self.runner.catalog_version());
        self.publisher.begin(prepared.text());
        self.enter_present(true);
        let due = self.runner.interrupt().check();
        let was_read_only = self.block.is_open() && self.block.is_read_only(&self.settings);
        let outcome = due.and_then(|()| run(self));
        self.seen.note(&outcome, was_read_only);
        let outcome = outcome.map_err(|error| match error.state() {
            SqlState::UndefinedParameter => prepared.located(error),
            _ => self.explain_label(error),
        });
        let goes_on = match &outcome {
            // Rows of a client's statement are a part of it until they are sent.
            Ok(Outcome::Rows(rows)) => self.in_message || !rows.is_complete(),
            Ok(Outcome::CopyIn(_) | Outcome::CopyOut(_)) => true,
            Ok(Outcome::Command(_)) => false,
            Err(error) => {
                self.fail_for(Some(error));
                false
            }
        };
        if !goes_on {
            self.deadline = None;
        }
        if !matches!(outcome, Ok(Outcome::CopyIn(_))) {
            self.leave_tables();
        }
        outcome
    }

    fn execute_current(&mut self, prepared: &Prepared, parameters: &[Value]) -> Result<Outcome> {
        check_count(prepared, parameters)?;
        self.check_usable(prepared)?;
        self.runner.sequences.keep_unchanged(self.block.is_read_only(&self.settings));
        if prepared.command().is_some() {
            self.catch_up()?;
            return self.command(prepared, parameters);
        }
        match prepared.statement().as_of {
            None => self.execute_as_written(prepared, parameters),
            Some(_) => self.as_of(prepared, |session| session.execute_as_written(prepared, parameters)),
        }
    }

    // Its two callers would each have all of the ways to run a statement in them.
    #[inline(never)]
    fn execute_as_written(&mut self, prepared: &Prepared, parameters: &[Value]) -> Result<Outcome> {
        if !prepared.calls_session() {
            return self.execute_tries(prepared, parameters);
        }
        self.calling_session(|session| {
            if SessionFunction::ExportSnapshot.may_be_in(&prepared.statement().sql) {
                session.lend_snapshot();
            }
            session.execute_tries(prepared, parameters)
        })
    }

    /// Lets the next statement see what others have defined, along the path that is set.
    pub(super) fn catch_up(&mut self) -> Result<()> {
        self.runner.look_along(&self.settings.path);
        self.runner.activity.set_compiler(self.settings.compiler);
        self.runner.catch_up()
    }

    /// Runs the plan for the catalog of now, again where that has changed meanwhile.
    fn execute_tries(&mut self, prepared: &Prepared, parameters: &[Value]) -> Result<Outcome> {
        let parameters = prepared.values(parameters);
        let mut tries = Tries::default();
        loop {
            if !prepared.ends_failure() {
                self.catch_up()?;
            }
            let planned = prepared.current(&self.runner);
            let planned = planned.map_err(|error| prepared.located(error))?;
            if self.use_tables(&planned.locks)? {
                continue;
            }
            let written = self.written();
            let outcome = match (self.check_as_of(prepared, &planned), &planned.kind) {
                (Err(error), _) => Err(error),
                (Ok(()), PlanKind::Lookup(plan)) => match self.lookup(&planned, plan, parameters) {
                    Ok(None) => {
                        let replanned = prepared.plan_without_lookups(&self.runner);
                        replanned.map_err(|error| prepared.located(error))?;
                        continue;
                    }
                    Ok(Some(outcome)) => Ok(outcome),
                    Err(error) => Err(error),
                },
                (Ok(()), _) => self.execute_planned(&planned, parameters),
            };
            let error = match outcome {
                Err(error) if self.is_outdated(&planned, &error) => error,
                outcome => return outcome.map_err(|error| prepared.located_in_query(error)),
            };
            if self.written() > written {
                return Err(Error::serialization(
                    "could not serialize access due to a concurrent change of a table",
                ));
            }
            tries.next(error, self.runner.interrupt())?;
        }
    }

    /// Whether a statement has failed only because a table was redefined or dropped after it was planned, or is just being
    /// redefined.
    fn is_outdated(&self, planned: &Planned, error: &Error) -> bool {
        let only_reads = matches!(planned.kind, PlanKind::Query(_) | PlanKind::Lookup(_))
            && planned.kind.writes().is_none();
        match error.state() {
            SqlState::UndefinedTable => planned.version != self.runner.catalog_version(),
            SqlState::SerializationFailure => only_reads && !self.block.is_open(),
            _ => false,
        }
    }

    /// Rows that the open transaction has written so far.
    fn written(&self) -> usize {
        self.block.transaction.as_ref().map_or(0, Transaction::write_count)
    }

    fn execute_planned(&mut self, planned: &Planned, parameters: &[Value]) -> Result<Outcome> {
        if let Some(command) = planned.kind.writes() {
            self.check_writable(command)?;
        }
        match &planned.kind {
            PlanKind::Empty => Ok(Outcome::Command(String::new())),
            PlanKind::Query(QueryPlan::Select(plan)) => self.select(planned, plan, parameters),
            PlanKind::Query(QueryPlan::Analytical(plan)) => {
                let outcome = self.analytical(plan, planned.version, parameters)?;
                Ok(match outcome {
                    Outcome::Rows(rows) => Outcome::Rows(rows.described(planned.output.as_ref())),
                    other => other,
                })
            }
            PlanKind::Lookup(plan) => {
                let done = self.lookup(planned, plan, parameters)?;
                done.ok_or_else(|| Error::internal("lookups that are measured come to their end"))
            }
            PlanKind::Write(plan) => {
                let done = self.write(planned, plan, parameters)?;
                self.after_statement().map(|()| done)
            }
            PlanKind::Define(definition) => {
                let done = self.define(definition, parameters)?;
                self.note_temporary();
                self.after_statement().map(|()| done)
            }
            PlanKind::Utility(utility) => self.utility(utility, planned),
            PlanKind::Copy(statement) => copy::start(self, statement),
            PlanKind::Command => Err(Error::internal("a command has no plan")),
            PlanKind::Explain(plan) => self.explain(planned, plan, parameters),
        }
    }

    /// The catalog that the next statement sees.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        self.runner.catalog()
    }

    /// The name of a schema, as the session sees it now.
    pub fn schema_name(&self, schema: SchemaId) -> String {
        self.catalog().schema_name(schema).to_owned()
    }

    /// The folder whose files COPY may use.
    pub(crate) fn copy_folder(&self) -> Option<std::path::PathBuf> {
        self.runner.engine.copy_folder().map(std::path::Path::to_owned)
    }

    /// A handle that ends the running statement with 57014 from another thread.
    pub fn cancel_handle(&self) -> CancelHandle {
        self.runner.cancel.clone()
    }

    /// How long the client may take for its next message, if there is a limit: while a transaction is open, since that may
    /// keep others waiting.
    pub fn idle_limit(&self) -> Option<Duration> {
        self.block.is_open().then_some(self.settings.limits.idle_in_transaction).flatten()
    }

    /// Limits of time, as `SET statement_timeout` and `SET lock_timeout` set them. `None` sets no limit.
    ///
    /// # Errors
    /// `InvalidParameterValue` for times of more than 24 days.
    pub fn set_limits(&mut self, statement: Option<Duration>, lock: Option<Duration>) -> Result<()> {
        for (name, limit) in [("statement_timeout", statement), ("lock_timeout", lock)] {
            let shown = |limit: Duration| format!("{}us", limit.as_micros().max(1000));
            let value = Some(limit.map_or("0".into(), shown));
            self.settings.set(&Setting { name: name.into(), value, is_local: false })?;
        }
        Ok(())
    }

    /// The isolation level of transactions that name none.
    pub fn set_default_isolation(&mut self, isolation: Isolation) {
        self.settings.default_isolation = isolation;
    }

    fn ready(&self, planned: &Planned, rows: Vec<Vec<Value>>, tag: Option<String>) -> Outcome {
        let columns: Arc<[OutputColumn]> = planned.output.clone().unwrap_or_else(|| Arc::new([]));
        Outcome::Rows(ResultRows::ready(columns, rows, tag))
    }

    fn select(&mut self, planned: &Planned, plan: &SelectPlan, parameters: &[Value]) -> Result<Outcome> {
        let done = if self.block.is_open() {
            let now = self.block_now();
            self.in_block(|runner, transaction| {
                runner.run_select(plan, transaction, &runner.environment(parameters, now, true))
            })?
        } else {
            // Which is when the transaction began: the statement is one.
            let now = self.publisher.began().unwrap_or_else(transaction::now);
            match plan.lock {
                Some(_) => self.autocommit(Sleeps::Surely, |runner, transaction, locking| {
                    runner.run_select(plan, transaction, &runner.environment(parameters, now, locking))
                })?,
                None if self.calls_session => self.read_waiting(|runner, transaction| {
                    execute::select(plan, transaction, &runner.environment(parameters, now, false))
                })?,
                None => self.read_only(|runner, transaction| {
                    execute::select(plan, transaction, &runner.environment(parameters, now, false))
                })?,
            }
        };
        Ok(self.ready(planned, done.rows, None))
    }

    /// Runs a plan of lookups; `None` if it meets too many rows.
    fn lookup(
        &mut self,
        planned: &Planned,
        plan: &LookupPlan,
        parameters: &[Value],
    ) -> Result<Option<Outcome>> {
        let done = if self.block.is_open() {
            let now = self.block_now();
            self.in_block(|runner, transaction| {
                execute::lookup(plan, transaction, &runner.environment(parameters, now, true))
            })?
        } else {
            let now = self.publisher.began().unwrap_or_else(transaction::now);
            self.read_only(|runner, transaction| {
                execute::lookup(plan, transaction, &runner.environment(parameters, now, false))
            })?
        };
        Ok(done.map(|done| self.ready(planned, done.rows, None)))
    }

    /// 42P01 if there is another catalog by now than the one of the plan: what is read may be newer than its tables; 40001 if it
    /// is older.
    fn check_current(&self, plan: &OlapPlan, version: u64, view: &ReadView) -> Result<()> {
        if self.runner.catalog_version() != version {
            return Err(Error::new(SqlState::UndefinedTable, "a relation of the statement was redefined"));
        }
        plan.tables().iter().try_for_each(|(table, _)| view.check_has(table))
    }

    fn analytical(&mut self, plan: &Arc<OlapPlan>, version: u64, parameters: &[Value]) -> Result<Outcome> {
        self.analytical_until(plan, version, parameters, self.runner.cancel.clone())
    }

    /// Runs an analytical query that this handle ends.
    fn analytical_until(
        &mut self,
        plan: &Arc<OlapPlan>,
        version: u64,
        parameters: &[Value],
        cancel: CancelHandle,
    ) -> Result<Outcome> {
        if plan.calls_session() && !self.calls_session {
            // In the text of a view, which the statement's own does not show.
            return self
                .calling_session(|session| session.analytical_until(plan, version, parameters, cancel));
        }
        if plan.shows_session() {
            self.show_own();
        }
        let now = self.began();
        let rows = if self.block.is_open() {
            let transaction = self.block_transaction();
            transaction.begin_statement();
            note_reads(plan, transaction)?;
            let view = transaction.read_view();
            self.seen.note_shown(&view);
            self.check_current(plan, version, &view)?;
            let after = self.runner.after(plan, now);
            Ok(self.runner.engine.olap().run_after(plan, parameters, view, after, cancel))
        } else if self.runner.is_measured() {
            // In this process, as a copy of it would keep its figures to itself.
            let view = self.view_of_now(plan)?;
            self.check_current(plan, version, &view)?;
            let after = self.runner.after(plan, now);
            Ok(self.runner.engine.olap().run_after(plan, parameters, view, after, cancel))
        } else {
            let view = self.view_of_now(plan)?;
            self.check_current(plan, version, &view)?;
            let after = self.runner.after(plan, now);
            self.runner.engine.olap().run_outside_of_blocks(plan, parameters, view, after, cancel)
        };
        let rows = rows?;
        Ok(Outcome::Rows(if plan.calls_session() { self.read_whole(rows)? } else { rows }))
    }

    /// All rows of a query, read before its statement ends.
    fn read_whole(&self, mut rows: ResultRows) -> Result<ResultRows> {
        let limit = self.runner.engine.database().memory_limit();
        let mut whole = Vec::new();
        while let Some(batch) = rows.next_batch_unless(&self.runner.cancel)? {
            limit.check(Claim::Large, 0)?;
            whole.extend(batch.into_rows());
        }
        Ok(ResultRows::ready(rows.columns().into(), whole, None))
    }

    /// What is committed now, or was a moment ago where the session's queries may be late; and on disk: the client may not know of
    /// what a crash could still undo.
    fn view_of_now(&mut self, plan: &OlapPlan) -> Result<ReadView> {
        let isolation = self.settings.default_isolation;
        // The system catalog is always that of now.
        let view = match self.settings.limits.staleness.filter(|_| !plan.reads_system()) {
            None => self.session.snapshot_at(isolation),
            Some(staleness) => self.snapshot_within(isolation, staleness),
        };
        let view = view.read_view();
        if !plan.tables().is_empty() {
            self.seen.note_shown(&view);
        }
        if self.settings.waits_for_log {
            self.runner.engine.database().wait_until_durable(view.timestamp())?;
        }
        Ok(view)
    }

    fn write(&mut self, planned: &Planned, plan: &WritePlan, parameters: &[Value]) -> Result<Outcome> {
        let done = if self.block.is_open() {
            let now = self.block_now();
            self.in_block(|runner, transaction| runner.run_write(plan, transaction, parameters, now, true))?
        } else {
            self.write_alone(plan, parameters)?
        };
        let tag = plan.tag(done.count);
        Ok(match planned.output {
            Some(_) => self.ready(planned, done.rows, Some(tag)),
            None => Outcome::Command(tag),
        })
    }

    /// A statement that writes, as a transaction of its own.
    fn write_alone(&mut self, plan: &WritePlan, parameters: &[Value]) -> Result<Done> {
        let now = transaction::now();
        let sleeps = if self.calls_session { Sleeps::Surely } else { sleeps(plan) };
        let merges = matches!(plan, WritePlan::Insert(plan) if plan.conflict.is_some());
        let mut attempt = 0;
        loop {
            let done = self.autocommit(sleeps, |runner, transaction, locking| {
                let done = runner.run_write(plan, transaction, parameters, now, locking);
                if locking { done } else { done.map_err(|error| behind_keys(plan, error)) }
            });
            match done {
                // The row in the way was committed after this statement looked: now it is a conflict to resolve.
                Err(error)
                    if merges && error.state() == SqlState::UniqueViolation && attempt < MERGES_MAX =>
                {
                    attempt += 1;
                    self.runner.interrupt().check()?;
                }
                other => return other,
            }
        }
    }
}

/// An error of one of several new rows comes behind those that the keys of the rows before it are going to give. A procedure
/// looks at keys when it commits, but a transaction with locks at once: so the statement runs again as one.
fn behind_keys(plan: &WritePlan, error: Error) -> Error {
    let several = matches!(plan, WritePlan::Insert(plan) if matches!(&plan.source, InsertSource::Values(rows) if rows.len() > 1));
    let of_row = matches!(error.state(), SqlState::NotNullViolation | SqlState::CheckViolation);
    if several && of_row { Error::serialization("keys are checked first") } else { error }
}

/// 08P01 if there are fewer parameters than the statement has.
fn check_count(prepared: &Prepared, parameters: &[Value]) -> Result<()> {
    let (given, needed) = (parameters.len(), prepared.parameters().len());
    if given >= needed {
        return Ok(());
    }
    let message =
        format!("bind message supplies {given} parameters, but prepared statement requires {needed}");
    Err(Error::new(SqlState::ProtocolViolation, message))
}

/// Whether the statement of a transaction block may sleep before it commits, with what it has read or locked.
fn sleeps(plan: &WritePlan) -> Sleeps {
    let queries = match plan {
        WritePlan::Insert(plan) => matches!(plan.source, InsertSource::Query(..)),
        WritePlan::Joined(_) | WritePlan::With(_) => true,
        WritePlan::Update(_) | WritePlan::Delete(_) => false,
    };
    if queries || !plan.subqueries().is_empty() { Sleeps::Surely } else { Sleeps::Perhaps }
}
