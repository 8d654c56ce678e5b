//! Statements inside of transactions: they see what the transaction sees, its own writes to tables included.

use super::arrow::ArrowBatches;
use super::bind::bind;
use super::rows::{Row, Rows};
use super::run::{Ran, expected};
use super::statement::sealed::Database as In;
use super::statement::{AsStatement, Ready};
use crate::error::{Error, Result};
use crate::transaction::{Inner, RollbackCause, Transaction};
use crate::values::Values;

impl Transaction<'_> {
    /// Runs a statement in the transaction and returns how many rows it wrote (of a query: read).
    ///
    /// # Errors
    /// The statement's. If it had begun to run, the transaction accepts no more calls and cannot commit: a part of
    /// its rows may have been written. `ActiveSqlTransaction` for definitions, transaction control and SET;
    /// `ReadOnlySqlTransaction` for writes of a snapshot's reader.
    ///
    /// ```
    /// # let db = ankerdb::Database::in_memory()?;
    /// # db.execute("CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL)", ())?;
    /// db.transaction(|tx| {
    ///     tx.table("account")?.insert((1, 100))?;
    ///     tx.execute("UPDATE account SET balance = balance * 2", ())?;
    ///     let total: i64 = tx.query_one("SELECT sum(balance)::bigint FROM account", ())?.get(0)?;
    ///     assert_eq!(total, 200);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), ankerdb::Error>(())
    /// ```
    pub fn execute(&self, statement: impl AsStatement, parameters: impl Values) -> Result<u64> {
        self.run(statement, &parameters)?.count()
    }

    /// Runs a query in the transaction and reads its rows one by one. They are as of this moment, whatever the transaction
    /// writes while they are read.
    ///
    /// # Errors
    /// Those of [`execute`](Self::execute). Those that come with a row leave the transaction as it is.
    pub fn query(&self, statement: impl AsStatement, parameters: impl Values) -> Result<Rows> {
        self.run(statement, &parameters)?.rows()
    }

    /// Runs a query that gives exactly one row.
    ///
    /// # Errors
    /// Those of [`query`](Self::query); `NoData` if there is none, `CardinalityViolation` if there are several.
    pub fn query_one(&self, statement: impl AsStatement, parameters: impl Values) -> Result<Row> {
        expected(self.query(statement, parameters)?.single()?)
    }

    /// Runs a query that gives at most one row.
    ///
    /// # Errors
    /// Those of [`query`](Self::query); `CardinalityViolation` if there are several.
    pub fn query_optional(
        &self,
        statement: impl AsStatement,
        parameters: impl Values,
    ) -> Result<Option<Row>> {
        self.query(statement, parameters)?.single()
    }

    /// Runs a query in the transaction and reads its result as Arrow batches.
    ///
    /// # Errors
    /// Those of [`query`](Self::query).
    pub fn query_arrow(&self, statement: impl AsStatement, parameters: impl Values) -> Result<ArrowBatches> {
        self.run(statement, &parameters)?.batches()
    }

    pub(super) fn run(&self, statement: impl AsStatement, parameters: &impl Values) -> Result<Ran> {
        let mut inner = self.enter()?;
        let alarm = self.alarm().ok_or_else(ended)?;
        let session = self.shared().sql_session(&mut inner.sql, alarm)?;
        let Ready { prepared, columns } = statement.ready(session, In(self.shared()))?;
        if let Some(command) = prepared.writes() {
            self.check_writable(command)?;
        }
        let parameters = bind(&prepared, parameters)?;
        let began = inner.began();
        let Inner { engine, sql, failure, .. } = &mut *inner;
        let session = sql.as_mut().ok_or_else(ended)?;
        let outcome = session.execute_in(engine, began, &prepared, &parameters).map_err(|error| {
            *failure = Some(RollbackCause::of(&error));
            Error::from(error)
        })?;
        Ok(Ran { columns, outcome, lease: None })
    }
}

/// Cannot happen: a transaction that exists has its connection.
#[cold]
fn ended() -> Error {
    Error::new(ankerdb_engine::SqlState::InternalError, "the transaction has ended")
}
