//! Segments: the arrays of many row blocks in a few regions, so that a technique of the operating system can take
//! snapshots of whole columns (docs/design/techniques.md).
//!
//! ```text
//! column a   values    ┌ block 0 ┬ block 1 ┬ block 2 ┬ ─ ─ ─ ┐   one region, reserved for BLOCKS_PER_SEGMENT blocks
//!            validity  ┌ block 0 ┬ block 1 ┬ ─ ─ ─ ┐             one region
//! column b   values    ┌ block 0 ┬ ─ ─                           ...
//! ```
//!
//! Array k of a column lies at k times its size. Memory appears when it is touched. Tables have segments only in databases
//! whose configuration has such a technique; others allocate each array by itself.
//!
//! Each column of such a table has a lock (AnKer §3.2.2): shared while a row is installed, for the columns that are
//! written, exclusive while a snapshot is taken. Who wants exclusive access keeps newcomers out. Shared locks are taken in
//! the order of columns, and exclusive ones one at a time, so nobody waits in a circle. Columns from 63 on share a
//! lock, as they share a bit of a [`ColumnSet`].
//!
//! Arrays in segments are never lent: no writer ever moves away from one, and heaps of strings are not rebuilt, so
//! that strings that were overwritten keep their memory as long as the table lives.

use crate::append_list::AppendList;
use crate::area::Area;
use crate::cell::CellLayout;
use crate::table::Derived;
use ankerdb_base::{ColumnSet, ROWS_PER_BLOCK, Result};
use ankerdb_region::{PageSize, Region, Technique};
use crossbeam_utils::CachePadded;
use parking_lot::lock_api::RawRwLock as _;
use parking_lot::{Mutex, RawRwLock};
use std::sync::Arc;

/// Blocks of a segment: eight million rows, 64 MiB of 64-bit values.
pub const BLOCKS_PER_SEGMENT: usize = 1024;

/// The segments of one table.
pub struct Segments {
    technique: Technique,
    pages: PageSize,
    /// Layout of each column, and whether it may hold NULL.
    columns: Box<[(CellLayout, bool)]>,
    locks: Arc<ColumnLocks>,
    segments: AppendList<Arc<Segment>>,
    derived: Box<[Mutex<Option<Derived>>]>,
}

/// Regions for a fixed number of blocks.
pub struct Segment {
    columns: Box<[ColumnRegions]>,
    locks: Arc<ColumnLocks>,
}

/// Where a column lies.
pub struct ColumnRegions {
    /// The cells.
    pub values: Arc<Region>,
    /// The validity bits, if the column may hold NULL.
    pub validity: Option<Arc<Region>>,
}

impl Segments {
    /// One segment to begin with. 0A000 if the machine cannot run the technique, 53200 if there is no memory.
    pub(crate) fn new(
        technique: Technique,
        pages: PageSize,
        columns: impl Iterator<Item = (CellLayout, bool)>,
    ) -> Result<Segments> {
        technique.check()?;
        let columns: Box<[_]> = columns.collect();
        let segments = Segments {
            technique,
            pages,
            locks: Arc::new(ColumnLocks::new(columns.len())),
            segments: AppendList::default(),
            derived: columns.iter().map(|_| Mutex::default()).collect(),
            columns,
        };
        segments.segments.push(Arc::new(segments.reserve()?));
        Ok(segments)
    }

    fn reserve(&self) -> Result<Segment> {
        let region = |layout: CellLayout| {
            Region::new(self.technique, self.pages, BLOCKS_PER_SEGMENT * layout.bytes(ROWS_PER_BLOCK))
        };
        let column = |&(layout, nullable): &(CellLayout, bool)| {
            let validity = nullable.then(|| region(CellLayout::Bit)).transpose()?;
            Ok(ColumnRegions { values: region(layout)?, validity })
        };
        Ok(Segment {
            columns: self.columns.iter().map(column).collect::<Result<_>>()?,
            locks: self.locks.clone(),
        })
    }

    /// The segment of a new block and the block's position in it. One caller at a time. 53200 if a segment is needed and
    /// there is no memory.
    pub(crate) fn place(&self, block: usize) -> Result<(Arc<Segment>, usize)> {
        let number = block / BLOCKS_PER_SEGMENT;
        if number == self.segments.len() {
            self.segments.push(Arc::new(self.reserve()?));
        }
        let segment = self.segments.get(number).expect("blocks come one after the other");
        Ok((segment.clone(), block % BLOCKS_PER_SEGMENT))
    }

