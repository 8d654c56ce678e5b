//! Locks on tables: LOCK TABLE, and what statements have to wait for because of it.
//!
//! ```text
//! statement    weak lock on each table that it reads or writes ─ runs ─ end of the transaction: gives them back
//!              └ own list, if nobody has or wants a strong lock ─┐
//! LOCK TABLE   counts itself as strong ─ takes the weak locks of all lists into the table of locks ─ has it, or queues
//! ```
//! A *weak* lock is one that a statement takes by itself: weak locks do not exclude each other, so they lie in a list of the session's
//! own as long as nobody has or wants a lock that excludes one. A *strong* lock is one that does. A session that wants it counts itself first and
//! looks through the lists of all sessions then; one that takes a weak lock looks at the count under the mutex of its own list. So either
//! the list has the weak lock when it is looked through, or the count is seen, and the weak lock queues like any other.
//!
//! Locks in the table of locks are guarded by one mutex, as they are few and short. A session that has to wait looks for a circle of
//! sessions that wait for each other, and fails with 40P01 if it would close one. A circle that also leads through rows and advisory
//! locks may be closed by somebody else, so a waiter looks for those once a second, as long as it waits.
//!
//! # Invariants
//! 1. *A strong lock and a weak one that it excludes are never held at a time by two sessions.* See above.
//! 2. *A lock is given in the order of requests*, but a session that has the table in any way passes those that wait, and a request passes those
//!    that it does not exclude.
//! 3. *No wake-up is lost*: a waiter is in the queue before it looks for the last time, and a lock that is given back wakes the queue after
//!    that under the same mutex.
//!
//! Mutexes are taken in the order table of locks, list of sessions, list of a session. Not here: which locks a statement takes
//! (`plan/locked.rs`), and when they end (`session/table_lock.rs`).

use ankerdb_engine::{Error, Interrupt, Result, SqlState, TableId, WaitsFor};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// How long a waiter sleeps before it looks for circles that lead through other kinds of locks: PostgreSQL's `deadlock_timeout`.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Counts of strong locks, by table.
const COUNTS: usize = 64;

/// PostgreSQL's modes, the weakest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub(crate) enum Mode {
    AccessShare,
    RowShare,
    RowExclusive,
    ShareUpdateExclusive,
    Share,
    ShareRowExclusive,
    Exclusive,
    AccessExclusive,
}

impl Mode {
    /// The modes that exclude this one, a bit each (PostgreSQL 15, table 13.2).
    fn excluders(self) -> u8 {
        match self {
            Mode::AccessShare => 0b1000_0000,
            Mode::RowShare => 0b1100_0000,
            Mode::RowExclusive => 0b1111_0000,
            Mode::ShareUpdateExclusive => 0b1111_1000,
            Mode::Share => 0b1110_1100,
            Mode::ShareRowExclusive => 0b1111_1100,
            Mode::Exclusive => 0b1111_1110,
            Mode::AccessExclusive => 0b1111_1111,
        }
    }

    /// What `pg_locks` calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::AccessShare => "AccessShareLock",
            Mode::RowShare => "RowShareLock",
            Mode::RowExclusive => "RowExclusiveLock",
            Mode::ShareUpdateExclusive => "ShareUpdateExclusiveLock",
            Mode::Share => "ShareLock",
            Mode::ShareRowExclusive => "ShareRowExclusiveLock",
            Mode::Exclusive => "ExclusiveLock",
            Mode::AccessExclusive => "AccessExclusiveLock",
        }
    }
}

/// Why a table is locked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Claim {
    /// A statement reads it or writes to it; one of the first three modes.
    Use(Mode),
    /// LOCK TABLE.
    Lock(Mode),
    /// A definition changes or drops it. Uses do not wait for that, nor it for them: the catalog and the gates of tables see to them.
    Definition,
}

impl Claim {
    fn excludes(self, other: Claim) -> bool {
        match (self, other) {
            (Claim::Definition, Claim::Lock(_)) | (Claim::Lock(_), Claim::Definition) => true,
            (Claim::Definition, _) | (_, Claim::Definition) => false,
            (Claim::Use(one) | Claim::Lock(one), Claim::Use(other) | Claim::Lock(other)) => {
                one.excluders() & (1 << other as u8) != 0
            }
        }
    }

