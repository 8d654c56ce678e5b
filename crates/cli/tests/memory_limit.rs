//! A server under a memory limit, as users run it: requests for more get 53200, and others are not affected.

mod support;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use support::server::{Client, Server, until};
use support::{run, text};

const MIB: usize = 1 << 20;
const LIMIT_MIB: usize = 384;
const ROWS: &str = "SELECT i, 'a text of more than twelve bytes ' || i, i % 10 FROM generate_series";

fn world() -> (Server, Client) {
    let server = Server::start(&["--in-memory", "--memory-limit", "384MB"]);
    let mut client = Client::connect(&server);
    assert_eq!(client.query("CREATE TABLE t (id int PRIMARY KEY, note text, kind int)"), "");
    (server, client)
}

fn assert_refused(answer: &str) {
    let is_refusal =
        answer.starts_with('!') && answer.contains("C53200") && answer.contains("Mout of memory");
    assert!(is_refusal && answer.contains("memory limit is 384 MB"), "{answer}");
}

/// Inserts rows, 5,000 at a time, until that is refused; returns how many there are.
fn fill(client: &mut Client) -> usize {
    for batch in 0.. {
        let (first, last) = (batch * 5000 + 1, (batch + 1) * 5000);
        match client.query(&format!("INSERT INTO t {ROWS}({first}, {last}) AS s(i)")) {
            answer if answer.is_empty() => {}
            answer => {
                assert_refused(&answer);
                return batch * 5000;
            }
        }
    }
    unreachable!("the loop ends by a refusal")
}

#[test]
fn the_limit_is_shown_and_cannot_be_changed() {
    let (_server, mut client) = world();
    assert_eq!(client.query("SHOW memory_limit"), "384MB");
    assert!(client.query("SHOW ALL").contains("memory_limit,384MB,"));
    let answer = client.query("SET memory_limit = '4GB'");
    assert!(answer.contains("C55P02") && answer.contains("cannot be changed without restarting"), "{answer}");
    for (size, said) in [
        ("4 gigs", "invalid value for parameter \"memory_limit\": \"4 gigs\""),
        ("1MB", "the memory limit must be at least 32 MB"),
    ] {
        let output = run(&["serve", "--in-memory", "--memory-limit", size]);
        let error = text(&output.stderr);
        assert!(output.status.code() == Some(2) && error.contains(said), "{error}");
    }
}

#[test]
fn a_million_rows_too_many_end_their_transaction_and_nobody_elses() {
    let (server, mut client) = world();
    let (is_over, commits) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut other = Client::connect(&server);
            while !is_over.load(Ordering::Relaxed) {
                let id = 100_000_000 + commits.fetch_add(1, Ordering::Relaxed);
                assert_eq!(other.query(&format!("INSERT INTO t VALUES ({id}, 'small', 0)")), "");
                assert_eq!(other.query(&format!("UPDATE t SET kind = 1 WHERE id = {id}")), "");
            }
        });
        for insert in ["INSERT INTO t", "BEGIN; INSERT INTO t"] {
            let done = commits.load(Ordering::Relaxed);
            assert_refused(&client.query(&format!("{insert} {ROWS}(1, 5000000) AS s(i)")));
            let _ = client.query("ROLLBACK");
            until(|| (commits.load(Ordering::Relaxed) > done).then_some(()));
        }
        // Its memory is free again.
        assert_eq!(client.query(&format!("INSERT INTO t {ROWS}(1, 200000) AS s(i)")), "");
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(client.query("SELECT count(*) FROM t WHERE id <= 200000"), "200000");
}

#[test]
fn a_copy_past_the_limit_stores_nothing_and_the_connection_goes_on() {
    let (_server, mut client) = world();
    let lines: String =
        (0..10_000).map(|i| format!("{i}\tsome text that is long enough to lie elsewhere\t1\n")).collect();
    assert_eq!(client.query("CREATE TABLE c (id int, note text, kind int)"), "");
    client.ask("COPY c FROM STDIN");
    let answer = client.copy(lines.as_bytes(), 1000);
    assert_refused(&answer);
    assert_eq!(client.query("SELECT count(*) FROM c"), "0");
    assert_eq!(client.query("INSERT INTO c VALUES (1, 'goes on', 1)"), "");
}

