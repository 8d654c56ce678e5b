//! Labels as parameters and results, in text and binary, and what drivers look up about their types.

use crate::client::{Client, Reply, bind_as, describe, execute, parse, sync};
use crate::server::TestServer;

fn send(client: &mut Client, messages: &[Vec<u8>]) -> Reply {
    client.send(&[messages.concat(), sync()].concat());
    client.reply()
}

/// A server with a type, and the numbers of it and of its arrays as drivers ask for them.
fn start() -> (TestServer, Client, u32, u32) {
    let server = TestServer::start();
    let mut client = Client::connect(&server);
    client.run("CREATE TYPE mood AS ENUM ('sad', 'happy')");
    client.run("CREATE TABLE t (a int PRIMARY KEY, m mood)");
    client.run("INSERT INTO t VALUES (1, 'sad'), (2, 'happy'), (3, NULL)");
    let reply = client.run("SELECT oid, typarray FROM pg_type WHERE typname = 'mood'");
    let oids: Vec<u32> = reply.text()[0].iter().map(|oid| oid.parse().unwrap()).collect();
    (server, client, oids[0], oids[1])
}

#[test]
fn parameters_and_results_are_of_the_type_in_text_and_binary() {
    let (_server, mut client, mood, _) = start();
    // One row by its key, and all of them: each path.
    for sql in ["SELECT m FROM t WHERE a = 2 AND m = $1", "SELECT max(m) FROM t WHERE m = $1"] {
        for declared in [&[][..], &[mood]] {
            for (sent, shown) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                let messages = [
                    parse("", sql, declared),
                    describe(b'S', ""),
                    bind_as("", "", sent, &[Some(b"happy")], shown),
                    execute("", 0),
                ];
                let reply = send(&mut client, &messages).ok();
                assert_eq!((reply.parameters.as_slice(), reply.columns[0].oid), (&[mood][..], mood), "{sql}");
                assert_eq!(reply.rows, [[Some(b"happy".to_vec())]], "{sql}");
            }
        }
    }
    for format in [0, 1] {
        let messages = [
            parse("", "SELECT $1::mood", &[]),
            bind_as("", "", format, &[Some(b"bored")], 0),
            execute("", 0),
        ];
        assert_eq!(send(&mut client, &messages).code(), "22P02");
    }
}

#[test]
fn arrays_are_of_the_type_of_arrays() {
    let (_server, mut client, mood, moods) = start();
    let mut binary = Vec::new();
    for part in [1, 0, mood, 2, 1] {
        binary.extend(part.to_be_bytes());
    }
    for label in ["sad", "happy"] {
        binary.extend((label.len() as u32).to_be_bytes());
        binary.extend(label.as_bytes());
    }
    for declared in [&[][..], &[moods]] {
        let messages = [
            parse("", "SELECT a FROM t WHERE m = ANY($1) ORDER BY a", declared),
            describe(b'S', ""),
            bind_as("", "", 1, &[Some(&binary)], 0),
            execute("", 0),
        ];
        let reply = send(&mut client, &messages).ok();
        assert_eq!(reply.parameters, [moods]);
        assert_eq!(reply.text(), [["1"], ["2"]]);
    }
    for sql in ["SELECT enum_range(NULL::mood)", "SELECT array_agg(m ORDER BY m) FROM t WHERE a < 3"] {
        let messages = [parse("", sql, &[]), bind_as("", "", 0, &[], 1), describe(b'P', ""), execute("", 0)];
        let reply = send(&mut client, &messages).ok();
        assert_eq!(reply.columns[0].oid, moods, "{sql}");
        assert_eq!(reply.rows, [[Some(binary.clone())]], "{sql}");
    }
}

#[test]
fn labels_are_copied_in_every_format() {
    let (_server, mut client, ..) = start();
    client.run("CREATE TABLE u (m mood)");
    let reply = client.run("SELECT enumlabel, enumsortorder FROM pg_enum ORDER BY enumsortorder");
    assert_eq!(reply.text(), [["sad", "1"], ["happy", "2"]]);
    let bad = client.query("INSERT INTO u VALUES ('bored')");
    assert_eq!(bad.code(), "22P02");
}
