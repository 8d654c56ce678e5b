//! Making checkpoints (docs/design/checkpoints.md).
//!
//! ```text
//! 1 where the log begins that is needed besides, and T: commits up to it are visible, and will not be read again
//! 2 each block that has changed since its image was made: a snapshot of its own, its image, the snapshot goes
//! 3 images on disk; the catalog as it is now; everything that is visible now, on disk
//! 4 the manifest takes its place
//! 5 files without an image that counts, and segments of the log in front of the place, go
//! ```
//!
//! Nobody waits for any of it. A block that has not changed since its image was made keeps that: all commits up to T were visible when it
//! was looked at, so the image has them. What is committed behind T is in the log, and in some images, whose timestamps say so.

use crate::catalog::Catalog;
use crate::image::{CatalogChange, RecoveredCatalog};
use crate::sequence::{BYTES, SequenceCount};
use ankerdb_base::{BlockNumber, Error, Result, SqlState, Timestamp};
use ankerdb_checkpoint::{BlockName, FolderOfImages, Manifest, WriteRate, Writer};
use ankerdb_log::WallTime;
use ankerdb_snapshot::SnapshotStrategy;
use ankerdb_table::{CellLayout, Storage, Table};
use ankerdb_transaction::TransactionManager;
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// When checkpoints are made, and at which rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CheckpointOptions {
    /// One is due when the log has grown by so many bytes since the last one began.
    pub log_bytes: u64,
    /// One is due after this time if anything was committed.
    pub interval: Duration,
    /// Bytes of images written each second at most; `None` for as fast as it goes. It goes as fast as it can, too, while somebody waits, or
    /// when the log has grown by three times what makes one due.
    pub bytes_per_second: Option<u64>,
}

impl Default for CheckpointOptions {
    /// 256 MiB, five minutes, 64 MiB each second.
    fn default() -> CheckpointOptions {
        CheckpointOptions {
            log_bytes: 256 << 20,
            interval: Duration::from_secs(300),
            bytes_per_second: Some(64 << 20),
        }
    }
}

/// A checkpoint that was made.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CheckpointReport {
    /// How many there have been in this folder, this one included.
    pub number: u64,
    /// Commits up to here will not be read from the log again.
    pub timestamp: Timestamp,
    /// Blocks in it.
    pub blocks: u64,
    /// Those of them that were written, since they had changed or their files were mostly unused.
    pub blocks_written: u64,
    /// Bytes written, the manifest included.
    pub bytes_written: u64,
    /// From its beginning to its end.
    pub duration: Duration,
}

/// What checkpoints are made of.
#[derive(Clone, Copy)]
pub(crate) struct State<'a> {
    pub manager: &'a TransactionManager,
    pub catalog: &'a RwLock<Arc<Catalog>>,
    /// The last number of anything but a table.
    pub numbers: &'a AtomicU64,
}

/// The checkpoints of a database.
pub(crate) struct Checkpoints {
    place: FolderOfImages,
    options: CheckpointOptions,
    /// Held while one is made.
    last: Mutex<Last>,
    /// Those who wait for one.
    waiting: AtomicUsize,
    report: Mutex<Option<CheckpointReport>>,
    /// Of the last one in the background.
    failure: Mutex<Option<Error>>,
}

struct Last {
    manifest: Manifest,
    /// The number of the next file.
    next_file: u64,
    /// How long the log was when the last one began, and when that was.
    log_bytes: u64,
    began: Instant,
}

/// What the maker of a checkpoint does between two blocks: waits for so long, or ends it.
type Between<'a> = &'a dyn Fn(Duration) -> Result<()>;

impl Checkpoints {
    /// Those behind the last one in the folder, if there is one.
    ///
    /// # Errors
    /// Those of the disk.
    pub(crate) fn new(
        place: FolderOfImages,
        options: CheckpointOptions,
        manifest: Manifest,
    ) -> Result<Checkpoints> {
        let (next_file, began) = (place.next_file(&manifest)?, Instant::now());
        let last = Mutex::new(Last { manifest, next_file, log_bytes: 0, began });
        let (waiting, report, failure) = (AtomicUsize::new(0), Mutex::new(None), Mutex::new(None));
        Ok(Checkpoints { place, options, last, waiting, report, failure })
    }

    /// Where they are.
    pub(crate) fn place(&self) -> &FolderOfImages {
        &self.place
    }

    /// The last one that was made since the database was opened.
    pub(crate) fn last_report(&self) -> Option<CheckpointReport> {
        *self.report.lock()
    }

