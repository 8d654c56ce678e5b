//! The checkpointer: a background thread that makes a checkpoint when one is due.

use crate::shared::DatabaseState;
use ankerdb_base::{Error, Result, SqlState};
use parking_lot::{Condvar, Mutex};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often it looks whether one is due.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long it waits after one that has failed: the disk may be full.
const RETRY_AFTER: Duration = Duration::from_secs(10);

/// See the module. Ends its thread when it is dropped, in the middle of a checkpoint, too, which then counts for nothing.
pub(crate) struct Checkpointer {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Stop {
    is_wanted: Mutex<bool>,
    wake: Condvar,
}

impl Stop {
    /// Waits; whether it is time to end.
    fn wait(&self, duration: Duration) -> bool {
        let mut is_wanted = self.is_wanted.lock();
        if !*is_wanted && !duration.is_zero() {
            self.wake.wait_for(&mut is_wanted, duration);
        }
        *is_wanted
    }
}

impl Checkpointer {
    /// Starts it.
    ///
    /// # Errors
    /// `OutOfMemory` if the system has no thread.
    pub(crate) fn start(state: Weak<DatabaseState>) -> Result<Checkpointer> {
        let stop = Arc::new(Stop::default());
        let stopped = stop.clone();
        let run = move || {
            let mut pause = LOOK_EVERY;
            while !stopped.wait(pause) {
                let Some(state) = state.upgrade() else { return };
                pause = if look(&state, &stopped).is_ok() { LOOK_EVERY } else { RETRY_AFTER };
            }
        };
        let thread = std::thread::Builder::new().name("ankerdb-checkpointer".into()).spawn(run);
        let thread = thread.map_err(|error| {
            Error::new(SqlState::OutOfMemory, format!("there is no thread for checkpoints: {error}"))
        })?;
        Ok(Checkpointer { stop, thread: Some(thread) })
    }
}

fn look(state: &DatabaseState, stop: &Stop) -> Result<()> {
    let Some(checkpoints) = state.checkpoints.get() else { return Ok(()) };
    if !checkpoints.is_due(state.to_write()) {
        return Ok(());
    }
    let between = |pause: Duration| match stop.wait(pause) {
        true => Err(Error::new(SqlState::AdminShutdown, "the database is closed")),
        false => Ok(()),
    };
    let made = checkpoints.make_at_rate(state.to_write(), &between);
    checkpoints.note_failure(made.as_ref().err());
    made
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        *self.stop.is_wanted.lock() = true;
        self.stop.wake.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}
