//! `parse_ident`: a name with its parts, as SQL reads it.

use super::entry::{Entry, entry, invalid, text, wrong_argument};
use ankerdb_engine::DataType::{Boolean, Text};
use ankerdb_engine::{ArrayBuilder, DataType, Error, Interrupt, ListType, Result, SystemType, Value};

const TEXTS: DataType = DataType::System(SystemType::List(ListType::Text));

pub(super) const ENTRIES: &[Entry] = &[
    entry("parse_ident", &[Text], TEXTS, parse_ident),
    entry("parse_ident", &[Text, Boolean], TEXTS, parse_ident),
];

fn refused(name: &str) -> Error {
    invalid(format!("string is not a valid identifier: \"{name}\""))
}

/// The parts of a name; what follows it is refused where that is asked for, which is usual.
fn parse_ident(values: &[Value], _: &Interrupt) -> Result<Value> {
    let whole = text(values, 0)?;
    let is_strict = match values.get(1) {
        None => true,
        Some(Value::Boolean(is_strict)) => *is_strict,
        _ => return Err(wrong_argument()),
    };
    let mut parts = ArrayBuilder::new(ListType::Text);
    let (mut rest, mut is_behind_dot) = (skipped(whole), false);
    loop {
        let Some((part, behind)) = part(rest, whole)? else {
            let detail = match (rest.starts_with('.'), is_behind_dot) {
                (true, _) => "No valid identifier before \".\".",
                (false, true) => "No valid identifier after \".\".",
                (false, false) => return Err(refused(whole)),
            };
            return Err(refused(whole).with_detail(detail));
        };
        parts.push((&Value::text(part)).into())?;
        rest = skipped(behind);
        match rest.strip_prefix('.') {
            Some(next) => (rest, is_behind_dot) = (skipped(next), true),
            None if rest.is_empty() || !is_strict => return Ok(Value::Array(parts.finish())),
            None => return Err(refused(whole)),
        }
    }
}

fn skipped(text: &str) -> &str {
    text.trim_start_matches([' ', '\t', '\n', '\r', '\x0c'])
}

/// The part that stands first, and what is behind it.
fn part<'a>(rest: &'a str, whole: &str) -> Result<Option<(String, &'a str)>> {
    if let Some(quoted) = rest.strip_prefix('"') {
        return self::quoted(quoted, whole).map(Some);
    }
    let is_first = |letter: char| letter.is_ascii_alphabetic() || letter == '_' || !letter.is_ascii();
    if !rest.starts_with(is_first) {
        return Ok(None);
    }
    let is_next = |letter: char| is_first(letter) || letter.is_ascii_digit() || letter == '$';
    let (part, behind) = rest.split_at(rest.find(|letter| !is_next(letter)).unwrap_or(rest.len()));
    Ok(Some((part.to_ascii_lowercase(), behind)))
}

/// A part in quotes, of which the first is taken already.
fn quoted<'a>(text: &'a str, whole: &str) -> Result<(String, &'a str)> {
    let (mut part, mut rest) = (String::new(), text);
    loop {
        let unclosed = || refused(whole).with_detail("String has unclosed double quotes.");
        let (letters, behind) = rest.split_once('"').ok_or_else(unclosed)?;
        part.push_str(letters);
        match behind.strip_prefix('"') {
            Some(next) => {
                part.push('"');
                rest = next;
            }
            None if part.is_empty() => {
                return Err(refused(whole).with_detail("Quoted identifier must not be empty."));
            }
            None => return Ok((part, behind)),
        }
    }
}
