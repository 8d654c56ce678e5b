//! Work under way: how a thread learns that all work that may have missed its change is over.
//!
//! # Idea
//! A worker counts itself in before it looks at something shared, such as a table's list of indexes, and out when its
//! work is over. A thread that has changed the shared thing *waits for the present work*: when it returns, all work that
//! may not have seen the change has ended, and its effects are visible to the caller.
//!
//! ```text
//! Worker                                        Thread that changes something
//! W1  count += 1             (read-modify-write)   T1  publish the change        (Release)
//! W2  look at the shared thing   (Acquire)         T2  count += 0                (read-modify-write)
//!     ... work ...                                 T3  while count > 0: wait     (Acquire)
//! W3  count -= 1             (Release)
//! ```
//!
//! # Why no work is missed
//! W1 and T2 are read-modify-writes of one word, so one of them comes first in the word's order of changes.
//! - W1 first: T2 finds the worker counted in, and T3 waits until W3, which releases all that the work has done.
//! - T2 first: W1 reads what T2 wrote, or what later read-modify-writes made of it, which all belong to the release
//!   sequence that T2 heads. So T2 synchronizes with W1, and W2 sees the change.
//!
//! A plain load at T2 would not do, not even a sequentially consistent one: T2 could read the count of before W1 while W2
//! reads the list of before T1 (store buffering), unless a sequentially consistent fence stood between W1 and W2. That
//! fence would be paid for by every commit; T2 is paid for by definitions, which are rare.
//!
//! # Not here
//! Work that begins while T3 waits has seen the change, but T3 waits for it too if it overlaps with present work of the
//! same worker.

use crate::primitive::{AtomicU64, Backoff, Ordering, ProofStep, weakened};

/// Counts the work of one worker that is under way.
pub struct UnderWay(AtomicU64);

impl Default for UnderWay {
    fn default() -> UnderWay {
        UnderWay(AtomicU64::new(0))
    }
}

impl UnderWay {
    /// W1. Sequentially consistent, because other protocols lean on it too.
    #[inline]
    pub fn begin(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// W3.
    #[inline]
    pub fn end(&self) {
        self.0.fetch_sub(1, Ordering::Release);
    }

    /// T2 and T3: returns when all work is over that began before the call.
    pub fn wait_for_present(&self) {
        let mut count = match weakened(ProofStep::WaitModifies) {
            false => self.0.fetch_add(0, Ordering::SeqCst),
            true => self.0.load(Ordering::SeqCst),
        };
        let backoff = Backoff::new();
        while count > 0 {
            backoff.snooze();
            count = self.0.load(Ordering::Acquire);
        }
    }
}
