//! The commit order: timestamps, recent write sets, and the watermark.
//!
//! # Idea
//! A transaction that wants to commit *draws* the next timestamp and *publishes* its write set under it.
//! Having done so it can validate: it looks at the write sets of all smaller timestamps that it could not see
//! when it began. It *installs* its writes or aborts, and *finishes*. The **watermark** is the timestamp up
//! to which all commits have finished; a reader that begins at it sees whole transactions only.
//!
//! There is no list behind a mutex (arXiv §5.7 names it as the limit of the original system): the write
//! sets lie in a ring, slot = timestamp mod capacity, and any number of transactions publish, validate and
//! finish at the same time.
//!
//! # State of a slot
//! ```text
//!            begin(t)                    begin(t)                      finish(t)
//! t - cap, finished ──► t, CLOSED ──pointer──► t, PUBLISHED ──┬──► t, INSTALLED
//!                                                             └──► t, ABORTED
//! ```
//! Timestamp and state share one word, `timestamp << 2 | state`, and the word only grows.
//!
//! ```text
//! time ────────────────────────────────────────────────────────────────────►
//! commit 5   draw publish ─────── install ──────────── finish
//! commit 6        draw publish ── validate against 5 ─── install ── finish
//! commit 7           draw publish ─ abort, finish
//! watermark  4 · · · · · · · · · · · · · · · · · · · · 5 · · · · · 7
//! ```
//!
//! # Invariants
//! 1. *The watermark passes only finished timestamps*, one after the other: `watermark: w -> w + 1` is a
//!    compare-exchange by a thread that has seen slot w + 1 finished. It is a release of everything that was
//!    done before that finish, so a thread that loads it sees the installed rows.
//! 2. *No advance is lost.* A finisher marks its slot, then a SeqCst fence, then walks from the watermark
//!    up. Suppose w + 1 is finished and the watermark stays w. Among those who finished 1 ..= w + 1, take
//!    the last to pass its fence: it sees all their marks, so its walk stops only at a larger watermark.
//! 3. *A validator misses no commit.* It draws its own timestamp first. Any smaller one was drawn before, and
//!    the validator waits until its slot is published. No commit waits for one with a larger timestamp, so
//!    the wait ends.
//! 4. *A validator is not fooled by a reused slot.* The slot is closed under the new timestamp before its
//!    pointer changes (Release), and read as: state, pointer (Acquire), state again. A validator that got the
//!    new pointer sees the slot closed or later, and reports [`Visited::TooOld`].
//! 5. *A slot is reused only when the watermark has passed its former owner*; [`CommitOrder::begin`] waits for
//!    that. The former write set is retired, since validators may still be looking at it.
//!
//! 6. *Forgetting removes the intended write set.* A write set that will not be validated against any more may be given
//!    up before its slot is reused, because it is large ([`CommitOrder::forget`]). Read the pointer (Acquire), then the
//!    word: if it still has the timestamp, then the pointer was not that of a later commit, which closes the slot first;
//!    and the compare-exchange fails if a later commit has put its own there meanwhile. Inside a pin no pointer comes
//!    twice. So each write set is retired once, and a later one is never lost.
//!
//! # Not here
//! What a conflict is; what happens to rows. A transaction that gets `TooOld` must abort and try again: it
//! has been running for longer than `capacity` commits.

use std::fmt;
use std::marker::PhantomData;

use ankerdb_base::{Timestamp, failpoint};
use crossbeam_utils::CachePadded;

use crate::patience::Patience;
use crate::primitive::{Arc, AtomicPtr, AtomicU64, Backoff, Ordering, ProofStep, fence, weakened};

/// The pointer is about to change.
const CLOSED: u64 = 0;
/// The write set can be read; the transaction validates or installs.
const PUBLISHED: u64 = 1;
const INSTALLED: u64 = 2;
const ABORTED: u64 = 3;
const STATE_BITS: u32 = 2;

/// How often a thread looks for the watermark before it counts as blocked: some hundred microseconds.
const EAGER_LOOKS: u32 = 64;

fn word(timestamp: u64, state: u64) -> u64 {
    timestamp << STATE_BITS | state
}

fn timestamp_of(word: u64) -> u64 {
    word >> STATE_BITS
}

fn state_of(word: u64) -> u64 {
    word & ((1 << STATE_BITS) - 1)
}

