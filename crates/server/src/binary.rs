//! PostgreSQL's binary format of values: what `*_send` and `*_recv` of each type produce and accept.
//!
//! All numbers are big-endian. Dates and timestamps count from 2000-01-01 on the wire and from 1970-01-01 in
//! here. A numeric is a run of base-10,000 digits.

use crate::frontend::utf8;
use crate::types::{item_oid, wire_type};
use ankerdb_base::{Error, Result, SqlState};
use ankerdb_value::{
    Array, ArrayBuilder, ArrayRef, DataType, Decimal, Dimension, Interval, ListType, MAX_NUMERIC_PRECISION,
    RowType, SystemType, Value, ValueRef, is_infinite, is_infinite_date, number_from_binary,
    number_to_binary, parse_text, row_fields,
};
use bytes::{BufMut, BytesMut};

/// Days from 1970-01-01 to 2000-01-01.
const EPOCH_DAYS: i32 = 10_957;
/// Microseconds from 1970-01-01 to 2000-01-01.
const EPOCH_MICROSECONDS: i64 = EPOCH_DAYS as i64 * 86_400_000_000;
/// The first and the last day that PostgreSQL has, counted from 2000-01-01: 4714-11-24 BC, 5874897-12-31.
const DAYS: std::ops::RangeInclusive<i32> = -2_451_545..=2_145_031_948;
/// Timestamps that PostgreSQL has, counted from 2000-01-01: 4714-11-24 BC up to the end of 294276.
const MICROSECONDS: std::ops::Range<i64> = -211_813_488_000_000_000..9_223_371_331_200_000_000;

const NUMERIC_POSITIVE: u16 = 0x0000;
const NUMERIC_NEGATIVE: u16 = 0x4000;
/// The first byte of a `jsonb`.
const JSONB_VERSION: u8 = 1;
/// Decimal digits in one digit of the wire format.
const DIGITS_PER_GROUP: usize = 4;

/// Appends the value, without its length. The value is not NULL.
pub(crate) fn encode(value: ValueRef<'_>, data_type: DataType, out: &mut BytesMut) -> Result<()> {
    match value {
        ValueRef::Boolean(value) => out.put_u8(value as u8),
        ValueRef::SmallInt(_) | ValueRef::Integer(_) | ValueRef::BigInt(_) => {
            encode_integer(value, data_type, out)?
        }
        ValueRef::Real(value) => match data_type {
            DataType::DoublePrecision => out.put_f64(value as f64),
            _ => out.put_f32(value),
        },
        ValueRef::Double(value) => out.put_f64(value),
        ValueRef::Numeric(value) => encode_numeric(value, out),
        ValueRef::Number(text) => encode_number(text, out),
        ValueRef::Text(text) => match data_type {
            DataType::System(SystemType::List(list)) => encode_list(text, list, out)?,
            DataType::System(SystemType::Row(row)) => encode_row(text, row, out)?,
            DataType::System(SystemType::Object(_)) => {
                let message = format!("binary values of type {data_type} are not supported");
                return Err(Error::new(SqlState::FeatureNotSupported, message));
            }
            DataType::Jsonb | DataType::System(SystemType::JsonPath) => {
                out.put_u8(JSONB_VERSION);
                out.put_slice(text.as_bytes());
            }
            // One byte, which is written as three octal digits where it is no letter; none is zero.
            DataType::System(SystemType::Char) => match text.as_bytes() {
                [] => out.put_u8(0),
                [b'\\', digits @ ..] if digits.len() == 3 => {
                    out.put_u8(digits.iter().fold(0, |byte, digit| byte << 3 | (digit & 7)));
                }
                letter => out.put_slice(letter),
            },
            _ => encode_text(text, data_type, out),
        },
        ValueRef::Date(days) if is_infinite_date(days) => out.put_i32(days),
        ValueRef::Date(days) => out.put_i32(days.wrapping_sub(EPOCH_DAYS)),
        ValueRef::Timestamp(infinity) | ValueRef::TimestampTz(infinity) if is_infinite(infinity) => {
            out.put_i64(infinity);
        }
        ValueRef::Timestamp(microseconds) | ValueRef::TimestampTz(microseconds) => {
            out.put_i64(microseconds.wrapping_sub(EPOCH_MICROSECONDS))
        }
        ValueRef::Time(microseconds) => out.put_i64(microseconds),
        ValueRef::Interval(interval) => {
            out.put_i64(interval.microseconds);
            out.put_i32(interval.days);
            out.put_i32(interval.months);
        }
        ValueRef::Bytea(bytes) => out.put_slice(bytes),
        ValueRef::Uuid(bytes) => out.put_slice(&bytes),
        ValueRef::Packed(packed) => out.put_slice(&packed.to_wire()),
        ValueRef::Enum(value) => out.put_slice(value.label().as_bytes()),
        ValueRef::Array(array) => encode_array(array, out)?,
        ValueRef::Null => return Err(Error::internal("NULL has no binary form")),
    }
    Ok(())
}

