//! The outline of a text: itself, with marks where numbers and strings stand.
//!
//! Two texts of one outline consist of the same tokens but for these constants. So only what is surely one token becomes a mark: digits
//! with nothing of a word, a point or a dollar sign at either side, and plain strings. A text with anything that changes the meaning of
//! what follows (comments, quoting by dollars, strings with a letter before them) is its own outline as a whole.

use crate::expression::types::number;
use ankerdb_engine::{DataType, Value};
use ankerdb_value::{cast, parse_text};
use std::ops::Range;

/// More constants than any statement should have that is worth keeping.
const CONSTANTS_MAX: usize = 128;
/// Characters of a decimal that becomes a mark.
const DIGITS_MAX: usize = 30;
/// Stands before a text that is its own outline. Texts with such characters have no other.
const WHOLE: char = '\u{4}';

/// What a constant is, as far as its token tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ConstantKind {
    /// Digits of an `integer`.
    Integer,
    /// Digits of a `bigint`.
    BigInt,
    /// A `numeric` with so many digits behind its point.
    Decimal(u8),
    /// A string, whose type depends on where it stands.
    Text,
}

impl ConstantKind {
    fn mark(self, text: &mut String) {
        text.push(match self {
            ConstantKind::Integer => '\u{1}',
            ConstantKind::BigInt => '\u{2}',
            ConstantKind::Text => '\u{3}',
            ConstantKind::Decimal(_) => '\u{5}',
        });
        if let ConstantKind::Decimal(scale) = self {
            text.push(char::from(b'!' + scale));
        }
    }
}

/// A constant in a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Constant {
    pub(super) kind: ConstantKind,
    /// Its bytes, those of quotes among them.
    pub(super) at: Range<usize>,
}

impl Constant {
    /// As it was written.
    pub(super) fn written<'t>(&self, text: &'t str) -> &'t str {
        &text[self.at.clone()]
    }

    /// What a string consists of.
    pub(super) fn content(&self, text: &str) -> String {
        text[self.at.start + 1..self.at.end - 1].replace("''", "'")
    }

    /// The type, where that is a matter of the token alone.
    pub(super) fn data_type(&self, text: &str) -> Option<DataType> {
        match self.kind {
            ConstantKind::Text => None,
            _ => number(self.written(text)).ok().map(|(_, data_type)| data_type),
        }
    }

    /// As a value of a parameter of this type, by the rules for constants; `None` if it is none.
    pub(super) fn value(&self, text: &str, data_type: DataType) -> Option<Value> {
        match (self.kind, data_type) {
            (ConstantKind::Text, DataType::Char(_)) => {
                cast(Value::text(self.content(text)), DataType::ANY_CHAR).ok()
            }
            (ConstantKind::Text, data_type) if data_type.is_text() => Some(Value::text(self.content(text))),
            (ConstantKind::Text, data_type) => parse_text(data_type, &self.content(text)).ok(),
            _ => {
                let (value, known) = number(self.written(text)).ok()?;
                (known == data_type).then_some(value)
            }
        }
    }
}

/// The outline of a text, with its constants in the order in which they stand there.
#[derive(Default)]
pub(crate) struct Outline {
    text: String,
    constants: Vec<Constant>,
}

impl Outline {
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn constants(&self) -> &[Constant] {
        &self.constants
    }

    /// Becomes the outline of this text.
    pub(super) fn read(&mut self, text: &str) {
        self.text.clear();
        self.constants.clear();
        // Which is an error wherever it stands.
        let has_nul = text.contains('\0');
        if has_nul || self.read_tokens(text).is_none() {
            self.take_whole(text);
        }
    }

    /// Becomes an outline that no other text has.
    pub(super) fn take_whole(&mut self, text: &str) {
        self.text.clear();
        self.constants.clear();
        self.text.push(WHOLE);
        self.text.push_str(text);
    }

    /// `None` if the text has something that makes it its own outline.
    fn read_tokens(&mut self, text: &str) -> Option<()> {
        let bytes = text.as_bytes();
        let (mut at, mut copied) = (0, 0);
        while let Some(&byte) = bytes.get(at) {
            let next = bytes.get(at + 1).copied().unwrap_or(b' ');
            let end = match byte {
                b'\'' => end_of_string(bytes, at)?,
                b'"' => end_of_quoted(bytes, at)?,
                b'0'..=b'9' => end_of_number(bytes, at),
                b'$' if next.is_ascii_digit() => span(bytes, at + 1, is_of_word),
                b'-' if next == b'-' => return None,
                b'/' if next == b'*' => return None,
                b'$' | 0..8 => return None,
                _ if is_of_word(byte) => span(bytes, at, is_of_word),
                _ => at + 1,
            };
            let kind = match byte {
                b'\'' => Some(ConstantKind::Text),
                b'0'..=b'9' => kind_of_number(text, at..end),
                _ => None,
            };
            if let Some(kind) = kind {
                if self.constants.len() == CONSTANTS_MAX {
                    return None;
                }
                self.text.push_str(&text[copied..at]);
                kind.mark(&mut self.text);
                self.constants.push(Constant { kind, at: at..end });
                copied = end;
            }
            at = end;
        }
        self.text.push_str(&text[copied..]);
        Some(())
    }
}

