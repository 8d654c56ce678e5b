//! Which thread runs what: short statements stay where they were read; sleeps move, and take nothing along.

use crate::cancel::{UNDER_WAY, begin};
use crate::client::{Client, bind, execute, parse, sync};
use crate::server::TestServer;
use ankerdb_engine::Database;

/// Threads of this process with the name.
fn threads(name: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|other| other.trim_end() == name).count()
}

/// A server with one thread of this name for all connections, and rows 1 to 9.
fn on_one_thread(name: &'static str) -> TestServer {
    let database = Database::new();
    let setup = TestServer::over(database.clone(), "setup", 2);
    let mut client = Client::connect(&setup);
    client.run("CREATE TABLE t (a int PRIMARY KEY, b int)");
    (1..10).for_each(|a| drop(client.run(&format!("INSERT INTO t VALUES ({a}, 0)"))));
    TestServer::over(database, name, 1)
}

#[test]
fn short_statements_need_no_second_thread() {
    const NAME: &str = "short-stays";
    let server = on_one_thread(NAME);
    let mut client = Client::connect(&server);
    for round in 0..50 {
        for sql in [
            "SELECT b FROM t WHERE a = 1",
            "SELECT 1 + 1",
            "UPDATE t SET b = b + 1 WHERE a = 1",
            "BEGIN",
            "SELECT b FROM t WHERE a = 2 FOR UPDATE",
            "UPDATE t SET b = b + 1 WHERE a = 2",
            "INSERT INTO t VALUES (10, 0), (11, 0)",
            "COMMIT",
            "DELETE FROM t WHERE a = 10",
            "DELETE FROM t WHERE a = 11",
            "BEGIN; UPDATE t SET b = 0 WHERE a = 3; ROLLBACK",
            "UPDATE t SET b = 1 WHERE a = 4; UPDATE t SET b = 2 WHERE a = 4",
            "SET statement_timeout = 0",
            "SHOW statement_timeout",
        ] {
            client.run(sql);
            if !sql.contains(';') && !["BEGIN", "COMMIT"].contains(&sql) && !sql.starts_with("INSERT") {
                client.extended(sql, &[]).ok();
            }
        }
        assert_eq!(client.query("INSERT INTO t VALUES (1, 1)").code(), "23505");
        // Without a Sync behind it, a statement is one of several in a transaction that the Sync ends.
        client.send(
            &[parse("", "UPDATE t SET b = $1 WHERE a = 5", &[23]), bind("", "", &[Some("7")])].concat(),
        );
        client.send(&[execute("", 0), bind("", "", &[Some("8")]), execute("", 0), sync()].concat());
        client.reply().ok();
        assert_eq!(threads(NAME), 1, "round {round}");
    }
    // What may take long does run elsewhere: this test can see it.
    client.run("UPDATE t SET b = 0 WHERE b > 0");
    assert!(threads(NAME) > 1);
}

#[test]
fn a_short_statement_that_has_to_wait_keeps_nobody_else_waiting() {
    let server = on_one_thread("short-waits");
    let mut holder = Client::connect(&server);
    holder.run("BEGIN; UPDATE t SET b = 1 WHERE a = 1");
    let statements = [
        "UPDATE t SET b = b + 1 WHERE a = 1",
        "BEGIN ISOLATION LEVEL READ COMMITTED; UPDATE t SET b = b + 1 WHERE a = 1; COMMIT",
        "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT b FROM t WHERE a = 1 FOR UPDATE; COMMIT",
    ];
    let mut waiting: Vec<Client> = statements.iter().map(|_| Client::connect(&server)).collect();
    waiting.iter_mut().zip(statements).for_each(|(client, sql)| begin(client, sql));
    let mut prepared = Client::connect(&server);
    prepared.send(&[parse("", statements[0], &[]), bind("", "", &[]), execute("", 0), sync()].concat());
    std::thread::sleep(UNDER_WAY);
    let mut other = Client::connect(&server);
    assert_eq!(other.run("SELECT b FROM t WHERE a = 1").cell(), "0");
    other.run("UPDATE t SET b = 5 WHERE a = 2");
    holder.run("COMMIT");
    waiting.iter_mut().chain([&mut prepared]).for_each(|client| drop(client.reply().ok()));
    assert_eq!(other.run("SELECT b FROM t WHERE a = 1").cell(), "4");
}
