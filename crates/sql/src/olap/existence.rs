//! EXISTS and IN (SELECT ...) as values.
//!
//! DataFusion runs them as conditions only, by joins. Anywhere else (`SELECT EXISTS (...)`, in a CASE of a select list)
//! they become scalar subqueries, which it can run:
//! ```text
//! EXISTS (q)    (SELECT count(*) > 0 FROM (q)) IS TRUE
//! x IN (q)      CASE WHEN EXISTS (q with y = x) THEN true
//!                    WHEN x IS NULL AND EXISTS (q) OR EXISTS (q with y IS NULL) THEN NULL
//!                    ELSE false END
//! ```
//! where y is the column of q. The second is IN's logic of three values: no match, but a NULL on either side, is unknown.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, Spans};
use datafusion::error::Result;
use datafusion::functions_aggregate::count::count_all;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Subquery, lit, when};
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

/// The plan with scalar subqueries in place of the others, but for conditions.
pub(super) fn as_values(plan: LogicalPlan) -> Result<LogicalPlan> {
    let rewritten = plan.transform_up_with_subqueries(|node| {
        if !matches!(node, LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Window(_)) {
            return Ok(Transformed::no(node));
        }
        let schema = merge_schema(&node.inputs());
        let names = NamePreserver::new(&node);
        node.map_expressions(|expression| {
            let name = names.save(&expression);
            let rewritten = expression.transform_up(|part| as_value(part, &schema))?;
            Ok(rewritten.update_data(|expression| name.restore(expression)))
        })
    })?;
    Ok(rewritten.data)
}

fn as_value(part: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    Ok(match part {
        Expr::Exists(Exists { subquery, negated }) => {
            let exists = exists(&subquery, None)?;
            Transformed::yes(if negated { Expr::Not(Box::new(exists)) } else { exists })
        }
        Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
            let is_in = is_in(*expr, &subquery, schema)?;
            Transformed::yes(if negated { Expr::Not(Box::new(is_in)) } else { is_in })
        }
        other => Transformed::no(other),
    })
}

/// Whether the subquery has rows, of those that satisfy the condition if there is one. The condition comes with the
/// columns of the outer query that it names.
fn exists(subquery: &Subquery, condition: Option<(Expr, Vec<Expr>)>) -> Result<Expr> {
    let mut outer = subquery.outer_ref_columns.clone();
    let mut rows = LogicalPlanBuilder::from(subquery.subquery.clone());
    if let Some((condition, named)) = condition {
        outer.extend(named);
        rows = rows.filter(condition)?;
    }
    if outer.is_empty() {
        // One row is as good as many. (What depends on the outer query becomes a join, which counts per group.)
        rows = rows.limit(0, Some(1))?;
    }
    let counted = rows.aggregate(Vec::<Expr>::new(), vec![count_all()])?.build()?;
    let count = Expr::Column(Column::from(counted.schema().qualified_field(0)));
    let some = LogicalPlanBuilder::from(counted).project(vec![count.gt(lit(0i64))])?.build()?;
    let value = Subquery { subquery: Arc::new(some), outer_ref_columns: outer, spans: Spans::new() };
    Ok(Expr::ScalarSubquery(value).is_true())
}

fn is_in(value: Expr, subquery: &Subquery, schema: &DFSchema) -> Result<Expr> {
    let column = Expr::Column(Column::from(subquery.subquery.schema().qualified_field(0)));
    let mut named = Vec::new();
    let outer_value = value.clone().transform_up(|part| match part {
        Expr::Column(column) => {
            let field = Arc::clone(schema.qualified_field_from_column(&column)?.1);
            let outer = Expr::OuterReferenceColumn(field, column);
            named.push(outer.clone());
            Ok(Transformed::yes(outer))
        }
        other => Ok(Transformed::no(other)),
    })?;
    let matches = exists(subquery, Some((column.clone().eq(outer_value.data), named)))?;
    let unknown = (value.is_null().and(exists(subquery, None)?))
        .or(exists(subquery, Some((column.is_null(), Vec::new())))?);
    when(matches, lit(true)).when(unknown, lit(ScalarValue::Boolean(None))).otherwise(lit(false))
}
