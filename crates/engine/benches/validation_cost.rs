//! What validation costs: the validating transaction, and all others.
//!
//! ```text
//! cargo bench -p ankerdb-engine --bench validation_cost -- short 100000
//! cargo bench -p ankerdb-engine --bench validation_cost -- long
//! ```
//!
//! `short` runs so many transactions of ten finds and five updates, alone: for counting instructions. `long` lets one
//! transaction read 200,000 rows while 10,000 others commit, and then commit itself, again and again, while a probe
//! commits single rows; prints how long the validator's commits and the probe's took.

use ankerdb_engine::*;
use ankerdb_measure::arguments::arguments;
use ankerdb_measure::latency::Latencies;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ROWS: i32 = 200_000;
const COMMITS: i32 = 10_000;
const ROUNDS: usize = 5;

fn table(database: &Database, name: &str, rows: i32) -> Result<Arc<Table>> {
    let definition = TableDefinition::new(name)
        .column(ColumnDefinition::new("id", DataType::Integer))
        .column(ColumnDefinition::new("a", DataType::BigInt))
        .primary_key(&["id"]);
    let table = database.create_table(definition)?;
    database.session().run(Isolation::RepeatableRead, |transaction| {
        (0..rows).try_for_each(|id| {
            transaction.insert(&table, vec![Value::Integer(id), Value::BigInt(0)]).map(drop)
        })
    })?;
    Ok(table)
}

fn find(transaction: &mut Transaction, table: &Arc<Table>, id: i32) -> Result<RowId> {
    let mut key = Vec::with_capacity(8);
    table.index(IndexPosition(0)).encode(&[Value::Integer(id)], &mut key)?;
    Ok(transaction.find(table, IndexPosition(0), &key, ColumnSet::of(&[1]))?.expect("the row is there"))
}

fn add_one(transaction: &mut Transaction, table: &Arc<Table>, id: i32) -> Result<()> {
    let row = find(transaction, table, id)?;
    let a = transaction.bigint(table, row, 1);
    transaction.update(table, row, vec![(1, Value::BigInt(a + 1))])
}

fn short(transactions: i32) -> Result<()> {
    let database = Database::new();
    let table = table(&database, "items", 10_000)?;
    let mut session = database.session();
    for turn in 0..transactions {
        session.run(Isolation::Serializable, |transaction| {
            let first = turn * 17 % 9_000;
            (0..5).try_for_each(|place| find(transaction, &table, first + place).map(drop))?;
            (5..10).try_for_each(|place| add_one(transaction, &table, first + place))
        })?;
    }
    Ok(())
}

/// Commits single rows until told to stop; how long each commit took.
fn probe(database: &Database, table: &Arc<Table>, stop: &AtomicBool) -> Result<Latencies> {
    let mut session = database.session();
    let mut took = Latencies::default();
    while !stop.load(Ordering::Relaxed) {
        let mut transaction = session.begin(Isolation::Serializable);
        add_one(&mut transaction, table, 0)?;
        let began = Instant::now();
        transaction.commit()?;
        took.record(began.elapsed());
        std::thread::sleep(Duration::from_micros(100));
    }
    Ok(took)
}

/// Reads all rows, lets others commit, and commits; how long the commit took.
fn validate(database: &Database, read: &Arc<Table>, other: &Arc<Table>) -> Result<Duration> {
    let mut session = database.session();
    let mut transaction = session.begin(Isolation::Serializable);
    for id in 0..ROWS {
        find(&mut transaction, read, id)?;
    }
    let mut others = database.session();
    for _ in 0..COMMITS {
        others.run(Isolation::RepeatableRead, |transaction| add_one(transaction, other, 1))?;
    }
    add_one(&mut transaction, read, 7)?;
    let began = Instant::now();
    transaction.commit()?;
    Ok(began.elapsed())
}

fn long() -> Result<()> {
    let database = Database::new();
    let (read, other, probed) =
        (table(&database, "read", ROWS)?, table(&database, "other", 10)?, table(&database, "probed", 10)?);
    let stop = AtomicBool::new(false);
    let (validated, probed) = std::thread::scope(|scope| {
        let probe = scope.spawn(|| probe(&database, &probed, &stop));
        let validated: Result<Vec<_>> = (0..ROUNDS).map(|_| validate(&database, &read, &other)).collect();
        stop.store(true, Ordering::Relaxed);
        (validated, probe.join().expect("the probe ends"))
    });
    println!("validating commits: {:?}", validated?);
    let probed = probed?;
    let [median, p99] = [0.5, 0.99].map(|share| probed.quantile_us(share));
    let (count, longest) = (probed.count(), probed.max_ns() as f64 / 1e3);
    println!("{count} probing commits: median {median:.1} us, p99 {p99:.1} us, longest {longest:.1} us");
    Ok(())
}

fn main() -> Result<()> {
    let arguments: Vec<String> = arguments().collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["short", transactions] => short(transactions.parse().expect("a number of transactions")),
        ["long"] => long(),
        _ => panic!("short <transactions>, or long"),
    }
}
