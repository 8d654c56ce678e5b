//! COPY: bulk data in and out as text, CSV or rows of values.
//!
//! `COPY table FROM STDIN` is a small state machine that is fed pieces of data cut anywhere: `lines` finds where
//! a line (in CSV: a record) ends, `text` and `csv` cut it into fields, `field` makes values of them in a `row`, `input`
//! stores rows in the session's transaction, or loads them in whole blocks if there are many and the transaction is its own. `COPY ... TO STDOUT` is a SELECT
//! whose rows `output` has made lines of, by this thread and others (`format_helpers`).
//!
//! Invariants:
//! - A COPY FROM is one transaction, or part of the open one. Any error leaves nothing of it.
//! - Every error of the data names its line, and its column where there is one.
//! - Lines are checked to be UTF-8 once, as a whole; fields are then cut without looking again.
//!
//! In the binary format rows of values come and go instead of lines: the server knows how they are written.
//!
//! A Parquet file (`parquet`) is written piece by piece, and read when all of it is there.
//!
//! `file` opens files on the server, which the server reads and writes in place of the client.
//!
//! Not here: programs on the server (0A000), encodings other than UTF-8.

mod condition;
mod csv;
pub(crate) mod extra;
mod field;
mod file;
mod format_helpers;
mod formatter;
mod input;
mod legacy;
mod lines;
mod options;
mod output;
mod parquet;
mod parts;
mod row;
mod shape;
mod skipped;
mod targets;
mod text;

pub use file::{SourceFile, TargetFile};
pub use format_helpers::Pieces;
pub use formatter::Lines;
pub use input::CopyIn;
pub use output::CopyOut;

use crate::{Outcome, SqlSession};
use ankerdb_engine::{Error, Result, SqlState};
use datafusion::sql::sqlparser::ast::{CopySource, CopyTarget, Statement};
use options::{Compression, CopyFormat, CopyOptions};

/// Begins a COPY. The returned [`CopyIn`] or [`CopyOut`] does the rest.
pub(crate) fn start(session: &mut SqlSession, statement: &Statement) -> Result<Outcome> {
    let Statement::Copy { source, to, target, options, legacy_options, .. } = statement else {
        return Err(Error::internal("not a COPY statement"));
    };
    let file = file_of(target)?;
    let options = CopyOptions::read(options, legacy_options, *to)?;
    if file.is_none()
        && options.format != CopyFormat::Parquet
        && options.compression.is_some_and(|compression| compression != Compression::None)
    {
        let message = "COPY COMPRESSION is for files on the server";
        return Err(Error::new(SqlState::FeatureNotSupported, message));
    }
    match (source, to) {
        (CopySource::Table { table_name, columns }, false) => {
            Ok(Outcome::CopyIn(Box::new(CopyIn::start(session, table_name, columns, options, file)?)))
        }
        (source, true) => Ok(Outcome::CopyOut(Box::new(CopyOut::start(session, source, options, file)?))),
        (CopySource::Query(_), false) => {
            Err(Error::new(SqlState::SyntaxError, "COPY FROM needs a table, not a query"))
        }
    }
}

/// The name of the file, if it is not the client that sends or gets the data. PostgreSQL takes STDIN and STDOUT in either direction.
fn file_of(target: &CopyTarget) -> Result<Option<&str>> {
    match target {
        CopyTarget::Stdin | CopyTarget::Stdout => Ok(None),
        CopyTarget::File { filename } => Ok(Some(filename)),
        CopyTarget::Program { .. } => {
            let message = "COPY from or to a program of the server is not supported";
            let hint =
                "Send the data over the connection: COPY ... FROM STDIN, COPY ... TO STDOUT, psql's \\copy.";
            Err(Error::new(SqlState::FeatureNotSupported, message).with_hint(hint))
        }
    }
}
