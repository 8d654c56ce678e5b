//! What the hot path costs: one thread, then several, updating and reading rows by key; and snapshots meanwhile.
//! `cargo bench -p ankerdb-engine --bench hot_path`

use ankerdb_engine::*;
use ankerdb_measure::latency::Latencies;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ROWS: i32 = 400_000;

fn main() -> Result<()> {
    let database = Database::new();
    let mut stock = TableDefinition::new("stock").column(ColumnDefinition::new("id", DataType::Integer));
    for column in ["quantity", "ytd", "orders", "remote"] {
        stock = stock.column(ColumnDefinition::new(column, DataType::Integer));
    }
    let stock = database.create_table(stock.primary_key(&["id"]))?;
    let begin = Instant::now();
    let mut session = database.session();
    for start in (0..ROWS).step_by(1000) {
        session.run(Isolation::RepeatableRead, |transaction| {
            for id in start..start + 1000 {
                let row = (0..5).map(|_| Value::Integer(id)).collect();
                transaction.insert(&stock, row)?;
            }
            Ok(())
        })?;
    }
    println!("load: {:.0} rows/s", ROWS as f64 / begin.elapsed().as_secs_f64());
    for threads in [1, 2, 4] {
        for isolation in [Isolation::ReadUncommitted, Isolation::RepeatableRead, Isolation::Serializable] {
            run(&database, &stock, threads, isolation);
        }
    }
    Ok(())
}

fn run(database: &Database, stock: &std::sync::Arc<Table>, threads: usize, isolation: Isolation) {
    let stop = AtomicBool::new(false);
    let mut creation = Latencies::default();
    let commits: u64 = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|number| {
                let (stop, mut session) = (&stop, database.session());
                scope.spawn(move || {
                    let mut seed = number as u64 + 1;
                    let mut commits = 0;
                    let mut key = Vec::new();
                    while !stop.load(Ordering::Relaxed) {
                        session
                            .run(isolation, |transaction| {
                                for _ in 0..10 {
                                    seed = seed
                                        .wrapping_mul(6364136223846793005)
                                        .wrapping_add(1442695040888963407);
                                    key.clear();
                                    ankerdb_value::push_integer(
                                        &mut key,
                                        ((seed >> 33) % ROWS as u64) as i32,
                                    );
                                    let row = transaction.find(
                                        stock,
                                        IndexPosition(0),
                                        &key,
                                        ColumnSet::of(&[1]),
                                    )?;
                                    let row = row.expect("all rows exist");
                                    let quantity = transaction.integer(stock, row, 1);
                                    let changes =
                                        (1..5).map(|column| (column, Value::Integer(quantity ^ 1))).collect();
                                    transaction.update(stock, row, changes)?;
                                }
                                Ok(())
                            })
                            .expect("conflicts are retried");
                        commits += 1;
                    }
                    commits
                })
            })
            .collect();
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(2) {
            let before = Instant::now();
            let snapshot = database.snapshot();
            creation.record(before.elapsed());
            drop(snapshot);
            std::thread::sleep(Duration::from_micros(200));
        }
        stop.store(true, Ordering::Relaxed);
        workers.into_iter().map(|worker| worker.join().expect("workers do not panic")).sum()
    });
    println!(
        "{threads} threads, {isolation:?}: {} commits/s of 10 updates; snapshot p50 {} ns, p99 {} ns",
        commits / 2,
        creation.quantile_ns(0.5),
        creation.quantile_ns(0.99)
    );
}
