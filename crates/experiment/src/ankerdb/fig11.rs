//! Figure 11: the batches of Figure 8 over the number of threads.

use super::batch;
use crate::finding::{Findings, Panel, Series};
use crate::harness::{Harness, unless_stopped};
use crate::tpch::TpcH;
use ankerdb_engine::Result;

/// Runs it.
///
/// # Errors
/// 57014 if the user stops it before there is something to report; the database's.
pub fn run(harness: &Harness<'_>) -> Result<Findings> {
    let setup = &harness.setup;
    let threads = setup.oltp;
    let titles = ["OLTP only", "OLTP and OLAP"];
    let mut panels = titles.map(|title| Panel::lines(title, "threads", "transactions/s"));
    let mut notes = Vec::new();
    harness.expect(setup.engines.len() * threads * titles.len());
    for &engine in &setup.engines {
        let Some(world) = unless_stopped(TpcH::load(harness, engine, threads))? else { break };
        let mut rates: [Vec<(f64, f64)>; 2] = Default::default();
        for count in 1..=threads {
            for (rates, mixed) in rates.iter_mut().zip([false, true]) {
                if harness.is_stopped() {
                    break;
                }
                let label = format!("{} {} {count} threads", engine.name(), titles[usize::from(mixed)]);
                let result = harness.measure(&label, || batch(harness, &world, count, mixed))?;
                rates.push((count as f64, result.per_second()));
            }
        }
        for ((panel, title), rates) in panels.iter_mut().zip(titles).zip(rates) {
            if let [(_, one), .., (count, most)] = rates[..] {
                let factor = most / one.max(1e-9);
                notes.push(format!("{} {title}: {factor:.2}x with {count} threads", engine.name()));
            }
            panel.series.push(Series::measured(engine.name(), rates));
        }
    }
    Ok(Findings { panels: panels.into(), notes })
}
