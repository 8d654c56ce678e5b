//! Calls in FROM that mention the tables before them, made for the rows of these.

use super::super::correlation::{has_subquery, outer_columns};
use super::SetRows;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, ScalarValue, TableReference};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, Join, LogicalPlan, LogicalPlanBuilder, Projection};

/// The join as rows of calls over its left side, if its right side is nothing but calls.
pub(crate) fn applied(join: &Join) -> Result<Option<LogicalPlan>> {
    let is_true = |filter: &Expr| matches!(filter, Expr::Literal(ScalarValue::Boolean(Some(true)), _));
    let keeps_all = match join.join_type {
        JoinType::Inner => false,
        // Conditions decide what stays, so there are none.
        JoinType::Left if join.on.is_empty() && join.filter.as_ref().is_none_or(is_true) => true,
        _ => return Ok(None),
    };
    let Some((table, projection, calls)) = only_calls(&join.right, None) else { return Ok(None) };
    let left = join.left.schema();
    if !outer_columns(&join.right)?.iter().all(|column| left.has_column(column)) {
        return Ok(None);
    }
    for expression in calls.calls.iter().flat_map(|call| &call.arguments).chain(&projection.expr) {
        if has_subquery(expression)? || has_column_of_no_call(expression, calls)? {
            return Ok(None);
        }
    }
    // What is computed beside the calls would be no NULL where these give no row.
    if keeps_all && !projection.expr.iter().all(is_column) {
        return Ok(None);
    }
    let made = calls.calls.iter().map(|call| {
        let arguments =
            call.arguments.iter().map(|argument| near(argument.clone())).collect::<Result<_>>()?;
        Ok(super::SetCall { arguments, ..call.clone() })
    });
    let rows = SetRows::new(join.left.as_ref().clone(), made.collect::<Result<_>>()?, keeps_all)?;
    let mut columns: Vec<Expr> = left.iter().map(|field| Expr::Column(Column::from(field))).collect();
    for (expression, field) in projection.expr.iter().zip(projection.schema.fields()) {
        columns.push(near(expression.clone().unalias())?.alias_qualified(table.clone(), field.name()));
    }
    let mut plan = LogicalPlanBuilder::from(rows.into_plan()).project(columns)?;
    let equal = join.on.iter().map(|(left, right)| left.clone().eq(right.clone()));
    for condition in equal.chain(join.filter.clone()).filter(|filter| !is_true(filter)) {
        plan = plan.filter(condition)?;
    }
    Ok(Some(plan.build()?))
}

/// The calls for no row of a table, what is made of them, and the name of that.
fn only_calls(
    plan: &LogicalPlan,
    table: Option<TableReference>,
) -> Option<(Option<TableReference>, &Projection, &SetRows)> {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => {
            only_calls(&alias.input, table.or_else(|| Some(alias.alias.clone())))
        }
        LogicalPlan::Subquery(item) => only_calls(&item.subquery, table),
        LogicalPlan::Projection(projection) => {
            let calls = SetRows::of(&projection.input)?;
            let is_alone = matches!(&calls.input, LogicalPlan::EmptyRelation(empty) if empty.produce_one_row);
            (is_alone && !calls.keeps_all).then_some((table, projection, calls))
        }
        _ => None,
    }
}

fn is_column(expression: &Expr) -> bool {
    matches!(expression.clone().unalias(), Expr::Column(_))
}

/// Whether the expression reads a column that is not the result of one of the calls.
fn has_column_of_no_call(expression: &Expr, calls: &SetRows) -> Result<bool> {
    expression.exists(|part| {
        let Expr::Column(column) = part else { return Ok(false) };
        Ok(!calls.calls.iter().any(|call| *call.field.name() == column.name))
    })
}

/// The expression with columns of the rows in place of outer ones.
fn near(expression: Expr) -> Result<Expr> {
    let replaced = expression.transform(|part| {
        Ok(match part {
            Expr::OuterReferenceColumn(_, column) => Transformed::yes(Expr::Column(column)),
            other => Transformed::new(other, false, TreeNodeRecursion::Continue),
        })
    })?;
    Ok(replaced.data)
}
