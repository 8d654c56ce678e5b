//! A client of PostgreSQL's protocol 3.0 that keeps servers' answers unchanged: texts of values, type OIDs, command
//! tags, SQLSTATEs, status bytes. Simple and extended queries and COPY FROM, everything as text.
//!
//! Every call ends: reads and writes have a time limit, and a server that dies or falls silent is an error of kind
//! [`io::Error`], never a wait for ever.

use crate::answer::{Answer, ResultColumn};
use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Longer than any statement here takes; longer waits are reported as a server that fell silent.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The largest message that is believed: a broken length must not become an allocation.
const MESSAGE_BYTES_MAX: usize = 256 << 20;

/// A connection.
pub struct ServerConnection {
    stream: BufReader<TcpStream>,
    /// The status byte of the last ReadyForQuery: `I`, `T` or `E`.
    pub status: char,
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend((body.len() as u32 + 4).to_be_bytes());
    bytes.extend(body);
    bytes
}

fn zero_terminated(parts: &[&str]) -> Vec<u8> {
    parts.iter().flat_map(|part| part.bytes().chain([0])).collect()
}

fn startup(user: &str, database: &str) -> Vec<u8> {
    let mut body = (3u32 << 16).to_be_bytes().to_vec();
    body.extend(zero_terminated(&["user", user, "database", database]));
    body.push(0);
    [&(body.len() as u32 + 4).to_be_bytes()[..], &body].concat()
}

fn parse(sql: &str) -> Vec<u8> {
    let mut body = zero_terminated(&["", sql]);
    body.extend(0u16.to_be_bytes());
    message(b'P', &body)
}

fn bind(parameters: &[Option<String>]) -> Vec<u8> {
    let mut body = vec![0, 0];
    body.extend(0u16.to_be_bytes());
    body.extend((parameters.len() as u16).to_be_bytes());
    for parameter in parameters {
        match parameter {
            None => body.extend((-1i32).to_be_bytes()),
            Some(text) => {
                body.extend((text.len() as u32).to_be_bytes());
                body.extend(text.bytes());
            }
        }
    }
    body.extend(0u16.to_be_bytes());
    message(b'B', &body)
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("malformed {what} from the server"))
}

