//! Which tables and sequences exist.

use crate::sequence::Sequence;
use ankerdb_base::{Error, Result, SqlState};
use ankerdb_table::Table;
use std::collections::BTreeMap;
use std::sync::Arc;

/// An immutable picture of which tables and indexes exist.
#[derive(Clone, Default)]
pub struct Catalog {
    pub(crate) version: u64,
    pub(crate) tables: BTreeMap<String, Arc<Table>>,
    pub(crate) sequences: BTreeMap<String, Arc<Sequence>>,
}

impl Catalog {
    /// Grows with every change, so that cached plans know when they are stale.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The table with this name.
    ///
    /// # Errors
    /// `UndefinedTable`.
    pub fn table(&self, name: &str) -> Result<Arc<Table>> {
        self.tables.get(name).cloned().ok_or_else(|| {
            Error::new(SqlState::UndefinedTable, format!("relation \"{name}\" does not exist"))
        })
    }

    /// All tables, by name.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables.values()
    }

    /// The sequence with this name.
    ///
    /// # Errors
    /// `UndefinedTable`.
    pub fn sequence(&self, name: &str) -> Result<Arc<Sequence>> {
        self.sequences.get(name).cloned().ok_or_else(|| {
            Error::new(SqlState::UndefinedTable, format!("relation \"{name}\" does not exist"))
        })
    }

    /// All sequences, by name.
    pub fn sequences(&self) -> impl Iterator<Item = &Arc<Sequence>> {
        self.sequences.values()
    }

    /// Whether a table, index or sequence has the name.
    pub fn has_relation(&self, name: &str) -> bool {
        self.tables.contains_key(name)
            || self.sequences.contains_key(name)
            || self.table_of_index(name).is_some()
    }

    /// The table that has the index.
    pub fn table_of_index(&self, index: &str) -> Option<Arc<Table>> {
        let has = |table: &&Arc<Table>| {
            table.maintained_indexes().any(|(_, found)| found.definition().name == index)
        };
        self.tables.values().find(has).cloned()
    }
}
