//! PostgreSQL's text forms.
//!
//! Every type has one canonical output form and a more liberal input form; reading an output gives the value
//! back, floating point included. Floating point numbers are in `float`, decimals in `decimal`, dates and
//! timestamps in `datetime`, names of types in `type_name`.
//!
//! Blanks around a literal are ignored except for text and bytea.

use crate::digits::{push_decimal, push_signed};
use crate::fit::fit_text;
use crate::literal::{malformed, trim};
use crate::text_style::TextStyle;
use crate::{
    DataType, Decimal, ListType, Number, SystemType, Value, ValueRef, array_text, assign, datetime, float,
    interval_output, interval_text, json,
};
use ankerdb_base::{Error, Result, SqlState};
use std::num::IntErrorKind;
use std::str::FromStr;

/// Reads a literal of the type. Costs one pass and no allocation beyond the value.
///
/// # Errors
/// 22P02 if the text is malformed (22007 for dates, times and intervals), 22003, 22008 or 22015 if the value does not fit
/// the type, 22001 if text is longer than the type allows and the excess is not blank, 22021 for text with a zero
/// byte, 0A000 for values that PostgreSQL has and AnKerDB does not (NaN as a numeric of declared digits, infinite dates).
pub fn parse_text(data_type: DataType, text: &str) -> Result<Value> {
    Ok(match data_type {
        DataType::Boolean => Value::Boolean(parse_boolean(text)?),
        DataType::SmallInt => Value::SmallInt(parse_integer(text, "smallint")?),
        DataType::Integer => Value::Integer(parse_integer(text, "integer")?),
        DataType::BigInt => Value::BigInt(parse_integer(text, "bigint")?),
        DataType::Real => Value::Real(float::parse_real(text)?),
        DataType::DoublePrecision => Value::Double(float::parse_double(text)?),
        DataType::Numeric { precision, scale } => {
            Value::Numeric(Decimal::parse_to_fit(text, precision, scale)?)
        }
        DataType::Number => Value::Number(Number::canonical(text)?.into()),
        DataType::Text | DataType::Varchar(_) | DataType::Char(_) => {
            if text.contains('\0') {
                let message = "invalid byte sequence for encoding \"UTF8\": 0x00";
                return Err(Error::new(SqlState::CharacterNotInRepertoire, message));
            }
            fit_text(text, data_type)?
        }
        DataType::Date => Value::Date(datetime::parse_date(text)?),
        DataType::Timestamp(precision) => {
            Value::Timestamp(precision.round_moment(datetime::parse_timestamp(text)?))
        }
        DataType::TimestampTz(precision) => {
            Value::TimestampTz(precision.round_moment(datetime::parse_timestamptz(text)?))
        }
        DataType::Time(precision) => Value::Time(precision.round(datetime::parse_time_of_day(text)?)),
        DataType::Interval(limit) => {
            Value::Interval(limit.fit(interval_text::parse_interval(text, limit.fields)?))
        }
        DataType::Bytea => Value::Bytea(parse_bytea(text)?.into()),
        DataType::Uuid => Value::Uuid(parse_uuid(text)?),
        DataType::Json => {
            json::check(text)?;
            Value::text(text)
        }
        DataType::Jsonb => Value::text(json::to_jsonb(text)?),
        DataType::Packed(packed) => Value::Packed(packed.parse(text)?),
        DataType::Enum(labels) => Value::Enum(labels.value(text)?),
        DataType::System(system) if system.is_number() => Value::BigInt(parse_oid(text)?),
        DataType::System(SystemType::List(list)) if !list.is_vector() => {
            let array = Value::Array(array_text::parse_array(list.unlimited(), text)?);
            if let ListType::Limited(_) = list { assign(array, data_type)? } else { array }
        }
        DataType::System(SystemType::Row(_)) => {
            let message = "input of anonymous composite types is not implemented";
            return Err(Error::new(SqlState::FeatureNotSupported, message));
        }
        DataType::System(SystemType::JsonPath) => Value::text(json::JsonPath::parse(text)?.to_string()),
        DataType::System(_) => fit_text(text, data_type)?,
    })
}

