//! Whether large work holds up small commits: while a probe commits a row every millisecond, others do large work, first
//! one after the other and then all at once. As a control the probe also runs beside threads that only compute, as many as
//! there are others, which shows how long it waits for the processor.
//!
//! - a load: 1,000,000 new rows in one transaction, as COPY and INSERT ... SELECT make them
//! - a validation: 200,000 rows read at SERIALIZABLE, against 10,000 commits of others
//! - a truncation: all 1,000,000 rows of a table deleted in one transaction, as TRUNCATE does
//!
//! A commit that comes late because the one before it was held up counts from when it was due.
//! `cargo bench -p ankerdb-engine --bench side_by_side`

use ankerdb_engine::*;
use ankerdb_measure::latency::Latencies;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ROWS: i64 = 1_000_000;
const READ: i64 = 200_000;
const COMMITS: i64 = 10_000;
const PERIOD: Duration = Duration::from_millis(1);
/// How long the control computes.
const CONTROL: Duration = Duration::from_secs(4);

struct Stage {
    database: Database,
    loaded: Arc<Table>,
    truncated: Arc<Table>,
    read: Arc<Table>,
    written: Arc<Table>,
    probed: Arc<Table>,
}

impl Stage {
    fn new() -> Result<Stage> {
        let database = Database::new();
        let table = |name: &str, rows: i64| {
            let definition = TableDefinition::new(name)
                .column(ColumnDefinition::new("id", DataType::BigInt))
                .column(ColumnDefinition::new("a", DataType::BigInt))
                .primary_key(&["id"]);
            let table = database.create_table(definition)?;
            insert(&database, &table, rows)?;
            Ok(table)
        };
        let (loaded, truncated) = (table("loaded", 0)?, table("truncated", ROWS)?);
        let (read, written, probed) = (table("read", READ)?, table("written", 10)?, table("probed", 10)?);
        Ok(Stage { loaded, truncated, read, written, probed, database })
    }

    fn load(&self) -> Result<()> {
        insert(&self.database, &self.loaded, ROWS)
    }

    fn truncate(&self) -> Result<()> {
        self.database.session().run(Isolation::ReadCommitted, |transaction| {
            let mut rows = Vec::new();
            transaction.scan_table(&self.truncated, ColumnSet::EMPTY, None, &mut |_, row| {
                rows.push(row);
                Ok(ControlFlow::Continue(()))
            })?;
            rows.iter().try_for_each(|&row| transaction.delete(&self.truncated, row))
        })?;
        assert_eq!(self.truncated.row_count(), 0);
        Ok(())
    }

    fn validate(&self) -> Result<()> {
        let mut session = self.database.session();
        let mut transaction = session.begin(Isolation::Serializable);
        for id in 0..READ {
            find(&mut transaction, &self.read, id)?;
        }
        let mut others = self.database.session();
        for commit in 0..COMMITS {
            others.run(Isolation::RepeatableRead, |other| write(other, &self.written, commit % 10))?;
        }
        write(&mut transaction, &self.read, 7)?;
        transaction.commit().map(drop)
    }

    /// Commits rows until told to stop; how late each commit was done.
    fn probe(&self, stop: &AtomicBool) -> Result<Latencies> {
        let mut session = self.database.session();
        let (mut late, mut due) = (Latencies::default(), Instant::now());
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            let id = late.count() as i64 % 10;
            session.run(Isolation::Serializable, |transaction| write(transaction, &self.probed, id))?;
            late.record(due.elapsed());
            due += PERIOD;
        }
        Ok(late)
    }

    /// Runs all of these at once beside the probe, and prints how late its commits were.
    fn beside(&self, name: &str, all: &[&(dyn Fn() -> Result<()> + Sync)]) -> Result<()> {
        let stop = AtomicBool::new(false);
        let (lasted, late) = std::thread::scope(|scope| {
            let probe = scope.spawn(|| self.probe(&stop));
            let begun = Instant::now();
            let others: Vec<_> = all.iter().map(|other| scope.spawn(other)).collect();
            let outcome: Result<Vec<()>> =
                others.into_iter().map(|other| other.join().expect("it does not panic")).collect();
            let lasted = begun.elapsed();
            stop.store(true, Ordering::Relaxed);
            (outcome.map(|_| lasted), probe.join().expect("the probe does not panic"))
        });
        let (lasted, late) = (lasted?, late?);
        let [p50, p99] = [0.5, 0.99].map(|share| late.quantile_us(share));
        let (count, longest) = (late.count(), late.max_ns() as f64 / 1e3);
        println!(
            "{name}: {lasted:.1?}; {count} commits beside it: p50 {p50:.1} us, p99 {p99:.1} us, longest {longest:.1} us"
        );
        Ok(())
    }
}

fn insert(database: &Database, table: &Arc<Table>, rows: i64) -> Result<()> {
    database.session().run(Isolation::ReadCommitted, |transaction| {
        (0..rows)
            .try_for_each(|id| transaction.insert(table, vec![Value::BigInt(id), Value::BigInt(0)]).map(drop))
    })
}

fn find(transaction: &mut Transaction, table: &Arc<Table>, id: i64) -> Result<RowId> {
    let mut key = Vec::with_capacity(8);
    table.index(IndexPosition(0)).encode(&[Value::BigInt(id)], &mut key)?;
    Ok(transaction.find(table, IndexPosition(0), &key, ColumnSet::of(&[1]))?.expect("the row is there"))
}

fn write(transaction: &mut Transaction, table: &Arc<Table>, id: i64) -> Result<()> {
    let row = find(transaction, table, id)?;
    let a = transaction.bigint(table, row, 1);
    transaction.update(table, row, vec![(1, Value::BigInt(a + 1))])
}

fn compute() -> Result<()> {
    let begun = Instant::now();
    while begun.elapsed() < CONTROL {
        std::hint::black_box((0..100_000u64).fold(0, |sum, number| sum ^ number.wrapping_mul(sum | 1)));
    }
    Ok(())
}

fn main() -> Result<()> {
    let idle = || {
        std::thread::sleep(CONTROL);
        Ok(())
    };
    Stage::new()?.beside("nothing", &[&idle])?;
    Stage::new()?.beside("one that computes", &[&compute])?;
    Stage::new()?.beside("three that compute", &[&compute, &compute, &compute])?;
    let stage = Stage::new()?;
    stage.beside("load", &[&|| stage.load()])?;
    stage.beside("validation", &[&|| stage.validate()])?;
    stage.beside("truncation", &[&|| stage.truncate()])?;
    let stage = Stage::new()?;
    stage.beside("all three", &[&|| stage.load(), &|| stage.validate(), &|| stage.truncate()])
}