    /// Notes how the last one in the background has ended.
    pub(crate) fn note_failure(&self, failure: Option<&Error>) {
        *self.failure.lock() = failure.cloned();
    }

    /// Why the last one in the background was not made.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.failure.lock().clone()
    }

    /// Whether one should be made, unless one is being made.
    pub(crate) fn is_due(&self, state: State<'_>) -> bool {
        let Some((last, log)) = self.last.try_lock().zip(state.manager.log()) else { return false };
        let is_new = state.manager.watermark() > last.manifest.start.timestamp;
        let grown = log.bytes_written().saturating_sub(last.log_bytes);
        is_new && (grown >= self.options.log_bytes || last.began.elapsed() >= self.options.interval)
    }

    /// Makes one at once, as fast as it goes; `None` if nothing was committed since the last one. Waits for one that is being made.
    pub(crate) fn make_now(
        &self,
        state: State<'_>,
        check: &dyn Fn() -> Result<()>,
    ) -> Result<Option<CheckpointReport>> {
        struct Waits<'a>(&'a AtomicUsize);
        impl Drop for Waits<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waits = Waits(&self.waiting);
        let mut last = loop {
            if let Some(last) = self.last.try_lock_for(Duration::from_millis(20)) {
                break last;
            }
            check()?;
        };
        self.make(state, &mut last, &|_| check())
    }

    /// Makes one at the rate that was chosen.
    pub(crate) fn make_at_rate(&self, state: State<'_>, between: Between<'_>) -> Result<()> {
        let Some(mut last) = self.last.try_lock() else { return Ok(()) };
        self.make(state, &mut last, between).map(drop)
    }

    fn make(
        &self,
        state: State<'_>,
        last: &mut Last,
        between: Between<'_>,
    ) -> Result<Option<CheckpointReport>> {
        let Some(log) = state.manager.log() else { return Ok(None) };
        (last.log_bytes, last.began) = (log.bytes_written(), Instant::now());
        let Some(start) = state.manager.checkpoint_start() else { return Ok(None) };
        // A log that has lost its end has fewer chunks than the last one wants, and the next start would miss them.
        if start.timestamp <= last.manifest.start.timestamp && log.chunks() >= last.manifest.chunks {
            return Ok(None);
        }
        let mut next = last.manifest.next();
        next.start = start;
        let mut writer = Writer::new(self.place.clone(), last.next_file);
        let made = self.write(state, last, &mut next, &mut writer, between);
        last.next_file = writer.next_file();
        let (blocks_written, image_bytes) = match made {
            Ok(blocks) => (blocks, writer.bytes_written()),
            Err(error) => {
                // What was written counts for nothing; if it cannot be removed, the next checkpoint tries again.
                let _ = self.place.clean(&last.manifest);
                return Err(error);
            }
        };
        let manifest_bytes = match next.switch(&*self.place.disk, &self.place.folder, self.place.database) {
            Ok(bytes) => bytes,
            Err(failure) => {
                if !failure.may_be_there {
                    let _ = self.place.clean(&last.manifest);
                }
                return Err(failure.error);
            }
        };
        let report = CheckpointReport {
            number: next.number,
            timestamp: next.start.timestamp,
            blocks: next.images.len() as u64,
            blocks_written,
            bytes_written: image_bytes + manifest_bytes,
            duration: last.began.elapsed(),
        };
        *self.report.lock() = Some(report);
        last.manifest = next;
        self.place.clean(&last.manifest)?;
        log.give_up_before(last.manifest.start.segment)?;
        Ok(Some(report))
    }

    /// Everything but the switch. Returns how many images were written.
    fn write(
        &self,
        state: State<'_>,
        last: &Last,
        next: &mut Manifest,
        writer: &mut Writer,
        between: Between<'_>,
    ) -> Result<u64> {
        let catalog = state.catalog.read().clone();
        let mut images = Images {
            state,
            rewritten: last.manifest.files_to_rewrite(),
            before: &last.manifest,
            next,
            writer,
            written: 0,
        };
        for table in catalog.tables().filter(|table| table.is_logged()) {
            for number in Storage::of(table).block_numbers() {
                if images.take(table, number)? {
                    let pause = images.writer.pause(self.pace(state, last));
                    between(pause)?;
                }
            }
        }
        let written = images.written;
        let lengths = writer.finish()?;
        // The catalog as it is now, and behind it: what is in it is visible and on disk when this is done.
        next.catalog = encode_catalog(state, &state.catalog.read().clone())?;
        next.last_timestamp = state.manager.make_durable()?;
        next.chunks = state.manager.log().map_or(0, |log| log.chunks());
        next.time = WallTime::now();
        next.name_files(&last.manifest, lengths);
        Ok(written)
    }

    fn pace(&self, state: State<'_>, last: &Last) -> WriteRate {
        let log_bytes = state.manager.log().map_or(0, |log| log.bytes_written());
        let is_late = log_bytes.saturating_sub(last.log_bytes) > 3 * self.options.log_bytes;
        let hurries = is_late || self.waiting.load(Ordering::Relaxed) > 0;
        WriteRate { bytes_per_second: self.options.bytes_per_second.filter(|_| !hurries) }
    }
}

