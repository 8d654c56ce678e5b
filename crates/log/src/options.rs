//! What can be chosen about a log.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Called with bytes read and bytes there are to read.
pub type ReplayProgress = Arc<dyn Fn(u64, u64) + Send + Sync>;

/// Called when a write or a sync has failed, with a sentence that names the file.
pub type OnFailure = Arc<dyn Fn(&str) + Send + Sync>;

/// The smallest segment: room for some records.
const SEGMENT_BYTES_MIN: u64 = 4 << 10;
/// The longest payload of a record in segments of the usual size.
const RECORD_BYTES_MAX: u64 = 4 << 20;

/// What can be chosen about a log.
#[derive(Clone)]
pub struct LogOptions {
    /// Length of a segment's file. At least 4 KiB.
    pub segment_bytes: u64,
    /// Damage in the middle is no error: what lies behind it is cut off, and [`Log::loss`](crate::Log::loss) tells of it.
    pub recover_to_last_valid: bool,
    /// Told now and then while the log is read.
    pub progress: Option<ReplayProgress>,
    /// What happens after a failed write or sync. `None` prints the sentence and aborts the process, since nobody knows then what
    /// is on disk. A test may note it and return: nothing becomes durable any more then.
    pub on_failure: Option<OnFailure>,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions { segment_bytes: 64 << 20, recover_to_last_valid: false, progress: None, on_failure: None }
    }
}

impl LogOptions {
    /// The longest payload of one record: 4 MiB, or a quarter of a segment if that is less.
    pub fn record_bytes_max(&self) -> usize {
        (self.segment_bytes() / 4).min(RECORD_BYTES_MAX) as usize
    }

    pub(crate) fn segment_bytes(&self) -> u64 {
        self.segment_bytes.max(SEGMENT_BYTES_MIN) / 8 * 8
    }
}

impl fmt::Debug for LogOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogOptions")
            .field("segment_bytes", &self.segment_bytes)
            .field("recover_to_last_valid", &self.recover_to_last_valid)
            .finish_non_exhaustive()
    }
}

/// What was cut off because of damage, with [`LogOptions::recover_to_last_valid`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Loss {
    /// The damaged file.
    pub file: PathBuf,
    /// Where in it the damage begins.
    pub offset: u64,
    /// Bytes behind that place, in this file and in later ones, that were written once.
    pub bytes: u64,
}
