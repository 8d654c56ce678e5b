//! loom models of [`crate::readers`].
//!
//! A version that is visible at one timestamp only is a loom-checked cell: the reader of that timestamp reads
//! it, a pruner that finds no reader there overwrites it. Were the reader missed, or its read not ordered
//! before the pruner's write, loom would report a data race.

use std::sync::Arc;

use ankerdb_base::Timestamp;
use loom::cell::UnsafeCell;
use loom::thread;

use crate::primitive::{AtomicU64, Ordering, ProofStep, check, check_without, weakened};
use crate::readers::{ActiveReaders, ReaderSlot};

struct Database {
    readers: Arc<ActiveReaders>,
    watermark: AtomicU64,
    /// By timestamp.
    versions: Vec<UnsafeCell<bool>>,
}

// SAFETY: loom checks all accesses to the versions.
unsafe impl Sync for Database {}

impl Database {
    fn new() -> Arc<Database> {
        Arc::new(Database {
            readers: ActiveReaders::new(),
            watermark: AtomicU64::new(1),
            versions: (0..4).map(|_| UnsafeCell::new(true)).collect(),
        })
    }

    /// Reads one version at the newest timestamp.
    fn read(&self, slot: &ReaderSlot) {
        let timestamp = slot.enter(|| Timestamp(self.watermark.load(Ordering::Acquire)));
        // SAFETY: loom checks that no write is concurrent.
        let kept = self.versions[timestamp.0 as usize].with(|version| unsafe { *version });
        assert!(kept, "the version of an active reader was pruned");
        slot.leave();
    }

    fn enter(&self, slot: &ReaderSlot) -> usize {
        slot.enter(|| Timestamp(self.watermark.load(Ordering::Acquire))).0 as usize
    }

    /// Finds a row that comes and goes between its statements, and exists at timestamp 2 only; goes on to the third one
    /// before it writes to the row.
    fn find_and_go_on(&self, first: &ReaderSlot, second: &ReaderSlot) {
        self.enter(first);
        if !weakened(ProofStep::AnchorsFirst) {
            first.set_anchor();
        }
        self.commit();
        let has_found = self.enter(second) == 2;
        self.commit();
        self.enter(second);
        if has_found {
            // SAFETY: loom checks that no write is concurrent.
            let kept = self.versions[2].with(|row| unsafe { *row });
            assert!(kept, "the slot was given to another row");
        }
        second.leave();
        first.leave();
    }

    /// Gives the slot of that row to another one, if no reader can see the row.
    fn bury(&self, watermark: Timestamp) {
        let (mut in_use, deleted) = (Vec::new(), Timestamp(3));
        let anchored = self.readers.in_use_and_anchored(watermark, &mut in_use);
        if deleted <= watermark.min(anchored) && !in_use.contains(&Timestamp(2)) {
            // SAFETY: loom checks that no other access is concurrent.
            self.versions[2].with_mut(|row| unsafe { *row = false });
        }
    }

    /// Moves the watermark on.
    fn commit(&self) -> Timestamp {
        Timestamp(self.watermark.fetch_add(1, Ordering::AcqRel) + 1)
    }

    /// Prunes every version below the watermark that no reader needs.
    fn prune(&self, watermark: Timestamp, prunable: std::ops::Range<usize>) {
        let mut in_use = Vec::new();
        self.readers.in_use(watermark, &mut in_use);
        for (timestamp, version) in self.versions.iter().enumerate() {
            let timestamp = Timestamp(timestamp as u64);
            if prunable.contains(&(timestamp.0 as usize))
                && timestamp < watermark
                && !in_use.contains(&timestamp)
            {
                // SAFETY: loom checks that no other access is concurrent.
                version.with_mut(|version| unsafe { *version = false });
            }
        }
    }
}

fn spawn(database: &Arc<Database>, run: impl FnOnce(&Database) + 'static) -> thread::JoinHandle<()> {
    let database = Arc::clone(database);
    thread::spawn(move || run(&database))
}

/// A reader enters while a pruner at a newer watermark looks.
fn reader_and_pruner() {
    let database = Database::new();
    let slot = database.readers.register();
    let reader = spawn(&database, move |database| database.read(&slot));
    let watermark = database.commit();
    database.prune(watermark, 0..4);
    reader.join().unwrap();
}

/// The slot is reused: a reader reads twice while the watermark moves on and a pruner follows twice.
fn reader_that_comes_back() {
    let database = Database::new();
    let slot = database.readers.register();
    let reader = spawn(&database, move |database| {
        database.read(&slot);
        database.read(&slot);
    });
    for _ in 0..2 {
        let watermark = database.commit();
        database.prune(watermark, 0..4);
    }
    reader.join().unwrap();
}

/// The reader's slot lies in a chunk that the pruner may not have seen yet.
fn reader_that_registers() {
    let database = Database::new();
    let reader = spawn(&database, |database| {
        let slot = database.readers.register();
        database.read(&slot);
    });
    let watermark = database.commit();
    database.prune(watermark, 0..4);
    reader.join().unwrap();
}

/// Two pruners at the same watermark, the later of which finds the horizon where it wants it. Each has
/// versions of its own to prune.
fn reader_and_two_pruners() {
    let database = Database::new();
    let slot = database.readers.register();
    let reader = spawn(&database, move |database| database.read(&slot));
    let other = spawn(&database, |database| {
        let watermark = database.commit();
        database.prune(watermark, 0..1);
    });
    let watermark = Timestamp(database.watermark.load(Ordering::Acquire));
    database.prune(watermark, 1..4);
    reader.join().unwrap();
    other.join().unwrap();
}

/// A row comes and goes while a transaction looks, and no reader announces the timestamp at which it existed.
fn finder_and_burier() {
    let database = Database::new();
    let (first, second) = (database.readers.register(), database.readers.register());
    let finder = spawn(&database, move |database| database.find_and_go_on(&first, &second));
    database.bury(Timestamp(database.watermark.load(Ordering::Acquire)));
    finder.join().unwrap();
}

#[test]
fn loom_finder_and_burier() {
    check(3, finder_and_burier);
}

#[test]
#[should_panic]
fn control_finding_without_an_anchor() {
    check_without(ProofStep::AnchorsFirst, finder_and_burier);
}

#[test]
fn loom_reader_and_pruner() {
    check(4, reader_and_pruner);
}

#[test]
fn loom_reader_that_comes_back() {
    check(3, reader_that_comes_back);
}

#[test]
fn loom_reader_that_registers() {
    check(3, reader_that_registers);
}

#[test]
fn loom_reader_and_two_pruners() {
    check(2, reader_and_two_pruners);
}

#[test]
#[should_panic = "Causality violation"]
fn control_entering_without_a_look_at_the_horizon() {
    check_without(ProofStep::EnterChecksHorizon, reader_and_pruner);
}

#[test]
#[should_panic = "Causality violation"]
fn control_entering_without_fence() {
    check_without(ProofStep::EnterFences, reader_and_pruner);
}

#[test]
#[should_panic = "Causality violation"]
fn control_pruning_without_fence() {
    check_without(ProofStep::PruneFences, reader_and_pruner);
}
