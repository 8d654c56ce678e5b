//! Functions of byte strings, and between them and texts.

use super::entry::{Entry, bytes, entry, integer, invalid, text, wrong_argument};
use crate::expression::text::length;
use crate::name::not_supported;
use ankerdb_engine::DataType::{BigInt, Bytea, Integer, Text};
use ankerdb_engine::{Error, Interrupt, Result, SqlState, Value};
use datafusion::common::ScalarValue;
use datafusion::common::config::ConfigOptions;
use datafusion::functions::crypto;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF};
use std::sync::Arc;

pub(super) const ENTRIES: &[Entry] = &[
    entry("encode", &[Bytea, Text], Text, encode),
    entry("decode", &[Text, Text], Bytea, decode),
    entry("md5", &[Text], Text, md5),
    entry("md5", &[Bytea], Text, md5),
    // Of the extension pgcrypto.
    entry("digest", &[Text, Text], Bytea, named_digest),
    entry("digest", &[Bytea, Text], Bytea, named_digest),
    entry("sha224", &[Bytea], Bytea, |values, _| digest(&crypto::sha224(), bytes(values, 0)?)),
    entry("sha256", &[Bytea], Bytea, |values, _| digest(&crypto::sha256(), bytes(values, 0)?)),
    entry("sha384", &[Bytea], Bytea, |values, _| digest(&crypto::sha384(), bytes(values, 0)?)),
    entry("sha512", &[Bytea], Bytea, |values, _| digest(&crypto::sha512(), bytes(values, 0)?)),
    entry("get_byte", &[Bytea, Integer], Integer, get_byte),
    entry("set_byte", &[Bytea, Integer, Integer], Bytea, set_byte),
    entry("get_bit", &[Bytea, BigInt], Integer, get_bit),
    entry("set_bit", &[Bytea, BigInt, Integer], Bytea, set_bit),
    entry("bit_count", &[Bytea], BigInt, bit_count),
    entry("position", &[Bytea, Bytea], Integer, position),
    entry("substr", &[Bytea, Integer], Bytea, substring),
    entry("substr", &[Bytea, Integer, Integer], Bytea, substring),
    entry("substring", &[Bytea, Integer], Bytea, substring),
    entry("substring", &[Bytea, Integer, Integer], Bytea, substring),
    entry("overlay", &[Bytea, Bytea, Integer], Bytea, overlay),
    entry("overlay", &[Bytea, Bytea, Integer, Integer], Bytea, overlay),
    entry("btrim", &[Bytea, Bytea], Bytea, |values, _| trimmed(values, true, true)),
    entry("ltrim", &[Bytea, Bytea], Bytea, |values, _| trimmed(values, true, false)),
    entry("rtrim", &[Bytea, Bytea], Bytea, |values, _| trimmed(values, false, true)),
    entry("operator ||", &[Bytea, Bytea], Bytea, |values, _| {
        Ok(Value::Bytea([bytes(values, 0)?, bytes(values, 1)?].concat().into()))
    }),
    entry(LETTERS, &[Bytea], Text, letters),
    entry("convert_from", &[Bytea, Text], Text, convert_from),
    entry("convert_to", &[Text, Text], Bytea, convert_to),
];

/// The function of bytes that gives a text with a letter for each, in which LIKE finds what it finds in them.
pub(crate) const LETTERS: &str = "operator letters";

