//! Active readers: the timestamps at which transactions and snapshots are reading.
//!
//! # Idea
//! Old versions may be freed when no transaction and no snapshot can see them any more. Each reader has a
//! **slot** of its own in which it publishes the timestamp that it reads at; a pruner collects all of them.
//! The problem is the reader that is just entering: it has loaded the watermark but not yet published it when
//! the pruner looks. So the pruner announces first how far it is going to prune, the **horizon**, and a
//! reader that finds the horizon ahead of its timestamp tries again with a newer one.
//!
//! # Protocol
//! ```text
//! Reader enters                                    Pruner at watermark w
//! E1  t = watermark                                P1  horizon = max(horizon, w)
//! E2  slot = t                                     P2  fence SeqCst
//! E3  fence SeqCst                                 P3  read all slots; keep what is seen at
//! E4  horizon > t: again from E1                       those timestamps, and all from w on
//! Reader leaves
//! L   slot = idle (Release)
//! ```
//! Of two SeqCst fences one is the first. If it is the reader's, P3 sees t in the slot. If it is the
//! pruner's, E4 sees the horizon, and the reader is done only if t >= w.
//!
//! ```text
//! time ──────────────────────────────────────────────────►
//! reader   E1 t=5          E2 E3 E4: 7 > 5 ─ E1 t=7 E2 E3 E4 ✓ reads at 7
//! pruner          P1 w=7 P2 P3: nobody below 7
//! ```
//!
//! # Invariants
//! 1. *When a pruner at w has read the slots, no reader is at, or comes to, a timestamp below w that is not in
//!    the pruner's list.* A list stays valid as time goes on: readers only leave.
//! 2. *What a reader did before it left happens before what a pruner does that misses it* (L releases, P3
//!    acquires), so memory that it looked at may be reused.
//! 3. *Entering is lock-free*: a reader tries again only if a pruner has moved the horizon, and finds the
//!    watermark at least there.
//!
//! # Anchors
//! Most readers need what they can see at their timestamp and nothing else: a row that was inserted and deleted between
//! two readers' timestamps is visible to neither. Some need everything from their timestamp on, because they found rows
//! at later timestamps, which they no longer announce, and are still going to write to them. They make their slot an
//! *anchor* ([`ReaderSlot::set_anchor`]); what no reader can see may then be freed only up to the oldest anchor
//! ([`ActiveReaders::in_use_and_anchored`]).
//!
//! ```text
//! Transaction                                      Pruner at watermark w
//! A1  slot = t, anchor (before its next E2)        P1 P2 P3
//! A2  enters another slot at s, finds a row,       P4  read all slots again for anchors
//!     enters that slot again at u > s
//! ```
//! The row exists at s, so the pruner frees it only if it was deleted after s and not after w, which means s < w. Then
//! by E4 the fence of entering at s came before P2, and P4 sees A1. If s >= w, the pruner does not touch the row.
//!
//! Slots lie in chunks that are linked once and never unlinked while the registry lives; a slot given back
//! is used again. A chunk is linked before any of its slots is used, so by the fences a pruner that
//! would have to see a reader sees its chunk.
//!
//! # Not here
//! No versions and no epochs: a timestamp here keeps *versions* from being pruned; a pin keeps *memory* from
//! being freed while it is looked at. A reader cannot enter at another reader's older timestamp; readers that
//! share a timestamp share the slot (a `Snapshot` behind an `Arc`).

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use ankerdb_base::Timestamp;

use crate::primitive::{AtomicPtr, AtomicU64, Mutex, Ordering, ProofStep, fence, weakened};

/// Slots that are allocated at once.
const SLOTS_PER_CHUNK: usize = if cfg!(loom) { 2 } else { 32 };
/// No reader.
const IDLE: u64 = u64::MAX;
/// Marks an anchor's timestamp.
const ANCHOR: u64 = 1 << 62;

/// A cache line of its own: its reader writes it twice per transaction.
#[repr(align(64))]
struct Slot(AtomicU64);

/// What a slot says.
#[derive(Clone, Copy)]
struct Announced(u64);

impl Announced {
    fn timestamp(self) -> Option<Timestamp> {
        (self.0 != IDLE).then_some(Timestamp(self.0 & !ANCHOR))
    }

    fn anchor(self) -> Option<Timestamp> {
        self.timestamp().filter(|_| self.0 & ANCHOR != 0)
    }
}

