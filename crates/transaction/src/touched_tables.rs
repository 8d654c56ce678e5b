//! The tables that the transactions of one session have cached.

use ankerdb_base::TableId;
use ankerdb_table::{Storage, Table};
use std::sync::Arc;

/// The most tables that a session caches between two procedures.
const TABLES_KEPT: usize = 32;

/// The tables that transactions of one session have touched, by small numbers. They are kept from one procedure to
/// the next, so that a procedure does not count references up and down that all threads share.
pub(crate) struct TouchedTables {
    tables: Vec<Arc<Table>>,
    /// Whether procedures leave them to their successors.
    keeps: bool,
    /// The database's definitions when the first one was touched; see `TransactionManager::note_definitions`.
    definitions: u64,
}

impl Default for TouchedTables {
    fn default() -> TouchedTables {
        TouchedTables { tables: Vec::new(), keeps: true, definitions: 0 }
    }
}

impl TouchedTables {
    /// The table's number.
    #[inline]
    pub fn number(&mut self, table: &Arc<Table>) -> usize {
        match self.tables.iter().position(|touched| Arc::ptr_eq(touched, table)) {
            Some(number) => number,
            None => {
                self.tables.push(table.clone());
                self.tables.len() - 1
            }
        }
    }

    /// The number of a table that was touched.
    #[inline]
    pub fn find(&self, table: TableId) -> Option<usize> {
        self.tables.iter().position(|touched| touched.id() == table)
    }

    /// What a table is made of, by its number.
    #[inline]
    pub fn storage(&self, number: usize) -> &Storage {
        Storage::of(&self.tables[number])
    }

    /// Begins a transaction: drops tables that may have been dropped since, and tables beyond the limit.
    #[inline]
    pub fn begin(&mut self, definitions: u64) {
        if self.definitions != definitions || self.tables.len() > TABLES_KEPT {
            self.tables.clear();
            self.definitions = definitions;
        }
    }

    /// Ends a transaction; an interactive one leaves nothing.
    #[inline]
    pub fn end(&mut self, is_interactive: bool) {
        if is_interactive || !self.keeps {
            self.tables.clear();
        }
    }

    /// Says whether procedures leave tables to their successors.
    pub fn set_keeps(&mut self, keeps: bool) {
        self.keeps = keeps;
    }
}

impl std::ops::Index<usize> for TouchedTables {
    type Output = Arc<Table>;

    fn index(&self, number: usize) -> &Arc<Table> {
        &self.tables[number]
    }
}
