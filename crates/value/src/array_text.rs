//! Arrays as they are written: `{1,2,NULL}`, `{{a,"b c"},{d,""}}`, `[0:1]={1,2}`.
//!
//! Reading follows PostgreSQL's parser state by state, because clients see which character it complains about.

use crate::array::DIMENSIONS_MAX;
use crate::{
    Array, ArrayBuilder, ArrayRef, DataType, Dimension, ListType, Number, Value, format_text, parse_text,
};
use ankerdb_base::{Error, Result, SqlState};
use std::fmt::Write;

/// Reads an array literal.
///
/// # Errors
/// 22P02 for text that is none, 54000 for too many dimensions or items, 2202E for bounds in the wrong order, and the errors of
/// the items.
pub(crate) fn parse_array(list: ListType, text: &str) -> Result<Array> {
    let mut reader = Reader { whole: text, rest: text };
    let written = reader.dimensions()?;
    if written.is_empty() && !reader.rest.starts_with('{') {
        return Err(reader.refused("Array value must start with \"{\" or dimension information."));
    }
    let mut items = ArrayBuilder::new(list);
    let lengths = Braces::new(&mut reader, &mut items).read()?;
    if written.is_empty() {
        let dimensions: Vec<Dimension> =
            lengths.iter().map(|&length| Dimension { length, lower: 1 }).collect();
        return items.finish_in(&dimensions);
    }
    if !written.iter().map(|dimension| dimension.length).eq(lengths) {
        return Err(reader.refused("Specified array dimensions do not match array contents."));
    }
    items.finish_in(&written)
}

/// PostgreSQL's idea of blanks between items.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

struct Reader<'a> {
    whole: &'a str,
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn refused(&self, detail: &str) -> Error {
        let message = format!("malformed array literal: \"{}\"", self.whole);
        Error::new(SqlState::InvalidTextRepresentation, message).with_detail(detail)
    }

    fn skip_blanks(&mut self) {
        let blanks = self.rest.bytes().take_while(|byte| is_blank(*byte)).count();
        self.rest = &self.rest[blanks..];
    }

    fn number(&mut self) -> Option<i32> {
        let is_part = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'-' | b'+');
        let length = self.rest.bytes().take_while(|byte| is_part(byte)).count();
        let (number, rest) = self.rest.split_at(length);
        self.rest = rest;
        (length > 0).then(|| number.parse().unwrap_or(0))
    }

    fn skip(&mut self, expected: char) -> Result<()> {
        self.rest = self
            .rest
            .strip_prefix(expected)
            .ok_or_else(|| self.refused(&format!("Missing \"{expected}\" after array dimensions.")))?;
        Ok(())
    }

    /// `[1:2][3]=`, with what stands before the first brace.
    fn dimensions(&mut self) -> Result<Vec<Dimension>> {
        let mut dimensions = Vec::new();
        loop {
            self.skip_blanks();
            let Some(rest) = self.rest.strip_prefix('[') else { break };
            self.rest = rest;
            if dimensions.len() == DIMENSIONS_MAX {
                return Err(too_deep(dimensions.len() + 1));
            }
            let missing = "\"[\" must introduce explicitly-specified array dimensions.";
            let first = self.number().ok_or_else(|| self.refused(missing))?;
            let (lower, upper) = match self.rest.strip_prefix(':') {
                None => (1, first),
                Some(rest) => {
                    self.rest = rest;
                    (first, self.number().ok_or_else(|| self.refused("Missing array dimension value."))?)
                }
            };
            self.skip(']')?;
            if upper < lower {
                let message = "upper bound cannot be less than lower bound";
                return Err(Error::new(SqlState::ArraySubscriptError, message));
            }
            let length = (i64::from(upper) - i64::from(lower) + 1) as u32;
            dimensions.push(Dimension { length, lower });
        }
        if !dimensions.is_empty() {
            self.skip('=')?;
            self.skip_blanks();
            if !self.rest.starts_with('{') {
                return Err(self.refused("Array contents must start with \"{\"."));
            }
        }
        Ok(dimensions)
    }
}

fn too_deep(dimensions: usize) -> Error {
    let message =
        format!("number of array dimensions ({dimensions}) exceeds the maximum allowed ({DIMENSIONS_MAX})");
    Error::new(SqlState::ProgramLimitExceeded, message)
}

