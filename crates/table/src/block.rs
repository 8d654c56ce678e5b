//! Row blocks: the newest values of [`ROWS_PER_BLOCK`] rows in place, and their older versions beside them.
//!
//! ```text
//! headers   row 0..8191   whether the row is owned, and the time of its newest change  (header)
//! chains    row 0..8191   before-images, newest to oldest                            (version)
//! columns   one array per column, lent to readers while nothing changes              (array, sync::lending),
//!           or, where a technique of the system takes snapshots, in a segment         (segment)
//! exists    1 bit a row   the row exists in its newest state
//! dirty     1 bit a row   the row may have a version, or a newest state that some reader must not see yet
//! free      1 bit a row   the slot waits for another row
//! ```
//!
//! Invariants:
//! 1. A row's cells, chain and header change only in the hands of its owner (LOCKED).
//! 2. Before a cell or an `exists` bit changes for commit *c*: a writer of cells is registered (`Columns::begin_write`),
//!    the row is dirty, `column_change` or `rows_change` (both, for a new row) are at least *c*, and the header shows
//!    *c*; in this order against a reader that loads data first and then headers (or these timestamps) behind an acquire
//!    fence. Cells of one store may be written to a slot earlier, before there is a *c*, while no reader sees a row
//!    there (`write_new`): these cells belong to no row.
//! 3. A row is clean only if every reader may see its newest state (header timestamp at or below the horizon) and its
//!    chain is empty. So a reader that has copied cells and bits of rows, and finds a row clean afterwards, has its
//!    state. Large commits go through these steps before there is a *c* (`ahead`): the header shows the commit's number,
//!    and the block counts the rows of which that is true, in place of *c* in `column_change` and `rows_change`.
//! 4. Slots below `fill` were handed out; a slot is handed out again only after its row's deletion is visible to all new
//!    readers, no reader sees the row in any state, no transaction that found it is going to write to it, and the row's
//!    index entries are gone. (By a sweep: the deletion fell below the horizon. By `Storage::bury`: readers from before
//!    the deletion began before the row came. To them the next row in the slot is as invisible as that one was; the slot
//!    stays dirty.)

mod ahead;
mod install;
mod loaded;
mod restore;

pub use ahead::begin_pending;
pub use install::take_pre_image_bytes;

use crate::array::{ColumnArray, RawCell};
use crate::bitmap::Bitmap;
use crate::cell::{Cell, CellLayout, OwnedCell};
use crate::change::RowChange;
use crate::derived::Derived;
use crate::dirty::DirtyRows;
use crate::header::{Header, NEWEST};
use crate::prefetch::prefetch;
use crate::segment::Segment;
use crate::version::{Version, VersionChain};
use crate::zone::Zone;
use ankerdb_base::{ColumnPosition, ColumnSet, Error, ROWS_PER_BLOCK, Result, Timestamp, failpoint};
use ankerdb_memory::{free, try_allocate_zeroed};
use ankerdb_sync::lending::Columns;
use ankerdb_value::DataType;
use crossbeam_epoch::Guard;
use parking_lot::Mutex;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Which state of a row to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadAt {
    /// The state at this timestamp, which must be announced in `ActiveReaders`.
    Snapshot(Timestamp),
    /// The state at this timestamp, but only cells that are still in place: one that has been overwritten since,
    /// or whose row has been deleted, is not read, as if the row did not exist.
    InPlace(Timestamp),
    /// The newest installed state, which may not be visible to any reader yet. What is installed ahead of its
    /// timestamp does not count.
    Newest,
}

impl ReadAt {
    /// The largest timestamp that is read.
    #[inline]
    fn limit(self) -> Timestamp {
        match self {
            ReadAt::Snapshot(at) | ReadAt::InPlace(at) => at,
            ReadAt::Newest => NEWEST,
        }
    }
}

struct RowMeta {
    header: AtomicU64,
    chain: VersionChain,
}

/// The headers and chains of a block, in memory like that of its arrays.
struct RowMetas(NonNull<[RowMeta; ROWS_PER_BLOCK]>);

// SAFETY: owns its rows, which are shared among threads by reference and dropped on any of them.
unsafe impl Send for RowMetas {}
// SAFETY: as above.
unsafe impl Sync for RowMetas {}

