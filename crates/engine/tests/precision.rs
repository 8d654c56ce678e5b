//! Precision locking: what is a conflict at SERIALIZABLE, and what is none.
//!
//! Each case is one read and one foreign write that commits between the read and the reader's own commit. The reader
//! also writes a row that no other transaction looks at, so that it has to be validated. All cases run twice: with
//! the write's record still in the ring of recent commits, and after the ring has forgotten it (`COMMITS_KEPT` =
//! 16,384 commits later), when validation looks at the tables themselves. Both must come to the same answers.

mod support;

use Outcome::{Conflict, Harmless};
use ankerdb_engine::*;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use support::*;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Outcome {
    Conflict,
    Harmless,
}

type Step = fn(&mut Client);

struct Case {
    name: &'static str,
    read: Step,
    write: Step,
    expected: Outcome,
}

const fn case(name: &'static str, read: Step, write: Step, expected: Outcome) -> Case {
    Case { name, read, write, expected }
}

/// Rows 1 to 8: a = b = 0, kind = 10 * id. Row 100 is the reader's own.
fn rows() -> impl Iterator<Item = Vec<Value>> {
    (1..=8).map(|id| item(id, 0, 0, 10 * id)).chain([item(100, 0, 0, 1000)])
}

// What is read.
fn row_1_column_a(client: &mut Client) {
    assert_eq!(client.read(1).unwrap(), Some(0));
}
fn key_50_missing(client: &mut Client) {
    assert_eq!(client.read(50).unwrap(), None);
}
fn kinds_20_to_40(client: &mut Client) {
    assert_eq!(client.ids_by_range(20, 40).unwrap(), [2, 3, 4]);
}
fn kinds_41_to_49(client: &mut Client) {
    assert!(client.ids_by_range(41, 49).unwrap().is_empty());
}
fn first_kind_from(client: &mut Client, direction: Direction, expected: i32) {
    let table = client.table.clone();
    let range = range(&table, BY_KIND, 15, 65);
    let mut found = None;
    let scan =
        client.transaction.scan_index(&table, BY_KIND, &range, direction, ColumnSet::EMPTY, &mut |t, row| {
            found = Some(t.integer(&table, row, ID));
            Ok(ControlFlow::Break(()))
        });
    scan.unwrap();
    assert_eq!(found, Some(expected));
}
fn smallest_kind_above_15(client: &mut Client) {
    first_kind_from(client, Direction::Forward, 2);
}
fn largest_kind_below_65(client: &mut Client) {
    first_kind_from(client, Direction::Backward, 6);
}
fn filter_20_to_40(client: &mut Client) {
    assert_eq!(client.ids_by_filter(20, 40).unwrap(), [2, 3, 4]);
}
fn view_20_to_40(client: &mut Client) {
    assert_eq!(client.ids_by_view(20, 40).unwrap(), [2, 3, 4]);
}
fn whole_table_column_a(client: &mut Client) {
    let table = client.table.clone();
    let mut rows = 0;
    let scan = client.transaction.scan_table(&table, ColumnSet::of(&[A]), None, &mut |t, row| {
        rows += 1;
        assert_eq!(t.bigint(&table, row, A), 0);
        Ok(ControlFlow::Continue(()))
    });
    scan.unwrap();
    assert_eq!(rows, 9);
}
/// Reads like `count(*)`: no cell is looked at.
fn all_counted(client: &mut Client) {
    assert_eq!(client.count().unwrap(), 9);
}
fn all_counted_by_view(client: &mut Client) {
    assert_eq!(client.count_by_view().unwrap(), 9);
}
/// Reads like `EXISTS`.
fn any_row(client: &mut Client) {
    assert!(client.has_rows().unwrap());
}
fn kinds_20_to_40_counted(client: &mut Client) {
    assert_eq!(client.count_range(20, 40).unwrap(), 3);
}
fn row_1_is_there(client: &mut Client) {
    assert!(client.find(1, &[]).unwrap().is_some());
}
/// Matched against everything that is written: a filter that looks at nothing.
fn all_counted_under_a_filter(client: &mut Client) {
    let (table, filter): (_, RowFilter) = (client.table.clone(), Arc::new(|_| true));
    client.transaction.note_table_read(&table, ColumnSet::EMPTY, Some(filter)).unwrap();
}
fn own_new_row(client: &mut Client) {
    client.insert(item(60, 0, 0, 600)).unwrap();
    assert_eq!(client.read(60).unwrap(), Some(0));
}

