//! SERIALIZABLE, which is the default, with two sessions: what is not serializable is refused, and nothing else is.

use crate::client::Client;
use crate::server::TestServer;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Reads of the whole table or of a range that has rows 1 to 3, none of which looks at a column, with the path that
/// they take.
const READS: &[(&str, &str)] = &[
    ("analytical", "SELECT count(*) FROM t"),
    ("analytical", "SELECT count(*) FROM t x, t y"),
    ("analytical", "SELECT 1 WHERE EXISTS (SELECT 1 FROM t WHERE a > 100)"),
    ("keys", "SELECT 1 FROM t WHERE a > 0 AND a < 1000"),
    ("keys", "SELECT 1 FROM t WHERE a > 100 AND a < 1000"),
    ("keys", "SELECT 1 FROM t WHERE a IN (101, 102)"),
    ("keys", "SELECT 1 FROM t FOR UPDATE"),
    ("keys", "UPDATE t SET b = 7"),
    ("keys", "DELETE FROM t"),
    ("keys", "DELETE FROM t WHERE a > 0 AND a < 1000"),
];

#[test]
fn a_read_of_no_column_sees_no_phantom() {
    for (path, read) in READS {
        let server = TestServer::start();
        let (mut first, mut second) = (Client::connect(&server), Client::connect(&server));
        first.run("CREATE TABLE t (a int PRIMARY KEY, b int)");
        first.run("INSERT INTO t VALUES (1, 0), (2, 0), (3, 0)");
        let plan = first.run(&format!("EXPLAIN {read}")).text().concat().concat();
        assert_eq!(plan.contains("Exec"), *path == "analytical", "{read}: {plan}");
        // Each reads what the other one is about to write; where reading locks rows, only one of them does.
        let also = if plan.contains("LockRows") || !read.starts_with("SELECT") { READS[0].1 } else { read };
        first.run("BEGIN");
        second.run("BEGIN");
        first.run(read);
        second.run(also);
        let inserted =
            [first.query("INSERT INTO t VALUES (101, 0)"), second.query("INSERT INTO t VALUES (102, 0)")];
        let ended = [first.query("COMMIT"), second.query("COMMIT")];
        let codes: String = inserted.iter().chain(&ended).map(|reply| reply.code()).collect();
        assert_eq!(codes, "40001", "{read}");
    }
}

#[test]
fn transactions_that_meet_in_one_row_all_commit() {
    const CLIENTS: usize = 4;
    const TRANSACTIONS: usize = 300;
    let server = TestServer::start();
    let mut client = Client::connect(&server);
    client.run("CREATE TABLE branches (id int PRIMARY KEY, balance int); INSERT INTO branches VALUES (1, 0)");
    client.run("CREATE TABLE tellers (id int PRIMARY KEY, balance int)");
    client.run("CREATE TABLE history (teller int, delta int)");
    client.run("INSERT INTO tellers VALUES (0, 0), (1, 0), (2, 0), (3, 0)");
    let failed = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (server, failed) = (&server, &failed);
            scope.spawn(move || {
                let mut client = Client::connect(server);
                for turn in 0..TRANSACTIONS {
                    let teller = (number + turn) % CLIENTS;
                    client.run("BEGIN");
                    let replies = [
                        client
                            .query(&format!("UPDATE tellers SET balance = balance + 1 WHERE id = {teller}")),
                        client.query(&format!("SELECT balance FROM tellers WHERE id = {teller}")),
                        client.query("UPDATE branches SET balance = balance + 1 WHERE id = 1"),
                        client.query(&format!("INSERT INTO history VALUES ({teller}, 1)")),
                        client.query("COMMIT"),
                    ];
                    let error = replies.iter().find_map(|reply| reply.error.as_ref());
                    assert!(error.is_none_or(|error| error.code == "40001"), "{error:?}");
                    failed.fetch_add(usize::from(error.is_some()), Ordering::Relaxed);
                }
            });
        }
    });
    let failed = failed.into_inner();
    let sums = "SELECT (SELECT sum(balance) FROM tellers) || ' ' || (SELECT count(*) FROM history) || ' ' || \
                (SELECT balance FROM branches)";
    let committed = CLIENTS * TRANSACTIONS - failed;
    assert_eq!(client.run(sums).cell(), format!("{committed} {committed} {committed}"));
    assert!(failed <= CLIENTS * TRANSACTIONS / 1000, "{failed} of {}", CLIENTS * TRANSACTIONS);
}

#[test]
fn the_first_statement_of_a_transaction_never_fails_to_serialize() {
    const CLIENTS: usize = 6;
    const TURNS: usize = 100;
    for level in ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"] {
        let server = TestServer::start();
        let mut client = Client::connect(&server);
        client.run("CREATE TABLE t (a int PRIMARY KEY, b int); INSERT INTO t VALUES (1, 0)");
        let statements = [
            "UPDATE t SET b = b + 1 WHERE a = 1",
            "INSERT INTO t VALUES (1, 1) ON CONFLICT (a) DO UPDATE SET b = t.b + 1",
            "SELECT b FROM t WHERE a = 1 FOR UPDATE",
        ];
        std::thread::scope(|scope| {
            for number in 0..CLIENTS {
                let server = &server;
                scope.spawn(move || {
                    let mut client = Client::connect(server);
                    for turn in 0..TURNS {
                        client.run(&format!("BEGIN ISOLATION LEVEL {level}"));
                        client.run(statements[(number + turn) % statements.len()]);
                        client.run("COMMIT");
                    }
                });
            }
        });
        let counted = client.run("SELECT b FROM t").cell();
        assert_eq!(counted, (CLIENTS * TURNS / statements.len() * 2).to_string(), "{level}");
    }
}
