//! Arithmetic, comparison and concatenation by PostgreSQL's rules.
//!
//! Two numbers meet in the wider of their types, in the order smallint, integer, bigint, numeric of 38 digits, numeric of any
//! length, double precision; two reals stay real, a real with anything else becomes double precision. Integers divide toward
//! zero. Dates know `date + integer`, `date - integer` and `date - date`; intervals are added to dates, times, timestamps and
//! each other, and multiplied with numbers. NULL makes every result NULL.
//!
//! Overflow is 22003 and division by zero 22012; infinity and NaN come out only where one went in.
//! Combinations that PostgreSQL does not know are 42883.

use crate::cast::{midnight, number_of, out_of_range, text_of, to_decimal, to_double};
use crate::datetime::{
    DATE_INFINITY, DATE_MINUS_INFINITY, FIRST_DAY, INFINITY, LAST_DAY, MICROSECONDS_PER_DAY, MINUS_INFINITY,
    is_infinite_date,
};
use crate::float::{check_double, check_real};
use crate::interval_math::{self, add_to_moment, add_to_time};
use crate::zone::Zone;
use crate::{Decimal, Interval, Number, Value, array_order, compare_numbers};
use ankerdb_base::{Error, Result, SqlState};
use std::cmp::Ordering;

/// `left + right`
///
/// # Errors
/// 22003, 22008 or 42883, as the module says.
pub fn add(left: &Value, right: &Value) -> Result<Value> {
    match (left, right) {
        (Value::Date(days), count) if count.is_day_count() => add_days(*days, count, 1),
        (count, Value::Date(days)) if count.is_day_count() => add_days(*days, count, 1),
        (Value::Date(days), Value::Time(time)) | (Value::Time(time), Value::Date(days)) => {
            Ok(Value::Timestamp(add_to_moment(midnight(*days)?, Interval::new(0, 0, *time))?))
        }
        (Value::Interval(left), Value::Interval(right)) => left.checked_add(*right).map(Value::Interval),
        (moment, Value::Interval(interval)) | (Value::Interval(interval), moment) if is_moment(moment) => {
            later(moment, *interval)
        }
        _ => arithmetic(left, right, &ADD),
    }
}

/// `left - right`
///
/// # Errors
/// 22003, 22008 or 42883, as the module says.
pub fn subtract(left: &Value, right: &Value) -> Result<Value> {
    match (left, right) {
        (Value::Date(days), count) if count.is_day_count() => add_days(*days, count, -1),
        (Value::Date(left), Value::Date(right)) if is_infinite_date(*left) || is_infinite_date(*right) => {
            Err(Error::new(SqlState::DatetimeFieldOverflow, "cannot subtract infinite dates"))
        }
        (Value::Date(left), Value::Date(right)) => {
            left.checked_sub(*right).map(Value::Integer).ok_or_else(|| out_of_range("integer"))
        }
        (Value::Interval(left), Value::Interval(right)) => {
            left.checked_add(right.negated()?).map(Value::Interval)
        }
        // Days and months make no difference to a time of day.
        (Value::Time(time), Value::Interval(interval)) => Ok(Value::Time(add_to_time(
            *time,
            Interval::new(0, 0, -(interval.microseconds % MICROSECONDS_PER_DAY)),
        ))),
        (moment, Value::Interval(interval)) if is_moment(moment) => later(moment, interval.negated()?),
        (Value::Time(left), Value::Time(right)) => Ok(Value::Interval(Interval::new(0, 0, left - right))),
        (left, right) if is_moment(left) && is_moment(right) => match (instant(left)?, instant(right)?) {
            (Some(left), Some(right)) => interval_math::between(left, right).map(Value::Interval),
            _ => arithmetic(&Value::Time(0), &Value::Date(0), &SUBTRACT),
        },
        _ => arithmetic(left, right, &SUBTRACT),
    }
}

/// `left * right`
///
/// # Errors
/// 22003, 22008 or 42883, as the module says.
pub fn multiply(left: &Value, right: &Value) -> Result<Value> {
    match (left, right) {
        (Value::Interval(interval), factor) | (factor, Value::Interval(interval)) if factor.is_number() => {
            interval_math::scale(*interval, to_double(factor)).map(Value::Interval)
        }
        _ => arithmetic(left, right, &MULTIPLY),
    }
}

