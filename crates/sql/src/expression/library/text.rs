//! Functions of texts.

use super::entry::{Entry, bytes, entry, integer, invalid, text, wrong_argument};
use crate::expression::similar::invalid_escape;
use crate::expression::text::{capital, length, small, substring};
use ankerdb_engine::DataType::{BigInt, Boolean, Bytea, Integer, Text};
use ankerdb_engine::{Error, Interrupt, Result, SqlState, Value};
use ankerdb_value::cast;

pub(super) const ENTRIES: &[Entry] = &[
    entry("initcap", &[Text], Text, initcap),
    entry("lpad", &[Text, Integer], Text, lpad),
    entry("lpad", &[Text, Integer, Text], Text, lpad),
    entry("rpad", &[Text, Integer], Text, rpad),
    entry("rpad", &[Text, Integer, Text], Text, rpad),
    entry("repeat", &[Text, Integer], Text, repeat),
    entry("reverse", &[Text], Text, reverse),
    entry("ascii", &[Text], Integer, ascii),
    entry("chr", &[Integer], Text, chr),
    entry("split_part", &[Text, Text, Integer], Text, split_part),
    entry("starts_with", &[Text, Text], Boolean, starts_with),
    entry("operator ^@", &[Text, Text], Boolean, starts_with),
    entry("translate", &[Text, Text, Text], Text, translate),
    entry("overlay", &[Text, Text, Integer], Text, overlay),
    entry("overlay", &[Text, Text, Integer, Integer], Text, overlay),
    entry("bit_length", &[Text], Integer, bit_length),
    entry("bit_length", &[Bytea], Integer, bit_length),
    entry("to_hex", &[Integer], Text, to_hex),
    entry("to_hex", &[BigInt], Text, to_hex),
    entry("concat_ws", &[Text], Text, concat_ws).and_any(1, usize::MAX).lenient().stable(),
    entry("num_nulls", &[], Integer, num_nulls).and_any(1, usize::MAX).lenient(),
    entry("num_nonnulls", &[], Integer, num_nonnulls).and_any(1, usize::MAX).lenient(),
    entry("like_escape", &[Text, Text], Text, like_escape),
    entry("unistr", &[Text], Text, unistr),
];

/// The most bytes of a value, as in PostgreSQL.
pub(super) const BYTES_MAX: usize = 0x3fff_ffff;

/// 54000
pub(super) fn too_long() -> Error {
    Error::new(SqlState::ProgramLimitExceeded, "requested length too large")
}

/// An empty text with room for so many bytes.
///
/// # Errors
/// 54000 above [`BYTES_MAX`], 53200 if there is no memory.
fn with_room(bytes: usize) -> Result<String> {
    if bytes > BYTES_MAX - 4 {
        return Err(too_long());
    }
    let mut text = String::new();
    text.try_reserve_exact(bytes).map_err(|_| Error::new(SqlState::OutOfMemory, "out of memory"))?;
    Ok(text)
}

/// A pattern of LIKE with backslashes in place of another character that takes the next one literally; an empty one stands for none.
fn like_escape(values: &[Value], _: &Interrupt) -> Result<Value> {
    let (pattern, escape) = (text(values, 0)?, text(values, 1)?);
    let mut characters = escape.chars();
    let escape = match (characters.next(), characters.next()) {
        (_, Some(_)) => return Err(invalid_escape()),
        (escape, None) => escape,
    };
    if escape == Some('\\') {
        return Ok(Value::text(pattern.to_owned()));
    }
    let mut result = with_room(pattern.len().saturating_mul(2))?;
    let mut is_escaped = false;
    for character in pattern.chars() {
        match character {
            _ if Some(character) == escape && !is_escaped => {
                result.push('\\');
                is_escaped = true;
                continue;
            }
            '\\' if !is_escaped => result.push_str("\\\\"),
            _ => result.push(character),
        }
        is_escaped = false;
    }
    Ok(Value::text(result))
}

fn initcap(values: &[Value], _: &Interrupt) -> Result<Value> {
    let text = text(values, 0)?;
    let mut result = String::with_capacity(text.len());
    let mut is_inside = false;
    for character in text.chars() {
        match is_inside {
            true => result.push(small(character)),
            false => result.push(capital(character)),
        }
        is_inside = character.is_alphanumeric();
    }
    Ok(Value::text(result))
}

