//! A row of a table, found in a transaction.

use super::{OpenTable, row_is_deleted};
use crate::column::{ColumnIndex, Header};
use crate::error::Result;
use crate::value::FromValue;
use crate::values::Values;
use ankerdb_engine::{ColumnSet, RowId, ValueRef};
use std::fmt;

/// A row that a transaction has found: of [`OpenTable::get`], a scan, or an index.
///
/// Cells are read on demand, with what the transaction itself has written to them by then. Only those that are read
/// count when the transaction is validated: others may change meanwhile without a conflict.
#[derive(Clone, Copy)]
pub struct TableRow<'t, 'c> {
    table: OpenTable<'t, 'c>,
    row: RowId,
    /// Columns that are known to the transaction as read.
    noted: ColumnSet,
}

impl fmt::Debug for TableRow<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableRow").field("table", &self.table.name()).finish_non_exhaustive()
    }
}

impl<'t, 'c> TableRow<'t, 'c> {
    #[inline]
    pub(crate) fn new(table: OpenTable<'t, 'c>, row: RowId, noted: ColumnSet) -> TableRow<'t, 'c> {
        TableRow { table, row, noted }
    }

    /// A cell, by the column's position from 0, its name, or a [handle](crate::Column).
    ///
    /// # Errors
    /// `UndefinedColumn`; `DatatypeMismatch`, `NumericValueOutOfRange` and `NullValueNotAllowed` as
    /// [`FromValue::from_value`] has them; `NoData` if the transaction itself has deleted the row meanwhile.
    #[inline]
    pub fn get<T: FromValue>(&self, column: impl ColumnIndex<T>) -> Result<T> {
        let table = self.table.engine();
        let position = column.position(Header::Table(table))?;
        self.read(position, |value| {
            T::from_value(value)
                .map_err(|error| error.at(format!("column \"{}\"", table.columns()[position].name)))
        })?
    }

    /// Calls a function with a cell where it lies: for texts that need not be copied.
    ///
    /// # Errors
    /// `UndefinedColumn`; `NoData` as for [`get`](Self::get).
    pub fn with<R>(
        &self,
        column: impl ColumnIndex<ankerdb_engine::Value>,
        use_value: impl FnOnce(ValueRef<'_>) -> R,
    ) -> Result<R> {
        self.read(column.position(Header::Table(self.table.engine()))?, use_value)
    }

    #[inline]
    fn read<R>(&self, position: usize, use_value: impl FnOnce(ValueRef<'_>) -> R) -> Result<R> {
        let table = self.table.engine();
        let data_type = table.data_type(position);
        self.table.transaction().with(|inner| {
            if !self.noted.contains(position) {
                inner.engine.note_columns_read(table, self.row, ColumnSet::of(&[position]));
            }
            let row = inner.engine.row(table, self.row);
            match row.is_deleted() {
                false => Ok(row.cell(position, |cell| use_value(cell.to_borrowed(data_type)))),
                true => Err(row_is_deleted()),
            }
        })
    }

    /// Changes columns of the row, as [`OpenTable::update`] does without looking it up again.
    ///
    /// # Errors
    /// Those of [`OpenTable::update`]; `NoData` if the transaction itself has deleted the row. `SerializationFailure` in an
    /// interactive transaction if the row has changed since it was found.
    #[inline]
    pub fn update(&self, changes: impl Values) -> Result<()> {
        self.written(self.table.change_row(self.row, &changes, &[])?)
    }

    /// Deletes the row.
    ///
    /// # Errors
    /// Those of [`OpenTable::delete`]; `NoData` if the transaction itself has deleted it already.
    pub fn delete(&self) -> Result<()> {
        self.written(self.table.delete_row(self.row)?)
    }

    /// 40001 if the row is no longer the one that had been found.
    #[inline]
    fn written(&self, was_the_same: bool) -> Result<()> {
        match was_the_same {
            true => Ok(()),
            false => self.table.transaction().with(|_| Err(row_has_changed())),
        }
    }
}

#[cold]
fn row_has_changed() -> ankerdb_engine::Error {
    ankerdb_engine::Error::serialization("could not serialize access due to concurrent update")
}
