//! Conversions between types, by PostgreSQL's rules for `CAST` and for assignment to a column.
//!
//! Rounding: numeric to integer half away from zero, floating point to integer half to even. Text converts from
//! and to every type through its text form; boolean writes `true` and `false` here. Timestamps with and without
//! time zone convert at UTC. NULL stays NULL. Nothing wraps around; what does not fit is 22003 (22008 for dates).

use crate::array::{converted, limited};
use crate::datetime::{
    DATE_INFINITY, DATE_MINUS_INFINITY, INFINITY, MICROSECONDS_PER_DAY, MINUS_INFINITY, is_infinite,
    is_infinite_date,
};
use crate::fit::{cut_text, fit_text, is_stored_form};
use crate::float::{check_real, parse_double, parse_real};
use crate::interval_math::add_to_time;
use crate::zone::Zone;
use crate::{
    Array, Bits, DataType, Decimal, Interval, ListType, Number, PackedType, SystemType, TimeTz, Value,
    format_text, parse_text,
};
use ankerdb_base::{Error, Result, SqlState};

/// `CAST(value AS data_type)`. Text longer than `char(n)` or `varchar(n)` is cut silently.
///
/// # Errors
/// 42846 if there is no such conversion, 22003 or 22008 if the value does not fit, and those of
/// [`parse_text`](crate::parse_text) for text.
pub fn cast(value: Value, data_type: DataType) -> Result<Value> {
    match (value, data_type) {
        (Value::Text(text), DataType::Varchar(_) | DataType::Char(_)) => Ok(cut_text(&text, data_type)),
        (Value::Boolean(value), DataType::Integer) => Ok(Value::Integer(i32::from(value))),
        (Value::Integer(value), DataType::Boolean) => Ok(Value::Boolean(value != 0)),
        (value, DataType::Packed(target @ (PackedType::Bit(_) | PackedType::Varbit(_)))) => {
            cast_to_bits(value, target)
        }
        (Value::Packed(packed), DataType::Integer | DataType::BigInt) if packed.is_of(PackedType::BITS) => {
            let bits = packed.borrow().bits();
            match data_type {
                DataType::Integer => bits.to_integer(32).map(|value| Value::Integer(value as i32)),
                _ => bits.to_integer(64).map(Value::BigInt),
            }
            .ok_or_else(|| out_of_range(&data_type.to_string()))
        }
        (value, DataType::Varchar(_) | DataType::Char(_)) if !value.is_null() => {
            Ok(cut_text(&text_of(&value), data_type))
        }
        (value, _) => convert(value, data_type, Context::Cast),
    }
}

/// A cast to bits, which are cut or filled up with zeros behind; those of an integer are its last ones.
fn cast_to_bits(value: Value, target: PackedType) -> Result<Value> {
    let length = target.length().unwrap_or(1) as usize;
    Ok(match (value, target) {
        (Value::Integer(value), PackedType::Bit(_)) => {
            Value::Packed(Bits::of_integer(i64::from(value), 32, length).packed())
        }
        (Value::BigInt(value), PackedType::Bit(_)) => {
            Value::Packed(Bits::of_integer(value, 64, length).packed())
        }
        (Value::Text(text), _) => Value::Packed(target.of_any_length().parse(&text)?.cut_bits(target)),
        (Value::Packed(packed), _) if packed.is_of(target) => Value::Packed(packed.cut_bits(target)),
        (value, _) => return convert(value, DataType::Packed(target), Context::Cast),
    })
}

/// The conversion on the way into a column: as [`cast`], but text too long for the type is an error unless only blanks would be
/// lost, and integers and booleans do not mix.
///
/// # Errors
/// Those of [`cast`]; 22001 for text that is too long, 42804 for a conversion that does not exist.
pub fn assign(value: Value, data_type: DataType) -> Result<Value> {
    match (&value, data_type) {
        // The common cases need no conversion at all.
        (Value::Integer(_), DataType::Integer)
        | (Value::SmallInt(_), DataType::SmallInt)
        | (Value::BigInt(_), DataType::BigInt)
        | (Value::Text(_), DataType::Text)
        | (Value::Number(_), DataType::Number) => Ok(value),
        _ => convert(value, data_type, Context::Assignment),
    }
}

/// What a conversion is for; decides the error where there is none.
enum Context {
    Cast,
    Assignment,
}

