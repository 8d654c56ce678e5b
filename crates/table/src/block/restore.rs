//! Putting rows back that a log tells of: without versions, as there are no readers yet.

use super::RowBlock;
use super::install::raise;
use crate::array::RawCell;
use crate::block_image::{ImageColumn, PresentRows};
use crate::cell::Cell;
use crate::header::Header;
use crate::restore::misfit;
use ankerdb_base::{ROWS_PER_BLOCK, Result, Timestamp};
use crossbeam_epoch::Guard;
use std::sync::atomic::Ordering;

impl RowBlock {
    /// Counts all slots as handed out, so that any of them can be given a row.
    pub(crate) fn open_all_slots(&self) {
        self.fill.store(ROWS_PER_BLOCK as u32, Ordering::Release);
    }

    /// Counts slots from this one on as not handed out: they have never had a row.
    pub(crate) fn close_slots_from(&self, end: usize) {
        self.fill.store(end as u32, Ordering::Release);
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

    /// Overwrites the validity bits of a column that has never had any.
    pub(crate) fn restore_validity(
        &self,
        column: usize,
        bits: Option<&[u8]>,
        rows: &PresentRows,
        pin: &Guard,
    ) {
        let writing = self.columns.begin_write();
        let all = [u8::MAX; ROWS_PER_BLOCK / 8];
        let bits = bits.unwrap_or(&all[..rows.words() * 8]);
        self.array_to_write(&writing, column, pin).restore_validity(bits);
    }

    /// Overwrites the values of a column that has never had any.
    pub(crate) fn restore_values(
        &self,
        column: usize,
        image: &ImageColumn<'_>,
        values: &[u8],
        rows: &PresentRows,
        pin: &Guard,
    ) {
        let writing = self.columns.begin_write();
        let array = self.array_to_write(&writing, column, pin);
        array.restore_values(values);
        let Some(zone) = &self.zones[column] else { return };
        let (mut min, mut max) = (i64::MAX, i64::MIN);
        for row in rows.0.iter().filter(|row| image.is_valid(**row)) {
            if let RawCell::Word(word) = array.load(*row) {
                (min, max) = (min.min(word as i64), max.max(word as i64));
            }
        }
        if min <= max {
            zone.widen(Cell::bigint(min));
            zone.widen(Cell::bigint(max));
        }
    }

    /// Writes the strings of a column that has never had any.
    ///
    /// # Errors
    /// `DataCorrupted` if text is not UTF-8; 53200 and 54000 if there is no room.
    pub(crate) fn restore_strings(
        &self,
        column: usize,
        strings: &[(usize, &[u8])],
        is_text: bool,
        change: &dyn Fn(&[u8]) -> Option<Vec<u8>>,
        pin: &Guard,
    ) -> Result<()> {
        let writing = self.columns.begin_write();
        let array = self.array_to_write(&writing, column, pin);
        for &(row, bytes) in strings {
            let other = change(bytes);
            let bytes = other.as_deref().unwrap_or(bytes);
            if is_text && std::str::from_utf8(bytes).is_err() {
                return Err(misfit("text that is not UTF-8"));
            }
            let cell = Cell::Bytes(bytes);
            let view = cell.long_bytes().map(|bytes| array.place(bytes)).transpose()?;
            array.store(row, cell, view);
        }
        Ok(())
    }

    /// Gives slots their rows, whose cells have been written, as of a timestamp.
    pub(crate) fn restore_rows(&self, rows: &[usize], timestamp: Timestamp) {
        raise(&self.insertion, timestamp);
        let header = Header::committed(timestamp, true);
        for &row in rows {
            self.exists.set(row);
            self.rows[row].header.store(header.0, Ordering::Release);
        }
    }
}
