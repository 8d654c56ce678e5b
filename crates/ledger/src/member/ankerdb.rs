//! AnKerDB over its own server. It has no triggers yet, so the member reads the rows that a statement touches, in the same
//! message and transaction: those of an INSERT or DELETE by RETURNING, those of an UPDATE before it by its own condition,
//! locked, and after it by RETURNING. It computes the digests from them, byte for byte what triggers of other members write.
//!
//! What others than the ledger change leaves no digest here; the fingerprint of the table finds it when it is touched or
//! audited.

use super::connection::{DatabaseAddress, PostgresConnection, SqlConnection, StatementRows};
use super::literal::{column_list, has_key, postgres_bytes, value_literal};
use super::trigger::{
    PARTS_TABLE, commit_block, commit_part, read_finished, read_height, repair_rows, select_finished,
    stream_rows, undo,
};
use super::{Member, PartConnection, RowSource, RowVisitor};
use crate::access::LockReach;
use crate::change::RowChange;
use crate::definition::{SharedColumn, SharedTable};
use crate::error::{LedgerError, LedgerResult};
use crate::hash::LedgerHash;
use crate::statement::{PortableStatement, StatementVerb};
use crate::value::{Content, row_hash};
use std::collections::{BTreeMap, BTreeSet};

/// How many rows one statement names.
const ROWS_MAX: usize = 500;

/// A member without triggers.
pub struct AnkerDbMember {
    system: String,
    connection: PostgresConnection,
    /// Those of the block, in order.
    changes: Vec<RowChange>,
}

impl AnkerDbMember {
    /// Connects a member.
    ///
    /// # Errors
    /// [`LedgerError::Database`].
    pub fn open(address: &DatabaseAddress) -> LedgerResult<AnkerDbMember> {
        let connection = PostgresConnection::open(address)?;
        let mut member = AnkerDbMember { system: "AnKerDB".to_owned(), connection, changes: Vec::new() };
        member.run(
            "CREATE TABLE IF NOT EXISTS ledger_height (place integer PRIMARY KEY, height bigint NOT NULL)",
        )?;
        member.run("INSERT INTO ledger_height VALUES (1, 0) ON CONFLICT DO NOTHING")?;
        member.run(PARTS_TABLE)?;
        let rows = member.run("SHOW server_version")?;
        let version = rows.first().and_then(|rows| rows.first()?.first()?.clone()).unwrap_or_default();
        let version = String::from_utf8_lossy(&version).into_owned();
        let own = version.split_once("AnKerDB ").map(|(_, own)| own.trim_end_matches(')'));
        match own {
            Some(number) => member.system = format!("AnKerDB {number}"),
            None => {
                let reason = format!(
                    "the server is no AnKerDB but {version}; a member without triggers would miss changes"
                );
                return Err(LedgerError::database("AnKerDB", reason));
            }
        }
        Ok(member)
    }

    /// Connects for parts of blocks, beside a member.
    ///
    /// # Errors
    /// [`LedgerError::Database`].
    pub fn open_part(address: &DatabaseAddress) -> LedgerResult<AnkerDbMember> {
        let connection = PostgresConnection::open(address)?;
        let mut part = AnkerDbMember { system: "AnKerDB".to_owned(), connection, changes: Vec::new() };
        part.run("SET lock_timeout = '1s'")?;
        Ok(part)
    }

    fn run(&mut self, sql: &str) -> LedgerResult<Vec<StatementRows>> {
        self.connection.run(sql).map_err(|failure| failure.of(&self.system))
    }
}

/// Connects to read what is committed; a statement takes so many milliseconds at most.
///
/// # Errors
/// [`LedgerError::Database`].
pub fn open_reader(address: &DatabaseAddress, limit_ms: u64) -> LedgerResult<PostgresConnection> {
    let mut connection = PostgresConnection::open(address)?;
    let limits = format!("SET statement_timeout = {limit_ms}; SET default_transaction_read_only = on");
    connection.run(&limits).map_err(|failure| failure.of("AnKerDB"))?;
    Ok(connection)
}

/// The statements by which one statement is executed and its rows are read, and how many of them there are.
fn reading(statement: &PortableStatement, table: &SharedTable) -> (String, usize) {
    let literal = |value: &_| value_literal(value, postgres_bytes);
    let columns = column_list(table);
    let changing = format!("{} RETURNING {columns}", statement.text(&literal));
    if statement.verb != StatementVerb::Update {
        return (changing, 1);
    }
    let condition = statement.condition_text(&literal);
    (format!("SELECT {columns} FROM \"{}\"{condition} FOR UPDATE; {changing}", table.name), 2)
}

