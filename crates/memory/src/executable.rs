//! Machine code in memory of its own.
//!
//! Pages are first written and then made executable, and never both at once. They go back to the system with their owner.
//!
//! Not here: where the code comes from, and what calling it means.

use std::ptr::NonNull;

/// Pages with machine code that can be run and read, not written.
#[derive(Debug)]
pub struct Executable {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: nothing changes the pages between their making and their end, which only the owner brings about.
unsafe impl Send for Executable {}
// SAFETY: shared they are only read and run.
unsafe impl Sync for Executable {}

impl Executable {
    /// A copy of the code; `None` where the system gives no memory for it, or this machine needs more to be told of new code
    /// (processors other than x86-64 do).
    pub fn new(code: &[u8]) -> Option<Executable> {
        let bytes = code.len().max(1).next_multiple_of(PAGE_BYTES);
        let start = system::map(bytes)?;
        let executable = Executable { start, bytes };
        crate::account::note_mapped(bytes);
        // SAFETY: the mapping is new, writable, and at least that long.
        unsafe { start.copy_from_nonoverlapping(NonNull::from(code).cast(), code.len()) };
        // A refusal frees it.
        system::make_executable(start, bytes).then_some(executable)
    }

    /// The first instruction.
    pub fn start(&self) -> *const u8 {
        self.start.as_ptr()
    }

    /// Bytes of its pages.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        crate::account::note_unmapped(self.bytes);
        system::unmap(self.start, self.bytes);
    }
}

const PAGE_BYTES: usize = 4096;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod system {
    use std::ptr::NonNull;

    pub(super) fn map(bytes: usize) -> Option<NonNull<u8>> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: an anonymous mapping at an address that the system chooses touches nothing that exists.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, -1, 0) };
        if start == libc::MAP_FAILED { None } else { NonNull::new(start.cast()) }
    }

    pub(super) fn make_executable(start: NonNull<u8>, bytes: usize) -> bool {
        // SAFETY: only called for a mapping of this file, which nobody else knows yet.
        unsafe { libc::mprotect(start.as_ptr().cast(), bytes, libc::PROT_READ | libc::PROT_EXEC) == 0 }
    }

    pub(super) fn unmap(start: NonNull<u8>, bytes: usize) {
        // SAFETY: only called by the owner of a mapping of this file, at its end.
        unsafe { libc::munmap(start.as_ptr().cast(), bytes) };
    }
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod system {
    use std::ptr::NonNull;

    pub(super) fn map(_bytes: usize) -> Option<NonNull<u8>> {
        None
    }

    pub(super) fn make_executable(_start: NonNull<u8>, _bytes: usize) -> bool {
        false
    }

    pub(super) fn unmap(_start: NonNull<u8>, _bytes: usize) {}
}

#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
mod tests {
    use super::*;
    use std::io::Write;

    /// The access of the pages at an address, as the system tells it.
    fn access(address: *const u8) -> Option<String> {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("the list of mappings");
        let found = maps.lines().find(|line| {
            let (range, _) = line.split_once(' ').expect("a range and more");
            let (start, end) = range.split_once('-').expect("two addresses");
            let number = |text| usize::from_str_radix(text, 16).expect("a hexadecimal number");
            (number(start)..number(end)).contains(&address.addr())
        });
        found.map(|line| line.split(' ').nth(1).expect("the access").to_owned())
    }

    #[test]
    fn code_runs_and_cannot_be_written() {
        // mov eax, 42; ret
        let code = Executable::new(&[0xB8, 42, 0, 0, 0, 0xC3]).expect("a page");
        // SAFETY: the code above takes nothing, changes nothing but eax and returns it.
        let function: extern "C" fn() -> u32 = unsafe { std::mem::transmute(code.start()) };
        assert_eq!(function(), 42);
        assert_eq!(access(code.start()).as_deref(), Some("r-xp"));
    }

    #[test]
    fn pages_go_back() {
        let code = Executable::new(&[0xC3]).expect("a page");
        let used = code.start();
        drop(code);
        assert!(access(used).is_none_or(|access| !access.contains('x')));
    }

    /// Set in the process that asks the system to refuse code.
    const REFUSES: &str = "ANKERDB_TEST_REFUSES_CODE";

    #[test]
    fn a_system_that_refuses_code_gives_none() {
        if std::env::var_os(REFUSES).is_none() {
            // A process cannot take this back, so another one does it: this test again.
            let program = std::env::current_exe().expect("the path of this program");
            let name = "executable::tests::a_system_that_refuses_code_gives_none";
            let mut child = std::process::Command::new(program);
            child.args(["--exact", name]).env(REFUSES, "").stderr(std::process::Stdio::inherit());
            let child = child.output().expect("a process");
            let said = String::from_utf8_lossy(&child.stdout);
            assert!(child.status.success() && said.contains("1 passed"), "{said}");
            return;
        }
        // SAFETY: only forbids this process to make memory executable.
        let refuses = unsafe { libc::prctl(libc::PR_SET_MDWE, libc::PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) };
        if refuses != 0 {
            // Not captured, unlike what a macro writes.
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED: this kernel cannot refuse executable memory (Linux 6.3 can)"
            );
            return;
        }
        assert!(Executable::new(&[0xC3]).is_none());
    }
}
