//! A large commit does not keep what others retire from being freed for as long as it lasts: in each of its loops over rows it lets
//! go of its pin every now and then. In a debug build, where each step of a loop has a name (`ankerdb_base::failpoint`).
//!
//! A test binary of its own: an epoch is the whole process's.
#![cfg(debug_assertions)]

use ankerdb_base::{RowId, failpoint};
use ankerdb_engine::{
    Cause, ColumnDefinition, ColumnSet, DataType, Interrupt, Isolation, TableDefinition, Transaction, Value,
};
use ankerdb_table::Storage;
use ankerdb_transaction::{TransactionManager, Versioning};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The pins of one test would hold up the other.
static ONE: Mutex<()> = Mutex::new(());

/// Rows changed, inserted and deleted, of each: some times as many as there are between two pins.
const ROWS: i64 = 8 * 1_024;
/// Steps after which what was retired at the first one is free.
const STEPS: usize = 6 * 1_024;

/// One loop over rows, as it is watched.
#[derive(Default)]
struct Watched {
    steps: usize,
    is_freed: Arc<AtomicBool>,
    /// At how many steps what was retired at the first one was free.
    freed_after: Option<usize>,
}

impl Watched {
    /// A step: retires something at the first one, and looks at the others whether it could be freed.
    fn step(&mut self) {
        self.steps += 1;
        // Inside of the loop's own pin.
        let pin = crossbeam_epoch::pin();
        if self.steps == 1 {
            let is_freed = self.is_freed.clone();
            pin.defer(move || is_freed.store(true, Ordering::Relaxed));
        }
        pin.flush();
        if self.freed_after.is_none() && self.is_freed.load(Ordering::Relaxed) {
            self.freed_after = Some(self.steps);
        }
    }
}

struct Stage {
    manager: Arc<TransactionManager>,
    table: Arc<ankerdb_engine::Table>,
}

impl Stage {
    fn new() -> Stage {
        let definition = TableDefinition::new("t")
            .column(ColumnDefinition::new("id", DataType::BigInt))
            .column(ColumnDefinition::new("value", DataType::BigInt))
            .primary_key(&["id"]);
        let manager = TransactionManager::new(Versioning::default());
        let table = Arc::new(Storage::create(manager.new_table(), definition));
        let stage = Stage { manager, table };
        let mut transaction = stage.begin();
        (0..2 * ROWS).for_each(|id| stage.insert(&mut transaction, id));
        transaction.commit().unwrap();
        stage
    }

    fn begin(&self) -> Transaction {
        let mut transaction = Transaction::new(self.manager.clone(), self.manager.acquire_worker());
        transaction.begin(Isolation::RepeatableRead, false);
        transaction
    }

    fn insert(&self, transaction: &mut Transaction, id: i64) {
        transaction.insert(&self.table, vec![Value::BigInt(id), Value::BigInt(0)]).unwrap();
    }

    /// A transaction that changes, deletes and inserts.
    fn written(&self) -> Transaction {
        let mut transaction = self.begin();
        let mut rows: Vec<RowId> = Vec::new();
        let note = &mut |_: &mut Transaction, row| {
            rows.push(row);
            Ok(ControlFlow::Continue(()))
        };
        transaction.scan_table(&self.table, ColumnSet::EMPTY, None, note).unwrap();
        let (changed, deleted) = rows.split_at(ROWS as usize);
        for &row in changed {
            transaction.update(&self.table, row, vec![(1, Value::BigInt(1))]).unwrap();
        }
        deleted.iter().for_each(|&row| transaction.delete(&self.table, row).unwrap());
        (10 * ROWS..11 * ROWS).for_each(|id| self.insert(&mut transaction, id));
        transaction
    }
}

/// Commits, interrupted at the step that has this name and number, if there is one. Asserts of each of these loops that something
/// was freed that had been retired when it began.
fn frees_in_each(loops: &[&'static str], interrupted_at: Option<(&'static str, usize)>) {
    let _alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let stage = Stage::new();
    let mut transaction = stage.written();
    let watched: Rc<RefCell<HashMap<&'static str, Watched>>> = Rc::default();
    let noted = watched.clone();
    let interrupt = Interrupt::new();
    transaction.set_interrupt(interrupt.clone());
    failpoint::watch(Some(Rc::new(move |name| {
        let mut noted = noted.borrow_mut();
        let watched = noted.entry(name).or_default();
        watched.step();
        if interrupted_at == Some((name, watched.steps)) {
            interrupt.raise(Cause::Timeout);
        }
    })));
    let outcome = transaction.commit();
    failpoint::watch(None);
    assert_eq!(outcome.is_err(), interrupted_at.is_some());
    let watched = watched.borrow();
    for name in loops {
        let Some(seen) = watched.get(name) else { panic!("there is no step \"{name}\"") };
        assert!(seen.steps > STEPS, "\"{name}\" has {} steps", seen.steps);
        let freed_after = seen.freed_after;
        assert!(
            freed_after.is_some_and(|steps| steps <= STEPS),
            "\"{name}\": what was retired at its first step is free after {freed_after:?} of {} steps",
            seen.steps
        );
    }
}

#[test]
fn a_large_commit_repins_in_each_of_its_loops() {
    let loops =
        ["lock of a row", "entry of a key", "row saved", "row ahead of its timestamp", "timestamp of a row"];
    frees_in_each(&loops, None);
}

#[test]
fn a_large_commit_that_ends_repins_while_it_takes_back() {
    let late = ("row ahead of its timestamp", 2 * ROWS as usize);
    frees_in_each(&["row withdrawn", "entry taken back"], Some(late));
    let early = ("entry of a key", 7 * 1_024);
    frees_in_each(&["slot given back"], Some(early));
}
