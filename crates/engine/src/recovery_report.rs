//! What it took to open a database.

use std::path::PathBuf;
use std::time::Duration;

/// What it took to open a database that is kept in a folder.
#[derive(Clone, Default, Debug)]
pub struct RecoveryReport {
    /// The folder.
    pub folder: PathBuf,
    /// Records of the log that were repeated.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How long it took.
    pub duration: Duration,
}
