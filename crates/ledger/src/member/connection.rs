//! Connections to databases that take a text of several statements and give rows as texts.

use crate::error::{LedgerError, LedgerResult};
use crate::value::Content;
use mysql::prelude::Queryable as _;
use std::ops::ControlFlow;
use std::time::Duration;

/// How long a database may take to accept a connection.
const CONNECT_SECONDS_MAX: u64 = 10;

/// The rows of one statement.
pub type StatementRows = Vec<Vec<Content>>;

/// Why a statement was not executed.
#[derive(Debug, Clone)]
pub struct SqlFailure {
    /// What the database said.
    pub message: String,
    /// Whether the statement would have succeeded at another time, or the connection is gone: not the transaction's fault.
    pub is_transient: bool,
    pub(crate) is_lost: bool,
}

impl SqlFailure {
    /// Whether the connection is gone, so that nothing was said about the statement.
    pub fn has_lost_connection(&self) -> bool {
        self.is_lost
    }

    pub(crate) fn of(self, member: &str) -> LedgerError {
        LedgerError::database(member, self.message)
    }
}

/// Where a database is.
#[derive(Debug, Clone)]
pub struct DatabaseAddress {
    /// Name or number of the machine.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// User of the database.
    pub user: String,
    /// Password of the user, if it needs one.
    pub password: Option<String>,
    /// Name of the database.
    pub database: String,
}

/// A connection.
pub trait SqlConnection: Send {
    /// Executes a text of one or more statements, and gives the rows of each.
    ///
    /// # Errors
    /// What the database says about the first statement that fails; those behind it are not executed.
    fn run(&mut self, sql: &str) -> Result<Vec<StatementRows>, SqlFailure>;

    /// Executes one query, and shows its rows one after the other until `show` says no: those of a large table are never in
    /// memory at once. Inside of a transaction, since PostgreSQL and AnKerDB do it by a cursor.
    ///
    /// # Errors
    /// What the database says.
    fn stream(
        &mut self,
        sql: &str,
        show: &mut dyn FnMut(Vec<Content>) -> ControlFlow<()>,
    ) -> Result<(), SqlFailure>;
}

/// How many rows a cursor gives at a time.
const CURSOR_ROWS: usize = 1000;

/// A connection by PostgreSQL's protocol.
pub struct PostgresConnection(postgres::Client);

impl PostgresConnection {
    /// Connects.
    ///
    /// # Errors
    /// [`LedgerError::Database`] with what the system or the database says.
    pub fn open(address: &DatabaseAddress) -> LedgerResult<PostgresConnection> {
        let mut config = postgres::Config::new();
        config.host(&address.host).port(address.port).user(&address.user).dbname(&address.database);
        config.connect_timeout(Duration::from_secs(CONNECT_SECONDS_MAX));
        if let Some(password) = &address.password {
            config.password(password);
        }
        let client = config.connect(postgres::NoTls);
        let named = format!("{}:{}", address.host, address.port);
        client
            .map(PostgresConnection)
            .map_err(|error| LedgerError::database(&named, postgres_failure(&error).message))
    }
}

fn postgres_failure(error: &postgres::Error) -> SqlFailure {
    let Some(said) = error.as_db_error() else {
        return SqlFailure { message: error.to_string(), is_transient: true, is_lost: true };
    };
    let code = said.code().code();
    // Connections, conflicts, resources, locks, the operator, the system, and PostgreSQL's own faults.
    let is_transient = ["08", "40", "53", "55", "57", "58", "XX"].iter().any(|class| code.starts_with(class));
    // The operator has ended the session, or the server goes down or comes up.
    let is_lost = ["57P01", "57P02", "57P03", "57P05"].contains(&code) || code.starts_with("08");
    SqlFailure { message: format!("{} ({code})", said.message()), is_transient, is_lost }
}

impl SqlConnection for PostgresConnection {
    fn run(&mut self, sql: &str) -> Result<Vec<StatementRows>, SqlFailure> {
        let messages = self.0.simple_query(sql).map_err(|error| postgres_failure(&error))?;
        let (mut sets, mut rows) = (Vec::new(), Vec::new());
        for message in messages {
            match message {
                postgres::SimpleQueryMessage::Row(row) => {
                    let value = |at| row.get(at).map(|text: &str| text.as_bytes().to_vec());
                    rows.push((0..row.len()).map(value).collect());
                }
                postgres::SimpleQueryMessage::CommandComplete(_) => sets.push(std::mem::take(&mut rows)),
                _ => {}
            }
        }
        Ok(sets)
    }

