//! Result batches as they are read: cell by cell, in Arrow's memory.
//!
//! Nothing is copied: a [`Columns`] holds the batch's arrays, and a cell borrows from them. Types without a counterpart
//! in PostgreSQL are converted to one that it has when the batch arrives, a column at a time; only this can fail, so
//! that reading a cell cannot.

use crate::olap::labels::labels_of;
use ankerdb_engine::{EnumType, Error, PackedRef, PackedType, Result, SqlState, Value, ValueRef};
use ankerdb_value::{Decimal, Interval};
use datafusion::arrow::array::{
    Array, ArrayAccessor, ArrayRef, AsArray, BinaryArray, BinaryViewArray, BooleanArray, Date32Array,
    Decimal32Array, Decimal64Array, Decimal128Array, FixedSizeBinaryArray, Float32Array, Float64Array,
    Int16Array, Int32Array, Int64Array, IntervalMonthDayNanoArray, LargeBinaryArray, LargeStringArray,
    PrimitiveArray, RecordBatch, StringArray, StringViewArray, Time64MicrosecondArray,
    TimestampMicrosecondArray, TimestampNanosecondArray,
};
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType as ArrowType, Date32Type, Date64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, IntervalUnit, Time64NanosecondType, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};

/// The columns of one batch of a result.
pub(crate) struct Columns {
    columns: Vec<Column>,
    rows: usize,
}

/// One column, in a type that values have.
enum Column {
    Null,
    Boolean(BooleanArray),
    SmallInt(Int16Array),
    Integer(Int32Array),
    BigInt(Int64Array),
    Real(Float32Array),
    Double(Float64Array),
    Decimal32(Decimal32Array, u8),
    Decimal64(Decimal64Array, u8),
    Decimal128(Decimal128Array, u8),
    Text(StringArray),
    LargeText(LargeStringArray),
    TextView(StringViewArray),
    Date(Date32Array),
    Timestamp(TimestampMicrosecondArray),
    TimestampTz(TimestampMicrosecondArray),
    Time(Time64MicrosecondArray),
    Interval(IntervalMonthDayNanoArray),
    Bits(BinaryArray),
    Number(LargeBinaryArray),
    ByteaView(BinaryViewArray),
    FixedBytes(FixedSizeBinaryArray),
    Labels(TimestampNanosecondArray, EnumType),
}

impl Columns {
    /// Looks at the types of a batch. Costs some pointers for each column, and a pass over those of types that values do
    /// not have.
    ///
    /// # Errors
    /// 22003 and 22008 for numbers and times that no value has, 0A000 for a type that cannot even be written as text.
    pub(crate) fn new(batch: &RecordBatch) -> Result<Columns> {
        let columns = batch.columns().iter().map(column).collect::<Result<_>>()?;
        Ok(Columns { columns, rows: batch.num_rows() })
    }

    /// The number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// The number of columns.
    pub(crate) fn width(&self) -> usize {
        self.columns.len()
    }

    /// One cell. A few nanoseconds.
    #[inline]
    pub(crate) fn value(&self, row: usize, column: usize) -> ValueRef<'_> {
        self.columns[column].value(row)
    }

    /// One row as values of its own.
    pub(crate) fn row(&self, row: usize) -> Vec<Value> {
        self.columns.iter().map(|column| column.value(row).to_value()).collect()
    }
}

/// One array, read like a column of a result.
pub(crate) struct Cells(Column);

impl Cells {
    /// # Errors
    /// Those of [`Columns::new`].
    pub(crate) fn new(array: &ArrayRef) -> Result<Cells> {
        column(array).map(Cells)
    }

    /// The cell at a position.
    pub(crate) fn value(&self, row: usize) -> ValueRef<'_> {
        self.0.value(row)
    }
}

