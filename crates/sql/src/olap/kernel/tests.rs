//! Every kernel gives what is computed value by value, and gives up where that fails and nowhere else: over the ends of all
//! types, values between which rounding decides, NULLs, parts of arrays, and scalars beside arrays.

use super::*;
use crate::expression::{Arithmetic, Function, NoSequences, PatternSyntax};
use crate::olap::arrow::{UTC, wide_type};
use crate::olap::operation::by_value;
use datafusion::arrow::array::{
    BooleanArray, Date32Array, Float32Array, Float64Array, Int16Array, Int32Array, Int64Array,
    LargeBinaryArray, StringArray, StringViewArray, TimestampMicrosecondArray, UInt32Array,
};
use datafusion::arrow::compute::{concat, take};
use datafusion::common::ScalarValue;

/// Numbers without a pattern.
fn random(count: usize) -> impl Iterator<Item = u64> {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    })
    .take(count)
}

fn integers<T: ArrowPrimitiveType>(
    smallest: T::Native,
    largest: T::Native,
    of: impl Fn(i64) -> T::Native,
) -> ArrayRef {
    let ends = [Some(smallest), Some(largest), None];
    let near = [0, 1, -1, 2, -2, 3, 7, -7, 10, 12, 100, -129, 254].map(|value| Some(of(value)));
    let wide = random(20).map(|bits| Some(of((bits as i64) >> (bits % 60))));
    Arc::new(ends.into_iter().chain(near).chain(wide).collect::<PrimitiveArray<T>>())
}

/// Ends of integers and what is next to them, halves, and what is not finite.
fn doubles() -> Vec<f64> {
    let ends =
        [32767.5, 32768.0, -32768.5, -32768.51, 2147483647.5, 2147483648.0, -2147483648.5, -2147483649.0];
    let long = [
        9223372036854775807.0,
        -9223372036854775808.0,
        9223372036854774784.0,
        1e15,
        1e37,
        1e38,
        123456789012345.6,
    ];
    let halves = [
        0.0,
        -0.0,
        0.5,
        -0.5,
        1.5,
        2.5,
        -2.5,
        0.49999999999999994,
        0.1,
        2.675,
        1.005,
        1e-7,
        99.995,
        12345.675,
    ];
    let odd = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MAX,
        f64::MIN_POSITIVE,
        1e-46,
        3.4028235677973366e38,
        3.5e38,
    ];
    let any = random(40).map(|bits| (bits as i64 >> (bits % 50)) as f64 / 1000.0);
    [ends.as_slice(), &long, &halves, &odd].concat().into_iter().chain(any).collect()
}

fn decimals(precision: u8, scale: u8) -> ArrayRef {
    let limit = 10i128.pow(u32::from(precision));
    let unit = 10i128.pow(u32::from(scale));
    let ends = [i128::from(i16::MAX), i128::from(i32::MAX), i128::from(i64::MAX), 1 << 24, 16_777_217];
    let ends = ends.into_iter().flat_map(|end| [end, end + 1].map(|end| end.checked_mul(unit)));
    let near =
        [0, 1, 5, 49, 50, 51, 1234, unit / 2, unit / 2 + 1, unit * 3 / 2, limit - 1, limit / 2, 7 * unit];
    let any = random(40).map(|bits| i128::from(bits) >> (bits % 64));
    let all = ends.flatten().chain(near).chain(any).filter(|number| number.unsigned_abs() < limit as u128);
    let both = all.flat_map(|number| [Some(number), Some(-number)]).chain([None]);
    let array: Decimal128Array = both.collect();
    Arc::new(array.with_precision_and_scale(precision, scale as i8).unwrap())
}

fn texts() -> Vec<Option<&'static str>> {
    let numbers =
        [" 12 ", "-5", "1e3", "NaN", "99999999999", "32768", "3.5", "-0.005", "+7", "1e400", "1_0", "0x1"];
    let words = [
        "",
        " ",
        "abc",
        "ABC ",
        "größe über alles",
        "100%",
        "a_c",
        "%",
        "\\",
        "aXbXc",
        "ÖDE",
        "aaaaaaaaaaaaaaaab",
    ];
    let dates = ["2024-02-29", "2023-02-29", "infinity"];
    [numbers.as_slice(), &words, &dates].concat().into_iter().map(Some).chain([None]).collect()
}