/// An integer in the width that the column was announced with, whichever it is computed in.
fn encode_integer(value: ValueRef<'_>, data_type: DataType, out: &mut BytesMut) -> Result<()> {
    let wide = match value {
        ValueRef::SmallInt(value) => value as i64,
        ValueRef::Integer(value) => value as i64,
        ValueRef::BigInt(value) => value,
        _ => unreachable!("only integers come here"),
    };
    let misfit = |_| Error::internal(format!("a result column of type {data_type} holds {wide}"));
    match data_type {
        DataType::SmallInt => out.put_i16(i16::try_from(wide).map_err(misfit)?),
        DataType::Integer => out.put_i32(i32::try_from(wide).map_err(misfit)?),
        DataType::System(_) => out.put_u32(u32::try_from(wide).map_err(misfit)?),
        DataType::Numeric { .. } | DataType::Number => encode_numeric(Decimal::new(wide as i128, 0), out),
        _ => out.put_i64(wide),
    }
    Ok(())
}

/// The text of a list that an analytical query has written. Vectors count from 0.
fn encode_list(text: &str, list: ListType, out: &mut BytesMut) -> Result<()> {
    if let ListType::Row(_) = list {
        let texts = parse_text(DataType::System(SystemType::List(ListType::Text)), text)?;
        return match &texts {
            Value::Array(texts) => encode_items(texts.borrow(), list, out),
            _ => Err(Error::internal("an array that is none")),
        };
    }
    if !list.is_vector() {
        let parsed = parse_text(DataType::System(SystemType::List(list)), text)?;
        return encode((&parsed).into(), DataType::System(SystemType::List(list)), out);
    }
    let items: Vec<&str> = text.split_ascii_whitespace().collect();
    out.put_i32(1);
    out.put_i32(0);
    out.put_u32(item_oid(list));
    out.put_u32(items.len() as u32);
    out.put_i32(0);
    for item in items {
        encode_item((&parse_text(list.item_type(), item)?).into(), list.item_type(), out)?;
    }
    Ok(())
}

/// Dimensions, whether NULL occurs, the type of the items, each dimension's length and first position; then each item.
fn encode_array(array: ArrayRef<'_>, out: &mut BytesMut) -> Result<()> {
    encode_items(array, array.list_type(), out)
}

/// An array as one of another type, whose values its items are.
fn encode_items(array: ArrayRef<'_>, list: ListType, out: &mut BytesMut) -> Result<()> {
    out.put_u32(array.dimensions().len() as u32);
    out.put_i32(i32::from(array.has_null()));
    out.put_u32(item_oid(list));
    for dimension in array.dimensions() {
        out.put_u32(dimension.length);
        out.put_i32(dimension.lower);
    }
    array.items().try_for_each(|item| encode_item(item, list.item_type(), out))
}

