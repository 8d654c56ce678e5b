//! Physical plans that run again (`docs/design/reused-plans.md`).
//!
//! To turn an optimized logical plan into operators takes longer than most queries of some thousand rows: every rule walks the whole
//! plan, and most operators derive their properties anew each time that one below them changes. So a statement that has been asked for
//! twice keeps its operators, with [`KeptScan`]s in place of scans; a later run copies them over its own view. What adapts a plan to
//! a run (filters of joins, shared parts, compiled code) is done to the copy.
//!
//! Invariant: no two runs share anything that changes while both go on. Each operator is made anew with its children replaced, and then
//! by `reset_state`, which gives joins another build side and sorts another bound. That is known of the operators in [`is_plain`] only;
//! a plan with any other is not kept.
//!
//! Values of parameters become constants in the copy ([`filled`]); a plan in which that cannot be done is not kept. Values of
//! subqueries ([`ScalarSubqueryExec`]) are in a place that expressions all over the plan look at, in every copy. So only one run at a time has
//! a copy of such a plan ([`Lent`]); another makes a plan of its own. The operator of subqueries has to be the topmost: one further down may
//! belong to a task that writes to that place when the run has already been given up.

use super::apart::Unordered;
use super::cooperate::Paced;
use super::error::from_datafusion;
use super::filled;
use super::generic::GenericParameters;
use super::late_columns::LateColumnsExec;
use super::scan::{KeptScan, ScanExec};
use ankerdb_engine::ReadView;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};
use futures::Stream;
use parking_lot::Mutex;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// How long a plan is used: what the planner has been told of values, other than the number of rows, may have become wrong.
const LASTS: Duration = Duration::from_secs(60);
/// Plans that a statement keeps for different values, such as a rare and a common one that come in turns.
const PLANS_MAX: usize = 2;

/// The operators of one statement, if they can be used again.
#[derive(Default)]
pub(super) struct ReusedPlan(Mutex<State>);

#[derive(Default)]
enum State {
    #[default]
    New,
    /// It has run once: many statements never come again.
    HasRun,
    /// Several for values of parameters with which other shares of rows pass, the newest last.
    Kept(Vec<Kept>),
    /// It has operators of which nobody knows whether they can be used again.
    Unfit,
}

struct Kept {
    plan: Arc<dyn ExecutionPlan>,
    /// If it stands for any values of its parameters.
    parameters: Option<Arc<GenericParameters>>,
    /// If only one run at a time may have a copy: the one that has it.
    lent: Option<Weak<()>>,
    /// Whether it was planned as for tests.
    is_eager: bool,
    made: Instant,
}

/// What a run is about.
#[derive(Clone, Copy)]
pub(super) struct Run<'a> {
    pub view: &'a ReadView,
    pub values: &'a [ScalarValue],
    /// Whether it is planned as for tests.
    pub is_eager: bool,
}

/// The operators of one run.
pub(super) struct Operators {
    pub plan: Arc<dyn ExecutionPlan>,
    /// To be kept until the run has ended.
    pub lent: Option<Lent>,
}

/// Says that a run has the only copy of a kept plan.
pub(super) struct Lent(Arc<()>);

impl Lent {
    /// These rows of the run, which has the copy until they are dropped.
    pub(super) fn with(self, rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
        Box::pin(LentRows { rows, _lent: self.0 })
    }
}

struct LentRows {
    /// Dropped first.
    rows: SendableRecordBatchStream,
    _lent: Arc<()>,
}

impl Stream for LentRows {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.rows.as_mut().poll_next(context)
    }
}

impl RecordBatchStream for LentRows {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }
}

impl Kept {
    fn is_of(&self, run: &Run<'_>) -> bool {
        self.is_eager == run.is_eager && self.made.elapsed() < LASTS
    }

    /// A copy for a run. `None` if another run has it, or another plan may be better by now.
    fn copy(&mut self, run: &Run<'_>) -> Result<Option<Operators>> {
        let is_lent = self.lent.as_ref().is_some_and(|lent| lent.strong_count() > 0);
        let values = self.parameters.as_ref().map(|parameters| parameters.fitted(run.values));
        if is_lent || matches!(values, Some(None)) {
            return Ok(None);
        }
        let values = values.flatten();
        let Some(plan) = over(self.plan.clone(), run.view, values.as_deref())? else { return Ok(None) };
        let lent = self.lent.as_mut().map(|lent| {
            let run = Arc::new(());
            *lent = Arc::downgrade(&run);
            Lent(run)
        });
        Ok(Some(Operators { plan, lent }))
    }
}

impl ReusedPlan {
    /// The operators of an earlier run for this one. `None` if there are none that are fit for it.
    pub(super) fn operators(&self, run: &Run<'_>) -> ankerdb_engine::Result<Option<Operators>> {
        let State::Kept(plans) = &mut *self.0.lock() else { return Ok(None) };
        let copies = plans.iter_mut().filter(|kept| kept.is_of(run)).map(|kept| kept.copy(run));
        copies.filter_map(Result::transpose).next().transpose().map_err(from_datafusion)
    }

    /// Whether a plan that is made now is to be kept: from the second run on; for tests, at once.
    pub(super) fn is_wanted(&self, run: &Run<'_>) -> bool {
        let mut state = self.0.lock();
        match &*state {
            State::Unfit => false,
            State::New if !run.is_eager => {
                *state = State::HasRun;
                false
            }
            _ => true,
        }
    }

