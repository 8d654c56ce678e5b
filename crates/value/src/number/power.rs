//! Roots, logarithms, exponentials and powers.
//!
//! PostgreSQL first estimates how large the result is, chooses a scale with at least 16 significant digits by that, and then computes
//! so many; the estimates here are its own (`numeric_sqrt`, `numeric_exp`, `numeric_ln`, `log_var`, `power_var`, `power_var_int`). The
//! digits are computed in binary with a fixed point and guard bits.

use super::arithmetic::{RESULT_SCALE_MAX, SIGNIFICANT_MIN, product, quotient};
use super::{Finite, Form, Number, WHOLE_MAX, divided, division_by_zero, overflow, power_of_ten};
use ankerdb_base::{Error, Result, SqlState};
use num_bigint::{BigInt, BigUint, Sign};

/// e^x with a larger x is refused, or zero where it is negative (3 * `NUMERIC_MAX_RESULT_SCALE`).
const EXPONENT_MAX: f64 = 6000.0;
/// Where the exponent is a rough product, one with a larger magnitude (3.01 * `NUMERIC_MAX_RESULT_SCALE`).
const ROUGH_EXPONENT_MAX: f64 = 6020.0;
/// Decimal digits beyond the scale of a logarithm that is multiplied with an exponent.
const GUARD_DIGITS: i64 = 8;
/// Bits beyond those that a result's digits need.
const GUARD_BITS: u64 = 40;
const LOG10_E: f64 = std::f64::consts::LOG10_E;

fn wrong_power(message: &str) -> Error {
    Error::new(SqlState::InvalidArgumentForPowerFunction, message.to_owned())
}

/// The scale that shows 16 significant digits of a result with so many digits before the point, and no operand's scale less. It is
/// capped even below its operands'.
fn capped_scale(digits: i64, operands: u32) -> u32 {
    (SIGNIFICANT_MIN - digits).max(i64::from(operands)).clamp(0, RESULT_SCALE_MAX) as u32
}

/// Bits that so many decimal digits need.
fn bits_of(digits: i64) -> u64 {
    (digits.max(0) as f64 * std::f64::consts::LOG2_10) as u64 + 1
}

/// `value / 2^bits` at a scale, rounded half away from zero.
fn from_binary(value: &BigInt, bits: i64, scale: u32) -> Finite {
    let raised = value * BigInt::from(power_of_ten(scale));
    let unscaled = if bits <= 0 {
        raised << bits.unsigned_abs()
    } else {
        divided(&raised, &(BigInt::from(1) << bits as u64))
    };
    Finite { unscaled, scale }
}

/// 2 * atanh(numerator / denominator) with `bits` fractional bits, by its series.
fn twice_atanh(numerator: &BigInt, denominator: &BigInt, bits: u64) -> BigInt {
    let argument = (numerator << bits) / denominator;
    let square = (&argument * &argument) >> bits;
    let mut term = argument.clone();
    let mut sum = argument;
    let mut divisor = 1u32;
    while term.sign() != Sign::NoSign {
        term = shifted_to_zero(&term * &square, bits);
        divisor += 2;
        sum += &term / divisor;
    }
    sum << 1
}

/// Shifts of negative numbers round down, so that a small one would never become zero.
fn shifted_to_zero(value: BigInt, bits: u64) -> BigInt {
    let (sign, magnitude) = value.into_parts();
    BigInt::from_biguint(sign, magnitude >> bits)
}

/// The logarithm of two with `bits` fractional bits.
fn ln_two(bits: u64) -> BigInt {
    twice_atanh(&BigInt::from(1), &BigInt::from(3), bits)
}

/// The natural logarithm of a positive number at a scale.
fn ln(value: &Finite, scale: u32) -> Finite {
    let magnitude = value.unscaled.magnitude();
    let power = power_of_ten(value.scale);
    // The mantissa lies between a half and two; a logarithm near zero has its digits far behind the point, which the scale tells.
    let exponent = magnitude.bits() as i64 - power.bits() as i64;
    let bits = bits_of(i64::from(scale)) + GUARD_BITS;
    let (dividend, divisor) = if exponent >= 0 {
        (magnitude.clone(), power << exponent.unsigned_abs())
    } else {
        (magnitude << exponent.unsigned_abs(), power)
    };
    // Each root halves the logarithm and takes a bit of it; four times closer to one are four terms less for each.
    let roots = (bits as f64).sqrt() as u64 / 4;
    let bits = bits + roots;
    let mut mantissa = (dividend << bits) / divisor;
    for _ in 0..roots {
        mantissa = (mantissa << bits).sqrt();
    }
    let one = BigInt::from(1) << bits;
    let mantissa = BigInt::from(mantissa);
    let logarithm = twice_atanh(&(&mantissa - &one), &(&mantissa + &one), bits) << roots;
    let logarithm = if exponent == 0 { logarithm } else { logarithm + ln_two_times(exponent, bits) };
    from_binary(&logarithm, bits as i64, scale)
}