/// The number of fields; then each with the number of its type and its length, which is -1 for NULL.
fn encode_row(text: &str, row: RowType, out: &mut BytesMut) -> Result<()> {
    let types = row.fields();
    out.put_u32(types.len() as u32);
    if types.is_empty() {
        return Ok(());
    }
    for (field, &data_type) in row_fields(text)?.iter().zip(types) {
        out.put_u32(wire_type(data_type).oid);
        let value = match (field, data_type) {
            (None, _) => Value::Null,
            (Some(text), DataType::System(SystemType::List(_) | SystemType::Row(_))) => {
                Value::text(text.as_str())
            }
            (Some(text), _) => parse_text(data_type, text)?,
        };
        encode_item((&value).into(), data_type, out)?;
    }
    Ok(())
}

/// An item after its length, which is -1 for NULL.
fn encode_item(item: ValueRef<'_>, data_type: DataType, out: &mut BytesMut) -> Result<()> {
    if item.is_null() {
        out.put_i32(-1);
        return Ok(());
    }
    let start = out.len();
    out.put_u32(0);
    encode(item, data_type, out)?;
    let length = i32::try_from(out.len() - start - 4)
        .map_err(|_| Error::new(SqlState::ProgramLimitExceeded, "an item of an array or row is too long"))?;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

fn encode_text(text: &str, data_type: DataType, out: &mut BytesMut) {
    out.put_slice(text.as_bytes());
    if let DataType::Char(length) = data_type
        && data_type != DataType::ANY_CHAR
    {
        let blanks = (length as usize).saturating_sub(text.chars().count());
        out.put_bytes(b' ', blanks);
    }
}

fn encode_number(text: &str, out: &mut BytesMut) {
    let mut bytes = Vec::new();
    number_to_binary(text, &mut bytes);
    out.put_slice(&bytes);
}

/// Splits the digits into groups of four on both sides of the decimal point, drops zero groups at both ends.
fn encode_numeric(value: Decimal, out: &mut BytesMut) {
    let scale = value.scale as usize;
    // Digits, padded so that the point falls between two groups.
    let mut digits = value.unscaled.unsigned_abs().to_string();
    if digits.len() <= scale {
        digits.insert_str(0, &"0".repeat(scale + 1 - digits.len()));
    }
    let whole = digits.len() - scale;
    let lead = whole.next_multiple_of(DIGITS_PER_GROUP) - whole;
    let tail = scale.next_multiple_of(DIGITS_PER_GROUP) - scale;
    let padded = format!("{}{digits}{}", "0".repeat(lead), "0".repeat(tail));
    let groups: Vec<u16> = padded
        .as_bytes()
        .chunks(DIGITS_PER_GROUP)
        .map(|group| group.iter().fold(0, |sum, digit| sum * 10 + (digit - b'0') as u16))
        .collect();
    let whole_groups = (whole + lead) / DIGITS_PER_GROUP;
    let first = groups.iter().position(|&group| group != 0).unwrap_or(groups.len());
    let end = groups.iter().rposition(|&group| group != 0).map_or(first, |last| last + 1);
    let weight = if first == groups.len() { 0 } else { whole_groups as i16 - 1 - first as i16 };
    out.put_u16((end - first) as u16);
    out.put_i16(weight);
    out.put_u16(if value.unscaled < 0 { NUMERIC_NEGATIVE } else { NUMERIC_POSITIVE });
    out.put_u16(value.scale as u16);
    groups[first..end].iter().for_each(|&group| out.put_u16(group));
}

/// Reads a value of the type. 22P03 if the bytes are not one.
pub(crate) fn decode(bytes: &[u8], data_type: DataType) -> Result<Value> {
    Ok(match data_type {
        DataType::Boolean => Value::Boolean(fixed::<1>(bytes)?[0] != 0),
        DataType::SmallInt => Value::SmallInt(i16::from_be_bytes(fixed(bytes)?)),
        DataType::Integer => Value::Integer(i32::from_be_bytes(fixed(bytes)?)),
        DataType::BigInt => Value::BigInt(i64::from_be_bytes(fixed(bytes)?)),
        DataType::Real => Value::Real(f32::from_be_bytes(fixed(bytes)?)),
        DataType::DoublePrecision => Value::Double(f64::from_be_bytes(fixed(bytes)?)),
        DataType::Numeric { .. } => Value::Numeric(decode_numeric(bytes)?),
        DataType::Number => Value::Number(number_from_binary(bytes)?.into()),
        DataType::System(SystemType::List(list)) if !list.is_vector() => {
            Value::Array(decode_array(bytes, list)?)
        }
        DataType::System(SystemType::JsonPath) => decode_versioned(bytes, data_type)?,
        DataType::System(SystemType::Oid) => Value::BigInt(u32::from_be_bytes(fixed(bytes)?).into()),
        DataType::Text | DataType::Varchar(_) | DataType::Char(_) | DataType::System(_) => {
            Value::text(utf8(bytes)?)
        }
        DataType::Date => Value::Date(decode_date(i32::from_be_bytes(fixed(bytes)?))?),
        DataType::Timestamp(_) => Value::Timestamp(decode_timestamp(i64::from_be_bytes(fixed(bytes)?))?),
        DataType::TimestampTz(_) => Value::TimestampTz(decode_timestamp(i64::from_be_bytes(fixed(bytes)?))?),
        DataType::Time(_) => Value::Time(decode_time(i64::from_be_bytes(fixed(bytes)?))?),
        DataType::Interval(_) => Value::Interval(decode_interval(fixed(bytes)?)),
        DataType::Bytea => Value::Bytea(bytes.into()),
        DataType::Uuid => Value::Uuid(fixed(bytes)?),
        DataType::Json => parse_text(data_type, utf8(bytes)?)?,
        DataType::Jsonb => decode_versioned(bytes, data_type)?,
        DataType::Packed(packed) => Value::Packed(packed.from_wire(bytes)?),
        DataType::Enum(labels) => Value::Enum(labels.value(utf8(bytes)?)?),
    })
}

/// A version, and the text of a document or path.
fn decode_versioned(bytes: &[u8], data_type: DataType) -> Result<Value> {
    match bytes.split_first() {
        Some((&JSONB_VERSION, text)) => parse_text(data_type, utf8(text)?),
        Some((version, _)) => {
            let message = format!("unsupported {data_type} version number {version}");
            Err(Error::new(SqlState::InternalError, message))
        }
        None => Err(malformed()),
    }
}

fn malformed() -> Error {
    Error::new(SqlState::InvalidBinaryRepresentation, "incorrect binary data format in bind parameter")
}

fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N]> {
    bytes.try_into().map_err(|_| malformed())
}

