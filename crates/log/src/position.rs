//! How far the log has come, for those who say what of it may go; and segments that nobody reads any more, of which later ones are made.

use crate::record::LogStart;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Segments that wait to be used again, at most: what is written between two checkpoints, about.
const SPARES_MAX: usize = 4;

/// See the module.
pub(crate) struct Position {
    /// Where the segment begins that is written.
    segment: Mutex<LogStart>,
    bytes: AtomicU64,
    /// Chunks on disk, of all segments that there have been.
    chunks: AtomicU64,
    /// Numbers of segments.
    spares: Mutex<Vec<u64>>,
}

impl Position {
    pub(crate) fn new(segment: LogStart, chunks: u64) -> Position {
        let segment = Mutex::new(segment);
        let chunks = AtomicU64::new(chunks);
        Position { segment, bytes: AtomicU64::new(0), chunks, spares: Mutex::default() }
    }

    /// Where the segment begins that is written. What is in those before it was appended before the call.
    pub(crate) fn segment(&self) -> LogStart {
        *self.segment.lock()
    }

    /// Another segment is written from now on.
    pub(crate) fn enter(&self, segment: LogStart) {
        *self.segment.lock() = segment;
    }

    /// A chunk has been written and synced.
    pub(crate) fn count(&self, bytes: u64, chunks: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        // Before what is in the chunk is said to be durable, which releases it.
        self.chunks.store(chunks, Ordering::Relaxed);
    }

    /// Chunks on disk: at least those that hold what is durable.
    pub(crate) fn chunks(&self) -> u64 {
        self.chunks.load(Ordering::Relaxed)
    }

    /// Bytes written.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Keeps the segment for a later one, unless there are enough of them.
    pub(crate) fn keep_spare(&self, segment: u64) -> bool {
        let mut spares = self.spares.lock();
        let is_kept = spares.len() < SPARES_MAX;
        if is_kept {
            spares.push(segment);
        }
        is_kept
    }

    /// A segment to make another one of, unless somebody else wants those that there are.
    pub(crate) fn take_spare(&self, is_wanted: impl FnOnce() -> bool) -> Option<u64> {
        let mut spares = self.spares.lock();
        if spares.is_empty() || is_wanted() { None } else { spares.pop() }
    }
}
