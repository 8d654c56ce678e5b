//! Ranges of integers, dates and moments: texts, bytes and what is computed with them.
//!
//! PostgreSQL orders them by the lower bound and then by the upper one, empty ones first. These bytes order so:
//! ```text
//! 0                                          empty
//! 1  lower bound  upper bound
//!
//! lower bound    0 | 1 value 0 (inclusive)   | 1 value 1 (exclusive)      the first has no end
//! upper bound    0 value 0 (exclusive) | 0 value 1 (inclusive) | 1        the last has no end
//! ```
//! A value is an integer of 4 or 8 bytes as in keys of indexes. Ranges of values that follow each other are kept in one form,
//! with their lower bound and without their upper one.

use super::{Packed, PackedType};
use crate::datetime::{FIRST_DAY, LAST_DAY, MICROSECONDS_PER_DAY};
use crate::{DataType, Value, format_text, parse_text};
use ankerdb_base::{Error, Result, SqlState};
use std::cmp::Ordering;

/// What a range is of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RangeType {
    /// `int4range`
    Integer,
    /// `int8range`
    BigInt,
    /// `daterange`
    Date,
    /// `tsrange`
    Timestamp,
    /// `tstzrange`
    TimestampTz,
}

impl RangeType {
    /// The type of the bounds.
    pub fn item_type(self) -> DataType {
        match self {
            RangeType::Integer => DataType::Integer,
            RangeType::BigInt => DataType::BigInt,
            RangeType::Date => DataType::Date,
            RangeType::Timestamp => DataType::TIMESTAMP,
            RangeType::TimestampTz => DataType::TIMESTAMPTZ,
        }
    }

    /// Bytes of a bound's value.
    fn bytes(self) -> usize {
        match self {
            RangeType::Integer | RangeType::Date => 4,
            _ => 8,
        }
    }

    /// Whether there is nothing between a value and the next.
    fn is_discrete(self) -> bool {
        !matches!(self, RangeType::Timestamp | RangeType::TimestampTz)
    }

    /// The value that a bound of this type stands for.
    pub fn item(self, number: i64) -> Value {
        match self {
            RangeType::Integer => Value::Integer(number as i32),
            RangeType::BigInt => Value::BigInt(number),
            RangeType::Date => Value::Date(number as i32),
            RangeType::Timestamp => Value::Timestamp(number),
            RangeType::TimestampTz => Value::TimestampTz(number),
        }
    }

    /// The number that a value of the type of the bounds is kept as; `None` for others.
    pub fn number(self, value: &Value) -> Option<i64> {
        match (self, value) {
            (RangeType::Integer, Value::Integer(number)) => Some((*number).into()),
            (RangeType::Date, Value::Date(days)) => Some((*days).into()),
            (RangeType::BigInt, Value::BigInt(number))
            | (RangeType::Timestamp, Value::Timestamp(number))
            | (RangeType::TimestampTz, Value::TimestampTz(number)) => Some(*number),
            _ => None,
        }
    }

    /// What is 0 on the wire.
    fn wire_epoch(self) -> i64 {
        const DAYS: i64 = 10_957;
        match self {
            RangeType::Integer | RangeType::BigInt => 0,
            RangeType::Date => DAYS,
            RangeType::Timestamp | RangeType::TimestampTz => DAYS * MICROSECONDS_PER_DAY,
        }
    }

    /// The next value.
    ///
    /// # Errors
    /// 22003 or 22008 behind the last one.
    fn next(self, number: i64) -> Result<i64> {
        let out_of_range =
            |what| Error::new(SqlState::NumericValueOutOfRange, format!("{what} out of range"));
        match (self, number) {
            (RangeType::Integer, number) if number >= i64::from(i32::MAX) => Err(out_of_range("integer")),
            (RangeType::Date, number) if number >= LAST_DAY => {
                Err(Error::new(SqlState::DatetimeFieldOverflow, "date out of range"))
            }
            (_, number) => number.checked_add(1).ok_or_else(|| out_of_range("bigint")),
        }
    }
}

/// One end of a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RangeBound {
    /// `None` without an end.
    pub value: Option<i64>,
    /// Whether the value belongs to the range.
    pub is_inclusive: bool,
}

/// A range that is not empty, or is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// What it is of.
    pub range_type: RangeType,
    /// Lower and upper; `None` if there is nothing between them.
    pub bounds: Option<(RangeBound, RangeBound)>,
}

