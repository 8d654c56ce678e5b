//! All open connections, so that they can be ended from outside.
//!
//! A connection's thread sleeps in the system, in a read or a write of its socket, and nothing but the socket wakes it:
//! to end a connection is to shut its socket down. First for reading only, so that the client can still be told why
//! ([`Connections::end`]); in the end altogether ([`Connections::cut`]).

use ankerdb_socket::Stream;
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// All connections of a server, sessions and those that are not sessions yet.
#[derive(Default)]
pub(crate) struct Connections {
    streams: Mutex<Streams>,
    /// Rung when the last one is gone.
    none_left: Condvar,
    ending: AtomicBool,
}

#[derive(Default)]
struct Streams {
    next: u64,
    by_number: HashMap<u64, Arc<Stream>>,
}

/// A connection's place among the others; given up when dropped.
pub(crate) struct ConnectionPlace {
    connections: Arc<Connections>,
    number: u64,
}

impl Connections {
    /// A place for a new connection, or `None` if there are `limit` already.
    pub(crate) fn enter(self: &Arc<Self>, stream: Arc<Stream>, limit: usize) -> Option<ConnectionPlace> {
        let mut streams = self.streams.lock();
        if streams.by_number.len() >= limit {
            return None;
        }
        let number = streams.next;
        streams.next += 1;
        if self.is_ending() {
            stop_reading(&stream);
        }
        streams.by_number.insert(number, stream);
        Some(ConnectionPlace { connections: self.clone(), number })
    }

    /// Whether the server ends.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }

    /// From now on nothing more is read from any client: a connection that waits for a message learns that the server
    /// ends.
    pub(crate) fn end(&self) {
        // Under the mutex, so that a new connection is either among these or sees the flag.
        let streams = self.streams.lock();
        self.ending.store(true, Ordering::Release);
        streams.by_number.values().for_each(|stream| stop_reading(stream));
    }

    /// Cuts off the connections that are left.
    pub(crate) fn cut(&self) {
        // One that the client has closed meanwhile needs no cutting.
        self.streams.lock().by_number.values().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
    }

    /// Waits until all are gone, but not for longer than this; returns whether they are.
    pub(crate) fn wait(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        let mut streams = self.streams.lock();
        while !streams.by_number.is_empty() {
            if self.none_left.wait_until(&mut streams, until).timed_out() {
                return streams.by_number.is_empty();
            }
        }
        true
    }
}

fn stop_reading(stream: &Stream) {
    // One that the client has closed meanwhile has nothing to read.
    let _ = stream.shutdown(Shutdown::Read);
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let mut streams = self.connections.streams.lock();
        streams.by_number.remove(&self.number);
        if streams.by_number.is_empty() {
            self.connections.none_left.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    fn pair() -> (TcpStream, Arc<Stream>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, Arc::new(Stream::Tcp(listener.accept().unwrap().0)))
    }

    #[test]
    fn who_sleeps_in_a_read_is_woken_and_waited_for() {
        let connections = Arc::new(Connections::default());
        let (_client, stream) = pair();
        let place = connections.enter(stream.clone(), 1).unwrap();
        assert!(connections.enter(stream.clone(), 1).is_none());
        assert!(!connections.wait(Duration::from_millis(10)));
        let reader = std::thread::spawn(move || {
            let read = (&*stream).read(&mut [0]);
            drop(place);
            read
        });
        std::thread::sleep(Duration::from_millis(20));
        connections.end();
        assert!(connections.wait(Duration::from_secs(10)));
        assert_eq!(reader.join().unwrap().unwrap(), 0);
    }

    #[test]
    fn who_comes_when_all_end_reads_nothing() {
        let connections = Arc::new(Connections::default());
        connections.end();
        let (_client, stream) = pair();
        let _place = connections.enter(stream.clone(), 1).unwrap();
        assert_eq!((&*stream).read(&mut [0]).unwrap(), 0);
    }
}
