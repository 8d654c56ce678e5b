//! How much of a second, and of an interval, a type keeps: `timestamp(3)`, `interval day to hour`.
//!
//! Values are rounded when they are cast or stored and are values like any other afterwards; types of expressions that compute
//! something new have no limit.

use crate::Interval;
use crate::datetime::{MICROSECONDS_PER_DAY, is_infinite};
use crate::interval::MONTHS_PER_YEAR;
use std::fmt;

/// The most fractional digits of a second: those of microseconds.
const DIGITS_MAX: u8 = 6;
/// Microseconds from 1970 to 2000, from where PostgreSQL counts: halves are rounded away from there.
const POSTGRES_EPOCH: i64 = 10_957 * MICROSECONDS_PER_DAY;
const MINUTE: i64 = 60_000_000;
const HOUR: i64 = 60 * MINUTE;

/// Fractional digits of a second that a type declares, 0 to 6; a type that declares none keeps six.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Precision(Option<u8>);

impl Precision {
    /// None declared.
    pub const NONE: Precision = Precision(None);

    /// So many digits; more than six are six.
    pub const fn digits(digits: u32) -> Precision {
        Precision(Some(if digits > DIGITS_MAX as u32 { DIGITS_MAX } else { digits as u8 }))
    }

    /// The digits, if they are declared.
    pub const fn declared(self) -> Option<u8> {
        self.0
    }

    /// The digits that are kept.
    pub const fn kept(self) -> u8 {
        match self.0 {
            Some(digits) => digits,
            None => DIGITS_MAX,
        }
    }

    /// Microseconds that are the smallest kept unit.
    const fn unit(self) -> i64 {
        10i64.pow((DIGITS_MAX - self.kept()) as u32)
    }

    /// A number of microseconds rounded, halves away from zero. What would leave the range stays as it is.
    pub const fn round(self, microseconds: i64) -> i64 {
        let unit = self.unit();
        let rest = microseconds % unit;
        let whole = microseconds - rest;
        let rounded = match rest {
            rest if rest >= unit - unit / 2 && rest > 0 => whole.checked_add(unit),
            rest if rest <= unit / 2 - unit && rest < 0 => whole.checked_sub(unit),
            _ => Some(whole),
        };
        match rounded {
            Some(rounded) => rounded,
            None => microseconds,
        }
    }

    /// A moment, in microseconds since 1970, rounded.
    pub const fn round_moment(self, moment: i64) -> i64 {
        if is_infinite(moment) {
            return moment;
        }
        match moment.checked_sub(POSTGRES_EPOCH) {
            Some(since) if self.unit() > 1 => match self.round(since).checked_add(POSTGRES_EPOCH) {
                Some(rounded) => rounded,
                None => moment,
            },
            _ => moment,
        }
    }
}

/// `(3)`, or nothing.
impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |digits| write!(f, "({digits})"))
    }
}

/// The parts that an `interval day to hour` and its like have.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[allow(missing_docs)]
pub enum IntervalFields {
    /// None declared: all of them.
    #[default]
    All,
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    YearToMonth,
    DayToHour,
    DayToMinute,
    DayToSecond,
    HourToMinute,
    HourToSecond,
    MinuteToSecond,
}

/// Names as SQL has them, and bits by which PostgreSQL tells them in modifiers of types.
const FIELDS: [(IntervalFields, &str, i32); 14] = {
    use IntervalFields::*;
    const MONTH: i32 = 1 << 1;
    const YEAR: i32 = 1 << 2;
    const DAY: i32 = 1 << 3;
    const HOUR: i32 = 1 << 10;
    const MINUTE: i32 = 1 << 11;
    const SECOND: i32 = 1 << 12;
    [
        (All, "", 0x7fff),
        (Year, "year", YEAR),
        (Month, "month", MONTH),
        (Day, "day", DAY),
        (Hour, "hour", HOUR),
        (Minute, "minute", MINUTE),
        (Second, "second", SECOND),
        (YearToMonth, "year to month", YEAR | MONTH),
        (DayToHour, "day to hour", DAY | HOUR),
        (DayToMinute, "day to minute", DAY | HOUR | MINUTE),
        (DayToSecond, "day to second", DAY | HOUR | MINUTE | SECOND),
        (HourToMinute, "hour to minute", HOUR | MINUTE),
        (HourToSecond, "hour to second", HOUR | MINUTE | SECOND),
        (MinuteToSecond, "minute to second", MINUTE | SECOND),
    ]
};

impl IntervalFields {
    /// The fields of this name, such as `day to hour`; all of them have an empty one.
    pub fn by_name(name: &str) -> Option<IntervalFields> {
        FIELDS.iter().find(|(_, known, _)| *known == name).map(|(fields, ..)| *fields)
    }

    /// Those that PostgreSQL's bits tell.
    pub fn by_bits(bits: i32) -> Option<IntervalFields> {
        FIELDS.iter().find(|(.., known)| *known == bits).map(|(fields, ..)| *fields)
    }

