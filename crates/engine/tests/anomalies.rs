//! Isolation anomalies by their textbook names: short interleavings of two or three interactive transactions, and
//! which levels allow them.
//!
//! Names are those of Berenson et al. 1995 ("A Critique of ANSI SQL Isolation Levels"), Adya 1999 and, for the
//! read-only anomaly, Fekete et al. 2004. READ UNCOMMITTED behaves like READ COMMITTED, as in PostgreSQL: writes are
//! private until they commit, so there is nothing uncommitted to see.

mod support;

use ankerdb_engine::*;
use std::sync::Arc;
use std::time::Duration;
use support::*;

/// Declares one test for each anomaly: the script runs at each level, with trees and with hash tables as indexes, and
/// tells whether the anomaly showed.
macro_rules! anomalies {
    ($($name:ident: [$($allowed:ident),*],)*) => {
        $(#[test]
        fn $name() {
            let allowed = [$(allowed::$allowed),*];
            for (level, allowed) in LEVELS.into_iter().zip(allowed) {
                for stage in [Stage::new(items), Stage::new(hashed_items)] {
                    let shown = scripts::$name(&stage, level);
                    assert_eq!(shown, allowed, "{} at {level:?}", stringify!($name));
                }
            }
        })*
    };
}

mod allowed {
    pub(crate) const YES: bool = true;
    pub(crate) const NO: bool = false;
}

anomalies! {
    //                                   uncommitted, committed, repeatable, serializable
    dirty_write:                                [NO,  NO,  NO,  NO],
    dirty_read:                                 [NO,  NO,  NO,  NO],
    aborted_read:                               [NO,  NO,  NO,  NO],
    intermediate_read:                          [NO,  NO,  NO,  NO],
    circular_information_flow:                  [NO,  NO,  NO,  NO],
    non_repeatable_read:                        [YES, YES, NO,  NO],
    non_repeatable_read_of_a_deleted_row:       [YES, YES, NO,  NO],
    phantom:                                    [YES, YES, NO,  NO],
    phantom_by_filter:                          [YES, YES, NO,  NO],
    phantom_by_key_update:                      [YES, YES, NO,  NO],
    lost_update:                                [YES, YES, NO,  NO],
    lost_update_in_procedures:                  [YES, YES, NO,  NO],
    read_skew:                                  [YES, YES, NO,  NO],
    read_skew_by_write_predicate:               [YES, YES, NO,  NO],
    write_skew:                                 [YES, YES, YES, NO],
    write_skew_in_procedures:                   [YES, YES, YES, NO],
    write_skew_by_deletes:                      [YES, YES, YES, NO],
    write_skew_by_counts:                       [YES, YES, YES, NO],
    write_skew_by_counts_in_procedures:         [YES, YES, YES, NO],
    write_skew_by_counts_in_views:              [YES, YES, YES, NO],
    write_skew_by_existence:                    [YES, YES, YES, NO],
    write_skew_by_range_deletes:                [YES, YES, YES, NO],
    predicate_write_skew:                       [YES, YES, YES, NO],
    predicate_write_skew_by_filter:             [YES, YES, YES, NO],
    predicate_write_skew_by_view:               [YES, YES, YES, NO],
    predicate_write_skew_by_missing_keys:       [YES, YES, YES, NO],
    predicate_write_skew_by_key_updates:        [YES, YES, YES, NO],
    read_only_anomaly:                          [YES, YES, YES, NO],
}

/// A database with the items 1 and 2: a = 50 each, kinds 1 and 2.
struct Stage {
    database: Database,
    items: Arc<Table>,
}

impl Stage {
    fn new(items: fn(&Database, &str) -> Arc<Table>) -> Stage {
        let database = Database::new();
        let items = items(&database, "items");
        fill(&database, &items, [item(1, 50, 0, 1), item(2, 50, 0, 2)]);
        Stage { database, items }
    }

    fn begin(&self, level: Isolation) -> Client {
        Client::begin(&self.database, &self.items, level)
    }

