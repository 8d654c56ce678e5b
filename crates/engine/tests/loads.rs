//! Loads: rows in whole blocks, as a part of a transaction that is like any other to everybody else.

mod support;

use ankerdb_engine::*;
use ankerdb_table::Storage;
use ankerdb_transaction::{TransactionManager, Versioning};
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::{Running, view_rows};

/// Two blocks and a half.
const ROWS: i32 = 20_480;

fn definition() -> TableDefinition {
    TableDefinition::new("t")
        .column(ColumnDefinition::new("id", DataType::Integer))
        .column(ColumnDefinition::new("batch", DataType::BigInt))
        .column(ColumnDefinition::new("text", DataType::Text).nullable())
        .primary_key(&["id"])
        .index("by_batch", &["batch"], false)
}

fn row(id: i32, batch: i64) -> [Value; 3] {
    let text = match id % 3 {
        0 => Value::Null,
        1 => Value::text("short"),
        _ => Value::text(format!("row {id}, longer than twelve bytes")),
    };
    [Value::Integer(id), Value::BigInt(batch), text]
}

/// Tables, and transactions on them, without a background thread.
struct Stage {
    manager: Arc<TransactionManager>,
    table: Arc<Table>,
}

impl Stage {
    fn new() -> Stage {
        let manager = TransactionManager::new(Versioning::default());
        let table = Arc::new(Storage::create(manager.new_table(), definition()));
        Stage { manager, table }
    }

    fn begin(&self, isolation: Isolation) -> Transaction {
        let mut transaction = Transaction::new(self.manager.clone(), self.manager.acquire_worker());
        transaction.begin(isolation, false);
        transaction
    }

    fn load(&self, transaction: &mut Transaction, ids: impl Iterator<Item = i32>, batch: i64) {
        assert!(transaction.can_load(&self.table));
        for id in ids {
            let row = row(id, batch);
            transaction.load(&self.table, |column| ValueRef::from(&row[column])).unwrap();
        }
    }

    fn insert(&self, id: i32, batch: i64) -> Result<()> {
        let mut transaction = self.begin(Isolation::Serializable);
        transaction.insert(&self.table, row(id, batch).to_vec())?;
        transaction.commit().map(drop)
    }

    fn sweep(&self) {
        Storage::of(&self.table).sweep(self.manager.horizon(), &crossbeam_epoch::pin());
    }

    /// All rows, by the table's blocks; and by each index, which must agree.
    fn rows(&self) -> Vec<Vec<Value>> {
        let mut rows = view_rows(&self.manager.snapshot().read_view(), &self.table, &[0, 1, 2]);
        rows.sort_by_key(|row| row[0].as_integer());
        let mut transaction = self.begin(Isolation::Serializable);
        for index in 0..2 {
            let mut found = Vec::new();
            scan(&mut transaction, &self.table, index, &KeyRange::all(), &mut |transaction, row| {
                found.push([0, 1, 2].map(|column| transaction.value(&self.table, row, column)).to_vec());
            });
            found.sort_by_key(|row| row[0].as_integer());
            assert_eq!(found, rows, "index {index}");
        }
        rows
    }

    fn entries(&self) -> [usize; 2] {
        [0, 1].map(|index| self.table.index(IndexPosition(index)).entry_count())
    }
}

fn scan(
    transaction: &mut Transaction,
    table: &Arc<Table>,
    index: usize,
    range: &KeyRange,
    visit: &mut dyn FnMut(&mut Transaction, RowId),
) {
    let columns = ColumnSet::of(&[0]);
    let mut note = |transaction: &mut Transaction, row| {
        visit(transaction, row);
        Ok(ControlFlow::Continue(()))
    };
    transaction
        .scan_index(table, IndexPosition(index), range, Direction::Forward, columns, &mut note)
        .unwrap();
}

fn expected(ids: impl Iterator<Item = i32>, batch: i64) -> Vec<Vec<Value>> {
    let mut ids: Vec<i32> = ids.collect();
    ids.sort_unstable();
    ids.into_iter().map(|id| row(id, batch).to_vec()).collect()
}

