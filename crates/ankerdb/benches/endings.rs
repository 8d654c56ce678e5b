//! How long it takes to be rid of a large transaction that ends in the middle of its work: `cargo bench -p ankerdb
//! --no-default-features --bench endings -- [rows]`, a million rows if nothing is said.
//!
//! A transaction inserts rows into an empty table and ends; the time is that from its end to when its caller goes on. `work` is
//! what it had taken until then, `next` the first transaction of somebody else.

use ankerdb::*;
use ankerdb_measure::arguments::arguments;
use ankerdb_measure::latency::median;
use ankerdb_measure::rounds::variant_of;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::time::Instant;

const ROUNDS: usize = 5;

/// Works on an empty table, ends, and has told when it did.
type Ending = fn(&Database, i32, &Cell<Option<Instant>>) -> Result<()>;

const ENDINGS: [(&str, Ending); 5] = [
    ("panic in a procedure", |db, rows, ends| {
        let caught = catch_unwind(AssertUnwindSafe(|| {
            db.transaction(|tx| -> Result<()> {
                insert(tx, rows)?;
                ends.set(Some(Instant::now()));
                panic!("on purpose")
            })
        }));
        assert!(caught.is_err());
        Ok(())
    }),
    ("interrupt of a procedure", |db, rows, ends| {
        let handle = db.interrupt_handle();
        let ended = db.transaction(|tx| {
            insert(tx, rows)?;
            ends.set(Some(Instant::now()));
            handle.interrupt();
            insert(tx, rows)
        });
        assert_eq!(ended.expect_err("interrupted").sqlstate(), SqlState::QueryCanceled);
        Ok(())
    }),
    ("appender cut off", |db, rows, ends| {
        let mut appender = db.appender("reading")?.rows_per_transaction(usize::MAX);
        (0..rows).try_for_each(|id| appender.append_row((id, f64::from(id))))?;
        ends.set(Some(Instant::now()));
        drop(appender);
        Ok(())
    }),
    ("transaction dropped", |db, rows, ends| {
        let tx = db.begin()?;
        insert(&tx, rows)?;
        ends.set(Some(Instant::now()));
        drop(tx);
        Ok(())
    }),
    ("commit, to compare", |db, rows, ends| {
        let tx = db.begin()?;
        insert(&tx, rows)?;
        ends.set(Some(Instant::now()));
        tx.commit()
    }),
];

fn insert(tx: &Transaction, rows: i32) -> Result<()> {
    let table = tx.table("reading")?;
    (0..rows).try_for_each(|id| table.insert((id, f64::from(id))))
}

/// Milliseconds of the work, of the end, and of the next transaction.
fn measured(ending: Ending, rows: i32) -> Result<[f64; 3]> {
    let db = Database::in_memory()?;
    let reading = TableDefinition::new("reading")
        .column(ColumnDefinition::new("id", DataType::Integer))
        .column(ColumnDefinition::new("value", DataType::DoublePrecision))
        .primary_key(&["id"]);
    db.create_table(reading)?;
    let (begun, ends) = (Instant::now(), Cell::new(None));
    ending(&db, rows, &ends)?;
    let (ended, done) = (ends.get().expect("it has told when it ended"), Instant::now());
    db.transaction(|tx| tx.table("reading")?.insert((-1, 0.0)))?;
    let times = [ended - begun, done - ended, done.elapsed()];
    Ok(times.map(|time| time.as_secs_f64() * 1e3))
}

fn main() -> Result<()> {
    let rows = arguments().next().map_or(1_000_000, |rows| rows.parse().expect("a number of rows"));
    // A panic on purpose is not worth a message.
    set_hook(Box::new(|_| ()));
    let mut times = vec![Vec::new(); ENDINGS.len()];
    for turn in 0..ROUNDS * ENDINGS.len() {
        let ending = variant_of(turn, ENDINGS.len());
        times[ending].push(measured(ENDINGS[ending].1, rows)?);
    }
    println!("{rows} rows, ms, medians of {ROUNDS}");
    println!("{:<26} {:>10} {:>10} {:>10}", "", "work", "end", "next");
    for ((name, _), times) in ENDINGS.iter().zip(&times) {
        let of = |part: usize| median(&mut times.iter().map(|time| time[part]).collect::<Vec<_>>());
        let [work, end, next] = [0, 1, 2].map(|part| of(part).unwrap_or_default());
        println!("{name:<26} {work:>10.0} {end:>10.1} {next:>10.2}");
    }
    Ok(())
}
