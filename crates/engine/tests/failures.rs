//! Commits that fail where nothing fails by itself: at each allocation and step, by an error and by a panic. Before the
//! timestamp nothing may remain of them; behind it the process ends. Each commit is tried as a small one and as a large one,
//! which installs its rows ahead of the timestamp.
//!
//! The places are there in builds with debug assertions only (`ankerdb_base::failpoint`).
#![cfg(debug_assertions)]

use ankerdb_base::failpoint::{self, InjectedFailure};
use ankerdb_base::{Result, RowId, SqlState};
use ankerdb_engine::{
    ColumnDefinition, ColumnSet, DataType, Direction, IndexDefinition, IndexKind, IndexPosition, IndexStyle,
};
use ankerdb_engine::{Isolation, KeyRange, Table, TableDefinition, Transaction, Value};
use ankerdb_table::Storage;
use ankerdb_transaction::{LockWait, TransactionManager, Versioning, Worker};
use std::ops::{Bound, ControlFlow};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::Arc;

const ROWS: i32 = 20;
/// What a child is to fail at.
const CHILD: &str = "ANKERDB_TEST_FAILS_AT";
/// Rows that the commit under test writes.
const WRITTEN: usize = 8;
/// Places behind the timestamp: one before validation, one for each row, one at the end; or, of a large commit, where it
/// is decided.
const BEHIND_TIMESTAMP: usize = WRITTEN + 2;

/// How the commits of a stage are done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Way {
    interactive: bool,
    /// As if it had many rows.
    large: bool,
}

impl Way {
    fn both(interactive: bool) -> [Way; 2] {
        [false, true].map(|large| Way { interactive, large })
    }
}

struct Stage {
    way: Way,
    manager: Arc<TransactionManager>,
    /// All but the first rows are inserted by one worker, so that slots are found again where they were left.
    worker: Arc<Worker>,
    table: Arc<Table>,
}

fn text(id: i32, round: &str) -> Value {
    Value::Text(format!("row {id}, {round}: longer than twelve bytes").into())
}

impl Stage {
    fn new(way: Way) -> Stage {
        let by_text = IndexDefinition {
            name: "by_text".into(),
            columns: vec![1, 2],
            derivation: None,
            unique: false,
            primary: false,
            is_constraint: false,
            kind: IndexKind::Ordered,
            style: IndexStyle::default(),
        };
        let mut definition = TableDefinition::new("t")
            .column(ColumnDefinition::new("id", DataType::Integer))
            .column(ColumnDefinition::new("text", DataType::Text))
            .column(ColumnDefinition::new("number", DataType::BigInt))
            .primary_key(&["id"]);
        definition.indexes.push(by_text);
        let ahead_from = if way.large { 1 } else { usize::MAX };
        let manager = TransactionManager::new(Versioning { ahead_from, ..Versioning::default() });
        let table = Arc::new(Storage::create(manager.new_table(), definition));
        let mut transaction = Transaction::new(manager.clone(), manager.acquire_worker());
        let stage = Stage { way, worker: manager.acquire_worker(), manager, table };
        transaction.begin(Isolation::Serializable, false);
        for id in 0..ROWS {
            let row = vec![Value::Integer(id), text(id, "first"), Value::BigInt(0)];
            transaction.insert(&stage.table, row).unwrap();
        }
        transaction.commit().unwrap();
        stage
    }

    fn begin(&self, interactive: bool) -> Transaction {
        let mut transaction = Transaction::new(self.manager.clone(), self.worker.clone());
        transaction.begin(Isolation::Serializable, interactive);
        transaction
    }

    fn sweep(&self) {
        Storage::of(&self.table).sweep(self.manager.horizon(), &crossbeam_epoch::pin());
    }

