//! Unique keys under concurrency, and tables and indexes that are made and dropped while transactions use them.

mod support;

use ankerdb_engine::*;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::*;

/// The rows of an index as (kind, id), read through the index.
fn by_index(database: &Database, table: &Arc<Table>, index: IndexPosition) -> Vec<(i32, i32)> {
    let mut rows = Vec::new();
    let scanned = database.session().run(Isolation::Serializable, |transaction| {
        rows.clear();
        let columns = ColumnSet::of(&[ID, KIND]);
        let all = KeyRange::all();
        transaction.scan_index(table, index, &all, Direction::Forward, columns, &mut |t, row| {
            rows.push((t.integer(table, row, KIND), t.integer(table, row, ID)));
            Ok(ControlFlow::Continue(()))
        })
    });
    scanned.unwrap();
    rows.sort_unstable();
    rows
}

/// The rows of the table as (kind, id), read through the table.
fn by_table(database: &Database, table: &Arc<Table>) -> Vec<(i32, i32)> {
    let mut rows: Vec<_> = view_rows(&database.snapshot().read_view(), table, &[KIND, ID])
        .into_iter()
        .map(|row| match row[..] {
            [Value::Integer(kind), Value::Integer(id)] => (kind, id),
            _ => unreachable!("{row:?}"),
        })
        .collect();
    rows.sort_unstable();
    rows
}

fn index_on_kind(name: &str, unique: bool) -> IndexDefinition {
    IndexDefinition {
        name: name.into(),
        columns: vec![KIND],
        derivation: None,
        unique,
        primary: false,
        is_constraint: false,
        kind: IndexKind::Ordered,
        style: IndexStyle::default(),
    }
}

#[test]
fn of_many_that_insert_a_key_exactly_one_commits() {
    const KEYS: i32 = 2_000;
    for level in LEVELS {
        let database = Database::new();
        let table = items(&database, "items");
        let inserted = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (database, table, inserted) = (&database, &table, &inserted);
                scope.spawn(move || {
                    let mut session = database.session();
                    for id in 0..KEYS {
                        let outcome = session.run(level, |transaction| {
                            transaction.insert(table, item(id, thread, 0, 0)).map(drop)
                        });
                        match outcome {
                            Ok(()) => inserted.fetch_add(1, Ordering::Relaxed),
                            Err(error) => {
                                assert_eq!(error.state(), SqlState::UniqueViolation, "{error}");
                                0
                            }
                        };
                    }
                });
            }
        });
        assert_eq!(inserted.into_inner(), KEYS as usize, "{level:?}");
        assert_eq!(by_table(&database, &table), (0..KEYS).map(|id| (0, id)).collect::<Vec<_>>());
    }
}

/// Threads insert, delete and re-key rows in a space of 8 keys; a key never belongs to two rows.
#[test]
fn a_key_belongs_to_one_row_at_a_time() {
    const KEYS: i32 = 8;
    let database = Database::new();
    let table = items(&database, "items");
    let running = Running::default();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|thread| {
                let (database, table) = (&database, &table);
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(thread);
                    let mut session = database.session();
                    let mut outcomes = BTreeMap::new();
                    for _ in 0..6_000 {
                        let (from, to) = (random.i32(0..KEYS), random.i32(0..KEYS));
                        let action = random.u8(0..3);
                        let outcome = session.run(Isolation::Serializable, |transaction| {
                            let row = find(transaction, table, from, &[])?;
                            match (action, row) {
                                (0, _) => transaction.insert(table, item(from, 0, 0, 0)).map(drop),
                                (1, Some(row)) => transaction.delete(table, row),
                                (2, Some(row)) => {
                                    transaction.update(table, row, vec![(ID, Value::Integer(to))])
                                }
                                _ => Ok(()),
                            }
                        });
                        *outcomes.entry(outcome.err().map(|error| error.state().code())).or_insert(0) += 1;
                    }
                    outcomes
                })
            })
            .collect();
        scope.spawn(|| {
            while running.goes_on() {
                let mut ids: Vec<i32> = by_table(&database, &table).into_iter().map(|row| row.1).collect();
                let rows = ids.len();
                ids.dedup();
                assert_eq!(ids.len(), rows, "a key belongs to two rows");
            }
        });
        let _stop = running.until_drop();
        for writer in writers {
            let outcomes = writer.join().unwrap();
            assert!(outcomes.keys().all(|state| matches!(*state, None | Some("23505"))), "{outcomes:?}");
            assert!(outcomes.len() == 2, "contention was meant: {outcomes:?}");
        }
    });
    let by_id: Vec<i32> = by_index(&database, &table, BY_ID).into_iter().map(|row| row.1).collect();
    let mut ids: Vec<i32> = by_table(&database, &table).into_iter().map(|row| row.1).collect();
    ids.sort_unstable();
    assert_eq!(by_id, ids);
}

