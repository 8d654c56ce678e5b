//! Statements that run again: an interactive transaction at SERIALIZABLE has waited for a row, which has changed
//! meanwhile. Its timestamp moves on if what earlier statements have read still holds.

mod support;

use ankerdb_engine::*;
use std::sync::Arc;
use support::*;

/// Items 1 to 8: a = b = 0, kind = 10 * id.
struct Stage {
    database: Database,
    items: Arc<Table>,
}

impl Stage {
    fn new() -> Stage {
        let database = Database::new();
        let items = items(&database, "items");
        fill(&database, &items, (1..=8).map(|id| item(id, 0, 0, 10 * id)));
        Stage { database, items }
    }

    fn begin(&self, level: Isolation) -> Client {
        Client::begin(&self.database, &self.items, level)
    }

    /// Runs and commits something else in a transaction of its own.
    fn meanwhile(&self, work: impl FnOnce(&mut Client)) {
        let mut other = self.begin(Isolation::Serializable);
        work(&mut other);
        other.commit().unwrap();
    }

    fn committed(&self, id: i32) -> Option<i64> {
        self.begin(Isolation::Serializable).read(id).unwrap()
    }
}

/// Adds one to column a, as `UPDATE ... SET a = a + 1` does: the lock first, and the sum of what is there then.
fn increment(client: &mut Client, id: i32) -> Result<()> {
    let row = client.lock(id, LockWait::Wait)?.expect("the item is there");
    let a = client.transaction.bigint(&client.table, row, A);
    client.transaction.update(&client.table, row, vec![(A, Value::BigInt(a + 1))])
}

fn state<T>(outcome: Result<T>) -> Option<SqlState> {
    outcome.err().map(|error| error.state())
}

const CONFLICT: Option<SqlState> = Some(SqlState::SerializationFailure);

#[test]
fn a_first_statement_always_runs_again() {
    const ROUNDS: i64 = 200;
    let stage = Stage::new();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let mut client = stage.begin(Isolation::Serializable);
                    increment(&mut client, 1).unwrap();
                    client.commit().unwrap();
                }
            });
        }
    });
    assert_eq!(stage.committed(1), Some(4 * ROUNDS));
}

type Step = fn(&mut Client);

fn reads_row_2(client: &mut Client) {
    assert_eq!(client.read(2).unwrap(), Some(0));
}
fn misses_row_50(client: &mut Client) {
    assert_eq!(client.read(50).unwrap(), None);
}
fn reads_kinds_20_to_40(client: &mut Client) {
    assert_eq!(client.ids_by_range(20, 40).unwrap(), [2, 3, 4]);
}
fn filters_kinds_20_to_40(client: &mut Client) {
    assert_eq!(client.ids_by_filter(20, 40).unwrap(), [2, 3, 4]);
}
fn counts(client: &mut Client) {
    assert_eq!(client.count().unwrap(), 8);
}
fn counts_in_a_view(client: &mut Client) {
    assert_eq!(client.count_by_view().unwrap(), 8);
}
fn writes_a_of_2(client: &mut Client) {
    client.write(2, 7).unwrap();
}
fn writes_b_of_2(client: &mut Client) {
    client.update(2, vec![(B, Value::BigInt(7))]).unwrap();
}
fn writes_a_of_8(client: &mut Client) {
    client.write(8, 7).unwrap();
}
fn inserts_50_of_kind_30(client: &mut Client) {
    client.insert(item(50, 0, 0, 30)).unwrap();
}
fn inserts_51_of_kind_90(client: &mut Client) {
    client.insert(item(51, 0, 0, 90)).unwrap();
}
fn deletes_3(client: &mut Client) {
    assert!(client.delete(3).unwrap());
}
fn moves_8_to_kind_30(client: &mut Client) {
    client.update(8, vec![(KIND, Value::Integer(30))]).unwrap();
}

