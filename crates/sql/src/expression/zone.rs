//! Time zones by their names: offsets, and places whose clocks change.
//!
//! A name is one of the list below, of the IANA database (in any case of its letters), or an offset as POSIX writes it, in which
//! west is positive. The rules of places are those of the library `chrono-tz`.
//!
//! Not here: the session's own zone, which is UTC.

use crate::name::not_supported;
use ankerdb_engine::{Error, Result, SqlState};
use chrono::{DateTime, MappedLocalTime, NaiveDateTime, Offset, TimeZone};
use chrono_tz::{TZ_VARIANTS, Tz};

const MICROSECONDS_PER_SECOND: i64 = 1_000_000;
/// 2100-01-01, from which on the library knows no changes of clocks.
const RULES_END: i64 = 4_102_444_800 * MICROSECONDS_PER_SECOND;

/// Abbreviations of PostgreSQL's usual list, with hours east of Greenwich: they stand for one offset all the year.
const ABBREVIATIONS: &[(&str, i64)] = &[
    ("utc", 0),
    ("gmt", 0),
    ("ut", 0),
    ("uct", 0),
    ("z", 0),
    ("zulu", 0),
    ("wet", 0),
    ("west", 1),
    ("bst", 1),
    ("cet", 1),
    ("met", 1),
    ("cest", 2),
    ("mest", 2),
    ("eet", 2),
    ("sast", 2),
    ("eest", 3),
    ("msk", 3),
    ("hkt", 8),
    ("jst", 9),
    ("kst", 9),
    ("aest", 10),
    ("aedt", 11),
    ("nzst", 12),
    ("nzdt", 13),
    ("ast", -4),
    ("adt", -3),
    ("est", -5),
    ("edt", -4),
    ("cst", -6),
    ("cdt", -5),
    ("mst", -7),
    ("mdt", -6),
    ("pst", -8),
    ("pdt", -7),
    ("akst", -9),
    ("akdt", -8),
    ("hst", -10),
];

/// A time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Zone {
    /// Microseconds east of Greenwich, always.
    Fixed(i64),
    Place(Tz),
}

impl Zone {
    /// The zone of this name.
    ///
    /// # Errors
    /// 22023 if there is none.
    pub(crate) fn named(name: &str) -> Result<Zone> {
        let plain = name.trim().to_ascii_lowercase();
        if let Some((_, hours)) = ABBREVIATIONS.iter().find(|(known, _)| *known == plain) {
            return Ok(Zone::Fixed(hours * 3600 * MICROSECONDS_PER_SECOND));
        }
        if let Some(west) = offset(&plain) {
            return Ok(Zone::Fixed(-west));
        }
        let place = TZ_VARIANTS.iter().find(|place| place.name().eq_ignore_ascii_case(&plain));
        place.map(|place| Zone::Place(*place)).ok_or_else(|| {
            Error::new(SqlState::InvalidParameterValue, format!("time zone \"{name}\" not recognized"))
        })
    }

    /// What the zone's clocks show at an instant, both in microseconds since 1970-01-01.
    ///
    /// # Errors
    /// 22008 for times out of range, 0A000 from 2100 on for a place.
    pub(crate) fn local(self, instant: i64) -> Result<i64> {
        let offset = match self {
            Zone::Fixed(offset) => offset,
            Zone::Place(place) => east(&place.offset_from_utc_datetime(&moment(instant)?)),
        };
        instant.checked_add(offset).ok_or_else(out_of_range)
    }

