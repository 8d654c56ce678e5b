//! `ankerdb.max_staleness`: which queries share a snapshot, what a session sees at least, and what the views tell.

use crate::client::{Client, engine_over};
use ankerdb_engine::{Configuration, Database};

/// Analytical, so that it may be late.
const TOTAL: &str = "SELECT sum(balance), count(*) FROM account";
/// By its key, which is read as of now.
const BY_KEY: &str = "SELECT balance FROM account WHERE id = 1";
const SHARED: &str = "SELECT queries_shared FROM ankerdb_snapshot_manager";

/// Accounts with 1 each, and a session whose queries may be an hour late.
fn bank(configuration: Configuration) -> Client {
    let mut client = Client(engine_over(Database::with(configuration)).session());
    client.setup(&[
        "CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL)",
        "INSERT INTO account SELECT i, 1 FROM generate_series(1, 9000) AS s(i)",
        "SET ankerdb.max_staleness = '1h'",
    ]);
    client
}

/// Another session like it.
fn late(client: &Client) -> Client {
    let mut other = client.other();
    other.setup(&["SET ankerdb.max_staleness = '1h'"]);
    other
}

#[test]
fn queries_of_sessions_that_may_be_late_share_a_snapshot() {
    for configuration in Configuration::available() {
        let shares = !configuration.name().starts_with("see-") && configuration != Configuration::HeeFork;
        let mut late_one = bank(configuration);
        late_one.check(&[(TOTAL, "9000,9000")]);
        let mut writer = late_one.other();
        writer.check(&[("UPDATE account SET balance = 3 WHERE id = 1", "UPDATE 1"), (TOTAL, "9002,9000")]);
        let expected = if shares { "9000,9000" } else { "9002,9000" };
        late_one.check(&[(BY_KEY, "3"), (TOTAL, expected), (TOTAL, expected)]);
        let mut joined = late(&late_one);
        joined.check(&[(TOTAL, expected), (SHARED, if shares { "3" } else { "0" })]);
        // A session that has seen more gets more, and the others with it.
        let mut changed = writer;
        changed.check(&[("SET ankerdb.max_staleness = '1h'", "SET"), (TOTAL, "9002,9000")]);
        late_one.check(&[(TOTAL, "9002,9000")]);
    }
}

#[test]
fn a_session_sees_what_it_has_done_and_its_queries_never_go_back() {
    let mut client = bank(Configuration::default());
    let mut other = late(&client);
    client.check(&[(TOTAL, "9000,9000"), ("UPDATE account SET balance = 2 WHERE id = 1", "UPDATE 1")]);
    client.check(&[(TOTAL, "9001,9000"), ("DELETE FROM account WHERE id = 2 RETURNING id", "2")]);
    client.check(&[(TOTAL, "9000,8999"), ("BEGIN", "BEGIN")]);
    client.check(&[("INSERT INTO account VALUES (0, 1)", "INSERT 0 1"), (TOTAL, "9001,9000")]);
    client.check(&[("ROLLBACK", "ROLLBACK"), (TOTAL, "9000,8999")]);
    let with = "WITH gone AS (DELETE FROM account WHERE id = 3 RETURNING id) SELECT count(*) FROM gone";
    client.check(&[(with, "1"), (TOTAL, "8999,8998")]);
    other.check(&[(TOTAL, "8999,8998")]);
    client.setup(&["UPDATE account SET balance = 5 WHERE id = 4"]);
    client.check(&[(TOTAL, "9003,8998")]);
    other.check(&[(TOTAL, "9003,8998")]);
    client.other().setup(&["UPDATE account SET balance = 6 WHERE id = 4"]);
    for session in [&mut client, &mut other] {
        session.check(&[(TOTAL, "9003,8998")]);
    }
    // It does not go back to what is shared; the others share its snapshot then.
    client.check(&[("SET ankerdb.max_staleness = 0", "SET"), (TOTAL, "9004,8998")]);
    other.check(&[(TOTAL, "9003,8998")]);
    client.check(&[("SET ankerdb.max_staleness = '1h'", "SET"), (TOTAL, "9004,8998")]);
    other.check(&[(TOTAL, "9004,8998")]);
}