/// Which of two lower bounds is lower.
fn compare_lower(left: RangeBound, right: RangeBound) -> Ordering {
    let key = |bound: RangeBound| (bound.value.is_some(), bound.value, !bound.is_inclusive);
    key(left).cmp(&key(right))
}

/// Which of two upper bounds is lower.
fn compare_upper(left: RangeBound, right: RangeBound) -> Ordering {
    let key = |bound: RangeBound| (bound.value.is_none(), bound.value, bound.is_inclusive);
    key(left).cmp(&key(right))
}

/// Whether something lies between a lower bound and an upper one.
fn is_apart(lower: RangeBound, upper: RangeBound) -> bool {
    match (lower.value, upper.value) {
        (Some(low), Some(high)) => low < high || (low == high && lower.is_inclusive && upper.is_inclusive),
        _ => true,
    }
}

impl Range {
    /// The range without values.
    pub fn empty(range_type: RangeType) -> Range {
        Range { range_type, bounds: None }
    }

    /// The range between two bounds.
    ///
    /// # Errors
    /// 22000 if the lower one is above the upper one; 22003 or 22008 if a last value was to be followed by another.
    pub fn new(range_type: RangeType, lower: RangeBound, upper: RangeBound) -> Result<Range> {
        if let (Some(low), Some(high)) = (lower.value, upper.value)
            && low > high
        {
            let message = "range lower bound must be less than or equal to range upper bound";
            return Err(Error::new(SqlState::DataException, message));
        }
        let closed = |bound: RangeBound| RangeBound {
            is_inclusive: bound.is_inclusive && bound.value.is_some(),
            ..bound
        };
        let (mut lower, mut upper) = (closed(lower), closed(upper));
        if !is_apart(lower, upper) {
            return Ok(Range::empty(range_type));
        }
        if range_type.is_discrete() {
            if let (Some(value), false) = (lower.value, lower.is_inclusive) {
                lower = RangeBound { value: Some(range_type.next(value)?), is_inclusive: true };
            }
            if let (Some(value), true) = (upper.value, upper.is_inclusive) {
                upper = RangeBound { value: Some(range_type.next(value)?), is_inclusive: false };
            }
        }
        Ok(Range { range_type, bounds: is_apart(lower, upper).then_some((lower, upper)) })
    }

    /// Whether the value is in it.
    pub fn has(self, value: i64) -> bool {
        let exactly = RangeBound { value: Some(value), is_inclusive: true };
        self.bounds.is_some_and(|(lower, upper)| is_apart(lower, exactly) && is_apart(exactly, upper))
    }

    /// Whether it has all values of the other one.
    pub fn contains(self, other: Range) -> bool {
        match (self.bounds, other.bounds) {
            (_, None) => true,
            (None, _) => false,
            (Some(own), Some(other)) => {
                compare_lower(own.0, other.0).is_le() && compare_upper(own.1, other.1).is_ge()
            }
        }
    }

    /// Whether they have a value in common.
    pub fn overlaps(self, other: Range) -> bool {
        match (self.bounds, other.bounds) {
            (Some(own), Some(other)) => is_apart(own.0, other.1) && is_apart(other.0, own.1),
            _ => false,
        }
    }

    /// Whether all of it lies before all of the other one.
    pub fn is_before(self, other: Range) -> bool {
        match (self.bounds, other.bounds) {
            (Some(own), Some(other)) => !is_apart(other.0, own.1),
            _ => false,
        }
    }

    /// Whether nothing of it lies behind the other one.
    pub fn ends_with(self, other: Range) -> bool {
        let pair = self.bounds.zip(other.bounds);
        pair.is_some_and(|(own, other)| compare_upper(own.1, other.1).is_le())
    }

    /// Whether nothing of it lies before the other one.
    pub fn begins_with(self, other: Range) -> bool {
        let pair = self.bounds.zip(other.bounds);
        pair.is_some_and(|(own, other)| compare_lower(own.0, other.0).is_ge())
    }

