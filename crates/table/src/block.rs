//! Row blocks: the newest values of [`ROWS_PER_BLOCK`] rows in place, and their history beside them.
//!
//! ```text
//! headers   row 0..8191   who owns the row, since when its newest state holds        (header)
//! chains    row 0..8191   before-images, newest to oldest                            (version)
//! columns   one array per column, lent to readers while nothing changes              (array, sync::lending),
//!           or, where a technique of the system takes snapshots, in a segment         (segment)
//! exists    1 bit a row   the row exists in its newest state
//! dirty     1 bit a row   the row may have a version, or a newest state that some reader must not see yet
//! ```
//!
//! Invariants:
//! 1. A row's cells, chain and header change only in the hands of its owner (LOCKED).
//! 2. Before a cell or an `exists` bit changes for commit *c*: the writer is registered (`Columns::begin_write`),
//!    the row is dirty, `column_change` or `rows_change` (both, for a new row) are at least *c*, and the header shows
//!    *c*; in this order against a reader that loads data first and then headers (or these timestamps) behind an
//!    acquire fence.
//! 3. A row is clean only if every reader may see its newest state (header timestamp at or below the horizon) and
//!    its chain is empty.
//! 4. Slots below `fill` were handed out; a slot is handed out again only after its row's deletion fell below the
//!    horizon and the row's index entries are gone.

use crate::array::{ColumnArray, RawCell};
use crate::bitmap::Bitmap;
use crate::cell::{Cell, CellLayout, OwnedCell};
use crate::change::RowChange;
use crate::header::Header;
use crate::segment::Segment;
use crate::table::Derived;
use crate::version::VersionChain;
use crate::zone::Zone;
use ankerdb_base::{ColumnSet, ROWS_PER_BLOCK, Timestamp};
use ankerdb_memory::{allocate_zeroed, free};
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
    /// The same for cells, if they are still in place: one that has been overwritten since, or whose row has been
    /// deleted, is not read, as if the row did not exist.
    InPlace(Timestamp),
    /// The newest installed state, committed a moment ago or visible to nobody yet.
    Newest,
}

/// What happened to [`RowBlock::try_lock`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum RowLock {
    /// The caller owns the row; this was its newest state.
    Acquired(Header),
    /// Another owner has it.
    Busy,
}

struct RowMeta {
    header: AtomicU64,
    chain: VersionChain,
}

/// The headers and chains of a block, in memory like that of its arrays.
struct Rows(NonNull<[RowMeta; ROWS_PER_BLOCK]>);

// SAFETY: owns its rows, which are shared among threads by reference and dropped on any of them.
unsafe impl Send for Rows {}
// SAFETY: as above.
unsafe impl Sync for Rows {}

impl Rows {
    const BYTES: usize = size_of::<[RowMeta; ROWS_PER_BLOCK]>();

    fn new() -> Rows {
        // All zeros is a valid row: no timestamp, nobody's, without history.
        Rows(allocate_zeroed(Rows::BYTES).cast())
    }
}

impl Deref for Rows {
    type Target = [RowMeta; ROWS_PER_BLOCK];

    #[inline]
    fn deref(&self) -> &[RowMeta; ROWS_PER_BLOCK] {
        // SAFETY: allocated in `new`, initialized by zeros, freed on drop only.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this size; nobody else is left.
        unsafe {
            self.0.drop_in_place();
            free(self.0.cast(), Rows::BYTES);
        }
    }
}

/// A block of rows.
pub struct RowBlock {
    rows: Rows,
    columns: Columns<ColumnArray>,
    zones: Box<[Option<Zone>]>,
    exists: Bitmap,
    dirty: Bitmap,
    /// The timestamp of the newest commit that updated, or is about to update, cells of each column, so that a column
    /// that nobody writes stays lendable.
    column_updates: Box<[AtomicU64]>,
    /// The same for new rows, which write to all columns.
    insertion: AtomicU64,
    /// The same for rows that go.
    deletion: AtomicU64,
    /// What readers have made of the newest state, for those who come after them.
    derived: Mutex<Option<Derived>>,
    /// Slots handed out.
    fill: AtomicU32,
    /// The horizon at the last sweep.
    swept_at: AtomicU64,
    /// In whose memory the arrays lie, if not in their own. Behind `columns`: goes after them.
    segment: Option<Arc<Segment>>,
}

