//! Tables outside of transactions: their columns and indexes, resolved once.

use crate::column::Column;
use crate::error::Result;
use crate::value::FromValue;
use ankerdb_engine::ColumnDefinition;
use ankerdb_engine::Table as EngineTable;
use std::cell::OnceCell;
use std::fmt;
use std::sync::Arc;

/// A table, found by its name once: of [`Database::table`](crate::Database::table). Cheap to clone.
///
/// Open it in a transaction with [`Transaction::table`](crate::Transaction::table), which also takes names.
#[derive(Clone)]
pub struct Table(pub(crate) Arc<EngineTable>);

impl Table {
    /// Its name.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// Its columns, in order.
    pub fn columns(&self) -> &[ColumnDefinition] {
        self.0.columns()
    }

    /// A column, to be read as `T`, found by its name once.
    ///
    /// # Errors
    /// `UndefinedColumn`; `DatatypeMismatch` if the column cannot be read as `T`, or may be NULL where `T` cannot.
    pub fn column<T: FromValue>(&self, name: &str) -> Result<Column<T>> {
        Column::of(&self.0, name)
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Table").field(&self.name()).finish()
    }
}

/// How tables that are opened by name are found.
type Find<'f> = &'f dyn Fn(&str) -> Result<Arc<EngineTable>>;

/// A name or a [`Table`], which opens a table in a transaction.
pub trait TableName<'t>: sealed::Sealed {
    /// The table, as long as the transaction needs it.
    #[doc(hidden)]
    fn open(self, opened: &'t Opened, find: Find<'_>) -> Result<&'t Arc<EngineTable>>;

    /// The table, on its own.
    #[doc(hidden)]
    fn find(self, find: Find<'_>) -> Result<Table>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for &str {}
    impl Sealed for &String {}
    impl Sealed for &super::Table {}
}

impl<'t> TableName<'t> for &str {
    #[inline]
    fn open(self, opened: &'t Opened, find: Find<'_>) -> Result<&'t Arc<EngineTable>> {
        opened.named(self, find)
    }

    fn find(self, find: Find<'_>) -> Result<Table> {
        find(self).map(Table)
    }
}

impl<'t> TableName<'t> for &String {
    fn open(self, opened: &'t Opened, find: Find<'_>) -> Result<&'t Arc<EngineTable>> {
        opened.named(self, find)
    }

    fn find(self, find: Find<'_>) -> Result<Table> {
        find(self).map(Table)
    }
}

impl<'t> TableName<'t> for &'t Table {
    #[inline]
    fn open(self, _: &'t Opened, _: Find<'_>) -> Result<&'t Arc<EngineTable>> {
        Ok(&self.0)
    }

    fn find(self, _: Find<'_>) -> Result<Table> {
        Ok(self.clone())
    }
}

/// Tables that a transaction has opened by name: a list that only grows at its end, so that its items can be borrowed
/// meanwhile.
#[derive(Default)]
pub struct Opened(OnceCell<Box<Item>>);

struct Item {
    table: Arc<EngineTable>,
    next: Opened,
}

impl Opened {
    fn named(&self, name: &str, find: Find<'_>) -> Result<&Arc<EngineTable>> {
        let mut place = self;
        while let Some(item) = place.0.get() {
            if item.table.name() == name {
                return Ok(&item.table);
            }
            place = &item.next;
        }
        let item = Box::new(Item { table: find(name)?, next: Opened::default() });
        Ok(&place.0.get_or_init(|| item).table)
    }
}
