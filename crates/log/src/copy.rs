//! A copy of the log as far as it is on disk, beside the flusher that goes on writing it.
//!
//! ```text
//! segments   the first that is needed ──► the last that there was when the copy began
//! each       its header, then good chunks ──► up to the first place without one
//! ```
//!
//! What is acknowledged before the copy begins lies in chunks on disk, so the copy has it. At the place where it ends a chunk may just be written: if
//! there are good ones behind it, the place is read once more, and is damaged only if it still has none.
//!
//! A later copy goes on where an earlier one has ended, if the log still has that place, and its last chunk there.

use crate::disk::{Disk, read_full};
use crate::failure::{damaged, failed};
use crate::folder::{missing_segment, refusal, segment_number, segment_path};
use crate::format::{
    CHUNK_HEADER_BYTES, ChunkHeader, ChunkPlace, Refused, SEGMENT_HEADER_BYTES, SegmentHeader,
    chunk_checksum, time_of,
};
use crate::record::LogStart;
use crate::replay::{open_segment, unreadable};
use crate::segments::Segment;
use crate::verify::next_chunk;
use crate::wall_time::WallTime;
use crate::window::Window;
use ankerdb_base::{Error, Result, SqlState};
use std::path::Path;

/// Bytes that are handed on together, one chunk more at most.
const PIECE_BYTES: usize = 1 << 20;

/// Takes bytes of a segment: its number, where in it they begin, and the bytes.
pub type Sink<'a> = &'a mut dyn FnMut(u64, u64, &[u8]) -> Result<()>;

/// A place between two chunks.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LogPlace {
    /// The number of the segment.
    pub segment: u64,
    /// Where in it the next chunk begins; 0 if its header comes before that.
    pub offset: u64,
    /// Chunks in front of it, in all segments.
    pub chunks: u64,
}

impl From<&LogStart> for LogPlace {
    fn from(start: &LogStart) -> LogPlace {
        LogPlace { segment: start.segment, offset: 0, chunks: start.chunks }
    }
}

/// Which chunk lies where.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ChunkMark {
    /// The number of its segment.
    pub segment: u64,
    /// Where in it the chunk begins; 0 if there is none.
    pub offset: u64,
    /// The checksum in its header.
    pub checksum: u32,
}

/// What is to be copied of a log.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Whose log it is.
    pub database: [u8; 16],
    /// Where the copy begins.
    pub from: LogPlace,
    /// How many chunks the log must have: those that images belong to.
    pub chunks: u64,
}

/// What was copied of a log.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CopiedLog {
    /// Where it begins.
    pub from: LogPlace,
    /// Where it ends.
    pub end: LogPlace,
    /// Its last chunk.
    pub last: ChunkMark,
    /// When the first chunk was written that has a time and which nothing wants to be kept for its number.
    pub first_time: WallTime,
    /// The latest time of its chunks.
    pub last_time: WallTime,
}

/// Whether a log still goes on behind an earlier copy of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Continuation {
    /// It does.
    Whole,
    /// What came next is gone: a checkpoint did not need it any more.
    Gone,
    /// It has another chunk where the copy has its last, or none: it is another log, or has lost its end since.
    Other,
}

/// Hands what a log has on disk to `sink`.
///
/// # Errors
/// XX001 if it is damaged or ends too early, 58030 and 42501 if it cannot be read; those of `sink`.
pub fn copy_log(disk: &dyn Disk, folder: &Path, wanted: &Wanted, sink: Sink<'_>) -> Result<CopiedLog> {
    let mut copy = Copy::new(wanted, last_segment(disk, folder)?, sink);
    loop {
        let number = copy.copied.end.segment;
        let path = segment_path(folder, number);
        if number > copy.last {
            return Err(missing_segment(&path));
        }
        let segment = open_segment(disk, folder, wanted.database, &path, number)?;
        let segment = segment.ok_or_else(|| refusal(&path, Refused::Damaged))?;
        if !copy.segment(&segment)? {
            break;
        }
    }
    if copy.copied.end.chunks < wanted.chunks {
        let message =
            format!("the log in \"{}\" ends in front of what the checkpoint has of it", folder.display());
        return Err(Error::new(SqlState::DataCorrupted, message)
            .with_hint("Look at the folder with \"ankerdb check\"."));
    }
    Ok(copy.copied)
}

