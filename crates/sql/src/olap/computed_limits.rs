//! LIMIT and OFFSET that are computed when a query runs: by a subquery, `nextval`, an expression of the query around.
//!
//! ```text
//! SELECT a FROM t ORDER BY b LIMIT (SELECT max(x) FROM i)
//!
//! SELECT a FROM (SELECT *, row_number() OVER (ORDER BY b) AS number FROM t),
//!               (SELECT limit((SELECT max(x) FROM i)) AS count) WHERE number <= count ORDER BY b
//! ```
//! The count is a row of its own, so that it is computed once. All rows are sorted and numbered, where a constant would have kept the first
//! ones only. `limit` refuses negative counts, and makes a NULL what counts for all rows.

use super::correlation::has_subquery;
use super::error::external;
use super::limited::sorted;
use super::names::HIDDEN;
use ankerdb_engine::{Error, SqlState};
use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, ScalarValue};
use datafusion::error::{DataFusionError, Result};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprFunctionExt, Limit, LogicalPlan, LogicalPlanBuilder, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility, cast, lit,
};
use std::sync::Arc;

/// The plan without such limits.
pub(super) fn numbered(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut next = 0;
    let rewritten = plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::Limit(limit) = &node else { return Ok(Transformed::no(node)) };
        for count in [&limit.skip, &limit.fetch].into_iter().flatten() {
            if is_computed(count)? {
                next += 1;
                return over_numbers(limit, next).map(Transformed::yes);
            }
        }
        Ok(Transformed::no(node))
    })?;
    Ok(rewritten.data)
}

fn is_computed(count: &Expr) -> Result<bool> {
    Ok(has_subquery(count)? || count.is_volatile() || count.contains_outer())
}

fn over_numbers(limit: &Limit, next: usize) -> Result<LogicalPlan> {
    let name = |what: &str| format!("{HIDDEN}{what} {next}");
    let column = |what: &str| Expr::Column(Column::new_unqualified(name(what)));
    let count = |count: &Option<Box<Expr>>, clause: Clause| match count {
        Some(count) => checked(clause, count.as_ref().clone()),
        None => lit(clause.default()),
    };
    let counts = [
        count(&limit.skip, Clause::Offset).alias(name("skip")),
        count(&limit.fetch, Clause::Limit).alias(name("fetch")),
    ];
    let counts = LogicalPlanBuilder::empty(true).project(counts)?.build()?;
    let (columns, order, rows) = sorted(&limit.input);
    let behind = column("number").gt(column("skip"));
    let within = (column("number") - column("skip")).lt_eq(column("fetch"));
    let number = match order.is_empty() {
        true => row_number(),
        false => row_number().order_by(order).build()?,
    };
    let all = rows.schema().iter().map(|field| Expr::Column(Column::from(field)));
    let signed = cast(column("place"), DataType::Int64).alias(name("number"));
    LogicalPlanBuilder::from(rows.clone())
        .window([number.alias(name("place"))])?
        .project(all.chain([signed]).collect::<Vec<_>>())?
        .cross_join(counts)?
        .filter(behind.and(within))?
        .sort([column("number").sort(true, false)])?
        .project(columns)?
        .build()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Clause {
    Limit,
    Offset,
}

impl Clause {
    /// What NULL counts for.
    fn default(self) -> i64 {
        match self {
            Clause::Limit => i64::MAX,
            Clause::Offset => 0,
        }
    }

    fn refusal(self) -> DataFusionError {
        let (state, name) = match self {
            Clause::Limit => (SqlState::InvalidRowCountInLimitClause, "LIMIT"),
            Clause::Offset => (SqlState::InvalidRowCountInResultOffsetClause, "OFFSET"),
        };
        external(Error::new(state, format!("{name} must not be negative")))
    }
}

fn checked(clause: Clause, count: Expr) -> Expr {
    // A count is computed for one row; nothing may be made of it before.
    let signature = Signature::exact(vec![DataType::Int64], Volatility::Stable);
    ScalarUDF::new_from_impl(Count { clause, signature }).call(vec![count])
}

/// A number of rows.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Count {
    clause: Clause,
    signature: Signature,
}

impl ScalarUDFImpl for Count {
    fn name(&self) -> &str {
        match self.clause {
            Clause::Limit => "limit",
            Clause::Offset => "offset",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let count = |count: Option<i64>| match count {
            None => Ok(self.clause.default()),
            Some(count @ 0..) => Ok(count),
            Some(_) => Err(self.clause.refusal()),
        };
        Ok(match &args.args[0] {
            ColumnarValue::Scalar(ScalarValue::Int64(value)) => {
                ColumnarValue::Scalar(ScalarValue::Int64(Some(count(*value)?)))
            }
            other => {
                let counts = other.to_array(args.number_rows)?;
                let counts = counts.as_primitive::<Int64Type>().iter().map(count);
                ColumnarValue::Array(Arc::new(counts.collect::<Result<Int64Array>>()?) as ArrayRef)
            }
        })
    }
}
