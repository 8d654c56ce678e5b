//! The text forms of dates, times and timestamps. How they are written is the session's `DateStyle`; texts of dates and timestamps are read
//! in `moment_text`, what their numbers mean is in `calendar`.

pub use crate::calendar::{
    DATE_INFINITY, DATE_MINUS_INFINITY, FIRST_DAY, INFINITY, LAST_DAY, MINUS_INFINITY, civil_from_days,
    days_from_civil, is_infinite, is_infinite_date,
};
pub(crate) use crate::calendar::{MICROSECONDS_PER_DAY, days_in_month};
use crate::date_style::{DateFormat, DateOrder, DateStyle};
use crate::digits::push_digits;
use crate::literal::trim;
use crate::moment_field::{FieldShape, MomentField, fields};
use crate::moment_text::{self, Moment, is_day};
use crate::present::mentions_present;
use crate::zone::{Zone, push_offset};
use ankerdb_base::{Error, Result, SqlState};

const MICROSECONDS_PER_SECOND: i64 = 1_000_000;
const HOUR: i64 = 3600 * MICROSECONDS_PER_SECOND;
/// Appends the date as the session writes it, years before 1 as `BC`.
pub(crate) fn format_date(days: i32, out: &mut String) {
    if is_infinite_date(days) {
        return out.push_str(if days > 0 { "infinity" } else { "-infinity" });
    }
    let before_christ = push_date(i64::from(days), DateStyle::current(), out);
    push_era(before_christ, out);
}

/// Appends the timestamp as the session writes it.
pub(crate) fn format_timestamp(microseconds: i64, out: &mut String) {
    push_moment(microseconds, "", DateStyle::current(), out);
}

/// Appends the instant as the clocks of the thread's zone show it.
pub(crate) fn format_timestamptz(microseconds: i64, out: &mut String) {
    let (zone, style) = (Zone::current(), DateStyle::current());
    // An instant at the end of what there is may have no time in the zone.
    let east = if zone == Zone::Utc { Ok(0) } else { zone.east(microseconds) };
    let shown = east.ok().and_then(|east| Some((microseconds.checked_add(east)?, east)));
    let (local, east) = shown.filter(|_| !is_infinite(microseconds)).unwrap_or((microseconds, 0));
    let mut name = String::new();
    match style.format {
        DateFormat::Iso => push_offset(east / MICROSECONDS_PER_SECOND, &mut name),
        _ => {
            name.push(' ');
            name.push_str(&zone.abbreviation(microseconds));
        }
    }
    push_moment(local, &name, style, out);
}

fn push_moment(microseconds: i64, zone: &str, style: DateStyle, out: &mut String) {
    if is_infinite(microseconds) {
        return out.push_str(if microseconds > 0 { "infinity" } else { "-infinity" });
    }
    let (days, time) =
        (microseconds.div_euclid(MICROSECONDS_PER_DAY), microseconds.rem_euclid(MICROSECONDS_PER_DAY));
    let before_christ = match style.format {
        DateFormat::Postgres => push_words(days, time, style.order, out),
        _ => {
            let before_christ = push_date(days, style, out);
            out.push(' ');
            push_time(time, out);
            before_christ
        }
    };
    out.push_str(zone);
    push_era(before_christ, out);
}

/// Appends `Thu Feb 29 12:34:56 2024`; tells whether it is before Christ.
fn push_words(days: i64, time: i64, order: DateOrder, out: &mut String) -> bool {
    const WEEKDAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (year, month, day) = civil_from_days(days);
    out.push_str(WEEKDAYS[(days + 4).rem_euclid(7) as usize]);
    let name = MONTHS[month as usize - 1];
    for first in [true, false] {
        out.push(' ');
        match (order == DateOrder::Dmy) == first {
            true => push_digits(u64::from(day), 2, out),
            false => out.push_str(name),
        }
    }
    out.push(' ');
    push_time(time, out);
    out.push(' ');
    push_digits(shown_year(year), 4, out);
    year <= 0
}

/// Years before Christ are counted without a zero.
fn shown_year(year: i64) -> u64 {
    (if year <= 0 { 1 - year } else { year }) as u64
}

/// Appends the numbers of a date; tells whether it is before Christ.
fn push_date(days: i64, style: DateStyle, out: &mut String) -> bool {
    let (year, month, day) = civil_from_days(days);
    let (month, day) = (u64::from(month), u64::from(day));
    let separator = match style.format {
        DateFormat::Iso => {
            push_digits(shown_year(year), 4, out);
            out.push('-');
            push_digits(month, 2, out);
            out.push('-');
            push_digits(day, 2, out);
            return year <= 0;
        }
        DateFormat::Sql => '/',
        DateFormat::Postgres => '-',
        DateFormat::German => '.',
    };
    let is_day_first = style.format == DateFormat::German || style.order == DateOrder::Dmy;
    let (first, second) = if is_day_first { (day, month) } else { (month, day) };
    push_digits(first, 2, out);
    out.push(separator);
    push_digits(second, 2, out);
    out.push(separator);
    push_digits(shown_year(year), 4, out);
    year <= 0
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
    match read_moment(text, "date")? {
        Moment::Infinite { positive } => Ok(if positive { DATE_INFINITY } else { DATE_MINUS_INFINITY }),
        // The last day is below i32::MAX.
        Moment::Finite { days, .. } if is_day(days) => Ok(days as i32),
        Moment::Finite { .. } => {
            Err(Error::new(SqlState::DatetimeFieldOverflow, format!("date out of range: \"{text}\"")))
        }
    }
}

