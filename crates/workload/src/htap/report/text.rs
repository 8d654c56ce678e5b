//! The benchmark's result for people: what the streams did, the targets, and how noisy the phases were.

use super::{Checks, HtapReport, LatencyNs, LatencyUs};
use crate::htap::figure::{Count, Figure};
use crate::htap::phase::write_end;
use crate::htap::ratios::Beside;
use crate::tpcc::check::CONDITIONS;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Ratios by query.
type ByQuery = BTreeMap<&'static str, Figure>;

struct Target {
    name: String,
    measured: Figure,
    limit: f64,
    digits: usize,
    at_least: bool,
}

impl Target {
    fn at_least(name: impl Into<String>, measured: Figure, limit: f64) -> Target {
        Target { name: name.into(), measured, limit, digits: 3, at_least: true }
    }

    fn at_most(name: impl Into<String>, measured: Figure, limit: f64) -> Target {
        Target { name: name.into(), measured, limit, digits: 3, at_least: false }
    }

    /// A whole number, or a dash.
    fn count(name: impl Into<String>, measured: Figure, limit: f64) -> Target {
        Target { digits: 0, ..Target::at_most(name, measured, limit) }
    }

    fn is_met(&self, value: f64) -> bool {
        if self.at_least { value >= self.limit } else { value <= self.limit }
    }
}

