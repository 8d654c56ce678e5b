//! TPC-H's tables and transactions in every configuration: the same rows, and the same answers after the same changes.

use ankerdb_engine::{Configuration, Database, Value};
use ankerdb_experiment::harness::{ExperimentWatch, Harness};
use ankerdb_experiment::setup::Setup;
use ankerdb_experiment::tpch::TpcH;
use ankerdb_experiment::tpch::queries::{KINDS, SCANS};
use ankerdb_experiment::tpch::transactions::TpchClient;
use ankerdb_measure::machine::Machine;
use ankerdb_sql::{Outcome, SqlEngine, SqlOptions};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const SCALE: f64 = 0.002;

fn setup() -> Setup {
    let second = Duration::from_secs(1);
    Setup {
        warehouses: Vec::new(),
        scale: SCALE,
        oltp: 1,
        olap: 1,
        time: second,
        lead: Duration::ZERO,
        interval: second,
        megabytes: 0,
        users: 0,
        tuples: 0,
        engines: Configuration::available(),
        techniques: Vec::new(),
        members: Vec::new(),
        mechanisms: Vec::new(),
        full: false,
        seed: 1,
    }
}

/// A loaded database, handed to a function.
fn with_world<T>(configuration: Configuration, body: impl FnOnce(&TpcH) -> T) -> T {
    let stop = AtomicBool::new(false);
    let watch = ExperimentWatch { stop: &stop, observer: &|_| () };
    let harness = Harness::new(setup(), Machine::detect(), &watch);
    body(&TpcH::load(&harness, configuration, 1).expect("it loads"))
}

/// The rows of a query, numbers rounded: sums of doubles depend on the order of rows, which loading does not fix.
fn answer(database: &Database, sql: &str) -> Vec<Vec<String>> {
    let options = SqlOptions { olap_threads: 1, memory_limit_bytes: 64 << 20 };
    let mut session = SqlEngine::new(database.clone(), options).expect("an engine").session();
    let statement = session.parse(sql).expect("SQL").remove(0);
    let prepared = session.prepare(statement, &[]).expect("it can be planned");
    let Outcome::Rows(mut rows) = session.execute(&prepared, &[]).expect("it runs") else {
        panic!("no rows")
    };
    let mut found = Vec::new();
    while let Some(batch) = rows.next_batch().expect("it goes on") {
        found.extend(batch.into_iter().map(|row| row.iter().map(text).collect()));
    }
    found
}

fn text(value: &Value) -> String {
    match value {
        Value::Double(double) => format!("{double:.6e}"),
        other => format!("{other:?}"),
    }
}

/// The answers to all queries: for each its rows, as texts.
type Answers = Vec<Vec<Vec<String>>>;

/// All answers before and after the same transactions.
fn answers(configuration: Configuration) -> (Answers, Answers) {
    with_world(configuration, |world| {
        let queries: Vec<String> =
            KINDS.iter().map(|kind| (kind.sql)(&mut fastrand::Rng::with_seed(5))).collect();
        let all = || queries.iter().map(|sql| answer(&world.database, sql)).collect::<Vec<_>>();
        let before = all();
        let (mut client, stop) = (TpchClient::new(world, 42), AtomicBool::new(false));
        for _ in 0..2_000 {
            assert_eq!(client.run_next(&stop).expect("it commits"), 0, "there is no conflict");
        }
        (before, all())
    })
}

#[test]
fn the_tables_have_the_rows_of_the_specification() {
    with_world(Configuration::AnkerDb, |world| {
        let counts =
            [&world.tables.lineitem, &world.tables.orders, &world.tables.part].map(|table| table.row_count());
        assert_eq!(counts[1..], [3_000, 400]);
        assert_eq!(counts[0], world.keys.lineitem.len());
        assert!((3.8..4.2).contains(&(counts[0] as f64 / 3_000.0)), "{} lines", counts[0]);
        // Clause 4.2.3: a line's price is its quantity times the part's price, and that depends on its key alone.
        let wrong = "select count(*) from lineitem, part where p_partkey = l_partkey \
                     and abs(l_extendedprice - l_quantity * p_retailprice) > 0.005";
        assert_eq!(answer(&world.database, wrong), [["BigInt(0)"]]);
        assert_eq!(answer(&world.database, SCANS[2])[0][0], "BigInt(400)");
    });
}

#[test]
fn all_configurations_give_the_same_answers() {
    let (before, after) = answers(Configuration::AnkerDb);
    assert_ne!(before, after, "the transactions change what the queries see");
    assert!(before.iter().all(|rows| !rows.is_empty()));
    for configuration in [Configuration::SeeFs, Configuration::SeeSi, Configuration::SeeRu] {
        let theirs = answers(configuration);
        assert_eq!(theirs.0, before, "{} before", configuration.name());
        assert_eq!(theirs.1, after, "{} after", configuration.name());
    }
}
