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
//!
//! # Dead entries
//! Where entries are inserted at one end and removed at the other, as those of a queue, a scan may meet thousands of entries
//! whose rows have been deleted, but are still visible to some old reader. To check each of them again and again would make a
//! queue slow as long as that reader is open. So a scan that has met many in a row has the leaf [marked](Tree::mark_dead) from
//! a stamp on, and scans at that stamp or later leave the leaf out. The mark is set as a unique entry is inserted: the rows are
//! copied and validated, the caller's closure is called for them with nothing locked, and the version that they were read under
//! becomes the lock. So the answers are about all entries of the leaf; an entry that comes later takes the mark away.
//!
//! A thread keeps the memory of its last scan for the next one; a scan inside of another one has its own.

use crate::Direction;
use crate::entry::{NodeSlot, Probe, Side};
use crate::latch::Restart;
use crate::node::Node;
use crate::tree::{Tree, load_fence, retry};
use crossbeam_epoch::{self as epoch, Guard};
use std::cell::Cell;
use std::ops::{Bound, ControlFlow};

/// Entries copied in the first round of a scan, which often wants only one, and at most; each round copies more than
/// the one before.
const FIRST_BATCH: usize = 16;
const BATCH: usize = 128;
const BATCH_GROWTH: usize = 8;

/// Bytes of tails for which memory is kept for the next scan, at most.
const TAILS_KEPT: usize = 1 << 16;

thread_local! {
    static SPARE: Cell<Option<Box<Batch>>> = const { Cell::new(None) };
}

/// A cut between entries, with its own copy of the key.
#[derive(Default)]
struct Cut {
    key: Vec<u8>,
    row: u64,
    side: Side,
}

impl Cut {
    fn probe(&self) -> Probe<'_> {
        Probe::new(&self.key, self.row)
    }

    /// Puts the cut next to an entry.
    fn set(&mut self, slot: &NodeSlot, side: Side, guard: &Guard) {
        let (bytes, length) = slot.inline();
        self.key.clear();
        self.key.extend_from_slice(&bytes[..length]);
        self.key.extend_from_slice(slot.tail(guard));
        (self.row, self.side) = (slot.row, side);
    }
}

/// Entries copied out of a leaf, and where to go on.
#[derive(Default)]
struct Batch {
    slots: Vec<NodeSlot>,
    /// The tails of the slots that have one, in the order of the slots, each with its length.
    tails: Vec<u8>,
    tail_lengths: Vec<usize>,
    /// Where to go on, unless there is nothing behind these entries.
    next: Cut,
    has_next: bool,
    /// Memory for the cut of the round before.
    cut: Cut,
    /// A visited key with a tail.
    key: Vec<u8>,
}

