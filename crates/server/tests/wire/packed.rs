//! Values of packed types, such as `inet`, as parameters and results, in text and binary, on both paths.

use crate::client::{Client, Reply, bind_as, describe, execute, parse, sync};
use crate::server::TestServer;

fn send(client: &mut Client, messages: &[Vec<u8>]) -> Reply {
    client.send(&[messages.concat(), sync()].concat());
    client.reply()
}

/// A type, its number, a text of it and the bytes that drivers send for that.
const VALUES: [(&str, u32, &str, &[u8]); 12] = [
    ("inet", 869, "192.168.1.5", &[2, 32, 0, 4, 192, 168, 1, 5]),
    ("inet", 869, "10.1.2.3/8", &[2, 8, 0, 4, 10, 1, 2, 3]),
    ("inet", 869, "2001:db8::1/64", &[3, 64, 0, 16, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
    ("cidr", 650, "10.1.0.0/16", &[2, 16, 1, 4, 10, 1, 0, 0]),
    // An hour, and a clock two hours and a half east of Greenwich.
    ("timetz", 1266, "01:00:00+02:30", &[0, 0, 0, 0, 0xd6, 0x93, 0xa4, 0, 0xff, 0xff, 0xdc, 0xd8]),
    ("int4range", 3904, "[1,5)", &[2, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 5]),
    ("int8range", 3926, "(,2)", &[8, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 2]),
    // Dates are counted from 2000.
    ("daterange", 3912, "[2000-01-02,)", &[18, 0, 0, 0, 4, 0, 0, 0, 1]),
    ("tsrange", 3908, "empty", &[1]),
    // How many bits there are, and eight of them in a byte.
    ("bit(5)", 1560, "10110", &[0, 0, 0, 5, 0xb0]),
    ("varbit", 1562, "1011101011", &[0, 0, 0, 10, 0xba, 0xc0]),
    ("varbit(9)", 1562, "", &[0, 0, 0, 0]),
];

#[test]
fn parameters_and_results_are_in_text_and_binary() {
    let server = TestServer::start();
    let mut client = Client::connect(&server);
    for (name, oid, text, bytes) in VALUES {
        client.run("DROP TABLE IF EXISTS t");
        client.run(&format!("CREATE TABLE t (a int PRIMARY KEY, v {name})"));
        client.run(&format!("INSERT INTO t VALUES (1, '{text}'), (2, NULL)"));
        // A row by its key, a value of a group, and no table.
        let all = [
            "SELECT v FROM t WHERE a = 1 AND v = $1".to_owned(),
            "SELECT v FROM t WHERE v = $1 GROUP BY v".to_owned(),
            format!("SELECT $1::{name}"),
        ];
        for sql in &all {
            for declared in [&[][..], &[oid]] {
                for (sent, shown) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                    let form = |format| if format == 0 { text.as_bytes() } else { bytes };
                    let messages = [
                        parse("", sql, declared),
                        describe(b'S', ""),
                        bind_as("", "", sent, &[Some(form(sent))], shown),
                        execute("", 0),
                    ];
                    let reply = send(&mut client, &messages).ok();
                    assert_eq!(
                        (reply.parameters.as_slice(), reply.columns[0].oid),
                        (&[oid][..], oid),
                        "{sql}"
                    );
                    assert_eq!(reply.rows, [[Some(form(shown).to_vec())]], "{sql} {text}");
                }
            }
        }
    }
}

#[test]
fn bytes_that_are_no_values_are_refused() {
    let server = TestServer::start();
    let mut client = Client::connect(&server);
    let bad: [(&str, &[u8]); 6] = [
        ("inet", &[4, 32, 0, 4, 1, 2, 3, 4]),
        ("inet", &[2, 33, 0, 4, 1, 2, 3, 4]),
        ("inet", &[2, 32, 0, 16, 1, 2, 3, 4]),
        ("inet", &[2, 32, 0, 4, 1, 2, 3, 4, 5]),
        ("cidr", &[2, 8, 1, 4, 10, 1, 0, 0]),
        ("cidr", &[3, 129, 1, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
    ];
    for (name, bytes) in bad {
        let messages = [
            parse("", &format!("SELECT $1::{name}"), &[]),
            bind_as("", "", 1, &[Some(bytes)], 0),
            execute("", 0),
        ];
        assert_eq!(send(&mut client, &messages).code(), "22P03", "{name} {bytes:?}");
    }
    for bytes in [&[][..], &[2, 32], &[2, 32, 0, 4, 1, 2, 3]] {
        let messages =
            [parse("", "SELECT $1::inet", &[]), bind_as("", "", 1, &[Some(bytes)], 0), execute("", 0)];
        assert_eq!(send(&mut client, &messages).code(), "08P01", "{bytes:?}");
    }
}

#[test]
fn arrays_have_the_forms_of_their_items() {
    let server = TestServer::start();
    let mut client = Client::connect(&server);
    client.run("CREATE TABLE t (a int PRIMARY KEY, v inet[])");
    client.run("INSERT INTO t VALUES (1, '{192.168.1.5,10.1.2.3/8}')");
    let mut binary = Vec::new();
    for part in [1u32, 0, 869, 2, 1] {
        binary.extend(part.to_be_bytes());
    }
    for (_, _, _, bytes) in &VALUES[..2] {
        binary.extend((bytes.len() as u32).to_be_bytes());
        binary.extend_from_slice(bytes);
    }
    for sql in [
        "SELECT v FROM t WHERE a = 1 AND $1::inet[] = v",
        "SELECT array_agg(u) FROM t, unnest(v) AS u WHERE v = $1",
    ] {
        let messages = [
            parse("", sql, &[1041]),
            bind_as("", "", 1, &[Some(&binary)], 1),
            describe(b'P', ""),
            execute("", 0),
        ];
        let reply = send(&mut client, &messages).ok();
        assert_eq!((reply.columns[0].oid, &reply.rows), (1041, &vec![vec![Some(binary.clone())]]), "{sql}");
    }
}
