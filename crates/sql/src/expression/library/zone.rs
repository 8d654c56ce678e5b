//! Time zones: UTC and fixed offsets, and `date_trunc` by the clocks of one.

use super::calendar::MICROSECONDS_PER_SECOND;
use super::entry::{Entry, entry, text, wrong_argument};
use crate::name::not_supported;
use ankerdb_engine::DataType::{Text, TimestampTz};
use ankerdb_engine::{Error, Interrupt, Result, SqlState, Value};
use ankerdb_value::date_trunc;

pub(super) const ENTRIES: &[Entry] =
    &[entry("date_trunc", &[Text, TimestampTz, Text], TimestampTz, date_trunc_in_zone)];

fn date_trunc_in_zone(values: &[Value], _: &Interrupt) -> Result<Value> {
    let offset = zone_seconds(text(values, 2)?)? * MICROSECONDS_PER_SECOND;
    let out_of_range = || Error::new(SqlState::DatetimeFieldOverflow, "timestamp out of range");
    let Some(Value::TimestampTz(moment)) = values.get(1) else { return Err(wrong_argument()) };
    let local = moment.checked_add(offset).ok_or_else(out_of_range)?;
    match date_trunc(text(values, 0)?, &Value::TimestampTz(local))? {
        Value::TimestampTz(cut) => cut.checked_sub(offset).map(Value::TimestampTz).ok_or_else(out_of_range),
        _ => Err(wrong_argument()),
    }
}

/// Seconds east of Greenwich of a zone by its name.
///
/// # Errors
/// 0A000 for zones other than UTC and fixed offsets.
pub(super) fn zone_seconds(name: &str) -> Result<i64> {
    if ["utc", "gmt", "z", "zulu", "etc/utc", "uct", "ut", "etc/gmt"].contains(&name.to_lowercase().as_str())
    {
        return Ok(0);
    }
    // A name that is only an offset has POSIX's sign: west is positive.
    let sign = if name.starts_with('-') { 1 } else { -1 };
    let digits = name.strip_prefix(['+', '-']).unwrap_or(name);
    let mut parts = digits.split(':').map(|part| part.parse::<i64>().ok().filter(|part| *part < 60));
    match (parts.next(), parts.next(), parts.next()) {
        (Some(Some(hours @ 0..=15)), None, None) => Ok(sign * hours * 3600),
        (Some(Some(hours @ 0..=15)), Some(Some(minutes)), None) => Ok(sign * (hours * 60 + minutes) * 60),
        _ => Err(not_supported(&format!("the time zone \"{name}\""))),
    }
}