    /// Column a as committed now.
    fn committed(&self, id: i32) -> Option<i64> {
        self.begin(Isolation::Serializable).read(id).unwrap()
    }
}

/// Commits both; whether both succeeded. Failures must be serialization failures.
fn both_commit(clients: [Client; 2]) -> bool {
    let outcomes = clients.map(Client::commit);
    for error in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
        assert_eq!(error.state(), SqlState::SerializationFailure);
    }
    outcomes.iter().all(Result::is_ok)
}

/// Whether a step went through; the only failure allowed is a serialization failure.
fn went_through<T>(outcome: Result<T>) -> bool {
    match outcome {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.state(), SqlState::SerializationFailure, "{error}");
            false
        }
    }
}

mod scripts {
    use super::*;

    /// Two writers set both rows to their own number; interleaved, the rows would differ.
    pub(crate) fn dirty_write(stage: &Stage, level: Isolation) -> bool {
        let mut first = stage.begin(level);
        first.write(1, 1).unwrap();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| {
                let mut second = stage.begin(level);
                let written = second.write(1, 2).and_then(|_| second.write(2, 2));
                if went_through(written) {
                    went_through(second.commit());
                }
            });
            std::thread::sleep(Duration::from_millis(20));
            assert!(!second.is_finished(), "the second writer waits for the first one's row");
            first.write(2, 1).unwrap();
            first.commit().unwrap();
            second.join().unwrap();
        });
        stage.committed(1) != stage.committed(2)
    }

    pub(crate) fn dirty_read(stage: &Stage, level: Isolation) -> bool {
        let (mut writer, mut reader) = (stage.begin(level), stage.begin(level));
        writer.write(1, 0).unwrap();
        writer.insert(item(3, 0, 0, 1)).unwrap();
        writer.delete(2).unwrap();
        let seen = reader.read(1).unwrap() != Some(50)
            || reader.ids_by_range(0, 9).unwrap() != [1, 2]
            || reader.ids_by_filter(0, 9).unwrap() != [1, 2]
            || reader.ids_by_view(0, 9).unwrap() != [1, 2];
        writer.commit().unwrap();
        seen
    }

    pub(crate) fn aborted_read(stage: &Stage, level: Isolation) -> bool {
        let (mut writer, mut reader) = (stage.begin(level), stage.begin(level));
        writer.write(1, 0).unwrap();
        let before = reader.read(1).unwrap();
        writer.rollback();
        let after = reader.read(1).unwrap();
        reader.commit().unwrap();
        before != Some(50) || after != Some(50) || stage.committed(1) != Some(50)
    }

    pub(crate) fn intermediate_read(stage: &Stage, level: Isolation) -> bool {
        let (mut writer, mut reader) = (stage.begin(level), stage.begin(level));
        writer.write(1, 7).unwrap();
        let seen = reader.read(1).unwrap();
        writer.write(1, 8).unwrap();
        writer.commit().unwrap();
        let late = reader.read(1).unwrap();
        reader.commit().unwrap();
        seen == Some(7) || late == Some(7)
    }

    /// Each of two running transactions sees the other's write.
    pub(crate) fn circular_information_flow(stage: &Stage, level: Isolation) -> bool {
        let (mut first, mut second) = (stage.begin(level), stage.begin(level));
        first.write(1, 1).unwrap();
        second.write(2, 2).unwrap();
        let seen = (first.read(2).unwrap(), second.read(1).unwrap());
        both_commit([first, second]) && seen == (Some(2), Some(1))
    }

    pub(crate) fn non_repeatable_read(stage: &Stage, level: Isolation) -> bool {
        let (mut reader, mut writer) = (stage.begin(level), stage.begin(level));
        let before = reader.read(1).unwrap();
        writer.write(1, 7).unwrap();
        writer.commit().unwrap();
        before != reader.read(1).unwrap()
    }

    pub(crate) fn non_repeatable_read_of_a_deleted_row(stage: &Stage, level: Isolation) -> bool {
        let (mut reader, mut writer) = (stage.begin(level), stage.begin(level));
        let before = reader.read(1).unwrap();
        writer.delete(1).unwrap();
        writer.insert(item(1, 50, 1, 1)).unwrap();
        writer.delete(2).unwrap();
        writer.commit().unwrap();
        before != reader.read(1).unwrap() || reader.read(2).unwrap().is_none()
    }

    pub(crate) fn phantom(stage: &Stage, level: Isolation) -> bool {
        let (mut reader, mut writer) = (stage.begin(level), stage.begin(level));
        let before = reader.ids_by_range(1, 1).unwrap();
        writer.insert(item(3, 0, 0, 1)).unwrap();
        writer.delete(1).unwrap();
        writer.commit().unwrap();
        before != reader.ids_by_range(1, 1).unwrap()
    }

    pub(crate) fn phantom_by_filter(stage: &Stage, level: Isolation) -> bool {
        let (mut reader, mut writer) = (stage.begin(level), stage.begin(level));
        let before = reader.ids_by_filter(1, 1).unwrap();
        writer.insert(item(3, 0, 0, 1)).unwrap();
        writer.delete(1).unwrap();
        writer.commit().unwrap();
        before != reader.ids_by_filter(1, 1).unwrap()
    }

    pub(crate) fn phantom_by_key_update(stage: &Stage, level: Isolation) -> bool {
        let (mut reader, mut writer) = (stage.begin(level), stage.begin(level));
        let before = reader.ids_by_range(1, 1).unwrap();
        writer.update(2, vec![(KIND, Value::Integer(1))]).unwrap();
        writer.commit().unwrap();
        before != reader.ids_by_range(1, 1).unwrap()
    }

    pub(crate) fn lost_update(stage: &Stage, level: Isolation) -> bool {
        let (mut first, mut second) = (stage.begin(level), stage.begin(level));
        let (one, two) = (first.read(1).unwrap().unwrap(), second.read(1).unwrap().unwrap());
        first.write(1, one + 10).unwrap();
        first.commit().unwrap();
        let both = went_through(second.write(1, two + 10)) && went_through(second.commit());
        assert_eq!(stage.committed(1), Some(60));
        both
    }

    /// Optimistic procedures: none locks, and the first committer wins at levels at which one does.
    pub(crate) fn lost_update_in_procedures(stage: &Stage, level: Isolation) -> bool {
        let read = |transaction: &mut Transaction| -> Result<(RowId, i64)> {
            let row = find(transaction, &stage.items, 1, &[A])?.expect("item 1 is there");
            Ok((row, transaction.bigint(&stage.items, row, A)))
        };
        let mut second = stage.database.session();
        let outcome = second.try_run(level, |slow| {
            let (row, value) = read(slow)?;
            stage.database.session().try_run(level, |fast| {
                let (row, value) = read(fast)?;
                fast.update(&stage.items, row, vec![(A, Value::BigInt(value + 10))])
            })?;
            slow.update(&stage.items, row, vec![(A, Value::BigInt(value + 10))])
        });
        went_through(outcome)
    }

    pub(crate) fn read_skew(stage: &Stage, level: Isolation) -> bool {
        let (mut reader, mut writer) = (stage.begin(level), stage.begin(level));
        let one = reader.read(1).unwrap().unwrap();
        writer.write(1, 40).unwrap();
        writer.write(2, 60).unwrap();
        writer.commit().unwrap();
        one + reader.read(2).unwrap().unwrap() != 100
    }

    /// A delete finds rows that do not fit what was read before.
    pub(crate) fn read_skew_by_write_predicate(stage: &Stage, level: Isolation) -> bool {
        let (mut first, mut second) = (stage.begin(level), stage.begin(level));
        let one = first.read(1).unwrap().unwrap();
        second.write(1, 12).unwrap();
        second.write(2, 18).unwrap();
        second.commit().unwrap();
        let deleted = first.read(2).unwrap() == Some(18) && went_through(first.delete(2));
        one == 50 && deleted && went_through(first.commit())
    }

    /// Each leaves the sum of both rows at 0 or more by itself, together they do not.
    pub(crate) fn write_skew(stage: &Stage, level: Isolation) -> bool {
        let (mut first, mut second) = (stage.begin(level), stage.begin(level));
        let sum = |client: &mut Client| client.read(1).unwrap().unwrap() + client.read(2).unwrap().unwrap();
        assert_eq!((sum(&mut first), sum(&mut second)), (100, 100));
        first.write(1, -50).unwrap();
        second.write(2, -50).unwrap();
        let both = both_commit([first, second]);
        assert_eq!(both, stage.committed(1).unwrap() + stage.committed(2).unwrap() < 0);
        both
    }

    pub(crate) fn write_skew_in_procedures(stage: &Stage, level: Isolation) -> bool {
        let withdraw = |transaction: &mut Transaction, id: i32| -> Result<()> {
            let one = find(transaction, &stage.items, 1, &[A])?.expect("item 1 is there");
            let two = find(transaction, &stage.items, 2, &[A])?.expect("item 2 is there");
            let sum = transaction.bigint(&stage.items, one, A) + transaction.bigint(&stage.items, two, A);
            assert_eq!(sum, 100);
            let row = if id == 1 { one } else { two };
            transaction.update(&stage.items, row, vec![(A, Value::BigInt(-50))])
        };
        let outcome = stage.database.session().try_run(level, |slow| {
            withdraw(slow, 1)?;
            stage.database.session().try_run(level, |fast| withdraw(fast, 2))
        });
        went_through(outcome)
    }

    /// At least one row must remain, thinks each of two that delete one.
    pub(crate) fn write_skew_by_deletes(stage: &Stage, level: Isolation) -> bool {
        let (mut first, mut second) = (stage.begin(level), stage.begin(level));
        assert_eq!(first.ids_by_range(0, 9).unwrap().len(), 2);
        assert_eq!(second.ids_by_range(0, 9).unwrap().len(), 2);
        first.delete(1).unwrap();
        second.delete(2).unwrap();
        both_commit([first, second])
    }

    /// At least one row must remain, thinks each of two that count the rows and delete one.
    fn skew_by_counts(stage: &Stage, level: Isolation, count: fn(&mut Client) -> Result<usize>) -> bool {
        let (mut first, mut second) = (stage.begin(level), stage.begin(level));
        assert_eq!((count(&mut first).unwrap(), count(&mut second).unwrap()), (2, 2));
        first.delete(1).unwrap();
        second.delete(2).unwrap();
        both_commit([first, second])
    }

    pub(crate) fn write_skew_by_counts(stage: &Stage, level: Isolation) -> bool {
        skew_by_counts(stage, level, Client::count)
    }

    pub(crate) fn write_skew_by_counts_in_views(stage: &Stage, level: Isolation) -> bool {
        skew_by_counts(stage, level, Client::count_by_view)
    }

    pub(crate) fn write_skew_by_counts_in_procedures(stage: &Stage, level: Isolation) -> bool {
        let delete = |transaction: &mut Transaction, id: i32| -> Result<()> {
            assert_eq!(count(transaction, &stage.items, usize::MAX)?, 2);
            let row = find(transaction, &stage.items, id, &[])?.expect("it was not deleted");
            transaction.delete(&stage.items, row)
        };
        let outcome = stage.database.session().try_run(level, |slow| {
            delete(slow, 1)?;
            stage.database.session().try_run(level, |fast| delete(fast, 2))
        });
        went_through(outcome)
    }

    /// Each inserts a row into an empty table, as it is to have one row at most.
    pub(crate) fn write_skew_by_existence(stage: &Stage, level: Isolation) -> bool {
        let mut setup = stage.begin(Isolation::Serializable);
        setup.delete_all_but(0).unwrap();
        setup.commit().unwrap();
        let (mut first, mut second) = (stage.begin(level), stage.begin(level));
        assert!(!first.has_rows().unwrap() && !second.has_rows().unwrap());
        first.insert(item(3, 0, 0, 3)).unwrap();
        second.insert(item(4, 0, 0, 4)).unwrap();
        both_commit([first, second])
    }

    /// Each counts the kind that the other one deletes.
    pub(crate) fn write_skew_by_range_deletes(stage: &Stage, level: Isolation) -> bool {
        let (mut first, mut second) = (stage.begin(level), stage.begin(level));
        assert_eq!((first.count_range(2, 9).unwrap(), second.count_range(0, 1).unwrap()), (1, 1));
        assert_eq!((first.delete_range(0, 1).unwrap(), second.delete_range(2, 9).unwrap()), (1, 1));
        both_commit([first, second])
    }

    /// Each inserts into what the other has read.
    fn skew(stage: &Stage, level: Isolation, read: fn(&mut Client, i32) -> Vec<i32>) -> bool {
        let (mut first, mut second) = (stage.begin(level), stage.begin(level));
        assert_eq!((read(&mut first, 1), read(&mut second, 2)), (vec![1], vec![2]));
        first.insert(item(3, 0, 0, 2)).unwrap();
        second.insert(item(4, 0, 0, 1)).unwrap();
        both_commit([first, second])
    }

    pub(crate) fn predicate_write_skew(stage: &Stage, level: Isolation) -> bool {
        skew(stage, level, |client, kind| client.ids_by_range(kind, kind).unwrap())
    }

    pub(crate) fn predicate_write_skew_by_filter(stage: &Stage, level: Isolation) -> bool {
        skew(stage, level, |client, kind| client.ids_by_filter(kind, kind).unwrap())
    }

    pub(crate) fn predicate_write_skew_by_view(stage: &Stage, level: Isolation) -> bool {
        skew(stage, level, |client, kind| client.ids_by_view(kind, kind).unwrap())
    }

    /// Each finds nothing under the key that the other inserts.
    pub(crate) fn predicate_write_skew_by_missing_keys(stage: &Stage, level: Isolation) -> bool {
        let (mut first, mut second) = (stage.begin(level), stage.begin(level));
        assert_eq!((first.read(8).unwrap(), second.read(9).unwrap()), (None, None));
        first.insert(item(9, 0, 0, 0)).unwrap();
        second.insert(item(8, 0, 0, 0)).unwrap();
        both_commit([first, second])
    }

    /// Each moves a row into what the other has read.
    pub(crate) fn predicate_write_skew_by_key_updates(stage: &Stage, level: Isolation) -> bool {
        let (mut first, mut second) = (stage.begin(level), stage.begin(level));
        assert_eq!(first.ids_by_range(8, 8).unwrap().len() + second.ids_by_range(9, 9).unwrap().len(), 0);
        first.update(1, vec![(KIND, Value::Integer(9))]).unwrap();
        second.update(2, vec![(KIND, Value::Integer(8))]).unwrap();
        both_commit([first, second])
    }

    /// Checking (1) and savings (2) start at 0. A withdrawal of 10 from checking that overdraws the total costs 1
    /// more. A deposit of 20 comes before it in no order that also explains the report between them.
    pub(crate) fn read_only_anomaly(stage: &Stage, level: Isolation) -> bool {
        let mut setup = stage.begin(Isolation::Serializable);
        setup.write(1, 0).unwrap();
        setup.write(2, 0).unwrap();
        setup.commit().unwrap();

        let mut withdrawal = stage.begin(level);
        let total = withdrawal.read(1).unwrap().unwrap() + withdrawal.read(2).unwrap().unwrap();
        let mut deposit = stage.begin(level);
        let savings = deposit.read(2).unwrap().unwrap();
        deposit.write(2, savings + 20).unwrap();
        deposit.commit().unwrap();
        let mut report = stage.begin(level);
        let reported = (report.read(1).unwrap(), report.read(2).unwrap());
        report.commit().unwrap();
        assert_eq!((total, reported), (0, (Some(0), Some(20))));
        withdrawal.write(1, -11).unwrap();
        went_through(withdrawal.commit())
    }
}

