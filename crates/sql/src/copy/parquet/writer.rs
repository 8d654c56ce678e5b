//! COPY TO: a result as the bytes of a file, row group by row group.
//!
//! The file's schema is made when the first rows have come: a numeric that was computed has the digits that it has, which only its
//! values tell.

use super::arrays::{self, FileColumn};
use super::{Codec, ParquetOptions};
use crate::OutputColumn;
use crate::rows::Batch;
use ankerdb_engine::{Error, Interrupt, Result, SqlState};
use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::schema::types::{SchemaDescriptor, Type};
use std::collections::HashSet;
use std::sync::Arc;

/// A row group that reaches so many bytes ends, however few rows it has.
const GROUP_BYTES_MAX: usize = 64 << 20;
/// The most rows that are encoded at a time: between them the statement's interrupt is checked.
const STEP_ROWS: usize = 4096;
/// What is encoded at a time has about so many bytes at most, if it has more than one row.
const STEP_BYTES: usize = 8 << 20;

/// A file that is being written.
pub(in crate::copy) struct FileWriter {
    columns: Vec<FileColumn>,
    options: ParquetOptions,
    interrupt: Interrupt,
    state: State,
}

enum State {
    /// No rows have come.
    Empty,
    Open(SchemaRef, Box<ArrowWriter<Vec<u8>>>),
    Ended,
}

impl FileWriter {
    /// # Errors
    /// 0A000 for a result that no file holds, 42701 for two columns with one name.
    pub(in crate::copy) fn new(
        columns: &[OutputColumn],
        options: &ParquetOptions,
        interrupt: Interrupt,
    ) -> Result<FileWriter> {
        if columns.is_empty() {
            let message = "COPY without columns is not supported in PARQUET mode";
            return Err(Error::new(SqlState::FeatureNotSupported, message));
        }
        let mut names = HashSet::new();
        if let Some(twice) = columns.iter().find(|column| !names.insert(column.name.as_str())) {
            let message = format!("column name \"{}\" appears more than once", twice.name);
            let hint = "A Parquet file is read by names of columns: name them apart with AS.";
            return Err(Error::new(SqlState::DuplicateColumn, message).with_hint(hint));
        }
        let columns = columns.iter().map(FileColumn::new).collect::<Result<_>>()?;
        Ok(FileWriter { columns, options: options.clone(), interrupt, state: State::Empty })
    }

    /// Adds rows. Returns the bytes that are next in the file, if a row group was filled.
    ///
    /// # Errors
    /// 22003 and 22008 for values that the file's types do not have, 0A000 for arrays of several dimensions, `QueryCanceled`.
    pub(in crate::copy) fn push(&mut self, batch: &Batch) -> Result<Vec<u8>> {
        self.open(batch)?;
        let mut from = 0;
        while from < batch.len() {
            self.interrupt.check()?;
            let rows = arrays::step(&self.columns, batch, from, STEP_ROWS, STEP_BYTES);
            let arrays = arrays::arrays(&self.columns, batch, from, rows)?;
            self.write(arrays)?;
            from += rows;
        }
        self.take()
    }

    /// Ends the file. Returns its last bytes, and nothing when asked again.
    ///
    /// # Errors
    /// `QueryCanceled`.
    pub(in crate::copy) fn finish(&mut self) -> Result<Vec<u8>> {
        self.interrupt.check()?;
        self.open(&Batch::default())?;
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Open(_, writer) => writer.into_inner().map_err(unwritable),
            State::Empty | State::Ended => Ok(Vec::new()),
        }
    }

    fn open(&mut self, first: &Batch) -> Result<()> {
        if !matches!(self.state, State::Empty) {
            return Ok(());
        }
        for (at, column) in self.columns.iter_mut().enumerate() {
            column.fit(first, at);
        }
        let field = |column: &FileColumn| Field::new(&column.name, column.kind.arrow_type(), true);
        let schema = Arc::new(Schema::new(self.columns.iter().map(field).collect::<Vec<_>>()));
        let writer = self.writer(&schema).map_err(unwritable)?;
        self.state = State::Open(schema, Box::new(writer));
        Ok(())
    }

    fn writer(&self, schema: &SchemaRef) -> Result<ArrowWriter<Vec<u8>>, ParquetError> {
        let fields = self.columns.iter().map(|column| column.kind.file_type(&column.name).map(Arc::new));
        let root =
            Type::group_type_builder("schema").with_fields(fields.collect::<Result<_, _>>()?).build()?;
        let codec = match self.options.codec {
            Codec::Uncompressed => Compression::UNCOMPRESSED,
            Codec::Snappy => Compression::SNAPPY,
            Codec::Zstd => Compression::ZSTD(ZstdLevel::default()),
        };
        let properties = WriterProperties::builder()
            .set_compression(codec)
            .set_created_by(format!("ankerdb version {}", env!("CARGO_PKG_VERSION")))
            .set_max_row_group_row_count(Some(self.options.group_rows))
            .build();
        // Arrow's own description of the schema says nothing to others.
        let options = ArrowWriterOptions::new()
            .with_properties(properties)
            .with_skip_arrow_metadata(true)
            .with_parquet_schema(SchemaDescriptor::new(Arc::new(root)));
        ArrowWriter::try_new_with_options(Vec::new(), schema.clone(), options)
    }

    fn write(&mut self, arrays: Vec<ArrayRef>) -> Result<()> {
        let State::Open(schema, writer) = &mut self.state else {
            return Err(Error::internal("rows for a Parquet file that has ended"));
        };
        let batch = RecordBatch::try_new(schema.clone(), arrays)
            .map_err(|error| Error::internal(error.to_string()))?;
        writer.write(&batch).map_err(unwritable)?;
        if writer.memory_size() >= GROUP_BYTES_MAX {
            writer.flush().map_err(unwritable)?;
        }
        Ok(())
    }

    /// The bytes of row groups that have ended.
    fn take(&mut self) -> Result<Vec<u8>> {
        let State::Open(_, writer) = &mut self.state else { return Ok(Vec::new()) };
        // A buffer of the library's stands before ours.
        writer.sync().map_err(|error| Error::internal(error.to_string()))?;
        Ok(std::mem::take(writer.inner_mut()))
    }
}

/// Nothing that a result has may make the library fail.
fn unwritable(error: ParquetError) -> Error {
    Error::internal(format!("could not write Parquet data: {error}"))
}
