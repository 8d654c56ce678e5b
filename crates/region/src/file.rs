//! The main-memory file under a rewired region: pages that have no address until they are mapped.
//!
//! It is sparse and as long as it will ever be from the start; a page takes memory when it is first touched or written,
//! and gives it back when a hole is punched. Everything here but [`MemoryFile::new`] is called by signal handlers, too:
//! system calls and nothing else.

use ankerdb_base::{Error, Result, SqlState};

/// What ran out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lack {
    /// Mappings of the process.
    Mappings,
    /// Memory for pages of the file.
    Memory,
    /// Numbers for one more snapshot.
    Snapshots,
}

pub(crate) struct MemoryFile(i32);

impl MemoryFile {
    /// 0A000 if the system has no such files, 53200 if it has no more of them.
    pub(crate) fn new(bytes: usize) -> Result<MemoryFile> {
        // SAFETY: the name is a C string.
        let file = unsafe { libc::memfd_create(c"ankerdb-region".as_ptr(), libc::MFD_CLOEXEC) };
        let system = std::io::Error::last_os_error();
        if file < 0 && system.raw_os_error() == Some(libc::ENOSYS) {
            let message = "rewiring needs files in main memory, which this kernel lacks";
            let hint = "memfd_create came with Linux 3.17; build the kernel with CONFIG_MEMFD_CREATE.";
            return Err(Error::new(SqlState::FeatureNotSupported, message).with_hint(hint));
        }
        if file < 0 {
            return Err(no_file(bytes, &system));
        }
        let file = MemoryFile(file);
        // SAFETY: our own file.
        if unsafe { libc::ftruncate(file.0, bytes as libc::off_t) } != 0 {
            return Err(no_file(bytes, &std::io::Error::last_os_error()));
        }
        Ok(file)
    }

    /// Copies memory to the file. The source may be write-protected. If memory runs out, a part may have been copied.
    ///
    /// # Safety
    /// `from` is mapped for `bytes`, which is not being written.
    pub(crate) unsafe fn write(&self, from: *const u8, bytes: usize, offset: usize) -> Result<(), Lack> {
        let mut done = 0;
        while done < bytes {
            // The kernel copies at most 2 GiB at a time.
            let count = (bytes - done).min(1 << 30);
            let to = (offset + done) as libc::off_t;
            // SAFETY: within the source, by the caller's promise.
            // Not by the library's function: a thread sanitizer, which knows nothing of protected pages, would take
            // reading them for a race with the writes before.
            let copied = unsafe { libc::syscall(libc::SYS_pwrite64, self.0, from.add(done), count, to) };
            match usize::try_from(copied) {
                Ok(0) => return Err(Lack::Memory),
                Ok(copied) => done += copied,
                Err(_) if errno() == libc::EINTR => {}
                Err(_) => return Err(Lack::Memory),
            }
        }
        Ok(())
    }

    /// Gives pages back; they read as zero then.
    pub(crate) fn punch(&self, offset: usize, bytes: usize) {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: our own file. If it fails, memory stays taken until the page is used again.
        while unsafe { libc::fallocate(self.0, mode, offset as libc::off_t, bytes as libc::off_t) } != 0 {
            if errno() != libc::EINTR {
                break;
            }
        }
    }

    /// Maps pages over whatever is mapped at `at`: shared and read-only or writable for live memory, private for images.
    ///
    /// # Safety
    /// The range `at` belongs to the caller, and its users expect the file's content there.
    pub(crate) unsafe fn map(
        &self,
        at: *mut u8,
        bytes: usize,
        offset: usize,
        shared: bool,
    ) -> Result<(), Lack> {
        let sharing = if shared { libc::MAP_SHARED } else { libc::MAP_PRIVATE };
        // SAFETY: the caller owns the range.
        let mapped = unsafe { map_over(at, bytes, sharing, self.0, offset) };
        if mapped { Ok(()) } else { Err(Lack::Mappings) }
    }

    /// Bytes of memory that the file takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        // SAFETY: `stat` is plain numbers; the file is ours.
        unsafe {
            let mut stat = std::mem::zeroed::<libc::stat>();
            if libc::fstat(self.0, &mut stat) == 0 { stat.st_blocks as usize * 512 } else { 0 }
        }
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        // SAFETY: the descriptor has no other owner.
        unsafe { libc::close(self.0) };
    }
}

/// Maps over whatever is mapped at `at`, to read and write.
///
/// # Safety
/// The range `at` belongs to the caller, and its users are prepared for what they find there.
pub(crate) unsafe fn map_over(at: *mut u8, bytes: usize, sharing: i32, file: i32, offset: usize) -> bool {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_FIXED | libc::MAP_NORESERVE | sharing;
    // Not by the library's function, as above: this one changes what lies below memory that others read meanwhile.
    // SAFETY: the caller owns the range.
    unsafe { libc::syscall(libc::SYS_mmap, at, bytes, protection, flags, file, offset) != -1 }
}

pub(crate) fn errno() -> i32 {
    // SAFETY: the thread's own variable.
    unsafe { *libc::__errno_location() }
}

fn no_file(bytes: usize, system: &std::io::Error) -> Error {
    let message = format!("could not make a file of {bytes} bytes in main memory: {system}");
    Error::new(SqlState::OutOfMemory, message)
        .with_hint("The limits on open files and on file size (ulimit -n, -f) apply.")
}
