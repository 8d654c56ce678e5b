//! What a database that is kept in a folder can be asked, and told.

use crate::checkpoints::CheckpointReport;
use crate::database::Database;
use ankerdb_base::{Error, Result, Timestamp};
use ankerdb_log::Loss;
use std::sync::atomic::Ordering;

impl Database {
    /// Returns when what was committed up to here is on disk. One load if it is, or if the database is kept in no folder.
    ///
    /// # Errors
    /// `IoError` if the database was [closed](Self::close) meanwhile.
    pub fn wait_until_durable(&self, commit: Timestamp) -> Result<()> {
        self.shared.manager.wait_until_durable(commit)
    }

    /// Whether everything up to a timestamp that is [visible](Self::visible) is on disk, where the database is kept in a folder. If
    /// not, it is asked to be soon. Costs a load if it is, a lock if not.
    ///
    /// For a program whose threads serve many sessions each: their transactions [do not
    /// wait](ankerdb_transaction::Transaction::set_waits_for_log), and what they have done is acknowledged when it is on disk.
    pub fn is_durable(&self, commit: Timestamp) -> bool {
        let Some(log) = self.shared.manager.log() else { return true };
        log.ask_for_durable(commit);
        log.durable() >= commit
    }

    /// What of the log was given up when the database was opened, because it was damaged and that was
    /// [allowed](ankerdb_log::LogOptions::recover_to_last_valid).
    pub fn loss(&self) -> Option<&Loss> {
        self.shared.loss.get()
    }

    /// Whether the log was given up in front of what the checkpoint has of it: then the last commits before the checkpoint may be there in
    /// part, as some of its images have them and others have not.
    pub fn loss_splits_commits(&self) -> bool {
        self.shared.splits_commits.load(Ordering::Relaxed)
    }

    /// Makes a checkpoint at once, as fast as it goes: what is committed now will not be read from the log any more when the database is
    /// opened, and the log becomes shorter. Transactions and queries go on meanwhile. `None` if nothing was committed since the last
    /// one, or if the database is kept in no folder. Costs the writing of the blocks that have changed since; `check` is called
    /// between two of them, and may end it.
    ///
    /// # Errors
    /// Those of `check`; `DiskFull` and `IoError`, in which case the last checkpoint and the log are as they were.
    pub fn checkpoint(&self, check: &dyn Fn() -> Result<()>) -> Result<Option<CheckpointReport>> {
        match self.shared.checkpoints.get() {
            Some(checkpoints) => checkpoints.make_now(self.shared.to_write(), check),
            None => Ok(None),
        }
    }

    /// The last checkpoint that was made since the database was opened.
    pub fn last_checkpoint(&self) -> Option<CheckpointReport> {
        self.shared.checkpoints.get()?.last_report()
    }

    /// Why the last checkpoint in the background was not made, if it was not.
    pub fn checkpoint_failure(&self) -> Option<Error> {
        self.shared.checkpoints.get()?.failure()
    }

    /// Makes a checkpoint, so that the database is opened quickly, and writes to disk what is committed and not there yet, as after commits
    /// that did not wait for it. Later commits fail. Does nothing for a database that is kept in no folder. The last handle of a
    /// database writes what is committed when it is dropped, without a checkpoint, and tells nobody of an error.
    ///
    /// # Errors
    /// `IoError`. It is none if there could be no checkpoint: the log has everything.
    pub fn close(&self) -> Result<()> {
        let _ = self.checkpoint(&|| Ok(()));
        self.shared.manager.close_log()
    }
}
