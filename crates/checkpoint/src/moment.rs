//! Moments as people write them: a time of the wall, with a zone or in UTC.

use ankerdb_base::{Error, Result, SqlState};
use ankerdb_log::WallTime;
use ankerdb_value::{DataType, Precision, Value, Zone, format_text, parse_text};

/// Reads a moment like a value of SQL's type `timestamptz`; without a zone it is in UTC.
///
/// # Errors
/// 22023 if it is none.
pub fn read_moment(text: &str) -> Result<WallTime> {
    let parsed = Zone::Utc.within(|| parse_text(DataType::TimestampTz(Precision::NONE), text));
    match parsed {
        Ok(Value::TimestampTz(microseconds)) => {
            // In front of 1970, where both begin to count, there is nothing that a backup could have.
            Ok(WallTime(u64::try_from(microseconds).unwrap_or_default().max(1)))
        }
        _ => {
            let message = format!("\"{text}\" is no moment");
            let hint = "Name one like 2026-11-28 12:00:00, which is in UTC, or 2026-11-28 12:00:00.5+01.";
            Err(Error::new(SqlState::InvalidParameterValue, message).with_hint(hint))
        }
    }
}

/// Writes a moment in UTC.
pub fn show_moment(time: WallTime) -> String {
    let microseconds = i64::try_from(time.0).unwrap_or(i64::MAX);
    let mut text = String::new();
    let value = Value::TimestampTz(microseconds);
    Zone::Utc.within(|| format_text(&value, DataType::TimestampTz(Precision::NONE), &mut text));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_as_they_are_written() {
        let moment = read_moment("2026-11-28 12:00:00.25+01").unwrap();
        assert_eq!(moment, WallTime(1_795_863_600_250_000));
        assert_eq!(show_moment(moment), "2026-11-28 11:00:00.25+00");
        assert_eq!(read_moment(&show_moment(moment)), Ok(moment));
        assert_eq!(read_moment("2026-11-28 11:00:00.25"), Ok(moment));
        assert_eq!(read_moment("1969-01-01"), Ok(WallTime(1)));
        for text in ["", "noon", "2026-13-01", "12:00"] {
            assert_eq!(read_moment(text).unwrap_err().state(), SqlState::InvalidParameterValue, "{text}");
        }
    }
}
