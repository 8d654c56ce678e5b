//! Options of COPY that the parser does not know: newer than it, or our own.
//!
//! `ON_ERROR ignore` becomes `ENCODING` of a text that no encoding is called, and which [`read`] takes apart.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

/// Begins the text: a character that has no meaning anywhere.
const MARK: char = '\u{f8fe}';
const OPTIONS: [&str; 6] =
    ["on_error", "reject_limit", "log_verbosity", "compression", "row_group_size", "match_by"];

/// The option whose value is a condition.
pub(super) const WHERE: &str = "where";

/// The text for an option.
pub(super) fn marked(name: &str, value: &str) -> String {
    format!("{MARK}{name}{MARK}{value}")
}

/// The name and the value of an option, if the encoding's name is one of ours.
pub(super) fn read(encoding: &str) -> Option<(String, Option<String>)> {
    let (name, value) = encoding.strip_prefix(MARK)?.split_once(MARK)?;
    Some((name.to_owned(), (!value.is_empty()).then(|| value.to_owned())))
}

/// Writes the options of a COPY in the parser's words.
pub(crate) fn rewrite(tokens: &mut Vec<TokenWithSpan>) {
    let is_blank = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_) | Token::EOF);
    let places: Vec<usize> = (0..tokens.len()).filter(|&at| !is_blank(&tokens[at])).collect();
    if places.first().is_none_or(|&first| word(&tokens[first]) != "copy") {
        return;
    }
    super::legacy::rewrite(tokens);
    crate::rewrite::write_freeze(tokens);
    let places: Vec<usize> = (0..tokens.len()).filter(|&at| !is_blank(&tokens[at])).collect();
    let Some(open) = options_start(tokens, &places) else { return };
    let end = places.len() - 1;
    let (mut first, mut found) = (open + 1, Vec::new());
    for at in open + 1..=end {
        if at == end || tokens[places[at]].token == Token::Comma {
            if let Some(text) = option(tokens, &places[first..at]) {
                found.push((places[first], places[at], text));
            }
            first = at + 1;
        }
    }
    for (start, end, text) in found.into_iter().rev() {
        let span = tokens[start].span;
        let encoding = Word { value: "ENCODING".into(), quote_style: None, keyword: Keyword::ENCODING };
        let written = [Token::Word(encoding), Token::SingleQuotedString(text)];
        tokens.splice(start..end, written.map(|token| TokenWithSpan { token, span }));
    }
}

/// Where the parenthesis of the options is: one at the end of the statement that follows a source or WITH.
fn options_start(tokens: &[TokenWithSpan], places: &[usize]) -> Option<usize> {
    if tokens[*places.last()?].token != Token::RParen {
        return None;
    }
    let (mut depth, mut at) = (0, places.len());
    while at > 0 {
        at -= 1;
        match tokens[places[at]].token {
            Token::RParen => depth += 1,
            Token::LParen => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    let before = &tokens[places[at.checked_sub(1)?]];
    let follows = matches!(word(before).as_str(), "stdin" | "stdout" | "with")
        || matches!(before.token, Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_));
    follows.then_some(at)
}

/// The text for one option, if it is one of those.
fn option(tokens: &[TokenWithSpan], places: &[usize]) -> Option<String> {
    let (&name, values) = places.split_first()?;
    let name = word(&tokens[name]);
    let values: Vec<String> = values.iter().map(|&at| written(&tokens[at].token)).collect();
    let is_match = name == "header" && values.len() == 1 && values[0].eq_ignore_ascii_case("match");
    let is_all = name == "force_quote" && values == ["*"];
    if !(is_match || is_all || OPTIONS.contains(&name.as_str())) {
        return None;
    }
    Some(marked(&name, &values.concat()))
}

fn word(token: &TokenWithSpan) -> String {
    match &token.token {
        Token::Word(word) if word.quote_style.is_none() => word.value.to_ascii_lowercase(),
        _ => String::new(),
    }
}

/// A value, in quotes or not.
fn written(token: &Token) -> String {
    match token {
        Token::SingleQuotedString(text) => text.clone(),
        Token::Word(word) => word.value.clone(),
        token => token.to_string(),
    }
}
