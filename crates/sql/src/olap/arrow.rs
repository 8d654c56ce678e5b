//! Blocks as Arrow arrays, without copying.
//!
//! A row block keeps each column in Arrow's physical layout, so an array is only a description of memory that
//! the engine lends: pointer, length, validity bits, and the owner that keeps it unchanged while the array
//! lives. This is the only file of this crate with `unsafe` code, because Arrow cannot check foreign memory
//! itself.
//!
//! Words of the SAFETY notes: *lent* memory is a [`Bytes`]: it is never written while its owner lives, is
//! `length` bytes long, and its text is UTF-8 (the engine stores nothing else in a text column).
//!
//! Numerics have two forms. *Narrow* is the stored one (`Decimal32`, `Decimal64` or `Decimal128` by
//! precision) and is handed over as it lies. *Wide* is always `Decimal128`: DataFusion plans arithmetic,
//! comparison and coercion well only for that type (products of two `Decimal32` overflow, and a `Decimal32`
//! does not compare with a `bigint`), so plans are made over wide columns, and a column is narrowed where
//! nothing but our own aggregates looks at it (see `narrow.rs`).
//!
//! Strings of bits are `Binary`, and nothing else is.
//!
//! A numeric of any length is a `LargeBinary`, its canonical text, since nothing else here is one: a column tells its type by itself, and
//! no function of texts or bytes takes it for one of its own.
#![allow(unsafe_code)]

use super::labels;
use ankerdb_engine::{
    BlockImage, Bytes, ColumnImage, DataType, Error, ListType, Result, SqlState, SystemType,
};
use ankerdb_value::{Interval, MAX_NUMERIC_PRECISION};
use datafusion::arrow::array::types::IntervalMonthDayNano;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryViewArray, BooleanArray, Decimal32Array, Decimal64Array,
    Decimal128Array, FixedSizeBinaryArray, FixedSizeBinaryBuilder, Int64Array, LargeBinaryArray,
    PrimitiveArray, RecordBatch, RecordBatchOptions, StringViewArray,
};
use datafusion::arrow::buffer::{BooleanBuffer, Buffer, MutableBuffer, NullBuffer, ScalarBuffer};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType as ArrowType, Date32Type, Decimal32Type, Decimal64Type, Decimal128Type,
    Field, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, IntervalMonthDayNanoType, IntervalUnit,
    SchemaRef, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType, TimestampNanosecondType,
};
use datafusion::arrow::error::ArrowError;
use std::any::Any;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::NonNull;
use std::sync::Arc;

/// The time zone of every `timestamptz`: values are instants, shown in the session's zone by the client.
pub(crate) const UTC: &str = "+00:00";

/// The most digits of a numeric that is stored in 4 bytes.
const MAX_PRECISION_32: u8 = 9;
/// The most digits of a numeric that is stored in 8 bytes.
const MAX_PRECISION_64: u8 = 18;

/// The digits that Arrow has for a numeric of this precision.
pub(crate) fn digits(precision: u8) -> u8 {
    precision.min(MAX_NUMERIC_PRECISION)
}

