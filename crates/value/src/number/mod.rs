//! Numbers of any length: what PostgreSQL's `numeric` without a precision holds.
//!
//! A [`Number`] has up to 131,072 digits before the point and 16,383 after it, or is NaN or one of the infinities. Results have
//! the scales that PostgreSQL 15 gives them (`src/backend/utils/adt/numeric.c`), so that they print alike; where it rounds, it rounds
//! half away from zero, and so does this. The long integers below are a library's.
//!
//! **Canonical text.** A value is stored and sent as the text that it is shown as: digits without an exponent, with all fractional
//! digits of its scale and no zeros in front (`-0.50`, `1000`), or `NaN`, `Infinity`, `-Infinity`. Order and keys are told from that
//! text without reading the number ([`compare_numbers`], [`push_number_key`]).

mod arithmetic;
mod binary;
mod integers;
mod order;
mod power;
mod sum;
#[cfg(test)]
mod tests;

pub use binary::{number_from_binary, number_to_binary};
pub(crate) use order::push_digits_key;
pub use order::{compare_numbers, push_number_key};
pub use sum::{NumberSum, Spread};

use crate::literal::{malformed, trim};
use crate::{Decimal, MAX_NUMERIC_PRECISION};
use ankerdb_base::{Error, Result, SqlState};
use num_bigint::{BigInt, BigUint, Sign};
use std::fmt;

/// Digits before the point, at most.
pub(crate) const WHOLE_MAX: i64 = 131_072;
/// Digits after the point, at most.
pub(crate) const FRACTION_MAX: i64 = 16_383;
/// No number with so few bits can be too large, whatever its scale: 10^131072 has 435,412.
const BITS_SURE: u64 = 435_000;
/// From here on an exponent is refused before anything is computed, as PostgreSQL does.
const EXPONENT_MAX: i64 = i32::MAX as i64 / 2;

/// A numeric of any length. Equality (`==`) is equality of representation: 1.0 is not 1.00; use [`Number::compare`] for the order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Number(Form);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Form {
    NotANumber,
    Infinite { is_negative: bool },
    Finite(Finite),
}

/// The number `unscaled / 10^scale`.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Finite {
    unscaled: BigInt,
    scale: u32,
}

fn overflow() -> Error {
    Error::new(SqlState::NumericValueOutOfRange, "value overflows numeric format")
}

fn division_by_zero() -> Error {
    Error::new(SqlState::DivisionByZero, "division by zero")
}

fn power_of_ten(exponent: u32) -> BigUint {
    BigUint::from(10u8).pow(exponent)
}

/// The quotient, rounded half away from zero.
fn divided(dividend: &BigInt, divisor: &BigInt) -> BigInt {
    let quotient = dividend / divisor;
    let remainder = dividend - &quotient * divisor;
    if remainder.magnitude() << 1 < *divisor.magnitude() {
        return quotient;
    }
    if (dividend.sign() == Sign::Minus) == (divisor.sign() == Sign::Minus) {
        quotient + 1
    } else {
        quotient - 1
    }
}

/// How many digits the integer has; 0 for zero. Costs a power of ten for one that no 128 bits hold.
fn digit_count(magnitude: &BigUint) -> u32 {
    if let Ok(small) = u128::try_from(magnitude) {
        return small.checked_ilog10().map_or(0, |exponent| exponent + 1);
    }
    // Bits tell the digits but for one.
    let at_least = ((magnitude.bits() - 1) as f64 * std::f64::consts::LOG10_2) as u32 + 1;
    at_least + u32::from(*magnitude >= power_of_ten(at_least))
}

impl Finite {
    fn new(unscaled: impl Into<BigInt>, scale: u32) -> Finite {
        Finite { unscaled: unscaled.into(), scale }
    }

    fn is_zero(&self) -> bool {
        self.unscaled.sign() == Sign::NoSign
    }

    fn is_negative(&self) -> bool {
        self.unscaled.sign() == Sign::Minus
    }

