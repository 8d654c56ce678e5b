//! The order in which aggregates meet the rows of a query in FROM that has one.
//!
//! `SELECT array_agg(x) FROM (SELECT x FROM t ORDER BY y) AS q` lists the rows in that order in PostgreSQL, which reads the query's
//! rows as it gives them. DataFusion's rules take a sort away that no operator above asks for, and split the rows among threads. So
//! the aggregates whose results depend on it ask for it:
//! ```text
//! array_agg(q.x)                       array_agg(q.x ORDER BY q.k)
//!   SubqueryAlias: q                     SubqueryAlias: q
//!     Projection: t.x            ►         Projection: t.x, t.y AS k
//!       Sort: t.y                            Sort: t.y
//! ```
//! From there on they are like all with an order (`sorted_within.rs`). A join, a set or another aggregate between the two has an order
//! of its own, and none is promised.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::expr::Sort as SortKey;
use datafusion::logical_expr::{Aggregate, Expr, Filter, Limit, LogicalPlan, Projection, SubqueryAlias};
use std::sync::Arc;

/// Aggregates that show in which order they have met their rows; documents are made of `string_agg`.
const ORDERED: [&str; 2] = ["array_agg", "string_agg"];
/// The name of a column that is added for a key, with its number behind it; no client can write it.
const KEY: &str = "\0key of order ";

/// The plan whose aggregates ask for the orders of the queries that they read; before its types are settled, and with them keys of orders, and
/// before subqueries become joins.
pub(super) fn carried(plan: LogicalPlan) -> Result<LogicalPlan> {
    let carried = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Aggregate(aggregate) if aggregate.aggr_expr.iter().any(shows_order) => {
            Ok(match with_order(&aggregate)? {
                Some(ordered) => Transformed::yes(LogicalPlan::Aggregate(ordered)),
                None => Transformed::no(LogicalPlan::Aggregate(aggregate)),
            })
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(carried.data)
}

/// Whether the aggregate's result depends on an order that it does not ask for. Rows that are equal in one that it asks for come in any.
fn shows_order(aggregate: &Expr) -> bool {
    match aggregate {
        Expr::Alias(alias) => shows_order(&alias.expr),
        Expr::AggregateFunction(call) => {
            ORDERED.contains(&call.func.name()) && call.params.order_by.is_empty() && !call.params.distinct
        }
        _ => false,
    }
}

fn with_order(aggregate: &Aggregate) -> Result<Option<Aggregate>> {
    let Some(Ordered { plan, keys }) = ordered(&aggregate.input)? else { return Ok(None) };
    let asking = |expression: &Expr| {
        if !shows_order(expression) {
            return Ok(expression.clone());
        }
        // Operators above know the column by the name of the call without an order.
        let name = expression.schema_name().to_string();
        let asking = expression.clone().transform_up(|part| match part {
            Expr::AggregateFunction(mut call) => {
                call.params.order_by.clone_from(&keys);
                Ok(Transformed::yes(Expr::AggregateFunction(call)))
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok(match asking.data {
            alias @ Expr::Alias(_) => alias,
            call => call.alias(name),
        })
    };
    let asking = aggregate.aggr_expr.iter().map(asking).collect::<Result<Vec<_>>>()?;
    Aggregate::try_new(Arc::new(plan), aggregate.group_expr.clone(), asking).map(Some)
}

/// A plan whose rows have an order.
struct Ordered {
    plan: LogicalPlan,
    /// Over the plan's columns.
    keys: Vec<SortKey>,
}

/// The plan, with columns for the keys of its order where they would not be seen; `None` if it has none.
fn ordered(plan: &LogicalPlan) -> Result<Option<Ordered>> {
    match plan {
        LogicalPlan::Sort(sort) => Ok(Some(Ordered { plan: plan.clone(), keys: sort.expr.clone() })),
        LogicalPlan::Filter(filter) => over(&filter.input, |input, keys| {
            let filter = Filter::try_new(filter.predicate.clone(), Arc::new(input))?;
            Ok(Ordered { plan: LogicalPlan::Filter(filter), keys })
        }),
        LogicalPlan::Limit(limit) => over(&limit.input, |input, keys| {
            let limit = Limit { input: Arc::new(input), ..limit.clone() };
            Ok(Ordered { plan: LogicalPlan::Limit(limit), keys })
        }),
        LogicalPlan::Projection(projection) => {
            over(&projection.input, |input, keys| shown(projection, input, keys))
        }
        LogicalPlan::SubqueryAlias(alias) => over(&alias.input, |input, keys| renamed(alias, input, keys)),
        _ => Ok(None),
    }
}

fn over(
    input: &LogicalPlan,
    above: impl FnOnce(LogicalPlan, Vec<SortKey>) -> Result<Ordered>,
) -> Result<Option<Ordered>> {
    ordered(input)?.map(|Ordered { plan, keys }| above(plan, keys)).transpose()
}

/// The projection with a column for each key.
fn shown(projection: &Projection, input: LogicalPlan, keys: Vec<SortKey>) -> Result<Ordered> {
    let mut expressions = projection.expr.clone();
    let mut places = Vec::with_capacity(keys.len());
    for key in &keys {
        let is_it = |shown: &Expr| shown.clone().unalias() == key.expr;
        places.push(expressions.iter().position(is_it).unwrap_or(expressions.len()));
        if places.last() == Some(&expressions.len()) {
            expressions.push(key.expr.clone().alias(format!("{KEY}{}", expressions.len())));
        }
    }
    let plan = LogicalPlan::Projection(Projection::try_new(expressions, Arc::new(input))?);
    let columns = plan.schema().columns();
    let keys = keys.into_iter().zip(places);
    let keys =
        keys.map(|(key, place)| SortKey { expr: Expr::Column(columns[place].clone()), ..key }).collect();
    Ok(Ordered { plan, keys })
}

/// The keys by the names of the columns outside of the alias.
fn renamed(alias: &SubqueryAlias, input: LogicalPlan, keys: Vec<SortKey>) -> Result<Ordered> {
    let inner = input.schema().columns();
    let plan = LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(Arc::new(input), alias.alias.clone())?);
    let outer = plan.schema().columns();
    let named = |key: SortKey| {
        let named = key.expr.transform_up(|part| match part {
            Expr::Column(column) => Ok(Transformed::yes(Expr::Column(outside(&column, &inner, &outer)))),
            other => Ok(Transformed::no(other)),
        })?;
        Ok(SortKey { expr: named.data, ..key })
    };
    let keys = keys.into_iter().map(named).collect::<Result<Vec<_>>>()?;
    Ok(Ordered { plan, keys })
}

/// The column outside that stands where this one stands inside.
fn outside(column: &Column, inner: &[Column], outer: &[Column]) -> Column {
    let place = inner.iter().position(|known| known == column);
    place.map_or_else(|| column.clone(), |place| outer[place].clone())
}
