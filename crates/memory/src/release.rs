//! Giving much memory back in steps.
//!
//! When a hundred megabytes are given back at once, the operating system takes 25,000 pages out of the process. That takes
//! some ten milliseconds, during which no other thread of the process can map or protect memory, as allocations now and then
//! do. So a large buffer gives its pages back a few hundred at a time; what the allocator unmaps in the end is empty.
//!
//! ```text
//! at once     ├─────────────── others wait ───────────────┤
//! in steps    ├─┤├─┤├─┤├─┤├─┤├─┤├─┤├─┤├─┤├─┤├─┤├─┤├─┤├─┤├─┤  and go on in between
//! ```
//!
//! It works below every allocator, because it concerns pages that lie wholly inside of the buffer.
//!
//! Not here: hash tables, whose memory their owner cannot see.

use std::mem::MaybeUninit;

/// Bytes from which on a buffer is given back in steps.
const LARGE_BYTES: usize = 4 << 20;
/// Bytes of a step: some hundred pages, in some ten microseconds.
const STEP_BYTES: usize = 1 << 20;
/// The largest page there is below a huge one; steps begin at multiples of it.
const PAGE_BYTES: usize = 64 << 10;

/// Drops a buffer without holding up others. Costs what dropping it costs, and some microseconds for each megabyte.
pub fn release<T>(mut buffer: Vec<T>) {
    buffer.clear();
    let room = buffer.spare_capacity_mut();
    if size_of_val(room) >= LARGE_BYTES {
        give_pages_back(room);
    }
}

/// Lets the pages of a piece of memory that holds nothing go. It stays usable, with any content.
#[cfg(target_os = "linux")]
fn give_pages_back<T>(room: &mut [MaybeUninit<T>]) {
    let range = room.as_mut_ptr_range();
    let first = range.start.addr().next_multiple_of(PAGE_BYTES);
    let end = range.end.addr() / PAGE_BYTES * PAGE_BYTES;
    for start in (first..end).step_by(STEP_BYTES) {
        let pages = range.start.with_addr(start);
        let bytes = STEP_BYTES.min(end - start);
        // SAFETY: whole pages of memory that the caller has to itself and that holds nothing. To lose their content is all that
        // happens to them; where the system refuses, nothing happens.
        unsafe { libc::madvise(pages.cast(), bytes, libc::MADV_DONTNEED) };
    }
}

#[cfg(not(target_os = "linux"))]
fn give_pages_back<T>(_: &mut [MaybeUninit<T>]) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// How many of the pages inside of a buffer are in memory.
    fn pages_of(buffer: &mut Vec<u64>) -> usize {
        const SMALL_PAGE: usize = 4096;
        let room = buffer.spare_capacity_mut().as_mut_ptr_range();
        let first = room.start.addr().next_multiple_of(PAGE_BYTES);
        let bytes = room.end.addr() / PAGE_BYTES * PAGE_BYTES - first;
        let mut present = vec![0u8; bytes / SMALL_PAGE];
        // SAFETY: the range lies inside of the buffer, and there is a byte for each page.
        let asked = unsafe { libc::mincore(room.start.with_addr(first).cast(), bytes, present.as_mut_ptr()) };
        assert_eq!(asked, 0);
        present.iter().filter(|page| **page & 1 == 1).count()
    }

    #[test]
    fn the_pages_of_a_large_buffer_are_gone_before_it_is_dropped() {
        let mut buffer = vec![7u64; 2 << 20];
        buffer.clear();
        assert!(pages_of(&mut buffer) > 4000);
        give_pages_back(buffer.spare_capacity_mut());
        assert_eq!(pages_of(&mut buffer), 0);
        buffer.resize(2 << 20, 9);
        assert!(buffer.iter().all(|word| *word == 9), "it can be used again");
    }

    #[test]
    fn elements_are_dropped_and_small_buffers_are_no_matter() {
        let shared = std::sync::Arc::new(());
        release(vec![shared.clone(); 3]);
        release(vec![shared.clone(); 1 << 20]);
        release(Vec::<u64>::new());
        release(vec![(); 10]);
        assert_eq!(std::sync::Arc::strong_count(&shared), 1);
    }
}
