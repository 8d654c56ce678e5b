//! EXPLAIN: what is shown of a plan, and of its run.
//!
//! ```text
//! plan --- describe (plan/explain.rs, olap/explained.rs) ---> tree of nodes --- text, document ---> rows
//! run  --- meter ------------------------------------------------┘ with ANALYZE: rows and times
//! ```
//! ANALYZE runs the statement as it would run without EXPLAIN, in the session's transaction, on the same paths; a [`Meter`] beside it
//! notes what the OLTP path finds, and keeps the plans of the OLAP path, whose operators count for themselves. Without ANALYZE there is
//! no meter, and a statement pays a look at that.
//!
//! A node shows what is known: nothing here estimates costs, so none are shown.

mod document;
mod meter;
mod options;
mod text;

pub(crate) use meter::{Meter, Probe, Stage, address};
pub(crate) use options::ExplainOptions;

use std::borrow::Cow;
use std::time::Duration;

/// What a node has beside its name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fact {
    Text(String),
    Number(u64),
    List(Vec<String>),
}

/// A part of a plan.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlanNode {
    /// What it does, in a word or two.
    pub kind: Cow<'static, str>,
    /// A line of text that says so, with what it does that to.
    pub headline: String,
    /// What the line says, part by part, for documents.
    pub parts: Vec<(&'static str, String)>,
    /// What stands below the line.
    pub facts: Vec<(&'static str, Fact)>,
    pub actual: Option<Actual>,
    pub below: Vec<PlanNode>,
}

impl PlanNode {
    pub(crate) fn new(kind: impl Into<Cow<'static, str>>, headline: impl Into<String>) -> PlanNode {
        PlanNode { kind: kind.into(), headline: headline.into(), ..PlanNode::default() }
    }

    pub(crate) fn part(mut self, name: &'static str, value: impl Into<String>) -> PlanNode {
        self.parts.push((name, value.into()));
        self
    }

    pub(crate) fn fact(mut self, name: &'static str, value: impl Into<String>) -> PlanNode {
        self.facts.push((name, Fact::Text(value.into())));
        self
    }

    /// This node over one that it reads from.
    pub(crate) fn over(mut self, below: PlanNode) -> PlanNode {
        self.below.push(below);
        self
    }

    pub(crate) fn measured(mut self, actual: Option<Actual>) -> PlanNode {
        self.actual = actual;
        self
    }
}

/// What a node has done in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Actual {
    pub rows: u64,
    /// When its first row came, and its last one; `None` where nothing has looked at the clock.
    pub times: Option<(Duration, Duration)>,
    /// Rows that its filter has left out.
    pub removed: Option<u64>,
}

/// What EXPLAIN shows.
pub(crate) struct Explained<'a> {
    pub options: &'a ExplainOptions,
    pub nodes: &'a [PlanNode],
    pub planning_time: Duration,
    pub execution_time: Option<Duration>,
    /// Settings that have been changed and may change plans.
    pub settings: Vec<(&'static str, String)>,
}

impl Explained<'_> {
    /// The rows of the result.
    pub(crate) fn rows(&self) -> Vec<String> {
        match self.options.format {
            options::ExplainFormat::Text => text::lines(self),
            options::ExplainFormat::Json => vec![document::json(self)],
            options::ExplainFormat::Yaml => vec![document::yaml(self)],
        }
    }
}

/// A plan as lines of text.
pub(crate) fn lines(node: PlanNode) -> Vec<String> {
    let (options, planning_time) = (ExplainOptions::default(), Duration::ZERO);
    let settings = Vec::new();
    Explained { options: &options, nodes: &[node], planning_time, execution_time: None, settings }.rows()
}

/// Milliseconds, as PostgreSQL writes them.
fn milliseconds(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64() * 1000.0)
}
