//! How a session writes dates and timestamps, and in which order it reads the numbers of those that do not tell it themselves:
//! its `DateStyle`. With its time zone and [`TextStyle`] these are its [`Clocks`], which the thread that works for it knows.

use crate::text_style::TextStyle;
use crate::zone::Zone;
use std::cell::Cell;
use std::fmt;

/// A way to write dates.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DateFormat {
    /// `2024-02-29 12:34:56+01`
    #[default]
    Iso,
    /// `02/29/2024 12:34:56 CET`
    Sql,
    /// `Thu Feb 29 12:34:56 2024 CET`
    Postgres,
    /// `29.02.2024 12:34:56 CET`
    German,
}

/// In which order the numbers of a date stand where they do not tell it themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DateOrder {
    /// Year, month, day
    Ymd,
    /// Day, month, year
    Dmy,
    /// Month, day, year
    #[default]
    Mdy,
}

/// Both.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DateStyle {
    /// How dates are written.
    pub format: DateFormat,
    /// In which order they are read, and written in some formats.
    pub order: DateOrder,
}

thread_local! {
    static CURRENT: Cell<DateStyle> = const {
        Cell::new(DateStyle { format: DateFormat::Iso, order: DateOrder::Mdy })
    };
}

impl DateStyle {
    /// The style of the work that the thread does.
    #[inline]
    pub fn current() -> DateStyle {
        CURRENT.get()
    }

    /// Does work with ISO's format, which documents have whatever the session's is.
    pub fn iso<T>(work: impl FnOnce() -> T) -> T {
        let before = DateStyle::current();
        Clocks { style: DateStyle { format: DateFormat::Iso, ..before }, ..Clocks::current() }.within(work)
    }

    /// The style that the words of a setting make of this one; `usual` is what `default` stands for.
    ///
    /// # Errors
    /// What is wrong with the words, for a DETAIL.
    pub fn changed(self, words: &str, usual: DateStyle) -> Result<DateStyle, String> {
        let (mut format, mut order) = (None, None);
        let mut german = false;
        for word in words.split(',').map(str::trim) {
            let lower = word.trim_matches('"').to_ascii_lowercase();
            let found = match lower.as_str() {
                "iso" => (Some(DateFormat::Iso), None),
                "sql" => (Some(DateFormat::Sql), None),
                "german" => {
                    german = true;
                    (Some(DateFormat::German), None)
                }
                "ymd" => (None, Some(DateOrder::Ymd)),
                "dmy" => (None, Some(DateOrder::Dmy)),
                "mdy" | "us" => (None, Some(DateOrder::Mdy)),
                "default" => {
                    (format.is_none().then_some(usual.format), order.is_none().then_some(usual.order))
                }
                _ if lower.starts_with("postgres") => (Some(DateFormat::Postgres), None),
                _ if lower.starts_with("euro") => (None, Some(DateOrder::Dmy)),
                _ if lower.starts_with("noneuro") => (None, Some(DateOrder::Mdy)),
                _ => return Err(format!("Unrecognized key word: \"{lower}\".")),
            };
            let differs = |old: bool| {
                if old { Err("Conflicting \"datestyle\" specifications.".to_owned()) } else { Ok(()) }
            };
            differs(found.0.is_some_and(|new| format.is_some_and(|old| old != new)))?;
            differs(found.1.is_some_and(|new| order.is_some_and(|old| old != new)))?;
            (format, order) = (found.0.or(format), found.1.or(order));
        }
        let order = order.or(german.then_some(DateOrder::Dmy)).unwrap_or(self.order);
        Ok(DateStyle { format: format.unwrap_or(self.format), order })
    }
}

/// As the setting shows it: `ISO, MDY`.
impl fmt::Display for DateStyle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let format = match self.format {
            DateFormat::Iso => "ISO",
            DateFormat::Sql => "SQL",
            DateFormat::Postgres => "Postgres",
            DateFormat::German => "German",
        };
        let order = match self.order {
            DateOrder::Ymd => "YMD",
            DateOrder::Dmy => "DMY",
            DateOrder::Mdy => "MDY",
        };
        write!(f, "{format}, {order}")
    }
}

/// What a session's texts of times, and of some other values, go by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Clocks {
    /// Its time zone.
    pub zone: Zone,
    /// Its style of dates.
    pub style: DateStyle,
    /// Its style of other values.
    pub text: TextStyle,
}

/// Puts those back that a thread had before.
struct Before(Clocks);

impl Drop for Before {
    fn drop(&mut self) {
        self.0.enter();
    }
}

impl Clocks {
    /// Those of the work that the thread does.
    #[inline]
    pub fn current() -> Clocks {
        Clocks { zone: Zone::current(), style: DateStyle::current(), text: TextStyle::current() }
    }

    /// From here on the thread works by them.
    #[inline]
    pub fn enter(self) {
        self.zone.enter();
        CURRENT.set(self.style);
        self.text.enter();
    }

    /// Does work by them.
    pub fn within<T>(self, work: impl FnOnce() -> T) -> T {
        let _before = Before(Clocks::current());
        self.enter();
        work()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_change_a_style_and_may_not_contradict_each_other() {
        let usual = DateStyle::default();
        let shown = |words: &str| usual.changed(words, usual).map(|style| style.to_string());
        for (words, expected) in [
            ("german", "German, DMY"),
            ("German, YMD", "German, YMD"),
            ("sql", "SQL, MDY"),
            ("Postgres, European", "Postgres, DMY"),
            ("ymd", "ISO, YMD"),
            ("iso, iso, us", "ISO, MDY"),
            ("default", "ISO, MDY"),
        ] {
            assert_eq!(shown(words), Ok(expected.to_owned()), "{words}");
        }
        assert_eq!(shown("iso, sql"), Err("Conflicting \"datestyle\" specifications.".into()));
        assert_eq!(shown("dmy, mdy"), Err("Conflicting \"datestyle\" specifications.".into()));
        assert_eq!(shown("iso, foo"), Err("Unrecognized key word: \"foo\".".into()));
    }
}
