//! Tables with columns that are computed from others.

use crate::generation::Generation;
use crate::table::Table;
use ankerdb_base::{Error, Result, SqlState};
use ankerdb_value::Value;

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
