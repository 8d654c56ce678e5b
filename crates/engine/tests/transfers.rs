//! Money moves between accounts, and between two tables, while snapshots add it up.

mod support;

use ankerdb_engine::*;
use std::sync::Arc;
use support::*;

const ACCOUNTS: i32 = 300;
const TOTAL: i64 = ACCOUNTS as i64 * 100;

/// Transfers of each writer. Under a sanitizer, which makes each many times as long, a part of them (`ANKERDB_TRANSFERS`) meets as
/// many interleavings of two accesses as it has to.
fn transfers_per_writer() -> usize {
    std::env::var("ANKERDB_TRANSFERS").map_or(20_000, |number| number.parse().expect("a number of transfers"))
}

/// Number of rows and sum of column a over both tables, in one snapshot.
fn totals(database: &Database, tables: &[Arc<Table>; 2]) -> (usize, i64) {
    let view = database.snapshot().read_view();
    let (mut rows, mut sum) = (0, 0);
    for table in tables {
        for row in view_rows(&view, table, &[A]) {
            rows += 1;
            sum += row[0].as_integer().expect("a is a bigint");
        }
    }
    (rows, sum)
}

/// Moves money from one account to another.
fn transfer(transaction: &mut Transaction, tables: &[Arc<Table>; 2], from: i32, to: i32) -> Result<()> {
    for (id, amount) in [(from, -1), (to, 1)] {
        let (table, row) = locate(transaction, tables, id)?;
        let balance = transaction.bigint(table, row, A);
        transaction.update(table, row, vec![(A, Value::BigInt(balance + amount))])?;
    }
    Ok(())
}

/// Moves an account into the other table.
fn emigrate(transaction: &mut Transaction, tables: &[Arc<Table>; 2], id: i32) -> Result<()> {
    let (table, row) = locate(transaction, tables, id)?;
    let balance = transaction.bigint(table, row, A);
    let other = if Arc::ptr_eq(table, &tables[0]) { &tables[1] } else { &tables[0] };
    transaction.delete(table, row)?;
    transaction.insert(other, item(id, balance, 0, id % 10)).map(drop)
}

fn locate<'t>(
    transaction: &mut Transaction,
    tables: &'t [Arc<Table>; 2],
    id: i32,
) -> Result<(&'t Arc<Table>, RowId)> {
    for table in tables {
        if let Some(row) = find(transaction, table, id, &[A])? {
            return Ok((table, row));
        }
    }
    panic!("account {id} is in neither table");
}

fn sums_stay_constant(configuration: Configuration, level: Isolation) {
    let database = Database::open(configuration).expect("it is available");
    let tables = ["here", "there"].map(|name| items(&database, name));
    // Among rows enough for a full block, which snapshots borrow.
    fill(&database, &tables[0], (0..ACCOUNTS).map(|id| item(id, 100, 0, id % 10)));
    fill(&database, &tables[0], (ACCOUNTS..8_200).map(|id| item(id, 0, 0, 0)));
    let rows = totals(&database, &tables).0;
    let running = Running::default();
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut looks = 0;
                    while running.goes_on() {
                        assert_eq!(totals(&database, &tables), (rows, TOTAL));
                        looks += 1;
                    }
                    looks
                })
            })
            .collect();
        let stop = running.until_drop();
        let writers: Vec<_> = (0..4)
            .map(|thread| {
                let (database, tables) = (&database, &tables);
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(thread);
                    let mut session = database.session();
                    for _ in 0..transfers_per_writer() {
                        let (from, to) = (random.i32(0..ACCOUNTS), random.i32(0..ACCOUNTS));
                        let moves_out = random.u8(0..4) == 0;
                        let done = session.run(level, |transaction| match (moves_out, from == to) {
                            (true, _) => emigrate(transaction, tables, from),
                            (_, false) => transfer(transaction, tables, from, to),
                            _ => Ok(()),
                        });
                        done.unwrap();
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        drop(stop);
        for reader in readers {
            assert!(reader.join().unwrap() > 10);
        }
    });
    assert_eq!(totals(&database, &tables), (rows, TOTAL));
    let statistics = database.statistics();
    let used = match configuration {
        Configuration::AnkerDb => statistics.columns_lent.min(statistics.columns_materialized),
        Configuration::SeeFs | Configuration::SeeSi => statistics.snapshots,
        Configuration::HeeFork => statistics.columns_materialized,
        _ => statistics.column_snapshots,
    };
    assert!(used > 10, "{}: {statistics:?}", configuration.name());
    let begun = std::time::Instant::now();
    while database.statistics().version_bytes > 0 {
        assert!(begun.elapsed().as_secs() < 20, "versions stay although nobody reads");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    for table in &tables {
        assert_eq!(table.index(BY_ID).entry_count(), table.row_count());
        assert_eq!(table.index(BY_KIND).entry_count(), table.row_count());
    }
}

#[test]
fn sums_stay_constant_at_serializable() {
    consistent().for_each(|configuration| sums_stay_constant(configuration, Isolation::Serializable));
}

/// Every transfer reads only what it writes, so snapshot isolation is enough.
#[test]
fn sums_stay_constant_at_repeatable_read() {
    consistent().for_each(|configuration| sums_stay_constant(configuration, Isolation::RepeatableRead));
}
