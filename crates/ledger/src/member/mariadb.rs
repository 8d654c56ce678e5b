//! MariaDB 10.11: three triggers for each shared table. A session's modes are those of the SQL standard, so that texts, names,
//! assignments and errors are what they are elsewhere; texts are compared by their bytes, trailing spaces included.

use super::connection::{DatabaseAddress, MariaDbConnection, SqlConnection as _};
use super::literal::{BytesLiteral, mariadb_bytes};
use super::trigger::{TriggerDialect, TriggerMember};
use crate::access::LockReach;
use crate::definition::{SharedColumn, SharedTable};
use crate::error::LedgerResult;
use crate::value::LedgerType;

/// Connects a member.
///
/// # Errors
/// [`crate::error::LedgerError::Database`].
pub fn open(address: &DatabaseAddress) -> LedgerResult<TriggerMember> {
    let connection = MariaDbConnection::open(address)?;
    TriggerMember::open(Box::new(connection), Box::new(MariaDbDialect), "MariaDB")
}

/// Connects for parts of blocks, beside a member.
///
/// # Errors
/// [`crate::error::LedgerError::Database`].
pub fn open_part(address: &DatabaseAddress) -> LedgerResult<TriggerMember> {
    let connection = MariaDbConnection::open(address)?;
    TriggerMember::open_part(Box::new(connection), Box::new(MariaDbDialect), "MariaDB")
}

/// Connects to read what is committed; a statement takes so many milliseconds at most.
///
/// # Errors
/// [`crate::error::LedgerError::Database`].
pub fn open_reader(address: &DatabaseAddress, limit_ms: u64) -> LedgerResult<MariaDbConnection> {
    let mut connection = MariaDbConnection::open(address)?;
    let limits = format!(
        "SET SESSION max_statement_time = {}.{:03}; SET SESSION TRANSACTION READ ONLY",
        limit_ms / 1000,
        limit_ms % 1000
    );
    for settings in [MariaDbDialect.session(), &limits] {
        connection.run(settings).map_err(|failure| failure.of("MariaDB"))?;
    }
    Ok(connection)
}

pub(super) struct MariaDbDialect;

/// The collation that compares bytes and does not pad.
const BY_BYTES: &str = "CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin";

/// The canonical encoding of a value. Every type has its content as its binary form: digits, dates with six digits, bytes.
fn value(column: &SharedColumn, row: &str) -> String {
    let name = format!("{row}\"{}\"", column.name);
    let bytes = format!("CAST({name} AS BINARY)");
    let length = format!("UNHEX(LPAD(HEX(LENGTH({bytes})), 8, '0'))");
    format!("IF({name} IS NULL, X'00', CONCAT(X'01', {length}, {bytes}))")
}

fn encoding<'a>(columns: impl Iterator<Item = &'a SharedColumn>, row: &str) -> String {
    format!("CONCAT({})", columns.map(|column| value(column, row)).collect::<Vec<_>>().join(", "))
}

fn key(table: &SharedTable, row: &str) -> String {
    encoding(table.key.iter().map(|&at| &table.columns[at]), row)
}

fn row_hash(table: &SharedTable, row: &str) -> String {
    format!("UNHEX(SHA2({}, 256))", encoding(table.columns.iter(), row))
}

/// An expression as a value of a column's type.
pub(super) fn typed(expression: &str, kind: LedgerType) -> String {
    match kind {
        LedgerType::Boolean => format!("({expression})"),
        LedgerType::SmallInt | LedgerType::Integer | LedgerType::BigInt => {
            format!("CAST({expression} AS SIGNED)")
        }
        LedgerType::Numeric { precision, scale } => {
            format!("CAST({expression} AS DECIMAL({precision}, {scale}))")
        }
        LedgerType::Text | LedgerType::Varchar(_) => {
            format!("CAST({expression} AS CHAR CHARACTER SET utf8mb4) COLLATE utf8mb4_nopad_bin")
        }
        LedgerType::Bytea => format!("CAST({expression} AS BINARY)"),
        LedgerType::Date => format!("CAST({expression} AS DATE)"),
        LedgerType::Timestamp => format!("CAST({expression} AS DATETIME(6))"),
    }
}

fn column(column: &SharedColumn) -> String {
    let kind = match column.kind {
        LedgerType::Text => format!("LONGTEXT {BY_BYTES}"),
        LedgerType::Varchar(length) => format!("VARCHAR({length}) {BY_BYTES}"),
        LedgerType::Bytea => "LONGBLOB".to_owned(),
        LedgerType::Timestamp => "DATETIME(6)".to_owned(),
        LedgerType::Numeric { precision, scale } => format!("DECIMAL({precision}, {scale})"),
        kind => kind.to_string(),
    };
    let name = &column.name;
    let null = if column.is_nullable { " NULL" } else { " NOT NULL" };
    let mut checks: Vec<String> =
        column.at_least.iter().map(|least| format!("\"{name}\" >= {least}")).collect();
    if column.kind == LedgerType::Boolean {
        checks.push(format!("\"{name}\" IN (0, 1)"));
    }
    let check = if checks.is_empty() { String::new() } else { format!(" CHECK ({})", checks.join(" AND ")) };
    format!("\"{name}\" {kind}{null}{check}")
}