#[test]
fn a_session_that_asks_often_stays_with_its_snapshot() {
    let mut client = bank(Configuration::default());
    let mut writer = client.other();
    client.check(&[(TOTAL, "9000,9000")]);
    for balance in 2..102 {
        writer.setup(&[&format!("UPDATE account SET balance = {balance} WHERE id = 1")]);
        client.check(&[(TOTAL, "9000,9000")]);
    }
    client.check(&[("SELECT queries_shared, snapshots_taken FROM ankerdb_snapshot_manager", "100,1")]);
}

#[test]
fn blocks_that_cannot_write_read_a_shared_snapshot_as_a_whole() {
    let mut client = bank(Configuration::default());
    client.setup(&["CREATE TABLE item AS SELECT i AS id, 1 AS price FROM generate_series(1, 9000) AS s(i)"]);
    let mut writer = client.other();
    client.check(&[(TOTAL, "9000,9000")]);
    writer.setup(&["UPDATE account SET balance = 2 WHERE id = 1"]);
    // Both paths read the same.
    for modes in ["READ ONLY", "ISOLATION LEVEL REPEATABLE READ READ ONLY", "READ ONLY DEFERRABLE"] {
        client.check(&[(&format!("BEGIN {modes}"), "BEGIN"), (BY_KEY, "1"), (TOTAL, "9000,9000")]);
        client.check(&[("COMMIT", "COMMIT"), (BY_KEY, "2"), (TOTAL, "9000,9000")]);
    }
    let read = "SELECT columns_lent + columns_copied FROM ankerdb_shared_snapshots";
    let before: u64 = client.run(read).parse().expect("a number");
    let other = "SELECT sum(price) FROM item";
    late(&client).check(&[("BEGIN READ ONLY", "BEGIN"), (other, "9000"), ("COMMIT", "COMMIT")]);
    let after: u64 = client.run(read).parse().expect("a number");
    assert!(after > before, "a block reads for all");
    client.check(&[(other, "9000")]);
    assert_eq!(client.run(read), after.to_string(), "and all have what it has read");
    client.check(&[
        ("BEGIN READ ONLY", "BEGIN"),
        (TOTAL, "9000,9000"),
        ("SET TRANSACTION READ WRITE", "!25001"),
    ]);
    client.check(&[("ROLLBACK", "ROLLBACK"), ("BEGIN READ ONLY", "BEGIN")]);
    client.check(&[("DELETE FROM account", "!25006"), ("ROLLBACK", "ROLLBACK")]);
    // Blocks that may write read what is committed now, and so does every statement of READ COMMITTED.
    for modes in ["", "READ WRITE", "ISOLATION LEVEL READ COMMITTED READ ONLY"] {
        let mut client = late(&client);
        client.check(&[(&format!("BEGIN {modes}"), "BEGIN"), (TOTAL, "9001,9000"), ("COMMIT", "COMMIT")]);
    }
}

