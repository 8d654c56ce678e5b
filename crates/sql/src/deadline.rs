//! Ends statements that run past `statement_timeout`.
//!
//! One thread for all sessions, started by the first statement that has a limit, sleeps until the next deadline
//! and raises that statement's interrupt. Dropping a [`Deadline`] takes it back: under the mutex under which the
//! thread raises, so that a statement is never ended by the deadline of the one before it.
//!
//! Most statements end long before their deadlines, and waking a thread costs more than many of them. So it is not woken
//! for a deadline that is later than the one it sleeps for already, nor for one that is taken back: then it wakes up
//! once in vain.

use crate::CancelHandle;
use ankerdb_engine::Cause;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The deadlines of all running statements that have one.
#[derive(Default)]
pub(crate) struct Deadlines(Arc<DeadlineState>);

#[derive(Default)]
struct DeadlineState {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    /// By time; the number tells apart those of one moment.
    waiting: BTreeMap<(Instant, u64), CancelHandle>,
    next: u64,
    /// When the thread wakes up by itself; `None` if it does not.
    wakes_at: Option<Instant>,
    running: bool,
    closed: bool,
}

/// One statement's deadline.
pub(super) struct Deadline {
    shared: Arc<DeadlineState>,
    key: (Instant, u64),
}

impl Deadlines {
    /// Ends the statement once `limit` has passed.
    pub(super) fn set(&self, limit: Duration, cancel: CancelHandle) -> Deadline {
        let mut queue = self.0.queue.lock();
        let key = (Instant::now() + limit, queue.next);
        queue.next += 1;
        queue.waiting.insert(key, cancel);
        if !queue.running {
            queue.running = true;
            let shared = self.0.clone();
            std::thread::spawn(move || shared.watch());
        } else if queue.wakes_at.is_none_or(|at| at > key.0) {
            self.0.changed.notify_one();
        }
        Deadline { shared: self.0.clone(), key }
    }
}

impl Drop for Deadlines {
    fn drop(&mut self) {
        self.0.queue.lock().closed = true;
        self.0.changed.notify_one();
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        self.shared.queue.lock().waiting.remove(&self.key);
    }
}

impl DeadlineState {
    fn watch(&self) {
        let mut queue = self.queue.lock();
        while !queue.closed {
            queue.wakes_at = queue.waiting.first_key_value().map(|(key, _)| key.0);
            match queue.wakes_at {
                None => self.changed.wait(&mut queue),
                Some(at) if at > Instant::now() => {
                    self.changed.wait_until(&mut queue, at);
                }
                Some(_) => {
                    if let Some((_, cancel)) = queue.waiting.pop_first() {
                        cancel.raise(Cause::Timeout);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause_after(handle: &CancelHandle, time: Duration) -> Option<Cause> {
        std::thread::sleep(time);
        handle.interrupt().cause()
    }

    #[test]
    fn deadlines_come_in_the_order_of_time() {
        let deadlines = Deadlines::default();
        let (early, late) = (CancelHandle::default(), CancelHandle::default());
        let _late = deadlines.set(Duration::from_secs(600), late.clone());
        // The thread sleeps for the late one already, and must be woken for an earlier one.
        std::thread::sleep(Duration::from_millis(20));
        let _early = deadlines.set(Duration::from_millis(10), early.clone());
        assert_eq!(cause_after(&early, Duration::from_millis(500)), Some(Cause::Timeout));
        assert_eq!(late.interrupt().cause(), None);
    }

    #[test]
    fn a_deadline_that_was_taken_back_does_not_come() {
        let deadlines = Deadlines::default();
        let (former, handle) = (CancelHandle::default(), CancelHandle::default());
        drop(deadlines.set(Duration::from_millis(20), former.clone()));
        // Later than what the thread sleeps for; it is raised all the same.
        let _deadline = deadlines.set(Duration::from_millis(60), handle.clone());
        assert_eq!(cause_after(&handle, Duration::from_millis(500)), Some(Cause::Timeout));
        assert_eq!(former.interrupt().cause(), None);
    }
}
