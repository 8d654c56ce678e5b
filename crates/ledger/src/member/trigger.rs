//! A member whose shared tables have triggers that write digests into a table of the ledger's (section 4.5.2). What differs
//! between products is a [`TriggerDialect`].

use super::connection::{SqlConnection, SqlFailure, StatementRows};
use super::literal::{BytesLiteral, has_key, insert, shown_bytes, value_literal};
use super::{Member, PartConnection, RowSource, RowVisitor};
use crate::access::LockReach;
use crate::block::SuccessBits;
use crate::change::RowChange;
use crate::definition::SharedTable;
use crate::error::{LedgerError, LedgerResult};
use crate::hash::{LedgerHash, hex, unhex};
use crate::statement::PortableStatement;
use crate::value::Content;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// How many rows one statement of a repair names.
const ROWS_MAX: usize = 500;

/// How a product writes what members need.
pub trait TriggerDialect: Send {
    /// What a session begins with.
    fn session(&self) -> &'static str;
    /// What the session of a part of a block begins with, too: a statement waits for a lock for one second.
    fn part_session(&self) -> &'static str;
    /// What the product locks.
    fn lock_reach(&self) -> LockReach;
    /// The number of the session, as the digests have it.
    fn session_number(&self) -> &'static str;
    /// Deletes the digests of the session, without a look at those of others.
    fn delete_own_digests(&self) -> String;
    /// The ledger's own tables, if they are not there.
    fn own_tables(&self) -> Vec<&'static str>;
    /// Removes and makes a shared table and its triggers.
    fn shared_table(&self, table: &SharedTable) -> Vec<String>;
    /// Begins a transaction that sees what others have committed.
    fn begin(&self) -> &'static str;
    /// Begins a transaction that writes nothing, and sees what is committed when it begins or reads first, whatever comes later.
    fn begin_snapshot(&self) -> &'static [&'static str];
    /// Byte strings as literals.
    fn bytes_literal(&self) -> BytesLiteral;
    /// Hexadecimal digits of an expression for bytes.
    fn hex(&self, expression: &str) -> String;
    /// The content of a column.
    fn content(&self, table: &SharedTable, column: usize) -> String;
    /// The canonical encoding of a row's key.
    fn key(&self, table: &SharedTable) -> String;
    /// The hash of a row.
    fn row_hash(&self, table: &SharedTable) -> String;
}

/// A member with triggers.
pub struct TriggerMember {
    system: String,
    connection: Box<dyn SqlConnection>,
    dialect: Box<dyn TriggerDialect>,
}

impl TriggerMember {
    /// Opens a member over a connection, and makes the ledger's own tables in its database.
    ///
    /// # Errors
    /// [`LedgerError::Database`].
    pub fn open(
        connection: Box<dyn SqlConnection>,
        dialect: Box<dyn TriggerDialect>,
        product: &str,
    ) -> LedgerResult<TriggerMember> {
        let mut member = TriggerMember { system: product.to_owned(), connection, dialect };
        member.run(member.dialect.session())?;
        for statement in member.dialect.own_tables() {
            member.run(statement)?;
        }
        let rows = member.run("SELECT version()")?;
        let version = rows.first().and_then(|rows| rows.first()?.first()?.clone()).unwrap_or_default();
        let version = String::from_utf8_lossy(&version).replace("PostgreSQL ", "");
        let number = version.split([' ', '-']).next().unwrap_or_default();
        member.system = format!("{product} {number}");
        Ok(member)
    }

    /// Opens a connection for parts of blocks, beside the member that has made the ledger's own tables.
    ///
    /// # Errors
    /// [`LedgerError::Database`].
    pub fn open_part(
        connection: Box<dyn SqlConnection>,
        dialect: Box<dyn TriggerDialect>,
        product: &str,
    ) -> LedgerResult<TriggerMember> {
        let mut member = TriggerMember { system: product.to_owned(), connection, dialect };
        member.run(member.dialect.session())?;
        member.run(member.dialect.part_session())?;
        Ok(member)
    }

    fn run(&mut self, sql: &str) -> LedgerResult<Vec<StatementRows>> {
        self.connection.run(sql).map_err(|failure| failure.of(&self.system))
    }

    /// Reads the digests that a condition holds for, and deletes them.
    fn take_digests(&mut self, condition: &str, delete: &str) -> LedgerResult<Vec<RowChange>> {
        let hex = |column: &str| self.dialect.hex(column);
        let columns = [hex("row_key"), hex("old_hash"), hex("new_hash")].join(", ");
        let sql =
            format!("SELECT shared_table, {columns} FROM ledger_digest{condition} ORDER BY serial; {delete}");
        let rows = self.run(&sql)?.into_iter().next().unwrap_or_default();
        let mut changes = Vec::with_capacity(rows.len());
        for row in rows {
            let [table, key, old, new] = &row[..] else {
                return Err(LedgerError::database(&self.system, "a digest has four columns"));
            };
            let table = String::from_utf8_lossy(table.as_deref().unwrap_or_default()).into_owned();
            let (key, old, new) = (self.bytes(key)?, self.hash(old)?, self.hash(new)?);
            changes.push(RowChange { table, key, serial: 0, old, new });
        }
        Ok(changes)
    }

