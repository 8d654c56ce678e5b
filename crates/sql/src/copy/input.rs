//! COPY table FROM STDIN.

use super::field::parse_field;
use super::lines::LineSplitter;
use super::options::{CopyOptions, Format};
use super::{csv, text};
use crate::SqlSession;
use crate::expression::{Context, Expression, Refusal, evaluate};
use crate::plan::default::default;
use crate::session_sequences::SessionSequences;
use ankerdb_engine::{
    ColumnDefinition, DataType, Error, Interrupt, Result, SqlState, Table, Transaction, Value,
};
use ankerdb_value::assign;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use std::sync::Arc;

/// The longest piece of data that an error message shows.
const SHOWN_CHARACTERS_MAX: usize = 100;

/// COPY table FROM STDIN under way.
///
/// Its rows become visible with [`finish`](Self::finish), or with the end of the session's open transaction if there
/// is one. Dropping it before stores nothing.
pub struct CopyIn {
    splitter: LineSplitter,
    loader: Loader,
    /// The copy's own transaction; `None` if the session has one open.
    own: Option<Transaction>,
}

/// How each line is read.
struct Loader {
    table: Arc<Table>,
    options: CopyOptions,
    columns: Vec<Target>,
    defaults: Defaults,
    /// Lines seen, newlines inside of quotes counted.
    line: usize,
    rows: usize,
    /// Whether the line with the columns' names is still to come.
    header: bool,
    /// Whether the line that ends the data was seen.
    ended: bool,
    scratch: Vec<u8>,
}

/// What columns get that have no field.
struct Defaults {
    columns: Vec<(usize, DataType, Expression)>,
    /// When the copy began: microseconds since 1970-01-01 UTC.
    now: i64,
    interrupt: Interrupt,
    sequences: Arc<SessionSequences>,
}

impl Defaults {
    fn new(session: &mut SqlSession, table: &Table, targets: &[Target]) -> Result<Defaults> {
        let all = table.columns().iter().enumerate().filter(|(position, column)| {
            column.default.is_some() && targets.iter().all(|target| target.position != *position)
        });
        let catalog = session.catalog();
        let schema = catalog.schema_of(table);
        let bound = all.map(|(position, column)| {
            let expression = default(column, schema).map_err(Refusal::into_error)?;
            Ok((position, column.data_type, expression))
        });
        let (now, sequences) = session.now_and_sequences();
        let interrupt = session.cancel_handle().interrupt().clone();
        Ok(Defaults { columns: bound.collect::<Result<_>>()?, now, interrupt, sequences })
    }

    fn put_into(&self, row: &mut [Value]) -> Result<()> {
        let no_column = |_: usize| Value::Null;
        for (position, data_type, expression) in &self.columns {
            let context = Context {
                column: &no_column,
                parameters: &[],
                subqueries: &[],
                now: self.now,
                interrupt: &self.interrupt,
                sequences: &*self.sequences,
            };
            let value = evaluate(expression, &context)?;
            row[*position] = if value.is_null() { value } else { assign(value, *data_type)? };
        }
        Ok(())
    }
}

/// The target of a field.
struct Target {
    position: usize,
    name: String,
    data_type: DataType,
    force_null: bool,
    force_not_null: bool,
}

impl CopyIn {
    pub(super) fn start(
        session: &mut SqlSession,
        table: &ObjectName,
        columns: &[Ident],
        options: CopyOptions,
    ) -> Result<CopyIn> {
        let table = session.catalog().table(&crate::name::object_name(table)?)?;
        crate::materialized_table::check_changeable(&table, "copy to")?;
        session.check_writable("COPY FROM")?;
        let columns = targets(&table, columns, &options)?;
        let defaults = Defaults::new(session, &table, &columns)?;
        let loader = Loader {
            defaults,
            table,
            columns,
            line: 0,
            rows: 0,
            header: options.header,
            ended: false,
            scratch: Vec::new(),
            options,
        };
        let splitter = LineSplitter::new(&loader.options);
        Ok(CopyIn { splitter, loader, own: session.begin_own() })
    }

