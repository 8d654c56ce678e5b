//! The result of `bench ch`: for programs as JSON, for people as text.
//!
//! Speeds and latencies are of the phases that are not noisy, and not reported where these are too few
//! ([`figure`](crate::htap::figure)); counts and checks are of all phases.

use super::analyst::ChAnswers;
use super::bench::{ChMeasurements, ChRound, QueryList};
use super::config::{ChConfig, ChOptions};
use super::phases::{ClientsBeside, SideBySide};
use crate::bench::report::write_json;
use crate::bench::stream::{KindResult, StreamResult};
use crate::commit;
use crate::htap::checks::Checks;
use crate::htap::figure::{Clean, Count, Figure, Sample};
use crate::htap::phase::{Measured, PhaseReport, write_end};
use crate::tpcc::check::CONDITIONS;
use ankerdb_engine::{Error, Result};
use ankerdb_measure::latency::{Latencies, quantile};
use ankerdb_measure::machine::Machine;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// One result.
#[derive(Clone, Debug, Serialize)]
pub struct ChReport {
    benchmark: &'static str,
    config: ChOptions,
    machine: Machine,
    commit: &'static str,
    /// The user stopped the run; the rest is what was measured until then.
    interrupted: bool,
    warnings: Vec<String>,
    oltp: ChTransactions,
    olap_phases: ChOlapPhases,
    queries: Vec<ChQueryReport>,
    /// Of the medians of all queries.
    geometric_mean_ms: ChPair,
    snapshots: ChSnapshots,
    /// What was found about answers, in all phases.
    answers: Checks,
    /// Queries whose answers were evaluated a second time.
    evaluated: Vec<&'static str>,
    /// Consistency conditions that do not hold; `null` if they were not checked.
    violations: Option<Vec<String>>,
    phases: Vec<PhaseReport>,
}

/// Throughput with and without queries.
#[derive(Clone, Debug, Serialize)]
struct ChTransactions {
    /// Beside queries.
    tps: Figure,
    /// Beside threads that burn as much CPU as queries do.
    tps_in_control: Figure,
    tps_alone: Figure,
    /// Throughput beside queries in relation to the control's: medians over rounds.
    kept_of_control: Figure,
    /// In relation to transactions alone.
    kept_of_alone: Figure,
    /// Beside queries.
    by_transaction: BTreeMap<&'static str, ChKind>,
}

#[derive(Clone, Debug, Serialize)]
struct ChKind {
    completed: u64,
    /// Rolled back as the specification demands.
    rolled_back: u64,
    /// Districts without an order to deliver.
    skipped: u64,
    retries: u64,
    p50_us: Option<f64>,
    p99_us: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
struct ChOlapPhases {
    alone: Count,
    beside_oltp: Count,
}

#[derive(Clone, Debug, Serialize)]
struct ChQueryReport {
    query: &'static str,
    about: &'static str,
    sql: &'static str,
    /// Beside transactions, in all phases.
    runs: usize,
    beside_oltp: ChLatency,
    alone: ChLatency,
}

/// Of the phases that are not noisy.
#[derive(Clone, Copy, Debug, Serialize)]
struct ChLatency {
    runs: usize,
    p50_ms: Option<f64>,
    p95_ms: Option<f64>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct ChPair {
    beside_oltp: Option<f64>,
    alone: Option<f64>,
}

/// Snapshots beside transactions.
#[derive(Clone, Copy, Debug, Serialize)]
struct ChSnapshots {
    /// One for each query, or refreshes.
    taken: u64,
    p50_ns: Option<u64>,
    p99_ns: Option<u64>,
}

impl ChReport {
    pub(super) fn new(
        config: &ChConfig,
        machine: &Machine,
        warnings: Vec<String>,
        interrupted: bool,
        (queries, phases): (&QueryList, Vec<PhaseReport>),
        measurements: &ChMeasurements,
    ) -> ChReport {
        let (mut idle, mut hybrid) = (Clean::<ChAnswers>::default(), Clean::<SideBySide>::default());
        let (mut every, mut checks) = (SideBySide::default(), Checks::default());
        for round in &measurements.rounds {
            idle.add(round.idle.noisy, |sum| sum.add(&round.idle.value));
            hybrid.add(round.hybrid.noisy, |sum| sum.add(&round.hybrid.value));
            every.add(&round.hybrid.value);
            checks.add(&round.idle.value.checks);
        }
        checks.add(&every.answers.checks);
        let evaluated = measurements.evaluated.as_ref().map(|evaluated| &evaluated.answers);
        evaluated.into_iter().for_each(|answers| checks.add(&answers.checks));
        let mut names = evaluated.map_or_else(Vec::new, |answers| {
            let mut places: Vec<usize> = answers.runs.iter().map(|run| run.query).collect();
            places.sort_unstable();
            places.into_iter().map(|place| queries[place].name).collect()
        });
        names.dedup();
        let reports = query_reports(queries, &every.answers, hybrid.get(), idle.get());
        ChReport {
            benchmark: "ch",
            config: config.report(),
            machine: machine.clone(),
            commit: commit(),
            interrupted,
            warnings,
            oltp: ChTransactions::of(&measurements.rounds, &every.clients.oltp, hybrid.get()),
            olap_phases: ChOlapPhases { alone: idle.count, beside_oltp: hybrid.count },
            geometric_mean_ms: ChPair {
                beside_oltp: geometric_mean(reports.iter().map(|query| query.beside_oltp.p50_ms)),
                alone: geometric_mean(reports.iter().map(|query| query.alone.p50_ms)),
            },
            queries: reports,
            snapshots: ChSnapshots::of(config, &every, hybrid.get()),
            answers: checks,
            evaluated: names,
            violations: measurements
                .violations
                .as_ref()
                .map(|found| found.iter().map(ToString::to_string).collect()),
            phases,
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
        write_json(self, path)
    }

    /// The reason why the run is a failure, whatever its speed: a violated consistency condition, a wrong answer, or a query that
    /// missed an acknowledged commit.
    pub fn failure(&self) -> Option<String> {
        let violations = self.violations.as_deref().unwrap_or_default();
        if let Some(first) = violations.first() {
            return Some(format!("{first} (first of {})", violations.len()));
        }
        let Checks { missed, wrong, told, .. } = &self.answers;
        let first = told.first().map(String::as_str).unwrap_or_default();
        if *wrong > 0 {
            return Some(format!("{wrong} wrong answers, among them {first}"));
        }
        (*missed > 0).then(|| {
            format!("{missed} answers missed commits that were acknowledged before, among them {first}")
        })
    }

    /// The result for people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        self.write_transactions(&mut text);
        self.write_checks(&mut text);
        self.write_queries(&mut text);
        write_end(&self.phases, &self.warnings, self.interrupted, &mut text);
        text
    }