/// Keys are checked at the commit, so a procedure may swap two of them.
#[test]
fn keys_can_be_swapped_in_a_procedure() {
    let database = Database::new();
    let table = items(&database, "items");
    fill(&database, &table, [item(1, 10, 0, 0), item(2, 20, 0, 0), item(3, 30, 0, 0)]);
    let rotate = |transaction: &mut Transaction| {
        let mut rows = Vec::new();
        for id in 1..=3 {
            rows.push(find(transaction, &table, id, &[])?.expect("three rows"));
        }
        for (row, id) in rows.into_iter().zip([2, 3, 1]) {
            transaction.update(&table, row, vec![(ID, Value::Integer(id))])?;
        }
        Ok(())
    };
    let mut session = database.session();
    for turn in 1..=60 {
        session.run(Isolation::Serializable, rotate).unwrap();
        let mut check = Client::begin(&database, &table, Isolation::Serializable);
        let values = [1, 2, 3].map(|id| check.read(id).unwrap().unwrap());
        let mut expected = [10, 20, 30];
        expected.rotate_right(turn % 3);
        assert_eq!(values, expected);
    }
    // Half a swap is a duplicate, and leaves nothing behind.
    let half = session.try_run(Isolation::Serializable, |transaction| {
        let row = find(transaction, &table, 1, &[])?.unwrap();
        transaction.update(&table, row, vec![(ID, Value::Integer(2))])
    });
    assert_eq!(half.unwrap_err().state(), SqlState::UniqueViolation);
    assert_eq!(by_table(&database, &table), [(0, 1), (0, 2), (0, 3)]);
}

#[test]
fn an_interactive_insert_sees_a_duplicate_at_once() {
    let database = Database::new();
    let table = items(&database, "items");
    fill(&database, &table, [item(1, 0, 0, 0)]);
    let mut client = Client::begin(&database, &table, Isolation::Serializable);
    let error = client.insert(item(1, 0, 0, 0)).unwrap_err();
    assert_eq!(error.state(), SqlState::UniqueViolation);
    assert_eq!(error.message(), "duplicate key value violates unique constraint \"items_pkey\"");
    assert_eq!(error.detail(), Some("Key (id)=(1) already exists."));
    // Its own rows count too, and a key given up may be used again.
    client.insert(item(2, 0, 0, 0)).unwrap();
    assert_eq!(client.insert(item(2, 0, 0, 0)).unwrap_err().state(), SqlState::UniqueViolation);
    assert!(client.delete(1).unwrap());
    client.insert(item(1, 7, 0, 0)).unwrap();
    client.commit().unwrap();
    assert_eq!(by_table(&database, &table), [(0, 1), (0, 2)]);
}

/// Writers insert, delete, move kinds and abort while indexes are made and dropped.
fn with_writers(database: &Database, table: &Arc<Table>, meanwhile: impl FnOnce()) {
    let running = Running::default();
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let running = &running;
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread);
                let mut session = database.session();
                while running.goes_on() {
                    let (id, kind, action) = (random.i32(0..5_000), random.i32(0..50), random.u8(0..4));
                    let outcome = session.try_run(Isolation::Serializable, |transaction| {
                        let Some(row) = find(transaction, table, id, &[KIND])? else {
                            return transaction.insert(table, item(id, 0, 0, kind)).map(drop);
                        };
                        let same = transaction.value(table, row, KIND);
                        match action {
                            0 => transaction.delete(table, row),
                            1 => transaction.update(table, row, vec![(KIND, Value::Integer(kind))]),
                            // Sets what is there already, and aborts.
                            2 => {
                                transaction.update(table, row, vec![(KIND, same)])?;
                                transaction.insert(table, item(5_000, 0, 0, 0)).map(drop)
                            }
                            _ => transaction.update(table, row, vec![(KIND, same)]),
                        }
                    });
                    let fine = [None, Some(SqlState::SerializationFailure), Some(SqlState::UniqueViolation)];
                    assert!(fine.contains(&outcome.err().map(|error| error.state())));
                }
            });
        }
        let _stop = running.until_drop();
        meanwhile();
    });
}

