//! What a scan does with the keys that joins above it ask for.

use super::keys::JoinKeys;
use datafusion::arrow::array::{BooleanArray, RecordBatch};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::filter_record_batch;
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

    /// Keeps of a list of rows of a batch those that are asked for; `None`, and all of them, where nothing is or it would not help.
    pub(crate) fn retain(&mut self, batch: &RecordBatch, rows: &mut Vec<u32>) -> Option<()> {
        if self.useless >= USELESS_MAX {
            return None;
        }
        let before = rows.len();
        self.keys.set()?.retain(batch.column(self.column), rows)?;
        self.note(rows.len(), before);
        Some(())
    }

    fn note(&mut self, kept: usize, of: usize) {
        self.useless = if kept > of / 4 * 3 { self.useless + 1 } else { 0 };
    }

    fn holds(&mut self, batch: &RecordBatch) -> Option<BooleanBuffer> {
        if self.useless >= USELESS_MAX {
            return None;
        }
        let held = self.keys.set()?.holds(batch.column(self.column))?;
        self.note(held.count_set_bits(), batch.num_rows());
        Some(held)
    }
}

/// The rows that all filters hold, or the whole batch where that are more than half: then to leave them out costs more than it saves.
pub(crate) fn asked_for(filters: &mut [ScanFilter], batch: RecordBatch) -> Result<RecordBatch> {
    let held = filters.iter_mut().filter_map(|filter| filter.holds(&batch));
    let Some(held) = held.reduce(|before, next| &before & &next) else { return Ok(batch) };
    if held.count_set_bits() > batch.num_rows() / 2 {
        return Ok(batch);
    }
    Ok(filter_record_batch(&batch, &BooleanArray::new(held, None))?)
}
