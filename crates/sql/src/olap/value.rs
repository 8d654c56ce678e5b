//! Types and values between the engine and Arrow: of results, parameters, statistics. (Results themselves are read
//! through [`crate::columns`].)

use super::arrow::{UTC, computed_type, digits, wide_type};
use super::labels::{self, labels_of};
use ankerdb_engine::{
    ArrayRef, BitLength, DataType, EnumType, Error, ItemLimit, ListType, PackedType, Result, SystemType,
    Value, ValueRef,
};
use ankerdb_value::{IntervalLimit, Precision, RowType};
use datafusion::arrow::datatypes::{DataType as ArrowType, Field, IntervalUnit};
use datafusion::scalar::ScalarValue;

/// The type that clients see for a column of this Arrow type. What PostgreSQL has no counterpart for here
/// (lists, structs) is shown as text.
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
        labels if let Some(labels) = labels_of(labels) => DataType::Enum(labels),
        ArrowType::Timestamp(_, None) => DataType::TIMESTAMP,
        ArrowType::Timestamp(_, Some(_)) => DataType::TIMESTAMPTZ,
        ArrowType::Time64(_) => DataType::TIME,
        ArrowType::Interval(IntervalUnit::MonthDayNano) => DataType::INTERVAL,
        ArrowType::LargeBinary => DataType::Number,
        ArrowType::Binary => DataType::Packed(PackedType::BITS),
        ArrowType::BinaryView => DataType::Bytea,
        ArrowType::FixedSizeBinary(16) => DataType::Uuid,
        ArrowType::FixedSizeBinary(width) => {
            PackedType::by_width(*width as usize).map_or(DataType::Bytea, DataType::Packed)
        }
        ArrowType::List(items) => match list_type(items.data_type(), None) {
            Some(list) => DataType::System(SystemType::List(list)),
            None => DataType::Text,
        },
        _ => DataType::Text,
    }
}

/// The key under which a field says which SQL type it has, where several share one of Arrow's: the text types do, and those of
/// the system catalog with others.
const TOLD_TYPE: &str = "ankerdb.type";

/// Whether the type shows in a field only if the field tells it.
pub(crate) fn is_told(data_type: DataType) -> bool {
    matches!(data_type, DataType::Varchar(_) | DataType::Char(_) | DataType::System(_))
        || matches!(data_type, DataType::Packed(PackedType::Bit(_)))
        || data_type.is_document()
        || data_type != data_type.of_any_precision()
}

/// The field with its SQL type, where Arrow's does not tell it.
pub(crate) fn with_type(field: Field, data_type: DataType) -> Field {
    let text = match data_type {
        DataType::Varchar(length) => format!("varchar {length}"),
        DataType::Char(length) => format!("char {length}"),
        DataType::System(SystemType::List(ListType::Enum(labels))) => format!("labels {}", labels.number()),
        DataType::System(SystemType::List(ListType::Limited(limit))) => format!("limited {}", limit.number()),
        DataType::System(SystemType::Row(row)) => format!("row {}", row.number()),
        DataType::System(SystemType::List(ListType::Row(row))) => format!("rows {}", row.number()),
        DataType::System(system) => format!("system {system}"),
        DataType::Json | DataType::Jsonb => format!("document {data_type}"),
        DataType::Timestamp(precision) | DataType::TimestampTz(precision) | DataType::Time(precision) => {
            match precision.declared() {
                Some(digits) => format!("seconds {digits}"),
                None => return field,
            }
        }
        DataType::Packed(PackedType::Bit(length)) => match length.declared() {
            Some(length) => format!("bit {length}"),
            None => "bits any".to_owned(),
        },
        DataType::Packed(PackedType::Varbit(length)) => match length.declared() {
            Some(length) => format!("varbit {length}"),
            None => return field,
        },
        DataType::Interval(limit) if limit != IntervalLimit::NONE => format!("interval {}", limit.modifier()),
        _ => return field,
    };
    field.with_metadata([(TOLD_TYPE.to_owned(), text)].into())
}

/// The SQL type of a field; `None` where SQL here has no type like it, such as for lists.
pub(crate) fn field_type(field: &Field) -> Option<DataType> {
    match field.data_type() {
        ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View => {
            Some(told_type(field).unwrap_or(DataType::Text))
        }
        ArrowType::List(_) => None,
        arrow => match told_type(field).unwrap_or(sql_type(arrow)) {
            DataType::Text => None,
            known => Some(known),
        },
    }
}

/// The type that the field tells.
pub(crate) fn told_type(field: &Field) -> Option<DataType> {
    let (name, rest) = field.metadata().get(TOLD_TYPE)?.split_once(' ')?;
    match (name, rest.parse::<u32>()) {
        ("varchar", Ok(length)) => Some(DataType::Varchar(length)),
        ("char", Ok(length)) => Some(DataType::Char(length)),
        ("labels", Ok(number)) => {
            let labels = EnumType::by_number(number)?;
            Some(DataType::System(SystemType::List(ListType::Enum(labels))))
        }
        ("rows", Ok(number)) => {
            let row = RowType::by_number(number)?;
            Some(DataType::System(SystemType::List(ListType::Row(row))))
        }
        ("limited", Ok(number)) => {
            let limit = ItemLimit::by_number(number)?;
            Some(DataType::System(SystemType::List(ListType::Limited(limit))))
        }
        ("row", Ok(number)) => RowType::by_number(number).map(|row| DataType::System(SystemType::Row(row))),
        ("system", _) => SystemType::by_name(rest).map(DataType::System),
        ("seconds", Ok(digits)) => match sql_type(field.data_type()) {
            DataType::Timestamp(_) => Some(DataType::Timestamp(Precision::digits(digits))),
            DataType::TimestampTz(_) => Some(DataType::TimestampTz(Precision::digits(digits))),
            DataType::Time(_) => Some(DataType::Time(Precision::digits(digits))),
            _ => None,
        },
        ("interval", Ok(modifier)) if matches!(field.data_type(), ArrowType::Interval(_)) => {
            Some(DataType::Interval(IntervalLimit::of_modifier(modifier as i32)))
        }
        ("bits", _) => Some(DataType::Packed(PackedType::Bit(BitLength::ANY))),
        ("bit", Ok(length)) => Some(DataType::Packed(PackedType::Bit(BitLength::new(length)))),
        ("varbit", Ok(length)) => Some(DataType::Packed(PackedType::Varbit(BitLength::new(length)))),
        ("document", _) if rest == "json" => Some(DataType::Json),
        ("document", _) => Some(DataType::Jsonb),
        _ => None,
    }
}

