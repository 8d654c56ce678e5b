//! The benchmark's result: as JSON, and as a table with the targets.

use super::bench::Measurements;
use super::config::{ConfigReport, HtapConfig, isolation_name};
use super::latency::{Latencies, quantile};
use super::machine::{Disturbance, Machine, commit};
use super::olap::OlapResult;
use super::oltp::{KindResult, OltpResult};
use super::queries::QUERIES;
use super::ratios::Ratios;
use crate::tpcc::check::CONDITIONS;
use crate::tpcc::input::Kind;
use ankerdb_engine::{Error, Isolation, Result};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
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
        let mut creation = Latencies::default();
        for round in &measurements.rounds {
            oltp.add(&round.hybrid.value.0);
            olap.add(&round.hybrid.value.1);
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
                queries_checked: olap.queries_checked,
                commits_missed: olap.commits_missed,
            },
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

    /// The result for people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        self.write_streams(&mut text);
        self.write_queries(&mut text);
        self.write_targets(&mut text);
        let void = self.phases.iter().filter(|phase| phase.void).count();
        if void > 0 {
            let _ = writeln!(
                text,
                "note: {void} of {} phases were disturbed (over {:.0}% of the CPU stolen by the hypervisor, or over \
                 {:.0}% used by other processes); ratios leave them out where they can",
                self.phases.len(),
                MAX_STEAL * 100.0,
                MAX_OTHERS * 100.0
            );
        }
        for warning in &self.warnings {
            let _ = writeln!(text, "warning: {warning}");
        }
        if self.interrupted {
            text.push_str("stopped by the user: this is what was measured until then\n");
        }
        text
    }

    fn write_streams(&self, text: &mut String) {
        let oltp = &self.oltp;
        let _ = writeln!(
            text,
            "OLTP beside OLAP: {:.0} transactions/s, latency p50 {:.0} us, p99 {:.0} us, p99.9 {:.0} us, {} retries",
            oltp.tps, oltp.latency_us.p50, oltp.latency_us.p99, oltp.latency_us.p999, oltp.retries
        );
        for (name, kind) in &oltp.by_transaction {
            let _ = writeln!(
                text,
                "  {name:<13} {:>8.0}/s  p50 {:>6.0} us  p99 {:>6.0} us  {} retries",
                kind.tps, kind.latency_us.p50, kind.latency_us.p99, kind.retries
            );
        }
        let conditions = match (&self.consistency.checked, self.consistency.violations.as_slice()) {
            (false, _) => "not checked".to_owned(),
            (true, []) => "hold".to_owned(),
            (true, violations) => format!("{} violations", violations.len()),
        };
        let _ = writeln!(text, "{CONDITIONS}: {conditions}");
        if let (false, Some(first)) = (self.consistency_is_promised, self.consistency.violations.first()) {
            let _ = writeln!(text, "  as this isolation level allows: {first}");
        }
    }

    fn write_queries(&self, text: &mut String) {
        text.push_str("\nquery   runs   p50 ms   p99 ms   idle p50   slowdown   to memory tables\n");
        for query in &self.olap {
            let ratio =
                |map: &BTreeMap<&str, Option<f64>>| number(map.get(query.query).copied().flatten(), 2);
            let _ = writeln!(
                text,
                "{:<5} {:>6} {:>8} {:>8} {:>10} {:>10} {:>18}",
                query.query,
                query.runs,
                number(query.latency_ms.p50, 2),
                number(query.latency_ms.p99, 2),
                number(query.idle_latency_ms.p50, 2),
                ratio(&self.ratios.olap_slowdown),
                ratio(&self.ratios.olap_to_memory_tables),
            );
        }
    }

    fn write_targets(&self, text: &mut String) {
        text.push_str("\nratio                                            measured     target\n");
        for target in self.targets() {
            let verdict = match target.measured {
                None => "not measured",
                Some(value) if target.is_met(value) => "met",
                Some(_) => "MISSED",
            };
            let sign = if target.at_least { ">=" } else { "<=" };
            let measured = number(target.measured, target.digits);
            let _ = writeln!(
                text,
                "{:<46} {:>10} {:>4} {:<6} {verdict}",
                target.name, measured, sign, target.limit
            );
        }
    }

    fn targets(&self) -> Vec<Target> {
        let worst =
            |map: &BTreeMap<&str, Option<f64>>| map.values().flatten().copied().max_by(f64::total_cmp);
        let creation = &self.snapshot.create_ns;
        let nanoseconds = |value: u64| (creation.samples > 0).then_some(value as f64);
        let missed = (self.freshness.queries_checked > 0).then_some(self.freshness.commits_missed as f64);
        let at_most =
            |name, measured, limit, digits| Target { name, measured, limit, digits, at_least: false };
        let at_least = |name, measured, limit| Target { name, measured, limit, digits: 3, at_least: true };
        vec![
            at_least("OLTP throughput kept beside OLAP", self.ratios.oltp_kept, 0.90),
            at_most("OLAP slowdown beside OLTP, worst query", worst(&self.ratios.olap_slowdown), 1.25, 3),
            at_least("serializable to read uncommitted", self.ratios.serializable_to_read_uncommitted, 0.6),
            at_most(
                "idle latency to memory tables, worst query",
                worst(&self.ratios.olap_to_memory_tables),
                1.05,
                3,
            ),
            at_most("snapshot creation p50, ns", nanoseconds(creation.p50), 1000.0, 0),
            at_most("snapshot creation p99, ns", nanoseconds(creation.p99), 20_000.0, 0),
            at_most("acknowledged commits missed by queries", missed, 0.0, 0),
        ]
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

struct Target {
    name: &'static str,
    measured: Option<f64>,
    limit: f64,
    digits: usize,
    at_least: bool,
}

impl Target {
    fn is_met(&self, value: f64) -> bool {
        if self.at_least { value >= self.limit } else { value <= self.limit }
    }
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
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
        }
    };
    (0..QUERIES.len()).map(report).collect()
}
