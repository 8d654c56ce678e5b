//! Functions of texts, and LIKE.

use super::{Call, Kernel};
use crate::expression::pattern::Pattern;
use crate::expression::{Function, text};
use crate::olap::operation::Operation;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanBuilder, Int32Builder, Int64Array, StringViewArray, StringViewBuilder,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType as ArrowType, Int64Type};
use datafusion::logical_expr::ColumnarValue;
use std::borrow::Cow;
use std::sync::Arc;

/// An argument of texts, for all rows.
pub(super) struct Texts {
    array: StringViewArray,
    is_constant: bool,
}

impl Texts {
    pub(super) fn of(argument: &ColumnarValue) -> Option<Texts> {
        let (array, is_constant) = spread(argument)?;
        let array =
            if is_text(array.data_type()) { cast(&array, &ArrowType::Utf8View).ok()? } else { return None };
        Some(Texts { array: array.as_string_view().clone(), is_constant })
    }

    pub(super) fn at(&self, row: usize) -> Option<&str> {
        let row = if self.is_constant { 0 } else { row };
        self.array.is_valid(row).then(|| self.array.value(row))
    }

    pub(super) fn into_array(self) -> ArrayRef {
        Arc::new(self.array)
    }
}

/// An argument of integers, for all rows.
struct Integers {
    array: Int64Array,
    is_constant: bool,
}

impl Integers {
    fn of(argument: &ColumnarValue) -> Option<Integers> {
        let (array, is_constant) = spread(argument)?;
        let array =
            if is_count(array.data_type()) { cast(&array, &ArrowType::Int64).ok()? } else { return None };
        Some(Integers { array: array.as_primitive::<Int64Type>().clone(), is_constant })
    }

    fn at(&self, row: usize) -> Option<i64> {
        let row = if self.is_constant { 0 } else { row };
        self.array.is_valid(row).then(|| self.array.value(row))
    }
}

/// The argument as an array, and whether it has one row for all.
fn spread(argument: &ColumnarValue) -> Option<(ArrayRef, bool)> {
    match argument {
        ColumnarValue::Array(array) => Some((array.clone(), false)),
        ColumnarValue::Scalar(value) => Some((value.to_array().ok()?, true)),
    }
}

fn is_text(argument: &ArrowType) -> bool {
    matches!(argument, ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View)
}

fn is_count(argument: &ArrowType) -> bool {
    matches!(argument, ArrowType::Int16 | ArrowType::Int32)
}

/// A column of what `text` gives for each row: a text, NULL, or nothing to give up.
pub(super) fn texts<'a>(
    rows: usize,
    text: impl Fn(usize) -> Option<Option<Cow<'a, str>>>,
) -> Option<ArrayRef> {
    let mut texts = StringViewBuilder::with_capacity(rows);
    for row in 0..rows {
        texts.append_option(text(row)?);
    }
    Some(Arc::new(texts.finish()))
}

/// A column of integers, one for each row.
fn integers(rows: usize, integer: impl Fn(usize) -> Option<Option<i32>>) -> Option<ArrayRef> {
    let mut integers = Int32Builder::with_capacity(rows);
    for row in 0..rows {
        integers.append_option(integer(row)?);
    }
    Some(Arc::new(integers.finish()))
}

pub(super) fn function(function: Function, arguments: &[ArrowType]) -> Option<Kernel> {
    use Function::*;
    let (subject, rest) = arguments.split_first()?;
    let texts = rest.iter().all(is_text);
    let counts = rest.iter().all(is_count);
    if !is_text(subject) {
        return None;
    }
    Some(match (function, rest.len()) {
        (Lower | Upper, 0) => letters,
        (Length | OctetLength, 0) => lengths,
        (Position, 1) if texts => positions,
        (Left | Right, 1) if counts => ends,
        (Substring, 1 | 2) if counts => parts,
        (Trim | TrimStart | TrimEnd, 0 | 1) if texts => trimmed,
        (Replace, 2) if texts => replaced,
        (Concat, _) if texts => joined,
        _ => return None,
    })
}

fn called(call: &Call<'_>) -> Option<Function> {
    match call.operation {
        Operation::Call(function) => Some(*function),
        _ => None,
    }
}

fn letters(call: &Call<'_>) -> Option<ArrayRef> {
    let subject = Texts::of(&call.arguments[0])?;
    match called(call)? {
        Function::Lower => texts(call.rows, |row| Some(subject.at(row).map(|text| text::lower(text).into()))),
        _ => texts(call.rows, |row| Some(subject.at(row).map(|text| text::upper(text).into()))),
    }
}

