//! Moments taken apart: years, weeks, days of the year.

use super::entry::wrong_argument;
use ankerdb_engine::{Result, Value};
use ankerdb_value::{Zone, civil_from_days, days_from_civil};

pub(super) const MICROSECONDS_PER_SECOND: i64 = 1_000_000;
pub(super) const MICROSECONDS_PER_DAY: i64 = 86_400 * MICROSECONDS_PER_SECOND;
/// The number of 1970-01-01 in the count of Julian days.
pub(super) const JULIAN_EPOCH: i64 = 2_440_588;

/// The parts of a date or timestamp.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts {
    /// Astronomical: 0 is 1 BC.
    pub year: i64,
    pub month: u32,
    pub day: u32,
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
    pub microsecond: i64,
    /// Days since 1970-01-01.
    pub days: i64,
}

impl Parts {
    pub(super) fn of_days(days: i32) -> Parts {
        let days = i64::from(days);
        let (year, month, day) = civil_from_days(days);
        Parts { year, month, day, hour: 0, minute: 0, second: 0, microsecond: 0, days }
    }

    pub(super) fn of_moment(moment: i64) -> Parts {
        let days = moment.div_euclid(MICROSECONDS_PER_DAY);
        let time = moment.rem_euclid(MICROSECONDS_PER_DAY);
        let (year, month, day) = civil_from_days(days);
        let seconds = time / MICROSECONDS_PER_SECOND;
        Parts {
            year,
            month,
            day,
            hour: seconds / 3600,
            minute: seconds / 60 % 60,
            second: seconds % 60,
            microsecond: time % MICROSECONDS_PER_SECOND,
            days,
        }
    }

    /// Of a date or timestamp.
    ///
    /// # Errors
    /// XX000 for other values.
    pub(super) fn of(value: Option<&Value>) -> Result<Parts> {
        match value {
            Some(Value::Date(days)) => Ok(Parts::of_days(*days)),
            Some(Value::Timestamp(moment)) => Ok(Parts::of_moment(*moment)),
            Some(Value::TimestampTz(moment)) => Zone::current().local(*moment).map(Parts::of_moment),
            _ => Err(wrong_argument()),
        }
    }

    /// Counted from 1.
    pub(super) fn day_of_year(&self) -> i64 {
        self.days - days_from_civil(self.year, 1, 1) + 1
    }

    /// 0 is Sunday.
    pub(super) fn weekday(&self) -> i64 {
        (self.days + 4).rem_euclid(7)
    }

    /// 1 is Monday, 7 is Sunday.
    pub(super) fn iso_weekday(&self) -> i64 {
        match self.weekday() {
            0 => 7,
            day => day,
        }
    }

    /// Year and week of the calendar of weeks; the year is astronomical.
    pub(super) fn iso_week(&self) -> (i64, i64) {
        let thursday = self.days - self.iso_weekday() + 4;
        let (year, ..) = civil_from_days(thursday);
        (year, (thursday - days_from_civil(year, 1, 1)) / 7 + 1)
    }

    /// The day of the year of the calendar of weeks, counted from 1.
    pub(super) fn iso_day_of_year(&self) -> i64 {
        self.days - first_iso_day(self.iso_week().0) + 1
    }

    /// The first one is 1, the one before it -1.
    pub(super) fn century(&self) -> i64 {
        if self.year > 0 { (self.year + 99) / 100 } else { -((100 - self.year) / 100) }
    }
}

/// The Monday of the year's first week.
pub(super) fn first_iso_day(year: i64) -> i64 {
    let fourth = days_from_civil(year, 1, 4);
    fourth - (fourth + 3).rem_euclid(7)
}

/// How many days the month has.
pub(super) fn days_in_month(year: i64, month: u32) -> u32 {
    let next = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    (days_from_civil(next.0, next.1, 1) - days_from_civil(year, month, 1)) as u32
}
