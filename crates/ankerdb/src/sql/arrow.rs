//! Results as Arrow batches.

use crate::connection::{ConnectionPool, Lease};
use crate::error::Result;
use ankerdb_sql::arrow::datatypes::SchemaRef;
use ankerdb_sql::arrow::record_batch::RecordBatch;
use std::fmt;
use std::sync::Arc;

/// The batches of a result, one by one. An analytical query runs meanwhile, a few batches ahead of the reader, and ends
/// when the last one was read or this is dropped. Its arrays are handed over as they are.
pub struct ArrowBatches {
    source: ankerdb_sql::ResultRows,
    failed: bool,
    _lease: Option<Lease<Arc<ConnectionPool>>>,
}

impl fmt::Debug for ArrowBatches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArrowBatches").field("schema", &self.schema()).finish_non_exhaustive()
    }
}

impl ArrowBatches {
    pub(super) fn new(
        source: ankerdb_sql::ResultRows,
        lease: Option<Lease<Arc<ConnectionPool>>>,
    ) -> ArrowBatches {
        ArrowBatches { source, failed: false, _lease: lease }
    }

    /// The columns: their names and types in Arrow's terms. Where SQL's type has several of Arrow's (texts, numerics) a
    /// batch may have another one than this, so prefer the batch's own schema.
    pub fn schema(&self) -> SchemaRef {
        Arc::new(self.source.arrow_schema())
    }

    /// All batches.
    ///
    /// # Errors
    /// The query's.
    pub fn collect_all(self) -> Result<Vec<RecordBatch>> {
        self.collect()
    }
}

impl Iterator for ArrowBatches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        if self.failed {
            return None;
        }
        let batch = match self.source.next_batch() {
            Ok(Some(batch)) => batch.into_arrow(self.source.columns()),
            Ok(None) => return None,
            Err(error) => Err(error),
        };
        self.failed = batch.is_err();
        Some(batch.map_err(Into::into))
    }
}