impl RowBlock {
    /// An empty block for columns of these types (and whether they may hold NULL).
    pub fn new(columns: &[(DataType, bool)]) -> RowBlock {
        let arrays = columns
            .iter()
            .map(|&(data_type, nullable)| ColumnArray::new(CellLayout::of(data_type), nullable));
        RowBlock::of(columns, Columns::new(arrays), None)
    }

    /// The same with its arrays at a position of a segment that no other block has had.
    pub(crate) fn placed(columns: &[(DataType, bool)], segment: Arc<Segment>, position: usize) -> RowBlock {
        let arrays = columns.iter().enumerate().map(|(column, &(data_type, _))| {
            let layout = CellLayout::of(data_type);
            // SAFETY: the block holds the segment behind its arrays, which are never lent and so go with it.
            let (values, validity) = unsafe { segment.areas(position, column, layout) };
            ColumnArray::placed(layout, values, validity)
        });
        let arrays = Columns::new(arrays);
        RowBlock::of(columns, arrays, Some(segment))
    }

    fn of(
        columns: &[(DataType, bool)],
        arrays: Columns<ColumnArray>,
        segment: Option<Arc<Segment>>,
    ) -> RowBlock {
        RowBlock {
            rows: Rows::new(),
            columns: arrays,
            zones: columns
                .iter()
                .map(|(data_type, _)| Zone::covers(*data_type).then(Zone::default))
                .collect(),
            exists: Bitmap::default(),
            dirty: Bitmap::default(),
            column_updates: columns.iter().map(|_| AtomicU64::new(0)).collect(),
            insertion: AtomicU64::new(0),
            deletion: AtomicU64::new(0),
            derived: Mutex::new(None),
            fill: AtomicU32::new(0),
            swept_at: AtomicU64::new(0),
            segment,
        }
    }

    /// Whether arrays may be lent: those in segments are not.
    pub fn is_lendable(&self) -> bool {
        self.segment.is_none()
    }

    /// The header of a row.
    #[inline]
    pub fn header(&self, row: usize) -> Header {
        Header(self.rows[row].header.load(Ordering::Acquire))
    }