    /// Whether they meet without having a value in common.
    pub fn is_adjacent(self, other: Range) -> bool {
        // With all values in one form there is nothing between an end without a value and a beginning with it.
        let meet = |upper: RangeBound, lower: RangeBound| {
            upper.value.is_some() && upper.value == lower.value && upper.is_inclusive != lower.is_inclusive
        };
        let pair = self.bounds.zip(other.bounds);
        pair.is_some_and(|(own, other)| meet(own.1, other.0) || meet(other.1, own.0))
    }

    /// What both have.
    pub fn intersection(self, other: Range) -> Range {
        let Some((own, other)) = self.bounds.zip(other.bounds) else { return Range::empty(self.range_type) };
        let lower = if compare_lower(own.0, other.0).is_ge() { own.0 } else { other.0 };
        let upper = if compare_upper(own.1, other.1).is_le() { own.1 } else { other.1 };
        Range { bounds: is_apart(lower, upper).then_some((lower, upper)), ..self }
    }

    /// The smallest range that has all of both.
    pub fn merged(self, other: Range) -> Range {
        let Some((own, others)) = self.bounds.zip(other.bounds) else {
            return if self.bounds.is_some() { self } else { other };
        };
        let lower = if compare_lower(own.0, others.0).is_le() { own.0 } else { others.0 };
        let upper = if compare_upper(own.1, others.1).is_ge() { own.1 } else { others.1 };
        Range { bounds: Some((lower, upper)), ..self }
    }

    /// All of both.
    ///
    /// # Errors
    /// 22000 if there is a gap between them.
    pub fn union(self, other: Range) -> Result<Range> {
        let is_whole = self.bounds.is_none() || other.bounds.is_none();
        if !is_whole && !self.overlaps(other) && !self.is_adjacent(other) {
            return Err(Error::new(SqlState::DataException, "result of range union would not be contiguous"));
        }
        Ok(self.merged(other))
    }

    /// What the other one does not have.
    ///
    /// # Errors
    /// 22000 if that is before and behind it.
    pub fn difference(self, other: Range) -> Result<Range> {
        let Some((own, others)) = self.bounds.zip(other.bounds) else { return Ok(self) };
        if !self.overlaps(other) {
            return Ok(self);
        }
        let is_left = compare_lower(own.0, others.0).is_lt();
        let is_right = compare_upper(own.1, others.1).is_gt();
        let turned = |bound: RangeBound| RangeBound { is_inclusive: !bound.is_inclusive, ..bound };
        let bounds = match (is_left, is_right) {
            (true, true) => {
                let message = "result of range difference would not be contiguous";
                return Err(Error::new(SqlState::DataException, message));
            }
            (false, false) => return Ok(Range::empty(self.range_type)),
            (true, false) => (own.0, turned(others.0)),
            (false, true) => (turned(others.1), own.1),
        };
        Range::new(self.range_type, bounds.0, bounds.1)
    }

    /// As a value.
    pub fn packed(self) -> Packed {
        let mut bytes = vec![u8::from(self.bounds.is_some())];
        if let Some((lower, upper)) = self.bounds {
            let push = |bytes: &mut Vec<u8>, value: i64| match self.range_type.bytes() {
                4 => crate::push_integer(bytes, value as i32),
                _ => crate::push_bigint(bytes, value),
            };
            bytes.push(u8::from(lower.value.is_some()));
            if let Some(value) = lower.value {
                push(&mut bytes, value);
                bytes.push(u8::from(!lower.is_inclusive));
            }
            bytes.push(u8::from(upper.value.is_none()));
            if let Some(value) = upper.value {
                push(&mut bytes, value);
                bytes.push(u8::from(upper.is_inclusive));
            }
        }
        Packed { packed_type: PackedType::Range(self.range_type), bytes: bytes.into() }
    }

    /// What was packed, and how many bytes it took.
    pub(super) fn unpacked(range_type: RangeType, bytes: &[u8]) -> (Range, usize) {
        let mut at = 0;
        let mut next = || {
            at += 1;
            bytes.get(at - 1).copied().unwrap_or_default()
        };
        if next() == 0 {
            return (Range::empty(range_type), 1);
        }
        let number = |next: &mut dyn FnMut() -> u8| match range_type.bytes() {
            4 => i64::from(i32::from_be_bytes(std::array::from_fn(|_| next())) ^ i32::MIN),
            _ => i64::from_be_bytes(std::array::from_fn(|_| next())) ^ i64::MIN,
        };
        let endless = RangeBound { value: None, is_inclusive: false };
        let lower = match next() {
            0 => endless,
            _ => RangeBound { value: Some(number(&mut next)), is_inclusive: next() == 0 },
        };
        let upper = match next() {
            0 => RangeBound { value: Some(number(&mut next)), is_inclusive: next() != 0 },
            _ => endless,
        };
        (Range { range_type, bounds: Some((lower, upper)) }, at)
    }
}

