//! The arrays of a file, made of a result's.
//!
//! Columns of analytical results mostly lie as a file wants them, and are handed over as they are. The others, and rows of the
//! OLTP path, are read cell by cell.

use super::kind::{INTERVAL_BYTES, ParquetKind};
use crate::OutputColumn;
use crate::rows::Batch;
use ankerdb_engine::{DataType, Decimal, Error, Result, SqlState, Value, ValueRef};
use ankerdb_value::{Interval, MAX_NUMERIC_PRECISION, cast, format_text, parse_text};
use datafusion::arrow::array::{
    ArrayBuilder, ArrayRef, AsArray, BinaryViewBuilder, BooleanBuilder, Date32Builder, Decimal128Builder,
    FixedSizeBinaryBuilder, Float32Builder, Float64Builder, Int16Builder, Int32Builder, Int64Builder,
    ListArray, StringViewBuilder, Time64MicrosecondBuilder, TimestampMicrosecondArray,
    TimestampMicrosecondBuilder,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::datatypes::{DataType as ArrowType, Date32Type, TimestampMicrosecondType};
use std::sync::Arc;

/// A column of a file.
pub(super) struct FileColumn {
    pub name: String,
    pub data_type: DataType,
    pub kind: ParquetKind,
}

impl FileColumn {
    /// # Errors
    /// 0A000 for a type that no file has.
    pub(super) fn new(column: &OutputColumn) -> Result<FileColumn> {
        let in_column = |error: Error| error.with_context(format!("COPY column {}", column.name));
        let kind = ParquetKind::of(column.data_type).map_err(in_column)?;
        Ok(FileColumn { name: column.name.clone(), data_type: column.data_type, kind })
    }

    /// Gives a decimal the digits that the first rows have.
    pub(super) fn fit(&mut self, first: &Batch, at: usize) {
        let ParquetKind::Decimal { precision, scale } = &mut self.kind else { return };
        let longest = match first.array(at).map(|array| array.data_type()) {
            Some(ArrowType::Decimal128(_, scale)) => u8::try_from(*scale).ok(),
            Some(_) => None,
            None => (0..first.len()).filter_map(|row| scale_of(first.cell(row, at))).max(),
        };
        if let Some(longest) = longest.filter(|longest| longest > scale) {
            (*precision, *scale) = (MAX_NUMERIC_PRECISION, longest);
        }
    }

    fn has_long_values(&self) -> bool {
        matches!(
            self.kind,
            ParquetKind::Text | ParquetKind::Document | ParquetKind::Bytes | ParquetKind::List(_)
        )
    }
}

fn scale_of(value: ValueRef<'_>) -> Option<u8> {
    match value {
        ValueRef::Numeric(value) => Some(value.scale),
        _ => None,
    }
}

/// How many rows from one on are at most so many, and have at most so many bytes; at least one.
pub(super) fn step(columns: &[FileColumn], batch: &Batch, from: usize, rows: usize, bytes: usize) -> usize {
    let rows = rows.min(batch.len() - from);
    let long: Vec<usize> = (0..columns.len()).filter(|&at| columns[at].has_long_values()).collect();
    let mut sum = 0;
    for row in 0..rows {
        sum += long.iter().map(|&at| length(batch.cell(from + row, at))).sum::<usize>();
        if sum > bytes {
            return row.max(1);
        }
    }
    rows
}

fn length(value: ValueRef<'_>) -> usize {
    match value {
        ValueRef::Text(text) | ValueRef::Number(text) => text.len(),
        ValueRef::Bytea(bytes) => bytes.len(),
        ValueRef::Array(array) => array.as_bytes().len(),
        ValueRef::Packed(packed) => packed.bytes().len(),
        _ => 0,
    }
}

/// Rows as the arrays of a file.
///
/// # Errors
/// Those of values that a file's types do not have.
pub(super) fn arrays(
    columns: &[FileColumn],
    batch: &Batch,
    from: usize,
    rows: usize,
) -> Result<Vec<ArrayRef>> {
    let array = |(at, column): (usize, &FileColumn)| {
        if let Some(array) = batch.array(at)
            && let Some(lying) = lying(&array.slice(from, rows), column)
        {
            return Ok(lying);
        }
        let mut builder = Builder::new(&column.kind, rows);
        for row in from..from + rows {
            let pushed = builder.push(batch.cell(row, at), column.data_type);
            pushed.map_err(|error| error.with_context(format!("COPY column {}", column.name)))?;
        }
        Ok(builder.finish())
    };
    columns.iter().enumerate().map(array).collect()
}

/// An array that lies as the file wants it, or nearly.
fn lying(array: &ArrayRef, column: &FileColumn) -> Option<ArrayRef> {
    let (is, wanted) = (array.data_type(), column.kind.arrow_type());
    match column.kind {
        // Their blanks are not stored.
        ParquetKind::Text if matches!(column.data_type, DataType::Char(_)) => None,
        ParquetKind::Date if *is == wanted => {
            Some(Arc::new(array.as_primitive::<Date32Type>().unary::<_, Date32Type>(file_date)) as ArrayRef)
        }
        ParquetKind::Timestamp { .. } if matches!(is, ArrowType::Timestamp(unit, _) if wanted == ArrowType::Timestamp(*unit, None)) =>
        {
            let moments: TimestampMicrosecondArray =
                array.as_primitive::<TimestampMicrosecondType>().unary(file_moment);
            Some(Arc::new(moments))
        }
        ParquetKind::List(_) => None,
        _ => (*is == wanted).then(|| array.clone()),
    }
}

/// Days as DuckDB writes them, the one other program with infinite dates: `-infinity` is the opposite of `infinity`.
fn file_date(days: i32) -> i32 {
    days.max(-i32::MAX)
}

fn file_moment(microseconds: i64) -> i64 {
    microseconds.max(-i64::MAX)
}

/// An array that is made value by value.
enum Builder {
    Boolean(BooleanBuilder),
    SmallInt(Int16Builder),
    Integer(Int32Builder),
    BigInt(Int64Builder),
    Real(Float32Builder),
    Double(Float64Builder),
    Decimal(Decimal128Builder, u8, u8),
    Text(StringViewBuilder, String),
    Bytes(BinaryViewBuilder),
    Fixed(FixedSizeBinaryBuilder),
    Date(Date32Builder),
    Timestamp(TimestampMicrosecondBuilder),
    Time(Time64MicrosecondBuilder),
    List(Box<ListBuilder>),
}

struct ListBuilder {
    kind: ParquetKind,
    item_type: DataType,
    items: Builder,
    offsets: Vec<i32>,
    valid: Vec<bool>,
}

impl Builder {
    fn new(kind: &ParquetKind, rows: usize) -> Builder {
        match kind {
            ParquetKind::Boolean => Builder::Boolean(BooleanBuilder::with_capacity(rows)),
            ParquetKind::SmallInt => Builder::SmallInt(Int16Builder::with_capacity(rows)),
            ParquetKind::Integer => Builder::Integer(Int32Builder::with_capacity(rows)),
            ParquetKind::BigInt => Builder::BigInt(Int64Builder::with_capacity(rows)),
            ParquetKind::Real => Builder::Real(Float32Builder::with_capacity(rows)),
            ParquetKind::Double => Builder::Double(Float64Builder::with_capacity(rows)),
            ParquetKind::Decimal { precision, scale } => {
                let data_type = kind.arrow_type();
                let builder = Decimal128Builder::with_capacity(rows).with_data_type(data_type);
                Builder::Decimal(builder, *precision, *scale)
            }
            ParquetKind::Text | ParquetKind::Document => {
                Builder::Text(StringViewBuilder::with_capacity(rows), String::new())
            }
            ParquetKind::Bytes => Builder::Bytes(BinaryViewBuilder::with_capacity(rows)),
            ParquetKind::Uuid => Builder::Fixed(FixedSizeBinaryBuilder::with_capacity(rows, 16)),
            ParquetKind::Interval => {
                Builder::Fixed(FixedSizeBinaryBuilder::with_capacity(rows, INTERVAL_BYTES as i32))
            }
            ParquetKind::Date => Builder::Date(Date32Builder::with_capacity(rows)),
            ParquetKind::Timestamp { .. } => {
                Builder::Timestamp(TimestampMicrosecondBuilder::with_capacity(rows))
            }
            ParquetKind::Time => Builder::Time(Time64MicrosecondBuilder::with_capacity(rows)),
            ParquetKind::List(item) => Builder::List(Box::new(ListBuilder {
                kind: kind.clone(),
                item_type: item.list.item_type(),
                items: Builder::new(&item.kind, rows),
                offsets: vec![0],
                valid: Vec::with_capacity(rows),
            })),
        }
    }

    fn push_null(&mut self) {
        match self {
            Builder::Boolean(builder) => builder.append_null(),
            Builder::SmallInt(builder) => builder.append_null(),
            Builder::Integer(builder) => builder.append_null(),
            Builder::BigInt(builder) => builder.append_null(),
            Builder::Real(builder) => builder.append_null(),
            Builder::Double(builder) => builder.append_null(),
            Builder::Decimal(builder, ..) => builder.append_null(),
            Builder::Text(builder, _) => builder.append_null(),
            Builder::Bytes(builder) => builder.append_null(),
            Builder::Fixed(builder) => builder.append_null(),
            Builder::Date(builder) => builder.append_null(),
            Builder::Timestamp(builder) => builder.append_null(),
            Builder::Time(builder) => builder.append_null(),
            Builder::List(lists) => lists.end(false),
        }
    }

    fn push(&mut self, value: ValueRef<'_>, data_type: DataType) -> Result<()> {
        if value.is_null() {
            self.push_null();
            return Ok(());
        }
        match (&mut *self, value) {
            (Builder::Boolean(builder), ValueRef::Boolean(value)) => builder.append_value(value),
            (Builder::SmallInt(builder), ValueRef::SmallInt(value)) => builder.append_value(value),
            (Builder::Integer(builder), ValueRef::Integer(value)) => builder.append_value(value),
            (Builder::BigInt(builder), ValueRef::BigInt(value)) => builder.append_value(value),
            (Builder::Real(builder), ValueRef::Real(value)) => builder.append_value(value),
            (Builder::Double(builder), ValueRef::Double(value)) => builder.append_value(value),
            (Builder::Decimal(builder, precision, scale), ValueRef::Numeric(value)) => {
                builder.append_value(unscaled(value, *precision, *scale)?);
            }
            (Builder::Bytes(builder), ValueRef::Bytea(bytes)) => builder.append_value(bytes),
            (Builder::Fixed(builder), ValueRef::Uuid(bytes)) => append_fixed(builder, &bytes)?,
            (Builder::Fixed(builder), ValueRef::Interval(value)) => {
                append_fixed(builder, &interval_bytes(value)?)?;
            }
            (Builder::Date(builder), ValueRef::Date(days)) => builder.append_value(file_date(days)),
            (
                Builder::Timestamp(builder),
                ValueRef::Timestamp(microseconds) | ValueRef::TimestampTz(microseconds),
            ) => builder.append_value(file_moment(microseconds)),
            (Builder::Time(builder), ValueRef::Time(microseconds)) => builder.append_value(microseconds),
            (Builder::Text(builder, _), ValueRef::Text(text)) if !matches!(data_type, DataType::Char(_)) => {
                builder.append_value(text);
            }
            (Builder::Text(builder, scratch), value) => {
                scratch.clear();
                format_text(value, data_type, scratch);
                builder.append_value(scratch.as_str());
            }
            (Builder::List(lists), ValueRef::Array(array)) => {
                if !array.is_plain() {
                    return Err(not_plain());
                }
                for item in array.items() {
                    lists.items.push(item, lists.item_type)?;
                }
                lists.end(true);
            }
            // Analytical results have arrays as their texts.
            (Builder::List(_), ValueRef::Text(text)) => {
                let array = parse_text(data_type, text)?;
                return self.push(ValueRef::from(&array), data_type);
            }
            (_, value) => return self.push_other(value, data_type),
        }
        Ok(())
    }

    /// A value in another form than its column's type has.
    fn push_other(&mut self, value: ValueRef<'_>, data_type: DataType) -> Result<()> {
        let own = value.to_value();
        let name = own.type_name();
        let told = |value: &Value| std::mem::discriminant(value);
        let before = told(&own);
        let converted = cast(own, data_type)?;
        if told(&converted) == before {
            return Err(Error::internal(format!("a {name} in a Parquet column of type {data_type}")));
        }
        self.push(ValueRef::from(&converted), data_type)
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Builder::List(lists) => lists.finish(),
            other => other.plain().finish(),
        }
    }

    fn len(&mut self) -> usize {
        match self {
            Builder::List(lists) => lists.valid.len(),
            other => other.plain().len(),
        }
    }

    /// The library's builder, if it is no list.
    fn plain(&mut self) -> &mut dyn ArrayBuilder {
        match self {
            Builder::Boolean(builder) => builder,
            Builder::SmallInt(builder) => builder,
            Builder::Integer(builder) => builder,
            Builder::BigInt(builder) => builder,
            Builder::Real(builder) => builder,
            Builder::Double(builder) => builder,
            Builder::Decimal(builder, ..) => builder,
            Builder::Text(builder, _) => builder,
            Builder::Bytes(builder) => builder,
            Builder::Fixed(builder) => builder,
            Builder::Date(builder) => builder,
            Builder::Timestamp(builder) => builder,
            Builder::Time(builder) => builder,
            Builder::List(lists) => lists.items.plain(),
        }
    }
}

