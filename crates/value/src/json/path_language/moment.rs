//! `.datetime()`: dates, times and timestamps in the ISO forms that PostgreSQL tries one after the other.
//!
//! ```text
//! [year-month-day] [" " or "T"] [hour:minute:second[.fraction] [zone hours[:minutes]]]
//! ```
//! Fields may have any number of digits, and blanks and a sign in front of them, as `to_timestamp` reads them.
//! Timestamps end early in 294247, as they do everywhere here; PostgreSQL's end 29 years later.

use super::super::string::unescaped;
use super::super::walk::JsonKind;
use super::item::{PathFailure, PathItem};
use super::run::{PathResult, item_error};
use crate::TimeTz;
use crate::datetime::{
    FIRST_DAY, LAST_DAY, MICROSECONDS_PER_DAY, civil_from_days, days_from_civil, days_in_month, push_time,
};
use crate::digits::push_digits;
use ankerdb_base::{Error, SqlState};
use std::cmp::Ordering;
use std::fmt;

const MICROSECONDS_PER_SECOND: i64 = 1_000_000;
/// A clock is less than so many hours from Greenwich.
const ZONE_HOURS: i64 = 16;

/// A value of `.datetime()`. Days and microseconds are counted from 1970; clocks that have a zone are so many seconds east of
/// Greenwich, and `local` is what they show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Moment {
    Date(i64),
    Time(i64),
    TimeTz { time: i64, east: i64 },
    Timestamp(i64),
    TimestampTz { local: i64, east: i64 },
}

/// What a string says.
///
/// # Errors
/// 22031 for what is no string or has no such form; 0A000 for a template.
pub(super) fn method(template: Option<&str>, item: &PathItem<'_>) -> PathResult<Moment> {
    let state = SqlState::InvalidArgumentForSqlJsonDatetimeFunction;
    if !item.is(JsonKind::String) {
        return Err(item_error(state, "jsonpath item method .datetime() can only be applied to a string"));
    }
    if template.is_some() {
        let message = "templates of the jsonpath item method .datetime() are not supported";
        let error = Error::new(SqlState::FeatureNotSupported, message).with_hint(
            "Without a template .datetime() reads dates, times and timestamps in their ISO forms.",
        );
        return Err(PathFailure::Other(error));
    }
    let text = unescaped(item.text())?;
    read(&text).ok_or_else(|| {
        let error = Error::new(state, format!("datetime format is not recognized: \"{text}\""))
            .with_hint("Use a datetime template argument to specify the input data format.");
        PathFailure::Item(error)
    })
}

pub(super) fn type_name(moment: Moment) -> &'static str {
    match moment {
        Moment::Date(_) => "date",
        Moment::Time(_) => "time without time zone",
        Moment::TimeTz { .. } => "time with time zone",
        Moment::Timestamp(_) => "timestamp without time zone",
        Moment::TimestampTz { .. } => "timestamp with time zone",
    }
}

/// Reads from left to right.
struct Cursor<'a> {
    rest: &'a str,
}

impl Cursor<'_> {
    fn skip_blanks(&mut self) -> bool {
        let trimmed = self.rest.trim_start_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']);
        let has_skipped = trimmed.len() < self.rest.len();
        self.rest = trimmed;
        has_skipped
    }

    fn skip(&mut self, separator: char) -> Option<()> {
        self.rest = self.rest.strip_prefix(separator)?;
        Some(())
    }

    /// A number with blanks and a sign in front of it, and how many characters it has.
    fn number(&mut self) -> Option<(i64, usize)> {
        self.skip_blanks();
        let sign = usize::from(self.rest.starts_with(['+', '-']));
        let digits = self.rest[sign..].bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = self.rest.split_at(sign + digits);
        self.rest = rest;
        // PostgreSQL holds fields in 32 bits.
        Some((i64::from(number.parse::<i32>().ok()?), number.len()))
    }

    fn field(&mut self, most: i64) -> Option<i64> {
        self.number().map(|(number, _)| number).filter(|number| (0..=most).contains(number))
    }
}

fn read(text: &str) -> Option<Moment> {
    let mut cursor = Cursor { rest: text };
    let date = date(&mut cursor);
    if date.is_none() {
        cursor.rest = text;
        let (time, east) = time_and_zone(&mut cursor)?;
        return Some(east.map_or(Moment::Time(time), |east| Moment::TimeTz { time, east }));
    }
    let days = date?;
    let before = cursor.rest;
    cursor.skip_blanks();
    if cursor.rest.is_empty() {
        return (FIRST_DAY..=LAST_DAY).contains(&days).then_some(Moment::Date(days));
    }
    cursor.rest = before;
    cursor.skip('T').or_else(|| cursor.skip(' '))?;
    let (time, east) = time_and_zone(&mut cursor)?;
    let local = days.checked_mul(MICROSECONDS_PER_DAY)?.checked_add(time)?;
    let instant = local.checked_sub(east.unwrap_or(0) * MICROSECONDS_PER_SECOND)?;
    if !crate::datetime::is_moment(instant) || !crate::datetime::is_moment(local) {
        return None;
    }
    Some(east.map_or(Moment::Timestamp(local), |east| Moment::TimestampTz { local, east }))
}

/// A date as a number of days.
fn date(cursor: &mut Cursor<'_>) -> Option<i64> {
    let (year, _) = cursor.number()?;
    cursor.skip('-')?;
    let month = cursor.field(12)?;
    cursor.skip('-')?;
    let day = cursor.field(31)?;
    // There is no year zero: -1 is 1 BC, and so is 0, as PostgreSQL reads it. Months and days that are zero are the first.
    let year = if year < 0 { year + 1 } else { year };
    let (month, day) = (month.max(1) as u32, day.max(1) as u32);
    (day <= days_in_month(year, month)).then(|| days_from_civil(year, month, day))
}