    fn write_transactions(&self, text: &mut String) {
        let oltp = &self.oltp;
        for (what, figure) in [
            ("beside queries", &oltp.tps),
            ("beside as much CPU, burned", &oltp.tps_in_control),
            ("alone", &oltp.tps_alone),
        ] {
            let _ = writeln!(
                text,
                "transactions/s {what:<27} {:>10}  ({} phases)",
                number(figure.value, 0),
                figure.count.text()
            );
        }
        for (what, figure) in
            [("of the control", &oltp.kept_of_control), ("of transactions alone", &oltp.kept_of_alone)]
        {
            let rounds = figure.count.text();
            let _ = writeln!(text, "kept {what:<37} {:>10}  ({rounds} rounds)", number(figure.value, 3));
        }
        text.push_str("\nbeside queries   completed   p50 us    p99 us   retries\n");
        for (name, kind) in &oltp.by_transaction {
            let _ = writeln!(
                text,
                "{name:<16} {:>9} {:>8} {:>9} {:>9}",
                kind.completed,
                number(kind.p50_us, 0),
                number(kind.p99_us, 0),
                kind.retries
            );
        }
    }

    fn write_checks(&self, text: &mut String) {
        let conditions = match &self.violations {
            None => "not checked".to_owned(),
            Some(violations) if violations.is_empty() => "hold".to_owned(),
            Some(violations) => format!("{} violations", violations.len()),
        };
        let _ = writeln!(text, "\n{CONDITIONS}: {conditions}");
        let Checks { answers, sums, markers, missed, wrong, told } = &self.answers;
        let _ = writeln!(
            text,
            "answers evaluated a second time on their snapshots: {answers} ({}), sums over the tables {sums}, markers {markers}: \
             {wrong} wrong, {missed} older than what was acknowledged",
            self.evaluated.join(" ")
        );
        told.iter().for_each(|found| text.extend(["  ", found, "\n"]));
        let ChSnapshots { taken, p50_ns, p99_ns } = self.snapshots;
        let nanoseconds = |value: Option<u64>| number(value.map(|value| value as f64), 0);
        let (p50, p99) = (nanoseconds(p50_ns), nanoseconds(p99_ns));
        let _ = writeln!(text, "snapshots beside transactions: {taken}, creation p50 {p50} ns, p99 {p99} ns");
    }

