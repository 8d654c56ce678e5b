//! Reading a log: which records come back, in which order, and where the next chunk goes.
//!
//! # Order
//! A chunk that says W, and those before it, hold all records up to W, and some of later ones. Those are held back until a chunk
//! says a W that covers them. What is held back when an incarnation ends was not acknowledged, and is dropped: the next incarnation
//! gives the same timestamps again.
//!
//! # The end
//! A chunk is written when the one before is on disk, so at most the last one is torn. If there is no good chunk at a place, the log
//! ends there, provided that there is no good one behind it; if there is one, the file was damaged later.

use crate::disk::{Disk, read_full};
use crate::ending::Ending;
use crate::failure::{damaged, failed};
use crate::folder::{SegmentFiles, missing_segment, refusal, segment_path};
use crate::format::{
    CHUNK_ALIGNMENT, CHUNK_HEADER_BYTES, ChunkHeader, ChunkPlace, DatabaseBits, Refused,
    SEGMENT_HEADER_BYTES, SegmentHeader, record_at,
};
use crate::options::{LogOptions, Loss};
use crate::record::{LogStart, Payload, Record, Replay};
use crate::segments::Segment;
use crate::window::Window;
use ankerdb_base::{Error, Result, SqlState, Timestamp};
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What was found.
pub(crate) struct Found {
    /// The last one that has written anything.
    pub(crate) incarnation: u64,
    pub(crate) chunks: u64,
    /// Where the present segment begins.
    pub(crate) present_start: LogStart,
    pub(crate) last_timestamp: Timestamp,
    pub(crate) present: Segment,
    pub(crate) ready: VecDeque<Segment>,
    pub(crate) loss: Option<Loss>,
}

/// Reads the segments, cuts the torn end off, and syncs what a process before this one may have written without.
pub(crate) fn replay(
    disk: &dyn Disk,
    path: &Path,
    database: DatabaseBits,
    files: SegmentFiles,
    start: &LogStart,
    options: &LogOptions,
    visit: &mut dyn Replay,
) -> Result<Found> {
    let (segments, strays) = open_segments(disk, path, database, files, options.recover_to_last_valid)?;
    let total = segments.iter().map(|segment| segment.bytes).sum();
    let mut reading = Reading { folder: path, database, segments, start, options, total };
    let (mut records, end) = reading.read_all(visit)?;
    let (search_from, last_chunk) = (records.search_from, records.last_chunk);
    let mut ending = Ending { end, search_from, last_chunk, traces: Vec::new() };
    let loss =
        ending.find_loss(&reading.segments, database, records.problem.is_some() || !strays.is_empty())?;
    if let Some(loss) = &loss
        && !options.recover_to_last_valid
    {
        let behind = || damaged(&loss.file, loss.offset, "there are good records behind it");
        return Err(records.problem.unwrap_or_else(behind));
    }
    while records.visit.wants_another_pass()? {
        let segments = reading.segments.iter_mut();
        segments.for_each(|segment| segment.position = SEGMENT_HEADER_BYTES as u64);
        (records, _) = reading.read_all(records.visit)?;
    }
    let mut segments = reading.segments;
    let ready = ending.cut(disk, path, &mut segments, &strays, loss.is_some(), options.segment_bytes())?;
    if let Some(progress) = &options.progress {
        progress(total, total);
    }
    Ok(Found {
        incarnation: records.incarnation,
        chunks: records.chunks,
        present_start: records.segment_start,
        last_timestamp: records.last_timestamp,
        ready,
        present: segments.pop().expect("the one that the log ends in"),
        loss,
    })
}

/// What is read, once or several times.
struct Reading<'a> {
    folder: &'a Path,
    database: DatabaseBits,
    segments: Vec<Segment>,
    start: &'a LogStart,
    options: &'a LogOptions,
    /// Bytes of all segments.
    total: u64,
}

