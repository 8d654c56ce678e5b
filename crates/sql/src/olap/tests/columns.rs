//! Cells that are read from arrays are the values that the arrays were made of.

use super::*;
use ankerdb_engine::{Bits, Interval, Packed, ValueRef};
use datafusion::arrow::array::types::IntervalMonthDayNano;
use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, BinaryArray, BinaryViewArray, BooleanArray, Date64Array,
    FixedSizeBinaryArray, LargeBinaryArray, LargeStringArray, NullArray, PrimitiveArray, StringArray,
    StringViewArray, Time32SecondArray, UInt64Array,
};
use datafusion::arrow::datatypes::{
    DataType as ArrowDataType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Field,
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, IntervalMonthDayNanoType,
    IntervalUnit, Schema, Time64MicrosecondType, Time64NanosecondType, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use datafusion::arrow::util::display::array_value_to_string;

const ROWS: usize = 1000;

/// A number for each row; every seventh row is NULL.
fn random() -> Vec<Option<u64>> {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..ROWS).map(|row| (row % 7 != 3).then(&mut next)).collect()
}

/// Compares all cells, of the whole array and of a part that begins within a byte of the validity bits.
fn compare(array: ArrayRef, expected: &[Value]) {
    for (start, length) in [(0, ROWS), (13, 500)] {
        let part = array.slice(start, length);
        let schema = Schema::new(vec![Field::new("c", part.data_type().clone(), true)]);
        let batch = RecordBatch::try_new(Arc::new(schema), vec![part]).unwrap();
        let columns = Columns::new(&batch).unwrap();
        assert_eq!((columns.len(), columns.width()), (length, 1));
        for row in 0..length {
            let (read, meant) = (columns.value(row, 0), ValueRef::from(&expected[start + row]));
            // By their text, so that NaN is itself.
            assert_eq!(format!("{read:?}"), format!("{meant:?}"), "{}, row {row}", array.data_type());
            assert_eq!(format!("{:?}", columns.row(row)), format!("{:?}", [&expected[start + row]]));
        }
    }
}

fn values<N>(numbers: &[Option<N>], value: impl Fn(&N) -> Value) -> Vec<Value> {
    numbers.iter().map(|number| number.as_ref().map_or(Value::Null, &value)).collect()
}

/// Compares an array of numbers that `native` makes of random bits.
fn compare_numbers<T: ArrowPrimitiveType>(
    data_type: ArrowDataType,
    native: impl Fn(u64) -> T::Native,
    value: impl Fn(T::Native) -> Value,
) {
    let numbers: Vec<Option<T::Native>> = random().into_iter().map(|bits| bits.map(&native)).collect();
    let array = PrimitiveArray::<T>::from_iter(numbers.iter().copied()).with_data_type(data_type);
    compare(Arc::new(array), &values(&numbers, |&number| value(number)));
}

#[test]
fn integers_of_all_widths() {
    use ArrowDataType as A;
    compare_numbers::<Int8Type>(A::Int8, |bits| bits as i8, |n| Value::SmallInt(n.into()));
    compare_numbers::<Int16Type>(A::Int16, |bits| bits as i16, Value::SmallInt);
    compare_numbers::<Int32Type>(A::Int32, |bits| bits as i32, Value::Integer);
    compare_numbers::<Int64Type>(A::Int64, |bits| bits as i64, Value::BigInt);
    compare_numbers::<UInt8Type>(A::UInt8, |bits| bits as u8, |n| Value::SmallInt(n.into()));
    compare_numbers::<UInt16Type>(A::UInt16, |bits| bits as u16, |n| Value::Integer(n.into()));
    compare_numbers::<UInt32Type>(A::UInt32, |bits| bits as u32, |n| Value::BigInt(n.into()));
    compare_numbers::<UInt64Type>(A::UInt64, |bits| bits >> 1, |n| Value::BigInt(n as i64));
}

#[test]
fn floating_point_and_decimals() {
    use ArrowDataType as A;
    compare_numbers::<Float32Type>(A::Float32, |bits| f32::from_bits(bits as u32), Value::Real);
    compare_numbers::<Float64Type>(A::Float64, f64::from_bits, Value::Double);
    compare_numbers::<Decimal32Type>(
        A::Decimal32(9, 2),
        |bits| (bits as i32) % 1_000_000_000,
        |n| numeric(n.into(), 2),
    );
    compare_numbers::<Decimal64Type>(A::Decimal64(18, 0), |bits| bits as i64 >> 4, |n| numeric(n.into(), 0));
    let wide = |bits: u64| i128::from(bits as i64) * 1_000_000_007;
    compare_numbers::<Decimal128Type>(A::Decimal128(38, 10), wide, |n| numeric(n, 10));
}

#[test]
fn times_in_all_units() {
    use ArrowDataType as A;
    compare_numbers::<Date32Type>(A::Date32, |bits| bits as i32, Value::Date);
    let day = |milliseconds: i64| Value::Date(milliseconds.div_euclid(86_400_000) as i32);
    compare_numbers::<Date64Type>(A::Date64, |bits| bits as i64 >> 10, day);
    let zone: Option<Arc<str>> = Some("UTC".into());
    compare_numbers::<TimestampSecondType>(
        A::Timestamp(TimeUnit::Second, None),
        |bits| bits as i64 >> 21,
        |n| Value::Timestamp(n * 1_000_000),
    );
    compare_numbers::<TimestampMillisecondType>(
        A::Timestamp(TimeUnit::Millisecond, zone.clone()),
        |bits| bits as i64 >> 11,
        |n| Value::TimestampTz(n * 1000),
    );
    compare_numbers::<TimestampMicrosecondType>(
        A::Timestamp(TimeUnit::Microsecond, zone),
        |bits| bits as i64,
        Value::TimestampTz,
    );
    compare_numbers::<TimestampNanosecondType>(
        A::Timestamp(TimeUnit::Nanosecond, None),
        |bits| bits as i64,
        |n| Value::Timestamp(n.div_euclid(1000)),
    );
}

