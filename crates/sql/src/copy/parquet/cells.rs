//! What was read from a file, as values of the table's columns.

use super::kind::{INTERVAL_BYTES, is_read_from_text};
use super::source::ParquetSource;
use crate::columns::Cells as Lying;
use crate::expression::types::assignable;
use ankerdb_engine::{DataType, Error, ListType, Result, SqlState, SystemType, Value, ValueRef};
use ankerdb_value::{ArrayBuilder, FIRST_DAY, Interval, LAST_DAY, assign, parse_text};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, Date32Array, Decimal128Array, PrimitiveArray,
    Time64MicrosecondArray, TimestampMicrosecondArray,
};
use datafusion::arrow::compute::cast as arrow_cast;
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType as ArrowType, Date32Type, Decimal128Type, Time64MicrosecondType, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, UInt64Type,
};
use std::sync::Arc;

/// An error, and the row that it is of.
type InRow<T> = Result<T, (usize, Error)>;

const MICROSECONDS_PER_DAY: i64 = 86_400_000_000;

/// Rows that were read, as the values of a table's columns.
pub(in crate::copy) struct ParquetRows {
    pub(super) count: usize,
    /// By the position of the table's column.
    pub(super) columns: Vec<Option<Cells>>,
}

impl ParquetRows {
    pub(in crate::copy) fn len(&self) -> usize {
        self.count
    }

    /// The value of a column; `None` if the file has no such column.
    #[inline]
    pub(in crate::copy) fn value(&self, row: usize, column: usize) -> Option<ValueRef<'_>> {
        self.columns[column].as_ref().map(|cells| cells.value(row))
    }
}

/// The values of one column.
pub(super) enum Cells {
    Nothing,
    /// Where they were read to.
    Lying(Lying),
    Made(Vec<Value>),
}

impl Cells {
    #[inline]
    fn value(&self, row: usize) -> ValueRef<'_> {
        match self {
            Cells::Nothing => ValueRef::Null,
            Cells::Lying(cells) => cells.value(row),
            Cells::Made(values) => ValueRef::from(&values[row]),
        }
    }
}

/// Whether a table's column may take what a file has.
pub(super) fn is_taken(source: &ParquetSource, target: DataType) -> bool {
    match (source, target) {
        (ParquetSource::Nothing, _) => true,
        (ParquetSource::Values(DataType::Text), _) if is_read_from_text(target) => true,
        (ParquetSource::Values(from), _) => assignable(*from, target),
        (ParquetSource::Interval, _) => assignable(DataType::INTERVAL, target),
        (ParquetSource::SixteenBytes, _) => target == DataType::Uuid || assignable(DataType::Bytea, target),
        (ParquetSource::List(item), DataType::System(SystemType::List(list))) => {
            is_taken(item, item_type(list))
        }
        (ParquetSource::List(_) | ParquetSource::Other(_), _) => false,
    }
}

/// Items of `numeric[]` keep their own digits.
fn item_type(list: ListType) -> DataType {
    match list {
        ListType::Numeric => DataType::Number,
        list => list.item_type(),
    }
}

/// An array as values of a type that [is taken](is_taken).
///
/// # Errors
/// Those of an assignment, with the first row that has one.
pub(super) fn cells(source: &ParquetSource, target: DataType, array: &ArrayRef) -> InRow<Cells> {
    match source {
        ParquetSource::Nothing | ParquetSource::Other(_) => Ok(Cells::Nothing),
        ParquetSource::Interval => made(array.len(), |row| match array.is_null(row) {
            true => Ok(Value::Null),
            false => assign(Value::Interval(interval(array.as_fixed_size_binary().value(row))?), target),
        }),
        ParquetSource::SixteenBytes if target == DataType::Uuid => Ok(Cells::Lying(lying(array)?)),
        ParquetSource::SixteenBytes => plain_cells(DataType::Bytea, target, array),
        ParquetSource::Values(from) => plain_cells(*from, target, array),
        ParquetSource::List(item) => match target {
            DataType::System(SystemType::List(list)) => lists(item, list, array),
            _ => Err((0, Error::internal("a list in a column of another type"))),
        },
    }
}