/// The range of a scan as two cuts.
struct Range<'k> {
    lower: (Probe<'k>, Side),
    upper: (Probe<'k>, Side),
    /// Leaves that are dead at this stamp are left out.
    since: u64,
}

impl Tree {
    pub(crate) fn scan(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        direction: Direction,
        visit: impl FnMut(&[u8], u64) -> ControlFlow<()>,
    ) {
        self.scan_since(lower, upper, direction, 0, visit);
    }

    pub(crate) fn scan_since(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        direction: Direction,
        since: u64,
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
            since,
        };
        let start = if direction == Direction::Forward { range.lower } else { range.upper };
        let mut limit = FIRST_BATCH;
        let mut batch = SPARE.try_with(Cell::take).ok().flatten().unwrap_or_default();
        let mut cut = std::mem::take(&mut batch.cut);
        self.copy(&mut batch, start, &range, direction, limit);
        while batch.visit(&mut visit).is_continue() && batch.has_next {
            // The two cuts take turns, so that their memory is used again.
            std::mem::swap(&mut cut, &mut batch.next);
            limit = (limit * BATCH_GROWTH).min(BATCH);
            self.copy(&mut batch, (cut.probe(), cut.side), &range, direction, limit);
        }
        batch.cut = cut;
        if batch.tails.capacity() <= TAILS_KEPT {
            // At the end of a thread there may be no next scan.
            let _ = SPARE.try_with(|spare| spare.set(Some(batch)));
        }
    }

    /// Marks the leaf in whose range an entry lies, if `dead_from` knows a stamp for each row in it; the mark is the
    /// latest of them. False if not, or if the leaf has changed meanwhile.
    pub(crate) fn mark_dead(
        &self,
        key: &[u8],
        row: u64,
        mut dead_from: impl FnMut(u64) -> Option<u64>,
    ) -> bool {
        let probe = Probe::new(key, row);
        let guard = &epoch::pin();
        let mut attempt = || {
            let (leaf, version) = self.descend(&probe, Side::After, guard, |_| Ok(()))?;
            let is_marked = leaf.is_dead(u64::MAX);
            let rows: Vec<u64> = (0..leaf.count()).map(|index| leaf.row(index)).collect();
            leaf.validate(version)?;
            if is_marked || rows.is_empty() {
                return Ok(is_marked);
            }
            let stamps: Option<Vec<u64>> = rows.into_iter().map(&mut dead_from).collect();
            let Some(from) = stamps.and_then(|stamps| stamps.into_iter().max()) else { return Ok(false) };
            let _locked = leaf.lock(version)?;
            leaf.set_dead(from);
            Ok(true)
        };
        // Not worth a second attempt: another thread is changing this leaf.
        let marked: Result<bool, Restart> = attempt();
        marked.unwrap_or(false)
    }

    /// One round: fills the batch with entries behind the cut.
    fn copy(&self, batch: &mut Batch, cut: (Probe, Side), range: &Range, direction: Direction, limit: usize) {
        let guard = &epoch::pin();
        retry(|| match direction {
            Direction::Forward => self.try_copy_forward(batch, cut, range, limit, guard),
            Direction::Backward => self.try_copy_backward(batch, cut, range, limit, guard),
        });
    }

    fn try_copy_forward(
        &self,
        batch: &mut Batch,
        (from, side): (Probe, Side),
        range: &Range,
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
        let (stop, stop_side) = range.upper;
        let mut start = leaf.rank(0, count, &from, side, version, guard)?;
        let end = leaf.rank(start, count, &stop, stop_side, version, guard)?;
        if leaf.is_dead(range.since) {
            start = end;
        }
        let copied_end = end.min(start + limit);
        batch.load(leaf, start..copied_end);
        leaf.validate(version)?;
        let fence = load_fence(fence)?;
        batch.copy_tails(guard);
        let last = batch.slots.last();
        batch.has_next = copied_end < end || (end == count && fence.is_some());
        match (last, fence) {
            _ if !batch.has_next => {}
            (Some(last), _) if copied_end < end => batch.next.set(last, Side::After, guard),
            (Some(last), Some(fence)) if last.compare(&fence.probe(guard), guard).is_ge() => {
                batch.next.set(last, Side::After, guard);
            }
            (_, Some(fence)) => batch.next.set(&fence, Side::Before, guard),
            (_, None) => batch.has_next = false,
        }
        Ok(())
    }

    fn try_copy_backward(
        &self,
        batch: &mut Batch,
        (from, side): (Probe, Side),
        range: &Range,
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
        let (stop, stop_side) = range.lower;
        let mut end = leaf.rank(0, count, &from, side, version, guard)?;
        let start = leaf.rank(0, end, &stop, stop_side, version, guard)?;
        if leaf.is_dead(range.since) {
            end = start;
        }
        let copied_start = start.max(end.saturating_sub(limit));
        batch.load(leaf, (copied_start..end).rev());
        leaf.validate(version)?;
        let fence = load_fence(fence)?;
        batch.copy_tails(guard);
        let last = batch.slots.last();
        batch.has_next = copied_start > start || (start == 0 && fence.is_some());
        match (last, fence) {
            _ if !batch.has_next => {}
            (Some(last), _) if copied_start > start => batch.next.set(last, Side::Before, guard),
            (Some(last), Some(fence)) if last.compare(&fence.probe(guard), guard).is_lt() => {
                batch.next.set(last, Side::Before, guard);
            }
            (_, Some(fence)) => batch.next.set(&fence, Side::Before, guard),
            (_, None) => batch.has_next = false,
        }
        Ok(())
    }
}

impl Batch {
    /// Loads slots; to be validated.
    fn load(&mut self, leaf: &Node, indexes: impl Iterator<Item = usize>) {
        self.slots.clear();
        match leaf.width() {
            1 => self.slots.extend(indexes.map(|index| leaf.slot_of_width(index, 1))),
            2 => self.slots.extend(indexes.map(|index| leaf.slot_of_width(index, 2))),
            _ => self.slots.extend(indexes.map(|index| leaf.slot(index))),
        }
    }

    fn copy_tails(&mut self, guard: &Guard) {
        self.tails.clear();
        self.tail_lengths.clear();
        if !self.slots.iter().any(NodeSlot::has_tail) {
            return;
        }
        for slot in self.slots.iter().filter(|slot| slot.has_tail()) {
            let tail = slot.tail(guard);
            self.tails.extend_from_slice(tail);
            self.tail_lengths.push(tail.len());
        }
    }

    fn visit(&mut self, mut visit: impl FnMut(&[u8], u64) -> ControlFlow<()>) -> ControlFlow<()> {
        let mut tails = self.tails.as_slice();
        let mut tail_lengths = self.tail_lengths.iter();
        let key = &mut self.key;
        for slot in &self.slots {
            let (inline, length) = slot.inline();
            if slot.has_tail() {
                let tail;
                let length = tail_lengths.next().expect("each tail was copied");
                (tail, tails) = tails.split_at(*length);
                key.clear();
                key.extend_from_slice(&inline);
                key.extend_from_slice(tail);
                visit(key, slot.row)?;
            } else {
                visit(&inline[..length], slot.row)?;
            }
        }
        ControlFlow::Continue(())
    }
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