/// Looks whether the log in a folder goes on behind a copy that ends at `wanted.from` with the chunk `last`, up to the segment that is read
/// next anyway. The files must be pinned.
///
/// # Errors
/// 58030 and 42501 if it cannot be read.
pub fn continuation(
    disk: &dyn Disk,
    folder: &Path,
    wanted: &Wanted,
    (last, needed): (&ChunkMark, &LogStart),
) -> Result<Continuation> {
    let found = last_segment(disk, folder)?;
    if wanted.from.segment > found {
        return Ok(Continuation::Other);
    }
    let open = |number: u64| {
        let path = segment_path(folder, number);
        match open_segment(disk, folder, wanted.database, &path, number) {
            Ok(segment) => Ok(segment),
            // A segment in front of those that are needed goes at any time.
            Err(error) if [SqlState::UndefinedFile, SqlState::DataCorrupted].contains(&error.state()) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    };
    if last.offset > 0 {
        let Some(segment) = open(last.segment)? else { return Ok(Continuation::Gone) };
        let place = ChunkPlace { database: wanted.database, segment: last.segment, offset: last.offset };
        let mut chunk = Vec::new();
        let mut window = Window::new(&*segment.file, segment.bytes);
        let is_there = read_chunk(&segment, &mut window, &place, &mut chunk)?.is_some();
        if !is_there || chunk_checksum(&chunk) != last.checksum {
            return Ok(Continuation::Other);
        }
    }
    let mut ignore = |_, _, _: &[u8]| Ok(());
    let mut copy = Copy::new(wanted, u64::MAX, &mut ignore);
    while copy.copied.end.segment < needed.segment {
        let Some(segment) = open(copy.copied.end.segment)? else { return Ok(Continuation::Gone) };
        match copy.segment(&segment) {
            Ok(true) => {}
            Ok(false) => return Ok(Continuation::Gone),
            Err(error) if error.state() == SqlState::DataCorrupted => return Ok(Continuation::Gone),
            Err(error) => return Err(error),
        }
    }
    Ok(Continuation::Whole)
}

fn last_segment(disk: &dyn Disk, folder: &Path) -> Result<u64> {
    let names = disk.list(folder).map_err(failed("list the folder", folder))?;
    Ok(names.iter().filter_map(|name| segment_number(name)).max().unwrap_or(0))
}

struct Copy<'a> {
    wanted: Wanted,
    /// The number of the last segment.
    last: u64,
    /// Up to here.
    copied: CopiedLog,
    sink: Sink<'a>,
}