/// A time of day up to the end of the text, and its clock's distance from Greenwich.
fn time_and_zone(cursor: &mut Cursor<'_>) -> Option<(i64, Option<i64>)> {
    let hour = cursor.field(23)?;
    cursor.skip(':')?;
    let minute = cursor.field(59)?;
    cursor.skip(':')?;
    let second = cursor.field(59)?;
    let mut time = (hour * 3600 + minute * 60 + second) * MICROSECONDS_PER_SECOND;
    if cursor.skip('.').is_some() {
        let (fraction, length) = cursor.number()?;
        let scaled = fraction * 10i64.pow(6u32.saturating_sub(length as u32));
        time += Some(scaled).filter(|scaled| (0..MICROSECONDS_PER_SECOND).contains(scaled))?;
    }
    let has_blanks = cursor.skip_blanks();
    if cursor.rest.is_empty() {
        return Some((time, None));
    }
    let sign = match cursor.rest.as_bytes()[0] {
        b'-' => -1,
        b'+' => 1,
        _ if has_blanks => 0,
        _ => return None,
    };
    cursor.rest = &cursor.rest[usize::from(sign != 0)..];
    let hours = cursor.field(ZONE_HOURS - 1)?;
    let minutes = if cursor.skip(':').is_some() { cursor.field(59)? } else { 0 };
    cursor.skip_blanks();
    let east = (hours * 3600 + minutes * 60) * if sign < 0 { -1 } else { 1 };
    cursor.rest.is_empty().then_some((time, Some(east)))
}

/// The order of two; `None` where there is none.
///
/// # Errors
/// 0A000 where the session's time zone would decide.
pub(super) fn compare(left: Moment, right: Moment) -> PathResult<Option<Ordering>> {
    use Moment::{Date, Time, TimeTz as ZonedTime, Timestamp, TimestampTz};
    let instant = |local: i64, east: i64| local - east * MICROSECONDS_PER_SECOND;
    let midnight = |days: i64| i128::from(days) * i128::from(MICROSECONDS_PER_DAY);
    let zoned = |time: i64, east: i64| {
        let zoned = TimeTz::new(time, east * MICROSECONDS_PER_SECOND);
        (zoned.universal(), zoned.west)
    };
    Ok(Some(match (left, right) {
        (Date(one), Date(other)) | (Time(one), Time(other)) | (Timestamp(one), Timestamp(other)) => {
            one.cmp(&other)
        }
        (Date(days), Timestamp(local)) => midnight(days).cmp(&i128::from(local)),
        (Timestamp(local), Date(days)) => i128::from(local).cmp(&midnight(days)),
        (ZonedTime { time, east }, ZonedTime { time: other, east: other_east }) => {
            zoned(time, east).cmp(&zoned(other, other_east))
        }
        (TimestampTz { local, east }, TimestampTz { local: other, east: other_east }) => {
            instant(local, east).cmp(&instant(other, other_east))
        }
        (Time(_), ZonedTime { .. }) | (ZonedTime { .. }, Time(_)) => {
            return Err(zone_needed("time", "timetz"));
        }
        (Date(_), TimestampTz { .. }) | (TimestampTz { .. }, Date(_)) => {
            return Err(zone_needed("date", "timestamptz"));
        }
        (Timestamp(_), TimestampTz { .. }) | (TimestampTz { .. }, Timestamp(_)) => {
            return Err(zone_needed("timestamp", "timestamptz"));
        }
        _ => return Ok(None),
    }))
}

fn zone_needed(from: &str, to: &str) -> PathFailure {
    let message = format!("cannot convert value from {from} to {to} without time zone usage");
    let error = Error::new(SqlState::FeatureNotSupported, message)
        .with_hint("Use *_tz() function for time zone support.");
    PathFailure::Other(error)
}

/// The string that it is in a document.
impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::from("\"");
        let mut is_before_christ = false;
        let mut push_local = |local: i64, text: &mut String| {
            is_before_christ = push_date(local.div_euclid(MICROSECONDS_PER_DAY), text);
            text.push('T');
            push_time(local.rem_euclid(MICROSECONDS_PER_DAY), text);
        };
        match *self {
            Moment::Date(days) => is_before_christ = push_date(days, &mut text),
            Moment::Time(time) => push_time(time, &mut text),
            Moment::TimeTz { time, east } => {
                push_time(time, &mut text);
                push_zone(east, &mut text);
            }
            Moment::Timestamp(local) => push_local(local, &mut text),
            Moment::TimestampTz { local, east } => {
                push_local(local, &mut text);
                push_zone(east, &mut text);
            }
        }
        text.push_str(if is_before_christ { " BC\"" } else { "\"" });
        f.write_str(&text)
    }
}

/// Appends a date without its era; tells whether it is before Christ.
fn push_date(days: i64, out: &mut String) -> bool {
    let (year, month, day) = civil_from_days(days);
    push_digits((if year <= 0 { 1 - year } else { year }) as u64, 4, out);
    out.push('-');
    push_digits(u64::from(month), 2, out);
    out.push('-');
    push_digits(u64::from(day), 2, out);
    year <= 0
}

fn push_zone(east: i64, out: &mut String) {
    out.push(if east < 0 { '-' } else { '+' });
    push_digits(east.unsigned_abs() / 3600, 2, out);
    out.push(':');
    push_digits(east.unsigned_abs() / 60 % 60, 2, out);
}
