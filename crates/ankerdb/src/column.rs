//! Columns: by position, by name, or by a handle that was resolved once.

use crate::error::{Error, Result};
use crate::value::FromValue;
use ankerdb_engine::{DataType, SqlState, Table, TableId};
use std::fmt;
use std::marker::PhantomData;

/// A column of a table, found by its name once, and read as `T`: for loops in which names would be looked up again and
/// again.
///
/// Of [`Table::column`](crate::Table::column). Good for all rows of its table; a table of the same name that is made
/// later is another one.
///
/// ```
/// # use ankerdb::{ColumnDefinition, DataType, Database, TableDefinition};
/// # let db = Database::in_memory()?;
/// # let definition = TableDefinition::new("account")
/// #     .column(ColumnDefinition::new("id", DataType::Integer))
/// #     .column(ColumnDefinition::new("balance", DataType::BigInt))
/// #     .primary_key(&["id"]);
/// let account = db.create_table(definition)?;
/// let balance = account.column::<i64>("balance")?;
/// let total = db.transaction(|tx| {
///     let account = tx.table(&account)?;
///     account.insert((1, 100))?;
///     account.update(1, [(balance, 75)])?;
///     account.scan().into_iter().map(|row| row?.get(balance)).sum::<ankerdb::Result<i64>>()
/// })?;
/// assert_eq!(total, 75);
/// # Ok::<(), ankerdb::Error>(())
/// ```
pub struct Column<T> {
    place: ColumnPlace,
    read_as: PhantomData<fn() -> T>,
}

/// Where the column of a handle is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ColumnPlace {
    table: TableId,
    position: usize,
}

impl<T> Clone for Column<T> {
    fn clone(&self) -> Column<T> {
        *self
    }
}

impl<T> Copy for Column<T> {}

impl<T> fmt::Debug for Column<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Column").field(&self.place.position).finish()
    }
}

impl<T: FromValue> Column<T> {
    /// The column of this name.
    ///
    /// # Errors
    /// `UndefinedColumn`; `DatatypeMismatch` if the column cannot be read as `T`, or may be NULL where `T` cannot.
    pub(crate) fn of(table: &Table, name: &str) -> Result<Column<T>> {
        let position = position_of(table, name)?;
        let definition = &table.columns()[position];
        if !T::reads(definition.data_type) {
            let message = format!(
                "column \"{name}\" is of type {} and cannot be read as {}",
                definition.data_type,
                std::any::type_name::<T>()
            );
            return Err(Error::new(SqlState::DatatypeMismatch, message));
        }
        if definition.nullable && !T::READS_NULL {
            let message =
                format!("column \"{name}\" may be NULL: read it as Option<{}>", std::any::type_name::<T>());
            return Err(Error::new(SqlState::DatatypeMismatch, message));
        }
        let place = ColumnPlace { table: table.id(), position };
        Ok(Column { place, read_as: PhantomData })
    }
}

impl<T> Column<T> {
    #[inline]
    pub(crate) fn place(&self) -> ColumnPlace {
        self.place
    }
}

/// The position of a table's column.
pub(crate) fn position_of(table: &Table, name: &str) -> Result<usize> {
    let message = || format!("column \"{name}\" of relation \"{}\" does not exist", table.name());
    table.column_position(name).ok_or_else(|| Error::new(SqlState::UndefinedColumn, message()))
}

/// The position of a handle's column, in its own table.
#[inline]
pub(crate) fn position_in(table: TableId, place: ColumnPlace) -> Result<usize> {
    if place.table == table {
        return Ok(place.position);
    }
    Err(Error::new(SqlState::UndefinedColumn, "the column's handle is of another table"))
}

/// A column of a result, or a parameter of a statement.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ColumnInfo {
    /// Its name; names of a result's columns need not be unique.
    pub name: String,
    /// Its type.
    pub data_type: DataType,
}

/// The columns among which a row's columns are looked up.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub enum Header<'a> {
    /// The row is one of a table.
    Table(&'a Table),
    /// The row is one of a result.
    Result(&'a [ColumnInfo]),
}

/// What names a column of a row that is read as `T`: its position from 0, its name, or (of a table's row) a [`Column`]
/// handle.
pub trait ColumnIndex<T> {
    /// The position.
    ///
    /// # Errors
    /// `UndefinedColumn`.
    #[doc(hidden)]
    fn position(&self, header: Header<'_>) -> Result<usize>;
}

impl<T> ColumnIndex<T> for usize {
    #[inline]
    fn position(&self, header: Header<'_>) -> Result<usize> {
        let count = match header {
            Header::Table(table) => table.columns().len(),
            Header::Result(columns) => columns.len(),
        };
        if *self < count {
            return Ok(*self);
        }
        let message = format!("there is no column {self}: the row has {count}, from 0 on");
        Err(Error::new(SqlState::UndefinedColumn, message))
    }
}

impl<T> ColumnIndex<T> for &str {
    fn position(&self, header: Header<'_>) -> Result<usize> {
        match header {
            Header::Table(table) => position_of(table, self),
            Header::Result(columns) => {
                let found = columns.iter().position(|column| column.name == **self);
                let message = || format!("column \"{self}\" does not exist in the result");
                found.ok_or_else(|| Error::new(SqlState::UndefinedColumn, message()))
            }
        }
    }
}

impl<T> ColumnIndex<T> for &String {
    fn position(&self, header: Header<'_>) -> Result<usize> {
        ColumnIndex::<T>::position(&self.as_str(), header)
    }
}

impl<T> ColumnIndex<T> for Column<T> {
    #[inline]
    fn position(&self, header: Header<'_>) -> Result<usize> {
        match header {
            Header::Table(table) => position_in(table.id(), self.place),
            Header::Result(_) => Err(Error::new(
                SqlState::UndefinedColumn,
                "a handle is of a table's column, not of a result's",
            )),
        }
    }
}
