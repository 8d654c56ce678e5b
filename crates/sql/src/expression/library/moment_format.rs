//! `to_char` of dates and timestamps.

use super::calendar::{JULIAN_EPOCH, MICROSECONDS_PER_SECOND, Parts};
use super::entry::{Entry, entry, text};
use super::moment_picture::{
    Letters, MONTHS, MomentElement, PictureField, PicturePart, ROMAN_MONTHS, WEEKDAYS, read,
};
use super::number_picture::ordinal;
use ankerdb_engine::DataType::Text;
use ankerdb_engine::{DataType, Interrupt, Result, Value};
use ankerdb_value::{Zone, is_infinite, is_infinite_date};

pub(super) const ENTRIES: &[Entry] = &[
    entry("to_char", &[DataType::TIMESTAMP, Text], Text, to_char).stable(),
    entry("to_char", &[DataType::TIMESTAMPTZ, Text], Text, to_char).stable(),
];

fn to_char(values: &[Value], _: &Interrupt) -> Result<Value> {
    let picture = text(values, 1)?;
    if picture.is_empty() {
        return Ok(Value::Null);
    }
    let is_infinity = match values.first() {
        Some(Value::Date(days)) => is_infinite_date(*days),
        Some(Value::Timestamp(moment) | Value::TimestampTz(moment)) => is_infinite(*moment),
        _ => false,
    };
    if is_infinity {
        return Ok(Value::Null);
    }
    let parts = Parts::of(values.first())?;
    let clock = match values.first() {
        Some(Value::TimestampTz(moment)) => Clock::at(*moment)?,
        _ => Clock::default(),
    };
    let mut out = String::with_capacity(picture.len() * 2);
    for place in read(picture) {
        match place {
            MomentElement::Text(character, _) => out.push(character),
            MomentElement::Part(part) => out.push_str(&shown(&part, &parts, &clock)),
        }
    }
    Ok(Value::text(out))
}

/// What a session's clocks say of themselves; nothing for a timestamp without time zone.
#[derive(Default)]
struct Clock {
    name: String,
    /// Seconds east of Greenwich.
    east: i64,
}

impl Clock {
    fn at(moment: i64) -> Result<Clock> {
        let zone = Zone::current();
        Ok(Clock { name: zone.abbreviation(moment), east: zone.east(moment)? / MICROSECONDS_PER_SECOND })
    }

    fn hours(&self) -> String {
        format!("{}{:02}", if self.east < 0 { '-' } else { '+' }, self.east.abs() / 3600)
    }

    fn minutes(&self) -> i64 {
        self.east.abs() / 60 % 60
    }
}

fn shown(part: &PicturePart, parts: &Parts, clock: &Clock) -> String {
    if let Some(name) = name(part, parts, clock) {
        return name;
    }
    let (number, width) = number(part.field, parts);
    numbered(part, number, width)
}

/// A number in digits, filled up to so many.
pub(super) fn numbered(part: &PicturePart, number: i64, width: usize) -> String {
    let width = if part.is_short { 0 } else { width };
    let digits = match part.field {
        PictureField::YearWithComma => format!("{},{:03}", number / 1000, number % 1000),
        PictureField::Fraction(_) | PictureField::Milliseconds | PictureField::Microseconds => {
            let width =
                if let PictureField::Fraction(digits) = part.field { usize::from(digits) } else { width };
            format!("{number:0width$}", width = width.max(fraction_width(part.field)))
        }
        _ if number < 0 => format!("{number:0width$}", width = if width > 0 { width + 1 } else { 0 }),
        _ => format!("{number:0width$}"),
    };
    match part.ordinal {
        None => digits,
        Some(capital) => {
            let suffix = ordinal(&digits);
            format!("{digits}{}", if capital { suffix.to_uppercase() } else { suffix.to_owned() })
        }
    }
}

/// Digits of a fraction of a second, which are never left out.
fn fraction_width(field: PictureField) -> usize {
    match field {
        PictureField::Fraction(digits) => usize::from(digits),
        PictureField::Milliseconds => 3,
        _ => 6,
    }
}

