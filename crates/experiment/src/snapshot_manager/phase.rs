//! One phase: dashboards that all allow the same staleness, beside transactions, over freshly loaded tables.

use super::Allowance;
use super::dashboard::DashboardLog;
use crate::harness::{Harness, joined};
use crate::stream::HybridResult;
use crate::tpcc::{ALL_QUERIES, Mix, TpcC};
use ankerdb_engine::{Configuration, Database, Options, Result, SnapshotDecisions, Statistics};
use ankerdb_measure::latency::quantile;
use ankerdb_workload::tpcc::input::Access;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often every query runs before the phase: from the third time on, a run has the physical plan of an earlier one.
const WARM_UP: usize = 3;
/// Between two looks at the history that is kept. The manager tells of 64 snapshots, more than it takes meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const MIB: f64 = (1 << 20) as f64;

/// The results of a phase.
#[derive(Clone, Default)]
pub(super) struct StalenessOutcome {
    /// Queries that were answered.
    pub queries: u64,
    pub queries_per_second: f64,
    pub transactions_per_second: f64,
    /// Median and 99th percentile.
    pub latency_ms: [Option<f64>; 2],
    /// Of blocks or whole ones, for each query.
    pub copied_columns: f64,
    /// For each query, where columns are lent.
    pub lent_columns: Option<f64>,
    /// Time in which queries copy, over all threads, for each query.
    pub copying_ms: f64,
    /// Time in which copies are made ready for queries, for each query.
    pub ahead_ms: f64,
    pub shared_percent: f64,
    pub mean_age_ms: f64,
    pub largest_age_ms: f64,
    /// The most that was kept while a snapshot was shared; `None` where none was.
    pub shared_history_mib: Option<f64>,
    pub versions_mib: f64,
    pub decisions: SnapshotDecisions,
    /// The manager's averages: of a query with a snapshot of its own, and of one that shares.
    pub copying_compared_ms: [Option<f64>; 2],
}

/// The most history that was seen.
#[derive(Clone, Copy, Default)]
struct HistoryPeak {
    /// For a shared snapshot.
    shared_bytes: Option<u64>,
    /// Versions in all tables.
    version_bytes: usize,
}

/// Loads tables and runs the phase.
///
/// # Errors
/// 57014 if the user stops it before it begins; the database's.
pub(super) fn run(
    harness: &Harness<'_>,
    engine: Configuration,
    allowance: &Allowance,
    (time, label): (Duration, &str),
) -> Result<StalenessOutcome> {
    let mut options = Options::from(engine);
    if allowance.history_limit.is_some() {
        options.history_limit = allowance.history_limit;
    }
    let (database, setup) = (Database::open(options)?, &harness.setup);
    let mut tpcc = TpcC::load_into(harness, database, setup.warehouses[0], setup.olap)?;
    for query in (0..WARM_UP).flat_map(|_| tpcc.queries()) {
        if harness.is_stopped() {
            return Ok(StalenessOutcome::default());
        }
        query.run_now()?;
    }
    harness.measure(label, || measure(harness, &mut tpcc, allowance, time))
}

fn measure(
    harness: &Harness<'_>,
    tpcc: &mut TpcC,
    allowance: &Allowance,
    time: Duration,
) -> Result<StalenessOutcome> {
    let (database, staleness) = (tpcc.database().clone(), allowance.staleness);
    let mix = Mix {
        oltp: harness.setup.oltp,
        streams: harness.setup.olap,
        access: Access::Uniform,
        queries: &ALL_QUERIES,
        sample: Duration::from_secs(1),
    };
    let (log, before, has_ended) = (DashboardLog::default(), database.statistics(), AtomicBool::new(false));
    let (result, peak) = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| Ok(highest_history(&database, &has_ended)));
        let log = &log;
        let result =
            tpcc.run_with(harness, &mix, time, |tpcc| Box::new(move |query| log.ask(tpcc, staleness, query)));
        has_ended.store(true, Ordering::Relaxed);
        (result, joined(watcher.join()))
    });
    Ok(outcome(&database, (&before, &log), &result?, (mix.streams, peak?)))
}

/// Looks at the history that is kept until the phase has ended.
fn highest_history(database: &Database, has_ended: &AtomicBool) -> HistoryPeak {
    let mut peak = HistoryPeak::default();
    loop {
        let is_last = has_ended.load(Ordering::Relaxed);
        let snapshots = database.snapshot_report().snapshots;
        let shared_bytes = snapshots.iter().map(|snapshot| snapshot.history_bytes).max();
        peak.shared_bytes = peak.shared_bytes.max(shared_bytes);
        peak.version_bytes = peak.version_bytes.max(database.statistics().version_bytes);
        if is_last {
            return peak;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn outcome(
    database: &Database,
    (before, log): (&Statistics, &DashboardLog),
    result: &HybridResult,
    (streams, peak): (usize, HistoryPeak),
) -> StalenessOutcome {
    let (after, report, sums) = (database.statistics(), database.snapshot_report(), log.sums());
    let mut latencies: Vec<f64> =
        result.queries.iter().map(|query| milliseconds(query.creation + query.latency)).collect();
    let answered = latencies.len() as f64;
    let of_query = |total: f64| total / answered.max(1.0);
    // A dashboard asks the next query when it has the answer of the one before.
    let busy_seconds = latencies.iter().sum::<f64>() / 1e3 / streams.max(1) as f64;
    let copied = (after.columns_materialized - before.columns_materialized)
        + (after.column_snapshots - before.column_snapshots);
    let lent = (after.columns_lent - before.columns_lent) as f64;
    let has_whole_columns = database.configuration().technique().is_some();
    StalenessOutcome {
        queries: latencies.len() as u64,
        queries_per_second: answered / busy_seconds.max(1e-9),
        transactions_per_second: result.throughput,
        latency_ms: [0.5, 0.99].map(|share| quantile(&mut latencies, share)),
        copied_columns: of_query(copied as f64),
        lent_columns: (!has_whole_columns).then(|| of_query(lent)),
        copying_ms: of_query(milliseconds(sums.copying)),
        ahead_ms: of_query(milliseconds(sums.ahead)),
        shared_percent: of_query(report.decisions.shared as f64 * 100.0),
        mean_age_ms: milliseconds(sums.mean_age),
        largest_age_ms: milliseconds(sums.largest_age),
        shared_history_mib: peak.shared_bytes.map(|bytes| bytes as f64 / MIB),
        versions_mib: peak.version_bytes as f64 / MIB,
        decisions: report.decisions,
        copying_compared_ms: [report.copying_alone, report.copying_shared].map(|time| time.map(milliseconds)),
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
