//! Arrow's arrays as a pipeline's columns, without copying.

use ankerdb_compiler::{ColumnSlice, Pipeline, PipelineBatch};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Decimal32Type, Decimal64Type, Decimal128Type, Int32Type, Int64Type,
};
use datafusion::common::internal_err;
use datafusion::error::Result;

/// These columns of a batch as what the pipeline reads.
pub(super) fn pipeline_batch<'a>(
    pipeline: &Pipeline,
    columns: &[usize],
    read: &'a RecordBatch,
) -> Result<PipelineBatch<'a>> {
    let slices: Option<Vec<_>> = columns.iter().map(|&column| slice(read.column(column))).collect();
    match slices.and_then(|slices| PipelineBatch::new(pipeline, slices, read.num_rows())) {
        Some(batch) => Ok(batch),
        None => internal_err!("a batch of other columns than the pipeline's"),
    }
}

/// The memory of an array; `None` for a type that no pipeline reads.
fn slice(array: &ArrayRef) -> Option<ColumnSlice<'_>> {
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
    let validity = nulls.map(|nulls| (nulls.validity(), nulls.offset()));
    let whole = |values| Some(ColumnSlice { values, first_bit: 0, validity });
    match array.data_type() {
        DataType::Boolean => {
            let bits = array.as_boolean().values();
            Some(ColumnSlice { values: bits.values(), first_bit: bits.offset(), validity })
        }
        DataType::Int32 => whole(array.as_primitive::<Int32Type>().values().inner().as_slice()),
        DataType::Int64 => whole(array.as_primitive::<Int64Type>().values().inner().as_slice()),
        DataType::Date32 => whole(array.as_primitive::<Date32Type>().values().inner().as_slice()),
        DataType::Decimal32(..) => whole(array.as_primitive::<Decimal32Type>().values().inner().as_slice()),
        DataType::Decimal64(..) => whole(array.as_primitive::<Decimal64Type>().values().inner().as_slice()),
        DataType::Decimal128(..) => whole(array.as_primitive::<Decimal128Type>().values().inner().as_slice()),
        DataType::Utf8View => whole(array.as_string_view().views().inner().as_slice()),
        _ => None,
    }
}
