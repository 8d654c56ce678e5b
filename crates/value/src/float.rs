//! Text forms of floating point numbers.
//!
//! Output is the shortest decimal that reads back as the same number, laid out as PostgreSQL does: plain digits
//! for decimal exponents from -4 to 14 (real: to 5), scientific outside of that. The standard library finds the
//! digits, this file places the point. With an `extra_float_digits` below one it has the digits that this says.
//!
//! As in PostgreSQL, a decimal exactly halfway to the next number is none of them, though it would read back as the same
//! number: others might break the tie in another way. Of two equally short ones that are equally near, the even one is written.

use crate::literal::{malformed, trim};
use crate::text_style::TextStyle;
use ankerdb_base::{Error, Result, SqlState};
use std::fmt::{LowerExp, Write};
use std::str::FromStr;

/// Reads a real. 22P02 if malformed, 22003 if it overflows to infinity or underflows to zero.
pub(crate) fn parse_real(text: &str) -> Result<f32> {
    let value: f32 = trim(text).parse().map_err(|_| malformed("real", text))?;
    check(text, f64::from(value), "real").map(|()| value)
}

/// Reads a double. Errors as for [`parse_real`].
pub(crate) fn parse_double(text: &str) -> Result<f64> {
    let value = trim(text).parse().map_err(|_| malformed("double precision", text))?;
    check(text, value, "double precision").map(|()| value)
}

fn check(text: &str, value: f64, type_name: &str) -> Result<()> {
    let mantissa = || trim(text).split(['e', 'E']).next().unwrap_or_default();
    let overflow = value.is_infinite() && !text.contains(['n', 'N']);
    let underflow = value == 0.0 && mantissa().contains(|digit: char| ('1'..='9').contains(&digit));
    if overflow || underflow {
        let message = format!("\"{}\" is out of range for type {type_name}", trim(text));
        return Err(Error::new(SqlState::NumericValueOutOfRange, message));
    }
    Ok(())
}

/// Appends a real.
pub(crate) fn format_real(value: f32, out: &mut String) {
    match special(f64::from(value)) {
        Some(name) => out.push_str(name),
        None if TextStyle::current().float_digits < 1 => limited(f64::from(value), 6, out),
        None => {
            let bits = value.to_bits();
            let number = Binary::of(u64::from(bits & 0x7f_ffff), (bits >> 23 & 0xff) as i32, 23, 150);
            lay_out(&shortest(&value, &number), 6, out);
        }
    }
}

/// Appends a double.
pub(crate) fn format_double(value: f64, out: &mut String) {
    match special(value) {
        Some(name) => out.push_str(name),
        None if TextStyle::current().float_digits < 1 => limited(value, 15, out),
        None => {
            let bits = value.to_bits();
            let number = Binary::of(bits & ((1 << 52) - 1), (bits >> 52 & 0x7ff) as i32, 52, 1075);
            lay_out(&shortest(&value, &number), 15, out);
        }
    }
}

/// Appends a number with so many digits, and as many more as the session's style says, which are fewer.
fn limited(value: f64, digits: i32, out: &mut String) {
    let digits = (digits + i32::from(TextStyle::current().float_digits)).max(1);
    let written = format!("{value:.*e}", digits as usize - 1);
    let (mantissa, exponent) = written.split_once('e').expect("the format has an exponent");
    let mantissa = match mantissa.contains('.') {
        true => mantissa.trim_end_matches('0').trim_end_matches('.'),
        false => mantissa,
    };
    lay_out(&format!("{mantissa}e{exponent}"), digits, out);
}

/// A positive number `mantissa * 2^exponent`.
struct Binary {
    mantissa: u64,
    exponent: i32,
    /// Whether the next smaller number is half as far as the next larger one.
    is_power: bool,
}

impl Binary {
    /// Of the fields of a floating point number: so many bits of a fraction, and an exponent with that bias.
    fn of(fraction: u64, exponent: i32, bits: u32, bias: i32) -> Binary {
        let hidden = if exponent == 0 { 0 } else { 1 << bits };
        Binary {
            mantissa: fraction | hidden,
            exponent: exponent.max(1) - bias,
            is_power: fraction == 0 && exponent > 1,
        }
    }

