//! Makes joins give way.
//!
//! A task of the async runtime can be canceled only where it gives way, and lets others run only there. Scans do
//! after some batches, but a join turns one batch that it reads into thousands without reading another: the
//! operators above would run for hours in one piece. This rule puts an operator above each join that counts
//! batches against the task's budget and gives way when that is used up.
//!
//! Not covered: a join whose condition rejects everything works through one batch of its outer side before it
//! can give way.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub(crate) struct YieldAboveJoins;

/// Operators that give more batches than they read.
const MULTIPLYING: [&str; 6] = [
    "NestedLoopJoinExec",
    "CrossJoinExec",
    "HashJoinExec",
    "SortMergeJoinExec",
    "PiecewiseMergeJoinExec",
    "UnnestExec",
];

impl PhysicalOptimizerRule for YieldAboveJoins {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let wrapped = plan.transform_up(|node| {
            Ok(match MULTIPLYING.contains(&node.name()) {
                true => Transformed::yes(Arc::new(CooperativeExec::new(node)) as Arc<dyn ExecutionPlan>),
                false => Transformed::no(node),
            })
        })?;
        Ok(wrapped.data)
    }

    fn name(&self) -> &str {
        "yield_above_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
