//! How long a large commit holds up other commits: one session inserts, updates and deletes 1,000,000 rows, each in
//! one transaction, while another one commits a row every millisecond. A commit that comes late because the one
//! before it was held up counts from when it was due.
//! `cargo bench -p ankerdb-engine --bench large_commit [-- --text]`

use ankerdb_engine::*;
use ankerdb_measure::arguments::arguments;
use ankerdb_measure::latency::Latencies;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ROWS: i64 = 1_000_000;
const PERIOD: Duration = Duration::from_millis(1);
const LONG_TEXT: &str = "longer than what a view holds in place";

fn main() -> Result<()> {
    let with_text = arguments().any(|argument| argument == "--text");
    let database = Database::new();
    let large = TableDefinition::new("large")
        .column(ColumnDefinition::new("id", DataType::BigInt))
        .column(ColumnDefinition::new("a", DataType::BigInt))
        .column(ColumnDefinition::new("b", DataType::Integer))
        .column(ColumnDefinition::new("c", DataType::Text).nullable())
        .primary_key(&["id"]);
    let large = database.create_table(large)?;
    let small = TableDefinition::new("small").column(ColumnDefinition::new("id", DataType::BigInt));
    let small = database.create_table(small.primary_key(&["id"]))?;
    let text = || if with_text { Value::Text(LONG_TEXT.into()) } else { Value::Null };
    let mut rows = Vec::new();
    measure(&database, &small, "insert", |transaction| {
        rows.clear();
        for id in 0..ROWS {
            let values = vec![Value::BigInt(id), Value::BigInt(id), Value::Integer(1), text()];
            transaction.insert(&large, values)?;
        }
        Ok(())
    })?;
    database.session().run(Isolation::RepeatableRead, |transaction| {
        rows.clear();
        transaction.scan_table(&large, ColumnSet::ALL, None, &mut |_, row| {
            rows.push(row);
            Ok(std::ops::ControlFlow::Continue(()))
        })
    })?;
    measure(&database, &small, "update", |transaction| {
        rows.iter().try_for_each(|&row| {
            transaction.update(&large, row, vec![(1, Value::BigInt(7)), (2, Value::Integer(2)), (3, text())])
        })
    })?;
    measure(&database, &small, "delete", |transaction| {
        rows.iter().try_for_each(|&row| transaction.delete(&large, row))
    })
}

/// Prepares a transaction, then commits it while another session commits.
fn measure(
    database: &Database,
    small: &Arc<Table>,
    name: &str,
    write: impl FnOnce(&mut Transaction) -> Result<()>,
) -> Result<()> {
    let mut session = database.session();
    let mut transaction = session.begin(Isolation::RepeatableRead);
    write(&mut transaction)?;
    let (ready, done) = (AtomicBool::new(false), AtomicBool::new(false));
    let (lasted, latencies) = std::thread::scope(|scope| {
        let probe = scope.spawn(|| probe(database, small, &ready, &done));
        while !ready.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        let begin = Instant::now();
        let outcome = transaction.commit();
        let lasted = begin.elapsed();
        done.store(true, Ordering::Release);
        (outcome.map(|_| lasted), probe.join().expect("the probe does not panic"))
    });
    println!(
        "{name}: commit of {ROWS} rows {:?}; {} commits beside it: p50 {:.1} us, p99 {:.1} us, longest {:.1} us",
        lasted?,
        latencies.count(),
        latencies.quantile_us(0.5),
        latencies.quantile_us(0.99),
        latencies.max_ns() as f64 / 1e3
    );
    Ok(())
}

fn probe(database: &Database, small: &Arc<Table>, ready: &AtomicBool, done: &AtomicBool) -> Latencies {
    let mut session = database.session();
    let first = small.row_count() as i64;
    let mut latencies = Latencies::default();
    ready.store(true, Ordering::Release);
    let mut due = Instant::now();
    while !done.load(Ordering::Acquire) {
        let now = Instant::now();
        if due > now {
            std::thread::sleep(due - now);
        }
        let id = first + latencies.count() as i64;
        session
            .run(Isolation::Serializable, |transaction| transaction.insert(small, vec![Value::BigInt(id)]))
            .expect("no other session inserts here");
        latencies.record(due.elapsed());
        due += PERIOD;
    }
    latencies
}
