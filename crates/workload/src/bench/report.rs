//! The result of a benchmark of transactions: for programs as JSON, for people as text.
//!
//! Machine, commit, configuration, warnings and phases stand where `bench htap` has them; `results` has one element
//! for each variant, in the form of that benchmark's `oltp`.

use super::config::{BenchConfig, ConfigReport};
use super::course::{Course, Phase};
use super::stream::{KindResult, StreamResult};
use crate::htap::config::isolation_name;
use crate::htap::latency::median;
use crate::htap::machine::{Machine, commit};
use crate::htap::report::{MAX_OTHERS, MAX_STEAL};
use ankerdb_engine::{Error, Isolation, Result};
use serde::Serialize;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// One result.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
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
    #[serde(skip)]
    consistency_is_promised: bool,
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
    /// Median over the phases that are not void, if there are any.
    tps: f64,
    /// Slowest and fastest of all phases.
    tps_range: [f64; 2],
    aborts: u64,
    retries: u64,
    latency_us: LatencyUs,
    by_transaction: BTreeMap<&'static str, KindReport>,
}

#[derive(Clone, Debug, Serialize)]
struct KindReport {
    tps: f64,
    completed: u64,
    /// Rolled back as the specification wants it.
    rolled_back: u64,
    /// Left out, where the specification wants that counted: districts without an order to deliver.
    #[serde(skip_serializing_if = "is_zero")]
    skipped: u64,
    aborts: u64,
    retries: u64,
    latency_us: LatencyUs,
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
    /// Median over rounds; `None` where a run was stopped before.
    measured: Option<f64>,
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
    /// Too much of either: the phase is left out of medians, if there are others.
    void: bool,
    oltp_tps: f64,
}

/// What a report is made of besides the phases.
pub struct About {
    /// The benchmark's name.
    pub benchmark: &'static str,
    /// Its own options.
    pub own: Json,
    /// Where it ran.
    pub machine: Machine,
    /// What to know about the result.
    pub warnings: Vec<String>,
    /// What was checked after the run.
    pub conditions: &'static str,
    /// Conditions that do not hold; `None` if they were not checked.
    pub violations: Option<Vec<String>>,
}

impl Report {
    /// Sums up.
    pub fn new(course: &Course<'_>, about: About, phases: &[Phase]) -> Report {
        let is_promised =
            |isolation| matches!(isolation, Isolation::RepeatableRead | Isolation::Serializable);
        let mut ran =
            (0..course.variants.len()).filter(|&variant| phases_of(phases, variant).next().is_some());
        Report {
            benchmark: about.benchmark,
            config: BenchmarkConfig { common: course.config.report(), own: about.own },
            machine: about.machine,
            commit: commit(),
            interrupted: course.watch.is_stopped(),
            warnings: about.warnings,
            consistency_is_promised: ran.all(|variant| is_promised(course.variants[variant].isolation)),
            results: (0..course.variants.len())
                .map(|variant| VariantReport::of(course, phases, variant))
                .collect(),
            consistency: ConsistencyReport {
                checked: about.violations.is_some(),
                conditions: about.conditions,
                violations: about.violations.unwrap_or_default(),
            },
            ratios: course.ratios.iter().map(|ratio| ratio_report(course, ratio, phases)).collect(),
            phases: phases.iter().map(|phase| phase_report(course, phase)).collect(),
        }
    }

    /// The result as indented JSON.
    pub fn json(&self) -> Result<String> {
        serde_json::to_string_pretty(self)
            .map_err(|error| Error::internal(format!("cannot write JSON: {error}")))
    }

    /// Writes the JSON to a file.
    pub fn write_json(&self, path: &Path) -> Result<()> {
        let written = std::fs::write(path, self.json()? + "\n");
        written.map_err(|error| Error::internal(format!("cannot write {}: {error}", path.display())))
    }

    /// What makes the run a failure, whatever its speed: a condition that does not hold although the isolation levels
    /// that were used promise it.
    pub fn failure(&self) -> Option<String> {
        let violations = &self.consistency.violations;
        let first = violations.first().filter(|_| self.consistency_is_promised)?;
        Some(format!("{first} (first of {})", violations.len()))
    }

    /// The median throughput of a variant, for programs.
    pub fn tps(&self, variant: usize) -> f64 {
        self.results[variant].tps
    }

