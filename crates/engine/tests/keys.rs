//! Unique keys beside row locks and old versions: which rows are in conflict with a key, and which are not.

mod support;

use ankerdb_engine::*;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use support::*;

fn stage() -> (Database, Arc<Table>) {
    let database = Database::new();
    let table = items(&database, "items");
    fill(&database, &table, (1..=9).map(|id| item(id, 0, 0, 0)));
    (database, table)
}

/// Inserts a row in one try, as a procedure.
fn try_insert(database: &Database, table: &Arc<Table>, id: i32) -> Result<()> {
    let row = item(id, 7, 0, 0);
    database
        .session()
        .try_run(Isolation::Serializable, |transaction| transaction.insert(table, row).map(drop))
}

fn try_change(
    database: &Database,
    table: &Arc<Table>,
    id: i32,
    change: impl Fn(&mut Transaction, RowId) -> Result<()>,
) -> Result<()> {
    database.session().try_run(Isolation::Serializable, |transaction| {
        let row = find(transaction, table, id, &[])?.expect("the row is there");
        change(transaction, row)
    })
}

/// A client that has waited for row 1 at READ COMMITTED, found it deleted, and is now idle.
fn waits_for_a_deleted_row(database: &Database, table: &Arc<Table>) -> Client {
    let mut deleter = Client::begin(database, table, Isolation::ReadCommitted);
    assert!(deleter.delete(1).unwrap());
    let mut waiter = Client::begin(database, table, Isolation::ReadCommitted);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| waiter.write(1, 5));
        std::thread::sleep(std::time::Duration::from_millis(30));
        assert!(!waiting.is_finished());
        deleter.commit().unwrap();
        assert!(!waiting.join().unwrap().unwrap(), "the row is gone");
    });
    waiter
}

#[test]
fn a_locked_row_that_was_found_deleted_does_not_block_its_key() {
    let (database, table) = stage();
    let mut waiter = waits_for_a_deleted_row(&database, &table);
    try_insert(&database, &table, 1).unwrap();
    assert_eq!(waiter.read(1).unwrap(), Some(7));
    waiter.commit().unwrap();
}

#[test]
fn whoever_has_locked_a_deleted_row_can_insert_its_key() {
    let (database, table) = stage();
    let mut waiter = waits_for_a_deleted_row(&database, &table);
    waiter.insert(item(1, 8, 0, 0)).unwrap();
    waiter.commit().unwrap();
    assert_eq!(try_insert(&database, &table, 1).unwrap_err().state(), SqlState::UniqueViolation);
}

#[test]
fn a_locked_row_does_not_block_its_former_key() {
    let (database, table) = stage();
    // Keeps the row's former state, and with it the entry of the former key.
    let _reader = database.snapshot();
    let to = |id: i32| {
        let table = table.clone();
        move |transaction: &mut Transaction, row| {
            transaction.update(&table, row, vec![(ID, Value::Integer(id))])
        }
    };
    try_change(&database, &table, 1, to(100)).unwrap();
    let mut holder = Client::begin(&database, &table, Isolation::ReadCommitted);
    assert!(holder.lock(100, LockWait::Wait).unwrap().is_some());
    try_insert(&database, &table, 1).unwrap();
    // Nor does its key become free.
    assert_eq!(try_insert(&database, &table, 100).unwrap_err().state(), SqlState::UniqueViolation);
    holder.rollback();
}

#[test]
fn of_two_that_give_a_key_to_rows_the_second_is_refused_though_it_had_locked_first() {
    let (database, table) = stage();
    let _reader = database.snapshot();
    try_change(&database, &table, 1, |transaction, row| {
        transaction.update(&table, row, vec![(ID, Value::Integer(100))])
    })
    .unwrap();
    let mut holder = Client::begin(&database, &table, Isolation::ReadCommitted);
    assert!(holder.update(100, vec![(ID, Value::Integer(1))]).unwrap());
    try_insert(&database, &table, 1).unwrap();
    assert_eq!(holder.commit().unwrap_err().state(), SqlState::UniqueViolation);
}

