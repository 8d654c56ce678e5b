//! What a scan does with the keys that joins above it ask for.

use super::keys::{JoinKeys, KeySet, ListedRows};
use datafusion::arrow::array::{RecordBatch, UInt32Array};
use datafusion::arrow::compute::take_record_batch;
use datafusion::error::Result;
use std::sync::Arc;

/// Batches in a row that a filter may leave nearly whole before it is asked no more.
const USELESS_MAX: usize = 4;

/// The keys for one column, as one thread of a scan asks them.
pub(crate) struct ScanFilter {
    column: usize,
    keys: Arc<JoinKeys>,
    /// Batches in a row of which it has left more than three quarters.
    useless: usize,
}

impl ScanFilter {
    /// For an output column of the scan.
    pub(crate) fn new(column: usize, keys: Arc<JoinKeys>) -> ScanFilter {
        ScanFilter { column, keys, useless: 0 }
    }

    /// What is asked for; `None` where that is not known, or it would not help.
    fn asked(&self) -> Option<&KeySet> {
        self.keys.set().filter(|_| self.useless < USELESS_MAX)
    }

    /// Keeps of rows of a batch those that are asked for; `None`, and all of them, where nothing is or it would not help.
    pub(crate) fn retain(&mut self, batch: &RecordBatch, rows: &mut ListedRows) -> Option<()> {
        let count = |rows: &ListedRows| rows.as_ref().map_or(batch.num_rows(), Vec::len);
        let before = count(rows);
        self.asked()?.retain(batch.column(self.column), rows)?;
        self.note(count(rows), before);
        Some(())
    }

    fn note(&mut self, kept: usize, of: usize) {
        self.useless = if kept > of / 4 * 3 { self.useless + 1 } else { 0 };
    }
}

/// The rows that all filters hold, or the whole batch where that are more than half: then to leave them out costs more than it saves.
pub(crate) fn asked_for(filters: &mut [ScanFilter], batch: RecordBatch) -> Result<RecordBatch> {
    let mut rows = None;
    for filter in filters {
        filter.retain(&batch, &mut rows);
    }
    match rows {
        Some(rows) if rows.len() <= batch.num_rows() / 2 => {
            Ok(take_record_batch(&batch, &UInt32Array::from(rows))?)
        }
        _ => Ok(batch),
    }
}
