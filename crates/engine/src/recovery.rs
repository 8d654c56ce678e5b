//! Opening a database that is kept in a folder: what its log tells is repeated (docs/design/durability.md).
//!
//! ```text
//! 1 read the log, definitions only      the catalog as it was at the end; its tables are made, empty
//! 2 read the log again, changes         rows of tables that are in the catalog, into their places
//! 3 slots without rows are free; indexes are filled from the rows
//! 4 timestamps go on behind the last one that was read; commits are told to the log from now on
//! ```
//!
//! Nothing is let in before all of it is done, and nothing is written before that but the cut of a torn end.

use crate::checkpointer::Checkpointer;
use crate::checkpoints::{CheckpointOptions, Checkpoints, recover_catalog};
use crate::database::Database;
use crate::image::{Binder, RecoveredCatalog};
use crate::options::Options;
use crate::sequence::{SEQUENCE, SequenceCount};
use ankerdb_base::{Error, Result, RowId, SqlState, Timestamp};
use ankerdb_checkpoint::{FolderOfImages, Load, Manifest, read_images};
use ankerdb_log::{Disk, Log, LogOptions, LogStart, Loss, Progress, Record, Replay, SystemDisk};
use ankerdb_table::{Cell, ImageOfBlock, RestoredChange, Storage, Table};
use ankerdb_transaction::{COMMIT, PART, read_definitions, read_record, visit_changes};
use ankerdb_value::{ArrayRef, DataType, EnumType, ListType, SystemType};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Where and how a database is kept.
#[derive(Clone)]
pub struct Durability {
    /// The folder. It is made if it is not there.
    pub folder: PathBuf,
    /// The operations on files.
    pub disk: Arc<dyn Disk>,
    /// How the log is written.
    pub log: LogOptions,
    /// When checkpoints are made.
    pub checkpoints: CheckpointOptions,
}

impl Durability {
    /// In a folder of the system's.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Durability {
        Durability {
            folder: folder.into(),
            disk: Arc::new(SystemDisk),
            log: LogOptions::default(),
            checkpoints: CheckpointOptions::default(),
        }
    }
}

impl Database {
    /// Opens the database that is kept in a folder, or makes one there. Commits are on disk when they are acknowledged, unless their
    /// transactions [do not wait](ankerdb_transaction::Transaction::set_waits_for_log). Takes time in proportion to the log.
    ///
    /// # Errors
    /// Those of [`open`](Self::open) and [`Log::open`]; `DataCorrupted` if the log tells of what cannot have been; those of the
    /// binder for definitions in a language that it does not know.
    pub fn open_in(
        options: impl Into<Options>,
        durability: &Durability,
        binder: &dyn Binder,
    ) -> Result<Database> {
        let database = Database::open(options)?;
        database.recover(durability, binder)?;
        Ok(database)
    }

    fn recover(&self, durability: &Durability, binder: &dyn Binder) -> Result<()> {
        let mut recovery = Recovery {
            database: self,
            binder,
            durability,
            checkpoint: None,
            stage: Stage::Definitions(Definitions::default()),
        };
        let log =
            ankerdb_log::open(durability.disk.clone(), &durability.folder, &durability.log, &mut recovery)?;
        if let Some(loss) = log.loss() {
            let _ = self.shared.loss.set(loss.clone());
        }
        let last = recovery.last_timestamp(&log)?;
        let (place, manifest) = recovery.end(last)?;
        let _ = self.shared.checkpoints.set(Checkpoints::new(place, durability.checkpoints, manifest));
        let manager = &self.shared.manager;
        manager.go_on_behind(last);
        let watermark = Arc::downgrade(manager);
        log.start(move || watermark.upgrade().map_or(Timestamp::ZERO, |manager| manager.watermark()));
        manager.log_to(Arc::new(log));
        let _ = self.checkpointer.set(Checkpointer::start(Arc::downgrade(&self.shared))?);
        Ok(())
    }

