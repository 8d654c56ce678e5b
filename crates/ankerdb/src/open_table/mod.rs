//! A table in a transaction: rows by key, one at a time.
//!
//! Keys are encoded here, values converted to the columns' types, and columns found by name, so that a caller does
//! none of it by hand. Finding a row does not read it: its cells are read one by one, and only those that a program
//! looks at count as read when the commit is validated.
//!
//! In a procedure rows are written at once, and their keys are checked at the commit. In an interactive transaction a
//! row is locked before it is written, so that others wait instead of failing after minutes; where the lock shows
//! that the row has changed, it is looked up once more.

mod row;

pub use row::TableRow;

use crate::column::{Column, position_in, position_of};
use crate::error::{Error, Result};
use crate::table::TableName;
use crate::transaction::{Inner, Transaction, WriteMode};
use crate::value::{FromValue, number_text, stored};
use crate::values::{Target, Values};
use ankerdb_engine::{
    Cell, ColumnDefinition, ColumnSet, DataType, IndexPosition, Isolation, LockWait, Locked,
    Result as EngineResult,
};
use ankerdb_engine::{RowId, SqlState, Table, Value, ValueRef};
use std::fmt;
use std::sync::Arc;

/// Cells that are kept on the stack on their way into a row; wider rows use the heap.
const CELLS_INLINE: usize = 16;

/// A table in a transaction: of [`Transaction::table`]. Copies are the same table.
///
/// ```
/// # use ankerdb::{ColumnDefinition, DataType, Database, TableDefinition};
/// # let db = Database::in_memory()?;
/// # let definition = TableDefinition::new("account")
/// #     .column(ColumnDefinition::new("id", DataType::Integer))
/// #     .column(ColumnDefinition::new("owner", DataType::Text).nullable())
/// #     .column(ColumnDefinition::new("balance", DataType::BigInt))
/// #     .primary_key(&["id"]);
/// # db.create_table(definition)?;
/// db.transaction(|tx| {
///     let account = tx.table("account")?;
///     account.insert((1, "Ann", 100))?;
///     account.insert(ankerdb::named! { id: 2, balance: 50 })?;    // the owner is NULL
///     account.update(2, [("owner", "Bob")])?;
///     for row in account.range(1..=2) {
///         let row = row?;
///         let owner: Option<String> = row.get("owner")?;
///         println!("{owner:?}: {}", row.get::<i64>("balance")?);
///     }
///     account.delete(1)?;
///     Ok(())
/// })?;
/// # Ok::<(), ankerdb::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct OpenTable<'t, 'c> {
    transaction: &'t Transaction<'c>,
    table: &'t Arc<Table>,
}

impl fmt::Debug for OpenTable<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OpenTable").field(&self.table.name()).finish()
    }
}

impl<'c> Transaction<'c> {
    /// A table, by its name or by a [`Table`](crate::Table) handle. A name is looked up once in a transaction, a handle
    /// never.
    ///
    /// # Errors
    /// `UndefinedTable`, also for a handle of another database.
    #[inline]
    pub fn table<'t>(&'t self, table: impl TableName<'t>) -> Result<OpenTable<'t, 'c>> {
        let find = |name: &str| Ok(self.shared().engine.catalog().table(name)?);
        let table = table.open(self.tables(), &find)?;
        table.check_is_of(self.shared().engine.id())?;
        Ok(OpenTable::new(self, table))
    }
}

impl<'t, 'c> OpenTable<'t, 'c> {
    #[inline]
    pub(crate) fn new(transaction: &'t Transaction<'c>, table: &'t Arc<Table>) -> OpenTable<'t, 'c> {
        OpenTable { transaction, table }
    }

    #[inline]
    pub(crate) fn transaction(&self) -> &'t Transaction<'c> {
        self.transaction
    }

