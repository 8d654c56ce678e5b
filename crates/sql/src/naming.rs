//! New names and schemas of relations, written so that the parser reads them.
//!
//! | written | read |
//! | --- | --- |
//! | `ALTER VIEW a RENAME TO b` | `ALTER TABLE a RENAME TO "\0rename view".b` |
//! | `ALTER TABLE a SET SCHEMA b` | `ALTER TABLE a RENAME TO "\0schema table".b` |
//! | `ALTER VIEW a OWNER TO b` | `ALTER TABLE a RENAME TO "\0kind view".a, OWNER TO b` |
//! | `ALTER TYPE a SET SCHEMA b` | `ALTER TYPE a RENAME VALUE "\0schema type" TO b` |
//! | `SET SCHEMA 'a'` | `SET search_path = 'a'` |
//! | `DROP INDEX CONCURRENTLY a` | `DROP INDEX "\0concurrently", a` |
//!
//! No client can write the names that stand for what is meant.

use crate::words;
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace, Word};

/// Begins the schema that stands for another name; the kind of the relation follows.
pub(crate) const RENAMED: &str = "\0rename ";
/// Begins the schema that stands for another schema; the kind of the relation follows.
pub(crate) const MOVED: &str = "\0schema ";
/// Begins the schema that stands for no change, but says which kind of relation the actions behind are for.
pub(crate) const KIND: &str = "\0kind ";

/// The label whose renaming stands for another schema of a type.
pub(crate) const MOVED_TYPE: &str = "\0schema type";
/// The label whose renaming stands for another owner of a type.
pub(crate) const OWNED_TYPE: &str = "\0owner type";

/// The first of the names of DROP INDEX if it says CONCURRENTLY.
pub(crate) const CONCURRENTLY: &str = "\0concurrently";

/// The command tag of a statement that may stand for another one.
pub(crate) fn tag(alter: &ast::AlterTable) -> &'static str {
    let [ast::AlterTableOperation::RenameTable { table_name }, ..] = alter.operations.as_slice() else {
        return "ALTER TABLE";
    };
    let (ast::RenameTableNameKind::To(name) | ast::RenameTableNameKind::As(name)) = table_name;
    let mark = name.0.first().and_then(|part| part.as_ident()).map_or("", |ident| &ident.value);
    match [RENAMED, MOVED, KIND].iter().find_map(|prefix| mark.strip_prefix(prefix)) {
        Some("view") => "ALTER VIEW",
        Some("materialized view") => "ALTER MATERIALIZED VIEW",
        Some("sequence") => "ALTER SEQUENCE",
        Some("index") => "ALTER INDEX",
        _ => "ALTER TABLE",
    }
}

/// Rewrites the tokens of one statement.
pub(crate) fn rewrite(tokens: &mut Vec<TokenWithSpan>) {
    let places = words::places(tokens);
    let word = |place: usize| words::word(tokens, &places, place);
    match (word(0).as_str(), word(1).as_str()) {
        ("set", "schema") => set_path(tokens, places[1]),
        ("set", "local" | "session") if word(2) == "schema" => set_path(tokens, places[2]),
        ("drop", "index") if word(2) == "concurrently" => {
            let behind = if word(3) == "if" && word(4) == "exists" { 5 } else { 3 };
            drop_concurrently(tokens, &places, behind);
        }
        ("alter", "type") => alter_type(tokens, &places),
        ("alter", "materialized") if word(2) == "view" => {
            // One word less, and then as a view is altered.
            tokens.drain(places[1]..places[2]);
            let places = words::places(tokens);
            name_or_mark(tokens, &places, "materialized view");
        }
        ("alter", kind @ ("table" | "view" | "sequence" | "index")) => name_or_mark(tokens, &places, kind),
        _ => {}
    }
}

/// ALTER of a relation of a kind.
fn name_or_mark(tokens: &mut Vec<TokenWithSpan>, places: &[usize], kind: &str) {
    let word = |place: usize| words::word(tokens, places, place);
    let Some(last) = places.len().checked_sub(3) else { return };
    let words = (word(last), word(last + 1));
    let mark = match (words.0.as_str(), words.1.as_str()) {
        ("rename", "to") if kind != "table" => RENAMED,
        ("set", "schema") => MOVED,
        _ if kind == "table" => return,
        _ => return mark_kind(tokens, places, kind),
    };
    let mark = format!("{mark}{kind}");
    alter(tokens, places, last, mark);
}

