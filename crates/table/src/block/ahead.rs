//! Rows of large commits, installed ahead of the timestamp.
//!
//! ```text
//!                 pending commit n                                      readers
//! before c        header := n + INSTALLING, cells, header := n          older states, from the versions
//! at c            n is decided: one store for all rows (`sync::pending`)  s >= c: the row as it is; s < c: older states
//! after c         header := c, which gives the row up
//! ```
//!
//! For readers this is the protocol of `header` with n for *c*, which is larger than all timestamps; only readers that
//! meet it have to ask whether n has become *c*. What the block keeps for readers of whole columns (`column_change`,
//! `rows_change`) is a count of pending rows until *c* is known: while it is not 0, everything may have changed. A row of
//! which n has become c raises the timestamps of change to c *before* it is counted out.
//!
//! A commit that ends after it has installed rows *withdraws* them: it puts back what was there, still as n, which no reader
//! sees. But readers may have copied the cells that it overwrites again, and would find the old header if the row got it
//! back. So it draws a timestamp *c'* for having changed nothing, decides n to be that, and goes on as if it had committed:
//! readers from before *c'* take the cells from the version, and those from after it find them in place. A slot of a new row
//! is at *c'* that of a deleted one, and is swept like it.

use super::RowBlock;
use super::install::raise;
use crate::array::ColumnArray;
use crate::cell::Cell;
use crate::change::RowChange;
use crate::header::Header;
use ankerdb_base::{ColumnSet, Error, Result, Timestamp, failpoint};
use ankerdb_sync::pending::{Decision, PendingCommit, PendingCommits};
use crossbeam_epoch::Guard;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Large commits that can be under way at once, in all databases of the process.
const LARGE_COMMITS_MAX: usize = 64;

/// Of all databases: a number is all that fits into a header.
static PENDING: LazyLock<PendingCommits> = LazyLock::new(|| PendingCommits::new(LARGE_COMMITS_MAX));

/// A number for a commit that is going to install its rows ahead of its timestamp; `None` if too many do so now. No row
/// may carry it any more when it is [ended](PendingCommit::end).
pub fn begin_pending() -> Option<PendingCommit<'static>> {
    PENDING.begin()
}

impl RowBlock {
    /// The header of a row that was found pending.
    #[cold]
    pub(super) fn resolved(&self, row: usize) -> Header {
        loop {
            if let Some(header) = self.decided(self.mark(row)) {
                return header;
            }
        }
    }

    /// A header with its timestamp, if that is known; `None` if the row has another header by now.
    pub(super) fn decided(&self, mark: Header) -> Option<Header> {
        let Some(number) = mark.pending_commit() else { return Some(mark) };
        match PENDING.decision(number) {
            Decision::Undecided => Some(mark),
            Decision::At(timestamp) => Some(mark.decided(timestamp)),
            Decision::Over => None,
        }
    }

    /// `changed_since`, of a row whose newest change is that of a commit that may still end: up to the state under it.
    pub(super) fn changed_under(&self, row: usize, since: Timestamp, pin: &Guard) -> RowChange {
        let mut older = self.chain(row).iter(pin);
        let newest = older.next().filter(|version| version.begin() > since);
        let Some(newest) = newest else { return RowChange::Nothing };
        let (mut changed, mut existed) = (ColumnSet::EMPTY, false);
        for version in older {
            changed = changed.union(version.columns());
            if version.begin() <= since {
                existed = version.exists();
                break;
            }
        }
        RowChange::between(existed, newest.exists(), changed)
    }

    /// Makes a new row of a pending commit of what `write_new` has written. The caller owns the row.
    ///
    /// # Safety
    /// As for `install_insert`.
    pub(crate) unsafe fn install_insert_ahead<'a>(
        &self,
        row: usize,
        number: u64,
        cells: impl Iterator<Item = (usize, Cell<'a>)> + Clone,
        views: &mut impl Iterator<Item = u128>,
        pin: &Guard,
    ) {
        let new = Header::pending(number, true);
        let announce = || self.announce_ahead(row, new, &[&self.pending_cells, &self.pending_rows]);
        self.complete_row(row, new, cells, views, pin, announce);
    }

