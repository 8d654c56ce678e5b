//! Dates and timestamps made of numbers.

use super::calendar::{MICROSECONDS_PER_DAY, MICROSECONDS_PER_SECOND, days_in_month};
use super::entry::{Entry, double, entry, integer, text, wrong_argument};
use crate::expression::zone::{Zone, named};
use ankerdb_engine::DataType::{Boolean, Date, DoublePrecision, Integer, Text};
use ankerdb_engine::{DataType, Error, Interrupt, Result, SqlState, Value};
use ankerdb_value::{
    FIRST_DAY, INFINITY, LAST_DAY, MINUS_INFINITY, days_from_civil, is_infinite, is_infinite_date,
};
use std::time::SystemTime;

pub(super) const ENTRIES: &[Entry] = &[
    entry("make_date", &[Integer, Integer, Integer], Date, make_date),
    entry(
        "make_timestamp",
        &[Integer, Integer, Integer, Integer, Integer, DoublePrecision],
        DataType::TIMESTAMP,
        make_timestamp,
    ),
    entry(
        "make_timestamptz",
        &[Integer, Integer, Integer, Integer, Integer, DoublePrecision],
        DataType::TIMESTAMPTZ,
        make_timestamptz,
    ),
    entry(
        "make_timestamptz",
        &[Integer, Integer, Integer, Integer, Integer, DoublePrecision, Text],
        DataType::TIMESTAMPTZ,
        make_timestamptz,
    ),
    entry("make_time", &[Integer, Integer, DoublePrecision], DataType::TIME, make_time),
    entry("to_timestamp", &[DoublePrecision], DataType::TIMESTAMPTZ, of_epoch),
    entry("isfinite", &[Date], Boolean, is_finite),
    entry("isfinite", &[DataType::TIMESTAMP], Boolean, is_finite),
    entry("isfinite", &[DataType::TIMESTAMPTZ], Boolean, is_finite),
    entry("isfinite", &[DataType::INTERVAL], Boolean, is_finite),
    entry(
        "overlaps",
        &[DataType::TIMESTAMP, DataType::TIMESTAMP, DataType::TIMESTAMP, DataType::TIMESTAMP],
        Boolean,
        overlaps,
    )
    .lenient(),
    entry(
        "overlaps",
        &[DataType::TIMESTAMPTZ, DataType::TIMESTAMPTZ, DataType::TIMESTAMPTZ, DataType::TIMESTAMPTZ],
        Boolean,
        overlaps,
    )
    .lenient(),
    entry("clock_timestamp", &[], DataType::TIMESTAMPTZ, clock).volatile(),
];

fn overflow(message: impl Into<String>) -> Error {
    Error::new(SqlState::DatetimeFieldOverflow, message.into())
}

/// Days since 1970-01-01. Years before 1 are those BC: -1 is 1 BC.
fn days(values: &[Value]) -> Result<i64> {
    let (year, month, day) = (integer(values, 0)?, integer(values, 1)?, integer(values, 2)?);
    let refused = || overflow(format!("date field value out of range: {year}-{month:02}-{day:02}"));
    let astronomical = if year < 0 { year + 1 } else { year };
    let month = u32::try_from(month).ok().filter(|month| (1..=12).contains(month)).ok_or_else(refused)?;
    let day = u32::try_from(day).ok().filter(|day| *day >= 1).ok_or_else(refused)?;
    if year == 0 || day > days_in_month(astronomical, month) {
        return Err(refused());
    }
    let days = days_from_civil(astronomical, month, day);
    match (FIRST_DAY..=LAST_DAY).contains(&days) {
        true => Ok(days),
        false => Err(overflow(format!("date out of range: {year}-{month:02}-{day:02}"))),
    }
}

fn make_date(values: &[Value], _: &Interrupt) -> Result<Value> {
    days(values).map(|days| Value::Date(days as i32))
}

fn moment(values: &[Value]) -> Result<i64> {
    let (days, time) = (days(values)?, time_of_day(&values[3..])?);
    let moment = days.checked_mul(MICROSECONDS_PER_DAY).and_then(|midnight| midnight.checked_add(time));
    moment.ok_or_else(|| overflow("timestamp out of range"))
}

fn make_time(values: &[Value], _: &Interrupt) -> Result<Value> {
    time_of_day(values).map(Value::Time)
}

