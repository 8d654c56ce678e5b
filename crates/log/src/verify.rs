//! Looking at a whole log for damage, without repeating anything of it.
//!
//! A start ends at the first place that is wrong. A look goes on behind it: at the next good chunk, of which the checksum says that it lies where
//! it was written. So each damaged place is told, with its file and offset. What a torn end is, and what damage, is decided as in
//! `replay`: if there is no good chunk behind a place without one, the log ends there.

use crate::disk::Disk;
use crate::failure::{damaged, failed};
use crate::folder::{
    has_identity, missing_segment, read_identity, refusal, refuse_unfinished, segment_number, segment_path,
    take_lock,
};
use crate::format::{
    CHUNK_ALIGNMENT, CHUNK_HEADER_BYTES, CHUNK_MAGIC, ChunkHeader, ChunkPlace, DatabaseBits, Refused,
    SEGMENT_HEADER_BYTES, record_at,
};
use crate::record::LogStart;
use crate::replay::{open_segment, unreadable};
use crate::segments::Segment;
use crate::window::Window;
use ankerdb_base::{Error, Result, SqlState};
use std::any::Any;
use std::path::{Path, PathBuf};

/// What a look at a log has found, faults aside.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct LogCheck {
    /// Segments that belong to the log.
    pub segments: u64,
    /// Bytes of good chunks.
    pub bytes: u64,
    /// Good chunks.
    pub chunks: u64,
    /// Records in them.
    pub records: u64,
    /// Bytes of a last chunk that is torn, which a start cuts off.
    pub torn_bytes: u64,
}

/// Locks a folder for as long as it is looked at: with a [disk that changes nothing](crate::ReadOnlyDisk), beside others who look.
///
/// # Errors
/// 55006 if a server is at work in it; 55000 if it is no database's; 58P01, 42501 and 58030 if it cannot be read.
pub fn lock_folder(disk: &dyn Disk, folder: &Path) -> Result<Box<dyn Any + Send + Sync>> {
    let names = disk.list(folder).map_err(failed("list the folder", folder))?;
    refuse_unfinished(folder, &names)?;
    if !has_identity(&names) {
        let message = format!("there is no database in \"{}\"", folder.display());
        let hint = "Name the folder that a server keeps its database in; it has a file \"identity\".";
        return Err(Error::new(SqlState::ObjectNotInPrerequisiteState, message).with_hint(hint));
    }
    take_lock(disk, folder)
}

/// The database whose folder it is.
///
/// # Errors
/// XX001 if the file that says so is damaged, 0A000 if it is of a newer format, 42501 and 58030 if it cannot be read.
pub fn identify(disk: &dyn Disk, folder: &Path) -> Result<[u8; 16]> {
    read_identity(disk, folder)
}

/// Looks at all that a start would read of a log, which begins at `start` and must have so many chunks. Tells each fault to `fault`.
///
/// # Errors
/// 0A000 if it is of a newer format; 42501 if files cannot be read; 53200.
pub fn verify_log(
    disk: &dyn Disk,
    folder: &Path,
    (database, start, chunks): ([u8; 16], &LogStart, u64),
    progress: &dyn Fn(u64, u64),
    fault: &mut dyn FnMut(Error),
) -> Result<LogCheck> {
    let names = disk.list(folder).map_err(failed("list the folder", folder))?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| segment_number(name)).collect();
    numbers.retain(|number| *number >= start.segment);
    numbers.sort_unstable();
    let mut walk = Walk {
        database,
        expected: Some(start.chunks + 1),
        incarnation: start.incarnation,
        end: None,
        found: LogCheck::default(),
        fault,
    };
    let (mut next, mut read, mut faults_told) = (start.segment, 0, false);
    for &number in &numbers {
        if number != next {
            (walk.fault)(missing_segment(&segment_path(folder, next)));
            (walk.expected, walk.end, faults_told) = (None, None, true);
        }
        next = number + 1;
        let path = segment_path(folder, number);
        match open_segment(disk, folder, database, &path, number) {
            Ok(Some(segment)) => {
                walk.segment(&segment).or_else(|error| tell_fault(error, walk.fault))?;
                read += segment.bytes;
                progress(read, numbers.len() as u64 * segment.bytes);
            }
            Ok(None) => {
                (walk.fault)(refusal(&path, Refused::Damaged));
                (walk.expected, faults_told) = (None, true);
            }
            Err(error) => {
                tell_fault(error, walk.fault)?;
                (walk.expected, faults_told) = (None, true);
            }
        }
    }
    if walk.end.is_none() && !faults_told {
        (walk.fault)(missing_segment(&segment_path(folder, next)));
    }
    let last = walk.expected.map(|next| next - 1);
    if let Some(last) = last.filter(|last| *last < chunks) {
        let message = format!(
            "the log in \"{}\" ends with chunk {last}, in front of chunk {chunks}, which the checkpoint has",
            folder.display()
        );
        (walk.fault)(Error::new(SqlState::DataCorrupted, message).with_hint(
            "Restore the folder from a copy. To give up what is missing, start once with recovery to the last valid record.",
        ));
    }
    Ok(walk.found)
}

