//! An emergency pool, for when the system refuses memory.
//!
//! Most code cannot go on without the few bytes that it asks for, and has no way to report a failure: a node of a map, the copy
//! of a key, the text of the error that says that memory is exhausted. If the system refused them, the process would end there.
//! Instead such a request is met from a pool, and a moment later, where the thread can stop, it checks whether that has
//! happened.
//!
//! ```text
//! step of a statement            allocator                       system
//!   insert a key       ───────►  a node of 4 KiB     ───────►    refused
//!                      ◄───────  from the pool; noted: this thread has taken from it
//!   check()            ───────►  is there memory by now?  ──►    refused: 53200, the transaction ends and gives back
//! ```
//!
//! So the pool has to last for what threads take between two checks, which is some kilobytes each. Larger
//! requests than [`PIECE_MAX`] are never met from it: code that asks for so much asks in a way that can fail.
//!
//! The pool is a part of the program's data: it is there from the start, and takes no memory before it is touched. This
//! crate's own pieces always fall back on it; the heap does if the program's global allocator is a [`Backed`].
//!
//! A piece that lives on (a node of an index, split just before its transaction failed) stays in the pool until it is freed.
//! Should all of the pool be taken, the process ends, as it would have without one.
//!
//! Not here: limits, and what an error looks like.

use crate::child::is_child;
use crate::{SLAB_BYTES, mapping};
use std::alloc::{GlobalAlloc, Layout};
use std::cell::{Cell, UnsafeCell};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};

/// The largest piece that the pool gives.
pub const PIECE_MAX: usize = 256 << 10;
/// All of it.
const BYTES: usize = 8 << 20;
/// The unit in which it is handed out.
const BLOCK_BYTES: usize = 64;
const BLOCKS: usize = BYTES / BLOCK_BYTES;

static POOL: Pool = Pool {
    is_locked: AtomicBool::new(false),
    used: UnsafeCell::new([0; BLOCKS / 64]),
    memory: UnsafeCell::new(Memory([0; BYTES])),
};

thread_local! {
    /// Whether this thread has taken from the pool since the last check.
    static HAS_TAKEN: Cell<bool> = const { Cell::new(false) };
    /// Whether the system shall seem to refuse everything to this thread.
    #[cfg(debug_assertions)]
    static IS_SHORTAGE_PLANNED: Cell<bool> = const { Cell::new(false) };
}

#[repr(C, align(4096))]
struct Memory([u8; BYTES]);

struct Pool {
    is_locked: AtomicBool,
    /// A bit for each block that is handed out. Under the lock.
    used: UnsafeCell<[u64; BLOCKS / 64]>,
    memory: UnsafeCell<Memory>,
}

// SAFETY: the bits are accessed only under the lock, and memory belongs to the caller to whom its blocks were handed
// out.
unsafe impl Sync for Pool {}

