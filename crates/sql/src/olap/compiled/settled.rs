//! Groups that are final when their block has been read (`docs/design/settled-groups.md`).
//!
//! Where a table lies in the order of a key, as lines of orders do in that of their orders, the bounds of blocks say of nearly every key that one block alone can
//! have it. A pipeline gives the state of such a group once, and it is final: it need not be spread by its key, nor be looked for
//! in a table of all groups.
//! ```text
//!   FilterExec                            RepartitionExec: Hash      of the groups that pass
//!     AggregateExec: FinalPartitioned       FilterExec
//!       RepartitionExec: Hash         ►       SettledGroupsExec
//!         PipelineExec                          PipelineExec
//! ```
//! States of keys that several blocks can have are gathered, and merged by the same aggregate, in the partition that ends last.

use super::super::error::external;
use super::exec::PipelineExec;
use super::lone_keys::LoneKeys;
use ankerdb_engine::Error;
use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::compute::{filter_record_batch, not};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::memory::MemorySourceConfig;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::EmitTo;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{Partitioning, PhysicalExpr};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::Stream;
use parking_lot::Mutex;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// The plan with groups settled where a filter reads them. After pipelines were made.
pub(super) fn with_settled_groups(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let settled = plan.transform_up(|node| {
        let replacement = match node.downcast_ref::<FilterExec>() {
            Some(filter) => replaced(&node, filter)?,
            None => None,
        };
        Ok(match replacement {
            Some(replacement) => Transformed::yes(replacement),
            None => Transformed::no(node),
        })
    })?;
    Ok(settled.data)
}

/// What takes the place of a filter of groups, which gives its rows in the same partitions.
fn replaced(node: &Arc<dyn ExecutionPlan>, filter: &FilterExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(last) = filter.input().downcast_ref::<AggregateExec>() else { return Ok(None) };
    let Partitioning::Hash(_, partitions) = last.properties().output_partitioning() else { return Ok(None) };
    let Some(settled) = SettledGroupsExec::of(last) else { return Ok(None) };
    let partitions = *partitions;
    // Where the groups' keys are among what the filter gives. All of them, or nobody can have asked for these partitions.
    let given = |key: usize| match filter.projection().as_ref() {
        Some(columns) => columns.iter().position(|&column| column == key),
        None => Some(key),
    };
    let schema = node.schema();
    let column =
        |place: usize| Arc::new(Column::new(schema.field(place).name(), place)) as Arc<dyn PhysicalExpr>;
    let keys: Option<Vec<_>> =
        (0..last.group_expr().num_group_exprs()).map(|key| given(key).map(column)).collect();
    let spread = match keys {
        Some(keys) => Partitioning::Hash(keys, partitions),
        None => Partitioning::RoundRobinBatch(partitions),
    };
    let recompute = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    let filtered = node.clone().replace_children(vec![Arc::new(settled)], recompute)?;
    Ok(Some(Arc::new(RepartitionExec::try_new(filtered, spread)?)))
}