/// Tells an error, if it is a fault of what is looked at; one that keeps from looking is passed on.
///
/// # Errors
/// Others than XX001, 58030 and 58P01.
pub fn tell_fault(error: Error, fault: &mut dyn FnMut(Error)) -> Result<()> {
    match error.state() {
        SqlState::DataCorrupted | SqlState::IoError | SqlState::UndefinedFile => {
            fault(error);
            Ok(())
        }
        _ => Err(error),
    }
}

/// The way from chunk to chunk.
struct Walk<'a> {
    database: DatabaseBits,
    /// The number of the next chunk; `None` behind a damaged place.
    expected: Option<u64>,
    incarnation: u64,
    /// Where there was no good chunk, with none behind it up to now: file, offset, what is wrong.
    end: Option<(PathBuf, u64, &'static str)>,
    found: LogCheck,
    fault: &'a mut dyn FnMut(Error),
}

/// What lies at a place.
enum Found {
    Good(ChunkHeader),
    /// The header is good, the records are not.
    Header(ChunkHeader),
    Nothing,
}

impl Walk<'_> {
    /// Walks through a segment, up to the mark of its end or to where no chunk is.
    fn segment(&mut self, segment: &Segment) -> Result<()> {
        self.found.segments += 1;
        let mut window = Window::new(&*segment.file, segment.bytes);
        let mut offset = SEGMENT_HEADER_BYTES as u64;
        loop {
            let (from, what, torn) = match self.chunk(segment, &mut window, offset)? {
                Found::Good(header) => {
                    self.good(&header, segment, offset);
                    if header.is_end {
                        return Ok(());
                    }
                    offset = header.end(offset);
                    continue;
                }
                Found::Header(header) => {
                    let end = header.end(offset);
                    (end, "the checksum of a chunk's records is another one", end - offset)
                }
                Found::Nothing => (offset + CHUNK_ALIGNMENT, "there is no chunk", 0),
            };
            match next_chunk(segment, self.database, from)? {
                Some(next) => {
                    let what = format!("{what}; the next good chunk is at offset {next}");
                    (self.fault)(damaged(&segment.path, offset, &what));
                    self.expected = None;
                    offset = next;
                }
                None => {
                    if self.end.is_none() {
                        self.end = Some((segment.path.clone(), offset, what));
                        self.found.torn_bytes = torn;
                    }
                    return Ok(());
                }
            }
        }
    }

    /// What lies at a place of a segment. The records of a good chunk are counted.
    fn chunk(&mut self, segment: &Segment, window: &mut Window<'_>, offset: u64) -> Result<Found> {
        let path = &segment.path;
        let place = ChunkPlace { database: self.database, segment: segment.number, offset };
        let bytes = window.get(offset, CHUNK_HEADER_BYTES).map_err(failed("read", path))?;
        let Some(header) = ChunkHeader::decode(bytes, &place) else { return Ok(Found::Nothing) };
        let length = header.payload_bytes as usize;
        let payload = window
            .copy(offset + CHUNK_HEADER_BYTES as u64, length)
            .map_err(|error| unreadable(path, length, error))?;
        if payload.len() != length || crc32c::crc32c(&payload) != header.payload_checksum {
            return Ok(Found::Header(header));
        }
        let mut at = 0;
        for number in 0..header.records {
            let Some(record) = record_at(&payload, at) else {
                let what = format!("there is no record {number} in the chunk");
                (self.fault)(damaged(path, offset, &what));
                break;
            };
            at = record.payload.end;
        }
        Ok(Found::Good(header))
    }

    fn good(&mut self, header: &ChunkHeader, segment: &Segment, offset: u64) {
        if let Some((path, end, what)) = self.end.take() {
            let what = format!("{what}, and there are good chunks behind it");
            (self.fault)(damaged(&path, end, &what));
            self.found.torn_bytes = 0;
            self.expected = None;
        }
        if let Some(expected) = self.expected.filter(|expected| *expected != header.number) {
            let what = format!("chunk {} follows chunk {}", header.number, expected - 1);
            (self.fault)(damaged(&segment.path, offset, &what));
        } else if header.incarnation < self.incarnation {
            let what = format!("run {} of the server follows run {}", header.incarnation, self.incarnation);
            (self.fault)(damaged(&segment.path, offset, &what));
        }
        self.expected = Some(header.number + 1);
        self.incarnation = header.incarnation;
        self.found.chunks += 1;
        self.found.bytes += header.end(offset) - offset;
        self.found.records += u64::from(header.records);
    }
}

/// The next place from `from` on where a good header of a chunk lies.
pub(crate) fn next_chunk(segment: &Segment, database: DatabaseBits, from: u64) -> Result<Option<u64>> {
    let mut window = Window::new(&*segment.file, segment.bytes);
    let mut offset = from;
    while offset + CHUNK_HEADER_BYTES as u64 <= segment.bytes {
        let place = ChunkPlace { database, segment: segment.number, offset };
        let bytes = window.get(offset, CHUNK_HEADER_BYTES).map_err(failed("read", &segment.path))?;
        if bytes.starts_with(&CHUNK_MAGIC.to_le_bytes()) && ChunkHeader::decode(bytes, &place).is_some() {
            return Ok(Some(offset));
        }
        offset += CHUNK_ALIGNMENT;
    }
    Ok(None)
}