/// A row found by one statement of a procedure may be gone at the next. Reading it still gives what it was when it was
/// deleted; at READ COMMITTED the procedure is then run again.
#[test]
fn a_row_that_vanishes_between_find_and_value() {
    for level in LEVELS {
        let stage = Stage::new(items);
        let mut session = stage.database.session();
        let outcome = session.try_run(level, |transaction| {
            let one = find(transaction, &stage.items, 1, &[A])?.expect("item 1 is there");
            let mut other = stage.begin(level);
            other.delete(1)?;
            other.commit()?;
            find(transaction, &stage.items, 2, &[])?;
            assert_eq!(transaction.bigint(&stage.items, one, A), 50);
            transaction.insert(&stage.items, item(3, 0, 0, 0)).map(drop)
        });
        let refused = matches!(level, Isolation::ReadCommitted | Isolation::Serializable);
        assert_eq!(!went_through(outcome), refused, "{level:?}");
    }
}

/// Nothing but serialization failures happens to procedures at weak levels while rows come and go under them.
#[test]
fn weak_levels_survive_rows_that_come_and_go() {
    for level in [Isolation::ReadUncommitted, Isolation::ReadCommitted] {
        let stage = Stage::new(items);
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let stage = &stage;
                scope.spawn(move || {
                    let mut session = stage.database.session();
                    for turn in 0..3_000 {
                        let id = 10 + (turn + thread) % 3;
                        let outcome = session.try_run(level, |transaction| {
                            match find(transaction, &stage.items, id, &[])? {
                                Some(row) => transaction.delete(&stage.items, row),
                                None => transaction.insert(&stage.items, item(id, 1, 1, 1)).map(drop),
                            }
                        });
                        let known = [SqlState::SerializationFailure, SqlState::UniqueViolation];
                        assert!(outcome.is_ok() || known.contains(&outcome.unwrap_err().state()));
                    }
                });
            }
            let mut session = stage.database.session();
            for turn in 0..3_000 {
                let outcome = session.try_run(level, |transaction| {
                    let mut ids = Vec::new();
                    let (all, columns) = (KeyRange::all(), ColumnSet::ALL);
                    transaction.scan_index(
                        &stage.items,
                        BY_KIND,
                        &all,
                        Direction::Forward,
                        columns,
                        &mut |t, row| {
                            std::thread::yield_now();
                            ids.push(t.integer(&stage.items, row, ID));
                            Ok(std::ops::ControlFlow::Continue(()))
                        },
                    )?;
                    assert!(ids.iter().all(|id| [1, 2, 10, 11, 12].contains(id)), "{ids:?}");
                    transaction.scan_table(&stage.items, columns, Some(kinds(1, 1)), &mut |t, row| {
                        assert!(t.bigint(&stage.items, row, A) > 0);
                        Ok(std::ops::ControlFlow::Continue(()))
                    })?;
                    let row = find(transaction, &stage.items, 1, &[A])?.expect("item 1 stays");
                    transaction.update(&stage.items, row, vec![(A, Value::BigInt(turn + 1))])
                });
                went_through(outcome);
            }
        });
    }
}