fn letters(values: &[Value], _: &Interrupt) -> Result<Value> {
    Ok(Value::text(bytes(values, 0)?.iter().map(|byte| char::from(*byte)).collect::<String>()))
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// Characters of a line of base64.
const LINE: usize = 76;

fn encode(values: &[Value], _: &Interrupt) -> Result<Value> {
    let (bytes, format) = (bytes(values, 0)?, text(values, 1)?);
    Ok(Value::text(match format.to_ascii_lowercase().as_str() {
        "hex" => bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>(),
        "base64" => base64(bytes),
        "escape" => escaped(bytes),
        _ => return Err(unknown_encoding(format)),
    }))
}

fn unknown_encoding(format: &str) -> Error {
    invalid(format!("unrecognized encoding: \"{format}\""))
}

fn base64(bytes: &[u8]) -> String {
    let mut encoded = String::with_capacity(bytes.len() / 3 * 4 + bytes.len() / 57 + 4);
    for (number, part) in bytes.chunks(3).enumerate() {
        if number > 0 && (number * 4).is_multiple_of(LINE) {
            encoded.push('\n');
        }
        let word =
            part.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - part.len()));
        for position in 0..4 {
            encoded.push(match position <= part.len() {
                true => char::from(DIGITS[(word >> (18 - 6 * position) & 63) as usize]),
                false => '=',
            });
        }
    }
    encoded
}

fn escaped(bytes: &[u8]) -> String {
    let mut encoded = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            0 | 128.. => encoded.push_str(&format!("\\{byte:03o}")),
            b'\\' => encoded.push_str("\\\\"),
            plain => encoded.push(char::from(plain)),
        }
    }
    encoded
}

fn decode(values: &[Value], _: &Interrupt) -> Result<Value> {
    let (text, format) = (text(values, 0)?, text(values, 1)?);
    let decoded = match format.to_ascii_lowercase().as_str() {
        "hex" => from_hex(text)?,
        "base64" => from_base64(text)?,
        "escape" => from_escapes(text)?,
        _ => return Err(unknown_encoding(format)),
    };
    Ok(Value::Bytea(decoded.into()))
}

fn from_hex(text: &str) -> Result<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len() / 2);
    let mut digits = text.chars().filter(|character| !matches!(character, ' ' | '\n' | '\t' | '\r'));
    let value = |digit: char| {
        digit.to_digit(16).ok_or_else(|| invalid(format!("invalid hexadecimal digit: \"{digit}\"")))
    };
    while let Some(first) = digits.next() {
        let high = value(first)?;
        let low = digits.next().ok_or_else(|| invalid("invalid hexadecimal data: odd number of digits"))?;
        decoded.push((high * 16 + value(low)?) as u8);
    }
    Ok(decoded)
}

fn from_base64(text: &str) -> Result<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len() / 4 * 3);
    let (mut word, mut count, mut ends) = (0u32, 0, 0);
    for character in text.chars().filter(|character| !matches!(character, ' ' | '\n' | '\t' | '\r')) {
        let digit = match character {
            '=' if ends > 0 || count >= 2 => {
                ends += 1;
                0
            }
            '=' => return Err(invalid("unexpected \"=\" while decoding base64 sequence")),
            _ => {
                let position = DIGITS.iter().position(|digit| char::from(*digit) == character);
                let message = || {
                    invalid(format!("invalid symbol \"{character}\" found while decoding base64 sequence"))
                };
                position.filter(|_| ends == 0).ok_or_else(message)? as u32
            }
        };
        word = word << 6 | digit;
        count += 1;
        if count == 4 {
            let bytes = word.to_be_bytes();
            decoded.extend_from_slice(&bytes[1..4 - ends.min(2)]);
            (word, count) = (0, 0);
        }
    }
    match count {
        0 => Ok(decoded),
        _ => Err(invalid("invalid base64 end sequence")
            .with_hint("Input data is missing padding, is truncated, or is otherwise corrupted.")),
    }
}

fn from_escapes(text: &str) -> Result<Vec<u8>> {
    let malformed = || Error::new(SqlState::InvalidTextRepresentation, "invalid input syntax for type bytea");
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        rest = match (first, behind) {
            (b'\\', [b'\\', behind @ ..]) => {
                decoded.push(b'\\');
                behind
            }
            (b'\\', [high @ b'0'..=b'3', middle @ b'0'..=b'7', low @ b'0'..=b'7', behind @ ..]) => {
                decoded.push((high - b'0') << 6 | (middle - b'0') << 3 | (low - b'0'));
                behind
            }
            (b'\\', _) => return Err(malformed()),
            (plain, behind) => {
                decoded.push(*plain);
                behind
            }
        };
    }
    Ok(decoded)
}

