//! The tokens of a statement that mean something, by their places among each other, for those who read a statement before it is parsed.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Where the tokens of one statement lie that are no space.
pub(crate) fn places(tokens: &[TokenWithSpan]) -> Vec<usize> {
    let is_there = |token: &Token| !matches!(token, Token::Whitespace(_) | Token::EOF);
    (0..tokens.len()).filter(|&at| is_there(&tokens[at].token)).collect()
}

/// The word at a place in small letters; empty if there is none, or one in quotes.
pub(crate) fn word(tokens: &[TokenWithSpan], places: &[usize], place: usize) -> String {
    match places.get(place).map(|&at| &tokens[at].token) {
        Some(Token::Word(word)) if word.quote_style.is_none() => word.value.to_ascii_lowercase(),
        _ => String::new(),
    }
}

/// Whether the column that ALTER names among the actions of ALTER TABLE, with COLUMN or without, stands at a place behind the second.
pub(crate) fn is_altered_column(tokens: &[TokenWithSpan], places: &[usize], place: usize) -> bool {
    let before = |by: usize| word(tokens, places, place - by);
    before(1) == "alter" || before(1) == "column" && before(2) == "alter"
}

/// What stands before the interval of `SET TIME ZONE INTERVAL` in the value of the setting.
pub(crate) const INTERVAL: &str = "INTERVAL ";
