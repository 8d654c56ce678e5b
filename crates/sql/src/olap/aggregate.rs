//! `sum` and `avg` over integers and numerics, exact as in PostgreSQL.
//!
//! Where these differ from DataFusion's own: a sum never wraps around (it fails with 22003), the sum of
//! bigints is a numeric, the average of integers and numerics is a numeric with 16 fractional digits or the
//! argument's where those are more (PostgreSQL shows about 16 significant ones), and narrow numerics are read
//! as they are stored. Intervals are in `interval_aggregate`, sums of reals in `real_sums`; all other types go to DataFusion's
//! functions, doubles looked at for overflow (`finite_sums`).
//!
//! The state is a 128-bit sum in the argument's scale and a count of values, for each group; both are the same
//! whether the argument was narrow or wide, which `narrow.rs` relies on.

use super::error::external;
use super::finite_sums;
use super::interval_aggregate::{self, INTERVAL};
use super::number_aggregate::{self, NUMBER, Told};
use super::real_sums;
use ankerdb_engine::{Error, SqlState};
use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, Decimal128Array, Int64Array, PrimitiveArray,
};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{
    DataType, Decimal32Type, Decimal64Type, Decimal128Type, Field, FieldRef, Int8Type, Int16Type, Int32Type,
    Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::functions_aggregate::{average::avg_udaf, sum::sum_udaf};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF, Signature,
    Volatility,
};
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Digits of the widest numeric.
const MAX_PRECISION: u8 = 38;
/// Fractional digits of an average, at least.
const AVERAGE_SCALE: i8 = 16;

/// `sum` and `avg`, to be registered over DataFusion's.
pub(crate) fn functions() -> Vec<Arc<AggregateUDF>> {
    let make = |kind, stock| Arc::new(AggregateUDF::new_from_impl(ExactAggregate::new(kind, stock)));
    vec![make(ExactKind::Sum, sum_udaf()), make(ExactKind::Average, avg_udaf())]
}

/// Whether the function is one of these, and so reads narrow numerics.
pub(crate) fn reads_narrow(function: &AggregateUDF) -> bool {
    function.inner().downcast_ref::<ExactAggregate>().is_some()
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum ExactKind {
    Sum,
    Average,
}

#[derive(Debug)]
struct ExactAggregate {
    kind: ExactKind,
    /// DataFusion's function for the types that are not ours.
    stock: Arc<AggregateUDF>,
    signature: Signature,
}

impl PartialEq for ExactAggregate {
    fn eq(&self, other: &ExactAggregate) -> bool {
        self.kind == other.kind
    }
}
impl Eq for ExactAggregate {}
impl Hash for ExactAggregate {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.kind.hash(state);
    }
}

impl ExactAggregate {
    fn new(kind: ExactKind, stock: Arc<AggregateUDF>) -> ExactAggregate {
        ExactAggregate { kind, stock, signature: Signature::user_defined(Volatility::Immutable) }
    }

    /// What is told of numerics of any length.
    fn told(&self) -> Told {
        match self.kind {
            ExactKind::Sum => Told::Sum,
            ExactKind::Average => Told::Average,
        }
    }

    /// Whether it adds up reals. Their average is that of doubles.
    fn adds_reals(&self, argument: &DataType) -> bool {
        self.kind == ExactKind::Sum && *argument == DataType::Float32
    }

    /// What the aggregate does with arguments of this type; `None` if DataFusion's function does it.
    fn shape(&self, argument: &DataType) -> Option<Shape> {
        let (scale, small) = match argument {
            DataType::Int8 | DataType::Int16 | DataType::Int32 => (0, true),
            DataType::UInt8 | DataType::UInt16 | DataType::UInt32 => (0, true),
            DataType::Int64 | DataType::UInt64 => (0, false),
            DataType::Decimal32(_, scale)
            | DataType::Decimal64(_, scale)
            | DataType::Decimal128(_, scale)
                if *scale >= 0 =>
            {
                (*scale, false)
            }
            _ => return None,
        };
        let result = match self.kind {
            ExactKind::Sum if small => DataType::Int64,
            ExactKind::Sum => DataType::Decimal128(MAX_PRECISION, scale),
            ExactKind::Average => DataType::Decimal128(MAX_PRECISION, scale.max(AVERAGE_SCALE)),
        };
        Some(Shape { kind: self.kind, scale, result })
    }
}

