//! What is in a document: operators and functions that look into one.

use super::super::entry::{Entry, entry, integer, invalid, text, wrong_argument};
use super::{TEXTS, steps, texts};
use crate::expression::notation::SUBSCRIPT;
use ankerdb_engine::DataType::{Boolean, Integer, Json, Jsonb, Text};
use ankerdb_engine::{Interrupt, Result, Value};
use ankerdb_value::json::{self, JsonKind};

/// The function of a document that is a column of a row made of a document.
pub(crate) const MEMBER: &str = "operator column";

pub(crate) const ENTRIES: &[Entry] = &[
    entry("operator ->", &[Json, Text], Json, |values, _| part(field(values)?)),
    entry("operator ->", &[Json, Integer], Json, |values, _| part(element(values)?)),
    entry("operator ->", &[Jsonb, Text], Jsonb, |values, _| part(field(values)?)),
    entry("operator ->", &[Jsonb, Integer], Jsonb, |values, _| part(element_or_self(values)?)),
    entry("operator ->>", &[Json, Text], Text, |values, _| part_text(field(values)?)),
    entry("operator ->>", &[Json, Integer], Text, |values, _| part_text(element(values)?)),
    entry("operator ->>", &[Jsonb, Text], Text, |values, _| part_text(field(values)?)),
    entry("operator ->>", &[Jsonb, Integer], Text, |values, _| part_text(element_or_self(values)?)),
    entry("operator #>", &[Json, TEXTS], Json, |values, _| at_list(values, part)),
    entry("operator #>", &[Jsonb, TEXTS], Jsonb, |values, _| at_list(values, part)),
    entry("operator #>>", &[Json, TEXTS], Text, |values, _| at_list(values, part_text)),
    entry("operator #>>", &[Jsonb, TEXTS], Text, |values, _| at_list(values, part_text)),
    entry("json_extract_path", &[Json], Json, |values, _| at_texts(values, part)).and_any(1, usize::MAX),
    entry("jsonb_extract_path", &[Jsonb], Jsonb, |values, _| at_texts(values, part)).and_any(1, usize::MAX),
    entry("json_extract_path_text", &[Json], Text, |values, _| at_texts(values, part_text))
        .and_any(1, usize::MAX),
    entry("jsonb_extract_path_text", &[Jsonb], Text, |values, _| at_texts(values, part_text))
        .and_any(1, usize::MAX),
    entry(SUBSCRIPT, &[Jsonb], Jsonb, |values, _| at_texts(values, part)).and_any(1, usize::MAX),
    entry("operator @>", &[Jsonb, Jsonb], Boolean, |values, interrupt| contains(values, 0, 1, interrupt)),
    entry("operator <@", &[Jsonb, Jsonb], Boolean, |values, interrupt| contains(values, 1, 0, interrupt)),
    entry("operator ?", &[Jsonb, Text], Boolean, |values, _| {
        Ok(Value::Boolean(json::exists(text(values, 0)?, text(values, 1)?)))
    }),
    entry("operator ?|", &[Jsonb, TEXTS], Boolean, |values, _| exist(values, false)),
    entry("operator ?&", &[Jsonb, TEXTS], Boolean, |values, _| exist(values, true)),
    entry("jsonb_contains", &[Jsonb, Jsonb], Boolean, |values, interrupt| contains(values, 0, 1, interrupt)),
    entry("jsonb_contained", &[Jsonb, Jsonb], Boolean, |values, interrupt| contains(values, 1, 0, interrupt)),
    entry("jsonb_exists", &[Jsonb, Text], Boolean, |values, _| {
        Ok(Value::Boolean(json::exists(text(values, 0)?, text(values, 1)?)))
    }),
    entry("jsonb_exists_any", &[Jsonb, TEXTS], Boolean, |values, _| exist(values, false)),
    entry("jsonb_exists_all", &[Jsonb, TEXTS], Boolean, |values, _| exist(values, true)),
    entry("json_typeof", &[Json], Text, kind_name),
    entry("jsonb_typeof", &[Jsonb], Text, kind_name),
    entry("json_array_length", &[Json], Integer, array_length),
    entry("jsonb_array_length", &[Jsonb], Integer, array_length),
    entry(MEMBER, &[Json, Text], Json, |values, _| member(values)),
    entry(MEMBER, &[Jsonb, Text], Jsonb, |values, _| member(values)),
    entry("json_to_record", &[Json], Json, |values, _| record(values, "json_to_record")),
    entry("jsonb_to_record", &[Jsonb], Jsonb, |values, _| record(values, "jsonb_to_record")),
];