/// A cache line of its own, so that commits with neighbouring timestamps do not slow each other down.
#[repr(align(64))]
struct Slot<W> {
    word: AtomicU64,
    /// A raw reference, or null.
    writes: AtomicPtr<W>,
}

/// Outcome of [`CommitOrder::visit_between`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Visited {
    /// All write sets asked for were visited.
    Clear,
    /// `visit` returned true for the commit with this timestamp.
    Stopped(Timestamp),
    /// The ring no longer holds all the write sets asked for.
    TooOld,
}

/// Timestamps in commit order, the write sets of recent commits, and the watermark. `W` is a write set.
pub struct CommitOrder<W> {
    /// The last timestamp drawn.
    drawn: CachePadded<AtomicU64>,
    watermark: CachePadded<AtomicU64>,
    ring: Box<[Slot<W>]>,
    owns: PhantomData<Arc<W>>,
}

// SAFETY: write sets are shared by reference among threads and dropped on any of them, which is what
// `Arc<W>: Send + Sync` asks of `W`; everything else is atomic.
unsafe impl<W: Send + Sync> Send for CommitOrder<W> {}
// SAFETY: as above.
unsafe impl<W: Send + Sync> Sync for CommitOrder<W> {}

impl<W: Send + Sync> CommitOrder<W> {
    /// Keeps the write sets of the last `capacity` commits, a power of two. More than `capacity` commits
    /// cannot be under way at once. Takes 64 bytes per slot.
    pub fn new(capacity: usize) -> CommitOrder<W> {
        assert!(capacity.is_power_of_two(), "capacity is a power of two");
        let slot = |_| Slot { word: AtomicU64::new(0), writes: AtomicPtr::new(std::ptr::null_mut()) };
        CommitOrder {
            drawn: CachePadded::new(AtomicU64::new(0)),
            watermark: CachePadded::new(AtomicU64::new(0)),
            ring: (0..capacity).map(slot).collect(),
            owns: PhantomData,
        }
    }

    /// Everything up to here has been installed or aborted, and is visible to the caller. One load.
    pub fn watermark(&self) -> Timestamp {
        Timestamp(self.watermark.load(Ordering::Acquire))
    }

    /// The last timestamp drawn so far: some up to it may be under way, or not even published. One load.
    pub fn drawn(&self) -> Timestamp {
        Timestamp(self.drawn.load(Ordering::Acquire))
    }

    /// Goes on behind the commits of an earlier run: the next timestamp drawn is the one after `last`. To be called before the first
    /// commit and the first reader.
    pub fn go_on_behind(&self, last: Timestamp) {
        debug_assert_eq!(self.drawn.load(Ordering::Relaxed), 0, "nothing has been committed yet");
        self.drawn.store(last.0, Ordering::Release);
        self.watermark.store(last.0, Ordering::Release);
    }

    fn slot(&self, timestamp: u64) -> &Slot<W> {
        &self.ring[timestamp as usize & (self.ring.len() - 1)]
    }

    /// Draws the next timestamp and publishes the write set under it. The first one is 1. The caller must
    /// [`finish`](CommitOrder::finish) soon: until then it holds up the watermark.
    ///
    /// `retire` gets the write set that was in the slot before, to drop once all pins of now have ended.
    /// Waits while `capacity` older commits are unfinished.
    pub fn begin(&self, writes: Arc<W>, retire: impl FnOnce(Arc<W>)) -> Timestamp {
        let timestamp = self.drawn.fetch_add(1, Ordering::Relaxed) + 1;
        self.wait_until_visible(Timestamp(timestamp.saturating_sub(self.ring.len() as u64)));
        let slot = self.slot(timestamp);
        // From here on the slot is ours. Release: a thread that sees it closed sees the watermark that let us close
        // it.
        if !weakened(ProofStep::PublishCloses) {
            slot.word.store(word(timestamp, CLOSED), Ordering::Release);
        }
        let former = slot.writes.swap(Arc::into_raw(writes).cast_mut(), Ordering::AcqRel);
        slot.word.store(word(timestamp, PUBLISHED), Ordering::Release);
        if !former.is_null() {
            // SAFETY: the slot's raw reference, which the swap has just taken out.
            retire(unsafe { Arc::from_raw(former.cast_const()) });
        }
        Timestamp(timestamp)
    }

