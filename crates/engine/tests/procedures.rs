//! Procedures that end in unusual ways, and values that no column takes.

mod support;

use ankerdb_engine::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use support::*;

#[test]
fn a_session_goes_on_after_a_procedure_that_panicked() {
    let database = Database::new();
    let table = items(&database, "items");
    fill(&database, &table, [item(1, 0, 0, 0)]);
    let mut session = database.session();
    let ran = catch_unwind(AssertUnwindSafe(|| {
        session.run(Isolation::Serializable, |transaction| -> Result<()> {
            let row = find(transaction, &table, 1, &[A])?.expect("the row is there");
            transaction.lock(&table, row, LockWait::NoWait)?;
            transaction.update(&table, row, vec![(A, Value::BigInt(7))])?;
            panic!("a procedure that panics");
        })
    }));
    assert!(ran.is_err());
    assert!(database.session().snapshot().timestamp() == database.snapshot().timestamp());
    let seen = session.run(Isolation::Serializable, |transaction| {
        let row = find(transaction, &table, 1, &[A])?.expect("the row is there");
        let seen = transaction.bigint(&table, row, A);
        transaction.lock(&table, row, LockWait::NoWait)?;
        transaction.update(&table, row, vec![(A, Value::BigInt(seen + 1))])?;
        Ok(seen)
    });
    assert_eq!(seen, Ok(0), "nothing remains of what the procedure had done, and its lock is free");
    let statistics = database.statistics();
    assert_eq!((statistics.commits, statistics.aborts), (2, 1));
}

/// Untouched memory costs nothing: the string is refused for its length alone.
#[test]
fn a_string_of_four_gibibytes_is_refused() {
    let database = Database::new();
    let definition = TableDefinition::new("t").column(ColumnDefinition::new("a", DataType::Bytea));
    let table = database.create_table(definition).unwrap();
    let bytes = vec![0u8; (1 << 32) + 5];
    let mut session = database.session();
    let by_cell = session.run(Isolation::Serializable, |transaction| {
        transaction.insert_cells(&table, &[Cell::Bytes(&bytes)]).map(drop)
    });
    let mut value = Some(Value::Bytea(bytes.into()));
    let by_value = session.run(Isolation::Serializable, |transaction| {
        transaction.insert(&table, vec![value.take().expect("one try")]).map(drop)
    });
    for outcome in [by_cell, by_value] {
        let error = outcome.expect_err("its length has more than 32 bits");
        assert_eq!(error.state(), SqlState::ProgramLimitExceeded, "{error}");
    }
    assert_eq!(table.row_count(), 0);
}
