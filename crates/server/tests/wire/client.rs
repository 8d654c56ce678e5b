//! A client that shows every byte: these tests are about what drivers hide (status bytes, order of messages,
//! malformed messages).

use crate::certificates;
use crate::server::TestServer;
use ankerdb_socket::Stream;
use rustls::ClientConnection;
use std::collections::HashMap;
use std::io::{Read, Result as IoResult, Write};
use std::net::SocketAddr;
use std::time::Duration;

/// Longer than any answer takes; a test that waits for more hangs.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A message from the server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Received {
    pub kind: u8,
    pub body: Vec<u8>,
}

/// An ErrorResponse.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Reported {
    pub severity: String,
    pub code: String,
    pub message: String,
    pub detail: String,
    pub context: String,
    pub schema: String,
    pub table: String,
    pub column: String,
    pub constraint: String,
    pub position: String,
}

/// A column of a RowDescription.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Column {
    pub name: String,
    /// The relation and the number of its column that the result shows, or zeros.
    pub table: u32,
    pub number: i16,
    pub oid: u32,
    pub size: i16,
    pub modifier: i32,
    pub format: i16,
}

/// All that came up to ReadyForQuery.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
    pub tags: Vec<String>,
    /// Types of the statement's parameters, if it was described.
    pub parameters: Vec<u32>,
    pub error: Option<Reported>,
    /// Types of the messages, in order.
    pub kinds: String,
    pub status: u8,
    pub copied: Vec<u8>,
}

impl Reply {
    /// Rows as text, for formats that are.
    pub(crate) fn text(&self) -> Vec<Vec<String>> {
        let cell = |cell: &Option<Vec<u8>>| match cell {
            Some(bytes) => String::from_utf8(bytes.clone()).unwrap(),
            None => "NULL".to_owned(),
        };
        self.rows.iter().map(|row| row.iter().map(cell).collect()).collect()
    }

    /// The error's code, or "" if there was none.
    pub(crate) fn code(&self) -> &str {
        self.error.as_ref().map_or("", |error| &error.code)
    }

    /// The only cell of a result of one row and one column.
    #[track_caller]
    pub(crate) fn cell(&self) -> String {
        assert_eq!(self.error, None);
        let text = self.text();
        assert_eq!((text.len(), text[0].len()), (1, 1), "{text:?}");
        text[0][0].clone()
    }

    #[track_caller]
    pub(crate) fn ok(self) -> Reply {
        assert_eq!(self.error, None);
        self
    }
}

/// A connection.
pub(crate) struct Client {
    pub stream: Stream,
    pub encryption: Option<Box<ClientConnection>>,
    pub parameters: HashMap<String, String>,
    pub process: i32,
    pub secret: i32,
}

/// A message with its type and length.
pub(crate) fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend((body.len() as u32 + 4).to_be_bytes());
    bytes.extend(body);
    bytes
}

fn zero_terminated(parts: &[&str]) -> Vec<u8> {
    parts.iter().flat_map(|part| part.bytes().chain([0])).collect()
}

pub(crate) fn parse(name: &str, sql: &str, oids: &[u32]) -> Vec<u8> {
    let mut body = zero_terminated(&[name, sql]);
    body.extend((oids.len() as u16).to_be_bytes());
    oids.iter().for_each(|oid| body.extend(oid.to_be_bytes()));
    message(b'P', &body)
}

/// Parameters in one format, results in another.
pub(crate) fn bind_as(
    portal: &str,
    statement: &str,
    format: i16,
    parameters: &[Option<&[u8]>],
    result_format: i16,
) -> Vec<u8> {
    let mut body = zero_terminated(&[portal, statement]);
    body.extend(1u16.to_be_bytes());
    body.extend(format.to_be_bytes());
    body.extend((parameters.len() as u16).to_be_bytes());
    for parameter in parameters {
        match parameter {
            None => body.extend((-1i32).to_be_bytes()),
            Some(bytes) => {
                body.extend((bytes.len() as u32).to_be_bytes());
                body.extend(*bytes);
            }
        }
    }
    body.extend(1u16.to_be_bytes());
    body.extend(result_format.to_be_bytes());
    message(b'B', &body)
}

/// Everything as text.
pub(crate) fn bind(portal: &str, statement: &str, parameters: &[Option<&str>]) -> Vec<u8> {
    let bytes: Vec<Option<&[u8]>> = parameters.iter().map(|p| p.map(str::as_bytes)).collect();
    bind_as(portal, statement, 0, &bytes, 0)
}

pub(crate) fn describe(target: u8, name: &str) -> Vec<u8> {
    message(b'D', &[&[target][..], name.as_bytes(), &[0]].concat())
}

pub(crate) fn close(target: u8, name: &str) -> Vec<u8> {
    message(b'C', &[&[target][..], name.as_bytes(), &[0]].concat())
}