impl Column {
    fn value(&self, row: usize) -> ValueRef<'_> {
        let decimal = |unscaled: i128, scale: u8| ValueRef::Numeric(Decimal::new(unscaled, scale));
        match self {
            Column::Null => ValueRef::Null,
            Column::Boolean(array) => cell(array, row, ValueRef::Boolean),
            Column::SmallInt(array) => cell(array, row, ValueRef::SmallInt),
            Column::Integer(array) => cell(array, row, ValueRef::Integer),
            Column::BigInt(array) => cell(array, row, ValueRef::BigInt),
            Column::Real(array) => cell(array, row, ValueRef::Real),
            Column::Double(array) => cell(array, row, ValueRef::Double),
            Column::Decimal32(array, scale) => cell(array, row, |value| decimal(value.into(), *scale)),
            Column::Decimal64(array, scale) => cell(array, row, |value| decimal(value.into(), *scale)),
            Column::Decimal128(array, scale) => cell(array, row, |value| decimal(value, *scale)),
            Column::Text(array) => cell(array, row, ValueRef::Text),
            Column::LargeText(array) => cell(array, row, ValueRef::Text),
            Column::TextView(array) => cell(array, row, ValueRef::Text),
            Column::Date(array) => cell(array, row, ValueRef::Date),
            Column::Timestamp(array) => cell(array, row, ValueRef::Timestamp),
            Column::TimestampTz(array) => cell(array, row, ValueRef::TimestampTz),
            Column::Time(array) => cell(array, row, ValueRef::Time),
            Column::Interval(array) => cell(array, row, |value| {
                let microseconds = value.nanoseconds / 1000;
                ValueRef::Interval(Interval::new(value.months, value.days, microseconds))
            }),
            Column::Bits(array) => {
                cell(array, row, |bytes| ValueRef::Packed(PackedRef::new(PackedType::BITS, bytes)))
            }
            Column::Number(array) => cell(array, row, |bytes| ValueRef::Number(number_text(bytes))),
            Column::ByteaView(array) => cell(array, row, ValueRef::Bytea),
            Column::Labels(array, labels) => cell(array, row, |position| ValueRef::Enum(labels.at(position))),
            Column::FixedBytes(array) => cell(array, row, |bytes| match PackedType::by_width(bytes.len()) {
                Some(packed) => ValueRef::Packed(PackedRef::new(packed, bytes)),
                None => bytes.try_into().map_or(ValueRef::Bytea(bytes), ValueRef::Uuid),
            }),
        }
    }
}

/// The canonical text of a numeric of any length.
pub(crate) fn number_text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("a numeric is digits")
}

fn cell<'a, A: ArrayAccessor>(
    array: A,
    row: usize,
    value: impl FnOnce(A::Item) -> ValueRef<'a>,
) -> ValueRef<'a> {
    if array.is_null(row) { ValueRef::Null } else { value(array.value(row)) }
}

