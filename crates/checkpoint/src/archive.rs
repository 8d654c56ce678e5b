//! A backup's file: frames, one behind the other, each with checksums of its own (docs/design/backup.md draws the bytes).
//!
//! A frame's checksum has the backup's number and the frame's place in it, so that no part of another backup, and none that has moved, is taken for one
//! of this. The last frame says how many there are; behind it the file ends. So each byte is either checked or makes a checked one fail.

use crate::bytes::newer;
use ankerdb_base::{Error, Result, SqlState};
use ankerdb_log::{Disk, DiskFile, failed, random_bits, read_full, write_full};
use std::path::{Path, PathBuf};

const MAGIC: [u8; 8] = *b"AnKerBak";
const FRAME_MAGIC: [u8; 4] = *b"PART";
pub(crate) const FORMAT_VERSION: u32 = 1;
const HEADER_BYTES: usize = 64;
const FRAME_BYTES: usize = 40;
/// The longest payload that is written, and the longest that is believed.
pub(crate) const PAYLOAD_BYTES: usize = 1 << 20;
const PAYLOAD_BYTES_MAX: usize = 64 << 20;

/// What a frame has bytes of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Content {
    /// Nothing: it is the last one. Its number is how many there are before it.
    End,
    /// The file that says which database it is.
    Identity,
    /// The manifest of the checkpoint.
    Manifest,
    /// A file of images, by its number.
    Images,
    /// A segment of the log, by its number.
    Segment,
}

impl Content {
    const ALL: [Content; 5] =
        [Content::End, Content::Identity, Content::Manifest, Content::Images, Content::Segment];

    fn code(self) -> u32 {
        self as u32
    }

    fn of(code: u32) -> Option<Content> {
        Content::ALL.into_iter().find(|content| content.code() == code)
    }
}

/// A piece of a file, with its payload apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ArchiveFrame {
    pub(crate) content: Content,
    /// Which file.
    pub(crate) number: u64,
    /// Where in it the bytes belong.
    pub(crate) offset: u64,
}

/// A backup that is being written, under another name until it is whole.
pub(crate) struct ArchiveWriter<'a> {
    disk: &'a dyn Disk,
    path: &'a Path,
    tmp: PathBuf,
    file: Box<dyn DiskFile>,
    backup: [u8; 16],
    position: u64,
    frames: u64,
}

impl<'a> ArchiveWriter<'a> {
    pub(crate) fn create(
        disk: &'a dyn Disk,
        path: &'a Path,
        database: [u8; 16],
    ) -> Result<ArchiveWriter<'a>> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".tmp");
        let tmp = path.with_file_name(name);
        let file = disk.create(&tmp).map_err(failed("create", &tmp))?;
        let backup = random_bits();
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(&MAGIC);
        header[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        header[16..32].copy_from_slice(&database);
        header[32..48].copy_from_slice(&backup);
        let checksum = crc32c::crc32c(&header[16..]);
        header[12..16].copy_from_slice(&checksum.to_le_bytes());
        let mut writer = ArchiveWriter { disk, path, tmp, file, backup, position: 0, frames: 0 };
        writer.put(&header)?;
        Ok(writer)
    }

    /// Bytes written so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.position
    }

    /// Writes bytes of a file, in as many frames as they need.
    pub(crate) fn write(&mut self, content: Content, number: u64, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut at = offset;
        for payload in bytes.chunks(PAYLOAD_BYTES) {
            self.frame(&ArchiveFrame { content, number, offset: at }, payload)?;
            at += payload.len() as u64;
        }
        Ok(())
    }

    fn frame(&mut self, frame: &ArchiveFrame, payload: &[u8]) -> Result<()> {
        let mut header = [0; FRAME_BYTES];
        header[..4].copy_from_slice(&FRAME_MAGIC);
        header[8..12].copy_from_slice(&frame.content.code().to_le_bytes());
        header[12..16].copy_from_slice(&crc32c::crc32c(payload).to_le_bytes());
        header[16..24].copy_from_slice(&frame.number.to_le_bytes());
        header[24..32].copy_from_slice(&frame.offset.to_le_bytes());
        header[32..40].copy_from_slice(&(payload.len() as u64).to_le_bytes());
        let checksum = checksum(&header, &self.backup, self.position);
        header[4..8].copy_from_slice(&checksum.to_le_bytes());
        self.frames += 1;
        self.put(&header)?;
        self.put(payload)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        write_full(&*self.file, bytes, self.position).map_err(failed("write", &self.tmp))?;
        self.position += bytes.len() as u64;
        Ok(())
    }

    /// Puts what was written so far on disk.
    pub(crate) fn sync(&self) -> Result<()> {
        self.file.sync().map_err(failed("sync", &self.tmp))
    }

    /// Ends it, puts it on disk, and gives it its name.
    pub(crate) fn finish(mut self) -> Result<u64> {
        let end = ArchiveFrame { content: Content::End, number: self.frames, offset: 0 };
        self.frame(&end, &[])?;
        self.sync()?;
        self.disk.rename(&self.tmp, self.path).map_err(failed("rename", &self.tmp))?;
        let folder = folder_of(self.path);
        self.disk.sync_folder(folder).map_err(failed("sync the folder", folder))?;
        Ok(self.position)
    }

    /// Takes back what was written.
    pub(crate) fn discard(self) {
        // It counts for nothing; another attempt empties it.
        let _ = self.disk.remove(&self.tmp);
    }
}

