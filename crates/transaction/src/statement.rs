//! Statements of interactive transactions, and how one of them is restarted.
//!
//! A statement that is going to write to a row locks it first. Another transaction may have held the row, and have
//! changed it before the lock is granted ([`Locked::Changed`](crate::Locked)). Then what the statement saw is out of
//! date, and it has to be *restarted*: run again on the row's present state.
//!
//! At READ COMMITTED that is what every statement does: it reads what is committed when it begins. At SERIALIZABLE the
//! whole transaction reads at one timestamp, and everything that it has read so far must be what it would read at the
//! newer one:
//!
//! ```text
//!        begin @5                  lock: changed @8          watermark @9
//! time ────●──────────────────────────────●─────────────────────●──────────────►
//! reads    earlier statements  │  this statement (forgotten)    │  this statement again
//!          checked against the commits 6 to 9                   │  reads at 9
//! ```
//!
//! If no commit after 5 and up to 9 touches what the earlier statements have read, then they would have seen the same at
//! 9: the transaction might as well have begun there, and from now on it has. This statement's own reads are forgotten,
//! as its results have not been seen yet. Pending writes are private, computed from reads that still hold. The commit
//! validates against what is newer than 9, as for any transaction that has begun there. docs/design/commit.md has the
//! argument in full; `crates/sync/src/row_model` checks it, with a control.
//!
//! A transaction's first statement has no earlier reads, so it can always be run again.

use crate::isolation::Isolation;
use crate::refusal::concurrent_update;
use crate::transaction::Transaction;
use ankerdb_base::{Result, Timestamp, failpoint};
use ankerdb_sync::readers::ReaderSlot;
use std::sync::Arc;

impl Transaction {
    /// Starts a new statement. READ COMMITTED and below: it reads everything committed up to now. At SERIALIZABLE: its
    /// reads are those that [`restart_statement`](Self::restart_statement) forgets. Costs next to nothing from
    /// REPEATABLE READ on.
    pub fn begin_statement(&mut self) {
        match self.isolation {
            Isolation::ReadCommitted | Isolation::ReadUncommitted => self.enter(),
            Isolation::RepeatableRead => {}
            Isolation::Serializable => self.mark_statement(),
        }
    }

    /// What is read and written from here on belongs to the running statement.
    fn mark_statement(&mut self) {
        self.statement.reads = self.reads.mark();
        self.statement.changes = self.writes.changes();
    }

    /// To be called after [`lock`](Self::lock) has found a row changed, before the statement is run again from its
    /// start: from here on it sees the row's newest state. Rows that it has locked stay locked.
    ///
    /// At READ COMMITTED and below this is what [`begin_statement`](Self::begin_statement) does. At SERIALIZABLE
    /// everything that was read since `begin_statement` (or the beginning) is forgotten, so nothing that was derived
    /// from it may be used any more; earlier reads must still hold. Costs what validation does. A transaction that has
    /// read nothing before this statement always succeeds.
    ///
    /// # Errors
    /// `SerializationFailure`: always at REPEATABLE READ, in procedures at SERIALIZABLE, and if this statement has
    /// already written; else at SERIALIZABLE if a commit has touched what earlier statements have read; if a table that it
    /// has touched has another definition by now. The interrupt's error. After an error the transaction can only be rolled back.
    pub fn restart_statement(&mut self) -> Result<()> {
        match self.isolation {
            Isolation::ReadCommitted | Isolation::ReadUncommitted => self.enter(),
            Isolation::RepeatableRead => return Err(concurrent_update()),
            Isolation::Serializable => self.restart_serializable()?,
        }
        // The statement is not planned again, and others may have written to what has taken a table's place.
        self.check_ended()?;
        self.stale.set_statement(false);
        Ok(())
    }

    fn restart_serializable(&mut self) -> Result<()> {
        // A procedure's closure has seen what it has read; only running all of it again helps.
        if !self.is_interactive() || self.writes.changes() != self.statement.changes {
            return Err(concurrent_update());
        }
        self.reads.forget_since(self.statement.reads);
        failpoint::step("statement restarts");
        self.announced.prepare_move();
        let slot = self.announced.take_spare();
        let manager = self.manager.clone();
        let now = slot.enter(|| manager.watermark());
        failpoint::step("newer timestamp announced");
        // Until then both timestamps are announced: filters look at rows as of both.
        let validated = self.validate_up_to(now, &crossbeam_epoch::pin());
        match &validated {
            Ok(()) => self.move_to(slot, now),
            Err(_) => self.announced.give_back(slot),
        }
        validated
    }

    /// Moves to the watermark if what was read for foreign keys holds there, too. Else the transaction will not commit, and
    /// false is returned.
    #[cold]
    pub(crate) fn reads_moved(&mut self) -> bool {
        self.announced.prepare_move();
        let slot = self.announced.take_spare();
        let manager = self.manager.clone();
        let now = match self.isolation == Isolation::ReadUncommitted {
            true => slot.enter_as_anchor(|| manager.watermark()),
            false => slot.enter(|| manager.watermark()),
        };
        // Where nothing was committed meanwhile there is nothing to look at.
        if now == self.start || self.validate_up_to(now, &crossbeam_epoch::pin()).is_ok() {
            // The keys of own rows are known on, as where a statement begins without such reads.
            self.announced.move_to(slot);
            self.start_at(now);
            return true;
        }
        self.announced.give_back(slot);
        self.stale.note_references();
        self.reads.clear();
        false
    }

    /// Reads from now on at another timestamp, which `slot` announces. Views that were made before keep reading at the
    /// former one.
    fn move_to(&mut self, slot: Arc<ReaderSlot>, timestamp: Timestamp) {
        self.announced.move_to(slot);
        self.start_at(timestamp);
        // Parts of these keys were read at the former timestamp.
        self.writes.forget_keys();
    }
}