/// The first place behind `from` whose byte is another one.
fn span(bytes: &[u8], from: usize, is_one: impl Fn(u8) -> bool) -> usize {
    bytes[from..].iter().position(|byte| !is_one(*byte)).map_or(bytes.len(), |length| from + length)
}

/// Whether the byte may belong to a word.
fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || !byte.is_ascii()
}

/// The place behind a plain string; `None` for strings of other kinds, and for one without end.
fn end_of_string(bytes: &[u8], at: usize) -> Option<usize> {
    let has_letter =
        at.checked_sub(1).is_some_and(|before| is_of_word(bytes[before]) || bytes[before] == b'&');
    if has_letter { None } else { end_of_quoted(bytes, at) }
}

/// The place behind what is within quotes that stand twice where they are meant.
fn end_of_quoted(bytes: &[u8], at: usize) -> Option<usize> {
    let quote = bytes[at];
    let mut end = at + 1;
    loop {
        end = span(bytes, end, |byte| byte != quote) + 1;
        match bytes.get(end) {
            Some(byte) if *byte == quote => end += 1,
            _ => return (end <= bytes.len()).then_some(end),
        }
    }
}

/// The place behind digits, with a point and more digits if they follow.
fn end_of_number(bytes: &[u8], at: usize) -> usize {
    let is_digit = |byte: u8| byte.is_ascii_digit();
    let end = span(bytes, at, is_digit);
    match bytes.get(end..end + 2) {
        Some([b'.', digit]) if is_digit(*digit) => span(bytes, end + 1, is_digit),
        _ => end,
    }
}

/// `None` if the digits are a part of a longer token, or too many.
fn kind_of_number(text: &str, at: Range<usize>) -> Option<ConstantKind> {
    let bytes = text.as_bytes();
    let is_part = |byte: &u8| is_of_word(*byte) || *byte == b'.';
    let before = at.start.checked_sub(1).and_then(|before| bytes.get(before));
    if before.is_some_and(is_part) || bytes.get(at.end).is_some_and(is_part) {
        return None;
    }
    if let Some((_, behind)) = text[at.clone()].split_once('.') {
        return (at.len() <= DIGITS_MAX).then_some(ConstantKind::Decimal(behind.len() as u8));
    }
    let number = text[at].parse::<i64>().ok()?;
    Some(if i32::try_from(number).is_ok() { ConstantKind::Integer } else { ConstantKind::BigInt })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outline(text: &str) -> (String, Vec<&str>) {
        let mut outline = Outline::default();
        outline.read(text);
        let shown = outline.text.chars().map(|character| match character {
            '\u{1}' => '#',
            '\u{2}' => '%',
            '\u{3}' => '?',
            '\u{4}' => '!',
            '\u{5}' => '.',
            other => other,
        });
        (shown.collect(), outline.constants.iter().map(|constant| constant.written(text)).collect())
    }

    #[test]
    fn numbers_and_strings_become_marks() {
        let text = "UPDATE t1 SET a=a+-5, \"b 7\" = 'it''s 4' WHERE t1.c2 IN (1,2147483648) AND d < $1;";
        let expected = "UPDATE t1 SET a=a+-#, \"b 7\" = ? WHERE t1.c2 IN (#,%) AND d < $1;";
        assert_eq!(outline(text), (expected.into(), vec!["5", "'it''s 4'", "1", "2147483648"]));
        assert_eq!(outline("SELECT ''"), ("SELECT ?".into(), vec!["''"]));
        // A decimal's digits behind the point are a part of its type.
        assert_eq!(outline("SELECT 12.50,3.1"), ("SELECT .#,.\"".into(), vec!["12.50", "3.1"]));
    }

    #[test]
    fn parts_of_longer_tokens_stay() {
        for text in [
            "SELECT 1.5e3",
            "SELECT 1.5.2",
            "SELECT .5",
            "SELECT 5.",
            "SELECT 0x1F",
            "SELECT 1_000",
            "SELECT 5a",
        ] {
            assert_eq!(outline(text), (text.into(), vec![]), "{text}");
        }
        assert_eq!(outline("SELECT 99999999999999999999").1, Vec::<&str>::new());
    }

    #[test]
    fn texts_whose_tokens_are_not_plain_are_their_own_outline() {
        for text in [
            "SELECT 1 -- it's",
            "SELECT 1 /* 2 */",
            "SELECT $$1$$",
            "SELECT $a$1$a$",
            "SELECT e'\\'', 1",
            "SELECT U&'1'",
            "SELECT b'1'",
            "SELECT é'1'",
            "SELECT 'a",
            "SELECT \"a",
            "SELECT '\u{1}' \u{1}",
        ] {
            assert_eq!(outline(text), (format!("!{}", text.replace('\u{1}', "#")), vec![]), "{text}");
        }
    }
}
