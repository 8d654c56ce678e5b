//! A folder made of backups: of a full one, of incremental ones upon it, and of the log behind them, up to a moment or all of it.
//!
//! ```text
//! restoring              a mark, with which no server starts
//! images, segments       as the parts of the backups come, each checked before it is written; those that the result does not need are left out
//! (log)                  what a folder has of the log behind the last backup
//! (cut)                  what was written after the moment goes
//! checkpoint, identity   when all backups have come to their ends, and all files are on disk
//! (the mark goes)
//! ```

use crate::archive::{ArchiveReader, Content, damaged_backup};
use crate::backup::Looks;
use crate::chain::Chain;
use crate::files::{FolderOfImages, file_path};
use crate::manifest::{Manifest, NAME};
use crate::reader::read_images;
use ankerdb_base::{Error, Result, SqlState};
use ankerdb_log::{
    Continuation, Disk, DiskFile, LogPlace, LogStart, RestoredFolder, WallTime, Wanted, continuation,
    copy_log, cut_at, failed, identity_of, pin_files, segment_length, segment_path, write_full,
};
use std::any::Any;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a folder is to be made of.
#[derive(Clone, Copy, Debug)]
pub struct Restored<'a> {
    /// A full backup, and incremental ones, each made since the one before.
    pub backups: &'a [&'a Path],
    /// A folder with the log that goes on behind the last backup, in which a server may be at work.
    pub log: Option<&'a Path>,
    /// Commits up to then: those that were acknowledged before it, and none that became visible later. `None` for all that there are.
    pub until: Option<WallTime>,
}

/// A folder that was made.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RestoreReport {
    /// Files in it that have the database.
    pub files: u64,
    /// Bytes of the backups.
    pub bytes: u64,
    /// Whether there was something that was written after the moment, and is left out.
    pub is_cut: bool,
    /// How long it took.
    pub duration: Duration,
}

/// Makes a folder, which must be empty or not there. A server that starts there has what the backups have, and the log behind them.
///
/// # Errors
/// XX001 if a backup is damaged, 0A000 if it is of a newer format, or of one that has no times; 22023 if the backups do not belong together, or do
/// not have that moment; 55000 if the folder is not empty, or if the log does not go on behind the last backup; those of the disk. The folder is none of a database
/// then, and says so.
pub fn restore(
    disk: &Arc<dyn Disk>,
    what: &Restored<'_>,
    folder: &Path,
    progress: &dyn Fn(u64, u64),
) -> Result<RestoreReport> {
    let began = Instant::now();
    let chain = Chain::read(&**disk, what.backups)?;
    let behind = what.log.map(|log| LogBehind::of(&**disk, log, &chain)).transpose()?;
    let needed = chain.needed(what.until, behind.as_ref().map(|behind| behind.latest))?;
    let backup = &chain.backups[needed.images];
    let target = RestoredFolder::begin(&**disk, folder)?;
    let mut files = Files::of(&**disk, folder, &backup.manifest);
    let total = chain.backups[..=needed.log].iter().map(|backup| backup.bytes).sum();
    let (mut identity, mut read) = (Vec::new(), 0);
    for (number, part) in chain.backups[..=needed.log].iter().enumerate() {
        let of_images = number <= needed.images;
        files.of_backup(part.path, of_images, &mut identity, &|bytes| progress(read + bytes, total))?;
        read += part.bytes;
    }
    if let Some(behind) = behind.filter(|_| needed.log + 1 == chain.backups.len()) {
        behind.copy(&**disk, &mut files)?;
    }
    let database = backup.name.database;
    let cut = match what.until {
        Some(until) => {
            files.park()?;
            let start =
                if backup.manifest_bytes.is_empty() { LogStart::default() } else { backup.manifest.start };
            cut_at(&**disk, folder, database, &start, (backup.manifest.chunks, until))?
        }
        None => None,
    };
    let mut done = files.end(cut)?;
    if !backup.manifest_bytes.is_empty() {
        let lacks = || damaged_backup(chain.last().path, 0, "it lacks images that its manifest names");
        for number in backup.manifest.files.keys() {
            disk.open(&file_path(folder, *number)).map_err(|_| lacks())?;
        }
        if needed.images > 0 {
            let place = FolderOfImages { disk: disk.clone(), folder: folder.to_owned(), database };
            read_images(&place, &backup.manifest, 1, &Looks)?;
        }
        target.write(NAME, &backup.manifest_bytes)?;
        done += 1;
    }
    target.finish(&identity)?;
    Ok(RestoreReport { files: done + 1, bytes: total, is_cut: cut.is_some(), duration: began.elapsed() })
}

