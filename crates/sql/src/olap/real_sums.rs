//! Sums of reals are reals, added up one by one, as in PostgreSQL; DataFusion would add them up as doubles.
//!
//! A sum that overflows is an error, and one of infinities is infinite.

use super::aggregate::{counted_rows, out_of_range};
use datafusion::arrow::array::{ArrayRef, AsArray, BooleanArray, Float32Array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float32Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};
use std::collections::HashMap;
use std::sync::Arc;

/// What partial results are kept in.
pub(super) fn state_fields(name: &str, is_distinct: bool) -> Vec<FieldRef> {
    vec![Arc::new(match is_distinct {
        true => {
            let items = DataType::new_list(DataType::Float32, true);
            Field::new(format_state_name(name, "distinct"), items, true)
        }
        false => Field::new(format_state_name(name, "sum"), DataType::Float32, true),
    })]
}

/// The accumulator of one group.
pub(super) fn single(is_distinct: bool) -> Box<dyn Accumulator> {
    match is_distinct {
        true => Box::new(DifferentReals::default()),
        false => Box::new(RealSum::default()),
    }
}

/// The accumulator of all groups.
pub(super) fn grouped() -> Box<dyn GroupsAccumulator> {
    Box::new(RealSums::default())
}

/// A sum with one number more.
///
/// # Errors
/// 22003 for a sum that is infinite although neither number is.
fn added(sum: Option<f32>, number: f32) -> Result<f32> {
    let Some(sum) = sum else { return Ok(number) };
    let total = sum + number;
    match total.is_infinite() && sum.is_finite() && number.is_finite() {
        true => Err(out_of_range("value out of range: overflow")),
        false => Ok(total),
    }
}

fn reals(values: &ArrayRef) -> impl Iterator<Item = f32> {
    values.as_primitive::<Float32Type>().iter().flatten()
}

#[derive(Debug, Default)]
struct RealSum(Option<f32>);

impl Accumulator for RealSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for number in reals(&values[0]) {
            self.0 = Some(added(self.0, number)?);
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float32(self.0))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}

/// The different numbers of one group, by what is equal of them.
#[derive(Debug, Default)]
struct DifferentReals(HashMap<u32, f32>);

/// Zeros of both signs are equal, and so are all that are not a number.
fn equal_bits(number: f32) -> u32 {
    match number {
        0.0 => 0,
        _ if number.is_nan() => f32::NAN.to_bits(),
        other => other.to_bits(),
    }
}

impl Accumulator for DifferentReals {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for number in reals(&values[0]) {
            self.0.entry(equal_bits(number)).or_insert(number);
        }
        Ok(())
    }

    /// From the least number on: equal ones are found by their order.
    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut numbers: Vec<f32> = self.0.values().copied().collect();
        numbers.sort_by(f32::total_cmp);
        let sum = numbers.into_iter().try_fold(None, |sum, number| added(sum, number).map(Some))?;
        Ok(ScalarValue::Float32(sum))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.0.capacity() * size_of::<(u32, f32)>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let numbers: Vec<ScalarValue> = self.0.values().copied().map(ScalarValue::from).collect();
        Ok(vec![ScalarValue::List(ScalarValue::new_list_nullable(&numbers, &DataType::Float32))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for list in states[0].as_list::<i32>().iter().flatten() {
            self.update_batch(&[list])?;
        }
        Ok(())
    }
}

/// The sum of each group; `None` while it has none.
#[derive(Default)]
struct RealSums(Vec<Option<f32>>);

impl RealSums {
    fn take(&mut self, emit_to: EmitTo) -> ArrayRef {
        Arc::new(Float32Array::from(emit_to.take_needed(&mut self.0)))
    }
}

impl GroupsAccumulator for RealSums {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        group_count: usize,
    ) -> Result<()> {
        self.0.resize(group_count, None);
        let numbers = values[0].as_primitive::<Float32Type>();
        let rows = counted_rows(&values[0], filter);
        for (row, &group) in groups.iter().enumerate() {
            if rows.as_ref().is_none_or(|rows| rows.is_valid(row)) {
                self.0[group] = Some(added(self.0[group], numbers.value(row))?);
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        Ok(self.take(emit_to))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.take(emit_to)])
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], group_count: usize) -> Result<()> {
        self.update_batch(values, groups, None, group_count)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let numbers = values[0].as_primitive::<Float32Type>();
        let rows = counted_rows(&values[0], filter);
        Ok(vec![Arc::new(Float32Array::new(numbers.values().clone(), rows))])
    }

    fn size(&self) -> usize {
        self.0.capacity() * size_of::<Option<f32>>()
    }
}
