//! Strings of JSON: escapes read and written.

use ankerdb_base::{Error, Result, SqlState};
use std::borrow::Cow;
use std::fmt::Write;

/// What an escape stands for.
#[derive(Clone, Copy)]
pub(super) enum Escape {
    Char(char),
    /// The first half of a character.
    High(u32),
    /// The second half.
    Low(u32),
}

/// The escape at the beginning of the text, and its length in bytes; `None` if it is none.
pub(super) fn escape(text: &str) -> Option<(Escape, usize)> {
    let bytes = text.as_bytes();
    let simple = |c| Some((Escape::Char(c), 2));
    match bytes.get(1)? {
        b'"' => simple('"'),
        b'\\' => simple('\\'),
        b'/' => simple('/'),
        b'b' => simple('\u{8}'),
        b'f' => simple('\u{c}'),
        b'n' => simple('\n'),
        b'r' => simple('\r'),
        b't' => simple('\t'),
        b'u' => {
            let digits = bytes.get(2..6).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
            let unit = u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
            let escape = match unit {
                0xD800..=0xDBFF => Escape::High(unit),
                0xDC00..=0xDFFF => Escape::Low(unit),
                _ => Escape::Char(char::from_u32(unit)?),
            };
            Some((escape, 6))
        }
        _ => None,
    }
}

/// The text that a string stands for, which is given with its quotes and is a string of a checked `json`. Costs no copy where it
/// has no escapes.
///
/// # Errors
/// 22P05 for a zero character, 22P02 for half a character: a `json` may have both, a text cannot.
pub fn unescaped(quoted: &str) -> Result<Cow<'_, str>> {
    let inner = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
    if !inner.contains('\\') {
        return Ok(Cow::Borrowed(inner));
    }
    let mut out = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let (c, length) = character(rest)?;
        out.push(c);
        rest = &rest[length..];
    }
    out.push_str(rest);
    Ok(Cow::Owned(out))
}

/// The character that the escapes at the beginning stand for, and their length.
fn character(text: &str) -> Result<(char, usize)> {
    let half = |detail: &str| {
        Error::new(SqlState::InvalidTextRepresentation, "invalid input syntax for type json")
            .with_detail(detail)
    };
    match escape(text) {
        Some((Escape::Char('\0'), _)) => Err(zero()),
        Some((Escape::Char(c), length)) => Ok((c, length)),
        Some((Escape::High(high), length)) => match escape(&text[length..]) {
            Some((Escape::Low(low), second)) if text.as_bytes()[length] == b'\\' => {
                let code = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
                let c =
                    char::from_u32(code).ok_or_else(|| Error::internal("surrogates give no character"))?;
                Ok((c, length + second))
            }
            Some((Escape::High(_), _)) => {
                Err(half("Unicode high surrogate must not follow a high surrogate."))
            }
            _ => Err(half("Unicode low surrogate must follow a high surrogate.")),
        },
        Some((Escape::Low(_), _)) => Err(half("Unicode low surrogate must follow a high surrogate.")),
        None => Err(Error::internal("a checked json has a wrong escape")),
    }
}

/// 22P05
pub(super) fn zero() -> Error {
    Error::new(SqlState::UntranslatableCharacter, "unsupported Unicode escape sequence")
        .with_detail("\\u0000 cannot be converted to text.")
}

/// Appends the text as a string of JSON, with quotes and as few escapes as it needs.
pub fn push_string(text: &str, out: &mut String) {
    out.push('"');
    let mut plain = 0;
    for (at, byte) in text.bytes().enumerate() {
        if byte >= b' ' && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.push_str(&text[plain..at]);
        plain = at + 1;
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            0x08 => out.push_str("\\b"),
            0x0c => out.push_str("\\f"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            _ => write!(out, "\\u{byte:04x}").expect("a string accepts everything"),
        }
    }
    out.push_str(&text[plain..]);
    out.push('"');
}
