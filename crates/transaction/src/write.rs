//! Writing: checks at the statement, values kept private until the commit.

use crate::check::{check_new_row, failing_row};
use crate::isolation::Isolation;
use crate::transaction::Transaction;
use crate::write_set::Purpose;
use ankerdb_base::{ColumnSet, Error, Result, RowId, SqlState};
use ankerdb_table::{Cell, CellLayout, Table};
use ankerdb_value::{DataType, Number, Value, ValueRef, json};
use std::sync::Arc;

impl Transaction {
    /// Adds a row: one value per column, already of the columns' types. The identity is good in this transaction only: the row has
    /// its place, and another identity, from the commit on.
    ///
    /// # Errors
    /// `NotNullViolation`; `UniqueViolation` at once in an interactive transaction if a visible row has the key, from
    /// the commit otherwise; `OutOfMemory` past the memory limit; `GeneratedAlways` for a value in a column that is computed.
    pub fn insert(&mut self, table: &Arc<Table>, mut values: Vec<Value>) -> Result<RowId> {
        if table.has_generated() && values.len() == table.columns().len() {
            table.generate(&mut values)?;
        }
        self.check_row(table, &values)?;
        self.buffers.checked_keys.clear();
        if self.is_interactive() {
            for (position, index) in table.maintained_indexes().filter(|(_, index)| index.definition().unique)
            {
                let value = |column: usize| values[column].clone();
                if let Some(hash) = self.check_key_is_free(table, position, index, None, &value)? {
                    self.buffers.checked_keys.push((position, hash));
                }
            }
        }
        let number = self.tables.number(table)?;
        let cells = values.iter().enumerate().map(|(column, value)| cell_of(table, column, value));
        self.make_room(Purpose::Keeps, cells.clone())?;
        let row = self.writes.insert(number, cells);
        for (position, hash) in self.buffers.checked_keys.drain(..) {
            self.writes.note_key((number, position), row, hash);
        }
        self.check_parents(table, row, None)?;
        Ok(row)
    }

    /// Whether a row may be in the table, keys aside: what [`insert`](Self::insert) begins with, for a row that may not be
    /// inserted in the end.
    ///
    /// # Errors
    /// `NotNullViolation`, `CheckViolation`.
    pub fn check_row(&self, table: &Table, values: &[Value]) -> Result<()> {
        if values.len() != table.columns().len() {
            return Err(Error::internal(format!("{} values for table {}", values.len(), table.name())));
        }
        let checked =
            values.iter().enumerate().try_for_each(|(column, value)| check_value(table, column, value));
        checked.map_err(|error| with_row(error, table, &|column| values[column].clone()))?;
        check_new_row(table, &|column| values[column].clone())
    }

