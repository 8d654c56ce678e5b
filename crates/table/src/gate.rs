//! The gate of a table: commits pass it, unless another transaction redefines the table, or the table is gone.
//!
//! ```text
//!          close(me)                    end(me)
//!   open ─────────────► closed by me ─────────────► gone       its definition was replaced, or it was dropped
//!    ▲                        │
//!    └────────────────────────┘ open(me): the redefinition was rolled back
//! ```
//!
//! A commit looks at the gates of its tables after it has been counted as under way. The transaction that closes
//! a gate waits, after that, until the commits that were under way are over (`ankerdb_sync::under_way`): so each commit either has ended when the wait
//! returns, or finds the gate closed. Commits do not wait at a gate, since they may hold rows that its closer needs: they
//! end with 40001, and their next try waits before it holds anything.

use ankerdb_base::Timestamp;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

/// See the module. Like [`Storage`](crate::Storage), usable only by code that can name it.
#[derive(Default)]
pub struct Gate {
    closer: AtomicU64,
    /// See [`since`](Self::since).
    since: AtomicU64,
    /// See [`until`](Self::until).
    until: AtomicU64,
}

/// No closer has this number.
const GONE: u64 = u64::MAX;

/// The state of a gate for one transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// It may commit.
    Open,
    /// Another transaction redefines the table: commits that have not written to it may pass.
    Closed,
    /// The table has another definition by now, or none.
    Gone,
}

impl Gate {
    /// What it is for the transaction that closes gates by this number, if it does. One load.
    #[inline]
    pub fn admits(&self, closer: Option<NonZeroU64>) -> Admission {
        match self.closer.load(Ordering::Acquire) {
            0 => Admission::Open,
            GONE => Admission::Gone,
            by if closer.is_some_and(|closer| closer.get() == by) => Admission::Open,
            _ => Admission::Closed,
        }
    }

    /// Closes it for all but the closer. False if another one has closed it, or the table is gone.
    pub fn close(&self, closer: NonZeroU64) -> bool {
        let closed = self.closer.compare_exchange(0, closer.get(), Ordering::SeqCst, Ordering::SeqCst);
        closed.is_ok() || closed == Err(closer.get())
    }

    /// Opens what the closer has closed.
    pub fn open(&self, closer: NonZeroU64) {
        // Nothing to do where the table is gone.
        let _ = self.closer.compare_exchange(closer.get(), 0, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// From when on the table has rows, if they were copied from another one: as of an earlier time it lacks them.
    #[inline]
    pub fn since(&self) -> Timestamp {
        Timestamp(self.since.load(Ordering::Acquire))
    }

    /// Its rows are there from this commit on. To be called before others can have the table.
    pub fn set_since(&self, commit: Timestamp) {
        self.since.store(commit.0, Ordering::Release);
    }

    /// Until when the table could be read, once it is gone: as of an earlier time it still can.
    pub fn until(&self) -> Timestamp {
        Timestamp(self.until.load(Ordering::Acquire))
    }

    /// From this commit on it is another table that has the name, or none. No transaction commits to it any more, or has read
    /// it when it commits elsewhere.
    pub fn end(&self, commit: Timestamp) {
        self.until.store(commit.0, Ordering::Release);
        self.closer.store(GONE, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_closer_passes_a_closed_gate_and_nobody_passes_one_that_is_gone() {
        let (gate, me, other) = (Gate::default(), NonZeroU64::new(1).unwrap(), NonZeroU64::new(2).unwrap());
        assert_eq!(gate.admits(None), Admission::Open);
        assert!(gate.close(me) && gate.close(me) && !gate.close(other));
        assert_eq!(
            [gate.admits(None), gate.admits(Some(other)), gate.admits(Some(me))],
            [Admission::Closed, Admission::Closed, Admission::Open]
        );
        gate.open(other);
        assert_eq!(gate.admits(None), Admission::Closed);
        gate.open(me);
        assert!(gate.close(other));
        gate.end(Timestamp(7));
        gate.open(other);
        assert_eq!(gate.until(), Timestamp(7));
        assert_eq!([gate.admits(None), gate.admits(Some(other))], [Admission::Gone; 2]);
        assert!(!gate.close(me));
    }
}
