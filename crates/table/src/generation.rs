//! Columns that are computed from others of their row, and stored.
//!
//! What computes them comes from outside with the definition of the table, as conditions of CHECK do. It depends on nothing but the
//! values of some columns, its *sources*, of which none is computed itself; so the order in which columns are computed means nothing,
//! and a change of a row has to compute those only whose sources it names.
//!
//! Not here: the language of expressions.

use crate::table::Table;
use ankerdb_base::{ColumnSet, Error, Result, SqlState};
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

impl Table {
    /// The columns that are computed, by position.
    pub fn generations(&self) -> impl Iterator<Item = (usize, &Generation)> {
        let columns = self.columns().iter().enumerate();
        columns.filter_map(|(position, column)| Some((position, column.generation.as_ref()?)))
    }

    /// Computes what is computed of a new row.
    ///
    /// # Errors
    /// `GeneratedAlways` if the row has another value in such a column than NULL and the one that belongs there; what the expressions
    /// fail with.
    pub fn generate(&self, values: &mut [Value]) -> Result<()> {
        if !self.has_generated() {
            return Ok(());
        }
        for (position, generation) in self.generations() {
            let value = (generation.compute)(&|column| values[column].clone())?;
            let given = &values[position];
            if !given.is_null() && *given != value {
                return Err(self.is_computed("cannot insert a non-DEFAULT value into column", position, ""));
            }
            values[position] = value;
        }
        Ok(())
    }

    /// 428C9 for a change that names a column which is computed.
    pub fn not_to_be_changed(&self, column: usize) -> Error {
        self.is_computed("column", column, " can only be updated to DEFAULT")
    }

    #[cold]
    fn is_computed(&self, before: &str, column: usize, behind: &str) -> Error {
        let name = &self.columns()[column].name;
        let message = format!("{before} \"{name}\"{behind}");
        Error::new(SqlState::GeneratedAlways, message)
            .with_detail(format!("Column \"{name}\" is a generated column."))
    }
}
