//! Queries of a snapshot.

use super::arrow::ArrowBatches;
use super::rows::{Row, Rows};
use super::run::{Ran, expected};
use super::statement::AsStatement;
use crate::error::Result;
use crate::snapshot::Snapshot;
use crate::values::Values;

impl Snapshot {
    /// Runs a query over the snapshot and reads its rows one by one.
    ///
    /// # Errors
    /// The query's; `ReadOnlySqlTransaction` for what writes. An analytical query's errors may come with any row.
    ///
    /// ```
    /// # let db = ankerdb::Database::in_memory()?;
    /// # db.execute("CREATE TABLE t (i int)", ())?;
    /// let before = db.snapshot();
    /// db.execute("INSERT INTO t VALUES (1)", ())?;
    /// let count: i64 = before.query_one("SELECT count(*) FROM t", ())?.get(0)?;
    /// assert_eq!(count, 0);
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

    /// Runs a query over the snapshot and reads its result as Arrow batches.
    ///
    /// # Errors
    /// Those of [`query`](Self::query).
    pub fn query_arrow(&self, statement: impl AsStatement, parameters: impl Values) -> Result<ArrowBatches> {
        self.run(statement, &parameters)?.batches()
    }

    /// The statement's session stays with the result as long as that is read.
    fn run(&self, statement: impl AsStatement, parameters: &impl Values) -> Result<Ran> {
        let reader = self.reader()?;
        let mut ran = reader.run(statement, parameters)?;
        ran.lease = reader.into_lease().map(|lease| lease.shared_by(self.shared().clone()));
        Ok(ran)
    }
}