/// A view shows nothing of a row that has gone, although the transaction has written to it without a lock.
#[test]
fn a_view_survives_own_writes_to_rows_that_have_gone() {
    for ends in [false, true] {
        let stage = Stage::new(items);
        fill(&stage.database, &stage.items, (10..200).map(|id| item(id, 0, 0, 0)));
        let mut session = stage.database.session();
        let mut writer = session.begin(Isolation::ReadCommitted);
        let last = find(&mut writer, &stage.items, 199, &[]).unwrap().expect("item 199 is there");
        match ends {
            true => writer.delete(&stage.items, last).unwrap(),
            false => writer.update(&stage.items, last, vec![(A, Value::BigInt(7))]).unwrap(),
        }
        let mut other = stage.begin(Isolation::ReadCommitted);
        (10..200).for_each(|id| assert!(other.delete(id).unwrap()));
        other.commit().unwrap();
        writer.begin_statement();
        assert_eq!(view_rows(&writer.read_view(), &stage.items, &[0, A]).len(), 2);
        assert!(writer.commit().is_err_and(|error| error.is_retryable()));
    }
}

/// A row that a transaction has found and is going to write is deleted. Its place must not go to another row while the
/// transaction runs, or that one would be written instead: also at the levels whose statements read at newer and newer
/// timestamps, also without locks.
#[test]
fn a_write_never_lands_in_another_row() {
    for level in LEVELS {
        for is_procedure in [false, true] {
            let stage = Stage::new(items);
            // The first session inserts into the block whose slot becomes free.
            let (mut other, mut session) = (stage.database.session(), stage.database.session());
            let mut write = |transaction: &mut Transaction| -> Result<()> {
                let one = find(transaction, &stage.items, 1, &[])?.expect("item 1 is there");
                if !is_procedure {
                    transaction.update(&stage.items, one, vec![(A, Value::BigInt(-7))])?;
                }
                delete_item_1(&stage, &mut other);
                transaction.begin_statement();
                assert!(find(transaction, &stage.items, 2, &[])?.is_some());
                insert_items(&stage, &mut other);
                transaction.begin_statement();
                transaction.update(&stage.items, one, vec![(A, Value::BigInt(-7))])
            };
            let outcome = match is_procedure {
                true => session.try_run(level, &mut write),
                false => {
                    let mut transaction = session.begin(level);
                    write(&mut transaction).and_then(|()| transaction.commit().map(drop))
                }
            };
            let mut check = stage.begin(Isolation::Serializable);
            for id in check.ids_by_filter(0, 9).unwrap() {
                assert_ne!(check.read(id).unwrap(), Some(-7), "item {id} at {level:?}, {is_procedure}");
            }
            assert!(!went_through(outcome), "the row to write has gone: {level:?}, {is_procedure}");
        }
    }
}

