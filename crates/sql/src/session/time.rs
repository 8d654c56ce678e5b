//! Times in settings, as PostgreSQL writes and reads them: a number, perhaps with a fraction, perhaps with a unit.
//! They are kept in whole milliseconds and shown in the largest unit that needs no fraction.

use ankerdb_engine::{Error, Result, SqlState};
use std::time::Duration;

/// Units with their length in microseconds, the largest first.
const UNITS: [(&str, u64); 6] = [
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("min", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1000),
    ("us", 1),
];

/// The largest time, in milliseconds.
const MAX_MS: u64 = i32::MAX as u64;

/// The time that a setting's value stands for: milliseconds where it names no unit. Zero is no limit.
///
/// # Errors
/// `InvalidParameterValue` for text that is no time, and for times that are negative or too long.
pub(super) fn parse(name: &str, value: &str) -> Result<Option<Duration>> {
    let text = value.trim();
    let is_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+');
    let (number, unit) = text.split_at(text.find(|c| !is_number(c)).unwrap_or(text.len()));
    let unit = match unit.trim_start() {
        "" => "ms",
        unit => unit,
    };
    let length_us = UNITS.iter().find(|(known, _)| *known == unit).map(|(_, length_us)| *length_us);
    let Some((number, length_us)) = number.parse::<f64>().ok().zip(length_us) else {
        let message = format!("invalid value for parameter \"{name}\": \"{value}\"");
        let hint = "Valid units for this parameter are \"us\", \"ms\", \"s\", \"min\", \"h\", and \"d\".";
        return Err(Error::new(SqlState::InvalidParameterValue, message).with_hint(hint));
    };
    // PostgreSQL rounds half-way cases to the even number, too.
    let time_ms = (number * length_us as f64 / 1000.0).round_ties_even();
    if !(0.0..=MAX_MS as f64).contains(&time_ms) {
        let message =
            format!("{time_ms} ms is outside the valid range for parameter \"{name}\" (0 ms .. {MAX_MS} ms)");
        return Err(Error::new(SqlState::InvalidParameterValue, message));
    }
    Ok((time_ms > 0.0).then(|| Duration::from_millis(time_ms as u64)))
}

/// A time as SHOW gives it.
pub(super) fn shown(time: Option<Duration>) -> String {
    let Some(time) = time else { return "0".into() };
    let time_us = time.as_micros() as u64;
    let fits = |(_, length_us): &&(&str, u64)| time_us.is_multiple_of(*length_us);
    let (unit, length_us) = UNITS.iter().find(fits).expect("all times are whole microseconds");
    format!("{}{unit}", time_us / length_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_shown_as_postgresql_does() {
        for (written, kept) in [
            ("0", "0"),
            ("250", "250ms"),
            ("2000", "2s"),
            ("90000", "90s"),
            ("120000", "2min"),
            (" 1.5 s ", "1500ms"),
            ("0.5min", "30s"),
            ("24h", "1d"),
            ("1500us", "2ms"),
            ("400us", "0"),
            ("2147483647", "2147483647ms"),
        ] {
            assert_eq!(parse("t", written).map(shown), Ok(kept.to_owned()), "{written}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for wrong in ["", "soon", "5 S", "5 minutes", "1.2.3", "-1", "2147483648", "25d", "1e999s"] {
            let error = parse("t", wrong).expect_err(wrong);
            assert_eq!(error.state(), SqlState::InvalidParameterValue, "{wrong}");
        }
    }
}
