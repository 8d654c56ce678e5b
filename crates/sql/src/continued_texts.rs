//! Constants that go on in the next line, and other things that are written over several words where the parser knows one.
//!
//! | written | read |
//! | --- | --- |
//! | `'a'`, a new line, `'b'` | `'ab'` |
//! | `a ISNULL` | `a IS NULL` |
//! | `CREATE RECURSIVE VIEW a (b) AS c` | `CREATE VIEW a (b) AS WITH RECURSIVE a (b) AS (c) SELECT b FROM a` |

use crate::words::Written;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// Rewrites the tokens of one statement.
pub(crate) fn rewrite(tokens: &mut Vec<TokenWithSpan>) {
    join(tokens);
    write_null_tests(tokens);
    write_recursive_view(tokens);
}

/// Joins the parts of a constant between which a line ends.
fn join(tokens: &mut [TokenWithSpan]) {
    let mut first: Option<usize> = None;
    let mut ends_line = false;
    for at in 0..tokens.len() {
        match &tokens[at].token {
            Token::Whitespace(Whitespace::MultiLineComment(_)) => first = None,
            Token::Whitespace(Whitespace::Newline | Whitespace::SingleLineComment { .. }) => ends_line = true,
            Token::Whitespace(_) => {}
            Token::SingleQuotedString(_) => {
                match first.filter(|_| ends_line) {
                    Some(first) => append(tokens, first, at),
                    None => first = Some(at),
                }
                ends_line = false;
            }
            _ => first = None,
        }
    }
}

/// Appends a part of a constant to the first one; a space is put in its place.
fn append(tokens: &mut [TokenWithSpan], first: usize, part: usize) {
    let space = Token::Whitespace(Whitespace::Space);
    let Token::SingleQuotedString(rest) = std::mem::replace(&mut tokens[part].token, space) else { return };
    if let Token::SingleQuotedString(text) = &mut tokens[first].token {
        text.push_str(&rest);
    }
}

/// ISNULL behind an operand.
fn write_null_tests(tokens: &mut Vec<TokenWithSpan>) {
    let is_it = |token: &TokenWithSpan| matches!(&token.token, Token::Word(word) if word.value.eq_ignore_ascii_case("isnull"));
    if !tokens.iter().any(is_it) {
        return;
    }
    let written = Written::of(tokens);
    let is_operand = |place: usize| match written.token(place) {
        Some(Token::Word(word)) => word.quote_style.is_some() || !is_before_operand(word.keyword),
        Some(Token::RParen | Token::RBracket | Token::Number(..) | Token::Placeholder(_)) => true,
        Some(token) => matches!(token, Token::SingleQuotedString(_)),
        None => false,
    };
    let is_test = |place: &usize| written.has(*place, &["isnull"]) && is_operand(*place - 1);
    let found: Vec<usize> =
        (1..written.places.len()).filter(is_test).map(|place| written.places[place]).collect();
    for at in found.into_iter().rev() {
        let span = tokens[at].span;
        let words =
            [Token::make_keyword("IS"), Token::Whitespace(Whitespace::Space), Token::make_keyword("NULL")];
        tokens.splice(at..=at, words.map(|token| TokenWithSpan::new(token, span)));
    }
}

/// Whether an operand may follow a word of SQL.
fn is_before_operand(keyword: Keyword) -> bool {
    use Keyword::{AND, AS, BY, ELSE, FROM, HAVING, NOT, ON, OR, SELECT, THEN, WHEN, WHERE};
    matches!(keyword, AND | AS | BY | ELSE | FROM | HAVING | NOT | ON | OR | SELECT | THEN | WHEN | WHERE)
}

/// A view of a query that reads itself.
fn write_recursive_view(tokens: &mut Vec<TokenWithSpan>) {
    let written = Written::of(tokens);
    if !written.has(0, &["create"]) {
        return;
    }
    let Some(word) = (1..5).find(|&place| written.has(place, &["recursive", "view"])) else { return };
    let end = written.name_end(word + 2);
    let Some(close) = written.closing(end).filter(|_| written.is(end, &Token::LParen)) else { return };
    if !written.has(close + 1, &["as"]) {
        return;
    }
    let at = |place: usize| written.places[place];
    let copied = |first: usize, last: usize| tokens[at(first)..=at(last)].to_vec();
    let (name, columns) = (copied(end - 1, end - 1), copied(end, close));
    let names = copied(end + 1, close - 1);
    let (as_word, last) = (at(close + 1), at(written.places.len() - 1));
    let recursive = at(word);
    let span = tokens[as_word].span;
    let words = |words: &[&str]| -> Vec<TokenWithSpan> {
        let words =
            words.iter().flat_map(|word| [Token::Whitespace(Whitespace::Space), Token::make_keyword(word)]);
        let words = words.chain([Token::Whitespace(Whitespace::Space)]);
        words.map(|token| TokenWithSpan::new(token, span)).collect()
    };
    let parenthesis = |token: Token| vec![TokenWithSpan::new(token, span)];
    let before =
        [words(&["WITH", "RECURSIVE"]), name.clone(), columns, words(&["AS"]), parenthesis(Token::LParen)];
    let behind = [parenthesis(Token::RParen), words(&["SELECT"]), names, words(&["FROM"]), name];
    tokens.splice(last + 1..last + 1, behind.concat());
    tokens.splice(as_word + 1..as_word + 1, before.concat());
    tokens[recursive].token = Token::Whitespace(Whitespace::Space);
}
