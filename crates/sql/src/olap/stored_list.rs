//! Arrays as they are stored, as Arrow's lists. Costs a copy of the items.

use super::arrow::{column_type, digits, item_field};
use super::value::scalar;
use ankerdb_engine::{ArrayRef, DataType, Error, ListType, Result, SystemType, ValueRef};
use ankerdb_value::format_text;
use datafusion::arrow::array::{
    Array, ArrayRef as Items, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, Float32Array,
    Float64Array, Int16Array, Int32Array, Int64Array, LargeBinaryArray, LargeBinaryBuilder, ListArray,
    StringViewBuilder, new_empty_array,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::DataType as ArrowType;
use datafusion::common::ScalarValue;
use std::sync::Arc;

/// The lists that the stored arrays are.
///
/// # Errors
/// 22008 for intervals that Arrow has not, an internal error for more than 2^31 items.
pub(super) fn lists(list: ListType, stored: &BinaryViewArray) -> Result<Items> {
    let array = |row: usize| stored.is_valid(row).then(|| ArrayRef::from_bytes(stored.value(row)));
    let lengths: Vec<usize> = (0..stored.len()).map(|row| array(row).map_or(0, ArrayRef::len)).collect();
    if i32::try_from(lengths.iter().sum::<usize>()).is_err() {
        return Err(Error::internal("the arrays of a block have too many items"));
    }
    let values = items(list, (0..stored.len()).filter_map(array).flat_map(ArrayRef::items))?;
    let offsets = OffsetBuffer::from_lengths(lengths);
    let ArrowType::List(field) = column_type(DataType::System(SystemType::List(list))) else {
        return Err(Error::internal("a list is none"));
    };
    let lists = ListArray::try_new(field, offsets, values, stored.nulls().cloned());
    Ok(Arc::new(lists.map_err(|error| Error::internal(error.to_string()))?))
}

/// Numerics of any length, each with its digits.
fn numbers<'a>(items: impl Iterator<Item = ValueRef<'a>>) -> LargeBinaryArray {
    let mut numbers = LargeBinaryBuilder::new();
    let mut text = String::new();
    for item in items {
        match item {
            ValueRef::Number(number) => numbers.append_value(number),
            ValueRef::Null => numbers.append_null(),
            other => {
                text.clear();
                format_text(other, DataType::Number, &mut text);
                numbers.append_value(&text);
            }
        }
    }
    numbers.finish()
}

/// The items of all arrays, behind each other.
fn items<'a>(list: ListType, items: impl Iterator<Item = ValueRef<'a>>) -> Result<Items> {
    /// The items as an array of a type that has their variant.
    macro_rules! plain {
        ($array:ty, $variant:ident) => {
            Arc::new(<$array>::from_iter(items.map(|item| match item {
                ValueRef::$variant(value) => Some(value),
                _ => None,
            })))
        };
    }
    Ok(match list.unlimited() {
        ListType::Numeric if list == ListType::Numeric => Arc::new(numbers(items)),
        ListType::Numeric if let DataType::Numeric { precision, scale } = list.item_type() => {
            let numbers = items.map(|item| match item {
                ValueRef::Numeric(number) => Some(number.unscaled),
                _ => None,
            });
            let numbers = Decimal128Array::from_iter(numbers);
            let numbers = numbers.with_precision_and_scale(digits(precision), scale as i8);
            Arc::new(numbers.map_err(|error| Error::internal(error.to_string()))?)
        }
        ListType::Boolean => plain!(BooleanArray, Boolean),
        ListType::SmallInt => plain!(Int16Array, SmallInt),
        ListType::Integer => plain!(Int32Array, Integer),
        ListType::BigInt | ListType::Oid => plain!(Int64Array, BigInt),
        ListType::Real => plain!(Float32Array, Real),
        ListType::DoublePrecision => plain!(Float64Array, Double),
        ListType::Date => plain!(Date32Array, Date),
        ListType::Text | ListType::Varchar | ListType::Bpchar | ListType::Name | ListType::Char => {
            let mut texts = StringViewBuilder::new();
            for item in items {
                match item {
                    ValueRef::Text(text) => texts.append_value(text),
                    _ => texts.append_null(),
                }
            }
            Arc::new(texts.finish())
        }
        other => {
            let typed = |item: ValueRef<'a>| scalar(&item.to_value(), Some(other.item_type()));
            let values = items.map(typed).collect::<Result<Vec<ScalarValue>>>()?;
            match values.is_empty() {
                true => new_empty_array(item_field(other).data_type()),
                false => {
                    ScalarValue::iter_to_array(values).map_err(|error| Error::internal(error.to_string()))?
                }
            }
        }
    })
}
