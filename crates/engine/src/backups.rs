//! Backups of a database that is kept in a folder, and folders made of them (docs/design/backup.md).

use crate::database::Database;
use ankerdb_base::{Error, Result, SqlState};
use ankerdb_checkpoint::{BackupReport, NewBackup, RestoreReport, Restored, WriteRate, backup, restore};
use ankerdb_log::{Disk, SystemDisk};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a backup that waits for its rate asks whether it shall end.
const LOOK_EVERY: Duration = Duration::from_millis(20);

impl Database {
    /// Writes all that is committed now, and some of what is committed meanwhile, into a file: the images of the last checkpoint and the
    /// log behind it. Transactions and queries go on; checkpoints are made, but what they no longer need stays until this is done.
    /// An incremental one has what differs from the one that it is made since. Takes so many bytes of the disk each second at most. `check` is called now and then, and may end it.
    ///
    /// # Errors
    /// `ObjectNotInPrerequisiteState` if the database is kept in no folder; `DuplicateFile` if the file is there; `ObjectInUse` if another
    /// backup is being made; `DataCorrupted` if what is to be copied is damaged; `InvalidParameterValue`, `FeatureNotSupported` and
    /// `ObjectNotInPrerequisiteState` if the backup before is another database's, or of version 1, or if the database has gone another way since;
    /// `DiskFull`, `IoError`; those of `check`. There is no such file then, and the database goes on.
    pub fn backup(
        &self,
        new: &NewBackup<'_>,
        bytes_per_second: Option<u64>,
        check: &dyn Fn() -> Result<()>,
    ) -> Result<BackupReport> {
        let Some(checkpoints) = self.shared.checkpoints.get() else {
            let message = "the database is kept in no folder, so there is nothing to back up";
            return Err(Error::new(SqlState::ObjectNotInPrerequisiteState, message));
        };
        self.shared.manager.make_durable()?;
        let place = checkpoints.place();
        let between = |pause| wait(pause, check);
        backup(&place.disk, &place.folder, new, WriteRate { bytes_per_second }, &between)
    }

    /// Like [`backup`](Self::backup), of a folder in which another process may be at work, or none. What that has acknowledged is in the
    /// backup.
    ///
    /// # Errors
    /// Those of [`backup`](Self::backup); `UndefinedFile` if there is no database in the folder.
    pub fn backup_folder(
        folder: &Path,
        new: &NewBackup<'_>,
        bytes_per_second: Option<u64>,
        check: &dyn Fn() -> Result<()>,
    ) -> Result<BackupReport> {
        let disk: Arc<dyn Disk> = Arc::new(SystemDisk);
        let between = |pause| wait(pause, check);
        backup(&disk, folder, new, WriteRate { bytes_per_second }, &between)
    }

    /// Makes a folder of backups; it must be empty, or not there. Told now and then how much of the files is read. A database that is
    /// opened there has what the backups have, and the log behind them, up to a moment or all of it.
    ///
    /// # Errors
    /// `DataCorrupted` if a backup is damaged, `FeatureNotSupported` if it is of a newer version or knows no moments; `InvalidParameterValue` if they do
    /// not belong together, or do not have the moment; `ObjectNotInPrerequisiteState` if the folder is not empty, or the log does not go on behind the last
    /// one; `DiskFull`, `IoError`. No database is opened in the folder then: it says that it is not whole.
    pub fn restore(what: &Restored<'_>, folder: &Path, progress: &dyn Fn(u64, u64)) -> Result<RestoreReport> {
        let disk: Arc<dyn Disk> = Arc::new(SystemDisk);
        restore(&disk, what, folder, progress)
    }
}

/// Waits, unless `check` says to end.
fn wait(pause: Duration, check: &dyn Fn() -> Result<()>) -> Result<()> {
    let until = Instant::now() + pause;
    loop {
        check()?;
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(LOOK_EVERY));
    }
}
