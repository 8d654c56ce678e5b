//! Calendar arithmetic for dates and timestamps, and their text forms.
//!
//! Dates are days, timestamps microseconds since 1970-01-01; the calendar is the proleptic Gregorian one, as in
//! PostgreSQL: today's leap year rule for all years, no leap seconds. Years count astronomically inside (year 0
//! is 1 BC, year -1 is 2 BC) and get their `BC` only in text. The session time zone is always UTC.
//!
//! A calendar cycle has 400 years or 146,097 days. Starting the year in March puts the leap day last, so that
//! the day of the year follows from the month by one linear formula.
//!
//! Accepted: dates from 4714-11-24 BC to 5874897-12-31, as in PostgreSQL; timestamps from the same day to what
//! 64 bits of microseconds hold, early in 294247. Every other value of an `i32` or `i64` is still written.
//! Not accepted: `infinity`, names of months, other field orders than year-month-day, other zones than offsets.

use crate::digits::push_digits;
use crate::literal::trim;
use crate::zone::{Zone, push_offset};
use ankerdb_base::{Error, Result, SqlState};

/// Microseconds in one day.
pub(crate) const MICROSECONDS_PER_DAY: i64 = 86_400_000_000;

const MICROSECONDS_PER_SECOND: i64 = 1_000_000;
const HOUR: i64 = 3600 * MICROSECONDS_PER_SECOND;
const DAYS_PER_CYCLE: i64 = 146_097;
const YEARS_PER_CYCLE: i64 = 400;
/// Days from 0000-03-01 to 1970-01-01.
const EPOCH_FROM_MARCH: i64 = 719_468;
/// 4714-11-24 BC, day zero of the Julian day count.
pub const FIRST_DAY: i64 = -2_440_588;
/// 5874897-12-31, PostgreSQL's last day.
pub const LAST_DAY: i64 = 2_145_042_905;

/// The day's number since 1970-01-01. The date must exist.
pub fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    let march_year = year - i64::from(month <= 2);
    let (cycle, year_of_cycle) =
        (march_year.div_euclid(YEARS_PER_CYCLE), march_year.rem_euclid(YEARS_PER_CYCLE));
    let march_month = i64::from((month + 9) % 12);
    let day_of_year = (153 * march_month + 2) / 5 + i64::from(day) - 1;
    let day_of_cycle = year_of_cycle * 365 + year_of_cycle / 4 - year_of_cycle / 100 + day_of_year;
    cycle * DAYS_PER_CYCLE + day_of_cycle - EPOCH_FROM_MARCH
}

/// Year, month and day of a day's number.
pub fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let shifted = days + EPOCH_FROM_MARCH;
    let (cycle, day_of_cycle) = (shifted.div_euclid(DAYS_PER_CYCLE), shifted.rem_euclid(DAYS_PER_CYCLE));
    // Take the leap days out: one ends each 4 years (1,461 days), none each 100 (36,524), one each 400.
    let leap_days = day_of_cycle / 1_460 - day_of_cycle / 36_524 + day_of_cycle / 146_096;
    let year_of_cycle = (day_of_cycle - leap_days) / 365;
    let day_of_year = day_of_cycle - (year_of_cycle * 365 + year_of_cycle / 4 - year_of_cycle / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = cycle * YEARS_PER_CYCLE + year_of_cycle + i64::from(month <= 2);
    (year, month as u32, day as u32)
}

pub(crate) fn days_in_month(year: i64, month: u32) -> u32 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Appends the date in ISO form, years before 1 as `BC`.
pub(crate) fn format_date(days: i32, out: &mut String) {
    let before_christ = push_date(i64::from(days), out);
    push_era(before_christ, out);
}

/// Appends the timestamp in ISO form; `zone` is `""` or `"+00"`.
pub(crate) fn format_timestamp(microseconds: i64, zone: &str, out: &mut String) {
    let before_christ = push_date(microseconds.div_euclid(MICROSECONDS_PER_DAY), out);
    out.push(' ');
    push_time(microseconds.rem_euclid(MICROSECONDS_PER_DAY), out);
    out.push_str(zone);
    push_era(before_christ, out);
}

