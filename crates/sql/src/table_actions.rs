//! Actions of ALTER TABLE about how constraints and columns are kept, written as new names, so that the parser reads them.
//!
//! | written | read |
//! | --- | --- |
//! | `ALTER CONSTRAINT a DEFERRABLE INITIALLY DEFERRED` | `RENAME CONSTRAINT a TO "\0timing deferred"` |
//! | `ALTER a SET STORAGE external` | `RENAME CONSTRAINT a TO "\0storage external"` |
//! | `ALTER a SET STATISTICS 100`, `ALTER a RESET (n_distinct)` | `RENAME CONSTRAINT a TO "\0column"` |
//! | `RESET (fillfactor)`, `SET WITHOUT OIDS`, `SET UNLOGGED`, `SET ACCESS METHOD heap` | `RENAME CONSTRAINT a TO "\0nothing"` |
//!
//! No client can write the names that stand for what is meant.

use crate::words::Written;
use ankerdb_engine::ConstraintTiming;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace, Word};

const TIMING: &str = "\0timing ";
const STORAGE: &str = "\0storage ";
const COMPRESSION: &str = "\0compression ";
const COLUMN: &str = "\0column";
const NOTHING: &str = "\0nothing";

/// What an action says of the constraint, column or parameter that it names.
pub(crate) enum TableAction<'a> {
    /// When a foreign key is tested.
    Timing(ConstraintTiming),
    /// How long values of a column are kept.
    Storage(&'a str),
    Compression(&'a str),
    /// What would help planning, of a column.
    Column,
    /// What changes nothing here.
    Nothing,
}

/// The action that a new name stands for.
pub(crate) fn table_action(name: &str) -> Option<TableAction<'_>> {
    Some(match name {
        COLUMN => TableAction::Column,
        NOTHING => TableAction::Nothing,
        _ => match (name.strip_prefix(TIMING), name.strip_prefix(STORAGE), name.strip_prefix(COMPRESSION)) {
            (Some("deferred"), ..) => TableAction::Timing(ConstraintTiming::Deferred),
            (Some("deferrable"), ..) => TableAction::Timing(ConstraintTiming::Deferrable),
            (Some(_), ..) => TableAction::Timing(ConstraintTiming::Immediate),
            (_, Some(storage), _) => TableAction::Storage(storage),
            (.., Some(method)) => TableAction::Compression(method),
            _ => return None,
        },
    })
}

/// Rewrites the tokens of one statement.
pub(crate) fn rewrite(tokens: &mut Vec<TokenWithSpan>) {
    let written = Written::of(tokens);
    if !written.has(0, &["alter", "table"]) {
        return;
    }
    let begins = written.actions();
    let end_of = |number: usize| begins.get(number + 1).map_or(written.places.len(), |next| next - 1);
    let actions = begins.iter().enumerate().map(|(number, &first)| (first, end_of(number)));
    let mut replaced: Vec<(usize, usize, Vec<Token>)> = Vec::new();
    for (first, end) in actions.filter(|(first, end)| first < end) {
        if let Some(renamed) = action(&written, first, end) {
            replaced.push((written.places[first], written.places[end - 1], renamed));
        }
    }
    for (first, last, with) in replaced.into_iter().rev() {
        let span = tokens[first].span;
        let with = with.into_iter().map(|token| TokenWithSpan::new(token, span));
        tokens.splice(first..=last, with);
    }
}

/// The tokens of an action, if it is one of those.
fn action(written: &Written<'_>, first: usize, end: usize) -> Option<Vec<Token>> {
    let word = |place: usize| written.word(place);
    let one = |name: Token, mark: &str| Some(renamed(name, mark));
    match (word(first).as_str(), word(first + 1).as_str()) {
        ("alter", "constraint") => {
            let timing = timing(&(first + 3..end).map(word).collect::<Vec<_>>())?;
            one(written.token(first + 2)?.clone(), &format!("{TIMING}{timing}"))
        }
        ("alter", second) => {
            let column = if second == "column" { first + 2 } else { first + 1 };
            let name = written.token(column)?.clone();
            match (word(column + 1).as_str(), word(column + 2).as_str()) {
                ("set", "storage") if end == column + 4 => {
                    one(name, &format!("{STORAGE}{}", word(column + 3)))
                }
                ("set", "compression") if end == column + 4 => {
                    one(name, &format!("{COMPRESSION}{}", word(column + 3)))
                }
                ("set", "statistics") if end > column + 3 => one(name, COLUMN),
                ("set" | "reset", _) if written.is(column + 2, &Token::LParen) => one(name, COLUMN),
                _ => None,
            }
        }
        ("reset", _) if written.is(first + 1, &Token::LParen) => one(quoted("a"), NOTHING),
        ("set", "without") if matches!(word(first + 2).as_str(), "oids" | "cluster") => {
            one(quoted("a"), NOTHING)
        }
        ("set", "logged" | "unlogged") if end == first + 2 => one(quoted("a"), NOTHING),
        ("set", "access") if written.has(first + 2, &["method", "heap"]) => one(quoted("a"), NOTHING),
        ("set", "tablespace") if written.has(first + 2, &["pg_default"]) => one(quoted("a"), NOTHING),
        _ => None,
    }
}

/// When a constraint of these characteristics is tested.
fn timing(words: &[String]) -> Option<&'static str> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["deferrable"] | ["deferrable", "initially", "immediate"] => Some("deferrable"),
        ["deferrable", "initially", "deferred"] | ["initially", "deferred"] => Some("deferred"),
        ["not", "deferrable"]
        | ["not", "deferrable", "initially", "immediate"]
        | ["initially", "immediate"] => Some("immediate"),
        _ => None,
    }
}

fn quoted(name: &str) -> Token {
    Token::Word(Word { value: name.to_owned(), quote_style: Some('"'), keyword: Keyword::NoKeyword })
}

/// `RENAME CONSTRAINT name TO "mark"`
fn renamed(name: Token, mark: &str) -> Vec<Token> {
    let space = || Token::Whitespace(Whitespace::Space);
    let mut tokens = Vec::new();
    for word in ["RENAME", "CONSTRAINT"] {
        tokens.extend([Token::make_keyword(word), space()]);
    }
    tokens.extend([name, space(), Token::make_keyword("TO"), space(), quoted(mark)]);
    tokens
}