#[test]
fn an_index_made_under_writers_is_complete() {
    let database = Database::new();
    let table = items(&database, "items");
    fill(&database, &table, (0..=5_000).map(|id| item(id, 0, 0, id % 50)));
    let position = |name: &str| {
        table.usable_indexes().find(|(_, index)| index.definition().name == name).expect("it was made").0
    };
    let mut made = Vec::new();
    with_writers(&database, &table, || {
        for turn in 0..12 {
            let name = format!("made_{turn}");
            database.create_index("items", index_on_kind(&name, false)).unwrap();
            made.push(position(&name));
            // At once, under the writers: one snapshot through index and table.
            let mut client = Client::begin(&database, &table, Isolation::RepeatableRead);
            let mut by_index = Vec::new();
            let (all, columns) = (KeyRange::all(), ColumnSet::EMPTY);
            let index = *made.last().unwrap();
            let scan = client.transaction.scan_index(
                &table,
                index,
                &all,
                Direction::Forward,
                columns,
                &mut |t, row| {
                    by_index.push(t.integer(&table, row, ID));
                    Ok(ControlFlow::Continue(()))
                },
            );
            scan.unwrap();
            by_index.sort_unstable();
            assert_eq!(by_index, client.ids_by_view(0, 50).unwrap(), "turn {turn}");
        }
    });
    for index in made {
        assert_eq!(by_index(&database, &table, index), by_table(&database, &table), "index {index}");
    }
}

#[test]
fn a_unique_index_over_duplicates_fails_and_leaves_nothing() {
    let database = Database::new();
    let table = items(&database, "items");
    fill(&database, &table, (0..5_000).map(|id| item(id, 0, 0, id % 4_999)));
    let version = database.catalog_version();
    let error = database.create_index("items", index_on_kind("kinds", true)).unwrap_err();
    assert_eq!(error.state(), SqlState::UniqueViolation);
    assert_eq!(error.message(), "could not create unique index \"kinds\"");
    assert_eq!(database.catalog_version(), version);
    assert_eq!(table.usable_indexes().count(), 2);
    // Duplicates are still welcome, and the name is free.
    fill(&database, &table, [item(5_000, 0, 0, 1)]);
    for duplicate in [4_999, 5_000] {
        let mut client = Client::begin(&database, &table, Isolation::Serializable);
        assert!(client.delete(duplicate).unwrap());
        client.commit().unwrap();
    }
    database.create_index("items", index_on_kind("kinds", true)).unwrap();
    let inserted = database.session().run(Isolation::Serializable, |transaction| {
        transaction.insert(&table, item(6_000, 0, 0, 1)).map(drop)
    });
    assert_eq!(inserted.unwrap_err().state(), SqlState::UniqueViolation);
}

/// Two threads hand the same few keys around while unique indexes over them are made: there never is a duplicate to be
/// found, and none can come in.
#[test]
fn a_unique_index_under_writers_finds_no_duplicate_where_there_is_none() {
    let database = Database::new();
    let table = items(&database, "items");
    fill(&database, &table, (0..100).map(|id| item(id, 0, 0, id)));
    let running = Running::default();
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (database, table, running) = (&database, &table, &running);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread);
                let mut session = database.session();
                while running.goes_on() {
                    let (one, two) = (random.i32(0..100), random.i32(0..100));
                    let swap = |transaction: &mut Transaction| {
                        let one = find(transaction, table, one, &[KIND])?.expect("100 rows");
                        let two = find(transaction, table, two, &[KIND])?.expect("100 rows");
                        let kinds = [one, two].map(|row| transaction.value(table, row, KIND));
                        let [kind_of_one, kind_of_two] = kinds;
                        transaction.update(table, one, vec![(KIND, kind_of_two)])?;
                        if one != two {
                            transaction.update(table, two, vec![(KIND, kind_of_one)])?;
                        }
                        Ok(())
                    };
                    session.run(Isolation::Serializable, swap).unwrap();
                }
            });
        }
        let _stop = running.until_drop();
        for turn in 0..60 {
            let name = format!("unique_{turn}");
            database.create_index("items", index_on_kind(&name, true)).unwrap();
            database.drop_index(&name).unwrap();
        }
    });
    assert!(by_table(&database, &table).iter().map(|row| row.0).eq(0..100));
}

