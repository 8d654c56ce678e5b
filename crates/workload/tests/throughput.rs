//! Tiny runs of the benchmarks of transactions: the results have the shape that was promised, at every isolation
//! level, and stopping gives one, too.

use ankerdb_engine::Isolation;
use ankerdb_workload::bench::config::BenchConfig;
use ankerdb_workload::bench::course::{Event, Watch};
use ankerdb_workload::bench::report::Report;
use ankerdb_workload::bench::tpcc::{self, TpccConfig};
use ankerdb_workload::htap::machine::Machine;
use ankerdb_workload::tpcc::input::Access;
use ankerdb_workload::tpcc::mix::Mix;
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};

fn bench(threads: usize, isolation: Isolation) -> BenchConfig {
    BenchConfig { threads, seconds: 1, rounds: 2, isolation, seed: 5, json: None }
}

fn tpcc(threads: usize, isolation: Isolation, mix: Mix, access: Access) -> TpccConfig {
    TpccConfig { bench: bench(threads, isolation), warehouses: 1, mix, access }
}

/// Runs a benchmark, stopping it where phase `stop_at` begins.
fn report_of(
    stop_at: Option<u32>,
    run: impl FnOnce(&Machine, &Watch<'_>) -> ankerdb_engine::Result<Report>,
) -> Report {
    let stop = AtomicBool::new(false);
    let observer = |event: Event<'_>| {
        if let Event::Phase { round, .. } = event
            && Some(round) == stop_at
        {
            stop.store(true, Ordering::Relaxed);
        }
    };
    run(&Machine::detect(), &Watch { stop: &stop, observer: &observer }).expect("the run works")
}

fn tpcc_report(config: &TpccConfig, stop_at: Option<u32>) -> Report {
    let warnings = config.check(&Machine::detect()).expect("the configuration is fine");
    report_of(stop_at, |machine, watch| tpcc::run(config, machine, warnings, watch))
}

fn json(report: &Report) -> Value {
    serde_json::from_str(&report.json().expect("the report is JSON")).expect("the JSON can be read")
}

fn positive(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| number > 0.0)
}

#[test]
fn the_full_mix_has_the_shares_and_the_report_of_the_specification() {
    let report = tpcc_report(&tpcc(2, Isolation::Serializable, Mix::Full, Access::Home), None);
    assert_eq!(report.failure(), None);
    let json = json(&report);
    assert_eq!((&json["config"]["mix"], &json["config"]["access"]), (&"full".into(), &"home".into()));
    assert!(json["commit"].is_string() && positive(&json["machine"]["cores"]));
    assert_eq!(json["interrupted"], false);
    assert_eq!(json["consistency"]["checked"], true);
    assert_eq!(json["consistency"]["violations"], Value::Array(Vec::new()));
    assert_eq!(json["phases"].as_array().map(Vec::len), Some(2));
    for phase in json["phases"].as_array().expect("phases are a list") {
        assert!(phase["steal"].is_f64() && phase["void"].is_boolean() && positive(&phase["oltp_tps"]));
    }
    let result = &json["results"][0];
    assert!(positive(&result["tps"]) && positive(&result["latency_us"]["p99"]));
    let completed = |kind: &str| {
        let kind = &result["by_transaction"][kind];
        assert!(positive(&kind["latency_us"]["p50"]), "{kind}");
        kind["completed"].as_f64().unwrap_or(0.0)
    };
    let kinds = [
        ("new_order", 0.45),
        ("payment", 0.43),
        ("order_status", 0.04),
        ("delivery", 0.04),
        ("stock_level", 0.04),
    ];
    let total: f64 = kinds.iter().map(|(kind, _)| completed(kind)).sum();
    for (kind, share) in kinds {
        let measured = completed(kind) / total;
        assert!((measured - share).abs() < 0.02, "{kind}: {measured} of {total}");
    }
}

#[test]
fn weak_levels_run_and_violations_are_no_failure_there() {
    for isolation in [Isolation::RepeatableRead, Isolation::ReadCommitted, Isolation::ReadUncommitted] {
        let report = tpcc_report(&tpcc(3, isolation, Mix::Full, Access::Skewed), None);
        assert_eq!(report.failure(), None, "{isolation:?}");
        assert!(report.tps(0) > 0.0, "{isolation:?}");
    }
}

#[test]
fn a_stopped_run_reports_what_it_has() {
    let report = tpcc_report(&tpcc(1, Isolation::Serializable, Mix::Paper, Access::Uniform), Some(2));
    let json = json(&report);
    assert_eq!(json["interrupted"], true);
    assert_eq!(json["phases"].as_array().map(Vec::len), Some(1));
    assert!(positive(&json["results"][0]["tps"]));
    assert!(json["results"][0]["by_transaction"]["delivery"].is_null());
    assert!(report.text().contains("stopped by the user"));
}

#[test]
fn impossible_configurations_are_refused_before_loading() {
    let fine = tpcc(1, Isolation::Serializable, Mix::Full, Access::Home);
    let refusal = |config: TpccConfig| config.check(&Machine::detect()).expect_err("is refused").to_string();
    assert_eq!(refusal(TpccConfig { warehouses: 0, ..fine.clone() }), "--warehouses must be at least 1");
    let message = refusal(TpccConfig { warehouses: 900_000, ..fine.clone() });
    assert!(message.contains("at most --warehouses"), "{message}");
    let busy = TpccConfig { bench: bench(200, Isolation::Serializable), ..fine };
    let warnings = busy.check(&Machine::detect()).expect("too many threads are accepted");
    assert!(warnings.iter().any(|warning| warning.contains("200 threads share")), "{warnings:?}");
    assert!(warnings.iter().any(|warning| warning.contains("home warehouses")), "{warnings:?}");
}
