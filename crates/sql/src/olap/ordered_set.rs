//! `percentile_cont`, `percentile_disc` and `mode`, each with `WITHIN GROUP (ORDER BY ...)`.
//!
//! A group's values are kept and sorted when the result is asked for. DataFusion's `percentile_cont` interpolates with six
//! digits only, and it has no other.

use super::arrow::arrow_interval;
use super::error::external;
use super::interval_aggregate::{INTERVAL, interval_keys};
use super::number_aggregate::{NUMBER, number_keys};
use super::value::sql_type;
use ankerdb_engine::{Error, Interval, SqlState, Value};
use datafusion::arrow::array::types::IntervalMonthDayNano;
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::{SortOptions, concat, sort, sort_to_indices, take};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type, IntervalMonthDayNanoType};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use datafusion::physical_expr::expressions::Literal;
use std::sync::Arc;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Kind {
    Between,
    OneOf,
    Mode,
}

/// All of them, to be registered over DataFusion's.
pub(super) fn functions() -> Vec<Arc<AggregateUDF>> {
    let make = |(name, kind)| {
        let signature = Signature::user_defined(Volatility::Immutable);
        Arc::new(AggregateUDF::new_from_impl(OrderedSet { name, kind, signature }))
    };
    [("percentile_cont", Kind::Between), ("percentile_disc", Kind::OneOf), ("mode", Kind::Mode)]
        .map(make)
        .to_vec()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OrderedSet {
    name: &'static str,
    kind: Kind,
    signature: Signature,
}

impl AggregateUDFImpl for OrderedSet {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// The values, and the fraction but for `mode`.
    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let is_number =
            |data_type: &DataType| data_type.is_numeric() || data_type.is_null() || *data_type == NUMBER;
        match (self.kind, arguments) {
            (Kind::Mode, [values]) => Ok(vec![values.clone()]),
            // Becomes doubles when types are settled.
            (Kind::Between, [NUMBER, fraction]) if is_number(fraction) => Ok(vec![NUMBER, DataType::Float64]),
            (Kind::Between, [values, fraction]) if is_number(values) && is_number(fraction) => {
                Ok(vec![DataType::Float64, DataType::Float64])
            }
            (Kind::Between, [INTERVAL, fraction]) if is_number(fraction) => {
                Ok(vec![INTERVAL, DataType::Float64])
            }
            (Kind::OneOf, [values, fraction]) if is_number(fraction) => {
                Ok(vec![values.clone(), DataType::Float64])
            }
            (_, [_, DataType::List(_)]) => {
                let message = format!("{} with a list of fractions is not supported", self.name);
                Err(external(Error::new(SqlState::FeatureNotSupported, message)))
            }
            _ => {
                let types: Vec<String> =
                    arguments.iter().rev().map(|argument| sql_type(argument).to_string()).collect();
                let message = format!("function {}({}) does not exist", self.name, types.join(", "));
                Err(external(Error::new(SqlState::UndefinedFunction, message)))
            }
        }
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(match (self.kind, &arguments[0]) {
            (Kind::Between, &INTERVAL) => INTERVAL,
            (Kind::Between, _) => DataType::Float64,
            (_, values) => values.clone(),
        })
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let list = DataType::new_list(args.input_fields[0].data_type().clone(), true);
        let fraction = Field::new(format_state_name(args.name, "fraction"), DataType::Float64, true);
        Ok(vec![Arc::new(Field::new(format_state_name(args.name, "values"), list, true)), Arc::new(fraction)])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct {
            let message = "DISTINCT with WITHIN GROUP is not supported";
            return Err(external(Error::new(SqlState::FeatureNotSupported, message)));
        }
        let constant = args.exprs.get(1).and_then(|fraction| fraction.downcast_ref::<Literal>());
        let fraction = match constant.map(Literal::value) {
            Some(ScalarValue::Float64(fraction)) => *fraction,
            _ => None,
        };
        check(fraction)?;
        Ok(Box::new(Sorted {
            kind: self.kind,
            item: args.expr_fields[0].data_type().clone(),
            descending: args.order_bys.first().is_some_and(|order| order.options.descending),
            fraction,
            parts: Vec::new(),
        }))
    }

    fn supports_within_group_clause(&self) -> bool {
        true
    }

    /// The values are sorted here.
    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

fn check(fraction: Option<f64>) -> Result<()> {
    match fraction {
        Some(fraction) if !(0.0..=1.0).contains(&fraction) => {
            let message = format!("percentile value {fraction} is not between 0 and 1");
            Err(external(Error::new(SqlState::NumericValueOutOfRange, message)))
        }
        _ => Ok(()),
    }
}

/// The values of one group.
#[derive(Debug)]
struct Sorted {
    kind: Kind,
    item: DataType,
    descending: bool,
    /// Which of them is asked for.
    fraction: Option<f64>,
    parts: Vec<ArrayRef>,
}

impl Sorted {
    fn note(&mut self, values: &ArrayRef) -> Result<()> {
        if values.len() > values.null_count() {
            let kept = datafusion::arrow::compute::is_not_null(values)?;
            self.parts.push(datafusion::arrow::compute::filter(values, &kept)?);
        }
        Ok(())
    }

    /// All values in order; `None` without any.
    fn sorted(&self) -> Result<Option<ArrayRef>> {
        if self.parts.is_empty() {
            return Ok(None);
        }
        let parts: Vec<&dyn Array> = self.parts.iter().map(AsRef::as_ref).collect();
        let options = SortOptions { descending: self.descending, nulls_first: false };
        let whole = concat(&parts)?;
        let Some(keys) = keys(&whole) else { return Ok(Some(sort(&whole, Some(options))?)) };
        let places = sort_to_indices(&keys, Some(options), None)?;
        Ok(Some(take(&whole, &places, None)?))
    }

    fn told(&self, values: &ArrayRef) -> Result<ScalarValue> {
        let nothing = || ScalarValue::try_from(&self.item);
        match (self.kind, self.fraction) {
            (Kind::Mode, _) => most_frequent(values),
            (_, None) => nothing(),
            (Kind::OneOf, Some(fraction)) => {
                let place = (fraction * values.len() as f64).ceil() as usize;
                ScalarValue::try_from_array(values, place.max(1) - 1)
            }
            (Kind::Between, Some(fraction)) => {
                let place = fraction * (values.len() - 1) as f64;
                let (floor, ceil) = (place.floor() as usize, place.ceil() as usize);
                if self.item == INTERVAL {
                    let values = values.as_primitive::<IntervalMonthDayNanoType>();
                    let (low, high) = (values.value(floor), values.value(ceil));
                    let between = interval_between(low, high, place - place.floor()).map_err(external)?;
                    return Ok(ScalarValue::IntervalMonthDayNano(Some(between)));
                }
                let values = values.as_primitive::<Float64Type>();
                let (low, high) = (values.value(floor), values.value(ceil));
                let between = if place.floor() == place.ceil() {
                    low
                } else {
                    low + (place - place.floor()) * (high - low)
                };
                Ok(ScalarValue::Float64(Some(between)))
            }
        }
    }
}

/// What values compare by that do not as they lie.
fn keys(values: &ArrayRef) -> Option<ArrayRef> {
    match *values.data_type() {
        NUMBER => Some(number_keys(values)),
        INTERVAL => Some(interval_keys(values)),
        _ => None,
    }
}

/// The interval that lies between two by this share of their difference, which is multiplied as `*` does.
fn interval_between(
    low: IntervalMonthDayNano,
    high: IntervalMonthDayNano,
    share: f64,
) -> ankerdb_engine::Result<IntervalMonthDayNano> {
    if share == 0.0 {
        return Ok(low);
    }
    let value = |interval: IntervalMonthDayNano| {
        Value::Interval(Interval::new(interval.months, interval.days, interval.nanoseconds / 1000))
    };
    let difference = ankerdb_value::subtract(&value(high), &value(low))?;
    let part = ankerdb_value::multiply(&difference, &Value::Double(share))?;
    match ankerdb_value::add(&value(low), &part)? {
        Value::Interval(between) => arrow_interval(between),
        other => Err(Error::internal(format!("{other:?} is no interval"))),
    }
}

/// Of equally frequent ones the first.
fn most_frequent(values: &ArrayRef) -> Result<ScalarValue> {
    let compared = keys(values).unwrap_or_else(|| values.clone());
    let ranges = datafusion::arrow::compute::partition(&[compared])?.ranges();
    let longest = ranges.into_iter().rev().max_by_key(ExactSizeIterator::len);
    ScalarValue::try_from_array(values, longest.map_or(0, |range| range.start))
}

impl Accumulator for Sorted {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        if let Some(fractions) = values.get(1)
            && let Some(fraction) = fractions.as_primitive::<Float64Type>().iter().flatten().next()
        {
            check(Some(fraction))?;
            self.fraction = Some(fraction);
        }
        self.note(&values[0])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        match self.sorted()? {
            Some(values) => self.told(&values),
            None => ScalarValue::try_from(&self.item),
        }
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = match self.sorted()? {
            Some(values) => (0..values.len())
                .map(|row| ScalarValue::try_from_array(&values, row))
                .collect::<Result<Vec<_>>>()?,
            None => Vec::new(),
        };
        let list = ScalarValue::List(ScalarValue::new_list_nullable(&values, &self.item));
        Ok(vec![list, ScalarValue::Float64(self.fraction)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let fractions = states[1].as_primitive::<Float64Type>();
        self.fraction = self.fraction.or(fractions.iter().flatten().next());
        for values in states[0].as_list::<i32>().iter().flatten() {
            self.note(&values)?;
        }
        Ok(())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.parts.iter().map(|part| part.get_array_memory_size()).sum::<usize>()
    }
}