#[test]
fn rows_are_there_in_every_way_in_whatever_order_they_came() {
    let descending = (0..ROWS).rev();
    let mixed = (0..ROWS).map(|number| (number as i64 * 7_919 % ROWS as i64) as i32);
    let orders: [Box<dyn Iterator<Item = i32>>; 3] =
        [Box::new(0..ROWS), Box::new(descending), Box::new(mixed)];
    for ids in orders {
        let stage = Stage::new();
        let mut transaction = stage.begin(Isolation::Serializable);
        stage.load(&mut transaction, ids, 1);
        assert_eq!((stage.table.block_count(), stage.entries()), (0, [0, 0]), "nobody else sees it");
        assert_eq!(transaction.write_count(), ROWS as usize);
        transaction.commit().unwrap();
        assert_eq!(stage.rows(), expected(0..ROWS, 1));
        assert_eq!(stage.table.block_count(), 3);
        // The slots that are left in the last block are used.
        for id in ROWS..ROWS + 2_000 {
            stage.insert(id, 2).unwrap();
        }
        stage.sweep();
        assert_eq!(stage.rows()[ROWS as usize..], expected(ROWS..ROWS + 2_000, 2));
        assert_eq!(stage.table.block_count(), 3, "free slots come before new blocks");
    }
}

#[test]
fn nothing_remains_of_a_load_that_ends_before_its_commit() {
    let stage = Stage::new();
    for way in 0..2 {
        let mut transaction = stage.begin(Isolation::Serializable);
        stage.load(&mut transaction, 0..ROWS, 1);
        if way == 0 {
            transaction.rollback();
        }
        drop(transaction);
        assert_eq!((stage.table.block_count(), stage.entries()), (0, [0, 0]));
    }
    let mut transaction = stage.begin(Isolation::Serializable);
    let missing = [Value::Integer(1), Value::Null, Value::Null];
    let error = transaction.load(&stage.table, |column| ValueRef::from(&missing[column])).unwrap_err();
    assert_eq!(error.state(), SqlState::NotNullViolation);
}

#[test]
fn a_key_that_is_taken_takes_the_whole_load_back() {
    for (taken, place) in [(Some(17_000), 17_000), (None, ROWS as usize)] {
        let stage = Stage::new();
        if let Some(taken) = taken {
            stage.insert(taken, 7).unwrap();
        }
        let (before, old_reader) = (stage.rows(), stage.manager.snapshot());
        let mut transaction = stage.begin(Isolation::Serializable);
        stage.load(&mut transaction, 0..ROWS, 1);
        if taken.is_none() {
            stage.load(&mut transaction, [11].into_iter(), 1);
        }
        let error = transaction.commit().unwrap_err();
        assert_eq!((error.state(), transaction.refused_row()), (SqlState::UniqueViolation, Some(place)));
        assert_eq!(stage.rows(), before);
        drop(old_reader);
        stage.sweep();
        assert_eq!(stage.entries(), [before.len(); 2]);
        let blocks = stage.table.block_count();
        // Its slots are there for others, and its keys are free.
        for id in 0..100 {
            stage.insert(id, 3).unwrap();
        }
        assert_eq!((stage.rows().len(), stage.table.block_count()), (before.len() + 100, blocks));
    }
}

/// A transaction that has looked for rows where a load brings some cannot have been after it; one that has read a row can.
#[test]
fn loads_are_serializable_with_what_others_have_read() {
    let key = |stage: &Stage, id: i32| support::key(&stage.table, IndexPosition(0), &[id]);
    type Read = fn(&Stage, &mut Transaction, &[u8]);
    let reads: [(Read, bool); 4] = [
        (
            |stage, reader, key| {
                scan(reader, &stage.table, 0, &KeyRange::exactly(key), &mut |_, _| ());
            },
            true,
        ),
        (
            |stage, reader, _| {
                let all = KeyRange { lower: Bound::Unbounded, upper: Bound::Unbounded };
                scan(reader, &stage.table, 1, &all, &mut |_, _| ());
            },
            true,
        ),
        (
            |stage, reader, _| {
                reader
                    .scan_table(&stage.table, ColumnSet::ALL, None, &mut |_, _| Ok(ControlFlow::Continue(())))
                    .unwrap();
            },
            true,
        ),
        (
            |stage, reader, _| {
                let there = support::key(&stage.table, IndexPosition(0), &[-1]);
                assert!(
                    reader.find(&stage.table, IndexPosition(0), &there, ColumnSet::ALL).unwrap().is_some()
                );
            },
            false,
        ),
    ];
    for (number, (read, conflicts)) in reads.into_iter().enumerate() {
        let stage = Stage::new();
        stage.insert(-1, 0).unwrap();
        let mut reader = stage.begin(Isolation::Serializable);
        read(&stage, &mut reader, &key(&stage, 500));
        let mut load = stage.begin(Isolation::Serializable);
        stage.load(&mut load, 0..ROWS, 1);
        load.commit().unwrap();
        reader.insert(&stage.table, row(-2, 0).to_vec()).unwrap();
        let outcome = reader.commit();
        assert_eq!(outcome.is_err(), conflicts, "read {number}: {outcome:?}");
        assert!(outcome.is_ok() || outcome.unwrap_err().state() == SqlState::SerializationFailure);
    }
}

