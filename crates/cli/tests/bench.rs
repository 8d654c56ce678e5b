//! The benchmarks of transactions as a user meets them: refusals, a run, ctrl-c.

mod support;

use std::io::{BufRead, BufReader};
use support::{ankerdb, run, signal, text};

#[test]
fn impossible_requests_are_refused_in_one_line() {
    for (arguments, part) in [
        (&["bench", "tpcc", "--warehouses", "0"][..], "--warehouses must be at least 1"),
        (&["bench", "tpcc", "--threads", "0"], "--threads must be at least 1"),
        (&["bench", "tpcc", "--seconds", "0"], "--seconds must be at least 1"),
        (&["bench", "tpcc", "--rounds", "0"], "--rounds must be at least 1"),
        (&["bench", "tpcc", "--warehouses", "900000"], "at most --warehouses"),
        (&["bench", "tpcc", "--mix", "all"], "there are full, paper"),
        (&["bench", "tpcc", "--access", "zipf"], "there are home, uniform, skewed"),
        (&["bench", "tpcc", "--compare", "speed"], "there are threads, isolation, contention"),
        (&["bench", "tpcc", "--compare", "threads", "--threads", "1"], "--threads must be at least 2"),
        (
            &["bench", "tpcc", "--compare", "isolation", "--engine", "see-ru"],
            "leave --isolation serializable",
        ),
        (&["bench", "ch", "--warehouses", "0"], "--warehouses must be at least 1"),
        (&["bench", "ch", "--oltp-threads", "0"], "--oltp-threads must be at least 1"),
        (&["bench", "ch", "--olap", "0"], "--olap-threads must be at least 1"),
        (&["bench", "ch", "--refresh-every", "0"], "--refresh-every must be at least 1"),
        (&["bench", "ch", "--isolation", "read-committed"], "must be serializable or repeatable-read"),
        (&["bench", "smallbank", "--compare", "contention"], "--compare contention is for tpcc"),
        (&["bench", "tpcc", "--engine", "sqlite"], "there are ankerdb, see-fs"),
        (&["bench", "long-reader", "--seconds", "0"], "--seconds must be at least 1"),
        (&["bench", "long-reader", "--reader", "me"], "there are snapshot, transaction"),
        (&["bench", "long-reader", "--compare", "threads"], "--compare is for the other benchmarks"),
        (&["bench", "long-reader", "--seconds", "80000"], "no room for any"),
        (&["bench", "ycsb", "--rows", "0"], "--rows must be at least 1"),
        (&["bench", "ycsb", "--rows", "9000000000"], "at most --rows"),
        (&["bench", "ycsb", "--reads", "101"], "--reads must be at most 100"),
        (&["bench", "ycsb", "--field-bytes", "3"], "--field-bytes must be at least 16"),
        (&["bench", "ycsb", "--distribution", "zipf:9"], "there are uniform, zipf:THETA"),
        (&["bench", "smallbank", "--customers", "1"], "--customers must be at least 2"),
        (&["bench", "smallbank", "--zipf", "3"], "--zipf must be from 0 to 2"),
        (&["bench", "smallbank", "--threads", "0"], "--threads must be at least 1"),
        (&["bench", "tpcc", "--json", "/no/such/folder/x.json"], "cannot write /no/such/folder/x.json"),
    ] {
        let output = run(arguments);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        let line = message.lines().next().unwrap_or_default();
        assert!(line.contains(part), "{arguments:?}: {message}");
        assert!(!message.contains("loading"), "{arguments:?}: {message}");
    }
}

#[test]
fn ctrl_c_ends_tpcc_with_what_was_measured_and_too_many_threads_are_a_warning() {
    let json = std::env::temp_dir().join(format!("ankerdb-tpcc-{}.json", std::process::id()));
    let path = json.to_str().expect("the path is text");
    let arguments =
        ["bench", "tpcc", "--warehouses", "1", "--threads", "65", "--seconds", "40", "--rounds", "40"];
    let mut child = ankerdb(&arguments).args(["--json", path]).spawn().expect("the command starts");
    let mut progress = BufReader::new(child.stderr.take().expect("stderr is piped")).lines();
    let reached = progress.by_ref().map_while(Result::ok).any(|line| line.starts_with("round 2: "));
    assert!(reached, "the benchmark ended before its second round");
    signal(&child, "-INT");
    // Keeps the pipe empty.
    let rest = std::thread::spawn(move || progress.map_while(Result::ok).count());
    let output = child.wait_with_output().expect("the command ends");
    rest.join().expect("reading does not panic");
    let report = text(&output.stdout);
    assert!(output.status.success() && report.contains("stopped by the user"), "{report}");
    assert!(report.contains("warning: 65 threads share"), "{report}");
    let result = std::fs::read_to_string(&json).expect("the result was written");
    std::fs::remove_file(&json).expect("the result is ours");
    let result: serde_json::Value = serde_json::from_str(&result).expect("the result is JSON");
    assert_eq!(result["interrupted"], true);
    let kinds = result["results"][0]["by_transaction"].as_object().expect("kinds have names");
    assert!(
        kinds.values().all(|kind| kind["completed"].as_u64().is_some_and(|count| count > 0)),
        "{kinds:?}"
    );
}
