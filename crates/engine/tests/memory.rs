//! What is no longer needed is freed: versions, index entries, slots of deleted rows, string garbage.

mod support;

use ankerdb_engine::*;
use ankerdb_transaction::{TransactionManager, Versioning};
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::*;

/// Waits for the pruner to get there.
fn eventually(what: &str, mut reached: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !reached() {
        assert!(begun.elapsed() < Duration::from_secs(20), "never reached: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn set(database: &Database, session: &mut Session, table: &Arc<Table>, id: i32, changes: &[(usize, Value)]) {
    assert!(Arc::ptr_eq(table, &database.catalog().table(table.name()).unwrap()));
    let updated = session.run(Isolation::Serializable, |transaction| {
        let row = find(transaction, table, id, &[])?.expect("the row is there");
        transaction.update(table, row, changes.to_vec())
    });
    updated.unwrap();
}

#[test]
fn versions_go_when_the_last_reader_has_gone() {
    in_each(|database| {
        let table = items(&database, "items");
        fill(&database, &table, (0..100).map(|id| item(id, 0, 0, 0)));
        let mut session = database.session();
        let snapshot = database.snapshot();
        for turn in 0..50 {
            (0..100).for_each(|id| set(&database, &mut session, &table, id, &[(A, Value::BigInt(turn))]));
        }
        // One version a row for the snapshot, one under the newest state, and a few until the next write prunes them.
        let held = database.statistics().version_bytes;
        assert!(held > 0 && held < 100 * 20 * 100, "{held} bytes of versions for 100 rows and one reader");
        std::thread::sleep(Duration::from_millis(150));
        assert!(database.statistics().version_bytes > 0, "the snapshot is still there");
        let rows = view_rows(&snapshot.read_view(), &table, &[A]);
        assert!(rows.len() == 100 && rows.iter().all(|row| row == &[Value::BigInt(0)]));
        drop(snapshot);
        eventually("no versions", || database.statistics().version_bytes == 0);
    });
}

#[test]
fn a_hot_row_under_an_old_reader_keeps_a_handful_of_versions() {
    in_each(|database| {
        let table = items(&database, "items");
        fill(&database, &table, [item(1, -1, 0, 0)]);
        let mut reader = Client::begin(&database, &table, Isolation::RepeatableRead);
        let mut session = database.session();
        for turn in 0..20_000 {
            set(&database, &mut session, &table, 1, &[(A, Value::BigInt(turn))]);
            assert!(turn % 1000 != 0 || database.statistics().version_bytes < 4096);
        }
        assert_eq!(reader.read(1).unwrap(), Some(-1));
    });
}

#[test]
fn an_old_reader_keeps_nothing_of_rows_that_came_after_it() {
    in_each(|database| {
        let table = items(&database, "items");
        fill(&database, &table, (0..1000).map(|id| item(id, 0, 0, 0)));
        let mut session = database.session();
        let snapshot = database.snapshot();
        // Rows that the snapshot sees, and as many that it does not.
        fill(&database, &table, (1000..2000).map(|id| item(id, 0, 0, 0)));
        (0..2000).for_each(|id| set(&database, &mut session, &table, id, &[(A, Value::BigInt(1))]));
        let all = database.statistics().version_bytes;
        // Time goes on: timestamps are logical.
        let mut reached = || {
            set(&database, &mut session, &table, 0, &[(A, Value::BigInt(2))]);
            let kept = database.statistics().version_bytes;
            kept < all * 6 / 10 && kept > all * 4 / 10
        };
        eventually("the versions of every other row", &mut reached);
        let rows = view_rows(&snapshot.read_view(), &table, &[A]);
        assert!(rows.len() == 1000 && rows.iter().all(|row| row == &[Value::BigInt(0)]));
        // A younger reader keeps what it sees, also when the oldest one goes.
        let younger = database.snapshot();
        (0..2000).for_each(|id| set(&database, &mut session, &table, id, &[(A, Value::BigInt(3))]));
        drop(snapshot);
        std::thread::sleep(Duration::from_millis(2500));
        let rows = view_rows(&younger.read_view(), &table, &[A]);
        let seen = |value| rows.iter().filter(|row| *row == &[Value::BigInt(value)]).count();
        assert_eq!((rows.len(), seen(1), seen(2)), (2000, 1999, 1));
        drop(younger);
        eventually("no versions", || database.statistics().version_bytes == 0);
    });
}

#[test]
fn entries_of_former_keys_go() {
    in_each(|database| {
        let table = items(&database, "items");
        fill(&database, &table, [item(1, 0, 0, 0), item(2, 0, 0, 0)]);
        let entries = || table.index(BY_KIND).entry_count();
        let mut session = database.session();
        let mut move_kinds = |from: i32| {
            for kind in from..from + 5_000 {
                set(&database, &mut session, &table, 1, &[(KIND, Value::Integer(kind))]);
                // Back and forth: the entry that the update needs must not go with the version that had it.
                set(&database, &mut session, &table, 2, &[(KIND, Value::Integer(kind % 2))]);
            }
        };
        move_kinds(1);
        eventually("one entry a row", || entries() == 2);
        let mut reader = Client::begin(&database, &table, Isolation::RepeatableRead);
        move_kinds(10_000);
        // What the reader sees, the newest states, and a few until the next write prunes them.
        assert!(entries() < 20, "{} entries for two rows", entries());
        assert_eq!(reader.ids_by_range(5_000, 5_000).unwrap(), [1]);
        assert_eq!(reader.ids_by_range(0, 1).unwrap(), [2]);
        reader.commit().unwrap();
        let mut check = Client::begin(&database, &table, Isolation::Serializable);
        assert_eq!(check.ids_by_range(0, 100_000).unwrap(), [2, 1]);
        check.rollback();
        eventually("one entry a row", || entries() == 2);
    });
}

#[test]
fn a_million_rows_that_come_and_go_do_not_grow_the_table() {
    const BATCH: i32 = 1_000;
    let database = Database::new();
    let table = items(&database, "items");
    let mut session = database.session();
    let mut blocks_at_half = 0;
    for batch in 0..1_000 {
        session
            .run(Isolation::Serializable, |transaction| {
                let new = (0..BATCH).map(|i| item(batch * BATCH + i, 1, 2, i % 10));
                new.into_iter().try_for_each(|row| transaction.insert(&table, row).map(drop))
            })
            .unwrap();
        session
            .run(Isolation::Serializable, |transaction| {
                for i in 0..BATCH {
                    let row = find(transaction, &table, batch * BATCH + i, &[])?.expect("just inserted");
                    transaction.delete(&table, row)?;
                }
                Ok(())
            })
            .unwrap();
        if batch == 500 {
            blocks_at_half = table.block_count();
        }
    }
    assert_eq!(table.row_count(), 0);
    let blocks = table.block_count();
    assert!(blocks < 32, "{blocks} blocks, {blocks_at_half} after the first half");
    eventually("no versions", || database.statistics().version_bytes == 0);
    eventually("no entries", || {
        table.index(BY_ID).entry_count() == 0 && table.index(BY_KIND).entry_count() == 0
    });
}

#[test]
fn who_deletes_sweeps_where_the_background_does_not_keep_up() {
    const BATCH: i32 = 1_000;
    // No pruner at all.
    let manager = TransactionManager::new(Versioning::default());
    let table = Arc::new(ankerdb_table::Storage::create(manager.new_table(), items_definition("items")));
    let mut transaction = Transaction::new(manager.clone(), manager.acquire_worker());
    for batch in 0..300 {
        let ids = batch * BATCH..(batch + 1) * BATCH;
        transaction.begin(Isolation::Serializable, false);
        for id in ids.clone() {
            transaction.insert(&table, item(id, 1, 2, id % 10)).unwrap();
        }
        transaction.commit().unwrap();
        transaction.begin(Isolation::Serializable, false);
        for id in ids {
            let row = find(&mut transaction, &table, id, &[]).unwrap().expect("just inserted");
            transaction.delete(&table, row).unwrap();
        }
        transaction.commit().unwrap();
    }
    assert_eq!(table.row_count(), 0);
    // Eight blocks of dead rows are too many, and a batch more may come before they are swept.
    let blocks = table.block_count();
    assert!(blocks <= 10, "{blocks} blocks for 300,000 rows of which 1,000 exist at a time");
}

#[test]
fn aborted_inserts_leave_nothing_behind() {
    in_each(|database| {
        let table = items(&database, "items");
        fill(&database, &table, [item(1, 0, 0, 0)]);
        let mut session = database.session();
        for turn in 0..20_000 {
            let outcome = session.try_run(Isolation::Serializable, |transaction| {
                transaction.insert(&table, item(2 + turn, 0, 0, 5))?;
                transaction.insert(&table, item(1, 0, 0, 0)).map(drop)
            });
            assert_eq!(outcome.unwrap_err().state(), SqlState::UniqueViolation);
        }
        assert_eq!((table.row_count(), table.block_count()), (1, 1));
        assert_eq!((table.index(BY_ID).entry_count(), table.index(BY_KIND).entry_count()), (1, 1));
    });
}

/// `(id integer primary key, note text)` and a note of that many bytes for each row.
fn notes(database: &Database, rows: i32, bytes: usize) -> Arc<Table> {
    let table = TableDefinition::new("notes")
        .column(ColumnDefinition::new("id", DataType::Integer))
        .column(ColumnDefinition::new("note", DataType::Text))
        .primary_key(&["id"]);
    let table = database.create_table(table).unwrap();
    fill(database, &table, (0..rows).map(|id| vec![Value::Integer(id), Value::text("n".repeat(bytes))]));
    table
}

fn rewrite_notes(database: &Database, table: &Arc<Table>, turns: usize) {
    let mut session = database.session();
    for turn in 0..turns {
        for id in 0..100 {
            let note = Value::text(format!("{turn:0>1000}"));
            set(database, &mut session, table, id, &[(1, note)]);
        }
        if turn % 50 == 0 {
            std::thread::sleep(Duration::from_millis(60));
        }
    }
}

#[test]
fn garbage_of_strings_goes() {
    let database = Database::new();
    let table = notes(&database, 100, 1000);
    let before = database.statistics().table_bytes;
    rewrite_notes(&database, &table, 500);
    // 50 MB were written.
    eventually("strings packed", || database.statistics().table_bytes < before + (2 << 20));
}

#[test]
fn garbage_of_strings_goes_under_an_old_reader_too() {
    let database = Database::new();
    let table = notes(&database, 100, 1000);
    let before = database.statistics().table_bytes;
    let reader = database.snapshot();
    rewrite_notes(&database, &table, 500);
    eventually("strings packed", || database.statistics().table_bytes < before + (2 << 20));
    let rows = view_rows(&reader.read_view(), &table, &[1]);
    assert!(rows.len() == 100 && rows.iter().all(|row| row == &[Value::text("n".repeat(1000))]));
}
