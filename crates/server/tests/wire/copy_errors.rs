//! Rows that COPY leaves out, and lines of names that it compares: in the words of PostgreSQL 18.

use crate::client::Client;
use crate::server::TestServer;
use std::fmt::Write;

fn start() -> (TestServer, Client) {
    let server = TestServer::start();
    let mut client = Client::connect(&server);
    client.run("CREATE TABLE t (id int, day date, name varchar(5))");
    (server, client)
}

#[test]
fn rows_without_a_value_are_left_out() {
    let (_server, mut client) = start();
    let data = "1\t2024-01-01\ta\nx\t2024-01-01\tb\n3\t2024-02-30\tc\n4\t2024-01-01\ttoo long\n5\t\\N\te\n";
    for piece in [1, 1_000] {
        let reply = client.copy_in("COPY t FROM STDIN (ON_ERROR ignore)", data.as_bytes(), piece).ok();
        assert_eq!((reply.tags[0].as_str(), reply.kinds.as_str()), ("COPY 2", "NCZ"));
        assert_eq!(client.run("SELECT sum(id) FROM t").cell(), "6");
        client.run("TRUNCATE t");
    }
    for (options, kinds) in [
        ("ON_ERROR ignore, LOG_VERBOSITY verbose", "NNNNCZ"),
        ("ON_ERROR 'ignore', LOG_VERBOSITY silent", "CZ"),
        ("on_error ignore, REJECT_LIMIT 3, LOG_VERBOSITY default", "NCZ"),
        ("FORMAT text, ON_ERROR ignore, REJECT_LIMIT 2", "EZ"),
        ("ON_ERROR stop", "EZ"),
        ("ON_ERROR", "EZ"),
    ] {
        let reply = client.copy_in(&format!("COPY t FROM STDIN ({options})"), data.as_bytes(), 1_000);
        assert_eq!(reply.kinds, kinds, "{options}");
        let context = match options.contains("LIMIT 2") {
            true => "COPY t, line 4, column name: \"too long\"",
            false => "COPY t, line 2, column id: \"x\"",
        };
        if let Some(error) = reply.error {
            assert_eq!((error.code.as_str(), error.context.as_str()), ("22P02", context), "{options}");
        }
    }
    // Only values are forgiven.
    client.run("TRUNCATE t; ALTER TABLE t ALTER id SET NOT NULL");
    for (data, code) in [("1\n", "22P04"), ("\\N\t\\N\ta\n", "23502"), ("1\t\\N\t\\xff\n", "22021")] {
        let reply = client.copy_in("COPY t FROM STDIN (ON_ERROR ignore)", data.as_bytes(), 1_000);
        assert_eq!(reply.code(), code, "{data}");
    }
}

#[test]
fn many_rows_are_left_out_in_their_order() {
    let (_server, mut client) = start();
    client.run("ALTER TABLE t ADD PRIMARY KEY (id)");
    let mut data = String::new();
    // Each tenth line has no number.
    (1..=60_000).for_each(|id| match id % 10 {
        0 => data.push_str("x,,\n"),
        _ => writeln!(data, "{id},2024-01-01,n").unwrap(),
    });
    let copy = |more: &str| format!("COPY t FROM STDIN (FORMAT csv, ON_ERROR ignore{more})");
    let reply = client.copy_in(&copy(", REJECT_LIMIT 3000"), data.as_bytes(), 50_000);
    let error = reply.error.unwrap();
    assert_eq!(
        (error.code.as_str(), error.context.as_str()),
        ("22P02", "COPY t, line 30010, column id: \"x\"")
    );
    assert_eq!(client.run("SELECT count(*) FROM t").cell(), "0");
    // The line of a key that is taken is counted with those that were left out.
    let twice = data.clone() + "11,,\n";
    let error = client.copy_in(&copy(""), twice.as_bytes(), 50_000).error.unwrap();
    assert_eq!((error.code.as_str(), error.context.as_str()), ("23505", "COPY t, line 60001"));
    let reply = client.copy_in(&copy(", REJECT_LIMIT 6000"), data.as_bytes(), 50_000).ok();
    assert_eq!((reply.tags[0].as_str(), reply.kinds.as_str()), ("COPY 54000", "NCZ"));
}

#[test]
fn names_of_columns_are_compared() {
    let (_server, mut client) = start();
    for (header, code) in [
        ("id,day,name", ""),
        ("id,name,day", "22P04"),
        ("id,day", "22P04"),
        ("id,day,name,more", "22P04"),
        ("id,,name", "22P04"),
        ("ID,day,name", "22P04"),
    ] {
        let data = format!("{header}\n1,2024-01-01,a\n");
        let reply = client.copy_in("COPY t FROM STDIN (FORMAT csv, HEADER match)", data.as_bytes(), 1_000);
        assert_eq!(reply.code(), code, "{header}");
    }
    let text = b"name\tid\na\t7\n";
    client.copy_in("COPY t (name, id) FROM STDIN WITH (HEADER MATCH)", text, 3).ok();
    assert_eq!(client.run("SELECT count(*) FROM t").cell(), "2");
}

#[test]
fn all_columns_may_be_quoted() {
    let (_server, mut client) = start();
    client.run("INSERT INTO t VALUES (1, NULL, 'a')");
    let out = client.run("COPY t TO STDOUT (FORMAT csv, FORCE_QUOTE *, HEADER)");
    assert_eq!(out.copied, b"id,day,name\n\"1\",,\"a\"\n");
    assert_eq!(client.query("COPY t FROM STDIN (FORMAT csv, FORCE_QUOTE *)").code(), "0A000");
}

#[test]
fn options_that_cannot_be() {
    let (_server, mut client) = start();
    for (sql, code) in [
        ("COPY t FROM STDIN (ON_ERROR maybe)", "22023"),
        ("COPY t FROM STDIN (ON_ERROR ignore, ON_ERROR ignore)", "42601"),
        ("COPY t TO STDOUT (ON_ERROR ignore)", "22023"),
        ("COPY t FROM STDIN (FORMAT binary, ON_ERROR ignore)", "42601"),
        ("COPY t FROM STDIN (REJECT_LIMIT 5)", "22023"),
        ("COPY t FROM STDIN (ON_ERROR ignore, REJECT_LIMIT 0)", "22023"),
        ("COPY t FROM STDIN (ON_ERROR ignore, REJECT_LIMIT many)", "42601"),
        ("COPY t FROM STDIN (ON_ERROR ignore, LOG_VERBOSITY loud)", "22023"),
        ("COPY t TO STDOUT (HEADER match)", "0A000"),
        ("COPY t FROM STDIN (FORMAT binary, HEADER match)", "0A000"),
    ] {
        assert_eq!(client.query(sql).code(), code, "{sql}");
    }
}
