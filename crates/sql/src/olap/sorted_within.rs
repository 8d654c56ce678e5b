//! Aggregates of one query whose orders differ: `array_agg(a ORDER BY x), array_agg(b ORDER BY y)`.
//!
//! DataFusion sorts the input once for all aggregates, and refuses orders of which none begins with the other. Those that the one order
//! does not serve get their keys as further arguments, keep their group's rows and sort them when the result is asked for, as
//! PostgreSQL does. That costs the rows' memory, where sorted input costs none.

use super::cooperate::ended;
use super::error::external;
use super::recomputed::Made;
use crate::rows::RunEnd;
use ankerdb_engine::Error;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use datafusion::arrow::compute::{SortOptions, concat, take};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::ScalarValue;
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::error::Result;
use datafusion::logical_expr::expr::{AggregateFunction, Sort};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Expr, LogicalPlan, ReversedUDAF, Signature, Volatility,
};
use std::sync::Arc;

/// Rows of a group that are kept apart before they are joined.
const PIECES_MAX: usize = 64;

/// Has the aggregates sort for themselves whose orders the first one's does not serve.
pub(super) fn apart(plan: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Aggregate(mut aggregate) = plan else { return Ok(plan) };
    let mut main: &[Sort] = &[];
    for order in aggregate.aggr_expr.iter().filter_map(order) {
        if order.starts_with(main) {
            main = order;
        }
    }
    let main = main.to_vec();
    if aggregate.aggr_expr.iter().filter_map(order).all(|order| main.starts_with(order)) {
        return Ok(LogicalPlan::Aggregate(aggregate));
    }
    let plan = LogicalPlan::Aggregate(aggregate.clone());
    let names = NamePreserver::new(&plan);
    for expression in &mut aggregate.aggr_expr {
        if order(expression).is_some_and(|order| !main.starts_with(order)) {
            let name = names.save(expression);
            let own = sorting(expression.clone().unalias());
            *expression = name.restore(own);
        }
    }
    LogicalPlan::Aggregate(aggregate).recompute_schema()
}

/// The order that the aggregate's result depends on, if there is one.
fn order(expression: &Expr) -> Option<&[Sort]> {
    match expression {
        Expr::Alias(alias) => order(&alias.expr),
        Expr::AggregateFunction(AggregateFunction { func, params }) => {
            let is_ordered = !params.order_by.is_empty() && !func.order_sensitivity().is_insensitive();
            is_ordered.then_some(&params.order_by)
        }
        _ => None,
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
        let types: Vec<DataType> = args.expr_fields.iter().map(|field| field.data_type().clone()).collect();
        let (own, keys) = types.split_at(self.arguments);
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
        Ok(Box::new(KeptRows {
            made,
            own: own.to_vec(),
            keys: keys.iter().cloned().zip(self.order.iter().copied()).collect(),
            is_distinct: self.is_distinct,
            pieces: Vec::new(),
            end,
        }))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::NotSupported
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// The rows of a group.
#[derive(Debug)]
struct KeptRows {
    made: Made,
    own: Vec<DataType>,
    keys: Vec<(DataType, SortOptions)>,
    is_distinct: bool,
    pieces: Vec<Vec<ArrayRef>>,
    end: Option<RunEnd>,
}

impl KeptRows {
    fn keep(&mut self, columns: Vec<ArrayRef>) -> Result<()> {
        if columns.first().is_some_and(|first| !first.is_empty()) {
            self.pieces.push(columns);
        }
        if self.pieces.len() >= PIECES_MAX {
            self.join_pieces()?;
        }
        Ok(())
    }

    fn join_pieces(&mut self) -> Result<()> {
        if self.pieces.len() < 2 {
            return Ok(());
        }
        let column = |column: usize| {
            let parts: Vec<&dyn Array> = self.pieces.iter().map(|piece| piece[column].as_ref()).collect();
            concat(&parts)
        };
        let whole = (0..self.pieces[0].len()).map(column).collect::<std::result::Result<Vec<_>, _>>()?;
        self.pieces = vec![whole];
        Ok(())
    }

    /// The places of the rows in their order; of equal ones the first, if they are told apart.
    fn places(&self, columns: &[ArrayRef]) -> Result<UInt32Array> {
        let (own, keys) = columns.split_at(self.own.len());
        let rows = |fields: Vec<SortField>, columns: &[ArrayRef]| -> Result<Rows> {
            Ok(RowConverter::new(fields)?.convert_columns(columns)?)
        };
        let fields =
            self.keys.iter().map(|(known, options)| SortField::new_with_options(known.clone(), *options));
        let keys = rows(fields.collect(), keys)?;
        let count = u32::try_from(columns[0].len())
            .map_err(|_| external(Error::internal("an aggregate of more than 2^32 rows")))?;
        let mut places: Vec<u32> = (0..count).collect();
        if !self.is_distinct {
            places.sort_by(|one, other| keys.row(*one as usize).cmp(&keys.row(*other as usize)));
            return Ok(places.into());
        }
        let own = rows(self.own.iter().cloned().map(SortField::new).collect(), own)?;
        places.sort_by(|&one, &other| {
            let (one, other) = (one as usize, other as usize);
            keys.row(one).cmp(&keys.row(other)).then_with(|| own.row(one).cmp(&own.row(other)))
        });
        places.dedup_by(|one, other| own.row(*one as usize) == own.row(*other as usize));
        Ok(places.into())
    }
}

impl Accumulator for KeptRows {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.keep(values.to_vec())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if let Some(end) = &self.end {
            end.interrupt().check().map_err(external)?;
        }
        self.join_pieces()?;
        let mut inner = self.made.accumulator()?;
        if let Some(columns) = self.pieces.first() {
            let places = self.places(columns)?;
            let sorted = columns[..self.own.len()].iter().map(|column| take(column, &places, None));
            inner.update_batch(&sorted.collect::<std::result::Result<Vec<_>, _>>()?)?;
        }
        inner.evaluate()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.join_pieces()?;
        let types = self.own.iter().chain(self.keys.iter().map(|(known, _)| known));
        let state = types.enumerate().map(|(at, known)| match self.pieces.first() {
            Some(columns) => SingleRowListArrayBuilder::new(columns[at].clone()).build_list_scalar(),
            None => ScalarValue::new_null_list(known.clone(), true, 1),
        });
        Ok(state.collect())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for row in 0..states[0].len() {
            if states[0].is_valid(row) {
                self.keep(states.iter().map(|lists| lists.as_list::<i32>().value(row)).collect())?;
            }
        }
        Ok(())
    }

    fn size(&self) -> usize {
        let bytes =
            |piece: &Vec<ArrayRef>| piece.iter().map(|array| array.get_array_memory_size()).sum::<usize>();
        size_of::<KeptRows>() + self.pieces.iter().map(bytes).sum::<usize>()
    }
}
