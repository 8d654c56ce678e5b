//! The texts of which PostgreSQL reads intervals.
//!
//! They are written in `interval_output`. Read are numbers with units in any order
//! (`1 day 2 hours ago`), times (`04:05:06`), SQL's years and months (`1-2`), and ISO 8601 (`P1Y2DT3H`, `P0001-02-03T04:05`).
//! Like PostgreSQL, fields are read from right to left, so that a number without a unit takes the one that is left over:
//! seconds at the end, days before a time.

use crate::datetime::MICROSECONDS_PER_DAY;
use crate::interval::{DAYS_PER_MONTH, Interval, MONTHS_PER_YEAR, out_of_range};
use crate::literal::trim;
use crate::precision::IntervalFields;
use crate::text_style::{IntervalStyle, TextStyle};
use ankerdb_base::{Error, Result, SqlState};

const SECOND: i64 = 1_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

/// Reads an interval of a type with these fields: a number without a unit counts the smallest of them.
///
/// # Errors
/// 22007 if the text is malformed, 22015 if a part does not fit, 22008 if years and months together do not.
pub(crate) fn parse_interval(text: &str, wanted: IntervalFields) -> Result<Interval> {
    let read = match fields(text).and_then(|fields| read_fields(&fields, wanted)) {
        Err(Refusal::Malformed) => read_iso(trim(text)),
        other => other,
    };
    let parts = read.map_err(|refusal| match refusal {
        Refusal::Malformed => Error::new(
            SqlState::InvalidDatetimeFormat,
            format!("invalid input syntax for type interval: \"{text}\""),
        ),
        Refusal::TooLarge => Error::new(
            SqlState::IntervalFieldOverflow,
            format!("interval field value out of range: \"{text}\""),
        ),
    })?;
    parts.interval()
}

/// Why a literal is refused.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Refusal {
    Malformed,
    TooLarge,
}

/// One word, number or sign of a literal, in lower case.
#[derive(Debug)]
enum Field {
    /// A number with at most a sign in front, digits, and what may lie between them: `1`, `-1.5`, `+04:05`, `1-2`.
    Number(String),
    /// Hours and minutes without a sign: `04:05:06.7`.
    Time(String),
    Word(String),
}

/// The fields of a literal; other punctuation stands between them.
fn fields(text: &str) -> Result<Vec<Field>, Refusal> {
    let mut fields = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let second = rest[first.len_utf8()..].chars().next();
        let (length, signed) = match first {
            '+' | '-' => (1, true),
            _ => (0, false),
        };
        if signed {
            let after = rest[length..].trim_start();
            let digits = taken(after, |c| c.is_ascii_digit() || matches!(c, ':' | '.' | '-'));
            if !after.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
                return Err(Refusal::Malformed);
            }
            fields.push(Field::Number(format!("{first}{digits}")));
            rest = &after[digits.len()..];
        } else if first.is_ascii_digit() || (first == '.' && second.is_some_and(|c| c.is_ascii_digit())) {
            let digits = taken(rest, |c| c.is_ascii_digit() || matches!(c, '.' | ':' | '-'));
            // A sign behind a number begins another field, unless digits follow at once: `1-2` is years and months.
            let digits = digits.trim_end_matches('-');
            fields.push(match digits.contains(':') {
                true => Field::Time(digits.to_owned()),
                false => Field::Number(digits.to_owned()),
            });
            rest = &rest[digits.len()..];
        } else if first.is_ascii_alphabetic() {
            let word = taken(rest, |c| c.is_ascii_alphabetic());
            fields.push(Field::Word(word.to_ascii_lowercase()));
            rest = &rest[word.len()..];
        } else if first.is_ascii_punctuation() || first.is_ascii_whitespace() {
            rest = &rest[1..];
        } else {
            return Err(Refusal::Malformed);
        }
        rest = rest.trim_start();
    }
    Ok(fields)
}

fn taken(text: &str, accepts: impl Fn(char) -> bool) -> &str {
    &text[..text.find(|c| !accepts(c)).unwrap_or(text.len())]
}

