//! Figure 7: throughput of transactions that choose among all rows, and time of queries, over the number of queries that share a
//! snapshot.

use super::{Plan, contest};
use crate::finding::{Findings, Panel, Series};
use crate::harness::Harness;
use ankerdb_engine::Result;

/// Queries that share a snapshot.
const SHARING: [usize; 4] = [10, 25, 50, 100];

/// Runs it.
///
/// # Errors
/// The database's.
pub fn run(harness: &Harness<'_>) -> Result<Findings> {
    let panel = |title, unit| Panel::lines(title, "queries that share a snapshot", unit);
    let mut panels = [
        panel("Transactions", "1000/s"),
        panel("Q6, average", "ms"),
        panel("Q6, least", "ms"),
        panel("Q6, most", "ms"),
    ];
    contest(harness, SHARING.len(), |name, rows, measure| {
        let mut points = [const { Vec::new() }; 4];
        for sharing in SHARING {
            if harness.is_stopped() {
                break;
            }
            let plan = Plan { working_set: rows, queries: sharing, sharing, seed: harness.setup.seed };
            let outcome = measure(plan)?;
            let [average, least, most] = outcome.latency_ms();
            for (points, value) in points.iter_mut().zip([outcome.kilo_per_second(), average, least, most]) {
                points.push((sharing as f64, value));
            }
        }
        for (panel, points) in panels.iter_mut().zip(points) {
            panel.series.push(Series::measured(name, points));
        }
        Ok(())
    })?;
    Ok(Findings { panels: panels.into(), notes: Vec::new() })
}