fn read_moment(text: &str, type_name: &str) -> Result<Moment> {
    moment_text::read(text).map_err(|refusal| refusal.error(text, type_name))
}

/// Reads a time of day: `04:05:06.7`, `040506`, with AM or PM, behind a date that is dropped; a zone is checked and dropped.
pub(crate) fn parse_time_of_day(text: &str) -> Result<i64> {
    let body = without_time_mark(trim(text));
    if let Some(word) = word_of_time(body, "time")? {
        return Ok(word.0);
    }
    let parsed = match parse_clock(body) {
        // Behind a date, which is dropped.
        Err(Refusal::Malformed) if is_behind_date(body) => match read_moment(text, "time")? {
            Moment::Finite { time, .. } => return Ok(time),
            Moment::Infinite { .. } => Err(Refusal::Malformed),
        },
        other => other,
    };
    parsed.map_err(|refusal| refused(refusal, text, "time"))
}

/// Reads a time of day as [`parse_time_of_day`] does, and how many seconds east of Greenwich its clock is: what is written, or the
/// thread's zone on that day, or today.
pub(crate) fn parse_time_with_zone(text: &str) -> Result<(i64, i64)> {
    const NAME: &str = "time with time zone";
    let body = without_time_mark(trim(text));
    if let Some((time, east)) = word_of_time(body, NAME)? {
        return Ok((time, east / MICROSECONDS_PER_SECOND));
    }
    let (time, east) = match parse_clock_and_zone(body) {
        Ok((time, Some(seconds))) => return Ok((time, seconds)),
        Ok((time, None)) => (time, Zone::current().east_today()?),
        // Behind a date, on which the clocks of a place may stand otherwise.
        Err(Refusal::Malformed) if is_behind_date(body) => match read_moment(text, NAME)? {
            Moment::Finite { days, time, zone } => {
                let zone = zone.unwrap_or_else(Zone::current);
                match microseconds(days, time) {
                    Some(local) => (time, zone.east(zone.instant(local)?)?),
                    None => (time, zone.east_today()?),
                }
            }
            Moment::Infinite { .. } => return Err(refused(Refusal::Malformed, text, NAME)),
        },
        Err(refusal) => return Err(refused(refusal, text, NAME)),
    };
    Ok((time, east / MICROSECONDS_PER_SECOND))
}

/// The time of day that is a word, and how far east of Greenwich its clock is.
fn word_of_time(body: &str, type_name: &str) -> Result<Option<(i64, i64)>> {
    if body.eq_ignore_ascii_case("allballs") {
        return Ok(Some((0, 0)));
    }
    if !body.eq_ignore_ascii_case("now") {
        return Ok(None);
    }
    let now = moment_text::local_present("now").map_err(|refusal| refusal.error(body, type_name))?;
    Ok(Some((now.0.rem_euclid(MICROSECONDS_PER_DAY), now.1)))
}

/// Whether there may be a date before a time; a word for one is none here.
fn is_behind_date(body: &str) -> bool {
    body.contains([' ', 'T', 't']) && !mentions_present(body)
}

/// Without the `T` that ISO 8601 begins a time with.
fn without_time_mark(body: &str) -> &str {
    let clock = body.strip_prefix(['T', 't']);
    clock.filter(|clock| clock.starts_with(|first: char| first.is_ascii_digit())).unwrap_or(body)
}

fn parse_clock(body: &str) -> Result<i64, Refusal> {
    parse_clock_and_zone(body).map(|(time, _)| time)
}

/// The letters of the longest abbreviation of a zone.
const ABBREVIATION_MAX: usize = 6;

