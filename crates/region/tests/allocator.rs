//! An allocator that another thread is using when the process forks: its lock stays held in the child for ever.

use ankerdb_base::{Error, Result, SqlState};
use ankerdb_memory::child::Forkable;
use ankerdb_region::fork::{Output, SharedBytes, spawn};
use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The system's allocator under a lock of our own.
struct Locked;

static LOCK: AtomicBool = AtomicBool::new(false);

fn lock() {
    while LOCK.swap(true, Ordering::Acquire) {
        std::hint::spin_loop();
    }
}

fn unlock() {
    LOCK.store(false, Ordering::Release);
}

// SAFETY: every call is handed on as it is.
unsafe impl GlobalAlloc for Locked {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        lock();
        // SAFETY: the caller's promises.
        let pointer = unsafe { System.alloc(layout) };
        unlock();
        pointer
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        lock();
        // SAFETY: the caller's promises.
        unsafe { System.dealloc(pointer, layout) };
        unlock();
    }
}

#[global_allocator]
static MEMORY: Forkable<Locked> = Forkable(Locked);

/// Takes the lock, like another thread that is allocating.
struct Held;

impl Drop for Held {
    fn drop(&mut self) {
        unlock();
    }
}

/// The child's verdict; `None` if it did not end in time.
fn forked_with_the_lock_held(work: impl FnOnce(&mut Output) -> Result<()>) -> Option<Result<SharedBytes>> {
    let held = || {
        lock();
        Ok(Held)
    };
    let child = spawn(1 << 20, held, work).expect("the system can fork");
    let end = Instant::now() + Duration::from_secs(2);
    match child.wait(&|| Instant::now() > end) {
        Err(error) if error.state() == SqlState::QueryCanceled => None,
        other => Some(other),
    }
}

#[test]
fn a_child_allocates_without_its_parents_allocator() {
    let before: Vec<u64> = (0..1000).collect();
    let results = forked_with_the_lock_held(|output| {
        let mut grown = before.clone();
        grown.extend(0..100_000);
        // Memory of the parent grows and goes, too.
        let mut foreign = before;
        foreign.extend(0..1000);
        let words = format!("{} {} {}", grown.len(), foreign[1999], vec![0u8; 3 << 20].len());
        drop((grown, foreign));
        output.write_all(words.as_bytes()).map_err(|error| Error::internal(error.to_string()))
    });
    let results = results.expect("it does not hang").expect("it ends well");
    assert_eq!(results.as_ref(), b"101000 999 3145728");
    // The control: what the child is kept from.
    let direct = forked_with_the_lock_held(|_| {
        // SAFETY: the layout has a size above zero.
        std::hint::black_box(unsafe { Locked.alloc(Layout::new::<u64>()) });
        Ok(())
    });
    assert!(direct.is_none(), "the parent's allocator cannot be used in the child");
}
