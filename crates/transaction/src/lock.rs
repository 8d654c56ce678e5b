//! Row locks of interactive transactions: taking them, waiting for those of others, giving them up.

use crate::transaction::{Isolation, Transaction};
use crate::write::concurrent_update;
use ankerdb_base::{Error, Result, RowId, SqlState, Timestamp, failpoint};
use ankerdb_sync::lock_table::Waited;
use ankerdb_sync::patience::Patience;
use ankerdb_table::{OwnedRow, Table};
use std::sync::Arc;
use std::time::Instant;

/// Whether and how long to wait for a row that another transaction has locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockWait {
    /// Until it is free; 40P01 if that would never be, 55P03 after the lock timeout, and the interrupt's error.
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
    /// in procedures at SERIALIZABLE: 40001 there. A SERIALIZABLE transaction that goes on without will not commit.
    Changed,
    /// Somebody else has it ([`LockWait::Skip`] only).
    Busy,
}

impl Transaction {
    /// Locks a visible row until the end of the transaction. Interactive transactions lock before they write, because
    /// they keep others off for milliseconds, and hot rows must queue, not abort; procedures need not.
    ///
    /// # Errors
    /// `SerializationFailure` above READ COMMITTED if the row has changed; what [`LockWait`] says; the interrupt's.
    pub fn lock(&mut self, table: &Arc<Table>, row: RowId, wait: LockWait) -> Result<Locked> {
        if row.provisional_number().is_some() || self.has_locked(table, row) {
            return Ok(Locked::Unchanged);
        }
        let owner = *self.owner.get_or_insert_with(|| self.manager.next_owner());
        let Some(owned) = self.acquire(table, row, wait)? else { return Ok(Locked::Busy) };
        let header = owned.header();
        failpoint::step("row locked by a statement");
        self.manager.locks.hold((table.id().0, row.0), owner);
        self.locked.add(table, owned);
        if header.timestamp() <= self.start && header.exists() {
            return Ok(Locked::Unchanged);
        }
        match self.isolation {
            Isolation::RepeatableRead => Err(concurrent_update()),
            Isolation::Serializable if !self.interactive => Err(concurrent_update()),
            level => {
                self.statement.must_restart = level == Isolation::Serializable;
                // The commit that changed the row gave it up a moment before it became visible. The next statement
                // must see it, as this transaction will be taken to know the row's newest state.
                self.wait_until_visible(header.timestamp())?;
                Ok(Locked::Changed)
            }
        }
    }

    /// Takes the row's bit; `None` if somebody else has it and is not waited for.
    fn acquire<'t>(
        &mut self,
        table: &'t Arc<Table>,
        row: RowId,
        wait: LockWait,
    ) -> Result<Option<OwnedRow<'t>>> {
        let key = (table.id().0, row.0);
        let patience = Patience::new();
        let mut deadline = None;
        loop {
            if let Some(owned) = table.try_own(row) {
                return Ok(Some(owned));
            }
            let is_held = self.manager.locks.is_held(key).is_some();
            match wait {
                // A commit or a sweep has the row, for a moment unless the commit is a large one.
                _ if !is_held && !patience.is_over() => self.pause(&patience)?,
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

    /// Waits for what is usually over in a moment, for at most a millisecond.
    ///
    /// # Errors
    /// Those of the interrupt.
    pub(crate) fn pause(&self, patience: &Patience) -> Result<()> {
        self.check_interrupt()?;
        debug_assert!(
            !patience.is_over() || !crossbeam_epoch::is_pinned(),
            "who sleeps holds up all reclamation"
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

    /// Waits, between two tries of a procedure, for what has stopped the last one: until the interactive transaction
    /// that holds the row has ended, and the commit that the conflict was with is visible, as the next try would
    /// read at a timestamp before it, and meet it again.
    ///
    /// # Errors
    /// Those of waiting for a row, and the interrupt's.
    pub fn wait_for_blocker(&mut self) -> Result<()> {
        if let Some(key) = self.blocked_by.take()
            && self.manager.locks.is_held(key).is_some()
        {
            self.wait_for(key, self.lock_deadline())?;
        }
        let Some(conflict) = self.conflict.take() else { return Ok(()) };
        let backoff = crossbeam_utils::Backoff::new();
        while self.manager.watermark() < conflict {
            self.interrupt.check()?;
            backoff.snooze();
        }
        Ok(())
    }

    /// When a wait that begins now has lasted for as long as it may.
    fn lock_deadline(&self) -> Option<Instant> {
        self.lock_timeout.and_then(|limit| Instant::now().checked_add(limit))
    }

    /// Waits until an interactive transaction gives up a row.
    fn wait_for(&mut self, key: (u32, u64), deadline: Option<Instant>) -> Result<()> {
        let owner = *self.owner.get_or_insert_with(|| self.manager.next_owner());
        debug_assert!(!crossbeam_epoch::is_pinned(), "who sleeps holds up all reclamation");
        match self.manager.locks.wait(key, owner, &self.interrupt, deadline) {
            Waited::Released | Waited::NotHeld => Ok(()),
            Waited::Deadlock => Err(Error::new(SqlState::DeadlockDetected, "deadlock detected")
                .with_detail("transactions wait for each other's rows; this one was ended")),
            Waited::Interrupted(cause) => Err(cause.error()),
            Waited::TimedOut => Err(lock_timed_out()),
        }
    }

    /// Gives up the rows locked by [`lock`](Self::lock) that no commit has given up, and wakes those who wait.
    pub(crate) fn release_locks(&mut self) {
        let Some(owner) = self.owner.take() else { return };
        self.manager.locks.leave(owner);
        self.locked.give_up();
        let keys = self.locked.rows().iter().map(|locked| (locked.table.id().0, locked.row.0));
        self.manager.locks.release(owner, keys);
        self.locked.clear();
    }
}

/// 55P03 in PostgreSQL's words.
#[cold]
fn lock_timed_out() -> Error {
    Error::new(SqlState::LockNotAvailable, "canceling statement due to lock timeout")
}
