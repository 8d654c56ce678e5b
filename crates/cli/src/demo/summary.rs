//! The summary at the demo's end.

use super::DemoOutcome;
use ankerdb_engine::Result;
use ankerdb_workload::htap::oltp::OltpWorld;
use ankerdb_workload::htap::queries::QUERIES;

/// Prints the summary to standard output.
pub(super) fn print(outcome: &DemoOutcome, world: &OltpWorld) -> Result<()> {
    let total = outcome.oltp.total();
    let seconds = outcome.oltp.elapsed.as_secs_f64();
    println!();
    println!(
        "{} {} transactions in {seconds:.0} s: {:.0} per second, p50 {:.0} us, p99 {:.0} us, {} retried",
        total.completed,
        outcome.live.level(),
        outcome.oltp.per_second(),
        total.latency.quantile_us(0.5),
        total.latency.quantile_us(0.99),
        total.retries
    );
    if let [Some(alone), Some(beside)] = outcome.live.per_second() {
        println!("transactions per second: {alone:.0} alone, {beside:.0} beside queries (medians)");
    }
    println!("{} analytical queries beside them:", outcome.olap.runs.len());
    println!("      runs   p50 ms   alone before, after   query");
    for (line, after_ms) in outcome.live.query_lines().iter().zip(&outcome.idle_after_ms) {
        let sql = QUERIES.iter().find(|query| query.name == line.name).map_or("", |query| query.sql);
        let median = line.median_ms.map_or_else(|| "-".to_owned(), |median| format!("{median:.2}"));
        println!(
            "  {} {:>5} {median:>8} {:>14.2} {after_ms:>6.2}   {sql}",
            line.name, line.runs, line.idle_ms
        );
    }
    println!(
        "(alone: without transactions beside; they have added {} orders in between)",
        total_orders(outcome)
    );
    let creation = &outcome.olap.snapshot_creation;
    println!(
        "snapshots: {} taken for queries, p50 {} ns, p99 {} ns",
        creation.count(),
        creation.quantile_ns(0.5),
        creation.quantile_ns(0.99)
    );
    let checks = &outcome.olap.checks;
    println!(
        "answers: {} held against what is known, {} wrong, {} older than what was acknowledged before they began",
        checks.answers, checks.wrong, checks.missed
    );
    let statistics = world.database.statistics();
    println!(
        "storage: {} columns of blocks read in place, {} copied as they were changing",
        statistics.columns_lent, statistics.columns_materialized
    );
    Ok(())
}

fn total_orders(outcome: &DemoOutcome) -> u64 {
    let new_orders = &outcome.oltp.kinds[0];
    new_orders.completed - new_orders.rolled_back
}