/// Reads what [`encode_array`] writes.
fn decode_array(bytes: &[u8], list: ListType) -> Result<Array> {
    let (header, mut rest) = bytes.split_first_chunk::<12>().ok_or_else(malformed)?;
    let field = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let (count, flags, oid) = (field(0), field(4), field(8));
    if count > 6 {
        let message = format!("number of array dimensions ({count}) exceeds the maximum allowed (6)");
        return Err(Error::new(SqlState::ProgramLimitExceeded, message));
    }
    if flags > 1 {
        return Err(Error::new(SqlState::InvalidBinaryRepresentation, "invalid array flags"));
    }
    if oid != item_oid(list) {
        let message =
            format!("binary data has array element type {oid} instead of expected {}", item_oid(list));
        return Err(Error::new(SqlState::DatatypeMismatch, message));
    }
    let mut dimensions = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let length = u32::try_from(take_i32(&mut rest)?).map_err(|_| malformed())?;
        dimensions.push(Dimension { length, lower: take_i32(&mut rest)? });
    }
    let mut items = ArrayBuilder::new(list);
    let count: u64 =
        dimensions.iter().fold(1, |items, dimension| items.saturating_mul(dimension.length.into()));
    for _ in 0..if dimensions.is_empty() { 0 } else { count } {
        match u32::try_from(take_i32(&mut rest)?) {
            Err(_) => items.push(ValueRef::Null)?,
            Ok(length) => {
                let (item, after) = rest.split_at_checked(length as usize).ok_or_else(malformed)?;
                let item_type = match list {
                    ListType::Numeric => DataType::Number,
                    other => other.item_type(),
                };
                items.push((&decode(item, item_type)?).into())?;
                rest = after;
            }
        }
    }
    if !rest.is_empty() {
        return Err(malformed());
    }
    if items.is_empty() { Ok(items.finish()) } else { items.finish_in(&dimensions) }
}

