//! The operator above a part of a plan that stands in it more than once.

use datafusion::arrow::array::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};
use futures::future::{BoxFuture, Shared};
use futures::{FutureExt, StreamExt, TryStreamExt};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// The rows of one partition.
struct KeptRows {
    batches: Vec<RecordBatch>,
    _reserved: MemoryReservation,
}

/// `None` where they are too many.
type Kept = std::result::Result<Option<Arc<KeptRows>>, Arc<DataFusionError>>;

/// The rows of a part of a plan, for all places where it stands, by partition. All that wait for rows move their computation on.
pub(super) struct SharedRows {
    /// What computes them, all partitions of it: the part at the place that was asked first.
    source: OnceLock<Arc<dyn ExecutionPlan>>,
    /// Bytes that are kept of one partition; where there are more, each part of the plan computes its own.
    bytes_max: usize,
    partitions: Vec<OnceLock<Shared<BoxFuture<'static, Kept>>>>,
}

impl SharedRows {
    pub(super) fn new(partitions: usize, bytes_max: usize) -> Arc<SharedRows> {
        let partitions = (0..partitions).map(|_| OnceLock::new()).collect();
        Arc::new(SharedRows { source: OnceLock::new(), bytes_max, partitions })
    }
}

impl fmt::Debug for SharedRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedRows({} partitions)", self.partitions.len())
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct SharedExec {
    input: Arc<dyn ExecutionPlan>,
    rows: Arc<SharedRows>,
    /// The input again, if that is the source and its rows are too many.
    again: Arc<OnceLock<Arc<dyn ExecutionPlan>>>,
}

impl SharedExec {
    pub(super) fn plan(input: Arc<dyn ExecutionPlan>, rows: Arc<SharedRows>) -> Arc<dyn ExecutionPlan> {
        Arc::new(SharedExec { input, rows, again: Arc::default() })
    }
}

/// What computes the rows of one place by itself: an operator runs once, so the source does not do.
fn unshared(
    input: &Arc<dyn ExecutionPlan>,
    rows: &SharedRows,
    again: &OnceLock<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    if !rows.source.get().is_some_and(|source| Arc::ptr_eq(source, input)) {
        return Ok(input.clone());
    }
    if let Some(again) = again.get() {
        return Ok(again.clone());
    }
    let made = reset_plan_states(input.clone())?;
    Ok(again.get_or_init(|| made).clone())
}

impl DisplayAs for SharedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedExec")
    }
}

impl ExecutionPlan for SharedExec {
    fn name(&self) -> &str {
        "SharedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
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

    /// What takes a child's place gives the same rows.
    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(SharedExec::plan(children.swap_remove(0), self.rows.clone()))
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(SharedExec::plan(children.swap_remove(0), self.rows.clone()))
    }

    /// A plan that runs again computes its own rows.
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self.input.clone())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (input, rows, again) = (self.input.clone(), self.rows.clone(), self.again.clone());
        let stream = async move {
            let source = rows.source.get_or_init(|| input.clone());
            let shared = rows.partitions.get(partition).map(|place| {
                place
                    .get_or_init(|| {
                        kept(source.clone(), partition, rows.bytes_max, context.clone()).boxed().shared()
                    })
                    .clone()
            });
            let kept = match shared {
                Some(shared) => shared.await.map_err(DataFusionError::Shared)?,
                None => None,
            };
            Ok::<_, DataFusionError>(match kept {
                Some(kept) => futures::stream::iter(kept.batches.clone()).map(Ok).boxed(),
                None => unshared(&input, &rows, &again)?.execute(partition, context)?.boxed(),
            })
        };
        let stream = futures::stream::once(stream).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream)))
    }
}

/// All rows of a partition, if they and the memory allow it.
async fn kept(
    input: Arc<dyn ExecutionPlan>,
    partition: usize,
    bytes_max: usize,
    context: Arc<TaskContext>,
) -> Kept {
    let reserved = MemoryConsumer::new("SharedExec").register(context.memory_pool());
    let mut batches = Vec::new();
    let mut stream = input.execute(partition, context)?;
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        let bytes = batch.get_array_memory_size();
        if reserved.size() + bytes > bytes_max || reserved.try_grow(bytes).is_err() {
            return Ok(None);
        }
        batches.push(batch);
    }
    Ok(Some(Arc::new(KeptRows { batches, _reserved: reserved })))
}