    /// Whether the data is in the protocol's binary form, whose rows the caller reads and hands to
    /// [`push_row`](Self::push_row).
    pub fn is_binary(&self) -> bool {
        self.loader.options.format == Format::Binary
    }

    /// The types of a row's fields.
    pub fn types(&self) -> Vec<DataType> {
        self.loader.columns.iter().map(|target| target.data_type).collect()
    }

    /// Takes a row with a value for each field. After an error the copy is over, as with [`push`](Self::push).
    ///
    /// # Errors
    /// What an INSERT of the row would fail with, and `QueryCanceled`.
    pub fn push_row(&mut self, session: &mut SqlSession, values: Vec<Value>) -> Result<()> {
        let loader = &mut self.loader;
        let result = session.cancel_handle().interrupt().check().and_then(|()| {
            in_transaction(session, &mut self.own, |transaction| loader.store_row(values, transaction))
        });
        if let Err(error) = &result {
            self.end(session, Some(error));
        }
        result
    }

    /// Fields of a line.
    pub fn column_count(&self) -> usize {
        self.loader.columns.len()
    }

    /// Takes the next piece of data, cut anywhere. After an error the copy is over and nothing of it remains;
    /// an open transaction has failed.
    pub fn push(&mut self, session: &mut SqlSession, data: &[u8]) -> Result<()> {
        let result = self.check_canceled(session).and_then(|()| self.load(session, data));
        if let Err(error) = &result {
            self.end(session, Some(error));
        }
        result
    }

    fn check_canceled(&self, session: &SqlSession) -> Result<()> {
        session.cancel_handle().interrupt().check()
    }

    fn load(&mut self, session: &mut SqlSession, data: &[u8]) -> Result<()> {
        if self.loader.ended {
            return Ok(());
        }
        self.splitter.push(data)?;
        let (splitter, loader) = (&mut self.splitter, &mut self.loader);
        in_transaction(session, &mut self.own, |transaction| loader.whole_lines(splitter, transaction))
    }

    /// Ends the copy when all data has come: stores the rows; in an open transaction, with its commit. Returns the
    /// command tag `COPY n`.
    pub fn finish(mut self, session: &mut SqlSession) -> Result<String> {
        let (splitter, loader) = (&mut self.splitter, &mut self.loader);
        let result = in_transaction(session, &mut self.own, |transaction| {
            loader.last_line(splitter, transaction)?;
            transaction.check_references()
        });
        let stored = result.and_then(|()| self.own.take().map_or(Ok(()), |mut own| own.commit().map(drop)));
        let stored = stored.and_then(|()| session.after_statement());
        if let Err(error) = &stored {
            self.end(session, Some(error));
        }
        stored.map(|()| format!("COPY {}", self.loader.rows))
    }

    /// Ends the copy when the client gives up: nothing is stored, and an open transaction fails.
    pub fn fail(mut self, session: &mut SqlSession) {
        self.end(session, None);
    }

    /// Rolls back, or makes the open transaction fail.
    fn end(&mut self, session: &mut SqlSession, error: Option<&Error>) {
        self.loader.ended = true;
        if self.own.take().is_none() {
            session.fail_for(error);
        }
    }
}

fn in_transaction(
    session: &mut SqlSession,
    own: &mut Option<Transaction>,
    body: impl FnOnce(&mut Transaction) -> Result<()>,
) -> Result<()> {
    match own {
        Some(transaction) => body(transaction),
        None => session.with_transaction(body),
    }
}