    /// Returns when what was committed up to here is on disk. One load if it is, or if the database is kept in no folder.
    ///
    /// # Errors
    /// `IoError` if the database was [closed](Self::close) meanwhile.
    pub fn wait_until_durable(&self, commit: Timestamp) -> Result<()> {
        self.shared.manager.wait_until_durable(commit)
    }

    /// What of the log was given up when the database was opened, because it was damaged and that was
    /// [allowed](LogOptions::recover_to_last_valid).
    pub fn loss(&self) -> Option<&Loss> {
        self.shared.loss.get()
    }

    /// Makes a checkpoint, so that the database is opened quickly, and writes to disk what is committed and not there yet, as after commits
    /// that did not wait for it. Later commits fail. Does nothing for a database that is kept in no folder. The last handle of a
    /// database writes what is committed when it is dropped, without a checkpoint, and tells nobody of an error.
    ///
    /// # Errors
    /// `IoError`. It is none if there could be no checkpoint: the log has everything.
    pub fn close(&self) -> Result<()> {
        let _ = self.checkpoint(&|| Ok(()));
        self.shared.manager.close_log()
    }
}

/// The two passes over the log.
struct Recovery<'a> {
    database: &'a Database,
    binder: &'a dyn Binder,
    durability: &'a Durability,
    /// The checkpoint, if there is one, and where its images are.
    checkpoint: Option<(FolderOfImages, Manifest)>,
    stage: Stage,
}

enum Stage {
    Definitions(Definitions),
    Rows(Rows),
}

impl Replay for Recovery<'_> {
    fn begin(&mut self, database: [u8; 16]) -> Result<LogStart> {
        let Durability { disk, folder, .. } = self.durability;
        let place = FolderOfImages { disk: disk.clone(), folder: folder.clone(), database };
        let manifest = place.open()?;
        if let (Some(manifest), Stage::Definitions(definitions)) = (&manifest, &mut self.stage) {
            recover_catalog(&manifest.catalog, &mut definitions.catalog)?;
        }
        let manifest = manifest.unwrap_or_default();
        let start = manifest.start;
        self.checkpoint = Some((place, manifest));
        Ok(start)
    }

    fn record(&mut self, record: Record) -> Result<()> {
        if record.kind == COMMIT && record.timestamp <= self.start() {
            return self.pass_over(&record);
        }
        match (&mut self.stage, record.kind) {
            (Stage::Definitions(definitions), COMMIT | PART) => definitions.note(&record),
            (Stage::Definitions(definitions), SEQUENCE) => {
                let (number, count) = SequenceCount::of_bytes(&record.payload)?;
                definitions.catalog.note_sequence(number, count);
                Ok(())
            }
            (Stage::Rows(rows), COMMIT) => rows.commit(&record),
            (Stage::Rows(rows), PART) => rows.part(&record),
            (Stage::Rows(_), SEQUENCE) => Ok(()),
            (_, kind) => Err(unknown(kind)),
        }
    }

    fn wants_another_pass(&mut self) -> Result<bool> {
        let Stage::Definitions(definitions) = &mut self.stage else { return Ok(false) };
        let catalog = std::mem::take(&mut definitions.catalog);
        self.database.restore_catalog(catalog, self.binder)?;
        let mut rows = Rows::of(self.database.catalog().tables());
        if let Some((place, manifest)) = &self.checkpoint {
            rows.load(place, manifest, self.durability.log.progress.as_ref())?;
        }
        self.stage = Stage::Rows(rows);
        Ok(true)
    }
}

