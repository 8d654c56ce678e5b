//! Parts of a document that was checked before: each is a slice of its text.

use super::string::unescaped;
use ankerdb_base::Result;
use std::borrow::Cow;
use std::ops::Range;

/// What a document, or a part of one, is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JsonKind {
    /// `null`
    Null,
    /// `true` or `false`
    Boolean,
    /// A number.
    Number,
    /// A string.
    String,
    /// `[...]`
    Array,
    /// `{...}`
    Object,
}

impl JsonKind {
    /// The name that `jsonb_typeof` gives.
    pub fn name(self) -> &'static str {
        match self {
            JsonKind::Null => "null",
            JsonKind::Boolean => "boolean",
            JsonKind::Number => "number",
            JsonKind::String => "string",
            JsonKind::Array => "array",
            JsonKind::Object => "object",
        }
    }

    /// Whether it has no parts.
    pub fn is_scalar(self) -> bool {
        !matches!(self, JsonKind::Array | JsonKind::Object)
    }
}

/// What the document is.
pub fn kind(json: &str) -> JsonKind {
    match json.as_bytes().get(blanks(json, 0)) {
        Some(b'{') => JsonKind::Object,
        Some(b'[') => JsonKind::Array,
        Some(b'"') => JsonKind::String,
        Some(b't' | b'f') => JsonKind::Boolean,
        Some(b'n') | None => JsonKind::Null,
        Some(_) => JsonKind::Number,
    }
}

/// The document without blanks around it.
pub(super) fn trimmed(json: &str) -> &str {
    json.trim_matches([' ', '\t', '\n', '\r'])
}

/// Where the blanks end that begin here.
fn blanks(json: &str, at: usize) -> usize {
    let bytes = &json.as_bytes()[at.min(json.len())..];
    at + bytes.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count()
}

/// Where the string ends that begins here.
fn string_end(json: &str, start: usize) -> usize {
    let bytes = json.as_bytes();
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Where the value ends that begins here. One pass over it, however deep it is.
fn value_end(json: &str, start: usize) -> usize {
    let bytes = json.as_bytes();
    let (mut at, mut depth) = (start, 0usize);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => at = string_end(json, at),
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' => {
                depth -= 1;
                at += 1;
            }
            _ if depth > 0 => {
                at += 1;
                continue;
            }
            _ => {
                let is_part = |byte: &&u8| !matches!(byte, b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r');
                at += bytes[at..].iter().take_while(is_part).count();
            }
        }
        if depth == 0 {
            return at;
        }
    }
    bytes.len()
}

/// A member of an object.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// The key with its quotes.
    pub quoted: &'a str,
    /// The value's text.
    pub value: &'a str,
}

impl<'a> Member<'a> {
    /// The key as a text.
    ///
    /// # Errors
    /// Those of [`unescaped`].
    pub fn key(&self) -> Result<Cow<'a, str>> {
        unescaped(self.quoted)
    }
}

/// Reads an array or object part by part.
#[derive(Clone, Debug)]
struct Parts<'a> {
    json: &'a str,
    at: usize,
}

impl<'a> Parts<'a> {
    fn of(json: &'a str) -> Parts<'a> {
        Parts { json, at: blanks(json, 0) + 1 }
    }

    /// The position of the next part, past the comma before it.
    fn next_start(&mut self) -> Option<usize> {
        let mut at = blanks(self.json, self.at);
        if self.json.as_bytes().get(at) == Some(&b',') {
            at = blanks(self.json, at + 1);
        }
        let is_end = matches!(self.json.as_bytes().get(at), None | Some(b']' | b'}'));
        (!is_end).then_some(at)
    }
}

/// The elements of an array.
#[derive(Clone, Debug)]
pub struct Elements<'a>(Parts<'a>);

impl<'a> Iterator for Elements<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let start = self.0.next_start()?;
        self.0.at = value_end(self.0.json, start);
        Some(&self.0.json[start..self.0.at])
    }
}

/// The members of an object.
#[derive(Clone, Debug)]
pub struct Members<'a>(Parts<'a>);

