//! Prepared statements.

use crate::command::Command;
use crate::expression::SessionFunction;
use crate::parse::Statement;
use crate::plan::{PlanKind, Planned, Planner, Utility};
use crate::position::located;
use crate::runner::Runner;
use ankerdb_engine::{DataType, Error, Result, SqlState, Value};
use datafusion::sql::sqlparser::ast;
use parking_lot::RwLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A column of a result. Two are equal if clients that were promised one can read the other: if name and type are.
#[derive(Clone, Debug)]
pub struct OutputColumn {
    /// Its name; need not be unique.
    pub name: String,
    /// Its type.
    pub data_type: DataType,
    /// The column of a relation that it shows unchanged.
    pub source: Option<SourceColumn>,
}

/// A column of a relation, by numbers of the system catalog.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SourceColumn {
    /// The relation's number in `pg_class`.
    pub table: u32,
    /// The column's number in `pg_attribute`, from 1.
    pub column: i16,
}

impl OutputColumn {
    /// A column that no relation has.
    pub fn new(name: impl Into<String>, data_type: DataType) -> OutputColumn {
        OutputColumn { name: name.into(), data_type, source: None }
    }
}

impl PartialEq for OutputColumn {
    fn eq(&self, other: &OutputColumn) -> bool {
        self.name == other.name && self.data_type == other.data_type
    }
}

impl Eq for OutputColumn {}

/// A prepared statement: parsed once; planned once for each version of the catalog.
pub struct Prepared {
    statement: Statement,
    parameters: Vec<DataType>,
    /// Values of parameters that are a part of the statement, which has none of its own then.
    values: Vec<Value>,
    output: Option<Arc<[OutputColumn]>>,
    planned: RwLock<Arc<Planned>>,
    inner: Option<Arc<Prepared>>,
    calls_session: bool,
    /// Whether its lookups have met more rows than they are good for.
    avoids_lookups: AtomicBool,
    /// Whether a client may have been told of the result's columns, which are not to change then.
    is_promised: bool,
}

fn planner(runner: &Runner) -> Planner<'_> {
    runner.planner(runner.catalog())
}

impl Prepared {
    pub(crate) fn new(
        runner: &Runner,
        statement: Statement,
        declared: &[Option<DataType>],
    ) -> Result<Prepared> {
        let planned = planner(runner).plan(&statement, declared)?;
        let (parameters, output) = (planned.parameters.clone(), planned.output.clone());
        let calls_session = SessionFunction::is_called_in(&statement.sql);
        Ok(Prepared {
            calls_session,
            statement,
            parameters,
            values: Vec::new(),
            output,
            planned: RwLock::new(Arc::new(planned)),
            inner: None,
            avoids_lookups: AtomicBool::new(false),
            is_promised: true,
        })
    }

    /// Another one of this statement, which has no inner one.
    pub(crate) fn alike(&self) -> Prepared {
        Prepared {
            calls_session: self.calls_session,
            statement: self.statement.clone(),
            parameters: self.parameters.clone(),
            values: self.values.clone(),
            output: self.output.clone(),
            planned: RwLock::new(self.planned.read().clone()),
            inner: None,
            avoids_lookups: AtomicBool::new(false),
            is_promised: self.is_promised,
        }
    }

    /// The statement as one of which a client is told nothing before it runs.
    pub(crate) fn unpromised(self) -> Prepared {
        Prepared { is_promised: false, ..self }
    }

    /// The statement as it was parsed.
    pub(crate) fn statement(&self) -> &Statement {
        &self.statement
    }

    /// Its plan, if planning it now would give the same.
    pub(crate) fn plan_of_now(&self, runner: &Runner) -> Option<Arc<Planned>> {
        let planned = self.planned.read();
        planned.is_for(runner.catalog_version(), &runner.path).then(|| planned.clone())
    }

    /// A command, and the statement in it.
    pub(crate) fn of_command(
        statement: Statement,
        planned: Planned,
        inner: Option<Arc<Prepared>>,
    ) -> Prepared {
        let (parameters, output) = (planned.parameters.clone(), planned.output.clone());
        Prepared {
            calls_session: false,
            statement,
            parameters,
            values: Vec::new(),
            output,
            planned: RwLock::new(Arc::new(planned)),
            inner,
            avoids_lookups: AtomicBool::new(false),
            is_promised: true,
        }
    }

    /// What it does if it is about the session's own things.
    pub(crate) fn command(&self) -> Option<&Arc<Command>> {
        self.statement.command.as_ref()
    }

    /// The statement that PREPARE and DECLARE contain.
    pub(crate) fn inner(&self) -> Option<&Arc<Prepared>> {
        self.inner.as_ref()
    }

