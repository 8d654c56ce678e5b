//! A backup's file: frames, one behind the other, each with checksums of its own (docs/design/backup.md draws the bytes).
//!
//! A frame's checksum has the backup's number and the frame's place in it, so that no part of another backup, and none that has moved, is taken for one
//! of this. The last frame says how many there are, and where in the log the backup begins and ends; behind it the file ends. So each byte is either
//! checked or makes a checked one fail. An incremental backup says in its header which one it is to be restored upon.

use crate::bytes::newer;
use ankerdb_base::{Error, Result, SqlState};
use ankerdb_log::{
    ChunkMark, Disk, DiskFile, LogPlace, WallTime, failed, random_bits, read_full, write_full,
};
use std::path::{Path, PathBuf};

const MAGIC: [u8; 8] = *b"AnKerBak";
const FRAME_MAGIC: [u8; 4] = *b"PART";
/// The version that is written. Version 1 has neither bases nor checksums of images, and its last frame is empty.
pub(crate) const FORMAT_VERSION: u32 = 2;
/// The database's bits, then those of a backup.
pub(crate) type Bits = [u8; 16];
/// The base of a full backup.
pub(crate) const NO_BASE: Bits = [0; 16];
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
    /// The checksums in the headers of the manifest's images, four bytes each, in its order.
    Checksums,
}

impl Content {
    const ALL: [Content; 6] = [
        Content::End,
        Content::Identity,
        Content::Manifest,
        Content::Images,
        Content::Segment,
        Content::Checksums,
    ];

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

/// Which backup a file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ArchiveName {
    pub(crate) version: u32,
    /// The database that it is of.
    pub(crate) database: Bits,
    /// Its own bits.
    pub(crate) backup: Bits,
    /// Those of the backup before it, upon which it is to be restored; [`NO_BASE`] if it is a full one.
    pub(crate) base: Bits,
}

/// What the last frame says.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Ending {
    /// Where the backup's log begins.
    pub(crate) from: LogPlace,
    /// Where it ends.
    pub(crate) end: LogPlace,
    /// Its last chunk.
    pub(crate) last: ChunkMark,
    /// The first moment as of which it can be restored. Unknown if it has no times.
    pub(crate) earliest: WallTime,
    /// The last one.
    pub(crate) latest: WallTime,
}

impl Ending {
    const BYTES: usize = 88;

    fn encode(&self) -> [u8; Ending::BYTES] {
        let Ending { from, end, last, earliest, latest } = self;
        let numbers = [
            from.segment,
            from.offset,
            from.chunks,
            end.segment,
            end.offset,
            end.chunks,
            last.segment,
            last.offset,
            u64::from(last.checksum),
            earliest.0,
            latest.0,
        ];
        let mut bytes = [0; Ending::BYTES];
        for (at, number) in numbers.into_iter().enumerate() {
            bytes[at * 8..at * 8 + 8].copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Ending> {
        let number = |at: usize| long(bytes, at * 8);
        let place = |at| LogPlace { segment: number(at), offset: number(at + 1), chunks: number(at + 2) };
        (bytes.len() == Ending::BYTES).then(|| Ending {
            from: place(0),
            end: place(3),
            last: ChunkMark { segment: number(6), offset: number(7), checksum: number(8) as u32 },
            earliest: WallTime(number(9)),
            latest: WallTime(number(10)),
        })
    }
}

/// A backup that is being written, under another name until it is whole.
pub(crate) struct ArchiveWriter<'a> {
    disk: &'a dyn Disk,
    path: &'a Path,
    tmp: PathBuf,
    file: Box<dyn DiskFile>,
    backup: Bits,
    position: u64,
    frames: u64,
}

impl<'a> ArchiveWriter<'a> {
    pub(crate) fn create(
        disk: &'a dyn Disk,
        path: &'a Path,
        database: Bits,
        base: Bits,
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
        header[48..64].copy_from_slice(&base);
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
    pub(crate) fn finish(mut self, ending: &Ending) -> Result<u64> {
        let end = ArchiveFrame { content: Content::End, number: self.frames, offset: 0 };
        self.frame(&end, &ending.encode())?;
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

fn checksum(header: &[u8; FRAME_BYTES], backup: &Bits, position: u64) -> u32 {
    let checksum = crc32c::crc32c(&header[8..]);
    let checksum = crc32c::crc32c_append(checksum, backup);
    crc32c::crc32c_append(checksum, &position.to_le_bytes())
}

/// A backup that is being read.
pub(crate) struct ArchiveReader<'a> {
    path: &'a Path,
    file: Box<dyn DiskFile>,
    length: u64,
    pub(crate) name: ArchiveName,
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
        let version = word(&header, 8);
        if version == 0 || word(&header, 12) != crc32c::crc32c(&header[16..]) {
            return Err(damaged_backup(path, 0, "its header is not one"));
        }
        let bits = |at: usize| header[at..].first_chunk().copied().unwrap_or_default();
        let name = ArchiveName { version, database: bits(16), backup: bits(32), base: bits(48) };
        Ok(ArchiveReader { path, file, length, name, position: HEADER_BYTES as u64, frames: 0 })
    }

    /// Bytes read.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Bytes there are.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// What the last frame says; `None` of one of version 1.
    pub(crate) fn ending(&self) -> Result<Option<Ending>> {
        if self.name.version < 2 {
            return Ok(None);
        }
        let bytes = (FRAME_BYTES + Ending::BYTES) as u64;
        let at = self.length.saturating_sub(bytes).max(HEADER_BYTES as u64);
        let mut payload = Vec::new();
        let frame = self.frame(at, &mut payload)?;
        let ending = Ending::decode(&payload).filter(|_| frame.content == Content::End);
        ending.map(Some).ok_or_else(|| damaged_backup(self.path, at, "it does not end where it says"))
    }

    /// The next frame, its payload in `payload`; `None` behind the last one.
    pub(crate) fn next(&mut self, payload: &mut Vec<u8>) -> Result<Option<ArchiveFrame>> {
        let frame = self.frame(self.position, payload)?;
        self.position += (FRAME_BYTES + payload.len()) as u64;
        if frame.content != Content::End {
            self.frames += 1;
            return Ok(Some(frame));
        }
        let is_known = self.name.version > 1 || payload.is_empty();
        match is_known && frame.number == self.frames && self.position == self.length {
            true => Ok(None),
            false => Err(damaged_backup(self.path, self.position, "it does not end where it says")),
        }
    }

    /// The frame at a place, its payload in `payload`.
    fn frame(&self, at: u64, payload: &mut Vec<u8>) -> Result<ArchiveFrame> {
        let path = self.path;
        let wrong = |what: &str| damaged_backup(path, at, what);
        let mut header = [0; FRAME_BYTES];
        let filled = read_full(&*self.file, &mut header, at).map_err(failed("read", path))?;
        if filled < FRAME_BYTES {
            return Err(wrong("it ends too early"));
        }
        if header[..4] != FRAME_MAGIC || word(&header, 4) != checksum(&header, &self.name.backup, at) {
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
        Ok(ArchiveFrame { content, number, offset })
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
