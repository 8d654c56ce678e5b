//! Advisory locks: locks on numbers that programs agree about.
//!
//! ```text
//! key --> holders: sessions with the lock, alone or shared, each several times
//!         waiters: sessions in the order in which they came; one is passed only by a session that has the lock already
//! ```
//! Locks are few and short operations, so that one mutex guards them all. A session that has to wait looks for a circle of sessions that
//! wait for each other, and fails with 40P01 if it would close one. Rows are not part of that circle: a session that waits for a
//! row while it holds an advisory lock is known to the locks of rows only, and a circle through both ends by a time limit.

use ankerdb_engine::{Error, Interrupt, Result, SqlState, WaitsFor};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// What is locked: one number, or a pair, which are other locks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum LockKey {
    One(i64),
    Pair(i32, i32),
}

/// How a lock is held.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Hold {
    pub key: LockKey,
    pub is_shared: bool,
}

/// All advisory locks of a database.
#[derive(Default)]
pub(crate) struct AdvisoryLocks {
    table: Mutex<LockTable>,
    next_owner: AtomicU64,
}

#[derive(Default)]
struct LockTable {
    locks: HashMap<LockKey, Lock>,
    /// What each waiting session waits for.
    waits: HashMap<u64, Hold>,
}

#[derive(Default)]
struct Lock {
    /// By session and whether it is shared: how often.
    holders: HashMap<(u64, bool), u32>,
    waiters: Vec<(u64, bool, Thread)>,
}

impl Lock {
    /// The sessions that this one has to wait for. A session that has the lock in any way passes those that wait.
    fn blockers(&self, owner: u64, is_shared: bool) -> Vec<u64> {
        let excludes = |other: u64, other_shared: bool| other != owner && !(is_shared && other_shared);
        let holders =
            self.holders.keys().filter(|(other, shared)| excludes(*other, *shared)).map(|(other, _)| *other);
        let mut blockers: Vec<u64> = holders.collect();
        let has_it = self.holders.keys().any(|(other, _)| *other == owner);
        if !has_it {
            let before = self.waiters.iter().take_while(|(other, ..)| *other != owner);
            blockers.extend(
                before.filter(|(other, shared, _)| excludes(*other, *shared)).map(|(other, ..)| *other),
            );
        }
        blockers
    }

    fn wake(&self) {
        self.waiters.iter().for_each(|(_, _, thread)| thread.unpark());
    }
}

impl LockTable {
    /// Takes the lock if nobody is in the way.
    fn try_take(&mut self, owner: u64, hold: Hold) -> bool {
        let lock = self.locks.entry(hold.key).or_default();
        let is_free = lock.blockers(owner, hold.is_shared).is_empty();
        if is_free {
            *lock.holders.entry((owner, hold.is_shared)).or_default() += 1;
        }
        self.forget_unused(hold.key);
        is_free
    }

    fn enqueue(&mut self, owner: u64, hold: Hold) {
        let lock = self.locks.entry(hold.key).or_default();
        lock.waiters.push((owner, hold.is_shared, std::thread::current()));
        self.waits.insert(owner, hold);
    }

    fn dequeue(&mut self, owner: u64, key: LockKey) {
        self.waits.remove(&owner);
        if let Some(lock) = self.locks.get_mut(&key) {
            lock.waiters.retain(|(waiter, ..)| *waiter != owner);
            lock.wake();
        }
        self.forget_unused(key);
    }

    fn forget_unused(&mut self, key: LockKey) {
        if self.locks.get(&key).is_some_and(|lock| lock.holders.is_empty() && lock.waiters.is_empty()) {
            self.locks.remove(&key);
        }
    }

    /// Whether the session waits, through others, for itself.
    fn is_in_circle(&self, owner: u64) -> bool {
        let blockers = |waiter: u64| match self.waits.get(&waiter) {
            Some(hold) => {
                self.locks.get(&hold.key).map_or(Vec::new(), |lock| lock.blockers(waiter, hold.is_shared))
            }
            None => Vec::new(),
        };
        let (mut open, mut seen) = (blockers(owner), Vec::new());
        while let Some(next) = open.pop() {
            if next == owner {
                return true;
            }
            if !seen.contains(&next) {
                seen.push(next);
                open.extend(blockers(next));
            }
        }
        false
    }
}

