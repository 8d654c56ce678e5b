//! The value of a subquery that stands for one: that of its only row, NULL if it has none, 21000 if it has more.
//!
//! DataFusion by itself would take the type of such a value from the subquery's column, and so believe that it is never NULL
//! where the column is not, and would have no plan for one that depends on the query around it unless it aggregates. So an
//! aggregate is put over the subquery when it is typed:
//! ```text
//! (SELECT v FROM i WHERE i.k = o.k)    only((SELECT single(v) FROM i WHERE i.k = o.k))
//! ```
//! DataFusion makes a join of this, with a group for each key of the subquery, whether a row of the outer query asks for it or
//! not. So the aggregate does not fail: it gives a pair, a value and whether there are more of them, and `only` fails above the
//! join, for the rows that PostgreSQL runs the subquery for.
//!
//! A group has one row, but for mistakes: so the rows are kept as they come, in arrays, with a place for each group, and
//! gathered at the end.

use super::error::external;
use super::names::HIDDEN;
use super::value::{field_type, is_told, told_type, with_type};
use ankerdb_engine::{DataType as SqlType, Error, SqlState};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, StructArray, UInt32Array, make_array, new_null_array,
};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::{interleave, take};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::{Column, ScalarValue};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::{Cast, ScalarFunction};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, EmitTo, Expr, GroupsAccumulator, LogicalPlan,
    LogicalPlanBuilder, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Subquery,
    Volatility,
};
use std::collections::VecDeque;
use std::sync::{Arc, LazyLock};

/// The name of both functions, which no client can write.
const NAME: &str = "\0single value";

/// The value that the subquery stands for.
pub(super) fn value_of(subquery: Subquery) -> Result<Expr> {
    let schema = subquery.subquery.schema();
    if gives_one_row(&subquery.subquery) || schema.fields().len() != 1 {
        let list =
            told_type(schema.field(0)).filter(|_| matches!(schema.field(0).data_type(), DataType::List(_)));
        let Some(list) = list else { return Ok(Expr::ScalarSubquery(subquery)) };
        let field = with_type(Field::new("", schema.field(0).data_type().clone(), true), list);
        let value = Box::new(Expr::ScalarSubquery(subquery));
        return Ok(Expr::Cast(Cast::new_from_field(value, Arc::new(field))));
    }
    static SINGLE: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| {
        let signature = Signature::any(1, Volatility::Immutable);
        Arc::new(AggregateUDF::new_from_impl(Single { signature }))
    });
    let column = Column::from(schema.qualified_field(0));
    let known = field_type(schema.field(0)).or_else(|| told_type(schema.field(0)));
    let text = known.filter(|known| known.is_text() || is_told(*known));
    // A name that clients see as it was, and that no column of the query around it has.
    let name = format!("{}{HIDDEN}value", column.name);
    let mut rows = LogicalPlanBuilder::from(subquery.subquery.clone());
    if subquery.outer_ref_columns.is_empty() {
        // Two rows are as wrong as many.
        rows = rows.limit(0, Some(2))?;
    }
    let pair = SINGLE.call(vec![Expr::Column(column)]).alias(name);
    let aggregated = rows.aggregate(Vec::<Expr>::new(), vec![pair])?.build()?;
    let pair = Expr::ScalarSubquery(subquery.with_plan(Arc::new(aggregated)));
    Ok(Expr::ScalarFunction(Only::new(text).call(vec![pair])))
}

/// Whether a subquery has one row whatever its tables have: it aggregates without groups.
pub(super) fn gives_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => gives_one_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => gives_one_row(&alias.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::Sort(sort) => gives_one_row(&sort.input),
        LogicalPlan::Limit(limit) => {
            let is_some = match limit.fetch.as_deref() {
                None => true,
                Some(fetch) => matches!(fetch, Expr::Literal(ScalarValue::Int64(Some(1..)), _)),
            };
            is_some && limit.skip.is_none() && gives_one_row(&limit.input)
        }
        _ => false,
    }
}

/// A call like it, whose field does not tell which text type it has; `None` if its own does not either.
pub(super) fn without_text_type(call: &ScalarFunction) -> Option<ScalarFunction> {
    let only = call.func.inner().downcast_ref::<Only>()?;
    only.text.is_some().then(|| Only::new(None).call(call.args.clone()))
}

