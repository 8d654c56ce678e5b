//! Tests of text forms: what is written, what is read, and that they meet.

use super::*;
use crate::strategy;
use proptest::prelude::*;

fn shown(data_type: DataType, text: &str) -> String {
    match parse_text(data_type, text) {
        Ok(value) => {
            let mut out = String::new();
            format_text(&value, data_type, &mut out);
            out
        }
        Err(error) => format!("{error:?}"),
    }
}

/// Equality of representation, with NaN equal to itself and both zeros told apart.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Real(left), Value::Real(right)) => {
            left.to_bits() == right.to_bits() || left.is_nan() && right.is_nan()
        }
        (Value::Double(left), Value::Double(right)) => {
            left.to_bits() == right.to_bits() || left.is_nan() && right.is_nan()
        }
        _ => left == right,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn what_is_written_reads_back(
        (data_type, value) in strategy::data_type().prop_flat_map(|t| (Just(t), strategy::value(t))),
    ) {
        let mut text = String::new();
        format_text(&value, data_type, &mut text);
        let read = parse_text(data_type, &text);
        prop_assert!(read.as_ref().is_ok_and(|read| same(read, &value)), "{:?} {:?} {:?}", data_type, text, read);
    }

    #[test]
    fn no_text_makes_a_type_panic(data_type in strategy::data_type(), text in "[-+ 0-9a-fTZ:.éx\\\\]{0,12}|\\PC*") {
        let _ = parse_text(data_type, &text);
    }

    /// Reading texts that look like dates, which random characters hardly ever do.
    #[test]
    fn no_date_panics(text in "[0-9]{1,8}-[0-9]{1,3}-[0-9]{1,3}([ T][0-9]{1,3}:[0-9]{1,3}(:[0-9.]{1,9})?[-+Z:0-9]{0,6})?( BC)?") {
        for data_type in [DataType::Date, DataType::TIMESTAMP, DataType::TIMESTAMPTZ] {
            if let Ok(value) = parse_text(data_type, &text) {
                format_text(&value, data_type, &mut String::new());
            }
        }
    }

    #[test]
    fn all_days_and_moments_can_be_written(days: i32, moment: i64) {
        for value in [Value::Date(days), Value::Timestamp(moment), Value::TimestampTz(moment)] {
            let mut out = String::new();
            format_text(&value, DataType::Date, &mut out);
            prop_assert!(out.len() >= 10);
        }
    }
}

#[test]
fn booleans_take_unambiguous_beginnings() {
    for text in ["t", "TRUE", "tr", "y", "yes", "on", " 1 "] {
        assert_eq!(shown(DataType::Boolean, text), "t", "{text}");
    }
    for text in ["f", "False", "n", "no", "of", "off", "0"] {
        assert_eq!(shown(DataType::Boolean, text), "f", "{text}");
    }
    for text in ["", "o", "truex", "2", "10", "é"] {
        let expected = format!("22P02 invalid input syntax for type boolean: \"{text}\"");
        assert_eq!(shown(DataType::Boolean, text), expected);
    }
}

#[test]
fn integers_tell_junk_from_overflow() {
    assert_eq!(shown(DataType::Integer, "\t-42 \n"), "-42");
    assert_eq!(shown(DataType::BigInt, "+9223372036854775807"), "9223372036854775807");
    assert_eq!(shown(DataType::Integer, "abc"), "22P02 invalid input syntax for type integer: \"abc\"");
    for text in ["", "-", "1 2", "1.0", "0x1", "+-1"] {
        assert!(shown(DataType::SmallInt, text).starts_with("22P02 invalid input syntax for type smallint"));
    }
    assert_eq!(
        shown(DataType::Integer, "99999999999"),
        "22003 value \"99999999999\" is out of range for type integer"
    );
    assert_eq!(
        shown(DataType::SmallInt, "-32769"),
        "22003 value \"-32769\" is out of range for type smallint"
    );
}

#[test]
fn text_keeps_its_length_limit_in_characters() {
    assert_eq!(shown(DataType::Varchar(3), "äöü"), "äöü");
    assert_eq!(shown(DataType::Varchar(3), "abc  "), "abc");
    assert_eq!(shown(DataType::Varchar(3), "abcd"), "22001 value too long for type character varying(3)");
    assert_eq!(shown(DataType::Char(3), "a"), "a  ");
    assert_eq!(parse_text(DataType::Char(3), "a    "), Ok(Value::text("a")));
    assert_eq!(shown(DataType::Char(3), "abcd"), "22001 value too long for type character(3)");
    assert_eq!(shown(DataType::Text, "a\0"), "22021 invalid byte sequence for encoding \"UTF8\": 0x00");
}

#[test]
fn bytes_are_read_in_both_forms_and_written_in_hex() {
    assert_eq!(shown(DataType::Bytea, "\\xDEad be"), "\\xdeadbe");
    assert_eq!(shown(DataType::Bytea, "a\\\\b\\001\\377"), "\\x615c6201ff");
    assert_eq!(shown(DataType::Bytea, ""), "\\x");
    assert_eq!(shown(DataType::Bytea, "\\xabc"), "22023 invalid hexadecimal data: odd number of digits");
    assert_eq!(shown(DataType::Bytea, "\\xzz"), "22023 invalid hexadecimal digit: \"z\"");
    for text in ["\\", "\\9", "\\400", "\\08"] {
        assert_eq!(shown(DataType::Bytea, text), "22P02 invalid input syntax for type bytea", "{text}");
    }
}

#[test]
fn uuids_take_braces_hyphens_and_case() {
    let canonical = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
    for text in [
        canonical,
        "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
        "{a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11}",
        "a0eebc999c0b4ef8bb6d6bb9bd380a11",
    ] {
        assert_eq!(shown(DataType::Uuid, text), canonical);
    }
    for text in ["", "a0eebc99", "{a0eebc999c0b4ef8bb6d6bb9bd380a11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1x"]
    {
        assert_eq!(
            shown(DataType::Uuid, text),
            format!("22P02 invalid input syntax for type uuid: \"{text}\"")
        );
    }
}

#[test]
fn timestamps_are_written_in_iso_form() {
    assert_eq!(shown(DataType::TIMESTAMPTZ, "2024-01-02T03:04:05.678Z"), "2024-01-02 03:04:05.678+00");
    assert_eq!(shown(DataType::TIMESTAMP, "2024-01-02"), "2024-01-02 00:00:00");
    assert_eq!(shown(DataType::TIMESTAMPTZ, "0044-03-15 12:00+01 BC"), "0044-03-15 11:00:00+00 BC");
    assert_eq!(shown(DataType::Date, "x"), "22007 invalid input syntax for type date: \"x\"");
    assert_eq!(
        shown(DataType::TIMESTAMP, "2024-02-30"),
        "22008 date/time field value out of range: \"2024-02-30\""
    );
}