/// The digest by an algorithm that is named, in any case of its letters.
fn named_digest(values: &[Value], interrupt: &Interrupt) -> Result<Value> {
    let bytes = match &values[0] {
        Value::Text(text) => text.as_bytes(),
        _ => bytes(values, 0)?,
    };
    let Value::Text(name) = &values[1] else { return Err(Error::internal("the name of an algorithm")) };
    match name.to_ascii_lowercase().as_str() {
        "md5" => {
            let Value::Text(hex) = md5(&[Value::Bytea(bytes.into())], interrupt)? else {
                return Err(Error::internal("md5 gives a text"));
            };
            let byte = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
            let digest: Option<Vec<u8>> = (0..hex.len()).step_by(2).map(byte).collect();
            digest
                .map(|digest| Value::Bytea(digest.into()))
                .ok_or_else(|| Error::internal("md5 is hexadecimal"))
        }
        "sha224" => digest(&crypto::sha224(), bytes),
        "sha256" => digest(&crypto::sha256(), bytes),
        "sha384" => digest(&crypto::sha384(), bytes),
        "sha512" => digest(&crypto::sha512(), bytes),
        _ => {
            let message = format!("Cannot use \"{name}\": No such hash algorithm");
            Err(Error::new(SqlState::InvalidParameterValue, message))
        }
    }
}

/// The library's digest of bytes.
fn digest(function: &ScalarUDF, bytes: &[u8]) -> Result<Value> {
    use datafusion::arrow::datatypes::{DataType as ArrowType, Field};
    let argument = ScalarValue::Binary(Some(bytes.to_vec()));
    let field = |data_type: ArrowType| Arc::new(Field::new("", data_type, true));
    let result = function.invoke_with_args(ScalarFunctionArgs {
        args: vec![ColumnarValue::Scalar(argument)],
        arg_fields: vec![field(ArrowType::Binary)],
        number_rows: 1,
        return_field: field(ArrowType::Binary),
        config_options: Arc::new(ConfigOptions::default()),
    });
    match result {
        Ok(ColumnarValue::Scalar(ScalarValue::Binary(Some(digest)))) => Ok(Value::Bytea(digest.into())),
        Ok(ColumnarValue::Scalar(ScalarValue::Utf8(Some(digest)) | ScalarValue::Utf8View(Some(digest)))) => {
            Ok(Value::text(digest))
        }
        _ => Err(Error::internal("a digest is no byte string")),
    }
}

fn md5(values: &[Value], _: &Interrupt) -> Result<Value> {
    match values {
        [Value::Text(text)] => digest(&crypto::md5(), text.as_bytes()),
        _ => digest(&crypto::md5(), bytes(values, 0)?),
    }
}

/// The position of a byte or bit, as one in the byte string.
fn index(values: &[Value], count: usize) -> Result<usize> {
    let position = integer(values, 1)?;
    usize::try_from(position).ok().filter(|position| *position < count).ok_or_else(|| {
        let message = format!("index {position} out of valid range, 0..{}", count as i64 - 1);
        Error::new(SqlState::ArraySubscriptError, message)
    })
}

fn get_byte(values: &[Value], _: &Interrupt) -> Result<Value> {
    let bytes = bytes(values, 0)?;
    Ok(Value::Integer(i32::from(bytes[index(values, bytes.len())?])))
}

fn set_byte(values: &[Value], _: &Interrupt) -> Result<Value> {
    let mut changed = bytes(values, 0)?.to_vec();
    let at = index(values, changed.len())?;
    changed[at] = integer(values, 2)? as u8;
    Ok(Value::Bytea(changed.into()))
}

fn get_bit(values: &[Value], _: &Interrupt) -> Result<Value> {
    let bytes = bytes(values, 0)?;
    let at = index(values, bytes.len() * 8)?;
    Ok(Value::Integer(i32::from(bytes[at / 8] >> (at % 8) & 1)))
}

