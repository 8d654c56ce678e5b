//! What operators see of other sessions, and how they end them.

use crate::cancel::{LONG_QUERY, begin, prepare};
use crate::client::{Client, message};
use crate::server::TestServer;
use std::time::{Duration, Instant};

/// Longer than anything here takes that is not stuck.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server with tables, a client to look with and another one to be looked at.
fn start() -> (TestServer, Client, Client) {
    let server = TestServer::start();
    let mut looker = Client::connect(&server);
    prepare(&mut looker);
    let other = Client::connect(&server);
    (server, looker, other)
}

/// State, kind of wait, wait and query of a session.
pub(crate) fn activity(looker: &mut Client, pid: i32) -> Vec<String> {
    let sql =
        format!("SELECT state, wait_event_type, wait_event, query FROM pg_stat_activity WHERE pid = {pid}");
    looker.run(&sql).text().pop().unwrap_or_default()
}

/// Looks until the session waits for this.
#[track_caller]
pub(crate) fn await_event(looker: &mut Client, pid: i32, event: &str) {
    let begun = Instant::now();
    loop {
        let shown = activity(looker, pid);
        if shown.get(2).is_some_and(|shown| shown == event) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{shown:?} instead of {event}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The client's answer is this error, which ends the session.
#[track_caller]
fn is_terminated(client: &mut Client) {
    let last = client.last_words();
    assert_eq!((last.severity.as_str(), last.code.as_str()), ("FATAL", "57P01"), "{last:?}");
}

#[test]
fn sessions_are_shown_with_what_they_do() {
    let (_server, mut looker, mut other) = start();
    other.run("SET application_name = 'report'");
    let idle = activity(&mut looker, other.process);
    assert_eq!(idle, ["idle", "Client", "ClientRead", "SET application_name = 'report'"]);
    other.run("BEGIN; SELECT 1;");
    let open = activity(&mut looker, other.process);
    assert_eq!(open, ["idle in transaction", "Client", "ClientRead", "BEGIN; SELECT 1;"]);
    let _ = other.query("SELECT 1 / 0");
    assert_eq!(activity(&mut looker, other.process)[0], "idle in transaction (aborted)");
    let own = looker.run(
        "SELECT state, usename, datname, backend_type, query, wait_event, xact_start = query_start, \
         backend_start < query_start FROM pg_stat_activity WHERE pid = pg_backend_pid()",
    );
    let own = own.text().pop().unwrap();
    assert_eq!(own[..4], ["active", "tester", "ankerdb", "client backend"]);
    assert!(own[4].starts_with("SELECT state, usename"));
    assert_eq!(own[5..], ["NULL", "t", "t"]);
    let name = "SELECT application_name FROM pg_stat_activity WHERE pid <> pg_backend_pid()";
    assert_eq!(looker.run(name).cell(), "report");
    other.run("ROLLBACK");
    let started = format!("SELECT xact_start FROM pg_stat_activity WHERE pid = {}", other.process);
    assert_eq!(looker.run(&started).cell(), "NULL");
    drop(other);
    let begun = Instant::now();
    while looker.run("SELECT count(*) FROM pg_stat_activity").cell() != "1" {
        assert!(begun.elapsed() < PATIENCE);
    }
}

#[test]
fn a_long_statement_is_seen_canceled_and_terminated() {
    let (server, mut looker, mut other) = start();
    for (function, code) in [("pg_cancel_backend", "57014"), ("pg_terminate_backend", "57P01")] {
        begin(&mut other, LONG_QUERY);
        let begun = Instant::now();
        while activity(&mut looker, other.process) != ["active", "NULL", "NULL", LONG_QUERY] {
            assert!(begun.elapsed() < PATIENCE);
        }
        assert_eq!(looker.run(&format!("SELECT {function}({})", other.process)).cell(), "t");
        match code {
            "57014" => assert_eq!(other.reply().code(), code),
            _ => is_terminated(&mut other),
        }
    }
    assert_eq!(Client::connect(&server).run("SELECT 1").cell(), "1");
}

#[test]
fn who_waits_for_a_row_and_for_whom() {
    let (_server, mut looker, mut holder) = start();
    let mut waiter = Client::connect(&_server);
    holder.run("BEGIN; UPDATE t SET b = 1 WHERE a = 1");
    begin(&mut waiter, "UPDATE t SET b = 2 WHERE a = 1");
    await_event(&mut looker, waiter.process, "transactionid");
    let blocking = format!("SELECT pg_blocking_pids({})", waiter.process);
    assert_eq!(looker.run(&blocking).cell(), format!("{{{}}}", holder.process));
    assert_eq!(looker.run(&format!("SELECT pg_blocking_pids({})", holder.process)).cell(), "{}");
    // As tools find who blocks whom.
    let joined = looker.run(
        "SELECT blocked.pid, blocking.pid FROM pg_locks blocked JOIN pg_locks blocking ON blocking.locktype = \
         blocked.locktype AND blocking.transactionid IS NOT DISTINCT FROM blocked.transactionid AND blocking.pid <> \
         blocked.pid AND blocking.granted WHERE NOT blocked.granted",
    );
    assert_eq!(joined.text(), [[waiter.process.to_string(), holder.process.to_string()]]);
    let tables = "SELECT relation::regclass, mode FROM pg_locks WHERE locktype = 'relation' AND pid = ";
    let tables = looker.run(&format!("{tables}{}", holder.process));
    assert_eq!(tables.text(), [["t", "RowExclusiveLock"]]);
    let row = format!(
        "SELECT relation::regclass FROM pg_locks WHERE locktype = 'tuple' AND pid = {}",
        waiter.process
    );
    assert_eq!(looker.run(&row).cell(), "t");
    // The one that waits is ended, the one that holds goes on; then that is ended where it idles.
    assert_eq!(looker.run(&format!("SELECT pg_terminate_backend({})", waiter.process)).cell(), "t");
    is_terminated(&mut waiter);
    let ended =
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE state = 'idle in transaction'";
    assert_eq!(looker.run(ended).cell(), "t");
    is_terminated(&mut holder);
    assert_eq!(looker.run("SELECT b FROM t WHERE a = 1").cell(), "0");
    assert_eq!(looker.run("SELECT count(*) FROM pg_locks WHERE locktype <> 'virtualxid'").cell(), "0");
}

#[test]
fn advisory_locks_are_shown_and_waited_for() {
    let (_server, mut looker, mut holder) = start();
    let mut waiter = Client::connect(&_server);
    holder.run("SELECT pg_advisory_lock(5000000000)");
    looker.run("SELECT pg_advisory_lock_shared(1, 2)");
    begin(&mut waiter, "SELECT pg_advisory_lock(5000000000)");
    await_event(&mut looker, waiter.process, "advisory");
    let blocking = format!("SELECT pg_blocking_pids({})", waiter.process);
    assert_eq!(looker.run(&blocking).cell(), format!("{{{}}}", holder.process));
    let locks = looker.run(
        "SELECT classid, objid, objsubid, mode, granted FROM pg_locks WHERE locktype = 'advisory' ORDER BY 1, granted",
    );
    let expected = [
        ["1", "2", "2", "ShareLock", "t"],
        ["1", "705032704", "1", "ExclusiveLock", "f"],
        ["1", "705032704", "1", "ExclusiveLock", "t"],
    ];
    let mut shown = locks.text();
    shown.sort();
    assert_eq!(shown, expected);
    looker.run(&format!("SELECT pg_cancel_backend({})", waiter.process));
    assert_eq!(waiter.reply().code(), "57014");
    begin(&mut waiter, "SELECT pg_sleep(100)");
    await_event(&mut looker, waiter.process, "PgSleep");
    looker.run(&format!("SELECT pg_cancel_backend({})", waiter.process));
    assert_eq!(waiter.reply().code(), "57014");
}

#[test]
fn a_copy_that_waits_for_its_client_is_terminated_and_leaves_nothing() {
    let (_server, mut looker, mut other) = start();
    begin(&mut other, "COPY t FROM STDIN");
    assert!(other.reply().kinds.ends_with('G'));
    other.send(&message(b'd', b"7\t7\n"));
    await_event(&mut looker, other.process, "ClientRead");
    assert_eq!(activity(&mut looker, other.process)[0], "active");
    assert_eq!(looker.run(&format!("SELECT pg_terminate_backend({})", other.process)).cell(), "t");
    is_terminated(&mut other);
    assert_eq!(looker.run("SELECT count(*) FROM t").cell(), "2");
}

#[test]
fn a_session_ends_itself_and_a_number_of_none_is_a_warning() {
    let (_server, mut looker, mut other) = start();
    for function in ["pg_cancel_backend", "pg_terminate_backend"] {
        let reply = looker.run(&format!("SELECT {function}(2000000000)"));
        assert_eq!(reply.cell(), "f");
        assert!(reply.kinds.contains('N'), "{}", reply.kinds);
    }
    assert_eq!(looker.query("SELECT pg_cancel_backend(pg_backend_pid())").code(), "57014");
    begin(&mut other, "SELECT pg_terminate_backend(pg_backend_pid())");
    is_terminated(&mut other);
}

#[test]
fn a_session_sees_its_statements_cursors_and_settings() {
    let (_server, mut looker, _other) = start();
    looker.run("PREPARE p (int, text) AS SELECT $1, $2");
    let prepared = "SELECT name, statement, parameter_types, from_sql FROM pg_prepared_statements";
    let statement = "PREPARE p (int, text) AS SELECT $1, $2";
    assert_eq!(looker.run(prepared).text(), [["p", statement, "{integer,text}", "t"]]);
    looker.run("BEGIN; DECLARE c CURSOR FOR SELECT 1; SET LOCAL work_mem = '8MB'");
    let cursors = "SELECT name, statement, is_holdable, is_binary FROM pg_cursors";
    assert_eq!(looker.run(cursors).text(), [["c", "DECLARE c CURSOR FOR SELECT 1", "f", "f"]]);
    let setting = "SELECT setting, unit, source, reset_val FROM pg_settings WHERE name = 'work_mem'";
    assert_eq!(looker.run(setting).text(), [["8192", "kB", "session", "4096"]]);
    looker.run("COMMIT");
    assert_eq!(looker.run(setting).text(), [["4096", "kB", "default", "4096"]]);
    assert_eq!(looker.run(cursors).rows.len(), 0);
}

#[test]
fn many_sessions_are_listed_while_they_work() {
    let server = TestServer::start();
    let mut looker = Client::connect(&server);
    prepare(&mut looker);
    let mut others: Vec<Client> = (0..300).map(|_| Client::connect(&server)).collect();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let working = scope.spawn(|| {
            let mut count = 0;
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                let number = count % 300;
                others[number].run(&format!("UPDATE t SET b = b + 1 WHERE a = {}", 1 + number % 2));
                count += 1;
            }
            count
        });
        let mut listed = Vec::new();
        for _ in 0..20 {
            listed.push(looker.run("SELECT count(*) FROM pg_stat_activity").cell());
            // Every third one is encrypted.
            listed.push(
                looker.run("SELECT count(*) || ', ' || count(*) FILTER (WHERE ssl) FROM pg_stat_ssl").cell(),
            );
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(listed.chunks(2).all(|counts| counts == ["301", "301, 100"]), "{listed:?}");
        assert!(working.join().unwrap() > 0);
    });
}
