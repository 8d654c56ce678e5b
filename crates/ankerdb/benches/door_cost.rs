//! What the front door costs: reading and changing one row by its key, through the engine, through tables with handles and with
//! names, and through prepared SQL; by one thread, and by all cores at once, each with rows of its own.
//!
//! ```text
//! cargo bench --workspace --bench door_cost                                  all ways, side by side
//! cargo bench --workspace --bench door_cost -- get-handles [operations]      one way alone, one thread
//! ```
//!
//! All ways run in short turns, in alternating order; figures are medians of the turns. One way alone is for `valgrind
//! --tool=callgrind --collect-atstart=no --toggle-collect='door_cost::run'`, which counts its instructions.

use ankerdb::procedure::{self, ColumnSet, Session};
use ankerdb::{Column, Database, Isolation, Result, Statement, Table};
use ankerdb_engine::IndexPosition;
use ankerdb_measure::arguments::arguments;
use ankerdb_measure::latency::median;
use ankerdb_measure::rounds::variant_of;
use std::sync::{Arc, Barrier};
use std::time::Instant;

const ROWS: i32 = 100_000;
const TURNS: usize = 21;
const OPERATIONS: i32 = 20_000;

/// What one thread works with.
struct Bench {
    db: Database,
    engine: Arc<procedure::Table>,
    session: Session,
    table: Table,
    balance: Column<i64>,
    select: Statement,
    change: Statement,
    /// Its rows: every `threads`-th from this one on.
    first: i32,
    threads: i32,
}

