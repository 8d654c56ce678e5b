//! Numbers of JSON: any digits, as PostgreSQL's numeric has them.

use crate::number::{FRACTION_MAX, WHOLE_MAX};
use ankerdb_base::{Error, Result, SqlState};

/// A number's digits without the point, and where that is.
struct Digits<'a> {
    is_negative: bool,
    whole: &'a str,
    fraction: &'a str,
    exponent: i64,
}

impl<'a> Digits<'a> {
    /// Reads a number as JSON writes it.
    ///
    /// # Errors
    /// 22003 for an exponent that no number has.
    fn of(text: &'a str) -> Result<Digits<'a>> {
        let (is_negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = match text.find(['e', 'E']) {
            Some(at) => (&text[..at], text[at + 1..].parse::<i32>().map_err(|_| overflow())?),
            None => (text, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        Ok(Digits { is_negative, whole, fraction, exponent: i64::from(exponent) })
    }

    fn all(&self) -> impl DoubleEndedIterator<Item = u8> + Clone {
        self.whole.bytes().chain(self.fraction.bytes())
    }

    /// The position of the first digit that is not zero, before the point as a positive number; `None` for zero.
    fn magnitude(&self) -> Option<i64> {
        let zeros = self.all().position(|digit| digit != b'0')?;
        Some(self.whole.len() as i64 + self.exponent - zeros as i64)
    }
}

fn overflow() -> Error {
    Error::new(SqlState::NumericValueOutOfRange, "value overflows numeric format")
}

/// Appends the number as a numeric is shown: without an exponent, with all of its fractional digits.
///
/// # Errors
/// 22003 for more digits than a numeric of PostgreSQL has.
pub(super) fn push_canonical(text: &str, out: &mut String) -> Result<()> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) && text.len() <= WHOLE_MAX as usize {
        out.push_str(text);
        return Ok(());
    }
    let digits = Digits::of(text)?;
    let scale = (digits.fraction.len() as i64 - digits.exponent).max(0);
    let magnitude = digits.magnitude();
    if scale > FRACTION_MAX || magnitude.is_some_and(|magnitude| magnitude > WHOLE_MAX) {
        return Err(overflow());
    }
    if digits.is_negative && magnitude.is_some() {
        out.push('-');
    }
    // The digits with the point at `point`, padded with zeros on both sides.
    let point = digits.whole.len() as i64 + digits.exponent;
    let count = (digits.whole.len() + digits.fraction.len()) as i64;
    let all: Vec<u8> = digits.all().collect();
    let digit = |at: i64| if (0..count).contains(&at) { char::from(all[at as usize]) } else { '0' };
    let first = match magnitude {
        Some(magnitude) if magnitude > 0 => point - magnitude,
        _ => point - 1,
    };
    (first..point).for_each(|at| out.push(digit(at)));
    if scale > 0 {
        out.push('.');
        (point..point + scale).for_each(|at| out.push(digit(at)));
    }
    Ok(())
}

/// Appends bytes that order as numbers do; equal numbers have equal bytes.
pub(super) fn push_key(text: &str, out: &mut Vec<u8>) -> Result<()> {
    crate::number::push_digits_key(text, out)
}
