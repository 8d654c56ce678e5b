//! Where a log is cut to be as of a moment: in front of the first chunk that was written later.
//!
//! ```text
//! chunks    W read │ clock read │ written │ synced │ acknowledged
//! until       ▲ what became visible later is not covered       ▲ what was acknowledged before is covered
//! ```
//!
//! A log that ends at a chunk is what a server leaves that is killed behind it: recovery drops what no chunk covers, so there is no half of a
//! transaction.

use crate::copy::{LogPlace, read_chunk};
use crate::disk::Disk;
use crate::folder::{missing_segment, refusal, segment_path};
use crate::format::{CHUNK_HEADER_BYTES, ChunkPlace, Refused, SEGMENT_HEADER_BYTES, time_of};
use crate::record::LogStart;
use crate::replay::open_segment;
use crate::wall_time::WallTime;
use crate::window::Window;
use ankerdb_base::Result;
use std::path::Path;

/// Where the log in a folder has the first chunk that was written after `until`; `None` if it has none. The first `kept` chunks stay in any
/// case. Segments need not be filled up to their lengths.
///
/// # Errors
/// XX001 if the log is damaged; 58030 and 42501 if it cannot be read.
pub fn cut_at(
    disk: &dyn Disk,
    folder: &Path,
    database: [u8; 16],
    start: &LogStart,
    (kept, until): (u64, WallTime),
) -> Result<Option<LogPlace>> {
    let (mut number, mut chunks) = (start.segment, start.chunks);
    let mut chunk = Vec::new();
    loop {
        let path = segment_path(folder, number);
        let segment = open_segment(disk, folder, database, &path, number)?;
        let segment = segment.ok_or_else(|| refusal(&path, Refused::Damaged))?;
        let mut window = Window::new(&*segment.file, segment.bytes);
        let mut offset = SEGMENT_HEADER_BYTES as u64;
        loop {
            let place = ChunkPlace { database, segment: number, offset };
            chunk.clear();
            let Some(header) = read_chunk(&segment, &mut window, &place, &mut chunk)? else {
                return Ok(None);
            };
            if header.number != chunks + 1 {
                return Err(missing_segment(&path));
            }
            let payload = &chunk[CHUNK_HEADER_BYTES..][..header.payload_bytes as usize];
            let time = time_of(&header, payload);
            if header.number > kept && time > until {
                return Ok(Some(LogPlace { segment: number, offset, chunks }));
            }
            chunks = header.number;
            offset = header.end(offset);
            if header.is_end {
                break;
            }
        }
        number += 1;
    }
}