/// The conversions that casts and assignments share.
fn convert(value: Value, data_type: DataType, context: Context) -> Result<Value> {
    match (value, data_type) {
        (Value::Null, _) => Ok(Value::Null),
        (Value::Text(text), DataType::Text) => Ok(Value::Text(text)),
        (Value::Text(text), DataType::Varchar(_) | DataType::Char(_)) => {
            if is_stored_form(&text, data_type) {
                Ok(Value::Text(text))
            } else {
                fit_text(&text, data_type)
            }
        }
        (Value::Text(text), DataType::System(SystemType::List(ListType::Limited(_)))) => {
            convert(parse_text(data_type.without_item_limit(), &text)?, data_type, context)
        }
        (Value::Text(text), _) => parse_text(data_type, &text),
        (value @ Value::BigInt(_), DataType::System(SystemType::Object(_))) => Ok(value),
        (value @ (Value::SmallInt(_) | Value::Integer(_)), DataType::System(system))
            if system.is_number() =>
        {
            parse_text(data_type, &text_of(&value))
        }
        (Value::BigInt(value), DataType::System(system)) if system.is_number() => {
            match u32::try_from(value) {
                Ok(oid) => Ok(Value::BigInt(i64::from(oid))),
                Err(_) => Err(out_of_range("OID")),
            }
        }
        (Value::Array(array), DataType::System(SystemType::List(list))) => to_list(array, list, context),
        (value, DataType::System(system)) if system.is_text() => fit_text(&text_of(&value), data_type),
        (value, DataType::Text | DataType::Varchar(_) | DataType::Char(_)) => {
            fit_text(&text_of(&value), data_type)
        }
        (value, data_type) if data_type.is_numeric() && value.is_number() => to_number(&value, data_type),
        (value @ Value::Boolean(_), DataType::Boolean)
        | (value @ Value::Date(_), DataType::Date)
        | (value @ Value::Bytea(_), DataType::Bytea)
        | (value @ Value::Uuid(_), DataType::Uuid) => Ok(value),
        (Value::Enum(value), DataType::Enum(labels)) if value.enum_type == labels => Ok(Value::Enum(value)),
        (Value::Packed(packed), DataType::Packed(target)) if target.is_bits() && packed.is_of(target) => {
            packed.fit_bits(target).map(Value::Packed)
        }
        (Value::Packed(packed), DataType::Packed(target)) if let Some(other) = packed.cast(target) => {
            Ok(Value::Packed(other))
        }
        (value, data_type) => {
            if let Some(converted) = between_times(&value, data_type)? {
                return Ok(rounded(converted, data_type));
            }
            let (from, to) = (value.type_name(), plain_name(data_type));
            Err(match context {
                Context::Cast => {
                    Error::new(SqlState::CannotCoerce, format!("cannot cast type {from} to {to}"))
                }
                Context::Assignment => Error::new(
                    SqlState::DatatypeMismatch,
                    format!("column is of type {to} but expression is of type {from}"),
                )
                .with_hint("You will need to rewrite or cast the expression."),
            })
        }
    }
}

/// An array as one of another type. What is cast to limited items is cut, where what is stored as such must fit.
fn to_list(array: Array, list: ListType, context: Context) -> Result<Value> {
    let unlimited = list.unlimited();
    let array = match array.borrow().list_type() == unlimited {
        true => array,
        false => converted(array.borrow(), unlimited, cast)?,
    };
    match (list, context) {
        (ListType::Limited(limit), Context::Cast) => limited(array.borrow(), limit, cast),
        (ListType::Limited(limit), Context::Assignment) => limited(array.borrow(), limit, assign),
        _ => Ok(array),
    }
    .map(Value::Array)
}

const TIMETZ: DataType = DataType::Packed(PackedType::TimeTz);

