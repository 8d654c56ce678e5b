//! Exact decimal numbers: a 128-bit integer and a scale.
//!
//! A number has at most 38 digits. Sums, differences and products are exact and carry PostgreSQL's result scale
//! (the larger scale; for products the sum of both) as long as 38 digits hold them; quotients have PostgreSQL's
//! scale of at least 16 significant digits. Where 38 digits do not suffice, *fractional* digits are rounded away,
//! half away from zero; an integer part that does not fit is an error. PostgreSQL itself does the same, only with
//! limits in the thousands of digits. There is no NaN and no infinity.
//!
//! Invariant: `scale <= 38`, and `|unscaled| < 10^38` for every result of this module.

use crate::MAX_NUMERIC_PRECISION;
use crate::wide::Wide;
use ankerdb_base::{Error, Result, SqlState};
use std::cmp::Ordering;
use std::fmt;

/// The number `unscaled / 10^scale`. Equality (`==`) is equality of representation: 1.0 is not 1.00; use
/// [`Decimal::compare`] for the order of numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decimal {
    /// The digits as an integer, at most 38 of them.
    pub unscaled: i128,
    /// How many of the digits are fractional.
    pub scale: u8,
}

/// The powers of ten with exponents 0 to 38.
const POWERS: [u128; MAX_NUMERIC_PRECISION as usize + 1] = {
    let mut powers = [1; MAX_NUMERIC_PRECISION as usize + 1];
    let mut i = 1;
    while i < powers.len() {
        powers[i] = powers[i - 1] * 10;
        i += 1;
    }
    powers
};

/// The first number with too many digits.
const LIMIT: u128 = POWERS[MAX_NUMERIC_PRECISION as usize];

/// PostgreSQL's least number of significant digits in a quotient.
const QUOTIENT_DIGITS_MIN: i32 = 16;

fn overflow() -> Error {
    Error::new(SqlState::NumericValueOutOfRange, "value overflows numeric format")
}

fn division_by_zero() -> Error {
    Error::new(SqlState::DivisionByZero, "division by zero")
}

fn signed(negative: bool, magnitude: u128) -> i128 {
    debug_assert!(magnitude < LIMIT);
    if negative { -(magnitude as i128) } else { magnitude as i128 }
}

fn fits(unscaled: i128) -> bool {
    unscaled.unsigned_abs() < LIMIT
}

impl Decimal {
    /// Zero without fractional digits.
    pub const ZERO: Decimal = Decimal { unscaled: 0, scale: 0 };

    /// `unscaled / 10^scale`.
    ///
    /// # Panics
    /// If `scale` exceeds 38.
    pub fn new(unscaled: i128, scale: u8) -> Decimal {
        assert!(scale <= MAX_NUMERIC_PRECISION, "a decimal has at most 38 fractional digits");
        Decimal { unscaled, scale }
    }

    /// `self + other`, with the larger of both scales.
    ///
    /// # Errors
    /// `NumericValueOutOfRange` if 38 digits do not hold the integer part of the result.
    pub fn checked_add(self, other: Decimal) -> Result<Decimal> {
        let scale = self.scale.max(other.scale);
        if let (Some(left), Some(right)) = (self.raised(scale), other.raised(scale))
            && let Some(unscaled) = left.checked_add(right)
            && fits(unscaled)
        {
            return Ok(Decimal { unscaled, scale });
        }
        let (left, right) = (self.aligned(scale), other.aligned(scale));
        let (left_negative, right_negative) = (self.unscaled < 0, other.unscaled < 0);
        if left_negative == right_negative {
            rounded(left_negative, left.sum(right), scale)
        } else if left >= right {
            rounded(left_negative, left.difference(right), scale)
        } else {
            rounded(right_negative, right.difference(left), scale)
        }
    }

    /// `self - other`, with the larger of both scales.
    ///
    /// # Errors
    /// `NumericValueOutOfRange` if 38 digits do not hold the integer part of the result.
    pub fn checked_sub(self, other: Decimal) -> Result<Decimal> {
        self.checked_add(other.negated()?)
    }

