//! Prepared statements by name: PREPARE, EXECUTE and DEALLOCATE, and those that a client of the protocol has named. All share
//! their names.

use super::SqlSession;
use super::transaction::now;
use crate::command::Command;
use crate::expression::bind::type_name;
use crate::expression::types::assignable;
use crate::expression::types::data_type;
use crate::expression::{Binder, Parameters, Refusal, Scope, evaluate};
use crate::name::{not_supported, quoted};
use crate::parse::Statement;
use crate::plan::{PlanKind, Planned};
use crate::prepared::Prepared;
use crate::user_types::resolved_type;
use crate::{Outcome, OutputColumn};
use ankerdb_engine::{ConstraintTiming, DataType, Error, Result, SqlState, Value};
use ankerdb_value::{Clocks, MAX_NUMERIC_PRECISION, cast};
use datafusion::sql::sqlparser::ast::{self, Expr};
use std::collections::HashMap;
use std::sync::Arc;

/// A session's named statements.
#[derive(Default)]
pub(super) struct NamedStatements(HashMap<String, Named>);

/// A statement with a name.
pub(super) struct Named {
    pub(super) prepared: Arc<Prepared>,
    pub(super) prepared_at: i64,
    /// Whether PREPARE made it, and not a message of the protocol.
    pub(super) is_of_sql: bool,
}

impl NamedStatements {
    /// All of them, by name.
    pub(super) fn all(&self) -> impl Iterator<Item = (&str, &Named)> {
        self.0.iter().map(|(name, named)| (name.as_str(), named))
    }
}

impl SqlSession {
    /// The prepared statement of this name.
    ///
    /// # Errors
    /// `InvalidSqlStatementName`.
    pub fn named(&self, name: &str) -> Result<&Arc<Prepared>> {
        let named = self.statements.0.get(name).map(|named| &named.prepared);
        named.ok_or_else(|| {
            let message = format!("prepared statement {} does not exist", quoted(name));
            Error::new(SqlState::InvalidSqlStatementName, message)
        })
    }

    /// Whether a statement may have this name.
    ///
    /// # Errors
    /// `DuplicatePreparedStatement` if another one has it.
    pub fn check_name(&self, name: &str) -> Result<()> {
        if !self.statements.0.contains_key(name) {
            return Ok(());
        }
        let message = format!("prepared statement {} already exists", quoted(name));
        Err(Error::new(SqlState::DuplicatePreparedStatement, message))
    }

    /// Gives a statement a name.
    ///
    /// # Errors
    /// Those of [`check_name`](Self::check_name), and `OutOfMemory`: the client decides how many statements there are.
    pub fn name_statement(&mut self, name: &str, prepared: Arc<Prepared>) -> Result<()> {
        self.name_of(name, prepared, false)
    }

    fn name_of(&mut self, name: &str, prepared: Arc<Prepared>, is_of_sql: bool) -> Result<()> {
        self.check_name(name)?;
        self.check_room()?;
        self.statements.0.insert(name.to_owned(), Named { prepared, prepared_at: now(), is_of_sql });
        Ok(())
    }

    /// Forgets a named statement; whether there was one.
    pub fn forget_statement(&mut self, name: &str) -> bool {
        self.statements.0.remove(name).is_some()
    }

    pub(super) fn forget_statements(&mut self) {
        self.statements.0.clear();
        self.recent.clear();
    }

    /// Plans a command.
    pub(super) fn prepare_command(
        &mut self,
        command: &Arc<Command>,
        statement: &Statement,
        declared: &[Option<DataType>],
    ) -> Result<Prepared> {
        let (mut inner, mut output, mut parameters) = (None, None, Vec::new());
        let within = |ast: &Arc<ast::Statement>| Statement {
            ast: Some(ast.clone()),
            command: None,
            ..statement.clone()
        };
        match &**command {
            Command::Prepare { types, statement, .. } => {
                let catalog = self.runner.catalog();
                let types = types.iter().map(|sql| parameter_type(&resolved_type(sql, &catalog)));
                let types = types.collect::<Result<Vec<_>>>()?;
                inner = Some(Arc::new(Prepared::new(&self.runner, within(statement), &types)?));
            }
            Command::Declare(declaration) => {
                let query = Prepared::new(&self.runner, within(&declaration.query), declared)?;
                parameters = query.parameters().to_vec();
                inner = Some(Arc::new(query));
            }
            Command::Execute { name, .. } => output = self.named(name)?.output().map(Arc::from),
            Command::Fetch(fetch) => {
                let columns = self.cursor(&fetch.cursor)?.columns.clone();
                output = (!fetch.is_move).then_some(columns);
            }
            _ => {}
        }
        let (kind, path) = (PlanKind::Command, self.runner.path.clone());
        let planned = Planned {
            version: 0,
            path,
            clocks: Clocks::default(),
            present: None,
            kind,
            parameters,
            output,
            locks: Arc::default(),
        };
        Ok(Prepared::of_command(statement.clone(), planned, inner))
    }

