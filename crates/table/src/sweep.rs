//! Sweeping: freeing the versions that no reader needs, of rows that are not being written. For the background thread,
//! and for transactions that delete more than it keeps up with.

use crate::header::Header;
use crate::owned::OwnedRow;
use crate::storage::Storage;
use ankerdb_base::{RowId, Timestamp};
use crossbeam_epoch::Guard;

impl Storage {
    /// Frees what no reader needs: versions, index entries of deleted rows and former keys, slots. `horizon` is
    /// the oldest timestamp that a reader reads at. Cheap for blocks where nothing can have changed since the
    /// last call.
    ///
    /// Returns whether there was anything to look at. One sweep at a time; others wait.
    pub fn sweep(&self, horizon: Timestamp, pin: &Guard) -> bool {
        let _one = self.sweeping.lock();
        self.forget_deletions();
        let mut found = false;
        for (number, block) in self.numbered_blocks() {
            if !block.has_dirty() {
                continue;
            }
            // Garbage in string heaps belongs to no version: it need not wait for readers.
            block.rebuild_heaps(pin);
            found = true;
            if !block.wants_sweep(horizon) {
                continue;
            }
            let mut freed = Vec::new();
            block.sweep(horizon, pin, |offset, exists| {
                let row = RowId::new(number, offset);
                self.remove_stale_entries(row, exists, pin);
                // A row that was never installed has no timestamp: its slot is free already, as is a buried one's.
                if !exists && block.header(offset).timestamp() > Timestamp::ZERO && block.set_free(offset) {
                    freed.push(row);
                }
            });
            if !freed.is_empty() {
                self.add_free_slots(number, freed);
            }
        }
        found
    }

    /// Prunes the rows whose newest change came after `after` and not after `up_to`: versions that no reader needs are
    /// removed, `in_use` being the timestamps of readers (as in `VersionChain::prune`). For
    /// what a [`sweep`](Self::sweep) leaves behind while an old reader holds up its horizon. Costs a look at every dirty
    /// row of the blocks that have changed after `after`.
    pub fn prune_interval(&self, after: Timestamp, up_to: Timestamp, in_use: &[Timestamp]) {
        for (number, block) in self.numbered_blocks() {
            // In this order: most blocks have not changed since, which is a load or two.
            if block.last_change() <= after || block.dirty().is_empty() {
                continue;
            }
            // A pin a block, so that what is retired meanwhile can be freed soon.
            let pin = crossbeam_epoch::pin();
            let mut found = false;
            for offset in block.dirty().rows() {
                let changed = block.header(offset).timestamp();
                if changed <= after || changed > up_to || block.chain(offset).is_empty() {
                    continue;
                }
                // The owner of the row is about to write to it, and prunes it then.
                let Some(row) = self.try_own_for_sweep(RowId::new(number, offset)) else { continue };
                row.prune(std::iter::empty(), in_use, &pin);
                found = true;
            }
            if found {
                pin.flush();
            }
        }
    }

    /// Frees the slots and index entries of deleted rows that no reader can see in any state, though there may be readers
    /// from before their deletion: those that began before the row was inserted, or before all states that pruning has
    /// left. For what a [`sweep`](Self::sweep) leaves behind while an old reader is open, such as the rows of a queue.
    /// Looks at rows deleted after `after` and not after `up_to`; `in_use` are the timestamps of readers, `anchored` is
    /// where everything has to stay from (both of [`ActiveReaders`](ankerdb_sync::readers::ActiveReaders)). Returns how
    /// many rows it has freed. Costs a look at every dirty row of the blocks that have lost rows after `after`.
    pub fn bury(
        &self,
        after: Timestamp,
        up_to: Timestamp,
        in_use: &[Timestamp],
        anchored: Timestamp,
    ) -> usize {
        let watermark = in_use.last().copied().unwrap_or(Timestamp::ZERO);
        let up_to = up_to.min(watermark).min(anchored);
        let mut count = 0;
        for (number, block) in self.numbered_blocks() {
            // In this order: most blocks have lost nothing since, which is one load.
            if block.last_deletion() <= after || block.dirty().is_empty() {
                continue;
            }
            // A pin a block, so that what is retired meanwhile can be freed soon.
            let pin = crossbeam_epoch::pin();
            let is_wanted = |header: Header| {
                !header.exists() && header.timestamp() > after && header.timestamp() <= up_to
            };
            let mut freed = Vec::new();
            for offset in block.dirty().rows() {
                let row = RowId::new(number, offset);
                if is_wanted(block.header(offset))
                    && !block.is_free(offset)
                    && let Some(row) = self.try_own_for_sweep(row)
                    && is_wanted(row.header())
                    && self.bury_row(&row, in_use, &pin)
                {
                    freed.push(row.id());
                }
            }
            if !freed.is_empty() {
                count += freed.len();
                self.add_free_slots(number, freed);
                pin.flush();
            }
        }
        count
    }

    /// Whether the slot of a deleted row can be reused, because it has not been yet and no reader can see any of the row's
    /// states; then its entries and versions are gone now. It stays dirty as long as there are readers from before it was
    /// inserted: one of them may have copied bits of the row while it existed, and has to look at the header.
    fn bury_row(&self, row: &OwnedRow<'_>, in_use: &[Timestamp], pin: &Guard) -> bool {
        let (block, offset) = (self.block(row.id().block()), row.id().offset());
        if block.is_free(offset) || !block.dirty().is_set(offset) {
            return false;
        }
        row.prune(std::iter::empty(), in_use, pin);
        let is_invisible = block.chain(offset).is_empty();
        if is_invisible {
            self.remove_stale_entries(row.id(), false, pin);
            block.set_free(offset);
        }
        is_invisible
    }

    /// One pass of a collector, for databases in which writers do not prune: a [`sweep`](Self::sweep), and the chains of
    /// rows that have changed since `horizon` are cut behind the version that a reader at `horizon` sees.
    pub fn collect(&self, horizon: Timestamp, pin: &Guard) {
        for (number, block) in self.numbered_blocks() {
            for offset in block.dirty().rows() {
                if block.header(offset).timestamp() <= horizon || block.chain(offset).is_empty() {
                    continue;
                }
                // A row in use is collected by the next pass.
                let Some(row) = self.try_own_for_sweep(RowId::new(number, offset)) else { continue };
                row.prune(std::iter::empty(), &[horizon], pin);
            }
        }
        self.sweep(horizon, pin);
    }
}
