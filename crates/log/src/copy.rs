//! A copy of the log as far as it is on disk, beside the flusher that goes on writing it.
//!
//! ```text
//! segments   the first that is needed ──► the last that there was when the copy began
//! each       its header, then good chunks ──► up to the first place without one
//! ```
//!
//! What is acknowledged before the copy begins lies in chunks on disk, so the copy has it. At the place where it ends a chunk may just be written: if
//! there are good ones behind it, the place is read once more, and is damaged only if it still has none.

use crate::disk::{Disk, read_full};
use crate::failure::{damaged, failed};
use crate::folder::{missing_segment, refusal, segment_number, segment_path};
use crate::format::{
    CHUNK_HEADER_BYTES, ChunkHeader, ChunkPlace, DatabaseBits, Refused, SEGMENT_HEADER_BYTES, SegmentHeader,
};
use crate::record::LogStart;
use crate::replay::{open_segment, unreadable};
use crate::segments::Segment;
use crate::verify::next_chunk;
use crate::window::Window;
use ankerdb_base::{Error, Result, SqlState};
use std::path::Path;

/// Bytes that are handed on together, one chunk more at most.
const PIECE_BYTES: usize = 1 << 20;

/// Takes bytes of a segment: its number, where in it they begin, and the bytes.
pub type Sink<'a> = &'a mut dyn FnMut(u64, u64, &[u8]) -> Result<()>;

/// Hands what a log has on disk to `sink`, from `start` on. It must have so many chunks. Returns how many it has.
///
/// # Errors
/// XX001 if it is damaged or ends too early, 58030 and 42501 if it cannot be read; those of `sink`.
pub fn copy_log(
    disk: &dyn Disk,
    folder: &Path,
    (database, start, chunks): ([u8; 16], &LogStart, u64),
    sink: Sink<'_>,
) -> Result<u64> {
    let names = disk.list(folder).map_err(failed("list the folder", folder))?;
    let last = names.iter().filter_map(|name| segment_number(name)).max().unwrap_or(0);
    let mut copy = Copy { database, chunks: start.chunks, last, sink };
    let mut number = start.segment;
    loop {
        let path = segment_path(folder, number);
        if number > last {
            return Err(missing_segment(&path));
        }
        let segment = open_segment(disk, folder, database, &path, number)?;
        let segment = segment.ok_or_else(|| refusal(&path, Refused::Damaged))?;
        if !copy.segment(&segment)? {
            break;
        }
        number += 1;
    }
    if copy.chunks < chunks {
        let message =
            format!("the log in \"{}\" ends in front of what the checkpoint has of it", folder.display());
        return Err(Error::new(SqlState::DataCorrupted, message)
            .with_hint("Look at the folder with \"ankerdb check\"."));
    }
    Ok(copy.chunks)
}

struct Copy<'a> {
    database: DatabaseBits,
    /// Chunks up to here.
    chunks: u64,
    /// The number of the last segment.
    last: u64,
    sink: Sink<'a>,
}

impl Copy<'_> {
    /// Copies a segment; whether the log goes on in the next one.
    fn segment(&mut self, segment: &Segment) -> Result<bool> {
        let mut header = [0; SEGMENT_HEADER_BYTES];
        read_full(&*segment.file, &mut header, 0).map_err(failed("read", &segment.path))?;
        (self.sink)(segment.number, 0, &header)?;
        let mut window = Window::new(&*segment.file, segment.bytes);
        let (mut offset, mut piece) = (SEGMENT_HEADER_BYTES as u64, Vec::new());
        let goes_on = loop {
            let place = ChunkPlace { database: self.database, segment: segment.number, offset };
            let start = piece.len();
            let found =
                match read_chunk(segment, &mut window, &place, &mut piece)? {
                    None if next_chunk(segment, self.database, offset + 8)?.is_some() => {
                        window = Window::new(&*segment.file, segment.bytes);
                        let again = read_chunk(segment, &mut window, &place, &mut piece)?;
                        Some(again.ok_or_else(|| {
                            damaged(&segment.path, offset, "there are good records behind it")
                        })?)
                    }
                    found => found,
                };
            let Some(chunk) = found else { break false };
            if chunk.number != self.chunks + 1 {
                let what = format!("chunk {} follows chunk {}", chunk.number, self.chunks);
                return Err(damaged(&segment.path, offset, &what));
            }
            if chunk.is_end && segment.number == self.last {
                // What follows was made meanwhile. Without its mark the segment is the last one.
                piece.truncate(start);
                break false;
            }
            self.chunks = chunk.number;
            if chunk.is_end {
                break true;
            }
            let next = chunk.end(offset);
            if piece.len() >= PIECE_BYTES {
                (self.sink)(segment.number, next - piece.len() as u64, &piece)?;
                piece.clear();
            }
            offset = next;
        };
        if !piece.is_empty() {
            let end = if goes_on { offset + CHUNK_HEADER_BYTES as u64 } else { offset };
            (self.sink)(segment.number, end - piece.len() as u64, &piece)?;
        }
        Ok(goes_on)
    }
}

/// Appends the chunk at a place to `piece`, if there is a good one.
fn read_chunk(
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
