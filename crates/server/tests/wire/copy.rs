//! COPY over the wire.

use crate::client::{Client, bind, execute, message, parse, sync};
use crate::server::TestServer;

fn start() -> (TestServer, Client) {
    let server = TestServer::start();
    let mut client = Client::connect(&server);
    client.run("CREATE TABLE t (a int PRIMARY KEY, b text, c numeric(8,2))");
    (server, client)
}

#[test]
fn data_may_be_cut_anywhere() {
    let (_server, mut client) = start();
    let data =
        "1\tplain\t1.5\n2\ttab\\there\\nline\\\\ \\x41\t-0.01\r\n3\t\\N\t\\N\n4\t\t12345.67\n\\.\nignored";
    for piece in [1, 2, 3, 7, 1000] {
        let reply = client.copy_in("COPY t FROM STDIN", data.as_bytes(), piece).ok();
        assert_eq!((reply.tags[0].as_str(), reply.status), ("COPY 4", b'I'));
        let out = client.run("COPY (SELECT * FROM t ORDER BY a) TO STDOUT");
        let expected = "1\tplain\t1.50\n2\ttab\\there\\nline\\\\ A\t-0.01\n3\t\\N\t\\N\n4\t\t12345.67\n";
        assert_eq!(String::from_utf8(out.copied).unwrap(), expected);
        assert_eq!((out.kinds.as_str(), out.tags[0].as_str()), ("HddddcCZ", "COPY 4"));
        client.run("DELETE FROM t");
    }
}

#[test]
fn binary_data_goes_out_and_in() {
    let (_server, mut client) = start();
    client.run("INSERT INTO t VALUES (1, 'one', 1.5), (2, NULL, NULL)");
    let out = client.run("COPY (SELECT * FROM t ORDER BY a) TO STDOUT (FORMAT binary)");
    let header = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
    let first = b"\0\x03\0\0\0\x04\0\0\0\x01\0\0\0\x03one\0\0\0\x0c\0\x02\0\0\0\0\0\x02\0\x01\x13\x88";
    let second = b"\0\x03\0\0\0\x04\0\0\0\x02\xff\xff\xff\xff\xff\xff\xff\xff";
    let data = [&header[..], first, second, b"\xff\xff"].concat();
    assert_eq!((&out.copied, out.tags[0].as_str(), out.kinds.as_str()), (&data, "COPY 2", "HdddcCZ"));
    for piece in [1, 7, 1000] {
        client.run("DELETE FROM t");
        assert_eq!(client.copy_in("COPY t FROM STDIN BINARY", &data, piece).ok().tags[0], "COPY 2");
        let found = client.run("SELECT a, b IS NULL, c FROM t ORDER BY a").text();
        assert_eq!(found, [["1", "f", "1.50"], ["2", "t", "NULL"]]);
    }
    assert_eq!(client.copy_in("COPY t FROM STDIN (FORMAT binary)", &data, 9).code(), "23505");
    client.run("DELETE FROM t");
    for (data, code) in
        [(&data[..data.len() - 3], "22P04"), (b"1\tone\t1\n", "22P04"), (&data[..header.len() + 5], "22P04")]
    {
        assert_eq!(client.copy_in("COPY t FROM STDIN (FORMAT binary)", data, 9).code(), code);
        assert_eq!(client.run("SELECT count(*) FROM t").cell(), "0");
    }
    assert_eq!(client.query("COPY t TO STDOUT (FORMAT binary, DELIMITER ',')").code(), "42601");
}

#[test]
fn freezing_is_asked_for_as_pgbench_does() {
    let (_server, mut client) = start();
    for (options, code) in [("(FREEZE on)", ""), ("(freeze off)", ""), ("(FREEZE, FREEZE off)", "42601")] {
        client.run("DELETE FROM t");
        assert_eq!(
            client.copy_in(&format!("COPY t FROM STDIN WITH {options}"), b"1\ta\t1\n", 9).code(),
            code
        );
    }
}

#[test]
fn csv_in_and_out() {
    let (_server, mut client) = start();
    let data = "c;a;b\n1.00;1;'it''s; \nfine'\n;2;\n2.50;3;''\n";
    for piece in [1, 5, 1000] {
        let copy = "COPY t (c, a, b) FROM STDIN WITH (FORMAT csv, HEADER, DELIMITER ';', QUOTE '''')";
        assert_eq!(client.copy_in(copy, data.as_bytes(), piece).ok().tags[0], "COPY 3");
        assert_eq!(client.run("SELECT b FROM t WHERE a = 1").cell(), "it's; \nfine");
        assert_eq!(client.run("SELECT count(*) FROM t WHERE b IS NULL").cell(), "1");
        let out = client
            .run("COPY (SELECT c, a, b FROM t ORDER BY a) TO STDOUT DELIMITER ';' CSV HEADER QUOTE ''''");
        assert_eq!(String::from_utf8(out.copied).unwrap(), data);
        client.run("DELETE FROM t");
    }
}

