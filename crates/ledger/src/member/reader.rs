//! A session that only reads what is committed, beside the one that executes blocks: for the constraints of an organization. The
//! database itself refuses to write in it, and ends a statement that takes too long.

use super::address::parse;
use super::connection::{SqlConnection, SqlFailure, StatementRows};
use super::literal::{mariadb_bytes, postgres_bytes, value_literal};
use super::{ankerdb, mariadb, postgres};
use crate::error::LedgerResult;
use crate::value::{LedgerType, LedgerValue};

/// A session that reads.
pub struct ReadingSession {
    connection: Box<dyn SqlConnection>,
    is_mariadb: bool,
}

impl ReadingSession {
    /// Connects to the database that a text names; a statement takes so many milliseconds at most.
    ///
    /// # Errors
    /// [`crate::error::LedgerError::Refused`] if it names none, [`crate::error::LedgerError::Database`] if that cannot be
    /// reached.
    pub fn open(text: &str, limit_ms: u64) -> LedgerResult<ReadingSession> {
        let (product, address) = parse(text)?;
        let connection: Box<dyn SqlConnection> = match product.as_str() {
            "mariadb" => Box::new(mariadb::open_reader(&address, limit_ms)?),
            "ankerdb" => Box::new(ankerdb::open_reader(&address, limit_ms)?),
            _ => Box::new(postgres::open_reader(&address, limit_ms)?),
        };
        Ok(ReadingSession { connection, is_mariadb: product == "mariadb" })
    }

    /// The rows of a query.
    ///
    /// # Errors
    /// What the database says.
    pub fn read(&mut self, sql: &str) -> Result<StatementRows, SqlFailure> {
        Ok(self.connection.run(sql)?.into_iter().next().unwrap_or_default())
    }

    /// A value as a literal.
    pub fn literal(&self, value: &LedgerValue) -> String {
        value_literal(value, if self.is_mariadb { mariadb_bytes } else { postgres_bytes })
    }

    /// An expression as a value of a type.
    pub fn typed(&self, expression: &str, kind: LedgerType) -> String {
        if self.is_mariadb {
            mariadb::typed(expression, kind)
        } else {
            format!("CAST({expression} AS {kind})")
        }
    }
}