/// The named columns, or all.
fn targets(table: &Table, names: &[Ident], options: &CopyOptions) -> Result<Vec<Target>> {
    let all = table.columns();
    let positions: Vec<usize> = match names {
        [] => (0..all.len()).filter(|&position| all[position].generation.is_none()).collect(),
        names => names.iter().map(|name| position(table, name)).collect::<Result<_>>()?,
    };
    positions.iter().try_for_each(|&position| check_copied(&all[position]))?;
    for (at, position) in positions.iter().enumerate() {
        if positions[..at].contains(position) {
            let message = format!("column \"{}\" specified more than once", all[*position].name);
            return Err(Error::new(SqlState::DuplicateColumn, message));
        }
    }
    let force_null = forced(table, &options.force_null, &positions, "FORCE_NULL")?;
    let force_not_null = forced(table, &options.force_not_null, &positions, "FORCE_NOT_NULL")?;
    Ok(positions
        .into_iter()
        .map(|position| Target {
            position,
            name: all[position].name.clone(),
            data_type: all[position].data_type,
            force_null: force_null.contains(&position),
            force_not_null: force_not_null.contains(&position),
        })
        .collect())
}

/// 42P10 for a column that is computed from others.
pub(super) fn check_copied(column: &ColumnDefinition) -> Result<()> {
    if column.generation.is_none() {
        return Ok(());
    }
    let message = format!("column \"{}\" is a generated column", column.name);
    let detail = "Generated columns cannot be used in COPY.";
    Err(Error::new(SqlState::InvalidColumnReference, message).with_detail(detail))
}

fn position(table: &Table, name: &Ident) -> Result<usize> {
    let name = crate::name::folded(name);
    table.column_position(&name).ok_or_else(|| crate::name::undefined_column_of(&name, table.name()))
}

/// Positions of columns that an option names; each must be copied.
fn forced(table: &Table, names: &[Ident], copied: &[usize], option: &str) -> Result<Vec<usize>> {
    let positions = names.iter().map(|name| position(table, name)).collect::<Result<Vec<_>>>()?;
    match positions.iter().find(|position| !copied.contains(position)) {
        None => Ok(positions),
        Some(&position) => {
            let message =
                format!("{option} column \"{}\" not referenced by COPY", table.columns()[position].name);
            Err(Error::new(SqlState::InvalidParameterValue, message))
        }
    }
}

impl Loader {
    fn whole_lines(&mut self, splitter: &mut LineSplitter, transaction: &mut Transaction) -> Result<()> {
        while let Some(line) = splitter.next() {
            transaction.check_interrupt()?;
            self.line(line, transaction)?;
        }
        Ok(())
    }

    /// The last line may lack its end.
    fn last_line(&mut self, splitter: &mut LineSplitter, transaction: &mut Transaction) -> Result<()> {
        match splitter.rest() {
            _ if self.ended => Ok(()),
            (_, true) => {
                let error = Error::new(SqlState::BadCopyFileFormat, "unterminated CSV quoted field");
                Err(error.with_context(format!("COPY {}, line {}", self.table.name(), self.line + 1)))
            }
            ([], false) => Ok(()),
            (line, false) => self.line(line, transaction),
        }
    }

    fn line(&mut self, line: &[u8], transaction: &mut Transaction) -> Result<()> {
        self.line += 1;
        if self.ended || std::mem::take(&mut self.header) {
            return Ok(());
        }
        let text = std::str::from_utf8(line).ok().filter(|text| !text.contains('\0')).ok_or_else(|| {
            let error = Error::new(
                SqlState::CharacterNotInRepertoire,
                "invalid byte sequence for encoding \"UTF8\" in COPY data",
            );
            error.with_context(format!("COPY {}, line {}", self.table.name(), self.line))
        })?;
        if text == text::END_OF_DATA {
            self.ended = true;
            return Ok(());
        }
        if self.options.format == Format::Csv {
            self.line += line.iter().filter(|&&byte| byte == b'\n').count();
        }
        let row = self.row(text)?;
        transaction.insert(&self.table, row).map_err(|error| self.at_line(error, text))?;
        self.rows += 1;
        Ok(())
    }

