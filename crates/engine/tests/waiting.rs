//! What a procedure that waits does to the rest of the process. A test binary of its own, because it looks at the memory
//! of the whole process.
#![cfg(target_os = "linux")]

mod support;

use ankerdb_engine::*;
use std::time::Duration;
use support::*;

/// Rows that each transaction overwrites.
const ROWS: i32 = 32;
const TRANSACTIONS: i64 = 20_000;

/// The holder's client is idle, and a procedure sleeps until it is done. Meanwhile others go on overwriting rows,
/// and what they retire is freed.
#[test]
fn a_procedure_that_waits_for_a_row_does_not_hold_up_reclamation() {
    let database = Database::new();
    let table = items(&database, "items");
    fill(&database, &table, (0..=ROWS).map(|id| item(id, 0, 0, 0)));
    let mut session = database.session();
    let mut overwrite = |turns: std::ops::Range<i64>| {
        for turn in turns {
            let done = session.run(Isolation::Serializable, |transaction| {
                (0..ROWS).try_for_each(|id| {
                    let row = find(transaction, &table, id, &[])?.expect("the row is there");
                    transaction.update(&table, row, vec![(A, Value::BigInt(turn)), (B, Value::BigInt(turn))])
                })
            });
            done.expect("there is no conflict");
        }
    };
    // The commit order keeps the records of the last commits; from here on it is full.
    overwrite(0..TRANSACTIONS);
    let mut holder = Client::begin(&database, &table, Isolation::Serializable);
    holder.write(ROWS, 1).unwrap();
    let interrupt = Interrupt::new();
    let grown = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            database.session().try_run(Isolation::RepeatableRead, |transaction| {
                transaction.set_interrupt(interrupt.clone());
                let row = find(transaction, &table, ROWS, &[])?.expect("the row is there");
                transaction.lock(&table, row, LockWait::Wait).map(drop)
            })
        });
        std::thread::sleep(Duration::from_millis(50));
        let before = resident_bytes();
        overwrite(TRANSACTIONS..2 * TRANSACTIONS);
        let grown = resident_bytes().saturating_sub(before);
        assert!(!waiting.is_finished());
        interrupt.raise(Cause::Request);
        assert_eq!(waiting.join().unwrap().unwrap_err().state(), SqlState::QueryCanceled);
        grown
    });
    // Piled up they would take more than fifty bytes each.
    let versions = TRANSACTIONS as usize * ROWS as usize;
    assert!(grown < versions * 10, "{} KiB more after {versions} versions came and went", grown >> 10);
}
