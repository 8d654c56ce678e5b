//! Figure 6: time of queries that share one snapshot, over the share of rows that transactions choose among.

use super::fig5::{QUERIES, WORKING_SETS};
use super::{Plan, contest};
use crate::finding::{Findings, Panel, Series};
use crate::harness::Harness;
use ankerdb_engine::Result;

/// What is shown of the times of a measurement.
const SHOWN: [&str; 3] = ["average", "least", "most"];

/// Runs it.
///
/// # Errors
/// The database's.
pub fn run(harness: &Harness<'_>) -> Result<Findings> {
    let mut panels = SHOWN.map(|shown| Panel::lines(&format!("Q6, {shown}"), "rows that change, %", "ms"));
    contest(harness, WORKING_SETS.len(), |name, rows, measure| {
        let mut points = [const { Vec::new() }; SHOWN.len()];
        for percent in WORKING_SETS {
            if harness.is_stopped() {
                break;
            }
            let working_set = rows * percent / 100;
            let plan = Plan { working_set, queries: QUERIES, sharing: QUERIES, seed: harness.setup.seed };
            let times = measure(plan)?.latency_ms();
            for (points, time) in points.iter_mut().zip(times) {
                points.push((percent as f64, time));
            }
        }
        for (panel, points) in panels.iter_mut().zip(points) {
            panel.series.push(Series::measured(name, points));
        }
        Ok(())
    })?;
    Ok(Findings { panels: panels.into(), notes: Vec::new() })
}
