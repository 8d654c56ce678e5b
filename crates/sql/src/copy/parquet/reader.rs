//! COPY FROM: a file's columns matched with the table's, and its rows, some thousand at a time.

use super::cells::{ParquetRows, cells, is_taken};
use super::source::{ParquetSource, has_old_moments, in_microseconds, readable};
use super::trust::{check_footer, check_pages};
use super::{MatchBy, malformed, unreadable};
use crate::copy::shape::Shape;
use crate::copy::targets::FieldTarget;
use crate::{Claim, MemoryLimit};
use ankerdb_engine::{Error, Interrupt, Result, SqlState};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::Schema;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::basic::Type as Physical;
use parquet::errors::ParquetError;
use parquet::file::metadata::{FileMetaData, ParquetMetaData, ParquetMetaDataReader};
use parquet::schema::types::SchemaDescriptor;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Rows that are read at a time, if they are short.
const BATCH_ROWS: usize = 8192;
/// Bytes that are read at a time, if the file tells the truth about them.
const BATCH_BYTES: u64 = 8 << 20;

/// What ends the reading of a file.
pub(in crate::copy) struct Bounds<'a> {
    pub limit: MemoryLimit,
    pub interrupt: &'a Interrupt,
}

/// A file that is being read.
pub(in crate::copy) struct FileReader {
    shape: Arc<Shape>,
    columns: Vec<Matched>,
    batches: ParquetRecordBatchReader,
    /// Rows before the next batch.
    rows: usize,
}

/// A column that is read.
struct Matched {
    /// Its place among the columns that are read.
    place: usize,
    /// Its place among the targets.
    target: usize,
    source: ParquetSource,
}

impl FileReader {
    /// Reads what is in the file. `are_named`: whether the statement names the columns.
    ///
    /// # Errors
    /// 22P04 for a file that is none, is damaged or has other columns, 42804 for a column of a type that the table's does not take,
    /// 53200 for a file whose pages there is no memory for.
    pub(in crate::copy) fn open(
        file: File,
        shape: Arc<Shape>,
        are_named: bool,
        bounds: &Bounds<'_>,
    ) -> Result<FileReader> {
        bounds.limit.check(Claim::Large, check_footer(&file)?)?;
        let (metadata, sources) = caught(|| describe(&file))?;
        let names: Vec<&str> = metadata.schema().fields().iter().map(|field| field.name().as_str()).collect();
        let mut places = match_columns(&shape, &names, are_named)?;
        for (target, &place) in shape.columns.iter().zip(&places) {
            check_taken(&shape, target, names[place], &sources[place])?;
        }
        let roots: Vec<usize> = places.clone();
        let mask =
            ProjectionMask::roots(metadata.metadata().file_metadata().schema_descr(), roots.iter().copied());
        let told = metadata.metadata();
        let is_read = |leaf: usize| mask.leaf_included(leaf);
        let pages = check_pages(&file, told, is_read, || bounds.interrupt.check())?;
        let padded = padded_bytes(told, is_read);
        let rows = batch_rows(told, padded);
        bounds.limit.check(Claim::Large, pages.saturating_add(padded.saturating_mul(rows)))?;
        let batches = caught(|| {
            ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata.clone())
                .with_projection(mask)
                .with_batch_size(rows)
                .build()
        })?;
        // What is read comes in the file's order.
        places.sort_unstable();
        let matched = |(target, root): (usize, usize)| Matched {
            place: places.binary_search(&root).unwrap_or_default(),
            target,
            source: sources[root].clone(),
        };
        let columns = roots.into_iter().enumerate().map(matched).collect();
        Ok(FileReader { shape, columns, batches, rows: 0 })
    }

    /// The next rows, or `None` at the end.
    ///
    /// # Errors
    /// 22P04 for damage, 58030, and those of values that the columns do not take, with their rows.
    pub(in crate::copy) fn next(&mut self) -> Result<Option<ParquetRows>> {
        let batches = &mut self.batches;
        let Some(batch) = caught(|| Ok(batches.next().transpose()?))? else { return Ok(None) };
        let rows = self.values(&batch)?;
        self.rows += rows.len();
        Ok(Some(rows))
    }

    fn values(&self, batch: &RecordBatch) -> Result<ParquetRows> {
        let shape = &self.shape;
        let mut columns: Vec<_> = shape.table.columns().iter().map(|_| None).collect();
        for Matched { place, target, source } in &self.columns {
            let target = &shape.columns[*target];
            let at = |(row, error): (usize, Error)| {
                error.with_context(format!("{}, column {}", shape.at(self.rows + row + 1), target.name))
            };
            columns[target.position] =
                Some(cells(source, target.data_type, batch.column(*place)).map_err(at)?);
        }
        Ok(ParquetRows { count: batch.num_rows(), columns })
    }
}

/// Calls the library, whose panics are about the file.
fn caught<T>(read: impl FnOnce() -> Result<T, ParquetError>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(read) => read.map_err(unreadable),
        Err(_) => Err(malformed("the data is damaged")),
    }
}

