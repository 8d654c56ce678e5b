//! Figure 8: latency of Q1 and Q6 over the number of OLTP streams, throughput over the number of OLAP streams.

use crate::finding::{Findings, Panel, Series};
use crate::lab::{Lab, unless_stopped};
use crate::tpcc::{ALL_QUERIES, Mix, TpcC};
use ankerdb_engine::{Configuration, Result};
use ankerdb_workload::tpcc::input::Access;
use std::time::Duration;

/// Streams of the kind that does not vary.
pub(crate) const FIXED_STREAMS: usize = 2;
/// Positions of Q1 and Q6.
const ASKED: [usize; 2] = [0, 5];

/// Runs it.
pub fn run(lab: &Lab<'_>) -> Result<Findings> {
    let setup = &lab.setup;
    lab.expect(setup.engines.len() * (setup.oltp + setup.olap));
    let mut q1 = Panel::lines("(a) Q1, 2 OLAP streams", "OLTP streams", "ms");
    let mut q6 = Panel::lines("(b) Q6, 2 OLAP streams", "OLTP streams", "ms");
    let mut throughput = Panel::lines("(c) throughput, 2 OLTP streams", "OLAP streams", "transactions/s");
    let mut findings = Findings::default();
    for &engine in &setup.engines {
        let latencies = over_oltp_streams(lab, engine)?;
        for (panel, position) in [(&mut q1, 0), (&mut q6, 1)] {
            let points =
                latencies.iter().filter_map(|(streams, latency)| Some((*streams as f64, latency[position]?)));
            panel.series.push(Series::measured(engine.name(), points.collect()));
        }
        let rates = over_olap_streams(lab, engine)?;
        if let [(first, most), .., (last, least)] = rates[..] {
            findings.notes.push(format!(
                "{}: throughput with {last} OLAP streams {:+.1}% against {first}",
                engine.name(),
                (least / most.max(1e-9) - 1.0) * 100.0
            ));
        }
        throughput.series.push(Series::measured(engine.name(), rates));
    }
    findings.panels = vec![q1, q6, throughput];
    Ok(findings)
}

/// Latencies of the two queries, whose tables do not grow: one database serves all points.
fn over_oltp_streams(lab: &Lab<'_>, engine: Configuration) -> Result<Vec<(usize, [Option<f64>; 2])>> {
    let mut latencies = Vec::new();
    let loaded = TpcC::load(lab, engine, lab.setup.warehouses[0], FIXED_STREAMS);
    let Some(mut tpcc) = unless_stopped(loaded)? else { return Ok(latencies) };
    for oltp in 1..=lab.setup.oltp {
        if lab.is_stopped() {
            break;
        }
        let mix = Mix { oltp, streams: FIXED_STREAMS, queries: &ASKED, ..mix() };
        let result =
            lab.measure(&format!("{} {oltp} OLTP streams", engine.name()), || tpcc.run(lab, &mix))?;
        latencies.push((oltp, ASKED.map(|query| result.latency_ms(query))));
    }
    Ok(latencies)
}

/// Throughput beside all queries; every point has freshly loaded tables.
fn over_olap_streams(lab: &Lab<'_>, engine: Configuration) -> Result<Vec<(f64, f64)>> {
    let mut rates = Vec::new();
    for streams in 1..=lab.setup.olap {
        if lab.is_stopped() {
            break;
        }
        let loaded = TpcC::load(lab, engine, lab.setup.warehouses[0], streams);
        let Some(mut tpcc) = unless_stopped(loaded)? else { break };
        let mix = Mix { oltp: FIXED_STREAMS, streams, ..mix() };
        let result =
            lab.measure(&format!("{} {streams} OLAP streams", engine.name()), || tpcc.run(lab, &mix))?;
        rates.push((streams as f64, result.throughput));
    }
    Ok(rates)
}

fn mix() -> Mix<'static> {
    Mix {
        oltp: FIXED_STREAMS,
        streams: FIXED_STREAMS,
        access: Access::Uniform,
        queries: &ALL_QUERIES,
        sample: Duration::from_secs(1),
    }
}