/// The images of a checkpoint that is being made.
struct Images<'a> {
    state: State<'a>,
    before: &'a Manifest,
    /// Files of which all images that count are written anew.
    rewritten: BTreeSet<u64>,
    next: &'a mut Manifest,
    writer: &'a mut Writer,
    written: u64,
}

impl Images<'_> {
    /// Takes a block into the checkpoint; returns whether an image was written.
    fn take(&mut self, table: &Table, number: BlockNumber) -> Result<bool> {
        let block = u32::try_from(number.0).map_err(|_| Error::internal("a table has fewer blocks"))?;
        let name = BlockName { table: table.id().number(), block };
        let changed = Storage::of(table).block(number).last_change();
        match self.before.images.get(&name) {
            Some(place) if changed <= place.timestamp && !self.rewritten.contains(&place.file) => {
                self.next.images.insert(name, *place);
                return Ok(false);
            }
            None if changed == Timestamp::ZERO => return Ok(false),
            _ => {}
        }
        let columns: Vec<usize> = (0..table.columns().len()).collect();
        let layouts: Vec<CellLayout> = columns.iter().map(|column| table.layout(*column)).collect();
        // One for each block, so that no version is kept for long.
        let snapshot = self.state.manager.snapshot().by(SnapshotStrategy::InPlace);
        let image = snapshot.read_block(table, number, &columns)?;
        let place = self.writer.write(name, snapshot.timestamp(), &image, &layouts)?;
        self.next.images.insert(name, place);
        self.written += 1;
        Ok(true)
    }
}

/// The version of what a checkpoint has of the catalog.
const VERSION: u8 = 1;

/// Numbers that are not given again, how far sequences may have counted, and the catalog's image.
fn encode_catalog(state: State<'_>, catalog: &Catalog) -> Result<Vec<u8>> {
    let image = CatalogChange::whole(catalog).encode()?;
    let sequences: Vec<_> = catalog.sequences.values().collect();
    let mut out = Vec::new();
    let length = 17 + sequences.len() * BYTES + image.len();
    out.try_reserve_exact(length).map_err(|_| Error::out_of_memory(length))?;
    out.push(VERSION);
    out.extend_from_slice(&state.manager.tables_end().to_le_bytes());
    out.extend_from_slice(&state.numbers.load(Ordering::Relaxed).to_le_bytes());
    out.extend_from_slice(&(sequences.len() as u32).to_le_bytes());
    for sequence in sequences {
        out.extend_from_slice(&sequence.told().to_bytes(sequence.number()));
    }
    out.extend_from_slice(&image);
    Ok(out)
}

/// Makes the catalog of a checkpoint that of a recovery, which goes on with what the log tells.
pub(crate) fn recover_catalog(bytes: &[u8], catalog: &mut RecoveredCatalog) -> Result<()> {
    let damaged = || Error::new(SqlState::DataCorrupted, "the catalog of the checkpoint is none");
    let (&[version], rest) = bytes.split_first_chunk().ok_or_else(damaged)?;
    if version != VERSION {
        return Err(damaged());
    }
    let (tables_end, rest) = rest.split_first_chunk().ok_or_else(damaged)?;
    let (numbers, rest) = rest.split_first_chunk().ok_or_else(damaged)?;
    let (count, rest) = rest.split_first_chunk().ok_or_else(damaged)?;
    let count = u32::from_le_bytes(*count) as usize;
    let length = count.checked_mul(BYTES).ok_or_else(damaged)?;
    let (sequences, image) = rest.split_at_checked(length).ok_or_else(damaged)?;
    catalog.apply(image)?;
    if let Some(last) = u32::from_le_bytes(*tables_end).checked_sub(1) {
        catalog.note_table(last);
    }
    catalog.note_numbers(u64::from_le_bytes(*numbers));
    for sequence in sequences.chunks_exact(BYTES) {
        let (number, count) = SequenceCount::of_bytes(sequence)?;
        catalog.note_sequence(number, count);
    }
    Ok(())
}
