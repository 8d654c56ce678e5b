//! The texts of intervals in the styles of PostgreSQL.

use crate::digits::push_digits;
use crate::interval::Interval;
use crate::text_style::{IntervalStyle, TextStyle};
use std::fmt::Write;

const SECOND: u64 = 1_000_000;

/// Appends the interval in the session's style.
pub(crate) fn format_interval(interval: Interval, out: &mut String) {
    match TextStyle::current().interval {
        IntervalStyle::Postgres => push_plain(interval, out),
        IntervalStyle::Verbose => push_verbose(interval, out),
        IntervalStyle::Sql => push_sql(interval, out),
        IntervalStyle::Iso => push_iso(interval, out),
    }
}

fn put(out: &mut String, text: std::fmt::Arguments) {
    out.write_fmt(text).expect("a string accepts everything");
}

fn push_plain(interval: Interval, out: &mut String) {
    let start = out.len();
    let mut was_negative = false;
    let (years, months) = (interval.months / 12, interval.months % 12);
    for (number, unit) in [(years, "year"), (months, "mon"), (interval.days, "day")] {
        if number == 0 {
            continue;
        }
        let blank = if out.len() > start { " " } else { "" };
        let sign = if was_negative && number > 0 { "+" } else { "" };
        let plural = if number == 1 { "" } else { "s" };
        put(out, format_args!("{blank}{sign}{number} {unit}{plural}"));
        was_negative = number < 0;
    }
    if interval.microseconds == 0 && out.len() > start {
        return;
    }
    if out.len() > start {
        out.push(' ');
    }
    if interval.microseconds < 0 {
        out.push('-');
    } else if was_negative {
        out.push('+');
    }
    push_clock(interval.microseconds.unsigned_abs(), 2, out);
}

/// Hours, of so many digits at least, minutes and seconds.
fn push_clock(microseconds: u64, width: usize, out: &mut String) {
    let seconds = microseconds / SECOND;
    push_digits(seconds / 3600, width, out);
    out.push(':');
    push_digits(seconds / 60 % 60, 2, out);
    out.push(':');
    push_digits(seconds % 60, 2, out);
    push_fraction(microseconds, out);
}

/// The fraction of a second, without zeros at its end.
fn push_fraction(microseconds: u64, out: &mut String) {
    let fraction = microseconds % SECOND;
    if fraction != 0 {
        out.push('.');
        push_digits(fraction, 6, out);
        out.truncate(out.trim_end_matches('0').len());
    }
}

/// Years, months, days, hours and minutes with their signs, and the microseconds that are left.
fn parts(interval: Interval) -> ([i64; 5], i64) {
    let minutes = interval.microseconds / (60 * SECOND as i64);
    let months = i64::from(interval.months);
    let parts = [months / 12, months % 12, i64::from(interval.days), minutes / 60, minutes % 60];
    (parts, interval.microseconds % (60 * SECOND as i64))
}

/// All parts have the sign of the first one, which `ago` tells, unless theirs differs.
fn push_verbose(interval: Interval, out: &mut String) {
    let (parts, rest) = parts(interval);
    let mut is_ago = None;
    out.push('@');
    for (number, unit) in parts.into_iter().zip(["year", "mon", "day", "hour", "min"]) {
        if number != 0 {
            let number = if *is_ago.get_or_insert(number < 0) { -number } else { number };
            let plural = if number == 1 { "" } else { "s" };
            put(out, format_args!(" {number} {unit}{plural}"));
        }
    }
    if rest != 0 {
        let sign = if *is_ago.get_or_insert(rest < 0) == (rest < 0) { "" } else { "-" };
        put(out, format_args!(" {sign}{}", rest.unsigned_abs() / SECOND));
        push_fraction(rest.unsigned_abs(), out);
        out.push_str(if rest.unsigned_abs() == SECOND { " sec" } else { " secs" });
    }
    match is_ago {
        None => out.push_str(" 0"),
        Some(true) => out.push_str(" ago"),
        Some(false) => {}
    }
}

/// One sign for a whole that has years and months or days and a time; a sign for each of the three otherwise.
fn push_sql(interval: Interval, out: &mut String) {
    let Interval { months, days, microseconds } = interval;
    let signs = [i64::from(months).signum(), i64::from(days).signum(), microseconds.signum()];
    let (has_months, has_days) = (months != 0, days != 0 || microseconds != 0);
    let (months, days) = (months.unsigned_abs(), days.unsigned_abs());
    let (years, months) = (months / 12, months % 12);
    if (has_months && has_days) || (signs.contains(&-1) && signs.contains(&1)) {
        let [of_months, of_days, of_time] = signs.map(|sign| if sign < 0 { '-' } else { '+' });
        put(out, format_args!("{of_months}{years}-{months} {of_days}{days} {of_time}"));
        return push_clock(microseconds.unsigned_abs(), 1, out);
    }
    if signs.contains(&-1) {
        out.push('-');
    }
    match (has_months, has_days) {
        (true, _) => put(out, format_args!("{years}-{months}")),
        (false, false) => out.push('0'),
        (false, true) => {
            if days != 0 {
                put(out, format_args!("{days} "));
            }
            push_clock(microseconds.unsigned_abs(), 1, out);
        }
    }
}

fn push_iso(interval: Interval, out: &mut String) {
    let (parts, rest) = parts(interval);
    if interval == Interval::default() {
        return out.push_str("PT0S");
    }
    out.push('P');
    for (position, (number, unit)) in parts.into_iter().zip(['Y', 'M', 'D', 'H', 'M']).enumerate() {
        if position == 3 && interval.microseconds != 0 {
            out.push('T');
        }
        if number != 0 {
            put(out, format_args!("{number}{unit}"));
        }
    }
    if rest != 0 {
        let sign = if rest < 0 { "-" } else { "" };
        put(out, format_args!("{sign}{}", rest.unsigned_abs() / SECOND));
        push_fraction(rest.unsigned_abs(), out);
        out.push('S');
    }
}
