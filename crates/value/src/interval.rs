//! Spans of time: months, days and microseconds, which are kept apart.
//!
//! A month has no fixed number of days, and a day no fixed number of hours in all time zones, so an interval keeps what it
//! was written with. Only where intervals are compared has a month 30 days and a day 24 hours: `1 mon` equals `30 days`,
//! although it is written differently ([`Interval::span`]).
//!
//! Reading and writing is in `interval_text`, arithmetic in `interval_math`.

use crate::datetime::MICROSECONDS_PER_DAY;
use ankerdb_base::{Error, Result, SqlState};
use std::cmp::Ordering;

/// Months in a year.
pub(crate) const MONTHS_PER_YEAR: i64 = 12;
/// Days that a month counts where intervals are compared, and where fractions of months are written out.
pub(crate) const DAYS_PER_MONTH: i64 = 30;

/// A span of time. 16 bytes; equality of the parts is `==`, equality as SQL sees it is [`compare`](Interval::compare).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Interval {
    /// Whole months; years are twelve of them.
    pub months: i32,
    /// Whole days.
    pub days: i32,
    /// Hours, minutes, seconds and their fractions.
    pub microseconds: i64,
}

impl Interval {
    /// The interval of these parts.
    pub const fn new(months: i32, days: i32, microseconds: i64) -> Interval {
        Interval { months, days, microseconds }
    }

    /// Its length in microseconds, with months of 30 days and days of 24 hours: what intervals are compared by.
    pub fn span(self) -> i128 {
        let days = i128::from(self.months) * i128::from(DAYS_PER_MONTH) + i128::from(self.days);
        days * i128::from(MICROSECONDS_PER_DAY) + i128::from(self.microseconds)
    }

    /// How two intervals order.
    pub fn compare(self, other: Interval) -> Ordering {
        self.span().cmp(&other.span())
    }

    /// The 16 bytes in which a column stores it, as a number.
    pub fn to_bits(self) -> u128 {
        u128::from(self.months as u32)
            | u128::from(self.days as u32) << 32
            | u128::from(self.microseconds as u64) << 64
    }

    /// The interval of these bits; reverses [`to_bits`](Self::to_bits).
    pub fn from_bits(bits: u128) -> Interval {
        Interval::new(bits as u32 as i32, (bits >> 32) as u32 as i32, (bits >> 64) as u64 as i64)
    }

    /// The sum.
    ///
    /// # Errors
    /// 22008 if a part does not fit.
    pub fn checked_add(self, other: Interval) -> Result<Interval> {
        let sum = || {
            Some(Interval::new(
                self.months.checked_add(other.months)?,
                self.days.checked_add(other.days)?,
                self.microseconds.checked_add(other.microseconds)?,
            ))
        };
        sum().ok_or_else(out_of_range)
    }

    /// The opposite.
    ///
    /// # Errors
    /// 22008 if a part is the smallest of its numbers.
    pub fn negated(self) -> Result<Interval> {
        let opposite = || {
            Some(Interval::new(
                self.months.checked_neg()?,
                self.days.checked_neg()?,
                self.microseconds.checked_neg()?,
            ))
        };
        opposite().ok_or_else(out_of_range)
    }
}

/// The error for an interval that does not fit its type.
pub(crate) fn out_of_range() -> Error {
    Error::new(SqlState::DatetimeFieldOverflow, "interval out of range")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_month_is_as_long_as_thirty_days() {
        let (month, days) = (Interval::new(1, 0, 0), Interval::new(0, 30, 0));
        assert_eq!(month.compare(days), Ordering::Equal);
        assert_ne!(month, days);
        assert_eq!(
            Interval::new(0, 1, 0).compare(Interval::new(0, 0, MICROSECONDS_PER_DAY + 1)),
            Ordering::Less
        );
    }

    #[test]
    fn bits_keep_every_part() {
        for interval in [
            Interval::new(i32::MIN, -1, i64::MAX),
            Interval::new(-1, i32::MAX, i64::MIN),
            Interval::default(),
        ] {
            assert_eq!(Interval::from_bits(interval.to_bits()), interval);
        }
    }

    #[test]
    fn parts_do_not_wrap_around() {
        let most = Interval::new(i32::MAX, 0, 0);
        assert_eq!(
            most.checked_add(Interval::new(1, 0, 0)).unwrap_err().state(),
            SqlState::DatetimeFieldOverflow
        );
        assert!(Interval::new(0, i32::MIN, 0).negated().is_err());
    }
}