/// The type that plans see: wide numerics.
pub(crate) fn wide_type(data_type: DataType) -> ArrowType {
    match data_type {
        DataType::Boolean => ArrowType::Boolean,
        DataType::SmallInt => ArrowType::Int16,
        DataType::Integer => ArrowType::Int32,
        DataType::BigInt => ArrowType::Int64,
        DataType::Real => ArrowType::Float32,
        DataType::DoublePrecision => ArrowType::Float64,
        DataType::Numeric { precision, scale } => ArrowType::Decimal128(digits(precision), scale as i8),
        DataType::Number => ArrowType::LargeBinary,
        DataType::Text | DataType::Varchar(_) | DataType::Char(_) => ArrowType::Utf8View,
        DataType::Json | DataType::Jsonb => ArrowType::Utf8View,
        DataType::Date => ArrowType::Date32,
        DataType::Timestamp(_) => ArrowType::Timestamp(TimeUnit::Microsecond, None),
        DataType::TimestampTz(_) => ArrowType::Timestamp(TimeUnit::Microsecond, Some(UTC.into())),
        DataType::Time(_) => ArrowType::Time64(TimeUnit::Microsecond),
        DataType::Interval(_) => ArrowType::Interval(IntervalUnit::MonthDayNano),
        DataType::Bytea => ArrowType::BinaryView,
        DataType::Uuid => ArrowType::FixedSizeBinary(16),
        DataType::Packed(packed) => match packed.width() {
            Some(width) => ArrowType::FixedSizeBinary(width as i32),
            None => ArrowType::Binary,
        },
        DataType::Enum(labels) => labels::arrow_type(labels),
        DataType::System(system) if system.is_number() => ArrowType::Int64,
        DataType::System(_) => ArrowType::Utf8View,
    }
}

/// The type that plans compute with: lists are lists, where results have their texts.
pub(crate) fn computed_type(data_type: DataType) -> ArrowType {
    match data_type {
        DataType::System(SystemType::List(list)) => ArrowType::List(Arc::new(item_field(list))),
        other => wide_type(other),
    }
}

/// The type of a column's values in plans: lists of numerics keep the digits of each item.
pub(crate) fn column_type(data_type: DataType) -> ArrowType {
    match data_type {
        DataType::System(SystemType::List(ListType::Numeric)) => {
            ArrowType::List(Arc::new(Field::new_list_field(wide_type(DataType::Number), true)))
        }
        other => computed_type(other),
    }
}

/// The items of a list.
pub(crate) fn item_field(list: ListType) -> Field {
    Field::new_list_field(wide_type(list.item_type()), true)
}

/// The type as it is stored: narrow numerics.
pub(crate) fn narrow_type(data_type: DataType) -> ArrowType {
    match data_type {
        DataType::Numeric { precision, scale } if precision <= MAX_PRECISION_32 => {
            ArrowType::Decimal32(precision, scale as i8)
        }
        DataType::Numeric { precision, scale } if precision <= MAX_PRECISION_64 => {
            ArrowType::Decimal64(precision, scale as i8)
        }
        other => column_type(other),
    }
}

/// The rows of a block that exist, in the types of `schema` (wide or narrow by column). Copies nothing but
/// numerics that are asked for wide; where rows do not exist, the others are copied together.
pub(crate) fn record_batch(image: BlockImage, types: &[DataType], schema: &SchemaRef) -> Result<RecordBatch> {
    identified_batch(image, types, schema, None)
}

/// The rows of a block as [`record_batch`] gives them, with their identities as the column at a position of `schema`
/// that the image and `types` lack.
pub(crate) fn identified_batch(
    image: BlockImage,
    types: &[DataType],
    schema: &SchemaRef,
    identities: Option<(usize, Vec<i64>)>,
) -> Result<RecordBatch> {
    let BlockImage { rows, selection, columns } = image;
    let (place, identities) = identities.unzip();
    let stored: Vec<&Arc<Field>> = schema
        .fields()
        .iter()
        .enumerate()
        .filter(|(at, _)| Some(*at) != place)
        .map(|(_, field)| field)
        .collect();
    if columns.len() != types.len() || stored.len() != types.len() {
        return Err(Error::internal("a block image has other columns than were asked for"));
    }
    let mut arrays = columns
        .into_iter()
        .zip(types)
        .zip(stored)
        .map(|((column, &data_type), field)| array(column, data_type, field.data_type(), rows))
        .collect::<Result<Vec<ArrayRef>>>()?;
    if let (Some(place), Some(identities)) = (place, identities) {
        arrays.insert(place, Arc::new(Int64Array::from(identities)));
    }
    let batch = batch_of(schema, arrays, rows)?;
    match selection {
        None => Ok(batch),
        Some(words) => {
            let selected =
                BooleanArray::new(BooleanBuffer::new(Buffer::from_vec(words.into_vec()), 0, rows), None);
            if schema.fields().is_empty() {
                return batch_of(schema, Vec::new(), selected.true_count());
            }
            filter_record_batch(&batch, &selected).map_err(|error| Error::internal(error.to_string()))
        }
    }
}