impl Recovery<'_> {
    /// Commits up to here are in the checkpoint.
    fn start(&self) -> Timestamp {
        self.checkpoint.as_ref().map_or(Timestamp::ZERO, |(_, manifest)| manifest.start.timestamp)
    }

    /// The last timestamp that was given. The log must reach as far as the checkpoint: images may have what was committed last then.
    fn last_timestamp(&self, log: &Log) -> Result<Timestamp> {
        let Some((place, manifest)) = &self.checkpoint else { return Ok(log.last_timestamp()) };
        if log.chunks() < manifest.chunks && !self.durability.log.recover_to_last_valid {
            let message = format!(
                "the log in \"{}\" ends in front of what the checkpoint has of it",
                place.folder.display()
            );
            return Err(Error::new(SqlState::DataCorrupted, message).with_hint(
                "Restore the folder from a copy. To give up what is missing, start once with recovery to the last valid record.",
            ));
        }
        Ok(log.last_timestamp().max(manifest.last_timestamp))
    }

    /// Forgets the parts of a commit that is not needed.
    fn pass_over(&mut self, record: &Record) -> Result<()> {
        if let (Some(number), _) = read_record(&record.payload)? {
            let number = (record.incarnation, number);
            match &mut self.stage {
                Stage::Definitions(definitions) => drop(definitions.pieces.remove(&number)),
                Stage::Rows(rows) => drop(rows.parts.remove(&number)),
            }
        }
        Ok(())
    }

    fn end(self, last: Timestamp) -> Result<(FolderOfImages, Manifest)> {
        match (self.stage, self.checkpoint) {
            (Stage::Rows(rows), Some(checkpoint)) => {
                self.database.shared.manager.leave_tables(rows.tables_end);
                rows.end(last).map(|()| checkpoint)
            }
            _ => Err(Error::internal("the log is read twice")),
        }
    }
}

/// The number of a large transaction: those of another run begin again.
type Number = (u64, u64);

/// What the commits up to now have defined.
#[derive(Default)]
struct Definitions {
    catalog: RecoveredCatalog,
    /// First pieces of large transactions that define something; empty ones of those that do not.
    pieces: HashMap<Number, Vec<u8>>,
}

impl Definitions {
    fn note(&mut self, record: &Record) -> Result<()> {
        let (number, piece) = read_record(&record.payload)?;
        let pieces = number.map(|number| self.pieces.entry((record.incarnation, number)));
        match (record.kind, pieces) {
            (COMMIT, None) => self.apply([piece]),
            (COMMIT, Some(Entry::Occupied(pieces))) => match pieces.remove() {
                pieces if pieces.is_empty() => Ok(()),
                pieces => self.apply([&pieces[..], piece]),
            },
            (_, Some(Entry::Vacant(pieces))) => {
                let defines_nothing = piece.starts_with(&[0; 4]);
                pieces.insert(if defines_nothing { Vec::new() } else { piece.to_vec() });
                Ok(())
            }
            (_, Some(Entry::Occupied(mut pieces))) => {
                if !pieces.get().is_empty() {
                    pieces.get_mut().extend_from_slice(piece);
                }
                Ok(())
            }
            (_, None) => Err(part_of_nothing()),
        }
    }

    fn apply<'p>(&mut self, pieces: impl IntoIterator<Item = &'p [u8]>) -> Result<()> {
        match &read_definitions(pieces)?[..] {
            [] => Ok(()),
            image => self.catalog.apply(image),
        }
    }
}

/// The rows of the tables that there are.
struct Rows {
    /// By the tables' numbers.
    tables: HashMap<u32, Restored>,
    /// Parts of large transactions that have not committed yet, by their numbers.
    parts: HashMap<Number, Vec<Vec<u8>>>,
    /// Behind the largest number of a table that a record has: one that was made and dropped by one transaction is in no image.
    tables_end: u32,
}

struct Restored {
    table: Arc<Table>,
    /// Columns whose values name a type that has another number now.
    lists: Vec<(usize, EnumType)>,
    /// The timestamps of the blocks' images, which have all commits up to there.
    images: Vec<Timestamp>,
}

