//! `to_date` and `to_timestamp` with a picture.
//!
//! Reading is forgiving: blanks before fields are skipped, a separator of the picture meets any separator or none, other
//! characters of the picture meet any character. A number ends where its field's digits end if digits of another field
//! follow at once, and else where digits end.

use super::calendar::{
    JULIAN_EPOCH, MICROSECONDS_PER_DAY, MICROSECONDS_PER_SECOND, days_in_month, first_iso_day,
};
use super::entry::{Entry, entry, text};
use super::moment_picture::{MONTHS, MomentElement, PictureField, PicturePart, ROMAN_MONTHS, WEEKDAYS, read};
use crate::name::not_supported;
use ankerdb_engine::DataType::{Date, Text};
use ankerdb_engine::{DataType, Error, Interrupt, Result, SqlState, Value};
use ankerdb_value::{FIRST_DAY, LAST_DAY, Precision, Zone, civil_from_days, days_from_civil};

pub(super) const ENTRIES: &[Entry] = &[
    entry("to_date", &[Text, Text], Date, to_date).stable(),
    entry("to_timestamp", &[Text, Text], DataType::TIMESTAMPTZ, to_timestamp).stable(),
];

fn to_date(values: &[Value], _: &Interrupt) -> Result<Value> {
    let input = text(values, 0)?;
    let found = Reader::read(input, text(values, 1)?)?;
    let days = found.days(input)?;
    found.time(input)?;
    match (FIRST_DAY..=LAST_DAY).contains(&days) {
        true => Ok(Value::Date(days as i32)),
        false => {
            let message = format!("date out of range: \"{input}\"");
            Err(Error::new(SqlState::DatetimeFieldOverflow, message))
        }
    }
}

fn to_timestamp(values: &[Value], _: &Interrupt) -> Result<Value> {
    let input = text(values, 0)?;
    let found = Reader::read(input, text(values, 1)?)?;
    let local = found
        .days(input)?
        .checked_mul(MICROSECONDS_PER_DAY)
        .and_then(|midnight| midnight.checked_add(found.time(input).ok()?));
    found.time(input)?;
    let moment = local.and_then(|local| match found.offset_seconds() {
        Some(seconds) => local.checked_sub(seconds * MICROSECONDS_PER_SECOND),
        None => Zone::current().instant(local).ok(),
    });
    match moment.filter(|moment| *moment >= FIRST_DAY * MICROSECONDS_PER_DAY) {
        Some(moment) => Ok(Value::TimestampTz(found.precision.round_moment(moment))),
        None => Err(Error::new(SqlState::DatetimeFieldOverflow, "timestamp out of range")),
    }
}

fn malformed(message: String) -> Error {
    Error::new(SqlState::InvalidDatetimeFormat, message)
}

fn out_of_range(input: &str) -> Error {
    let message = format!("date/time field value out of range: \"{input}\"");
    Error::new(SqlState::DatetimeFieldOverflow, message)
}

/// The numbers that were found, by what they mean.
#[derive(Default, Debug)]
struct Found {
    year: Option<i64>,
    /// Digits that the year was written with.
    year_digits: usize,
    is_iso: Option<bool>,
    century: Option<i64>,
    before_christ: bool,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    week: Option<i64>,
    week_of_month: Option<i64>,
    iso_weekday: Option<i64>,
    julian: Option<i64>,
    hour: Option<i64>,
    is_twelve: bool,
    is_afternoon: bool,
    minute: Option<i64>,
    second: Option<i64>,
    second_of_day: Option<i64>,
    milliseconds: i64,
    microseconds: i64,
    zone_sign: i64,
    zone_hour: i64,
    zone_minute: i64,
    /// Fractional digits that the result has.
    precision: Precision,
}

struct Reader<'a> {
    input: &'a str,
    rest: &'a str,
    /// Characters skipped that the picture does not account for.
    skipped: i64,
    is_exact: bool,
    found: Found,
}

