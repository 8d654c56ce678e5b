//! Operators on the bits of integers.

use super::entry::{Entry, entry, integer, wrong_argument};
use ankerdb_engine::DataType::{BigInt, Integer, SmallInt};
use ankerdb_engine::{Interrupt, Result, Value};

pub(super) const ENTRIES: &[Entry] = &[
    entry("operator &", &[SmallInt, SmallInt], SmallInt, and),
    entry("operator &", &[Integer, Integer], Integer, and),
    entry("operator &", &[BigInt, BigInt], BigInt, and),
    entry("operator |", &[SmallInt, SmallInt], SmallInt, or),
    entry("operator |", &[Integer, Integer], Integer, or),
    entry("operator |", &[BigInt, BigInt], BigInt, or),
    entry("operator #", &[SmallInt, SmallInt], SmallInt, exclusive_or),
    entry("operator #", &[Integer, Integer], Integer, exclusive_or),
    entry("operator #", &[BigInt, BigInt], BigInt, exclusive_or),
    entry("operator ~", &[SmallInt], SmallInt, not),
    entry("operator ~", &[Integer], Integer, not),
    entry("operator ~", &[BigInt], BigInt, not),
    entry("operator <<", &[SmallInt, Integer], SmallInt, left),
    entry("operator <<", &[Integer, Integer], Integer, left),
    entry("operator <<", &[BigInt, Integer], BigInt, left),
    entry("operator >>", &[SmallInt, Integer], SmallInt, right),
    entry("operator >>", &[Integer, Integer], Integer, right),
    entry("operator >>", &[BigInt, Integer], BigInt, right),
];

/// The bits as an integer as wide as the first argument; what does not fit it is cut off.
fn as_wide(values: &[Value], bits: i64) -> Result<Value> {
    Ok(match values.first() {
        Some(Value::SmallInt(_)) => Value::SmallInt(bits as i16),
        Some(Value::Integer(_)) => Value::Integer(bits as i32),
        Some(Value::BigInt(_)) => Value::BigInt(bits),
        _ => return Err(wrong_argument()),
    })
}

fn and(values: &[Value], _: &Interrupt) -> Result<Value> {
    as_wide(values, integer(values, 0)? & integer(values, 1)?)
}

fn or(values: &[Value], _: &Interrupt) -> Result<Value> {
    as_wide(values, integer(values, 0)? | integer(values, 1)?)
}

fn exclusive_or(values: &[Value], _: &Interrupt) -> Result<Value> {
    as_wide(values, integer(values, 0)? ^ integer(values, 1)?)
}

fn not(values: &[Value], _: &Interrupt) -> Result<Value> {
    as_wide(values, !integer(values, 0)?)
}

/// The count is taken modulo 64 for bigint and modulo 32 for the others, as processors do.
fn left(values: &[Value], _: &Interrupt) -> Result<Value> {
    let count = integer(values, 1)? as u32;
    match values.first() {
        Some(Value::BigInt(value)) => Ok(Value::BigInt(value.wrapping_shl(count))),
        _ => as_wide(values, i64::from((integer(values, 0)? as i32).wrapping_shl(count))),
    }
}

fn right(values: &[Value], _: &Interrupt) -> Result<Value> {
    let count = integer(values, 1)? as u32;
    match values.first() {
        Some(Value::BigInt(value)) => Ok(Value::BigInt(value.wrapping_shr(count))),
        _ => as_wide(values, i64::from((integer(values, 0)? as i32).wrapping_shr(count))),
    }
}
