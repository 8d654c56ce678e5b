//! Clauses that the parser does not read, written in ones that it does.
//!
//! In MERGE, `DO NOTHING` becomes an assignment to a column, and `INSERT DEFAULT VALUES` the insertion into one; OVERRIDING
//! becomes a column of the list of INSERT, and so does a target of ON CONFLICT with expressions or a condition. Their names no client can write, and the planner knows them by these. `FOR NO KEY
//! UPDATE` and `FOR KEY SHARE` lock as `FOR UPDATE` and `FOR SHARE` do, as there are no weaker locks here. All tables
//! are logged alike, so that `UNLOGGED` says nothing. RESET takes one word, so `RESET TIME ZONE` becomes `RESET "timezone"`.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace, Word};

/// The column that stands for `DO NOTHING`.
pub(crate) const NOTHING: &str = "\0nothing";
/// The column that stands for `DEFAULT VALUES`.
pub(crate) const DEFAULTS: &str = "\0defaults";

/// The column that stands for `OVERRIDING SYSTEM VALUE`: values for columns that number their rows count.
pub(crate) const SYSTEM_VALUES: &str = "\0system";
/// The column that stands for `OVERRIDING USER VALUE`: values for columns that number their rows do not count.
pub(crate) const USER_VALUES: &str = "\0user";

/// Begins the column that stands for a target of ON CONFLICT; the target's text follows.
pub(crate) const TARGET: &str = "\0target ";

/// Rewrites the tokens of one statement.
pub(crate) fn rewrite(tokens: &mut Vec<TokenWithSpan>) {
    let significant: Vec<usize> =
        (0..tokens.len()).filter(|&at| !matches!(tokens[at].token, Token::Whitespace(_))).collect();
    let words: Vec<String> = significant.iter().map(|&at| word_of(&tokens[at])).collect();
    if !words.iter().any(|word| {
        matches!(word.as_str(), "merge" | "overriding" | "key" | "conflict" | "unlogged" | "reset")
    }) {
        return;
    }
    let starts = |at: usize, wanted: &[&str]| {
        words[at..].iter().zip(wanted).filter(|(a, b)| a == *b).count() == wanted.len()
    };
    let mut replaced: Vec<Replacement> = Vec::new();
    let mut is_not = false;
    for at in 0..words.len() {
        if starts(at, &["when", "not", "matched"]) {
            is_not = true;
        } else if starts(at, &["when", "matched"]) {
            is_not = false;
        } else if starts(at, &["then", "do", "nothing"]) {
            let tokens = if is_not { inserted(NOTHING) } else { assigned(NOTHING) };
            replaced.push((at + 1, at + 2, tokens));
        } else if starts(at, &["then", "insert", "default", "values"]) {
            replaced.push((at + 1, at + 3, inserted(DEFAULTS)));
        } else if starts(at, &["overriding", "system", "value"])
            || starts(at, &["overriding", "user", "value"])
        {
            let marker = if words[at + 1] == "system" { SYSTEM_VALUES } else { USER_VALUES };
            replaced.extend(overriding(&words, at, marker));
        } else if starts(at, &["for", "no", "key", "update"]) {
            replaced.push((at + 1, at + 2, Vec::new()));
        } else if starts(at, &["for", "key", "share"]) {
            replaced.push((at + 1, at + 1, Vec::new()));
        } else if at == 0 && starts(at, &["create", "unlogged", "table"]) && !starts(3, &["pg_temp"]) {
            replaced.push((1, 1, Vec::new()));
        } else if at == 0 && starts(at, &["reset", "time", "zone"]) {
            replaced.push((1, 2, vec![name("timezone")]));
        } else if at == 0 && starts(at, &["reset", "session", "authorization"]) {
            replaced.push((1, 2, vec![name("session_authorization")]));
        } else if starts(at, &["on", "conflict", "("]) {
            replaced.extend(conflict_target(tokens, &significant, &words, at + 2));
        }
    }
    replaced.sort_by_key(|(first, ..)| *first);
    for (first, last, with) in replaced.into_iter().rev() {
        let (first, last) = (significant[first], significant[last]);
        let span = tokens[first].span;
        let mut with: Vec<TokenWithSpan> =
            with.into_iter().map(|token| TokenWithSpan { token, span }).collect();
        with.push(TokenWithSpan { token: Token::Whitespace(Whitespace::Space), span });
        tokens.splice(first..=last, with);
    }
}

/// A target of ON CONFLICT that is more than names of columns, as the name of one.
fn conflict_target(
    tokens: &[TokenWithSpan],
    significant: &[usize],
    words: &[String],
    open: usize,
) -> Option<Replacement> {
    let close = closing(words, open);
    let is_list =
        words[open + 1..close.min(words.len())].iter().enumerate().all(|(number, word)| match number % 2 {
            0 => !matches!(word.as_str(), "(" | ")" | ","),
            _ => word == ",",
        });
    let end = match words.get(close + 1).map(String::as_str) {
        Some("where") => end_of_condition(words, close + 1)?,
        _ if is_list => return None,
        _ => close,
    };
    let written = tokens.get(significant[open]..=*significant.get(end)?)?;
    let text: String = written.iter().map(|token| token.token.to_string()).collect();
    Some((open, end, vec![Token::LParen, name(&format!("{TARGET}{text}")), Token::RParen]))
}

/// The last word before the DO that ends a condition.
fn end_of_condition(words: &[String], first: usize) -> Option<usize> {
    let mut at = first;
    while at < words.len() {
        match words[at].as_str() {
            "do" => return Some(at - 1),
            "(" => at = closing(words, at) + 1,
            _ => at += 1,
        }
    }
    None
}

/// A range of words, and the tokens to put in their place.
type Replacement = (usize, usize, Vec<Token>);

/// OVERRIDING as a marker in the list of columns, which may have to be made.
fn overriding(words: &[String], at: usize, marker: &str) -> Vec<Replacement> {
    let open = (0..at).rev().find(|&open| words[open] == "(" && closing(words, open) + 1 == at);
    match open {
        Some(open) => {
            let list = vec![Token::LParen, name(marker), Token::Comma];
            vec![(open, open, list), (at, at + 2, Vec::new())]
        }
        None => vec![(at, at + 2, vec![Token::LParen, name(marker), Token::RParen])],
    }
}

/// The place of the parenthesis that closes the one at a place.
fn closing(words: &[String], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, word) in words.iter().enumerate().skip(open) {
        match word.as_str() {
            "(" => depth += 1,
            ")" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    words.len()
}

/// The word, in small letters, or the parenthesis.
fn word_of(token: &TokenWithSpan) -> String {
    match &token.token {
        Token::Word(word) if word.quote_style.is_none() => word.value.to_ascii_lowercase(),
        Token::LParen => "(".to_owned(),
        Token::RParen => ")".to_owned(),
        _ => String::new(),
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
