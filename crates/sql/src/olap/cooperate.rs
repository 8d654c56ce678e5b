//! Makes joins give way, and end when nobody wants their rows any more.
//!
//! A task of the async runtime can be canceled only where it gives way, and lets others run only there. Scans do
//! after some batches, but a join turns one batch that it reads into thousands without reading another, and may look at
//! millions of pairs of rows for each row that it gives: the operators above would run for hours in one piece.
//!
//! - An operator above each join ([`Pace::TimeSlices`]) gives way when the join has worked for some milliseconds. The rule
//!   [`YieldAboveJoins`] puts it there when a query is planned.
//! - A join whose condition rejects nearly everything does not come back to that operator for long, but reads on. So an
//!   operator below it ([`Pace::Portions`]) hands it as many rows of its outer side as keep it busy for some milliseconds, one at
//!   least, and gives way between them.
//! - One row beside a large inner side may take long, too. So the condition, which the join computes for a batch of pairs at a
//!   time, fails once the run of the query has ended ([`interruptible`]).

use super::framed::is_own;
use super::recomputed::is_recomputed;
use crate::rows::RunEnd;
use ankerdb_engine::ROWS_PER_BLOCK;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{FieldRef, Schema, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::exec_err;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{ColumnarValue, WindowUDF};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::window::{SlidingAggregateWindowExpr, StandardWindowExpr, WindowExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder};
use datafusion::physical_plan::windows::{
    BoundedWindowAggExec, WindowAggExec, WindowUDFExpr, create_udwf_window_expr,
};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::Stream;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// How long a join works before it gives way.
const SLICE: Duration = Duration::from_millis(10);

/// See the module.
#[derive(Debug)]
pub(crate) struct YieldAboveJoins;

/// Operators that give more batches than they read.
const MULTIPLYING: [&str; 7] = [
    "NestedLoopJoinExec",
    "CrossJoinExec",
    "HashJoinExec",
    "SortMergeJoinExec",
    "PiecewiseMergeJoinExec",
    "UnnestExec",
    "SetRowsExec",
];

impl PhysicalOptimizerRule for YieldAboveJoins {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let wrapped = plan.transform_up(|node| {
            Ok(match MULTIPLYING.contains(&node.name()) {
                true => {
                    let input = in_portions(node)?;
                    Transformed::yes(Paced::plan(input, Pace::TimeSlices))
                }
                false => Transformed::no(node),
            })
        })?;
        Ok(wrapped.data)
    }

    fn name(&self) -> &str {
        "yield_above_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Passes rows on, and gives way now and then.
#[derive(Debug)]
pub(super) struct Paced {
    input: Arc<dyn ExecutionPlan>,
    pace: Pace,
}

/// When to give way.
#[derive(Clone, Copy, Debug)]
enum Pace {
    /// When making the batches has taken long.
    TimeSlices,
    /// Between portions that keep the operator above busy for a slice of time.
    Portions,
}

impl Paced {
    fn plan(input: Arc<dyn ExecutionPlan>, pace: Pace) -> Arc<dyn ExecutionPlan> {
        Arc::new(Paced { input, pace })
    }
}

impl DisplayAs for Paced {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for Paced {
    fn name(&self) -> &str {
        match self.pace {
            Pace::TimeSlices => "TimeSlices",
            Pace::Portions => "Portions",
        }
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
        Ok(Paced::plan(children.swap_remove(0), self.pace))
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Paced::plan(children.swap_remove(0), self.pace))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        let worked = Duration::ZERO;
        Ok(match self.pace {
            Pace::TimeSlices => Box::pin(Slices { input, worked }),
            Pace::Portions => Box::pin(Portioned { input, batch: None, rows: 1, given: None, worked }),
        })
    }
}

struct Slices {
    input: SendableRecordBatchStream,
    /// Since it gave way.
    worked: Duration,
}

impl Stream for Slices {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.worked >= SLICE {
            self.worked = Duration::ZERO;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let begun = Instant::now();
        let next = self.input.as_mut().poll_next(context);
        self.worked = if next.is_pending() { Duration::ZERO } else { self.worked + begun.elapsed() };
        next
    }
}

impl RecordBatchStream for Slices {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}

/// The join with its outer side in portions, if it has a condition that may reject what it joins.
fn in_portions(join: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let nested = join.downcast_ref::<NestedLoopJoinExec>().is_some_and(|join| join.filter().is_some());
    let hashed = join.downcast_ref::<HashJoinExec>().is_some_and(|join| join.filter().is_some());
    let [inner, outer] = join.children()[..] else { return Ok(join) };
    if !nested && !hashed {
        return Ok(join);
    }
    let children = vec![inner.clone(), Paced::plan(outer.clone(), Pace::Portions)];
    join.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

struct Portioned {
    input: SendableRecordBatchStream,
    /// What is left to give of a batch.
    batch: Option<RecordBatch>,
    /// How many rows a portion has.
    rows: usize,
    /// When the last portion was given.
    given: Option<Instant>,
    /// What the operator above took for portions since it gave way.
    worked: Duration,
}

impl Portioned {
    /// Notes how long the operator above has worked at a portion.
    fn note(&mut self, took: Duration) {
        self.worked += took;
        self.rows = match took {
            long if long > SLICE => (self.rows / 2).max(1),
            short if short < SLICE / 4 => self.rows.saturating_mul(2).min(ROWS_PER_BLOCK),
            _ => self.rows,
        };
    }

    fn portion(&mut self) -> Option<RecordBatch> {
        let batch = self.batch.take()?;
        let rows = self.rows.min(batch.num_rows());
        if rows < batch.num_rows() {
            self.batch = Some(batch.slice(rows, batch.num_rows() - rows));
        }
        self.given = Some(Instant::now());
        Some(batch.slice(0, rows))
    }
}

impl Stream for Portioned {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(given) = self.given.take() {
            self.note(given.elapsed());
        }
        if self.worked >= SLICE {
            self.worked = Duration::ZERO;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.batch.is_none() {
            match self.input.as_mut().poll_next(context) {
                Poll::Ready(Some(Ok(batch))) => self.batch = Some(batch),
                Poll::Pending => {
                    self.worked = Duration::ZERO;
                    return Poll::Pending;
                }
                other => return other,
            }
        }
        Poll::Ready(self.portion().map(Ok))
    }
}

impl RecordBatchStream for Portioned {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}

/// The plan, for one run: its joins and its frames that move fail soon after the run has ended.
pub(super) fn interruptible(plan: Arc<dyn ExecutionPlan>, end: &RunEnd) -> Result<Arc<dyn ExecutionPlan>> {
    let with_conditions = plan.transform_up(|node| {
        if let Some(windows) = with_end(&node, end)? {
            return Ok(Transformed::yes(windows));
        }
        let Some((join, filter)) =
            node.downcast_ref::<NestedLoopJoinExec>().and_then(|join| Some((join, join.filter()?)))
        else {
            return Ok(Transformed::no(node));
        };
        let condition = Interruptible { condition: filter.expression().clone(), end: end.clone() };
        let filter =
            JoinFilter::new(Arc::new(condition), filter.column_indices().to_vec(), filter.schema().clone());
        let join = NestedLoopJoinExecBuilder::from(join).with_filter(Some(filter)).build()?;
        Ok(Transformed::yes(Arc::new(join) as Arc<dyn ExecutionPlan>))
    })?;
    Ok(with_conditions.data)
}

/// Windows that know the run's end, if they may compute aggregates anew for each row.
fn with_end(node: &Arc<dyn ExecutionPlan>, end: &RunEnd) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let bounded = node.downcast_ref::<BoundedWindowAggExec>();
    let whole = node.downcast_ref::<WindowAggExec>();
    let Some(windows) = bounded.map(|node| node.window_expr()).or(whole.map(|node| node.window_expr()))
    else {
        return Ok(None);
    };
    let is_recomputed = |window: &Arc<dyn WindowExpr>| {
        let sliding = window.as_any().downcast_ref::<SlidingAggregateWindowExpr>();
        sliding.is_some_and(|sliding| is_recomputed(sliding.get_aggregate_expr().fun()))
    };
    if !windows.iter().any(|window| is_recomputed(window) || framed(window).is_some()) {
        return Ok(None);
    }
    let schema = node.children()[0].schema();
    let ending = |condition| Arc::new(Interruptible { condition, end: end.clone() }) as Arc<dyn PhysicalExpr>;
    let windows = windows.iter().map(|window| {
        let all = window.all_expressions();
        let args: Vec<_> = all.args.into_iter().map(ending).collect();
        if let Some(function) = framed(window) {
            let name = window.name().to_owned();
            let call = create_udwf_window_expr(function, &args, &schema, name, false)?;
            let (parts, frame) = (window.partition_by(), window.get_window_frame().clone());
            return Ok(Arc::new(StandardWindowExpr::new(call, parts, window.order_by(), frame)) as _);
        }
        let changed = if is_recomputed(window) {
            window.with_new_expressions(args, all.partition_by_exprs, all.order_by_exprs)
        } else {
            None
        };
        Ok(changed.unwrap_or_else(|| window.clone()))
    });
    let (windows, input) = (windows.collect::<Result<Vec<_>>>()?, node.children()[0].clone());
    Ok(Some(match bounded {
        Some(node) => {
            Arc::new(BoundedWindowAggExec::try_new(windows, input, node.input_order_mode.clone(), true)?)
        }
        None => Arc::new(WindowAggExec::try_new(windows, input, true)?),
    }))
}

/// The window's function, if it is one over frames of ours.
fn framed(window: &Arc<dyn WindowExpr>) -> Option<&Arc<WindowUDF>> {
    let standard = window.as_any().downcast_ref::<StandardWindowExpr>()?;
    let call = standard.get_standard_func_expr().as_any().downcast_ref::<WindowUDFExpr>()?;
    is_own(call.fun()).then(|| call.fun())
}

/// The end of the run that an expression looks at, and what it computes.
pub(super) fn ended(expression: &Arc<dyn PhysicalExpr>) -> (Option<&RunEnd>, &Arc<dyn PhysicalExpr>) {
    match expression.downcast_ref::<Interruptible>() {
        Some(known) => (Some(&known.end), &known.condition),
        None => (None, expression),
    }
}

/// An expression that fails once the run has ended: a join's condition, an argument of a window.
#[derive(Debug)]
struct Interruptible {
    condition: Arc<dyn PhysicalExpr>,
    end: RunEnd,
}

impl PartialEq for Interruptible {
    fn eq(&self, other: &Interruptible) -> bool {
        self.condition.eq(&other.condition)
    }
}

impl Eq for Interruptible {}

impl Hash for Interruptible {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.condition.hash(state);
    }
}

impl fmt::Display for Interruptible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt(f)
    }
}

impl PhysicalExpr for Interruptible {
    fn return_field(&self, input: &Schema) -> Result<FieldRef> {
        self.condition.return_field(input)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        if self.end.has_come() {
            return exec_err!("nobody waits for the query any more");
        }
        self.condition.evaluate(batch)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.condition]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(Interruptible { condition: children.swap_remove(0), end: self.end.clone() }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt_sql(f)
    }
}
