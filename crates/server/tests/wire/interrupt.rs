//! Statements that take long end when they have to: at their time limits, when they are canceled, when their client
//! is gone, when the server ends. Each of them would run for many seconds here if its main loop did not check its
//! interrupt.

use crate::cancel::{UNDER_WAY, begin, cancel};
use crate::client::Client;
use crate::server::TestServer;
use std::time::{Duration, Instant};

const ROWS: usize = 400_000;
/// Longer than any statement may take to end, shorter than any takes by itself: machines that run tests are busy.
const SOON: Duration = Duration::from_millis(2500);

/// A server with a table of many rows `big (a, b)`, an empty one of the same columns, and one row of a long text.
fn start() -> TestServer {
    let server = TestServer::start();
    let mut client = Client::connect(&server);
    client.run("CREATE TABLE big (a int PRIMARY KEY, b int)");
    client.run("CREATE TABLE other (a int PRIMARY KEY, b int)");
    client.run("CREATE TABLE letters (a int PRIMARY KEY, t text, p text)");
    let lines: String = (0..ROWS).map(|row| format!("{row}\t0\n")).collect();
    client.copy_in("COPY big FROM STDIN", lines.as_bytes(), 1 << 16).ok();
    let (text, pattern) = ("x".repeat(400_000), "x".repeat(200_000));
    client.run(&format!("INSERT INTO letters VALUES (1, '{text}', '%{pattern}y')"));
    server
}

/// A column's value, computed in some ten microseconds.
fn slowly(column: &str) -> String {
    format!("greatest({column}{})", format!(", {column} + 1 - 1").repeat(300))
}

/// Statements that take many seconds, each in a loop of its own.
fn long_statements() -> Vec<String> {
    let slow = slowly("b");
    vec![
        format!("UPDATE big SET b = {slow}"),
        format!("UPDATE big SET b = 1 WHERE {slow} = -1"),
        format!("UPDATE big SET b = 1 RETURNING {slow}"),
        format!("DELETE FROM big RETURNING {slow}"),
        format!("SELECT {slow} FROM big FOR UPDATE"),
        format!("SELECT a FROM big ORDER BY {slow} FOR UPDATE"),
        format!("SELECT {slow} FROM big WHERE a >= 0 AND a < {ROWS} LIMIT {ROWS}"),
        format!("INSERT INTO other SELECT a, b FROM big RETURNING {slow}"),
        format!("INSERT INTO big SELECT a, b FROM big ON CONFLICT (a) DO UPDATE SET b = {}", slowly("big.b")),
        format!("UPDATE big SET b = {} FROM big x WHERE x.a = big.a", slowly("x.b")),
        format!("DELETE FROM big USING big x WHERE x.a = big.a RETURNING {}", slowly("x.b")),
        format!(
            "MERGE INTO big USING big x ON x.a = big.a WHEN MATCHED AND {} = -1 THEN DELETE",
            slowly("x.b")
        ),
        "WITH x AS (DELETE FROM big RETURNING a) SELECT count(*) FROM x, x AS y WHERE (x.a * 31 + y.a * 17) % 1009 = 5"
            .to_owned(),
        "DELETE FROM big USING big x, big y WHERE (x.a * 31 + y.a * 17 + big.a) % 1009 = 5".to_owned(),
        "DELETE FROM big WHERE a IN (SELECT a + 1000000 FROM big)".to_owned(),
        "DELETE FROM letters WHERE t LIKE p".to_owned(),
        "DELETE FROM letters WHERE regexp_replace(t, 'x*y|x', 'z', 'g') = 'z'".to_owned(),
        "SELECT sum(length(regexp_replace(t, 'x*y|x', 'z', 'g'))) FROM letters".to_owned(),
        "SELECT length(regexp_replace(repeat('x', 1000000), 'x*y|x', 'z', 'g'))".to_owned(),
        "SELECT count(*) FROM big x, big y WHERE (x.a * 31 + y.a * 17) % 1009 = 5".to_owned(),
        "DELETE FROM big WHERE a = (SELECT count(*) FROM big x, big y WHERE (x.a + y.a) % 1009 = 5)"
            .to_owned(),
    ]
}