/// A column of each type that plans have.
fn columns() -> Vec<ArrayRef> {
    let moments =
        [0, -1, 86_400_000_000, -86_400_000_001, i64::MAX / 2, i64::MIN / 2, 951_782_400_000_000].map(Some);
    let moments: TimestampMicrosecondArray = moments.into_iter().chain([None]).collect();
    let days = [0, -1, 19782, 4_000_000, -4_000_000, i32::MAX, i32::MIN, 2_145_031_948].map(Some);
    vec![
        integers::<datafusion::arrow::datatypes::Int16Type>(i16::MIN, i16::MAX, |value| value as i16),
        integers::<datafusion::arrow::datatypes::Int32Type>(i32::MIN, i32::MAX, |value| value as i32),
        integers::<datafusion::arrow::datatypes::Int64Type>(i64::MIN, i64::MAX, |value| value),
        Arc::new(
            doubles().into_iter().map(|value| Some(value as f32)).chain([None]).collect::<Float32Array>(),
        ),
        Arc::new(doubles().into_iter().map(Some).chain([None]).collect::<Float64Array>()),
        decimals(38, 0),
        decimals(38, 10),
        decimals(12, 2),
        decimals(38, 38),
        Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])),
        Arc::new(days.into_iter().chain([None]).collect::<Date32Array>()),
        Arc::new(moments.clone()),
        Arc::new(moments.with_timezone(UTC)),
        Arc::new(StringViewArray::from(texts())),
        Arc::new(StringArray::from(texts())),
    ]
}

const NUMERICS: [DataType; 4] = [numeric(38, 0), numeric(38, 10), numeric(12, 2), numeric(5, 5)];

const fn numeric(precision: u8, scale: u8) -> DataType {
    DataType::Numeric { precision, scale }
}

/// One argument for all rows, or one for each.
fn scalar(array: &ArrayRef, row: usize) -> ColumnarValue {
    ColumnarValue::Scalar(ScalarValue::try_from_array(array, row).unwrap())
}

fn array_of(value: ColumnarValue, rows: usize) -> ArrayRef {
    value.into_array(rows).unwrap()
}

/// The kernel beside the other way, on one batch. Whether it did not fail.
fn agree(operation: &Operation, arguments: &[ColumnarValue], rows: usize, result: DataType) -> bool {
    let expected = by_value(operation, arguments, rows, result, (&Interrupt::new(), &NoSequences));
    let what = || format!("{operation:?} over {arguments:?}");
    match (compute(operation, arguments, rows, result, &Interrupt::new()), expected) {
        (Some(computed), Ok(expected)) => {
            assert_eq!(*computed.data_type(), wide_type(result), "{}", what());
            assert_eq!(&computed, &array_of(expected, rows), "{}", what());
            true
        }
        (None, Err(_)) => false,
        (Some(computed), Err(error)) => panic!("{}: {computed:?} instead of {error}", what()),
        (None, Ok(expected)) => panic!("{}: nothing instead of {expected:?}", what()),
    }
}

/// The kernel beside the other way: row by row, each as a part of a longer array; with a scalar in each place; and over all
/// rows that do not fail.
fn compare(operation: &Operation, arguments: &[ArrayRef], result: DataType) {
    let rows = arguments[0].len();
    let part = |row: usize| arguments.iter().map(move |array| ColumnarValue::Array(array.slice(row, 1)));
    let mut whole = Vec::new();
    for row in 0..rows {
        let alone: Vec<ColumnarValue> = part(row).collect();
        if agree(operation, &alone, 1, result) {
            whole.push(row as u32);
        }
        for place in 0..if arguments.len() > 1 { arguments.len() } else { 0 } {
            let mut mixed = alone.clone();
            mixed[place] = scalar(&arguments[place], row);
            agree(operation, &mixed, 1, result);
        }
    }
    assert!(!whole.is_empty(), "{operation:?} fails on everything");
    let whole = UInt32Array::from(whole);
    let kept: Vec<ArrayRef> = arguments.iter().map(|array| take(array, &whole, None).unwrap()).collect();
    let (count, from) = (whole.len(), whole.len().min(3));
    let all: Vec<_> = kept.iter().cloned().map(ColumnarValue::Array).collect();
    assert!(agree(operation, &all, count, result));
    let rest: Vec<_> =
        kept.iter().map(|array| ColumnarValue::Array(array.slice(from, count - from))).collect();
    assert!(agree(operation, &rest, count - from, result));
}

/// All pairs of the values of two columns.
fn pairs(left: &ArrayRef, right: &ArrayRef) -> [ArrayRef; 2] {
    let each = (0..left.len() as u32).flat_map(|row| std::iter::repeat_n(row, right.len()));
    let each = take(left, &UInt32Array::from_iter_values(each), None).unwrap();
    let again = vec![right.as_ref(); left.len()];
    [each, concat(&again).unwrap()]
}

