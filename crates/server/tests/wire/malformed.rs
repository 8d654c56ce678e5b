//! Messages that clients must not send: each gets its error, and other clients are not affected.

use crate::client::{Client, bind, describe, execute, message, parse, raw, reported, startup, sync};
use crate::server::TestServer;

/// Sends bytes in a session; the server must answer with FATAL and this code, and close.
#[track_caller]
fn ends_session(server: &TestServer, bytes: &[u8], code: &str) {
    let mut client = Client::connect(server);
    client.send(bytes);
    let received = client.receive();
    assert_eq!(received.kind, b'E');
    let error = reported(&received.body);
    assert_eq!((error.severity.as_str(), error.code.as_str()), ("FATAL", code), "{error:?}");
    assert_eq!(client.try_receive(), None);
}

/// Sends the first bytes of a connection; the server must answer with FATAL and this code, and close.
#[track_caller]
fn ends_startup(server: &TestServer, bytes: &[u8], code: &str) {
    let mut client = raw(server.address);
    client.send(bytes);
    let received = client.receive();
    assert_eq!(received.kind, b'E');
    assert_eq!(reported(&received.body).code, code);
    assert_eq!(client.try_receive(), None);
}

#[test]
fn broken_streams_end_their_connection_only() {
    let server = TestServer::start();
    let mut bystander = Client::connect(&server);
    bystander.run("CREATE TABLE t (a int PRIMARY KEY)");
    bystander.run("BEGIN; INSERT INTO t VALUES (1)");
    for bytes in [
        &b"?\0\0\0\x04"[..],
        b"\0\0\0\0\0",
        b"Q\0\0\0\x03",
        b"Q\0\0\0\0",
        b"Q\xff\xff\xff\xff",
        b"Q\x7f\xff\xff\xff",
        b"S\0\x01\0\0",
        b"p\0\0\0\x05x",
    ] {
        ends_session(&server, bytes, "08P01");
    }
    assert_eq!(bystander.run("INSERT INTO t VALUES (2)").status, b'T');
    bystander.run("COMMIT");
    assert_eq!(bystander.run("SELECT count(*) FROM t").cell(), "2");
}

#[test]
fn malformed_startup_packets() {
    let server = TestServer::start();
    ends_startup(&server, b"\0\0\0\x07\0\0\0", "08P01");
    ends_startup(&server, b"\0\0\x27\x11\0\x03\0\0", "08P01");
    ends_startup(&server, b"\xff\xff\xff\xff\0\x03\0\0", "08P01");
    ends_startup(&server, b"GET / HTTP/1.1\r\n\r\n", "08P01");
    ends_startup(&server, b"\0\0\0\x08\0\x02\0\0", "0A000");
    ends_startup(&server, b"\0\0\0\x0d\0\x03\0\0user\0", "08P01");
    ends_startup(&server, &startup(3 << 16, &[("database", "ankerdb")]), "08P01");
    ends_startup(&server, &startup(3 << 16, &[("user", "a"), ("database", "other")]), "3D000");
    ends_startup(&server, &startup(3 << 16, &[("user", "somebody")]), "3D000");
    ends_startup(
        &server,
        &startup(3 << 16, &[("user", "a"), ("database", "ankerdb"), ("client_encoding", "LATIN1")]),
        "0A000",
    );
    Client::connect(&server).run("SELECT 1");
}

#[test]
fn half_messages_wait_and_end_with_their_connection() {
    let server = TestServer::start();
    let mut client = Client::connect(&server);
    let query = message(b'Q', b"SELECT 7\0");
    for &byte in &query[..query.len() - 1] {
        client.send(&[byte]);
    }
    // An announced gigabyte takes no memory and blocks no other client.
    let mut other = Client::connect(&server);
    other.send(b"Q\x3f\xff\xff\xffSELECT");
    assert_eq!(Client::connect(&server).run("SELECT 1").cell(), "1");
    drop(other);
    client.send(&query[query.len() - 1..]);
    assert_eq!(client.reply().cell(), "7");
}