/// Holds the lock. It is a spin lock, because a mutex may have to allocate.
struct Locked(&'static Pool);

impl Drop for Locked {
    fn drop(&mut self) {
        self.0.is_locked.store(false, Ordering::Release);
    }
}

/// Blocks of a piece.
fn blocks(bytes: usize) -> usize {
    bytes.max(1).div_ceil(BLOCK_BYTES)
}

impl Locked {
    fn used(&mut self) -> &mut [u64; BLOCKS / 64] {
        // SAFETY: we hold the lock, and the borrow of self keeps it to one reference.
        unsafe { &mut *self.0.used.get() }
    }

    /// Finds free blocks for a piece, the first at a multiple of `alignment` bytes, and takes them.
    fn take(&mut self, count: usize, alignment: usize) -> Option<usize> {
        let start = self.0.start();
        let aligned = |block: usize| {
            ((start + block * BLOCK_BYTES).next_multiple_of(alignment) - start).div_ceil(BLOCK_BYTES)
        };
        let used = self.used();
        let is_used = |block: usize, used: &[u64]| used[block / 64] >> (block % 64) & 1 == 1;
        let mut first = aligned(0);
        while first + count <= BLOCKS {
            match (first..first + count).rev().find(|&block| is_used(block, used)) {
                Some(taken) => first = aligned(taken + 1),
                None => {
                    (first..first + count).for_each(|block| used[block / 64] |= 1 << (block % 64));
                    return Some(first);
                }
            }
        }
        None
    }

    fn give_back(&mut self, first: usize, count: usize) {
        let used = self.used();
        (first..first + count).for_each(|block| used[block / 64] &= !(1 << (block % 64)));
    }
}

impl Pool {
    fn start(&'static self) -> usize {
        self.memory.get().addr()
    }

    fn owns(&'static self, pointer: *mut u8) -> bool {
        pointer.addr().wrapping_sub(self.start()) < BYTES
    }

    fn lock(&'static self) -> Locked {
        while self.is_locked.swap(true, Ordering::Acquire) {
            std::thread::yield_now();
        }
        Locked(self)
    }

    /// A piece with any content; null if there is no room.
    #[cold]
    fn allocate(&'static self, bytes: usize, alignment: usize) -> *mut u8 {
        if bytes > PIECE_MAX || is_child() {
            return null_mut();
        }
        let Some(first) = self.lock().take(blocks(bytes), alignment.max(BLOCK_BYTES)) else {
            return null_mut();
        };
        HAS_TAKEN.set(true);
        self.memory.get().cast::<u8>().wrapping_add(first * BLOCK_BYTES)
    }

    /// Takes a piece back.
    ///
    /// # Safety
    /// It is a piece of the pool of so many bytes, and it is no longer used.
    #[cold]
    unsafe fn free(&'static self, pointer: *mut u8, bytes: usize) {
        // In a forked child the lock may be held by a thread that does not exist there.
        if !is_child() {
            let first = (pointer.addr() - self.start()) / BLOCK_BYTES;
            self.lock().give_back(first, blocks(bytes));
        }
    }
}

/// A piece of the pool, for a request of this crate's that must not fail. `None` if there is none.
#[cold]
pub(crate) fn allocate(bytes: usize, alignment: usize, is_zeroed: bool) -> Option<NonNull<u8>> {
    let pointer = NonNull::new(POOL.allocate(bytes, alignment))?;
    if is_zeroed {
        // SAFETY: so many bytes are ours.
        unsafe { pointer.as_ptr().write_bytes(0, bytes) };
    }
    Some(pointer)
}

/// Whether a piece is one of the pool.
#[inline]
pub(crate) fn owns(pointer: NonNull<u8>) -> bool {
    POOL.owns(pointer.as_ptr())
}

/// Takes a piece back.
///
/// # Safety
/// It came from [`allocate`] with so many bytes, and it is no longer used.
pub(crate) unsafe fn free(pointer: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { POOL.free(pointer.as_ptr(), bytes) };
}

/// Whether this thread has taken from the pool since the last call, and the system still refuses memory. A caller that
/// gets `true` ends what it is doing, with an error. Costs one thread-local load, unless the thread has taken
/// something.
#[inline]
pub fn is_short() -> bool {
    HAS_TAKEN.get() && is_still_short()
}

/// Bytes of the pool that are handed out. Costs a look at all of its blocks.
pub fn used_bytes() -> usize {
    let used: u32 = POOL.lock().used().iter().map(|word| word.count_ones()).sum();
    used as usize * BLOCK_BYTES
}

/// Forgets what this thread has taken so far: a new piece of work begins.
#[inline]
pub fn forget() {
    HAS_TAKEN.set(false);
}

#[cold]
fn is_still_short() -> bool {
    HAS_TAKEN.set(false);
    !has_heap() || !can_map()
}

/// Whether the heap gives a piece that is too large for the pool.
fn has_heap() -> bool {
    let layout = Layout::from_size_align(2 * PIECE_MAX, BLOCK_BYTES).expect("a small power of two");
    // SAFETY: the layout has a size, and the piece is given back with the same one.
    unsafe {
        let piece = std::alloc::alloc(layout);
        if !piece.is_null() {
            std::alloc::dealloc(piece, layout);
        }
        !piece.is_null()
    }
}

fn can_map() -> bool {
    let slab = if is_shortage_planned() { None } else { mapping::map(SLAB_BYTES) };
    // SAFETY: mapped just now, and no other code knows it.
    slab.map(|slab| unsafe { mapping::unmap(slab, SLAB_BYTES) }).is_some()
}

/// For tests: makes the system seem to refuse this thread all memory of this crate, or ends that. An allocator under test may
/// ask for it as well.
#[cfg(debug_assertions)]
pub fn plan_shortage(is_planned: bool) {
    IS_SHORTAGE_PLANNED.set(is_planned);
}

/// Whether a test has planned that this thread gets no memory.
#[cfg(debug_assertions)]
pub fn is_shortage_planned() -> bool {
    IS_SHORTAGE_PLANNED.get()
}

/// Never, in this build.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub(crate) fn is_shortage_planned() -> bool {
    false
}

/// A global allocator that falls back on the pool.
pub struct Backed<A>(pub A);

// SAFETY: a call is handed on as it is to an allocator that keeps GlobalAlloc's promises, unless the piece is one of the pool;
// that hands out nothing twice, aligned as asked for, and takes back its own. Nothing here panics or allocates.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Backed<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those that the other asks for; so below.
        let pointer = unsafe { self.0.alloc(layout) };
        if pointer.is_null() { POOL.allocate(layout.size(), layout.align()) } else { pointer }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let pointer = unsafe { self.0.alloc_zeroed(layout) };
        if !pointer.is_null() {
            return pointer;
        }
        allocate(layout.size(), layout.align(), true).map_or(null_mut(), NonNull::as_ptr)
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !POOL.owns(pointer) {
            // SAFETY: as above; the piece is the other's.
            let moved = unsafe { self.0.realloc(pointer, layout, size) };
            if !moved.is_null() {
                return moved;
            }
        }
        // SAFETY: the caller's promises.
        unsafe { self.move_piece(pointer, layout, size) }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise; a piece goes back where it came from.
        unsafe {
            if POOL.owns(pointer) {
                POOL.free(pointer, layout.size());
            } else {
                self.0.dealloc(pointer, layout);
            }
        }
    }
}

