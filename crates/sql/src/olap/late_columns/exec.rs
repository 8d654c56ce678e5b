//! The operator that reads columns late.

use super::super::part_reader::IdentifiedRows;
use super::super::scan::ScanExec;
use datafusion::arrow::array::{AsArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{FieldRef, Int64Type, Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ColumnStatistics, Statistics, internal_err};
use datafusion::error::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, OrderingRequirements, PhysicalExpr};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::Stream;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// Gives the rows of its first child in their order, each with columns of the rows that its identities name, which the other children, all
/// of them scans, read one by one. These are never executed.
#[derive(Debug)]
pub(crate) struct LateColumnsExec {
    children: Vec<Arc<dyn ExecutionPlan>>,
    /// Which column of the first child has the identities for each of the others.
    rows: Arc<[usize]>,
    /// Those that are read late.
    fields: Arc<[FieldRef]>,
    /// The order in which rows came when the plan was made: it stays, whatever rules make of the first child.
    ordering: Option<OrderingRequirements>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl LateColumnsExec {
    pub(super) fn new(
        children: Vec<Arc<dyn ExecutionPlan>>,
        rows: Arc<[usize]>,
        fields: Arc<[FieldRef]>,
    ) -> LateColumnsExec {
        let ordering = children[0].output_ordering().cloned().map(OrderingRequirements::from);
        LateColumnsExec::ordered(children, rows, fields, ordering)
    }

    fn ordered(
        children: Vec<Arc<dyn ExecutionPlan>>,
        rows: Arc<[usize]>,
        fields: Arc<[FieldRef]>,
        ordering: Option<OrderingRequirements>,
    ) -> LateColumnsExec {
        let input = &children[0];
        let all: Vec<FieldRef> = input.schema().fields().iter().chain(fields.iter()).cloned().collect();
        let schema = Arc::new(Schema::new(all));
        let orderings = input.output_ordering().cloned();
        let properties = PlanProperties::new(
            EquivalenceProperties::new_with_orderings(schema, orderings),
            input.output_partitioning().clone(),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        let properties = Arc::new(properties.with_scheduling_type(input.properties().scheduling_type));
        LateColumnsExec {
            children,
            rows,
            fields,
            ordering,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    fn over(&self, children: Vec<Arc<dyn ExecutionPlan>>) -> LateColumnsExec {
        LateColumnsExec::ordered(children, self.rows.clone(), self.fields.clone(), self.ordering.clone())
    }
}

impl DisplayAs for LateColumnsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for LateColumnsExec {
    fn name(&self) -> &str {
        "LateColumnsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        let mut required = vec![None; self.children.len()];
        required[0] = self.ordering.clone();
        required
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        (0..self.children.len()).map(|child| child == 0).collect()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false; self.children.len()]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.children.iter().collect()
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self.over(children)))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self.over(children)))
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

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        let mut requests = vec![ChildStats::Skip; self.children.len()];
        requests[0] = ChildStats::At(partition);
        requests
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let mut statistics = inputs[0].as_ref().clone();
        let late = self.fields.iter().map(|_| ColumnStatistics::new_unknown());
        statistics.column_statistics.extend(late);
        Ok(Arc::new(statistics))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let reader = |scan: &Arc<dyn ExecutionPlan>| match scan.downcast_ref::<ScanExec>() {
            Some(scan) => Ok(scan.identified_rows()),
            None => internal_err!("columns are read late from {}", scan.name()),
        };
        let readers = self.children[1..].iter().map(reader).collect::<Result<Vec<_>>>()?;
        Ok(Box::pin(LateRows {
            input: self.children[0].execute(partition, context)?,
            readers: self.rows.iter().copied().zip(readers).collect(),
            schema: self.schema(),
            counted: BaselineMetrics::new(&self.metrics, partition),
        }))
    }
}

/// One partition.
struct LateRows {
    input: SendableRecordBatchStream,
    /// Behind the columns with the identities of their rows.
    readers: Vec<(usize, IdentifiedRows)>,
    schema: SchemaRef,
    counted: BaselineMetrics,
}

impl LateRows {
    fn with_columns(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let mut columns = batch.columns().to_vec();
        for (identities, reader) in &self.readers {
            columns.extend(reader.columns_of(batch.column(*identities).as_primitive::<Int64Type>())?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?)
    }
}

impl Stream for LateRows {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = ready!(self.input.as_mut().poll_next(context));
        let next = next.map(|batch| self.with_columns(&batch?));
        self.counted.record_poll(Poll::Ready(next))
    }
}

impl RecordBatchStream for LateRows {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
