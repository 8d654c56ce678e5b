//! What durability costs while a database works. (How fast it is read again: `ankerdb bench recovery`.)
//! `cargo bench -p ankerdb-engine --bench durability -- FOLDER [SESSIONS] [SECONDS]`
//!
//! Three databases with the same rows take turns: in memory, in a folder without checkpoints, and in a folder where one checkpoint follows
//! the other at the rate of the defaults. Each session changes four rows in a transaction and waits for it.

use ankerdb_engine::*;
use ankerdb_measure::arguments::arguments;
use ankerdb_measure::histogram::Histogram;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

const ROWS: i64 = 1_000_000;
const ROUNDS: usize = 5;

/// A database, and what its phases gave.
struct Kind {
    name: &'static str,
    database: Database,
    rates: Vec<f64>,
    p99s: Vec<f64>,
}

fn main() -> Result<()> {
    let mut given = arguments();
    let folder = PathBuf::from(given.next().expect("a folder is given"));
    let mut number = |default| given.next().map_or(default, |text| text.parse().expect("a number"));
    let (sessions, seconds) = (number(16), number(2));
    work(&folder, sessions, Duration::from_secs(seconds as u64))
}

fn durability(folder: &Path, checkpoints: CheckpointOptions) -> Durability {
    Durability { checkpoints, ..Durability::in_folder(folder) }
}

/// Never by itself.
fn never() -> CheckpointOptions {
    CheckpointOptions { log_bytes: u64::MAX / 8, interval: Duration::MAX, bytes_per_second: None }
}

/// One behind the other.
fn always() -> CheckpointOptions {
    CheckpointOptions { interval: Duration::ZERO, ..CheckpointOptions::default() }
}

fn open(folder: &Path, checkpoints: CheckpointOptions) -> Result<Database> {
    Database::open_in(Configuration::default(), &durability(folder, checkpoints), &NoTexts)
}

fn row(id: i64) -> Vec<Value> {
    let text = Value::text(format!("row {id:10} with a text beside its view"));
    vec![Value::BigInt(id), Value::BigInt(id), Value::Integer(1), text]
}

fn create(database: &Database) -> Result<()> {
    let definition = TableDefinition::new("t")
        .column(ColumnDefinition::new("id", DataType::BigInt))
        .column(ColumnDefinition::new("a", DataType::BigInt))
        .column(ColumnDefinition::new("b", DataType::Integer))
        .column(ColumnDefinition::new("c", DataType::Text).nullable())
        .primary_key(&["id"]);
    let table = database.create_table(definition)?;
    let mut session = database.session();
    for start in (0..ROWS).step_by(10_000) {
        session.run(Isolation::RepeatableRead, |transaction| {
            (start..start + 10_000).try_for_each(|id| transaction.insert(&table, row(id)).map(drop))
        })?;
    }
    Ok(())
}

fn work(folder: &Path, sessions: usize, time: Duration) -> Result<()> {
    let kind = |name, database: Database| -> Result<Kind> {
        create(&database)?;
        Ok(Kind { name, database, rates: Vec::new(), p99s: Vec::new() })
    };
    let mut kinds = vec![
        kind("in memory", Database::new())?,
        kind("durable", open(&folder.join("log"), never())?)?,
        kind("durable, checkpoints all the time", open(&folder.join("checkpoints"), always())?)?,
    ];
    for round in 0..ROUNDS {
        for turn in 0..kinds.len() {
            let kind = &mut kinds[(turn + round) % 3];
            let (rate, p99) = phase(&kind.database, sessions, time)?;
            kind.rates.push(rate);
            kind.p99s.push(p99);
        }
    }
    println!(
        "{sessions} sessions, four rows changed in each transaction, medians of {ROUNDS} rounds of {time:?}:"
    );
    let first = median(&kinds[0].rates);
    for Kind { name, database, rates, p99s } in &kinds {
        let (rate, p99) = (median(rates), median(p99s));
        println!("  {name}: {rate:.0} transactions/s ({:.2} of in memory), p99 {p99:.0} us", rate / first);
        if let Some(last) = database.last_checkpoint() {
            let CheckpointReport { number, blocks, blocks_written, bytes_written, duration, .. } = last;
            println!(
                "    checkpoint {number}: {blocks_written} of {blocks} blocks, {} MB in {duration:?}",
                bytes_written >> 20
            );
        }
    }
    let [_, log, checkpoints] = &kinds[..] else { unreachable!("there are three") };
    println!("  p99 with checkpoints to without: {:.2}", median(&checkpoints.p99s) / median(&log.p99s));
    Ok(())
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// Transactions each second, and the 99th percentile of their times in microseconds.
fn phase(database: &Database, sessions: usize, time: Duration) -> Result<(f64, f64)> {
    let table = database.catalog().table("t")?;
    let begin = Instant::now();
    let counted: Vec<Result<Histogram>> = std::thread::scope(|scope| {
        let started: Vec<_> = (0..sessions)
            .map(|number| {
                let (mut session, table) = (database.session(), table.clone());
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(number as u64);
                    let mut latencies = Histogram::default();
                    while begin.elapsed() < time {
                        let ids: [i64; 4] = std::array::from_fn(|_| random.i64(0..ROWS));
                        let start = Instant::now();
                        session
                            .run(Isolation::RepeatableRead, |transaction| change(transaction, &table, ids))?;
                        latencies.record(start.elapsed());
                    }
                    Ok(latencies)
                })
            })
            .collect();
        started.into_iter().map(|thread| thread.join().expect("no session panics")).collect()
    });
    let elapsed = begin.elapsed().as_secs_f64();
    let mut all = Histogram::default();
    for latencies in counted {
        all.add(&latencies?);
    }
    Ok((all.count() as f64 / elapsed, all.quantile_us(0.99)))
}

fn change(transaction: &mut Transaction, table: &Arc<Table>, ids: [i64; 4]) -> Result<()> {
    for id in ids {
        let mut key = Vec::new();
        let (_, index) = table.maintained_indexes().next().expect("it has a key");
        index.encode(&[Value::BigInt(id)], &mut key)?;
        if let Some(row) = transaction.find(table, IndexPosition(0), &key, ColumnSet::EMPTY)? {
            transaction.update(table, row, vec![(1, Value::BigInt(id + 1))])?;
        }
    }
    Ok(())
}
