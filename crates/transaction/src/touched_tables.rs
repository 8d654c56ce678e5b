//! The tables that the transactions of one session have cached.

use crate::refusal::{gone, redefined};
use ankerdb_base::{DatabaseId, Result, TableId, Timestamp};
use ankerdb_table::{Admission, Gate, Storage, Table};
use std::sync::Arc;

/// The most tables that a session caches between two procedures.
const TABLES_KEPT: usize = 32;

/// The tables that transactions of one session have touched, by small numbers. They are kept from one procedure to
/// the next, so that a procedure does not count references up and down that all threads share.
///
/// Whatever a transaction does to a table begins with the table's number here, so this is where a table of another database
/// is refused: once, when it is new here.
pub(crate) struct TouchedTables {
    /// The one whose tables these are.
    database: DatabaseId,
    tables: Vec<Arc<Table>>,
    /// As of when the transaction reads.
    read_at: Timestamp,
    /// Whether procedures leave them to their successors.
    keeps: bool,
    /// The database's definitions when the first one was touched; see `TransactionManager::note_definitions`.
    definitions: u64,
}

impl TouchedTables {
    /// None yet.
    pub(crate) fn new(database: DatabaseId) -> TouchedTables {
        TouchedTables { database, tables: Vec::new(), read_at: Timestamp::MAX, keeps: true, definitions: 0 }
    }

    /// The table's number.
    ///
    /// # Errors
    /// `UndefinedTable` if it is of another database, or was gone by the time that the transaction reads;
    /// `SerializationFailure` if its rows were copied to it after what the transaction reads.
    #[inline]
    pub(crate) fn number(&mut self, table: &Arc<Table>) -> Result<usize> {
        match self.tables.iter().position(|touched| Arc::ptr_eq(touched, table)) {
            Some(number) => Ok(number),
            None => self.add(table),
        }
    }

    #[cold]
    fn add(&mut self, table: &Arc<Table>) -> Result<usize> {
        self.check(table)?;
        let gate = Gate::of(table);
        if gate.admits(None) == Admission::Gone && gate.until() <= self.read_at {
            return Err(gone(table));
        }
        if gate.since() > self.read_at {
            return Err(redefined(table));
        }
        self.tables.push(table.clone());
        Ok(self.tables.len() - 1)
    }

    /// Whether a table is of the database.
    #[inline]
    pub(crate) fn is_own(&self, table: &Table) -> bool {
        table.id().database() == self.database
    }

    /// For what is done to a table without its number.
    ///
    /// # Errors
    /// Those of [`number`](Self::number).
    #[inline]
    pub(crate) fn check(&self, table: &Table) -> Result<()> {
        table.check_is_of(self.database)
    }

    /// The transaction reads as of then from now on.
    #[inline]
    pub(crate) fn read_at(&mut self, timestamp: Timestamp) {
        self.read_at = timestamp;
    }

    /// Another definition of a table that may have been touched takes its number.
    pub(crate) fn redefine(&mut self, old: &Arc<Table>, new: &Arc<Table>) {
        if let Some(touched) = self.tables.iter_mut().find(|touched| Arc::ptr_eq(touched, old)) {
            *touched = new.clone();
        }
    }

    /// All of them, by number.
    #[inline]
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Arc<Table>> {
        self.tables.iter()
    }

    /// The number of a table that was touched.
    #[inline]
    pub(crate) fn find(&self, table: TableId) -> Option<usize> {
        self.tables.iter().position(|touched| touched.id() == table)
    }

    /// What a table is made of, by its number.
    #[inline]
    pub(crate) fn storage(&self, number: usize) -> &Storage {
        Storage::of(&self.tables[number])
    }

    /// Begins a transaction: drops tables that may have been dropped since, and tables beyond the limit.
    #[inline]
    pub(crate) fn begin(&mut self, definitions: u64) {
        if self.definitions != definitions || self.tables.len() > TABLES_KEPT {
            self.tables.clear();
            self.definitions = definitions;
        }
    }

    /// Ends a transaction; an interactive one leaves nothing.
    #[inline]
    pub(crate) fn end(&mut self, is_interactive: bool) {
        if is_interactive || !self.keeps {
            self.tables.clear();
        }
    }

    /// Says whether procedures leave tables to their successors.
    pub(crate) fn set_keeps(&mut self, keeps: bool) {
        self.keeps = keeps;
    }
}

impl std::ops::Index<usize> for TouchedTables {
    type Output = Arc<Table>;

    fn index(&self, number: usize) -> &Arc<Table> {
        &self.tables[number]
    }
}
