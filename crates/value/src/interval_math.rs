//! Arithmetic of intervals, and of moments with intervals.
//!
//! A month more is the same day of the next month, or that month's last day; then days are counted, then microseconds.
//! Factors work on each part for itself: what is left of months is counted in days of which a month has 30, what is left of
//! days in hours, as PostgreSQL does.

use crate::datetime::{
    MICROSECONDS_PER_DAY, civil_from_days, days_from_civil, days_in_month, is_infinite, is_moment,
};
use crate::interval::{DAYS_PER_MONTH, Interval, MONTHS_PER_YEAR, out_of_range};
use ankerdb_base::{Error, Result, SqlState};

const SECOND: f64 = 1_000_000.0;
const SECONDS_PER_DAY: f64 = 86_400.0;

/// A moment, in microseconds since 1970, later by an interval.
///
/// # Errors
/// 22008 if it does not fit a timestamp.
pub(crate) fn add_to_moment(moment: i64, interval: Interval) -> Result<i64> {
    if is_infinite(moment) {
        return Ok(moment);
    }
    let later = || {
        let mut days = moment.div_euclid(MICROSECONDS_PER_DAY);
        let time = moment.rem_euclid(MICROSECONDS_PER_DAY);
        if interval.months != 0 {
            let (year, month, day) = civil_from_days(days);
            let months = year * MONTHS_PER_YEAR + i64::from(month) - 1 + i64::from(interval.months);
            let (year, month) =
                (months.div_euclid(MONTHS_PER_YEAR), months.rem_euclid(MONTHS_PER_YEAR) as u32 + 1);
            days = days_from_civil(year, month, day.min(days_in_month(year, month)));
        }
        let days = days.checked_add(i64::from(interval.days))?;
        let moment = days.checked_mul(MICROSECONDS_PER_DAY)?.checked_add(time)?;
        let moment = moment.checked_add(interval.microseconds)?;
        is_moment(moment).then_some(moment)
    };
    later().ok_or_else(|| Error::new(SqlState::DatetimeFieldOverflow, "timestamp out of range"))
}

/// The time from one moment to another, in days and microseconds.
///
/// # Errors
/// 22008 if it does not fit, or a moment is infinite.
pub(crate) fn between(later: i64, earlier: i64) -> Result<Interval> {
    if is_infinite(later) || is_infinite(earlier) {
        return Err(Error::new(SqlState::DatetimeFieldOverflow, "cannot subtract infinite timestamps"));
    }
    let difference = later.checked_sub(earlier).ok_or_else(out_of_range)?;
    // 64 bits of microseconds are far fewer days than an i32 counts.
    Ok(Interval::new(0, (difference / MICROSECONDS_PER_DAY) as i32, difference % MICROSECONDS_PER_DAY))
}

/// A time of day later by an interval's microseconds, around the clock.
pub(crate) fn add_to_time(time: i64, interval: Interval) -> i64 {
    (time + interval.microseconds % MICROSECONDS_PER_DAY).rem_euclid(MICROSECONDS_PER_DAY)
}

/// `interval * factor`
///
/// # Errors
/// 22008 if a part does not fit.
pub(crate) fn scale(interval: Interval, factor: f64) -> Result<Interval> {
    scaled(interval, |part| part * factor)
}

/// `interval / divisor`
///
/// # Errors
/// 22012 if the divisor is zero, 22008 if a part does not fit.
pub(crate) fn divide(interval: Interval, divisor: f64) -> Result<Interval> {
    if divisor == 0.0 {
        return Err(Error::new(SqlState::DivisionByZero, "division by zero"));
    }
    scaled(interval, |part| part / divisor)
}

fn scaled(interval: Interval, scale: impl Fn(f64) -> f64) -> Result<Interval> {
    let (exact_months, exact_days) = (scale(f64::from(interval.months)), scale(f64::from(interval.days)));
    let (months, mut days) = (to_i32(exact_months)?, to_i32(exact_days)?);
    let days_left = to_microsecond((exact_months - f64::from(months)) * DAYS_PER_MONTH as f64);
    let days_of_months = days_left.trunc();
    let mut seconds =
        to_microsecond((exact_days - f64::from(days) + days_left - days_of_months) * SECONDS_PER_DAY);
    // Rounding may make a whole day of them.
    if seconds.abs() >= SECONDS_PER_DAY {
        let whole = (seconds / SECONDS_PER_DAY).trunc();
        days = days.checked_add(to_i32(whole)?).ok_or_else(out_of_range)?;
        seconds -= whole * SECONDS_PER_DAY;
    }
    days = days.checked_add(to_i32(days_of_months)?).ok_or_else(out_of_range)?;
    let microseconds = (scale(interval.microseconds as f64) + seconds * SECOND).round_ties_even();
    // The bounds of 64 bits as doubles: the upper one is one more than the largest number.
    if microseconds.is_nan() || !(-(2f64.powi(63))..2f64.powi(63)).contains(&microseconds) {
        return Err(out_of_range());
    }
    Ok(Interval::new(months, days, microseconds as i64))
}