impl Reader<'_> {
    fn read(input: &str, picture: &str) -> Result<Found> {
        let places = read(picture);
        let mut reader = Reader { input, rest: input, skipped: 0, is_exact: false, found: Found::default() };
        for (number, place) in places.iter().enumerate() {
            if reader.rest.is_empty() {
                break;
            }
            if !reader.is_exact && (number == 0 || matches!(place, MomentElement::Part(_))) {
                let trimmed = reader.rest.trim_start();
                reader.skipped += (reader.rest.len() - trimmed.len()) as i64;
                reader.rest = trimmed;
                if reader.rest.is_empty() {
                    break;
                }
            }
            match place {
                MomentElement::Text(_, is_letter) => reader.pass(*is_letter),
                MomentElement::Part(part) => {
                    reader.part(part, ends_number(part, places.get(number + 1)))?;
                    if part.ordinal.is_some() {
                        reader.rest = reader.rest.get(2..).unwrap_or("");
                    }
                    reader.skip_behind();
                }
            }
        }
        Ok(reader.found)
    }

    /// Skips blanks behind a field.
    fn skip_behind(&mut self) {
        let trimmed = if self.is_exact { self.rest } else { self.rest.trim_start() };
        self.skipped = (self.rest.len() - trimmed.len()) as i64;
        self.rest = trimmed;
    }

    /// Meets a character of the picture.
    fn pass(&mut self, is_letter: bool) {
        let Some(next) = self.rest.chars().next() else { return };
        let is_separator = next.is_ascii() && !next.is_ascii_alphanumeric();
        if is_letter {
            match self.skipped > 0 && !self.is_exact {
                true => self.skipped -= 1,
                false => self.rest = &self.rest[next.len_utf8()..],
            }
        } else if self.is_exact || is_separator {
            self.rest = &self.rest[next.len_utf8()..];
        } else {
            self.skipped -= 1;
        }
    }

    /// A number of the field, and how many characters it has.
    fn number(&mut self, part: &PicturePart, width: usize, is_open: bool) -> Result<(i64, usize)> {
        self.rest = self.rest.trim_start();
        let limit = match is_open {
            true => self.rest.len(),
            false => self.rest.char_indices().nth(width).map_or(self.rest.len(), |(end, _)| end),
        };
        let available = &self.rest[..limit];
        let sign = usize::from(available.starts_with(['-', '+']));
        let digits = available[sign..].bytes().take_while(u8::is_ascii_digit).count();
        let used = if digits == 0 { 0 } else { sign + digits };
        if used == 0 {
            let message = format!("invalid value \"{available}\" for \"{}\"", part.word);
            return Err(malformed(message).with_detail("Value must be an integer."));
        }
        if !is_open && used < width {
            let message = format!("source string too short for \"{}\" formatting field", part.word);
            return Err(malformed(message));
        }
        let number: i32 = available[..used].parse().map_err(|_| {
            let message = format!("value for \"{}\" in source string is out of range", part.word);
            Error::new(SqlState::DatetimeFieldOverflow, message)
        })?;
        self.rest = &self.rest[used..];
        Ok((i64::from(number), used))
    }

    fn part(&mut self, part: &PicturePart, is_open: bool) -> Result<()> {
        let (width, slot): (usize, fn(&mut Found) -> &mut Option<i64>) = match part.field {
            PictureField::Exactly => {
                self.is_exact = true;
                return Ok(());
            }
            PictureField::Noon(_)
            | PictureField::Era(_)
            | PictureField::WeekdayName(_)
            | PictureField::MonthName(_)
            | PictureField::RomanMonth => {
                return self.name(part);
            }
            PictureField::Milliseconds => return self.fraction(part, 3, is_open),
            PictureField::Microseconds => return self.fraction(part, 6, is_open),
            PictureField::Fraction(digits) => return self.fraction(part, usize::from(digits), is_open),
            PictureField::Zone | PictureField::Offset => {
                return Err(not_supported(&format!("formatting field \"{}\" outside of to_char", part.word)));
            }
            PictureField::ZoneHour | PictureField::ZoneMinute => return self.zone(part, is_open),
            PictureField::Year(_) | PictureField::IsoYear(_) | PictureField::YearWithComma => {
                return self.year(part, is_open);
            }
            PictureField::Quarter => return self.number(part, 1, is_open).map(drop),
            PictureField::Century => (2, |found| &mut found.century),
            PictureField::DayOfYear | PictureField::IsoDayOfYear => (3, |found| &mut found.day_of_year),
            PictureField::Day => (2, |found| &mut found.day),
            PictureField::Weekday => return self.number(part, 1, is_open).map(drop),
            PictureField::IsoWeekday => (1, |found| &mut found.iso_weekday),
            PictureField::Hour24 | PictureField::Hour12 => (2, |found| &mut found.hour),
            PictureField::Minute => (2, |found| &mut found.minute),
            PictureField::Second => (2, |found| &mut found.second),
            PictureField::SecondOfDay => (5, |found| &mut found.second_of_day),
            PictureField::Month => (2, |found| &mut found.month),
            PictureField::Week | PictureField::IsoWeek => (2, |found| &mut found.week),
            PictureField::WeekOfMonth => (1, |found| &mut found.week_of_month),
            PictureField::Julian => (usize::MAX, |found| &mut found.julian),
        };
        self.convention(part)?;
        self.found.is_twelve |= part.field == PictureField::Hour12;
        let (number, _) = self.number(part, width, is_open || width == usize::MAX)?;
        set(slot(&mut self.found), number, part)
    }

    /// Notes which calendar the field belongs to.
    fn convention(&mut self, part: &PicturePart) -> Result<()> {
        let is_iso = match part.field {
            PictureField::IsoYear(_)
            | PictureField::IsoWeek
            | PictureField::IsoWeekday
            | PictureField::IsoDayOfYear => true,
            PictureField::Year(_)
            | PictureField::YearWithComma
            | PictureField::Month
            | PictureField::MonthName(_)
            | PictureField::RomanMonth
            | PictureField::Day
            | PictureField::DayOfYear
            | PictureField::Week
            | PictureField::WeekOfMonth => false,
            _ => return Ok(()),
        };
        match self.found.is_iso.replace(is_iso) {
            Some(other) if other != is_iso => {
                let hint = "Do not mix Gregorian and ISO week date conventions in a formatting template.";
                Err(malformed("invalid combination of date conventions".into()).with_hint(hint))
            }
            _ => Ok(()),
        }
    }

    fn year(&mut self, part: &PicturePart, is_open: bool) -> Result<()> {
        self.convention(part)?;
        let (number, digits) = match part.field {
            PictureField::Year(digits) | PictureField::IsoYear(digits) => {
                let (number, used) = self.number(part, usize::from(digits), is_open)?;
                // Of fewer than four digits the year nearest to 2020 is meant.
                let near = match number {
                    _ if digits == 4 || used >= 4 => number,
                    0..70 => number + 2000,
                    70..100 => number + 1900,
                    100..520 => number + 2000,
                    520..1000 => number + 1000,
                    other => other,
                };
                (near, usize::from(digits))
            }
            _ => {
                let (thousands, _) = self.number(part, usize::MAX, true)?;
                let refused = || malformed("invalid input string for \"Y,YYY\"".into());
                self.rest = self.rest.strip_prefix(',').ok_or_else(refused)?;
                let (rest, _) = self.number(part, 3, false)?;
                (thousands * 1000 + rest, 4)
            }
        };
        self.found.year_digits = digits;
        set(&mut self.found.year, number, part)
    }

    /// Digits behind the point: fewer than wanted stand for zeros behind them.
    fn fraction(&mut self, part: &PicturePart, width: usize, is_open: bool) -> Result<()> {
        let (number, used) = self.number(part, width, is_open)?;
        let scaled = |width: usize| number * 10i64.pow(width.saturating_sub(used) as u32);
        match part.field {
            PictureField::Milliseconds => self.found.milliseconds = scaled(3),
            _ => self.found.microseconds = scaled(6),
        }
        if let PictureField::Fraction(digits) = part.field {
            self.found.precision = Precision::digits(u32::from(digits));
        }
        Ok(())
    }

    fn zone(&mut self, part: &PicturePart, is_open: bool) -> Result<()> {
        if part.field == PictureField::ZoneMinute {
            self.found.zone_minute = self.number(part, 2, is_open)?.0;
            // East, if no hours tell.
            self.found.zone_sign = if self.found.zone_sign == 0 { 1 } else { self.found.zone_sign };
            return Ok(());
        }
        // A minus may have been taken for a separator that the picture does not have.
        let is_behind_minus =
            self.skipped > 0 && self.input[..self.input.len() - self.rest.len()].ends_with('-');
        let signed = self.rest.strip_prefix(['-', '+', ' ']);
        let is_west = if signed.is_some() { self.rest.starts_with('-') } else { is_behind_minus };
        self.found.zone_sign = if is_west { -1 } else { 1 };
        self.rest = signed.unwrap_or(self.rest);
        self.found.zone_hour = self.number(part, 2, is_open)?.0;
        Ok(())
    }

    fn name(&mut self, part: &PicturePart) -> Result<()> {
        self.convention(part)?;
        match part.field {
            PictureField::Noon(periods) => {
                let names: &[&str] = if periods { &["A.M.", "P.M."] } else { &["AM", "PM"] };
                self.found.is_afternoon = self.one_of(part, names.iter().copied())? % 2 == 1;
                self.found.is_twelve = true;
                Ok(())
            }
            PictureField::Era(periods) => {
                let names: &[&str] = if periods { &["A.D.", "B.C."] } else { &["AD", "BC"] };
                self.found.before_christ = self.one_of(part, names.iter().copied())? % 2 == 1;
                Ok(())
            }
            PictureField::MonthName(true) => self.month(part, MONTHS.iter().copied()),
            PictureField::MonthName(false) => self.month(part, MONTHS.iter().map(|name| &name[..3])),
            PictureField::RomanMonth => {
                // The longest that fits: XII before XI.
                let mut order: Vec<usize> = (0..12).collect();
                order.sort_by_key(|at| std::cmp::Reverse(ROMAN_MONTHS[*at].len()));
                let found = self.one_of(part, order.iter().map(|at| ROMAN_MONTHS[*at]))?;
                set(&mut self.found.month, order[found] as i64 + 1, part)
            }
            PictureField::WeekdayName(true) => self.one_of(part, WEEKDAYS.iter().copied()).map(drop),
            _ => self.one_of(part, WEEKDAYS.iter().map(|name| &name[..3])).map(drop),
        }
    }

    fn month<'n>(&mut self, part: &PicturePart, names: impl Iterator<Item = &'n str>) -> Result<()> {
        let month = self.one_of(part, names)? as i64 + 1;
        set(&mut self.found.month, month, part)
    }

    /// Takes one of the names, and tells which.
    fn one_of<'n>(&mut self, part: &PicturePart, names: impl Iterator<Item = &'n str>) -> Result<usize> {
        for (position, name) in names.enumerate() {
            if self.rest.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name)) {
                self.rest = &self.rest[name.len()..];
                return Ok(position);
            }
        }
        let word = self.rest.split(char::is_whitespace).next().unwrap_or_default();
        let detail = "The given value did not match any of the allowed values for this field.";
        Err(malformed(format!("invalid value \"{word}\" for \"{}\"", part.word)).with_detail(detail))
    }
}