    /// `self * other`, with the sum of both scales where 38 digits hold the product.
    ///
    /// # Errors
    /// `NumericValueOutOfRange` if 38 digits do not hold the integer part of the result.
    pub fn checked_mul(self, other: Decimal) -> Result<Decimal> {
        let scale = self.scale + other.scale;
        if scale <= MAX_NUMERIC_PRECISION
            && let Some(unscaled) = self.unscaled.checked_mul(other.unscaled)
            && fits(unscaled)
        {
            return Ok(Decimal { unscaled, scale });
        }
        let negative = (self.unscaled < 0) != (other.unscaled < 0);
        rounded(negative, Wide::product(self.unscaled.unsigned_abs(), other.unscaled.unsigned_abs()), scale)
    }

    /// `self / other`, rounded half away from zero to PostgreSQL's scale: at least 16 significant digits and at
    /// least the scale of either operand.
    ///
    /// # Errors
    /// `NumericValueOutOfRange` if 38 digits do not hold the integer part of the result; `DivisionByZero`.
    pub fn checked_div(self, other: Decimal) -> Result<Decimal> {
        if other.unscaled == 0 {
            return Err(division_by_zero());
        }
        let scale = quotient_scale(self, other);
        let negative = (self.unscaled < 0) != (other.unscaled < 0);
        let (dividend, divisor) = (self.unscaled.unsigned_abs(), other.unscaled.unsigned_abs());
        // Both operands have at most the result's scale, so the dividend only ever gains digits.
        let digits = scale + other.scale - self.scale;
        let (quotient, remainder, digits_left) = divide_with_fraction(dividend, divisor, digits)?;
        let scale = scale.checked_sub(digits_left).ok_or_else(overflow)?;
        let up = remainder >= divisor - remainder;
        rounded(negative, Wide::product(quotient + u128::from(up), 1), scale)
    }

    /// The remainder of the division truncated toward zero, with the sign of `self` and the larger of both
    /// scales.
    ///
    /// # Errors
    /// `NumericValueOutOfRange` if 38 digits do not hold the integer part of the result; `DivisionByZero`.
    pub fn checked_rem(self, other: Decimal) -> Result<Decimal> {
        if other.unscaled == 0 {
            return Err(division_by_zero());
        }
        let scale = self.scale.max(other.scale);
        if let (Some(dividend), Some(divisor)) = (self.raised(scale), other.raised(scale)) {
            let (_, remainder) = divided(dividend, divisor);
            if fits(remainder) {
                return Ok(Decimal { unscaled: remainder, scale });
            }
        }
        let dividend = self.unscaled.unsigned_abs();
        let remainder = match other.raised(scale) {
            Some(divisor) => {
                let divisor = divisor.unsigned_abs();
                (self.scale..scale).fold(dividend % divisor, |rest, _| next_digit(rest, divisor).1)
            }
            // A divisor beyond 128 bits at the dividend's scale is larger than any dividend.
            None => dividend,
        };
        rounded(self.unscaled < 0, Wide::product(remainder, 1), scale)
    }

    /// `-self`.
    ///
    /// # Errors
    /// `NumericValueOutOfRange` for a number outside of the 38 digits, which no function here gives.
    pub fn negated(self) -> Result<Decimal> {
        let unscaled = self.unscaled.checked_neg().ok_or_else(overflow)?;
        Ok(Decimal { unscaled, scale: self.scale })
    }

    /// This number with another scale, rounded half away from zero.
    ///
    /// # Errors
    /// `NumericValueOutOfRange` if the digits do not fit.
    pub fn rescale(self, scale: u8) -> Result<Decimal> {
        if scale >= self.scale {
            let unscaled = self.raised(scale).filter(|&unscaled| fits(unscaled)).ok_or_else(overflow)?;
            return Ok(Decimal { unscaled, scale });
        }
        let divisor = POWERS[usize::from(self.scale - scale)] as i128;
        let (quotient, remainder) = divided(self.unscaled, divisor);
        let up = remainder.unsigned_abs() >= (divisor as u128) / 2;
        let step = if up { self.unscaled.signum() } else { 0 };
        Ok(Decimal { unscaled: quotient + step, scale })
    }

