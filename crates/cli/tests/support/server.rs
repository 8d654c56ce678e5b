//! A server as users run it, with its own allocator, and a client that asks over a socket.

use super::ankerdb;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// The first arguments of a server on a free port.
pub(crate) const SERVE: &[&str] = &["serve", "--listen", "127.0.0.1:0", "--olap-threads", "2"];

pub(crate) struct Server {
    pub process: Child,
    pub address: SocketAddr,
}

impl Server {
    pub(crate) fn start(options: &[&str]) -> Server {
        Server::spawn(ankerdb(&[SERVE, options].concat())).0
    }

    /// Of a command that begins with [`SERVE`]; and the line that it says when it is ready.
    pub(crate) fn spawn(mut command: Command) -> (Server, String) {
        let mut process = command.spawn().expect("the command starts");
        let mut line = String::new();
        let output = process.stdout.as_mut().expect("stdout is piped");
        BufReader::new(output).read_line(&mut line).expect("the server says something");
        let address = line.strip_prefix("ankerdb is ready on ").and_then(|rest| rest.split(' ').next());
        let address = address.and_then(|address| address.parse().ok()).expect("an address");
        (Server { process, address }, line)
    }

    /// Numbers of the server's children with their states.
    pub(crate) fn children(&self) -> Vec<(u32, char)> {
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

    pub(crate) fn child(&self) -> u32 {
        until(|| self.children().first().map(|(number, _)| *number))
    }

    /// Resident memory in KiB.
    pub(crate) fn resident(&self) -> usize {
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

pub(crate) fn until<T>(mut found: impl FnMut() -> Option<T>) -> T {
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
pub(crate) struct Client(TcpStream);

impl Client {
    pub(crate) fn connect(server: &Server) -> Client {
        let stream = TcpStream::connect(server.address).expect("the server listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        let mut client = Client(stream);
        let body = [&196_608u32.to_be_bytes()[..], b"user\0tester\0database\0ankerdb\0\0"].concat();
        client.send(&[&(body.len() as u32 + 4).to_be_bytes()[..], &body].concat());
        client.answer();
        client
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("the server reads");
    }

    /// Returns when something has come that was not read.
    pub(crate) fn await_anything(&mut self) {
        self.0.peek(&mut [0]).expect("an answer in time");
    }

    /// Sends a message of this type.
    pub(crate) fn message(&mut self, kind: u8, body: &[u8]) {
        self.send(&[&[kind][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat());
    }

    pub(crate) fn ask(&mut self, sql: &str) {
        let body = [sql.as_bytes(), &[0]].concat();
        self.send(&[&b"Q"[..], &(body.len() as u32 + 4).to_be_bytes(), &body].concat());
    }

    #[must_use = "an error is an answer like any other"]
    pub(crate) fn query(&mut self, sql: &str) -> String {
        self.ask(sql);
        self.answer()
    }

    /// Sends data for a COPY so many times over, unless the server has had enough; its answer.
    pub(crate) fn copy(&mut self, data: &[u8], times: usize) -> String {
        let message = [&b"d"[..], &(data.len() as u32 + 4).to_be_bytes(), data].concat();
        let mut sender = self.0.try_clone().expect("a socket");
        std::thread::scope(|scope| {
            scope.spawn(move || {
                (0..times).for_each(|_| sender.write_all(&message).expect("the server reads"));
                sender.write_all(b"c\0\0\0\x04").expect("the server reads");
            });
            self.answer()
        })
    }

    /// Up to the next ReadyForQuery: `a,b|c,d` for rows, `!` with its fields for an error.
    pub(crate) fn answer(&mut self) -> String {
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
