//! Outer joins whose condition has subqueries that mention both sides.
//!
//! A subquery over one side is a column more of that side ([`dependent`](super::dependent)); one over both is of pairs of rows, and an
//! outer join has no place for columns of pairs. So the pairs that satisfy the condition are found first, by an inner join, which may have
//! its conditions above it: not of rows, but of the distinct values of those columns that the condition mentions. Each row then finds its
//! values among them, and through them the rows of the other side:
//! ```text
//! SELECT * FROM l LEFT JOIN r ON l.a = r.a AND EXISTS (SELECT FROM s WHERE s.b = l.b AND s.c = r.c)
//!
//! m = SELECT DISTINCT l.a, l.b, r.a, r.c, true AS found FROM l JOIN r ON l.a = r.a WHERE EXISTS (...)
//! SELECT * FROM (l LEFT JOIN m ON l.a = m.a1 AND l.b = m.b1) LEFT JOIN r ON r.a = m.a2 AND r.c = m.c2 AND m.found
//! ```
//! with NULLs equal in these joins. Every row of m has come from rows of both sides, and m has each combination once: a pair of rows is
//! found as often as there is one. A right join begins with an inner one, a full join ends with a full one; what has no row in m has no
//! `found` and meets nothing.
//!
//! The sides are computed twice, so those that give something else each time are left. The distinct values of m are at most the pairs that
//! the conditions without subqueries leave, and lie in the memory of the query's pool.

use super::correlation::{as_subquery, has_subquery, outer_columns};
use super::dependent::{is_volatile, unnested};
use super::names::HIDDEN;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Filter, Join, LogicalPlan, LogicalPlanBuilder, lit};
use std::sync::Arc;

/// The join over pairs of values; `None` if it cannot be computed twice.
pub(super) fn joined(join: &Join, next: &mut usize) -> Result<Option<LogicalPlan>> {
    if is_volatile(&LogicalPlan::Join(join.clone()))? {
        return Ok(None);
    }
    *next += 1;
    let number = *next;
    let named = |side: &str, position: usize| format!("{HIDDEN}pair {number} {side} {position}");
    let found = format!("{HIDDEN}pair {number} found");
    let mentioned = mentioned(join)?;
    let of = |side: &LogicalPlan| -> Vec<Column> {
        mentioned.iter().filter(|column| side.schema().has_column(column)).cloned().collect()
    };
    let (left, right) = (of(&join.left), of(&join.right));
    let mut values = Vec::new();
    for (side, columns) in [("left", &left), ("right", &right)] {
        let columns = columns.iter().cloned().enumerate();
        values.extend(columns.map(|(at, column)| Expr::Column(column).alias(named(side, at))));
    }
    values.push(lit(true).alias(found.clone()));
    let pairs = LogicalPlanBuilder::from(matching(join, next)?).project(values)?.distinct()?.build()?;
    let keys = |side: &str, columns: &[Column]| -> Vec<Column> {
        (0..columns.len()).map(|at| Column::new_unqualified(named(side, at))).collect()
    };
    let first = if join.join_type == JoinType::Right { JoinType::Inner } else { JoinType::Left };
    let on = (left.clone(), keys("left", &left));
    let found = Expr::Column(Column::new_unqualified(found));
    let columns = join.schema.iter().map(|field| Expr::Column(Column::from(field)));
    let plan = LogicalPlanBuilder::from(join.left.as_ref().clone())
        .join_detailed(pairs, first, on, Some(lit(true)), NullEquality::NullEqualsNull)?
        .join_detailed(
            join.right.as_ref().clone(),
            join.join_type,
            (keys("right", &right), right),
            Some(found),
            NullEquality::NullEqualsNull,
        )?
        .project(columns)?
        .build()?;
    Ok(Some(plan))
}

/// The pairs of rows that satisfy the condition.
fn matching(join: &Join, next: &mut usize) -> Result<LogicalPlan> {
    let (mut above, mut within) = (Vec::new(), Vec::new());
    for term in join.filter.clone().map(split_conjunction_owned).unwrap_or_default() {
        if has_subquery(&term)? { above.push(term) } else { within.push(term) }
    }
    let mut on = Vec::new();
    for (left, right) in &join.on {
        match has_subquery(left)? || has_subquery(right)? {
            true => above.push(left.clone().eq(right.clone())),
            false => on.push((left.clone(), right.clone())),
        }
    }
    let (left, right) = (join.left.clone(), join.right.clone());
    let (constraint, nulls) = (join.join_constraint, join.null_equality);
    let pairs =
        Join::try_new(left, right, on, conjunction(within), JoinType::Inner, constraint, nulls, false)?;
    let condition = conjunction(above).unwrap_or_else(|| lit(true));
    let filter = Filter::try_new(condition, Arc::new(LogicalPlan::Join(pairs)))?;
    Ok(unnested(LogicalPlan::Filter(filter), next)?.data)
}

/// The columns of both sides that the condition mentions, also in subqueries.
fn mentioned(join: &Join) -> Result<Vec<Column>> {
    let mut columns: Vec<Column> = Vec::new();
    let conditions = join.on.iter().flat_map(|(left, right)| [left, right]).chain(&join.filter);
    for condition in conditions {
        condition.apply(|part| {
            match part {
                Expr::Column(column) => columns.push(column.clone()),
                other => {
                    if let Some(subquery) = as_subquery(other) {
                        columns.extend(outer_columns(&subquery.subquery)?);
                    }
                }
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    columns.retain(|column| join.schema.has_column(column));
    columns.sort_unstable();
    columns.dedup();
    Ok(columns)
}