    /// Shows `visit` the write sets with `after < timestamp < before`, oldest first, of commits that are
    /// installed or under way, until it returns true. Those known to have aborted are left out.
    ///
    /// Costs about two loads per timestamp, and a short wait for one that is drawn but not yet published.
    /// `before` must be at most the largest timestamp that the caller knows to be drawn, plus one.
    ///
    /// # Safety
    /// The caller is inside a pin that it took before the call, and what `retire` got in
    /// [`CommitOrder::begin`] is not dropped before such pins have ended.
    pub unsafe fn visit_between(
        &self,
        after: Timestamp,
        before: Timestamp,
        mut visit: impl FnMut(Timestamp, &W) -> bool,
    ) -> Visited {
        debug_assert!(before.0 <= self.drawn.load(Ordering::Relaxed) + 1, "{before} is not drawn yet");
        for timestamp in after.0 + 1..before.0 {
            match self.published(timestamp) {
                Published::Gone => return Visited::TooOld,
                Published::Aborted => {}
                Published::Writes(writes) => {
                    // SAFETY: the slot held this raw reference when it was loaded, so it is retired, if at
                    // all, inside the caller's pin.
                    if visit(Timestamp(timestamp), unsafe { &*writes }) {
                        return Visited::Stopped(Timestamp(timestamp));
                    }
                }
            }
        }
        Visited::Clear
    }

    /// Reads one slot, waiting for it to be published.
    fn published(&self, timestamp: u64) -> Published<W> {
        let slot = self.slot(timestamp);
        let backoff = Backoff::new();
        loop {
            let seen = slot.word.load(Ordering::Acquire);
            if timestamp_of(seen) > timestamp {
                return Published::Gone;
            }
            if seen >= word(timestamp, PUBLISHED) {
                if state_of(seen) == ABORTED {
                    return Published::Aborted;
                }
                let writes = slot.writes.load(Ordering::Acquire);
                let unchanged = timestamp_of(slot.word.load(Ordering::Relaxed)) == timestamp;
                let unchanged = unchanged || weakened(ProofStep::VisitRechecks);
                return if unchanged { Published::Writes(writes) } else { Published::Gone };
            }
            if weakened(ProofStep::VisitWaits) {
                return Published::Aborted;
            }
            backoff.snooze();
        }
    }

    /// Gives up the write set of a finished commit before its slot is needed again: `empty` takes its place. Returns
    /// whether it did; not if the slot is another commit's by now. `retire` as for [`begin`](CommitOrder::begin).
    ///
    /// Nothing may validate against it any more: all readers, and those about to begin, read at `timestamp` or later.
    ///
    /// # Safety
    /// As for [`visit_between`](CommitOrder::visit_between): the caller is inside a pin.
    pub unsafe fn forget(&self, timestamp: Timestamp, empty: Arc<W>, retire: impl FnOnce(Arc<W>)) -> bool {
        let slot = self.slot(timestamp.0);
        let former = slot.writes.load(Ordering::Acquire);
        let seen = slot.word.load(Ordering::Relaxed);
        let is_there = timestamp_of(seen) == timestamp.0 && matches!(state_of(seen), INSTALLED | ABORTED);
        if !is_there && !weakened(ProofStep::ForgetRechecks) {
            return false;
        }
        let empty = Arc::into_raw(empty).cast_mut();
        let replaced = match weakened(ProofStep::ForgetCompares) {
            false => slot.writes.compare_exchange(former, empty, Ordering::AcqRel, Ordering::Relaxed),
            true => Ok(slot.writes.swap(empty, Ordering::AcqRel)),
        };
        let (out, is_forgotten) = match replaced {
            Ok(former) => (former, true),
            Err(_) => (empty, false),
        };
        // SAFETY: the slot's raw reference, which the exchange has taken out, or that of the other one, which has not come in.
        retire(unsafe { Arc::from_raw(out.cast_const()) });
        is_forgotten
    }

    /// Ends a commit: its writes are installed, or it has aborted and left nothing behind. Moves the
    /// watermark over all that have finished without a gap. Call it once per timestamp drawn.
    pub fn finish(&self, timestamp: Timestamp, installed: bool) {
        let state = if installed { INSTALLED } else { ABORTED };
        let slot = self.slot(timestamp.0);
        debug_assert_eq!(slot.word.load(Ordering::Relaxed), word(timestamp.0, PUBLISHED));
        slot.word.store(word(timestamp.0, state), Ordering::Release);
        if !weakened(ProofStep::FinishFences) {
            fence(Ordering::SeqCst);
        }
        self.advance();
    }