/// Appends the instant in ISO form, as the clocks of the thread's zone show it.
pub(crate) fn format_timestamptz(microseconds: i64, out: &mut String) {
    let zone = Zone::current();
    // An instant at the end of what there is may have no time in the zone.
    let east = if zone == Zone::Utc { Ok(0) } else { zone.east(microseconds) };
    let shown = east.ok().and_then(|east| Some((microseconds.checked_add(east)?, east)));
    let (local, east) = shown.unwrap_or((microseconds, 0));
    let mut offset = String::new();
    push_offset(east / MICROSECONDS_PER_SECOND, &mut offset);
    format_timestamp(local, &offset, out);
}

fn push_date(days: i64, out: &mut String) -> bool {
    let (year, month, day) = civil_from_days(days);
    let before_christ = year <= 0;
    let shown = if before_christ { 1 - year } else { year };
    push_digits(shown as u64, 4, out);
    out.push('-');
    push_digits(u64::from(month), 2, out);
    out.push('-');
    push_digits(u64::from(day), 2, out);
    before_christ
}

/// Appends a time of day.
pub(crate) fn push_time(microseconds: i64, out: &mut String) {
    let seconds = (microseconds / MICROSECONDS_PER_SECOND) as u64;
    push_digits(seconds / 3600, 2, out);
    out.push(':');
    push_digits(seconds / 60 % 60, 2, out);
    out.push(':');
    push_digits(seconds % 60, 2, out);
    let fraction = (microseconds % MICROSECONDS_PER_SECOND) as u64;
    if fraction != 0 {
        out.push('.');
        push_digits(fraction, 6, out);
        out.truncate(out.trim_end_matches('0').len());
    }
}

fn push_era(before_christ: bool, out: &mut String) {
    if before_christ {
        out.push_str(" BC");
    }
}

/// Reads a date; the time and zone of a timestamp are checked and dropped.
pub(crate) fn parse_date(text: &str) -> Result<i32> {
    let parsed = parse_moment(text, "date")?;
    if !(FIRST_DAY..=LAST_DAY).contains(&parsed.days) {
        return Err(Error::new(SqlState::DatetimeFieldOverflow, format!("date out of range: \"{text}\"")));
    }
    // LAST_DAY is below i32::MAX.
    Ok(parsed.days as i32)
}

/// Reads a time of day: `04:05:06.7`, `040506`, with AM or PM, behind a date that is dropped; a zone is checked and dropped.
pub(crate) fn parse_time_of_day(text: &str) -> Result<i64> {
    let body = trim(text);
    let parsed = match parse_clock(body) {
        Err(Refusal::Malformed) if body.contains([' ', 'T', 't']) => {
            parse_parts(body).map(|moment| moment.time)
        }
        other => other,
    };
    parsed.map_err(|refusal| refused(refusal, text, "time"))
}

/// Reads a time of day as [`parse_time_of_day`] does, and how many seconds east of Greenwich its clock is: what is written, or the
/// thread's zone on that day, or today.
pub(crate) fn parse_time_with_zone(text: &str) -> Result<(i64, i64)> {
    let body = trim(text);
    let (moment, has_day) = match parse_clock_and_zone(body) {
        Err(Refusal::Malformed) if body.contains([' ', 'T', 't']) => (parse_parts(body), true),
        other => (other, false),
    };
    let moment = moment.map_err(|refusal| refused(refusal, text, "time with time zone"))?;
    let zone = Zone::current();
    let east = match (moment.zone_seconds, moment.microseconds(0)) {
        (Some(seconds), _) => return Ok((moment.time, seconds)),
        (None, Some(local)) if has_day => zone.east(zone.instant(local)?)?,
        _ => zone.east_today()?,
    };
    Ok((moment.time, east / MICROSECONDS_PER_SECOND))
}

fn parse_clock(body: &str) -> Result<i64, Refusal> {
    parse_clock_and_zone(body).map(|moment| moment.time)
}

