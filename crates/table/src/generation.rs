//! Columns that are computed from others of their row, and stored.
//!
//! What computes them comes from outside with the definition of the table, as conditions of CHECK do. It depends on nothing but the
//! values of some columns, its *sources*, of which none is computed itself; so the order in which columns are computed means nothing,
//! and a change of a row has to compute those only whose sources it names.
//!
//! Not here: the language of expressions.

use ankerdb_base::{ColumnSet, Result};
use ankerdb_value::Value;
use std::fmt;
use std::sync::Arc;

/// Computes a column, of its exact type, from the values of others.
pub type Computation = Arc<dyn Fn(&dyn Fn(usize) -> Value) -> Result<Value> + Send + Sync>;

/// How a column is computed.
#[derive(Clone)]
pub struct Generation {
    /// The expression as it was declared, with the names that columns have now.
    pub text: String,
    /// The columns that it looks at.
    pub sources: ColumnSet,
    /// The computation itself, of which the text must tell all.
    pub compute: Computation,
}

impl PartialEq for Generation {
    fn eq(&self, other: &Generation) -> bool {
        self.text == other.text
    }
}

impl fmt::Debug for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GENERATED ALWAYS AS ({})", self.text)
    }
}