    fn stream(
        &mut self,
        sql: &str,
        show: &mut dyn FnMut(Vec<Content>) -> ControlFlow<()>,
    ) -> Result<(), SqlFailure> {
        self.run(&format!("DECLARE ledger_rows NO SCROLL CURSOR FOR {sql}"))?;
        let fetch = format!("FETCH {CURSOR_ROWS} FROM ledger_rows");
        loop {
            let rows = self.run(&fetch)?.into_iter().next().unwrap_or_default();
            let is_last = rows.len() < CURSOR_ROWS;
            let is_ended = rows.into_iter().try_for_each(&mut *show).is_break();
            if is_last || is_ended {
                return self.run("CLOSE ledger_rows").map(drop);
            }
        }
    }
}

/// A connection by MariaDB's protocol.
pub struct MariaDbConnection(mysql::Conn);

impl MariaDbConnection {
    /// Connects.
    ///
    /// # Errors
    /// [`LedgerError::Database`] with what the system or the database says.
    pub fn open(address: &DatabaseAddress) -> LedgerResult<MariaDbConnection> {
        let options = mysql::OptsBuilder::new()
            .ip_or_hostname(Some(&address.host))
            .tcp_port(address.port)
            .prefer_socket(false)
            .tcp_connect_timeout(Some(Duration::from_secs(CONNECT_SECONDS_MAX)))
            .user(Some(&address.user))
            .pass(address.password.as_ref())
            .db_name(Some(&address.database));
        let named = format!("{}:{}", address.host, address.port);
        let opened = mysql::Conn::new(options);
        opened.map(MariaDbConnection).map_err(|error| LedgerError::database(&named, error))
    }
}

/// Errors that say nothing about the transaction: too many connections, a full disk, a lock not given, a deadlock, an
/// interruption, a full table.
const TRANSIENT_OF_MARIADB: [u16; 8] = [1021, 1040, 1041, 1114, 1205, 1213, 1317, 1969];

/// The server goes down, or has ended the session.
const LOST_OF_MARIADB: [u16; 3] = [1053, 1927, 4031];

fn mariadb_failure(error: &mysql::Error) -> SqlFailure {
    match error {
        mysql::Error::MySqlError(said) => SqlFailure {
            message: format!("{} ({})", said.message, said.code),
            is_transient: TRANSIENT_OF_MARIADB.contains(&said.code),
            is_lost: LOST_OF_MARIADB.contains(&said.code),
        },
        other => SqlFailure { message: other.to_string(), is_transient: true, is_lost: true },
    }
}

impl SqlConnection for MariaDbConnection {
    fn run(&mut self, sql: &str) -> Result<Vec<StatementRows>, SqlFailure> {
        let mut result = self.0.query_iter(sql).map_err(|error| mariadb_failure(&error))?;
        let mut sets = Vec::new();
        while let Some(set) = result.iter() {
            let mut rows = Vec::new();
            for row in set {
                let row = row.map_err(|error| mariadb_failure(&error))?;
                rows.push(row.unwrap().into_iter().map(content).collect());
            }
            sets.push(rows);
        }
        Ok(sets)
    }

    /// MariaDB sends rows as they are read; those behind the last one that is shown are read and forgotten.
    fn stream(
        &mut self,
        sql: &str,
        show: &mut dyn FnMut(Vec<Content>) -> ControlFlow<()>,
    ) -> Result<(), SqlFailure> {
        let result = self.0.query_iter(sql).map_err(|error| mariadb_failure(&error))?;
        for row in result {
            let row = row.map_err(|error| mariadb_failure(&error))?;
            if show(row.unwrap().into_iter().map(content).collect()).is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// The text protocol has texts and NULL only.
fn content(value: mysql::Value) -> Content {
    match value {
        mysql::Value::NULL => None,
        mysql::Value::Bytes(bytes) => Some(bytes),
        other => Some(other.as_sql(true).into_bytes()),
    }
}
