//! Kept snapshots: what statements AS OF them read beside transactions that go on, and what is refused.

use crate::client::{Client, engine_over};
use ankerdb_engine::{Configuration, Database, Error, Value};
use ankerdb_sql::Outcome;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A session on a database of accounts, of which each has 100.
fn bank(configuration: Configuration, accounts: i64) -> Client {
    let mut client = Client(engine_over(Database::with(configuration)).session());
    client.setup(&[
        "CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL, note text)",
        &format!("INSERT INTO account SELECT i, 100, 'first' FROM generate_series(1, {accounts}) AS s(i)"),
    ]);
    client
}

/// The error of a statement.
fn error(client: &mut Client, sql: &str) -> Error {
    let prepared = match client.prepare(sql) {
        Ok(prepared) => prepared,
        Err(error) => return error,
    };
    client.outcome(&prepared, &[]).expect_err(sql)
}

#[test]
fn both_paths_read_the_rows_as_they_were() {
    for configuration in Configuration::available() {
        let mut client = bank(configuration, 9_000);
        client.setup(&["CREATE SNAPSHOT monday"]);
        client.setup(&[
            "UPDATE account SET balance = balance + 5 WHERE id <= 5000",
            "DELETE FROM account WHERE id = 7",
            "INSERT INTO account VALUES (10000, 1, 'new')",
        ]);
        client.setup(&["CREATE SNAPSHOT tuesday", "UPDATE account SET note = 'last'"]);
        let (by_key, total) =
            ("SELECT balance, note FROM account WHERE id", "SELECT sum(balance), count(*) FROM account");
        assert!(client.plan(&format!("{by_key} = 7")).contains("Index"), "{configuration:?}");
        client.check(&[
            (&format!("{by_key} = 7 AS OF SNAPSHOT monday"), "100,first"),
            (&format!("{by_key} = 10000 AS OF SNAPSHOT monday"), ""),
            (&format!("{total} AS OF SNAPSHOT monday"), "900000,9000"),
            (&format!("{by_key} = 8 AS OF SNAPSHOT tuesday"), "105,first"),
            (&format!("{by_key} = 10000 AS OF SNAPSHOT tuesday"), "1,new"),
            (&format!("{total} AS OF SNAPSHOT tuesday"), "924896,9000"),
            (&format!("{by_key} = 8"), "105,last"),
            (total, "924896,9000"),
            (&format!("{by_key} = 7"), ""),
        ]);
    }
}

