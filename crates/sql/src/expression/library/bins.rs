//! `date_bin`: the beginning of the stride that a moment is in, where one stride begins at the origin.

use super::entry::{Entry, entry, wrong_argument};
use ankerdb_engine::{DataType, Error, Interrupt, Result, SqlState, Value};
use ankerdb_value::is_infinite;

const INTERVAL: DataType = DataType::INTERVAL;
const TIMESTAMP: DataType = DataType::TIMESTAMP;
const TIMESTAMPTZ: DataType = DataType::TIMESTAMPTZ;
const MICROSECONDS_PER_DAY: i64 = 86_400_000_000;

pub(super) const ENTRIES: &[Entry] = &[
    entry("date_bin", &[INTERVAL, TIMESTAMP, TIMESTAMP], TIMESTAMP, date_bin),
    entry("date_bin", &[INTERVAL, TIMESTAMPTZ, TIMESTAMPTZ], TIMESTAMPTZ, date_bin),
];

fn out_of_range(message: &'static str) -> Error {
    Error::new(SqlState::DatetimeFieldOverflow, message)
}

/// A day of a stride has 24 hours, whatever the session's zone is.
fn date_bin(values: &[Value], _: &Interrupt) -> Result<Value> {
    let (stride, moment, origin) = match values {
        [Value::Interval(stride), Value::Timestamp(moment), Value::Timestamp(origin)]
        | [Value::Interval(stride), Value::TimestampTz(moment), Value::TimestampTz(origin)] => {
            (*stride, *moment, *origin)
        }
        _ => return Err(wrong_argument()),
    };
    let bin = if is_infinite(moment) { moment } else { bin(stride, moment, origin)? };
    Ok(match values[1] {
        Value::Timestamp(_) => Value::Timestamp(bin),
        _ => Value::TimestampTz(bin),
    })
}

fn bin(stride: ankerdb_engine::Interval, moment: i64, origin: i64) -> Result<i64> {
    if is_infinite(origin) {
        return Err(out_of_range("origin out of range"));
    }
    if stride.months != 0 {
        let message = "timestamps cannot be binned into intervals containing months or years";
        return Err(Error::new(SqlState::FeatureNotSupported, message));
    }
    let days = i64::from(stride.days).checked_mul(MICROSECONDS_PER_DAY);
    let stride = days.and_then(|days| days.checked_add(stride.microseconds));
    let stride = stride.ok_or_else(|| out_of_range("interval out of range"))?;
    if stride <= 0 {
        return Err(out_of_range("stride must be greater than zero"));
    }
    let distance = moment.checked_sub(origin).ok_or_else(|| out_of_range("interval out of range"))?;
    let begin = distance.div_euclid(stride).checked_mul(stride).and_then(|begin| begin.checked_add(origin));
    begin.ok_or_else(|| out_of_range("timestamp out of range"))
}
