//! Errors of parsing, as PostgreSQL words them: `syntax error at or near "x"`.

use crate::name::quoted;
use ankerdb_engine::{Error, SqlState};
use datafusion::sql::sqlparser::parser::ParserError;

/// The error for an expression or query that nests too deeply.
pub(crate) fn too_deep() -> Error {
    Error::new(SqlState::ProgramLimitExceeded, "stack depth limit exceeded")
        .with_hint("Write the statement with less nesting, for example an IN list instead of a chain of ORs.")
}

/// The error for a token that cannot stand where it does.
pub(crate) fn near(token: &str) -> Error {
    Error::new(SqlState::SyntaxError, format!("syntax error at or near {}", quoted(token)))
}

/// The parser's error in PostgreSQL's words.
pub(crate) fn syntax_error(error: ParserError) -> Error {
    let text = match error {
        ParserError::RecursionLimitExceeded => return too_deep(),
        ParserError::ParserError(text) | ParserError::TokenizerError(text) => text,
    };
    let (message, _) = text.rsplit_once(" at Line: ").unwrap_or((&text, ""));
    match message.strip_prefix("Expected: ").and_then(|rest| rest.rsplit_once(", found: ")) {
        Some((_, "EOF")) => Error::new(SqlState::SyntaxError, "syntax error at end of input"),
        Some((_, token)) => near(token),
        None => Error::new(SqlState::SyntaxError, format!("syntax error: {message}")),
    }
}
