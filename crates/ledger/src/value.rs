//! Values of shared tables, and their canonical encoding: the bytes that every member's database hashes, byte for byte alike.
//!
//! ```text
//! NULL              00
//! everything else   01 | length of the content (4, big endian) | content
//! ```
//!
//! Numbers, dates and timestamps have a text as their content that all databases print alike; texts and byte strings are their
//! own content. The encoding of a row is the encodings of its values one behind the other, in the order of the table's columns.
//! docs/ledger-format.md has the table of contents by type. What two systems print differently is no [`LedgerType`].

use crate::bytes::{CanonicalReader, CanonicalWriter};
use crate::error::{LedgerError, LedgerResult};
use crate::hash::{LedgerHash, hex, unhex};
use std::fmt;

/// The content of a value, or nothing for NULL.
pub type Content = Option<Vec<u8>>;

/// A type that all databases print alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LedgerType {
    /// `boolean`: `1` or `0`.
    Boolean,
    /// `smallint`, 16 bits.
    SmallInt,
    /// `integer`, 32 bits.
    Integer,
    /// `bigint`, 64 bits.
    BigInt,
    /// `numeric(precision, scale)`: as many digits after the point as declared.
    Numeric {
        /// Digits in all, 38 at most.
        precision: u8,
        /// Digits after the point, 30 at most.
        scale: u8,
    },
    /// `varchar(n)`: up to so many characters, compared by bytes.
    Varchar(u16),
    /// `text`, compared by bytes.
    Text,
    /// `bytea`.
    Bytea,
    /// `date`: `2026-01-31`.
    Date,
    /// `timestamp` without time zone: `2026-01-31 23:59:59.000000`.
    Timestamp,
}

impl fmt::Display for LedgerType {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LedgerType::Boolean => to.write_str("boolean"),
            LedgerType::SmallInt => to.write_str("smallint"),
            LedgerType::Integer => to.write_str("integer"),
            LedgerType::BigInt => to.write_str("bigint"),
            LedgerType::Numeric { precision, scale } => write!(to, "numeric({precision}, {scale})"),
            LedgerType::Varchar(length) => write!(to, "varchar({length})"),
            LedgerType::Text => to.write_str("text"),
            LedgerType::Bytea => to.write_str("bytea"),
            LedgerType::Date => to.write_str("date"),
            LedgerType::Timestamp => to.write_str("timestamp"),
        }
    }
}

impl LedgerType {
    /// The content of a value that PostgreSQL's protocol shows as this text.
    ///
    /// # Errors
    /// [`LedgerError::Malformed`] if the type has no such value.
    pub fn content_of_text(self, text: &[u8]) -> LedgerResult<Vec<u8>> {
        let wrong = || {
            let text = String::from_utf8_lossy(text);
            LedgerError::Malformed(format!("\"{text}\" is no value of type {self}"))
        };
        Ok(match (self, text) {
            (LedgerType::Boolean, b"t") => b"1".to_vec(),
            (LedgerType::Boolean, b"f") => b"0".to_vec(),
            (LedgerType::Boolean, _) => return Err(wrong()),
            (LedgerType::Bytea, _) => {
                let digits = text.strip_prefix(b"\\x").and_then(|digits| std::str::from_utf8(digits).ok());
                digits.and_then(unhex).ok_or_else(wrong)?
            }
            (LedgerType::Timestamp, _) => with_microseconds(text),
            _ => text.to_vec(),
        })
    }
}

/// A timestamp with all six digits of its second's fraction; what is no usual timestamp (`infinity`, years before the common
/// era) stays as it is.
fn with_microseconds(text: &[u8]) -> Vec<u8> {
    let mut full = text.to_vec();
    let fraction = match text.get(19) {
        None if text.len() == 19 => {
            full.push(b'.');
            0
        }
        Some(b'.') => text.len() - 20,
        _ => return full,
    };
    if text.get(20..).is_none_or(|digits| digits.iter().all(u8::is_ascii_digit)) {
        full.resize(full.len() + 6_usize.saturating_sub(fraction), b'0');
    }
    full
}

/// Appends the canonical encoding of a value.
pub fn encode_value(content: Option<&[u8]>, to: &mut CanonicalWriter) {
    match content {
        None => to.byte(0),
        Some(content) => to.byte(1).bytes(content),
    };
}

/// The canonical encoding of a row, or of a key.
pub fn encode_row(row: &[Content]) -> Vec<u8> {
    let mut writer = CanonicalWriter::default();
    row.iter().for_each(|value| encode_value(value.as_deref(), &mut writer));
    writer.finish()
}

