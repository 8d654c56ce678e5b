//! Visiting entries in order.
//!
//! A scan goes from cut to cut. Each round copies some entries behind the cut out of one leaf, validates
//! them as one state of that leaf, unpins its guard, and only then visits them. The next cut is behind the last
//! copied entry or, if the leaf has no more, at the leaf's *fence*: the separator next to the path
//! of the descent. There are no links between leaves.
//!
//! Why nothing stable is missed or seen twice: cuts only move forward. A fence is noted before the leaf
//! is; from then on, the range of the leaf or of an ancestor may only grow (a split of any of them fails the
//! validation), so the leaf holds everything between cut and fence. Having grown, it may hold entries
//! behind the fence, too; then the next cut is behind the last of them instead.

use crate::Direction;
use crate::entry::{Probe, Side, Slot};
use crate::latch::Restart;
use crate::node::Node;
use crate::tree::{Tree, load_fence, retry};
use crossbeam_epoch::{self as epoch, Guard};
use std::ops::{Bound, ControlFlow};

/// Entries copied in the first round of a scan, which often wants only one, and in later ones.
const FIRST_BATCH: usize = 16;
const BATCH: usize = 128;

/// A cut between entries, with its own copy of the key.
struct Cut {
    key: Vec<u8>,
    row: u64,
    side: Side,
}

impl Cut {
    fn probe(&self) -> Probe<'_> {
        Probe::new(&self.key, self.row)
    }
}

/// Entries copied out of a leaf, and where to go on.
struct Batch {
    slots: Vec<Slot>,
    /// The tails of the slots that have one, in the order of the slots, each with its length.
    tails: Vec<u8>,
    tail_lengths: Vec<usize>,
    /// `None` if there is nothing behind these entries.
    next: Option<Cut>,
}

