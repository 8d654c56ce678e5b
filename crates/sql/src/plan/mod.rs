//! From parsed statements to plans, and which path each takes.
//!
//! Reads that reach few rows through an index, SELECTs of constants, and all writes become plans of the OLTP
//! path, executed by [`crate::execute`]. Every other query becomes a plan of the OLAP path. The decision needs
//! names and indexes, so a plan is good for one version of the catalog.

pub(crate) mod access;
pub(crate) mod check;
mod clauses;
mod comment;
mod control;
pub(crate) mod default;
mod define;
mod deparse;
pub(crate) mod derivation;
mod domain;
mod explain;
mod foreign_key;
pub(crate) mod generation;
mod index;
mod joined;
mod locked;
mod lookup;
mod merge;
mod select;
mod sequence;
mod source_column;
mod target;
mod user_type;
mod with;
mod write;

pub(crate) use clauses::{locks_rows, storage_option};
pub(crate) use comment::Commented;
pub(crate) use control::{Modes, Setting, Utility};
pub(crate) use define::{
    Definition, Key, NewColumn, NewColumns, NewPart, NewTable, add_column, column_type, key_definition,
    new_table, positions, table_key,
};
pub(crate) use domain::NewDomain;
pub(crate) use explain::{Describer, ExplainPlan};
pub(crate) use foreign_key::{ForeignKeyClause, default_values, foreign_key};
pub(crate) use index::{Indexed, IndexedColumn, NewIndex, system_name};
pub(crate) use joined::{Action, Clause, JoinedPlan};
pub(crate) use locked::tables_of;
pub(crate) use lookup::{Aggregate, AggregateKind, Grouping, LookupPlan, LookupStep};
pub(crate) use select::SelectPlan;
pub(crate) use sequence::{OwnSequence, SequenceOwner, altered, identity_sequence};
pub(crate) use target::ViewCheck;
pub(crate) use user_type::{LabelPlace, TypeChange};
pub(crate) use with::{LastStep, WithPlan};
pub(crate) use write::{
    ColumnSource, Conflict, ConflictAction, DeletePlan, InsertPlan, InsertSource, Returning, UpdatePlan,
    WritePlan,
};

use source_column::with_sources;

use crate::activity::Activity;
use crate::engine::SqlEngine;
use crate::explain::ExplainOptions;
use crate::expression::bind::{Bound, Subqueries, elsewhere};
use crate::expression::{Parameters, Refusal};
use crate::materialized_table::check_changeable;
use crate::name::{not_supported, object_name};
use crate::olap::target::{NamedStep, Relations};
use crate::olap::{OlapPlan, parameter};
use crate::parse::Statement;
use crate::table_locks::Hold;
use crate::user_types;
use crate::visit::visit_expressions;
use crate::{CancelHandle, OutputColumn};
use ankerdb_engine::{Catalog, DataType, Error, Result, SearchPath, SqlState, Table};
use ankerdb_value::{Clocks, mentions_present, present};
use datafusion::sql::sqlparser::ast;
use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A statement ready to run, as long as the catalog stays at `version` and is looked at along `path`, in sessions of these clocks.
pub(crate) struct Planned {
    pub version: u64,
    pub path: Arc<SearchPath>,
    pub clocks: Clocks,
    /// The moment that texts like `now` in it stand for, if there may be some.
    pub present: Option<i64>,
    pub kind: PlanKind,
    /// Types of $1, $2, ...
    pub parameters: Vec<DataType>,
    /// Columns of the result, if it has rows.
    pub output: Option<Arc<[OutputColumn]>>,
    /// The locks on tables that it needs.
    pub locks: Arc<[Hold]>,
}

/// A query, by its path.
pub(crate) enum QueryPlan {
    Select(Box<SelectPlan>),
    Analytical(Arc<OlapPlan>),
}

