//! Calendar arithmetic for dates and timestamps.
//!
//! Dates are days, timestamps microseconds since 1970-01-01; the calendar is the proleptic Gregorian one, as in
//! PostgreSQL: today's leap year rule for all years, no leap seconds. Years count astronomically inside (year 0
//! is 1 BC, year -1 is 2 BC) and get their `BC` only in text.
//!
//! A calendar cycle has 400 years or 146,097 days. Starting the year in March puts the leap day last, so that
//! the day of the year follows from the month by one linear formula.
//!
//! Accepted: dates from 4714-11-24 BC to 5874897-12-31, as in PostgreSQL; timestamps from the same day to what
//! 64 bits of microseconds hold, early in 294247. The greatest and the least number stand for the infinities, so that
//! they order, and are keys, without being looked at. Every other value of an `i32` or `i64` is still written.

/// Microseconds in one day.
pub(crate) const MICROSECONDS_PER_DAY: i64 = 86_400_000_000;

const DAYS_PER_CYCLE: i64 = 146_097;
const YEARS_PER_CYCLE: i64 = 400;
/// Days from 0000-03-01 to 1970-01-01.
const EPOCH_FROM_MARCH: i64 = 719_468;
/// 4714-11-24 BC, day zero of the Julian day count.
pub const FIRST_DAY: i64 = -2_440_588;
/// 5874897-12-31, PostgreSQL's last day.
pub const LAST_DAY: i64 = 2_145_042_905;

/// `infinity` as a number of microseconds.
pub const INFINITY: i64 = i64::MAX;
/// `-infinity` as a number of microseconds.
pub const MINUS_INFINITY: i64 = i64::MIN;
/// `infinity` as a number of days.
pub const DATE_INFINITY: i32 = i32::MAX;
/// `-infinity` as a number of days.
pub const DATE_MINUS_INFINITY: i32 = i32::MIN;

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

/// Whether these microseconds stand for an infinity.
pub const fn is_infinite(microseconds: i64) -> bool {
    microseconds == INFINITY || microseconds == MINUS_INFINITY
}

/// Whether this number of a day stands for an infinity.
pub const fn is_infinite_date(days: i32) -> bool {
    days == DATE_INFINITY || days == DATE_MINUS_INFINITY
}
