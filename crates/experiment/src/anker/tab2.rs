//! Table 2: throughput over the size of the data. One of the few places where the paper prints its numbers.

use crate::finding::{Findings, Panel, Series};
use crate::harness::{Harness, unless_stopped};
use crate::tpcc::{ALL_QUERIES, Mix, TpcC};
use ankerdb_engine::Result;
use ankerdb_workload::tpcc::input::Access;
use std::time::Duration;

/// Warehouses of the table's columns.
pub const WAREHOUSES: &[u32] = &[1, 10, 20, 30, 40];
/// Those measured when shortened.
pub const QUICK_WAREHOUSES: &[u32] = &[1, 10];

/// The table's rows: transactions per second by [`WAREHOUSES`].
const PAPER: [(&str, [f64; 5]); 4] = [
    ("HEE_AnKer", [51289.0, 50525.0, 49718.0, 48637.0, 47729.0]),
    ("HEE_fork", [46391.0, 42741.0, 39172.0, 35678.0, 31220.0]),
    ("SEE_FS", [32456.0, 31810.0, 31281.0, 30299.0, 28794.0]),
    ("SEE_SI", [48391.0, 48027.0, 47687.0, 47033.0, 46237.0]),
];

/// Runs it.
///
/// # Errors
/// 57014 if the user stops it before there is something to report; the database's.
pub fn run(harness: &Harness<'_>) -> Result<Findings> {
    let setup = &harness.setup;
    let sizes = &setup.warehouses;
    harness.expect(setup.engines.len() * sizes.len());
    let names: Vec<String> = sizes.iter().map(|count| count.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut rates = Panel::bars("Throughput over warehouses", "warehouses", "transactions/s", &names);
    let (Some(first), Some(last)) = (sizes.first(), sizes.last()) else { return Ok(Findings::default()) };
    let title = format!("Slowdown from {first} to {last} warehouses");
    let mut slowdown = Panel::bars(&title, "method", "x", &["slowdown"]);
    let mut notes = Vec::new();
    for &engine in &setup.engines {
        let mut values = vec![None; sizes.len()];
        for (value, &warehouses) in values.iter_mut().zip(sizes) {
            if harness.is_stopped() {
                break;
            }
            let loaded = TpcC::load(harness, engine, warehouses, setup.olap);
            let Some(mut tpcc) = unless_stopped(loaded)? else { break };
            let mix = Mix {
                oltp: setup.oltp,
                streams: 1,
                access: Access::Uniform,
                queries: &ALL_QUERIES,
                sample: Duration::from_secs(1),
            };
            let label = format!("{} {warehouses} warehouses", engine.name());
            *value = Some(harness.measure(&label, || tpcc.run(harness, &mix))?.throughput);
            notes.push(format!("{label}: {}", tpcc.how_queries_read()));
        }
        rates.add(engine.name(), &values);
        let factor = values.first().copied().flatten().zip(values.last().copied().flatten());
        slowdown.add(engine.name(), &[factor.map(|(first, last)| first / last.max(1e-9))]);
    }
    for (method, numbers) in PAPER {
        let printed = |size: &u32| WAREHOUSES.iter().position(|known| known == size).map(|at| numbers[at]);
        let points = sizes.iter().enumerate().filter_map(|(at, size)| Some((at as f64, printed(size)?)));
        rates.series.push(Series::paper(method, points.collect()));
        if let Some((first, last)) = printed(first).zip(printed(last)) {
            slowdown.series.push(Series::paper(method, vec![(0.0, first / last)]));
        }
    }
    let panels = if sizes.len() > 1 { vec![rates, slowdown] } else { vec![rates] };
    Ok(Findings { panels, notes })
}
