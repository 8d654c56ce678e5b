//! The words of the SQL that definitions and transactions of a ledger are written in.

use crate::error::{LedgerError, LedgerResult};

/// Words that are no names.
pub(crate) const KEYWORDS: [&str; 22] = [
    "insert", "into", "values", "update", "set", "delete", "from", "where", "and", "or", "not", "in",
    "between", "is", "null", "true", "false", "case", "when", "then", "else", "end",
];

/// One word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Token {
    /// A name or keyword, in lower case.
    Word(String),
    /// Digits, perhaps with a point among them.
    Number(String),
    /// The content of a text in single quotes.
    Text(String),
    /// `$1` and so on, from 1.
    Parameter(usize),
    /// An operator, a parenthesis or a comma.
    Symbol(&'static str),
}

impl Token {
    pub(crate) fn is_word(&self, word: &str) -> bool {
        matches!(self, Token::Word(own) if own == word)
    }

    pub(crate) fn is_symbol(&self, symbol: &str) -> bool {
        matches!(self, Token::Symbol(own) if *own == symbol)
    }
}

/// Operators, the longer ones first.
const SYMBOLS: [&str; 12] = ["<>", "<=", ">=", "(", ")", ",", "+", "-", "*", "=", "<", ">"];

/// What other operators would do, and why they are refused.
fn refusal(symbol: char, rest: &str) -> String {
    match symbol {
        '/' => "\"/\" is refused: 7 / 2 is 3 in PostgreSQL and 3.5000 in MariaDB".to_owned(),
        '%' => "\"%\" is refused: operands of other types than integers give different types".to_owned(),
        '|' => "\"||\" is refused: what NULL and numbers give differs between databases".to_owned(),
        ';' => "\";\" is refused: each statement is one of its own".to_owned(),
        '"' | '`' => "quoted names are refused: names are lower-case words".to_owned(),
        '.' => "names with a schema are refused: shared tables have one name".to_owned(),
        ':' => "casts are refused: what is cast, and how it is rounded, differs between databases".to_owned(),
        _ => format!("\"{}\" is not part of a ledger's SQL", rest.chars().next().unwrap_or(symbol)),
    }
}

/// The words of a text.
///
/// # Errors
/// [`LedgerError::Refused`] with the reason, if something in it is not taken by all databases alike.
pub(crate) fn tokens(sql: &str) -> LedgerResult<Vec<Token>> {
    let mut found = Vec::new();
    let mut rest = sql.trim_start();
    while let Some(first) = rest.chars().next() {
        let length_of = |is_part: fn(char) -> bool| rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let length;
        if rest.starts_with("--") || rest.starts_with("/*") {
            return Err(LedgerError::Refused(
                "comments are refused: MariaDB runs what some of them hold".into(),
            ));
        } else if first.is_ascii_alphabetic() || first == '_' {
            length = length_of(|c| c.is_ascii_alphanumeric() || c == '_');
            found.push(Token::Word(rest[..length].to_ascii_lowercase()));
        } else if first.is_ascii_digit() {
            length = length_of(|c| c.is_ascii_alphanumeric() || c == '.' || c == '_');
            found.push(Token::Number(number(&rest[..length])?));
        } else if first == '$' {
            length = 1 + rest[1..].find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len() - 1);
            let position = rest[1..length].parse().ok().filter(|position| *position > 0);
            let refused = || LedgerError::Refused("after \"$\" a number from 1 is expected".into());
            found.push(Token::Parameter(position.ok_or_else(refused)?));
        } else if first == '\'' {
            let (text, end) = text(rest)?;
            found.push(Token::Text(text));
            length = end;
        } else if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            found.push(Token::Symbol(symbol));
            length = symbol.len();
        } else {
            return Err(LedgerError::Refused(refusal(first, rest)));
        }
        rest = rest[length..].trim_start();
    }
    Ok(found)
}

/// A number that no database takes for a float.
fn number(text: &str) -> LedgerResult<String> {
    let digits = text.split_once('.').map_or((text, "0"), |(whole, fraction)| (whole, fraction));
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if is_digits(digits.0) && is_digits(digits.1) && text.len() <= 40 {
        return Ok(text.to_owned());
    }
    let reason =
        "a number is up to 38 digits, perhaps with a point among them; exponents make floats in MariaDB";
    Err(LedgerError::Refused(format!("\"{text}\" is refused: {reason}")))
}

/// The content of a text that begins with a quote, and the bytes that it takes.
fn text(rest: &str) -> LedgerResult<(String, usize)> {
    let mut content = String::new();
    let mut at = 1;
    loop {
        let end =
            rest[at..].find('\'').ok_or_else(|| LedgerError::Refused("a text without its end".into()))?;
        content.push_str(&rest[at..at + end]);
        at += end + 1;
        if !rest[at..].starts_with('\'') {
            break;
        }
        content.push('\'');
        at += 1;
    }
    if content.contains('\0') {
        return Err(LedgerError::Refused("a text with a zero byte is refused: PostgreSQL has none".into()));
    }
    Ok((content, at))
}