fn take_i32(bytes: &mut &[u8]) -> Result<i32> {
    let (first, rest) = bytes.split_first_chunk::<4>().ok_or_else(malformed)?;
    *bytes = rest;
    Ok(i32::from_be_bytes(*first))
}

fn decode_date(days: i32) -> Result<i32> {
    if is_infinite_date(days) {
        return Ok(days);
    }
    if !DAYS.contains(&days) {
        return Err(Error::new(SqlState::DatetimeFieldOverflow, "date out of range"));
    }
    Ok(days + EPOCH_DAYS)
}

fn decode_timestamp(microseconds: i64) -> Result<i64> {
    if is_infinite(microseconds) {
        return Ok(microseconds);
    }
    let shifted = microseconds.checked_add(EPOCH_MICROSECONDS);
    shifted
        .filter(|_| MICROSECONDS.contains(&microseconds))
        .ok_or_else(|| Error::new(SqlState::DatetimeFieldOverflow, "timestamp out of range"))
}

fn decode_time(microseconds: i64) -> Result<i64> {
    match microseconds {
        0..=86_400_000_000 => Ok(microseconds),
        _ => Err(Error::new(SqlState::DatetimeFieldOverflow, "time out of range")),
    }
}

/// Microseconds, days, months.
fn decode_interval(bytes: [u8; 16]) -> Interval {
    let bits = u128::from_be_bytes(bytes);
    Interval::new(bits as u32 as i32, (bits >> 32) as u32 as i32, (bits >> 64) as u64 as i64)
}

/// Reads groups of four digits into one integer, then brings it to the scale that the header announces.
fn decode_numeric(bytes: &[u8]) -> Result<Decimal> {
    let (header, groups) = bytes.split_first_chunk::<8>().ok_or_else(malformed)?;
    let field = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let (count, weight, sign, scale) = (field(0) as usize, field(2) as i16 as i32, field(4), field(6));
    if groups.len() != count * 2 || (sign != NUMERIC_POSITIVE && sign != NUMERIC_NEGATIVE) {
        return Err(match sign {
            0xC000 | 0xD000 | 0xF000 => {
                Error::new(SqlState::FeatureNotSupported, "numeric NaN and infinity are not supported")
            }
            _ => malformed(),
        });
    }
    let overflow = || Error::new(SqlState::NumericValueOutOfRange, "value overflows numeric format");
    if scale > MAX_NUMERIC_PRECISION as u16 {
        return Err(overflow());
    }
    let mut unscaled: i128 = 0;
    // Decimal digits still to come up to the announced scale; what lies behind is cut off, as PostgreSQL does.
    let mut places = (weight + 1) * DIGITS_PER_GROUP as i32 + scale as i32;
    for group in groups.chunks_exact(2) {
        let group = u16::from_be_bytes([group[0], group[1]]);
        if group > 9_999 {
            return Err(malformed());
        }
        let wanted = places.clamp(0, DIGITS_PER_GROUP as i32) as u32;
        let digits = group as i128 / 10i128.pow(DIGITS_PER_GROUP as u32 - wanted);
        unscaled = push_digits(unscaled, wanted, digits).ok_or_else(overflow)?;
        places -= DIGITS_PER_GROUP as i32;
    }
    let unscaled = push_digits(unscaled, places.max(0) as u32, 0).ok_or_else(overflow)?;
    if unscaled.unsigned_abs() >= 10u128.pow(MAX_NUMERIC_PRECISION as u32) {
        return Err(overflow());
    }
    Ok(Decimal::new(if sign == NUMERIC_NEGATIVE { -unscaled } else { unscaled }, scale as u8))
}

