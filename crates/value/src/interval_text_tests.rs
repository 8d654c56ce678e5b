//! Text forms of intervals, beside what PostgreSQL 15 reads and writes.

use super::*;
use crate::interval_output::format_interval;

fn shown(text: &str) -> Result<String> {
    let mut out = String::new();
    format_interval(parse_interval(text, IntervalFields::All)?, &mut out);
    Ok(out)
}

/// What PostgreSQL 15 writes for these literals.
#[test]
fn intervals_are_read_in_all_forms() {
    for (text, expected) in [
        ("1 day", "1 day"),
        ("0", "00:00:00"),
        ("90", "00:01:30"),
        ("1.5", "00:00:01.5"),
        ("1 2:03", "1 day 02:03:00"),
        ("1 day 2", "1 day 00:00:02"),
        ("1 year 2 months 3 days 04:05:06.789", "1 year 2 mons 3 days 04:05:06.789"),
        ("-1 year 2 mons", "-10 mons"),
        ("1-2", "1 year 2 mons"),
        ("-1-2", "-1 years -2 mons"),
        ("1 day ago", "-1 days"),
        ("@ 1 minute", "00:01:00"),
        ("1 mon -1 day 1:00", "1 mon -1 days +01:00:00"),
        ("1 week", "7 days"),
        ("1.5 months", "1 mon 15 days"),
        ("0.5 years", "6 mons"),
        ("1.5 days", "1 day 12:00:00"),
        ("2 decades 1 century", "120 years"),
        ("500 ms", "00:00:00.5"),
        ("-04:05", "-04:05:00"),
        ("1 -02:03", "1 day -02:03:00"),
        ("12:34.5", "00:12:34.5"),
        ("P1Y2M3DT4H5M6S", "1 year 2 mons 3 days 04:05:06"),
        ("P0001-02-03T04:05:06", "1 year 2 mons 3 days 04:05:06"),
        ("PT90M", "01:30:00"),
        ("P1W", "7 days"),
        ("PT", "00:00:00"),
        ("1day", "1 day"),
        ("100:00:00", "100:00:00"),
    ] {
        assert_eq!(shown(text), Ok(expected.into()), "{text}");
    }
}

#[test]
fn what_is_no_interval_is_refused() {
    for text in ["", "abc", "1 day 1 day", "day", "1 fortnight", "P", "1:2:3:4", "é", "-", "1..2", "ago"] {
        assert_eq!(shown(text).unwrap_err().state(), SqlState::InvalidDatetimeFormat, "{text}");
    }
    for text in ["9999999999 days", "99999999999999999999 s", "1:60", "1-12", "9223372036854775807 hours"] {
        assert_eq!(shown(text).unwrap_err().state(), SqlState::IntervalFieldOverflow, "{text}");
    }
    assert_eq!(shown("200000000 years").unwrap_err().state(), SqlState::DatetimeFieldOverflow);
}
