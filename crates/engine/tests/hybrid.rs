//! Transactions of hybrid execution engines (AnKer §6.1): they abort as soon as they would have to look for an old
//! version. Those of other configurations do not, and queries over snapshots never do.

mod support;

use ankerdb_engine::*;
use std::sync::Arc;
use support::*;

fn hybrids() -> impl Iterator<Item = Configuration> {
    configurations().filter(|configuration| configuration.technique().is_some())
}

fn stage(configuration: Configuration) -> (Database, Arc<Table>) {
    let database = Database::open(configuration).expect("it is available");
    let table = items(&database, "item");
    fill(&database, &table, (0..100).map(|id| item(id, 100, 7, 1)));
    (database, table)
}

/// Another transaction, begun later and committed at once.
fn meanwhile(database: &Database, table: &Arc<Table>, change: impl Fn(&mut Client) -> Result<bool>) {
    let mut other = Client::begin(database, table, Isolation::Serializable);
    assert!(change(&mut other).expect("there is no conflict"));
    other.commit().expect("there is no conflict");
}

fn is_ended<T: std::fmt::Debug>(outcome: Result<T>) -> bool {
    matches!(outcome, Err(error) if error.state() == SqlState::SerializationFailure)
}

/// What a transaction meets that reads column a of row 1 after `change` was committed: the value, and whether its next
/// read ends it, and whether its commit does.
fn met(
    configuration: Configuration,
    level: Isolation,
    change: impl Fn(&mut Client) -> Result<bool>,
) -> (Option<i64>, bool, bool) {
    let outcome = |reads_again: bool| {
        let (database, table) = stage(configuration);
        let mut session = database.session();
        let mut seen = None;
        let mut ended = false;
        let committed = session.try_run(level, |transaction| {
            find(transaction, &table, 50, &[A])?;
            meanwhile(&database, &table, &change);
            let row = find(transaction, &table, 1, &[A])?;
            seen = row.map(|row| transaction.bigint(&table, row, A));
            if reads_again {
                let again = find(transaction, &table, 60, &[A]);
                ended = is_ended(again.clone());
                again?;
            }
            Ok(())
        });
        (seen, ended, is_ended(committed))
    };
    let ((seen, ended, ended_in_all), (again, _, by_commit)) = (outcome(true), outcome(false));
    assert_eq!((seen, ended_in_all), (again, by_commit));
    (seen, ended, by_commit)
}

#[test]
fn an_old_version_ends_a_transaction() {
    for configuration in hybrids() {
        let update = met(configuration, Isolation::Serializable, |other| other.write(1, -1));
        assert_eq!(update, (Some(100), true, true), "{}", configuration.name());
        let delete = met(configuration, Isolation::Serializable, |other| other.delete(1));
        assert_eq!(delete, (Some(100), true, true), "{}", configuration.name());
    }
}

#[test]
fn what_is_in_place_ends_nobody() {
    for configuration in hybrids() {
        let other_row = met(configuration, Isolation::Serializable, |other| other.write(2, -1));
        assert_eq!(other_row, (Some(100), false, false), "{}", configuration.name());
        let other_column = |other: &mut Client| other.update(1, vec![(B, Value::BigInt(-1))]);
        assert_eq!(met(configuration, Isolation::Serializable, other_column), (Some(100), false, false));
        let new_row = |other: &mut Client| other.insert(item(1_000, 1, 1, 1)).map(|()| true);
        assert_eq!(met(configuration, Isolation::Serializable, new_row), (Some(100), false, false));
    }
}

/// The control, and the promise to transactions at another level.
#[test]
fn others_read_old_versions() {
    for configuration in [Configuration::AnkerDb, Configuration::SeeFs] {
        let seen = met(configuration, Isolation::Serializable, |other| other.write(1, -1));
        assert_eq!(seen, (Some(100), false, false), "{}: it has not written", configuration.name());
    }
    for configuration in hybrids() {
        let seen = met(configuration, Isolation::RepeatableRead, |other| other.write(1, -1));
        assert_eq!(seen, (Some(100), false, false), "{}", configuration.name());
        let newer = met(configuration, Isolation::ReadCommitted, |other| other.write(1, -1));
        assert_eq!(newer, (Some(-1), false, false), "{}", configuration.name());
    }
}

#[test]
fn queries_read_old_versions() {
    for configuration in hybrids() {
        let (database, table) = stage(configuration);
        let snapshot = database.snapshot();
        let mut inside = Client::begin(&database, &table, Isolation::Serializable);
        let before = view_rows(&database.snapshot().read_view(), &table, &[ID, A, B, KIND]);
        meanwhile(&database, &table, |other| other.write(1, -1));
        meanwhile(&database, &table, |other| other.delete(2));
        for view in [snapshot.read_view(), inside.transaction.read_view()] {
            assert_eq!(view_rows(&view, &table, &[ID, A, B, KIND]), before, "{}", configuration.name());
        }
        assert_eq!(inside.ids_by_view(1, 1).expect("an analytical query").len(), 100);
        inside.commit().expect("it has not written");
    }
}

/// A program that does not check first finds out before there is a table.
#[test]
fn what_the_machine_cannot_run_makes_no_table() {
    for configuration in Configuration::ALL {
        let definition = TableDefinition::new("t").column(ColumnDefinition::new("a", DataType::Integer));
        let made = Database::with(configuration).create_table(definition).map(drop);
        match configuration.technique().map_or(Ok(()), Technique::check) {
            Ok(()) => assert_eq!(made, Ok(())),
            Err(missing) => {
                assert_eq!(made, Err(missing.clone()));
                let refused = Database::open(configuration).map(drop).expect_err("it is missing");
                assert!(refused.message().contains(missing.message()), "{refused}");
            }
        }
    }
}

/// Retried until they commit, counters count every increment: nothing is lost by ending early.
#[test]
fn procedures_that_end_early_are_run_again() {
    for configuration in hybrids() {
        let (database, table) = stage(configuration);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                let (database, table) = (&database, &table);
                scope.spawn(move || {
                    let mut session = database.session();
                    for turn in 0..400 {
                        let counted = session.run(Isolation::Serializable, |transaction| {
                            for id in [turn % 5, 90] {
                                let row = find(transaction, table, id, &[A])?.expect("it stays");
                                let value = transaction.bigint(table, row, A);
                                transaction.update(table, row, vec![(A, Value::BigInt(value + 1))])?;
                            }
                            Ok(())
                        });
                        counted.expect("it commits in the end");
                    }
                });
            }
        });
        let rows = view_rows(&database.snapshot().read_view(), &table, &[ID, A]);
        let total: i64 = rows.iter().map(|row| row[1].as_integer().expect("a bigint") - 100).sum();
        assert_eq!(total, 3 * 400 * 2, "{}", configuration.name());
    }
}
