//! Numbers of sequences in sorted queries: they are drawn in the order of the rows, as in PostgreSQL.
//!
//! ```text
//! SELECT nextval('s'), x FROM t ORDER BY y
//!
//! Sort y                               Projection nextval('s'), x, y
//!   Projection nextval('s'), x, y        Sort y
//!     t                            -->     Projection x, y
//!                                            t
//! ```

use super::computed::{counts, sequence_call};
use super::error::external;
use crate::name::not_supported;
use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Projection, Sort};

/// The plan whose numbers are drawn behind the sorts.
///
/// # Errors
/// 0A000 for calls that could see each other: they would be computed for many rows at a time, one call after the other, and not row by row.
pub(super) fn behind_sorts(plan: LogicalPlan) -> Result<LogicalPlan> {
    check_apart(&plan)?;
    let rewritten = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Sort(sort) => sorted(sort),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(rewritten.data)
}

fn check_apart(plan: &LogicalPlan) -> Result<()> {
    let (mut known, mut calls, mut are_apart): (Vec<String>, usize, bool) = (Vec::new(), 0, true);
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            expression.apply(|part| {
                if let Some((name, draws)) = sequence_call(part) {
                    calls += 1;
                    // Without the schema, which may be left out.
                    let own = name.and_then(|name| name.rsplit('.').next()).map(str::to_lowercase);
                    are_apart &= draws && own.as_ref().is_some_and(|own| !known.contains(own));
                    known.extend(own);
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    match calls > 1 && !are_apart {
        true => Err(external(not_supported("several calls for numbers of one sequence in such a query"))),
        false => Ok(()),
    }
}

fn sorted(sort: Sort) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Projection(projection) = sort.input.as_ref() else {
        return Ok(Transformed::no(LogicalPlan::Sort(sort)));
    };
    let names = projection.schema.columns();
    let mut behind = Vec::with_capacity(names.len());
    for expression in &projection.expr {
        behind.push(counts(expression)? && expression.column_refs().is_empty());
    }
    let is_key = |column: &Column| sort.expr.iter().any(|key| key.expr.column_refs().contains(column));
    let is_behind = |position: &usize| behind[*position] && !is_key(&names[*position]);
    let all = 0..names.len();
    if !all.clone().any(|position| is_behind(&position)) {
        return Ok(Transformed::no(LogicalPlan::Sort(sort)));
    }
    let before = all.clone().filter(|position| !is_behind(position));
    let before: Vec<Expr> = before.map(|position| projection.expr[position].clone()).collect();
    let rows = Projection::try_new(before, projection.input.clone())?;
    let rows = LogicalPlanBuilder::from(LogicalPlan::Projection(rows))
        .sort_with_limit(sort.expr.clone(), sort.fetch)?;
    let columns = all.map(|position| match is_behind(&position) {
        true => projection.expr[position].clone(),
        false => Expr::Column(names[position].clone()),
    });
    Ok(Transformed::yes(rows.project(columns.collect::<Vec<_>>())?.build()?))
}