impl Reading<'_> {
    /// Reads all records; returns what was found, and the segment in which the log ends.
    fn read_all<'v>(&mut self, visit: &'v mut dyn Replay) -> Result<(Records<'v>, usize)> {
        let mut records = Records::new(self.start, visit);
        let (mut read, mut end) = (0, 0);
        let (options, total) = (self.options, self.total);
        while records.read_segment(&mut self.segments[end], self.database, &mut |bytes| {
            if let Some(progress) = &options.progress {
                progress(read + bytes, total);
            }
        })? {
            read += self.segments[end].bytes;
            if end + 1 == self.segments.len() {
                let missing = self.segments[end].number + 1;
                records.problem = Some(missing_segment(&segment_path(self.folder, missing)));
                records.take_back(&mut self.segments[end]);
                break;
            }
            end += 1;
        }
        Ok((records, end))
    }
}

/// Opens all segments and looks whether they are those of this database; returns them and the strays. If that is allowed, those from
/// the first damaged one on become strays.
fn open_segments(
    disk: &dyn Disk,
    path: &Path,
    database: DatabaseBits,
    files: SegmentFiles,
    may_lose: bool,
) -> Result<(Vec<Segment>, Vec<PathBuf>)> {
    let mut segments = Vec::with_capacity(files.segments.len());
    let mut strays = files.strays;
    for (file, number) in files.segments.iter().zip(files.first..) {
        match open_segment(disk, path, database, file, number) {
            Ok(Some(segment)) => segments.push(segment),
            Ok(None) if may_lose && number > files.first => {
                strays.splice(0..0, files.segments[segments.len()..].iter().cloned());
                break;
            }
            Ok(None) => return Err(refusal(file, Refused::Damaged)),
            Err(error) => return Err(error),
        }
    }
    Ok((segments, strays))
}

/// A segment with chunks to read; `None` if its header is damaged.
pub(crate) fn open_segment(
    disk: &dyn Disk,
    folder: &Path,
    database: DatabaseBits,
    path: &Path,
    number: u64,
) -> Result<Option<Segment>> {
    let file = disk.open(path).map_err(failed("open", path))?;
    let length = file.length().map_err(failed("read", path))?;
    let mut bytes = [0; SEGMENT_HEADER_BYTES];
    read_full(&*file, &mut bytes, 0).map_err(failed("read", path))?;
    let header = match SegmentHeader::decode(&bytes) {
        Ok(header) => header,
        Err(Refused::Damaged) => return Ok(None),
        Err(refused) => return Err(refusal(path, refused)),
    };
    if header.database != database {
        let message = format!("\"{}\" is a segment of another database", path.display());
        let hint = format!("Restore the file that belongs to \"{}\".", folder.display());
        return Err(Error::new(SqlState::DataCorrupted, message).with_hint(hint));
    }
    if header.number != number {
        return Err(damaged(path, 0, &format!("it is segment {} by another name", header.number)));
    }
    let bytes = length.min(header.bytes) / CHUNK_ALIGNMENT * CHUNK_ALIGNMENT;
    let position = SEGMENT_HEADER_BYTES as u64;
    Ok(Some(Segment { number, path: path.to_owned(), file, position, bytes }))
}

/// Puts the records of chunks into their order.
struct Records<'a> {
    visit: &'a mut dyn Replay,
    incarnation: u64,
    chunks: u64,
    /// Where the segment begins that is read.
    segment_start: LogStart,
    last_timestamp: Timestamp,
    held_back: Vec<Record>,
    /// Behind the chunk that is none: where a good one would be damage's proof.
    search_from: u64,
    /// Segment and offset of the last good chunk.
    last_chunk: Option<(u64, u64)>,
    /// Why the log ends here although it should go on.
    problem: Option<Error>,
}