impl TriggerDialect for MariaDbDialect {
    fn session(&self) -> &'static str {
        "SET NAMES utf8mb4 COLLATE utf8mb4_nopad_bin; \
         SET SESSION sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES,STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,\
         ERROR_FOR_DIVISION_BY_ZERO,SIMULTANEOUS_ASSIGNMENT,NO_ENGINE_SUBSTITUTION'; \
         SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; SET SESSION innodb_lock_wait_timeout = 10; \
         SET SESSION lock_wait_timeout = 10; SET autocommit = 1"
    }

    fn part_session(&self) -> &'static str {
        "SET SESSION innodb_lock_wait_timeout = 1"
    }

    fn lock_reach(&self) -> LockReach {
        LockReach::Scanned
    }

    fn session_number(&self) -> &'static str {
        "CONNECTION_ID()"
    }

    /// By the index, whatever the optimizer thinks: a scan would wait for the rows of other parts.
    fn delete_own_digests(&self) -> String {
        "DELETE own FROM ledger_digest AS own FORCE INDEX (ledger_session) WHERE own.session = CONNECTION_ID()"
            .to_owned()
    }

    fn own_tables(&self) -> Vec<&'static str> {
        vec![
            "CREATE TABLE IF NOT EXISTS ledger_digest (serial BIGINT AUTO_INCREMENT PRIMARY KEY, \
             shared_table VARCHAR(64) CHARACTER SET ascii NOT NULL, row_key BLOB NOT NULL, old_hash VARBINARY(32) NOT NULL, \
             new_hash VARBINARY(32) NOT NULL) ENGINE = InnoDB",
            // Which session has changed the row: each part of a block reads its own digests.
            "ALTER TABLE ledger_digest ADD COLUMN IF NOT EXISTS session BIGINT NOT NULL DEFAULT (CONNECTION_ID()), \
             ADD INDEX IF NOT EXISTS ledger_session (session)",
            "CREATE TABLE IF NOT EXISTS ledger_part (part INTEGER PRIMARY KEY, height BIGINT NOT NULL, \
             transactions LONGTEXT CHARACTER SET ascii NOT NULL) ENGINE = InnoDB",
            "CREATE TABLE IF NOT EXISTS ledger_height (place INTEGER PRIMARY KEY, height BIGINT NOT NULL) ENGINE = InnoDB",
            "INSERT IGNORE INTO ledger_height VALUES (1, 0)",
        ]
    }

    fn shared_table(&self, table: &SharedTable) -> Vec<String> {
        let name = &table.name;
        let columns: Vec<String> = table.columns.iter().map(column).collect();
        let keys: Vec<String> =
            table.key.iter().map(|&at| format!("\"{}\"", table.columns[at].name)).collect();
        let (old_key, new_key) = (key(table, "OLD."), key(table, "NEW."));
        let (old, new) = (row_hash(table, "OLD."), row_hash(table, "NEW."));
        let note = |key: &str, old: &str, new: &str| {
            let columns = "shared_table, row_key, old_hash, new_hash";
            format!("INSERT INTO ledger_digest ({columns}) VALUES ('{name}', {key}, {old}, {new})")
        };
        let trigger = |event: &str, body: &str| {
            format!(
                "CREATE TRIGGER \"ledger_{event}_{name}\" AFTER {event} ON \"{name}\" FOR EACH ROW {body}"
            )
        };
        let update = format!(
            "IF {old_key} = {new_key} THEN {}; ELSE {}; {}; END IF",
            note(&new_key, &old, &new),
            note(&old_key, &old, "''"),
            note(&new_key, "''", &new)
        );
        vec![
            format!("DROP TABLE IF EXISTS \"{name}\""),
            format!(
                "CREATE TABLE \"{name}\" ({}, PRIMARY KEY ({})) ENGINE = InnoDB {BY_BYTES}",
                columns.join(", "),
                keys.join(", ")
            ),
            trigger("INSERT", &note(&new_key, "''", &new)),
            trigger("UPDATE", &update),
            trigger("DELETE", &note(&old_key, &old, "''")),
        ]
    }

    fn begin(&self) -> &'static str {
        "START TRANSACTION"
    }

    fn begin_snapshot(&self) -> &'static [&'static str] {
        &[
            "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
            "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
        ]
    }

    fn bytes_literal(&self) -> BytesLiteral {
        mariadb_bytes
    }

    fn hex(&self, expression: &str) -> String {
        format!("HEX({expression})")
    }

    fn content(&self, table: &SharedTable, at: usize) -> String {
        format!("CAST(\"{}\" AS BINARY)", table.columns[at].name)
    }

    fn key(&self, table: &SharedTable) -> String {
        key(table, "")
    }

    fn row_hash(&self, table: &SharedTable) -> String {
        row_hash(table, "")
    }
}
