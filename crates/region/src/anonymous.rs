//! Private anonymous memory: what lies under regions that are copied, forked, or snapshotted by the kernel.

use ankerdb_base::{Error, Result, SqlState};
use std::ptr::NonNull;

/// A mapping of its own, given back on drop. Zeroed; pages appear when they are touched.
pub(crate) struct Mapping {
    pointer: NonNull<u8>,
    bytes: usize,
}

// SAFETY: plain memory; who may access it how is its users' business.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// 53200 if the system has no such range of addresses, or no memory, to give.
    pub fn new(bytes: usize) -> Result<Mapping> {
        // SAFETY: an anonymous mapping at an address that the system chooses touches nothing that exists.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        match NonNull::new(start.cast::<u8>()) {
            Some(pointer) if start != libc::MAP_FAILED => Ok(Mapping { pointer, bytes }),
            _ => Err(out_of_memory(bytes)),
        }
    }

    pub fn pointer(&self) -> NonNull<u8> {
        self.pointer
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nobody uses it any more.
        unsafe { libc::munmap(self.pointer.as_ptr().cast(), self.bytes) };
    }
}

fn out_of_memory(bytes: usize) -> Error {
    let system = std::io::Error::last_os_error();
    Error::new(SqlState::OutOfMemory, format!("could not map {bytes} bytes of memory: {system}"))
}
