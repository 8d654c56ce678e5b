//! Comments on constraints, and comments in dollar quotes, written so that the parser reads them.
//!
//! | written | read |
//! | --- | --- |
//! | `COMMENT ON CONSTRAINT a ON b IS 'c'` | `COMMENT ON PROCEDURE "\0constraint".a.b IS 'c'` |
//! | `COMMENT ON a IS $$b$$` | `COMMENT ON a IS 'b'` |
//!
//! No client can write the schema that stands for what is meant.

use crate::words;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

/// The schema that stands for a constraint; its name and that of its table follow.
pub(crate) const CONSTRAINT: &str = "\0constraint";

/// Rewrites the tokens of one statement.
pub(crate) fn rewrite(tokens: &mut Vec<TokenWithSpan>) {
    let places = words::places(tokens);
    let word = |place: usize| words::word(tokens, &places, place);
    if word(0) != "comment" || word(1) != "on" {
        return;
    }
    let is_constraint = word(2) == "constraint" && word(4) == "on" && word(5) != "domain";
    if let Some(&last) = places.last()
        && let Token::DollarQuotedString(text) = &tokens[last].token
    {
        tokens[last].token = Token::SingleQuotedString(text.value.clone());
    }
    if is_constraint {
        tokens[places[4]].token = Token::Period;
        let span = tokens[places[2]].span;
        let marker = Token::Word(Word {
            value: CONSTRAINT.into(),
            quote_style: Some('"'),
            keyword: Keyword::NoKeyword,
        });
        let object = [Token::make_keyword("PROCEDURE"), marker, Token::Period];
        let object = object.map(|token| TokenWithSpan::new(token, span));
        tokens.splice(places[2]..=places[2], object);
    }
}
