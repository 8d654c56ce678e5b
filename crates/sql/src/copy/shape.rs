//! How lines of a COPY are read: what all of them have in common, and what each thread that reads them has for itself.

use super::field::{Parsed, parse_field};
use super::options::{CopyFormat, CopyOptions, OnError};
use super::row::{InputRow, RowValues};
use super::skipped::Skipped;
use super::targets::FieldTarget;
use super::{condition, csv, text};
use crate::SqlSession;
use crate::expression::{Context, Expression, Refusal, evaluate};
use crate::plan::default::default;
use crate::session_sequences::SessionSequences;
use ankerdb_engine::{DataType, Error, Interrupt, Result, SqlState, Table, Value};
use ankerdb_value::assign;
use std::sync::Arc;

/// The longest piece of data that an error message shows.
const SHOWN_CHARACTERS_MAX: usize = 100;

/// What is the same for all lines.
pub(super) struct Shape {
    pub table: Arc<Table>,
    pub options: CopyOptions,
    pub columns: Vec<FieldTarget>,
    pub defaults: Defaults,
    /// Which rows are stored.
    pub condition: Option<Expression>,
}

/// What columns get that have no field.
pub(super) struct Defaults {
    columns: Vec<(usize, DataType, Expression)>,
    /// When the copy began: microseconds since 1970-01-01 UTC.
    now: i64,
    interrupt: Interrupt,
    sequences: Arc<SessionSequences>,
}