/// Puts the kind before the actions.
fn mark_kind(tokens: &mut Vec<TokenWithSpan>, places: &[usize], kind: &str) {
    let word = |place: usize| words::word(tokens, places, place);
    let mut name = if word(2) == "if" && word(3) == "exists" { 4 } else { 2 };
    let is_period = |place: usize| places.get(place).is_some_and(|&at| tokens[at].token == Token::Period);
    while is_period(name + 1) {
        name += 2;
    }
    let Some(&first) = places.get(name + 1) else { return };
    let span = tokens[first].span;
    let named =
        |value: String| Token::Word(Word { value, quote_style: Some('"'), keyword: Keyword::NoKeyword });
    let mark = named(format!("{KIND}{kind}"));
    let marks = [
        Token::make_keyword("RENAME"),
        space(),
        Token::make_keyword("TO"),
        space(),
        mark,
        Token::Period,
        named("a".into()),
        Token::Comma,
        space(),
    ];
    tokens.splice(first..first, marks.map(|token| TokenWithSpan::new(token, span)));
    tokens[places[1]].token = Token::make_keyword("TABLE");
}

/// Another schema or owner of a type as another text for one of its labels.
fn alter_type(tokens: &mut Vec<TokenWithSpan>, places: &[usize]) {
    let Some(last) = places.len().checked_sub(3) else { return };
    let words = [last, last + 1].map(|place| words::word(tokens, places, place));
    let mark = match [words[0].as_str(), words[1].as_str()] {
        ["set", "schema"] => MOVED_TYPE,
        ["owner", "to"] => OWNED_TYPE,
        _ => return,
    };
    let span = tokens[places[last]].span;
    let mark =
        Token::Word(Word { value: mark.to_owned(), quote_style: Some('"'), keyword: Keyword::NoKeyword });
    let (rename, value, to) =
        (Token::make_keyword("RENAME"), Token::make_keyword("VALUE"), Token::make_keyword("TO"));
    let renames = [rename, space(), value, space(), mark, space(), to, space()];
    let renames = renames.map(|token| TokenWithSpan::new(token, span));
    tokens.splice(places[last]..places[last + 2], renames);
}

fn set_path(tokens: &mut Vec<TokenWithSpan>, at: usize) {
    let span = tokens[at].span;
    let tokens_of_path = [plain("search_path"), Token::Eq];
    tokens.splice(at..=at, tokens_of_path.map(|token| TokenWithSpan::new(token, span)));
}

/// Puts the mark before the last name.
fn alter(tokens: &mut Vec<TokenWithSpan>, places: &[usize], last: usize, mark: String) {
    let (first, name) = (places[last], places[last + 2]);
    let span = tokens[first].span;
    let mark = Token::Word(Word { value: mark, quote_style: Some('"'), keyword: Keyword::NoKeyword });
    let renames =
        [Token::make_keyword("RENAME"), space(), Token::make_keyword("TO"), space(), mark, Token::Period];
    tokens.splice(first..name, renames.map(|token| TokenWithSpan::new(token, span)));
    tokens[places[1]].token = Token::make_keyword("TABLE");
}

/// Puts the marker before the first name, if there is one.
fn drop_concurrently(tokens: &mut Vec<TokenWithSpan>, places: &[usize], first: usize) {
    let Some(&name) = places.get(first) else { return };
    let span = tokens[name].span;
    let marker =
        Token::Word(Word { value: CONCURRENTLY.into(), quote_style: Some('"'), keyword: Keyword::NoKeyword });
    tokens.splice(name..name, [marker, Token::Comma].map(|token| TokenWithSpan::new(token, span)));
    tokens.remove(places[2]);
}

fn plain(name: &str) -> Token {
    Token::Word(Word { value: name.to_owned(), quote_style: None, keyword: Keyword::NoKeyword })
}

fn space() -> Token {
    Token::Whitespace(Whitespace::Space)
}
