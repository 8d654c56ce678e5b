//! Aggregates within a subquery that belong to a query around it.
//!
//! An aggregate belongs to the nearest query that a column in its arguments or in its FILTER is of: in
//! ```text
//! SELECT o.g, (SELECT sum(o.x) FROM i LIMIT 1) FROM o GROUP BY o.g
//! ```
//! the sum is one of the outer query's groups, and the subquery mentions it as it mentions other columns outside
//! (PostgreSQL, 4.2.7). DataFusion computes it in the subquery, whatever it is of. So it is moved before types are settled:
//! ```text
//! Projection g, (subquery)                         Projection g, (subquery')
//!   Aggregate groups g                    -->        Aggregate groups g, calls hidden := sum(x)
//!     o                                                o
//! subquery:  Aggregate calls sum(outer x)  -->     subquery':  Projection outer hidden AS "sum(outer x)"
//!              i                                                 i
//! ```
//! A query becomes one of a single group by an aggregate that is only written in a subquery of its select list.
//!
//! Where PostgreSQL has no place for such an aggregate (WHERE, FROM, within another aggregate) it is refused as it is there.

use super::correlation::{as_subquery, outer_columns, visit_outer};
use super::error::external;
use super::names::{HIDDEN, visible};
use crate::name::not_supported;
use ankerdb_engine::{Error, SqlState};
use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema};
use datafusion::error::{DataFusionError, Result};
use datafusion::functions_aggregate::count::count_all;
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Aggregate, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Projection, Subquery,
};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

const NESTED: &str = "aggregate function calls cannot be nested";

/// The plan with each aggregate in the query that it belongs to.
pub(super) fn moved(plan: LogicalPlan) -> Result<LogicalPlan> {
    match may_have(&plan)? {
        true => Moving::default().plan(plan),
        false => Ok(plan),
    }
}

/// Whether an aggregate mentions something outside of its query.
fn may_have(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            expression.apply(|part| {
                let is_call = matches!(part, Expr::AggregateFunction(_));
                found |= is_call && part.exists(|part| Ok(is_outside(part)))?;
                Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })
    })?;
    Ok(found)
}

fn is_outside(part: &Expr) -> bool {
    matches!(part, Expr::OuterReferenceColumn(..)) || as_subquery(part).is_some()
}

#[derive(Default)]
struct Moving {
    /// The nodes around, from the outermost in, whose expressions have the subquery that is being read.
    levels: Vec<Level>,
    /// How many were moved.
    count: usize,
}

/// A node with subqueries.
struct Level {
    /// What an aggregate of its query has for columns.
    schema: DFSchema,
    /// Why it may have none.
    refusal: Option<Refusal>,
    /// The aggregates that it gets, and their names.
    calls: Vec<(Expr, String)>,
}

#[derive(Clone, Copy)]
enum Refusal {
    /// PostgreSQL's.
    Grouping(&'static str),
    /// Ours.
    Unsupported,
}

impl Level {
    fn of(node: &LogicalPlan) -> Level {
        let grouped = group_input(node);
        let schema = match grouped {
            Some(input) => input.schema().as_ref().clone(),
            None => merge_schema(&node.inputs()),
        };
        let refusal = match node {
            LogicalPlan::Aggregate(_) => Some(Refusal::Grouping(NESTED)),
            LogicalPlan::Join(_) => {
                Some(Refusal::Grouping("aggregate functions are not allowed in JOIN conditions"))
            }
            _ if grouped.is_some() => None,
            LogicalPlan::Filter(_) => Some(Refusal::Grouping("aggregate functions are not allowed in WHERE")),
            LogicalPlan::Projection(_) => None,
            LogicalPlan::Window(window)
                if window.window_expr.iter().any(|call| !call.column_refs().is_empty()) =>
            {
                Some(Refusal::Grouping("columns of window functions must appear in the GROUP BY clause"))
            }
            _ => Some(Refusal::Unsupported),
        };
        Level { schema, refusal, calls: Vec::new() }
    }

    /// Whether a column stands for one of its aggregates.
    fn has_call(&self, column: &Column) -> bool {
        column.relation.is_none() && self.calls.iter().any(|(_, name)| *name == column.name)
    }

