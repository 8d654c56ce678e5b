//! Powers, roots and logarithms of numerics.
//!
//! They are computed with 37 fractional digits in 256 bits, powers with whole exponents exactly as long as these hold them. How many
//! digits are shown is PostgreSQL's choice: about 16 significant ones, and not fewer fractional ones than the arguments have. Where
//! 38 digits do not suffice, fractional digits are rounded away.

use super::entry::{Entry, NUMERIC, entry, wrong_argument};
use crate::expression::Typed;
use crate::expression::types::scale_of;
use ankerdb_engine::{Decimal, Error, Interrupt, Result, SqlState, Value};
use datafusion::arrow::datatypes::i256;

pub(super) const ENTRIES: &[Entry] = &[
    entry("sqrt", &[NUMERIC], NUMERIC, square_root).digits(digits),
    entry("exp", &[NUMERIC], NUMERIC, exponential).digits(digits),
    entry("ln", &[NUMERIC], NUMERIC, natural_logarithm).digits(digits),
    entry("log", &[NUMERIC], NUMERIC, decimal_logarithm).digits(digits),
    entry("log10", &[NUMERIC], NUMERIC, decimal_logarithm).digits(digits),
    entry("log", &[NUMERIC, NUMERIC], NUMERIC, logarithm).digits(digits),
    entry("power", &[NUMERIC, NUMERIC], NUMERIC, power).digits(digits),
    entry("pow", &[NUMERIC, NUMERIC], NUMERIC, power).digits(digits),
    entry("operator ^", &[NUMERIC, NUMERIC], NUMERIC, power).digits(digits),
];

/// Significant digits of a result, about.
const DIGITS: i32 = 16;
/// Fractional digits of what is computed in between.
const FRACTION: u32 = 37;
/// The most fractional digits of a numeric.
const SCALE_MAX: i32 = 38;

/// Of columns, whose values are not known when the type is.
fn digits(items: &[Typed]) -> u8 {
    let scales = items.iter().filter_map(|item| item.data_type).map(scale_of);
    scales.max().unwrap_or(0).max(DIGITS as u8)
}

fn overflow() -> Error {
    Error::new(SqlState::NumericValueOutOfRange, "value overflows numeric format")
}

fn decimal(values: &[Value], position: usize) -> Result<Decimal> {
    match values.get(position) {
        Some(Value::Numeric(value)) => Ok(*value),
        _ => Err(wrong_argument()),
    }
}

fn whole(number: i128) -> i256 {
    i256::from_i128(number)
}

fn ten_to(exponent: u32) -> i256 {
    whole(10).wrapping_pow(exponent)
}

fn one() -> i256 {
    ten_to(FRACTION)
}

/// The natural logarithm of ten.
fn ln_ten() -> i256 {
    // 2.3025850929940456840179914546843642076
    whole(23_025_850_929_940_456_840_179_914_546_843_642_076)
}

fn product(left: i256, right: i256) -> i256 {
    left.wrapping_mul(right).wrapping_div(one())
}

/// The quotient, rounded half away from zero; the divisor is positive.
fn rounded(dividend: i256, divisor: i256) -> i256 {
    let (quotient, rest) = (dividend.wrapping_div(divisor), dividend.wrapping_rem(divisor).wrapping_abs());
    let step = if dividend < i256::ZERO { i256::MINUS_ONE } else { i256::ONE };
    if rest.wrapping_add(rest) >= divisor { quotient.wrapping_add(step) } else { quotient }
}

/// `number / 10^scale` as a numeric of `wanted` fractional digits, or of as many as there is room for.
fn numeric(number: i256, scale: i32, wanted: i32) -> Result<Value> {
    let mut wanted = wanted.clamp(0, SCALE_MAX);
    loop {
        let shift = scale - wanted;
        let shown = match shift {
            0.. if shift > 76 => Some(i256::ZERO),
            0.. => Some(rounded(number, ten_to(shift.unsigned_abs()))),
            _ if shift < -76 => None,
            _ => number.checked_mul(ten_to(shift.unsigned_abs())),
        };
        let fitting = shown.and_then(i256::to_i128).filter(|shown| shown.unsigned_abs() < 10u128.pow(38));
        match fitting {
            Some(unscaled) => return Ok(Value::Numeric(Decimal::new(unscaled, wanted as u8))),
            None if wanted == 0 => return Err(overflow()),
            None => wanted -= 1,
        }
    }
}