// What is written meanwhile.
fn set(client: &mut Client, id: i32, column: usize, value: Value) {
    assert!(client.update(id, vec![(column, value)]).unwrap());
}
fn a_of_1(client: &mut Client) {
    set(client, 1, A, Value::BigInt(5));
}
fn b_of_1(client: &mut Client) {
    set(client, 1, B, Value::BigInt(5));
}
fn a_of_2(client: &mut Client) {
    set(client, 2, A, Value::BigInt(5));
}
fn a_of_3(client: &mut Client) {
    set(client, 3, A, Value::BigInt(5));
}
fn b_of_3(client: &mut Client) {
    set(client, 3, B, Value::BigInt(5));
}
fn a_of_7(client: &mut Client) {
    set(client, 7, A, Value::BigInt(5));
}
fn id_of_1(client: &mut Client) {
    set(client, 1, ID, Value::Integer(51));
}
fn id_of_2_becomes_50(client: &mut Client) {
    set(client, 2, ID, Value::Integer(50));
}
fn kind_of_1_to_25(client: &mut Client) {
    set(client, 1, KIND, Value::Integer(25));
}
fn kind_of_3_to_99(client: &mut Client) {
    set(client, 3, KIND, Value::Integer(99));
}
fn kind_of_7_to_99(client: &mut Client) {
    set(client, 7, KIND, Value::Integer(99));
}
fn delete_1(client: &mut Client) {
    assert!(client.delete(1).unwrap());
}
fn delete_2(client: &mut Client) {
    assert!(client.delete(2).unwrap());
}
fn delete_3(client: &mut Client) {
    assert!(client.delete(3).unwrap());
}
fn delete_7(client: &mut Client) {
    assert!(client.delete(7).unwrap());
}
fn insert_50_of_kind_45(client: &mut Client) {
    client.insert(item(50, 0, 0, 45)).unwrap();
}
fn insert_51_of_kind_18(client: &mut Client) {
    client.insert(item(51, 0, 0, 18)).unwrap();
}
fn insert_51_of_kind_30(client: &mut Client) {
    client.insert(item(51, 0, 0, 30)).unwrap();
}
fn insert_51_of_kind_62(client: &mut Client) {
    client.insert(item(51, 0, 0, 62)).unwrap();
}
fn lock_1_only(client: &mut Client) {
    assert!(client.lock(1, LockWait::Wait).unwrap().is_some());
}
fn delete_20_to_40(client: &mut Client) {
    assert_eq!(client.delete_range(20, 40).unwrap(), 3);
}
fn delete_all(client: &mut Client) {
    assert_eq!(client.delete_all_but(100).unwrap(), 8);
}
fn insert_51_and_delete_it(client: &mut Client) {
    client.insert(item(51, 0, 0, 30)).unwrap();
    assert!(client.delete(51).unwrap());
}

