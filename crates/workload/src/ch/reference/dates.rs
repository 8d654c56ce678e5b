//! Days and years of timestamps, by the proleptic Gregorian calendar.

const SECONDS_A_DAY: i64 = 86_400;
const MICROSECONDS: i64 = 1_000_000;
/// Days of 400 years.
const CYCLE: i64 = 146_097;

/// Midnight of a day, in microseconds since 1970.
pub(super) const fn midnight(year: i64, month: i64, day: i64) -> i64 {
    days(year, month, day) * SECONDS_A_DAY * MICROSECONDS
}

/// Days since 1970. Years begin in March, so that the leap day is their last one.
const fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month > 2 { year } else { year - 1 };
    let month = (month + 9) % 12;
    let since_march = (153 * month + 2) / 5 + day - 1;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + since_march - 719_468
}

/// The year of a timestamp.
pub(super) fn year(moment: i64) -> i64 {
    let day = moment.div_euclid(SECONDS_A_DAY * MICROSECONDS);
    // Never too late, and at most two years too early.
    let mut year = 1970 + (day * 400).div_euclid(CYCLE) - 1;
    while days(year + 1, 1, 1) <= day {
        year += 1;
    }
    year
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        assert_eq!(days(1970, 1, 1), 0);
        assert_eq!(days(1999, 1, 1), 10_592);
        assert_eq!(days(2000, 3, 1) - days(2000, 2, 28), 2);
        assert_eq!(days(2007, 1, 2), 13_515);
        assert_eq!(days(2100, 3, 1) - days(2100, 2, 28), 1);
        assert_eq!(days(2100, 1, 1), 47_482);
    }

    #[test]
    fn a_year_ends_with_its_last_microsecond() {
        for year_number in 1960..2110 {
            let begin = midnight(year_number, 1, 1);
            assert_eq!((year(begin), year(begin - 1)), (year_number, year_number - 1));
        }
    }
}
