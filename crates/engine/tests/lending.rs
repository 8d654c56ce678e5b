//! Blocks handed to analytics: lent where nothing has changed, made once per snapshot where something has.

mod support;

use ankerdb_engine::*;
use std::sync::Arc;
use support::*;

const NOTE: usize = 2;

/// `(id integer primary key, a bigint, note text, flag boolean)`
fn notes(database: &Database, rows: i32) -> Arc<Table> {
    let table = TableDefinition::new("notes")
        .column(ColumnDefinition::new("id", DataType::Integer))
        .column(ColumnDefinition::new("a", DataType::BigInt))
        .column(ColumnDefinition::new("note", DataType::Text).nullable())
        .column(ColumnDefinition::new("flag", DataType::Boolean).nullable())
        .primary_key(&["id"]);
    let table = database.create_table(table).unwrap();
    fill(database, &table, (0..rows).map(row));
    table
}

fn note(id: i32) -> Value {
    if id % 10 == 0 { Value::Null } else { Value::text(format!("{id}{}", "-".repeat(id as usize % 40))) }
}

fn row(id: i32) -> Vec<Value> {
    let flag = if id % 7 == 0 { Value::Null } else { Value::Boolean(id % 3 == 0) };
    vec![Value::Integer(id), Value::BigInt(id as i64 * 3), note(id), flag]
}

const COLUMNS: [usize; 4] = [0, 1, 2, 3];
const FULL: i32 = ROWS_PER_BLOCK as i32;

fn live_pointer(table: &Table, block: BlockNumber, column: usize) -> *const u8 {
    // SAFETY: the address only, of an array that stays while nobody writes.
    unsafe { ankerdb_table::Storage::of(table).block(block).columns().current(column) }.values().pointer()
}

fn pointers(image: &BlockImage) -> Vec<*const u8> {
    image.columns.iter().map(|column| column.values.pointer).collect()
}

fn lent(image: &BlockImage) -> Vec<bool> {
    image.columns.iter().map(|column| column.lent).collect()
}

fn change(database: &Database, table: &Arc<Table>, change: impl Fn(&mut Client)) {
    let mut client = Client::begin(database, table, Isolation::Serializable);
    change(&mut client);
    client.commit().unwrap();
}

fn expected() -> Vec<Vec<Value>> {
    (0..FULL).map(row).collect()
}

#[test]
fn a_clean_full_block_is_the_live_array() {
    let database = Database::new();
    let table = notes(&database, FULL);
    let before = database.statistics();
    let (one, two) = (database.snapshot().read_view(), database.snapshot().read_view());
    let first = one.read(&table, 0, &COLUMNS).unwrap();
    let second = two.read(&table, 0, &COLUMNS).unwrap();
    assert_eq!(lent(&first), [true; 4]);
    assert!(first.selection.is_none() && first.rows == ROWS_PER_BLOCK);
    assert_eq!(pointers(&first), pointers(&second));
    assert_eq!(pointers(&first), COLUMNS.map(|column| live_pointer(&table, BlockNumber(0), column)));
    assert!(pointers(&first).iter().all(|pointer| (*pointer as usize).is_multiple_of(64)));
    assert_eq!(image_rows(&first, &table, &COLUMNS), expected());
    let after = database.statistics();
    assert_eq!((after.columns_lent - before.columns_lent, after.columns_materialized), (8, 0));
}

