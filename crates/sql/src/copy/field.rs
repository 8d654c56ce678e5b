//! From a field of COPY data to a value of its column.

use ankerdb_engine::{DataType, Decimal, Result, Value};
use ankerdb_value::{MAX_NUMERIC_PRECISION, assign, parse_text};

/// Reads one field, as PostgreSQL's input function of the type would. Plain numbers and short text take short
/// ways; everything else goes through the general parser, which also words the errors.
pub(super) fn parse_field(text: &str, data_type: DataType) -> Result<Value> {
    let short = match data_type {
        DataType::SmallInt => text.parse().ok().map(Value::SmallInt),
        DataType::Integer => text.parse().ok().map(Value::Integer),
        DataType::BigInt => text.parse().ok().map(Value::BigInt),
        DataType::Numeric { precision, scale } => plain_decimal(text, precision, scale).map(Value::Numeric),
        DataType::Text => return Ok(Value::text(text)),
        // A character has at least one byte.
        DataType::Varchar(length) => (text.len() <= length as usize).then(|| Value::text(text)),
        DataType::Char(length) => {
            let trimmed = text.trim_end_matches(' ');
            (trimmed.len() <= length as usize).then(|| Value::text(trimmed))
        }
        _ => None,
    };
    match (short, data_type.is_text()) {
        (Some(value), _) => Ok(value),
        (None, true) => assign(Value::text(text), data_type),
        (None, false) => parse_text(data_type, text),
    }
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
    use ankerdb_value::UNDECLARED_PRECISION;

    #[test]
    fn plain_decimals() {
        let read = |text| plain_decimal(text, 6, 2).map(|decimal| decimal.unscaled);
        assert_eq!(read("12.3"), Some(1230));
        assert_eq!(read("-0.05"), Some(-5));
        assert_eq!(read("9999.99"), Some(999_999));
        assert_eq!(read(".5"), Some(50));
        assert_eq!(read("7."), Some(700));
        let undeclared = |text| plain_decimal(text, UNDECLARED_PRECISION, 9).map(|decimal| decimal.unscaled);
        assert_eq!(undeclared("1.5"), Some(1_500_000_000));
        assert_eq!(undeclared("1.1234567891"), None);
        for other in ["10000", "1.234", "", "-", ".", "1e3", " 1", "1.2.3", "NaN", "0000000000000000000"] {
            assert_eq!(read(other), None, "{other}");
        }
    }

    #[test]
    fn short_ways() {
        assert_eq!(parse_field("-7", DataType::SmallInt).unwrap(), Value::SmallInt(-7));
        assert_eq!(parse_field("9", DataType::BigInt).unwrap(), Value::BigInt(9));
        assert_eq!(parse_field("ab  ", DataType::Char(3)).unwrap(), Value::text("ab"));
        assert_eq!(parse_field("ab ", DataType::Varchar(3)).unwrap(), Value::text("ab "));
    }
}