/// The exponent of the first digit: 0 for 1 to 9.99.
fn magnitude(value: Decimal) -> i32 {
    value.unscaled.unsigned_abs().checked_ilog10().map_or(0, |digits| digits as i32 - i32::from(value.scale))
}

/// The integer square root of a number that is not negative.
pub(crate) fn whole_root(square: i256) -> i256 {
    if square <= i256::ZERO {
        return i256::ZERO;
    }
    // From above, so that the steps go down.
    let half = (256 - square.leading_zeros()).div_ceil(2);
    let mut root = i256::ONE << (half as u8);
    loop {
        let next = root.wrapping_add(square.wrapping_div(root)).wrapping_div(whole(2));
        if next >= root {
            return root;
        }
        root = next;
    }
}

fn square_root(values: &[Value], _: &Interrupt) -> Result<Value> {
    let value = decimal(values, 0)?;
    if value.unscaled < 0 {
        let message = "cannot take square root of a negative number";
        return Err(Error::new(SqlState::InvalidArgumentForPowerFunction, message));
    }
    // PostgreSQL counts digits by fours.
    let wanted = (DIGITS - (magnitude(value).div_euclid(4) * 2 + 1)).max(i32::from(value.scale)).clamp(0, 37);
    // With one digit more, which is then rounded.
    let shift = 2 * (wanted + 1) - i32::from(value.scale);
    let square = whole(value.unscaled).checked_mul(ten_to(shift.unsigned_abs())).ok_or_else(overflow)?;
    numeric(whole_root(square), wanted + 1, wanted)
}

/// The natural logarithm of a number above zero.
fn ln(value: Decimal) -> i256 {
    let exponent = magnitude(value);
    let shift = FRACTION as i32 - exponent - i32::from(value.scale);
    let mantissa = match shift {
        0.. => whole(value.unscaled).wrapping_mul(ten_to(shift.unsigned_abs())),
        _ => rounded(whole(value.unscaled), ten_to(shift.unsigned_abs())),
    };
    // Near 1 the series is short: two roots bring 10 to 1.8.
    let reduced = whole_root(whole_root(mantissa.wrapping_mul(one())).wrapping_mul(one()));
    let ratio = reduced.wrapping_sub(one()).wrapping_mul(one()).wrapping_div(reduced.wrapping_add(one()));
    let square = product(ratio, ratio);
    let (mut term, mut sum, mut number) = (ratio, ratio, 1);
    while term != i256::ZERO {
        term = product(term, square);
        number += 2;
        sum = sum.wrapping_add(term.wrapping_div(whole(number)));
    }
    sum.wrapping_mul(whole(8)).wrapping_add(ln_ten().wrapping_mul(whole(i128::from(exponent))))
}

/// e to the power, as a number from 0.3 to 3.2 and an exponent of ten.
fn exp(power: i256) -> (i256, i32) {
    let exponent = rounded(power, ln_ten());
    let rest = power.wrapping_sub(exponent.wrapping_mul(ln_ten())).wrapping_div(whole(16));
    let (mut term, mut sum, mut number) = (one(), one(), 0);
    while term != i256::ZERO {
        number += 1;
        term = product(term, rest).wrapping_div(whole(number));
        sum = sum.wrapping_add(term);
    }
    for _ in 0..4 {
        sum = product(sum, sum);
    }
    (sum, exponent.to_i128().map_or(i32::MAX, |exponent| exponent as i32))
}

/// A number's approximate value.
fn approximate(number: i256) -> f64 {
    number.to_string().parse::<f64>().unwrap_or(f64::MAX) / 1e37
}

/// e to the power, with as many digits as PostgreSQL shows, and at least so many fractional ones.
fn exponential_of(power: i256, least: i32) -> Result<Value> {
    let decimal_exponent = approximate(power) * std::f64::consts::LOG10_E;
    if decimal_exponent > 40.0 {
        return Err(overflow());
    }
    let wanted = (DIGITS - decimal_exponent.max(-1000.0) as i32).max(least).clamp(0, SCALE_MAX);
    if decimal_exponent < -40.0 {
        return numeric(i256::ZERO, 0, wanted);
    }
    let (number, exponent) = exp(power);
    numeric(number, FRACTION as i32 - exponent, wanted)
}

