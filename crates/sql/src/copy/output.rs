//! COPY table TO STDOUT and COPY (query) TO STDOUT: a query's rows, written as lines.

use super::input::check_copied;
use super::options::{CopyOptions, Format};
use super::{csv, text};
use crate::name::{folded, identifier};
use crate::{Batch, Outcome, OutputColumn, ResultRows, SqlSession, Statement};
use ankerdb_engine::{ColumnDefinition, DataType, Error, Interrupt, Result, SqlState, ValueRef};
use ankerdb_value::format_text;
use datafusion::sql::sqlparser::ast::{self, CopySource, Ident, ObjectName};
use std::sync::Arc;

/// COPY ... TO STDOUT under way.
pub struct CopyOut {
    rows: ResultRows,
    options: CopyOptions,
    /// Which columns are quoted whatever they hold.
    force_quote: Vec<bool>,
    header: bool,
    count: usize,
    scratch: String,
    interrupt: Interrupt,
}

/// Some whole lines (in CSV: records).
#[derive(Default)]
pub struct Lines {
    bytes: Vec<u8>,
    /// Where each line ends.
    ends: Vec<usize>,
}

impl Lines {
    /// One line after the other, each with its end.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.bytes[start..end])
    }

    fn end_line(&mut self) {
        self.bytes.push(b'\n');
        self.ends.push(self.bytes.len());
    }
}

impl CopyOut {
    pub(super) fn start(
        session: &mut SqlSession,
        source: &CopySource,
        options: CopyOptions,
    ) -> Result<CopyOut> {
        let statement = match source {
            CopySource::Query(query) => statement_of(query.clone()),
            CopySource::Table { table_name, columns } => select(session, table_name, columns)?,
        };
        let prepared = session.prepare(statement, &[])?;
        match session.execute(&prepared, &[])? {
            Outcome::Rows(rows) => CopyOut::new(rows, options, session.cancel_handle().interrupt().clone()),
            _ => Err(Error::new(SqlState::FeatureNotSupported, "COPY query must return rows")),
        }
    }

    fn new(rows: ResultRows, options: CopyOptions, interrupt: Interrupt) -> Result<CopyOut> {
        let force_quote = forced(rows.columns(), &options.force_quote)?;
        let header = options.header;
        Ok(CopyOut { rows, options, force_quote, header, count: 0, scratch: String::new(), interrupt })
    }

    /// Whether the caller writes values in the protocol's binary form, of [`next_rows`](Self::next_rows).
    pub fn is_binary(&self) -> bool {
        self.options.format == Format::Binary
    }

    /// The types of the columns.
    pub fn types(&self) -> Vec<DataType> {
        self.rows.columns().iter().map(|column| column.data_type).collect()
    }

    /// The next rows, or `None` at the end. Sleeps until a query has them.
    ///
    /// # Errors
    /// The query's, and `QueryCanceled`.
    pub fn next_rows(&mut self) -> Result<Option<Batch>> {
        self.interrupt.check()?;
        let rows = self.rows.next_batch()?;
        self.count += rows.as_ref().map_or(0, Batch::len);
        Ok(rows)
    }

    /// Fields of a line.
    pub fn column_count(&self) -> usize {
        self.rows.columns().len()
    }

    /// The next whole lines, or `None` at the end. Sleeps until a query has them.
    pub fn next_lines(&mut self) -> Result<Option<Lines>> {
        let mut lines = Lines::default();
        if std::mem::take(&mut self.header) {
            self.push_header(&mut lines);
            return Ok(Some(lines));
        }
        let Some(rows) = self.rows.next_batch()? else { return Ok(None) };
        for row in 0..rows.len() {
            self.interrupt.check()?;
            self.push_row(rows.cells(row), &mut lines);
        }
        self.count += rows.len();
        Ok(Some(lines))
    }

    /// The command tag `COPY n` once all was read.
    pub fn tag(&self) -> String {
        format!("COPY {}", self.count)
    }

    fn push_header(&self, lines: &mut Lines) {
        for (at, column) in self.rows.columns().iter().enumerate() {
            self.push_field(at, &column.name, false, &mut lines.bytes);
        }
        lines.end_line();
    }

    fn push_row<'a>(&mut self, row: impl Iterator<Item = ValueRef<'a>>, lines: &mut Lines) {
        let mut scratch = std::mem::take(&mut self.scratch);
        for (at, value) in row.enumerate() {
            if value.is_null() {
                self.push_null(at, &mut lines.bytes);
                continue;
            }
            scratch.clear();
            format_text(value, self.rows.columns()[at].data_type, &mut scratch);
            self.push_field(at, &scratch, self.force_quote[at], &mut lines.bytes);
        }
        self.scratch = scratch;
        lines.end_line();
    }

    fn push_null(&self, at: usize, out: &mut Vec<u8>) {
        self.push_delimiter(at, out);
        out.extend_from_slice(self.options.null.as_bytes());
    }

    fn push_field(&self, at: usize, value: &str, force_quote: bool, out: &mut Vec<u8>) {
        self.push_delimiter(at, out);
        match self.options.format {
            Format::Text | Format::Binary => text::escape(value, self.options.delimiter, out),
            Format::Csv => csv::push_field(value, force_quote, &self.options, out),
        }
    }

    fn push_delimiter(&self, at: usize, out: &mut Vec<u8>) {
        if at > 0 {
            out.push(self.options.delimiter);
        }
    }
}

/// The query as a statement of its own.
fn statement_of(query: Box<ast::Query>) -> Statement {
    let sql = query.to_string().into();
    Statement {
        ast: Some(Arc::new(ast::Statement::Query(query))),
        command: None,
        sql,
        before: 0,
        names: Arc::default(),
    }
}

/// A table is read by a SELECT of the named columns, or of all.
fn select(session: &SqlSession, table: &ObjectName, columns: &[Ident]) -> Result<Statement> {
    let catalog = session.catalog();
    let definitions = crate::name::object_name(table).and_then(|name| catalog.table(&name));
    let definitions = definitions.as_ref().map_or(&[][..], |table| table.columns());
    let is_computed = |column: &&ColumnDefinition| column.generation.is_some();
    let columns = match columns {
        [] if definitions.iter().any(|column| is_computed(&column)) => {
            let copied = definitions.iter().filter(|column| !is_computed(column));
            let names: Vec<String> = copied.map(|column| identifier(&column.name).to_string()).collect();
            names.join(", ")
        }
        [] => "*".to_owned(),
        columns => {
            let is_named =
                |column: &&ColumnDefinition| columns.iter().any(|name| folded(name) == column.name);
            definitions.iter().filter(is_named).try_for_each(check_copied)?;
            columns.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        }
    };
    let mut statements = session.parse(&format!("SELECT {columns} FROM {table}"))?;
    statements.pop().ok_or_else(|| Error::internal("COPY TO without a query"))
}

fn forced(columns: &[OutputColumn], names: &[Ident]) -> Result<Vec<bool>> {
    let mut forced = vec![false; columns.len()];
    for name in names {
        let name = crate::name::folded(name);
        match columns.iter().position(|column| column.name == name) {
            Some(at) => forced[at] = true,
            None => return Err(crate::name::undefined_column(&name)),
        }
    }
    Ok(forced)
}
