//! Aggregates whose result depends on an order: `array_agg(a ORDER BY x)`, `string_agg(b, ',' ORDER BY y)`.
//!
//! DataFusion sorts the input once for all aggregates of a query, refuses orders of which none begins with the other, and its accumulators of
//! sorted input count their rows anew with each batch, which costs the square of the rows of a group. Here each aggregate gets
//! its keys as further arguments, keeps the rows of all groups together and sorts them when the result is asked for, as PostgreSQL does
//! ([`KeptRows`]).

use super::cooperate::ended;
use super::kept_rows::{KeptRows, RowShape, single_lists};
use super::recomputed::Made;
use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, new_empty_array};
use datafusion::arrow::compute::{SortOptions, filter};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::expr::{AggregateFunction, Sort};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, Expr, GroupsAccumulator, LogicalPlan, ReversedUDAF,
    Signature, Volatility,
};
use std::iter::repeat_n;
use std::sync::Arc;

/// Has the aggregates sort for themselves whose results depend on an order.
pub(super) fn apart(plan: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Aggregate(mut aggregate) = plan else { return Ok(plan) };
    if !aggregate.aggr_expr.iter().any(is_ordered) {
        return Ok(LogicalPlan::Aggregate(aggregate));
    }
    let names = NamePreserver::new(&LogicalPlan::Aggregate(aggregate.clone()));
    for expression in aggregate.aggr_expr.iter_mut().filter(|expression| is_ordered(expression)) {
        let name = names.save(expression);
        let own = sorting(expression.clone().unalias());
        *expression = name.restore(own);
    }
    LogicalPlan::Aggregate(aggregate).recompute_schema()
}

/// Whether the aggregate's result depends on an order that is given.
fn is_ordered(expression: &Expr) -> bool {
    match expression {
        Expr::Alias(alias) => is_ordered(&alias.expr),
        Expr::AggregateFunction(AggregateFunction { func, params }) => {
            !params.order_by.is_empty() && !func.order_sensitivity().is_insensitive()
        }
        _ => false,
    }
}

/// The call of an aggregate that sorts its rows.
fn sorting(expression: Expr) -> Expr {
    let Expr::AggregateFunction(AggregateFunction { func, mut params }) = expression else {
        return expression;
    };
    let order = std::mem::take(&mut params.order_by);
    let option = |sort: &Sort| SortOptions { descending: !sort.asc, nulls_first: sort.nulls_first };
    let sorting = Sorting {
        inner: func,
        arguments: params.args.len(),
        order: order.iter().map(option).collect(),
        is_distinct: std::mem::take(&mut params.distinct),
        signature: Signature::user_defined(Volatility::Immutable),
    };
    params.args.extend(order.into_iter().map(|sort| sort.expr));
    let func = Arc::new(AggregateUDF::new_from_impl(sorting));
    Expr::AggregateFunction(AggregateFunction { func, params })
}

/// The function over its rows in order; behind its own arguments come the keys.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Sorting {
    inner: Arc<AggregateUDF>,
    /// How many arguments are the function's own.
    arguments: usize,
    order: Vec<SortOptions>,
    is_distinct: bool,
    signature: Signature,
}

