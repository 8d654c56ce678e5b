//! Large commits: rows installed ahead of the timestamp, so that the time between drawing it and becoming visible does not
//! grow with their number.
//!
//! ```text
//! small    lock  keys  write ahead                draw c, validate, install rows,  finish
//! large    lock  keys  write ahead, install as n  draw c, validate, n := c,        finish  settle rows at c
//!                                                 └───────── others wait ─────────┘
//! ```
//!
//! The number n is newer than everything for all readers until it is decided to be c, in one store (`sync::pending`,
//! and `block::ahead` in `ankerdb_table`). Settling replaces it by c in the headers and gives the rows up; until it
//! comes to a row, others cannot write to it, though they see it. Each row costs two stores more than in a
//! small commit, and some counting.
//!
//! If the commit ends, by an error ahead of the timestamp or a conflict behind it, the rows are withdrawn: they become
//! what they were, as of a timestamp that is drawn for that. That holds up no other commit either.

use crate::ends_process::EndsProcess;
use crate::progress::{Ahead, CommitProgress};
use crate::retired::let_go;
use crate::transaction::Transaction;
use crate::write_set::{STEPS_BETWEEN_CHECKS, WriteKind};
use ankerdb_base::{Result, Timestamp, failpoint};
use ankerdb_table::begin_pending;
use crossbeam_epoch::Guard;

impl Transaction {
    /// The state of a commit that installs ahead of its timestamp, if this is one.
    pub(crate) fn begin_ahead(&self) -> Option<Ahead> {
        let is_large = self.writes.writes.len() >= self.manager.versioning().ahead_from;
        // Without a number the commit is an ordinary one.
        let commit = is_large.then(begin_pending).flatten()?;
        Some(Ahead::new(commit))
    }

    /// Installs a row that has been written or saved, if the commit is a large one. The views are those of this row
    /// alone.
    pub(crate) fn install_row_ahead(
        &self,
        place: usize,
        progress: &mut CommitProgress,
        pin: &Guard,
    ) -> Result<()> {
        // It stays where it is even if there is a panic: what has been installed must be withdrawn.
        let CommitProgress { rows, views, large: Some(ahead), .. } = progress else { return Ok(()) };
        failpoint::reach("row ahead of its timestamp")?;
        let _whole = EndsProcess("while it was installing a row");
        let write = &self.writes.writes[place];
        let cells = self.writes.cells(write);
        let row = rows[place].as_mut().expect("the rows of a commit are owned");
        self.tables.storage(write.table).with_kept(row, |row| -> Result<()> {
            let mut views = views.iter().copied();
            // SAFETY: the row was written or saved just now, and added these views; `insert` and `update` let only UTF-8
            // into text columns.
            unsafe {
                match write.kind {
                    WriteKind::Insert => row.install_insert_ahead(&ahead.commit, cells, &mut views, pin),
                    WriteKind::Update => {
                        let displaced = &mut ahead.displaced;
                        row.install_update_ahead(&ahead.commit, cells, &mut views, displaced, pin)?;
                    }
                    WriteKind::Delete | WriteKind::Nothing => row.install_delete_ahead(&ahead.commit),
                }
            }
            Ok(())
        })?;
        views.clear();
        ahead.installed = place + 1;
        Ok(())
    }

    /// All rows are those of `commit` from here on.
    pub(crate) fn decide(&self, ahead: &mut Ahead, commit: Timestamp) {
        failpoint::pass("decision");
        ahead.commit.decide(commit);
    }

    /// Gives the rows their timestamp, and gives them up.
    pub(crate) fn settle(
        &self,
        progress: &mut CommitProgress,
        ahead: Ahead,
        commit: Timestamp,
        pin: &mut Guard,
    ) {
        for (place, write) in self.writes.writes[..ahead.installed].iter().enumerate() {
            if place.is_multiple_of(STEPS_BETWEEN_CHECKS) {
                let_go(pin);
            }
            if write.kind == WriteKind::Nothing {
                continue;
            }
            failpoint::pass("timestamp of a row");
            let row = progress.take(place, self.tables.storage(write.table));
            match write.kind {
                WriteKind::Insert => row.settle_insert(commit),
                WriteKind::Update => {
                    row.settle_update(commit, self.writes.cells(write).map(|(column, _)| column));
                }
                WriteKind::Delete | WriteKind::Nothing => row.settle_delete(commit),
            }
        }
        self.settle_load(progress, commit, pin);
        ahead.commit.end();
    }

    /// Makes the rows what they were. Readers see that only when they are settled.
    pub(crate) fn withdraw(&self, progress: &mut CommitProgress, ahead: &mut Ahead, pin: &mut Guard) {
        let mut displaced = std::mem::take(&mut ahead.displaced).into_iter();
        for (place, write) in self.writes.writes[..ahead.installed].iter().enumerate() {
            if place.is_multiple_of(STEPS_BETWEEN_CHECKS) {
                let_go(pin);
            }
            failpoint::step("row withdrawn");
            let Some(row) = progress.rows[place].as_mut() else { continue };
            self.tables.storage(write.table).with_kept(row, |row| match write.kind {
                WriteKind::Insert => row.withdraw_insert(),
                WriteKind::Update => {
                    let columns = self.writes.cells(write).map(|(column, _)| column);
                    // SAFETY: installed with these columns, which has added these views.
                    unsafe { row.withdraw_update(columns, &mut displaced, pin) };
                }
                WriteKind::Delete | WriteKind::Nothing => row.withdraw_delete(),
            });
        }
        self.withdraw_load(progress);
    }

    /// Ends a commit whose rows have been withdrawn: as one that has changed nothing.
    pub(crate) fn settle_withdrawn(&self, progress: &mut CommitProgress, mut ahead: Ahead, pin: &mut Guard) {
        if ahead.installed == 0 && progress.loaded.is_empty() {
            ahead.commit.end();
            return;
        }
        let order = &self.manager.order;
        let commit =
            order.begin(ahead.nothing.clone(), |former| self.manager.old_records.retire(former, pin));
        ahead.commit.decide(commit);
        order.finish(commit, true);
        self.settle(progress, ahead, commit, pin);
    }
}
