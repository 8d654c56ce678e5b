//! Writing images.

use crate::files::{FolderOfImages, file_path};
use crate::image::{ALIGNMENT, BlockName, HEADER_BYTES, ImageHeader, Site, encode};
use crate::manifest::{FORMAT_VERSION, ImagePlace};
use ankerdb_base::{Result, Timestamp};
use ankerdb_log::{DiskFile, failed, write_full};
use ankerdb_snapshot::BlockImage;
use ankerdb_table::CellLayout;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The first bytes of a file of images.
pub(crate) const FILE_MAGIC: [u8; 8] = *b"AnKerBlk";
/// Bytes in front of the first image.
pub(crate) const FILE_HEADER_BYTES: u64 = 64;
/// A file is not begun anew before it is this long: whole files go when none of their images counts any more.
const FILE_BYTES: u64 = 256 << 20;
/// How much is written between two syncs: the disk's queue stays short for the log's.
const SYNCED_AT_ONCE: u64 = 8 << 20;

/// At which rate images are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriteRate {
    /// Bytes each second; `None` for as fast as it goes.
    pub bytes_per_second: Option<u64>,
}

/// Writes images into new files.
pub struct Writer {
    place: FolderOfImages,
    present: Option<Present>,
    next: u64,
    /// Numbers and lengths of those that are done.
    written: Vec<(u64, u64)>,
    bytes: Vec<u8>,
    /// The rate counts from here.
    began: Instant,
    total: u64,
    unsynced: u64,
}

struct Present {
    number: u64,
    path: PathBuf,
    file: Box<dyn DiskFile>,
    position: u64,
}

impl Writer {
    /// Files get numbers from `next` on.
    pub fn new(place: FolderOfImages, next: u64) -> Writer {
        Writer {
            place,
            present: None,
            next,
            written: Vec::new(),
            bytes: Vec::new(),
            began: Instant::now(),
            total: 0,
            unsynced: 0,
        }
    }

    /// A number that no file has had.
    pub fn next_file(&self) -> u64 {
        self.next
    }

    /// Bytes written so far.
    pub fn bytes_written(&self) -> u64 {
        self.total
    }

    /// Writes an image of all columns, which have these layouts; what it shows is what was committed up to `timestamp`.
    ///
    /// # Errors
    /// Those of the disk; 53200 without memory.
    pub fn write(
        &mut self,
        name: BlockName,
        timestamp: Timestamp,
        image: &BlockImage,
        layouts: &[CellLayout],
    ) -> Result<ImagePlace> {
        let mut bytes = std::mem::take(&mut self.bytes);
        let encoded = encode(image, layouts, &mut bytes);
        let payload = &bytes[HEADER_BYTES.min(bytes.len())..];
        let header = ImageHeader {
            name,
            timestamp,
            payload_bytes: payload.len() as u64,
            payload_checksum: crc32c::crc32c(payload),
            rows: image.rows as u32,
            columns: layouts.len() as u32,
        };
        let written = encoded.and_then(|()| self.put(&header, &mut bytes));
        self.bytes = bytes;
        written
    }

    fn put(&mut self, header: &ImageHeader, bytes: &mut [u8]) -> Result<ImagePlace> {
        let length = bytes.len() as u64;
        let database = self.place.database;
        let present = self.present()?;
        let site = Site { database, file: present.number, offset: present.position };
        header.put(bytes, &site);
        let (path, offset) = (&present.path, present.position);
        write_full(&*present.file, bytes, offset).map_err(failed("write", path))?;
        present.position += length.next_multiple_of(ALIGNMENT);
        let number = present.number;
        self.unsynced += length;
        self.total += length;
        if self.unsynced >= SYNCED_AT_ONCE {
            self.sync()?;
        }
        Ok(ImagePlace { file: number, offset, bytes: length, timestamp: header.timestamp })
    }

    /// The file that is written.
    fn present(&mut self) -> Result<&mut Present> {
        if self.present.as_ref().is_some_and(|present| present.position >= FILE_BYTES) {
            self.end_file()?;
        }
        if self.present.is_none() {
            let (number, path) = (self.next, file_path(&self.place.folder, self.next));
            self.next += 1;
            let file = self.place.disk.create(&path).map_err(failed("create", &path))?;
            let mut header = [0; FILE_HEADER_BYTES as usize];
            header[..8].copy_from_slice(&FILE_MAGIC);
            header[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
            header[16..32].copy_from_slice(&self.place.database);
            header[32..40].copy_from_slice(&number.to_le_bytes());
            let checksum = crc32c::crc32c(&header[16..]);
            header[12..16].copy_from_slice(&checksum.to_le_bytes());
            write_full(&*file, &header, 0).map_err(failed("write", &path))?;
            self.present = Some(Present { number, path, file, position: FILE_HEADER_BYTES });
        }
        Ok(self.present.as_mut().expect("made above"))
    }

    fn sync(&mut self) -> Result<()> {
        if let Some(present) = &self.present {
            present.file.sync().map_err(failed("sync", &present.path))?;
        }
        self.unsynced = 0;
        Ok(())
    }

    fn end_file(&mut self) -> Result<()> {
        self.sync()?;
        if let Some(present) = self.present.take() {
            self.written.push((present.number, present.position));
        }
        Ok(())
    }

    /// How long to wait before the next image, so that the rate is kept.
    pub fn pause(&self, pace: WriteRate) -> Duration {
        let Some(rate) = pace.bytes_per_second else { return Duration::ZERO };
        let due = Duration::from_secs_f64(self.total as f64 / rate.max(1) as f64);
        due.saturating_sub(self.began.elapsed())
    }

    /// Puts on disk what was written; the numbers and lengths of the files.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn finish(&mut self) -> Result<Vec<(u64, u64)>> {
        self.end_file()?;
        let folder = &self.place.folder;
        self.place.disk.sync_folder(folder).map_err(failed("sync the folder", folder))?;
        Ok(std::mem::take(&mut self.written))
    }
}
