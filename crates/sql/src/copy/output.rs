//! COPY table TO STDOUT and COPY (query) TO STDOUT: a query's rows, written as lines.

use super::file::TargetFile;
use super::format_helpers::{FormatHelpers, Pieces, SHARE_ROWS};
use super::formatter::{Formatter, Lines};
use super::options::{CopyFormat, CopyOptions, HeaderLine};
use super::parquet::FileWriter;
use super::targets::check_copied;
use crate::name::{folded, identifier};
use crate::{Batch, Outcome, ResultRows, SqlSession, Statement};
use ankerdb_engine::{Catalog, ColumnDefinition, DataType, Error, Interrupt, Result, SqlState};
use datafusion::sql::sqlparser::ast::{self, CopySource, Ident, ObjectName};
use std::sync::Arc;

/// From so many bytes on other threads format, too.
const ALONE_BYTES: usize = 1 << 20;

/// COPY ... TO STDOUT under way.
pub struct CopyOut {
    rows: ResultRows,
    formatter: Arc<Formatter>,
    /// None until there is much to do.
    helpers: Option<FormatHelpers>,
    header: bool,
    file: Option<TargetFile>,
    /// What makes a Parquet file of the rows.
    parquet: Option<FileWriter>,
    count: usize,
    /// Rows that have come, and the first of them that nobody formats yet.
    batch: Arc<Batch>,
    next: usize,
    /// What this thread has formatted.
    bytes: usize,
    interrupt: Interrupt,
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
        Ok(CopyOut {
            header: options.header != HeaderLine::None,
            formatter: Arc::new(Formatter::new(rows.columns(), options)?),
            helpers: None,
            rows,
            file,
            parquet,
            count: 0,
            batch: Arc::default(),
            next: 0,
            bytes: 0,
            interrupt,
        })
    }

    /// The file that all is to be written to; none if it is the client's.
    pub fn take_file(&mut self) -> Option<TargetFile> {
        self.file.take()
    }

    /// Whether the caller writes values in the protocol's binary form, of [`next_rows`](Self::next_rows).
    pub fn is_binary(&self) -> bool {
        self.formatter.options().format == CopyFormat::Binary
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

    /// The next whole lines, or `None` at the end, with so much room before each. Sleeps until a query has rows for them.
    /// Other threads may still be at work on them, as they are on those that come after.
    ///
    /// # Errors
    /// The query's, and `QueryCanceled`.
    pub fn next_lines(&mut self, room: usize) -> Result<Option<Pieces>> {
        if std::mem::take(&mut self.header) {
            // What is there is not kept back until the query has rows.
            let mut lines = Lines::new(room);
            self.formatter.push_header(self.rows.columns(), &mut lines);
            return Ok(Some(Pieces::ready(lines)));
        }
        while self.next == self.batch.len() {
            let Some(batch) = self.rows.next_batch()? else { return Ok(None) };
            (self.batch, self.next) = (Arc::new(batch), 0);
        }
        let rows = self.next..self.batch.len().min(self.next + SHARE_ROWS);
        if self.bytes >= ALONE_BYTES {
            let start = || FormatHelpers::start(&self.formatter, &self.interrupt);
            let helpers = self.helpers.get_or_insert_with(start);
            if let Some(pieces) = helpers.give(&self.batch, rows.clone(), room) {
                self.count += rows.len();
                self.next = rows.end;
                return Ok(Some(pieces));
            }
        }
        let mut lines = Lines::new(room);
        let next = self.formatter.push_rows(&self.batch, rows, &mut lines, &self.interrupt)?;
        self.count += next - self.next;
        self.next = next;
        self.bytes = self.bytes.saturating_add(lines.bytes());
        Ok(Some(Pieces::ready(lines)))
    }

    /// The command tag `COPY n` once all was read.
    pub fn tag(&self) -> String {
        format!("COPY {}", self.count)
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
        as_of: None,
    }
}

/// 42809 for what is no table: its rows are those of a query.
fn check_table(catalog: &Catalog, table: &ObjectName) -> Result<()> {
    let Ok(name) = crate::name::object_name(table) else { return Ok(()) };
    let (kind, hint) = if catalog.view(&name).is_some() {
        ("view", Some("Try the COPY (SELECT ...) TO variant."))
    } else if catalog.sequence(&name).is_ok() {
        ("sequence", None)
    } else if catalog.table(&name).is_ok_and(|table| table.definition().materialized.is_some()) {
        ("materialized view", Some("Try the COPY (SELECT ...) TO variant."))
    } else {
        return Ok(());
    };
    let name = crate::name::dotted(table);
    let message = format!("cannot copy from {kind} \"{}\"", name.rsplit('.').next().unwrap_or_default());
    let error = Error::new(SqlState::WrongObjectType, message);
    Err(match hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    })
}

/// A table is read by a SELECT of the named columns, or of all.
fn select(session: &SqlSession, table: &ObjectName, columns: &[Ident]) -> Result<Statement> {
    let catalog = session.catalog();
    check_table(&catalog, table)?;
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