    fn advance(&self) {
        let mut watermark = self.watermark.load(Ordering::Acquire);
        loop {
            let next = watermark + 1;
            let seen = self.slot(next).word.load(Ordering::Acquire);
            if timestamp_of(seen) > next {
                // The slot is in use again, so the watermark has long passed it.
                watermark = self.watermark.load(Ordering::Acquire);
                continue;
            }
            if seen < word(next, if weakened(ProofStep::AdvanceChecksMark) { PUBLISHED } else { INSTALLED }) {
                return;
            }
            watermark =
                match self.watermark.compare_exchange(watermark, next, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => next,
                    Err(now) => now,
                };
        }
    }

    /// Returns when the watermark covers `timestamp`: spins briefly, then yields the core, and when that has not helped
    /// `EAGER_LOOKS` times, sleeps between looks: some commit before is a large one.
    pub fn wait_until_visible(&self, timestamp: Timestamp) {
        let backoff = Backoff::new();
        let is_visible = || self.watermark() >= timestamp;
        for _ in 0..EAGER_LOOKS {
            if is_visible() {
                return;
            }
            failpoint::step("waits until visible");
            backoff.snooze();
        }
        let patience = Patience::new();
        while !is_visible() {
            patience.wait();
        }
    }
}

/// What a slot holds for a timestamp.
enum Published<W> {
    Writes(*const W),
    Aborted,
    /// The slot belongs to a later timestamp.
    Gone,
}

impl<W> Drop for CommitOrder<W> {
    fn drop(&mut self) {
        for slot in &self.ring {
            let writes = slot.writes.load(Ordering::Relaxed);
            if !writes.is_null() {
                // SAFETY: the slot's raw reference, given up once, here; no other reference is left.
                drop(unsafe { Arc::from_raw(writes.cast_const()) });
            }
        }
    }
}

