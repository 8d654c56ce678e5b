//! A tiny run of the benchmark: the result has the shape that was promised, and Ctrl-C gives one, too.

use ankerdb_engine::{Configuration, Isolation};
use ankerdb_measure::machine::Machine;
use ankerdb_workload::htap::bench::run;
use ankerdb_workload::htap::config::HtapConfig;
use ankerdb_workload::tpcc::input::Access;
use ankerdb_workload::watch::{Event, Watch};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};

/// The report of every engine: answers are right and fresh beside transactions.
#[test]
fn queries_answer_right_in_every_engine() {
    for engine in Configuration::available() {
        let config =
            HtapConfig { engine, isolation: engine.isolation(), seconds: 2, ..tiny(Access::Uniform) };
        // Fails on a wrong or old answer, wherever right ones are promised.
        let (json, _) = result_of(&config, None);
        let answers = &json["answers"];
        assert!(positive(&answers["answers"]) && positive(&answers["sums"]), "{}: {answers}", engine.name());
        assert_eq!(answers["missed"], 0, "{}: {answers}", engine.name());
    }
}

fn tiny(access: Access) -> HtapConfig {
    HtapConfig {
        warehouses: 1,
        oltp_threads: 1,
        olap_threads: 1,
        seconds: 4,
        engine: Configuration::default(),
        isolation: Isolation::Serializable,
        access,
        json: None,
        rounds: 1,
        seed: 9,
    }
}

