//! Entries and rows that are damaged in memory, behind the back of all that keeps them together.

use super::faults::Faults;
use super::*;
use crate::{
    Check, ColumnDefinition, ColumnSet, DataType, Isolation, SqlState, Table, TableDefinition, Value,
};
use ankerdb_base::{BlockNumber, IndexPosition, RowId};
use ankerdb_table::{Entries, ReadAt, Storage};

const ROWS: i32 = 3_000;

/// `(id integer primary key, kind integer)` with an index on kind, hashed or not.
fn table(database: &Database, is_hashed: bool) -> Arc<Table> {
    let definition = TableDefinition::new("item")
        .column(ColumnDefinition::new("id", DataType::Integer))
        .column(ColumnDefinition::new("kind", DataType::Integer))
        .primary_key(&["id"])
        .index("item_by_kind", &["kind"], false);
    let definition = if is_hashed { definition.hashed("item_by_kind") } else { definition };
    let table = database.create_table(definition).expect("the name is free");
    let filled = database.session().try_run(Isolation::Serializable, |transaction| {
        (0..ROWS).try_for_each(|id| {
            transaction.insert(&table, vec![Value::Integer(id), Value::Integer(id % 7)]).map(drop)
        })
    });
    filled.expect("there is room");
    table
}

/// Messages of what is wrong, and how many there are.
fn wrong(database: &Database) -> (Vec<String>, u64) {
    let faults = Faults::default();
    tables::check(&database.catalog(), &faults, &|_, _| {}).expect("there is memory");
    let (first, count) = faults.told();
    assert!(first.iter().all(|fault| fault.hint().is_some()), "a fault without advice: {first:?}");
    (first.iter().map(|fault| fault.message().to_owned()).collect(), count)
}

/// The place and the key of the row with this id, in an index.
fn entry(table: &Table, index: usize, id: i32) -> (Vec<u8>, RowId) {
    let storage = Storage::of(table);
    let row = RowId::new(BlockNumber(0), id as usize);
    let key = storage.key_at(table.index(IndexPosition(index)), row, ReadAt::Newest, &crossbeam_epoch::pin());
    (key.expect("it has one").expect("it exists").0, row)
}

#[test]
fn what_belongs_together_has_no_fault() {
    for is_hashed in [false, true] {
        let database = Database::new();
        table(&database, is_hashed);
        assert_eq!(wrong(&database), (Vec::new(), 0));
    }
}

#[test]
fn an_entry_that_is_gone_is_missed() {
    for is_hashed in [false, true] {
        let database = Database::new();
        let table = table(&database, is_hashed);
        let (key, row) = entry(&table, 1, 12);
        assert!(Entries::of(table.index(IndexPosition(1))).remove(&key, row.0));
        let (mut found, count) = wrong(&database);
        found.sort();
        assert_eq!(
            (&found[..], count),
            (
                &[
                    "table \"public.item\": index \"item_by_kind\" has 2999 entries, the table has 3000 rows".into(),
                    "table \"public.item\": the row at place 12 of block 0 has no entry in index \"item_by_kind\" under its key (kind)=(5)".into(),
                ][..],
                2
            )
        );
    }
}

#[test]
fn an_entry_under_another_key_is_told_from_both_sides() {
    for is_hashed in [false, true] {
        let database = Database::new();
        let table = table(&database, is_hashed);
        let ((key, row), (other, _)) = (entry(&table, 1, 12), entry(&table, 1, 13));
        let entries = Entries::of(table.index(IndexPosition(1)));
        assert!(entries.remove(&key, row.0) && entries.insert(&other, row.0).expect("there is room"));
        let (mut found, count) = wrong(&database);
        found.sort();
        assert_eq!(count, 2, "{found:?}");
        assert!(
            found[0].starts_with("table \"public.item\": an entry of index \"item_by_kind\" under key \\x")
        );
        assert!(
            found[0].ends_with("leads to the row at place 12 of block 0, which has another key"),
            "{found:?}"
        );
        assert!(
            found[1].contains("has no entry in index \"item_by_kind\" under its key (kind)=(5)"),
            "{found:?}"
        );
    }
}

#[test]
fn an_entry_of_no_row_is_one_too_many() {
    let database = Database::new();
    let table = table(&database, false);
    let (key, _) = entry(&table, 0, 7);
    for row in [RowId::new(BlockNumber(0), ROWS as usize + 50), RowId::new(BlockNumber(900), 3)] {
        assert!(Entries::of(table.index(IndexPosition(0))).insert(&key, row.0).expect("there is room"));
    }
    let (mut found, count) = wrong(&database);
    found.sort();
    assert_eq!(count, 3, "{found:?}");
    assert!(found[0].ends_with("leads to the row at place 3 of block 900, which is not there"), "{found:?}");
    assert!(found[1].ends_with("leads to the row at place 3050 of block 0, which is not there"), "{found:?}");
    assert!(found[2].ends_with("index \"item_pkey\" has 3002 entries, the table has 3000 rows"), "{found:?}");
}

#[test]
fn the_first_hundred_faults_are_told_and_all_are_counted() {
    let database = Database::new();
    let mut definition =
        TableDefinition::new("t").column(ColumnDefinition::new("id", DataType::Integer)).primary_key(&["id"]);
    let is_strict = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let asked = is_strict.clone();
    definition.checks.push(Check {
        name: "even".into(),
        text: "id % 2 = 0".into(),
        columns: ColumnSet::of(&[0]),
        is_validated: true,
        test: Arc::new(move |value| match value(0) {
            Value::Integer(id) => Ok(!asked.load(std::sync::atomic::Ordering::Relaxed) || id % 2 == 0),
            other => Err(crate::Error::internal(format!("{other:?}"))),
        }),
    });
    let table = database.create_table(definition).expect("the name is free");
    let filled = database.session().try_run(Isolation::Serializable, |transaction| {
        (0..ROWS).try_for_each(|id| transaction.insert(&table, vec![Value::Integer(id)]).map(drop))
    });
    filled.expect("there is room");
    assert_eq!(wrong(&database).1, 0);
    is_strict.store(true, std::sync::atomic::Ordering::Relaxed);
    let (found, count) = wrong(&database);
    assert_eq!((found.len(), count), (FAULTS_TOLD, ROWS as u64 / 2));
    let expected = "table \"public.t\": the row at place 1 of block 0 violates check constraint \"even\" (id % 2 = 0): (id)=(1)";
    assert!(found.iter().any(|fault| fault == expected), "{found:?}");
}

#[test]
fn what_keeps_from_looking_is_no_fault() {
    let faults = Faults::default();
    let refused = crate::Error::new(SqlState::InsufficientPrivilege, "no");
    assert_eq!(faults.of::<()>(Err(refused.clone())).unwrap_err(), refused);
    assert_eq!(faults.of_recovery::<()>(Err(refused.clone())).unwrap_err(), refused);
    assert!(faults.are_none());
    assert_eq!(faults.of::<()>(Err(crate::Error::new(SqlState::DataCorrupted, "bits"))), Ok(None));
    assert_eq!(faults.of_recovery::<()>(Err(crate::Error::internal("twice"))), Ok(None));
    assert_eq!(faults.told().1, 2);
}
