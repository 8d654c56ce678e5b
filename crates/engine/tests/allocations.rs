//! Transactions on a system that refuses them memory, from their n-th request for it on: each ends with 53200 or as it would
//! have, others are not affected, and the process goes on. In a debug build, as `ankerdb_memory::emergency_pool` has the means
//! there only.
//!
//! A test binary of its own: its allocator refuses, and the pieces that it refuses come from the emergency pool.
#![cfg(debug_assertions)]

use ankerdb_base::{Result, RowId, SqlState};
use ankerdb_engine::{
    ColumnDefinition, ColumnSet, DataType, Direction, IndexDefinition, IndexKind, IndexPosition, IndexStyle,
};
use ankerdb_engine::{Isolation, KeyRange, Table, TableDefinition, Transaction, Value};
use ankerdb_memory::emergency_pool::{self, Backed};
use ankerdb_table::Storage;
use ankerdb_transaction::{LockWait, TransactionManager, Versioning};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ops::{Bound, ControlFlow};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Rows there are, and rows that a transaction inserts, changes and deletes of each.
const ROWS: i64 = 1_200;
const SOME: i64 = 150;
/// Requests tried by each test.
const TRIES: usize = 150;
/// What a transaction takes from the emergency pool until it looks, at most: all of its buffers may grow in one step.
const TAKEN_MAX: usize = 200 << 10;

/// There is one emergency pool, whose use the tests check.
static ONE: Mutex<()> = Mutex::new(());

thread_local! {
    /// Requests still to be met, if not all are.
    static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
}

struct Refusing;

#[global_allocator]
static ALLOCATOR: Backed<Refusing> = Backed(Refusing);

/// Whether the request at hand is to be refused; the last one that is met begins the shortage.
fn is_refused() -> bool {
    let left = LEFT.get();
    if left != usize::MAX {
        LEFT.set(left.saturating_sub(1));
        if left == 0 {
            emergency_pool::plan_shortage(true);
        }
    }
    emergency_pool::is_shortage_planned()
}

// SAFETY: a request is handed on as it is, or refused.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises; so below.
        if is_refused() { null_mut() } else { unsafe { System.alloc(layout) } }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        if is_refused() { null_mut() } else { unsafe { System.realloc(pointer, layout, size) } }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Meets so many requests of this thread while `work` runs, and refuses the others. Returns the outcome and how many requests
/// of the first ones there were not.
fn with_memory_for<T>(requests: usize, work: impl FnOnce() -> T) -> (T, usize) {
    LEFT.set(requests);
    let outcome = work();
    emergency_pool::plan_shortage(false);
    (outcome, LEFT.replace(usize::MAX))
}

fn alone() -> MutexGuard<'static, ()> {
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How a transaction works and commits.
#[derive(Clone, Copy, Debug)]
struct Way {
    interactive: bool,
    /// Commits as if it had many rows.
    large: bool,
}

struct Stage {
    way: Way,
    manager: Arc<TransactionManager>,
    table: Arc<Table>,
}

/// Longer than what an index keeps in place.
fn text(id: i64, round: &str) -> Value {
    Value::Text(format!("{id:06}, and then something that is longer than two dozen bytes, {round}").into())
}

fn row(id: i64, round: &str) -> Vec<Value> {
    vec![Value::BigInt(id), text(id, round), Value::BigInt(id % 7)]
}

impl Stage {
    fn new(way: Way) -> Stage {
        let index = |name: &str, column: usize, unique, kind| IndexDefinition {
            name: name.into(),
            columns: vec![column],
            derivation: None,
            unique,
            primary: false,
            is_constraint: false,
            kind,
            style: IndexStyle::default(),
        };
        let mut definition = TableDefinition::new("t")
            .column(ColumnDefinition::new("id", DataType::BigInt))
            .column(ColumnDefinition::new("text", DataType::Text))
            .column(ColumnDefinition::new("number", DataType::BigInt))
            .primary_key(&["id"]);
        definition.indexes.push(index("by_text", 1, true, IndexKind::Ordered));
        definition.indexes.push(index("by_hash", 0, true, IndexKind::Hash));
        definition.indexes.push(index("by_number", 2, false, IndexKind::Hash));
        let ahead_from = if way.large { 1 } else { usize::MAX };
        let manager = TransactionManager::new(Versioning { ahead_from, ..Versioning::default() });
        let table = Arc::new(Storage::create(manager.new_table(), definition));
        let stage = Stage { way, manager, table };
        let mut transaction = stage.begin();
        // Gaps between them.
        (0..ROWS).for_each(|id| {
            transaction.insert(&stage.table, row(id * 3, "first")).unwrap();
        });
        transaction.commit().unwrap();
        stage
    }

    fn begin(&self) -> Transaction {
        let mut transaction = Transaction::new(self.manager.clone(), self.manager.acquire_worker());
        transaction.begin(Isolation::Serializable, self.way.interactive);
        transaction
    }

    /// The rows of an index, by the first key column.
    fn rows(&self, transaction: &mut Transaction, index: usize) -> Result<Vec<(i64, RowId)>> {
        let (mut rows, table) = (Vec::new(), &self.table);
        let all = KeyRange { lower: Bound::Unbounded, upper: Bound::Unbounded };
        let columns = ColumnSet::of(&[0]);
        transaction.scan_index(
            table,
            IndexPosition(index),
            &all,
            Direction::Forward,
            columns,
            &mut |transaction, row| {
                rows.push((transaction.bigint(table, row, 0), row));
                Ok(ControlFlow::Continue(()))
            },
        )?;
        Ok(rows)
    }

