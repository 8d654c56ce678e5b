//! The log as transactions see it, and what a commit keeps of its record until that is handed over (docs/design/durability.md).

use crate::redo::RedoWriter;
use ankerdb_base::{Result, Timestamp};
use ankerdb_log::{Appender, Log, Reservation};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Buffers that workers share, so that a flush need not look at one for each session there has ever been.
const BUFFERS: usize = 16;
/// Bytes of a record from which on it goes ahead, unless records have to be shorter.
const PART_BYTES: usize = 1 << 20;
/// Bytes of a record for which memory is kept from one commit to the next.
const BYTES_KEPT: usize = 64 << 10;

/// The log of a database, as its transactions see it.
pub(crate) struct Logging {
    log: Arc<Log>,
    buffers: Vec<Arc<Appender>>,
    /// The number of the next large transaction of this run.
    numbers: AtomicU64,
    /// Bytes of a record from which on it goes ahead, and of each record that does.
    pub part_bytes: usize,
}

impl Logging {
    /// Nothing appended yet.
    pub(crate) fn to(log: Arc<Log>) -> Logging {
        let buffers = (0..BUFFERS).map(|_| log.appender()).collect();
        let part_bytes = PART_BYTES.min(log.record_bytes_max());
        Logging { log, buffers, numbers: AtomicU64::new(1), part_bytes }
    }

    /// The buffer of the worker with this number.
    pub(crate) fn of_worker(&self, worker: usize) -> &Arc<Appender> {
        &self.buffers[worker % BUFFERS]
    }

    /// A number for a large transaction.
    pub(crate) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns when the commits up to here are on disk.
    ///
    /// # Errors
    /// `IoError` if the log is closed: then nobody knows.
    #[inline]
    pub(crate) fn wait_until_durable(&self, commit: Timestamp) -> Result<()> {
        self.log.wait_until_durable(commit)
    }

    /// Writes what there is, and takes nothing any more.
    pub(crate) fn close(&self) -> Result<()> {
        self.log.close()
    }

    /// Room for a record that is no transaction's.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<Reservation> {
        self.buffers[0].reserve(bytes)
    }

    /// Appends that record.
    pub(crate) fn append(&self, reserved: Reservation, kind: u8, commit: Timestamp, payload: &[u8]) {
        self.buffers[0].append(reserved, kind, commit, payload);
    }
}

/// A record under way.
#[derive(Default)]
pub(crate) struct Redo {
    pub writer: RedoWriter,
    /// The number under which parts have gone ahead; 0 if none have.
    pub number: u64,
    /// Room for the record, once it is whole. None if there is nothing to tell.
    pub reserved: Option<Reservation>,
}

impl Redo {
    /// Whether it keeps more memory than most commits need.
    pub(crate) fn is_large(&self) -> bool {
        self.writer.bytes.capacity() > BYTES_KEPT
    }
}