impl ServerConnection {
    /// A session, ready for queries.
    ///
    /// # Errors
    /// What the system says, or the server's refusal as [`io::ErrorKind::ConnectionRefused`].
    pub fn connect(address: SocketAddr, user: &str, database: &str) -> io::Result<ServerConnection> {
        let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        stream.set_nodelay(true)?;
        let mut client = ServerConnection { stream: BufReader::new(stream), status: 'I' };
        client.send(&startup(user, database))?;
        let greeting = client.answer()?;
        match greeting.error {
            None => Ok(client),
            Some(code) => Err(io::Error::new(io::ErrorKind::ConnectionRefused, code)),
        }
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    fn receive(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let mut header = [0; 5];
        self.stream.read_exact(&mut header)?;
        let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
        if !(4..MESSAGE_BYTES_MAX).contains(&length) {
            return Err(malformed("length"));
        }
        let mut body = vec![0; length - 4];
        self.stream.read_exact(&mut body)?;
        Ok((header[0], body))
    }

    /// Everything up to ReadyForQuery, or up to where COPY data is asked for.
    fn answer(&mut self) -> io::Result<Answer> {
        let mut answer = Answer::default();
        loop {
            let (kind, body) = self.receive()?;
            match kind {
                b'T' => answer.columns = columns(&body)?,
                b'D' => answer.rows.push(cells(&body)?),
                b'C' => {
                    answer.tags.push(String::from_utf8_lossy(&body[..body.len().max(1) - 1]).into_owned())
                }
                b'E' => (answer.error, answer.message) = error_fields(&body),
                b'G' => answer.copying = true,
                b'Z' => {
                    self.status = body.first().map_or('?', |&byte| byte as char);
                    answer.status = self.status;
                }
                _ => {}
            }
            // An error that ends the connection is the last message.
            let fatal = kind == b'E' && body.starts_with(b"SFATAL\0");
            if matches!(kind, b'Z' | b'G') || fatal {
                return Ok(answer);
            }
        }
    }

    /// The simple protocol. The string may hold several statements.
    ///
    /// # Errors
    /// When the connection breaks or falls silent; an error of the statement is part of the answer.
    pub fn simple(&mut self, sql: &str) -> io::Result<Answer> {
        self.send(&message(b'Q', &zero_terminated(&[sql])))?;
        self.answer()
    }

    /// The extended protocol in one go: Parse, Bind, Describe, Execute, Sync.
    ///
    /// # Errors
    /// Those of [`ServerConnection::simple`].
    pub fn extended(&mut self, sql: &str, parameters: &[Option<String>]) -> io::Result<Answer> {
        let describe = message(b'D', b"P\0");
        let execute = message(b'E', &[0, 0, 0, 0, 0]);
        let sync = message(b'S', &[]);
        self.send(&[parse(sql), bind(parameters), describe, execute, sync].concat())?;
        self.answer()
    }

    /// The extended protocol: one statement that is run with each of these parameters in text format. What it answers to the last.
    ///
    /// # Errors
    /// Those of [`ServerConnection::simple`].
    pub fn extended_again(&mut self, sql: &str, runs: &[&Vec<Option<String>>]) -> io::Result<Answer> {
        let sync = message(b'S', &[]);
        self.send(&[parse(sql), sync.clone()].concat())?;
        let mut answer = self.answer()?;
        if answer.error.is_some() {
            return Ok(answer);
        }
        for parameters in runs {
            let describe = message(b'D', b"P\0");
            let execute = message(b'E', &[0, 0, 0, 0, 0]);
            self.send(&[bind(parameters), describe, execute, sync.clone()].concat())?;
            answer = self.answer()?;
        }
        Ok(answer)
    }

    /// A statement that is followed by COPY data.
    ///
    /// # Errors
    /// Those of [`ServerConnection::simple`].
    pub fn copy(&mut self, sql: &str, data: &str) -> io::Result<Answer> {
        let asked = self.simple(sql)?;
        if !asked.copying {
            return Ok(asked);
        }
        self.send(&[message(b'd', data.as_bytes()), message(b'c', &[])].concat())?;
        self.answer()
    }
}

fn columns(body: &[u8]) -> io::Result<Vec<ResultColumn>> {
    let mut rest = body.get(2..).ok_or_else(|| malformed("columns"))?;
    let mut columns = Vec::new();
    while !rest.is_empty() {
        let end = rest.iter().position(|&byte| byte == 0).ok_or_else(|| malformed("columns"))?;
        let fixed = rest.get(end + 1..end + 19).ok_or_else(|| malformed("columns"))?;
        let oid = u32::from_be_bytes([fixed[6], fixed[7], fixed[8], fixed[9]]);
        columns.push(ResultColumn { name: String::from_utf8_lossy(&rest[..end]).into_owned(), oid });
        rest = &rest[end + 19..];
    }
    Ok(columns)
}

fn cells(body: &[u8]) -> io::Result<Vec<Option<String>>> {
    let mut rest = body.get(2..).ok_or_else(|| malformed("row"))?;
    let mut cells = Vec::new();
    while !rest.is_empty() {
        let length = rest.get(..4).ok_or_else(|| malformed("row"))?;
        let length = i32::from_be_bytes([length[0], length[1], length[2], length[3]]);
        rest = &rest[4..];
        let Ok(length) = usize::try_from(length) else {
            cells.push(None);
            continue;
        };
        let cell = rest.get(..length).ok_or_else(|| malformed("row"))?;
        cells.push(Some(String::from_utf8_lossy(cell).into_owned()));
        rest = &rest[length..];
    }
    Ok(cells)
}

/// SQLSTATE and message of an ErrorResponse.
fn error_fields(body: &[u8]) -> (Option<String>, String) {
    let field = |kind: u8| {
        let mut fields = body.split(|&byte| byte == 0).filter(|field| !field.is_empty());
        let found = fields.find(|field| field[0] == kind)?;
        Some(String::from_utf8_lossy(&found[1..]).into_owned())
    };
    (Some(field(b'C').unwrap_or_default()), field(b'M').unwrap_or_default())
}