#[test]
fn whoever_reads_through_a_dropped_index_is_told() {
    let database = Database::new();
    let table = items(&database, "items");
    fill(&database, &table, (0..100).map(|id| item(id, 0, 0, id)));
    let mut client = Client::begin(&database, &table, Isolation::Serializable);
    assert_eq!(client.ids_by_range(10, 12).unwrap(), [10, 11, 12]);
    database.drop_index("items_by_kind").unwrap();
    assert_eq!(client.ids_by_range(10, 12).unwrap_err().state(), SqlState::UndefinedObject);
    // What comes into the range from now on is recorded nowhere: the reader cannot be serialized any more.
    fill(&database, &table, [item(100, 0, 0, 11)]);
    client.insert(item(200, 0, 0, 0)).unwrap();
    assert_eq!(client.commit().unwrap_err().state(), SqlState::SerializationFailure);
    assert_eq!(database.drop_index("items_by_kind").unwrap_err().state(), SqlState::UndefinedObject);
    assert!(table.index(BY_KIND).entry_count() == 0);
    let error = database.drop_index("items_pkey").unwrap_err();
    assert_eq!(error.state(), SqlState::FeatureNotSupported);
}

#[test]
fn an_index_dropped_under_a_scan_loses_no_row_silently() {
    let database = Database::new();
    let table = items(&database, "items");
    fill(&database, &table, (0..3_000).map(|id| item(id, 0, 0, id)));
    let mut client = Client::begin(&database, &table, Isolation::RepeatableRead);
    let (mut rows, range) = (0, range(&table, BY_KIND, 0, 10_000));
    let columns = ColumnSet::EMPTY;
    let scan =
        client.transaction.scan_index(&table, BY_KIND, &range, Direction::Forward, columns, &mut |_, _| {
            rows += 1;
            if rows == 10 {
                database.drop_index("items_by_kind").unwrap();
            }
            Ok(ControlFlow::Continue(()))
        });
    assert_eq!(scan.unwrap_err().state(), SqlState::SerializationFailure);
}

#[test]
fn an_index_is_not_for_transactions_older_than_itself() {
    let database = Database::new();
    let table = items(&database, "items");
    fill(&database, &table, (0..10).map(|id| item(id, 0, 0, id)));
    let mut old = Client::begin(&database, &table, Isolation::Serializable);
    assert_eq!(old.read(1).unwrap(), Some(0));
    fill(&database, &table, [item(10, 0, 0, 10)]);
    database.create_index("items", index_on_kind("new", false)).unwrap();
    let position = table.usable_indexes().find(|(_, index)| index.definition().name == "new").unwrap().0;
    let found = old.transaction.scan_index(
        &table,
        position,
        &KeyRange::all(),
        Direction::Forward,
        ColumnSet::EMPTY,
        &mut |_, _| Ok(ControlFlow::Continue(())),
    );
    assert_eq!(found.unwrap_err().state(), SqlState::SerializationFailure);
    assert_eq!(by_index(&database, &table, position).len(), 11);
}

#[test]
fn a_dropped_table_can_be_read_by_those_who_use_it_and_not_be_written() {
    let database = Database::new();
    let table = items(&database, "items");
    fill(&database, &table, [item(1, 7, 0, 0)]);
    let snapshot = database.snapshot();
    let mut client = Client::begin(&database, &table, Isolation::Serializable);
    assert_eq!(client.read(1).unwrap(), Some(7));
    database.drop_table("items").unwrap();
    assert_eq!(database.catalog().table("items").map(drop).unwrap_err().state(), SqlState::UndefinedTable);
    assert_eq!(database.drop_table("items").unwrap_err().state(), SqlState::UndefinedTable);
    // The name is free, and the new table has nothing of the old one.
    let new = items(&database, "items");
    assert_ne!(new.id(), table.id());
    assert!(by_table(&database, &new).is_empty());
    assert_eq!(client.read(1).unwrap(), Some(7));
    client.write(1, 8).unwrap();
    assert_eq!(client.commit().unwrap_err().state(), SqlState::SerializationFailure);
    assert_eq!(view_rows(&snapshot.read_view(), &table, &[A]), [[Value::BigInt(7)]]);
    assert!(by_table(&database, &new).is_empty());
    // Another try finds it gone, and does not try for ever.
    let again = database
        .session()
        .run(Isolation::Serializable, |transaction| transaction.insert(&table, item(2, 0, 0, 0)).map(drop));
    assert_eq!(again.unwrap_err().state(), SqlState::UndefinedTable);
}

