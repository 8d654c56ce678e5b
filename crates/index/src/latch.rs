//! The version latch of a node: optimistic for readers, exclusive for writers.
//!
//! One word: a version in the upper bits, LOCKED and OBSOLETE in the lower two.
//!
//! ```text
//!            lock(v)                        drop
//!   free v ──────────► locked, version v ──────────► free v + 1
//!                            │ retire, then drop
//!                            └───────────────────────► obsolete v + 1   (for ever)
//! ```
//!
//! - A reader notes the version ([`Latch::read`]), loads what it needs with relaxed atomic loads, and checks
//!   whether the version is still the same ([`Latch::validate`]). If so, everything loaded in between is one
//!   state of the node; if not, it throws it all away and starts again. It writes no shared memory.
//! - A writer turns the version that it has read under into the lock ([`Latch::lock`]): success means that
//!   nothing has changed since. No writer waits for a lock that it did not get, so there are no deadlocks,
//!   whatever the order of locking.
//! - An obsolete node is no longer part of the tree. No one can read or lock it any more.
//!
//! Why a reader cannot miss a writer: a writer's stores come after a release fence that follows the lock;
//! a reader's loads come before an acquire fence that precedes the second look at the version. A load
//! that saw such a store therefore orders the lock before that second look, which then differs.

use std::sync::atomic::{AtomicU64, Ordering, fence};

const OBSOLETE: u64 = 1;
const LOCKED: u64 = 2;
const ONE_VERSION: u64 = 4;

/// Looks at a locked latch before giving up: a writer needs about this long.
const SPINS: u32 = 64;

/// What was read is not (or no longer) valid: begin again at the root.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Restart;

/// A version at which a node was free.
pub(crate) type NodeVersion = u64;

/// See the module's header. All zeros is a free latch.
pub(crate) struct Latch(AtomicU64);

impl Latch {
    /// Begins to read. Fails if the node stays locked or is obsolete.
    #[inline]
    pub(crate) fn read(&self) -> Result<NodeVersion, Restart> {
        let version = self.0.load(Ordering::Acquire);
        if version & (LOCKED | OBSOLETE) == 0 { Ok(version) } else { self.read_slowly() }
    }

    #[cold]
    fn read_slowly(&self) -> Result<NodeVersion, Restart> {
        for _ in 0..SPINS {
            let version = self.0.load(Ordering::Acquire);
            if version & (LOCKED | OBSOLETE) == 0 {
                return Ok(version);
            }
            std::hint::spin_loop();
        }
        Err(Restart)
    }

    /// Whether everything that was loaded since `version` was read is one state of the node.
    #[inline]
    pub(crate) fn validate(&self, version: NodeVersion) -> Result<(), Restart> {
        fence(Ordering::Acquire);
        if self.0.load(Ordering::Relaxed) == version { Ok(()) } else { Err(Restart) }
    }

    /// Locks, if nothing has changed since `version` was read.
    #[inline]
    pub(crate) fn lock(&self, version: NodeVersion) -> Result<Locked<'_>, Restart> {
        let locked = version | LOCKED;
        match self.0.compare_exchange(version, locked, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => {
                fence(Ordering::Release);
                Ok(Locked { latch: self, then: version + ONE_VERSION })
            }
            Err(_) => Err(Restart),
        }
    }
}

/// The exclusive right to change a node, until dropped.
pub(crate) struct Locked<'n> {
    latch: &'n Latch,
    then: u64,
}

impl Locked<'_> {
    /// Makes the node obsolete when the lock is dropped.
    pub(crate) fn retire(&mut self) {
        self.then |= OBSOLETE;
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        self.latch.0.store(self.then, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_invalidates_readers_and_a_retired_node_stays_so() {
        let latch = Latch(AtomicU64::new(0));
        let version = latch.read().unwrap();
        let mut locked = latch.lock(version).unwrap();
        assert!(latch.validate(version).is_err() && latch.read().is_err() && latch.lock(version).is_err());
        drop(locked);
        assert!(latch.validate(version).is_err() && latch.lock(version).is_err());
        let version = latch.read().unwrap();
        assert!(latch.validate(version).is_ok());
        locked = latch.lock(version).unwrap();
        locked.retire();
        drop(locked);
        assert!(latch.read().is_err());
    }
}
