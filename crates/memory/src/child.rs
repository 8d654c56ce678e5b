//! Memory of a forked child.
//!
//! Of the parent's threads a child of `fork` has only the one that called it. A lock that another thread held then stays
//! held forever, and allocators use many locks. So a child allocates from an *arena* of its own, mapped when it begins,
//! and never gives back what its parent had allocated: that memory is a copy which goes with the process.
//!
//! [`become_child`] turns this on, in the child, for good. From then on
//! - [`allocate`](crate::allocate) and its like take everything but small pieces from the arena, whatever the program's allocator is;
//! - a program whose global allocator is a [`Forkable`] takes everything else from there, too. `ankerdb` is such a
//!   program. Other programs are as safe as their allocator: glibc's takes its locks before a fork and gives them
//!   back after it, so with the system's allocator a child may allocate; most others promise nothing.
//!
//! ```text
//! arena  │ used │ free │ used      │ used │ ...            never touched │
//!        └──────┴──────┴───────────┴──────┴──────────────────────────────┘
//!         start                            next                      end
//! ```
//!
//! Pieces are of *classes*, four to each doubling of size; a free piece is linked into the list of its class and handed
//! out again. The lock is never taken in a parent, so it is free when the child begins.
//!
//! Not here: forking, which is in the crate `region`.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Addresses that an arena reserves, if the system grants so many; a page takes memory when it is first touched.
const RESERVED_MAX: usize = 1 << 40;
const RESERVED_MIN: usize = 64 << 20;
/// Sizes up to here go in steps of the smallest piece, sizes above it in quarters of a power of two.
const LINEAR_MAX: usize = 64;
const PIECE_MIN: usize = 16;
const CLASSES: usize = 4 + (usize::BITS as usize - 6) * 4;
/// The largest alignment.
const ALIGNMENT_MAX: usize = 2 << 20;

static IS_CHILD: AtomicBool = AtomicBool::new(false);
static ARENA: Arena = Arena {
    start: AtomicUsize::new(0),
    end: AtomicUsize::new(0),
    locked: AtomicBool::new(false),
    state: UnsafeCell::new(State { next: 0, free: [null_mut(); CLASSES] }),
};

/// Whether this process is a child that allocates from an arena. Costs a load of a word that is written only in
/// children.
#[inline(always)]
pub fn is_child() -> bool {
    IS_CHILD.load(Ordering::Relaxed)
}

/// Makes this process one that allocates from an arena.
///
/// # Safety
/// It has just been made by `fork`, and the caller is its only thread. It ends without running destructors or giving memory
/// back that it did not allocate itself by other means than this crate and [`Forkable`].
pub unsafe fn become_child() {
    // SAFETY: the only thread there is.
    unsafe { ARENA.reserve() };
    IS_CHILD.store(true, Ordering::Relaxed);
}

/// A piece of the child's arena; null if there is no memory left.
pub(crate) fn allocate(layout: Layout, zeroed: bool) -> *mut u8 {
    ARENA.allocate(layout, zeroed)
}

/// Gives a piece back; does nothing with memory from before the fork.
///
/// # Safety
/// It was allocated with this layout, and it is no longer used.
pub(crate) unsafe fn free(pointer: *mut u8, layout: Layout) {
    if ARENA.owns(pointer) {
        // SAFETY: the caller's promise.
        unsafe { ARENA.free(pointer, layout) };
    }
}

/// A global allocator that a forked child may use: the other one until then, the arena from then on.
pub struct Forkable<A>(pub A);

// SAFETY: outside of a child every call is forwarded unchanged. In a child memory comes from the arena, which hands
// out nothing twice; what is not the arena's is never handed to the other allocator and stays as it is.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Forkable<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match is_child() {
            // SAFETY: the caller's promises are those that the other allocator asks for; so below.
            false => unsafe { self.0.alloc(layout) },
            true => allocate(layout, false),
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match is_child() {
            // SAFETY: as above.
            false => unsafe { self.0.alloc_zeroed(layout) },
            true => allocate(layout, true),
        }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        match is_child() {
            // SAFETY: as above.
            false => unsafe { self.0.realloc(pointer, layout, size) },
            // SAFETY: as above.
            true => unsafe { reallocate(pointer, layout, size) },
        }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        match is_child() {
            // SAFETY: as above.
            false => unsafe { self.0.dealloc(pointer, layout) },
            // SAFETY: as above.
            true => unsafe { free(pointer, layout) },
        }
    }
}