fn column(array: &ArrayRef) -> Result<Column> {
    Ok(match array.data_type() {
        ArrowType::Null => Column::Null,
        ArrowType::Boolean => Column::Boolean(array.as_boolean().clone()),
        ArrowType::Int8 => Column::SmallInt(widened::<Int8Type, Int16Type>(array)),
        ArrowType::Int16 => Column::SmallInt(array.as_primitive().clone()),
        ArrowType::Int32 => Column::Integer(array.as_primitive().clone()),
        ArrowType::Int64 => Column::BigInt(array.as_primitive().clone()),
        ArrowType::UInt8 => Column::SmallInt(widened::<UInt8Type, Int16Type>(array)),
        ArrowType::UInt16 => Column::Integer(widened::<UInt16Type, Int32Type>(array)),
        ArrowType::UInt32 => Column::BigInt(widened::<UInt32Type, Int64Type>(array)),
        ArrowType::UInt64 => Column::BigInt(
            converted::<UInt64Type, Int64Type>(array, |value| i64::try_from(value).ok())
                .ok_or_else(|| Error::new(SqlState::NumericValueOutOfRange, "bigint out of range"))?,
        ),
        ArrowType::Float32 => Column::Real(array.as_primitive().clone()),
        ArrowType::Float64 => Column::Double(array.as_primitive().clone()),
        ArrowType::Decimal32(_, scale) if *scale >= 0 => {
            Column::Decimal32(array.as_primitive().clone(), *scale as u8)
        }
        ArrowType::Decimal64(_, scale) if *scale >= 0 => {
            Column::Decimal64(array.as_primitive().clone(), *scale as u8)
        }
        ArrowType::Decimal128(_, scale) if *scale >= 0 => {
            Column::Decimal128(array.as_primitive().clone(), *scale as u8)
        }
        ArrowType::Date32 => Column::Date(array.as_primitive().clone()),
        ArrowType::Date64 => Column::Date(
            converted::<Date64Type, Date32Type>(array, |value| value.div_euclid(86_400_000).try_into().ok())
                .ok_or_else(|| Error::new(SqlState::DatetimeFieldOverflow, "date out of range"))?,
        ),
        labels if let Some(labels) = labels_of(labels) => {
            Column::Labels(array.as_primitive().clone(), labels)
        }
        ArrowType::Timestamp(unit, zone) => {
            let microseconds = microseconds(array, *unit)
                .ok_or_else(|| Error::new(SqlState::DatetimeFieldOverflow, "timestamp out of range"))?;
            match zone {
                Some(_) => Column::TimestampTz(microseconds),
                None => Column::Timestamp(microseconds),
            }
        }
        ArrowType::Time64(TimeUnit::Microsecond) => Column::Time(array.as_primitive().clone()),
        ArrowType::Time64(_) => {
            Column::Time(array.as_primitive::<Time64NanosecondType>().unary(|nanoseconds| nanoseconds / 1000))
        }
        ArrowType::Interval(IntervalUnit::MonthDayNano) => Column::Interval(array.as_primitive().clone()),
        ArrowType::Utf8 => Column::Text(array.as_string().clone()),
        ArrowType::LargeUtf8 => Column::LargeText(array.as_string().clone()),
        ArrowType::Utf8View => Column::TextView(array.as_string_view().clone()),
        ArrowType::Binary => Column::Bits(array.as_binary().clone()),
        ArrowType::LargeBinary => Column::Number(array.as_binary().clone()),
        ArrowType::BinaryView => Column::ByteaView(array.as_binary_view().clone()),
        ArrowType::FixedSizeBinary(_) => Column::FixedBytes(array.as_fixed_size_binary().clone()),
        _ => Column::Text(displayed(array)?),
    })
}

/// The column in a type that has room for all of its values.
fn widened<From, To>(array: &ArrayRef) -> PrimitiveArray<To>
where
    From: ArrowPrimitiveType,
    To: ArrowPrimitiveType,
    To::Native: std::convert::From<From::Native>,
{
    array.as_primitive::<From>().unary(To::Native::from)
}

/// The column in another type; `None` if one of its values has no place there.
fn converted<From, To>(
    array: &ArrayRef,
    convert: impl Fn(From::Native) -> Option<To::Native>,
) -> Option<PrimitiveArray<To>>
where
    From: ArrowPrimitiveType,
    To: ArrowPrimitiveType,
{
    array.as_primitive::<From>().try_unary(|value| convert(value).ok_or(())).ok()
}

fn microseconds(array: &ArrayRef, unit: TimeUnit) -> Option<TimestampMicrosecondArray> {
    type Micros = TimestampMicrosecondType;
    match unit {
        TimeUnit::Second => {
            converted::<TimestampSecondType, Micros>(array, |ticks| ticks.checked_mul(1_000_000))
        }
        TimeUnit::Millisecond => {
            converted::<TimestampMillisecondType, Micros>(array, |ticks| ticks.checked_mul(1000))
        }
        TimeUnit::Microsecond => Some(array.as_primitive().clone()),
        TimeUnit::Nanosecond => {
            converted::<TimestampNanosecondType, Micros>(array, |ticks| Some(ticks.div_euclid(1000)))
        }
    }
}

/// Types without a counterpart, as Arrow writes them.
fn displayed(array: &ArrayRef) -> Result<StringArray> {
    let options = FormatOptions::default();
    let formatter = ArrayFormatter::try_new(array.as_ref(), &options)
        .map_err(|error| Error::new(SqlState::FeatureNotSupported, error.to_string()))?;
    let text = |row: usize| match array.is_null(row) {
        true => Ok(None),
        false => formatter.value(row).try_to_string().map(Some),
    };
    let texts = (0..array.len()).map(text).collect::<std::result::Result<StringArray, _>>();
    texts.map_err(|error| Error::internal(error.to_string()))
}
