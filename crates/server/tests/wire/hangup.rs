//! Clients that vanish: their open transactions are rolled back at once, and no other client waits for that.

use crate::cancel::{LONG_QUERY, UNDER_WAY, begin, prepare};
use crate::client::Client;
use crate::server::TestServer;

/// Starts a server whose row 2 is locked by a client that runs `last` when it vanishes.
fn vanish_while(last: Option<&str>) -> (TestServer, Client) {
    let server = TestServer::start();
    let mut holder = Client::connect(&server);
    prepare(&mut holder);
    holder.run("BEGIN; UPDATE t SET b = 1 WHERE a = 1");
    let mut vanishing = Client::connect(&server);
    vanishing.run("BEGIN; UPDATE t SET b = 2 WHERE a = 2; INSERT INTO t VALUES (3, 3)");
    if let Some(last) = last {
        begin(&mut vanishing, last);
        std::thread::sleep(UNDER_WAY);
    }
    drop(vanishing);
    (server, holder)
}

/// Row 2 can be written although the first client still holds row 1, and nothing of the vanished client is left.
fn nothing_is_left(server: &TestServer, mut holder: Client) {
    let mut other = Client::connect(server);
    other.run("BEGIN; UPDATE t SET b = b + 10 WHERE a = 2; INSERT INTO t VALUES (3, 30); COMMIT");
    holder.run("COMMIT");
    assert_eq!(other.run("SELECT a, b FROM t ORDER BY a").text(), [["1", "1"], ["2", "10"], ["3", "30"]]);
}

#[test]
fn while_idle_in_a_transaction() {
    let (server, holder) = vanish_while(None);
    nothing_is_left(&server, holder);
}

#[test]
fn while_waiting_for_a_lock() {
    let (server, holder) = vanish_while(Some("UPDATE t SET b = 2 WHERE a = 1"));
    nothing_is_left(&server, holder);
}

#[test]
fn while_a_query_runs() {
    let (server, holder) = vanish_while(Some(LONG_QUERY));
    nothing_is_left(&server, holder);
}

#[test]
fn in_the_middle_of_a_message() {
    let server = TestServer::start();
    let mut client = Client::connect(&server);
    prepare(&mut client);
    let mut vanishing = Client::connect(&server);
    vanishing.run("BEGIN; UPDATE t SET b = 2 WHERE a = 2");
    vanishing.send(b"Q\0\0\0\x20COMM");
    drop(vanishing);
    client.run("BEGIN; UPDATE t SET b = b + 1 WHERE a = 2; COMMIT");
    assert_eq!(client.run("SELECT b FROM t WHERE a = 2").cell(), "1");
}

#[test]
fn in_the_middle_of_a_copy() {
    let server = TestServer::start();
    let mut client = Client::connect(&server);
    prepare(&mut client);
    let mut vanishing = Client::connect(&server);
    assert!(vanishing.query("COPY t FROM STDIN").kinds.ends_with('G'));
    vanishing.send(&crate::client::message(b'd', b"7\t7\n8\t8\n"));
    std::thread::sleep(UNDER_WAY);
    drop(vanishing);
    // Its keys are free.
    client.run("INSERT INTO t VALUES (7, 0)");
    assert_eq!(client.run("SELECT count(*) FROM t WHERE a >= 7").cell(), "1");
}

#[test]
fn in_the_middle_of_a_large_result() {
    let server = TestServer::start();
    let mut client = Client::connect(&server);
    prepare(&mut client);
    let mut vanishing = Client::connect(&server);
    vanishing.run("BEGIN; UPDATE t SET b = 2 WHERE a = 2");
    begin(&mut vanishing, "SELECT a.n, b.n FROM many a, many b");
    vanishing.receive();
    drop(vanishing);
    client.run("BEGIN; UPDATE t SET b = b + 1 WHERE a = 2; COMMIT");
    assert_eq!(client.run("SELECT b FROM t WHERE a = 2").cell(), "1");
}