const CASES: &[Case] = &[
    case("same column of the row", row_1_column_a, a_of_1, Conflict),
    case("another column of the row", row_1_column_a, b_of_1, Harmless),
    case("another row", row_1_column_a, a_of_2, Harmless),
    case("the row is deleted", row_1_column_a, delete_1, Conflict),
    case("another row is deleted", row_1_column_a, delete_2, Harmless),
    case("the row gets another key", row_1_column_a, id_of_1, Conflict),
    case("the row is locked, not written", row_1_column_a, lock_1_only, Harmless),
    case("a missing key appears", key_50_missing, insert_50_of_kind_45, Conflict),
    case("a missing key appears by an update", key_50_missing, id_of_2_becomes_50, Conflict),
    case("a key next to a missing one appears", key_50_missing, insert_51_of_kind_30, Harmless),
    case("insert into the range", kinds_20_to_40, insert_51_of_kind_30, Conflict),
    case("insert beside the range", kinds_20_to_40, insert_50_of_kind_45, Harmless),
    case("insert and delete at once in the range", kinds_20_to_40, insert_51_and_delete_it, Harmless),
    case("insert into an empty range", kinds_41_to_49, insert_50_of_kind_45, Conflict),
    case("insert beside an empty range", kinds_41_to_49, insert_51_of_kind_30, Harmless),
    case("delete in the range", kinds_20_to_40, delete_3, Conflict),
    case("delete beside the range", kinds_20_to_40, delete_7, Harmless),
    case("a key moves into the range", kinds_20_to_40, kind_of_1_to_25, Conflict),
    case("a key moves out of the range", kinds_20_to_40, kind_of_3_to_99, Conflict),
    case("a key moves beside the range", kinds_20_to_40, kind_of_7_to_99, Harmless),
    case("a column not looked at in the range", kinds_20_to_40, a_of_3, Harmless),
    case("forward: before the first row found", smallest_kind_above_15, insert_51_of_kind_18, Conflict),
    case("forward: behind the first row found", smallest_kind_above_15, insert_51_of_kind_30, Harmless),
    case("backward: behind the last row found", largest_kind_below_65, insert_51_of_kind_62, Conflict),
    case("backward: before the last row found", largest_kind_below_65, insert_51_of_kind_30, Harmless),
    case("insert that passes the filter", filter_20_to_40, insert_51_of_kind_30, Conflict),
    case("insert that fails the filter", filter_20_to_40, insert_50_of_kind_45, Harmless),
    case("delete that passes the filter", filter_20_to_40, delete_3, Conflict),
    case("delete that fails the filter", filter_20_to_40, delete_7, Harmless),
    case("a row comes to pass the filter", filter_20_to_40, kind_of_1_to_25, Conflict),
    case("a row ceases to pass the filter", filter_20_to_40, kind_of_3_to_99, Conflict),
    case("a row fails the filter before and after", filter_20_to_40, kind_of_7_to_99, Harmless),
    case("a column that the scan did not look at", filter_20_to_40, b_of_3, Harmless),
    case("view: insert that passes the filter", view_20_to_40, insert_51_of_kind_30, Conflict),
    case("view: insert that fails the filter", view_20_to_40, insert_50_of_kind_45, Harmless),
    case("view: a row ceases to pass the filter", view_20_to_40, kind_of_3_to_99, Conflict),
    case("whole table: any row's column", whole_table_column_a, a_of_7, Conflict),
    case("whole table: any row's other column", whole_table_column_a, b_of_3, Harmless),
    case("whole table: insert", whole_table_column_a, insert_51_of_kind_30, Conflict),
    case("whole table: delete", whole_table_column_a, delete_7, Conflict),
    case("count: insert", all_counted, insert_51_of_kind_30, Conflict),
    case("count: delete", all_counted, delete_7, Conflict),
    case("count: range delete", all_counted, delete_20_to_40, Conflict),
    case("count: update", all_counted, a_of_7, Harmless),
    case("count: a row gets another key", all_counted, id_of_1, Harmless),
    case("count: insert and delete at once", all_counted, insert_51_and_delete_it, Harmless),
    case("count by view: insert", all_counted_by_view, insert_51_of_kind_30, Conflict),
    case("count by view: delete", all_counted_by_view, delete_7, Conflict),
    case("count by view: update", all_counted_by_view, a_of_7, Harmless),
    case("count under a filter: insert", all_counted_under_a_filter, insert_51_of_kind_30, Conflict),
    case("count under a filter: delete", all_counted_under_a_filter, delete_7, Conflict),
    case("count under a filter: update", all_counted_under_a_filter, a_of_7, Harmless),
    case("exists: insert", any_row, insert_51_of_kind_30, Conflict),
    case("exists: all others deleted", any_row, delete_all, Conflict),
    case("exists: update", any_row, b_of_1, Harmless),
    case("count of a range: insert", kinds_20_to_40_counted, insert_51_of_kind_30, Conflict),
    case("count of a range: insert beside it", kinds_20_to_40_counted, insert_50_of_kind_45, Harmless),
    case("count of a range: range delete", kinds_20_to_40_counted, delete_20_to_40, Conflict),
    case("count of a range: a key moves out", kinds_20_to_40_counted, kind_of_3_to_99, Conflict),
    case("count of a range: update", kinds_20_to_40_counted, a_of_3, Harmless),
    case("existence of a row: deleted", row_1_is_there, delete_1, Conflict),
    case("existence of a row: updated", row_1_is_there, a_of_1, Harmless),
    case("nothing but its own row", own_new_row, a_of_1, Harmless),
];