/// What was read earlier, what is written meanwhile, and whether the statement may run again.
const CASES: &[(Step, Step, bool)] = &[
    (reads_row_2, writes_a_of_2, false),
    (reads_row_2, writes_b_of_2, true),
    (reads_row_2, writes_a_of_8, true),
    (misses_row_50, inserts_50_of_kind_30, false),
    (misses_row_50, inserts_51_of_kind_90, true),
    (reads_kinds_20_to_40, inserts_50_of_kind_30, false),
    (reads_kinds_20_to_40, moves_8_to_kind_30, false),
    (reads_kinds_20_to_40, deletes_3, false),
    (reads_kinds_20_to_40, inserts_51_of_kind_90, true),
    (reads_kinds_20_to_40, writes_a_of_8, true),
    (filters_kinds_20_to_40, inserts_50_of_kind_30, false),
    (filters_kinds_20_to_40, moves_8_to_kind_30, false),
    (filters_kinds_20_to_40, inserts_51_of_kind_90, true),
    (counts, inserts_51_of_kind_90, false),
    (counts, deletes_3, false),
    (counts, writes_a_of_8, true),
    (counts_in_a_view, inserts_51_of_kind_90, false),
    (counts_in_a_view, writes_a_of_8, true),
];

/// Each case with the commits still in the ring of recent ones, and after the ring has forgotten them.
fn run_cases(commits_between: i64) {
    for (place, (read, write, expected)) in CASES.iter().enumerate() {
        let stage = Stage::new();
        let mut client = stage.begin(Isolation::Serializable);
        read(&mut client);
        stage.meanwhile(write);
        stage.meanwhile(|other| increment(other, 1).unwrap());
        let other = items(&stage.database, "other");
        fill(&stage.database, &other, [item(1, 0, 0, 0)]);
        count_up(&stage.database, &other, commits_between);
        let outcome = increment(&mut client, 1);
        assert_eq!(state(outcome), if *expected { None } else { CONFLICT }, "case {place}");
        if *expected {
            client.commit().unwrap();
            assert_eq!(stage.committed(1), Some(2), "case {place}");
        }
    }
}

fn count_up(database: &Database, table: &Arc<Table>, times: i64) {
    let mut session = database.session();
    for turn in 0..times {
        let counted = session.try_run(Isolation::RepeatableRead, |transaction| {
            let row = find(transaction, table, 1, &[])?.expect("the row is there");
            transaction.update(table, row, vec![(A, Value::BigInt(turn))])
        });
        counted.unwrap();
    }
}

#[test]
fn a_later_statement_runs_again_if_what_was_read_still_holds() {
    run_cases(0);
}

#[test]
fn the_ring_of_recent_commits_may_have_forgotten_them() {
    run_cases(17_000);
}

/// What has changed between the restart and the commit is found by the commit.
#[test]
fn a_transaction_that_moved_on_is_validated_from_its_new_timestamp_on() {
    for (write, expected) in [(writes_a_of_2 as Step, CONFLICT), (writes_a_of_8, None)] {
        let stage = Stage::new();
        let mut client = stage.begin(Isolation::Serializable);
        reads_row_2(&mut client);
        stage.meanwhile(|other| increment(other, 1).unwrap());
        increment(&mut client, 1).unwrap();
        stage.meanwhile(write);
        assert_eq!(state(client.commit()), expected);
    }
}

/// The statement that runs again sees everything that has been committed by then, not the row alone.
#[test]
fn a_statement_that_runs_again_reads_at_one_timestamp() {
    let stage = Stage::new();
    let mut client = stage.begin(Isolation::Serializable);
    reads_row_2(&mut client);
    let before = client.transaction.read_timestamp();
    stage.meanwhile(|other| {
        increment(other, 1).unwrap();
        writes_a_of_8(other);
    });
    assert_eq!(client.read(8).unwrap(), Some(0), "not before the restart");
    client.transaction.begin_statement();
    let outcome = increment(&mut client, 1);
    assert_eq!(state(outcome), CONFLICT, "row 8 was read before");
    client.rollback();
    let mut client = stage.begin(Isolation::Serializable);
    reads_row_2(&mut client);
    stage.meanwhile(|other| {
        increment(other, 1).unwrap();
        other.write(8, 9).unwrap();
    });
    increment(&mut client, 1).unwrap();
    assert!(client.transaction.read_timestamp() > before);
    assert_eq!(client.read(8).unwrap(), Some(9));
    client.commit().unwrap();
}

