//! Documents made of values.

use super::super::entry::{Entry, entry, invalid, text, wrong_argument};
use super::{TEXTS, texts};
use crate::expression::document::{LIST_TO_JSON, TO_JSON};
use ankerdb_engine::DataType::{Json, Jsonb, Text};
use ankerdb_engine::{ArrayRef, DataType, Error, Result, SqlState, SystemType, Value};
use ankerdb_value::json::{self, JsonKind};
use ankerdb_value::{DateStyle, format_text, parse_text};

pub(crate) const ENTRIES: &[Entry] = &[
    entry(TO_JSON, &[], Json, |values, _| match values {
        [value] => Ok(Value::text(of_value(value))),
        _ => Err(wrong_argument()),
    })
    .and_any(1, 1),
    entry(LIST_TO_JSON, &[Text, Text], Json, |values, _| of_list(text(values, 0)?, text(values, 1)?)),
    entry(JSON_ITEM, &[], Text, |values, _| Ok(Value::text(item(values, 0)?))).and_documents(1, 1).lenient(),
    entry(JSON_MEMBER, &[], Text, |values, _| Ok(Value::text(member(values)?))).and_documents(2, 2).lenient(),
    entry("operator whole json_agg", &[Text], Json, |values, _| Ok(Value::text(text(values, 0)?))),
    entry("operator whole json_object_agg", &[Text], Json, |values, _| Ok(Value::text(text(values, 0)?))),
    entry("operator whole jsonb_agg", &[Text], Jsonb, |values, _| canonical(text(values, 0)?)),
    entry("operator whole jsonb_object_agg", &[Text], Jsonb, |values, _| canonical(text(values, 0)?)),
    entry("to_json", &[], Json, |values, _| Ok(Value::text(text(values, 0)?))).and_documents(1, 1),
    entry("array_to_json", &[], Json, |values, _| Ok(Value::text(text(values, 0)?))).and_documents(1, 1),
    entry("to_jsonb", &[], Jsonb, |values, _| canonical(text(values, 0)?)).and_documents(1, 1),
    entry("json_build_array", &[], Json, |values, _| Ok(Value::text(array(values)?)))
        .and_documents(0, usize::MAX)
        .lenient(),
    entry("jsonb_build_array", &[], Jsonb, |values, _| canonical(&array(values)?))
        .and_documents(0, usize::MAX)
        .lenient(),
    entry(ROW, &[], Json, |values, _| Ok(Value::text(row(values)?))).and_documents(0, usize::MAX).lenient(),
    entry("json_build_object", &[], Json, |values, _| Ok(Value::text(object(values, "json_build_object")?)))
        .and_documents(0, usize::MAX)
        .lenient(),
    entry("jsonb_build_object", &[], Jsonb, |values, _| canonical(&object(values, "jsonb_build_object")?))
        .and_documents(0, usize::MAX)
        .lenient(),
    entry("json_object", &[TEXTS], Json, |values, _| Ok(Value::text(of_pairs(values)?))),
    entry("jsonb_object", &[TEXTS], Jsonb, |values, _| canonical(&of_pairs(values)?)),
    entry("json_object", &[TEXTS, TEXTS], Json, |values, _| Ok(Value::text(of_lists(values)?))),
    entry("jsonb_object", &[TEXTS, TEXTS], Jsonb, |values, _| canonical(&of_lists(values)?)),
];

/// The aggregates of documents.
pub(crate) const AGGREGATES: [&str; 4] = ["json_agg", "jsonb_agg", "json_object_agg", "jsonb_object_agg"];
/// What makes a document of a row: of the names of its columns, and their values.
pub(crate) const ROW: &str = "operator row of json";
/// What makes an aggregate's document of the text that was put together; its name goes on with the aggregate's.
pub(crate) const JSON_WHOLE: &str = "operator whole";
/// What an aggregate puts into an array for a value.
pub(crate) const JSON_ITEM: &str = "operator item of json";
/// What an aggregate puts into an object for a key and a value.
pub(crate) const JSON_MEMBER: &str = "operator member of json";

fn item(values: &[Value], position: usize) -> Result<&str> {
    if values.get(position).is_some_and(Value::is_null) { Ok("null") } else { text(values, position) }
}

fn member(values: &[Value]) -> Result<String> {
    if values.first().is_some_and(Value::is_null) {
        return Err(invalid("field name must not be null"));
    }
    let mut out = String::new();
    push_key(text(values, 0)?, &mut out)?;
    out.push_str(" : ");
    out.push_str(item(values, 1)?);
    Ok(out)
}

fn canonical(json: &str) -> Result<Value> {
    Ok(Value::text(json::to_jsonb(json)?))
}

