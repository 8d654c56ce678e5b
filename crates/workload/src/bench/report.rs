//! The result of a benchmark of transactions: for programs as JSON, for people as text.
//!
//! Machine, commit, configuration, warnings and phases stand where `bench htap` has them; `results` has one element for
//! each variant, in the form of that benchmark's `oltp`. As there, speeds and latencies are of the phases that are not
//! noisy, and not reported where these are too few; counts are of all.

use super::config::{BenchConfig, ConfigReport};
use super::profile::ProfileReport;
use super::rounds::{Phase, Rounds};
use super::stream::{KindResult, StreamResult};
use crate::commit;
use crate::htap::config::isolation_name;
use crate::htap::figure::{Clean, Count, Figure, Sample as Measured};
use ankerdb_engine::{Error, Isolation, Result};
use ankerdb_measure::cpu::Noise;
use ankerdb_measure::machine::Machine;
use serde::Serialize;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::Ordering;

fn json(result: &impl Serialize) -> Result<String> {
    serde_json::to_string_pretty(result)
        .map_err(|error| Error::internal(format!("cannot write JSON: {error}")))
}

/// Writes a result to a file, as indented JSON.
///
/// # Errors
/// Those of the file.
pub fn write_json(result: &impl Serialize, path: &Path) -> Result<()> {
    let written = std::fs::write(path, json(result)? + "\n");
    written.map_err(|error| Error::internal(format!("cannot write {}: {error}", path.display())))
}

/// One result.
#[derive(Clone, Debug, Serialize)]
pub struct BenchReport {
    benchmark: &'static str,
    config: BenchmarkConfig,
    machine: Machine,
    commit: &'static str,
    /// The user stopped the run; the rest is what was measured until then.
    interrupted: bool,
    warnings: Vec<String>,
    results: Vec<VariantReport>,
    consistency: ConsistencyReport,
    ratios: BTreeMap<&'static str, RatioReport>,
    phases: Vec<PhaseReport>,
    /// Where a benchmark takes samples: one after the other.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    timeline: Vec<Sample>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    remarks: Vec<String>,
    #[serde(skip)]
    consistency_is_promised: bool,
}

/// The state at one moment, and the throughput since the one before.
#[derive(Clone, Debug, Serialize)]
pub struct Sample {
    /// Since the run began.
    pub second: f64,
    /// In the words of the phases.
    pub phase: String,
    /// Transactions per second.
    pub oltp_tps: f64,
    /// Memory of row versions.
    pub version_bytes: u64,
    /// Memory of the newest values.
    pub table_bytes: u64,
    /// Memory of the process.
    pub process_bytes: u64,
    /// Rows that transactions may change.
    pub rows: u64,
}

#[derive(Clone, Debug, Serialize)]
struct BenchmarkConfig {
    #[serde(flatten)]
    common: ConfigReport,
    /// What only this benchmark has.
    #[serde(flatten)]
    own: Json,
}

#[derive(Clone, Debug, Serialize)]
struct VariantReport {
    variant: String,
    threads: usize,
    isolation: &'static str,
    /// Phases that the figures are of.
    phases: Count,
    /// Median over the phases that are not noisy.
    tps: Option<f64>,
    /// Slowest and fastest of all phases.
    tps_range: [f64; 2],
    aborts: u64,
    retries: u64,
    latency_us: Option<LatencyUs>,
    by_transaction: BTreeMap<&'static str, KindReport>,
    /// Costs of one transaction, if they were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<ProfileReport>,
}

