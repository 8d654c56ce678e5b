//! Putting rows back that a log tells of: without versions, as there are no readers yet.

use super::RowBlock;
use super::install::raise;
use crate::block_image::{ChangeBytes, ImageColumn, PresentRows};
use crate::cell::{Cell, CellLayout};
use crate::header::Header;
use crate::restore::misfit;
use ankerdb_base::{ROWS_PER_BLOCK, Result, Timestamp};
use crossbeam_epoch::Guard;
use std::sync::atomic::Ordering;

/// The smallest and the largest of the rows' values; the first is larger if there are no rows.
fn bounds<const BYTES: usize>(
    rows: impl Iterator<Item = usize>,
    values: &[[u8; BYTES]],
    value: impl Fn([u8; BYTES]) -> i64,
) -> (i64, i64) {
    rows.fold((i64::MAX, i64::MIN), |(min, max), row| {
        let value = value(values[row]);
        (min.min(value), max.max(value))
    })
}

impl RowBlock {
    /// Counts all slots as handed out, so that any of them can be given a row.
    pub(crate) fn open_all_slots(&self) {
        self.fill.store(ROWS_PER_BLOCK as u32, Ordering::Release);
    }

    /// Counts slots from this one on as not handed out: they have never had a row.
    pub(crate) fn close_slots_from(&self, end: usize) {
        self.fill.store(end as u32, Ordering::Release);
    }

    /// Writes a row into a slot that the caller owns and that has none, as of `commit`, and gives it up. It stays as clean as it was:
    /// those who are going to read may see its newest state, and it has no versions.
    ///
    /// # Errors
    /// 53200 and 54000 if there is no room for a string: then there is no row, and the caller still owns the slot.
    pub(crate) fn restore_insert(
        &self,
        row: usize,
        commit: Timestamp,
        cells: &[Cell<'_>],
        pin: &Guard,
    ) -> Result<()> {
        let writing = self.columns.begin_write();
        for (column, &cell) in cells.iter().enumerate() {
            if let Some(zone) = &self.zones[column] {
                zone.widen(cell);
            }
            let array = self.array_to_write(&writing, column, pin);
            let view = cell.long_bytes().map(|bytes| array.place(bytes)).transpose()?;
            array.store(row, cell, view);
        }
        raise(&self.insertion, commit);
        self.exists.set(row);
        self.rows[row].header.store(Header::committed(commit, true).0, Ordering::Release);
        Ok(())
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
        let present = rows.0.iter().copied().filter(|row| image.is_valid(*row));
        // Only layouts of words have bounds.
        let (min, max) = match image.layout {
            CellLayout::Half => {
                bounds(present, values.as_chunks().0, |value| i16::from_le_bytes(value).into())
            }
            CellLayout::Quad => {
                bounds(present, values.as_chunks().0, |value| i32::from_le_bytes(value).into())
            }
            _ => bounds(present, values.as_chunks().0, i64::from_le_bytes),
        };
        if min <= max {
            zone.widen(Cell::bigint(min));
            zone.widen(Cell::bigint(max));
        }
    }

    /// Writes the strings of a column that has never had any and has its validity bits. `change` is for columns that are no text.
    ///
    /// # Errors
    /// `DataCorrupted` if text is not UTF-8; 53200 and 54000 if there is no room.
    pub(crate) fn restore_strings(
        &self,
        column: usize,
        strings: &[(usize, &[u8])],
        is_text: bool,
        change: Option<&dyn ChangeBytes>,
        pin: &Guard,
    ) -> Result<()> {
        let writing = self.columns.begin_write();
        let array = self.array_to_write(&writing, column, pin);
        if is_text && strings.iter().any(|(_, bytes)| std::str::from_utf8(bytes).is_err()) {
            return Err(misfit("text that is not UTF-8"));
        }
        let Some(change) = change else { return array.restore_strings(strings.iter().copied()) };
        let changed: Vec<Option<Vec<u8>>> =
            strings.iter().map(|(_, bytes)| change.bytes(column, bytes)).collect();
        let strings = strings.iter().zip(&changed);
        array.restore_strings(strings.map(|((row, bytes), other)| (*row, other.as_deref().unwrap_or(bytes))))
    }

    /// Gives slots their rows, whose cells have been written, as of a timestamp: those whose bits are set, and which are listed.
    pub(crate) fn restore_rows(&self, exists: &[u8], rows: &[usize], timestamp: Timestamp) {
        raise(&self.insertion, timestamp);
        let header = Header::committed(timestamp, true);
        self.exists.set_words(exists);
        for &row in rows {
            self.rows[row].header.store(header.0, Ordering::Release);
        }
    }
}