    /// Whether it may lie in a session's own list.
    fn is_weak(self) -> bool {
        matches!(self, Claim::Use(_))
    }

    /// Whether it excludes a weak one.
    fn is_strong(self) -> bool {
        [Mode::AccessShare, Mode::RowShare, Mode::RowExclusive]
            .iter()
            .any(|mode| self.excludes(Claim::Use(*mode)))
    }

    /// The mode that it is shown in.
    pub(crate) fn mode(self) -> Mode {
        match self {
            Claim::Use(mode) | Claim::Lock(mode) => mode,
            Claim::Definition => Mode::AccessExclusive,
        }
    }
}

/// A lock that a session has or wants.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Hold {
    pub table: TableId,
    pub claim: Claim,
}

/// A session's own list of weak locks.
pub(crate) struct Slot {
    owner: u64,
    weak: Mutex<Vec<Hold>>,
}

/// All locks on the tables of a database.
pub(crate) struct TableLocks {
    /// Strong locks that are held or wanted, by table.
    strong: [AtomicU32; COUNTS],
    table: Mutex<LockTable>,
    sessions: Mutex<Vec<Weak<Slot>>>,
}

#[derive(Default)]
struct LockTable {
    locks: HashMap<TableId, Lock>,
    /// What each waiting session waits for.
    waits: HashMap<u64, Hold>,
}

#[derive(Default)]
struct Lock {
    holders: Vec<(u64, Claim)>,
    waiters: Vec<(u64, Claim, Thread)>,
}

impl Lock {
    fn is_held_by(&self, owner: u64) -> bool {
        self.holders.iter().any(|(holder, _)| *holder == owner)
    }

    /// The sessions that this one has to wait for.
    fn blockers(&self, owner: u64, claim: Claim) -> Vec<u64> {
        let is_in_the_way = |other: u64, held: Claim| other != owner && claim.excludes(held);
        let holders = self.holders.iter().filter(|(other, held)| is_in_the_way(*other, *held));
        let mut blockers: Vec<u64> = holders.map(|(other, _)| *other).collect();
        if !self.is_held_by(owner) {
            let before = self.waiters.iter().take_while(|(other, ..)| *other != owner);
            let before = before.filter(|(other, wanted, _)| is_in_the_way(*other, *wanted));
            blockers.extend(before.map(|(other, ..)| *other));
        }
        blockers
    }

    /// Wakes those for whom the lock is free now. (To wake the others, too, would cost a queue of hundreds a hundred times the time.)
    fn wake(&self) {
        let mut ahead: Vec<Claim> = Vec::new();
        for (owner, claim, thread) in &self.waiters {
            let is_held = self.holders.iter().any(|(other, held)| other != owner && claim.excludes(*held));
            let is_passed_by = |claim: &Claim| ahead.iter().any(|earlier| claim.excludes(*earlier));
            if !is_held && (self.is_held_by(*owner) || !is_passed_by(claim)) {
                thread.unpark();
            }
            if !ahead.contains(claim) {
                ahead.push(*claim);
            }
        }
    }
}

impl LockTable {
    fn try_take(&mut self, owner: u64, hold: Hold) -> bool {
        let lock = self.locks.entry(hold.table).or_default();
        let is_free = lock.blockers(owner, hold.claim).is_empty();
        if is_free {
            lock.holders.push((owner, hold.claim));
        }
        self.forget_unused(hold.table);
        is_free
    }

    fn enqueue(&mut self, owner: u64, hold: Hold) {
        let lock = self.locks.entry(hold.table).or_default();
        lock.waiters.push((owner, hold.claim, std::thread::current()));
        self.waits.insert(owner, hold);
    }

    fn dequeue(&mut self, owner: u64, table: TableId) {
        self.waits.remove(&owner);
        if let Some(lock) = self.locks.get_mut(&table) {
            lock.waiters.retain(|(waiter, ..)| *waiter != owner);
            lock.wake();
        }
        self.forget_unused(table);
    }

    fn forget_unused(&mut self, table: TableId) {
        if self.locks.get(&table).is_some_and(|lock| lock.holders.is_empty() && lock.waiters.is_empty()) {
            self.locks.remove(&table);
        }
    }

