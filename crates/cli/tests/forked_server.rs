//! A server that forks, as users run it: with its own allocator, over a socket, killed and watched from outside.

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use support::{ankerdb, signal};

const LONG: &str = "SELECT count(*) FROM n a, n b, n c WHERE a.n + b.n + c.n = -1";

struct Server {
    process: Child,
    address: SocketAddr,
}

impl Server {
    fn start() -> Server {
        let arguments = ["serve", "--engine", "hee-fork", "--listen", "127.0.0.1:0", "--olap-threads", "2"];
        let mut process = ankerdb(&arguments).spawn().expect("the command starts");
        let mut line = String::new();
        let output = process.stdout.as_mut().expect("stdout is piped");
        BufReader::new(output).read_line(&mut line).expect("the server says something");
        let address = line.strip_prefix("ankerdb is ready on ").and_then(|rest| rest.split(' ').next());
        let address = address.and_then(|address| address.parse().ok()).expect("an address");
        Server { process, address }
    }

    /// Numbers of the server's children with their states.
    fn children(&self) -> Vec<(u32, char)> {
        let mut found = Vec::new();
        for process in std::fs::read_dir("/proc").expect("the list of processes").flatten() {
            let Ok(number) = process.file_name().to_string_lossy().parse::<u32>() else { continue };
            let status = std::fs::read_to_string(process.path().join("stat")).unwrap_or_default();
            let Some((_, rest)) = status.rsplit_once(')') else { continue };
            let words: Vec<&str> = rest.split_whitespace().take(2).collect();
            if words.get(1).and_then(|word| word.parse::<u32>().ok()) == Some(self.process.id()) {
                found.push((number, words[0].chars().next().expect("a state")));
            }
        }
        found
    }

    fn child(&self) -> u32 {
        until(|| self.children().first().map(|(number, _)| *number))
    }

    /// Resident memory in KiB.
    fn resident(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()));
        let status = status.expect("the state of the server");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("its memory");
        line.split_whitespace().nth(1).and_then(|word| word.parse().ok()).expect("KiB")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn until<T>(mut found: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < end, "it did not happen in time");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A connection that asks in text.
struct Client(TcpStream);

impl Client {
    fn connect(server: &Server) -> Client {
        let stream = TcpStream::connect(server.address).expect("the server listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        let mut client = Client(stream);
        let body = [&196_608u32.to_be_bytes()[..], b"user\0tester\0database\0ankerdb\0\0"].concat();
        client.send(&[&(body.len() as u32 + 4).to_be_bytes()[..], &body].concat());
        client.answer();
        client
    }

    fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("the server reads");
    }

    fn ask(&mut self, sql: &str) {
        let body = [sql.as_bytes(), &[0]].concat();
        self.send(&[&b"Q"[..], &(body.len() as u32 + 4).to_be_bytes(), &body].concat());
    }

    #[must_use = "an error is an answer like any other"]
    fn query(&mut self, sql: &str) -> String {
        self.ask(sql);
        self.answer()
    }

    /// Up to the next ReadyForQuery: `a,b|c,d` for rows, `!` with its fields for an error.
    fn answer(&mut self) -> String {
        let (mut rows, mut error) = (Vec::new(), None);
        loop {
            let mut header = [0; 5];
            self.0.read_exact(&mut header).expect("an answer in time");
            let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
            let mut body = vec![0; length - 4];
            self.0.read_exact(&mut body).expect("a whole message");
            match header[0] {
                b'D' => rows.push(cells(&body).join(",")),
                b'E' => error = Some(format!("!{}", String::from_utf8_lossy(&body).replace('\0', " "))),
                b'Z' => return error.unwrap_or_else(|| rows.join("|")),
                _ => {}
            }
        }
    }
}

fn cells(body: &[u8]) -> Vec<String> {
    let (mut rest, mut cells) = (&body[2..], Vec::new());
    while let Some((length, behind)) = rest.split_first_chunk::<4>() {
        let length = i32::from_be_bytes(*length).max(0) as usize;
        cells.push(String::from_utf8_lossy(&behind[..length]).into_owned());
        rest = &behind[length..];
    }
    cells
}

fn world() -> (Server, Client) {
    let server = Server::start();
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

    // A child holds no port of a server that is gone, and goes with it.
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