impl RowMetas {
    const BYTES: usize = size_of::<[RowMeta; ROWS_PER_BLOCK]>();

    fn new() -> Result<RowMetas> {
        failpoint::reach("headers of a block")?;
        let memory =
            try_allocate_zeroed(RowMetas::BYTES).ok_or_else(|| Error::out_of_memory(RowMetas::BYTES))?;
        // All zeros is a valid row: no timestamp, no owner, no versions.
        Ok(RowMetas(memory.cast()))
    }
}

impl Deref for RowMetas {
    type Target = [RowMeta; ROWS_PER_BLOCK];

    #[inline]
    fn deref(&self) -> &[RowMeta; ROWS_PER_BLOCK] {
        // SAFETY: allocated in `new`, initialized by zeros, freed on drop only.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for RowMetas {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this size; no other user is left.
        unsafe {
            self.0.drop_in_place();
            free(self.0.cast(), RowMetas::BYTES);
        }
    }
}

/// A block of rows.
pub struct RowBlock {
    rows: RowMetas,
    columns: Columns<ColumnArray>,
    zones: Box<[Option<Zone>]>,
    /// Whether cells of some column are compound (`CellLayout::is_compound`).
    has_compound: bool,
    /// Rows with strings in the heaps that no view points to yet: their commits are about to install them. Meanwhile no
    /// heap is replaced.
    rows_placed: AtomicU32,
    exists: Bitmap,
    dirty: DirtyRows,
    /// Changed by the row's owner only.
    free: Bitmap,
    /// The timestamp of the newest commit that updated, or is about to update, cells of each column, so that a column
    /// that is not written stays lendable.
    column_updates: Box<[AtomicU64]>,
    /// The timestamp of the newest commit that inserted rows, which write to all columns.
    insertion: AtomicU64,
    /// The timestamp of the newest commit that deleted rows.
    deletion: AtomicU64,
    /// Rows of which a large commit without a timestamp has changed, or is changing, cells.
    pending_cells: AtomicU32,
    /// Rows that a large commit without a timestamp has inserted or deleted.
    pending_rows: AtomicU32,
    /// What readers have derived from the newest state, for later readers.
    derived: Mutex<Option<Derived>>,
    /// Slots handed out.
    fill: AtomicU32,
    /// The horizon at the last sweep.
    swept_at: AtomicU64,
    /// In whose memory the arrays lie, if not in their own. Behind `columns`: goes after them.
    segment: Option<Arc<Segment>>,
}

impl RowBlock {
    /// Of each row: its header and the beginning of its version chain.
    pub(crate) const BYTES_BESIDE_CELLS: usize = size_of::<RowMeta>();

    /// An empty block for columns of these types (and whether they may hold NULL).
    ///
    /// # Errors
    /// 53200 if there is no memory.
    pub fn new(columns: &[(DataType, bool)]) -> Result<RowBlock> {
        let array = |&(data_type, nullable): &_| ColumnArray::new(CellLayout::of(data_type), nullable);
        let arrays: Vec<ColumnArray> = columns.iter().map(array).collect::<Result<_>>()?;
        RowBlock::of(columns, Columns::new(arrays), None)
    }

    /// An empty block with its arrays at a position of a segment that no other block has had.
    pub(crate) fn placed(
        columns: &[(DataType, bool)],
        segment: Arc<Segment>,
        position: usize,
    ) -> Result<RowBlock> {
        let arrays = columns.iter().enumerate().map(|(column, &(data_type, _))| {
            let layout = CellLayout::of(data_type);
            // SAFETY: the block holds the segment behind its arrays, which are never lent and so go with it.
            let (values, validity) = unsafe { segment.areas(position, ColumnPosition(column), layout) };
            ColumnArray::placed(layout, values, validity)
        });
        let arrays = Columns::new(arrays);
        RowBlock::of(columns, arrays, Some(segment))
    }

