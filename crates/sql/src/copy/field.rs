//! From a field of COPY data to a value of its column.

use ankerdb_engine::{DataType, Decimal, Result, Value};
use ankerdb_value::{MAX_NUMERIC_PRECISION, assign, parse_text};

/// A field that was read.
#[derive(Debug, PartialEq)]
pub(super) enum Parsed {
    Value(Value),
    /// The field itself, as a text, or as much of it.
    Text(usize),
}

/// Reads one field, as PostgreSQL's input function of the type would. Plain numbers, dates and short text take short
/// ways; everything else goes through the general parser, which also words the errors.
pub(super) fn parse_field(text: &str, data_type: DataType) -> Result<Parsed> {
    let short = match data_type {
        DataType::SmallInt => text.parse().ok().map(Value::SmallInt),
        DataType::Integer => text.parse().ok().map(Value::Integer),
        DataType::BigInt => text.parse().ok().map(Value::BigInt),
        DataType::Numeric { precision, scale } => plain_decimal(text, precision, scale).map(Value::Numeric),
        DataType::Number if is_plain_number(text) => Some(Value::Number(text.into())),
        DataType::Date => plain_date(text).map(Value::Date),
        DataType::Text => return Ok(Parsed::Text(text.len())),
        // A character has at least one byte.
        DataType::Varchar(length) if text.len() <= length as usize => return Ok(Parsed::Text(text.len())),
        DataType::Char(length) => {
            let trimmed = text.trim_end_matches(' ').len();
            if trimmed <= length as usize {
                return Ok(Parsed::Text(trimmed));
            }
            None
        }
        _ => None,
    };
    let value = match (short, data_type.is_text()) {
        (Some(value), _) => Ok(value),
        (None, true) => assign(Value::text(text), data_type),
        (None, false) => parse_text(data_type, text),
    };
    value.map(Parsed::Value)
}

/// `2024-02-29`, from year 1 to 9999, in days since 1970-01-01.
fn plain_date(text: &str) -> Option<i32> {
    let &[a, b, c, d, b'-', e, f, b'-', g, h] = text.as_bytes() else { return None };
    let number = |digits: &[u8]| {
        digits.iter().try_fold(0, |number: i32, byte| {
            byte.is_ascii_digit().then(|| number * 10 + i32::from(byte - b'0'))
        })
    };
    let (year, month, day) = (number(&[a, b, c, d])?, number(&[e, f])?, number(&[g, h])?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + i32::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        _ => return None,
    };
    if year == 0 || day == 0 || day > days {
        return None;
    }
    // Years begin in March, so that the leap day is the last one.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    let day_of_era = year * 365 + year / 4 - year / 100 + year / 400 + day_of_year;
    const DAYS_TO_1970: i32 = 719_468;
    Some(day_of_era - DAYS_TO_1970)
}

/// Whether the text is what a numeric of any length is shown as: digits without a zero before them, perhaps a sign and a fraction.
fn is_plain_number(text: &str) -> bool {
    const DIGITS_MAX: usize = 1000;
    let magnitude = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = magnitude.split_once('.').unwrap_or((magnitude, "0"));
    let are_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_zero = || magnitude.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    text.len() <= DIGITS_MAX
        && are_digits(whole)
        && are_digits(fraction)
        && (whole == "0" || !whole.starts_with('0'))
        && !(text.starts_with('-') && is_zero())
}

/// `-123.45` without blanks or exponent, of at most 18 digits, none to be rounded away.
fn plain_decimal(text: &str, precision: u8, scale: u8) -> Option<Decimal> {
    const DIGITS_MAX: usize = 18;
    let (negative, digits) = match text.as_bytes() {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let point = digits.iter().position(|&byte| byte == b'.');
    let fraction = point.map_or(0, |point| digits.len() - point - 1);
    let count = digits.len() - point.is_some() as usize;
    if count == 0 || count > DIGITS_MAX || fraction > scale as usize {
        return None;
    }
    let mut number: i64 = 0;
    for (at, &byte) in digits.iter().enumerate() {
        match byte {
            b'0'..=b'9' => number = number * 10 + (byte - b'0') as i64,
            _ if Some(at) == point => {}
            _ => return None,
        }
    }
    let unscaled = number as i128 * 10i128.checked_pow(scale as u32 - fraction as u32)?;
    let fits = unscaled < 10i128.checked_pow(precision.min(MAX_NUMERIC_PRECISION) as u32)?;
    fits.then(|| Decimal::new(if negative { -unscaled } else { unscaled }, scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_decimals() {
        let read = |text| plain_decimal(text, 6, 2).map(|decimal| decimal.unscaled);
        assert_eq!(read("12.3"), Some(1230));
        assert_eq!(read("-0.05"), Some(-5));
        assert_eq!(read("9999.99"), Some(999_999));
        assert_eq!(read(".5"), Some(50));
        assert_eq!(read("7."), Some(700));
        for other in ["10000", "1.234", "", "-", ".", "1e3", " 1", "1.2.3", "NaN", "0000000000000000000"] {
            assert_eq!(read(other), None, "{other}");
        }
    }

    #[test]
    fn plain_numbers_are_shown_as_they_are_written() {
        for text in ["0", "-7", "0.00", "-0.010", "123456789012345678901234567890123456789012345678.5"] {
            assert!(is_plain_number(text), "{text}");
            assert_eq!(parse_text(DataType::Number, text).unwrap(), Value::Number(text.into()));
        }
        for other in ["", "-", "00", "01", "-0", "-0.0", "+1", "1.", ".5", "1e3", " 1", "1.2.3", "NaN"] {
            assert!(!is_plain_number(other), "{other}");
        }
    }

    #[test]
    fn short_ways() {
        let value = |value| Parsed::Value(value);
        assert_eq!(parse_field("-7", DataType::SmallInt).unwrap(), value(Value::SmallInt(-7)));
        assert_eq!(parse_field("9", DataType::BigInt).unwrap(), value(Value::BigInt(9)));
        assert_eq!(parse_field("ab  ", DataType::Char(3)).unwrap(), Parsed::Text(2));
        assert_eq!(parse_field("ab ", DataType::Varchar(3)).unwrap(), Parsed::Text(3));
        assert_eq!(parse_field("ab  ", DataType::Varchar(3)).unwrap(), value(Value::text("ab ")));
        assert!(parse_field("abcd", DataType::Varchar(3)).is_err());
    }

    /// The short way of dates gives what the general parser gives, or nothing.
    #[test]
    fn plain_dates() {
        let mut last = None;
        for year in (1..=9999).step_by(7).chain([1900, 2000, 2023, 2024, 1970]) {
            for (month, day) in
                [(1, 1), (2, 28), (2, 29), (3, 1), (4, 30), (4, 31), (12, 31), (13, 1), (6, 0), (0, 1)]
            {
                let text = format!("{year:04}-{month:02}-{day:02}");
                let general = parse_text(DataType::Date, &text).ok();
                last = plain_date(&text).map(Value::Date);
                assert_eq!(last, general, "{text}");
            }
        }
        assert_eq!(last, None);
        for other in ["0000-01-01", "2024-1-01", "12024-01-01", "2024-01-0a", "2024/01/01", "2024-01-01 "] {
            assert_eq!(plain_date(other), None, "{other}");
        }
    }
}
