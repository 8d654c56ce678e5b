//! Servers that ask for a password.

use crate::client::{Client, Reported, VERSION_3_0, message, raw, reported, startup};
use crate::server::TestServer;
use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};
use postgres_protocol::password::scram_sha_256;
use std::io::Write;
use std::process::Command;

const SECRET: &str = "s3cret \u{e9}";
const MECHANISM: &str = "SCRAM-SHA-256";

/// A message with which a client begins the exchange.
fn initial(mechanism: &str, first: &[u8]) -> Vec<u8> {
    let length = (first.len() as u32).to_be_bytes();
    message(b'p', &[mechanism.as_bytes(), &[0], &length[..], first].concat())
}

/// A client that has asked for a session, and is asked for the password.
fn asked(server: &TestServer) -> Client {
    let mut client = Client::over(server.stream());
    client.send(&startup(VERSION_3_0, &[("user", "tester"), ("database", "ankerdb")]));
    let asked = client.receive();
    let mechanisms = [&10u32.to_be_bytes()[..], MECHANISM.as_bytes(), &[0, 0]].concat();
    assert_eq!((asked.kind, asked.body), (b'R', mechanisms));
    client
}

/// A session of a client that knows a password, or the server's refusal.
fn connect(server: &TestServer, password: &str) -> Result<Client, Box<Reported>> {
    let mut client = asked(server);
    let mut exchange = ScramSha256::new(password.as_bytes(), ChannelBinding::unsupported());
    client.send(&initial(MECHANISM, exchange.message()));
    let challenge = client.receive();
    assert_eq!((challenge.kind, &challenge.body[..4]), (b'R', &11u32.to_be_bytes()[..]));
    exchange.update(&challenge.body[4..]).unwrap();
    client.send(&message(b'p', exchange.message()));
    let told = client.receive();
    if told.kind == b'E' {
        assert_eq!(client.try_receive(), None);
        return Err(Box::new(reported(&told.body)));
    }
    assert_eq!((told.kind, &told.body[..4]), (b'R', &12u32.to_be_bytes()[..]));
    exchange.finish(&told.body[4..]).unwrap();
    client.greeted()?;
    Ok(client)
}

#[test]
fn clients_that_know_the_password_get_a_session_and_others_do_not() {
    for server in
        [TestServer::asking_for(SECRET, 500), TestServer::asking_for(&scram_sha_256(SECRET.as_bytes()), 500)]
    {
        // Over TCP and through the socket's file.
        for _ in 0..2 {
            assert_eq!(connect(&server, SECRET).unwrap().run("SELECT 41 + 1").cell(), "42");
        }
        for wrong in ["s3cret", "S3CRET \u{e9}", ""] {
            let Err(told) = connect(&server, wrong) else { panic!("{wrong} is not the password") };
            assert_eq!((told.severity.as_str(), told.code.as_str()), ("FATAL", "28P01"));
            assert_eq!(told.message, "password authentication failed for user \"tester\"");
        }
    }
}

#[test]
fn without_the_password_nothing_can_be_done() {
    let server = TestServer::asking_for(SECRET, 500);
    let refused = |bytes: &[u8]| {
        let mut client = asked(&server);
        client.send(bytes);
        let told = client.last_words();
        (told.severity, told.code)
    };
    let violation = ("FATAL".to_owned(), "08P01".to_owned());
    for bytes in [
        message(b'Q', b"SELECT 1\0"),
        message(b'p', b"s3cret\0"),
        message(b'p', b""),
        message(b'p', &[b'x'; 2000]),
        initial("SCRAM-SHA-256-PLUS", b"n,,n=,r=abc"),
        initial(MECHANISM, b"n,,n=,r="),
        initial(MECHANISM, b"p=tls-unique,,n=,r=abc"),
        initial(MECHANISM, b"n,,n=,r=\xff"),
        [&b"p"[..], &3u32.to_be_bytes()].concat(),
        [&b"p"[..], &u32::MAX.to_be_bytes()].concat(),
    ] {
        assert_eq!(refused(&bytes), violation, "{bytes:?}");
    }
    let mut client = asked(&server);
    client.send(&initial(MECHANISM, b"n,,n=,r=abc"));
    assert_eq!(client.receive().kind, b'R');
    client.send(&message(b'Q', b"SELECT 1\0"));
    assert_eq!(client.last_words().code, "08P01");
    let mut nameless = raw(server.address);
    nameless.send(&startup(VERSION_3_0, &[("database", "ankerdb")]));
    assert_eq!(nameless.last_words().code, "08P01");
}

#[test]
fn clients_that_are_asked_take_no_place_of_a_session() {
    let server = TestServer::asking_for(SECRET, 1);
    let waiting: Vec<Client> = (0..5).map(|_| asked(&server)).collect();
    let mut client = connect(&server, SECRET).unwrap();
    assert_eq!(client.run("SELECT 1").cell(), "1");
    let Err(told) = connect(&server, SECRET) else { panic!("there is one place") };
    assert_eq!(told.code, "53300");
    drop(waiting);
    assert_eq!(client.run("SELECT 2").cell(), "2");
}

#[test]
fn psql_asks_for_it() {
    let server = TestServer::asking_for(SECRET, 500);
    let psql = |password: &str| {
        let mut psql = Command::new("psql");
        psql.args([
            "-X",
            "-w",
            "-At",
            "-h",
            "127.0.0.1",
            "-U",
            "anyone",
            "-d",
            "ankerdb",
            "-c",
            "SELECT 41 + 1",
            "-p",
        ]);
        psql.arg(server.address.port().to_string()).env("PGPASSWORD", password).output()
    };
    let output = match psql(SECRET) {
        Ok(output) => output,
        Err(error) => {
            // Past the capture of output.
            let _ = writeln!(std::io::stderr(), "SKIPPED: psql cannot be run here ({error})");
            return;
        }
    };
    assert_eq!(output.stdout, b"42\n", "{:?}", String::from_utf8(output.stderr));
    let output = psql("wrong").unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(told.contains("password authentication failed for user \"anyone\""), "{told}");
    // psql has none to send.
    assert_eq!(psql("").unwrap().status.code(), Some(2));
}
