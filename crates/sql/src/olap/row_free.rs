//! Subqueries without FROM: `(SELECT o.a + 1)` is `o.a + 1`.
//!
//! As a query it would be joined with the one around it.

use super::correlation::as_subquery;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};

/// The value of a subquery that computes one from columns of `around`, if it reads no rows.
pub(super) fn without_query(subquery: &Subquery, around: &DFSchema) -> Result<Option<Expr>> {
    let Some(value) = only_value(&subquery.subquery)? else { return Ok(None) };
    let (mut is_simple, mut mentions) = (!value.is_volatile(), false);
    value.apply(|part| {
        match part {
            Expr::OuterReferenceColumn(_, column) => {
                mentions |= around.has_column(column);
            }
            Expr::AggregateFunction(_) | Expr::WindowFunction(_) => is_simple = false,
            part => is_simple &= as_subquery(part).is_none(),
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if !is_simple || !mentions {
        return Ok(None);
    }
    let value = value.transform(|part| match part {
        Expr::OuterReferenceColumn(_, column) if around.has_column(&column) => {
            Ok(Transformed::yes(Expr::Column(column)))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(Some(value.data))
}

/// The only value of a plan that reads no rows.
fn only_value(plan: &LogicalPlan) -> Result<Option<Expr>> {
    Ok(match values(plan)? {
        Some(values) => match <[Expr; 1]>::try_from(values) {
            Ok([value]) => Some(value),
            Err(_) => None,
        },
        None => None,
    })
}

/// What projections compute, one above the other, if there are no rows below them.
fn values(plan: &LogicalPlan) -> Result<Option<Vec<Expr>>> {
    let LogicalPlan::Projection(projection) = plan else { return Ok(None) };
    let input = projection.input.as_ref();
    if let LogicalPlan::EmptyRelation(empty) = input {
        let own = projection.expr.iter().cloned().map(Expr::unalias);
        return Ok(empty.produce_one_row.then(|| own.collect()));
    }
    let Some(below) = values(input)? else { return Ok(None) };
    let replaced = projection.expr.iter().cloned().map(|value| {
        let replaced = value.unalias().transform(|part| match &part {
            Expr::Column(column) => match input.schema().maybe_index_of_column(column) {
                Some(position) => Ok(Transformed::yes(below[position].clone())),
                None => Ok(Transformed::no(part)),
            },
            _ => Ok(Transformed::no(part)),
        })?;
        Ok(replaced.data)
    });
    replaced.collect::<Result<Vec<_>>>().map(Some)
}
