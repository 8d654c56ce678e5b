//! Time zones by their names: offsets, and places whose clocks change.
//!
//! A name is an abbreviation (`zone_abbreviation`), one of the IANA database (in any case of its letters), or an offset as POSIX writes it, in which
//! west is positive. The rules of places are those of the library `chrono-tz`.
//!
//! Not here: which zone a session is in (`ankerdb_value::Zone`).

use super::zone_abbreviation;
use ankerdb_engine::{Error, Result, SqlState};
pub(crate) use ankerdb_value::Zone;
use ankerdb_value::{ZoneRules, civil_from_days, days_from_civil};
use chrono::{DateTime, MappedLocalTime, NaiveDate, NaiveDateTime, Offset, TimeZone};
use chrono_tz::{OffsetComponents, OffsetName, TZ_VARIANTS, Tz};
use std::sync::LazyLock;

const MICROSECONDS_PER_SECOND: i64 = 1_000_000;
const MICROSECONDS_PER_DAY: i64 = 86_400 * MICROSECONDS_PER_SECOND;
/// 2100-01-01, from which on the library knows no changes of clocks.
const RULES_END: i64 = 4_102_444_800 * MICROSECONDS_PER_SECOND;

/// The zone of this name.
///
/// # Errors
/// 22023 if there is none.
pub(crate) fn named(name: &str) -> Result<Zone> {
    let plain = name.trim().to_ascii_lowercase();
    if let Some(zone) = zone_abbreviation::named(&plain) {
        return Ok(zone);
    }
    if let Some(west) = offset(&plain) {
        return Ok(Zone::East(-west));
    }
    place(&plain).ok_or_else(|| {
        Error::new(SqlState::InvalidParameterValue, format!("time zone \"{name}\" not recognized"))
    })
}

/// The zone of a name in a text; `None` if there is none.
pub(crate) fn in_text(name: &str) -> Option<Zone> {
    named(name).ok()
}

/// The zone of a setting, with the name that the setting gets: a place, an offset as POSIX writes it, or a number of hours east of
/// Greenwich. `None` if there is none.
pub(crate) fn of_setting(value: &str) -> Option<(Zone, String)> {
    let plain = value.trim();
    if let Ok(hours) = plain.parse::<f64>() {
        let seconds = (hours * 3600.0).round();
        return (seconds.abs() < 168.0 * 3600.0).then(|| offset_setting(seconds as i64));
    }
    if let Some(Zone::Place(place)) = place(&plain.to_ascii_lowercase()) {
        let zone = if place.name() == "UTC" { Zone::Utc } else { Zone::Place(place) };
        return Some((zone, place.name().to_owned()));
    }
    let lower = plain.to_ascii_lowercase();
    let has_digits = lower.ends_with(|last: char| last.is_ascii_digit());
    let west = offset(&lower).filter(|_| has_digits)?;
    Some((Zone::East(-west), plain.to_ascii_uppercase()))
}

/// The zone so many seconds east of Greenwich, and its name as POSIX writes it.
pub(crate) fn offset_setting(seconds: i64) -> (Zone, String) {
    let (rest, hours) = (seconds.abs() % 3600, seconds.abs() / 3600);
    let mut shown = format!("{hours:02}");
    if rest != 0 {
        shown.push_str(&format!(":{:02}", rest / 60));
    }
    if rest % 60 != 0 {
        shown.push_str(&format!(":{:02}", rest % 60));
    }
    let name = if seconds < 0 { format!("<-{shown}>+{shown}") } else { format!("<+{shown}>-{shown}") };
    (Zone::East(seconds * MICROSECONDS_PER_SECOND), name)
}

fn place(lower: &str) -> Option<Zone> {
    rules_of(lower).map(|place| Zone::Place(place))
}

/// The rules of the place of this name, in any case of its letters.
pub(super) fn rules_of(name: &str) -> Option<&'static Rules> {
    PLACES.iter().find(|place| place.zone.name().eq_ignore_ascii_case(name))
}

/// All places.
pub(crate) fn places() -> impl Iterator<Item = &'static Rules> {
    PLACES.iter()
}

static PLACES: LazyLock<Vec<Rules>> =
    LazyLock::new(|| TZ_VARIANTS.iter().map(|&zone| Rules::new(zone)).collect());

/// The rules of a place.
#[derive(Debug)]
pub(crate) struct Rules {
    zone: Tz,
    /// Whether clocks are still changed in the last year that the library has rules for.
    goes_on: bool,
}

impl Rules {
    fn new(zone: Tz) -> Rules {
        let east = |month: u32| {
            let day = NaiveDate::from_ymd_opt(2099, month, 1).and_then(|day| day.and_hms_opt(0, 0, 0));
            day.map(|moment| east(&zone.offset_from_utc_datetime(&moment)))
        };
        Rules { zone, goes_on: (2..=12).any(|month| east(month) != east(1)) }
    }

    /// A moment that the library has rules for, at which clocks are what they are at this one. From 2100 on that is the same moment
    /// of a year before with as many days that begins on the same weekday: rules go by these.
    fn known(&self, moment: i64) -> Option<NaiveDateTime> {
        let moment = match moment >= RULES_END {
            true if self.goes_on => {
                let days = moment.div_euclid(MICROSECONDS_PER_DAY);
                let (year, ..) = civil_from_days(days);
                let first = |year: i64| days_from_civil(year, 1, 1);
                let length = |year: i64| first(year + 1) - first(year);
                let alike = |other: &i64| {
                    length(*other) == length(year) && (first(*other) - first(year)).rem_euclid(7) == 0
                };
                // Any 28 years without a turn of a century have one of each kind.
                let year_before = (2072..2100).find(alike)?;
                moment - (first(year) - first(year_before)) * MICROSECONDS_PER_DAY
            }
            true => RULES_END - 1,
            false => moment,
        };
        DateTime::from_timestamp_micros(moment).map(|moment| moment.naive_utc())
    }

