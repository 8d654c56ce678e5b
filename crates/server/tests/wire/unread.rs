//! Clients that do not read what they are sent: their statements end when they have to, give up at once what they hold, and leave the
//! client whole messages to read, with the error behind them. Three clients in turn, so that each way to connect is among them.

use crate::activity::{activity, await_event};
use crate::cancel::{begin, cancel, prepare};
use crate::client::{Client, Reply, bind, execute, parse, sync};
use crate::server::TestServer;
use std::time::{Duration, Instant};

/// Longer than any wait here takes.
const PATIENCE: Duration = Duration::from_secs(20);
/// Ways to connect.
const WAYS: usize = 3;
/// More than all buffers between server and client hold: 240 MB, of the analytical path.
const MANY_ROWS: &str = "SELECT a.n, b.n FROM many a, many b";
/// Bytes of an error.
const LONG_ERROR: usize = 30_000_000;
/// 40 MB, of the transactional path.
const LONG_ROWS: &str = "SELECT repeat('x', 10000) FROM many WHERE n >= 0 AND n < 1000000 LIMIT 1000000";

fn statements() -> [String; 5] {
    [
        MANY_ROWS.to_owned(),
        LONG_ROWS.to_owned(),
        format!("COPY ({MANY_ROWS}) TO STDOUT"),
        format!("COPY ({LONG_ROWS}) TO STDOUT"),
        format!("COPY ({MANY_ROWS}) TO STDOUT (FORMAT binary)"),
    ]
}

/// A server with tables, and a client of it that looks.
fn start() -> (TestServer, Client) {
    let server = TestServer::start();
    let mut looker = Client::connect(&server);
    prepare(&mut looker);
    looker.run("SET lock_timeout = '10s'");
    (server, looker)
}

/// Looks until the session is in this state.
#[track_caller]
fn await_state(looker: &mut Client, pid: i32, state: &str) {
    let begun = Instant::now();
    while activity(looker, pid).first().map_or("gone", String::as_str) != state {
        assert!(begun.elapsed() < PATIENCE, "{:?} instead of {state}", activity(looker, pid));
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What the client reads at last is the beginning of a result, and then why that is all.
#[track_caller]
fn was_ended(reply: &Reply, status: u8, message: &str) {
    let error = reply.error.as_ref().expect("the statement was ended");
    assert_eq!((error.code.as_str(), error.message.as_str(), reply.status), ("57014", message, status));
    assert!(reply.kinds.contains(['D', 'd']), "some of it was sent: {}", &reply.kinds[..9]);
    assert!(reply.kinds.len() < 4_000_000 && reply.tags.is_empty(), "not all of it was");
}

#[test]
fn a_statement_is_canceled_before_its_client_reads_on() {
    let (server, mut looker) = start();
    for sql in statements() {
        for _ in 0..WAYS {
            let mut silent = Client::connect(&server);
            begin(&mut silent, &sql);
            await_event(&mut looker, silent.process, "ClientWrite");
            cancel(&server, silent.process, silent.secret);
            await_state(&mut looker, silent.process, "idle");
            was_ended(&silent.reply(), b'I', "canceling statement due to user request");
            assert_eq!(silent.run("SELECT 1").cell(), "1");
        }
    }
}

#[test]
fn a_statement_ends_at_its_time_limit_and_its_rows_are_free_before_its_client_reads_on() {
    let (server, mut looker) = start();
    for sql in statements() {
        for _ in 0..WAYS {
            let mut silent = Client::connect(&server);
            silent.run("SET statement_timeout = '400ms'");
            silent.run("BEGIN; UPDATE t SET b = 7 WHERE a = 2");
            begin(&mut silent, &sql);
            let waited = looker.query("UPDATE t SET b = b + 1 WHERE a = 2");
            assert_eq!(waited.error, None, "behind {sql}: {:?}", activity(&mut looker, silent.process));
            await_state(&mut looker, silent.process, "idle in transaction (aborted)");
            was_ended(&silent.reply(), b'E', "canceling statement due to statement timeout");
            silent.run("ROLLBACK");
        }
    }
    assert_eq!(looker.run("SELECT b FROM t WHERE a = 2").cell(), (statements().len() * WAYS).to_string());
}

#[test]
fn a_portal_is_canceled_before_its_client_reads_on() {
    let (server, mut looker) = start();
    for sql in [MANY_ROWS, LONG_ROWS] {
        for _ in 0..WAYS {
            let mut silent = Client::connect(&server);
            silent.run("BEGIN; UPDATE t SET b = 7 WHERE a = 2");
            silent.send(&[parse("", sql, &[]), bind("", "", &[]), execute("", 0), sync()].concat());
            await_event(&mut looker, silent.process, "ClientWrite");
            cancel(&server, silent.process, silent.secret);
            looker.run("UPDATE t SET b = 0 WHERE a = 2");
            was_ended(&silent.reply(), b'E', "canceling statement due to user request");
            silent.run("ROLLBACK");
        }
    }
}

#[test]
fn a_session_is_terminated_and_its_client_never_reads() {
    let (server, mut looker) = start();
    for sql in statements() {
        for _ in 0..WAYS {
            let mut silent = Client::connect(&server);
            silent.run("BEGIN; UPDATE t SET b = 7 WHERE a = 2");
            begin(&mut silent, &sql);
            await_event(&mut looker, silent.process, "ClientWrite");
            let ended = format!("SELECT pg_terminate_backend({})", silent.process);
            assert_eq!(looker.run(&ended).cell(), "t");
            looker.run("UPDATE t SET b = 0 WHERE a = 2");
            await_state(&mut looker, silent.process, "gone");
        }
    }
}

#[test]
fn a_session_that_is_idle_behind_an_unread_answer_is_terminated() {
    let (server, mut looker) = start();
    // An error that is longer than all buffers is written when the statement is over.
    let long_error = format!("SELECT CAST(repeat('y', {LONG_ERROR}) AS int)");
    assert!(looker.query(&long_error).error.unwrap().message.len() > LONG_ERROR);
    for _ in 0..WAYS {
        let mut silent = Client::connect(&server);
        silent.run("BEGIN; UPDATE t SET b = 7 WHERE a = 2");
        begin(&mut silent, &long_error);
        await_state(&mut looker, silent.process, "idle in transaction (aborted)");
        let ended = format!("SELECT pg_terminate_backend({})", silent.process);
        assert_eq!(looker.run(&ended).cell(), "t");
        looker.run("UPDATE t SET b = 0 WHERE a = 2");
        await_state(&mut looker, silent.process, "gone");
    }
}
