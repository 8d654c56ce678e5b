//! A connection that asks by the simple protocol, and writes answers down as the manual does.

use crate::support::server::Server;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long nothing comes of a statement that waits.
const SILENCE: Duration = Duration::from_millis(250);

/// A session.
pub(crate) struct Client(TcpStream);

impl Client {
    pub(crate) fn connect(server: &Server) -> Client {
        let stream = TcpStream::connect(server.address).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut client = Client(stream);
        let body = [&196_608u32.to_be_bytes()[..], b"user\0reader\0database\0ankerdb\0\0"].concat();
        client.write(&[&(body.len() as u32 + 4).to_be_bytes()[..], &body].concat());
        client.answer();
        client
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("the server reads");
    }

    /// Sends a statement.
    pub(crate) fn ask(&mut self, sql: &str) {
        let body = [sql.as_bytes(), &[0]].concat();
        self.write(&[&b"Q"[..], &(body.len() as u32 + 4).to_be_bytes(), &body].concat());
    }

    /// Whether no answer comes for a while.
    pub(crate) fn is_waiting(&mut self) -> bool {
        self.0.set_read_timeout(Some(SILENCE)).expect("a timeout");
        let peeked = self.0.peek(&mut [0]);
        self.0.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        peeked.is_err_and(|error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
    }

    fn read(&mut self, bytes: &mut [u8]) {
        self.0.read_exact(bytes).expect("an answer in time");
    }

    fn message(&mut self) -> (u8, Vec<u8>) {
        let mut header = [0; 5];
        self.read(&mut header);
        let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
        let mut body = vec![0; length - 4];
        self.read(&mut body);
        (header[0], body)
    }

    /// The answer in lines: names and rows, or a command tag, or an error.
    pub(crate) fn answer(&mut self) -> Vec<String> {
        let (mut lines, mut rows, mut queried) = (Vec::new(), 0, false);
        loop {
            match self.message() {
                (b'T', body) => {
                    queried = true;
                    lines.push(names(&body).join(" | "));
                }
                (b'D', body) => {
                    rows += 1;
                    lines.push(cells(&body).join(" | "));
                }
                (b'C', body) if !queried => lines.push(text(&body).to_owned()),
                (b'C', _) if rows == 0 => lines.push("(0 rows)".to_owned()),
                (b'E', body) => lines = vec![error(&body)],
                (b'Z', _) => return lines,
                _ => {}
            }
        }
    }

    /// Ends the session, and waits until it has ended.
    pub(crate) fn end(mut self) {
        self.write(b"X\0\0\0\x04");
        let _ = self.0.read_to_end(&mut Vec::new());
    }
}

/// A text up to its zero byte.
fn text(bytes: &[u8]) -> &str {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    std::str::from_utf8(&bytes[..end]).expect("UTF-8")
}

/// Names of a RowDescription: each is followed by 18 bytes on its type.
fn names(body: &[u8]) -> Vec<String> {
    let (mut rest, mut names) = (&body[2..], Vec::new());
    while !rest.is_empty() {
        let name = text(rest);
        rest = &rest[name.len() + 19..];
        names.push(name.to_owned());
    }
    names
}

fn cells(body: &[u8]) -> Vec<String> {
    let (mut rest, mut cells) = (&body[2..], Vec::new());
    while let Some((length, behind)) = rest.split_first_chunk::<4>() {
        let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else {
            cells.push("NULL".to_owned());
            rest = behind;
            continue;
        };
        cells.push(String::from_utf8_lossy(&behind[..length]).into_owned());
        rest = &behind[length..];
    }
    cells
}

fn error(body: &[u8]) -> String {
    let fields: Vec<&str> = body.split(|&byte| byte == 0).map(text).collect();
    let field = |letter| fields.iter().find_map(|field| field.strip_prefix(letter)).unwrap_or_default();
    format!("ERROR {}: {}", field('C'), field('M'))
}
