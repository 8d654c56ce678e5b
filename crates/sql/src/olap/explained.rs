//! EXPLAIN of queries of the OLAP path: DataFusion's operators as nodes, with what they have counted in a run.

use super::compiled;
use super::scan::{BLOCKS_IN_CODES, BLOCKS_SKIPPED};
use super::{OlapEngine, OlapPlan, fitted, physical_plan};
use crate::CancelHandle;
use crate::compiler_mode::CompilerMode;
use crate::explain::{Actual, PlanNode, Probe};
use ankerdb_engine::{Error, Result, Value};
use chrono::{DateTime, Utc};
use datafusion::physical_plan::metrics::{MetricValue, MetricsSet};
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// An operator's own line.
struct Line<'a>(&'a dyn ExecutionPlan, DisplayFormatType);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_as(self.1, f)
    }
}

/// How a plan is told.
#[derive(Clone, Copy)]
pub(crate) struct Telling {
    pub verbose: bool,
    /// How its pipelines run, or have run.
    pub compiler: CompilerMode,
}

impl Telling {
    /// Whether it says why something is not compiled: where somebody wants to know.
    fn says_why_not(self) -> bool {
        match self.compiler {
            CompilerMode::Off => false,
            CompilerMode::On => self.verbose,
            CompilerMode::Always | CompilerMode::Interpreted => true,
        }
    }
}

/// An operator and those that it reads from. `began`: when their run began, if they have run.
fn described(operator: &dyn ExecutionPlan, telling: Telling, began: Option<DateTime<Utc>>) -> PlanNode {
    let form = if telling.verbose { DisplayFormatType::Verbose } else { DisplayFormatType::Default };
    // Names of our own begin with a byte that no text may have.
    let line = Line(operator, form).to_string().replace('\0', "").trim_end().to_owned();
    let kind = operator.name().to_owned();
    let rest = line.strip_prefix(&kind).map(|rest| rest.trim_start_matches(':').trim().to_owned());
    let mut node = PlanNode::new(kind, line);
    if let Some(details) = rest.filter(|rest| !rest.is_empty()) {
        node = node.part("Details", details);
    }
    if telling.says_why_not()
        && let Some(reason) = compiled::why_not(operator, telling.compiler)
    {
        node = node.part("Not Compiled", reason.clone());
        node.headline.push_str(&format!(", not compiled: {reason}"));
    }
    let metrics = began.and_then(|began| Some((began, operator.metrics()?)));
    let blocks =
        [(BLOCKS_SKIPPED, "Blocks Skipped", "skipped"), (BLOCKS_IN_CODES, "Blocks in Codes", "in codes")];
    for (counter, title, short) in blocks {
        let count = metrics.as_ref().and_then(|(_, metrics)| metrics.sum_by_name(counter));
        if let Some(count) = count.map(|count| count.as_usize()).filter(|count| *count > 0) {
            node = node.part(title, count.to_string());
            node.headline.push_str(&format!(", {short}={count}"));
        }
    }
    node = node.measured(metrics.and_then(|(began, metrics)| actual(&metrics, began)));
    node.below =
        operator.children().into_iter().map(|below| described(below.as_ref(), telling, began)).collect();
    node
}

/// What an operator has counted, all its partitions together.
fn actual(metrics: &MetricsSet, began: DateTime<Utc>) -> Option<Actual> {
    let rows = metrics.output_rows()? as u64;
    let (mut first, mut last) = (None, None);
    for metric in metrics.iter() {
        match metric.value() {
            MetricValue::StartTimestamp(moment) => {
                first = earlier(first, moment.value());
            }
            MetricValue::EndTimestamp(moment) => last = last.max(moment.value()),
            _ => {}
        }
    }
    let since = |moment: DateTime<Utc>| (moment - began).to_std().unwrap_or(Duration::ZERO);
    let times = first.zip(last).map(|(first, last)| (since(first), since(last)));
    Some(Actual { rows, times, removed: None })
}

fn earlier(one: Option<DateTime<Utc>>, other: Option<DateTime<Utc>>) -> Option<DateTime<Utc>> {
    [one, other].into_iter().flatten().min()
}

impl OlapEngine {
    /// The plan as planned over the data of now.
    async fn explained(&self, plan: &OlapPlan, telling: Telling) -> Result<PlanNode> {
        let nulls = vec![Value::Null; plan.parameters.len()];
        let view = self.database.snapshot().read_view();
        let logical = self.instantiate(plan, &nulls, None, &view)?;
        let state = match &self.forks {
            Some(forks) => forks.state().clone(),
            None => self.states.physical(telling.compiler, plan.shared_rows(&view)).clone(),
        };
        let physical = physical_plan(&state, &logical).await?;
        let physical = match self.forks {
            // Code is not made in copies of the process.
            Some(_) => physical,
            None => fitted(physical, telling.compiler)?,
        };
        Ok(described(physical.as_ref(), telling, None))
    }

    /// The plan as nodes, made on the analytical threads, unless the statement is ended before.
    pub(crate) fn explain_apart(
        &self,
        plan: &Arc<OlapPlan>,
        telling: Telling,
        cancel: &CancelHandle,
    ) -> Result<PlanNode> {
        let (engine, plan) = (self.clone(), plan.clone());
        self.wait_unless(cancel, async move { engine.explained(&plan, telling).await })
    }

    /// What a query has done that has run.
    pub(crate) fn measured_apart(
        &self,
        probe: Arc<Probe>,
        telling: Telling,
        cancel: &CancelHandle,
    ) -> Result<PlanNode> {
        self.wait_unless(cancel, async move {
            let operators =
                probe.operators.get().ok_or_else(|| Error::internal("a query without operators"))?;
            Ok(described(operators.as_ref(), telling, Some(probe.began)))
        })
    }
}