#[test]
fn a_long_statement_ends_at_its_time_limit() {
    let server = start();
    let mut client = Client::connect(&server);
    client.run("SET statement_timeout = '150ms'");
    for block in [true, false] {
        for sql in long_statements() {
            if block {
                client.run("BEGIN");
            }
            let shown = &sql[..sql.len().min(60)];
            let begun = Instant::now();
            let error = client.query(&sql).error.unwrap_or_else(|| panic!("{shown} ended by itself"));
            let told = (error.code.as_str(), error.message.as_str());
            assert_eq!(told, ("57014", "canceling statement due to statement timeout"), "{shown}");
            assert!(begun.elapsed() < SOON, "{shown} took {:?}", begun.elapsed());
            if block {
                client.run("ROLLBACK");
            }
        }
    }
    // Nothing of it is left, and the next statement runs.
    client.run("SET statement_timeout = 0");
    assert_eq!(client.run("SELECT count(*) FROM big WHERE b = 0").cell(), ROWS.to_string());
    assert_eq!(client.run("SELECT count(*) FROM other").cell(), "0");
}

#[test]
fn a_long_statement_is_canceled() {
    let server = start();
    let mut client = Client::connect(&server);
    for sql in long_statements() {
        client.run("BEGIN");
        begin(&mut client, &sql);
        std::thread::sleep(UNDER_WAY);
        let asked = Instant::now();
        cancel(&server, client.process, client.secret);
        let shown = &sql[..sql.len().min(60)];
        assert_eq!(client.reply().code(), "57014", "{shown}");
        assert!(asked.elapsed() < SOON, "{shown} took {:?}", asked.elapsed());
        client.run("ROLLBACK");
    }
}

#[test]
fn nothing_is_left_of_a_long_statement_whose_client_is_gone() {
    let server = start();
    let mut other = Client::connect(&server);
    let mut vanishing = Client::connect(&server);
    vanishing.run("BEGIN; UPDATE big SET b = 1 WHERE a = 7");
    begin(&mut vanishing, &format!("UPDATE big SET b = {} WHERE a <> 7", slowly("b")));
    std::thread::sleep(UNDER_WAY);
    drop(vanishing);
    let gone = Instant::now();
    assert_eq!(other.run("UPDATE big SET b = b + 10 WHERE a = 7 RETURNING b").cell(), "10");
    assert!(gone.elapsed() < SOON, "the row was free after {:?}", gone.elapsed());
}

#[test]
fn a_server_that_ends_waits_for_no_statement() {
    for sql in [None, Some(format!("UPDATE big SET b = {}", slowly("b")))] {
        let mut server = start();
        let mut client = Client::connect(&server);
        client.run("BEGIN; UPDATE big SET b = 1 WHERE a = 1");
        if let Some(sql) = &sql {
            begin(&mut client, sql);
            std::thread::sleep(UNDER_WAY);
        }
        let asked = Instant::now();
        server.ask_to_end();
        let error = client.last_words();
        let told = (error.severity.as_str(), error.code.as_str(), error.message.as_str());
        assert_eq!(told, ("FATAL", "57P01", "terminating connection due to administrator command"));
        // Joins the server's thread, which joins all others.
        drop(server);
        assert!(asked.elapsed() < SOON, "the server took {:?} to end", asked.elapsed());
    }
}

