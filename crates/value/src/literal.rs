//! What reading and writing the text forms of all types has in common.

use ankerdb_base::{Error, SqlState};

/// The text without blanks around it, by the C library's idea of blanks, which is PostgreSQL's.
pub(crate) fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c'])
}

/// The error for text that is not a literal of the type.
pub(crate) fn malformed(type_name: &str, text: &str) -> Error {
    let message = format!("invalid input syntax for type {type_name}: \"{text}\"");
    Error::new(SqlState::InvalidTextRepresentation, message)
}