    /// Reads all rows by an index, changes some, deletes some, inserts some, and commits. Looks for its own rows on the way.
    fn transaction(&self, transaction: &mut Transaction) -> Result<()> {
        let rows = self.rows(transaction, 0)?;
        for &(_, row) in &rows {
            let _ = transaction.bigint(&self.table, row, 2);
        }
        for &(id, row) in &rows[..2 * SOME as usize] {
            if self.way.interactive {
                transaction.lock(&self.table, row, LockWait::NoWait)?;
            }
            if id < 3 * SOME {
                transaction.update(
                    &self.table,
                    row,
                    vec![(1, text(id, "changed")), (2, Value::BigInt(9))],
                )?;
            } else {
                transaction.delete(&self.table, row)?;
            }
        }
        for id in 0..SOME {
            transaction.insert(&self.table, row(id * 3 + 1, "new"))?;
        }
        assert_eq!(self.rows(transaction, 1)?.len() as i64, ROWS);
        transaction.commit().map(drop)
    }

    /// All rows, by each index alike.
    fn picture(&self) -> Vec<String> {
        let mut transaction = self.begin();
        let rows = self.rows(&mut transaction, 0).unwrap();
        let value = |row, column| transaction.value(&self.table, row, column);
        let picture = rows.iter().map(|&(id, row)| format!("{id} {:?} {:?}", value(row, 1), value(row, 2)));
        let picture = picture.collect();
        let mut by_id = rows;
        by_id.sort_unstable();
        for index in 1..4 {
            let mut by_index = self.rows(&mut transaction, index).unwrap();
            by_index.sort_unstable();
            assert_eq!(by_index, by_id, "index {index}");
        }
        picture
    }

    /// Frees what only old readers could see.
    fn sweep(&self) {
        Storage::of(&self.table).sweep(self.manager.horizon(), &crossbeam_epoch::pin());
    }
}

/// What the table is like after the transaction.
fn done(way: Way) -> (Vec<String>, usize) {
    let stage = Stage::new(way);
    let mut transaction = stage.begin();
    let (outcome, left) = with_memory_for(usize::MAX - 1, || stage.transaction(&mut transaction));
    outcome.unwrap();
    (stage.picture(), usize::MAX - 1 - left)
}

/// Lets requests for memory fail, of all that the transaction makes, from the `first` tried on.
fn ends_well_from(way: Way) {
    let _alone = alone();
    let (after, requests) = done(way);
    assert!(requests > 2_000, "only {requests} requests");
    let before = Stage::new(way).picture();
    let (mut refused, mut went_on, mut most) = (0, 0, 0);
    for number in 0..TRIES {
        // The first ones one by one, the others spread evenly.
        let met = if number < TRIES / 3 { number } else { requests * number / TRIES };
        let stage = Stage::new(way);
        let mut transaction = stage.begin();
        let unused = emergency_pool::used_bytes();
        let (outcome, _) = with_memory_for(met, || {
            let outcome = stage.transaction(&mut transaction);
            most = most.max(emergency_pool::used_bytes().saturating_sub(unused));
            transaction.rollback();
            outcome
        });
        match outcome {
            Ok(()) => went_on += 1,
            Err(error) => {
                assert_eq!(error.state(), SqlState::OutOfMemory, "after {met} requests: {error}");
                refused += 1;
                assert_eq!(stage.picture(), before, "after {met} requests");
                stage.sweep();
                transaction.begin(Isolation::Serializable, way.interactive);
                stage.transaction(&mut transaction).expect("there is memory again");
            }
        }
        assert_eq!(stage.picture(), after, "after {met} requests");
        drop(transaction);
    }
    // Hardly any get through: after the last look there is little left to ask for.
    assert!(refused >= TRIES * 9 / 10, "{refused} were refused, {went_on} went on");
    assert!(most < TAKEN_MAX, "a transaction has taken {most} bytes from the emergency pool");
    nothing_is_left_in_the_pool();
}

/// All that came from the emergency pool goes back with the tables and transactions that had it.
fn nothing_is_left_in_the_pool() {
    let is_empty = || emergency_pool::used_bytes() < 64 << 10;
    let end = Instant::now() + Duration::from_secs(60);
    while !is_empty() && Instant::now() < end {
        crossbeam_epoch::pin().flush();
        std::thread::yield_now();
    }
    assert!(is_empty(), "{} bytes of the emergency pool are in use", emergency_pool::used_bytes());
}

#[test]
fn a_procedure_without_memory_ends_and_leaves_all_as_it_was() {
    ends_well_from(Way { interactive: false, large: false });
}

#[test]
fn an_interactive_transaction_without_memory_ends_and_leaves_all_as_it_was() {
    ends_well_from(Way { interactive: true, large: false });
}

#[test]
fn a_large_commit_without_memory_ends_and_leaves_all_as_it_was() {
    ends_well_from(Way { interactive: false, large: true });
}

#[test]
fn others_go_on_while_one_gets_no_memory() {
    let _alone = alone();
    let stage = Stage::new(Way { interactive: false, large: false });
    let mut starved = stage.begin();
    let (outcome, _) = with_memory_for(0, || {
        std::thread::scope(|scope| {
            let other = || {
                let mut transaction = stage.begin();
                transaction.insert(&stage.table, row(-1, "of another")).and_then(|_| transaction.commit())
            };
            let other = scope.spawn(other).join().expect("it does not panic");
            (stage.transaction(&mut starved), other)
        })
    });
    let (starved, other) = outcome;
    assert_eq!(starved.unwrap_err().state(), SqlState::OutOfMemory);
    other.expect("only the one thread gets no memory");
}
