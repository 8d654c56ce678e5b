//! Memory under row blocks and indexes: zeroed pieces of huge pages.
//!
//! A transaction touches a few cells in each of many arrays: with pages of 4 KiB nearly every touch misses the
//! translation buffer as well as the cache. So the arrays lie in **slabs**, 2 MiB each and aligned to it, for which
//! the operating system is asked to use one huge page; a database of some GiB then needs no more translations than a
//! core can hold.
//!
//! ```text
//! class of 64 KiB   slab ┌────┬────┬────┬────┬─ ─ ─┬────┐   slab ┌────┬─ ─
//!                        │used│free│used│used│     │new │        │used│
//!                        └────┴────┴────┴────┴─ ─ ─┴────┘        └────┴─ ─
//! ```
//!
//! A slab holds pieces of one *class*: a power of two from 2 KiB to 1 MiB. Larger requests get a mapping of their own,
//! smaller ones come from the global allocator. A piece's slab is found from its address. A few slabs without used
//! pieces are kept in each class, the others go back to the operating system: memory that a table gave up is free for
//! all uses, and a table that shrinks and grows again does not map and unmap each time.
//!
//! Without huge pages (on other systems, or by the administrator's choice) everything works, but slower.
//!
//! In a process made by `fork` all of it comes from memory of its own ([`child`]).
//!
//! What is mapped is in the [`account`], with what the heap hands out. Large buffers of the heap are given back in steps, so
//! that other threads do not wait for it ([`release`]).
//!
//! Not here: small objects, and who may look at the memory.
#![warn(missing_docs)]

pub mod account;
pub mod charge;
pub mod child;
pub mod emergency_pool;
pub mod executable;
pub mod machine;
mod mapping;
mod release;
mod slab;

pub use release::release;

use slab::Class;
use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Size and alignment of a slab: a huge page of x86-64 and of AArch64 with 4 KiB pages.
const SLAB_BYTES: usize = 2 << 20;
/// The smallest and the largest class, as powers of two.
const CLASS_MIN: u32 = 11;
const CLASS_MAX: u32 = 20;
/// From this class on pieces are aligned to their size.
const POWER_ALIGNED: u32 = 14;
/// Alignment of smaller ones.
const ALIGNMENT: usize = 64;

static CLASSES: [Class; (CLASS_MAX - CLASS_MIN + 1) as usize] =
    [const { Class::new() }; (CLASS_MAX - CLASS_MIN + 1) as usize];

/// Where a size comes from.
enum Source {
    Small(Layout),
    /// Class number and bytes of a piece.
    Class(usize, usize),
    /// Bytes of a mapping.
    Mapping(usize),
}

impl Source {
    fn of(bytes: usize) -> Source {
        match bytes.max(1).next_power_of_two().ilog2() {
            // AddressSanitizer guards the ends of what the global allocator gives out, and of nothing else.
            power if power < CLASS_MIN || cfg!(ankerdb_sanitize) => {
                let layout = Layout::from_size_align(bytes.max(1), ALIGNMENT);
                Source::Small(layout.expect("a size is far below isize::MAX"))
            }
            power @ ..=CLASS_MAX => Source::Class((power - CLASS_MIN) as usize, piece_bytes(power)),
            _ => Source::Mapping(bytes.next_multiple_of(SLAB_BYTES)),
        }
    }
}

/// Bytes from one piece of a class to the next. Small pieces are nodes of trees, whose headers would all compete for the
/// same few places of a cache if they lay at multiples of a power of two: so these lie a line further apart.
fn piece_bytes(power: u32) -> usize {
    const LINE: usize = 64;
    if power < POWER_ALIGNED { (1 << power) + LINE } else { 1 << power }
}

/// Zeroed memory of at least `bytes` bytes, aligned to 64 bytes at least. Costs a short mutex; zeroes what was used before;
/// asks the operating system once per slab. When there is no memory left, it comes from the [`emergency_pool`]; the caller must
/// check soon whether that was used. If the pool is exhausted as well, the process ends.
pub fn allocate_zeroed(bytes: usize) -> NonNull<u8> {
    zeroed(bytes, Caller::CannotCope).unwrap_or_else(|| from_emergency_pool(bytes, true))
}

/// Like [`allocate_zeroed`], but `None` when there is no memory left or the thread's [`Ceiling`](account::Ceiling) is
/// met.
pub fn try_allocate_zeroed(bytes: usize) -> Option<NonNull<u8>> {
    zeroed(bytes, Caller::Copes)
}

fn zeroed(bytes: usize, caller: Caller) -> Option<NonNull<u8>> {
    if emergency_pool::is_shortage_planned() {
        return None;
    }
    match Source::of(bytes) {
        // SAFETY: the layout has a size above zero.
        Source::Small(layout) => NonNull::new(unsafe { alloc_zeroed(layout) }),
        _ if child::is_child() => child::blocks(bytes, true),
        Source::Class(class, piece) => CLASSES[class].allocate_zeroed(piece, caller),
        Source::Mapping(bytes) => map(bytes, caller),
    }
}

/// What a caller does when its request is refused.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Caller {
    /// It tells its client: 53200.
    Copes,
    /// The process ends.
    CannotCope,
}

/// Maps memory and notes it; `None` if the system has none left, or the caller can handle a refusal and its thread
/// may not have more.
fn map(bytes: usize, caller: Caller) -> Option<NonNull<u8>> {
    if caller == Caller::Copes && !account::may_map(bytes) {
        return None;
    }
    let pointer = mapping::map(bytes)?;
    account::note_mapped(bytes);
    Some(pointer)
}