/// `left / right`
///
/// # Errors
/// 22003, 22008, 22012 or 42883, as the module says.
pub fn divide(left: &Value, right: &Value) -> Result<Value> {
    match (left, right) {
        (Value::Interval(interval), divisor) if divisor.is_number() => {
            interval_math::divide(*interval, to_double(divisor)).map(Value::Interval)
        }
        _ => arithmetic(left, right, &DIVIDE),
    }
}

/// `left % right`, with the sign of `left`; not for floating point.
///
/// # Errors
/// 22003, 22012 or 42883, as the module says.
pub fn modulo(left: &Value, right: &Value) -> Result<Value> {
    arithmetic(left, right, &MODULO)
}

/// `-value`
///
/// # Errors
/// 22003, 22008 or 42883, as the module says.
pub fn negate(value: &Value) -> Result<Value> {
    match value {
        Value::Null => Ok(Value::Null),
        Value::SmallInt(value) => {
            value.checked_neg().map(Value::SmallInt).ok_or_else(|| out_of_range("smallint"))
        }
        Value::Integer(value) => {
            value.checked_neg().map(Value::Integer).ok_or_else(|| out_of_range("integer"))
        }
        Value::BigInt(value) => value.checked_neg().map(Value::BigInt).ok_or_else(|| out_of_range("bigint")),
        Value::Numeric(value) => value.negated().map(Value::Numeric),
        Value::Number(text) => Ok(Value::number(&Number::read(text).negated())),
        Value::Real(value) => Ok(Value::Real(-value)),
        Value::Double(value) => Ok(Value::Double(-value)),
        Value::Interval(interval) => interval.negated().map(Value::Interval),
        value => Err(undefined(format!("- {}", value.type_name()))),
    }
}

/// `left || right`: text with anything, or two byte strings.
///
/// # Errors
/// 42883 for other pairs.
pub fn concat(left: &Value, right: &Value) -> Result<Value> {
    match (left, right) {
        (Value::Null, _) | (_, Value::Null) => Ok(Value::Null),
        (Value::Bytea(left), Value::Bytea(right)) => {
            Ok(Value::Bytea([&left[..], &right[..]].concat().into()))
        }
        (Value::Text(left), Value::Text(right)) => Ok(Value::text([&left[..], &right[..]].concat())),
        (Value::Text(left), right) => Ok(Value::text([&left[..], &text_of(right)].concat())),
        (left, Value::Text(right)) => Ok(Value::text([&text_of(left), &right[..]].concat())),
        _ => Err(undefined_pair(left, "||", right)),
    }
}

/// How two values of comparable types order; `None` if either is NULL. Numbers of all types compare with each other, dates with
/// timestamps at midnight UTC. Text compares by bytes (collation `C`). NaN equals NaN and is larger than every other number.
///
/// # Errors
/// 42883 for types that do not compare.
pub fn compare(left: &Value, right: &Value) -> Result<Option<Ordering>> {
    let ordering = match (left, right) {
        (Value::Null, _) | (_, Value::Null) => return Ok(None),
        (Value::Boolean(left), Value::Boolean(right)) => left.cmp(right),
        (Value::Text(left), Value::Text(right)) => left.as_bytes().cmp(right.as_bytes()),
        (Value::Number(left), Value::Number(right)) => compare_numbers(left, right),
        (Value::Date(left), Value::Date(right)) => left.cmp(right),
        (Value::Time(left), Value::Time(right)) => left.cmp(right),
        (Value::Interval(left), Value::Interval(right)) => left.compare(*right),
        (Value::Bytea(left), Value::Bytea(right)) => left.cmp(right),
        (Value::Uuid(left), Value::Uuid(right)) => left.cmp(right),
        (Value::Packed(left), Value::Packed(right)) if left.is_of(right.packed_type()) => {
            left.borrow().cmp(&right.borrow())
        }
        (Value::Enum(left), Value::Enum(right)) if left.enum_type == right.enum_type => {
            left.position.cmp(&right.position)
        }
        (Value::Array(left), Value::Array(right)) => {
            array_order::compare_arrays(left.borrow(), right.borrow())?
        }
        _ => match (Pair::of(left, right)?, moment(left), moment(right)) {
            (Some(pair), _, _) => pair.compare(),
            (None, Some(left_moment), Some(right_moment)) => {
                let is_instant = |value: &Value| matches!(value, Value::TimestampTz(_));
                match (is_instant(left), is_instant(right)) {
                    (true, false) => left_moment.cmp(&instant_of(right, right_moment)),
                    (false, true) => instant_of(left, left_moment).cmp(&right_moment),
                    _ => left_moment.cmp(&right_moment),
                }
            }
            _ => return Err(undefined_pair(left, "=", right)),
        },
    };
    Ok(Some(ordering))
}

