//! Functions and operators of documents.
//!
//! A path is an array of texts, or the text of one; those of SQL/JSON are in `paths`.

pub(super) mod access;
pub(super) mod cast;
pub(super) mod change;
pub(super) mod make;
pub(super) mod paths;
pub(super) mod sets;

pub(crate) use access::MEMBER;
pub(crate) use cast::{BYTES_KEY, JSONB_KEY, NUMBER_KEY};
pub(crate) use make::{AGGREGATES, JSON_ITEM, JSON_MEMBER, JSON_WHOLE, ROW};

use super::entry::wrong_argument;
use ankerdb_engine::{DataType, ListType, Result, SystemType, Value, ValueRef};
use ankerdb_value::parse_text;

/// A list of texts, as the type of an argument.
const TEXTS: DataType = DataType::System(SystemType::List(ListType::Text));

/// The items of a list of texts, which is an array or the text of one.
///
/// # Errors
/// 22P02 for the text of no array.
pub(super) fn texts(values: &[Value], position: usize) -> Result<Vec<Option<String>>> {
    let parsed = match values.get(position) {
        Some(Value::Text(text)) => parse_text(TEXTS, text)?,
        Some(other) => other.clone(),
        None => Value::Null,
    };
    let Value::Array(array) = parsed else { return Err(wrong_argument()) };
    let item = |item: ValueRef<'_>| match item {
        ValueRef::Text(text) => Some(text.to_owned()),
        _ => None,
    };
    Ok(array.borrow().items().map(item).collect())
}

/// The steps of a path; `None` if one of them is NULL.
fn steps(values: &[Value], position: usize) -> Result<Option<Vec<String>>> {
    Ok(texts(values, position)?.into_iter().collect())
}
