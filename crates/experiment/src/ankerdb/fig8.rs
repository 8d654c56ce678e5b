//! Figure 8: how fast a batch is answered, of OLTP transactions alone and with OLAP transactions among them.

use super::batch;
use crate::finding::{Findings, Panel};
use crate::harness::{Harness, unless_stopped};
use crate::tpch::TpcH;
use ankerdb_engine::Result;

/// Runs it.
///
/// # Errors
/// 57014 if the user stops it before there is something to report; the database's.
pub fn run(harness: &Harness<'_>) -> Result<Findings> {
    let setup = &harness.setup;
    let threads = setup.oltp + setup.olap;
    let names = ["OLTP only", "OLTP and OLAP"];
    let mut panel = Panel::bars("Throughput of a batch", "batch", "transactions/s", &names);
    let mut findings = Findings::default();
    harness.expect(setup.engines.len() * names.len());
    for &engine in &setup.engines {
        if harness.is_stopped() {
            break;
        }
        let Some(world) = unless_stopped(TpcH::load(harness, engine, threads))? else { break };
        let mut rates = [None; 2];
        for (rate, mixed) in rates.iter_mut().zip([false, true]) {
            if harness.is_stopped() {
                break;
            }
            let label = format!("{} {}", engine.name(), names[usize::from(mixed)]);
            let result = harness.measure(&label, || batch(harness, &world, threads, mixed))?;
            *rate = Some(result.per_second());
            findings.notes.push(format!(
                "{label}: {} answered in {:.2} s, {} queries among them",
                result.answered,
                result.elapsed.as_secs_f64(),
                result.queries
            ));
        }
        panel.add(engine.name(), &rates);
    }
    findings.panels.push(panel);
    Ok(findings)
}
