//! What a transaction of many rows costs, as a procedure and as an interactive transaction, which locks rows and checks
//! keys as it goes, and when it is rolled back.
//! `cargo bench -p ankerdb-engine --bench large_transaction -- 1000000`

use ankerdb_engine::*;
use ankerdb_measure::arguments::arguments;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The number of rows, and whether to lock them first.
type Work = fn(&mut Transaction, &Arc<Table>, (i32, bool)) -> Result<()>;

/// What is run, and on how many existing rows.
const WORKS: [(&str, bool, Work); 8] = [
    ("insert, keys ascending", false, |transaction, table, (rows, _)| insert(transaction, table, 0..rows)),
    ("insert, keys descending", false, |transaction, table, (rows, _)| {
        insert(transaction, table, (0..rows).rev())
    }),
    ("insert, keys mixed", false, |transaction, table, (rows, _)| {
        insert(transaction, table, (0..rows).map(|id| (id.wrapping_mul(0x2C1B_3C6D) as u32 >> 1) as i32))
    }),
    ("update in one scan", true, update_all),
    ("update by as many statements", true, |transaction, table, (rows, locks)| {
        each(transaction, table, (rows, locks), |transaction, row, id| {
            transaction.update(table, row, vec![(1, Value::BigInt(i64::from(id)))])
        })
    }),
    ("new keys by as many statements", true, |transaction, table, (rows, locks)| {
        each(transaction, table, (rows, locks), |transaction, row, id| {
            transaction.update(table, row, vec![(0, Value::Integer(id - rows))])
        })
    }),
    ("delete by as many statements", true, |transaction, table, (rows, locks)| {
        each(transaction, table, (rows, locks), |transaction, row, _| transaction.delete(table, row))
    }),
    ("delete all, insert the same", true, |transaction, table, (rows, locks)| {
        each(transaction, table, (rows, locks), |transaction, row, _| transaction.delete(table, row))?;
        insert(transaction, table, 0..rows)
    }),
];

fn main() -> Result<()> {
    let mut arguments = arguments();
    let rows = arguments.next().map_or(100_000, |rows| rows.parse().expect("a number of rows"));
    let wanted = arguments.next().unwrap_or_default();
    let names = ["procedure", "interactive", "rolled back", "taken back"].map(|name| format!("{name:>12}"));
    println!("{:<34} {}   {rows} rows, ms", "", names.concat());
    for (name, filled, work) in WORKS.into_iter().filter(|(name, ..)| name.contains(&wanted)) {
        let procedure = timed(rows, filled, |session, table| {
            session.try_run(Isolation::RepeatableRead, |transaction| work(transaction, table, (rows, false)))
        })?;
        let interactive = timed(rows, filled, |session, table| {
            let mut transaction = session.begin(Isolation::RepeatableRead);
            work(&mut transaction, table, (rows, true))?;
            transaction.commit().map(drop)
        })?;
        // All of the work, and then a rollback; and a commit that fails at its last key, and takes back what it has done.
        let rolled_back = timed(rows, filled, |session, table| {
            let mut transaction = session.begin(Isolation::RepeatableRead);
            work(&mut transaction, table, (rows, true))?;
            transaction.rollback();
            Ok(())
        })?;
        let taken_back = timed(rows, filled, |session, table| {
            let failed = session.try_run(Isolation::RepeatableRead, |transaction| {
                work(transaction, table, (rows, false))?;
                insert(transaction, table, [i32::MIN, i32::MIN].into_iter())
            });
            assert_eq!(failed.expect_err("a key cannot be there twice").state(), SqlState::UniqueViolation);
            Ok(())
        })?;
        let figures = [procedure, interactive, rolled_back, taken_back];
        let figures = figures.map(|time| format!("{:>12.0}", millis(time)));
        println!("{name:<34} {}", figures.concat());
    }
    if "hash duplicates".contains(&wanted) {
        duplicates(rows)?;
    }
    Ok(())
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn timed(
    rows: i32,
    filled: bool,
    work: impl Fn(&mut Session, &Arc<Table>) -> Result<()>,
) -> Result<Duration> {
    let database = Database::new();
    let table = TableDefinition::new("item")
        .column(ColumnDefinition::new("id", DataType::Integer))
        .column(ColumnDefinition::new("a", DataType::BigInt))
        .primary_key(&["id"]);
    let table = database.create_table(table)?;
    let mut session = database.session();
    if filled {
        session.try_run(Isolation::RepeatableRead, |transaction| insert(transaction, &table, 0..rows))?;
    }
    let begun = Instant::now();
    work(&mut session, &table)?;
    Ok(begun.elapsed())
}

fn insert(transaction: &mut Transaction, table: &Arc<Table>, ids: impl Iterator<Item = i32>) -> Result<()> {
    for id in ids {
        transaction.insert(table, vec![Value::Integer(id), Value::BigInt(0)])?;
    }
    Ok(())
}

fn update_all(transaction: &mut Transaction, table: &Arc<Table>, (_, locks): (i32, bool)) -> Result<()> {
    transaction.scan_table(table, ColumnSet::of(&[1]), None, &mut |transaction, row| {
        if locks {
            transaction.lock(table, row, LockWait::Wait)?;
        }
        transaction.update(table, row, vec![(1, Value::BigInt(1))])?;
        Ok(ControlFlow::Continue(()))
    })
}

fn each(
    transaction: &mut Transaction,
    table: &Arc<Table>,
    (rows, locks): (i32, bool),
    change: impl Fn(&mut Transaction, RowId, i32) -> Result<()>,
) -> Result<()> {
    let mut key = Vec::new();
    for id in 0..rows {
        transaction.begin_statement();
        key.clear();
        table.index(IndexPosition(0)).encode(&[Value::Integer(id)], &mut key)?;
        let row =
            transaction.find(table, IndexPosition(0), &key, ColumnSet::of(&[1]))?.expect("it was filled");
        if locks {
            transaction.lock(table, row, LockWait::Wait)?;
        }
        change(transaction, row, id)?;
    }
    Ok(())
}

/// Rows with one and the same key in a hash index.
fn duplicates(rows: i32) -> Result<()> {
    let database = Database::new();
    let table = TableDefinition::new("item")
        .column(ColumnDefinition::new("id", DataType::Integer))
        .column(ColumnDefinition::new("a", DataType::BigInt))
        .primary_key(&["id"])
        .index("item_by_a", &["a"], false)
        .hashed("item_by_a");
    let table = database.create_table(table)?;
    let mut session = database.session();
    let begun = Instant::now();
    session.try_run(Isolation::RepeatableRead, |transaction| insert(transaction, &table, 0..rows))?;
    let inserted = begun.elapsed();
    let begun = Instant::now();
    session.try_run(Isolation::RepeatableRead, |transaction| {
        each(transaction, &table, (rows, false), |transaction, row, _| transaction.delete(&table, row))
    })?;
    while table.index(IndexPosition(1)).entry_count() > 0 && begun.elapsed() < Duration::from_secs(600) {
        std::thread::sleep(Duration::from_millis(1));
    }
    println!(
        "{:<34} {:>12.0}{:>12.0}   inserted, deleted and swept",
        "hash duplicates",
        millis(inserted),
        millis(begun.elapsed())
    );
    Ok(())
}
