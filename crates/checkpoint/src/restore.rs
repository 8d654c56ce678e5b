//! A folder made of a backup.
//!
//! ```text
//! restoring              a mark, with which no server starts
//! images, segments       as the parts of the backup come, each checked before it is written; synced file by file
//! checkpoint, identity   when the backup has come to its end
//! (the mark goes)
//! ```

use crate::archive::{ArchiveReader, Content, damaged_backup};
use crate::files::file_path;
use crate::manifest::{Manifest, NAME, decode};
use ankerdb_base::Result;
use ankerdb_log::{Disk, DiskFile, RestoredFolder, failed, segment_length, segment_path, write_full};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A folder that was made.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RestoreReport {
    /// Files in it that have the database.
    pub files: u64,
    /// Bytes of the backup.
    pub bytes: u64,
    /// How long it took.
    pub duration: Duration,
}

/// Makes a folder, which must be empty or not there, of a backup. A server that starts there has what the backup has.
///
/// # Errors
/// XX001 if the backup is damaged, 0A000 if it is of a newer format; 55000 if the folder is not empty; those of the disk. The folder
/// is none of a database then, and says so.
pub fn restore(
    disk: &dyn Disk,
    file: &Path,
    folder: &Path,
    progress: &dyn Fn(u64, u64),
) -> Result<RestoreReport> {
    let began = Instant::now();
    let mut archive = ArchiveReader::open(disk, file)?;
    let restored = RestoredFolder::begin(disk, folder)?;
    let (mut identity, mut manifest) = (Vec::new(), Vec::new());
    let mut files = Files { disk, folder, present: None, done: 0 };
    let mut payload = Vec::new();
    while let Some(frame) = archive.next(&mut payload)? {
        match frame.content {
            Content::Identity => identity.extend_from_slice(&payload),
            Content::Manifest => manifest.extend_from_slice(&payload),
            content => files.put(content, frame.number, frame.offset, &payload)?,
        }
        let (read, total) = archive.progress();
        progress(read, total);
    }
    files.end_file()?;
    let mut done = files.done;
    if !manifest.is_empty() {
        let read: Manifest = decode(&manifest, file, archive.database)?;
        for number in read.files.keys() {
            let path = file_path(folder, *number);
            disk.open(&path)
                .map_err(|_| damaged_backup(file, 0, "it lacks images that its manifest names"))?;
        }
        restored.write(NAME, &manifest)?;
        done += 1;
    }
    restored.finish(&identity)?;
    Ok(RestoreReport { files: done + 1, bytes: archive.progress().1, duration: began.elapsed() })
}

/// Files that come in parts, one behind the other.
struct Files<'a> {
    disk: &'a dyn Disk,
    folder: &'a Path,
    present: Option<Present>,
    done: u64,
}

struct Present {
    content: Content,
    number: u64,
    path: PathBuf,
    file: Box<dyn DiskFile>,
    /// Behind what was written.
    end: u64,
    /// What it has to be filled up to.
    length: u64,
}

impl Files<'_> {
    fn put(&mut self, content: Content, number: u64, offset: u64, bytes: &[u8]) -> Result<()> {
        let is_present =
            |present: &Present| (present.content, present.number) == (content, number) && offset > 0;
        if !self.present.as_ref().is_some_and(is_present) {
            self.end_file()?;
            let is_segment = content == Content::Segment;
            let path =
                if is_segment { segment_path(self.folder, number) } else { file_path(self.folder, number) };
            let length = if is_segment { segment_length(bytes)? } else { 0 };
            let file = self.disk.create(&path).map_err(failed("create", &path))?;
            self.present = Some(Present { content, number, path, file, end: 0, length });
        }
        let present = self.present.as_mut().expect("made above");
        write_full(&*present.file, bytes, offset).map_err(failed("write", &present.path))?;
        present.end = present.end.max(offset + bytes.len() as u64);
        Ok(())
    }

    /// Fills a segment up, as writing a chunk must not need room, and puts the file on disk.
    fn end_file(&mut self) -> Result<()> {
        let Some(present) = self.present.take() else { return Ok(()) };
        if present.end < present.length {
            let filled = present.file.preallocate(present.end, present.length);
            filled.map_err(failed("make room in", &present.path))?;
        }
        present.file.sync().map_err(failed("sync", &present.path))?;
        self.done += 1;
        Ok(())
    }
}
