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

use crate::database::Database;
use crate::image::{Binder, RecoveredCatalog};
use crate::options::Options;
use crate::sequence::{SEQUENCE, SequenceCount};
use ankerdb_base::{Error, Result, RowId, SqlState, Timestamp};
use ankerdb_log::{Disk, LogOptions, Loss, Record, Replay, SystemDisk};
use ankerdb_table::{Cell, RestoredChange, Storage, Table};
use ankerdb_transaction::{COMMIT, PART, read_definitions, read_record, visit_changes};
use ankerdb_value::{ArrayRef, DataType, EnumType, ListType, SystemType};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::PathBuf;
use std::sync::Arc;

/// Where and how a database is kept.
#[derive(Clone)]
pub struct Durability {
    /// The folder. It is made if it is not there.
    pub folder: PathBuf,
    /// The operations on files.
    pub disk: Arc<dyn Disk>,
    /// How the log is written.
    pub log: LogOptions,
}

impl Durability {
    /// In a folder of the system's.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Durability {
        Durability { folder: folder.into(), disk: Arc::new(SystemDisk), log: LogOptions::default() }
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
        let mut recovery =
            Recovery { database: self, binder, stage: Stage::Definitions(Definitions::default()) };
        let log =
            ankerdb_log::open(durability.disk.clone(), &durability.folder, &durability.log, &mut recovery)?;
        if let Some(loss) = log.loss() {
            let _ = self.shared.loss.set(loss.clone());
        }
        let last = log.last_timestamp();
        recovery.end(last)?;
        let manager = &self.shared.manager;
        manager.go_on_behind(last);
        let watermark = Arc::downgrade(manager);
        log.start(move || watermark.upgrade().map_or(Timestamp::ZERO, |manager| manager.watermark()));
        manager.log_to(Arc::new(log));
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

    /// Writes to disk what is committed and not there yet, as after commits that did not wait for it. Later commits fail. Does nothing for
    /// a database that is kept in no folder. The last handle of a database does this when it is dropped, and tells nobody of an error.
    ///
    /// # Errors
    /// `IoError`.
    pub fn close(&self) -> Result<()> {
        self.shared.manager.close_log()
    }
}

/// The two passes over the log.
struct Recovery<'a> {
    database: &'a Database,
    binder: &'a dyn Binder,
    stage: Stage,
}

enum Stage {
    Definitions(Definitions),
    Rows(Rows),
}

impl Replay for Recovery<'_> {
    fn record(&mut self, record: Record) -> Result<()> {
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
        self.stage = Stage::Rows(Rows::of(self.database.catalog().tables()));
        Ok(true)
    }
}

impl Recovery<'_> {
    fn end(self, last: Timestamp) -> Result<()> {
        match self.stage {
            Stage::Definitions(_) => Err(Error::internal("the log is read twice")),
            Stage::Rows(rows) => {
                self.database.shared.manager.leave_tables(rows.tables_end);
                rows.end(last)
            }
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
}

impl Rows {
    fn of<'a>(tables: impl Iterator<Item = &'a Arc<Table>>) -> Rows {
        let restored = |table: &Arc<Table>| {
            let columns = table.columns().iter().enumerate();
            let lists = columns.filter_map(|(column, definition)| match definition.data_type {
                DataType::System(SystemType::List(ListType::Enum(labels))) => Some((column, labels)),
                _ => None,
            });
            (table.id().number(), Restored { table: table.clone(), lists: lists.collect() })
        };
        Rows { tables: tables.map(restored).collect(), parts: HashMap::new(), tables_end: 0 }
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
        for Restored { table, .. } in self.tables.values() {
            let storage = Storage::of(table);
            storage.end_restoring(last, &crossbeam_epoch::pin());
            for (_, index) in table.maintained_indexes() {
                storage.restore_index(index)?;
            }
        }
        Ok(())
    }
}

impl Restored {
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
