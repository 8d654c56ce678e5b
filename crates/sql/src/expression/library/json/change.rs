//! Documents made of others.

use super::super::entry::{Entry, entry, integer, invalid, text, wrong_argument};
use super::{TEXTS, steps, texts};
use crate::expression::notation::{ASSIGN_PART, WITHOUT_KEYS};
use ankerdb_engine::DataType::{Boolean, Integer, Json, Jsonb, Text};
use ankerdb_engine::{Error, Interrupt, Result, SqlState, Value};
use ankerdb_value::json::{self, InsertPosition};

pub(crate) const ENTRIES: &[Entry] = &[
    entry("operator ||", &[Jsonb, Jsonb], Jsonb, |values, _| {
        json::concatenated(text(values, 0)?, text(values, 1)?).map(Value::text)
    }),
    entry("operator -", &[Jsonb, Text], Jsonb, without_key),
    entry("operator -", &[Jsonb, Integer], Jsonb, without_element),
    entry(WITHOUT_KEYS, &[Jsonb, TEXTS], Jsonb, without_keys),
    entry("operator #-", &[Jsonb, TEXTS], Jsonb, without_path),
    entry("jsonb_concat", &[Jsonb, Jsonb], Jsonb, |values, _| {
        json::concatenated(text(values, 0)?, text(values, 1)?).map(Value::text)
    }),
    entry("jsonb_delete", &[Jsonb, Text], Jsonb, without_key),
    entry("jsonb_delete", &[Jsonb, Integer], Jsonb, without_element),
    entry("jsonb_delete_path", &[Jsonb, TEXTS], Jsonb, without_path),
    entry("jsonb_set", &[Jsonb, TEXTS, Jsonb], Jsonb, set),
    entry("jsonb_set", &[Jsonb, TEXTS, Jsonb, Boolean], Jsonb, set),
    entry("jsonb_set_lax", &[Jsonb, TEXTS, Jsonb], Jsonb, set_lax).lenient(),
    entry("jsonb_set_lax", &[Jsonb, TEXTS, Jsonb, Boolean], Jsonb, set_lax).lenient(),
    entry("jsonb_set_lax", &[Jsonb, TEXTS, Jsonb, Boolean, Text], Jsonb, set_lax).lenient(),
    entry(ASSIGN_PART, &[Jsonb, Jsonb, Boolean], Jsonb, assign).and_any(1, usize::MAX).lenient(),
    entry("jsonb_insert", &[Jsonb, TEXTS, Jsonb], Jsonb, insert),
    entry("jsonb_insert", &[Jsonb, TEXTS, Jsonb, Boolean], Jsonb, insert),
    entry("json_strip_nulls", &[Json], Json, |values, _| {
        json::without_nulls(text(values, 0)?, false).map(Value::text)
    }),
    entry("jsonb_strip_nulls", &[Jsonb], Jsonb, |values, _| {
        json::without_nulls(text(values, 0)?, true).map(Value::text)
    }),
    entry("jsonb_pretty", &[Jsonb], Text, |values, _| json::pretty(text(values, 0)?).map(Value::text)),
];

fn without_key(values: &[Value], _: &Interrupt) -> Result<Value> {
    json::without_keys(text(values, 0)?, &[text(values, 1)?.to_owned()]).map(Value::text)
}

fn without_element(values: &[Value], _: &Interrupt) -> Result<Value> {
    let index = i32::try_from(integer(values, 1)?).map_err(|_| wrong_argument())?;
    json::without_index(text(values, 0)?, index).map(Value::text)
}

fn without_keys(values: &[Value], _: &Interrupt) -> Result<Value> {
    let keys: Vec<String> = texts(values, 1)?.into_iter().flatten().collect();
    json::without_keys(text(values, 0)?, &keys).map(Value::text)
}

fn without_path(values: &[Value], _: &Interrupt) -> Result<Value> {
    json::without_path(text(values, 0)?, &known_steps(values)?).map(Value::text)
}

/// The steps of the path, none of which may be NULL.
fn known_steps(values: &[Value]) -> Result<Vec<String>> {
    let items = texts(values, 1)?;
    if let Some(position) = items.iter().position(Option::is_none) {
        let message = format!("path element at position {} is null", position + 1);
        return Err(Error::new(SqlState::NullValueNotAllowed, message));
    }
    Ok(steps(values, 1)?.unwrap_or_default())
}

/// The argument, or what is meant where there is none.
fn flag(values: &[Value], position: usize, otherwise: bool) -> Result<bool> {
    match values.get(position) {
        None => Ok(otherwise),
        Some(Value::Boolean(flag)) => Ok(*flag),
        Some(_) => Err(wrong_argument()),
    }
}

fn set(values: &[Value], _: &Interrupt) -> Result<Value> {
    let creates = flag(values, 3, true)?;
    json::set(text(values, 0)?, &known_steps(values)?, text(values, 2)?, creates).map(Value::text)
}

/// `SET document['a'][1] = item`: of the document, the item, whether what is NULL becomes an array, and the steps.
fn assign(values: &[Value], _: &Interrupt) -> Result<Value> {
    let whole = match values[0] {
        Value::Null if flag(values, 2, false)? => "[]",
        Value::Null => "{}",
        _ => text(values, 0)?,
    };
    let item = if values[1].is_null() { "null" } else { text(values, 1)? };
    let step = |position: usize| match values[position] {
        Value::Null => {
            let message = "jsonb subscript in assignment must not be null";
            Err(Error::new(SqlState::NullValueNotAllowed, message))
        }
        _ => Ok(text(values, position)?.to_owned()),
    };
    let steps = (3..values.len()).map(step).collect::<Result<Vec<String>>>()?;
    json::assigned(whole, &steps, item).map(Value::text)
}

fn insert(values: &[Value], _: &Interrupt) -> Result<Value> {
    let place = if flag(values, 3, false)? { InsertPosition::After } else { InsertPosition::Before };
    json::inserted(text(values, 0)?, &known_steps(values)?, text(values, 2)?, place).map(Value::text)
}

/// As `jsonb_set`, but a NULL for the new value means what the last argument says.
fn set_lax(values: &[Value], _: &Interrupt) -> Result<Value> {
    let is_null = |position: usize| values.get(position).is_some_and(Value::is_null);
    if is_null(0) || is_null(1) || is_null(3) {
        return Ok(Value::Null);
    }
    let treatment = match values.get(4) {
        None => "use_json_null",
        Some(Value::Text(treatment)) => treatment,
        Some(_) => {
            return Err(invalid(
                "null_value_treatment must be \"delete_key\", \"return_target\", \"use_json_null\", or \"raise_exception\"",
            ));
        }
    };
    if !is_null(2) {
        return set(&values[..values.len().min(4)], &Interrupt::default());
    }
    match treatment {
        "raise_exception" => Err(Error::new(SqlState::NullValueNotAllowed, "JSON value must not be null")
            .with_detail("Exception was raised because null_value_treatment is \"raise_exception\".")
            .with_hint(
                "To avoid, either change the null_value_treatment argument or ensure that an SQL NULL is not passed.",
            )),
        "use_json_null" => {
            let creates = flag(values, 3, true)?;
            json::set(text(values, 0)?, &known_steps(values)?, "null", creates).map(Value::text)
        }
        "delete_key" => json::without_path(text(values, 0)?, &known_steps(values)?).map(Value::text),
        "return_target" => Ok(values[0].clone()),
        _ => Err(invalid(
            "null_value_treatment must be \"delete_key\", \"return_target\", \"use_json_null\", or \"raise_exception\"",
        )),
    }
}
