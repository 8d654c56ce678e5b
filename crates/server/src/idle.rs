//! Connections whose clients say nothing, without threads.
//!
//! Nearly all of a connection's memory is its thread's: the stack, the system's part of it, and the pages that the allocator keeps for the
//! thread. So a connection between two transactions gives its thread up when its client has been silent for a while
//! ([`LINGER`]), and one thread waits for all of them. The first byte brings the connection to a thread again.
//!
//! A thread that leaves costs its connection's next message a detour, one that stays costs memory. So few stay with clients that were
//! silent for long the last time, and several times as many with those that were not: these will speak again soon.
//!
//! What a session keeps of its statements is worth milliseconds to who asks again after a while, as reports do. So it goes only when
//! all silent connections together keep too much, from those first that have been silent for longest; or when it can be of no use.

use crate::workers::{Work, Workers};
use ankerdb_base::{Error, Result};
use ankerdb_socket::{ReadableWatch, Stream};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long a thread stays with a connection that says nothing.
pub(crate) const LINGER: Duration = Duration::from_secs(1);
/// So many threads may do that at the same time; others leave at once.
const LINGERERS_MAX: usize = 64;
/// So many where the last silence was shorter than that.
const BUSY_LINGERERS_MAX: usize = 256;

/// Statements that connections without a thread keep, all together: 9 MB of short ones, or up to five times as much of queries.
const STATEMENTS_MAX: usize = 512;
/// How long they keep them.
const KEPT: Duration = Duration::from_secs(300);
/// How often is looked for those that are to go.
const LOOK: Duration = Duration::from_secs(5);

/// A connection that may wait without a thread.
pub(crate) trait Resting: Work {
    /// How many statements it keeps for its client, by what they take.
    fn statements(&self) -> usize;

    /// Whether they can be of no more use.
    fn is_outdated(&self) -> bool;

    /// Forgets them. Their memory is given back when what is returned is dropped.
    fn forget(&mut self) -> Option<Box<dyn Send>>;
}

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

/// Numbers grow in the order in which connections fell silent.
#[derive(Default)]
struct Connections {
    next: u64,
    by_number: HashMap<u64, Box<dyn Resting>>,
    /// Those of them that keep statements: how many, and since when.
    keepers: BTreeMap<u64, (usize, Instant)>,
    /// Statements of all of them.
    statements: usize,
}

/// What connections have forgotten: to be dropped when nobody waits for a lock.
type Forgotten = Vec<Box<dyn Send>>;

impl Connections {
    /// The number of one more, which fell silent at this moment, and what others have to forget for it.
    fn add(&mut self, connection: Box<dyn Resting>, now: Instant) -> (u64, Forgotten) {
        self.next += 1;
        let (number, statements) = (self.next, connection.statements());
        self.by_number.insert(number, connection);
        if statements > 0 {
            self.keepers.insert(number, (statements, now));
            self.statements += statements;
        }
        let mut forgotten = Forgotten::new();
        while self.statements > STATEMENTS_MAX
            && let Some((&oldest, _)) = self.keepers.first_key_value()
        {
            forgotten.extend(self.forget(oldest));
        }
        (number, forgotten)
    }

    fn remove(&mut self, number: u64) -> Option<Box<dyn Resting>> {
        if let Some((statements, _)) = self.keepers.remove(&number) {
            self.statements -= statements;
        }
        self.by_number.remove(&number)
    }

    fn forget(&mut self, number: u64) -> Option<Box<dyn Send>> {
        let (statements, _) = self.keepers.remove(&number)?;
        self.statements -= statements;
        self.by_number.get_mut(&number)?.forget()
    }