/// A row of the wire as contents.
fn contents_of(row: &[Content], table: &SharedTable) -> LedgerResult<Vec<Content>> {
    let content = |(column, value): (&SharedColumn, &Content)| match value {
        None => Ok(None),
        Some(text) => column.kind.content_of_text(text).map(Some),
    };
    table.columns.iter().zip(row).map(content).collect()
}

/// Rows of the wire as contents.
fn contents(rows: &StatementRows, table: &SharedTable) -> LedgerResult<Vec<Vec<Content>>> {
    rows.iter().map(|row| contents_of(row, table)).collect()
}

/// Key and hash of rows.
fn keyed(rows: &StatementRows, table: &SharedTable) -> LedgerResult<Vec<(Vec<u8>, LedgerHash)>> {
    let rows = contents(rows, table)?;
    Ok(rows.iter().map(|row| (table.key_bytes(row), row_hash(row))).collect())
}

/// The changes of a statement, of the rows before and after it.
fn changes_of(
    table: &SharedTable,
    before: Vec<(Vec<u8>, LedgerHash)>,
    after: Vec<(Vec<u8>, LedgerHash)>,
) -> Vec<RowChange> {
    let mut by_key: BTreeMap<Vec<u8>, (Option<LedgerHash>, Option<LedgerHash>)> = BTreeMap::new();
    for (key, hash) in before {
        by_key.entry(key).or_default().0 = Some(hash);
    }
    for (key, hash) in after {
        by_key.entry(key).or_default().1 = Some(hash);
    }
    let change = |(key, (old, new))| RowChange { table: table.name.clone(), key, serial: 0, old, new };
    by_key.into_iter().map(change).collect()
}

/// The changes of a transaction, of what its message has answered.
fn changes_of_answer(
    statements: &[PortableStatement],
    tables: &BTreeMap<String, SharedTable>,
    answer: &[StatementRows],
) -> LedgerResult<Vec<RowChange>> {
    let mut changes = Vec::new();
    let mut sets = answer.iter();
    let mut next = |table| keyed(sets.next().unwrap_or(&Vec::new()), table);
    for statement in statements {
        let table = &tables[&statement.table];
        let (before, after) = match statement.verb {
            StatementVerb::Insert => (Vec::new(), next(table)?),
            StatementVerb::Delete => (next(table)?, Vec::new()),
            StatementVerb::Update => (next(table)?, next(table)?),
        };
        changes.extend(changes_of(table, before, after));
    }
    Ok(changes)
}

/// Rows with these keys.
pub(super) fn read_rows(
    connection: &mut dyn SqlConnection,
    system: &str,
    table: &SharedTable,
    keys: &[Vec<u8>],
) -> LedgerResult<Vec<Vec<Content>>> {
    let mut found = Vec::new();
    for keys in keys.chunks(ROWS_MAX) {
        let condition = has_key(table, keys, postgres_bytes)?;
        let sql = format!("SELECT {} FROM \"{}\" WHERE {condition}", column_list(table), table.name);
        let rows = connection.run(&sql).map_err(|failure| failure.of(system))?;
        found.extend(contents(rows.first().unwrap_or(&Vec::new()), table)?);
    }
    Ok(found)
}

/// Shows the rows of a table.
pub(super) fn visit_rows(
    connection: &mut dyn SqlConnection,
    system: &str,
    table: &SharedTable,
    show: &mut RowVisitor<'_>,
) -> LedgerResult<()> {
    let sql = format!("SELECT {} FROM \"{}\"", column_list(table), table.name);
    stream_rows(connection, &sql, system, &mut |row| show(contents_of(&row, table)?))
}

impl RowSource for AnkerDbMember {
    fn read(&mut self, table: &SharedTable, keys: &[Vec<u8>]) -> LedgerResult<Vec<Vec<Content>>> {
        read_rows(&mut self.connection, &self.system, table, keys)
    }

    fn visit_rows(&mut self, table: &SharedTable, show: &mut RowVisitor<'_>) -> LedgerResult<()> {
        visit_rows(&mut self.connection, &self.system, table, show)
    }
}

impl Member for AnkerDbMember {
    fn system(&self) -> &str {
        &self.system
    }