/// `HH:MM[:SS[.fraction]]` or `HHMMSS`, `AM` or `PM`, and a zone.
fn parse_clock_and_zone(body: &str) -> Result<Moment, Refusal> {
    let mut cursor = Cursor { rest: body };
    let digits = body.bytes().take_while(u8::is_ascii_digit).count();
    let time = match digits {
        4 | 6 => {
            let digits = cursor.digits();
            let (hour, rest) = digits.split_at(2);
            let seconds = if rest.len() > 2 { format!(":{}", &rest[2..]) } else { String::new() };
            let fraction =
                if cursor.skip_one(&['.']) { format!(".{}", cursor.digits()) } else { String::new() };
            parse_time(&mut Cursor { rest: &format!("{hour}:{}{seconds}{fraction}", &rest[..2]) })?
        }
        _ => parse_time(&mut cursor)?,
    };
    cursor.skip_blanks();
    let half = cursor.rest.get(..2).map(str::to_ascii_lowercase);
    let hour = time / HOUR;
    let time = match half.as_deref() {
        Some("am" | "pm") if !(1..=12).contains(&hour) => return Err(Refusal::NoSuchMoment),
        Some("am") if hour == 12 => time - 12 * HOUR,
        Some("pm") if hour != 12 => time + 12 * HOUR,
        _ => time,
    };
    if matches!(half.as_deref(), Some("am" | "pm")) {
        cursor.rest = &cursor.rest[2..];
        cursor.skip_blanks();
    }
    let zone_seconds = parse_zone(cursor.rest)?;
    let zone_seconds = Some(zone_seconds).filter(|_| !cursor.rest.is_empty());
    Ok(Moment { days: 0, time, zone_seconds })
}

/// Reads a timestamp; a zone is checked and dropped, as PostgreSQL does.
pub(crate) fn parse_timestamp(text: &str) -> Result<i64> {
    let parsed = parse_moment(text, "timestamp")?;
    parsed.microseconds(0).ok_or_else(|| timestamp_out_of_range(text))
}

/// Reads a timestamp with time zone; without one it is of the thread's zone.
pub(crate) fn parse_timestamptz(text: &str) -> Result<i64> {
    let parsed = parse_moment(text, "timestamp with time zone")?;
    let moment = match parsed.zone_seconds {
        Some(seconds) => parsed.microseconds(seconds),
        None => {
            let local = parsed.microseconds(0);
            local.and_then(|local| Zone::current().instant(local).ok())
        }
    };
    let first = FIRST_DAY * MICROSECONDS_PER_DAY;
    moment.filter(|moment| *moment >= first).ok_or_else(|| timestamp_out_of_range(text))
}

fn timestamp_out_of_range(text: &str) -> Error {
    Error::new(SqlState::DatetimeFieldOverflow, format!("timestamp out of range: \"{text}\""))
}

/// The parts of a literal.
#[derive(Default)]
struct Moment {
    days: i64,
    /// Microseconds of the day; 24:00:00 is allowed.
    time: i64,
    /// East of Greenwich, if that was written.
    zone_seconds: Option<i64>,
}

impl Moment {
    fn microseconds(&self, zone_seconds: i64) -> Option<i64> {
        let local = self.days.checked_mul(MICROSECONDS_PER_DAY)?.checked_add(self.time)?;
        let moment = local.checked_sub(zone_seconds * MICROSECONDS_PER_SECOND)?;
        (moment >= FIRST_DAY * MICROSECONDS_PER_DAY).then_some(moment)
    }
}

/// Why a literal is refused.
enum Refusal {
    Malformed,
    NoSuchMoment,
    NoSuchZone,
}

fn parse_moment(text: &str, type_name: &str) -> Result<Moment> {
    let body = trim(text);
    if ["infinity", "+infinity", "-infinity"].iter().any(|name| body.eq_ignore_ascii_case(name)) {
        let message = format!("{type_name} value \"{body}\" is not supported");
        return Err(Error::new(SqlState::FeatureNotSupported, message));
    }
    parse_parts(body).map_err(|refusal| refused(refusal, text, type_name))
}

