//! Window functions in the typing pass.

use super::call::is_untyped_parameter;
use super::frames;
use super::keyed;
use super::read::Reader;
use super::taken::check_aggregate;
use super::undefined_function;
use crate::expression::types::common_type;
use crate::olap::error::external;
use crate::olap::framed;
use crate::olap::offset;
use crate::olap::recomputed::recompute;
use crate::olap::value::field_type;
use ankerdb_engine::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::{
    Expr, ExprSchemable, WindowFrame, WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition, cast,
};

/// Whether the frame has rows whose values are so far from the row's own.
fn has_offset(frame: &WindowFrame) -> bool {
    let is_offset = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::Preceding(far) | WindowFrameBound::Following(far) => !far.is_null(),
        WindowFrameBound::CurrentRow => false,
    };
    frame.units == WindowFrameUnits::Range && (is_offset(&frame.start_bound) || is_offset(&frame.end_bound))
}

impl Reader<'_, '_> {
    pub(super) fn window(&mut self, window: &WindowFunction) -> Result<Expr> {
        let mut typed = window.clone();
        let mut frame = frames::taken(&mut typed.params)?;
        let order = typed.params.order_by.first().map(|order| (order.expr.clone(), !order.asc));
        // Offsets and counts stay the literals that the functions look for.
        let is_aggregate = matches!(typed.fun, WindowFunctionDefinition::AggregateUDF(_));
        let count = if is_aggregate { typed.params.args.len() } else { typed.params.args.len().min(1) };
        let is_count = typed.fun.name() == "ntile";
        if let ("lag" | "lead", [value, _, default]) = (typed.fun.name(), typed.params.args.as_slice()) {
            let operands = vec![self.read(value)?, self.read(default)?];
            if is_untyped_parameter(&operands[1]) {
                let offset = typed.params.args[1].clone();
                let [value, default] = self.emit_merged(operands, "lag")?.try_into().expect("as many");
                typed.params.args = vec![value, offset, default];
            } else {
                typed.params.args[0] = self.in_common_type(value, default)?;
            }
        }
        if let Some(function) = self.with_offset(&mut typed)? {
            typed.fun = function;
        } else if !is_count {
            self.emitted_all(&mut typed.params.args[..count])?;
            self.add_up_times(typed.fun.name(), &mut typed.params.args)?;
            if let (true, [argument, ..]) = (is_aggregate, typed.params.args.as_slice()) {
                check_aggregate(typed.fun.name(), &argument.to_field(self.schema.as_ref())?.1)?;
            }
        }
        self.emitted_all(&mut typed.params.partition_by)?;
        for part in &mut typed.params.partition_by {
            *part = keyed::with_one_zero(keyed::ordered(part.clone(), self.schema)?, self.schema)?;
        }
        let has_offset = has_offset(&typed.params.window_frame);
        for order in &mut typed.params.order_by {
            let by = self.emitted(&order.expr)?;
            order.expr = keyed::framed(keyed::ordered(by.clone(), self.schema)?, self.schema)?;
            if has_offset || frame.as_ref().is_some_and(frames::has_values) {
                let field = by.to_field(self.schema.as_ref())?.1;
                frames::check_counted(&field)?;
                frames::check_whole(&typed.params.window_frame, &field)?;
            }
            if has_offset && order.expr != by {
                // What is so far before a value is not told by keys.
                frame = Some(frames::of_keys(&mut typed.params.window_frame, frame.take()));
            }
            if !has_offset {
                order.expr = keyed::with_one_zero(std::mem::take(&mut order.expr), self.schema)?;
            }
        }
        if let Some(filter) = &mut typed.params.filter {
            let condition = self.condition(filter, "FILTER")?;
            **filter = self.emitter().emit(condition)?;
        }
        if let Some(filter) = &typed.params.filter {
            self.compute_only_where(filter, &mut typed.params.args)?;
        }
        match frame {
            Some(frame) if framed::is_framed(&typed.fun) => self.framed(&mut typed, &frame, order)?,
            _ => recompute(&mut typed),
        }
        Ok(Expr::WindowFunction(Box::new(typed)))
    }

    /// The function for offsets and counts that are no positive constants, if the call has such a one; its arguments are typed then.
    fn with_offset(&mut self, call: &mut WindowFunction) -> Result<Option<WindowFunctionDefinition>> {
        let place = usize::from(call.fun.name() != "ntile");
        let Some(function) = offset::function(call.fun.name()) else { return Ok(None) };
        match call.params.args.get(place) {
            None | Some(Expr::Literal(ScalarValue::Int64(Some(1..)), _)) => return Ok(None),
            Some(Expr::Literal(ScalarValue::Int64(Some(_)), _)) if call.fun.name().starts_with('l') => {
                return Ok(None);
            }
            Some(_) => {}
        }
        let arguments = std::mem::take(&mut call.params.args);
        for (position, argument) in arguments.iter().enumerate() {
            let emitted = match position {
                _ if position == place => {
                    let operand = self.read(argument)?;
                    self.emit_as(operand, DataType::Integer)?
                }
                2 => {
                    let default = self.in_common_type(argument, &arguments[0])?;
                    self.emitted(&default)?
                }
                _ => self.emitted(argument)?,
            };
            call.params.args.push(emitted);
        }
        if let [value, _, default] = call.params.args.as_mut_slice() {
            let wanted = value.get_type(self.schema.as_ref())?;
            if default.get_type(self.schema.as_ref())? != wanted {
                *default = cast(default.clone(), wanted);
            }
        }
        Ok(Some(function))
    }

    /// The value in the type that it shares with another one, as the functions have it that give either.
    fn in_common_type(&mut self, value: &Expr, other: &Expr) -> Result<Expr> {
        let [known, wanted] = [value, other].map(|side| {
            let field = self.emitted(side)?.to_field(self.schema.as_ref())?.1;
            Ok::<_, DataFusionError>(field_type(&field))
        });
        let (Some(known), Some(wanted)) = (known?, wanted?) else { return Ok(value.clone()) };
        if known == wanted || matches!(other, Expr::Literal(ScalarValue::Utf8(_), _)) {
            return Ok(value.clone());
        }
        let Some(common) = common_type(known, wanted) else {
            return Err(external(undefined_function(&format!("lag({known}, integer, {wanted})"))));
        };
        let operand = self.read(value)?;
        self.emit_as(operand, common)
    }
}
