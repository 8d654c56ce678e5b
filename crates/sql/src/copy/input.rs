//! COPY table FROM STDIN.

use super::file::{SourceFile, open_source};
use super::lines::LineSplitter;
use super::options::{CopyFormat, CopyOptions, HeaderLine};
use super::parquet::{Bounds, FileReader, ParquetRows, Spool};
use super::parts::Parts;
use super::row::RowValues;
use super::shape::{Defaults, LineReader, Shape};
use super::skipped::Skipped;
use super::targets::targets;
use super::{condition, text};
use crate::name::not_supported;
use crate::{MemoryLimit, SqlSession};
use ankerdb_engine::{DataType, Error, Interrupt, Result, SqlState, Table, Transaction, Value};
use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use std::fs::File;
use std::sync::Arc;

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
    /// Where the data comes from, unless from the client.
    file: Option<SourceFile>,
    /// A Parquet file, which is read when all of it is there.
    whole: Option<Whole>,
}

/// Data that is not read piece by piece.
struct Whole {
    file: WholeFile,
    /// Whether the statement names the columns.
    are_named: bool,
    limit: MemoryLimit,
}

enum WholeFile {
    /// On the server.
    There(File),
    /// What the client has sent of it.
    Coming(Spool),
}

/// What becomes of each line.
struct Loader {
    shape: Arc<Shape>,
    reader: LineReader,
    interrupt: Interrupt,
    /// Lines seen, newlines inside of quotes counted.
    line: usize,
    /// Rows that this thread has stored.
    rows: usize,
    /// What the first line is, until it has come.
    header: HeaderLine,
    /// Whether the line that ends the data was seen.
    ended: bool,
    way: Way,
    /// The line of each row that was loaded by this thread: a key that is taken is found at the end.
    loaded_lines: Vec<u32>,
    /// Rows that were left out, but for those of parts.
    skipped: Skipped,
}

/// How rows are stored.
enum Way {
    /// One by one, and if there are many in whole blocks.
    Undecided,
    /// One by one.
    Inserts,
    /// In whole blocks, row by row.
    Loads,
    /// In whole blocks, by several threads.
    Parts(Box<Parts>),
}

impl CopyIn {
    pub(super) fn start(
        session: &mut SqlSession,
        table: &ObjectName,
        columns: &[Ident],
        options: CopyOptions,
        file: Option<&str>,
    ) -> Result<CopyIn> {
        let (name, catalog) = (crate::name::object_name(table)?, session.catalog());
        if let Some(view) = catalog.view(&name) {
            let message = format!("cannot copy to view \"{}\"", view.name);
            let hint = "To enable copying to a view, provide an INSTEAD OF INSERT trigger.";
            return Err(Error::new(SqlState::WrongObjectType, message).with_hint(hint));
        }
        let table = catalog.table(&name)?;
        crate::materialized_table::check_changeable(&table, "copy to")?;
        session.check_writable("COPY FROM")?;
        let are_named = !columns.is_empty();
        let columns = targets(&table, columns, &options)?;
        let defaults = Defaults::new(session, &table, &columns)?;
        let header = options.header;
        let condition =
            options.condition.as_deref().map(|text| condition::bound(text, &table)).transpose()?;
        if condition.is_some() && options.format == CopyFormat::Parquet {
            return Err(not_supported("COPY ... WHERE in PARQUET mode"));
        }
        let shape = Arc::new(Shape { table, options, columns, defaults, condition });
        let mut loader = Loader {
            reader: LineReader::new(shape.clone()),
            shape,
            interrupt: session.cancel_handle().interrupt().clone(),
            line: 0,
            rows: 0,
            header,
            ended: false,
            way: Way::Inserts,
            loaded_lines: Vec::new(),
            skipped: Skipped::default(),
        };
        let splitter = LineSplitter::new(&loader.shape.options);
        let (folder, options) = (session.copy_folder(), &loader.shape.options);
        let (mut source, mut whole) = (None, None);
        match (options.format, file) {
            (CopyFormat::Parquet, Some(name)) => {
                whole = Some(WholeFile::There(open_source(folder.as_deref(), name)?));
            }
            (CopyFormat::Parquet, None) => whole = Some(WholeFile::Coming(Spool::new()?)),
            (_, Some(name)) => {
                source = Some(SourceFile::open(folder.as_deref(), name, options.compression)?);
            }
            (_, None) => {}
        }
        let limit = session.engine().database().memory_limit();
        let whole = whole.map(|file| Whole { file, are_named, limit });
        let own = session.begin_own();
        // Within a block, what was loaded could not be read before its end.
        if own.as_ref().is_some_and(|own| own.can_load(&loader.shape.table)) {
            loader.way = Way::Undecided;
        }
        Ok(CopyIn { splitter, loader, own, file: source, whole })
    }

