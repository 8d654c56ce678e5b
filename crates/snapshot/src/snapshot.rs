//! A snapshot: a consistent image of the whole database at one timestamp.
//!
//! Taking one reads the watermark and announces it (`ActiveReaders`): no lock, no copy, no waiting. What the snapshot
//! needs is kept from then on by the version chains; reading a block lends the live arrays or, where the block has
//! changed, materializes the columns asked for, once, and keeps them for the other queries of the same snapshot.
//! Dropping the last clone frees everything. That is [`SnapshotStrategy::InPlace`]; single execution engines read every
//! block anew for each query, in `version_scan`, hybrid ones whole columns that were snapshotted once, in `column`, or
//! the memory of a forked process, in `forked`.

use crate::column::ColumnSnapshot;
use crate::compressed::{self, CompressedColumn};
use crate::counters::SnapshotCounters;
use crate::forked::read_in_copy;
use crate::image::{BlockImage, ColumnCopy, ColumnImage};
use crate::materialize::{ExistingRows, copy_block, is_lendable, keep_copies, kept_copies, lend};
use crate::strategy::SnapshotStrategy;
use crate::version_scan::{scan_newest, scan_versions};
use crate::work::{CopyCount, ReadFor, SnapshotWork};
use ankerdb_base::{BlockNumber, DatabaseId, ROWS_PER_BLOCK, Result, TableId, Timestamp};
use ankerdb_sync::memory_limit::{Claim, MemoryLimit};
use ankerdb_sync::readers::ReaderSlot;
use ankerdb_table::{Segments, Storage, Table};
use crossbeam_epoch::Guard;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Copies that one snapshot keeps for its other queries; past this, each query makes its own.
const KEPT_BYTES_MAX: usize = 256 << 20;
const SHARDS: usize = 16;

/// See the module. Cheap to clone and to share between threads.
#[derive(Clone)]
pub struct Snapshot(Arc<Inner>);

/// Whose snapshots they are.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotOrigin {
    /// The database.
    pub database: DatabaseId,
    /// What its copies of columns may bring the process to.
    pub memory_limit: MemoryLimit,
}

struct Inner {
    origin: SnapshotOrigin,
    timestamp: Timestamp,
    strategy: SnapshotStrategy,
    /// Announces the timestamp; shared with the transaction that the snapshot belongs to, if any.
    slot: Arc<ReaderSlot>,
    counters: Arc<SnapshotCounters>,
    /// Made at the first block: many snapshots live for one short query.
    kept: std::sync::OnceLock<Box<[Mutex<Kept>; SHARDS]>>,
    kept_bytes: AtomicUsize,
    /// Columns that were snapshotted as a whole. Made at the first one.
    columns: std::sync::OnceLock<Mutex<ColumnPlaces>>,
    /// What its readers had to do, where somebody wants to know.
    work: Option<Arc<SnapshotWork>>,
}

type ColumnPlaces = HashMap<(TableId, usize), Arc<ColumnPlace>>;

/// A column that is snapshotted or about to be. The lock is held meanwhile, so that others wait.
type ColumnPlace = Mutex<Option<KeptColumn>>;

#[derive(Clone)]
struct KeptColumn {
    snapshot: Arc<ColumnSnapshot>,
    /// Whether no query has read it yet.
    is_ahead: bool,
}

/// What was lent or made for the blocks of a shard.
type Kept = HashMap<(TableId, BlockNumber), KeptBlock>;

#[derive(Default)]
struct KeptBlock {
    rows: Option<ExistingRows>,
    columns: Vec<(usize, ColumnImage)>,
    /// Columns that no query has read yet.
    ahead: Vec<usize>,
}

impl KeptBlock {
    fn column(&self, column: usize) -> Option<&ColumnImage> {
        self.columns.iter().find(|(position, _)| *position == column).map(|(_, image)| image)
    }
}

/// The slot that announces the snapshot's timestamp: its holder keeps readable what the snapshot shows. Not for programs,
/// which could leave it.
pub fn reader_slot(snapshot: &Snapshot) -> &Arc<ReaderSlot> {
    &snapshot.0.slot
}

impl Snapshot {
    /// The image of a database at `timestamp`, which `slot` announces.
    pub fn new(
        origin: SnapshotOrigin,
        timestamp: Timestamp,
        slot: Arc<ReaderSlot>,
        strategy: SnapshotStrategy,
        counters: Arc<SnapshotCounters>,
    ) -> Snapshot {
        debug_assert_eq!(slot.timestamp(), Some(timestamp));
        counters.taken.fetch_add(1, Ordering::Relaxed);
        Snapshot::with(origin, timestamp, slot, (strategy, counters), None)
    }

