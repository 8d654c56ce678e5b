//! Functions that give rows: each call a row for each value.
//!
//! The values come one after the other, so that a long series takes no memory and ends with the query that reads it. What gives
//! several columns is a function for each of them, named `function column` ([`columns`]): equal arguments give equal rows.

use super::entry::{Entry, NUMERIC, Volatility, entry, integer, invalid, text, wrong_argument};
use super::json::paths::{self, PATH};
use super::json::{sets as documents, texts};
use super::keywords;
use super::long_numbers::number;
use super::numbers::larger_scale;
use super::regexp;
use ankerdb_engine::DataType::{BigInt, Boolean, Integer, Json, Jsonb, Text};
use ankerdb_engine::{
    DataType, Decimal, Error, Interrupt, Interval, ListType, Result, SqlState, SystemType, Value,
};
use ankerdb_value::{Number, add, compare};
use std::cmp::Ordering;

/// The values of a call, in order.
pub(crate) type SetValues = Box<dyn Iterator<Item = Result<Value>> + Send>;

/// Begins a call. A NULL among the arguments of a strict function gives no rows, and does not come here.
pub(crate) type Start = fn(&[Value], &Interrupt) -> Result<SetValues>;

/// A list of texts.
const TEXTS: DataType = DataType::System(SystemType::List(ListType::Text));

pub(super) const ENTRIES: &[Entry] = &[
    set("generate_series", &[Integer, Integer], Integer, integers),
    set("generate_series", &[Integer, Integer, Integer], Integer, integers),
    set("generate_series", &[BigInt, BigInt], BigInt, integers),
    set("generate_series", &[BigInt, BigInt, BigInt], BigInt, integers),
    set("generate_series", &[NUMERIC, NUMERIC], NUMERIC, numerics).digits(larger_scale),
    set("generate_series", &[NUMERIC, NUMERIC, NUMERIC], NUMERIC, numerics).digits(larger_scale),
    set("generate_series", &[DataType::Number, DataType::Number], DataType::Number, numbers),
    set(
        "generate_series",
        &[DataType::Number, DataType::Number, DataType::Number],
        DataType::Number,
        numbers,
    ),
    set(
        "generate_series",
        &[DataType::TIMESTAMP, DataType::TIMESTAMP, DataType::INTERVAL],
        DataType::TIMESTAMP,
        moments,
    ),
    set(
        "generate_series",
        &[DataType::TIMESTAMPTZ, DataType::TIMESTAMPTZ, DataType::INTERVAL],
        DataType::TIMESTAMPTZ,
        moments,
    ),
    set("json_array_elements", &[Json], Json, documents::elements),
    set("jsonb_array_elements", &[Jsonb], Jsonb, documents::elements_of_jsonb),
    set("json_array_elements_text", &[Json], Text, documents::element_texts),
    set("jsonb_array_elements_text", &[Jsonb], Text, documents::element_texts_of_jsonb),
    set("json_object_keys", &[Json], Text, documents::keys),
    set("jsonb_object_keys", &[Jsonb], Text, documents::keys_of_jsonb),
    set("json_each key", &[Json], Text, documents::each_key),
    set("json_each value", &[Json], Json, documents::each_value),
    set("json_each_text key", &[Json], Text, documents::each_text_key),
    set("json_each_text value", &[Json], Text, documents::each_text_value),
    set("jsonb_each key", &[Jsonb], Text, documents::each_key_of_jsonb),
    set("jsonb_each value", &[Jsonb], Jsonb, documents::each_value_of_jsonb),
    set("jsonb_each_text key", &[Jsonb], Text, documents::each_text_key_of_jsonb),
    set("jsonb_each_text value", &[Jsonb], Text, documents::each_text_value_of_jsonb),
    set("jsonb_path_query", &[Jsonb, PATH], Jsonb, paths::items),
    set("jsonb_path_query", &[Jsonb, PATH, Jsonb], Jsonb, paths::items),
    set("jsonb_path_query", &[Jsonb, PATH, Jsonb, Boolean], Jsonb, paths::items),
    set("json_to_recordset", &[Json], Json, documents::records),
    set("jsonb_to_recordset", &[Jsonb], Jsonb, documents::records_of_jsonb),
    set("regexp_matches", &[Text, Text], TEXTS, regexp::all_matches),
    set("regexp_matches", &[Text, Text, Text], TEXTS, regexp::all_matches),
    set("regexp_split_to_table", &[Text, Text], Text, regexp::split),
    set("regexp_split_to_table", &[Text, Text, Text], Text, regexp::split),
    set("pg_get_keywords word", &[], Text, keywords::word),
    set("pg_get_keywords catcode", &[], DataType::System(SystemType::Char), keywords::category),
    set("pg_get_keywords barelabel", &[], Boolean, keywords::is_label),
    set("pg_get_keywords catdesc", &[], Text, keywords::description),
    set("pg_get_keywords baredesc", &[], Text, keywords::label_description),
    set("pg_options_to_table option_name", &[TEXTS], Text, option_names),
    set("pg_options_to_table option_value", &[TEXTS], Text, option_values),
    set("string_to_table", &[Text, Text], Text, parts).lenient(),
    set("string_to_table", &[Text, Text, Text], Text, parts).lenient(),
];

