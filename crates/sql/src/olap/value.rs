//! Values between the engine and Arrow: results of queries, parameters, statistics.

use super::arrow::UTC;
use ankerdb_engine::{DataType, Decimal, Error, Result, SqlState, Value};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType as ArrowType, Date32Type, Date64Type, Decimal32Type, Decimal64Type,
    Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::scalar::ScalarValue;

/// The type that clients see for a column of this Arrow type. What PostgreSQL has no counterpart for here
/// (intervals, times, lists, structs) is shown as text.
pub(crate) fn sql_type(arrow: &ArrowType) -> DataType {
    match arrow {
        ArrowType::Boolean => DataType::Boolean,
        ArrowType::Int8 | ArrowType::Int16 | ArrowType::UInt8 => DataType::SmallInt,
        ArrowType::Int32 | ArrowType::UInt16 => DataType::Integer,
        ArrowType::Int64 | ArrowType::UInt32 | ArrowType::UInt64 => DataType::BigInt,
        ArrowType::Float16 | ArrowType::Float32 => DataType::Real,
        ArrowType::Float64 => DataType::DoublePrecision,
        ArrowType::Decimal32(precision, scale)
        | ArrowType::Decimal64(precision, scale)
        | ArrowType::Decimal128(precision, scale)
            if *scale >= 0 =>
        {
            DataType::Numeric { precision: *precision, scale: *scale as u8 }
        }
        ArrowType::Date32 | ArrowType::Date64 => DataType::Date,
        ArrowType::Timestamp(_, None) => DataType::Timestamp,
        ArrowType::Timestamp(_, Some(_)) => DataType::TimestampTz,
        ArrowType::Binary | ArrowType::LargeBinary | ArrowType::BinaryView => DataType::Bytea,
        ArrowType::FixedSizeBinary(16) => DataType::Uuid,
        ArrowType::FixedSizeBinary(_) => DataType::Bytea,
        _ => DataType::Text,
    }
}

/// The rows of a batch. Costs an allocation per row and per text; column by column.
pub(crate) fn rows_of(batch: &RecordBatch) -> Result<Vec<Vec<Value>>> {
    let width = batch.num_columns();
    let mut rows: Vec<Vec<Value>> = (0..batch.num_rows()).map(|_| Vec::with_capacity(width)).collect();
    for column in batch.columns() {
        push_column(column, &mut rows)?;
    }
    Ok(rows)
}