    fn of(
        columns: &[(DataType, bool)],
        arrays: Columns<ColumnArray>,
        segment: Option<Arc<Segment>>,
    ) -> Result<RowBlock> {
        let is_compound = |&(data_type, _): &(DataType, bool)| CellLayout::of(data_type).is_compound();
        Ok(RowBlock {
            rows: RowMetas::new()?,
            columns: arrays,
            has_compound: columns.iter().any(is_compound),
            rows_placed: AtomicU32::new(0),
            zones: columns
                .iter()
                .map(|(data_type, _)| Zone::covers(*data_type).then(Zone::default))
                .collect(),
            exists: Bitmap::default(),
            dirty: DirtyRows::default(),
            free: Bitmap::default(),
            column_updates: columns.iter().map(|_| AtomicU64::new(0)).collect(),
            insertion: AtomicU64::new(0),
            deletion: AtomicU64::new(0),
            pending_cells: AtomicU32::new(0),
            pending_rows: AtomicU32::new(0),
            derived: Mutex::new(None),
            fill: AtomicU32::new(0),
            swept_at: AtomicU64::new(0),
            segment,
        })
    }

    /// Whether arrays may be lent: those in segments are not.
    pub fn is_lendable(&self) -> bool {
        self.segment.is_none()
    }

    /// The header of a row, with its timestamp if that is known. Where it is not, the header tells the pending commit from
    /// all others.
    #[inline]
    pub fn header(&self, row: usize) -> Header {
        let header = self.mark(row);
        if header.is_pending() { self.resolved(row) } else { header }
    }

    /// The header as stored, which may be the mark of a commit that has its timestamp by now.
    #[inline]
    fn mark(&self, row: usize) -> Header {
        Header(self.rows[row].header.load(Ordering::Acquire))
    }

    /// The versions of a row.
    pub fn chain(&self, row: usize) -> &VersionChain {
        &self.rows[row].chain
    }

    /// The column arrays.
    pub fn columns(&self) -> &Columns<ColumnArray> {
        &self.columns
    }

    /// Bounds of a column, if its type has them.
    pub fn zone(&self, column: usize) -> Option<&Zone> {
        self.zones[column].as_ref()
    }

    /// Which rows exist in their newest state.
    pub fn exists(&self) -> &Bitmap {
        &self.exists
    }

    /// Which rows may differ between readers.
    pub fn dirty(&self) -> &Bitmap {
        self.dirty.bits()
    }

    /// Whether there are any, but for one that is becoming so. For one sweep at a time. A load for a block that nobody writes to.
    pub(crate) fn has_dirty(&self) -> bool {
        self.dirty.has_any()
    }

    /// The newest commit that has changed, or is changing, anything in the block. A load per column. As below, a large
    /// commit counts as newer than all others until its rows have their timestamp.
    pub fn last_change(&self) -> Timestamp {
        if self.pending_cells.load(Ordering::Acquire) > 0 {
            return Timestamp::MAX;
        }
        let updates = self.column_updates.iter().map(|update| Timestamp(update.load(Ordering::Acquire)));
        updates.fold(self.rows_change(), Timestamp::max)
    }

    /// The newest commit that has changed, or is changing, cells of the column.
    pub fn column_change(&self, column: usize) -> Timestamp {
        // The count comes first: a reader that finds none left finds the timestamps that they have raised.
        if self.pending_cells.load(Ordering::Acquire) > 0 {
            return Timestamp::MAX;
        }
        let update = self.column_updates[column].load(Ordering::Acquire);
        Timestamp(update.max(self.insertion.load(Ordering::Acquire)))
    }

    /// The newest commit that has changed, or is changing, which rows exist.
    pub fn rows_change(&self) -> Timestamp {
        if self.pending_rows.load(Ordering::Acquire) > 0 {
            return Timestamp::MAX;
        }
        let deletion = self.deletion.load(Ordering::Acquire);
        Timestamp(deletion.max(self.insertion.load(Ordering::Acquire)))
    }

    /// The newest commit that has deleted, or is deleting, rows.
    pub(crate) fn last_deletion(&self) -> Timestamp {
        Timestamp(self.deletion.load(Ordering::Acquire))
    }

    /// Whether the slot waits for another row.
    pub(crate) fn is_free(&self, row: usize) -> bool {
        self.free.is_set(row)
    }

    /// Notes that the slot is going to wait for another row; false if it does already. The caller owns the row.
    pub(crate) fn set_free(&self, row: usize) -> bool {
        let is_new = !self.free.is_set(row);
        self.free.set(row);
        is_new
    }

