//! Tests of decimal arithmetic, against known results and against fractions.

use super::*;
use crate::strategy::{any_decimal, small_decimal};
use proptest::prelude::*;

fn parse(text: &str) -> Decimal {
    Decimal::parse(text).unwrap()
}

fn shown(result: Result<Decimal>) -> String {
    result.map_or_else(|error| error.to_string(), |value| value.to_string())
}

/// Numerator and denominator.
fn rational(number: Decimal) -> (i128, i128) {
    (number.unscaled, 10i128.pow(u32::from(number.scale)))
}

proptest! {
    #[test]
    fn sums_differences_and_products_equal_those_of_fractions(a in small_decimal(), b in small_decimal()) {
        let ((a_top, a_bottom), (b_top, b_bottom)) = (rational(a), rational(b));
        for (result, top, bottom) in [
            (a.checked_add(b), a_top * b_bottom + b_top * a_bottom, a_bottom * b_bottom),
            (a.checked_sub(b), a_top * b_bottom - b_top * a_bottom, a_bottom * b_bottom),
            (a.checked_mul(b), a_top * b_top, a_bottom * b_bottom),
        ] {
            let (result_top, result_bottom) = rational(result.unwrap());
            // Both fractions have powers of ten below, so one divides the other.
            if result_bottom >= bottom {
                prop_assert_eq!(result_top, top * (result_bottom / bottom));
            } else {
                prop_assert_eq!(result_top * (bottom / result_bottom), top);
            }
        }
        prop_assert_eq!(a.compare(b), (a_top * b_bottom).cmp(&(b_top * a_bottom)));
    }

    /// `quotient * b` misses `a` by at most half a unit of the quotient's last digit times `b`.
    #[test]
    fn quotients_are_the_nearest_ones(a in small_decimal(), b in small_decimal()) {
        prop_assume!(b.unscaled != 0);
        let quotient = a.checked_div(b).unwrap();
        prop_assert!(quotient.scale >= a.scale.max(b.scale));
        let digits = quotient.unscaled.unsigned_abs().checked_ilog10().map_or(16, |log| log + 1);
        prop_assert!(digits >= 16, "{} / {} = {} has {} digits", a, b, quotient, digits);
        let product = Wide::product(quotient.unscaled.unsigned_abs(), b.unscaled.unsigned_abs());
        let exact = Wide::product(
            a.unscaled.unsigned_abs(),
            10u128.pow(u32::from(quotient.scale + b.scale - a.scale)),
        );
        let miss = if product >= exact { product.difference(exact) } else { exact.difference(product) };
        prop_assert!(miss.sum(miss) <= Wide::product(b.unscaled.unsigned_abs(), 1));
    }

    #[test]
    fn remainders_complete_the_division(a in small_decimal(), b in small_decimal()) {
        prop_assume!(b.unscaled != 0);
        let remainder = a.checked_rem(b).unwrap();
        let scale = u32::from(a.scale.max(b.scale));
        let raise = |number: Decimal| number.unscaled * 10i128.pow(scale - u32::from(number.scale));
        prop_assert_eq!(remainder, Decimal::new(raise(a) % raise(b), scale as u8));
    }

    #[test]
    fn text_reads_back(number in any_decimal()) {
        prop_assert_eq!(Decimal::parse(&number.to_string()), Ok(number));
    }

    /// Nothing panics, and whatever comes out obeys the invariant and is right to 15 digits.
    #[test]
    fn wide_arithmetic_stays_within_38_digits(a in any_decimal(), b in any_decimal()) {
        let (x, y) = (a.to_f64(), b.to_f64());
        for (result, expected) in [
            (a.checked_add(b), x + y),
            (a.checked_sub(b), x - y),
            (a.checked_mul(b), x * y),
            (a.checked_div(b), x / y),
        ] {
            match result {
                Ok(result) => {
                    prop_assert!(fits(result.unscaled) && result.scale <= 38);
                    let unit = 10f64.powi(-i32::from(result.scale));
                    let tolerance = unit + (x.abs().max(y.abs()).max(expected.abs())) * 1e-14;
                    prop_assert!((result.to_f64() - expected).abs() <= tolerance, "{} {}", a, b);
                }
                Err(error) if error.state() == SqlState::DivisionByZero => prop_assert_eq!(b.unscaled, 0),
                Err(_) => prop_assert!(expected.abs() > 9.9e37),
            }
        }
        if b.unscaled != 0 {
            let remainder = a.checked_rem(b).unwrap();
            prop_assert!(remainder.unscaled.unsigned_abs() == 0 || a.unscaled.signum() == remainder.unscaled.signum());
            prop_assert!(Decimal::new(remainder.unscaled.abs(), remainder.scale)
                .compare(Decimal::new(b.unscaled.abs(), b.scale)).is_lt());
        }
        prop_assert_eq!(a.compare(b), b.compare(a).reverse());
    }

    #[test]
    fn rescaling_rounds_half_away_from_zero(unscaled in -99_999i128..99_999, scale in 0u8..5) {
        let rounded = Decimal::new(unscaled, 4).rescale(scale).unwrap();
        let half = 10i128.pow(u32::from(4 - scale));
        let expected = (unscaled.abs() * 2 + half) / (half * 2) * unscaled.signum();
        prop_assert_eq!(rounded.unscaled, expected);
    }
}

