//! LIKE among the columns of a new table, written as a column, so that it may stand among others and have all its options.
//!
//! | written | read |
//! | --- | --- |
//! | `(a int, LIKE b.c INCLUDING ALL)` | `(a int, "\0like including all" "b"."c")` |
//!
//! No client can write the name that stands for what is meant.

use crate::words;
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace, Word};

const LIKE: &str = "\0like";

/// What a LIKE copies besides columns and NOT NULL.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Included {
    pub comments: bool,
    pub constraints: bool,
    pub defaults: bool,
    pub generated: bool,
    pub identity: bool,
    pub indexes: bool,
}

/// The LIKE that a column stands for: what it includes, and the name of the relation.
pub(crate) fn like_clause(column: &ast::ColumnDef) -> Option<(Included, &ast::ObjectName)> {
    let options = column.name.value.strip_prefix(LIKE)?;
    let ast::DataType::Custom(name, _) = &column.data_type else { return None };
    let mut included = Included::default();
    let words: Vec<&str> = options.split_whitespace().collect();
    for pair in words.chunks(2) {
        let [word, what] = pair else { continue };
        let is_included = *word == "including";
        let is = |wanted: &str| *what == wanted || *what == "all";
        for (name, flag) in [
            ("comments", &mut included.comments),
            ("constraints", &mut included.constraints),
            ("defaults", &mut included.defaults),
            ("generated", &mut included.generated),
            ("identity", &mut included.identity),
            ("indexes", &mut included.indexes),
        ] {
            *flag = if is(name) { is_included } else { *flag };
        }
    }
    Some((included, name))
}

/// Rewrites the tokens of one statement.
pub(crate) fn rewrite(tokens: &mut Vec<TokenWithSpan>) {
    let places = words::places(tokens);
    let word = |place: usize| words::word(tokens, &places, place);
    let Some(table) = (1..places.len().min(5)).find(|&place| word(place) == "table") else { return };
    if word(0) != "create" {
        return;
    }
    let mut depth = 0;
    let mut clauses = Vec::new();
    for place in table + 1..places.len() {
        let begins = matches!(tokens[places[place - 1]].token, Token::LParen | Token::Comma);
        if depth == 1 && begins && word(place) == "like" {
            clauses.extend(clause(tokens, &places, place));
        }
        match tokens[places[place]].token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
    }
    for (first, last, with) in clauses.into_iter().rev() {
        let span = tokens[places[first]].span;
        let with = with.into_iter().map(|token| TokenWithSpan::new(token, span));
        tokens.splice(places[first]..=places[last], with);
    }
}

/// The first and the last place of a clause, and what stands for it; `None` if it is none.
fn clause(tokens: &[TokenWithSpan], places: &[usize], like: usize) -> Option<(usize, usize, Vec<Token>)> {
    let word = |place: usize| words::word(tokens, places, place);
    let named =
        |value: String| Token::Word(Word { value, quote_style: Some('"'), keyword: Keyword::NoKeyword });
    let (mut name, mut next) = (Vec::new(), like + 1);
    loop {
        let Token::Word(part) = &tokens[*places.get(next)?].token else { return None };
        let folded = if part.quote_style.is_some() { part.value.clone() } else { part.value.to_lowercase() };
        name.push(named(folded));
        next += 1;
        match tokens[*places.get(next)?].token {
            Token::Period => {
                name.push(Token::Period);
                next += 1;
            }
            _ => break,
        }
    }
    let mut marker = LIKE.to_owned();
    while matches!(word(next).as_str(), "including" | "excluding") {
        let what = word(next + 1);
        // Nothing is kept of what the others say.
        let is_known = matches!(
            what.as_str(),
            "all"
                | "comments"
                | "compression"
                | "constraints"
                | "defaults"
                | "generated"
                | "identity"
                | "indexes"
                | "statistics"
                | "storage"
        );
        if !is_known {
            return None;
        }
        marker.push_str(&format!(" {} {what}", word(next)));
        next += 2;
    }
    let is_end = matches!(tokens[*places.get(next)?].token, Token::Comma | Token::RParen);
    let mut with = vec![named(marker), Token::Whitespace(Whitespace::Space)];
    with.extend(name);
    is_end.then_some((like, next - 1, with))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_in_their_order() {
        let read = |sql: &str| {
            let statement = crate::parse::parse(sql).unwrap().remove(0);
            let Some(ast::Statement::CreateTable(create)) = statement.ast.as_deref() else { panic!("{sql}") };
            let (included, name) = create.columns.iter().find_map(like_clause).unwrap();
            (included, name.to_string(), create.columns.len())
        };
        let (included, name, columns) =
            read("CREATE TABLE a (x int, LIKE S.\"B\" INCLUDING ALL EXCLUDING INDEXES, y int)");
        assert_eq!((name.as_str(), columns), ("\"s\".\"B\"", 3));
        assert!(included.defaults && included.identity && included.comments && !included.indexes);
        assert_eq!(read("CREATE TEMP TABLE IF NOT EXISTS a (LIKE b)").0, Included::default());
    }
}