    /// Stores a row that was read already.
    fn store_row(&mut self, values: Vec<Value>, transaction: &mut Transaction) -> Result<()> {
        self.line += 1;
        let mut row = vec![Value::Null; self.table.columns().len()];
        self.defaults.put_into(&mut row)?;
        for (target, value) in self.columns.iter().zip(values) {
            let assigned = if value.is_null() { Ok(value) } else { assign(value, target.data_type) };
            row[target.position] = assigned.map_err(|error| self.at_field(error, &target.name))?;
        }
        let context = format!("COPY {}, line {}", self.table.name(), self.line);
        transaction.insert(&self.table, row).map_err(|error| error.with_context(context))?;
        self.rows += 1;
        Ok(())
    }

    fn at_field(&self, error: Error, column: &str) -> Error {
        error.with_context(format!("COPY {}, line {}, column {column}", self.table.name(), self.line))
    }

    fn row(&mut self, line: &str) -> Result<Vec<Value>> {
        let mut row = vec![Value::Null; self.table.columns().len()];
        self.defaults.put_into(&mut row)?;
        let mut rest = Some(line);
        let mut scratch = std::mem::take(&mut self.scratch);
        for target in &self.columns {
            match self.next_value(&mut rest, target, &mut scratch) {
                Some(value) => row[target.position] = value?,
                None => {
                    let message = format!("missing data for column \"{}\"", target.name);
                    return Err(self.at_line(Error::new(SqlState::BadCopyFileFormat, message), line));
                }
            }
        }
        self.scratch = scratch;
        match rest {
            None => Ok(row),
            Some(_) => {
                let error = Error::new(SqlState::BadCopyFileFormat, "extra data after last expected column");
                Err(self.at_line(error, line))
            }
        }
    }

    /// The value of the next field; `None` if there is no further field.
    fn next_value(
        &self,
        rest: &mut Option<&str>,
        target: &Target,
        scratch: &mut Vec<u8>,
    ) -> Option<Result<Value>> {
        match self.options.format {
            Format::Text | Format::Binary => self.next_text(rest, target, scratch),
            Format::Csv => self.next_csv(rest, target, scratch),
        }
    }

    fn next_text(
        &self,
        rest: &mut Option<&str>,
        target: &Target,
        scratch: &mut Vec<u8>,
    ) -> Option<Result<Value>> {
        let field = text::next_field(rest, self.options.delimiter)?;
        if field == self.options.null {
            return Some(Ok(Value::Null));
        }
        let value = text::unescape(field, scratch).and_then(|text| parse_field(text, target.data_type));
        Some(value.map_err(|error| self.at_column(error, target, field)))
    }

    fn next_csv(
        &self,
        rest: &mut Option<&str>,
        target: &Target,
        scratch: &mut Vec<u8>,
    ) -> Option<Result<Value>> {
        let before = rest.unwrap_or_default();
        let field = match csv::next_field(rest, &self.options, scratch)? {
            Ok(field) => field,
            Err(error) => return Some(Err(self.at_column(error, target, before))),
        };
        let may_be_null = if field.quoted { target.force_null } else { !target.force_not_null };
        if may_be_null && field.text == self.options.null {
            return Some(Ok(Value::Null));
        }
        let value = parse_field(field.text, target.data_type);
        Some(value.map_err(|error| self.at_column(error, target, field.text)))
    }

    fn at_line(&self, error: Error, line: &str) -> Error {
        error.with_context(format!("COPY {}, line {}: \"{}\"", self.table.name(), self.line, shown(line)))
    }

    fn at_column(&self, error: Error, target: &Target, field: &str) -> Error {
        let (table, line, column) = (self.table.name(), self.line, &target.name);
        error.with_context(format!("COPY {table}, line {line}, column {column}: \"{}\"", shown(field)))
    }
}

/// The beginning of a line or field, for a message.
fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