fn lengths(call: &Call<'_>) -> Option<ArrayRef> {
    let subject = Texts::of(&call.arguments[0])?;
    let is_octets = called(call)? == Function::OctetLength;
    integers(call.rows, |row| {
        let Some(text) = subject.at(row) else { return Some(None) };
        let length = if is_octets { text.len() } else { text.chars().count() };
        text::length(length).ok().map(Some)
    })
}

fn positions(call: &Call<'_>) -> Option<ArrayRef> {
    let (subject, parts) = (Texts::of(&call.arguments[0])?, Texts::of(&call.arguments[1])?);
    integers(call.rows, |row| match (subject.at(row), parts.at(row)) {
        (Some(text), Some(part)) => text::position(text, part).ok().map(Some),
        _ => Some(None),
    })
}

fn ends(call: &Call<'_>) -> Option<ArrayRef> {
    let (subject, counts) = (Texts::of(&call.arguments[0])?, Integers::of(&call.arguments[1])?);
    let end = if called(call)? == Function::Left { text::left } else { text::right };
    texts(call.rows, |row| match (subject.at(row), counts.at(row)) {
        (Some(text), Some(count)) => Some(Some(end(text, count).into())),
        _ => Some(None),
    })
}

fn parts(call: &Call<'_>) -> Option<ArrayRef> {
    let (subject, starts) = (Texts::of(&call.arguments[0])?, Integers::of(&call.arguments[1])?);
    let lengths = match call.arguments.get(2) {
        Some(lengths) => Some(Integers::of(lengths)?),
        None => None,
    };
    texts(call.rows, |row| {
        let (Some(text), Some(start)) = (subject.at(row), starts.at(row)) else { return Some(None) };
        let length = match &lengths {
            None => None,
            Some(lengths) => match lengths.at(row) {
                None => return Some(None),
                length => length,
            },
        };
        Some(Some(text::substring(text, start, length).ok()?.into()))
    })
}

fn trimmed(call: &Call<'_>) -> Option<ArrayRef> {
    let subject = Texts::of(&call.arguments[0])?;
    let characters = match call.arguments.get(1) {
        Some(characters) => Texts::of(characters)?,
        None => Texts { array: StringViewArray::from(vec![" "]), is_constant: true },
    };
    let function = called(call)?;
    texts(call.rows, |row| match (subject.at(row), characters.at(row)) {
        (Some(text), Some(characters)) => Some(Some(text::trim(function, text, characters).into())),
        _ => Some(None),
    })
}

fn replaced(call: &Call<'_>) -> Option<ArrayRef> {
    let [subject, parts, by] = call.arguments else { return None };
    let (subject, parts, by) = (Texts::of(subject)?, Texts::of(parts)?, Texts::of(by)?);
    texts(call.rows, |row| match (subject.at(row), parts.at(row), by.at(row)) {
        (Some(text), Some(part), Some(by)) => Some(Some(text::replace(text, part, by).into())),
        _ => Some(None),
    })
}

/// `concat`, which leaves NULLs out.
fn joined(call: &Call<'_>) -> Option<ArrayRef> {
    let parts = call.arguments.iter().map(Texts::of).collect::<Option<Vec<_>>>()?;
    texts(call.rows, |row| {
        let whole: String = parts.iter().filter_map(|part| part.at(row)).collect();
        Some(Some(whole.into()))
    })
}

/// LIKE or SIMILAR TO, with a pattern for all rows, or one for each.
pub(super) fn like(text: &ArrowType, pattern: &ArrowType) -> Option<Kernel> {
    (is_text(text) && is_text(pattern)).then_some(|call| {
        let (subject, patterns) = (Texts::of(&call.arguments[0])?, Texts::of(&call.arguments[1])?);
        let &Operation::Like { escape, syntax, negated } = call.operation else { return None };
        let read = |pattern: &str| Pattern::new(pattern, escape, syntax).ok();
        let constant = match patterns.is_constant {
            true => patterns.at(0).map(read),
            false => None,
        };
        let mut found = BooleanBuilder::with_capacity(call.rows);
        for row in 0..call.rows {
            let (Some(text), Some(pattern)) = (subject.at(row), patterns.at(row)) else {
                found.append_null();
                continue;
            };
            let matches = match &constant {
                Some(pattern) => pattern.as_ref()?.matches(text, call.interrupt),
                None => read(pattern)?.matches(text, call.interrupt),
            };
            found.append_value(matches.ok()? != negated);
        }
        Some(Arc::new(found.finish()))
    })
}