/// The visitor of a scan reads something else, which in a procedure at READ COMMITTED is a statement of its own. Meanwhile
/// a row that was deleted long ago is swept, and its slot holds another one: the scan must not take that for the old
/// row, whose entry it has copied from the index before.
#[test]
fn a_scan_does_not_find_a_new_row_under_the_key_of_an_old_one() {
    for level in LEVELS {
        let stage = Stage::new(items);
        let (mut other, mut session) = (stage.database.session(), stage.database.session());
        let mut setup = stage.begin(Isolation::Serializable);
        setup.insert(item(3, 0, 0, 3)).unwrap();
        setup.commit().unwrap();
        // Keeps row 1, of the smaller kind, from being swept at first.
        let reader = stage.begin(Isolation::RepeatableRead);
        delete_item_1(&stage, &mut other);
        let (mut reader, mut found) = (Some(reader), Vec::new());
        let scanned = session.try_run(level, |transaction| {
            let (all, columns) = (KeyRange::all(), ColumnSet::of(&[ID]));
            let backward = Direction::Backward;
            transaction.scan_index(&stage.items, BY_KIND, &all, backward, columns, &mut |t, row| {
                found.push(t.integer(&stage.items, row, ID));
                if let Some(reader) = reader.take() {
                    reader.rollback();
                    insert_items(&stage, &mut other);
                    assert!(find(t, &stage.items, 2, &[])?.is_some());
                }
                Ok(std::ops::ControlFlow::Continue(()))
            })
        });
        scanned.unwrap();
        assert_eq!(found, [3, 2], "{level:?}");
    }
}

fn delete_item_1(stage: &Stage, session: &mut Session) {
    let delete = |transaction: &mut Transaction| {
        let one = find(transaction, &stage.items, 1, &[])?.expect("item 1 is there");
        transaction.delete(&stage.items, one)
    };
    session.run(Isolation::Serializable, delete).unwrap();
}

/// Adds items for as long as it takes the pruner to free a slot, if it may.
fn insert_items(stage: &Stage, session: &mut Session) {
    for id in 10..18 {
        std::thread::sleep(Duration::from_millis(15));
        let insert =
            |transaction: &mut Transaction| transaction.insert(&stage.items, item(id, 0, 0, 9)).map(drop);
        session.run(Isolation::Serializable, insert).unwrap();
    }
}
