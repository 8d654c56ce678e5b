//! The rows that an interactive transaction has locked, by table: a bit for each once they are many.

use ankerdb_base::{Result, RowId, TableId};
use ankerdb_table::{KeptRow, KeptRows, OwnedRow, Storage, Table};
use std::sync::Arc;

/// Rows locked until the end of a transaction, but for those that its commit has taken.
#[derive(Default)]
pub(crate) struct RowLocks(Vec<(Arc<Table>, KeptRows)>);

impl RowLocks {
    #[inline]
    fn of(&self, table: TableId) -> Option<usize> {
        self.0.iter().position(|(locked, _)| locked.id() == table)
    }

    /// Makes room for one more row of a table.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(crate) fn make_room(&mut self, table: &Table) -> Result<()> {
        self.of(table.id()).map_or(Ok(()), |known| self.0[known].1.make_room())
    }

    /// Adds a row that was not locked yet.
    pub(crate) fn add(&mut self, table: &Arc<Table>, owned: OwnedRow<'_>) {
        let known = self.of(table.id()).unwrap_or_else(|| {
            self.0.push((table.clone(), KeptRows::new(Storage::of(table))));
            self.0.len() - 1
        });
        self.0[known].1.keep(owned);
    }

    /// Takes a locked row for a commit, which is going to give it up.
    pub(crate) fn take(&mut self, table: TableId, row: RowId) -> Option<KeptRow> {
        let known = self.of(table)?;
        self.0[known].1.take(row)
    }

    /// Whether the row is locked, and not taken.
    #[inline]
    pub(crate) fn contains(&self, table: TableId, row: RowId) -> bool {
        self.of(table).is_some_and(|known| self.0[known].1.contains(row))
    }

    /// Gives up all rows that no commit has taken, and forgets them.
    pub(crate) fn give_up(&mut self) {
        for (table, mut rows) in self.0.drain(..) {
            rows.give_up(Storage::of(&table));
        }
    }
}