impl Rows {
    fn of<'a>(tables: impl Iterator<Item = &'a Arc<Table>>) -> Rows {
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
        Rows { tables: tables.map(restored).collect(), parts: HashMap::new(), tables_end: 0 }
    }

    /// Puts the images of a checkpoint into the tables.
    fn load(
        &mut self,
        place: &FolderOfImages,
        manifest: &Manifest,
        progress: Option<&Progress>,
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

    fn commit(&mut self, record: &Record) -> Result<()> {
        let (number, piece) = read_record(&record.payload)?;
        let parts = number.and_then(|number| self.parts.remove(&(record.incarnation, number)));
        let parts = parts.unwrap_or_default();
        let pin = crossbeam_epoch::pin();
        let pieces = parts.iter().map(Vec::as_slice).chain([piece]);
        visit_changes(pieces, |table, row, change| match self.tables.get(&table) {
            // It was dropped later. What is made from now on must not get its number, and with it these rows.
            None => {
                self.tables_end = self.tables_end.max(table.saturating_add(1));
                Ok(())
            }
            Some(restored) if restored.has(row, record.timestamp) => Ok(()),
            Some(restored) => restored.repeat(row, record.timestamp, change, &pin),
        })
    }

    fn part(&mut self, record: &Record) -> Result<()> {
        let (number, piece) = read_record(&record.payload)?;
        let number = number.ok_or_else(part_of_nothing)?;
        self.parts.entry((record.incarnation, number)).or_default().push(piece.to_vec());
        Ok(())
    }

    fn end(self, last: Timestamp) -> Result<()> {
        let mut tasks = Vec::new();
        for Restored { table, .. } in self.tables.values() {
            let storage = Storage::of(table);
            storage.end_restoring(last, &crossbeam_epoch::pin());
            let blocks = storage.block_count();
            for (_, index) in table.maintained_indexes() {
                let starts = (0..blocks).step_by(BLOCKS_AT_ONCE);
                let ranges = starts.map(|start| start..blocks.min(start + BLOCKS_AT_ONCE));
                tasks.extend(ranges.map(|range| (storage, index, range)));
            }
        }
        on_all_processors(&tasks, |(storage, index, range)| storage.restore_entries(index, range.clone()))
    }
}

/// Blocks of which one thread enters the keys into an index.
const BLOCKS_AT_ONCE: usize = 64;

/// Does all tasks, in any order, until one fails.
fn on_all_processors<T: Sync>(tasks: &[T], work: impl Fn(&T) -> Result<()> + Sync) -> Result<()> {
    let (next, has_failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let run = || {
        while !has_failed.load(Ordering::Relaxed)
            && let Some(task) = tasks.get(next.fetch_add(1, Ordering::Relaxed))
        {
            work(task).inspect_err(|_| has_failed.store(true, Ordering::Relaxed))?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..processors().min(tasks.len())).map(|_| scope.spawn(run)).collect();
        others.into_iter().fold(run(), |outcome, other| {
            outcome.and(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })
    })
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Images on their way into tables.
struct LoadRows<'a> {
    tables: &'a HashMap<u32, Restored>,
    progress: Option<&'a Progress>,
}

impl Load for LoadRows<'_> {
    fn wants(&self, table: u32) -> bool {
        self.tables.contains_key(&table)
    }

    fn block(&self, table: u32, image: &ImageOfBlock<'_>) -> Result<()> {
        let Restored { table, lists, .. } = &self.tables[&table];
        let change = |column: usize, bytes: &[u8]| {
            let list = lists.iter().find(|(list, _)| *list == column);
            list.and_then(|(_, labels)| relabeled(bytes, *labels))
        };
        let restored = Storage::of(table).restore_block(image, &change, &crossbeam_epoch::pin());
        restored.map_err(|error| error.with_table(table.schema(), table.name()))
    }

    fn progress(&self, read: u64, total: u64) {
        if let Some(progress) = self.progress {
            progress(read, total);
        }
    }
}

impl Restored {
    /// Whether the image of the row's block has the commit.
    fn has(&self, row: RowId, commit: Timestamp) -> bool {
        self.images.get(row.block()).is_some_and(|image| commit <= *image)
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
        let labels = |column: usize| self.lists.iter().find(|(list, _)| *list == column).map(|list| list.1);
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
fn part_of_nothing() -> Error {
    Error::new(SqlState::DataCorrupted, "the log has a part of a transaction without a number")
}

#[cold]
fn unknown(kind: u8) -> Error {
    let message = format!("the log has a record of kind {kind}, which this version does not know");
    Error::new(SqlState::DataCorrupted, message)
}