/// Microseconds since the epoch; wide enough for every date.
fn moment(value: &Value) -> Option<i128> {
    match value {
        // Beyond every day, of which some are later than all timestamps.
        Value::Timestamp(INFINITY) | Value::TimestampTz(INFINITY) | Value::Date(DATE_INFINITY) => {
            Some(i128::MAX)
        }
        Value::Timestamp(MINUS_INFINITY)
        | Value::TimestampTz(MINUS_INFINITY)
        | Value::Date(DATE_MINUS_INFINITY) => Some(i128::MIN),
        Value::Timestamp(moment) | Value::TimestampTz(moment) => Some(i128::from(*moment)),
        Value::Date(days) => Some(i128::from(*days) * i128::from(MICROSECONDS_PER_DAY)),
        _ => None,
    }
}

/// The instant at which the clocks of the thread's zone show a timestamp or the beginning of a date.
fn instant_of(value: &Value, local: i128) -> i128 {
    let instant = i64::try_from(local).ok().filter(|_| !matches!(value, Value::TimestampTz(_)));
    instant.and_then(|local| Zone::current().instant(local).ok()).map_or(local, i128::from)
}

/// Whether an interval can be added.
fn is_moment(value: &Value) -> bool {
    matches!(value, Value::Date(_) | Value::Timestamp(_) | Value::TimestampTz(_) | Value::Time(_))
}

/// Microseconds since the epoch; `None` for a time of day.
fn instant(value: &Value) -> Result<Option<i64>> {
    Ok(match value {
        Value::Timestamp(moment) | Value::TimestampTz(moment) => Some(*moment),
        Value::Date(days) => Some(midnight(*days)?),
        _ => None,
    })
}

/// `moment + interval`; a date is a timestamp for it.
fn later(moment: &Value, interval: Interval) -> Result<Value> {
    Ok(match moment {
        Value::Time(time) => Value::Time(add_to_time(*time, interval)),
        Value::TimestampTz(moment) => Value::TimestampTz(add_to_instant(*moment, interval)?),
        other => match instant(other)? {
            Some(moment) => Value::Timestamp(add_to_moment(moment, interval)?),
            None => Value::Null,
        },
    })
}

/// Months and days are those of calendars and clocks, and what is smaller is time that passes.
fn add_to_instant(moment: i64, interval: Interval) -> Result<i64> {
    let zone = Zone::current();
    if zone == Zone::Utc {
        return add_to_moment(moment, interval);
    }
    let mut moment = moment;
    for part in [Interval::new(interval.months, 0, 0), Interval::new(0, interval.days, 0)] {
        if part != Interval::default() {
            moment = zone.instant(add_to_moment(zone.local(moment)?, part)?)?;
        }
    }
    add_to_moment(moment, Interval::new(0, 0, interval.microseconds))
}

fn add_days(days: i32, count: &Value, sign: i64) -> Result<Value> {
    if is_infinite_date(days) && !count.is_null() {
        return Ok(Value::Date(days));
    }
    let count = match count {
        Value::SmallInt(count) => i64::from(*count),
        Value::Integer(count) => i64::from(*count),
        _ => return Ok(Value::Null),
    };
    let day = i64::from(days) + sign * count;
    if !(FIRST_DAY..=LAST_DAY).contains(&day) {
        return Err(Error::new(SqlState::DatetimeFieldOverflow, "date out of range"));
    }
    // The last day is below i32::MAX.
    Ok(Value::Date(day as i32))
}