fn batch_of(schema: &SchemaRef, arrays: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema.clone(), arrays, &options)
        .map_err(|error| Error::internal(error.to_string()))
}

/// One column as an array of type `wanted`.
fn array(column: ColumnImage, data_type: DataType, wanted: &ArrowType, rows: usize) -> Result<ArrayRef> {
    // Kernels are quicker where there is no buffer at all.
    let nulls = column.validity.map(|bits| null_buffer(bits, rows)).transpose()?;
    let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
    let values = column.values;
    Ok(match data_type {
        DataType::Boolean => Arc::new(BooleanArray::new(bits(values, rows)?, nulls)),
        DataType::SmallInt => Arc::new(primitive::<Int16Type>(values, nulls, rows)?),
        DataType::Integer => Arc::new(primitive::<Int32Type>(values, nulls, rows)?),
        DataType::BigInt => Arc::new(primitive::<Int64Type>(values, nulls, rows)?),
        DataType::Real => Arc::new(primitive::<Float32Type>(values, nulls, rows)?),
        DataType::DoublePrecision => Arc::new(primitive::<Float64Type>(values, nulls, rows)?),
        DataType::Date => Arc::new(primitive::<Date32Type>(values, nulls, rows)?),
        DataType::Timestamp(_) => Arc::new(primitive::<TimestampMicrosecondType>(values, nulls, rows)?),
        DataType::TimestampTz(_) => {
            Arc::new(primitive::<TimestampMicrosecondType>(values, nulls, rows)?.with_timezone(UTC))
        }
        DataType::Time(_) => Arc::new(primitive::<Time64MicrosecondType>(values, nulls, rows)?),
        DataType::Enum(labels) => Arc::new(
            primitive::<TimestampNanosecondType>(values, nulls, rows)?.with_timezone(labels::zone(labels)),
        ),
        DataType::Interval(_) => Arc::new(intervals(primitive(values, nulls, rows)?)?),
        DataType::Numeric { precision, scale } => {
            return numeric(values, nulls, rows, digits(precision), scale as i8, wanted);
        }
        DataType::Uuid => {
            // This array, unlike the others, takes its length from the buffer's.
            let buffer = lent_buffer(values, rows * 16)?.slice_with_length(0, rows * 16);
            Arc::new(FixedSizeBinaryArray::new(16, buffer, nulls))
        }
        DataType::System(SystemType::List(list)) => {
            let (views, heaps) = views(values, column.heaps, rows)?;
            // SAFETY: a view of lent memory lies in its heap.
            let stored = unsafe { BinaryViewArray::new_unchecked(views, heaps, nulls) };
            return super::stored_list::lists(list, &stored);
        }
        DataType::System(system) if system.is_number() => {
            Arc::new(primitive::<Int64Type>(values, nulls, rows)?)
        }
        DataType::Text
        | DataType::Varchar(_)
        | DataType::Char(_)
        | DataType::Json
        | DataType::Jsonb
        | DataType::System(_) => {
            let (views, heaps) = views(values, column.heaps, rows)?;
            // SAFETY: a view of lent memory lies in its heap and is UTF-8; it is the engine that wrote both.
            Arc::new(unsafe { StringViewArray::new_unchecked(views, heaps, nulls) })
        }
        DataType::Number => {
            let (views, heaps) = views(values, column.heaps, rows)?;
            // SAFETY: a view of lent memory lies in its heap.
            let stored = unsafe { BinaryViewArray::new_unchecked(views, heaps, nulls) };
            Arc::new(LargeBinaryArray::from_iter(stored.iter()))
        }
        DataType::Packed(packed) => {
            let (views, heaps) = views(values, column.heaps, rows)?;
            // SAFETY: a view of lent memory lies in its heap.
            let stored = unsafe { BinaryViewArray::new_unchecked(views, heaps, nulls) };
            match packed.width() {
                Some(width) => Arc::new(padded(width, stored.iter())?),
                None => Arc::new(BinaryArray::from_iter(stored.iter())),
            }
        }
        DataType::Bytea => {
            let (views, heaps) = views(values, column.heaps, rows)?;
            // SAFETY: a view of lent memory lies in its heap.
            Arc::new(unsafe { BinaryViewArray::new_unchecked(views, heaps, nulls) })
        }
    })
}