struct Chunk {
    slots: [Slot; SLOTS_PER_CHUNK],
    /// The chunk allocated before this one, or null.
    next: *mut Chunk,
}

/// The timestamps that transactions and snapshots read at.
pub struct ActiveReaders {
    horizon: AtomicU64,
    /// The newest chunk, or null. Owns the list.
    chunks: AtomicPtr<Chunk>,
    free: Mutex<Vec<FreeSlot>>,
}

/// A slot without an owner.
struct FreeSlot(NonNull<Slot>);

// SAFETY: the pointer is to an atomic in a chunk that lives as long as the registry.
unsafe impl Send for FreeSlot {}

// SAFETY: chunks are immutable but for the atomics in them, and freed only when the registry is dropped.
unsafe impl Send for ActiveReaders {}
// SAFETY: as above.
unsafe impl Sync for ActiveReaders {}

impl ActiveReaders {
    /// A registry without readers.
    pub fn new() -> Arc<ActiveReaders> {
        Arc::new(ActiveReaders {
            horizon: AtomicU64::new(0),
            chunks: AtomicPtr::new(std::ptr::null_mut()),
            free: Mutex::new(Vec::new()),
        })
    }

    /// A slot for one session or snapshot, given back when dropped. Takes a short mutex; allocates when all
    /// slots are in use.
    pub fn register(self: &Arc<Self>) -> ReaderSlot {
        let mut free = self.free.lock();
        let FreeSlot(slot) = free.pop().unwrap_or_else(|| self.grow(&mut free));
        ReaderSlot { readers: Arc::clone(self), slot }
    }

    /// Links a new chunk. The caller holds the mutex of the free list.
    #[cold]
    fn grow(&self, free: &mut Vec<FreeSlot>) -> FreeSlot {
        let chunk = Box::into_raw(Box::new(Chunk {
            slots: std::array::from_fn(|_| Slot(AtomicU64::new(IDLE))),
            next: self.chunks.load(Ordering::Relaxed),
        }));
        self.chunks.store(chunk, Ordering::Release);
        // SAFETY: just allocated, and freed only with the registry.
        free.extend(unsafe { &(*chunk).slots }.iter().rev().map(|slot| FreeSlot(NonNull::from(slot))));
        free.pop().expect("a chunk has slots")
    }

    /// Writes the timestamps in use to `out`, ascending and without repetition. The last one is always
    /// `watermark`, and stands for everything from there on, as readers may start there at any time; so
    /// readers beyond it are not listed.
    ///
    /// After this returns, no reader is at a timestamp below `watermark` that is not in the list, nor will
    /// one ever be. Costs one fence and a load per slot ever in use at once. `watermark` must be one that
    /// [`ReaderSlot::enter`]'s source of timestamps has already reached.
    pub fn in_use(&self, watermark: Timestamp, out: &mut Vec<Timestamp>) {
        self.announce(watermark);
        out.clear();
        out.extend(self.timestamps().filter(|&timestamp| timestamp < watermark));
        out.sort_unstable();
        out.dedup();
        out.push(watermark);
    }

    /// Like [`in_use`](Self::in_use); also returns the oldest anchor's timestamp, from which on everything has to
    /// stay, or the end of time if there is none.
    pub fn in_use_and_anchored(&self, watermark: Timestamp, out: &mut Vec<Timestamp>) -> Timestamp {
        self.in_use(watermark, out);
        self.announced().filter_map(Announced::anchor).fold(Timestamp::MAX, Timestamp::min)
    }

    /// The first of the timestamps in use, `watermark` if there are none below it. Same guarantee, a little
    /// cheaper than [`ActiveReaders::in_use`].
    pub fn oldest(&self, watermark: Timestamp) -> Timestamp {
        self.announce(watermark);
        self.timestamps().fold(watermark, Timestamp::min)
    }

    /// P1 and P2.
    fn announce(&self, watermark: Timestamp) {
        // Most pruners find the horizon where they want it and leave the line shared. Having loaded such a
        // horizon before the fence is as good as having stored it: a reader whose fence comes later cannot
        // load an older one.
        if self.horizon.load(Ordering::Acquire) < watermark.0 {
            self.horizon.fetch_max(watermark.0, Ordering::AcqRel);
        }
        if !weakened(ProofStep::PruneFences) {
            fence(Ordering::SeqCst);
        }
    }