    fn create_table(&mut self, table: &SharedTable) -> LedgerResult<()> {
        let column = |column: &SharedColumn| {
            let null = if column.is_nullable { "" } else { " NOT NULL" };
            let least = column.at_least;
            let check =
                least.map(|least| format!(" CHECK (\"{}\" >= {least})", column.name)).unwrap_or_default();
            format!("\"{}\" {}{null}{check}", column.name, column.kind)
        };
        let columns: Vec<String> = table.columns.iter().map(column).collect();
        let keys: Vec<String> =
            table.key.iter().map(|&at| format!("\"{}\"", table.columns[at].name)).collect();
        let name = &table.name;
        self.run(&format!("DROP TABLE IF EXISTS \"{name}\""))?;
        let (columns, keys) = (columns.join(", "), keys.join(", "));
        self.run(&format!("CREATE TABLE \"{name}\" ({columns}, PRIMARY KEY ({keys}))")).map(drop)
    }

    fn begin(&mut self) -> LedgerResult<()> {
        self.changes.clear();
        self.run("BEGIN ISOLATION LEVEL READ COMMITTED").map(drop)
    }

    fn execute(
        &mut self,
        statements: &[PortableStatement],
        tables: &BTreeMap<String, SharedTable>,
    ) -> LedgerResult<Option<String>> {
        let mut sql = "SAVEPOINT ledger_transaction".to_owned();
        let mut count = 0;
        for statement in statements {
            let (text, texts) = reading(statement, &tables[&statement.table]);
            sql.push_str("; ");
            sql.push_str(&text);
            count += texts;
        }
        sql.push_str("; RELEASE SAVEPOINT ledger_transaction");
        match self.connection.run(&sql) {
            Err(failure) => undo(&mut self.connection, failure, &self.system),
            Ok(answer) if answer.len() == count + 2 => {
                self.changes.extend(changes_of_answer(statements, tables, &answer[1..=count])?);
                Ok(None)
            }
            Ok(answer) => {
                let reason = format!("{} answers to {} statements", answer.len(), count + 2);
                Err(LedgerError::database(&self.system, reason))
            }
        }
    }

    fn take_changes(&mut self) -> LedgerResult<Vec<RowChange>> {
        Ok(std::mem::take(&mut self.changes))
    }

    fn commit(&mut self, height: u64) -> LedgerResult<()> {
        self.run(&commit_block(height)).map(drop)
    }

    fn rollback(&mut self) -> LedgerResult<()> {
        self.changes.clear();
        self.run("ROLLBACK").map(drop)
    }

    fn height(&mut self) -> LedgerResult<u64> {
        let rows = self.run("SELECT height FROM ledger_height")?;
        read_height(&rows, &self.system)
    }

    fn finished(&mut self, height: u64) -> LedgerResult<BTreeSet<usize>> {
        let rows = self.run(&select_finished(height))?;
        read_finished(&rows, &self.system)
    }

    fn scan(&mut self, table: &SharedTable) -> LedgerResult<Vec<(Vec<u8>, LedgerHash)>> {
        let rows = self.run(&format!("SELECT {} FROM \"{}\"", column_list(table), table.name))?;
        keyed(rows.first().unwrap_or(&Vec::new()), table)
    }

    fn repair(&mut self, table: &SharedTable, keys: &[Vec<u8>], rows: &[Vec<Content>]) -> LedgerResult<()> {
        repair_rows(table, keys, rows, postgres_bytes, &mut |sql| self.connection.run(sql).map(drop))
            .map_err(|failure| failure.of(&self.system))
    }
}

impl PartConnection for AnkerDbMember {
    fn lock_reach(&self) -> LockReach {
        LockReach::Matching
    }

    fn begin_part(&mut self) -> LedgerResult<()> {
        Member::begin(self)
    }

    fn execute(
        &mut self,
        statements: &[PortableStatement],
        tables: &BTreeMap<String, SharedTable>,
    ) -> LedgerResult<Option<String>> {
        Member::execute(self, statements, tables)
    }

    fn take_part_changes(&mut self) -> LedgerResult<Vec<RowChange>> {
        Member::take_changes(self)
    }

    fn commit_part(&mut self, height: u64, part: usize, places: &[usize]) -> LedgerResult<()> {
        self.run(&commit_part(height, part, places)).map(drop)
    }

    fn rollback_part(&mut self) -> LedgerResult<()> {
        Member::rollback(self)
    }
}