/// The number with the fractional digits of what is computed.
fn fixed(value: Decimal) -> Result<i256> {
    let shift = FRACTION as i32 - i32::from(value.scale);
    match shift {
        0.. => whole(value.unscaled).checked_mul(ten_to(shift.unsigned_abs())).ok_or_else(overflow),
        _ => Ok(rounded(whole(value.unscaled), ten_to(shift.unsigned_abs()))),
    }
}

fn exponential(values: &[Value], _: &Interrupt) -> Result<Value> {
    let value = decimal(values, 0)?;
    exponential_of(fixed(value)?, i32::from(value.scale))
}

/// Refuses what has no logarithm.
fn check(value: Decimal) -> Result<()> {
    let refused = |message| Err(Error::new(SqlState::InvalidArgumentForLogarithm, message));
    match value.unscaled {
        0 => refused("cannot take logarithm of zero"),
        ..0 => refused("cannot take logarithm of a negative number"),
        _ => Ok(()),
    }
}

/// The exponent of the first digit of a number's logarithm, as PostgreSQL estimates it.
fn logarithm_magnitude(value: Decimal, logarithm: i256) -> i32 {
    let distance = value.checked_sub(Decimal::new(1, 0)).unwrap_or(value);
    let is_near =
        distance.unscaled.unsigned_abs().saturating_mul(10) <= 10u128.pow(u32::from(distance.scale));
    match (is_near, distance.unscaled) {
        (_, 0) => 0,
        (true, _) => magnitude(distance),
        _ => approximate(logarithm).abs().log10() as i32,
    }
}

fn natural_logarithm(values: &[Value], _: &Interrupt) -> Result<Value> {
    let value = decimal(values, 0)?;
    check(value)?;
    let logarithm = ln(value);
    let wanted = DIGITS - logarithm_magnitude(value, logarithm);
    numeric(logarithm, FRACTION as i32, wanted.max(i32::from(value.scale)))
}

fn logarithm_of(base: Decimal, value: Decimal) -> Result<Value> {
    check(base)?;
    check(value)?;
    let (of_base, of_value) = (ln(base), ln(value));
    if base.compare(Decimal::new(1, 0)).is_eq() {
        return Err(Error::new(SqlState::DivisionByZero, "division by zero"));
    }
    let difference = logarithm_magnitude(value, of_value) - logarithm_magnitude(base, of_base);
    let wanted = (DIGITS - difference).max(i32::from(base.scale)).max(i32::from(value.scale));
    let (dividend, divisor) = match of_base < i256::ZERO {
        true => (of_value.wrapping_neg(), of_base.wrapping_neg()),
        false => (of_value, of_base),
    };
    numeric(rounded(dividend.wrapping_mul(one()), divisor), FRACTION as i32, wanted)
}

fn logarithm(values: &[Value], _: &Interrupt) -> Result<Value> {
    logarithm_of(decimal(values, 0)?, decimal(values, 1)?)
}

fn decimal_logarithm(values: &[Value], _: &Interrupt) -> Result<Value> {
    logarithm_of(Decimal::new(10, 0), decimal(values, 0)?)
}

fn power(values: &[Value], _: &Interrupt) -> Result<Value> {
    let (base, exponent) = (decimal(values, 0)?, decimal(values, 1)?);
    let refused = |message| Err(Error::new(SqlState::InvalidArgumentForPowerFunction, message));
    let (integer, has_fraction) = exponent.floor();
    if base.unscaled == 0 {
        return match exponent.unscaled {
            ..0 => refused("zero raised to a negative power is undefined"),
            0 => numeric(i256::ONE, 0, DIGITS),
            _ => numeric(i256::ZERO, 0, DIGITS.max(i32::from(base.scale))),
        };
    }
    if has_fraction && base.unscaled < 0 {
        return refused("a negative number raised to a non-integer power yields a complex result");
    }
    let least = i32::from(base.scale);
    if !has_fraction {
        let is_negative = base.unscaled < 0 && integer % 2 != 0;
        if base.unscaled.unsigned_abs() == 10u128.pow(u32::from(base.scale)) {
            return numeric(if is_negative { i256::MINUS_ONE } else { i256::ONE }, 0, DIGITS.max(least));
        }
        if let Ok(small) = i32::try_from(integer)
            && let Some(value) = whole_power(base, small)?
        {
            return Ok(value);
        }
        // The logarithm of its size: a negative number has none.
        let size = Decimal::new(base.unscaled.abs(), base.scale);
        let power = ln(size).checked_mul(whole(integer)).ok_or_else(overflow)?;
        return large_power(power, is_negative, DIGITS.max(least));
    }
    let least = least.max(i32::from(exponent.scale));
    let (logarithm, factor) = (ln(base), whole(exponent.unscaled));
    let power = logarithm.checked_mul(factor).ok_or_else(overflow)?;
    exponential_of(rounded(power, ten_to(u32::from(exponent.scale))), least)
}

