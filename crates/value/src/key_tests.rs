//! Tests of keys: they compare like the values they stand for.

use super::*;
use crate::{compare, strategy};
use proptest::prelude::*;
use std::cmp::Ordering;

type Column = (DataType, bool);

/// Two rows of the same one to three columns, and the columns.
fn two_rows() -> impl Strategy<Value = (Vec<Column>, Vec<Value>, Vec<Value>)> {
    let column = (strategy::data_type(), any::<bool>());
    proptest::collection::vec(column, 1..4).prop_flat_map(|columns| {
        let row: Vec<BoxedStrategy<Value>> = columns.iter().map(|&column| cell(column)).collect();
        // Half of the cells are shared, or later columns would hardly ever decide.
        let other: Vec<_> = columns.iter().map(|&column| (any::<bool>(), cell(column))).collect();
        (Just(columns), row, other).prop_map(|(columns, row, other)| {
            let pairs = row.iter().zip(other);
            let other = pairs.map(|(mine, (shared, own))| if shared { mine.clone() } else { own }).collect();
            (columns, row, other)
        })
    })
}

fn cell((data_type, nullable): Column) -> BoxedStrategy<Value> {
    let value = strategy::value(data_type);
    if nullable { prop_oneof![1 => Just(Value::Null), 3 => value].boxed() } else { value }
}

/// The order that a key must have: column by column, NULLs last.
fn row_order(left: &[Value], right: &[Value]) -> Ordering {
    let cells = left.iter().zip(right).map(|(left, right)| match compare(left, right) {
        Ok(Some(order)) => order,
        Ok(None) => left.is_null().cmp(&right.is_null()),
        Err(error) => panic!("{error}"),
    });
    cells.fold(Ordering::Equal, Ordering::then)
}

fn key(values: &[Value], columns: &[Column]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_key(values, columns, &mut out).unwrap();
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn keys_order_as_rows_do((columns, left, right) in two_rows()) {
        prop_assert_eq!(key(&left, &columns).cmp(&key(&right, &columns)), row_order(&left, &right));
    }

    #[test]
    fn the_first_columns_are_a_byte_prefix((columns, row, _) in two_rows(), length in 0usize..4) {
        let length = length.min(row.len());
        let whole = key(&row, &columns);
        prop_assert!(whole.starts_with(&key(&row[..length], &columns)));
    }

    /// Text columns read from elsewhere may hold zero bytes, which the escape must keep in order.
    #[test]
    fn texts_with_zero_bytes_keep_their_order(
        left in "[\u{0}\u{1}a\u{ff}]{0,5}", right in "[\u{0}\u{1}a\u{ff}]{0,5}", tails: (i16, i16),
    ) {
        let columns = [(DataType::Text, false), (DataType::SmallInt, false)];
        let left = [Value::text(left), Value::SmallInt(tails.0)];
        let right = [Value::text(right), Value::SmallInt(tails.1)];
        prop_assert_eq!(key(&left, &columns).cmp(&key(&right, &columns)), row_order(&left, &right));
    }
}

#[test]
fn hot_path_forms_are_the_general_form() {
    let columns = [DataType::SmallInt, DataType::Integer, DataType::BigInt, DataType::Text];
    let columns = columns.map(|data_type| (data_type, false));
    let values = [Value::SmallInt(-3), Value::Integer(7), Value::BigInt(i64::MIN), Value::text("a\0b")];
    let mut out = Vec::new();
    push_smallint(&mut out, -3);
    push_integer(&mut out, 7);
    push_bigint(&mut out, i64::MIN);
    push_text(&mut out, "a\0b");
    assert_eq!(out, key(&values, &columns));
    assert_eq!(out, b"\x7f\xfd\x80\0\0\x07\0\0\0\0\0\0\0\0a\0\xffb\0\0");
}

#[test]
fn numerics_take_the_width_of_their_storage() {
    for (precision, bytes) in [(1, 4), (9, 4), (10, 8), (18, 8), (19, 16), (38, 16)] {
        let columns = [(DataType::Numeric { precision, scale: 1 }, false)];
        assert_eq!(key(&[Value::Numeric(Decimal::new(-5, 1))], &columns).len(), bytes);
        assert_eq!(numeric_storage_bits(precision) as usize, bytes * 8);
    }
}

#[test]
fn a_numeric_is_encoded_at_the_scale_of_its_column() {
    let columns = [(DataType::Numeric { precision: 5, scale: 2 }, false)];
    let whole = key(&[Value::Numeric(Decimal::new(3, 0))], &columns);
    assert_eq!(whole, key(&[Value::Numeric(Decimal::new(3000, 3))], &columns));
    let encode = |value| push_value(&mut Vec::new(), &Value::Numeric(value), columns[0].0, false);
    assert!(encode(Decimal::new(3001, 3)).is_err());
    assert!(encode(Decimal::new(1000, 0)).is_err());
}

#[test]
fn values_of_other_types_are_refused() {
    let mut out = Vec::new();
    for (value, data_type) in [
        (Value::Null, DataType::Integer),
        (Value::SmallInt(1), DataType::Integer),
        (Value::text("1"), DataType::Integer),
        (Value::Timestamp(1), DataType::TIMESTAMPTZ),
    ] {
        assert!(push_value(&mut out, &value, data_type, false).is_err());
    }
    assert!(encode_key(&[Value::Null], &[], &mut out).is_err());
}

#[test]
fn both_zeros_and_all_nans_are_one_key() {
    let double = |value| key(&[Value::Double(value)], &[(DataType::DoublePrecision, false)]);
    let real = |value| key(&[Value::Real(value)], &[(DataType::Real, false)]);
    assert_eq!(double(0.0), double(-0.0));
    assert_eq!(real(0.0), real(-0.0));
    assert_eq!(double(f64::NAN), double(f64::from_bits(u64::MAX)));
    assert_eq!(real(f32::NAN), real(f32::from_bits(u32::MAX)));
    assert!(double(f64::NAN) > double(f64::INFINITY));
}

#[test]
fn arrays_order_as_their_values_do() {
    let data_type = DataType::System(SystemType::List(crate::ListType::Text));
    let values: Vec<Value> = ["{}", "{\"\"}", "{a}", "{a,a}", "{a,b}", "{a,NULL}", "{aa}", "{b}", "{NULL}"]
        .iter()
        .map(|text| crate::parse_text(data_type, text).unwrap())
        .collect();
    let key = |value: &Value| {
        let mut key = Vec::new();
        push_value(&mut key, value, data_type, false).unwrap();
        key
    };
    for (at, left) in values.iter().enumerate() {
        for (other, right) in values.iter().enumerate() {
            assert_eq!(key(left).cmp(&key(right)), at.cmp(&other), "{left:?} {right:?}");
            assert_eq!(crate::compare(left, right).unwrap(), Some(at.cmp(&other)));
        }
    }
}

#[test]
fn arrays_of_equal_numerics_are_one_key() {
    let data_type = DataType::System(SystemType::List(crate::ListType::Numeric));
    let key = |text: &str| {
        let mut key = Vec::new();
        push_value(&mut key, &crate::parse_text(data_type, text).unwrap(), data_type, false).unwrap();
        key
    };
    assert_eq!(key("{1.5,2}"), key("{1.500,2.00}"));
    assert_eq!(key("{1.00000000000000000001}"), key("{1.000000000000000000010}"));
    let ordered = ["{-1e50}", "{-1}", "{0.1}", "{0.1,5}", "{1e50}", "{Infinity}", "{NaN}", "{NULL}"];
    assert!(ordered.windows(2).all(|pair| key(pair[0]) < key(pair[1])));
}