/// Compares the kernel, if the table has one. Returns whether it has.
fn compare_found(operation: Operation, arguments: &[ArrayRef], result: DataType) -> bool {
    let types: Vec<ArrowType> = arguments.iter().map(|array| array.data_type().clone()).collect();
    let is_found = find(&operation, &types, result).is_some();
    if is_found {
        compare(&operation, arguments, result);
    }
    is_found
}

fn is_number(data_type: &ArrowType) -> bool {
    data_type.is_numeric()
}

#[test]
fn casts_agree_and_those_among_numbers_all_have_kernels() {
    use DataType::*;
    let others = [
        Boolean,
        SmallInt,
        Integer,
        BigInt,
        Real,
        DoublePrecision,
        Date,
        DataType::TIMESTAMP,
        DataType::TIMESTAMPTZ,
        Text,
    ];
    let lengths = [Varchar(2), Char(4), Bytea, Uuid];
    for column in columns() {
        for target in others.into_iter().chain(lengths).chain(NUMERICS) {
            let is_found = compare_found(Operation::Cast(target), std::slice::from_ref(&column), target);
            // What leads to a double is Arrow's, and so is what stays as it is.
            let is_ours = is_number(column.data_type())
                && target.is_numeric()
                && target != DoublePrecision
                && *column.data_type() != wide_type(target);
            let is_text =
                *column.data_type() == ArrowType::Utf8View && (target.is_numeric() || target.is_text());
            assert!(is_found || !(is_ours || is_text), "{} as {target}", column.data_type());
        }
    }
}

#[test]
fn numerics_of_any_length_agree() {
    use crate::expression::library::{Builtin, NUMBER_KEY};
    let texts = [
        "0",
        "0.00",
        "-1.50",
        "1.5",
        "NaN",
        "Infinity",
        "-Infinity",
        "123456789012345678901234567890123456789012345678.25",
    ];
    let long = format!("0.{}1", "0".repeat(400));
    let numbers = texts.iter().copied().chain([long.as_str()]).map(|text| Some(text.as_bytes()));
    let numbers: ArrayRef = Arc::new(LargeBinaryArray::from_iter(numbers.chain([None])));
    let one = std::slice::from_ref(&numbers);
    for target in [DataType::Text, DataType::Varchar(4), DataType::DoublePrecision] {
        assert!(compare_found(Operation::Cast(target), one, target), "{target}");
    }
    let key = Function::Library(Builtin::only(NUMBER_KEY), DataType::Text);
    assert!(compare_found(Operation::Call(key), one, DataType::Text));
    let exact = columns().into_iter().filter(|column| {
        matches!(
            column.data_type(),
            ArrowType::Int16 | ArrowType::Int32 | ArrowType::Int64 | ArrowType::Decimal128(..)
        )
    });
    for column in exact {
        assert!(compare_found(Operation::Cast(DataType::Number), &[column], DataType::Number));
    }
}

#[test]
fn operators_agree() {
    let columns = columns();
    let mut found = 0;
    for left in &columns {
        for right in &columns {
            for operator in [Arithmetic::Add, Arithmetic::Subtract, Arithmetic::Divide, Arithmetic::Modulo] {
                let result = match (left.data_type(), right.data_type()) {
                    (ArrowType::Decimal128(_, left), ArrowType::Decimal128(_, right)) => {
                        let wider = (*left).max(*right) as u8;
                        numeric(38, if operator == Arithmetic::Divide { wider.max(16) } else { wider })
                    }
                    (ArrowType::Date32, ArrowType::Date32) => DataType::Integer,
                    (ArrowType::Date32, _) | (_, ArrowType::Date32) => DataType::Date,
                    (ArrowType::Int16, _) => DataType::SmallInt,
                    (ArrowType::Int64, _) => DataType::BigInt,
                    _ => DataType::Integer,
                };
                found +=
                    usize::from(compare_found(Operation::Arithmetic(operator), &pairs(left, right), result));
            }
        }
    }
    assert_eq!(found, 3 + 2 * 16 + 4, "remainders of integers, two operators of four numerics, dates");
}