#[derive(Clone, Debug, Serialize)]
struct KindReport {
    tps: Option<f64>,
    completed: u64,
    /// Rolled back as the specification demands.
    rolled_back: u64,
    /// Left out, which the specification wants to be counted: districts without an order to deliver.
    #[serde(skip_serializing_if = "is_zero")]
    skipped: u64,
    aborts: u64,
    retries: u64,
    latency_us: Option<LatencyUs>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's interface
fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[derive(Clone, Debug, Serialize)]
struct LatencyUs {
    p50: f64,
    p99: f64,
    p999: f64,
}

#[derive(Clone, Debug, Serialize)]
struct ConsistencyReport {
    checked: bool,
    /// What was checked.
    conditions: &'static str,
    violations: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
struct RatioReport {
    /// Median over rounds of which no phase is noisy; `None` if these are too few, or a run was stopped before.
    measured: Option<f64>,
    rounds: Count,
    target: f64,
    over: String,
    under: String,
}

#[derive(Clone, Debug, Serialize)]
struct PhaseReport {
    round: u32,
    name: String,
    seconds: f64,
    /// Share of all CPU time that the hypervisor gave to others.
    steal: f64,
    /// Share of all CPU time that other processes used.
    other_processes: f64,
    /// Too much of either: the phase is left out of all figures.
    noisy: bool,
    oltp_tps: f64,
}

/// The parts of a report besides the phases.
pub struct About {
    /// The benchmark's name.
    pub benchmark: &'static str,
    /// Its own options.
    pub own: Json,
    /// Where it ran.
    pub machine: Machine,
    /// Warnings about the result.
    pub warnings: Vec<String>,
    /// What was checked after the run.
    pub conditions: &'static str,
    /// Conditions that do not hold; `None` if they were not checked.
    pub violations: Option<Vec<String>>,
}

impl BenchReport {
    /// Sums up.
    pub fn new(rounds: &Rounds<'_>, about: About, phases: &[Phase]) -> BenchReport {
        let is_promised =
            |isolation| matches!(isolation, Isolation::RepeatableRead | Isolation::Serializable);
        let mut ran =
            (0..rounds.variants.len()).filter(|&variant| phases_of(phases, variant).next().is_some());
        BenchReport {
            benchmark: about.benchmark,
            config: BenchmarkConfig { common: rounds.config.report(), own: about.own },
            machine: about.machine,
            commit: commit(),
            interrupted: rounds.watch.is_stopped(),
            warnings: warnings_of(rounds, about.warnings),
            consistency_is_promised: ran.all(|variant| is_promised(rounds.variants[variant].isolation)),
            results: (0..rounds.variants.len())
                .map(|variant| VariantReport::of(rounds, phases, variant))
                .collect(),
            consistency: ConsistencyReport {
                checked: about.violations.is_some(),
                conditions: about.conditions,
                violations: about.violations.unwrap_or_default(),
            },
            ratios: rounds.ratios.iter().map(|ratio| ratio_report(rounds, ratio, phases)).collect(),
            phases: phases.iter().map(|phase| phase_report(rounds, phase)).collect(),
            remarks: Vec::new(),
            timeline: Vec::new(),
        }
    }

    /// Adds a line below the ratios.
    pub fn with_remark(mut self, remark: String) -> BenchReport {
        self.remarks.push(remark);
        self
    }

    /// Adds samples.
    pub fn with_timeline(self, timeline: Vec<Sample>) -> BenchReport {
        BenchReport { timeline, ..self }
    }

    /// The result as indented JSON.
    ///
    /// # Errors
    /// XX000 if it cannot be written as JSON.
    pub fn json(&self) -> Result<String> {
        json(self)
    }

    /// Writes the JSON to a file.
    ///
    /// # Errors
    /// Those of the file.
    pub fn write_json(&self, path: &Path) -> Result<()> {
        write_json(self, path)
    }

    /// The reason why the run is a failure, whatever its speed: a condition that does not hold although the isolation
    /// levels that were used promise it.
    pub fn failure(&self) -> Option<String> {
        let violations = &self.consistency.violations;
        let first = violations.first().filter(|_| self.consistency_is_promised)?;
        Some(format!("{first} (first of {})", violations.len()))
    }

    /// The median throughput of a variant, for programs; `None` if too few of its phases were quiet.
    pub fn tps(&self, variant: usize) -> Option<f64> {
        self.results[variant].tps
    }

    /// Transactions of a variant that were completed in all phases.
    pub fn completed(&self, variant: usize) -> u64 {
        self.results[variant].by_transaction.values().map(|kind| kind.completed).sum()
    }

    /// The result for people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        self.results.iter().for_each(|result| result.write(&mut text));
        self.write_consistency(&mut text);
        self.write_ratios(&mut text);
        self.remarks.iter().for_each(|remark| text.extend([remark, "\n"]));
        self.write_timeline(&mut text);
        self.write_notes(&mut text);
        text
    }

    fn write_timeline(&self, text: &mut String) {
        if self.timeline.is_empty() {
            return;
        }
        text.push_str("\n second  transactions/s  versions MiB  newest MiB  process MiB  phase\n");
        let mebibytes = |bytes: u64| bytes as f64 / (1 << 20) as f64;
        for sample in &self.timeline {
            let _ = writeln!(
                text,
                "{:>7.1} {:>15.0} {:>13.1} {:>11.0} {:>12.0}  {}",
                sample.second,
                sample.oltp_tps,
                mebibytes(sample.version_bytes),
                mebibytes(sample.table_bytes),
                mebibytes(sample.process_bytes),
                sample.phase
            );
        }
        for result in &self.results {
            let samples = self.timeline.iter().filter(|sample| sample.phase == result.variant);
            if let Some(most) = samples.max_by_key(|sample| sample.version_bytes) {
                let _ = writeln!(
                    text,
                    "{}: at most {:.1} MiB of versions, {:.0} bytes for each of the {} rows that may change",
                    result.variant,
                    mebibytes(most.version_bytes),
                    most.version_bytes as f64 / most.rows.max(1) as f64,
                    most.rows
                );
            }
        }
        text.push('\n');
    }