#[test]
fn a_total_as_of_a_snapshot_never_changes_beside_transfers() {
    let mut client = bank(Configuration::default(), 2_000);
    let (stop, transfers) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let workers = [client.other(), client.other()];
        for (number, mut worker) in workers.into_iter().enumerate() {
            let (stop, transfers) = (&stop, &transfers);
            scope.spawn(move || {
                for round in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let (from, to) = (1 + (round * 7 + number) % 1_000, 1_001 + (round * 13 + number) % 1_000);
                    let sql = format!(
                        "UPDATE account SET balance = balance + CASE WHEN id = {from} THEN -1 ELSE 1 END WHERE id IN ({from}, {to})"
                    );
                    assert_eq!(worker.run(&sql), "UPDATE 2");
                    transfers.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let _stop = StopOnDrop(&stop);
        while transfers.load(Ordering::Relaxed) < 100 {
            std::thread::yield_now();
        }
        client.setup(&["CREATE SNAPSHOT total"]);
        let all = "SELECT count(*), sum(balance), sum(id * balance) FROM account AS OF SNAPSHOT total";
        let row = |id: i32| format!("SELECT balance FROM account WHERE id = {id} AS OF SNAPSHOT total");
        let first = (client.run(all), client.run(&row(77)));
        assert!(first.0.starts_with("2000,200000,"), "{first:?}");
        for look in 0..60 {
            let before = transfers.load(Ordering::Relaxed);
            assert_eq!((client.run(all), client.run(&row(77))), first, "look {look}");
            while transfers.load(Ordering::Relaxed) < before + 20 {
                std::thread::yield_now();
            }
        }
        assert_ne!(client.run(all.trim_end_matches(" AS OF SNAPSHOT total")), first.0);
    });
}

/// Ends the transfers also when a look fails.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_time_is_that_of_the_newest_snapshot_that_is_not_later() {
    let mut client = bank(Configuration::default(), 3);
    let pause = || std::thread::sleep(std::time::Duration::from_millis(3));
    let before = client.run("SELECT clock_timestamp()");
    pause();
    for name in ["one", "two"] {
        client.setup(&[&format!("CREATE SNAPSHOT {name}"), "UPDATE account SET balance = balance + 1"]);
        pause();
    }
    let made = |name: &str| format!("SELECT creation_time FROM ankerdb_snapshots WHERE name = '{name}'");
    let (one, two) = (client.run(&made("one")), client.run(&made("two")));
    let now = client.run("SELECT clock_timestamp()");
    let sum = |moment: &str| format!("SELECT sum(balance) FROM account AS OF TIMESTAMP '{moment}'");
    client.check(&[(&sum(&one), "300"), (&sum(&two), "303"), (&sum(&now), "303")]);
    // The session's zone counts for a time without one.
    let zoneless = now.split('+').next().expect("a time").to_owned();
    client.check(&[(&sum(&zoneless), "303"), ("SET timezone = 'America/New_York'", "SET")]);
    assert_eq!(error(&mut client, &sum(&zoneless)).state().code(), "22023");
    client.setup(&["RESET timezone"]);
    let refused = error(&mut client, &sum(&before));
    assert_eq!(refused.state().code(), "42704");
    assert!(refused.detail().is_some_and(|detail| detail.contains("The oldest one, \"one\"")), "{refused:?}");
    assert_eq!(error(&mut client, &sum("2999-01-01")).state().code(), "22023");
    assert_eq!(error(&mut client, &sum("infinity")).state().code(), "22023");
    assert_eq!(error(&mut client, &sum("noon")).state().code(), "22007");
}

#[test]
fn names_are_of_all_sessions_and_limited() {
    let mut client = bank(Configuration::default(), 3);
    let mut other = client.other();
    client.check(&[("CREATE SNAPSHOT a", "CREATE SNAPSHOT"), ("CREATE SNAPSHOT a", "!42710")]);
    other.check(&[
        ("SELECT count(*) FROM account AS OF SNAPSHOT A", "3"),
        ("SELECT count(*) FROM account AS OF SNAPSHOT \"A\"", "!42704"),
        ("SELECT 1 AS OF SNAPSHOT b", "!42704"),
        ("DROP SNAPSHOT a", "DROP SNAPSHOT"),
        ("DROP SNAPSHOT a", "!42704"),
        ("DROP SNAPSHOT IF EXISTS a", "DROP SNAPSHOT"),
    ]);
    assert_eq!(other.0.take_notices().len(), 1);
    client.check(&[("SELECT count(*) FROM account AS OF SNAPSHOT a", "!42704")]);
    for number in 0..64 {
        client.setup(&[&format!("CREATE SNAPSHOT s{number}")]);
    }
    client.check(&[
        ("SELECT count(*) FROM ankerdb_snapshots", "64"),
        ("CREATE SNAPSHOT s64", "!54000"),
        ("DROP SNAPSHOT s7", "DROP SNAPSHOT"),
        ("CREATE SNAPSHOT s64", "CREATE SNAPSHOT"),
    ]);
    // Another database in the process has its own.
    Client::new().check(&[("SELECT 1 AS OF SNAPSHOT s1", "!42704")]);
}

#[test]
fn a_statement_goes_on_when_its_snapshot_is_dropped() {
    let mut client = bank(Configuration::default(), 60_000);
    client.setup(&["CREATE SNAPSHOT s"]);
    let prepared = client.prepare("SELECT id, balance FROM account AS OF SNAPSHOT s").expect("a query");
    let Ok(Outcome::Rows(mut rows)) = client.0.execute(&prepared, &[]) else { panic!("rows") };
    let mut other = client.other();
    other.setup(&["DROP SNAPSHOT s", "UPDATE account SET balance = 0", "UPDATE account SET balance = 1"]);
    let (mut count, mut sum) = (0, 0);
    while let Some(batch) = rows.next_batch().expect("the snapshot is still read") {
        for row in batch {
            let Value::BigInt(balance) = row[1] else { panic!("a number") };
            (count, sum) = (count + 1, sum + balance);
        }
    }
    assert_eq!((count, sum), (60_000, 6_000_000));
    client.check(&[("SELECT 1 AS OF SNAPSHOT s", "!42704")]);
}

