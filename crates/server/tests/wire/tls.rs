//! Encrypted connections, and what may go wrong with them, byte by byte.

use crate::cancel::{LONG_QUERY, UNDER_WAY, begin, prepare};
use crate::certificates::{self, Authority};
use crate::client::{Client, Reported, SSL_REQUEST, VERSION_3_0, message, raw, startup};
use crate::server::TestServer;
use ankerdb_server::{CertificateChain, Credentials, PrivateKey};
use ankerdb_socket::Stream;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Much less than clients are given to start a session.
const SOON: Duration = Duration::from_secs(10);

fn ask_for_session(client: &mut Client) {
    client.send(&startup(VERSION_3_0, &[("user", "tester"), ("database", "ankerdb")]));
}

/// A session over TLS.
fn session(server: &TestServer) -> Client {
    let mut client = Client::encrypted(server.address);
    ask_for_session(&mut client);
    client.greeted().unwrap();
    client
}

fn query(sql: &str) -> Vec<u8> {
    message(b'Q', &[sql.as_bytes(), &[0]].concat())
}

/// What the server says in clear to these bytes, with which a connection begins.
fn told(server: &TestServer, bytes: &[u8]) -> Reported {
    let mut client = raw(server.address);
    client.send(bytes);
    client.last_words()
}

#[test]
fn sessions_are_encrypted_and_say_so() {
    let server = TestServer::start();
    let mut client = session(&server);
    let sql = "SELECT ssl, version, cipher, bits, client_dn FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    let shown = client.run(sql).text();
    assert_eq!(shown, [["t", "TLSv1.3", "TLS_AES_256_GCM_SHA384", "256", "NULL"]]);
    let mut plain = raw(server.address);
    ask_for_session(&mut plain);
    plain.greeted().unwrap();
    assert_eq!(plain.run(sql).text(), [["f", "NULL", "NULL", "NULL", "NULL"]]);
}

#[test]
fn bytes_behind_the_request_for_encryption_are_not_taken_for_encrypted_ones() {
    let server = TestServer::start();
    let session = startup(VERSION_3_0, &[("user", "thief"), ("database", "ankerdb")]);
    for behind in [&session[..], b"x", &SSL_REQUEST] {
        let error = told(&server, &[&SSL_REQUEST, behind].concat());
        assert_eq!((error.severity.as_str(), error.code.as_str()), ("FATAL", "08P01"));
        assert_eq!(error.message, "received unencrypted data after SSL request");
        assert!(error.detail.contains("man-in-the-middle"));
    }
    // Later ones are part of the handshake, and none of that.
    let mut client = raw(server.address);
    client.ask_for_encryption();
    client.send(&session);
    assert!(!read_to_end(&mut client).contains(&b'R'), "no session begins");
}

/// What comes in clear until the server ends the connection.
fn read_to_end(client: &mut Client) -> Vec<u8> {
    let mut all = Vec::new();
    // It may be reset for what the server has not read.
    if let Err(error) = (&client.stream).read_to_end(&mut all) {
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
    all
}

#[test]
fn garbage_in_the_handshake_ends_that_connection_alone() {
    let server = TestServer::start();
    let mut other = session(&server);
    for garbage in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0; 100],
        &[0x16, 3, 1, 255, 255, 1],
        &[0x16, 3, 1, 0, 4, 9, 0, 0, 0],
    ] {
        let mut client = raw(server.address);
        client.ask_for_encryption();
        client.send(garbage);
        let begun = Instant::now();
        let alert = read_to_end(&mut client);
        assert!(begun.elapsed() < SOON);
        assert!(alert.first().is_none_or(|kind| *kind == 0x15), "TLS says what is wrong: {alert:?}");
    }
    assert_eq!(other.run("SELECT 1").cell(), "1");
}

