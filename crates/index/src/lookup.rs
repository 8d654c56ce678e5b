//! All rows of one key, usually in one look at one leaf.
//!
//! A key's entries are neighbours: its *run*. Nearly always the run lies in one leaf and is short. Then its rows are
//! copied, and one validation of the leaf says that they are all rows of that key at one moment. The run ends where
//! another key follows; where the leaf's end comes first, the leaf's *fence* (the separator next to the path of the
//! descent) must have another key. What does not fit into this is left to a scan.

use crate::Direction;
use crate::entry::{Probe, Side};
use crate::latch::Restart;
use crate::node::Node;
use crate::tree::{Fence, Tree, load_fence, retry};
use crossbeam_epoch::{self as epoch, Guard};
use std::ops::{Bound, ControlFlow};

/// Rows of one key that are copied, at most. A longer run is scanned.
pub(crate) const ROWS_COPIED: usize = 8;

/// The rows of a key.
pub(crate) struct CopiedRows {
    rows: [u64; ROWS_COPIED],
    count: usize,
}

impl CopiedRows {
    pub(crate) fn new() -> CopiedRows {
        CopiedRows { rows: [0; ROWS_COPIED], count: 0 }
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[u64] {
        &self.rows[..self.count.min(ROWS_COPIED)]
    }

    /// Copies the rows of a range of a leaf; false if there are too many. To be validated.
    #[inline]
    pub(crate) fn copy(&mut self, leaf: &Node, run: std::ops::Range<usize>) -> bool {
        self.count = run.len();
        for (copy, index) in self.rows.iter_mut().zip(run) {
            *copy = leaf.row(index);
        }
        self.count <= ROWS_COPIED
    }
}

impl Tree {
    #[inline]
    pub(crate) fn get(&self, key: &[u8], mut visit: impl FnMut(u64) -> ControlFlow<()>) {
        let mut rows = CopiedRows::new();
        if self.lookup(key, &mut rows) {
            let _ = rows.as_slice().iter().try_for_each(|&row| visit(row));
        } else {
            let key = Bound::Included(key);
            self.scan(key, key, Direction::Forward, |_, row| visit(row));
        }
    }

    /// Whether any row has the key. Costs one descent, or two if the key would begin a leaf.
    pub(crate) fn has_key(&self, key: &[u8]) -> bool {
        let probe = Probe::new(key, 0);
        let in_leaf = {
            let guard = &epoch::pin();
            retry(|| self.try_find_key(&probe, guard))
        };
        in_leaf.unwrap_or_else(|| {
            let (key, mut found) = (Bound::Included(key), false);
            self.scan(key, key, Direction::Forward, |_, _| {
                found = true;
                ControlFlow::Break(())
            });
            found
        })
    }

    /// Whether the first entry from the probe on has its key; `None` if that entry is in another leaf.
    fn try_find_key(&self, probe: &Probe, guard: &Guard) -> Result<Option<bool>, Restart> {
        let (leaf, version) = self.descend(probe, Side::After, guard, |_| Ok(()))?;
        let count = leaf.count();
        let index = leaf.rank(0, count, probe, Side::Before, version, guard)?;
        let slot = (index < count).then(|| leaf.slot(index));
        leaf.validate(version)?;
        Ok(slot.map(|slot| probe.key_equals(&slot, guard)))
    }

    /// Copies the rows of a key, if they are few and all in one leaf.
    fn lookup(&self, key: &[u8], rows: &mut CopiedRows) -> bool {
        let probe = Probe::new(key, 0);
        let guard = &epoch::pin();
        retry(|| self.try_lookup(&probe, rows, guard))
    }

    #[inline]
    fn try_lookup(&self, probe: &Probe, rows: &mut CopiedRows, guard: &Guard) -> Result<bool, Restart> {
        let mut upper = None;
        let (leaf, version) = self.descend(probe, Side::After, guard, |step| {
            if step.index + 1 < step.count {
                upper = Some((step.node, step.version, step.index + 1));
            }
            Ok(())
        })?;
        let count = leaf.count();
        let run = leaf.run(count, probe, version, guard)?;
        let are_few = rows.copy(leaf, run.clone());
        leaf.validate(version)?;
        Ok(are_few && (run.end < count || ends_before(upper, probe, guard)?))
    }
}

/// Whether all entries of the probe's key are before the fence.
#[cold]
pub(crate) fn ends_before(fence: Fence, probe: &Probe, guard: &Guard) -> Result<bool, Restart> {
    let fence = load_fence(fence)?;
    Ok(fence.is_none_or(|fence| fence.compare(probe, guard).is_gt() && !probe.key_equals(&fence, guard)))
}

/// Whether no entry of the probe's key is before the fence.
#[cold]
pub(crate) fn begins_after(fence: Fence, probe: &Probe, guard: &Guard) -> Result<bool, Restart> {
    let fence = load_fence(fence)?;
    Ok(fence.is_none_or(|fence| fence.compare(&probe.with_row(0), guard).is_le()))
}
