//! Private anonymous memory: what lies under regions that are copied, forked, or snapshotted by the kernel, and the
//! ranges of addresses into which everything else is mapped.

use ankerdb_base::{Error, Result, SqlState};
use std::ptr::NonNull;

/// A range of addresses of its own, given back on drop with whatever is mapped there then. Zeroed at first; pages
/// appear when they are touched.
pub(crate) struct Mapping {
    pointer: NonNull<u8>,
    bytes: usize,
}

// SAFETY: plain memory; its users see to it that accesses do not conflict.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Memory to read and write, aligned to `alignment` (a power of two, a page at least). 53200 if the system has no
    /// such range of addresses, or no memory, to give.
    pub(crate) fn new(bytes: usize, alignment: usize) -> Result<Mapping> {
        Mapping::readable(bytes, alignment, libc::MAP_PRIVATE)
    }

    /// Like [`new`](Self::new), but processes forked from now on have the memory itself, not an image of it.
    pub(crate) fn shared(bytes: usize, alignment: usize) -> Result<Mapping> {
        Mapping::readable(bytes, alignment, libc::MAP_SHARED)
    }

    fn readable(bytes: usize, alignment: usize, sharing: i32) -> Result<Mapping> {
        let mapping = Mapping::map(bytes, alignment, libc::PROT_READ | libc::PROT_WRITE, sharing)?;
        if alignment > crate::PageSize::Small.bytes() {
            mapping.advise(libc::MADV_HUGEPAGE);
        }
        Ok(mapping)
    }

    /// Addresses that must not be touched until something is mapped over them.
    pub(crate) fn reserve(bytes: usize, alignment: usize) -> Result<Mapping> {
        Mapping::map(bytes, alignment, libc::PROT_NONE, libc::MAP_PRIVATE)
    }

    fn map(bytes: usize, alignment: usize, protection: i32, sharing: i32) -> Result<Mapping> {
        let surplus = alignment.saturating_sub(crate::PageSize::Small.bytes());
        let all = bytes.checked_add(surplus).ok_or_else(|| out_of_memory(bytes))?;
        let flags = sharing | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: an anonymous mapping at an address that the system chooses touches nothing that exists.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), all, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(out_of_memory(bytes));
        }
        let before = (start as usize).next_multiple_of(alignment.max(1)) - start as usize;
        let pointer = start.cast::<u8>().wrapping_add(before);
        for (from, len) in [(start.cast::<u8>(), before), (pointer.wrapping_add(bytes), surplus - before)] {
            if len > 0 {
                // SAFETY: a part of the mapping just made, which no other code knows.
                unsafe { libc::munmap(from.cast(), len) };
            }
        }
        Ok(Mapping { pointer: NonNull::new(pointer).ok_or_else(|| out_of_memory(bytes))?, bytes })
    }

    /// Memory that is mapped already.
    ///
    /// # Safety
    /// `bytes` are mapped at `pointer`, and they are not unmapped elsewhere.
    pub(crate) unsafe fn adopt(pointer: NonNull<u8>, bytes: usize) -> Mapping {
        Mapping { pointer, bytes }
    }

    /// Advice to the kernel, which it may not follow.
    pub(crate) fn advise(&self, advice: i32) {
        // SAFETY: the range is ours; the advice used here does not change what it contains.
        unsafe { libc::madvise(self.pointer.as_ptr().cast(), self.bytes, advice) };
    }

    pub(crate) fn pointer(&self) -> NonNull<u8> {
        self.pointer
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is ours, and it is no longer used.
        unsafe { libc::munmap(self.pointer.as_ptr().cast(), self.bytes) };
    }
}

pub(crate) fn out_of_memory(bytes: usize) -> Error {
    let system = std::io::Error::last_os_error();
    Error::new(SqlState::OutOfMemory, format!("could not map {bytes} bytes of memory: {system}"))
}
