//! One thread sleeps until any of many sockets is closed by its other end. Arriving data does not wake it.

use crate::poller::Poller;
use std::io::Result;
use std::os::fd::AsFd;

/// Sockets, each known by a number, whose other ends may close. Any thread adds and removes; one waits.
#[derive(Debug)]
pub struct ClosedWatch(Poller);

impl ClosedWatch {
    /// An empty one.
    ///
    /// # Errors
    /// If the process has no descriptors left.
    pub fn new() -> Result<ClosedWatch> {
        Poller::new().map(ClosedWatch)
    }

    /// Adds a socket; [`wait`](Self::wait) tells its number once, since a closed end stays closed. Below `u64::MAX`, and no other
    /// socket's.
    ///
    /// # Errors
    /// If the system has no memory for it, or the socket is there already.
    pub fn add(&self, stream: &impl AsFd, number: u64) -> Result<()> {
        self.0.add(stream, libc::EPOLLRDHUP, number)
    }

    /// Removes a socket. A report that is already on its way may still come.
    ///
    /// # Errors
    /// If it is not there.
    pub fn remove(&self, stream: &impl AsFd) -> Result<()> {
        self.0.remove(stream)
    }

    /// Sleeps until some sockets were closed by their other ends, and puts their numbers into `closed`, in place of what was
    /// there. `false` once the bell has [rung](Self::ring).
    pub fn wait(&self, closed: &mut Vec<u64>) -> bool {
        self.0.wait(closed, None)
    }

    /// Wakes the waiting thread; later calls of [`wait`](Self::wait) return at once.
    pub fn ring(&self) {
        self.0.ring();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{ErrorKind, Write};
    use std::net::{TcpListener, TcpStream};
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
