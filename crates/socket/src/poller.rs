//! Many sockets that one thread waits for: what the watches have in common.

use crate::checked;
use std::fs::File;
use std::io::{Error, ErrorKind, Result, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// Sockets that one call reports at most.
const EVENTS: usize = 64;
/// The bell's number among the sockets'.
const BELL: u64 = u64::MAX;

/// Sockets, each known by a number, and a bell.
#[derive(Debug)]
pub(crate) struct Poller {
    epoll: OwnedFd,
    /// An eventfd, readable once it was rung.
    bell: File,
}

impl Poller {
    pub(crate) fn new() -> Result<Poller> {
        // SAFETY: The call touches no memory of ours, and what it returns, if not -1, is a new descriptor without another
        // owner.
        let epoll = unsafe { OwnedFd::from_raw_fd(checked(libc::epoll_create1(libc::EPOLL_CLOEXEC))?) };
        // SAFETY: As above.
        let bell = unsafe { File::from_raw_fd(checked(libc::eventfd(0, libc::EFD_CLOEXEC))?) };
        let poller = Poller { epoll, bell };
        poller.control(libc::EPOLL_CTL_ADD, poller.bell.as_raw_fd(), libc::EPOLLIN, BELL)?;
        Ok(poller)
    }

    /// Reports the socket's number once, when one of these events has come.
    pub(crate) fn add(&self, stream: &impl AsFd, events: libc::c_int, number: u64) -> Result<()> {
        self.control(libc::EPOLL_CTL_ADD, stream.as_fd().as_raw_fd(), events | libc::EPOLLONESHOT, number)
    }

    /// Reports a socket that is there already once more.
    pub(crate) fn renew(&self, stream: &impl AsFd, events: libc::c_int, number: u64) -> Result<()> {
        self.control(libc::EPOLL_CTL_MOD, stream.as_fd().as_raw_fd(), events | libc::EPOLLONESHOT, number)
    }

    pub(crate) fn remove(&self, stream: &impl AsFd) -> Result<()> {
        self.control(libc::EPOLL_CTL_DEL, stream.as_fd().as_raw_fd(), 0, 0)
    }

    /// Sleeps until there is something to report, but no longer than that, and puts the numbers into `reported`, in place of what was
    /// there. `false` once the bell has rung.
    pub(crate) fn wait(&self, reported: &mut Vec<u64>, limit: Option<Duration>) -> bool {
        let milliseconds = limit.map_or(-1, |limit| limit.as_millis().try_into().unwrap_or(libc::c_int::MAX));
        reported.clear();
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        // SAFETY: The array is ours for as long as the call takes, and as long as it is told; the descriptor is open.
        let count = checked(unsafe {
            libc::epoll_wait(self.epoll.as_raw_fd(), events.as_mut_ptr(), EVENTS as libc::c_int, milliseconds)
        });
        // Interrupted by a signal, there are none.
        let count = count.unwrap_or(0) as usize;
        reported.extend(events[..count].iter().map(|event| event.u64));
        !reported.contains(&BELL)
    }

    /// Wakes the waiting thread; later calls of [`wait`](Self::wait) return at once.
    pub(crate) fn ring(&self) {
        // It has room for a count of one, and for 2^64 - 2 more.
        let _ = (&self.bell).write_all(&1_u64.to_ne_bytes());
    }

    fn control(&self, operation: libc::c_int, socket: RawFd, events: libc::c_int, number: u64) -> Result<()> {
        let mut event = libc::epoll_event { events: events as u32, u64: number };
        // SAFETY: The event is ours, and read during the call only; both descriptors are open.
        let done = unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), operation, socket, &raw mut event) };
        match checked(done) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(Error::new(error.kind(), "not watched")),
            Err(error) => Err(error),
        }
    }
}
