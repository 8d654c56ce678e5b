//! loom models of [`crate::commit_order`].
//!
//! The rows that a commit installs are loom's checked cells: a thread that reads them because the watermark
//! covers the commit must be ordered after it, or loom reports a data race. Write sets that leave the ring
//! are kept until the end of an execution, which stands in for pins.

use std::mem::ManuallyDrop;

use ankerdb_base::Timestamp;
use loom::cell::UnsafeCell;
use loom::thread;

use crate::commit_order::{CommitOrder, Visited};
use crate::primitive::{Arc, ProofStep, check, check_further, check_without};

/// A write set: the number that the committer gave it.
type Writes = u64;

/// A commit order, and a row for each commit.
struct Database {
    /// Not dropped when a model has failed: loom cannot go on then, and would abort the process.
    order: ManuallyDrop<CommitOrder<Writes>>,
    rows: Vec<UnsafeCell<bool>>,
    /// Not loom's: it orders nothing that the protocol does not order.
    retired: std::sync::Mutex<ManuallyDrop<Vec<Arc<Writes>>>>,
}

// SAFETY: loom checks all accesses to the rows.
unsafe impl Sync for Database {}

impl Drop for Database {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: dropped once, here.
            unsafe {
                ManuallyDrop::drop(&mut self.order);
                ManuallyDrop::drop(self.retired.get_mut().unwrap());
            }
        }
    }
}

impl Database {
    fn new(capacity: usize) -> std::sync::Arc<Database> {
        std::sync::Arc::new(Database {
            order: ManuallyDrop::new(CommitOrder::new(capacity)),
            rows: (0..8).map(|_| UnsafeCell::new(false)).collect(),
            retired: Default::default(),
        })
    }

    fn begin(&self, writes: Writes) -> Timestamp {
        self.order.begin(Arc::new(writes), |old| self.retired.lock().unwrap().push(old))
    }

    /// Installs the row of this timestamp and finishes.
    fn install(&self, timestamp: Timestamp) {
        // SAFETY: loom checks that no other access is concurrent.
        self.rows[timestamp.0 as usize].with_mut(|row| unsafe { *row = true });
        self.order.finish(timestamp, true);
    }

    /// Loads the watermark, and checks that all rows up to it are there.
    fn check_watermark(&self) -> Timestamp {
        let watermark = self.order.watermark();
        for row in &self.rows[1..=watermark.0 as usize] {
            // SAFETY: loom checks that no write is concurrent.
            assert!(row.with(|row| unsafe { *row }), "the watermark covers an unfinished commit");
        }
        watermark
    }

    fn visit(&self, after: Timestamp, before: Timestamp) -> (Vec<(u64, Writes)>, Visited) {
        let mut seen = Vec::new();
        // SAFETY: what is retired is kept until the end of the execution.
        let outcome = unsafe {
            self.order.visit_between(after, before, |timestamp, &writes| {
                seen.push((timestamp.0, writes));
                false
            })
        };
        (seen, outcome)
    }
}

fn spawn<T: 'static>(
    database: &std::sync::Arc<Database>,
    run: impl FnOnce(&Database) -> T + 'static,
) -> thread::JoinHandle<T> {
    let database = std::sync::Arc::clone(database);
    thread::spawn(move || run(&database))
}

/// Two commits finish at the same time while a reader watches the watermark.
fn two_committers_and_a_reader() {
    let database = Database::new(4);
    let committers = [10, 20].map(|writes| {
        spawn(&database, move |database| {
            let timestamp = database.begin(writes);
            database.install(timestamp);
        })
    });
    let first = database.check_watermark();
    assert!(database.check_watermark() >= first);
    for committer in committers {
        committer.join().unwrap();
    }
    assert_eq!(database.check_watermark(), Timestamp(2), "an advance was lost");
}

/// Commits that have begun already finish at the same time.
fn finishers(count: u64) {
    let database = Database::new(4);
    let timestamps: Vec<_> = (0..count).map(|writes| database.begin(writes)).collect();
    let mut finishers = Vec::new();
    for &timestamp in &timestamps[1..] {
        finishers.push(spawn(&database, move |database| database.install(timestamp)));
    }
    database.install(timestamps[0]);
    for finisher in finishers {
        finisher.join().unwrap();
    }
    assert_eq!(database.check_watermark(), Timestamp(count), "an advance was lost");
}