    /// Whether the decimal `digits * 10^power` is exactly halfway to the next number.
    fn is_halfway(&self, digits: u64, power: i32) -> bool {
        let is = |mantissa: u64, exponent: i32| are_equal((digits, power), (mantissa, exponent));
        let below = match self.is_power {
            true => is(4 * self.mantissa - 1, self.exponent - 2),
            false => self.mantissa > 0 && is(2 * self.mantissa - 1, self.exponent - 1),
        };
        below || is(2 * self.mantissa + 1, self.exponent - 1)
    }

    /// Whether this is so of a number as the standard library writes it.
    fn is_halfway_to(&self, scientific: &str) -> bool {
        let (digits, power) = decimal(scientific);
        self.is_halfway(digits, power)
    }

    /// The even one of two decimals between which the number is exactly in the middle, where this is the odd one.
    fn even(&self, scientific: &str) -> Option<String> {
        let (digits, power) = decimal(scientific);
        let is_tie =
            digits % 2 == 1 && are_equal((2 * digits - 1, power), (self.mantissa, self.exponent + 1));
        let (mantissa, exponent) = scientific.split_once('e').filter(|_| is_tie)?;
        let (before, last) = mantissa.split_at(mantissa.len() - 1);
        let even = last.parse::<u8>().ok()? - 1;
        Some(format!("{before}{even}e{exponent}"))
    }
}

/// Whether `digits * 10^power` is `mantissa * 2^exponent`.
fn are_equal((digits, power): (u64, i32), (mantissa, exponent): (u64, i32)) -> bool {
    let fives = 5u128.checked_pow(power.unsigned_abs()).unwrap_or(0);
    let scaled = match power >= 0 {
        true => u128::from(digits).checked_mul(fives),
        false => (fives > 0 && u128::from(digits).is_multiple_of(fives)).then(|| u128::from(digits) / fives),
    };
    let Some(scaled) = scaled.filter(|scaled| *scaled > 0 && mantissa > 0) else { return false };
    let (twos, others) = (scaled.trailing_zeros(), mantissa.trailing_zeros());
    scaled >> twos == u128::from(mantissa >> others) && twos as i32 + power == others as i32 + exponent
}

/// The digits and the power of ten of a number as the standard library writes it.
fn decimal(scientific: &str) -> (u64, i32) {
    let (mantissa, exponent) = scientific.split_once('e').expect("the format has an exponent");
    let fraction = mantissa.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let digits = mantissa.bytes().filter(u8::is_ascii_digit);
    let digits = digits.fold(0u64, |number, digit| number.wrapping_mul(10) + u64::from(digit - b'0'));
    let exponent: i32 = exponent.parse().expect("the exponent is a number");
    (digits, exponent - fraction as i32)
}

/// The shortest decimal that reads back as the number and as no other, however a tie is broken.
fn shortest<T: LowerExp + FromStr + PartialEq>(value: &T, number: &Binary) -> String {
    let reads_back = |text: &String| text.parse().is_ok_and(|read: T| read == *value);
    let found = format!("{value:e}");
    let found = number.even(&found).filter(reads_back).unwrap_or(found);
    if !number.is_halfway_to(&found) {
        return found;
    }
    let digits = found.bytes().take_while(|byte| *byte != b'e').filter(u8::is_ascii_digit).count();
    let longer = (digits..18).map(|fraction| format!("{value:.fraction$e}"));
    longer.into_iter().find(|text| reads_back(text) && !number.is_halfway_to(text)).unwrap_or(found)
}

fn special(value: f64) -> Option<&'static str> {
    if value.is_nan() {
        Some("NaN")
    } else if value.is_infinite() {
        Some(if value > 0.0 { "Infinity" } else { "-Infinity" })
    } else {
        None
    }
}

/// Turns `-d.ddde-n` into PostgreSQL's layout; exponents from `exponent_limit` on are scientific.
fn lay_out(scientific: &str, exponent_limit: i32, out: &mut String) {
    let (mantissa, exponent) = scientific.split_once('e').expect("the format has an exponent");
    let exponent: i32 = exponent.parse().expect("the exponent is a number");
    if !(-4..exponent_limit).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        write!(out, "{mantissa}e{sign}{:02}", exponent.unsigned_abs()).expect("a string accepts everything");
        return;
    }
    let magnitude = mantissa.strip_prefix('-').unwrap_or(mantissa);
    if magnitude.len() < mantissa.len() {
        out.push('-');
    }
    let digits = || magnitude.chars().filter(|&digit| digit != '.');
    let count = digits().count() as i32;
    if exponent < 0 {
        out.push_str("0.");
        out.extend(std::iter::repeat_n('0', (-exponent - 1) as usize));
        out.extend(digits());
    } else {
        out.extend(digits().take(exponent as usize + 1));
        out.extend(std::iter::repeat_n('0', (exponent + 1 - count).max(0) as usize));
        if count > exponent + 1 {
            out.push('.');
            out.extend(digits().skip(exponent as usize + 1));
        }
    }
}

