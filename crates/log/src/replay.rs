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

use crate::disk::{Disk, DiskFile, write_full};
use crate::failure::{damaged, failed};
use crate::folder::{missing_segment, refusal, segment_path};
use crate::format::{
    CHUNK_ALIGNMENT, CHUNK_HEADER_BYTES, CHUNK_MAGIC, ChunkHeader, DatabaseBits, Place, SEGMENT_HEADER_BYTES,
    SegmentHeader, record_at,
};
use crate::options::{LogOptions, Loss};
use crate::record::{Payload, Record, Replay};
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
    pub(crate) last_timestamp: Timestamp,
    pub(crate) present: Segment,
    pub(crate) ready: VecDeque<Segment>,
    pub(crate) loss: Option<Loss>,
}

/// Reads all segments, cuts the torn end off, and syncs what a process before this one may have written without.
pub(crate) fn replay(
    disk: &dyn Disk,
    folder: &Path,
    database: DatabaseBits,
    paths: &[PathBuf],
    options: &LogOptions,
    visit: &mut dyn Replay,
) -> Result<Found> {
    let mut segments = open_segments(disk, folder, database, paths)?;
    let total = segments.iter().map(|segment| segment.bytes).sum();
    let (mut records, mut end) = read_all(folder, database, &mut segments, options, total, visit)?;
    let loss = find_loss(&segments[end..], database, records.search_from)?;
    if let Some(loss) = &loss
        && !options.recover_to_last_valid
    {
        return Err(damaged(&loss.file, loss.offset, "there are good records behind it"));
    }
    while records.visit.wants_another_pass()? {
        segments.iter_mut().for_each(|segment| segment.position = SEGMENT_HEADER_BYTES as u64);
        (records, end) = read_all(folder, database, &mut segments, options, total, records.visit)?;
    }
    let found = Found {
        incarnation: records.incarnation,
        chunks: records.chunks,
        last_timestamp: records.last_timestamp,
        ready: cut(disk, folder, &mut segments, end, loss.is_some(), options.segment_bytes())?,
        present: segments.pop().expect("the one that the log ends in"),
        loss,
    };
    if let Some(progress) = &options.progress {
        progress(total, total);
    }
    Ok(found)
}

/// Reads all records; returns what was found, and the segment in which the log ends.
fn read_all<'a>(
    folder: &Path,
    database: DatabaseBits,
    segments: &mut [Segment],
    options: &LogOptions,
    total: u64,
    visit: &'a mut dyn Replay,
) -> Result<(Records<'a>, usize)> {
    let mut records = Records::new(visit);
    let mut read = 0;
    let mut end = 0;
    while records.read_segment(&mut segments[end], database, &mut |bytes| {
        if let Some(progress) = &options.progress {
            progress(read + bytes, total);
        }
    })? {
        read += segments[end].bytes;
        end += 1;
        if end == segments.len() {
            return Err(missing_segment(&segment_path(folder, end as u64 + 1)));
        }
    }
    Ok((records, end))
}

/// Opens all segments and looks whether they are those of this database.
fn open_segments(
    disk: &dyn Disk,
    folder: &Path,
    database: DatabaseBits,
    paths: &[PathBuf],
) -> Result<Vec<Segment>> {
    let mut segments = Vec::with_capacity(paths.len());
    for (path, number) in paths.iter().zip(1..) {
        let file = disk.open(path).map_err(failed("open", path))?;
        let length = file.length().map_err(failed("read", path))?;
        let mut window = Window::new(&*file, length);
        let bytes = window.get(0, SEGMENT_HEADER_BYTES).map_err(failed("read", path))?;
        let Some(bytes) = bytes.first_chunk() else {
            return Err(damaged(path, length, "the file is too short"));
        };
        let header = SegmentHeader::decode(bytes).map_err(|refused| refusal(path, refused))?;
        if header.database != database {
            let message = format!("\"{}\" is a segment of another database", path.display());
            let hint = format!("Restore the file that belongs to \"{}\".", folder.display());
            return Err(Error::new(SqlState::DataCorrupted, message).with_hint(hint));
        }
        if header.number != number {
            let what = format!("it is segment {} by another name", header.number);
            return Err(damaged(path, 0, &what));
        }
        drop(window);
        let bytes = length.min(header.bytes) / CHUNK_ALIGNMENT * CHUNK_ALIGNMENT;
        let position = SEGMENT_HEADER_BYTES as u64;
        segments.push(Segment { number, path: path.clone(), file, position, bytes });
    }
    Ok(segments)
}

/// Puts the records of chunks into their order.
struct Records<'a> {
    visit: &'a mut dyn Replay,
    incarnation: u64,
    chunks: u64,
    last_timestamp: Timestamp,
    held_back: Vec<Record>,
    /// Behind the chunk that is none: where a good one would be damage's proof.
    search_from: u64,
}

