//! REFRESH MATERIALIZED VIEW, written so that the parser reads it.
//!
//! | written | read |
//! | --- | --- |
//! | `REFRESH MATERIALIZED VIEW a` | `ALTER TABLE a RENAME TO "\0refresh".a` |
//! | `REFRESH MATERIALIZED VIEW CONCURRENTLY a WITH NO DATA` | `ALTER TABLE a RENAME TO "\0refresh concurrently empty".a` |
//!
//! No client can write the names that stand for what is meant.

use crate::name::object_name;
use crate::words;
use ankerdb_engine::{QualifiedName, Result};
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan, Whitespace, Word};

const REFRESH: &str = "\0refresh";
const CONCURRENTLY: &str = " concurrently";
const EMPTY: &str = " empty";

/// What REFRESH MATERIALIZED VIEW says.
#[derive(Clone, Debug)]
pub(crate) struct Refresh {
    pub name: QualifiedName,
    pub concurrently: bool,
    pub with_data: bool,
}

/// The REFRESH that a statement stands for, if it does.
///
/// # Errors
/// Those of a malformed name.
pub(crate) fn refresh(alter: &ast::AlterTable) -> Result<Option<Refresh>> {
    let [ast::AlterTableOperation::RenameTable { table_name }] = alter.operations.as_slice() else {
        return Ok(None);
    };
    let (ast::RenameTableNameKind::To(name) | ast::RenameTableNameKind::As(name)) = table_name;
    let mark = name.0.first().and_then(|part| part.as_ident()).map_or("", |ident| &ident.value);
    let Some(options) = mark.strip_prefix(REFRESH) else { return Ok(None) };
    Ok(Some(Refresh {
        name: object_name(&alter.name)?,
        concurrently: options.contains(CONCURRENTLY),
        with_data: !options.contains(EMPTY),
    }))
}

/// Rewrites the tokens of one statement.
pub(crate) fn rewrite(tokens: &mut Vec<TokenWithSpan>) {
    let places = words::places(tokens);
    let word = |place: usize| words::word(tokens, &places, place);
    if [word(0), word(1), word(2)] != ["refresh", "materialized", "view"] {
        return;
    }
    let (mut mark, mut first, mut end) = (REFRESH.to_owned(), 3, places.len());
    if word(first) == "concurrently" && places.len() > 4 {
        mark.push_str(CONCURRENTLY);
        first += 1;
    }
    if end > first + 3 && [word(end - 3), word(end - 2), word(end - 1)] == ["with", "no", "data"] {
        mark.push_str(EMPTY);
        end -= 3;
    } else if end > first + 2 && word(end - 2) == "with" && word(end - 1) == "data" {
        end -= 2;
    }
    if end <= first {
        return;
    }
    let span = tokens[places[0]].span;
    let behind = [
        Token::make_keyword("RENAME"),
        Token::make_keyword("TO"),
        Token::Word(Word { value: mark, quote_style: Some('"'), keyword: Keyword::NoKeyword }),
    ];
    let mut behind = spaced(behind.into(), span);
    behind.push(TokenWithSpan::new(Token::Period, span));
    behind.push(TokenWithSpan::new(
        Token::Word(Word { value: "a".into(), quote_style: Some('"'), keyword: Keyword::NoKeyword }),
        span,
    ));
    let last = places.last().copied().unwrap_or(0);
    tokens.splice(places[end - 1] + 1..=last, behind);
    let before = spaced(vec![Token::make_keyword("ALTER"), Token::make_keyword("TABLE")], span);
    tokens.splice(places[0]..places[first], before);
}

fn spaced(tokens: Vec<Token>, span: Span) -> Vec<TokenWithSpan> {
    let space = || Token::Whitespace(Whitespace::Space);
    let all = tokens.into_iter().flat_map(|token| [space(), token]).chain([space()]);
    all.map(|token| TokenWithSpan::new(token, span)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_told_from_names() {
        let read = |sql: &str| {
            let statement = crate::parse::parse(sql).unwrap().remove(0);
            let Some(ast::Statement::AlterTable(alter)) = statement.ast.as_deref() else { panic!("{sql}") };
            let refresh = refresh(alter).unwrap().unwrap();
            (refresh.name.to_string(), refresh.concurrently, refresh.with_data)
        };
        assert_eq!(read("REFRESH MATERIALIZED VIEW a"), ("a".into(), false, true));
        assert_eq!(read("refresh materialized view concurrently s.a with data"), ("s.a".into(), true, true));
        assert_eq!(read("REFRESH MATERIALIZED VIEW a WITH NO DATA"), ("a".into(), false, false));
        assert!(crate::parse::parse("REFRESH MATERIALIZED VIEW").is_err());
        assert!(crate::parse::parse("REFRESH MATERIALIZED VIEW a b").is_err());
    }
}