/// Appends each value of the column to its row.
fn push_column(column: &ArrayRef, rows: &mut [Vec<Value>]) -> Result<()> {
    match column.data_type() {
        ArrowType::Boolean => {
            let array = column.as_boolean();
            push_with(array, rows, |row| Ok(Value::Boolean(array.value(row))))
        }
        ArrowType::Int8 => {
            push_primitive::<Int8Type>(column, rows, |value| Ok(Value::SmallInt(value.into())))
        }
        ArrowType::Int16 => push_primitive::<Int16Type>(column, rows, |value| Ok(Value::SmallInt(value))),
        ArrowType::Int32 => push_primitive::<Int32Type>(column, rows, |value| Ok(Value::Integer(value))),
        ArrowType::Int64 => push_primitive::<Int64Type>(column, rows, |value| Ok(Value::BigInt(value))),
        ArrowType::UInt8 => {
            push_primitive::<UInt8Type>(column, rows, |value| Ok(Value::SmallInt(value.into())))
        }
        ArrowType::UInt16 => {
            push_primitive::<UInt16Type>(column, rows, |value| Ok(Value::Integer(value.into())))
        }
        ArrowType::UInt32 => {
            push_primitive::<UInt32Type>(column, rows, |value| Ok(Value::BigInt(value.into())))
        }
        ArrowType::UInt64 => push_primitive::<UInt64Type>(column, rows, |value| {
            i64::try_from(value)
                .map(Value::BigInt)
                .map_err(|_| Error::new(SqlState::NumericValueOutOfRange, "bigint out of range"))
        }),
        ArrowType::Float32 => push_primitive::<Float32Type>(column, rows, |value| Ok(Value::Real(value))),
        ArrowType::Float64 => push_primitive::<Float64Type>(column, rows, |value| Ok(Value::Double(value))),
        ArrowType::Decimal32(_, scale) if *scale >= 0 => {
            let scale = *scale as u8;
            push_primitive::<Decimal32Type>(column, rows, |value| Ok(decimal(value.into(), scale)))
        }
        ArrowType::Decimal64(_, scale) if *scale >= 0 => {
            let scale = *scale as u8;
            push_primitive::<Decimal64Type>(column, rows, |value| Ok(decimal(value.into(), scale)))
        }
        ArrowType::Decimal128(_, scale) if *scale >= 0 => {
            let scale = *scale as u8;
            push_primitive::<Decimal128Type>(column, rows, |value| Ok(decimal(value, scale)))
        }
        ArrowType::Date32 => push_primitive::<Date32Type>(column, rows, |value| Ok(Value::Date(value))),
        ArrowType::Date64 => push_primitive::<Date64Type>(column, rows, |value| {
            Ok(Value::Date(i32::try_from(value.div_euclid(86_400_000)).map_err(|_| date_overflow())?))
        }),
        ArrowType::Timestamp(unit, zone) => push_timestamp(column, rows, *unit, zone.is_some()),
        ArrowType::Utf8 => {
            let array = column.as_string::<i32>();
            push_with(array, rows, |row| Ok(Value::text(array.value(row))))
        }
        ArrowType::LargeUtf8 => {
            let array = column.as_string::<i64>();
            push_with(array, rows, |row| Ok(Value::text(array.value(row))))
        }
        ArrowType::Utf8View => {
            let array = column.as_string_view();
            push_with(array, rows, |row| Ok(Value::text(array.value(row))))
        }
        ArrowType::Binary => {
            let array = column.as_binary::<i32>();
            push_with(array, rows, |row| Ok(Value::Bytea(array.value(row).into())))
        }
        ArrowType::LargeBinary => {
            let array = column.as_binary::<i64>();
            push_with(array, rows, |row| Ok(Value::Bytea(array.value(row).into())))
        }
        ArrowType::BinaryView => {
            let array = column.as_binary_view();
            push_with(array, rows, |row| Ok(Value::Bytea(array.value(row).into())))
        }
        ArrowType::FixedSizeBinary(_) => {
            let array = column.as_fixed_size_binary();
            push_with(array, rows, |row| {
                let bytes = array.value(row);
                Ok(bytes.try_into().map_or_else(|_| Value::Bytea(bytes.into()), Value::Uuid))
            })
        }
        // Such an array has no validity bits to ask.
        ArrowType::Null => {
            rows.iter_mut().for_each(|row| row.push(Value::Null));
            Ok(())
        }
        _ => push_displayed(column, rows),
    }
}

fn push_with(
    array: &dyn Array,
    rows: &mut [Vec<Value>],
    value: impl Fn(usize) -> Result<Value>,
) -> Result<()> {
    for (position, row) in rows.iter_mut().enumerate() {
        row.push(if array.is_null(position) { Value::Null } else { value(position)? });
    }
    Ok(())
}

fn push_primitive<T: ArrowPrimitiveType>(
    column: &ArrayRef,
    rows: &mut [Vec<Value>],
    value: impl Fn(T::Native) -> Result<Value>,
) -> Result<()> {
    let array = column.as_primitive::<T>();
    push_with(array, rows, |row| value(array.value(row)))
}

