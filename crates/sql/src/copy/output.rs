//! COPY table TO STDOUT and COPY (query) TO STDOUT: a query's rows, written as lines.

use super::file::TargetFile;
use super::options::{CopyFormat, CopyOptions, HeaderLine};
use super::parquet::FileWriter;
use super::targets::check_copied;
use super::{csv, text};
use crate::name::{folded, identifier};
use crate::{Batch, Outcome, OutputColumn, ResultRows, SqlSession, Statement};
use ankerdb_engine::{ColumnDefinition, DataType, Error, Interrupt, Result, SqlState, ValueRef};
use ankerdb_value::format_text;
use datafusion::sql::sqlparser::ast::{self, CopySource, Ident, ObjectName};
use std::sync::Arc;

/// Lines of about so many bytes come at a time.
const PIECE_BYTES: usize = 256 * 1024;

/// COPY ... TO STDOUT under way.
pub struct CopyOut {
    rows: ResultRows,
    options: CopyOptions,
    fields: Vec<Field>,
    header: bool,
    file: Option<TargetFile>,
    /// What makes a Parquet file of the rows.
    parquet: Option<FileWriter>,
    count: usize,
    /// Rows that have come, and the first of them that is not written yet.
    batch: Batch,
    next: usize,
    scratch: String,
    interrupt: Interrupt,
}

/// How the values of a column are written.
struct Field {
    data_type: DataType,
    /// Whether they are quoted whatever they are.
    force_quote: bool,
    /// Whether nothing in them is ever quoted or escaped.
    is_plain: bool,
}

/// Some whole lines (in CSV: records), each behind room for what a protocol puts before it.
pub struct Lines {
    text: String,
    room: usize,
    /// Where each line ends.
    ends: Vec<usize>,
}

impl Lines {
    fn new(room: usize) -> Lines {
        Lines { text: String::with_capacity(PIECE_BYTES + PIECE_BYTES / 8), room, ends: Vec::new() }
    }

    /// The lines as they are sent: `head` fills the room before each, of which it is told the length.
    ///
    /// # Errors
    /// Those of `head`.
    pub fn framed(self, mut head: impl FnMut(&mut [u8], usize) -> Result<()>) -> Result<Vec<u8>> {
        let Lines { text, room, ends } = self;
        let mut bytes = text.into_bytes();
        let mut start = 0;
        for end in ends {
            head(&mut bytes[start..start + room], end - start - room)?;
            start = end;
        }
        Ok(bytes)
    }

    fn begin_line(&mut self) {
        self.text.extend(std::iter::repeat_n('\0', self.room));
    }

    fn end_line(&mut self) {
        self.text.push('\n');
        self.ends.push(self.text.len());
    }

    fn is_full(&self) -> bool {
        self.text.len() >= PIECE_BYTES
    }
}

impl CopyOut {
    pub(super) fn start(
        session: &mut SqlSession,
        source: &CopySource,
        options: CopyOptions,
        file: Option<&str>,
    ) -> Result<CopyOut> {
        let statement = match source {
            CopySource::Query(query) => statement_of(query.clone()),
            CopySource::Table { table_name, columns } => select(session, table_name, columns)?,
        };
        let prepared = session.prepare(statement, &[])?;
        let create = |name: &str| match options.format {
            CopyFormat::Parquet => TargetFile::replace(session.copy_folder().as_deref(), name),
            _ => TargetFile::create(session.copy_folder().as_deref(), name, options.compression),
        };
        let file = file.map(create).transpose()?;
        match session.execute(&prepared, &[])? {
            Outcome::Rows(rows) => {
                CopyOut::new(rows, options, session.cancel_handle().interrupt().clone(), file)
            }
            _ => Err(Error::new(SqlState::FeatureNotSupported, "COPY query must return rows")),
        }
    }

    fn new(
        rows: ResultRows,
        options: CopyOptions,
        interrupt: Interrupt,
        file: Option<TargetFile>,
    ) -> Result<CopyOut> {
        let parquet = match options.format {
            CopyFormat::Parquet => {
                Some(FileWriter::new(rows.columns(), &options.parquet, interrupt.clone())?)
            }
            _ => None,
        };
        let forced = forced(rows.columns(), &options.force_quote)?;
        let field = |(column, force_quote): (&OutputColumn, bool)| Field {
            data_type: column.data_type,
            force_quote: force_quote || options.force_quote_all,
            is_plain: !force_quote && !options.force_quote_all && is_plain(column.data_type, &options),
        };
        let fields = rows.columns().iter().zip(forced).map(field).collect();
        let (header, batch) = (options.header != HeaderLine::None, Batch::default());
        let scratch = String::new();
        Ok(CopyOut {
            rows,
            options,
            fields,
            header,
            file,
            parquet,
            count: 0,
            batch,
            next: 0,
            scratch,
            interrupt,
        })
    }

    /// The file that all is to be written to; none if it is the client's.
    pub fn take_file(&mut self) -> Option<TargetFile> {
        self.file.take()
    }