impl AdvisoryLocks {
    /// A number for a session.
    pub(crate) fn new_owner(&self) -> u64 {
        self.next_owner.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes a lock once more; whether it was free.
    pub(crate) fn try_take(&self, owner: u64, hold: Hold) -> bool {
        self.table.lock().try_take(owner, hold)
    }

    /// Takes a lock once more, and waits for it.
    ///
    /// # Errors
    /// `DeadlockDetected`, `LockNotAvailable` after the limit, and those of the interrupt.
    pub(crate) fn take(
        &self,
        owner: u64,
        hold: Hold,
        limit: Option<Duration>,
        interrupt: &Interrupt,
    ) -> Result<()> {
        {
            let mut table = self.table.lock();
            if table.try_take(owner, hold) {
                return Ok(());
            }
            table.enqueue(owner, hold);
            if table.is_in_circle(owner) {
                table.dequeue(owner, hold.key);
                return Err(Error::new(SqlState::DeadlockDetected, "deadlock detected"));
            }
        }
        let waiting = interrupt.waits_for(WaitsFor::Agreement);
        let waited = self.wait(owner, hold, limit.map(|limit| Instant::now() + limit), interrupt);
        drop(waiting);
        self.table.lock().dequeue(owner, hold.key);
        waited
    }

    fn wait(&self, owner: u64, hold: Hold, until: Option<Instant>, interrupt: &Interrupt) -> Result<()> {
        let _woken = interrupt.wakes_me();
        loop {
            interrupt.check()?;
            if self.table.lock().try_take(owner, hold) {
                return Ok(());
            }
            match until.map(|until| until.saturating_duration_since(Instant::now())) {
                None => std::thread::park(),
                Some(Duration::ZERO) => {
                    let message = "canceling statement due to lock timeout";
                    return Err(Error::new(SqlState::LockNotAvailable, message));
                }
                Some(left) => std::thread::park_timeout(left),
            }
        }
    }

    /// All locks of now: by whom, which, and whether it has it or waits for it.
    pub(crate) fn all(&self) -> Vec<(u64, Hold, bool)> {
        let table = self.table.lock();
        let held = table.locks.iter().flat_map(|(key, lock)| {
            lock.holders
                .keys()
                .map(|(owner, is_shared)| (*owner, Hold { key: *key, is_shared: *is_shared }, true))
        });
        held.chain(table.waits.iter().map(|(owner, hold)| (*owner, *hold, false))).collect()
    }

    /// The sessions that this one waits for.
    pub(crate) fn blockers(&self, owner: u64) -> Vec<u64> {
        let table = self.table.lock();
        let lock = table.waits.get(&owner).and_then(|hold| Some((hold, table.locks.get(&hold.key)?)));
        lock.map_or(Vec::new(), |(hold, lock)| lock.blockers(owner, hold.is_shared))
    }

    /// Gives a lock back once; whether the session had it.
    pub(crate) fn release(&self, owner: u64, hold: Hold) -> bool {
        let mut table = self.table.lock();
        let Some(lock) = table.locks.get_mut(&hold.key) else { return false };
        let Some(count) = lock.holders.get_mut(&(owner, hold.is_shared)) else { return false };
        *count -= 1;
        if *count == 0 {
            lock.holders.remove(&(owner, hold.is_shared));
            lock.wake();
            table.forget_unused(hold.key);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ankerdb_engine::Cause;
    use std::sync::Arc;

    fn hold(number: i64, is_shared: bool) -> Hold {
        Hold { key: LockKey::One(number), is_shared }
    }

    #[test]
    fn a_lock_is_shared_or_alone_and_counts() {
        let locks = AdvisoryLocks::default();
        let (one, two) = (locks.new_owner(), locks.new_owner());
        assert!(locks.try_take(one, hold(1, true)) && locks.try_take(two, hold(1, true)));
        assert!(!locks.try_take(one, hold(1, false)));
        assert!(locks.release(two, hold(1, true)) && !locks.release(two, hold(1, true)));
        assert!(locks.try_take(one, hold(1, false)) && locks.try_take(one, hold(1, false)));
        assert!(!locks.try_take(two, hold(1, true)) && locks.try_take(two, hold(2, false)));
        assert!(locks.release(one, hold(1, false)) && !locks.try_take(two, hold(1, true)));
        assert!(locks.release(one, hold(1, false)) && locks.try_take(two, hold(1, true)));
        assert!(locks.try_take(one, Hold { key: LockKey::Pair(0, 2), is_shared: false }));
    }

    #[test]
    fn a_circle_of_waiting_sessions_is_broken_and_others_are_woken() {
        let locks = Arc::new(AdvisoryLocks::default());
        let (one, two) = (locks.new_owner(), locks.new_owner());
        assert!(locks.try_take(one, hold(1, false)) && locks.try_take(two, hold(2, false)));
        let waiter = {
            let locks = locks.clone();
            std::thread::spawn(move || locks.take(one, hold(2, false), None, &Interrupt::new()))
        };
        while locks.table.lock().waits.is_empty() {
            std::thread::yield_now();
        }
        assert_eq!((locks.blockers(one), locks.blockers(two)), (vec![two], Vec::new()));
        assert!(locks.all().contains(&(one, hold(2, false), false)) && locks.all().len() == 3);
        let error = locks.take(two, hold(1, false), None, &Interrupt::new()).unwrap_err();
        assert_eq!(error.state(), SqlState::DeadlockDetected);
        assert!(locks.release(two, hold(2, false)));
        assert_eq!(waiter.join().unwrap(), Ok(()));
        assert!(locks.release(one, hold(1, false)) && locks.release(one, hold(2, false)));
        assert!(locks.table.lock().locks.is_empty());
    }

    #[test]
    fn time_limits_and_interrupts_end_a_wait() {
        let locks = AdvisoryLocks::default();
        let (one, two) = (locks.new_owner(), locks.new_owner());
        assert!(locks.try_take(one, hold(1, false)));
        let limit = Some(Duration::from_millis(10));
        let late = locks.take(two, hold(1, false), limit, &Interrupt::new()).unwrap_err();
        assert_eq!(late.state(), SqlState::LockNotAvailable);
        let interrupt = Interrupt::new();
        interrupt.raise(Cause::Request);
        let ended = locks.take(two, hold(1, true), None, &interrupt).unwrap_err();
        assert_eq!(ended.state(), SqlState::QueryCanceled);
        assert!(locks.release(one, hold(1, false)) && locks.table.lock().locks.is_empty());
    }
}
