//! Results as rows, read one by one while the query runs.

use crate::column::{ColumnIndex, ColumnInfo, Header};
use crate::connection::{ConnectionPool, Lease};
use crate::error::{Error, Result};
use crate::value::FromValue;
use ankerdb_engine::{SqlState, ValueRef};
use ankerdb_sql::Batch;
use std::fmt;
use std::sync::Arc;

/// The rows of a result, one by one. An analytical query runs meanwhile, a few batches of rows ahead of the reader.
///
/// It ends when the last row was read, or when this is dropped: a reader may stop at any row.
pub struct Rows {
    columns: Arc<[ColumnInfo]>,
    source: ankerdb_sql::ResultRows,
    page: Option<(Arc<Page>, usize)>,
    failed: bool,
    /// The session that the statement runs in, as long as it runs; for a transaction's statements the transaction has
    /// it.
    _lease: Option<Lease<Arc<ConnectionPool>>>,
}

/// Rows that arrived together.
struct Page {
    columns: Arc<[ColumnInfo]>,
    batch: Batch,
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").field("columns", &self.columns).finish_non_exhaustive()
    }
}

impl Rows {
    pub(super) fn new(
        columns: Arc<[ColumnInfo]>,
        source: ankerdb_sql::ResultRows,
        lease: Option<Lease<Arc<ConnectionPool>>>,
    ) -> Rows {
        Rows { columns, source, page: None, failed: false, _lease: lease }
    }

    /// The columns, in order.
    pub fn columns(&self) -> &[ColumnInfo] {
        &self.columns
    }

    /// The only row, if there is one.
    ///
    /// # Errors
    /// `CardinalityViolation` if there are several; the query's.
    pub(super) fn single(mut self) -> Result<Option<Row>> {
        let first = self.next().transpose()?;
        if self.next().transpose()?.is_some() {
            return Err(Error::new(SqlState::CardinalityViolation, "the query gave more than one row"));
        }
        Ok(first)
    }

    /// Rows that are left to read.
    pub(super) fn drain(mut self) -> Result<u64> {
        let mut count = 0;
        while let Some(batch) = self.source.next_batch()? {
            count += batch.len() as u64;
        }
        Ok(count)
    }

    fn turn(&mut self) -> Result<Option<Arc<Page>>> {
        loop {
            let Some(batch) = self.source.next_batch()? else { return Ok(None) };
            if !batch.is_empty() {
                return Ok(Some(Arc::new(Page { columns: self.columns.clone(), batch })));
            }
        }
    }
}

impl Iterator for Rows {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Result<Row>> {
        if let Some((page, next)) = &mut self.page
            && *next < page.batch.len()
        {
            *next += 1;
            return Some(Ok(Row { page: page.clone(), row: *next - 1 }));
        }
        if self.failed {
            return None;
        }
        match self.turn() {
            Ok(Some(page)) => {
                self.page = Some((page.clone(), 1));
                Some(Ok(Row { page, row: 0 }))
            }
            Ok(None) => {
                self.page = None;
                None
            }
            Err(error) => {
                self.failed = true;
                Some(Err(error))
            }
        }
    }
}

/// A row of a result. Keeps the batch that it came in, so it may outlive the query; cheap to clone.
#[derive(Clone)]
pub struct Row {
    page: Arc<Page>,
    row: usize,
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cells = self.page.batch.cells(self.row);
        f.debug_map().entries(self.page.columns.iter().map(|column| &column.name).zip(cells)).finish()
    }
}

impl Row {
    /// The columns, in order.
    pub fn columns(&self) -> &[ColumnInfo] {
        &self.page.columns
    }

    /// A cell, by the column's position from 0 or its name (the first column of that name).
    ///
    /// # Errors
    /// `UndefinedColumn`; `DatatypeMismatch`, `NumericValueOutOfRange` and `NullValueNotAllowed` as
    /// [`FromValue::from_value`] has them.
    pub fn get<T: FromValue>(&self, column: impl ColumnIndex<T>) -> Result<T> {
        let position = column.position(Header::Result(&self.page.columns))?;
        let value = T::from_value(self.page.batch.cell(self.row, position));
        value.map_err(|error| error.at(format!("column \"{}\"", self.page.columns[position].name)))
    }

    /// A cell where it lies: for texts and bytes that need not be copied.
    ///
    /// # Errors
    /// `UndefinedColumn`.
    pub fn get_ref(&self, column: impl ColumnIndex<ankerdb_engine::Value>) -> Result<ValueRef<'_>> {
        let position = column.position(Header::Result(&self.page.columns))?;
        Ok(self.page.batch.cell(self.row, position))
    }
}