/// `factor` times the logarithm of two, with `bits` correct fractional bits.
fn ln_two_times(factor: i64, bits: u64) -> BigInt {
    const FACTOR_BITS: u64 = 24;
    (ln_two(bits + FACTOR_BITS) * factor) >> FACTOR_BITS
}

/// e to the power of a number, at a scale.
///
/// # Errors
/// 22003 for a result with too many digits.
fn exp(value: &Finite, scale: u32) -> Result<Finite> {
    let approximate = Number(Form::Finite(value.clone())).to_f64();
    if approximate.abs() >= EXPONENT_MAX {
        return if approximate > 0.0 { Err(overflow()) } else { Ok(Finite::new(0, scale)) };
    }
    let digits = i64::from(scale) + (approximate * LOG10_E).max(0.0) as i64 + 1;
    let bits = bits_of(digits) + GUARD_BITS;
    let halvings = (bits as f64).sqrt() as u64;
    // Squares double the error.
    let bits = bits + 2 * halvings;
    let argument = (&value.unscaled << bits) / BigInt::from(power_of_ten(value.scale));
    let doublings = (approximate * std::f64::consts::LOG2_E).floor() as i64;
    // Between zero and the logarithm of two, but for what the estimate is off.
    let rest = (argument - ln_two_times(doublings, bits)) >> halvings;
    let one = BigInt::from(1) << bits;
    let (mut sum, mut term, mut divisor) = (&one + &rest, rest.clone(), 1u32);
    while term.sign() != Sign::NoSign {
        divisor += 1;
        term = shifted_to_zero(&term * &rest, bits) / divisor;
        sum += &term;
    }
    for _ in 0..halvings {
        sum = (&sum * &sum) >> bits;
    }
    Ok(from_binary(&sum, bits as i64 - doublings, scale))
}

/// How many digits the logarithm of a positive number has before its point, negative for zeros behind it.
fn ln_digits(value: &Finite) -> i64 {
    let one = BigInt::from(power_of_ten(value.scale));
    let tenfold = &value.unscaled * 10;
    let is_near_one = tenfold >= &one * 9 && tenfold <= &one * 11;
    if is_near_one {
        let distance = Finite { unscaled: &value.unscaled - one, scale: value.scale };
        return distance.leading(1).map_or(0, |(weight, digit)| weight * 4 + (digit as f64).log10() as i64);
    }
    let Some((weight, digits)) = value.leading(2) else { return 0 };
    let estimate = (digits as f64).ln() + (weight * 4 - 4) as f64 * std::f64::consts::LN_10;
    estimate.abs().log10() as i64
}

/// What a logarithm may be taken of.
fn positive(value: &Finite) -> Result<()> {
    let what = match value.unscaled.sign() {
        Sign::Plus => return Ok(()),
        Sign::NoSign => "zero",
        Sign::Minus => "a negative number",
    };
    Err(no_logarithm(what))
}

fn no_logarithm(what: &str) -> Error {
    Error::new(SqlState::InvalidArgumentForLogarithm, format!("cannot take logarithm of {what}"))
}

impl Number {
    /// The square root.
    ///
    /// # Errors
    /// 2201F for a negative number.
    pub fn sqrt(&self) -> Result<Number> {
        let no_root = || wrong_power("cannot take square root of a negative number");
        match &self.0 {
            Form::NotANumber => Ok(Number::NAN),
            Form::Infinite { is_negative: true } => Err(no_root()),
            Form::Infinite { is_negative: false } => Ok(self.clone()),
            Form::Finite(finite) if finite.is_negative() => Err(no_root()),
            Form::Finite(finite) => {
                let weight = finite.leading(1).map_or(0, |(weight, _)| weight);
                let digits = (weight + 1) * 4 / 2 - 1;
                root(finite, capped_scale(digits, finite.scale)).held()
            }
        }
    }

    /// e to the power of this number.
    ///
    /// # Errors
    /// 22003 for a result with too many digits.
    pub fn exp(&self) -> Result<Number> {
        match &self.0 {
            Form::NotANumber | Form::Infinite { is_negative: false } => Ok(self.clone()),
            Form::Infinite { is_negative: true } => Ok(Number::finite(0, 0)),
            Form::Finite(finite) => {
                let digits = (self.to_f64() * LOG10_E).clamp(-2000.0, 2000.0) as i64;
                exp(finite, capped_scale(digits, finite.scale))?.held()
            }
        }
    }

