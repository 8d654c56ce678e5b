//! Figure 6: what a snapshot costs, and how long the eight queries take beside an endless stream of transactions.

use super::PATTERNS;
use crate::finding::{Findings, Panel};
use crate::harness::{Harness, unless_stopped};
use crate::tpcc::{ALL_QUERIES, Mix, TpcC};
use ankerdb_engine::Result;
use ankerdb_workload::htap::queries::QUERIES;
use std::time::Duration;

/// Runs it.
///
/// # Errors
/// 57014 if the user stops it before there is something to report; the database's.
pub fn run(harness: &Harness<'_>) -> Result<Findings> {
    let setup = &harness.setup;
    let names = QUERIES.map(|query| query.name);
    let mut findings = Findings::default();
    harness.expect(PATTERNS.len() * setup.engines.len());
    for (pattern, access) in PATTERNS {
        let mut latency = Panel::bars(&format!("{pattern}: latency"), "query", "ms", &names);
        let mut creation = Panel::bars(&format!("{pattern}: snapshot creation"), "query", "us", &names);
        let title = format!("{pattern}: creation and first read, by the query");
        let mut both = Panel::bars(&title, "query", "ms", &names);
        for &engine in &setup.engines {
            if harness.is_stopped() {
                break;
            }
            let loaded = TpcC::load(harness, engine, setup.warehouses[0], setup.olap);
            let Some(mut tpcc) = unless_stopped(loaded)? else { break };
            let mix = Mix {
                oltp: setup.oltp,
                streams: 1,
                access,
                queries: &ALL_QUERIES,
                sample: Duration::from_secs(1),
            };
            let result =
                harness.measure(&format!("{pattern} {}", engine.name()), || tpcc.run(harness, &mix))?;
            latency.add(engine.name(), &ALL_QUERIES.map(|query| result.latency_ms(query)));
            if engine.has_snapshots() {
                creation.add(engine.name(), &ALL_QUERIES.map(|query| result.creation_us(query)));
                both.add(engine.name(), &ALL_QUERIES.map(|query| result.creation_and_latency_ms(query)));
            }
            findings.notes.push(format!(
                "{pattern}, {}: {:.0} transactions/s beside the queries, {} queries, {} order lines at the end; {}",
                engine.name(),
                result.throughput,
                result.queries.len(),
                tpcc.order_lines(),
                tpcc.how_queries_read()
            ));
        }
        findings.panels.push(latency);
        if !creation.series.is_empty() {
            findings.panels.extend([creation, both]);
        }
    }
    Ok(findings)
}
