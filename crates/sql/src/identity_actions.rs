//! Changes of identity columns, written as defaults, so that the parser reads them.
//!
//! | written | read |
//! | --- | --- |
//! | `ALTER a SET GENERATED ALWAYS SET INCREMENT 2 RESTART WITH 5` | `ALTER a SET DEFAULT "\0identity always;5;INCREMENT 2"` |
//! | `ALTER a DROP IDENTITY IF EXISTS` | `ALTER a SET DEFAULT "\0drop identity if exists"` |
//!
//! No client can write the names that stand for what is meant.

use crate::words;
use ankerdb_engine::Identity;
use datafusion::sql::sqlparser::ast::Expr;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace, Word};

const CHANGES: &str = "\0identity ";
const DROPS: &str = "\0drop identity";
const IF_EXISTS: &str = " if exists";

/// What is to become of an identity column.
pub(crate) enum IdentityAction {
    Drop {
        if_exists: bool,
    },
    Set {
        identity: Option<Identity>,
        /// Whether it begins again, and where, if that is told.
        restart: Option<Option<i64>>,
        /// The options of its sequence, as CREATE SEQUENCE has them.
        options: String,
    },
}

/// The action that a default stands for.
pub(crate) fn identity_action(default: &Expr) -> Option<IdentityAction> {
    let Expr::Identifier(name) = default else { return None };
    if let Some(rest) = name.value.strip_prefix(DROPS) {
        return Some(IdentityAction::Drop { if_exists: rest == IF_EXISTS });
    }
    name.value.strip_prefix(CHANGES).map(changes)
}

fn changes(text: &str) -> IdentityAction {
    let mut parts = text.splitn(3, ';');
    let mut part = || parts.next().unwrap_or_default();
    let identity = match part() {
        "always" => Some(Identity::Always),
        "default" => Some(Identity::ByDefault),
        _ => None,
    };
    let restart = match part() {
        "" => None,
        number => Some(number.parse().ok()),
    };
    IdentityAction::Set { identity, restart, options: part().to_owned() }
}

/// Rewrites the tokens of one statement.
pub(crate) fn rewrite(tokens: &mut Vec<TokenWithSpan>) {
    let places = words::places(tokens);
    let word = |place: usize| words::word(tokens, &places, place);
    if (word(0).as_str(), word(1).as_str()) != ("alter", "table") {
        return;
    }
    // Behind the name of the table: [ALTER, COLUMN,] column, and the action.
    let is_column = |name: usize| words::is_altered_column(tokens, &places, name);
    let mut found: Vec<(usize, usize, String)> = Vec::new();
    let mut place = 5;
    while place < places.len() {
        let end = end_of_action(tokens, &places, place);
        if is_column(place - 1)
            && let Some(mark) = mark(tokens, &places[place..end])
        {
            found.push((place, end, mark));
            place = end;
        }
        place += 1;
    }
    for (first, end, mark) in found.into_iter().rev() {
        let span = tokens[places[first]].span;
        let mark = Token::Word(Word { value: mark, quote_style: Some('"'), keyword: Keyword::NoKeyword });
        let space = || Token::Whitespace(Whitespace::Space);
        let with = [Token::make_keyword("SET"), space(), Token::make_keyword("DEFAULT"), space(), mark];
        let with = with.map(|token| TokenWithSpan::new(token, span));
        tokens.splice(places[first]..=places[end - 1], with);
    }
}

/// The place behind the last word of an action.
fn end_of_action(tokens: &[TokenWithSpan], places: &[usize], first: usize) -> usize {
    let mut depth = 0;
    for (place, &at) in places.iter().enumerate().skip(first) {
        match tokens[at].token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            Token::Comma if depth == 0 => return place,
            _ => {}
        }
    }
    places.len()
}

/// What stands for an action, if it is one of those.
fn mark(tokens: &[TokenWithSpan], places: &[usize]) -> Option<String> {
    let word = |place: usize| words::word(tokens, places, place);
    match (word(0).as_str(), word(1).as_str()) {
        ("drop", "identity") if places.len() == 2 => return Some(DROPS.to_owned()),
        ("drop", "identity") if places.len() == 4 && word(2) == "if" && word(3) == "exists" => {
            return Some(format!("{DROPS}{IF_EXISTS}"));
        }
        ("restart", _) => {}
        ("set", "generated" | "increment" | "minvalue" | "maxvalue" | "start" | "cache" | "cycle" | "no") => {
        }
        _ => return None,
    }
    let (mut identity, mut restart, mut options) = ("", String::new(), String::new());
    let mut place = 0;
    while place < places.len() {
        match (word(place).as_str(), word(place + 1).as_str()) {
            ("set", "generated") if identity.is_empty() => {
                (identity, place) = match (word(place + 2).as_str(), word(place + 3).as_str()) {
                    ("always", _) => ("always", place + 3),
                    ("by", "default") => ("default", place + 4),
                    _ => return None,
                };
            }
            ("restart", _) if restart.is_empty() => {
                place += if word(place + 1) == "with" { 2 } else { 1 };
                let end = next_part(tokens, places, place);
                restart = written(tokens, &places[place..end]);
                if restart.is_empty() {
                    restart.push_str("start");
                }
                place = end;
            }
            ("set", _) => {
                let end = next_part(tokens, places, place + 1);
                options.push_str(&written(tokens, &places[place + 1..end]));
                options.push(' ');
                place = end;
            }
            _ => return None,
        }
    }
    Some(format!("{CHANGES}{identity};{};{options}", restart.replace(' ', "")))
}

fn next_part(tokens: &[TokenWithSpan], places: &[usize], first: usize) -> usize {
    let begins = |place: &usize| matches!(words::word(tokens, places, *place).as_str(), "set" | "restart");
    (first..places.len()).find(begins).unwrap_or(places.len())
}

fn written(tokens: &[TokenWithSpan], places: &[usize]) -> String {
    places.iter().map(|&at| tokens[at].token.to_string()).collect::<Vec<_>>().join(" ")
}