#[test]
fn times_of_day_and_intervals() {
    use ArrowDataType as A;
    let time = |bits: u64| (bits % 86_400_000_000) as i64;
    compare_numbers::<Time64MicrosecondType>(A::Time64(TimeUnit::Microsecond), time, Value::Time);
    compare_numbers::<Time64NanosecondType>(
        A::Time64(TimeUnit::Nanosecond),
        |bits| time(bits) * 1000 + 999,
        |n| Value::Time(n / 1000),
    );
    compare_numbers::<IntervalMonthDayNanoType>(
        A::Interval(IntervalUnit::MonthDayNano),
        |bits| IntervalMonthDayNano::new(bits as i32, (bits >> 20) as i32, bits as i64),
        |interval| {
            Value::Interval(Interval::new(interval.months, interval.days, interval.nanoseconds / 1000))
        },
    );
}

#[test]
fn text_and_bytes_in_all_layouts() {
    let texts: Vec<Option<String>> =
        random().iter().map(|bits| bits.map(|bits| "ä".repeat(bits as usize % 20))).collect();
    let expected = values(&texts, |text| Value::text(text.as_str()));
    compare(Arc::new(StringArray::from_iter(&texts)), &expected);
    compare(Arc::new(LargeStringArray::from_iter(&texts)), &expected);
    compare(Arc::new(StringViewArray::from_iter(&texts)), &expected);
    let bytes: Vec<Option<Vec<u8>>> = random()
        .iter()
        .map(|bits| bits.map(|bits| bits.to_le_bytes()[..bits as usize % 8].to_vec()))
        .collect();
    let expected = values(&bytes, |bytes| Value::Bytea(bytes.as_slice().into()));
    compare(Arc::new(BinaryViewArray::from_iter(&bytes)), &expected);
    // Strings of bits and numerics of any length are what nothing else is.
    let strings: Vec<Option<Packed>> = random()
        .iter()
        .map(|bits| bits.map(|bits| Bits::of_bytes(bits.to_be_bytes().to_vec(), bits as usize % 60).packed()))
        .collect();
    let expected = values(&strings, |packed| Value::Packed(packed.clone()));
    let stored = strings.iter().map(|packed| packed.as_ref().map(|packed| packed.borrow().bytes()));
    compare(Arc::new(BinaryArray::from_iter(stored)), &expected);
    let numbers: Vec<Option<String>> =
        random().iter().map(|bits| bits.map(|bits| bits.to_string())).collect();
    let expected = values(&numbers, |text| Value::Number(text.as_str().into()));
    compare(Arc::new(LargeBinaryArray::from_iter(&numbers)), &expected);
}

#[test]
fn bytes_of_fixed_length_are_uuids_if_they_are_16() {
    let fixed = |width: usize| -> Vec<Option<Vec<u8>>> {
        let bytes = |bits: u64| bits.to_le_bytes().repeat(2)[..width].to_vec();
        random().iter().map(|bits| bits.map(bytes)).collect()
    };
    let array = |bytes: &[Option<Vec<u8>>], width| {
        let array = FixedSizeBinaryArray::try_from_sparse_iter_with_size(bytes.iter().cloned(), width);
        Arc::new(array.unwrap())
    };
    let uuids = fixed(16);
    compare(array(&uuids, 16), &values(&uuids, |bytes| Value::Uuid(bytes[..].try_into().unwrap())));
    let others = fixed(5);
    compare(array(&others, 5), &values(&others, |bytes| Value::Bytea(bytes.as_slice().into())));
}

#[test]
fn booleans_nulls_and_types_without_a_counterpart() {
    let truths: Vec<Option<bool>> = random().iter().map(|bits| bits.map(|bits| bits & 1 == 1)).collect();
    compare(Arc::new(BooleanArray::from_iter(&truths)), &values(&truths, |&truth| Value::Boolean(truth)));
    compare(Arc::new(NullArray::new(ROWS)), &vec![Value::Null; ROWS]);
    let times: Vec<Option<i32>> =
        random().iter().map(|bits| bits.map(|bits| (bits % 86_400) as i32)).collect();
    let array = Time32SecondArray::from_iter(times.iter().copied());
    let shown = |row: usize| match array.is_null(row) {
        true => Value::Null,
        false => Value::text(array_value_to_string(&array, row).unwrap()),
    };
    let expected: Vec<Value> = (0..ROWS).map(shown).collect();
    compare(Arc::new(array), &expected);
}

#[test]
fn what_no_value_can_hold_is_an_error_of_the_batch() {
    let state = |array: ArrayRef| {
        let schema = Schema::new(vec![Field::new("c", array.data_type().clone(), true)]);
        let batch = RecordBatch::try_new(Arc::new(schema), vec![array]).unwrap();
        Columns::new(&batch).map(|_| ()).unwrap_err().state().code()
    };
    assert_eq!(state(Arc::new(UInt64Array::from(vec![1, u64::MAX]))), "22003");
    assert_eq!(state(Arc::new(Date64Array::from(vec![i64::MAX]))), "22008");
    let seconds = PrimitiveArray::<TimestampSecondType>::from(vec![i64::MIN]);
    assert_eq!(state(Arc::new(seconds)), "22008");
}
