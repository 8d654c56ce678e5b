//! Large commits, which install their rows ahead of their timestamp: others see all of one or nothing, even of one that is
//! ended half-way, and are not held up by it.

mod support;

use ankerdb_engine::*;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use support::{Running, image_rows};

/// Two blocks and a part of a third.
const ROWS: i64 = 20_000;
const TURNS: i64 = 40;
const ALL: [usize; 3] = [0, 1, 2];

fn stage() -> (Database, Arc<Table>) {
    let definition = TableDefinition::new("t")
        .column(ColumnDefinition::new("id", DataType::BigInt))
        .column(ColumnDefinition::new("turn", DataType::BigInt))
        .column(ColumnDefinition::new("text", DataType::Text))
        .primary_key(&["id"]);
    let database = Database::new();
    let table = database.create_table(definition).unwrap();
    let mut session = database.session();
    let filled = session.run(Isolation::RepeatableRead, |transaction| {
        (0..=ROWS).try_for_each(|id| transaction.insert(&table, row(id, 0)).map(drop))
    });
    filled.unwrap();
    (database, table)
}

fn row(id: i64, turn: i64) -> Vec<Value> {
    vec![Value::BigInt(id), Value::BigInt(turn), text(turn)]
}

/// Longer than what a view holds in place.
fn text(turn: i64) -> Value {
    Value::Text(format!("the text of turn number {turn}").into())
}

/// Gives all rows the number of the turn, and the row behind the others another key; by an update and by a deletion and
/// an insertion in turns.
fn take_turn(transaction: &mut Transaction, table: &Arc<Table>, turn: i64) -> Result<()> {
    let mut rows = Vec::new();
    transaction.scan_table(table, ColumnSet::of(&[0]), None, &mut |transaction, row| {
        rows.push((transaction.bigint(table, row, 0), row));
        Ok(ControlFlow::Continue(()))
    })?;
    for (id, found) in rows {
        if id < ROWS {
            transaction.update(table, found, vec![(1, Value::BigInt(turn)), (2, text(turn))])?;
        } else if turn % 2 == 0 {
            let key = (0, Value::BigInt(ROWS + turn));
            transaction.update(table, found, vec![key, (1, Value::BigInt(turn)), (2, text(turn))])?;
        } else {
            transaction.delete(table, found)?;
            transaction.insert(table, row(ROWS + turn, turn))?;
        }
    }
    Ok(())
}

/// The turn whose rows a query sees, which must be those of one.
fn turn_of(view: &ReadView, table: &Table) -> i64 {
    let mut rows: Vec<_> = (0..table.block_count())
        .flat_map(|number| image_rows(&view.read(table, number, &ALL).unwrap(), table, &ALL))
        .collect();
    rows.sort_by_key(|row| row[0].as_integer());
    assert_eq!(rows.len() as i64, ROWS + 1);
    let turn = rows[0][1].as_integer().expect("a turn has a number");
    let expected = (0..ROWS).chain([ROWS + turn]).map(|id| row(id, turn));
    assert!(rows.into_iter().eq(expected), "a query sees rows of several turns");
    turn
}

/// The turn whose rows a transaction sees that reads row by row, by the index.
fn turn_of_some(session: &mut Session, table: &Arc<Table>, level: Isolation) -> i64 {
    let seen = session.run(level, |transaction| {
        let mut turns = Vec::new();
        for id in (0..ROWS).step_by(997) {
            let mut key = Vec::new();
            table.index(IndexPosition(0)).encode(&[Value::BigInt(id)], &mut key)?;
            let row = transaction
                .find(table, IndexPosition(0), &key, ColumnSet::of(&[1, 2]))?
                .expect("this row stays");
            let turn = transaction.bigint(table, row, 1);
            assert_eq!(transaction.value(table, row, 2), text(turn));
            turns.push(turn);
        }
        Ok(turns)
    });
    let turns = seen.unwrap();
    assert!(turns.iter().all(|turn| *turn == turns[0]), "a transaction sees several turns: {turns:?}");
    turns[0]
}

/// Commits turn after turn while others read; some are interrupted at some moment. Returns how many ended by that.
fn turns_beside_readers(interrupted_every: i64) -> usize {
    let (database, table) = stage();
    let (running, committed) = (Running::default(), AtomicI64::new(0));
    let mut ended = 0;
    std::thread::scope(|scope| {
        let stop = running.until_drop();
        for reader in 0..2 {
            let (database, table, running, committed) = (&database, &table, &running, &committed);
            scope.spawn(move || {
                let mut session = database.session();
                while running.goes_on() {
                    let before = committed.load(Ordering::Acquire);
                    let turn = match reader {
                        0 => turn_of(&database.snapshot().read_view(), table),
                        _ => turn_of_some(&mut session, table, Isolation::RepeatableRead),
                    };
                    assert!(turn >= before, "turn {before} was committed, and {turn} is seen");
                }
            });
        }
        let interrupt = Interrupt::new();
        let mut random = fastrand::Rng::with_seed(7);
        for turn in 1..=TURNS {
            let mut transaction = database.session().begin(Isolation::Serializable);
            take_turn(&mut transaction, &table, turn).unwrap();
            transaction.set_interrupt(interrupt.clone());
            let delay = Duration::from_micros(random.u64(..20_000));
            let outcome = std::thread::scope(|scope| {
                if turn % interrupted_every == 0 {
                    scope.spawn(|| {
                        std::thread::sleep(delay);
                        interrupt.raise(Cause::Timeout);
                    });
                }
                transaction.commit()
            });
            interrupt.clear();
            match outcome {
                Ok(_) => committed.store(turn, Ordering::Release),
                Err(error) => {
                    // Not 40001: a sweep that has one of the rows for a moment is no rival.
                    assert_eq!(error.state(), SqlState::QueryCanceled, "{error}");
                    ended += 1;
                }
            }
            let now = committed.load(Ordering::Acquire);
            assert_eq!(turn_of(&database.snapshot().read_view(), &table), now);
        }
        drop(stop);
    });
    ended
}

#[test]
fn readers_beside_a_large_commit_see_all_of_it_or_nothing() {
    assert_eq!(turns_beside_readers(i64::MAX), 0);
}

#[test]
fn nothing_is_ever_seen_of_a_large_commit_that_is_interrupted() {
    let ended = turns_beside_readers(2);
    assert!(ended > 0, "some of {TURNS} are interrupted in time");
}

/// What a large commit has entered until it ends is taken out again.
#[test]
fn a_key_that_a_large_commit_did_not_come_to_enter_is_free() {
    let (database, table) = stage();
    let interrupt = Interrupt::new();
    let mut transaction = database.session().begin(Isolation::Serializable);
    for id in 2 * ROWS..3 * ROWS {
        transaction.insert(&table, row(id, 0)).unwrap();
    }
    // One key is taken: the commit ends when most rows have their entries.
    let duplicate = database
        .session()
        .run(Isolation::Serializable, |other| other.insert(&table, row(3 * ROWS - 1, 5)).map(drop));
    duplicate.unwrap();
    transaction.set_interrupt(interrupt);
    let error = transaction.commit().unwrap_err();
    assert!([SqlState::UniqueViolation, SqlState::SerializationFailure].contains(&error.state()), "{error}");
    let inserted = database.session().run(Isolation::Serializable, |other| {
        (2 * ROWS..3 * ROWS - 1).try_for_each(|id| other.insert(&table, row(id, 0)).map(drop))
    });
    inserted.unwrap();
    assert_eq!(table.row_count() as i64, 2 * ROWS + 1);
}