/// The log of a folder, behind the last backup.
struct LogBehind<'a> {
    folder: &'a Path,
    wanted: Wanted,
    /// What was acknowledged up to then is in it.
    latest: WallTime,
    _pin: Box<dyn Any + Send + Sync>,
}

impl<'a> LogBehind<'a> {
    fn of(disk: &dyn Disk, folder: &'a Path, chain: &Chain<'_>) -> Result<LogBehind<'a>> {
        let last = chain.last();
        let (shown, file) = (folder.display(), last.path.display());
        let refuse = |state: SqlState, message: String, hint: &str| {
            Err(Error::new(state, message).with_hint(hint.to_owned()))
        };
        let (database, _) = identity_of(disk, folder)?;
        if database != last.name.database {
            let message = format!("\"{shown}\" has another database than that of \"{file}\"");
            let hint = "Name the folder that the backups were made of.";
            return refuse(SqlState::InvalidParameterValue, message, hint);
        }
        let ending = last.known_ending()?;
        let pin = pin_files(disk, folder)?;
        let wanted = Wanted { database, from: ending.end, chunks: 0 };
        let needed =
            Manifest::read(disk, folder, database)?.map_or(LogStart::default(), |manifest| manifest.start);
        let latest = WallTime::now();
        match continuation(disk, folder, &wanted, (&ending.last, &needed))? {
            Continuation::Whole => Ok(LogBehind { folder, wanted, latest, _pin: pin }),
            Continuation::Gone => {
                let message = format!(
                    "the log in \"{shown}\" does not have what follows \"{file}\" any more: checkpoints made since did not need it"
                );
                let hint = "Restore without the folder's log, or add an incremental backup of the folder to the backups.";
                refuse(SqlState::ObjectNotInPrerequisiteState, message, hint)
            }
            Continuation::Other => {
                let message = format!(
                    "the log in \"{shown}\" does not go on behind \"{file}\": its chunk {} is another one",
                    ending.end.chunks
                );
                let hint = "Name the folder that the backup was made of, or restore without its log.";
                refuse(SqlState::ObjectNotInPrerequisiteState, message, hint)
            }
        }
    }

    fn copy(&self, disk: &dyn Disk, files: &mut Files<'_>) -> Result<()> {
        copy_log(disk, self.folder, &self.wanted, &mut |segment, offset, bytes| {
            files.put((true, segment), offset, bytes)
        })?;
        Ok(())
    }
}

/// Whether it is a segment, and its number.
type FileKey = (bool, u64);

/// The files that are made, of parts that come file by file; a later backup may go on with one.
struct Files<'a> {
    disk: &'a dyn Disk,
    folder: &'a Path,
    /// The first segment that is needed.
    first_segment: u64,
    /// Files of images that are needed, and their images: where each begins and ends.
    images: BTreeMap<u64, BTreeMap<u64, u64>>,
    present: Option<Present>,
    made: BTreeMap<FileKey, Made>,
}

/// A file that was made.
#[derive(Clone, Copy)]
struct Made {
    /// Behind what was written.
    end: u64,
    /// What it has to be filled up to.
    length: u64,
}

/// The file that parts come of.
struct Present {
    key: FileKey,
    path: PathBuf,
    file: Box<dyn DiskFile>,
}

