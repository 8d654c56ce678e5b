//! A backup: the images of the last checkpoint that count, and the log behind it, in one file, while the server goes on.
//!
//! ```text
//! pin        nothing that the folder needs now goes, until this ends
//! manifest   as it is now
//! images     those that count: looked at, copied
//! log        from where the manifest says, up to its end on disk: all that was acknowledged before this began, and some more
//! ```
//!
//! An incremental backup leaves out the images that the backup before it has, and the log up to where that ends. An image is the same if it lies in the
//! same place, is of the same timestamp and has the same checksum in its header.
//!
//! Nothing of the server takes part: files of images are never written again, the manifest is renamed into its place, and chunks have checksums. So it is
//! the same for a server of this process, of another one, and for none.

use crate::archive::{ArchiveWriter, Content, Ending, NO_BASE, PAYLOAD_BYTES, folder_of};
use crate::files::{FolderOfImages, file_path};
use crate::head::BackupHead;
use crate::image::{BlockName, HEADER_BYTES, header_checksum};
use crate::manifest::{ImagePlace, Manifest};
use crate::reader::{ImageLoader, read_images};
use crate::writer::{FILE_HEADER_BYTES, WriteRate};
use ankerdb_base::{Error, Result, SqlState};
use ankerdb_log::{
    Continuation, CopiedLog, Disk, LogPlace, LogStart, WallTime, Wanted, continuation, copy_log, failed,
    identity_of, pin_files, read_full,
};
use ankerdb_table::ImageOfBlock;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Images that are looked at and then copied, so that they are read from the disk once.
const IMAGES_AT_ONCE: usize = 32;
/// What is written between two syncs, so that a flush of the log does not queue behind much.
const SYNCED_AT_ONCE: u64 = 8 << 20;

/// A backup that was made.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct BackupReport {
    /// The number of the checkpoint in it.
    pub checkpoint: u64,
    /// Images of that checkpoint.
    pub images: u64,
    /// Those of them that are in the file.
    pub images_copied: u64,
    /// The number of the last chunk of the log in it.
    pub chunks: u64,
    /// The first moment as of which it can be restored; of an incremental one, without more of the log before it.
    pub earliest: WallTime,
    /// The last one.
    pub latest: WallTime,
    /// Bytes of the file.
    pub bytes: u64,
    /// How long it took.
    pub duration: Duration,
}

/// What the maker of a backup does between two pieces: waits for so long, or ends it.
pub type Between<'a> = &'a dyn Fn(Duration) -> Result<()>;

/// What is to be written.
#[derive(Clone, Copy, Debug)]
pub struct NewBackup<'a> {
    /// The file. It must not be there.
    pub file: &'a Path,
    /// The backup that an incremental one is made since; `None` for a full one.
    pub since: Option<&'a Path>,
}

/// Makes a backup of the database in a folder, whether or not a server is at work there.
///
/// # Errors
/// 55006 if another backup is being made of it; 58P02 if the file is there already; XX001 if what is to be copied, or the beginning or the end of
/// the backup before, is damaged; 22023 if that is another database's, 0A000 if it is of version 1, 55000 if the database has gone another way since, or if
/// there is no database; those of the disk and of `between`. There is no file then.
pub fn backup(
    disk: &Arc<dyn Disk>,
    folder: &Path,
    new: &NewBackup<'_>,
    pace: WriteRate,
    between: Between<'_>,
) -> Result<BackupReport> {
    let began = Instant::now();
    refuse_existing(&**disk, new.file)?;
    let (database, identity) = identity_of(&**disk, folder)?;
    let base = new.since.map(|path| BackupHead::read(&**disk, path)).transpose()?;
    let _pin = pin_files(&**disk, folder)?;
    let place = FolderOfImages { disk: disk.clone(), folder: folder.to_owned(), database };
    let manifest = Manifest::read(&**disk, folder, database)?;
    let start = manifest.as_ref().map_or(LogStart::default(), |manifest| manifest.start);
    let from = match &base {
        Some(base) => log_since(&place, base, &start)?,
        None => LogPlace::from(&start),
    };
    let base_bits = base.as_ref().map_or(NO_BASE, |base| base.name.backup);
    let archive = ArchiveWriter::create(&**disk, new.file, database, base_bits)?;
    let mut copy = Copy { archive, base, images_copied: 0, unsynced_from: 0, pace, began, between };
    match copy.all(&place, &identity, manifest.as_ref(), from) {
        Ok(ending) => {
            let manifest = manifest.unwrap_or_default();
            Ok(BackupReport {
                checkpoint: manifest.number,
                images: manifest.images.len() as u64,
                images_copied: copy.images_copied,
                chunks: ending.end.chunks,
                earliest: ending.earliest,
                latest: ending.latest,
                bytes: copy.archive.finish(&ending)?,
                duration: began.elapsed(),
            })
        }
        Err(error) => {
            copy.archive.discard();
            Err(error)
        }
    }
}