    /// The sessions that a waiting one waits for.
    fn blockers(&self, owner: u64) -> Vec<u64> {
        self.wait_of(owner).map_or(Vec::new(), |(hold, lock)| lock.blockers(owner, hold.claim))
    }

    fn wait_of(&self, owner: u64) -> Option<(&Hold, &Lock)> {
        let hold = self.waits.get(&owner)?;
        Some((hold, self.locks.get(&hold.table)?))
    }

    /// Whether a session waits, through others, for itself. `elsewhere`: by session, those that it waits for because of other kinds of locks.
    ///
    /// Of those in a queue that want the same, each waits for all before it: only the last of them is looked at, or a queue of hundreds
    /// would cost each of them its square.
    fn is_in_circle(&self, owner: u64, elsewhere: &HashMap<u64, Vec<u64>>) -> bool {
        let (mut open, mut seen) = (vec![owner], HashSet::new());
        let mut looked_at: HashMap<Hold, usize> = HashMap::new();
        while let Some(next) = open.pop() {
            let mut blockers = elsewhere.get(&next).cloned().unwrap_or_default();
            if let Some((hold, lock)) = self.wait_of(next) {
                let place = lock.waiters.iter().position(|(waiter, ..)| *waiter == next);
                if place.is_none_or(|place| looked_at.get(hold).is_none_or(|last| *last < place)) {
                    blockers.extend(lock.blockers(next, hold.claim));
                    if let Some(place) = place.filter(|_| !lock.is_held_by(next)) {
                        looked_at.insert(*hold, place);
                    }
                }
            }
            if blockers.contains(&owner) {
                return true;
            }
            open.extend(blockers.into_iter().filter(|blocker| seen.insert(*blocker)));
        }
        false
    }
}

/// What ends a wait for a lock.
pub(crate) struct Patience<'a> {
    pub limit: Option<Duration>,
    pub interrupt: &'a Interrupt,
    /// By session, those that it waits for because of other kinds of locks; `None` if the one that waits holds nothing for which others
    /// could wait.
    pub elsewhere: Option<&'a dyn Fn() -> HashMap<u64, Vec<u64>>>,
}

impl Default for TableLocks {
    fn default() -> TableLocks {
        TableLocks {
            strong: std::array::from_fn(|_| AtomicU32::new(0)),
            table: Mutex::default(),
            sessions: Mutex::default(),
        }
    }
}

impl TableLocks {
    /// A session's list, which is looked through as long as it lives.
    pub(crate) fn join(&self, owner: u64) -> Arc<Slot> {
        let slot = Arc::new(Slot { owner, weak: Mutex::default() });
        let mut sessions = self.sessions.lock();
        if sessions.len() == sessions.capacity() {
            sessions.retain(|known| known.strong_count() > 0);
        }
        sessions.push(Arc::downgrade(&slot));
        slot
    }

    fn count(&self, table: TableId) -> &AtomicU32 {
        &self.strong[table.number() as usize % COUNTS]
    }

    /// Takes a weak lock into the session's own list, if nobody has or wants one that excludes such. Costs a mutex that nobody
    /// else holds, and a load.
    pub(crate) fn take_weak(&self, slot: &Slot, hold: Hold) -> bool {
        debug_assert!(hold.claim.is_weak());
        let mut weak = slot.weak.lock();
        let is_quiet = self.count(hold.table).load(Ordering::SeqCst) == 0;
        if is_quiet {
            weak.push(hold);
        }
        is_quiet
    }

    /// Takes a lock; whether it was free.
    pub(crate) fn try_take(&self, slot: &Slot, hold: Hold) -> bool {
        self.announce(hold);
        let is_free = self.table.lock().try_take(slot.owner, hold);
        if !is_free {
            self.retract(hold);
        }
        is_free
    }

    /// Takes a lock, and waits for it; whether it had to.
    ///
    /// # Errors
    /// `DeadlockDetected`, `LockNotAvailable` after the limit, and those of the interrupt.
    pub(crate) fn take(&self, slot: &Slot, hold: Hold, patience: &Patience) -> Result<bool> {
        self.announce(hold);
        let taken = self.take_announced(slot.owner, hold, patience);
        if taken.is_err() {
            self.retract(hold);
        }
        taken
    }