    /// The number as a `numeric(precision, scale)` stores it: rounded to the scale.
    ///
    /// # Errors
    /// `NumericValueOutOfRange` if it needs more digits.
    pub fn fit(self, precision: u8, scale: u8) -> Result<Decimal> {
        let limit = POWERS[usize::from(precision.min(MAX_NUMERIC_PRECISION))];
        match self.rescale(scale) {
            Ok(fitted) if fitted.unscaled.unsigned_abs() < limit => Ok(fitted),
            _ => Err(field_overflow(precision, scale)),
        }
    }

    /// The order of the two numbers, whatever their scales.
    pub fn compare(self, other: Decimal) -> Ordering {
        let scale = self.scale.max(other.scale);
        if let (Some(left), Some(right)) = (self.raised(scale), other.raised(scale)) {
            return left.cmp(&right);
        }
        match self.unscaled.signum().cmp(&other.unscaled.signum()) {
            Ordering::Equal if self.unscaled < 0 => other.aligned(scale).cmp(&self.aligned(scale)),
            Ordering::Equal => self.aligned(scale).cmp(&other.aligned(scale)),
            by_sign => by_sign,
        }
    }

    /// The nearest integer, half away from zero.
    pub fn to_integer(self) -> i128 {
        // Fewer digits always fit.
        self.rescale(0).map_or(self.unscaled, |whole| whole.unscaled)
    }

    /// The largest integer that is not larger, and whether the number has a fraction.
    pub fn floor(self) -> (i128, bool) {
        let (quotient, remainder) = divided(self.unscaled, POWERS[usize::from(self.scale)] as i128);
        (quotient - i128::from(remainder < 0), remainder != 0)
    }

    /// The number truncated to so many fractional digits.
    pub fn truncated(self, digits: u8) -> Decimal {
        let cut = self.scale.saturating_sub(digits);
        let (kept, _) = divided(self.unscaled, POWERS[usize::from(cut)] as i128);
        Decimal { unscaled: kept, scale: self.scale - cut }
    }

    /// The nearest 64-bit integer, half away from zero, if it fits.
    pub fn to_i64(self) -> Option<i64> {
        i64::try_from(self.to_integer()).ok()
    }

    /// The nearest double.
    pub fn to_f64(self) -> f64 {
        // Up to 2^53 and 10^22 both sides are exact doubles, so the one division rounds correctly.
        if self.unscaled.unsigned_abs() <= 1 << 53 && self.scale <= 22 {
            return self.unscaled as f64 / 10f64.powi(i32::from(self.scale));
        }
        self.to_string().parse().expect("digits with a point are a double")
    }

    /// A double as PostgreSQL converts it: 15 significant digits. `None` for NaN and infinity, and where the
    /// integer part has more than 38 digits.
    pub fn from_f64(value: f64) -> Option<Decimal> {
        if let Some(quick) = few_digits(value) {
            return Some(quick);
        }
        value
            .is_finite()
            .then(|| parse(&format!("{value:.14e}"), MAX_NUMERIC_PRECISION).ok())?
            .map(Decimal::trimmed)
    }

    /// A real as PostgreSQL converts it: 6 significant digits. `None` as for [`Decimal::from_f64`].
    pub fn from_f32(value: f32) -> Option<Decimal> {
        value
            .is_finite()
            .then(|| parse(&format!("{value:.5e}"), MAX_NUMERIC_PRECISION).ok())?
            .map(Decimal::trimmed)
    }

