//! Filters right above a scan, whose conditions are compiled.
//!
//! Bitmaps, and code for what they cannot decide, find the numbers of the rows that pass, from columns as they are stored; only these rows are then copied, only of the columns
//! that somebody above reads, and only their numerics become wide. Joins that ask the scan for keys are asked for these rows.
//! ```text
//!   FilterExec: compared AND others        FilterExec: others
//!     ScanExec                      ►        SelectionExec: compared
//!                                              ScanExec          numerics as they are stored
//! ```

use super::super::batch_copies::BatchCopies;
use super::super::gathered::gathered;
use super::super::join_filters::{JoinKeys, ListedRows, ScanFilter};
use super::NO_NULLS;
use super::cache::{self, BatchCode};
use super::exec::{failed, read_with_copies};
use super::lower::{LoweredCondition, QuickCondition, lower_condition};
use super::slices::pipeline_batch;
use crate::compiler_mode::CompilerMode;
use ankerdb_compiler::{Pipeline, PipelineBatch, PipelineRunner};
use datafusion::arrow::array::{RecordBatch, UInt32Array};
use datafusion::arrow::compute::take_record_batch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr, conjunction};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
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

/// The plan with the conditions of filters above scans compiled, as far as they can be expressed. After
/// [`with_pipelines`](super::with_pipelines), which takes filters into aggregates.
pub(super) fn with_selections(
    plan: Arc<dyn ExecutionPlan>,
    mode: CompilerMode,
) -> Result<Arc<dyn ExecutionPlan>> {
    let selecting = plan.transform_up(|node| {
        let replacement = match node.downcast_ref::<FilterExec>() {
            Some(filter) => replaced(filter, mode)?,
            None => None,
        };
        Ok(match replacement {
            Some(replacement) => Transformed::yes(replacement),
            None => Transformed::no(node),
        })
    })?;
    Ok(selecting.data)
}

/// What takes a filter's place. Where there can be no code, it stays DataFusion's, as aggregates do.
fn replaced(filter: &FilterExec, mode: CompilerMode) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Ok(lowered) = lower_condition(filter, mode.rows_min()) else { return Ok(None) };
    let coded = match &lowered.quick {
        _ if mode == CompilerMode::Interpreted => None,
        Some(quick) => quick.rest.as_ref(),
        None => Some(&lowered.pipeline),
    };
    if coded.is_some_and(|coded| cache::code(coded, NO_NULLS).is_err()) {
        return Ok(None);
    }
    let others = conjunction(lowered.others.iter().cloned());
    let read = filter.input().schema();
    let given = filter
        .projection()
        .as_ref()
        .map_or_else(|| (0..read.fields().len()).collect(), |given| given.to_vec());
    let mut shown = given.clone();
    shown.extend(collect_columns(&others).iter().map(Column::index).filter(|column| !given.contains(column)));
    let is_whole = lowered.others.is_empty();
    // What operators above have been planned by: a column that equals a constant is sorted, for instance.
    let known = FilterExecBuilder::new(conjunction(lowered.terms.iter().cloned()), filter.input().clone())
        .apply_projection(Some(shown.clone()))?
        .build()?;
    let known = known.properties().equivalence_properties().clone();
    let selection = Arc::new(SelectionExec::new(lowered, shown.clone(), known, mode));
    if is_whole {
        return Ok(Some(selection));
    }
    let moved = others.transform(|node| {
        let Some(column) = node.downcast_ref::<Column>() else { return Ok(Transformed::no(node)) };
        let place = shown.iter().position(|&of| of == column.index()).expect("shown, as it is used");
        Ok(Transformed::yes(Arc::new(Column::new(column.name(), place)) as _))
    })?;
    let builder = FilterExecBuilder::new(moved.data, selection);
    Ok(Some(Arc::new(builder.apply_projection(Some((0..given.len()).collect()))?.build()?)))
}

