//! Variances and deviations of integers and numerics: exact sums of values and of squares in 256 bits.
//!
//! A result is a numeric of any length, which has as many digits as PostgreSQL gives it.

use super::aggregate::out_of_range;
use super::number_aggregate::spread;
use ankerdb_value::NumberSum;
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Decimal256Type, Int64Type, i256};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::Accumulator;
use std::collections::HashSet;

/// What is told of the values.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Spread {
    VariancePopulation,
    VarianceSample,
    DeviationPopulation,
    DeviationSample,
}

/// Digits of the widest numeric.
const PRECISION: u8 = 38;

/// The sums of one group.
#[derive(Debug)]
pub(super) struct Exact {
    spread: Spread,
    /// Fractional digits of the argument.
    scale: i8,
    count: i64,
    sum: i256,
    squares: i256,
    /// The different values, with DISTINCT.
    seen: Option<HashSet<i128>>,
}

fn overflow() -> datafusion::error::DataFusionError {
    out_of_range("value overflows numeric format")
}

fn scale_of(argument: &DataType) -> i8 {
    match argument {
        DataType::Decimal128(_, scale) => *scale,
        _ => 0,
    }
}

impl Exact {
    /// Names and types of the state.
    pub(super) const STATE: [(&'static str, DataType); 3] = [
        ("count", DataType::Int64),
        ("sum", DataType::Decimal256(76, 0)),
        ("squares", DataType::Decimal256(76, 0)),
    ];

    pub(super) fn accumulator(
        spread: Spread,
        argument: &DataType,
        is_distinct: bool,
    ) -> Box<dyn Accumulator> {
        let seen = is_distinct.then(HashSet::new);
        let scale = scale_of(argument);
        Box::new(Exact { spread, scale, count: 0, sum: i256::ZERO, squares: i256::ZERO, seen })
    }

    fn add(&mut self, value: i128) -> Result<()> {
        let value = i256::from_i128(value);
        self.count += 1;
        self.sum = self.sum.checked_add(value).ok_or_else(overflow)?;
        let square = value.checked_mul(value).ok_or_else(overflow)?;
        self.squares = self.squares.checked_add(square).ok_or_else(overflow)?;
        Ok(())
    }
}

impl Accumulator for Exact {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let wide = match values[0].data_type() {
            DataType::Decimal128(..) => values[0].clone(),
            _ => cast(&values[0], &DataType::Decimal128(PRECISION, 0))?,
        };
        for value in wide.as_primitive::<Decimal128Type>().iter().flatten() {
            match &mut self.seen {
                Some(seen) => {
                    seen.insert(value);
                }
                None => self.add(value)?,
            }
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if let Some(seen) = self.seen.take() {
            (self.count, self.sum, self.squares) = (0, i256::ZERO, i256::ZERO);
            for &value in &seen {
                self.add(value)?;
            }
            self.seen = Some(seen);
        }
        let (sum, squares) = (self.sum.to_le_bytes(), self.squares.to_le_bytes());
        let scale = u32::from(self.scale.unsigned_abs());
        spread(self.spread, &NumberSum::of_totals(self.count as u64, scale, &sum, &squares))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        if let Some(seen) = &self.seen {
            let scalar = |&value: &i128| ScalarValue::Decimal128(Some(value), PRECISION, 0);
            let values: Vec<ScalarValue> = seen.iter().map(scalar).collect();
            let item = DataType::Decimal128(PRECISION, 0);
            return Ok(vec![ScalarValue::List(ScalarValue::new_list_nullable(&values, &item))]);
        }
        Ok(vec![
            ScalarValue::Int64(Some(self.count)),
            ScalarValue::Decimal256(Some(self.sum), 76, 0),
            ScalarValue::Decimal256(Some(self.squares), 76, 0),
        ])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        if let Some(seen) = &mut self.seen {
            for list in states[0].as_list::<i32>().iter().flatten() {
                seen.extend(list.as_primitive::<Decimal128Type>().iter().flatten());
            }
            return Ok(());
        }
        let counts = states[0].as_primitive::<Int64Type>();
        let (sums, squares) =
            (states[1].as_primitive::<Decimal256Type>(), states[2].as_primitive::<Decimal256Type>());
        for row in 0..counts.len() {
            self.count += counts.value(row);
            self.sum = self.sum.checked_add(sums.value(row)).ok_or_else(overflow)?;
            self.squares = self.squares.checked_add(squares.value(row)).ok_or_else(overflow)?;
        }
        Ok(())
    }

    fn size(&self) -> usize {
        let seen = self.seen.as_ref().map_or(0, HashSet::capacity);
        size_of_val(self) + seen * size_of::<i128>() * 2
    }
}
