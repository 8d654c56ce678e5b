//! `to_char` of intervals.
//!
//! An interval's parts are shown as they are: there may be 400 days, and 25 hours. What only days of a calendar have, such as
//! names of months, is refused as in PostgreSQL (`formatting.c`).

use super::entry::{Entry, entry, text};
use super::moment_format::{lettered, noon, numbered};
use super::moment_picture::{MomentElement, PictureField, PicturePart, ROMAN_MONTHS, read};
use crate::name::not_supported;
use ankerdb_engine::DataType::Text;
use ankerdb_engine::{DataType, Error, Interrupt, Interval, Result, SqlState, Value};

pub(super) const ENTRIES: &[Entry] = &[entry("to_char", &[DataType::INTERVAL, Text], Text, to_char).stable()];

const SECOND: i64 = 1_000_000;

fn to_char(values: &[Value], _: &Interrupt) -> Result<Value> {
    let picture = text(values, 1)?;
    let (false, Some(Value::Interval(interval))) = (picture.is_empty(), values.first()) else {
        return Ok(Value::Null);
    };
    let mut out = String::with_capacity(picture.len() * 2);
    for place in read(picture) {
        match place {
            MomentElement::Text(character, _) => out.push(character),
            MomentElement::Part(part) => out.push_str(&shown(&part, *interval)?),
        }
    }
    Ok(Value::text(out))
}

fn shown(part: &PicturePart, interval: Interval) -> Result<String> {
    let hours = interval.microseconds / (3600 * SECOND);
    Ok(match part.field {
        PictureField::Exactly => String::new(),
        PictureField::Noon(periods) => lettered(noon(hours % 24 >= 12, periods), part.letters),
        PictureField::RomanMonth => {
            let month = roman_month(interval).map_or(String::new(), |month| lettered(month, part.letters));
            if part.is_short || month.is_empty() { month } else { format!("{month:<4}") }
        }
        // None but whole years: nothing.
        PictureField::Quarter if interval.months % 12 == 0 => String::new(),
        field => {
            let (number, width) = number(field, part.word, interval)?;
            numbered(part, number, width)
        }
    })
}

/// Twelve months are a whole year, after which the count begins anew; months before are counted from the end of a year.
fn roman_month(interval: Interval) -> Option<&'static str> {
    let (years, month) = (interval.months / 12, interval.months % 12);
    match month {
        0 if years == 0 => None,
        0 => Some(ROMAN_MONTHS[if years > 0 { 11 } else { 0 }]),
        1.. => Some(ROMAN_MONTHS[month as usize - 1]),
        _ => Some(ROMAN_MONTHS[(month + 12) as usize]),
    }
}

/// A number, and the digits that it is filled up to.
///
/// # Errors
/// 22007 for what only days of a calendar have.
fn number(field: PictureField, word: &str, interval: Interval) -> Result<(i64, usize)> {
    let (years, months) = (i64::from(interval.months / 12), i64::from(interval.months % 12));
    let days = i64::from(interval.days);
    let seconds = interval.microseconds / SECOND;
    let microsecond = interval.microseconds % SECOND;
    let (hours, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let all_days = i64::from(interval.months) * 30 + days;
    Ok(match field {
        PictureField::Century => (years / 100, 2),
        PictureField::Year(4) => (years, 4),
        PictureField::Year(digits) => (years % 10i64.pow(u32::from(digits)), usize::from(digits)),
        PictureField::YearWithComma => (years, 0),
        PictureField::Quarter => ((months - 1) / 3 + 1, 0),
        PictureField::Month => (months, 2),
        PictureField::Week => ((all_days - 1) / 7 + 1, 2),
        PictureField::WeekOfMonth => ((days - 1) / 7 + 1, 0),
        PictureField::DayOfYear => (all_days, 3),
        PictureField::Day => (days, 2),
        PictureField::Hour24 => (hours, 2),
        PictureField::Hour12 if hours % 12 == 0 => (12, 2),
        PictureField::Hour12 => (hours % 12, 2),
        PictureField::Minute => (minute, 2),
        PictureField::Second => (second, 2),
        PictureField::SecondOfDay => (seconds, 0),
        PictureField::Fraction(digits) => {
            (microsecond / 10i64.pow(6 - u32::from(digits)), usize::from(digits))
        }
        PictureField::Milliseconds => (microsecond / 1000, 3),
        PictureField::Microseconds => (microsecond, 6),
        // PostgreSQL counts them from the year 0 on.
        PictureField::IsoYear(_)
        | PictureField::IsoWeek
        | PictureField::IsoDayOfYear
        | PictureField::Julian => {
            return Err(not_supported(&format!("formatting field \"{word}\" of an interval")));
        }
        _ => {
            let message = "invalid format specification for an interval value";
            return Err(Error::new(SqlState::InvalidDatetimeFormat, message)
                .with_hint("Intervals are not tied to specific calendar dates."));
        }
    })
}