/// Whether the number of a field ends where digits end, whatever the field's width.
fn ends_number(part: &PicturePart, next: Option<&MomentElement>) -> bool {
    match next {
        _ if part.is_short || part.ordinal.is_some() => true,
        None => true,
        Some(MomentElement::Part(next)) => !next.field.is_digits(),
        Some(MomentElement::Text(character, _)) => !character.is_ascii_digit(),
    }
}

fn set(slot: &mut Option<i64>, number: i64, part: &PicturePart) -> Result<()> {
    match slot.replace(number) {
        Some(other) if other != number && other != 0 => {
            let message = format!("conflicting values for \"{}\" field in formatting string", part.word);
            let detail = "This value contradicts a previous setting for the same field type.";
            Err(malformed(message).with_detail(detail))
        }
        _ => Ok(()),
    }
}

impl Found {
    /// The astronomical year; 0 if none was given.
    fn year(&self) -> i64 {
        let year = match (self.year.filter(|year| *year != 0), self.century) {
            (Some(year), Some(century)) if self.year_digits <= 2 => {
                let short = year % 100;
                match short {
                    0 => century * 100,
                    short => (century - 1) * 100 + short,
                }
            }
            (Some(year), _) => year,
            (None, Some(century)) if century > 0 => (century - 1) * 100 + 1,
            (None, Some(century)) => return century * 100 + 1,
            (None, None) => return 0,
        };
        let year = if self.before_christ { -year } else { year };
        if year < 0 { year + 1 } else { year }
    }

