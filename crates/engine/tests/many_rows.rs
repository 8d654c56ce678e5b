//! Transactions of many rows, and many rows of one key. Nothing here is measured: what is quadratic would not end.

mod support;

use ankerdb_engine::*;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use support::*;

/// Rows with one kind, in whatever index that is.
fn of_kind(transaction: &mut Transaction, table: &Arc<Table>, kind: i32, limit: usize) -> Vec<RowId> {
    let mut rows = Vec::new();
    let range = range(table, BY_KIND, kind, kind);
    let columns = ColumnSet::of(&[ID]);
    let visited =
        transaction.scan_index(table, BY_KIND, &range, Direction::Forward, columns, &mut |_, row| {
            rows.push(row);
            Ok(if rows.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        });
    visited.unwrap();
    rows
}

#[test]
fn many_rows_of_one_key_are_inserted_read_deleted_and_swept() {
    const ROWS: i32 = 200_000;
    const KIND_OF_ALL: i32 = 7;
    let database = Database::new();
    let table = hashed_items(&database, "items");
    let in_index = || table.index(BY_KIND).entry_count();
    let deleted = AtomicUsize::new(0);
    let running = Running::default();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut session = database.session();
                while running.goes_on() {
                    let least = deleted.load(Ordering::SeqCst);
                    let mut transaction = session.begin(Isolation::Serializable);
                    let rows = of_kind(&mut transaction, &table, KIND_OF_ALL, usize::MAX);
                    let ids: Vec<i32> =
                        rows.iter().map(|&row| transaction.integer(&table, row, ID)).collect();
                    // Whole commits of a thousand rows each; of deletions also no fewer than were known.
                    assert_eq!(ids.len() % 1_000, 0);
                    assert!(ids.len() <= ROWS as usize - least);
                    assert!(rows.is_sorted_by(|one, other| one < other), "each row once");
                    assert_eq!(of_kind(&mut transaction, &table, KIND_OF_ALL, 1).len(), ids.len().min(1));
                    drop(transaction);
                    std::thread::sleep(Duration::from_millis(10));
                }
            });
        }
        let _until_the_end = running.until_drop();
        for first in (0..ROWS).step_by(1_000) {
            fill(&database, &table, (first..first + 1_000).map(|id| item(id, 0, 0, KIND_OF_ALL)));
        }
        assert_eq!(in_index(), ROWS as usize);
        let mut session = database.session();
        for first in (0..ROWS).step_by(2_000) {
            let done = session.run(Isolation::RepeatableRead, |transaction| {
                (first..first + 1_000).try_for_each(|id| {
                    let row = find(transaction, &table, id, &[])?.expect("it is there");
                    transaction.delete(&table, row)
                })
            });
            done.unwrap();
            deleted.fetch_add(1_000, Ordering::SeqCst);
        }
        let mut transaction = session.begin(Isolation::Serializable);
        let rows = of_kind(&mut transaction, &table, KIND_OF_ALL, usize::MAX);
        let ids: Vec<i32> = rows.iter().map(|&row| transaction.integer(&table, row, ID)).collect();
        assert!(ids.len() == ROWS as usize / 2 && ids.iter().all(|id| id % 2_000 >= 1_000));
    });
    let begun = Instant::now();
    while in_index() > ROWS as usize / 2 {
        assert!(begun.elapsed() < Duration::from_secs(60), "{} entries are left", in_index());
        std::thread::sleep(Duration::from_millis(2));
    }
    let per_row = table.index(BY_KIND).memory_bytes() / ROWS as usize;
    assert!(per_row <= 64, "{per_row} bytes for each row that there was");
}

