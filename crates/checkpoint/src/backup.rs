//! A backup: the images of the last checkpoint that count, and the log behind it, in one file, while the server goes on.
//!
//! ```text
//! pin        nothing that the folder needs now goes, until this ends
//! manifest   as it is now
//! images     those that count: looked at, copied
//! log        from where the manifest says, up to its end on disk: all that was acknowledged before this began, and some more
//! ```
//!
//! Nothing of the server takes part: files of images are never written again, the manifest is renamed into its place, and chunks have checksums. So it is
//! the same for a server of this process, of another one, and for none.

use crate::archive::{ArchiveWriter, Content, PAYLOAD_BYTES, folder_of};
use crate::files::{FolderOfImages, file_path};
use crate::image::BlockName;
use crate::manifest::{ImagePlace, Manifest};
use crate::reader::{ImageLoader, read_images};
use crate::writer::{FILE_HEADER_BYTES, WriteRate};
use ankerdb_base::{Error, Result, SqlState};
use ankerdb_log::{Disk, copy_log, failed, identity_of, pin_files, read_full};
use ankerdb_table::ImageOfBlock;
use std::collections::BTreeMap;
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
    /// Images in it.
    pub images: u64,
    /// The number of the last chunk of the log in it.
    pub chunks: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// How long it took.
    pub duration: Duration,
}

/// What the maker of a backup does between two pieces: waits for so long, or ends it.
pub type Between<'a> = &'a dyn Fn(Duration) -> Result<()>;

/// Makes a backup of the database in a folder, whether or not a server is at work there.
///
/// # Errors
/// 55006 if another backup is being made of it; 58P02 if the file is there already; XX001 if what is to be copied is damaged, 55000 if
/// there is no database; those of the disk and of `between`. There is no file then.
pub fn backup(
    disk: &Arc<dyn Disk>,
    folder: &Path,
    file: &Path,
    pace: WriteRate,
    between: Between<'_>,
) -> Result<BackupReport> {
    let began = Instant::now();
    refuse_existing(&**disk, file)?;
    let (database, identity) = identity_of(&**disk, folder)?;
    let _pin = pin_files(&**disk, folder)?;
    let place = FolderOfImages { disk: disk.clone(), folder: folder.to_owned(), database };
    let manifest = Manifest::read(&**disk, folder, database)?;
    let archive = ArchiveWriter::create(&**disk, file, database)?;
    let mut copy = Copy { archive, unsynced_from: 0, pace, began, between };
    match copy.all(&place, &identity, manifest.as_ref()) {
        Ok(chunks) => {
            let manifest = manifest.unwrap_or_default();
            Ok(BackupReport {
                checkpoint: manifest.number,
                images: manifest.images.len() as u64,
                chunks,
                bytes: copy.archive.finish()?,
                duration: began.elapsed(),
            })
        }
        Err(error) => {
            copy.archive.discard();
            Err(error)
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
    unsynced_from: u64,
    pace: WriteRate,
    began: Instant,
    between: Between<'a>,
}

impl Copy<'_> {
    /// Returns the number of the log's last chunk.
    fn all(&mut self, place: &FolderOfImages, identity: &[u8], manifest: Option<&Manifest>) -> Result<u64> {
        self.write(Content::Identity, 0, 0, identity)?;
        let mut chunks = 0;
        let start = match manifest {
            Some(manifest) => {
                self.write(Content::Manifest, 0, 0, &manifest.encode(place.database))?;
                self.images(place, manifest)?;
                chunks = manifest.chunks;
                manifest.start
            }
            None => ankerdb_log::LogStart::default(),
        };
        let wanted = (place.database, &start, chunks);
        copy_log(&*place.disk, &place.folder, wanted, &mut |segment, offset, bytes| {
            self.write(Content::Segment, segment, offset, bytes)
        })
    }

    fn images(&mut self, place: &FolderOfImages, manifest: &Manifest) -> Result<()> {
        let mut files: BTreeMap<u64, Vec<(BlockName, ImagePlace)>> = BTreeMap::new();
        for (name, image) in &manifest.images {
            files.entry(image.file).or_default().push((*name, *image));
        }
        for (number, mut images) in files {
            images.sort_by_key(|(_, image)| image.offset);
            self.copy_from(place, number, 0, FILE_HEADER_BYTES)?;
            for images in images.chunks(IMAGES_AT_ONCE) {
                let mut part = Manifest { images: images.iter().copied().collect(), ..Manifest::default() };
                part.files.insert(number, manifest.files.get(&number).copied().unwrap_or_default());
                read_images(place, &part, 1, &Looks)?;
                for (_, image) in images {
                    self.copy_from(place, number, image.offset, image.bytes)?;
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

/// Looks at images, of which the bytes are copied afterwards.
struct Looks;

impl ImageLoader for Looks {
    fn wants(&self, _table: u32) -> bool {
        true
    }

    fn block(&self, _table: u32, _image: &ImageOfBlock<'_>) -> Result<()> {
        Ok(())
    }
}
