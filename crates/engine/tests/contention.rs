//! Procedures that want the same rows: each of them ends, after few tries.

mod support;

use ankerdb_engine::*;
use std::sync::atomic::{AtomicU32, Ordering};
use support::*;

/// One that reads all rows, slowly, and writes one of them, beside many that write one row each: by chance alone it
/// would hardly ever find a moment in which nothing that it reads changes.
#[test]
fn a_long_procedure_ends_beside_short_ones_that_write_what_it_reads() {
    const ROWS: i32 = 40;
    const TURNS: i64 = 10;
    let database = Database::new();
    let table = items(&database, "items");
    fill(&database, &table, (0..ROWS).map(|id| item(id, 0, 0, 0)));
    let running = Running::default();
    let most = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let (database, table, running) = (&database, &table, &running);
            scope.spawn(move || {
                let mut session = database.session();
                let mut id = thread;
                while running.goes_on() {
                    id = (id + 7) % ROWS;
                    let counted = session.run(Isolation::Serializable, |transaction| {
                        let row = find(transaction, table, id, &[A])?.expect("the row is there");
                        let value = transaction.bigint(table, row, A) + 1;
                        transaction.update(table, row, vec![(A, Value::BigInt(value))])
                    });
                    counted.unwrap();
                }
            });
        }
        let _stop = running.until_drop();
        let mut session = database.session();
        for turn in 0..TURNS {
            let mut tries = 0;
            let done = session.run(Isolation::Serializable, |transaction| {
                tries += 1;
                let mut sum = 0;
                for id in 0..ROWS {
                    let row = find(transaction, &table, id, &[A])?.expect("the row is there");
                    sum += transaction.bigint(&table, row, A);
                    // Long enough for the others to commit, however fast the machine is.
                    std::thread::sleep(std::time::Duration::from_micros(50));
                }
                let row = find(transaction, &table, 0, &[])?.expect("the row is there");
                transaction.update(&table, row, vec![(B, Value::BigInt(sum + turn))])
            });
            done.unwrap();
            most.fetch_max(tries, Ordering::Relaxed);
        }
    });
    let most = most.into_inner();
    println!("{most} tries at most");
    assert!(most > 1, "there was no conflict: the test shows nothing");
    assert!(most < 100, "{most} tries");
}
