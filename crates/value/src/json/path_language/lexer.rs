//! The words of a path, as PostgreSQL's scanner tells them apart (`jsonpath_scan.l`).
//!
//! Errors quote what the scanner looked at last, which is not always the word that is wrong: a name ends at the character
//! behind it, so that errors about names quote that blank, or say that they are at the end of the input.

use super::super::string::zero;
use ankerdb_base::{Error, Result, SqlState};

/// Words that mean something; the last three only in lower case.
const KEYWORDS: [&str; 22] = [
    "is",
    "to",
    "abs",
    "lax",
    "flag",
    "last",
    "size",
    "type",
    "with",
    "floor",
    "double",
    "exists",
    "starts",
    "strict",
    "ceiling",
    "unknown",
    "datetime",
    "keyvalue",
    "like_regex",
    "null",
    "true",
    "false",
];
const LOWER_CASE_ONLY: [&str; 3] = ["null", "true", "false"];

/// Operators of several characters.
const OPERATORS: [&str; 9] = ["&&", "||", "**", "<=", "==", "<>", "!=", ">=", "/*"];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TokenKind<'a> {
    End,
    Keyword(&'static str),
    Name,
    Text,
    Number,
    Integer,
    Variable,
    Symbol(&'a str),
}

/// A word of the path.
#[derive(Clone, Debug)]
pub(super) struct Token<'a> {
    pub kind: TokenKind<'a>,
    /// What it stands for: a name or text without escapes, a number as it is written.
    pub text: String,
    /// What errors about it quote.
    pub near: &'a str,
}

/// Reads the words of a path one by one.
pub(super) struct Lexer<'a> {
    source: &'a str,
    at: usize,
}

/// An error at what the scanner looked at last.
pub(super) fn error_near(message: &str, near: &str) -> Error {
    let place = match near {
        "" => "at end of jsonpath input".to_owned(),
        near => format!("at or near \"{near}\" of jsonpath input"),
    };
    Error::new(SqlState::SyntaxError, format!("{message} {place}"))
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'\x0c')
}

fn is_special(byte: u8) -> bool {
    b"?%$.[]{}()|&!=<>@#,*:-+/".contains(&byte)
}

/// Whether it is a part of a name without escapes.
fn is_other(byte: u8) -> bool {
    !is_special(byte) && !is_blank(byte) && !matches!(byte, b'\\' | b'"')
}

fn count(bytes: &[u8], is_counted: impl Fn(u8) -> bool) -> usize {
    bytes.iter().take_while(|byte| is_counted(**byte)).count()
}

fn digits(bytes: &[u8]) -> usize {
    count(bytes, |byte| byte.is_ascii_digit())
}

impl<'a> Lexer<'a> {
    pub(super) fn new(source: &'a str) -> Lexer<'a> {
        Lexer { source, at: 0 }
    }

    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    /// Takes so many bytes, and those that are left of the last character.
    fn take(&mut self, bytes: usize) -> &'a str {
        let mut end = self.at + bytes;
        while !self.source.is_char_boundary(end) {
            end += 1;
        }
        let taken = &self.source[self.at..end];
        self.at = end;
        taken
    }

