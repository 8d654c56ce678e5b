//! What a `jsonb` is compared by and cast to. These calls are made by the binder and have no names of their own in SQL.

use super::super::entry::{Entry, NUMERIC, entry, text, wrong_argument};
use crate::expression::bind::type_name;
use ankerdb_engine::DataType::{
    self, BigInt, Boolean, DoublePrecision, Integer, Jsonb, Number, Real, SmallInt, Text,
};
use ankerdb_engine::{Decimal, Error, Result, SqlState, Value};
use ankerdb_value::json::{self, JsonKind};
use ankerdb_value::{MAX_NUMERIC_PRECISION, push_number_key};

/// The key that orders as documents do: a text with a character for each byte of [`json::comparison_key`], since windows are
/// framed by texts and not by bytes.
pub(crate) const JSONB_KEY: &str = "operator jsonb key";

/// The key that orders as numerics of any length do, as a text for the reason that [`JSONB_KEY`] is one.
pub(crate) const NUMBER_KEY: &str = "operator numeric key";

/// The key that orders as bytes do, as a text for the reason that [`JSONB_KEY`] is one.
pub(crate) const BYTES_KEY: &str = "operator bytes key";

pub(crate) const ENTRIES: &[Entry] = &[
    entry(BYTES_KEY, &[], Text, |values, _| {
        let bytes = match values {
            [Value::Uuid(bytes)] => &bytes[..],
            [Value::Bytea(bytes)] => bytes,
            [Value::Packed(packed)] => packed.borrow().bytes(),
            _ => return Err(wrong_argument()),
        };
        Ok(Value::text(bytes.iter().copied().map(char::from).collect::<String>()))
    })
    .and_any(1, 1),
    entry(JSONB_KEY, &[Jsonb], Text, |values, _| {
        let key = json::comparison_key(text(values, 0)?)?;
        Ok(Value::text(key.into_iter().map(char::from).collect::<String>()))
    }),
    entry("operator jsonb to boolean", &[Jsonb], Boolean, |values, _| match text(values, 0)? {
        "true" => Ok(Value::Boolean(true)),
        "false" => Ok(Value::Boolean(false)),
        other => Err(not_castable(other, Boolean)),
    }),
    entry("operator jsonb to smallint", &[Jsonb], SmallInt, |values, _| number(values, SmallInt)),
    entry("operator jsonb to integer", &[Jsonb], Integer, |values, _| number(values, Integer)),
    entry("operator jsonb to bigint", &[Jsonb], BigInt, |values, _| number(values, BigInt)),
    entry("operator jsonb to real", &[Jsonb], Real, |values, _| number(values, Real)),
    entry("operator jsonb to double precision", &[Jsonb], DoublePrecision, |values, _| {
        number(values, DoublePrecision)
    }),
    entry("operator jsonb to numeric", &[Jsonb], NUMERIC, |values, _| number(values, NUMERIC)),
    entry("operator jsonb to number", &[Jsonb], Number, |values, _| number(values, Number)),
    entry(NUMBER_KEY, &[Number], Text, |values, _| match values {
        [Value::Number(text)] => {
            let mut key = Vec::new();
            push_number_key(text, &mut key);
            Ok(Value::text(key.into_iter().map(char::from).collect::<String>()))
        }
        _ => Err(wrong_argument()),
    }),
];

fn number(values: &[Value], target: DataType) -> Result<Value> {
    let text = text(values, 0)?;
    if json::kind(text) != JsonKind::Number {
        return Err(not_castable(text, target));
    }
    match target {
        Real | DoublePrecision | Number => ankerdb_value::parse_text(target, text),
        DataType::Numeric { .. } => Ok(Value::Numeric(Decimal::parse(text)?)),
        // The nearest integer, whatever digits the number has behind the point.
        _ => match Decimal::parse_to_fit(text, MAX_NUMERIC_PRECISION, 0) {
            Ok(whole) => ankerdb_value::cast(Value::Numeric(whole), target),
            Err(error) if error.state() == SqlState::NumericValueOutOfRange => {
                Err(Error::new(SqlState::NumericValueOutOfRange, format!("{target} out of range")))
            }
            Err(error) => Err(error),
        },
    }
}

/// 22023
fn not_castable(jsonb: &str, target: DataType) -> Error {
    let kind = match json::kind(jsonb) {
        JsonKind::Number => "numeric",
        other => other.name(),
    };
    let message = format!("cannot cast jsonb {kind} to type {}", type_name(target));
    Error::new(SqlState::InvalidParameterValue, message)
}