    /// The instant at which the zone's clocks show this. Of two it is the later one; a time that the clocks leave out is read as if they
    /// had not been changed yet.
    ///
    /// # Errors
    /// Those of [`local`](Self::local).
    pub(crate) fn instant(self, local: i64) -> Result<i64> {
        let offset = match self {
            Zone::Fixed(offset) => offset,
            Zone::Place(place) => match place.offset_from_local_datetime(&moment(local)?) {
                MappedLocalTime::Single(offset) | MappedLocalTime::Ambiguous(_, offset) => east(&offset),
                MappedLocalTime::None => {
                    let before =
                        local.checked_sub(86_400 * MICROSECONDS_PER_SECOND).ok_or_else(out_of_range)?;
                    east(&place.offset_from_utc_datetime(&moment(before)?))
                }
            },
        };
        local.checked_sub(offset).ok_or_else(out_of_range)
    }
}

fn east(offset: &impl Offset) -> i64 {
    i64::from(offset.fix().local_minus_utc()) * MICROSECONDS_PER_SECOND
}

fn moment(microseconds: i64) -> Result<NaiveDateTime> {
    if microseconds >= RULES_END {
        return Err(not_supported("a time zone with changing clocks after the year 2099"));
    }
    DateTime::from_timestamp_micros(microseconds).map(|moment| moment.naive_utc()).ok_or_else(out_of_range)
}

/// Microseconds of `[name][+-]hours[:minutes[:seconds]]`.
fn offset(written: &str) -> Option<i64> {
    let digits = written.trim_start_matches(|letter: char| letter.is_ascii_lowercase());
    let has_sign = digits.starts_with(['+', '-']);
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, digits.strip_prefix('+').unwrap_or(digits)),
    };
    // `est5` is an offset, `est` is not, and `etc/gmt+5` is a place's name.
    let is_plain = has_sign || digits.len() < written.len() || digits == written;
    let mut seconds = 0;
    let mut count = 0;
    for (part, (unit, limit)) in digits.split(':').zip([(3600, 168), (60, 60), (1, 60)]) {
        let value: i64 =
            part.parse().ok().filter(|_| part.len() <= 3 && part.bytes().all(|b| b.is_ascii_digit()))?;
        seconds += Some(value * unit).filter(|_| value < limit)?;
        count += 1;
    }
    (is_plain && count == digits.split(':').count()).then_some(sign * seconds * MICROSECONDS_PER_SECOND)
}

fn out_of_range() -> Error {
    Error::new(SqlState::DatetimeFieldOverflow, "timestamp out of range")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3600 * MICROSECONDS_PER_SECOND;

    #[test]
    fn clocks_are_changed_in_spring_and_in_autumn() {
        let berlin = Zone::named("europe/BERLIN").unwrap();
        // 2024-03-31 01:00 UTC
        let spring = 1_711_846_800 * MICROSECONDS_PER_SECOND;
        assert_eq!(berlin.local(spring - 1), Ok(spring - 1 + HOUR));
        assert_eq!(berlin.local(spring), Ok(spring + 2 * HOUR));
        // 02:30 there was none: read as before the change.
        assert_eq!(berlin.instant(spring + HOUR + HOUR / 2), Ok(spring + HOUR / 2));
        // 2024-10-27 02:30 there was twice: the later one.
        let autumn = 1_729_990_800 * MICROSECONDS_PER_SECOND;
        assert_eq!(berlin.instant(autumn + HOUR + HOUR / 2), Ok(autumn + HOUR / 2));
    }

    #[test]
    fn offsets_are_positive_in_the_west() {
        assert_eq!(Zone::named("+02"), Ok(Zone::Fixed(-2 * HOUR)));
        assert_eq!(Zone::named("UTC-5:30"), Ok(Zone::Fixed(5 * HOUR + HOUR / 2)));
        assert_eq!(Zone::named("CEST"), Ok(Zone::Fixed(2 * HOUR)));
        assert_eq!(Zone::named("Etc/GMT+5").and_then(|zone| zone.local(0)), Ok(-5 * HOUR));
        for name in ["Europe/Nowhere", "", "+99:", "12:99"] {
            assert_eq!(Zone::named(name).unwrap_err().state(), SqlState::InvalidParameterValue, "{name}");
        }
    }
}
