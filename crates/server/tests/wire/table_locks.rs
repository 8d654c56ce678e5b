//! LOCK TABLE between sessions: which one waits for which, and what ends a wait.

use crate::client::{Client, Reply, message};
use crate::server::TestServer;
use std::time::{Duration, Instant};

fn start() -> (TestServer, Client, Client, Client) {
    let server = TestServer::start();
    let clients = [(); 3].map(|()| Client::connect(&server));
    let [mut one, two, three] = clients;
    one.run(
        "CREATE TABLE t (a int PRIMARY KEY, b int); CREATE TABLE u (a int REFERENCES t ON DELETE CASCADE)",
    );
    one.run("INSERT INTO t SELECT i, 0 FROM generate_series(1, 100) AS s(i)");
    (server, one, two, three)
}

/// Sends a statement whose reply comes later.
fn ask(client: &mut Client, sql: &str) {
    client.send(&message(b'Q', &[sql.as_bytes(), &[0]].concat()));
}

/// Waits until so many sessions wait for a lock on a table.
fn until_waiting(looker: &mut Client, count: usize) {
    let begun = Instant::now();
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'relation'";
    while looker.run(sql).cell() != count.to_string() {
        assert!(begun.elapsed() < Duration::from_secs(20), "nobody waits");
    }
}

#[track_caller]
fn answered(client: &mut Client) -> Reply {
    client.reply().ok()
}

#[test]
fn readers_and_writers_wait_for_an_exclusive_lock_and_see_what_it_has_done() {
    let (_server, mut one, mut two, mut three) = start();
    one.run("BEGIN; LOCK TABLE t");
    one.run("UPDATE t SET b = 7 WHERE a = 1");
    ask(&mut two, "SELECT b FROM t WHERE a = 1");
    until_waiting(&mut three, 1);
    let locks = "SELECT mode, granted FROM pg_locks WHERE relation = 't'::regclass ORDER BY 1";
    let shown = three.run(locks).text();
    assert!(shown.contains(&vec!["AccessExclusiveLock".into(), "t".into()]), "{shown:?}");
    assert!(shown.contains(&vec!["AccessShareLock".into(), "f".into()]), "{shown:?}");
    assert_eq!(three.run("SELECT count(*) FROM u").cell(), "0");
    one.run("COMMIT");
    assert_eq!(answered(&mut two).cell(), "7");
    // Also where the reader's transaction began before, but had read nothing.
    two.run("BEGIN");
    one.run("BEGIN; LOCK t; UPDATE t SET b = 8 WHERE a = 1");
    ask(&mut two, "SELECT sum(b) FROM t");
    until_waiting(&mut three, 1);
    one.run("COMMIT");
    assert_eq!(answered(&mut two).cell(), "8");
    two.run("COMMIT");
    assert_eq!(three.run("SELECT count(*) FROM pg_locks WHERE locktype = 'relation'").cell(), "0");
}

#[test]
fn modes_let_through_what_they_let_through_in_postgresql() {
    let (_server, mut one, mut two, mut three) = start();
    let uses = [
        ("SELECT * FROM t WHERE a = 1", 1),
        ("SELECT * FROM t WHERE a = 1 FOR UPDATE", 2),
        ("UPDATE t SET b = 1 WHERE a = 1", 3),
        ("WITH x AS (DELETE FROM t WHERE a = 50 RETURNING a) SELECT * FROM x", 3),
        ("INSERT INTO u VALUES (1)", 2),
        ("COPY (SELECT 1 FROM t) TO STDOUT", 1),
        ("LOCK t IN SHARE UPDATE EXCLUSIVE MODE NOWAIT", 4),
        ("LOCK t IN SHARE MODE NOWAIT", 5),
        ("LOCK t IN SHARE ROW EXCLUSIVE MODE NOWAIT", 6),
        ("LOCK t IN EXCLUSIVE MODE NOWAIT", 7),
        ("LOCK t NOWAIT", 8),
        ("ALTER TABLE t ALTER b SET DEFAULT 1", 8),
    ];
    // PostgreSQL 15, table 13.2: the modes that exclude each mode.
    let excluders = ["8", "78", "5678", "45678", "34678", "345678", "2345678", "12345678"];
    let modes = [
        "ACCESS SHARE",
        "ROW SHARE",
        "ROW EXCLUSIVE",
        "SHARE UPDATE EXCLUSIVE",
        "SHARE",
        "SHARE ROW EXCLUSIVE",
        "EXCLUSIVE",
        "ACCESS EXCLUSIVE",
    ];
    two.run("SET lock_timeout = '20ms'");
    for (number, mode) in modes.iter().enumerate() {
        one.run(&format!("BEGIN; LOCK TABLE t IN {mode} MODE"));
        for (sql, used) in uses {
            two.run("BEGIN");
            let waits = excluders[used - 1].contains(&(number + 1).to_string());
            assert_eq!(two.query(sql).code(), if waits { "55P03" } else { "" }, "{sql} beside {mode}");
            two.run("ROLLBACK");
        }
        one.run("COMMIT");
    }
    drop(three.run("DROP TABLE u"));
}