#[test]
fn functions_of_numbers_agree() {
    use crate::expression::Math::*;
    use Function::*;
    let mut found = 0;
    for column in columns().iter().filter(|column| is_number(column.data_type())) {
        let own = crate::olap::value::sql_type(column.data_type());
        found += usize::from(compare_found(Operation::Call(Abs), std::slice::from_ref(column), own));
        let is_numeric = matches!(own, DataType::Numeric { .. });
        let whole = if is_numeric { numeric(38, 0) } else { DataType::DoublePrecision };
        for function in [Round, Truncate, Ceil, Floor, Sign] {
            found +=
                usize::from(compare_found(Operation::Call(function), std::slice::from_ref(column), whole));
        }
        let digits: ArrayRef =
            Arc::new(Int32Array::from(vec![Some(0), Some(1), None, Some(2), Some(10), Some(39), Some(-1)]));
        if let DataType::Numeric { scale, .. } = own {
            for (function, scale) in [(Round, scale), (Truncate, scale), (Round, 1), (Truncate, 1)] {
                let result = numeric(38, scale);
                found +=
                    usize::from(compare_found(Operation::Call(function), &pairs(column, &digits), result));
            }
        }
        for function in [Greatest, Least] {
            let [left, right] = pairs(column, column);
            let arguments = [left.clone(), right, left];
            found += usize::from(compare_found(Operation::Call(function), &arguments, own));
        }
    }
    let doubles: ArrayRef = Arc::new(doubles().into_iter().map(Some).chain([None]).collect::<Float64Array>());
    for function in [SquareRoot, NaturalLogarithm, Exponential, Sine, AreaCosine] {
        let operation = Operation::Call(Function::Math(function));
        assert!(compare_found(operation, std::slice::from_ref(&doubles), DataType::DoublePrecision));
    }
    let operation = Operation::Call(Function::Math(Power));
    assert!(compare_found(operation, &pairs(&doubles, &doubles), DataType::DoublePrecision));
    assert_eq!(found, 9 + 6 * 5 + 4 * 4 + 7 * 2, "absolute, whole, to digits, extremes");
}

#[test]
fn functions_of_texts_agree() {
    use Function::*;
    let subject: ArrayRef = Arc::new(StringViewArray::from(texts()));
    let parts: ArrayRef = Arc::new(StringViewArray::from(vec![Some("a"), Some(""), Some("ß "), None]));
    let counts: ArrayRef =
        Arc::new(Int32Array::from(vec![Some(0), Some(2), Some(-3), Some(i32::MAX), Some(i32::MIN), None]));
    let one = std::slice::from_ref(&subject);
    let small: ArrayRef = Arc::new(Int16Array::from(vec![Some(3), None, Some(-1)]));
    let three = |second: &ArrayRef, third: &ArrayRef| {
        let [left, right] = pairs(&subject, second);
        let [left, again] = pairs(&left, third);
        let right = pairs(&right, third)[0].clone();
        [left, right, again]
    };
    let expect = |function, arguments: &[ArrayRef], result| {
        assert!(compare_found(Operation::Call(function), arguments, result), "{function:?}");
    };
    for function in [Lower, Upper, Trim, TrimStart, TrimEnd] {
        expect(function, one, DataType::Text);
    }
    expect(Length, one, DataType::Integer);
    expect(OctetLength, one, DataType::Integer);
    expect(Position, &pairs(&subject, &parts), DataType::Integer);
    for function in [Trim, TrimStart, TrimEnd, Concat] {
        expect(function, &pairs(&subject, &parts), DataType::Text);
    }
    for function in [Left, Right, Substring] {
        expect(function, &pairs(&subject, &counts), DataType::Text);
    }
    expect(Substring, &three(&counts, &small), DataType::Text);
    expect(Replace, &three(&parts, &parts), DataType::Text);
    expect(Concat, &three(&parts, &parts), DataType::Text);
}

#[test]
fn patterns_agree() {
    let subject: ArrayRef = Arc::new(StringViewArray::from(texts()));
    let patterns = ["", "%", "_", "a%", "%X%c", "100\\%", "ö%", "\\", "%!%", "A_C", "%a", "a%\\"].map(Some);
    let patterns: ArrayRef = Arc::new(StringViewArray::from_iter(patterns.into_iter().chain([None])));
    for escape in [None, Some('\\'), Some('!')] {
        for (syntax, negated) in [
            (PatternSyntax::Like, false),
            (PatternSyntax::Ilike, false),
            (PatternSyntax::Similar, false),
            (PatternSyntax::Like, true),
        ] {
            let operation = Operation::Like { escape, syntax, negated };
            assert!(compare_found(operation, &pairs(&subject, &patterns), DataType::Boolean));
        }
    }
}

#[test]
fn scalars_for_all_rows_and_one_for_many() {
    let column: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), None, Some(-7)]));
    let three = |value| ColumnarValue::Scalar(ScalarValue::Int64(value));
    let operation = Operation::Arithmetic(Arithmetic::Modulo);
    for scalar in [Some(3), Some(0), None] {
        for arguments in [
            [ColumnarValue::Array(column.clone()), three(scalar)],
            [three(scalar), ColumnarValue::Array(column.clone())],
        ] {
            agree(&operation, &arguments, 3, DataType::BigInt);
        }
    }
    assert!(
        compute(&operation, &[three(Some(7)), three(Some(3))], 3, DataType::BigInt, &Interrupt::new())
            .is_none()
    );
}
