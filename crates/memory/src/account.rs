//! The account: how much memory this process has taken, and how far a thread may go.
//!
//! Memory runs out per process, so there is one account per process. Two feed it: what this crate maps, to the byte, and,
//! where the program's global allocator is a [`Counted`], what the heap hands out, by the sizes asked for. A program with
//! another allocator can [`sample`] what the system says instead, every few milliseconds.
//!
//! ```text
//! thread   + 40  + 512  - 40 ...   │ pending │  ── at 64 KiB up or down ──►  │ used │  one word for the process
//! thread   + 8192 - 512 ...        │ pending │  ─────────────────────────►   │      │
//! ```
//!
//! A thread adds up what it takes and gives back in a word of its own, and passes the sum on when it has grown to
//! [`CHUNK`]: two or three instructions for a piece of memory, and a shared cache line is touched only once in 64 KiB. So
//! the account is wrong by at most [`CHUNK`] for each thread that lives. A thread that ends passes on what it still has if
//! it has called [`attend`], or calls [`settle`] itself; other threads may leave up to a chunk behind.
//!
//! Limits are decided elsewhere, by looking at [`used`] where work grows. Two things help there. A thread knows whether it
//! [`has_grown`] since it last looked, so that a look costs nothing while nothing was taken. And mappings deep inside tables
//! and indexes are refused there, under a [`Ceiling`] that the thread has set before: only to callers that can handle it
//! (`try_allocate_zeroed`), and only when new memory is needed, not while there is room in what was mapped before.
//!
//! What is counted is what was asked for. The system counts pages: those that were touched, and also those that the allocator
//! keeps for later requests, and the ends of pieces. `docs/design/memory-limit.md` says how far the two may be apart.
//!
//! Not here: limits, and which requests are refused.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicPtr, AtomicUsize, Ordering::Relaxed};

/// Bytes that a thread takes or gives back before it passes them on.
pub const CHUNK: usize = 64 << 10;

/// A line that nothing else shares.
#[repr(align(128))]
struct Line<T>(T);

/// Bytes taken by all threads. Briefly below zero when one thread gives back memory that another took.
static USED: Line<AtomicIsize> = Line(AtomicIsize::new(0));
/// Bytes that only the system counts.
static SAMPLED: Line<AtomicUsize> = Line(AtomicUsize::new(0));
/// Whether the heap is counted piece by piece.
static IS_HEAP_COUNTED: AtomicBool = AtomicBool::new(false);

/// In a child whose parent is told: the word for it, and what the account was at the fork.
static TAKEN_IN_CHILD: AtomicPtr<AtomicUsize> = AtomicPtr::new(std::ptr::null_mut());
static BEFORE_FORK: AtomicIsize = AtomicIsize::new(0);

// None of these needs a destructor or initialization at run time, so that an allocator may use them at any time of a
// thread's life.
thread_local! {
    /// Taken less given back by this thread and not yet in `USED`.
    static PENDING: Cell<isize> = const { Cell::new(0) };
    /// What this thread has passed on, less what it has given back.
    static PASSED_ON: Cell<isize> = const { Cell::new(0) };
    /// The value of `PASSED_ON` at the last look.
    static LOOKED_AT: Cell<isize> = const { Cell::new(0) };
    /// The value of `PASSED_ON` when the current piece of work began.
    static BEGUN_AT: Cell<isize> = const { Cell::new(0) };
    /// See [`Ceiling`].
    static CEILING: Cell<usize> = const { Cell::new(usize::MAX) };
    /// Whether a ceiling was met.
    static WAS_REFUSED: Cell<bool> = const { Cell::new(false) };
}

/// Bytes that this process has taken. One load, of a word that changes with every chunk.
#[inline]
pub fn used() -> usize {
    USED.0.load(Relaxed).max(0) as usize + SAMPLED.0.load(Relaxed)
}

/// Notes a piece of the heap that was taken (or, negative, given back) by this thread.
#[inline(always)]
fn note(bytes: isize) {
    let pending = PENDING.get().wrapping_add(bytes);
    PENDING.set(pending);
    if pending.unsigned_abs() >= CHUNK {
        pass_on();
    }
}

#[cold]
#[inline(never)]
fn pass_on() {
    IS_HEAP_COUNTED.store(true, Relaxed);
    settle();
}

/// Passes on what this thread has taken and given back so far. To be called by threads that end.
pub fn settle() {
    let pending = PENDING.take();
    USED.0.fetch_add(pending, Relaxed);
    PASSED_ON.set(PASSED_ON.get().wrapping_add(pending));
    tell();
}

/// This thread will [`settle`] when it ends.
pub fn attend() {
    struct Settles;
    impl Drop for Settles {
        fn drop(&mut self) {
            settle();
        }
    }
    thread_local!(static SETTLES: Settles = const { Settles });
    // A thread that is ending already has settled, or is about to.
    let _ = SETTLES.try_with(|_| ());
}

/// From now on a forked child tells its parent here how many bytes it has taken since. The word lies in memory that both
/// have, for as long as the child lives.
pub fn tell_parent(taken: &'static AtomicUsize) {
    settle();
    BEFORE_FORK.store(USED.0.load(Relaxed), Relaxed);
    TAKEN_IN_CHILD.store((&raw const *taken).cast_mut(), Relaxed);
}

