//! Variances and deviations of integers and numerics: exact sums of values and of squares in 256 bits.
//!
//! A result is a numeric with 16 fractional digits, or twice the argument's where those are more. PostgreSQL shows about 16
//! significant digits instead.

use super::aggregate::out_of_range;
use crate::expression::library::whole_root;
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

/// Fractional digits of a result, at least.
const SCALE: i8 = 16;
/// The most.
const SCALE_MAX: i8 = 24;
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

fn result_scale(scale: i8) -> i8 {
    scale.saturating_mul(2).clamp(SCALE, SCALE_MAX)
}

fn power(exponent: i8) -> i256 {
    i256::from_i128(10).wrapping_pow(u32::from(exponent.unsigned_abs()))
}

impl Exact {
    /// Names and types of the state.
    pub(super) const STATE: [(&'static str, DataType); 3] = [
        ("count", DataType::Int64),
        ("sum", DataType::Decimal256(76, 0)),
        ("squares", DataType::Decimal256(76, 0)),
    ];

    /// The type of the result.
    pub(super) fn result(argument: &DataType) -> DataType {
        DataType::Decimal128(PRECISION, result_scale(scale_of(argument)))
    }

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

    /// The variance with the result's fractional digits.
    fn variance(&self) -> Result<Option<i256>> {
        let is_sample = matches!(self.spread, Spread::VarianceSample | Spread::DeviationSample);
        if self.count < if is_sample { 2 } else { 1 } {
            return Ok(None);
        }
        let count = i256::from_i128(i128::from(self.count));
        let whole = count.checked_mul(self.squares).ok_or_else(overflow)?;
        let distance =
            whole.checked_sub(self.sum.checked_mul(self.sum).ok_or_else(overflow)?).ok_or_else(overflow)?;
        let divisor = count.wrapping_mul(if is_sample { count.wrapping_sub(i256::ONE) } else { count });
        let extra = result_scale(self.scale) - 2 * self.scale;
        if extra < 0 {
            return Ok(Some(rounded(distance, divisor.wrapping_mul(power(extra)))));
        }
        // The integer part first: with all digits it might have no room.
        let (quotient, rest) = (distance.wrapping_div(divisor), distance.wrapping_rem(divisor));
        let fraction = rounded(rest.wrapping_mul(power(extra)), divisor);
        let shifted = quotient.checked_mul(power(extra)).ok_or_else(overflow)?;
        Ok(Some(shifted.wrapping_add(fraction)))
    }

    fn told(&self) -> Result<Option<i128>> {
        let Some(variance) = self.variance()? else { return Ok(None) };
        let told = match self.spread {
            Spread::VariancePopulation | Spread::VarianceSample => variance,
            Spread::DeviationPopulation | Spread::DeviationSample => {
                let shifted = variance.checked_mul(power(result_scale(self.scale))).ok_or_else(overflow)?;
                root(shifted)
            }
        };
        let told = told.to_i128().filter(|told| told.unsigned_abs() < 10u128.pow(u32::from(PRECISION)));
        told.map(Some).ok_or_else(overflow)
    }
}

/// The quotient, rounded half away from zero. No operand is negative.
fn rounded(dividend: i256, divisor: i256) -> i256 {
    let (quotient, rest) = (dividend.wrapping_div(divisor), dividend.wrapping_rem(divisor));
    match rest.wrapping_add(rest) >= divisor {
        true => quotient.wrapping_add(i256::ONE),
        false => quotient,
    }
}

/// The square root, rounded.
fn root(square: i256) -> i256 {
    let root = whole_root(square);
    match square.wrapping_sub(root.wrapping_mul(root)) > root {
        true => root.wrapping_add(i256::ONE),
        false => root,
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
        Ok(ScalarValue::Decimal128(self.told()?, PRECISION, result_scale(self.scale)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_rounded_to_the_nearest_integer() {
        for (square, expected) in
            [(0, 0), (1, 1), (2, 1), (3, 2), (6, 2), (7, 3), (10i128.pow(36), 10i128.pow(18))]
        {
            assert_eq!(root(i256::from_i128(square)), i256::from_i128(expected), "{square}");
        }
    }
}
