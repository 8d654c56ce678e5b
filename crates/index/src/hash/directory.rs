//! Where the heads of the buckets are.
//!
//! Bucket numbers go up to a power of two, 2 to the *level*. The directory has one array of heads for the first 16
//! buckets and one for each doubling since:
//!
//! ```text
//! segment   0      1       2       3
//! buckets   0..16  16..32  32..64  64..128 ...
//! ```
//!
//! Arrays are never moved or freed before the index is, and the level only rises, after its array is there. An array
//! begins as untouched zeros: buckets that are not born. Large ones cost nothing before they are touched.

use super::line::{LINE_BYTES, Line};
use ankerdb_memory::{allocate_zeroed, free, try_allocate_zeroed};
use parking_lot::Mutex;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// The level of an empty index.
pub(crate) const FIRST_LEVEL: u32 = 4;
/// More buckets than any memory has room for.
const LEVEL_MAX: u32 = 40;
const SEGMENTS: usize = (LEVEL_MAX - FIRST_LEVEL + 1) as usize;

/// The arrays of heads.
pub(crate) struct Directory {
    level: AtomicU32,
    segments: [AtomicPtr<Line>; SEGMENTS],
    /// Owns the arrays. Held while one is added.
    memory: Mutex<Vec<Segment>>,
}

/// Zeroed memory for an array of lines.
struct Segment {
    address: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a segment is plain memory that it owns; what is in it is atomic.
unsafe impl Send for Segment {}

impl Segment {
    fn allocate(lines: usize) -> Segment {
        let bytes = lines * LINE_BYTES;
        Segment { address: allocate_zeroed(bytes), bytes }
    }

    fn try_allocate(lines: usize) -> Option<Segment> {
        let bytes = lines.checked_mul(LINE_BYTES)?;
        try_allocate_zeroed(bytes).map(|address| Segment { address, bytes })
    }

    fn lines(&self) -> *mut Line {
        self.address.as_ptr().cast()
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: allocated with this size, and owned.
        unsafe { free(self.address, self.bytes) };
    }
}

/// The segment of a bucket and its place there.
#[inline]
fn place(bucket: u64) -> (usize, usize) {
    if bucket >> FIRST_LEVEL == 0 {
        return (0, bucket as usize);
    }
    let top = bucket.ilog2();
    ((top - FIRST_LEVEL + 1) as usize, (bucket ^ 1 << top) as usize)
}

impl Directory {
    /// Sixteen buckets, born.
    pub(crate) fn new() -> Directory {
        let directory = Directory {
            level: AtomicU32::new(FIRST_LEVEL),
            segments: std::array::from_fn(|_| AtomicPtr::default()),
            memory: Mutex::new(Vec::new()),
        };
        directory.add_segment(&mut directory.memory.lock(), Segment::allocate(1 << FIRST_LEVEL));
        (0..1 << FIRST_LEVEL).for_each(|bucket| directory.head(bucket).set_depth(FIRST_LEVEL));
        directory
    }

    fn add_segment(&self, memory: &mut Vec<Segment>, segment: Segment) {
        self.segments[memory.len()].store(segment.lines(), Ordering::Release);
        memory.push(segment);
    }

    /// There are 2 to this power buckets, born or not.
    #[inline]
    pub(crate) fn level(&self) -> u32 {
        self.level.load(Ordering::Acquire)
    }

    /// The head of a bucket, whose number is below 2 to the power of a level that was seen here (or in a bucket's
    /// depth).
    #[inline]
    pub(crate) fn head(&self, bucket: u64) -> &Line {
        let (segment, index) = place(bucket);
        let lines = self.segments[segment].load(Ordering::Acquire);
        debug_assert!(!lines.is_null());
        // SAFETY: the segment was there before the level was (header), and lives as long as the directory; it has a
        // line for each of its buckets, and all of a line is atomic.
        unsafe { &*lines.add(index) }
    }

    /// Doubles the number of buckets, unless the level has changed, another thread is doing it, or there is no memory: then
    /// the buckets get longer, until there is some.
    pub(crate) fn grow(&self, level: u32) -> bool {
        let Some(mut memory) = self.memory.try_lock() else { return false };
        if self.level() != level || level == LEVEL_MAX {
            return false;
        }
        let Some(segment) = Segment::try_allocate(1 << level) else { return false };
        self.add_segment(&mut memory, segment);
        self.level.store(level + 1, Ordering::Release);
        true
    }

    /// Asks for the line of a bucket.
    #[inline]
    pub(crate) fn prefetch(&self, bucket: u64) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a hint; it loads nothing.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(self.head(bucket)).cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = bucket;
    }

    /// Bytes of all arrays, touched or not.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory.lock().iter().map(|segment| segment.bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bucket_has_a_line_of_its_own() {
        let directory = Directory::new();
        assert!((4..9).all(|level| directory.grow(level)) && !directory.grow(8));
        let mut lines: Vec<usize> =
            (0..512).map(|bucket| &raw const *directory.head(bucket) as usize).collect();
        assert!(lines.iter().all(|line| line % LINE_BYTES == 0));
        lines.sort_unstable();
        lines.dedup();
        assert_eq!((lines.len(), directory.level()), (512, 9));
    }
}
