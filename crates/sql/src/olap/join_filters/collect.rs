//! The operator that gathers a join's keys, on its build side: passes rows on.

use super::keys::{JoinKeys, KeyCollector};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};
use futures::Stream;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// See the module.
#[derive(Debug)]
pub(super) struct CollectKeysExec {
    input: Arc<dyn ExecutionPlan>,
    /// Columns, and who wants their values.
    columns: Vec<(usize, Arc<JoinKeys>)>,
}

impl CollectKeysExec {
    pub(super) fn plan(
        input: Arc<dyn ExecutionPlan>,
        columns: Vec<(usize, Arc<JoinKeys>)>,
    ) -> Arc<dyn ExecutionPlan> {
        Arc::new(CollectKeysExec { input, columns })
    }
}

impl DisplayAs for CollectKeysExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = self.input.schema();
        let names: Vec<&str> =
            self.columns.iter().map(|(column, _)| schema.field(*column).name().as_str()).collect();
        write!(f, "CollectKeysExec: keys=[{}]", names.join(", "))
    }
}

impl ExecutionPlan for CollectKeysExec {
    fn name(&self) -> &str {
        "CollectKeysExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
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
        Ok(CollectKeysExec::plan(children.swap_remove(0), self.columns.clone()))
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(CollectKeysExec::plan(children.swap_remove(0), self.columns.clone()))
    }

    /// A plan that runs again goes without: the scans that asked have let go of the keys, too.
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(CollectKeysExec::plan(self.input.clone(), Vec::new()))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let collector = |(column, keys): &(usize, Arc<JoinKeys>)| (*column, KeyCollector::new(keys.clone()));
        Ok(Box::pin(CollectKeysStream {
            reserved: MemoryConsumer::new("CollectKeysExec").register(context.memory_pool()),
            input: self.input.execute(partition, context)?,
            collectors: self.columns.iter().map(collector).collect(),
        }))
    }
}

struct CollectKeysStream {
    input: SendableRecordBatchStream,
    collectors: Vec<(usize, KeyCollector)>,
    reserved: MemoryReservation,
}

impl CollectKeysStream {
    fn add(&mut self, batch: &RecordBatch) {
        for (column, collector) in &mut self.collectors {
            collector.add(batch.column(*column));
        }
        let bytes = self.collectors.iter().map(|(_, collector)| collector.bytes()).sum();
        // Where memory is short a filter is not worth it.
        if self.reserved.try_resize(bytes).is_err() {
            self.collectors.iter_mut().for_each(|(_, collector)| collector.give_up());
            self.reserved.free();
        }
    }

    fn end(&mut self) {
        for (_, mut collector) in self.collectors.drain(..) {
            collector.end(&self.reserved);
        }
        self.reserved.free();
    }
}

impl Stream for CollectKeysStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = ready!(self.input.as_mut().poll_next(context));
        match &next {
            Some(Ok(batch)) => self.add(batch),
            Some(Err(_)) => self.collectors.clear(),
            None => self.end(),
        }
        Poll::Ready(next)
    }
}

impl RecordBatchStream for CollectKeysStream {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}
