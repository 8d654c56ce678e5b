//! What stands in a transaction's way, for the next try to wait for.

use ankerdb_base::{RowId, Timestamp};
use ankerdb_table::Table;
use std::sync::{Arc, Weak};

/// What another transaction owns.
pub(crate) struct Blocker {
    /// Not kept in memory if it is dropped before there is another try.
    pub table: Weak<Table>,
    /// A row of the table; `None` is the table itself, whose gate is closed.
    pub row: Option<RowId>,
}

impl Blocker {
    pub(crate) fn row(table: &Arc<Table>, row: RowId) -> Blocker {
        Blocker { table: Arc::downgrade(table), row: Some(row) }
    }

    pub(crate) fn gate(table: &Arc<Table>) -> Blocker {
        Blocker { table: Arc::downgrade(table), row: None }
    }
}

/// What prevented a key from being entered; another try waits for it.
#[derive(Clone, Copy)]
pub(crate) enum Obstacle {
    /// A commit.
    Commit(Timestamp),
    /// A row that a commit owns, in a table given by number.
    Row(usize, RowId),
}