    fn with(
        origin: SnapshotOrigin,
        timestamp: Timestamp,
        slot: Arc<ReaderSlot>,
        (strategy, counters): (SnapshotStrategy, Arc<SnapshotCounters>),
        work: Option<Arc<SnapshotWork>>,
    ) -> Snapshot {
        let (kept, kept_bytes) = (std::sync::OnceLock::new(), AtomicUsize::new(0));
        let columns = std::sync::OnceLock::new();
        let inner = Inner { origin, timestamp, strategy, slot, counters, kept, kept_bytes, columns, work };
        Snapshot(Arc::new(inner))
    }

    /// A snapshot of this timestamp with nothing lent or materialized yet, whose readers' [work](Self::work) is counted.
    pub fn watched(&self) -> Snapshot {
        let Inner { origin, timestamp, strategy, slot, counters, .. } = &*self.0;
        let read = (*strategy, counters.clone());
        Snapshot::with(*origin, *timestamp, slot.clone(), read, Some(Arc::default()))
    }

    /// What reading it took so far; `None` unless it is [watched](Self::watched). Nobody else has it when the snapshot has gone.
    pub fn work(&self) -> Option<&Arc<SnapshotWork>> {
        self.0.work.as_ref()
    }

    /// A snapshot of this timestamp read by another strategy, to compare them. Shares nothing that was lent or
    /// materialized. `Newest` reads newer values. `Forked` must only be read in a copy of the process that was made
    /// while commits were held, or while they still are.
    pub fn by(&self, strategy: SnapshotStrategy) -> Snapshot {
        let Inner { origin, timestamp, slot, counters, .. } = &*self.0;
        Snapshot::new(*origin, *timestamp, slot.clone(), strategy, counters.clone())
    }

    /// The database that it is of.
    pub fn database(&self) -> DatabaseId {
        self.0.origin.database
    }

    /// Everything committed up to here is in it, and nothing else.
    pub fn timestamp(&self) -> Timestamp {
        self.0.timestamp
    }

    /// Whether its queries share what was lent or copied for one of them.
    pub fn keeps_copies(&self) -> bool {
        self.0.strategy.keeps_copies()
    }

    /// What an analytical query reads of it.
    pub fn read_view(&self) -> crate::ReadView {
        crate::ReadView::of_snapshot(self.clone())
    }

    /// The columns of one block as of the snapshot.
    ///
    /// # Errors
    /// `OutOfMemory` if memory or mappings run out for a snapshot of a whole column, which harms neither the data nor
    /// other snapshots. `UndefinedTable` if the table is of another database.
    pub fn read_block(&self, table: &Table, number: BlockNumber, columns: &[usize]) -> Result<BlockImage> {
        self.read_block_for(table, number, columns, ReadFor::Query)
    }

    /// Lends or copies columns for queries to come, where the snapshot keeps what is read of it: of a block, or whole
    /// columns where those are snapshotted. Elsewhere there is nothing to do.
    ///
    /// # Errors
    /// Those of [`read_block`](Self::read_block).
    pub fn read_ahead(&self, table: &Table, block: Option<BlockNumber>, columns: &[usize]) -> Result<()> {
        table.check_is_of(self.0.origin.database)?;
        match (self.0.strategy, block, Storage::of(table).segments()) {
            (SnapshotStrategy::InPlace, Some(number), _)
            | (SnapshotStrategy::Columns, Some(number), None)
                if number.0 < table.block_count() =>
            {
                self.read_block_for(table, number, columns, ReadFor::Later).map(drop)
            }
            (SnapshotStrategy::Columns, None, Some(segments)) => {
                let read = |&column| self.column(table, segments, column, ReadFor::Later).map(drop);
                columns.iter().try_for_each(read)
            }
            _ => Ok(()),
        }
    }

    fn read_block_for(
        &self,
        table: &Table,
        number: BlockNumber,
        columns: &[usize],
        read_for: ReadFor,
    ) -> Result<BlockImage> {
        table.check_is_of(self.0.origin.database)?;
        let (block, at) = (Storage::of(table).block(number), self.0.timestamp);
        if self.is_forked() {
            return Ok(read_in_copy(block, columns));
        }
        let pin = crossbeam_epoch::pin();
        let (rows, columns) = match self.0.strategy {
            SnapshotStrategy::InPlace | SnapshotStrategy::Forked => {
                return Ok(self.read_in_place(table, number, columns, read_for, &pin));
            }
            SnapshotStrategy::Versions(tight) => scan_versions(block, columns, at, tight, &pin),
            SnapshotStrategy::Newest => scan_newest(block, columns, at, &pin),
            SnapshotStrategy::Columns => match Storage::of(table).segments() {
                Some(segments) => {
                    drop(pin);
                    return self.read_columns(table, segments, number, columns);
                }
                None => return Ok(self.read_in_place(table, number, columns, read_for, &pin)),
            },
        };
        Ok(BlockImage { rows: rows.count, selection: rows.selection, columns })
    }