    /// The history of a row.
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
        &self.dirty
    }

    /// The newest commit that has changed, or is changing, anything in the block. A load per column.
    pub fn last_change(&self) -> Timestamp {
        let updates = self.column_updates.iter().map(|update| Timestamp(update.load(Ordering::Acquire)));
        updates.fold(self.rows_change(), Timestamp::max)
    }

    /// The newest commit that has changed, or is changing, cells of the column.
    pub fn column_change(&self, column: usize) -> Timestamp {
        let update = self.column_updates[column].load(Ordering::Acquire);
        Timestamp(update.max(self.insertion.load(Ordering::Acquire)))
    }

    /// The newest commit that has changed, or is changing, which rows exist.
    pub fn rows_change(&self) -> Timestamp {
        let deletion = self.deletion.load(Ordering::Acquire);
        Timestamp(deletion.max(self.insertion.load(Ordering::Acquire)))
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

    /// Takes ownership of a row unless somebody has it.
    pub fn try_lock(&self, row: usize) -> RowLock {
        let header = &self.rows[row].header;
        let seen = Header(header.load(Ordering::Relaxed));
        if seen.is_locked() {
            return RowLock::Busy;
        }
        match header.compare_exchange(seen.0, seen.locked().0, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => RowLock::Acquired(seen),
            Err(_) => RowLock::Busy,
        }
    }

    /// Gives up ownership of a row that was not changed.
    pub fn unlock(&self, row: usize) {
        let header = &self.rows[row].header;
        let seen = Header(header.load(Ordering::Relaxed));
        debug_assert!(seen.is_locked() && !seen.is_installing());
        header.store(seen.unlocked().0, Ordering::Release);
    }

    /// Whether the row exists for this reader.
    pub fn exists_at(&self, row: usize, at: ReadAt, pin: &Guard) -> bool {
        let (ReadAt::Snapshot(at) | ReadAt::InPlace(at)) = at else { return self.header(row).exists() };
        let header = self.header(row);
        if header.timestamp() <= at {
            return header.exists();
        }
        self.rows[row]
            .chain
            .iter(pin)
            .find(|version| version.begin <= at)
            .is_some_and(|version| version.exists)
    }

    /// Reads one cell; `None` if the row does not exist for this reader. Waits for nobody, except that
    /// `ReadAt::Newest` spins while the row's cells are being written.
    #[inline]
    pub fn read<R>(
        &self,
        row: usize,
        column: usize,
        at: ReadAt,
        pin: &Guard,
        use_cell: impl FnOnce(Cell<'_>) -> R,
    ) -> Option<R> {
        self.read_or(row, column, at, pin, use_cell).ok()
    }

    /// As [`read`](Self::read), giving the function back if the row does not exist.
    #[inline]
    pub fn read_or<R, F: FnOnce(Cell<'_>) -> R>(
        &self,
        row: usize,
        column: usize,
        at: ReadAt,
        pin: &Guard,
        use_cell: F,
    ) -> Result<R, F> {
        let limit = match at {
            ReadAt::Snapshot(at) | ReadAt::InPlace(at) => at,
            ReadAt::Newest => Timestamp::MAX,
        };
        loop {
            let header = self.header(row);
            if header.timestamp() > limit {
                match self.read_version(row, column, at, pin) {
                    Older::Absent => return Err(use_cell),
                    Older::Cell(cell) => return Ok(use_cell(cell.borrow())),
                    Older::InPlace => {}
                }
            } else if header.is_installing() {
                std::hint::spin_loop();
                continue;
            } else if !header.exists() {
                return Err(use_cell);
            }
            let (array, raw) = self.load(row, column, pin);
            fence(Ordering::Acquire);
            if Header(self.rows[row].header.load(Ordering::Relaxed)).confirms(header) {
                // SAFETY: the unchanged header confirms the load (see `header`).
                return Ok(use_cell(unsafe { array.resolve(&raw) }));
            }
        }
    }

    /// Reads the cell in place whether its row exists or not: for a deleted row, what it was in the end. Spins while
    /// the row's cells are being written.
    pub fn read_in_place<R>(
        &self,
        row: usize,
        column: usize,
        pin: &Guard,
        use_cell: impl FnOnce(Cell<'_>) -> R,
    ) -> R {
        loop {
            let header = self.header(row);
            let (array, raw) = self.load(row, column, pin);
            fence(Ordering::Acquire);
            let now = Header(self.rows[row].header.load(Ordering::Relaxed));
            if !header.is_installing() && now.confirms(header) {
                // SAFETY: the unchanged header confirms the load (see `header`).
                return use_cell(unsafe { array.resolve(&raw) });
            }
            std::hint::spin_loop();
        }
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

    /// As [`prefetch`](Self::prefetch), of the bytes of long strings in these columns; loads their views.
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
    fn load<'pin>(&self, row: usize, column: usize, _pin: &'pin Guard) -> (&'pin ColumnArray, RawCell) {
        // SAFETY: inside a pin; retired arrays are dropped an epoch later (`install`).
        let array = unsafe { self.columns.current(column) };
        (array, array.load(row))
    }

    /// Looks for a cell as of a timestamp that is before the row's newest change.
    #[inline(never)]
    fn read_version<'pin>(&self, row: usize, column: usize, at: ReadAt, pin: &'pin Guard) -> Older<'pin> {
        let (limit, is_in_place) = match at {
            ReadAt::Snapshot(at) => (at, false),
            ReadAt::InPlace(at) => (at, true),
            ReadAt::Newest => unreachable!("nothing is newer than the newest state"),
        };
        let mut found: Option<&'pin OwnedCell> = None;
        for version in self.rows[row].chain.iter(pin) {
            if let Some(cell) = version.cell(column) {
                found = Some(cell);
            }
            if version.begin <= limit {
                return match found {
                    _ if !version.exists => Older::Absent,
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
        let mut changed = ColumnSet::EMPTY;
        let mut existed = false;
        for version in self.rows[row].chain.iter(pin) {
            changed = changed.union(version.columns);
            if version.begin <= since {
                existed = version.exists;
                break;
            }
        }
        match (existed, header.exists()) {
            (true, true) => RowChange::Updated(changed),
            (false, false) => RowChange::Nothing,
            _ => RowChange::CameOrWent,
        }
    }

    /// Installs an update for commit `commit` and gives up the row. The caller owns the row, which exists.
    ///
    /// # Safety
    /// Cells of text columns are UTF-8.
    pub(crate) unsafe fn install_update<'a>(
        &self,
        row: usize,
        commit: Timestamp,
        changes: impl Iterator<Item = (usize, Cell<'a>)> + Clone,
        in_use: &[Timestamp],
        pin: &Guard,
    ) {
        let old = self.owned_header(row, commit);
        let before = changes.clone().map(|(column, _)| (column as u32, self.owned_cell(row, column, pin)));
        self.push_version(row, old, before, commit, in_use, pin);
        self.install(row, old, commit, true, changes, pin);
    }

    /// Installs a new row for commit `commit` in a slot the caller owns, and gives up the slot.
    ///
    /// # Safety
    /// Cells of text columns are UTF-8.
    pub(crate) unsafe fn install_insert<'a>(
        &self,
        row: usize,
        commit: Timestamp,
        cells: impl Iterator<Item = (usize, Cell<'a>)> + Clone,
        pin: &Guard,
    ) {
        debug_assert!(self.rows[row].chain.is_empty());
        self.install(row, self.owned_header(row, commit), commit, true, cells, pin);
    }

    /// Installs a deletion for commit `commit` and gives up the row. The cells stay as they are until the slot is
    /// handed out again. The caller owns the row, which exists.
    pub(crate) fn install_delete(&self, row: usize, commit: Timestamp, in_use: &[Timestamp], pin: &Guard) {
        let old = self.owned_header(row, commit);
        self.push_version(row, old, std::iter::empty(), commit, in_use, pin);
        self.install(row, old, commit, false, std::iter::empty(), pin);
    }

    fn owned_header(&self, row: usize, commit: Timestamp) -> Header {
        let header = Header(self.rows[row].header.load(Ordering::Relaxed));
        assert!(
            header.is_locked() && header.timestamp() < commit,
            "a commit installs into rows that it owns"
        );
        header
    }

    fn push_version(
        &self,
        row: usize,
        old: Header,
        before: impl Iterator<Item = (u32, OwnedCell)>,
        commit: Timestamp,
        in_use: &[Timestamp],
        pin: &Guard,
    ) {
        let chain = &self.rows[row].chain;
        chain.push(old.timestamp(), old.exists(), before);
        chain.prune(commit, in_use, pin);
    }

    #[inline]
    fn install<'a>(
        &self,
        row: usize,
        old: Header,
        commit: Timestamp,
        exists: bool,
        cells: impl Iterator<Item = (usize, Cell<'a>)> + Clone,
        pin: &Guard,
    ) {
        match &self.segment {
            None => self.install_cells(row, old, commit, exists, cells, pin),
            Some(segment) => self.install_in(segment, row, old, commit, exists, cells, pin),
        }
    }

    /// The same with the locks of the columns that are written. Apart, so that others do not pay.
    #[cold]
    #[expect(clippy::too_many_arguments, reason = "those of `install`, and where")]
    fn install_in<'a>(
        &self,
        segment: &Segment,
        row: usize,
        old: Header,
        commit: Timestamp,
        exists: bool,
        cells: impl Iterator<Item = (usize, Cell<'a>)> + Clone,
        pin: &Guard,
    ) {
        let mut columns = ColumnSet::EMPTY;
        cells.clone().for_each(|(column, _)| columns.insert(column));
        let _shared = segment.lock_shared(columns);
        self.install_cells(row, old, commit, exists, cells, pin);
    }

    #[inline]
    fn install_cells<'a>(
        &self,
        row: usize,
        old: Header,
        commit: Timestamp,
        exists: bool,
        cells: impl Iterator<Item = (usize, Cell<'a>)> + Clone,
        pin: &Guard,
    ) {
        let writing = self.columns.begin_write();
        self.dirty.set(row);
        match (old.exists(), exists) {
            (false, _) => raise(&self.insertion, commit),
            (true, false) => raise(&self.deletion, commit),
            (true, true) => {
                cells.clone().for_each(|(column, _)| raise(&self.column_updates[column], commit));
            }
        }
        let header = &self.rows[row].header;
        let new = Header::committed(commit, exists);
        header.store(new.installing().0, Ordering::Release);
        fence(Ordering::Release);
        for (column, cell) in cells {
            if let Some(zone) = &self.zones[column] {
                zone.widen(cell);
            }
            let array = writing.column(column, ColumnArray::duplicate, |retired| {
                // SAFETY: the array is no longer reachable; those pinned now may still read it.
                unsafe { pin.defer_unchecked(move || drop(retired)) }
            });
            array.store(row, cell);
        }
        match exists {
            true if !old.exists() => self.exists.set(row),
            false if old.exists() => self.exists.clear(row),
            _ => {}
        }
        drop(writing);
        header.store(new.0, Ordering::Release);
    }

    /// A cell of a row that the caller owns, as it is in place.
    pub fn owned_cell(&self, row: usize, column: usize, pin: &Guard) -> OwnedCell {
        let (array, raw) = self.load(row, column, pin);
        // SAFETY: the caller owns the row, so no write to the cell is under way.
        unsafe { array.resolve(&raw) }.to_owned()
    }

    /// Whether a sweep may find something: history, and readers that moved on since the last sweep.
    pub(crate) fn wants_sweep(&self, horizon: Timestamp) -> bool {
        self.swept_at.swap(horizon.0, Ordering::Relaxed) != horizon.0
    }

    /// Makes rows clean whose newest state every reader sees: drops their versions. `before_clean(row, exists)` is
    /// called for each one, owned, while its versions are still there.
    pub(crate) fn sweep(&self, horizon: Timestamp, pin: &Guard, mut before_clean: impl FnMut(usize, bool)) {
        for row in self.dirty.rows() {
            let seen = self.header(row);
            if seen.is_locked() || seen.timestamp() > horizon {
                continue;
            }
            let RowLock::Acquired(header) = self.try_lock(row) else { continue };
            // Clean already: another sweep was here after we looked, and has freed the slot if the row is deleted.
            let still_dirty = self.dirty.word(row / 64) >> (row % 64) & 1 == 1;
            if still_dirty && header.timestamp() <= horizon {
                before_clean(row, header.exists());
                self.rows[row].chain.clear(pin);
                self.dirty.clear(row);
            }
            self.unlock(row);
        }
    }

    /// Rewrites string heaps that are mostly garbage, by lending the column to ourselves and moving away from it.
    /// Not in a segment: there arrays stay where they are.
    pub(crate) fn rebuild_heaps(&self, pin: &Guard) {
        if !self.is_lendable() {
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
            writing.column(column, ColumnArray::duplicate, |retired| {
                // SAFETY: the array is no longer reachable; those pinned now may still read it.
                unsafe { pin.defer_unchecked(move || drop(retired)) }
            });
            drop((writing, loan));
        }
    }

    /// Bytes of versions in this block; walks all of them.
    pub fn version_bytes(&self, pin: &Guard) -> usize {
        let row_bytes = |row: usize| -> usize {
            self.rows[row].chain.iter(pin).map(|version| version.memory_bytes()).sum()
        };
        self.dirty.rows().map(row_bytes).sum()
    }
}

/// Asks for a cache line.
#[inline]
fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint; it loads nothing that the program sees.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Raises a timestamp of change before the change itself; see invariant 2.
fn raise(change: &AtomicU64, commit: Timestamp) {
    // Commits on the same block often come in order, and then nobody has been here since.
    if change.load(Ordering::Relaxed) < commit.0 {
        change.fetch_max(commit.0, Ordering::AcqRel);
    }
}

enum Older<'pin> {
    /// The row did not exist.
    Absent,
    /// A version holds the cell.
    Cell(&'pin OwnedCell),
    /// The cell has not changed since; the place holds it, if the header stays as it was.
    InPlace,
}