    /// The technique that takes snapshots of these columns.
    pub fn technique(&self) -> Technique {
        self.technique
    }

    /// The regions of a column for the first `blocks` blocks of the table, each with the number of its blocks among
    /// them.
    pub fn of_column(&self, column: usize, blocks: usize) -> impl Iterator<Item = (&ColumnRegions, usize)> {
        let used = self.segments.iter().take(blocks.div_ceil(BLOCKS_PER_SEGMENT)).enumerate();
        used.map(move |(number, segment)| {
            (&segment.columns[column], (blocks - number * BLOCKS_PER_SEGMENT).min(BLOCKS_PER_SEGMENT))
        })
    }

    /// Keeps commits from writing to a column. Waits for the rows that are being installed.
    pub fn lock_exclusive(&self, column: usize) -> impl Drop {
        self.locks.exclusive(column)
    }

    /// A place where readers keep what they have derived from a column; it goes with the table.
    pub fn derived(&self, column: usize) -> &Mutex<Option<Derived>> {
        &self.derived[column]
    }

    /// Whether the columns' memory shows in processes forked from now on.
    pub(crate) fn set_forked(&self, is_forked: impl Fn(usize) -> bool) -> Result<()> {
        for segment in self.segments.iter() {
            for (column, regions) in segment.columns.iter().enumerate() {
                for region in std::iter::once(&regions.values).chain(&regions.validity) {
                    region.set_forked(is_forked(column))?;
                }
            }
        }
        Ok(())
    }
}

impl Segment {
    /// Memory of a block's array for a column: values, and validity bits if the column has them. The array keeps the
    /// segment alive no longer than the block does, which holds it.
    ///
    /// # Safety
    /// The areas are gone before the segment. Each is asked for once.
    pub(crate) unsafe fn areas(
        &self,
        position: usize,
        column: usize,
        layout: CellLayout,
    ) -> (Area, Option<Area>) {
        assert!(position < BLOCKS_PER_SEGMENT, "a block lies in its segment");
        let area = |region: &Region, layout: CellLayout| {
            let bytes = layout.bytes(ROWS_PER_BLOCK);
            assert!((position + 1) * bytes <= region.bytes(), "a block lies in its region");
            // SAFETY: in bounds, zeroed and this block's alone; alive by the caller's promise.
            unsafe { Area::borrowed(region.pointer().add(position * bytes), bytes) }
        };
        let regions = &self.columns[column];
        let validity = regions.validity.as_deref().map(|region| area(region, CellLayout::Bit));
        (area(&regions.values, layout), validity)
    }

    /// Keeps snapshots of these columns from being taken.
    pub(crate) fn lock_shared(&self, columns: ColumnSet) -> impl Drop {
        self.locks.shared(columns)
    }
}

/// A lock for each column, see the module.
struct ColumnLocks(Box<[CachePadded<RawRwLock>]>);

impl ColumnLocks {
    fn new(columns: usize) -> ColumnLocks {
        ColumnLocks((0..columns.min(u64::BITS as usize)).map(|_| CachePadded::new(RawRwLock::INIT)).collect())
    }

    fn place(&self, column: usize) -> &RawRwLock {
        &self.0[column.min(self.0.len() - 1)]
    }

    fn shared(&self, columns: ColumnSet) -> Shared<'_> {
        let mut held = Shared { locks: self, columns: ColumnSet::EMPTY };
        for column in self.within(columns) {
            self.0[column].lock_shared();
            held.columns.insert(column);
        }
        held
    }

    /// Positions of locks, in order; a set of all columns has more.
    fn within(&self, columns: ColumnSet) -> impl Iterator<Item = usize> {
        columns.iter().take_while(|column| *column < self.0.len())
    }

    fn exclusive(&self, column: usize) -> Exclusive<'_> {
        let lock = self.place(column);
        lock.lock_exclusive();
        Exclusive(lock)
    }
}

struct Shared<'a> {
    locks: &'a ColumnLocks,
    columns: ColumnSet,
}

impl Drop for Shared<'_> {
    fn drop(&mut self) {
        for column in self.locks.within(self.columns) {
            // SAFETY: locked in `shared`, unlocked here only.
            unsafe { self.locks.0[column].unlock_shared() };
        }
    }
}

struct Exclusive<'a>(&'a RawRwLock);

impl Drop for Exclusive<'_> {
    fn drop(&mut self) {
        // SAFETY: locked in `exclusive`, unlocked here only.
        unsafe { self.0.unlock_exclusive() };
    }
}