/// What is shown by letters and signs.
fn name(part: &PicturePart, parts: &Parts, clock: &Clock) -> Option<String> {
    let padded = |name: &str, width: usize| match part.is_short {
        true => lettered(name, part.letters),
        false => format!("{:<width$}", lettered(name, part.letters)),
    };
    Some(match part.field {
        PictureField::Noon(periods) => lettered(noon(parts.hour >= 12, periods), part.letters),
        PictureField::Era(periods) => {
            let name = match (parts.year > 0, periods) {
                (true, false) => "AD",
                (false, false) => "BC",
                (true, true) => "A.D.",
                (false, true) => "B.C.",
            };
            lettered(name, part.letters)
        }
        PictureField::WeekdayName(is_whole) => {
            let name = WEEKDAYS[parts.weekday() as usize];
            if is_whole { padded(name, 9) } else { lettered(&name[..3], part.letters) }
        }
        PictureField::MonthName(is_whole) => {
            let name = MONTHS[parts.month as usize - 1];
            if is_whole { padded(name, 9) } else { lettered(&name[..3], part.letters) }
        }
        PictureField::RomanMonth => padded(ROMAN_MONTHS[parts.month as usize - 1], 4),
        PictureField::Zone => lettered(&clock.name, part.letters),
        PictureField::Exactly => String::new(),
        PictureField::Offset if clock.minutes() != 0 => format!("{}:{:02}", clock.hours(), clock.minutes()),
        PictureField::Offset | PictureField::ZoneHour => clock.hours(),
        PictureField::ZoneMinute => format!("{:02}", clock.minutes()),
        _ => return None,
    })
}

/// AM or PM.
pub(super) fn noon(is_behind: bool, periods: bool) -> &'static str {
    match (is_behind, periods) {
        (false, false) => "AM",
        (true, false) => "PM",
        (false, true) => "A.M.",
        (true, true) => "P.M.",
    }
}

pub(super) fn lettered(name: &str, letters: Letters) -> String {
    match letters {
        Letters::Upper => name.to_uppercase(),
        Letters::Lower => name.to_lowercase(),
        Letters::First => name.to_owned(),
    }
}

/// A number, and the digits that it is filled up to.
fn number(field: PictureField, parts: &Parts) -> (i64, usize) {
    let positive = |year: i64| if year > 0 { year } else { 1 - year };
    let of_year = |year: i64, digits: u8| match digits {
        4 => (year, 4),
        _ => (year % 10i64.pow(u32::from(digits)), usize::from(digits)),
    };
    match field {
        PictureField::Century => (parts.century(), 2),
        PictureField::DayOfYear => (parts.day_of_year(), 3),
        PictureField::IsoDayOfYear => (parts.iso_day_of_year(), 3),
        PictureField::Day => (i64::from(parts.day), 2),
        PictureField::Weekday => (parts.weekday() + 1, 0),
        PictureField::IsoWeekday => (parts.iso_weekday(), 0),
        PictureField::Fraction(digits) => {
            (parts.microsecond / 10i64.pow(6 - u32::from(digits)), usize::from(digits))
        }
        PictureField::Hour24 => (parts.hour, 2),
        PictureField::Hour12 => ((parts.hour + 11) % 12 + 1, 2),
        PictureField::Minute => (parts.minute, 2),
        PictureField::Second => (parts.second, 2),
        PictureField::SecondOfDay => ((parts.hour * 60 + parts.minute) * 60 + parts.second, 0),
        PictureField::Year(digits) => of_year(positive(parts.year), digits),
        PictureField::IsoYear(digits) => of_year(positive(parts.iso_week().0), digits),
        PictureField::YearWithComma => (positive(parts.year), 0),
        PictureField::Quarter => (i64::from(parts.month - 1) / 3 + 1, 0),
        PictureField::Month => (i64::from(parts.month), 2),
        PictureField::Week => ((parts.day_of_year() - 1) / 7 + 1, 2),
        PictureField::IsoWeek => (parts.iso_week().1, 2),
        PictureField::WeekOfMonth => (i64::from(parts.day - 1) / 7 + 1, 0),
        PictureField::Julian => (parts.days + JULIAN_EPOCH, 0),
        PictureField::Milliseconds => (parts.microsecond / 1000, 3),
        PictureField::Microseconds => (parts.microsecond, 6),
        _ => (0, 0),
    }
}
