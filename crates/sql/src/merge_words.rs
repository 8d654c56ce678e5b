//! Clauses of MERGE that the parser does not read, written in ones that it does.
//!
//! `DO NOTHING` becomes an assignment to a column, and `INSERT DEFAULT VALUES` the insertion into one, with a name that no
//! client can write. The planner knows them by these names.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

/// The column that stands for `DO NOTHING`.
pub(crate) const NOTHING: &str = "\0nothing";
/// The column that stands for `DEFAULT VALUES`.
pub(crate) const DEFAULTS: &str = "\0defaults";

/// Rewrites the tokens of one statement, if it is a MERGE.
pub(crate) fn rewrite(tokens: &mut Vec<TokenWithSpan>) {
    let words = |tokens: &[TokenWithSpan]| -> Vec<usize> {
        let is_word = |at: &usize| !matches!(tokens[*at].token, Token::Whitespace(_));
        (0..tokens.len()).filter(is_word).collect()
    };
    let significant = words(tokens);
    let is_merge = significant.iter().any(|&at| keyword(&tokens[at]) == Some(Keyword::MERGE));
    if !is_merge {
        return;
    }
    let phrase = |at: &[usize], wanted: &[Keyword]| {
        at.iter().map(|&at| keyword(&tokens[at])).eq(wanted.iter().map(|&wanted| Some(wanted)))
    };
    let mut replaced: Vec<(usize, usize, Vec<Token>)> = Vec::new();
    let mut is_not = false;
    for at in 0..significant.len() {
        let behind = &significant[at..];
        let starts =
            |wanted: &[Keyword]| behind.len() >= wanted.len() && phrase(&behind[..wanted.len()], wanted);
        if starts(&[Keyword::WHEN, Keyword::NOT, Keyword::MATCHED]) {
            is_not = true;
        } else if starts(&[Keyword::WHEN, Keyword::MATCHED]) {
            is_not = false;
        } else if starts(&[Keyword::THEN, Keyword::DO, Keyword::NOTHING]) {
            let tokens = if is_not { inserted(NOTHING) } else { assigned(NOTHING) };
            replaced.push((behind[1], behind[2], tokens));
        } else if starts(&[Keyword::THEN, Keyword::INSERT, Keyword::DEFAULT, Keyword::VALUES]) {
            replaced.push((behind[1], behind[3], inserted(DEFAULTS)));
        }
    }
    for (first, last, with) in replaced.into_iter().rev() {
        let span = tokens[first].span;
        tokens.splice(first..=last, with.into_iter().map(|token| TokenWithSpan { token, span }));
    }
}

fn keyword(token: &TokenWithSpan) -> Option<Keyword> {
    match &token.token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.keyword),
        _ => None,
    }
}

/// `UPDATE SET "column" = 0`
fn assigned(column: &str) -> Vec<Token> {
    vec![word(Keyword::UPDATE), word(Keyword::SET), name(column), Token::Eq, zero()]
}

/// `INSERT ("column") VALUES (0)`
fn inserted(column: &str) -> Vec<Token> {
    let parenthesized = |token| [Token::LParen, token, Token::RParen];
    let mut tokens = vec![word(Keyword::INSERT)];
    tokens.extend(parenthesized(name(column)));
    tokens.push(word(Keyword::VALUES));
    tokens.extend(parenthesized(zero()));
    tokens
}

fn word(keyword: Keyword) -> Token {
    let value = match keyword {
        Keyword::UPDATE => "UPDATE",
        Keyword::SET => "SET",
        Keyword::INSERT => "INSERT",
        _ => "VALUES",
    };
    Token::make_keyword(value)
}

fn name(column: &str) -> Token {
    Token::Word(Word { value: column.to_owned(), quote_style: Some('"'), keyword: Keyword::NoKeyword })
}

fn zero() -> Token {
    Token::Number("0".to_owned(), false)
}
