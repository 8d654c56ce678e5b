//! Aggregates over frames that move, computed anew where rows that leave cannot be taken back.
//!
//! Where a frame's start moves, an accumulator must forget rows. Most of DataFusion's cannot, and for sums of doubles it
//! subtracts, which leaves what has been rounded away: behind `1e20` it loses a 1. PostgreSQL computes such aggregates anew for each
//! row (`float8_accum` has no inverse), and so they are here: the rows of the frame are kept, and cost time for each row
//! of the result. Exact sums and counts go on taking rows back.

use super::cooperate::ended;
use crate::rows::RunEnd;
use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::compute::concat;
use datafusion::arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, Signature,
    WindowFrameBound, WindowFunctionDefinition,
};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};
use std::collections::VecDeque;
use std::sync::Arc;

/// Pieces of a frame that are worth being joined to one.
const PIECES_MAX: usize = 64;

/// Has the window's aggregate computed so, if the start of its frame moves.
pub(super) fn recompute(window: &mut WindowFunction) {
    if let WindowFunctionDefinition::AggregateUDF(function) = &window.fun
        && !matches!(&window.params.window_frame.start_bound, WindowFrameBound::Preceding(far) if far.is_null())
    {
        let recomputed = AggregateUDF::new_from_impl(Recomputed(function.clone()));
        window.fun = WindowFunctionDefinition::AggregateUDF(Arc::new(recomputed));
    }
}

/// Whether the function may keep the rows of a frame.
pub(super) fn is_recomputed(function: &AggregateUDF) -> bool {
    function.inner().downcast_ref::<Recomputed>().is_some()
}

/// The function itself but for frames that move.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Recomputed(Arc<AggregateUDF>);

impl AggregateUDFImpl for Recomputed {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn aliases(&self) -> &[String] {
        self.0.aliases()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.0.return_type(arguments)
    }

    fn return_field(&self, arguments: &[FieldRef]) -> Result<FieldRef> {
        self.0.return_field(arguments)
    }

    fn is_nullable(&self) -> bool {
        self.0.is_nullable()
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.0.coerce_types(arguments)
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.0.default_value(data_type)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        match self.0.reverse_udf() {
            ReversedUDAF::Reversed(other) => {
                ReversedUDAF::Reversed(Arc::new(AggregateUDF::new_from_impl(Recomputed(other))))
            }
            other => other,
        }
    }

    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.0.state_fields(arguments)
    }

    fn accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.0.accumulator(arguments)
    }

    fn create_sliding_accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let is_inexact = arguments.expr_fields.first().is_some_and(|field| field.data_type().is_floating());
        let end = arguments.exprs.iter().find_map(|argument| ended(argument).0.cloned());
        let made = Made::of(self.0.clone(), arguments);
        let own = self.0.create_sliding_accumulator(made.arguments())?;
        if own.supports_retract_batch() && !(is_inexact && ["sum", "avg"].contains(&self.name())) {
            return Ok(own);
        }
        Ok(Box::new(Frame { end, made, pieces: VecDeque::new() }))
    }
}

/// What an accumulator is made of.
#[derive(Debug)]
pub(super) struct Made {
    function: Arc<AggregateUDF>,
    return_field: FieldRef,
    schema: Schema,
    ignore_nulls: bool,
    order_bys: Vec<PhysicalSortExpr>,
    is_reversed: bool,
    name: String,
    is_distinct: bool,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    expr_fields: Vec<FieldRef>,
}

impl Made {
    pub(super) fn of(function: Arc<AggregateUDF>, arguments: AccumulatorArgs) -> Made {
        Made {
            function,
            return_field: arguments.return_field,
            schema: arguments.schema.clone(),
            ignore_nulls: arguments.ignore_nulls,
            order_bys: arguments.order_bys.to_vec(),
            is_reversed: arguments.is_reversed,
            name: arguments.name.to_owned(),
            is_distinct: arguments.is_distinct,
            // Some look at what their arguments are.
            exprs: arguments.exprs.iter().map(|argument| ended(argument).1.clone()).collect(),
            expr_fields: arguments.expr_fields.to_vec(),
        }
    }

    pub(super) fn accumulator(&self) -> Result<Box<dyn Accumulator>> {
        self.function.accumulator(self.arguments())
    }

    /// One for many groups, if the function has such.
    pub(super) fn groups_accumulator(&self) -> Result<Option<Box<dyn GroupsAccumulator>>> {
        match self.function.groups_accumulator_supported(self.arguments()) {
            true => self.function.create_groups_accumulator(self.arguments()).map(Some),
            false => Ok(None),
        }
    }

    pub(super) fn return_type(&self) -> &DataType {
        self.return_field.data_type()
    }

    /// One that may take rows back.
    pub(super) fn sliding(&self) -> Result<Box<dyn Accumulator>> {
        self.function.create_sliding_accumulator(self.arguments())
    }

    fn arguments(&self) -> AccumulatorArgs<'_> {
        AccumulatorArgs {
            return_field: self.return_field.clone(),
            schema: &self.schema,
            ignore_nulls: self.ignore_nulls,
            order_bys: &self.order_bys,
            is_reversed: self.is_reversed,
            name: &self.name,
            is_distinct: self.is_distinct,
            exprs: &self.exprs,
            expr_fields: &self.expr_fields,
        }
    }
}

/// The rows of a frame.
#[derive(Debug)]
struct Frame {
    made: Made,
    /// The arguments of rows that follow each other.
    pieces: VecDeque<Vec<ArrayRef>>,
    end: Option<RunEnd>,
}

impl Frame {
    /// Many small pieces would cost more than their rows.
    fn join_pieces(&mut self) -> Result<()> {
        if self.pieces.len() < PIECES_MAX {
            return Ok(());
        }
        let width = self.pieces[0].len();
        let column = |column: usize| {
            let parts: Vec<&dyn Array> = self.pieces.iter().map(|piece| piece[column].as_ref()).collect();
            concat(&parts)
        };
        let whole = (0..width).map(column).collect::<std::result::Result<Vec<_>, _>>()?;
        self.pieces = VecDeque::from([whole]);
        Ok(())
    }
}

impl Accumulator for Frame {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        if values.first().is_some_and(|first| !first.is_empty()) {
            self.pieces.push_back(values.to_vec());
        }
        self.join_pieces()
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let mut gone = values.first().map_or(0, |first| first.len());
        while gone > 0 {
            let Some(piece) = self.pieces.front_mut() else { break };
            let rows = piece[0].len();
            if rows > gone {
                piece.iter_mut().for_each(|array| *array = array.slice(gone, rows - gone));
                break;
            }
            gone -= rows;
            self.pieces.pop_front();
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if let Some(end) = &self.end {
            end.interrupt().check().map_err(super::error::external)?;
        }
        let mut whole = self.made.accumulator()?;
        self.pieces.iter().try_for_each(|piece| whole.update_batch(piece))?;
        whole.evaluate()
    }

    fn size(&self) -> usize {
        let bytes =
            |piece: &Vec<ArrayRef>| piece.iter().map(|array| array.get_array_memory_size()).sum::<usize>();
        size_of::<Frame>() + self.pieces.iter().map(bytes).sum::<usize>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let mut whole = self.made.accumulator()?;
        self.pieces.iter().try_for_each(|piece| whole.update_batch(piece))?;
        whole.state()
    }

    fn merge_batch(&mut self, _states: &[ArrayRef]) -> Result<()> {
        datafusion::common::internal_err!("frames are not merged")
    }
}
