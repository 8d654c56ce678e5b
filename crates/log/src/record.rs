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

/// A reader of a log. A closure over records is one that reads it once.
pub trait Replay {
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
