//! From parsed statements to plans, and which path each takes.
//!
//! Reads that reach few rows through an index, SELECTs of constants, and all writes become plans of the OLTP
//! path, executed by [`crate::execute`]. Every other query becomes a plan of the OLAP path. The decision needs
//! names and indexes, so a plan is good for one version of the catalog.

pub(crate) mod access;
mod check;
mod control;
pub(crate) mod default;
mod define;
mod deparse;
mod explain;
mod select;
mod sequence;
mod write;

pub(crate) use control::{Modes, Setting, Utility};
pub(crate) use define::{Definition, positions};
pub(crate) use select::SelectPlan;
pub(crate) use write::{
    Conflict, ConflictAction, DeletePlan, InsertPlan, InsertSource, Place, Returning, UpdatePlan, WritePlan,
};

use crate::engine::SqlEngine;
use crate::expression::bind::{Bound, Subqueries};
use crate::expression::{Parameters, Refusal};
use crate::name::{not_supported, object_name};
use crate::olap::OlapPlan;
use crate::parse::Statement;
use crate::{CancelHandle, OutputColumn};
use ankerdb_engine::{Catalog, DataType, Result, Table};
use datafusion::sql::sqlparser::ast;
use std::sync::Arc;

/// A statement ready to run, as long as the catalog stays at `version`.
pub(crate) struct Planned {
    pub version: u64,
    pub kind: PlanKind,
    /// Types of $1, $2, ...
    pub parameters: Vec<DataType>,
    /// Columns of the result, if it has rows.
    pub output: Option<Arc<[OutputColumn]>>,
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
    Write(WritePlan),
    Define(Definition),
    Utility(Utility),
    Copy(Arc<ast::Statement>),
    /// The lines that describe another plan.
    Explain(Vec<String>),
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
            _ => None,
        }
    }
}

/// The context of planning.
pub(crate) struct Planner<'a> {
    pub engine: &'a SqlEngine,
    /// Ends planning that takes too long.
    cancel: &'a CancelHandle,
    pub catalog: Arc<Catalog>,
}

impl<'a> Planner<'a> {
    /// A planner for the catalog as it is now, which `cancel` ends.
    pub(crate) fn new(engine: &'a SqlEngine, cancel: &'a CancelHandle) -> Planner<'a> {
        Planner { engine, cancel, catalog: engine.database().catalog() }
    }

    /// Plans a statement. `declared`: types of parameters as far as the client told them.
    pub(crate) fn plan(&self, statement: &Statement, declared: &[Option<DataType>]) -> Result<Planned> {
        let mut parameters = Parameters::declared(declared);
        let (kind, output) = match &statement.ast {
            Some(ast) => self.statement(ast, &mut parameters)?,
            None => (PlanKind::Empty, None),
        };
        Ok(Planned { version: self.catalog.version(), kind, parameters: parameters.finish(), output })
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
            ast::Statement::Query(query) => {
                let (plan, output) = self.query(query, parameters)?;
                Ok((PlanKind::Query(plan), Some(output)))
            }
            ast::Statement::Insert(insert) => {
                let plan = self.insert(insert, parameters).map_err(Refusal::into_error)?;
                let output = plan.returning.as_ref().map(|returning| returning.output.clone());
                Ok((PlanKind::Write(WritePlan::Insert(Box::new(plan))), output))
            }
            ast::Statement::Update(update) => {
                let plan = self.update(update, parameters).map_err(Refusal::into_error)?;
                let output = plan.returning.as_ref().map(|returning| returning.output.clone());
                Ok((PlanKind::Write(WritePlan::Update(Box::new(plan))), output))
            }
            ast::Statement::Delete(delete) => {
                let plan = self.delete(delete, parameters).map_err(Refusal::into_error)?;
                let output = plan.returning.as_ref().map(|returning| returning.output.clone());
                Ok((PlanKind::Write(WritePlan::Delete(Box::new(plan))), output))
            }
            ast::Statement::Explain { statement, analyze, .. } => {
                if *analyze {
                    return Err(not_supported("EXPLAIN ANALYZE"));
                }
                self.explain(statement, parameters)
            }
            other => match define::definition(other)? {
                Some(definition) => Ok((PlanKind::Define(definition), None)),
                None => {
                    let utility = control::utility(other)?;
                    let output = utility.output();
                    Ok((PlanKind::Utility(utility), output))
                }
            },
        }
    }

    /// Plans a query for the OLTP path if that can run it well, else for the OLAP path.
    pub(crate) fn query(
        &self,
        query: &ast::Query,
        parameters: &mut Parameters,
    ) -> Result<(QueryPlan, Arc<[OutputColumn]>)> {
        let known = parameters.known().to_vec();
        match self.select(query, parameters) {
            Ok(plan) => {
                let output = plan.output.clone();
                Ok((QueryPlan::Select(Box::new(plan)), output))
            }
            Err(Refusal::Failed(error)) => Err(error),
            Err(Refusal::Elsewhere(reason)) => {
                if !query.locks.is_empty() {
                    return Err(not_supported(&format!("FOR UPDATE together with {reason}")));
                }
                *parameters = Parameters::declared(&known);
                let statement = ast::Statement::Query(Box::new(query.clone()));
                let plan = self.engine.olap().plan_apart(statement, &self.catalog, known, self.cancel)?;
                parameters.merge(plan.parameters());
                let output = plan.output().into();
                Ok((QueryPlan::Analytical(Arc::new(plan)), output))
            }
        }
    }

    /// The table that a name stands for. 42P01 if there is none.
    fn table(&self, name: &ast::ObjectName) -> Result<Arc<Table>> {
        self.catalog.table(&object_name(name)?)
    }
}

/// Plans the subqueries of one statement, to be run before it.
pub(crate) struct SubqueryPlans<'a> {
    planner: &'a Planner<'a>,
    pub plans: Vec<QueryPlan>,
}

impl<'a> SubqueryPlans<'a> {
    fn new(planner: &'a Planner<'a>) -> SubqueryPlans<'a> {
        SubqueryPlans { planner, plans: Vec::new() }
    }
}

impl Subqueries for SubqueryPlans<'_> {
    fn add(&mut self, query: &ast::Query, parameters: &mut Parameters) -> Bound<(usize, Vec<DataType>)> {
        let (plan, output) = self.planner.query(query, parameters).map_err(|error| {
            error.with_hint(
                "A subquery of a statement that writes cannot use columns of that statement's table.",
            )
        })?;
        self.plans.push(plan);
        Ok((self.plans.len() - 1, output.iter().map(|column| column.data_type).collect()))
    }
}
