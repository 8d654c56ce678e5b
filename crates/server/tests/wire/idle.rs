//! Clients that say nothing have no threads, and lose nothing else.

use crate::client::{Client, bind, execute, parse, sync};
use crate::server::TestServer;
use std::time::{Duration, Instant};

/// More than threads stay with silent connections, and than all other tests have at the same time.
const CROWD: usize = 300;
const PATIENCE: Duration = Duration::from_secs(20);

fn crowd(server: &TestServer) -> Vec<Client> {
    (0..CROWD).map(|_| Client::connect(server)).collect()
}

/// Threads of this process that serve connections, of all tests' servers.
fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let name = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.ok()?.path().join("comm")).ok()
    };
    tasks.filter_map(name).filter(|name| name.trim() == "connection").count()
}

fn until(mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn sessions_go_on_where_they_were() {
    let server = TestServer::start();
    let mut clients = crowd(&server);
    for (number, client) in clients.iter_mut().enumerate() {
        client.run(&format!("SET application_name = 'client {number}'"));
        client.send(&[parse("kept", &format!("SELECT {number} + $1::int"), &[]), sync()].concat());
        client.reply().ok();
        if number % 50 == 0 {
            client.run(&format!("CREATE TEMP TABLE own AS SELECT {number} AS a"));
        }
    }
    until(|| threads() < CROWD);
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.run("SHOW application_name").cell(), format!("client {number}"));
        client.send(&[bind("", "kept", &[Some("1")]), execute("", 0), sync()].concat());
        assert_eq!(client.reply().ok().cell(), (number + 1).to_string());
        if number % 50 == 0 {
            assert_eq!(client.run("SELECT a FROM own").cell(), number.to_string());
        }
    }
}

#[test]
fn a_message_may_come_in_pieces_and_many_at_once() {
    let server = TestServer::start();
    let mut clients = crowd(&server);
    until(|| threads() < CROWD);
    let message = crate::client::message(b'Q', b"SELECT 'a piece'\0");
    // All of them are busy at the same time, each with a message that is not there yet.
    clients.iter_mut().for_each(|client| client.send(&message[..7]));
    std::thread::sleep(Duration::from_millis(50));
    clients.iter_mut().for_each(|client| client.send(&message[7..]));
    clients.iter_mut().for_each(|client| assert_eq!(client.reply().ok().cell(), "a piece"));
}

#[test]
fn a_silent_client_that_leaves_gives_up_what_it_holds() {
    let server = TestServer::start();
    let mut crowd = crowd(&server);
    let mut holder = Client::connect(&server);
    holder.run("SELECT pg_advisory_lock(7)");
    // None of the threads that stay is left for it.
    drop(holder);
    until(|| crowd[0].run("SELECT pg_try_advisory_lock(7)").cell() == "t");
}

#[test]
fn silent_sessions_are_terminated() {
    let mut server = TestServer::start();
    let mut clients = crowd(&server);
    let number = clients[CROWD - 1].run("SELECT pg_backend_pid()").cell();
    assert_eq!(clients[0].run(&format!("SELECT pg_terminate_backend({number})")).cell(), "t");
    let last = clients.pop().unwrap().last_words();
    assert_eq!((last.severity.as_str(), last.code.as_str()), ("FATAL", "57P01"));
    server.ask_to_end();
    for client in &mut clients {
        let last = client.last_words();
        assert_eq!((last.severity.as_str(), last.code.as_str()), ("FATAL", "57P01"));
    }
}

#[test]
fn those_that_wait_for_each_other_all_have_threads() {
    let server = TestServer::start();
    let mut clients = crowd(&server);
    clients[0].run("CREATE TABLE queue (a int PRIMARY KEY, b int); INSERT INTO queue VALUES (1, 0)");
    clients[0].run("BEGIN; UPDATE queue SET b = b + 1 WHERE a = 1");
    let (holder, waiting) = clients.split_first_mut().unwrap();
    for client in waiting.iter_mut() {
        client.run("SET default_transaction_isolation = 'read committed'");
        client.send(&crate::client::message(b'Q', b"UPDATE queue SET b = b + 1 WHERE a = 1\0"));
    }
    until(|| threads() >= CROWD - 1);
    holder.run("COMMIT");
    waiting.iter_mut().for_each(|client| drop(client.reply().ok()));
    assert_eq!(holder.run("SELECT b FROM queue").cell(), CROWD.to_string());
}