/// What is read so far. Years are apart because they may leave the range of months.
#[derive(Default)]
struct Parts {
    years: i32,
    months: i32,
    days: i32,
    microseconds: i64,
}

impl Parts {
    fn interval(self) -> Result<Interval> {
        let months = i64::from(self.years) * MONTHS_PER_YEAR + i64::from(self.months);
        let months = i32::try_from(months).map_err(|_| out_of_range())?;
        Ok(Interval::new(months, self.days, self.microseconds))
    }

    fn add_microseconds(&mut self, number: i64, fraction: f64, scale: i64) -> Result<(), Refusal> {
        let whole = number.checked_mul(scale).and_then(|whole| self.microseconds.checked_add(whole));
        self.microseconds = whole.ok_or(Refusal::TooLarge)?;
        self.add_fraction(fraction, scale)
    }

    /// A fraction of a unit of so many microseconds.
    fn add_fraction(&mut self, fraction: f64, scale: i64) -> Result<(), Refusal> {
        let exact = fraction * scale as f64;
        let whole = exact.trunc();
        let rest = exact - whole;
        let rounded = whole as i64 + i64::from(rest > 0.5) - i64::from(rest < -0.5);
        self.microseconds = self.microseconds.checked_add(rounded).ok_or(Refusal::TooLarge)?;
        Ok(())
    }

    fn add_days(&mut self, number: i64, scale: i64) -> Result<(), Refusal> {
        self.days = sum(self.days, number, scale)?;
        Ok(())
    }

    /// A fraction of a unit of so many days.
    fn add_fraction_of_days(&mut self, fraction: f64, scale: i64) -> Result<(), Refusal> {
        let exact = fraction * scale as f64;
        self.add_days(exact.trunc() as i64, 1)?;
        self.add_fraction(exact - exact.trunc(), MICROSECONDS_PER_DAY)
    }

    fn add_years(&mut self, number: i64, fraction: f64, scale: i64) -> Result<(), Refusal> {
        self.years = sum(self.years, number, scale)?;
        let months = (fraction * scale as f64 * MONTHS_PER_YEAR as f64).round_ties_even();
        self.months = sum(self.months, months as i64, 1)?;
        Ok(())
    }

    fn add(&mut self, unit: Unit, number: i64, fraction: f64) -> Result<(), Refusal> {
        match unit {
            Unit::Microseconds(scale) => self.add_microseconds(number, fraction, scale),
            Unit::Days(scale) => {
                self.add_days(number, scale)?;
                match scale {
                    1 => self.add_fraction(fraction, MICROSECONDS_PER_DAY),
                    _ => self.add_fraction_of_days(fraction, scale),
                }
            }
            Unit::Month => {
                self.months = sum(self.months, number, 1)?;
                self.add_fraction_of_days(fraction, DAYS_PER_MONTH)
            }
            Unit::Years(scale) => self.add_years(number, fraction, scale),
        }
    }

    fn negate(&mut self) -> Result<(), Refusal> {
        let opposite = |part: i32| part.checked_neg().ok_or(Refusal::TooLarge);
        self.years = opposite(self.years)?;
        self.months = opposite(self.months)?;
        self.days = opposite(self.days)?;
        self.microseconds = self.microseconds.checked_neg().ok_or(Refusal::TooLarge)?;
        Ok(())
    }
}

fn sum(part: i32, number: i64, scale: i64) -> Result<i32, Refusal> {
    let sum = number.checked_mul(scale).and_then(|added| added.checked_add(i64::from(part)));
    sum.and_then(|sum| i32::try_from(sum).ok()).ok_or(Refusal::TooLarge)
}

/// A unit, by the part that it counts and how many of it there are.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Unit {
    Microseconds(i64),
    Days(i64),
    Month,
    Years(i64),
}