/// Whether these are the bytes of a range.
pub(super) fn is_stored_form(range_type: RangeType, bytes: &[u8]) -> bool {
    let (range, length) = Range::unpacked(range_type, bytes);
    let is_canonical = match range.bounds {
        None => true,
        Some((lower, upper)) => Range::new(range_type, lower, upper).is_ok_and(|same| same == range),
    };
    length == bytes.len() && is_canonical && range.packed().borrow().bytes() == bytes
}

/// Reads `[1,10)`, `(,5]` or `empty`.
///
/// # Errors
/// 22P02, and those of the bounds.
pub(super) fn parse(range_type: RangeType, text: &str) -> Result<Range> {
    let refused = |detail: &str| {
        let message = format!("malformed range literal: \"{text}\"");
        Error::new(SqlState::InvalidTextRepresentation, message).with_detail(detail)
    };
    let blanks = [' ', '\t', '\n', '\r', '\x0b', '\x0c'];
    let body = text.trim_start_matches(blanks);
    if let Some(word) = body.get(..5)
        && word.eq_ignore_ascii_case("empty")
    {
        return match body[5..].trim_matches(blanks).is_empty() {
            true => Ok(Range::empty(range_type)),
            false => Err(refused("Junk after \"empty\" key word.")),
        };
    }
    let (lower_inclusive, rest) = match body.as_bytes().first() {
        Some(b'[') => (true, &body[1..]),
        Some(b'(') => (false, &body[1..]),
        _ => return Err(refused("Missing left parenthesis or bracket.")),
    };
    let end = || refused("Unexpected end of input.");
    let (low, rest) = bound_text(rest).ok_or_else(end)?;
    let rest = rest.strip_prefix(',').ok_or_else(|| refused("Missing comma after lower bound."))?;
    let (high, rest) = bound_text(rest).ok_or_else(end)?;
    let upper_inclusive = match rest.as_bytes().first() {
        Some(b']') => true,
        Some(b')') => false,
        _ => return Err(refused("Too many commas.")),
    };
    if !rest[1..].trim_matches(blanks).is_empty() {
        return Err(refused("Junk after right parenthesis or bracket."));
    }
    let value = |text: Option<String>| match text {
        None => Ok(None),
        Some(text) => Ok::<_, Error>(range_type.number(&parse_text(range_type.item_type(), &text)?)),
    };
    let lower = RangeBound { value: value(low)?, is_inclusive: lower_inclusive };
    let upper = RangeBound { value: value(high)?, is_inclusive: upper_inclusive };
    Range::new(range_type, lower, upper)
}

/// The text of a bound, without quotes, and what follows it; `None` as the text for no bound, and if the text ends within.
fn bound_text(text: &str) -> Option<(Option<String>, &str)> {
    if text.starts_with([',', ')', ']']) {
        return Some((None, text));
    }
    let (mut bound, mut is_quoted) = (String::new(), false);
    let mut letters = text.char_indices().peekable();
    loop {
        let &(at, letter) = letters.peek()?;
        if !is_quoted && matches!(letter, ',' | ')' | ']') {
            return Some((Some(bound), &text[at..]));
        }
        letters.next();
        match letter {
            '\\' => bound.push(letters.next()?.1),
            '"' if is_quoted && letters.peek().is_some_and(|(_, next)| *next == '"') => {
                letters.next();
                bound.push('"');
            }
            '"' => is_quoted = !is_quoted,
            other => bound.push(other),
        }
    }
}

/// Appends the text.
pub(super) fn push(range: Range, out: &mut String) {
    let Some((lower, upper)) = range.bounds else {
        out.push_str("empty");
        return;
    };
    let push_value = |value: Option<i64>, out: &mut String| {
        let Some(value) = value else { return };
        let mut text = String::new();
        format_text(&range.range_type.item(value), range.range_type.item_type(), &mut text);
        // No text of a bound has quotes in it.
        match text.contains(' ') {
            true => out.extend(["\"", &text, "\""]),
            false => out.push_str(&text),
        }
    };
    out.push(if lower.is_inclusive { '[' } else { '(' });
    push_value(lower.value, out);
    out.push(',');
    push_value(upper.value, out);
    out.push(if upper.is_inclusive { ']' } else { ')' });
}

