//! Snapshots of whole columns that lie in regions (AnKer §3.2): taken by the region's technique, then corrected.
//!
//! ```text
//! 1 share    the newest one of the column, if the column has not changed between its timestamp and ours
//! 2 take     of each segment the part in use, under the column's exclusive lock; in place of an older snapshot that
//!            nobody reads any more, if there is one
//! 3 correct  fence; rows whose headers are newer than the timestamp get their old cells back from their versions, in
//!            the snapshot's own memory
//! 4 read     plain memory, without a look at headers or versions
//! ```
//!
//! Step 3 is the correction of [`materialize`](crate::materialize): data first, headers second. If a commit newer than
//! the timestamp got anything into the memory of step 2, its row's header was newer before, and is found to be newer;
//! and the commit had pushed a version with the cells that it overwrote. A row that is installed after step 2 is found
//! too: its cell is in the memory as its version has it, and left alone, because writing to a snapshot's memory may cost
//! a page. Under the exclusive lock no row is half installed, so every string's view in the memory is whole.
//!
//! Rows that did not exist are left as they are: which rows exist is found per block and snapshot. A block that came
//! after step 2 has no row for this timestamp.
//!
//! Sharing (step 1) compares the column's newest change, which commits raise before they write, with both timestamps: if
//! it is at or below the older of them, no commit between the two has touched the column.
//!
//! Not here: the locks that keep writers from the column meanwhile (`ankerdb_table`'s segments), and how
//! memory is snapshotted (`ankerdb_region`).

use crate::counters::SnapshotCounters;
use crate::image::{Bytes, ColumnCopy, ColumnImage};
use crate::materialize::{Walk, changed_rows};
use ankerdb_base::{BlockNumber, ColumnPosition, ROWS_PER_BLOCK, Result, Timestamp};
use ankerdb_region::{Region, RegionSnapshot};
use ankerdb_table::{Area, CellLayout, ColumnRegions, RowBlock, Segments, Storage, Table};
use parking_lot::Mutex;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Weak};
use std::time::Instant;

/// Unused snapshots that are kept per column, to be the destination of the next one.
const SPARE_MAX: usize = 1;

/// A column as of a timestamp. The memory stays as it is while this lives.
pub(crate) struct ColumnSnapshot {
    at: Timestamp,
    layout: CellLayout,
    /// Blocks of a segment.
    room: usize,
    /// By segment.
    parts: Vec<Part>,
    blocks: usize,
    /// By block, where cells are views: the buffers that they point into.
    heaps: Vec<Box<[Bytes]>>,
    /// The cache that takes the memory back.
    cache: Weak<ColumnCache>,
}

/// A column in one segment.
struct Part {
    values: RegionSnapshot,
    validity: Option<RegionSnapshot>,
}

/// What is cached with a column: its newest snapshot, and memory for the next one.
#[derive(Default)]
struct ColumnCache {
    /// Held while a snapshot of the column is made.
    making: Mutex<()>,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    newest: Option<Arc<ColumnSnapshot>>,
    spare: Vec<Vec<Part>>,
}

