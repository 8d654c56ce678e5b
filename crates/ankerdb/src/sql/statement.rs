//! Statements that are planned once.

use crate::column::ColumnInfo;
use crate::connection::{Connection, ConnectionPool, Lease};
use crate::database::Database;
use crate::error::{Error, Result};
use ankerdb_engine::SqlState;
use ankerdb_sql::{Prepared, SqlSession};
use std::fmt;
use std::sync::Arc;

/// A prepared statement: parsed and planned once, run any number of times, by any number of threads, in transactions and
/// outside of them. Of [`Database::prepare`]. Cheap to clone.
///
/// It is planned again automatically when tables or indexes are created or dropped.
///
/// ```
/// # let db = ankerdb::Database::in_memory()?;
/// db.execute("CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL)", ())?;
/// let insert = db.prepare("INSERT INTO account VALUES ($1, $2)")?;
/// for id in 0..10 {
///     db.execute(&insert, (id, 100))?;
/// }
/// let by_balance = db.prepare("SELECT id FROM account WHERE balance > $low")?;
/// assert_eq!(by_balance.parameters()[0].name, "low");
/// assert_eq!(by_balance.columns()[0].data_type, ankerdb::DataType::Integer);
/// assert_eq!(db.query(&by_balance, ankerdb::named! { low: 50 })?.count(), 10);
/// # Ok::<(), ankerdb::Error>(())
/// ```
#[derive(Clone)]
pub struct Statement {
    prepared: Arc<Prepared>,
    shared: Arc<ConnectionPool>,
    parameters: Arc<[ColumnInfo]>,
    columns: Arc<[ColumnInfo]>,
}

impl fmt::Debug for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Statement").field(&self.sql()).finish()
    }
}

impl Statement {
    /// The statement's text.
    pub fn sql(&self) -> &str {
        self.prepared.sql()
    }

    /// Its parameters, `$1` first: their types, and their names if they have any (else `$1`, `$2`, ...).
    pub fn parameters(&self) -> &[ColumnInfo] {
        &self.parameters
    }

    /// The columns of its result; none for a statement without one.
    pub fn columns(&self) -> &[ColumnInfo] {
        &self.columns
    }
}

impl Database {
    /// Parses and plans one statement, to be run often. Parameters are written `$1`, `$2`, ... or `$name`.
    ///
    /// # Errors
    /// `SyntaxError`, also for none or several statements; `UndefinedTable`, `UndefinedColumn` and others for what there
    /// is not; `IndeterminateDatatype` for a parameter whose type cannot be told.
    pub fn prepare(&self, sql: &str) -> Result<Statement> {
        let mut lease = Lease::take(&*self.shared);
        let prepared = prepare(&self.shared, &mut lease, sql)?;
        let (parameters, columns) = (parameters_of(&prepared), columns_of(&prepared));
        Ok(Statement { prepared, shared: self.shared.clone(), parameters, columns })
    }
}

fn prepare(shared: &ConnectionPool, connection: &mut Connection, sql: &str) -> Result<Arc<Prepared>> {
    let Connection { sql: slot, alarm, .. } = connection;
    prepare_in(shared.sql_session(slot, alarm)?, sql)
}

/// One statement, planned by a session.
pub(super) fn prepare_in(session: &mut SqlSession, sql: &str) -> Result<Arc<Prepared>> {
    let mut statements = session.parse_named(sql)?;
    let statement = match (statements.pop(), statements.len()) {
        (Some(statement), 0) => statement,
        (None, _) => return Err(Error::new(SqlState::SyntaxError, "there is no statement in the text")),
        (_, more) => {
            let message = format!("one statement is run at a time, but the text has {}", more + 1);
            let error = ankerdb_engine::Error::new(SqlState::SyntaxError, message);
            return Err(error.with_hint("Use execute_batch for several.").into());
        }
    };
    Ok(session.prepare(statement, &[])?)
}

/// The columns of a statement's result.
pub(super) fn columns_of(prepared: &Prepared) -> Arc<[ColumnInfo]> {
    let info = |column: &ankerdb_sql::OutputColumn| ColumnInfo {
        name: column.name.clone(),
        data_type: column.data_type,
    };
    prepared.output().unwrap_or_default().iter().map(info).collect()
}

fn parameters_of(prepared: &Prepared) -> Arc<[ColumnInfo]> {
    let names = prepared.parameter_names();
    let types = prepared.parameters().iter().enumerate();
    let info = |(position, &data_type): (usize, &ankerdb_engine::DataType)| {
        let name = names.get(position).cloned().unwrap_or_else(|| format!("${}", position + 1));
        ColumnInfo { name, data_type }
    };
    types.map(info).collect()
}

/// A statement to run: a text, which is parsed and planned each time, or a [`Statement`].
pub trait AsStatement: sealed::Sealed {}

impl AsStatement for &str {}
impl AsStatement for &String {}
impl AsStatement for &Statement {}

/// A statement that is ready to run.
pub struct Ready {
    pub(super) prepared: Arc<Prepared>,
    pub(super) columns: Arc<[ColumnInfo]>,
}

pub(super) mod sealed {
    use super::{
        ConnectionPool, Error, Ready, Result, SqlSession, SqlState, Statement, columns_of, prepare_in,
    };
    use std::sync::Arc;

    pub trait Sealed {
        #[doc(hidden)]
        fn ready(self, session: &mut SqlSession, database: Database<'_>) -> Result<Ready>;
    }

    /// The database that a statement is run in.
    #[derive(Clone, Copy)]
    pub struct Database<'d>(pub(in crate::sql) &'d ConnectionPool);

    impl Sealed for &str {
        fn ready(self, session: &mut SqlSession, _: Database<'_>) -> Result<Ready> {
            let prepared = prepare_in(session, self)?;
            Ok(Ready { columns: columns_of(&prepared), prepared })
        }
    }

    impl Sealed for &String {
        fn ready(self, session: &mut SqlSession, database: Database<'_>) -> Result<Ready> {
            self.as_str().ready(session, database)
        }
    }

    impl Sealed for &Statement {
        #[inline]
        fn ready(self, _: &mut SqlSession, database: Database<'_>) -> Result<Ready> {
            if !std::ptr::eq(&*self.shared, database.0) {
                let message = "the statement was prepared in another database";
                return Err(Error::new(SqlState::InvalidSqlStatementName, message));
            }
            Ok(Ready { prepared: Arc::clone(&self.prepared), columns: Arc::clone(&self.columns) })
        }
    }
}