    /// P3.
    fn timestamps(&self) -> impl Iterator<Item = Timestamp> {
        self.announced().filter_map(Announced::timestamp)
    }

    fn announced(&self) -> impl Iterator<Item = Announced> {
        let mut chunk = self.chunks.load(Ordering::Acquire).cast_const();
        let chunks = std::iter::from_fn(move || {
            // SAFETY: chunks are initialized before they are linked, and live as long as the registry.
            let this = unsafe { chunk.as_ref() }?;
            chunk = this.next;
            Some(this)
        });
        chunks.flat_map(|chunk| &chunk.slots).map(|slot| Announced(slot.0.load(Ordering::Acquire)))
    }
}

impl Drop for ActiveReaders {
    fn drop(&mut self) {
        let mut chunk = self.chunks.load(Ordering::Relaxed);
        while !chunk.is_null() {
            // SAFETY: came from `Box::into_raw`; every reader slot holds the registry, so none is left.
            chunk = unsafe { Box::from_raw(chunk) }.next;
        }
    }
}

impl fmt::Debug for ActiveReaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let in_use: Vec<_> = self.timestamps().collect();
        f.debug_struct("ActiveReaders").field("in_use", &in_use).finish()
    }
}

/// The place where one session or snapshot publishes the timestamp that it reads at. Dropping it leaves.
///
/// To be entered by one thread at a time; threads that share a slot share its timestamp.
pub struct ReaderSlot {
    readers: Arc<ActiveReaders>,
    slot: NonNull<Slot>,
}

// SAFETY: the slot is an atomic and is kept alive by the registry, which is held.
unsafe impl Send for ReaderSlot {}
// SAFETY: as above; entering from two threads at once would mix up timestamps, not memory.
unsafe impl Sync for ReaderSlot {}

impl ReaderSlot {
    fn slot(&self) -> &AtomicU64 {
        // SAFETY: lives as long as the registry, which we hold.
        unsafe { &self.slot.as_ref().0 }
    }

    /// From here on until [`leave`](Self::leave), rows that are found at this slot's announced timestamp or later stay where
    /// they are, even when no reader can see them any more. To be called before another slot is entered at which such rows are
    /// found.
    pub fn set_anchor(&self) {
        let announced = self.slot().load(Ordering::Relaxed);
        self.slot().store(announced | ANCHOR, Ordering::Release);
    }

    /// Like [`enter`](Self::enter), but the slot becomes an [anchor](Self::set_anchor).
    pub fn enter_as_anchor(&self, watermark: impl Fn() -> Timestamp) -> Timestamp {
        self.enter_with(ANCHOR, watermark)
    }

    /// Starts to read at the newest `watermark`, which is published and returned: from now on, until
    /// [`ReaderSlot::leave`], nothing that is visible at it is pruned. Entering again moves on to a newer
    /// timestamp. `watermark` is called once, and again each time a pruner has moved the horizon.
    ///
    /// Costs one store and one fence beyond `watermark`; never waits.
    pub fn enter(&self, watermark: impl Fn() -> Timestamp) -> Timestamp {
        self.enter_with(0, watermark)
    }

    #[inline]
    fn enter_with(&self, mark: u64, watermark: impl Fn() -> Timestamp) -> Timestamp {
        loop {
            let timestamp = watermark();
            self.slot().store(timestamp.0 | mark, Ordering::Release);
            if !weakened(ProofStep::EnterFences) {
                fence(Ordering::SeqCst);
            }
            // Acquire: a reader that sees the horizon sees, when it tries again, the watermark that it came from.
            if self.readers.horizon.load(Ordering::Acquire) <= timestamp.0
                || weakened(ProofStep::EnterChecksHorizon)
            {
                return timestamp;
            }
        }
    }

    /// The timestamp being read at, if any.
    pub fn timestamp(&self) -> Option<Timestamp> {
        Announced(self.slot().load(Ordering::Relaxed)).timestamp()
    }

    /// Ends reading. The versions seen may be freed.
    pub fn leave(&self) {
        self.slot().store(IDLE, Ordering::Release);
    }
}

impl Drop for ReaderSlot {
    fn drop(&mut self) {
        self.leave();
        self.readers.free.lock().push(FreeSlot(self.slot));
    }
}

