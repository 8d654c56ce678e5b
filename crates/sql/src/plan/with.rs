//! WITH: before a statement that writes, and with statements that write.
//!
//! Statements behind WITH that write become steps, in order, and what they stand before becomes the last one. All of them read
//! the view of the first: none sees what another has written, but for what it gives back (RETURNING), which is a table for those
//! behind it. Common table expressions that only read are part of each query behind them.

use super::{Planner, QueryPlan, WritePlan};
use crate::OutputColumn;
use crate::expression::Parameters;
use crate::expression::bind::{Bound, elsewhere};
use crate::name::{folded, not_supported};
use crate::olap::OlapPlan;
use crate::olap::step::StepHandle;
use crate::olap::target::NamedStep;
use ankerdb_engine::{Error, Result, SqlState};
use datafusion::sql::sqlparser::ast::{Cte, Query, SetExpr, Statement, With};
use std::borrow::Cow;
use std::sync::Arc;

/// A statement with steps.
pub(crate) struct WithPlan {
    pub steps: Vec<WithStep>,
    pub last: LastStep,
}

/// A statement behind WITH that writes.
pub(crate) struct WithStep {
    pub plan: WritePlan,
    /// Its columns, by the names that the statements behind it use.
    pub columns: Option<Vec<OutputColumn>>,
}

/// What stands behind WITH.
pub(crate) enum LastStep {
    Write(WritePlan),
    Query(Arc<OlapPlan>, Arc<[OutputColumn]>),
}

impl WithPlan {
    /// The columns of what it gives back.
    pub(crate) fn output(&self) -> Option<&Arc<[OutputColumn]>> {
        match &self.last {
            LastStep::Write(plan) => plan.output(),
            LastStep::Query(_, output) => Some(output),
        }
    }
}

/// Whether a statement behind the query's WITH writes.
pub(super) fn has_steps(query: &Query) -> bool {
    query.with.as_ref().is_some_and(|with| with.cte_tables.iter().any(is_step))
}

fn is_step(cte: &Cte) -> bool {
    matches!(
        &*cte.query.body,
        SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_)
    )
}

impl Planner<'_> {
    /// Plans a statement with steps.
    pub(super) fn with_steps(&self, query: &Query, parameters: &mut Parameters) -> Bound<WritePlan> {
        let Some(with) = &query.with else { return elsewhere("WITH") };
        let is_in_rows = self.is_in_rows.clone();
        let mut planner = Planner { catalog: self.catalog.clone(), steps: Vec::new(), is_in_rows, ..*self };
        let mut reading = With { cte_tables: Vec::new(), ..with.clone() };
        let mut steps: Vec<WithStep> = Vec::new();
        for cte in &with.cte_tables {
            let name = folded(&cte.alias.name);
            let known = reading.cte_tables.iter().any(|cte| folded(&cte.alias.name) == name);
            if known || planner.steps.iter().any(|step| step.name == name) {
                let message = format!("WITH query name \"{name}\" specified more than once");
                return Err(Error::new(SqlState::DuplicateAlias, message).into());
            }
            if !is_step(cte) {
                reading.cte_tables.push(cte.clone());
                continue;
            }
            let step = planner.step(cte, &reading, parameters)?;
            let handle = step.columns.as_ref().map(|columns| Arc::new(StepHandle::new(steps.len(), columns)));
            planner.steps.push(NamedStep { name, handle });
            planner.is_later = true;
            steps.push(step);
        }
        let reading = Some(&reading).filter(|reading| !reading.cte_tables.is_empty());
        let last = match written(query)? {
            Some(statement) => LastStep::Write(planner.write(reading, statement, parameters)?),
            None => {
                let query = Query { with: reading.cloned(), ..query.clone() };
                match planner.query(&query, parameters)? {
                    (QueryPlan::Analytical(plan), output) => LastStep::Query(plan, output),
                    (QueryPlan::Select(_), _) => return elsewhere("such a query behind WITH"),
                }
            }
        };
        Ok(WritePlan::With(Box::new(WithPlan { steps, last })))
    }

    fn step(&self, cte: &Cte, reading: &With, parameters: &mut Parameters) -> Bound<WithStep> {
        let Some(statement) = written(&cte.query)? else { return elsewhere("such a statement behind WITH") };
        let with = below(Some(reading).filter(|with| !with.cte_tables.is_empty()), &cte.query);
        if matches!(statement, Statement::Merge(_)) {
            return Err(Error::new(SqlState::FeatureNotSupported, "MERGE not supported in WITH query").into());
        }
        if has_steps(&cte.query) {
            let message = "WITH clause containing a data-modifying statement must be at the top level";
            return Err(Error::new(SqlState::FeatureNotSupported, message).into());
        }
        let plan = self.write(with.with.as_ref(), statement, parameters)?;
        let columns = match plan.output() {
            Some(output) => Some(renamed(output, cte)?),
            None => None,
        };
        Ok(WithStep { plan, columns })
    }
}

/// The columns under the names that the alias gives to the first of them.
fn renamed(output: &[OutputColumn], cte: &Cte) -> Result<Vec<OutputColumn>> {
    let names = &cte.alias.columns;
    if names.len() > output.len() {
        let (name, has, given) = (folded(&cte.alias.name), output.len(), names.len());
        let message =
            format!("WITH query \"{name}\" has {has} columns available but {given} columns specified");
        return Err(Error::new(SqlState::InvalidColumnReference, message));
    }
    let mut columns = output.to_vec();
    columns.iter_mut().zip(names).for_each(|(column, name)| column.name = folded(&name.name));
    Ok(columns)
}

/// The statement that stands behind WITH in place of a query, if one does.
///
/// # Errors
/// `FeatureNotSupported` for clauses of a query behind the statement.
pub(super) fn written(query: &Query) -> Result<Option<&Statement>> {
    let (SetExpr::Insert(statement)
    | SetExpr::Update(statement)
    | SetExpr::Delete(statement)
    | SetExpr::Merge(statement)) = &*query.body
    else {
        return Ok(None);
    };
    if query.order_by.is_some()
        || query.limit_clause.is_some()
        || query.fetch.is_some()
        || !query.locks.is_empty()
    {
        return Err(not_supported("ORDER BY, LIMIT or FOR UPDATE behind a statement that writes"));
    }
    Ok(Some(statement))
}

/// A query of a statement, which sees that statement's common table expressions.
pub(super) fn below<'a>(with: Option<&With>, query: &'a Query) -> Cow<'a, Query> {
    let Some(outer) = with else { return Cow::Borrowed(query) };
    let mut query = query.clone();
    let mut all = outer.clone();
    if let Some(own) = query.with.take() {
        // A name of the query's own hides that of the statement's.
        let is_hidden =
            |name: &str| own.cte_tables.iter().any(|cte| crate::name::folded(&cte.alias.name) == name);
        all.cte_tables.retain(|cte| !is_hidden(&crate::name::folded(&cte.alias.name)));
        all.recursive |= own.recursive;
        all.cte_tables.extend(own.cte_tables);
    }
    query.with = Some(all);
    Cow::Owned(query)
}