fn refused(refusal: Refusal, text: &str, type_name: &str) -> Error {
    match refusal {
        Refusal::Malformed
            if !type_name.starts_with("time ") && type_name != "time" && is_field_too_large(trim(text)) =>
        {
            Error::new(
                SqlState::DatetimeFieldOverflow,
                format!("date/time field value out of range: \"{text}\""),
            )
        }
        Refusal::Malformed => Error::new(
            SqlState::InvalidDatetimeFormat,
            format!("invalid input syntax for type {type_name}: \"{text}\""),
        ),
        Refusal::NoSuchMoment => Error::new(
            SqlState::DatetimeFieldOverflow,
            format!("date/time field value out of range: \"{text}\""),
        ),
        Refusal::NoSuchZone => Error::new(
            SqlState::InvalidTimeZoneDisplacement,
            format!("time zone displacement out of range: \"{text}\""),
        ),
    }
}

/// Whether a lone number is one of a month that does not exist, or has the digits of a day that does not.
fn is_field_too_large(body: &str) -> bool {
    let is_month = |number: u32| (1..=12).contains(&number);
    match body.len() {
        _ if !body.bytes().all(|byte| byte.is_ascii_digit()) => false,
        1 | 2 => !body.parse().is_ok_and(is_month),
        length => length >= 6,
    }
}

/// `date [T time [zone]] [AD | BC]`
fn parse_parts(body: &str) -> Result<Moment, Refusal> {
    if body.eq_ignore_ascii_case("epoch") {
        return Ok(Moment { zone_seconds: Some(0), ..Moment::default() });
    }
    let (body, before_christ) = split_era(body);
    let mut cursor = Cursor { rest: body };
    let mut moment = Moment { days: parse_day(&mut cursor, before_christ)?, ..Moment::default() };
    if cursor.rest.is_empty() {
        return Ok(moment);
    }
    if !cursor.skip_one(&['T', 't']) && !cursor.skip_blanks() {
        return Err(Refusal::Malformed);
    }
    moment.time = parse_time(&mut cursor)?;
    cursor.skip_blanks();
    let zone_seconds = parse_zone(cursor.rest)?;
    moment.zone_seconds = Some(zone_seconds).filter(|_| !cursor.rest.is_empty());
    Ok(moment)
}

fn split_era(body: &str) -> (&str, bool) {
    for (era, before_christ) in [("BC", true), ("AD", false)] {
        if let Some((rest, tail)) = body.split_at_checked(body.len().saturating_sub(2))
            && tail.eq_ignore_ascii_case(era)
            && rest.ends_with(|last: char| last.is_ascii_whitespace() || last.is_ascii_digit())
        {
            return (trim(rest), before_christ);
        }
    }
    (body, false)
}

/// `YYYY-MM-DD`, `YYYY/MM/DD` or `YYYYMMDD`; years may have more digits in the first two forms.
fn parse_day(cursor: &mut Cursor<'_>, before_christ: bool) -> Result<i64, Refusal> {
    let first = cursor.digits();
    let (year, month, day) = if cursor.skip_one(&['-', '/']) {
        let month = cursor.digits();
        if !(3..=7).contains(&first.len()) || !cursor.skip_one(&['-', '/']) {
            return Err(Refusal::Malformed);
        }
        (first, month, cursor.digits())
    } else if first.len() == 8 {
        (&first[..4], &first[4..6], &first[6..])
    } else {
        return Err(Refusal::Malformed);
    };
    let (month, day) = (short_number(month)?, short_number(day)?);
    let year: i64 = year.parse().map_err(|_| Refusal::Malformed)?;
    let astronomical = if before_christ { 1 - year } else { year };
    let exists =
        year > 0 && (1..=12).contains(&month) && (1..=days_in_month(astronomical, month)).contains(&day);
    if exists { Ok(days_from_civil(astronomical, month, day)) } else { Err(Refusal::NoSuchMoment) }
}

/// `HH:MM[:SS[.fraction]]`
fn parse_time(cursor: &mut Cursor<'_>) -> Result<i64, Refusal> {
    let hour = i64::from(short_number(cursor.digits())?);
    if !cursor.skip_one(&[':']) {
        return Err(Refusal::Malformed);
    }
    let minute = i64::from(short_number(cursor.digits())?);
    let second = if cursor.skip_one(&[':']) { i64::from(short_number(cursor.digits())?) } else { 0 };
    let fraction = if cursor.skip_one(&['.']) { fraction_microseconds(cursor.digits())? } else { 0 };
    let time = (hour * 3600 + minute * 60 + second) * MICROSECONDS_PER_SECOND + fraction;
    // Second 60 stands for the next minute, and 24:00:00 for the next day, as in PostgreSQL.
    let exists = minute <= 59 && second <= 60 && time <= MICROSECONDS_PER_DAY;
    if exists { Ok(time) } else { Err(Refusal::NoSuchMoment) }
}