pub(crate) fn execute(portal: &str, max_rows: i32) -> Vec<u8> {
    message(b'E', &[portal.as_bytes(), &[0], &max_rows.to_be_bytes()].concat())
}

pub(crate) fn sync() -> Vec<u8> {
    message(b'S', &[])
}

/// A startup packet.
pub(crate) fn startup(version: u32, parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut body = version.to_be_bytes().to_vec();
    parameters.iter().for_each(|(name, value)| body.extend(zero_terminated(&[name, value])));
    body.push(0);
    [&(body.len() as u32 + 4).to_be_bytes()[..], &body].concat()
}

pub(crate) const VERSION_3_0: u32 = 3 << 16;
/// The packet that asks for encryption.
pub(crate) const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// A connection over TCP that has said nothing yet.
pub(crate) fn raw(address: SocketAddr) -> Client {
    Client::over(Stream::Tcp(std::net::TcpStream::connect(address).unwrap()))
}

impl Client {
    /// A connection that has said nothing yet.
    pub(crate) fn over(stream: Stream) -> Client {
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        match &stream {
            Stream::Tcp(stream) => stream.set_write_timeout(Some(TIMEOUT)).unwrap(),
            Stream::Unix(stream) => stream.set_write_timeout(Some(TIMEOUT)).unwrap(),
        }
        stream.send_at_once().unwrap();
        Client { stream, encryption: None, parameters: HashMap::new(), process: 0, secret: 0 }
    }

    /// A connection over TLS that has said nothing yet, to a server with the certificate that tests share.
    pub(crate) fn encrypted(address: SocketAddr) -> Client {
        let mut client = raw(address);
        client.ask_for_encryption();
        client.encryption = Some(Box::new(certificates::shared().client(&[])));
        client.shake_hands().unwrap();
        client
    }

    /// Asks for encryption, which the server has to have.
    pub(crate) fn ask_for_encryption(&mut self) {
        self.send(&SSL_REQUEST);
        let mut answer = [0];
        self.read_exact(&mut answer).unwrap();
        assert_eq!(answer, *b"S");
    }

    /// Agrees on keys.
    pub(crate) fn shake_hands(&mut self) -> IoResult<()> {
        let encryption = self.encryption.as_mut().unwrap();
        while encryption.is_handshaking() {
            encryption.complete_io(&mut &self.stream)?;
        }
        Ok(())
    }

    /// A session. A server's clients come over TCP, through its file and encrypted in turn.
    pub(crate) fn connect(server: &TestServer) -> Client {
        Client::try_connect(server).unwrap()
    }

    /// A session, or the server's refusal.
    pub(crate) fn try_connect(server: &TestServer) -> Result<Client, Box<Reported>> {
        let mut client = server.client();
        client.send(&startup(VERSION_3_0, &[("user", "tester"), ("database", "ankerdb")]));
        client.greeted()?;
        Ok(client)
    }

    /// Reads up to the first ReadyForQuery.
    pub(crate) fn greeted(&mut self) -> Result<(), Box<Reported>> {
        loop {
            let received = self.receive();
            let body = &received.body;
            match received.kind {
                b'R' => assert_eq!(body[..], 0u32.to_be_bytes()),
                b'S' => {
                    let mut fields =
                        body.split(|&byte| byte == 0).map(|f| String::from_utf8(f.to_vec()).unwrap());
                    self.parameters.insert(fields.next().unwrap(), fields.next().unwrap());
                }
                b'K' => {
                    self.process = i32::from_be_bytes(body[..4].try_into().unwrap());
                    self.secret = i32::from_be_bytes(body[4..].try_into().unwrap());
                }
                b'v' => {}
                b'E' => return Err(Box::new(reported(body))),
                b'Z' => return Ok(()),
                other => panic!("unexpected message {}", other as char),
            }
        }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        match &mut self.encryption {
            None => (&self.stream).write_all(bytes).unwrap(),
            Some(encryption) => {
                rustls::Stream::new(&mut **encryption, &mut &self.stream).write_all(bytes).unwrap();
            }
        }
    }

    pub(crate) fn read_exact(&mut self, buffer: &mut [u8]) -> IoResult<()> {
        match &mut self.encryption {
            None => (&self.stream).read_exact(buffer),
            Some(encryption) => rustls::Stream::new(&mut **encryption, &mut &self.stream).read_exact(buffer),
        }
    }

    /// The next message. Panics if the server closes the connection.
    pub(crate) fn receive(&mut self) -> Received {
        self.try_receive().expect("the server closed the connection")
    }