    /// Adds a row like [`insert`](Self::insert), given as cells, one per column. For procedures: builds no values.
    /// Keys are checked at commit.
    ///
    /// # Errors
    /// `InternalError` if a cell does not fit its column's layout, `CharacterNotInRepertoire` if a text is not UTF-8;
    /// `OutOfMemory` past the memory limit.
    pub fn insert_cells(&mut self, table: &Arc<Table>, cells: &[Cell<'_>]) -> Result<RowId> {
        if cells.len() != table.columns().len() {
            return Err(Error::internal(format!("{} cells for table {}", cells.len(), table.name())));
        }
        let is_given = |column: usize| !table.has_generated() || table.columns()[column].generation.is_none();
        let mut given = cells.iter().enumerate().filter(|(column, _)| is_given(*column));
        given.try_for_each(|(column, cell)| check_cell(table, column, *cell)).map_err(|error| {
            with_row(error, table, &|column| cells[column].to_value(table.data_type(column)))
        })?;
        if table.has_generated() {
            return self.insert(table, Self::values_of(table, cells));
        }
        let number = self.tables.number(table)?;
        check_new_row(table, &|column| cells[column].to_value(table.data_type(column)))?;
        self.make_room(Purpose::Keeps, cells.iter().copied())?;
        let row = self.writes.insert(number, cells.iter().copied());
        self.check_parents(table, row, None)?;
        Ok(row)
    }

    /// Changes columns like [`update`](Self::update), given as cells with their columns.
    ///
    /// # Errors
    /// Those of [`insert_cells`](Self::insert_cells).
    pub fn update_cells(
        &mut self,
        table: &Arc<Table>,
        row: RowId,
        changes: &[(usize, Cell<'_>)],
    ) -> Result<()> {
        let checked = changes.iter().try_for_each(|&(column, cell)| check_cell(table, column, cell));
        checked.map_err(|error| {
            let value =
                |&(column, cell): &(usize, Cell<'_>)| (column, cell.to_value(table.data_type(column)));
            self.refused_change(error, table, row, &changes.iter().map(value).collect::<Vec<_>>())
        })?;
        if table.has_generated() {
            let value =
                |&(column, cell): &(usize, Cell<'_>)| (column, cell.to_value(table.data_type(column)));
            return self.update(table, row, changes.iter().map(value).collect());
        }
        let number = self.tables.number(table)?;
        let change = |column| {
            let (_, cell) = changes.iter().find(|(position, _)| *position == column)?;
            Some(cell.to_value(table.data_type(column)))
        };
        self.check_changed_row(table, row, changes.iter().map(|(column, _)| *column), &change)?;
        let changed = changed_columns(table, changes);
        self.keep_lost_keys(table, row, Some((changed, &change)))?;
        self.make_room(Purpose::Keeps, changes.iter().map(|(_, cell)| *cell))?;
        self.note_unlocked(table, row);
        self.writes.update(number, row, changes.iter().copied());
        self.check_parents(table, row, Some(changed))
    }

    /// Changes columns of a visible row. In an interactive transaction unique keys are checked at the end of the statement
    /// ([`check_constraints`](Self::check_constraints)), else at the commit.
    ///
    /// # Errors
    /// `NotNullViolation`; `OutOfMemory` past the memory limit; `GeneratedAlways` for a value in a column that is computed.
    pub fn update(&mut self, table: &Arc<Table>, row: RowId, mut changes: Vec<(usize, Value)>) -> Result<()> {
        if table.has_generated() {
            self.add_generated(table, row, &mut changes)?;
        }
        let number = self.tables.number(table)?;
        let checked = changes.iter().try_for_each(|(column, value)| check_value(table, *column, value));
        checked.map_err(|error| self.refused_change(error, table, row, &changes))?;
        let change =
            |column| changes.iter().find(|(position, _)| *position == column).map(|(_, value)| value.clone());
        self.check_changed_row(table, row, changes.iter().map(|(column, _)| *column), &change)?;
        let written = changed_columns(table, &changes);
        self.keep_lost_keys(table, row, Some((written, &change)))?;
        if self.is_interactive() {
            self.note_contested(table, row, &changes)?;
        }
        let cells = changes.iter().map(|(column, value)| (*column, cell_of(table, *column, value)));
        self.make_room(Purpose::Keeps, cells.clone().map(|(_, cell)| cell))?;
        self.note_unlocked(table, row);
        self.writes.update(number, row, cells);
        self.check_parents(table, row, Some(written))
    }

    /// The error of a change with the row that it would have made. Of several columns that are NULL and may not be, it is about
    /// the first of the table.
    #[cold]
    fn refused_change(
        &self,
        error: Error,
        table: &Arc<Table>,
        row: RowId,
        changes: &[(usize, Value)],
    ) -> Error {
        let misses = |(column, value): &&(usize, Value)| value.is_null() && !table.is_nullable(*column);
        let first = changes.iter().filter(misses).map(|(column, _)| *column).min();
        let error = match first {
            Some(column) if error.state() == SqlState::NotNullViolation => not_null(table, column),
            _ => error,
        };
        let changed =
            |column| changes.iter().rfind(|(changed, _)| *changed == column).map(|(_, value)| value.clone());
        with_row(error, table, &|column| changed(column).unwrap_or_else(|| self.value(table, row, column)))
    }

    /// Deletes a visible row.
    ///
    /// # Errors
    /// `OutOfMemory` past the memory limit, which deletions reach last.
    pub fn delete(&mut self, table: &Arc<Table>, row: RowId) -> Result<()> {
        let number = self.tables.number(table)?;
        self.keep_lost_keys(table, row, None)?;
        self.make_room(Purpose::Frees, std::iter::empty())?;
        self.note_unlocked(table, row);
        self.writes.delete(number, row);
        Ok(())
    }

    /// The row must stay in its slot until the commit, which a lock would ensure; see `announced`.
    fn note_unlocked(&mut self, table: &Table, row: RowId) {
        let may_move = self.isolation != Isolation::RepeatableRead;
        if may_move && !self.announced.keeps_rows() && row.provisional_number().is_none() {
            self.announced.set_keeps_rows(!self.has_locked(table, row));
        }
    }
}

/// The columns that a change names, if the table is a side of a foreign key.
#[inline]
fn changed_columns<T>(table: &Table, changes: &[(usize, T)]) -> ColumnSet {
    let mut changed = ColumnSet::EMPTY;
    if table.has_references() {
        changes.iter().for_each(|(column, _)| changed.insert(*column));
    }
    changed
}

/// What has to hold of one value of a row.
#[inline]
pub(crate) fn check_value_ref(table: &Table, column: usize, value: ValueRef<'_>) -> Result<()> {
    if value.is_null() && !table.is_nullable(column) {
        return Err(not_null(table, column));
    }
    check_length(Cell::of_borrowed(value, table.data_type(column))?)
}

fn check_value(table: &Table, column: usize, value: &Value) -> Result<()> {
    let definition = &table.columns()[column];
    if value.is_null() && !definition.nullable {
        return Err(not_null(table, column));
    }
    check_length(Cell::of(value, definition.data_type)?)
}

/// Lengths of stored strings have 32 bits.
#[inline]
fn check_length(cell: Cell<'_>) -> Result<()> {
    match cell {
        Cell::Bytes(bytes) if u32::try_from(bytes.len()).is_err() => Err(too_long(bytes.len())),
        _ => Ok(()),
    }
}

#[cold]
fn too_long(bytes: usize) -> Error {
    let message = format!("a string of {bytes} bytes is longer than a column takes");
    Error::new(SqlState::ProgramLimitExceeded, message)
}

/// The cell of a checked value.
fn cell_of<'a>(table: &Table, column: usize, value: &'a Value) -> Cell<'a> {
    Cell::of(value, table.data_type(column)).expect("checked when it was written")
}

#[inline]
fn check_cell(table: &Table, column: usize, cell: Cell<'_>) -> Result<()> {
    check_length(cell)?;
    let layout = table.layout(column);
    let fits = match cell {
        Cell::Null => table.is_nullable(column),
        Cell::Word(_) => !matches!(layout, CellLayout::Wide | CellLayout::View),
        Cell::Wide(_) => layout == CellLayout::Wide,
        Cell::Bytes(bytes) => layout == CellLayout::View && is_stored_form(bytes, table.data_type(column)),
    };
    if fits { Ok(()) } else { Err(misfit(table, column, cell)) }
}

/// Whether a column of the type may have these bytes: texts are UTF-8, documents are JSON, those of a `jsonb` and numerics canonical.
fn is_stored_form(bytes: &[u8], data_type: DataType) -> bool {
    match (data_type, std::str::from_utf8(bytes)) {
        (DataType::Bytea, _) => true,
        (DataType::Packed(packed), _) => packed.is_stored_form(bytes),
        (DataType::Json, Ok(text)) => json::check(text).is_ok(),
        (DataType::Jsonb, Ok(text)) => json::to_jsonb(text).is_ok_and(|canonical| canonical == text),
        (DataType::Number, Ok(text)) => Number::parse(text).is_ok_and(|number| number.to_string() == text),
        (_, text) => text.is_ok(),
    }
}

/// What is wrong with a cell that does not fit.
#[cold]
fn misfit(table: &Table, column: usize, cell: Cell<'_>) -> Error {
    match cell {
        Cell::Null => not_null(table, column),
        Cell::Bytes(_) if table.layout(column) == CellLayout::View => {
            let message = "invalid byte sequence for encoding \"UTF8\"";
            Error::new(SqlState::CharacterNotInRepertoire, message)
        }
        cell => Error::internal(format!("{cell:?} in a column of type {}", table.data_type(column))),
    }
}

/// The error with the row, if it is about a NULL in it.
#[cold]
pub(crate) fn with_row(error: Error, table: &Table, value: &dyn Fn(usize) -> Value) -> Error {
    match error.state() {
        SqlState::NotNullViolation => error.with_detail(failing_row(table, value)),
        _ => error,
    }
}

/// 23502 in PostgreSQL's words.
#[cold]
fn not_null(table: &Table, column: usize) -> Error {
    let message = format!(
        "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
        table.columns()[column].name,
        table.name()
    );
    Error::new(SqlState::NotNullViolation, message)
        .with_table(table.schema(), table.name())
        .with_column(&table.columns()[column].name)
}
