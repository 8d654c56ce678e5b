//! The lock table: waiting for rows that interactive transactions hold.
//!
//! # Idea
//! Whether a row is locked is one bit in its header, elsewhere, and commits do not use this table. But a
//! client that sends statement after statement holds rows for milliseconds, and others must be able to sleep
//! until it ends, and to learn that it never will. For that this table knows *who* holds a row (only rows
//! locked over several statements) and *who waits for whom*.
//!
//! # Protocol
//! ```text
//! holder   set the row's bit ─ hold(row) ······ clear the bits ─ release(rows)
//! other         finds the bit set ─ wait(row) ───────────────────────┴► Released ─ tries the bit again
//! ```
//! The bit decides, the table only follows it, a moment late at both ends. [`Waited::NotHeld`] means that the
//! call came in that moment: try the bit again. A woken waiter has no right to the row; it competes for the
//! bit.
//!
//! # Resting and leaving
//! A row that is locked may be in the middle of a commit, or its holder's client may think for an hour. A transaction
//! that finds the lock while it wants something other than the row (a key that the row had formerly, or has in a
//! commit under way) must be able to tell the two apart: [`LockTable::is_resting`]. A holder *rests* until it calls
//! [`LockTable::leave`], as the first step of its commit or of giving up; from then on it is *leaving*, until
//! `release` has taken all its rows.
//!
//! ```text
//! holder   lock, hold, lock, hold ······ leave ─ enter keys, install or clear the bits ─ release
//!          └──────── resting ──────────┘└──────────────── leaving ─────────────────────┘
//! ```
//! `is_resting` runs under the mutex, a shard's or a large holder's, under which the row is found; under the same one
//! `release` removes the row, before it forgets that the holder is leaving. So `true` means: at the time of the call the
//! row's bit is that holder's, which had not begun to enter keys. If it begins later, it finds what the caller has
//! entered, because entering a key (`ankerdb_index`) is ordered against entering the same key. A former holder that is on
//! its way to `release` is leaving, no matter which transaction has the bit.
//!
//! # Few rows and many
//! The first rows that a transaction holds are in a hash table that all share, in shards. A transaction that holds more is
//! a *large holder*: its other rows are in a set of its own (`row_set`), a bit each, with a mutex and a list of waiters of
//! its own. So a large holder's rows cost other transactions nothing, and to release a million of them is to drop the set.
//! A lookup of a row searches the shard first, and then the large holders, of which there are few.
//!
//! A transaction waits for one row at a time and a row has one holder, so each transaction waits for at most
//! one other. A transaction that is about to wait follows these steps from the holder on. If they lead back
//! to itself, waiting would close a cycle: [`Waited::Deadlock`].
//!
//! # Invariants
//! 1. *Waiting transactions never form a cycle for long.* A step "A waits for B" appears in `wait`, under the mutex of
//!    the wait graph, after following the steps that are there. A row that changes its holder in a shard wakes all
//!    that wait for it, so such steps never bend. A step to a large holder that has cleared its bits, and is on its
//!    way to `release`, may bend to the row's next holder: until `release` wakes the waiter in a moment, which then
//!    looks for cycles anew.
//! 2. *No wake-up is lost.* A waiter joins the row's list, or the large holder's, under the same mutex under which the
//!    holder is found there and removed.
//! 3. *A deadlock is real.* A waiter that has been woken counts as not waiting, even before it runs; a former holder
//!    does not wait.
//!
//! Mutexes are taken in the order graph, shard, list of large holders, large holder, leaving. Holders take only a shard or
//! their own; only waiters lock the graph.
//!
//! # Not here
//! No queue: all waiters of a row are woken at once, and the first to set the bit has it. No shared locks.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::Thread;
use std::time::Instant;

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;

use crate::interrupt::{Cause, Interrupt, WaitsFor};
use crate::number_map::NumberMap;
use crate::row_set::{RowKey, RowSet};

/// A transaction, by its number, which is never used again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Owner(pub u64);