    /// Reads `[+-]digits[.digits][e[+-]digits]` with blanks around it. The scale is the number of fractional
    /// digits written, but for zeros at the end that 38 digits have no room for.
    ///
    /// # Errors
    /// `InvalidTextRepresentation` if it is malformed, `NumericValueOutOfRange` if 38 digits do not hold it,
    /// `FeatureNotSupported` for NaN and infinity.
    pub fn parse(text: &str) -> Result<Decimal> {
        let parsed = parse(text, MAX_NUMERIC_PRECISION)?;
        match needed_scale(text) > i64::from(parsed.scale) {
            true => Err(overflow()),
            false => Ok(parsed),
        }
    }

    /// Reads a number as [`Decimal::parse`] does, for a `numeric(precision, scale)`: rounded once to the scale.
    ///
    /// # Errors
    /// Those of [`parse`](Self::parse).
    pub fn parse_to_fit(text: &str, precision: u8, scale: u8) -> Result<Decimal> {
        match parse(text, scale) {
            Err(error) if error.state() == SqlState::NumericValueOutOfRange => {
                Err(field_overflow(precision, scale))
            }
            parsed => parsed?.fit(precision, scale),
        }
    }

    /// Without trailing fractional zeros.
    fn trimmed(mut self) -> Decimal {
        while self.scale > 0 {
            let (shorter, digit) = divided(self.unscaled, 10);
            if digit != 0 {
                break;
            }
            self = Decimal { unscaled: shorter, scale: self.scale - 1 };
        }
        self
    }

    /// The integer at a scale that is not smaller, if 128 bits hold it.
    #[inline]
    fn raised(self, scale: u8) -> Option<i128> {
        if scale == self.scale {
            return Some(self.unscaled);
        }
        self.unscaled.checked_mul(POWERS[usize::from(scale - self.scale)] as i128)
    }

    /// The magnitude at a scale that is not smaller.
    fn aligned(self, scale: u8) -> Wide {
        Wide::product(self.unscaled.unsigned_abs(), POWERS[usize::from(scale - self.scale)])
    }
}

impl From<i64> for Decimal {
    fn from(value: i64) -> Decimal {
        Decimal { unscaled: i128::from(value), scale: 0 }
    }
}

/// Quotient and remainder, truncated toward zero. A division of 128 bits takes several times as long as one of 64.
fn divided(dividend: i128, divisor: i128) -> (i128, i128) {
    match (i64::try_from(dividend), i64::try_from(divisor)) {
        // The smallest number has no quotient by -1.
        (Ok(dividend), Ok(divisor)) if divisor != -1 => {
            (i128::from(dividend / divisor), i128::from(dividend % divisor))
        }
        _ => (dividend / divisor, dividend % divisor),
    }
}

/// The first 15 digits of a double where they can be told by one multiplication; writing them out takes ten times as long.
///
/// A power of ten up to 10^22 is a double, so the product is off by half a unit in its last place at most. Below 10^15
/// that is 1/16: what is further away from the middle between two integers is rounded as the exact product would be.
fn few_digits(value: f64) -> Option<Decimal> {
    const SAFE: f64 = 0.5 - 0.0626;
    let magnitude = value.abs();
    if magnitude == 0.0 {
        return Some(Decimal::ZERO);
    }
    if !(1e-6..1e14).contains(&magnitude) {
        return None;
    }
    let scale = (14 - magnitude.log10().floor() as i32) as u8;
    let digits = magnitude * 10f64.powi(i32::from(scale));
    let whole = digits.round();
    let is_sure = (1e14..1e15).contains(&digits) && (digits - whole).abs() < SAFE && whole < 1e15;
    let unscaled = i128::from(whole as i64);
    is_sure.then(|| Decimal { unscaled: if value < 0.0 { -unscaled } else { unscaled }, scale }.trimmed())
}

fn field_overflow(precision: u8, scale: u8) -> Error {
    let bound = match precision.saturating_sub(scale) {
        0 => "1".to_string(),
        digits => format!("10^{digits}"),
    };
    Error::new(SqlState::NumericValueOutOfRange, "numeric field overflow").with_detail(format!(
        "A field with precision {precision}, scale {scale} must round to an absolute value less than {bound}."
    ))
}

