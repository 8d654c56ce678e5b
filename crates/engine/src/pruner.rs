//! The pruner: a background thread that frees old versions once no reader needs them.
//!
//! Writers prune the chains of rows that they write to. What they never touch again (the last version of a row,
//! entries of deleted rows, free slots) is found here, through the dirty bits of blocks; a block where nothing can
//! have changed since the last pass costs two loads.
//!
//! Where rows are deleted faster than this thread gets to them, the deleting transactions sweep as well
//! (`Storage::needs_sweep`).
//!
//! This thread also frees what its passes retire: any thread that pins an epoch now and then frees what others have retired,
//! and that should not be a session in the middle of a commit.
//!
//! It also lets go of the snapshot that queries share, when nobody can use it any more ([`snapshot_manager`](crate::snapshot_manager)).
//!
//! When memory gets short, this thread lets go of all compressed copies of columns, which are made again by queries.
//!
//! Versions that are held up by an old reader are left to [`interval_pruning`](crate::interval_pruning).
//!
//! In the configurations with a single execution engine it is the collector of AnKer §6.1: writers leave all versions
//! to it, and it makes a pass every second down to the oldest active transaction.

use crate::interval_pruning::IntervalPruning;
use crate::shared::DatabaseState;
use ankerdb_snapshot::drop_compressed;
use ankerdb_sync::memory_limit::Claim;
use ankerdb_table::Storage;
use parking_lot::{Condvar, Mutex};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time between two passes while there is something to do. Versions cost as much memory, and as many checks of rows
/// when a block is materialized, as is written in this time.
const PAUSE_BUSY: Duration = Duration::from_millis(5);
/// Time between two passes over an idle database.
const PAUSE_IDLE: Duration = Duration::from_millis(50);

pub(crate) struct Pruner {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Pruner {
    /// Starts it: a pass every `interval`, or as often as there is something to do.
    pub(crate) fn start(shared: Weak<DatabaseState>, interval: Option<Duration>) -> Pruner {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let stopped = stop.clone();
        let run = move || {
            let (flag, wake) = &*stopped;
            let mut stop = flag.lock();
            let mut pause = interval.unwrap_or(PAUSE_IDLE);
            let mut interval_pruning = IntervalPruning::new();
            let mut was_short = false;
            while !*stop {
                wake.wait_for(&mut stop, pause);
                let Some(shared) = shared.upgrade().filter(|_| !*stop) else { return };
                match interval {
                    Some(_) => collect(&shared),
                    None => {
                        pause = if prune(&shared) { PAUSE_BUSY } else { PAUSE_IDLE };
                        interval_pruning.pass(&shared);
                        let is_short = shared.manager.memory_limit().check(Claim::Large, 0).is_err();
                        if is_short && !was_short {
                            // No more are made while memory is short, and none from a little before that.
                            shared.tables().iter().for_each(|table| drop_compressed(table));
                        }
                        was_short = is_short;
                    }
                }
                shared.snapshots.pass(&shared.to_read());
                shared.manager.keep_account();
            }
        };
        let thread = std::thread::Builder::new().name("ankerdb-pruner".into()).spawn(run);
        Pruner { stop, thread: Some(thread.expect("the system has a thread for us")) }
    }
}

impl Drop for Pruner {
    fn drop(&mut self) {
        *self.stop.0.lock() = true;
        self.stop.1.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

/// Returns whether anything was found to do.
fn prune(shared: &DatabaseState) -> bool {
    let mut busy = false;
    let horizon = shared.manager.horizon();
    for table in shared.tables() {
        // One pin a table: memory retired meanwhile waits for no longer than that.
        busy |= Storage::of(&table).sweep(horizon, &crossbeam_epoch::pin());
    }
    if busy {
        shared.manager.free_retired();
    }
    busy
}

/// One pass of the collector.
fn collect(shared: &DatabaseState) {
    let horizon = shared.manager.horizon();
    for table in shared.tables() {
        Storage::of(&table).collect(horizon, &crossbeam_epoch::pin());
    }
    shared.manager.free_retired();
}