/// Where the log of an incremental backup begins: where the one before ends, if the folder still has that, else where its manifest says.
fn log_since(place: &FolderOfImages, base: &BackupHead<'_>, start: &LogStart) -> Result<LogPlace> {
    let (folder, file) = (place.folder.display(), base.path.display());
    if base.name.database != place.database {
        let message = format!("\"{file}\" is a backup of another database than that in \"{folder}\"");
        return Err(Error::new(SqlState::InvalidParameterValue, message)
            .with_hint("Name a backup of this database, or make a full one."));
    }
    let ending = base.known_ending()?;
    let wanted = Wanted { database: place.database, from: ending.end, chunks: 0 };
    match continuation(&*place.disk, &place.folder, &wanted, (&ending.last, start))? {
        Continuation::Whole => Ok(ending.end),
        Continuation::Gone => Ok(LogPlace::from(start)),
        Continuation::Other => {
            let message = format!(
                "the database in \"{folder}\" has gone another way since \"{file}\" was made: chunk {} of its log is another one",
                ending.end.chunks
            );
            let hint = "Make a full backup, or name one that was made of this folder.";
            Err(Error::new(SqlState::ObjectNotInPrerequisiteState, message).with_hint(hint))
        }
    }
}

/// 58P02: nothing is written over.
fn refuse_existing(disk: &dyn Disk, file: &Path) -> Result<()> {
    let folder = folder_of(file);
    let names = disk.list(folder).map_err(failed("list the folder", folder))?;
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned());
    let Some(name) = name else {
        let message = format!("\"{}\" is no name of a file", file.display());
        return Err(Error::new(SqlState::InvalidParameterValue, message));
    };
    if names.contains(&name) {
        let message = format!("the file \"{}\" is there already", file.display());
        return Err(
            Error::new(SqlState::DuplicateFile, message).with_hint("Name another file, or remove it.")
        );
    }
    Ok(())
}

struct Copy<'a> {
    archive: ArchiveWriter<'a>,
    base: Option<BackupHead<'a>>,
    images_copied: u64,
    unsynced_from: u64,
    pace: WriteRate,
    began: Instant,
    between: Between<'a>,
}