#[test]
fn a_new_row_of_another_table_is_no_duplicate_though_it_has_the_same_place() {
    let database = Database::new();
    let tables = ["one", "other"].map(|name| items(&database, name));
    fill(&database, &tables[1], [item(1, 0, 0, 0)]);
    let _reader = database.snapshot();
    try_change(&database, &tables[1], 1, |transaction, row| transaction.delete(&tables[1], row)).unwrap();
    let mut session = database.session();
    session
        .try_run(Isolation::Serializable, |transaction| {
            tables.iter().try_for_each(|table| transaction.insert(table, item(1, 0, 0, 0)).map(drop))
        })
        .unwrap();
}

#[test]
fn a_transaction_finds_its_rows_under_the_keys_that_it_has_given_them_last() {
    let (database, table) = stage();
    let mut client = Client::begin(&database, &table, Isolation::Serializable);
    client.insert(item(20, 0, 0, 0)).unwrap();
    assert!(client.update(1, vec![(ID, Value::Integer(30))]).unwrap());
    assert!(client.find(20, &[]).unwrap().is_some() && client.find(30, &[]).unwrap().is_some());
    for (from, to) in [(20, 21), (30, 31), (21, 30), (31, 21), (30, 20)] {
        assert!(client.update(from, vec![(ID, Value::Integer(to))]).unwrap(), "{from} to {to}");
        assert!(client.find(from, &[]).unwrap().is_none() && client.find(to, &[]).unwrap().is_some());
    }
    assert!(client.delete(21).unwrap() && client.find(21, &[]).unwrap().is_none());
    let taken = client.insert(item(20, 0, 0, 0)).unwrap_err();
    assert_eq!(taken.state(), SqlState::UniqueViolation);
    client.insert(item(21, 0, 0, 0)).unwrap();
    let mut ids = client.ids_by_range(0, 0).unwrap();
    ids.sort_unstable();
    assert_eq!(ids, [2, 3, 4, 5, 6, 7, 8, 9, 20, 21]);
    client.commit().unwrap();
}

/// One statement of an interactive transaction that gives rows other ids.
fn move_all(client: &mut Client, moves: &[(i32, i32)]) -> Result<()> {
    let rows: Vec<RowId> =
        moves.iter().map(|(id, _)| client.find(*id, &[]).unwrap().expect("the row is there")).collect();
    for (row, (_, to)) in rows.into_iter().zip(moves) {
        client.transaction.update(&client.table, row, vec![(ID, Value::Integer(*to))])?;
    }
    client.transaction.check_constraints()
}

#[test]
fn a_statement_moves_keys_along_in_whatever_order_rows_come() {
    let (database, table) = stage();
    for isolation in [Isolation::ReadCommitted, Isolation::Serializable] {
        let mut client = Client::begin(&database, &table, isolation);
        let up: Vec<(i32, i32)> = (1..=9).map(|id| (id, id + 1)).collect();
        move_all(&mut client, &up).unwrap();
        assert!(client.find(1, &[]).unwrap().is_none() && client.find(10, &[]).unwrap().is_some());
        let down: Vec<(i32, i32)> = up.iter().rev().map(|&(id, to)| (to, id)).collect();
        move_all(&mut client, &down).unwrap();
        move_all(&mut client, &[(1, 2), (2, 1), (5, 3), (3, 5)]).unwrap();
        client.commit().unwrap();
        assert_eq!(try_insert(&database, &table, 9).unwrap_err().state(), SqlState::UniqueViolation);
        try_insert(&database, &table, 10).unwrap();
        try_change(&database, &table, 10, |transaction, row| transaction.delete(&table, row)).unwrap();
    }
}