#[test]
fn queries_that_need_too_much_are_refused_and_their_memory_is_free_again() {
    let (server, mut client) = world();
    assert_eq!(client.query(&format!("INSERT INTO t {ROWS}(1, 200000) AS s(i)")), "");
    let small = |client: &mut Client| {
        assert_eq!(client.query("SELECT count(*), sum(kind) FROM t"), "200000,900000");
    };
    for _ in 0..2 {
        let joined = "SELECT length(string_agg(a.note, ',')) FROM t a, t b WHERE b.id <= 100";
        assert_refused(&client.query(joined));
        small(&mut client);
        // This one may write to temporary files instead.
        match client.query("SELECT count(DISTINCT a.note || b.id) FROM t a, t b WHERE b.id <= 100") {
            right if right == "18380081" => {}
            refused => assert_refused(&refused),
        }
        small(&mut client);
    }
    // The allocator gives back what threads have freed when they next do something.
    until(|| {
        small(&mut client);
        (server.resident() < LIMIT_MIB * 1024 * 5 / 4).then_some(())
    });
}

#[test]
fn a_full_database_can_be_read_changed_and_emptied() {
    let (server, mut client) = world();
    let rows = fill(&mut client);
    // The system's view: what is counted, and not much more.
    let resident = server.resident() / 1024;
    assert!(resident < LIMIT_MIB * 5 / 4, "{resident} MiB");
    assert!(rows > 500_000, "{rows} rows");
    assert_eq!(client.query("SELECT count(*) FROM t"), rows.to_string());
    assert_eq!(client.query("UPDATE t SET kind = -1 WHERE id = 7"), "");
    assert_refused(&client.query("CREATE INDEX ON t (note)"));
    assert_eq!(client.query(&format!("DELETE FROM t WHERE id <= {}", rows / 50)), "");
    assert_eq!(client.query("SELECT count(*) FROM t"), (rows - rows / 50).to_string());
    assert_eq!(client.query("DROP TABLE t"), "");
    assert_eq!(client.query("CREATE TABLE t (id int PRIMARY KEY, note text, kind int)"), "");
    until(|| {
        std::thread::sleep(Duration::from_millis(100));
        client.query(&format!("INSERT INTO t {ROWS}(1, 100000) AS s(i)")).is_empty().then_some(())
    });
    assert!(server.resident() / 1024 < LIMIT_MIB + MIB / 4096, "{} KiB", server.resident());
}

#[test]
fn a_table_is_truncated_at_the_limit() {
    let (_server, mut client) = world();
    assert_eq!(client.query("CREATE TABLE small (id int PRIMARY KEY)"), "");
    assert_eq!(client.query("INSERT INTO small SELECT i FROM generate_series(1, 20000) AS s(i)"), "");
    fill(&mut client);
    assert_eq!(client.query("TRUNCATE small"), "");
    assert_eq!(client.query("SELECT count(*) FROM small"), "0");
}

#[test]
fn history_that_an_old_reader_keeps_ends_the_writer_and_not_the_reader() {
    let (server, mut client) = world();
    assert_eq!(client.query(&format!("INSERT INTO t {ROWS}(1, 100000) AS s(i)")), "");
    let mut readers = Vec::new();
    let refused = loop {
        let mut reader = Client::connect(&server);
        let seen = reader.query("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT kind FROM t WHERE id = 7");
        assert_eq!(seen, (7 + readers.len()).to_string());
        readers.push(reader);
        let answer = (0..20).map(|part| {
            let (first, last) = (part * 5000 + 1, (part + 1) * 5000);
            client.query(&format!("UPDATE t SET kind = kind + 1 WHERE id BETWEEN {first} AND {last}"))
        });
        if let Some(refused) = answer.into_iter().find(|answer| !answer.is_empty()) {
            break refused;
        }
        assert!(readers.len() < 200, "the limit is never reached");
    };
    assert_refused(&refused);
    assert_eq!(readers[0].query("SELECT kind FROM t WHERE id = 7"), "7");
    assert_eq!(readers[0].query("SELECT count(*) FROM t WHERE kind < 10"), "100000");
    drop(readers);
    until(|| {
        std::thread::sleep(Duration::from_millis(100));
        client.query("UPDATE t SET kind = 0 WHERE id <= 5000").is_empty().then_some(())
    });
}