#[test]
fn a_block_that_has_read_a_shared_snapshot_never_writes() {
    let mut client = bank(Configuration::default());
    let mut writer = client.other();
    client.check(&[(TOTAL, "9000,9000")]);
    writer.setup(&["UPDATE account SET balance = 2 WHERE id = 1"]);
    let update = "UPDATE account SET balance = 3 WHERE id = 2";
    // Whatever is set, or taken back, behind its first query.
    client.check(&[("SET default_transaction_read_only = on", "SET"), ("BEGIN", "BEGIN")]);
    client.check(&[(TOTAL, "9000,9000"), ("SET default_transaction_read_only = off", "SET")]);
    client.check(&[(update, "!25006"), ("ROLLBACK", "ROLLBACK")]);
    client.setup(&["SET default_transaction_read_only = off"]);
    let mut client = late(&client);
    client.check(&[("BEGIN READ ONLY", "BEGIN"), ("SAVEPOINT s", "SAVEPOINT"), ("SELECT 1", "1")]);
    client.check(&[("ROLLBACK TO s", "ROLLBACK"), ("ROLLBACK", "ROLLBACK")]);
    // Behind a savepoint from which it could write it shares none, and writes by what is committed now.
    client.check(&[("BEGIN", "BEGIN"), ("SAVEPOINT s", "SAVEPOINT"), ("SET TRANSACTION READ ONLY", "SET")]);
    client.check(&[(TOTAL, "9001,9000"), ("ROLLBACK TO s", "ROLLBACK"), (update, "UPDATE 1")]);
    client.check(&[("COMMIT", "COMMIT"), (TOTAL, "9003,9000")]);
}

#[test]
fn definitions_are_those_of_now() {
    let mut client = bank(Configuration::default());
    client.check(&[(TOTAL, "9000,9000")]);
    let mut definer = client.other();
    definer.setup(&[
        "ALTER TABLE account ADD COLUMN note text DEFAULT 'new'",
        "CREATE TABLE later AS SELECT generate_series(1, 10000) AS id",
    ]);
    client.check(&[("SELECT count(note), max(note) FROM account", "9000,new")]);
    client.check(&[("SELECT count(*) FROM later", "10000")]);
    definer.setup(&["DROP TABLE later"]);
    client.check(&[("SELECT count(*) FROM later", "!42P01"), ("SELECT count(note) FROM account", "9000")]);
}

#[test]
fn the_setting_is_a_time() {
    let mut client = bank(Configuration::default());
    client.check(&[("SHOW ankerdb.max_staleness", "1h")]);
    for (value, shown) in [("250", "250ms"), ("'1.5s'", "1500ms"), ("0", "0"), ("DEFAULT", "0")] {
        client.setup(&[&format!("SET ankerdb.max_staleness = {value}")]);
        client.check(&[("SHOW ankerdb.max_staleness", shown)]);
    }
    for wrong in ["'soon'", "-1", "'1 week'"] {
        client.check(&[(&format!("SET ankerdb.max_staleness = {wrong}"), "!22023")]);
    }
    client.check(&[
        ("BEGIN", "BEGIN"),
        ("SET LOCAL ankerdb.max_staleness = '1min'", "SET"),
        ("SHOW ankerdb.max_staleness", "1min"),
        ("COMMIT", "COMMIT"),
        ("SHOW ankerdb.max_staleness", "0"),
    ]);
}

#[test]
fn views_tell_what_was_shared_and_why_not() {
    let mut client = bank(Configuration::default());
    client.check(&[(TOTAL, "9000,9000"), (TOTAL, "9000,9000")]);
    client.setup(&["UPDATE account SET balance = 2 WHERE id = 1"]);
    client.check(&[
        (TOTAL, "9001,9000"),
        (
            "SELECT reason, queries, is_current, columns_lent > 0 FROM ankerdb_shared_snapshots \
             ORDER BY visible_timestamp",
            "first,2,f,t|session has seen more,1,t,t",
        ),
        (
            "SELECT columns_copied > 0, copied_bytes > 0, copy_time > interval '0', oldest_use > interval '0', \
             history_bytes > 0 FROM ankerdb_shared_snapshots ORDER BY visible_timestamp LIMIT 1",
            "t,t,t,t,t",
        ),
        ("SELECT count(*) FROM ankerdb_shared_snapshots WHERE creation_time > now() - interval '1h'", "2"),
        (
            "SELECT is_sharing, queries_shared, snapshots_taken, queries_compared, queries_unshared, made_ahead, \
             pauses_ahead, ended_by_history, history_limit > 0 FROM ankerdb_snapshot_manager",
            "t,1,2,0,0,0,0,0,t",
        ),
    ]);
}