#[test]
fn malformed_bodies_are_errors_of_the_statement() {
    let server = TestServer::start();
    let mut client = Client::connect(&server);
    let bodies: [(u8, &[u8], &str); 8] = [
        (b'P', b"\0select 1\0", "08P01"),
        (b'P', b"no terminator", "08P01"),
        (b'B', b"\0\0\0\x01", "08P01"),
        (b'B', b"\0\0\0\0\0\x01\0\0\0\x7fx\0\0", "08P01"),
        (b'D', b"Z\0", "08P01"),
        (b'E', b"\0\0", "08P01"),
        (b'P', b"\0select '\xc3\x28'\0\0\0", "22021"),
        (b'C', b"", "08P01"),
    ];
    for (kind, body, code) in bodies {
        client.send(&message(kind, body));
        // Skipped, as everything up to the Sync.
        client.send(&message(b'Q', b"SELECT 1\0"));
        client.send(&sync());
        let reply = client.reply();
        assert_eq!((reply.code(), reply.kinds.as_str()), (code, "EZ"), "{} {body:?}", kind as char);
    }
    for (body, code) in [(&b"SELECT 1"[..], "08P01"), (b"SELECT '\xff'\0", "22021"), (b"a\0b\0", "08P01")] {
        client.send(&message(b'Q', body));
        let reply = client.reply();
        assert_eq!((reply.code(), reply.status), (code, b'I'));
    }
    assert_eq!(client.run("SELECT 1").cell(), "1");
}

#[test]
fn names_and_counts_that_do_not_exist() {
    let server = TestServer::start();
    let mut client = Client::connect(&server);
    let mut refused = |messages: &[Vec<u8>], code: &str| {
        client.send(&[messages.concat(), sync()].concat());
        assert_eq!(client.reply().code(), code);
    };
    refused(&[bind("", "nothing", &[])], "26000");
    refused(&[bind("", "", &[])], "26000");
    refused(&[describe(b'S', "nothing")], "26000");
    refused(&[describe(b'P', "nothing")], "34000");
    refused(&[execute("nothing", 0)], "34000");
    refused(&[parse("", "SELECT $1::int", &[]), bind("", "", &[])], "08P01");
    refused(&[parse("", "SELECT 1", &[]), bind("", "", &[Some("1")])], "08P01");
    refused(&[parse("", "SELECT 1; SELECT 2", &[])], "42601");
    refused(&[parse("", "SELECT $1", &[600])], "0A000");
    refused(&[parse("twice", "SELECT 1", &[]), parse("twice", "SELECT 1", &[])], "42P05");
    refused(&[parse("", "SELECT 1", &[]), bind("p", "", &[]), bind("p", "", &[])], "42P03");
    // One column, three formats; an unknown format.
    let formats = b"\0\0\0\0\0\0\0\x03\0\0\0\x01\0\0";
    refused(&[parse("", "SELECT 1", &[]), message(b'B', formats)], "08P01");
    refused(&[parse("", "SELECT 1", &[]), message(b'B', b"\0\0\0\0\0\0\0\x01\0\x07")], "22023");
}

#[test]
fn a_startup_in_pieces_behind_declined_encryption() {
    let server = TestServer::without_tls();
    let mut client = raw(server.address);
    for code in [80_877_103u32, 80_877_104] {
        client.send(&[8u32.to_be_bytes(), code.to_be_bytes()].concat());
        let mut answer = [0];
        std::io::Read::read_exact(&mut &client.stream, &mut answer).unwrap();
        assert_eq!(answer, *b"N");
    }
    for &byte in &startup(3 << 16, &[("user", "a"), ("database", "ankerdb")]) {
        client.send(&[byte]);
    }
    client.greeted().unwrap();
    assert_eq!(client.run("SELECT 1").cell(), "1");
}

