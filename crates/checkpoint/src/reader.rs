//! Reading images, on all processors.

use crate::bytes::{Misread, damaged, foreign, newer};
use crate::files::{FolderOfImages, file_path};
use crate::image::{BlockName, HEADER_BYTES, ImageHeader, Site, decode};
use crate::manifest::{FORMAT_VERSION, ImagePlace, Manifest};
use crate::writer::{FILE_HEADER_BYTES, FILE_MAGIC};
use ankerdb_base::{Error, Result};
use ankerdb_log::{DiskFile, failed, read_full};
use ankerdb_table::ImageOfBlock;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// What happens with images that are read.
pub trait ImageLoader: Sync {
    /// Whether images of this table are wanted.
    fn wants(&self, table: u32) -> bool;

    /// An image, in any order and on any thread.
    ///
    /// # Errors
    /// Those that end the reading.
    fn block(&self, table: u32, image: &ImageOfBlock<'_>) -> Result<()>;

    /// So many bytes have been read, of so many.
    fn progress(&self, _read: u64, _total: u64) {}
}

/// Reads the images of a manifest that are wanted, with so many threads.
///
/// # Errors
/// `DataCorrupted` naming file and offset if something is damaged or missing; those of the disk and of `load`.
pub fn read_images(
    place: &FolderOfImages,
    manifest: &Manifest,
    threads: usize,
    load: &dyn ImageLoader,
) -> Result<()> {
    let mut wanted: Vec<(BlockName, ImagePlace)> =
        manifest.images.iter().filter(|(name, _)| load.wants(name.table)).map(|(n, p)| (*n, *p)).collect();
    wanted.sort_by_key(|(_, place)| (place.file, place.offset));
    let files = open_files(place, manifest)?;
    let total = wanted.iter().map(|(_, place)| place.bytes).sum();
    let reading = Reading {
        database: place.database,
        files,
        wanted,
        next: AtomicUsize::new(0),
        read: AtomicU64::new(0),
        total,
        has_failed: AtomicBool::new(false),
        load,
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads.max(1)).map(|_| scope.spawn(|| reading.run())).collect();
        let mut outcome = reading.run();
        for other in others {
            let ended = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            outcome = outcome.and(ended);
        }
        outcome
    })
}

struct OpenFile {
    path: PathBuf,
    file: Box<dyn DiskFile>,
}

/// Opens the files, and looks whether they are this database's.
fn open_files(place: &FolderOfImages, manifest: &Manifest) -> Result<BTreeMap<u64, OpenFile>> {
    let mut files = BTreeMap::new();
    for &number in manifest.files.keys() {
        let path = file_path(&place.folder, number);
        let file = place.disk.open(&path).map_err(failed("open", &path))?;
        let mut header = [0; FILE_HEADER_BYTES as usize];
        read_full(&*file, &mut header, 0).map_err(failed("read", &path))?;
        let word = |at: usize| header[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        if header[..8] != FILE_MAGIC {
            return Err(damaged(&path, 0, "it is no file of images"));
        }
        if word(8) > FORMAT_VERSION {
            return Err(newer(&path, word(8), FORMAT_VERSION));
        }
        if word(12) != crc32c::crc32c(&header[16..]) {
            return Err(damaged(&path, 0, "its header is not one"));
        }
        if header[16..32] != place.database {
            return Err(foreign(&path));
        }
        if header[32..40] != number.to_le_bytes() {
            return Err(damaged(&path, 0, "it is another file by this name"));
        }
        files.insert(number, OpenFile { path, file });
    }
    Ok(files)
}

struct Reading<'a> {
    database: [u8; 16],
    files: BTreeMap<u64, OpenFile>,
    wanted: Vec<(BlockName, ImagePlace)>,
    next: AtomicUsize,
    read: AtomicU64,
    total: u64,
    has_failed: AtomicBool,
    load: &'a dyn ImageLoader,
}

impl Reading<'_> {
    fn run(&self) -> Result<()> {
        let mut bytes = Vec::new();
        while !self.has_failed.load(Ordering::Relaxed)
            && let Some((name, place)) = self.wanted.get(self.next.fetch_add(1, Ordering::Relaxed))
        {
            let one = self.one(*name, place, &mut bytes);
            if one.is_err() {
                self.has_failed.store(true, Ordering::Relaxed);
                return one;
            }
            let read = self.read.fetch_add(place.bytes, Ordering::Relaxed) + place.bytes;
            self.load.progress(read, self.total);
        }
        Ok(())
    }

    fn one(&self, name: BlockName, place: &ImagePlace, bytes: &mut Vec<u8>) -> Result<()> {
        let OpenFile { path, file } = &self.files[&place.file];
        let wrong = |what: &str| damaged(path, place.offset, what);
        let length = usize::try_from(place.bytes).map_err(|_| wrong("the image is too long"))?;
        if bytes.len() < length {
            bytes.try_reserve_exact(length - bytes.len()).map_err(|_| Error::out_of_memory(length))?;
            bytes.resize(length, 0);
        }
        // What an image before this one has left there is overwritten, or not looked at.
        let filled = read_full(&**file, &mut bytes[..length], place.offset).map_err(failed("read", path))?;
        let site = Site { database: self.database, file: place.file, offset: place.offset };
        let header = ImageHeader::decode(&bytes[..filled], &site);
        let header = header.ok_or_else(|| wrong("there is no image"))?;
        let payload = &bytes[HEADER_BYTES..filled];
        if header.name != name || header.timestamp != place.timestamp {
            return Err(wrong("there is another image"));
        }
        if header.payload_bytes != payload.len() as u64 || crc32c::crc32c(payload) != header.payload_checksum
        {
            return Err(wrong("the image's checksum is another one"));
        }
        let mut columns = Vec::new();
        let image = decode(&header, payload, &mut columns)
            .map_err(|Misread| wrong("the image does not say what an image says"))?;
        self.load.block(name.table, &image)
    }
}
