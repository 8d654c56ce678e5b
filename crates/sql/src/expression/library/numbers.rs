//! Functions of exact numbers, and `width_bucket`.

use super::entry::{Entry, NUMERIC, double, entry, integer, wrong_argument};
use crate::expression::types::scale_of;
use crate::expression::{Math, Typed};
use ankerdb_engine::DataType::{BigInt, DoublePrecision, Integer};
use ankerdb_engine::{Decimal, Error, Interrupt, Result, SqlState, Value};

pub(super) const ENTRIES: &[Entry] = &[
    entry("gcd", &[Integer, Integer], Integer, gcd),
    entry("gcd", &[BigInt, BigInt], BigInt, gcd),
    entry("gcd", &[NUMERIC, NUMERIC], NUMERIC, decimal_gcd).digits(larger_scale),
    entry("lcm", &[Integer, Integer], Integer, lcm),
    entry("lcm", &[BigInt, BigInt], BigInt, lcm),
    entry("lcm", &[NUMERIC, NUMERIC], NUMERIC, decimal_lcm).digits(larger_scale),
    entry("dsqrt", &[DoublePrecision], DoublePrecision, |values, _| root(values, Math::SquareRoot)),
    entry("dcbrt", &[DoublePrecision], DoublePrecision, |values, _| root(values, Math::CubeRoot)),
    entry("operator ^", &[DoublePrecision, DoublePrecision], DoublePrecision, |values, _| {
        Math::Power.of_two(double(values, 0)?, double(values, 1)?).map(Value::Double)
    }),
    entry("div", &[NUMERIC, NUMERIC], NUMERIC, div).digits(|_| 0),
    entry("scale", &[NUMERIC], Integer, scale),
    entry("min_scale", &[NUMERIC], Integer, min_scale),
    entry("trim_scale", &[NUMERIC], NUMERIC, trim_scale).digits(larger_scale),
    entry("width_bucket", &[DoublePrecision, DoublePrecision, DoublePrecision, Integer], Integer, bucket),
    entry("width_bucket", &[NUMERIC, NUMERIC, NUMERIC, Integer], Integer, decimal_bucket),
];

/// The most fractional digits of an argument.
/// As many fractional digits as the argument that has the most.
pub(super) fn larger_scale(items: &[Typed]) -> u8 {
    items.iter().filter_map(|item| item.data_type).map(scale_of).max().unwrap_or(0)
}

fn root(values: &[Value], function: Math) -> Result<Value> {
    function.of(double(values, 0)?).map(Value::Double)
}

fn decimal(values: &[Value], position: usize) -> Result<Decimal> {
    match values.get(position) {
        Some(Value::Numeric(value)) => Ok(*value),
        _ => Err(wrong_argument()),
    }
}

fn overflow(message: &'static str) -> Error {
    Error::new(SqlState::NumericValueOutOfRange, message)
}

fn numeric_overflow() -> Error {
    overflow("value overflows numeric format")
}

fn common_divisor(mut left: u128, mut right: u128) -> u128 {
    while right != 0 {
        (left, right) = (right, left % right);
    }
    left
}

/// A number without sign as an integer as wide as the first argument.
fn as_wide(values: &[Value], number: u128) -> Result<Value> {
    match values.first() {
        Some(Value::Integer(_)) => {
            i32::try_from(number).map(Value::Integer).map_err(|_| overflow("integer out of range"))
        }
        _ => i64::try_from(number).map(Value::BigInt).map_err(|_| overflow("bigint out of range")),
    }
}

fn gcd(values: &[Value], _: &Interrupt) -> Result<Value> {
    let magnitude = |position| Ok::<_, Error>(u128::from(integer(values, position)?.unsigned_abs()));
    as_wide(values, common_divisor(magnitude(0)?, magnitude(1)?))
}

fn lcm(values: &[Value], _: &Interrupt) -> Result<Value> {
    let left = u128::from(integer(values, 0)?.unsigned_abs());
    let right = u128::from(integer(values, 1)?.unsigned_abs());
    let multiple = if left == 0 || right == 0 { 0 } else { left / common_divisor(left, right) * right };
    as_wide(values, multiple)
}

/// Two numbers as integers of one scale.
fn aligned(values: &[Value]) -> Result<(u128, u128, u8)> {
    let (left, right) = (decimal(values, 0)?, decimal(values, 1)?);
    let scale = left.scale.max(right.scale);
    let digits = |value: Decimal| {
        let factor = 10u128.pow(u32::from(scale - value.scale));
        value.unscaled.unsigned_abs().checked_mul(factor).ok_or_else(numeric_overflow)
    };
    Ok((digits(left)?, digits(right)?, scale))
}

