//! Sums and averages of doubles that overflow are errors, as in PostgreSQL, where DataFusion's are infinite.
//!
//! A result is infinite by itself where an infinity was added up. So as long as none was seen an infinite sum, of rows or of a part of
//! them, has overflown: results and states are looked at, and rows only for infinities.

use super::error::external;
use ankerdb_engine::{Error, SqlState};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};

/// The accumulator of a sum or average of doubles.
pub(super) fn single(inner: Box<dyn Accumulator>) -> Box<dyn Accumulator> {
    Box::new(FiniteSum { inner, has_infinity: false })
}

/// The accumulator of groups' sums or averages of doubles.
pub(super) fn grouped(inner: Box<dyn GroupsAccumulator>) -> Box<dyn GroupsAccumulator> {
    Box::new(FiniteSums { inner, has_infinity: false })
}

/// Whether a double among the columns is infinite.
fn is_infinite(columns: &[ArrayRef]) -> bool {
    columns.iter().filter(|column| *column.data_type() == DataType::Float64).any(|column| {
        let doubles = column.as_primitive::<Float64Type>();
        // What is behind a NULL may be anything; to take it for an infinity loses the check and no result.
        doubles.values().iter().fold(false, |found, value| found | value.is_infinite())
    })
}

fn overflow() -> DataFusionError {
    external(Error::new(SqlState::NumericValueOutOfRange, "value out of range: overflow"))
}

/// 22003 for a result that is infinite although nothing that was added up is.
fn check(columns: &[ArrayRef], has_infinity: bool) -> Result<()> {
    let is_over = |column: &ArrayRef| {
        *column.data_type() == DataType::Float64
            && column.as_primitive::<Float64Type>().iter().flatten().any(f64::is_infinite)
    };
    match !has_infinity && columns.iter().any(is_over) {
        true => Err(overflow()),
        false => Ok(()),
    }
}

fn check_scalars(values: &[ScalarValue], has_infinity: bool) -> Result<()> {
    let is_over = |value: &ScalarValue| matches!(value, ScalarValue::Float64(Some(sum)) if sum.is_infinite());
    match !has_infinity && values.iter().any(is_over) {
        true => Err(overflow()),
        false => Ok(()),
    }
}

#[derive(Debug)]
struct FiniteSum {
    inner: Box<dyn Accumulator>,
    has_infinity: bool,
}

impl Accumulator for FiniteSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.has_infinity = self.has_infinity || is_infinite(values);
        self.inner.update_batch(values)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let result = self.inner.evaluate()?;
        check_scalars(std::slice::from_ref(&result), self.has_infinity)?;
        Ok(result)
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.inner.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let state = self.inner.state()?;
        check_scalars(&state, self.has_infinity)?;
        Ok(state)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.has_infinity = self.has_infinity || is_infinite(states);
        self.inner.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }
}

struct FiniteSums {
    inner: Box<dyn GroupsAccumulator>,
    has_infinity: bool,
}

impl GroupsAccumulator for FiniteSums {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        self.has_infinity = self.has_infinity || is_infinite(values);
        self.inner.update_batch(values, group_indices, filter, total_groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let results = self.inner.evaluate(emit_to)?;
        check(std::slice::from_ref(&results), self.has_infinity)?;
        Ok(results)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let states = self.inner.state(emit_to)?;
        check(&states, self.has_infinity)?;
        Ok(states)
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        group_indices: &[usize],
        total_groups: usize,
    ) -> Result<()> {
        self.has_infinity = self.has_infinity || is_infinite(states);
        self.inner.merge_batch(states, group_indices, total_groups)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.inner.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.inner.size()
    }
}
