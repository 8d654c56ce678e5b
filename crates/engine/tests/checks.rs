//! CHECK constraints through the engine: every way to write tests them, and they hold however transactions interleave.

mod support;

use ankerdb_engine::*;
use std::sync::Arc;
use support::{A, B, Client, LEVELS, fill, find, item, items_definition};

/// `a < b`
fn create(database: &Database) -> Arc<Table> {
    let mut definition = items_definition("t");
    let test: RowTest = Arc::new(|value| match (value(A), value(B)) {
        (Value::BigInt(a), Value::BigInt(b)) => Ok(a < b),
        other => Err(Error::internal(format!("{other:?}"))),
    });
    definition.checks.push(Check {
        name: "order".into(),
        text: "a < b".into(),
        columns: ColumnSet::of(&[A, B]),
        is_validated: true,
        test,
    });
    let table = database.create_table(definition).unwrap();
    fill(database, &table, [item(1, 1, 6, 0)]);
    table
}

fn state(result: Result<()>) -> Option<SqlState> {
    result.err().map(|error| error.state())
}

#[test]
fn every_way_to_write_is_checked() {
    let database = Database::new();
    let table = create(&database);
    let run = |body: &mut dyn FnMut(&mut Transaction, RowId) -> Result<()>| {
        state(database.session().try_run(Isolation::Serializable, |transaction| {
            let row = find(transaction, &table, 1, &[])?.expect("it is there");
            body(transaction, row)
        }))
    };
    let violated = Some(SqlState::CheckViolation);
    assert_eq!(run(&mut |t, _| t.insert(&table, item(2, 5, 5, 0)).map(drop)), violated);
    assert_eq!(run(&mut |t, row| t.update(&table, row, vec![(A, Value::BigInt(6))])), violated);
    assert_eq!(run(&mut |t, row| t.update_cells(&table, row, &[(B, Cell::Word(1))])), violated);
    let cells = [Cell::Word(2), Cell::Word(5), Cell::Word(5), Cell::Word(0)];
    assert_eq!(run(&mut |t, _| t.insert_cells(&table, &cells).map(drop)), violated);
    // What it does not look at may change, and so may both at once.
    assert_eq!(run(&mut |t, row| t.update(&table, row, vec![(support::KIND, Value::Integer(9))])), None);
    assert_eq!(
        run(&mut |t, row| t.update(&table, row, vec![(A, Value::BigInt(8)), (B, Value::BigInt(9))])),
        None
    );
    let error = database.session().try_run(Isolation::Serializable, |t| t.insert(&table, item(7, 3, 2, 0)));
    let error = error.unwrap_err();
    assert_eq!(error.message(), "new row for relation \"t\" violates check constraint \"order\"");
    assert_eq!(error.detail(), Some("Failing row contains (7, 3, 2, 0)."));
}

/// One transaction raises a, another one lowers b; each is right alone.
#[test]
fn two_that_are_right_alone_are_not_both_committed() {
    for level in LEVELS {
        let database = Database::new();
        let table = create(&database);
        let raised = database.session().try_run(level, |transaction| {
            let row = find(transaction, &table, 1, &[])?.expect("it is there");
            transaction.update(&table, row, vec![(A, Value::BigInt(5))])?;
            // Meanwhile.
            let lowered = database.session().try_run(level, |other| {
                let row = find(other, &table, 1, &[])?.expect("it is there");
                other.update(&table, row, vec![(B, Value::BigInt(3))])
            });
            assert_eq!(lowered, Ok(()), "{level:?}");
            Ok(())
        });
        let mut client = Client::begin(&database, &table, Isolation::Serializable);
        let row = client.find(1, &[A, B]).unwrap().unwrap();
        let now = (client.transaction.bigint(&table, row, A), client.transaction.bigint(&table, row, B));
        assert!(now.0 < now.1, "{level:?}: {now:?}, {raised:?}");
    }
}
