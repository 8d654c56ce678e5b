//! Writing to rows: what is done before a commit has its timestamp, and what is done at the timestamp.
//!
//! ```text
//! before   write_new, save     cells of new rows, versions of old ones, long strings; taken back by take_back
//! at c     install_insert, install_update, install_delete     announce the commit, write cells, end with the header at c
//! ```
//!
//! The order of stores is that of `header` and of the block's invariant 2. Large commits install in the same way with a
//! number for c (`ahead`).

use super::RowBlock;
use crate::array::ColumnArray;
use crate::cell::Cell;
use crate::header::Header;
use crate::version::{CellSizes, NewVersion};
use ankerdb_base::{ColumnPosition, ColumnSet, Error, Result, Timestamp, failpoint};
use ankerdb_sync::lending::Writing;
use crossbeam_epoch::Guard;
use std::sync::atomic::{AtomicU64, Ordering, fence};

thread_local! {
    /// Bytes of arrays that this thread has copied because they were lent, and not told yet.
    static PRE_IMAGE_BYTES: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Bytes of arrays that this thread has copied since the last call, because readers had them on loan: their memory stays with
/// those.
#[inline]
pub fn take_pre_image_bytes() -> u64 {
    PRE_IMAGE_BYTES.take()
}

impl RowBlock {
    /// Writes what can be written of a new row before it has a timestamp, in a slot that the caller owns and in which
    /// no reader sees a row: cells that one store writes, and the bytes of long strings, whose views are added to
    /// `views`. The views themselves, and other compound cells, are left to `install_insert`: half of one in the copy
    /// of a column would be no cell at all, and a row that has no timestamp yet cannot be told from one that never was.
    pub(crate) fn write_new<'a>(
        &self,
        row: usize,
        cells: impl Iterator<Item = (usize, Cell<'a>)> + Clone,
        views: &mut Vec<u128>,
        pin: &Guard,
    ) -> Result<()> {
        debug_assert!(self.rows[row].chain.is_empty() && !self.header(row).exists());
        let _shared = self.segment.as_ref().map(|segment| segment.lock_shared(columns_of(cells.clone())));
        let writing = self.columns.begin_write();
        let first_view = views.len();
        for (column, cell) in cells {
            if let Some(zone) = &self.zones[column] {
                zone.widen(cell);
            }
            let array = self.array_to_write(&writing, column, pin);
            if !array.layout().is_compound() {
                array.store(row, cell, None);
            } else if let Some(bytes) = cell.long_bytes() {
                self.place(array, bytes, first_view, views)?;
            }
        }
        Ok(())
    }

    /// Keeps what an update of a row is about to overwrite, and puts its long strings into the heaps. The caller owns
    /// the row, which exists.
    pub(crate) fn save<'a>(
        &self,
        row: usize,
        changes: impl Iterator<Item = (usize, Cell<'a>)> + Clone,
        views: &mut Vec<u128>,
        pin: &Guard,
    ) -> Result<()> {
        let (mut room, mut has_long) = (CellSizes::default(), false);
        for (column, cell) in changes.clone() {
            has_long |= cell.long_bytes().is_some();
            let (array, raw) = self.load(row, ColumnPosition(column), pin);
            // SAFETY: the caller owns the row, so no write to the cell is under way.
            room.add(unsafe { array.resolve(&raw) });
        }
        if has_long {
            self.place_all(changes.clone(), views, pin)?;
        }
        failpoint::reach("version of a row")?;
        let header = self.mark(row);
        let mut version = NewVersion::new(header.timestamp(), header.exists(), room)?;
        for (column, _) in changes {
            let (array, raw) = self.load(row, ColumnPosition(column), pin);
            // SAFETY: as above; the cell is the one that there is room for.
            version.add(column, unsafe { array.resolve(&raw) });
        }
        self.dirty.set(row);
        self.rows[row].chain.push(version);
        failpoint::step("row saved");
        Ok(())
    }

    /// Places the long strings of an update.
    #[cold]
    fn place_all<'a>(
        &self,
        changes: impl Iterator<Item = (usize, Cell<'a>)>,
        views: &mut Vec<u128>,
        pin: &Guard,
    ) -> Result<()> {
        let writing = self.columns.begin_write();
        let first_view = views.len();
        for (column, cell) in changes {
            if let Some(bytes) = cell.long_bytes() {
                let array = self.array_to_write(&writing, column, pin);
                self.place(array, bytes, first_view, views)?;
            }
        }
        Ok(())
    }

    /// Places a string, the first one of a row if `views` is as long as it was. A registered writer's array is not being
    /// copied, so the count is there before a copy looks at it.
    fn place(
        &self,
        array: &ColumnArray,
        bytes: &[u8],
        first_view: usize,
        views: &mut Vec<u128>,
    ) -> Result<()> {
        failpoint::reach("string of a row")?;
        views.try_reserve(1).map_err(|_| Error::out_of_memory(size_of::<u128>()))?;
        let view = array.place(bytes)?;
        if views.len() == first_view {
            self.rows_placed.fetch_add(1, Ordering::Relaxed);
        }
        views.push(view);
        Ok(())
    }

    /// Takes back what [`write_new`](Self::write_new) or [`save`](Self::save) has done, of strings as many as there are
    /// views left. The caller owns the row.
    pub(crate) fn take_back<'a>(
        &self,
        row: usize,
        cells: impl Iterator<Item = (usize, Cell<'a>)>,
        views: &mut impl Iterator<Item = u128>,
        pin: &Guard,
    ) {
        let header = self.header(row);
        if header.exists() {
            self.rows[row].chain.take_back(header.timestamp(), pin);
        }
        let mut was_placed = false;
        for (column, cell) in cells {
            if let Some(bytes) = cell.long_bytes()
                && views.next().is_some()
            {
                // SAFETY: inside a pin.
                unsafe { self.columns.current(column) }.forget(bytes.len());
                was_placed = true;
            }
        }
        if was_placed {
            self.rows_placed.fetch_sub(1, Ordering::Release);
        }
    }

    #[inline]
    pub(super) fn array_to_write<'w>(
        &self,
        writing: &'w Writing<'_, ColumnArray>,
        column: usize,
        pin: &Guard,
    ) -> &'w ColumnArray {
        let copy = |array: &ColumnArray| {
            PRE_IMAGE_BYTES.set(PRE_IMAGE_BYTES.get() + array.values().bytes() as u64);
            array.duplicate(self.may_leave_heaps())
        };
        writing.column(column, copy, |retired| {
            // SAFETY: the array is no longer reachable; those pinned now may still read it.
            unsafe { pin.defer_unchecked(move || drop(retired)) }
        })
    }

    /// Installs an update for commit `commit` and gives up the row. The caller owns the row, which exists and was saved.
    ///
    /// # Safety
    /// Cells of text columns are UTF-8. The cells are those that were saved, and `views` those of their long strings.
    pub(crate) unsafe fn install_update<'a>(
        &self,
        row: usize,
        commit: Timestamp,
        changes: impl Iterator<Item = (usize, Cell<'a>)> + Clone,
        views: &mut impl Iterator<Item = u128>,
        pin: &Guard,
    ) {
        self.check_owned(row, commit);
        let new = Header::committed(commit, true);
        let updated = changes.clone();
        let announce = || {
            self.dirty.set(row);
            updated.for_each(|(column, _)| raise(&self.column_updates[column], commit));
            failpoint::step("change told");
            self.announce(row, new);
        };
        self.change_cells(row, new, changes, views, pin, announce, |_| ());
        failpoint::step("row installed");
    }

    /// Writes the cells of an update, between what announces it and the header that ends it. `before` looks at each array
    /// that is about to be written to.
    #[inline]
    #[expect(clippy::too_many_arguments, reason = "the steps of the two functions that install updates")]
    pub(super) fn change_cells<'a>(
        &self,
        row: usize,
        new: Header,
        changes: impl Iterator<Item = (usize, Cell<'a>)> + Clone,
        views: &mut impl Iterator<Item = u128>,
        pin: &Guard,
        announce: impl FnOnce(),
        mut before: impl FnMut(&ColumnArray),
    ) {
        let _shared = self.segment.as_ref().map(|segment| segment.lock_shared(columns_of(changes.clone())));
        let writing = self.columns.begin_write();
        announce();
        let mut was_placed = false;
        for (column, cell) in changes {
            if let Some(zone) = &self.zones[column] {
                zone.widen(cell);
            }
            let array = self.array_to_write(&writing, column, pin);
            before(array);
            let view = cell.long_bytes().and_then(|_| views.next());
            was_placed |= view.is_some();
            array.store(row, cell, view);
            failpoint::step("cell written");
        }
        self.end_writing(row, new, was_placed, writing);
    }

    /// Installs a new row for commit `commit` in a slot the caller owns and has written the row to, and gives up the slot.
    ///
    /// # Safety
    /// As for [`install_update`](Self::install_update); the cells are those that were written.
    pub(crate) unsafe fn install_insert<'a>(
        &self,
        row: usize,
        commit: Timestamp,
        cells: impl Iterator<Item = (usize, Cell<'a>)> + Clone,
        views: &mut impl Iterator<Item = u128>,
        pin: &Guard,
    ) {
        self.check_owned(row, commit);
        let new = Header::committed(commit, true);
        let announce = || {
            self.dirty.set(row);
            raise(&self.insertion, commit);
            self.announce(row, new);
        };
        if !self.has_compound {
            announce();
            self.exists.set(row);
            self.rows[row].header.store(new.0, Ordering::Release);
            return;
        }
        self.complete_row(row, new, cells, views, pin, announce);
        failpoint::step("row installed");
    }

    /// Writes the cells of a new row that [`write_new`](Self::write_new) has left, between what announces it and the header
    /// that ends it.
    #[inline]
    pub(super) fn complete_row<'a>(
        &self,
        row: usize,
        new: Header,
        cells: impl Iterator<Item = (usize, Cell<'a>)> + Clone,
        views: &mut impl Iterator<Item = u128>,
        pin: &Guard,
        announce: impl FnOnce(),
    ) {
        let _shared = self.segment.as_ref().map(|segment| segment.lock_shared(columns_of(cells.clone())));
        let writing = self.columns.begin_write();
        announce();
        let mut was_placed = false;
        if self.has_compound {
            for (column, cell) in cells {
                let array = self.array_to_write(&writing, column, pin);
                if array.layout().is_compound() {
                    let view = cell.long_bytes().and_then(|_| views.next());
                    was_placed |= view.is_some();
                    array.store(row, cell, view);
                }
            }
        }
        self.exists.set(row);
        self.end_writing(row, new, was_placed, writing);
    }

    /// Installs a deletion for commit `commit` and gives up the row. The cells stay as they are until the slot is
    /// handed out again. The caller owns the row, which exists and was saved.
    pub(crate) fn install_delete(&self, row: usize, commit: Timestamp) {
        self.check_owned(row, commit);
        let new = Header::committed(commit, false);
        self.dirty.set(row);
        raise(&self.deletion, commit);
        self.announce(row, new);
        self.exists.clear(row);
        self.rows[row].header.store(new.0, Ordering::Release);
    }

    /// The header shows the commit before anything else does.
    #[inline]
    pub(super) fn announce(&self, row: usize, new: Header) {
        self.rows[row].header.store(new.installing().0, Ordering::Release);
        fence(Ordering::Release);
        failpoint::step("commit announced");
    }

    /// The last steps of a row whose cells were written.
    #[inline]
    fn end_writing(&self, row: usize, new: Header, was_placed: bool, writing: Writing<'_, ColumnArray>) {
        if was_placed {
            self.rows_placed.fetch_sub(1, Ordering::Release);
        }
        drop(writing);
        self.rows[row].header.store(new.0, Ordering::Release);
    }

    fn check_owned(&self, row: usize, commit: Timestamp) {
        let header = Header(self.rows[row].header.load(Ordering::Relaxed));
        assert!(
            header.is_locked() && header.timestamp() < commit,
            "a commit installs into rows that it owns"
        );
    }
}

/// Raises a timestamp of change before the change itself; see invariant 2.
pub(super) fn raise(change: &AtomicU64, commit: Timestamp) {
    // Commits on the same block often come in order, and then the timestamp has not changed since.
    if change.load(Ordering::Relaxed) < commit.0 {
        change.fetch_max(commit.0, Ordering::AcqRel);
    }
}

fn columns_of<'a>(cells: impl Iterator<Item = (usize, Cell<'a>)>) -> ColumnSet {
    let mut columns = ColumnSet::EMPTY;
    cells.for_each(|(column, _)| columns.insert(column));
    columns
}