fn to_i32(part: f64) -> Result<i32> {
    match part.is_nan() || part > f64::from(i32::MAX) || part < f64::from(i32::MIN) {
        true => Err(out_of_range()),
        false => Ok(part as i32),
    }
}

/// Rounded to six digits, which hides what binary fractions add.
fn to_microsecond(number: f64) -> f64 {
    (number * SECOND).round_ties_even() / SECOND
}

impl Interval {
    /// 24 hours as a day, with one sign for days and hours: `justify_hours`.
    ///
    /// # Errors
    /// 22008 if the days do not fit.
    pub fn justify_hours(self) -> Result<Interval> {
        let whole = self.microseconds / MICROSECONDS_PER_DAY;
        let days = i64::from(self.days) + whole;
        let (days, microseconds) =
            same_sign(days, self.microseconds - whole * MICROSECONDS_PER_DAY, MICROSECONDS_PER_DAY);
        Ok(Interval::new(self.months, i32::try_from(days).map_err(|_| out_of_range())?, microseconds))
    }

    /// 30 days as a month, with one sign for months and days: `justify_days`.
    ///
    /// # Errors
    /// 22008 if the months do not fit.
    pub fn justify_days(self) -> Result<Interval> {
        let (days, months) = (i64::from(self.days), i64::from(self.months));
        let whole = days / DAYS_PER_MONTH;
        let (months, days) = same_sign(months + whole, days - whole * DAYS_PER_MONTH, DAYS_PER_MONTH);
        // What is left is less than a month.
        Ok(Interval::new(i32::try_from(months).map_err(|_| out_of_range())?, days as i32, self.microseconds))
    }

    /// 24 hours as a day and 30 days as a month, all with one sign: `justify_interval`.
    ///
    /// # Errors
    /// 22008 if a part does not fit.
    pub fn justified(self) -> Result<Interval> {
        let whole_days = self.microseconds / MICROSECONDS_PER_DAY;
        let mut microseconds = self.microseconds - whole_days * MICROSECONDS_PER_DAY;
        let days = i64::from(self.days) + whole_days;
        let whole_months = days / DAYS_PER_MONTH;
        let (mut months, mut days) =
            (i64::from(self.months) + whole_months, days - whole_months * DAYS_PER_MONTH);
        if months > 0 && (days < 0 || (days == 0 && microseconds < 0)) {
            (months, days) = (months - 1, days + DAYS_PER_MONTH);
        } else if months < 0 && (days > 0 || (days == 0 && microseconds > 0)) {
            (months, days) = (months + 1, days - DAYS_PER_MONTH);
        }
        (days, microseconds) = same_sign(days, microseconds, MICROSECONDS_PER_DAY);
        // What is left is at most a month of days.
        Ok(Interval::new(i32::try_from(months).map_err(|_| out_of_range())?, days as i32, microseconds))
    }
}

/// A number of units and a rest of less than one, with one sign.
fn same_sign(units: i64, rest: i64, unit: i64) -> (i64, i64) {
    match (units.signum(), rest.signum()) {
        (1, -1) => (units - 1, rest + unit),
        (-1, 1) => (units + 1, rest - unit),
        _ => (units, rest),
    }
}

