//! The operator that runs a pipeline, one runner for each partition of the scan.
//!
//! A partition reads the scan's batches and gives the states of its groups at the end, or earlier where they have become many.
//! Canceling is the scan's: it gives way to others between batches. Memory of groups is asked for in DataFusion's pool after each
//! batch.

use super::super::batch_copies::BatchCopies;
use super::super::error::external;
use super::super::scan::ScanExec;
use super::cache::BatchCode;
use super::lone_keys::{LoneKeys, integers};
use super::lower::{Lowered, StatePart};
use super::slices::pipeline_batch;
use crate::compiler_mode::CompilerMode;
use ankerdb_compiler::{
    BitmapCondition, Datum, Fault, PipelineBatch, PipelineGroups, PipelineParts, PipelineRunner, ValueKind,
};
use ankerdb_engine::{Error, SqlState};
use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Int32Array, Int64Array, RecordBatch,
    RecordBatchOptions, StringViewBuilder,
};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};
use futures::Stream;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// Groups that a partition keeps before it gives their states.
const GROUPS_KEPT: usize = 1 << 18;
/// Groups that it keeps where more have been of little use, or memory is short: a table that stays in the cache.
const GROUPS_FEW: usize = 1 << 12;
/// Rows for each group that make it worth while to keep many.
const ROWS_WORTH: usize = 2;
/// Batches that are run whole after one of which more than half of the rows have passed.
const WHOLE_BATCHES: usize = 15;