const SHARDS: usize = 64;

/// Rows of one transaction that are in the shards, at most.
const FEW: usize = 64;

/// Outcome of [`LockTable::wait`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waited {
    /// The holder has released the row: try again.
    Released,
    /// No other transaction held the row at all: try again.
    NotHeld,
    /// Waiting would never end, since the holder waits for us, directly or through others.
    Deadlock,
    /// The statement is to end.
    Interrupted(Cause),
    /// The deadline has passed.
    TimedOut,
}

/// A transaction that waits for a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wait {
    /// Which.
    pub waiter: Owner,
    /// The row.
    pub row: RowKey,
    /// The transaction that has it; `None` if that has just given it up.
    pub holder: Option<Owner>,
}

/// The holders of locked rows, and those who wait for them.
#[derive(Debug)]
pub struct LockTable {
    shards: Box<[CachePadded<Mutex<Shard>>]>,
    /// The waiting transactions, and what each waits for.
    waiting: Mutex<HashMap<Owner, Arc<Waiter>>>,
    /// The transactions that commit or give up, by the owner's number.
    leaving: Box<[CachePadded<Mutex<Vec<Owner>>>]>,
    large: Mutex<Vec<Arc<LargeHolder>>>,
    /// How many those are: a hint that saves needless lookups.
    large_count: AtomicUsize,
}

/// What one transaction holds. It must be [released](LockTable::release), or the rows stay held.
#[derive(Debug)]
pub struct Holder {
    owner: Owner,
    few: Vec<RowKey>,
    large: Option<Arc<LargeHolder>>,
}

impl Holder {
    /// A transaction that holds nothing yet.
    pub fn new(owner: Owner) -> Holder {
        Holder { owner, few: Vec::new(), large: None }
    }

    /// Which transaction.
    pub fn owner(&self) -> Owner {
        self.owner
    }
}

/// The rows of a transaction that holds many.
#[derive(Debug)]
struct LargeHolder {
    owner: Owner,
    held: Mutex<HeldMany>,
}

#[derive(Debug, Default)]
struct HeldMany {
    rows: RowSet,
    is_leaving: bool,
    /// Those who wait for any of the rows.
    waiters: Vec<Arc<Waiter>>,
}

/// Where a row was found.
enum Held {
    /// In its shard.
    Few(Owner),
    Many(Arc<LargeHolder>),
}

impl Held {
    fn owner(&self) -> Owner {
        match self {
            Held::Few(owner) => *owner,
            Held::Many(holder) => holder.owner,
        }
    }
}

type Shard = NumberMap<RowKey, Hold>;

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
    key: RowKey,
    thread: Thread,
    woken: AtomicBool,
}

