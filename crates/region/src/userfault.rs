//! Writes found by `userfaultfd` write-protection, and the thread that serves them.
//!
//! One descriptor and one thread for the process. A thread that writes to a protected page sleeps in the kernel, which
//! sends a message; the serving thread takes the region's lock, makes the page writable, and wakes it. The serving thread
//! never writes to live memory and never waits for a thread that may be asleep here.
//!
//! Protection is a bit of the page's translation, not of the mapping: protecting makes no mappings. The kernel
//! keeps it for pages of files in main memory that are not in the page table yet, too (feature
//! `UFFD_FEATURE_WP_HUGETLBFS_SHMEM`, Linux 5.19).
//!
//! Only writes of programs are served (`UFFD_USER_MODE_ONLY`, which needs no privileges): a system call that would write to a protected
//! page fails.

use crate::file::{Lack, errno};
use ankerdb_base::{Error, Result, SqlState};
use std::sync::OnceLock;

pub(crate) struct Userfault(i32);

// Numbers of the kernel's interface (include/uapi/linux/userfaultfd.h).
const USER_MODE_ONLY: i32 = 1;
const API: u64 = 0xAA;
const FEATURE_WP: u64 = 1;
const FEATURE_WP_SHMEM: u64 = 1 << 12;
const IOCTL_API: u64 = 0xC018_AA3F;
const IOCTL_REGISTER: u64 = 0xC020_AA00;
const IOCTL_WAKE: u64 = 0x8010_AA02;
const IOCTL_WRITE_PROTECT: u64 = 0xC018_AA06;
const REGISTER_WP: u64 = 1 << 1;
const EVENT_PAGE_FAULT: u8 = 0x12;

/// `uffd_msg`, as far as it is used.
#[repr(C)]
#[derive(Clone, Copy)]
struct Message {
    event: u8,
    reserved: [u8; 7],
    flags: u64,
    address: u64,
    rest: u64,
}

/// Serves a write fault at an address; `false` if the address belongs to no region.
pub(crate) type Serve = fn(usize) -> bool;

static USERFAULT: OnceLock<Result<Userfault>> = OnceLock::new();

impl Userfault {
    /// The process's, opened when it is asked for first. 0A000 with what is missing. `serve` makes the page at an address
    /// writable, or returns `false` if the address belongs to no region; there is one per process.
    pub(crate) fn get(serve: Serve) -> Result<&'static Userfault> {
        USERFAULT.get_or_init(|| Userfault::start(serve)).as_ref().map_err(Error::clone)
    }

    fn start(serve: Serve) -> Result<Userfault> {
        let needed = FEATURE_WP | FEATURE_WP_SHMEM;
        let asked = open()?;
        let features = handshake(&asked, 0);
        drop(asked);
        let features = features.map_err(|system| refused(&format!("UFFDIO_API failed: {system}")))?;
        if features & needed != needed {
            let message = "this kernel's userfaultfd cannot write-protect pages of files in main memory";
            let hint = "That came with Linux 5.19 (CONFIG_PTE_MARKER_UFFD_WP, on x86-64).";
            return Err(Error::new(SqlState::FeatureNotSupported, message).with_hint(hint));
        }
        let userfault = open()?;
        handshake(&userfault, needed).map_err(|system| refused(&format!("UFFDIO_API failed: {system}")))?;
        let descriptor = userfault.0;
        let thread =
            std::thread::Builder::new().name("userfault".into()).spawn(move || listen(descriptor, serve));
        thread.map_err(|system| refused(&format!("no thread could be started: {system}")))?;
        Ok(userfault)
    }

    /// Write faults in the range are ours.
    pub(crate) fn register(&self, at: *mut u8, bytes: usize) -> Result<(), Lack> {
        let mut arguments = [at as u64, bytes as u64, REGISTER_WP, 0];
        self.call(IOCTL_REGISTER, &mut arguments)
    }

    pub(crate) fn protect(&self, at: *mut u8, bytes: usize) -> Result<(), Lack> {
        if self.call(IOCTL_WRITE_PROTECT, &mut [at as u64, bytes as u64, 1]).is_ok() {
            return Ok(());
        }
        // A part may have been mapped without being registered, for lack of memory then.
        self.register(at, bytes)?;
        self.call(IOCTL_WRITE_PROTECT, &mut [at as u64, bytes as u64, 1])
    }

    pub(crate) fn release(&self, at: *mut u8, bytes: usize) -> Result<(), Lack> {
        self.call(IOCTL_WRITE_PROTECT, &mut [at as u64, bytes as u64, 0])
    }

    pub(crate) fn wake(&self, at: *mut u8, bytes: usize) {
        let _ = self.call(IOCTL_WAKE, &mut [at as u64, bytes as u64]);
    }

    fn call(&self, request: u64, arguments: &mut [u64]) -> Result<(), Lack> {
        loop {
            // SAFETY: the request's structure is as many 64-bit numbers as the slice has.
            let result = unsafe { libc::ioctl(self.0, request as _, arguments.as_mut_ptr()) };
            match errno() {
                _ if result == 0 => return Ok(()),
                libc::EAGAIN | libc::EINTR => {}
                _ => return Err(Lack::Mappings),
            }
        }
    }
}

