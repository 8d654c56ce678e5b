//! The benchmark's result as JSON; `text` is for people.
//!
//! Speeds and latencies are of the phases that are not noisy, and not reported where these are too few
//! ([`figure`](super::figure)); counts and checks of answers are of all phases.

mod text;

use super::bench::Measurements;
use super::checks::Checks;
use super::config::{ConfigReport, HtapConfig, isolation_name};
use super::figure::{Clean, Count};
use super::olap::OlapResult;
use super::oltp::{KindResult, OltpResult};
use super::phase::PhaseReport;
use super::phases::{Hybrid, SnapshotReads};
use super::queries::QUERIES;
use super::ratios::Ratios;
use crate::commit;
use crate::tpcc::input::TpccTransaction;
use ankerdb_engine::{Configuration, Error, Isolation, Result};
use ankerdb_measure::latency::{Latencies, quantile};
use ankerdb_measure::machine::Machine;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// One result.
#[derive(Clone, Debug, Serialize)]
pub struct HtapReport {
    config: ConfigReport,
    machine: Machine,
    commit: &'static str,
    /// The user stopped the run; the rest is what was measured until then.
    interrupted: bool,
    warnings: Vec<String>,
    /// Beside analytics.
    oltp: OltpReport,
    olap: Vec<QueryReport>,
    /// Phases that the queries' latencies are of.
    olap_phases: OlapPhases,
    snapshot: SnapshotReport,
    /// The checks of queries' answers, in all phases.
    answers: Checks,
    /// The effect of 1,000 snapshots per second.
    frequent: FrequentReport,
    /// Rows of the queries' largest tables per second of latency.
    olap_rows_per_second: RowsPerSecond,
    consistency: ConsistencyReport,
    ratios: Ratios,
    phases: Vec<PhaseReport>,
    #[serde(skip)]
    consistency_is_promised: bool,
    #[serde(skip)]
    answers_are_promised: bool,
}

#[derive(Clone, Debug, Serialize)]
struct OltpReport {
    /// Phases that the figures are of.
    phases: Count,
    tps: Option<f64>,
    aborts: u64,
    retries: u64,
    latency_us: Option<LatencyUs>,
    by_transaction: BTreeMap<&'static str, KindReport>,
}

#[derive(Clone, Debug, Serialize)]
struct KindReport {
    tps: Option<f64>,
    completed: u64,
    /// New-Orders rolled back as the specification demands.
    rolled_back: u64,
    aborts: u64,
    retries: u64,
    latency_us: Option<LatencyUs>,
}

#[derive(Clone, Debug, Serialize)]
struct LatencyUs {
    p50: f64,
    p99: f64,
    p999: f64,
}

#[derive(Clone, Debug, Serialize)]
struct OlapPhases {
    idle: Count,
    beside_oltp: Count,
}