/// The range of a scan as two cuts.
struct Range<'k> {
    lower: (Probe<'k>, Side),
    upper: (Probe<'k>, Side),
}

impl Tree {
    pub(crate) fn scan(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        direction: Direction,
        mut visit: impl FnMut(&[u8], u64) -> ControlFlow<()>,
    ) {
        if is_empty(lower, upper) {
            return;
        }
        let range = Range {
            lower: match lower {
                Bound::Included(key) => (Probe::new(key, 0), Side::Before),
                Bound::Excluded(key) => (Probe::new(key, u64::MAX), Side::After),
                Bound::Unbounded => (Probe::new(&[], 0), Side::Before),
            },
            upper: match upper {
                Bound::Included(key) => (Probe::new(key, u64::MAX), Side::After),
                Bound::Excluded(key) => (Probe::new(key, 0), Side::Before),
                Bound::Unbounded => (Probe::end(), Side::After),
            },
        };
        let mut batch = Batch {
            slots: Vec::with_capacity(FIRST_BATCH),
            tails: Vec::new(),
            tail_lengths: Vec::new(),
            next: None,
        };
        let mut limit = FIRST_BATCH;
        let start = if direction == Direction::Forward { range.lower } else { range.upper };
        self.copy(&mut batch, start, &range, direction, limit);
        loop {
            if batch.visit(&mut visit).is_break() {
                return;
            }
            let Some(cut) = batch.next.take() else {
                return;
            };
            limit = BATCH;
            self.copy(&mut batch, (cut.probe(), cut.side), &range, direction, limit);
        }
    }

    /// One round: fills the batch with entries behind the cut.
    fn copy(&self, batch: &mut Batch, cut: (Probe, Side), range: &Range, direction: Direction, limit: usize) {
        let guard = &epoch::pin();
        retry(|| match direction {
            Direction::Forward => self.try_copy_forward(batch, cut, range.upper, limit, guard),
            Direction::Backward => self.try_copy_backward(batch, cut, range.lower, limit, guard),
        });
    }

    fn try_copy_forward(
        &self,
        batch: &mut Batch,
        (from, side): (Probe, Side),
        (stop, stop_side): (Probe, Side),
        limit: usize,
        guard: &Guard,
    ) -> Result<(), Restart> {
        let mut fence = None;
        // A cut that is exactly at a separator belongs to the leaf behind it.
        let (leaf, version) = self.descend(&from, Side::After, guard, |step| {
            if step.index + 1 < step.count {
                fence = Some((step.node, step.version, step.index + 1));
            }
            Ok(())
        })?;
        let count = leaf.count();
        let start = leaf.rank(0, count, &from, side, version, guard)?;
        let end = leaf.rank(start, count, &stop, stop_side, version, guard)?;
        let copied_end = end.min(start + limit);
        batch.load(leaf, start..copied_end);
        leaf.validate(version)?;
        let fence = load_fence(fence)?;
        batch.copy_tails(guard);
        let last = batch.slots.last();
        batch.next = if copied_end < end {
            last.map(|last| after(last, guard))
        } else if end < count {
            None
        } else {
            fence.map(|fence| match last {
                Some(last) if last.compare(&fence.probe(guard), guard).is_ge() => after(last, guard),
                _ => before(&fence, guard),
            })
        };
        Ok(())
    }

    fn try_copy_backward(
        &self,
        batch: &mut Batch,
        (from, side): (Probe, Side),
        (stop, stop_side): (Probe, Side),
        limit: usize,
        guard: &Guard,
    ) -> Result<(), Restart> {
        let mut fence = None;
        // A cut right before a separator belongs to the leaf before it.
        let (leaf, version) = self.descend(&from, side, guard, |step| {
            if step.index > 0 {
                fence = Some((step.node, step.version, step.index));
            }
            Ok(())
        })?;
        let count = leaf.count();
        let end = leaf.rank(0, count, &from, side, version, guard)?;
        let start = leaf.rank(0, end, &stop, stop_side, version, guard)?;
        let copied_start = start.max(end.saturating_sub(limit));
        batch.load(leaf, (copied_start..end).rev());
        leaf.validate(version)?;
        let fence = load_fence(fence)?;
        batch.copy_tails(guard);
        let last = batch.slots.last();
        batch.next = if copied_start > start {
            last.map(|last| before(last, guard))
        } else if start > 0 {
            None
        } else {
            fence.map(|fence| match last {
                Some(last) if last.compare(&fence.probe(guard), guard).is_lt() => before(last, guard),
                _ => before(&fence, guard),
            })
        };
        Ok(())
    }
}

impl Batch {
    /// Loads slots; to be validated.
    fn load(&mut self, leaf: &Node, indexes: impl Iterator<Item = usize>) {
        self.slots.clear();
        self.slots.extend(indexes.map(|index| leaf.slot(index)));
    }

    fn copy_tails(&mut self, guard: &Guard) {
        self.tails.clear();
        self.tail_lengths.clear();
        for slot in self.slots.iter().filter(|slot| slot.has_tail()) {
            let tail = slot.tail(guard);
            self.tails.extend_from_slice(tail);
            self.tail_lengths.push(tail.len());
        }
    }

    fn visit(&self, mut visit: impl FnMut(&[u8], u64) -> ControlFlow<()>) -> ControlFlow<()> {
        let mut tails = self.tails.as_slice();
        let mut tail_lengths = self.tail_lengths.iter();
        let mut key = Vec::new();
        for slot in &self.slots {
            let (inline, length) = slot.inline();
            if slot.has_tail() {
                let tail;
                let length = tail_lengths.next().expect("each tail was copied");
                (tail, tails) = tails.split_at(*length);
                key.clear();
                key.extend_from_slice(&inline);
                key.extend_from_slice(tail);
                visit(&key, slot.row)?;
            } else {
                visit(&inline[..length], slot.row)?;
            }
        }
        ControlFlow::Continue(())
    }
}

fn after(slot: &Slot, guard: &Guard) -> Cut {
    Cut { key: slot.key(guard), row: slot.row, side: Side::After }
}

fn before(slot: &Slot, guard: &Guard) -> Cut {
    Cut { key: slot.key(guard), row: slot.row, side: Side::Before }
}

/// Whether no key can be in the range.
fn is_empty(lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> bool {
    match (lower, upper) {
        (Bound::Included(lower), Bound::Included(upper)) => lower > upper,
        (
            Bound::Included(lower) | Bound::Excluded(lower),
            Bound::Included(upper) | Bound::Excluded(upper),
        ) => lower >= upper,
        _ => false,
    }
}