    fn rows(&self, transaction: &mut Transaction) -> Vec<(i32, RowId)> {
        let (mut rows, table) = (Vec::new(), &self.table);
        let all = KeyRange { lower: Bound::Unbounded, upper: Bound::Unbounded };
        let columns = ColumnSet::of(&[0]);
        let note = &mut |transaction: &mut Transaction, row| {
            rows.push((transaction.integer(table, row, 0), row));
            Ok(ControlFlow::Continue(()))
        };
        transaction.scan_index(table, IndexPosition(0), &all, Direction::Forward, columns, note).unwrap();
        rows
    }

    /// Three new rows, three changed ones, one with another key, and two that go.
    fn write(&self, transaction: &mut Transaction) {
        let interactive = self.way.interactive;
        let rows = self.rows(transaction);
        let lock = |transaction: &mut Transaction, row| {
            if interactive {
                transaction.lock(&self.table, row, LockWait::NoWait).unwrap();
            }
        };
        for id in [100, 101, 102] {
            let row = vec![Value::Integer(id), text(id, "new"), Value::BigInt(1)];
            transaction.insert(&self.table, row).unwrap();
        }
        for &(id, row) in &rows[3..6] {
            lock(transaction, row);
            transaction.update(&self.table, row, vec![(1, text(id, "changed"))]).unwrap();
        }
        transaction.update(&self.table, rows[4].1, vec![(0, Value::Integer(1_000))]).unwrap();
        for &(_, row) in &rows[7..9] {
            lock(transaction, row);
            transaction.delete(&self.table, row).unwrap();
        }
        assert_eq!(transaction.write_count(), WRITTEN);
    }

    /// All rows, by both indexes, and what is behind them in memory.
    fn picture(&self) -> (Vec<String>, Vec<usize>, usize) {
        let mut transaction = self.begin(false);
        let rows = self.rows(&mut transaction);
        let values = |&(id, row): &(i32, RowId)| {
            let text = transaction.value(&self.table, row, 1);
            format!("{id} {row:?} {text:?} {:?}", transaction.value(&self.table, row, 2))
        };
        let values = rows.iter().map(values).collect();
        let entries = self.table.usable_indexes().map(|(_, index)| index.entry_count()).collect();
        (values, entries, self.table.version_bytes(&crossbeam_epoch::pin()))
    }

    /// Others go on: each row can be locked, and the keys of the failed commit are free.
    fn others_go_on(&self) {
        let mut transaction = self.begin(true);
        for (_, row) in self.rows(&mut transaction) {
            transaction.lock(&self.table, row, LockWait::NoWait).expect("no row is locked");
        }
        transaction.rollback();
        let before = self.manager.watermark();
        for step in ["insert", "delete"] {
            let mut transaction = self.begin(false);
            if step == "insert" {
                for id in [100, 101, 102, 1_000] {
                    let row = vec![Value::Integer(id), text(id, "of others"), Value::BigInt(1)];
                    transaction.insert(&self.table, row).unwrap();
                }
            } else {
                for (_, row) in self.rows(&mut transaction).into_iter().filter(|(id, _)| *id >= ROWS) {
                    transaction.delete(&self.table, row).unwrap();
                }
            }
            transaction.commit().expect("nothing is in the way");
        }
        assert!(self.manager.watermark() > before, "the watermark moves");
        self.sweep();
    }
}

/// How many places a commit passes.
fn places(way: Way) -> usize {
    let stage = Stage::new(way);
    let mut transaction = stage.begin(way.interactive);
    stage.write(&mut transaction);
    failpoint::plan(usize::MAX, InjectedFailure::Panic);
    transaction.commit().unwrap();
    usize::MAX - failpoint::clear().expect("it did not come about")
}

/// The outcome of a commit that panics or not.
fn commit(transaction: &mut Transaction) -> Option<Result<()>> {
    catch_unwind(AssertUnwindSafe(|| transaction.commit().map(drop))).ok()
}

