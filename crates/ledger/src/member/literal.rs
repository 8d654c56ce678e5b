//! Values and contents as literals that a database reads as just this value.

use crate::definition::SharedTable;
use crate::error::{LedgerError, LedgerResult};
use crate::hash::{hex, unhex};
use crate::value::{Content, LedgerType, LedgerValue, decode_row};

/// How a database writes a byte string.
pub(super) type BytesLiteral = fn(&[u8]) -> String;

/// A text in quotes. Backslashes mean nothing in any member's session.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// `'\x00ff'`, as PostgreSQL and AnKerDB have it.
pub(super) fn postgres_bytes(bytes: &[u8]) -> String {
    format!("'\\x{}'::bytea", hex(bytes))
}

/// `X'00ff'`, as MariaDB has it.
pub(super) fn mariadb_bytes(bytes: &[u8]) -> String {
    format!("X'{}'", hex(bytes))
}

/// A value of a transaction.
pub(super) fn value_literal(value: &LedgerValue, bytes_literal: BytesLiteral) -> String {
    match value {
        LedgerValue::Null => "NULL".to_owned(),
        LedgerValue::Boolean(true) => "TRUE".to_owned(),
        LedgerValue::Boolean(false) => "FALSE".to_owned(),
        LedgerValue::Integer(number) => number.to_string(),
        LedgerValue::Decimal(digits) => digits.clone(),
        LedgerValue::Text(text) => quoted(text),
        LedgerValue::Bytes(bytes) => bytes_literal(bytes),
    }
}

/// A content that comes from another member's database, which is not trusted: what does not look like a number is a text.
fn content_literal(kind: LedgerType, content: &Content, bytes_literal: BytesLiteral) -> String {
    let Some(content) = content else { return "NULL".to_owned() };
    let text = String::from_utf8_lossy(content);
    let digits = text.strip_prefix('-').unwrap_or(&text);
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        && digits.as_bytes().first().is_some_and(u8::is_ascii_digit);
    match kind {
        LedgerType::Bytea => bytes_literal(content),
        LedgerType::Boolean if content == b"1" => "TRUE".to_owned(),
        LedgerType::Boolean if content == b"0" => "FALSE".to_owned(),
        LedgerType::SmallInt | LedgerType::Integer | LedgerType::BigInt | LedgerType::Numeric { .. }
            if is_number =>
        {
            text.into_owned()
        }
        _ => quoted(&text),
    }
}

/// The names of all columns.
pub(super) fn column_list(table: &SharedTable) -> String {
    let names: Vec<String> = table.columns.iter().map(|column| format!("\"{}\"", column.name)).collect();
    names.join(", ")
}

/// The condition that a row has one of these keys.
pub(super) fn has_key(
    table: &SharedTable,
    keys: &[Vec<u8>],
    bytes_literal: BytesLiteral,
) -> LedgerResult<String> {
    let literals = |key: &Vec<u8>| -> LedgerResult<Vec<String>> {
        let contents = decode_row(key, table.key.len())?;
        let pairs = table.key.iter().zip(&contents);
        Ok(pairs
            .map(|(&at, content)| content_literal(table.columns[at].kind, content, bytes_literal))
            .collect())
    };
    let keys = keys.iter().map(literals).collect::<LedgerResult<Vec<_>>>()?;
    let names: Vec<String> = table.key.iter().map(|&at| format!("\"{}\"", table.columns[at].name)).collect();
    let keys: Vec<String> = keys.iter().map(|key| format!("({})", key.join(", "))).collect();
    Ok(format!("({}) IN ({})", names.join(", "), keys.join(", ")))
}

/// An INSERT of whole rows.
pub(super) fn insert(table: &SharedTable, rows: &[Vec<Content>], bytes_literal: BytesLiteral) -> String {
    let literals = |row: &Vec<Content>| {
        let pairs = table.columns.iter().zip(row);
        let literals = pairs.map(|(column, content)| content_literal(column.kind, content, bytes_literal));
        format!("({})", literals.collect::<Vec<_>>().join(", "))
    };
    let rows: Vec<String> = rows.iter().map(literals).collect();
    format!("INSERT INTO \"{}\" ({}) VALUES {}", table.name, column_list(table), rows.join(", "))
}

/// Bytes of a value that a database has shown as hexadecimal digits.
pub(super) fn shown_bytes(content: &Content, member: &str) -> LedgerResult<Vec<u8>> {
    let digits = content.as_ref().and_then(|digits| std::str::from_utf8(digits).ok());
    digits.and_then(unhex).ok_or_else(|| LedgerError::database(member, "hexadecimal digits were expected"))
}
