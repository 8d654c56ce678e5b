//! Reading JSON: one pass without recursion, which may note the parts of the document in the order of its text.
//!
//! Errors are PostgreSQL's, with the token that was met and the part of the line before it.

use super::string::{self, Escape};
use ankerdb_base::{Error, Result, SqlState};

/// Arrays and objects within each other. PostgreSQL's limit is the size of its stack, about as much.
pub const DEPTH_MAX: usize = 15_000;

/// A text that was read, and its parts.
pub(super) struct Document<'a> {
    pub text: &'a str,
    pub nodes: Vec<JsonNode>,
}

/// A part of the document. Those within an array or object follow it; in an object, keys and values by turns.
#[derive(Clone, Copy, Debug)]
pub(super) struct JsonNode {
    pub kind: NodeKind,
    /// Where its text begins and ends; of arrays and objects only the beginning is set.
    pub start: u32,
    pub end: u32,
    /// The position of the next node that is not within this one.
    pub next: u32,
    /// How many elements or members it has.
    pub count: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NodeKind {
    Null,
    False,
    True,
    Number,
    /// A string without escapes, with its quotes.
    String,
    EscapedString,
    Array,
    Object,
}

impl<'a> Document<'a> {
    pub(super) fn source(&self, node: JsonNode) -> &'a str {
        &self.text[node.start as usize..node.end as usize]
    }
}

/// Checks that the text is a `json`: one pass, no allocation but for the depth.
///
/// # Errors
/// 22P02 if it is none, 54001 if it is deeper than [`DEPTH_MAX`].
pub fn check(text: &str) -> Result<()> {
    Parser { text, at: 0, nodes: None, open: Vec::new() }.run().map(|_| ())
}

/// The text's parts, for a `jsonb`: its strings have to be texts, too.
///
/// # Errors
/// Those of [`check`], and 22P05 for `\u0000`.
pub(super) fn parse(text: &str) -> Result<Document<'_>> {
    let nodes = Parser { text, at: 0, nodes: Some(Vec::new()), open: Vec::new() }.run()?;
    Ok(Document { text, nodes: nodes.unwrap_or_default() })
}

/// What may come next.
#[derive(Clone, Copy)]
enum Expected {
    Value,
    FirstElement,
    FirstKey,
    Key,
    Colon,
    Separator,
    End,
}

/// An array or object whose end was not met yet.
struct Open {
    is_object: bool,
    node: usize,
    count: u32,
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    /// Where parts are noted, if they are wanted.
    nodes: Option<Vec<JsonNode>>,
    open: Vec<Open>,
}

