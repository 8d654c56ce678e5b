//! Connections whose clients say nothing, without threads.
//!
//! Nearly all of a connection's memory is its thread's: the stack, the system's part of it, and the pages that the allocator keeps for the
//! thread. So a connection between two transactions gives its thread up when its client has been silent for a while
//! ([`LINGER`]), and one thread waits for all of them. The first byte brings the connection to a thread again.
//!
//! A thread that leaves costs its connection's next message a detour, one that stays costs memory. So few stay with clients that were
//! silent for long the last time, and several times as many with those that were not: these will speak again soon.

use crate::workers::{Work, Workers};
use ankerdb_base::{Error, Result};
use ankerdb_socket::{ReadableWatch, Stream};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How long a thread stays with a connection that says nothing.
pub(crate) const LINGER: Duration = Duration::from_secs(1);
/// So many threads may do that at the same time; others leave at once.
const LINGERERS_MAX: usize = 64;
/// So many where the last silence was shorter than that.
const BUSY_LINGERERS_MAX: usize = 256;

/// The connections that have no thread. Its own thread ends when this is dropped.
pub(crate) struct IdleConnections {
    waiting: Arc<Waiting>,
    /// Threads that sleep in a read of a silent connection.
    lingerers: AtomicUsize,
    /// With no more connections than this that have a thread, there are cores for threads that do not sleep.
    few: usize,
}

struct Waiting {
    sockets: ReadableWatch,
    connections: Mutex<Connections>,
    workers: Arc<Workers>,
}

#[derive(Default)]
struct Connections {
    next: u64,
    by_number: HashMap<u64, Box<dyn Work>>,
}

/// A thread that stays with its connection; no longer when dropped.
pub(crate) struct Lingerer<'a>(&'a AtomicUsize);

impl Drop for Lingerer<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl IdleConnections {
    /// Starts the thread, which brings connections to these workers.
    ///
    /// # Errors
    /// If the system gives no thread or no descriptors.
    pub(crate) fn start(workers: Arc<Workers>) -> Result<IdleConnections> {
        let cannot = |error| Error::internal(format!("cannot wait for idle clients: {error}"));
        let sockets = ReadableWatch::new().map_err(cannot)?;
        let waiting = Arc::new(Waiting { sockets, connections: Mutex::default(), workers });
        let thread = waiting.clone();
        let named = std::thread::Builder::new().name("idle".to_owned());
        named.spawn(move || thread.wait()).map_err(cannot)?;
        // A client beside the server takes as much.
        let few = std::thread::available_parallelism().map_or(0, |cores| cores.get() / 2);
        Ok(IdleConnections { waiting, lingerers: AtomicUsize::new(0), few })
    }

    /// Leave for a thread to stay with a connection that may say nothing, and has lately been busy or not; `None` if so many do that
    /// already that it should look once and go.
    pub(crate) fn linger(&self, is_busy: bool) -> Option<Lingerer<'_>> {
        let lingerer = Lingerer(&self.lingerers);
        let limit = if is_busy { BUSY_LINGERERS_MAX } else { LINGERERS_MAX };
        (self.lingerers.fetch_add(1, Ordering::Relaxed) < limit).then_some(lingerer)
    }

    /// Whether a thread may stay awake while its client says nothing.
    pub(crate) fn may_poll(&self) -> bool {
        self.waiting.workers.are_few_serving(self.few)
    }

    /// Takes a connection whose thread leaves it.
    pub(crate) fn take(&self, stream: &Stream, connection: Box<dyn Work>) {
        let number = {
            let mut connections = self.waiting.connections.lock();
            connections.next += 1;
            let number = connections.next;
            // Before the socket is watched: it may have data already.
            connections.by_number.insert(number, connection);
            number
        };
        if self.waiting.sockets.await_data(stream, number).is_err() {
            // The system has no memory to wait for it, so a thread has to.
            self.waiting.wake(number);
        }
    }
}

impl Drop for IdleConnections {
    fn drop(&mut self) {
        self.waiting.sockets.ring();
    }
}

impl Waiting {
    fn wait(&self) {
        let mut readable = Vec::new();
        while self.sockets.wait(&mut readable) {
            readable.iter().for_each(|number| self.wake(*number));
        }
    }

    /// Brings a connection to a thread.
    fn wake(&self, number: u64) {
        let connection = self.connections.lock().by_number.remove(&number);
        if let Some(connection) = connection {
            self.workers.serve(connection);
        }
    }
}
