//! What a view is made WITH.
//!
//! | written | read |
//! | --- | --- |
//! | `CREATE VIEW a AS SELECT ... WITH LOCAL CHECK OPTION` | `CREATE VIEW a WITH (check_option = local) AS SELECT ...` |
//! | `ALTER VIEW a RESET (b)` | `ALTER VIEW a SET (b = "\0reset")` |
//! | `CREATE VIEW a WITH (b) AS ...`, `ALTER VIEW a SET (b)` | `WITH (b = TRUE)`, `SET (b = TRUE)` |
//!
//! `security_barrier` and `security_invoker` say what other roles may learn through the view, and as whom it reads. There is one role, which may
//! read everything, so they are kept and shown, and change nothing.

use crate::made_table::query_of;
use crate::name::{folded, quoted};
use crate::words;
use ankerdb_engine::{Error, Result, SqlState};
use datafusion::sql::sqlparser::ast::{Expr, SqlOption, Value};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace, Word};

/// The option by which a view refuses new rows that it does not show.
pub(crate) const CHECK_OPTION: &str = "check_option";
/// What an option is set to that ALTER VIEW ... RESET takes back.
const RESET: &str = "\0reset";

/// Rewrites the tokens of one statement.
pub(crate) fn rewrite(tokens: &mut Vec<TokenWithSpan>) {
    let places = words::places(tokens);
    let word = |place: usize| words::word(tokens, &places, place);
    match word(0).as_str() {
        "create" => {
            let mut place = if word(1) == "or" && word(2) == "replace" { 3 } else { 1 };
            place += usize::from(matches!(word(place).as_str(), "temp" | "temporary"));
            if word(place) == "view" {
                write_values(tokens, place, "with", &Token::make_keyword("TRUE"));
                move_check(tokens, &words::places(tokens), place);
            }
        }
        "alter" if word(1) == "view" => {
            write_values(tokens, 1, "set", &Token::make_keyword("TRUE"));
            if let Some(reset) = write_values(tokens, 1, "reset", &quoted_word(RESET)) {
                tokens[reset].token = Token::make_keyword("SET");
            }
        }
        _ => {}
    }
}

/// Puts the check at the end of CREATE VIEW among the options.
fn move_check(tokens: &mut Vec<TokenWithSpan>, places: &[usize], view: usize) {
    let word = |place: usize| words::word(tokens, places, place);
    let end = places.len();
    let Some(query) = query_of(tokens, places, view).filter(|query| end > query + 4) else { return };
    if word(end - 2) != "check" || word(end - 1) != "option" {
        return;
    }
    let (first, extent) = match word(end - 3).as_str() {
        "with" => (end - 3, "cascaded"),
        "local" if word(end - 4) == "with" => (end - 4, "local"),
        "cascaded" if word(end - 4) == "with" => (end - 4, "cascaded"),
        _ => return,
    };
    let span = tokens[places[first]].span;
    tokens.drain(places[first]..=places[end - 1]);
    let is_open = |place: usize| tokens[places[place]].token == Token::LParen;
    let options =
        (view..query - 1).find(|&place| word_at(tokens, places, place) == "with" && is_open(place + 1));
    let option = [plain(CHECK_OPTION), Token::Eq, plain(extent)];
    let (at, written) = match options {
        Some(with) => (places[with + 1] + 1, [option.to_vec(), vec![Token::Comma]].concat()),
        None => {
            let open = vec![Token::make_keyword("WITH"), space(), Token::LParen];
            (places[query - 1], [open, option.to_vec(), vec![Token::RParen, space()]].concat())
        }
    };
    tokens.splice(at..at, written.into_iter().map(|token| TokenWithSpan::new(token, span)));
}

fn word_at(tokens: &[TokenWithSpan], places: &[usize], place: usize) -> String {
    words::word(tokens, places, place)
}