    /// The natural logarithm.
    ///
    /// # Errors
    /// 2201E for zero and negative numbers.
    pub fn ln(&self) -> Result<Number> {
        match &self.0 {
            Form::NotANumber | Form::Infinite { is_negative: false } => Ok(self.clone()),
            Form::Infinite { is_negative: true } => Err(no_logarithm("a negative number")),
            Form::Finite(finite) => {
                positive(finite)?;
                ln(finite, capped_scale(ln_digits(finite), finite.scale)).held()
            }
        }
    }

    /// The logarithm to a base.
    ///
    /// # Errors
    /// 2201E for zero and negative numbers, 22012 for the base one.
    pub fn log(&self, base: &Number) -> Result<Number> {
        match (&base.0, &self.0) {
            (Form::NotANumber, _) | (_, Form::NotANumber) => Ok(Number::NAN),
            (Form::Finite(base), Form::Finite(value)) => {
                positive(base)?;
                positive(value)?;
                logarithm(base, value)?.held()
            }
            (left, right) => {
                for side in [left, right] {
                    match side {
                        Form::Infinite { is_negative: true } => {
                            return Err(no_logarithm("a negative number"));
                        }
                        Form::Finite(finite) => positive(finite)?,
                        _ => {}
                    }
                }
                match (left, right) {
                    (Form::Infinite { .. }, Form::Infinite { .. }) => Ok(Number::NAN),
                    (Form::Infinite { .. }, _) => Ok(Number::finite(0, 0)),
                    _ => Ok(Number::infinity(false)),
                }
            }
        }
    }

    /// This number to the power of another one.
    ///
    /// # Errors
    /// 22003 for a result with too many digits, 2201F for zero to a negative power and a negative number to a fractional one.
    pub fn power(&self, exponent: &Number) -> Result<Number> {
        let (Form::Finite(base), Form::Finite(power)) = (&self.0, &exponent.0) else {
            return self.power_specially(exponent);
        };
        refuse_power(base.unscaled.sign(), power.unscaled.sign(), power.is_integral())?;
        let whole = if power.is_integral() { i32::try_from(power.whole().0).ok() } else { None };
        match whole {
            Some(whole) => whole_power(base, whole)?.held(),
            None => any_power(base, power)?.held(),
        }
    }

    /// A power of which one side is not finite.
    fn power_specially(&self, exponent: &Number) -> Result<Number> {
        let one = || Ok(Number::finite(1, 0));
        let is_one = |number: &Number| {
            matches!(&number.0, Form::Finite(_)) && number.compare(&Number::finite(1, 0)).is_eq()
        };
        let is_zero = |number: &Number| matches!(&number.0, Form::Finite(finite) if finite.is_zero());
        if self.is_nan() || exponent.is_nan() {
            return if is_zero(exponent) || is_one(self) { one() } else { Ok(Number::NAN) };
        }
        let sign = |number: &Number| match &number.0 {
            Form::Finite(finite) => finite.unscaled.sign(),
            Form::Infinite { is_negative: true } => Sign::Minus,
            _ => Sign::Plus,
        };
        let whole = match &exponent.0 {
            Form::Finite(power) => Some(power.whole()),
            _ => None,
        };
        let is_integral = whole.as_ref().is_none_or(|(_, is_cut)| !is_cut);
        refuse_power(sign(self), sign(exponent), is_integral)?;
        let grows = sign(exponent) == Sign::Plus;
        if is_one(self) || is_zero(exponent) {
            return one();
        }
        if is_zero(self) {
            return Ok(Number::finite(0, 0));
        }
        let Some((whole, _)) = whole else {
            let size = self.abs().compare(&Number::finite(1, 0));
            return match size.is_gt() == grows {
                _ if size.is_eq() => one(),
                true => Ok(Number::infinity(false)),
                false => Ok(Number::finite(0, 0)),
            };
        };
        if !grows {
            return Ok(Number::finite(0, 0));
        }
        let is_odd = whole.magnitude().bit(0);
        Ok(Number::infinity(sign(self) == Sign::Minus && is_odd))
    }
}

fn refuse_power(base: Sign, exponent: Sign, is_integral: bool) -> Result<()> {
    match (base, exponent) {
        (Sign::NoSign, Sign::Minus) => Err(wrong_power("zero raised to a negative power is undefined")),
        (Sign::Minus, _) if !is_integral => {
            Err(wrong_power("a negative number raised to a non-integer power yields a complex result"))
        }
        _ => Ok(()),
    }
}

/// The square root at a scale, rounded half up.
pub(super) fn root(value: &Finite, scale: u32) -> Finite {
    // Of four times the square, the root tells twice the root and so whether a half is to be rounded up; what is cut off before has no
    // part in it.
    let square: BigUint = value.unscaled.magnitude() << 2;
    let square = match (2 * scale).checked_sub(value.scale) {
        Some(more) => square * power_of_ten(more),
        None => square / power_of_ten(value.scale - 2 * scale),
    };
    Finite::new((square.sqrt() + 1u32) >> 1, scale)
}