/// What a statement does.
pub(crate) enum PlanKind {
    /// The empty statement.
    Empty,
    Query(QueryPlan),
    /// A query over few rows, which is planned anew as an analytical one if it meets many.
    Lookup(Box<LookupPlan>),
    Write(WritePlan),
    Define(Box<Definition>),
    Utility(Utility),
    Copy(Arc<ast::Statement>),
    /// The description of another plan, which is run for it with ANALYZE.
    Explain(Box<ExplainPlan>),
    /// About prepared statements and cursors.
    Command,
}

impl PlanKind {
    /// The command's name if it writes data or definitions.
    pub(crate) fn writes(&self) -> Option<&'static str> {
        match self {
            PlanKind::Write(plan) => Some(plan.command()),
            PlanKind::Query(QueryPlan::Select(plan)) if plan.lock.is_some() => Some("SELECT FOR UPDATE"),
            PlanKind::Define(definition) => Some(definition.command()),
            PlanKind::Copy(statement) => match &**statement {
                ast::Statement::Copy { to: false, .. } => Some("COPY FROM"),
                _ => None,
            },
            PlanKind::Explain(plan) if plan.options.analyze => plan.explained.kind.writes(),
            _ => None,
        }
    }
}

impl Planned {
    /// Whether it is good for this version of the catalog along this path, by the clocks that the thread works by.
    pub(crate) fn is_for(&self, version: u64, path: &Arc<SearchPath>) -> bool {
        self.version == version
            && self.clocks == Clocks::current()
            && (self.present.is_none() || self.present == present())
            && (Arc::ptr_eq(&self.path, path) || self.path == *path)
    }
}

/// Whether texts in a statement may stand for the present moment.
fn is_of_present(statement: &Statement) -> bool {
    let Some(statement) = statement.ast.as_deref().filter(|_| mentions_present(&statement.sql)) else {
        return false;
    };
    let found = visit_expressions(statement, |expr| {
        let value = match expr {
            ast::Expr::Value(value) => &value.value,
            ast::Expr::TypedString(typed) => &typed.value.value,
            _ => return ControlFlow::Continue(()),
        };
        match value {
            ast::Value::SingleQuotedString(text) if mentions_present(text) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    });
    found.is_break()
}

/// 0A000 for a statement that is read as of a moment and does more than read.
fn check_as_of(kind: &PlanKind, statement: Option<&ast::Statement>) -> Result<()> {
    let locks = matches!(statement, Some(ast::Statement::Query(query)) if locks_rows(query));
    match kind {
        _ if locks || kind.writes().is_some() => {
            Err(not_supported(&format!("AS OF in {}", kind.writes().unwrap_or("SELECT FOR UPDATE"))))
        }
        PlanKind::Query(_) | PlanKind::Lookup(_) => Ok(()),
        PlanKind::Explain(plan) => check_as_of(&plan.explained.kind, None),
        _ => Err(not_supported("AS OF in a statement that is no query")),
    }
}

/// The context of planning.
pub(crate) struct Planner<'a> {
    pub engine: &'a SqlEngine,
    /// Ends planning that takes too long.
    cancel: &'a CancelHandle,
    /// Whose statement it is.
    session: &'a Arc<Activity>,
    pub catalog: Arc<Catalog>,
    /// Statements behind WITH that have run before what is planned.
    steps: Vec<NamedStep>,
    /// Whether the transaction has written for this statement before, which its queries do not see: they read a view that
    /// was made earlier, and so all take the OLAP path.
    is_later: bool,
    /// Whether what is planned stands in a query with columns: its names may be those.
    is_in_rows: Cell<bool>,
    /// Whether a plan of lookups has met more rows than it is good for.
    avoids_lookups: bool,
}