    /// How far east of Greenwich clocks would be at an instant if they were never put ahead.
    pub(super) fn usual_east(&self, instant: i64) -> Option<i64> {
        let offset = self.zone.offset_from_utc_datetime(&self.known(instant)?);
        Some(offset.base_utc_offset().num_seconds() * MICROSECONDS_PER_SECOND)
    }

    /// How far clocks are ahead of the usual time at an instant.
    pub(crate) fn is_summer(&self, instant: i64) -> bool {
        self.known(instant)
            .is_some_and(|moment| !self.zone.offset_from_utc_datetime(&moment).dst_offset().is_zero())
    }
}

impl ZoneRules for Rules {
    fn name(&self) -> &str {
        self.zone.name()
    }

    fn east(&self, instant: i64) -> Option<i64> {
        self.known(instant).map(|moment| east(&self.zone.offset_from_utc_datetime(&moment)))
    }

    fn instant(&self, local: i64) -> Option<i64> {
        let offset = match self.zone.offset_from_local_datetime(&self.known(local)?) {
            MappedLocalTime::Single(offset) | MappedLocalTime::Ambiguous(_, offset) => east(&offset),
            MappedLocalTime::None => {
                let before = local.checked_sub(MICROSECONDS_PER_DAY)?;
                east(&self.zone.offset_from_utc_datetime(&self.known(before)?))
            }
        };
        local.checked_sub(offset)
    }

    fn abbreviation(&self, instant: i64) -> String {
        let moment = self.known(instant);
        let offset = moment.map(|moment| self.zone.offset_from_utc_datetime(&moment));
        offset.and_then(|offset| offset.abbreviation().map(str::to_owned)).unwrap_or_default()
    }
}

fn east(offset: &impl Offset) -> i64 {
    i64::from(offset.fix().local_minus_utc()) * MICROSECONDS_PER_SECOND
}

/// Microseconds of `[name][+-]hours[:minutes[:seconds]]`; a name that is not of letters only stands in `<>`.
fn offset(written: &str) -> Option<i64> {
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '+' | '-' | ':');
    let quoted = written.strip_prefix('<').and_then(|rest| rest.split_once('>'));
    let digits = match quoted {
        Some((name, digits)) if !name.is_empty() && name.chars().all(is_of_name) => digits,
        _ => written.trim_start_matches(|letter: char| letter.is_ascii_lowercase()),
    };
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

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3600 * MICROSECONDS_PER_SECOND;

    #[test]
    fn clocks_are_changed_in_spring_and_in_autumn() {
        let berlin = named("europe/BERLIN").unwrap();
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
    fn rules_go_on_after_the_last_year_of_the_library() {
        let berlin = named("Europe/Berlin").unwrap();
        let at = |year, month, day, hour: i64| {
            days_from_civil(year, month, day) * MICROSECONDS_PER_DAY + hour * HOUR
        };
        // The last Sundays of March and October.
        for (year, spring, autumn) in [(2100, 28, 31), (2124, 26, 29), (2200, 30, 26), (9999, 28, 31)] {
            assert_eq!(berlin.east(at(year, 3, spring, 1) - 1), Ok(HOUR), "{year}");
            assert_eq!(berlin.east(at(year, 3, spring, 1)), Ok(2 * HOUR), "{year}");
            assert_eq!(berlin.east(at(year, 10, autumn, 1) - 1), Ok(2 * HOUR), "{year}");
            assert_eq!(berlin.east(at(year, 10, autumn, 1)), Ok(HOUR), "{year}");
        }
        assert_eq!(named("Asia/Tokyo").and_then(|tokyo| tokyo.east(at(3000, 7, 1, 0))), Ok(9 * HOUR));
    }

    #[test]
    fn settings_have_names_of_their_own() {
        let name = |value: &str| of_setting(value).map(|(_, name)| name);
        for (value, shown) in [
            ("europe/berlin", "Europe/Berlin"),
            ("+02", "<+02>-02"),
            ("-5.5", "<-05:30>+05:30"),
            ("0", "<+00>-00"),
            ("utc", "UTC"),
            ("utc+3", "UTC+3"),
        ] {
            assert_eq!(name(value).as_deref(), Some(shown), "{value}");
        }
        assert!(["Europe/Nowhere", "", "cest", "200"].into_iter().all(|wrong| name(wrong).is_none()));
    }

    #[test]
    fn offsets_are_positive_in_the_west() {
        assert_eq!(named("+02"), Ok(Zone::East(-2 * HOUR)));
        assert_eq!(named("UTC-5:30"), Ok(Zone::East(5 * HOUR + HOUR / 2)));
        assert_eq!(named("CEST"), Ok(Zone::East(2 * HOUR)));
        assert_eq!(named("Etc/GMT+5").and_then(|zone| zone.local(0)), Ok(-5 * HOUR));
        for name in ["Europe/Nowhere", "", "+99:", "12:99"] {
            assert_eq!(named(name).unwrap_err().state(), SqlState::InvalidParameterValue, "{name}");
        }
    }
}
