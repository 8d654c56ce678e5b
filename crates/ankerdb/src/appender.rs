//! Bulk loads: row after row, committed in large pieces.

use crate::connection::{ConnectionPool, Lease};
use crate::database::Database;
use crate::error::{Error, Result};
use crate::open_table::OpenTable;
use crate::table::Table;
use crate::transaction::{Transaction, WriteMode};
use crate::values::Values;
use ankerdb_engine::{Isolation, SqlState};
use std::fmt;

/// Rows of one transaction of a load, by default.
const ROWS_PER_TRANSACTION: usize = 65_536;

/// Loads rows into a table: of [`Database::appender`].
///
/// Rows are committed in transactions of 65,536, or as many as [`rows_per_transaction`](Self::rows_per_transaction)
/// says: with `usize::MAX` the load is there as a whole, or not at all. It does not hold up other transactions.
/// [`finish`](Self::finish) commits the rest; without it the rows since the last commit are gone.
///
/// ```
/// # use ankerdb::{ColumnDefinition, DataType, Database, TableDefinition};
/// # let db = Database::in_memory()?;
/// # let definition = TableDefinition::new("reading")
/// #     .column(ColumnDefinition::new("id", DataType::Integer))
/// #     .column(ColumnDefinition::new("value", DataType::DoublePrecision))
/// #     .primary_key(&["id"]);
/// # db.create_table(definition)?;
/// let mut appender = db.appender("reading")?;
/// for id in 0..100_000 {
///     appender.append_row((id, f64::from(id) / 10.0))?;
/// }
/// assert_eq!(appender.finish()?, 100_000);
/// # Ok::<(), ankerdb::Error>(())
/// ```
pub struct Appender<'d> {
    shared: &'d ConnectionPool,
    table: Table,
    rows_per_transaction: usize,
    /// The transaction of the rows since the last commit, if there are any.
    transaction: Option<Transaction<'d>>,
    appended: u64,
    committed: u64,
    failed: bool,
}

impl fmt::Debug for Appender<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Appender { appended, committed, .. } = self;
        f.debug_struct("Appender")
            .field("table", &self.table)
            .field("appended", appended)
            .field("committed", committed)
            .finish_non_exhaustive()
    }
}

impl Database {
    /// Begins to load rows into a table.
    ///
    /// # Errors
    /// `UndefinedTable`.
    pub fn appender(&self, table: &str) -> Result<Appender<'_>> {
        Ok(Appender {
            shared: &self.shared,
            table: self.table(table)?,
            rows_per_transaction: ROWS_PER_TRANSACTION,
            transaction: None,
            appended: 0,
            committed: 0,
            failed: false,
        })
    }
}

impl Appender<'_> {
    /// How many rows are committed together; at least one.
    pub fn rows_per_transaction(mut self, rows: usize) -> Self {
        self.rows_per_transaction = rows.max(1);
        self
    }

    /// Adds a row: a value for each column, or values by name, as [`OpenTable::insert`] takes them.
    ///
    /// # Errors
    /// Those of the row's values, with its number (from 1) before the message: the row is left out, and the load may
    /// go on. Those of the commit of a full transaction, as for [`flush`](Self::flush).
    pub fn append_row(&mut self, values: impl Values) -> Result<()> {
        self.check()?;
        let (shared, number) = (self.shared, self.appended + 1);
        let transaction = self.transaction.get_or_insert_with(|| begin(shared));
        OpenTable::new(transaction, &self.table.0)
            .insert_row(&values)
            .map_err(|error| error.at(format!("row {number}")))?;
        self.appended = number;
        match self.pending() >= self.rows_per_transaction as u64 {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// 25P02 after a commit that has failed.
    fn check(&self) -> Result<()> {
        if self.failed {
            return Err(Error::new(
                SqlState::InFailedSqlTransaction,
                "the load has failed: begin another one",
            ));
        }
        Ok(())
    }

    fn pending(&self) -> u64 {
        self.appended - self.committed
    }

    /// Rows that others can see by now.
    pub fn committed(&self) -> u64 {
        self.committed
    }

    /// Commits the rows since the last commit.
    ///
    /// # Errors
    /// `UniqueViolation` if one of the keys is taken, with the numbers of the rows that were to be committed before the
    /// message; `OutOfMemory`, `QueryCanceled`. None of these rows is there then, and the load takes no more.
    pub fn flush(&mut self) -> Result<()> {
        let Some(transaction) = self.transaction.take() else { return Ok(()) };
        transaction.commit().map_err(|error| {
            self.failed = true;
            error.at(format!("rows {} to {}", self.committed + 1, self.appended))
        })?;
        self.committed = self.appended;
        Ok(())
    }

    /// Commits the rest and tells how many rows were loaded.
    ///
    /// # Errors
    /// Those of [`flush`](Self::flush).
    pub fn finish(mut self) -> Result<u64> {
        self.check()?;
        self.flush().map(|()| self.committed)
    }
}

/// The transaction of the next rows. It reads nothing, so it cannot conflict with others.
fn begin(shared: &ConnectionPool) -> Transaction<'_> {
    let mut lease = Lease::take(shared);
    let engine = lease.session.begin_procedure(Isolation::Serializable);
    Transaction::own(lease, WriteMode::Procedure, engine)
}
