//! Order-preserving keys: byte strings that compare like the rows they stand for.
//!
//! Each column is encoded so that no encoding is a proper prefix of another one of the same column; encodings
//! are then simply put one after the other. Hence the key of the first columns is a byte prefix of the whole key,
//! and comparing bytes compares column by column.
//!
//! | column                | bytes                                                                          |
//! | --------------------- | ------------------------------------------------------------------------------ |
//! | nullable, any type | `00` and the value, or `01` alone for NULL, which sorts last |
//! | boolean               | 1: `00` or `01`                                                                |
//! | integers              | 2, 4 or 8: big-endian, sign bit flipped                                        |
//! | numeric(p, s)         | 4, 8 or 16, by precision: the integer at the column's scale, as integers       |
//! | numeric               | sign, exponent and digits (`number`), without zeros at the end                 |
//! | real, double          | 4 or 8: bits in the order of numbers; -0 as 0, every NaN alike and last        |
//! | text, varchar, char   | bytes, `00` as `00 FF`, then `00 00`; char without trailing blanks             |
//! | date, timestamps      | 4 or 8, as integers                                                            |
//! | time                  | 8, as integers                                                                 |
//! | interval              | 16: its length in microseconds, as integers                                    |
//! | bytea                 | as text                                                                        |
//! | uuid                  | 16, as it is                                                                   |
//! | enum                  | 8: its position, as integers                                                   |
//! | jsonb                 | its comparison key (`json/key.rs`), as text                                    |
//! | array                 | `02` and its key for each item as of a nullable column, `00`, then its dimensions |
//!
//! A column that cannot be NULL has no marker. Keys cannot be decoded here; the row they lead to has the values.

use crate::cast::number_of;
use crate::json::comparison_key;
use crate::{
    ArrayRef, DataType, Decimal, ListType, SystemType, Value, numeric_storage_bits, push_number_key,
};
use ankerdb_base::{Error, Result};

const MARK_VALUE: u8 = 0;
const MARK_NULL: u8 = 1;
const MARK_ITEM: u8 = 2;
const MARK_END: u8 = 0;
const ESCAPE: u8 = 0x00;
const ESCAPED_ZERO: [u8; 2] = [ESCAPE, 0xFF];
const TERMINATOR: [u8; 2] = [ESCAPE, 0x00];

/// Appends the key columns; `columns` gives each one's type and whether it may be NULL. Fewer values than columns make a
/// prefix.
///
/// # Errors
/// Those of [`push_value`]; what was appended before one stays in `out`.
pub fn encode_key(values: &[Value], columns: &[(DataType, bool)], out: &mut Vec<u8>) -> Result<()> {
    if values.len() > columns.len() {
        return Err(Error::internal("more key values than key columns"));
    }
    values
        .iter()
        .zip(columns)
        .try_for_each(|(value, &(data_type, nullable))| push_value(out, value, data_type, nullable))
}

/// Appends one key column. The value must be of the column's own variant, as [`assign`](crate::assign) makes it.
///
/// # Errors
/// XX000 for another variant, a NULL where none may be, or a numeric that needs rounding.
pub fn push_value(out: &mut Vec<u8>, value: &Value, data_type: DataType, nullable: bool) -> Result<()> {
    if value.is_null() {
        if !nullable {
            return Err(Error::internal("NULL in a key column that forbids it"));
        }
        out.push(MARK_NULL);
        return Ok(());
    }
    if nullable {
        out.push(MARK_VALUE);
    }
    match (value, data_type) {
        (Value::Boolean(value), DataType::Boolean) => out.push(u8::from(*value)),
        (Value::SmallInt(value), DataType::SmallInt) => push_smallint(out, *value),
        (Value::Integer(value), DataType::Integer) => push_integer(out, *value),
        (Value::BigInt(value), DataType::BigInt) => push_bigint(out, *value),
        (Value::Real(value), DataType::Real) => push_real(out, *value),
        (Value::Double(value), DataType::DoublePrecision) => push_double(out, *value),
        (Value::Numeric(value), DataType::Numeric { precision, scale }) => {
            push_numeric(out, *value, precision, scale)?;
        }
        (Value::Number(text), DataType::Number) => push_number_key(text, out),
        (Value::Text(value), DataType::Text | DataType::Varchar(_)) => push_text(out, value),
        (Value::Text(value), DataType::System(system)) if system.is_text() => push_text(out, value),
        (Value::BigInt(value), DataType::System(system)) if system.is_number() => push_bigint(out, *value),
        (Value::Text(value), DataType::Char(_)) => push_text(out, value.trim_end_matches(' ')),
        (Value::Date(days), DataType::Date) => push_integer(out, *days),
        (Value::Timestamp(moment), DataType::Timestamp(_)) => push_bigint(out, *moment),
        (Value::TimestampTz(moment), DataType::TimestampTz(_)) => push_bigint(out, *moment),
        (Value::Time(time), DataType::Time(_)) => push_bigint(out, *time),
        (Value::Interval(interval), DataType::Interval(_)) => push_wide(out, interval.span()),
        (Value::Bytea(bytes), DataType::Bytea) => push_bytes(out, bytes),
        (Value::Uuid(bytes), DataType::Uuid) => out.extend_from_slice(bytes),
        (Value::Packed(packed), DataType::Packed(known)) if packed.is_of(known) => {
            push_bytes(out, packed.borrow().bytes());
        }
        (Value::Enum(value), DataType::Enum(labels)) if value.enum_type == labels => {
            push_bigint(out, value.position);
        }
        (Value::Text(text), DataType::Jsonb) => push_bytes(out, &comparison_key(text)?),
        (Value::Array(array), DataType::System(SystemType::List(list)))
            if array.borrow().list_type() == list.unlimited() =>
        {
            push_array(out, array.borrow())?;
        }
        (value, data_type) => {
            let message = format!("{} value in a key column of type {data_type}", value.type_name());
            return Err(Error::internal(message));
        }
    }
    Ok(())
}