#[test]
fn small_scans_among_many_own_rows_cost_what_they_visit() {
    const ROWS: i32 = 100_000;
    let database = Database::new();
    let table = items(&database, "items");
    let mut client = Client::begin(&database, &table, Isolation::Serializable);
    for id in 0..ROWS {
        client.insert(item(id, 0, 0, id / 2)).unwrap();
    }
    let transaction = &mut client.transaction;
    for number in 0..ROWS {
        let kind = number.wrapping_mul(77_773).rem_euclid(ROWS / 2);
        assert_eq!(of_kind(transaction, &table, kind, usize::MAX).len(), 2);
        // All that come after it lie in the range.
        let mut first = None;
        let behind = range(&table, BY_ID, number, i32::MAX);
        for direction in [Direction::Forward, Direction::Backward] {
            let columns = ColumnSet::of(&[ID]);
            let visited = transaction.scan_index(
                &table,
                BY_ID,
                &behind,
                direction,
                columns,
                &mut |transaction, row| {
                    first = Some(transaction.integer(&table, row, ID));
                    Ok(ControlFlow::Break(()))
                },
            );
            visited.unwrap();
            assert_eq!(first, Some(if direction == Direction::Forward { number } else { ROWS - 1 }));
        }
        let mut any = 0;
        let visited = transaction.scan_table(&table, ColumnSet::EMPTY, None, &mut |_, _| {
            any += 1;
            Ok(ControlFlow::Break(()))
        });
        visited.unwrap();
        assert_eq!(any, 1);
    }
}

#[test]
fn a_scan_visits_own_rows_once_though_its_visitor_moves_them_ahead() {
    for level in LEVELS {
        let database = Database::new();
        let table = items(&database, "items");
        fill(&database, &table, (0..50).map(|id| item(id, 0, 0, id)));
        let mut client = Client::begin(&database, &table, level);
        (50..1_000).for_each(|id| client.insert(item(id, 0, 0, id)).unwrap());
        let mut visited = Vec::new();
        let all = KeyRange::all();
        let columns = ColumnSet::of(&[ID, KIND]);
        let outcome = client.transaction.scan_index(
            &table,
            BY_KIND,
            &all,
            Direction::Forward,
            columns,
            &mut |transaction, row| {
                let id = transaction.integer(&table, row, ID);
                visited.push(id);
                let kind = transaction.integer(&table, row, KIND);
                transaction.update(&table, row, vec![(KIND, Value::Integer(kind + 100))])?;
                // Looks among the own keys while the scan is open; and rows of its own behind all.
                assert!(!of_kind(transaction, &table, kind + 100, 2).is_empty());
                transaction.insert(&table, item(10_000 + id, 0, 0, 5_000))?;
                Ok(ControlFlow::Continue(()))
            },
        );
        outcome.unwrap();
        assert_eq!(visited, (0..1_000).collect::<Vec<_>>());
        assert_eq!(of_kind(&mut client.transaction, &table, 5_000, usize::MAX).len(), 1_000);
        assert_eq!(client.ids_by_range(0, 99).unwrap(), []);
        client.commit().unwrap();
        assert_eq!(Client::begin(&database, &table, level).ids_by_range(100, 1_099).unwrap().len(), 1_000);
    }
}

/// A client locks and changes many rows, and gives up: those who wait for the first and the last of them go on.
#[test]
fn rows_of_a_large_transaction_are_waited_for_and_given_up() {
    const ROWS: i32 = 50_000;
    for commits in [false, true] {
        let database = Database::new();
        let table = items(&database, "items");
        fill(&database, &table, (0..ROWS).map(|id| item(id, 1, 0, 0)));
        let mut large = Client::begin(&database, &table, Isolation::ReadCommitted);
        for id in 0..ROWS {
            assert!(large.write(id, 2).unwrap());
        }
        assert_eq!(large.transaction.write_count(), ROWS as usize);
        std::thread::scope(|scope| {
            let (database, table) = (&database, &table);
            let waiters = [0, 20, ROWS / 2, ROWS - 1].map(|id| {
                scope.spawn(move || {
                    let mut client = Client::begin(database, table, Isolation::ReadCommitted);
                    let busy = client.lock(id, LockWait::NoWait).unwrap_err();
                    assert_eq!(busy.state(), SqlState::LockNotAvailable);
                    assert_eq!(client.lock(id, LockWait::Skip), Ok(None));
                    let row = client.lock(id, LockWait::Wait).unwrap().expect("it is there");
                    client.transaction.bigint(table, row, A)
                })
            });
            std::thread::sleep(Duration::from_millis(100));
            assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
            match commits {
                true => large.commit().map(drop).unwrap(),
                false => drop(large),
            }
            let expected = if commits { 2 } else { 1 };
            waiters.into_iter().for_each(|waiter| assert_eq!(waiter.join().unwrap(), expected));
        });
        let mut next = Client::begin(&database, &table, Isolation::ReadCommitted);
        assert!((0..ROWS).all(|id| next.lock(id, LockWait::NoWait).unwrap().is_some()));
    }
}
