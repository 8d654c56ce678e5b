//! Functions and operators of documents.
//!
//! A path is a list of texts, which is a text in the form `{a,b}` here, as lists are on this path.

pub(super) mod access;
pub(super) mod cast;
pub(super) mod change;
pub(super) mod make;

pub(crate) use cast::JSONB_KEY;
pub(crate) use make::{AGGREGATES, JSON_ITEM, JSON_MEMBER, JSON_WHOLE};

use super::entry::text;
use crate::system::list_items;
use ankerdb_engine::{DataType, ListType, Result, SystemType, Value};

/// A list of texts, as the type of an argument.
const TEXTS: DataType = DataType::System(SystemType::List(ListType::Text));

/// The steps of a path; `None` if one of them is NULL.
fn steps(values: &[Value], position: usize) -> Result<Option<Vec<String>>> {
    Ok(list_items(text(values, position)?)?.into_iter().collect())
}