impl HtapReport {
    /// The result for people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        self.write_streams(&mut text);
        self.write_answers(&mut text);
        self.write_snapshots(&mut text);
        self.write_queries(&mut text);
        self.write_targets(&mut text);
        write_end(&self.phases, &self.warnings, self.interrupted, &mut text);
        text
    }

    fn write_streams(&self, text: &mut String) {
        let oltp = &self.oltp;
        let _ = writeln!(
            text,
            "OLTP beside OLAP ({} phases): {} transactions/s, latency {}, {} retries",
            oltp.phases.text(),
            number(oltp.tps, 0),
            latencies(oltp.latency_us.as_ref()),
            oltp.retries
        );
        for (name, kind) in &oltp.by_transaction {
            let _ = writeln!(
                text,
                "  {name:<13} {:>8}/s  {}  {} retries",
                number(kind.tps, 0),
                latencies(kind.latency_us.as_ref()),
                kind.retries
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

    /// Snapshots besides those of queries, and what computed beside transactions.
    fn write_snapshots(&self, text: &mut String) {
        let frequent = &self.frequent;
        let _ = writeln!(
            text,
            "with {} snapshots/s besides, each of them read ({} phases): {} transactions/s, OLAP {} million rows/s",
            number(frequent.snapshots_per_second, 0),
            frequent.phases.text(),
            number(frequent.oltp_tps, 0),
            millions(frequent.olap_rows_per_second)
        );
        for (rate, create, read) in [
            ("at 1000/s", &frequent.create_ns, &frequent.create_and_read_ns),
            ("at full speed", &self.snapshot.create_ns, &self.snapshot.create_and_read_ns),
        ] {
            let _ = writeln!(
                text,
                "snapshots {rate}: creation {}, creation and read of all w_ytd and d_ytd {}",
                nanoseconds(create.as_ref()),
                nanoseconds(read.as_ref())
            );
        }
        for (what, beside) in
            [("hybrid", &self.ratios.beside), ("1000 snapshots/s", &self.ratios.at_1000_snapshots_per_second)]
        {
            let cores = &beside.beside_cores;
            let _ = writeln!(
                text,
                "cores in use beside OLTP, {what}: {} for queries, {} in the control ({} rounds)",
                number(cores.queries.value, 2),
                number(cores.control.value, 2),
                cores.queries.count.text()
            );
        }
    }

    /// The checks of answers.
    fn write_answers(&self, text: &mut String) {
        let Checks { answers, sums, markers, missed, wrong, told } = &self.answers;
        let snapshots = self.snapshot.wrong;
        let _ = writeln!(
            text,
            "answers held against what is known: {answers}, sums over the tables {sums}, markers {markers}: \
             {wrong} wrong, {missed} older than what was acknowledged; {snapshots} snapshots with wrong sums"
        );
        let is_allowed = if self.answers_are_promised { "" } else { ", as level and engine allow" };
        told.iter().for_each(|found| {
            let _ = writeln!(text, "  {found}{is_allowed}");
        });
    }

    fn write_queries(&self, text: &mut String) {
        text.push_str(
            "\n                 ms beside OLTP   ms idle        slowdown           to memory   million rows/s\n\
             query   runs      p50      p99       p50    alone  1000 snap/s      tables     idle   beside\n",
        );
        let (alone, frequent) = (&self.ratios.beside, &self.ratios.at_1000_snapshots_per_second);
        for query in &self.olap {
            let ratio = |map: &ByQuery| number(map.get(query.query).and_then(|figure| figure.value), 2);
            let _ = writeln!(
                text,
                "{:<5} {:>6} {:>8} {:>8} {:>9} {:>8} {:>12} {:>11} {:>8} {:>8}",
                query.query,
                query.runs,
                number(query.latency_ms.p50, 2),
                number(query.latency_ms.p99, 2),
                number(query.idle_latency_ms.p50, 2),
                ratio(&alone.olap_slowdown),
                ratio(&frequent.olap_slowdown),
                ratio(&self.ratios.olap_to_memory_tables),
                millions(query.rows_per_second.idle),
                millions(query.rows_per_second.beside_oltp),
            );
        }
        let _ = writeln!(
            text,
            "all   {:>6} {:>36} {:>12} {:>11} {:>8} {:>8}",
            self.olap.iter().map(|query| query.runs).sum::<usize>(),
            number(alone.olap_slowdown_mean.value, 2),
            number(frequent.olap_slowdown_mean.value, 2),
            "",
            millions(self.olap_rows_per_second.idle),
            millions(self.olap_rows_per_second.beside_oltp),
        );
    }

    fn write_targets(&self, text: &mut String) {
        let _ = writeln!(
            text,
            "latencies are of {} hybrid and {} idle phases\n\n\
             ratio                                                    measured     target   rounds",
            self.olap_phases.beside_oltp.text(),
            self.olap_phases.idle.text()
        );
        for target in self.targets() {
            let verdict = match target.measured.value {
                None => "NOT TOLD",
                Some(value) if target.is_met(value) => "met",
                Some(_) => "MISSED",
            };
            let sign = if target.at_least { ">=" } else { "<=" };
            let measured = number(target.measured.value, target.digits);
            let _ = writeln!(
                text,
                "{:<54} {:>10} {:>4} {:<6} {:<8} {verdict}",
                target.name,
                measured,
                sign,
                target.limit,
                target.measured.count.text()
            );
        }
    }

    fn targets(&self) -> Vec<Target> {
        let snapshot = &self.snapshot;
        let of_snapshots = |value: fn(&LatencyNs) -> u64| Figure {
            value: snapshot.create_ns.as_ref().map(|latency| value(latency) as f64),
            count: snapshot.phases,
        };
        let Checks { answers, missed, wrong, .. } = self.answers;
        // Counted in all phases, noisy or not.
        let rounds = Count { clean: self.olap_phases.idle.of / 2, of: self.olap_phases.idle.of / 2 };
        let found = |count: u64| Figure { value: (answers > 0).then_some(count as f64), count: rounds };
        let mut targets = Vec::from(beside_targets("one snapshot per query", &self.ratios.beside));
        targets.extend(beside_targets("1000 snapshots/s", &self.ratios.at_1000_snapshots_per_second));
        let to_read_uncommitted = self.ratios.serializable_to_read_uncommitted;
        let to_memory_tables = worst(&self.ratios.olap_to_memory_tables);
        targets.extend([
            Target::at_least("serializable to read uncommitted", to_read_uncommitted, 0.6),
            Target::at_most("idle latency to memory tables, worst query", to_memory_tables, 1.05),
            Target::count("snapshot creation p50, ns", of_snapshots(|latency| latency.p50), 1000.0),
            Target::count("snapshot creation p99, ns", of_snapshots(|latency| latency.p99), 20_000.0),
            Target::count("answers that missed acknowledged commits", found(missed), 0.0),
            Target::count("wrong answers", found(wrong + snapshot.wrong), 0.0),
        ]);
        targets
    }
}

fn beside_targets(when: &str, beside: &Beside) -> [Target; 4] {
    [
        Target::at_least(format!("OLTP throughput kept, {when}"), beside.oltp_kept, 0.95),
        Target::at_most(format!("p99 of New-Order, {when}"), beside.new_order_p99, 1.5),
        Target::at_most(format!("OLAP slowdown, worst query, {when}"), worst(&beside.olap_slowdown), 1.15),
        Target::at_most(format!("OLAP slowdown, mean, {when}"), beside.olap_slowdown_mean, 1.15),
    ]
}

/// The largest ratio, with the rounds of the query that has fewest; none if one query has no figure.
fn worst(ratios: &ByQuery) -> Figure {
    let weakest = ratios.values().map(|figure| figure.count).min_by_key(|count| count.clean);
    let values: Option<Vec<f64>> = ratios.values().map(|figure| figure.value).collect();
    let largest = values.and_then(|values| values.into_iter().max_by(f64::total_cmp));
    Figure { value: largest, count: weakest.unwrap_or_default() }
}

fn latencies(latency: Option<&LatencyUs>) -> String {
    latency.map_or_else(
        || "not reported".to_owned(),
        |LatencyUs { p50, p99, p999 }| format!("p50 {p50:.0} us, p99 {p99:.0} us, p99.9 {p999:.0} us"),
    )
}

fn nanoseconds(latency: Option<&LatencyNs>) -> String {
    latency.map_or_else(
        || "not reported".to_owned(),
        |LatencyNs { samples, p50, p99, .. }| format!("p50 {p50} ns, p99 {p99} ns ({samples} samples)"),
    )
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

fn millions(value: Option<f64>) -> String {
    number(value.map(|value| value / 1e6), 0)
}