    fn bytes(&self, content: &Content) -> LedgerResult<Vec<u8>> {
        shown_bytes(content, &self.system)
    }

    fn hash(&self, content: &Content) -> LedgerResult<Option<LedgerHash>> {
        let bytes = self.bytes(content)?;
        if bytes.is_empty() {
            return Ok(None);
        }
        let bytes = <[u8; 32]>::try_from(bytes);
        bytes
            .map(|bytes| Some(LedgerHash(bytes)))
            .map_err(|_| LedgerError::database(&self.system, "a hash of 32 bytes was expected"))
    }
}

/// The contents of all columns as hexadecimal digits.
fn shown_contents(dialect: &dyn TriggerDialect, table: &SharedTable) -> String {
    let contents = (0..table.columns.len()).map(|at| dialect.hex(&dialect.content(table, at)));
    contents.collect::<Vec<_>>().join(", ")
}

/// The contents of a row that a database has shown by [`shown_contents`].
fn contents_of(row: &[Content], system: &str) -> LedgerResult<Vec<Content>> {
    let content = |value: &Content| match value {
        None => Ok(None),
        value => shown_bytes(value, system).map(Some),
    };
    row.iter().map(content).collect()
}

/// What a failed transaction leaves the member to do.
pub(super) fn undo(
    connection: &mut dyn SqlConnection,
    failure: SqlFailure,
    system: &str,
) -> LedgerResult<Option<String>> {
    if failure.is_transient {
        return Err(failure.of(system));
    }
    let undone = connection.run("ROLLBACK TO SAVEPOINT ledger_transaction");
    undone.map(|_| Some(failure.message)).map_err(|failure| failure.of(system))
}

/// Rows with these keys.
pub(super) fn read_rows(
    connection: &mut dyn SqlConnection,
    dialect: &dyn TriggerDialect,
    system: &str,
    table: &SharedTable,
    keys: &[Vec<u8>],
) -> LedgerResult<Vec<Vec<Content>>> {
    let mut found = Vec::new();
    let contents = shown_contents(dialect, table);
    for keys in keys.chunks(ROWS_MAX) {
        let condition = has_key(table, keys, dialect.bytes_literal())?;
        let sql = format!("SELECT {contents} FROM \"{}\" WHERE {condition}", table.name);
        let rows = connection.run(&sql).map_err(|failure| failure.of(system))?.into_iter().next();
        for row in rows.unwrap_or_default() {
            found.push(contents_of(&row, system)?);
        }
    }
    Ok(found)
}

/// Shows the rows of a table.
pub(super) fn visit_rows(
    connection: &mut dyn SqlConnection,
    dialect: &dyn TriggerDialect,
    system: &str,
    table: &SharedTable,
    show: &mut RowVisitor<'_>,
) -> LedgerResult<()> {
    let sql = format!("SELECT {} FROM \"{}\"", shown_contents(dialect, table), table.name);
    stream_rows(connection, &sql, system, &mut |row| show(contents_of(&row, system)?))
}

