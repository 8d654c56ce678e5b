//! Rows on their way back into tables, from the images of a checkpoint and from the log, on all processors.
//!
//! Changes of the log are shared out by blocks, some MiB of commits at a time: each thread reads all of them, and repeats those of its
//! own blocks. So changes of a row stay in their order.

use crate::index_filling::IndexFilling;
use crate::processors::{on_all_processors, processors};
use ankerdb_base::{Error, Result, RowId, SqlState, Timestamp};
use ankerdb_checkpoint::{FolderOfImages, ImageLoader, Manifest, read_images};
use ankerdb_log::{Payload, Record, ReplayProgress};
use ankerdb_table::{Cell, ChangeBytes, ImageOfBlock, ReadAt, RestoredChange, Storage, Table};
use ankerdb_transaction::{Interrupt, MemoryLimit, read_record, visit_changes};
use ankerdb_value::{ArrayRef, DataType, EnumType, ListType, SystemType};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of a large transaction: those of another run begin again.
pub(crate) type Number = (u64, u64);

/// Bytes of commits that are repeated together.
const BATCH_BYTES: usize = 8 << 20;
/// Bytes for which other threads are not worth being woken.
const FEW_BYTES: usize = 128 << 10;

/// The rows of the tables that there are.
pub(crate) struct RecoveredRows {
    /// By the tables' numbers.
    tables: HashMap<u32, Restored>,
    /// Parts of large transactions that have not committed yet, by their numbers.
    parts: HashMap<Number, Vec<Vec<u8>>>,
    /// Commits that wait to be repeated, and how many bytes they have.
    waiting: Vec<Commit>,
    waiting_bytes: usize,
    /// Behind the largest number of a table that a record has: one that was made and dropped by one transaction is in no image.
    tables_end: AtomicU32,
}

/// Finds tables by their numbers. The changes of a commit come table by table, so mostly it is the one that was found last.
struct LastFound<'a> {
    tables: &'a HashMap<u32, Restored>,
    last: std::cell::Cell<Option<(u32, Option<&'a Restored>)>>,
}

impl<'a> LastFound<'a> {
    #[inline]
    fn get(&self, table: u32) -> Option<&'a Restored> {
        if let Some((last, found)) = self.last.get()
            && last == table
        {
            return found;
        }
        let found = self.tables.get(&table);
        self.last.set(Some((table, found)));
        found
    }
}

struct Commit {
    timestamp: Timestamp,
    parts: Vec<Vec<u8>>,
    /// Its own record.
    record: Payload,
}

struct Restored {
    table: Arc<Table>,
    /// Columns whose values name a type that has another number now.
    lists: Vec<(usize, EnumType)>,
    /// The timestamps of the blocks' images, which have all commits up to there.
    images: Vec<Timestamp>,
}

