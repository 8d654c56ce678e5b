//! Segments: the arrays of many row blocks in a few regions, so that a technique of the operating system can take
//! snapshots of whole columns (docs/design/techniques.md).
//!
//! ```text
//! column a   values    ┌ block 0 ┬ block 1 ┬ block 2 ┬ ─ ─ ─ ┐   one region, for so many blocks (`Placement`)
//!            validity  ┌ block 0 ┬ block 1 ┬ ─ ─ ─ ┐             one region
//! column b   values    ┌ block 0 ┬ ─ ─                           ...
//! ```
//!
//! Array k of a column lies at k times its size. Memory appears when it is touched. Tables have segments only in databases
//! whose configuration has such a technique; others allocate each array by itself.
//!
//! Each column of such a table has a lock (AnKer §3.2.2): shared while a row is installed, for the columns that are
//! written, exclusive while a snapshot is taken. A waiting exclusive lock keeps newcomers out. Shared locks are taken in
//! the order of columns, and exclusive ones one at a time, so there is no deadlock. Columns from 63 on share a lock, as
//! they share a bit of a [`ColumnSet`].
//!
//! Arrays in segments are never lent: no writer ever copies one, and heaps of strings are not rebuilt, so
//! overwritten strings keep their memory as long as the table lives.

use crate::append_list::AppendList;
use crate::area::Area;
use crate::cell::CellLayout;
use crate::derived::Derived;
use ankerdb_base::{BlockNumber, ColumnPosition, ColumnSet, Error, ROWS_PER_BLOCK, Result};
use ankerdb_memory::account;
use ankerdb_memory::charge::Charge;
use ankerdb_region::{PageSize, Region, Technique};
use crossbeam_utils::CachePadded;
use parking_lot::lock_api::RawRwLock as _;
use parking_lot::{Mutex, RawRwLock};
use std::sync::Arc;

/// Eight million rows, 64 MiB of 64-bit values.
const BLOCKS_PER_SEGMENT: usize = 1024;

/// How columns are put into regions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placement {
    /// The technique that takes snapshots of them.
    pub technique: Technique,
    /// The pages under them.
    pub pages: PageSize,
    /// How many blocks room is reserved for at a time; memory appears when it is touched. At least one.
    pub blocks_per_segment: usize,
}

impl Placement {
    /// In small pages, as many blocks to a segment as make few segments of large tables.
    pub fn of(technique: Technique) -> Placement {
        Placement { technique, pages: PageSize::Small, blocks_per_segment: BLOCKS_PER_SEGMENT }
    }
}

/// The segments of one table.
pub struct Segments {
    placement: Placement,
    /// Layout of each column, and whether it may hold NULL.
    columns: Box<[(CellLayout, bool)]>,
    locks: Arc<ColumnLocks>,
    segments: AppendList<Arc<Segment>>,
    /// The blocks that were placed, in the account: their memory appears when it is touched, which is soon.
    placed: Mutex<Charge>,
    derived: Box<[Mutex<Option<Derived>>]>,
}

