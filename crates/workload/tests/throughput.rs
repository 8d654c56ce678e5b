//! Tiny runs of the benchmarks of transactions: the results have the shape that was promised, at every isolation
//! level, and stopping gives one, too.

use ankerdb_engine::{ColumnSet, Configuration, Database, Isolation, Value as Cell};
use ankerdb_measure::machine::Machine;
use ankerdb_workload::bench::compare::Compare;
use ankerdb_workload::bench::config::BenchConfig;
use ankerdb_workload::bench::long_reader::{self, LongReader, LongReaderConfig};
use ankerdb_workload::bench::profile::Probes;
use ankerdb_workload::bench::report::BenchReport;
use ankerdb_workload::bench::smallbank::{self, SmallbankConfig, SmallbankWorkload};
use ankerdb_workload::bench::tpcc::{self, TpccConfig};
use ankerdb_workload::bench::ycsb::{self, Distribution, YcsbConfig, YcsbWorkload};
use ankerdb_workload::tpcc::input::Access;
use ankerdb_workload::tpcc::mix::Mix;
use ankerdb_workload::watch::{Event, Watch};
use serde_json::Value;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

fn bench(threads: usize, isolation: Isolation) -> BenchConfig {
    BenchConfig {
        threads,
        seconds: 1,
        rounds: 2,
        isolation,
        engine: Configuration::default(),
        compare: Vec::new(),
        probes: None,
        seed: 5,
        json: None,
    }
}

fn tpcc(threads: usize, isolation: Isolation, mix: Mix, access: Access) -> TpccConfig {
    TpccConfig { bench: bench(threads, isolation), warehouses: 1, mix, access, durable: None, sessions: 1 }
}

