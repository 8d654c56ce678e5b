//! Strings of bits against the texts that they are.

use super::*;
use crate::{DataType, Value, assign, cast, parse_text};
use proptest::prelude::*;

fn text() -> BoxedStrategy<String> {
    prop_oneof!["[01]{0,5}", "[01]{5,40}", "0{0,30}1{0,30}"].boxed()
}

fn bits(text: &str) -> Bits {
    parse(text).expect("are bits")
}

fn shown(bits: &Bits) -> String {
    bits.packed().borrow().to_text()
}

proptest! {
    /// PostgreSQL compares the bytes that both have and then the lengths, which is the order of words in a dictionary.
    #[test]
    fn bytes_order_as_words_do(left in text(), right in text()) {
        prop_assert_eq!(bits(&left).packed().borrow().cmp(&bits(&right).packed().borrow()), left.cmp(&right));
    }

    #[test]
    fn what_is_packed_comes_back(text in text()) {
        let packed = bits(&text).packed();
        prop_assert_eq!(packed.borrow().to_text(), text.as_str());
        prop_assert_eq!(packed.borrow().bit_length(), text.len());
        prop_assert!(PackedType::BITS.is_stored_form(packed.borrow().bytes()));
        prop_assert_eq!(Bits::unpacked(packed.borrow().bytes()), bits(&text));
        prop_assert_eq!(&PackedType::BITS.from_wire(&packed.borrow().to_wire()).unwrap(), &packed);
        prop_assert!(packed.borrow().bytes().iter().all(|byte| (1..=126).contains(byte)));
    }

    #[test]
    fn parts_and_sums_are_those_of_the_texts(left in text(), right in text(), start in 0usize..50, length in 0usize..50) {
        prop_assert_eq!(shown(&bits(&left).concat(&bits(&right)).unwrap()), format!("{left}{right}"));
        let filled = format!("{left}{}", "0".repeat(100));
        prop_assert_eq!(shown(&bits(&left).part(start, length)), &filled[start..start + length]);
    }

    #[test]
    fn shifts_keep_the_length(text in text(), by in -60i64..60) {
        let zeros = "0".repeat(60);
        let whole = format!("{zeros}{text}{zeros}");
        let start = (60 - by.clamp(-60, 60)) as usize;
        let expected = &whole[start..start + text.len()];
        prop_assert_eq!(shown(&bits(&text).shifted(by)), expected);
    }

    #[test]
    fn integers_come_back(value in any::<i64>(), length in 64usize..80) {
        let wide = Bits::of_integer(value, 64, length);
        prop_assert_eq!(wide.length(), length);
        prop_assert_eq!(wide.part(length - 64, 64).to_integer(64), Some(value));
        let narrow = Bits::of_integer(i64::from(value as i32), 32, 32);
        prop_assert_eq!(narrow.to_integer(32), Some(i64::from(value as i32)));
    }

    #[test]
    fn other_bytes_are_no_value(bytes in proptest::collection::vec(any::<u8>(), 0..4)) {
        let is_form = PackedType::BITS.is_stored_form(&bytes);
        prop_assert_eq!(is_form, Bits::unpacked(&bytes).packed().borrow().bytes() == bytes);
    }
}

#[test]
fn texts_are_zeros_and_ones_or_hexadecimal() {
    for (text, is) in
        [("x1f", "00011111"), ("XaB", "10101011"), ("b01", "01"), ("B", ""), ("x", ""), ("x5", "0101")]
    {
        assert_eq!(shown(&bits(text)), is, "{text}");
    }
    for (text, message) in [
        ("12", "\"2\" is not a valid binary digit"),
        ("x1G", "\"G\" is not a valid hexadecimal digit"),
        ("1é", "\"é\" is not a valid binary digit"),
    ] {
        let error = parse(text).unwrap_err();
        assert_eq!((error.state(), error.message()), (SqlState::InvalidTextRepresentation, message));
    }
}

#[test]
fn columns_take_what_fits_and_casts_cut() {
    let bit = |length| DataType::Packed(PackedType::Bit(BitLength::new(length)));
    let varbit = |length| DataType::Packed(PackedType::Varbit(BitLength::new(length)));
    let value = Value::Packed(bits("10110").packed());
    let text = |value: Value| match value {
        Value::Packed(packed) => packed.borrow().to_text(),
        other => panic!("{other:?}"),
    };
    assert_eq!(text(cast(value.clone(), bit(3)).unwrap()), "101");
    assert_eq!(text(cast(value.clone(), bit(8)).unwrap()), "10110000");
    assert_eq!(text(cast(value.clone(), varbit(8)).unwrap()), "10110");
    assert_eq!(assign(value.clone(), bit(3)).unwrap_err().state(), SqlState::StringDataLengthMismatch);
    assert_eq!(assign(value.clone(), varbit(4)).unwrap_err().state(), SqlState::StringDataRightTruncation);
    assert_eq!(assign(value.clone(), bit(5)), Ok(value));
    let error = parse_text(bit(3), "1011").unwrap_err();
    assert_eq!(error.message(), "bit string length 4 does not match type bit(3)");
    assert!(!PackedType::Bit(BitLength::new(3)).is_stored_form(bits("10").packed().borrow().bytes()));
}