fn push_timestamp(column: &ArrayRef, rows: &mut [Vec<Value>], unit: TimeUnit, zone: bool) -> Result<()> {
    let value = move |micros: i64| if zone { Value::TimestampTz(micros) } else { Value::Timestamp(micros) };
    let scaled = move |ticks: i64, factor: i64| {
        ticks
            .checked_mul(factor)
            .map(value)
            .ok_or_else(|| Error::new(SqlState::DatetimeFieldOverflow, "timestamp out of range"))
    };
    match unit {
        TimeUnit::Second => {
            push_primitive::<TimestampSecondType>(column, rows, |ticks| scaled(ticks, 1_000_000))
        }
        TimeUnit::Millisecond => {
            push_primitive::<TimestampMillisecondType>(column, rows, |ticks| scaled(ticks, 1000))
        }
        TimeUnit::Microsecond => {
            push_primitive::<TimestampMicrosecondType>(column, rows, |ticks| Ok(value(ticks)))
        }
        TimeUnit::Nanosecond => {
            push_primitive::<TimestampNanosecondType>(column, rows, |ticks| Ok(value(ticks.div_euclid(1000))))
        }
    }
}

/// Types without a counterpart, as Arrow writes them.
fn push_displayed(column: &ArrayRef, rows: &mut [Vec<Value>]) -> Result<()> {
    let options = FormatOptions::default();
    let formatter = ArrayFormatter::try_new(column.as_ref(), &options)
        .map_err(|error| Error::new(SqlState::FeatureNotSupported, error.to_string()))?;
    push_with(column.as_ref(), rows, |row| {
        let text = formatter.value(row).try_to_string();
        text.map(Value::text).map_err(|error| Error::internal(error.to_string()))
    })
}

fn decimal(unscaled: i128, scale: u8) -> Value {
    Value::Numeric(Decimal::new(unscaled, scale))
}

fn date_overflow() -> Error {
    Error::new(SqlState::DatetimeFieldOverflow, "date out of range")
}

/// A parameter as a literal. A NULL gets the parameter's type, everything else has its own.
pub(crate) fn scalar(value: &Value, data_type: Option<DataType>) -> Result<ScalarValue> {
    Ok(match value {
        Value::Null => match data_type {
            Some(data_type) => ScalarValue::try_from(super::arrow::wide_type(data_type))
                .map_err(|error| Error::internal(error.to_string()))?,
            None => ScalarValue::Null,
        },
        Value::Boolean(value) => ScalarValue::Boolean(Some(*value)),
        Value::SmallInt(value) => ScalarValue::Int16(Some(*value)),
        Value::Integer(value) => ScalarValue::Int32(Some(*value)),
        Value::BigInt(value) => ScalarValue::Int64(Some(*value)),
        Value::Real(value) => ScalarValue::Float32(Some(*value)),
        Value::Double(value) => ScalarValue::Float64(Some(*value)),
        Value::Numeric(decimal) => {
            let digits = decimal.unscaled.unsigned_abs().checked_ilog10().map_or(1, |log| log as u8 + 1);
            let precision = digits.max(decimal.scale);
            ScalarValue::Decimal128(Some(decimal.unscaled), precision.max(1), decimal.scale as i8)
        }
        Value::Text(text) => ScalarValue::Utf8View(Some(text.to_string())),
        Value::Date(days) => ScalarValue::Date32(Some(*days)),
        Value::Timestamp(micros) => ScalarValue::TimestampMicrosecond(Some(*micros), None),
        Value::TimestampTz(micros) => ScalarValue::TimestampMicrosecond(Some(*micros), Some(UTC.into())),
        Value::Bytea(bytes) => ScalarValue::BinaryView(Some(bytes.to_vec())),
        Value::Uuid(bytes) => ScalarValue::FixedSizeBinary(16, Some(bytes.to_vec())),
    })
}

/// A bound of a column for the planner, of exactly the column's type; `None` where the value does not fit it.
pub(crate) fn bound(value: &Value, data_type: DataType) -> Option<ScalarValue> {
    match (value, data_type) {
        (Value::Null, _) => None,
        (Value::Numeric(decimal), DataType::Numeric { precision, scale }) if decimal.scale == scale => {
            Some(ScalarValue::Decimal128(Some(decimal.unscaled), precision, scale as i8))
        }
        (Value::Numeric(_), _) => None,
        (other, _) => {
            let scalar = scalar(other, None).ok()?;
            (scalar.data_type() == super::arrow::wide_type(data_type)).then_some(scalar)
        }
    }
}