/// Fractional digits of a number that [`parse`] reads, without zeros at the end; negative for tens.
fn needed_scale(text: &str) -> i64 {
    let body = crate::literal::trim(text);
    let (mantissa, exponent) = match body.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, parse_exponent(exponent).unwrap_or(0)),
        None => (body, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = whole.bytes().chain(fraction.bytes());
    let zeros = digits.clone().rev().take_while(|digit| *digit == b'0').count();
    let is_zero = !digits.clone().any(|digit| (b'1'..=b'9').contains(&digit));
    if is_zero { 0 } else { fraction.len() as i64 - zeros as i64 - exponent }
}

/// Rounds fractional digits away until 38 digits hold the number. Cutting digit by digit and looking only at the
/// last one cut rounds half away from zero, because that digit alone tells whether the rest is below a half.
fn rounded(negative: bool, mut magnitude: Wide, mut scale: u8) -> Result<Decimal> {
    let mut cut = 0;
    let kept = loop {
        match magnitude.narrow() {
            Some(kept) if kept < LIMIT && scale <= MAX_NUMERIC_PRECISION => break kept,
            _ => {}
        }
        scale = scale.checked_sub(1).ok_or_else(overflow)?;
        (magnitude, cut) = magnitude.divide_by_ten();
    };
    let mut kept = kept + u128::from(cut >= 5);
    if kept == LIMIT {
        scale = scale.checked_sub(1).ok_or_else(overflow)?;
        kept /= 10;
    }
    Ok(Decimal { unscaled: signed(negative, kept), scale })
}

/// The scale that PostgreSQL's `select_div_scale` chooses, capped at 38. It estimates the quotient's size from
/// the leading base-10000 digits of both operands; following it makes results print alike.
fn quotient_scale(dividend: Decimal, divisor: Decimal) -> u8 {
    let (dividend_weight, dividend_digit) = leading_digit(dividend);
    let (divisor_weight, divisor_digit) = leading_digit(divisor);
    let weight = dividend_weight - divisor_weight - i32::from(dividend_digit <= divisor_digit);
    let scale = (QUOTIENT_DIGITS_MIN - weight * 4).max(i32::from(dividend.scale.max(divisor.scale)));
    scale.min(i32::from(MAX_NUMERIC_PRECISION)) as u8
}

/// The first non-zero base-10000 digit, counted in groups of four from the decimal point, and its exponent.
fn leading_digit(number: Decimal) -> (i32, u128) {
    let magnitude = number.unscaled.unsigned_abs();
    let Some(exponent) = magnitude.checked_ilog10() else { return (0, 0) };
    let scale = i32::from(number.scale);
    let weight = (exponent as i32 - scale).div_euclid(4);
    let shift = scale + 4 * weight;
    let digit = match usize::try_from(shift) {
        Ok(shift) => magnitude / POWERS[shift],
        // The group reaches past the last digit written, by three digits at most.
        Err(_) => magnitude * POWERS[shift.unsigned_abs() as usize],
    };
    (weight, digit)
}

/// Divides and continues for `digits` digits: quotient of `dividend * 10^digits`, remainder, and how many of the
/// digits were left out because the quotient would have passed 38 digits.
fn divide_with_fraction(dividend: u128, divisor: u128, digits: u8) -> Result<(u128, u128, u8)> {
    if let Some(power) = POWERS.get(usize::from(digits))
        && let Some(grown) = dividend.checked_mul(*power)
        && grown / divisor < LIMIT
    {
        return Ok((grown / divisor, grown % divisor, 0));
    }
    let (mut quotient, mut remainder) = (dividend / divisor, dividend % divisor);
    if quotient >= LIMIT {
        return Err(overflow());
    }
    for done in 0..digits {
        if quotient >= LIMIT / 10 {
            return Ok((quotient, remainder, digits - done));
        }
        let (digit, rest) = next_digit(remainder, divisor);
        (quotient, remainder) = (quotient * 10 + digit, rest);
    }
    Ok((quotient, remainder, 0))
}

