//! Tests that run for every technique that this machine has.
//!
//! A technique that it cannot run says NOT HERE, with the reason, on standard error; `expected.rs` tells whether that may be.

mod isolation;
mod model;
mod process;
mod race;

use ankerdb_region::{PageSize, Region, RegionSnapshot, Technique};
use std::io::Write;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};

const PAGE: usize = 4096;

/// The techniques with snapshots in this process that work here. The others are named once, past the capture of output.
fn available() -> Vec<Technique> {
    static CHECKED: LazyLock<Vec<Technique>> = LazyLock::new(|| {
        let inside = Technique::ALL.into_iter().filter(|technique| *technique != Technique::Fork);
        let works = |technique: &Technique| match technique.check() {
            Ok(()) => true,
            Err(error) => {
                let hint = error.hint().unwrap_or("no hint");
                let _ = writeln!(std::io::stderr(), "NOT HERE: {}: {error}; {hint}", technique.name());
                false
            }
        };
        inside.filter(works).collect()
    });
    CHECKED.clone()
}

/// Every technique with both sizes of pages.
fn each(test: impl Fn(Technique, PageSize)) {
    for technique in available() {
        for pages in [PageSize::Small, PageSize::Huge] {
            test(technique, pages);
        }
    }
}

trait Words {
    fn start(&self) -> NonNull<u8>;
    fn len(&self) -> usize;

    /// The word that starts at a byte.
    fn word(&self, byte: usize) -> &AtomicU64 {
        assert!(byte.is_multiple_of(8) && byte + 8 <= self.len());
        // SAFETY: inside the memory, which lives as long as `self`.
        unsafe { &*self.start().as_ptr().add(byte).cast::<AtomicU64>() }
    }

    fn get(&self, byte: usize) -> u64 {
        self.word(byte).load(Relaxed)
    }

    fn put(&self, byte: usize, value: u64) {
        self.word(byte).store(value, Relaxed);
    }
}

impl Words for Arc<Region> {
    fn start(&self) -> NonNull<u8> {
        self.pointer()
    }

    fn len(&self) -> usize {
        self.bytes()
    }
}

impl Words for RegionSnapshot {
    fn start(&self) -> NonNull<u8> {
        self.pointer()
    }

    fn len(&self) -> usize {
        self.bytes()
    }
}

/// Lines of `/proc/self/maps` inside a range.
fn mappings_between(start: NonNull<u8>, bytes: usize) -> usize {
    let range = start.as_ptr() as usize..start.as_ptr() as usize + bytes;
    let maps = std::fs::read_to_string("/proc/self/maps").expect("/proc");
    let starts = maps.lines().filter_map(|line| usize::from_str_radix(line.split('-').next()?, 16).ok());
    starts.filter(|start| range.contains(start)).count()
}
