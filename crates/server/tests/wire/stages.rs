//! Clients that come before queries are let in, and when the server ends.

use crate::client::{Client, VERSION_3_0, raw, reported, startup};
use ankerdb_engine::Database;
use ankerdb_server::{Server, ServerOptions};
use ankerdb_sql::{SqlEngine, SqlOptions};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const PARAMETERS: &[(&str, &str)] = &[("user", "a"), ("database", "ankerdb")];
/// As many as wait to be turned away at the same time.
const PLACES: usize = 64;
const SSL_REQUEST: u32 = 80_877_103;
const CANCEL_REQUEST: u32 = 80_877_102;

fn bound() -> Server {
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    Server::bind(&ServerOptions {
        listen,
        socket_folder: None,
        max_connections: 3,
        password: None,
        tls: None,
    })
    .unwrap()
}

fn engine() -> SqlEngine {
    let options = SqlOptions { olap_threads: 1, memory_limit_bytes: 256 << 20 };
    SqlEngine::new(Database::new(), options).unwrap()
}

/// What a client is told that asks for a session, and nothing behind it.
fn refused(address: SocketAddr, parameters: &[(&str, &str)]) -> (String, String, String) {
    let mut client = raw(address);
    client.send(&startup(VERSION_3_0, parameters));
    last_words(client)
}

fn last_words(mut client: Client) -> (String, String, String) {
    let received = client.receive();
    assert_eq!(received.kind, b'E');
    assert_eq!(client.try_receive(), None);
    let told = reported(&received.body);
    (told.severity, told.code, told.message)
}

fn cannot_connect(message: &str) -> (String, String, String) {
    ("FATAL".to_owned(), "57P03".to_owned(), message.to_owned())
}

/// A packet without a type byte.
fn packet(words: &[u32]) -> Vec<u8> {
    let length = 4 + 4 * words.len() as u32;
    std::iter::once(&length).chain(words).flat_map(|word| word.to_be_bytes()).collect()
}

/// A client that asks for encryption and hears that there is none: it comes again until the server has noticed that others are gone
/// and has a place for it.
fn let_in(address: SocketAddr) -> Client {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let client = raw(address);
        let mut answer = [0];
        let asked = (&client.stream).write_all(&packet(&[SSL_REQUEST]));
        match asked.and_then(|()| (&client.stream).read_exact(&mut answer)) {
            Ok(()) if &answer == b"N" => return client,
            _ => assert!(Instant::now() < until, "the places are not given back"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn clients_are_told_that_the_server_starts_until_it_has() {
    let server = bound();
    let address = server.local_address();
    let starting = cannot_connect("the database system is starting up");
    assert_eq!(refused(address, PARAMETERS), starting);
    // What is wrong with the session that is asked for comes first, as far as that can be known.
    assert_eq!(refused(address, &[("user", "a"), ("database", "no_such_database")]), starting);
    assert_eq!(refused(address, &[("database", "ankerdb")]).1, "08P01");
    // When silent clients have taken all places, the next one is told without having said anything.
    let silent: Vec<Client> = (0..PLACES).map(|_| raw(address)).collect();
    assert_eq!(last_words(raw(address)), starting);
    drop(silent);
    let mut encrypted = let_in(address);
    encrypted.send(&startup(VERSION_3_0, PARAMETERS));
    assert_eq!(reported(&encrypted.receive().body).code, "57P03");
    let mut canceling = raw(address);
    canceling.send(&packet(&[CANCEL_REQUEST, 1, 2]));
    assert_eq!(canceling.try_receive(), None);
    server.admit(engine()).unwrap();
    let mut client = raw(address);
    client.send(&startup(VERSION_3_0, PARAMETERS));
    client.greeted().unwrap();
    assert_eq!(client.run("SELECT 1").cell(), "1");
}

#[test]
fn clients_are_told_that_the_server_ends_until_it_has() {
    let server = bound();
    server.admit(engine()).unwrap();
    let address = server.local_address();
    let mut client = raw(address);
    client.send(&startup(VERSION_3_0, PARAMETERS));
    client.greeted().unwrap();
    assert!(server.stopper().stop());
    server.run();
    assert_eq!(reported(&client.receive().body).code, "57P01");
    let ending = cannot_connect("the database system is shutting down");
    assert_eq!(refused(address, PARAMETERS), ending);
    // Asked again, and too late to let anybody in.
    assert!(server.stopper().stop());
    server.admit(engine()).unwrap();
    assert_eq!(refused(address, PARAMETERS), ending);
    drop(server);
    let gone = (0..200).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(5));
        std::net::TcpStream::connect(address).is_err()
    });
    assert!(gone, "the port is still bound");
}

#[test]
fn one_that_is_stopped_before_it_has_started_lets_nobody_in() {
    let server = bound();
    assert!(!server.stopper().stop());
    server.admit(engine()).unwrap();
    server.run();
    let told = refused(server.local_address(), PARAMETERS);
    assert_eq!(told, cannot_connect("the database system is shutting down"));
}
