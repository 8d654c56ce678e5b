//! The memory through which a child's results come back.
//!
//! A main-memory file without a name. Its first page, the *words*, says how the child ended; the results follow:
//!
//! ```text
//! words                                                          results
//! │ outcome │ bytes of error │ bytes of results │ error │ taken │ ...
//! 0         4                8                  16      4088    4096
//! ```
//!
//! The child maps it shared and lets it grow; the parent maps what was written, read-only, once the child has ended, so
//! it is not written then.

use ankerdb_base::{Error, Result, SqlState};
use ankerdb_memory::charge::Charge;
use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// Where the results begin.
const RESULTS: usize = 4096;
/// Where the error's bytes begin.
const ERROR: usize = 16;
/// Where the child tells how many bytes it has taken, while it runs.
const TAKEN: usize = RESULTS - 8;
/// The first piece of memory for results, and the largest step by which it grows.
const STEP_MIN: usize = 64 << 10;
const STEP_MAX: usize = 16 << 20;

/// How a child has ended, as it says itself; zero as long as it has said nothing.
#[derive(Clone, Copy)]
#[repr(u32)]
enum Outcome {
    Done = 1,
    Failed = 2,
}

/// The file.
pub(super) struct Memory(OwnedFd);

impl Memory {
    /// A file with nothing but words. 53200 if there is no memory or no file descriptor left.
    pub(super) fn new() -> Result<Memory> {
        // SAFETY: the name ends with a zero byte.
        let number = unsafe { libc::memfd_create(c"ankerdb-results".as_ptr(), libc::MFD_CLOEXEC) };
        if number < 0 {
            return Err(no_memory("could not make memory for results"));
        }
        // SAFETY: a file just opened, which has no other owner.
        let memory = Memory(unsafe { OwnedFd::from_raw_fd(number) });
        // SAFETY: our file.
        match unsafe { libc::ftruncate(number, RESULTS as libc::off_t) } {
            0 => Ok(memory),
            _ => Err(no_memory("could not make memory for results")),
        }
    }

    pub(super) fn number(&self) -> i32 {
        self.0.as_raw_fd()
    }

    /// The file under another number, which is open.
    ///
    /// # Safety
    /// The number is that of such a file and it is not closed elsewhere.
    pub(super) unsafe fn renumbered(number: i32) -> Memory {
        // SAFETY: the caller's promise.
        Memory(unsafe { OwnedFd::from_raw_fd(number) })
    }

    /// How many bytes the child has taken for itself so far, as far as it has told.
    pub(super) fn taken(&self) -> usize {
        let mut word = [0u8; 8];
        // SAFETY: the buffer has that many bytes.
        let read =
            unsafe { libc::pread(self.number(), word.as_mut_ptr().cast(), word.len(), TAKEN as libc::off_t) };
        if read == word.len() as isize { usize::from_ne_bytes(word) } else { 0 }
    }

    /// Bytes of memory that the file takes.
    fn memory_bytes(&self) -> usize {
        // SAFETY: `stat` is plain numbers; the file is ours.
        unsafe {
            let mut stat = std::mem::zeroed::<libc::stat>();
            if libc::fstat(self.number(), &mut stat) == 0 { stat.st_blocks as usize * 512 } else { 0 }
        }
    }

    /// What the child left: its results, its error, or `None` if it ended before it said anything.
    pub(super) fn outcome(&self) -> Result<Option<SharedBytes>> {
        let mut words = [0u8; RESULTS];
        // SAFETY: the buffer has that many bytes.
        let read = unsafe { libc::pread(self.number(), words.as_mut_ptr().cast(), RESULTS, 0) };
        if read != RESULTS as isize {
            return Err(Error::internal("the words of a forked process could not be read"));
        }
        let number = |at: usize, bytes: usize| {
            let mut word = [0; 8];
            word[..bytes].copy_from_slice(&words[at..at + bytes]);
            u64::from_ne_bytes(word) as usize
        };
        if number(0, 4) == Outcome::Done as usize {
            return SharedBytes::map(self, number(8, 8)).map(Some);
        }
        if number(0, 4) == Outcome::Failed as usize {
            return Err(decoded(&words[ERROR..(ERROR + number(4, 4)).min(TAKEN)]));
        }
        Ok(None)
    }
}