/// The text cut to the length, and what fills it up to that.
fn padded(values: &[Value]) -> Result<(String, &str)> {
    let text = text(values, 0)?;
    let wanted = usize::try_from(integer(values, 1)?).unwrap_or(0);
    let fill = match values.get(2) {
        Some(Value::Text(fill)) => &**fill,
        _ => " ",
    };
    if wanted > BYTES_MAX / 4 - 1 {
        return Err(too_long());
    }
    if let Some((end, _)) = text.char_indices().nth(wanted) {
        return Ok((String::new(), &text[..end]));
    }
    let missing = wanted - text.chars().count();
    let mut padding = with_room(missing)?;
    padding.extend(fill.chars().cycle().take(missing));
    Ok((padding, text))
}

fn lpad(values: &[Value], _: &Interrupt) -> Result<Value> {
    let (padding, text) = padded(values)?;
    Ok(Value::text(padding + text))
}

fn rpad(values: &[Value], _: &Interrupt) -> Result<Value> {
    let (padding, text) = padded(values)?;
    Ok(Value::text(text.to_owned() + &padding))
}

/// Bytes written between two looks at the interrupt.
const BYTES_BETWEEN_CHECKS: usize = 1 << 20;

fn repeat(values: &[Value], interrupt: &Interrupt) -> Result<Value> {
    let text = text(values, 0)?;
    let count = usize::try_from(integer(values, 1)?).unwrap_or(0);
    let mut result = with_room(text.len().checked_mul(count).ok_or_else(too_long)?)?;
    let mut checked = 0;
    for _ in 0..if text.is_empty() { 0 } else { count } {
        result.push_str(text);
        if result.len() - checked > BYTES_BETWEEN_CHECKS {
            interrupt.check()?;
            checked = result.len();
        }
    }
    Ok(Value::text(result))
}

fn reverse(values: &[Value], _: &Interrupt) -> Result<Value> {
    Ok(Value::text(text(values, 0)?.chars().rev().collect::<String>()))
}

fn ascii(values: &[Value], _: &Interrupt) -> Result<Value> {
    Ok(Value::Integer(text(values, 0)?.chars().next().map_or(0, |first| first as i32)))
}

fn chr(values: &[Value], _: &Interrupt) -> Result<Value> {
    let limit = |message: String| Err(Error::new(SqlState::ProgramLimitExceeded, message));
    match integer(values, 0)? {
        ..=-1 => Err(invalid("character number must be positive")),
        0 => limit("null character not permitted".into()),
        number @ 0x11_0000.. => limit(format!("requested character too large for encoding: {number}")),
        number => match char::from_u32(number as u32) {
            Some(character) => Ok(Value::text(character.to_string())),
            None => limit(format!("requested character not valid for encoding: {number}")),
        },
    }
}

fn split_part(values: &[Value], _: &Interrupt) -> Result<Value> {
    let (text, separator, number) = (text(values, 0)?, text(values, 1)?, integer(values, 2)?);
    let position = usize::try_from(number.unsigned_abs()).unwrap_or(usize::MAX);
    let part = match number {
        0 => return Err(invalid("field position must not be zero")),
        1 | -1 if separator.is_empty() => Some(text),
        _ if separator.is_empty() => None,
        1.. => text.split(separator).nth(position - 1),
        _ => text.rsplit(separator).nth(position - 1),
    };
    Ok(Value::text(part.unwrap_or_default()))
}

fn starts_with(values: &[Value], _: &Interrupt) -> Result<Value> {
    Ok(Value::Boolean(text(values, 0)?.starts_with(text(values, 1)?)))
}

fn translate(values: &[Value], _: &Interrupt) -> Result<Value> {
    let (text, from, to) = (text(values, 0)?, text(values, 1)?, text(values, 2)?);
    let to: Vec<char> = to.chars().collect();
    let translated = |character: char| match from.chars().position(|known| known == character) {
        Some(position) => to.get(position).copied(),
        None => Some(character),
    };
    Ok(Value::text(text.chars().filter_map(translated).collect::<String>()))
}