/// Moves a piece, the arena's or not, to one of another size.
///
/// # Safety
/// As for [`GlobalAlloc::realloc`].
#[cold]
unsafe fn reallocate(pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
    // SAFETY: the caller promises that size and alignment make a layout.
    let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
    if ARENA.owns(pointer) && Class::of(layout) == Class::of(wanted) {
        return pointer;
    }
    let moved = allocate(wanted, false);
    if !moved.is_null() {
        // SAFETY: both are at least as long, and the new one has no other user yet; the old one is the caller's to
        // give up.
        unsafe {
            std::ptr::copy_nonoverlapping(pointer, moved, size.min(layout.size()));
            free(pointer, layout);
        }
    }
    moved
}

/// A size that pieces have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Class {
    number: usize,
    bytes: usize,
}

impl Class {
    fn of(layout: Layout) -> Class {
        let bytes = match layout.align() {
            ..=PIECE_MIN => layout.size().max(1),
            // A piece of a power of two is aligned to its size.
            wide => layout.size().max(wide).next_power_of_two(),
        };
        if bytes <= LINEAR_MAX {
            let number = bytes.div_ceil(PIECE_MIN) - 1;
            return Class { number, bytes: (number + 1) * PIECE_MIN };
        }
        let power = (bytes - 1).ilog2() as usize;
        let quarter = ((bytes - 1) >> (power - 2)) - 4;
        Class { number: 4 + (power - 6) * 4 + quarter, bytes: (quarter + 5) << (power - 2) }
    }

    /// What pieces of this class are aligned to: the largest power of two that divides their size.
    fn alignment(self) -> usize {
        (1 << self.bytes.trailing_zeros()).min(ALIGNMENT_MAX)
    }
}

struct Arena {
    start: AtomicUsize,
    end: AtomicUsize,
    locked: AtomicBool,
    state: UnsafeCell<State>,
}

struct State {
    /// The first address that was never handed out.
    next: usize,
    /// Free pieces of each class, linked by their first words.
    free: [*mut u8; CLASSES],
}

// SAFETY: the state is used by whoever has the lock.
unsafe impl Sync for Arena {}

impl Arena {
    /// Maps it, empty.
    ///
    /// # Safety
    /// No other thread uses it.
    unsafe fn reserve(&self) {
        let mut bytes = RESERVED_MAX;
        let start = loop {
            match crate::mapping::map(bytes) {
                Some(start) => break start.addr().get(),
                None if bytes <= RESERVED_MIN => {
                    bytes = 0;
                    break 0;
                }
                None => bytes /= 2,
            }
        };
        self.start.store(start, Ordering::Relaxed);
        self.end.store(start + bytes, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { *self.state.get() = State { next: start, free: [null_mut(); CLASSES] } };
    }

    fn owns(&self, pointer: *mut u8) -> bool {
        let address = pointer.addr();
        address >= self.start.load(Ordering::Relaxed) && address < self.end.load(Ordering::Relaxed)
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        while self.locked.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            std::hint::spin_loop();
        }
        // SAFETY: we have the lock.
        let result = work(unsafe { &mut *self.state.get() });
        self.locked.store(false, Ordering::Release);
        result
    }