    /// EXPLAIN EXECUTE: the plan of the named statement. `None` if the statement is another one.
    pub(super) fn explain_named(&self, statement: &Statement) -> Result<Option<Prepared>> {
        let Some(ast::Statement::Explain { statement: explained, .. }) = statement.ast.as_deref() else {
            return Ok(None);
        };
        let ast::Statement::Execute { name: Some(name), parameters, .. } = &**explained else {
            return Ok(None);
        };
        let prepared = self.named(&crate::name::dotted(name))?;
        check_number(&crate::name::dotted(name), prepared, parameters)?;
        let Some(inner) = prepared.ast() else {
            return Err(not_supported("EXPLAIN of such a statement"));
        };
        let Some(mut explain) = statement.ast.as_deref().cloned() else { return Ok(None) };
        if let ast::Statement::Explain { statement, .. } = &mut explain {
            **statement = inner.clone();
        }
        let types: Vec<_> = prepared.parameters().iter().copied().map(Some).collect();
        let as_of = prepared.statement().as_of.clone();
        let explain = Statement { ast: Some(Arc::new(explain)), as_of, ..statement.clone() };
        let values = self.arguments(parameters, prepared)?;
        Prepared::new(&self.runner, explain, &types).map(|explained| Some(explained.with_values(values)))
    }

    /// Runs a command.
    pub(super) fn command(&mut self, prepared: &Prepared, parameters: &[Value]) -> Result<Outcome> {
        let command = prepared.command().ok_or_else(|| Error::internal("this is no command"))?;
        let inner = || prepared.inner().ok_or_else(|| Error::internal("a command without its statement"));
        match &**command {
            Command::Prepare { name, .. } => {
                self.name_of(name, inner()?.clone(), true)?;
            }
            Command::Execute { name, arguments } => {
                return self.execute_named(name, arguments, prepared.output());
            }
            Command::Deallocate(None) => self.forget_statements(),
            Command::Deallocate(Some(name)) => {
                self.named(name)?;
                self.forget_statement(name);
            }
            Command::Declare(declaration) => {
                self.declare(declaration, inner()?, parameters)?;
            }
            Command::Fetch(fetch) => return self.fetch(fetch, prepared.output()),
            Command::CreateSnapshot(name) => self.create_snapshot(name)?,
            Command::DropSnapshot { name, if_exists } => self.drop_snapshot(name, *if_exists)?,
            Command::Maintain { tag, tables } => self.maintain(tag, tables)?,
            Command::Reindex(reindexed) => self.reindex(reindexed)?,
            Command::Cluster(clustered) => self.cluster(clustered.as_ref())?,
            Command::Absent(absent) => self.run_absent(absent)?,
            Command::Listen(_) | Command::Unlisten(_) | Command::Notify { .. } => self.talk(command)?,
            Command::SetConstraints { names, is_deferred } => self.set_constraints(names, *is_deferred)?,
            Command::Do(text) => return self.run_do(text),
            Command::PrepareTransaction => return self.prepare_transaction(),
            Command::EndPrepared { tag, name } => return Err(self.no_prepared(tag, name)),
            Command::Close(None) => self.close_cursors(),
            Command::Close(Some(name)) => {
                self.cursor(name)?;
                self.close_cursor(name);
            }
        }
        Ok(Outcome::Command(command.tag().into()))
    }

    /// SET CONSTRAINTS: what is not deferred any more is tested at once.
    fn set_constraints(&mut self, names: &[String], is_deferred: bool) -> Result<()> {
        let catalog = self.runner.catalog();
        for name in names {
            let keys = || catalog.tables().flat_map(|table| &table.definition().foreign_keys);
            let timings: Vec<_> = keys().filter(|key| key.name == *name).map(|key| key.timing).collect();
            if timings.contains(&ConstraintTiming::Immediate) {
                let message = format!("constraint {} is not deferrable", quoted(name));
                return Err(Error::new(SqlState::WrongObjectType, message));
            }
            if timings.is_empty() {
                let (state, message) = match catalog.tables().any(|table| catalog.has_constraint(table, name))
                {
                    true => {
                        (SqlState::WrongObjectType, format!("constraint {} is not deferrable", quoted(name)))
                    }
                    false => {
                        (SqlState::UndefinedObject, format!("constraint {} does not exist", quoted(name)))
                    }
                };
                return Err(Error::new(state, message));
            }
        }
        if !self.block.is_open() {
            let message = "SET CONSTRAINTS can only be used in transaction blocks";
            self.warn(SqlState::NoActiveSqlTransaction, message);
            return Ok(());
        }
        self.within_block(|_, transaction| {
            transaction.set_deferred(names, is_deferred);
            transaction.check_constraints()
        })
    }