/// Packed values, each with zeros up to the width of their type.
pub(crate) fn padded<'a>(
    width: usize,
    stored: impl ExactSizeIterator<Item = Option<&'a [u8]>>,
) -> Result<FixedSizeBinaryArray> {
    let mut padded = FixedSizeBinaryBuilder::with_capacity(stored.len(), width as i32);
    let mut whole = vec![0; width];
    for value in stored {
        let Some(bytes) = value else {
            padded.append_null();
            continue;
        };
        let length = bytes.len().min(width);
        whole[..length].copy_from_slice(&bytes[..length]);
        whole[length..].fill(0);
        padded.append_value(&whole).map_err(|error| Error::internal(error.to_string()))?;
    }
    Ok(padded.finish())
}

/// An interval column: Arrow's intervals have the parts that ours have, in the same places, but count nanoseconds.
///
/// # Errors
/// 22008 for more hours than 292 years have, whose nanoseconds do not fit.
fn intervals(
    mut stored: PrimitiveArray<IntervalMonthDayNanoType>,
) -> Result<PrimitiveArray<IntervalMonthDayNanoType>> {
    stored = stored.try_unary(|interval| {
        let nanoseconds = interval.nanoseconds.checked_mul(1000).ok_or_else(too_long)?;
        Ok::<_, Error>(IntervalMonthDayNano { nanoseconds, ..interval })
    })?;
    Ok(stored)
}

/// An interval in Arrow's form.
///
/// # Errors
/// 22008 for more hours than 292 years have.
pub(crate) fn arrow_interval(interval: Interval) -> Result<IntervalMonthDayNano> {
    let nanoseconds = interval.microseconds.checked_mul(1000).ok_or_else(too_long)?;
    Ok(IntervalMonthDayNano::new(interval.months, interval.days, nanoseconds))
}

fn too_long() -> Error {
    Error::new(SqlState::DatetimeFieldOverflow, "interval out of range").with_detail(
        "Analytical queries count the hours of an interval in nanoseconds, of which 64 bits hold 292 years.",
    )
}

/// A numeric column, as it is stored or widened.
fn numeric(
    values: Bytes,
    nulls: Option<NullBuffer>,
    rows: usize,
    precision: u8,
    scale: i8,
    wanted: &ArrowType,
) -> Result<ArrayRef> {
    let invalid = |error: ArrowError| Error::internal(error.to_string());
    let stored: ArrayRef = if precision <= MAX_PRECISION_32 {
        let stored: Decimal32Array = primitive::<Decimal32Type>(values, nulls, rows)?;
        Arc::new(stored.with_precision_and_scale(precision, scale).map_err(invalid)?)
    } else if precision <= MAX_PRECISION_64 {
        let stored: Decimal64Array = primitive::<Decimal64Type>(values, nulls, rows)?;
        Arc::new(stored.with_precision_and_scale(precision, scale).map_err(invalid)?)
    } else {
        let stored: Decimal128Array = primitive::<Decimal128Type>(values, nulls, rows)?;
        Arc::new(stored.with_precision_and_scale(precision, scale).map_err(invalid)?)
    };
    wide_if(wanted, stored)
}

/// The batch with the numerics wide that are wide in the schema, which else is its own.
pub(crate) fn wide_batch(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let rows = batch.num_rows();
    let (_, columns, _) = batch.into_parts();
    let wide =
        columns.into_iter().zip(schema.fields()).map(|(column, field)| wide_if(field.data_type(), column));
    batch_of(schema, wide.collect::<Result<_>>()?, rows)
}

