//! Calls that give rows in queries with an order.
//!
//! ```text
//! SELECT f(a) FROM t ORDER BY b            SELECT f(a) FROM (SELECT * FROM t ORDER BY b)
//! SELECT a FROM t ORDER BY a, f(a)         SELECT a FROM (SELECT a, f(a) AS f FROM t) ORDER BY a, f
//! SELECT DISTINCT ON (a) f(b) FROM t ORDER BY a
//!                                          SELECT f(b) FROM (SELECT DISTINCT ON (a) * FROM t ORDER BY a)
//! ```
//! Rows that are ordered by no call are made behind the sort, so that those of one row stay as they come, and behind DISTINCT ON.

use super::super::names::HIDDEN;
use super::SetRows;
use super::calls::has_call;
use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::{
    Distinct, DistinctOn, Expr, LogicalPlan, LogicalPlanBuilder, Projection, Sort, SortExpr,
};
use std::sync::Arc;

/// The plan whose sorts are by columns where calls were written, and whose DISTINCT ON has no calls that it is not ordered by.
pub(super) fn in_lists(plan: LogicalPlan) -> Result<LogicalPlan> {
    let rewritten = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Sort(sort) => listed(sort),
        LogicalPlan::Distinct(Distinct::On(distinct)) => behind_first(distinct),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(rewritten.data)
}

/// A sort by calls over a list that has these, too.
fn listed(sort: Sort) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Projection(list) = sort.input.as_ref() else {
        return Ok(Transformed::no(LogicalPlan::Sort(sort)));
    };
    let (mut columns, mut keys) = (list.expr.clone(), Vec::with_capacity(sort.expr.len()));
    for (place, key) in sort.expr.iter().enumerate() {
        if !has_call(&key.expr)? {
            keys.push(key.clone());
            continue;
        }
        let name = format!("{HIDDEN}order {place}");
        columns.push(of_input(&key.expr, list)?.alias(&name));
        keys.push(SortExpr { expr: Expr::Column(Column::new_unqualified(name)), ..key.clone() });
    }
    if columns.len() == list.expr.len() {
        return Ok(Transformed::no(LogicalPlan::Sort(sort)));
    }
    let shown = list.schema.columns().into_iter().map(Expr::Column).collect::<Vec<_>>();
    let rows = LogicalPlan::Projection(Projection::try_new(columns, list.input.clone())?);
    let sorted = LogicalPlanBuilder::from(rows).sort_with_limit(keys, sort.fetch)?.project(shown)?;
    Ok(Transformed::yes(sorted.build()?))
}

/// The expression over a list as one over what the list is made from.
fn of_input(expression: &Expr, list: &Projection) -> Result<Expr> {
    let replaced = expression.clone().transform_up(|part| {
        let Expr::Column(column) = &part else { return Ok(Transformed::no(part)) };
        let place = list.schema.index_of_column(column)?;
        Ok(Transformed::yes(list.expr[place].clone().unalias()))
    })?;
    Ok(replaced.data)
}

/// DISTINCT ON whose order has no calls, below its list.
fn behind_first(distinct: DistinctOn) -> Result<Transformed<LogicalPlan>> {
    let node = |distinct| LogicalPlan::Distinct(Distinct::On(distinct));
    let Some(order) = distinct.sort_expr.as_ref().filter(|order| !order.is_empty()) else {
        return Ok(Transformed::no(node(distinct)));
    };
    let keys = distinct.on_expr.iter().chain(order.iter().map(|key| &key.expr));
    for key in keys {
        if has_call(key)? {
            return Ok(Transformed::no(node(distinct)));
        }
    }
    let mut has_calls = false;
    for column in &distinct.select_expr {
        has_calls |= has_call(column)?;
    }
    let schema = distinct.input.schema().clone();
    if !has_calls || schema.fields().is_empty() {
        return Ok(Transformed::no(node(distinct)));
    }
    let all = schema.columns().into_iter().map(Expr::Column).collect();
    let first = DistinctOn::try_new(distinct.on_expr, all, distinct.sort_expr, distinct.input)?;
    let list = Projection::try_new(distinct.select_expr, Arc::new(node(first)))?;
    Ok(Transformed::yes(LogicalPlan::Projection(list)))
}

/// A sort that no call has to do with, below the rows of the calls; `None` for others.
pub(super) fn behind_sort(sort: &Sort) -> Result<Option<LogicalPlan>> {
    let LogicalPlan::Projection(list) = sort.input.as_ref() else { return Ok(None) };
    let Some(rows) = SetRows::of(&list.input).filter(|_| sort.fetch.is_none()) else { return Ok(None) };
    let mut keys = Vec::with_capacity(sort.expr.len());
    for key in &sort.expr {
        let expr = of_input(&key.expr, list)?;
        if expr.is_volatile() || expr.column_refs().into_iter().any(|column| is_given(rows, column)) {
            return Ok(None);
        }
        keys.push(SortExpr { expr, ..key.clone() });
    }
    let list = Projection::try_new(list.expr.clone(), Arc::new(over_sorted(rows, keys)?))?;
    Ok(Some(LogicalPlan::Projection(list)))
}

/// Whether the column is what a call gives.
fn is_given(rows: &SetRows, column: &Column) -> bool {
    rows.calls.iter().any(|call| *call.field.name() == column.name)
        || SetRows::of(&rows.input).is_some_and(|inner| is_given(inner, column))
}

/// The rows of calls over sorted rows.
fn over_sorted(rows: &SetRows, keys: Vec<SortExpr>) -> Result<LogicalPlan> {
    let input = match SetRows::of(&rows.input) {
        Some(inner) => over_sorted(inner, keys)?,
        None => LogicalPlanBuilder::from(rows.input.clone()).sort(keys)?.build()?,
    };
    Ok(SetRows::new(input, rows.calls.clone(), rows.keeps_all)?.into_plan())
}