    /// Days since 1970-01-01.
    fn days(&self, input: &str) -> Result<i64> {
        if let Some(julian) = self.julian {
            return Ok(julian - JULIAN_EPOCH);
        }
        let year = self.year();
        if !(-4713..=5_874_897).contains(&year) {
            return Err(out_of_range(input));
        }
        let is_iso = self.is_iso == Some(true);
        if let (true, Some(week)) = (is_iso, self.week) {
            let weekday = self.iso_weekday.unwrap_or(1);
            return Ok(first_iso_day(year) + (week - 1) * 7 + weekday - 1);
        }
        let day_of_year = self.day_of_year.or(self.week.map(|week| (week - 1) * 7 + 1));
        let day = self.week_of_month.map(|week| (week - 1) * 7 + 1).or(self.day);
        if let (Some(number), None | Some(1)) = (day_of_year, self.month) {
            if self.year.is_none() && !self.before_christ {
                return Err(malformed("cannot calculate day of year without year information".into()));
            }
            let first = if is_iso { first_iso_day(year) } else { days_from_civil(year, 1, 1) };
            let days = first + number - 1;
            let is_in_year = is_iso || civil_from_days(days).0 == year;
            return if number >= 1 && is_in_year { Ok(days) } else { Err(out_of_range(input)) };
        }
        let (month, day) = (self.month.unwrap_or(1), day.unwrap_or(1));
        match (u32::try_from(month), u32::try_from(day)) {
            (Ok(month @ 1..=12), Ok(day)) if day >= 1 && day <= days_in_month(year, month) => {
                Ok(days_from_civil(year, month, day))
            }
            _ => Err(out_of_range(input)),
        }
    }