const WIRE_EMPTY: u8 = 1;
const WIRE_LOWER_INCLUSIVE: u8 = 2;
const WIRE_UPPER_INCLUSIVE: u8 = 4;
const WIRE_LOWER_ENDLESS: u8 = 8;
const WIRE_UPPER_ENDLESS: u8 = 16;

/// The bytes as drivers read them: flags, and each value behind its length.
pub(super) fn to_wire(range: Range) -> Vec<u8> {
    let Some((lower, upper)) = range.bounds else { return vec![WIRE_EMPTY] };
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    let mut bytes = vec![
        flag(lower.is_inclusive, WIRE_LOWER_INCLUSIVE)
            | flag(upper.is_inclusive, WIRE_UPPER_INCLUSIVE)
            | flag(lower.value.is_none(), WIRE_LOWER_ENDLESS)
            | flag(upper.value.is_none(), WIRE_UPPER_ENDLESS),
    ];
    for value in [lower.value, upper.value].into_iter().flatten() {
        let shown = value.wrapping_sub(range.range_type.wire_epoch());
        bytes.extend((range.range_type.bytes() as u32).to_be_bytes());
        match range.range_type.bytes() {
            4 => bytes.extend((shown as i32).to_be_bytes()),
            _ => bytes.extend(shown.to_be_bytes()),
        }
    }
    bytes
}

/// # Errors
/// 08P01 and 22P03 for bytes that are no range, 22008 for values that there are not, and those of [`Range::new`].
pub(super) fn from_wire(range_type: RangeType, bytes: &[u8]) -> Result<Range> {
    let short = || Error::new(SqlState::ProtocolViolation, "insufficient data left in message");
    let malformed = || Error::new(SqlState::InvalidBinaryRepresentation, "incorrect binary data format");
    let (flags, mut rest) = bytes.split_first().ok_or_else(short)?;
    let is_empty = flags & WIRE_EMPTY != 0;
    let mut value = |endless: u8| {
        if is_empty || flags & endless != 0 {
            return Ok(None);
        }
        let (length, after) = rest.split_first_chunk::<4>().ok_or_else(short)?;
        let length = u32::from_be_bytes(*length) as usize;
        let (number, after) = after.split_at_checked(length).ok_or_else(short)?;
        rest = after;
        let number = match (range_type.bytes(), <[u8; 4]>::try_from(number), <[u8; 8]>::try_from(number)) {
            (4, Ok(narrow), _) => i64::from(i32::from_be_bytes(narrow)),
            (8, _, Ok(wide)) => i64::from_be_bytes(wide),
            _ => return Err(malformed()),
        };
        from_epoch(range_type, number).map(Some)
    };
    let (low, high) = (value(WIRE_LOWER_ENDLESS)?, value(WIRE_UPPER_ENDLESS)?);
    if !rest.is_empty() {
        return Err(malformed());
    }
    if is_empty {
        return Ok(Range::empty(range_type));
    }
    let lower = RangeBound { value: low, is_inclusive: flags & WIRE_LOWER_INCLUSIVE != 0 };
    let upper = RangeBound { value: high, is_inclusive: flags & WIRE_UPPER_INCLUSIVE != 0 };
    Range::new(range_type, lower, upper)
}

fn from_epoch(range_type: RangeType, number: i64) -> Result<i64> {
    let kept = number.checked_add(range_type.wire_epoch());
    let is_there = |kept: &i64| match range_type {
        RangeType::Integer | RangeType::BigInt => true,
        RangeType::Date => (FIRST_DAY..=LAST_DAY).contains(kept),
        RangeType::Timestamp | RangeType::TimestampTz => *kept >= FIRST_DAY * MICROSECONDS_PER_DAY,
    };
    let name = if range_type == RangeType::Date { "date" } else { "timestamp" };
    kept.filter(is_there)
        .ok_or_else(|| Error::new(SqlState::DatetimeFieldOverflow, format!("{name} out of range")))
}

#[cfg(test)]
#[path = "range_tests.rs"]
mod tests;
