//! The pool that DataFusion's operators ask for memory: a share for all queries together, and the database's limit.
//!
//! An operator asks before, or soon after, it takes memory for a hash table, a sort or a buffer. What it takes is in the
//! account of the process already, by the allocator, so the pool reserves nothing there: it checks whether the account may grow
//! by so much. An operator that is refused may write to temporary files; else its query ends with 53200.

use ankerdb_engine::{Claim, MemoryLimit};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{self, MemoryConsumer, MemoryPool, MemoryReservation};
use std::fmt;

/// A pool under the limit of a database.
#[derive(Debug)]
pub(super) struct LimitedPool<P> {
    share: P,
    limit: MemoryLimit,
}

impl<P: MemoryPool> LimitedPool<P> {
    /// What the other pool grants, the limit permitting.
    pub(super) fn new(share: P, limit: MemoryLimit) -> LimitedPool<P> {
        LimitedPool { share, limit }
    }
}

impl<P: MemoryPool> fmt::Display for LimitedPool<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "limited {}", self.share)
    }
}

impl<P: MemoryPool> MemoryPool for LimitedPool<P> {
    fn name(&self) -> &str {
        "limited"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.share.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.share.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.share.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.share.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let claim = self.limit.claim_of(reservation.size() + additional, Claim::Rest);
        if let Err(refusal) = self.limit.check(claim, additional) {
            // In this form operators take it as advice to spill.
            let detail = refusal.detail().unwrap_or_default().to_owned();
            return Err(DataFusionError::ResourcesExhausted(detail));
        }
        self.share.try_grow(reservation, additional)
    }

    fn reserved(&self) -> usize {
        self.share.reserved()
    }

    fn memory_limit(&self) -> memory_pool::MemoryLimit {
        self.share.memory_limit()
    }
}
