//! Queries in threads of this process: how they come to a snapshot, and how a refresh waits for them.

use crate::snapshot::SerialSnapshot;
use crate::store::Store;
use ankerdb_base::{Error, Result, SqlState};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What happens to queries that run when a snapshot is refreshed of which there is one at a time (DaMoN 2011, §5.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QuiescePolicy {
    /// No new ones begin, and the refresh waits until these have ended.
    Wait,
    /// They are asked to give up, too.
    Abort,
}

/// The door to the snapshots of a database; its clones are the same one.
pub struct Readers<S: Store>(Arc<Shared<S>>);

struct Shared<S: Store> {
    state: Mutex<State<S>>,
    changed: Condvar,
    aborts: AtomicBool,
}

struct State<S: Store> {
    snapshot: Arc<SerialSnapshot<S>>,
    readers: usize,
    is_closed: bool,
}

impl<S: Store> Clone for Readers<S> {
    fn clone(&self) -> Readers<S> {
        Readers(self.0.clone())
    }
}

/// A query on a snapshot, which stays as it is until this is dropped.
pub struct Reading<S: Store> {
    snapshot: Arc<SerialSnapshot<S>>,
    shared: Arc<Shared<S>>,
}

impl<S: Store> Reading<S> {
    /// What it reads.
    pub fn snapshot(&self) -> &SerialSnapshot<S> {
        &self.snapshot
    }

    /// To be called now and then, by a query that can give up.
    ///
    /// # Errors
    /// 57014 if a refresh does not wait for queries.
    pub fn check(&self) -> Result<()> {
        match S::MECHANISM.has_one_snapshot() && self.shared.aborts.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err(Error::new(SqlState::QueryCanceled, "the snapshot of this query is being refreshed")),
        }
    }
}

impl<S: Store> Drop for Reading<S> {
    fn drop(&mut self) {
        self.shared.state.lock().readers -= 1;
        self.shared.changed.notify_all();
    }
}

impl<S: Store> Readers<S> {
    pub(crate) fn new(snapshot: SerialSnapshot<S>) -> Readers<S> {
        let state = State { snapshot: Arc::new(snapshot), readers: 0, is_closed: false };
        let (changed, aborts) = (Condvar::new(), AtomicBool::new(false));
        Readers(Arc::new(Shared { state: Mutex::new(state), changed, aborts }))
    }

    /// Begins a query on the last snapshot; waits while that is being refreshed.
    ///
    /// # Errors
    /// 0A000 by mechanisms whose snapshots are child processes.
    pub fn enter(&self) -> Result<Reading<S>> {
        if S::MECHANISM.forks() {
            let message = format!(
                "a snapshot by {} is a process, which threads of another cannot read",
                S::MECHANISM.name()
            );
            return Err(Error::new(SqlState::FeatureNotSupported, message));
        }
        let mut state = self.0.state.lock();
        while state.is_closed {
            self.0.changed.wait(&mut state);
        }
        state.readers += 1;
        Ok(Reading { snapshot: state.snapshot.clone(), shared: self.0.clone() })
    }

    /// Runs a refresh, without readers where there is one snapshot at a time.
    ///
    /// # Errors
    /// Those of the refresh; the former snapshot stays then.
    pub(crate) fn refresh(
        &self,
        policy: QuiescePolicy,
        refresh: impl FnOnce() -> Result<SerialSnapshot<S>>,
    ) -> Result<()> {
        let has_one = S::MECHANISM.has_one_snapshot();
        if has_one {
            let mut state = self.0.state.lock();
            state.is_closed = true;
            self.0.aborts.store(policy == QuiescePolicy::Abort, Ordering::Relaxed);
            while state.readers > 0 {
                self.0.changed.wait(&mut state);
            }
        }
        let refreshed = refresh();
        let mut state = self.0.state.lock();
        state.is_closed = false;
        self.0.aborts.store(false, Ordering::Relaxed);
        self.0.changed.notify_all();
        state.snapshot = Arc::new(refreshed?);
        Ok(())
    }
}