/// Shows what a query gives until `show` fails.
pub(super) fn stream_rows(
    connection: &mut dyn SqlConnection,
    sql: &str,
    system: &str,
    show: &mut RowVisitor<'_>,
) -> LedgerResult<()> {
    let mut shown = Ok(());
    let streamed = connection.stream(sql, &mut |row| {
        shown = show(row);
        if shown.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    streamed.map_err(|failure| failure.of(system))?;
    shown
}

impl RowSource for TriggerMember {
    fn read(&mut self, table: &SharedTable, keys: &[Vec<u8>]) -> LedgerResult<Vec<Vec<Content>>> {
        read_rows(self.connection.as_mut(), self.dialect.as_ref(), &self.system, table, keys)
    }

    fn visit_rows(&mut self, table: &SharedTable, show: &mut RowVisitor<'_>) -> LedgerResult<()> {
        visit_rows(self.connection.as_mut(), self.dialect.as_ref(), &self.system, table, show)
    }
}

impl Member for TriggerMember {
    fn system(&self) -> &str {
        &self.system
    }

    fn create_table(&mut self, table: &SharedTable) -> LedgerResult<()> {
        for statement in self.dialect.shared_table(table) {
            self.run(&statement)?;
        }
        Ok(())
    }

    fn begin(&mut self) -> LedgerResult<()> {
        self.run(self.dialect.begin()).map(drop)
    }

    fn execute(
        &mut self,
        statements: &[PortableStatement],
        _tables: &BTreeMap<String, SharedTable>,
    ) -> LedgerResult<Option<String>> {
        let bytes_literal = self.dialect.bytes_literal();
        let mut sql = "SAVEPOINT ledger_transaction".to_owned();
        for statement in statements {
            sql.push_str("; ");
            sql.push_str(&statement.text(&|value| value_literal(value, bytes_literal)));
        }
        sql.push_str("; RELEASE SAVEPOINT ledger_transaction");
        match self.connection.run(&sql) {
            Ok(_) => Ok(None),
            Err(failure) => undo(self.connection.as_mut(), failure, &self.system),
        }
    }

    fn take_changes(&mut self) -> LedgerResult<Vec<RowChange>> {
        self.take_digests("", "DELETE FROM ledger_digest")
    }

    fn commit(&mut self, height: u64) -> LedgerResult<()> {
        self.run(&commit_block(height)).map(drop)
    }

    fn rollback(&mut self) -> LedgerResult<()> {
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
        let dialect = &self.dialect;
        let (key, hash) = (dialect.hex(&dialect.key(table)), dialect.hex(&dialect.row_hash(table)));
        let rows = self.run(&format!("SELECT {key}, {hash} FROM \"{}\"", table.name))?.into_iter().next();
        let pair = |row: &Vec<Content>| Ok((self.bytes(&row[0])?, self.hash(&row[1])?.unwrap_or_default()));
        rows.unwrap_or_default().iter().map(pair).collect()
    }

    fn repair(&mut self, table: &SharedTable, keys: &[Vec<u8>], rows: &[Vec<Content>]) -> LedgerResult<()> {
        repair_rows(table, keys, rows, self.dialect.bytes_literal(), &mut |sql| {
            self.connection.run(sql).map(drop)
        })
        .map_err(|failure| failure.of(&self.system))
    }
}

impl PartConnection for TriggerMember {
    fn lock_reach(&self) -> LockReach {
        self.dialect.lock_reach()
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
        let condition = format!(" WHERE session = {}", self.dialect.session_number());
        let delete = self.dialect.delete_own_digests();
        self.take_digests(&condition, &delete)
    }

    fn commit_part(&mut self, height: u64, part: usize, places: &[usize]) -> LedgerResult<()> {
        self.run(&commit_part(height, part, places)).map(drop)
    }

    fn rollback_part(&mut self) -> LedgerResult<()> {
        Member::rollback(self)
    }
}

/// Which parts of the next block are in a database that was stopped between their commits.
pub(super) const PARTS_TABLE: &str = "CREATE TABLE IF NOT EXISTS ledger_part (part integer PRIMARY KEY, height bigint NOT NULL, transactions text NOT NULL)";

/// Commits the whole of a block; no part is one of the next block any more.
pub(super) fn commit_block(height: u64) -> String {
    format!("DELETE FROM ledger_part; UPDATE ledger_height SET height = {height}; COMMIT")
}

/// Commits a part of a block with a bit for each of its transactions, as hexadecimal digits.
pub(super) fn commit_part(height: u64, part: usize, places: &[usize]) -> String {
    let mut bits = vec![false; places.last().map_or(0, |last| last + 1)];
    places.iter().for_each(|place| bits[*place] = true);
    let digits = hex(SuccessBits::new(&bits).bytes());
    format!(
        "DELETE FROM ledger_part WHERE part = {part}; \
         INSERT INTO ledger_part (part, height, transactions) VALUES ({part}, {height}, '{digits}'); COMMIT"
    )
}

pub(super) fn select_finished(height: u64) -> String {
    format!("SELECT transactions FROM ledger_part WHERE height = {height}")
}

/// The places that parts have committed.
pub(super) fn read_finished(rows: &[StatementRows], system: &str) -> LedgerResult<BTreeSet<usize>> {
    let mut places = BTreeSet::new();
    for row in rows.first().into_iter().flatten() {
        let digits = row.first().and_then(|digits| std::str::from_utf8(digits.as_deref()?).ok());
        let bytes = digits.and_then(unhex);
        let bytes =
            bytes.ok_or_else(|| LedgerError::database(system, "ledger_part has no hexadecimal digits"))?;
        let bits = SuccessBits::of_bytes(bytes);
        places.extend((0..bits.count()).filter(|place| bits.get(*place)));
    }
    Ok(places)
}

/// The number in the ledger's own table.
pub(super) fn read_height(rows: &[StatementRows], system: &str) -> LedgerResult<u64> {
    let value = rows.first().and_then(|rows| rows.first()?.first()?.as_ref());
    let number = value.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    number.ok_or_else(|| LedgerError::database(system, "ledger_height has no number"))
}

/// Deletes and inserts in statements of bounded size.
pub(super) fn repair_rows(
    table: &SharedTable,
    keys: &[Vec<u8>],
    rows: &[Vec<Content>],
    bytes_literal: BytesLiteral,
    run: &mut dyn FnMut(&str) -> Result<(), SqlFailure>,
) -> Result<(), SqlFailure> {
    for keys in keys.chunks(ROWS_MAX) {
        let condition = has_key(table, keys, bytes_literal);
        let condition = condition.map_err(|error| SqlFailure {
            message: error.to_string(),
            is_transient: false,
            is_lost: false,
        })?;
        run(&format!("DELETE FROM \"{}\" WHERE {condition}", table.name))?;
    }
    rows.chunks(ROWS_MAX).try_for_each(|rows| run(&insert(table, rows, bytes_literal)))
}