/// Names of columns, and which function gives each.
pub(crate) type SetColumns = &'static [(&'static str, &'static str)];

/// Functions of several columns: which, and the function of each.
const COLUMNS: [(&str, SetColumns); 6] = [
    ("json_each", &[("key", "json_each key"), ("value", "json_each value")]),
    ("json_each_text", &[("key", "json_each_text key"), ("value", "json_each_text value")]),
    ("jsonb_each", &[("key", "jsonb_each key"), ("value", "jsonb_each value")]),
    ("jsonb_each_text", &[("key", "jsonb_each_text key"), ("value", "jsonb_each_text value")]),
    (
        "pg_get_keywords",
        &[
            ("word", "pg_get_keywords word"),
            ("catcode", "pg_get_keywords catcode"),
            ("barelabel", "pg_get_keywords barelabel"),
            ("catdesc", "pg_get_keywords catdesc"),
            ("baredesc", "pg_get_keywords baredesc"),
        ],
    ),
    (
        "pg_options_to_table",
        &[
            ("option_name", "pg_options_to_table option_name"),
            ("option_value", "pg_options_to_table option_value"),
        ],
    ),
];

/// Functions whose only column has a name.
const VALUES: [&str; 4] =
    ["json_array_elements", "jsonb_array_elements", "json_array_elements_text", "jsonb_array_elements_text"];

/// The columns of what a function gives in FROM, where these have names of their own, and which function gives each.
pub(crate) fn columns(function: &str) -> Option<SetColumns> {
    COLUMNS.iter().find(|(name, _)| *name == function).map(|(_, columns)| *columns)
}

/// The name of the only column, if it has one that is not the function's.
pub(crate) fn column(function: &str) -> Option<&'static str> {
    VALUES.contains(&function).then_some("value")
}

/// A function that gives rows: strict, and not computed where values are.
const fn set(name: &'static str, arguments: &'static [DataType], result: DataType, start: Start) -> Entry {
    let plain = entry(name, arguments, result, |_, _| Err(misplaced()));
    Entry { set: Some(start), volatility: Volatility::Volatile, ..plain }
}

fn misplaced() -> Error {
    let message = "set-valued function called in context that cannot accept a set";
    Error::new(SqlState::FeatureNotSupported, message)
}

fn zero_step() -> Error {
    invalid("step size cannot equal zero")
}

fn integers(values: &[Value], _: &Interrupt) -> Result<SetValues> {
    let (first, last) = (integer(values, 0)?, integer(values, 1)?);
    let step = if values.len() > 2 { integer(values, 2)? } else { 1 };
    if step == 0 {
        return Err(zero_step());
    }
    let is_small = matches!(values[0], Value::Integer(_));
    let mut next = Some(first);
    Ok(Box::new(std::iter::from_fn(move || {
        let value = next.take().filter(|next| if step > 0 { *next <= last } else { *next >= last })?;
        next = value.checked_add(step);
        // What is between two integers is one.
        Some(Ok(match i32::try_from(value) {
            Ok(value) if is_small => Value::Integer(value),
            _ => Value::BigInt(value),
        }))
    })))
}

fn numeric(values: &[Value], position: usize) -> Result<Decimal> {
    match values.get(position) {
        Some(Value::Numeric(number)) => Ok(*number),
        Some(other) => other.as_integer().map(Decimal::from).ok_or_else(wrong_argument),
        None => Ok(Decimal::from(1)),
    }
}

fn numerics(values: &[Value], _: &Interrupt) -> Result<SetValues> {
    let (first, last, step) = (numeric(values, 0)?, numeric(values, 1)?, numeric(values, 2)?);
    let sign = step.compare(Decimal::ZERO);
    if sign == Ordering::Equal {
        return Err(zero_step());
    }
    let mut next = Some(first);
    Ok(Box::new(std::iter::from_fn(move || {
        let value = next.take().filter(|next| next.compare(last) != sign)?;
        next = value.checked_add(step).ok();
        Some(Ok(Value::Numeric(value)))
    })))
}

