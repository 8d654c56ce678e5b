//! Blocks whose rows are loaded as a whole: they come with all of their rows pending, and get the timestamp at once.
//!
//! A block that is made here goes through the steps of `ahead` before any other thread can reach it, so that their order
//! does not matter: what counts is that all of it is there when the block becomes one of the table's, which releases it.

use super::RowBlock;
use super::install::raise;
use crate::array::ColumnArray;
use crate::cell::Cell;
use crate::header::Header;
use ankerdb_base::{ColumnPosition, ROWS_PER_BLOCK, Result, Timestamp, failpoint};
use ankerdb_sync::lending::Columns;
use ankerdb_value::DataType;
use crossbeam_epoch::Guard;
use std::sync::atomic::Ordering;

impl RowBlock {
    /// A block of which the first rows are new ones of a pending commit, which owns them, and the other slots are free.
    /// 53200 if there is no memory.
    pub(crate) fn of_rows(
        columns: &[(DataType, bool)],
        arrays: Vec<ColumnArray>,
        bounds: &[Option<(i64, i64)>],
        rows: usize,
        number: u64,
    ) -> Result<RowBlock> {
        let block = RowBlock::of(columns, Columns::new(arrays), None)?;
        for (zone, bounds) in block.zones.iter().zip(bounds) {
            if let (Some(zone), Some((min, max))) = (zone, bounds)
                && min <= max
            {
                zone.widen(Cell::bigint(*min));
                zone.widen(Cell::bigint(*max));
            }
        }
        let header = Header::pending(number, true);
        block.rows[..rows].iter().for_each(|row| row.header.store(header.0, Ordering::Relaxed));
        block.exists.fill(0..rows);
        block.dirty.fill(0..rows);
        block.free.fill(rows..ROWS_PER_BLOCK);
        block.pending_cells.store(rows as u32, Ordering::Relaxed);
        block.pending_rows.store(rows as u32, Ordering::Relaxed);
        block.fill.store(ROWS_PER_BLOCK as u32, Ordering::Release);
        Ok(block)
    }

    /// Gives the first rows, which the caller owns and which are pending, the timestamp of their decided commit, and gives
    /// them up.
    pub(crate) fn settle_loaded(&self, rows: usize, commit: Timestamp) {
        raise(&self.insertion, commit);
        for row in 0..rows {
            let mark = self.mark(row);
            assert!(mark.is_pending(), "rows that were loaded wait for a timestamp");
            self.rows[row].header.store(mark.decided(commit).unlocked().0, Ordering::Release);
        }
        // Release: a reader that finds none counted finds the timestamp of change raised.
        self.pending_cells.fetch_sub(rows as u32, Ordering::Release);
        self.pending_rows.fetch_sub(rows as u32, Ordering::Release);
        failpoint::step("block settled");
    }

    /// Uses a cell of a row that the caller owns, as it is in place.
    #[inline]
    pub(crate) fn use_owned_cell<R>(
        &self,
        row: usize,
        column: ColumnPosition,
        pin: &Guard,
        use_cell: impl FnOnce(Cell<'_>) -> R,
    ) -> R {
        let (array, raw) = self.load(row, column, pin);
        // SAFETY: the caller owns the row, so no write to the cell is under way.
        use_cell(unsafe { array.resolve(&raw) })
    }
}