fn result_of(config: &HtapConfig, stop_at: Option<&'static str>) -> (Value, String) {
    let stop = AtomicBool::new(false);
    let observer = |event: Event| {
        if let Event::Phase { round: 1, name } = event
            && Some(name) == stop_at
        {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let machine = Machine::detect();
    let warnings = config.check(&machine).expect("the configuration is fine");
    let report =
        run(config, &machine, warnings, &Watch { stop: &stop, observer: &observer }).expect("the run works");
    assert_eq!(report.failure(), None);
    let json = report.json().expect("the report is JSON");
    (serde_json::from_str(&json).expect("the JSON can be read"), report.text())
}

fn positive(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| number > 0.0)
}

/// Whether a count of phases is enough for a figure. That depends on what else the machine is doing.
fn are_enough(count: &Value) -> bool {
    let number = |key: &str| count[key].as_u64().unwrap_or_else(|| panic!("{key} in {count}"));
    number("clean") * 2 > number("of")
}

/// Whether a value is there if its phases are enough, and only then.
fn is_told(value: &Value, count: &Value) -> bool {
    if are_enough(count) { positive(value) } else { value.is_null() }
}

/// Whether a figure with its count is there if its phases are enough, and only then.
fn is_figure(figure: &Value) -> bool {
    is_told(&figure["value"], figure)
}

#[test]
#[expect(clippy::too_many_lines, reason = "a list of all that a result holds")]
fn the_result_holds_everything_that_was_promised() {
    let (json, text) = result_of(&tiny(Access::Skewed), None);
    assert_eq!(json["config"]["access"], "skewed");
    assert_eq!(json["config"]["isolation"], "serializable");
    for key in ["cores", "memory_bytes"] {
        assert!(positive(&json["machine"][key]), "machine.{key}");
    }
    assert!(json["machine"]["cpu"].is_string() && json["machine"]["kernel"].is_string());
    assert!(json["commit"].as_str().is_some_and(|commit| !commit.is_empty()));
    assert_eq!(json["interrupted"], false);

    let oltp = &json["oltp"];
    let told = |value: &Value| is_told(value, &oltp["phases"]);
    assert!(told(&oltp["tps"]), "{oltp}");
    assert!(oltp["aborts"].is_u64() && oltp["retries"].is_u64());
    for quantile in ["p50", "p99", "p999"] {
        assert!(told(&oltp["latency_us"][quantile]), "{oltp}");
        for kind in ["new_order", "payment", "order_status"] {
            let kind = &oltp["by_transaction"][kind];
            assert!(told(&kind["latency_us"][quantile]) && told(&kind["tps"]), "{quantile} in {kind}");
            assert!(positive(&kind["completed"]), "{kind}");
        }
    }

    let queries = json["olap"].as_array().expect("a list");
    assert_eq!(queries.len(), 8);
    let (idle, beside) = (&json["olap_phases"]["idle"], &json["olap_phases"]["beside_oltp"]);
    assert_eq!((&idle["of"], &beside["of"]), (&2.into(), &1.into()));
    for query in queries {
        assert!(query["query"].is_string() && query["runs"].is_u64());
        assert!(is_told(&query["idle_latency_ms"]["p50"], idle), "{query}");
        assert!(is_told(&query["rows_per_second"]["idle"], idle), "{query}");
    }
    assert!(queries.iter().any(|query| is_told(&query["latency_ms"]["p99"], beside)));
    let snapshot = &json["snapshot"];
    for of in ["create_ns", "create_and_read_ns"] {
        for key in ["p50", "p99", "max"] {
            assert!(is_told(&snapshot[of][key], &snapshot["phases"]), "{of} {key}: {snapshot}");
        }
    }
    assert!(positive(&snapshot["count"]) && positive(&snapshot["blocks_lent"]));
    assert!(snapshot["blocks_materialized"].is_u64());

    let answers = &json["answers"];
    for checked in ["answers", "sums", "markers"] {
        assert!(positive(&answers[checked]), "{checked}: {answers}");
    }
    assert_eq!(
        (&answers["missed"], &answers["wrong"], &snapshot["wrong"]),
        (&0.into(), &0.into(), &0.into())
    );
    assert_eq!(json["consistency"]["checked"], true);
    assert_eq!(json["consistency"]["violations"], Value::Array(Vec::new()));

    let ratios = &json["ratios"];
    assert!(is_figure(&ratios["oltp_kept"]) && is_figure(&ratios["serializable_to_read_uncommitted"]));
    for beside in [ratios, &ratios["at_1000_snapshots_per_second"]] {
        let slowdowns = beside["olap_slowdown"].as_object().expect("a map");
        assert!(slowdowns.len() == 8 && slowdowns.values().all(is_figure), "{beside}");
        assert!(is_figure(&beside["oltp_kept"]) && is_figure(&beside["new_order_p99"]), "{beside}");
        let cores = &beside["beside_cores"];
        assert!(is_figure(&cores["queries"]) && is_figure(&cores["control"]), "{beside}");
    }
    let frequent = &json["frequent"];
    assert!(is_told(&frequent["snapshots_per_second"], &frequent["phases"]));
    let rate = frequent["snapshots_per_second"].as_f64();
    assert!(rate.is_none_or(|rate| (100.0..1100.0).contains(&rate)), "{frequent}");
    assert!(is_told(&json["olap_rows_per_second"]["idle"], idle));
    assert!(is_told(&json["olap_rows_per_second"]["beside_oltp"], beside));
    assert!(ratios["olap_to_memory_tables"].as_object().expect("a map").values().all(is_figure));
    let phases = json["phases"].as_array().expect("a list");
    assert!(phases.len() >= 8 && phases.iter().all(|phase| phase["steal"].is_number()));
    for name in ["hybrid", "control"] {
        let phase = phases.iter().find(|phase| phase["name"] == name).expect("it ran");
        assert!(positive(&phase["cores"]["oltp"]) && positive(&phase["cores"]["beside"]), "{phase}");
    }
    for line in [
        "OLTP throughput kept, 1000 snapshots/s",
        "p99 of New-Order",
        "phases were noisy",
        "snapshot creation p99",
        "to memory tables",
        "conditions 3.3.2.1-12: hold",
        "answers held against what is known",
        "creation and read of all w_ytd and d_ytd",
        "cores in use beside OLTP",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
}

#[test]
fn a_stopped_run_reports_what_was_measured() {
    let (json, text) = result_of(&HtapConfig { seconds: 8, ..tiny(Access::Uniform) }, Some("hybrid"));
    assert_eq!(json["interrupted"], true);
    assert_eq!(json["ratios"]["serializable_to_read_uncommitted"]["value"], Value::Null);
    assert!(text.contains("stopped by the user"));
    assert!(is_told(&json["olap"][0]["idle_latency_ms"]["p50"], &json["olap_phases"]["idle"]));
}