impl<'a> Files<'a> {
    /// None yet; those that a manifest needs.
    fn of(disk: &'a dyn Disk, folder: &'a Path, manifest: &Manifest) -> Files<'a> {
        let mut images: BTreeMap<u64, BTreeMap<u64, u64>> = BTreeMap::new();
        for image in manifest.images.values() {
            images.entry(image.file).or_default().insert(image.offset, image.offset + image.bytes);
        }
        let first_segment = manifest.start.segment;
        Files { disk, folder, first_segment, images, present: None, made: BTreeMap::new() }
    }

    /// Reads a backup, and writes what is needed of its log, and of its images if they are. Told how many bytes are read.
    fn of_backup(
        &mut self,
        path: &Path,
        of_images: bool,
        identity: &mut Vec<u8>,
        progress: &dyn Fn(u64),
    ) -> Result<()> {
        let mut archive = ArchiveReader::open(self.disk, path)?;
        let mut payload = Vec::new();
        identity.clear();
        while let Some(frame) = archive.next(&mut payload)? {
            match frame.content {
                Content::Identity => identity.extend_from_slice(&payload),
                Content::Images if of_images && self.needs_image(frame.number, frame.offset) => {
                    self.put((false, frame.number), frame.offset, &payload)?;
                }
                Content::Segment if frame.number >= self.first_segment => {
                    let key = (true, frame.number);
                    if frame.offset > 0 && !self.made.contains_key(&key) {
                        return Err(damaged_backup(path, 0, "it lacks the beginning of a segment"));
                    }
                    self.put(key, frame.offset, &payload)?;
                }
                _ => {}
            }
            progress(archive.position());
        }
        Ok(())
    }

    /// Whether there is an image, or the file's header.
    fn needs_image(&self, file: u64, offset: u64) -> bool {
        let Some(images) = self.images.get(&file) else { return false };
        let image = images.range(..=offset).next_back();
        offset == 0 || image.is_some_and(|(_, end)| offset < *end)
    }

    /// Writes a part of a file, which is made if it is not there.
    fn put(&mut self, key: FileKey, offset: u64, bytes: &[u8]) -> Result<()> {
        if self.present.as_ref().is_none_or(|present| present.key != key) {
            self.park()?;
            let path = self.path(key);
            let is_made = self.made.contains_key(&key);
            let file = match is_made {
                true => self.disk.open(&path).map_err(failed("open", &path))?,
                false => self.disk.create(&path).map_err(failed("create", &path))?,
            };
            if !is_made {
                let length = if key.0 { segment_length(bytes)? } else { 0 };
                self.made.insert(key, Made { end: 0, length });
            }
            self.present = Some(Present { key, path, file });
        }
        let present = self.present.as_ref().expect("opened above");
        write_full(&*present.file, bytes, offset).map_err(failed("write", &present.path))?;
        let made = self.made.get_mut(&key).expect("noted when it was made");
        made.end = made.end.max(offset + bytes.len() as u64);
        Ok(())
    }

    fn path(&self, (is_segment, number): FileKey) -> PathBuf {
        if is_segment { segment_path(self.folder, number) } else { file_path(self.folder, number) }
    }

    /// Puts the file at hand on disk.
    fn park(&mut self) -> Result<()> {
        let Some(present) = self.present.take() else { return Ok(()) };
        present.file.sync().map_err(failed("sync", &present.path))
    }

    /// Removes what is behind the cut, and fills segments up, as writing a chunk must not need room. Returns how many files there are, all of
    /// which are on disk.
    fn end(mut self, cut: Option<LogPlace>) -> Result<u64> {
        self.park()?;
        if let Some(cut) = cut {
            let behind = self.made.split_off(&(true, cut.segment + 1));
            for key in behind.into_keys() {
                let path = self.path(key);
                self.disk.remove(&path).map_err(failed("remove", &path))?;
            }
            if let Some(made) = self.made.get_mut(&(true, cut.segment)) {
                made.end = cut.offset;
            }
        }
        for (&key, made) in self.made.iter().filter(|(_, made)| made.end < made.length) {
            let path = self.path(key);
            let file = self.disk.open(&path).map_err(failed("open", &path))?;
            file.preallocate(made.end, made.length).map_err(failed("make room in", &path))?;
            file.sync().map_err(failed("sync", &path))?;
        }
        Ok(self.made.len() as u64)
    }
}