/// What is in a file, and what its columns are.
fn describe(file: &File) -> Result<(ArrowReaderMetadata, Vec<ParquetSource>), ParquetError> {
    let metadata = ParquetMetaDataReader::new().parse_and_finish(file)?;
    let told = metadata.file_metadata();
    let root = told.schema_descr().root_schema();
    let schema = Arc::new(SchemaDescriptor::new(Arc::new(readable(root)?)));
    let described = FileMetaData::new(
        told.version(),
        told.num_rows(),
        told.created_by().map(str::to_owned),
        None,
        schema,
        told.column_orders().cloned(),
    );
    let described = Arc::new(ParquetMetaData::new(described, metadata.row_groups().to_vec()));
    let plain = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let mut reader = ArrowReaderMetadata::try_new(described.clone(), plain)?;
    if has_old_moments(root) {
        let fields: Vec<_> = reader.schema().fields().iter().zip(root.get_fields()).collect();
        let fields = fields.into_iter().map(|(field, file)| match has_old_moments(file) {
            true => in_microseconds(&[field.clone()].into_iter().collect())[0].clone(),
            false => field.clone(),
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        reader = ArrowReaderMetadata::try_new(described, ArrowReaderOptions::new().with_schema(schema))?;
    }
    let columns = root.get_fields().iter().zip(reader.schema().fields());
    let sources = columns.map(|(file, arrow)| ParquetSource::of(file, arrow.data_type())).collect();
    Ok((reader, sources))
}

/// Rows that have some megabytes in the row group whose rows are the longest, and as they are padded.
fn batch_rows(metadata: &ParquetMetaData, padded: usize) -> usize {
    let longest = metadata.row_groups().iter().map(|group| {
        let bytes = u64::try_from(group.total_byte_size()).unwrap_or(0);
        bytes / u64::try_from(group.num_rows()).unwrap_or(0).max(1)
    });
    let longest = longest.max().unwrap_or(0).max(padded as u64);
    let rows = BATCH_BYTES / longest.max(1);
    usize::try_from(rows).unwrap_or(BATCH_ROWS).clamp(1, BATCH_ROWS)
}

/// The bytes of a row that are there even where it is NULL: those of columns of one length.
fn padded_bytes(metadata: &ParquetMetaData, is_read: impl Fn(usize) -> bool) -> usize {
    let columns = metadata.file_metadata().schema_descr().columns().iter().enumerate();
    let read = columns.filter(|(leaf, _)| is_read(*leaf));
    let lengths = read.map(|(_, column)| match column.physical_type() {
        Physical::FIXED_LEN_BYTE_ARRAY => usize::try_from(column.type_length()).unwrap_or(0),
        _ => 0,
    });
    lengths.fold(0, usize::saturating_add)
}

/// The place in the file of each target.
fn match_columns(shape: &Shape, names: &[&str], are_named: bool) -> Result<Vec<usize>> {
    let targets = &shape.columns;
    match shape.options.parquet.match_by {
        MatchBy::Position if names.len() == targets.len() => Ok((0..names.len()).collect()),
        MatchBy::Position => {
            let (has, expected) = (names.len(), targets.len());
            Err(refused(shape, format!("the Parquet file has {has} columns, expected {expected}")))
        }
        MatchBy::Name => {
            let places = targets.iter().map(|target| place_of(shape, &target.name, names));
            let places = places.collect::<Result<Vec<_>>>()?;
            let extra = names.iter().find(|name| targets.iter().all(|target| target.name != **name));
            match extra.filter(|_| !are_named) {
                None => Ok(places),
                Some(name) => {
                    let message = format!("the Parquet file has a column \"{name}\" that the table has not");
                    let hint = "Name the columns to load: COPY table (column, ...) FROM ....";
                    Err(refused(shape, message).with_hint(hint))
                }
            }
        }
    }
}

fn place_of(shape: &Shape, name: &str, names: &[&str]) -> Result<usize> {
    let mut found = names.iter().enumerate().filter(|(_, known)| **known == name);
    match (found.next(), found.next()) {
        (Some((place, _)), None) => Ok(place),
        (Some(_), Some(_)) => {
            Err(refused(shape, format!("the Parquet file has more than one column \"{name}\"")))
        }
        (None, _) => {
            let hint = "Name the columns to load, COPY table (column, ...) FROM ..., or match them by MATCH_BY position.";
            Err(refused(shape, format!("the Parquet file has no column \"{name}\"")).with_hint(hint))
        }
    }
}

fn refused(shape: &Shape, message: String) -> Error {
    let context = format!("COPY {}", shape.table.name());
    Error::new(SqlState::BadCopyFileFormat, message).with_context(context)
}

fn check_taken(shape: &Shape, target: &FieldTarget, name: &str, source: &ParquetSource) -> Result<()> {
    if is_taken(source, target.data_type) {
        return Ok(());
    }
    let (column, expected, found) = (&target.name, target.data_type, source.name());
    let message = format!(
        "column \"{column}\" is of type {expected} but column \"{name}\" of the Parquet file is of type {found}"
    );
    let context = format!("COPY {}", shape.table.name());
    Err(Error::new(SqlState::DatatypeMismatch, message).with_context(context))
}