/// Microseconds since midnight.
fn time_of_day(values: &[Value]) -> Result<i64> {
    let (hour, minute, second) = (integer(values, 0)?, integer(values, 1)?, double(values, 2)?);
    let in_hour = (0..=59).contains(&minute) && (0.0..=60.0).contains(&second);
    let is_midnight = hour == 24 && minute == 0 && second == 0.0;
    if !in_hour || !((0..=23).contains(&hour) || is_midnight) {
        let second = match second == second.trunc() {
            true => format!("{second:02}"),
            false => format!("{}{second}", if second.abs() < 10.0 { "0" } else { "" }),
        };
        return Err(overflow(format!("time field value out of range: {hour}:{minute:02}:{second}")));
    }
    Ok((hour * 60 + minute) * 60 * MICROSECONDS_PER_SECOND
        + (second * MICROSECONDS_PER_SECOND as f64).round_ties_even() as i64)
}

fn make_timestamp(values: &[Value], _: &Interrupt) -> Result<Value> {
    moment(values).map(Value::Timestamp)
}

fn make_timestamptz(values: &[Value], _: &Interrupt) -> Result<Value> {
    let zone = if values.len() > 6 { zone(text(values, 6)?)? } else { Zone::current() };
    zone.instant(moment(values)?).map(Value::TimestampTz)
}

/// The zone of `make_timestamptz`: an offset in it has ISO's sign, not POSIX's.
fn zone(name: &str) -> Result<Zone> {
    match named(name)? {
        Zone::East(west) if name.starts_with(['+', '-']) => Ok(Zone::East(-west)),
        zone => Ok(zone),
    }
}

/// Seconds since 1970-01-01 UTC.
fn of_epoch(values: &[Value], _: &Interrupt) -> Result<Value> {
    let seconds = double(values, 0)?;
    if seconds.is_nan() {
        return Err(overflow("timestamp cannot be NaN"));
    }
    if seconds.is_infinite() {
        return Ok(Value::TimestampTz(if seconds > 0.0 { INFINITY } else { MINUS_INFINITY }));
    }
    let range = FIRST_DAY as f64 * 86_400.0..9_223_372_036_854.775;
    if !range.contains(&seconds) {
        return Err(overflow(format!("timestamp out of range: \"{seconds}\"")));
    }
    let moment = (seconds * MICROSECONDS_PER_SECOND as f64).round_ties_even();
    Ok(Value::TimestampTz(moment as i64))
}

fn is_finite(values: &[Value], _: &Interrupt) -> Result<Value> {
    match values {
        [Value::Date(days)] => Ok(Value::Boolean(!is_infinite_date(*days))),
        [Value::Timestamp(moment) | Value::TimestampTz(moment)] => Ok(Value::Boolean(!is_infinite(*moment))),
        [Value::Interval(_)] => Ok(Value::Boolean(true)),
        _ => Err(wrong_argument()),
    }
}

/// Whether two periods have a moment in common. A period with one end missing is the other end.
fn overlaps(values: &[Value], _: &Interrupt) -> Result<Value> {
    let moment = |position: usize| match values.get(position) {
        Some(Value::Timestamp(moment) | Value::TimestampTz(moment)) => Some(*moment),
        _ => None,
    };
    // In order, and the one that is missing last.
    let period = |first: Option<i64>, second: Option<i64>| match (first, second) {
        (Some(first), Some(second)) => Some((first.min(second), Some(first.max(second)))),
        (Some(only), None) | (None, Some(only)) => Some((only, None)),
        (None, None) => None,
    };
    let periods = (period(moment(0), moment(1)), period(moment(2), moment(3)));
    let (Some(left), Some(right)) = periods else { return Ok(Value::Null) };
    let (earlier, later) = if left.0 <= right.0 { (left, right) } else { (right, left) };
    Ok(match earlier {
        _ if earlier.0 == later.0 && earlier.1.is_some() && later.1.is_some() => Value::Boolean(true),
        _ if earlier.0 == later.0 => Value::Null,
        (_, None) => Value::Null,
        (_, Some(end)) => Value::Boolean(later.0 < end),
    })
}

fn clock(_: &[Value], _: &Interrupt) -> Result<Value> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let since = since.map_err(|_| Error::internal("the clock stands before 1970"))?;
    Ok(Value::TimestampTz(since.as_micros() as i64))
}