    /// The next word.
    ///
    /// # Errors
    /// 42601 for what is no word, 22P02 and 22P05 for escapes that are no character.
    pub(super) fn next(&mut self) -> Result<Token<'a>> {
        loop {
            let bytes = self.rest().as_bytes();
            let Some(first) = bytes.first() else {
                return Ok(Token { kind: TokenKind::End, text: String::new(), near: "" });
            };
            match first {
                byte if is_blank(*byte) => self.at += count(bytes, is_blank),
                b'"' => return self.text(1, TokenKind::Text),
                b'$' if bytes.get(1) == Some(&b'"') => return self.text(2, TokenKind::Variable),
                b'$' if bytes.get(1).is_some_and(|byte| is_other(*byte)) => {
                    let near = self.take(1 + count(&bytes[1..], is_other));
                    return Ok(Token { kind: TokenKind::Variable, text: near[1..].to_owned(), near });
                }
                byte if is_special(*byte) => {
                    if let Some(token) = self.symbol_or_number()? {
                        return Ok(token);
                    }
                }
                _ => match self.number()? {
                    Some(token) => return Ok(token),
                    None => {
                        if let Some(token) = self.name()? {
                            return Ok(token);
                        }
                    }
                },
            }
        }
    }

    /// An operator, or a number that begins with a point; `None` for a comment, which is skipped.
    fn symbol_or_number(&mut self) -> Result<Option<Token<'a>>> {
        if let Some(number) = self.number()? {
            return Ok(Some(number));
        }
        let operator = OPERATORS.into_iter().find(|operator| self.rest().starts_with(operator));
        if operator == Some("/*") {
            return self.comment().map(|()| None);
        }
        let near = self.take(operator.map_or(1, str::len));
        Ok(Some(Token { kind: TokenKind::Symbol(near), text: String::new(), near }))
    }

    fn comment(&mut self) -> Result<()> {
        match self.rest()[2..].find("*/") {
            Some(length) => {
                self.at += length + 4;
                Ok(())
            }
            None => Err(error_near("unexpected end of comment", "")),
        }
    }

    /// A number, unless a longer name begins here.
    fn number(&mut self) -> Result<Option<Token<'a>>> {
        let bytes = self.rest().as_bytes();
        let whole = match bytes.first() {
            Some(b'0') => 1,
            _ => digits(bytes),
        };
        let fraction = match bytes.get(whole) {
            Some(b'.') => digits(&bytes[whole + 1..]),
            _ => 0,
        };
        let is_decimal = bytes.get(whole) == Some(&b'.') && whole + fraction > 0;
        if whole == 0 && !is_decimal {
            return Ok(None);
        }
        let mantissa = if is_decimal { whole + 1 + fraction } else { whole };
        let mut length = mantissa;
        if let Some(b'e' | b'E') = bytes.get(mantissa) {
            let sign = usize::from(matches!(bytes.get(mantissa + 1), Some(b'+' | b'-')));
            let exponent = digits(&bytes[mantissa + 1 + sign..]);
            if exponent > 0 {
                length = mantissa + 1 + sign + exponent;
            } else if sign > 0 {
                return Err(error_near("invalid numeric literal", self.take(mantissa + 2)));
            }
        }
        let is_junk = bytes.get(length).is_some_and(|byte| is_other(*byte));
        if count(bytes, is_other) > length + usize::from(is_junk) {
            return Ok(None);
        }
        let near = self.take(length + usize::from(is_junk));
        if is_junk {
            return Err(error_near("trailing junk after numeric literal", near));
        }
        let kind = if length == whole { TokenKind::Integer } else { TokenKind::Number };
        Ok(Some(Token { kind, text: near.to_owned(), near }))
    }

    /// A name with or without escapes; `None` if it ends in a comment, which PostgreSQL's scanner forgets names before.
    fn name(&mut self) -> Result<Option<Token<'a>>> {
        let mut text = String::new();
        loop {
            let bytes = self.rest().as_bytes();
            match bytes.first() {
                Some(b'\\') => self.escapes(&mut text)?,
                Some(byte) if is_other(*byte) => text.push_str(self.take(count(bytes, is_other))),
                Some(_) if bytes.starts_with(b"/*") => {
                    self.comment()?;
                    return Ok(None);
                }
                _ => break,
            }
        }
        let near = self.take(count(self.rest().as_bytes(), is_blank));
        let keyword = KEYWORDS.into_iter().find(|keyword| match LOWER_CASE_ONLY.contains(keyword) {
            true => *keyword == text,
            false => keyword.eq_ignore_ascii_case(&text),
        });
        Ok(Some(Token { kind: keyword.map_or(TokenKind::Name, TokenKind::Keyword), text, near }))
    }

    /// What is between quotes.
    fn text(&mut self, prefix: usize, kind: TokenKind<'a>) -> Result<Token<'a>> {
        self.at += prefix;
        let mut text = String::new();
        loop {
            match self.rest().as_bytes().first() {
                None => return Err(error_near("unexpected end of quoted string", "")),
                Some(b'"') => return Ok(Token { kind, text, near: self.take(1) }),
                Some(b'\\') => self.escapes(&mut text)?,
                Some(_) => {
                    text.push_str(self.take(count(self.rest().as_bytes(), |b| !matches!(b, b'"' | b'\\'))))
                }
            }
        }
    }

    /// Reads the escape that begins here, and those behind it if they are codes of characters: two of them may be one
    /// character.
    fn escapes(&mut self, out: &mut String) -> Result<()> {
        let bytes = self.rest().as_bytes();
        let simple = match bytes.get(1) {
            None | Some(b'\n') => return Err(error_near("unexpected end after backslash", self.take(1))),
            Some(b'u') => return self.codes(out),
            Some(b'x') => {
                let digits = count(&bytes[2..bytes.len().min(4)], |byte| byte.is_ascii_hexdigit());
                if digits < 2 {
                    return Err(error_near("invalid hex character sequence", self.take(2 + digits)));
                }
                let code = u32::from_str_radix(&self.take(4)[2..], 16).unwrap_or_default();
                return push_code(code, &mut None, out);
            }
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'v') => '\u{b}',
            Some(_) => {
                out.push_str(&self.take(2)[1..]);
                return Ok(());
            }
        };
        self.at += 2;
        out.push(simple);
        Ok(())
    }

    fn codes(&mut self, out: &mut String) -> Result<()> {
        let start = self.at;
        let mut codes = Vec::new();
        while self.rest().starts_with("\\u") {
            let bytes = &self.rest().as_bytes()[2..];
            let is_braced = bytes.first() == Some(&b'{');
            let (skip, most) = if is_braced { (1, 6) } else { (0, 4) };
            let digits = count(&bytes[skip..bytes.len().min(skip + most)], |byte| byte.is_ascii_hexdigit());
            let is_whole =
                if is_braced { digits > 0 && bytes.get(1 + digits) == Some(&b'}') } else { digits == 4 };
            let text = self.take(2 + skip + digits);
            if !is_whole {
                let near = &self.source[start..self.at];
                return Err(error_near("invalid unicode sequence", near));
            }
            self.at += skip;
            codes.push(u32::from_str_radix(&text[2 + skip..], 16).unwrap_or_default());
        }
        let mut high = None;
        for code in codes {
            push_code(code, &mut high, out)?;
        }
        high.map_or(Ok(()), |_| Err(half("Unicode low surrogate must follow a high surrogate.")))
    }
}

fn half(detail: &str) -> Error {
    Error::new(SqlState::InvalidTextRepresentation, "invalid input syntax for type jsonpath")
        .with_detail(detail)
}

/// Appends a character, or keeps the first half of one.
fn push_code(code: u32, high: &mut Option<u32>, out: &mut String) -> Result<()> {
    const LOW_MISSING: &str = "Unicode low surrogate must follow a high surrogate.";
    let code = match (code, high.take()) {
        (0xD800..=0xDBFF, None) => {
            *high = Some(code);
            return Ok(());
        }
        (0xD800..=0xDBFF, Some(_)) => {
            return Err(half("Unicode high surrogate must not follow a high surrogate."));
        }
        (0xDC00..=0xDFFF, Some(high)) => 0x10000 + ((high - 0xD800) << 10) + (code - 0xDC00),
        (0xDC00..=0xDFFF, None) | (_, Some(_)) => return Err(half(LOW_MISSING)),
        (0, None) => return Err(zero()),
        (code, None) => code,
    };
    let invalid = || Error::new(SqlState::SyntaxError, "invalid Unicode code point");
    out.push(char::from_u32(code).ok_or_else(invalid)?);
    Ok(())
}