impl Unit {
    fn by_name(name: &str) -> Option<Unit> {
        // PostgreSQL tells names by their first ten letters.
        Some(match &name[..name.len().min(10)] {
            "us" | "usec" | "usecond" | "useconds" | "usecs" | "microsecon" => Unit::Microseconds(1),
            "ms" | "msec" | "msecond" | "mseconds" | "msecs" | "millisecon" => Unit::Microseconds(1000),
            "s" | "sec" | "second" | "seconds" | "secs" => Unit::Microseconds(SECOND),
            "m" | "min" | "mins" | "minute" | "minutes" => Unit::Microseconds(MINUTE),
            "h" | "hour" | "hours" | "hr" | "hrs" => Unit::Microseconds(HOUR),
            "d" | "day" | "days" => Unit::Days(1),
            "w" | "week" | "weeks" => Unit::Days(7),
            "mon" | "mons" | "month" | "months" => Unit::Month,
            "y" | "year" | "years" | "yr" | "yrs" => Unit::Years(1),
            "dec" | "decade" | "decades" | "decs" => Unit::Years(10),
            "c" | "cent" | "centuries" | "century" => Unit::Years(100),
            "mil" | "mils" | "millennia" | "millennium" => Unit::Years(1000),
            _ => return None,
        })
    }

    /// The fields of an interval that the unit fills, as bits: none may be given twice.
    fn mask(self, has_fraction: bool) -> u32 {
        match self {
            Unit::Microseconds(1) => 1,
            Unit::Microseconds(1000) => 2,
            Unit::Microseconds(SECOND) if has_fraction => SECONDS_MASK,
            Unit::Microseconds(SECOND) => 4,
            Unit::Microseconds(MINUTE) => 8,
            Unit::Microseconds(_) => 16,
            Unit::Days(1) => 32,
            Unit::Days(_) => 64,
            Unit::Month => 128,
            Unit::Years(1) => 256,
            Unit::Years(10) => 512,
            Unit::Years(100) => 1024,
            Unit::Years(_) => 2048,
        }
    }
}

const SECONDS_MASK: u32 = 1 | 2 | 4;
const TIME_MASK: u32 = SECONDS_MASK | 8 | 16;

fn read_fields(fields: &[Field], wanted: IntervalFields) -> Result<Parts, Refusal> {
    let last = Unit::by_name(wanted.last_name());
    let mut parts = Parts::default();
    let (mut unit, mut filled, mut is_ago) = (None, 0u32, false);
    let sign =
        if TextStyle::current().interval == IntervalStyle::Sql && has_one_sign(fields) { -1 } else { 1 };
    for field in fields.iter().rev() {
        let mask = match field {
            Field::Word(word) if word == "ago" => {
                is_ago = true;
                0
            }
            Field::Word(word) => {
                unit = Some(Unit::by_name(word).ok_or(Refusal::Malformed)?);
                0
            }
            Field::Time(text) => {
                parts.add_microseconds(sign * clock(text, wanted)?, 0.0, 1)?;
                unit = Some(Unit::Days(1));
                TIME_MASK
            }
            Field::Number(text) if text.contains(':') => {
                let (sign, digits) = text.split_at(1);
                let time = clock(digits, wanted)?;
                parts.add_microseconds(if sign == "-" { -time } else { time }, 0.0, 1)?;
                unit = Some(Unit::Days(1));
                TIME_MASK
            }
            Field::Number(text) => {
                let (used, number, fraction) = number(text, unit.or(last))?;
                let is_turned = sign < 0 && !text.starts_with('-');
                let sign = if is_turned { -1 } else { 1 };
                parts.add(used, number * sign, fraction * sign as f64)?;
                unit = Some(if used == Unit::Microseconds(HOUR) { Unit::Days(1) } else { used });
                used.mask(fraction != 0.0)
            }
        };
        if mask & filled != 0 {
            return Err(Refusal::Malformed);
        }
        filled |= mask;
    }
    if filled == 0 {
        return Err(Refusal::Malformed);
    }
    if is_ago {
        parts.negate()?;
    }
    Ok(parts)
}

/// Whether the first field has a minus and no other one a sign: in SQL's style it is then the sign of all.
fn has_one_sign(fields: &[Field]) -> bool {
    let is_signed = |field: &&Field, signs: &[char]| match field {
        Field::Number(text) => text.starts_with(signs),
        _ => false,
    };
    fields.first().is_some_and(|first| is_signed(&first, &['-']))
        && fields.iter().filter(|field| is_signed(field, &['+', '-'])).count() == 1
}