/// A numeric in its wide form, where that is wanted; any other column as it is.
fn wide_if(wanted: &ArrowType, column: ArrayRef) -> Result<ArrayRef> {
    let wide = match (wanted, column.data_type()) {
        (&ArrowType::Decimal128(precision, scale), ArrowType::Decimal32(..)) => {
            widened(column.as_primitive::<Decimal32Type>()).with_precision_and_scale(precision, scale)
        }
        (&ArrowType::Decimal128(precision, scale), ArrowType::Decimal64(..)) => {
            widened(column.as_primitive::<Decimal64Type>()).with_precision_and_scale(precision, scale)
        }
        _ => return Ok(column),
    };
    Ok(Arc::new(wide.map_err(|error| Error::internal(error.to_string()))?))
}

fn widened<T: ArrowPrimitiveType>(narrow: &PrimitiveArray<T>) -> Decimal128Array
where
    T::Native: Into<i128>,
{
    narrow.unary::<_, Decimal128Type>(|value| value.into())
}

fn primitive<T: ArrowPrimitiveType>(
    values: Bytes,
    nulls: Option<NullBuffer>,
    rows: usize,
) -> Result<PrimitiveArray<T>> {
    let buffer = lent_buffer(values, rows * size_of::<T::Native>())?;
    Ok(PrimitiveArray::new(ScalarBuffer::new(buffer, 0, rows), nulls))
}

fn bits(values: Bytes, rows: usize) -> Result<BooleanBuffer> {
    Ok(BooleanBuffer::new(lent_buffer(values, rows.div_ceil(8))?, 0, rows))
}

fn null_buffer(validity: Bytes, rows: usize) -> Result<NullBuffer> {
    Ok(NullBuffer::new(bits(validity, rows)?))
}

fn views(values: Bytes, heaps: Vec<Bytes>, rows: usize) -> Result<(ScalarBuffer<u128>, Vec<Buffer>)> {
    let views = ScalarBuffer::new(lent_buffer(values, rows * size_of::<u128>())?, 0, rows);
    let heaps = heaps.into_iter().map(|heap| lent_buffer(heap, 0)).collect::<Result<_>>()?;
    Ok((views, heaps))
}

/// What keeps lent memory unchanged, as Arrow wants to hold it.
struct Owner {
    _owner: Arc<dyn Any + Send + Sync>,
}
// The owner is only ever dropped through this, never looked into: a panic elsewhere cannot show it half done.
impl RefUnwindSafe for Owner {}
impl UnwindSafe for Owner {}

/// Lent memory as a buffer of Arrow's, at least `needed` bytes long. Memory that is not aligned as Arrow's
/// kernels want it is copied.
fn lent_buffer(bytes: Bytes, needed: usize) -> Result<Buffer> {
    const ALIGNMENT: usize = 16; // that of the widest value, i128
    if bytes.length < needed {
        return Err(Error::internal(format!("a column has {} bytes instead of {needed}", bytes.length)));
    }
    let Some(pointer) = NonNull::new(bytes.pointer.cast_mut()).filter(|_| bytes.length > 0) else {
        return Ok(MutableBuffer::new(0).into());
    };
    if pointer.align_offset(ALIGNMENT) != 0 {
        // SAFETY: lent memory is `length` bytes long and initialized.
        return Ok(Buffer::from_slice_ref(unsafe {
            std::slice::from_raw_parts(bytes.pointer, bytes.length)
        }));
    }
    let owner = Arc::new(Owner { _owner: bytes.owner });
    // SAFETY: lent memory is `length` bytes long and stays unchanged while its owner lives, which the buffer
    // holds; a buffer never writes to memory with a custom owner.
    Ok(unsafe { Buffer::from_custom_allocation(pointer, bytes.length, owner) })
}