/// `value * 10^count + digits`; `None` on overflow.
fn push_digits(value: i128, count: u32, digits: i128) -> Option<i128> {
    match value {
        0 => Some(digits),
        _ => value.checked_mul(10i128.checked_pow(count)?)?.checked_add(digits),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(value: &Value, data_type: DataType) -> Vec<u8> {
        let mut out = BytesMut::new();
        encode(value.into(), data_type, &mut out).unwrap();
        out.to_vec()
    }

    fn numeric(unscaled: i128, scale: u8) -> Value {
        Value::Numeric(Decimal::new(unscaled, scale))
    }

    const NUMERIC: DataType = DataType::Numeric { precision: 38, scale: 4 };

    #[test]
    fn numerics_are_sent_as_postgresql_sends_them() {
        let cases: [(i128, u8, &[u16]); 9] = [
            (0, 0, &[0, 0, 0, 0]),
            (0, 2, &[0, 0, 0, 2]),
            (1, 0, &[1, 0, 0, 0, 1]),
            (12345, 0, &[2, 1, 0, 0, 1, 2345]),
            (10000, 0, &[1, 1, 0, 0, 1]),
            (-12345, 2, &[2, 0, 0x4000, 2, 123, 4500]),
            (5, 5, &[1, 0xfffe, 0, 5, 5000]),
            (100_000_001, 4, &[3, 1, 0, 4, 1, 0, 1]),
            (i128::pow(10, 37), 0, &[1, 9, 0, 0, 10]),
        ];
        for (unscaled, scale, words) in cases {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            assert_eq!(sent(&numeric(unscaled, scale), NUMERIC), bytes, "{unscaled} {scale}");
        }
    }

    #[test]
    fn numerics_come_back() {
        let mut unscaled: i128 = 1;
        for step in 0..127 {
            for scale in [0, 1, 3, 4, 5, 20, 38] {
                for value in [unscaled, -unscaled, unscaled + 7] {
                    if value.unsigned_abs() < 10u128.pow(38) {
                        let bytes = sent(&numeric(value, scale), NUMERIC);
                        assert_eq!(decode(&bytes, NUMERIC).unwrap(), numeric(value, scale), "{step}");
                    }
                }
            }
            unscaled = unscaled.wrapping_mul(2).max(1);
        }
    }

    #[test]
    fn malformed_numerics_are_refused() {
        let words = |words: &[u16]| -> Vec<u8> { words.iter().flat_map(|word| word.to_be_bytes()).collect() };
        for (bytes, state) in [
            (vec![0; 7], SqlState::InvalidBinaryRepresentation),
            (words(&[1, 0, 0, 0]), SqlState::InvalidBinaryRepresentation),
            (words(&[1, 0, 0, 0, 10_000]), SqlState::InvalidBinaryRepresentation),
            (words(&[1, 0, 0x1234, 0, 1]), SqlState::InvalidBinaryRepresentation),
            (words(&[0, 0, 0xC000, 0]), SqlState::FeatureNotSupported),
            (words(&[1, 10, 0, 0, 1]), SqlState::NumericValueOutOfRange),
            (words(&[1, 0x7fff, 0, 0, 1]), SqlState::NumericValueOutOfRange),
            (words(&[1, 0, 0, 39, 1]), SqlState::NumericValueOutOfRange),
        ] {
            assert_eq!(decode(&bytes, NUMERIC).unwrap_err().state(), state, "{bytes:?}");
        }
        assert_eq!(decode(&words(&[1, 0x8000, 0, 2, 1]), NUMERIC).unwrap(), numeric(0, 2));
    }

    /// What PostgreSQL 15's `interval_send` and `time_send` give.
    #[test]
    fn intervals_and_times_have_postgresqls_bytes() {
        let interval = Value::Interval(Interval::new(14, -3, 1));
        let bytes = [0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xfd, 0, 0, 0, 14];
        assert_eq!(sent(&interval, DataType::INTERVAL), bytes);
        assert_eq!(decode(&bytes, DataType::INTERVAL).unwrap(), interval);
        let time = Value::Time(258);
        assert_eq!(sent(&time, DataType::TIME), [0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(decode(&[0, 0, 0, 0, 0, 0, 1, 2], DataType::TIME).unwrap(), time);
        let late = decode(&86_400_000_001i64.to_be_bytes(), DataType::TIME).unwrap_err();
        assert_eq!(late.state(), SqlState::DatetimeFieldOverflow);
    }

    #[test]
    fn lists_are_sent_with_their_items() {
        let list = |text: &str, list| sent(&Value::text(text), DataType::System(SystemType::List(list)));
        let words = |words: &[i32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
        assert_eq!(list("{}", ListType::Text), words(&[0, 0, 25]));
        assert_eq!(list("{7,NULL}", ListType::Integer), words(&[1, 1, 23, 2, 1, 4, 7, -1]));
        assert_eq!(list("16 17", ListType::OidVector), words(&[1, 0, 26, 2, 0, 4, 16, 4, 17]));
        let mut text = words(&[1, 0, 25, 2, 1, 4]);
        text.extend(b"a,\"b\0\0\0\x04NULL");
        assert_eq!(list(r#"{"a,\"b","NULL"}"#, ListType::Text), text);
    }

    #[test]
    fn dates_count_from_2000() {
        assert_eq!(sent(&Value::Date(10_957), DataType::Date), [0; 4]);
        assert_eq!(decode(&(-1i32).to_be_bytes(), DataType::Date).unwrap(), Value::Date(10_956));
        let second = Value::Timestamp(946_684_801_000_000);
        assert_eq!(sent(&second, DataType::TIMESTAMP), 1_000_000i64.to_be_bytes());
        assert_eq!(decode(&1_000_000i64.to_be_bytes(), DataType::TIMESTAMP).unwrap(), second);
        for infinity in [i64::MAX, i64::MIN] {
            let value = Value::TimestampTz(infinity);
            assert_eq!(sent(&value, DataType::TIMESTAMPTZ), infinity.to_be_bytes());
            assert_eq!(decode(&infinity.to_be_bytes(), DataType::TIMESTAMPTZ).unwrap(), value);
        }
        for bytes in [(i64::MAX - 1).to_be_bytes(), (i64::MIN + 1).to_be_bytes()] {
            let error = decode(&bytes, DataType::TIMESTAMPTZ).unwrap_err();
            assert_eq!(error.state(), SqlState::DatetimeFieldOverflow);
        }
    }

    #[test]
    fn other_types_come_back() {
        for (value, data_type) in [
            (Value::Boolean(true), DataType::Boolean),
            (Value::SmallInt(-2), DataType::SmallInt),
            (Value::Integer(i32::MIN), DataType::Integer),
            (Value::BigInt(i64::MAX), DataType::BigInt),
            (Value::Real(1.5), DataType::Real),
            (Value::Double(-0.1), DataType::DoublePrecision),
            (Value::text("ä"), DataType::Varchar(3)),
            (Value::Bytea(Box::new([0, 255])), DataType::Bytea),
            (Value::Uuid([7; 16]), DataType::Uuid),
            (Value::text("[ 1]"), DataType::Json),
            (Value::text("{\"a\": [1.50]}"), DataType::Jsonb),
        ] {
            assert_eq!(decode(&sent(&value, data_type), data_type).unwrap(), value);
        }
        assert_eq!(sent(&Value::text("ä"), DataType::Char(3)), "ä  ".as_bytes());
        assert!(decode(&[1, 2, 3], DataType::Integer).is_err());
        assert!(encode(ValueRef::Null, DataType::Text, &mut BytesMut::new()).is_err());
    }
}
