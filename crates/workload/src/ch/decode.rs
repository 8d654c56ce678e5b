//! Arrow's batches as rows of plain values.

use super::answer::{ChRow, ChValue};
use ankerdb_engine::{Error, Result};
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Float64Type, Int64Type, TimeUnit, TimestampMicrosecondType,
};
use datafusion::arrow::record_batch::RecordBatch;

/// The rows of an answer, in its order.
///
/// # Errors
/// XX000 for a value that no query of the benchmark answers.
pub fn rows_of(batches: &[RecordBatch]) -> Result<Vec<ChRow>> {
    let mut rows = Vec::new();
    for batch in batches {
        let columns = batch.columns().iter().map(values_of).collect::<Result<Vec<_>>>()?;
        let mut columns: Vec<_> = columns.into_iter().map(Vec::into_iter).collect();
        rows.extend(
            (0..batch.num_rows()).map(|_| columns.iter_mut().filter_map(Iterator::next).collect::<ChRow>()),
        );
    }
    Ok(rows)
}

fn values_of(array: &ArrayRef) -> Result<Vec<ChValue>> {
    let or_null = |value: Option<ChValue>| value.unwrap_or(ChValue::Null);
    Ok(match array.data_type() {
        DataType::Int16 | DataType::Int32 | DataType::Int64 => {
            let array = to(array, &DataType::Int64)?;
            array.as_primitive::<Int64Type>().iter().map(|value| or_null(value.map(ChValue::whole))).collect()
        }
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale) => {
            let scale = *scale;
            let places = u32::try_from(scale)
                .map_err(|_| Error::internal(format!("an answer is numeric({precision}, {scale})")))?;
            let array = to(array, &DataType::Decimal128(38, scale))?;
            let values = array.as_primitive::<Decimal128Type>().iter();
            values.map(|value| or_null(value.map(|digits| ChValue::Exact(digits, places)))).collect()
        }
        DataType::Float64 => array
            .as_primitive::<Float64Type>()
            .iter()
            .map(|value| or_null(value.map(ChValue::Ratio)))
            .collect(),
        DataType::Timestamp(TimeUnit::Microsecond, None) => {
            let values = array.as_primitive::<TimestampMicrosecondType>().iter();
            values.map(|value| or_null(value.map(ChValue::Moment))).collect()
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            let array = to(array, &DataType::Utf8)?;
            array.as_string::<i32>().iter().map(|value| or_null(value.map(ChValue::text))).collect()
        }
        other => return Err(Error::internal(format!("an answer has a column of {other}"))),
    })
}

fn to(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    cast(array, data_type).map_err(|error| Error::internal(format!("an answer cannot be read: {error}")))
}