#[test]
fn garbage_in_a_session_ends_that_session_alone() {
    let server = TestServer::start();
    let mut other = session(&server);
    prepare(&mut other);
    let mut client = session(&server);
    client.run("BEGIN; UPDATE t SET b = 7 WHERE a = 1");
    (&client.stream).write_all(&query("COMMIT")).unwrap();
    let begun = Instant::now();
    assert!(client.read_exact(&mut [0]).is_err());
    assert!(begun.elapsed() < SOON);
    other.run("UPDATE t SET b = b + 1 WHERE a = 1");
    assert_eq!(other.run("SELECT b FROM t WHERE a = 1").cell(), "1");
}

#[test]
fn a_client_that_stops_within_the_handshake_holds_nothing_up() {
    let mut server = TestServer::start();
    let mut client = raw(server.address);
    client.ask_for_encryption();
    let mut half = Vec::new();
    certificates::shared().client(&[]).write_tls(&mut half).unwrap();
    client.send(&half[..half.len() / 2]);
    assert_eq!(session(&server).run("SELECT 1").cell(), "1");
    let begun = Instant::now();
    server.ask_to_end();
    assert_eq!(read_to_end(&mut client), b"");
    drop(server);
    assert!(begun.elapsed() < SOON);
}

#[test]
fn messages_that_were_decrypted_and_not_taken_are_answered() {
    let server = TestServer::start();
    let mut client = session(&server);
    let (first, second) = (query("SELECT 'first'"), query("SELECT 'second'"));
    for state in ["", "LISTEN news", "BEGIN", "SET idle_in_transaction_session_timeout = '20s'"] {
        if !state.is_empty() {
            client.run(state);
        }
        for cut in [0, 1, 4, 5, 7, first.len()] {
            client.send(&first[..cut]);
            std::thread::sleep(Duration::from_millis(20));
            // One record: its end is not what the server asks for at first.
            client.send(&[&first[cut..], &second, &second].concat());
            for expected in ["first", "second", "second"] {
                assert_eq!(client.reply().ok().cell(), expected, "{state}, {cut}");
            }
        }
    }
}

#[test]
fn copies_in_both_directions_may_be_split_anywhere() {
    let server = TestServer::start();
    let mut client = session(&server);
    client.run("CREATE TABLE lines (a int PRIMARY KEY, b text)");
    let lines: String = (0..3000).map(|number| format!("{number}\tline {number}\n")).collect();
    assert!(client.query("COPY lines FROM STDIN").kinds.ends_with('G'));
    let messages: Vec<u8> = lines.as_bytes().chunks(997).flat_map(|piece| message(b'd', piece)).collect();
    let mut rest = &[&messages[..], &message(b'c', &[])].concat()[..];
    for size in (1..).step_by(37) {
        let (piece, others) = rest.split_at(size.min(rest.len()));
        client.send(piece);
        rest = others;
        if rest.is_empty() {
            break;
        }
    }
    assert_eq!(client.reply().ok().tags, ["COPY 3000"]);
    let reply = client.run("COPY (SELECT * FROM lines ORDER BY a) TO STDOUT");
    assert_eq!(String::from_utf8(reply.copied).unwrap(), lines);
    // Far more than fits the sockets and what waits to be written, and slowly read.
    client.send(&query("COPY (SELECT l.a, l.b FROM lines l, generate_series(1, 100) g) TO STDOUT"));
    std::thread::sleep(UNDER_WAY);
    let reply = client.reply().ok();
    assert_eq!((reply.tags, reply.copied.len()), (vec!["COPY 300000".to_owned()], 100 * lines.len()));
    assert_eq!(client.run("SELECT 1").cell(), "1");
}

#[test]
fn statements_are_canceled_while_results_are_sent_to_a_slow_reader() {
    let server = TestServer::start();
    let mut client = session(&server);
    prepare(&mut client);
    begin(&mut client, "SELECT a.n, b.n FROM many a, many b");
    std::thread::sleep(UNDER_WAY);
    // A cancel request comes encrypted, or as older clients of PostgreSQL send it.
    let mut canceling = Client::encrypted(server.address);
    let words = [16, 80_877_102, client.process, client.secret];
    canceling.send(&words.iter().flat_map(|word: &i32| word.to_be_bytes()).collect::<Vec<u8>>());
    assert_eq!(canceling.try_receive(), None);
    assert_eq!(client.reply().code(), "57014");
    client.run("SET statement_timeout = '50ms'");
    assert_eq!(client.query(LONG_QUERY).code(), "57014");
}

