//! Equalities of what is computed, which are conditions and nothing more.
//!
//! DataFusion takes both sides of an equality in a filter for the same value in all that is planned above it. Of `x + 1 = x` it then takes
//! `x` for `x + 1`, in which it finds `x` again, and no window that is divided by `x` can be planned. So the last rule of a pass keeps such
//! equalities from it (`(x + 1 = x) IS TRUE`, the same to a filter). Equalities of two columns, and with constants, stay as they are: those it
//! makes use of.

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::expr::BinaryExpr;
use datafusion::logical_expr::utils::{conjunction, split_conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, LogicalPlan, Operator};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

#[derive(Debug)]
pub(super) struct OpaqueEqualities;

impl OptimizerRule for OpaqueEqualities {
    fn name(&self) -> &str {
        "opaque_equalities"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Filter(mut filter) = plan else { return Ok(Transformed::no(plan)) };
        if !split_conjunction(&filter.predicate).into_iter().any(is_of_computed) {
            return Ok(Transformed::no(LogicalPlan::Filter(filter)));
        }
        let opaque = |term: Expr| if is_of_computed(&term) { term.is_true() } else { term };
        let terms = split_conjunction_owned(filter.predicate.clone());
        filter.predicate = conjunction(terms.into_iter().map(opaque)).unwrap_or(filter.predicate);
        Ok(Transformed::yes(LogicalPlan::Filter(filter)))
    }
}

/// Whether this is an equality of values of the row, not both of which are columns.
fn is_of_computed(term: &Expr) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = term else { return false };
    let is_column = |side: &Expr| matches!(side, Expr::Column(_));
    let has_columns = |side: &Expr| side.any_column_refs();
    !(is_column(left) && is_column(right)) && has_columns(left) && has_columns(right)
}
