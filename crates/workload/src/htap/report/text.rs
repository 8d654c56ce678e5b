//! The benchmark's result for people: what the streams did, the targets, and how disturbed the phases were.

use super::{MAX_OTHERS, MAX_STEAL, Report};
use crate::htap::ratios::Beside;
use crate::tpcc::check::CONDITIONS;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Ratios by query.
type ByQuery = BTreeMap<&'static str, Option<f64>>;

struct Target {
    name: String,
    measured: Option<f64>,
    limit: f64,
    digits: usize,
    at_least: bool,
}

impl Target {
    fn at_least(name: impl Into<String>, measured: Option<f64>, limit: f64) -> Target {
        Target { name: name.into(), measured, limit, digits: 3, at_least: true }
    }

    fn at_most(name: impl Into<String>, measured: Option<f64>, limit: f64) -> Target {
        Target { name: name.into(), measured, limit, digits: 3, at_least: false }
    }

    /// The same for a whole number.
    fn count(name: impl Into<String>, measured: Option<f64>, limit: f64) -> Target {
        Target { digits: 0, ..Target::at_most(name, measured, limit) }
    }

    fn is_met(&self, value: f64) -> bool {
        if self.at_least { value >= self.limit } else { value <= self.limit }
    }
}

impl Report {
    /// The result for people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        self.write_streams(&mut text);
        self.write_queries(&mut text);
        self.write_targets(&mut text);
        self.write_phases(&mut text);
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
        let frequent = &self.frequent;
        let _ = writeln!(
            text,
            "with {:.0} snapshots/s besides: {:.0} transactions/s, OLAP {} million rows/s",
            frequent.snapshots_per_second,
            frequent.oltp_tps,
            millions(frequent.olap_rows_per_second)
        );
    }

    fn write_queries(&self, text: &mut String) {
        text.push_str(
            "\n                 ms beside OLTP   ms idle        slowdown           to memory   million rows/s\n\
             query   runs      p50      p99       p50    alone  1000 snap/s      tables     idle   beside\n",
        );
        let (alone, frequent) = (&self.ratios.beside, &self.ratios.at_1000_snapshots_per_second);
        for query in &self.olap {
            let ratio = |map: &ByQuery| number(map.get(query.query).copied().flatten(), 2);
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
            number(alone.olap_slowdown_mean, 2),
            number(frequent.olap_slowdown_mean, 2),
            "",
            millions(self.olap_rows_per_second.idle),
            millions(self.olap_rows_per_second.beside_oltp),
        );
    }

    fn write_targets(&self, text: &mut String) {
        text.push_str("\nratio                                                    measured     target\n");
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
                "{:<54} {:>10} {:>4} {:<6} {verdict}",
                target.name, measured, sign, target.limit
            );
        }
    }

    fn targets(&self) -> Vec<Target> {
        let creation = &self.snapshot.create_ns;
        let nanoseconds = |value: u64| (creation.samples > 0).then_some(value as f64);
        let missed = (self.freshness.queries_checked > 0).then_some(self.freshness.commits_missed as f64);
        let mut targets = Vec::from(beside_targets("one snapshot per query", &self.ratios.beside));
        targets.extend(beside_targets("1000 snapshots/s", &self.ratios.at_1000_snapshots_per_second));
        let to_read_uncommitted = self.ratios.serializable_to_read_uncommitted;
        let to_memory_tables = worst(&self.ratios.olap_to_memory_tables);
        targets.extend([
            Target::at_least("serializable to read uncommitted", to_read_uncommitted, 0.6),
            Target::at_most("idle latency to memory tables, worst query", to_memory_tables, 1.05),
            Target::count("snapshot creation p50, ns", nanoseconds(creation.p50), 1000.0),
            Target::count("snapshot creation p99, ns", nanoseconds(creation.p99), 20_000.0),
            Target::count("acknowledged commits missed by queries", missed, 0.0),
        ]);
        targets
    }

    /// Every phase with the CPU time that others took; those that are too disturbed are marked.
    fn write_phases(&self, text: &mut String) {
        text.push_str("\nround  phase                         s   stolen  others  transactions/s  queries\n");
        for phase in &self.phases {
            let _ = writeln!(
                text,
                "{:>5}  {:<24} {:>6.1}  {:>6.1}% {:>6.1}% {:>15} {:>8}{}",
                phase.round,
                phase.name,
                phase.seconds,
                phase.steal * 100.0,
                phase.other_processes * 100.0,
                number(phase.oltp_tps, 0),
                phase.queries.map_or_else(|| "-".to_owned(), |queries| queries.to_string()),
                if phase.void { "  DISTURBED" } else { "" }
            );
        }
        let void = self.phases.iter().filter(|phase| phase.void).count();
        let _ = writeln!(
            text,
            "{void} of {} phases were disturbed (over {:.0}% of the CPU stolen by the hypervisor, or over {:.0}% used \
             by other processes); medians leave them out where there are others",
            self.phases.len(),
            MAX_STEAL * 100.0,
            MAX_OTHERS * 100.0
        );
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

fn worst(ratios: &ByQuery) -> Option<f64> {
    ratios.values().flatten().copied().max_by(f64::total_cmp)
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

fn millions(value: Option<f64>) -> String {
    number(value.map(|value| value / 1e6), 0)
}
