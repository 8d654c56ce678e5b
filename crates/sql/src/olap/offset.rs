//! Window functions whose offsets and counts are no positive constants: `lag(x, n)`, `lead`, `nth_value(x, n)`, `ntile(n)`.
//!
//! DataFusion has them for constants. What a row asks for here is computed for the row, and as in PostgreSQL it may be NULL, which gives
//! NULL; `ntile` asks once for each partition, by its first row. A partition is held as a whole, and each row takes the same time.

use super::error::external;
use ankerdb_engine::{Error, SqlState};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int32Array, new_null_array};
use datafusion::arrow::compute::interleave;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int32Type};
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::function::{PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::{
    PartitionEvaluator, Signature, Volatility, WindowFunctionDefinition, WindowUDF, WindowUDFImpl,
};
use std::ops::Range;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Lag,
    Lead,
    Nth,
    Tile,
}

/// The function of this name, whose argument that counts is an integer.
pub(super) fn function(name: &str) -> Option<WindowFunctionDefinition> {
    let kind = match name {
        "lag" => Kind::Lag,
        "lead" => Kind::Lead,
        "nth_value" => Kind::Nth,
        "ntile" => Kind::Tile,
        _ => return None,
    };
    let signature = Signature::user_defined(Volatility::Immutable);
    let function = WindowUDF::new_from_impl(Offset { kind, signature });
    Some(WindowFunctionDefinition::WindowUDF(Arc::new(function)))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Offset {
    kind: Kind,
    signature: Signature,
}

impl WindowUDFImpl for Offset {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Lag => "lag",
            Kind::Lead => "lead",
            Kind::Nth => "nth_value",
            Kind::Tile => "ntile",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(types.to_vec())
    }

    fn partition_evaluator(&self, _: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(Rows { kind: self.kind, row: 0 }))
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        if self.kind == Kind::Tile {
            return Ok(Arc::new(Field::new(args.name(), DataType::Int32, true)));
        }
        match args.get_input_field(0) {
            Some(value) => Ok(Arc::new(value.as_ref().clone().with_name(args.name()).with_nullable(true))),
            None => internal_err!("{} of nothing", self.name()),
        }
    }
}

/// The rows of a partition.
#[derive(Debug)]
struct Rows {
    kind: Kind,
    /// Of those that are asked for one after the other, the next.
    row: usize,
}

impl PartitionEvaluator for Rows {
    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        match self.kind {
            Kind::Tile => tiles(values[0].as_primitive::<Int32Type>(), rows),
            Kind::Lag => moved(values, |row, offset| row.checked_sub(offset)),
            _ => moved(values, |row, offset| row.checked_add(offset)),
        }
    }

    fn evaluate(&mut self, values: &[ArrayRef], range: &Range<usize>) -> Result<ScalarValue> {
        let counts = values[1].as_primitive::<Int32Type>();
        let row = self.row;
        self.row += 1;
        let null = || ScalarValue::try_from(values[0].data_type());
        if counts.is_null(row) {
            return null();
        }
        let Some(count) = usize::try_from(counts.value(row)).ok().filter(|count| *count > 0) else {
            return Err(not_positive(SqlState::InvalidArgumentForNthValue, "nth_value"));
        };
        match range.start.checked_add(count - 1).filter(|place| *place < range.end) {
            Some(place) => ScalarValue::try_from_array(&values[0], place),
            None => null(),
        }
    }

    fn uses_window_frame(&self) -> bool {
        self.kind == Kind::Nth
    }
}

/// The values of the rows that the offsets lead to; the default where there is none.
fn moved(values: &[ArrayRef], place: impl Fn(i64, i64) -> Option<i64>) -> Result<ArrayRef> {
    let (value, offsets) = (&values[0], values[1].as_primitive::<Int32Type>());
    let default = values.get(2).filter(|default| default.data_type() == value.data_type()).cloned();
    let default = default.unwrap_or_else(|| new_null_array(value.data_type(), value.len()));
    let null = new_null_array(value.data_type(), 1);
    let places = (0..value.len()).map(|row| {
        if offsets.is_null(row) {
            return (2, 0);
        }
        let offset = i64::from(offsets.value(row));
        let place = i64::try_from(row).ok().and_then(|row| place(row, offset));
        match place.and_then(|place| usize::try_from(place).ok()).filter(|place| *place < value.len()) {
            Some(place) => (0, place),
            None => (1, row),
        }
    });
    let places: Vec<(usize, usize)> = places.collect();
    Ok(interleave(&[value, &default, &null], &places)?)
}

/// The number of each row's part, of as many parts as the first row asks for.
fn tiles(counts: &Int32Array, rows: usize) -> Result<ArrayRef> {
    if rows == 0 || counts.is_null(0) {
        return Ok(Arc::new(Int32Array::new_null(rows)));
    }
    let Some(parts) = usize::try_from(counts.value(0)).ok().filter(|parts| *parts > 0) else {
        return Err(not_positive(SqlState::InvalidArgumentForNtile, "ntile"));
    };
    let (size, longer) = (rows / parts, rows % parts);
    let tile = |row: usize| match row.checked_sub(longer * (size + 1)) {
        None => row / (size + 1),
        // There are such rows only if the parts are not empty.
        Some(behind) => longer + behind / size.max(1),
    };
    Ok(Arc::new((0..rows).map(|row| i32::try_from(tile(row) + 1).ok()).collect::<Int32Array>()))
}

fn not_positive(state: SqlState, name: &str) -> DataFusionError {
    external(Error::new(state, format!("argument of {name} must be greater than zero")))
}
