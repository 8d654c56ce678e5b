//! The time zone of the session that a thread works for.
//!
//! A `timestamptz` is an instant; the session's zone says what clocks show then. Casts, texts, parts of times and sums with intervals look
//! at it here, where they need it, so that none of their callers has to pass it on. A thread that works for a session says so first:
//! [`Zone::enter`] for a thread that is its own, [`Zone::within`] for a piece of work on a thread that all share.
//!
//! Not here: names of zones and the rules of places, which come with a [`ZoneRules`].

use crate::calendar::is_infinite;
use ankerdb_base::{Error, Result, SqlState};
use std::cell::Cell;
use std::fmt;
use std::sync::OnceLock;

/// A place whose clocks are changed. All times in microseconds, since 1970-01-01 where they are moments.
pub trait ZoneRules: fmt::Debug + Send + Sync {
    /// Its name.
    fn name(&self) -> &str;
    /// How far east of Greenwich its clocks are at an instant.
    fn east(&self, instant: i64) -> Option<i64>;
    /// The instant at which its clocks show this.
    fn instant(&self, local: i64) -> Option<i64>;
    /// What its time is called at an instant.
    fn abbreviation(&self, instant: i64) -> String;
}

/// A time zone.
#[derive(Clone, Copy, Debug, Default)]
pub enum Zone {
    /// Universal time.
    #[default]
    Utc,
    /// So many microseconds east of Greenwich, always.
    East(i64),
    /// That of a place, of which there is one object for each name.
    Place(&'static dyn ZoneRules),
}

impl PartialEq for Zone {
    fn eq(&self, other: &Zone) -> bool {
        match (self, other) {
            (Zone::Utc, Zone::Utc) => true,
            (Zone::East(one), Zone::East(other)) => one == other,
            (Zone::Place(one), Zone::Place(other)) => std::ptr::addr_eq(*one, *other),
            _ => false,
        }
    }
}

impl Eq for Zone {}

/// Finds a zone by its name, an abbreviation or an offset as POSIX writes it.
pub type ZoneNames = fn(&str) -> Option<Zone>;

/// Finds the zones that texts name; set once for the process by those who know places and their rules.
static NAMES: OnceLock<ZoneNames> = OnceLock::new();

thread_local! {
    static CURRENT: Cell<Zone> = const { Cell::new(Zone::Utc) };
}

/// Puts the zone back that a thread had before.
struct Before(Zone);

impl Drop for Before {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

fn out_of_range() -> Error {
    Error::new(SqlState::DatetimeFieldOverflow, "timestamp out of range")
}

impl Zone {
    /// From here on texts of timestamps may name zones. Only the first call counts.
    pub fn name_by(names: ZoneNames) {
        NAMES.get_or_init(|| names);
    }

    /// The zone of a name; universal time has one always.
    pub(crate) fn named(name: &str) -> Option<Zone> {
        match (name, NAMES.get()) {
            ("z" | "zulu" | "utc" | "gmt" | "ut" | "uct", _) => Some(Zone::Utc),
            (name, Some(names)) => names(name),
            (_, None) => None,
        }
    }

    /// The zone of the work that the thread does; universal time where nobody has said.
    #[inline]
    pub fn current() -> Zone {
        CURRENT.get()
    }

    /// From here on the thread works in this zone.
    #[inline]
    pub fn enter(self) {
        CURRENT.set(self);
    }

    /// Does work in this zone.
    pub fn within<T>(self, work: impl FnOnce() -> T) -> T {
        let _before = Before(CURRENT.replace(self));
        work()
    }

    /// How far east of Greenwich clocks are at an instant.
    ///
    /// # Errors
    /// 22008 for instants that the rules of a place do not reach.
    pub fn east(self, instant: i64) -> Result<i64> {
        match self {
            Zone::Utc => Ok(0),
            Zone::East(east) => Ok(east),
            Zone::Place(place) => place.east(instant).ok_or_else(out_of_range),
        }
    }

