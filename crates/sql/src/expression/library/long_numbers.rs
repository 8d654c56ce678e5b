//! Functions of numerics of any length. The arithmetic is in `ankerdb_value`.

use super::entry::{Entry, entry, integer, wrong_argument};
use ankerdb_engine::DataType::{BigInt, Integer, Number as Any};
use ankerdb_engine::{Error, Interrupt, Result, SqlState, Value};
use ankerdb_value::{Number, cast};
use std::cmp::Ordering;

pub(super) const ENTRIES: &[Entry] = &[
    entry("sqrt", &[Any], Any, |values, _| one(values, Number::sqrt)),
    entry("exp", &[Any], Any, |values, _| one(values, Number::exp)),
    entry("ln", &[Any], Any, |values, _| one(values, Number::ln)),
    entry("log", &[Any], Any, |values, _| decimal_logarithm(values)),
    entry("log10", &[Any], Any, |values, _| decimal_logarithm(values)),
    entry("log", &[Any, Any], Any, |values, _| two(values, |base, number| number.log(base))),
    entry("power", &[Any, Any], Any, |values, _| two(values, Number::power)),
    entry("pow", &[Any, Any], Any, |values, _| two(values, Number::power)),
    entry("operator ^", &[Any, Any], Any, |values, _| two(values, Number::power)),
    entry("gcd", &[Any, Any], Any, |values, interrupt| {
        let (left, right) = (number(values, 0)?, number(values, 1)?);
        Ok(Value::number(&left.gcd(&right, &mut || interrupt.check())?))
    }),
    entry("lcm", &[Any, Any], Any, |values, interrupt| {
        let (left, right) = (number(values, 0)?, number(values, 1)?);
        Ok(Value::number(&left.lcm(&right, &mut || interrupt.check())?))
    }),
    entry("div", &[Any, Any], Any, |values, _| two(values, Number::div_trunc)),
    entry("factorial", &[BigInt], Any, |values, _| {
        Ok(Value::number(&Number::factorial(integer(values, 0)?)?))
    }),
    entry("scale", &[Any], Integer, |values, _| digits(number(values, 0)?.scale())),
    entry("min_scale", &[Any], Integer, |values, _| digits(number(values, 0)?.min_scale())),
    entry("trim_scale", &[Any], Any, |values, _| Ok(Value::number(&number(values, 0)?.trim_scale()))),
    entry("width_bucket", &[Any, Any, Any, Integer], Integer, bucket),
];

/// An argument that is an exact number.
pub(super) fn number(values: &[Value], position: usize) -> Result<Number> {
    match values.get(position) {
        Some(Value::Number(text)) => Ok(Number::read(text)),
        Some(value @ (Value::Numeric(_) | Value::SmallInt(_) | Value::Integer(_) | Value::BigInt(_))) => {
            match cast(value.clone(), Any)? {
                Value::Number(text) => Ok(Number::read(&text)),
                _ => Err(wrong_argument()),
            }
        }
        _ => Err(wrong_argument()),
    }
}

fn one(values: &[Value], function: fn(&Number) -> Result<Number>) -> Result<Value> {
    Ok(Value::number(&function(&number(values, 0)?)?))
}

fn two(values: &[Value], function: fn(&Number, &Number) -> Result<Number>) -> Result<Value> {
    Ok(Value::number(&function(&number(values, 0)?, &number(values, 1)?)?))
}

fn decimal_logarithm(values: &[Value]) -> Result<Value> {
    Ok(Value::number(&number(values, 0)?.log(&Number::from_i128(10))?))
}

/// NULL for what is no number.
fn digits(count: Option<i32>) -> Result<Value> {
    Ok(count.map_or(Value::Null, Value::Integer))
}

fn bucket(values: &[Value], _: &Interrupt) -> Result<Value> {
    let refused =
        |message: &'static str| Err(Error::new(SqlState::InvalidArgumentForWidthBucketFunction, message));
    let (operand, low, high) = (number(values, 0)?, number(values, 1)?, number(values, 2)?);
    let count = integer(values, 3)?;
    if count <= 0 {
        return refused("count must be greater than zero");
    }
    if [&operand, &low, &high].into_iter().any(Number::is_nan) {
        return refused("operand, lower bound, and upper bound cannot be NaN");
    }
    if !low.is_finite() || !high.is_finite() {
        return refused("lower and upper bounds must be finite");
    }
    let before = match low.compare(&high) {
        Ordering::Equal => return refused("lower bound cannot equal upper bound"),
        before => before,
    };
    let bucket = if operand.compare(&low) == before {
        0
    } else if operand.compare(&high) != before {
        count + 1
    } else {
        let part = operand.checked_sub(&low)?.checked_mul(&Number::from_i128(i128::from(count)))?;
        part.div_trunc(&high.checked_sub(&low)?)?.to_i64("integer")? + 1
    };
    let bucket = i32::try_from(bucket)
        .map_err(|_| Error::new(SqlState::NumericValueOutOfRange, "integer out of range"))?;
    Ok(Value::Integer(bucket))
}
