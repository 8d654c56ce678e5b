//! Results as Arrow batches, for callers that read those instead of rows: batches of the OLAP path under the names that
//! clients see, and batches made of the rows of the OLTP path.

use crate::OutputColumn;
use crate::olap::arrow::wide_type;
use crate::olap::value::scalar;
use ankerdb_engine::{DataType, Error, Result, Value};
use ankerdb_value::Decimal;
use datafusion::arrow::array::{ArrayRef, new_empty_array};
use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

/// The most digits of a numeric.
const DIGITS_MAX: u8 = 38;

/// The batch under the names of the result's columns: plans have names of their own for what is computed. Copies no data.
pub(crate) fn renamed(batch: RecordBatch, columns: &[OutputColumn]) -> Result<RecordBatch> {
    let schema = batch.schema();
    let fields = schema
        .fields()
        .iter()
        .zip(columns)
        .map(|(field, column)| Field::new(&column.name, field.data_type().clone(), field.is_nullable()));
    batch_of(fields.collect(), batch.columns().to_vec(), batch.num_rows())
}

/// The schema of a result without batches: of the types that clients see.
pub(crate) fn schema_of(columns: &[OutputColumn]) -> Schema {
    let field = |column: &OutputColumn| Field::new(&column.name, wide_type(column.data_type), true);
    Schema::new(columns.iter().map(field).collect::<Vec<_>>())
}

/// Rows of values as a batch.
///
/// # Errors
/// `NumericValueOutOfRange` if the numerics of a column do not fit 38 digits at the scale that the longest fraction needs.
pub(crate) fn batch_of_rows(columns: &[OutputColumn], rows: &[Vec<Value>]) -> Result<RecordBatch> {
    let arrays = columns.iter().enumerate().map(|(position, column)| {
        let values = rows.iter().map(|row| &row[position]);
        match column.data_type {
            DataType::Numeric { scale, .. } => numerics(values, scale),
            data_type => array(values.map(|value| scalar(value, Some(data_type))), data_type),
        }
    });
    let arrays = arrays.collect::<Result<Vec<_>>>()?;
    let fields = columns.iter().zip(&arrays);
    let fields = fields.map(|(column, array)| Field::new(&column.name, array.data_type().clone(), true));
    batch_of(fields.collect(), arrays, rows.len())
}

fn array(scalars: impl Iterator<Item = Result<ScalarValue>>, data_type: DataType) -> Result<ArrayRef> {
    let scalars = scalars.collect::<Result<Vec<_>>>()?;
    if scalars.is_empty() {
        return Ok(new_empty_array(&wide_type(data_type)));
    }
    ScalarValue::iter_to_array(scalars).map_err(|error| Error::internal(error.to_string()))
}

/// Numerics carry their own scales; a column has one.
fn numerics<'v>(values: impl Iterator<Item = &'v Value> + Clone, scale: u8) -> Result<ArrayRef> {
    let own = |value: &Value| if let Value::Numeric(value) = value { value.scale } else { 0 };
    let scale = values.clone().map(own).max().unwrap_or(0).max(scale);
    let fitted = |value: Decimal| value.rescale(scale).map(|value| value.unscaled);
    let unscaled = values.map(|value| match value {
        Value::Numeric(value) => fitted(*value).map(Some),
        _ => Ok(None),
    });
    let scalars = unscaled.map(|value| Ok(ScalarValue::Decimal128(value?, DIGITS_MAX, scale as i8)));
    array(scalars, DataType::Numeric { precision: DIGITS_MAX, scale })
}

fn batch_of(fields: Vec<Field>, arrays: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let batch = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options);
    batch.map_err(|error| Error::internal(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{Array, AsArray};
    use datafusion::arrow::datatypes::{DataType as ArrowType, Decimal128Type, Int32Type};

    fn column(name: &str, data_type: DataType) -> OutputColumn {
        OutputColumn::new(name, data_type)
    }

    #[test]
    fn rows_become_arrays_and_numerics_share_the_longest_fraction() {
        let numeric = DataType::Numeric { precision: 10, scale: 1 };
        let columns = [column("i", DataType::Integer), column("n", numeric)];
        let rows = [
            vec![Value::Integer(1), Value::Numeric(Decimal::new(25, 1))],
            vec![Value::Null, Value::Numeric(Decimal::new(1234, 3))],
            vec![Value::Integer(3), Value::Null],
        ];
        let batch = batch_of_rows(&columns, &rows).unwrap();
        let integers = batch.column(0).as_primitive::<Int32Type>();
        assert_eq!((integers.value(0), integers.is_null(1), integers.value(2)), (1, true, 3));
        let numbers = batch.column(1).as_primitive::<Decimal128Type>();
        assert_eq!((numbers.value(0), numbers.value(1), numbers.is_null(2)), (2500, 1234, true));
        assert_eq!(*numbers.data_type(), ArrowType::Decimal128(38, 3));
    }

    #[test]
    fn no_rows_have_the_types_that_are_promised() {
        let columns = [column("t", DataType::Text), column("d", DataType::Date)];
        let batch = batch_of_rows(&columns, &[]).unwrap();
        assert_eq!(batch.num_rows(), 0);
        assert_eq!(*batch.schema(), schema_of(&columns));
    }
}
