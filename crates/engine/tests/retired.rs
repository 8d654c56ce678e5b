//! Retired memory is freed as fast as transactions retire it. A test binary of its own, because it looks at the memory of
//! the whole process.
#![cfg(target_os = "linux")]

mod support;

use ankerdb_engine::*;
use support::*;

/// Rows that each transaction overwrites: more versions than the collector frees for each transaction by itself.
const ROWS: i32 = 32;
const TRANSACTIONS: i64 = 20_000;

#[test]
fn versions_of_large_transactions_do_not_pile_up() {
    let database = Database::new();
    let table = items(&database, "items");
    fill(&database, &table, (0..ROWS).map(|id| item(id, 0, 0, 0)));
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
    let before = resident_bytes();
    overwrite(TRANSACTIONS..2 * TRANSACTIONS);
    // Piled up they would take more than fifty bytes each.
    let versions = TRANSACTIONS as usize * ROWS as usize;
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < versions * 10, "{} KiB more after {versions} versions came and went", grown >> 10);
}
