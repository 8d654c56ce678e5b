//! What can be seen of how a database is kept.

use crate::database::Database;
use crate::recovery_report::RecoveryReport;
use ankerdb_base::Timestamp;

/// How a database is kept, at a moment.
#[derive(Clone, Debug)]
pub struct DurabilityState {
    /// What it took to open it.
    pub recovery: RecoveryReport,
    /// The number of this run over the folder.
    pub incarnation: u64,
    /// Commits up to here are visible.
    pub visible: Timestamp,
    /// Commits up to here are on disk.
    pub durable: Timestamp,
    /// Bytes of log written since it was opened.
    pub log_bytes: u64,
}

impl Database {
    /// How it is kept; `None` for one that is kept in no folder. A moment's picture, which stops nobody.
    pub fn durability_state(&self) -> Option<DurabilityState> {
        let log = self.shared.manager.log()?;
        // Before the other one, which is never smaller.
        let durable = log.durable();
        Some(DurabilityState {
            recovery: self.shared.recovery.get()?.clone(),
            incarnation: log.incarnation(),
            visible: self.shared.manager.watermark(),
            durable,
            log_bytes: log.bytes_written(),
        })
    }

    /// Up to which timestamp commits are visible: one that has returned is among them.
    pub fn visible(&self) -> Timestamp {
        self.shared.manager.watermark()
    }
}
