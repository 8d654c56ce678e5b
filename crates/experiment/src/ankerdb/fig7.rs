//! Figure 7: latency of the seven OLAP transactions beside OLTP transactions, in relation to ours.

use crate::finding::{Findings, Panel};
use crate::harness::{Harness, unless_stopped};
use crate::stream::{Hybrid, HybridResult, run as run_hybrid};
use crate::tpch::TpcH;
use crate::tpch::queries::KINDS;
use ankerdb_engine::Result;
use std::time::Duration;

/// Runs of each query in the paper.
const RUNS: usize = 5;

/// Runs it.
///
/// # Errors
/// 57014 if the user stops it before there is something to report; the database's.
pub fn run(harness: &Harness<'_>) -> Result<Findings> {
    let setup = &harness.setup;
    let names: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
    let mut latency = Panel::bars("Latency", "query", "ms", &names);
    let mut whole = Panel::bars("Latency with creation of the snapshot", "query", "ms", &names);
    let mut relative = Panel::bars("Latency in relation to ankerdb", "query", "x", &names);
    let mut findings = Findings::default();
    let mut ours: Option<Vec<Option<f64>>> = None;
    harness.expect(setup.engines.len());
    for &engine in &setup.engines {
        if harness.is_stopped() {
            break;
        }
        let Some(world) = unless_stopped(TpcH::load(harness, engine, setup.olap))? else { break };
        let result = harness.measure(engine.name(), || measure(harness, &world))?;
        let latencies: Vec<Option<f64>> = (0..KINDS.len()).map(|query| result.latency_ms(query)).collect();
        latency.add(engine.name(), &latencies);
        let with_creation = (0..KINDS.len()).map(|query| result.creation_and_latency_ms(query));
        whole.add(engine.name(), &with_creation.collect::<Vec<_>>());
        if engine.has_snapshots() {
            ours.get_or_insert_with(|| latencies.clone());
        }
        if let Some(ours) = &ours {
            let ratios = latencies.iter().zip(ours).map(|(theirs, ours)| Some((*theirs)? / (*ours)?));
            relative.add(engine.name(), &ratios.collect::<Vec<_>>());
        }
        findings.notes.push(format!(
            "{}: {:.0} OLTP transactions/s beside the queries, each query {} times or more",
            engine.name(),
            result.throughput,
            (0..KINDS.len())
                .map(|query| result.queries.iter().filter(|run| run.query == query).count())
                .min()
                .unwrap_or(0)
        ));
    }
    findings.panels.extend([latency, whole]);
    if !relative.series.is_empty() {
        findings.panels.push(relative);
    }
    Ok(findings)
}

fn measure(harness: &Harness<'_>, world: &TpcH) -> Result<HybridResult> {
    let hybrid = Hybrid {
        transactions: (0..harness.setup.oltp as u64).map(|number| world.transact(number)).collect(),
        queries: vec![world.ask(0)],
        query_count: KINDS.len(),
        query_limit: RUNS * KINDS.len(),
        // Long enough for slow machines; it ends when the queries are through.
        time: harness.setup.time * 20,
        lead: harness.setup.lead,
        interval: Duration::ZERO,
        sample: Duration::from_secs(1),
        seed: harness.setup.seed,
    };
    run_hybrid(harness, hybrid)
}
