//! What is read back.

use ankerdb_base::{Result, Timestamp};
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// A record of the log.
#[derive(Clone, Debug)]
pub struct Record {
    /// The caller's.
    pub kind: u8,
    /// That of the commit; [`Timestamp::ZERO`] if the record is not one of a commit's.
    pub timestamp: Timestamp,
    /// Which run of the server wrote it, from 1. Numbers that the caller puts into records, such as those of transactions, begin
    /// again with each run.
    pub incarnation: u64,
    /// The caller's bytes.
    pub payload: Payload,
}

/// Where a log has to be read from: what lies before it is known from elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogStart {
    /// The number of the first segment that is read.
    pub segment: u64,
    /// Chunks in the segments before it.
    pub chunks: u64,
    /// The last run that had written something in front of it.
    pub incarnation: u64,
    /// No commit up to it is needed, though records of such may still come.
    pub timestamp: Timestamp,
}

impl Default for LogStart {
    /// The beginning of every log.
    fn default() -> LogStart {
        LogStart { segment: 1, chunks: 0, incarnation: 0, timestamp: Timestamp::ZERO }
    }
}

/// A reader of a log. A closure over records is one that reads it once.
pub trait Replay {
    /// Where to read the log of this database from. Called once, before anything is read, when the folder is this process's.
    ///
    /// # Errors
    /// Those that end the opening of the log.
    fn begin(&mut self, _database: [u8; 16]) -> Result<LogStart> {
        Ok(LogStart::default())
    }

    /// A record.
    ///
    /// # Errors
    /// Those that end the opening of the log.
    fn record(&mut self, record: Record) -> Result<()>;

    /// Whether the log is to be read once more, when all records have been told.
    ///
    /// # Errors
    /// Those that end the opening of the log.
    fn wants_another_pass(&mut self) -> Result<bool> {
        Ok(false)
    }
}

impl<F: FnMut(Record) -> Result<()>> Replay for F {
    fn record(&mut self, record: Record) -> Result<()> {
        self(record)
    }
}

/// Bytes of a record. Cheap to clone and to send to other threads; it keeps the memory of all records that were written in one
/// flush, so what is kept for long is better copied.
#[derive(Clone)]
pub struct Payload {
    chunk: Arc<Vec<u8>>,
    range: Range<usize>,
}

impl Payload {
    /// The range must lie in the chunk.
    pub(crate) fn new(chunk: &Arc<Vec<u8>>, range: Range<usize>) -> Payload {
        assert!(range.start <= range.end && range.end <= chunk.len());
        Payload { chunk: Arc::clone(chunk), range }
    }
}

impl Deref for Payload {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.chunk[self.range.clone()]
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}
