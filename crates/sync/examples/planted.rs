//! Bugs for the sanitizers to find: controls of `./run sanitize`. A sanitizer that misses one does not work.
//!
//! ```text
//! planted race             a version that is linked without release: ThreadSanitizer
//! planted overflow         a read behind the last cell of an array: AddressSanitizer
//! planted use-after-free   a version that is freed under its reader: AddressSanitizer
//! ```
//!
//! On x86-64 none of them does visible harm, which is why it takes a sanitizer.

use std::hint::black_box;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// A row's version chain in small: a pointer to what the row was before.
struct Version {
    begin: u64,
}

/// The writer links the version with Relaxed where Release belongs; the reader's Acquire does not help. The writer stays
/// until the reader has looked, and both repeat it: a sanitizer may forget what an ended thread did.
fn race() -> u64 {
    let read = || {
        let (chain, was_read) = (AtomicPtr::new(null_mut::<Version>()), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                chain.store(Box::into_raw(Box::new(Version { begin: 7 })), Ordering::Relaxed);
                while was_read.load(Ordering::Relaxed) == 0 {
                    std::thread::yield_now();
                }
            });
            loop {
                // SAFETY: never freed; that its content may not be there yet is the bug.
                if let Some(version) = unsafe { chain.load(Ordering::Acquire).as_ref() } {
                    was_read.store(1, Ordering::Relaxed);
                    return version.begin;
                }
                std::thread::yield_now();
            }
        })
    };
    (0..100).map(|_| read()).sum()
}

/// One cell too many.
fn overflow() -> u64 {
    let cells: Vec<AtomicU64> = (0..8).map(AtomicU64::new).collect();
    let count = black_box(cells.len() + 1);
    // SAFETY: none, the last one is not there: that is the bug.
    (0..count).map(|cell| unsafe { (*cells.as_ptr().add(cell)).load(Ordering::Relaxed) }).sum()
}

/// Freed at once where it should have been retired.
fn use_after_free() -> u64 {
    let version = Box::into_raw(Box::new(Version { begin: 7 }));
    let reader = black_box(version);
    // SAFETY: the one owner; that a reader is left is the bug.
    drop(unsafe { Box::from_raw(version) });
    // SAFETY: none.
    unsafe { (*reader).begin }
}

fn main() {
    let bug = std::env::args().nth(1).unwrap_or_default();
    let result = match &bug[..] {
        "race" => race(),
        "overflow" => overflow(),
        "use-after-free" => use_after_free(),
        _ => panic!("planted race|overflow|use-after-free"),
    };
    println!("the {bug} was not found: {result}");
}