#[test]
fn a_write_moves_away_from_a_lent_array() {
    let database = Database::new();
    let table = notes(&database, FULL);
    let view = database.snapshot().read_view();
    let image = view.read(&table, 0, &COLUMNS).unwrap();
    let bytes: Vec<Vec<u8>> =
        image.columns.iter().map(|column| image_bytes(&column.values).to_vec()).collect();
    change(&database, &table, |client| {
        client.write(17, -1).unwrap();
        client.update(18, vec![(NOTE, Value::text("moved to another heap, or the same"))]).unwrap();
        client.update(20, vec![(NOTE, Value::text("no longer NULL"))]).unwrap();
        client.delete(19).unwrap();
    });
    assert_ne!(live_pointer(&table, BlockNumber(0), A), image.columns[A].values.pointer);
    assert_ne!(live_pointer(&table, BlockNumber(0), NOTE), image.columns[NOTE].values.pointer);
    assert_eq!(
        live_pointer(&table, BlockNumber(0), 0),
        image.columns[0].values.pointer,
        "an untouched column stays"
    );
    let now: Vec<&[u8]> = image.columns.iter().map(|column| image_bytes(&column.values)).collect();
    assert_eq!(now, bytes);
    assert_eq!(image_rows(&image, &table, &COLUMNS), expected());
    // The loan outlives its snapshot; a second write has nothing to copy.
    drop(view);
    let moved = live_pointer(&table, BlockNumber(0), A);
    change(&database, &table, |client| assert!(client.write(21, -1).unwrap()));
    assert_eq!(live_pointer(&table, BlockNumber(0), A), moved);
    assert_eq!(image_rows(&image, &table, &COLUMNS), expected());
}

#[test]
fn a_changed_block_is_made_once_per_snapshot() {
    let database = Database::new();
    let table = notes(&database, FULL);
    let snapshot = database.snapshot();
    change(&database, &table, |client| {
        client.write(17, -1).unwrap();
        client.update(18, vec![(NOTE, Value::text("changed"))]).unwrap();
        client.delete(19).unwrap();
    });
    let made = || database.statistics().columns_materialized;
    let first = snapshot.read_view().read(&table, 0, &COLUMNS[..2]).unwrap();
    assert_eq!((lent(&first), made()), (vec![true, false], 1), "the first column was not written");
    let second = snapshot.clone().read_view().read(&table, 0, &COLUMNS).unwrap();
    assert_eq!(pointers(&second)[..2], pointers(&first)[..]);
    assert_eq!(made(), 2, "only the other column that was written");
    assert_eq!(pointers(&snapshot.read_view().read(&table, 0, &COLUMNS).unwrap()), pointers(&second));
    assert_eq!(made(), 2);
    assert_eq!(image_rows(&second, &table, &COLUMNS), expected());
    // A new snapshot of the same block is lent again, with a hole in it.
    let new = database.snapshot().read_view().read(&table, 0, &COLUMNS).unwrap();
    assert_eq!(lent(&new), [true; 4]);
    let bits = new.selection.as_ref().expect("a row is gone");
    assert_eq!(bits.iter().map(|word| word.count_zeros()).sum::<u32>(), 1);
    assert_eq!(image_rows(&new, &table, &[0]).len(), ROWS_PER_BLOCK - 1);
}

#[test]
fn a_partial_block_is_copied() {
    let database = Database::new();
    let table = notes(&database, 100);
    let image = database.snapshot().read_view().read(&table, 0, &COLUMNS).unwrap();
    assert_eq!((lent(&image), image.rows), (vec![false; 4], 100));
    assert_eq!(image_rows(&image, &table, &COLUMNS), (0..100).map(row).collect::<Vec<_>>());
}

#[test]
fn a_partial_block_is_copied_again_only_after_a_change() {
    let database = Database::new();
    let table = notes(&database, 100);
    let read = || database.snapshot().read_view().read(&table, 0, &COLUMNS).unwrap();
    let first = read();
    assert_eq!(pointers(&read()), pointers(&first), "nothing has changed");
    change(&database, &table, |client| client.insert(row(100)).unwrap());
    let grown = read();
    assert_eq!(image_rows(&grown, &table, &COLUMNS), (0..101).map(row).collect::<Vec<_>>());
    assert_eq!(image_rows(&first, &table, &COLUMNS), (0..100).map(row).collect::<Vec<_>>());
    change(&database, &table, |client| assert!(client.write(5, -1).unwrap()));
    let written = read();
    assert_eq!(pointers(&written)[0], pointers(&grown)[0], "only the column that was written");
    assert_ne!(pointers(&written)[A], pointers(&grown)[A]);
}

