//! The lock table: waiting for rows that interactive transactions hold.
//!
//! # Idea
//! Whether a row is locked is one bit in its header, elsewhere, and a commit never asks here. But a client
//! that sends statement after statement holds rows for milliseconds, and others must be able to sleep until
//! it ends, and to learn that it never will. For that this table knows *who* holds a row (only rows locked
//! over several statements) and *who waits for whom*.
//!
//! # Protocol
//! ```text
//! holder   set the row's bit ─ hold(row) ······ clear the bits ─ release(rows)
//! other         finds the bit set ─ wait(row) ───────────────────────┴► Released ─ tries the bit again
//! ```
//! The bit decides, the table only follows it, a moment late at both ends. [`Waited::NotHeld`] means that
//! the moment was met: try the bit again. Whoever is woken has no right to the row, it competes for the bit.
//!
//! # Resting and leaving
//! A row that is locked may be in the middle of a commit, or its holder's client may think for an hour. Whoever finds
//! a lock in the way of something else than the row (of a key that the row had formerly, or has in a commit under way)
//! must be able to tell: [`LockTable::is_resting`]. A holder *rests* until it calls [`LockTable::leave`], as the first
//! step of its commit or of giving up; from then on it is *leaving*, until `release` has taken all its rows.
//!
//! ```text
//! holder   lock, hold, lock, hold ······ leave ─ enter keys, install or clear the bits ─ release
//!          └──────── resting ──────────┘└──────────────── leaving ─────────────────────┘
//! ```
//! `is_resting` is asked under the shard's mutex, under which `release` removes the row before it forgets that the
//! holder is leaving. So `true` means: at the time of the call the row's bit is that holder's, who had not begun to enter
//! keys. If it begins later, it finds what the caller has entered, because entering a key (`ankerdb_index`) is ordered
//! against entering the same key. A former holder that is on its way to `release` is leaving, whoever has the bit.
//!
//! A transaction waits for one row at a time and a row has one holder, so each transaction waits for at most
//! one other. Whoever is about to wait follows these steps from the holder on, and if they come back to
//! itself, waiting would close a circle: [`Waited::Deadlock`].
//!
//! # Invariants
//! 1. *The transactions that wait never form a circle.* A step "A waits for B" appears only in `wait`, under
//!    the mutex of the wait graph, after following the steps that are there. A row that changes its holder
//!    wakes all that wait for it, so steps never bend.
//! 2. *No wake-up is lost.* A waiter joins the row's list under the same shard mutex under which the holder
//!    is found there and removed.
//! 3. *A deadlock is real.* A waiter that has been woken counts as not waiting, even before it runs.
//!
//! Mutexes are taken in the order graph, shard, leaving. Holders take only shards; the graph is locked only
//! by who waits anyway.
//!
//! # Not here
//! No queue: all waiters of a row are woken at once, and who comes first has it. No shared locks.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::Instant;

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;

use crate::interrupt::{Cause, Interrupt};

/// A transaction, by its number, which is never used again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Owner(pub u64);

/// A row: the number of its table and its own.
pub type LockKey = (u32, u64);

const SHARDS: usize = 64;

/// Outcome of [`LockTable::wait`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waited {
    /// The holder has released the row: try again.
    Released,
    /// Nobody else held the row at all: try again.
    NotHeld,
    /// Waiting would never end, since the holder waits for us, directly or through others.
    Deadlock,
    /// The statement is to end.
    Interrupted(Cause),
    /// The deadline has passed.
    TimedOut,
}

/// The holders of locked rows, and those who wait for them.
#[derive(Debug)]
pub struct LockTable {
    shards: Box<[CachePadded<Mutex<Shard>>]>,
    /// Who waits, and for what.
    waiting: Mutex<HashMap<Owner, Arc<Waiter>>>,
    /// Who commits or gives up, by the owner's number.
    leaving: Box<[CachePadded<Mutex<Vec<Owner>>>]>,
}

type Shard = HashMap<LockKey, Hold, BuildHasherDefault<KeyHasher>>;

/// Hashes rows by multiplication: their numbers are ours, not a stranger's.
#[derive(Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        // Another constant than the one that chooses the shard, whose rows have the upper bits of that one in common.
        let mixed = (self.0.rotate_left(20) ^ number).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        self.0 = mixed ^ mixed >> 32;
    }
}