/// The time between two moments in years, months, days and microseconds, as calendars count it: `age`.
///
/// # Errors
/// 22008 if it does not fit, or a moment is infinite.
pub fn age(later: i64, earlier: i64) -> Result<Interval> {
    if is_infinite(later) || is_infinite(earlier) {
        return Err(Error::new(SqlState::DatetimeFieldOverflow, "timestamp out of range"));
    }
    let is_negative = later < earlier;
    let (high, low) = if is_negative { (earlier, later) } else { (later, earlier) };
    let day = |moment: i64| civil_from_days(moment.div_euclid(MICROSECONDS_PER_DAY));
    let (high_day, low_day) = (day(high), day(low));
    let mut time = high.rem_euclid(MICROSECONDS_PER_DAY) - low.rem_euclid(MICROSECONDS_PER_DAY);
    let mut days = i64::from(high_day.2) - i64::from(low_day.2);
    let mut months =
        (high_day.0 - low_day.0) * MONTHS_PER_YEAR + i64::from(high_day.1) - i64::from(low_day.1);
    if time < 0 {
        (time, days) = (time + MICROSECONDS_PER_DAY, days - 1);
    }
    // The month that is borrowed is the earlier moment's.
    while days < 0 {
        (days, months) = (days + i64::from(days_in_month(low_day.0, low_day.1)), months - 1);
    }
    let months = i32::try_from(months).map_err(|_| out_of_range())?;
    let age = Interval::new(months, days as i32, time);
    if is_negative { age.negated() } else { Ok(age) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datetime::{format_timestamp, parse_timestamp};
    use crate::interval_output::format_interval;
    use crate::interval_text::parse_interval;
    use crate::precision::IntervalFields;

    fn shown(interval: Interval) -> String {
        let mut out = String::new();
        format_interval(interval, &mut out);
        out
    }

    fn interval(text: &str) -> Interval {
        parse_interval(text, IntervalFields::All).unwrap()
    }

    #[test]
    fn months_end_where_the_shorter_month_does() {
        for (moment, added, expected) in [
            ("2024-01-31", "1 mon", "2024-02-29 00:00:00"),
            ("2023-03-31 12:00", "-1 mon", "2023-02-28 12:00:00"),
            ("2024-02-29", "1 year", "2025-02-28 00:00:00"),
            ("2024-01-31", "1 mon 1 day -1:00", "2024-02-29 23:00:00"),
        ] {
            let later = add_to_moment(parse_timestamp(moment).unwrap(), interval(added)).unwrap();
            let mut out = String::new();
            format_timestamp(later, &mut out);
            assert_eq!(out, expected);
        }
        assert!(add_to_moment(i64::MAX - 1, interval("1 us")).is_err());
        assert!(add_to_moment(0, interval("-10000 years")).is_err());
        assert_eq!(add_to_moment(i64::MAX, interval("-10000 years")), Ok(i64::MAX));
        assert!(add_to_moment(i64::MAX - 1, Interval::new(i32::MAX, i32::MAX, i64::MAX)).is_err());
    }

    #[test]
    fn factors_cascade_to_smaller_units() {
        let product = |text, factor| shown(scale(interval(text), factor).unwrap());
        assert_eq!(product("1 mon", 1.5), "1 mon 15 days");
        assert_eq!(product("1 day", 0.1), "02:24:00");
        assert_eq!(product("1 year 2 mons 3 days 04:05:06", 2.0), "2 years 4 mons 6 days 08:10:12");
        assert_eq!(shown(divide(interval("1 mon"), 7.0).unwrap()), "4 days 06:51:25.6896");
        assert_eq!(divide(interval("1 mon"), 0.0).unwrap_err().state(), SqlState::DivisionByZero);
        assert!(scale(interval("1 mon"), f64::NAN).is_err());
        assert!(scale(interval("1 mon"), 1e10).is_err());
    }

    #[test]
    fn justified_parts_have_one_sign() {
        assert_eq!(shown(interval("27 hours").justify_hours().unwrap()), "1 day 03:00:00");
        assert_eq!(shown(interval("35 days").justify_days().unwrap()), "1 mon 5 days");
        assert_eq!(shown(interval("1 mon -1 hour").justified().unwrap()), "29 days 23:00:00");
        assert_eq!(shown(interval("-1 mon 1 day").justified().unwrap()), "-29 days");
    }

    #[test]
    fn age_counts_as_calendars_do() {
        let age = |later, earlier| {
            shown(super::age(parse_timestamp(later).unwrap(), parse_timestamp(earlier).unwrap()).unwrap())
        };
        assert_eq!(age("2001-04-10", "1957-06-13"), "43 years 9 mons 27 days");
        assert_eq!(age("1957-06-13", "2001-04-10"), "-43 years -9 mons -27 days");
        assert_eq!(age("2024-03-01", "2024-01-31 12:00"), "1 mon 12:00:00");
    }
}