/// Appends the value as PostgreSQL writes it (`char(n)` padded with blanks). NULL appends nothing. The form
/// follows the value; the type only tells how wide a `char(n)` is.
pub fn format_text<'a>(value: impl Into<ValueRef<'a>>, data_type: DataType, out: &mut String) {
    match value.into() {
        ValueRef::Null => {}
        ValueRef::Boolean(value) => out.push(if value { 't' } else { 'f' }),
        ValueRef::SmallInt(value) => push_signed(value.into(), out),
        ValueRef::Integer(value) => push_signed(value.into(), out),
        ValueRef::BigInt(value) => push_signed(value, out),
        ValueRef::Real(value) => float::format_real(value, out),
        ValueRef::Double(value) => float::format_double(value, out),
        ValueRef::Numeric(value) => push_decimal(value, out),
        ValueRef::Number(text) => out.push_str(text),
        ValueRef::Text(value) => push_text(value, data_type, out),
        ValueRef::Date(days) => datetime::format_date(days, out),
        ValueRef::Timestamp(microseconds) => datetime::format_timestamp(microseconds, out),
        ValueRef::TimestampTz(microseconds) => datetime::format_timestamptz(microseconds, out),
        ValueRef::Time(microseconds) => datetime::push_time(microseconds, out),
        ValueRef::Interval(interval) => interval_output::format_interval(interval, out),
        ValueRef::Bytea(bytes) if TextStyle::current().escapes_bytes => push_escaped(bytes, out),
        ValueRef::Bytea(bytes) => {
            out.push_str("\\x");
            push_hex(bytes, out);
        }
        ValueRef::Array(array) => array_text::format_array(array, out),
        ValueRef::Packed(packed) => packed.push_text(out),
        ValueRef::Enum(value) => out.push_str(value.label()),
        ValueRef::Uuid(bytes) => {
            for (i, group) in
                [&bytes[..4], &bytes[4..6], &bytes[6..8], &bytes[8..10], &bytes[10..]].into_iter().enumerate()
            {
                if i > 0 {
                    out.push('-');
                }
                push_hex(group, out);
            }
        }
    }
}

fn push_text(text: &str, data_type: DataType, out: &mut String) {
    out.push_str(text);
    if let DataType::Char(length) = data_type
        && data_type != DataType::ANY_CHAR
    {
        const BLANKS: &str = "                                ";
        let mut missing = (length as usize).saturating_sub(text.chars().count());
        while missing > 0 {
            let some = missing.min(BLANKS.len());
            out.push_str(&BLANKS[..some]);
            missing -= some;
        }
    }
}

/// Characters as they are, a backslash twice, and other bytes as three octal digits.
fn push_escaped(bytes: &[u8], out: &mut String) {
    for byte in bytes {
        match byte {
            b'\\' => out.push_str("\\\\"),
            b' '..=b'~' => out.push(char::from(*byte)),
            _ => {
                out.push('\\');
                out.extend([byte >> 6, byte >> 3 & 7, byte & 7].map(|digit| char::from(b'0' + digit)));
            }
        }
    }
}

fn push_hex(bytes: &[u8], out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        out.push(char::from(DIGITS[usize::from(byte >> 4)]));
        out.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
}

/// Any unambiguous beginning of `true`, `false`, `yes`, `no`, `on`, `off`, or `1`, `0`, in any case.
fn parse_boolean(text: &str) -> Result<bool> {
    let body = trim(text);
    let starts = |word: &str, length_min: usize| {
        body.len() >= length_min
            && word.get(..body.len()).is_some_and(|prefix| prefix.eq_ignore_ascii_case(body))
    };
    if body == "1" || starts("true", 1) || starts("yes", 1) || starts("on", 2) {
        Ok(true)
    } else if body == "0" || starts("false", 1) || starts("no", 1) || starts("off", 2) {
        Ok(false)
    } else {
        Err(malformed("boolean", text))
    }
}