#[test]
fn whoever_ignores_a_changed_row_does_not_commit() {
    for begins_another in [false, true] {
        let stage = Stage::new();
        let mut client = stage.begin(Isolation::Serializable);
        let row = client.find(1, &[A]).unwrap().expect("item 1 is there");
        stage.meanwhile(|other| increment(other, 1).unwrap());
        let table = stage.items.clone();
        let locked = client.transaction.lock(&table, row, LockWait::Wait).unwrap();
        assert_eq!(locked, Locked::Changed);
        let again = client.transaction.lock(&table, row, LockWait::Wait).unwrap();
        assert_eq!(again, Locked::Unchanged, "it is ours by now");
        client.transaction.update(&table, row, vec![(A, Value::BigInt(1))]).unwrap();
        if begins_another {
            reads_row_2(&mut client);
        }
        assert_eq!(state(client.commit()), CONFLICT);
        assert_eq!(stage.committed(1), Some(1), "the other's");
    }
}

/// What a statement has written already is not taken back.
#[test]
fn a_statement_that_has_written_does_not_run_again() {
    let stage = Stage::new();
    let mut client = stage.begin(Isolation::Serializable);
    client.write(2, 5).unwrap();
    stage.meanwhile(|other| increment(other, 1).unwrap());
    client.transaction.begin_statement();
    let row = find(&mut client.transaction, &stage.items, 1, &[A]).unwrap().expect("item 1 is there");
    client.transaction.insert(&stage.items, item(9, 0, 0, 90)).unwrap();
    let locked = client.transaction.lock(&stage.items, row, LockWait::Wait).unwrap();
    assert_eq!(locked, Locked::Changed);
    assert_eq!(state(client.transaction.restart_statement()), CONFLICT);
    assert_eq!(state(client.commit()), CONFLICT);
}

#[test]
fn repeatable_read_does_not_run_statements_again() {
    let stage = Stage::new();
    let mut client = stage.begin(Isolation::RepeatableRead);
    stage.meanwhile(|other| increment(other, 1).unwrap());
    assert_eq!(state(increment(&mut client, 1)), CONFLICT);
    assert_eq!(state(client.transaction.restart_statement()), CONFLICT);
}

/// A row that was deleted while a statement waited for it is gone when it runs again.
#[test]
fn a_statement_that_waited_for_a_deleted_row_does_not_find_it() {
    for level in [Isolation::ReadCommitted, Isolation::Serializable] {
        let stage = Stage::new();
        let mut deleter = stage.begin(level);
        deleter.delete(1).unwrap();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| stage.begin(level).write(1, 5));
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!waiter.is_finished(), "it waits for the row");
            deleter.commit().unwrap();
            assert!(!waiter.join().unwrap().unwrap(), "{level:?}");
        });
    }
}

/// Rows that the transaction has written without locking them are its own still, or it fails.
#[test]
fn unlocked_writes_survive_a_restart_or_end_the_transaction() {
    for (write, expected) in [(writes_a_of_2 as Step, CONFLICT), (writes_a_of_8, None)] {
        let stage = Stage::new();
        let mut client = stage.begin(Isolation::Serializable);
        let row = client.find(2, &[A]).unwrap().expect("item 2 is there");
        client.transaction.update(&stage.items, row, vec![(A, Value::BigInt(1))]).unwrap();
        stage.meanwhile(write);
        stage.meanwhile(|other| increment(other, 1).unwrap());
        let outcome = increment(&mut client, 1).and_then(|()| client.commit());
        assert_eq!(state(outcome), expected);
        assert_eq!(stage.committed(2), Some(if expected.is_none() { 1 } else { 7 }));
    }
}

/// A view from before keeps reading at the old timestamp, also when what it sees has been overwritten and pruned since.
#[test]
fn a_view_from_before_stays_as_it_was() {
    let stage = Stage::new();
    let mut client = stage.begin(Isolation::Serializable);
    let view = client.transaction.read_view();
    let before = view_rows(&view, &stage.items, &[ID, A]);
    for _ in 0..20 {
        stage.meanwhile(|other| increment(other, 1).unwrap());
    }
    stage.meanwhile(deletes_3);
    increment(&mut client, 1).unwrap();
    for _ in 0..20 {
        stage.meanwhile(|other| increment(other, 2).unwrap());
    }
    std::thread::sleep(std::time::Duration::from_millis(30));
    assert_eq!(view_rows(&view, &stage.items, &[ID, A]), before);
    let now = view_rows(&client.transaction.read_view(), &stage.items, &[ID, A]);
    assert_eq!(now.len(), before.len() - 1);
    assert!(now.contains(&vec![Value::Integer(1), Value::BigInt(21)]), "{now:?}");
    client.commit().unwrap();
    assert_eq!(view_rows(&view, &stage.items, &[ID, A]), before);
}