/// Digits after the point as microseconds, rounded as PostgreSQL rounds them: as a double, to even.
fn fraction_microseconds(digits: &str) -> Result<i64, Refusal> {
    if digits.is_empty() {
        return Ok(0);
    }
    let fraction: f64 = format!("0.{digits}").parse().map_err(|_| Refusal::Malformed)?;
    Ok((fraction * MICROSECONDS_PER_SECOND as f64).round_ties_even() as i64)
}

/// `Z`, `UTC`, `GMT` or an offset `+hh[[:]mm[:ss]]`, in seconds; nothing is UTC.
fn parse_zone(text: &str) -> Result<i64, Refusal> {
    if ["", "z", "utc", "gmt", "zulu"].iter().any(|name| text.eq_ignore_ascii_case(name)) {
        return Ok(0);
    }
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let mut cursor = Cursor { rest: text.strip_prefix(['+', '-']).ok_or(Refusal::Malformed)? };
    let first = cursor.digits();
    let (hour, minute) = match first.len() {
        3 | 4 => first.split_at(first.len() - 2),
        _ => (first, if cursor.skip_one(&[':']) { cursor.digits() } else { "0" }),
    };
    let second = if cursor.skip_one(&[':']) { cursor.digits() } else { "0" };
    let (hour, minute, second) = (short_number(hour)?, short_number(minute)?, short_number(second)?);
    if !cursor.rest.is_empty() {
        return Err(Refusal::Malformed);
    }
    if hour > 15 || minute > 59 || second > 59 {
        return Err(Refusal::NoSuchZone);
    }
    Ok(sign * i64::from(hour * 3600 + minute * 60 + second))
}

/// A number of one or two digits.
fn short_number(digits: &str) -> Result<u32, Refusal> {
    if digits.len() > 2 {
        return Err(Refusal::Malformed);
    }
    digits.parse().map_err(|_| Refusal::Malformed)
}

/// Reads a literal from left to right.
struct Cursor<'a> {
    rest: &'a str,
}