    fn allocate(&self, layout: Layout, zeroed: bool) -> *mut u8 {
        if layout.align() > ALIGNMENT_MAX || layout.size() > RESERVED_MAX {
            return null_mut();
        }
        let class = Class::of(layout);
        let (pointer, was_used) = self.with(|state| {
            let free = state.free[class.number];
            if !free.is_null() {
                // SAFETY: a free piece begins with the address of the next one.
                state.free[class.number] = unsafe { free.cast::<*mut u8>().read() };
                return (free, true);
            }
            let start = state.next.next_multiple_of(class.alignment());
            match start.checked_add(class.bytes) {
                Some(end) if start > 0 && end <= self.end.load(Ordering::Relaxed) => {
                    state.next = end;
                    (std::ptr::with_exposed_provenance_mut(start), false)
                }
                _ => (null_mut(), false),
            }
        });
        if zeroed && was_used {
            // SAFETY: the piece is ours until we hand it out.
            unsafe { pointer.write_bytes(0, layout.size()) };
        }
        pointer
    }

    /// # Safety
    /// A piece of the arena of this layout that is no longer used.
    unsafe fn free(&self, pointer: *mut u8, layout: Layout) {
        let class = Class::of(layout);
        self.with(|state| {
            // SAFETY: every piece has room for an address and is aligned to it.
            unsafe { pointer.cast::<*mut u8>().write(state.free[class.number]) };
            state.free[class.number] = pointer;
        });
    }
}

/// Memory for blocks and indexes in a child.
pub(crate) fn blocks(bytes: usize, zeroed: bool) -> Option<NonNull<u8>> {
    NonNull::new(allocate(Layout::from_size_align(bytes, crate::ALIGNMENT).ok()?, zeroed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arena() -> Arena {
        let arena = Arena {
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            locked: AtomicBool::new(false),
            state: UnsafeCell::new(State { next: 0, free: [null_mut(); CLASSES] }),
        };
        // SAFETY: no other code has it yet.
        unsafe { arena.reserve() };
        arena
    }

    #[test]
    fn classes_hold_their_sizes_and_follow_each_other() {
        let mut last = Class { number: 0, bytes: PIECE_MIN };
        for size in 1..100_000 {
            let class = Class::of(Layout::from_size_align(size, 1).unwrap());
            assert!(
                class.bytes >= size && class.bytes <= (size + size / 4).max(size + 15),
                "{size}: {class:?}"
            );
            assert!(class.bytes.is_multiple_of(PIECE_MIN));
            assert!(class == last || (class.number == last.number + 1 && class.bytes > last.bytes), "{size}");
            last = class;
        }
        for power in 5..=21 {
            let class = Class::of(Layout::from_size_align(1, 1 << power).unwrap());
            assert_eq!(class.alignment(), 1 << power);
        }
    }

    #[test]
    fn pieces_are_aligned_disjoint_and_used_again() {
        let arena = arena();
        let mut held: Vec<(*mut u8, Layout, u8)> = Vec::new();
        let mut random = 7u64;
        for step in 0..20_000usize {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let size = 1usize << (random >> 60) << (step % 3);
            let layout = Layout::from_size_align(size, 1 << (step % 9)).unwrap();
            let zeroed = step % 2 == 0;
            let pointer = arena.allocate(layout, zeroed);
            assert!(arena.owns(pointer) && pointer.addr().is_multiple_of(layout.align()));
            // SAFETY: the test owns the memory until it frees it.
            let bytes = unsafe { std::slice::from_raw_parts_mut(pointer, size) };
            assert!(!zeroed || bytes.iter().all(|byte| *byte == 0));
            bytes.fill(step as u8);
            held.push((pointer, layout, step as u8));
            if step % 4 > 0 {
                let (pointer, layout, mark) = held.swap_remove(random as usize % held.len());
                // SAFETY: as above.
                let bytes = unsafe { std::slice::from_raw_parts(pointer, layout.size()) };
                assert!(bytes.iter().all(|byte| *byte == mark));
                // SAFETY: taken from those in use.
                unsafe { arena.free(pointer, layout) };
            }
        }
        let used = arena.with(|state| state.next) - arena.start.load(Ordering::Relaxed);
        let live: usize = held.iter().map(|(_, layout, _)| layout.size()).sum();
        assert!(used < live * 4 + (8 << 20), "{used} bytes for {live}");
        assert!(!arena.owns((&raw const random).cast_mut().cast()));
    }
}