    /// The file that the data is to be read from and [`push`](Self::push)ed; none if the client sends it.
    pub fn take_file(&mut self) -> Option<SourceFile> {
        self.file.take()
    }

    /// Whether all data is there already: [`finish`](Self::finish) reads the file.
    pub fn has_data(&self) -> bool {
        matches!(self.whole, Some(Whole { file: WholeFile::There(_), .. }))
    }

    /// Whether the data is no text.
    pub fn is_bytes(&self) -> bool {
        self.is_binary() || self.whole.is_some()
    }

    /// Whether the data is in the protocol's binary form, whose rows the caller reads and hands to
    /// [`push_row`](Self::push_row).
    pub fn is_binary(&self) -> bool {
        self.loader.shape.options.format == CopyFormat::Binary
    }

    /// The types of a row's fields.
    pub fn types(&self) -> Vec<DataType> {
        self.loader.shape.columns.iter().map(|target| target.data_type).collect()
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
        self.loader.shape.columns.len()
    }

    /// Takes the next piece of data, cut anywhere. After an error the copy is over and nothing of it remains;
    /// an open transaction has failed.
    ///
    /// # Errors
    /// Those of a line that is no row of the table, and of the rows' insertion; 57014 if the statement is to end.
    pub fn push(&mut self, session: &mut SqlSession, data: &[u8]) -> Result<()> {
        let result = self.check_canceled(session).and_then(|()| self.load(session, data));
        session.tell_notices(self.loader.skipped().take_notices());
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
        if let Some(Whole { file: WholeFile::Coming(spool), .. }) = &mut self.whole {
            return spool.write(data);
        }
        self.splitter.push(data)?;
        let (splitter, loader) = (&mut self.splitter, &mut self.loader);
        in_transaction(session, &mut self.own, |transaction| loader.whole_lines(splitter, transaction))
    }

    /// Ends the copy when all data has come: stores the rows; in an open transaction, with its commit. Returns the
    /// command tag `COPY n`.
    ///
    /// # Errors
    /// Those of [`push`](Self::push), of foreign keys and of the commit.
    pub fn finish(mut self, session: &mut SqlSession) -> Result<String> {
        let (splitter, loader, whole) = (&mut self.splitter, &mut self.loader, self.whole.take());
        let result = in_transaction(session, &mut self.own, |transaction| {
            match whole {
                Some(whole) => loader.load_file(whole, transaction)?,
                None => loader.last_line(splitter, transaction)?,
            }
            transaction.check_constraints()
        });
        let stored = result.and_then(|()| match self.own.take() {
            Some(mut own) => own.commit().map(drop).map_err(|error| self.loader.at_refused(error, &own)),
            None => Ok(()),
        });
        let stored = stored.and_then(|()| session.after_statement());
        let on_error = self.loader.shape.options.on_error;
        session.tell_notices(self.loader.skipped().take_notices());
        if stored.is_ok() {
            session.tell_notices(self.loader.skipped().summary(on_error));
        }
        if let Err(error) = &stored {
            self.end(session, Some(error));
        }
        stored.map(|()| format!("COPY {}", self.loader.row_count()))
    }

    /// Ends the copy when the client gives up: nothing is stored, and an open transaction fails.
    pub fn fail(mut self, session: &mut SqlSession) {
        self.end(session, None);
    }

    /// Rolls back, or makes the open transaction fail.
    fn end(&mut self, session: &mut SqlSession, error: Option<&Error>) {
        self.loader.ended = true;
        // Helpers end before the transaction does, whose rows they make.
        self.loader.way = Way::Inserts;
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
        let last = match splitter.rest() {
            _ if self.ended => Ok(()),
            (_, true) => {
                let error = Error::new(SqlState::BadCopyFileFormat, "unterminated CSV quoted field");
                Err(error.with_context(self.shape.at(self.line + 1)))
            }
            ([], false) => Ok(()),
            (line, false) => self.line(line, transaction),
        };
        // An error of an earlier line is the one to tell.
        if let Way::Parts(parts) = &mut self.way {
            parts.finish(transaction)?;
        }
        last
    }

    fn line(&mut self, line: &[u8], transaction: &mut Transaction) -> Result<()> {
        self.line += 1;
        if self.ended {
            return Ok(());
        }
        match std::mem::replace(&mut self.header, HeaderLine::None) {
            HeaderLine::None => {}
            HeaderLine::Names => return Ok(()),
            HeaderLine::Match => return self.reader.check_header(line),
        }
        if line == text::END_OF_DATA.as_bytes() {
            self.ended = true;
            return Ok(());
        }
        if self.shape.options.format == CopyFormat::Csv {
            self.line += memchr::memchr_iter(b'\n', line).count();
        }
        self.choose_way();
        if let Way::Parts(parts) = &mut self.way {
            return parts.push(line, self.line, transaction);
        }
        let Loader { reader, shape, way, line: number, .. } = self;
        if reader.fill(line, *number, |values| store(&shape.table, values, way, transaction))? {
            return self.note_row();
        }
        let skipped = std::mem::take(&mut reader.skipped);
        self.skipped.append(skipped, shape.options.on_error)
    }

