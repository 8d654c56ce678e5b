//! Finds the region of an address, in a way that a signal handler can use.
//!
//! Slots are never freed, only used again. The bounds of a slot are read without its lock, so they may be a mixture of an
//! old region's and a new one's; they are checked again under the lock. A region in whose memory a thread faults cannot
//! go away: the thread is using it.

use crate::budget::Budget;
use crate::lock::SignalMutex;
use crate::space::Space;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

pub(crate) struct RegionSlot {
    start: AtomicUsize,
    end: AtomicUsize,
    taken: AtomicBool,
    pub space: SignalMutex<Option<Space>>,
}

const SLOTS: usize = 64;

struct Chunk {
    slots: [RegionSlot; SLOTS],
    next: AtomicPtr<Chunk>,
}

static FIRST: Chunk = Chunk::new();

impl Chunk {
    const fn new() -> Chunk {
        Chunk { slots: [const { RegionSlot::new() }; SLOTS], next: AtomicPtr::new(std::ptr::null_mut()) }
    }

    fn next(&self) -> Option<&'static Chunk> {
        // SAFETY: null, or leaked.
        unsafe { self.next.load(Acquire).as_ref() }
    }
}

fn slots() -> impl Iterator<Item = &'static RegionSlot> {
    std::iter::successors(Some(&FIRST), |chunk| chunk.next()).flat_map(|chunk| &chunk.slots)
}

impl RegionSlot {
    const fn new() -> RegionSlot {
        RegionSlot {
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            taken: AtomicBool::new(false),
            space: SignalMutex::new(None),
        }
    }

    /// A slot for a region, found by its addresses from then on.
    pub(crate) fn claim(space: Space) -> &'static RegionSlot {
        let slot = loop {
            let free = |slot: &&RegionSlot| slot.taken.compare_exchange(false, true, AcqRel, Relaxed).is_ok();
            if let Some(slot) = slots().find(free) {
                break slot;
            }
            grow();
        };
        let start = space.pointer().as_ptr() as usize;
        let end = start + space.bytes();
        *slot.space.lock() = Some(space);
        slot.end.store(end, Release);
        slot.start.store(start, Release);
        slot
    }

    /// Forgets the region's addresses.
    pub(crate) fn hide(&self) {
        self.start.store(0, Release);
        self.end.store(0, Release);
    }

    /// Frees the slot.
    pub(crate) fn give_back(&self) {
        let space = self.space.lock().take();
        drop(space);
        self.taken.store(false, Release);
    }
}

/// One more chunk at the end.
fn grow() {
    let new = Box::into_raw(Box::new(Chunk::new()));
    let mut chunk = &FIRST;
    loop {
        match chunk.next.compare_exchange(std::ptr::null_mut(), new, AcqRel, Acquire) {
            Ok(_) => return,
            // SAFETY: not null, and leaked.
            Err(next) => chunk = unsafe { &*next },
        }
    }
}

/// Compacts the region with the most mappings among those of a budget; `false` if that makes none free. Locks one region at
/// a time; not for handlers, which hold a lock.
pub(crate) fn compact_another(budget: &Budget) -> bool {
    let runs = |slot: &RegionSlot| slot.space.lock().as_ref().map_or(0, |space| space.runs_to_save(budget));
    let Some((_, slot)) = slots().map(|slot| (runs(slot), slot)).max_by_key(|(runs, _)| *runs) else {
        return false;
    };
    slot.space.lock().as_mut().is_some_and(|space| space.runs_to_save(budget) > 0 && space.compact().is_ok())
}

/// Serves a write fault at an address, in a signal handler or elsewhere; `false` if it belongs to no region.
pub(crate) fn serve(address: usize) -> bool {
    for slot in slots() {
        if slot.start.load(Acquire) <= address && address < slot.end.load(Acquire) {
            let mut space = slot.space.lock();
            if let Some(space) = space.as_mut().filter(|space| space.contains(address)) {
                return space.on_write(address);
            }
        }
    }
    false
}
