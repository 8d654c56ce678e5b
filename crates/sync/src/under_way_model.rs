//! loom models of [`crate::under_way`].
//!
//! A commit looks at the number of indexes while a definition adds one and then fills it. The commit must know the new
//! index, or its row must be there when the definition fills the index.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::thread;

use crate::primitive::{AtomicU64, Ordering, ProofStep, check, check_without};
use crate::under_way::UnderWay;

#[derive(Default)]
struct Row(UnsafeCell<bool>);

// SAFETY: loom checks all accesses.
unsafe impl Sync for Row {}
// SAFETY: as above.
unsafe impl Send for Row {}

struct Table {
    under_way: UnderWay,
    indexes: AtomicU64,
    row: Row,
}

fn commit_and_definition() {
    let table =
        Arc::new(Table { under_way: UnderWay::default(), indexes: AtomicU64::new(0), row: Row::default() });
    let committing = Arc::clone(&table);
    let commit = thread::spawn(move || {
        committing.under_way.begin();
        let knows_index = committing.indexes.load(Ordering::Acquire) == 1;
        if !knows_index {
            // SAFETY: loom checks that no other access is concurrent.
            committing.row.0.with_mut(|row| unsafe { *row = true });
        }
        committing.under_way.end();
        knows_index
    });
    table.indexes.store(1, Ordering::Release);
    table.under_way.wait_for_present();
    // SAFETY: loom checks that no write is concurrent.
    let filled = table.row.0.with(|row| unsafe { *row });
    let knows_index = commit.join().unwrap();
    assert!(knows_index || filled, "the index lacks a row");
}

#[test]
fn a_commit_knows_the_index_or_is_waited_for() {
    check(3, commit_and_definition);
}

#[test]
#[should_panic]
fn a_waiter_that_only_loads_misses_a_commit() {
    check_without(ProofStep::WaitModifies, commit_and_definition);
}