fn overlay(values: &[Value], _: &Interrupt) -> Result<Value> {
    let (text, by, start) = (text(values, 0)?, text(values, 1)?, integer(values, 2)?);
    let count = match values.len() {
        3 => by.chars().count() as i64,
        _ => integer(values, 3)?,
    };
    if start <= 0 {
        return Err(Error::new(SqlState::SubstringError, "negative substring length not allowed"));
    }
    let end = i32::try_from(start + count)
        .map_err(|_| Error::new(SqlState::NumericValueOutOfRange, "integer out of range"))?;
    let (before, behind) = (substring(text, 1, Some(start - 1))?, substring(text, i64::from(end), None)?);
    Ok(Value::text([before, by, behind].concat()))
}

fn bit_length(values: &[Value], _: &Interrupt) -> Result<Value> {
    let bytes = match values {
        [Value::Text(text)] => text.len(),
        _ => bytes(values, 0)?.len(),
    };
    length(bytes.saturating_mul(8)).map(Value::Integer)
}

fn to_hex(values: &[Value], _: &Interrupt) -> Result<Value> {
    match values {
        [Value::Integer(value)] => Ok(Value::text(format!("{value:x}"))),
        [Value::BigInt(value)] => Ok(Value::text(format!("{value:x}"))),
        _ => Err(wrong_argument()),
    }
}

/// A value as `concat` and `format` show it.
pub(super) fn shown(value: &Value) -> Result<String> {
    Ok(match value {
        Value::Boolean(value) => if *value { "t" } else { "f" }.to_owned(),
        Value::Text(text) => text.to_string(),
        Value::Packed(packed) => packed.borrow().to_text(),
        other => match cast(other.clone(), Text)? {
            Value::Text(text) => text.into_string(),
            _ => return Err(wrong_argument()),
        },
    })
}

fn concat_ws(values: &[Value], _: &Interrupt) -> Result<Value> {
    let [Value::Text(separator), items @ ..] = values else { return Ok(Value::Null) };
    let items = items.iter().filter(|item| !item.is_null()).map(shown);
    Ok(Value::text(items.collect::<Result<Vec<_>>>()?.join(separator)))
}

fn num_nulls(values: &[Value], _: &Interrupt) -> Result<Value> {
    Ok(Value::Integer(values.iter().filter(|value| value.is_null()).count() as i32))
}

fn num_nonnulls(values: &[Value], _: &Interrupt) -> Result<Value> {
    Ok(Value::Integer(values.iter().filter(|value| !value.is_null()).count() as i32))
}

/// Replaces `\0041`, `\+000041`, `\u0041`, `\U00000041` and `\\`.
fn unistr(values: &[Value], _: &Interrupt) -> Result<Value> {
    let mut rest = text(values, 0)?;
    let refused = |message: &'static str| Error::new(SqlState::SyntaxError, message);
    let mut units: Vec<u16> = Vec::new();
    let mut buffer = [0; 2];
    while let Some(first) = rest.chars().next() {
        rest = &rest[first.len_utf8()..];
        if first != '\\' {
            units.extend_from_slice(first.encode_utf16(&mut buffer));
            continue;
        }
        if let Some(behind) = rest.strip_prefix('\\') {
            units.push(u16::from(b'\\'));
            rest = behind;
            continue;
        }
        let (skipped, digits) = match rest.as_bytes().first() {
            Some(b'+') => (1, 6),
            Some(b'u') => (1, 4),
            Some(b'U') => (1, 8),
            _ => (0, 4),
        };
        let number = rest
            .get(skipped..skipped + digits)
            .filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        let number = number.ok_or_else(|| refused("invalid Unicode escape"))?;
        rest = &rest[skipped + digits..];
        match u32::from_str_radix(number, 16).unwrap_or(u32::MAX) {
            unit @ ..=0xffff if unit > 0 => units.push(unit as u16),
            number => {
                let character = char::from_u32(number).filter(|character| *character != '\0');
                let character = character.ok_or_else(|| invalid("invalid Unicode code point"))?;
                units.extend_from_slice(character.encode_utf16(&mut buffer));
            }
        }
    }
    String::from_utf16(&units).map(Value::text).map_err(|_| refused("invalid Unicode surrogate pair"))
}
