//! Sessions in the configurations of single execution engines: their level, and what queries see beside transfers.

use crate::client::Client;
use ankerdb_engine::{Configuration, Database};
use ankerdb_sql::{SqlEngine, SqlOptions};
use std::sync::atomic::{AtomicBool, Ordering};

fn engine(configuration: Configuration) -> SqlEngine {
    let options = SqlOptions { olap_threads: 2, memory_limit_bytes: 64 << 20 };
    SqlEngine::new(Database::with(configuration), options).expect("an engine")
}

#[test]
fn sessions_begin_with_the_level_of_the_configuration_and_return_to_it() {
    for (configuration, level) in [
        (Configuration::AnkerDb, "serializable"),
        (Configuration::SeeFs, "serializable"),
        (Configuration::SeeSi, "repeatable read"),
        (Configuration::SeeRu, "read uncommitted"),
    ] {
        let mut client = Client(engine(configuration).session());
        assert_eq!(client.run("SHOW default_transaction_isolation"), level);
        client.run("SET default_transaction_isolation TO 'read committed'");
        assert_eq!(client.run("SHOW default_transaction_isolation"), "read committed");
        for reset in ["RESET default_transaction_isolation", "RESET ALL"] {
            client.run(reset);
            assert_eq!(client.run("SHOW default_transaction_isolation"), level, "{reset}");
        }
    }
}

const ACCOUNTS: i32 = 9_000;

/// Runs transfers in one thread and asks for the total in another; returns how many answers were wrong.
fn wrong_totals(configuration: Configuration, setting: &str) -> usize {
    let engine = engine(configuration);
    let mut client = Client(engine.session());
    client.run("CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL)");
    client.run(&format!("INSERT INTO account SELECT i, 100 FROM generate_series(1, {ACCOUNTS}) AS s(i)"));
    let expected = format!("{ACCOUNTS},{}", ACCOUNTS * 100);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = Client(engine.session());
            let numbers = (1..100).cycle();
            for (from, to) in numbers.map(|number| (number, ACCOUNTS - number * 37 % 100)) {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                writer.run("BEGIN ISOLATION LEVEL SERIALIZABLE");
                writer.run(&format!("UPDATE account SET balance = balance - 1 WHERE id = {from}"));
                writer.run(&format!("UPDATE account SET balance = balance + 1 WHERE id = {to}"));
                writer.run("COMMIT");
            }
        });
        client.run(setting);
        let total = |_: &i32| client.run("SELECT count(*), sum(balance) FROM account") != expected;
        let wrong = (0..150).filter(total).count();
        stop.store(true, Ordering::Relaxed);
        wrong
    })
}

#[test]
fn totals_are_right_beside_transfers_in_all_configurations_that_promise_it() {
    let none = "RESET default_transaction_isolation";
    for configuration in [Configuration::AnkerDb, Configuration::SeeFs, Configuration::SeeSi] {
        assert_eq!(wrong_totals(configuration, none), 0, "{}", configuration.name());
    }
    // The control: the same transfers show where nothing is promised.
    let wrong: usize =
        (0..20).map(|_| wrong_totals(Configuration::SeeRu, none)).find(|wrong| *wrong > 0).unwrap_or(0);
    assert!(wrong > 0, "read uncommitted shows no half transfer in thousands of queries");
    // A session that asks for more than its configuration's level gets it.
    let asked = "SET default_transaction_isolation TO 'repeatable read'";
    assert_eq!(wrong_totals(Configuration::SeeRu, asked), 0);
}
