//! Validation: does anything that committed during the transaction's life touch what it has read?
//!
//! Usually the records of those commits are still in the ring, and validation costs as much as really ran
//! concurrently. A transaction that outlived the ring is validated against the tables: a row whose header is newer
//! than the transaction's timestamp has changed, and its versions, which the transaction itself keeps
//! readable, tell which columns.
//!
//! A transaction that has drawn a timestamp holds up all other commits. So it validates before it draws one, against all
//! timestamps drawn so far, and afterwards looks only at those few that were drawn meanwhile. It has to look at them: a
//! commit drawn in between would be missed by both. Long work before the drawing can be interrupted. The same function
//! moves a transaction's timestamp when a statement restarts (`statement`).

use crate::read_set::{RangeRead, RowFilter, Steps, TableRead, row_matches};
use crate::refusal::dependencies;
use crate::transaction::Transaction;
use ankerdb_base::{Result, RowId, Timestamp, failpoint};
use ankerdb_sync::commit_order::Visited;
use ankerdb_table::{Entries, Storage};
use crossbeam_epoch::Guard;
use std::ops::ControlFlow;

/// How often to look again before a timestamp is drawn, for commits that came while looking.
const ROUNDS_MAX: u32 = 8;
/// So few new commits may be left to look at with the timestamp drawn.
const REST_MAX: u64 = 16;

/// A transaction with more writes takes a while to lock rows and to enter keys.
const FEW_WRITES: usize = 1000;

impl Transaction {
    /// Whether validating, or locking and entering keys, may take so long that many others commit meanwhile.
    pub(crate) fn is_long(&self) -> bool {
        self.validates()
            && (self.reads.is_large() || self.writes.writes.len() > FEW_WRITES || self.load.is_some())
    }

    /// Validates against the commits so far, before the transaction draws a timestamp, from which on all other commits
    /// wait for it. Returns up to which timestamp there is no conflict, for [`validate_rest`](Self::validate_rest).
    ///
    /// # Errors
    /// `SerializationFailure`, and the interrupt's.
    pub(crate) fn validate_ahead(&mut self, pin: &Guard) -> Result<Timestamp> {
        if !self.validates() {
            return Ok(self.start);
        }
        self.reads.prepare(&mut Steps::new(&self.interrupt))?;
        if !self.reads.has_filters() {
            let manager = self.manager.clone();
            return self.validate_rounds(|| manager.order.drawn(), pin);
        }
        // Filters look at rows as of the last timestamp, which must not be pruned away meanwhile.
        let (slot, manager) = (self.announced.take_spare(), self.manager.clone());
        let clear = self.validate_rounds(|| slot.enter(|| manager.watermark()), pin);
        self.announced.give_back(slot);
        clear
    }

    /// Validates up to what `newest` gives, again and again until little is left.
    fn validate_rounds(&mut self, newest: impl Fn() -> Timestamp, pin: &Guard) -> Result<Timestamp> {
        let mut clear = self.start;
        for _ in 0..ROUNDS_MAX {
            let last = newest();
            self.validate_between(clear, last, pin)?;
            let looked_at = last.0 - clear.0;
            clear = last;
            if looked_at <= REST_MAX {
                break;
            }
        }
        Ok(clear)
    }

    /// Step 5 of a commit at `commit`: against the commits after `clear` and before it.
    pub(crate) fn validate_rest(&mut self, clear: Timestamp, commit: Timestamp, pin: &Guard) -> Result<()> {
        if self.validates() { self.validate_between(clear, Timestamp(commit.0 - 1), pin) } else { Ok(()) }
    }

    /// Validates everything that was read up to `last`, which is announced.
    pub(crate) fn validate_up_to(&mut self, last: Timestamp, pin: &Guard) -> Result<()> {
        self.reads.prepare(&mut Steps::new(&self.interrupt))?;
        self.validate_between(self.start, last, pin)
    }