/// Refuses an infinity that no operand explains (overflow) and a zero that none explains (underflow).
pub(crate) fn check_double(result: f64, infinity_explained: bool, zero_explained: bool) -> Result<f64> {
    let failure = if result.is_infinite() && !infinity_explained {
        "value out of range: overflow"
    } else if result == 0.0 && !zero_explained {
        "value out of range: underflow"
    } else {
        return Ok(result);
    };
    Err(Error::new(SqlState::NumericValueOutOfRange, failure))
}

/// [`check_double`] for reals.
pub(crate) fn check_real(result: f32, infinity_explained: bool, zero_explained: bool) -> Result<f32> {
    check_double(f64::from(result), infinity_explained, zero_explained).map(|_| result)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn double(value: f64) -> String {
        let mut out = String::new();
        format_double(value, &mut out);
        out
    }

    fn real(value: f32) -> String {
        let mut out = String::new();
        format_real(value, &mut out);
        out
    }

    #[test]
    fn doubles_are_laid_out_as_postgresql_does() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (0.1, "0.1"),
            (-1234.5, "-1234.5"),
            (1e14, "100000000000000"),
            (123456789012345.6, "123456789012345.6"),
            (1e15, "1e+15"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (0.00001234, "1.234e-05"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::NEG_INFINITY, "-Infinity"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(double(value), text);
        }
    }

    /// As PostgreSQL 15 writes them.
    #[test]
    fn no_decimal_is_halfway_to_the_next_number() {
        assert_eq!(real(64_368_528.0), "6.4368528e+07");
        assert_eq!(real(88_604_568.0), "8.860457e+07");
        assert_eq!(double(18_014_398_509_481_988.0), "1.8014398509481988e+16");
        assert_eq!(double(18_014_398_509_481_992.0), "1.8014398509481992e+16");
        assert_eq!(double(1e23), "9.999999999999999e+22");
        assert_eq!(double(36_028_797_018_963_976.0), "3.6028797018963976e+16");
        assert_eq!(real(33_554_436.0), "3.3554436e+07");
        assert_eq!(double(9_007_199_254_740_993.0), "9.007199254740992e+15");
    }

    /// As PostgreSQL 15 writes them.
    #[test]
    fn of_two_decimals_that_are_equally_near_the_even_one_is_written() {
        for (value, text) in [
            (144.703125, "144.70312"),
            (-244.140625, "-244.14062"),
            (217.953125, "217.95312"),
            (926.859375, "926.8594"),
        ] {
            assert_eq!(f64::from(value as f32), value);
            assert_eq!(real(value as f32), text);
        }
        assert_eq!(double(5e-324), "5e-324");
    }

    #[test]
    fn reals_turn_scientific_earlier() {
        assert_eq!(real(100_000.0), "100000");
        assert_eq!(real(1_000_000.0), "1e+06");
        assert_eq!(real(123_456_789.0), "1.2345679e+08");
        assert_eq!(real(0.1), "0.1");
    }

    #[test]
    fn literals_out_of_range_and_malformed_ones_are_told_apart() {
        let state = |text| parse_double(text).unwrap_err().state();
        for text in ["1e400", "-1e400", "1e-400", "0.1e-999"] {
            assert_eq!(state(text), SqlState::NumericValueOutOfRange, "{text}");
        }
        for text in ["", "abc", "1e", "1,5", "1 2", "infinit"] {
            assert_eq!(state(text), SqlState::InvalidTextRepresentation, "{text}");
        }
        assert_eq!(parse_real("1e39").unwrap_err().message(), "\"1e39\" is out of range for type real");
        assert_eq!(parse_double(" -Infinity "), Ok(f64::NEG_INFINITY));
        assert_eq!(parse_double("0e-999"), Ok(0.0));
        assert!(parse_double("NaN").is_ok_and(f64::is_nan));
    }
}