impl ListBuilder {
    /// Ends a list, whose items have been pushed.
    fn end(&mut self, is_there: bool) {
        self.offsets.push(self.items.len() as i32);
        self.valid.push(is_there);
    }

    fn finish(&mut self) -> ArrayRef {
        let ParquetKind::List(item) = &self.kind else { unreachable!("made of a list") };
        let offsets = OffsetBuffer::new(std::mem::replace(&mut self.offsets, vec![0]).into());
        let nulls = NullBuffer::from(std::mem::take(&mut self.valid));
        Arc::new(ListArray::new(Arc::new(item.field()), offsets, self.items.finish(), Some(nulls)))
    }
}

fn append_fixed(builder: &mut FixedSizeBinaryBuilder, bytes: &[u8]) -> Result<()> {
    builder.append_value(bytes).map_err(|error| Error::internal(error.to_string()))
}

/// # Errors
/// 22003 for digits that the column has no place for.
fn unscaled(value: Decimal, precision: u8, scale: u8) -> Result<i128> {
    let beyond = || {
        let message = format!("a numeric does not fit the Parquet column's DECIMAL({precision},{scale})");
        let hint = "Cast the column to a numeric with a precision and a scale, or to text.";
        Error::new(SqlState::NumericValueOutOfRange, message).with_hint(hint)
    };
    if value.scale > scale && value.rescale(scale).is_ok_and(|cut| cut.compare(value).is_ne()) {
        return Err(beyond());
    }
    let fitted = value.rescale(scale).map_err(|_| beyond())?.unscaled;
    match fitted.unsigned_abs() < 10_u128.pow(precision.into()) {
        true => Ok(fitted),
        false => Err(beyond()),
    }
}