fn made(rows: usize, value: impl FnMut(usize) -> Result<Value>) -> InRow<Cells> {
    let mut value = value;
    let values = (0..rows).map(|row| value(row).map_err(|error| (row, error)));
    values.collect::<InRow<_>>().map(Cells::Made)
}

fn lying(array: &ArrayRef) -> InRow<Lying> {
    Lying::new(array).map_err(|error| (0, error))
}

fn plain_cells(from: DataType, target: DataType, array: &ArrayRef) -> InRow<Cells> {
    let array = &normal(from, array)?;
    let cells = lying(array)?;
    if lies(from, target, array) {
        return Ok(Cells::Lying(cells));
    }
    made(array.len(), |row| match cells.value(row) {
        ValueRef::Null => Ok(Value::Null),
        ValueRef::Text(text) => parse_text(target, text),
        value => assign(value.to_value(), target),
    })
}

/// Whether all values are as the column stores them.
fn lies(from: DataType, target: DataType, array: &ArrayRef) -> bool {
    match (from, target) {
        (DataType::Numeric { precision, scale }, DataType::Numeric { precision: room, scale: same }) => {
            scale == same && precision <= room
        }
        (DataType::Text, DataType::Text) => all_texts(array, |_| true),
        (DataType::Text, DataType::Varchar(length)) => all_texts(array, |text| text.len() <= length as usize),
        (DataType::Text, DataType::Char(length)) => {
            all_texts(array, |text| text.len() <= length as usize && !text.ends_with(' '))
        }
        (DataType::Number, _) => false,
        (from, target) => from == target && !from.is_document(),
    }
}

/// Whether that holds of all texts, and none has a character that no text has.
fn all_texts(array: &ArrayRef, holds: impl Fn(&str) -> bool) -> bool {
    let is_text = |text: &str| memchr::memchr(0, text.as_bytes()).is_none() && holds(text);
    array.as_string::<i32>().iter().flatten().all(is_text)
}

/// The array in a form that [`Lying`] reads as values of `from`, all of which that type has.
fn normal(from: DataType, array: &ArrayRef) -> InRow<ArrayRef> {
    let to = |data_type: &ArrowType| {
        arrow_cast(array, data_type).map_err(|error| (0, Error::internal(error.to_string())))
    };
    Ok(match array.data_type() {
        ArrowType::UInt64 => {
            let numbers: Decimal128Array = array.as_primitive::<UInt64Type>().unary(i128::from);
            let numbers = numbers.with_precision_and_scale(20, 0);
            Arc::new(numbers.map_err(|error| (0, Error::internal(error.to_string())))?)
        }
        ArrowType::Float16 => to(&ArrowType::Float32)?,
        ArrowType::Binary => to(&ArrowType::BinaryView)?,
        ArrowType::FixedSizeBinary(_) if from == DataType::Bytea => {
            Arc::new(BinaryViewArray::from_iter(array.as_fixed_size_binary().iter()))
        }
        ArrowType::Decimal128(precision, _) => {
            let most = 10_u128.pow((*precision).into());
            checked::<Decimal128Type>(array.as_primitive(), |value| {
                (value.unsigned_abs() < most)
                    .then_some(value)
                    .ok_or_else(|| Error::new(SqlState::NumericValueOutOfRange, "numeric field overflow"))
            })?;
            array.clone()
        }
        ArrowType::Date32 => {
            let dates: Date32Array = checked::<Date32Type>(array.as_primitive(), date)?;
            Arc::new(dates)
        }
        ArrowType::Timestamp(unit, zone) => {
            let moments = microseconds(array, *unit)?;
            Arc::new(moments.with_timezone_opt(zone.clone()))
        }
        ArrowType::Time32(_) | ArrowType::Time64(_) => {
            let times = to(&ArrowType::Time64(TimeUnit::Microsecond))?;
            let times: Time64MicrosecondArray =
                checked::<Time64MicrosecondType>(times.as_primitive(), |time| {
                    (0..=MICROSECONDS_PER_DAY).contains(&time).then_some(time).ok_or_else(|| beyond("time"))
                })?;
            Arc::new(times)
        }
        _ => array.clone(),
    })
}