/// A power with a whole exponent, exactly computed and then rounded; `None` if 256 bits do not hold it.
fn whole_power(base: Decimal, exponent: i32) -> Result<Option<Value>> {
    let wanted = DIGITS.max(i32::from(base.scale));
    let digits =
        (magnitude(base).abs() + i32::from(base.scale) + 1) as i64 * i64::from(exponent.unsigned_abs());
    if digits > 70 {
        return Ok(None);
    }
    let Some(size) = whole(base.unscaled).checked_pow(exponent.unsigned_abs()) else {
        return Ok(None);
    };
    let scale = i32::from(base.scale) * exponent.unsigned_abs() as i32;
    if exponent >= 0 {
        return numeric(size, scale, wanted).map(Some);
    }
    // 10^scale / size, with one digit more than is shown.
    let shift = scale + wanted + 1;
    if shift > 76 {
        return Ok(None);
    }
    let sign = if size < i256::ZERO { i256::MINUS_ONE } else { i256::ONE };
    let quotient = ten_to(shift.unsigned_abs()).wrapping_div(size.wrapping_abs()).wrapping_mul(sign);
    numeric(quotient, wanted + 1, wanted).map(Some)
}

/// e to the power with so many fractional digits, and a sign.
fn large_power(power: i256, is_negative: bool, wanted: i32) -> Result<Value> {
    let decimal_exponent = approximate(power) * std::f64::consts::LOG10_E;
    if decimal_exponent > 40.0 {
        return Err(overflow());
    }
    if decimal_exponent < -40.0 {
        return numeric(i256::ZERO, 0, wanted);
    }
    let (number, exponent) = exp(power);
    let number = if is_negative { number.wrapping_neg() } else { number };
    numeric(number, FRACTION as i32 - exponent, wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(compute: fn(&[Value], &Interrupt) -> Result<Value>, arguments: &[&str]) -> String {
        let values: Vec<Value> =
            arguments.iter().map(|text| Value::Numeric(Decimal::parse(text).expect("a number"))).collect();
        match compute(&values, &Interrupt::default()) {
            Ok(Value::Numeric(value)) => value.to_string(),
            other => format!("{other:?}"),
        }
    }

    /// As PostgreSQL 15 shows them, up to 38 digits.
    #[test]
    fn results_have_postgresqls_digits() {
        assert_eq!(shown(square_root, &["0.5"]), "0.70710678118654752");
        assert_eq!(shown(square_root, &["12345.6"]), "111.1107555549867");
        assert_eq!(shown(square_root, &["0.0"]), "0.000000000000000");
        assert_eq!(shown(natural_logarithm, &["1.05"]), "0.048790164169432003");
        assert_eq!(shown(natural_logarithm, &["0.00001"]), "-11.512925464970228");
        assert_eq!(shown(natural_logarithm, &["1.000001"]), "0.0000009999995000003333");
        assert_eq!(shown(exponential, &["10.0"]), "22026.465794806717");
        assert_eq!(shown(exponential, &["-50.0"]), "0.0000000000000000000001928749847963918");
        assert_eq!(shown(exponential, &["1.00000000000000000000000"]), "2.71828182845904523536029");
        assert_eq!(shown(logarithm, &["2.0", "0.125"]), "-3.0000000000000000");
        assert_eq!(shown(decimal_logarithm, &["100000000.0"]), "8.000000000000000");
        assert_eq!(shown(power, &["2.0", "-2"]), "0.2500000000000000");
        assert_eq!(shown(power, &["100.5", "12"]), "1061677811864499568789707.6174316406250");
        assert_eq!(shown(power, &["3.3333333333333333", "20"]), "28679719907.9244073972785907");
        assert_eq!(shown(power, &["1.0000001", "1000000"]), "1.1051709125497934");
        assert_eq!(shown(power, &["2.0", "100.5"]), "1792728671193156477399422023278.7");
        assert_eq!(shown(power, &["-2.0", "3"]), "-8.0000000000000000");
        assert_eq!(shown(power, &["1.5", "0.5"]), "1.2247448713915890");
    }
}
