//! Figure 7: throughput of transactions over time, first alone, then beside queries.

use super::PATTERNS;
use crate::finding::{Findings, Panel, Series};
use crate::harness::{Harness, unless_stopped};
use crate::tpcc::{ALL_QUERIES, Mix, TpcC};
use ankerdb_engine::Result;
use std::time::Duration;

/// Runs it.
///
/// # Errors
/// 57014 if the user stops it before there is something to report; the database's.
pub fn run(harness: &Harness<'_>) -> Result<Findings> {
    let setup = &harness.setup;
    let mut findings = Findings::default();
    harness.expect(PATTERNS.len() * setup.engines.len());
    // The paper samples each second of 180.
    let sample = (setup.time / 180).clamp(Duration::from_millis(250), Duration::from_secs(1));
    for (pattern, access) in PATTERNS {
        let mut panel = Panel::lines(&format!("{pattern}: throughput"), "seconds", "transactions/s");
        for &engine in &setup.engines {
            if harness.is_stopped() {
                break;
            }
            let loaded = TpcC::load(harness, engine, setup.warehouses[0], setup.olap);
            let Some(mut tpcc) = unless_stopped(loaded)? else { break };
            let mix = Mix { oltp: setup.oltp, streams: 1, access, queries: &ALL_QUERIES, sample };
            let result =
                harness.measure(&format!("{pattern} {}", engine.name()), || tpcc.run(harness, &mix))?;
            findings.notes.push(format!(
                "{pattern}, {}: {:.0} transactions/s before the first query, {:.0} from then on ({:.2}x), {} retries; {}",
                engine.name(),
                result.throughput_before,
                result.throughput,
                result.throughput / result.throughput_before.max(1e-9),
                result.retries,
                tpcc.how_queries_read()
            ));
            panel.series.push(Series::measured(engine.name(), result.samples));
        }
        findings.panels.push(panel);
    }
    Ok(findings)
}
