//! Findings that a transaction's reads are out of date, after which it must not commit as it is.

use std::sync::atomic::{AtomicBool, Ordering};

/// See the module.
#[derive(Default)]
pub(crate) struct Stale {
    /// A row was read that had gone since its statement, or, where that ends the transaction, a cell that was no longer
    /// in place. Noted by reads, which only borrow the transaction.
    cells: AtomicBool,
    /// A lock has found its row changed (at SERIALIZABLE): the statement has to be restarted.
    statement: bool,
    /// What was found for a foreign key does not hold any more.
    references: bool,
}

impl Stale {
    /// Nothing is.
    pub(crate) fn clear(&mut self) {
        *self = Stale::default();
    }

    /// Notes that a cell was not there, or not in place, any more.
    pub(crate) fn note_cells(&self) {
        self.cells.store(true, Ordering::Relaxed);
    }

    /// Whether that was noted.
    pub(crate) fn has_stale_cells(&mut self) -> bool {
        *self.cells.get_mut()
    }

    /// Says whether the running statement has to be restarted.
    pub(crate) fn set_statement(&mut self, is_stale: bool) {
        self.statement = is_stale;
    }

    /// Notes that what was found for a foreign key does not hold any more.
    pub(crate) fn note_references(&mut self) {
        self.references = true;
    }

    /// Whether anything is out of date.
    pub(crate) fn is_any(&mut self) -> bool {
        *self.cells.get_mut() || self.statement || self.references
    }
}