impl fmt::Debug for ReaderSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReaderSlot").field(&self.timestamp()).finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn in_use(readers: &ActiveReaders, watermark: u64) -> Vec<u64> {
        let mut out = vec![Timestamp(99)];
        readers.in_use(Timestamp(watermark), &mut out);
        out.into_iter().map(|timestamp| timestamp.0).collect()
    }

    fn enter(slot: &ReaderSlot, timestamp: u64) {
        assert_eq!(slot.enter(|| Timestamp(timestamp)), Timestamp(timestamp));
    }

    #[test]
    fn lists_who_reads_below_the_watermark() {
        let readers = ActiveReaders::new();
        let slots: Vec<_> = (0..5).map(|_| readers.register()).collect();
        for (slot, timestamp) in slots.iter().zip([7, 3, 7, 9, 12]) {
            enter(slot, timestamp);
        }
        assert_eq!(in_use(&readers, 9), [3, 7, 9]);
        assert_eq!(in_use(&readers, 10), [3, 7, 9, 10]);
        assert_eq!(readers.oldest(Timestamp(10)), Timestamp(3));
        slots[1].leave();
        assert_eq!(slots[1].timestamp(), None);
        assert_eq!(readers.oldest(Timestamp(10)), Timestamp(7));
        drop(slots);
        assert_eq!(in_use(&readers, 10), [10]);
    }

    #[test]
    fn the_oldest_anchor_is_told_until_it_leaves() {
        let readers = ActiveReaders::new();
        let slots: Vec<_> = (0..3).map(|_| readers.register()).collect();
        let anchored = || readers.in_use_and_anchored(Timestamp(10), &mut Vec::new());
        for (slot, timestamp) in slots.iter().zip([4, 6, 8]) {
            enter(slot, timestamp);
        }
        assert_eq!(anchored(), Timestamp::MAX);
        slots[2].set_anchor();
        slots[1].set_anchor();
        assert_eq!(anchored(), Timestamp(6));
        slots[1].leave();
        assert_eq!(anchored(), Timestamp(8));
        let slot = &slots[1];
        assert_eq!(slot.enter_as_anchor(|| Timestamp(10)), Timestamp(10));
        assert_eq!((anchored(), slot.timestamp()), (Timestamp(8), Some(Timestamp(10))));
        enter(slot, 11);
        slots[2].leave();
        assert_eq!(anchored(), Timestamp::MAX, "a slot that is entered again is no anchor");
    }

    #[test]
    fn nobody_enters_below_the_horizon() {
        let readers = ActiveReaders::new();
        let slot = readers.register();
        readers.oldest(Timestamp(5));
        let asked = std::cell::Cell::new(3);
        let entered = slot.enter(|| {
            asked.set(asked.get() + 1);
            Timestamp(asked.get())
        });
        assert_eq!((entered, slot.timestamp()), (Timestamp(5), Some(Timestamp(5))));
    }

    #[test]
    fn slots_are_reused_and_grow_without_bound() {
        let readers = ActiveReaders::new();
        let address = readers.register().slot;
        assert_eq!(readers.register().slot, address);
        let many: Vec<_> = (0..10 * SLOTS_PER_CHUNK as u64).map(|_| readers.register()).collect();
        for (timestamp, slot) in many.iter().enumerate() {
            enter(slot, timestamp as u64);
        }
        assert_eq!(in_use(&readers, many.len() as u64), (0..=many.len() as u64).collect::<Vec<_>>());
    }

    #[test]
    fn what_a_reader_reads_at_is_never_pruned() {
        let readers = ActiveReaders::new();
        let watermark = AtomicU64::new(1);
        // Everything below is gone; the pruner writes it as if it were freeing versions.
        let pruned = AtomicU64::new(0);
        let done = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let slot = readers.register();
                    while done.load(Ordering::Relaxed) == 0 {
                        let timestamp = slot.enter(|| Timestamp(watermark.load(Ordering::Acquire)));
                        assert!(pruned.load(Ordering::SeqCst) <= timestamp.0);
                        slot.leave();
                    }
                });
            }
            // Until something was pruned in many passes.
            let mut advances = 0;
            while advances < 10_000 {
                let now = Timestamp(watermark.fetch_add(1, Ordering::AcqRel) + 1);
                let oldest = readers.oldest(now).0;
                advances += u64::from(pruned.swap(oldest, Ordering::SeqCst) < oldest);
            }
            done.store(1, Ordering::Relaxed);
        });
    }
}
