//! The rows that an interactive transaction has locked.
//!
//! A list, in the order of locking. While it is short it is searched; beyond that a hash table knows what is on it.

use crate::number_map::NumberMap;
use ankerdb_base::{RowId, TableId};
use ankerdb_table::{KeptRow, OwnedRow, Table};
use std::sync::Arc;

/// Rows up to which the list is searched.
const FEW: usize = 16;

/// A row locked over several statements.
pub(crate) struct LockedRow {
    pub table: Arc<Table>,
    pub row: RowId,
    /// The row itself, unless a commit has taken it.
    pub kept: Option<KeptRow>,
}

/// Rows locked until the end of a transaction.
#[derive(Default)]
pub(crate) struct RowLocks {
    rows: Vec<LockedRow>,
    /// The places of all of them, if they are more than a few.
    known: NumberMap<(u32, u64), usize>,
}

impl RowLocks {
    /// The rows in the order of locking.
    pub fn rows(&self) -> &[LockedRow] {
        &self.rows
    }

    /// Adds a row that was not locked yet.
    pub fn add(&mut self, table: &Arc<Table>, owned: OwnedRow<'_>) {
        let row = owned.id();
        debug_assert!(!self.contains(table.id(), row));
        self.rows.push(LockedRow { table: table.clone(), row, kept: Some(owned.keep()) });
        let key = |locked: &LockedRow| (locked.table.id().0, locked.row.0);
        if self.rows.len() == FEW + 1 {
            self.known.extend(self.rows.iter().enumerate().map(|(place, locked)| (key(locked), place)));
        } else if self.rows.len() > FEW {
            self.known.insert((table.id().0, row.0), self.rows.len() - 1);
        }
    }

    /// Takes a locked row for a commit, which is going to give it up. It stays on the list.
    pub fn take(&mut self, table: TableId, row: RowId) -> Option<KeptRow> {
        let place = self.place(table, row)?;
        self.rows[place].kept.take()
    }

    /// Gives up all rows that no commit has taken. They stay on the list.
    pub fn give_up(&mut self) {
        for locked in &mut self.rows {
            drop(locked.kept.take().map(|kept| locked.table.resume(kept)));
        }
    }

    #[inline]
    fn place(&self, table: TableId, row: RowId) -> Option<usize> {
        match self.rows.len() {
            0 => None,
            1..=FEW => self.rows.iter().position(|locked| locked.row == row && locked.table.id() == table),
            _ => self.known.get(&(table.0, row.0)).copied(),
        }
    }

    /// Whether the row is locked.
    #[inline]
    pub fn contains(&self, table: TableId, row: RowId) -> bool {
        self.place(table, row).is_some()
    }

    /// Forgets all rows.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.known.clear();
    }
}
