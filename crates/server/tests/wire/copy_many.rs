//! COPY of so many lines that several threads read or write them.

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

/// In the session's zone and style, whoever formats them.
#[test]
fn rows_are_written_by_the_settings_of_their_session() {
    let (server, mut client) = start("CREATE TABLE t (id int PRIMARY KEY, at timestamptz, day date, c text)");
    client.run(
        "INSERT INTO t SELECT i, '2024-03-31 00:30+00'::timestamptz + i * interval '1 minute', date '2024-01-01' + i % 366,
            CASE WHEN i % 3 = 0 THEN 'a,\"b' WHEN i % 3 = 1 THEN NULL ELSE '' END FROM generate_series(1, 60000) AS s(i)",
    );
    let mut other = Client::connect(&server);
    other.run("SET timezone = 'Europe/Berlin'; SET datestyle = 'German'");
    for options in ["", "(FORMAT csv, HEADER, FORCE_QUOTE (day))"] {
        let whole = other.run(&format!("COPY (SELECT * FROM t ORDER BY id) TO STDOUT {options}"));
        let few =
            |from: usize| format!("(SELECT * FROM t WHERE id > {from} AND id <= {from} + 1000 ORDER BY id)");
        let mut parts = Vec::new();
        for from in (0..60_000).step_by(1000) {
            let options = if from == 0 { options.to_owned() } else { options.replace(", HEADER", "") };
            parts.extend(other.run(&format!("COPY {} TO STDOUT {options}", few(from))).copied);
        }
        assert!(whole.copied == parts, "{options}");
        assert!(String::from_utf8_lossy(&parts).contains("31.03.2024 03:00:00 CEST"));
    }
}

#[test]
fn what_ends_a_copy_to_the_client_leaves_the_session_as_it_was() {
    let (server, mut client) = start("SET statement_timeout = 300");
    let endless = "COPY (SELECT i, 'some words' FROM generate_series(1, 10000000000) AS s(i)) TO STDOUT";
    let reply = client.query(endless);
    assert_eq!((reply.code(), reply.status), ("57014", b'I'));
    let lines = String::from_utf8(reply.copied).expect("UTF-8");
    assert!(lines.lines().enumerate().all(|(at, line)| line == format!("{}\tsome words", at + 1)));
    client.run("SET statement_timeout = 0");
    assert_eq!(
        client
            .query("COPY (SELECT 1000000 / (900000 - i) FROM generate_series(1, 1000000) AS s(i)) TO STDOUT")
            .code(),
        "22012"
    );
    assert_eq!(client.run("SELECT 1").cell(), "1");
    // A client that goes away while others format and write.
    let mut gone = Client::connect(&server);
    gone.send(&crate::client::message(b'Q', format!("{endless}\0").as_bytes()));
    (0..100_000).for_each(|_| drop(gone.receive()));
    drop(gone);
    let active = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'COPY%'";
    let ended = std::time::Instant::now();
    while client.run(active).cell() != "0" {
        assert!(ended.elapsed().as_secs() < 20, "it goes on");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}
