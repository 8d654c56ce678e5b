//! The parts of documents as rows.

use super::super::entry::{invalid, text};
use super::super::sets::{SetValues, given};
use ankerdb_engine::{Error, Interrupt, Result, Value};
use ankerdb_value::json::{self, JsonKind, Member};

/// What PostgreSQL says of a document of the wrong kind.
struct Complaint {
    of_array: &'static str,
    of_object: &'static str,
    of_scalar: &'static str,
}

impl Complaint {
    fn of(&self, document: &str) -> Error {
        invalid(match json::kind(document) {
            JsonKind::Array => self.of_array,
            JsonKind::Object => self.of_object,
            _ => self.of_scalar,
        })
    }
}

/// The elements of an array, each as `give` makes it.
fn items(values: &[Value], complaint: &Complaint, give: fn(&str) -> Result<Value>) -> Result<SetValues> {
    let document = text(values, 0)?;
    let elements = json::elements(document).ok_or_else(|| complaint.of(document))?;
    Ok(given(elements.map(give).collect::<Result<_>>()?))
}

/// The members of an object, each as `give` makes it.
fn members(
    values: &[Value],
    complaint: &Complaint,
    give: fn(&Member<'_>) -> Result<Value>,
) -> Result<SetValues> {
    let document = text(values, 0)?;
    let members = json::members(document).ok_or_else(|| complaint.of(document))?;
    Ok(given(members.map(|member| give(&member)).collect::<Result<_>>()?))
}

fn whole(part: &str) -> Result<Value> {
    Ok(Value::text(part))
}

/// A string without quotes, NULL for null.
fn shown(part: &str) -> Result<Value> {
    Ok(json::scalar_text(part)?.map_or(Value::Null, Value::text))
}

fn key(member: &Member<'_>) -> Result<Value> {
    Ok(Value::text(member.key()?))
}

fn value(member: &Member<'_>) -> Result<Value> {
    whole(member.value)
}

fn value_text(member: &Member<'_>) -> Result<Value> {
    shown(member.value)
}

/// A function that gives parts of a document: which, as what, and what it says of other documents.
macro_rules! parts {
    ($($name:ident: $parts:ident, $give:expr, [$of_array:expr, $of_object:expr, $of_scalar:expr];)*) => {
        $(pub(in super::super) fn $name(values: &[Value], _: &Interrupt) -> Result<SetValues> {
            let complaint =
                Complaint { of_array: $of_array, of_object: $of_object, of_scalar: $of_scalar };
            $parts(values, &complaint, $give)
        })*
    };
}

parts! {
    elements: items, whole,
        ["", "cannot call json_array_elements on a non-array", "cannot call json_array_elements on a scalar"];
    elements_of_jsonb: items, whole,
        ["", "cannot extract elements from an object", "cannot extract elements from a scalar"];
    element_texts: items, shown,
        ["", "cannot call json_array_elements_text on a non-array", "cannot call json_array_elements_text on a scalar"];
    element_texts_of_jsonb: items, shown,
        ["", "cannot extract elements from an object", "cannot extract elements from a scalar"];
    keys: members, key,
        ["cannot call json_object_keys on an array", "", "cannot call json_object_keys on a scalar"];
    keys_of_jsonb: members, key,
        ["cannot call jsonb_object_keys on an array", "", "cannot call jsonb_object_keys on a scalar"];
    each_key: members, key,
        ["cannot deconstruct an array as an object", "", "cannot deconstruct a scalar"];
    each_value: members, value,
        ["cannot deconstruct an array as an object", "", "cannot deconstruct a scalar"];
    each_text_key: members, key,
        ["cannot deconstruct an array as an object", "", "cannot deconstruct a scalar"];
    each_text_value: members, value_text,
        ["cannot deconstruct an array as an object", "", "cannot deconstruct a scalar"];
    each_key_of_jsonb: members, key,
        ["cannot call jsonb_each on a non-object", "", "cannot call jsonb_each on a non-object"];
    each_value_of_jsonb: members, value,
        ["cannot call jsonb_each on a non-object", "", "cannot call jsonb_each on a non-object"];
    each_text_key_of_jsonb: members, key,
        ["cannot call jsonb_each_text on a non-object", "", "cannot call jsonb_each_text on a non-object"];
    each_text_value_of_jsonb: members, value_text,
        ["cannot call jsonb_each_text on a non-object", "", "cannot call jsonb_each_text on a non-object"];
}

/// `json_to_recordset`: the objects of an array.
pub(in super::super) fn records(values: &[Value], _: &Interrupt) -> Result<SetValues> {
    objects(values, "json_to_recordset")
}

/// `jsonb_to_recordset`
pub(in super::super) fn records_of_jsonb(values: &[Value], _: &Interrupt) -> Result<SetValues> {
    objects(values, "jsonb_to_recordset")
}

fn objects(values: &[Value], function: &str) -> Result<SetValues> {
    let document = text(values, 0)?;
    let elements = json::elements(document).ok_or_else(|| {
        let kind = if json::kind(document) == JsonKind::Object { "an object" } else { "a scalar" };
        invalid(format!("cannot call {function} on {kind}"))
    })?;
    let object = |element: &str| match json::kind(element) {
        JsonKind::Object => whole(element),
        _ => Err(invalid(format!("argument of {function} must be an array of objects"))),
    };
    Ok(given(elements.map(object).collect::<Result<_>>()?))
}