impl<'a> Cursor<'a> {
    /// Takes the digits that come next, possibly none.
    fn digits(&mut self) -> &'a str {
        let end = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.rest.split_at(end);
        self.rest = rest;
        digits
    }

    fn skip_one(&mut self, any_of: &[char]) -> bool {
        let stripped = self.rest.strip_prefix(any_of);
        self.rest = stripped.unwrap_or(self.rest);
        stripped.is_some()
    }

    /// Skips blanks; tells whether there were any.
    fn skip_blanks(&mut self) -> bool {
        let trimmed = self.rest.trim_start_matches(' ');
        let skipped = trimmed.len() < self.rest.len();
        self.rest = trimmed;
        skipped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(days: i32) -> String {
        let mut out = String::new();
        format_date(days, &mut out);
        out
    }

    fn timestamp(microseconds: i64) -> String {
        let mut out = String::new();
        format_timestamp(microseconds, "", &mut out);
        out
    }

    /// Walks day by day with a calendar that only knows the lengths of months.
    #[test]
    fn every_day_of_five_thousand_years_follows_its_predecessor() {
        let (mut year, mut month, mut day) = (-1000, 1, 1);
        let first = days_from_civil(year, month, day);
        for days in first..first + 5000 * 366 {
            assert_eq!(civil_from_days(days), (year, month, day));
            assert_eq!(days_from_civil(year, month, day), days);
            day += 1;
            if day > days_in_month(year, month) {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
    }

    #[test]
    fn dates_far_away_round_trip() {
        for days in (i64::from(i32::MIN)..=i64::from(i32::MAX)).step_by(99_991) {
            let (year, month, day) = civil_from_days(days);
            assert_eq!(days_from_civil(year, month, day), days);
        }
        assert_eq!(days_from_civil(1970, 1, 1), 0);
        assert_eq!(days_from_civil(-4713, 11, 24), FIRST_DAY);
        assert_eq!(days_from_civil(5_874_897, 12, 31), LAST_DAY);
    }

    #[test]
    fn extreme_values_are_printed() {
        assert_eq!(date(i32::MAX), "5881580-07-11");
        assert_eq!(date(i32::MIN), "5877642-06-23 BC");
        assert_eq!(timestamp(i64::MAX), "294247-01-10 04:00:54.775807");
        assert_eq!(timestamp(i64::MIN), "290309-12-21 19:59:05.224192 BC");
        assert_eq!(date(days_from_civil(0, 2, 29) as i32), "0001-02-29 BC");
    }

    #[test]
    fn dates_are_read_in_all_forms() {
        for text in ["2024-01-02", "20240102", " 2024/1/2 ", "2024-01-02 AD", "2024-01-02T23:59:59+14"] {
            assert_eq!(parse_date(text).map(date), Ok("2024-01-02".into()), "{text}");
        }
        for text in ["0044-03-15 BC", "12345-06-07", "4714-11-24 BC", "5874897-12-31"] {
            assert_eq!(parse_date(text).map(date), Ok(text.into()));
        }
    }

    #[test]
    fn dates_that_do_not_exist_are_refused() {
        let state = |text| parse_date(text).unwrap_err().state();
        for text in ["2023-02-29", "1900-02-29", "2024-13-01", "2024-00-01", "2024-01-32", "0000-01-01"] {
            assert_eq!(state(text), SqlState::DatetimeFieldOverflow, "{text}");
        }
        for text in ["4714-11-23 BC", "5874898-01-01", "9999999-01-01"] {
            assert_eq!(parse_date(text).unwrap_err().message(), format!("date out of range: \"{text}\""));
        }
        for text in ["", "abc", "2024", "2024-01", "2024-01-02x", "2024-01-1é", "BC", "é", "2024-01-02 12"]
        {
            assert_eq!(state(text), SqlState::InvalidDatetimeFormat, "{text}");
        }
        assert_eq!(state("infinity"), SqlState::FeatureNotSupported);
    }

    #[test]
    fn timestamps_honour_zones_only_with_time_zone() {
        let text = "2024-01-02 03:04:05.678+02:30";
        assert_eq!(parse_timestamp(text).map(timestamp), Ok("2024-01-02 03:04:05.678".into()));
        assert_eq!(parse_timestamptz(text).map(timestamp), Ok("2024-01-02 00:34:05.678".into()));
        for zone in ["Z", " UTC", "+00", "-0000", "+00:00:00", ""] {
            let text = format!("2024-01-02T03:04{zone}");
            assert_eq!(parse_timestamptz(&text).map(timestamp), Ok("2024-01-02 03:04:00".into()), "{text}");
        }
        assert_eq!(
            parse_timestamptz("2024-01-02 03:04+16").unwrap_err().state(),
            SqlState::InvalidTimeZoneDisplacement
        );
    }

    #[test]
    fn time_of_day_is_checked() {
        let read = |text| parse_timestamp(text).map(timestamp);
        assert_eq!(read("2024-12-31 24:00:00"), Ok("2025-01-01 00:00:00".into()));
        assert_eq!(read("2024-12-31 23:59:60"), Ok("2025-01-01 00:00:00".into()));
        assert_eq!(read("2024-12-31 23:59:59.9999996"), Ok("2025-01-01 00:00:00".into()));
        assert_eq!(read("1969-12-31 23:59:59.000001"), Ok("1969-12-31 23:59:59.000001".into()));
        for text in ["2024-01-02 24:00:01", "2024-01-02 12:60", "2024-01-02 12:00:61", "2024-01-02 25:00"] {
            assert_eq!(read(text).unwrap_err().state(), SqlState::DatetimeFieldOverflow, "{text}");
        }
        assert_eq!(read("294247-01-11 00:00:00").unwrap_err().state(), SqlState::DatetimeFieldOverflow);
    }
}