#[derive(Clone, Debug, Serialize)]
struct QueryReport {
    query: &'static str,
    sql: &'static str,
    /// Beside transactions, in all phases.
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
    /// Phases of the loop that takes, reads and drops snapshots at full OLTP speed.
    phases: Count,
    /// In that loop.
    create_ns: Option<LatencyNs>,
    /// In that loop: creation and the first read, of W_YTD and D_YTD of all rows.
    create_and_read_ns: Option<LatencyNs>,
    /// For the analytical queries beside transactions.
    create_ns_for_queries: Option<LatencyNs>,
    /// Of all snapshots read besides queries, those with different sums of W_YTD and of D_YTD.
    wrong: u64,
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

/// Both streams with 1,000 snapshots per second besides, each of which is read.
#[derive(Clone, Debug, Serialize)]
struct FrequentReport {
    phases: Count,
    /// Taken and read by the thread that does nothing else; queries take theirs besides.
    snapshots_per_second: Option<f64>,
    create_ns: Option<LatencyNs>,
    /// Creation and the read of W_YTD and D_YTD of all rows.
    create_and_read_ns: Option<LatencyNs>,
    oltp_tps: Option<f64>,
    olap_rows_per_second: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
struct RowsPerSecond {
    idle: Option<f64>,
    beside_oltp: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
struct ConsistencyReport {
    checked: bool,
    violations: Vec<String>,
}

/// All rounds, added up.
#[derive(Default)]
struct Totals {
    /// Beside analytics, in phases that are not noisy.
    hybrid: Clean<Hybrid>,
    /// Beside analytics and 1,000 snapshots per second, in phases that are not noisy.
    frequent: Clean<Hybrid>,
    idle: Clean<OlapResult>,
    snapshots: Clean<SnapshotReads>,
    /// Of all hybrid phases, noisy or not.
    oltp: OltpResult,
    /// Runs of each query beside transactions, in all phases.
    runs: [usize; QUERIES.len()],
    checks: Checks,
    /// Snapshots with wrong sums.
    wrong: u64,
}

impl Totals {
    fn of(measurements: &Measurements) -> Totals {
        let mut totals = Totals::default();
        for round in &measurements.rounds {
            let (hybrid, frequent) = (&round.hybrid, &round.frequent);
            totals.hybrid.add(hybrid.noisy, |sum| sum.add(&hybrid.value));
            totals.frequent.add(frequent.noisy, |sum| sum.add(&frequent.value));
            for idle in [&round.idle_before, &round.idle_after] {
                totals.idle.add(idle.noisy, |sum| sum.add(&idle.value));
            }
            totals.snapshots.add(round.snapshots.noisy, |sum| sum.add(&round.snapshots.value));
            totals.oltp.add(&hybrid.value.oltp);
            hybrid.value.olap.runs.iter().for_each(|run| totals.runs[run.query] += 1);
            let olap =
                [&hybrid.value.olap, &frequent.value.olap, &round.idle_before.value, &round.idle_after.value];
            olap.into_iter().for_each(|olap| totals.checks.add(&olap.checks));
            totals.wrong += frequent.value.snapshots.wrong + round.snapshots.value.wrong;
        }
        totals
    }
}

impl HtapReport {
    pub(super) fn new(
        config: &HtapConfig,
        machine: &Machine,
        warnings: Vec<String>,
        interrupted: bool,
        phases: Vec<PhaseReport>,
        measurements: Measurements,
    ) -> HtapReport {
        let ratios = Ratios::of(&measurements);
        let totals = Totals::of(&measurements);
        let (hybrid, idle) = (totals.hybrid.get(), totals.idle.get());
        let olap = hybrid.map(|hybrid| &hybrid.olap);
        let violations = measurements.violations.as_deref().unwrap_or_default();
        let level_keeps_sums =
            matches!(config.isolation, Isolation::RepeatableRead | Isolation::Serializable);
        HtapReport {
            config: config.report(),
            machine: machine.clone(),
            commit: commit(),
            interrupted,
            warnings,
            oltp: OltpReport::of(&totals),
            olap: query_reports(olap, idle, &totals.runs),
            olap_phases: OlapPhases { idle: totals.idle.count, beside_oltp: totals.hybrid.count },
            snapshot: SnapshotReport {
                count: measurements.snapshots,
                phases: totals.snapshots.count,
                create_ns: totals.snapshots.get().and_then(|reads| LatencyNs::of(&reads.creation)),
                create_and_read_ns: totals.snapshots.get().and_then(|reads| LatencyNs::of(&reads.first_read)),
                create_ns_for_queries: olap.and_then(|olap| LatencyNs::of(&olap.snapshot_creation)),
                wrong: totals.wrong,
                blocks_lent: measurements.lent,
                blocks_materialized: measurements.materialized,
            },
            frequent: FrequentReport::of(&totals.frequent),
            olap_rows_per_second: RowsPerSecond::of(olap, idle, None),
            answers: totals.checks,
            consistency: ConsistencyReport {
                checked: measurements.violations.is_some(),
                violations: violations.iter().map(ToString::to_string).collect(),
            },
            ratios,
            phases,
            consistency_is_promised: level_keeps_sums,
            answers_are_promised: level_keeps_sums && config.engine != Configuration::SeeRu,
        }
    }

    /// The result as indented JSON.
    ///
    /// # Errors
    /// XX000 if it cannot be written as JSON.
    pub fn json(&self) -> Result<String> {
        serde_json::to_string_pretty(self)
            .map_err(|error| Error::internal(format!("cannot write JSON: {error}")))
    }

    /// Writes the JSON to a file.
    ///
    /// # Errors
    /// Those of the file.
    pub fn write_json(&self, path: &Path) -> Result<()> {
        let json = self.json()? + "\n";
        let written = std::fs::write(path, json);
        written.map_err(|error| Error::internal(format!("cannot write {}: {error}", path.display())))
    }