#[derive(Debug)]
struct Hold {
    owner: Owner,
    waiters: Vec<Arc<Waiter>>,
}

impl Hold {
    fn wake_waiters(&mut self) {
        for waiter in self.waiters.drain(..) {
            waiter.wake();
        }
    }
}

/// One transaction's wait for one row.
#[derive(Debug)]
struct Waiter {
    key: LockKey,
    thread: Thread,
    woken: AtomicBool,
}

impl Waiter {
    fn new(key: LockKey) -> Waiter {
        Waiter { key, thread: std::thread::current(), woken: AtomicBool::new(false) }
    }

    fn is_woken(&self) -> bool {
        self.woken.load(Ordering::Acquire)
    }

    fn wake(&self) {
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }

    /// Sleeps until woken, interrupted, or the deadline.
    fn sleep(&self, interrupt: &Interrupt, deadline: Option<Instant>) -> Waited {
        let _sleeper = interrupt.wakes_me();
        loop {
            if self.is_woken() {
                return Waited::Released;
            }
            if let Some(cause) = interrupt.cause() {
                return Waited::Interrupted(cause);
            }
            match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
                None => std::thread::park(),
                Some(left) if left.is_zero() => return Waited::TimedOut,
                Some(left) => std::thread::park_timeout(left),
            }
        }
    }
}

impl Default for LockTable {
    fn default() -> LockTable {
        LockTable::new()
    }
}

impl LockTable {
    /// A table in which nothing is held.
    pub fn new() -> LockTable {
        LockTable {
            shards: (0..SHARDS).map(|_| CachePadded::default()).collect(),
            waiting: Mutex::new(HashMap::new()),
            leaving: (0..SHARDS).map(|_| CachePadded::default()).collect(),
        }
    }

