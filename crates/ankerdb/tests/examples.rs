//! The examples that end by themselves, run as a user runs them.
#![cfg(feature = "sql")]

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// The program of an example: cargo builds them before the tests, beside them.
fn example(name: &str) -> Command {
    let test = std::env::current_exe().expect("this test's own program");
    let folder: PathBuf =
        test.parent().and_then(|deps| deps.parent()).expect("the build's folder").join("examples");
    Command::new(folder.join(name))
}

fn run(mut command: Command, input: &str) -> Output {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("built");
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("it reads its input");
    child.wait_with_output().expect("it ends")
}

fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn quick_start_prints_what_it_says() {
    let printed = printed(&run(example("quick_start"), ""));
    let lines: Vec<&str> = printed.lines().map(str::trim).collect();
    assert_eq!(lines, ["moved 25 from Ann to Bob", "75 Ann", "75 Bob", "before that Ann had Some(100)"]);
}

#[test]
fn sql_answers_and_reports_errors() {
    let input = "CREATE TABLE t (i int, s text); INSERT INTO t VALUES (1, 'a'), (2, NULL);\n\
        SELECT i, s FROM t ORDER BY i; SELECT 1.5 * 2 AS p; SELECT nothing FROM t; BEGIN";
    let printed = printed(&run(example("sql"), input));
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(&lines[..7], ["0 rows", "2 rows", "i | s", "1 | a", "2 | NULL", "p", "3.0"]);
    assert!(lines[7].starts_with("42703 "), "{printed}");
    assert!(lines[8].starts_with("25001 ") && lines[9].starts_with("HINT: "), "{printed}");
}

#[test]
fn the_bank_and_the_live_report_hold_their_sums() {
    assert!(printed(&run(example("bank"), "")).contains("transfers per second"));
    assert!(printed(&run(example("live_report"), "")).contains("reports"));
}
