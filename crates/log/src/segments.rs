//! Where chunks are written: the present segment, those made ahead, and the one that is being made.

use crate::disk::{Disk, DiskFile, write_full};
use crate::failure::FileFailure;
use crate::folder::{MakingSegment, ZEROED_AT_ONCE, remove_remnant, segment_path};
use crate::format::{
    CHUNK_ALIGNMENT, CHUNK_HEADER_BYTES, ChunkHeader, ChunkPlace, DatabaseBits, SEGMENT_HEADER_BYTES,
    SegmentHeader, TIME_BYTES,
};
use crate::pin::are_pinned;
use crate::position::Position;
use crate::room::{empty_segment, usable};
use crate::wall_time::WallTime;
use ankerdb_base::Timestamp;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

/// A segment with room for chunks.
pub(crate) struct Segment {
    pub(crate) number: u64,
    pub(crate) path: PathBuf,
    pub(crate) file: Box<dyn DiskFile>,
    /// Where the next chunk goes.
    pub(crate) position: u64,
    /// Length of the file.
    pub(crate) bytes: u64,
}

impl Segment {
    /// Bytes for chunks, the mark of the end aside.
    fn left(&self) -> u64 {
        self.bytes.saturating_sub(self.position + CHUNK_HEADER_BYTES as u64)
    }
}

/// The segments that are written, by the flusher alone.
pub(crate) struct Segments {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) folder: PathBuf,
    pub(crate) database: DatabaseBits,
    pub(crate) segment_bytes: u64,
    pub(crate) record_bytes_max: usize,
    pub(crate) incarnation: u64,
    /// Number of the last chunk.
    pub(crate) chunks: u64,
    pub(crate) present: Segment,
    pub(crate) ready: VecDeque<Segment>,
    pub(crate) making: Option<MakingSegment>,
}

impl Segments {
    /// Most bytes of records of a chunk that fits into the present segment, if any does.
    pub(crate) fn payload_max(&self) -> Option<usize> {
        let left = self.present.left() / CHUNK_ALIGNMENT * CHUNK_ALIGNMENT;
        left.checked_sub((CHUNK_HEADER_BYTES + TIME_BYTES) as u64).map(|bytes| bytes as usize)
    }

    /// What can be given to records; see [`crate::room`].
    pub(crate) fn capacity(&self) -> u64 {
        let longest = self.record_bytes_max;
        let ready = self.ready.iter().map(|segment| usable(empty_segment(segment.bytes), longest));
        usable(self.present.left(), longest) + ready.sum::<u64>()
    }

    /// Writes and syncs a chunk. `bytes` begins with room for the header; the records must fit. The time is later than everything that
    /// `covered` covers, and earlier than any word of that being on disk.
    pub(crate) fn write(
        &mut self,
        bytes: &mut Vec<u8>,
        covered: Timestamp,
        records: u32,
    ) -> Result<(), FileFailure> {
        bytes.extend_from_slice(&WallTime::now().0.to_le_bytes());
        let payload = &bytes[CHUNK_HEADER_BYTES..];
        let header = ChunkHeader {
            incarnation: self.incarnation,
            number: self.chunks + 1,
            covered,
            payload_bytes: payload.len() as u32,
            payload_checksum: crc32c::crc32c(payload),
            records,
            is_end: false,
            has_time: true,
        };
        bytes.resize(bytes.len().next_multiple_of(CHUNK_ALIGNMENT as usize), 0);
        assert!(bytes.len() as u64 <= self.present.left(), "room for the chunk was reserved");
        let encoded = header.encode(&self.place());
        bytes[..CHUNK_HEADER_BYTES].copy_from_slice(&encoded);
        self.put(bytes)
    }

    /// Ends the present segment and goes on in the next one, which is made now if it is not there.
    pub(crate) fn switch(&mut self, covered: Timestamp, position: &Position) -> Result<(), FileFailure> {
        while self.ready.is_empty() {
            self.make_step(position)?;
        }
        let header = ChunkHeader {
            incarnation: self.incarnation,
            number: self.chunks + 1,
            covered,
            payload_bytes: 0,
            payload_checksum: 0,
            records: 0,
            is_end: true,
            has_time: false,
        };
        let mark = header.encode(&self.place());
        self.put(&mark)?;
        self.present = self.ready.pop_front().expect("made above");
        Ok(())
    }

    fn place(&self) -> ChunkPlace {
        ChunkPlace { database: self.database, segment: self.present.number, offset: self.present.position }
    }

    /// The next chunk is written when this one is on disk: only the last one can be torn.
    fn put(&mut self, bytes: &[u8]) -> Result<(), FileFailure> {
        let segment = &mut self.present;
        write_full(&*segment.file, bytes, segment.position)
            .map_err(FileFailure::of("write", &segment.path))?;
        segment.file.sync().map_err(FileFailure::of("sync", &segment.path))?;
        segment.position += bytes.len() as u64;
        self.chunks += 1;
        Ok(())
    }

    /// Makes the next segment, of one that nobody reads any more or a piece at a time; returns whether there is one more now. After a
    /// failure nothing is left of it.
    pub(crate) fn make_step(&mut self, position: &Position) -> Result<bool, FileFailure> {
        let made = self.try_step(position);
        if made.is_err() {
            self.making = None;
            remove_remnant(&*self.disk, &self.folder);
        }
        made
    }

    fn try_step(&mut self, position: &Position) -> Result<bool, FileFailure> {
        let number = self.present.number + self.ready.len() as u64 + 1;
        let mut making = match self.making.take() {
            Some(making) => making,
            None => {
                let header = SegmentHeader { database: self.database, number, bytes: self.segment_bytes };
                // One that a copier may want stays as it is, and if nobody can tell, too.
                let is_wanted = || are_pinned(&*self.disk, &self.folder).unwrap_or(true);
                match position.take_spare(is_wanted) {
                    Some(spare) => MakingSegment::recycle(&*self.disk, &self.folder, spare, header)?,
                    None => MakingSegment::begin(&*self.disk, &self.folder, header)?,
                }
            }
        };
        let Some(header) = making.step(&*self.disk, &self.folder, ZEROED_AT_ONCE)? else {
            self.making = Some(making);
            return Ok(false);
        };
        self.ready.push_back(Segment {
            number: header.number,
            path: segment_path(&self.folder, header.number),
            file: making.into_file(),
            position: SEGMENT_HEADER_BYTES as u64,
            bytes: header.bytes,
        });
        Ok(true)
    }
}