    fn take_announced(&self, owner: u64, hold: Hold, patience: &Patience) -> Result<bool> {
        {
            let mut table = self.table.lock();
            if table.try_take(owner, hold) {
                return Ok(false);
            }
            table.enqueue(owner, hold);
            if patience.elsewhere.is_some() && table.is_in_circle(owner, &HashMap::new()) {
                table.dequeue(owner, hold.table);
                return Err(deadlock());
            }
        }
        let waiting = patience.interrupt.waits_for(WaitsFor::Table);
        let waited = self.wait(owner, hold, patience);
        drop(waiting);
        self.table.lock().dequeue(owner, hold.table);
        waited.map(|()| true)
    }

    fn wait(&self, owner: u64, hold: Hold, patience: &Patience) -> Result<()> {
        let _woken = patience.interrupt.wakes_me();
        let until = patience.limit.map(|limit| Instant::now() + limit);
        let mut look = Instant::now() + LOOK_AGAIN;
        loop {
            patience.interrupt.check()?;
            if self.table.lock().try_take(owner, hold) {
                return Ok(());
            }
            let now = Instant::now();
            if until.is_some_and(|until| until <= now) {
                let message = "canceling statement due to lock timeout";
                return Err(Error::new(SqlState::LockNotAvailable, message));
            }
            if look <= now {
                look = now + LOOK_AGAIN;
                let elsewhere = patience.elsewhere.map(|elsewhere| elsewhere());
                if elsewhere.is_some_and(|elsewhere| self.table.lock().is_in_circle(owner, &elsewhere)) {
                    return Err(deadlock());
                }
            }
            std::thread::park_timeout(
                until.map_or(look, |until| until.min(look)).saturating_duration_since(now),
            );
        }
    }

    /// Counts a strong lock that is wanted, and takes the weak ones of its table out of the lists.
    fn announce(&self, hold: Hold) {
        if !hold.claim.is_strong() {
            return;
        }
        self.count(hold.table).fetch_add(1, Ordering::SeqCst);
        let mut table = self.table.lock();
        let sessions = self.sessions.lock();
        for slot in sessions.iter().filter_map(Weak::upgrade) {
            slot.weak.lock().retain(|weak| {
                let stays = weak.table != hold.table;
                if !stays {
                    table.locks.entry(weak.table).or_default().holders.push((slot.owner, weak.claim));
                }
                stays
            });
        }
    }