/// In a child: tells the parent.
fn tell() {
    let word = TAKEN_IN_CHILD.load(Relaxed);
    if !word.is_null() {
        let taken = USED.0.load(Relaxed) - BEFORE_FORK.load(Relaxed);
        // SAFETY: the word was handed over for good.
        unsafe { &*word }.store(taken.max(0) as usize, Relaxed);
    }
}

/// Notes memory that was mapped (or, negative, unmapped).
pub(crate) fn note_mapping(bytes: isize) {
    USED.0.fetch_add(bytes, Relaxed);
    tell();
    if bytes > 0 {
        // It has grown; but a slab is for all, and not this piece of work's own.
        LOOKED_AT.set(PASSED_ON.get().wrapping_sub(1).min(LOOKED_AT.get()));
    }
}

/// Notes memory that was mapped elsewhere, such as a region.
pub fn note_mapped(bytes: usize) {
    note_mapping(bytes as isize);
}

/// Notes memory noted before that was unmapped.
pub fn note_unmapped(bytes: usize) {
    note_mapping(-(bytes as isize));
}

/// A new piece of work begins on this thread: what it takes is counted from here on.
#[inline]
pub fn begin_work() {
    let passed_on = PASSED_ON.get();
    BEGUN_AT.set(passed_on);
    LOOKED_AT.set(passed_on);
}

/// What this thread has taken from the heap in its life, less what it has given back; modulo the size of a number. Tells
/// whether something has freed memory.
pub fn balance() -> isize {
    PASSED_ON.get().wrapping_add(PENDING.get())
}

/// What the piece of work at hand has taken from the heap on this thread, less what it has given back; to a chunk.
pub fn work_bytes() -> usize {
    PASSED_ON.get().wrapping_sub(BEGUN_AT.get()).max(0) as usize
}

/// Whether this thread has taken a chunk, or mapped memory, since it last [`looked`](look). Costs two loads of the thread's own.
#[inline(always)]
pub fn has_grown() -> bool {
    PASSED_ON.get().wrapping_sub(LOOKED_AT.get()) > 0
}

/// Bytes used, as [`used`]; until the thread takes another chunk it has not [`grown`](has_grown).
pub fn look() -> usize {
    LOOKED_AT.set(PASSED_ON.get());
    used()
}

/// Whether the heap is counted piece by piece, as far as is known: at the first chunk it is.
pub fn is_heap_counted() -> bool {
    IS_HEAP_COUNTED.load(Relaxed)
}

/// Where the heap is not counted: takes over what the system says that this process uses. Costs some microseconds. Does
/// nothing elsewhere, or if the system says nothing.
pub fn sample() {
    if is_heap_counted() {
        return;
    }
    if let Some(resident) = resident_bytes() {
        SAMPLED.0.store(resident.saturating_sub(USED.0.load(Relaxed).max(0) as usize), Relaxed);
    }
}

/// Bytes of this process that lie in memory, as the system counts them, files aside.
pub fn resident_bytes() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = text.split_whitespace().skip(1).map_while(|field| field.parse::<usize>().ok());
    let (resident, of_files) = (pages.next()?, pages.next()?);
    Some(resident.saturating_sub(of_files) * page_bytes())
}

#[cfg(target_os = "linux")]
fn page_bytes() -> usize {
    // SAFETY: asks for a constant of the system.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

#[cfg(not(target_os = "linux"))]
fn page_bytes() -> usize {
    4096
}

/// While it lives, this thread maps nothing that would bring the process above so many bytes, where the caller can be
/// refused. Ceilings do not add up: the last one counts.
#[must_use]
pub struct Ceiling(usize);

impl Ceiling {
    /// Puts it up.
    pub fn put_up(bytes: usize) -> Ceiling {
        WAS_REFUSED.set(false);
        Ceiling(CEILING.replace(bytes))
    }

    /// Whether this thread met a ceiling since the last one was put up.
    pub fn was_met() -> bool {
        WAS_REFUSED.get()
    }
}

impl Drop for Ceiling {
    fn drop(&mut self) {
        CEILING.set(self.0);
    }
}

/// Whether this thread may map so many bytes more.
pub fn may_map(bytes: usize) -> bool {
    let ceiling = CEILING.get();
    let may = ceiling == usize::MAX || used().saturating_add(bytes) <= ceiling;
    if !may {
        WAS_REFUSED.set(true);
    }
    may
}

/// A global allocator whose pieces are in the account.
pub struct Counted<A>(pub A);

// SAFETY: every call is handed on as it is to an allocator that keeps GlobalAlloc's promises; counting neither allocates
// nor panics.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counted<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those that the other asks for; so below.
        let pointer = unsafe { self.0.alloc(layout) };
        if !pointer.is_null() {
            note(layout.size() as isize);
        }
        pointer
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let pointer = unsafe { self.0.alloc_zeroed(layout) };
        if !pointer.is_null() {
            note(layout.size() as isize);
        }
        pointer
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        let moved = unsafe { self.0.realloc(pointer, layout, size) };
        if !moved.is_null() {
            note(size as isize - layout.size() as isize);
        }
        moved
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { self.0.dealloc(pointer, layout) };
        note(-(layout.size() as isize));
    }
}
