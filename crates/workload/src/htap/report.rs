//! The benchmark's result as JSON; [`text`] is for people.

mod text;

use super::bench::Measurements;
use super::config::{ConfigReport, HtapConfig, isolation_name};
use super::latency::{Latencies, quantile};
use super::machine::{Disturbance, Machine, commit};
use super::olap::OlapResult;
use super::oltp::{KindResult, OltpResult};
use super::phases::Hybrid;
use super::queries::QUERIES;
use super::ratios::Ratios;
use crate::tpcc::input::Kind;
use ankerdb_engine::{Error, Isolation, Result};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// A phase in which the hypervisor gave more than this share of the CPU time to others is void.
pub const MAX_STEAL: f64 = 0.03;
/// A phase in which other processes used more than this share of the CPU time is void.
pub const MAX_OTHERS: f64 = 0.05;

/// One result.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    config: ConfigReport,
    machine: Machine,
    commit: &'static str,
    /// The user stopped the run; the rest is what was measured until then.
    interrupted: bool,
    warnings: Vec<String>,
    oltp: OltpReport,
    olap: Vec<QueryReport>,
    snapshot: SnapshotReport,
    freshness: FreshnessReport,
    /// What 1,000 snapshots per second change.
    frequent: FrequentReport,
    /// Rows of the queries' largest tables per second of latency.
    olap_rows_per_second: RowsPerSecond,
    consistency: ConsistencyReport,
    ratios: Ratios,
    phases: Vec<PhaseReport>,
    #[serde(skip)]
    consistency_is_promised: bool,
}

/// One phase as it went.
#[derive(Clone, Debug, Serialize)]
pub struct PhaseReport {
    round: u32,
    name: &'static str,
    seconds: f64,
    /// Share of all CPU time that the hypervisor gave to others.
    steal: f64,
    /// Share of all CPU time that other processes used.
    other_processes: f64,
    /// Too much of either: the phase is left out of ratios, if there are others.
    pub(super) void: bool,
    /// Transactions per second, where the OLTP stream ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) oltp_tps: Option<f64>,
    /// Analytical queries, where they ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) queries: Option<usize>,
}

impl PhaseReport {
    pub(super) fn new(
        round: u32,
        name: &'static str,
        length: Duration,
        disturbance: Disturbance,
    ) -> PhaseReport {
        let Disturbance { steal, others } = disturbance;
        PhaseReport {
            round,
            name,
            seconds: length.as_secs_f64(),
            steal,
            other_processes: others,
            void: steal > MAX_STEAL || others > MAX_OTHERS,
            oltp_tps: None,
            queries: None,
        }
    }
}

#[derive(Clone, Debug, Serialize)]
struct OltpReport {
    tps: f64,
    aborts: u64,
    retries: u64,
    latency_us: LatencyUs,
    by_transaction: BTreeMap<&'static str, KindReport>,
}

#[derive(Clone, Debug, Serialize)]
struct KindReport {
    tps: f64,
    completed: u64,
    /// New-Orders rolled back as the specification wants it.
    rolled_back: u64,
    aborts: u64,
    retries: u64,
    latency_us: LatencyUs,
}

#[derive(Clone, Debug, Serialize)]
struct LatencyUs {
    p50: f64,
    p99: f64,
    p999: f64,
}

#[derive(Clone, Debug, Serialize)]
struct QueryReport {
    query: &'static str,
    sql: &'static str,
    runs: usize,
    /// Beside transactions.
    latency_ms: LatencyMs,
    /// On the idle database, before and after.
    idle_latency_ms: LatencyMs,
    rows_per_second: RowsPerSecond,
}

