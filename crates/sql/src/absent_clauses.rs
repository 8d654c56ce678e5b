//! Clauses for which there is nothing here, and which the parser does not read: those that say nothing are left out, and a
//! statement with one of the others is refused by the clause's name.
//!
//! | written | read |
//! | --- | --- |
//! | `CHECK (a > 0) NO INHERIT` | `CHECK (a > 0)`, as no table inherits |
//! | `WITH (toast.vacuum_truncate = false)` | `WITH (vacuum_truncate = false)` |
//! | `CREATE TABLE a (...) USING heap WITHOUT OIDS TABLESPACE pg_default` | `CREATE TABLE a (...)`, as there are no others |

use crate::name::{not_supported, quoted};
use crate::words::Written;
use ankerdb_engine::{Error, SqlState};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// Leaves out the clauses of a definition that say nothing.
pub(crate) fn rewrite(tokens: &mut [TokenWithSpan]) {
    let written = Written::of(tokens);
    let verb = written.word(0);
    if !matches!(verb.as_str(), "create" | "alter") {
        return;
    }
    let mut left_out: Vec<usize> = Vec::new();
    let mut depth = 0_usize;
    for place in 2..written.places.len() {
        match written.token(place) {
            Some(Token::LParen) => depth += 1,
            Some(Token::RParen) => depth = depth.saturating_sub(1),
            _ => {}
        }
        let is_clause = depth == 0 && verb == "create";
        match written.word(place).as_str() {
            // What follows is a query.
            "as" if is_clause => break,
            "no" if written.is(place - 1, &Token::RParen) && written.has(place + 1, &["inherit"]) => {
                left_out.extend([place, place + 1]);
            }
            "using" if is_clause && has_rows(&written) && written.has(place + 1, &["heap"]) => {
                left_out.extend([place, place + 1]);
            }
            "without" if is_clause && written.has(place + 1, &["oids"]) => {
                left_out.extend([place, place + 1]);
            }
            // Options of what PostgreSQL keeps beside a table.
            "toast" if written.is(place + 1, &Token::Period) && depth > 0 => {
                let is_option = written.is(place - 1, &Token::LParen) || written.is(place - 1, &Token::Comma);
                left_out.extend(if is_option { place..place + 2 } else { place..place });
            }
            "tablespace" if says_where(&written, place) && written.has(place + 1, &["pg_default"]) => {
                let is_of_index = written.has(place - 2, &["using", "index"]);
                left_out.extend(if is_of_index { place - 2..place + 2 } else { place..place + 2 });
            }
            _ => {}
        }
    }
    let left_out: Vec<usize> = left_out.into_iter().map(|place| written.places[place]).collect();
    for at in left_out {
        tokens[at].token = Token::Whitespace(Whitespace::Space);
    }
}

/// Whether a statement makes something with rows of its own.
fn has_rows(written: &Written<'_>) -> bool {
    (1..4).any(|place| matches!(written.word(place).as_str(), "table" | "materialized"))
}

/// Whether the word at a place says where a relation lies, and is not the name of something.
fn says_where(written: &Written<'_>, place: usize) -> bool {
    let is_made = written.has(0, &["create"])
        && (written.is(place - 1, &Token::RParen)
            || written.has(place - 1, &["heap"])
            || written.has(place - 1, &["oids"]));
    is_made || written.has(place - 2, &["using", "index"])
}

/// What is refused of a statement because of a clause.
pub(crate) fn refused(tokens: &[TokenWithSpan]) -> Option<Error> {
    let written = Written::of(tokens);
    let mut all = 2..written.places.len();
    let of_table = || all.clone().find_map(|place| clause_of_table(&written, place));
    let what = match written.word(0).as_str() {
        "create" => return created(&written).or_else(of_table),
        "alter" => match altered(&written) {
            None => return of_table(),
            what => what,
        },
        "insert" => inserted(&written).then(|| "INSERT into items of an array".to_owned()),
        "with" if has_word(tokens, "search") || has_word(tokens, "cycle") => {
            all.find_map(|place| clause_of_with(&written, place))
        }
        _ => None,
    };
    what.map(|what| not_supported(&what))
}

fn has_word(tokens: &[TokenWithSpan], wanted: &str) -> bool {
    tokens
        .iter()
        .any(|token| matches!(&token.token, Token::Word(word) if word.value.eq_ignore_ascii_case(wanted)))
}

