//! Figure 8: latency of Q1 and Q6 over the number of OLTP streams, throughput over the number of OLAP streams.

use crate::finding::{Findings, Panel, Series};
use crate::harness::{Harness, unless_stopped};
use crate::setup::FIXED_STREAMS;
use crate::tpcc::{ALL_QUERIES, Mix, TpcC};
use ankerdb_engine::{Configuration, Result};
use ankerdb_workload::tpcc::input::Access;
use std::time::Duration;

/// Positions of Q1 and Q6.
const ASKED: [usize; 2] = [0, 5];

/// Runs it.
///
/// # Errors
/// 57014 if the user stops it before there is something to report; the database's.
pub fn run(harness: &Harness<'_>) -> Result<Findings> {
    let setup = &harness.setup;
    harness.expect(setup.engines.len() * (setup.oltp + setup.olap));
    let mut q1 = Panel::lines("(a) Q1, 2 OLAP streams", "OLTP streams", "ms");
    let mut q6 = Panel::lines("(b) Q6, 2 OLAP streams", "OLTP streams", "ms");
    let titles = ["(a) Q1 with creation of its snapshot", "(b) Q6 with creation of its snapshot"];
    let [mut q1_whole, mut q6_whole] = titles.map(|title| Panel::lines(title, "OLTP streams", "ms"));
    let mut throughput = Panel::lines("(c) throughput, 2 OLTP streams", "OLAP streams", "transactions/s");
    let mut findings = Findings::default();
    for &engine in &setup.engines {
        let (times, how) = over_oltp_streams(harness, engine)?;
        findings.notes.push(format!("{}, (a) and (b): {how}", engine.name()));
        let panels = [&mut q1, &mut q6, &mut q1_whole, &mut q6_whole];
        for (position, panel) in panels.into_iter().enumerate() {
            let points =
                times.iter().filter_map(|(streams, times)| Some((*streams as f64, times[position]?)));
            panel.series.push(Series::measured(engine.name(), points.collect()));
        }
        let rates = over_olap_streams(harness, engine)?;
        if let [(first, most), .., (last, least)] = rates[..] {
            findings.notes.push(format!(
                "{}: throughput with {last} OLAP streams {:+.1}% against {first}",
                engine.name(),
                (least / most.max(1e-9) - 1.0) * 100.0
            ));
        }
        throughput.series.push(Series::measured(engine.name(), rates));
    }
    findings.panels = vec![q1, q6, q1_whole, q6_whole, throughput];
    Ok(findings)
}

/// By the number of OLTP streams, latencies of the two queries, without and with the creation of their snapshots.
type Times = Vec<(usize, [Option<f64>; 4])>;

/// The queries' tables do not grow: one database serves all points. Also how queries read.
fn over_oltp_streams(harness: &Harness<'_>, engine: Configuration) -> Result<(Times, String)> {
    let mut times = Vec::new();
    let loaded = TpcC::load(harness, engine, harness.setup.warehouses[0], FIXED_STREAMS);
    let Some(mut tpcc) = unless_stopped(loaded)? else { return Ok((times, "stopped".to_owned())) };
    for oltp in 1..=harness.setup.oltp {
        if harness.is_stopped() {
            break;
        }
        let mix = Mix { oltp, streams: FIXED_STREAMS, queries: &ASKED, ..mix() };
        let result =
            harness.measure(&format!("{} {oltp} OLTP streams", engine.name()), || tpcc.run(harness, &mix))?;
        let [q1, q6] = ASKED.map(|query| result.latency_ms(query));
        let [q1_whole, q6_whole] = ASKED.map(|query| result.creation_and_latency_ms(query));
        times.push((oltp, [q1, q6, q1_whole, q6_whole]));
    }
    Ok((times, tpcc.how_queries_read()))
}

/// Throughput beside all queries; every point has freshly loaded tables.
fn over_olap_streams(harness: &Harness<'_>, engine: Configuration) -> Result<Vec<(f64, f64)>> {
    let mut rates = Vec::new();
    for streams in 1..=harness.setup.olap {
        if harness.is_stopped() {
            break;
        }
        let loaded = TpcC::load(harness, engine, harness.setup.warehouses[0], streams);
        let Some(mut tpcc) = unless_stopped(loaded)? else { break };
        let mix = Mix { oltp: FIXED_STREAMS, streams, ..mix() };
        let result = harness
            .measure(&format!("{} {streams} OLAP streams", engine.name()), || tpcc.run(harness, &mix))?;
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