fn no_memory(what: &str) -> Error {
    Error::new(SqlState::OutOfMemory, format!("{what}: {}", io::Error::last_os_error()))
}

fn mapped(file: &Memory, bytes: usize, offset: usize, protection: i32) -> Result<*mut u8> {
    // SAFETY: a mapping at an address that the system chooses touches nothing that exists.
    let start = unsafe {
        let flags = libc::MAP_SHARED;
        libc::mmap(std::ptr::null_mut(), bytes, protection, flags, file.number(), offset as libc::off_t)
    };
    match start {
        libc::MAP_FAILED => Err(no_memory("could not map results")),
        start => Ok(start.cast()),
    }
}

/// The words as the child writes them. Copyable, so that a panic can be told wherever it happens.
#[derive(Clone, Copy)]
pub(super) struct Words(pub *mut u8);

impl Words {
    pub(super) fn map(file: &Memory) -> Result<Words> {
        mapped(file, RESULTS, 0, libc::PROT_READ | libc::PROT_WRITE).map(Words)
    }

    fn write(self, at: usize, bytes: &[u8]) {
        debug_assert!(at + bytes.len() <= RESULTS);
        // SAFETY: within the mapping, which is this process's only one and has one thread writing to it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.0.add(at), bytes.len()) };
    }

    /// Where the child tells how many bytes it has taken. The mapping stays until the process ends.
    pub(super) fn taken(self) -> &'static AtomicUsize {
        // SAFETY: within the mapping, aligned to eight bytes, and used as such a word by nobody else in this process.
        unsafe { AtomicUsize::from_ptr(self.0.add(TAKEN).cast()) }
    }

    /// Says that all results are there.
    pub(super) fn done(self, length: usize) {
        self.write(8, &(length as u64).to_ne_bytes());
        self.write(0, &(Outcome::Done as u32).to_ne_bytes());
    }

    /// Says what went wrong.
    pub(super) fn failed(self, error: &Error) {
        let bytes = encoded(error);
        self.write(ERROR, &bytes);
        self.write(4, &(bytes.len() as u32).to_ne_bytes());
        self.write(0, &(Outcome::Failed as u32).to_ne_bytes());
    }
}

/// Code, message, detail and hint, each ended by a zero byte; cut off where there is no more room.
fn encoded(error: &Error) -> Vec<u8> {
    let parts =
        [error.state().code(), error.message(), error.detail().unwrap_or(""), error.hint().unwrap_or("")];
    let mut bytes = Vec::new();
    for part in parts {
        bytes.extend(part.bytes().filter(|byte| *byte != 0));
        bytes.push(0);
    }
    bytes.truncate(TAKEN - ERROR);
    bytes
}

fn decoded(bytes: &[u8]) -> Error {
    let mut parts = bytes.split(|byte| *byte == 0).map(|part| String::from_utf8_lossy(part).into_owned());
    let mut next = || parts.next().unwrap_or_default();
    let state = SqlState::from_code(&next()).unwrap_or(SqlState::InternalError);
    let mut error = Error::new(state, next());
    let (detail, hint) = (next(), next());
    if !detail.is_empty() {
        error = error.with_detail(detail);
    }
    if !hint.is_empty() {
        error = error.with_hint(hint);
    }
    error
}

/// Where a child writes its results. Each write is a copy to shared memory; there is nothing to flush.
pub struct Output {
    file: Memory,
    words: Words,
    results: *mut u8,
    capacity: usize,
    length: usize,
    limit: usize,
    /// The file's memory, in the child's account.
    charge: Charge,
}

