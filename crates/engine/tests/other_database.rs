//! Tables and snapshots of another database: whatever a transaction is asked to do with them is an error, and changes nothing
//! in either database.

mod support;

use ankerdb_engine::*;
use std::ops::ControlFlow;
use std::sync::Arc;
use support::*;

/// What can be done with a table in a transaction, by name.
type Call = (&'static str, fn(&mut Transaction, &Arc<Table>, &[u8]) -> Result<()>);

const CALLS: [Call; 13] = [
    ("find", |own, table, key| own.find(table, IndexPosition(0), key, ColumnSet::ALL).map(drop)),
    ("find_all", |own, table, key| {
        let mut keys = KeyBatch::default();
        keys.push(key);
        own.find_all(table, IndexPosition(0), &keys, ColumnSet::ALL, &mut Vec::new())
    }),
    ("scan_index", |own, table, key| {
        let range = KeyRange::exactly(key);
        own.scan_index(table, IndexPosition(0), &range, Direction::Forward, ColumnSet::ALL, &mut |_, _| {
            visited()
        })
    }),
    ("scan_prefix", |own, table, key| {
        own.scan_prefix(table, IndexPosition(0), key, Direction::Forward, ColumnSet::ALL, &mut |_, _| {
            visited()
        })
    }),
    ("scan_table", |own, table, _| own.scan_table(table, ColumnSet::ALL, None, &mut |_, _| visited())),
    ("note_table_read", |own, table, _| own.note_table_read(table, ColumnSet::ALL, None)),
    ("insert", |own, table, _| own.insert(table, item(9, 0, 0, 0)).map(drop)),
    ("insert_cells", |own, table, _| {
        let values = item(9, 0, 0, 0);
        let cells =
            values.iter().zip(table.columns()).map(|(value, column)| Cell::of(value, column.data_type));
        own.insert_cells(table, &cells.collect::<Result<Vec<_>>>()?).map(drop)
    }),
    ("update", |own, table, _| own.update(table, FIRST, vec![(A, Value::BigInt(1))])),
    ("update of a key", |own, table, _| own.update(table, FIRST, vec![(ID, Value::Integer(7))])),
    ("update_cells", |own, table, _| own.update_cells(table, FIRST, &[(A, Cell::bigint(1))])),
    ("delete", |own, table, _| own.delete(table, FIRST)),
    ("lock", |own, table, _| own.lock(table, FIRST, LockWait::NoWait).map(drop)),
];

/// Where a table's first row lies.
const FIRST: RowId = RowId(0);

fn visited() -> Result<ControlFlow<()>> {
    panic!("a row of another database was visited")
}

/// A database with one row, its table, and that row's key.
fn stage() -> (Database, Arc<Table>, Vec<u8>) {
    let database = Database::new();
    let table = items(&database, "items");
    fill(&database, &table, [item(1, 0, 0, 0)]);
    let mut key = Vec::new();
    table.index(IndexPosition(0)).encode(&[Value::Integer(1)], &mut key).expect("a short key");
    (database, table, key)
}

fn rows(database: &Database, table: &Table) -> Vec<Vec<Value>> {
    view_rows(&database.snapshot().read_view(), table, &[ID, A])
}

/// The tables of both have the same name, columns and number: nothing but the databases tells them apart.
#[test]
fn its_tables_are_refused_and_the_transaction_goes_on() {
    let ((database, own, _), (other, foreign, key)) = (stage(), stage());
    let before = rows(&other, &foreign);
    let mut session = database.session();
    for isolation in [Isolation::Serializable, Isolation::RepeatableRead, Isolation::ReadCommitted] {
        for interactive in [false, true] {
            let mut transaction =
                if interactive { session.begin(isolation) } else { session.begin_procedure(isolation) };
            let added = transaction.insert(&own, item(2, 0, 0, 0)).expect("it is its own table");
            for (name, call) in CALLS {
                let refused = call(&mut transaction, &foreign, &key).expect_err(name);
                assert_eq!(refused.state(), SqlState::UndefinedTable, "{name}: {refused}");
                assert_eq!(refused.message(), "relation \"items\" belongs to another database");
            }
            assert_eq!(transaction.write_count(), 1, "nothing was noted");
            transaction.delete(&own, added).expect("it goes on");
            transaction.commit().expect("nobody is in the way");
        }
    }
    assert_eq!(rows(&other, &foreign), before);
    assert_eq!(rows(&database, &own).len(), 1);
    // No lock is left on it.
    let mut transaction = other.session().begin(Isolation::Serializable);
    assert_eq!(transaction.lock(&foreign, FIRST, LockWait::NoWait), Ok(Locked::Unchanged));
}

/// The index is newer than any timestamp of the other database: that is no conflict, which would be tried again for ever.
#[test]
fn its_new_indexes_are_refused_for_good() {
    let ((database, _own, _), (other, foreign, _)) = (stage(), stage());
    for id in 2..50 {
        fill(&other, &foreign, [item(id, 0, 0, 0)]);
    }
    let columns = vec![A];
    let index =
        IndexDefinition { name: "by_a".to_owned(), columns, ..foreign.index(BY_KIND).definition().clone() };
    other.create_index("items", index).expect("there is none");
    let (by_a, range) = (IndexPosition(BY_KIND.0 + 1), KeyRange::all());
    let outcome = database.session().try_run(Isolation::Serializable, |transaction| {
        let visit = &mut |_: &mut Transaction, _| visited();
        transaction.scan_index(&foreign, by_a, &range, Direction::Forward, ColumnSet::ALL, visit)
    });
    assert_eq!(outcome.expect_err("of another database").state(), SqlState::UndefinedTable);
}

#[test]
#[should_panic(expected = "own finds and scans")]
fn a_row_is_not_read_from_it() {
    let ((database, own, key), (_other, foreign, _)) = (stage(), stage());
    let outcome = database.session().run(Isolation::Serializable, |transaction| {
        let row = transaction.find(&own, IndexPosition(0), &key, ColumnSet::ALL)?.expect("it is there");
        Ok(transaction.bigint(&foreign, row, A))
    });
    panic!("read: {outcome:?}");
}

#[test]
fn snapshots_know_whose_they_are() {
    let ((database, own, _), (other, foreign, _)) = (stage(), stage());
    let snapshot = database.snapshot();
    assert_eq!(snapshot.read_block(&own, BlockNumber(0), &[A]).expect("its own table").rows, 1);
    let refused = [
        snapshot.read_block(&foreign, BlockNumber(0), &[A]).map(drop),
        snapshot.read_view().read(&foreign, 0, &[A]).map(drop),
        snapshot.materialize(&foreign, &[A]),
    ];
    for outcome in refused {
        assert_eq!(outcome.expect_err("of another database").state(), SqlState::UndefinedTable);
    }
    let mut session = other.session();
    let refused = session.begin_at(&snapshot).map(drop).expect_err("of another database");
    assert_eq!(refused.state(), SqlState::InvalidParameterValue);
    drop(session.begin_at(&other.snapshot()).expect("its own"));
}