/// The conversions of dates, times and intervals; `None` where there is none.
fn between_times(value: &Value, data_type: DataType) -> Result<Option<Value>> {
    let zone = Zone::current();
    Ok(Some(match (value, data_type) {
        (Value::Timestamp(_), DataType::Timestamp(_))
        | (Value::TimestampTz(_), DataType::TimestampTz(_))
        | (Value::Time(_), DataType::Time(_))
        | (Value::Interval(_), DataType::Interval(_)) => value.clone(),
        (Value::Date(days), DataType::Timestamp(_)) => Value::Timestamp(midnight(*days)?),
        (Value::Date(days), DataType::TimestampTz(_)) => Value::TimestampTz(zone.instant(midnight(*days)?)?),
        (Value::Timestamp(moment), DataType::TimestampTz(_)) => Value::TimestampTz(zone.instant(*moment)?),
        (Value::TimestampTz(moment), DataType::Timestamp(_)) => Value::Timestamp(zone.local(*moment)?),
        (Value::TimestampTz(moment), DataType::Date | DataType::Time(_)) => {
            return between_times(&Value::Timestamp(zone.local(*moment)?), data_type);
        }
        (Value::Timestamp(moment), DataType::Date) if is_infinite(*moment) => {
            Value::Date(if *moment > 0 { DATE_INFINITY } else { DATE_MINUS_INFINITY })
        }
        // An infinity has no time of day.
        (Value::Timestamp(moment), DataType::Time(_)) if is_infinite(*moment) => Value::Null,
        // 64 bits of microseconds are far fewer days than an i32 counts.
        (Value::TimestampTz(moment), TIMETZ) => {
            let east = zone.east(*moment)?;
            let local = zone.local(*moment)?;
            Value::Packed(TimeTz::new(local.rem_euclid(MICROSECONDS_PER_DAY), east).packed())
        }
        (Value::Time(time), TIMETZ) => Value::Packed(TimeTz::new(*time, zone.east_today()?).packed()),
        (Value::Packed(packed), DataType::Time(_)) if packed.packed_type() == PackedType::TimeTz => {
            Value::Time(packed.borrow().time_tz().time)
        }
        (Value::Timestamp(moment), DataType::Date) => {
            Value::Date(moment.div_euclid(MICROSECONDS_PER_DAY) as i32)
        }
        (Value::Timestamp(moment), DataType::Time(_)) => Value::Time(moment.rem_euclid(MICROSECONDS_PER_DAY)),
        (Value::Time(time), DataType::Interval(_)) => Value::Interval(Interval::new(0, 0, *time)),
        (Value::Interval(interval), DataType::Time(_)) => Value::Time(add_to_time(0, *interval)),
        _ => return Ok(None),
    }))
}

/// A time or interval with as many digits as its type has.
fn rounded(value: Value, data_type: DataType) -> Value {
    match (value, data_type) {
        (Value::Timestamp(moment), DataType::Timestamp(precision)) => {
            Value::Timestamp(precision.round_moment(moment))
        }
        (Value::TimestampTz(moment), DataType::TimestampTz(precision)) => {
            Value::TimestampTz(precision.round_moment(moment))
        }
        (Value::Time(time), DataType::Time(precision)) => Value::Time(precision.round(time)),
        (Value::Interval(interval), DataType::Interval(limit)) => Value::Interval(limit.fit(interval)),
        (value, _) => value,
    }
}

/// The type's name without its length, as error messages have it.
fn plain_name(data_type: DataType) -> String {
    let mut name = data_type.of_any_precision().to_string();
    name.truncate(name.find('(').unwrap_or(name.len()));
    name
}

/// A value as text by a cast: its text form, but booleans as words.
pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::Boolean(value) => value.to_string(),
        Value::Packed(packed) => {
            let mut text = String::new();
            packed.borrow().push_cast_text(&mut text);
            text
        }
        value => {
            let mut text = String::new();
            format_text(value, DataType::Text, &mut text);
            text
        }
    }
}

/// The first instant of a day.
pub(crate) fn midnight(days: i32) -> Result<i64> {
    if is_infinite_date(days) {
        return Ok(if days > 0 { INFINITY } else { MINUS_INFINITY });
    }
    i64::from(days)
        .checked_mul(MICROSECONDS_PER_DAY)
        .ok_or_else(|| Error::new(SqlState::DatetimeFieldOverflow, "date out of range for timestamp"))
}

/// The error for a number that does not fit the type.
pub(crate) fn out_of_range(type_name: &str) -> Error {
    Error::new(SqlState::NumericValueOutOfRange, format!("{type_name} out of range"))
}

fn to_number(value: &Value, data_type: DataType) -> Result<Value> {
    match data_type {
        DataType::SmallInt => to_integer(value, "smallint").map(Value::SmallInt),
        DataType::Integer => to_integer(value, "integer").map(Value::Integer),
        DataType::BigInt => to_integer(value, "bigint").map(Value::BigInt),
        DataType::Numeric { precision, scale } => match value {
            Value::Number(text) => Number::read(text).fit(precision, scale).map(Value::Numeric),
            value => to_decimal(value)?.fit(precision, scale).map(Value::Numeric),
        },
        DataType::Number => Ok(match value {
            Value::Number(text) => Value::Number(text.clone()),
            value => Value::number(&number_of(value)),
        }),
        DataType::Real => to_real(value).map(Value::Real),
        _ => match value {
            // What is out of range is so as a text, too.
            Value::Number(text) => parse_double(text).map(Value::Double),
            value => Ok(Value::Double(to_double(value))),
        },
    }
}