impl<W> fmt::Debug for CommitOrder<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommitOrder")
            .field("drawn", &self.drawn.load(Ordering::Relaxed))
            .field("watermark", &self.watermark.load(Ordering::Relaxed))
            .field("capacity", &self.ring.len())
            .finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::primitive::Mutex;

    fn begin(order: &CommitOrder<u64>, writes: u64) -> Timestamp {
        order.begin(Arc::new(writes), drop)
    }

    fn visit(order: &CommitOrder<u64>, after: u64, before: u64) -> (Vec<(u64, u64)>, Visited) {
        let mut seen = Vec::new();
        // SAFETY: single-threaded tests; nothing is retired during the call.
        let outcome = unsafe {
            order.visit_between(Timestamp(after), Timestamp(before), |timestamp, &writes| {
                seen.push((timestamp.0, writes));
                false
            })
        };
        (seen, outcome)
    }

    #[test]
    fn a_write_set_is_forgotten_once_and_in_its_own_slot_only() {
        let order = CommitOrder::new(2);
        let first = begin(&order, 10);
        let forget = |timestamp: Timestamp| {
            let mut out = None;
            // SAFETY: single-threaded tests; nothing is retired during the call.
            let is_forgotten = unsafe { order.forget(timestamp, Arc::new(0), |former| out = Some(*former)) };
            (is_forgotten, out)
        };
        assert_eq!(forget(first), (false, None), "it is under way");
        order.finish(first, true);
        assert_eq!(forget(first), (true, Some(10)));
        assert_eq!(visit(&order, 0, 2), (vec![(1, 0)], Visited::Clear));
        let second = begin(&order, 20);
        order.finish(second, true);
        let third = begin(&order, 30);
        order.finish(third, true);
        assert_eq!(forget(first), (false, None), "the slot is another commit's");
        assert_eq!(visit(&order, 1, 4), (vec![(2, 20), (3, 30)], Visited::Clear));
    }

    #[test]
    fn the_watermark_covers_what_is_finished_without_a_gap() {
        let order = CommitOrder::new(8);
        let drawn: Vec<_> = (0..4).map(|writes| begin(&order, writes)).collect();
        assert_eq!(drawn, [Timestamp(1), Timestamp(2), Timestamp(3), Timestamp(4)]);
        order.finish(drawn[1], true);
        order.finish(drawn[2], false);
        assert_eq!(order.watermark(), Timestamp(0));
        order.finish(drawn[0], true);
        assert_eq!(order.watermark(), Timestamp(3));
        order.finish(drawn[3], true);
        assert_eq!(order.watermark(), Timestamp(4));
        order.wait_until_visible(drawn[3]);
    }

    #[test]
    fn commits_go_on_behind_those_of_an_earlier_run() {
        let order = CommitOrder::new(4);
        order.go_on_behind(Timestamp(1_001));
        assert_eq!(order.watermark(), Timestamp(1_001));
        for writes in 2..9 {
            let drawn = begin(&order, writes);
            assert_eq!(drawn, Timestamp(1_000 + writes));
            assert_eq!(visit(&order, drawn.0 - 1, drawn.0 + 1), (vec![(drawn.0, writes)], Visited::Clear));
            order.finish(drawn, true);
            assert_eq!(order.watermark(), drawn);
        }
    }

    #[test]
    fn visitors_see_installed_and_running_commits_but_not_aborted_ones() {
        let order = CommitOrder::new(8);
        for writes in 1..=4 {
            begin(&order, 10 * writes);
        }
        order.finish(Timestamp(1), true);
        order.finish(Timestamp(2), false);
        assert_eq!(visit(&order, 0, 5), (vec![(1, 10), (3, 30), (4, 40)], Visited::Clear));
        assert_eq!(visit(&order, 1, 4), (vec![(3, 30)], Visited::Clear));
        assert_eq!(visit(&order, 4, 5), (vec![], Visited::Clear));
        // SAFETY: as in `visit`.
        let stopped = unsafe { order.visit_between(Timestamp(0), Timestamp(5), |_, &writes| writes == 30) };
        assert_eq!(stopped, Visited::Stopped(Timestamp(3)));
    }

    #[test]
    fn what_the_ring_has_forgotten_is_too_old() {
        let order = CommitOrder::new(4);
        let mut retired = Vec::new();
        for writes in 1..=6 {
            let timestamp = order.begin(Arc::new(writes), |old| retired.push(*old));
            order.finish(timestamp, true);
        }
        assert_eq!(retired, [1, 2]);
        assert_eq!(visit(&order, 1, 7), (vec![], Visited::TooOld));
        assert_eq!(visit(&order, 2, 7).0, [(3, 3), (4, 4), (5, 5), (6, 6)]);
    }

    #[test]
    fn write_sets_are_dropped_once() {
        let writes = Arc::new(7);
        {
            let order = CommitOrder::new(2);
            for _ in 0..5 {
                let timestamp = order.begin(Arc::clone(&writes), drop);
                order.finish(timestamp, true);
            }
            assert_eq!(Arc::strong_count(&writes), 3);
        }
        assert_eq!(Arc::strong_count(&writes), 1);
    }

    #[test]
    fn many_committers_through_a_small_ring() {
        const THREADS: u64 = 4;
        const COMMITS: u64 = 5_000;
        let order = CommitOrder::<u64>::new(16);
        let installed: Vec<_> = (0..=THREADS * COMMITS).map(|_| AtomicU64::new(0)).collect();
        let graveyard = Mutex::new(Vec::new()); // stands in for epochs: nothing is dropped while threads run
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (order, installed, graveyard) = (&order, &installed, &graveyard);
                scope.spawn(move || {
                    for turn in 0..COMMITS {
                        let seen = order.watermark();
                        assert!((1..=seen.0).all(|t| installed[t as usize].load(Ordering::Relaxed) == 1));
                        let writes = Arc::new(thread << 32 | turn);
                        let mine = order.begin(writes, |old| graveyard.lock().push(old));
                        let mut visited = 0;
                        // SAFETY: the graveyard outlives all threads.
                        let outcome = unsafe {
                            order.visit_between(seen, mine, |_, _| {
                                visited += 1;
                                false
                            })
                        };
                        assert!(outcome == Visited::TooOld || visited == mine.0 - seen.0 - 1);
                        installed[mine.0 as usize].store(1, Ordering::Relaxed);
                        order.finish(mine, true);
                        order.wait_until_visible(mine);
                    }
                });
            }
        });
        assert_eq!(order.watermark(), Timestamp(THREADS * COMMITS));
    }
}