    /// The statement as one that the client gives no parameters, as they have these values.
    pub(crate) fn with_values(self, values: Vec<Value>) -> Prepared {
        Prepared { parameters: Vec::new(), values, ..self }
    }

    /// The values of parameters: those that the statement was made with, or else those that the client gives.
    pub(crate) fn values<'a>(&'a self, given: &'a [Value]) -> &'a [Value] {
        if self.values.is_empty() { given } else { &self.values }
    }

    /// The syntax tree, if it has one.
    pub(crate) fn ast(&self) -> Option<&ast::Statement> {
        self.statement.ast.as_deref()
    }

    /// Whether it may call functions of the session.
    pub(crate) fn calls_session(&self) -> bool {
        self.calls_session
    }

    /// Whether it gives the rows of a query, and does nothing else.
    pub(crate) fn is_query(&self, runner: &Runner) -> Result<bool> {
        let planned = self.current(runner)?;
        let is_query = matches!(planned.kind, PlanKind::Query(_) | PlanKind::Lookup(_));
        Ok(is_query && self.command().is_none() && planned.kind.writes().is_none())
    }

    /// The statement's text, shared.
    pub(crate) fn text(&self) -> &Arc<str> {
        &self.statement.sql
    }

    /// An error of its planning with the place in the client's text, if that can be told.
    pub(crate) fn located(&self, error: Error) -> Error {
        located(error, &self.statement.sql, self.statement.before)
    }

    /// 42P02 for a statement with parameters, where none can be given.
    pub fn without_parameters(&self) -> Error {
        self.located(Error::new(SqlState::UndefinedParameter, "there is no parameter $1"))
    }

    /// An error of its run, with its place if it is one of the query in a definition, which is planned then.
    #[cold]
    pub(crate) fn located_in_query(&self, error: Error) -> Error {
        match self.ast() {
            Some(ast::Statement::CreateView(_) | ast::Statement::CreateTable(_)) => self.located(error),
            _ => error,
        }
    }

    /// The statement's text.
    pub fn sql(&self) -> &str {
        self.statement.sql()
    }

    /// Types of $1, $2, ...; those that the client did not declare are inferred.
    pub fn parameters(&self) -> &[DataType] {
        &self.parameters
    }

    /// Columns of the result; `None` for statements without one.
    pub fn output(&self) -> Option<&[OutputColumn]> {
        self.output.as_deref()
    }

    /// Whether the statement is the empty one.
    pub fn is_empty(&self) -> bool {
        self.statement.ast.is_none() && self.command().is_none()
    }

    /// The command's name if it writes data or definitions.
    pub fn writes(&self) -> Option<&'static str> {
        self.planned.read().kind.writes()
    }

    /// Whether it changes the session rather than the database, and with it what later statements of the session do:
    /// transaction control, settings, prepared statements and cursors, but not SHOW.
    pub fn is_about_session(&self) -> bool {
        let is_utility = matches!(&self.planned.read().kind, PlanKind::Utility(utility) if !matches!(utility, Utility::Show(_)));
        is_utility || self.command().is_some_and(|command| command.is_of_session())
    }

    /// The names of parameters that have one, in the order of their numbers; see [`SqlSession::parse_named`](crate::SqlSession::parse_named).
    pub fn parameter_names(&self) -> &[String] {
        &self.statement.names
    }

    /// Whether it may run in a transaction that has failed.
    pub(crate) fn ends_failure(&self) -> bool {
        matches!(&self.planned.read().kind, PlanKind::Utility(utility) if utility.ends_failure())
    }

    /// Plans the statement anew, from now on without lookups, as these have met too many rows.
    pub(crate) fn plan_without_lookups(&self, runner: &Runner) -> Result<()> {
        self.avoids_lookups.store(true, Ordering::Relaxed);
        self.plan_now(runner).map(drop)
    }

    /// The plan for the catalog as it is now. 0A000 if the result would have other columns than were promised.
    pub(crate) fn current(&self, runner: &Runner) -> Result<Arc<Planned>> {
        let version = runner.catalog_version();
        {
            let planned = self.planned.read();
            if planned.is_for(version, &runner.path) || self.command().is_some() {
                return Ok(planned.clone());
            }
        }
        self.plan_now(runner)
    }

    fn plan_now(&self, runner: &Runner) -> Result<Arc<Planned>> {
        let declared: Vec<Option<DataType>> = self.parameters.iter().copied().map(Some).collect();
        let planner = match self.avoids_lookups.load(Ordering::Relaxed) {
            true => planner(runner).without_lookups(),
            false => planner(runner),
        };
        let planned = Arc::new(planner.plan(&self.statement, &declared)?);
        if self.is_promised && planned.output != self.output {
            return Err(Error::new(SqlState::FeatureNotSupported, "cached plan must not change result type"));
        }
        *self.planned.write() = planned.clone();
        Ok(planned)
    }
}