/// Regions for a fixed number of blocks.
pub(crate) struct Segment {
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
        placement: Placement,
        columns: impl Iterator<Item = (CellLayout, bool)>,
    ) -> Result<Segments> {
        assert!(placement.blocks_per_segment > 0, "a segment has room");
        placement.technique.check()?;
        let columns: Box<[_]> = columns.collect();
        let segments = Segments {
            placement,
            // A copy of the process is made while all commits are held: no column is locked by itself.
            locks: Arc::new(ColumnLocks::new(match placement.technique {
                Technique::Fork => 0,
                _ => columns.len(),
            })),
            segments: AppendList::default(),
            placed: Mutex::default(),
            derived: columns.iter().map(|_| Mutex::default()).collect(),
            columns,
        };
        segments.segments.push(Arc::new(segments.reserve()?));
        Ok(segments)
    }

    fn reserve(&self) -> Result<Segment> {
        let Placement { technique, pages, blocks_per_segment } = self.placement;
        let region = |layout: CellLayout| {
            Region::new(technique, pages, blocks_per_segment * layout.bytes(ROWS_PER_BLOCK))
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
    /// there is no memory, or under a ceiling that the block would pass.
    pub(crate) fn place(&self, block: BlockNumber) -> Result<(Arc<Segment>, usize)> {
        let (number, position) = self.position(block);
        if number == self.segments.len() {
            self.segments.push(Arc::new(self.reserve()?));
        }
        let bytes = self.block_bytes();
        if !account::may_map(bytes) {
            return Err(Error::out_of_memory(bytes));
        }
        let mut placed = self.placed.lock();
        let all = placed.bytes() + bytes;
        placed.set(all);
        let segment = self.segments.get(number).expect("blocks come one after the other");
        Ok((segment.clone(), position))
    }

    /// Bytes of a block's arrays.
    fn block_bytes(&self) -> usize {
        let of_bits = |nullable: bool| if nullable { CellLayout::Bit.bytes(ROWS_PER_BLOCK) } else { 0 };
        let columns = self.columns.iter();
        columns.map(|&(layout, nullable)| layout.bytes(ROWS_PER_BLOCK) + of_bits(nullable)).sum()
    }

    /// How these columns are put into regions.
    pub fn placement(&self) -> Placement {
        self.placement
    }

    /// The number of the segment that a block of the table lies in, and its position there.
    pub fn position(&self, block: BlockNumber) -> (usize, usize) {
        (block.0 / self.placement.blocks_per_segment, block.0 % self.placement.blocks_per_segment)
    }

    /// The regions of a column for the first `blocks` blocks of the table, each with the number of its blocks among
    /// them.
    pub fn of_column(
        &self,
        column: ColumnPosition,
        blocks: usize,
    ) -> impl Iterator<Item = (&ColumnRegions, usize)> {
        let room = self.placement.blocks_per_segment;
        let used = self.segments.iter().take(blocks.div_ceil(room)).enumerate();
        used.map(move |(number, segment)| (&segment.columns[column.0], (blocks - number * room).min(room)))
    }

    /// Keeps commits from writing to a column. Waits for the rows that are being installed.
    pub fn lock_exclusive(&self, column: usize) -> impl Drop {
        self.locks.exclusive(column)
    }

    /// A place where readers keep what they have derived from a column; it goes with the table.
    pub fn derived(&self, column: usize) -> &Mutex<Option<Derived>> {
        &self.derived[column]
    }

    /// Leaves columns out of processes forked from now on, or takes them back in.
    pub(crate) fn exclude_from_fork(&self, exclude: impl Fn(usize) -> bool) -> Result<()> {
        for segment in self.segments.iter() {
            for (column, regions) in segment.columns.iter().enumerate() {
                for region in std::iter::once(&regions.values).chain(&regions.validity) {
                    region.exclude_from_fork(exclude(column))?;
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
        column: ColumnPosition,
        layout: CellLayout,
    ) -> (Area, Option<Area>) {
        let area = |region: &Region, layout: CellLayout| {
            let bytes = layout.bytes(ROWS_PER_BLOCK);
            assert!((position + 1) * bytes <= region.bytes(), "a block lies in its region");
            // SAFETY: in bounds, zeroed and this block's alone; alive by the caller's promise.
            unsafe { Area::borrowed(region.pointer().add(position * bytes), bytes) }
        };
        let regions = &self.columns[column.0];
        let validity = regions.validity.as_deref().map(|region| area(region, CellLayout::Bit));
        (area(&regions.values, layout), validity)
    }

    /// Keeps snapshots of these columns from being taken.
    pub(crate) fn lock_shared(&self, columns: ColumnSet) -> impl Drop {
        self.locks.shared(columns)
    }
}

/// A lock for each column, see the module. None where there are no snapshots of single columns.
struct ColumnLocks(Box<[CachePadded<RawRwLock>]>);

impl ColumnLocks {
    fn new(columns: usize) -> ColumnLocks {
        ColumnLocks((0..columns.min(u64::BITS as usize)).map(|_| CachePadded::new(RawRwLock::INIT)).collect())
    }

    fn place(&self, column: usize) -> Option<&RawRwLock> {
        let last = self.0.len().checked_sub(1)?;
        Some(&self.0[column.min(last)])
    }

    fn shared(&self, columns: ColumnSet) -> SharedLocks<'_> {
        let mut held = SharedLocks { locks: self, columns: ColumnSet::EMPTY };
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

    fn exclusive(&self, column: usize) -> ExclusiveLock<'_> {
        let lock = self.place(column);
        lock.inspect(|lock| lock.lock_exclusive());
        ExclusiveLock(lock)
    }
}

struct SharedLocks<'a> {
    locks: &'a ColumnLocks,
    columns: ColumnSet,
}

impl Drop for SharedLocks<'_> {
    fn drop(&mut self) {
        for column in self.locks.within(self.columns) {
            // SAFETY: locked in `shared`, unlocked here only.
            unsafe { self.locks.0[column].unlock_shared() };
        }
    }
}

struct ExclusiveLock<'a>(Option<&'a RawRwLock>);

