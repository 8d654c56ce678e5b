//! What the front door costs: reading and changing one row by its key, through the engine, through tables with handles and with
//! names, and through prepared SQL. A benchmark: `cargo run --release -p ankerdb --example door_cost`.
//!
//! All ways run side by side, in short turns; the result is the median of the turns. `door_cost <way> <operations>` runs one
//! way alone, for `valgrind --tool=callgrind --collect-atstart=no --toggle-collect='door_cost::run'`, which counts its
//! instructions.

use ankerdb::procedure::{self, ColumnSet, Session};
use ankerdb::{Column, Database, Isolation, Result, Statement, Table};
use std::sync::Arc;
use std::time::Instant;

const ROWS: i32 = 100_000;
const TURNS: usize = 21;
const OPERATIONS: i32 = 20_000;

/// What all ways work on.
struct Bench {
    db: Database,
    engine: Arc<procedure::Table>,
    session: Session,
    table: Table,
    balance: Column<i64>,
    select: Statement,
    change: Statement,
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
    let mut arguments = std::env::args().skip(1);
    let mut bench = Bench::new()?;
    match arguments.next() {
        Some(name) => {
            let operations = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(OPERATIONS);
            let (_, way) =
                *WAYS.iter().find(|(known, _)| *known == name).expect("get-engine, update-sql, ...");
            run(&mut bench, way, operations).map(drop)
        }
        None => compare(&mut bench),
    }
}

impl Bench {
    fn new() -> Result<Bench> {
        let db = Database::in_memory()?;
        db.execute("CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL)", ())?;
        let mut load = db.appender("account")?;
        (0..ROWS).try_for_each(|id| load.append_row((id, 0_i64)))?;
        load.finish()?;
        let table = db.table("account")?;
        Ok(Bench {
            engine: db.engine().catalog().table("account")?,
            session: db.engine().session(),
            balance: table.column("balance")?,
            select: db.prepare("SELECT balance FROM account WHERE id = $1")?,
            change: db.prepare("UPDATE account SET balance = balance + $1 WHERE id = $2")?,
            table,
            db,
        })
    }
}

/// Nanoseconds for each operation.
#[inline(never)]
fn run(bench: &mut Bench, way: fn(&mut Bench, i32) -> Result<i64>, operations: i32) -> Result<f64> {
    let begun = Instant::now();
    let mut sum = 0;
    for number in 0..operations {
        sum += way(bench, ((i64::from(number) * 7919) % i64::from(ROWS)) as i32)?;
    }
    std::hint::black_box(sum);
    Ok(begun.elapsed().as_nanos() as f64 / f64::from(operations.max(1)))
}

fn compare(bench: &mut Bench) -> Result<()> {
    let mut times = vec![Vec::new(); WAYS.len()];
    for _ in 0..TURNS {
        for ((_, way), times) in WAYS.iter().zip(&mut times) {
            times.push(run(bench, *way, OPERATIONS)?);
        }
    }
    for ((name, _), times) in WAYS.iter().zip(&mut times) {
        times.sort_unstable_by(f64::total_cmp);
        println!("{name:<15} {:>6.0} ns", times[TURNS / 2]);
    }
    Ok(())
}

fn get_engine(bench: &mut Bench, id: i32) -> Result<i64> {
    let Bench { session, engine, .. } = bench;
    let mut key = Vec::new();
    Ok(session.run(Isolation::Serializable, |transaction| {
        key.clear();
        engine.index(0).push_part(0, procedure::Cell::integer(id), &mut key)?;
        let row = transaction.find(engine, 0, &key, ColumnSet::of(&[1]))?;
        Ok(row.map_or(0, |row| transaction.bigint(engine, row, 1)))
    })?)
}

fn update_engine(bench: &mut Bench, id: i32) -> Result<i64> {
    let Bench { session, engine, .. } = bench;
    let mut key = Vec::new();
    Ok(session.run(Isolation::Serializable, |transaction| {
        key.clear();
        engine.index(0).push_part(0, procedure::Cell::integer(id), &mut key)?;
        let Some(row) = transaction.find(engine, 0, &key, ColumnSet::of(&[1]))? else { return Ok(0) };
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