    /// How far east of Greenwich clocks are now.
    ///
    /// # Errors
    /// Those of [`east`](Self::east).
    pub fn east_today(self) -> Result<i64> {
        match self {
            Zone::Utc => Ok(0),
            Zone::East(east) => Ok(east),
            Zone::Place(_) => {
                let since = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH);
                self.east(since.map_or(0, |since| since.as_micros() as i64))
            }
        }
    }

    /// What clocks show at an instant.
    ///
    /// # Errors
    /// 22008 for times out of range.
    pub fn local(self, instant: i64) -> Result<i64> {
        if is_infinite(instant) {
            return Ok(instant);
        }
        instant.checked_add(self.east(instant)?).ok_or_else(out_of_range)
    }

    /// The instant at which clocks show this. Of two it is the later one; a time that clocks leave out is read as if they had not been
    /// changed yet.
    ///
    /// # Errors
    /// 22008 for times out of range.
    pub fn instant(self, local: i64) -> Result<i64> {
        if is_infinite(local) {
            return Ok(local);
        }
        match self {
            Zone::Utc => Ok(local),
            Zone::East(east) => local.checked_sub(east).ok_or_else(out_of_range),
            Zone::Place(place) => place.instant(local).ok_or_else(out_of_range),
        }
    }

    /// What the time is called at an instant: a name, or the hours.
    pub fn abbreviation(self, instant: i64) -> String {
        match self {
            Zone::Utc => "UTC".to_owned(),
            Zone::East(east) => {
                let mut text = String::new();
                push_offset(east / 1_000_000, &mut text);
                text
            }
            Zone::Place(place) => place.abbreviation(instant),
        }
    }
}

/// Appends an offset: sign and hours, minutes and seconds where there are any.
pub(crate) fn push_offset(seconds: i64, out: &mut String) {
    use std::fmt::Write;
    let sign = if seconds < 0 { '-' } else { '+' };
    let (hours, minutes, rest) = (seconds.abs() / 3600, seconds.abs() / 60 % 60, seconds.abs() % 60);
    // Writing to a text does not fail.
    let _ = write!(out, "{sign}{hours:02}");
    if minutes != 0 || rest != 0 {
        let _ = write!(out, ":{minutes:02}");
    }
    if rest != 0 {
        let _ = write!(out, ":{rest:02}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cast::text_of;
    use crate::{DataType, Value, cast, date_trunc, extract, format_text, parse_text};

    const HOUR: i64 = 3_600_000_000;

    fn shown(value: &Value) -> String {
        let mut text = String::new();
        format_text(value, DataType::Text, &mut text);
        text
    }

    #[test]
    fn texts_and_casts_are_of_the_threads_zone() {
        let noon = parse_text(DataType::TIMESTAMPTZ, "2024-01-01 12:00").unwrap();
        assert_eq!(shown(&noon), "2024-01-01 12:00:00+00");
        Zone::East(-5 * HOUR - HOUR / 2).within(|| {
            assert_eq!(shown(&noon), "2024-01-01 06:30:00-05:30");
            assert_eq!(parse_text(DataType::TIMESTAMPTZ, "2024-01-01 06:30"), Ok(noon.clone()));
            assert_eq!(parse_text(DataType::TIMESTAMPTZ, "2024-01-01 12:00+00"), Ok(noon.clone()));
            assert_eq!(
                cast(Value::Timestamp(0), DataType::TIMESTAMPTZ),
                Ok(Value::TimestampTz(5 * HOUR + HOUR / 2))
            );
            assert_eq!(cast(Value::TimestampTz(0), DataType::Date), Ok(Value::Date(-1)));
            assert_eq!(text_of(&extract("hour", &noon).unwrap()), "6");
            assert_eq!(text_of(&extract("timezone", &noon).unwrap()), "-19800");
            let day = date_trunc("day", &noon).unwrap();
            assert_eq!(shown(&day), "2024-01-01 00:00:00-05:30");
        });
        assert_eq!(Zone::current(), Zone::Utc);
    }
}