    fn write_consistency(&self, text: &mut String) {
        let ConsistencyReport { checked, conditions, violations } = &self.consistency;
        let outcome = match (checked, violations.as_slice()) {
            (false, _) => "not checked".to_owned(),
            (true, []) => "hold".to_owned(),
            (true, violations) => format!("{} violations", violations.len()),
        };
        let _ = writeln!(text, "{conditions}: {outcome}");
        if let (false, Some(first)) = (self.consistency_is_promised, violations.first()) {
            let _ = writeln!(text, "  as this isolation level allows: {first}");
        }
    }

    fn write_ratios(&self, text: &mut String) {
        for (name, ratio) in &self.ratios {
            let verdict = match ratio.measured {
                None => "NOT TOLD",
                Some(value) if value >= ratio.target => "met",
                Some(_) => "MISSED",
            };
            let measured = ratio.measured.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
            let RatioReport { over, under, target, rounds, .. } = ratio;
            let rounds = rounds.text();
            let _ = writeln!(
                text,
                "{name}: {measured} (at least {target}: {verdict}), {over} / {under}, rounds: {rounds}"
            );
        }
    }

    fn write_notes(&self, text: &mut String) {
        for phase in &self.phases {
            let mark = if phase.noisy { "  NOISY" } else { "" };
            let _ = writeln!(
                text,
                "round {} {:<28} {:>9.0}/s  {:>5.1} s  stolen {:.1}%  others {:.1}%{mark}",
                phase.round,
                phase.name,
                phase.oltp_tps,
                phase.seconds,
                phase.steal * 100.0,
                phase.other_processes * 100.0
            );
        }
        if self.phases.iter().any(|phase| phase.noisy) {
            let _ = writeln!(text, "note: all figures leave noisy phases out: {}", Noise::limits());
        }
        for warning in &self.warnings {
            let _ = writeln!(text, "warning: {warning}");
        }
        if self.interrupted {
            text.push_str("stopped by the user: this is what was measured until then\n");
        }
    }