impl<A: GlobalAlloc> Backed<A> {
    /// Moves a piece to another place: out of the pool, if there is memory again, or into it.
    ///
    /// # Safety
    /// As for `realloc`.
    #[cold]
    unsafe fn move_piece(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Ok(wanted) = Layout::from_size_align(size, layout.align()) else { return null_mut() };
        // SAFETY: by the caller's promise the old piece has the size in its layout, and the new one has its own.
        unsafe {
            let moved = self.alloc(wanted);
            if !moved.is_null() {
                moved.copy_from_nonoverlapping(pointer, layout.size().min(size));
                self.dealloc(pointer, layout);
            }
            moved
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tests of one process share one pool.
    static ONE: parking_lot::Mutex<()> = parking_lot::Mutex::new(());

    /// An allocator that refuses everything.
    struct Refusing;

    // SAFETY: it hands out nothing.
    unsafe impl GlobalAlloc for Refusing {
        unsafe fn alloc(&self, _: Layout) -> *mut u8 {
            null_mut()
        }

        unsafe fn dealloc(&self, _: *mut u8, _: Layout) {
            unreachable!("it has handed out nothing");
        }
    }

    #[test]
    fn pieces_are_whole_aligned_and_nobody_elses_and_all_come_back() {
        let _one = ONE.lock();
        let allocator = Backed(Refusing);
        let mut held = Vec::new();
        for step in 0..3_000usize {
            let (bytes, alignment) = (1 + step * 37 % 5_000, 1 << (step % 13));
            let layout = Layout::from_size_align(bytes, alignment).unwrap();
            // SAFETY: sizes are not 0; a piece is used by its one owner, with its layout, until it is given back.
            unsafe {
                let mut piece = allocator.alloc_zeroed(layout);
                assert!(!piece.is_null() && piece.addr().is_multiple_of(alignment), "step {step}");
                assert!(std::slice::from_raw_parts(piece, bytes).iter().all(|byte| *byte == 0));
                piece.write_bytes(step as u8, bytes);
                let mut layout = layout;
                if step % 5 == 0 {
                    piece = allocator.realloc(piece, layout, bytes * 2);
                    layout = Layout::from_size_align(bytes * 2, alignment).unwrap();
                }
                held.push((piece, layout, bytes, step as u8));
                if step % 3 > 0 {
                    let (piece, layout, bytes, content) = held.swap_remove(step * 7 % held.len());
                    let bytes = std::slice::from_raw_parts(piece, bytes);
                    assert!(bytes.iter().all(|byte| *byte == content), "step {step}");
                    allocator.dealloc(piece, layout);
                }
            }
        }
        assert!(used_bytes() > 0);
        for (piece, layout, ..) in held {
            // SAFETY: as above.
            unsafe { allocator.dealloc(piece, layout) };
        }
        assert_eq!(used_bytes(), 0);
    }

    #[test]
    fn large_pieces_are_refused_and_so_is_what_is_more_than_all_of_it() {
        let _one = ONE.lock();
        let piece = |bytes| allocate(bytes, 64, false);
        assert!(piece(PIECE_MAX + 1).is_none());
        let all: Vec<_> = std::iter::from_fn(|| piece(PIECE_MAX)).collect();
        assert_eq!(all.len(), BYTES / PIECE_MAX);
        assert!(piece(1).is_none());
        // SAFETY: handed out above, no longer used.
        all.into_iter().for_each(|piece| unsafe { free(piece, PIECE_MAX) });
        assert_eq!(used_bytes(), 0);
    }

    #[test]
    #[cfg(debug_assertions)]
    fn a_thread_is_told_once_and_only_while_there_is_no_memory() {
        let _one = ONE.lock();
        assert!(!is_short(), "nothing was taken");
        let take = || allocate(100, 64, true).expect("there is room");
        plan_shortage(true);
        let piece = take();
        assert!(!std::thread::spawn(is_short).join().unwrap(), "others have taken nothing");
        assert!(is_short() && !is_short());
        // SAFETY: handed out above, no longer used.
        unsafe { free(piece, 100) };
        let piece = take();
        plan_shortage(false);
        assert!(!is_short(), "there is memory by now");
        // SAFETY: as above.
        unsafe { free(piece, 100) };
    }
}
