//! The order of numbers, told from their text.

use super::overflow;
use ankerdb_base::Result;
use std::cmp::Ordering;

/// The first byte of a key, in the order of numbers.
mod class {
    pub(super) const LEAST: u8 = 0;
    pub(super) const NEGATIVE: u8 = 1;
    pub(super) const ZERO: u8 = 2;
    pub(super) const POSITIVE: u8 = 3;
    pub(super) const GREATEST: u8 = 4;
    pub(super) const NOT_A_NUMBER: u8 = 5;
}

/// A number's digits without the point and without zeros on both sides, and where they begin.
struct Digits<'a> {
    is_negative: bool,
    whole: &'a [u8],
    fraction: &'a [u8],
    /// The position of the first digit, before the point as a positive number.
    magnitude: i64,
    /// Digits in front of the first and behind the last that is not zero.
    zeros: (usize, usize),
}

impl<'a> Digits<'a> {
    /// Reads digits with an exponent or without; `None` for zero.
    ///
    /// # Errors
    /// 22003 for an exponent that no number has.
    fn of(text: &'a str) -> Result<Option<Digits<'a>>> {
        let (is_negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = match text.find(['e', 'E']) {
            Some(at) => (&text[..at], text[at + 1..].parse::<i32>().map_err(|_| overflow())?),
            None => (text, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let (whole, fraction) = (whole.as_bytes(), fraction.as_bytes());
        let Some(before) = whole.iter().chain(fraction).position(|digit| *digit != b'0') else {
            return Ok(None);
        };
        let after =
            fraction.iter().rev().chain(whole.iter().rev()).take_while(|digit| **digit == b'0').count();
        let magnitude = whole.len() as i64 + i64::from(exponent) - before as i64;
        Ok(Some(Digits { is_negative, whole, fraction, magnitude, zeros: (before, after) }))
    }

    fn significant(&self) -> impl Iterator<Item = u8> {
        let count = self.whole.len() + self.fraction.len() - self.zeros.0 - self.zeros.1;
        self.whole.iter().chain(self.fraction).copied().skip(self.zeros.0).take(count)
    }

    fn compare(&self, other: &Digits<'_>) -> Ordering {
        let by_magnitude =
            self.magnitude.cmp(&other.magnitude).then_with(|| self.significant().cmp(other.significant()));
        match (self.is_negative, other.is_negative) {
            (false, false) => by_magnitude,
            (true, true) => by_magnitude.reverse(),
            (is_less, _) => {
                if is_less {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
        }
    }
}

/// What has no digits.
fn special(text: &str) -> Option<u8> {
    match text.as_bytes() {
        [b'N', ..] => Some(class::NOT_A_NUMBER),
        [b'I', ..] => Some(class::GREATEST),
        [b'-', b'I', ..] => Some(class::LEAST),
        _ => None,
    }
}

fn class_of(digits: Option<&Digits<'_>>) -> u8 {
    match digits {
        None => class::ZERO,
        Some(digits) if digits.is_negative => class::NEGATIVE,
        Some(_) => class::POSITIVE,
    }
}

/// The order of two canonical texts, in PostgreSQL's order of numerics: NaN is the greatest and equal to itself. Nothing is allocated.
pub fn compare_numbers(left: &str, right: &str) -> Ordering {
    let classed = |text| match special(text) {
        Some(class) => (class, None),
        None => {
            let digits = Digits::of(text).expect("canonical text has no exponent");
            (class_of(digits.as_ref()), digits)
        }
    };
    let ((left_class, left), (right_class, right)) = (classed(left), classed(right));
    left_class.cmp(&right_class).then_with(|| match (left, right) {
        (Some(left), Some(right)) => left.compare(&right),
        _ => Ordering::Equal,
    })
}

/// Appends bytes that order as the numbers of canonical texts do; equal numbers have equal bytes (1.0 as 1.00), and no key begins
/// another one.
pub fn push_number_key(canonical: &str, out: &mut Vec<u8>) {
    match special(canonical) {
        Some(class) => out.push(class),
        None => push_digits_key(canonical, out).expect("canonical text has no exponent"),
    }
}

/// Appends the key of digits, with an exponent or without.
///
/// # Errors
/// 22003 for an exponent that no number has.
pub(crate) fn push_digits_key(text: &str, out: &mut Vec<u8>) -> Result<()> {
    let digits = Digits::of(text)?;
    out.push(class_of(digits.as_ref()));
    let Some(digits) = digits else { return Ok(()) };
    let start = out.len();
    // Between -16,383 and 131,072 in what is stored.
    out.extend_from_slice(&((digits.magnitude as i32) ^ i32::MIN).to_be_bytes());
    out.extend(digits.significant());
    out.push(0);
    if digits.is_negative {
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
    Ok(())
}
