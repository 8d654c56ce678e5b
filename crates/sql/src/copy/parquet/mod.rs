//! Parquet: files of columns that other programs read and write.
//!
//! ```text
//! COPY TO    rows of a query ──► arrays ──► row groups ──► bytes, as soon as a row group is full
//! COPY FROM  bytes ──► footer: columns are matched ──► arrays, some thousand rows at a time ──► rows of the table
//! ```
//!
//! `kind` says how values of a type lie in a file; `arrays` makes a file's arrays of a result, `writer` a file of them;
//! `source` says what a column of somebody else's file is, `reader` matches columns and reads, `cells` makes values of what was
//! read, `trust` looks at a file before the library does, `spool` keeps what a client sends until its end has come, where a file says what is in it.
//!
//! Invariants:
//! - A value that a file cannot hold as it is, or that a column cannot, is an error: nothing is rounded or cut that a statement
//!   would not round or cut as well.
//! - Neither direction holds more than a row group of what it writes, or a batch of what it reads.
//! - Whatever is wrong with a file is an error of its COPY; the library's panics, too.
//!
//! Not here: codecs other than Snappy and Zstandard, encrypted files, structs and maps.

mod arrays;
mod cells;
mod kind;
mod reader;
mod source;
mod spool;
mod trust;
mod writer;

pub(super) use cells::ParquetRows;
pub(super) use reader::{Bounds, FileReader};
pub(super) use spool::Spool;
pub(super) use writer::FileWriter;

use ankerdb_engine::{Error, SqlState};
use parquet::errors::ParquetError;
use std::io;

/// How files are written and matched.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct ParquetOptions {
    pub codec: Codec,
    /// The most rows of a row group.
    pub group_rows: usize,
    pub match_by: MatchBy,
}

/// What the pages of a file are compressed with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Codec {
    Uncompressed,
    Snappy,
    Zstd,
}

/// Which column of a file is which of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MatchBy {
    Name,
    Position,
}

impl Default for ParquetOptions {
    /// What DuckDB does, too.
    fn default() -> ParquetOptions {
        ParquetOptions { codec: Codec::Snappy, group_rows: 122_880, match_by: MatchBy::Name }
    }
}

/// An error of reading: of the system, or of what is in the file.
fn unreadable(error: ParquetError) -> Error {
    if let ParquetError::External(inner) = &error
        && let Some(failed) = inner.downcast_ref::<io::Error>()
        && failed.raw_os_error().is_some()
    {
        return super::file::failed("read from", failed);
    }
    malformed(error)
}

fn malformed(what: impl std::fmt::Display) -> Error {
    let message = format!("could not read Parquet data: {what}");
    Error::new(SqlState::BadCopyFileFormat, message)
}