impl ColumnSnapshot {
    /// A column of a table that lies in regions, as of a timestamp that is announced. Waits for the rows of the column
    /// that are being installed, and for other snapshots of it that are being taken. 53200 if memory or mappings run
    /// out, 0A000 if the technique takes no snapshots in this process; the column and its other snapshots are not
    /// affected.
    pub(crate) fn of(
        table: &Table,
        segments: &Segments,
        column: usize,
        at: Timestamp,
        counters: &SnapshotCounters,
    ) -> Result<Arc<ColumnSnapshot>> {
        let cache = cache_of(segments, column);
        let _making = cache.making.lock();
        let newest = cache.kept.lock().newest.clone();
        // Read after the newest one was taken from the cache: commits up to its timestamp have raised what is read
        // now.
        let is_ours = |newest: &Arc<ColumnSnapshot>| {
            newest_change(table, column) <= at.min(newest.at) && newest.check().is_ok()
        };
        if let Some(newest) = newest.filter(is_ours) {
            counters.columns_shared.fetch_add(1, Ordering::Relaxed);
            return Ok(newest);
        }
        let begun = Instant::now();
        let blocks = table.block_count();
        let parts =
            take(segments, ColumnPosition(column), blocks, table.layout(column), cache.destination())?;
        counters.columns_snapshotted.fetch_add(1, Ordering::Relaxed);
        counters.snapshot_nanos.fetch_add(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
        let layout = table.layout(column);
        let to_cache = Arc::downgrade(&cache);
        let room = segments.placement().blocks_per_segment;
        let mut snapshot =
            ColumnSnapshot { at, layout, room, parts, blocks, heaps: Vec::new(), cache: to_cache };
        let begun = Instant::now();
        snapshot.correct(table, column);
        counters.correction_nanos.fetch_add(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
        let snapshot = Arc::new(snapshot);
        let former = cache.keep(&snapshot);
        // Outside of the lock, which it takes if it is the last one.
        drop(former);
        Ok(snapshot)
    }

    /// Step 3.
    fn correct(&mut self, table: &Table, column: usize) {
        fence(Ordering::Acquire);
        for number in (0..self.blocks).map(BlockNumber) {
            let block = Storage::of(table).block(number);
            let is_changed = block.column_change(column) > self.at;
            if !is_changed && self.layout != CellLayout::View {
                continue;
            }
            // A pin a block, so that what is retired meanwhile can be freed soon.
            let pin = crossbeam_epoch::pin();
            // SAFETY: inside a pin.
            let array = unsafe { block.columns().current(column) };
            let (values, validity) = self.areas(number);
            let mut copy = ColumnCopy::over(array, values, validity);
            if is_changed {
                let columns = [column];
                let mut walk = Walk::new(block, &columns, self.at, &pin);
                walk.visit(changed_rows(block, self.at, &pin), |row, existed, cells| {
                    if let (true, Some(cell)) = (existed, cells[0]) {
                        copy.put_back(row, cell);
                    }
                });
            }
            if self.layout == CellLayout::View {
                self.heaps.push(copy.into_heaps());
            }
        }
    }

    /// A block's part of the memory, to write to: no other code has it yet.
    fn areas(&self, number: BlockNumber) -> (Area, Option<Area>) {
        let area = |snapshot: &RegionSnapshot, layout| {
            let bytes = bytes_of(snapshot, number.0 % self.room, layout);
            // SAFETY: in bounds, owned by this snapshot, which is still being made; the areas do not leave `correct`.
            unsafe { Area::borrowed(bytes.0, bytes.1) }
        };
        let part = &self.parts[number.0 / self.room];
        let validity = part.validity.as_ref().map(|bits| area(bits, CellLayout::Bit));
        (area(&part.values, self.layout), validity)
    }

    /// 53200 if the memory has ceased to be the column's, because the technique ran out of memory or mappings; it is zeroes
    /// then, or was as it was read. To be asked after reading.
    pub(crate) fn check(&self) -> Result<()> {
        let regions = self.parts.iter().flat_map(|part| std::iter::once(&part.values).chain(&part.validity));
        regions.into_iter().try_for_each(RegionSnapshot::check)
    }

    /// The column in one block.
    pub(crate) fn image(self: &Arc<Self>, number: BlockNumber) -> ColumnImage {
        let bytes = |snapshot: &RegionSnapshot, layout| {
            let (pointer, length) = bytes_of(snapshot, number.0 % self.room, layout);
            Bytes { pointer: pointer.as_ptr(), length, owner: self.clone() }
        };
        let part = &self.parts[number.0 / self.room];
        ColumnImage {
            values: bytes(&part.values, self.layout),
            validity: part.validity.as_ref().map(|bits| bytes(bits, CellLayout::Bit)),
            heaps: self.heaps.get(number.0).map_or_else(Vec::new, |heaps| heaps.to_vec()),
            lent: false,
        }
    }
}

impl Drop for ColumnSnapshot {
    fn drop(&mut self) {
        if let Some(cache) = self.cache.upgrade() {
            let mut kept = cache.kept.lock();
            if kept.spare.len() < SPARE_MAX {
                kept.spare.push(std::mem::take(&mut self.parts));
            }
        }
    }
}

impl ColumnCache {
    /// Memory of an unused snapshot: the newest one, which differs least, if that is unused.
    fn destination(&self) -> Vec<Part> {
        let mut kept = self.kept.lock();
        if let Some(newest) = kept.newest.take() {
            match Arc::try_unwrap(newest) {
                Ok(mut unused) => return std::mem::take(&mut unused.detach().parts),
                Err(used) => kept.newest = Some(used),
            }
        }
        kept.spare.pop().unwrap_or_default()
    }

    /// Makes a snapshot the newest one unless there is a newer one; returns the former.
    fn keep(&self, snapshot: &Arc<ColumnSnapshot>) -> Option<Arc<ColumnSnapshot>> {
        let mut kept = self.kept.lock();
        match &kept.newest {
            Some(newest) if newest.at > snapshot.at => None,
            _ => kept.newest.replace(snapshot.clone()),
        }
    }
}

impl ColumnSnapshot {
    /// Keeps `drop` from taking the cache's lock, which the caller holds.
    fn detach(&mut self) -> &mut ColumnSnapshot {
        self.cache = Weak::new();
        self
    }
}

fn cache_of(segments: &Segments, column: usize) -> Arc<ColumnCache> {
    let mut slot = segments.derived(column).lock();
    let cache = slot.get_or_insert_with(|| Arc::new(ColumnCache::default()));
    cache.clone().downcast().expect("snapshots alone keep something with a column")
}

/// Bytes of the snapshots that are kept with a table's columns: the newest ones, and memory to be used again.
pub fn column_snapshot_bytes(table: &Table) -> usize {
    let Some(segments) = Storage::of(table).segments() else { return 0 };
    let bytes = |parts: &Vec<Part>| -> usize {
        let of_part =
            |part: &Part| part.values.bytes() + part.validity.as_ref().map_or(0, RegionSnapshot::bytes);
        parts.iter().map(of_part).sum()
    };
    let of_column = |column: usize| {
        let cache = cache_of(segments, column);
        let kept = cache.kept.lock();
        let newest = kept.newest.as_ref().map_or(0, |newest| bytes(&newest.parts));
        newest + kept.spare.iter().map(bytes).sum::<usize>()
    };
    (0..table.columns().len()).map(of_column).sum()
}

/// Drops the snapshots that are cached with a table's columns, and the memory for the next ones: the next snapshot of a column
/// is made anew, not shared with an earlier one and not in its place. Snapshots in use stay; their memory is cached again when
/// they are dropped.
pub fn release_column_snapshots(table: &Table) {
    let Some(segments) = Storage::of(table).segments() else { return };
    for column in 0..table.columns().len() {
        let cache = cache_of(segments, column);
        let kept = std::mem::take(&mut *cache.kept.lock());
        // Outside of the lock, which the newest one takes when it is dropped. That puts its memory into the cache, so
        // it is dropped next.
        drop(kept);
        let spare = std::mem::take(&mut cache.kept.lock().spare);
        drop(spare);
    }
}

/// The newest commit that has changed, or is changing, cells of a column in any block.
fn newest_change(table: &Table, column: usize) -> Timestamp {
    let storage = Storage::of(table);
    let blocks = storage.block_numbers().map(|number| storage.block(number));
    blocks.map(|block: &RowBlock| block.column_change(column)).fold(Timestamp::ZERO, Timestamp::max)
}

/// Step 2.
fn take(
    segments: &Segments,
    column: ColumnPosition,
    blocks: usize,
    layout: CellLayout,
    old: Vec<Part>,
) -> Result<Vec<Part>> {
    let mut old = old.into_iter();
    let part = |(regions, blocks): (&ColumnRegions, usize)| -> Result<Part> {
        let (values, validity) = old.next().map_or((None, None), |part| (Some(part.values), part.validity));
        let renew = |region: &Arc<Region>, old: Option<RegionSnapshot>, layout: CellLayout| {
            let bytes = blocks * layout.bytes(ROWS_PER_BLOCK);
            match old {
                Some(old) => region.refresh(old, bytes),
                None => region.snapshot(bytes),
            }
        };
        let _alone = segments.lock_exclusive(column.0);
        Ok(Part {
            values: renew(&regions.values, values, layout)?,
            validity: (regions.validity.as_ref())
                .map(|region| renew(region, validity, CellLayout::Bit))
                .transpose()?,
        })
    };
    segments.of_column(column, blocks).map(part).collect()
}

/// Where a block's array lies in a snapshot of its segment.
fn bytes_of(
    snapshot: &RegionSnapshot,
    position: usize,
    layout: CellLayout,
) -> (std::ptr::NonNull<u8>, usize) {
    let bytes = layout.bytes(ROWS_PER_BLOCK);
    let start = position * bytes;
    assert!(start + bytes <= snapshot.bytes(), "a snapshot has all blocks in use");
    // SAFETY: in bounds of the snapshot by the assertion.
    (unsafe { snapshot.pointer().add(start) }, bytes)
}
