//! `percentile_cont`, `percentile_disc` and `mode`, each with `WITHIN GROUP (ORDER BY ...)`.
//!
//! The values of all groups are kept together and sorted when the results are asked for ([`KeptRows`]). DataFusion's `percentile_cont`
//! interpolates with six digits only, and it has no other.

use super::arrow::arrow_interval;
use super::cooperate::ended;
use super::error::external;
use super::interval_aggregate::{INTERVAL, interval_keys};
use super::kept_rows::{KeptRows, Ordered, RowShape, groups_of_items, items, single_lists};
use super::number_aggregate::{NUMBER, number_keys};
use super::value::sql_type;
use ankerdb_engine::{Error, Interval, SqlState, Value};
use datafusion::arrow::array::types::IntervalMonthDayNano;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, IntervalMonthDayNanoArray, UInt32Array,
    new_empty_array,
};
use datafusion::arrow::compute::{SortOptions, and_kleene, filter, is_not_null, partition, take};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type, IntervalMonthDayNanoType};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};
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
        Ok(Box::new(OneGroup(self.values(&args)?)))
    }

    fn groups_accumulator_supported(&self, _args: AccumulatorArgs) -> bool {
        true
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(self.values(&args)?))
    }

    fn supports_within_group_clause(&self) -> bool {
        true
    }

    /// The values are sorted here.
    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