    /// The reason why the run is a failure, whatever its speed: a violated consistency condition or a wrong answer (where
    /// isolation level and engine promise them), or a query that missed an acknowledged commit.
    pub fn failure(&self) -> Option<String> {
        let violations = &self.consistency.violations;
        if let (true, Some(first)) = (self.consistency_is_promised, violations.first()) {
            return Some(format!("{first} (first of {})", violations.len()));
        }
        let Checks { missed, wrong, told, .. } = &self.answers;
        let first = told.first().map(String::as_str).unwrap_or_default();
        if self.answers_are_promised && *wrong > 0 {
            return Some(format!("{wrong} wrong answers, among them {first}"));
        }
        if self.answers_are_promised && self.snapshot.wrong > 0 {
            return Some(format!("{} snapshots showed sums of no one state", self.snapshot.wrong));
        }
        (*missed > 0).then(|| {
            format!("{missed} answers missed commits that were acknowledged before, among them {first}")
        })
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
    fn of(latencies: &Latencies) -> Option<LatencyNs> {
        let quantile = |share| latencies.quantile_ns(share);
        (latencies.count() > 0).then(|| LatencyNs {
            samples: latencies.count(),
            p50: quantile(0.5),
            p99: quantile(0.99),
            max: latencies.max_ns(),
        })
    }
}

impl LatencyMs {
    fn of(mut values: Vec<f64>) -> LatencyMs {
        LatencyMs { p50: quantile(&mut values, 0.5), p99: quantile(&mut values, 0.99) }
    }
}

impl FrequentReport {
    fn of(frequent: &Clean<Hybrid>) -> FrequentReport {
        let clean = frequent.get();
        // The thread that takes them starts before the phase warms up, and ends after it.
        let rate = |reads: &SnapshotReads| reads.creation.count() as f64 / reads.seconds.max(1e-9);
        FrequentReport {
            phases: frequent.count,
            snapshots_per_second: clean.map(|clean| rate(&clean.snapshots)),
            create_ns: clean.and_then(|clean| LatencyNs::of(&clean.snapshots.creation)),
            create_and_read_ns: clean.and_then(|clean| LatencyNs::of(&clean.snapshots.first_read)),
            oltp_tps: clean.map(|clean| clean.oltp.per_second()),
            olap_rows_per_second: clean.and_then(|clean| clean.olap.rows_per_second(None)),
        }
    }
}

impl RowsPerSecond {
    fn of(beside: Option<&OlapResult>, idle: Option<&OlapResult>, query: Option<usize>) -> RowsPerSecond {
        let speed = |result: Option<&OlapResult>| result.and_then(|result| result.rows_per_second(query));
        RowsPerSecond { idle: speed(idle), beside_oltp: speed(beside) }
    }
}

impl OltpReport {
    fn of(totals: &Totals) -> OltpReport {
        let all = totals.oltp.total();
        let clean = totals.hybrid.get().map(|hybrid| &hybrid.oltp);
        let speed =
            |result: &OltpResult, completed: u64| completed as f64 / result.elapsed.as_secs_f64().max(1e-9);
        let kind = |kind: TpccTransaction| {
            let KindResult { completed, rolled_back, aborts, retries, .. } = totals.oltp.kinds[kind as usize];
            let of_kind = |result: &OltpResult| {
                (
                    speed(result, result.kinds[kind as usize].completed),
                    LatencyUs::of(&result.kinds[kind as usize].latency),
                )
            };
            let (tps, latency_us) = clean.map(of_kind).unzip();
            KindReport { tps, completed, rolled_back, aborts, retries, latency_us }
        };
        OltpReport {
            phases: totals.hybrid.count,
            tps: clean.map(OltpResult::per_second),
            aborts: all.aborts,
            retries: all.retries,
            latency_us: clean.map(|clean| LatencyUs::of(&clean.total().latency)),
            by_transaction: TpccTransaction::PAPER.iter().map(|&name| (name.name(), kind(name))).collect(),
        }
    }
}

fn query_reports(
    beside: Option<&OlapResult>,
    idle: Option<&OlapResult>,
    runs: &[usize; QUERIES.len()],
) -> Vec<QueryReport> {
    let latencies = |result: Option<&OlapResult>, number| {
        LatencyMs::of(result.map(|result| result.latencies_ms(number)).unwrap_or_default())
    };
    let report = |number: usize| QueryReport {
        query: QUERIES[number].name,
        sql: QUERIES[number].sql,
        runs: runs[number],
        latency_ms: latencies(beside, number),
        idle_latency_ms: latencies(idle, number),
        rows_per_second: RowsPerSecond::of(beside, idle, Some(number)),
    };
    (0..QUERIES.len()).map(report).collect()
}
