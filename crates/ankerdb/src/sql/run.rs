//! The common part of all ways of running a statement.

use super::arrow::ArrowBatches;
use super::rows::{Row, Rows};
use crate::column::ColumnInfo;
use crate::connection::{ConnectionPool, Lease};
use crate::error::{Error, Result};
use ankerdb_engine::SqlState;
use ankerdb_sql::Outcome;
use std::sync::Arc;

/// The outcome of a statement, with what it needs until it is read.
pub(super) struct Ran {
    pub columns: Arc<[ColumnInfo]>,
    pub outcome: Outcome,
    pub lease: Option<Lease<Arc<ConnectionPool>>>,
}

impl Ran {
    /// The number of rows that were written or, of a query, read.
    pub(super) fn count(self) -> Result<u64> {
        match self.outcome {
            Outcome::Command(tag) => Ok(tag_count(&tag)),
            Outcome::Rows(rows) => Rows::new(self.columns, rows, self.lease).drain(),
            Outcome::CopyIn(_) | Outcome::CopyOut(_) => Err(no_copy()),
        }
    }

    pub(super) fn rows(self) -> Result<Rows> {
        match self.outcome {
            Outcome::Rows(rows) => Ok(Rows::new(self.columns, rows, self.lease)),
            Outcome::Command(_) => Err(no_rows()),
            Outcome::CopyIn(_) | Outcome::CopyOut(_) => Err(no_copy()),
        }
    }

    pub(super) fn batches(self) -> Result<ArrowBatches> {
        match self.outcome {
            Outcome::Rows(rows) => Ok(ArrowBatches::new(rows, self.lease)),
            Outcome::Command(_) => Err(no_rows()),
            Outcome::CopyIn(_) | Outcome::CopyOut(_) => Err(no_copy()),
        }
    }
}

/// The one row of a result that must have one.
pub(super) fn expected(row: Option<Row>) -> Result<Row> {
    row.ok_or_else(|| Error::new(SqlState::NoData, "the query gave no row"))
}

/// The number at the end of a command's tag: `INSERT 0 3`, `UPDATE 2`. Definitions have none.
fn tag_count(tag: &str) -> u64 {
    tag.rsplit(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0)
}

fn no_rows() -> Error {
    let error = ankerdb_engine::Error::new(SqlState::SyntaxError, "the statement gives no rows");
    error.with_hint("Run it with execute, or add RETURNING.").into()
}

fn no_copy() -> Error {
    let error =
        ankerdb_engine::Error::new(SqlState::FeatureNotSupported, "COPY is for clients of the server");
    error.with_hint("Use an appender to load rows.").into()
}
