//! Sessions in every configuration that the machine can run: their level, and what queries see beside transfers.

use crate::client::Client;
use ankerdb_engine::{Configuration, Database};
use ankerdb_sql::{SqlEngine, SqlOptions};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

fn engine(configuration: Configuration) -> SqlEngine {
    let options = SqlOptions { olap_threads: 2, memory_limit_bytes: 64 << 20 };
    SqlEngine::new(Database::with(configuration), options).expect("an engine")
}

#[test]
fn sessions_begin_with_the_level_of_the_configuration_and_return_to_it() {
    for configuration in Configuration::available() {
        let level = match configuration {
            Configuration::SeeSi => "repeatable read",
            Configuration::SeeRu => "read uncommitted",
            _ => "serializable",
        };
        let mut client = Client(engine(configuration).session());
        let name = configuration.name();
        assert_eq!(client.run("SHOW default_transaction_isolation"), level, "{name}");
        client.check(&[
            ("SET default_transaction_isolation TO 'read committed'", "SET"),
            ("SHOW default_transaction_isolation", "read committed"),
        ]);
        for reset in ["RESET default_transaction_isolation", "RESET ALL"] {
            client.check(&[(reset, "RESET"), ("SHOW default_transaction_isolation", level)]);
        }
    }
}

const ACCOUNTS: i32 = 9_000;
/// Looks at the total, in every configuration and in the control alike.
const LOOKS: usize = 500;
/// Looks at most while too few transfers have been committed or the control has yet to find half of one: how looks and commits
/// meet is the scheduler's choice.
const LOOKS_MAX: usize = 200 * LOOKS;
/// Transfers that must have been committed beside them, or the looks show little.
const TRANSFERS_MIN: u64 = 500;

/// What became of transfers.
#[derive(Default)]
struct Transfers {
    committed: AtomicU64,
    /// Failed to serialize, and were run again.
    failed: AtomicU64,
}

impl Transfers {
    /// Moves money between the first rows and the last ones, which lie in different blocks, until told to stop. Every statement's
    /// outcome is one that there can be.
    fn run(&self, engine: &SqlEngine, stop: &AtomicBool) {
        let mut client = Client(engine.session());
        for number in 1.. {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let (from, to) = (1 + number % 99, ACCOUNTS - number * 37 % 100);
            // Should it never succeed, the reader will miss the transfers.
            while !self.transfer(&mut client, from, to) && !stop.load(Ordering::Relaxed) {
                self.failed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// One transfer; whether it was committed.
    fn transfer(&self, client: &mut Client, from: i32, to: i32) -> bool {
        client.check(&[("BEGIN ISOLATION LEVEL SERIALIZABLE", "BEGIN")]);
        for (change, id) in [("- 1", from), ("+ 1", to)] {
            let update = format!("UPDATE account SET balance = balance {change} WHERE id = {id}");
            match client.run(&update).as_str() {
                "UPDATE 1" => {}
                "!40001" => {
                    client.check(&[("ROLLBACK", "ROLLBACK")]);
                    return false;
                }
                other => panic!("{update}: {other}"),
            }
        }
        match client.run("COMMIT").as_str() {
            "COMMIT" => {
                self.committed.fetch_add(1, Ordering::Relaxed);
                true
            }
            "!40001" => false,
            other => panic!("COMMIT: {other}"),
        }
    }
}

/// Ends the transfers also when a look fails.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Looks at the total while transfers run, for as long as a wrong one is `wanted` and has not been seen; returns how many were wrong.
fn wrong_totals(configuration: Configuration, setting: (&str, &str), wanted: bool) -> usize {
    let (engine, name) = (engine(configuration), configuration.name());
    let mut client = Client(engine.session());
    client.check(&[
        ("CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL)", "CREATE TABLE"),
        (
            &format!("INSERT INTO account SELECT i, 100 FROM generate_series(1, {ACCOUNTS}) AS s(i)"),
            &format!("INSERT 0 {ACCOUNTS}"),
        ),
        setting,
    ]);
    let (stop, transfers) = (AtomicBool::new(false), Transfers::default());
    let expected = format!("{ACCOUNTS},{}", ACCOUNTS * 100);
    let wrong = std::thread::scope(|scope| {
        scope.spawn(|| transfers.run(&engine, &stop));
        let _stop = StopOnDrop(&stop);
        let (mut looks, mut wrong) = (0, 0);
        let enough =
            |wrong| transfers.committed.load(Ordering::Relaxed) >= TRANSFERS_MIN && (wrong > 0 || !wanted);
        while looks < LOOKS || looks < LOOKS_MAX && !enough(wrong) {
            let total = client.run("SELECT count(*), sum(balance) FROM account");
            assert!(total.starts_with(&format!("{ACCOUNTS},")), "{name}: {total}");
            wrong += usize::from(total != expected);
            looks += 1;
        }
        wrong
    });
    let (committed, failed) = (transfers.committed.into_inner(), transfers.failed.into_inner());
    assert!(committed >= TRANSFERS_MIN, "{name}: {committed} transfers beside {LOOKS_MAX} looks");
    // One client changes these rows, and queries change nothing, so it has no conflicts.
    assert_eq!(failed, 0, "{name}: of {committed} transfers");
    let (total, seen) = (Client(engine.session()).run("SELECT sum(balance) FROM account"), wrong);
    assert_eq!(total, (ACCOUNTS * 100).to_string(), "{name}: when all is quiet");
    seen
}

/// The control is one of them: the same looks at the same transfers show half of one where nothing is promised.
#[test]
fn totals_are_right_beside_transfers_in_all_configurations_that_promise_it_and_wrong_in_the_other() {
    let reset = ("RESET default_transaction_isolation", "RESET");
    for configuration in Configuration::available() {
        let promises = configuration != Configuration::SeeRu;
        assert_eq!(wrong_totals(configuration, reset, !promises) == 0, promises, "{}", configuration.name());
    }
    // A session that asks for more than its configuration's level gets it.
    let asked = ("SET default_transaction_isolation TO 'repeatable read'", "SET");
    assert_eq!(wrong_totals(Configuration::SeeRu, asked, false), 0);
}