/// A snapshot held through updates, deletes, inserts, pruning and rebuilt string heaps.
#[test]
fn snapshots_see_old_data_whatever_happens() {
    let database = Database::new();
    let table = notes(&database, FULL);
    let early = database.snapshot();
    for turn in 0..40 {
        change(&database, &table, |client| {
            for id in (turn % 4..1_000).step_by(4) {
                let note = Value::text(format!("turn {turn} {}", "x".repeat(500)));
                assert!(client.update(id, vec![(A, Value::BigInt(-1)), (NOTE, note)]).unwrap());
            }
        });
        if turn % 10 == 0 {
            std::thread::sleep(std::time::Duration::from_millis(60));
        }
    }
    let middle = database.snapshot();
    change(&database, &table, |client| {
        (0..2_000).for_each(|id| assert!(client.delete(id).unwrap()));
        (FULL..FULL + 100).for_each(|id| client.insert(row(id)).unwrap());
        (0..100).for_each(|id| client.insert(row(id)).unwrap());
    });
    std::thread::sleep(std::time::Duration::from_millis(120));
    let ids = |snapshot: &Snapshot| view_rows(&snapshot.read_view(), &table, &[0]).len();
    assert_eq!(view_rows(&early.read_view(), &table, &COLUMNS), expected());
    assert_eq!((ids(&middle), ids(&database.snapshot())), (8_192, 6_392));
    let last = |id: i32| format!("turn {} {}", 36 + id % 4, "x".repeat(500));
    for row in view_rows(&middle.read_view(), &table, &COLUMNS) {
        let Value::Integer(id) = row[0] else { panic!("{row:?}") };
        let wanted = if id < 1_000 { Value::text(last(id)) } else { note(id) };
        assert_eq!(row[NOTE], wanted, "row {id}");
    }
    drop(early);
    drop(middle);
    std::thread::sleep(std::time::Duration::from_millis(120));
    assert_eq!(ids(&database.snapshot()), 6_392);
}

#[test]
fn a_view_inside_a_transaction_shows_its_own_writes() {
    let database = Database::new();
    let table = notes(&database, FULL + 10);
    let mut client = Client::begin(&database, &table, Isolation::Serializable);
    client.write(5, -5).unwrap();
    client.update(6, vec![(NOTE, Value::text("a text that is longer than twelve bytes"))]).unwrap();
    client.update(7, vec![(NOTE, Value::Null), (3, Value::Boolean(true))]).unwrap();
    client.delete(8).unwrap();
    client.delete(FULL + 9).unwrap();
    client.insert(row(FULL + 10)).unwrap();
    client.insert(row(FULL + 11)).unwrap();
    client.delete(FULL + 11).unwrap();
    let mut expected: Vec<_> = (0..FULL + 11).filter(|id| ![8, FULL + 9].contains(id)).map(row).collect();
    expected[5][A] = Value::BigInt(-5);
    expected[6][NOTE] = Value::text("a text that is longer than twelve bytes");
    expected[7][NOTE] = Value::Null;
    expected[7][3] = Value::Boolean(true);
    let sorted = |mut rows: Vec<Vec<Value>>| {
        rows.sort_by_key(|row| row[0].as_integer());
        rows
    };
    let view = client.transaction.read_view();
    assert_eq!(sorted(view_rows(&view, &table, &COLUMNS)), expected);
    // The view stays as it was, whatever the transaction goes on to do.
    client.write(5, -6).unwrap();
    client.commit().unwrap();
    assert_eq!(sorted(view_rows(&view, &table, &COLUMNS)), expected);
    expected[5][A] = Value::BigInt(-6);
    assert_eq!(sorted(view_rows(&database.snapshot().read_view(), &table, &COLUMNS)), expected);
}