/// Gives a mapping back.
///
/// # Safety
/// It came from [`map`] with the same `bytes`, and it is no longer used.
unsafe fn unmap(pointer: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { mapping::unmap(pointer, bytes) };
    account::note_unmapped(bytes);
}

/// Memory with arbitrary content, for callers that write all of it.
pub fn allocate(bytes: usize) -> NonNull<u8> {
    let pointer = match Source::of(bytes) {
        _ if emergency_pool::is_shortage_planned() => None,
        // SAFETY: the layout has a size above zero.
        Source::Small(layout) => NonNull::new(unsafe { alloc(layout) }),
        _ if child::is_child() => child::blocks(bytes, false),
        Source::Class(class, piece) => CLASSES[class].allocate(piece),
        Source::Mapping(bytes) => map(bytes, Caller::CannotCope),
    };
    pointer.unwrap_or_else(|| from_emergency_pool(bytes, false))
}

/// The answer for a caller whose request must not fail.
#[cold]
fn from_emergency_pool(bytes: usize, is_zeroed: bool) -> NonNull<u8> {
    let is_power_aligned = bytes > 1 << (POWER_ALIGNED - 1);
    let alignment = if is_power_aligned { bytes.next_power_of_two() } else { ALIGNMENT };
    emergency_pool::allocate(bytes, alignment, is_zeroed).unwrap_or_else(|| out_of_memory(bytes))
}

#[cold]
fn out_of_memory(bytes: usize) -> ! {
    handle_alloc_error(Layout::from_size_align(bytes, ALIGNMENT).unwrap_or(Layout::new::<u8>()))
}

/// Gives memory back.
///
/// # Safety
/// The memory came from [`allocate_zeroed`] or [`allocate`] with the same `bytes`; it is no longer used.
pub unsafe fn free(pointer: NonNull<u8>, bytes: usize) {
    if emergency_pool::owns(pointer) {
        // SAFETY: the caller's promise.
        unsafe { emergency_pool::free(pointer, bytes) };
        return;
    }
    match Source::of(bytes) {
        // SAFETY: allocated with the same layout, by the caller's promise.
        Source::Small(layout) => unsafe { dealloc(pointer.as_ptr(), layout) },
        _ if child::is_child() => {
            if let Ok(layout) = Layout::from_size_align(bytes, ALIGNMENT) {
                // SAFETY: allocated with the same layout, if in this process; the caller's promise.
                unsafe { child::free(pointer.as_ptr(), layout) }
            }
        }
        // SAFETY: a piece of this class, by the caller's promise.
        Source::Class(class, piece) => unsafe { CLASSES[class].free(pointer, piece) },
        // SAFETY: a mapping of this size, by the caller's promise.
        Source::Mapping(bytes) => unsafe { unmap(pointer, bytes) },
    }
}

/// Bytes of all slabs that are mapped now, used or not.
pub fn slab_bytes() -> usize {
    CLASSES.iter().map(Class::slabs).sum::<usize>() * SLAB_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(pointer: NonNull<u8>, bytes: usize) -> &'static mut [u8] {
        // SAFETY: the tests own the memory until they free it.
        unsafe { std::slice::from_raw_parts_mut(pointer.as_ptr(), bytes) }
    }

    #[test]
    fn memory_of_every_size_is_zeroed_aligned_and_its_own() {
        let sizes =
            [1, 64, 1024, 2047, 2048, 2049, 16 << 10, 100_000, 128 << 10, 1 << 20, (1 << 20) + 1, 5 << 20];
        let mut held = Vec::new();
        for round in 1..=3u8 {
            for bytes in sizes {
                let pointer = allocate_zeroed(bytes);
                assert_eq!(pointer.as_ptr() as usize % ALIGNMENT, 0);
                let memory = bytes_of(pointer, bytes);
                assert!(memory.iter().all(|byte| *byte == 0), "{bytes} bytes in round {round}");
                memory.fill(round);
                held.push((pointer, bytes, round));
            }
            // Every other piece goes back dirty and is handed out again in the next round.
            for (pointer, bytes, _) in held.extract_if(.., |(_, bytes, _)| *bytes % 2 == 0) {
                // SAFETY: allocated above, no longer used.
                unsafe { free(pointer, bytes) };
            }
        }
        for (pointer, bytes, round) in held {
            assert!(
                bytes_of(pointer, bytes).iter().all(|byte| *byte == round),
                "{bytes} bytes were overwritten"
            );
            // SAFETY: as above.
            unsafe { free(pointer, bytes) };
        }
    }

    #[test]
    fn threads_share_the_classes() {
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                scope.spawn(move || {
                    let mut held = Vec::new();
                    for step in 0..3000usize {
                        let bytes = 2048 << (step % 4);
                        let pointer = allocate_zeroed(bytes);
                        assert!(bytes_of(pointer, bytes).iter().all(|byte| *byte == 0));
                        bytes_of(pointer, bytes).fill(thread + 1);
                        held.push((pointer, bytes));
                        if step % 3 > 0 {
                            let (pointer, bytes) = held.swap_remove(step * 7 % held.len());
                            assert!(bytes_of(pointer, bytes).iter().all(|byte| *byte == thread + 1));
                            // SAFETY: allocated above, no longer used.
                            unsafe { free(pointer, bytes) };
                        }
                    }
                    // SAFETY: as above.
                    held.into_iter().for_each(|(pointer, bytes)| unsafe { free(pointer, bytes) });
                });
            }
        });
    }
}
