//! Fields and beginnings of dates and timestamps, over whole columns.

use super::{Call, Kernel, shared};
use crate::expression::{Function, Temporal};
use ankerdb_engine::Value;
use ankerdb_value::DateField;
use datafusion::arrow::array::{ArrayRef, AsArray, PrimitiveArray};
use datafusion::arrow::datatypes::{
    DataType as ArrowType, Date32Type, Decimal128Type, TimestampMicrosecondType,
};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::ColumnarValue;

/// The kernel of a function for arguments of these types.
pub(super) fn function(function: Function, arguments: &[ArrowType]) -> Option<Kernel> {
    match (function, arguments) {
        (Function::Temporal(Temporal::Extract, _), [_, ArrowType::Date32 | ArrowType::Timestamp(..)]) => {
            Some(extract)
        }
        (Function::Temporal(Temporal::DateTrunc, _), [_, ArrowType::Timestamp(..)]) => Some(trunc),
        _ => None,
    }
}

/// The constant field, and the column.
fn operands<'a>(call: &'a Call<'_>) -> Option<(DateField, &'a ArrayRef)> {
    let [ColumnarValue::Scalar(field), ColumnarValue::Array(array)] = call.arguments else { return None };
    let (ScalarValue::Utf8(Some(field)) | ScalarValue::Utf8View(Some(field))) = field else { return None };
    Some((DateField::by_name(field)?, array))
}

fn extract(call: &Call<'_>) -> Option<ArrayRef> {
    let (field, array) = operands(call)?;
    let fit = call.fitting()?;
    let numbers: PrimitiveArray<Decimal128Type> = match array.as_primitive_opt::<Date32Type>() {
        Some(days) => days.try_unary(|day| fit(field.of(&Value::Date(day)).ok_or(())?).ok_or(())),
        None => {
            let moments = array.as_primitive_opt::<TimestampMicrosecondType>()?;
            let is_zoned = matches!(array.data_type(), ArrowType::Timestamp(_, Some(_)));
            let value = |moment| if is_zoned { Value::TimestampTz(moment) } else { Value::Timestamp(moment) };
            moments.try_unary(|moment| fit(field.of(&value(moment)).ok_or(())?).ok_or(()))
        }
    }
    .ok()?;
    call.numerics(numbers)
}

fn trunc(call: &Call<'_>) -> Option<ArrayRef> {
    let (field, array) = operands(call)?;
    let moments = array.as_primitive_opt::<TimestampMicrosecondType>()?;
    let begin = |moment: i64| field.trunc(moment).ok().flatten().ok_or(());
    let begun: PrimitiveArray<TimestampMicrosecondType> = moments.try_unary(begin).ok()?;
    shared(Some(begun.with_data_type(array.data_type().clone())))
}
