//! What a client learns when it connects, and how it is sent away.

use crate::client::{Client, VERSION_3_0, raw, startup};
use crate::server::TestServer;

#[test]
fn clients_are_told_about_the_server() {
    let server = TestServer::start();
    let client = Client::connect(&server);
    for (name, value) in [
        ("server_encoding", "UTF8"),
        ("client_encoding", "UTF8"),
        ("integer_datetimes", "on"),
        ("standard_conforming_strings", "on"),
        ("TimeZone", "UTC"),
        ("in_hot_standby", "off"),
    ] {
        assert_eq!(client.parameters.get(name).map(String::as_str), Some(value), "{name}");
    }
    let version = &client.parameters["server_version"];
    assert!(version.split(' ').next().unwrap().parse::<f32>().unwrap() >= 15.0, "{version}");
    assert_ne!((client.process, client.secret), (0, 0));
}

#[test]
fn newer_protocols_are_negotiated_down() {
    let server = TestServer::start();
    let mut client = raw(server.address);
    let parameters = [("user", "a"), ("database", "ankerdb"), ("_pq_.unknown", "1")];
    client.send(&startup(VERSION_3_0 + 2, &parameters));
    let first = client.receive();
    assert_eq!(first.kind, b'v');
    assert_eq!(first.body[..8], [VERSION_3_0.to_be_bytes(), 1u32.to_be_bytes()].concat());
    assert_eq!(&first.body[8..], b"_pq_.unknown\0");
    client.greeted().unwrap();
    assert_eq!(client.run("SELECT 1").cell(), "1");
}

#[test]
fn settings_come_with_the_startup_packet() {
    let server = TestServer::start();
    let connect_in = |zone: &str, options: &str| {
        let mut client = raw(server.address);
        let parameters = [("user", "a"), ("database", "ankerdb"), ("TimeZone", zone), ("options", options)];
        client.send(&startup(VERSION_3_0, &parameters));
        client.greeted().map(|()| client)
    };
    let connect = |options: &str| connect_in("asia/tokyo", options);
    let mut client = connect("-c default_transaction_isolation=repeatable\\ read").ok().unwrap();
    assert_eq!(client.run("SHOW default_transaction_isolation").cell(), "repeatable read");
    assert_eq!(client.parameters["TimeZone"], "Asia/Tokyo");
    assert_eq!(client.run("SELECT to_timestamp(0)").cell(), "1970-01-01 09:00:00+09");
    let error = connect_in("Mars/North", "").err().unwrap();
    assert_eq!((error.severity.as_str(), error.code.as_str()), ("FATAL", "22023"));
    let error = connect("-c no_such_setting=1").err().unwrap();
    assert_eq!((error.severity.as_str(), error.code.as_str()), ("FATAL", "42704"));
}

#[test]
fn sessions_are_limited() {
    let server = TestServer::with_connections(2);
    let first = Client::connect(&server);
    let mut second = Client::connect(&server);
    let error = Client::try_connect(&server).err().unwrap();
    assert_eq!((error.severity.as_str(), error.code.as_str()), ("FATAL", "53300"));
    drop(first);
    // The place is free once the server has noticed.
    let free = (0..200).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        Client::try_connect(&server).is_ok()
    });
    assert!(free);
    assert_eq!(second.run("SELECT 1").cell(), "1");
}

#[test]
fn shutdown_tells_everyone() {
    let mut server = TestServer::start();
    let mut idle = Client::connect(&server);
    let mut open = Client::connect(&server);
    open.run("BEGIN");
    server.ask_to_end();
    for client in [&mut idle, &mut open] {
        let received = client.receive();
        assert_eq!(received.kind, b'E');
        assert_eq!(crate::client::reported(&received.body).code, "57P01");
        assert_eq!(client.try_receive(), None);
    }
}