impl Output {
    pub(super) fn new(file: Memory, words: Words, limit: usize) -> Output {
        Output {
            file,
            words,
            results: std::ptr::null_mut(),
            capacity: 0,
            length: 0,
            limit,
            charge: Charge::default(),
        }
    }

    /// Bytes written.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Says that all results are there.
    pub(super) fn finish(&self) {
        self.words.done(self.length);
    }

    /// 53200 past the limit and where there is no memory.
    fn reserve(&mut self, more: usize) -> Result<()> {
        let wanted = self.length + more;
        if wanted <= self.capacity {
            return Ok(());
        }
        if wanted > self.limit {
            let message = "the result is too large for the memory that a query may use";
            let detail = format!("A forked query may return {} bytes.", self.limit);
            return Err(Error::new(SqlState::OutOfMemory, message).with_detail(detail));
        }
        let step = self.capacity.clamp(STEP_MIN, STEP_MAX);
        let capacity = wanted.next_multiple_of(STEP_MIN).max(self.capacity + step);
        // A page that is missing when it is written to would end the process: take them all now.
        // SAFETY: our file.
        let taken = unsafe {
            let (from, bytes) = (RESULTS + self.capacity, capacity - self.capacity);
            libc::fallocate(self.file.number(), 0, from as libc::off_t, bytes as libc::off_t)
        };
        if taken != 0 {
            return Err(no_memory("could not make room for results"));
        }
        if self.capacity == 0 {
            self.results = mapped(&self.file, capacity, RESULTS, libc::PROT_READ | libc::PROT_WRITE)?;
        } else {
            // SAFETY: our mapping, to which nobody has a pointer but us.
            let moved =
                unsafe { libc::mremap(self.results.cast(), self.capacity, capacity, libc::MREMAP_MAYMOVE) };
            if moved == libc::MAP_FAILED {
                return Err(no_memory("could not map results"));
            }
            self.results = moved.cast();
        }
        self.capacity = capacity;
        self.charge.set(capacity);
        Ok(())
    }
}

impl io::Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.reserve(bytes.len()).map_err(io::Error::other)?;
        // SAFETY: room was made; the mapping has no other user.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.results.add(self.length), bytes.len()) };
        self.length += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Results of a child that has ended: read-only memory, given back with the last clone. Starts at a page.
#[derive(Clone)]
pub struct SharedBytes(Arc<Results>);

struct Results {
    start: *mut u8,
    length: usize,
    /// The file's memory, which stays as long as a part of it is mapped.
    _charge: Charge,
}

// SAFETY: it is not written: the process that did has ended, and no other has it.
unsafe impl Send for Results {}
// SAFETY: as above.
unsafe impl Sync for Results {}

impl SharedBytes {
    fn map(file: &Memory, length: usize) -> Result<SharedBytes> {
        let start = match length {
            0 => std::ptr::null_mut(),
            length => mapped(file, length, RESULTS, libc::PROT_READ)?,
        };
        Ok(SharedBytes(Arc::new(Results { start, length, _charge: Charge::of(file.memory_bytes()) })))
    }
}

impl AsRef<[u8]> for SharedBytes {
    fn as_ref(&self) -> &[u8] {
        match self.0.length {
            0 => &[],
            // SAFETY: mapped for that many bytes as long as this lives, and never written.
            length => unsafe { std::slice::from_raw_parts(self.0.start, length) },
        }
    }
}

impl Drop for Results {
    fn drop(&mut self) {
        if self.length > 0 {
            // SAFETY: our mapping, which is no longer used.
            unsafe { libc::munmap(self.start.cast::<c_void>(), self.length) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_come_back_as_they_were() {
        let plain = Error::new(SqlState::DivisionByZero, "division by zero");
        assert_eq!(decoded(&encoded(&plain)), plain);
        let full = Error::internal("ä").with_detail("d").with_hint("h");
        assert_eq!(decoded(&encoded(&full)), full);
        let long = Error::internal("x".repeat(10_000));
        assert_eq!(decoded(&encoded(&long)).message().len(), TAKEN - ERROR - 6);
    }
}
