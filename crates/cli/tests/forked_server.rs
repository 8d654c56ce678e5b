//! A server that forks, as users run it: with its own allocator, over a socket, killed and watched from outside.

mod support;

use std::net::TcpListener;
use std::process::Command;
use support::server::{Client, Server, until};
use support::signal;

const LONG: &str = "SELECT count(*) FROM n a, n b, n c WHERE a.n + b.n + c.n = -1";

fn world() -> (Server, Client) {
    let server = Server::start(&["--in-memory", "--engine", "hee-fork"]);
    let mut client = Client::connect(&server);
    for sql in [
        "CREATE TABLE n (n int PRIMARY KEY, t text)",
        "INSERT INTO n SELECT i, 'a text of more than twelve bytes ' || i FROM generate_series(1, 20000) AS s(i)",
    ] {
        assert_eq!(client.query(sql), "", "{sql}");
    }
    (server, client)
}

#[test]
fn hundreds_of_queries_leave_nothing_behind() {
    let (server, mut client) = world();
    let sum = "SELECT count(*), sum(n), max(t) FROM n";
    let expected = "20000,200010000,a text of more than twelve bytes 9999";
    let run = |client: &mut Client, count: usize| {
        for _ in 0..count {
            assert_eq!(client.query(sum), expected);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| run(&mut Client::connect(&server), 100));
        }
        // Commits that allocate, in other threads, while the process forks.
        scope.spawn(|| {
            let mut writer = Client::connect(&server);
            for turn in 0..3000 {
                let update = format!("UPDATE n SET t = t WHERE n = {}", 1 + turn % 20_000);
                assert_eq!(writer.query(&update), "", "{update}");
            }
        });
    });
    let before = server.resident();
    run(&mut client, 400);
    let after = server.resident();
    assert!(after < before + (16 << 10), "{before} KiB before 400 queries, {after} KiB after");
    until(|| server.children().is_empty().then_some(()));
}

#[test]
fn killed_children_and_servers_do_no_harm() {
    let (mut server, mut client) = world();
    client.ask(LONG);
    let child = server.child().to_string();
    assert!(Command::new("kill").args(["-KILL", &child]).status().expect("kill runs").success());
    let answer = client.answer();
    assert!(answer.contains("C58000") && answer.contains("signal 9 (SIGKILL)"), "{answer}");
    assert_eq!(client.query("SELECT count(*) FROM n"), "20000");
    assert!(server.children().is_empty(), "nothing that runs, and no zombie");

    // A child holds no port of a server that is gone, and ends with it.
    client.ask(LONG);
    let child = server.child();
    signal(&server.process, "-KILL");
    server.process.wait().expect("the server ends");
    until(|| TcpListener::bind(server.address).ok());
    until(|| (!std::path::Path::new(&format!("/proc/{child}")).exists()).then_some(()));
}

#[test]
fn ctrl_c_for_all_processes_of_a_terminal_ends_server_and_children() {
    let (mut server, mut client) = world();
    client.ask(LONG);
    let child = server.child();
    for process in [child, server.process.id()] {
        let sent = Command::new("kill").args(["-INT", &process.to_string()]).status();
        assert!(sent.expect("kill runs").success());
    }
    assert!(server.process.wait().expect("the server ends").success());
    until(|| (!std::path::Path::new(&format!("/proc/{child}")).exists()).then_some(()));
}