    /// The digits at a scale, rounded half away from zero if it is smaller.
    fn at_scale(&self, scale: u32) -> BigInt {
        if scale == self.scale {
            return self.unscaled.clone();
        }
        if scale > self.scale {
            return &self.unscaled * BigInt::from(power_of_ten(scale - self.scale));
        }
        divided(&self.unscaled, &power_of_ten(self.scale - scale).into())
    }

    fn rescaled(&self, scale: u32) -> Finite {
        Finite { unscaled: self.at_scale(scale), scale }
    }

    /// The digits before the point, and whether others were cut off.
    fn whole(&self) -> (BigInt, bool) {
        if self.scale == 0 {
            return (self.unscaled.clone(), false);
        }
        let power = BigInt::from(power_of_ten(self.scale));
        let whole = &self.unscaled / &power;
        let is_cut = &whole * &power != self.unscaled;
        (whole, is_cut)
    }

    fn is_integral(&self) -> bool {
        !self.whole().1
    }

    /// The position of the first digit as an exponent of ten; `None` for zero.
    fn exponent(&self) -> Option<i64> {
        let digits = digit_count(self.unscaled.magnitude());
        (digits > 0).then(|| i64::from(digits) - 1 - i64::from(self.scale))
    }

    /// The first groups of four digits, counted from the point, as an integer, and the exponent of 10,000 that the first group has:
    /// PostgreSQL's digits and weight, from which it estimates sizes. Zero has no groups.
    fn leading(&self, groups: u32) -> Option<(i64, u64)> {
        let weight = self.exponent()?.div_euclid(4);
        let shift = i64::from(self.scale) + 4 * (weight + 1 - i64::from(groups));
        let power = power_of_ten(shift.unsigned_abs() as u32);
        let digits =
            if shift >= 0 { self.unscaled.magnitude() / power } else { self.unscaled.magnitude() * power };
        Some((weight, u64::try_from(digits).expect("four groups have sixteen digits")))
    }

    /// Without fractional zeros at the end.
    fn trimmed(&self) -> Finite {
        let text = self.unscaled.magnitude().to_string();
        let zeros = text.bytes().rev().take_while(|digit| *digit == b'0').count() as u32;
        let scale = if self.is_zero() { 0 } else { self.scale - zeros.min(self.scale) };
        let power = BigInt::from(power_of_ten(self.scale - scale));
        Finite { unscaled: &self.unscaled / power, scale }
    }

    /// As a result.
    ///
    /// # Errors
    /// 22003 where it has more digits before the point than a number may have. Too many after it are rounded away.
    fn held(self) -> Result<Number> {
        let held =
            if i64::from(self.scale) > FRACTION_MAX { self.rescaled(FRACTION_MAX as u32) } else { self };
        let is_large = held.unscaled.bits() > BITS_SURE;
        if is_large && held.exponent().is_some_and(|exponent| exponent >= WHOLE_MAX) {
            return Err(overflow());
        }
        Ok(Number(Form::Finite(held)))
    }
}

impl Number {
    /// Not a number: greater than all others, and equal to itself.
    pub const NAN: Number = Number(Form::NotANumber);

    fn infinity(is_negative: bool) -> Number {
        Number(Form::Infinite { is_negative })
    }

    fn finite(unscaled: impl Into<BigInt>, scale: u32) -> Number {
        Number(Form::Finite(Finite::new(unscaled, scale)))
    }