#[test]
fn a_client_that_vanishes_within_a_statement_is_noticed() {
    let server = TestServer::start();
    let mut other = session(&server);
    prepare(&mut other);
    for politely in [true, false] {
        let mut client = session(&server);
        client.run("BEGIN; UPDATE t SET b = 2 WHERE a = 2");
        begin(&mut client, LONG_QUERY);
        std::thread::sleep(UNDER_WAY);
        if politely {
            let encryption = client.encryption.as_mut().unwrap();
            encryption.send_close_notify();
            encryption.write_tls(&mut &client.stream).unwrap();
        }
        drop(client);
        other.run("UPDATE t SET b = b + 1 WHERE a = 2");
    }
    assert_eq!(other.run("SELECT b FROM t WHERE a = 2").cell(), "2");
}

#[test]
fn a_stream_that_is_cut_off_within_a_message_does_nothing() {
    let server = TestServer::start();
    let mut client = session(&server);
    prepare(&mut client);
    client.send(&query("UPDATE t SET b = 7 WHERE a = 1")[..20]);
    client.stream.shutdown(Shutdown::Write).unwrap();
    assert!(client.read_exact(&mut [0]).is_err());
    assert_eq!(session(&server).run("SELECT b FROM t WHERE a = 1").cell(), "0");
}

#[test]
fn the_server_says_where_its_stream_ends() {
    let mut server = TestServer::start();
    let ends = |client: &mut Client| {
        let mut socket = &client.stream;
        let mut stream = rustls::Stream::new(&mut **client.encryption.as_mut().unwrap(), &mut socket);
        // Without the end of TLS this is an error: the stream may have been cut off.
        stream.read_to_end(&mut Vec::new())
    };
    let mut leaving = session(&server);
    leaving.send(&message(b'X', &[]));
    ends(&mut leaving).unwrap();
    let mut client = session(&server);
    server.ask_to_end();
    let received = client.receive();
    assert_eq!(crate::client::reported(&received.body).code, "57P01");
    ends(&mut client).unwrap();
}

#[test]
fn where_tls_is_required_others_are_refused() {
    let server = TestServer::requiring_tls(certificates::shared());
    let error = told(&server, &startup(VERSION_3_0, &[("user", "tester"), ("database", "ankerdb")]));
    assert_eq!((error.severity.as_str(), error.code.as_str()), ("FATAL", "28000"));
    assert_eq!(
        error.message,
        "pg_hba.conf rejects connection for host \"127.0.0.1\", user \"tester\", database \"ankerdb\", no encryption"
    );
    assert_eq!(told(&server, &startup(VERSION_3_0, &[("database", "ankerdb")])).code, "08P01");
    let mut client = session(&server);
    prepare(&mut client);
    // Older clients of PostgreSQL cancel in clear what they run encrypted.
    begin(&mut client, LONG_QUERY);
    std::thread::sleep(UNDER_WAY);
    crate::cancel::cancel(&server, client.process, client.secret);
    assert_eq!(client.reply().code(), "57014");
    let mut local = Client::over(Stream::Unix(UnixStream::connect(server.socket()).unwrap()));
    local.send(&SSL_REQUEST);
    let mut answer = [0];
    local.read_exact(&mut answer).unwrap();
    assert_eq!(answer, *b"N", "there is none within the machine");
    ask_for_session(&mut local);
    local.greeted().unwrap();
    assert_eq!(local.run("SELECT 1").cell(), "1");
}