/// What the aggregate gives.
fn pair(value: &DataType) -> DataType {
    let value = Field::new("value", value.clone(), true);
    DataType::Struct(Fields::from(vec![value, Field::new("several", DataType::Boolean, false)]))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Single {
    signature: Signature,
}

impl AggregateUDFImpl for Single {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(pair(&arguments[0]))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let value = args.input_fields[0].data_type().clone();
        Ok(vec![
            Arc::new(Field::new(format_state_name(args.name, "value"), value, true)),
            // NULL where there is no row.
            Arc::new(Field::new(format_state_name(args.name, "several"), DataType::Boolean, true)),
        ])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(OneGroup { groups: Groups::new(args.expr_fields[0].data_type()) }))
    }

    fn groups_accumulator_supported(&self, _args: AccumulatorArgs) -> bool {
        true
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Groups::new(args.expr_fields[0].data_type())))
    }
}

/// Where a group's row is: in which array, counted from the first there was, and where in it.
#[derive(Clone, Copy, Debug)]
struct Place {
    array: u32,
    row: u32,
}

/// The place of a group without a row.
const NOWHERE: Place = Place { array: u32::MAX, row: 0 };

impl Place {
    fn is_nowhere(self) -> bool {
        self.array == NOWHERE.array
    }
}

/// Rows of which each is a group's.
#[derive(Debug)]
struct Kept {
    rows: ArrayRef,
    bytes: usize,
    /// How many of them have not been given yet.
    left: usize,
}

/// The first row of each group, and whether it has more.
#[derive(Debug)]
pub(super) struct Groups {
    value: DataType,
    kept: VecDeque<Kept>,
    /// How many arrays were kept before these.
    gone: u32,
    kept_bytes: usize,
    places: Vec<Place>,
    several: Vec<bool>,
}

impl Groups {
    pub(super) fn new(value: &DataType) -> Groups {
        let (kept, places, several) = (VecDeque::new(), Vec::new(), Vec::new());
        Groups { value: value.clone(), kept, gone: 0, kept_bytes: 0, places, several }
    }

    /// Takes rows of groups; `several`: what is known of a row, `None` that it is none.
    fn note(
        &mut self,
        values: &ArrayRef,
        groups: &[usize],
        count: usize,
        several: impl Fn(usize) -> Option<bool>,
    ) -> Result<()> {
        self.places.resize(count, NOWHERE);
        self.several.resize(count, false);
        let array = self.gone + self.kept.len() as u32;
        let mut firsts: Vec<u32> = Vec::with_capacity(groups.len());
        for (row, &group) in groups.iter().enumerate() {
            let Some(several) = several(row) else { continue };
            self.several[group] |= several;
            if self.places[group].is_nowhere() {
                self.places[group] = Place { array, row: firsts.len() as u32 };
                firsts.push(row as u32);
            } else {
                self.several[group] = true;
            }
        }
        if firsts.is_empty() {
            return Ok(());
        }
        let left = firsts.len();
        let rows = match left == values.len() {
            true => compact(values)?,
            false => compact(&take(values, &UInt32Array::from(firsts), None)?)?,
        };
        let bytes = rows.get_array_memory_size();
        self.kept_bytes += bytes;
        self.kept.push_back(Kept { rows, bytes, left });
        Ok(())
    }

    /// Values of the groups that are to be given, which of them have a row, and which have several.
    fn take(&mut self, emit_to: EmitTo) -> Result<(ArrayRef, NullBuffer, BooleanArray)> {
        let places = emit_to.take_needed(&mut self.places);
        let several = emit_to.take_needed(&mut self.several);
        let mut arrays: Vec<&dyn Array> = self.kept.iter().map(|kept| kept.rows.as_ref()).collect();
        let nothing = new_null_array(&self.value, 1);
        arrays.push(nothing.as_ref());
        let positions: Vec<(usize, usize)> = places
            .iter()
            .map(|place| match place.is_nowhere() {
                true => (arrays.len() - 1, 0),
                false => ((place.array - self.gone) as usize, place.row as usize),
            })
            .collect();
        let values = compact(&interleave(&arrays, &positions)?)?;
        let found = places.iter().map(|place| !place.is_nowhere()).collect::<Vec<bool>>();
        self.let_go(&places);
        Ok((values, NullBuffer::from(found), BooleanArray::from(several)))
    }

    /// Drops the arrays whose rows have all been given.
    fn let_go(&mut self, given: &[Place]) {
        for place in given.iter().filter(|place| !place.is_nowhere()) {
            self.kept[(place.array - self.gone) as usize].left -= 1;
        }
        while let Some(kept) = self.kept.pop_front_if(|kept| kept.left == 0) {
            self.kept_bytes -= kept.bytes;
            self.gone += 1;
        }
    }
}