    /// Their name in SQL.
    pub fn name(self) -> &'static str {
        FIELDS[self as usize].1
    }

    /// PostgreSQL's bits for them.
    pub fn bits(self) -> i32 {
        FIELDS[self as usize].2
    }

    /// The smallest of them, which a number without a unit counts.
    pub(crate) fn last_name(self) -> &'static str {
        self.name().rsplit(' ').next().unwrap_or_default()
    }

    /// The interval without smaller parts.
    fn cut(self, interval: Interval) -> Interval {
        let Interval { months, days, microseconds } = interval;
        match self.last_name() {
            "year" => Interval::new(months - months % MONTHS_PER_YEAR as i32, 0, 0),
            "month" => Interval::new(months, 0, 0),
            "day" => Interval::new(months, days, 0),
            "hour" => Interval::new(months, days, microseconds - microseconds % HOUR),
            "minute" => Interval::new(months, days, microseconds - microseconds % MINUTE),
            _ => interval,
        }
    }
}

/// What intervals of a type keep.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct IntervalLimit {
    /// The parts that they have.
    pub fields: IntervalFields,
    /// Fractional digits of seconds.
    pub precision: Precision,
}

impl IntervalLimit {
    /// Everything.
    pub const NONE: IntervalLimit = IntervalLimit { fields: IntervalFields::All, precision: Precision::NONE };

    /// PostgreSQL's modifier of the type.
    pub fn modifier(self) -> i32 {
        match self.precision.declared() {
            None if self.fields == IntervalFields::All => -1,
            digits => self.fields.bits() << 16 | digits.map_or(0xffff, i32::from),
        }
    }

    /// What that modifier says.
    pub fn of_modifier(modifier: i32) -> IntervalLimit {
        let digits = modifier & 0xffff;
        let precision = if digits == 0xffff { Precision::NONE } else { Precision::digits(digits as u32) };
        match IntervalFields::by_bits(modifier >> 16 & 0x7fff) {
            Some(fields) if modifier >= 0 => IntervalLimit { fields, precision },
            _ => IntervalLimit::NONE,
        }
    }

    /// The interval without what the type does not keep.
    pub fn fit(self, interval: Interval) -> Interval {
        let cut = self.fields.cut(interval);
        Interval::new(cut.months, cut.days, self.precision.round(cut.microseconds))
    }
}

/// ` day to second(3)`, `(3)`, or nothing: what stands behind `interval`.
impl fmt::Display for IntervalLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let blank = if self.fields == IntervalFields::All { "" } else { " " };
        write!(f, "{blank}{}{}", self.fields.name(), self.precision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_rounded_away_from_where_postgresql_counts() {
        let three = Precision::digits(3);
        assert_eq!(three.round(1_500), 2_000);
        assert_eq!(three.round(-1_500), -2_000);
        assert_eq!(three.round(-1_499), -1_000);
        // Before 2000 half a unit goes down.
        assert_eq!(three.round_moment(1_500), 1_000);
        assert_eq!(three.round_moment(POSTGRES_EPOCH + 1_500), POSTGRES_EPOCH + 2_000);
        assert_eq!(Precision::digits(6).round(1_499), 1_499);
        assert_eq!(Precision::NONE.round_moment(i64::MIN), i64::MIN);
    }

    #[test]
    fn what_would_leave_the_range_stays() {
        for digits in 0..6 {
            for number in [i64::MAX, i64::MIN] {
                assert!(Precision::digits(digits).round(number).abs_diff(number) < 1_000_000);
                assert!(Precision::digits(digits).round_moment(number).abs_diff(number) < 1_000_000);
            }
        }
    }

    #[test]
    fn fields_cut_smaller_parts_off() {
        let whole = Interval::new(-14, 3, 4 * HOUR + 5 * MINUTE + 6_789_000);
        let cut = |name: &str| IntervalFields::by_name(name).unwrap().cut(whole);
        assert_eq!(cut("year"), Interval::new(-12, 0, 0));
        assert_eq!(cut("year to month"), Interval::new(-14, 0, 0));
        assert_eq!(cut("day"), Interval::new(-14, 3, 0));
        assert_eq!(cut("day to hour"), Interval::new(-14, 3, 4 * HOUR));
        assert_eq!(cut("minute"), Interval::new(-14, 3, 4 * HOUR + 5 * MINUTE));
        assert_eq!(cut("minute to second"), whole);
    }

    #[test]
    fn modifiers_are_postgresql_s_and_are_read_back() {
        let limit =
            |name, precision| IntervalLimit { fields: IntervalFields::by_name(name).unwrap(), precision };
        for (limit, modifier) in [
            (IntervalLimit::NONE, -1),
            (limit("", Precision::digits(3)), 2_147_418_115),
            (limit("day to second", Precision::digits(2)), 470_286_338),
            (limit("year", Precision::NONE), 327_679),
        ] {
            assert_eq!(limit.modifier(), modifier);
            assert_eq!(IntervalLimit::of_modifier(modifier), limit);
        }
        assert_eq!(limit("day to second", Precision::digits(2)).to_string(), " day to second(2)");
        for (fields, name, bits) in FIELDS {
            assert_eq!((fields.name(), fields.bits()), (name, bits));
        }
    }
}