    /// That of the items of FROM before another one, which it may mention.
    fn before(item: &LogicalPlan) -> Level {
        let why = "aggregate functions are not allowed in FROM clause of their own query level";
        Level {
            schema: item.schema().as_ref().clone(),
            refusal: Some(Refusal::Grouping(why)),
            calls: Vec::new(),
        }
    }
}

/// What the query of a node groups, if it does.
fn group_input(node: &LogicalPlan) -> Option<&LogicalPlan> {
    let mut below = match node {
        LogicalPlan::Sort(sort) => match sort.input.as_ref() {
            LogicalPlan::Projection(projection) => &projection.input,
            other => other,
        },
        LogicalPlan::Projection(projection) => projection.input.as_ref(),
        LogicalPlan::Filter(filter) => filter.input.as_ref(),
        LogicalPlan::Window(window) => window.input.as_ref(),
        _ => return None,
    };
    loop {
        below = match below {
            LogicalPlan::Aggregate(aggregate) => return Some(&aggregate.input),
            LogicalPlan::Filter(filter) => &filter.input,
            LogicalPlan::Window(window) => &window.input,
            _ => return None,
        };
    }
}

impl Moving {
    fn plan(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let is_having = match &plan {
            LogicalPlan::Filter(filter) => matches!(*filter.input, LogicalPlan::Aggregate(_)),
            _ => false,
        };
        let plan = match plan {
            LogicalPlan::Join(mut join) => {
                join.left = Arc::new(self.plan(Arc::unwrap_or_clone(join.left))?);
                self.levels.push(Level::before(&join.left));
                let right = self.plan(Arc::unwrap_or_clone(join.right));
                self.levels.pop();
                join.right = Arc::new(right?);
                LogicalPlan::Join(join)
            }
            LogicalPlan::Subquery(item) => return self.subquery(item).map(LogicalPlan::Subquery),
            LogicalPlan::Aggregate(_) => return self.node(plan, false),
            other => {
                other
                    .map_children(|input| {
                        Ok(Transformed::yes(match input {
                            LogicalPlan::Aggregate(_) => self.node(input, is_having)?,
                            input => self.plan(input)?,
                        }))
                    })?
                    .data
            }
        };
        self.node(plan, false)
    }

    /// A node whose inputs are done, unless it is an aggregate. `is_one`: whether an aggregate that is left without calls is one of a
    /// single group all the same.
    fn node(&mut self, node: LogicalPlan, is_one: bool) -> Result<LogicalPlan> {
        let node = match node {
            LogicalPlan::Aggregate(mut aggregate) => {
                aggregate.input = Arc::new(self.plan(Arc::unwrap_or_clone(aggregate.input))?);
                LogicalPlan::Aggregate(aggregate)
            }
            other => other,
        };
        self.levels.push(Level::of(&node));
        let done = self.with_subqueries(node);
        let level = self.levels.pop();
        let mut node = done?;
        if let Some(level) = level.filter(|level| !level.calls.is_empty()) {
            node = with_calls(node, &level)?;
        }
        match node {
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate, is_one),
            other => self.without_calls(other),
        }
    }

    /// The node whose subqueries are done.
    fn with_subqueries(&mut self, node: LogicalPlan) -> Result<LogicalPlan> {
        let names = NamePreserver::new(&node);
        let done = node.map_expressions(|expression| {
            let name = names.save(&expression);
            let done = expression.transform_up(|part| match as_subquery(&part) {
                Some(_) => Ok(Transformed::yes(self.subquery_of(part)?)),
                None => Ok(Transformed::no(part)),
            })?;
            Ok(done.update_data(|expression| name.restore(expression)))
        })?;
        Ok(done.data)
    }

