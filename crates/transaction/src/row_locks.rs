//! The rows that an interactive transaction has locked.
//!
//! A list, in the order of locking. While it is short it is searched; beyond that a hash table knows what is on it.

use crate::number_map::NumberSet;
use ankerdb_base::{RowId, TableId};
use ankerdb_table::Table;
use std::sync::Arc;

/// Rows up to which the list is searched.
const FEW: usize = 16;

/// A row locked over several statements.
pub(crate) struct LockedRow {
    pub table: Arc<Table>,
    pub row: RowId,
    /// Whether the commit has given the row up by installing into it.
    pub given_up: bool,
}

/// Rows locked until the end of a transaction.
#[derive(Default)]
pub(crate) struct RowLocks {
    rows: Vec<LockedRow>,
    /// All of them, if they are more than a few.
    known: NumberSet<(u32, u64)>,
}

impl RowLocks {
    /// The rows in the order of locking.
    pub fn rows(&self) -> &[LockedRow] {
        &self.rows
    }

    /// The same, to note which have been given up.
    pub fn rows_mut(&mut self) -> &mut [LockedRow] {
        &mut self.rows
    }

    /// Adds a row that was not locked yet.
    pub fn add(&mut self, table: &Arc<Table>, row: RowId) {
        debug_assert!(!self.contains(table.id(), row));
        self.rows.push(LockedRow { table: table.clone(), row, given_up: false });
        if self.rows.len() == FEW + 1 {
            self.known.extend(self.rows.iter().map(|locked| (locked.table.id().0, locked.row.0)));
        } else if self.rows.len() > FEW {
            self.known.insert((table.id().0, row.0));
        }
    }

    /// Whether the row is locked.
    #[inline]
    pub fn contains(&self, table: TableId, row: RowId) -> bool {
        match self.rows.len() {
            0 => false,
            1..=FEW => self.rows.iter().any(|locked| locked.row == row && locked.table.id() == table),
            _ => self.known.contains(&(table.0, row.0)),
        }
    }

    /// Forgets all rows.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.known.clear();
    }
}