/// What was read last.
#[derive(Clone, Copy, PartialEq)]
enum State {
    NoLevel,
    LevelStarted,
    ItemStarted,
    QuotedStarted,
    QuotedCompleted,
    ItemDelimited,
    LevelCompleted,
    LevelDelimited,
}

/// The part in braces.
struct Braces<'r, 'a> {
    reader: &'r mut Reader<'a>,
    items: &'r mut ArrayBuilder,
    state: State,
    /// Open braces.
    level: usize,
    /// The most open braces so far.
    depth: usize,
    /// Items of each level, and of the one that was closed last.
    counts: [u32; DIMENSIONS_MAX],
    counts_before: [u32; DIMENSIONS_MAX],
    /// The item that is being read, and how much of it is kept whatever follows.
    item: String,
    kept: usize,
    is_quoted: bool,
    has_items: bool,
}

impl<'r, 'a> Braces<'r, 'a> {
    fn new(reader: &'r mut Reader<'a>, items: &'r mut ArrayBuilder) -> Braces<'r, 'a> {
        Braces {
            reader,
            items,
            state: State::NoLevel,
            level: 0,
            depth: 0,
            counts: [0; DIMENSIONS_MAX],
            counts_before: [0; DIMENSIONS_MAX],
            item: String::new(),
            kept: 0,
            is_quoted: false,
            has_items: false,
        }
    }

    /// Reads all of it. The length of each dimension; none without items.
    fn read(mut self) -> Result<Vec<u32>> {
        let mut characters = self.reader.rest.chars();
        loop {
            let Some(character) = characters.next() else {
                return Err(self.reader.refused("Unexpected end of input."));
            };
            match character {
                '\\' => {
                    self.begin_part(character)?;
                    let Some(escaped) = characters.next() else {
                        return Err(self.reader.refused("Unexpected end of input."));
                    };
                    self.push_kept(escaped);
                }
                '"' => self.quote()?,
                other if self.state == State::QuotedStarted => self.push_kept(other),
                '{' => self.open()?,
                '}' => {
                    self.close()?;
                    if self.level == 0 {
                        break;
                    }
                }
                ',' => self.delimit()?,
                blank if blank.is_ascii() && is_blank(blank as u8) => {
                    if self.state == State::ItemStarted {
                        self.item.push(blank);
                    }
                }
                other => {
                    self.begin_part(other)?;
                    self.item.push(other);
                    self.kept = self.item.len();
                }
            }
        }
        if characters.as_str().bytes().any(|byte| !is_blank(byte)) {
            return Err(self.reader.refused("Junk after closing right brace."));
        }
        // Braces within braces, but nothing in them, are an empty array, too.
        Ok(if self.has_items { self.counts_before[..self.depth].to_vec() } else { Vec::new() })
    }

    fn unexpected(&self, character: char) -> Error {
        self.reader.refused(&format!("Unexpected \"{character}\" character."))
    }

    fn push_kept(&mut self, character: char) {
        self.item.push(character);
        self.kept = self.item.len();
        self.is_quoted = true;
    }

    /// A character of an item.
    fn begin_part(&mut self, character: char) -> Result<()> {
        match self.state {
            State::QuotedStarted => {}
            State::LevelStarted | State::ItemStarted | State::ItemDelimited => {
                self.state = State::ItemStarted
            }
            _ if character == '\\' => return Err(self.unexpected(character)),
            _ => return Err(self.reader.refused("Unexpected array element.")),
        }
        Ok(())
    }

    fn quote(&mut self) -> Result<()> {
        self.state = match self.state {
            State::QuotedStarted => State::QuotedCompleted,
            State::LevelStarted | State::ItemDelimited => State::QuotedStarted,
            _ => return Err(self.reader.refused("Unexpected array element.")),
        };
        self.is_quoted = true;
        Ok(())
    }