    fn subquery_of(&mut self, expression: Expr) -> Result<Expr> {
        Ok(match expression {
            Expr::ScalarSubquery(subquery) => Expr::ScalarSubquery(self.subquery(subquery)?),
            Expr::Exists(Exists { subquery, negated }) => {
                Expr::Exists(Exists { subquery: self.subquery(subquery)?, negated })
            }
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                Expr::InSubquery(InSubquery { expr, subquery: self.subquery(subquery)?, negated })
            }
            Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }) => {
                let subquery = self.subquery(subquery)?;
                Expr::SetComparison(SetComparison { expr, subquery, op, quantifier })
            }
            other => other,
        })
    }

    /// The subquery, with the columns outside that it mentions now.
    fn subquery(&mut self, subquery: Subquery) -> Result<Subquery> {
        let plan = self.plan(subquery.subquery.as_ref().clone())?;
        let mut known: HashMap<Column, Expr> = HashMap::new();
        plan.apply_with_subqueries(|node| {
            node.apply_expressions(|expression| {
                expression.apply(|part| {
                    if let Expr::OuterReferenceColumn(_, column) = part {
                        known.insert(column.clone(), part.clone());
                    }
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        })?;
        let mentioned = outer_columns(&plan)?.into_iter().filter_map(|column| known.remove(&column));
        Ok(Subquery { outer_ref_columns: mentioned.collect(), ..subquery.with_plan(Arc::new(plan)) })
    }

    /// The aggregate with its own calls, and what stands for others under the names that they had.
    fn aggregate(&mut self, aggregate: Aggregate, is_one: bool) -> Result<LogicalPlan> {
        let groups = aggregate.schema.fields().len() - aggregate.aggr_expr.len();
        let (mut kept, mut taken) = (Vec::new(), BTreeMap::new());
        for (position, call) in aggregate.aggr_expr.iter().enumerate() {
            let field = aggregate.schema.field(groups + position);
            match self.taken(call, field, aggregate.input.schema())? {
                Some(outer) => drop(taken.insert(groups + position, outer)),
                None => kept.push(call.clone()),
            }
        }
        if taken.is_empty() {
            return Ok(LogicalPlan::Aggregate(aggregate));
        }
        if is_one && kept.is_empty() {
            kept.push(count_all());
        }
        let columns =
            aggregate.schema.iter().enumerate().map(|(position, field)| match taken.get(&position) {
                Some(outer) => outer.clone().alias_qualified(field.0.cloned(), field.1.name()),
                None => Expr::Column(Column::from(field)),
            });
        let columns: Vec<Expr> = columns.collect();
        let rows = match aggregate.group_expr.is_empty() && kept.is_empty() {
            true => aggregate.input,
            false => Arc::new(LogicalPlan::Aggregate(Aggregate::try_new(
                aggregate.input,
                aggregate.group_expr,
                kept,
            )?)),
        };
        Projection::try_new(columns, rows).map(LogicalPlan::Projection)
    }

    /// A node, whose expressions have only calls of queries around it.
    fn without_calls(&mut self, node: LogicalPlan) -> Result<LogicalPlan> {
        let near = merge_schema(&node.inputs());
        let names = NamePreserver::new(&node);
        let done = node.map_expressions(|expression| {
            let name = names.save(&expression);
            let done = expression.transform_down(|part| {
                let Expr::AggregateFunction(_) = &part else { return Ok(Transformed::no(part)) };
                let (_, field) = part.to_field(&near)?;
                Ok(match self.taken(&part, &field, &near)? {
                    Some(outer) => Transformed::yes(outer),
                    None => Transformed::no(part),
                })
            })?;
            Ok(done.update_data(|expression| name.restore(expression)))
        })?;
        Ok(done.data)
    }

    /// What stands for an aggregate over rows of `near`, if it belongs to a query around.
    fn taken(&mut self, call: &Expr, field: &FieldRef, near: &DFSchema) -> Result<Option<Expr>> {
        let call = call.clone().unalias();
        let (mut is_own, mut outer) = (!call.column_refs().is_empty(), Vec::new());
        call.apply(|part| {
            if let Expr::OuterReferenceColumn(_, column) = part {
                outer.push(column.clone());
            } else if let Some(subquery) = as_subquery(part) {
                visit_outer(&subquery.subquery, &mut |column| match near.has_column(column) {
                    true => is_own = true,
                    false => outer.push(column.clone()),
                })?;
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        if is_own {
            return Ok(None);
        }
        let owns = |level: &&mut Level| {
            outer.iter().any(|column| level.schema.has_column(column) || level.has_call(column))
        };
        let Some(level) = self.levels.iter_mut().rev().find(owns) else { return Ok(None) };
        if outer.iter().any(|column| level.has_call(column)) {
            return Err(grouping_error(NESTED.to_owned()));
        }
        match level.refusal {
            None => {}
            Some(Refusal::Grouping(why)) => return Err(grouping_error(why.to_owned())),
            Some(Refusal::Unsupported) => return Err(unsupported()),
        }
        let call = call.transform(|part| match part {
            Expr::OuterReferenceColumn(_, column) if level.schema.has_column(&column) => {
                Ok(Transformed::yes(Expr::Column(column)))
            }
            other => Ok(Transformed::no(other)),
        })?;
        let known = level.calls.iter().find(|(known, _)| *known == call.data);
        let name = match known {
            Some((_, name)) => name.clone(),
            None => {
                self.count += 1;
                let name = format!("{HIDDEN}outer aggregate {}", self.count);
                level.calls.push((call.data, name.clone()));
                name
            }
        };
        let field = Arc::new(field.as_ref().clone().with_name(name.clone()));
        Ok(Some(Expr::OuterReferenceColumn(field, Column::new_unqualified(name))))
    }
}

/// The node over an aggregate that has the calls, too.
fn with_calls(node: LogicalPlan, level: &Level) -> Result<LogicalPlan> {
    let calls: Vec<Expr> = level.calls.iter().map(|(call, name)| call.clone().alias(name.clone())).collect();
    let Some(input) = node.inputs().first().map(|input| (*input).clone()) else { return Err(unsupported()) };
    let input = match (&node, input) {
        (LogicalPlan::Sort(_), LogicalPlan::Projection(projection)) => {
            let below = projection.input.as_ref().clone();
            let rows = grouped(below, &calls)?.ok_or_else(unsupported)?;
            let hidden = level.calls.iter().map(|(_, name)| Expr::Column(Column::new_unqualified(name)));
            let columns = projection.expr.iter().cloned().chain(hidden).collect();
            LogicalPlan::Projection(Projection::try_new(columns, Arc::new(rows))?)
        }
        (_, input) => match grouped(input.clone(), &calls)? {
            Some(rows) => rows,
            None => {
                let rows = below_windows(&input).clone();
                check_grouped(&node, &rows)?;
                as_one_group(input, &rows, calls)?
            }
        },
    };
    let columns = node.schema().columns();
    let is_projection = matches!(node, LogicalPlan::Projection(_));
    let is_sort = matches!(node, LogicalPlan::Sort(_));
    let expressions = node.expressions();
    let node = node.with_new_exprs(expressions, vec![input])?;
    match is_sort && !is_projection {
        true => LogicalPlanBuilder::from(node).project(columns.into_iter().map(Expr::Column))?.build(),
        false => Ok(node),
    }
}

/// What is below a query's select list, with the calls in its aggregate if it has one.
fn grouped(plan: LogicalPlan, calls: &[Expr]) -> Result<Option<LogicalPlan>> {
    let input = match &plan {
        LogicalPlan::Aggregate(aggregate) => {
            let all = aggregate.aggr_expr.iter().chain(calls).cloned().collect();
            let aggregate = Aggregate::try_new(aggregate.input.clone(), aggregate.group_expr.clone(), all)?;
            return Ok(Some(LogicalPlan::Aggregate(aggregate)));
        }
        LogicalPlan::Filter(filter) => &filter.input,
        LogicalPlan::Window(window) => &window.input,
        _ => return Ok(None),
    };
    // The condition of WHERE is below no aggregate of its query.
    let Some(input) = grouped(input.as_ref().clone(), calls)? else { return Ok(None) };
    let expressions = plan.expressions();
    plan.with_new_exprs(expressions, vec![input]).map(Some)
}

/// What the windows of a query without groups are over.
fn below_windows(plan: &LogicalPlan) -> &LogicalPlan {
    match plan {
        LogicalPlan::Window(window) => below_windows(&window.input),
        rows => rows,
    }
}

/// The plan over a single group of `rows`, which are below its windows.
fn as_one_group(plan: LogicalPlan, rows: &LogicalPlan, calls: Vec<Expr>) -> Result<LogicalPlan> {
    let LogicalPlan::Window(window) = &plan else {
        return Aggregate::try_new(Arc::new(plan), Vec::new(), calls).map(LogicalPlan::Aggregate);
    };
    check_grouped(&plan, rows)?;
    let input = as_one_group(window.input.as_ref().clone(), rows, calls)?;
    let expressions = plan.expressions();
    plan.with_new_exprs(expressions, vec![input])
}

/// # Errors
/// 42803 for a subquery in an expression of the node that mentions a column which a query has in its rows, but not in its groups.
pub(super) fn check_subquery(node: &LogicalPlan, subquery: &LogicalPlan) -> Result<()> {
    let (Some(rows), inputs) = (group_input(node), node.inputs()) else { return Ok(()) };
    let is_hidden = |column: &Column| {
        rows.schema().has_column(column) && !inputs.iter().any(|input| input.schema().has_column(column))
    };
    match outer_columns(subquery)?.iter().find(|column| is_hidden(column)) {
        Some(column) => Err(ungrouped(column)),
        None => Ok(()),
    }
}

/// 42803 if a query that becomes one of a single group has columns of its rows beside.
fn check_grouped(node: &LogicalPlan, input: &LogicalPlan) -> Result<()> {
    node.apply_expressions(|expression| {
        if let Some(column) =
            expression.column_refs().into_iter().find(|column| input.schema().has_column(column))
        {
            let column = shown(column);
            return Err(grouping_error(format!(
                "column \"{column}\" must appear in the GROUP BY clause or be used in an aggregate function"
            )));
        }
        expression.apply(|part| {
            let Some(subquery) = as_subquery(part) else { return Ok(TreeNodeRecursion::Continue) };
            let outer = outer_columns(&subquery.subquery)?;
            match outer.iter().find(|column| input.schema().has_column(column)) {
                Some(column) => Err(ungrouped(column)),
                None => Ok(TreeNodeRecursion::Continue),
            }
        })
    })
    .map(drop)
}

fn shown(column: &Column) -> String {
    match &column.relation {
        Some(relation) => format!("{}.{}", relation.table(), visible(&column.name)),
        None => visible(&column.name).to_owned(),
    }
}

fn ungrouped(column: &Column) -> DataFusionError {
    grouping_error(format!("subquery uses ungrouped column \"{}\" from outer query", shown(column)))
}

fn grouping_error(message: String) -> DataFusionError {
    external(Error::new(SqlState::GroupingError, message))
}

fn unsupported() -> DataFusionError {
    external(not_supported("an aggregate of the query around a subquery here"))
}