/// The array of what becomes of each value.
fn checked<T: ArrowPrimitiveType>(
    array: &PrimitiveArray<T>,
    value: impl Fn(T::Native) -> Result<T::Native>,
) -> InRow<PrimitiveArray<T>> {
    // The kernel does not say which row has failed.
    array.try_unary::<_, T, Error>(&value).map_err(|error| {
        let fails = |row: &usize| array.is_valid(*row) && value(array.value(*row)).is_err();
        ((0..array.len()).find(fails).unwrap_or(0), error)
    })
}

fn beyond(what: &str) -> Error {
    Error::new(SqlState::DatetimeFieldOverflow, format!("{what} out of range"))
}

/// A date with infinities as they are stored: other programs have two forms of the one before all times.
fn date(days: i32) -> Result<i32> {
    match days {
        i32::MAX | i32::MIN => Ok(days),
        _ if days == -i32::MAX => Ok(i32::MIN),
        _ if (FIRST_DAY..=LAST_DAY).contains(&days.into()) => Ok(days),
        _ => Err(beyond("date")),
    }
}

fn moment(microseconds: i64) -> Result<i64> {
    match microseconds {
        i64::MAX | i64::MIN => Ok(microseconds),
        _ if microseconds == -i64::MAX => Ok(i64::MIN),
        _ if is_moment(microseconds) => Ok(microseconds),
        _ => Err(beyond("timestamp")),
    }
}

fn is_moment(microseconds: i64) -> bool {
    microseconds >= FIRST_DAY * MICROSECONDS_PER_DAY && microseconds != i64::MAX
}

fn microseconds(array: &ArrayRef, unit: TimeUnit) -> InRow<TimestampMicrosecondArray> {
    Ok(match unit {
        TimeUnit::Microsecond => checked::<TimestampMicrosecondType>(array.as_primitive(), moment)?,
        TimeUnit::Nanosecond => {
            array.as_primitive::<TimestampNanosecondType>().unary(|moment| moment.div_euclid(1000))
        }
        _ => {
            let array = arrow_cast(array, &ArrowType::Timestamp(TimeUnit::Millisecond, None))
                .map_err(|_| (0, beyond("timestamp")))?;
            let moments = array.as_primitive::<TimestampMillisecondType>();
            let whole = |moment: i64| {
                let moment = moment.checked_mul(1000).filter(|moment| is_moment(*moment));
                moment.ok_or_else(|| beyond("timestamp"))
            };
            checked::<TimestampMillisecondType>(moments, |moment| whole(moment).map(|_| moment))?;
            moments.unary(|moment| moment.wrapping_mul(1000))
        }
    })
}

/// # Errors
/// 22008 for more months or days than an interval has.
fn interval(bytes: &[u8]) -> Result<Interval> {
    let part =
        |at: usize| bytes.get(at..at + 4).and_then(|part| part.try_into().ok()).map(u32::from_le_bytes);
    let (Some(months), Some(days), Some(milliseconds)) = (part(0), part(4), part(INTERVAL_BYTES - 4)) else {
        return Err(Error::internal("an interval of fewer than twelve bytes"));
    };
    let beyond = |_| beyond("interval");
    let (months, days) = (i32::try_from(months).map_err(beyond)?, i32::try_from(days).map_err(beyond)?);
    Ok(Interval::new(months, days, i64::from(milliseconds) * 1000))
}

