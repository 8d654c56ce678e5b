//! Row locks of interactive transactions: taking them, waiting for them, giving them up.

use crate::isolation::Isolation;
use crate::refusal::{concurrent_update, lock_timed_out};
use crate::transaction::Transaction;
use ankerdb_base::{Error, Result, RowId, SqlState, Timestamp, failpoint};
use ankerdb_sync::interrupt::WaitsFor;
use ankerdb_sync::lock_table::{Holder, Waited};
use ankerdb_sync::patience::Patience;
use ankerdb_sync::row_set::RowKey;
use ankerdb_table::{Admission, Gate, OwnedRow, Storage, Table};
use std::sync::Arc;
use std::time::Instant;

/// Whether and how long to wait for a row that another transaction has locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockWait {
    /// Wait until it is free; 40P01 if that would never be, 55P03 after the lock timeout, and the interrupt's error.
    Wait,
    /// 55P03 at once.
    NoWait,
    /// Report [`Locked::Busy`].
    Skip,
}

/// What [`Transaction::lock`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Locked {
    /// The row is ours and is still as this transaction reads it.
    Unchanged,
    /// The row is ours, but was changed or deleted after the timestamp that this statement reads at: call
    /// [`Transaction::restart_statement`], and run the statement again from its start. Not at REPEATABLE READ, and not
    /// in procedures at SERIALIZABLE: 40001 there. A SERIALIZABLE transaction that does not do so will not commit.
    Changed,
    /// Another transaction has it ([`LockWait::Skip`] only).
    Busy,
}

impl Transaction {
    /// Locks a visible row until the end of the transaction. Interactive transactions lock before they write, because
    /// they last for milliseconds, and writers of hot rows must queue, not abort; procedures need not.
    ///
    /// # Errors
    /// `SerializationFailure` above READ COMMITTED if the row has changed; what [`LockWait`] says; the interrupt's;
    /// `UndefinedTable` if the table is of another database.
    pub fn lock(&mut self, table: &Arc<Table>, row: RowId, wait: LockWait) -> Result<Locked> {
        if row.provisional_number().is_some() || self.has_locked(table, row) {
            return Ok(Locked::Unchanged);
        }
        self.check_interrupt()?;
        self.tables.check(table)?;
        self.locked.make_room(table)?;
        self.holder();
        let holder = self.holder.as_mut().expect("made just now");
        self.manager.locks.make_room(holder)?;
        let Some(owned) = self.acquire(table, row, wait)? else { return Ok(Locked::Busy) };
        let header = owned.header();
        failpoint::step("row locked by a statement");
        self.holder();
        let holder = self.holder.as_mut().expect("made just now");
        self.manager.locks.hold(holder, RowKey::new(table.id().number(), row.0));
        self.locked.add(table, owned);
        if header.timestamp() <= self.start && header.exists() {
            return Ok(Locked::Unchanged);
        }
        match self.isolation {
            Isolation::RepeatableRead => Err(concurrent_update()),
            Isolation::Serializable if !self.is_interactive() => Err(concurrent_update()),
            level => {
                self.stale.set_statement(level == Isolation::Serializable);
                // The commit that changed the row gave it up a moment before it became visible. The next statement
                // must see it, as this transaction will be taken to know the row's newest state.
                self.wait_until_visible(header.timestamp())?;
                Ok(Locked::Changed)
            }
        }
    }

