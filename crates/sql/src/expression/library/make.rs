//! Dates and timestamps made of numbers.

use super::calendar::{MICROSECONDS_PER_DAY, MICROSECONDS_PER_SECOND, days_in_month};
use super::entry::{Entry, double, entry, integer, invalid, text, wrong_argument};
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

/// The zone of `make_timestamptz`: an offset in it has ISO's sign, not POSIX's, and a sign always.
fn zone(name: &str) -> Result<Zone> {
    if name.starts_with(|first: char| first.is_ascii_digit()) {
        let message = format!("invalid input syntax for type numeric time zone: \"{name}\"");
        return Err(
            invalid(message).with_hint("Numeric time zones must have \"-\" or \"+\" as first character.")
        );
    }
    let Some([hours, minutes, seconds]) = name.strip_prefix(['+', '-']).and_then(offset) else {
        return named(name);
    };
    if hours > 15 || minutes > 59 || seconds > 59 {
        return Err(invalid(format!("numeric time zone \"{name}\" out of range")));
    }
    let east = (hours * 3600 + minutes * 60 + seconds) * MICROSECONDS_PER_SECOND;
    Ok(Zone::East(if name.starts_with('-') { -east } else { east }))
}

/// Hours, minutes and seconds, of which the latter may be missing, or hours and minutes as one number.
fn offset(written: &str) -> Option<[i64; 3]> {
    let mut numbers = [0; 3];
    let parts: Vec<&str> = written.split(':').collect();
    if parts.len() > numbers.len() {
        return None;
    }
    for (number, part) in numbers.iter_mut().zip(&parts) {
        let is_number = part.len() <= 9 && part.bytes().all(|digit| digit.is_ascii_digit());
        *number = if part.is_empty() { 0 } else { part.parse().ok().filter(|_| is_number)? };
    }
    if parts.len() == 1 && written.len() > 2 {
        numbers = [numbers[0] / 100, numbers[0] % 100, 0];
    }
    Some(numbers)
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

fn clock(_: &[Value], _: &Interrupt) -> Result<Value> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let since = since.map_err(|_| Error::internal("the clock stands before 1970"))?;
    Ok(Value::TimestampTz(since.as_micros() as i64))
}
