//! UNION ALL gives the rows of one query after those of the one before it.
//!
//! SQL promises no order without ORDER BY, but every database gives 1 before 2 for `SELECT 1 UNION ALL SELECT 2`, and who writes it
//! means it. DataFusion merges the partitions of a union as they come. So where nothing between a union and what is read of the plan
//! has an order of its own, the partitions are read one behind the other:
//! ```text
//! CoalescePartitionsExec        InOrderExec              all of the first, then all of the second
//!   Projection, Filter            Projection, Filter
//!     UnionExec           ►         UnionExec
//!       a  (2 partitions)             CoalescePartitionsExec
//!       b  (1 partition)                a
//!                                     b
//! ```
//! All of them begin at once, and each runs ahead of its turn by as many batches as [`AHEAD`].

use super::apart::Unordered;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::common::spawn_buffered;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    PlanProperties, ReplaceChildrenOptions,
};
use futures::StreamExt;
use std::fmt;
use std::sync::Arc;

/// Batches that a partition has ready before its turn comes.
const AHEAD: usize = 2;

/// The plan, whose unions give their rows in the order in which they are written as far as that can be seen.
pub(super) fn in_order(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let partitions = plan.output_partitioning().partition_count();
    if partitions > 1 {
        return Ok(match has_union(&plan) {
            true => Arc::new(InOrderExec::new(with_single_inputs(plan)?)),
            false => plan,
        });
    }
    if let Some(merged) = plan.downcast_ref::<CoalescePartitionsExec>() {
        if !has_union(merged.input()) {
            return Ok(plan);
        }
        let ordered = in_order(merged.input().clone())?;
        return Ok(match merged.fetch() {
            Some(rows) => Arc::new(GlobalLimitExec::new(ordered, 0, Some(rows))),
            None => ordered,
        });
    }
    match handing_on(&plan) {
        Some(input) => with_input(plan.clone(), in_order(input.clone())?),
        None => Ok(plan),
    }
}

/// Whether the partitions are those of a union.
fn has_union(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<UnionExec>() || handing_on(plan).is_some_and(has_union)
}

/// The input of an operator that gives what it keeps of it in the same order.
fn handing_on(plan: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    let [input] = plan.children()[..] else { return None };
    let keeps = plan.is::<Unordered>() || plan.maintains_input_order() == [true];
    let is_same =
        plan.output_partitioning().partition_count() == input.output_partitioning().partition_count();
    (keeps && is_same).then_some(input)
}

/// The plan over a union, each of whose inputs has one partition.
fn with_single_inputs(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if !plan.is::<UnionExec>() {
        return match handing_on(&plan) {
            Some(input) => with_input(plan.clone(), with_single_inputs(input.clone())?),
            None => Ok(plan),
        };
    }
    let single = |input: &Arc<dyn ExecutionPlan>| {
        let input = in_order(input.clone())?;
        Ok(match input.output_partitioning().partition_count() {
            1 => input,
            _ => Arc::new(CoalescePartitionsExec::new(input)) as _,
        })
    };
    UnionExec::try_new(plan.children().into_iter().map(single).collect::<Result<_>>()?)
}

fn with_input(plan: Arc<dyn ExecutionPlan>, input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.replace_children(vec![input], ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

/// Gives the partitions of its input one behind the other.
#[derive(Debug)]
struct InOrderExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl InOrderExec {
    fn new(input: Arc<dyn ExecutionPlan>) -> InOrderExec {
        let own = input.properties();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(1),
            own.emission_type,
            own.boundedness,
        );
        InOrderExec { properties: Arc::new(properties.with_scheduling_type(own.scheduling_type)), input }
    }
}

impl DisplayAs for InOrderExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for InOrderExec {
    fn name(&self) -> &str {
        "InOrderExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(InOrderExec::new(children.swap_remove(0))))
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(InOrderExec::new(children.swap_remove(0))))
    }

    fn execute(&self, _partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let partitions = 0..self.input.output_partitioning().partition_count();
        let begun = |partition| Ok(spawn_buffered(self.input.execute(partition, context.clone())?, AHEAD));
        let streams = partitions.map(begun).collect::<Result<Vec<_>>>()?;
        let rows = futures::stream::iter(streams).flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.input.schema(), rows)))
    }
}
