//! LISTEN and NOTIFY: what comes when, and to whom.

use crate::client::{Client, describe, execute, parse, sync};
use crate::server::TestServer;

fn start(listeners: usize) -> (TestServer, Client, Vec<Client>) {
    let server = TestServer::start();
    let client = Client::connect(&server);
    let mut others: Vec<Client> = (0..listeners).map(|_| Client::connect(&server)).collect();
    others.iter_mut().for_each(|other| drop(other.run("LISTEN news")));
    (server, client, others)
}

/// Channel and payload of the next message, which has to be a notification.
fn heard(client: &mut Client) -> String {
    let message = client.receive();
    assert_eq!(message.kind, b'A');
    let words: Vec<_> = message.body[4..].split(|&byte| byte == 0).map(String::from_utf8_lossy).collect();
    format!("{}:{}", words[0], words[1])
}

#[test]
fn an_idle_session_hears_what_is_committed_in_that_order() {
    let (_server, mut client, mut listeners) = start(3);
    client.run("BEGIN");
    client.run("NOTIFY news, 'one'");
    client.run("NOTIFY other, 'nobody hears'");
    client.run("SAVEPOINT s");
    client.run("SELECT pg_notify('news', 'taken back')");
    client.run("ROLLBACK TO s");
    client.run("SELECT pg_notify('news', 'two'), pg_notify('news', 'one'), pg_notify('news', NULL)");
    client.run("COMMIT");
    client.run("BEGIN");
    client.run("NOTIFY news, 'rolled back'");
    client.run("ROLLBACK");
    client.run("NOTIFY news");
    client.run("SELECT pg_notify('news', 'last')");
    for listener in &mut listeners {
        for expected in ["news:one", "news:two", "news:", "news:", "news:last"] {
            assert_eq!(heard(listener), expected);
        }
    }
}

#[test]
fn a_transaction_hears_nothing_before_its_end_and_a_session_itself() {
    let (_server, mut client, mut listeners) = start(1);
    let listener = &mut listeners[0];
    listener.run("BEGIN");
    client.run("NOTIFY news, 'meanwhile'");
    assert_eq!(listener.run("SELECT 1").kinds, "TDCZ");
    assert_eq!(listener.run("COMMIT").kinds, "CAZ");
    assert_eq!(listener.run("NOTIFY news, 'to itself'").kinds, "CAZ");
    let extended = [parse("", "SELECT pg_notify('news', 'again')", &[]), crate::client::bind("", "", &[])];
    listener.send(&[extended.concat(), describe(b'P', ""), execute("", 0), sync()].concat());
    assert_eq!(listener.reply().ok().kinds, "12TDCAZ");
}

#[test]
fn listening_is_a_part_of_the_transaction_and_ends_with_unlisten() {
    let (_server, mut client, mut listeners) = start(1);
    let listener = &mut listeners[0];
    listener.run("BEGIN");
    listener.run("LISTEN other");
    listener.run("ROLLBACK");
    client.run("NOTIFY other");
    listener.run("LISTEN \"Other\"");
    listener.run("UNLISTEN news");
    client.run("NOTIFY news");
    client.run("NOTIFY \"Other\", 'this one'");
    assert_eq!(heard(listener), "Other:this one");
    listener.run("UNLISTEN *");
    client.run("NOTIFY \"Other\"");
    assert_eq!(listener.run("SELECT 1").kinds, "TDCZ");
    listener.run("LISTEN news");
    listener.run("DISCARD ALL");
    client.run("NOTIFY news");
    assert_eq!(listener.run("SELECT 1").kinds, "TDCZ");
}

#[test]
fn what_cannot_be_said_is_refused_and_a_listener_still_ends() {
    let (server, mut client, mut listeners) = start(2);
    let long = "x".repeat(8000);
    for (sql, code) in [
        (format!("NOTIFY {}", &long[..64]), "22023"),
        (format!("NOTIFY news, '{long}'"), "22023"),
        ("SELECT pg_notify('', 'x')".into(), "22023"),
        ("NOTIFY news 'x'".into(), "42601"),
        ("LISTEN".into(), "42601"),
    ] {
        assert_eq!(client.query(&sql).code(), code, "{sql}");
    }
    // One that waits for its bell, too, notices that its client is gone, and that it is ended.
    drop(listeners.pop());
    client.run("NOTIFY news, 'x'");
    assert_eq!(heard(&mut listeners[0]), "news:x");
    let number = listeners[0].run("SELECT pg_backend_pid()").cell();
    client.run(&format!("SELECT pg_terminate_backend({number})"));
    assert_eq!(listeners[0].last_words().code, "57P01");
    drop(server);
}
