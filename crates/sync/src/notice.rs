//! Notices: whether it is worth looking for something in a large set.
//!
//! # Idea
//! Many threads add to a set, and one looks for what they have added, again and again, mostly in vain. The set is large, and to see
//! that it is empty costs a look at all of it. So a word beside it says that something *may* be there.
//!
//! ```text
//! Thread that adds                                   Thread that looks
//! A1  add                    (read-modify-write)        L1  no notice: done           (Relaxed)
//! A2  if the part of the set was empty:                 L2  take the notice away      (read-modify-write, Acquire)
//!     post a notice          (Release)                  L3  look through the set
//!                                                       L4  post it again, if there is something
//! ```
//!
//! # Why nothing is missed for ever
//! Once nobody is between A1 and A2, or L2 and L4, there is a notice or the set is empty. Take a part that something was added to last while it
//! was empty, and the thread that did. Its A2 and any L2 change one word, so one of them comes first in the word's order of changes.
//! - A2 first: the L2 behind it reads what A2 wrote, or what an earlier L2 left of it; the first to take it away synchronizes with A2. So
//!   L3 sees what was added, unless somebody has taken it out since, and L4 posts the notice again.
//! - L2 first: A2's notice is still there.
//!
//! That something is overlooked for a moment, between A1 and A2, is the price: for who adds to a part that is not empty, nothing is paid at all.
//!
//! # Not here
//! The set. Two threads that look at the same time: the second one finds no notice while the first one looks.

use crate::primitive::{AtomicU64, Ordering, ProofStep, weakened};

/// Says that there may be something in a set.
pub struct Notice(AtomicU64);

impl Default for Notice {
    fn default() -> Notice {
        Notice(AtomicU64::new(0))
    }
}

impl Notice {
    /// A2: something was added to an empty part of the set.
    #[inline]
    pub fn post(&self) {
        self.0.store(1, Ordering::Release);
    }

    /// L1 to L4: whether there is something in the set, which is looked through only if there is a notice. For one thread at a time. Costs a
    /// load where there is none.
    #[inline]
    pub fn look(&self, has_any: impl FnOnce() -> bool) -> bool {
        if self.0.load(Ordering::Relaxed) == 0 {
            return false;
        }
        if weakened(ProofStep::NoticeGoesFirst) {
            let found = has_any();
            self.0.store(u64::from(found), Ordering::Release);
            return found;
        }
        let order = if weakened(ProofStep::NoticeAcquires) { Ordering::Relaxed } else { Ordering::Acquire };
        self.0.swap(0, order);
        let found = has_any();
        if found {
            self.0.store(1, Ordering::Relaxed);
        }
        found
    }
}