/// See the module.
#[derive(Debug)]
pub(super) struct PipelineExec {
    lowered: Arc<Lowered>,
    input: Arc<dyn ExecutionPlan>,
    mode: CompilerMode,
    /// Whether it gives states as soon as there are a few: those of a key need not come together.
    is_settling: bool,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl PipelineExec {
    /// Gives states in the columns of `schema`.
    pub(super) fn new(lowered: Lowered, schema: SchemaRef, mode: CompilerMode) -> PipelineExec {
        let input: Arc<dyn ExecutionPlan> = lowered.scan.clone();
        let partitions = input.properties().output_partitioning().partition_count();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        PipelineExec {
            lowered: Arc::new(lowered),
            input,
            mode,
            is_settling: false,
            properties: Arc::new(properties.with_scheduling_type(SchedulingType::Cooperative)),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// The number of a key and which of its values one block alone can have, where these are most of many.
    ///
    /// All rows of a block are read, and its groups given, in one piece.
    pub(super) fn lone_keys(&self) -> Option<(usize, LoneKeys)> {
        let (key, column) = self.lowered.clustered?;
        let scan = &self.lowered.scan;
        let lone = LoneKeys::of(&scan.bounds_of_parts(column)?, |parts| {
            let mut keys = Vec::new();
            parts.iter().try_for_each(|&part| integers(&scan.column_of(part, column).ok()?, &mut keys))?;
            Some(keys)
        });
        Some((key, lone?))
    }

    /// This pipeline, for who settles its groups block by block. Its table of groups stays in the cache.
    pub(super) fn settling(&self) -> PipelineExec {
        PipelineExec { is_settling: true, ..self.over(self.input.clone()) }
    }

    fn code(&self, partition: usize) -> BatchCode {
        let compile_time = MetricBuilder::new(&self.metrics).subset_time("compile_time", partition);
        BatchCode::new(self.mode != CompilerMode::Interpreted, compile_time)
    }

    fn parted(&self, parts: PipelineParts, partition: usize) -> Option<PartedPipeline> {
        Some(PartedPipeline {
            selecting: PipelineRunner::new(&parts.selection, &self.lowered.parameters)?,
            bitmaps: self.lowered.bitmaps.clone().filter(|_| self.mode != CompilerMode::Interpreted),
            parts,
            selection_code: self.code(partition),
            rest_code: self.code(partition),
            whole: 0,
        })
    }

    fn over(&self, input: Arc<dyn ExecutionPlan>) -> PipelineExec {
        PipelineExec {
            lowered: self.lowered.clone(),
            input,
            mode: self.mode,
            is_settling: self.is_settling,
            properties: self.properties.clone(),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for PipelineExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = match self.mode {
            CompilerMode::Interpreted => "interpreted",
            _ => "compiled",
        };
        let pipeline = &self.lowered.pipeline;
        write!(f, "PipelineExec: {how}, instructions={}", pipeline.instructions())?;
        if format == DisplayFormatType::Verbose {
            let text = pipeline.to_string();
            write!(f, ", pipeline=[{}]", text.trim_end().replace('\n', "; "))?;
        }
        Ok(())
    }
}

impl ExecutionPlan for PipelineExec {
    fn name(&self) -> &str {
        "PipelineExec"
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
        let Lowered { pipeline, parameters, .. } = self.lowered.as_ref();
        let Some(runner) = PipelineRunner::new(pipeline, parameters) else {
            return internal_err!("a pipeline with other parameters than its own");
        };
        let (input, copies) = read_with_copies(&self.input, partition, &context)?;
        Ok(Box::pin(PipelineStream {
            input,
            copies,
            parted: self.lowered.parts.clone().and_then(|parts| self.parted(parts, partition)),
            lowered: self.lowered.clone(),
            schema: self.schema(),
            runner,
            code: self.code(partition),
            has_ended: false,
            groups_kept: if self.is_settling { GROUPS_FEW } else { GROUPS_KEPT },
            is_settling: self.is_settling,
            rows: 0,
            reserved: MemoryConsumer::new("PipelineExec").register(context.memory_pool()),
            counted: BaselineMetrics::new(&self.metrics, partition),
        }))
    }
}

/// A partition of what an operator reads, and where compressed copies lie of the batch that it has given last.
pub(super) fn read_with_copies(
    input: &Arc<dyn ExecutionPlan>,
    partition: usize,
    context: &Arc<TaskContext>,
) -> Result<(SendableRecordBatchStream, BatchCopies)> {
    match input.downcast_ref::<ScanExec>() {
        Some(scan) => Ok(scan.execute_with_copies(partition)),
        None => Ok((input.execute(partition, context.clone())?, BatchCopies::default())),
    }
}

/// A pipeline whose first condition is decided for a whole batch before the rest runs, as long as few rows pass it.
struct PartedPipeline {
    parts: PipelineParts,
    /// What decides the first condition, if they can.
    bitmaps: Option<BitmapCondition>,
    selecting: PipelineRunner,
    selection_code: BatchCode,
    rest_code: BatchCode,
    /// Batches to run whole before it is tried again.
    whole: usize,
}

impl PartedPipeline {
    /// Adds the batch to the groups of `runner`; not where it is to be run whole.
    fn add(
        &mut self,
        runner: &mut PipelineRunner,
        batch: &PipelineBatch<'_>,
    ) -> std::result::Result<bool, Fault> {
        if self.whole > 0 {
            self.whole -= 1;
            return Ok(false);
        }
        match &self.bitmaps {
            Some(bitmaps) => self.selecting.select(bitmaps, batch, None),
            None => {
                let code = self.selection_code.of(&self.parts.selection, batch.nulls());
                self.selecting.run(code.as_deref(), batch)?;
            }
        }
        let rows = self.selecting.selected();
        if rows.len() > batch.rows() / 2 {
            self.whole = WHOLE_BATCHES;
            return Ok(false);
        }
        if !rows.is_empty() {
            let code = self.rest_code.of(&self.parts.rest, batch.nulls());
            runner.run_listed(&self.parts.rest, code.as_deref(), batch, rows)?;
        }
        Ok(true)
    }
}

/// One partition.
struct PipelineStream {
    input: SendableRecordBatchStream,
    copies: BatchCopies,
    parted: Option<PartedPipeline>,
    lowered: Arc<Lowered>,
    schema: SchemaRef,
    runner: PipelineRunner,
    code: BatchCode,
    has_ended: bool,
    /// Groups that it keeps before it gives their states.
    groups_kept: usize,
    is_settling: bool,
    /// Rows since it has given states.
    rows: usize,
    reserved: MemoryReservation,
    counted: BaselineMetrics,
}

impl PipelineStream {
    /// Adds a batch.
    fn add(&mut self, read: &RecordBatch) -> Result<()> {
        let lowered = self.lowered.clone();
        let copies = self.copies.take();
        let batch = pipeline_batch(&lowered.pipeline, &lowered.columns, read, &copies)?;
        self.rows += read.num_rows();
        if let Some(parted) = &mut self.parted {
            let is_added = parted.add(&mut self.runner, &batch).map_err(failed)?;
            self.copies.want(parted.whole == 0);
            if is_added {
                return Ok(());
            }
        }
        let code = self.code.of(&lowered.pipeline, batch.nulls());
        self.runner.run(code.as_deref(), &batch).map_err(failed)
    }

    /// Whether it is time to give the states of what it has.
    fn has_many(&mut self) -> Result<bool> {
        let (groups, bytes) = (self.runner.groups().len(), self.runner.groups().bytes());
        match self.reserved.try_resize(bytes) {
            Err(error) if groups < GROUPS_FEW => Err(error),
            Err(_) => {
                self.groups_kept = GROUPS_FEW;
                Ok(true)
            }
            Ok(()) => Ok(groups > self.groups_kept),
        }
    }

    /// The states of all groups.
    fn states(&mut self) -> Result<RecordBatch> {
        let groups = self.runner.groups();
        let keys = self.schema.fields().len() - self.lowered.states.len();
        let mut columns = Vec::with_capacity(self.schema.fields().len());
        for (at, field) in self.schema.fields().iter().enumerate() {
            columns.push(match at.checked_sub(keys) {
                None => key_column(groups, at, field.data_type())?,
                Some(state) => state_column(groups, self.lowered.states[state], field.data_type())?,
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(groups.len()));
        let states = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?;
        if self.rows < groups.len() * ROWS_WORTH {
            self.groups_kept = GROUPS_FEW;
        }
        self.rows = 0;
        match self.groups_kept {
            // Memory is given back, unless it never was more.
            GROUPS_FEW if !self.is_settling => self.runner.renew(),
            _ => self.runner.clear(),
        }
        Ok(states)
    }

    fn poll_states(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        while !self.has_ended {
            match ready!(self.input.as_mut().poll_next(context)) {
                Some(read) => {
                    if let Err(error) = read.and_then(|read| self.add(&read)) {
                        self.has_ended = true;
                        return Poll::Ready(Some(Err(error)));
                    }
                    match self.has_many() {
                        Ok(false) => {}
                        Ok(true) => return Poll::Ready(Some(self.states())),
                        Err(error) => {
                            self.has_ended = true;
                            return Poll::Ready(Some(Err(error)));
                        }
                    }
                }
                None => {
                    self.has_ended = true;
                    return Poll::Ready(Some(self.states()));
                }
            }
        }
        Poll::Ready(None)
    }
}

impl Stream for PipelineStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.poll_states(context);
        self.counted.record_poll(next)
    }
}

impl RecordBatchStream for PipelineStream {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

pub(super) fn failed(fault: Fault) -> datafusion::error::DataFusionError {
    external(match fault {
        Fault::DivisionByZero => Error::new(SqlState::DivisionByZero, "division by zero"),
        Fault::Overflow(kind) => {
            let message = match kind {
                ValueKind::Int32 => "integer out of range",
                ValueKind::Int64 => "bigint out of range",
                ValueKind::Decimal { .. } => "value overflows numeric format",
                _ => "value out of range",
            };
            Error::new(SqlState::NumericValueOutOfRange, message)
        }
    })
}

/// A column of numbers in one of the types that pipelines have.
fn numbers(values: impl Iterator<Item = Option<i128>>, data_type: &DataType) -> Result<ArrayRef> {
    Ok(match data_type {
        DataType::Int32 => {
            Arc::new(Int32Array::from_iter(values.map(|value| value.map(|value| value as i32))))
        }
        DataType::Int64 => {
            Arc::new(Int64Array::from_iter(values.map(|value| value.map(|value| value as i64))))
        }
        DataType::Date32 => {
            Arc::new(Date32Array::from_iter(values.map(|value| value.map(|value| value as i32))))
        }
        DataType::Decimal128(precision, scale) => {
            let array: Decimal128Array = values.collect();
            Arc::new(array.with_precision_and_scale(*precision, *scale)?)
        }
        other => return internal_err!("a pipeline gives no {other}"),
    })
}

fn key_column(groups: &PipelineGroups, key: usize, data_type: &DataType) -> Result<ArrayRef> {
    let keys = (0..groups.len()).map(|group| groups.key(group, key));
    match data_type {
        DataType::Boolean => {
            let truth = |key: Option<Datum>| match key {
                Some(Datum::Bool(truth)) => Some(truth),
                _ => None,
            };
            Ok(Arc::new(BooleanArray::from_iter(keys.map(truth))))
        }
        DataType::Utf8View => {
            let mut texts = StringViewBuilder::new();
            for key in keys {
                texts.append_option(key.and_then(Datum::to_text));
            }
            Ok(Arc::new(texts.finish()))
        }
        _ => {
            let number = |key: Option<Datum>| match key {
                Some(Datum::Number(number)) => Some(number),
                _ => None,
            };
            numbers(keys.map(number), data_type)
        }
    }
}

fn state_column(groups: &PipelineGroups, part: StatePart, data_type: &DataType) -> Result<ArrayRef> {
    let all = 0..groups.len();
    match part {
        StatePart::Count(number) | StatePart::Extreme(number) => {
            numbers(all.map(|group| groups.aggregate(group, number)), data_type)
        }
        StatePart::Sum { sum, count } => {
            let value =
                |group| groups.aggregate(group, sum).filter(|_| groups.aggregate(group, count) != Some(0));
            numbers(all.map(value), data_type)
        }
    }
}
