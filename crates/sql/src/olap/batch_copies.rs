//! What a scan gives beside a batch: compressed copies of its columns, for an operator right above it (`docs/design/compressed-copies.md`).
//!
//! Batches go up through DataFusion's streams, which know Arrow alone. An operator that reads a scan itself has the other end of a
//! [`BatchCopies`]: it asks for a batch, and takes what lies there.

use ankerdb_compiler::{CodeMeaning, CompressedSlice};
use ankerdb_engine::{CodesMean, CompressedColumn};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// By the columns of a condition; empty where there are none at all.
pub(super) type CompressedColumns = Vec<Option<Arc<CompressedColumn>>>;

/// The place where a partition of a scan leaves the copies of the batch that it has given last.
#[derive(Clone, Default)]
pub(super) struct BatchCopies(Arc<Place>);

#[derive(Default)]
struct Place {
    is_unwanted: AtomicBool,
    columns: Mutex<CompressedColumns>,
}

impl BatchCopies {
    /// What is known of the batch that was given last; nothing the second time.
    pub(super) fn take(&self) -> CompressedColumns {
        std::mem::take(&mut self.0.columns.lock())
    }

    /// Whether anybody is going to look at those of the next batch.
    pub(super) fn want(&self, wants: bool) {
        self.0.is_unwanted.store(!wants, Ordering::Relaxed);
    }

    pub(super) fn are_wanted(&self) -> bool {
        !self.0.is_unwanted.load(Ordering::Relaxed)
    }

    /// Those of the batch that is given next.
    pub(super) fn put(&self, columns: CompressedColumns) {
        *self.0.columns.lock() = columns;
    }
}

/// A copy as the compiler has it.
pub(super) fn compressed_slice(column: &CompressedColumn) -> CompressedSlice<'_> {
    let meaning = match column.meaning() {
        CodesMean::Above(least) => CodeMeaning::Above(least),
        CodesMean::Texts(texts) => CodeMeaning::Texts(texts),
    };
    CompressedSlice { codes: column.codes(), bytes: column.bytes(), meaning }
}