impl<'a> Planner<'a> {
    /// A planner for statements of a session over this catalog.
    pub(crate) fn new(
        engine: &'a SqlEngine,
        cancel: &'a CancelHandle,
        session: &'a Arc<Activity>,
        catalog: Arc<Catalog>,
    ) -> Planner<'a> {
        Planner {
            engine,
            cancel,
            session,
            catalog,
            steps: Vec::new(),
            is_later: false,
            is_in_rows: Cell::new(false),
            avoids_lookups: false,
        }
    }

    /// The planner of statements for which lookups were found to be too many.
    pub(crate) fn without_lookups(self) -> Planner<'a> {
        Planner { avoids_lookups: true, ..self }
    }

    /// Plans a statement. `declared`: types of parameters as far as the client told them.
    pub(crate) fn plan(&self, statement: &Statement, declared: &[Option<DataType>]) -> Result<Planned> {
        let mut parameters = Parameters::declared(declared);
        let _along = crate::domains::along(&self.catalog);
        let (kind, output) = match &statement.ast {
            Some(ast) => {
                clauses::check(ast)?;
                let (kind, output) =
                    self.statement(&user_types::resolved(ast, &self.catalog), &mut parameters)?;
                let oids = self.engine.olap().oids();
                (kind, output.map(|output| with_sources(ast, &self.catalog, oids, output)))
            }
            None => (PlanKind::Empty, None),
        };
        if statement.as_of.is_some() {
            check_as_of(&kind, statement.ast.as_deref())?;
        }
        let (version, path) = (self.catalog.version(), self.catalog.path().clone());
        let locks = match &statement.ast {
            Some(ast) => locked::used_tables(ast, &kind, &self.catalog),
            None => Arc::default(),
        };
        Ok(Planned {
            version,
            path,
            clocks: Clocks::current(),
            present: is_of_present(statement).then(present).flatten(),
            kind,
            parameters: parameters.finish(),
            output,
            locks,
        })
    }

    fn statement(
        &self,
        statement: &Arc<ast::Statement>,
        parameters: &mut Parameters,
    ) -> Result<(PlanKind, Option<Arc<[OutputColumn]>>)> {
        match &**statement {
            ast::Statement::Copy { .. } => Ok((PlanKind::Copy(statement.clone()), None)),
            other => self.plan_ast(other, parameters),
        }
    }

    fn plan_ast(
        &self,
        statement: &ast::Statement,
        parameters: &mut Parameters,
    ) -> Result<(PlanKind, Option<Arc<[OutputColumn]>>)> {
        match statement {
            ast::Statement::Query(query) if with::has_steps(query) => {
                written(self.with_steps(query, parameters))
            }
            ast::Statement::Query(query) if let Some(statement) = with::written(query)? => {
                written(self.write(query.with.as_ref(), statement, parameters))
            }
            ast::Statement::Query(query) => {
                if let Some(plan) = self.lookup(query, parameters) {
                    let output = plan.output.clone();
                    return Ok((PlanKind::Lookup(Box::new(plan)), Some(output)));
                }
                let (plan, output) = self.query(query, parameters)?;
                Ok((PlanKind::Query(plan), Some(output)))
            }
            ast::Statement::Insert(_)
            | ast::Statement::Update(_)
            | ast::Statement::Delete(_)
            | ast::Statement::Merge(_) => written(self.write(None, statement, parameters)),
            ast::Statement::Explain { statement, analyze, verbose, options, .. } => {
                let options = options.as_deref().unwrap_or_default();
                self.explain(statement, ExplainOptions::read(*analyze, *verbose, options)?, parameters)
            }
            other => match define::definition(other)? {
                Some(definition) => Ok((PlanKind::Define(Box::new(definition)), None)),
                None => {
                    let utility = control::utility(other)?;
                    let output = utility.output();
                    Ok((PlanKind::Utility(utility), output))
                }
            },
        }
    }

    /// Plans a statement that writes, which may use the common table expressions.
    fn write(
        &self,
        with: Option<&ast::With>,
        statement: &ast::Statement,
        parameters: &mut Parameters,
    ) -> Bound<WritePlan> {
        match statement {
            ast::Statement::Insert(insert) => self.any_insert(with, insert, parameters),
            ast::Statement::Update(update) => self.any_update(with, update, parameters),
            ast::Statement::Delete(delete) => self.any_delete(with, delete, parameters),
            ast::Statement::Merge(merge) => self.merge(with, merge, parameters),
            _ => elsewhere("WITH before such a statement"),
        }
    }

    /// Plans a query for the OLTP path if that can run it well, else for the OLAP path.
    pub(crate) fn query(
        &self,
        query: &ast::Query,
        parameters: &mut Parameters,
    ) -> Result<(QueryPlan, Arc<[OutputColumn]>)> {
        let known = parameters.known().to_vec();
        let selected = match self.is_later {
            true => elsewhere("WITH"),
            false => self.select(query, parameters),
        };
        match selected {
            Ok(plan) => {
                let output = plan.output.clone();
                Ok((QueryPlan::Select(Box::new(plan)), output))
            }
            Err(Refusal::Failed(error)) => Err(error),
            Err(Refusal::Elsewhere(reason)) => {
                clauses::check_without_session(query)?;
                if clauses::locks_rows(query) {
                    return Err(not_supported(&format!("FOR UPDATE together with {reason}")));
                }
                *parameters = Parameters::declared(&known);
                let used = parameter::used(query);
                let statement = ast::Statement::Query(Box::new(query.clone()));
                let plan =
                    self.engine.olap().plan_apart(statement, self.relations(None), known, self.cancel)?;
                parameters.merge(plan.parameters(), &used);
                let output = plan.output().into();
                Ok((QueryPlan::Analytical(Arc::new(plan)), output))
            }
        }
    }

    /// What names of relations stand for in queries of the OLAP path.
    fn relations(&self, target: Option<Arc<Table>>) -> Relations {
        let catalog = self.engine.olap().sources(&self.catalog, Some(self.session));
        Relations { catalog, target, steps: self.steps.clone() }
    }

    /// The table that a name stands for. 42P01 if there is none.
    fn table(&self, name: &ast::ObjectName) -> Result<Arc<Table>> {
        let name = object_name(name)?;
        let table = self.catalog.table(&name)?;
        check_changeable(&table, "change")?;
        Ok(table)
    }
}

