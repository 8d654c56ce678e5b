//! How a write to a page that a snapshot holds is found: page protection and a signal, or `userfaultfd`.

use crate::file::Lack;
use crate::pages::PageEntry;
use crate::userfault::Userfault;

#[derive(Clone, Copy)]
pub(crate) enum Detector {
    /// `mprotect`; the write raises SIGSEGV in the writing thread (`handler`).
    Protection,
    /// `UFFDIO_WRITEPROTECT`; the writing thread sleeps in the kernel, another one serves it (`userfault`).
    Userfault(&'static Userfault),
}

impl Detector {
    /// Live memory has been mapped here.
    pub(crate) fn watch(self, at: *mut u8, bytes: usize) -> Result<(), Lack> {
        match self {
            Detector::Protection => Ok(()),
            Detector::Userfault(userfault) => userfault.register(at, bytes),
        }
    }

    /// Writes to the range are held up from the return of this call on.
    pub(crate) fn protect(self, at: *mut u8, bytes: usize) -> Result<(), Lack> {
        match self {
            Detector::Protection => protect(at, bytes, libc::PROT_READ),
            Detector::Userfault(userfault) => userfault.protect(at, bytes),
        }
    }

    /// Writes to the range go through.
    pub(crate) fn release(self, at: *mut u8, bytes: usize) -> Result<(), Lack> {
        match self {
            Detector::Protection => protect(at, bytes, libc::PROT_READ | libc::PROT_WRITE),
            Detector::Userfault(userfault) => userfault.release(at, bytes),
        }
    }

    /// Threads that wait for the range try again.
    pub(crate) fn wake(self, at: *mut u8, bytes: usize) {
        if let Detector::Userfault(userfault) = self {
            userfault.wake(at, bytes);
        }
    }

    /// Whether neighbouring units need two mappings: for different runs of the file always; for different protection, if that
    /// is a property of a mapping.
    pub(crate) fn splits(self, left: PageEntry, right: PageEntry) -> bool {
        match self {
            Detector::Protection => left != right,
            Detector::Userfault(_) => left.generation() != right.generation(),
        }
    }
}

fn protect(at: *mut u8, bytes: usize, protection: i32) -> Result<(), Lack> {
    // SAFETY: live memory of a region, which stays readable.
    if unsafe { libc::mprotect(at.cast(), bytes, protection) } == 0 { Ok(()) } else { Err(Lack::Mappings) }
}
