//! Indexes whose keys are computed, and that are about some rows only.

mod support;

use ankerdb_engine::*;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::*;

/// The position of the index that [`tens`] makes.
const BY_TEN: IndexPosition = IndexPosition(2);

/// `kind / 10` of rows whose `a` is zero. Fails for `kind` 13.
struct Ten;

impl KeyFunction for Ten {
    fn key(&self, value: &dyn Fn(usize) -> Value) -> Result<Option<Vec<Value>>> {
        let (Value::BigInt(a), Value::Integer(kind)) = (value(A), value(KIND)) else {
            return Err(Error::internal("a row of items"));
        };
        match kind {
            13 => Err(Error::new(SqlState::DivisionByZero, "thirteen")),
            _ => Ok((a == 0).then(|| vec![Value::Integer(kind / 10)])),
        }
    }
}

fn ten(unique: bool) -> IndexDefinition {
    let derivation = Derivation {
        types: vec![DataType::Integer],
        sources: vec![A, KIND],
        parts: vec![ColumnText::new(vec!["(".into(), " / 10)".into()], &[KIND])],
        predicate: Some(ColumnText::new(vec!["(".into(), " = 0)".into()], &[A])),
        function: Arc::new(Ten),
    };
    IndexDefinition {
        name: "tens".into(),
        columns: Vec::new(),
        derivation: Some(Arc::new(derivation)),
        unique,
        primary: false,
        is_constraint: false,
        kind: IndexKind::Ordered,
        style: IndexStyle::default(),
    }
}

/// Items with a unique index over `kind / 10` where `a = 0`.
fn tens(database: &Database) -> Arc<Table> {
    let mut definition = items_definition("items");
    definition.indexes.push(ten(true));
    database.create_table(definition).unwrap()
}

fn key_of(table: &Table, ten: i32) -> Vec<u8> {
    let mut key = Vec::new();
    table.index(BY_TEN).encode(&[Value::Integer(ten)], &mut key).unwrap();
    key
}

/// The row with a key, by its id.
fn id_of_ten(transaction: &mut Transaction, table: &Arc<Table>, ten: i32) -> Result<Option<i32>> {
    let row = transaction.find(table, BY_TEN, &key_of(table, ten), ColumnSet::of(&[ID]))?;
    Ok(row.map(|row| transaction.integer(table, row, ID)))
}

fn state<T>(outcome: Result<T>) -> Option<&'static str> {
    outcome.err().map(|error| error.state().code())
}

#[test]
fn of_many_that_insert_a_computed_key_exactly_one_commits() {
    const KEYS: i32 = 1_000;
    for level in LEVELS {
        let database = Database::new();
        let table = tens(&database);
        let inserted = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (database, table, inserted) = (&database, &table, &inserted);
                scope.spawn(move || {
                    let mut session = database.session();
                    for key in 0..KEYS {
                        let row = item(key * 4 + thread, 0, 0, 100 + key * 10 + thread);
                        match session.run(level, |transaction| transaction.insert(table, row.clone())) {
                            Ok(_) => drop(inserted.fetch_add(1, Ordering::Relaxed)),
                            Err(error) => assert_eq!(error.state(), SqlState::UniqueViolation, "{error}"),
                        }
                    }
                });
            }
        });
        assert_eq!(inserted.into_inner(), KEYS as usize, "{level:?}");
    }
}

/// Threads move rows into the condition and out of it, and to other keys; a key never belongs to two rows that satisfy it.
#[test]
fn a_computed_key_belongs_to_one_row_at_a_time() {
    const ROWS: i32 = 12;
    for level in [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable] {
        let database = Database::new();
        let table = tens(&database);
        let filled = database.session().run(Isolation::Serializable, |transaction| {
            (0..ROWS).try_for_each(|id| transaction.insert(&table, item(id, 1, 0, 0)).map(drop))
        });
        filled.unwrap();
        let outcomes = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..3)
                .map(|thread| {
                    let (database, table) = (&database, &table);
                    scope.spawn(move || write_tens(database, table, level, thread, ROWS))
                })
                .collect();
            let mut all = BTreeMap::new();
            for writer in writers {
                for (state, count) in writer.join().unwrap() {
                    *all.entry(state).or_insert(0) += count;
                }
                check_tens(&database, &table);
            }
            all
        });
        check_tens(&database, &table);
        assert!(outcomes.keys().all(|state| matches!(*state, None | Some("23505"))), "{outcomes:?}");
        assert!(outcomes.len() == 2, "contention was meant: {outcomes:?}");
    }
}

fn write_tens(
    database: &Database,
    table: &Arc<Table>,
    level: Isolation,
    seed: u64,
    rows: i32,
) -> BTreeMap<Option<&'static str>, usize> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut session = database.session();
    let mut outcomes = BTreeMap::new();
    for _ in 0..4_000 {
        let (id, a, kind) = (random.i32(0..rows), random.i64(0..2), 100 + random.i32(0..40));
        let both = random.bool();
        let outcome = session.run(level, |transaction| {
            let Some(row) = find(transaction, table, id, &[])? else { return Ok(()) };
            let mut changes = vec![(A, Value::BigInt(a))];
            changes.extend(both.then_some((KIND, Value::Integer(kind))));
            transaction.update(table, row, changes)
        });
        *outcomes.entry(state(outcome)).or_insert(0) += 1;
    }
    outcomes
}