impl<'a> Iterator for Members<'a> {
    type Item = Member<'a>;

    fn next(&mut self) -> Option<Member<'a>> {
        let json = self.0.json;
        let start = self.0.next_start()?;
        let end = string_end(json, start);
        let value = blanks(json, blanks(json, end) + 1);
        self.0.at = value_end(json, value);
        Some(Member { quoted: &json[start..end], value: &json[value..self.0.at] })
    }
}

/// The elements of an array; `None` if it is none.
pub fn elements(json: &str) -> Option<Elements<'_>> {
    (kind(json) == JsonKind::Array).then(|| Elements(Parts::of(json)))
}

/// The members of an object; `None` if it is none.
pub fn members(json: &str) -> Option<Members<'_>> {
    (kind(json) == JsonKind::Object).then(|| Members(Parts::of(json)))
}

/// Where the key and the value of the next part are, for an array or object that is read up to a position: behind a part's value,
/// or 0. The key of an element is empty.
pub(super) fn next_part(json: &str, at: usize) -> Option<(Range<usize>, Range<usize>)> {
    let mut parts = if at == 0 { Parts::of(json) } else { Parts { json, at } };
    let start = parts.next_start()?;
    if kind(json) != JsonKind::Object {
        return Some((start..start, start..value_end(json, start)));
    }
    let end = string_end(json, start);
    let value = blanks(json, blanks(json, end) + 1);
    Some((start..end, value..value_end(json, value)))
}

/// The value of an object's key; of the last one, if a `json` has it several times. One pass over the object.
///
/// # Errors
/// Those of [`unescaped`] for the keys.
pub fn field<'a>(json: &'a str, key: &str) -> Result<Option<&'a str>> {
    let mut found = None;
    for member in members(json).into_iter().flatten() {
        if member.key()? == key {
            found = Some(member.value);
        }
    }
    Ok(found)
}

/// The element of an array at a position, counted from 0, or from -1 at its end. One pass over the array, two from the end.
pub fn element(json: &str, index: i32) -> Option<&str> {
    let mut all = elements(json)?;
    match usize::try_from(index) {
        Ok(index) => all.nth(index),
        Err(_) => {
            let from_end = index.unsigned_abs() as usize;
            let count = all.clone().count();
            all.nth(count.checked_sub(from_end)?)
        }
    }
}

/// The part at the end of a path of keys and positions. `None` if there is none.
///
/// # Errors
/// Those of [`field`].
pub fn path<'a>(json: &'a str, steps: &[String]) -> Result<Option<&'a str>> {
    let mut at = trimmed(json);
    for step in steps {
        let found = match kind(at) {
            JsonKind::Object => field(at, step)?,
            JsonKind::Array => position(step).and_then(|index| element(at, index)),
            _ => None,
        };
        match found {
            Some(part) => at = part,
            None => return Ok(None),
        }
    }
    Ok(Some(at))
}

/// A step of a path as the position of an element.
pub(super) fn position(step: &str) -> Option<i32> {
    step.trim_start_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']).parse().ok()
}

/// The document as a text: a string without its quotes, `None` for `null`, everything else as it is written.
///
/// # Errors
/// Those of [`unescaped`].
pub fn scalar_text(json: &str) -> Result<Option<Cow<'_, str>>> {
    Ok(match kind(json) {
        JsonKind::Null => None,
        JsonKind::String => Some(unescaped(trimmed(json))?),
        _ => Some(Cow::Borrowed(trimmed(json))),
    })
}

/// Whether a `jsonb` has the key: as that of a member, as a string among its elements, or as the string that it is.
pub fn exists(jsonb: &str, key: &str) -> bool {
    let mut quoted = String::with_capacity(key.len() + 2);
    super::push_string(key, &mut quoted);
    match kind(jsonb) {
        JsonKind::Object => members(jsonb).into_iter().flatten().any(|member| member.quoted == quoted),
        JsonKind::Array => elements(jsonb).into_iter().flatten().any(|element| element == quoted),
        _ => jsonb == quoted,
    }
}