/// A number with its unit, whole part and fraction: seconds if it has none, months if it is SQL's `years-months`.
fn number(text: &str, unit: Option<Unit>) -> Result<(Unit, i64, f64), Refusal> {
    let unit = unit.unwrap_or(Unit::Microseconds(SECOND));
    let digits = text.trim_start_matches(['+', '-']);
    let sign = if text.starts_with('-') { -1 } else { 1 };
    if let Some((years, months)) = digits.split_once('-') {
        let years = whole(years)?;
        let months = whole(months)?;
        if months >= MONTHS_PER_YEAR {
            return Err(Refusal::TooLarge);
        }
        let total = years.checked_mul(MONTHS_PER_YEAR).and_then(|total| total.checked_add(months));
        return Ok((Unit::Month, total.ok_or(Refusal::TooLarge)? * sign, 0.0));
    }
    let (before, after) = digits.split_once('.').unwrap_or((digits, ""));
    if !after.bytes().all(|byte| byte.is_ascii_digit()) || before.len() + after.len() == 0 {
        return Err(Refusal::Malformed);
    }
    let fraction = match after {
        "" => 0.0,
        digits => format!("0.{digits}").parse::<f64>().map_err(|_| Refusal::Malformed)?,
    };
    let number = if before.is_empty() { 0 } else { signed_whole(before, sign)? };
    Ok((unit, number, fraction * sign as f64))
}

/// A number with its sign: the least one has no opposite.
fn signed_whole(digits: &str, sign: i64) -> Result<i64, Refusal> {
    match sign {
        -1 if digits == "9223372036854775808" => Ok(i64::MIN),
        _ => whole(digits).map(|number| number * sign),
    }
}

fn whole(digits: &str) -> Result<i64, Refusal> {
    match digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.is_empty() {
        true => digits.parse().map_err(|_| Refusal::TooLarge),
        false => Err(Refusal::Malformed),
    }
}

/// `hours:minutes[:seconds[.fraction]]`, or `minutes:seconds.fraction`, in microseconds. Two numbers are minutes and seconds, too, where
/// these are the wanted fields.
fn clock(text: &str, wanted: IntervalFields) -> Result<i64, Refusal> {
    let (clock, fraction) = match text.split_once('.') {
        Some((clock, digits)) => (clock, fraction_of_second(digits)?),
        None => (text, 0),
    };
    // What has no digits is none.
    let part = |digits: &str| if digits.is_empty() { Ok(0) } else { whole(digits) };
    let numbers = clock.split(':').map(part).collect::<Result<Vec<_>, _>>()?;
    let (hours, minutes, seconds) = match numbers.as_slice() {
        [minutes, seconds] if text.contains('.') || wanted == IntervalFields::MinuteToSecond => {
            (0, *minutes, *seconds)
        }
        [hours, minutes] => (*hours, *minutes, 0),
        [hours, minutes, seconds] => (*hours, *minutes, *seconds),
        _ => return Err(Refusal::Malformed),
    };
    if minutes > 59 || seconds > 60 {
        return Err(Refusal::TooLarge);
    }
    let time = hours.checked_mul(HOUR).and_then(|time| time.checked_add(minutes * MINUTE + seconds * SECOND));
    time.and_then(|time| time.checked_add(fraction)).ok_or(Refusal::TooLarge)
}

fn fraction_of_second(digits: &str) -> Result<i64, Refusal> {
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Refusal::Malformed);
    }
    let fraction: f64 = format!("0.{digits}0").parse().map_err(|_| Refusal::Malformed)?;
    Ok((fraction * SECOND as f64).round_ties_even() as i64)
}