fn set_bit(values: &[Value], _: &Interrupt) -> Result<Value> {
    let mut changed = bytes(values, 0)?.to_vec();
    let at = index(values, changed.len() * 8)?;
    match integer(values, 2)? {
        0 => changed[at / 8] &= !(1 << (at % 8)),
        1 => changed[at / 8] |= 1 << (at % 8),
        _ => return Err(invalid("new bit must be 0 or 1")),
    }
    Ok(Value::Bytea(changed.into()))
}

fn bit_count(values: &[Value], _: &Interrupt) -> Result<Value> {
    let ones: u64 = bytes(values, 0)?.iter().map(|byte| u64::from(byte.count_ones())).sum();
    Ok(Value::BigInt(ones as i64))
}

fn position(values: &[Value], _: &Interrupt) -> Result<Value> {
    let (bytes, part) = (bytes(values, 0)?, bytes(values, 1)?);
    let found = match part.len() {
        0 => Some(0),
        length => bytes.windows(length).position(|window| window == part),
    };
    length(found.map_or(0, |offset| offset + 1)).map(Value::Integer)
}

fn overlay(values: &[Value], _: &Interrupt) -> Result<Value> {
    let (whole, by, start) = (bytes(values, 0)?, bytes(values, 1)?, integer(values, 2)?);
    let count = if values.len() == 3 { by.len() as i64 } else { integer(values, 3)? };
    if start <= 0 {
        return Err(Error::new(SqlState::SubstringError, "negative substring length not allowed"));
    }
    let end = i32::try_from(start + count)
        .map_err(|_| Error::new(SqlState::NumericValueOutOfRange, "integer out of range"))?;
    let place = |position: i64| usize::try_from(position - 1).unwrap_or(0).min(whole.len());
    let parts = [&whole[..place(start)], by, &whole[place(i64::from(end))..]];
    Ok(Value::Bytea(parts.concat().into()))
}

fn substring(values: &[Value], _: &Interrupt) -> Result<Value> {
    let (bytes, start) = (bytes(values, 0)?, integer(values, 1)?);
    let end = match values.len() {
        2 => i64::MAX,
        _ => match integer(values, 2)? {
            ..0 => {
                let message = "negative substring length not allowed";
                return Err(Error::new(SqlState::SubstringError, message));
            }
            length => start.saturating_add(length),
        },
    };
    let place = |position: i64| usize::try_from(position - 1).unwrap_or(0).min(bytes.len());
    let (start, end) = (place(start), place(end.max(1)));
    Ok(Value::Bytea(bytes[start..end.max(start)].into()))
}

fn trimmed(values: &[Value], at_start: bool, at_end: bool) -> Result<Value> {
    let (mut rest, set) = (bytes(values, 0)?, bytes(values, 1)?);
    while at_start && rest.first().is_some_and(|first| set.contains(first)) {
        rest = &rest[1..];
    }
    while at_end && rest.last().is_some_and(|last| set.contains(last)) {
        rest = &rest[..rest.len() - 1];
    }
    Ok(Value::Bytea(rest.into()))
}

/// The only encoding that there is.
fn check_encoding(name: &str) -> Result<()> {
    match name.to_ascii_lowercase().replace(['-', '_'], "").as_str() {
        "utf8" | "unicode" => Ok(()),
        _ => Err(not_supported(&format!("the encoding \"{name}\""))),
    }
}

fn convert_from(values: &[Value], _: &Interrupt) -> Result<Value> {
    check_encoding(text(values, 1)?)?;
    match std::str::from_utf8(bytes(values, 0)?) {
        Ok(text) if !text.contains('\0') => Ok(Value::text(text)),
        _ => {
            let message = "invalid byte sequence for encoding \"UTF8\"";
            Err(Error::new(SqlState::CharacterNotInRepertoire, message))
        }
    }
}

fn convert_to(values: &[Value], _: &Interrupt) -> Result<Value> {
    check_encoding(text(values, 1)?)?;
    match values.first() {
        Some(Value::Text(text)) => Ok(Value::Bytea(text.as_bytes().into())),
        _ => Err(wrong_argument()),
    }
}