#[test]
fn errors_name_the_place_and_leave_nothing() {
    let (_server, mut client) = start();
    client.run("INSERT INTO t VALUES (7, 'seven', 7)");
    for (data, code, context) in [
        ("1\ta\t1\n2\tb\tx\n", "22P02", "COPY t, line 2, column c: \"x\""),
        ("1\ta\n", "22P04", "COPY t, line 1: \"1\ta\""),
        ("1\ta\t1\textra\n", "22P04", "COPY t, line 1: \"1\ta\t1\textra\""),
        ("1\ta\t1\n\\N\tb\t1\n", "23502", "COPY t, line 2: \"\\N\tb\t1\""),
        ("1\ta\t1\n1\tb\t1\n", "23505", "COPY t, line 2: \"1\tb\t1\""),
        ("7\ta\t1\n", "23505", "COPY t, line 1: \"7\ta\t1\""),
        ("1\ta\t1234567.8\n", "22003", "COPY t, line 1, column c: \"1234567.8\""),
        ("99999999999\ta\t1\n", "22003", "COPY t, line 1, column a: \"99999999999\""),
    ] {
        let reply = client.copy_in("COPY t FROM STDIN", data.as_bytes(), 1000);
        assert_eq!((reply.code(), reply.status), (code, b'I'), "{data:?}");
        assert_eq!(reply.error.unwrap().context, context);
        assert_eq!(client.run("SELECT count(*) FROM t").cell(), "1");
    }
    let invalid = client.copy_in("COPY t FROM STDIN", b"1\t\xff\t1\n", 1000);
    assert_eq!(invalid.code(), "22021");
    let open = client.copy_in("COPY t FROM STDIN CSV", b"1,\"open,1\n", 1000);
    assert_eq!(open.code(), "22P04");
}

#[test]
fn in_a_transaction_it_is_part_of_it() {
    let (_server, mut client) = start();
    client.run("BEGIN");
    assert_eq!(client.copy_in("COPY t (a) FROM STDIN", b"1\n2\n", 1).ok().status, b'T');
    assert_eq!(client.run("SELECT count(*) FROM t").cell(), "2");
    client.run("ROLLBACK");
    assert_eq!(client.run("SELECT count(*) FROM t").cell(), "0");
    client.run("BEGIN");
    let reply = client.copy_in("COPY t (a) FROM STDIN", b"1\nx\n", 100);
    assert_eq!((reply.code(), reply.status), ("22P02", b'E'));
    assert_eq!(client.run("COMMIT").tags[0], "ROLLBACK");
    assert_eq!(client.run("SELECT count(*) FROM t").cell(), "0");
}

#[test]
fn clients_may_give_up() {
    let (_server, mut client) = start();
    assert!(client.query("COPY t (a) FROM STDIN").kinds.ends_with('G'));
    client.send(&message(b'd', b"1\n"));
    client.send(&message(b'f', b"changed my mind\0"));
    let reply = client.reply();
    assert_eq!((reply.code(), reply.status), ("57014", b'I'));
    assert!(reply.error.unwrap().message.ends_with("changed my mind"));
    assert!(client.query("COPY t (a) FROM STDIN").kinds.ends_with('G'));
    client.send(&message(b'Q', b"SELECT 1\0"));
    assert_eq!(client.reply().code(), "08P01");
    assert_eq!(client.run("SELECT count(*) FROM t").cell(), "0");
}

#[test]
fn extended_protocol_and_statements_that_cannot_be() {
    let (_server, mut client) = start();
    client
        .send(&[parse("", "COPY t (a) FROM STDIN", &[]), bind("", "", &[]), execute("", 0), sync()].concat());
    assert_eq!(client.reply().kinds, "12G");
    client.send(&[message(b'd', b"5\n"), message(b'c', &[]), sync()].concat());
    assert_eq!(client.reply().ok().tags[0], "COPY 1");
    for (sql, code) in [
        ("COPY nothing FROM STDIN", "42P01"),
        ("COPY t (a, nothing) FROM STDIN", "42703"),
        ("COPY t (a, a) FROM STDIN", "42701"),
        ("COPY t FROM '/etc/passwd'", "42501"),
        ("COPY t TO '/tmp/file'", "42501"),
        ("COPY t FROM STDIN (COMPRESSION gzip)", "0A000"),
        ("COPY t FROM PROGRAM 'id'", "0A000"),
        ("COPY (SELECT * FROM nothing) TO STDOUT", "42P01"),
    ] {
        assert_eq!(client.query(sql).code(), code, "{sql}");
    }
    // Left over data is ignored.
    client.send(&[message(b'd', b"5\n"), message(b'c', &[])].concat());
    assert_eq!(client.run("SELECT count(*) FROM t").cell(), "1");
}

#[test]
fn among_other_statements() {
    let (_server, mut client) = start();
    let reply = client.copy_in(
        "INSERT INTO t VALUES (1); COPY t (a) FROM STDIN; INSERT INTO t VALUES (3)",
        b"2\n",
        9,
    );
    assert_eq!(reply.ok().tags, ["COPY 1", "INSERT 0 1"]);
    assert_eq!(client.run("SELECT count(*) FROM t").cell(), "3");
    let reply = client.copy_in("INSERT INTO t VALUES (4); COPY t (a) FROM STDIN; SELECT 1/0", b"5\n", 9);
    assert_eq!(reply.code(), "22012");
    assert_eq!(client.run("SELECT count(*) FROM t").cell(), "3");
}
