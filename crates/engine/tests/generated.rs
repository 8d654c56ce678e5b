//! Columns that are computed from others, through the engine: every way to write computes them, however transactions interleave.

mod support;

use ankerdb_engine::*;
use std::sync::Arc;
use support::{A, B, Client, LEVELS, fill, find, item, items_definition};

/// Where `a + b` is.
const SUM: usize = 4;

fn create(database: &Database) -> Arc<Table> {
    let mut definition = items_definition("t");
    let compute = Arc::new(|value: &dyn Fn(usize) -> Value| match (value(A), value(B)) {
        (Value::BigInt(a), Value::BigInt(b)) => Ok(Value::BigInt(a + b)),
        other => Err(Error::internal(format!("{other:?}"))),
    });
    let generation = Generation { text: "a + b".into(), sources: ColumnSet::of(&[A, B]), compute };
    let sum = ColumnDefinition::new("sum", DataType::BigInt);
    definition.columns.push(ColumnDefinition { generation: Some(generation), ..sum });
    let table = database.create_table(definition).unwrap();
    fill(database, &table, [row(1, 1, 6)]);
    table
}

/// A row whose sum is not given.
fn row(id: i32, a: i64, b: i64) -> Vec<Value> {
    let mut values = item(id, a, b, 0);
    values.push(Value::Null);
    values
}

#[test]
fn every_way_to_write_computes() {
    let database = Database::new();
    let table = create(&database);
    let run = |body: &mut dyn FnMut(&mut Transaction, RowId) -> Result<()>| {
        database.session().try_run(Isolation::Serializable, |transaction| {
            let row = find(transaction, &table, 1, &[])?.expect("it is there");
            body(transaction, row)?;
            Ok(transaction.bigint(&table, row, SUM))
        })
    };
    assert_eq!(run(&mut |_, _| Ok(())), Ok(7));
    assert_eq!(run(&mut |t, row| t.update(&table, row, vec![(A, Value::BigInt(10))])), Ok(16));
    assert_eq!(run(&mut |t, row| t.update_cells(&table, row, &[(B, Cell::Word(1))])), Ok(11));
    let cells = [Cell::Word(2), Cell::Word(5), Cell::Word(5), Cell::Word(0), Cell::Null];
    let inserted = database.session().try_run(Isolation::Serializable, |t| {
        let row = t.insert_cells(&table, &cells)?;
        Ok(t.bigint(&table, row, SUM))
    });
    assert_eq!(inserted, Ok(10));
    let states = [
        run(&mut |t, row| t.update(&table, row, vec![(SUM, Value::BigInt(0))])),
        run(&mut |t, row| t.update_cells(&table, row, &[(SUM, Cell::Word(0))])),
        run(&mut |t, _| {
            let mut values = row(3, 1, 1);
            values[SUM] = Value::BigInt(3);
            t.insert(&table, values).map(drop)
        }),
    ];
    for result in states {
        assert_eq!(result.map_err(|error| error.state()), Err(SqlState::GeneratedAlways));
    }
    // The right value may be given.
    let mut values = row(3, 1, 1);
    values[SUM] = Value::BigInt(2);
    assert_eq!(run(&mut |t, _| t.insert(&table, values.clone()).map(drop)), Ok(11));
}

/// One transaction changes a, another one changes b.
#[test]
fn the_sum_is_right_however_its_sources_change() {
    for level in LEVELS {
        let database = Database::new();
        let table = create(&database);
        let changed = database.session().try_run(level, |transaction| {
            let row = find(transaction, &table, 1, &[])?.expect("it is there");
            transaction.update(&table, row, vec![(A, Value::BigInt(100))])?;
            // Meanwhile.
            let other = database.session().try_run(level, |other| {
                let row = find(other, &table, 1, &[])?.expect("it is there");
                other.update(&table, row, vec![(B, Value::BigInt(200))])
            });
            assert_eq!(other, Ok(()), "{level:?}");
            Ok(())
        });
        let mut client = Client::begin(&database, &table, Isolation::Serializable);
        let row = client.find(1, &[A, B, SUM]).unwrap().unwrap();
        let now = |column| client.transaction.bigint(&table, row, column);
        assert_eq!(now(A) + now(B), now(SUM), "{level:?}: {changed:?}");
    }
}