#[test]
fn quotients_have_the_scale_of_postgresql() {
    for (a, b, quotient) in [
        ("1", "3", "0.33333333333333333333"),
        ("2", "3", "0.66666666666666666667"),
        ("10", "3", "3.3333333333333333"),
        ("-1", "3", "-0.33333333333333333333"),
        ("100000", "7", "14285.714285714286"),
        ("1.00", "8", "0.12500000000000000000"),
        ("0", "5", "0.00000000000000000000"),
        ("0.0001", "3", "0.000033333333333333333333"),
        ("12345.67", "0.01", "1234567.000000000000"),
    ] {
        assert_eq!(shown(parse(a).checked_div(parse(b))), quotient, "{a} / {b}");
    }
    assert_eq!(parse("1").checked_div(parse("0.00")).unwrap_err().state(), SqlState::DivisionByZero);
    assert_eq!(parse("1").checked_rem(parse("0")).unwrap_err().state(), SqlState::DivisionByZero);
}

#[test]
fn fractions_give_way_to_whole_digits_and_nothing_else_does() {
    let nines = "9".repeat(38);
    let largest = parse(&nines);
    assert_eq!(shown(largest.checked_add(parse("0.4"))), nines);
    assert_eq!(shown(largest.checked_add(parse("0.5"))), "value overflows numeric format");
    assert_eq!(shown(largest.checked_add(parse("1"))), "value overflows numeric format");
    assert_eq!(shown(largest.checked_sub(largest)), "0");
    assert_eq!(shown(largest.checked_mul(largest)), "value overflows numeric format");
    assert_eq!(shown(largest.checked_div(parse("0.1"))), "value overflows numeric format");
    let third = parse("0.33333333333333333333");
    let cubed = third.checked_mul(third).and_then(|square| square.checked_mul(third));
    assert_eq!(shown(cubed), "0.03703703703703703703592592592592592593");
}

#[test]
fn literals_are_read_with_their_scale() {
    for (text, shown) in [
        (" +1.50 ", "1.50"),
        ("-.5", "-0.5"),
        ("5.", "5"),
        ("1e5", "100000"),
        ("1.5E1", "15"),
        ("1e-3", "0.001"),
        ("-0", "0"),
        ("0e99999999999999999999", "0"),
        ("1e-38", "0.00000000000000000000000000000000000001"),
        ("0.100000000000000000000000000000000000000000", "0.10000000000000000000000000000000000000"),
        ("000000000000000000000000000000000000000000000001.5", "1.5"),
    ] {
        assert_eq!(parse(text).to_string(), shown, "{text}");
    }
}