#[test]
fn a_snapshot_that_queries_share_goes_when_it_keeps_more_than_it_may() {
    let limits = ["--in-memory", "--memory-limit", "384MB", "--history-limit", "16MB"];
    let server = Server::start(&limits);
    let (mut client, mut late) = (Client::connect(&server), Client::connect(&server));
    assert_eq!(client.query("CREATE TABLE t (id int PRIMARY KEY, note text, kind int)"), "");
    assert_eq!(client.query(&format!("INSERT INTO t {ROWS}(1, 200000) AS s(i)")), "");
    assert_eq!(late.query("SET ankerdb.max_staleness = '1h'"), "");
    assert_eq!(late.query("SELECT sum(kind) FROM t"), "900000");
    let manager = "SELECT ended_by_history, history_limit FROM ankerdb_snapshot_manager";
    assert_eq!(client.query(manager), "0,16777216");
    for _ in 0..4 {
        assert_eq!(client.query("UPDATE t SET kind = kind + 1"), "");
    }
    until(|| (client.query(manager) == "1,16777216").then_some(()));
    assert_eq!(late.query("SELECT sum(kind) FROM t"), "1700000");
    let reasons = "SELECT reason FROM ankerdb_shared_snapshots ORDER BY visible_timestamp";
    assert_eq!(client.query(reasons), "first|history");
    let output = run(&["serve", "--in-memory", "--history-limit", "much"]);
    assert!(text(&output.stderr).contains("invalid value for parameter \"history_limit\": \"much\""));
}

#[test]
fn a_message_past_the_limit_is_passed_over_and_the_connection_goes_on() {
    let (_server, mut client) = world();
    let padding = vec![b' '; 600 * MIB];
    client.ask(std::str::from_utf8(&padding).expect("spaces"));
    assert_refused(&client.answer());
    assert_eq!(client.query("SELECT count(*) FROM t"), "0");
    // In a transaction it fails as any statement does.
    assert_eq!(client.query("BEGIN"), "");
    client.ask(std::str::from_utf8(&padding).expect("spaces"));
    assert_refused(&client.answer());
    assert!(client.query("SELECT 1").contains("C25P02"));
    assert_eq!(client.query("ROLLBACK"), "");
    assert_eq!(client.query(&format!("INSERT INTO t {ROWS}(1, 100000) AS s(i)")), "");
}

#[test]
fn statements_that_a_client_prepares_without_end_are_refused_past_the_limit() {
    let (server, mut client) = world();
    let rows: Vec<String> =
        (0..5000).map(|id| format!("({id}, 'a note that is longer than twelve bytes', 1)")).collect();
    let sql = format!("INSERT INTO t VALUES {}", rows.join(","));
    let refused = (0..5000).map(|number| {
        let name = format!("s{number}");
        client.message(b'P', &[name.as_bytes(), b"\0", sql.as_bytes(), b"\0\0\0"].concat());
        client.message(b'S', b"");
        client.answer()
    });
    let refused: Vec<String> = refused.skip_while(|answer| answer.is_empty()).take(3).collect();
    assert_eq!(refused.len(), 3);
    refused.iter().for_each(|answer| assert_refused(answer));
    // Others can still ask, and have the memory when the client has gone.
    let mut other = Client::connect(&server);
    assert_eq!(other.query("SELECT count(*) FROM t WHERE id = 1"), "0");
    drop(client);
    until(|| {
        std::thread::sleep(Duration::from_millis(100));
        other.query(&format!("INSERT INTO t {ROWS}(1, 100000) AS s(i)")).is_empty().then_some(())
    });
}
