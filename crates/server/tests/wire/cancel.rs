//! Cancel requests.

use crate::client::{Client, message, raw};
use crate::server::TestServer;
use std::time::Duration;

/// Long enough for a statement to arrive and begin.
pub(crate) const UNDER_WAY: Duration = Duration::from_millis(300);

/// Takes very long on the analytical path, unless it is ended.
pub(crate) const LONG_QUERY: &str =
    "SELECT count(*) FROM many a, many b, many c WHERE (a.n * 31 + b.n * 17 + c.n) % 1009 = 5";

/// A table for `LONG_QUERY`, and one whose rows can be locked.
pub(crate) fn prepare(client: &mut Client) {
    client.run("CREATE TABLE many (n int PRIMARY KEY)");
    let rows: Vec<String> = (0..4000).map(|n| format!("({n})")).collect();
    client.run(&format!("INSERT INTO many VALUES {}", rows.join(",")));
    client.run("CREATE TABLE t (a int PRIMARY KEY, b int)");
    client.run("INSERT INTO t VALUES (1, 0), (2, 0)");
}

/// Sends a query without waiting for its answer.
pub(crate) fn begin(client: &mut Client, sql: &str) {
    client.send(&message(b'Q', &[sql.as_bytes(), &[0]].concat()));
}

/// Asks for the end of what a session runs.
pub(crate) fn cancel(server: &TestServer, process: i32, secret: i32) {
    let mut other = raw(server.address);
    let words = [16, 80_877_102, process, secret];
    other.send(&words.iter().flat_map(|word: &i32| word.to_be_bytes()).collect::<Vec<u8>>());
    // No answer, the connection ends.
    assert_eq!(other.try_receive(), None);
}

#[test]
fn a_running_query_is_canceled() {
    let server = TestServer::start();
    let mut client = Client::connect(&server);
    prepare(&mut client);
    begin(&mut client, LONG_QUERY);
    std::thread::sleep(UNDER_WAY);
    cancel(&server, client.process, client.secret ^ 1);
    cancel(&server, client.process + 1, client.secret);
    client.stream.set_read_timeout(Some(UNDER_WAY)).unwrap();
    let mut byte = [0];
    let quiet = client.read_exact(&mut byte);
    assert!(quiet.is_err(), "the query ended without a valid cancel request");
    client.stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    cancel(&server, client.process, client.secret);
    let reply = client.reply();
    assert_eq!((reply.code(), reply.status), ("57014", b'I'));
    assert_eq!(client.run("SELECT 1").cell(), "1");
}

#[test]
fn a_wait_for_a_lock_is_canceled() {
    let server = TestServer::start();
    let mut holder = Client::connect(&server);
    prepare(&mut holder);
    holder.run("BEGIN; UPDATE t SET b = 1 WHERE a = 1");
    let mut waiter = Client::connect(&server);
    waiter.run("BEGIN");
    begin(&mut waiter, "UPDATE t SET b = 2 WHERE a = 1");
    std::thread::sleep(UNDER_WAY);
    cancel(&server, waiter.process, waiter.secret);
    let reply = waiter.reply();
    assert_eq!((reply.code(), reply.status), ("57014", b'E'));
    waiter.run("ROLLBACK");
    holder.run("COMMIT");
    assert_eq!(waiter.run("SELECT b FROM t WHERE a = 1").cell(), "1");
}

#[test]
fn an_idle_session_is_not_harmed() {
    let server = TestServer::start();
    let mut client = Client::connect(&server);
    prepare(&mut client);
    client.run("BEGIN; UPDATE t SET b = 3 WHERE a = 2");
    cancel(&server, client.process, client.secret);
    std::thread::sleep(UNDER_WAY);
    client.run("UPDATE t SET b = b + 1 WHERE a = 2; COMMIT");
    assert_eq!(client.run("SELECT b FROM t WHERE a = 2").cell(), "4");
}