impl AggregateUDFImpl for Sorting {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let (own, keys) = types.split_at(self.arguments);
        let field = |known: &DataType| Arc::new(Field::new("", known.clone(), true));
        let fields: Vec<FieldRef> = own.iter().map(field).collect();
        let own = fields_with_udf(&fields, self.inner.as_ref())?;
        Ok(own.iter().map(|field| field.data_type().clone()).chain(keys.iter().cloned()).collect())
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(&arguments[..self.arguments])
    }

    fn return_field(&self, arguments: &[FieldRef]) -> Result<FieldRef> {
        self.inner.return_field(&arguments[..self.arguments])
    }

    fn is_nullable(&self) -> bool {
        self.inner.is_nullable()
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.inner.default_value(data_type)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let list = |(at, field): (usize, &FieldRef)| {
            let item = Field::new_list_field(field.data_type().clone(), true);
            let name = format_state_name(args.name, &format!("column {at}"));
            Arc::new(Field::new_list(name, item, true))
        };
        Ok(args.input_fields.iter().enumerate().map(list).collect())
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let (made, rows) = self.parts(args);
        Ok(Box::new(SortedGroup { made, rows }))
    }

    fn groups_accumulator_supported(&self, _args: AccumulatorArgs) -> bool {
        true
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let (made, rows) = self.parts(args);
        Ok(Box::new(SortedGroups { made, rows }))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::NotSupported
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

impl Sorting {
    /// What makes accumulators of the function, and the rows that one of them will get.
    fn parts(&self, args: AccumulatorArgs) -> (Made, KeptRows) {
        let types: Vec<DataType> = args.expr_fields.iter().map(|field| field.data_type().clone()).collect();
        let (own, keys) = types.split_at(self.arguments);
        let shape = RowShape {
            own: own.to_vec(),
            keys: keys.iter().cloned().zip(self.order.iter().copied()).collect(),
            is_distinct: self.is_distinct,
            is_stable: true,
        };
        let end = args.exprs.iter().find_map(|argument| ended(argument).0.cloned());
        let made = Made::of(
            self.inner.clone(),
            AccumulatorArgs {
                order_bys: &[],
                is_reversed: false,
                is_distinct: false,
                exprs: &args.exprs[..self.arguments],
                expr_fields: &args.expr_fields[..self.arguments],
                ..args
            },
        );
        (made, KeptRows::new(shape, end))
    }
}

/// The function over the rows of one group.
#[derive(Debug)]
struct SortedGroup {
    made: Made,
    rows: KeptRows,
}

impl Accumulator for SortedGroup {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.rows.count_groups(1)?;
        self.rows.keep(values, repeat_n(0, values[0].len()))
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut inner = self.made.accumulator()?;
        let groups = self.rows.group_count();
        self.rows.hand_on(groups, |columns, _| inner.update_batch(columns))?;
        inner.evaluate()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.rows.count_groups(1)?;
        self.rows.lists(1)?.iter().map(|lists| ScalarValue::try_from_array(lists, 0)).collect()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.rows.count_groups(1)?;
        self.rows.keep_lists(states, &vec![0; states[0].len()])
    }

    fn size(&self) -> usize {
        size_of::<SortedGroup>() + self.rows.size()
    }
}

/// The function over the rows of many groups.
struct SortedGroups {
    made: Made,
    rows: KeptRows,
}

impl SortedGroups {
    fn emitted(&self, emit_to: EmitTo) -> usize {
        match emit_to {
            EmitTo::All => self.rows.group_count(),
            EmitTo::First(groups) => groups,
        }
    }

    /// The results of the first groups, by an accumulator for each: the function has none for many groups.
    fn one_by_one(&mut self, groups: usize) -> Result<ArrayRef> {
        let (made, mut values) = (&self.made, Vec::with_capacity(groups));
        let mut inner = made.accumulator()?;
        // Finishes groups until the one of this number is next.
        let mut finish_to = |inner: &mut Box<dyn Accumulator>, group: usize| -> Result<()> {
            while values.len() < group {
                values.push(inner.evaluate()?);
                *inner = made.accumulator()?;
            }
            Ok(())
        };
        self.rows.hand_on(groups, |columns, of_rows| {
            let mut from = 0;
            for run in of_rows.chunk_by(|one, other| one == other) {
                finish_to(&mut inner, run[0])?;
                let rows: Vec<ArrayRef> =
                    columns.iter().map(|column| column.slice(from, run.len())).collect();
                inner.update_batch(&rows)?;
                from += run.len();
            }
            Ok(())
        })?;
        finish_to(&mut inner, groups)?;
        match values.is_empty() {
            true => Ok(new_empty_array(made.return_type())),
            false => ScalarValue::iter_to_array(values),
        }
    }
}

impl GroupsAccumulator for SortedGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        rows: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.rows.count_groups(count)?;
        let Some(rows) = rows else { return self.rows.keep(values, groups.iter().copied()) };
        let columns =
            values.iter().map(|column| filter(column, rows)).collect::<std::result::Result<Vec<_>, _>>()?;
        let stay = groups.iter().zip(rows).filter_map(|(group, stays)| stays?.then_some(*group));
        self.rows.keep(&columns, stay)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let groups = self.emitted(emit_to);
        let Some(mut inner) = self.made.groups_accumulator()? else { return self.one_by_one(groups) };
        self.rows.hand_on(groups, |columns, of_rows| inner.update_batch(columns, of_rows, None, groups))?;
        // Groups without rows are there, too.
        let none: Vec<ArrayRef> = self.rows.own_types().map(new_empty_array).collect();
        inner.update_batch(&none, &[], None, groups)?;
        inner.evaluate(EmitTo::All)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.rows.lists(self.emitted(emit_to))
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.rows.count_groups(count)?;
        self.rows.keep_lists(states, groups)
    }

    fn convert_to_state(&self, values: &[ArrayRef], rows: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        single_lists(values, rows)
    }

    fn size(&self) -> usize {
        size_of::<SortedGroups>() + self.rows.size()
    }
}
