//! Indexes of tables of many blocks: entered in the order of all keys after a load, by CREATE INDEX and at a restart.

mod support;

use ankerdb_engine::*;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use support::*;

/// More rows than one run of keys takes: 64 blocks where all threads fill an index, a million in a commit.
const ROWS: i32 = (1 << 20) + 100_000;

/// A folder that goes when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        let path = std::env::temp_dir().join(format!("ankerdb-large-indexes-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Folder(path)
    }

    fn open(&self) -> Database {
        Database::open_in(Configuration::AnkerDb, &Durability::in_folder(&self.0), &NoTexts).expect("opened")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Each id once, in no order.
fn load(database: &Database, table: &Arc<Table>) {
    let loaded = database.session().try_run(Isolation::Serializable, |transaction| {
        assert!(transaction.can_load(table));
        (0..i64::from(ROWS)).try_for_each(|number| {
            let id = (number * 7_919 % i64::from(ROWS)) as i32;
            let row = item(id, i64::from(ROWS - id), 2, id % 1_000);
            transaction.load(table, |column| ValueRef::from(&row[column]))
        })
    });
    loaded.expect("no key is taken");
}

/// Every index has each row once, in order, and full leaves.
fn check(database: &Database, indexes: &[usize]) {
    let table = database.catalog().table("items").expect("it is there").clone();
    let used = table.memory_use(&crossbeam_epoch::pin());
    assert_eq!((used.rows, used.index_entries), (ROWS as usize, indexes.len() * ROWS as usize));
    // Four words each, and little more: guide, key, length and row. Entered run behind run, they take six.
    let bytes = used.index_bytes / used.index_entries;
    assert!(bytes <= 36, "an entry takes {bytes} bytes");
    for (position, &column) in indexes.iter().enumerate() {
        let found = database.session().try_run(Isolation::Serializable, |transaction| {
            let mut found = Vec::with_capacity(ROWS as usize);
            let (position, columns) = (IndexPosition(position), ColumnSet::of(&[column]));
            let mut visit = |transaction: &mut Transaction, row| {
                let key = match transaction.value(&table, row, column) {
                    Value::Integer(key) => i64::from(key),
                    Value::BigInt(key) => key,
                    other => panic!("{other:?} is no number"),
                };
                found.push((key, row));
                Ok(ControlFlow::Continue(()))
            };
            transaction.scan_index(
                &table,
                position,
                &KeyRange::all(),
                Direction::Forward,
                columns,
                &mut visit,
            )?;
            Ok(found)
        });
        let found = found.expect("a scan");
        assert_eq!(found.len(), ROWS as usize);
        assert!(
            found.windows(2).all(|pair| pair[0] < pair[1]),
            "the index of column {column} is not in order"
        );
    }
}

#[test]
fn indexes_of_many_blocks_have_each_row_once_in_order_and_full_leaves() {
    let folder = Folder::new();
    let database = folder.open();
    let table = database.create_table(items_definition("items")).expect("created");
    load(&database, &table);
    check(&database, &[ID, KIND]);
    let mut by_a = table.maintained_indexes().next().expect("a primary key").1.definition().clone();
    (by_a.name, by_a.columns, by_a.primary) = ("items_by_a".into(), vec![A], false);
    database.create_index("items", by_a).expect("no key is there twice");
    check(&database, &[ID, KIND, A]);
    drop((table, database));
    check(&folder.open(), &[ID, KIND, A]);
}