    /// The result for people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        self.results.iter().for_each(|result| result.write(&mut text));
        self.write_consistency(&mut text);
        self.write_ratios(&mut text);
        self.write_notes(&mut text);
        text
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
                None => "not measured",
                Some(value) if value >= ratio.target => "met",
                Some(_) => "MISSED",
            };
            let measured = ratio.measured.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
            let RatioReport { over, under, target, .. } = ratio;
            let _ = writeln!(text, "{name}: {measured} (at least {target}: {verdict}), {over} / {under}");
        }
    }

    fn write_notes(&self, text: &mut String) {
        for phase in &self.phases {
            let mark = if phase.void { "  VOID" } else { "" };
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
        if self.phases.iter().any(|phase| phase.void) {
            let _ = writeln!(
                text,
                "note: of void phases the hypervisor took over {:.0}% of the CPU, or other processes over {:.0}%; \
                 medians leave them out where they can",
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
    }

    /// One line about what is going to run.
    pub fn title(config: &BenchConfig) -> String {
        let BenchConfig { threads, seconds, rounds, isolation, engine, .. } = config;
        let engine = engine.name();
        format!("{engine}, {threads} threads, {seconds} s in {rounds} rounds, {}", isolation_name(*isolation))
    }
}

fn phases_of(phases: &[Phase], variant: usize) -> impl Iterator<Item = &Phase> {
    phases.iter().filter(move |phase| phase.variant == variant)
}

/// The median of the samples that are not void, or of all if there are no others.
fn settle(samples: &[(f64, bool)]) -> Option<f64> {
    let calm = samples.iter().filter(|(_, void)| !void).map(|(value, _)| *value);
    let mut calm: Vec<f64> = calm.collect();
    if calm.is_empty() {
        calm = samples.iter().map(|(value, _)| *value).collect();
    }
    median(&mut calm)
}

fn ratio_report(
    course: &Course<'_>,
    ratio: &super::course::Ratio,
    phases: &[Phase],
) -> (&'static str, RatioReport) {
    let samples: Vec<(f64, bool)> = phases_of(phases, ratio.over)
        .filter_map(|over| {
            let under = phases_of(phases, ratio.under).find(|under| under.round == over.round)?;
            let value = over.result.per_second() / under.result.per_second();
            value.is_finite().then_some((value, over.is_void() || under.is_void()))
        })
        .collect();
    let name = |variant: usize| course.variants[variant].name.clone();
    let report = RatioReport {
        measured: settle(&samples),
        target: ratio.target,
        over: name(ratio.over),
        under: name(ratio.under),
    };
    (ratio.name, report)
}

fn phase_report(course: &Course<'_>, phase: &Phase) -> PhaseReport {
    PhaseReport {
        round: phase.round,
        name: course.variants[phase.variant].name.clone(),
        seconds: phase.result.elapsed.as_secs_f64(),
        steal: phase.disturbance.steal,
        other_processes: phase.disturbance.others,
        void: phase.is_void(),
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
    fn of(course: &Course<'_>, phases: &[Phase], position: usize) -> VariantReport {
        let variant = &course.variants[position];
        let mut sum = StreamResult::default();
        phases_of(phases, position).for_each(|phase| sum.add(&phase.result));
        let samples: Vec<(f64, bool)> =
            phases_of(phases, position).map(|phase| (phase.result.per_second(), phase.is_void())).collect();
        let speeds = || samples.iter().map(|(speed, _)| *speed);
        let total = sum.total();
        let seconds = sum.elapsed.as_secs_f64().max(1e-9);
        let kind = |kind: &KindResult| KindReport {
            tps: kind.completed as f64 / seconds,
            completed: kind.completed,
            rolled_back: kind.rolled_back,
            skipped: kind.skipped,
            aborts: kind.aborts,
            retries: kind.aborts,
            latency_us: LatencyUs::of(kind),
        };
        let names = variant.workload.kinds().iter().copied();
        VariantReport {
            variant: variant.name.clone(),
            threads: variant.threads,
            isolation: isolation_name(variant.isolation),
            tps: settle(&samples).unwrap_or(0.0),
            tps_range: [speeds().reduce(f64::min).unwrap_or(0.0), speeds().reduce(f64::max).unwrap_or(0.0)],
            aborts: total.aborts,
            retries: total.aborts,
            latency_us: LatencyUs::of(&total),
            by_transaction: names.zip(sum.kinds.iter().map(kind)).collect(),
        }
    }

    fn write(&self, text: &mut String) {
        let LatencyUs { p50, p99, p999 } = self.latency_us;
        let _ = writeln!(
            text,
            "{}: {:.0} transactions/s ({:.0} to {:.0}), latency p50 {p50:.1} us, p99 {p99:.1} us, p99.9 {p999:.1} us, \
             {} retries",
            self.variant, self.tps, self.tps_range[0], self.tps_range[1], self.retries
        );
        for (name, kind) in &self.by_transaction {
            let skipped =
                if kind.skipped > 0 { format!(", {} skipped", kind.skipped) } else { String::new() };
            let _ = writeln!(
                text,
                "  {name:<16} {:>9.0}/s  {:>10} completed  p50 {:>7.1} us  p99 {:>7.1} us  {} retries, {} rolled back{skipped}",
                kind.tps,
                kind.completed,
                kind.latency_us.p50,
                kind.latency_us.p99,
                kind.retries,
                kind.rolled_back,
            );
        }
    }
}