    /// Takes the row's bit; `None` if it is taken and the caller does not wait.
    fn acquire<'t>(
        &mut self,
        table: &'t Arc<Table>,
        row: RowId,
        wait: LockWait,
    ) -> Result<Option<OwnedRow<'t>>> {
        let key = RowKey::new(table.id().number(), row.0);
        let patience = Patience::new();
        let mut deadline = None;
        loop {
            if let Some(owned) = Storage::of(table).try_own(row) {
                return Ok(Some(owned));
            }
            let is_held = self.manager.locks.is_held(key).is_some();
            let is_swept = Storage::of(table).block(row.block()).header(row.offset()).is_swept();
            if is_swept {
                failpoint::step("waits for a sweep");
            }
            match wait {
                // A commit has the row, for a moment unless it is a large one; or a sweep, which is no rival.
                _ if !is_held && (is_swept || !patience.is_over()) => self.pause(&patience)?,
                LockWait::Skip => return Ok(None),
                LockWait::NoWait => {
                    let message = format!("could not obtain lock on row in relation \"{}\"", table.name());
                    return Err(Error::new(SqlState::LockNotAvailable, message));
                }
                LockWait::Wait => {
                    let limit = *deadline.get_or_insert_with(|| self.lock_deadline());
                    match is_held {
                        true => self.wait_for(key, limit)?,
                        false if limit.is_some_and(|limit| Instant::now() >= limit) => {
                            return Err(lock_timed_out());
                        }
                        false => self.pause(&patience)?,
                    }
                }
            }
        }
    }

    /// Waits for something that usually takes a moment, for at most a millisecond.
    ///
    /// # Errors
    /// Those of the interrupt.
    pub(crate) fn pause(&self, patience: &Patience) -> Result<()> {
        self.check_interrupt()?;
        debug_assert!(
            !patience.is_over() || !crossbeam_epoch::is_pinned(),
            "a pinned thread that sleeps holds up all reclamation"
        );
        patience.wait();
        Ok(())
    }

    /// Waits until a commit is visible.
    fn wait_until_visible(&self, commit: Timestamp) -> Result<()> {
        let patience = Patience::new();
        while self.manager.watermark() < commit {
            failpoint::step("waits until visible");
            self.pause(&patience)?;
        }
        Ok(())
    }

    pub(crate) fn has_locked(&self, table: &Table, row: RowId) -> bool {
        self.locked.contains(table.id(), row)
    }

    /// Waits, between two tries of a procedure, for what has stopped the last one: until the interactive transaction or
    /// the commit that has the row has given it up, and the commit that the conflict was with is visible. Without that,
    /// the next try would read at a timestamp before it, and meet it again.
    ///
    /// # Errors
    /// Those of waiting for a row, and the interrupt's.
    pub fn wait_for_blocker(&mut self) -> Result<()> {
        if let Some(blocker) = self.blocked_by.take() {
            let Some(table) = blocker.table.upgrade() else { return Ok(()) };
            match blocker.row {
                Some(row) => {
                    let commit = self.wait_until_given_up(&table, row)?;
                    self.conflict = self.conflict.max(Some(commit));
                }
                None => self.wait_at_gate(&table)?,
            }
        }
        match self.conflict.take() {
            Some(conflict) => self.wait_until_visible(conflict),
            None => Ok(()),
        }
    }

    /// Waits until a row is given up; returns the commit that has changed it last. Does not wait for its next owner.
    fn wait_until_given_up(&mut self, table: &Table, row: RowId) -> Result<Timestamp> {
        let block = Storage::of(table).block(row.block());
        let key = RowKey::new(table.id().number(), row.0);
        let header = || block.header(row.offset());
        let (first, deadline, patience) = (header(), self.lock_deadline(), Patience::new());
        loop {
            let now = header();
            // A large commit that has no timestamp yet still has it.
            if !now.is_pending() && (!now.is_locked() || now.timestamp() != first.timestamp()) {
                return Ok(now.timestamp());
            }
            if self.manager.locks.is_held(key).is_some() {
                self.wait_for(key, deadline)?;
                let now = header();
                return Ok(if now.is_pending() { Timestamp::ZERO } else { now.timestamp() });
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(lock_timed_out());
            }
            self.pause(&patience)?;
        }
    }

    /// Waits until nobody redefines the table any more that has stopped this transaction, if that was it.
    ///
    /// # Errors
    /// `LockNotAvailable`, and the interrupt's.
    pub fn wait_for_definition(&mut self) -> Result<()> {
        let gate = self.blocked_by.take_if(|blocker| blocker.row.is_none());
        gate.and_then(|blocker| blocker.table.upgrade()).map_or(Ok(()), |table| self.wait_at_gate(&table))
    }

    /// Waits until nobody redefines the table any more.
    fn wait_at_gate(&mut self, table: &Table) -> Result<()> {
        let (deadline, patience) = (self.lock_deadline(), Patience::new());
        let _waiting = self.interrupt.waits_for(WaitsFor::Table);
        while Gate::of(table).admits(None) == Admission::Closed {
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(lock_timed_out());
            }
            self.pause(&patience)?;
        }
        Ok(())
    }

    /// The deadline of a wait that begins now.
    fn lock_deadline(&self) -> Option<Instant> {
        self.lock_timeout.and_then(|limit| Instant::now().checked_add(limit))
    }

    /// Waits until an interactive transaction gives up a row.
    fn wait_for(&mut self, key: RowKey, deadline: Option<Instant>) -> Result<()> {
        let owner = self.holder().owner();
        debug_assert!(!crossbeam_epoch::is_pinned(), "a pinned thread that sleeps holds up all reclamation");
        match self.manager.locks.wait(key, owner, &self.interrupt, deadline) {
            Waited::Released | Waited::NotHeld => Ok(()),
            Waited::Deadlock => Err(Error::new(SqlState::DeadlockDetected, "deadlock detected")
                .with_detail("Transactions wait for each other's rows; this one was ended.")),
            Waited::Interrupted(cause) => Err(cause.error()),
            Waited::TimedOut => Err(lock_timed_out()),
        }
    }

    /// What this transaction is in the lock table.
    fn holder(&mut self) -> &mut Holder {
        self.holder.get_or_insert_with(|| {
            let owner = self.manager.next_owner();
            self.interrupt.set_holds_as(owner.0);
            Holder::new(owner)
        })
    }

    /// Gives up the rows locked by [`lock`](Self::lock) that no commit has given up, and wakes those who wait. Costs a
    /// store for each of those rows, and nothing for the others.
    pub(crate) fn release_locks(&mut self) {
        let Some(holder) = self.holder.take() else { return };
        self.manager.locks.leave(&holder);
        self.locked.give_up();
        self.manager.locks.release(holder);
    }
}
