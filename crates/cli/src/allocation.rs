//! The command's memory allocator, and a count of allocations by thread, for `bench --profile`.
//!
//! mimalloc does the work: versions and records are allocated by the committing thread and freed by any thread that finds them
//! unreachable, which it is made for. A count of the thread's own goes up by one, which takes about a nanosecond and needs no
//! atomic operation. So it is always on: a switch would cost as much.
//!
//! mimalloc is called by its own names, not through its usual Rust interface: that asks for an alignment each time, and
//! mimalloc takes the slow way, with a larger piece, for every aligned request whose size is no power of two. All of its pieces
//! are aligned to eight bytes.
//!
//! Allocations count in the account that the memory limit is compared with (`ankerdb_memory::account`).
//!
//! When the system refuses memory, small pieces come from an emergency pool until the statement has ended (`ankerdb_memory::emergency_pool`).
//!
//! In a process made by `fork`, where mimalloc promises nothing, memory comes from an arena
//! (`ankerdb_memory::child`).
#![allow(unsafe_code)]

use ankerdb_memory::account::Counted;
use ankerdb_memory::child::Forkable;
use ankerdb_memory::emergency_pool::Backed;
use libmimalloc_sys as mi;
use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;

thread_local! {
    /// Needs no destructor and no initialization at run time, so that it can be used at any time of a thread's life.
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// Allocations and reallocations of the calling thread so far.
pub(crate) fn count() -> u64 {
    COUNT.get()
}

fn note() {
    COUNT.set(COUNT.get().wrapping_add(1));
}

const MEMORY: Counted<Backed<Forkable<MiMalloc>>> = Counted(Backed(Forkable(MiMalloc)));

/// Alignment of every piece of mimalloc's.
const ALIGNMENT: usize = 8;

struct MiMalloc;

// SAFETY: mimalloc's functions keep the promises of GlobalAlloc's: pieces have the size and alignment asked for, are given back
// by `mi_free` whichever of them they came from, and nothing unwinds.
unsafe impl GlobalAlloc for MiMalloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: any size and any power of two will do; so below.
        let pointer = unsafe {
            match layout.align() {
                ..=ALIGNMENT => mi::mi_malloc(layout.size()),
                wide => mi::mi_malloc_aligned(layout.size(), wide),
            }
        };
        pointer.cast()
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let pointer = unsafe {
            match layout.align() {
                ..=ALIGNMENT => mi::mi_zalloc(layout.size()),
                wide => mi::mi_zalloc_aligned(layout.size(), wide),
            }
        };
        pointer.cast()
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise that the piece is ours.
        let pointer = unsafe {
            match layout.align() {
                ..=ALIGNMENT => mi::mi_realloc(pointer.cast(), size),
                wide => mi::mi_realloc_aligned(pointer.cast(), size, wide),
            }
        };
        pointer.cast()
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, _: Layout) {
        // SAFETY: the caller's promise that the piece is ours, and no longer used.
        unsafe { mi::mi_free(pointer.cast()) }
    }
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call is handed on as it is to an allocator that keeps GlobalAlloc's promises; counting neither allocates
// nor panics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller's promises are those that the other asks for; so below.
        unsafe { MEMORY.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: as above.
        unsafe { MEMORY.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note();
        // SAFETY: as above.
        unsafe { MEMORY.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { MEMORY.dealloc(pointer, layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_own_threads_allocations_are_counted() {
        let before = count();
        let boxes: Vec<Box<u64>> = Vec::from_iter((0..10).map(Box::new));
        let own = count() - before;
        assert!((11..=13).contains(&own) && boxes.len() == 10, "{own}");
        let thread = std::thread::spawn(|| drop(std::hint::black_box(vec![Box::new(1); 1000])));
        let before = count();
        thread.join().expect("the thread does not panic");
        assert!(count() - before < 10);
    }
}