    /// Whether the caller writes values in the protocol's binary form, of [`next_rows`](Self::next_rows).
    pub fn is_binary(&self) -> bool {
        self.options.format == CopyFormat::Binary
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

    /// Whether the data is a file, whose pieces [`next_piece`](Self::next_piece) gives.
    pub fn is_file(&self) -> bool {
        self.parquet.is_some()
    }

    /// The next bytes of the file, or `None` at its end. Sleeps until a query has rows for them.
    ///
    /// # Errors
    /// The query's, those of values that such a file cannot hold, and `QueryCanceled`.
    pub fn next_piece(&mut self) -> Result<Option<Vec<u8>>> {
        let Some(writer) = &mut self.parquet else { return Ok(None) };
        loop {
            self.interrupt.check()?;
            let Some(rows) = self.rows.next_batch()? else { break };
            self.count += rows.len();
            let bytes = writer.push(&rows)?;
            if !bytes.is_empty() {
                return Ok(Some(bytes));
            }
        }
        let last = writer.finish()?;
        Ok((!last.is_empty()).then_some(last))
    }

    /// Fails if the statement was canceled or has run out of time.
    ///
    /// # Errors
    /// `QueryCanceled`.
    pub fn check(&self) -> Result<()> {
        self.interrupt.check()
    }

    /// Fields of a line.
    pub fn column_count(&self) -> usize {
        self.rows.columns().len()
    }

    /// The next whole lines, or `None` at the end, with so much room before each. Sleeps until a query has them.
    ///
    /// # Errors
    /// The query's, and `QueryCanceled`.
    pub fn next_lines(&mut self, room: usize) -> Result<Option<Lines>> {
        let mut lines = Lines::new(room);
        if std::mem::take(&mut self.header) {
            self.push_header(&mut lines);
        }
        // What is there is not kept back until the query has more.
        while lines.ends.is_empty() {
            if self.next == self.batch.len() {
                let Some(batch) = self.rows.next_batch()? else { return Ok(None) };
                (self.batch, self.next) = (batch, 0);
            }
            let mut scratch = std::mem::take(&mut self.scratch);
            while self.next < self.batch.len() && !lines.is_full() {
                self.interrupt.check()?;
                self.push_row(self.next, &mut lines, &mut scratch);
                (self.next, self.count) = (self.next + 1, self.count + 1);
            }
            self.scratch = scratch;
        }
        Ok(Some(lines))
    }

    /// The command tag `COPY n` once all was read.
    pub fn tag(&self) -> String {
        format!("COPY {}", self.count)
    }

    fn push_header(&self, lines: &mut Lines) {
        lines.begin_line();
        for (at, column) in self.rows.columns().iter().enumerate() {
            self.push_delimiter(at, &mut lines.text);
            self.push_field(&column.name, false, &mut lines.text);
        }
        lines.end_line();
    }

    /// Writes a row of the batch. Cells are asked for one by one: through iterators, moving them took most of the time.
    fn push_row(&self, row: usize, lines: &mut Lines, scratch: &mut String) {
        lines.begin_line();
        for (at, field) in self.fields.iter().enumerate() {
            self.push_delimiter(at, &mut lines.text);
            let value = self.batch.cell(row, at);
            match &value {
                ValueRef::Null => lines.text.push_str(&self.options.null),
                ValueRef::Text(text) if !matches!(field.data_type, DataType::Char(_)) => {
                    self.push_field(text, field.force_quote, &mut lines.text);
                }
                _ if field.is_plain => format_text(value, field.data_type, &mut lines.text),
                _ => {
                    scratch.clear();
                    format_text(value, field.data_type, scratch);
                    self.push_field(scratch, field.force_quote, &mut lines.text);
                }
            }
        }
        lines.end_line();
    }

    fn push_field(&self, value: &str, force_quote: bool, out: &mut String) {
        match self.options.format {
            CopyFormat::Text | CopyFormat::Binary | CopyFormat::Parquet => {
                text::escape(value, self.options.delimiter, out)
            }
            CopyFormat::Csv => csv::push_field(value, force_quote, &self.options, out),
        }
    }

    fn push_delimiter(&self, at: usize, out: &mut String) {
        if at > 0 {
            out.push(char::from(self.options.delimiter));
        }
    }
}

/// Whether the texts of a type's values never have to be quoted or escaped: they are letters, digits and signs, none of which
/// the usual delimiters are.
fn is_plain(data_type: DataType, options: &CopyOptions) -> bool {
    let is_usual = matches!(options.delimiter, b'\t' | b',' | b';' | b'|');
    let is_unquoted = options.format != CopyFormat::Csv
        || (options.null.is_empty() && matches!(options.quote, b'"' | b'\''));
    let has_signs_only = matches!(
        data_type,
        DataType::Boolean
            | DataType::SmallInt
            | DataType::Integer
            | DataType::BigInt
            | DataType::Numeric { .. }
            | DataType::Real
            | DataType::DoublePrecision
            | DataType::Date
            | DataType::Timestamp(_)
            | DataType::TimestampTz(_)
            | DataType::Time(_)
            | DataType::Uuid
    );
    is_usual && is_unquoted && has_signs_only
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
        as_of: None,
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