/// `HH:MM[:SS[.fraction]]` or `HHMMSS`, `AM` or `PM`, and a zone.
fn parse_clock_and_zone(body: &str) -> Result<(i64, Option<i64>), Refusal> {
    let mut cursor = Cursor { rest: body };
    let digits = body.bytes().take_while(u8::is_ascii_digit).count();
    let time = match digits {
        4 | 6 => {
            let digits = cursor.digits();
            let (hour, rest) = digits.split_at(2);
            let seconds = if rest.len() > 2 { format!(":{}", &rest[2..]) } else { String::new() };
            let fraction =
                if cursor.skip_one(&['.']) { format!(".{}", cursor.digits()) } else { String::new() };
            let read = parse_time(&mut Cursor { rest: &format!("{hour}:{}{seconds}{fraction}", &rest[..2]) });
            match read {
                // The year of a date: there is no minute 70.
                Err(Refusal::NoSuchMoment) if cursor.rest.starts_with('-') => return Err(Refusal::Malformed),
                read => read?,
            }
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
    Ok((time, zone_seconds))
}

/// Reads a timestamp; a zone is checked and dropped, as PostgreSQL does.
pub(crate) fn parse_timestamp(text: &str) -> Result<i64> {
    let moment = match read_moment(text, "timestamp")? {
        Moment::Infinite { positive } => return Ok(infinity(positive)),
        Moment::Finite { days, time, .. } => microseconds(days, time),
    };
    moment.filter(|moment| is_moment(*moment)).ok_or_else(|| timestamp_out_of_range(text))
}

/// Reads a timestamp with time zone; without one it is of the thread's zone.
pub(crate) fn parse_timestamptz(text: &str) -> Result<i64> {
    let moment = match read_moment(text, "timestamp with time zone")? {
        Moment::Infinite { positive } => return Ok(infinity(positive)),
        Moment::Finite { days, time, zone } => {
            let zone = zone.unwrap_or_else(Zone::current);
            microseconds(days, time).and_then(|local| zone.instant(local).ok())
        }
    };
    moment.filter(|moment| is_moment(*moment)).ok_or_else(|| timestamp_out_of_range(text))
}

fn microseconds(days: i64, time: i64) -> Option<i64> {
    days.checked_mul(MICROSECONDS_PER_DAY)?.checked_add(time)
}

fn infinity(positive: bool) -> i64 {
    if positive { INFINITY } else { MINUS_INFINITY }
}

/// Whether it is a moment, and neither out of range nor an infinity.
pub(crate) fn is_moment(microseconds: i64) -> bool {
    microseconds >= FIRST_DAY * MICROSECONDS_PER_DAY && microseconds != INFINITY
}

fn timestamp_out_of_range(text: &str) -> Error {
    Error::new(SqlState::DatetimeFieldOverflow, format!("timestamp out of range: \"{text}\""))
}

/// Why a time of day is refused.
enum Refusal {
    Malformed,
    NoSuchMoment,
    NoSuchZone,
}

fn refused(refusal: Refusal, text: &str, type_name: &str) -> Error {
    let refusal = match refusal {
        Refusal::Malformed => no_time(text),
        Refusal::NoSuchMoment => moment_text::Refusal::OutOfRange,
        Refusal::NoSuchZone => moment_text::Refusal::Displacement,
    };
    refusal.error(text, type_name)
}

/// Why a text is refused that is no time of day: PostgreSQL looks for a zone where letters go on with digits or signs.
fn no_time(text: &str) -> moment_text::Refusal {
    match fields(text).as_deref() {
        Some([MomentField { kind: FieldShape::Date, text }])
            if text.starts_with(|first: char| first.is_ascii_alphabetic()) && Zone::named(text).is_none() =>
        {
            moment_text::Refusal::NoSuchZone(text.clone())
        }
        _ => moment_text::Refusal::Malformed,
    }
}

/// `HH:MM[:SS[.fraction]]` or `MM:SS.fraction`; minutes and seconds without digits are none.
fn parse_time(cursor: &mut Cursor<'_>) -> Result<i64, Refusal> {
    let hour = i64::from(short_number(cursor.digits())?);
    if !cursor.skip_one(&[':']) {
        return Err(Refusal::Malformed);
    }
    let part = |digits: &str| match digits {
        "" => Ok(0),
        digits => short_number(digits).map(i64::from),
    };
    let minute = part(cursor.digits())?;
    let second = if cursor.skip_one(&[':']) { Some(part(cursor.digits())?) } else { None };
    let fraction = if cursor.skip_one(&['.']) { Some(fraction_microseconds(cursor.digits())?) } else { None };
    let (hour, minute, second) = match second {
        None if fraction.is_some() => (0, hour, minute),
        second => (hour, minute, second.unwrap_or(0)),
    };
    let fraction = fraction.unwrap_or(0);
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

/// An abbreviation or an offset `+hh[[:]mm[:ss]]`, in seconds; nothing is UTC. A place's clocks need a date.
fn parse_zone(text: &str) -> Result<i64, Refusal> {
    if ["", "z", "utc", "gmt", "zulu"].iter().any(|name| text.eq_ignore_ascii_case(name)) {
        return Ok(0);
    }
    if text.bytes().all(|letter| letter.is_ascii_alphabetic()) {
        let zone = Zone::named(&text.to_ascii_lowercase()).filter(|_| text.len() <= ABBREVIATION_MAX);
        let east = zone.and_then(|zone| zone.east_today().ok()).ok_or(Refusal::Malformed)?;
        return Ok(east / MICROSECONDS_PER_SECOND);
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
        format_timestamp(microseconds, &mut out);
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
        assert_eq!(date(i32::MAX - 1), "5881580-07-10");
        assert_eq!(date(i32::MIN + 1), "5877642-06-24 BC");
        assert_eq!(timestamp(i64::MAX - 1), "294247-01-10 04:00:54.775806");
        assert_eq!(timestamp(i64::MIN + 1), "290309-12-21 19:59:05.224193 BC");
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
        assert_eq!(parse_date("infinity"), Ok(DATE_INFINITY));
        assert_eq!(parse_timestamp("-infinity").map(timestamp), Ok("-infinity".into()));
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