/// Runs all cases at once, each on a table of its own; `before` runs before the reads of each reader, and `meanwhile`
/// between the writes and the readers' commits.
fn run(before: impl Fn(&Arc<Table>, &mut Transaction), meanwhile: impl Fn(&Database)) {
    let database = Database::new();
    let elsewhere = items(&database, "elsewhere");
    fill(&database, &elsewhere, (0..300).map(|id| item(id, 0, 0, id)));
    let tables: Vec<_> = (0..CASES.len()).map(|i| items(&database, &format!("items_{i}"))).collect();
    tables.iter().for_each(|table| fill(&database, table, rows()));
    let begin = |table| Client::begin(&database, table, Isolation::Serializable);
    let readers: Vec<_> = (CASES.iter().zip(&tables))
        .map(|(case, table)| {
            let mut reader = begin(table);
            before(&elsewhere, &mut reader.transaction);
            (case.read)(&mut reader);
            reader
        })
        .collect();
    for (case, table) in CASES.iter().zip(&tables) {
        let mut writer = begin(table);
        (case.write)(&mut writer);
        writer.commit().unwrap();
    }
    meanwhile(&database);
    let mut wrong = Vec::new();
    for (case, mut reader) in CASES.iter().zip(readers) {
        assert!(reader.write(100, 1).unwrap());
        let outcome = match reader.commit() {
            Ok(_) => Harmless,
            Err(error) => {
                assert_eq!(error.state(), SqlState::SerializationFailure);
                Conflict
            }
        };
        if outcome != case.expected {
            wrong.push(format!("{}: {outcome:?}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// More commits than the ring of recent ones holds.
fn outlive_the_ring(database: &Database) {
    let table = items(database, "meanwhile");
    fill(database, &table, [item(1, 0, 0, 0)]);
    count_up(database, &table, 1, 17_000);
}

fn count_up(database: &Database, table: &Arc<Table>, id: i32, times: i64) {
    let mut session = database.session();
    for _ in 0..times {
        let counted = session.try_run(Isolation::RepeatableRead, |transaction| {
            let row = find(transaction, table, id, &[])?.expect("the row is there");
            let next = transaction.bigint(table, row, A) + 1;
            transaction.update(table, row, vec![(A, Value::BigInt(next))])
        });
        counted.unwrap();
    }
}

#[test]
fn validated_against_recent_commits() {
    run(|_, _| (), |_| ());
}

#[test]
fn validated_against_the_tables() {
    run(|_, _| (), outlive_the_ring);
}

/// Reads so much of another table, of all forms, that writes are looked up instead of compared.
fn read_a_lot(table: &Arc<Table>, reader: &mut Transaction) {
    for id in 0..300 {
        assert!(find(reader, table, id, &[A]).unwrap().is_some());
        assert!(find(reader, table, 1_000 + id, &[A]).unwrap().is_none());
        reader.note_table_read(table, ColumnSet::EMPTY, None).unwrap();
    }
}

#[test]
fn validated_with_much_else_read() {
    run(read_a_lot, |_| ());
}

#[test]
fn validated_with_much_else_read_against_the_tables() {
    run(read_a_lot, outlive_the_ring);
}

/// Arranging and validating what was read can be long, and ends when it is interrupted; the transaction has written nothing.
#[test]
fn a_long_validation_is_interrupted() {
    let database = Database::new();
    let table = items(&database, "items");
    fill(&database, &table, (0..6_000).map(|id| item(id, 0, 0, 0)));
    let mut reader = Client::begin(&database, &table, Isolation::Serializable);
    let interrupt = Interrupt::new();
    reader.transaction.set_interrupt(interrupt.clone());
    for id in 0..6_000 {
        assert!(reader.find(id, &[A]).unwrap().is_some());
    }
    reader.write(1, 5).unwrap();
    interrupt.raise(Cause::Timeout);
    assert_eq!(reader.commit().unwrap_err().state(), SqlState::QueryCanceled);
    let mut check = Client::begin(&database, &table, Isolation::Serializable);
    assert_eq!(check.read(1).unwrap(), Some(0));
    check.write(1, 6).unwrap();
    check.commit().unwrap();
}

/// The cost of validation is in what was written meanwhile, not in that times what was read: comparing these would take
/// minutes.
#[test]
fn much_that_was_read_is_validated_against_many_commits() {
    let database = Database::new();
    let (table, other) = (items(&database, "items"), items(&database, "other"));
    fill(&database, &table, (0..50_000).map(|id| item(id, 0, 0, 0)));
    fill(&database, &other, (0..2).map(|id| item(id, 0, 0, 0)));
    let mut reader = Client::begin(&database, &table, Isolation::Serializable);
    for id in 0..50_000 {
        assert!(find(&mut reader.transaction, &table, id, &[A]).unwrap().is_some());
    }
    for id in 60_000..70_000 {
        assert!(find(&mut reader.transaction, &table, id, &[A]).unwrap().is_none());
    }
    count_up(&database, &other, 1, 10_000);
    reader.write(1, 5).unwrap();
    let began = std::time::Instant::now();
    reader.commit().unwrap();
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

/// A transaction that outlives the ring still commits what it wrote, and what changed in rows that it does not
/// depend on is no conflict, although versions were pruned in the middle of their chains.
#[test]
fn an_old_transaction_commits_beside_a_hot_row() {
    let database = Database::new();
    let table = items(&database, "items");
    fill(&database, &table, [item(1, 0, 0, 1), item(2, 0, 0, 2)]);
    for (columns, expected) in [(&[A][..], Conflict), (&[B][..], Harmless)] {
        let mut old = Client::begin(&database, &table, Isolation::Serializable);
        assert!(old.find(1, columns).unwrap().is_some());
        count_up(&database, &table, 1, 17_000);
        let seen = old.read(2).unwrap().unwrap();
        old.write(2, seen + 1).unwrap();
        let outcome = old.commit();
        assert_eq!(outcome.is_err(), expected == Conflict, "{columns:?}: {outcome:?}");
    }
    let mut check = Client::begin(&database, &table, Isolation::Serializable);
    assert_eq!((check.read(1).unwrap(), check.read(2).unwrap()), (Some(34_000), Some(1)));
}

/// A row that comes into the filter and leaves it again before the reader commits was never read, at either end.
#[test]
fn a_row_that_passed_the_filter_only_in_between_is_harmless() {
    let database = Database::new();
    let table = items(&database, "items");
    fill(&database, &table, rows());
    let begin = || Client::begin(&database, &table, Isolation::Serializable);
    let mut reader = begin();
    assert_eq!(reader.ids_by_filter(20, 40).unwrap(), [2, 3, 4]);
    for kind in [25, 70] {
        let mut writer = begin();
        set(&mut writer, 7, KIND, Value::Integer(kind));
        writer.commit().unwrap();
    }
    reader.write(100, 1).unwrap();
    reader.commit().unwrap();
}

/// Two that read and write different halves of one table never meet.
#[test]
fn disjoint_halves_never_conflict() {
    let database = Database::new();
    let table = items(&database, "items");
    fill(&database, &table, (0..2_000).map(|id| item(id, 0, 0, id / 1_000)));
    std::thread::scope(|scope| {
        for half in 0..2 {
            let (database, table) = (&database, &table);
            scope.spawn(move || {
                let mut session = database.session();
                for turn in 0..300 {
                    let moved = session.try_run(Isolation::Serializable, |transaction| {
                        let mut sum = 0;
                        let (range, columns) = (range(table, BY_KIND, half, half), ColumnSet::of(&[A]));
                        transaction.scan_index(
                            table,
                            BY_KIND,
                            &range,
                            Direction::Forward,
                            columns,
                            &mut |t, row| {
                                sum += t.bigint(table, row, A);
                                Ok(ControlFlow::Continue(()))
                            },
                        )?;
                        assert_eq!(sum, turn);
                        let row = find(transaction, table, half * 1_000 + turn as i32, &[A])?.unwrap();
                        transaction.update(table, row, vec![(A, Value::BigInt(1))])
                    });
                    moved.unwrap();
                }
            });
        }
    });
    assert_eq!(database.statistics().aborts, 0);
}

/// Whether a row has come to pass a filter is asked as of the reader's own commit. Here a third transaction, which
/// commits after it, takes the row away again while the reader is being validated.
#[test]
fn a_later_commit_does_not_hide_a_conflict() {
    let database = Database::new();
    let table = items(&database, "items");
    fill(&database, &table, rows());
    let move_row_7 = |kind: i32| {
        let mut writer = Client::begin(&database, &table, Isolation::RepeatableRead);
        set(&mut writer, 7, KIND, Value::Integer(kind));
        writer.commit().unwrap();
    };
    let (asked, answered) = std::sync::mpsc::channel();
    let armed = Arc::new(AtomicBool::new(false));
    let (passes, is_armed) = (kinds(20, 40), armed.clone());
    let filter: RowFilter = Arc::new(move |column| {
        if is_armed.swap(false, Ordering::Relaxed) {
            asked.send(()).unwrap();
            // The third transaction installs now, and waits to become visible until the reader is done.
            std::thread::sleep(Duration::from_millis(100));
        }
        passes(column)
    });
    let mut reader = Client::begin(&database, &table, Isolation::Serializable);
    reader.transaction.note_table_read(&table, ColumnSet::of(&[ID, KIND]), Some(filter)).unwrap();
    reader.write(100, 1).unwrap();
    move_row_7(30);
    armed.store(true, Ordering::Relaxed);
    std::thread::scope(|scope| {
        let move_row_7 = &move_row_7;
        scope.spawn(move || {
            answered.recv().unwrap();
            move_row_7(70);
        });
        let outcome = reader.commit();
        assert_eq!(outcome.map_err(|error| error.state()), Err(SqlState::SerializationFailure));
    });
}
