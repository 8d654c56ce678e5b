//! One thread sleeps until any of many sockets is closed by its other end. Arriving data does not wake it.

use super::checked;
use std::fs::File;
use std::io::{Error, ErrorKind, Result, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Sockets that one call reports at most.
const EVENTS: usize = 64;
/// The bell's number among the sockets'.
const BELL: u64 = u64::MAX;

/// Sockets, each known by a number, whose other ends may close. Any thread adds and removes; one waits.
#[derive(Debug)]
pub struct ClosedWatch {
    epoll: OwnedFd,
    /// An eventfd, readable once it was rung.
    bell: File,
}

impl ClosedWatch {
    /// An empty one.
    ///
    /// # Errors
    /// If the process has no descriptors left.
    pub fn new() -> Result<ClosedWatch> {
        // SAFETY: The call touches no memory of ours, and what it returns, if not -1, is a new descriptor without another
        // owner.
        let epoll = unsafe { OwnedFd::from_raw_fd(checked(libc::epoll_create1(libc::EPOLL_CLOEXEC))?) };
        // SAFETY: As above.
        let bell = unsafe { File::from_raw_fd(checked(libc::eventfd(0, libc::EFD_CLOEXEC))?) };
        let watch = ClosedWatch { epoll, bell };
        watch.control(libc::EPOLL_CTL_ADD, watch.bell.as_raw_fd(), libc::EPOLLIN, BELL)?;
        Ok(watch)
    }

    /// Adds a socket; [`wait`](Self::wait) tells its number once. Below `u64::MAX`, and no other socket's.
    ///
    /// # Errors
    /// If the system has no memory for it, or the socket is there already.
    pub fn add(&self, stream: &TcpStream, number: u64) -> Result<()> {
        // Once: a closed end stays closed, and would be reported for ever.
        let closed = libc::EPOLLRDHUP | libc::EPOLLONESHOT;
        self.control(libc::EPOLL_CTL_ADD, stream.as_raw_fd(), closed, number)
    }

    /// Removes a socket. A report that is already on its way may still come.
    ///
    /// # Errors
    /// If it is not there.
    pub fn remove(&self, stream: &TcpStream) -> Result<()> {
        self.control(libc::EPOLL_CTL_DEL, stream.as_raw_fd(), 0, 0)
    }

    /// Sleeps until some sockets were closed by their other ends, and puts their numbers into `closed`, in place of what was
    /// there. `false` once the bell has [rung](Self::ring).
    pub fn wait(&self, closed: &mut Vec<u64>) -> bool {
        closed.clear();
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        // SAFETY: The array is ours for as long as the call takes, and as long as it is told; the descriptor is open.
        let count = checked(unsafe {
            libc::epoll_wait(self.epoll.as_raw_fd(), events.as_mut_ptr(), EVENTS as libc::c_int, -1)
        });
        // Interrupted by a signal, there are none.
        let count = count.unwrap_or(0) as usize;
        closed.extend(events[..count].iter().map(|event| event.u64));
        !closed.contains(&BELL)
    }

    /// Wakes the waiting thread; later calls of [`wait`](Self::wait) return at once.
    pub fn ring(&self) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::time::Duration;

    fn pair(listener: &TcpListener) -> (TcpStream, TcpStream) {
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    #[test]
    fn closed_ends_are_told_once_and_data_is_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let watch = ClosedWatch::new().unwrap();
        let (mut talking, first) = pair(&listener);
        let (leaving, second) = pair(&listener);
        let (removed, third) = pair(&listener);
        for (number, stream) in [&first, &second, &third].into_iter().enumerate() {
            watch.add(stream, number as u64).unwrap();
        }
        watch.remove(&third).unwrap();
        assert_eq!(watch.remove(&third).unwrap_err().kind(), ErrorKind::NotFound);
        talking.write_all(b"hello").unwrap();
        drop((leaving, removed));
        let mut closed = vec![7];
        assert!(watch.wait(&mut closed));
        assert_eq!(closed, [1]);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| watch.wait(&mut closed));
            std::thread::sleep(Duration::from_millis(20));
            assert!(!waiting.is_finished(), "neither data nor what was told already wakes");
            watch.ring();
            assert!(!waiting.join().unwrap());
        });
    }
}
