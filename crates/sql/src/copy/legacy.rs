//! What may stand behind the options of a COPY and the parser does not know: `ENCODING`, `FREEZE` and `WHERE` become options in parentheses.
//!
//! ```text
//! COPY t FROM STDIN CSV ENCODING 'UTF8' WHERE a > 1     COPY t FROM STDIN (ENCODING 'UTF8', ENCODING 'where a > 1') CSV
//! ```
//! A delimiter and the like of several bytes becomes one that is not allowed either.

use super::extra::{WHERE, marked};
use super::options::NO_BYTE;
use crate::words::{places, word};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Rewrites the tokens of a COPY.
pub(super) fn rewrite(tokens: &mut Vec<TokenWithSpan>) {
    mark_long(tokens);
    let significant = places(tokens);
    let Some(target) = target(tokens, &significant) else { return };
    let mut begin = target + 1 + usize::from(word(tokens, &significant, target + 1) == "with");
    let is = |place: usize, token: Token| significant.get(place).is_some_and(|&at| tokens[at].token == token);
    let has_list = is(begin, Token::LParen);
    let mut place = begin;
    if has_list {
        begin += 1;
        let mut depth = 0_usize;
        while place < significant.len() {
            depth += usize::from(is(place, Token::LParen));
            depth -= usize::from(is(place, Token::RParen));
            if depth == 0 {
                break;
            }
            place += 1;
        }
    }
    let (mut options, mut removed) = (Vec::new(), Vec::new());
    while place < significant.len() {
        let end = match word(tokens, &significant, place).as_str() {
            "where" => {
                let first = significant[place] + 1;
                options.push(option(Some(marked(WHERE, &text(&tokens[first..])))));
                significant.len()
            }
            "encoding" => {
                let value = place + 1 + usize::from(word(tokens, &significant, place + 1) == "as");
                let Some(Token::SingleQuotedString(name)) =
                    significant.get(value).map(|&at| &tokens[at].token)
                else {
                    return;
                };
                options.push(option(Some(name.clone())));
                value + 1
            }
            "freeze" => {
                options.push(option(None));
                place + 1
            }
            _ => place,
        };
        if end > place {
            removed.push((place, end));
        }
        place = end.max(place + 1);
    }
    if options.is_empty() {
        return;
    }
    let span = tokens[0].span;
    for (first, end) in removed.into_iter().rev() {
        let end = significant.get(end).copied().unwrap_or(tokens.len());
        tokens.drain(significant[first]..end);
    }
    let at = significant.get(begin).copied().unwrap_or(tokens.len()).min(tokens.len());
    let written = list(options, has_list).into_iter().map(|token| TokenWithSpan { token, span });
    tokens.splice(at..at, written);
}

/// The place of what is copied from or to.
fn target(tokens: &[TokenWithSpan], significant: &[usize]) -> Option<usize> {
    let mut depth = 0_usize;
    for (place, &at) in significant.iter().enumerate() {
        match &tokens[at].token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ if depth > 0 || place == 0 => {}
            Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_) => return Some(place),
            _ => {
                let follows = matches!(word(tokens, significant, place - 1).as_str(), "from" | "to");
                if follows && matches!(word(tokens, significant, place).as_str(), "stdin" | "stdout") {
                    return Some(place);
                }
            }
        }
    }
    None
}

/// `ENCODING 'name'`, or `FREEZE`.
fn option(encoding: Option<String>) -> Vec<Token> {
    match encoding {
        Some(name) => vec![Token::make_keyword("ENCODING"), Token::SingleQuotedString(name)],
        None => vec![Token::make_keyword("FREEZE")],
    }
}

/// The options in parentheses, or in front of those that are there.
fn list(options: Vec<Vec<Token>>, has_list: bool) -> Vec<Token> {
    let mut written = options.join(&Token::Comma);
    match has_list {
        true => written.push(Token::Comma),
        false => {
            written.insert(0, Token::LParen);
            written.push(Token::RParen);
        }
    }
    written
}

/// The text of the tokens, as it is read again.
fn text(tokens: &[TokenWithSpan]) -> String {
    let text = |token: &TokenWithSpan| match &token.token {
        Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => {
            format!("'{}'", text.replace('\'', "''"))
        }
        Token::Word(word) if word.quote_style == Some('"') => {
            format!("\"{}\"", word.value.replace('"', "\"\""))
        }
        token => token.to_string(),
    };
    tokens.iter().map(text).collect()
}

/// Writes one byte in place of texts that are to be one and are not.
fn mark_long(tokens: &mut [TokenWithSpan]) {
    let significant = places(tokens);
    for place in 1..significant.len() {
        let before = word(tokens, &significant, place - 1);
        let before = match before.as_str() {
            "as" if place > 1 => word(tokens, &significant, place - 2),
            _ => before,
        };
        if let Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) =
            &mut tokens[significant[place]].token
            && matches!(before.as_str(), "delimiter" | "quote" | "escape")
            && text.len() != 1
        {
            *text = NO_BYTE.to_string();
        }
    }
}