/// Of two committers that validate against what they did not see, the later one meets the earlier one.
fn committer_and_validator() {
    let database = Database::new(4);
    let commit = |database: &Database, writes| {
        let seen = database.order.watermark();
        let mine = database.begin(writes);
        let met = database.visit(seen, mine);
        database.order.finish(mine, true);
        (seen, mine, met)
    };
    let other = spawn(&database, move |database| commit(database, 10));
    let here = commit(&database, 20);
    let there = other.join().unwrap();
    for ((seen, mine, (met, outcome)), (_, theirs, _), writes) in [(&here, &there, 10), (&there, &here, 20)] {
        let missed = seen < theirs && theirs < mine;
        let expected = if missed { vec![(theirs.0, writes)] } else { vec![] };
        assert_eq!((met, *outcome), (&expected, Visited::Clear));
    }
}

/// A visitor of a slot that is given to the next commit sees the former write set, or that it is too late.
fn visitor_of_a_reused_slot() {
    let database = Database::new(1);
    let first = database.begin(10);
    database.order.finish(first, true);
    let committer = spawn(&database, |database| {
        let second = database.begin(20);
        database.order.finish(second, true);
    });
    let (seen, outcome) = database.visit(Timestamp(0), Timestamp(2));
    match outcome {
        Visited::Clear => assert_eq!(seen, [(1, 10)]),
        Visited::TooOld => assert_eq!(seen, []),
        Visited::Stopped(_) => unreachable!(),
    }
    committer.join().unwrap();
    assert_eq!(database.order.watermark(), Timestamp(2));
}

/// A ring of one slot: the second committer waits for the first, and no advance is lost although the slot
/// changes hands under those who advance the watermark.
fn committers_through_one_slot() {
    let database = Database::new(1);
    let commit = |database: &Database| {
        let timestamp = database.begin(0);
        database.install(timestamp);
        database.order.wait_until_visible(timestamp);
        assert!(database.check_watermark() >= timestamp);
    };
    let other = spawn(&database, move |database| commit(database));
    commit(&database);
    other.join().unwrap();
    assert_eq!(database.check_watermark(), Timestamp(2));
}

/// A write set is forgotten while the next commit takes its slot: each is retired once, and the next one's stays.
fn forgetter_of_a_reused_slot() {
    let database = Database::new(1);
    let first = database.begin(10);
    database.order.finish(first, true);
    let committer = spawn(&database, |database| {
        let second = database.begin(20);
        database.order.finish(second, true);
    });
    // SAFETY: what is retired is kept until the end of the execution.
    unsafe {
        let keep = |old| database.retired.lock().unwrap().push(old);
        database.order.forget(first, Arc::new(0), keep);
    }
    committer.join().unwrap();
    assert_eq!(database.visit(Timestamp(1), Timestamp(3)).0, [(2, 20)]);
    let mut retired: Vec<Writes> = database.retired.lock().unwrap().iter().map(|old| **old).collect();
    retired.sort_unstable();
    assert!(retired == [10] || retired == [0, 10], "{retired:?}");
}

#[test]
fn loom_two_committers_and_a_reader() {
    check_further(3, 4, two_committers_and_a_reader);
}

#[test]
fn loom_two_finishers() {
    check(4, || finishers(2));
}

#[test]
fn loom_three_finishers() {
    check(2, || finishers(3));
}

#[test]
fn loom_committer_and_validator() {
    check(3, committer_and_validator);
}

#[test]
fn loom_visitor_of_a_reused_slot() {
    check(4, visitor_of_a_reused_slot);
}

#[test]
fn loom_committers_through_one_slot() {
    check(3, committers_through_one_slot);
}

#[test]
fn loom_forgetter_of_a_reused_slot() {
    check(4, forgetter_of_a_reused_slot);
}

#[test]
#[should_panic = "assertion `left == right` failed"]
fn control_forgetter_that_does_not_look_again() {
    check_without(ProofStep::ForgetRechecks, forgetter_of_a_reused_slot);
}

#[test]
#[should_panic = "assertion `left == right` failed"]
fn control_forgetter_that_does_not_compare() {
    check_without(ProofStep::ForgetCompares, forgetter_of_a_reused_slot);
}

#[test]
#[should_panic = "an advance was lost"]
fn control_without_fence_at_finish() {
    check_without(ProofStep::FinishFences, || finishers(2));
}

#[test]
#[should_panic = "Causality violation"]
fn control_watermark_over_unfinished_commits() {
    check_without(ProofStep::AdvanceChecksMark, two_committers_and_a_reader);
}

#[test]
#[should_panic = "assertion `left == right` failed"]
fn control_validator_that_does_not_wait() {
    check_without(ProofStep::VisitWaits, committer_and_validator);
}

#[test]
#[should_panic = "assertion `left == right` failed"]
fn control_visitor_that_does_not_look_again() {
    check_without(ProofStep::VisitRechecks, visitor_of_a_reused_slot);
}

#[test]
#[should_panic = "assertion `left == right` failed"]
fn control_slot_that_is_not_closed() {
    check_without(ProofStep::PublishCloses, visitor_of_a_reused_slot);
}