/// Runs a benchmark, stopping it where phase `stop_at` begins.
fn report_of(
    stop_at: Option<u32>,
    run: impl FnOnce(&Machine, &Watch<'_>) -> ankerdb_engine::Result<BenchReport>,
) -> BenchReport {
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

fn tpcc_report(config: &TpccConfig, stop_at: Option<u32>) -> BenchReport {
    let warnings = config.check(&Machine::detect()).expect("the configuration is fine");
    report_of(stop_at, |machine, watch| tpcc::run(config, machine, warnings, watch))
}

fn json(report: &BenchReport) -> Value {
    serde_json::from_str(&report.json().expect("the report is JSON")).expect("the JSON can be read")
}

fn positive(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| number > 0.0)
}

fn are_enough(count: &Value) -> bool {
    let number = |key: &str| count[key].as_u64().unwrap_or_else(|| panic!("{key} in {count}"));
    number("clean") * 2 > number("of")
}

/// Whether a figure of a result is there if enough of its phases were quiet, and only then. That depends on what else
/// the machine is doing.
fn is_told(value: &Value, result: &Value) -> bool {
    if are_enough(&result["phases"]) { positive(value) } else { value.is_null() }
}

/// Whether a ratio is there if enough of its rounds were quiet, which may be fewer, and only then.
fn is_ratio(ratio: &Value) -> bool {
    if are_enough(&ratio["rounds"]) { positive(&ratio["measured"]) } else { ratio["measured"].is_null() }
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
        assert!(phase["steal"].is_f64() && phase["noisy"].is_boolean() && positive(&phase["oltp_tps"]));
    }
    let result = &json["results"][0];
    assert!(is_told(&result["tps"], result) && is_told(&result["latency_us"]["p99"], result));
    let completed = |kind: &str| {
        let kind = &result["by_transaction"][kind];
        assert!(is_told(&kind["latency_us"]["p50"], result) && is_told(&kind["tps"], result), "{kind}");
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
fn comparisons_run_side_by_side_and_give_ratios() {
    let mut config = tpcc(2, Isolation::Serializable, Mix::Full, Access::Home);
    config.bench.compare = vec![Compare::Threads, Compare::Isolation, Compare::Contention];
    config.bench.probes = Some(Probes { allocations: Some(|| 7) });
    let report = tpcc_report(&config, None);
    assert_eq!(report.failure(), None);
    let json = json(&report);
    assert_eq!(json["config"]["compare"], serde_json::json!(["threads", "isolation", "contention"]));
    let names: Vec<&str> = json["phases"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|phase| phase["name"].as_str())
        .collect();
    let variants = [
        "2 threads, serializable",
        "1 thread, serializable",
        "2 threads, repeatable-read",
        "1 warehouse, 2 threads",
        "1 warehouse, 1 thread",
    ];
    assert_eq!(names[..5], variants);
    assert!(names[5..].iter().rev().eq(&variants), "the second round runs backwards: {names:?}");
    for (ratio, target) in [
        ("all threads to one thread", 1.6),
        ("serializable to snapshot isolation", 0.95),
        ("all threads to one thread in one warehouse", 1.0),
    ] {
        assert!(is_ratio(&json["ratios"][ratio]), "{ratio}");
        assert_eq!(json["ratios"][ratio]["target"], target, "{ratio}");
        assert!(report.text().contains(&format!("{ratio}: ")), "{}", report.text());
    }
    for (number, variant) in variants.iter().enumerate() {
        let result = &json["results"][number];
        assert_eq!(result["variant"], *variant);
        assert_eq!(result["threads"], if variant.contains("2 threads") { 2 } else { 1 });
        assert_eq!(result["profile"]["allocations"], 0.0);
        let profile = &result["profile"];
        assert!(positive(&profile["instructions"]) || profile["unavailable"].is_string(), "{profile}");
    }
}

#[test]
fn versions_grow_beside_a_long_reader_and_go_with_it() {
    let mut tpcc = tpcc(2, Isolation::Serializable, Mix::Full, Access::Home);
    tpcc.bench.rounds = 1;
    let config = LongReaderConfig { tpcc, readers: LongReader::ALL.to_vec() };
    let warnings = config.check(&Machine::detect()).expect("the configuration is fine");
    let report = report_of(None, |machine, watch| long_reader::run(&config, machine, warnings, watch));
    assert_eq!(report.failure(), None);
    let json = json(&report);
    assert_eq!(json["config"]["readers"], serde_json::json!(["snapshot", "transaction"]));
    let timeline = json["timeline"].as_array().expect("there are samples");
    let versions = |phase: &str| {
        let samples = timeline.iter().filter(|sample| sample["phase"] == phase);
        let bytes: Vec<u64> = samples.filter_map(|sample| sample["version_bytes"].as_u64()).collect();
        assert!(!bytes.is_empty(), "{phase}");
        bytes
    };
    let free = versions("no reader").into_iter().max().unwrap_or(0);
    for (phase, ratio) in [
        ("snapshot open", "throughput kept beside an open snapshot"),
        ("transaction open, serializable", "throughput kept beside an open transaction"),
    ] {
        let held = versions(phase).into_iter().max().unwrap_or(0);
        assert!(held > free, "{held} bytes of versions with a reader ({phase}), {free} without");
        assert!(is_ratio(&json["ratios"][ratio]), "{ratio}");
    }
    for sample in timeline {
        assert!(positive(&sample["oltp_tps"]) && positive(&sample["table_bytes"]), "{sample}");
    }
    assert!(report.text().contains("MiB of versions"), "{}", report.text());
}

#[test]
fn other_engines_run_the_same_benchmark() {
    let mut config = tpcc(2, Isolation::RepeatableRead, Mix::Full, Access::Home);
    config.bench.engine = Configuration::SeeSi;
    let report = tpcc_report(&config, None);
    assert_eq!((report.failure(), &json(&report)["config"]["engine"]), (None, &"see-si".into()));
}

#[test]
fn weak_levels_run_and_violations_are_no_failure_there() {
    for isolation in [Isolation::RepeatableRead, Isolation::ReadCommitted, Isolation::ReadUncommitted] {
        let report = tpcc_report(&tpcc(3, isolation, Mix::Full, Access::Skewed), None);
        assert_eq!(report.failure(), None, "{isolation:?}");
        assert!(report.completed(0) > 0, "{isolation:?}");
    }
}

#[test]
fn a_database_on_disk_runs_beside_and_its_folder_goes() {
    let folder = std::env::temp_dir().join(format!("ankerdb-throughput-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("room for a folder");
    let plain = tpcc(2, Isolation::Serializable, Mix::Full, Access::Uniform);
    let config = TpccConfig { durable: Some(folder.clone()), sessions: 8, ..plain };
    let report = tpcc_report(&config, None);
    // Both databases are checked.
    assert_eq!(report.failure(), None);
    assert!((0..3).all(|variant| report.completed(variant) > 0));
    let json = json(&report);
    for (ratio, over) in [
        ("durable to in memory", "durable, 2 threads"),
        ("durable without waiting to in memory", "durable, not waiting, 2 threads"),
    ] {
        assert_eq!(json["ratios"][ratio]["over"], over, "{json}");
    }
    let log = &json["config"]["new_order_log"];
    let number = |key: &str| log[key].as_f64().unwrap_or_else(|| panic!("{key} in {log}"));
    assert!((5.0..=15.0).contains(&number("lines")), "{log}");
    // An order line alone has a text of 24 characters and nine other cells.
    assert!((400.0..6_000.0).contains(&number("bytes")), "{log}");
    assert!(report.text().contains("bytes in the log"));
    assert_eq!(std::fs::read_dir(&folder).expect("it is there").count(), 0);
    std::fs::remove_dir_all(&folder).expect("it is empty");
}

#[test]
fn a_stopped_run_reports_what_it_has() {
    let report = tpcc_report(&tpcc(1, Isolation::Serializable, Mix::Paper, Access::Uniform), Some(2));
    let json = json(&report);
    assert_eq!(json["interrupted"], true);
    assert_eq!(json["phases"].as_array().map(Vec::len), Some(1));
    assert!(is_told(&json["results"][0]["tps"], &json["results"][0]));
    assert!(json["results"][0]["by_transaction"]["delivery"].is_null());
    assert!(report.text().contains("stopped by the user"));
}

#[test]
fn impossible_configurations_are_refused_before_loading() {
    let fine = tpcc(1, Isolation::Serializable, Mix::Full, Access::Home);
    let refusal = |config: TpccConfig| config.check(&Machine::detect()).expect_err("is refused").to_string();
    assert_eq!(refusal(TpccConfig { warehouses: 0, ..fine.clone() }), "--warehouses must be at least 1");
    assert_eq!(refusal(TpccConfig { sessions: 0, ..fine.clone() }), "--sessions must be at least 1");
    let nowhere = TpccConfig { durable: Some("no folder".into()), ..fine.clone() };
    assert_eq!(refusal(nowhere), "--durable \"no folder\" is no folder");
    let message = refusal(TpccConfig { warehouses: 900_000, ..fine.clone() });
    assert!(message.contains("at most --warehouses"), "{message}");
    let busy = TpccConfig { bench: bench(200, Isolation::Serializable), ..fine };
    let warnings = busy.check(&Machine::detect()).expect("too many threads are accepted");
    assert!(warnings.iter().any(|warning| warning.contains("200 threads share")), "{warnings:?}");
    assert!(warnings.iter().any(|warning| warning.contains("home warehouses")), "{warnings:?}");
}

fn ycsb(fields: u64, field_bytes: u64, reads_percent: u32, distribution: Distribution) -> YcsbConfig {
    let bench = bench(2, Isolation::Serializable);
    YcsbConfig { bench, rows: 5_000, fields, field_bytes, reads_percent, distribution }
}

#[test]
fn ycsb_runs_with_any_shape_of_rows_and_keys() {
    for config in [
        ycsb(1, 100, 50, Distribution::Uniform),
        ycsb(10, 16, 95, Distribution::Zipf(0.9)),
        YcsbConfig { rows: 1, ..ycsb(2, 20, 0, Distribution::Zipf(2.0)) },
    ] {
        let warnings = config.check(&Machine::detect()).expect("the configuration is fine");
        let report = report_of(None, |machine, watch| ycsb::run(&config, machine, warnings, watch));
        assert_eq!(report.failure(), None);
        let json = json(&report);
        assert_eq!(json["config"]["distribution"], config.distribution.name());
        assert_eq!(json["consistency"]["checked"], true);
        assert!(positive(&json["results"][0]["by_transaction"]["operations_10"]["completed"]));
    }
}

/// Changes one column of the first row of a table, or deletes the row.
fn damage(database: &Database, table: &str, change: Option<(usize, Cell)>) {
    let table = database.catalog().table(table).expect("the table exists");
    let mut session = database.session();
    let done = session.run(Isolation::Serializable, |transaction| {
        let mut first = None;
        transaction.scan_table(&table, ColumnSet::ALL, None, &mut |_, row| {
            first = Some(row);
            Ok(ControlFlow::Break(()))
        })?;
        let row = first.expect("the table has rows");
        match &change {
            Some(change) => transaction.update(&table, row, vec![change.clone()]),
            None => transaction.delete(&table, row),
        }
    });
    done.expect("the change works");
}

#[test]
fn damaged_ycsb_rows_are_found() {
    let (stop, observer) = (AtomicBool::new(false), |_: Event<'_>| ());
    let watch = Watch { stop: &stop, observer: &observer };
    let database = Database::new();
    let config = ycsb(2, 100, 50, Distribution::Uniform);
    let workload = YcsbWorkload::load(&database, &config, &watch).expect("loading works");
    assert_eq!(workload.check().expect("checking works"), Vec::<String>::new());
    damage(&database, "usertable", Some((2, Cell::text("of another row"))));
    let found = workload.check().expect("checking works");
    assert!(found.len() == 1 && found[0].contains("field 1 of row"), "{found:?}");
    damage(&database, "usertable", None);
    assert_eq!(workload.check().expect("checking works"), ["4999 rows instead of 5000"]);
}

fn smallbank(customers: u64, zipf: f64) -> SmallbankConfig {
    SmallbankConfig { bench: bench(4, Isolation::Serializable), customers, zipf }
}

#[test]
fn smallbank_keeps_its_money_under_any_skew() {
    for config in [smallbank(1_000, 0.0), smallbank(100, 1.0), smallbank(2, 2.0)] {
        let warnings = config.check(&Machine::detect()).expect("the configuration is fine");
        let report = report_of(None, |machine, watch| smallbank::run(&config, machine, warnings, watch));
        assert_eq!(report.failure(), None);
        let json = json(&report);
        assert_eq!(json["config"]["customers"], config.customers);
        let kinds = json["results"][0]["by_transaction"].as_object().expect("kinds have names");
        assert_eq!(kinds.len(), 6);
        assert!(kinds.values().all(|kind| positive(&kind["completed"])), "{kinds:?}");
    }
}

#[test]
fn money_from_nowhere_and_debts_are_found() {
    let (stop, observer) = (AtomicBool::new(false), |_: Event<'_>| ());
    let watch = Watch { stop: &stop, observer: &observer };
    let database = Database::new();
    let workload = SmallbankWorkload::load(&database, &smallbank(10, 0.0), &watch).expect("loading works");
    assert_eq!(workload.check().expect("checking works"), Vec::<String>::new());
    let cents = |cents| Cell::Numeric(ankerdb_engine::Decimal::new(cents, 2));
    damage(&database, "checking", Some((1, cents(1))));
    let found = workload.check().expect("checking works");
    assert!(found.len() == 1 && found[0].contains("cents in all accounts, and should be"), "{found:?}");
    damage(&database, "savings", Some((1, cents(-5))));
    let found = workload.check().expect("checking works");
    assert!(found.len() == 2 && found[1].contains("are -5 cents"), "{found:?}");
    damage(&database, "savings", None);
    assert!(workload.check().expect("checking works")[0].contains("19 accounts instead of 20"));
}

#[test]
fn a_stopped_load_ends_the_run() {
    let (stop, observer) = (AtomicBool::new(true), |_: Event<'_>| ());
    let watch = Watch { stop: &stop, observer: &observer };
    let config = YcsbConfig { rows: 1_000_000, ..ycsb(1, 100, 50, Distribution::Uniform) };
    let error = ycsb::run(&config, &Machine::detect(), Vec::new(), &watch).expect_err("it was stopped");
    assert_eq!(error.state(), ankerdb_engine::SqlState::QueryCanceled);
}
