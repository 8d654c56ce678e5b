//! Ends statements that run past `statement_timeout`.
//!
//! One thread for all sessions, started by the first statement that has a limit, sleeps until the next deadline
//! and raises that statement's cancel flag. Dropping a [`Deadline`] takes it back.

use super::CancelHandle;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The deadlines of all running statements that have one.
#[derive(Default)]
pub(crate) struct Deadlines(Arc<Shared>);

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    /// By time; the number tells apart those of one moment.
    waiting: BTreeMap<(Instant, u64), Alarm>,
    next: u64,
    running: bool,
    closed: bool,
}

struct Alarm {
    cancel: CancelHandle,
    expired: Arc<AtomicBool>,
}

/// One statement's deadline.
pub(super) struct Deadline {
    shared: Arc<Shared>,
    key: (Instant, u64),
    expired: Arc<AtomicBool>,
}

impl Deadlines {
    /// Cancels the statement once `limit` has passed.
    pub(super) fn set(&self, limit: Duration, cancel: CancelHandle) -> Deadline {
        let expired = Arc::new(AtomicBool::new(false));
        let mut queue = self.0.queue.lock();
        let key = (Instant::now() + limit, queue.next);
        queue.next += 1;
        queue.waiting.insert(key, Alarm { cancel, expired: expired.clone() });
        if !queue.running {
            queue.running = true;
            let shared = self.0.clone();
            std::thread::spawn(move || shared.watch());
        }
        self.0.changed.notify_one();
        Deadline { shared: self.0.clone(), key, expired }
    }
}

impl Drop for Deadlines {
    fn drop(&mut self) {
        self.0.queue.lock().closed = true;
        self.0.changed.notify_one();
    }
}

impl Deadline {
    /// Whether it has passed.
    pub(super) fn has_expired(&self) -> bool {
        self.expired.load(Ordering::Acquire)
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        self.shared.queue.lock().waiting.remove(&self.key);
    }
}

impl Shared {
    fn watch(&self) {
        let mut queue = self.queue.lock();
        while !queue.closed {
            match queue.waiting.first_key_value().map(|(key, _)| key.0) {
                None => self.changed.wait(&mut queue),
                Some(at) if at > Instant::now() => {
                    self.changed.wait_until(&mut queue, at);
                }
                Some(_) => {
                    if let Some((_, alarm)) = queue.waiting.pop_first() {
                        alarm.expired.store(true, Ordering::Release);
                        alarm.cancel.cancel();
                    }
                }
            }
        }
    }
}