    /// Makes an update of a pending commit of what `save` has saved. Views of long strings that are overwritten are added to
    /// `displaced`, for `withdraw_update`. The caller owns the row. 53200 if there is no memory for them; nothing has
    /// changed then.
    ///
    /// # Safety
    /// As for `install_update`.
    pub(crate) unsafe fn install_update_ahead<'a>(
        &self,
        row: usize,
        number: u64,
        changes: impl Iterator<Item = (usize, Cell<'a>)> + Clone,
        views: &mut impl Iterator<Item = u128>,
        displaced: &mut Vec<u128>,
        pin: &Guard,
    ) -> Result<()> {
        let count = changes.clone().count();
        displaced.try_reserve(count).map_err(|_| Error::out_of_memory(count * size_of::<u128>()))?;
        let new = Header::pending(number, true);
        let announce = || self.announce_ahead(row, new, &[&self.pending_cells]);
        let keep = |array: &ColumnArray| displaced.extend(array.long_view(row));
        self.change_cells(row, new, changes, views, pin, announce, keep);
        Ok(())
    }

    /// Makes a deletion of a pending commit of what `save` has saved. The caller owns the row.
    pub(crate) fn install_delete_ahead(&self, row: usize, number: u64) {
        let new = Header::pending(number, false);
        self.announce_ahead(row, new, &[&self.pending_rows]);
        self.exists.clear(row);
        self.rows[row].header.store(new.0, Ordering::Release);
    }

    /// The header shows the pending commit, and the block counts the row, before anything else shows it.
    fn announce_ahead(&self, row: usize, new: Header, counts: &[&AtomicU32]) {
        assert!(
            self.mark(row).is_locked() && !self.mark(row).is_pending(),
            "a commit installs once, into its rows"
        );
        self.dirty.set(row);
        for count in counts {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.announce(row, new);
    }

    /// Withdraws the new row of a pending commit.
    pub(crate) fn withdraw_insert(&self, row: usize) {
        self.exists.clear(row);
        self.show_ahead(row, false);
    }

    /// Withdraws a deletion by a pending commit.
    pub(crate) fn withdraw_delete(&self, row: usize) {
        self.exists.set(row);
        self.show_ahead(row, true);
    }

    /// Withdraws the update of these columns by a pending commit; `displaced` gives what
    /// `install_update_ahead` has added for it.
    ///
    /// # Safety
    /// These are the columns, in the same order, and the views.
    pub(crate) unsafe fn withdraw_update(
        &self,
        row: usize,
        columns: impl Iterator<Item = usize> + Clone,
        displaced: &mut impl Iterator<Item = u128>,
        pin: &Guard,
    ) {
        let before = self.chain(row).iter(pin).next().expect("an update has saved what it overwrites");
        let mut set = ColumnSet::EMPTY;
        columns.clone().for_each(|column| set.insert(column));
        let _shared = self.segment.as_ref().map(|segment| segment.lock_shared(set));
        let writing = self.columns.begin_write();
        for column in columns {
            let cell = before.cell(column).expect("an update has saved what it overwrites");
            let view = cell.long_bytes().and_then(|_| displaced.next());
            let array = self.array_to_write(&writing, column, pin);
            array.store(row, cell, view);
            if view.is_some() {
                array.remember(cell.long_bytes().map_or(0, <[u8]>::len));
            }
        }
    }

    fn show_ahead(&self, row: usize, exists: bool) {
        let number = self.mark(row).pending_commit().expect("the row is pending");
        self.rows[row].header.store(Header::pending(number, exists).0, Ordering::Release);
    }

    /// Gives a new row its timestamp, that of its decided commit, and gives it up. Like for the two below, the caller
    /// owns the row, which is pending.
    pub(crate) fn settle_insert(&self, row: usize, commit: Timestamp) {
        raise(&self.insertion, commit);
        self.settle_ahead(row, commit, &[&self.pending_cells, &self.pending_rows]);
    }

    /// Gives an updated row its timestamp.
    pub(crate) fn settle_update(&self, row: usize, commit: Timestamp, columns: impl Iterator<Item = usize>) {
        columns.for_each(|column| raise(&self.column_updates[column], commit));
        self.settle_ahead(row, commit, &[&self.pending_cells]);
    }

    /// Gives a deleted row its timestamp.
    pub(crate) fn settle_delete(&self, row: usize, commit: Timestamp) {
        raise(&self.deletion, commit);
        self.settle_ahead(row, commit, &[&self.pending_rows]);
    }

    fn settle_ahead(&self, row: usize, commit: Timestamp, counts: &[&AtomicU32]) {
        let mark = self.mark(row);
        assert!(mark.is_pending(), "a commit gives a timestamp to rows that it has installed ahead of it");
        let header = mark.decided(commit).unlocked();
        self.rows[row].header.store(header.0, Ordering::Release);
        // Release: a reader that finds the row counted out finds the timestamps of change raised.
        for count in counts {
            count.fetch_sub(1, Ordering::Release);
        }
        failpoint::step("row settled");
    }
}