fn numbers(values: &[Value], _: &Interrupt) -> Result<SetValues> {
    let (first, last) = (number(values, 0)?, number(values, 1)?);
    let step = if values.len() > 2 { number(values, 2)? } else { Number::from_i128(1) };
    for (part, what) in [(&first, "start"), (&last, "stop"), (&step, "step size")] {
        if !part.is_finite() {
            let special = if part.is_nan() { "NaN" } else { "infinity" };
            let what = if what == "step size" { what.to_owned() } else { format!("{what} value") };
            return Err(invalid(format!("{what} cannot be {special}")));
        }
    }
    let sign = step.compare(&Number::from_i128(0));
    if sign == Ordering::Equal {
        return Err(zero_step());
    }
    let mut next = Some(first);
    Ok(Box::new(std::iter::from_fn(move || {
        let value = next.take().filter(|next| next.compare(&last) != sign)?;
        next = value.checked_add(&step).ok();
        Some(Ok(Value::number(&value)))
    })))
}

fn moments(values: &[Value], _: &Interrupt) -> Result<SetValues> {
    let [first, last, step @ Value::Interval(interval)] = values else { return Err(wrong_argument()) };
    let sign = interval.compare(Interval::default());
    if sign == Ordering::Equal {
        return Err(zero_step());
    }
    let (mut next, last, step) = (Some(Ok(first.clone())), last.clone(), step.clone());
    Ok(Box::new(std::iter::from_fn(move || {
        let value = match next.take()? {
            Ok(value) => value,
            Err(error) => return Some(Err(error)),
        };
        match compare(&value, &last) {
            Ok(found) if found == Some(sign) => None,
            Ok(_) => {
                next = Some(add(&value, &step));
                Some(Ok(value))
            }
            Err(error) => Some(Err(error)),
        }
    })))
}

/// `string_to_table(text, separator [, null])`: NULL separates all characters.
fn parts(values: &[Value], _: &Interrupt) -> Result<SetValues> {
    if values[0].is_null() {
        return Ok(Box::new(std::iter::empty()));
    }
    let whole = text(values, 0)?;
    let null = match values.get(2) {
        None | Some(Value::Null) => None,
        Some(_) => Some(text(values, 2)?),
    };
    let part = |part: &str| if null == Some(part) { Value::Null } else { Value::text(part) };
    let found: Vec<Value> = match values[1].is_null() {
        _ if whole.is_empty() => Vec::new(),
        true => whole.chars().map(|character| part(character.encode_utf8(&mut [0; 4]))).collect(),
        false => match text(values, 1)? {
            "" => vec![part(whole)],
            separator => whole.split(separator).map(part).collect(),
        },
    };
    Ok(given(found))
}

fn option_names(values: &[Value], _: &Interrupt) -> Result<SetValues> {
    options(values, |name, _| Value::text(name))
}

fn option_values(values: &[Value], _: &Interrupt) -> Result<SetValues> {
    options(values, |_, value| value.map_or(Value::Null, Value::text))
}

/// What is made of each option of a list: its name, and what is behind the first sign of equality, if there is one.
fn options(values: &[Value], made: impl Fn(&str, Option<&str>) -> Value) -> Result<SetValues> {
    let mut found = Vec::new();
    for option in texts(values, 0)? {
        let option = option.ok_or_else(|| {
            Error::new(SqlState::NullValueNotAllowed, "null array element not allowed in this context")
        })?;
        found.push(match option.split_once('=') {
            Some((name, value)) => made(name, Some(value)),
            None => made(&option, None),
        });
    }
    Ok(given(found))
}

/// Values that are there.
pub(super) fn given(values: Vec<Value>) -> SetValues {
    Box::new(values.into_iter().map(Ok))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(start: Start, arguments: &[Value]) -> Vec<Value> {
        let rows = start(arguments, &Interrupt::new()).unwrap();
        rows.take(4).map(Result::unwrap).collect()
    }

    #[test]
    fn a_series_ends_at_its_last_value_and_at_the_end_of_its_type() {
        let from = |first, last, step| {
            values(integers, &[Value::Integer(first), Value::Integer(last), Value::Integer(step)])
        };
        assert_eq!(from(1, 6, 2), [Value::Integer(1), Value::Integer(3), Value::Integer(5)]);
        assert_eq!(from(3, 2, 1), []);
        assert_eq!(from(2, 1, -1), [Value::Integer(2), Value::Integer(1)]);
        assert_eq!(from(i32::MAX, i32::MAX, 1), [Value::Integer(i32::MAX)]);
        let end = [Value::BigInt(i64::MAX), Value::BigInt(i64::MAX)];
        assert_eq!(values(integers, &end), [Value::BigInt(i64::MAX)]);
    }

    #[test]
    fn a_step_of_nothing_is_refused() {
        let zero = [Value::Integer(1), Value::Integer(2), Value::Integer(0)];
        assert!(integers(&zero, &Interrupt::new()).is_err());
    }
}