/// The key is found to be taken at the end of the statement, not at its commit, whether its other row was written before or not.
#[test]
fn a_key_that_two_rows_end_with_is_refused_at_the_end_of_the_statement() {
    let (database, table) = stage();
    for moves in [&[(1, 2)][..], &[(1, 20), (2, 20)], &[(1, 2), (2, 3)], &[(2, 3), (3, 4), (4, 20), (5, 3)]] {
        let mut client = Client::begin(&database, &table, Isolation::ReadCommitted);
        let savepoint = client.transaction.set_savepoint().unwrap();
        let refused = move_all(&mut client, moves).unwrap_err();
        assert_eq!(refused.state(), SqlState::UniqueViolation, "{moves:?}");
        client.transaction.rollback_to(savepoint);
        client.transaction.check_constraints().unwrap();
        assert!((1..=9).all(|id| client.find(id, &[]).unwrap().is_some()));
        client.commit().unwrap();
    }
}

/// Interactive transactions lock rows and move them between a few keys, procedures insert and delete rows with these
/// keys, and at all times each key has one row. An old reader keeps all former keys' entries.
#[test]
fn keys_stay_unique_while_locked_rows_move_between_them() {
    const KEYS: i32 = 4;
    const TURNS: i32 = 300;
    /// Rows of another table that make commits long after they have entered the keys that matter.
    const FILLERS: i32 = 100;
    let (database, table) = stage();
    let fillers = items(&database, "fillers");
    let _reader = database.snapshot();
    let unique = || {
        let rows = view_rows(&database.snapshot().read_view(), &table, &[ID]);
        let ids: HashSet<i32> =
            rows.iter().map(|row| if let Value::Integer(id) = row[0] { id } else { 0 }).collect();
        assert_eq!(ids.len(), rows.len(), "{rows:?}");
    };
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (database, table, fillers) = (&database, &table, &fillers);
            scope.spawn(move || {
                for turn in 0..TURNS {
                    let mut client = Client::begin(database, table, Isolation::ReadCommitted);
                    let (from, to) = ((turn + thread) % KEYS + 1, (turn * 7 + 3) % KEYS + 1);
                    if client.update(from, vec![(ID, Value::Integer(to))]).is_ok() {
                        for filler in 0..FILLERS {
                            let id = (turn * 2 + thread) * FILLERS + filler;
                            client.transaction.insert(fillers, item(id, 0, 0, 0)).unwrap();
                        }
                        let _ = client.commit();
                    }
                }
            });
        }
        scope.spawn(|| {
            for turn in 0..10 * TURNS {
                let id = turn % KEYS + 1;
                let _ = try_insert(&database, &table, id);
                let _ = database.session().try_run(Isolation::Serializable, |transaction| {
                    match find(transaction, &table, (turn * 3) % KEYS + 1, &[])? {
                        Some(row) => transaction.delete(&table, row),
                        None => Ok(()),
                    }
                });
                unique();
            }
        });
    });
    unique();
}

/// A commit that has entered a key is waited for or given way to, though the row it is for was locked long before.
#[test]
fn a_key_entered_by_a_commit_of_a_locked_row_is_not_free() {
    const FILLERS: i32 = 20_000;
    let (database, table) = stage();
    let fillers = items(&database, "fillers");
    let mut holder = Client::begin(&database, &table, Isolation::ReadCommitted);
    assert!(holder.update(1, vec![(ID, Value::Integer(100))]).unwrap());
    for id in 0..FILLERS {
        holder.transaction.insert(&fillers, item(id, 0, 0, 0)).unwrap();
    }
    std::thread::scope(|scope| {
        let commit = scope.spawn(|| holder.commit());
        let is_entered = || {
            let mut found = false;
            ankerdb_table::Entries::of(table.index(BY_ID)).get(&key(&table, BY_ID, &[100]), |_| {
                found = true;
                ControlFlow::Break(())
            });
            found
        };
        while !is_entered() {
            std::hint::spin_loop();
        }
        assert!(try_insert(&database, &table, 100).is_err());
        commit.join().unwrap().unwrap();
    });
}
