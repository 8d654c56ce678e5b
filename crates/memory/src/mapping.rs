//! Memory from the operating system, aligned to huge pages.

use crate::SLAB_BYTES;
use std::ptr::NonNull;

/// Zeroed memory aligned to [`SLAB_BYTES`], a multiple of which `bytes` must be; `None` if there is none left. Asks for
/// huge pages; a refusal changes nothing but the speed.
#[cfg(target_os = "linux")]
pub(crate) fn map(bytes: usize) -> Option<NonNull<u8>> {
    // Mappings are aligned to small pages only: map more, and give back what lies around the aligned part.
    let wanted = bytes + SLAB_BYTES;
    // SAFETY: an anonymous mapping at an address that the system chooses touches nothing that exists.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            wanted,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return None;
    }
    let before = start.addr().next_multiple_of(SLAB_BYTES) - start.addr();
    let pointer = start.wrapping_byte_add(before);
    // SAFETY: both pieces are parts of the mapping just made, outside of what is kept; the advice concerns what is kept.
    unsafe {
        if before > 0 {
            libc::munmap(start, before);
        }
        let behind = wanted - before - bytes;
        if behind > 0 {
            libc::munmap(pointer.wrapping_byte_add(bytes), behind);
        }
        libc::madvise(pointer, bytes, libc::MADV_HUGEPAGE);
    }
    NonNull::new(pointer.cast())
}

/// Gives a mapping back.
///
/// # Safety
/// It came from [`map`] with the same `bytes`, and it is no longer used.
#[cfg(target_os = "linux")]
pub(crate) unsafe fn unmap(pointer: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { libc::munmap(pointer.as_ptr().cast(), bytes) };
}

#[cfg(not(target_os = "linux"))]
fn layout(bytes: usize) -> std::alloc::Layout {
    std::alloc::Layout::from_size_align(bytes, SLAB_BYTES).expect("a size below isize::MAX")
}

/// Zeroed memory aligned to [`SLAB_BYTES`]; `None` if there is none left.
#[cfg(not(target_os = "linux"))]
pub fn map(bytes: usize) -> Option<NonNull<u8>> {
    // SAFETY: the layout has a size above zero.
    NonNull::new(unsafe { std::alloc::alloc_zeroed(layout(bytes)) })
}

/// Gives memory back.
///
/// # Safety
/// It came from [`map`] with the same `bytes`, and it is no longer used.
#[cfg(not(target_os = "linux"))]
pub unsafe fn unmap(pointer: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { std::alloc::dealloc(pointer.as_ptr(), layout(bytes)) };
}
