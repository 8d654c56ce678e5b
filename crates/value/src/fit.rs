//! Text in columns of limited length.

use crate::{DataType, SystemType, Value};
use ankerdb_base::{Error, Result, SqlState};
use std::borrow::Cow;

/// Text as a column of this text type stores it. 22001 if it is too long and the excess is not blank.
pub(crate) fn fit_text(text: &str, data_type: DataType) -> Result<Value> {
    let (length, kind) = match data_type {
        DataType::Varchar(length) => (length, "character varying"),
        DataType::Char(length) => (length, "character"),
        _ => return Ok(cut_text(text, data_type)),
    };
    let excess = &text[prefix_of(text, length).len()..];
    if excess.bytes().any(|byte| byte != b' ') {
        let message = format!("value too long for type {kind}({length})");
        return Err(Error::new(SqlState::StringDataRightTruncation, message));
    }
    Ok(cut_text(text, data_type))
}

/// Text as a cast to the type cuts it: to its length; `char` loses its trailing blanks as well. Other types cut nothing.
pub fn cut(text: &str, data_type: DataType) -> Cow<'_, str> {
    Cow::Borrowed(match data_type {
        DataType::Varchar(length) => prefix_of(text, length),
        DataType::Char(length) => prefix_of(text, length).trim_end_matches(' '),
        DataType::System(SystemType::Char) => return one_byte(text),
        DataType::System(system) => match system.bytes_max() {
            Some(bytes) => &text[..text.floor_char_boundary(bytes)],
            None => text,
        },
        _ => text,
    })
}

/// A text as a `"char"`, which has one byte: `\ooo` is one, and one that is no letter by itself is written so. Zero is no text.
fn one_byte(text: &str) -> Cow<'_, str> {
    let byte = match text.as_bytes() {
        [b'\\', digits @ ..]
            if digits.len() == 3 && digits.iter().all(|digit| (b'0'..=b'7').contains(digit)) =>
        {
            digits.iter().fold(0u8, |byte, digit| byte << 3 | (digit - b'0'))
        }
        [first, ..] => *first,
        [] => 0,
    };
    match byte {
        0 => Cow::Borrowed(""),
        _ if byte.is_ascii() => Cow::Owned(char::from(byte).to_string()),
        _ => Cow::Owned(format!("\\{byte:03o}")),
    }
}

/// Whether text surely is what a column of this text type stores, told without counting characters.
pub(crate) fn is_stored_form(text: &str, data_type: DataType) -> bool {
    match data_type {
        DataType::Varchar(length) => text.len() <= length as usize,
        DataType::Char(length) => text.len() <= length as usize && !text.ends_with(' '),
        DataType::System(system) => system.bytes_max().is_none_or(|bytes| text.len() <= bytes),
        _ => true,
    }
}

/// Text cut to the type's length; `char` loses its trailing blanks as well.
pub(crate) fn cut_text(text: &str, data_type: DataType) -> Value {
    Value::text(cut(text, data_type))
}

/// The first `length` characters.
fn prefix_of(text: &str, length: u32) -> &str {
    let length = length as usize;
    // No text has more characters than bytes.
    if text.len() <= length {
        return text;
    }
    text.char_indices().nth(length).map_or(text, |(end, _)| &text[..end])
}
