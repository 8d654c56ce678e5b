//! Arrow's arrays as a pipeline's columns, without copying.

use super::super::batch_copies::{CompressedColumns, compressed_slice};
use ankerdb_compiler::{ColumnSlice, Pipeline, PipelineBatch};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Decimal32Type, Decimal64Type, Decimal128Type, Int32Type, Int64Type,
};
use datafusion::common::internal_err;
use datafusion::error::Result;

/// These columns of a batch as what the pipeline reads, with compressed copies of those that have some.
pub(super) fn pipeline_batch<'a>(
    pipeline: &Pipeline,
    columns: &[usize],
    read: &'a RecordBatch,
    copies: &'a CompressedColumns,
) -> Result<PipelineBatch<'a>> {
    let of_column = |(at, &column): (usize, &usize)| {
        let compressed = copies.get(at).and_then(Option::as_deref).map(compressed_slice);
        Some(ColumnSlice { compressed, ..slice(read.column(column))? })
    };
    let slices: Option<Vec<_>> = columns.iter().enumerate().map(of_column).collect();
    match slices.and_then(|slices| PipelineBatch::new(pipeline, slices, read.num_rows())) {
        Some(batch) => Ok(batch),
        None => internal_err!("a batch of other columns than the pipeline's"),
    }
}

/// The memory of an array; `None` for a type that no pipeline reads.
fn slice(array: &ArrayRef) -> Option<ColumnSlice<'_>> {
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
    let validity = nulls.map(|nulls| (nulls.validity(), nulls.offset()));
    let whole = |values| Some(ColumnSlice { values, first_bit: 0, validity, compressed: None });
    match array.data_type() {
        DataType::Boolean => {
            let bits = array.as_boolean().values();
            Some(ColumnSlice { values: bits.values(), first_bit: bits.offset(), validity, compressed: None })
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
