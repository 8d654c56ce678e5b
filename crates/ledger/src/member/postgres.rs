//! PostgreSQL 15: one trigger function for each shared table, which fires even in sessions that replicate
//! (`ENABLE ALWAYS`), and a trigger that refuses TRUNCATE, which has no rows.

use super::connection::{DatabaseAddress, PostgresConnection, SqlConnection as _};
use super::literal::{BytesLiteral, postgres_bytes};
use super::trigger::{PARTS_TABLE, TriggerDialect, TriggerMember};
use crate::access::LockReach;
use crate::definition::{SharedColumn, SharedTable};
use crate::error::LedgerResult;
use crate::value::LedgerType;

/// Connects a member.
///
/// # Errors
/// [`crate::error::LedgerError::Database`].
pub fn open(address: &DatabaseAddress) -> LedgerResult<TriggerMember> {
    let connection = PostgresConnection::open(address)?;
    TriggerMember::open(Box::new(connection), Box::new(PostgresDialect), "PostgreSQL")
}

/// Connects for parts of blocks, beside a member.
///
/// # Errors
/// [`crate::error::LedgerError::Database`].
pub fn open_part(address: &DatabaseAddress) -> LedgerResult<TriggerMember> {
    let connection = PostgresConnection::open(address)?;
    TriggerMember::open_part(Box::new(connection), Box::new(PostgresDialect), "PostgreSQL")
}

/// Connects to read what is committed; a statement takes so many milliseconds at most.
///
/// # Errors
/// [`crate::error::LedgerError::Database`].
pub fn open_reader(address: &DatabaseAddress, limit_ms: u64) -> LedgerResult<PostgresConnection> {
    let mut connection = PostgresConnection::open(address)?;
    let limits = format!("SET statement_timeout = {limit_ms}; SET default_transaction_read_only = on");
    for settings in [PostgresDialect.session(), &limits] {
        connection.run(settings).map_err(|failure| failure.of("PostgreSQL"))?;
    }
    Ok(connection)
}

pub(super) struct PostgresDialect;

/// The content of a value as bytes.
fn content(column: &SharedColumn, row: &str) -> String {
    let name = format!("{row}\"{}\"", column.name);
    let text = match column.kind {
        LedgerType::Bytea => return name,
        LedgerType::Boolean => format!("CASE WHEN {name} THEN '1' WHEN NOT {name} THEN '0' END"),
        LedgerType::Text | LedgerType::Varchar(_) => name,
        // `infinity` and years before the common era stay apart from all others.
        LedgerType::Date => format!(
            "CASE WHEN {name} BETWEEN DATE '0001-01-01' AND DATE '9999-12-31' THEN to_char({name}, 'YYYY-MM-DD') ELSE {name}::text END"
        ),
        LedgerType::Timestamp => format!(
            "CASE WHEN {name} BETWEEN TIMESTAMP '0001-01-01' AND TIMESTAMP '9999-12-31 23:59:59.999999' \
             THEN to_char({name}, 'YYYY-MM-DD HH24:MI:SS.US') ELSE {name}::text END"
        ),
        _ => format!("{name}::text"),
    };
    format!("convert_to({text}, 'UTF8')")
}

/// Canonical encodings of columns, one behind the other.
fn encoding<'a>(columns: impl Iterator<Item = &'a SharedColumn>, row: &str) -> String {
    columns.map(|column| format!("ledger_value({})", content(column, row))).collect::<Vec<_>>().join(" || ")
}

fn key(table: &SharedTable, row: &str) -> String {
    encoding(table.key.iter().map(|&at| &table.columns[at]), row)
}

fn row_hash(table: &SharedTable, row: &str) -> String {
    format!("sha256({})", encoding(table.columns.iter(), row))
}

fn column(column: &SharedColumn) -> String {
    let kind = column.kind;
    let null = if column.is_nullable { "" } else { " NOT NULL" };
    let collation =
        if matches!(kind, LedgerType::Text | LedgerType::Varchar(_)) { " COLLATE \"C\"" } else { "" };
    let check =
        column.at_least.map(|least| format!(" CHECK (\"{}\" >= {least})", column.name)).unwrap_or_default();
    format!("\"{}\" {kind}{collation}{null}{check}", column.name)
}