    /// Notes that the slot has another row. The caller owns it.
    pub(crate) fn set_used(&self, row: usize) {
        debug_assert!(self.free.is_set(row));
        self.free.clear(row);
    }

    /// A place where readers keep what they have derived from the block; it goes with the block.
    pub fn derived(&self) -> &Mutex<Option<Derived>> {
        &self.derived
    }

    /// Slots handed out so far.
    pub fn fill(&self) -> usize {
        self.fill.load(Ordering::Acquire) as usize
    }

    /// Hands out a fresh slot, owned by the caller. One caller at a time (the table's tail mutex).
    pub(crate) fn take_fresh_slot(&self) -> Option<usize> {
        let slot = self.fill.load(Ordering::Relaxed) as usize;
        if slot == ROWS_PER_BLOCK {
            return None;
        }
        self.rows[slot].header.store(Header::committed(Timestamp::ZERO, false).locked().0, Ordering::Release);
        self.fill.store(slot as u32 + 1, Ordering::Release);
        Some(slot)
    }

    /// Takes ownership of a row unless it is owned; returns its newest state. Only `OwnedRow` makes owners of it.
    #[inline]
    pub(crate) fn try_lock(&self, row: usize) -> Option<Header> {
        self.try_lock_as(row, Header::locked)
    }

    /// Like [`try_lock`](Self::try_lock), for a sweep.
    pub(crate) fn try_lock_for_sweep(&self, row: usize) -> Option<Header> {
        self.try_lock_as(row, Header::swept)
    }