/// Quotient and remainder of `10 * remainder / divisor`. Ten times a 38-digit number can pass 128 bits, so the
/// product is built by doubling, reduced at each step.
fn next_digit(remainder: u128, divisor: u128) -> (u128, u128) {
    let reduce = |quotient: u128, rest: u128| {
        if rest >= divisor { (quotient + 1, rest - divisor) } else { (quotient, rest) }
    };
    let (quotient_2, rest_2) = reduce(0, remainder * 2);
    let (quotient_4, rest_4) = reduce(quotient_2 * 2, rest_2 * 2);
    let (quotient_8, rest_8) = reduce(quotient_4 * 2, rest_4 * 2);
    reduce(quotient_8 + quotient_2, rest_8 + rest_2)
}

fn parse(text: &str, scale_max: u8) -> Result<Decimal> {
    let malformed = || {
        let message = format!("invalid input syntax for type numeric: \"{text}\"");
        Error::new(SqlState::InvalidTextRepresentation, message)
    };
    let trimmed = crate::literal::trim(text);
    let body = trimmed.strip_prefix(['+', '-']).unwrap_or(trimmed);
    if ["nan", "inf", "infinity"].iter().any(|name| body.eq_ignore_ascii_case(name)) {
        let message = format!("numeric value \"{trimmed}\" is not supported");
        return Err(Error::new(SqlState::FeatureNotSupported, message)
            .with_hint("Use double precision for NaN and infinity."));
    }
    let (mantissa, exponent) = match body.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, parse_exponent(exponent).ok_or_else(malformed)?),
        None => (body, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digit_count = whole.len() + fraction.len();
    if digit_count == 0 || !whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
        return Err(malformed());
    }
    let digits = whole.bytes().chain(fraction.bytes()).map(|byte| u128::from(byte - b'0'));
    // Positions count from the first digit written; the decimal point stands before position `point`.
    let point = whole.len() as i64 + exponent;
    let scale = (digit_count as i64 - point).clamp(0, i64::from(scale_max));
    collect_digits(trimmed.starts_with('-'), digits, point, scale)
}

/// The exponent, capped far outside of what any number can use.
fn parse_exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let magnitude = digits.parse::<i64>().unwrap_or(i64::MAX).min(1 << 40);
    Some(if text.starts_with('-') { -magnitude } else { magnitude })
}

/// Puts the digits together up to `scale` positions after the point, or as many as 38 digits hold.
fn collect_digits(
    negative: bool,
    mut digits: impl Iterator<Item = u128>,
    point: i64,
    scale: i64,
) -> Result<Decimal> {
    let end = point + scale;
    let (mut magnitude, mut position) = (0, 0);
    let mut next = if end < 0 { Some(0) } else { digits.next() };
    while position < end {
        if next.is_none() && magnitude == 0 {
            position = end;
            break;
        }
        if magnitude >= LIMIT / 10 {
            break;
        }
        magnitude = magnitude * 10 + next.unwrap_or(0);
        position += 1;
        next = digits.next();
    }
    if position < point {
        return Err(overflow());
    }
    let scale = if end < 0 { scale } else { position - point };
    let up = next.is_some_and(|digit| digit >= 5);
    rounded(negative, Wide::product(magnitude + u128::from(up), 1), scale as u8)
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.unscaled < 0 { "-" } else { "" };
        let magnitude = self.unscaled.unsigned_abs();
        if self.scale == 0 {
            return write!(f, "{sign}{magnitude}");
        }
        let power = POWERS[usize::from(self.scale)];
        let width = usize::from(self.scale);
        write!(f, "{sign}{}.{:0width$}", magnitude / power, magnitude % power)
    }
}

#[cfg(test)]
#[path = "decimal_tests.rs"]
mod tests;
