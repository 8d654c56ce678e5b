//! Statements outside of transactions: each is one of its own.

use super::arrow::ArrowBatches;
use super::bind::bind;
use super::rows::{Row, Rows};
use super::run::{Ran, expected};
use super::statement::sealed::Database as In;
use super::statement::{AsStatement, Ready};
use crate::connection::{Connection, Lease};
use crate::database::Database;
use crate::error::{Error, Result};
use crate::values::Values;
use ankerdb_engine::SqlState;
use ankerdb_sql::Prepared;

impl Database {
    /// Runs a statement and returns how many rows it wrote (of a query: read).
    ///
    /// It is a transaction of its own, and is run again by itself after a serialization failure. Text is parsed and
    /// planned each time; a [`Statement`](crate::Statement) is not.
    ///
    /// # Errors
    /// The statement's. `ActiveSqlTransaction` for transaction control and SET, which belong to a session, that a
    /// `Database` is not: see [`begin`](Self::begin), [`transaction`](Self::transaction) and
    /// [`Options`](crate::Options).
    ///
    /// ```
    /// # let db = ankerdb::Database::in_memory()?;
    /// db.execute("CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL)", ())?;
    /// assert_eq!(db.execute("INSERT INTO account VALUES (1, 100), (2, 50)", ())?, 2);
    /// assert_eq!(db.execute("UPDATE account SET balance = balance + $1 WHERE id = $2", (5, 1))?, 1);
    /// # Ok::<(), ankerdb::Error>(())
    /// ```
    pub fn execute(&self, statement: impl AsStatement, parameters: impl Values) -> Result<u64> {
        self.run(statement, &parameters)?.count()
    }

    /// Runs several statements, separated by semicolons, one after the other, each as [`execute`](Self::execute) does. Ends
    /// with the first error.
    ///
    /// # Errors
    /// Those of [`execute`](Self::execute), with the statement's number (from 1) before the message.
    ///
    /// ```
    /// # let db = ankerdb::Database::in_memory()?;
    /// db.execute_batch(
    ///     "CREATE TABLE a (i int); CREATE TABLE b (i int);
    ///      INSERT INTO a VALUES (1), (2); INSERT INTO b SELECT i + 1 FROM a",
    /// )?;
    /// # Ok::<(), ankerdb::Error>(())
    /// ```
    pub fn execute_batch(&self, sql: &str) -> Result<()> {
        let statements = {
            let mut lease = Lease::take(&*self.shared);
            let Connection { sql: slot, alarm, .. } = &mut *lease;
            self.shared.sql_session(slot, alarm)?.parse(sql)?
        };
        for (position, statement) in statements.iter().enumerate() {
            let done = self.execute(statement.sql(), ());
            done.map_err(|error| error.at(format!("statement {}", position + 1)))?;
        }
        Ok(())
    }

    /// Runs a query and reads its rows one by one.
    ///
    /// A query that finds few rows by an index is over when this returns. An analytical one runs on the database's threads
    /// while its rows are read, over a snapshot of this moment.
    ///
    /// # Errors
    /// Those of [`execute`](Self::execute). An analytical query's errors may come with any row.
    ///
    /// ```
    /// # let db = ankerdb::Database::in_memory()?;
    /// # db.execute_batch("CREATE TABLE account (id int PRIMARY KEY, owner text); INSERT INTO account VALUES (1, 'Ann'), (2, NULL)")?;
    /// for row in db.query("SELECT id, owner FROM account WHERE id < $1 ORDER BY id", [10])? {
    ///     let row = row?;
    ///     let (id, owner): (i32, Option<String>) = (row.get(0)?, row.get("owner")?);
    ///     println!("{id} {owner:?}");
    /// }
    /// # Ok::<(), ankerdb::Error>(())
    /// ```
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

    /// Runs a query and reads its result as Arrow batches: those that the analytical threads have made, without a copy.
    ///
    /// # Errors
    /// Those of [`query`](Self::query).
    ///
    /// ```
    /// use ankerdb::arrow::array::AsArray;
    /// use ankerdb::arrow::datatypes::Int64Type;
    ///
    /// # let db = ankerdb::Database::in_memory()?;
    /// # db.execute_batch("CREATE TABLE t (i int); INSERT INTO t SELECT i FROM generate_series(1, 1000) AS s(i)")?;
    /// let mut count = 0;
    /// for batch in db.query_arrow("SELECT count(*) FROM t WHERE i % 2 = 0", ())? {
    ///     count += batch?.column(0).as_primitive::<Int64Type>().value(0);
    /// }
    /// assert_eq!(count, 500);
    /// # Ok::<(), ankerdb::Error>(())
    /// ```
    pub fn query_arrow(&self, statement: impl AsStatement, parameters: impl Values) -> Result<ArrowBatches> {
        self.run(statement, &parameters)?.batches()
    }

    fn run(&self, statement: impl AsStatement, parameters: &impl Values) -> Result<Ran> {
        let mut lease = Lease::take(self.shared.clone());
        let Connection { sql: slot, alarm, .. } = &mut *lease;
        let session = self.shared.sql_session(slot, alarm)?;
        let Ready { prepared, columns } = statement.ready(session, In(&self.shared))?;
        check_place(&prepared)?;
        let outcome = session.execute(&prepared, &bind(&prepared, parameters)?)?;
        if prepared.writes().is_some_and(|command| command.starts_with("DROP")) {
            self.shared.forget_idle();
        }
        Ok(Ran { columns, outcome, lease: Some(lease) })
    }
}

/// 25001 for statements that would change the session, which the next caller gets.
fn check_place(prepared: &Prepared) -> Result<()> {
    if !prepared.is_about_session() {
        return Ok(());
    }
    let message = "transaction control and settings belong to a session, which a Database is not";
    let error = ankerdb_engine::Error::new(SqlState::ActiveSqlTransaction, message);
    Err(Error::from(
        error.with_hint("Use Database::transaction or Database::begin, and Options for limits of time."),
    ))
}
