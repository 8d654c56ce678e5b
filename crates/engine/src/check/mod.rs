//! Looking at a database that is kept in a folder, without changing anything there (docs/design/backup.md).
//!
//! ```text
//! 1 files      identity, manifest, every image, every chunk of the log; that the log reaches as far as the checkpoint
//! 2 recovery   as a start does it, over a disk that keeps in memory what is written
//! 3 tables     each row: its entries, its constraints, the rows that it refers to; each entry: its row, no second one of a unique key
//! ```
//!
//! Damage is told place by place, for as much as there is. What comes behind a step with faults would only tell of them once more, so it is
//! left out.

mod faults;
mod references;
mod tables;

#[cfg(test)]
mod tests;

use crate::database::Database;
use crate::image::Binder;
use crate::options::Options;
use crate::processors::processors;
use crate::recovery::Durability;
use ankerdb_base::{Error, Result};
use ankerdb_checkpoint::{FolderOfImages, Manifest, verify_images};
use ankerdb_log::{Disk, ReadOnlyDisk, identify, lock_folder, tell_fault, verify_log};
pub use faults::FAULTS_TOLD;
use faults::Faults;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a check is at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CheckStage {
    /// Reading files; told with bytes.
    Files,
    /// Recovering; told with bytes.
    Recovery,
    /// Looking at rows and entries of indexes; told with their number.
    Tables,
}

/// Called with how much is done, of how much, from any thread.
pub type CheckProgress = Arc<dyn Fn(CheckStage, u64, u64) + Send + Sync>;

/// What a check has found.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// The first faults, [`FAULTS_TOLD`] at most. Each names a file and an offset, or a table, an index or constraint and a key, and its hint
    /// says what to do.
    pub faults: Vec<Error>,
    /// How many there are.
    pub fault_count: u64,
    /// Whether tables were looked at: not if files are damaged.
    pub has_seen_tables: bool,
    /// Tables.
    pub tables: u64,
    /// Their rows.
    pub rows: u64,
    /// Their indexes.
    pub indexes: u64,
    /// Images of blocks that count.
    pub images: u64,
    /// Their bytes.
    pub image_bytes: u64,
    /// Segments of the log that a start reads.
    pub segments: u64,
    /// Good chunks in them.
    pub chunks: u64,
    /// Bytes of these chunks.
    pub log_bytes: u64,
    /// Bytes of a last chunk that is torn. It was acknowledged to nobody, and the next start cuts it off.
    pub torn_bytes: u64,
    /// How long it took.
    pub duration: Duration,
}

impl Database {
    /// Looks whether the database in a folder is whole: its files, and what a start would make of them. Changes nothing there. Takes the
    /// memory of the database, and the time of two starts, about.
    ///
    /// # Errors
    /// What keeps from looking: `ObjectInUse` if a server is at work in the folder, `ObjectNotInPrerequisiteState` if there is no database
    /// in it, `UndefinedFile` if there is no such folder, `FeatureNotSupported` if it is of a newer version, `InsufficientPrivilege` if
    /// it cannot be read, `OutOfMemory`.
    pub fn check(
        folder: &Path,
        options: impl Into<Options>,
        binder: &dyn Binder,
        progress: &CheckProgress,
    ) -> Result<CheckReport> {
        let begun = Instant::now();
        let disk: Arc<dyn Disk> = Arc::new(ReadOnlyDisk::new());
        let _lock = lock_folder(&*disk, folder)?;
        let faults = Faults::default();
        let mut report = CheckReport::default();
        if let Some(database) = faults.of(identify(&*disk, folder))? {
            let place = FolderOfImages { disk: disk.clone(), folder: folder.to_owned(), database };
            check_files(&place, &faults, &mut report, progress)?;
        }
        if faults.are_none() {
            let database = Database::open(options)?;
            let mut durability = Durability { disk, ..Durability::in_folder(folder) };
            let progress_of_recovery = progress.clone();
            let told = move |read, total| progress_of_recovery(CheckStage::Recovery, read, total);
            durability.log.progress = Some(Arc::new(told));
            let recovered = database.read_folder(&durability, binder).map(drop);
            if faults.of_recovery(recovered)?.is_some() {
                report.has_seen_tables = true;
                check_tables(&database, &faults, &mut report, progress)?;
            }
        }
        (report.faults, report.fault_count) = faults.told();
        report.duration = begun.elapsed();
        Ok(report)
    }
}

/// Looks at all that has a checksum.
fn check_files(
    place: &FolderOfImages,
    faults: &Faults,
    report: &mut CheckReport,
    progress: &CheckProgress,
) -> Result<()> {
    let Some(manifest) = faults.of(Manifest::read(&*place.disk, &place.folder, place.database))? else {
        return Ok(());
    };
    let manifest = manifest.unwrap_or_default();
    report.images = manifest.images.len() as u64;
    report.image_bytes = manifest.images.values().map(|image| image.bytes).sum();
    let told = |read, total| progress(CheckStage::Files, read, total);
    verify_images(place, &manifest, processors(), &told, &mut |fault| faults.tell(fault))?;
    let wanted = (place.database, &manifest.start, manifest.chunks);
    let log = verify_log(&*place.disk, &place.folder, wanted, &told, &mut |fault| faults.tell(fault))?;
    (report.segments, report.chunks) = (log.segments, log.chunks);
    (report.log_bytes, report.torn_bytes) = (log.bytes, log.torn_bytes);
    Ok(())
}

/// Looks at rows, entries and constraints of a database that nobody changes meanwhile.
fn check_tables(
    database: &Database,
    faults: &Faults,
    report: &mut CheckReport,
    progress: &CheckProgress,
) -> Result<()> {
    let catalog = database.catalog();
    for table in catalog.tables() {
        report.tables += 1;
        report.rows += table.row_count() as u64;
        report.indexes += table.maintained_indexes().count() as u64;
    }
    tables::check(&catalog, faults, &|done, total| progress(CheckStage::Tables, done, total))
}

impl Faults {
    /// What there is, if it is no fault.
    fn of<T>(&self, outcome: Result<T>) -> Result<Option<T>> {
        match outcome {
            Ok(there) => Ok(Some(there)),
            Err(error) => tell_fault(error, &mut |fault| self.tell(fault)).map(|()| None),
        }
    }
}
