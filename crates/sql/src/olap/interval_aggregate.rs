//! `sum`, `avg`, `min` and `max` of intervals.
//!
//! Sums add months, days and hours apart, as `+` does; an average divides each of them, as `/` does. The extremes are those of
//! the order that SQL has for intervals, in which a month has 30 days: DataFusion's own compare months first.

use super::arrow::arrow_interval;
use super::error::external;
use ankerdb_engine::{Error, Interval, SqlState, Value};
use datafusion::arrow::array::types::IntervalMonthDayNano;
use datafusion::arrow::array::{ArrayRef, AsArray, PrimitiveArray};
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Field, FieldRef, Int64Type, IntervalMonthDayNanoType, IntervalUnit,
};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::Accumulator;
use datafusion::logical_expr::utils::format_state_name;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

/// The type of intervals.
pub(super) const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

const NANOSECONDS_TYPE: DataType = DataType::Decimal128(38, 0);

/// The accumulator of the sum, or the average, of one group.
pub(super) fn accumulator(is_average: bool, is_distinct: bool) -> Box<dyn Accumulator> {
    match is_distinct {
        true => Box::new(DistinctIntervals { is_average, seen: HashMap::new() }),
        false => Box::new(IntervalSum::new(is_average)),
    }
}

/// What partial sums are kept in: months, days, nanoseconds, and how many intervals; of different ones, these.
pub(super) fn state_fields(name: &str, is_distinct: bool) -> Vec<FieldRef> {
    if is_distinct {
        let list = DataType::new_list(INTERVAL, true);
        return vec![Arc::new(Field::new(format_state_name(name, "distinct"), list, true))];
    }
    let field = |part: &str, data_type| Arc::new(Field::new(format_state_name(name, part), data_type, false));
    vec![
        field("months", DataType::Int64),
        field("days", DataType::Int64),
        field("nanoseconds", NANOSECONDS_TYPE),
        field("count", DataType::Int64),
    ]
}

/// A sum, or an average.
#[derive(Debug, Default)]
pub(super) struct IntervalSum {
    is_average: bool,
    months: i64,
    days: i64,
    nanoseconds: i128,
    count: i64,
}

impl IntervalSum {
    fn new(is_average: bool) -> IntervalSum {
        IntervalSum { is_average, ..IntervalSum::default() }
    }

    /// Adds so many times the interval, which is once or, to take it back, minus once.
    fn add(&mut self, values: &ArrayRef, times: i64) {
        // Parts of 32 bits, and of 64 in 128, do not overflow for fewer than 2^31 intervals at a time.
        for interval in values.as_primitive::<IntervalMonthDayNanoType>().iter().flatten() {
            self.months += i64::from(interval.months) * times;
            self.days += i64::from(interval.days) * times;
            self.nanoseconds += i128::from(interval.nanoseconds) * i128::from(times);
            self.count += times;
        }
    }

    fn total(&self) -> Option<Interval> {
        let microseconds = i64::try_from(self.nanoseconds / 1000).ok()?;
        Some(Interval::new(self.months.try_into().ok()?, self.days.try_into().ok()?, microseconds))
    }
}

fn out_of_range() -> DataFusionError {
    external(Error::new(SqlState::DatetimeFieldOverflow, "interval out of range"))
}

impl Accumulator for IntervalSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(&values[0], 1);
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(&values[0], -1);
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.count == 0 {
            return Ok(ScalarValue::IntervalMonthDayNano(None));
        }
        let total = Value::Interval(self.total().ok_or_else(out_of_range)?);
        let result = match self.is_average {
            true => ankerdb_value::divide(&total, &Value::BigInt(self.count)).map_err(external)?,
            false => total,
        };
        let Value::Interval(interval) = result else { return Err(out_of_range()) };
        Ok(ScalarValue::IntervalMonthDayNano(Some(arrow_interval(interval).map_err(external)?)))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![
            ScalarValue::Int64(Some(self.months)),
            ScalarValue::Int64(Some(self.days)),
            ScalarValue::Decimal128(Some(self.nanoseconds), 38, 0),
            ScalarValue::Int64(Some(self.count)),
        ])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let part = |position: usize, row: usize| states[position].as_primitive::<Int64Type>().value(row);
        let nanoseconds = states[2].as_primitive::<Decimal128Type>();
        for row in 0..nanoseconds.len() {
            self.months += part(0, row);
            self.days += part(1, row);
            self.nanoseconds += nanoseconds.value(row);
            self.count += part(3, row);
        }
        Ok(())
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// The sum of the different intervals of one group. Those that are equal are as long as each other; the first of them counts.
#[derive(Debug)]
struct DistinctIntervals {
    is_average: bool,
    /// By their lengths.
    seen: HashMap<i128, IntervalMonthDayNano>,
}

impl Accumulator for DistinctIntervals {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for interval in values[0].as_primitive::<IntervalMonthDayNanoType>().iter().flatten() {
            self.seen.entry(span(interval)).or_insert(interval);
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let seen: PrimitiveArray<IntervalMonthDayNanoType> = self.seen.values().copied().map(Some).collect();
        let mut sum = IntervalSum::new(self.is_average);
        sum.update_batch(&[Arc::new(seen)])?;
        sum.evaluate()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let seen = self.seen.values().map(|interval| ScalarValue::IntervalMonthDayNano(Some(*interval)));
        let seen = ScalarValue::new_list_nullable(&seen.collect::<Vec<_>>(), &INTERVAL);
        Ok(vec![ScalarValue::List(seen)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        states[0].as_list::<i32>().iter().flatten().try_for_each(|seen| self.update_batch(&[seen]))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.seen.capacity() * size_of::<(i128, IntervalMonthDayNano)>()
    }
}

/// The least or the greatest interval.
#[derive(Debug)]
pub(super) struct IntervalExtreme {
    /// How a value compares that takes the place of the one before.
    wanted: Ordering,
    found: Option<IntervalMonthDayNano>,
}

impl IntervalExtreme {
    pub(super) fn new(wanted: Ordering) -> IntervalExtreme {
        IntervalExtreme { wanted, found: None }
    }
}

fn span(interval: IntervalMonthDayNano) -> i128 {
    let days = i128::from(interval.months) * 30 + i128::from(interval.days);
    days * 86_400_000_000_000 + i128::from(interval.nanoseconds)
}

/// What intervals compare by.
pub(super) fn interval_keys(intervals: &ArrayRef) -> ArrayRef {
    let spans = intervals.as_primitive::<IntervalMonthDayNanoType>().iter();
    Arc::new(spans.map(|interval| interval.map(span)).collect::<PrimitiveArray<Decimal128Type>>())
}

impl Accumulator for IntervalExtreme {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for interval in values[0].as_primitive::<IntervalMonthDayNanoType>().iter().flatten() {
            if self.found.is_none_or(|found| span(interval).cmp(&span(found)) == self.wanted) {
                self.found = Some(interval);
            }
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::IntervalMonthDayNano(self.found))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}
