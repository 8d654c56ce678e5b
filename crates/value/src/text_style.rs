//! How a session writes intervals, bytes and floating point numbers: its `IntervalStyle`, `bytea_output` and `extra_float_digits`.

use std::cell::Cell;

/// A way to write intervals.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IntervalStyle {
    /// `1 year 2 mons -3 days +04:05:06.7`
    #[default]
    Postgres,
    /// `@ 1 year 2 mons -3 days 4 hours 5 mins 6.7 secs`
    Verbose,
    /// `+1-2 -3 +4:05:06.7`
    Sql,
    /// `P1Y2M-3DT4H5M6.7S`
    Iso,
}

impl IntervalStyle {
    const NAMES: [(&'static str, IntervalStyle); 4] = [
        ("postgres", IntervalStyle::Postgres),
        ("postgres_verbose", IntervalStyle::Verbose),
        ("sql_standard", IntervalStyle::Sql),
        ("iso_8601", IntervalStyle::Iso),
    ];

    /// The style of a name, in any case.
    pub fn named(name: &str) -> Option<IntervalStyle> {
        let known = IntervalStyle::NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        known.map(|(_, style)| *style)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        let known = IntervalStyle::NAMES.iter().find(|(_, style)| *style == self);
        known.expect("every style has a name").0
    }
}

/// What a session writes values by, dates aside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TextStyle {
    /// How intervals are written.
    pub interval: IntervalStyle,
    /// Whether bytes are written as characters where they are some, and by three octal digits elsewhere.
    pub escapes_bytes: bool,
    /// Digits of floating point numbers beyond the 6 or 15 that every number surely has; with one or more, as many as tell a number
    /// from all others.
    pub float_digits: i8,
}

impl TextStyle {
    const USUAL: TextStyle =
        TextStyle { interval: IntervalStyle::Postgres, escapes_bytes: false, float_digits: 1 };

    /// The style of the work that the thread does.
    #[inline]
    pub fn current() -> TextStyle {
        CURRENT.get()
    }

    /// Does work by the usual style, which keys of indexes have whoever writes a row.
    pub fn usual<T>(work: impl FnOnce() -> T) -> T {
        let before = TextStyle::current();
        TextStyle::USUAL.enter();
        let done = work();
        before.enter();
        done
    }

    /// From here on the thread works by it.
    #[inline]
    pub(crate) fn enter(self) {
        CURRENT.set(self);
    }
}

impl Default for TextStyle {
    fn default() -> TextStyle {
        TextStyle::USUAL
    }
}

thread_local! {
    static CURRENT: Cell<TextStyle> = const { Cell::new(TextStyle::USUAL) };
}
