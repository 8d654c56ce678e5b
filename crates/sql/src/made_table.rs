//! Tables that are made of queries, written so that the parser and the planner read them.
//!
//! | written | read |
//! | --- | --- |
//! | `CREATE TABLE a (b, c) AS query` | `CREATE TABLE a (b "\0untyped", c "\0untyped") AS query` |
//! | `CREATE TABLE a AS query WITH NO DATA` | `CREATE TABLE a AS SELECT * FROM (query) AS "\0empty"`, materialized views alike |
//! | `SELECT b INTO a FROM c` | `CREATE TABLE a AS SELECT b FROM c` |
//!
//! No client can write the names that stand for what is meant.

use crate::name::not_supported;
use crate::syntax_error::near;
use crate::words;
use ankerdb_engine::Result;
use datafusion::sql::sqlparser::ast::{self, SetExpr, Statement, TableFactor};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan, Whitespace, Word};

/// The type of columns that have none.
const UNTYPED: &str = "\0untyped";
/// The name of a query whose rows are not wanted.
const EMPTY: &str = "\0empty";

/// Rewrites the tokens of one statement.
pub(crate) fn rewrite(tokens: &mut Vec<TokenWithSpan>) {
    let places = words::places(tokens);
    let word = |place: usize| words::word(tokens, &places, place);
    if word(0) != "create" {
        return;
    }
    let is_modifier = |word: &str| matches!(word, "global" | "local" | "temp" | "temporary" | "unlogged");
    let table = 1 + (1..).take_while(|&place| is_modifier(&word(place))).count();
    // A materialized view is written in the same way, but for its columns, which the parser knows.
    let is_view = word(table) == "materialized" && word(table + 1) == "view";
    let is_made = is_view || word(table) == "table";
    let Some(query) = query_of(tokens, &places, table).filter(|_| is_made) else { return };
    let end = places.len();
    // From behind, so that places before stay as they are.
    if end > query + 2 && word(end - 1) == "data" && word(end - 2) == "with" {
        tokens.drain(places[end - 2]..=places[end - 1]);
    } else if end > query + 3 && [word(end - 3), word(end - 2), word(end - 1)] == ["with", "no", "data"] {
        let span = tokens[places[end - 3]].span;
        let behind = [Token::RParen, Token::make_keyword("AS"), named(EMPTY)];
        tokens.splice(places[end - 3]..=places[end - 1], spaced(behind.into(), span));
        let before = [Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM"), Token::LParen];
        let at = places[query];
        tokens.splice(at..at, spaced(before.into(), span));
    }
    if is_view {
        return;
    }
    for place in columns(tokens, &places, table, query).into_iter().rev() {
        let span = tokens[place].span;
        tokens.splice(place + 1..=place, spaced(vec![named(UNTYPED)], span));
    }
}

/// The place of the first word of the query: behind AS, outside of parentheses.
pub(crate) fn query_of(tokens: &[TokenWithSpan], places: &[usize], table: usize) -> Option<usize> {
    let mut depth = 0;
    for (place, &at) in places.iter().enumerate().skip(table + 1) {
        match &tokens[at].token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            Token::Word(word) if depth == 0 && word.keyword == Keyword::AS => return Some(place + 1),
            _ => {}
        }
    }
    None
}

/// The names of the list behind the table's name, by their places among the tokens, if it is a list of nothing but names.
fn columns(tokens: &[TokenWithSpan], places: &[usize], table: usize, query: usize) -> Vec<usize> {
    let Some(open) = (table..query).find(|&place| tokens[places[place]].token == Token::LParen) else {
        return Vec::new();
    };
    // What is in the parentheses of WITH (...) are no columns.
    let is_option =
        matches!(&tokens[places[open - 1]].token, Token::Word(word) if word.keyword == Keyword::WITH);
    let mut names = Vec::new();
    for pair in places[open + 1..query].chunks(2) {
        let [name, behind] = pair else { return Vec::new() };
        let Token::Word(_) = &tokens[*name].token else { return Vec::new() };
        names.push(*name);
        match tokens[*behind].token {
            Token::RParen if !is_option => return names,
            Token::Comma => {}
            _ => return Vec::new(),
        }
    }
    Vec::new()
}

fn named(name: &str) -> Token {
    Token::Word(Word { value: name.to_owned(), quote_style: Some('"'), keyword: Keyword::NoKeyword })
}

fn spaced(tokens: Vec<Token>, span: Span) -> Vec<TokenWithSpan> {
    let space = || Token::Whitespace(Whitespace::Space);
    let all = tokens.into_iter().flat_map(|token| [space(), token]).chain([space()]);
    all.map(|token| TokenWithSpan::new(token, span)).collect()
}

/// That columns of a table made of a query have no types of their own.
///
/// # Errors
/// `SyntaxError`.
pub(crate) fn check_untyped(columns: &[ast::ColumnDef]) -> Result<()> {
    let is_untyped = |column: &&ast::ColumnDef| {
        matches!(&column.data_type, ast::DataType::Custom(name, _) if name.0.first().is_some_and(|part| {
            part.as_ident().is_some_and(|ident| ident.value == UNTYPED)
        })) && column.options.is_empty()
    };
    match columns.iter().find(|column| !is_untyped(column)) {
        None => Ok(()),
        Some(column) => Err(near(&column.data_type.to_string())),
    }
}

/// The query of which a table is made, and whether its rows are wanted.
pub(crate) fn source(query: &ast::Query) -> (&ast::Query, bool) {
    if let SetExpr::Select(select) = &*query.body
        && let [from] = select.from.as_slice()
        && let TableFactor::Derived { subquery, alias: Some(alias), .. } = &from.relation
        && alias.name.value == EMPTY
    {
        return (subquery, false);
    }
    (query, true)
}

/// Makes `CREATE TABLE ... AS` of `SELECT ... INTO`.
///
/// # Errors
/// `FeatureNotSupported` for a table without a log.
pub(crate) fn rewrite_into(statement: &mut Statement) -> Result<()> {
    let Statement::Query(query) = statement else { return Ok(()) };
    let Some(into) = take_into(&mut query.body) else { return Ok(()) };
    if into.unlogged {
        return Err(not_supported("SELECT INTO UNLOGGED"));
    }
    let builder = ast::helpers::stmt_create_table::CreateTableBuilder::new(into.name);
    let made = builder.temporary(into.temporary).query(Some(query.clone())).build();
    *statement = Statement::CreateTable(made);
    Ok(())
}

/// What the first SELECT of a query names behind INTO.
fn take_into(body: &mut SetExpr) -> Option<ast::SelectInto> {
    match body {
        SetExpr::SetOperation { left, .. } => take_into(left),
        SetExpr::Select(select) => select.into.take(),
        _ => None,
    }
}