    /// Takes snapshots of these columns now instead of when they are first read, where this snapshot reads whole columns
    /// and has not done so yet; elsewhere there is nothing to do.
    ///
    /// # Errors
    /// Those of [`read_block`](Self::read_block).
    pub fn materialize(&self, table: &Table, columns: &[usize]) -> Result<()> {
        table.check_is_of(self.0.origin.database)?;
        match (self.0.strategy, Storage::of(table).segments()) {
            (SnapshotStrategy::Columns, Some(segments)) => {
                let read = |&column| self.column(table, segments, column, ReadFor::Query).map(drop);
                columns.iter().try_for_each(read)
            }
            _ => Ok(()),
        }
    }

    /// Fails if a snapshot of a column that was read has had to end meanwhile, because its technique ran out of memory or
    /// mappings: results made from it are invalid. To be called when a query is done.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn check(&self) -> Result<()> {
        let Some(places) = self.0.columns.get() else { return Ok(()) };
        let places: Vec<_> = places.lock().values().cloned().collect();
        places.iter().filter_map(|place| place.lock().clone()).try_for_each(|kept| kept.snapshot.check())
    }

    fn column(
        &self,
        table: &Table,
        segments: &Segments,
        column: usize,
        read_for: ReadFor,
    ) -> Result<Arc<ColumnSnapshot>> {
        let at = (table.id(), None);
        let places = self.0.columns.get_or_init(Mutex::default);
        let place = places.lock().entry((table.id(), column)).or_default().clone();
        let mut place = place.lock();
        if let Some(made) = &mut *place {
            if let (ReadFor::Query, true, Some(work)) = (read_for, made.is_ahead, &self.0.work) {
                made.is_ahead = false;
                work.note_ahead_read(at, &[column]);
            }
            return Ok(made.snapshot.clone());
        }
        let limit = self.0.origin.memory_limit;
        limit.check(Claim::Large, 0)?;
        let _ceiling = limit.put_up(Claim::Large);
        let begun = self.0.work.as_ref().map(|work| (work, Instant::now()));
        let made = ColumnSnapshot::of(table, segments, column, self.0.timestamp, &self.0.counters);
        let made = made.map_err(|error| limit.explain(error))?;
        if let Some((work, begun)) = begun {
            let copies = CopyCount { count: 1, bytes: 0, time: begun.elapsed() };
            work.note_copies(at, &[column], copies, read_for);
        }
        *place = Some(KeptColumn { snapshot: made.clone(), is_ahead: read_for == ReadFor::Later });
        Ok(made)
    }

    /// Reads a block by snapshots of whole columns.
    fn read_columns(
        &self,
        table: &Table,
        segments: &Segments,
        number: BlockNumber,
        columns: &[usize],
    ) -> Result<BlockImage> {
        let snapshots: Vec<_> =
            (columns.iter().map(|&column| self.column(table, segments, column, ReadFor::Query)))
                .collect::<Result<_>>()?;
        let ExistingRows { count, selection } = self.rows(table, number);
        let empty = |&column: &usize| {
            ColumnCopy::empty(table.layout(column), table.is_nullable(column), 0).finish(Vec::new())
        };
        let columns = match count {
            // It may have come after the columns' snapshots.
            0 => columns.iter().map(empty).collect(),
            _ => snapshots.iter().map(|snapshot| snapshot.image(number)).collect(),
        };
        Ok(BlockImage { rows: count, selection, columns })
    }

    /// Which rows of a block exist; found out once.
    fn rows(&self, table: &Table, number: BlockNumber) -> ExistingRows {
        let mut shard = self.shard(number).lock();
        let kept = shard.entry((table.id(), number)).or_default();
        let find = || {
            let pin = crossbeam_epoch::pin();
            copy_block(Storage::of(table).block(number), None, &[], self.0.timestamp, &pin).0
        };
        kept.rows.get_or_insert_with(find).clone()
    }

    /// A compressed copy of a column that `image` shows of a block, if that is lent, and there is a copy.
    pub(crate) fn compressed(
        &self,
        table: &Table,
        number: BlockNumber,
        column: usize,
        image: &ColumnImage,
    ) -> Option<Arc<CompressedColumn>> {
        let block = Storage::of(table).block(number);
        let change = block.column_change(column);
        if !image.lent || change > self.0.timestamp {
            return None;
        }
        let definition = (column, table.columns()[column].data_type);
        let may_make = || self.0.origin.memory_limit.check(Claim::Copy, 0).is_ok();
        compressed::kept_or_made(block, definition, change, image, may_make)
    }

    pub(crate) fn is_forked(&self) -> bool {
        self.0.strategy == SnapshotStrategy::Forked
    }

    /// Reads a block by the default strategy.
    fn read_in_place(
        &self,
        table: &Table,
        number: BlockNumber,
        columns: &[usize],
        read_for: ReadFor,
        pin: &Guard,
    ) -> BlockImage {
        // The shard stays locked: another query of this snapshot that wants the same block waits for this one's
        // work instead of doing it again.
        let mut shard = self.shard(number).lock();
        let mut kept = shard.remove(&(table.id(), number)).unwrap_or_default();
        let missing: Vec<usize> =
            columns.iter().copied().filter(|&column| kept.column(column).is_none()).collect();
        let before = kept.columns.len();
        if let (ReadFor::Query, false, Some(work)) = (read_for, kept.ahead.is_empty(), &self.0.work) {
            let read = |column: &usize| columns.contains(column);
            work.note_ahead_read(
                (table.id(), Some(number)),
                &kept.ahead.extract_if(.., |column| read(column)).collect::<Vec<_>>(),
            );
        }
        if !missing.is_empty() || kept.rows.is_none() {
            if read_for == ReadFor::Later {
                kept.ahead.extend(&missing);
            }
            self.complete((table, number), &mut kept, missing, read_for, pin);
        }
        let rows = kept.rows.clone().expect("completed");
        let image = |&column: &usize| kept.column(column).expect("completed").clone();
        let image = BlockImage {
            rows: rows.count,
            selection: rows.selection,
            columns: columns.iter().map(image).collect(),
        };
        let bytes: usize = kept.columns[before..].iter().map(|(_, image)| image.copied_bytes()).sum();
        if self.0.kept_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > KEPT_BYTES_MAX {
            self.0.kept_bytes.fetch_sub(bytes, Ordering::Relaxed);
            kept.columns.truncate(before);
            let KeptBlock { columns, ahead, .. } = &mut kept;
            ahead.retain(|column| columns.iter().any(|(kept, _)| kept == column));
        }
        shard.insert((table.id(), number), kept);
        image
    }

    /// Adds columns, and which rows exist: lends what can be lent and copies the rest.
    fn complete(
        &self,
        (table, number): (&Table, BlockNumber),
        kept: &mut KeptBlock,
        missing: Vec<usize>,
        read_for: ReadFor,
        pin: &Guard,
    ) {
        let (block, at) = (Storage::of(table).block(number), self.0.timestamp);
        let (lendable, mut others): (Vec<usize>, Vec<usize>) =
            missing.into_iter().partition(|&column| is_lendable(block, column, at));
        if !lendable.is_empty() {
            match lend(block, &lendable, at, pin) {
                Some(images) => {
                    self.0.counters.columns_lent.fetch_add(images.len() as u64, Ordering::Relaxed);
                    if let Some(work) = &self.0.work {
                        work.note_lent(images.len(), read_for);
                    }
                    kept.columns.extend(lendable.into_iter().zip(images));
                }
                None => others.extend(lendable),
            }
        }
        let is_full = block.fill() == ROWS_PER_BLOCK;
        // Copies have as many rows as are known to exist, so all of a block's come from the same knowledge.
        if !is_full && kept.rows.is_none() {
            let (rows, found) = kept_copies(block, &others, at);
            let found =
                others.iter().copied().zip(found).filter_map(|(column, image)| Some((column, image?)));
            kept.columns.extend(found.collect::<Vec<_>>());
            kept.rows = rows;
            others.retain(|&column| kept.column(column).is_none());
        }
        if others.is_empty() && kept.rows.is_some() {
            return;
        }
        let begun = self.0.work.as_ref().map(|work| (work, Instant::now()));
        let (rows, images) = copy_block(block, kept.rows.as_ref(), &others, at, pin);
        if let Some((work, begun)) = begun {
            let bytes = images.iter().map(|image| image.copied_bytes() as u64).sum();
            let copies = CopyCount { count: images.len() as u64, bytes, time: begun.elapsed() };
            work.note_copies((table.id(), Some(number)), &others, copies, read_for);
        }
        self.0.counters.columns_materialized.fetch_add(images.len() as u64, Ordering::Relaxed);
        let made: Vec<(usize, ColumnImage)> = others.into_iter().zip(images).collect();
        if !is_full {
            keep_copies(block, &rows, &made, at);
        }
        kept.columns.extend(made);
        kept.rows = Some(rows);
    }

    fn shard(&self, number: BlockNumber) -> &Mutex<Kept> {
        let shards = self.0.kept.get_or_init(|| Box::new(std::array::from_fn(|_| Mutex::default())));
        &shards[number.0 % SHARDS]
    }
}