/// The number of these digits.
fn number(digits: u128, scale: u8) -> Result<Value> {
    match i128::try_from(digits) {
        Ok(unscaled) if digits < 10u128.pow(38) => Ok(Value::Numeric(Decimal::new(unscaled, scale))),
        _ => Err(numeric_overflow()),
    }
}

fn decimal_gcd(values: &[Value], _: &Interrupt) -> Result<Value> {
    let (left, right, scale) = aligned(values)?;
    number(common_divisor(left, right), scale)
}

fn decimal_lcm(values: &[Value], _: &Interrupt) -> Result<Value> {
    let (left, right, scale) = aligned(values)?;
    if left == 0 || right == 0 {
        return number(0, scale);
    }
    let multiple = (left / common_divisor(left, right)).checked_mul(right);
    number(multiple.ok_or_else(numeric_overflow)?, scale)
}

fn div(values: &[Value], _: &Interrupt) -> Result<Value> {
    let quotient = decimal(values, 0)?.checked_div(decimal(values, 1)?)?;
    // The quotient may have been rounded up to the next integer.
    let (left, right) = (decimal(values, 0)?, decimal(values, 1)?);
    let rest = left.checked_rem(right)?;
    let exact = left.checked_sub(rest)?.checked_div(right).unwrap_or(quotient);
    Ok(Value::Numeric(Decimal::new(exact.to_integer(), 0)))
}

fn scale(values: &[Value], _: &Interrupt) -> Result<Value> {
    Ok(Value::Integer(i32::from(decimal(values, 0)?.scale)))
}

fn trimmed(mut value: Decimal) -> Decimal {
    while value.scale > 0 && value.unscaled % 10 == 0 {
        value = Decimal::new(value.unscaled / 10, value.scale - 1);
    }
    value
}

fn min_scale(values: &[Value], _: &Interrupt) -> Result<Value> {
    Ok(Value::Integer(i32::from(trimmed(decimal(values, 0)?).scale)))
}

fn trim_scale(values: &[Value], _: &Interrupt) -> Result<Value> {
    Ok(Value::Numeric(trimmed(decimal(values, 0)?)))
}

fn refused_bucket(message: &'static str) -> Error {
    Error::new(SqlState::InvalidArgumentForWidthBucketFunction, message)
}

fn bucket_count(values: &[Value]) -> Result<i64> {
    match integer(values, 3)? {
        ..=0 => Err(refused_bucket("count must be greater than zero")),
        count => Ok(count),
    }
}

fn numbered(bucket: i128) -> Result<Value> {
    i32::try_from(bucket).map(Value::Integer).map_err(|_| overflow("integer out of range"))
}

fn bucket(values: &[Value], _: &Interrupt) -> Result<Value> {
    let (operand, low, high) = (double(values, 0)?, double(values, 1)?, double(values, 2)?);
    let count = bucket_count(values)?;
    if operand.is_nan() || low.is_nan() || high.is_nan() {
        return Err(refused_bucket("operand, lower bound, and upper bound cannot be NaN"));
    }
    if low.is_infinite() || high.is_infinite() {
        return Err(refused_bucket("lower and upper bounds must be finite"));
    }
    if low == high {
        return Err(refused_bucket("lower bound cannot equal upper bound"));
    }
    let (from, to, operand) = if low < high { (low, high, operand) } else { (-low, -high, -operand) };
    numbered(match operand {
        below if below < from => 0,
        above if above >= to => i128::from(count) + 1,
        inside => ((count as f64 * (inside - from) / (to - from)) + 1.0) as i128,
    })
}

fn decimal_bucket(values: &[Value], _: &Interrupt) -> Result<Value> {
    let (operand, low, high) = (decimal(values, 0)?, decimal(values, 1)?, decimal(values, 2)?);
    let count = bucket_count(values)?;
    if low.compare(high).is_eq() {
        return Err(refused_bucket("lower bound cannot equal upper bound"));
    }
    let is_upward = low.compare(high).is_lt();
    let before = |left: Decimal, right: Decimal| {
        if is_upward { left.compare(right).is_lt() } else { left.compare(right).is_gt() }
    };
    if before(operand, low) {
        return numbered(0);
    }
    if !before(operand, high) {
        return numbered(i128::from(count) + 1);
    }
    let (part, whole) = (operand.checked_sub(low)?, high.checked_sub(low)?);
    let (part, whole, _) = aligned(&[Value::Numeric(part), Value::Numeric(whole)])?;
    let steps = part.checked_mul(count.unsigned_abs().into()).ok_or_else(numeric_overflow)? / whole;
    numbered(steps as i128 + 1)
}
