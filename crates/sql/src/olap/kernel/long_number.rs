//! Numerics of any length: their keys, and casts to and from them.

use super::{Call, Kernel};
use crate::columns::{Cells, number_text};
use ankerdb_engine::{DataType, Value};
use ankerdb_value::{cast, cut, format_text, push_number_key};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, LargeBinaryBuilder, StringViewBuilder};
use datafusion::logical_expr::ColumnarValue;
use std::sync::Arc;

/// The cast to a numeric of any length, of integers and numerics of declared digits.
pub(super) fn made() -> Kernel {
    |call| {
        let [ColumnarValue::Array(array)] = call.arguments else { return None };
        let cells = Cells::new(array).ok()?;
        let mut made = LargeBinaryBuilder::with_capacity(array.len(), array.len() * 8);
        let mut written = String::new();
        for row in 0..array.len() {
            if array.is_null(row) {
                made.append_null();
                continue;
            }
            written.clear();
            format_text(cells.value(row), DataType::Text, &mut written);
            made.append_value(&written);
        }
        Some(Arc::new(made.finish()))
    }
}

/// The cast of a numeric of any length.
pub(super) fn cast_to(target: DataType) -> Option<Kernel> {
    Some(match target {
        DataType::DoublePrecision => |call: &Call<'_>| {
            let [ColumnarValue::Array(array)] = call.arguments else { return None };
            let double = |bytes: &[u8]| match cast(Value::Number(number_text(bytes).into()), call.result) {
                Ok(Value::Double(double)) => Some(double),
                _ => None,
            };
            let doubles = array.as_binary::<i64>().iter();
            let doubles = doubles.map(|bytes| bytes.map(|bytes| double(bytes).ok_or(())).transpose());
            let doubles = doubles.collect::<Result<Vec<Option<f64>>, ()>>().ok()?;
            Some(Arc::new(datafusion::arrow::array::Float64Array::from(doubles)) as ArrayRef)
        },
        target if target.is_text() => |call: &Call<'_>| {
            let [ColumnarValue::Array(array)] = call.arguments else { return None };
            let mut texts = StringViewBuilder::with_capacity(array.len());
            for bytes in array.as_binary::<i64>() {
                texts.append_option(bytes.map(|bytes| cut(number_text(bytes), call.result)));
            }
            Some(Arc::new(texts.finish()) as ArrayRef)
        },
        _ => return None,
    })
}

/// What numerics of any length are compared by, a character for each byte.
pub(super) fn keys(call: &Call<'_>) -> Option<ArrayRef> {
    let [ColumnarValue::Array(array)] = call.arguments else { return None };
    let mut keys = StringViewBuilder::with_capacity(array.len());
    let (mut key, mut written) = (Vec::new(), String::new());
    for bytes in array.as_binary::<i64>() {
        keys.append_option(bytes.map(|bytes| {
            key.clear();
            written.clear();
            push_number_key(number_text(bytes), &mut key);
            written.extend(key.iter().copied().map(char::from));
            written.as_str()
        }));
    }
    Some(Arc::new(keys.finish()))
}