    /// Whether no commit after `clear` and up to `last`, which must be drawn, touches what was read. Up to `clear` none
    /// does.
    fn validate_between(&mut self, clear: Timestamp, last: Timestamp, pin: &Guard) -> Result<()> {
        let order = &self.manager.order;
        let mut steps = Steps::new(&self.interrupt);
        let mut interrupted = Ok(());
        // SAFETY: `pin` was taken before the call, and records are dropped through the epoch (`commit_writes`).
        let visited = unsafe {
            order.visit_between(clear, last.next(), |_, record| {
                let (window, wait) = ((self.start, last), || order.wait_until_visible(last));
                let found = self.reads.conflicts_with(record, window, pin, wait, &mut steps);
                found.unwrap_or_else(|error| {
                    interrupted = Err(error);
                    true
                })
            })
        };
        interrupted?;
        failpoint::step("reads checked");
        let is_valid = match visited {
            Visited::Clear => true,
            Visited::Stopped(conflict) => {
                self.conflict = Some(conflict);
                false
            }
            Visited::TooOld => self.validate_against_tables(last, &mut steps, pin)?,
        };
        // Commits that found an index dropped have recorded no keys for it.
        let has_lost_index =
            self.reads.indexes().any(|(number, index)| self.tables[number].index(index).is_dropped());
        if is_valid && !has_lost_index { Ok(()) } else { Err(dependencies()) }
    }

    /// Validates after the ring has forgotten. Costs as much as reading everything again. Commits after `last`
    /// count too where no filter looks closer, needlessly.
    fn validate_against_tables(&self, last: Timestamp, steps: &mut Steps, pin: &Guard) -> Result<bool> {
        self.manager.order.wait_until_visible(last);
        if self.check_ended().is_err() {
            return Ok(false);
        }
        for read in &self.reads.rows {
            steps.take()?;
            let table = self.tables.find(read.table).expect("a table that was read was touched");
            let block = self.tables.storage(table).block(read.row.block());
            if block.changed_since(read.row.offset(), self.start, pin).concerns(read.columns) {
                return Ok(false);
            }
        }
        for read in &self.reads.ranges {
            if self.range_changed(read, steps, pin)? {
                return Ok(false);
            }
        }
        for read in &self.reads.tables {
            if self.table_changed(read, last, steps, pin)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a key came into the range or left it.
    fn range_changed(&self, read: &RangeRead, steps: &mut Steps, pin: &Guard) -> Result<bool> {
        let table = &self.tables[read.number];
        let index = table.index(read.index);
        let (lower, upper) = self.reads.bounds(read);
        let mut changed = steps.take().map(|()| false);
        Entries::of(index).scan(lower, upper, ankerdb_index::Direction::Forward, |_, row| {
            let row = RowId(row);
            let block = Storage::of(table).block(row.block());
            let is_newer = block.header(row.offset()).timestamp() > self.start;
            let concerns = || {
                let change = block.changed_since(row.offset(), self.start, pin);
                change.concerns(index.key_columns())
            };
            changed = steps.take().map(|()| is_newer && concerns());
            if matches!(changed, Ok(false)) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        changed
    }

    /// Whether a row that satisfies the filter, before or at `last`, has changed in the columns looked at.
    fn table_changed(
        &self,
        read: &TableRead,
        last: Timestamp,
        steps: &mut Steps,
        pin: &Guard,
    ) -> Result<bool> {
        let storage = Storage::of(&read.table);
        for number in storage.block_numbers() {
            let block = storage.block(number);
            if block.last_change() <= self.start {
                continue;
            }
            for offset in 0..block.fill() {
                steps.take()?;
                let row = RowId::new(number, offset);
                let passes = |filter: &RowFilter| row_matches(read, filter, row, (self.start, last), pin);
                if block.header(offset).timestamp() > self.start
                    && block.changed_since(offset, self.start, pin).concerns(read.columns)
                    && read.filter.as_ref().is_none_or(passes)
                {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}