    /// Stores a row that was read already.
    fn store_row(&mut self, values: Vec<Value>, transaction: &mut Transaction) -> Result<()> {
        self.line += 1;
        self.choose_way();
        self.reader.take(values, self.line)?;
        if !self.reader.is_stored("").map_err(|error| error.with_context(self.shape.at(self.line)))? {
            return Ok(());
        }
        store(&self.shape.table, self.reader.values(""), &self.way, transaction)
            .map_err(|error| error.with_context(self.shape.at(self.line)))?;
        self.note_row()
    }

    /// Stores the rows of a Parquet file.
    fn load_file(&mut self, whole: Whole, transaction: &mut Transaction) -> Result<()> {
        let file = match whole.file {
            WholeFile::There(file) => file,
            WholeFile::Coming(spool) => spool.finish()?,
        };
        let bounds = Bounds { limit: whole.limit, interrupt: &self.interrupt };
        let mut file = FileReader::open(file, self.shape.clone(), whole.are_named, &bounds)?;
        loop {
            transaction.check_interrupt()?;
            let Some(rows) = file.next()? else { return Ok(()) };
            for row in 0..rows.len() {
                transaction.check_interrupt()?;
                self.line += 1;
                self.choose_way();
                self.store_from(&rows, row, transaction)?;
                self.note_row()?;
            }
        }
    }

    fn store_from(&mut self, rows: &ParquetRows, row: usize, transaction: &mut Transaction) -> Result<()> {
        self.reader.begin(self.line)?;
        let defaults = self.reader.values("");
        let value = |column: usize| rows.value(row, column).unwrap_or_else(|| defaults.value(column));
        let table = &self.shape.table;
        match self.way {
            Way::Loads => transaction.load(table, value),
            _ => {
                let values = (0..table.columns().len()).map(|column| value(column).to_value());
                transaction.insert(table, values.collect()).map(drop)
            }
        }
        .map_err(|error| error.with_context(self.shape.at(self.line)))
    }

    fn choose_way(&mut self) {
        if !matches!(self.way, Way::Undecided) || self.rows < LOADS_FROM {
            return;
        }
        let shape = &self.shape;
        self.way = Way::Loads;
        // Sequences count in the order of lines; and rows that come as values have been read already.
        if shape.defaults.are_constants()
            && !matches!(shape.options.format, CopyFormat::Binary | CopyFormat::Parquet)
        {
            let skipped = std::mem::take(&mut self.skipped);
            let mut parts = Parts::start(shape.clone(), self.interrupt.clone(), skipped);
            if parts.has_helpers() {
                self.way = Way::Parts(Box::new(parts));
            } else {
                self.skipped = std::mem::take(&mut parts.skipped);
            }
        }
    }

    /// Counts a row that this thread has stored.
    fn note_row(&mut self) -> Result<()> {
        self.rows += 1;
        if matches!(self.way, Way::Loads) {
            let room = self.loaded_lines.try_reserve(1);
            room.map_err(|_| Error::out_of_memory(self.loaded_lines.len() * size_of::<u32>()))?;
            self.loaded_lines.push(u32::try_from(self.line).unwrap_or(u32::MAX));
        }
        Ok(())
    }

    /// Rows that were left out.
    fn skipped(&mut self) -> &mut Skipped {
        match &mut self.way {
            Way::Parts(parts) => &mut parts.skipped,
            _ => &mut self.skipped,
        }
    }

    fn row_count(&self) -> usize {
        self.rows + if let Way::Parts(parts) = &self.way { parts.rows() } else { 0 }
    }

    /// Names the line of the row whose key was found to be taken in the end.
    fn at_refused(&self, error: Error, transaction: &Transaction) -> Error {
        let line = transaction.refused_row().and_then(|row| match &self.way {
            Way::Parts(parts) => parts.line_of(row),
            _ => self.loaded_lines.get(row).copied(),
        });
        match line {
            Some(line) => error.with_context(self.shape.at(line as usize)),
            None => error,
        }
    }
}

/// Stores a row.
fn store(table: &Arc<Table>, values: RowValues<'_>, way: &Way, transaction: &mut Transaction) -> Result<()> {
    match way {
        Way::Loads => transaction.load(table, |column| values.value(column)),
        _ => transaction.insert(table, values.to_values()).map(drop),
    }
}
