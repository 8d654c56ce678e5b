//! A sweep that owns a row is nobody's rival, also if its thread has no processor for long: commits, locks that do not wait
//! and keys of deleted rows wait for it. In a debug build, where a sweep can be kept at a step (`ankerdb_base::failpoint`).
#![cfg(debug_assertions)]

use ankerdb_base::{RowId, failpoint};
use ankerdb_engine::*;
use ankerdb_table::Storage;
use ankerdb_transaction::{TransactionManager, Versioning};
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// How long a sweep has the row: longer than a commit waits for another commit.
const LONG: Duration = Duration::from_millis(150);

/// One row, and no pruner that would sweep it.
struct Stage {
    manager: Arc<TransactionManager>,
    table: Arc<Table>,
    row: RowId,
}

impl Stage {
    fn new() -> Stage {
        let definition = TableDefinition::new("t").column(ColumnDefinition::new("id", DataType::BigInt));
        let manager = TransactionManager::new(Versioning::default());
        let table = Arc::new(Storage::create(manager.new_table(), definition.primary_key(&["id"])));
        let mut stage = Stage { manager, table, row: RowId(0) };
        let mut transaction = stage.begin();
        transaction.insert(&stage.table, vec![Value::BigInt(1)]).unwrap();
        transaction.commit().unwrap();
        transaction.begin(Isolation::RepeatableRead, false);
        let mut key = Vec::new();
        stage.table.index(IndexPosition(0)).encode(&[Value::BigInt(1)], &mut key).unwrap();
        let found = transaction.find(&stage.table, IndexPosition(0), &key, ColumnSet::EMPTY).unwrap();
        stage.row = found.expect("the row is there");
        stage
    }

    fn begin(&self) -> Transaction {
        let mut transaction = Transaction::new(self.manager.clone(), self.manager.acquire_worker());
        transaction.begin(Isolation::RepeatableRead, false);
        transaction
    }

    /// A transaction that has written to the row.
    fn written(&self) -> Transaction {
        let mut transaction = self.begin();
        transaction.update(&self.table, self.row, vec![(0, Value::BigInt(2))]).unwrap();
        transaction
    }
}

/// Does something while a sweep has the row.
fn beside_a_sweep<T>(stage: &Stage, work: impl FnOnce() -> T) -> T {
    let (owns, owned) = mpsc::channel();
    std::thread::scope(|scope| {
        let (table, horizon) = (&stage.table, stage.manager.horizon());
        scope.spawn(move || {
            failpoint::watch(Some(Rc::new(move |name| {
                if name == "row owned by a sweep" {
                    owns.send(()).unwrap();
                    std::thread::sleep(LONG);
                }
            })));
            Storage::of(table).sweep(horizon, &crossbeam_epoch::pin());
            failpoint::watch(None);
        });
        owned.recv().expect("there is a row to sweep");
        work()
    })
}

#[test]
fn a_commit_waits_for_a_sweep_that_has_its_row() {
    let stage = Stage::new();
    let mut transaction = stage.written();
    beside_a_sweep(&stage, || transaction.commit()).expect("a sweep is no rival");
}

#[test]
fn a_lock_that_does_not_wait_for_rivals_waits_for_a_sweep() {
    for wait in [LockWait::NoWait, LockWait::Skip, LockWait::Wait] {
        let stage = Stage::new();
        let mut transaction = stage.begin();
        let locked = beside_a_sweep(&stage, || transaction.lock(&stage.table, stage.row, wait));
        assert_eq!(locked.expect("a sweep is no rival"), Locked::Unchanged, "{wait:?}");
    }
}

#[test]
fn the_key_of_a_deleted_row_is_free_while_a_sweep_removes_it() {
    let stage = Stage::new();
    let mut deletion = stage.begin();
    deletion.delete(&stage.table, stage.row).unwrap();
    deletion.commit().unwrap();
    let mut insertion = stage.begin();
    insertion.insert(&stage.table, vec![Value::BigInt(1)]).unwrap();
    beside_a_sweep(&stage, || insertion.commit()).expect("a sweep is no rival");
}

#[test]
fn a_commit_does_not_wait_for_who_has_locked_its_row() {
    let stage = Stage::new();
    let mut holder = stage.begin();
    holder.lock(&stage.table, stage.row, LockWait::NoWait).unwrap();
    let error = stage.written().commit().unwrap_err();
    assert_eq!(error.state(), SqlState::SerializationFailure);
}