    fn shard(&self, (table, row): LockKey) -> &Mutex<Shard> {
        // Fibonacci hashing: neighbouring rows go to different shards.
        let hash = (row ^ u64::from(table) << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        &self.shards[(hash >> (u64::BITS - SHARDS.ilog2())) as usize]
    }

    /// Notes that `owner` has locked the row; to be called right after the row's bit was set. Holding a row
    /// again changes nothing.
    pub fn hold(&self, key: LockKey, owner: Owner) {
        let mut shard = self.shard(key).lock();
        let hold = shard.entry(key).or_insert_with(|| Hold { owner, waiters: Vec::new() });
        if hold.owner != owner {
            // The former holder has cleared the bit and is on its way to `release`. Its waiters come back
            // and wait for us, so that they look for deadlocks anew.
            hold.owner = owner;
            hold.wake_waiters();
        }
    }

    /// Who holds the row.
    pub fn is_held(&self, key: LockKey) -> Option<Owner> {
        self.shard(key).lock().get(&key).map(|hold| hold.owner)
    }

    fn leaving(&self, owner: Owner) -> &Mutex<Vec<Owner>> {
        &self.leaving[owner.0 as usize % SHARDS]
    }

    /// Notes that `owner` is about to commit or to give up its rows: it does not rest from now on, until
    /// [`release`](Self::release).
    pub fn leave(&self, owner: Owner) {
        let mut leaving = self.leaving(owner).lock();
        if !leaving.contains(&owner) {
            leaving.push(owner);
        }
    }

    /// Whether a transaction holds the row that is neither committing nor giving up.
    pub fn is_resting(&self, key: LockKey) -> bool {
        let shard = self.shard(key).lock();
        shard.get(&key).is_some_and(|hold| !self.leaving(hold.owner).lock().contains(&hold.owner))
    }

    /// Notes that `owner` has unlocked these rows, which are all that it held, and wakes who waits for them; to be called right after the
    /// rows' bits were cleared. Rows that it does not hold are left alone.
    pub fn release(&self, owner: Owner, keys: impl IntoIterator<Item = LockKey>) {
        for key in keys {
            let mut shard = self.shard(key).lock();
            if let Entry::Occupied(entry) = shard.entry(key)
                && entry.get().owner == owner
            {
                entry.remove().wake_waiters();
            }
        }
        self.leaving(owner).lock().retain(|leaving| *leaving != owner);
    }

    /// Sleeps until the row is released. A transaction waits from one thread at a time.
    ///
    /// A deadlock is found when the wait begins; the transaction that would close the circle is told, and has
    /// to release what it holds. A raised interrupt ends the wait at once.
    pub fn wait(&self, key: LockKey, me: Owner, interrupt: &Interrupt, deadline: Option<Instant>) -> Waited {
        let waiter = Arc::new(Waiter::new(key));
        if let Err(outcome) = self.join(&waiter, me) {
            return outcome;
        }
        let outcome = waiter.sleep(interrupt, deadline);
        self.waiting.lock().remove(&me);
        if outcome == Waited::Released {
            return outcome;
        }
        if let Some(hold) = self.shard(key).lock().get_mut(&key) {
            hold.waiters.retain(|other| !Arc::ptr_eq(other, &waiter));
        }
        outcome
    }

    /// Enters the wait into the graph and into the row's list, unless there is nothing to wait for or waiting
    /// would close a circle.
    fn join(&self, waiter: &Arc<Waiter>, me: Owner) -> Result<(), Waited> {
        let mut waiting = self.waiting.lock();
        match self.is_held(waiter.key) {
            Some(holder) if holder != me => {
                if self.leads_to(me, holder, &waiting) {
                    return Err(Waited::Deadlock);
                }
                let mut shard = self.shard(waiter.key).lock();
                // The row may have a new holder since; that one would have to be followed too.
                let hold = shard.get_mut(&waiter.key).filter(|hold| hold.owner == holder);
                hold.ok_or(Waited::NotHeld)?.waiters.push(Arc::clone(waiter));
                let former = waiting.insert(me, Arc::clone(waiter));
                assert!(former.is_none(), "a transaction waits for one row at a time");
                Ok(())
            }
            _ => Err(Waited::NotHeld),
        }
    }

    /// Whether `from` waits, directly or through others, for `me`.
    fn leads_to(&self, me: Owner, from: Owner, waiting: &HashMap<Owner, Arc<Waiter>>) -> bool {
        let mut at = from;
        // No more steps than there are waiters: without circles, nobody is met twice.
        for _ in 0..=waiting.len() {
            if at == me {
                return true;
            }
            let Some(waiter) = waiting.get(&at) else { return false };
            // Holder first: if the waiter is asleep even afterwards, it sleeps for that holder.
            let Some(holder) = self.is_held(waiter.key) else { return false };
            if waiter.is_woken() {
                return false;
            }
            at = holder;
        }
        false
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;
    use std::time::Duration;

    const A: Owner = Owner(1);
    const B: Owner = Owner(2);
    const C: Owner = Owner(3);

    fn key(row: u64) -> LockKey {
        (1, row)
    }

    /// Waits without an interrupt.
    fn wait(table: &LockTable, key: LockKey, me: Owner) -> Waited {
        table.wait(key, me, &Interrupt::new(), None)
    }

    /// Returns when `owner` sleeps.
    fn until_waiting(table: &LockTable, owner: Owner) {
        while !table.waiting.lock().contains_key(&owner) {
            std::thread::yield_now();
        }
    }

    fn is_empty(table: &LockTable) -> bool {
        table.waiting.lock().is_empty() && table.shards.iter().all(|shard| shard.lock().is_empty())
    }

    #[test]
    fn holders_are_known_until_they_release() {
        let table = LockTable::new();
        table.hold(key(1), A);
        table.hold(key(1), A);
        assert_eq!((table.is_held(key(1)), table.is_held(key(2))), (Some(A), None));
        assert_eq!(table.is_held((2, 1)), None, "same row of another table");
        table.release(B, [key(1)]);
        assert_eq!(table.is_held(key(1)), Some(A));
        table.release(A, [key(1), key(2)]);
        assert!(is_empty(&table));
    }

    #[test]
    fn a_holder_rests_until_it_leaves() {
        let table = LockTable::new();
        assert!(!table.is_resting(key(1)), "nobody holds it");
        table.hold(key(1), A);
        table.hold(key(2), B);
        assert!(table.is_resting(key(1)));
        table.leave(A);
        table.leave(A);
        assert!(!table.is_resting(key(1)) && table.is_resting(key(2)));
        table.release(A, [key(1)]);
        assert!(!table.is_resting(key(1)));
        table.hold(key(1), A);
        assert!(table.is_resting(key(1)), "the next transaction of that number, were there one");
    }

    #[test]
    fn nobody_waits_for_what_is_free_or_its_own() {
        let table = LockTable::new();
        assert_eq!(wait(&table, key(1), A), Waited::NotHeld);
        table.hold(key(1), A);
        assert_eq!(wait(&table, key(1), A), Waited::NotHeld);
    }

    #[test]
    fn all_waiters_are_woken() {
        let table = LockTable::new();
        table.hold(key(1), A);
        std::thread::scope(|scope| {
            let waiters = [B, C].map(|me| {
                let table = &table;
                scope.spawn(move || wait(table, key(1), me))
            });
            [B, C].iter().for_each(|&me| until_waiting(&table, me));
            table.release(A, [key(1)]);
            assert_eq!(waiters.map(|waiter| waiter.join().unwrap()), [Waited::Released; 2]);
        });
        assert!(is_empty(&table));
    }

    #[test]
    fn a_new_holder_wakes_those_who_wait_for_the_former_one() {
        let table = LockTable::new();
        table.hold(key(1), A);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| wait(&table, key(1), B));
            until_waiting(&table, B);
            table.hold(key(1), C);
            assert_eq!(waiter.join().unwrap(), Waited::Released);
        });
        table.release(A, [key(1)]);
        assert_eq!(table.is_held(key(1)), Some(C));
    }

    #[test]
    fn canceled_waiters_leave_nothing_behind() {
        let table = LockTable::new();
        let interrupt = Interrupt::new();
        table.hold(key(1), A);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| table.wait(key(1), B, &interrupt, None));
            until_waiting(&table, B);
            interrupt.raise(Cause::Request);
            assert_eq!(waiter.join().unwrap(), Waited::Interrupted(Cause::Request));
        });
        assert!(table.shard(key(1)).lock()[&key(1)].waiters.is_empty());
        table.release(A, [key(1)]);
        assert!(is_empty(&table));
    }

    #[test]
    fn a_wait_ends_at_its_deadline_and_leaves_nothing_behind() {
        let table = LockTable::new();
        table.hold(key(1), A);
        let deadline = Instant::now() + Duration::from_millis(20);
        assert_eq!(table.wait(key(1), B, &Interrupt::new(), Some(deadline)), Waited::TimedOut);
        assert!(Instant::now() >= deadline);
        assert!(table.shard(key(1)).lock()[&key(1)].waiters.is_empty());
        table.release(A, [key(1)]);
        assert!(is_empty(&table));
    }

    #[test]
    fn who_closes_a_circle_of_three_is_told_and_the_others_go_on() {
        let table = LockTable::new();
        for (row, owner) in [(1, A), (2, B), (3, C)] {
            table.hold(key(row), owner);
        }
        std::thread::scope(|scope| {
            let a = scope.spawn(|| wait(&table, key(2), A));
            until_waiting(&table, A);
            let b = scope.spawn(|| wait(&table, key(3), B));
            until_waiting(&table, B);
            assert_eq!(wait(&table, key(1), C), Waited::Deadlock);
            table.release(C, [key(3)]);
            assert_eq!(b.join().unwrap(), Waited::Released);
            table.release(B, [key(2)]);
            assert_eq!(a.join().unwrap(), Waited::Released);
        });
    }

    #[test]
    fn a_chain_is_no_circle() {
        let table = LockTable::new();
        table.hold(key(1), A);
        table.hold(key(2), B);
        std::thread::scope(|scope| {
            let b = scope.spawn(|| wait(&table, key(1), B));
            until_waiting(&table, B);
            let c = scope.spawn(|| wait(&table, key(2), C));
            until_waiting(&table, C);
            table.release(A, [key(1)]);
            assert_eq!(b.join().unwrap(), Waited::Released);
            table.release(B, [key(2)]);
            assert_eq!(c.join().unwrap(), Waited::Released);
        });
    }

    /// Rows with real lock bits, two of which each transaction takes.
    struct Rows {
        table: LockTable,
        bits: Vec<AtomicBool>,
        /// Changed only by who holds the bit, without an atomic addition.
        values: Vec<AtomicU64>,
    }

    impl Rows {
        fn new(count: usize) -> Rows {
            Rows {
                table: LockTable::new(),
                bits: (0..count).map(|_| AtomicBool::new(false)).collect(),
                values: (0..count).map(|_| AtomicU64::new(0)).collect(),
            }
        }

        fn lock(&self, row: usize, me: Owner) -> Result<(), Waited> {
            while self.bits[row].swap(true, Ordering::Acquire) {
                match wait(&self.table, key(row as u64), me) {
                    Waited::Released => {}
                    Waited::NotHeld => std::thread::yield_now(),
                    failure => return Err(failure),
                }
            }
            self.table.hold(key(row as u64), me);
            Ok(())
        }

        fn unlock(&self, rows: &[usize], me: Owner) {
            rows.iter().for_each(|&row| self.bits[row].store(false, Ordering::Release));
            let keys: Vec<_> = rows.iter().map(|&row| key(row as u64)).collect();
            self.table.release(me, keys);
        }

        /// Locks the rows one after the other and counts each up; tries again after a deadlock. Returns the
        /// number of deadlocks.
        fn transact(&self, rows: [usize; 2], number: &AtomicU64) -> u64 {
            for deadlocks in 0.. {
                let me = Owner(number.fetch_add(1, Ordering::Relaxed));
                let mut held = Vec::new();
                let locked = rows.iter().try_for_each(|&row| {
                    self.lock(row, me)?;
                    held.push(row);
                    std::thread::yield_now();
                    Ok(())
                });
                if locked.is_ok() {
                    for &row in &held {
                        let value = self.values[row].load(Ordering::Relaxed);
                        self.values[row].store(value + 1, Ordering::Relaxed);
                    }
                }
                self.unlock(&held, me);
                match locked {
                    Ok(()) => return deadlocks,
                    Err(Waited::Deadlock) => {}
                    Err(other) => panic!("{other:?}"),
                }
            }
            unreachable!()
        }
    }

    /// Four threads lock pairs of a few rows in the order that `order` gives; returns the deadlocks met.
    fn hammer(order: fn(usize, usize) -> [usize; 2]) -> u64 {
        const ROWS: usize = 5;
        const TURNS: usize = 1_000;
        let rows = Rows::new(ROWS);
        let number = AtomicU64::new(1);
        let deadlocks = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|thread| {
                    let (rows, number) = (&rows, &number);
                    scope.spawn(move || {
                        let pair = |turn| {
                            let first = (turn * 7 + thread * 3) % ROWS;
                            order(first, (first + 1 + (turn + thread) % (ROWS - 1)) % ROWS)
                        };
                        (0..TURNS).map(|turn| rows.transact(pair(turn), number)).sum::<u64>()
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        let sum: u64 = rows.values.iter().map(|value| value.load(Ordering::Relaxed)).sum();
        assert_eq!(sum, 4 * 2 * TURNS as u64, "a row was held by two at once");
        assert!(is_empty(&rows.table));
        deadlocks
    }

    #[test]
    fn circles_are_broken_under_load() {
        assert!(hammer(|first, second| [first, second]) > 0);
    }

    #[test]
    fn there_are_no_deadlocks_where_all_lock_in_the_same_order() {
        assert_eq!(hammer(|first, second| [first.min(second), first.max(second)]), 0);
    }

    /// The control: the same circle, with each wait begun in ignorance of the other, never ends by itself.
    #[test]
    fn without_detection_a_circle_would_wait_forever() {
        let table = LockTable::new();
        let interrupt = Interrupt::new();
        table.hold(key(1), A);
        table.hold(key(2), B);
        std::thread::scope(|scope| {
            let a = scope.spawn(|| table.wait(key(2), A, &interrupt, None));
            until_waiting(&table, A);
            // C stands in for B under a name by which the graph does not know it.
            let b = scope.spawn(|| table.wait(key(1), C, &interrupt, None));
            until_waiting(&table, C);
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(50) {
                assert!(!a.is_finished() && !b.is_finished());
                std::thread::sleep(Duration::from_millis(10));
            }
            interrupt.raise(Cause::Shutdown);
            assert_eq!([a.join().unwrap(), b.join().unwrap()], [Waited::Interrupted(Cause::Shutdown); 2]);
        });
    }
}