fn lists(item: &ParquetSource, list: ListType, array: &ArrayRef) -> InRow<Cells> {
    let lists = array.as_list::<i32>();
    let offsets = lists.value_offsets();
    let row_of = |item: usize| offsets.partition_point(|&end| end as usize <= item).saturating_sub(1);
    let items = cells(item, item_type(list), lists.values()).map_err(|(at, error)| (row_of(at), error))?;
    made(lists.len(), |row| {
        if lists.is_null(row) {
            return Ok(Value::Null);
        }
        let mut builder = ArrayBuilder::new(list);
        for at in offsets[row]..offsets[row + 1] {
            builder.push(items.value(at as usize))?;
        }
        Ok(Value::Array(builder.finish()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ankerdb_value::{PackedType, Precision};
    use datafusion::arrow::array::{
        Float16Array, Int64Array, ListArray, StringArray, TimestampMillisecondArray,
        TimestampNanosecondArray, UInt64Array,
    };
    use datafusion::arrow::datatypes::Int32Type;

    fn numeric(precision: u8, scale: u8) -> DataType {
        DataType::Numeric { precision, scale }
    }

    /// The first value of an array as one of the column's, or the code of the error.
    fn first(from: DataType, target: DataType, array: impl Array + 'static) -> Result<Value, &'static str> {
        all(&ParquetSource::Values(from), target, Arc::new(array)).map(|values| values[0].clone())
    }

    fn all(source: &ParquetSource, target: DataType, array: ArrayRef) -> Result<Vec<Value>, &'static str> {
        assert!(is_taken(source, target), "{source:?} {target}");
        let cells = cells(source, target, &array).map_err(|(_, error)| error.state().code())?;
        Ok((0..array.len()).map(|row| cells.value(row).to_value()).collect())
    }

    #[test]
    fn dates_and_moments_beyond_those_of_tables_are_refused() {
        let date = |days: i32| first(DataType::Date, DataType::Date, Date32Array::from(vec![days]));
        assert_eq!(date(LAST_DAY as i32), Ok(Value::Date(LAST_DAY as i32)));
        assert_eq!(date(LAST_DAY as i32 + 1), Err("22008"));
        assert_eq!(date(FIRST_DAY as i32 - 1), Err("22008"));
        assert_eq!((date(i32::MIN), date(-i32::MAX)), (Ok(Value::Date(i32::MIN)), Ok(Value::Date(i32::MIN))));
        let from = DataType::TIMESTAMP;
        let micros = |moment: i64| first(from, from, TimestampMicrosecondArray::from(vec![moment]));
        assert_eq!(micros(-i64::MAX), Ok(Value::Timestamp(i64::MIN)));
        assert_eq!(micros(i64::MIN + 2), Err("22008"));
        let millis = |moment: i64| first(from, from, TimestampMillisecondArray::from(vec![moment]));
        assert_eq!(millis(-1), Ok(Value::Timestamp(-1000)));
        assert_eq!((millis(i64::MAX), millis(i64::MIN)), (Err("22008"), Err("22008")));
        let nanos = |moment: i64| first(from, from, TimestampNanosecondArray::from(vec![moment]));
        assert_eq!(nanos(-1), Ok(Value::Timestamp(-1)));
        let time =
            |time: i64| first(DataType::TIME, DataType::TIME, Time64MicrosecondArray::from(vec![time]));
        assert_eq!(time(MICROSECONDS_PER_DAY), Ok(Value::Time(MICROSECONDS_PER_DAY)));
        assert_eq!((time(MICROSECONDS_PER_DAY + 1), time(-1)), (Err("22008"), Err("22008")));
        let tenths = DataType::Timestamp(Precision::digits(1));
        let rounded = first(from, tenths, TimestampMicrosecondArray::from(vec![1_960_000]));
        assert_eq!(rounded, Ok(Value::Timestamp(2_000_000)));
    }

    #[test]
    fn numbers_keep_what_they_are_or_are_refused() {
        let decimals = |value: i128, precision, scale| {
            Decimal128Array::from(vec![value]).with_precision_and_scale(precision, scale).unwrap()
        };
        // More digits than the file says that it has: only a damaged one.
        assert_eq!(first(numeric(3, 1), numeric(3, 1), decimals(1000, 3, 1)), Err("22003"));
        assert_eq!(first(numeric(5, 1), numeric(3, 1), decimals(1000, 5, 1)), Err("22003"));
        let wide = first(numeric(20, 0), DataType::BigInt, UInt64Array::from(vec![u64::MAX]));
        assert_eq!(wide, Err("22003"));
        assert_eq!(first(DataType::BigInt, DataType::SmallInt, Int64Array::from(vec![40_000])), Err("22003"));
        let half = Float16Array::from(vec![half(1.5)]);
        assert_eq!(first(DataType::Real, DataType::DoublePrecision, half), Ok(Value::Double(1.5)));
        assert_eq!(
            first(DataType::Text, numeric(5, 2), StringArray::from(vec!["1.5"])),
            first(numeric(3, 2), numeric(5, 2), decimals(150, 3, 2))
        );
        assert!(!is_taken(&ParquetSource::Values(DataType::Text), DataType::Integer));
        assert!(is_taken(&ParquetSource::Values(DataType::Text), DataType::Packed(PackedType::Inet)));
    }

    fn half(value: f32) -> <datafusion::arrow::datatypes::Float16Type as ArrowPrimitiveType>::Native {
        <<datafusion::arrow::datatypes::Float16Type as ArrowPrimitiveType>::Native>::from_f32(value)
    }

    #[test]
    fn texts_are_those_that_columns_have() {
        let text = |text: &'static str, target| first(DataType::Text, target, StringArray::from(vec![text]));
        for target in [DataType::Text, DataType::Varchar(3), DataType::Char(3)] {
            assert_eq!(text("a\0b", target), Err("22021"), "{target}");
            assert_eq!(text("abc", target), Ok(Value::text("abc")));
        }
        assert_eq!(
            (text("abcd", DataType::Varchar(3)), text("äöü", DataType::Varchar(3))),
            (Err("22001"), Ok(Value::text("äöü")))
        );
        assert_eq!(text("a  ", DataType::Char(3)), Ok(Value::text("a")));
        assert_eq!(text("{", DataType::Json), Err("22P02"));
    }

    #[test]
    fn an_error_in_a_list_is_that_of_its_row() {
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(vec![
            Some(vec![Some(1), None]),
            None,
            Some(vec![]),
            Some(vec![Some(2), Some(100_000)]),
        ]));
        let source = ParquetSource::List(Box::new(ParquetSource::Values(DataType::Integer)));
        let target = |list| DataType::System(SystemType::List(list));
        let found = cells(&source, target(ListType::SmallInt), &lists).map(|_| ()).unwrap_err();
        assert_eq!((found.0, found.1.state().code()), (3, "22003"));
        let values = all(&source, target(ListType::BigInt), lists).unwrap();
        assert!(values[1].is_null());
        let Value::Array(array) = &values[0] else { panic!("an array") };
        assert_eq!(array.borrow().items().collect::<Vec<_>>(), [ValueRef::BigInt(1), ValueRef::Null]);
    }

    #[test]
    fn intervals_are_months_days_and_milliseconds() {
        let bytes = |months: u32, days: u32, milliseconds: u32| {
            [months.to_le_bytes(), days.to_le_bytes(), milliseconds.to_le_bytes()].concat()
        };
        let read = interval(&bytes(14, 3, u32::MAX)).unwrap();
        assert_eq!(read, Interval::new(14, 3, i64::from(u32::MAX) * 1000));
        assert_eq!(interval(&bytes(1 << 31, 0, 0)).unwrap_err().state().code(), "22008");
    }
}