/// Numbers that look random and are the same in every run (xorshift).
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// A message of a known type: valid, cut, with bytes changed, or nothing but noise.
    fn message(&mut self) -> Vec<u8> {
        let valid = [
            parse("", "SELECT a FROM t WHERE a = $1", &[23]),
            parse("s", "INSERT INTO t VALUES ($1)", &[]),
            bind("", "", &[Some("1")]),
            bind("p", "s", &[Some("7")]),
            describe(b'S', "s"),
            execute("", 1),
            execute("p", 0),
            message(b'Q', b"BEGIN; SELECT 1\0"),
            message(b'Q', b"COPY t FROM STDIN\0"),
            message(b'd', b"8\n9\n"),
            message(b'c', b""),
            message(b'f', b"no\0"),
            message(b'H', b""),
            sync(),
        ];
        let mut body = valid[self.below(valid.len())].clone();
        let kind = body[0];
        body.drain(..5);
        match self.below(4) {
            0 => body.truncate(self.below(body.len() + 1)),
            1 if !body.is_empty() => {
                let at = self.below(body.len());
                body[at] = self.next() as u8;
            }
            2 => body.extend((0..self.below(40)).map(|_| self.0 as u8)),
            _ => {}
        }
        message(kind, &body)
    }
}

#[test]
fn noise_harms_nobody() {
    let server = TestServer::start();
    let mut bystander = Client::connect(&server);
    bystander.run("CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1)");
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    for _ in 0..200 {
        let mut client = Client::connect(&server);
        for _ in 0..20 {
            client.send(&noise.message());
        }
        client.send(&message(b'X', b""));
        // The error is never that of a bug in the server.
        while let Some(received) = client.try_receive() {
            if received.kind == b'E' {
                let error = reported(&received.body);
                assert_ne!(error.code, "XX000", "{error:?}");
            }
        }
    }
    assert_eq!(bystander.run("SELECT count(*) FROM t WHERE a = 1").cell(), "1");
}

/// `prefix`, then `count` times `part`, then `middle`, then `count` times `suffix`.
fn nested(prefix: &str, part: &str, middle: &str, suffix: &str, count: usize) -> String {
    [prefix, &part.repeat(count), middle, &suffix.repeat(count)].concat()
}

#[test]
fn deep_and_long_statements_do_not_use_up_the_stack() {
    let server = TestServer::start();
    let mut client = Client::connect(&server);
    client.run("CREATE TABLE t (a int PRIMARY KEY, b text); INSERT INTO t VALUES (1, 'x')");
    for count in [50, 500, 20_000] {
        for sql in [
            nested("SELECT ", "(", "1", ")", count),
            nested("SELECT ", "- ", "1", "", count),
            nested("SELECT ", "NOT ", "true", "", count),
            nested("SELECT 1", "::int", "", "", count),
            nested("SELECT 1", " + 1", "", "", count),
            nested("SELECT 'a'", " || 'a'", "", "", count),
            nested("SELECT a FROM t WHERE a = 1", " OR a = 2", "", "", count),
            nested("SELECT count(*) FROM t WHERE b = 'x'", " AND a < 7", "", "", count),
            nested("SELECT ", "CASE WHEN true THEN ", "1", " END", count),
            nested("", "SELECT * FROM (", "SELECT 1", ") x", count),
            nested("SELECT 1", " UNION ALL SELECT 1", "", "", count),
            format!("SELECT a FROM t WHERE a IN (1{})", ", 2".repeat(count)),
            nested("SELECT 1 FROM t", ", t", "", "", count),
            nested("INSERT INTO t VALUES (1, 'x')", ", (1, 'x')", "", "", count),
            nested("CREATE TABLE x (a int", ", a int", "", ")", count),
            nested("", "BEGIN; ", "SELECT 1", "; COMMIT", count.min(500)),
        ] {
            // Whatever the answer is, there is one, and the session goes on.
            let reply = client.query(&sql);
            assert!(reply.error.is_some() || !reply.tags.is_empty(), "{}: {}", &sql[..40], reply.kinds);
            client.run("ROLLBACK");
        }
    }
    assert_eq!(client.run("SELECT b FROM t WHERE a = 1").cell(), "x");
}
