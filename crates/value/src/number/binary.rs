//! PostgreSQL's binary form of a numeric: groups of four digits.

use super::{FRACTION_MAX, Form, Number, power_of_ten};
use ankerdb_base::{Error, Result, SqlState};
use num_bigint::{BigInt, BigUint, Sign};

const POSITIVE: u16 = 0x0000;
const NEGATIVE: u16 = 0x4000;
const NOT_A_NUMBER: u16 = 0xC000;
const INFINITE: u16 = 0xD000;
const NEGATIVE_INFINITE: u16 = 0xF000;

/// The scale that PostgreSQL sends with an infinity, which has none.
const INFINITE_SCALE: u16 = 0x20;

/// One more than the largest group.
const GROUP_END: u16 = 10_000;

fn malformed(what: &str) -> Error {
    Error::new(SqlState::InvalidBinaryRepresentation, format!("invalid {what} in external \"numeric\" value"))
}

fn push_header(groups: u16, weight: i16, sign: u16, scale: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(&groups.to_be_bytes());
    out.extend_from_slice(&weight.to_be_bytes());
    out.extend_from_slice(&sign.to_be_bytes());
    out.extend_from_slice(&scale.to_be_bytes());
}

/// Appends the binary form of canonical text, without the length in front. Costs one pass over the digits.
pub fn number_to_binary(canonical: &str, out: &mut Vec<u8>) {
    let special = match canonical.as_bytes() {
        [b'N', ..] => Some(NOT_A_NUMBER),
        [b'I', ..] => Some(INFINITE),
        [b'-', b'I', ..] => Some(NEGATIVE_INFINITE),
        _ => None,
    };
    if let Some(sign) = special {
        let scale = if sign == NOT_A_NUMBER { 0 } else { INFINITE_SCALE };
        return push_header(0, 0, sign, scale, out);
    }
    let unsigned = canonical.strip_prefix('-').unwrap_or(canonical);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let (whole, fraction) = (whole.as_bytes(), fraction.as_bytes());
    // The digit at a position counted from the first group, which the whole digits may not fill.
    let first = whole.len().div_ceil(4);
    let padding = first * 4 - whole.len();
    let digit = |at: usize| match at.checked_sub(padding) {
        Some(at) if at < whole.len() => whole[at] - b'0',
        Some(at) => fraction.get(at - whole.len()).map_or(0, |digit| digit - b'0'),
        None => 0,
    };
    let group = |at: usize| (0..4).fold(0u16, |group, i| group * 10 + u16::from(digit(at * 4 + i)));
    let count = first + fraction.len().div_ceil(4);
    let leading = (0..count).take_while(|at| group(*at) == 0).count();
    let end = (leading..count).rev().find(|at| group(*at) != 0).map_or(leading, |last| last + 1);
    let is_zero = leading == count;
    let weight = if is_zero { 0 } else { first as i64 - 1 - leading as i64 };
    let sign = if canonical.starts_with('-') && !is_zero { NEGATIVE } else { POSITIVE };
    push_header((end - leading) as u16, weight as i16, sign, fraction.len() as u16, out);
    (leading..end).for_each(|at| out.extend_from_slice(&group(at).to_be_bytes()));
}

/// Reads the binary form and gives the canonical text. Digits that its scale would hide are cut off, as PostgreSQL does.
///
/// # Errors
/// 22P03 for bytes that are no numeric, 22003 for too many digits.
pub fn number_from_binary(bytes: &[u8]) -> Result<String> {
    let incomplete =
        || Error::new(SqlState::InvalidBinaryRepresentation, "insufficient data left in message");
    let (words, []) = bytes.as_chunks::<2>() else { return Err(incomplete()) };
    let [count, weight, sign, scale, groups @ ..] = words else { return Err(incomplete()) };
    let [count, sign, scale] = [count, sign, scale].map(|word| u16::from_be_bytes(*word));
    let weight = i16::from_be_bytes(*weight);
    if groups.len() < usize::from(count) {
        return Err(incomplete());
    }
    if groups.len() > usize::from(count) {
        return Err(Error::new(
            SqlState::InvalidBinaryRepresentation,
            "incorrect binary data format in bind parameter",
        ));
    }
    let is_negative = match sign {
        NOT_A_NUMBER => return Ok(Number::NAN.to_string()),
        INFINITE | NEGATIVE_INFINITE => return Ok(Number::infinity(sign == NEGATIVE_INFINITE).to_string()),
        POSITIVE => false,
        NEGATIVE => true,
        _ => return Err(malformed("sign")),
    };
    if i64::from(scale) > FRACTION_MAX {
        return Err(malformed("scale"));
    }
    let mut digits = String::with_capacity(groups.len() * 4);
    for group in groups {
        let group = u16::from_be_bytes(*group);
        if group >= GROUP_END {
            return Err(malformed("digit"));
        }
        digits.push_str(&format!("{group:04}"));
    }
    let magnitude = BigUint::parse_bytes(digits.as_bytes(), 10).unwrap_or(BigUint::ZERO);
    // The last group's exponent of ten.
    let exponent = (i64::from(weight) + 1 - i64::from(count)) * 4;
    let shift = exponent + i64::from(scale);
    let power = power_of_ten(shift.unsigned_abs() as u32);
    let unscaled = if shift >= 0 { magnitude * power } else { magnitude / power };
    let sign = if is_negative { Sign::Minus } else { Sign::Plus };
    let number = super::Finite::new(BigInt::from_biguint(sign, unscaled), u32::from(scale)).held()?;
    debug_assert!(matches!(number, Number(Form::Finite(_))));
    Ok(number.to_string())
}
