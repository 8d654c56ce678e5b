//! The demo's samples so far, shared between the streams and the display.

use ankerdb_engine::Isolation;
use ankerdb_measure::histogram::Histogram;
use ankerdb_measure::latency::median;
use ankerdb_workload::htap::config::isolation_name;
use ankerdb_workload::htap::olap::QueryRun;
use ankerdb_workload::htap::queries::QUERIES;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// When queries run, in shares of the demo's time. Transactions are alone in between, so that a difference would show.
pub(super) const QUERIES_RUN: [(f64, f64); 2] = [(0.2, 0.5), (0.7, 1.0)];

/// Whether queries run after that share of the demo's time.
fn queries_run_at(share: f64) -> bool {
    QUERIES_RUN.iter().any(|(begin, end)| (*begin..*end).contains(&share))
}

/// One sample of the OLTP stream: its work since the last one.
#[derive(Clone, Copy)]
pub(crate) struct LiveSample {
    /// Since the start.
    pub seconds: f64,
    /// Transactions completed.
    pub per_second: f64,
    /// Half of them took no longer, in microseconds.
    pub p50_us: f64,
    /// 99 of 100 of them took no longer, in microseconds.
    pub p99_us: f64,
    /// Whether queries ran beside them.
    pub is_beside_queries: bool,
}

/// One query that ran.
#[derive(Clone, Copy)]
pub(crate) struct QueryPoint {
    /// Since the start.
    pub seconds: f64,
    /// Position in [`QUERIES`].
    pub query: usize,
    pub latency_ms: f64,
}

/// A query's row in the display.
pub(crate) struct QueryLine {
    pub name: &'static str,
    pub runs: usize,
    pub last_ms: Option<f64>,
    pub median_ms: Option<f64>,
    pub idle_ms: f64,
}

/// See the module.
pub(crate) struct Live {
    started: Instant,
    seconds: u64,
    /// The transactions' isolation level.
    level: String,
    idle_ms: Vec<f64>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    samples: Vec<LiveSample>,
    queries: Vec<QueryPoint>,
    /// At the last sample.
    transactions: Histogram,
    sampled_at: f64,
}

impl Live {
    /// Starts the clock.
    pub(crate) fn new(idle_ms: Vec<f64>, seconds: u64, isolation: Isolation) -> Live {
        let level = isolation_name(isolation).replace('-', " ");
        Live { started: Instant::now(), seconds, level, idle_ms, state: Mutex::default() }
    }

    /// The transactions' isolation level, as SQL writes it.
    pub(crate) fn level(&self) -> &str {
        &self.level
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a query that has just ended.
    pub(crate) fn add_run(&self, run: QueryRun) {
        let seconds = run.started.saturating_duration_since(self.started).as_secs_f64();
        let latency_ms = run.latency.as_secs_f64() * 1e3;
        self.state().queries.push(QueryPoint { seconds, query: run.query, latency_ms });
    }

    /// Samples the OLTP stream: transactions completed since the start, by how long they took.
    pub(crate) fn sample(&self, transactions: Histogram) {
        let seconds = self.started.elapsed().as_secs_f64();
        let mut state = self.state();
        let newer = transactions.since(&state.transactions);
        let begun = state.sampled_at;
        state.samples.push(LiveSample {
            seconds,
            per_second: newer.count() as f64 / (seconds - begun).max(1e-6),
            p50_us: newer.quantile_us(0.5),
            p99_us: newer.quantile_us(0.99),
            is_beside_queries: queries_run_at(begun / self.seconds as f64),
        });
        (state.transactions, state.sampled_at) = (transactions, seconds);
    }

    /// Whether queries are to run now.
    pub(crate) fn queries_run(&self) -> bool {
        queries_run_at(self.started.elapsed().as_secs_f64() / self.seconds as f64)
    }

    /// Medians of the samples' throughputs: alone, and beside queries.
    pub(crate) fn per_second(&self) -> [Option<f64>; 2] {
        let samples = self.samples();
        [false, true].map(|beside| {
            let of = samples.iter().filter(|sample| sample.is_beside_queries == beside);
            median(&mut of.map(|sample| sample.per_second).collect::<Vec<_>>())
        })
    }

    /// Seconds that are left.
    pub(crate) fn seconds_left(&self) -> u64 {
        self.seconds.saturating_sub(self.started.elapsed().as_secs())
    }

    /// All samples so far.
    pub(crate) fn samples(&self) -> Vec<LiveSample> {
        self.state().samples.clone()
    }

    /// All queries so far.
    pub(crate) fn queries(&self) -> Vec<QueryPoint> {
        self.state().queries.clone()
    }

    /// Transactions completed, and queries: one snapshot each.
    pub(crate) fn totals(&self) -> (u64, usize) {
        let state = self.state();
        (state.transactions.count(), state.queries.len())
    }

    /// One line for each query.
    pub(crate) fn query_lines(&self) -> Vec<QueryLine> {
        let queries = self.queries();
        let line = |number: usize| {
            let mut latencies: Vec<f64> =
                queries.iter().filter(|point| point.query == number).map(|point| point.latency_ms).collect();
            QueryLine {
                name: QUERIES[number].name,
                runs: latencies.len(),
                last_ms: latencies.last().copied(),
                median_ms: median(&mut latencies),
                idle_ms: self.idle_ms[number],
            }
        };
        (0..QUERIES.len()).map(line).collect()
    }
}
