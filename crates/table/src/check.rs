//! CHECK constraints: conditions that every row of a table satisfies.

use ankerdb_base::{ColumnSet, Result};
use ankerdb_value::Value;
use std::fmt;
use std::sync::Arc;

/// Whether a row, given by its values in columns, satisfies a condition; unknown counts as satisfied.
pub type RowTest = Arc<dyn Fn(&dyn Fn(usize) -> Value) -> Result<bool> + Send + Sync>;

/// A condition that every row satisfies. Transactions test it where they write.
#[derive(Clone)]
pub struct Check {
    /// Its name, unique in its table.
    pub name: String,
    /// The condition as it was declared.
    pub text: String,
    /// The columns that it looks at.
    pub columns: ColumnSet,
    /// Whether all rows fulfil it. If not, a row that is changed is tested whatever has changed in it.
    pub is_validated: bool,
    /// The condition itself, of which the text must tell all.
    pub test: RowTest,
}

impl PartialEq for Check {
    fn eq(&self, other: &Check) -> bool {
        (&self.name, &self.text, self.is_validated) == (&other.name, &other.text, other.is_validated)
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} CHECK ({})", self.name, self.text)
    }
}