    #[inline]
    pub(crate) fn engine(&self) -> &'t Arc<Table> {
        self.table
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.table.name()
    }

    /// Its columns, in order.
    pub fn columns(&self) -> &'t [ColumnDefinition] {
        self.table.columns()
    }

    /// A column, to be read as `T`, found by its name once.
    ///
    /// # Errors
    /// Those of [`Table::column`](crate::Table::column).
    pub fn column<T: FromValue>(&self, name: &str) -> Result<Column<T>> {
        Column::of(self.table, name)
    }

    /// Adds a row: a value for each column in order, or values by name, where columns that are not named are NULL.
    ///
    /// # Errors
    /// `UniqueViolation` if the key is taken: in an interactive transaction here, in a procedure from the commit.
    /// `NotNullViolation`; what a value can have wrong with it (`NumericValueOutOfRange`, `DatatypeMismatch`, ...);
    /// `SyntaxError` for too many or too few values, `UndefinedColumn`; `OutOfMemory`.
    pub fn insert(&self, values: impl Values) -> Result<()> {
        self.insert_row(&values)
    }

    pub(crate) fn insert_row(&self, values: &impl Values) -> Result<()> {
        self.with_cells(values, |cells| {
            self.transaction.write(self.table, "INSERT", |inner| {
                inner.begin_statement();
                if self.transaction.kind() == WriteMode::Procedure {
                    return inner.engine.insert_cells(self.table, cells).map(drop);
                }
                let types = self.table.columns().iter();
                let values = cells.iter().zip(types).map(|(cell, column)| cell.to_value(column.data_type));
                inner.engine.insert(self.table, values.collect()).map(drop)
            })
        })
    }

    /// Adds a row, or gives the row with the same primary key these values: those of columns that are not named stay as
    /// they are. Returns whether there was one.
    ///
    /// # Errors
    /// Those of [`insert`](Self::insert). Below SERIALIZABLE another transaction may insert the key meanwhile,
    /// which is `UniqueViolation` from the commit of a procedure; at SERIALIZABLE the procedure runs again.
    pub fn upsert(&self, values: impl Values) -> Result<bool> {
        let primary = self.primary_key()?;
        let columns = &self.table.index(primary).definition().columns[..];
        let part = |column: &usize| self.value_for(&values, *column);
        let parts = columns.iter().map(part).collect::<Result<Vec<_>>>()?;
        match self.at_key(primary, &parts, |row| self.change_row(row, &values, columns))? {
            true => Ok(true),
            false => self.insert_row(&values).map(|()| false),
        }
    }

    /// The value of a list for a column, NULL if there is none.
    fn value_for<'v>(&self, values: &'v impl Values, column: usize) -> Result<ValueRef<'v>> {
        for position in 0..values.count() {
            if self.column_of(values.target(position), position)? == column {
                return values.value(position);
            }
        }
        Ok(ValueRef::Null)
    }

    /// The row with this primary key, or `None`: a value, or a tuple for a key of several columns. Its cells are not
    /// read yet.
    ///
    /// # Errors
    /// `UndefinedObject` if the table has no primary key, or `SyntaxError` for a key with more or fewer parts;
    /// what a value can have wrong with it; `SerializationFailure`.
    #[inline]
    pub fn get(&self, key: impl Values) -> Result<Option<TableRow<'t, 'c>>> {
        let found = self.find(self.primary_key()?, &key)?;
        Ok(found.map(|row| TableRow::new(*self, row, ColumnSet::EMPTY)))
    }

    /// Whether there is a row with this primary key.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    pub fn contains(&self, key: impl Values) -> Result<bool> {
        Ok(self.find(self.primary_key()?, &key)?.is_some())
    }

    /// Changes columns of the row with this primary key: `[("balance", 75)]`, [`named!`](crate::named)` { balance: 75
    /// }`, or by [handles](Column). Returns whether there is such a row.
    ///
    /// # Errors
    /// Those of [`get`](Self::get) and [`insert`](Self::insert).
    #[inline]
    pub fn update(&self, key: impl Values, changes: impl Values) -> Result<bool> {
        self.at_key(self.primary_key()?, &key, |row| self.change_row(row, &changes, &[]))
    }

    /// Deletes the row with this primary key. Returns whether there was one.
    ///
    /// # Errors
    /// Those of [`get`](Self::get); `ReadOnlySqlTransaction`.
    pub fn delete(&self, key: impl Values) -> Result<bool> {
        self.at_key(self.primary_key()?, &key, |row| self.delete_row(row))
    }

    /// Writes to the row with this key in a unique index, looked up again as often as it has changed before it was
    /// locked. Returns whether there is one.
    #[inline]
    fn at_key(
        &self,
        index: IndexPosition,
        key: &impl Values,
        write: impl Fn(RowId) -> Result<bool>,
    ) -> Result<bool> {
        while let Some(row) = self.find(index, key)? {
            if write(row)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The position of the index of the primary key.
    #[inline]
    pub(crate) fn primary_key(&self) -> Result<IndexPosition> {
        // It exists from the beginning and is never dropped.
        let primary = self.table.all_indexes().find(|(_, index)| index.definition().primary);
        primary.map(|(position, _)| position).ok_or_else(|| {
            let message = format!("table \"{}\" has no primary key", self.table.name());
            Error::new(SqlState::UndefinedObject, message)
        })
    }

    /// The row with this key in a unique index. NULL equals nothing.
    #[inline]
    pub(crate) fn find(&self, index: IndexPosition, key: &impl Values) -> Result<Option<RowId>> {
        let parts = self.table.index(index).part_count();
        if key.count() != parts {
            return Err(key_length(key.count(), parts));
        }
        let Some(bytes) = self.encoded(index, key)? else { return Ok(None) };
        self.transaction.with(|inner| {
            inner.begin_statement();
            let found = inner.engine.find(self.table, index, &bytes, ColumnSet::EMPTY);
            *inner.key = bytes;
            found
        })
    }

    /// A key, or its first parts, as bytes in the transaction's buffer, which goes back when it has been used. `None`
    /// for one with NULL.
    #[inline]
    pub(crate) fn encoded(&self, index: IndexPosition, key: &impl Values) -> Result<Option<Vec<u8>>> {
        let index = self.table.index(index);
        let mut bytes = self.transaction.with(|inner| Ok(std::mem::take(&mut *inner.key)))?;
        bytes.clear();
        for part in 0..index.part_count().min(key.count()) {
            if key.target(part) != Target::InOrder {
                return Err(Error::new(
                    SqlState::SyntaxError,
                    "the parts of a key come in order, without names",
                ));
            }
            let data_type = index.part_type(part);
            let value = key.value(part)?;
            let written = number_text(value, data_type)?;
            let value = stored(written.as_deref().map_or(value, ValueRef::Number), data_type)?;
            if value.is_null() {
                return Ok(None);
            }
            index.push_part(part, Cell::of_borrowed(value, data_type)?, &mut bytes)?;
        }
        Ok(Some(bytes))
    }

    /// Changes columns of a row of this table: all that the list names, except `except`. False as for
    /// [`take_row`](Self::take_row).
    #[inline]
    pub(crate) fn change_row(&self, row: RowId, changes: &impl Values, except: &[usize]) -> Result<bool> {
        let written = self.written(changes)?;
        let mut inline = [(0, Cell::Null); CELLS_INLINE];
        let mut heap = Vec::new();
        let cells = match inline.get_mut(..changes.count()) {
            Some(cells) => cells,
            None => {
                heap.resize(changes.count(), (0, Cell::Null));
                &mut heap[..]
            }
        };
        let mut count = 0;
        for position in 0..changes.count() {
            let (column, cell) = self.assigned(changes, &written, position)?;
            if !except.contains(&column) {
                cells[count] = (column, cell);
                count += 1;
            }
        }
        let cells = &cells[..count];
        self.transaction.write(self.table, "UPDATE", |inner| {
            if !self.take_row(inner, row)? {
                return Ok(false);
            }
            if self.transaction.kind() == WriteMode::Procedure {
                return inner.engine.update_cells(self.table, row, cells).map(|()| true);
            }
            let value =
                |&(column, cell): &(usize, Cell)| (column, cell.to_value(self.table.data_type(column)));
            let changes: Vec<(usize, Value)> = cells.iter().map(value).collect();
            inner.engine.update(self.table, row, changes).map(|()| true)
        })
    }

    /// Deletes a row of this table. False as for [`take_row`](Self::take_row).
    pub(crate) fn delete_row(&self, row: RowId) -> Result<bool> {
        self.transaction.write(self.table, "DELETE", |inner| match self.take_row(inner, row)? {
            true => inner.engine.delete(self.table, row).map(|()| true),
            false => Ok(false),
        })
    }

    /// Ensures that the row exists, and in an interactive transaction that no other can change it until the end.
    /// False if it has to be looked up once more: below SERIALIZABLE it may be another one by now.
    #[inline]
    fn take_row(&self, inner: &mut Inner, row: RowId) -> EngineResult<bool> {
        if inner.engine.has_writes() && inner.engine.row(self.table, row).is_deleted() {
            return Err(row_is_deleted());
        }
        if self.transaction.kind() == WriteMode::Procedure {
            return Ok(true);
        }
        inner.begin_statement();
        let locked = inner.engine.lock(self.table, row, LockWait::Wait)?;
        if locked != Locked::Unchanged {
            // At SERIALIZABLE what has been read before must still hold; then it is as if the transaction had begun now.
            inner.engine.restart_statement()?;
        }
        Ok(locked == Locked::Unchanged || inner.engine.isolation() == Isolation::Serializable)
    }

    /// A change: its column, and the cell that goes there.
    #[inline]
    fn assigned<'v>(
        &self,
        changes: &'v impl Values,
        written: &'v [Option<Box<str>>],
        position: usize,
    ) -> Result<(usize, Cell<'v>)> {
        let column = match changes.target(position) {
            Target::InOrder if changes.count() != self.table.columns().len() => {
                let message =
                    "changes say which column they are of: [(\"balance\", 75)], or named! { balance: 75 }";
                return Err(Error::new(SqlState::SyntaxError, message));
            }
            target => self.column_of(target, position)?,
        };
        Ok((column, self.cell(column, changes, written, position)?))
    }

    /// The target column of a value of a list.
    #[inline]
    fn column_of(&self, target: Target<'_>, position: usize) -> Result<usize> {
        match target {
            Target::InOrder => Ok(position),
            Target::Name(name) => position_of(self.table, name),
            Target::Column(place) => position_in(self.table.id(), place),
        }
    }

    /// A value as the cell of a column.
    #[inline]
    fn cell<'v>(
        &self,
        column: usize,
        values: &'v impl Values,
        written: &'v [Option<Box<str>>],
        position: usize,
    ) -> Result<Cell<'v>> {
        let data_type = self.table.data_type(column);
        let text = written.get(position).and_then(Option::as_deref);
        let cell = (values.value(position))
            .map(|value| text.map_or(value, ValueRef::Number))
            .and_then(|value| stored(value, data_type))
            .and_then(|value| Ok(Cell::of_borrowed(value, data_type)?));
        cell.map_err(|error| error.at(format!("column \"{}\"", self.table.columns()[column].name)))
    }

    /// The texts of values for columns of numerics of any length, by their places in the list; empty if the table has no such column.
    #[inline]
    fn written(&self, values: &impl Values) -> Result<Vec<Option<Box<str>>>> {
        if self.table.columns().iter().all(|column| column.data_type != DataType::Number) {
            return Ok(Vec::new());
        }
        let text = |position| {
            let column = self.column_of(values.target(position), position)?;
            let data_type = self.table.columns().get(column).map(|column| column.data_type);
            let text = data_type.map(|known| number_text(values.value(position)?, known)).transpose();
            text.map(Option::flatten)
        };
        (0..values.count()).map(text).collect()
    }

    /// Calls a function with the cells of a new row.
    #[inline]
    fn with_cells<R>(
        &self,
        values: &impl Values,
        use_cells: impl FnOnce(&[Cell<'_>]) -> Result<R>,
    ) -> Result<R> {
        let width = self.table.columns().len();
        let written = self.written(values)?;
        let mut inline = [Cell::Null; CELLS_INLINE];
        let mut heap = Vec::new();
        let cells = match inline.get_mut(..width) {
            Some(cells) => cells,
            None => {
                heap.resize(width, Cell::Null);
                &mut heap[..]
            }
        };
        let in_order = values.count() > 0 && values.target(0) == Target::InOrder;
        if in_order && values.count() != width {
            return Err(row_length(self.table.name(), values.count(), width));
        }
        for position in 0..values.count() {
            let column = self.column_of(values.target(position), position)?;
            let cell = self.cell(column, values, &written, position)?;
            if let Some(place) = cells.get_mut(column) {
                *place = cell;
            }
        }
        use_cells(cells)
    }
}

impl Inner<'_> {
    /// Each call of an interactive transaction is a statement.
    #[inline]
    pub(crate) fn begin_statement(&mut self) {
        if self.engine.is_interactive() {
            self.engine.begin_statement();
        }
    }
}

/// The error for a row that the transaction itself has deleted.
#[cold]
pub(crate) fn row_is_deleted() -> ankerdb_engine::Error {
    ankerdb_engine::Error::new(SqlState::NoData, "the row was deleted by this transaction")
}

#[cold]
fn key_length(given: usize, parts: usize) -> Error {
    Error::new(SqlState::SyntaxError, format!("the key has {parts} parts, but {given} were given"))
}

#[cold]
fn row_length(table: &str, given: usize, width: usize) -> Error {
    Error::new(
        SqlState::SyntaxError,
        format!("table \"{table}\" has {width} columns, but {given} values were given"),
    )
}