/// ISO 8601: `P[nY][nM][nW][nD][T[nH][nM][nS]]`, `P[years-months-days][Thours:minutes:seconds]` or `P[yyyymmdd][Thhmmss]`.
fn read_iso(text: &str) -> Result<Parts, Refusal> {
    let mut rest = text.strip_prefix('P').filter(|rest| !rest.is_empty()).ok_or(Refusal::Malformed)?;
    let mut parts = Parts::default();
    let (mut is_time, mut has_field) = (false, false);
    while !rest.is_empty() {
        if let Some(time) = rest.strip_prefix('T') {
            (is_time, has_field, rest) = (true, false, time);
            continue;
        }
        let (number, behind) = IsoNumber::read(rest)?;
        let unit = match (behind.chars().next(), is_time) {
            (Some('Y'), false) => Unit::Years(1),
            (Some('M'), false) => Unit::Month,
            (Some('W'), false) => Unit::Days(7),
            (Some('D'), false) => Unit::Days(1),
            (Some('H'), true) => Unit::Microseconds(HOUR),
            (Some('M'), true) => Unit::Microseconds(MINUTE),
            (Some('S'), true) => Unit::Microseconds(SECOND),
            _ if has_field => return Err(Refusal::Malformed),
            _ => {
                rest = read_iso_fields(&mut parts, number, behind, is_time)?;
                has_field = true;
                continue;
            }
        };
        parts.add(unit, number.whole, number.fraction)?;
        (has_field, rest) = (true, &behind[1..]);
    }
    Ok(parts)
}

/// A number of an interval in ISO's form.
#[derive(Clone, Copy)]
struct IsoNumber {
    whole: i64,
    fraction: f64,
    /// Digits of it before a point.
    digits: usize,
}

impl IsoNumber {
    /// The number that a text begins with, and what is behind it.
    fn read(text: &str) -> Result<(IsoNumber, &str), Refusal> {
        let unsigned = text.strip_prefix('-').unwrap_or(text);
        let is_digit = |letter: char| letter.is_ascii_digit();
        let digits = taken(unsigned, is_digit).len();
        let mut behind = &unsigned[digits..];
        if let Some(decimals) = behind.strip_prefix('.') {
            behind = &decimals[taken(decimals, is_digit).len()..];
        }
        if let Some(exponent) = behind.strip_prefix(['e', 'E']) {
            let power = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            let length = taken(power, is_digit).len();
            behind = if length > 0 { &power[length..] } else { behind };
        }
        let number = &text[..text.len() - behind.len()];
        let value: f64 = number.parse().map_err(|_| Refusal::Malformed)?;
        if value.abs() > 1e15 {
            return Err(Refusal::TooLarge);
        }
        Ok((IsoNumber { whole: value.trunc() as i64, fraction: value.fract(), digits }, behind))
    }
}

/// Years, months and days, or hours, minutes and seconds, of which the first one was read, or all of them as one number; gives back
/// what is behind them.
fn read_iso_fields<'a>(
    parts: &mut Parts,
    first: IsoNumber,
    behind: &'a str,
    is_time: bool,
) -> Result<&'a str, Refusal> {
    let (separator, together, units) = match is_time {
        true => (':', 6, [Unit::Microseconds(HOUR), Unit::Microseconds(MINUTE), Unit::Microseconds(SECOND)]),
        false => ('-', 8, [Unit::Years(1), Unit::Month, Unit::Days(1)]),
    };
    let is_end = |rest: &str| rest.is_empty() || (!is_time && rest.starts_with('T'));
    if first.digits == together && is_end(behind) {
        let numbers = [first.whole / 10_000, first.whole / 100 % 100, first.whole % 100];
        for (unit, number) in units.into_iter().zip(numbers) {
            parts.add(unit, number, 0.0)?;
        }
        parts.add_fraction(first.fraction, if is_time { 1 } else { MICROSECONDS_PER_DAY })?;
        return Ok(behind);
    }
    let (mut number, mut behind) = (first, behind);
    for (position, unit) in units.into_iter().enumerate() {
        if position > 0 {
            let next = behind.strip_prefix(separator).ok_or(Refusal::Malformed)?;
            (number, behind) = IsoNumber::read(next)?;
        }
        parts.add(unit, number.whole, number.fraction)?;
        if is_end(behind) {
            return Ok(behind);
        }
    }
    Err(Refusal::Malformed)
}

#[cfg(test)]
#[path = "interval_text_tests.rs"]
mod tests;
