//! Files that must stay in a folder for as long as somebody copies them: beside a server, and beside its next start.
//!
//! A copier holds a lock on `backup.lock`; those who remove or rename files that nobody needs any more look whether somebody does, and leave
//! them for the next time if so. The lock goes with the process that holds it, so a copier that is killed keeps nothing.
//!
//! What the manifest in its place names is never removed, so a remover that has looked before the lock was taken does no harm: the copier reads the
//! manifest afterwards.

use crate::disk::{Disk, LockOutcome};
use crate::failure::failed;
use ankerdb_base::{Error, Result, SqlState};
use std::any::Any;
use std::path::Path;
use std::time::Duration;

const PIN: &str = "backup.lock";
/// Those who look hold the lock for a moment.
const ATTEMPTS: u32 = 50;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(20);

/// Keeps all files there that are needed now, until it is dropped.
///
/// # Errors
/// 55006 if somebody else copies them; 42501 and 58030 if the lock's file cannot be made.
pub fn pin_files(disk: &dyn Disk, folder: &Path) -> Result<Box<dyn Any + Send + Sync>> {
    let path = folder.join(PIN);
    let mut taken_by = None;
    for _ in 0..ATTEMPTS {
        match disk.lock(&path).map_err(failed("lock", &path))? {
            LockOutcome::Locked(lock) => return Ok(lock),
            LockOutcome::TakenBy(process) => taken_by = process,
        }
        std::thread::sleep(BETWEEN_ATTEMPTS);
    }
    let process = taken_by.map_or("another process".to_owned(), |pid| format!("process {pid}"));
    let message = format!("the database is being copied by {process}: \"{}\" is locked", path.display());
    Err(Error::new(SqlState::ObjectInUse, message).with_hint("Wait until that backup is done."))
}

/// Whether somebody copies the files.
///
/// # Errors
/// 42501 and 58030 if nobody can tell.
pub fn are_pinned(disk: &dyn Disk, folder: &Path) -> Result<bool> {
    let names = disk.list(folder).map_err(failed("list the folder", folder))?;
    if !names.iter().any(|name| name == PIN) {
        return Ok(false);
    }
    let path = folder.join(PIN);
    let outcome = disk.lock(&path).map_err(failed("lock", &path))?;
    Ok(matches!(outcome, LockOutcome::TakenBy(_)))
}