fn undefined(operation: String) -> Error {
    Error::new(SqlState::UndefinedFunction, format!("operator does not exist: {operation}")).with_hint(
        "No operator matches the given name and argument types. You might need to add explicit type casts.",
    )
}

fn undefined_pair(left: &Value, symbol: &str, right: &Value) -> Error {
    undefined(format!("{} {symbol} {}", left.type_name(), right.type_name()))
}

fn division_by_zero() -> Error {
    Error::new(SqlState::DivisionByZero, "division by zero")
}

/// Two numbers in the type in which they meet.
enum Pair {
    SmallInt(i16, i16),
    Integer(i32, i32),
    BigInt(i64, i64),
    Numeric(Decimal, Decimal),
    Number(Number, Number),
    Real(f32, f32),
    Double(f64, f64),
}

impl Pair {
    /// `None` unless both are numbers.
    fn of(left: &Value, right: &Value) -> Result<Option<Pair>> {
        if let (Value::Real(left), Value::Real(right)) = (left, right) {
            return Ok(Some(Pair::Real(*left, *right)));
        }
        if !left.is_number() || !right.is_number() {
            return Ok(None);
        }
        let floating = |value: &Value| matches!(value, Value::Real(_) | Value::Double(_));
        if floating(left) || floating(right) {
            return Ok(Some(Pair::Double(to_double(left), to_double(right))));
        }
        if let (Value::Number(_), _) | (_, Value::Number(_)) = (left, right) {
            return Ok(Some(Pair::Number(number_of(left), number_of(right))));
        }
        Ok(Some(match (left.as_integer(), right.as_integer()) {
            (Some(left_integer), Some(right_integer)) => match (left, right) {
                (Value::SmallInt(left), Value::SmallInt(right)) => Pair::SmallInt(*left, *right),
                (Value::BigInt(_), _) | (_, Value::BigInt(_)) => Pair::BigInt(left_integer, right_integer),
                // What is left is at most 32 bits wide.
                _ => Pair::Integer(left_integer as i32, right_integer as i32),
            },
            _ => Pair::Numeric(to_decimal(left)?, to_decimal(right)?),
        }))
    }

    fn compare(self) -> Ordering {
        match self {
            Pair::SmallInt(left, right) => left.cmp(&right),
            Pair::Integer(left, right) => left.cmp(&right),
            Pair::BigInt(left, right) => left.cmp(&right),
            Pair::Numeric(left, right) => left.compare(right),
            Pair::Number(left, right) => left.compare(&right),
            Pair::Real(left, right) => compare_floating(f64::from(left), f64::from(right)),
            Pair::Double(left, right) => compare_floating(left, right),
        }
    }
}

fn compare_floating(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or_else(|| left.is_nan().cmp(&right.is_nan()))
}

/// One operator in all types of numbers; `None` from an integer form means overflow.
struct Operator {
    symbol: &'static str,
    /// Whether a right operand of zero is an error.
    divides: bool,
    smallint: fn(i16, i16) -> Option<i16>,
    integer: fn(i32, i32) -> Option<i32>,
    bigint: fn(i64, i64) -> Option<i64>,
    numeric: fn(Decimal, Decimal) -> Result<Decimal>,
    number: fn(&Number, &Number) -> Result<Number>,
    /// Absent where PostgreSQL has no such operator.
    floating: Option<Floating>,
}

struct Floating {
    real: fn(f32, f32) -> f32,
    double: fn(f64, f64) -> f64,
    /// Whether a result of zero is exact although neither operand is zero, as in `1 - 1`.
    zero_is_exact: bool,
}

const ADD: Operator = Operator {
    symbol: "+",
    divides: false,
    smallint: i16::checked_add,
    integer: i32::checked_add,
    bigint: i64::checked_add,
    numeric: Decimal::checked_add,
    number: Number::checked_add,
    floating: Some(Floating {
        real: |left, right| left + right,
        double: |left, right| left + right,
        zero_is_exact: true,
    }),
};