    /// Reads `[+-]digits[.digits][e[+-]digits]`, NaN or an infinity, with blanks around it.
    ///
    /// # Errors
    /// 22P02 if it is malformed, 22003 if it has more digits than a number may have.
    pub fn parse(text: &str) -> Result<Number> {
        let body = trim(text);
        let (is_negative, unsigned) = match body.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, body.strip_prefix('+').unwrap_or(body)),
        };
        if unsigned.eq_ignore_ascii_case("inf") || unsigned.eq_ignore_ascii_case("infinity") {
            return Ok(Number::infinity(is_negative));
        }
        if body.eq_ignore_ascii_case("nan") {
            return Ok(Number::NAN);
        }
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, parse_exponent(exponent)),
            None => (unsigned, Some(0)),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let are_digits = whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit());
        match exponent {
            Some(exponent) if are_digits && whole.len() + fraction.len() > 0 => {
                assembled(is_negative, whole, fraction, exponent)
            }
            _ => Err(malformed("numeric", text)),
        }
    }

    /// Reads canonical text, as this module writes it.
    ///
    /// # Panics
    /// If it is none.
    pub fn read(canonical: &str) -> Number {
        Number::parse(canonical).expect("canonical text is a number")
    }

    /// The canonical text of a number that was written in any way.
    ///
    /// # Errors
    /// Those of [`parse`](Self::parse).
    pub fn canonical(text: &str) -> Result<String> {
        Number::parse(text).map(|number| number.to_string())
    }

    /// A number of declared digits, with its scale.
    pub fn from_decimal(value: Decimal) -> Number {
        Number::finite(value.unscaled, u32::from(value.scale))
    }

    /// An integer.
    pub fn from_i128(value: i128) -> Number {
        Number::finite(value, 0)
    }

    /// A double as PostgreSQL converts it: 15 significant digits.
    pub fn from_f64(value: f64) -> Number {
        Number::from_float(value, 14)
    }

    /// A real as PostgreSQL converts it: 6 significant digits.
    pub fn from_f32(value: f32) -> Number {
        Number::from_float(f64::from(value), 5)
    }

    fn from_float(value: f64, fraction: usize) -> Number {
        if value.is_nan() {
            return Number::NAN;
        }
        if value.is_infinite() {
            return Number::infinity(value < 0.0);
        }
        Number::read(&format!("{value:.fraction$e}")).trim_scale()
    }

    /// The number where 38 digits hold it, with its scale if that is possible and with fewer zeros at its end if not.
    pub fn to_decimal(&self) -> Option<Decimal> {
        let Form::Finite(finite) = &self.0 else { return None };
        let narrowed = |finite: &Finite| {
            let unscaled = i128::try_from(&finite.unscaled).ok()?;
            let scale = u8::try_from(finite.scale).ok().filter(|scale| *scale <= MAX_NUMERIC_PRECISION)?;
            (unscaled.unsigned_abs() < 10u128.pow(u32::from(MAX_NUMERIC_PRECISION)))
                .then(|| Decimal::new(unscaled, scale))
        };
        narrowed(finite).or_else(|| narrowed(&finite.trimmed()))
    }

    /// The number as a `numeric(precision, scale)` stores it, rounded to the scale.
    ///
    /// # Errors
    /// 22003 if it needs more digits or is infinite; 0A000 for NaN, which has no place in declared digits here.
    pub fn fit(&self, precision: u8, scale: u8) -> Result<Decimal> {
        let refused = |detail: String| {
            Err(Error::new(SqlState::NumericValueOutOfRange, "numeric field overflow").with_detail(detail))
        };
        match &self.0 {
            Form::NotANumber => Err(Error::new(
                SqlState::FeatureNotSupported,
                format!("NaN in a numeric({precision},{scale}) is not supported"),
            )
            .with_hint("A column of type numeric without a precision holds NaN.")),
            Form::Infinite { .. } => refused(format!(
                "A field with precision {precision}, scale {scale} cannot hold an infinite value."
            )),
            Form::Finite(finite) => {
                let rounded = Number(Form::Finite(finite.rescaled(u32::from(scale))));
                match rounded.to_decimal().map(|decimal| decimal.fit(precision, scale)) {
                    Some(fitted) => fitted,
                    // Any number with too many digits has this error.
                    None => {
                        Decimal::new(10i128.pow(37), 0).fit(precision, scale).and_then(|_| Err(overflow()))
                    }
                }
            }
        }
    }

    /// The nearest double; infinite where no double is so large.
    pub fn to_f64(&self) -> f64 {
        match &self.0 {
            Form::NotANumber => f64::NAN,
            Form::Infinite { is_negative: true } => f64::NEG_INFINITY,
            Form::Infinite { is_negative: false } => f64::INFINITY,
            Form::Finite(_) => self.to_string().parse().expect("digits with a point are a double"),
        }
    }

    /// The nearest integer, half away from zero. `type_name` is the integer type's, for messages.
    ///
    /// # Errors
    /// 22003 if it is out of 64 bits, 0A000 for NaN and the infinities.
    pub fn to_i64(&self, type_name: &str) -> Result<i64> {
        let special = |what: &str| {
            Err(Error::new(SqlState::FeatureNotSupported, format!("cannot convert {what} to {type_name}")))
        };
        match &self.0 {
            Form::NotANumber => special("NaN"),
            Form::Infinite { .. } => special("infinity"),
            Form::Finite(finite) => i64::try_from(finite.at_scale(0)).map_err(|_| {
                Error::new(SqlState::NumericValueOutOfRange, format!("{type_name} out of range"))
            }),
        }
    }

    /// Whether it is neither NaN nor infinite.
    pub fn is_finite(&self) -> bool {
        matches!(self.0, Form::Finite(_))
    }

    /// Whether it is NaN.
    pub fn is_nan(&self) -> bool {
        self.0 == Form::NotANumber
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let finite = match &self.0 {
            Form::NotANumber => return f.write_str("NaN"),
            Form::Infinite { is_negative: true } => return f.write_str("-Infinity"),
            Form::Infinite { is_negative: false } => return f.write_str("Infinity"),
            Form::Finite(finite) => finite,
        };
        let sign = if finite.is_negative() { "-" } else { "" };
        let digits = finite.unscaled.magnitude().to_string();
        let scale = finite.scale as usize;
        if scale == 0 {
            return write!(f, "{sign}{digits}");
        }
        match digits.len().checked_sub(scale) {
            Some(whole) if whole > 0 => write!(f, "{sign}{}.{}", &digits[..whole], &digits[whole..]),
            _ => write!(f, "{sign}0.{digits:0>scale$}"),
        }
    }
}