impl Waiter {
    fn new(key: RowKey) -> Waiter {
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
            large: Mutex::default(),
            large_count: AtomicUsize::new(0),
        }
    }

    fn shard(&self, RowKey { table, row }: RowKey) -> &Mutex<Shard> {
        // Fibonacci hashing: neighbouring rows go to different shards.
        let hash = (row ^ u64::from(table) << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        &self.shards[(hash >> (u64::BITS - SHARDS.ilog2())) as usize]
    }

    /// Notes that a transaction has locked the row; to be called right after the row's bit was set. Holding a row
    /// again changes nothing. Costs an uncontended mutex and some nanoseconds.
    pub fn hold(&self, holder: &mut Holder, key: RowKey) {
        if holder.few.len() == FEW {
            let large = holder.large.get_or_insert_with(|| self.add_large(holder.owner));
            large.held.lock().rows.insert(key);
            return;
        }
        holder.few.push(key);
        let owner = holder.owner;
        let mut shard = self.shard(key).lock();
        let hold = shard.entry(key).or_insert_with(|| Hold { owner, waiters: Vec::new() });
        if hold.owner != owner {
            // The former holder has cleared the bit and is on its way to `release`. Its waiters come back
            // and wait for us, so that they look for deadlocks anew.
            hold.owner = owner;
            hold.wake_waiters();
        }
    }

    /// Makes room for one more row of a holder that has many.
    ///
    /// # Errors
    /// `OutOfMemory`.
    #[inline]
    pub fn make_room(&self, holder: &Holder) -> ankerdb_base::Result<()> {
        let Some(large) = &holder.large else { return Ok(()) };
        let rows = &mut large.held.lock().rows;
        if rows.has_room() { Ok(()) } else { rows.try_grow() }
    }

    #[cold]
    fn add_large(&self, owner: Owner) -> Arc<LargeHolder> {
        let holder = Arc::new(LargeHolder { owner, held: Mutex::default() });
        self.large.lock().push(holder.clone());
        // Before any of its rows is held.
        self.large_count.fetch_add(1, Ordering::SeqCst);
        holder
    }

    /// The holder of the row.
    pub fn is_held(&self, key: RowKey) -> Option<Owner> {
        self.find(key).map(|held| held.owner())
    }

    fn find(&self, key: RowKey) -> Option<Held> {
        let few = self.shard(key).lock().get(&key).map(|hold| hold.owner);
        few.map(Held::Few).or_else(|| self.find_large(key, |_| true).map(Held::Many))
    }

    /// A large holder of the row that is as it has to be.
    fn find_large(&self, key: RowKey, is_wanted: impl Fn(&HeldMany) -> bool) -> Option<Arc<LargeHolder>> {
        if self.large_count.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let large = self.large.lock();
        let holds = |holder: &&Arc<LargeHolder>| {
            let held = holder.held.lock();
            held.rows.contains(key) && is_wanted(&held)
        };
        large.iter().find(holds).cloned()
    }

    fn leaving(&self, owner: Owner) -> &Mutex<Vec<Owner>> {
        &self.leaving[owner.0 as usize % SHARDS]
    }

    /// Notes that a transaction is about to commit or to give up its rows: it does not rest from now on, until
    /// [`release`](Self::release).
    pub fn leave(&self, holder: &Holder) {
        let mut leaving = self.leaving(holder.owner).lock();
        if !leaving.contains(&holder.owner) {
            leaving.push(holder.owner);
        }
        drop(leaving);
        if let Some(large) = &holder.large {
            large.held.lock().is_leaving = true;
        }
    }

    /// Whether the row has a holder that is neither committing nor giving up.
    pub fn is_resting(&self, key: RowKey) -> bool {
        let rests = |hold: &Hold| !self.leaving(hold.owner).lock().contains(&hold.owner);
        self.shard(key).lock().get(&key).is_some_and(rests)
            || self.find_large(key, |held| !held.is_leaving).is_some()
    }

    /// Notes that a transaction has unlocked all rows that it held, and wakes those who wait for them; to be called
    /// right after the rows' bits were cleared. For a large holder the cost does not depend on the number of rows.
    pub fn release(&self, holder: Holder) {
        for key in holder.few {
            let mut shard = self.shard(key).lock();
            if let Entry::Occupied(entry) = shard.entry(key)
                && entry.get().owner == holder.owner
            {
                entry.remove().wake_waiters();
            }
        }
        if let Some(large) = holder.large {
            self.release_large(&large);
        }
        self.leaving(holder.owner).lock().retain(|leaving| *leaving != holder.owner);
    }

    #[cold]
    fn release_large(&self, large: &Arc<LargeHolder>) {
        self.large.lock().retain(|other| !Arc::ptr_eq(other, large));
        self.large_count.fetch_sub(1, Ordering::SeqCst);
        // A waiter that found it before joins before this and is woken, or finds the row gone.
        let HeldMany { waiters, .. } = std::mem::take(&mut *large.held.lock());
        waiters.iter().for_each(|waiter| waiter.wake());
    }

    /// Sleeps until the row is released. A transaction waits from one thread at a time.
    ///
    /// A deadlock is found when the wait begins; the transaction that would close the cycle is told, and has
    /// to release what it holds. A raised interrupt ends the wait at once.
    pub fn wait(&self, key: RowKey, me: Owner, interrupt: &Interrupt, deadline: Option<Instant>) -> Waited {
        let waiter = Arc::new(Waiter::new(key));
        let held = match self.join(&waiter, me) {
            Ok(held) => held,
            Err(outcome) => return outcome,
        };
        let waiting = interrupt.waits_for(WaitsFor::Row);
        let outcome = waiter.sleep(interrupt, deadline);
        drop(waiting);
        self.waiting.lock().remove(&me);
        if outcome == Waited::Released {
            return outcome;
        }
        let is_other = |other: &Arc<Waiter>| !Arc::ptr_eq(other, &waiter);
        match held {
            Held::Few(_) => {
                if let Some(hold) = self.shard(key).lock().get_mut(&key) {
                    hold.waiters.retain(is_other);
                }
            }
            Held::Many(holder) => holder.held.lock().waiters.retain(is_other),
        }
        outcome
    }

    /// The transactions that wait for rows, for those who look at the database from outside: a moment's picture, in which a wait may
    /// have ended already. Holds the mutex that only waiters take.
    pub fn waits(&self) -> Vec<Wait> {
        let waiting: Vec<(Owner, RowKey)> =
            self.waiting.lock().iter().map(|(owner, waiter)| (*owner, waiter.key)).collect();
        let wait =
            |(waiter, row)| Wait { waiter, row, holder: self.is_held(row).filter(|other| *other != waiter) };
        waiting.into_iter().map(wait).collect()
    }

    /// The transactions that hold rows, with the tables of the first rows of each. Takes the shards' mutexes one after the other.
    pub fn holders(&self) -> Vec<(Owner, u32)> {
        let mut held: Vec<(Owner, u32)> = Vec::new();
        for shard in &self.shards {
            held.extend(shard.lock().iter().map(|(row, hold)| (hold.owner, row.table)));
        }
        held.sort_unstable_by_key(|(owner, table)| (owner.0, *table));
        held.dedup();
        held
    }

    /// Enters the wait into the graph and into the row's list, unless there is nothing to wait for or waiting
    /// would close a cycle.
    fn join(&self, waiter: &Arc<Waiter>, me: Owner) -> Result<Held, Waited> {
        let mut waiting = self.waiting.lock();
        let held = self.find(waiter.key).filter(|held| held.owner() != me).ok_or(Waited::NotHeld)?;
        if self.leads_to(me, held.owner(), &waiting) {
            return Err(Waited::Deadlock);
        }
        // The row may have a new holder since; that one would have to be followed too.
        match &held {
            Held::Few(owner) => {
                let mut shard = self.shard(waiter.key).lock();
                let hold = shard.get_mut(&waiter.key).filter(|hold| hold.owner == *owner);
                hold.ok_or(Waited::NotHeld)?.waiters.push(Arc::clone(waiter));
            }
            Held::Many(holder) => {
                let mut held = holder.held.lock();
                if !held.rows.contains(waiter.key) {
                    return Err(Waited::NotHeld);
                }
                held.waiters.push(Arc::clone(waiter));
            }
        }
        let former = waiting.insert(me, Arc::clone(waiter));
        assert!(former.is_none(), "a transaction waits for one row at a time");
        Ok(held)
    }

    /// Whether `from` waits, directly or through others, for `me`.
    fn leads_to(&self, me: Owner, from: Owner, waiting: &HashMap<Owner, Arc<Waiter>>) -> bool {
        let mut at = from;
        // No more steps than there are waiters: without cycles, none is met twice.
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

    fn key(row: u64) -> RowKey {
        RowKey::new(1, row)
    }

    /// A lock table and what its owners hold, each of whom holds some rows from the beginning.
    struct Tested {
        table: LockTable,
        holders: Mutex<HashMap<Owner, Holder>>,
        rows_before: u64,
    }

    /// With owners whose rows are in the shards, and with large holders.
    fn tables() -> [Tested; 2] {
        [0, FEW as u64].map(Tested::new)
    }

    impl std::ops::Deref for Tested {
        type Target = LockTable;

        fn deref(&self) -> &LockTable {
            &self.table
        }
    }

    impl Tested {
        fn new(rows_before: u64) -> Tested {
            Tested { table: LockTable::new(), holders: Mutex::default(), rows_before }
        }

        fn holder(&self, owner: Owner) -> Holder {
            let mut holder = Holder::new(owner);
            for row in 0..self.rows_before {
                self.table.hold(&mut holder, RowKey::new(2, owner.0 << 32 | row));
            }
            holder
        }

        fn hold(&self, key: RowKey, owner: Owner) {
            let mut holders = self.holders.lock();
            let holder = holders.entry(owner).or_insert_with(|| self.holder(owner));
            self.table.hold(holder, key);
        }

        fn leave(&self, owner: Owner) {
            self.table.leave(&self.holders.lock()[&owner]);
        }

        fn release(&self, owner: Owner) {
            let holder = self.holders.lock().remove(&owner);
            self.table.release(holder.expect("it holds something"));
        }

        /// Those who wait for a row's holder.
        fn waiters(&self, key: RowKey) -> usize {
            match self.find(key).expect("it is held") {
                Held::Few(_) => self.shard(key).lock()[&key].waiters.len(),
                Held::Many(holder) => holder.held.lock().waiters.len(),
            }
        }
    }

    /// Waits without an interrupt.
    fn wait(table: &LockTable, key: RowKey, me: Owner) -> Waited {
        table.wait(key, me, &Interrupt::new(), None)
    }

    /// Returns when `owner` sleeps.
    fn until_waiting(table: &LockTable, owner: Owner) {
        while !table.waiting.lock().contains_key(&owner) {
            std::thread::yield_now();
        }
    }

    fn is_empty(table: &LockTable) -> bool {
        table.waiting.lock().is_empty()
            && table.shards.iter().all(|shard| shard.lock().is_empty())
            && table.large.lock().is_empty()
            && table.large_count.load(Ordering::SeqCst) == 0
    }

    #[test]
    fn holders_are_known_until_they_release() {
        for table in tables() {
            table.hold(key(1), A);
            table.hold(key(1), A);
            assert_eq!((table.is_held(key(1)), table.is_held(key(2))), (Some(A), None));
            assert_eq!(table.is_held(RowKey::new(2, 1)), None, "same row of another table");
            table.hold(key(2), B);
            table.release(B);
            assert_eq!((table.is_held(key(1)), table.is_held(key(2))), (Some(A), None));
            table.release(A);
            assert!(is_empty(&table));
        }
    }

    #[test]
    fn a_holder_rests_until_it_leaves() {
        for table in tables() {
            assert!(!table.is_resting(key(1)), "it has no holder");
            table.hold(key(1), A);
            table.hold(key(2), B);
            assert!(table.is_resting(key(1)));
            table.leave(A);
            table.leave(A);
            assert!(!table.is_resting(key(1)) && table.is_resting(key(2)));
            table.release(A);
            assert!(!table.is_resting(key(1)));
            table.hold(key(1), A);
            assert!(table.is_resting(key(1)), "the next transaction of that number, were there one");
        }
    }

    #[test]
    fn nobody_waits_for_what_is_free_or_its_own() {
        for table in tables() {
            assert_eq!(wait(&table, key(1), A), Waited::NotHeld);
            table.hold(key(1), A);
            assert_eq!(wait(&table, key(1), A), Waited::NotHeld);
        }
    }

    #[test]
    fn all_waiters_are_woken() {
        for table in tables() {
            table.hold(key(1), A);
            std::thread::scope(|scope| {
                let waiters = [B, C].map(|me| {
                    let table = &table;
                    scope.spawn(move || wait(table, key(1), me))
                });
                [B, C].iter().for_each(|&me| until_waiting(&table, me));
                table.release(A);
                assert_eq!(waiters.map(|waiter| waiter.join().unwrap()), [Waited::Released; 2]);
            });
            assert!(is_empty(&table));
        }
    }

    #[test]
    fn a_new_holder_wakes_those_who_wait_for_the_former_one() {
        let table = Tested::new(0);
        table.hold(key(1), A);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| wait(&table, key(1), B));
            until_waiting(&table, B);
            table.hold(key(1), C);
            assert_eq!(waiter.join().unwrap(), Waited::Released);
        });
        table.release(A);
        assert_eq!(table.is_held(key(1)), Some(C));
    }

    #[test]
    fn who_waits_for_a_large_holder_that_is_on_its_way_out_comes_back_and_finds_the_next_one() {
        let table = Tested::new(FEW as u64);
        table.hold(key(1), A);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| wait(&table, key(1), B));
            until_waiting(&table, B);
            // A has cleared the bit; C has it, and waits for a row of B.
            table.leave(A);
            assert!(!table.is_resting(key(1)));
            table.hold(key(1), C);
            assert!(table.is_resting(key(1)), "that is C's");
            table.hold(key(2), B);
            let c = scope.spawn(|| wait(&table, key(2), C));
            until_waiting(&table, C);
            table.release(A);
            assert_eq!(waiter.join().unwrap(), Waited::Released);
            assert_eq!((table.is_held(key(1)), wait(&table, key(1), B)), (Some(C), Waited::Deadlock));
            table.release(B);
            assert_eq!(c.join().unwrap(), Waited::Released);
        });
    }

    #[test]
    fn a_million_rows_are_held_and_released_as_one() {
        let table = Tested::new(0);
        (0..1_000_000).for_each(|row| table.hold(key(row), A));
        assert!([0, 77, 999_999].iter().all(|&row| table.is_held(key(row)) == Some(A)));
        assert_eq!(table.is_held(key(1_000_000)), None);
        let in_shards: usize = table.shards.iter().map(|shard| shard.lock().len()).sum();
        assert_eq!(in_shards, FEW);
        table.release(A);
        assert!(is_empty(&table) && table.is_held(key(77)).is_none());
    }

    #[test]
    fn canceled_waiters_leave_nothing_behind() {
        for table in tables() {
            let interrupt = Interrupt::new();
            table.hold(key(1), A);
            std::thread::scope(|scope| {
                let waiter = scope.spawn(|| table.wait(key(1), B, &interrupt, None));
                until_waiting(&table, B);
                interrupt.raise(Cause::Request);
                assert_eq!(waiter.join().unwrap(), Waited::Interrupted(Cause::Request));
            });
            assert_eq!(table.waiters(key(1)), 0);
            table.release(A);
            assert!(is_empty(&table));
        }
    }

    #[test]
    fn a_wait_ends_at_its_deadline_and_leaves_nothing_behind() {
        for table in tables() {
            table.hold(key(1), A);
            let deadline = Instant::now() + Duration::from_millis(20);
            assert_eq!(table.wait(key(1), B, &Interrupt::new(), Some(deadline)), Waited::TimedOut);
            assert!(Instant::now() >= deadline);
            assert_eq!(table.waiters(key(1)), 0);
            table.release(A);
            assert!(is_empty(&table));
        }
    }

    #[test]
    fn who_closes_a_circle_of_three_is_told_and_the_others_go_on() {
        for table in tables() {
            for (row, owner) in [(1, A), (2, B), (3, C)] {
                table.hold(key(row), owner);
            }
            std::thread::scope(|scope| {
                let a = scope.spawn(|| wait(&table, key(2), A));
                until_waiting(&table, A);
                let b = scope.spawn(|| wait(&table, key(3), B));
                until_waiting(&table, B);
                assert_eq!(wait(&table, key(1), C), Waited::Deadlock);
                table.release(C);
                assert_eq!(b.join().unwrap(), Waited::Released);
                table.release(B);
                assert_eq!(a.join().unwrap(), Waited::Released);
            });
        }
    }

    #[test]
    fn a_chain_is_no_circle() {
        for table in tables() {
            table.hold(key(1), A);
            table.hold(key(2), B);
            std::thread::scope(|scope| {
                let b = scope.spawn(|| wait(&table, key(1), B));
                until_waiting(&table, B);
                let c = scope.spawn(|| wait(&table, key(2), C));
                until_waiting(&table, C);
                table.release(A);
                assert_eq!(b.join().unwrap(), Waited::Released);
                table.release(B);
                assert_eq!(c.join().unwrap(), Waited::Released);
            });
        }
    }

    /// Rows with real lock bits, two of which each transaction takes.
    struct LockedRows {
        table: Tested,
        bits: Vec<AtomicBool>,
        /// Changed only by the holder of the bit, without an atomic addition.
        values: Vec<AtomicU64>,
    }

    impl LockedRows {
        fn new(count: usize, table: Tested) -> LockedRows {
            LockedRows {
                table,
                bits: (0..count).map(|_| AtomicBool::new(false)).collect(),
                values: (0..count).map(|_| AtomicU64::new(0)).collect(),
            }
        }

        fn lock(&self, row: usize, me: &mut Holder) -> Result<(), Waited> {
            while self.bits[row].swap(true, Ordering::Acquire) {
                match wait(&self.table, key(row as u64), me.owner()) {
                    Waited::Released => {}
                    Waited::NotHeld => std::thread::yield_now(),
                    failure => return Err(failure),
                }
            }
            self.table.table.hold(me, key(row as u64));
            Ok(())
        }

        fn unlock(&self, rows: &[usize], me: Holder) {
            rows.iter().for_each(|&row| self.bits[row].store(false, Ordering::Release));
            self.table.table.release(me);
        }

        /// Locks the rows one after the other and counts each up; tries again after a deadlock. Returns the
        /// number of deadlocks.
        fn transact(&self, rows: [usize; 2], number: &AtomicU64) -> u64 {
            for deadlocks in 0.. {
                let mut me = self.table.holder(Owner(number.fetch_add(1, Ordering::Relaxed)));
                let mut held = Vec::new();
                let locked = rows.iter().try_for_each(|&row| {
                    self.lock(row, &mut me)?;
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
    fn hammer(table: Tested, order: fn(usize, usize) -> [usize; 2]) -> u64 {
        const ROWS: usize = 5;
        const TURNS: usize = 1_000;
        let rows = LockedRows::new(ROWS, table);
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
    fn those_who_look_see_who_waits_for_whom() {
        for table in tables() {
            let table = Arc::new(table);
            table.hold(key(1), A);
            assert!(table.holders().iter().any(|(owner, _)| *owner == A) && table.waits().is_empty());
            let waiter = {
                let table = table.clone();
                std::thread::spawn(move || wait(&table, key(1), B))
            };
            let waits = loop {
                match table.waits() {
                    none if none.is_empty() => std::thread::yield_now(),
                    waits => break waits,
                }
            };
            assert_eq!(waits, [Wait { waiter: B, row: key(1), holder: Some(A) }]);
            table.release(A);
            assert_eq!(waiter.join().unwrap(), Waited::Released);
            assert!(table.waits().is_empty() && !table.holders().iter().any(|(owner, _)| *owner == A));
        }
    }

    #[test]
    fn circles_are_broken_under_load() {
        assert!(tables().into_iter().all(|table| hammer(table, |first, second| [first, second]) > 0));
    }

    #[test]
    fn there_are_no_deadlocks_where_all_lock_in_the_same_order() {
        for table in tables() {
            assert_eq!(hammer(table, |first, second| [first.min(second), first.max(second)]), 0);
        }
    }

    /// The control: the same cycle, with each wait begun in ignorance of the other, never ends by itself.
    #[test]
    fn without_detection_a_circle_would_wait_forever() {
        for table in tables() {
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
}
