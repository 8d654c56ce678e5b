//! Keeps sorts above unions, grouping sets and hash joins.
//!
//! DataFusion moves a sort below a UNION ALL, to the inputs that are not sorted yet, and takes a column that is a constant in
//! one input, or is there twice, for sorted. What the inputs then have in common is not the order that it wanted, and its own
//! check refuses the plan. And columns that are equal below grouping sets, which have NULLs for columns that they leave out, are equal
//! for it above, too, so that it sorts by one of them only. So each of these gets an operator above it that passes batches on and
//! tells nothing of their order.
//!
//! It also moves a sort to the side of a hash join that is gone through, when it sorts by that side's columns: all rows of the largest
//! table are then sorted, and have to be read before that, for the few that have a partner. So while it places sorts, joins right
//! below what wants an order tell nothing of theirs either, if they are not known to give far more rows than that side has.

use datafusion::common::Statistics;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    PlanProperties, ReplaceChildrenOptions,
};
use std::fmt;
use std::sync::Arc;

/// A join that gives so many times the rows of a side is sorted below, on that side.
const ROWS_OF_SIDE_MAX: usize = 2;

/// See the module.
#[derive(Debug)]
pub(super) struct SortAboveUnions;

impl PhysicalOptimizerRule for SortAboveUnions {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let wrapped = plan.transform_up(|node| {
            let has_sets =
                node.downcast_ref::<AggregateExec>().is_some_and(|node| !node.group_expr().is_single());
            Ok(match has_sets || node.is::<UnionExec>() {
                true => Transformed::yes(Arc::new(Unordered::new(node, Known::Nothing)) as _),
                false => Transformed::no(node),
            })
        })?;
        Ok(wrapped.data)
    }

    fn name(&self) -> &str {
        "sort_above_unions"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A step of [`around`]: keeps sorts above hash joins. See the module.
#[derive(Debug)]
enum SortAboveJoins {
    /// Before sorts are placed.
    Before,
    /// Behind that, when other rules have to see the joins.
    Behind,
}

/// The rule that places sorts, between those that keep them above hash joins.
pub(super) fn around(
    placing: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
) -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    vec![Arc::new(SortAboveJoins::Before), placing, Arc::new(SortAboveJoins::Behind)]
}

impl PhysicalOptimizerRule for SortAboveJoins {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let changed = plan.transform_up(|node| match self {
            SortAboveJoins::Before => apart_from_joins(node),
            SortAboveJoins::Behind => Ok(match node.downcast_ref::<Unordered>() {
                Some(Unordered { known: Known::Equalities, input, .. }) => Transformed::yes(input.clone()),
                _ => Transformed::no(node),
            }),
        })?;
        Ok(changed.data)
    }

    fn name(&self) -> &str {
        match self {
            SortAboveJoins::Before => "sort_above_joins",
            SortAboveJoins::Behind => "sorted_above_joins",
        }
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The operator, which knows nothing of the order of hash joins right below if it wants one.
fn apart_from_joins(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let wants_order =
        node.is::<SortExec>() || node.required_input_ordering().iter().any(|wanted| wanted.is_some());
    if !wants_order {
        return Ok(Transformed::no(node));
    }
    let mut is_changed = false;
    let mut children = Vec::new();
    for child in node.children() {
        let is_apart = is_joined(child)?;
        is_changed |= is_apart;
        children.push(match is_apart {
            true => Arc::new(Unordered::new(child.clone(), Known::Equalities)) as _,
            false => child.clone(),
        });
    }
    if !is_changed {
        return Ok(Transformed::no(node));
    }
    // What the operator tells of its own rows may have come from there.
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Ok(Transformed::yes(node.replace_children(children, options)?))
}

/// Whether these are the rows of a hash join, or columns of them, that are not far more than those of the side that is gone through.
fn is_joined(node: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        return is_joined(projection.input());
    }
    let Some(join) = node.downcast_ref::<HashJoinExec>() else { return Ok(false) };
    let rows = |node: &Arc<dyn ExecutionPlan>| {
        let known = StatisticsContext::new().compute(node.as_ref(), &StatisticsArgs::new())?;
        Ok::<_, DataFusionError>(known.num_rows.get_value().copied())
    };
    Ok(match (rows(node)?, rows(join.right())?) {
        (Some(joined), Some(of_side)) => joined <= of_side.saturating_mul(ROWS_OF_SIDE_MAX),
        _ => true,
    })
}

/// What is known of rows besides how they are spread.
#[derive(Debug, Clone, Copy)]
enum Known {
    Nothing,
    /// Which columns are equal or constant, but no order.
    Equalities,
}

/// Passes batches on, without what is known of their order.
#[derive(Debug)]
pub(super) struct Unordered {
    input: Arc<dyn ExecutionPlan>,
    known: Known,
    properties: Arc<PlanProperties>,
}

impl Unordered {
    fn new(input: Arc<dyn ExecutionPlan>, known: Known) -> Unordered {
        let own = input.properties();
        let equivalences = match known {
            Known::Nothing => EquivalenceProperties::new(input.schema()),
            Known::Equalities => {
                let mut equivalences = own.eq_properties.clone();
                equivalences.clear_orderings();
                equivalences
            }
        };
        let properties = PlanProperties::new(
            equivalences,
            input.output_partitioning().clone(),
            own.emission_type,
            own.boundedness,
        );
        Unordered { properties: Arc::new(properties), known, input }
    }
}

impl DisplayAs for Unordered {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for Unordered {
    fn name(&self) -> &str {
        "Unordered"
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
        Ok(Arc::new(Unordered::new(children.swap_remove(0), self.known)))
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Unordered::new(children.swap_remove(0), self.known)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(inputs[0].clone())
    }

    fn supports_limit_pushdown(&self) -> bool {
        true
    }
}