#[test]
fn blocks_cursors_and_prepared_statements_read_it_for_one_statement() {
    let mut client = bank(Configuration::default(), 3);
    client.setup(&["CREATE SNAPSHOT s", "UPDATE account SET balance = 7 WHERE id = 1"]);
    let (sum, was) =
        ("SELECT sum(balance) FROM account", "SELECT sum(balance) FROM account AS OF SNAPSHOT s");
    client.check(&[
        ("BEGIN", "BEGIN"),
        // The block's own transaction has not begun yet.
        (was, "300"),
        ("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "SET"),
        ("UPDATE account SET balance = 8 WHERE id = 1", "UPDATE 1"),
        (was, "300"),
        (sum, "208"),
        ("SAVEPOINT p", "SAVEPOINT"),
        ("SELECT balance FROM account WHERE id = 1 AS OF SNAPSHOT s", "100"),
        ("SELECT balance FROM account WHERE id = 1", "8"),
        ("CREATE SNAPSHOT inside", "!25001"),
        ("ROLLBACK TO p", "ROLLBACK"),
        ("DECLARE c CURSOR FOR SELECT balance FROM account ORDER BY id AS OF SNAPSHOT s", "DECLARE CURSOR"),
        ("FETCH 2 FROM c", "100|100"),
        ("DO $$ BEGIN PERFORM 1 FROM account AS OF SNAPSHOT s; END $$", "DO"),
        ("COMMIT", "COMMIT"),
        (sum, "208"),
        ("PREPARE p (int) AS SELECT balance FROM account WHERE id = $1 AS OF SNAPSHOT s", "PREPARE"),
        ("EXECUTE p (1)", "100"),
        ("SHOW transaction_read_only", "off"),
        ("DROP SNAPSHOT s", "DROP SNAPSHOT"),
        ("EXECUTE p (1)", "!42704"),
        // A name is looked up when the statement runs.
        ("CREATE SNAPSHOT s", "CREATE SNAPSHOT"),
        ("EXECUTE p (1)", "8"),
        ("UPDATE account SET balance = 9 WHERE id = 1", "UPDATE 1"),
        ("EXECUTE p (1)", "8"),
        ("BEGIN READ ONLY", "BEGIN"),
        (was, "208"),
        ("COMMIT", "COMMIT"),
    ]);
    assert!(client.plan("EXECUTE p (1)").contains("Index Scan"));
    let analyzed = client.run("EXPLAIN (ANALYZE, TIMING OFF) SELECT count(*) FROM account AS OF SNAPSHOT s");
    assert!(analyzed.contains("actual"), "{analyzed}");
    assert_eq!(
        client.run_with("SELECT balance FROM account WHERE id = $1 AS OF SNAPSHOT s", &[Value::Integer(1)]),
        "8"
    );
}

#[test]
fn a_statement_of_the_same_text_but_for_the_moment_is_another_one() {
    let mut client = bank(Configuration::default(), 3);
    client.setup(&["CREATE SNAPSHOT a", "UPDATE account SET balance = 7", "CREATE SNAPSHOT b"]);
    client.setup(&["UPDATE account SET balance = 9"]);
    let select = "SELECT balance FROM account WHERE id = 2";
    let mut at = |name: &str| {
        let made = format!("SELECT creation_time FROM ankerdb_snapshots WHERE name = '{name}'");
        format!(" AS OF TIMESTAMP '{}'", client.run(&made))
    };
    let (at_a, at_b) = (at("a"), at("b"));
    let clauses =
        [(" AS OF SNAPSHOT a", "100"), (" AS OF SNAPSHOT b", "7"), ("", "9"), (&*at_a, "100"), (&*at_b, "7")];
    for _ in 0..4 {
        for (clause, balance) in clauses {
            let sql = format!("{select}{clause}");
            // As the server does it.
            let (prepared, parameters) = match client.0.recall(&sql) {
                Some(known) => known,
                None => {
                    let prepared = client.prepare(&sql).expect("a query");
                    client.0.remember(&sql, &prepared);
                    (prepared, Vec::new())
                }
            };
            assert_eq!(client.outcome(&prepared, &parameters).expect("a row"), balance, "{sql}");
        }
    }
}

#[test]
fn what_was_defined_since_is_refused_by_name() {
    let mut client = bank(Configuration::default(), 3);
    client.setup(&[
        "CREATE TABLE other (id int PRIMARY KEY, v int)",
        "CREATE TABLE gone (id int)",
        "CREATE TABLE emptied (id int)",
        "INSERT INTO emptied VALUES (1)",
        "INSERT INTO other VALUES (1, 1), (2, 2)",
        "CREATE VIEW rich AS SELECT id FROM account WHERE balance > 50",
        "CREATE VIEW same AS SELECT id FROM account",
        "CREATE SEQUENCE numbers",
        "CREATE SNAPSHOT s",
        "CREATE TABLE fresh (id int)",
        "DROP TABLE gone",
        "TRUNCATE emptied",
        "CREATE OR REPLACE VIEW rich AS SELECT id FROM account WHERE balance > 500",
        "CREATE VIEW late AS SELECT id FROM account",
    ]);
    let was = |from: &str| format!("SELECT count(*) FROM {from} AS OF SNAPSHOT s");
    client.check(&[
        (&was("account"), "3"),
        (&was("same"), "3"),
        (&was("emptied"), "1"),
        (&was("gone"), "!42P01"),
    ]);
    let mut refused = |from: &str, state: &str, message: &str| {
        let error = error(&mut client, &was(from));
        assert_eq!((error.state().code(), error.message()), (state, message), "{from}");
    };
    refused("fresh", "42P01", "relation \"fresh\" is newer than snapshot \"s\"");
    refused("late", "42P01", "relation \"late\" is newer than snapshot \"s\"");
    refused("rich", "55000", "view \"rich\" has been altered since snapshot \"s\" was created");
    let system = "AS OF a moment for the system catalog and for sequences is not supported";
    refused("pg_class", "0A000", system);
    refused("numbers", "0A000", system);
    // A table of the same name is another one.
    client.setup(&["CREATE TABLE gone (id int)"]);
    assert_eq!(error(&mut client, &was("gone")).message(), "relation \"gone\" is newer than snapshot \"s\"");
    for change in [
        "ALTER TABLE other ADD COLUMN w int DEFAULT 5",
        "ALTER TABLE other RENAME COLUMN v TO x",
        "ALTER TABLE other ADD CHECK (v > 0)",
        "ALTER TABLE other ALTER COLUMN v SET NOT NULL",
        "ALTER TABLE other RENAME TO another",
        "CREATE UNIQUE INDEX other_v ON other (v)",
    ] {
        client.setup(&["CREATE SNAPSHOT before", "UPDATE other SET v = v + 1", change]);
        let name = if change.ends_with("another") { "another" } else { "other" };
        for query in [format!("SELECT count(*) FROM {name}"), format!("SELECT * FROM {name} WHERE id = 1")] {
            let error = error(&mut client, &format!("{query} AS OF SNAPSHOT before"));
            let message = format!("table \"{name}\" has been altered since snapshot \"before\" was created");
            assert_eq!((error.state().code(), error.message()), ("55000", message.as_str()), "{change}");
        }
        client.setup(&["DROP SNAPSHOT before", "DROP TABLE IF EXISTS other, another"]);
        client.setup(&[
            "CREATE TABLE other (id int PRIMARY KEY, v int)",
            "INSERT INTO other VALUES (1, 1), (2, 2)",
        ]);
    }
}

#[test]
fn an_index_that_is_newer_is_not_used() {
    let mut client = bank(Configuration::default(), 3_000);
    client.setup(&[
        "CREATE TABLE other (id int PRIMARY KEY)",
        "CREATE SNAPSHOT s",
        "UPDATE account SET note = 'second'",
        "CREATE INDEX by_note ON account (note)",
        "DROP TABLE other",
    ]);
    client.check(&[
        ("SELECT sum(balance) FROM account AS OF SNAPSHOT s", "300000"),
        ("SELECT balance FROM account WHERE id = 5 AS OF SNAPSHOT s", "100"),
    ]);
    let by_note = "SELECT id FROM account WHERE note = 'first' AND id < 0 AS OF SNAPSHOT s";
    let refused = error(&mut client, "SELECT id FROM account WHERE note = 'nothing' AS OF SNAPSHOT s");
    assert_eq!(
        (refused.state().code(), refused.message()),
        ("55000", "index \"by_note\" is newer than snapshot \"s\"")
    );
    client.setup(&["DROP INDEX by_note"]);
    client.check(&[(by_note, "")]);
}

#[test]
fn only_whole_queries_are_read_as_of_a_moment() {
    let mut client = bank(Configuration::default(), 3);
    client.setup(&["CREATE SNAPSHOT s", "CREATE TABLE copy (id int)"]);
    for sql in [
        "INSERT INTO copy SELECT id FROM account AS OF SNAPSHOT s",
        "UPDATE account SET balance = 1 AS OF SNAPSHOT s",
        "DELETE FROM account AS OF SNAPSHOT s",
        "CREATE VIEW v AS SELECT id FROM account AS OF SNAPSHOT s",
        "CREATE TABLE t AS SELECT id FROM account AS OF SNAPSHOT s",
        "SELECT id INTO t FROM account AS OF SNAPSHOT s",
        "WITH gone AS (DELETE FROM account RETURNING id) SELECT * FROM gone AS OF SNAPSHOT s",
        "SELECT id FROM account FOR UPDATE AS OF SNAPSHOT s",
        "EXPLAIN ANALYZE DELETE FROM account AS OF SNAPSHOT s",
        "PREPARE p AS DELETE FROM account AS OF SNAPSHOT s",
        "SELECT (SELECT count(*) FROM account AS OF SNAPSHOT s)",
        "SELECT * FROM account AS OF SNAPSHOT s WHERE id = 1",
        "BEGIN AS OF SNAPSHOT s",
        "SET timezone = 'UTC' AS OF SNAPSHOT s",
        "SELECT pg_export_snapshot() AS OF SNAPSHOT s",
        "SELECT set_config('timezone', 'UTC', true) AS OF SNAPSHOT s",
    ] {
        assert_eq!(client.run(sql), "!0A000", "{sql}");
    }
    client.check(&[
        ("SELECT count(*), sum(balance) FROM account", "3,300"),
        ("SELECT 1 UNION ALL SELECT 2 ORDER BY 1 LIMIT 1 AS OF SNAPSHOT s", "1"),
        ("WITH a AS (SELECT * FROM account) SELECT count(*) FROM a AS OF SNAPSHOT s", "3"),
        ("TABLE copy AS OF SNAPSHOT s", "!42P01"),
        ("(SELECT count(*) FROM account) AS OF SNAPSHOT s", "3"),
    ]);
}

#[test]
fn versions_are_kept_while_the_snapshot_is_and_freed_behind_it() {
    let mut client = bank(Configuration::default(), 5_000);
    client.setup(&["CREATE SNAPSHOT s"]);
    for _ in 0..5 {
        client.setup(&["UPDATE account SET balance = balance + 1"]);
    }
    let versions = "SELECT version_bytes > 0 FROM ankerdb_memory WHERE relname = 'account'";
    client.check(&[(versions, "t"), ("SELECT sum(balance) FROM account AS OF SNAPSHOT s", "500000")]);
    client.setup(&["DROP SNAPSHOT s"]);
    let waits_until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while client.run(versions) == "t" {
        assert!(std::time::Instant::now() < waits_until, "versions that nobody sees are freed");
        client.setup(&["UPDATE account SET balance = balance + 1"]);
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