    fn write_queries(&self, text: &mut String) {
        text.push_str(
            "\n                ms beside OLTP            ms alone    beside\n\
             query   runs      p50      p95      p50      p95  to alone\n",
        );
        for query in &self.queries {
            let (beside, alone) = (query.beside_oltp, query.alone);
            let ratio = beside.p50_ms.zip(alone.p50_ms).map(|(beside, alone)| beside / alone);
            let _ = writeln!(
                text,
                "{:<5} {:>6} {:>8} {:>8} {:>8} {:>8} {:>9}  {}",
                query.query,
                query.runs,
                number(beside.p50_ms, 2),
                number(beside.p95_ms, 2),
                number(alone.p50_ms, 2),
                number(alone.p95_ms, 2),
                number(ratio, 2),
                query.about
            );
        }
        let ChPair { beside_oltp, alone } = self.geometric_mean_ms;
        let ratio = beside_oltp.zip(alone).map(|(beside, alone)| beside / alone);
        let _ = writeln!(
            text,
            "geometric mean{:>7} {:>17} {:>18}",
            number(beside_oltp, 2),
            number(alone, 2),
            number(ratio, 2)
        );
        let _ = writeln!(
            text,
            "latencies are of {} hybrid phases and {} phases of queries alone",
            self.olap_phases.beside_oltp.text(),
            self.olap_phases.alone.text()
        );
    }
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

fn query_reports(
    queries: &QueryList,
    every: &ChAnswers,
    hybrid: Option<&SideBySide>,
    idle: Option<&ChAnswers>,
) -> Vec<ChQueryReport> {
    let report = |(place, query): (usize, &super::queries::ChQuery)| ChQueryReport {
        query: query.name,
        about: query.about,
        sql: query.sql,
        runs: every.runs.iter().filter(|run| run.query == place).count(),
        beside_oltp: ChLatency::of(hybrid.map(|hybrid| &hybrid.answers), place),
        alone: ChLatency::of(idle, place),
    };
    queries.iter().enumerate().map(report).collect()
}

/// `None` if one of the values is missing.
fn geometric_mean(values: impl ExactSizeIterator<Item = Option<f64>>) -> Option<f64> {
    let count = values.len() as f64;
    let logarithms: Option<f64> = values.map(|value| value.map(f64::ln)).sum();
    logarithms.map(|sum| (sum / count).exp())
}

impl ChLatency {
    fn of(answers: Option<&ChAnswers>, query: usize) -> ChLatency {
        let mut values = answers.map(|answers| answers.latencies_ms(query)).unwrap_or_default();
        ChLatency {
            runs: values.len(),
            p50_ms: quantile(&mut values, 0.5),
            p95_ms: quantile(&mut values, 0.95),
        }
    }
}

impl ChSnapshots {
    fn of(config: &ChConfig, every: &SideBySide, clean: Option<&SideBySide>) -> ChSnapshots {
        let creation = |both: &SideBySide| match config.refresh_every {
            Some(_) => both.refreshes.creation.clone(),
            None => both.answers.creation.clone(),
        };
        let quantile = |share: f64| {
            let creation: Option<Latencies> = clean.map(creation);
            creation.filter(|creation| creation.count() > 0).map(|creation| creation.quantile_ns(share))
        };
        ChSnapshots { taken: creation(every).count(), p50_ns: quantile(0.5), p99_ns: quantile(0.99) }
    }
}

impl ChTransactions {
    fn of(rounds: &[ChRound], every: &StreamResult, clean: Option<&SideBySide>) -> ChTransactions {
        let tps = |phase: fn(&ChRound) -> (&ClientsBeside, bool)| {
            Figure::of(rounds.iter().map(|round| {
                let (clients, noisy) = phase(round);
                Sample { value: clients.oltp.per_second(), noisy }
            }))
        };
        let kept = |other: fn(&ChRound) -> &Measured<ClientsBeside>| {
            Figure::of(rounds.iter().map(|round| Sample {
                value: round.hybrid.value.clients.oltp.per_second() / other(round).value.oltp.per_second(),
                noisy: round.hybrid.noisy || other(round).noisy,
            }))
        };
        let kind = |place: usize, all: &KindResult| {
            let latency = clean.and_then(|clean| clean.clients.oltp.kinds.get(place));
            let quantile = |share| latency.map(|kind| kind.latency.quantile_us(share));
            ChKind {
                completed: all.completed,
                rolled_back: all.rolled_back,
                skipped: all.skipped,
                retries: all.aborts,
                p50_us: quantile(0.5),
                p99_us: quantile(0.99),
            }
        };
        let kinds = super::clients::KINDS.iter().zip(&every.kinds).enumerate();
        ChTransactions {
            tps: tps(|round| (&round.hybrid.value.clients, round.hybrid.noisy)),
            tps_in_control: tps(|round| (&round.control.value, round.control.noisy)),
            tps_alone: tps(|round| (&round.alone.value, round.alone.noisy)),
            kept_of_control: kept(|round| &round.control),
            kept_of_alone: kept(|round| &round.alone),
            by_transaction: kinds.map(|(place, (name, all))| (*name, kind(place, all))).collect(),
        }
    }
}