/// What is not made.
fn created(written: &Written<'_>) -> Option<Error> {
    let mut kind = 1;
    while matches!(written.word(kind).as_str(), "temp" | "temporary" | "global" | "local" | "unlogged") {
        kind += 1;
    }
    let end = written.name_end(kind + 1);
    let words = [kind, end, end + 1, end + 2].map(|place| written.word(place));
    let what = match words.each_ref().map(String::as_str) {
        ["sequence", ..] if written.has(kind - 1, &["unlogged"]) => "CREATE UNLOGGED SEQUENCE",
        ["table", ..] if written.has(kind - 1, &["unlogged", "table", "pg_temp"]) => {
            let message = "only temporary relations may be created in temporary schemas";
            return Some(Error::new(SqlState::InvalidTableDefinition, message));
        }
        ["table", "of", ..] => "CREATE TABLE of a type",
        ["table", "partition", "of", _] => "CREATE TABLE with inheritance or partitions",
        ["table", "as", "execute", _] => "CREATE TABLE AS EXECUTE",
        ["schema", "create" | "grant", ..] | ["schema", "authorization", _, "create" | "grant"] => {
            "CREATE SCHEMA with what is in it"
        }
        _ => return None,
    };
    Some(not_supported(what))
}

/// What is not changed.
fn altered(written: &Written<'_>) -> Option<String> {
    let kind = written.word(1);
    let action = |place: usize| match (written.word(place).as_str(), written.word(place + 1).as_str()) {
        (verb @ ("attach" | "detach"), "partition") => Some(format!("{verb} PARTITION")),
        ("inherit", _) => Some("INHERIT".to_owned()),
        ("no", "inherit") => Some("NO INHERIT".to_owned()),
        ("of", _) | ("not", "of") => Some("OF".to_owned()),
        ("cluster", "on") => Some("CLUSTER ON".to_owned()),
        (verb @ ("add" | "drop" | "alter" | "rename"), "attribute") if kind == "type" => {
            Some(format!("{verb} ATTRIBUTE"))
        }
        ("alter", "column") if kind == "index" => Some("ALTER COLUMN".to_owned()),
        ("set", mark @ ("logged" | "unlogged")) if kind == "sequence" => Some(format!("SET {mark}")),
        _ => None,
    };
    let action = written.actions().into_iter().find_map(action)?;
    Some(format!("ALTER {} ... {}", kind.to_uppercase(), action.to_uppercase()))
}

/// Whether values go to items of arrays.
fn inserted(written: &Written<'_>) -> bool {
    let open = written.name_end(2);
    let begins_query = matches!(written.word(open + 1).as_str(), "select" | "values" | "with" | "table");
    let close = written.closing(open).filter(|_| written.is(open, &Token::LParen) && !begins_query);
    close.is_some_and(|close| (open..close).any(|place| written.is(place, &Token::LBracket)))
}

fn clause_of_with(written: &Written<'_>, place: usize) -> Option<String> {
    if !written.is(place - 1, &Token::RParen) {
        return None;
    }
    let clause = match (written.word(place).as_str(), written.word(place + 1).as_str()) {
        ("search", "depth" | "breadth") => "SEARCH",
        ("cycle", next) if !next.is_empty() => "CYCLE",
        _ => return None,
    };
    Some(format!("{clause} of a query of WITH"))
}

/// A clause of a table or index.
fn clause_of_table(written: &Written<'_>, place: usize) -> Option<Error> {
    let is_table = (1..4).any(|place| written.has(place, &["table"]));
    let (before, next) = (written.word(place - 1), written.word(place + 1));
    let opens = written.is(place + 1, &Token::LParen);
    let refused = match written.word(place).as_str() {
        "exclude" if is_table && (next == "using" || opens) => "an EXCLUDE constraint",
        "include" if is_table && opens && written.is(place - 1, &Token::RParen) => "INCLUDE of a constraint",
        "compression" if is_table && before != "set" && matches!(next.as_str(), "pglz" | "lz4") => {
            "COMPRESSION of a column"
        }
        "tablespace" if says_where(written, place) && !next.is_empty() => {
            let message = format!("tablespace {} does not exist", quoted(&next));
            return Some(Error::new(SqlState::UndefinedObject, message));
        }
        _ => return None,
    };
    Some(not_supported(refused))
}
