//! The manifest: which images count, what the catalog is, and from where on the log is needed.

use crate::bytes::{ByteReader, Misread, damaged, foreign, newer};
use crate::image::BlockName;
use ankerdb_base::{Error, Result, Timestamp};
use ankerdb_log::{Disk, LogStart, WallTime, failed, read_full, write_full};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The version of all formats here.
pub(crate) const FORMAT_VERSION: u32 = 1;
const MAGIC: [u8; 8] = *b"AnKerChk";
const HEADER_BYTES: usize = 64;
pub(crate) const NAME: &str = "checkpoint";
const TMP: &str = "checkpoint.tmp";

/// Where a block's image lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ImagePlace {
    /// The number of its file.
    pub file: u64,
    /// Where in the file it begins.
    pub offset: u64,
    /// Its length, with its header.
    pub bytes: u64,
    /// Everything committed up to here is in it, and nothing else.
    pub timestamp: Timestamp,
}

/// What a checkpoint consists of. See the module.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Manifest {
    /// How many checkpoints there have been.
    pub number: u64,
    /// From where on the log is needed; commits up to its timestamp are not.
    pub start: LogStart,
    /// All commits up to here were on disk when the manifest was written: the next run's timestamps are behind.
    pub last_timestamp: Timestamp,
    /// How many chunks the log had then: they belong to it, as images may have what is in the last of them.
    pub chunks: u64,
    /// When the images were complete: everything that is in them was committed before. Unknown if an earlier version made it.
    pub time: WallTime,
    /// The caller's.
    pub catalog: Vec<u8>,
    /// The files of images, with their lengths.
    pub files: BTreeMap<u64, u64>,
    /// The images that count.
    pub images: BTreeMap<BlockName, ImagePlace>,
}