impl Parser<'_> {
    fn run(mut self) -> Result<Option<Vec<JsonNode>>> {
        let mut expected = Expected::Value;
        loop {
            self.skip_blanks();
            let Some(&byte) = self.text.as_bytes().get(self.at) else {
                return match expected {
                    Expected::End => Ok(self.nodes),
                    _ => Err(self.malformed("The input string ended unexpectedly.".into(), self.at)),
                };
            };
            expected = match (expected, byte) {
                (Expected::FirstElement, b']') => self.close()?,
                (Expected::FirstKey, b'}') => self.close()?,
                (Expected::Value | Expected::FirstElement, _) => self.value(byte, expected)?,
                (Expected::FirstKey | Expected::Key, b'"') => {
                    self.string()?;
                    Expected::Colon
                }
                (Expected::Colon, b':') => {
                    self.at += 1;
                    Expected::Value
                }
                (Expected::Separator, _) => self.separator(byte)?,
                _ => return Err(self.unexpected(expected)),
            };
        }
    }

    fn skip_blanks(&mut self) {
        let bytes = self.text.as_bytes();
        while matches!(bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self, byte: u8, expected: Expected) -> Result<Expected> {
        if let Some(open) = self.open.last_mut() {
            open.count += 1;
        }
        match byte {
            b'{' => return self.enter(NodeKind::Object),
            b'[' => return self.enter(NodeKind::Array),
            b'"' => self.string()?,
            b'-' | b'0'..=b'9' => self.number()?,
            _ => {
                let word = self.word();
                let kind = match word {
                    "null" => NodeKind::Null,
                    "true" => NodeKind::True,
                    "false" => NodeKind::False,
                    _ => return Err(self.unexpected(expected)),
                };
                let (start, end) = (self.at, self.at + word.len());
                self.leaf(kind, start, end)?;
            }
        }
        Ok(self.after_value())
    }

    fn after_value(&self) -> Expected {
        if self.open.is_empty() { Expected::End } else { Expected::Separator }
    }

    fn enter(&mut self, kind: NodeKind) -> Result<Expected> {
        if self.open.len() == DEPTH_MAX {
            return Err(too_deep(DEPTH_MAX));
        }
        let start = position(self.at)?;
        let node = self.nodes.as_mut().map_or(0, |nodes| {
            nodes.push(JsonNode { kind, start, end: start, next: 0, count: 0 });
            nodes.len() - 1
        });
        self.at += 1;
        let is_object = kind == NodeKind::Object;
        self.open.push(Open { is_object, node, count: 0 });
        Ok(if is_object { Expected::FirstKey } else { Expected::FirstElement })
    }

    fn separator(&mut self, byte: u8) -> Result<Expected> {
        let is_object = self.open.last().is_some_and(|open| open.is_object);
        match (byte, is_object) {
            (b',', _) => {
                self.at += 1;
                Ok(if is_object { Expected::Key } else { Expected::Value })
            }
            (b'}', true) | (b']', false) => self.close(),
            _ => Err(self.unexpected(Expected::Separator)),
        }
    }

    fn close(&mut self) -> Result<Expected> {
        self.at += 1;
        let closed = self.open.pop();
        if let (Some(open), Some(nodes)) = (closed, &mut self.nodes) {
            let next = position(nodes.len())?;
            nodes[open.node].next = next;
            nodes[open.node].count = open.count;
        }
        Ok(self.after_value())
    }

    fn leaf(&mut self, kind: NodeKind, start: usize, end: usize) -> Result<()> {
        self.at = end;
        if let Some(nodes) = &mut self.nodes {
            let next = position(nodes.len() + 1)?;
            nodes.push(JsonNode { kind, start: position(start)?, end: position(end)?, next, count: 0 });
        }
        Ok(())
    }

    fn string(&mut self) -> Result<()> {
        let bytes = self.text.as_bytes();
        let (start, mut at, mut kind) = (self.at, self.at + 1, NodeKind::String);
        let mut high = false;
        loop {
            match bytes.get(at) {
                None => return Err(self.invalid_token(bytes.len())),
                Some(b'"') if !high => break,
                Some(b'\\') => {
                    kind = NodeKind::EscapedString;
                    let escape = string::escape(&self.text[at..]);
                    let Some((escape, length)) = escape else {
                        return Err(self.bad_escape(at));
                    };
                    at += length;
                    high = self.surrogate(escape, high, at)?;
                }
                Some(_) if high => return Err(self.lone_surrogate(at)),
                Some(byte @ ..=0x1f) => {
                    let detail = format!("Character with value 0x{byte:02x} must be escaped.");
                    return Err(self.malformed(detail, at));
                }
                Some(_) => at += 1,
            }
        }
        self.leaf(kind, start, at + 1)
    }

    /// Whether a low surrogate has to follow the escape. Checked for a `jsonb` only.
    fn surrogate(&self, escape: Escape, high: bool, at: usize) -> Result<bool> {
        if self.nodes.is_none() {
            return Ok(false);
        }
        match escape {
            Escape::High(_) if high => {
                Err(self.malformed("Unicode high surrogate must not follow a high surrogate.".into(), at))
            }
            Escape::High(_) => Ok(true),
            Escape::Low(_) if high => Ok(false),
            Escape::Char('\0') if !high => Err(string::zero().with_context(self.context(at))),
            Escape::Char(_) if !high => Ok(false),
            Escape::Low(_) | Escape::Char(_) => Err(self.lone_surrogate(at)),
        }
    }

    fn lone_surrogate(&self, at: usize) -> Error {
        self.malformed("Unicode low surrogate must follow a high surrogate.".into(), at)
    }

    fn bad_escape(&self, at: usize) -> Error {
        let mut rest = self.text[at + 1..].chars();
        let (detail, end) = match rest.next() {
            None => return self.invalid_token(self.text.len()),
            Some('u') => {
                let digits = self.text[at + 2..].bytes().take(4).take_while(u8::is_ascii_hexdigit).count();
                ("\"\\u\" must be followed by four hexadecimal digits.".to_owned(), at + 2 + digits)
            }
            Some(other) => (format!("Escape sequence \"\\{other}\" is invalid."), at + 1 + other.len_utf8()),
        };
        self.malformed(detail, end)
    }

    fn number(&mut self) -> Result<()> {
        let bytes = self.text.as_bytes();
        let digits = |mut at: usize| {
            let start = at;
            while bytes.get(at).is_some_and(u8::is_ascii_digit) {
                at += 1;
            }
            (at > start).then_some(at)
        };
        let scanned = || {
            let at = self.at + usize::from(bytes[self.at] == b'-');
            let mut at = if bytes.get(at) == Some(&b'0') { at + 1 } else { digits(at)? };
            if bytes.get(at) == Some(&b'.') {
                at = digits(at + 1)?;
            }
            if matches!(bytes.get(at), Some(b'e' | b'E')) {
                at += 1 + usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
                at = digits(at)?;
            }
            (!bytes.get(at).is_some_and(|byte| is_word(*byte))).then_some(at)
        };
        match scanned() {
            Some(end) => self.leaf(NodeKind::Number, self.at, end),
            None => {
                let is_part = |byte: &u8| is_word(*byte) || matches!(byte, b'.' | b'-' | b'+');
                let length = bytes[self.at..].iter().take_while(|byte| is_part(byte)).count();
                Err(self.invalid_token(self.at + length))
            }
        }
    }

    /// The letters and digits from here on.
    fn word(&self) -> &str {
        let rest = &self.text[self.at..];
        &rest[..rest.bytes().take_while(|byte| is_word(*byte)).count()]
    }

    /// The error for what stands here instead of what is expected.
    fn unexpected(&mut self, expected: Expected) -> Error {
        let first = self.text.as_bytes()[self.at];
        let end = match first {
            b'{' | b'}' | b'[' | b']' | b':' | b',' => self.at + 1,
            b'"' | b'-' | b'0'..=b'9' => {
                // Read as a token, which may itself be invalid.
                let start = self.at;
                self.nodes = None;
                let read = if first == b'"' { self.string() } else { self.number() };
                if let Err(error) = read {
                    return error;
                }
                std::mem::replace(&mut self.at, start)
            }
            _ => {
                let word = self.word();
                let length = word.len();
                if !matches!(word, "null" | "true" | "false") {
                    let whole = self.text[self.at..].chars().next().map_or(1, char::len_utf8);
                    return self.invalid_token(self.at + length.max(whole));
                }
                self.at + length
            }
        };
        let wanted = match expected {
            Expected::Value => "JSON value",
            Expected::FirstElement => "array element or \"]\"",
            Expected::FirstKey => "string or \"}\"",
            Expected::Key => "string",
            Expected::Colon => "\":\"",
            Expected::End => "end of input",
            Expected::Separator => match self.open.last() {
                Some(Open { is_object: true, .. }) => "\",\" or \"}\"",
                _ => "\",\" or \"]\"",
            },
        };
        let found = &self.text[self.at..end];
        self.malformed(format!("Expected {wanted}, but found \"{found}\"."), end)
    }

    fn invalid_token(&self, end: usize) -> Error {
        let token = &self.text[self.at..end];
        self.malformed(format!("Token \"{token}\" is invalid."), end)
    }

    fn malformed(&self, detail: String, end: usize) -> Error {
        Error::new(SqlState::InvalidTextRepresentation, "invalid input syntax for type json")
            .with_detail(detail)
            .with_context(self.context(end))
    }

    /// The line up to `end`, or the last 50 bytes of it.
    fn context(&self, end: usize) -> String {
        let end = (0..=end).rev().find(|at| self.text.is_char_boundary(*at)).unwrap_or(0);
        let before = &self.text[..end];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let mut start = line_start;
        while end - start >= 50 {
            start += self.text[start..].chars().next().map_or(1, char::len_utf8);
        }
        if start - line_start <= 3 {
            start = line_start;
        }
        let prefix = if start > line_start { "..." } else { "" };
        let is_cut = !matches!(self.text.as_bytes().get(end), None | Some(b'\n' | b'\r'));
        let suffix = if is_cut { "..." } else { "" };
        format!("JSON data, line {line}: {prefix}{}{suffix}", &self.text[start..end])
    }
}

/// Whether the byte belongs to a word, as PostgreSQL reads words for its messages.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

fn position(at: usize) -> Result<u32> {
    u32::try_from(at).map_err(|_| Error::new(SqlState::ProgramLimitExceeded, "a json document is too long"))
}

/// 54001
pub(super) fn too_deep(limit: usize) -> Error {
    Error::new(SqlState::StatementTooComplex, "stack depth limit exceeded").with_detail(format!(
        "A json document has at most {limit} arrays and objects within each other here."
    ))
}