impl TriggerDialect for PostgresDialect {
    fn session(&self) -> &'static str {
        "SET client_encoding = 'UTF8'; SET standard_conforming_strings = on; SET bytea_output = 'hex'; SET datestyle = 'ISO'; \
         SET lock_timeout = '10s'; SET client_min_messages = 'warning'"
    }

    fn part_session(&self) -> &'static str {
        "SET lock_timeout = '1s'"
    }

    fn lock_reach(&self) -> LockReach {
        LockReach::Matching
    }

    fn session_number(&self) -> &'static str {
        "pg_backend_pid()"
    }

    fn delete_own_digests(&self) -> String {
        "DELETE FROM ledger_digest WHERE session = pg_backend_pid()".to_owned()
    }

    fn own_tables(&self) -> Vec<&'static str> {
        vec![
            "CREATE TABLE IF NOT EXISTS ledger_digest (serial bigint GENERATED ALWAYS AS IDENTITY, shared_table text NOT NULL, \
             row_key bytea NOT NULL, old_hash bytea NOT NULL, new_hash bytea NOT NULL)",
            // Which session has changed the row: each part of a block reads its own digests.
            "ALTER TABLE ledger_digest ADD COLUMN IF NOT EXISTS session integer NOT NULL DEFAULT pg_backend_pid()",
            PARTS_TABLE,
            "CREATE TABLE IF NOT EXISTS ledger_height (place integer PRIMARY KEY, height bigint NOT NULL)",
            "INSERT INTO ledger_height VALUES (1, 0) ON CONFLICT DO NOTHING",
            "CREATE OR REPLACE FUNCTION ledger_value(bytea) RETURNS bytea LANGUAGE sql IMMUTABLE AS \
             $$ SELECT CASE WHEN $1 IS NULL THEN '\\x00'::bytea ELSE '\\x01'::bytea || int4send(octet_length($1)) || $1 END $$",
            "CREATE OR REPLACE FUNCTION ledger_no_truncate() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN RAISE EXCEPTION 'shared table \"%\" is not truncated: delete its rows', TG_TABLE_NAME; END $$",
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
        let function = format!(
            "CREATE OR REPLACE FUNCTION \"ledger_track_{name}\"() RETURNS trigger LANGUAGE plpgsql SET datestyle = 'ISO' AS $ledger$ \
             DECLARE old_key bytea; new_key bytea; old_row bytea := ''; new_row bytea := ''; BEGIN \
             IF TG_OP <> 'INSERT' THEN old_key := {old_key}; old_row := {old}; END IF; \
             IF TG_OP <> 'DELETE' THEN new_key := {new_key}; new_row := {new}; END IF; \
             IF TG_OP <> 'UPDATE' OR old_key = new_key THEN {}; \
             ELSE {}; {}; END IF; RETURN NULL; END $ledger$",
            note("coalesce(new_key, old_key)", "old_row", "new_row"),
            note("old_key", "old_row", "''"),
            note("new_key", "''", "new_row"),
        );
        vec![
            format!("DROP TABLE IF EXISTS \"{name}\""),
            format!("CREATE TABLE \"{name}\" ({}, PRIMARY KEY ({}))", columns.join(", "), keys.join(", ")),
            function,
            format!(
                "CREATE TRIGGER ledger_track AFTER INSERT OR UPDATE OR DELETE ON \"{name}\" \
                 FOR EACH ROW EXECUTE FUNCTION \"ledger_track_{name}\"()"
            ),
            format!(
                "CREATE TRIGGER ledger_no_truncate BEFORE TRUNCATE ON \"{name}\" EXECUTE FUNCTION ledger_no_truncate()"
            ),
            format!("ALTER TABLE \"{name}\" ENABLE ALWAYS TRIGGER ledger_track"),
            format!("ALTER TABLE \"{name}\" ENABLE ALWAYS TRIGGER ledger_no_truncate"),
        ]
    }

    fn begin(&self) -> &'static str {
        "BEGIN ISOLATION LEVEL READ COMMITTED"
    }

    fn begin_snapshot(&self) -> &'static [&'static str] {
        &["BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"]
    }

    fn bytes_literal(&self) -> BytesLiteral {
        postgres_bytes
    }

    fn hex(&self, expression: &str) -> String {
        format!("encode({expression}, 'hex')")
    }

    fn content(&self, table: &SharedTable, at: usize) -> String {
        content(&table.columns[at], "")
    }

    fn key(&self, table: &SharedTable) -> String {
        key(table, "")
    }

    fn row_hash(&self, table: &SharedTable) -> String {
        row_hash(table, "")
    }
}
