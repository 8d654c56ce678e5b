//! What a client sends of a file, until its end has come.
//!
//! What is in a file stands at its end, so nothing can be read before all is there. It waits on disk: a file without a name
//! in the system's folder for such, gone when it is closed, whatever ends the process.

use ankerdb_engine::{Error, Result, SqlState};
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Attempts to find a name that nobody has.
const NAMES_MAX: usize = 100;
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A file without a name.
pub(in crate::copy) struct Spool(BufWriter<File>);

impl Spool {
    /// # Errors
    /// 58030 if there is no folder to write to.
    pub(in crate::copy) fn new() -> Result<Spool> {
        nameless().map(|file| Spool(BufWriter::new(file))).map_err(|error| failed("create", &error))
    }

    /// # Errors
    /// 53100, 58030.
    pub(in crate::copy) fn write(&mut self, data: &[u8]) -> Result<()> {
        self.0.write_all(data).map_err(|error| failed("write to", &error))
    }

    /// The file, to be read.
    ///
    /// # Errors
    /// 53100, 58030.
    pub(in crate::copy) fn finish(self) -> Result<File> {
        self.0.into_inner().map_err(|error| failed("write to", error.error()))
    }
}

fn nameless() -> io::Result<File> {
    let mut open = OpenOptions::new();
    open.read(true).write(true).create_new(true).mode(0o600);
    for _ in 0..NAMES_MAX {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("ankerdb-copy-{}-{number}", std::process::id()));
        match open.open(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            opened => {
                let file = opened?;
                std::fs::remove_file(&path)?;
                return Ok(file);
            }
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

fn failed(what: &str, error: &io::Error) -> Error {
    let state = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => SqlState::DiskFull,
        _ => SqlState::IoError,
    };
    Error::new(state, format!("could not {what} temporary file: {}", super::super::file::reason(error)))
}
