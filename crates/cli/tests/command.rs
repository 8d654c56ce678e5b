//! The command as a user meets it: refusals, the demo without a terminal, ctrl-c, and the server's first line.

mod support;

use std::io::{BufRead, BufReader, Read};
use support::{ankerdb, run, signal, text};

#[test]
fn impossible_requests_are_refused_in_one_line() {
    for (arguments, part) in [
        (&["bench", "htap", "--warehouses", "0"][..], "--warehouses must be at least 1"),
        (&["bench", "htap", "--warehouses", "900000"], "at most --warehouses"),
        (&["bench", "htap", "--json", "/no/such/folder/x.json"], "cannot write /no/such/folder/x.json"),
        (&["bench", "htap", "--isolation", "chaos"], "there are serializable, repeatable-read"),
        (&["bench", "htap", "--access", "zipf"], "there are uniform, skewed"),
        (&["demo", "--seconds", "0"], "--seconds must be at least 1"),
        (&["demo", "--plot", "/no/such/folder/x.svg"], "cannot write /no/such/folder/x.svg"),
        (&["serve", "--listen", "5432"], "--listen must be HOST:PORT"),
        (&["serve", "--max-connections", "0"], "--max-connections must be at least 1"),
        (&["serve", "--in-memory", "--copy-folder", "/no/such/folder"], "--copy-folder must be a folder"),
        (&["serve", "--in-memory", "--socket-folder", "/no/such/folder"], "--socket-folder must be a folder"),
        (
            &["serve", "--in-memory", "--password-file", "/no/such/file"],
            "--password-file \"/no/such/file\": No such file",
        ),
        (&["serve", "--in-memory", "--password-file", "/proc/self/status"], "others may read it; chmod 600"),
        (
            &["serve", "--in-memory", "--data-dir", "x"],
            "'--in-memory' cannot be used with '--data-dir <DIR>'",
        ),
        (&["serve", "--data-dir", "/proc/self/status"], "--data-dir must be a folder"),
        (
            &["serve", "--data-dir", "/proc/self/status/x"],
            "--data-dir must be a folder, and \"/proc/self/status\" is none",
        ),
        (
            &["serve", "--in-memory", "--recover-to-last-valid"],
            "'--in-memory' cannot be used with '--recover-to-last-valid'",
        ),
    ] {
        let output = run(arguments);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        let line = message.lines().next().unwrap_or_default();
        assert!(line.contains(part), "{arguments:?}: {message}");
    }
}

#[test]
fn help_names_every_command_and_option() {
    let help = text(&run(&["--help"]).stdout);
    for command in ["demo", "serve", "bench"] {
        assert!(help.contains(command), "{help}");
    }
    let help = text(&run(&["bench", "htap", "--help"]).stdout);
    for option in [
        "--warehouses",
        "--oltp",
        "--olap",
        "--seconds",
        "--isolation",
        "--access",
        "--json",
        "--rounds",
        "--seed",
    ] {
        assert!(help.contains(option), "{help}");
    }
}

#[test]
fn the_demo_without_a_terminal_prints_lines_a_summary_and_the_plots_path() {
    let plot = std::env::temp_dir().join(format!("ankerdb-demo-{}.svg", std::process::id()));
    let path = plot.to_str().expect("the path is text");
    let output = run(&["demo", "--warehouses", "1", "--seconds", "2", "--plot", path]);
    let (summary, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{errors}");
    for part in [
        " s left: ",
        "serializable transactions in 2 s",
        "Q8",
        " 0 wrong, 0 older than what was acknowledged before they began",
        "conditions 3.3.2.1-12 hold",
        path,
    ] {
        assert!(summary.contains(part), "{part} is missing in\n{summary}");
    }
    assert!(!summary.contains('\x1b'), "no control sequences in\n{summary}");
    let svg = std::fs::read_to_string(&plot).expect("the plot was written");
    std::fs::remove_file(&plot).expect("the plot is ours");
    assert!(svg.starts_with("<svg") && svg.contains("<circle") && svg.contains("<polyline"));
}

#[test]
fn ctrl_c_ends_a_benchmark_with_what_was_measured() {
    let json = std::env::temp_dir().join(format!("ankerdb-bench-{}.json", std::process::id()));
    let path = json.to_str().expect("the path is text");
    let arguments = [
        "bench",
        "htap",
        "--warehouses",
        "1",
        "--oltp",
        "1",
        "--olap",
        "1",
        "--seconds",
        "120",
        "--json",
        path,
    ];
    let mut child = ankerdb(&arguments).spawn().expect("the command starts");
    let mut progress = BufReader::new(child.stderr.take().expect("stderr is piped")).lines();
    let reached = progress.by_ref().map_while(Result::ok).any(|line| line == "round 1: idle");
    assert!(reached, "the benchmark ended before its second phase");
    signal(&child, "-INT");
    // Keeps the pipe empty.
    let rest = std::thread::spawn(move || progress.map_while(Result::ok).count());
    let output = child.wait_with_output().expect("the command ends");
    rest.join().expect("reading does not panic");
    let report = text(&output.stdout);
    assert!(output.status.success() && report.contains("stopped by the user"), "{report}");
    let result = std::fs::read_to_string(&json).expect("the result was written");
    std::fs::remove_file(&json).expect("the result is ours");
    let result: serde_json::Value = serde_json::from_str(&result).expect("the result is JSON");
    assert_eq!(result["interrupted"], true);
    // Where others took the processor meanwhile, there is no figure.
    let phases = &result["olap_phases"]["idle"];
    let [clean, of] = ["clean", "of"].map(|key| phases[key].as_u64().expect("phases are counted"));
    assert!(of > 0, "{result}");
    let latency = &result["olap"][0]["idle_latency_ms"]["p50"];
    let told = latency.as_f64().is_some_and(|p50| p50 > 0.0);
    assert!(if clean * 2 > of { told } else { latency.is_null() }, "{result}");
}

#[test]
fn the_server_says_in_one_line_where_it_is_and_ends_when_asked() {
    let arguments = ["serve", "--in-memory", "--listen", "127.0.0.1:0", "--olap-threads", "1"];
    let mut child = ankerdb(&arguments).spawn().expect("the command starts");
    let mut output = BufReader::new(child.stdout.take().expect("stdout is piped"));
    let mut line = String::new();
    output.read_line(&mut line).expect("the server says something");
    let address = line.strip_prefix("ankerdb is ready on ").and_then(|rest| rest.split(' ').next());
    let connected = address.map(std::net::TcpStream::connect);
    signal(&child, "-TERM");
    let status = child.wait().expect("the server ends");
    assert!(connected.is_some_and(|connection| connection.is_ok()), "{line}");
    assert!(line.contains("in-memory") && line.ends_with('\n'), "{line}");
    assert!(status.success());
    let mut rest = String::new();
    output.read_to_string(&mut rest).expect("the pipe can be read");
    assert_eq!(rest, "", "one line only");
}