/// A value as a document: numbers and truth as they are, dates in the form of ISO 8601, everything else as a string.
fn of_value(value: &Value) -> String {
    let mut written = String::new();
    match value {
        Value::Boolean(value) => return value.to_string(),
        other => DateStyle::iso(|| format_text(other, DataType::Text, &mut written)),
    }
    let is_number = match value {
        Value::Real(value) => value.is_finite(),
        Value::Double(value) => value.is_finite(),
        Value::Number(text) => !text.ends_with(['N', 'y']),
        other => other.is_number(),
    };
    if is_number {
        return written;
    }
    if let (Value::Timestamp(_) | Value::TimestampTz(_), Some(blank)) = (value, written.find(' ')) {
        written.replace_range(blank..=blank, "T");
        let has_hours_only =
            written.len().checked_sub(3).is_some_and(|at| written[at..].starts_with(['+', '-']));
        if matches!(value, Value::TimestampTz(_)) && has_hours_only {
            written.push_str(":00");
        }
    }
    let mut out = String::with_capacity(written.len() + 2);
    json::push_string(&written, &mut out);
    out
}

/// The text of an array of the named type.
fn of_list(list: &str, name: &str) -> Result<Value> {
    let known = SystemType::by_name(name).ok_or_else(wrong_argument)?;
    let Value::Array(array) = parse_text(DataType::System(known), list)? else {
        // A vector of the catalog.
        return Ok(Value::text(format!("[{}]", list.split_ascii_whitespace().collect::<Vec<_>>().join(","))));
    };
    Ok(Value::text(of_array(array.borrow())))
}

/// The items, in an array for each dimension.
fn of_array(array: ArrayRef<'_>) -> String {
    let lengths: Vec<usize> = array.dimensions().map(|dimension| dimension.length as usize).collect();
    let mut level: Vec<String> = array
        .items()
        .map(|item| if item.is_null() { "null".to_owned() } else { of_value(&item.to_value()) })
        .collect();
    for length in lengths.iter().rev() {
        level = level.chunks(*length).map(|items| format!("[{}]", items.join(","))).collect();
    }
    level.pop().unwrap_or_else(|| "[]".to_owned())
}

fn array(items: &[Value]) -> Result<String> {
    let mut out = String::from("[");
    for position in 0..items.len() {
        if position > 0 {
            out.push_str(", ");
        }
        out.push_str(item(items, position)?);
    }
    out.push(']');
    Ok(out)
}

/// Names of columns and their values, as `row_to_json` writes them.
fn row(items: &[Value]) -> Result<String> {
    let mut out = String::from("{");
    for position in (0..items.len()).step_by(2) {
        if position > 0 {
            out.push(',');
        }
        push_key(text(items, position)?, &mut out)?;
        out.push(':');
        out.push_str(item(items, position + 1)?);
    }
    out.push('}');
    Ok(out)
}

fn object(items: &[Value], name: &str) -> Result<String> {
    if items.len() % 2 == 1 {
        let hint = format!("The arguments of {name}() must consist of alternating keys and values.");
        return Err(invalid("argument list must have even number of elements").with_hint(hint));
    }
    let mut out = String::from("{");
    for position in (0..items.len()).step_by(2) {
        if items[position].is_null() {
            let message = match name {
                "json_build_object" => format!("argument {} cannot be null", position + 1),
                _ => format!("argument {}: key must not be null", position + 1),
            };
            return Err(invalid(message));
        }
        if position > 0 {
            out.push_str(", ");
        }
        push_key(text(items, position)?, &mut out)?;
        out.push_str(" : ");
        out.push_str(item(items, position + 1)?);
    }
    out.push('}');
    Ok(out)
}

/// Appends a document as the key of an object: a string as it is, other scalars as strings.
///
/// # Errors
/// 22023 for an array or object.
fn push_key(json: &str, out: &mut String) -> Result<()> {
    match json::kind(json) {
        JsonKind::String => out.push_str(json),
        JsonKind::Array | JsonKind::Object => {
            return Err(invalid("key value must be scalar, not array, composite, or json"));
        }
        _ => json::push_string(json, out),
    }
    Ok(())
}

/// `{key,value,key,value}`
fn of_pairs(values: &[Value]) -> Result<String> {
    let items = texts(values, 0)?;
    if items.len() % 2 == 1 {
        return Err(subscripts("array must have even number of elements"));
    }
    let pairs = items.chunks_exact(2).map(|pair| (&pair[0], &pair[1]));
    of_texts(pairs)
}

fn of_lists(values: &[Value]) -> Result<String> {
    let keys = texts(values, 0)?;
    let values = texts(values, 1)?;
    if keys.len() != values.len() {
        return Err(subscripts("mismatched array dimensions"));
    }
    of_texts(keys.iter().zip(&values))
}

fn subscripts(message: &'static str) -> Error {
    Error::new(SqlState::ArraySubscriptError, message)
}

fn of_texts<'a>(pairs: impl Iterator<Item = (&'a Option<String>, &'a Option<String>)>) -> Result<String> {
    let mut out = String::from("{");
    for (key, value) in pairs {
        let Some(key) = key else {
            return Err(Error::new(SqlState::NullValueNotAllowed, "null value not allowed for object key"));
        };
        if out.len() > 1 {
            out.push_str(", ");
        }
        json::push_string(key, &mut out);
        out.push_str(" : ");
        match value {
            Some(value) => json::push_string(value, &mut out),
            None => out.push_str("null"),
        }
    }
    out.push('}');
    Ok(out)
}