impl RecoveredRows {
    pub(crate) fn of<'a>(tables: impl Iterator<Item = &'a Arc<Table>>) -> RecoveredRows {
        let restored = |table: &Arc<Table>| {
            let columns = table.columns().iter().enumerate();
            let lists = columns.filter_map(|(column, definition)| match definition.data_type {
                DataType::System(SystemType::List(ListType::Enum(labels))) => Some((column, labels)),
                _ => None,
            });
            (
                table.id().number(),
                Restored { table: table.clone(), lists: lists.collect(), images: Vec::new() },
            )
        };
        RecoveredRows {
            tables: tables.map(restored).collect(),
            parts: HashMap::new(),
            waiting: Vec::new(),
            waiting_bytes: 0,
            tables_end: AtomicU32::new(0),
        }
    }

    /// Puts the images of a checkpoint into the tables.
    pub(crate) fn load(
        &mut self,
        place: &FolderOfImages,
        manifest: &Manifest,
        progress: Option<&ReplayProgress>,
    ) -> Result<()> {
        for (name, image) in &manifest.images {
            if let Some(Restored { images, .. }) = self.tables.get_mut(&name.table) {
                images.resize(name.block as usize + 1, Timestamp::ZERO);
                images[name.block as usize] = image.timestamp;
            }
        }
        for Restored { table, images, .. } in self.tables.values() {
            Storage::of(table).add_blocks_to_restore(images.len())?;
        }
        read_images(place, manifest, processors(), &LoadRows { tables: &self.tables, progress })
    }

    /// A commit, behind those that it may follow.
    pub(crate) fn commit(&mut self, record: &Record) -> Result<()> {
        let (number, _) = read_record(&record.payload)?;
        let parts = number.and_then(|number| self.parts.remove(&(record.incarnation, number)));
        let parts = parts.unwrap_or_default();
        self.waiting_bytes += record.payload.len() + parts.iter().map(Vec::len).sum::<usize>();
        self.waiting.push(Commit { timestamp: record.timestamp, parts, record: record.payload.clone() });
        if self.waiting_bytes >= BATCH_BYTES { self.repeat() } else { Ok(()) }
    }

    /// Forgets the parts of a transaction.
    pub(crate) fn forget(&mut self, number: Number) {
        self.parts.remove(&number);
    }

    /// Repeats the commits that wait.
    fn repeat(&mut self) -> Result<()> {
        let commits = std::mem::take(&mut self.waiting);
        let threads = if self.waiting_bytes < FEW_BYTES { 1 } else { processors() };
        self.waiting_bytes = 0;
        let shares: Vec<usize> = (0..threads).collect();
        on_all_processors(&shares, |share| {
            commits.iter().try_for_each(|commit| self.repeat_share(commit, *share, threads))
        })
    }

    /// Repeats what a commit has done to the blocks that are one thread's share.
    fn repeat_share(&self, commit: &Commit, share: usize, shares: usize) -> Result<()> {
        let (_, piece) = read_record(&commit.record)?;
        let pieces = commit.parts.iter().map(Vec::as_slice).chain([piece]);
        let pin = crossbeam_epoch::pin();
        let found = LastFound { tables: &self.tables, last: Default::default() };
        let is_wanted = |table: u32, row: RowId| match found.get(table) {
            // It was dropped later. What is made from now on must not get its number, and with it these rows.
            None => {
                self.tables_end.fetch_max(table.saturating_add(1), Ordering::Relaxed);
                false
            }
            Some(restored) => {
                (row.block().0 + table as usize) % shares == share && !restored.has(row, commit.timestamp)
            }
        };
        visit_changes(pieces, is_wanted, |table, row, change| match found.get(table) {
            Some(restored) => restored.repeat(row, commit.timestamp, change, &pin),
            None => Ok(()),
        })
    }

    pub(crate) fn part(&mut self, record: &Record) -> Result<()> {
        let (number, piece) = read_record(&record.payload)?;
        let number = number.ok_or_else(part_of_nothing)?;
        self.parts.entry((record.incarnation, number)).or_default().push(piece.to_vec());
        Ok(())
    }

    /// Ends it: slots without rows are free, indexes are filled. Returns the end of the numbers of tables that records have.
    pub(crate) fn end(mut self, last: Timestamp) -> Result<u32> {
        self.repeat()?;
        let interrupt = Interrupt::new();
        let mut fillings = Vec::new();
        for Restored { table, .. } in self.tables.values() {
            let storage = Storage::of(table);
            storage.end_restoring(last, &crossbeam_epoch::pin());
            let filling = |index| IndexFilling {
                storage,
                index,
                at: ReadAt::Newest,
                interrupt: &interrupt,
                limit: MemoryLimit::NONE,
            };
            fillings.extend(table.maintained_indexes().map(|(_, index)| filling(index)));
        }
        // An index of a large table is filled by all threads, one of a small table by one.
        let (large, small): (Vec<_>, Vec<_>) = fillings.into_iter().partition(IndexFilling::is_shared);
        large.iter().try_for_each(IndexFilling::fill)?;
        on_all_processors(&small, IndexFilling::fill)?;
        Ok(self.tables_end.into_inner())
    }
}

/// Images on their way into tables.
struct LoadRows<'a> {
    tables: &'a HashMap<u32, Restored>,
    progress: Option<&'a ReplayProgress>,
}