impl Manifest {
    /// Reads the manifest in a folder, if there is one.
    ///
    /// # Errors
    /// `DataCorrupted` if it is damaged or another database's, `FeatureNotSupported` if it is of a newer format; those of the disk.
    pub fn read(disk: &dyn Disk, folder: &Path, database: [u8; 16]) -> Result<Option<Manifest>> {
        let path = folder.join(NAME);
        let names = disk.list(folder).map_err(failed("list the folder", folder))?;
        if !names.iter().any(|name| name == NAME) {
            return Ok(None);
        }
        let file = disk.open(&path).map_err(failed("open", &path))?;
        let length = file.length().map_err(failed("read", &path))?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length as usize).map_err(|_| Error::out_of_memory(length as usize))?;
        bytes.resize(length as usize, 0);
        let filled = read_full(&*file, &mut bytes, 0).map_err(failed("read", &path))?;
        decode(&bytes[..filled], &path, database).map(Some)
    }

    /// Puts this manifest in the place of the one before, for good. Everything that it names must be on disk.
    ///
    /// # Errors
    /// Those of the disk. If it `may_be_there`, either of the two is in the folder after a loss of power.
    pub fn switch(
        &self,
        disk: &dyn Disk,
        folder: &Path,
        database: [u8; 16],
    ) -> std::result::Result<u64, NotSwitched> {
        let not_there = |error: Error| NotSwitched { error, may_be_there: false };
        let (tmp, path) = (folder.join(TMP), folder.join(NAME));
        let bytes = self.encode(database);
        let write = || {
            let file = disk.create(&tmp).map_err(failed("create", &tmp))?;
            write_full(&*file, &bytes, 0).map_err(failed("write", &tmp))?;
            file.sync().map_err(failed("sync", &tmp))
        };
        write().map_err(not_there)?;
        let rename = || {
            disk.rename(&tmp, &path).map_err(failed("rename", &tmp))?;
            disk.sync_folder(folder).map_err(failed("sync the folder", folder))
        };
        rename().map_err(|error| NotSwitched { error, may_be_there: true })?;
        Ok(bytes.len() as u64)
    }

    /// A manifest that was being written.
    pub(crate) fn remnant(folder: &Path) -> PathBuf {
        folder.join(TMP)
    }

    /// Bytes of each file that are images which count.
    pub(crate) fn bytes_used(&self) -> BTreeMap<u64, u64> {
        let mut used: BTreeMap<u64, u64> = self.files.keys().map(|file| (*file, 0)).collect();
        for place in self.images.values() {
            *used.entry(place.file).or_default() += place.bytes;
        }
        used
    }

    pub(crate) fn encode(&self, database: [u8; 16]) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES + 64 + self.catalog.len() + self.images.len() * 40);
        out.resize(HEADER_BYTES, 0);
        let start = &self.start;
        let numbers = [
            self.number,
            start.segment,
            start.chunks,
            start.incarnation,
            start.timestamp.0,
            self.last_timestamp.0,
            self.chunks,
            self.catalog.len() as u64,
            self.files.len() as u64,
            self.images.len() as u64,
        ];
        numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
        out.extend_from_slice(&self.catalog);
        for (file, bytes) in &self.files {
            out.extend_from_slice(&file.to_le_bytes());
            out.extend_from_slice(&bytes.to_le_bytes());
        }
        for (name, place) in &self.images {
            out.extend_from_slice(&name.table.to_le_bytes());
            out.extend_from_slice(&name.block.to_le_bytes());
            for number in [place.file, place.offset, place.bytes, place.timestamp.0] {
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
        out[..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        let length = out.len() as u64;
        out[16..24].copy_from_slice(&length.to_le_bytes());
        out[24..40].copy_from_slice(&database);
        out[40..48].copy_from_slice(&self.time.0.to_le_bytes());
        let checksum = crc32c::crc32c(&out[16..]);
        out[12..16].copy_from_slice(&checksum.to_le_bytes());
        out
    }
}

/// A manifest that has not taken its place for good.
#[derive(Debug)]
pub struct NotSwitched {
    /// Why.
    pub error: Error,
    /// Whether it may be in its place all the same.
    pub may_be_there: bool,
}

pub(crate) fn decode(bytes: &[u8], path: &Path, database: [u8; 16]) -> Result<Manifest> {
    let header = bytes.get(..HEADER_BYTES).ok_or_else(|| damaged(path, 0, "it is too short"))?;
    if header[..8] != MAGIC {
        return Err(damaged(path, 0, "it is no manifest"));
    }
    let number = |at: usize| header[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    if number(8) > FORMAT_VERSION {
        return Err(newer(path, number(8), FORMAT_VERSION));
    }
    if number(12) != crc32c::crc32c(&bytes[16..]) {
        return Err(damaged(path, 0, "its checksum is another one"));
    }
    if header[24..40] != database {
        return Err(foreign(path));
    }
    let time = header[40..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    body(&bytes[HEADER_BYTES..])
        .map(|manifest| Manifest { time: WallTime(time), ..manifest })
        .map_err(|Misread| damaged(path, HEADER_BYTES as u64, "it does not say what a manifest says"))
}

fn body(bytes: &[u8]) -> std::result::Result<Manifest, Misread> {
    let mut reader = ByteReader(bytes);
    let mut manifest = Manifest {
        number: reader.u64()?,
        start: LogStart {
            segment: reader.u64()?,
            chunks: reader.u64()?,
            incarnation: reader.u64()?,
            timestamp: Timestamp(reader.u64()?),
        },
        last_timestamp: Timestamp(reader.u64()?),
        chunks: reader.u64()?,
        ..Manifest::default()
    };
    let (catalog, files, images) = (reader.u64()?, reader.u64()?, reader.u64()?);
    manifest.catalog = reader.take(catalog)?.to_vec();
    for _ in 0..files {
        manifest.files.insert(reader.u64()?, reader.u64()?);
    }
    for _ in 0..images {
        let name = BlockName { table: reader.u32()?, block: reader.u32()? };
        let place = ImagePlace {
            file: reader.u64()?,
            offset: reader.u64()?,
            bytes: reader.u64()?,
            timestamp: Timestamp(reader.u64()?),
        };
        let is_inside = place
            .offset
            .checked_add(place.bytes)
            .is_some_and(|end| manifest.files.get(&place.file).is_some_and(|bytes| end <= *bytes));
        if !is_inside || manifest.images.insert(name, place).is_some() {
            return Err(Misread);
        }
    }
    if reader.0.is_empty() { Ok(manifest) } else { Err(Misread) }
}
