//! One thread sleeps until any of many sockets has data, or its end.

use crate::poller::Poller;
use std::io::{ErrorKind, Result};
use std::os::fd::AsFd;
use std::time::Duration;

/// Sockets, each known by a number, that data is waited for from. Any thread hands sockets over; one waits.
#[derive(Debug)]
pub struct ReadableWatch(Poller);

impl ReadableWatch {
    /// An empty one.
    ///
    /// # Errors
    /// If the process has no descriptors left.
    pub fn new() -> Result<ReadableWatch> {
        Poller::new().map(ReadableWatch)
    }

    /// From now on, [`wait`](Self::wait) tells this number once the socket has data or its end, at once if it has that already, and once
    /// only: then it has to be asked again. Below `u64::MAX`. A socket that is closed is forgotten. Costs a call to the system, and two
    /// the first time.
    ///
    /// # Errors
    /// If the system has no memory for it.
    pub fn await_data(&self, stream: &impl AsFd, number: u64) -> Result<()> {
        let events = libc::EPOLLIN | libc::EPOLLRDHUP;
        match self.0.renew(stream, events, number) {
            Err(error) if error.kind() == ErrorKind::NotFound => self.0.add(stream, events, number),
            done => done,
        }
    }

    /// Sleeps until some sockets have data, but no longer than that, and puts their numbers into `readable`, in place of what was there.
    /// `false` once somebody has [rung](Self::ring).
    pub fn wait(&self, readable: &mut Vec<u64>, limit: Duration) -> bool {
        self.0.wait(readable, Some(limit))
    }

    /// Wakes the waiting thread; later calls of [`wait`](Self::wait) return at once.
    pub fn ring(&self) {
        self.0.ring();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn data_and_ends_are_told_once_for_each_time_that_they_are_awaited() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let pair = || {
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (client, listener.accept().unwrap().0)
        };
        let ((mut talking, mut first), (leaving, second)) = (pair(), pair());
        let watch = ReadableWatch::new().unwrap();
        let mut readable = vec![7];
        // Before it is waited for, and afterwards.
        talking.write_all(b"a").unwrap();
        watch.await_data(&first, 1).unwrap();
        assert!(watch.wait(&mut readable, LONG));
        assert_eq!(readable, [1]);
        watch.await_data(&second, 2).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| watch.wait(&mut readable, LONG));
            std::thread::sleep(Duration::from_millis(20));
            assert!(!waiting.is_finished(), "what was told already does not wake");
            drop(leaving);
            assert!(waiting.join().unwrap());
        });
        assert_eq!(readable, [2]);
        first.read_exact(&mut [0]).unwrap();
        watch.await_data(&first, 3).unwrap();
        talking.write_all(b"b").unwrap();
        assert!(watch.wait(&mut readable, LONG));
        assert_eq!(readable, [3]);
        assert!(watch.wait(&mut readable, Duration::from_millis(5)));
        assert_eq!(readable, [0; 0], "nothing has come in time");
        watch.ring();
        assert!(!watch.wait(&mut readable, LONG));
    }
}