impl ImageLoader for LoadRows<'_> {
    fn wants(&self, table: u32) -> bool {
        self.tables.contains_key(&table)
    }

    fn block(&self, table: u32, image: &ImageOfBlock<'_>) -> Result<()> {
        let restored @ Restored { table, lists, .. } = &self.tables[&table];
        let change = (!lists.is_empty()).then_some(restored as &dyn ChangeBytes);
        let restored = Storage::of(table).restore_block(image, change, &crossbeam_epoch::pin());
        restored.map_err(|error| error.with_table(table.schema(), table.name()))
    }

    fn progress(&self, read: u64, total: u64) {
        if let Some(progress) = self.progress {
            progress(read, total);
        }
    }
}

impl ChangeBytes for Restored {
    fn is_wanted(&self, column: usize) -> bool {
        self.labels(column).is_some()
    }

    fn bytes(&self, column: usize, bytes: &[u8]) -> Option<Vec<u8>> {
        relabeled(bytes, self.labels(column)?)
    }
}

impl Restored {
    /// Of a column of lists: the type of their labels.
    fn labels(&self, column: usize) -> Option<EnumType> {
        self.lists.iter().find(|(list, _)| *list == column).map(|list| list.1)
    }

    /// Whether the image of the row's block has the commit.
    fn has(&self, row: RowId, commit: Timestamp) -> bool {
        self.images.get(row.block().0).is_some_and(|image| commit <= *image)
    }

    fn repeat(
        &self,
        row: RowId,
        commit: Timestamp,
        change: RestoredChange<'_>,
        pin: &crossbeam_epoch::Guard,
    ) -> Result<()> {
        let storage = Storage::of(&self.table);
        let named = |error: Error| error.with_table(self.table.schema(), self.table.name());
        if self.lists.is_empty() {
            return storage.restore(row, commit, change, pin).map_err(named);
        }
        let labels = |column: usize| self.labels(column);
        match change {
            RestoredChange::Delete => storage.restore(row, commit, change, pin),
            RestoredChange::Insert(cells) => {
                let cells = cells.iter().copied().enumerate();
                let bytes: Vec<Option<Vec<u8>>> =
                    cells.clone().map(|(column, cell)| renamed(labels(column), cell)).collect();
                let cells: Vec<Cell<'_>> =
                    cells.zip(&bytes).map(|((_, cell), bytes)| other(cell, bytes)).collect();
                storage.restore(row, commit, RestoredChange::Insert(&cells), pin)
            }
            RestoredChange::Update(cells) => {
                let bytes: Vec<Option<Vec<u8>>> =
                    cells.iter().map(|&(column, cell)| renamed(labels(column), cell)).collect();
                let cells: Vec<(usize, Cell<'_>)> = cells
                    .iter()
                    .zip(&bytes)
                    .map(|(&(column, cell), bytes)| (column, other(cell, bytes)))
                    .collect();
                storage.restore(row, commit, RestoredChange::Update(&cells), pin)
            }
        }
        .map_err(named)
    }
}

/// The bytes of a list of labels, with the number that their type has now.
fn renamed(labels: Option<EnumType>, cell: Cell<'_>) -> Option<Vec<u8>> {
    match (labels, cell) {
        (Some(labels), Cell::Bytes(bytes)) => relabeled(bytes, labels),
        _ => None,
    }
}

fn relabeled(bytes: &[u8], labels: EnumType) -> Option<Vec<u8>> {
    let mut bytes = bytes.to_vec();
    ArrayRef::restore(&mut bytes, |_| Some(labels)).ok()?;
    Some(bytes)
}

fn other<'a>(cell: Cell<'a>, bytes: &'a Option<Vec<u8>>) -> Cell<'a> {
    bytes.as_ref().map_or(cell, |bytes| Cell::Bytes(bytes))
}

#[cold]
pub(crate) fn part_of_nothing() -> Error {
    Error::new(SqlState::DataCorrupted, "the log has a part of a transaction without a number")
}