    fn execute_named(
        &mut self,
        name: &str,
        arguments: &[Expr],
        promised: Option<&[OutputColumn]>,
    ) -> Result<Outcome> {
        let prepared = self.named(name)?.clone();
        if prepared.command().is_some() {
            return Err(not_supported("EXECUTE of a statement about the session"));
        }
        if prepared.output() != promised {
            return Err(Error::new(SqlState::FeatureNotSupported, "cached plan must not change result type"));
        }
        check_number(name, &prepared, arguments)?;
        let values = self.arguments(arguments, &prepared)?;
        self.execute_current(&prepared, &values)
    }

    /// The values of arguments, as parameters of a statement.
    fn arguments(&self, arguments: &[Expr], prepared: &Prepared) -> Result<Vec<Value>> {
        let each = arguments.iter().zip(prepared.parameters()).enumerate();
        each.map(|(position, (argument, &target))| self.argument(argument, target, position + 1)).collect()
    }

    /// The value of an argument, as a parameter of this type.
    fn argument(&self, argument: &Expr, target: DataType, number: usize) -> Result<Value> {
        let mut parameters = Parameters::declared(&[]);
        let mut binder = Binder::new(Scope::default(), &mut parameters);
        let bound = binder.bind(argument).and_then(|typed| match typed.data_type {
            None => binder.resolve(typed, target),
            Some(from) if assignable(from, target) => Ok(typed.expression),
            Some(from) => {
                let message = format!(
                    "parameter ${number} of type {} cannot be coerced to the expected type {}",
                    type_name(from),
                    type_name(target)
                );
                let hint = "You will need to rewrite or cast the expression.";
                Err(Error::new(SqlState::DatatypeMismatch, message).with_hint(hint).into())
            }
        });
        let expression = bound.map_err(Refusal::into_error)?;
        if !parameters.known().is_empty() {
            return Err(Error::new(SqlState::UndefinedParameter, "there is no parameter $1"));
        }
        let environment = self.runner.environment(&[], now(), false);
        let value = evaluate(&expression, &environment.constant())?;
        match (&value, target) {
            // The value's own digits count, not those of the column that the parameter is compared with.
            (Value::Null, _) | (Value::Numeric(_), DataType::Numeric { .. }) => Ok(value),
            (_, DataType::Varchar(_) | DataType::Char(_)) => cast(value, DataType::Text),
            (_, DataType::Numeric { precision, .. })
                if !matches!(value, Value::Real(_) | Value::Double(_)) =>
            {
                cast(value, DataType::Numeric { precision: precision.min(MAX_NUMERIC_PRECISION), scale: 0 })
            }
            _ => cast(value, target),
        }
    }
}

/// 42601 for another number of arguments than the statement has parameters.
fn check_number(name: &str, prepared: &Prepared, arguments: &[Expr]) -> Result<()> {
    let (given, expected) = (arguments.len(), prepared.parameters().len());
    if given == expected {
        return Ok(());
    }
    let message = format!("wrong number of parameters for prepared statement {}", quoted(name));
    let detail = format!("Expected {expected} parameters but got {given}.");
    Err(Error::new(SqlState::SyntaxError, message).with_detail(detail))
}

/// The type of a parameter that PREPARE declares.
///
/// # Errors
/// 0A000 for a domain, whose conditions are those of a column or cast.
fn parameter_type(sql: &ast::DataType) -> Result<Option<DataType>> {
    match crate::domains::domain(sql) {
        Some(_) => Err(crate::name::not_supported("a parameter of a domain")),
        None => declared_type(sql),
    }
}

/// The type that PREPARE gives a parameter; `None` if it is to be inferred.
fn declared_type(sql: &ast::DataType) -> Result<Option<DataType>> {
    match sql.to_string().eq_ignore_ascii_case("unknown") {
        true => Ok(None),
        // A parameter has no length or precision.
        false => data_type(sql).map(|known| Some(known.of_any_precision())),
    }
}
