//! Sizes of memory, as PostgreSQL writes and reads them: a number, perhaps with a fraction, perhaps with a unit. They are
//! shown in the largest unit that needs no fraction.

use ankerdb_engine::{Error, Result, SqlState};

/// Units with their size, the largest first.
const UNITS: [(&str, u64); 5] =
    [("TB", 1 << 40), ("GB", 1 << 30), ("MB", 1 << 20), ("kB", 1 << 10), ("B", 1)];

/// The bytes that a setting's value stands for: kilobytes where it names no unit, as in PostgreSQL's settings of memory.
///
/// # Errors
/// `InvalidParameterValue` for text that is no size, and for sizes that are negative or larger than any memory.
pub fn parse_bytes(name: &str, value: &str) -> Result<usize> {
    let text = value.trim();
    let is_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+');
    let (number, unit) = text.split_at(text.find(|c| !is_number(c)).unwrap_or(text.len()));
    let unit = match unit.trim_start() {
        "" => "kB",
        unit => unit,
    };
    let size = UNITS.iter().find(|(known, _)| *known == unit).map(|(_, size)| *size);
    let Some((number, size)) = number.parse::<f64>().ok().zip(size) else {
        let message = format!("invalid value for parameter \"{name}\": \"{value}\"");
        let hint = "Valid units for this parameter are \"B\", \"kB\", \"MB\", \"GB\", and \"TB\".";
        return Err(Error::new(SqlState::InvalidParameterValue, message).with_hint(hint));
    };
    let bytes = (number * size as f64).round_ties_even();
    if !(0.0..=i64::MAX as f64 / 2.0).contains(&bytes) {
        let message = format!("\"{value}\" is outside the valid range for parameter \"{name}\"");
        return Err(Error::new(SqlState::InvalidParameterValue, message));
    }
    Ok(bytes as usize)
}

/// A size as SHOW gives it; `None` stands for no limit and is shown as -1.
pub fn shown_bytes(bytes: Option<usize>) -> String {
    let Some(bytes) = bytes else { return "-1".into() };
    let fits = |(_, size): &&(&str, u64)| (bytes as u64).is_multiple_of(*size) && bytes > 0;
    let (unit, size) = UNITS.iter().find(fits).unwrap_or(&UNITS[UNITS.len() - 1]);
    format!("{}{unit}", bytes as u64 / size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_shown_as_postgresql_does() {
        for (text, bytes, shown) in [
            ("4GB", 4 << 30, "4GB"),
            (" 512 MB ", 512 << 20, "512MB"),
            ("1.5GB", 3 << 29, "1536MB"),
            ("65536", 64 << 20, "64MB"),
            ("100B", 100, "100B"),
            ("0", 0, "0B"),
            ("1TB", 1 << 40, "1TB"),
        ] {
            assert_eq!(parse_bytes("memory_limit", text), Ok(bytes), "{text}");
            assert_eq!(shown_bytes(Some(bytes)), shown);
        }
        assert_eq!(shown_bytes(None), "-1");
    }

    #[test]
    fn what_is_no_size_is_refused_with_the_units_there_are() {
        for text in ["", "GB", "4 gb", "4G", "many", "1..5GB", "-"] {
            let error = parse_bytes("memory_limit", text).expect_err(text);
            assert_eq!(error.message(), format!("invalid value for parameter \"memory_limit\": \"{text}\""));
            assert!(error.hint().is_some_and(|hint| hint.contains("\"GB\"")));
        }
        for text in ["-4GB", "99999999TB"] {
            let error = parse_bytes("memory_limit", text).expect_err(text);
            assert!(error.message().contains("outside the valid range"), "{error}");
        }
    }
}