impl Defaults {
    pub(super) fn new(session: &mut SqlSession, table: &Table, targets: &[FieldTarget]) -> Result<Defaults> {
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

    /// Whether all are constants: whichever row asks first, it gets the same.
    pub(super) fn are_constants(&self) -> bool {
        self.columns.iter().all(|(_, _, expression)| matches!(expression, Expression::Literal(_)))
    }

    fn put_into(&self, row: &mut InputRow) -> Result<()> {
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

impl Shape {
    /// Names a line.
    pub(super) fn at(&self, number: usize) -> String {
        let what = if self.options.format == CopyFormat::Parquet { "row" } else { "line" };
        format!("COPY {}, {what} {number}", self.table.name())
    }

    /// Names a line, and shows it.
    pub(super) fn at_line(&self, error: Error, number: usize, line: &str) -> Error {
        error.with_context(format!("{}: \"{}\"", self.at(number), shown(line)))
    }

    fn at_column(&self, error: Error, number: usize, target: &FieldTarget, field: &str) -> Error {
        error.with_context(format!("{}, column {}: \"{}\"", self.at(number), target.name, shown(field)))
    }
}

/// A field that cannot be read.
struct FieldError {
    error: Error,
    /// The field, if it could be cut off.
    field: Option<String>,
    /// Whether it is no value of its column's type, which may be a reason to leave out its row.
    is_no_value: bool,
}

impl FieldError {
    fn no_value(error: Error, field: &str) -> FieldError {
        const DATA_EXCEPTIONS: &str = "22";
        let is_no_value = error.state().code().starts_with(DATA_EXCEPTIONS);
        FieldError { error, field: Some(field.to_owned()), is_no_value }
    }
}

/// Reads lines on one thread. Keeps its memory from line to line.
pub(super) struct LineReader {
    shape: Arc<Shape>,
    scratch: Vec<u8>,
    row: InputRow,
    /// Rows that were left out.
    pub skipped: Skipped,
}

impl LineReader {
    pub(super) fn new(shape: Arc<Shape>) -> LineReader {
        LineReader { shape, scratch: Vec::new(), row: InputRow::default(), skipped: Skipped::default() }
    }

    /// Reads a line's fields, which are [`values`](Self::values) then; none if the row is left out.
    ///
    /// # Errors
    /// 22021, 22P04, and those of the columns' types, with the place in the data.
    fn read<'l>(&mut self, line: &'l [u8], number: usize) -> Result<Option<&'l str>> {
        let text = std::str::from_utf8(line).ok().filter(|text| memchr::memchr(0, text.as_bytes()).is_none());
        let text = text.ok_or_else(|| {
            let message = "invalid byte sequence for encoding \"UTF8\" in COPY data";
            Error::new(SqlState::CharacterNotInRepertoire, message).with_context(self.shape.at(number))
        })?;
        let mut row = std::mem::take(&mut self.row);
        let read = self.read_row(text, number, &mut row);
        self.row = row;
        read.map(|is_there| is_there.then_some(text))
    }

    /// The values of what was read last, column by column; `line` is what [`read`](Self::read) gave.
    pub(super) fn values<'a>(&'a self, line: &'a str) -> RowValues<'a> {
        self.row.values(line)
    }

    /// Reads a line and stores its values; whether it was not left out. Errors of both name the line.
    pub(super) fn fill(
        &mut self,
        line: &[u8],
        number: usize,
        store: impl FnOnce(RowValues<'_>) -> Result<()>,
    ) -> Result<bool> {
        let Some(text) = self.read(line, number)? else { return Ok(false) };
        if !self.is_stored(text).map_err(|error| self.shape.at_line(error, number, text))? {
            return Ok(false);
        }
        store(self.values(text)).map_err(|error| self.shape.at_line(error, number, text))?;
        Ok(true)
    }

    /// Whether the row that was read last is to be stored; `line` is what [`read`](Self::read) gave.
    pub(super) fn is_stored(&self, line: &str) -> Result<bool> {
        let Some(condition) = &self.shape.condition else { return Ok(true) };
        let Defaults { now, interrupt, sequences, .. } = &self.shape.defaults;
        condition::is_met(condition, self.values(line), (*now, interrupt, sequences))
    }

    /// Begins a row whose values are elsewhere: what it has here are those of columns that get their defaults.
    pub(super) fn begin(&mut self, number: usize) -> Result<()> {
        let shape = &*self.shape;
        self.row.begin(shape.table.columns().len());
        shape.defaults.put_into(&mut self.row).map_err(|error| error.with_context(shape.at(number)))
    }

    /// Takes a row that was read already.
    pub(super) fn take(&mut self, values: Vec<Value>, number: usize) -> Result<()> {
        let shape = &*self.shape;
        self.row.begin(shape.table.columns().len());
        shape.defaults.put_into(&mut self.row)?;
        for (target, value) in shape.columns.iter().zip(values) {
            let assigned = if value.is_null() { Ok(value) } else { assign(value, target.data_type) };
            let at =
                |error: Error| error.with_context(format!("{}, column {}", shape.at(number), target.name));
            self.row.set(target.position, assigned.map_err(at)?);
        }
        Ok(())
    }

    /// Whether the row is not left out.
    fn read_row(&mut self, line: &str, number: usize, row: &mut InputRow) -> Result<bool> {
        let shape = self.shape.clone();
        row.begin(shape.table.columns().len());
        shape.defaults.put_into(row)?;
        let mut rest = Some(line);
        let mut wrong = None;
        for target in &shape.columns {
            let before = rest.unwrap_or_default();
            let is_there = match shape.options.format {
                CopyFormat::Text | CopyFormat::Binary | CopyFormat::Parquet => {
                    self.read_text((&mut rest, line), target, row)
                }
                CopyFormat::Csv => self.read_csv((&mut rest, line), target, row),
            };
            match is_there {
                Ok(true) => {}
                Ok(false) => {
                    let message = format!("missing data for column \"{}\"", target.name);
                    let error = Error::new(SqlState::BadCopyFileFormat, message);
                    return Err(shape.at_line(error, number, line));
                }
                Err(FieldError { field: Some(field), is_no_value: true, .. })
                    if shape.options.on_error != OnError::Stop =>
                {
                    wrong = wrong.or(Some((target, field)));
                }
                Err(FieldError { error, field, .. }) => {
                    return Err(shape.at_column(error, number, target, field.as_deref().unwrap_or(before)));
                }
            }
        }
        if rest.is_some() {
            let error = Error::new(SqlState::BadCopyFileFormat, "extra data after last expected column");
            return Err(shape.at_line(error, number, line));
        }
        let Some((target, field)) = wrong else { return Ok(true) };
        let place = format!("{}, column {}: \"{}\"", shape.at(number), target.name, shown(&field));
        self.skipped.add(shape.options.on_error, place, || {
            let (name, field) = (&target.name, shown(&field));
            format!(
                "skipping row due to data type incompatibility at line {number} for column \"{name}\": \"{field}\""
            )
        });
        Ok(false)
    }

    /// Reads the next field; false if there is no further one.
    fn read_text(
        &mut self,
        (rest, line): (&mut Option<&str>, &str),
        target: &FieldTarget,
        row: &mut InputRow,
    ) -> Result<bool, FieldError> {
        let options = &self.shape.options;
        let Some(field) = text::next_field(rest, options.delimiter) else { return Ok(false) };
        if field != options.null {
            let text = text::unescape(field, &mut self.scratch).map_err(|error| FieldError {
                error,
                field: Some(field.to_owned()),
                is_no_value: false,
            })?;
            put_field(text, target, line, row).map_err(|error| FieldError::no_value(error, field))?;
        }
        Ok(true)
    }

    fn read_csv(
        &mut self,
        (rest, line): (&mut Option<&str>, &str),
        target: &FieldTarget,
        row: &mut InputRow,
    ) -> Result<bool, FieldError> {
        let options = &self.shape.options;
        let Some(field) = csv::next_field(rest, options, &mut self.scratch) else { return Ok(false) };
        let field = field.map_err(|error| FieldError { error, field: None, is_no_value: false })?;
        let may_be_null = if field.quoted { target.force_null } else { !target.force_not_null };
        if !may_be_null || field.text != options.null {
            put_field(field.text, target, line, row)
                .map_err(|error| FieldError::no_value(error, field.text))?;
        }
        Ok(true)
    }

    /// That a line has the names of the columns, in their order.
    ///
    /// # Errors
    /// 22P04 if it has not.
    pub(super) fn check_header(&mut self, line: &[u8]) -> Result<()> {
        let shape = self.shape.clone();
        let wrong =
            |message: String| Err(Error::new(SqlState::BadCopyFileFormat, message).with_context(shape.at(1)));
        let Ok(line) = std::str::from_utf8(line) else { return wrong("the header line is not UTF-8".into()) };
        let (mut rest, mut names) = (Some(line), Vec::new());
        while rest.is_some() {
            let field = match shape.options.format {
                CopyFormat::Text | CopyFormat::Binary | CopyFormat::Parquet => {
                    match text::next_field(&mut rest, shape.options.delimiter) {
                        Some(field) => text::unescape(field, &mut self.scratch).map(str::to_owned),
                        None => break,
                    }
                }
                CopyFormat::Csv => match csv::next_field(&mut rest, &shape.options, &mut self.scratch) {
                    Some(field) => field.map(|field| field.text.to_owned()),
                    None => break,
                },
            };
            names.push(field.map_err(|error| error.with_context(shape.at(1)))?);
        }
        if names.len() != shape.columns.len() {
            let (got, expected) = (names.len(), shape.columns.len());
            return wrong(format!("wrong number of fields in header line: got {got}, expected {expected}"));
        }
        for (at, (name, target)) in names.iter().zip(&shape.columns).enumerate() {
            if *name == shape.options.null {
                return wrong(format!(
                    "column name mismatch in header line field {}: got null value (\"{}\"), expected \"{}\"",
                    at + 1,
                    shape.options.null,
                    target.name
                ));
            }
            if *name != target.name {
                return wrong(format!(
                    "column name mismatch in header line field {}: got \"{name}\", expected \"{}\"",
                    at + 1,
                    target.name
                ));
            }
        }
        Ok(())
    }
}

/// Makes a field the value of its column; a column with a default has no field.
fn put_field(text: &str, target: &FieldTarget, line: &str, row: &mut InputRow) -> Result<()> {
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