/// An exponent as it is written, capped far outside of what any number can use.
fn parse_exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let magnitude = digits.parse::<i64>().unwrap_or(i64::MAX).min(1 << 40);
    Some(if text.starts_with('-') { -magnitude } else { magnitude })
}

/// Puts digits together. Their number is looked at before they are, so that an exponent does not cost what it promises.
fn assembled(is_negative: bool, whole: &str, fraction: &str, exponent: i64) -> Result<Number> {
    let scale = (fraction.len() as i64 - exponent).max(0);
    if exponent.abs() >= EXPONENT_MAX || scale > FRACTION_MAX {
        return Err(overflow());
    }
    let zeros = whole.bytes().chain(fraction.bytes()).take_while(|digit| *digit == b'0').count() as i64;
    let count = (whole.len() + fraction.len()) as i64;
    if zeros == count {
        return Ok(Number::finite(0, scale as u32));
    }
    if whole.len() as i64 + exponent - zeros > WHOLE_MAX {
        return Err(overflow());
    }
    let magnitude = if count <= 38 {
        let digits = whole.bytes().chain(fraction.bytes());
        BigUint::from(digits.fold(0u128, |number, digit| number * 10 + u128::from(digit - b'0')))
    } else {
        let digits = [whole, fraction].concat();
        BigUint::parse_bytes(digits.as_bytes(), 10).expect("these are digits")
    };
    // Tens that the exponent asks for behind the last digit written.
    let tens = (exponent - fraction.len() as i64).max(0) as u32;
    let magnitude = if tens > 0 { magnitude * power_of_ten(tens) } else { magnitude };
    let sign = if is_negative { Sign::Minus } else { Sign::Plus };
    Ok(Number::finite(BigInt::from_biguint(sign, magnitude), scale as u32))
}