/// The hash of a row, as databases compute it.
pub fn row_hash(row: &[Content]) -> LedgerHash {
    LedgerHash::of_row(&encode_row(row))
}

/// The contents of so many encoded values.
///
/// # Errors
/// [`LedgerError::Malformed`] if the bytes are something else.
pub fn decode_row(bytes: &[u8], values: usize) -> LedgerResult<Vec<Content>> {
    let mut reader = CanonicalReader::new(bytes, "row");
    let mut row = Vec::with_capacity(values);
    for _ in 0..values {
        row.push(match reader.byte()? {
            0 => None,
            1 => Some(reader.bytes()?.to_vec()),
            other => return Err(LedgerError::Malformed(format!("row: a value begins with {other}"))),
        });
    }
    reader.end()?;
    Ok(row)
}

/// A value that a transaction brings along for a `$1` of its text. Its type is its own, so every member writes it as the
/// literal that its database reads as just this value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LedgerValue {
    /// NULL.
    Null,
    /// A truth value.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A decimal number: digits, perhaps with a sign and a point.
    Decimal(String),
    /// A text.
    Text(String),
    /// A byte string.
    Bytes(Vec<u8>),
}

impl LedgerValue {
    pub(crate) fn encode(&self, to: &mut CanonicalWriter) {
        match self {
            LedgerValue::Null => to.byte(0),
            LedgerValue::Boolean(value) => to.byte(1).byte(u8::from(*value)),
            LedgerValue::Integer(value) => to.byte(2).fixed(&value.to_be_bytes()),
            LedgerValue::Decimal(value) => to.byte(3).bytes(value.as_bytes()),
            LedgerValue::Text(value) => to.byte(4).bytes(value.as_bytes()),
            LedgerValue::Bytes(value) => to.byte(5).bytes(value),
        };
    }

    pub(crate) fn decode(from: &mut CanonicalReader<'_>) -> LedgerResult<LedgerValue> {
        Ok(match from.byte()? {
            0 => LedgerValue::Null,
            1 => LedgerValue::Boolean(match from.byte()? {
                0 => false,
                1 => true,
                other => return Err(LedgerError::Malformed(format!("a boolean of {other}"))),
            }),
            2 => LedgerValue::Integer(i64::from_be_bytes(from.array()?)),
            3 => LedgerValue::Decimal(from.text()?),
            4 => LedgerValue::Text(from.text()?),
            5 => LedgerValue::Bytes(from.bytes()?.to_vec()),
            other => return Err(LedgerError::Malformed(format!("a value of kind {other}"))),
        })
    }
}

/// A content for people: text as it is, bytes that are none as digits.
pub fn show_content(content: &Content) -> String {
    match content {
        None => "NULL".to_owned(),
        Some(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => format!("\\x{}", hex(bytes)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(of: LedgerType, text: &str) -> String {
        String::from_utf8(of.content_of_text(text.as_bytes()).expect("a value")).expect("text")
    }

    #[test]
    fn what_the_wire_prints_shortly_is_made_long() {
        assert_eq!(content(LedgerType::Timestamp, "2026-01-02 03:04:05"), "2026-01-02 03:04:05.000000");
        assert_eq!(content(LedgerType::Timestamp, "2026-01-02 03:04:05.25"), "2026-01-02 03:04:05.250000");
        assert_eq!(content(LedgerType::Timestamp, "infinity"), "infinity");
        assert_eq!(content(LedgerType::Timestamp, "0044-03-15 12:00:00 BC"), "0044-03-15 12:00:00 BC");
        assert_eq!(content(LedgerType::Boolean, "t"), "1");
        assert_eq!(LedgerType::Bytea.content_of_text(b"\\x00ff").expect("bytes"), [0, 255]);
        assert!(LedgerType::Bytea.content_of_text(b"\\x0").is_err());
    }

    #[test]
    fn no_two_rows_have_one_encoding() {
        let text = |value: &str| Some(value.as_bytes().to_vec());
        let rows = [
            vec![None, text("")],
            vec![text(""), None],
            vec![text("ab"), text("c")],
            vec![text("a"), text("bc")],
            vec![text("NULL"), text("")],
            vec![text("\0"), text("")],
        ];
        for (at, row) in rows.iter().enumerate() {
            let bytes = encode_row(row);
            assert_eq!(decode_row(&bytes, 2).as_ref(), Ok(row));
            assert!(rows[at + 1..].iter().all(|other| encode_row(other) != bytes));
        }
    }
}