impl Copy<'_> {
    /// Returns what the last frame says.
    fn all(
        &mut self,
        place: &FolderOfImages,
        identity: &[u8],
        manifest: Option<&Manifest>,
        from: LogPlace,
    ) -> Result<Ending> {
        self.write(Content::Identity, 0, 0, identity)?;
        if let Some(manifest) = manifest {
            self.write(Content::Manifest, 0, 0, &manifest.encode(place.database))?;
            self.images(place, manifest)?;
        }
        let chunks = manifest.map_or(0, |manifest| manifest.chunks);
        let wanted = Wanted { database: place.database, from, chunks };
        // What is acknowledged now is in what is copied.
        let latest = WallTime::now();
        let copied = copy_log(&*place.disk, &place.folder, &wanted, &mut |segment, offset, bytes| {
            self.write(Content::Segment, segment, offset, bytes)
        })?;
        let CopiedLog { from, end, last, first_time, last_time } = copied;
        let made = manifest.map_or(WallTime::UNKNOWN, |manifest| manifest.time);
        let earliest = if made.is_known() { made } else { first_time };
        // Where nothing was copied, the log still ends with the chunk that the backup before has there.
        let before = self.base.as_ref().and_then(|base| base.ending).map(|ending| ending.last);
        let last = if last.offset == 0 && from == end { before.unwrap_or(last) } else { last };
        Ok(Ending { from, end, last, earliest, latest: latest.max(last_time) })
    }

    /// Copies the images that the backup before does not have.
    fn images(&mut self, place: &FolderOfImages, manifest: &Manifest) -> Result<()> {
        let mut files: BTreeMap<u64, Vec<(BlockName, ImagePlace)>> = BTreeMap::new();
        let mut sums = Vec::new();
        for (name, image, sum) in checksums(place, manifest)? {
            sums.extend_from_slice(&sum.to_le_bytes());
            if self.base.as_ref().is_none_or(|base| !base.has(&name, &image, sum)) {
                files.entry(image.file).or_default().push((name, image));
            }
        }
        self.write(Content::Checksums, 0, 0, &sums)?;
        for (number, mut images) in files {
            images.sort_by_key(|(_, image)| image.offset);
            self.copy_from(place, number, 0, FILE_HEADER_BYTES)?;
            for images in images.chunks(IMAGES_AT_ONCE) {
                let mut part = Manifest { images: images.iter().copied().collect(), ..Manifest::default() };
                part.files.insert(number, manifest.files.get(&number).copied().unwrap_or_default());
                read_images(place, &part, 1, &Looks)?;
                for (_, image) in images {
                    self.copy_from(place, number, image.offset, image.bytes)?;
                    self.images_copied += 1;
                }
            }
        }
        Ok(())
    }

    /// Copies bytes of a file of images.
    fn copy_from(&mut self, place: &FolderOfImages, number: u64, offset: u64, length: u64) -> Result<()> {
        let path = file_path(&place.folder, number);
        let file = place.disk.open(&path).map_err(failed("open", &path))?;
        let mut at = offset;
        let mut bytes = Vec::new();
        while at < offset + length {
            let piece = (offset + length - at).min(PAYLOAD_BYTES as u64) as usize;
            bytes.clear();
            bytes.try_reserve_exact(piece).map_err(|_| Error::out_of_memory(piece))?;
            bytes.resize(piece, 0);
            if read_full(&*file, &mut bytes, at).map_err(failed("read", &path))? < piece {
                return Err(crate::bytes::damaged(&path, at, "it ends too early"));
            }
            self.write(Content::Images, number, at, &bytes)?;
            at += piece as u64;
        }
        Ok(())
    }

    fn write(&mut self, content: Content, number: u64, offset: u64, bytes: &[u8]) -> Result<()> {
        self.archive.write(content, number, offset, bytes)?;
        let written = self.archive.bytes();
        if written - self.unsynced_from >= SYNCED_AT_ONCE {
            self.archive.sync()?;
            self.unsynced_from = written;
        }
        let due = self.pace.bytes_per_second.map_or(0.0, |rate| written as f64 / rate.max(1) as f64);
        (self.between)(Duration::from_secs_f64(due).saturating_sub(self.began.elapsed()))
    }
}

/// The images of a manifest, each with the checksum in its header.
fn checksums(place: &FolderOfImages, manifest: &Manifest) -> Result<Vec<(BlockName, ImagePlace, u32)>> {
    let mut found = Vec::with_capacity(manifest.images.len());
    let mut files = BTreeMap::new();
    for (name, image) in &manifest.images {
        let path = file_path(&place.folder, image.file);
        let file = match files.entry(image.file) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(free) => free.insert(place.disk.open(&path).map_err(failed("open", &path))?),
        };
        let mut header = [0; HEADER_BYTES];
        read_full(&**file, &mut header, image.offset).map_err(failed("read", &path))?;
        found.push((*name, *image, header_checksum(&header)));
    }
    Ok(found)
}

/// Looks at images, of which the bytes are copied afterwards.
pub(crate) struct Looks;

impl ImageLoader for Looks {
    fn wants(&self, _table: u32) -> bool {
        true
    }

    fn block(&self, _table: u32, _image: &ImageOfBlock<'_>) -> Result<()> {
        Ok(())
    }
}
