//! Digits of numbers, two at a time: what most of a result's text is made of.
//!
//! The standard library's formatting asks for signs, widths and fills each time; a million rows of ten numbers show it.

use crate::Decimal;
use std::fmt::Write;

/// All pairs of digits, one after the other.
const PAIRS: &str = "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849\
                     5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";

/// Powers of ten.
const POWERS: [u64; 20] = {
    let mut powers = [1; 20];
    let mut at = 1;
    while at < powers.len() {
        powers[at] = powers[at - 1] * 10;
        at += 1;
    }
    powers
};

/// Appends a number below 100 as two digits.
#[inline]
fn push_pair(number: u64, out: &mut String) {
    let at = number as usize * 2;
    out.push_str(&PAIRS[at..at + 2]);
}

/// Appends a number.
pub(crate) fn push_unsigned(number: u64, out: &mut String) {
    match number {
        0..10 => out.push(char::from(b'0' + number as u8)),
        10..100 => push_pair(number, out),
        _ => {
            push_unsigned(number / 100, out);
            push_pair(number % 100, out);
        }
    }
}

/// Appends a number with its sign if that is a minus.
#[inline]
pub(crate) fn push_signed(number: i64, out: &mut String) {
    if number < 0 {
        out.push('-');
    }
    push_unsigned(number.unsigned_abs(), out);
}

/// Appends a number padded with zeros on the left.
#[inline]
pub(crate) fn push_digits(number: u64, width: usize, out: &mut String) {
    match width {
        2 if number < 100 => push_pair(number, out),
        4 if number < 10_000 => {
            push_pair(number / 100, out);
            push_pair(number % 100, out);
        }
        _ => {
            let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
            out.extend(std::iter::repeat_n('0', width.saturating_sub(digits)));
            push_unsigned(number, out);
        }
    }
}

/// Appends a decimal with all digits of its scale.
pub(crate) fn push_decimal(decimal: Decimal, out: &mut String) {
    let scale = usize::from(decimal.scale);
    let magnitude = u64::try_from(decimal.unscaled.unsigned_abs());
    let (Ok(magnitude), Some(&power)) = (magnitude, POWERS.get(scale)) else {
        return write!(out, "{decimal}").expect("a string accepts everything");
    };
    if decimal.unscaled < 0 {
        out.push('-');
    }
    push_unsigned(magnitude / power, out);
    if scale > 0 {
        out.push('.');
        push_digits(magnitude % power, scale, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pushed(push: impl FnOnce(&mut String)) -> String {
        let mut out = String::from("x");
        push(&mut out);
        out
    }

    #[test]
    fn numbers_are_as_the_library_writes_them() {
        let near = |power: u32| {
            let power = 10i64.pow(power);
            [power - 1, power, power + 1, 1 - power, -power]
        };
        for number in (0..19).flat_map(near).chain([i64::MIN, i64::MAX, 0, -7, 305, 90_807]) {
            assert_eq!(pushed(|out| push_signed(number, out)), format!("x{number}"));
            let number = number.unsigned_abs();
            for width in [1, 2, 4, 6, 21] {
                assert_eq!(pushed(|out| push_digits(number, width, out)), format!("x{number:0width$}"));
            }
        }
        assert_eq!(pushed(|out| push_unsigned(u64::MAX, out)), format!("x{}", u64::MAX));
    }

    #[test]
    fn decimals_are_as_they_display() {
        let wide = [i128::from(u64::MAX), i128::from(u64::MAX) + 1, 10i128.pow(37), -(10i128.pow(37))];
        for unscaled in [0, 1, -1, 5, -50, 99, 100, 12_345, -1_000_007].into_iter().chain(wide) {
            for scale in [0, 1, 2, 3, 9, 18, 19, 20, 38] {
                let decimal = Decimal::new(unscaled, scale);
                assert_eq!(pushed(|out| push_decimal(decimal, out)), format!("x{decimal}"));
            }
        }
    }
}
