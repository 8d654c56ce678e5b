//! Parts of a plan that stand in it twice, computed once (`docs/design/shared-subplans.md`).
//!
//! A query in WITH, or a view, is planned wherever its name stands. [`with_shared`] finds aggregates that are the same down to their scans,
//! and puts a [`SharedExec`] above each, which all read the rows of the one that was asked first.

mod exec;
mod same;

use super::scan::ScanExec;
use crate::compiler_mode::CompilerMode;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};
use exec::{SharedExec, SharedRows};
use same::is_same;
use std::sync::Arc;

/// Aggregates that were met, with what keeps the rows of those that were met twice.
type Met = Vec<(Arc<dyn ExecutionPlan>, Option<Arc<SharedRows>>)>;

/// The plan with aggregates that stand in it more than once computed once, where they read tables of as many rows as `mode` asks for.
pub(super) fn with_shared(
    plan: Arc<dyn ExecutionPlan>,
    mode: CompilerMode,
) -> Result<Arc<dyn ExecutionPlan>> {
    let is_repeated = plan.exists(|node| Ok(node.is::<RecursiveQueryExec>()))?;
    if mode == CompilerMode::Off || is_repeated {
        return Ok(plan);
    }
    let mut met = Met::new();
    plan.apply(|node| {
        if !is_worth(node, mode.rows_min())? {
            return Ok(TreeNodeRecursion::Continue);
        }
        match met.iter_mut().find(|(known, _)| is_same(known, node)) {
            Some((_, rows)) => {
                let partitions = node.properties().partitioning.partition_count();
                rows.get_or_insert_with(|| SharedRows::new(partitions, bytes_max(mode)));
                // What is below is the same, too.
                Ok(TreeNodeRecursion::Jump)
            }
            None => {
                met.push((node.clone(), None));
                Ok(TreeNodeRecursion::Continue)
            }
        }
    })?;
    met.retain(|(_, rows)| rows.is_some());
    if met.is_empty() { Ok(plan) } else { replaced(&plan, &met, mode) }
}

/// Bytes that are kept of a partition. For tests, a few are many.
fn bytes_max(mode: CompilerMode) -> usize {
    if mode.rows_min() == 0 { 128 << 10 } else { 64 << 20 }
}

/// Whether an operator gives whole groups of many rows.
fn is_worth(node: &Arc<dyn ExecutionPlan>, rows_min: usize) -> Result<bool> {
    use AggregateMode::{Final, FinalPartitioned, Single, SinglePartitioned};
    let is_whole = |aggregate: &AggregateExec| {
        matches!(aggregate.mode(), Final | FinalPartitioned | Single | SinglePartitioned)
    };
    if !node.downcast_ref::<AggregateExec>().is_some_and(is_whole) {
        return Ok(false);
    }
    node.exists(|below| Ok(below.downcast_ref::<ScanExec>().is_some_and(|scan| scan.row_count() >= rows_min)))
}

/// The operator with those below that were met twice under one that shares their rows.
fn replaced(node: &Arc<dyn ExecutionPlan>, met: &Met, mode: CompilerMode) -> Result<Arc<dyn ExecutionPlan>> {
    if is_worth(node, mode.rows_min())?
        && let Some((_, Some(rows))) = met.iter().find(|(known, _)| is_same(known, node))
    {
        return Ok(SharedExec::plan(node.clone(), rows.clone()));
    }
    let before = node.children();
    let after = before.iter().map(|child| replaced(child, met, mode)).collect::<Result<Vec<_>>>()?;
    match before.iter().zip(&after).all(|(before, after)| Arc::ptr_eq(before, after)) {
        true => Ok(node.clone()),
        // Nothing that a plan knows of its operators changes.
        false => {
            node.clone().replace_children(after, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep))
        }
    }
}
