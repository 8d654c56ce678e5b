//! The states by which plans are made: settings and rules of DataFusion's, for each kind of plan.

use super::late_columns::LateColumns;
use super::{distinct, handle, parameters_apart, project};
use crate::compiler_mode::CompilerMode;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::{Expr, LogicalPlan};
use std::sync::{Arc, OnceLock};

/// Tables of so many rows, all together, are read by one thread: others would take longer to begin.
const FEW_ROWS: usize = 1 << 15;

/// Whether what a plan has to do grows as the rows of its tables: it has rows of nothing else, and joins by equal values only.
pub(super) fn is_linear(plan: &LogicalPlan) -> Result<bool> {
    let mut is_linear = true;
    plan.apply_with_subqueries(|node| {
        is_linear &= match node {
            LogicalPlan::TableScan(scan) => handle(&scan.source)?.is_some(),
            LogicalPlan::Join(join) => !join.on.is_empty(),
            LogicalPlan::Extension(extension) => LateColumns::is(extension.node.as_ref()),
            LogicalPlan::RecursiveQuery(_) | LogicalPlan::Unnest(_) => false,
            LogicalPlan::Values(_) => false,
            _ => true,
        };
        Ok(if is_linear { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(is_linear)
}

/// Whether a plan gives columns of one table, of all rows or of some of the first, as they lie.
pub(super) fn is_listing(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::TableScan(scan) => handle(&scan.source).is_ok_and(|table| table.is_some()),
        LogicalPlan::Limit(limit) => is_listing(&limit.input),
        LogicalPlan::SubqueryAlias(alias) => is_listing(&alias.input),
        LogicalPlan::Projection(projection) => {
            let is_column =
                |shown: &Expr| matches!(shown.clone().unalias(), Expr::Column(_) | Expr::Literal(..));
            projection.expr.iter().all(is_column) && is_listing(&projection.input)
        }
        _ => false,
    }
}

/// The usual state, and those that differ from it, each from when it is asked for.
pub(super) struct PlanningStates {
    usual: Arc<SessionState>,
    /// For tests: it also does for few rows what else is worth while for many.
    eager: OnceLock<SessionState>,
    single: OnceLock<SessionState>,
    with_parameters: OnceLock<SessionState>,
}

impl PlanningStates {
    pub(super) fn new(usual: Arc<SessionState>) -> PlanningStates {
        let (eager, single, with_parameters) = Default::default();
        PlanningStates { usual, eager, single, with_parameters }
    }

    /// What makes physical plans of which threads may share so many rows.
    pub(super) fn physical(&self, compiler: CompilerMode, rows: usize) -> &SessionState {
        if compiler.rows_min() == 0 && rows > 0 {
            self.eager
                .get_or_init(|| self.other().with_physical_optimizer_rules(project::rules(true)).build())
        } else if rows <= FEW_ROWS {
            let config = self.usual.config().clone().with_target_partitions(1);
            self.single.get_or_init(|| self.other().with_config(config).build())
        } else {
            &self.usual
        }
    }

    /// What optimizes statements whose parameters have no values yet.
    pub(super) fn with_parameters(&self) -> &SessionState {
        self.with_parameters.get_or_init(|| {
            self.other().with_optimizer_rules(parameters_apart::around(distinct::rules())).build()
        })
    }

    fn other(&self) -> SessionStateBuilder {
        SessionStateBuilder::new_from_existing(self.usual.as_ref().clone())
    }
}