    /// The statement has run, if not by this plan.
    pub(super) fn has_run(&self) {
        let mut state = self.0.lock();
        if matches!(*state, State::New) {
            *state = State::HasRun;
        }
    }

    /// What is to run in place of this new plan: a copy of it, where it can be kept, else itself. `None` for a generic plan that cannot: only copies
    /// have values.
    pub(super) fn keep(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        parameters: Option<Arc<GenericParameters>>,
        run: &Run<'_>,
    ) -> ankerdb_engine::Result<Option<Operators>> {
        let is_generic = parameters.is_some();
        let mut kept = kept(&plan, parameters, run.is_eager).map_err(from_datafusion)?;
        if kept.is_none() {
            self.give_up();
        }
        let copy = kept.as_mut().map_or(Ok(None), |kept| kept.copy(run)).map_err(from_datafusion)?;
        if let (Some(kept), Some(_)) = (kept, &copy) {
            let mut state = self.0.lock();
            let mut plans = match std::mem::take(&mut *state) {
                State::Kept(plans) if is_generic => plans,
                _ => Vec::new(),
            };
            plans.retain(|known| known.is_of(run));
            if plans.len() == PLANS_MAX {
                plans.remove(0);
            }
            plans.push(kept);
            *state = State::Kept(plans);
        }
        Ok(copy.or((!is_generic).then_some(Operators { plan, lent: None })))
    }

    /// Keeps none from now on.
    pub(super) fn give_up(&self) {
        *self.0.lock() = State::Unfit;
    }
}

#[cfg(test)]
impl ReusedPlan {
    pub(super) fn is_kept(&self) -> bool {
        matches!(&*self.0.lock(), State::Kept(_))
    }

    /// The values that each generic plan is made for that is kept.
    pub(super) fn first_values(&self) -> Vec<Vec<ScalarValue>> {
        let State::Kept(plans) = &*self.0.lock() else { return Vec::new() };
        let parameters = plans.iter().filter_map(|kept| kept.parameters.as_ref());
        parameters.map(|parameters| parameters.first_values().to_vec()).collect()
    }
}

/// What is kept of a plan. `None` if it cannot be.
fn kept(
    plan: &Arc<dyn ExecutionPlan>,
    parameters: Option<Arc<GenericParameters>>,
    is_eager: bool,
) -> Result<Option<Kept>> {
    if parameters.is_some() && filled::has_parameters_elsewhere(plan.as_ref())? {
        return Ok(None);
    }
    let has_subqueries = plan.is::<ScalarSubqueryExec>();
    let plan = match has_subqueries {
        true => with_children(plan.clone(), without_view)?,
        false => without_view(plan.clone())?,
    };
    let lent = has_subqueries.then(Weak::new);
    Ok(plan.map(|plan| Kept { plan, parameters, lent, is_eager, made: Instant::now() }))
}

/// The plan without what its scans read. `None` if it cannot be kept.
fn without_view(node: Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(scan) = node.downcast_ref::<ScanExec>() {
        return Ok(Some(Arc::new(scan.kept())));
    }
    match is_plain(node.as_ref()) {
        true => with_children(node, without_view),
        false => Ok(None),
    }
}

/// The plan with scans of this view, values in place of parameters if it has any, and nothing of any other run in it. `None` if it does not suit
/// the view or the values.
fn over(
    node: Arc<dyn ExecutionPlan>,
    view: &ReadView,
    values: Option<&[ScalarValue]>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(scan) = node.downcast_ref::<KeptScan>() {
        return Ok(scan.over(view).map(|scan| Arc::new(scan) as _));
    }
    let mut node = with_children(node, |child| over(child, view, values))?;
    if let (Some(unfilled), Some(values)) = (&node, values) {
        node = filled::with_values(unfilled, values)?;
    }
    node.map(|node| node.reset_state()).transpose()
}

/// The operator above what `changed` makes of those below it, which have the properties they had.
fn with_children(
    node: Arc<dyn ExecutionPlan>,
    changed: impl Fn(Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let children = node.children().into_iter().map(|child| changed(child.clone()));
    match children.collect::<Result<Option<Vec<_>>>>()? {
        Some(children) => {
            let keep = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
            node.replace_children(children, keep).map(Some)
        }
        None => Ok(None),
    }
}

/// Whether copies of the operator have nothing in common that changes when one of them runs.
fn is_plain(node: &dyn ExecutionPlan) -> bool {
    node.is::<FilterExec>()
        || node.is::<ProjectionExec>()
        || node.is::<AggregateExec>()
        || node.is::<HashJoinExec>()
        || node.is::<NestedLoopJoinExec>()
        || node.is::<CrossJoinExec>()
        || node.is::<SortExec>()
        || node.is::<SortPreservingMergeExec>()
        || node.is::<CoalescePartitionsExec>()
        || node.is::<RepartitionExec>()
        || node.is::<GlobalLimitExec>()
        || node.is::<LocalLimitExec>()
        || node.is::<UnionExec>()
        || node.is::<WindowAggExec>()
        || node.is::<BoundedWindowAggExec>()
        || node.is::<EmptyExec>()
        || node.is::<PlaceholderRowExec>()
        || node.is::<Paced>()
        || node.is::<Unordered>()
        || node.is::<LateColumnsExec>()
}
