//! Putting rows back that a log tells of: without versions, as there are no readers yet.

use super::RowBlock;
use super::install::raise;
use crate::cell::Cell;
use crate::header::Header;
use ankerdb_base::{ROWS_PER_BLOCK, Result, Timestamp};
use crossbeam_epoch::Guard;
use std::sync::atomic::Ordering;

impl RowBlock {
    /// Counts all slots as handed out, so that any of them can be given a row.
    pub(crate) fn open_all_slots(&self) {
        self.fill.store(ROWS_PER_BLOCK as u32, Ordering::Release);
    }

    /// Overwrites cells of a row that the caller owns and that exists, as of `commit`, and gives up the row. The former cells are
    /// kept for nobody.
    ///
    /// # Errors
    /// 53200 and 54000 if there is no room for a string: then nothing has changed.
    pub(crate) fn restore_update<'a>(
        &self,
        row: usize,
        commit: Timestamp,
        changes: impl Iterator<Item = (usize, Cell<'a>)> + Clone,
        pin: &Guard,
    ) -> Result<()> {
        let mut views = Vec::new();
        {
            let writing = self.columns.begin_write();
            for (column, cell) in changes.clone() {
                if let Some(bytes) = cell.long_bytes() {
                    let array = self.array_to_write(&writing, column, pin);
                    views.push(array.place(bytes)?);
                }
            }
        }
        if !views.is_empty() {
            self.rows_placed.fetch_add(1, Ordering::Relaxed);
        }
        let (new, updated) = (Header::committed(commit, true), changes.clone());
        let announce = || {
            self.dirty.set(row);
            updated.for_each(|(column, _)| raise(&self.column_updates[column], commit));
            self.announce(row, new);
        };
        self.change_cells(row, new, changes, &mut views.into_iter(), pin, announce, |_| ());
        Ok(())
    }
}