impl<'a> Copy<'a> {
    fn new(wanted: &Wanted, last: u64, sink: Sink<'a>) -> Copy<'a> {
        let copied = CopiedLog { from: wanted.from, end: wanted.from, ..CopiedLog::default() };
        Copy { wanted: *wanted, last, copied, sink }
    }

    /// Copies a segment from the copy's end on; whether the log goes on in the next one.
    fn segment(&mut self, segment: &Segment) -> Result<bool> {
        let mut offset = self.copied.end.offset;
        if offset == 0 {
            let mut header = [0; SEGMENT_HEADER_BYTES];
            read_full(&*segment.file, &mut header, 0).map_err(failed("read", &segment.path))?;
            (self.sink)(segment.number, 0, &header)?;
            offset = SEGMENT_HEADER_BYTES as u64;
        }
        let mut window = Window::new(&*segment.file, segment.bytes);
        let mut piece = Vec::new();
        let goes_on = loop {
            let start = piece.len();
            let Some(chunk) = self.chunk(segment, &mut window, offset, &mut piece)? else { break false };
            if chunk.is_end && segment.number == self.last {
                // What follows was made meanwhile. Without its mark the segment is the last one.
                piece.truncate(start);
                break false;
            }
            self.note(&chunk, segment.number, offset, &piece[start..]);
            offset = chunk.end(offset);
            if chunk.is_end {
                break true;
            }
            if piece.len() >= PIECE_BYTES {
                (self.sink)(segment.number, offset - piece.len() as u64, &piece)?;
                piece.clear();
            }
        };
        if !piece.is_empty() {
            (self.sink)(segment.number, offset - piece.len() as u64, &piece)?;
        }
        let end = &mut self.copied.end;
        (end.segment, end.offset) = if goes_on { (segment.number + 1, 0) } else { (segment.number, offset) };
        Ok(goes_on)
    }

    /// The chunk at a place, which must be the next one; `None` if there is none.
    fn chunk<'s>(
        &self,
        segment: &'s Segment,
        window: &mut Window<'s>,
        offset: u64,
        piece: &mut Vec<u8>,
    ) -> Result<Option<ChunkHeader>> {
        let database = self.wanted.database;
        let place = ChunkPlace { database, segment: segment.number, offset };
        let found = match read_chunk(segment, window, &place, piece)? {
            None if next_chunk(segment, database, offset + 8)?.is_some() => {
                let mut again = Window::new(&*segment.file, segment.bytes);
                let again = read_chunk(segment, &mut again, &place, piece)?;
                let none = || damaged(&segment.path, offset, "there are good records behind it");
                *window = Window::new(&*segment.file, segment.bytes);
                Some(again.ok_or_else(none)?)
            }
            found => found,
        };
        let chunks = self.copied.end.chunks;
        match found {
            Some(chunk) if chunk.number != chunks + 1 => {
                let what = format!("chunk {} follows chunk {chunks}", chunk.number);
                Err(damaged(&segment.path, offset, &what))
            }
            found => Ok(found),
        }
    }

    fn note(&mut self, header: &ChunkHeader, segment: u64, offset: u64, chunk: &[u8]) {
        let copied = &mut self.copied;
        copied.end.chunks = header.number;
        copied.last = ChunkMark { segment, offset, checksum: chunk_checksum(chunk) };
        let time = time_of(header, &chunk[CHUNK_HEADER_BYTES..][..header.payload_bytes as usize]);
        if time.is_known() && header.number >= self.wanted.chunks && !copied.first_time.is_known() {
            copied.first_time = time;
        }
        copied.last_time = copied.last_time.max(time);
    }
}

/// Appends the chunk at a place to `piece`, if there is a good one.
pub(crate) fn read_chunk(
    segment: &Segment,
    window: &mut Window<'_>,
    place: &ChunkPlace,
    piece: &mut Vec<u8>,
) -> Result<Option<ChunkHeader>> {
    let header = window.get(place.offset, CHUNK_HEADER_BYTES).map_err(failed("read", &segment.path))?;
    let Some(header) = ChunkHeader::decode(header, place) else { return Ok(None) };
    let length = (header.end(place.offset) - place.offset) as usize;
    let bytes =
        window.copy(place.offset, length).map_err(|error| unreadable(&segment.path, length, error))?;
    let payload = bytes.get(CHUNK_HEADER_BYTES..CHUNK_HEADER_BYTES + header.payload_bytes as usize);
    if bytes.len() != length
        || payload.is_none_or(|payload| crc32c::crc32c(payload) != header.payload_checksum)
    {
        return Ok(None);
    }
    piece.try_reserve(length).map_err(|_| Error::out_of_memory(length))?;
    piece.extend_from_slice(&bytes);
    Ok(Some(header))
}

/// The length that a segment's file has, by its header.
///
/// # Errors
/// XX001 if it is none.
pub fn segment_length(header: &[u8]) -> Result<u64> {
    let header = header.first_chunk().and_then(|bytes| SegmentHeader::decode(bytes).ok());
    let none = || Error::new(SqlState::DataCorrupted, "the header of a segment is not one");
    header.map(|header| header.bytes).ok_or_else(none)
}