/// The folder that a file is in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn checksum(header: &[u8; FRAME_BYTES], backup: &[u8; 16], position: u64) -> u32 {
    let checksum = crc32c::crc32c(&header[8..]);
    let checksum = crc32c::crc32c_append(checksum, backup);
    crc32c::crc32c_append(checksum, &position.to_le_bytes())
}

/// A backup that is being read.
pub(crate) struct ArchiveReader<'a> {
    path: &'a Path,
    file: Box<dyn DiskFile>,
    length: u64,
    backup: [u8; 16],
    /// The database that it is of.
    pub(crate) database: [u8; 16],
    position: u64,
    frames: u64,
}

impl<'a> ArchiveReader<'a> {
    pub(crate) fn open(disk: &dyn Disk, path: &'a Path) -> Result<ArchiveReader<'a>> {
        let file = disk.open(path).map_err(failed("open", path))?;
        let length = file.length().map_err(failed("read", path))?;
        let mut header = [0; HEADER_BYTES];
        let filled = read_full(&*file, &mut header, 0).map_err(failed("read", path))?;
        if filled < HEADER_BYTES || header[..8] != MAGIC {
            return Err(damaged_backup(path, 0, "it is no backup"));
        }
        if word(&header, 8) > FORMAT_VERSION {
            return Err(newer(path, word(&header, 8), FORMAT_VERSION));
        }
        if word(&header, 8) != FORMAT_VERSION || word(&header, 12) != crc32c::crc32c(&header[16..]) {
            return Err(damaged_backup(path, 0, "its header is not one"));
        }
        let bits = |at: usize| header[at..].first_chunk().copied().unwrap_or_default();
        let (database, backup) = (bits(16), bits(32));
        Ok(ArchiveReader { path, file, length, backup, database, position: HEADER_BYTES as u64, frames: 0 })
    }

    /// Bytes read, and bytes there are.
    pub(crate) fn progress(&self) -> (u64, u64) {
        (self.position, self.length)
    }

    /// The next frame, its payload in `payload`; `None` behind the last one.
    pub(crate) fn next(&mut self, payload: &mut Vec<u8>) -> Result<Option<ArchiveFrame>> {
        let (path, at) = (self.path, self.position);
        let wrong = |what: &str| damaged_backup(path, at, what);
        let mut header = [0; FRAME_BYTES];
        let filled = read_full(&*self.file, &mut header, at).map_err(failed("read", path))?;
        if filled < FRAME_BYTES {
            return Err(wrong("it ends too early"));
        }
        if header[..4] != FRAME_MAGIC || word(&header, 4) != checksum(&header, &self.backup, at) {
            return Err(wrong("there is no part of it"));
        }
        let content =
            Content::of(word(&header, 8)).ok_or_else(|| wrong("it has a part of an unknown kind"))?;
        let (number, offset, length) = (long(&header, 16), long(&header, 24), long(&header, 32));
        let length = usize::try_from(length).ok().filter(|length| *length <= PAYLOAD_BYTES_MAX);
        let length = length.ok_or_else(|| wrong("a part of it is too long"))?;
        payload.clear();
        payload.try_reserve_exact(length).map_err(|_| Error::out_of_memory(length))?;
        payload.resize(length, 0);
        let filled =
            read_full(&*self.file, payload, at + FRAME_BYTES as u64).map_err(failed("read", path))?;
        if filled < length {
            return Err(wrong("it ends too early"));
        }
        if crc32c::crc32c(payload) != word(&header, 12) {
            return Err(wrong("the checksum of a part is another one"));
        }
        self.position = at + (FRAME_BYTES + length) as u64;
        if content == Content::End {
            return match number == self.frames && self.position == self.length {
                true => Ok(None),
                false => Err(wrong("it does not end where it says")),
            };
        }
        self.frames += 1;
        Ok(Some(ArchiveFrame { content, number, offset }))
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// XX001: a backup does not have what was written into it.
#[cold]
pub(crate) fn damaged_backup(path: &Path, offset: u64, what: &str) -> Error {
    let message = format!("the backup is damaged: \"{}\" at offset {offset}: {what}", path.display());
    Error::new(SqlState::DataCorrupted, message)
        .with_hint("Restore another copy of the backup, or another one.")
}
