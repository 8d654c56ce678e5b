//! Records of commits, given up before the ring needs their places.
//!
//! The ring keeps the records of the last 16,384 commits. Those of small transactions are some hundred bytes; one of a million
//! rows has a hundred megabytes, and might stay for hours if there are no other commits. A transaction that begins after a
//! commit never looks at its record. So large ones are listed here, oldest first, and once all readers are at their timestamps
//! or later, an empty record takes their place. If memory is short, all others are given up as well.
//!
//! ```text
//! in the ring ──► retired ──► unwanted ──► freed
//!                 an epoch    a list       by the pruner, or where memory is short
//! ```
//!
//! Retired memory is dropped by the thread that happens to collect it. For a large record that would take some ten
//! milliseconds in the middle of another session's commit of one row; so collecting only puts it on a list.

use crate::record::CommitRecord;
use ankerdb_base::Timestamp;
use ankerdb_sync::commit_order::CommitOrder;
use crossbeam_epoch::Guard;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Up to so many bytes a record stays in the ring while there is memory: 64 MiB for all of them.
const SMALL_BYTES: usize = 4 << 10;

#[derive(Default)]
pub(crate) struct OldRecords {
    known: Mutex<Known>,
    empty: Arc<CommitRecord>,
    /// Large records that are no longer looked at.
    unwanted: Arc<Mutex<Vec<Arc<CommitRecord>>>>,
    /// How many large records have been retired and not been freed.
    retired: Arc<AtomicUsize>,
}

#[derive(Default)]
struct Known {
    /// Large commits whose records are in the ring, about in their order.
    large: VecDeque<Timestamp>,
    /// Up to here all records are given up.
    gone: Timestamp,
}

fn is_large(record: &CommitRecord) -> bool {
    record.memory_bytes() > SMALL_BYTES
}

impl OldRecords {
    /// Notes a commit, if its record is large.
    #[inline]
    pub(crate) fn note(&self, record: &CommitRecord, commit: Timestamp) {
        if is_large(record) {
            self.known.lock().large.push_back(commit);
        }
    }

    /// Gives up large records that no reader at `horizon` or later needs. Costs little if there are none.
    pub(crate) fn forget_large(&self, order: &CommitOrder<CommitRecord>, horizon: Timestamp) {
        let mut known = self.known.lock();
        while known.large.front().is_some_and(|commit| *commit <= horizon) {
            known.large.pop_front().into_iter().for_each(|commit| self.forget(order, commit));
        }
    }

    /// Gives up all records, of the last `kept`, that no reader at `horizon` or later needs.
    pub(crate) fn forget_all(&self, order: &CommitOrder<CommitRecord>, horizon: Timestamp, kept: usize) {
        let mut known = self.known.lock();
        let first = known.gone.0.max(horizon.0.saturating_sub(kept as u64)) + 1;
        (first..=horizon.0).for_each(|commit| self.forget(order, Timestamp(commit)));
        known.gone = horizon.max(known.gone);
    }

    fn forget(&self, order: &CommitOrder<CommitRecord>, commit: Timestamp) {
        let pin = crossbeam_epoch::pin();
        // SAFETY: inside a pin; records are dropped through the epoch only.
        unsafe { order.forget(commit, self.empty.clone(), |former| self.retire(former, &pin)) };
    }

    /// Takes a record that has left the ring, and that threads pinned now may still read.
    #[inline]
    pub(crate) fn retire(&self, former: Arc<CommitRecord>, pin: &Guard) {
        if is_large(&former) {
            self.retired.fetch_add(1, Ordering::Relaxed);
            let (unwanted, retired) = (self.unwanted.clone(), self.retired.clone());
            pin.defer(move || {
                let mut unwanted = unwanted.lock();
                if unwanted.try_reserve(1).is_ok() {
                    unwanted.push(former);
                } else {
                    retired.fetch_sub(1, Ordering::Relaxed);
                }
            });
        } else {
            pin.defer(move || drop(former));
        }
    }

    /// Frees the large records that are no longer looked at, and advances the epoch for those that may still be. One load if
    /// there are none.
    pub(crate) fn free_unwanted(&self) {
        if self.retired.load(Ordering::Relaxed) == 0 {
            return;
        }
        crossbeam_epoch::pin().flush();
        let unwanted = std::mem::take(&mut *self.unwanted.lock());
        self.retired.fetch_sub(unwanted.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ankerdb_base::BlockNumber;
    use ankerdb_base::{DatabaseId, RowId, TableId};
    use ankerdb_table::RowChange;
    use std::time::{Duration, Instant};

    fn record(rows: usize) -> Arc<CommitRecord> {
        let mut record = CommitRecord::default();
        record.reserve(rows).unwrap();
        let table = TableId::new(DatabaseId::new(), 1);
        (0..rows)
            .for_each(|row| record.add_write(table, RowId::new(BlockNumber(0), row), RowChange::CameOrWent));
        Arc::new(record)
    }

    /// Whether it is freed by collecting again and again, for much longer than other tests are pinned.
    fn freed_by(collect: impl Fn(), is_freed: impl Fn() -> bool) -> bool {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            collect();
            match is_freed() {
                false if Instant::now() < end => std::thread::yield_now(),
                is_freed => return is_freed,
            }
        }
    }

    #[test]
    fn a_strangers_collection_frees_small_records_and_leaves_large_ones_on_a_list() {
        let records = OldRecords::default();
        let (small, large) = (record(1), record(1_000));
        let is_gone = [Arc::downgrade(&small), Arc::downgrade(&large)];
        let is_gone = |number: usize| is_gone[number].strong_count() == 0;
        let pin = crossbeam_epoch::pin();
        [small, large].into_iter().for_each(|record| records.retire(record, &pin));
        drop(pin);
        let is_collected = || is_gone(0) && !records.unwanted.lock().is_empty();
        assert!(freed_by(|| crossbeam_epoch::pin().flush(), is_collected));
        assert!(!is_gone(1), "a stranger frees a large record");
        records.free_unwanted();
        assert!(is_gone(1) && records.retired.load(Ordering::Relaxed) == 0);
    }

    #[test]
    fn whoever_frees_records_helps_them_on_where_nobody_else_does_anything() {
        let records = OldRecords::default();
        let large = record(1_000);
        let watched = Arc::downgrade(&large);
        records.retire(large, &crossbeam_epoch::pin());
        assert!(freed_by(|| records.free_unwanted(), || watched.strong_count() == 0));
    }
}