/// The array without the memory of rows that are not its own.
fn compact(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::Utf8View => Arc::new(array.as_string_view().gc()),
        DataType::BinaryView => Arc::new(array.as_binary_view().gc()),
        _ => {
            let data = array.to_data();
            match array.get_buffer_memory_size() > 2 * data.get_slice_memory_size()? {
                true => take(array, &UInt32Array::from_iter_values(0..array.len() as u32), None)?,
                false => make_array(data),
            }
        }
    })
}

/// Whether a row is one: the FILTER clause, which no client can write here, accepts it.
fn accepted(filter: Option<&BooleanArray>, row: usize) -> Option<bool> {
    filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row)).then_some(false)
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        group_count: usize,
    ) -> Result<()> {
        self.note(&values[0], groups, group_count, |row| accepted(filter, row))
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let (values, _, several) = self.take(emit_to)?;
        let DataType::Struct(fields) = pair(&self.value) else {
            return datafusion::common::internal_err!("a pair is a struct");
        };
        Ok(Arc::new(StructArray::try_new(fields, vec![values, Arc::new(several)], None)?))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let (values, found, several) = self.take(emit_to)?;
        Ok(vec![values, Arc::new(BooleanArray::new(several.values().clone(), Some(found)))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], group_count: usize) -> Result<()> {
        let several = states[1].as_boolean();
        let known = |row: usize| several.is_valid(row).then(|| several.value(row));
        self.note(&states[0], groups, group_count, known)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let rows = (0..values[0].len()).map(|row| accepted(filter, row));
        Ok(vec![values[0].clone(), Arc::new(rows.collect::<BooleanArray>())])
    }

    fn size(&self) -> usize {
        self.kept_bytes
            + self.kept.capacity() * size_of::<Kept>()
            + self.places.capacity() * size_of::<Place>()
            + self.several.capacity()
    }
}

/// The rows of a subquery that does not depend on the query around it.
#[derive(Debug)]
struct OneGroup {
    groups: Groups,
}

impl Accumulator for OneGroup {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.groups.update_batch(values, &vec![0; values[0].len()], None, 1)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.groups.note(&new_null_array(&self.groups.value, 0), &[], 1, |_| None)?;
        ScalarValue::try_from_array(&self.groups.evaluate(EmitTo::All)?, 0)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.groups.note(&new_null_array(&self.groups.value, 0), &[], 1, |_| None)?;
        let state = self.groups.state(EmitTo::All)?;
        state.iter().map(|array| ScalarValue::try_from_array(array, 0)).collect()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.groups.merge_batch(states, &vec![0; states[0].len()], 1)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.groups.size()
    }
}

/// The value of a pair; fails where there are several.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Only {
    /// The text type that the field of the result tells.
    text: Option<SqlType>,
    signature: Signature,
}

impl Only {
    fn new(text: Option<SqlType>) -> Only {
        Only { text, signature: Signature::any(1, Volatility::Immutable) }
    }

    fn call(self, arguments: Vec<Expr>) -> ScalarFunction {
        ScalarFunction::new_udf(Arc::new(ScalarUDF::new_from_impl(self)), arguments)
    }
}

impl ScalarUDFImpl for Only {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match &arguments[0] {
            DataType::Struct(fields) => Ok(fields[0].data_type().clone()),
            other => datafusion::common::internal_err!("a single value of type {other}"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let value = self.return_type(&[args.arg_fields[0].data_type().clone()])?;
        let field = Field::new(NAME, value, true);
        Ok(Arc::new(match self.text {
            Some(text) => with_type(field, text),
            None => field,
        }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match &args.args[0] {
            ColumnarValue::Array(pairs) => Ok(ColumnarValue::Array(values(pairs)?)),
            ColumnarValue::Scalar(pair) => {
                let value = values(&pair.to_array()?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&value, 0)?))
            }
        }
    }
}

/// The values of pairs; a pair that is NULL, for want of a group, has none.
fn values(pairs: &ArrayRef) -> Result<ArrayRef> {
    let pairs = pairs.as_struct();
    let several = pairs.column(1).as_boolean();
    if (0..pairs.len()).any(|row| pairs.is_valid(row) && several.value(row)) {
        return Err(several_rows());
    }
    let values = pairs.column(0);
    if pairs.null_count() == 0 {
        return Ok(values.clone());
    }
    let nulls = NullBuffer::union(pairs.nulls(), values.nulls());
    Ok(make_array(values.to_data().into_builder().nulls(nulls).build()?))
}

fn several_rows() -> DataFusionError {
    let message = "more than one row returned by a subquery used as an expression";
    external(Error::new(SqlState::CardinalityViolation, message))
}