/// Appends a `smallint NOT NULL`.
#[inline]
pub fn push_smallint(out: &mut Vec<u8>, value: i16) {
    out.extend_from_slice(&(value ^ i16::MIN).to_be_bytes());
}

/// Appends an `integer NOT NULL` (or a `date NOT NULL`).
#[inline]
pub fn push_integer(out: &mut Vec<u8>, value: i32) {
    out.extend_from_slice(&(value ^ i32::MIN).to_be_bytes());
}

/// Appends a `bigint NOT NULL` (or a timestamp or time `NOT NULL`).
#[inline]
pub fn push_bigint(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(&(value ^ i64::MIN).to_be_bytes());
}

fn push_wide(out: &mut Vec<u8>, value: i128) {
    out.extend_from_slice(&(value ^ i128::MIN).to_be_bytes());
}

/// Appends a text `NOT NULL`; for `char(n)` the caller leaves out the trailing blanks.
#[inline]
pub fn push_text(out: &mut Vec<u8>, value: &str) {
    push_bytes(out, value.as_bytes());
}

#[inline]
pub(crate) fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let mut pieces = bytes.split(|&byte| byte == ESCAPE);
    out.extend_from_slice(pieces.next().unwrap_or_default());
    for piece in pieces {
        out.extend_from_slice(&ESCAPED_ZERO);
        out.extend_from_slice(piece);
    }
    out.extend_from_slice(&TERMINATOR);
}

/// Items before their end, so that an array is less than a longer one that begins like it.
fn push_array(out: &mut Vec<u8>, array: ArrayRef<'_>) -> Result<()> {
    let (item_type, is_numeric) = (array.list_type().item_type(), array.list_type() == ListType::Numeric);
    for item in array.items() {
        out.push(MARK_ITEM);
        match item.to_value() {
            // Each with its own scale, so none has the place that a scale would give it.
            value if is_numeric && !value.is_null() => {
                push_value(out, &Value::number(&number_of(&value)), DataType::Number, true)?;
            }
            value => push_value(out, &value, item_type, true)?,
        }
    }
    out.push(MARK_END);
    push_integer(out, array.dimensions().len() as i32);
    for dimension in array.dimensions() {
        push_bigint(out, i64::from(dimension.length));
        push_integer(out, dimension.lower);
    }
    Ok(())
}

fn push_numeric(out: &mut Vec<u8>, value: Decimal, precision: u8, scale: u8) -> Result<()> {
    let misfit = || Error::internal(format!("{value} in a key column of type numeric({precision},{scale})"));
    let fitted = value.fit(precision, scale).map_err(|_| misfit())?;
    if fitted.compare(value).is_ne() {
        return Err(misfit());
    }
    // A number of the column's precision fits the column's storage width.
    match numeric_storage_bits(precision) {
        32 => push_integer(out, fitted.unscaled as i32),
        64 => push_bigint(out, fitted.unscaled as i64),
        _ => push_wide(out, fitted.unscaled),
    }
    Ok(())
}

/// Negative floats order by falling bits, the others by rising bits above all negative ones.
fn push_real(out: &mut Vec<u8>, value: f32) {
    let bits = if value.is_nan() { f32::NAN.abs() } else { value + 0.0 }.to_bits();
    let ordered = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    out.extend_from_slice(&ordered.to_be_bytes());
}

/// Appends a double; see [`push_real`].
fn push_double(out: &mut Vec<u8>, value: f64) {
    let bits = if value.is_nan() { f64::NAN.abs() } else { value + 0.0 }.to_bits();
    let ordered = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
    out.extend_from_slice(&ordered.to_be_bytes());
}

#[cfg(test)]
#[path = "key_tests.rs"]
mod tests;