impl Drop for Userfault {
    fn drop(&mut self) {
        // SAFETY: the descriptor has no other owner.
        unsafe { libc::close(self.0) };
    }
}

fn open() -> Result<Userfault> {
    // SAFETY: no memory is passed.
    let descriptor = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | USER_MODE_ONLY) };
    if descriptor >= 0 {
        return Ok(Userfault(descriptor as i32));
    }
    let system = std::io::Error::last_os_error();
    match system.raw_os_error() {
        Some(libc::ENOSYS) => Err(refused("the kernel is built without CONFIG_USERFAULTFD")),
        Some(libc::EPERM) => Err(refused("it is forbidden here")
            .with_hint("A container's system call filter must allow it; before Linux 5.11, vm.unprivileged_userfaultfd must be 1.")),
        Some(libc::EINVAL) => Err(refused("UFFD_USER_MODE_ONLY is unknown; it came with Linux 5.11")),
        _ => Err(refused(&system.to_string())),
    }
}

/// Agrees on features; tells those that the kernel has.
fn handshake(userfault: &Userfault, features: u64) -> std::io::Result<u64> {
    let mut arguments = [API, features, 0];
    // SAFETY: `uffdio_api` is three 64-bit numbers.
    let result = unsafe { libc::ioctl(userfault.0, IOCTL_API as _, arguments.as_mut_ptr()) };
    if result == 0 { Ok(arguments[1]) } else { Err(std::io::Error::last_os_error()) }
}

fn refused(why: &str) -> Error {
    let message = format!("rewiring with userfaultfd does not work on this machine: {why}");
    Error::new(SqlState::FeatureNotSupported, message)
}

fn listen(descriptor: i32, serve: Serve) {
    let mut messages = [Message { event: 0, reserved: [0; 7], flags: 0, address: 0, rest: 0 }; 16];
    loop {
        // SAFETY: the buffer is ours and of this size.
        let bytes = unsafe { libc::read(descriptor, messages.as_mut_ptr().cast(), size_of_val(&messages)) };
        let count = usize::try_from(bytes).unwrap_or(0) / size_of::<Message>();
        if bytes < 0 && errno() != libc::EINTR && errno() != libc::EAGAIN {
            return;
        }
        for message in &messages[..count] {
            if message.event == EVENT_PAGE_FAULT && !serve(message.address as usize) {
                // The address belongs to no region any more; threads that sleep there find out.
                let page = crate::PageSize::Small.bytes();
                let mut range = [message.address & !(page as u64 - 1), page as u64];
                // SAFETY: `uffdio_range` is two 64-bit numbers.
                unsafe { libc::ioctl(descriptor, IOCTL_WAKE as _, range.as_mut_ptr()) };
            }
        }
    }
}
