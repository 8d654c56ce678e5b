//! Figure 5: throughput of transactions over the share of rows that they choose among, and over the number of queries that share a
//! snapshot.

use super::{Plan, contest};
use crate::finding::{Findings, Panel, Series};
use crate::harness::Harness;
use ankerdb_engine::Result;

/// Percent of the rows.
pub(super) const WORKING_SETS: [usize; 5] = [1, 4, 16, 50, 100];
/// Queries of a measurement.
pub(super) const QUERIES: usize = 10;
/// Queries that share a snapshot.
const SHARING: [usize; 4] = [10, 5, 2, 1];

/// Runs it.
///
/// # Errors
/// The database's.
pub fn run(harness: &Harness<'_>) -> Result<Findings> {
    let mut panels = Vec::new();
    contest(harness, SHARING.len() * WORKING_SETS.len(), |name, rows, measure| {
        let mut panel = Panel::lines(&format!("{name}: transactions"), "rows that change, %", "1000/s");
        for sharing in SHARING {
            let mut points = Vec::new();
            for percent in WORKING_SETS {
                if harness.is_stopped() {
                    break;
                }
                let working_set = rows * percent / 100;
                let plan = Plan { working_set, queries: QUERIES, sharing, seed: harness.setup.seed };
                points.push((percent as f64, measure(plan)?.kilo_per_second()));
            }
            let each = if sharing == 1 { "1 query".to_owned() } else { format!("{sharing} queries") };
            panel.series.push(Series::measured(format!("a snapshot for {each}"), points));
        }
        panels.push(panel);
        Ok(())
    })?;
    Ok(Findings { panels, notes: Vec::new() })
}