impl<'a> Records<'a> {
    fn new(visit: &'a mut dyn Replay) -> Records<'a> {
        Records {
            visit,
            incarnation: 0,
            chunks: 0,
            last_timestamp: Timestamp::ZERO,
            held_back: Vec::new(),
            search_from: 0,
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
        let mut window = Window::new(&*segment.file, segment.bytes);
        let mut told = 0;
        loop {
            let offset = segment.position;
            let place = Place { database, segment: segment.number, offset };
            self.search_from = offset + CHUNK_ALIGNMENT;
            let bytes = window.get(offset, CHUNK_HEADER_BYTES).map_err(failed("read", &path))?;
            let Some(header) = ChunkHeader::decode(bytes, &place) else { return Ok(false) };
            if header.number != self.chunks + 1 || header.incarnation < self.incarnation {
                let what = format!("chunk {} follows chunk {}", header.number, self.chunks);
                return Err(damaged(&path, offset, &what));
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

fn unreadable(path: &Path, bytes: usize, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::OutOfMemory => Error::out_of_memory(bytes),
        _ => failed("read", path)(error),
    }
}

/// Whether there is a good chunk behind the end of the log: at `search_from` in the first of these segments, or in the others.
fn find_loss(segments: &[Segment], database: DatabaseBits, search_from: u64) -> Result<Option<Loss>> {
    let ended = &segments[0];
    let (mut is_lost, mut bytes) = (false, 0);
    for (number, segment) in segments.iter().enumerate() {
        let from = if number == 0 { search_from } else { SEGMENT_HEADER_BYTES as u64 };
        let begins = if number == 0 { ended.position } else { from };
        let last = last_trace(segment, begins)?;
        bytes += last.saturating_sub(begins);
        is_lost = is_lost || has_chunk(segment, database, from, last)?;
    }
    Ok(is_lost.then(|| Loss { file: ended.path.clone(), offset: ended.position, bytes }))
}

/// Where the last byte that is not zero ends, from a place on.
fn last_trace(segment: &Segment, from: u64) -> Result<u64> {
    let mut last = from;
    let note = &mut |offset: u64, piece: &[u8]| {
        let trace = piece.iter().rposition(|byte| *byte != 0).map_or(0, |at| at as u64 + 1);
        last = last.max(offset + trace);
        false
    };
    let scanned = Window::new(&*segment.file, segment.bytes).scan(from, note);
    scanned.map_err(failed("read", &segment.path))?;
    Ok(last)
}

/// Whether a header of a chunk lies between two places.
fn has_chunk(segment: &Segment, database: DatabaseBits, from: u64, to: u64) -> Result<bool> {
    let mut window = Window::new(&*segment.file, segment.bytes);
    let mut offset = from;
    while offset < to {
        let place = Place { database, segment: segment.number, offset };
        let bytes = window.get(offset, CHUNK_HEADER_BYTES).map_err(failed("read", &segment.path))?;
        if bytes.starts_with(&CHUNK_MAGIC.to_le_bytes()) && ChunkHeader::decode(bytes, &place).is_some() {
            return Ok(true);
        }
        offset += CHUNK_ALIGNMENT;
    }
    Ok(false)
}

/// Leaves the segments up to the one that the log ends in, with nothing behind its end, and returns those that follow and are
/// blank.
fn cut(
    disk: &dyn Disk,
    folder: &Path,
    segments: &mut Vec<Segment>,
    end: usize,
    is_loss: bool,
    segment_bytes: u64,
) -> Result<VecDeque<Segment>> {
    let mut ready: VecDeque<Segment> = segments.drain(end + 1..).collect();
    let mut usable = 0;
    for segment in &ready {
        let begin = SEGMENT_HEADER_BYTES as u64;
        let is_blank = last_trace(segment, begin)? == begin;
        if is_loss || !is_blank || segment.bytes != segment_bytes {
            break;
        }
        usable += 1;
    }
    // From the last one on, so that no gap is left if this is interrupted.
    let has_removed = ready.len() > usable;
    for segment in ready.drain(usable..).rev() {
        disk.remove(&segment.path).map_err(failed("remove", &segment.path))?;
    }
    if has_removed {
        disk.sync_folder(folder).map_err(failed("sync the folder", folder))?;
    }
    let ended = &segments[end];
    clear(&*ended.file, ended.position, last_trace(ended, ended.position)?)
        .map_err(failed("clear the torn end of", &ended.path))?;
    // A server that was killed may have left these unsynced: what is built upon them must not outlive them.
    for segment in &segments[end.saturating_sub(1)..] {
        segment.file.sync().map_err(failed("sync", &segment.path))?;
    }
    Ok(ready)
}

fn clear(file: &dyn DiskFile, from: u64, to: u64) -> io::Result<()> {
    let zeros = [0; 4096];
    let mut at = from;
    while at < to {
        let length = (to - at).min(zeros.len() as u64);
        write_full(file, &zeros[..length as usize], at)?;
        at += length;
    }
    Ok(())
}