#[test]
fn bad_literals_are_refused() {
    let state = |text| Decimal::parse(text).unwrap_err().state();
    for text in ["", ".", "abc", "1e", "1e+", "--1", "1.2.3", "1 2", "é", "1e5é", "0x10"] {
        assert_eq!(state(text), SqlState::InvalidTextRepresentation, "{text}");
    }
    for text in [
        "1e38",
        "1e99999999999999999999",
        "1e-39",
        "1e-99999999999999999999",
        "0.000000000000000000000000000000000000005",
        "99999999999999999999999999999999999999.4",
        "99999999999999999999999999999999999999.5",
    ] {
        assert_eq!(state(text), SqlState::NumericValueOutOfRange, "{text}");
    }
    assert_eq!(state("NaN"), SqlState::FeatureNotSupported);
    assert_eq!(state("-Infinity"), SqlState::FeatureNotSupported);
}

#[test]
fn columns_round_once_and_limit_their_digits() {
    let read = |text| shown(Decimal::parse_to_fit(text, 5, 2));
    assert_eq!(read("1.005"), "1.01");
    assert_eq!(read("-1.005"), "-1.01");
    assert_eq!(read("1.00499999999999999999999999999999999999999"), "1.00");
    assert_eq!(read("999.994"), "999.99");
    let overflow = Decimal::parse_to_fit("999.995", 5, 2).unwrap_err();
    assert_eq!(overflow.message(), "numeric field overflow");
    assert_eq!(
        overflow.detail(),
        Some("A field with precision 5, scale 2 must round to an absolute value less than 10^3.")
    );
    assert_eq!(Decimal::parse_to_fit("1e99", 5, 2).unwrap_err().message(), "numeric field overflow");
}

#[test]
fn conversions_round_to_the_nearest() {
    assert_eq!(parse("2.5").to_i64(), Some(3));
    assert_eq!(parse("-2.5").to_i64(), Some(-3));
    assert_eq!(parse("9223372036854775807.5").to_i64(), None);
    assert_eq!(parse("0.1").to_f64(), 0.1);
    assert_eq!(parse("12345678901234567890.123").to_f64(), 12345678901234567890.123);
    assert_eq!(Decimal::from_f64(0.1 + 0.2).unwrap().to_string(), "0.3");
    assert_eq!(Decimal::from_f64(1e20).unwrap().to_string(), "100000000000000000000");
    assert_eq!(Decimal::from_f32(0.1).unwrap().to_string(), "0.1");
    assert_eq!(Decimal::from_f64(1e38), None);
    assert_eq!(Decimal::from_f64(f64::NAN), None);
}

proptest! {
    /// Doubles whose digits are told by a multiplication have those that are written out: amounts, where ties are near, and any.
    #[test]
    fn doubles_convert_quickly_to_what_is_written_out(units: i32, scale in 0i32..9, bits: u64, small in -1e9f64..1e9) {
        for value in [f64::from(units) / 10f64.powi(scale), f64::from(units) * 0.1, f64::from_bits(bits), small] {
            let written = value.is_finite().then(|| super::parse(&format!("{value:.14e}"), MAX_NUMERIC_PRECISION).ok()).flatten();
            prop_assert_eq!(Decimal::from_f64(value), written.map(Decimal::trimmed));
        }
    }

    #[test]
    fn floor_and_truncation_are_those_of_fractions(a in any_decimal(), digits in 0u8..10) {
        let (top, bottom) = rational(a);
        prop_assert_eq!(a.floor(), (top.div_euclid(bottom), top % bottom != 0));
        let cut = a.truncated(digits);
        prop_assert_eq!(cut.scale, a.scale.min(digits));
        let unit = 10i128.pow(u32::from(a.scale - cut.scale));
        prop_assert_eq!(cut.unscaled, top / unit);
    }
}