/// Sessions cache tables between procedures, but not for ever.
#[test]
fn sessions_let_go_of_a_dropped_table() {
    for keeps in [true, false] {
        let database = Database::new();
        let table = items(&database, "items");
        fill(&database, &table, [item(1, 7, 0, 0)]);
        let mut session = database.session();
        session.set_keeps_tables(keeps);
        let mut key = Vec::new();
        table.index(IndexPosition(0)).encode(&[Value::Integer(1)], &mut key).unwrap();
        let find = |session: &mut ankerdb_engine::Session, table: &Arc<Table>| {
            let found = session.run(Isolation::Serializable, |transaction| {
                transaction.find(table, IndexPosition(0), &key, ColumnSet::of(&[A])).map(|row| row.is_some())
            });
            found.unwrap()
        };
        assert!(find(&mut session, &table));
        let other = items(&database, "others");
        let held = Arc::downgrade(&table);
        drop(table);
        database.drop_table("items").unwrap();
        assert_eq!(held.upgrade().is_some(), keeps, "a session that does not keep tables has none cached");
        assert!(!find(&mut session, &other));
        assert!(held.upgrade().is_none(), "the next procedure lets go");
    }
}

#[test]
fn names_are_taken_once() {
    let database = Database::new();
    items(&database, "items");
    let again = TableDefinition::new("items").column(ColumnDefinition::new("x", DataType::Text));
    assert_eq!(database.create_table(again).map(drop).unwrap_err().state(), SqlState::DuplicateTable);
    let named_as_index =
        TableDefinition::new("items_by_kind").column(ColumnDefinition::new("x", DataType::Text));
    assert_eq!(
        database.create_table(named_as_index).map(drop).unwrap_err().state(),
        SqlState::DuplicateTable
    );
    let taken = database.create_index("items", index_on_kind("items_by_kind", false)).unwrap_err();
    assert_eq!(taken.state(), SqlState::DuplicateTable);
    let no_table = database.create_index("nothing", index_on_kind("new", false)).unwrap_err();
    assert_eq!(no_table.state(), SqlState::UndefinedTable);
}

/// A table of many rows.
fn large_table(database: &Database) -> Arc<Table> {
    let table = items(database, "items");
    let mut session = database.session();
    for first in (0..200_000).step_by(20_000) {
        let filled = session.run(Isolation::Serializable, |transaction| {
            (first..first + 20_000)
                .try_for_each(|id| transaction.insert(&table, item(id, 0, 0, id)).map(drop))
        });
        filled.unwrap();
    }
    table
}

#[test]
fn an_index_that_is_being_filled_is_given_up_at_an_interrupt() {
    let database = Database::new();
    let table = large_table(&database);
    let interrupt = Interrupt::new();
    std::thread::scope(|scope| {
        let mut definitions = database.definitions(&interrupt);
        let filling = scope.spawn(move || definitions.create_index("items", index_on_kind("by_kind", true)));
        while table.maintained_indexes().all(|(_, index)| index.definition().name != "by_kind") {
            std::thread::yield_now();
        }
        interrupt.raise(Cause::Timeout);
        assert_eq!(filling.join().unwrap(), Err(Cause::Timeout.error()));
    });
    // Nothing remains of it: the name is free.
    assert!(database.catalog().table_of_index("by_kind").is_none());
    database.create_index("items", index_on_kind("by_kind", true)).unwrap();
}

/// Of more rows than one run takes, which two threads fill an index of.
#[test]
fn an_index_of_several_runs_has_each_row_once_and_ends_at_an_interrupt() {
    const ROWS: i32 = (1 << 20) + 200_000;
    let database = Database::new();
    let table = items(&database, "items");
    // Each kind once but for the last row's, in no order.
    let kind = |id: i32| (i64::from(id.min(ROWS - 2)) * 7_919 % i64::from(ROWS)) as i32;
    let mut session = database.session();
    let mut transaction = session.begin(Isolation::Serializable);
    for id in 0..ROWS {
        let row = item(id, 0, 0, kind(id));
        transaction.load(&table, |column| ValueRef::from(&row[column])).unwrap();
    }
    transaction.commit().unwrap();

    database.create_index("items", index_on_kind("kinds", false)).unwrap();
    let (position, index) =
        table.maintained_indexes().find(|(_, index)| index.definition().name == "kinds").unwrap();
    assert_eq!(index.entry_count(), ROWS as usize);
    assert_eq!(by_index(&database, &table, position), by_table(&database, &table));
    let error = database.create_index("items", index_on_kind("unique_kinds", true)).unwrap_err();
    assert_eq!(error.state(), SqlState::UniqueViolation);

    let interrupt = Interrupt::new();
    std::thread::scope(|scope| {
        let mut definitions = database.definitions(&interrupt);
        let filling = scope.spawn(move || definitions.create_index("items", index_on_kind("ended", false)));
        let entries = || {
            let found = table.maintained_indexes().find(|(_, index)| index.definition().name == "ended");
            found.map_or(0, |(_, index)| index.entry_count())
        };
        while entries() == 0 {
            std::thread::yield_now();
        }
        interrupt.raise(Cause::Request);
        assert_eq!(filling.join().unwrap(), Err(Cause::Request.error()));
    });
    assert!(database.catalog().table_of_index("ended").is_none());
}

