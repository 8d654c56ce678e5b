//! Numbers in little endian, from bytes that may be damaged.

use ankerdb_base::{Error, SqlState};
use std::path::Path;

/// What is left to read.
pub(crate) struct ByteReader<'a>(pub(crate) &'a [u8]);

/// There are too few bytes, or other ones than there can be.
#[derive(Debug)]
pub(crate) struct Misread;

impl<'a> ByteReader<'a> {
    pub(crate) fn take(&mut self, length: u64) -> std::result::Result<&'a [u8], Misread> {
        let length = usize::try_from(length).map_err(|_| Misread)?;
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Misread)?;
        self.0 = rest;
        Ok(taken)
    }

    fn fixed<const N: usize>(&mut self) -> std::result::Result<[u8; N], Misread> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Misread)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn byte(&mut self) -> std::result::Result<u8, Misread> {
        self.fixed::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u32(&mut self) -> std::result::Result<u32, Misread> {
        self.fixed().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> std::result::Result<u64, Misread> {
        self.fixed().map(u64::from_le_bytes)
    }
}

/// XX001: a file does not have what was written into it.
#[cold]
pub(crate) fn damaged(path: &Path, offset: u64, what: &str) -> Error {
    Error::new(
        SqlState::DataCorrupted,
        format!("the checkpoint is damaged: \"{}\" at offset {offset}: {what}", path.display()),
    )
    .with_hint("Restore the folder from a copy.")
}

/// 0A000: a later version wrote it.
#[cold]
pub(crate) fn newer(path: &Path, version: u32, known: u32) -> Error {
    let message =
        format!("\"{}\" has format version {version}, this server reads up to {known}", path.display());
    Error::new(SqlState::FeatureNotSupported, message).with_hint("Use a newer server.")
}

/// XX001: it belongs somewhere else.
#[cold]
pub(crate) fn foreign(path: &Path) -> Error {
    let message = format!("\"{}\" is of a checkpoint of another database", path.display());
    Error::new(SqlState::DataCorrupted, message).with_hint("Restore the file that belongs to this folder.")
}
