//! `FETCH FIRST n ROWS WITH TIES`: also the rows that are equal to the last one in what they are ordered by.
//!
//! ```text
//! SELECT a FROM t ORDER BY b OFFSET m FETCH FIRST n ROWS WITH TIES
//! SELECT a FROM (SELECT *, rank() OVER (ORDER BY b) AS r, row_number() OVER (ORDER BY b) AS i FROM t) WHERE r <= m + n AND i > m ORDER BY b
//! ```
//! The count goes through DataFusion's planner as the argument of a call, by which the limit is found.

use super::error::external;
use super::limited::sorted;
use super::names::HIDDEN;
use crate::rewrite::TIES;
use ankerdb_engine::{Error, SqlState};
use datafusion::common::Column;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::functions_window::expr_fn::{rank, row_number};
use datafusion::logical_expr::expr_fn::binary_expr;
use datafusion::logical_expr::{Expr, ExprFunctionExt, Limit, LogicalPlan, LogicalPlanBuilder, Operator};

/// The plan without such limits.
pub(super) fn numbered(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut next = 0;
    let rewritten = plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::Limit(limit) = &node else { return Ok(Transformed::no(node)) };
        match limit.fetch.as_deref().and_then(count) {
            Some(count) => {
                next += 1;
                over_ranks(limit, count, next).map(Transformed::yes)
            }
            None => Ok(Transformed::no(node)),
        }
    })?;
    Ok(rewritten.data)
}

/// The count of a limit with ties.
fn count(fetch: &Expr) -> Option<Expr> {
    match fetch {
        Expr::Cast(cast) => count(&cast.expr),
        Expr::ScalarFunction(call) if call.func.name() == TIES => call.args.first().cloned(),
        _ => None,
    }
}

fn over_ranks(limit: &Limit, count: Expr, number: usize) -> Result<LogicalPlan> {
    if matches!(&count, Expr::Literal(value, _) if value.is_null()) {
        let message = "row count cannot be null in FETCH FIRST ... WITH TIES clause";
        return Err(external(Error::new(SqlState::InvalidRowCountInLimitClause, message)));
    }
    let (columns, order, rows) = sorted(&limit.input);
    if order.is_empty() {
        let message = "WITH TIES of such a query is not supported";
        return Err(external(Error::new(SqlState::FeatureNotSupported, message)));
    }
    let name = |what: &str| format!("{HIDDEN}{what} {number}");
    let windows = [
        rank().order_by(order.clone()).build()?.alias(name("rank")),
        row_number().order_by(order.clone()).build()?.alias(name("number")),
    ];
    let column = |what: &str| Expr::Column(Column::new_unqualified(name(what)));
    let (mut last, mut wanted) = (count, None);
    if let Some(skip) = limit.skip.as_deref() {
        last = binary_expr(last, Operator::Plus, skip.clone());
        wanted = Some(binary_expr(column("number"), Operator::Gt, skip.clone()));
    }
    let near = binary_expr(column("rank"), Operator::LtEq, last);
    let wanted = wanted.map_or(near.clone(), |wanted| binary_expr(near, Operator::And, wanted));
    LogicalPlanBuilder::from(rows.clone())
        .window(windows)?
        .filter(wanted)?
        .sort(order)?
        .project(columns)?
        .build()
}
