//! Aligned memory that several threads read and write through atomics.
//!
//! Words that the SAFETY notes of this crate use:
//! - an *area* is initialized memory, 64-byte aligned, of fixed size. Its own memory is freed with it, *borrowed* memory
//!   belongs to a region that outlives it (`segment`);
//! - all access to a live area is by relaxed atomic loads and stores of naturally aligned units, so that a
//!   concurrent reader sees an old or a new unit, never undefined behaviour. Ordering comes from row headers
//!   (see `header`) and the lending protocol (`ankerdb_sync::lending`);
//! - *lent* memory is not written while the loan lasts; only then may it be read as plain bytes.

use ankerdb_base::{Error, Result, SqlState, failpoint};
use ankerdb_memory::{allocate, allocate_zeroed, free, try_allocate_zeroed};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

/// Arrow's recommended alignment, and that of a cache line.
const ALIGNMENT: usize = 64;

/// Aligned, shared memory. Its size is a multiple of 64 bytes.
pub struct Area {
    pointer: NonNull<u8>,
    /// Narrow, so that the mark beside it makes no area larger.
    bytes: u32,
    is_borrowed: bool,
}

// SAFETY: an area is plain memory accessed by atomics; its owner frees it once.
unsafe impl Send for Area {}
// SAFETY: as above.
unsafe impl Sync for Area {}

impl Area {
    /// Zeroed memory of at least `bytes` bytes, in huge pages where the system has them.
    pub fn zeroed(bytes: usize) -> Area {
        let bytes = bytes.next_multiple_of(ALIGNMENT).max(ALIGNMENT);
        Area { pointer: allocate_zeroed(bytes), bytes: narrow(bytes), is_borrowed: false }
    }

    /// Like [`zeroed`](Self::zeroed), but fails when there is no memory left.
    ///
    /// # Errors
    /// 53200 if there is no memory left, 54000 from 4 GiB on.
    pub fn try_zeroed(bytes: usize) -> Result<Area> {
        failpoint::reach("memory of a block")?;
        let bytes = bytes.next_multiple_of(ALIGNMENT).max(ALIGNMENT);
        let Ok(narrow) = u32::try_from(bytes) else {
            let message = format!("{bytes} bytes do not fit into one piece of memory");
            return Err(Error::new(SqlState::ProgramLimitExceeded, message));
        };
        let pointer = try_allocate_zeroed(bytes).ok_or_else(|| Error::out_of_memory(bytes))?;
        Ok(Area { pointer, bytes: narrow, is_borrowed: false })
    }

    /// Memory that another owner keeps, a multiple of 64 bytes.
    ///
    /// # Safety
    /// The memory is initialized, aligned to 64 bytes and outlives the area. It is accessed only through areas,
    /// or as `area`'s words allow.
    pub unsafe fn borrowed(pointer: NonNull<u8>, bytes: usize) -> Area {
        debug_assert!(pointer.as_ptr().addr().is_multiple_of(ALIGNMENT) && bytes.is_multiple_of(ALIGNMENT));
        Area { pointer, bytes: narrow(bytes), is_borrowed: true }
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes as usize
    }

    /// Where the memory starts.
    #[inline]
    pub fn pointer(&self) -> *mut u8 {
        self.pointer.as_ptr()
    }

    #[inline]
    fn unit<T>(&self, index: usize) -> &T {
        assert!((index + 1) * size_of::<T>() <= self.bytes(), "access beyond an area");
        // SAFETY: in bounds by the assertion; aligned, since the area is 64-byte aligned and T is one of the
        // atomic integers below, whose size is its alignment; atomics may be shared.
        unsafe { &*self.pointer.as_ptr().cast::<T>().add(index) }
    }

    /// The `index`-th byte.
    #[inline]
    pub fn byte(&self, index: usize) -> &AtomicU8 {
        self.unit(index)
    }

    /// The `index`-th 16-bit unit.
    #[inline]
    pub fn half(&self, index: usize) -> &AtomicU16 {
        self.unit(index)
    }

    /// The `index`-th 32-bit unit.
    #[inline]
    pub fn quad(&self, index: usize) -> &AtomicU32 {
        self.unit(index)
    }

    /// The `index`-th 64-bit unit.
    #[inline]
    pub fn word(&self, index: usize) -> &AtomicU64 {
        self.unit(index)
    }

    /// A copy of the first `bytes` bytes (rounded up to whole words), word by word: a concurrent write is in
    /// the copy or not, unit by unit.
    pub fn copy_prefix(&self, bytes: usize) -> Area {
        let rounded = bytes.next_multiple_of(ALIGNMENT).max(ALIGNMENT);
        let copy = Area { pointer: allocate(rounded), bytes: narrow(rounded), is_borrowed: false };
        let words = bytes.min(self.bytes()).div_ceil(8);
        let target = copy.pointer.as_ptr().cast::<u64>();
        for (index, from) in self.words(words).iter().enumerate() {
            // SAFETY: `words` words fit into the new memory, which is aligned and ours alone.
            unsafe { target.add(index).write(from.load(Relaxed)) };
        }
        // SAFETY: the rest of the new memory, which makes it wholly initialized before any other code sees it.
        unsafe { std::ptr::write_bytes(target.add(words), 0, rounded / 8 - words) };
        copy
    }

    /// The first `count` words.
    pub fn words(&self, count: usize) -> &[AtomicU64] {
        assert!(count * 8 <= self.bytes(), "access beyond an area");
        // SAFETY: in bounds by the assertion, aligned to 64 bytes, atomics may be shared.
        unsafe { std::slice::from_raw_parts(self.pointer.as_ptr().cast::<AtomicU64>(), count) }
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        if !self.is_borrowed {
            // SAFETY: allocated in `zeroed` or `copy_prefix` with the same size, freed here only.
            unsafe { free(self.pointer, self.bytes()) }
        }
    }
}

fn narrow(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("an area is far below 4 GiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_aligned_zeroed_and_copied() {
        let area = Area::zeroed(100);
        assert_eq!((area.bytes(), area.pointer() as usize % 64), (128, 0));
        assert!(area.words(16).iter().all(|word| word.load(Relaxed) == 0));
        area.quad(3).store(7, Relaxed);
        let copy = area.copy_prefix(16);
        assert_eq!(copy.quad(3).load(Relaxed), 7);
        area.quad(3).store(8, Relaxed);
        assert_eq!(copy.quad(3).load(Relaxed), 7);
    }

    #[test]
    #[should_panic(expected = "beyond an area")]
    fn access_out_of_bounds_panics() {
        Area::zeroed(64).word(8);
    }
}