/// See the module.
#[derive(Debug)]
struct SettledGroupsExec {
    /// Gives states, each block's groups at once.
    input: Arc<dyn ExecutionPlan>,
    /// What makes groups of states, over other input.
    last: Arc<AggregateExec>,
    /// Which column of the states has the key.
    key: usize,
    lone: Arc<LoneKeys>,
    gathered: Arc<Mutex<Gathered>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// States of keys that several blocks can have.
#[derive(Debug)]
struct Gathered {
    /// Partitions that have not ended.
    open: usize,
    states: Vec<RecordBatch>,
    /// What they take, once there are some.
    reserved: Option<MemoryReservation>,
}

impl SettledGroupsExec {
    /// In the place of an aggregate that merges the states of a pipeline; `None` if that gives too few groups that nobody else has.
    fn of(last: &AggregateExec) -> Option<SettledGroupsExec> {
        if *last.mode() != AggregateMode::FinalPartitioned || last.limit_options().is_some() {
            return None;
        }
        let input = last.input().downcast_ref::<RepartitionExec>()?.input();
        let pipeline = input.downcast_ref::<PipelineExec>()?;
        let (key, lone) = pipeline.lone_keys()?;
        let can_settle = last.aggr_expr().iter().all(|function| function.groups_accumulator_supported());
        let partitions = input.properties().output_partitioning().partition_count();
        let properties = PlanProperties::new(
            last.properties().equivalence_properties().clone(),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let properties = Arc::new(properties.with_scheduling_type(SchedulingType::Cooperative));
        can_settle.then(|| SettledGroupsExec {
            input: Arc::new(pipeline.settling()),
            last: Arc::new(last.clone()),
            key,
            lone: Arc::new(lone),
            gathered: Gathered::by(partitions),
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    fn over(&self, input: Arc<dyn ExecutionPlan>) -> SettledGroupsExec {
        SettledGroupsExec {
            gathered: Gathered::by(input.properties().output_partitioning().partition_count()),
            input,
            last: self.last.clone(),
            key: self.key,
            lone: self.lone.clone(),
            properties: self.properties.clone(),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl Gathered {
    fn by(partitions: usize) -> Arc<Mutex<Gathered>> {
        Arc::new(Mutex::new(Gathered { open: partitions, states: Vec::new(), reserved: None }))
    }
}

impl DisplayAs for SettledGroupsExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = self.schema();
        let key = schema.field(self.key).name();
        let functions: Vec<&str> = self.last.aggr_expr().iter().map(|function| function.name()).collect();
        write!(f, "SettledGroupsExec: by={key}, aggr=[{}]", functions.join(", "))
    }
}

impl ExecutionPlan for SettledGroupsExec {
    fn name(&self) -> &str {
        "SettledGroupsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self.over(children.swap_remove(0))))
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self.over(children.swap_remove(0))))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self.over(self.input.clone())))
    }

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        Ok(Box::pin(SettledStream {
            input: Some(self.input.execute(partition, context.clone())?),
            merged: None,
            last: self.last.clone(),
            key: self.key,
            lone: self.lone.clone(),
            gathered: self.gathered.clone(),
            merging: None,
            counted: BaselineMetrics::new(&self.metrics, partition),
            context,
        }))
    }
}

/// One partition. Canceling is the input's.
struct SettledStream {
    /// Until it has ended.
    input: Option<SendableRecordBatchStream>,
    /// What was gathered, in the partition that ends last.
    merged: Option<SendableRecordBatchStream>,
    last: Arc<AggregateExec>,
    key: usize,
    lone: Arc<LoneKeys>,
    gathered: Arc<Mutex<Gathered>>,
    /// What the states take that are being merged.
    merging: Option<MemoryReservation>,
    counted: BaselineMetrics,
    context: Arc<TaskContext>,
}

impl SettledStream {
    /// The groups that are final of some states; the others are gathered.
    fn settled(&mut self, states: &RecordBatch) -> Result<RecordBatch> {
        let rows = self.lone.of_rows(states.column(self.key));
        let rows = rows.ok_or_else(|| external(Error::internal("a lone key of a type without bounds")))?;
        if rows.true_count() == rows.len() {
            return self.final_groups(states);
        }
        let others = filter_record_batch(states, &not(&rows)?)?;
        self.gather(others)?;
        self.final_groups(&filter_record_batch(states, &rows)?)
    }

    /// Keeps states until all partitions have ended.
    fn gather(&self, states: RecordBatch) -> Result<()> {
        let mut gathered = self.gathered.lock();
        let pool = self.context.memory_pool();
        let reserved =
            gathered.reserved.get_or_insert_with(|| MemoryConsumer::new("SettledGroupsExec").register(pool));
        reserved.try_grow(states.get_array_memory_size())?;
        gathered.states.push(states);
        Ok(())
    }

    /// The groups of which these are all states, one each.
    fn final_groups(&self, states: &RecordBatch) -> Result<RecordBatch> {
        let (groups, keys) = (states.num_rows(), self.last.group_expr().num_group_exprs());
        let each: Vec<usize> = (0..groups).collect();
        let mut columns: Vec<ArrayRef> = states.columns()[..keys].to_vec();
        let mut read = keys;
        for function in self.last.aggr_expr() {
            let state = &states.columns()[read..][..function.state_fields()?.len()];
            read += state.len();
            let mut accumulator = function.create_groups_accumulator()?;
            accumulator.merge_batch(state, &each, groups)?;
            columns.push(accumulator.evaluate(EmitTo::All)?);
        }
        Ok(RecordBatch::try_new(self.last.schema(), columns)?)
    }

    /// The end of the input. In the last partition, what all of them have gathered is merged.
    fn end(&mut self) -> Result<()> {
        self.input = None;
        let mut gathered = self.gathered.lock();
        gathered.open -= 1;
        if gathered.open > 0 || gathered.states.is_empty() {
            return Ok(());
        }
        let states = std::mem::take(&mut gathered.states);
        self.merging = gathered.reserved.take();
        drop(gathered);
        let schema = states[0].schema();
        let read = MemorySourceConfig::try_new_exec(&[states], schema, None)?;
        let last: Arc<dyn ExecutionPlan> = self.last.clone();
        let recompute = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        let merging = last.replace_children(vec![read], recompute)?;
        self.merged = Some(merging.execute(0, self.context.clone())?);
        Ok(())
    }

    fn poll_groups(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        while let Some(input) = &mut self.input {
            match ready!(input.as_mut().poll_next(context)) {
                Some(Ok(states)) if states.num_rows() == 0 => {}
                Some(states) => return Poll::Ready(Some(states.and_then(|states| self.settled(&states)))),
                None => {
                    if let Err(error) = self.end() {
                        return Poll::Ready(Some(Err(error)));
                    }
                }
            }
        }
        match &mut self.merged {
            Some(merged) => merged.as_mut().poll_next(context),
            None => Poll::Ready(None),
        }
    }
}

impl Stream for SettledStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.poll_groups(context);
        self.counted.record_poll(next)
    }
}

impl RecordBatchStream for SettledStream {
    fn schema(&self) -> SchemaRef {
        self.last.schema()
    }
}
