//! Pipelines of a physical plan as machine code (`docs/design/compiler.md`).
//!
//! What is compiled is the first half of an aggregation over a table: a partial aggregate with the projections and filters between it and
//! the scan. [`with_pipelines`] finds these in DataFusion's plan and puts a [`PipelineExec`] in the place of each that
//! [`lower`] can express:
//! ```text
//!   AggregateExec: Final            AggregateExec: Final
//!     AggregateExec: Partial          PipelineExec          same schema, same state
//!       ProjectionExec                  ScanExec            numerics as they are stored
//!         FilterExec
//!           ScanExec
//! ```
//! Its rows are the states that the partial aggregate would give, so the other half stays DataFusion's and ours
//! (`aggregate.rs`), with its merging, averages and limits. An aggregate in one step becomes two.
//!
//! What cannot be expressed stays as it is, and EXPLAIN says why. Filters that are left above a scan are compiled by themselves
//! (`selection.rs`).

mod cache;
mod exec;
mod lone_keys;
mod lower;
mod selection;
mod settled;
mod slices;
mod told;

pub(super) use told::why_not;

use crate::compiler_mode::CompilerMode;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result as PlanResult;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use exec::PipelineExec;
use lower::{Lowered, Reason, lower};
use std::sync::Arc;

/// The mask of batches without NULLs, as most are.
const NO_NULLS: u64 = 0;

/// The plan with its pipelines compiled, as far as they can be expressed.
pub(super) fn with_pipelines(
    plan: Arc<dyn ExecutionPlan>,
    mode: CompilerMode,
) -> PlanResult<Arc<dyn ExecutionPlan>> {
    if mode == CompilerMode::Off {
        return Ok(plan);
    }
    let compiled = plan.transform_up(|node| {
        let replacement = match node.downcast_ref::<AggregateExec>() {
            Some(aggregate) => replaced(aggregate, mode)?,
            None => None,
        };
        Ok(match replacement {
            Some(replacement) => Transformed::yes(replacement),
            None => Transformed::no(node),
        })
    })?;
    settled::with_settled_groups(selection::with_selections(compiled.data, mode)?)
}

/// The pipeline of an aggregate, if there can be one. Where code is to run it is made here: a machine or a system that allows none, such as
/// one that forbids executable memory, leaves its queries to DataFusion, which is faster than the interpreter.
fn expressed(aggregate: &AggregateExec, mode: CompilerMode) -> Result<Lowered, Reason> {
    let lowered = lower(aggregate, mode.rows_min())?;
    if mode != CompilerMode::Interpreted {
        // What runs first, and not by bitmaps.
        let first = match (&lowered.parts, &lowered.bitmaps) {
            (Some(parts), Some(_)) => &parts.rest,
            (Some(parts), None) => &parts.selection,
            (None, _) => &lowered.pipeline,
        };
        cache::code(first, NO_NULLS).map_err(|none| Reason(none.0))?;
    }
    Ok(lowered)
}

/// What takes an aggregate's place.
fn replaced(aggregate: &AggregateExec, mode: CompilerMode) -> PlanResult<Option<Arc<dyn ExecutionPlan>>> {
    let Ok(lowered) = expressed(aggregate, mode) else { return Ok(None) };
    match aggregate.mode() {
        AggregateMode::Partial => Ok(Some(Arc::new(PipelineExec::new(lowered, aggregate.schema(), mode)))),
        AggregateMode::Single => {
            let partial = AggregateExec::try_new(
                AggregateMode::Partial,
                aggregate.group_expr().clone(),
                aggregate.aggr_expr().to_vec(),
                aggregate.filter_expr().to_vec(),
                aggregate.input().clone(),
                aggregate.input_schema(),
            )?;
            let pipeline = Arc::new(PipelineExec::new(lowered, partial.schema(), mode));
            let merged = AggregateExec::try_new(
                AggregateMode::Final,
                aggregate.group_expr().as_final(),
                aggregate.aggr_expr().to_vec(),
                vec![None; aggregate.aggr_expr().len()],
                Arc::new(CoalescePartitionsExec::new(pipeline)),
                aggregate.input_schema(),
            )?;
            Ok(Some(Arc::new(merged)))
        }
        _ => Ok(None),
    }
}