#[derive(Clone, Debug, Serialize)]
struct LatencyMs {
    p50: Option<f64>,
    p99: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
struct SnapshotReport {
    /// Taken in the whole run.
    count: u64,
    /// In the loop that takes snapshots at full OLTP speed.
    create_ns: LatencyNs,
    /// For the analytical queries beside transactions.
    create_ns_for_queries: LatencyNs,
    /// Columns of blocks that queries beside transactions read in place.
    blocks_lent: u64,
    /// Columns of blocks that were copied for them, as they had changed or were not full.
    blocks_materialized: u64,
}

#[derive(Clone, Debug, Serialize)]
struct LatencyNs {
    samples: u64,
    p50: u64,
    p99: u64,
    max: u64,
}

/// Both streams with 1,000 snapshots per second besides.
#[derive(Clone, Debug, Serialize)]
struct FrequentReport {
    /// Taken by the thread that only takes them; queries take theirs besides.
    snapshots_per_second: f64,
    create_ns: LatencyNs,
    oltp_tps: f64,
    olap_rows_per_second: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
struct RowsPerSecond {
    idle: Option<f64>,
    beside_oltp: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
struct FreshnessReport {
    queries_checked: u64,
    commits_missed: u64,
}

#[derive(Clone, Debug, Serialize)]
struct ConsistencyReport {
    checked: bool,
    violations: Vec<String>,
}

impl Report {
    pub(super) fn new(
        config: &HtapConfig,
        machine: &Machine,
        warnings: Vec<String>,
        interrupted: bool,
        phases: Vec<PhaseReport>,
        measurements: Measurements,
    ) -> Report {
        let ratios = Ratios::of(&measurements);
        let (mut oltp, mut olap, mut idle) =
            (OltpResult::default(), OlapResult::default(), OlapResult::default());
        let (mut creation, mut frequent) = (Latencies::default(), Hybrid::default());
        for round in &measurements.rounds {
            oltp.add(&round.hybrid.value.oltp);
            olap.add(&round.hybrid.value.olap);
            frequent.oltp.add(&round.frequent.value.oltp);
            frequent.olap.add(&round.frequent.value.olap);
            frequent.creation.add(&round.frequent.value.creation);
            frequent.seconds_of_snapshots += round.frequent.value.seconds_of_snapshots;
            idle.add(&round.idle_before.value);
            idle.add(&round.idle_after.value);
            creation.add(&round.snapshots.value.1);
        }
        let violations = measurements.violations.as_deref().unwrap_or_default();
        Report {
            config: config.report(),
            machine: machine.clone(),
            commit: commit(),
            interrupted,
            warnings,
            oltp: OltpReport::of(&oltp),
            olap: query_reports(&olap, &idle),
            snapshot: SnapshotReport {
                count: measurements.snapshots,
                create_ns: LatencyNs::of(&creation),
                create_ns_for_queries: LatencyNs::of(&olap.snapshot_creation),
                blocks_lent: measurements.lent,
                blocks_materialized: measurements.materialized,
            },
            freshness: FreshnessReport {
                queries_checked: olap.queries_checked + frequent.olap.queries_checked,
                commits_missed: olap.commits_missed + frequent.olap.commits_missed,
            },
            frequent: FrequentReport::of(&frequent),
            olap_rows_per_second: RowsPerSecond::of(&olap, &idle, None),
            consistency: ConsistencyReport {
                checked: measurements.violations.is_some(),
                violations: violations.iter().map(ToString::to_string).collect(),
            },
            ratios,
            phases,
            consistency_is_promised: matches!(
                config.isolation,
                Isolation::RepeatableRead | Isolation::Serializable
            ),
        }
    }

    /// The result as indented JSON.
    pub fn json(&self) -> Result<String> {
        serde_json::to_string_pretty(self)
            .map_err(|error| Error::internal(format!("cannot write JSON: {error}")))
    }

    /// Writes the JSON to a file.
    pub fn write_json(&self, path: &Path) -> Result<()> {
        let json = self.json()? + "\n";
        let written = std::fs::write(path, json);
        written.map_err(|error| Error::internal(format!("cannot write {}: {error}", path.display())))
    }

