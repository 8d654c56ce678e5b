//! Many clients, large statements, large results, slow readers.

use crate::cancel::{UNDER_WAY, begin};
use crate::client::{Client, bind, execute, parse, sync};
use crate::server::TestServer;
use std::io::Read;
use std::net::TcpStream;

#[test]
fn many_connections_add_up() {
    const CLIENTS: usize = 100;
    const ROUNDS: usize = 20;
    let server = TestServer::start();
    Client::connect(&server)
        .run("CREATE TABLE counter (id int PRIMARY KEY, n int); INSERT INTO counter VALUES (1, 0)");
    // More clients than threads, all after the same row: waiting must not keep the holder from committing.
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let server = &server;
            scope.spawn(move || {
                let mut client = Client::connect(server);
                for round in 0..ROUNDS {
                    if (number + round) % 2 == 0 {
                        client.run("UPDATE counter SET n = n + 1 WHERE id = 1");
                        continue;
                    }
                    loop {
                        client.run("BEGIN ISOLATION LEVEL READ COMMITTED");
                        let updated = client.query("UPDATE counter SET n = n + 1 WHERE id = 1");
                        let ended = client.query(if updated.error.is_none() { "COMMIT" } else { "ROLLBACK" });
                        if updated.error.is_none() && ended.error.is_none() {
                            break;
                        }
                        let code = [updated.code(), ended.code()].concat();
                        assert!(code == "40001" || code == "40P01", "{code}");
                    }
                }
            });
        }
    });
    let sum = Client::connect(&server).run("SELECT n FROM counter WHERE id = 1").cell();
    assert_eq!(sum, (CLIENTS * ROUNDS).to_string());
}

#[test]
fn waiting_sessions_do_not_keep_the_others_waiting() {
    let server = TestServer::start();
    let mut holder = Client::connect(&server);
    holder.run("CREATE TABLE t (a int PRIMARY KEY, b int); INSERT INTO t VALUES (1, 0)");
    holder.run("BEGIN; UPDATE t SET b = 1 WHERE a = 1");
    // Several times the server's threads.
    let mut waiting: Vec<Client> = (0..12).map(|_| Client::connect(&server)).collect();
    for client in &mut waiting {
        client.run("BEGIN ISOLATION LEVEL READ COMMITTED");
        begin(client, "UPDATE t SET b = b + 1 WHERE a = 1");
    }
    std::thread::sleep(UNDER_WAY);
    assert_eq!(Client::connect(&server).run("SELECT b FROM t WHERE a = 1").cell(), "0");
    holder.run("COMMIT");
    // Each client that gets the row lets the next one through, in any order.
    let mut committed = 0;
    std::thread::scope(|scope| {
        let threads: Vec<_> = waiting
            .iter_mut()
            .map(|client| {
                scope.spawn(|| {
                    let updated = client.reply();
                    assert_eq!(updated.error, None);
                    client.run("COMMIT");
                })
            })
            .collect();
        committed += threads.into_iter().map(|thread| thread.join().unwrap()).count();
    });
    assert_eq!(holder.run("SELECT b FROM t WHERE a = 1").cell(), (committed + 1).to_string());
}

#[test]
fn large_statements_and_values() {
    let server = TestServer::start();
    let mut client = Client::connect(&server);
    client.run("CREATE TABLE t (a int PRIMARY KEY, b text)");
    let long = "x".repeat(20 << 20);
    client.run(&format!("INSERT INTO t VALUES (1, '{long}')"));
    assert_eq!(client.run("SELECT b FROM t WHERE a = 1").cell(), long);
    assert_eq!(client.extended("SELECT b FROM t WHERE b = $1", &[Some(&long)]).cell(), long);
}

#[test]
fn a_slow_reader_gets_a_large_result() {
    let server = TestServer::start();
    let mut client = Client::connect(&server);
    client.run("CREATE TABLE many (n int PRIMARY KEY)");
    let lines: String = (0..1000).map(|n| format!("{n}\n")).collect();
    client.copy_in("COPY many FROM STDIN", lines.as_bytes(), 1000).ok();
    begin(&mut client, "SELECT a.n, b.n FROM many a, many b");
    // The socket fills up meanwhile; others are served.
    std::thread::sleep(UNDER_WAY);
    assert_eq!(Client::connect(&server).run("SELECT count(*) FROM many").cell(), "1000");
    let reply = client.reply().ok();
    assert_eq!((reply.rows.len(), reply.tags[0].as_str()), (1_000_000, "SELECT 1000000"));
}

#[test]
fn all_connections_may_wait_for_one_row() {
    const WAITING: usize = 600;
    let server = TestServer::with_connections(WAITING + 2);
    let mut holder = Client::connect(&server);
    holder.run("CREATE TABLE t (a int PRIMARY KEY, b int); INSERT INTO t VALUES (1, 0)");
    holder.run("BEGIN; UPDATE t SET b = b + 1 WHERE a = 1");
    let mut waiting: Vec<Client> = (0..WAITING).map(|_| Client::connect(&server)).collect();
    for client in &mut waiting {
        begin(client, "UPDATE t SET b = b + 1 WHERE a = 1");
    }
    std::thread::sleep(UNDER_WAY * 3);
    assert_eq!(Client::connect(&server).run("SELECT b FROM t WHERE a = 1").cell(), "0");
    holder.run("COMMIT");
    for client in &mut waiting {
        assert_eq!(client.reply().error, None);
    }
    assert_eq!(holder.run("SELECT b FROM t WHERE a = 1").cell(), (WAITING + 1).to_string());
}

#[test]
fn whoever_waits_keeps_nobody_else_waiting() {
    let server = TestServer::start();
    let mut holder = Client::connect(&server);
    holder.run("CREATE TABLE t (a int PRIMARY KEY, b int); INSERT INTO t VALUES (1, 0), (2, 0)");
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

#[test]
fn silent_connections_take_no_more_threads_than_there_can_be_sessions() {
    const SESSIONS: usize = 2;
    const SPARE: usize = 64;
    let server = TestServer::with_connections(SESSIONS);
    let mut client = Client::connect(&server);
    let silent: Vec<TcpStream> =
        (1..SESSIONS + SPARE).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    let mut turned_away = TcpStream::connect(server.address).unwrap();
    let mut told = Vec::new();
    turned_away.read_to_end(&mut told).unwrap();
    assert!(told.starts_with(b"E") && told.windows(5).any(|part| part == b"53300"), "{told:?}");
    assert_eq!(client.run("SELECT 1").cell(), "1");
    // A client that leaves makes room.
    drop(silent);
    std::thread::sleep(UNDER_WAY);
    assert_eq!(Client::connect(&server).run("SELECT 2").cell(), "2");
}
