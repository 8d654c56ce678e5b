//! `sum`, `avg`, `min`, `max`, variances and deviations of numerics of any length.
//!
//! Sums are exact whatever their length; the rest of the arithmetic is in `ankerdb_value`.

use super::error::external;
use super::exact_spread::Spread;
use crate::columns::number_text;
use ankerdb_engine::Error;
use ankerdb_value::{Number, NumberSum, compare_numbers, push_number_key};
use datafusion::arrow::array::{ArrayRef, AsArray, BinaryArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature};
use std::cmp::Ordering;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// The type of numerics of any length.
pub(super) const NUMBER: DataType = DataType::LargeBinary;

/// What is told of the numbers of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Told {
    Sum,
    Average,
    Spread(Spread),
}

/// What partial results are kept in.
pub(super) fn state_fields(name: &str, is_distinct: bool) -> Vec<FieldRef> {
    vec![Arc::new(match is_distinct {
        true => Field::new(format_state_name(name, "distinct"), DataType::new_list(NUMBER, true), true),
        false => Field::new(format_state_name(name, "sums"), DataType::Binary, true),
    })]
}

/// The accumulator of one group.
pub(super) fn accumulator(told: Told, is_distinct: bool) -> Box<dyn Accumulator> {
    match is_distinct {
        true => Box::new(Distinct { told, seen: HashMap::new() }),
        false => Box::new(Sums { told, sum: sum_for(told), kept: None }),
    }
}

/// The accumulator of a frame that moves.
pub(super) fn sliding(told: Told) -> Box<dyn Accumulator> {
    Box::new(Sums { told, sum: sum_for(told), kept: Some(VecDeque::new()) })
}

/// Squares are summed where they are asked for.
fn sum_for(told: Told) -> NumberSum {
    NumberSum::new(matches!(told, Told::Spread(_)))
}

/// Whether values are numerics of any length.
pub(super) fn is_number(field: &Field) -> bool {
    *field.data_type() == NUMBER
}

/// What the numbers are ordered by.
pub(super) fn number_keys(numbers: &ArrayRef) -> ArrayRef {
    let key = |bytes: &[u8]| {
        let mut key = Vec::new();
        push_number_key(number_text(bytes), &mut key);
        key
    };
    Arc::new(BinaryArray::from_iter(numbers.as_binary::<i64>().iter().map(|bytes| bytes.map(key))))
}

/// The aggregate over different values. Plans group by what DISTINCT is said of, and these do not differ as they lie.
pub(super) fn of_distinct(function: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::new_from_impl(OfDistinct(function)))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfDistinct(Arc<AggregateUDF>);

impl AggregateUDFImpl for OfDistinct {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.0.coerce_types(arguments)
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.0.return_type(arguments)
    }

    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.0.state_fields(StateFieldsArgs { is_distinct: true, ..arguments })
    }

    fn accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.0.accumulator(AccumulatorArgs { is_distinct: true, ..arguments })
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

fn texts(values: &ArrayRef) -> impl Iterator<Item = &str> {
    values.as_binary::<i64>().iter().flatten().map(number_text)
}

fn scalar(number: Option<&Number>) -> ScalarValue {
    ScalarValue::LargeBinary(number.map(|number| number.to_string().into_bytes()))
}

fn evaluated(told: Told, sum: &NumberSum) -> Result<ScalarValue> {
    let number = match told {
        Told::Sum => sum.sum(),
        Told::Average => sum.average(),
        Told::Spread(spread) => sum.spread(spread_of(spread)),
    };
    Ok(scalar(number.map_err(external)?.as_ref()))
}

/// A variance or deviation of numbers that were summed up with their squares.
pub(super) fn spread(spread: Spread, sum: &NumberSum) -> Result<ScalarValue> {
    evaluated(Told::Spread(spread), sum)
}

fn spread_of(spread: Spread) -> ankerdb_value::Spread {
    ankerdb_value::Spread {
        is_sample: matches!(spread, Spread::VarianceSample | Spread::DeviationSample),
        is_deviation: matches!(spread, Spread::DeviationPopulation | Spread::DeviationSample),
    }
}

/// The sums of one group.
#[derive(Debug)]
struct Sums {
    told: Told,
    sum: NumberSum,
    /// The numbers, from the oldest on, where they leave again: the scale of a sum is that of the numbers left.
    kept: Option<VecDeque<String>>,
}

impl Accumulator for Sums {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for text in texts(&values[0]) {
            self.sum.add(&Number::read(text));
            if let Some(kept) = &mut self.kept {
                kept.push_back(text.to_owned());
            }
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let mut is_whole = true;
        for text in texts(&values[0]) {
            is_whole = self.sum.remove(&Number::read(text)) && is_whole;
            if let Some(kept) = &mut self.kept {
                kept.pop_front();
            }
        }
        if !is_whole {
            self.sum = sum_for(self.told);
            let kept = self.kept.iter().flatten();
            kept.for_each(|text| self.sum.add(&Number::read(text)));
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        self.kept.is_some()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        evaluated(self.told, &self.sum)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::Binary(Some(self.sum.to_bytes()))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for bytes in states[0].as_binary::<i32>().iter().flatten() {
            let other = NumberSum::from_bytes(bytes);
            self.sum.merge(&other.ok_or_else(|| external(Error::internal("no sum of numerics")))?);
        }
        Ok(())
    }

    fn size(&self) -> usize {
        let kept = self.kept.iter().flatten().map(|text| size_of::<String>() + text.capacity());
        size_of_val(self) + self.sum.size() + kept.sum::<usize>()
    }
}

/// The different numbers of one group: those of a value differ in their fractional digits only, and the first one counts.
#[derive(Debug)]
struct Distinct {
    told: Told,
    /// By their keys.
    seen: HashMap<Vec<u8>, String>,
}

impl Distinct {
    fn note(&mut self, values: &ArrayRef) {
        for text in texts(values) {
            let mut key = Vec::new();
            push_number_key(text, &mut key);
            self.seen.entry(key).or_insert_with(|| text.to_owned());
        }
    }
}

impl Accumulator for Distinct {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.note(&values[0]);
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut sum = sum_for(self.told);
        for text in self.seen.values() {
            sum.add(&Number::read(text));
        }
        evaluated(self.told, &sum)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values: Vec<ScalarValue> = self
            .seen
            .values()
            .map(|text| ScalarValue::LargeBinary(Some(text.clone().into_bytes())))
            .collect();
        Ok(vec![ScalarValue::List(ScalarValue::new_list_nullable(&values, &NUMBER))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for list in states[0].as_list::<i32>().iter().flatten() {
            self.note(&list);
        }
        Ok(())
    }

    fn size(&self) -> usize {
        let texts: usize = self.seen.iter().map(|(key, text)| key.capacity() + text.capacity()).sum();
        size_of_val(self) + self.seen.capacity() * size_of::<(Vec<u8>, String)>() + texts
    }
}

/// The least or the greatest number.
#[derive(Debug)]
pub(super) struct NumberExtreme {
    /// How a number compares that takes the place of the one before.
    wanted: Ordering,
    found: Option<String>,
}

impl NumberExtreme {
    pub(super) fn new(wanted: Ordering) -> NumberExtreme {
        NumberExtreme { wanted, found: None }
    }
}

impl Accumulator for NumberExtreme {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for text in texts(&values[0]) {
            if self.found.as_deref().is_none_or(|found| compare_numbers(text, found) == self.wanted) {
                self.found = Some(text.to_owned());
            }
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::LargeBinary(self.found.as_ref().map(|text| text.clone().into_bytes())))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.found.as_ref().map_or(0, String::capacity)
    }
}