#[test]
fn a_wait_for_a_row_ends_at_the_lock_timeout() {
    let server = TestServer::start();
    let mut holder = Client::connect(&server);
    holder.run("CREATE TABLE t (a int PRIMARY KEY, b int); INSERT INTO t VALUES (1, 0)");
    holder.run("BEGIN; UPDATE t SET b = 1 WHERE a = 1");
    let mut waiter = Client::connect(&server);
    waiter.run("SET lock_timeout = '0.1s'");
    assert_eq!(waiter.run("SHOW lock_timeout").cell(), "100ms");
    let statements =
        ["UPDATE t SET b = 2", "DELETE FROM t WHERE a = 1", "SELECT b FROM t FOR UPDATE", "TRUNCATE t"];
    for (block, sql) in statements.iter().flat_map(|sql| [(false, sql), (true, sql)]) {
        if block && *sql == "TRUNCATE t" {
            continue;
        }
        if block {
            waiter.run("BEGIN");
        }
        let begun = Instant::now();
        let error = waiter.query(sql).error.unwrap_or_else(|| panic!("{sql} got the row"));
        let told = (error.code.as_str(), error.message.as_str());
        assert_eq!(told, ("55P03", "canceling statement due to lock timeout"), "{sql}");
        assert!(begun.elapsed() >= Duration::from_millis(100) && begun.elapsed() < SOON, "{sql}");
        if block {
            waiter.run("ROLLBACK");
        }
    }
    holder.run("COMMIT");
    waiter.run("UPDATE t SET b = b + 1");
    assert_eq!(waiter.run("SELECT b FROM t").cell(), "2");
}

#[test]
fn a_client_that_rests_in_a_transaction_is_sent_away() {
    let server = TestServer::start();
    let mut client = Client::connect(&server);
    client.run("CREATE TABLE t (a int PRIMARY KEY, b int); INSERT INTO t VALUES (1, 0)");
    let mut resting = Client::connect(&server);
    resting.run("SET idle_in_transaction_session_timeout = '100ms'");
    // Outside of a transaction it may rest.
    std::thread::sleep(UNDER_WAY);
    resting.run("BEGIN; UPDATE t SET b = 1 WHERE a = 1");
    assert_eq!(client.run("UPDATE t SET b = b + 10 WHERE a = 1 RETURNING b").cell(), "10");
    let error = resting.last_words();
    let told = (error.severity.as_str(), error.code.as_str(), error.message.as_str());
    assert_eq!(told, ("FATAL", "25P03", "terminating connection due to idle-in-transaction timeout"));
}

#[test]
fn a_copy_whose_client_is_silent_ends_at_its_time_limit() {
    let server = TestServer::start();
    let mut client = Client::connect(&server);
    client.run("CREATE TABLE t (a int PRIMARY KEY)");
    client.run("SET statement_timeout = '150ms'");
    let asked = client.query("COPY t FROM STDIN");
    assert!(asked.kinds.ends_with('G'), "{}", asked.kinds);
    client.send(&crate::client::message(b'd', b"1\n"));
    let reply = client.reply();
    assert_eq!((reply.code(), reply.status), ("57014", b'I'));
    assert_eq!(client.run("SELECT count(*) FROM t").cell(), "0");
}

#[test]
fn times_in_settings_have_units() {
    let server = TestServer::start();
    let mut client = Client::connect(&server);
    for (set, shown) in [("120000", "2min"), ("'1.5s'", "1500ms"), ("0", "0"), ("DEFAULT", "0")] {
        client.run(&format!("SET statement_timeout = {set}"));
        assert_eq!(client.run("SHOW statement_timeout").cell(), shown, "{set}");
    }
    for wrong in ["'-1'", "'5 fortnights'", "'25d'"] {
        assert_eq!(client.query(&format!("SET lock_timeout = {wrong}")).code(), "22023", "{wrong}");
    }
}

#[test]
fn a_cancel_of_an_idle_session_is_forgotten() {
    let server = TestServer::start();
    let mut client = Client::connect(&server);
    client.run("CREATE TABLE t (a int PRIMARY KEY)");
    cancel(&server, client.process, client.secret);
    // Planned on the analytical threads, which look at the same request.
    assert_eq!(client.run("SELECT count(*) FROM t x, t y").cell(), "0");
    cancel(&server, client.process, client.secret);
    assert_eq!(client.extended("SELECT count(*) FROM t x, t y", &[]).cell(), "0");
}