    #[inline]
    fn try_lock_as(&self, row: usize, owned: impl Fn(Header) -> Header) -> Option<Header> {
        let header = &self.rows[row].header;
        let seen = Header(header.load(Ordering::Relaxed));
        if seen.is_locked() {
            return None;
        }
        header
            .compare_exchange(seen.0, owned(seen).0, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
            .then_some(seen)
    }

    /// Gives up ownership of a row that was not changed.
    pub(crate) fn unlock(&self, row: usize) {
        let header = &self.rows[row].header;
        let seen = Header(header.load(Ordering::Relaxed));
        debug_assert!(seen.is_locked() && !seen.is_installing());
        header.store(seen.unlocked().0, Ordering::Release);
    }

    /// Whether the row exists for this reader.
    pub fn exists_at(&self, row: usize, at: ReadAt, pin: &Guard) -> bool {
        let limit = at.limit();
        // Larger than the limit if pending: what that means is found out behind the comparison.
        let mark = self.mark(row);
        if mark.timestamp() <= limit {
            return mark.exists();
        }
        let header = if mark.is_pending() { self.resolved(row) } else { mark };
        if header.timestamp() <= limit {
            return header.exists();
        }
        self.rows[row]
            .chain
            .iter(pin)
            .find(|version| version.begin() <= limit)
            .is_some_and(|version| version.exists())
    }

    /// Reads one cell; `None` if the row does not exist for this reader. Never waits, except that
    /// `ReadAt::Newest` spins while the row's cells are being written.
    #[inline]
    pub fn read<R>(
        &self,
        row: usize,
        column: ColumnPosition,
        at: ReadAt,
        pin: &Guard,
        use_cell: impl FnOnce(Cell<'_>) -> R,
    ) -> Option<R> {
        self.read_or(row, column, at, pin, use_cell).ok()
    }

    /// Like [`read`](Self::read), but returns the function if the row does not exist.
    ///
    /// # Errors
    /// The function, if the row does not exist.
    #[inline]
    pub fn read_or<R, F: FnOnce(Cell<'_>) -> R>(
        &self,
        row: usize,
        column: ColumnPosition,
        at: ReadAt,
        pin: &Guard,
        use_cell: F,
    ) -> Result<R, F> {
        let limit = at.limit();
        loop {
            // Larger than the limit if pending: what that means is found out behind the comparison.
            let header = self.mark(row);
            failpoint::step("header looked at");
            if header.timestamp() > limit {
                match self.read_version(row, column, at, header, pin) {
                    Older::Absent => return Err(use_cell),
                    Older::Cell(cell) => return Ok(use_cell(cell)),
                    Older::InPlace => {}
                }
            } else if header.is_installing() {
                std::hint::spin_loop();
                continue;
            } else if !header.exists() {
                return Err(use_cell);
            }
            let (array, raw) = self.load(row, column, pin);
            failpoint::step("cell loaded");
            fence(Ordering::Acquire);
            if Header(self.rows[row].header.load(Ordering::Relaxed)).confirms(header) {
                // SAFETY: the unchanged header confirms the load (see `header`).
                return Ok(use_cell(unsafe { array.resolve(&raw) }));
            }
        }
    }

    /// Reads the cell in place whether its row exists or not: for a deleted row, what it was in the end; not what a
    /// pending commit has put there. Spins while the row's cells are being written.
    pub fn read_in_place<R>(
        &self,
        row: usize,
        column: ColumnPosition,
        pin: &Guard,
        use_cell: impl FnOnce(Cell<'_>) -> R,
    ) -> R {
        loop {
            let mark = self.mark(row);
            if self.header(row).is_pending()
                && let Some(version) = self.rows[row].chain.iter(pin).next()
                && let Some(cell) = version.cell(column.0)
            {
                return use_cell(cell);
            }
            let (array, raw) = self.load(row, column, pin);
            fence(Ordering::Acquire);
            let now = Header(self.rows[row].header.load(Ordering::Relaxed));
            if !mark.is_installing() && now.confirms(mark) {
                // SAFETY: the unchanged header confirms the load (see `header`).
                return use_cell(unsafe { array.resolve(&raw) });
            }
            std::hint::spin_loop();
        }
    }

    /// Whether only cells point to strings: none waits for its cell, and none is to come back should a commit end.
    fn may_leave_heaps(&self) -> bool {
        let is_awaited = |rows: &AtomicU32| rows.load(Ordering::Acquire) > 0;
        !is_awaited(&self.rows_placed) && !is_awaited(&self.pending_cells)
    }

    /// Asks for the memory of some cells of a row and its header, a cache line each.
    #[inline]
    pub fn prefetch(&self, row: usize, columns: ColumnSet, pin: &Guard) {
        let _inside = pin;
        prefetch(std::ptr::from_ref(&self.rows[row]).cast());
        for column in columns.iter().take_while(|column| *column < self.columns.len()) {
            // SAFETY: inside a pin.
            let array = unsafe { self.columns.current(column) };
            prefetch(array.cell_address(row));
        }
    }

    /// Asks for the bytes of long strings in these columns, as [`prefetch`](Self::prefetch) does for cells; loads
    /// their views.
    #[inline]
    pub fn prefetch_bytes(&self, row: usize, columns: ColumnSet, pin: &Guard) {
        let _inside = pin;
        for column in columns.iter().take_while(|column| *column < self.columns.len()) {
            // SAFETY: inside a pin.
            let array = unsafe { self.columns.current(column) };
            if let Some(address) = array.bytes_address(row) {
                prefetch(address);
            }
        }
    }

    #[inline]
    fn load<'pin>(
        &self,
        row: usize,
        column: ColumnPosition,
        _pin: &'pin Guard,
    ) -> (&'pin ColumnArray, RawCell) {
        // SAFETY: inside a pin; retired arrays are dropped an epoch later (`install`).
        let array = unsafe { self.columns.current(column.0) };
        (array, array.load(row))
    }

    /// Looks for a cell as of a timestamp that is before the row's newest change, as its header shows that.
    #[inline(never)]
    fn read_version<'pin>(
        &self,
        row: usize,
        column: ColumnPosition,
        at: ReadAt,
        mark: Header,
        pin: &'pin Guard,
    ) -> Older<'pin> {
        let (limit, is_in_place) = (at.limit(), matches!(at, ReadAt::InPlace(_)));
        let header = match self.decided(mark) {
            Some(header) if header.timestamp() > limit => header,
            Some(header) if header.exists() => return Older::InPlace,
            Some(_) => return Older::Absent,
            // The place's header is another one by now, so that it confirms nothing: it is looked at again.
            None => return Older::InPlace,
        };
        let mut found: Option<Cell<'pin>> = None;
        let overwritten = |version: &Version<'_>| version.begin() < header.timestamp();
        for version in self.rows[row].chain.iter(pin).filter(overwritten) {
            if let Some(cell) = version.cell(column.0) {
                found = Some(cell);
            }
            if version.begin() <= limit {
                return match found {
                    _ if !version.exists() => Older::Absent,
                    Some(_) if is_in_place => Older::Absent,
                    Some(cell) => Older::Cell(cell),
                    None if is_in_place && !self.header(row).exists() => Older::Absent,
                    None => Older::InPlace,
                };
            }
        }
        Older::Absent
    }