/// The SQL type of a list of such items; `None` where SQL here has none like it. `told`: what the list's field tells.
pub(crate) fn list_type(item: &ArrowType, told: Option<DataType>) -> Option<ListType> {
    match (told, item) {
        (Some(DataType::System(SystemType::List(list))), _) => Some(list),
        // A field of text is what the list was not made of.
        (_, ArrowType::Null | ArrowType::List(_)) => None,
        (_, item) => ListType::of(sql_type(item)).filter(|list| *list != ListType::Text || is_text(item)),
    }
}

fn is_text(arrow: &ArrowType) -> bool {
    matches!(arrow, ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View)
}

/// An array as a list.
///
/// # Errors
/// 0A000 for other dimensions than one that counts from 1, 22008 for intervals that Arrow has not.
fn list_of(array: ArrayRef<'_>) -> Result<ScalarValue> {
    if !array.is_plain() {
        let what =
            "an array of several dimensions, or one that does not count from 1, in an analytical query";
        return Err(crate::name::not_supported(what));
    }
    let scale = array.items().map(|item| if let ValueRef::Numeric(number) = item { number.scale } else { 0 });
    let item_type = match array.list_type().item_type() {
        DataType::Numeric { .. } if array.items().any(|item| matches!(item, ValueRef::Number(_))) => {
            DataType::Number
        }
        // The items have one scale: the largest, so that none loses digits.
        DataType::Numeric { precision, .. } => {
            DataType::Numeric { precision, scale: scale.max().unwrap_or_default() }
        }
        other => other,
    };
    let arrow = wide_type(item_type);
    let item = |item: ValueRef<'_>| match (item, item_type) {
        (ValueRef::Numeric(number), DataType::Numeric { precision, scale }) => {
            let unscaled = number.rescale(scale)?.unscaled;
            Ok(ScalarValue::Decimal128(Some(unscaled), precision, scale as i8))
        }
        (ValueRef::Numeric(number), DataType::Number) => {
            Ok(ScalarValue::LargeBinary(Some(number.to_string().into_bytes())))
        }
        (item, _) => scalar(&item.to_value(), Some(item_type)),
    };
    let items = array.items().map(item).collect::<Result<Vec<_>>>()?;
    Ok(ScalarValue::List(ScalarValue::new_list(&items, &arrow, true)))
}

/// A parameter as a literal. A NULL gets the parameter's type, everything else has its own.
pub(crate) fn scalar(value: &Value, data_type: Option<DataType>) -> Result<ScalarValue> {
    Ok(match value {
        Value::Null => match data_type {
            Some(data_type) => ScalarValue::try_from(computed_type(data_type))
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
        Value::Number(text) => ScalarValue::LargeBinary(Some(text.as_bytes().to_vec())),
        Value::Text(text) => ScalarValue::Utf8View(Some(text.to_string())),
        Value::Date(days) => ScalarValue::Date32(Some(*days)),
        Value::Timestamp(micros) => ScalarValue::TimestampMicrosecond(Some(*micros), None),
        Value::TimestampTz(micros) => ScalarValue::TimestampMicrosecond(Some(*micros), Some(UTC.into())),
        Value::Time(time) => ScalarValue::Time64Microsecond(Some(*time)),
        Value::Interval(interval) => {
            ScalarValue::IntervalMonthDayNano(Some(super::arrow::arrow_interval(*interval)?))
        }
        Value::Bytea(bytes) => ScalarValue::BinaryView(Some(bytes.to_vec())),
        Value::Uuid(bytes) => ScalarValue::FixedSizeBinary(16, Some(bytes.to_vec())),
        Value::Packed(packed) => {
            let bytes = packed.borrow().padded();
            match packed.packed_type().width() {
                Some(width) => ScalarValue::FixedSizeBinary(width as i32, Some(bytes)),
                None => ScalarValue::Binary(Some(bytes)),
            }
        }
        Value::Enum(value) => {
            ScalarValue::TimestampNanosecond(Some(value.position), Some(labels::zone(value.enum_type)))
        }
        Value::Array(array) => list_of(array.borrow())?,
    })
}

/// A bound of a column for the planner, of exactly the column's type; `None` where the value does not fit it.
pub(crate) fn bound(value: &Value, data_type: DataType) -> Option<ScalarValue> {
    match (value, data_type) {
        (Value::Null, _) => None,
        (Value::Numeric(decimal), DataType::Numeric { precision, scale }) if decimal.scale == scale => {
            Some(ScalarValue::Decimal128(Some(decimal.unscaled), digits(precision), scale as i8))
        }
        // Numerics of any length do not compare as they lie.
        (Value::Numeric(_) | Value::Number(_), _) => None,
        (other, _) => {
            let scalar = scalar(other, None).ok()?;
            (scalar.data_type() == wide_type(data_type)).then_some(scalar)
        }
    }
}
