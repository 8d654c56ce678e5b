//! Precedence: how a procedure that fails again and again gets to commit.
//!
//! Procedures lock nothing while they run; of several that write what the others read, one commits and the rest are run
//! again. One always commits, but a longer procedure can lose to shorter ones for ever. So one that has failed too often
//! *takes precedence*: tries of others that begin meanwhile are held back for some dozens of milliseconds. Those that were
//! under way finish or fail, and then only interactive transactions are left, which the procedure waits for.
//!
//! Only one at a time has precedence, or they would lose to each other. Holding back has a time limit, and nothing is
//! wrong if another procedure goes on; so one that computes for long, or waits for a row, stops no others.

use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a try of another procedure is held back at most: far longer than a short procedure takes, and no longer
/// than a client notices.
pub(crate) const COURTESY: Duration = Duration::from_millis(50);

/// The procedure that has precedence in a database.
#[derive(Default)]
pub(crate) struct Contention {
    one: Mutex<()>,
    /// A hint, on a line that is written only under contention.
    is_taken: AtomicBool,
}

/// Precedence, until it is dropped.
pub(crate) struct Precedence<'c> {
    contention: &'c Contention,
    /// `None` if another procedure has it.
    held: Option<MutexGuard<'c, ()>>,
}

impl Contention {
    /// Whether a procedure has precedence. One load.
    #[inline]
    pub(crate) fn is_contended(&self) -> bool {
        self.is_taken.load(Ordering::Relaxed)
    }

    /// Takes precedence for the next try once its present holder is done, but waits no longer than a moment: the
    /// holder may be waiting for a row.
    pub(crate) fn take_precedence(&self) -> Precedence<'_> {
        let held = self.one.try_lock_for(COURTESY);
        if held.is_some() {
            self.is_taken.store(true, Ordering::Relaxed);
        }
        Precedence { contention: self, held }
    }
}

impl Drop for Precedence<'_> {
    fn drop(&mut self) {
        if self.held.is_some() {
            self.contention.is_taken.store(false, Ordering::Relaxed);
        }
    }
}
