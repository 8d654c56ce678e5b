//! What binds texts that catalogs keep: the floor that knows their language.

use crate::domain::Domain;
use ankerdb_base::{Error, Result, SqlState};
use ankerdb_table::{Check, ColumnText, Derivation, Generation, TableDefinition};

/// Makes of texts what they say, as it was when they were first given: whatever settings there are now. Domains are put in place before
/// the tables whose columns are of them, or whose texts name them.
pub trait Binder {
    /// Makes a version of a domain, over another one that has its version; returns its number.
    ///
    /// # Errors
    /// Those of its conditions.
    fn domain(&self, domain: &Domain, below: Option<&Domain>) -> Result<u32>;

    /// A condition of a table that has all its columns.
    ///
    /// # Errors
    /// Those of the text.
    fn check(&self, table: &TableDefinition, name: &str, text: &str) -> Result<Check>;

    /// The conditions of a table that come from domains of its columns.
    ///
    /// # Errors
    /// Internal ones.
    fn domain_checks(&self, table: &TableDefinition) -> Result<Vec<Check>>;

    /// What computes a column of a table.
    ///
    /// # Errors
    /// Those of the text.
    fn generation(&self, table: &TableDefinition, column: usize, text: &str) -> Result<Generation>;

    /// What computes the keys of an index.
    ///
    /// # Errors
    /// Those of the texts.
    fn derivation(
        &self,
        table: &TableDefinition,
        parts: &[ColumnText],
        predicate: Option<&ColumnText>,
    ) -> Result<Derivation>;
}

/// For programs whose tables have no texts.
pub struct NoTexts;

fn refused<T>(what: &str, text: &str) -> Result<T> {
    let message = format!("{what} that is written in SQL cannot be used without SQL: {text}");
    let hint = "Open the database with its SQL interface.";
    Err(Error::new(SqlState::FeatureNotSupported, message).with_hint(hint))
}

impl Binder for NoTexts {
    fn domain(&self, domain: &Domain, _below: Option<&Domain>) -> Result<u32> {
        refused("a domain", &domain.name)
    }

    fn check(&self, _table: &TableDefinition, _name: &str, text: &str) -> Result<Check> {
        refused("a condition", text)
    }

    fn domain_checks(&self, _table: &TableDefinition) -> Result<Vec<Check>> {
        Ok(Vec::new())
    }

    fn generation(&self, _table: &TableDefinition, _column: usize, text: &str) -> Result<Generation> {
        refused("a computed column", text)
    }

    fn derivation(
        &self,
        _table: &TableDefinition,
        parts: &[ColumnText],
        _predicate: Option<&ColumnText>,
    ) -> Result<Derivation> {
        let text = parts.iter().map(|part| part.with_names(|column| format!("column {column}")));
        refused("an index", &text.collect::<Vec<_>>().join(", "))
    }
}