impl Drop for ExclusiveLock<'_> {
    fn drop(&mut self) {
        if let Some(lock) = self.0 {
            // SAFETY: locked in `exclusive`, unlocked here only.
            unsafe { lock.unlock_exclusive() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cell, ColumnDefinition, Storage, TableDefinition};
    use ankerdb_base::{RowId, Timestamp};
    use ankerdb_value::DataType;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    fn table() -> Storage {
        let definition = TableDefinition::new("t")
            .column(ColumnDefinition::new("a", DataType::BigInt))
            .column(ColumnDefinition::new("b", DataType::Text).nullable())
            .column(ColumnDefinition::new("c", DataType::Boolean).nullable());
        let placement = Placement { blocks_per_segment: 2, ..Placement::of(Technique::Physical) };
        Storage::new(&definition, Some(placement)).expect("copying needs nothing")
    }

    fn insert(table: &Storage, commit: u64) -> RowId {
        let row = table.allocate_row(0).expect("there is memory");
        let (id, pin, mut views) = (row.id(), crossbeam_epoch::pin(), Vec::new());
        let cells = [Cell::Word(commit), Cell::Bytes(b"more than twelve bytes"), Cell::Null];
        let cells = cells.into_iter().enumerate();
        row.write_new(cells.clone(), &mut views, &pin).expect("there is memory");
        // SAFETY: written just now; the text is UTF-8.
        unsafe { row.install_insert(Timestamp(commit), cells, &mut views.into_iter(), &pin) };
        id
    }

    fn update(table: &Storage, row: RowId, commit: u64, column: usize, cell: Cell<'_>) {
        let (row, pin) = (table.try_own(row).expect("it is free"), crossbeam_epoch::pin());
        let changes = std::iter::once((column, cell));
        row.save_update(changes.clone(), &[], &mut Vec::new(), &pin).expect("there is memory");
        // SAFETY: saved just now; no text is written.
        unsafe { row.install_update(Timestamp(commit), changes, &mut std::iter::empty(), &pin) };
    }

    fn delete(table: &Storage, row: RowId, commit: u64) {
        let row = table.try_own(row).expect("it is free");
        row.save_delete(&[], &crossbeam_epoch::pin()).expect("there is memory");
        // SAFETY: saved just now.
        unsafe { row.install_delete(Timestamp(commit)) };
    }

    #[test]
    fn arrays_lie_one_behind_the_other_in_segments() {
        let table = table();
        let rows: Vec<RowId> =
            (0..2 * ROWS_PER_BLOCK as u64 + 1).map(|row| insert(&table, row + 1)).collect();
        let segments = table.segments().expect("it is in regions");
        assert_eq!(table.block_count(), 3);
        let counts: Vec<usize> = segments.of_column(ColumnPosition(0), 3).map(|(_, blocks)| blocks).collect();
        assert_eq!(counts, [2, 1]);
        let pin = crossbeam_epoch::pin();
        for (block, (segment, position)) in [(0, 0), (0, 1), (1, 0)].into_iter().enumerate() {
            let block = BlockNumber(block);
            assert_eq!(segments.position(block), (segment, position));
            for column in 0..3 {
                // SAFETY: inside a pin.
                let array = unsafe { table.block(block).columns().current(column) };
                let (regions, _) =
                    segments.of_column(ColumnPosition(column), 3).nth(segment).expect("two segments");
                let at =
                    |region: &Region, bytes: usize| region.pointer().as_ptr().wrapping_add(position * bytes);
                let bytes = array.layout().bytes(ROWS_PER_BLOCK);
                assert_eq!(array.values().pointer(), at(&regions.values, bytes));
                let validity = array.validity().map(Area::pointer);
                assert_eq!(validity, regions.validity.as_deref().map(|bits| at(bits, ROWS_PER_BLOCK / 8)));
            }
            assert!(!table.block(block).is_lendable());
        }
        let last = rows.last().expect("there are rows");
        let block = table.block(last.block());
        assert_eq!(
            block.owned_cell(0, ColumnPosition(0), &pin).borrow(),
            Cell::Word(2 * ROWS_PER_BLOCK as u64 + 1)
        );
        assert_eq!(
            block.owned_cell(0, ColumnPosition(1), &pin).borrow(),
            Cell::Bytes(b"more than twelve bytes")
        );
    }

    /// A writer of a column waits for its snapshot; a writer of others, or a deletion, does not.
    #[test]
    fn a_snapshot_of_a_column_keeps_its_writers_out() {
        let table = table();
        let rows: Vec<RowId> = (1..5).map(|commit| insert(&table, commit)).collect();
        let locked = table.segments().expect("it is in regions").lock_exclusive(0);
        let done = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let (table, done) = (&table, &done);
            let waits = |change: Box<dyn Fn() + Send>| {
                scope.spawn(move || {
                    change();
                    done.fetch_add(1, Ordering::Relaxed);
                })
            };
            let (first, row) = (rows[0], rows[1]);
            waits(Box::new(move || update(table, first, 10, 0, Cell::Word(7))));
            waits(Box::new(move || assert_eq!(insert(table, 11).block(), BlockNumber(0))));
            update(table, row, 12, 2, Cell::Word(1));
            delete(table, rows[2], 13);
            std::thread::sleep(Duration::from_millis(50));
            assert_eq!(done.load(Ordering::Relaxed), 0, "two write to the column");
            drop(locked);
        });
        assert_eq!(done.into_inner(), 2);
    }

    #[test]
    fn locks_of_many_columns_are_taken_in_order_by_everybody() {
        let locks = ColumnLocks::new(100);
        let sets = [ColumnSet::of(&[3, 70, 1]), ColumnSet::of(&[99, 2, 3]), ColumnSet::ALL];
        let counter = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for (thread, set) in sets.into_iter().enumerate() {
                let (locks, counter) = (&locks, &counter);
                scope.spawn(move || {
                    for turn in 0..2_000 {
                        drop(locks.shared(set));
                        let alone = locks.exclusive([3, 70, 99][(turn + thread) % 3]);
                        counter.fetch_add(1, Ordering::Relaxed);
                        drop(alone);
                    }
                });
            }
        });
        assert_eq!(counter.into_inner(), 6_000);
        // Columns from 63 on share a lock: both sets name it.
        let shared = locks.shared(ColumnSet::of(&[80]));
        let place = locks.place(95).expect("there are locks");
        assert!(!place.try_lock_exclusive());
        drop(shared);
        assert!(place.try_lock_exclusive());
    }
}
