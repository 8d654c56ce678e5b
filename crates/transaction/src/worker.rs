//! Workers: the part of the database that one session at a time owns, so that sessions do not write to the same
//! memory.

use ankerdb_sync::under_way::UnderWay;
use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The part that one session at a time owns: a place to insert, and counters on a cache line of their own.
pub struct Worker(CachePadded<WorkerState>);

#[derive(Default)]
struct WorkerState {
    number: AtomicUsize,
    /// Commits under way: from before the first index entry until the commit is over and visible. More than one
    /// when a session has several interactive transactions.
    committing: UnderWay,
    commits: AtomicU64,
    aborts: AtomicU64,
    /// About the bytes of the states that commits have replaced, and of arrays on loan that they have copied.
    replaced: AtomicU64,
}

impl Worker {
    /// Spreads sessions over a table's tails.
    pub(crate) fn number(&self) -> usize {
        self.0.number.load(Ordering::Relaxed)
    }

    pub(crate) fn begin_commit(&self) {
        self.0.committing.begin();
    }

    pub(crate) fn end_commit(&self) {
        self.0.committing.end();
    }

    pub(crate) fn count_commit(&self) {
        self.0.commits.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts what a commit has left of older states.
    pub(crate) fn count_history(&self, bytes: u64) {
        self.0.replaced.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn count_abort(&self) {
        self.0.aborts.fetch_add(1, Ordering::Relaxed);
    }
}

/// The workers of a database.
#[derive(Default)]
pub(crate) struct Workers(Mutex<Lists>);

#[derive(Default)]
struct Lists {
    all: Vec<Arc<Worker>>,
    free: Vec<Arc<Worker>>,
}

impl Workers {
    /// One that no session owns.
    pub(crate) fn acquire(&self) -> Arc<Worker> {
        let mut lists = self.0.lock();
        if let Some(worker) = lists.free.pop() {
            return worker;
        }
        let worker = Arc::new(Worker(CachePadded::new(WorkerState::default())));
        worker.0.number.store(lists.all.len(), Ordering::Relaxed);
        lists.all.push(worker.clone());
        worker
    }

    /// Takes one back.
    pub(crate) fn release(&self, worker: Arc<Worker>) {
        self.0.lock().free.push(worker);
    }

    /// Returns when every commit that was under way at the call is over.
    pub(crate) fn wait_for_commits(&self) {
        // A worker that is made later is made behind this mutex, and so sees what the caller has published.
        let all = self.0.lock().all.clone();
        all.iter().for_each(|worker| worker.0.committing.wait_for_present());
    }

    /// About the bytes of all states and arrays that commits have replaced so far, whether they are still kept or not.
    pub(crate) fn history_bytes(&self) -> u64 {
        self.0.lock().all.iter().map(|worker| worker.0.replaced.load(Ordering::Relaxed)).sum()
    }

    /// Commits and aborts of all so far.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let lists = self.0.lock();
        let sum = |counter: fn(&WorkerState) -> &AtomicU64| {
            lists.all.iter().map(|worker| counter(&worker.0).load(Ordering::Relaxed)).sum()
        };
        (sum(|worker| &worker.commits), sum(|worker| &worker.aborts))
    }
}