fn nothing_remains(interactive: bool, failure: InjectedFailure) {
    for way in Way::both(interactive) {
        let before_timestamp = places(way) - BEHIND_TIMESTAMP;
        assert!(
            before_timestamp > 30 + if way.large { WRITTEN } else { 0 },
            "only {before_timestamp} places"
        );
        let slots = slots_in_the_end(&Stage::new(way), None);
        for place in 0..before_timestamp {
            let stage = Stage::new(way);
            assert_eq!(slots_in_the_end(&stage, Some((place, failure))), slots, "{way:?}, place {place}");
        }
    }
}

/// A commit that fails, if so planned; then others; then a commit that does not. Returns how many slots were given out.
fn slots_in_the_end(stage: &Stage, failing: Option<(usize, InjectedFailure)>) -> usize {
    let interactive = stage.way.interactive;
    let before = stage.picture();
    let mut transaction = stage.begin(interactive);
    if let Some((place, failure)) = failing {
        stage.write(&mut transaction);
        failpoint::plan(place, failure);
        match (failure, commit(&mut transaction)) {
            (InjectedFailure::OutOfMemory, Some(Err(error))) => {
                assert_eq!(error.state(), SqlState::OutOfMemory)
            }
            (InjectedFailure::Panic, None) => {}
            (_, outcome) => panic!("place {place}: {outcome:?}"),
        }
        assert_eq!(failpoint::clear(), None);
        if stage.way.large {
            // Rows that were installed have been made what they were, as of a timestamp; a sweep takes what is older.
            stage.sweep();
        }
        assert_eq!(stage.picture(), before, "place {place}");
    } else {
        transaction.rollback();
    }
    stage.others_go_on();
    transaction.begin(Isolation::Serializable, interactive);
    stage.write(&mut transaction);
    transaction.commit().expect("nothing fails any more");
    let storage = Storage::of(&stage.table);
    storage.block_numbers().map(|number| storage.block(number).fill()).sum()
}

#[test]
fn nothing_remains_of_a_procedure_that_gets_no_memory() {
    nothing_remains(false, InjectedFailure::OutOfMemory);
}

#[test]
fn nothing_remains_of_an_interactive_transaction_that_gets_no_memory() {
    nothing_remains(true, InjectedFailure::OutOfMemory);
}

#[test]
fn nothing_remains_of_a_procedure_whose_commit_panics() {
    nothing_remains(false, InjectedFailure::Panic);
}

#[test]
fn nothing_remains_of_an_interactive_transaction_whose_commit_panics() {
    nothing_remains(true, InjectedFailure::Panic);
}

/// The child of the test below: commits, and panics at a place behind the timestamp.
#[test]
fn child_that_panics_behind_its_timestamp() {
    let Ok(plan) = std::env::var(CHILD) else { return };
    let (place, large) = plan.split_once(' ').unwrap();
    let stage = Stage::new(Way { interactive: false, large: large.parse().unwrap() });
    let mut transaction = stage.begin(false);
    stage.write(&mut transaction);
    failpoint::plan(place.parse().unwrap(), InjectedFailure::Panic);
    let _ = commit(&mut transaction);
}

#[test]
fn a_panic_behind_the_timestamp_ends_the_process_and_says_why() {
    for way in Way::both(false) {
        let places = places(way);
        for place in places - BEHIND_TIMESTAMP..places {
            panics_behind_the_timestamp(place, way);
        }
    }
}

fn panics_behind_the_timestamp(place: usize, way: Way) {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "child_that_panics_behind_its_timestamp", "--nocapture"]);
    let output = child.env(CHILD, format!("{place} {}", way.large)).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{way:?}, place {place}: {said}");
    assert!(said.contains("planned to fail"), "{way:?}, place {place}: {said}");
    let why = "a commit panicked after it had drawn its timestamp; the process ends";
    assert!(said.contains(why), "{way:?}, place {place}: {said}");
    #[cfg(unix)]
    {
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(output.status.signal(), Some(libc::SIGABRT));
    }
}