/// # Errors
/// 22008 for parts that are negative or too small or large for the type that files have.
fn interval_bytes(interval: Interval) -> Result<[u8; INTERVAL_BYTES]> {
    let beyond = || {
        let message = "interval out of range for Parquet";
        let detail = "A Parquet file has months, days and milliseconds, each from 0 to 4294967295.";
        let hint = "Cast the column to text.";
        Error::new(SqlState::DatetimeFieldOverflow, message).with_detail(detail).with_hint(hint)
    };
    let months = u32::try_from(interval.months).map_err(|_| beyond())?;
    let days = u32::try_from(interval.days).map_err(|_| beyond())?;
    if interval.microseconds % 1000 != 0 {
        return Err(beyond());
    }
    let milliseconds = u32::try_from(interval.microseconds / 1000).map_err(|_| beyond())?;
    let mut bytes = [0; INTERVAL_BYTES];
    bytes[..4].copy_from_slice(&months.to_le_bytes());
    bytes[4..8].copy_from_slice(&days.to_le_bytes());
    bytes[8..].copy_from_slice(&milliseconds.to_le_bytes());
    Ok(bytes)
}

fn not_plain() -> Error {
    let message =
        "COPY of arrays of several dimensions, or that do not begin at 1, is not supported in PARQUET mode";
    Error::new(SqlState::FeatureNotSupported, message).with_hint("Cast the column to text.")
}
