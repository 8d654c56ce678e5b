//! A bank: threads move money, a report runs beside them, and the sum is the same in every snapshot. Needs no SQL.
//!
//! `cargo run --release -p ankerdb --example bank`

use ankerdb::{Column, ColumnDefinition, DataType, Database, Result, Table, TableDefinition};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ACCOUNTS: i32 = 1_000;
const BALANCE: i64 = 1_000;
const CLERKS: u64 = 4;

fn main() -> Result<()> {
    let db = Database::in_memory()?;
    let definition = TableDefinition::new("account")
        .column(ColumnDefinition::new("id", DataType::Integer))
        .column(ColumnDefinition::new("balance", DataType::BigInt))
        .primary_key(&["id"]);
    let account = db.create_table(definition)?;
    let balance = account.column::<i64>("balance")?;
    let mut load = db.appender("account")?;
    (0..ACCOUNTS).try_for_each(|id| load.append_row((id, BALANCE)))?;
    load.finish()?;

    let (closing, begun) = (AtomicBool::new(false), Instant::now());
    let transfers = std::thread::scope(|scope| {
        let clerks: Vec<_> = (0..CLERKS)
            .map(|number| {
                let (db, account, closing) = (&db, &account, &closing);
                scope.spawn(move || work(db, account, balance, closing, number))
            })
            .collect();
        let mut reports = 0;
        while begun.elapsed() < Duration::from_secs(2) {
            let total = sum(&db, &account, balance)?;
            assert_eq!(total, i64::from(ACCOUNTS) * BALANCE, "no money comes or goes");
            reports += 1;
        }
        closing.store(true, Ordering::Relaxed);
        println!("{reports} reports, each with the right sum");
        clerks.into_iter().map(|clerk| clerk.join().expect("no clerk panics")).sum::<Result<u64>>()
    })?;
    println!("{:.0} transfers per second", transfers as f64 / begun.elapsed().as_secs_f64());
    Ok(())
}

/// One clerk: transfers until the bank closes.
fn work(
    db: &Database,
    account: &Table,
    balance: Column<i64>,
    closing: &AtomicBool,
    seed: u64,
) -> Result<u64> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut transfers = 0;
    while !closing.load(Ordering::Relaxed) {
        let (from, to, amount) = (random.i32(0..ACCOUNTS), random.i32(0..ACCOUNTS), random.i64(1..100));
        let moved = db.transaction(|tx| {
            let account = tx.table(account)?;
            let (Some(from), Some(to)) = (account.get(from)?, account.get(to)?) else { return Ok(false) };
            let available = from.get(balance)?;
            if available < amount {
                return Ok(false);
            }
            from.update([(balance, available - amount)])?;
            to.update([(balance, to.get(balance)? + amount)])?;
            Ok(true)
        })?;
        transfers += u64::from(moved);
    }
    Ok(transfers)
}

/// The report: all balances of one moment.
fn sum(db: &Database, account: &Table, balance: Column<i64>) -> Result<i64> {
    let snapshot = db.snapshot();
    let account = snapshot.table(account)?;
    account.scan().into_iter().map(|row| row?.get(balance)).sum()
}