/// A plan that writes, with the columns that it gives back.
fn written(plan: Bound<WritePlan>) -> Result<(PlanKind, Option<Arc<[OutputColumn]>>)> {
    let plan = plan.map_err(Refusal::into_error)?;
    let output = plan.output().cloned();
    Ok((PlanKind::Write(plan), output))
}

/// Plans the subqueries of one statement, to be run before it.
pub(crate) struct SubqueryPlans<'a> {
    planner: &'a Planner<'a>,
    /// Whether the statement has another way to run if a subquery uses its table's columns.
    is_in_rows: bool,
    /// The common table expressions of the statement.
    with: Option<&'a ast::With>,
    pub plans: Vec<QueryPlan>,
}

impl<'a> SubqueryPlans<'a> {
    fn new(planner: &'a Planner<'a>) -> SubqueryPlans<'a> {
        SubqueryPlans { planner, is_in_rows: false, with: None, plans: Vec::new() }
    }

    /// For a statement with common table expressions.
    fn below(planner: &'a Planner<'a>, with: Option<&'a ast::With>) -> SubqueryPlans<'a> {
        SubqueryPlans { with, ..SubqueryPlans::new(planner) }
    }

    /// For the conditions and values of a statement that could also be planned as a join.
    fn in_rows(planner: &'a Planner<'a>) -> SubqueryPlans<'a> {
        SubqueryPlans { is_in_rows: true, ..SubqueryPlans::new(planner) }
    }
}

impl Subqueries for SubqueryPlans<'_> {
    fn add(&mut self, query: &ast::Query, parameters: &mut Parameters) -> Bound<(usize, Vec<DataType>)> {
        let unknown =
            |error: &Error| matches!(error.state(), SqlState::UndefinedColumn | SqlState::UndefinedTable);
        let around = self.planner.is_in_rows.replace(self.is_in_rows);
        let planned = self.planner.query(&with::below(self.with, query), parameters);
        self.planner.is_in_rows.set(around);
        let (plan, output) = match planned {
            Err(error) if self.is_in_rows && unknown(&error) => return elsewhere("a correlated subquery"),
            planned => planned?,
        };
        self.plans.push(plan);
        Ok((self.plans.len() - 1, output.iter().map(|column| column.data_type).collect()))
    }
}
