//! Children that are canceled, run out of time, are forgotten, or are killed from outside.

use super::*;
use ankerdb_sql::{Outcome, SqlSession};
use std::process::Command;
use std::sync::Mutex;

const ENDLESS: &str =
    "SELECT count(*) FROM item a, item b, item c, item d WHERE a.big + b.big + c.big + d.big = -1";

/// These tests look at all children of the process that run long; one at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn world() -> (std::sync::MutexGuard<'static, ()>, SqlEngine, Client) {
    let turn = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let engine = engine();
    let mut client = Client(engine.session());
    fill(&mut client, 5000);
    (turn, engine, client)
}

fn signal(name: &str, process: u32) {
    let sent = Command::new("kill").args([name, &process.to_string()]).status().expect("kill runs");
    assert!(sent.success());
}

fn start(session: &mut SqlSession, sql: &str) -> ankerdb_sql::ResultRows {
    let statement = session.parse(sql).unwrap().remove(0);
    let prepared = session.prepare(statement, &[]).unwrap();
    match session.execute(&prepared, &[]).unwrap() {
        Outcome::Rows(rows) => rows,
        _ => panic!("a query gives rows"),
    }
}

/// The child of a query that has just been started: one that still runs after a while.
fn child() -> u32 {
    let lasting = || {
        let before = children("(olap-fork").0;
        std::thread::sleep(Duration::from_millis(100));
        let after = children("(olap-fork").0;
        after.into_iter().find(|process| before.contains(process) && is_busy(*process))
    };
    until(lasting)
}

/// Whether it has computed for a tenth of a second: those of other tests end sooner.
fn is_busy(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let mut words = status.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    words.nth(11).and_then(|ticks| ticks.parse::<u64>().ok()).is_some_and(|ticks| ticks >= 10)
}

fn gone(process: u32) {
    until(|| (!std::path::Path::new(&format!("/proc/{process}")).exists()).then_some(()));
}

#[test]
fn a_canceled_query_ends_its_child() {
    let (_turn, _engine, mut client) = world();
    let mut rows = start(&mut client.0, ENDLESS);
    let process = child();
    client.0.cancel_handle().cancel();
    let error = rows.next_batch().unwrap_err();
    assert_eq!((error.state().code(), error.message()), ("57014", "canceling statement due to user request"));
    gone(process);
    assert_eq!(client.run("SELECT count(*) FROM item"), "5000");
}

#[test]
fn a_query_out_of_time_ends_its_child() {
    let (_turn, _engine, mut client) = world();
    client.setup(&["SET statement_timeout = 400"]);
    assert_eq!(client.run(ENDLESS), "!57014");
    until(|| children("(olap-fork").0.iter().all(|process| !is_busy(*process)).then_some(()));
    assert_eq!(client.run("SELECT count(*) FROM item"), "5000");
}

#[test]
fn a_result_that_nobody_reads_ends_its_child() {
    let (_turn, _engine, mut client) = world();
    let rows = start(&mut client.0, ENDLESS);
    let process = child();
    drop(rows);
    gone(process);
}

#[test]
fn a_child_killed_from_outside_is_an_error_of_its_query() {
    let (_turn, engine, mut client) = world();
    for (name, words) in [("-KILL", "signal 9 (SIGKILL)"), ("-SEGV", "signal 11 (SIGSEGV)")] {
        let mut rows = start(&mut client.0, ENDLESS);
        let process = child();
        signal(name, process);
        let error = rows.next_batch().unwrap_err();
        assert_eq!(error.state().code(), "58000");
        assert!(error.message().contains(words), "{error}");
        gone(process);
    }
    client.setup(&["INSERT INTO item (id, kind, big) VALUES (0, 1, 1)"]);
    assert_eq!(Client(engine.session()).run("SELECT count(*) FROM item"), "5001");
}

/// The control of the tests for hangs: a child that does not move is found by its time limit.
#[test]
fn a_child_that_does_not_move_is_found() {
    let (_turn, _engine, mut client) = world();
    client.setup(&["SET statement_timeout = 3000"]);
    let mut rows = start(&mut client.0, ENDLESS);
    let process = child();
    signal("-STOP", process);
    assert_eq!(rows.next_batch().unwrap_err().state().code(), "57014");
    gone(process);
}

#[test]
fn no_zombies_stay() {
    let (_turn, engine, mut client) = world();
    for _ in 0..50 {
        client.setup(&["SELECT sum(price) FROM item"]);
        assert_eq!(client.run("SELECT sum(1 / (kind - 3)) FROM item"), "!22012");
    }
    assert_eq!(forks(&engine), 100);
    // Other tests have children that have ended and will be reaped in a moment.
    let (_, first) = children("(olap-fork");
    for zombie in first {
        gone(zombie);
    }
}