type Way = (&'static str, fn(&mut Bench, i32) -> Result<i64>);

const WAYS: [Way; 8] = [
    ("get-engine", get_engine),
    ("get-handles", get_handles),
    ("get-names", get_names),
    ("get-sql", get_sql),
    ("update-engine", update_engine),
    ("update-handles", update_handles),
    ("update-names", update_names),
    ("update-sql", update_sql),
];

fn main() -> Result<()> {
    let mut arguments = arguments();
    let db = filled()?;
    match arguments.next() {
        Some(name) => {
            let operations = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(OPERATIONS);
            let (_, way) =
                *WAYS.iter().find(|(known, _)| *known == name).expect("get-engine, update-sql, ...");
            run(&mut Bench::new(&db, 0, 1)?, way, operations).map(drop)
        }
        None => compare(&db),
    }
}

/// A database with the rows.
fn filled() -> Result<Database> {
    let db = Database::in_memory()?;
    db.execute("CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL)", ())?;
    let mut load = db.appender("account")?;
    (0..ROWS).try_for_each(|id| load.append_row((id, 0_i64)))?;
    load.finish()?;
    Ok(db)
}

impl Bench {
    fn new(db: &Database, first: i32, threads: i32) -> Result<Bench> {
        let table = db.table("account")?;
        Ok(Bench {
            engine: db.engine().catalog().table("account")?,
            session: db.engine().session(),
            balance: table.column("balance")?,
            select: db.prepare("SELECT balance FROM account WHERE id = $1")?,
            change: db.prepare("UPDATE account SET balance = balance + $1 WHERE id = $2")?,
            table,
            db: db.clone(),
            first,
            threads,
        })
    }

    /// The row of an operation: all of the thread's, in no order that a cache knows.
    fn row(&self, number: i32) -> i32 {
        let own = ROWS / self.threads;
        (i64::from(number) * 7919 % i64::from(own)) as i32 * self.threads + self.first
    }
}

/// Nanoseconds for each operation.
#[inline(never)]
fn run(bench: &mut Bench, way: fn(&mut Bench, i32) -> Result<i64>, operations: i32) -> Result<f64> {
    let begun = Instant::now();
    let mut sum = 0;
    for number in 0..operations {
        let row = bench.row(number);
        sum += way(bench, row)?;
    }
    std::hint::black_box(sum);
    Ok(begun.elapsed().as_nanos() as f64 / f64::from(operations.max(1)))
}

/// Runs all threads at once: nanoseconds for each operation of a thread, in the mean.
fn run_beside(benches: &mut [Bench], way: fn(&mut Bench, i32) -> Result<i64>) -> Result<f64> {
    let (count, barrier) = (benches.len() as f64, Barrier::new(benches.len()));
    let times: Result<Vec<f64>> = std::thread::scope(|scope| {
        let begin = |bench| {
            let barrier = &barrier;
            scope.spawn(move || {
                barrier.wait();
                run(bench, way, OPERATIONS)
            })
        };
        let threads: Vec<_> = benches.iter_mut().map(begin).collect();
        threads.into_iter().map(|thread| thread.join().expect("no thread panics")).collect()
    });
    Ok(times?.iter().sum::<f64>() / count)
}

fn compare(db: &Database) -> Result<()> {
    let threads = std::thread::available_parallelism().map_or(2, |cores| cores.get().max(2));
    let mut alone = Bench::new(db, 0, 1)?;
    let beside = (0..threads as i32).map(|first| Bench::new(db, first, threads as i32));
    let mut beside = beside.collect::<Result<Vec<_>>>()?;
    let mut times = vec![(Vec::new(), Vec::new()); WAYS.len()];
    for turn in 0..TURNS * WAYS.len() {
        let at = variant_of(turn, WAYS.len());
        let (_, way) = WAYS[at];
        times[at].0.push(run(&mut alone, way, OPERATIONS)?);
        times[at].1.push(run_beside(&mut beside, way)?);
    }
    println!(
        "{:<15} {:>12} {:>12} {:>18}",
        "",
        "1 thread",
        format!("{threads} threads"),
        "times as many done"
    );
    for ((name, _), (alone, beside)) in WAYS.iter().zip(&mut times) {
        let (alone, beside) = (median(alone).unwrap_or_default(), median(beside).unwrap_or_default());
        println!("{name:<15} {alone:>9.0} ns {beside:>9.0} ns {:>18.2}", threads as f64 * alone / beside);
    }
    Ok(())
}

fn get_engine(bench: &mut Bench, id: i32) -> Result<i64> {
    let Bench { session, engine, .. } = bench;
    let mut key = Vec::new();
    Ok(session.run(Isolation::Serializable, |transaction| {
        key.clear();
        engine.index(IndexPosition(0)).push_part(0, procedure::Cell::integer(id), &mut key)?;
        let row = transaction.find(engine, IndexPosition(0), &key, ColumnSet::of(&[1]))?;
        Ok(row.map_or(0, |row| transaction.bigint(engine, row, 1)))
    })?)
}

fn update_engine(bench: &mut Bench, id: i32) -> Result<i64> {
    let Bench { session, engine, .. } = bench;
    let mut key = Vec::new();
    Ok(session.run(Isolation::Serializable, |transaction| {
        key.clear();
        engine.index(IndexPosition(0)).push_part(0, procedure::Cell::integer(id), &mut key)?;
        let Some(row) = transaction.find(engine, IndexPosition(0), &key, ColumnSet::of(&[1]))? else {
            return Ok(0);
        };
        let balance = transaction.bigint(engine, row, 1) + 1;
        transaction.update_cells(engine, row, &[(1, procedure::Cell::bigint(balance))])?;
        Ok(balance)
    })?)
}

fn get_handles(bench: &mut Bench, id: i32) -> Result<i64> {
    let Bench { db, table, balance, .. } = bench;
    db.transaction(|tx| match tx.table(&*table)?.get(id)? {
        Some(row) => row.get(*balance),
        None => Ok(0),
    })
}

fn update_handles(bench: &mut Bench, id: i32) -> Result<i64> {
    let Bench { db, table, balance, .. } = bench;
    db.transaction(|tx| {
        let Some(row) = tx.table(&*table)?.get(id)? else { return Ok(0) };
        let changed = row.get(*balance)? + 1;
        row.update([(*balance, changed)])?;
        Ok(changed)
    })
}

fn get_names(bench: &mut Bench, id: i32) -> Result<i64> {
    bench.db.transaction(|tx| match tx.table("account")?.get(id)? {
        Some(row) => row.get("balance"),
        None => Ok(0),
    })
}

fn update_names(bench: &mut Bench, id: i32) -> Result<i64> {
    bench.db.transaction(|tx| {
        let Some(row) = tx.table("account")?.get(id)? else { return Ok(0) };
        let changed = row.get::<i64>("balance")? + 1;
        row.update([("balance", changed)])?;
        Ok(changed)
    })
}

fn get_sql(bench: &mut Bench, id: i32) -> Result<i64> {
    bench.db.query_one(&bench.select, id)?.get(0)
}

fn update_sql(bench: &mut Bench, id: i32) -> Result<i64> {
    Ok(bench.db.execute(&bench.change, (1, id))? as i64)
}
