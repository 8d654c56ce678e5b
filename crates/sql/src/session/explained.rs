//! EXPLAIN: the description of a plan, or of its run.

use super::SqlSession;
use crate::explain::{Explained, Meter};
use crate::plan::{Describer, ExplainPlan, Planned};
use crate::{Outcome, ResultRows};
use ankerdb_engine::{Result, Value};
use std::sync::Arc;
use std::time::{Duration, Instant};

impl SqlSession {
    pub(super) fn explain(
        &mut self,
        planned: &Planned,
        plan: &ExplainPlan,
        parameters: &[Value],
    ) -> Result<Outcome> {
        let (measured, execution_time) = match plan.options.analyze {
            true => {
                let (nodes, time) = self.run_measured(plan, parameters)?;
                (Some(nodes), Some(time))
            }
            false => (None, None),
        };
        let settings = if plan.options.settings { self.settings.planning_changes() } else { Vec::new() };
        let explained = Explained {
            options: &plan.options,
            nodes: measured.as_deref().unwrap_or(&plan.nodes),
            planning_time: plan.planning_time,
            execution_time,
            settings,
        };
        let rows = explained.rows().into_iter().map(|line| vec![Value::text(line)]).collect();
        Ok(self.ready(planned, rows, Some("EXPLAIN".into())))
    }

    /// Runs the statement as it runs without EXPLAIN, and describes that.
    fn run_measured(
        &mut self,
        plan: &ExplainPlan,
        parameters: &[Value],
    ) -> Result<(Vec<crate::explain::PlanNode>, Duration)> {
        let meter = Arc::new(Meter::new());
        self.runner.meter = Some(meter.clone());
        let begun = Instant::now();
        let ran = self.execute_planned(&plan.explained, parameters).and_then(|outcome| match outcome {
            Outcome::Rows(rows) => self.read_to_end(rows),
            _ => Ok(()),
        });
        self.runner.meter = None;
        ran?;
        let time = begun.elapsed();
        let (olap, cancel) = (self.runner.engine.olap(), &self.runner.cancel);
        let (verbose, compiler) = (plan.options.verbose, self.settings.compiler);
        let describer = Describer { olap, cancel, verbose, compiler, meter: Some(&meter) };
        Ok((describer.nodes(&plan.explained)?, time))
    }

    fn read_to_end(&self, mut rows: ResultRows) -> Result<()> {
        while rows.next_batch()?.is_some() {
            self.runner.interrupt().check()?;
        }
        Ok(())
    }
}