    /// One line about what is going to run.
    pub fn title(config: &BenchConfig) -> String {
        let BenchConfig { threads, seconds, rounds, isolation, engine, .. } = config;
        let (level, engine) = (isolation_name(*isolation), engine.name());
        format!("{threads} threads, {seconds} s in {rounds} rounds, {level}, engine {engine}")
    }
}

/// Warnings known before the run, and those from it.
fn warnings_of(rounds: &Rounds<'_>, mut warnings: Vec<String>) -> Vec<String> {
    if rounds.memory_ran_out.load(Ordering::Relaxed) {
        warnings.push("the run was ended early, because memory was running out".to_owned());
    }
    warnings
}

fn phases_of(phases: &[Phase], variant: usize) -> impl Iterator<Item = &Phase> {
    phases.iter().filter(move |phase| phase.variant == variant)
}

fn ratio_report(
    rounds: &Rounds<'_>,
    ratio: &super::rounds::Ratio,
    phases: &[Phase],
) -> (&'static str, RatioReport) {
    let figure = Figure::of(phases_of(phases, ratio.over).filter_map(|over| {
        let under = phases_of(phases, ratio.under).find(|under| under.round == over.round)?;
        let value = over.result.per_second() / under.result.per_second();
        Some(Measured { value, noisy: over.is_noisy() || under.is_noisy() })
    }));
    let name = |variant: usize| rounds.variants[variant].name.clone();
    let report = RatioReport {
        measured: figure.value,
        rounds: figure.count,
        target: ratio.target,
        over: name(ratio.over),
        under: name(ratio.under),
    };
    (ratio.name, report)
}

fn phase_report(rounds: &Rounds<'_>, phase: &Phase) -> PhaseReport {
    PhaseReport {
        round: phase.round,
        name: rounds.variants[phase.variant].name.clone(),
        seconds: phase.result.elapsed.as_secs_f64(),
        steal: phase.noise.steal,
        other_processes: phase.noise.others,
        noisy: phase.is_noisy(),
        oltp_tps: phase.result.per_second(),
    }
}

impl LatencyUs {
    fn of(kind: &KindResult) -> LatencyUs {
        let quantile = |share| kind.latency.quantile_us(share);
        LatencyUs { p50: quantile(0.5), p99: quantile(0.99), p999: quantile(0.999) }
    }
}

impl VariantReport {
    fn of(rounds: &Rounds<'_>, phases: &[Phase], position: usize) -> VariantReport {
        let variant = &rounds.variants[position];
        let (mut sum, mut clean) = (StreamResult::default(), Clean::<StreamResult>::default());
        for phase in phases_of(phases, position) {
            sum.add(&phase.result);
            clean.add(phase.is_noisy(), |clean| clean.add(&phase.result));
        }
        let speeds = || phases_of(phases, position).map(|phase| phase.result.per_second());
        let samples = phases_of(phases, position)
            .map(|phase| Measured { value: phase.result.per_second(), noisy: phase.is_noisy() });
        let total = sum.total();
        let kind = |(place, kind): (usize, &KindResult)| {
            let of_clean = |clean: &StreamResult| {
                let kind = clean.kinds.get(place).cloned().unwrap_or_default();
                (kind.completed as f64 / clean.elapsed.as_secs_f64().max(1e-9), LatencyUs::of(&kind))
            };
            let (tps, latency_us) = clean.get().map(of_clean).unzip();
            KindReport {
                tps,
                completed: kind.completed,
                rolled_back: kind.rolled_back,
                skipped: kind.skipped,
                aborts: kind.aborts,
                retries: kind.aborts,
                latency_us,
            }
        };
        let names = variant.workload.kinds().iter().copied();
        VariantReport {
            variant: variant.name.clone(),
            threads: variant.threads,
            isolation: isolation_name(variant.isolation),
            phases: clean.count,
            tps: Figure::of(samples).value,
            tps_range: [speeds().reduce(f64::min).unwrap_or(0.0), speeds().reduce(f64::max).unwrap_or(0.0)],
            aborts: total.aborts,
            retries: total.aborts,
            latency_us: clean.get().map(|clean| LatencyUs::of(&clean.total())),
            by_transaction: names.zip(sum.kinds.iter().enumerate().map(kind)).collect(),
            profile: (rounds.config.probes)
                .map(|_| ProfileReport::of(&sum.counts, sum.allocations, sum.completed())),
        }
    }

    fn write(&self, text: &mut String) {
        let tps = self.tps.map_or_else(|| "-".to_owned(), |tps| format!("{tps:.0}"));
        let _ = writeln!(
            text,
            "{}: {tps} transactions/s ({:.0} to {:.0} in all phases), latency {}, {} retries; phases: {}",
            self.variant,
            self.tps_range[0],
            self.tps_range[1],
            latencies(self.latency_us.as_ref()),
            self.retries,
            self.phases.text()
        );
        for (name, kind) in &self.by_transaction {
            let skipped =
                if kind.skipped > 0 { format!(", {} skipped", kind.skipped) } else { String::new() };
            let tps = kind.tps.map_or_else(|| "-".to_owned(), |tps| format!("{tps:.0}"));
            let _ = writeln!(
                text,
                "  {name:<16} {tps:>9}/s  {:>10} completed  {}  {} retries, {} rolled back{skipped}",
                kind.completed,
                latencies(kind.latency_us.as_ref()),
                kind.retries,
                kind.rolled_back,
            );
        }
        if let Some(profile) = &self.profile {
            let _ = writeln!(text, "  {}", profile.text());
        }
    }
}

fn latencies(latency: Option<&LatencyUs>) -> String {
    latency.map_or_else(
        || "not reported".to_owned(),
        |LatencyUs { p50, p99, p999 }| format!("p50 {p50:.1} us, p99 {p99:.1} us, p99.9 {p999:.1} us"),
    )
}

#[cfg(test)]
mod tests {
    use super::super::client::{Client, ClientSetup, Done, Workload};
    use super::super::rounds::{Ratio, Variant};
    use super::*;
    use crate::watch::Watch;
    use ankerdb_engine::Configuration;
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    struct Idle;

    impl Workload for Idle {
        fn kinds(&self) -> &[&'static str] {
            &["idle"]
        }

        fn client(&self, _: &ClientSetup) -> Result<Box<dyn Client>> {
            Ok(Box::new(Idle))
        }
    }

    impl Client for Idle {
        fn draw(&mut self) -> usize {
            0
        }

        fn run(&mut self, _: i64) -> Result<Done> {
            Ok(Done::Committed)
        }
    }

