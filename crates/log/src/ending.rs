//! Where a log ends: torn, cut, or damaged; and what has to be done there before anything is built on it.
//!
//! # What a process before this one may have left
//! - *Killed*: its last chunk lies in the system's memory and is read, but a loss of power would take it.
//! - *Ended by a failed sync*: its last chunk is read, too, but the system has given up writing it, and says that it is synced.
//!
//! Therefore the last chunk is written once more, and synced. All others were synced before the next one was written.

use crate::disk::{Disk, DiskFile, write_full};
use crate::failure::failed;
use crate::format::{
    CHUNK_ALIGNMENT, CHUNK_HEADER_BYTES, CHUNK_MAGIC, ChunkHeader, ChunkPlace, DatabaseBits,
};
use crate::options::Loss;
use crate::segments::Segment;
use crate::window::Window;
use ankerdb_base::Result;
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

/// The end that a reader has come to.
pub(crate) struct Ending {
    /// Which of the segments it is in; the place is that segment's position.
    pub(crate) end: usize,
    /// Where a good chunk would be damage's proof.
    pub(crate) search_from: u64,
    /// Segment's number and offset of the last good chunk.
    pub(crate) last_chunk: Option<(u64, u64)>,
    /// How far there is anything behind the end, in the segment where it is and in those that follow.
    pub(crate) traces: Vec<u64>,
}

impl Ending {
    /// Whether there was more: `is_lost` says so, or a good chunk behind the end does.
    pub(crate) fn find_loss(
        &mut self,
        segments: &[Segment],
        database: DatabaseBits,
        mut is_lost: bool,
    ) -> Result<Option<Loss>> {
        let ended = &segments[self.end];
        let mut bytes = 0;
        for segment in &segments[self.end..] {
            let trace = last_trace(segment)?;
            let is_first = segment.number == ended.number;
            let from = if is_first { self.search_from } else { segment.position };
            self.traces.push(trace);
            bytes += trace - segment.position;
            is_lost = is_lost || has_chunk(segment, database, from, trace)?;
        }
        Ok(is_lost.then(|| Loss { file: ended.path.clone(), offset: ended.position, bytes }))
    }

    /// Leaves the segments up to the one that the log ends in, with nothing behind its end, and returns those that follow and are
    /// blank. Strays are removed.
    pub(crate) fn cut(
        &self,
        disk: &dyn Disk,
        folder: &Path,
        segments: &mut Vec<Segment>,
        strays: &[PathBuf],
        is_loss: bool,
        segment_bytes: u64,
    ) -> Result<VecDeque<Segment>> {
        let mut ready: VecDeque<Segment> = segments.drain(self.end + 1..).collect();
        let mut usable = 0;
        for (segment, trace) in ready.iter().zip(&self.traces[1..]) {
            let is_blank = *trace == segment.position;
            if is_loss || !is_blank || segment.bytes != segment_bytes {
                break;
            }
            usable += 1;
        }
        // From the last one on, so that no gap is left if this is interrupted.
        let unusable = ready.drain(usable..).map(|segment| segment.path);
        let removed: Vec<PathBuf> = unusable.chain(strays.iter().cloned()).collect();
        for path in removed.iter().rev() {
            disk.remove(path).map_err(failed("remove", path))?;
        }
        if !removed.is_empty() {
            disk.sync_folder(folder).map_err(failed("sync the folder", folder))?;
        }
        let ended = &segments[self.end];
        clear(&*ended.file, ended.position, self.traces[0])
            .map_err(failed("clear the torn end of", &ended.path))?;
        self.write_last_again(segments)?;
        for segment in &segments[self.end.saturating_sub(1)..] {
            segment.file.sync().map_err(failed("sync", &segment.path))?;
        }
        Ok(ready)
    }

    /// See the module.
    fn write_last_again(&self, segments: &[Segment]) -> Result<()> {
        let Some((number, offset)) = self.last_chunk else { return Ok(()) };
        for segment in segments.iter().filter(|segment| segment.number == number) {
            let length = segment.position.saturating_sub(offset) as usize;
            let bytes = Window::new(&*segment.file, segment.bytes).copy(offset, length);
            let bytes = bytes.map_err(failed("read", &segment.path))?;
            write_full(&*segment.file, &bytes, offset).map_err(failed("write", &segment.path))?;
        }
        Ok(())
    }
}

/// Where the last byte that is not zero ends, from the segment's position on.
fn last_trace(segment: &Segment) -> Result<u64> {
    let mut last = segment.position;
    let note = &mut |offset: u64, piece: &[u8]| {
        let trace = piece.iter().rposition(|byte| *byte != 0).map_or(0, |at| at as u64 + 1);
        last = last.max(offset + trace);
        false
    };
    let scanned = Window::new(&*segment.file, segment.bytes).scan(segment.position, note);
    scanned.map_err(failed("read", &segment.path))?;
    Ok(last)
}

/// Whether a header of a chunk lies between two places.
fn has_chunk(segment: &Segment, database: DatabaseBits, from: u64, to: u64) -> Result<bool> {
    let mut window = Window::new(&*segment.file, segment.bytes);
    let mut offset = from;
    while offset < to {
        let place = ChunkPlace { database, segment: segment.number, offset };
        let bytes = window.get(offset, CHUNK_HEADER_BYTES).map_err(failed("read", &segment.path))?;
        if bytes.starts_with(&CHUNK_MAGIC.to_le_bytes()) && ChunkHeader::decode(bytes, &place).is_some() {
            return Ok(true);
        }
        offset += CHUNK_ALIGNMENT;
    }
    Ok(false)
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