#[test]
fn a_change_that_waits_for_its_turn_is_given_up_at_an_interrupt() {
    let database = Database::new();
    let table = large_table(&database);
    let (first, second) = (Interrupt::new(), Interrupt::new());
    std::thread::scope(|scope| {
        let mut filler = database.definitions(&first);
        let mut waiter = database.definitions(&second);
        scope.spawn(move || filler.create_index("items", index_on_kind("by_kind", true)));
        while table.maintained_indexes().all(|(_, index)| index.definition().name != "by_kind") {
            std::thread::yield_now();
        }
        second.raise(Cause::Request);
        assert_eq!(
            waiter.drop_table("items", None).and_then(|()| waiter.commit(None)),
            Err(Cause::Request.error())
        );
        first.raise(Cause::Request);
    });
}

/// A comment on a part of a table, by two sessions at a time, or by one while another changes the table.
#[test]
fn a_comment_and_a_change_of_what_it_is_about_are_in_conflict() {
    let database = Database::new();
    let table = items(&database, "items");
    let column = |table: &Table| Subject::new(Object::Table(table.origin()), Part::Column(KIND));
    let begin = || database.definitions(&Interrupt::new());
    let state = |done: Result<()>| done.err().map(|error| error.state());
    let text = |subject: &Subject| {
        let catalog = database.catalog();
        catalog.comments().find(|(known, _)| *known == subject).map(|(_, text)| text.to_owned())
    };

    let (mut one, mut other) = (begin(), begin());
    one.set_comment(column(&table), Some("one")).unwrap();
    other.set_comment(column(&table), Some("other")).unwrap();
    one.commit(None).unwrap();
    assert_eq!(state(other.commit(None)), Some(SqlState::SerializationFailure));
    assert_eq!(text(&column(&table)).as_deref(), Some("one"));

    // Comments on two things are none of each other's business.
    let (mut one, mut other) = (begin(), begin());
    let whole = Subject::new(Object::Table(table.origin()), Part::Whole);
    one.set_comment(whole.clone(), Some("all")).unwrap();
    other.set_comment(column(&table), None).unwrap();
    one.commit(None).unwrap();
    other.commit(None).unwrap();
    assert_eq!((text(&whole).as_deref(), text(&column(&table))), (Some("all"), None));

    // Whichever is first: the one that drops, or the one that comments.
    let (mut one, mut other) = (begin(), begin());
    one.set_comment(column(&table), Some("late")).unwrap();
    other.drop_table("items", None).unwrap();
    other.commit(None).unwrap();
    assert_eq!(state(one.commit(None)), Some(SqlState::SerializationFailure));
    assert_eq!(text(&whole), None, "it goes with the table");

    let table = items(&database, "items");
    let (mut one, mut other) = (begin(), begin());
    one.drop_table("items", None).unwrap();
    other.set_comment(column(&table), Some("early")).unwrap();
    other.commit(None).unwrap();
    assert_eq!(state(one.commit(None)), Some(SqlState::SerializationFailure));
    assert_eq!(text(&column(&table)).as_deref(), Some("early"));

    // An index that is dropped meanwhile takes no comment to the next one of its name.
    database.create_index("items", index_on_kind("by_kind_2", false)).unwrap();
    let table = database.catalog().table("items").unwrap();
    let index = Subject::new(Object::Table(table.origin()), Part::Index("by_kind_2".into()));
    let (mut one, mut other) = (begin(), begin());
    one.set_comment(index.clone(), Some("of the former")).unwrap();
    other.drop_index("by_kind_2").unwrap();
    other.commit(None).unwrap();
    assert_eq!(state(one.commit(None)), Some(SqlState::SerializationFailure));
    database.create_index("items", index_on_kind("by_kind_2", false)).unwrap();
    assert_eq!(text(&index), None);
}