    /// What happened to the row after `since`, up to its newest installed state: updated are all columns that some
    /// commit has changed. Versions that no reader needs may be gone, but their columns live on in the older ones.
    pub fn changed_since(&self, row: usize, since: Timestamp, pin: &Guard) -> RowChange {
        let header = self.header(row);
        if header.timestamp() <= since {
            return RowChange::Nothing;
        }
        if header.is_pending() {
            return self.changed_under(row, since, pin);
        }
        let mut changed = ColumnSet::EMPTY;
        let mut existed = false;
        // A version of the newest state itself belongs to a commit that is still to come.
        let overwritten = |version: &Version<'_>| version.begin() < header.timestamp();
        for version in self.rows[row].chain.iter(pin).filter(overwritten) {
            changed = changed.union(version.columns());
            if version.begin() <= since {
                existed = version.exists();
                break;
            }
        }
        RowChange::between(existed, header.exists(), changed)
    }

    /// A cell of a row that the caller owns, as it is in place.
    pub(crate) fn owned_cell(&self, row: usize, column: ColumnPosition, pin: &Guard) -> OwnedCell {
        let (array, raw) = self.load(row, column, pin);
        // SAFETY: the caller owns the row, so no write to the cell is under way.
        unsafe { array.resolve(&raw) }.to_owned()
    }

    /// Whether a sweep may find something: old versions, and readers that moved on since the last sweep.
    pub(crate) fn wants_sweep(&self, horizon: Timestamp) -> bool {
        self.swept_at.swap(horizon.0, Ordering::Relaxed) != horizon.0
    }

    /// Makes rows clean whose newest state every reader sees: drops their versions. `before_clean(row, exists)` is
    /// called for each one, owned, while its versions are still there.
    pub(crate) fn sweep(&self, horizon: Timestamp, pin: &Guard, mut before_clean: impl FnMut(usize, bool)) {
        for row in self.dirty().rows() {
            let seen = self.header(row);
            if seen.is_locked() || seen.timestamp() > horizon {
                continue;
            }
            let Some(header) = self.try_lock_for_sweep(row) else { continue };
            failpoint::step("row owned by a sweep");
            // Another sweep has made the row clean since we looked, and has freed the slot if the row is deleted.
            if self.dirty().is_set(row) && header.timestamp() <= horizon {
                before_clean(row, header.exists());
                self.rows[row].chain.clear(pin);
                failpoint::step("history dropped");
                self.dirty.clear(row);
                failpoint::step("row clean");
            }
            self.unlock(row);
        }
    }

    /// Rewrites string heaps that are mostly garbage, by borrowing the column and copying it on write. Not in a
    /// segment: there arrays stay where they are.
    pub(crate) fn rebuild_heaps(&self, pin: &Guard) {
        if !self.is_lendable() || !self.may_leave_heaps() {
            return;
        }
        for column in 0..self.columns.len() {
            // SAFETY: inside a pin.
            if !unsafe { self.columns.current(column) }.wants_rebuild() {
                continue;
            }
            // SAFETY: inside a pin.
            let Some(loan) = (unsafe { self.columns.lend(&[column], || true) }) else { continue };
            let writing = self.columns.begin_write();
            self.array_to_write(&writing, column, pin);
            drop((writing, loan));
        }
    }

    /// Bytes of versions in this block; walks all of them.
    pub fn version_bytes(&self, pin: &Guard) -> usize {
        let row_bytes =
            |row: usize| -> usize { self.rows[row].chain.iter(pin).map(Version::memory_bytes).sum() };
        self.dirty().rows().map(row_bytes).sum()
    }
}

enum Older<'pin> {
    /// The row did not exist.
    Absent,
    /// A version holds the cell.
    Cell(Cell<'pin>),
    /// The cell has not changed since; the place holds it, if the header stays as it was.
    InPlace,
}