/// Gives the options behind the word that have no value this one. Where the word is, if there are options behind it, and with RESET none
/// of them has a value.
fn write_values(tokens: &mut Vec<TokenWithSpan>, view: usize, before: &str, value: &Token) -> Option<usize> {
    let places = words::places(tokens);
    let is = |place: usize, token: &Token| places.get(place).is_some_and(|&at| tokens[at].token == *token);
    let end = query_of(tokens, &places, view).unwrap_or(places.len());
    let found = (view + 1..end)
        .find(|&place| words::word(tokens, &places, place) == before && is(place + 1, &Token::LParen))?;
    let close = (found + 2..end).find(|&place| is(place, &Token::RParen))?;
    let has_value = (found + 2..close).any(|place| is(place, &Token::Eq));
    if before == "reset" && has_value {
        return None;
    }
    let stands_alone = |name: &usize| {
        (is(name - 1, &Token::LParen) || is(name - 1, &Token::Comma))
            && (is(name + 1, &Token::RParen) || is(name + 1, &Token::Comma))
    };
    let alone: Vec<usize> = (found + 2..close).filter(stands_alone).collect();
    for name in alone.into_iter().rev() {
        let (at, span) = (places[name] + 1, tokens[places[name]].span);
        let given = [space(), Token::Eq, space(), value.clone()];
        tokens.splice(at..at, given.map(|token| TokenWithSpan::new(token, span)));
    }
    Some(places[found])
}

fn quoted_word(name: &str) -> Token {
    Token::Word(Word { value: name.to_owned(), quote_style: Some('"'), keyword: Keyword::NoKeyword })
}

fn plain(name: &str) -> Token {
    Token::Word(Word { value: name.to_owned(), quote_style: None, keyword: Keyword::NoKeyword })
}

fn space() -> Token {
    Token::Whitespace(Whitespace::Space)
}

/// The options that a view is made with, by name.
///
/// # Errors
/// `InvalidParameterValue` for others than PostgreSQL has, or for a value that is none of an option's.
pub(crate) fn read(options: &[SqlOption]) -> Result<Vec<(String, String)>> {
    let mut read: Vec<(String, String)> = Vec::with_capacity(options.len());
    for option in options {
        let SqlOption::KeyValue { key, value } = option else {
            return Err(crate::syntax_error::near(&option.to_string()));
        };
        let (name, value) = (folded(key), text(value));
        if read.iter().any(|(known, _)| *known == name) {
            return Err(wrong(format!("parameter {} specified more than once", quoted(&name))));
        }
        check(&name, &value)?;
        read.push((name, value));
    }
    Ok(read)
}

/// The options of a view after ALTER VIEW ... SET or RESET.
///
/// # Errors
/// Those of [`read`].
pub(crate) fn altered(former: &[(String, String)], options: &[SqlOption]) -> Result<Vec<(String, String)>> {
    let mut all = former.to_vec();
    let is_reset = |option: &&SqlOption| matches!(option, SqlOption::KeyValue { value: Expr::Identifier(mark), .. } if mark.value == RESET);
    if options.iter().any(|option| is_reset(&option)) {
        for option in options {
            let SqlOption::KeyValue { key, .. } = option else { continue };
            check(&folded(key), "")?;
            all.retain(|(known, _)| *known != folded(key));
        }
        return Ok(all);
    }
    for (name, value) in read(options)? {
        match all.iter_mut().find(|(known, _)| *known == name) {
            Some(known) => known.1 = value,
            None => all.push((name, value)),
        }
    }
    Ok(all)
}

fn text(value: &Expr) -> String {
    match value {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => text.clone(),
            other => other.to_string().to_lowercase(),
        },
        Expr::Identifier(name) => folded(name),
        other => other.to_string(),
    }
}

/// `value`: empty where the option is taken back.
fn check(name: &str, value: &str) -> Result<()> {
    match name {
        CHECK_OPTION if matches!(value, "local" | "cascaded" | "") => Ok(()),
        CHECK_OPTION => {
            let message = format!("invalid value for enum option {}: {value}", quoted(name));
            Err(wrong(message).with_detail("Valid values are \"local\" and \"cascaded\"."))
        }
        "security_barrier" | "security_invoker" => {
            let value = value.to_ascii_lowercase();
            let is_boolean =
                ["true", "false", "on", "off", "yes", "no", "1", "0", ""].contains(&value.as_str());
            match is_boolean {
                true => Ok(()),
                false => Err(wrong(format!("invalid value for boolean option {}: {value}", quoted(name)))),
            }
        }
        _ => Err(wrong(format!("unrecognized parameter {}", quoted(name)))),
    }
}

/// 22023
fn wrong(message: String) -> Error {
    Error::new(SqlState::InvalidParameterValue, message)
}
