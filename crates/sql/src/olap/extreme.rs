//! `min` and `max` of doubles and reals by PostgreSQL's order, in which NaN is greater than all numbers.
//!
//! For groups DataFusion begins with the largest finite number and takes what compares as less *or not at all*: behind a NaN it
//! forgets what it has seen, and a group of infinities is told as 3.4e38. Here groups begin with nothing. Without groups, and
//! for all other types, its own functions are right and are called.

use super::aggregate::counted_rows;
use super::interval_aggregate::{INTERVAL, IntervalExtreme};
use super::list_order::{ListExtreme, is_keyed};
use super::number_aggregate::{NUMBER, NumberExtreme};
use super::value::{told_type, with_type};
use ankerdb_engine::DataType;
use datafusion::arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray};
use datafusion::arrow::datatypes::{DataType as ArrowType, FieldRef, Float32Type, Float64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF, SetMonotonicity,
    Signature, StatisticsArgs,
};
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// `min` and `max`, to be registered over DataFusion's.
pub(crate) fn functions() -> Vec<Arc<AggregateUDF>> {
    let make = |stock, wanted| Arc::new(AggregateUDF::new_from_impl(Extreme { stock, wanted }));
    vec![make(min_udaf(), Ordering::Less), make(max_udaf(), Ordering::Greater)]
}

#[derive(Debug)]
struct Extreme {
    /// DataFusion's function.
    stock: Arc<AggregateUDF>,
    /// How a value compares that takes the place of the one before.
    wanted: Ordering,
}

impl PartialEq for Extreme {
    fn eq(&self, other: &Extreme) -> bool {
        self.wanted == other.wanted
    }
}
impl Eq for Extreme {}
impl Hash for Extreme {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.wanted.hash(state);
    }
}

impl AggregateUDFImpl for Extreme {
    fn name(&self) -> &str {
        self.stock.name()
    }

    fn signature(&self) -> &Signature {
        self.stock.signature()
    }

    fn coerce_types(&self, arguments: &[ArrowType]) -> Result<Vec<ArrowType>> {
        self.stock.inner().coerce_types(arguments)
    }

    fn return_type(&self, arguments: &[ArrowType]) -> Result<ArrowType> {
        self.stock.inner().return_type(arguments)
    }

    fn return_field(&self, arguments: &[FieldRef]) -> Result<FieldRef> {
        let field = self.stock.inner().return_field(arguments)?;
        // The greatest `varchar` and `name` are texts.
        Ok(match arguments.first().and_then(|argument| told_type(argument)) {
            Some(kept @ DataType::Char(_)) => Arc::new(with_type(field.as_ref().clone(), kept)),
            Some(kept @ DataType::System(system)) if system.is_number() => {
                Arc::new(with_type(field.as_ref().clone(), kept))
            }
            _ => field,
        })
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.stock.state_fields(args)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match args.return_field.data_type() {
            data_type if *data_type == INTERVAL => Ok(Box::new(IntervalExtreme::new(self.wanted))),
            data_type if *data_type == NUMBER => Ok(Box::new(NumberExtreme::new(self.wanted))),
            data_type if is_keyed(data_type) => Ok(Box::new(ListExtreme::new(self.wanted, data_type))),
            _ => self.stock.accumulator(args),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match args.return_field.data_type() {
            data_type if is_own(data_type) => self.accumulator(args),
            _ => self.stock.create_sliding_accumulator(args),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        let data_type = args.return_field.data_type();
        !is_own(data_type) && self.stock.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        match args.return_field.data_type() {
            ArrowType::Float32 => Ok(Box::new(Groups::<Float32Type>::new(self.wanted))),
            ArrowType::Float64 => Ok(Box::new(Groups::<Float64Type>::new(self.wanted))),
            _ => self.stock.create_groups_accumulator(args),
        }
    }

    fn is_descending(&self) -> Option<bool> {
        self.stock.inner().is_descending()
    }

    fn value_from_stats(&self, statistics: &StatisticsArgs) -> Option<ScalarValue> {
        self.stock.inner().value_from_stats(statistics)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn set_monotonicity(&self, data_type: &ArrowType) -> SetMonotonicity {
        self.stock.inner().set_monotonicity(data_type)
    }
}

/// Whether values of the type do not compare as they lie.
fn is_own(data_type: &ArrowType) -> bool {
    *data_type == INTERVAL || *data_type == NUMBER || is_keyed(data_type)
}

/// The extreme of each group; `None` while it has none.
struct Groups<T: ArrowPrimitiveType> {
    wanted: Ordering,
    found: Vec<Option<T::Native>>,
}

impl<T: ArrowPrimitiveType<Native: Into<f64>>> Groups<T> {
    fn new(wanted: Ordering) -> Groups<T> {
        Groups { wanted, found: Vec::new() }
    }

    fn note(&mut self, group: usize, value: T::Native) {
        let found = &mut self.found[group];
        if found.is_none_or(|found| order(value.into(), found.into()) == self.wanted) {
            *found = Some(value);
        }
    }

    fn take(&mut self, emit_to: EmitTo) -> ArrayRef {
        Arc::new(emit_to.take_needed(&mut self.found).into_iter().collect::<PrimitiveArray<T>>())
    }
}

/// PostgreSQL's: every NaN is the same and greater than all numbers, zeros of both signs are equal.
fn order(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or_else(|| left.is_nan().cmp(&right.is_nan()))
}

impl<T: ArrowPrimitiveType<Native: Into<f64>>> GroupsAccumulator for Groups<T> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        group_count: usize,
    ) -> Result<()> {
        self.found.resize(group_count, None);
        let array = values[0].as_primitive::<T>();
        let rows = counted_rows(&values[0], filter);
        for (row, &group) in groups.iter().enumerate() {
            if rows.as_ref().is_none_or(|rows| rows.is_valid(row)) {
                self.note(group, array.value(row));
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
        let array = values[0].as_primitive::<T>();
        let rows = counted_rows(&values[0], filter);
        let counted = |row: usize| rows.as_ref().is_none_or(|rows| rows.is_valid(row));
        let states = (0..array.len()).map(|row| counted(row).then(|| array.value(row)));
        Ok(vec![Arc::new(states.collect::<PrimitiveArray<T>>())])
    }

    fn size(&self) -> usize {
        self.found.capacity() * size_of::<Option<T::Native>>()
    }
}