    /// What makes the run a failure, whatever its speed: a violated consistency condition (where the isolation level
    /// promises them) or a query that missed an acknowledged commit.
    pub fn failure(&self) -> Option<String> {
        let violations = &self.consistency.violations;
        if let (true, Some(first)) = (self.consistency_is_promised, violations.first()) {
            return Some(format!("{first} (first of {})", violations.len()));
        }
        let missed = self.freshness.commits_missed;
        (missed > 0)
            .then(|| format!("{missed} queries missed a commit that was acknowledged before they began"))
    }

    /// One line about what was run.
    pub fn title(config: &HtapConfig) -> String {
        format!(
            "{}: {} warehouses, {} OLTP + {} OLAP threads, {} s, {}, {} access",
            config.engine.name(),
            config.warehouses,
            config.oltp_threads,
            config.olap_threads,
            config.seconds,
            isolation_name(config.isolation),
            config.access.name()
        )
    }
}

impl LatencyUs {
    fn of(latencies: &Latencies) -> LatencyUs {
        let quantile = |share| latencies.quantile_us(share);
        LatencyUs { p50: quantile(0.5), p99: quantile(0.99), p999: quantile(0.999) }
    }
}

impl LatencyNs {
    fn of(latencies: &Latencies) -> LatencyNs {
        let quantile = |share| latencies.quantile_ns(share);
        LatencyNs {
            samples: latencies.count(),
            p50: quantile(0.5),
            p99: quantile(0.99),
            max: latencies.max_ns(),
        }
    }
}

impl LatencyMs {
    fn of(mut values: Vec<f64>) -> LatencyMs {
        LatencyMs { p50: quantile(&mut values, 0.5), p99: quantile(&mut values, 0.99) }
    }
}

impl FrequentReport {
    fn of(hybrid: &Hybrid) -> FrequentReport {
        // The thread that takes them starts before the phase warms up, and ends after it.
        let seconds = hybrid.seconds_of_snapshots.max(1e-9);
        FrequentReport {
            snapshots_per_second: hybrid.creation.count() as f64 / seconds,
            create_ns: LatencyNs::of(&hybrid.creation),
            oltp_tps: hybrid.oltp.per_second(),
            olap_rows_per_second: hybrid.olap.rows_per_second(None),
        }
    }
}

impl RowsPerSecond {
    fn of(beside: &OlapResult, idle: &OlapResult, query: Option<usize>) -> RowsPerSecond {
        RowsPerSecond { idle: idle.rows_per_second(query), beside_oltp: beside.rows_per_second(query) }
    }
}

impl OltpReport {
    fn of(result: &OltpResult) -> OltpReport {
        let total = result.total();
        let seconds = result.elapsed.as_secs_f64().max(1e-9);
        let kind = |kind: &KindResult| KindReport {
            tps: kind.completed as f64 / seconds,
            completed: kind.completed,
            rolled_back: kind.rolled_back,
            aborts: kind.aborts,
            retries: kind.retries,
            latency_us: LatencyUs::of(&kind.latency),
        };
        OltpReport {
            tps: result.per_second(),
            aborts: total.aborts,
            retries: total.retries,
            latency_us: LatencyUs::of(&total.latency),
            by_transaction: Kind::PAPER
                .iter()
                .map(|&name| (name.name(), kind(&result.kinds[name as usize])))
                .collect(),
        }
    }
}

fn query_reports(beside: &OlapResult, idle: &OlapResult) -> Vec<QueryReport> {
    let report = |number: usize| {
        let latencies = beside.latencies_ms(number);
        QueryReport {
            query: QUERIES[number].name,
            sql: QUERIES[number].sql,
            runs: latencies.len(),
            latency_ms: LatencyMs::of(latencies),
            idle_latency_ms: LatencyMs::of(idle.latencies_ms(number)),
            rows_per_second: RowsPerSecond::of(beside, idle, Some(number)),
        }
    };
    (0..QUERIES.len()).map(report).collect()
}