/// A number as a numeric of any length; floating point by its first 15 (real: 6) digits. Anything else is zero.
pub(crate) fn number_of(value: &Value) -> Number {
    match value {
        Value::SmallInt(value) => Number::from_i128(i128::from(*value)),
        Value::Integer(value) => Number::from_i128(i128::from(*value)),
        Value::BigInt(value) => Number::from_i128(i128::from(*value)),
        Value::Numeric(value) => Number::from_decimal(*value),
        Value::Number(text) => Number::read(text),
        Value::Real(value) => Number::from_f32(*value),
        Value::Double(value) => Number::from_f64(*value),
        _ => Number::from_i128(0),
    }
}

/// A numeric of any length as an integer.
fn number_to_integer<T: TryFrom<i128>>(text: &str, type_name: &str) -> Result<T> {
    let whole = Number::read(text).to_i64(type_name)?;
    T::try_from(i128::from(whole)).map_err(|_| out_of_range(type_name))
}

fn to_integer<T: TryFrom<i128>>(value: &Value, type_name: &str) -> Result<T> {
    let exact = match value {
        Value::SmallInt(value) => i128::from(*value),
        Value::Integer(value) => i128::from(*value),
        Value::BigInt(value) => i128::from(*value),
        Value::Numeric(value) => value.to_integer(),
        Value::Number(text) => return number_to_integer(text, type_name),
        Value::Real(value) if value.is_finite() => value.round_ties_even() as i128,
        // Conversion to i128 saturates, which is out of range for every integer type.
        Value::Double(value) if value.is_finite() => value.round_ties_even() as i128,
        _ => return Err(out_of_range(type_name)),
    };
    T::try_from(exact).map_err(|_| out_of_range(type_name))
}

/// A number as a decimal; floating point by its first 15 (real: 6) digits.
pub(crate) fn to_decimal(value: &Value) -> Result<Decimal> {
    let (converted, is_nan) = match value {
        Value::SmallInt(value) => return Ok(Decimal::from(i64::from(*value))),
        Value::Integer(value) => return Ok(Decimal::from(i64::from(*value))),
        Value::BigInt(value) => return Ok(Decimal::from(*value)),
        Value::Numeric(value) => return Ok(*value),
        Value::Number(text) => (Number::read(text).to_decimal(), false),
        Value::Real(value) => (Decimal::from_f32(*value), value.is_nan()),
        Value::Double(value) => (Decimal::from_f64(*value), value.is_nan()),
        _ => (None, false),
    };
    converted.ok_or_else(|| match value {
        _ if is_nan => Error::new(SqlState::FeatureNotSupported, "cannot convert NaN to numeric"),
        Value::Real(value) if value.is_infinite() => infinity(),
        Value::Double(value) if value.is_infinite() => infinity(),
        _ => Error::new(SqlState::NumericValueOutOfRange, "value overflows numeric format"),
    })
}

fn infinity() -> Error {
    Error::new(SqlState::FeatureNotSupported, "cannot convert infinity to numeric")
}

/// A number as a double, the nearest one. NaN for anything that is not a number.
pub(crate) fn to_double(value: &Value) -> f64 {
    match value {
        Value::SmallInt(value) => f64::from(*value),
        Value::Integer(value) => f64::from(*value),
        Value::BigInt(value) => *value as f64,
        Value::Numeric(value) => value.to_f64(),
        Value::Number(text) => Number::read(text).to_f64(),
        Value::Real(value) => f64::from(*value),
        Value::Double(value) => *value,
        _ => f64::NAN,
    }
}

fn to_real(value: &Value) -> Result<f32> {
    match value {
        Value::Real(value) => Ok(*value),
        Value::Double(value) => check_real(*value as f32, value.is_infinite(), *value == 0.0),
        Value::BigInt(value) => Ok(*value as f32),
        Value::Integer(value) => Ok(*value as f32),
        Value::Numeric(value) => Ok(value.to_string().parse().expect("a decimal is a number")),
        Value::Number(text) => parse_real(text),
        value => Ok(to_double(value) as f32),
    }
}

#[cfg(test)]
#[path = "cast_tests.rs"]
mod tests;
