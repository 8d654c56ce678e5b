//! The threads that serve connections.
//!
//! A connection has a thread as long as its client is busy; then the thread serves another connection, or waits for one, and ends
//! when none comes. There are as many threads as connections need at the same time: a statement may wait for another session's, so
//! none may have to wait for a thread that waits for it.

use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How long a thread waits for another connection before it ends.
const KEPT: Duration = Duration::from_secs(5);
/// From so many threads on, a connection waits a moment for one of them before it gets a new one: thousands that become
/// busy together, such as those that the server's end wakes, are mostly served at once.
const CROWD: usize = 64;
const MOMENT: Duration = Duration::from_millis(1);

/// A connection that needs a thread.
pub(crate) trait Work: Send {
    /// Serves it, until it ends or its client says nothing.
    fn run(self: Box<Self>);

    /// Ends it: the system has no thread for it.
    fn refuse(self: Box<Self>);
}

/// The threads, and the connections that wait for one.
#[derive(Default)]
pub(crate) struct Workers {
    state: Mutex<State>,
    /// Rung for a thread that waits for a connection.
    wanted: Condvar,
    /// Rung when a thread has taken one.
    taken: Condvar,
    /// Threads that serve a connection now.
    serving: AtomicUsize,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Box<dyn Work>>,
    threads: usize,
    /// Of the threads, those that wait.
    free: usize,
}

/// Takes a thread that a panic ends from the count.
struct Counted<'a>(&'a Workers);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.state.lock().threads -= 1;
        }
    }
}

/// A thread that serves a connection; no longer when dropped.
struct Serving<'a>(&'a AtomicUsize);

impl<'a> Serving<'a> {
    fn start(serving: &'a AtomicUsize) -> Serving<'a> {
        serving.fetch_add(1, Ordering::Relaxed);
        Serving(serving)
    }
}

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Workers {
    /// Whether at most `few` threads serve a connection now, which may be one whose client has just fallen silent.
    pub(crate) fn are_few_serving(&self, few: usize) -> bool {
        self.serving.load(Ordering::Relaxed) <= few
    }

    /// Serves a connection on a thread of its own, until it ends or its client says nothing.
    pub(crate) fn serve(self: &Arc<Self>, connection: Box<dyn Work>) {
        let mut state = self.state.lock();
        state.queue.push_back(connection);
        if state.free >= state.queue.len() {
            self.wanted.notify_one();
            return;
        }
        if state.threads >= CROWD {
            self.taken.wait_for(&mut state, MOMENT);
            if state.free >= state.queue.len() {
                self.wanted.notify_one();
                return;
            }
        }
        state.threads += 1;
        drop(state);
        let thread = std::thread::Builder::new().name("connection".to_owned());
        let workers = self.clone();
        if let Err(error) = thread.spawn(move || workers.work()) {
            self.do_without(&error);
        }
    }

    /// The system gives no thread. One that serves another connection now takes this one afterwards; if there is none, it is turned
    /// away.
    fn do_without(&self, error: &std::io::Error) {
        eprintln!("cannot start a thread for a connection: {error}");
        let mut state = self.state.lock();
        state.threads -= 1;
        if state.threads == 0 {
            let connections = std::mem::take(&mut state.queue);
            drop(state);
            connections.into_iter().for_each(Work::refuse);
        }
    }

    fn work(&self) {
        ankerdb_memory::account::attend();
        let _counted = Counted(self);
        while let Some(connection) = self.next() {
            let _serving = Serving::start(&self.serving);
            connection.run();
        }
    }

    /// The next connection; `None` if none has come for a while.
    fn next(&self) -> Option<Box<dyn Work>> {
        let mut state = self.state.lock();
        while state.queue.is_empty() {
            state.free += 1;
            let waited = self.wanted.wait_for(&mut state, KEPT);
            state.free -= 1;
            if waited.timed_out() && state.queue.is_empty() {
                // Before others can count on it.
                state.threads -= 1;
                return None;
            }
        }
        self.taken.notify_one();
        state.queue.pop_front()
    }
}