    /// Microseconds of the day.
    fn time(&self, input: &str) -> Result<i64> {
        let (mut hour, mut minute, mut second) =
            (self.hour.unwrap_or(0), self.minute.unwrap_or(0), self.second.unwrap_or(0));
        if let Some(seconds) = self.second_of_day {
            (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        }
        if self.is_twelve {
            if !(1..=12).contains(&hour) {
                let hint = "Use the 24-hour clock, or give an hour between 1 and 12.";
                return Err(
                    malformed(format!("hour \"{hour}\" is invalid for the 12-hour clock")).with_hint(hint)
                );
            }
            hour = hour % 12 + if self.is_afternoon { 12 } else { 0 };
        }
        let exists = (0..24).contains(&hour) && (0..60).contains(&minute) && (0..60).contains(&second);
        let fraction = self.milliseconds * 1000 + self.microseconds;
        match exists && (0..MICROSECONDS_PER_SECOND).contains(&fraction) {
            true => Ok(((hour * 60 + minute) * 60 + second) * MICROSECONDS_PER_SECOND + fraction),
            false => Err(out_of_range(input)),
        }
    }

    /// East of Greenwich, if that was written.
    fn offset_seconds(&self) -> Option<i64> {
        (self.zone_sign != 0).then(|| self.zone_sign * (self.zone_hour * 60 + self.zone_minute) * 60)
    }
}
