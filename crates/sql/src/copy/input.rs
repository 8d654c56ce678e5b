//! COPY table FROM STDIN.

use super::field::{Parsed, parse_field};
use super::lines::LineSplitter;
use super::options::{CopyOptions, Format};
use super::row::Row;
use super::{csv, text};
use crate::SqlSession;
use crate::expression::{Context, Expression, Refusal, evaluate};
use crate::plan::default::default;
use crate::session_sequences::SessionSequences;
use ankerdb_engine::{
    ColumnDefinition, DataType, Error, Interrupt, Result, SqlState, Table, Transaction, Value,
};
use ankerdb_value::{ValueRef, assign};
use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use std::sync::Arc;

/// The longest piece of data that an error message shows.
const SHOWN_CHARACTERS_MAX: usize = 100;

/// Rows from which on a COPY loads the others in whole blocks. Fewer are inserted one by one, so that a small COPY does not
/// take a block.
const LOADS_FROM: usize = 1_024;

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
    row: Row,
    way: Way,
    /// The line of each row that was loaded: a key that is taken is found at the end.
    loaded_lines: Vec<u32>,
}

/// How rows are stored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// One by one, and if there are many in whole blocks.
    Undecided,
    /// One by one.
    Inserts,
    /// In whole blocks.
    Loads,
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

    fn put_into(&self, row: &mut Row) -> Result<()> {
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
            row.set(*position, if value.is_null() { value } else { assign(value, *data_type)? });
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
        let mut loader = Loader {
            defaults,
            table,
            columns,
            line: 0,
            rows: 0,
            header: options.header,
            ended: false,
            scratch: Vec::new(),
            row: Row::default(),
            way: Way::Inserts,
            loaded_lines: Vec::new(),
            options,
        };
        let splitter = LineSplitter::new(&loader.options);
        let own = session.begin_own();
        // Within a block, what was loaded could not be read before its end.
        if own.as_ref().is_some_and(|own| own.can_load(&loader.table)) {
            loader.way = Way::Undecided;
        }
        Ok(CopyIn { splitter, loader, own })
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
        let stored = result.and_then(|()| match self.own.take() {
            Some(mut own) => own.commit().map(drop).map_err(|error| self.loader.at_refused(error, &own)),
            None => Ok(()),
        });
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
        let mut row = std::mem::take(&mut self.row);
        let stored = self.read_row(text, &mut row).and_then(|()| {
            self.store(row.values(text), transaction).map_err(|error| self.at_line(error, text))
        });
        self.row = row;
        stored
    }

    /// Stores a row.
    fn store<'a>(
        &mut self,
        values: impl Iterator<Item = ValueRef<'a>> + Clone,
        transaction: &mut Transaction,
    ) -> Result<()> {
        if self.way == Way::Undecided && self.rows >= LOADS_FROM {
            self.way = Way::Loads;
        }
        match self.way {
            Way::Loads => {
                let room = self.loaded_lines.try_reserve(1);
                room.map_err(|_| Error::out_of_memory(self.loaded_lines.len() * size_of::<u32>()))?;
                transaction.load(&self.table, values)?;
                self.loaded_lines.push(u32::try_from(self.line).unwrap_or(u32::MAX));
            }
            Way::Undecided | Way::Inserts => {
                transaction.insert(&self.table, values.map(ValueRef::to_value).collect())?;
            }
        }
        self.rows += 1;
        Ok(())
    }

    /// Names the line of the row whose key was found to be taken in the end.
    fn at_refused(&self, error: Error, transaction: &Transaction) -> Error {
        match transaction.refused_row().and_then(|row| self.loaded_lines.get(row)) {
            Some(line) => error.with_context(format!("COPY {}, line {line}", self.table.name())),
            None => error,
        }
    }

    /// Stores a row that was read already.
    fn store_row(&mut self, values: Vec<Value>, transaction: &mut Transaction) -> Result<()> {
        self.line += 1;
        let mut row = std::mem::take(&mut self.row);
        row.begin(self.table.columns().len());
        self.defaults.put_into(&mut row)?;
        for (target, value) in self.columns.iter().zip(values) {
            let assigned = if value.is_null() { Ok(value) } else { assign(value, target.data_type) };
            row.set(target.position, assigned.map_err(|error| self.at_field(error, &target.name))?);
        }
        let context = format!("COPY {}, line {}", self.table.name(), self.line);
        let stored = self.store(row.values(""), transaction).map_err(|error| error.with_context(context));
        self.row = row;
        stored
    }

    fn at_field(&self, error: Error, column: &str) -> Error {
        error.with_context(format!("COPY {}, line {}, column {column}", self.table.name(), self.line))
    }

    /// Reads the fields of a line.
    fn read_row(&mut self, line: &str, row: &mut Row) -> Result<()> {
        row.begin(self.table.columns().len());
        self.defaults.put_into(row)?;
        let mut rest = Some(line);
        let mut scratch = std::mem::take(&mut self.scratch);
        for target in &self.columns {
            let is_there = match self.options.format {
                Format::Text | Format::Binary => {
                    self.read_text((&mut rest, line), target, &mut scratch, row)?
                }
                Format::Csv => self.read_csv((&mut rest, line), target, &mut scratch, row)?,
            };
            if !is_there {
                let message = format!("missing data for column \"{}\"", target.name);
                return Err(self.at_line(Error::new(SqlState::BadCopyFileFormat, message), line));
            }
        }
        self.scratch = scratch;
        match rest {
            None => Ok(()),
            Some(_) => {
                let error = Error::new(SqlState::BadCopyFileFormat, "extra data after last expected column");
                Err(self.at_line(error, line))
            }
        }
    }

    /// Reads the next field; false if there is no further one.
    fn read_text(
        &self,
        (rest, line): (&mut Option<&str>, &str),
        target: &Target,
        scratch: &mut Vec<u8>,
        row: &mut Row,
    ) -> Result<bool> {
        let Some(field) = text::next_field(rest, self.options.delimiter) else { return Ok(false) };
        if field != self.options.null {
            text::unescape(field, scratch)
                .and_then(|text| put_field(text, target, line, row))
                .map_err(|error| self.at_column(error, target, field))?;
        }
        Ok(true)
    }

    fn read_csv(
        &self,
        (rest, line): (&mut Option<&str>, &str),
        target: &Target,
        scratch: &mut Vec<u8>,
        row: &mut Row,
    ) -> Result<bool> {
        let before = rest.unwrap_or_default();
        let Some(field) = csv::next_field(rest, &self.options, scratch) else { return Ok(false) };
        let field = field.map_err(|error| self.at_column(error, target, before))?;
        let may_be_null = if field.quoted { target.force_null } else { !target.force_not_null };
        if !may_be_null || field.text != self.options.null {
            put_field(field.text, target, line, row)
                .map_err(|error| self.at_column(error, target, field.text))?;
        }
        Ok(true)
    }

    fn at_line(&self, error: Error, line: &str) -> Error {
        error.with_context(format!("COPY {}, line {}: \"{}\"", self.table.name(), self.line, shown(line)))
    }

    fn at_column(&self, error: Error, target: &Target, field: &str) -> Error {
        let (table, line, column) = (self.table.name(), self.line, &target.name);
        error.with_context(format!("COPY {table}, line {line}, column {column}: \"{}\"", shown(field)))
    }
}

/// Makes a field the value of its column; a column with a default has no field.
fn put_field(text: &str, target: &Target, line: &str, row: &mut Row) -> Result<()> {
    match parse_field(text, target.data_type)? {
        Parsed::Value(value) => row.set(target.position, value),
        Parsed::Text(length) => row.set_text(target.position, &text[..length], line),
    }
    Ok(())
}

/// The beginning of a line or field, for a message.
fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
