//! Our own system call, where the running kernel has it.
//!
//! `void *vm_snapshot(void *src, size_t length, void *dst)` makes a copy-on-write image of a range of the same process;
//! `dst` is null, or memory of that length to be replaced; an older snapshot of the range is refreshed in place. A
//! huge page is shared as one where both ranges are congruent modulo 2 MiB, which the kernel sees to for a new place.
//!
//! To find out whether the kernel has it, it is used once on two pages: numbers of system calls mean other things in
//! other kernels, so the answer is believed only if it behaves like a snapshot.

use crate::anonymous::Mapping;
use crate::file::errno;
use ankerdb_base::{Error, Result, SqlState};
use std::ptr::NonNull;
use std::sync::LazyLock;

/// Its number in our kernels.
const NUMBER: libc::c_long = 480;

/// 0A000 if the running kernel lacks the call.
pub(crate) fn check() -> Result<()> {
    static PRESENT: LazyLock<bool> = LazyLock::new(|| probe().unwrap_or(false));
    if *PRESENT {
        return Ok(());
    }
    let message = "the running kernel lacks the system call vm_snapshot (number 480)";
    let hint = "./run kernel builds and boots a kernel that has it.";
    Err(Error::new(SqlState::FeatureNotSupported, message).with_hint(hint))
}

/// A snapshot of `bytes` at `from`, in place of an older one if there is one of that size.
pub(crate) fn snapshot(from: NonNull<u8>, bytes: usize, old: Option<Mapping>) -> Result<Mapping> {
    let old = old.filter(|old| old.bytes() == bytes);
    let target = old.as_ref().map_or(std::ptr::null_mut(), |old| old.pointer().as_ptr());
    // SAFETY: the source is mapped for `bytes`; the target is null or ours, and it is no longer used.
    let result = unsafe { libc::syscall(NUMBER, from.as_ptr(), bytes, target) };
    if result == -1 {
        let code = errno();
        if code == libc::ENOTRECOVERABLE {
            // The call has unmapped the target, and other memory may be mapped there by now: it is not ours to unmap.
            std::mem::forget(old);
        }
        return Err(refused(bytes, code));
    }
    match (old, NonNull::new(result as *mut u8)) {
        (Some(old), _) => Ok(old),
        // SAFETY: a new mapping of `bytes`, which has no other owner.
        (None, Some(pointer)) => Ok(unsafe { Mapping::adopt(pointer, bytes) }),
        (None, None) => Err(refused(bytes, libc::EFAULT)),
    }
}

fn refused(bytes: usize, code: i32) -> Error {
    let system = std::io::Error::from_raw_os_error(code);
    let memory = [libc::ENOMEM, libc::ENOTRECOVERABLE].contains(&code);
    let state = if memory { SqlState::OutOfMemory } else { SqlState::SystemError };
    Error::new(state, format!("vm_snapshot of {bytes} bytes failed: {system}"))
}

/// `None` or `false` if there is no such call.
fn probe() -> Option<bool> {
    let page = crate::PageSize::Small.bytes();
    let source = Mapping::new(2 * page, page).ok()?;
    let word = |start: NonNull<u8>, index: usize| start.as_ptr().wrapping_add(index * page).cast::<u64>();
    for index in 0..2 {
        // SAFETY: our own two pages.
        unsafe { word(source.pointer(), index).write_volatile(40 + index as u64) };
    }
    // SAFETY: if the kernel has another call of this number, it gets an address of ours, a length and a null.
    let result =
        unsafe { libc::syscall(NUMBER, source.pointer().as_ptr(), 2 * page, std::ptr::null_mut::<u8>()) };
    let start = result as usize;
    if result == -1
        || start == 0
        || !start.is_multiple_of(page)
        || start == source.pointer().as_ptr() as usize
    {
        return None;
    }
    let mut resident = [0u8; 2];
    // SAFETY: asks whether two pages are mapped there, and touches nothing.
    if unsafe { libc::mincore(result as *mut _, 2 * page, resident.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: new memory, two pages, mapped.
    let image = unsafe { Mapping::adopt(NonNull::new(result as *mut u8)?, 2 * page) };
    let values = |mapping: &Mapping| {
        // SAFETY: two pages, mapped.
        [0, 1].map(|index| unsafe { word(mapping.pointer(), index).read_volatile() })
    };
    let taken = values(&image) == [40, 41];
    // SAFETY: both are ours.
    unsafe {
        word(source.pointer(), 0).write_volatile(50);
        word(image.pointer(), 1).write_volatile(61);
    }
    Some(taken && values(&source) == [50, 41] && values(&image) == [40, 61])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_the_call_is_told_from_one_with_it() {
        let page = crate::PageSize::Small.bytes();
        let source = Mapping::new(page, page).expect("a page");
        let made = snapshot(source.pointer(), page, None);
        assert_eq!(made.is_ok(), check().is_ok());
        if let Err(error) = made {
            assert_eq!(error.state(), SqlState::SystemError);
            assert!(
                check().is_err_and(|error| error.hint().is_some_and(|hint| hint.contains("./run kernel")))
            );
        }
    }
}