fn logarithm(base: &Finite, value: &Finite) -> Result<Finite> {
    let (base_digits, value_digits) = (ln_digits(base), ln_digits(value));
    let digits = value_digits - base_digits;
    let scale = capped_scale(digits, base.scale.max(value.scale));
    let significant = i64::from(scale) + digits;
    let scale_for = |digits: i64| (significant - digits + GUARD_DIGITS).max(0) as u32;
    let base = ln(base, scale_for(base_digits));
    let value = ln(value, scale_for(value_digits));
    if base.is_zero() {
        return Err(division_by_zero());
    }
    Ok(quotient(&value, &base, scale))
}

/// A power whose exponent no 32 bits hold, or which has a fraction.
fn any_power(base: &Finite, exponent: &Finite) -> Result<Finite> {
    if base.is_zero() {
        return Ok(Finite::new(0, SIGNIFICANT_MIN as u32));
    }
    let is_negative = base.is_negative() && exponent.whole().0.magnitude().bit(0);
    let base = Finite::new(base.unscaled.magnitude().clone(), base.scale);
    let base_digits = ln_digits(&base);
    // Not capped: a base next to one has its first digit far behind the point.
    let rough_scale = (8 - base_digits).max(0) as u32;
    let rough = product(&ln(&base, rough_scale), exponent).rescaled(rough_scale);
    let rough = Number(Form::Finite(rough)).to_f64();
    if rough.abs() > ROUGH_EXPONENT_MAX {
        return if rough > 0.0 { Err(overflow()) } else { Ok(Finite::new(0, RESULT_SCALE_MAX as u32)) };
    }
    let digits = (rough * LOG10_E) as i64;
    let scale = capped_scale(digits, base.scale.max(exponent.scale));
    let ln_scale = (i64::from(scale) + digits - base_digits + GUARD_DIGITS).max(0) as u32;
    let power = exp(&product(&ln(&base, ln_scale), exponent).rescaled(ln_scale), scale)?;
    Ok(if is_negative { Finite { unscaled: -power.unscaled, scale } } else { power })
}

/// A power with an exponent of 32 bits, by repeated squares. PostgreSQL 15 gives it 16 fractional digits however large it is.
fn whole_power(base: &Finite, exponent: i32) -> Result<Finite> {
    let scale = i64::from(base.scale).clamp(SIGNIFICANT_MIN, RESULT_SCALE_MAX) as u32;
    let estimate = base.leading(4).map_or(0.0, |(weight, digits)| {
        f64::from(exponent) * ((digits as f64).log10() + (weight * 4 - 12) as f64)
    });
    if estimate > WHOLE_MAX as f64 {
        return Err(overflow());
    }
    if estimate + 1.0 < -f64::from(scale) {
        return Ok(Finite::new(0, scale));
    }
    let digits = estimate as i64;
    match exponent {
        // PostgreSQL does not round here.
        0 => return Ok(Finite::new(power_of_ten(scale), scale)),
        1 => return Ok(base.rescaled(scale)),
        -1 => return Ok(quotient(&Finite::new(1, 0), base, scale)),
        2 => return Ok(product(base, base).rescaled(scale)),
        _ if base.is_zero() => return Ok(Finite::new(0, scale)),
        _ => {}
    }
    let significant = 1 + i64::from(scale) + digits + f64::from(exponent).abs().ln() as i64 + GUARD_DIGITS;
    let mut square = base.clone();
    let mut mask = exponent.unsigned_abs();
    let mut result = if mask & 1 == 1 { base.clone() } else { Finite::new(1, 0) };
    mask >>= 1;
    while mask > 0 {
        square = kept(product(&square, &square), significant);
        if mask & 1 == 1 {
            result = kept(product(&result, &square), significant);
        }
        mask >>= 1;
        let is_too_large = |number: &Finite| number.exponent().is_some_and(|exponent| exponent >= WHOLE_MAX);
        if is_too_large(&square) || is_too_large(&result) {
            return if exponent > 0 { Err(overflow()) } else { Ok(Finite::new(0, scale)) };
        }
    }
    Ok(if exponent < 0 { quotient(&Finite::new(1, 0), &result, scale) } else { result.rescaled(scale) })
}

/// A product without the fractional digits that `significant` ones do not reach.
fn kept(product: Finite, significant: i64) -> Finite {
    let reach = significant - product.exponent().unwrap_or(0);
    let scale = reach.clamp(0, i64::from(product.scale)) as u32;
    product.rescaled(scale)
}
