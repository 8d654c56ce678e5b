//! A member's tables as they were between two blocks, read over a connection of its own while later blocks go on. A
//! checkpoint is made of it (section 4.5.5).
//!
//! ```text
//! main connection  ... COMMIT (height 8) │ BEGIN ─ block 9 ─ COMMIT │ BEGIN ─ block 10 ─ COMMIT
//! snapshot                               └ BEGIN ─ height: 8 ─ rows ─ rows ─ rows ─ ROLLBACK
//! ```
//! It is a transaction that writes nothing, at a level at which all of its reads see what was committed when it began:
//! REPEATABLE READ in PostgreSQL and AnKerDB, WITH CONSISTENT SNAPSHOT in MariaDB. It takes no locks on rows; tables cannot be
//! dropped until it ends.

use super::ankerdb;
use super::connection::{DatabaseAddress, MariaDbConnection, PostgresConnection, SqlConnection};
use super::mariadb::MariaDbDialect;
use super::postgres::PostgresDialect;
use super::trigger::{self, TriggerDialect, read_height};
use super::{RowSource, RowVisitor};
use crate::definition::SharedTable;
use crate::error::LedgerResult;
use crate::value::Content;

/// Opens a snapshot of what is committed now.
pub type OpenSnapshot = Box<dyn Fn() -> LedgerResult<MemberSnapshot> + Send>;

/// A snapshot of a member's database.
pub struct MemberSnapshot {
    connection: Box<dyn SqlConnection>,
    /// How the product shows contents; AnKerDB shows values.
    dialect: Option<Box<dyn TriggerDialect>>,
    system: &'static str,
    height: u64,
}

impl MemberSnapshot {
    /// Connects to a product, which is named in small letters, and begins. Costs a connection and a few messages; the caller
    /// begins no block meanwhile, and no other one is between its commits.
    ///
    /// # Errors
    /// [`crate::error::LedgerError::Database`].
    pub fn open(product: &str, address: &DatabaseAddress) -> LedgerResult<MemberSnapshot> {
        let (connection, dialect, system): (Box<dyn SqlConnection>, Option<Box<dyn TriggerDialect>>, _) =
            match product {
                "mariadb" => {
                    let connection = MariaDbConnection::open(address)?;
                    (Box::new(connection), Some(Box::new(MariaDbDialect)), "MariaDB")
                }
                "ankerdb" => (Box::new(PostgresConnection::open(address)?), None, "AnKerDB"),
                _ => {
                    let connection = PostgresConnection::open(address)?;
                    (Box::new(connection), Some(Box::new(PostgresDialect)), "PostgreSQL")
                }
            };
        let mut snapshot = MemberSnapshot { connection, dialect, system, height: 0 };
        snapshot.begin()?;
        Ok(snapshot)
    }

    fn begin(&mut self) -> LedgerResult<()> {
        let mut statements = vec!["BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"];
        if let Some(dialect) = &self.dialect {
            statements = vec![dialect.session()];
            statements.extend(dialect.begin_snapshot());
        }
        for statement in statements {
            self.connection.run(statement).map_err(|failure| failure.of(self.system))?;
        }
        let rows = self.connection.run("SELECT height FROM ledger_height");
        self.height = read_height(&rows.map_err(|failure| failure.of(self.system))?, self.system)?;
        Ok(())
    }

    /// Up to which block it has them.
    pub fn height(&self) -> u64 {
        self.height
    }
}

impl RowSource for MemberSnapshot {
    fn read(&mut self, table: &SharedTable, keys: &[Vec<u8>]) -> LedgerResult<Vec<Vec<Content>>> {
        let MemberSnapshot { connection, dialect, system, .. } = self;
        match dialect {
            Some(dialect) => trigger::read_rows(connection.as_mut(), dialect.as_ref(), system, table, keys),
            None => ankerdb::read_rows(connection.as_mut(), system, table, keys),
        }
    }

    fn visit_rows(&mut self, table: &SharedTable, show: &mut RowVisitor<'_>) -> LedgerResult<()> {
        let MemberSnapshot { connection, dialect, system, .. } = self;
        match dialect {
            Some(dialect) => trigger::visit_rows(connection.as_mut(), dialect.as_ref(), system, table, show),
            None => ankerdb::visit_rows(connection.as_mut(), system, table, show),
        }
    }
}