/// The types of one use of the aggregate.
#[derive(Clone, Debug)]
struct Shape {
    kind: ExactKind,
    /// Scale of argument and sum.
    scale: i8,
    result: DataType,
}

impl Shape {
    /// The result from the final state, as the unscaled number of the result type.
    fn finish(&self, state: &State) -> Result<Option<i128>> {
        if state.count == 0 {
            return Ok(None);
        }
        let (value, limit) = match (self.kind, &self.result) {
            (ExactKind::Sum, DataType::Int64) => {
                return match i64::try_from(state.sum) {
                    Ok(_) => Ok(Some(state.sum)),
                    Err(_) => Err(out_of_range("bigint out of range")),
                };
            }
            (ExactKind::Sum, _) => (Some(state.sum), 10i128.pow(MAX_PRECISION as u32)),
            (ExactKind::Average, _) => (self.average(state), 10i128.pow(MAX_PRECISION as u32)),
        };
        match value.filter(|value| value.unsigned_abs() < limit.unsigned_abs()) {
            Some(value) => Ok(Some(value)),
            None => Err(out_of_range("value overflows numeric format")),
        }
    }

    /// sum / count in the result's scale, half away from zero; `None` if it does not fit.
    fn average(&self, state: &State) -> Option<i128> {
        let extra = 10i128.pow((self.scale.max(AVERAGE_SCALE) - self.scale) as u32);
        let count = i128::from(state.count);
        let (whole, rest) = (state.sum / count, state.sum % count);
        // |rest| < count < 2^63 and extra <= 10^16, so the product fits.
        let scaled_rest = rest * extra;
        let (mut fraction, remainder) = (scaled_rest / count, scaled_rest % count);
        if remainder.abs() * 2 >= count {
            fraction += remainder.signum();
        }
        whole.checked_mul(extra)?.checked_add(fraction)
    }

    fn scalar(&self, value: Option<i128>) -> ScalarValue {
        match self.result {
            DataType::Decimal128(precision, scale) => ScalarValue::Decimal128(value, precision, scale),
            _ => ScalarValue::Int64(value.map(|value| value as i64)),
        }
    }

    fn sum_type(&self) -> DataType {
        DataType::Decimal128(MAX_PRECISION, self.scale)
    }

    fn sums(&self, values: impl Iterator<Item = Option<i128>>) -> Result<Decimal128Array> {
        let array: Decimal128Array = values.collect();
        Ok(array.with_precision_and_scale(MAX_PRECISION, self.scale)?)
    }
}

pub(super) fn out_of_range(message: &'static str) -> DataFusionError {
    external(Error::new(SqlState::NumericValueOutOfRange, message))
}