impl OrderedSet {
    /// No values yet.
    fn values(&self, args: &AccumulatorArgs) -> Result<OrderedValues> {
        if args.is_distinct {
            let message = "DISTINCT with WITHIN GROUP is not supported";
            return Err(external(Error::new(SqlState::FeatureNotSupported, message)));
        }
        let literal = args.exprs.get(1).and_then(|fraction| fraction.downcast_ref::<Literal>());
        let constant = match literal.map(Literal::value) {
            Some(ScalarValue::Float64(fraction)) => *fraction,
            _ => None,
        };
        check(constant)?;
        let item = args.expr_fields[0].data_type().clone();
        let descending = args.order_bys.first().is_some_and(|order| order.options.descending);
        let order = SortOptions { descending, nulls_first: false };
        // The keys are columns of their own where values do not compare as they lie.
        let key = keys(&new_empty_array(&item)).map(|keys| keys.data_type().clone());
        let (own, key) = match key {
            Some(key) => (vec![item.clone()], key),
            None => (Vec::new(), item.clone()),
        };
        let shape = RowShape { own, keys: vec![(key, order)], is_distinct: false, is_stable: false };
        let end = args.exprs.iter().find_map(|argument| ended(argument).0.cloned());
        let rows = KeptRows::new(shape, end);
        Ok(OrderedValues { kind: self.kind, rows, constant, fractions: Vec::new() })
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

/// The values of all groups.
#[derive(Debug)]
struct OrderedValues {
    kind: Kind,
    rows: KeptRows,
    /// Which of them is asked for, if it is a constant.
    constant: Option<f64>,
    /// Else for each group what its first row said.
    fractions: Vec<Option<f64>>,
}

impl OrderedValues {
    fn grow(&mut self, count: usize) -> Result<()> {
        self.rows.count_groups(count)?;
        self.fractions.resize(self.fractions.len().max(count), None);
        Ok(())
    }

    /// Keeps the values that are not NULL, each of the group that is named for it.
    fn note(&mut self, values: &[ArrayRef], groups: &[usize]) -> Result<()> {
        if let Some(fractions) = values.get(1).filter(|_| self.constant.is_none()) {
            self.note_fractions(fractions, groups)?;
        }
        let values = &values[0];
        if values.null_count() == 0 {
            return self.rows.keep(&columns(values.clone()), groups.iter().copied());
        }
        let kept = filter(values, &is_not_null(values)?)?;
        let valid = groups.iter().enumerate().filter(|(row, _)| values.is_valid(*row));
        self.rows.keep(&columns(kept), valid.map(|(_, group)| *group))
    }

    fn note_fractions(&mut self, fractions: &ArrayRef, groups: &[usize]) -> Result<()> {
        for (fraction, group) in fractions.as_primitive::<Float64Type>().iter().zip(groups) {
            if fraction.is_some() && self.fractions[*group].is_none() {
                check(fraction)?;
                self.fractions[*group] = fraction;
            }
        }
        Ok(())
    }

    /// The fractions of the first groups, which are forgotten.
    fn taken_fractions(&mut self, groups: usize) -> Vec<Option<f64>> {
        let taken = self.fractions.drain(..groups);
        taken.map(|fraction| fraction.or(self.constant)).collect()
    }

    /// The results of the first groups, which are forgotten.
    fn results(&mut self, groups: usize) -> Result<ArrayRef> {
        let fractions = self.taken_fractions(groups);
        let Ordered { columns, places, bounds } = self.rows.ordered(groups)?;
        let values = &columns[0];
        let rows = |group: usize| bounds[group] as usize..bounds[group + 1] as usize;
        let place = |group: usize, number: usize| places[rows(group).start + number];
        // The group, how many values it has, and the fraction.
        let asked = fractions.into_iter().enumerate().map(|(group, fraction)| {
            let count = rows(group).len();
            fraction.filter(|_| count > 0).map(|fraction| (group, count, fraction))
        });
        match self.kind {
            Kind::Mode => {
                let compared =
                    take(columns.last().unwrap_or(values), &UInt32Array::from(places.clone()), None)?;
                let most = most_frequent(&compared, &bounds[..=groups])?;
                let most = most.into_iter().map(|at| at.map(|at| places[at]));
                Ok(take(values, &most.collect::<UInt32Array>(), None)?)
            }
            Kind::OneOf => {
                let number =
                    |count: usize, fraction: f64| (fraction * count as f64).ceil().max(1.0) as usize - 1;
                let places = asked
                    .map(|asked| asked.map(|(group, count, fraction)| place(group, number(count, fraction))));
                Ok(take(values, &places.collect::<UInt32Array>(), None)?)
            }
            Kind::Between => {
                let between = asked.map(|asked| {
                    asked.map(|(group, count, fraction)| {
                        let number = fraction * (count - 1) as f64;
                        let (floor, ceil) = (number.floor(), number.ceil());
                        (place(group, floor as usize), place(group, ceil as usize), number - floor)
                    })
                });
                interpolated(values, between)
            }
        }
    }

    fn emitted(&self, emit_to: EmitTo) -> usize {
        match emit_to {
            EmitTo::All => self.rows.group_count(),
            EmitTo::First(groups) => groups,
        }
    }
}

/// What is kept of values: themselves, and behind them what they compare by if they do not as they lie.
fn columns(values: ArrayRef) -> Vec<ArrayRef> {
    let keys = keys(&values);
    std::iter::once(values).chain(keys).collect()
}

/// What lies between two values each, by this share of their difference.
fn interpolated(
    values: &ArrayRef,
    between: impl Iterator<Item = Option<(u32, u32, f64)>>,
) -> Result<ArrayRef> {
    if *values.data_type() == INTERVAL {
        let values = values.as_primitive::<IntervalMonthDayNanoType>();
        let between = between.map(|between| {
            between
                .map(|(low, high, share)| {
                    interval_between(values.value(low as usize), values.value(high as usize), share)
                })
                .transpose()
        });
        let between: IntervalMonthDayNanoArray =
            between.collect::<ankerdb_engine::Result<_>>().map_err(external)?;
        return Ok(Arc::new(between));
    }
    let values = values.as_primitive::<Float64Type>();
    let between = between.map(|between| {
        between.map(|(low, high, share)| {
            let (low, high) = (values.value(low as usize), values.value(high as usize));
            if share == 0.0 { low } else { low + share * (high - low) }
        })
    });
    Ok(Arc::new(between.collect::<Float64Array>()))
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

/// Of each group, whose rows in order lie between two bounds, the place of the first of its most frequent values.
fn most_frequent(compared: &ArrayRef, bounds: &[u32]) -> Result<Vec<Option<usize>>> {
    let mut runs = partition(std::slice::from_ref(compared))?.ranges().into_iter().peekable();
    let mut most = Vec::with_capacity(bounds.len().saturating_sub(1));
    for bound in bounds.windows(2) {
        let rows = bound[0] as usize..bound[1] as usize;
        let mut longest = rows.start..rows.start;
        // A run may begin in a group before, and reach into one behind.
        while let Some(run) = runs.peek().filter(|run| run.start < rows.end) {
            let own = run.start.max(rows.start)..run.end.min(rows.end);
            if own.len() > longest.len() {
                longest = own;
            }
            if run.end > rows.end {
                break;
            }
            runs.next();
        }
        most.push((!rows.is_empty()).then_some(longest.start));
    }
    Ok(most)
}

impl GroupsAccumulator for OrderedValues {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        rows: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.grow(count)?;
        let Some(rows) = rows else { return self.note(values, groups) };
        let values =
            values.iter().map(|column| filter(column, rows)).collect::<std::result::Result<Vec<_>, _>>()?;
        let stay = groups.iter().zip(rows).filter_map(|(group, stays)| stays?.then_some(*group));
        self.note(&values, &stay.collect::<Vec<_>>())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        self.results(self.emitted(emit_to))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let groups = self.emitted(emit_to);
        let fractions = Float64Array::from(self.taken_fractions(groups));
        let mut lists = self.rows.lists(groups)?;
        lists.truncate(1);
        lists.push(Arc::new(fractions));
        Ok(lists)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.grow(count)?;
        self.note_fractions(&states[1], groups)?;
        let lists = states[0].as_list();
        self.rows.keep(&columns(items(lists)?), groups_of_items(lists, groups))
    }

    fn convert_to_state(&self, values: &[ArrayRef], rows: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let kept = is_not_null(&values[0])?;
        let kept = match rows {
            Some(rows) => and_kleene(&kept, rows)?,
            None => kept,
        };
        let mut states = single_lists(&values[..1], Some(&kept))?;
        let constant = || Arc::new(Float64Array::from(vec![self.constant; kept.len()])) as ArrayRef;
        states.push(values.get(1).filter(|_| self.constant.is_none()).cloned().unwrap_or_else(constant));
        Ok(states)
    }

    fn size(&self) -> usize {
        size_of::<OrderedValues>() + self.rows.size() + self.fractions.capacity() * size_of::<Option<f64>>()
    }
}

/// The one group of a query that does not group.
#[derive(Debug)]
struct OneGroup(OrderedValues);

impl Accumulator for OneGroup {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        GroupsAccumulator::update_batch(&mut self.0, values, &vec![0; values[0].len()], None, 1)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.0.grow(1)?;
        ScalarValue::try_from_array(&self.0.results(1)?, 0)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.grow(1)?;
        let states = GroupsAccumulator::state(&mut self.0, EmitTo::All)?;
        states.iter().map(|state| ScalarValue::try_from_array(state, 0)).collect()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        GroupsAccumulator::merge_batch(&mut self.0, states, &vec![0; states[0].len()], 1)
    }

    fn size(&self) -> usize {
        size_of::<OneGroup>() + GroupsAccumulator::size(&self.0)
    }
}
