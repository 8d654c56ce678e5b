//! `x op ANY (q)` and `x op ALL (q)` as values.
//!
//! What is greater than any of some values is greater than the least of them, so that the rows of the subquery are aggregated once
//! and not compared with each row of the query around:
//! ```text
//! x > ANY (q)     CASE WHEN x > (SELECT min(y) FROM q) THEN true
//!                      WHEN EXISTS (q) AND (x IS NULL OR EXISTS (q with y IS NULL)) THEN NULL
//!                      ELSE false END
//! x <> ANY (q)    the same, where x is not the least or not the greatest
//! x = ANY (q)     x IN (q)
//! x op ALL (q)    NOT (x, compared the other way, ANY (q))
//! ```
//! Types without a least value are compared row by row.

use super::existence::{apart, exists, is_in, outer_value};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Column, DFSchema};
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::expr::{AggregateFunction, SetComparison, SetQuantifier};
use datafusion::logical_expr::{
    AggregateUDF, Expr, LogicalPlanBuilder, Operator, Subquery, binary_expr, lit, when,
};
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

/// The aggregates that give the least and the greatest value.
pub(super) struct Extremes {
    pub min: Arc<AggregateUDF>,
    pub max: Arc<AggregateUDF>,
}

impl Extremes {
    /// Those that queries use.
    pub(super) fn of(state: &SessionState) -> Result<Extremes> {
        let known = |name: &str| {
            let missing = || datafusion::common::internal_datafusion_err!("there is no aggregate {name}");
            state.aggregate_functions().get(name).cloned().ok_or_else(missing)
        };
        Ok(Extremes { min: known("min")?, max: known("max")? })
    }
}

/// The comparison as a value, over columns of `schema`; unchanged if the operator is no comparison.
pub(super) fn as_value(comparison: SetComparison, schema: &DFSchema, extremes: &Extremes) -> Result<Expr> {
    let SetComparison { expr, subquery, op, quantifier } = comparison;
    let any = match quantifier {
        SetQuantifier::Any => op,
        SetQuantifier::All => match opposite(op) {
            Some(opposite) => opposite,
            None => return Ok(Expr::SetComparison(SetComparison { expr, subquery, op, quantifier })),
        },
    };
    if opposite(any).is_none() {
        return Ok(Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }));
    }
    let value = match any {
        Operator::Eq => is_in(*expr, &subquery, schema)?,
        _ => compares_with_any(*expr, any, &apart(&subquery)?, schema, extremes)?,
    };
    Ok(match quantifier {
        SetQuantifier::Any => value,
        SetQuantifier::All => Expr::Not(Box::new(value)),
    })
}

/// The comparison that holds where the other does not.
fn opposite(op: Operator) -> Option<Operator> {
    Some(match op {
        Operator::Eq => Operator::NotEq,
        Operator::NotEq => Operator::Eq,
        Operator::Lt => Operator::GtEq,
        Operator::LtEq => Operator::Gt,
        Operator::Gt => Operator::LtEq,
        Operator::GtEq => Operator::Lt,
        _ => return None,
    })
}

fn compares_with_any(
    value: Expr,
    op: Operator,
    subquery: &Subquery,
    schema: &DFSchema,
    extremes: &Extremes,
) -> Result<Expr> {
    let (relation, field) = subquery.subquery.schema().qualified_field(0);
    let column = Expr::Column(Column::from((relation, field)));
    let with = |extreme: &Arc<AggregateUDF>| {
        aggregated(subquery, extreme, &column).map(|extreme| binary_expr(value.clone(), op, extreme))
    };
    let is_ordered = !matches!(
        field.data_type(),
        DataType::Boolean | DataType::Binary | DataType::BinaryView | DataType::FixedSizeBinary(_)
    );
    let found = match op {
        _ if !is_ordered => {
            let (outer, named) = outer_value(value.clone(), schema)?;
            exists(subquery, Some((binary_expr(outer, op, column.clone()), named)))?
        }
        Operator::Lt | Operator::LtEq => with(&extremes.max)?,
        Operator::Gt | Operator::GtEq => with(&extremes.min)?,
        _ => with(&extremes.min)?.or(with(&extremes.max)?),
    };
    let is_null = value.is_null().or(exists(subquery, Some((column.is_null(), Vec::new())))?);
    let unknown = exists(subquery, None)?.and(is_null);
    when(found, lit(true)).when(unknown, lit(ScalarValue::Boolean(None))).otherwise(lit(false))
}

/// The least or greatest value of the subquery.
fn aggregated(subquery: &Subquery, extreme: &Arc<AggregateUDF>, column: &Expr) -> Result<Expr> {
    let call =
        AggregateFunction::new_udf(extreme.clone(), vec![column.clone()], false, None, Vec::new(), None);
    let rows = LogicalPlanBuilder::from(subquery.subquery.clone());
    let plan = rows.aggregate(Vec::<Expr>::new(), vec![Expr::AggregateFunction(call)])?.build()?;
    Ok(Expr::ScalarSubquery(subquery.with_plan(Arc::new(plan))))
}