#[test]
fn circles_of_tables_and_of_tables_with_rows_are_broken() {
    let (_server, mut one, mut two, mut three) = start();
    one.run("BEGIN; UPDATE t SET b = 1 WHERE a = 1");
    two.run("BEGIN; UPDATE t SET b = 1 WHERE a = 2");
    ask(&mut one, "LOCK TABLE t IN EXCLUSIVE MODE");
    until_waiting(&mut three, 1);
    assert_eq!(two.query("LOCK TABLE t IN EXCLUSIVE MODE").code(), "40P01");
    two.run("ROLLBACK");
    answered(&mut one);
    one.run("ROLLBACK");
    // One waits for the other's use of the table, and that one for a row.
    one.run("BEGIN; UPDATE t SET b = 1 WHERE a = 1");
    two.run("BEGIN; UPDATE t SET b = 1 WHERE a = 2");
    ask(&mut one, "LOCK TABLE t IN EXCLUSIVE MODE");
    until_waiting(&mut three, 1);
    let begun = Instant::now();
    ask(&mut two, "UPDATE t SET b = 2 WHERE a = 1");
    assert_eq!(one.reply().code(), "40P01");
    assert!(begun.elapsed() < Duration::from_secs(10));
    answered(&mut two);
    two.run("COMMIT");
    one.run("ROLLBACK");
}

#[test]
fn waits_end_with_limits_cancels_and_clients_that_leave() {
    let (server, mut one, mut two, mut three) = start();
    one.run("BEGIN; LOCK TABLE t");
    two.run("SET lock_timeout = '20ms'");
    assert_eq!(two.query("SELECT * FROM t").code(), "55P03");
    assert_eq!(two.query("BEGIN; LOCK TABLE t NOWAIT").code(), "55P03");
    two.run("ROLLBACK; RESET lock_timeout; SET statement_timeout = '20ms'");
    assert_eq!(two.query("SELECT * FROM t").code(), "57014");
    two.run("RESET statement_timeout");
    ask(&mut two, "DELETE FROM t");
    until_waiting(&mut three, 1);
    three.run(&format!("SELECT pg_cancel_backend({})", two.process));
    assert_eq!(two.reply().code(), "57014");
    ask(&mut two, "SELECT * FROM t");
    until_waiting(&mut three, 1);
    assert_eq!(
        three.run(&format!("SELECT pg_blocking_pids({})", two.process)).cell(),
        format!("{{{}}}", one.process)
    );
    drop(two);
    until_waiting(&mut three, 0);
    // The holder leaves, too: what waits for it goes on.
    let mut two = Client::connect(&server);
    ask(&mut two, "SELECT count(*) FROM t");
    until_waiting(&mut three, 1);
    drop(one);
    assert_eq!(answered(&mut two).cell(), "100");
}

#[test]
fn locks_end_with_their_transaction_or_its_savepoint() {
    let (_server, mut one, mut two, mut three) = start();
    one.run("BEGIN; SAVEPOINT s; LOCK TABLE t");
    ask(&mut two, "SELECT count(*) FROM t");
    until_waiting(&mut three, 1);
    one.run("ROLLBACK TO s");
    answered(&mut two);
    one.run("LOCK TABLE u; SAVEPOINT s");
    assert_eq!(one.query("SELECT nonsense").code(), "42703");
    // The transaction goes on at its savepoint, with its lock.
    two.run("SET lock_timeout = '20ms'");
    assert_eq!(two.query("SELECT * FROM u").code(), "55P03");
    one.run("ROLLBACK TO s");
    assert_eq!(two.query("SELECT * FROM u").code(), "55P03");
    one.run("ROLLBACK");
    two.run("SELECT * FROM u");
    // Without a savepoint it is over with its error, as in PostgreSQL.
    one.run("BEGIN; LOCK TABLE u");
    assert_eq!(one.query("SELECT nonsense").code(), "42703");
    two.run("SELECT * FROM u");
    assert_eq!(one.query("LOCK TABLE u").code(), "25P02");
    one.run("ROLLBACK");
}

#[test]
fn tables_that_change_meanwhile_are_looked_at_again() {
    let (_server, mut one, mut two, mut three) = start();
    three.run("CREATE TABLE w (a int); CREATE TABLE x (a int)");
    one.run("BEGIN; LOCK TABLE w; LOCK TABLE x");
    ask(&mut two, "SELECT * FROM w");
    until_waiting(&mut three, 1);
    one.run("DROP TABLE w; ALTER TABLE x ADD COLUMN b int DEFAULT 5; INSERT INTO x VALUES (1)");
    one.run("COMMIT");
    assert_eq!(two.reply().code(), "42P01");
    assert_eq!(two.run("SELECT b FROM x").cell(), "5");
    one.run("BEGIN; LOCK TABLE x");
    two.run("BEGIN");
    ask(&mut two, "LOCK TABLE x");
    until_waiting(&mut three, 1);
    one.run("DROP TABLE x; COMMIT");
    assert_eq!(two.reply().code(), "42P01");
}

/// LOCK TABLE of a large table costs what one of a small one costs, and a COPY that is under way keeps it waiting.
#[test]
fn copy_from_the_client_holds_its_table_to_the_end() {
    let (_server, mut one, mut two, mut three) = start();
    let asked = one.query("COPY t FROM STDIN");
    assert!(asked.kinds.ends_with('G'));
    two.run("BEGIN");
    ask(&mut two, "LOCK TABLE t IN SHARE MODE");
    until_waiting(&mut three, 1);
    one.send(&message(b'd', b"1001\t1\n"));
    one.send(&message(b'c', &[]));
    answered(&mut one);
    answered(&mut two);
    assert_eq!(two.run("SELECT count(*) FROM t").cell(), "101");
    two.run("COMMIT");
}
