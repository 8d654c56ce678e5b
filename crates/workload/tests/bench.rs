//! A tiny run of the benchmark: the result has the shape that was promised, and Ctrl-C gives one, too.

use ankerdb_engine::{Configuration, Isolation};
use ankerdb_workload::htap::bench::{Event, Watch, run};
use ankerdb_workload::htap::config::HtapConfig;
use ankerdb_workload::htap::machine::Machine;
use ankerdb_workload::tpcc::input::Access;
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};

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

#[test]
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

    assert!(positive(&json["oltp"]["tps"]));
    assert!(json["oltp"]["aborts"].is_u64() && json["oltp"]["retries"].is_u64());
    for quantile in ["p50", "p99", "p999"] {
        assert!(positive(&json["oltp"]["latency_us"][quantile]));
        for kind in ["new_order", "payment", "order_status"] {
            assert!(
                positive(&json["oltp"]["by_transaction"][kind]["latency_us"][quantile]),
                "{kind} {quantile}"
            );
        }
    }

    let queries = json["olap"].as_array().expect("a list");
    assert_eq!(queries.len(), 8);
    for query in queries {
        assert!(query["query"].is_string() && query["runs"].is_u64());
        assert!(positive(&query["idle_latency_ms"]["p50"]), "{query}");
    }
    assert!(queries.iter().any(|query| positive(&query["latency_ms"]["p99"])));
    for key in ["p50", "p99", "max"] {
        assert!(positive(&json["snapshot"]["create_ns"][key]), "create_ns.{key}");
    }
    assert!(positive(&json["snapshot"]["count"]) && positive(&json["snapshot"]["blocks_lent"]));
    assert!(json["snapshot"]["blocks_materialized"].is_u64());

    assert!(positive(&json["freshness"]["queries_checked"]));
    assert_eq!(json["freshness"]["commits_missed"], 0);
    assert_eq!(json["consistency"]["checked"], true);
    assert_eq!(json["consistency"]["violations"], Value::Array(Vec::new()));

    let ratios = &json["ratios"];
    assert!(positive(&ratios["oltp_kept"]) && positive(&ratios["serializable_to_read_uncommitted"]));
    for beside in [ratios, &ratios["at_1000_snapshots_per_second"]] {
        assert_eq!(beside["olap_slowdown"].as_object().map(|map| map.len()), Some(8));
        assert!(positive(&beside["oltp_kept"]) && positive(&beside["new_order_p99"]), "{beside}");
    }
    let rate = json["frequent"]["snapshots_per_second"].as_f64().expect("a rate");
    assert!((200.0..1100.0).contains(&rate), "{rate} snapshots per second");
    for speed in ["idle", "beside_oltp"] {
        assert!(positive(&json["olap_rows_per_second"][speed]), "{speed}");
    }
    assert!(positive(&queries[6]["rows_per_second"]["idle"]));
    assert!(ratios["olap_to_memory_tables"].as_object().expect("a map").values().all(positive));
    let phases = json["phases"].as_array().expect("a list");
    assert!(phases.len() >= 8 && phases.iter().all(|phase| phase["steal"].is_number()));
    for line in [
        "OLTP throughput kept, 1000 snapshots/s",
        "p99 of New-Order",
        "phases were disturbed",
        "snapshot creation p99",
        "to memory tables",
        "conditions 3.3.2.1-12: hold",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
}

#[test]
fn a_stopped_run_reports_what_was_measured() {
    let (json, text) = result_of(&HtapConfig { seconds: 8, ..tiny(Access::Uniform) }, Some("hybrid"));
    assert_eq!(json["interrupted"], true);
    assert_eq!(json["ratios"]["serializable_to_read_uncommitted"], Value::Null);
    assert!(text.contains("stopped by the user"));
    assert!(positive(&json["olap"][0]["idle_latency_ms"]["p50"]));
}