#[test]
fn requests_for_encryption_within_encryption_are_refused() {
    let server = TestServer::start();
    for code in [80_877_103u32, 80_877_104] {
        let mut client = Client::encrypted(server.address);
        client.send(&[8u32.to_be_bytes(), code.to_be_bytes()].concat());
        assert_eq!(client.last_words().code, "0A000");
    }
    // Clients that know GSSAPI ask for that first.
    let mut client = raw(server.address);
    client.send(&[8u32.to_be_bytes(), 80_877_104u32.to_be_bytes()].concat());
    let mut answer = [0];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer, *b"N");
    client.ask_for_encryption();
}

#[test]
fn clients_that_begin_with_tls_have_to_name_the_protocol() {
    let server = TestServer::start();
    let direct = |protocols: &[&[u8]]| {
        let mut client = raw(server.address);
        client.encryption = Some(Box::new(certificates::shared().client(protocols)));
        client.shake_hands().map(|()| client)
    };
    let mut client = direct(&[b"postgresql"]).unwrap();
    ask_for_session(&mut client);
    client.greeted().unwrap();
    assert_eq!(client.run("SELECT 1").cell(), "1");
    let error = direct(&[]).unwrap().last_words();
    assert_eq!(error.code, "08P01");
    assert!(error.message.contains("without ALPN"), "{}", error.message);
    assert!(direct(&[b"http/1.1"]).is_err());
    let plain = TestServer::without_tls();
    let mut client = raw(plain.address);
    client.encryption = Some(Box::new(certificates::shared().client(&[b"postgresql"])));
    assert!(client.shake_hands().is_err());
}

#[test]
fn certificates_are_replaced_for_connections_from_then_on() {
    let (first, second) = (Authority::signing_for("localhost"), Authority::signing_for("localhost"));
    let tls = first.tls(false);
    let server = TestServer::encrypting(tls.clone());
    let connect = |authority: &Authority| {
        let mut client = raw(server.address);
        client.ask_for_encryption();
        client.encryption = Some(Box::new(authority.client(&[])));
        client.shake_hands()?;
        ask_for_session(&mut client);
        client.greeted().unwrap();
        std::io::Result::Ok(client)
    };
    let mut client = connect(&first).unwrap();
    assert!(connect(&second).is_err(), "it is signed by another authority");
    tls.replace(second.credentials());
    assert!(connect(&first).is_err());
    let mut another = connect(&second).unwrap();
    assert_eq!(client.run("SELECT 1").cell(), "1");
    assert_eq!(another.run("SELECT 1").cell(), "1");
}

#[test]
fn certificates_and_keys_that_will_not_do_are_refused() {
    let authority = certificates::shared();
    let chain =
        |pem: &str| CertificateChain::from_pem(pem.as_bytes()).map_err(|error| error.message().to_owned());
    let key = |pem: &str| PrivateKey::from_pem(pem.as_bytes()).map_err(|error| error.message().to_owned());
    let cut = &authority.certificate[..authority.certificate.len() / 2];
    assert_eq!(chain("").err().unwrap(), "there is no certificate in it");
    assert_eq!(chain(&authority.key).err().unwrap(), "there is no certificate in it");
    assert!(chain(cut).is_err());
    let empty = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
    assert_eq!(chain(empty).err().unwrap(), "its first certificate is malformed");
    assert_eq!(key(&authority.certificate).err().unwrap(), "there is no private key in it");
    let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMAA=\n-----END ENCRYPTED PRIVATE KEY-----\n";
    assert!(key(encrypted).err().unwrap().contains("encrypted"));
    let small = "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n";
    assert!(key(small).err().unwrap().contains("not supported"));
    let other = Authority::signing_for("localhost");
    let told = Credentials::new(chain(&authority.certificate).unwrap(), key(&other.key).unwrap());
    assert_eq!(told.err().unwrap().message(), "the private key does not belong to the first certificate");
    // The authority's certificate first, as some tools write it.
    let reversed = format!("{}{}", authority.root, authority.certificate);
    assert!(Credentials::new(chain(&reversed).unwrap(), key(&authority.key).unwrap()).is_err());
    assert_eq!(authority.credentials().warning(), None);
}
