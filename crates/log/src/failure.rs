//! Failures of files, as errors that name the file and say what to do.

use ankerdb_base::{Error, SqlState};
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// An operation on a file that did not work.
#[derive(Debug)]
pub struct FileFailure {
    action: &'static str,
    path: PathBuf,
    error: io::Error,
}

impl FileFailure {
    /// From what the system says of an attempt to `action` this path.
    pub fn of(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FileFailure {
        let path = path.to_owned();
        move |error| FileFailure { action, path, error }
    }

    /// Whether there is no room for the file.
    pub fn is_full(&self) -> bool {
        matches!(
            self.error.kind(),
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
        )
    }
}

impl fmt::Display for FileFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "could not {} \"{}\": {}", self.action, self.path.display(), self.error)
    }
}

impl FileFailure {
    /// What a caller of the log is told. (A conversion by `?` would take part in how other crates' errors are inferred.)
    pub fn into_error(self) -> Error {
        let (state, hint) = match self.error.kind() {
            _ if self.is_full() => (SqlState::DiskFull, "Make room on the disk."),
            ErrorKind::NotFound => (SqlState::UndefinedFile, ""),
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                (SqlState::InsufficientPrivilege, "The server must be able to read and write the folder.")
            }
            _ => (SqlState::IoError, ""),
        };
        let error = Error::new(state, self.to_string());
        if hint.is_empty() { error } else { error.with_hint(hint) }
    }
}

/// [`FileFailure::of`] as an error.
pub fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let failure = FileFailure::of(action, path);
    move |error| failure(error).into_error()
}

/// XX001: a file does not have what was written into it.
pub(crate) fn damaged(path: &Path, offset: u64, what: &str) -> Error {
    Error::new(
        SqlState::DataCorrupted,
        format!("the log is damaged: \"{}\" at offset {offset}: {what}", path.display()),
    )
    .with_hint(
        "Restore the file from a copy. To give up everything from there on, start once with recovery to the last valid record.",
    )
}