/// A number of 32 bits; a negative one counts from the end, as PostgreSQL reads them.
fn parse_oid(text: &str) -> Result<i64> {
    let wide: i64 = parse_integer(text, "oid")?;
    match (i32::try_from(wide), u32::try_from(wide)) {
        (_, Ok(oid)) => Ok(i64::from(oid)),
        (Ok(negative), _) => Ok(i64::from(negative as u32)),
        _ => {
            let message = format!("value \"{text}\" is out of range for type oid");
            Err(Error::new(SqlState::NumericValueOutOfRange, message))
        }
    }
}

fn parse_integer<T: FromStr<Err = std::num::ParseIntError>>(text: &str, type_name: &str) -> Result<T> {
    trim(text).parse().map_err(|error: std::num::ParseIntError| match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => Error::new(
            SqlState::NumericValueOutOfRange,
            format!("value \"{text}\" is out of range for type {type_name}"),
        ),
        _ => malformed(type_name, text),
    })
}

fn parse_bytea(text: &str) -> Result<Vec<u8>> {
    match text.strip_prefix("\\x") {
        Some(hex) => parse_hex_bytea(hex),
        None => parse_escaped_bytea(text.as_bytes()).ok_or_else(|| {
            Error::new(SqlState::InvalidTextRepresentation, "invalid input syntax for type bytea")
        }),
    }
}

/// Pairs of hexadecimal digits; blanks may stand between the pairs.
fn parse_hex_bytea(hex: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(hex.len() / 2);
    let mut chars = hex.chars().peekable();
    while let Some(first) = chars.next() {
        if matches!(first, ' ' | '\n' | '\t' | '\r') {
            continue;
        }
        let high = hex_digit(first)?;
        let second = chars.next().ok_or_else(|| {
            Error::new(SqlState::InvalidParameterValue, "invalid hexadecimal data: odd number of digits")
        })?;
        bytes.push(high << 4 | hex_digit(second)?);
    }
    Ok(bytes)
}

fn hex_digit(digit: char) -> Result<u8> {
    digit.to_digit(16).map(|value| value as u8).ok_or_else(|| {
        let message = format!("invalid hexadecimal digit: \"{digit}\"");
        Error::new(SqlState::InvalidParameterValue, message)
    })
}

/// Bytes as they are, with `\\` for a backslash and `\ooo` for any byte.
fn parse_escaped_bytea(mut text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    while let [first, rest @ ..] = text {
        bytes.push(*first);
        text = rest;
        if *first != b'\\' {
            continue;
        }
        match rest {
            [b'\\', rest @ ..] => text = rest,
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', rest @ ..] => {
                *bytes.last_mut()? = (a - b'0') << 6 | (b - b'0') << 3 | (c - b'0');
                text = rest;
            }
            _ => return None,
        }
    }
    Some(bytes)
}

/// 32 hexadecimal digits in any case, optionally in braces, with optional hyphens after each group of four.
fn parse_uuid(text: &str) -> Result<[u8; 16]> {
    let refuse = || malformed("uuid", text);
    let body = match text.strip_prefix('{') {
        Some(body) => body.strip_suffix('}').ok_or_else(refuse)?,
        None => text,
    };
    let mut rest = body.as_bytes();
    let mut bytes = [0; 16];
    for (i, byte) in bytes.iter_mut().enumerate() {
        if i > 0 && i % 2 == 0 {
            rest = rest.strip_prefix(b"-").unwrap_or(rest);
        }
        let [high, low, tail @ ..] = rest else { return Err(refuse()) };
        let digit = |digit: u8| char::from(digit).to_digit(16).ok_or_else(refuse);
        *byte = (digit(*high)? << 4 | digit(*low)?) as u8;
        rest = tail;
    }
    if rest.is_empty() { Ok(bytes) } else { Err(refuse()) }
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
