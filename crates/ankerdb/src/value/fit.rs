//! Conversion into a column's type, or a parameter's, that loses nothing, or only what SQL's own assignment loses,
//! too.
//!
//! Texts become dates, numbers and so on by their text forms, as constants in quotes do in SQL. Fractions never become
//! whole numbers silently, as they would in an SQL assignment: a program that passes `1.5` for an integer has made a
//! mistake.

use crate::error::{Error, Result};
#[cfg(feature = "sql")]
use ankerdb_engine::Decimal;
use ankerdb_engine::{DataType, ListType, SqlState, SystemType, Value, ValueRef};
#[cfg(feature = "sql")]
use ankerdb_value::MAX_NUMERIC_PRECISION;
use ankerdb_value::{assign, json};

/// The value as a column of this type stores it. Costs a comparison or two where it has that type already; allocates only
/// where a text is converted.
///
/// # Errors
/// `DatatypeMismatch` if there is no such conversion; `NumericValueOutOfRange`, `StringDataRightTruncation` and those of
/// texts that are no such value.
#[inline]
pub(crate) fn stored(value: ValueRef<'_>, data_type: DataType) -> Result<ValueRef<'_>> {
    match (value, data_type) {
        (ValueRef::Null, _)
        | (ValueRef::SmallInt(_), DataType::SmallInt)
        | (ValueRef::Integer(_), DataType::Integer)
        | (ValueRef::BigInt(_), DataType::BigInt)
        | (ValueRef::Text(_), DataType::Text)
        | (ValueRef::Number(_), DataType::Number) => Ok(value),
        (ValueRef::Integer(narrow), DataType::BigInt) => Ok(ValueRef::BigInt(i64::from(narrow))),
        _ => converted(value, data_type),
    }
}

/// The value as a parameter of this type. A parameter has no length, precision or scale: the column decides about those.
///
/// # Errors
/// Those of [`stored`].
#[cfg(feature = "sql")]
pub(crate) fn parameter(value: ValueRef<'_>, data_type: DataType) -> Result<ValueRef<'_>> {
    match (value, data_type) {
        (ValueRef::Numeric(_), DataType::Numeric { .. }) => Ok(value),
        (_, DataType::Numeric { .. }) => match value {
            ValueRef::Real(real) => decimal(Decimal::from_f32(real)),
            ValueRef::Double(double) => decimal(Decimal::from_f64(double)),
            ValueRef::Text(text) => Ok(ValueRef::Numeric(Decimal::parse(text)?)),
            _ => stored(value, DataType::Numeric { precision: MAX_NUMERIC_PRECISION, scale: 0 }),
        },
        // Of any form: made canonical where they are bound.
        (ValueRef::Text(_), DataType::Jsonb) => Ok(value),
        (ValueRef::Text(_), DataType::Number | DataType::Packed(_)) => Ok(value),
        (_, DataType::Number) if is_lossless(value, data_type) => Ok(value),
        (_, DataType::Varchar(_) | DataType::Char(_)) => stored(value, DataType::Text),
        _ => stored(value, data_type.of_any_precision()),
    }
}

/// The text of a numeric of any length, where the value is not one already: it lies nowhere yet. `None` for other types.
///
/// # Errors
/// Those of [`stored`].
pub(crate) fn number_text(value: ValueRef<'_>, data_type: DataType) -> Result<Option<Box<str>>> {
    if data_type != DataType::Number || matches!(value, ValueRef::Number(_) | ValueRef::Null) {
        return Ok(None);
    }
    if !matches!(value, ValueRef::Text(_)) && !is_lossless(value, data_type) {
        return Err(mismatch(value, data_type));
    }
    match assign(value.to_value(), data_type)? {
        Value::Number(text) => Ok(Some(text)),
        _ => Err(mismatch(value, data_type)),
    }
}

fn converted(value: ValueRef<'_>, data_type: DataType) -> Result<ValueRef<'_>> {
    match (value, data_type) {
        (ValueRef::Text(text), DataType::Varchar(_) | DataType::Char(_)) => fitted(text, data_type),
        (
            ValueRef::Text(_),
            DataType::Bytea | DataType::Packed(_) | DataType::System(SystemType::List(_)),
        ) => Err(mismatch(value, data_type)),
        (ValueRef::Array(array), DataType::System(SystemType::List(list)))
            if array.list_type() == list.unlimited() =>
        {
            // What does not fit its limit as it is would have to be made anew, and lies nowhere.
            let fits = match list {
                ListType::Limited(_) => assign(value.to_value(), data_type)? == value.to_value(),
                _ => true,
            };
            if fits { Ok(value) } else { Err(mismatch(value, data_type)) }
        }
        (ValueRef::Text(text), DataType::Json) => {
            json::check(text)?;
            Ok(value)
        }
        (ValueRef::Text(text), DataType::Jsonb) if json::to_jsonb(text)? == text => Ok(value),
        (ValueRef::Text(_), DataType::Jsonb) => Err(not_canonical()),
        (ValueRef::Text(_), _) => copied(assign(value.to_value(), data_type)?),
        (ValueRef::Bytea(_), DataType::Bytea) => Ok(value),
        (ValueRef::Packed(packed), DataType::Packed(known)) if packed.is_of(known) => match known.is_bits() {
            true => copied(assign(value.to_value(), data_type)?),
            false => Ok(value),
        },
        _ if is_lossless(value, data_type) => copied(assign(value.to_value(), data_type)?),
        _ => Err(mismatch(value, data_type)),
    }
}

/// Whether assignment loses at most digits beyond a numeric's scale, or precision of a floating-point number.
fn is_lossless(value: ValueRef<'_>, data_type: DataType) -> bool {
    use DataType as To;
    match value {
        ValueRef::SmallInt(_) | ValueRef::Integer(_) | ValueRef::BigInt(_) => data_type.is_numeric(),
        ValueRef::Numeric(_) | ValueRef::Number(_) | ValueRef::Real(_) | ValueRef::Double(_) => {
            matches!(data_type, To::Numeric { .. } | To::Number | To::Real | To::DoublePrecision)
        }
        ValueRef::Boolean(_) => data_type == To::Boolean,
        ValueRef::Date(_) => matches!(data_type, To::Date | To::Timestamp(_) | To::TimestampTz(_)),
        ValueRef::Timestamp(_) | ValueRef::TimestampTz(_) => {
            matches!(data_type, To::Timestamp(_) | To::TimestampTz(_))
        }
        ValueRef::Time(_) => matches!(data_type, To::Time(_) | To::Interval(_)),
        ValueRef::Interval(_) => matches!(data_type, To::Interval(_)),
        ValueRef::Uuid(_) => data_type == To::Uuid,
        ValueRef::Enum(value) => data_type == To::Enum(value.enum_type),
        ValueRef::Null
        | ValueRef::Text(_)
        | ValueRef::Bytea(_)
        | ValueRef::Packed(_)
        | ValueRef::Array(_) => false,
    }
}

/// The text as a column of limited length stores it: the whole of it, or the part before blanks that are too many.
fn fitted(text: &str, data_type: DataType) -> Result<ValueRef<'_>> {
    match assign(Value::text(text), data_type)? {
        Value::Text(kept) => Ok(ValueRef::Text(text.get(..kept.len()).unwrap_or(text))),
        _ => Ok(ValueRef::Text(text)),
    }
}

/// A value that owns nothing.
fn copied<'a>(value: Value) -> Result<ValueRef<'a>> {
    Ok(match value {
        Value::Null => ValueRef::Null,
        Value::Boolean(value) => ValueRef::Boolean(value),
        Value::SmallInt(value) => ValueRef::SmallInt(value),
        Value::Integer(value) => ValueRef::Integer(value),
        Value::BigInt(value) => ValueRef::BigInt(value),
        Value::Real(value) => ValueRef::Real(value),
        Value::Double(value) => ValueRef::Double(value),
        Value::Numeric(value) => ValueRef::Numeric(value),
        Value::Date(value) => ValueRef::Date(value),
        Value::Timestamp(value) => ValueRef::Timestamp(value),
        Value::TimestampTz(value) => ValueRef::TimestampTz(value),
        Value::Time(value) => ValueRef::Time(value),
        Value::Interval(value) => ValueRef::Interval(value),
        Value::Uuid(value) => ValueRef::Uuid(value),
        Value::Enum(value) => ValueRef::Enum(value),
        Value::Text(_) | Value::Number(_) | Value::Bytea(_) | Value::Packed(_) | Value::Array(_) => {
            return Err(Error::new(SqlState::InternalError, "a conversion gave what lies elsewhere"));
        }
    })
}

#[cfg(feature = "sql")]
fn decimal<'a>(number: Option<Decimal>) -> Result<ValueRef<'a>> {
    let overflow = || Error::new(SqlState::NumericValueOutOfRange, "value overflows numeric format");
    number.map(ValueRef::Numeric).ok_or_else(overflow)
}

#[cold]
fn not_canonical() -> Error {
    let message = "a jsonb is written to a table in its canonical text only";
    Error::new(SqlState::FeatureNotSupported, message)
}

#[cold]
fn mismatch(value: ValueRef<'_>, data_type: DataType) -> Error {
    let message = format!("a value of type {} does not go into {data_type}", value.to_value().type_name());
    Error::new(SqlState::DatatypeMismatch, message)
}
