//! A raw database under Smallbank: what the clients of a ledger could have without one. Each client has a connection, and sends
//! each transaction as one message, at the database's default isolation level.

use super::load::{Fired, FiringClient};
use crate::harness::Harness;
use crate::setup::members::ledger_error;
use ankerdb_engine::{Error, Result, SqlState};
use ankerdb_ledger::member::connection::{MariaDbConnection, PostgresConnection, SqlConnection};
use ankerdb_ledger::server::{PrivateServer, Product};
use ankerdb_ledger::smallbank::{DEFINITIONS, SmallbankPicks};
use ankerdb_ledger::value::LedgerValue;
use std::fmt::Write as _;

/// Rows of one statement of the load.
const ROWS_LOADED: u64 = 500;

/// A database with Smallbank's tables, without triggers and without a ledger.
pub struct RawDatabase {
    server: PrivateServer,
}

/// A connection of a client's own.
fn connect(server: &PrivateServer) -> Result<Box<dyn SqlConnection>> {
    Ok(match server.name() {
        "MariaDB" => Box::new(MariaDbConnection::open(&server.address).map_err(ledger_error)?),
        _ => Box::new(PostgresConnection::open(&server.address).map_err(ledger_error)?),
    })
}

impl RawDatabase {
    /// Starts a private server and loads the bank.
    ///
    /// # Errors
    /// 57014 if the user stops it; the database's.
    pub fn start(harness: &Harness<'_>, product: &Product) -> Result<RawDatabase> {
        let server = PrivateServer::start(product).map_err(ledger_error)?;
        let mut connection = connect(&server)?;
        let mut run = |sql: &str| {
            let done = connection.run(sql);
            done.map_err(|failure| Error::internal(format!("{}: {}", server.name(), failure.message)))
        };
        for definition in DEFINITIONS {
            run(&definition.replacen("SHARED ", "", 1))?;
        }
        let (users, progress) = (harness.setup.users, harness.loading());
        let mut picks = SmallbankPicks::new(users, 0.0, harness.setup.seed);
        for (at, table) in ["savings", "checking"].into_iter().enumerate() {
            for first in (0..users).step_by(ROWS_LOADED as usize) {
                if progress(at as u64 * users + first, 2 * users).is_break() {
                    return Err(Error::new(SqlState::QueryCanceled, "loading was stopped"));
                }
                let mut sql = format!("INSERT INTO {table} (customer, balance) VALUES ");
                for user in first..(first + ROWS_LOADED).min(users) {
                    let comma = if user == first { "" } else { ", " };
                    let _ = write!(sql, "{comma}({user}, {})", text(&picks.balance()));
                }
                run(&sql)?;
            }
        }
        let _ = progress(2 * users, 2 * users);
        Ok(RawDatabase { server })
    }

    /// Clients with connections of their own.
    ///
    /// # Errors
    /// The database's.
    pub fn clients(&self, count: usize, picks: &SmallbankPicks) -> Result<Vec<RawClient>> {
        let client = |number: usize| {
            Ok(RawClient { connection: connect(&self.server)?, picks: picks.with_seed(number as u64 + 1) })
        };
        (0..count).map(client).collect()
    }
}

/// A client of a raw database.
pub struct RawClient {
    connection: Box<dyn SqlConnection>,
    picks: SmallbankPicks,
}

/// A value as SQL.
fn text(value: &LedgerValue) -> String {
    match value {
        LedgerValue::Integer(number) => number.to_string(),
        other => unreachable!("Smallbank has whole numbers only, not {other:?}"),
    }
}

/// The statements of a transaction as one text. A single one needs no BEGIN and COMMIT.
fn transaction_text(statements: &[(&'static str, [LedgerValue; 2])]) -> String {
    let filled = statements
        .iter()
        .map(|(sql, [first, second])| sql.replacen("$1", &text(first), 1).replacen("$2", &text(second), 1));
    let filled: Vec<String> = filled.collect();
    if filled.len() == 1 { filled.concat() } else { format!("BEGIN; {}; COMMIT", filled.join("; ")) }
}

impl FiringClient for RawClient {
    fn fire(&mut self) -> Result<Fired> {
        let statements = self.picks.transaction();
        let sql = transaction_text(&statements);
        let mut repeated = 0;
        loop {
            let Err(failure) = self.connection.run(&sql) else {
                return Ok(Fired { succeeded: 1, failed: 0, repeated });
            };
            if failure.has_lost_connection() {
                return Err(Error::internal(format!("a connection is gone: {}", failure.message)));
            }
            if statements.len() > 1 {
                let ended = self.connection.run("ROLLBACK");
                ended.map_err(|failure| Error::internal(format!("no rollback: {}", failure.message)))?;
            }
            if !failure.is_transient {
                return Ok(Fired { succeeded: 0, failed: 1, repeated });
            }
            repeated += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_is_one_text_and_all_or_nothing() {
        let values = |amount, user| [LedgerValue::Integer(amount), LedgerValue::Integer(user)];
        let take = "UPDATE checking SET balance = balance - $1 WHERE customer = $2";
        let put = "UPDATE checking SET balance = balance + $1 WHERE customer = $2";
        assert_eq!(
            transaction_text(&[(put, values(7, 12))]),
            "UPDATE checking SET balance = balance + 7 WHERE customer = 12"
        );
        assert_eq!(
            transaction_text(&[(take, values(7, 1)), (put, values(7, 2))]),
            "BEGIN; UPDATE checking SET balance = balance - 7 WHERE customer = 1; \
             UPDATE checking SET balance = balance + 7 WHERE customer = 2; COMMIT"
        );
    }
}
