//! The log as transactions see it, and what a commit keeps of its record until that is handed over (docs/design/durability.md).

use crate::redo::RedoWriter;
use ankerdb_base::{Result, Timestamp};
use ankerdb_log::{Appender, Log, LogStart, Reservation};
use parking_lot::Mutex;
use std::collections::BTreeMap;
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
    ahead: Arc<Ahead>,
    /// Bytes of a record from which on it goes ahead, and of each record that does.
    pub part_bytes: usize,
}

impl Logging {
    /// Nothing appended yet.
    pub(crate) fn to(log: Arc<Log>) -> Logging {
        let buffers = (0..BUFFERS).map(|_| log.appender()).collect();
        let part_bytes = PART_BYTES.min(log.record_bytes_max());
        Logging { log, buffers, numbers: AtomicU64::new(1), ahead: Arc::default(), part_bytes }
    }

    /// The buffer of the worker with this number.
    pub(crate) fn of_worker(&self, worker: usize) -> &Arc<Appender> {
        &self.buffers[worker % BUFFERS]
    }

    /// A number for a large transaction, which is about to send its first part.
    pub(crate) fn begin_large(&self) -> LargeRecord {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        self.ahead.0.lock().insert(number, self.log.position());
        LargeRecord { number, ahead: self.ahead.clone() }
    }

    /// From where on the log has everything of transactions that have not finished at the call: their records may be appended already,
    /// and their parts long before.
    pub(crate) fn unfinished_from(&self) -> LogStart {
        // A transaction that has sent a part in front of this position is in the list by then.
        let position = self.log.position();
        let ahead = self.ahead.0.lock();
        ahead.values().copied().chain([position]).min_by_key(|start| start.segment).unwrap_or(position)
    }

    /// The log itself.
    pub(crate) fn log(&self) -> &Arc<Log> {
        &self.log
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

/// Transactions of which parts have gone ahead, and where the log was when they sent the first one.
#[derive(Default)]
struct Ahead(Mutex<BTreeMap<u64, LogStart>>);

/// A large transaction that has sent parts ahead. While this lives, the log is kept from its first part on.
pub(crate) struct LargeRecord {
    pub number: u64,
    ahead: Arc<Ahead>,
}

impl Drop for LargeRecord {
    fn drop(&mut self) {
        self.ahead.0.lock().remove(&self.number);
    }
}

/// A record under way.
#[derive(Default)]
pub(crate) struct Redo {
    pub writer: RedoWriter,
    /// Of a transaction of which parts have gone ahead, until it has finished.
    pub large: Option<LargeRecord>,
    /// Room for the record, once it is whole. None if there is nothing to tell.
    pub reserved: Option<Reservation>,
}

impl Redo {
    /// The number under which parts have gone ahead; 0 if none have.
    pub(crate) fn number(&self) -> u64 {
        self.large.as_ref().map_or(0, |large| large.number)
    }

    /// Whether it keeps more memory than most commits need.
    pub(crate) fn is_large(&self) -> bool {
        self.writer.bytes.capacity() > BYTES_KEPT
    }
}
