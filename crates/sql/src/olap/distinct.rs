//! DISTINCT in aggregates, where DataFusion loses the types.
//!
//! It groups by the argument first where all aggregates with DISTINCT have the same one, and computes the others, such as sums,
//! of parts. A sum of integers is a bigint, but a sum of bigints is a numeric: such sums stay whole, and those of reals.

use super::exact_lists::ExactLists;
use super::kept_above;
use super::native_like::NativeLikes;
use super::null_keys;
use super::opaque_equal::OpaqueEqualities;
use super::zoned_twins::ZonedTwins;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{Optimizer, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// DataFusion's rules, of which one leaves sums of integers alone and another what is sorted by, with those of [`null_keys`] around them and
/// [`OpaqueEqualities`] and [`NativeLikes`] behind them; [`ZonedTwins`] and [`ExactLists`] are the first.
pub(super) fn rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let ours = |rule: Arc<dyn OptimizerRule + Send + Sync>| match rule.name() {
        "single_distinct_aggregation_to_group_by" => {
            Arc::new(Unless { is_kept: sums_integers, stock: rule }) as _
        }
        "eliminate_duplicated_expr" => Arc::new(Unless { is_kept: sorts, stock: rule }) as _,
        _ => rule,
    };
    let mut rules =
        kept_above::around(null_keys::around(Optimizer::new().rules.into_iter().map(ours).collect()));
    rules.splice(0..0, [Arc::new(ZonedTwins) as Arc<dyn OptimizerRule + Send + Sync>, Arc::new(ExactLists)]);
    rules.extend([Arc::new(OpaqueEqualities) as Arc<dyn OptimizerRule + Send + Sync>, Arc::new(NativeLikes)]);
    rules
}

/// A rule that leaves some plans as they are.
#[derive(Debug)]
struct Unless {
    is_kept: fn(&LogicalPlan) -> Result<bool>,
    stock: Arc<dyn OptimizerRule + Send + Sync>,
}

impl OptimizerRule for Unless {
    fn name(&self) -> &str {
        self.stock.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.stock.apply_order()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match (self.is_kept)(&plan)? {
            true => Ok(Transformed::no(plan)),
            false => self.stock.rewrite(plan, config),
        }
    }
}

/// Whether the plan sorts. DataFusion drops what a key before it determines, which it does not always know rightly: behind an aggregate
/// over a join it takes the key of one side to determine the columns of both.
fn sorts(plan: &LogicalPlan) -> Result<bool> {
    Ok(matches!(plan, LogicalPlan::Sort(_)))
}

/// Whether the plan is an aggregate with a sum whose parts would be summed with another type.
fn sums_integers(plan: &LogicalPlan) -> Result<bool> {
    let LogicalPlan::Aggregate(aggregate) = plan else { return Ok(false) };
    for expression in &aggregate.aggr_expr {
        if let Expr::AggregateFunction(call) = expression
            && call.func.name() == "sum"
        {
            let result = expression.get_type(aggregate.input.schema().as_ref())?;
            // Reals are added up in their order, which groups do not have.
            if result == DataType::Float32 || (result == DataType::Int64 && !call.params.distinct) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