const SUBTRACT: Operator = Operator {
    symbol: "-",
    divides: false,
    smallint: i16::checked_sub,
    integer: i32::checked_sub,
    bigint: i64::checked_sub,
    numeric: Decimal::checked_sub,
    number: Number::checked_sub,
    floating: Some(Floating {
        real: |left, right| left - right,
        double: |left, right| left - right,
        zero_is_exact: true,
    }),
};

const MULTIPLY: Operator = Operator {
    symbol: "*",
    divides: false,
    smallint: i16::checked_mul,
    integer: i32::checked_mul,
    bigint: i64::checked_mul,
    numeric: Decimal::checked_mul,
    number: Number::checked_mul,
    floating: Some(Floating {
        real: |left, right| left * right,
        double: |left, right| left * right,
        zero_is_exact: false,
    }),
};

const DIVIDE: Operator = Operator {
    symbol: "/",
    divides: true,
    smallint: i16::checked_div,
    integer: i32::checked_div,
    bigint: i64::checked_div,
    numeric: Decimal::checked_div,
    number: Number::checked_div,
    floating: Some(Floating {
        real: |left, right| left / right,
        double: |left, right| left / right,
        zero_is_exact: false,
    }),
};

const MODULO: Operator = Operator {
    symbol: "%",
    divides: true,
    // The remainder of the smallest number by -1 is zero, although the quotient overflows.
    smallint: |left, right| Some(left.wrapping_rem(right)),
    integer: |left, right| Some(left.wrapping_rem(right)),
    bigint: |left, right| Some(left.wrapping_rem(right)),
    numeric: Decimal::checked_rem,
    number: Number::checked_rem,
    floating: None,
};

fn arithmetic(left: &Value, right: &Value, operator: &Operator) -> Result<Value> {
    if left.is_null() || right.is_null() {
        return Ok(Value::Null);
    }
    let pair = Pair::of(left, right)?.ok_or_else(|| undefined_pair(left, operator.symbol, right))?;
    match pair {
        Pair::SmallInt(_, 0) | Pair::Integer(_, 0) | Pair::BigInt(_, 0) if operator.divides => {
            Err(division_by_zero())
        }
        Pair::SmallInt(left, right) => {
            (operator.smallint)(left, right).map(Value::SmallInt).ok_or_else(|| out_of_range("smallint"))
        }
        Pair::Integer(left, right) => {
            (operator.integer)(left, right).map(Value::Integer).ok_or_else(|| out_of_range("integer"))
        }
        Pair::BigInt(left, right) => {
            (operator.bigint)(left, right).map(Value::BigInt).ok_or_else(|| out_of_range("bigint"))
        }
        Pair::Numeric(left, right) => (operator.numeric)(left, right).map(Value::Numeric),
        Pair::Number(left, right) => (operator.number)(&left, &right).map(|number| Value::number(&number)),
        Pair::Real(..) | Pair::Double(..) => match &operator.floating {
            Some(floating) => floating.apply(pair, operator.divides),
            None => Err(undefined_pair(left, operator.symbol, right)),
        },
    }
}

impl Floating {
    fn apply(&self, pair: Pair, divides: bool) -> Result<Value> {
        let (left, right) = match pair {
            Pair::Real(left, right) => (f64::from(left), f64::from(right)),
            Pair::Double(left, right) => (left, right),
            _ => return Err(Error::internal("floating point arithmetic on other numbers")),
        };
        if divides && right == 0.0 && !left.is_nan() {
            return Err(division_by_zero());
        }
        let infinite = left.is_infinite() || right.is_infinite();
        let zero = self.zero_is_exact || left == 0.0 || (!divides && right == 0.0) || (divides && infinite);
        match pair {
            Pair::Real(left, right) => check_real((self.real)(left, right), infinite, zero).map(Value::Real),
            _ => check_double((self.double)(left, right), infinite, zero).map(Value::Double),
        }
    }
}

#[cfg(test)]
#[path = "operator_tests.rs"]
mod tests;
