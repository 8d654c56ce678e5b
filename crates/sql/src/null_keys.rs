//! `UNIQUE NULLS NOT DISTINCT` of a column, so that the parser reads it: it knows the words only where a list of columns follows.
//!
//! | written | read |
//! | --- | --- |
//! | `a int UNIQUE NULLS NOT DISTINCT` | `a int UNIQUE COMMENT '\0nulls are equal'` |
//! | `a int UNIQUE NULLS DISTINCT` | `a int UNIQUE` |
//!
//! No client can write this comment, nor any in the definition of a column.

use crate::words;
use datafusion::sql::sqlparser::ast::{ColumnOption, ColumnOptionDef};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

const EQUAL: &str = "\0nulls are equal";

/// Whether the option behind a column's UNIQUE says that NULL equals NULL.
pub(crate) fn are_equal(option: Option<&ColumnOptionDef>) -> bool {
    option.is_some_and(|option| matches!(&option.option, ColumnOption::Comment(text) if text == EQUAL))
}

/// Rewrites the tokens of one statement.
pub(crate) fn rewrite(tokens: &mut Vec<TokenWithSpan>) {
    let places = words::places(tokens);
    let word = |place: usize| words::word(tokens, &places, place);
    let is_definition = matches!(word(0).as_str(), "create" | "alter");
    let mut found = Vec::new();
    for place in 0..places.len() {
        if !is_definition || word(place) != "unique" || word(place + 1) != "nulls" {
            continue;
        }
        let is_not = word(place + 2) == "not";
        let last = place + 2 + usize::from(is_not);
        let has_list = places.get(last + 1).is_some_and(|&at| tokens[at].token == Token::LParen);
        if word(last) == "distinct" && !has_list {
            found.push((place + 1, last, is_not));
        }
    }
    for (first, last, is_not) in found.into_iter().rev() {
        let span = tokens[places[first]].span;
        let mark = [
            Token::make_keyword("COMMENT"),
            Token::Whitespace(Whitespace::Space),
            Token::SingleQuotedString(EQUAL.to_owned()),
        ];
        let mark = mark.into_iter().filter(|_| is_not).map(|token| TokenWithSpan::new(token, span));
        tokens.splice(places[first]..=places[last], mark);
    }
}
