//! Records of commits, given up before the ring needs their places.
//!
//! The ring keeps the records of the last 16,384 commits. Those of small transactions are some hundred bytes; one of a
//! million rows has a hundred megabytes, and might stay for hours where nobody else commits. Who begins after a commit never
//! looks at its record. So large ones are listed here, oldest first, and once everybody reads at their timestamps or later, an
//! empty record takes their place. Where memory is short, all others go as well.

use crate::record::CommitRecord;
use ankerdb_base::Timestamp;
use ankerdb_sync::commit_order::CommitOrder;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// Up to so many bytes a record stays in the ring while there is memory: 64 MiB for all of them.
const SMALL_BYTES: usize = 4 << 10;

#[derive(Default)]
pub(crate) struct OldRecords {
    known: Mutex<Known>,
    empty: Arc<CommitRecord>,
}

#[derive(Default)]
struct Known {
    /// Large commits whose records are in the ring, about in their order.
    large: VecDeque<Timestamp>,
    /// Up to here all records are given up.
    gone: Timestamp,
}

impl OldRecords {
    /// Notes a commit, if its record is large.
    #[inline]
    pub fn note(&self, record: &CommitRecord, commit: Timestamp) {
        if record.memory_bytes() > SMALL_BYTES {
            self.known.lock().large.push_back(commit);
        }
    }

    /// Gives up large records that nobody needs who reads at `horizon` or later. Costs little if there are none.
    pub fn forget_large(&self, order: &CommitOrder<CommitRecord>, horizon: Timestamp) {
        let mut known = self.known.lock();
        while known.large.front().is_some_and(|commit| *commit <= horizon) {
            known.large.pop_front().into_iter().for_each(|commit| self.forget(order, commit));
        }
    }

    /// Gives up all records, of the last `kept`, that nobody needs who reads at `horizon` or later.
    pub fn forget_all(&self, order: &CommitOrder<CommitRecord>, horizon: Timestamp, kept: usize) {
        let mut known = self.known.lock();
        let first = known.gone.0.max(horizon.0.saturating_sub(kept as u64)) + 1;
        (first..=horizon.0).for_each(|commit| self.forget(order, Timestamp(commit)));
        known.gone = horizon.max(known.gone);
    }

    fn forget(&self, order: &CommitOrder<CommitRecord>, commit: Timestamp) {
        let pin = crossbeam_epoch::pin();
        // SAFETY: inside a pin; records are dropped through the epoch only.
        unsafe { order.forget(commit, self.empty.clone(), |former| pin.defer(move || drop(former))) };
    }
}
