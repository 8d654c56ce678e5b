//! Opening a database that is kept in a folder: what its log tells is repeated (docs/design/durability.md).
//!
//! ```text
//! 0 the manifest of the checkpoint      its catalog; where in the log to begin
//! 1 read the log, definitions only      the catalog as it was at the end; its tables are made, empty
//! 2 images of the checkpoint            rows into their places
//!   read the log again, changes         the same with what was committed later; of tables that are in the catalog
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
use crate::recovered_rows::{Number, RecoveredRows, part_of_nothing};
use crate::recovery_report::RecoveryReport;
use crate::sequence::{SEQUENCE, SequenceCount};
use ankerdb_base::{Error, Result, SqlState, Timestamp};
use ankerdb_checkpoint::{FolderOfImages, Manifest};
use ankerdb_log::{Disk, Log, LogOptions, LogStart, Loss, Record, Replay, SystemDisk};
use ankerdb_transaction::{COMMIT, PART, read_definitions, read_record};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

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
    /// Those of [`open`](Self::open) and of opening the log; `DataCorrupted` if the log tells of what cannot have been; those of the
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
        let begun = Instant::now();
        let Recovered { log, place, manifest, repeated } = self.read_folder(durability, binder)?;
        let checkpoints = Checkpoints::new(place, durability.checkpoints, manifest)?;
        let _ = self.shared.checkpoints.set(checkpoints);
        let folder = durability.folder.canonicalize().unwrap_or_else(|_| durability.folder.clone());
        let report = RecoveryReport { folder, duration: begun.elapsed(), ..repeated };
        let _ = self.shared.recovery.set(report);
        let manager = &self.shared.manager;
        let watermark = Arc::downgrade(manager);
        log.start(move || watermark.upgrade().map_or(Timestamp::ZERO, |manager| manager.watermark()));
        manager.log_to(Arc::new(log));
        if self.loss_splits_commits() {
            // What was given up is not missed by the next start. If there is no room, that has to be told once more that it may be.
            let _ = self.checkpoint(&|| Ok(()));
        }
        let _ = self.checkpointer.set(Checkpointer::start(Arc::downgrade(&self.shared))?);
        Ok(())
    }

    /// Puts what a folder has into this database, which is empty. Nothing goes to the log yet.
    pub(crate) fn read_folder(&self, durability: &Durability, binder: &dyn Binder) -> Result<Recovered> {
        let mut recovery = Recovery {
            database: self,
            binder,
            durability,
            checkpoint: None,
            stage: Stage::Definitions(Definitions::default()),
            repeated: RecoveryReport::default(),
        };
        let log =
            ankerdb_log::open(durability.disk.clone(), &durability.folder, &durability.log, &mut recovery)?;
        if let Some(loss) = log.loss() {
            let _ = self.shared.loss.set(loss.clone());
        }
        let last = recovery.last_timestamp(&log)?;
        let repeated = std::mem::take(&mut recovery.repeated);
        let (place, manifest) = recovery.end(last)?;
        self.shared.manager.go_on_behind(last);
        Ok(Recovered { log, place, manifest, repeated })
    }
}

/// What was read of a folder, rows and definitions aside.
pub(crate) struct Recovered {
    pub(crate) log: Log,
    pub(crate) place: FolderOfImages,
    pub(crate) manifest: Manifest,
    /// What was repeated of the log.
    pub(crate) repeated: RecoveryReport,
}

/// The two passes over the log.
struct Recovery<'a> {
    database: &'a Database,
    binder: &'a dyn Binder,
    durability: &'a Durability,
    /// The checkpoint, if there is one, and where its images are.
    checkpoint: Option<(FolderOfImages, Manifest)>,
    stage: Stage,
    /// Records of the log that were repeated up to now.
    repeated: RecoveryReport,
}

enum Stage {
    Definitions(Definitions),
    Rows(RecoveredRows),
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
        if let Stage::Rows(_) = self.stage {
            self.repeated.records += 1;
            self.repeated.bytes += record.payload.len() as u64;
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
        let mut rows = RecoveredRows::of(self.database.catalog().tables());
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
        if log.chunks() < manifest.chunks && self.durability.log.recover_to_last_valid {
            let shared = &self.database.shared;
            let unknown = || Loss { file: place.folder.clone(), offset: 0, bytes: 0 };
            shared.loss.get_or_init(unknown);
            shared.splits_commits.store(true, Ordering::Relaxed);
        } else if log.chunks() < manifest.chunks {
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
                Stage::Rows(rows) => rows.forget(number),
            }
        }
        Ok(())
    }

    fn end(self, last: Timestamp) -> Result<(FolderOfImages, Manifest)> {
        match (self.stage, self.checkpoint) {
            (Stage::Rows(rows), Some(checkpoint)) => {
                self.database.shared.manager.leave_tables(rows.end(last)?);
                Ok(checkpoint)
            }
            _ => Err(Error::internal("the log is read twice")),
        }
    }
}

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

#[cold]
fn unknown(kind: u8) -> Error {
    let message = format!("the log has a record of kind {kind}, which this version does not know");
    Error::new(SqlState::DataCorrupted, message)
}