    /// The next message; `None` if the server closed the connection.
    pub(crate) fn try_receive(&mut self) -> Option<Received> {
        let mut header = [0; 5];
        match self.read_exact(&mut header) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return None,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
            Err(error) => panic!("{error}"),
        }
        let length = u32::from_be_bytes(header[1..].try_into().unwrap()) as usize;
        let mut body = vec![0; length - 4];
        self.read_exact(&mut body).unwrap();
        Some(Received { kind: header[0], body })
    }

    /// Everything up to ReadyForQuery; or, if COPY data is asked for, up to there.
    #[must_use = "an error is a reply like any other"]
    pub(crate) fn reply(&mut self) -> Reply {
        let mut reply = Reply::default();
        loop {
            let Received { kind, body } = self.receive();
            reply.kinds.push(kind as char);
            match kind {
                b'T' => reply.columns = columns(&body),
                b't' => {
                    let (oids, _) = body[2..].as_chunks::<4>();
                    reply.parameters = oids.iter().map(|oid| u32::from_be_bytes(*oid)).collect();
                }
                b'D' => reply.rows.push(cells(&body)),
                b'C' => reply.tags.push(String::from_utf8(body[..body.len() - 1].to_vec()).unwrap()),
                b'E' => reply.error = Some(reported(&body)),
                b'd' => reply.copied.extend(body),
                b'G' => return reply,
                b'Z' => {
                    reply.status = body[0];
                    return reply;
                }
                _ => {}
            }
        }
    }

    /// The error with which the server ends the connection.
    pub(crate) fn last_words(&mut self) -> Reported {
        let mut last = None;
        while let Some(Received { kind, body }) = self.try_receive() {
            last = (kind == b'E').then(|| reported(&body));
        }
        last.expect("the server says why it ends the connection")
    }

    /// Simple query.
    #[must_use = "an error is a reply like any other"]
    pub(crate) fn query(&mut self, sql: &str) -> Reply {
        self.send(&message(b'Q', &zero_terminated(&[sql])));
        self.reply()
    }

    /// Simple query that must succeed.
    #[track_caller]
    pub(crate) fn run(&mut self, sql: &str) -> Reply {
        let reply = self.query(sql);
        assert_eq!(reply.error, None, "{sql}");
        reply
    }

    /// Extended protocol in one go, everything as text.
    #[must_use = "an error is a reply like any other"]
    pub(crate) fn extended(&mut self, sql: &str, parameters: &[Option<&str>]) -> Reply {
        let messages =
            [parse("", sql, &[]), bind("", "", parameters), describe(b'P', ""), execute("", 0), sync()];
        self.send(&messages.concat());
        self.reply()
    }

    /// Sends COPY data after the statement.
    #[must_use = "an error is a reply like any other"]
    pub(crate) fn copy_in(&mut self, sql: &str, data: &[u8], piece: usize) -> Reply {
        let asked = self.query(sql);
        if asked.error.is_some() {
            return asked;
        }
        assert!(asked.kinds.ends_with('G'), "{}", asked.kinds);
        for piece in data.chunks(piece) {
            self.send(&message(b'd', piece));
        }
        self.send(&message(b'c', &[]));
        self.reply()
    }
}

fn columns(body: &[u8]) -> Vec<Column> {
    let mut rest = &body[2..];
    let mut columns = Vec::new();
    while !rest.is_empty() {
        let end = rest.iter().position(|&byte| byte == 0).unwrap();
        let name = String::from_utf8(rest[..end].to_vec()).unwrap();
        let fixed = &rest[end + 1..end + 19];
        let word = |at: usize| i32::from_be_bytes(fixed[at..at + 4].try_into().unwrap());
        let half = |at: usize| i16::from_be_bytes(fixed[at..at + 2].try_into().unwrap());
        columns.push(Column {
            name,
            table: word(0) as u32,
            number: half(4),
            oid: word(6) as u32,
            size: half(10),
            modifier: word(12),
            format: half(16),
        });
        rest = &rest[end + 19..];
    }
    columns
}

fn cells(body: &[u8]) -> Vec<Option<Vec<u8>>> {
    let mut rest = &body[2..];
    let mut cells = Vec::new();
    while !rest.is_empty() {
        let length = i32::from_be_bytes(rest[..4].try_into().unwrap());
        rest = &rest[4..];
        cells.push((length >= 0).then(|| rest[..length as usize].to_vec()));
        rest = &rest[length.max(0) as usize..];
    }
    cells
}

pub(crate) fn reported(body: &[u8]) -> Reported {
    let mut error = Reported::default();
    for field in body.split(|&byte| byte == 0).filter(|field| !field.is_empty()) {
        let value = String::from_utf8(field[1..].to_vec()).unwrap();
        match field[0] {
            b'S' => error.severity = value,
            b'C' => error.code = value,
            b'M' => error.message = value,
            b'D' => error.detail = value,
            b'W' => error.context = value,
            b's' => error.schema = value,
            b't' => error.table = value,
            b'c' => error.column = value,
            b'n' => error.constraint = value,
            b'P' => error.position = value,
            _ => {}
        }
    }
    error
}