/// That no key belongs to two rows, and that the index finds what the table has.
fn check_tens(database: &Database, table: &Arc<Table>) {
    let checked = database.session().run(Isolation::Serializable, |transaction| {
        let mut by_table: Vec<(i32, i32)> = Vec::new();
        let columns = ColumnSet::of(&[ID, A, KIND]);
        transaction.scan_table(table, columns, None, &mut |transaction, row| {
            if transaction.bigint(table, row, A) == 0 {
                let ten = transaction.integer(table, row, KIND) / 10;
                by_table.push((ten, transaction.integer(table, row, ID)));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        by_table.sort_unstable();
        let mut by_index = Vec::new();
        for ten in 0..14 {
            by_index.extend(id_of_ten(transaction, table, ten)?.map(|id| (ten, id)));
        }
        assert_eq!(by_index, by_table, "by the index, and by the table");
        Ok(())
    });
    checked.unwrap();
}

#[test]
fn a_row_that_moves_into_the_condition_conflicts_with_who_has_looked_for_its_key() {
    let database = Database::new();
    let table = tens(&database);
    let mut session = database.session();
    let filled = session.run(Isolation::Serializable, |transaction| {
        transaction.insert(&table, item(1, 1, 0, 70)).map(drop)?;
        transaction.insert(&table, item(2, 1, 0, 80)).map(drop)
    });
    filled.unwrap();
    let mut reader = database.session();
    let mut reader = reader.begin_procedure(Isolation::Serializable);
    assert_eq!(id_of_ten(&mut reader, &table, 7).unwrap(), None);
    let moved = session.run(Isolation::Serializable, |transaction| {
        let row = find(transaction, &table, 1, &[])?.unwrap();
        transaction.update(&table, row, vec![(A, Value::BigInt(0))])
    });
    moved.unwrap();
    let row = find(&mut reader, &table, 2, &[]).unwrap().unwrap();
    reader.update(&table, row, vec![(B, Value::BigInt(1))]).unwrap();
    assert_eq!(state(reader.commit()), Some("40001"));
    let found = session.run(Isolation::Serializable, |transaction| id_of_ten(transaction, &table, 7));
    assert_eq!(found.unwrap(), Some(1));
}

#[test]
fn a_transaction_finds_what_it_has_moved_itself() {
    let database = Database::new();
    let table = tens(&database);
    let done = database.session().run(Isolation::Serializable, |transaction| {
        let row = transaction.insert(&table, item(1, 0, 0, 70))?;
        assert_eq!(id_of_ten(transaction, &table, 7)?, Some(1));
        transaction.update(&table, row, vec![(KIND, Value::Integer(85))])?;
        assert_eq!((id_of_ten(transaction, &table, 7)?, id_of_ten(transaction, &table, 8)?), (None, Some(1)));
        transaction.update(&table, row, vec![(A, Value::BigInt(5))])?;
        assert_eq!(id_of_ten(transaction, &table, 8)?, None);
        Ok(())
    });
    done.unwrap();
}

#[test]
fn a_key_that_cannot_be_computed_fails_where_it_is_written() {
    let database = Database::new();
    let table = tens(&database);
    let mut session = database.session();
    let mut transaction = session.begin_procedure(Isolation::Serializable);
    assert_eq!(state(transaction.insert(&table, item(1, 0, 0, 13))), Some("22012"));
    let row = transaction.insert(&table, item(1, 0, 0, 14)).unwrap();
    assert_eq!(state(transaction.update(&table, row, vec![(KIND, Value::Integer(13))])), Some("22012"));
    transaction.update(&table, row, vec![(B, Value::BigInt(13))]).unwrap();
    transaction.commit().unwrap();
}

/// An index that cannot be built leaves nothing, one that can is filled, and old versions from before it do no harm.
#[test]
fn building_over_rows_that_have_and_have_had_no_key() {
    let database = Database::new();
    let table = items(&database, "items");
    let mut session = database.session();
    let mut run = |change: &dyn Fn(&mut Transaction) -> Result<()>| {
        session.run(Isolation::Serializable, |transaction| change(transaction)).unwrap();
    };
    let set_kind = |transaction: &mut Transaction, kind: i32| {
        let row = find(transaction, &table, 1, &[])?.unwrap();
        transaction.update(&table, row, vec![(KIND, Value::Integer(kind))])
    };
    run(&|transaction| {
        transaction.insert(&table, item(1, 0, 0, 13)).map(drop)?;
        transaction.insert(&table, item(2, 0, 0, 25)).map(drop)
    });
    assert_eq!(state(database.create_index("items", ten(true))), Some("22012"));
    assert!(database.catalog().table_of_index("tens").is_none());
    let old = database.snapshot();
    run(&|transaction| set_kind(transaction, 24));
    assert_eq!(state(database.create_index("items", ten(true))), Some("23505"));
    run(&|transaction| set_kind(transaction, 34));
    database.create_index("items", ten(true)).unwrap();
    // The row's versions from before the index are still there.
    run(&|transaction| set_kind(transaction, 44));
    drop(old);
    run(&|transaction| set_kind(transaction, 54));
    let position = table.usable_indexes().find(|(_, index)| index.definition().name == "tens").unwrap().0;
    let mut key = Vec::new();
    table.index(position).encode(&[Value::Integer(5)], &mut key).unwrap();
    let found = database.session().run(Isolation::Serializable, |transaction| {
        let row = transaction.find(&table, position, &key, ColumnSet::of(&[ID]))?;
        Ok(row.map(|row| transaction.integer(&table, row, ID)))
    });
    assert_eq!(found.unwrap(), Some(1));
}