/// Readers beside loads see all of one or none, by snapshots, ranges and keys; each key has one winner.
#[test]
fn loads_are_seen_as_a_whole_and_keys_have_one_owner() {
    const LOADS: i64 = 12;
    let (stage, won, running) = (Stage::new(), AtomicUsize::new(0), Running::default());
    std::thread::scope(|scope| {
        let stop = running.until_drop();
        scope.spawn(|| {
            while running.goes_on() {
                check_whole(&stage);
                stage.sweep();
            }
        });
        let loaders: Vec<_> = (0..2)
            .map(|thread| {
                let (stage, won) = (&stage, &won);
                scope.spawn(move || {
                    for batch in 0..LOADS {
                        let ids = batch as i32 * 10_000..(batch as i32 + 1) * 10_000;
                        let mut load = stage.begin(Isolation::Serializable);
                        match thread {
                            0 => stage.load(&mut load, ids, batch),
                            _ => stage.load(&mut load, ids.rev(), batch),
                        }
                        match load.commit() {
                            Ok(_) => _ = won.fetch_add(1, Ordering::Relaxed),
                            Err(error) => assert!(
                                matches!(
                                    error.state(),
                                    SqlState::UniqueViolation | SqlState::SerializationFailure
                                ),
                                "{error:?}"
                            ),
                        }
                    }
                })
            })
            .collect();
        loaders.into_iter().for_each(|loader| loader.join().unwrap());
        drop(stop);
    });
    assert_eq!(stage.rows().len(), won.load(Ordering::Relaxed) * 10_000);
    assert!(won.load(Ordering::Relaxed) > 0);
}

fn check_whole(stage: &Stage) {
    let rows = view_rows(&stage.manager.snapshot().read_view(), &stage.table, &[0]);
    assert!(rows.len().is_multiple_of(10_000), "{} rows in a snapshot", rows.len());
    let (mut reader, mut count) = (stage.begin(Isolation::RepeatableRead), 0usize);
    scan(&mut reader, &stage.table, 0, &KeyRange::all(), &mut |_, _| count += 1);
    assert!(count.is_multiple_of(10_000), "{count} rows in an index");
    for id in (0..120_000).step_by(10_000) {
        let both = [id, id + 9_999].map(|id| {
            let key = support::key(&stage.table, IndexPosition(0), &[id]);
            reader.find(&stage.table, IndexPosition(0), &key, ColumnSet::of(&[0])).unwrap().is_some()
        });
        assert_eq!(both[0], both[1], "a part of a load is there");
    }
}

/// The places are there in builds with debug assertions only (`ankerdb_base::failpoint`).
#[cfg(debug_assertions)]
mod failing {
    use super::*;
    use ankerdb_base::failpoint::{self, InjectedFailure};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// At each step of its commit, by an error and by a panic: nothing remains, and others go on.
    #[test]
    fn nothing_remains_of_a_load_that_fails_in_its_commit() {
        let load = |stage: &Stage| {
            let mut transaction = stage.begin(Isolation::Serializable);
            stage.load(&mut transaction, 0..40, 1);
            transaction.insert(&stage.table, row(50, 1).to_vec()).unwrap();
            transaction
        };
        let stage = Stage::new();
        let mut transaction = load(&stage);
        failpoint::plan(usize::MAX, InjectedFailure::Panic);
        transaction.commit().unwrap();
        let places = usize::MAX - failpoint::clear().expect("it did not come about");
        // Behind the timestamp: validation, the decision, the row of the write set; a failure there ends the process.
        let before_timestamp = places - 3;
        assert!(before_timestamp > 80, "only {before_timestamp} places");
        for failure in [InjectedFailure::OutOfMemory, InjectedFailure::Panic] {
            for place in 0..before_timestamp {
                let stage = Stage::new();
                stage.insert(1_000, 0).unwrap();
                let mut transaction = load(&stage);
                failpoint::plan(place, failure);
                let outcome = catch_unwind(AssertUnwindSafe(|| transaction.commit().map(drop)));
                assert!(!matches!(outcome, Ok(Ok(()))), "place {place}");
                assert_eq!(failpoint::clear(), None);
                stage.sweep();
                assert_eq!((stage.rows().len(), stage.entries()), (1, [1, 1]), "{failure:?}, place {place}");
                load(&stage).commit().expect("nothing is in the way");
                assert_eq!(stage.rows().len(), 42);
            }
        }
    }
}