    fn retract(&self, hold: Hold) {
        if hold.claim.is_strong() {
            self.count(hold.table).fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Gives back all locks that the session has, and empties the list of them.
    pub(crate) fn release_all(&self, slot: &Slot, holds: &mut Vec<Hold>) {
        {
            let mut weak = slot.weak.lock();
            if weak.len() == holds.len() {
                // As many as there are, so these are they: no look at each of perhaps thousands.
                weak.clear();
                holds.clear();
                return;
            }
        }
        self.release(slot, std::mem::take(holds));
    }

    /// Gives back locks that the session has.
    pub(crate) fn release(&self, slot: &Slot, mut holds: Vec<Hold>) {
        {
            let mut weak = slot.weak.lock();
            holds.retain(|hold| match weak.iter().position(|own| own == hold) {
                Some(position) if hold.claim.is_weak() => {
                    weak.swap_remove(position);
                    false
                }
                _ => true,
            });
        }
        if holds.is_empty() {
            return;
        }
        let mut table = self.table.lock();
        for hold in holds {
            if let Some(lock) = table.locks.get_mut(&hold.table) {
                let own = lock.holders.iter().position(|held| *held == (slot.owner, hold.claim));
                own.map(|position| lock.holders.swap_remove(position));
                lock.wake();
            }
            table.forget_unused(hold.table);
            self.retract(hold);
        }
    }

    /// All locks of now that are not in lists: by whom, which, and whether it is held or wanted.
    pub(crate) fn all(&self) -> Vec<(u64, Hold, bool)> {
        let table = self.table.lock();
        let held = table.locks.iter().flat_map(|(table, lock)| {
            lock.holders.iter().map(|(owner, claim)| (*owner, Hold { table: *table, claim: *claim }, true))
        });
        held.chain(table.waits.iter().map(|(owner, hold)| (*owner, *hold, false))).collect()
    }

    /// The sessions that this one waits for.
    pub(crate) fn blockers(&self, owner: u64) -> Vec<u64> {
        self.table.lock().blockers(owner)
    }
}

fn deadlock() -> Error {
    Error::new(SqlState::DeadlockDetected, "deadlock detected")
        .with_detail("Sessions wait for locks of each other, one of them for a lock on a table.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ankerdb_engine::Cause;
    use ankerdb_engine::DatabaseId;
    use std::sync::LazyLock;

    static DATABASE: LazyLock<DatabaseId> = LazyLock::new(DatabaseId::new);

    const MODES: [Mode; 8] = [
        Mode::AccessShare,
        Mode::RowShare,
        Mode::RowExclusive,
        Mode::ShareUpdateExclusive,
        Mode::Share,
        Mode::ShareRowExclusive,
        Mode::Exclusive,
        Mode::AccessExclusive,
    ];

    fn hold(number: u32, claim: Claim) -> Hold {
        Hold { table: TableId::new(*DATABASE, number), claim }
    }

    fn patient(interrupt: &Interrupt, limit: Option<Duration>) -> Patience<'_> {
        Patience { limit, interrupt, elsewhere: Some(&|| HashMap::new()) }
    }

    /// PostgreSQL 15's table 13.2, line by line.
    #[test]
    fn modes_exclude_each_other_as_in_postgresql() {
        let table =
            ["00000001", "00000011", "00001111", "00011111", "00110111", "00111111", "01111111", "11111111"];
        for (one, line) in MODES.into_iter().zip(table) {
            let excluded =
                MODES.map(|other| if Claim::Lock(one).excludes(Claim::Lock(other)) { '1' } else { '0' });
            assert_eq!(excluded.iter().collect::<String>(), line, "{one:?}");
        }
        for mode in MODES {
            assert!(
                Claim::Definition.excludes(Claim::Lock(mode))
                    && !Claim::Definition.excludes(Claim::Use(mode))
            );
        }
    }

    #[test]
    fn weak_locks_lie_in_lists_until_a_strong_one_is_wanted() {
        let locks = TableLocks::default();
        let (one, two) = (locks.join(1), locks.join(2));
        let (read, write) = (Claim::Use(Mode::AccessShare), Claim::Use(Mode::RowExclusive));
        assert!(locks.take_weak(&one, hold(1, write)) && locks.take_weak(&one, hold(2, read)));
        assert!(locks.all().is_empty());
        assert!(!locks.try_take(&two, hold(1, Claim::Lock(Mode::Share))));
        assert!(locks.try_take(&two, hold(2, Claim::Lock(Mode::Exclusive))));
        assert!(!locks.take_weak(&one, hold(2, write)) && !locks.try_take(&one, hold(2, write)));
        assert!(locks.try_take(&one, hold(2, read)));
        locks.release(&one, vec![hold(1, write), hold(2, read), hold(2, read)]);
        assert!(locks.try_take(&two, hold(1, Claim::Lock(Mode::Share))));
        locks.release(&two, vec![hold(2, Claim::Lock(Mode::Exclusive)), hold(1, Claim::Lock(Mode::Share))]);
        assert!(locks.all().is_empty() && locks.take_weak(&one, hold(2, write)));
    }

    #[test]
    fn requests_queue_and_circles_are_broken() {
        let locks = Arc::new(TableLocks::default());
        let (one, two, three) = (locks.join(1), locks.join(2), locks.join(3));
        let exclusive = Claim::Lock(Mode::Exclusive);
        assert!(locks.try_take(&one, hold(1, exclusive)) && locks.try_take(&two, hold(2, exclusive)));
        let waiter = std::thread::spawn({
            let (locks, one) = (locks.clone(), one.clone());
            move || locks.take(&one, hold(2, exclusive), &patient(&Interrupt::new(), None))
        });
        while locks.blockers(1).is_empty() {
            std::thread::yield_now();
        }
        // A later request does not pass the one that waits.
        assert!(!locks.try_take(&three, hold(2, Claim::Lock(Mode::RowShare))));
        let error = locks.take(&two, hold(1, exclusive), &patient(&Interrupt::new(), None)).unwrap_err();
        assert_eq!(error.state(), SqlState::DeadlockDetected);
        locks.release(&two, vec![hold(2, exclusive)]);
        assert_eq!(waiter.join().unwrap(), Ok(true));
        locks.release(&one, vec![hold(1, exclusive), hold(2, exclusive)]);
        assert!(locks.all().is_empty() && locks.strong.iter().all(|count| count.load(Ordering::SeqCst) == 0));
    }

    #[test]
    fn limits_interrupts_and_circles_through_other_locks_end_a_wait() {
        let locks = TableLocks::default();
        let (one, two) = (locks.join(1), locks.join(2));
        let whole = hold(1, Claim::Lock(Mode::AccessExclusive));
        assert!(locks.try_take(&one, whole));
        let limit = Some(Duration::from_millis(10));
        let late = locks.take(&two, whole, &patient(&Interrupt::new(), limit)).unwrap_err();
        assert_eq!(late.state(), SqlState::LockNotAvailable);
        let interrupt = Interrupt::new();
        interrupt.raise(Cause::Request);
        let ended = locks.take(&two, whole, &patient(&interrupt, None)).unwrap_err();
        assert_eq!(ended.state(), SqlState::QueryCanceled);
        let rows = || HashMap::from([(1, vec![2])]);
        let patience = Patience { limit: None, interrupt: &Interrupt::new(), elsewhere: Some(&rows) };
        let closed = locks.take(&two, whole, &patience).unwrap_err();
        assert_eq!(closed.state(), SqlState::DeadlockDetected);
        locks.release(&one, vec![whole]);
        assert!(locks.all().is_empty() && locks.strong.iter().all(|count| count.load(Ordering::SeqCst) == 0));
    }

    #[test]
    fn circles_through_the_middle_of_a_queue_are_found() {
        let mut table = LockTable::default();
        let exclusive = Claim::Lock(Mode::Exclusive);
        let (first, second) = (hold(1, exclusive), hold(2, exclusive));
        assert!(table.try_take(1, first) && table.try_take(50, second));
        // One waits for a lock that it has in another way: it passes the queue, and waits for holders only.
        assert!(table.try_take(60, hold(1, Claim::Use(Mode::AccessShare))));
        (2..=100).for_each(|owner| table.enqueue(owner, first));
        let nowhere = HashMap::new();
        assert!((2..=100).all(|owner| !table.is_in_circle(owner, &nowhere)));
        table.enqueue(1, second);
        // The one in the middle waits for all before it, too, and they for the first.
        assert!((1..=100).all(|owner| table.is_in_circle(owner, &nowhere) == (owner <= 50)));
        // Through another kind of lock, from one in the middle.
        table.dequeue(1, second.table);
        let elsewhere = HashMap::from([(1, vec![7]), (30, vec![99])]);
        assert!(table.is_in_circle(7, &elsewhere) && table.is_in_circle(1, &elsewhere));
        assert!(table.is_in_circle(99, &elsewhere) && !table.is_in_circle(100, &elsewhere));
    }

    /// Weak locks come and go while strong ones do. The session that has a strong one is alone.
    #[test]
    fn a_strong_lock_and_a_weak_one_never_meet() {
        let locks = Arc::new(TableLocks::default());
        let inside = Arc::new(AtomicU32::new(0));
        std::thread::scope(|scope| {
            for owner in 0..4 {
                let (locks, inside) = (locks.clone(), inside.clone());
                scope.spawn(move || {
                    let (slot, interrupt) = (locks.join(owner), Interrupt::new());
                    let weak = hold(1, Claim::Use(Mode::RowExclusive));
                    let strong = hold(1, Claim::Lock(Mode::Share));
                    for round in 0..2000 {
                        if owner == 0 && round % 4 == 0 {
                            locks.take(&slot, strong, &patient(&interrupt, None)).unwrap();
                            let before = inside.fetch_add(1000, Ordering::SeqCst);
                            assert_eq!(before, 0, "a weak lock is held beside a strong one");
                            inside.fetch_sub(1000, Ordering::SeqCst);
                            locks.release(&slot, vec![strong]);
                        } else {
                            if !locks.take_weak(&slot, weak) {
                                locks.take(&slot, weak, &patient(&interrupt, None)).unwrap();
                            }
                            assert!(inside.fetch_add(1, Ordering::SeqCst) < 1000);
                            inside.fetch_sub(1, Ordering::SeqCst);
                            locks.release(&slot, vec![weak]);
                        }
                    }
                });
            }
        });
    }
}