    fn phase(round: u32, variant: usize, completed: u64, steal: f64) -> Phase {
        let kinds = vec![KindResult { completed, ..KindResult::default() }];
        let result = StreamResult { elapsed: Duration::from_secs(1), kinds, ..StreamResult::default() };
        Phase { round, variant, result, noise: Noise { steal, others: 0.0 } }
    }

    fn report(isolation: Isolation, phases: &[Phase], violations: Option<Vec<String>>) -> BenchReport {
        let variant = |name: &str| Variant { name: name.to_owned(), threads: 1, isolation, workload: &Idle };
        let (stop, observer) = (AtomicBool::new(false), |_: crate::watch::Event<'_>| ());
        let watch = Watch { stop: &stop, observer: &observer };
        let config = BenchConfig {
            threads: 1,
            seconds: 1,
            rounds: 3,
            isolation,
            engine: Configuration::default(),
            compare: Vec::new(),
            probes: None,
            seed: 1,
            json: None,
        };
        let ratios = vec![Ratio { name: "one to two", over: 0, under: 1, target: 0.9 }];
        let rounds = Rounds::of(&config, vec![variant("one"), variant("two")], ratios, &watch);
        let machine = Machine { cores: 1, memory_bytes: 1, cpu: "any".into(), kernel: "any".into() };
        let about = About {
            benchmark: "idle",
            own: serde_json::json!({ "rows": 3 }),
            machine,
            warnings: Vec::new(),
            conditions: "conditions",
            violations,
        };
        BenchReport::new(&rounds, about, phases)
    }

    #[test]
    fn a_violation_is_a_failure_where_the_level_promises_consistency() {
        let phases = [phase(1, 0, 100, 0.0)];
        let violations = || Some(vec!["3.3.2.1 is violated".to_owned()]);
        let failed = report(Isolation::Serializable, &phases, violations());
        assert_eq!(failed.failure().as_deref(), Some("3.3.2.1 is violated (first of 1)"));
        assert!(failed.text().contains("conditions: 1 violations"));
        let weak = report(Isolation::ReadCommitted, &phases, violations());
        assert_eq!(weak.failure(), None);
        assert!(weak.text().contains("as this isolation level allows: 3.3.2.1"), "{}", weak.text());
        assert_eq!(report(Isolation::Serializable, &phases, Some(Vec::new())).failure(), None);
        assert!(report(Isolation::Serializable, &phases, None).text().contains("conditions: not checked"));
    }

    #[test]
    fn noisy_phases_are_left_out_of_all_figures_and_counted() {
        let phases = [
            phase(1, 0, 100, 0.0),
            phase(1, 1, 200, 0.0),
            phase(2, 1, 100, 0.0),
            phase(2, 0, 10, 0.5),
            phase(3, 0, 104, 0.0),
            phase(3, 1, 100, 0.0),
        ];
        let report = report(Isolation::Serializable, &phases, None);
        assert_eq!((report.tps(0), report.tps(1)), (Some(102.0), Some(100.0)));
        let ratio = report.ratios["one to two"].measured.expect("there are rounds");
        assert!((ratio - (0.5 + 1.04) / 2.0).abs() < 1e-9, "{ratio}");
        assert!(report.text().contains("MISSED") && report.text().contains("NOISY"), "{}", report.text());
        let json: Json = serde_json::from_str(&report.json().expect("is JSON")).expect("is JSON");
        assert_eq!((&json["config"]["rows"], &json["phases"][3]["noisy"]), (&3.into(), &true.into()));
        let first = &json["results"][0];
        assert_eq!(first["tps_range"], serde_json::json!([10.0, 104.0]));
        assert_eq!(first["phases"], serde_json::json!({ "clean": 2, "of": 3 }));
        // Speeds and latencies are of the two, counts of all three.
        assert_eq!((&first["by_transaction"]["idle"]["tps"], report.completed(0)), (&102.0.into(), 214));
    }

    #[test]
    fn of_too_few_quiet_phases_there_are_no_figures() {
        let phases = [phase(1, 0, 70, 0.9), phase(2, 0, 80, 0.0), phase(1, 1, 70, 0.0), phase(2, 1, 70, 0.0)];
        let report = report(Isolation::Serializable, &phases, None);
        assert_eq!((report.tps(0), report.tps(1), report.completed(0)), (None, Some(70.0), 150));
        assert_eq!(report.ratios["one to two"].measured, None);
        let text = report.text();
        for line in
            ["one: - transactions/s (70 to 80 in all phases), latency not reported", "only 1 of 2 quiet"]
        {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
        let json: Json = serde_json::from_str(&report.json().expect("is JSON")).expect("is JSON");
        assert!(json["results"][0]["tps"].is_null() && json["results"][0]["latency_us"].is_null());
    }
}