impl AggregateUDFImpl for ExactAggregate {
    fn name(&self) -> &str {
        match self.kind {
            ExactKind::Sum => "sum",
            ExactKind::Average => "avg",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let [argument] = arguments else {
            let message = format!("function {} takes one argument", self.name());
            return Err(external(Error::new(SqlState::UndefinedFunction, message)));
        };
        let accepted = match argument {
            exact if self.shape(exact).is_some() => exact.clone(),
            DataType::Null => DataType::Int64,
            real if self.adds_reals(real) => DataType::Float32,
            DataType::Float16 | DataType::Float32 | DataType::Float64 => DataType::Float64,
            DataType::Decimal256(..) | DataType::Duration(_) => argument.clone(),
            DataType::Interval(_) => INTERVAL,
            // Added up as the interval since midnight, which `typing` makes of it.
            DataType::Time64(_) => argument.clone(),
            DataType::LargeBinary => NUMBER,
            DataType::Dictionary(_, value) => return self.coerce_types(&[value.as_ref().clone()]),
            // Types of operands are settled later (`written`), and what is refused then is refused by `typing::taken`.
            other => other.clone(),
        };
        Ok(vec![accepted])
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match self.shape(&arguments[0]) {
            Some(shape) => Ok(shape.result),
            None if arguments[0] == INTERVAL || matches!(arguments[0], DataType::Time64(_)) => Ok(INTERVAL),
            None if arguments[0] == NUMBER => Ok(NUMBER),
            None if self.adds_reals(&arguments[0]) => Ok(DataType::Float32),
            None => Ok(self.stock.inner().return_type(arguments).unwrap_or_else(|_| arguments[0].clone())),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let Some(shape) = self.shape(args.input_fields[0].data_type()) else {
            if *args.input_fields[0].data_type() == INTERVAL {
                return Ok(interval_aggregate::state_fields(args.name, args.is_distinct));
            }
            if *args.input_fields[0].data_type() == NUMBER {
                return Ok(number_aggregate::state_fields(args.name, args.is_distinct));
            }
            if self.adds_reals(args.input_fields[0].data_type()) {
                return Ok(real_sums::state_fields(args.name, args.is_distinct));
            }
            return self.stock.state_fields(args);
        };
        if args.is_distinct {
            let item = Field::new_list_field(shape.sum_type(), true);
            return Ok(vec![Arc::new(Field::new_list(
                format_state_name(args.name, "distinct"),
                item,
                false,
            ))]);
        }
        Ok(vec![
            Arc::new(Field::new(format_state_name(args.name, "sum"), shape.sum_type(), true)),
            Arc::new(Field::new(format_state_name(args.name, "count"), DataType::Int64, false)),
        ])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match self.shape(args.expr_fields[0].data_type()) {
            None if *args.expr_fields[0].data_type() == INTERVAL => {
                Ok(interval_aggregate::accumulator(self.kind == ExactKind::Average, args.is_distinct))
            }
            None if *args.expr_fields[0].data_type() == NUMBER => {
                Ok(number_aggregate::accumulator(self.told(), args.is_distinct))
            }
            None if *args.expr_fields[0].data_type() == DataType::Float64 => {
                Ok(finite_sums::single(self.stock.accumulator(args)?))
            }
            None if self.adds_reals(args.expr_fields[0].data_type()) => {
                Ok(real_sums::single(args.is_distinct))
            }
            None => self.stock.accumulator(args),
            Some(shape) if args.is_distinct => {
                Ok(Box::new(DistinctAccumulator { shape, seen: HashSet::new() }))
            }
            Some(shape) => Ok(Box::new(ExactAccumulator { shape, state: State::default() })),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match self.shape(args.expr_fields[0].data_type()) {
            None if *args.expr_fields[0].data_type() == NUMBER && !args.is_distinct => {
                Ok(number_aggregate::sliding(self.told()))
            }
            None if is_ours(args.expr_fields[0].data_type()) => self.accumulator(args),
            None if self.adds_reals(args.expr_fields[0].data_type()) => self.accumulator(args),
            None if *args.expr_fields[0].data_type() == DataType::Float64 => {
                Ok(finite_sums::single(self.stock.create_sliding_accumulator(args)?))
            }
            None => self.stock.create_sliding_accumulator(args),
            Some(_) => self.accumulator(args),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        match self.shape(args.expr_fields[0].data_type()) {
            None if is_ours(args.expr_fields[0].data_type()) => false,
            None if self.adds_reals(args.expr_fields[0].data_type()) => !args.is_distinct,
            None => self.stock.groups_accumulator_supported(args),
            Some(_) => !args.is_distinct,
        }
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        match self.shape(args.expr_fields[0].data_type()) {
            None if *args.expr_fields[0].data_type() == DataType::Float64 => {
                Ok(finite_sums::grouped(self.stock.create_groups_accumulator(args)?))
            }
            None if self.adds_reals(args.expr_fields[0].data_type()) => Ok(real_sums::grouped()),
            None => self.stock.create_groups_accumulator(args),
            Some(shape) => Ok(Box::new(ExactGroups { shape, groups: Vec::new() })),
        }
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// Whether sums of the type are kept elsewhere here.
fn is_ours(argument: &DataType) -> bool {
    *argument == INTERVAL || *argument == NUMBER
}

/// Sum and count of one group.
#[derive(Clone, Copy, Default, Debug)]
struct State {
    sum: i128,
    count: i64,
}

impl State {
    fn add(&mut self, sum: i128, count: i64) -> Result<()> {
        self.sum = self.sum.checked_add(sum).ok_or_else(|| out_of_range("value overflows numeric format"))?;
        self.count += count;
        Ok(())
    }
}

/// Numbers whose sum is exact in 128 bits.
trait Exact: ArrowPrimitiveType<Native: Into<i128>> {
    /// The sum of a slice of at most 2^31 numbers; `None` if it does not fit.
    fn sum(values: &[Self::Native]) -> Option<i128>;
}

macro_rules! exact {
    (in i64: $($small:ty),*; in i128: $($large:ty),*) => {
        $(impl Exact for $small {
            // 2^31 numbers of 32 bits fit 64 bits, and 64-bit lanes are summed several at a time.
            fn sum(values: &[Self::Native]) -> Option<i128> {
                Some(values.iter().map(|&value| i64::from(value)).sum::<i64>().into())
            }
        })*
        $(impl Exact for $large {
            // 2^31 numbers of 64 bits fit 128 bits.
            fn sum(values: &[Self::Native]) -> Option<i128> {
                Some(values.iter().map(|&value| i128::from(value)).sum())
            }
        })*
    };
}
exact!(in i64: Int8Type, Int16Type, Int32Type, UInt8Type, UInt16Type, UInt32Type, Decimal32Type;
       in i128: Int64Type, UInt64Type, Decimal64Type);

impl Exact for Decimal128Type {
    fn sum(values: &[i128]) -> Option<i128> {
        values.iter().try_fold(0i128, |sum, &value| sum.checked_add(value))
    }
}

/// Runs `$body` with `$array` as the primitive array that `$values` is.
macro_rules! with_exact {
    ($values:expr, $array:ident => $body:expr) => {
        match $values.data_type() {
            DataType::Int8 => {
                let $array = $values.as_primitive::<Int8Type>();
                $body
            }
            DataType::Int16 => {
                let $array = $values.as_primitive::<Int16Type>();
                $body
            }
            DataType::Int32 => {
                let $array = $values.as_primitive::<Int32Type>();
                $body
            }
            DataType::Int64 => {
                let $array = $values.as_primitive::<Int64Type>();
                $body
            }
            DataType::UInt8 => {
                let $array = $values.as_primitive::<UInt8Type>();
                $body
            }
            DataType::UInt16 => {
                let $array = $values.as_primitive::<UInt16Type>();
                $body
            }
            DataType::UInt32 => {
                let $array = $values.as_primitive::<UInt32Type>();
                $body
            }
            DataType::UInt64 => {
                let $array = $values.as_primitive::<UInt64Type>();
                $body
            }
            DataType::Decimal32(..) => {
                let $array = $values.as_primitive::<Decimal32Type>();
                $body
            }
            DataType::Decimal64(..) => {
                let $array = $values.as_primitive::<Decimal64Type>();
                $body
            }
            DataType::Decimal128(..) => {
                let $array = $values.as_primitive::<Decimal128Type>();
                $body
            }
            other => Err(DataFusionError::Internal(format!("exact aggregate over {other}"))),
        }
    };
}

/// Sum and count of the values that are not NULL.
fn total<T: Exact>(array: &PrimitiveArray<T>) -> Result<State> {
    let mut total = State::default();
    match array.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => total.add(slice_sum::<T>(array.values())?, array.len() as i64)?,
        Some(nulls) => {
            for (start, end) in nulls.valid_slices() {
                total.add(slice_sum::<T>(&array.values()[start..end])?, (end - start) as i64)?;
            }
        }
    }
    Ok(total)
}

fn slice_sum<T: Exact>(values: &[T::Native]) -> Result<i128> {
    T::sum(values).ok_or_else(|| out_of_range("value overflows numeric format"))
}

/// One group: an aggregate without GROUP BY, or a window.
#[derive(Debug)]
struct ExactAccumulator {
    shape: Shape,
    state: State,
}

impl Accumulator for ExactAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let added = with_exact!(values[0], array => total(array))?;
        self.state.add(added.sum, added.count)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let removed = with_exact!(values[0], array => total(array))?;
        self.state.add(-removed.sum, -removed.count)
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.shape.scalar(self.shape.finish(&self.state)?))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let sum = (self.state.count > 0).then_some(self.state.sum);
        Ok(vec![
            ScalarValue::Decimal128(sum, MAX_PRECISION, self.shape.scale),
            ScalarValue::Int64(Some(self.state.count)),
        ])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let (sums, counts) =
            (states[0].as_primitive::<Decimal128Type>(), states[1].as_primitive::<Int64Type>());
        for row in (0..sums.len()).filter(|&row| sums.is_valid(row)) {
            self.state.add(sums.value(row), counts.value(row))?;
        }
        Ok(())
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// One group of different values.
#[derive(Debug)]
struct DistinctAccumulator {
    shape: Shape,
    seen: HashSet<i128>,
}

impl DistinctAccumulator {
    fn note<T: Exact>(&mut self, array: &PrimitiveArray<T>) {
        self.seen.extend(array.iter().flatten().map(Into::<i128>::into));
    }
}

impl Accumulator for DistinctAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        with_exact!(values[0], array => {
            self.note(array);
            Ok(())
        })
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut state = State::default();
        for &value in &self.seen {
            state.add(value, 1)?;
        }
        Ok(self.shape.scalar(self.shape.finish(&state)?))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let scalar = |&value: &i128| ScalarValue::Decimal128(Some(value), MAX_PRECISION, self.shape.scale);
        let values: Vec<ScalarValue> = self.seen.iter().map(scalar).collect();
        Ok(vec![ScalarValue::List(ScalarValue::new_list_nullable(&values, &self.shape.sum_type()))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for list in states[0].as_list::<i32>().iter().flatten() {
            self.note(list.as_primitive::<Decimal128Type>());
        }
        Ok(())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.seen.capacity() * size_of::<i128>() * 2
    }
}

/// Many groups.
struct ExactGroups {
    shape: Shape,
    groups: Vec<State>,
}

impl ExactGroups {
    fn update<T: Exact>(
        &mut self,
        array: &PrimitiveArray<T>,
        groups: &[usize],
        rows: Option<&NullBuffer>,
    ) -> Result<()> {
        let values = array.values();
        match rows {
            None => {
                for (&group, &value) in groups.iter().zip(values.iter()) {
                    self.groups[group].add(value.into(), 1)?;
                }
            }
            Some(rows) => {
                for row in rows.valid_indices() {
                    self.groups[groups[row]].add(values[row].into(), 1)?;
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, emit_to: EmitTo) -> Vec<State> {
        emit_to.take_needed(&mut self.groups)
    }
}

/// The rows that count: not NULL and accepted by the FILTER clause; `None` if all do.
pub(super) fn counted_rows(values: &ArrayRef, filter: Option<&BooleanArray>) -> Option<NullBuffer> {
    let accepted = filter.map(|filter| match filter.nulls() {
        Some(nulls) => NullBuffer::new(filter.values() & nulls.inner()),
        None => NullBuffer::new(filter.values().clone()),
    });
    NullBuffer::union(values.nulls(), accepted.as_ref()).filter(|rows| rows.null_count() > 0)
}

impl GroupsAccumulator for ExactGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        group_count: usize,
    ) -> Result<()> {
        self.groups.resize(group_count, State::default());
        let rows = counted_rows(&values[0], filter);
        with_exact!(values[0], array => self.update(array, groups, rows.as_ref()))
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let states = self.take(emit_to);
        let results = states.iter().map(|state| self.shape.finish(state)).collect::<Result<Vec<_>>>()?;
        Ok(match self.shape.result {
            DataType::Decimal128(precision, scale) => {
                let array: Decimal128Array = results.into_iter().collect();
                Arc::new(array.with_precision_and_scale(precision, scale)?)
            }
            _ => Arc::new(
                results.into_iter().map(|value| value.map(|value| value as i64)).collect::<Int64Array>(),
            ),
        })
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let states = self.take(emit_to);
        let sums = self.shape.sums(states.iter().map(|state| (state.count > 0).then_some(state.sum)))?;
        let counts: Int64Array = states.iter().map(|state| Some(state.count)).collect();
        Ok(vec![Arc::new(sums), Arc::new(counts)])
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], group_count: usize) -> Result<()> {
        self.groups.resize(group_count, State::default());
        let (sums, counts) =
            (values[0].as_primitive::<Decimal128Type>(), values[1].as_primitive::<Int64Type>());
        for (row, &group) in groups.iter().enumerate().filter(|&(row, _)| sums.is_valid(row)) {
            self.groups[group].add(sums.value(row), counts.value(row))?;
        }
        Ok(())
    }

    #[expect(clippy::useless_conversion, reason = "one of the types is the widest already")]
    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let rows = counted_rows(&values[0], filter);
        let counted = |row: usize| rows.as_ref().is_none_or(|rows| rows.is_valid(row));
        let sums = with_exact!(values[0], array => {
            self.shape.sums((0..array.len()).map(|row| counted(row).then(|| array.value(row).into())))
        })?;
        let counts: Int64Array = (0..sums.len()).map(|row| Some(i64::from(sums.is_valid(row)))).collect();
        Ok(vec![Arc::new(sums), Arc::new(counts)])
    }

    fn size(&self) -> usize {
        self.groups.capacity() * size_of::<State>()
    }
}