/// The part as a document.
fn part(found: Option<&str>) -> Result<Value> {
    Ok(found.map_or(Value::Null, Value::text))
}

/// The part as a text: a string without quotes, and NULL for null.
fn part_text(found: Option<&str>) -> Result<Value> {
    Ok(match found {
        Some(part) => json::scalar_text(part)?.map_or(Value::Null, Value::text),
        None => Value::Null,
    })
}

fn field(values: &[Value]) -> Result<Option<&str>> {
    json::field(text(values, 0)?, text(values, 1)?)
}

fn element(values: &[Value]) -> Result<Option<&str>> {
    let index = i32::try_from(integer(values, 1)?).map_err(|_| wrong_argument())?;
    Ok(json::element(text(values, 0)?, index))
}

/// PostgreSQL keeps a scalar as an array of one element, which shows here.
fn element_or_self(values: &[Value]) -> Result<Option<&str>> {
    let jsonb = text(values, 0)?;
    match json::kind(jsonb).is_scalar() {
        true => Ok(matches!(integer(values, 1)?, 0 | -1).then_some(jsonb)),
        false => element(values),
    }
}

fn at_list(values: &[Value], give: fn(Option<&str>) -> Result<Value>) -> Result<Value> {
    match steps(values, 1)? {
        Some(steps) => give(json::path(text(values, 0)?, &steps)?),
        None => Ok(Value::Null),
    }
}

fn at_texts(values: &[Value], give: fn(Option<&str>) -> Result<Value>) -> Result<Value> {
    let steps = (1..values.len()).map(|position| Ok(text(values, position)?.to_owned()));
    give(json::path(text(values, 0)?, &steps.collect::<Result<Vec<String>>>()?)?)
}

fn contains(values: &[Value], whole: usize, part: usize, interrupt: &Interrupt) -> Result<Value> {
    let check = || interrupt.check();
    json::contains(text(values, whole)?, text(values, part)?, &check).map(Value::Boolean)
}

/// Whether all of the keys are there, or one of them. A NULL is no key.
fn exist(values: &[Value], all: bool) -> Result<Value> {
    let jsonb = text(values, 0)?;
    let keys = texts(values, 1)?;
    let mut keys = keys.iter().flatten().map(|key| json::exists(jsonb, key));
    Ok(Value::Boolean(if all { keys.all(|is_there| is_there) } else { keys.any(|is_there| is_there) }))
}

fn kind_name(values: &[Value], _: &Interrupt) -> Result<Value> {
    Ok(Value::text(json::kind(text(values, 0)?).name()))
}

/// The member of an object that is a column of a row; null is NULL.
fn member(values: &[Value]) -> Result<Value> {
    part(field(values)?.filter(|found| json::kind(found) != JsonKind::Null))
}

/// The object whose members are the columns of a row.
fn record(values: &[Value], function: &str) -> Result<Value> {
    let document = text(values, 0)?;
    match json::kind(document) {
        JsonKind::Object => Ok(Value::text(document)),
        JsonKind::Array => Err(invalid(format!("cannot call {function} on an array"))),
        _ => Err(invalid(format!("cannot call {function} on a scalar"))),
    }
}

fn array_length(values: &[Value], _: &Interrupt) -> Result<Value> {
    let json = text(values, 0)?;
    match (json::elements(json), json::kind(json)) {
        (Some(elements), _) => Ok(Value::Integer(i32::try_from(elements.count()).unwrap_or(i32::MAX))),
        (None, JsonKind::Object) => Err(invalid("cannot get array length of a non-array")),
        (None, _) => Err(invalid("cannot get array length of a scalar")),
    }
}