/// See the module.
#[derive(Debug)]
struct SelectionExec {
    condition: Arc<LoweredCondition>,
    input: Arc<dyn ExecutionPlan>,
    /// Columns of the scan that are given.
    shown: Arc<[usize]>,
    /// Columns of the scan that are asked for by joins above.
    asked: Vec<(usize, Arc<JoinKeys>)>,
    mode: CompilerMode,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl SelectionExec {
    fn new(
        condition: LoweredCondition,
        shown: Vec<usize>,
        known: EquivalenceProperties,
        mode: CompilerMode,
    ) -> SelectionExec {
        let scan = condition.scan.as_ref();
        let (input, asked) = (Arc::new(scan.asked_by_blocks()), scan.asked().to_vec());
        let properties = PlanProperties::new(
            known,
            Partitioning::UnknownPartitioning(input.properties().output_partitioning().partition_count()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        SelectionExec {
            condition: Arc::new(condition),
            input,
            shown: shown.into(),
            asked,
            mode,
            properties: Arc::new(properties.with_scheduling_type(SchedulingType::Cooperative)),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    fn over(&self, input: Arc<dyn ExecutionPlan>) -> SelectionExec {
        SelectionExec {
            condition: self.condition.clone(),
            input,
            shown: self.shown.clone(),
            asked: self.asked.clone(),
            mode: self.mode,
            properties: self.properties.clone(),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for SelectionExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = match &self.condition.quick {
            _ if self.mode == CompilerMode::Interpreted => "interpreted",
            Some(quick) if quick.rest.is_none() => "by bitmaps",
            Some(_) => "by bitmaps, then compiled",
            None => "compiled",
        };
        write!(f, "SelectionExec: {}, {how}", conjunction(self.condition.terms.iter().cloned()))?;
        let schema = self.schema();
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        if names.len() < self.input.schema().fields().len() {
            write!(f, ", columns=[{}]", names.join(", "))?;
        }
        if !self.asked.is_empty() {
            let fields = self.input.schema();
            let asked: Vec<&str> =
                self.asked.iter().map(|(column, _)| fields.field(*column).name().as_str()).collect();
            write!(f, ", asked by joins=[{}]", asked.join(", "))?;
        }
        if format == DisplayFormatType::Verbose {
            let text = self.condition.pipeline.to_string();
            write!(f, ", pipeline=[{}]", text.trim_end().replace('\n', "; "))?;
        }
        Ok(())
    }
}

impl ExecutionPlan for SelectionExec {
    fn name(&self) -> &str {
        "SelectionExec"
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

    /// A plan that runs again goes without what joins ask for, as its scans do.
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(SelectionExec { asked: Vec::new(), ..self.over(self.input.clone()) }))
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
        let Some(runner) = PipelineRunner::new(&self.condition.pipeline, &self.condition.parameters) else {
            return internal_err!("a pipeline with other parameters than its own");
        };
        let code = || {
            let compile_time = MetricBuilder::new(&self.metrics).subset_time("compile_time", partition);
            BatchCode::new(self.mode != CompilerMode::Interpreted, compile_time)
        };
        let (input, copies) = read_with_copies(&self.input, partition, &context)?;
        let stream = SelectionStream {
            schema: Arc::new(input.schema().project(&self.shown)?),
            input,
            shown: self.shown.clone(),
            selector: RowSelector {
                copies,
                is_interpreted: self.mode == CompilerMode::Interpreted,
                listing: self.condition.pipeline.of_listed_rows(),
                condition: self.condition.clone(),
                runner,
                code: code(),
                rest_code: code(),
                filters: self
                    .asked
                    .iter()
                    .map(|(column, keys)| ScanFilter::new(*column, keys.clone()))
                    .collect(),
                asks_first: false,
            },
            counted: BaselineMetrics::new(&self.metrics, partition),
        };
        Ok(gathered(Box::pin(stream), self.schema()))
    }
}

/// Finds the rows of batches that pass the condition and are asked for.
struct RowSelector {
    condition: Arc<LoweredCondition>,
    copies: BatchCopies,
    /// Whether it does without bitmaps, too.
    is_interpreted: bool,
    /// The condition's pipeline, for rows of a list.
    listing: Pipeline,
    runner: PipelineRunner,
    code: BatchCode,
    /// Of what runs over a list: all, or what bitmaps do not decide.
    rest_code: BatchCode,
    filters: Vec<ScanFilter>,
    /// Whether joins are asked before the condition is computed: where fewer rows of the last batch have passed them.
    asks_first: bool,
}

impl RowSelector {
    fn rows(&mut self, read: &RecordBatch) -> Result<Vec<u32>> {
        let condition = self.condition.clone();
        let copies = self.copies.take();
        let batch = pipeline_batch(&condition.pipeline, &condition.columns, read, &copies)?;
        let quick = condition.quick.as_ref().filter(|_| !self.is_interpreted);
        let all = read.num_rows();
        // Which of the two leaves a smaller share comes first.
        let rows = if self.asks_first {
            let (asked, is_asked) = self.asked(read, None);
            let passed = asked.as_ref().map_or(all, Vec::len);
            let rows = self.decided(quick, &batch, asked.as_deref())?;
            self.asks_first = is_asked && rows.len() * all >= passed * passed;
            rows
        } else {
            let decided = self.decided(quick, &batch, None)?;
            let passed = decided.len();
            let (asked, is_asked) = self.asked(read, Some(decided));
            let rows = asked.unwrap_or_default();
            self.asks_first = is_asked && rows.len() * all < passed * passed;
            rows
        };
        let Some(rest) = quick.and_then(|quick| quick.rest.as_ref()).filter(|_| !rows.is_empty()) else {
            return Ok(rows);
        };
        let code = self.rest_code.of(rest, batch.nulls());
        self.runner.run_listed(rest, code.as_deref(), &batch, &rows).map_err(failed)?;
        Ok(self.runner.selected().to_vec())
    }

    /// The rows of all, or of a list, that pass the conditions that bitmaps decide, or else all conditions.
    fn decided(
        &mut self,
        quick: Option<&QuickCondition>,
        batch: &PipelineBatch<'_>,
        listed: Option<&[u32]>,
    ) -> Result<Vec<u32>> {
        match (quick, listed) {
            (Some(quick), listed) => self.runner.select(&quick.bitmaps, batch, listed),
            (None, None) => {
                let code = self.code.of(&self.condition.pipeline, batch.nulls());
                self.runner.run(code.as_deref(), batch).map_err(failed)?;
            }
            (None, Some(rows)) => {
                let code = self.rest_code.of(&self.listing, batch.nulls());
                self.runner.run_listed(&self.listing, code.as_deref(), batch, rows).map_err(failed)?;
            }
        }
        Ok(self.runner.selected().to_vec())
    }

    /// The rows, of those, that joins ask for; whether there was one that did.
    fn asked(&mut self, read: &RecordBatch, mut rows: ListedRows) -> (ListedRows, bool) {
        let asked = self.filters.iter_mut().filter_map(|filter| filter.retain(read, &mut rows));
        let is_asked = asked.count() > 0;
        (rows, is_asked)
    }
}

/// One partition. Canceling is the scan's: it gives way to others between batches.
struct SelectionStream {
    input: SendableRecordBatchStream,
    shown: Arc<[usize]>,
    schema: SchemaRef,
    selector: RowSelector,
    counted: BaselineMetrics,
}

impl SelectionStream {
    /// The batch's rows that pass, if there are any.
    fn selected(&mut self, read: &RecordBatch) -> Result<Option<RecordBatch>> {
        let rows = self.selector.rows(read)?;
        if rows.is_empty() {
            return Ok(None);
        }
        let shown = read.project(&self.shown)?;
        Ok(Some(match rows.len() == read.num_rows() {
            true => shown,
            // Of a batch without columns a part has as many rows, wherever they are.
            false if self.shown.is_empty() => shown.slice(0, rows.len()),
            false => take_record_batch(&shown, &UInt32Array::from(rows))?,
        }))
    }

    /// A batch without rows is none: what is above may be evaluated for it, which has to have rows to fail for.
    fn poll_selected(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        while let Some(read) = ready!(self.input.as_mut().poll_next(context)) {
            if let Some(selected) = read.and_then(|read| self.selected(&read)).transpose() {
                return Poll::Ready(Some(selected));
            }
        }
        Poll::Ready(None)
    }
}

impl Stream for SelectionStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.poll_selected(context);
        self.counted.record_poll(next)
    }
}

impl RecordBatchStream for SelectionStream {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
