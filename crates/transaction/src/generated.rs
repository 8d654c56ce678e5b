//! Columns that are computed from others. They are computed here, where every row is written, so that cascades of foreign keys and procedures
//! compute them like statements.
//!
//! What a change leaves alone is read to compute them. That read is protected like those of CHECK (see `check`): at SERIALIZABLE it
//! counts as read, at REPEATABLE READ the first committer of a row wins, an interactive transaction has locked the row, and procedures
//! at the weak levels fail if the row has changed since.

use crate::transaction::Transaction;
use ankerdb_base::{ColumnSet, Result, RowId};
use ankerdb_table::{Cell, Table};
use ankerdb_value::Value;
use std::sync::Arc;

impl Transaction {
    /// Adds to a change of a row what is computed from it.
    ///
    /// # Errors
    /// `GeneratedAlways` if the change names such a column; what the expressions fail with.
    #[cold]
    pub(crate) fn add_generated(
        &mut self,
        table: &Arc<Table>,
        row: RowId,
        changes: &mut Vec<(usize, Value)>,
    ) -> Result<()> {
        let mut changed = ColumnSet::EMPTY;
        for (column, _) in changes.iter() {
            if table.columns()[*column].generation.is_some() {
                return Err(table.not_to_be_changed(*column));
            }
            changed.insert(*column);
        }
        let given = changes.len();
        for (position, generation) in table.generations() {
            if !generation.sources.intersects(changed) {
                continue;
            }
            self.note_tested(table, row, generation.sources);
            let new = |column: usize| changes[..given].iter().find(|(position, _)| *position == column);
            let value = |column: usize| {
                new(column).map_or_else(|| self.value(table, row, column), |(_, value)| value.clone())
            };
            let computed = (generation.compute)(&value)?;
            changes.push((position, computed));
        }
        Ok(())
    }

    /// A row given as cells, as values: NULL where it is computed.
    #[cold]
    pub(crate) fn values_of(table: &Table, cells: &[Cell<'_>]) -> Vec<Value> {
        let columns = table.columns().iter().zip(cells);
        columns.map(|(column, cell)| cell.to_value(column.data_type)).collect()
    }
}