    fn open(&mut self) -> Result<()> {
        if !matches!(self.state, State::NoLevel | State::LevelStarted | State::LevelDelimited) {
            return Err(self.unexpected('{'));
        }
        if self.level == DIMENSIONS_MAX {
            return Err(too_deep(self.level + 1));
        }
        self.state = State::LevelStarted;
        self.counts[self.level] = 0;
        self.level += 1;
        self.depth = self.depth.max(self.level);
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        match self.state {
            State::ItemStarted | State::QuotedCompleted => self.finish_item()?,
            State::LevelCompleted => {}
            State::LevelStarted if self.level == 1 => {}
            _ => return Err(self.unexpected('}')),
        }
        let uneven = "Multidimensional arrays must have sub-arrays with matching dimensions.";
        self.state = State::LevelCompleted;
        self.level -= 1;
        let (count, before) = (self.counts[self.level], &mut self.counts_before[self.level]);
        if *before != 0 && *before != count {
            return Err(self.reader.refused(uneven));
        }
        *before = count;
        if self.level > 0 {
            self.counts[self.level - 1] += 1;
        }
        Ok(())
    }

    fn delimit(&mut self) -> Result<()> {
        self.state = match self.state {
            State::ItemStarted | State::QuotedCompleted => {
                self.finish_item()?;
                State::ItemDelimited
            }
            State::LevelCompleted => State::LevelDelimited,
            _ => return Err(self.unexpected(',')),
        };
        Ok(())
    }

    fn finish_item(&mut self) -> Result<()> {
        let uneven = "Multidimensional arrays must have sub-arrays with matching dimensions.";
        if self.level != self.depth {
            return Err(self.reader.refused(uneven));
        }
        self.has_items = true;
        self.counts[self.level - 1] += 1;
        self.item.truncate(self.kept);
        let is_quoted = std::mem::take(&mut self.is_quoted);
        let item = match !is_quoted && self.item.eq_ignore_ascii_case("null") {
            true => Value::Null,
            false => parse_item(self.items.item_type(), &self.item)?,
        };
        self.item.clear();
        self.kept = 0;
        self.items.push((&item).into())
    }
}

/// An item; numerics keep the digits they are written with.
fn parse_item(data_type: DataType, text: &str) -> Result<Value> {
    match data_type {
        DataType::Numeric { .. } => Number::parse(text).map(|number| Value::number(&number)),
        other => parse_text(other, text),
    }
}

/// Appends the array as PostgreSQL writes it.
pub(crate) fn format_array(array: ArrayRef<'_>, out: &mut String) {
    let dimensions: Vec<Dimension> = array.dimensions().collect();
    if dimensions.is_empty() {
        out.push_str("{}");
        return;
    }
    if dimensions.iter().any(|dimension| dimension.lower != 1) {
        for dimension in &dimensions {
            write!(out, "[{}:{}]", dimension.lower, dimension.upper()).expect("a string accepts everything");
        }
        out.push('=');
    }
    let item_type = array.list_type().item_type();
    let mut text = String::new();
    for (number, item) in array.items().enumerate() {
        push_braces(number, &dimensions, out);
        if item.is_null() {
            out.push_str("NULL");
            continue;
        }
        text.clear();
        format_text(item, item_type, &mut text);
        push_item(&text, out);
    }
    out.extend(std::iter::repeat_n('}', dimensions.len()));
}

/// What stands between an item and the one before: braces of the dimensions that end and begin there.
fn push_braces(number: usize, dimensions: &[Dimension], out: &mut String) {
    let mut size = 1;
    let ended = dimensions.iter().rev().take_while(|dimension| {
        size *= dimension.length as usize;
        number.is_multiple_of(size)
    });
    let ended = ended.count();
    if number > 0 {
        out.extend(std::iter::repeat_n('}', ended));
        out.push(',');
    }
    out.extend(std::iter::repeat_n('{', ended));
}

/// Appends the text of an array's item, in quotes where it would be read otherwise.
pub fn push_item(text: &str, out: &mut String) {
    let is_special = |byte: u8| is_blank(byte) || matches!(byte, b'{' | b'}' | b',' | b'"' | b'\\');
    if !text.is_empty() && !text.eq_ignore_ascii_case("null") && !text.bytes().any(is_special) {
        out.push_str(text);
        return;
    }
    out.push('"');
    for character in text.chars() {
        if matches!(character, '"' | '\\') {
            out.push('\\');
        }
        out.push(character);
    }
    out.push('"');
}

#[cfg(test)]
#[path = "array_text_tests.rs"]
mod tests;
