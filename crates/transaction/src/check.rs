//! CHECK constraints, and what else a row has to be fit for: keys that are computed of it. They are tested when a row is written: its pending state is what the commit installs.
//!
//! A constraint over several columns may hold for each of two concurrent changes and not for both. At SERIALIZABLE its columns
//! count as read; at REPEATABLE READ the first committer of a row wins; an interactive transaction has locked the row. What
//! is left are procedures at the weak levels: their commits fail, to be run again, if such a row has changed since its
//! constraints were tested.

use crate::transaction::Transaction;
use ankerdb_base::{ColumnSet, Error, Result, RowId, SqlState};
use ankerdb_table::{Check, Index, Storage, Table};
use ankerdb_value::{Value, format_text};
use std::sync::Arc;

/// The longest value that a message shows, in bytes, as PostgreSQL counts them.
const SHOWN_MAX: usize = 64;

/// 23514 if a new row violates a constraint.
#[inline]
pub(crate) fn check_new_row(table: &Table, value: &dyn Fn(usize) -> Value) -> Result<()> {
    table.checks().iter().try_for_each(|check| test(table, check, value))?;
    match Storage::of(table).has_derived_keys() {
        true => compute_keys(table, None, value),
        false => Ok(()),
    }
}

impl Transaction {
    /// 23514 if a visible row violates a constraint with these columns changed. What the constraint looks at beside them
    /// counts as read: a concurrent change of it is a conflict.
    #[inline]
    pub(crate) fn check_changed_row(
        &mut self,
        table: &Arc<Table>,
        row: RowId,
        changed: impl Iterator<Item = usize>,
        change: &dyn Fn(usize) -> Option<Value>,
    ) -> Result<()> {
        let has_derived_keys = Storage::of(table).has_derived_keys();
        if table.checks().is_empty() && !has_derived_keys {
            return Ok(());
        }
        let mut columns = ColumnSet::EMPTY;
        changed.for_each(|column| columns.insert(column));
        if has_derived_keys {
            let value = |column| change(column).unwrap_or_else(|| self.value(table, row, column));
            compute_keys(table, Some(columns), &value)?;
        }
        if table.checks().is_empty() {
            return Ok(());
        }
        self.check_change(table, row, columns, change)
    }

    #[cold]
    fn check_change(
        &mut self,
        table: &Arc<Table>,
        row: RowId,
        changed: ColumnSet,
        change: &dyn Fn(usize) -> Option<Value>,
    ) -> Result<()> {
        for check in
            table.checks().iter().filter(|check| !check.is_validated || check.columns.intersects(changed))
        {
            self.note_tested(table, row, check.columns);
            test(table, check, &|column| change(column).unwrap_or_else(|| self.value(table, row, column)))?;
        }
        Ok(())
    }

    /// Notes that a change of a row is right only as long as these columns are what they are.
    pub(crate) fn note_tested(&mut self, table: &Table, row: RowId, columns: ColumnSet) {
        self.checked_at = Some(self.checked_at.map_or(self.start, |earlier| earlier.min(self.start)));
        self.note_columns_read(table, row, columns);
    }
}

/// That the keys of indexes over expressions can be computed: where a row is written, so that it is this statement that fails, and not
/// the commit. Of those only that depend on what has `changed`, if not all of the row is new.
#[cold]
fn compute_keys(table: &Table, changed: Option<ColumnSet>, value: &dyn Fn(usize) -> Value) -> Result<()> {
    let depends = |index: &Index| changed.is_none_or(|changed| index.key_columns().intersects(changed));
    let derived = table.maintained_indexes().filter(|(_, index)| depends(index));
    derived
        .filter_map(|(_, index)| index.derivation())
        .try_for_each(|derivation| derivation.function.key(value).map(drop))
}

impl Transaction {
    /// A row that a condition from above refuses, as messages show those that a constraint refuses.
    #[cold]
    pub fn failing_row(&self, table: &Arc<Table>, row: RowId) -> String {
        failing_row(table, &|column| self.value(table, row, column))
    }
}

fn test(table: &Table, check: &Check, value: &dyn Fn(usize) -> Value) -> Result<()> {
    if (check.test)(value)? { Ok(()) } else { Err(violated(table, check, value)) }
}

/// 23514 in PostgreSQL's words.
#[cold]
fn violated(table: &Table, check: &Check, value: &dyn Fn(usize) -> Value) -> Error {
    let message =
        format!("new row for relation \"{}\" violates check constraint \"{}\"", table.name(), check.name);
    Error::new(SqlState::CheckViolation, message)
        .with_detail(failing_row(table, value))
        .with_table(table.schema(), table.name())
        .with_constraint(&check.name)
}

/// A row that a constraint refuses, as messages show it.
#[cold]
pub(crate) fn failing_row(table: &Table, value: &dyn Fn(usize) -> Value) -> String {
    let shown = |(position, column): (usize, &ankerdb_table::ColumnDefinition)| {
        let value = value(position);
        let mut text = String::from(if value.is_null() { "null" } else { "" });
        format_text(&value, column.data_type, &mut text);
        if text.len() > SHOWN_MAX {
            text.truncate(text.floor_char_boundary(SHOWN_MAX));
            text.push_str("...");
        }
        text
    };
    let row: Vec<String> = table.columns().iter().enumerate().map(shown).collect();
    format!("Failing row contains ({}).", row.join(", "))
}