impl<'a> Records<'a> {
    fn new(start: &LogStart, visit: &'a mut dyn Replay) -> Records<'a> {
        Records {
            visit,
            incarnation: start.incarnation,
            chunks: start.chunks,
            segment_start: *start,
            last_timestamp: start.timestamp,
            held_back: Vec::new(),
            search_from: 0,
            last_chunk: None,
            problem: None,
        }
    }

    /// Reads chunks from the segment's position on and moves it. Returns whether the next segment is to be read; if not, the
    /// position is where the log ends.
    fn read_segment(
        &mut self,
        segment: &mut Segment,
        database: DatabaseBits,
        progress: &mut dyn FnMut(u64),
    ) -> Result<bool> {
        let path = segment.path.clone();
        let (chunks, incarnation) = (self.chunks, self.incarnation);
        let timestamp = Timestamp::ZERO;
        self.segment_start = LogStart { segment: segment.number, chunks, incarnation, timestamp };
        let mut window = Window::new(&*segment.file, segment.bytes);
        let mut told = 0;
        loop {
            let offset = segment.position;
            let place = ChunkPlace { database, segment: segment.number, offset };
            self.search_from = offset + CHUNK_ALIGNMENT;
            let bytes = window.get(offset, CHUNK_HEADER_BYTES).map_err(failed("read", &path))?;
            let Some(header) = ChunkHeader::decode(bytes, &place) else { return Ok(false) };
            if header.number != self.chunks + 1 || header.incarnation < self.incarnation {
                let what = format!("chunk {} follows chunk {}", header.number, self.chunks);
                self.problem = Some(damaged(&path, offset, &what));
                return Ok(false);
            }
            self.search_from = header.end(offset);
            let payload = window
                .copy(offset + CHUNK_HEADER_BYTES as u64, header.payload_bytes as usize)
                .map_err(|error| unreadable(&path, header.payload_bytes as usize, error))?;
            let is_whole = payload.len() == header.payload_bytes as usize;
            if !is_whole || crc32c::crc32c(&payload) != header.payload_checksum {
                return Ok(false);
            }
            self.chunks = header.number;
            self.last_chunk = Some((segment.number, offset));
            segment.position = header.end(offset).min(segment.bytes);
            self.take(&header, payload, &path, offset)?;
            if header.is_end {
                return Ok(true);
            }
            if segment.position - told >= 1 << 20 {
                told = segment.position;
                progress(told);
            }
        }
    }

    /// The mark of the segment's end is none, as there is no next one.
    fn take_back(&mut self, segment: &mut Segment) {
        if let Some((_, offset)) = self.last_chunk.take() {
            segment.position = offset;
            self.search_from = offset + CHUNK_ALIGNMENT;
            self.chunks -= 1;
        }
    }

    /// Delivers what the chunk covers.
    fn take(&mut self, header: &ChunkHeader, payload: Vec<u8>, path: &Path, offset: u64) -> Result<()> {
        if header.incarnation > self.incarnation {
            self.held_back.clear();
            self.incarnation = header.incarnation;
        }
        self.last_timestamp = self.last_timestamp.max(header.covered);
        let payload = Arc::new(payload);
        let mut at = 0;
        for number in 0..header.records {
            let Some(record) = record_at(&payload, at) else {
                return Err(damaged(path, offset, &format!("there is no record {number} in the chunk")));
            };
            at = record.payload.end;
            let record = Record {
                kind: record.kind,
                timestamp: record.timestamp,
                incarnation: header.incarnation,
                payload: Payload::new(&payload, record.payload),
            };
            if record.timestamp == Timestamp::ZERO {
                self.visit.record(record)?;
            } else {
                self.last_timestamp = self.last_timestamp.max(record.timestamp);
                self.held_back.push(record);
            }
        }
        // Stable, so that records of one commit stay in their order.
        self.held_back.sort_by_key(|record| record.timestamp);
        let covered = self.held_back.partition_point(|record| record.timestamp <= header.covered);
        for record in self.held_back.drain(..covered) {
            self.visit.record(record)?;
        }
        Ok(())
    }
}

pub(crate) fn unreadable(path: &Path, bytes: usize, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::OutOfMemory => Error::out_of_memory(bytes),
        _ => failed("read", path)(error),
    }
}