    /// What those forget that have kept it for long, or for nothing.
    fn look(&mut self, now: Instant) -> Forgotten {
        let is_over = |(number, (_, since)): (&u64, &(usize, Instant))| {
            let is_outdated =
                || self.by_number.get(number).is_some_and(|connection| connection.is_outdated());
            (now.duration_since(*since) >= KEPT || is_outdated()).then_some(*number)
        };
        let over: Vec<u64> = self.keepers.iter().filter_map(is_over).collect();
        over.into_iter().filter_map(|number| self.forget(number)).collect()
    }
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
    pub(crate) fn take(&self, stream: &Stream, connection: Box<dyn Resting>) {
        // Before the socket is watched: it may have data already.
        let (number, _forgotten) = self.waiting.connections.lock().add(connection, Instant::now());
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
        let mut looked = Instant::now();
        while self.sockets.wait(&mut readable, LOOK) {
            readable.iter().for_each(|number| self.wake(*number));
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                let forgotten = self.connections.lock().look(looked);
                drop(forgotten);
            }
        }
    }

    /// Brings a connection to a thread.
    fn wake(&self, number: u64) {
        let connection = self.connections.lock().remove(number);
        if let Some(connection) = connection {
            self.workers.serve(connection);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    /// What is seen of a connection from outside.
    #[derive(Default)]
    struct Seen {
        is_outdated: AtomicBool,
        has_forgotten: AtomicBool,
    }

    struct Client {
        statements: usize,
        seen: Arc<Seen>,
    }

    impl Work for Client {
        fn run(self: Box<Self>) {}

        fn refuse(self: Box<Self>) {}
    }

    impl Resting for Client {
        fn statements(&self) -> usize {
            self.statements
        }

        fn is_outdated(&self) -> bool {
            self.seen.is_outdated.load(Ordering::Relaxed)
        }

        fn forget(&mut self) -> Option<Box<dyn Send>> {
            self.seen.has_forgotten.store(true, Ordering::Relaxed);
            Some(Box::new(std::mem::take(&mut self.statements)))
        }
    }

    impl Connections {
        fn add_client(&mut self, statements: usize, now: Instant) -> (u64, Arc<Seen>) {
            let seen = Arc::<Seen>::default();
            let (number, _) = self.add(Box::new(Client { statements, seen: seen.clone() }), now);
            (number, seen)
        }
    }

    fn forgotten(clients: &[(u64, Arc<Seen>)]) -> Vec<u64> {
        let has =
            |(number, seen): &(u64, Arc<Seen>)| seen.has_forgotten.load(Ordering::Relaxed).then_some(*number);
        clients.iter().filter_map(has).collect()
    }

    #[test]
    fn who_has_been_silent_for_longest_forgets_first() {
        let (mut connections, now) = (Connections::default(), Instant::now());
        let mut clients: Vec<_> = (0..4).map(|_| connections.add_client(STATEMENTS_MAX / 4, now)).collect();
        assert_eq!(forgotten(&clients), [0; 0]);
        // The first one speaks, and is silent again.
        assert!(connections.remove(clients[0].0).is_some());
        clients[0] = connections.add_client(STATEMENTS_MAX / 4, now);
        clients.push(connections.add_client(0, now));
        assert_eq!(forgotten(&clients), [0; 0]);
        clients.push(connections.add_client(STATEMENTS_MAX / 4 + 1, now));
        assert_eq!(forgotten(&clients), [clients[1].0, clients[2].0]);
        // One that has too much for all.
        clients.push(connections.add_client(STATEMENTS_MAX + 1, now));
        assert_eq!(forgotten(&clients).len(), 6);
        assert_eq!(
            (connections.statements, connections.keepers.len(), connections.by_number.len()),
            (0, 0, 7)
        );
    }

    #[test]
    fn statements_go_after_a_while_and_when_they_are_of_no_use() {
        let (mut connections, now) = (Connections::default(), Instant::now());
        let second = Duration::from_secs(1);
        let clients = [0, 10, 20].map(|after| connections.add_client(7, now + second * after));
        connections.look(now + KEPT - second);
        assert_eq!(forgotten(&clients), [0; 0]);
        clients[1].1.is_outdated.store(true, Ordering::Relaxed);
        connections.look(now + KEPT - second);
        assert_eq!(forgotten(&clients), [clients[1].0]);
        connections.look(now + KEPT);
        assert_eq!(forgotten(&clients), [clients[0].0, clients[1].0]);
        assert_eq!((connections.statements, connections.by_number.len()), (7, 3));
        // They are still connections, whose clients may speak.
        assert!(clients.iter().all(|(number, _)| connections.remove(*number).is_some()));
        assert_eq!(connections.statements, 0);
    }
}
