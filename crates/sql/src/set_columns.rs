//! The columns behind SET NULL and SET DEFAULT of a foreign key, among those that it refers to, so that the parser reads them.
//!
//! | written | read |
//! | --- | --- |
//! | `REFERENCES a (b) ON DELETE SET NULL (c)` | `REFERENCES a ("\0delete c", b) ON DELETE SET NULL` |
//!
//! No client can write these names.

use crate::name::folded;
use crate::words;
use datafusion::sql::sqlparser::ast::Ident;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

/// Begins the name that stands for a column which a deletion sets.
pub(crate) const SET_BY_DELETE: &str = "\0delete ";
/// Begins the name that stands for a list of columns of ON UPDATE, which there is not; the action follows.
pub(crate) const SET_BY_UPDATE: &str = "\0update ";

/// Rewrites the tokens of one statement.
pub(crate) fn rewrite(tokens: &mut Vec<TokenWithSpan>) {
    while let Some((open, close, references, names)) = list(tokens) {
        let places = words::places(tokens);
        let span = tokens[places[open]].span;
        tokens.drain(places[open]..=places[close]);
        let is =
            |place: usize, token: &Token| places.get(place).is_some_and(|&at| tokens[at].token == *token);
        let mut name = references + 1;
        while is(name + 1, &Token::Period) {
            name += 2;
        }
        let mut written: Vec<Token> = Vec::new();
        for column in names {
            written.extend([
                Token::Word(Word { value: column, quote_style: Some('"'), keyword: Keyword::NoKeyword }),
                Token::Comma,
            ]);
        }
        let at = match is(name + 1, &Token::LParen) && name + 1 < open {
            true => places[name + 1] + 1,
            false => {
                written.pop();
                written.insert(0, Token::LParen);
                written.push(Token::RParen);
                places[name] + 1
            }
        };
        tokens.splice(at..at, written.into_iter().map(|token| TokenWithSpan::new(token, span)));
    }
}

/// The first such list: its parentheses, REFERENCES before it, and the names to be written there.
fn list(tokens: &[TokenWithSpan]) -> Option<(usize, usize, usize, Vec<String>)> {
    let places = words::places(tokens);
    let word = |place: usize| words::word(tokens, &places, place);
    let is = |place: usize, token: &Token| places.get(place).is_some_and(|&at| tokens[at].token == *token);
    let open = (4..places.len()).find(|&open| {
        is(open, &Token::LParen)
            && matches!(word(open - 1).as_str(), "null" | "default")
            && word(open - 2) == "set"
            && matches!(word(open - 3).as_str(), "delete" | "update")
            && word(open - 4) == "on"
    })?;
    let references = (0..open).rev().find(|&place| word(place) == "references")?;
    let close = (open + 1..places.len()).find(|&place| is(place, &Token::RParen))?;
    if word(open - 3) == "update" {
        let action = format!("{SET_BY_UPDATE}SET {}", word(open - 1).to_uppercase());
        return Some((open, close, references, vec![action]));
    }
    let mut names = Vec::new();
    for (at, &place) in places[open + 1..close].iter().enumerate() {
        match &tokens[place].token {
            Token::Word(name) if at % 2 == 0 => {
                let ident = Ident {
                    value: name.value.clone(),
                    quote_style: name.quote_style,
                    span: tokens[place].span,
                };
                names.push(format!("{SET_BY_DELETE}{}", folded(&ident)));
            }
            Token::Comma if at % 2 == 1 => {}
            _ => return None,
        }
    }
    (!names.is_empty()).then_some((open, close, references, names))
}
