//! COPY of so many lines that several threads read them.

use crate::client::Client;
use crate::server::TestServer;
use std::fmt::Write;

/// More than ten blocks.
const LINES: usize = 90_000;

fn start(sql: &str) -> (TestServer, Client) {
    let server = TestServer::start();
    let mut client = Client::connect(&server);
    client.run(sql);
    (server, client)
}

/// Lines of a number and a text, as `line` makes them.
fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (1..=count).fold(String::new(), |mut all, number| {
        writeln!(all, "{}", line(number)).unwrap();
        all
    })
}

#[test]
fn all_rows_come_and_go_as_they_are() {
    let (_server, mut client) = start("CREATE TABLE t (id int PRIMARY KEY, name text, price numeric(12,2))");
    let data = lines(LINES, |id| format!("{id}\tname {id}\\tof\\\\it\t{}.{:02}", id * 7, id % 100));
    for piece in [3_001, 70_000] {
        assert_eq!(client.copy_in("COPY t FROM STDIN", data.as_bytes(), piece).ok().tags[0], "COPY 90000");
        let out = client.run("COPY (SELECT * FROM t ORDER BY id) TO STDOUT");
        assert!(out.copied == data.as_bytes(), "what went in came out");
        assert_eq!(out.tags[0], "COPY 90000");
        client.run("TRUNCATE t");
    }
}

#[test]
fn the_first_line_that_is_wrong_is_told() {
    let (_server, mut client) = start("CREATE TABLE t (id int PRIMARY KEY, name text CHECK (name <> 'no'))");
    let text = "long ".repeat(400);
    for (first, second, code, context) in [
        ("x\ta", "y\tb", "22P02", "COPY t, line 30000, column id: \"x\""),
        ("1", "2\tb\t", "22P04", "COPY t, line 30000: \"1\""),
        ("-1\tno", "y\tb", "23514", "COPY t, line 30000: \"-1\tno\""),
        ("\\N\ta", "-1\tno", "23502", "COPY t, line 30000: \"\\N\ta\""),
    ] {
        let data = lines(LINES, |id| match id {
            30_000 => first.to_owned(),
            // In the next piece, and in the last one.
            35_000 | LINES => second.to_owned(),
            id => format!("{id}\tname"),
        });
        let reply = client.copy_in("COPY t FROM STDIN", data.as_bytes(), 64_000);
        assert_eq!((reply.code(), reply.status), (code, b'I'));
        assert_eq!(reply.error.unwrap().context, context);
        assert_eq!(client.run("SELECT count(*) FROM t").cell(), "0");
    }
    // Pieces of long lines end before a block has all of its rows; keys are found at the end.
    let data = lines(10_000, |id| format!("{}\t{text}", if id == 9_999 { 3_333 } else { id }));
    let reply = client.copy_in("COPY t FROM STDIN", data.as_bytes(), 64_000);
    let error = reply.error.unwrap();
    assert_eq!((error.code.as_str(), error.context.as_str()), ("23505", "COPY t, line 9999"));
    assert_eq!(client.run("SELECT count(*) FROM t").cell(), "0");
}

#[test]
fn lines_of_records_are_counted() {
    let (_server, mut client) = start("CREATE TABLE t (id int, name text)");
    // Each record but the wrong one has three lines, after the header.
    let data = lines(20_000, |id| match id {
        15_000 => "x,y".to_owned(),
        id => format!("{id},\"a\nb\nc\""),
    });
    let data = format!("id,name\n{data}");
    let reply = client.copy_in("COPY t FROM STDIN (FORMAT csv, HEADER)", data.as_bytes(), 8_000);
    let line = 1 + 14_999 * 3 + 1;
    assert_eq!(reply.error.unwrap().context, format!("COPY t, line {line}, column id: \"x\""));
    let open = data.replace("x,y", "15000,y") + "1,\"open";
    let reply = client.copy_in("COPY t FROM STDIN (FORMAT csv, HEADER)", open.as_bytes(), 8_000);
    assert_eq!(reply.code(), "22P04");
    assert_eq!(client.run("SELECT count(*) FROM t").cell(), "0");
}

#[test]
fn sequences_count_in_the_order_of_lines() {
    let (_server, mut client) =
        start("CREATE TABLE t (id serial PRIMARY KEY, number int, kind text DEFAULT 'k')");
    let data = lines(LINES, |number| number.to_string());
    client.copy_in("COPY t (number) FROM STDIN", data.as_bytes(), 50_000).ok();
    assert_eq!(client.run("SELECT count(*) FROM t WHERE id = number AND kind = 'k'").cell(), "90000");
}

#[test]
fn a_time_limit_ends_it() {
    let (_server, mut client) = start("CREATE TABLE t (id int, at timestamptz DEFAULT '2020-01-01')");
    let data = lines(LINES, |id| id.to_string());
    assert!(client.query("SET statement_timeout = 300; COPY t (id) FROM STDIN").kinds.ends_with('G'));
    for piece in data.as_bytes().chunks(50_000) {
        client.send(&crate::client::message(b'd', piece));
    }
    assert_eq!(client.reply().code(), "57014");
    client.send(&crate::client::message(b'c', &[]));
    client.run("SET statement_timeout = 0");
    assert_eq!(client.run("SELECT count(*) FROM t").cell(), "0");
}
