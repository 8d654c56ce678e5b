//! Frames of windows that are told beside the columns which a window is parted by ([`window_frames`](crate::window_frames)), in the
//! typing pass.
//!
//! A bound of a range that is so far away is a value: what the rows are ordered by, less or more the offset, by the operators of that
//! type. The rows are compared with it as they are sorted, by its key where it has one.

use super::keyed;
use super::read::{Operand, Reader};
use crate::name::not_supported;
use crate::olap::error::external;
use crate::olap::framed::{self, Exclusion, Frame, FrameBound, Units};
use crate::olap::planner::UNCONSTRAINED_NUMERIC;
use crate::olap::value::field_type;
use crate::olap::written;
use crate::window_frames::FRAME;
use ankerdb_engine::{DataType, Error, PackedType, SqlState};
use datafusion::arrow::datatypes::Field;
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::{ScalarFunction, WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::{
    Expr, ExprSchemable, WindowFrame, WindowFrameBound, WindowFrameUnits, cast, lit,
};

/// What is told of a frame.
pub(super) struct Told {
    exclusion: Exclusion,
    bounds: Option<(Units, [ToldBound; 2])>,
}

enum ToldBound {
    Unbounded,
    CurrentRow,
    Offset { is_preceding: bool, offset: Expr },
}

/// Takes the call that tells of the frame out of what the window is parted by.
pub(super) fn taken(window: &mut WindowFunctionParams) -> Result<Option<Told>> {
    let is_it = |part: &Expr| matches!(part, Expr::ScalarFunction(call) if call.func.name() == FRAME);
    let Some(position) = window.partition_by.iter().position(is_it) else { return Ok(None) };
    let Expr::ScalarFunction(call) = window.partition_by.remove(position) else { return Ok(None) };
    let told = told(&call);
    told.map(Some).ok_or_else(|| external(not_supported("such a frame of a window")))
}

/// Whether a bound is so far away in values.
pub(super) fn has_values(told: &Told) -> bool {
    let is_offset = |bound: &ToldBound| matches!(bound, ToldBound::Offset { .. });
    told.bounds.as_ref().is_some_and(|(units, bounds)| *units == Units::Range && bounds.iter().any(is_offset))
}

/// 0A000 for a type of which no value is so far from another.
pub(super) fn check_counted(order: &Field) -> Result<()> {
    use DataType as T;
    match field_type(order) {
        Some(
            known @ (T::Boolean
            | T::Text
            | T::Varchar(_)
            | T::Char(_)
            | T::Bytea
            | T::Uuid
            | T::Json
            | T::Jsonb
            | T::Enum(_)),
        ) => {
            let what =
                format!("RANGE with offset PRECEDING/FOLLOWING is not supported for column type {known}");
            Err(external(Error::new(SqlState::FeatureNotSupported, what)))
        }
        _ => Ok(()),
    }
}

/// 0A000 for a moment or an interval and a number that it would be away.
pub(super) fn check_whole(frame: &WindowFrame, order: &Field) -> Result<()> {
    let Some(known) = field_type(order).filter(|known| wanted_offset(*known) == Some(DataType::INTERVAL))
    else {
        return Ok(());
    };
    for bound in [&frame.start_bound, &frame.end_bound] {
        if let WindowFrameBound::Preceding(far) | WindowFrameBound::Following(far) = bound
            && let ScalarValue::Utf8(Some(text)) = far
            && text.parse::<u64>().is_ok()
        {
            return Err(no_offset(known, DataType::Integer));
        }
    }
    Ok(())
}

/// The type of the offsets from values of a type; `None` where values of other types have some.
fn wanted_offset(order: DataType) -> Option<DataType> {
    use DataType as T;
    Some(match order {
        T::SmallInt | T::Integer | T::BigInt => T::BigInt,
        T::Real | T::DoublePrecision => T::DoublePrecision,
        T::Numeric { .. } | T::Number => T::Number,
        T::Date
        | T::Time(_)
        | T::Packed(PackedType::TimeTz)
        | T::Timestamp(_)
        | T::TimestampTz(_)
        | T::Interval(_) => T::INTERVAL,
        _ => return None,
    })
}

/// Whether PostgreSQL finds the offset of this type, as it is or cast without being told.
fn is_offset(offset: DataType, wanted: DataType) -> bool {
    use DataType as T;
    match wanted {
        T::BigInt => matches!(offset, T::SmallInt | T::Integer | T::BigInt),
        T::Number => offset.is_exact(),
        T::DoublePrecision => offset.is_numeric(),
        _ => matches!(offset, T::Interval(_)),
    }
}

fn no_offset(order: DataType, offset: DataType) -> DataFusionError {
    let what = "RANGE with offset PRECEDING/FOLLOWING is not supported for column type";
    let (order, offset) = (order.of_any_precision(), offset.of_any_precision());
    external(Error::new(SqlState::FeatureNotSupported, format!("{what} {order} and offset type {offset}")))
}

fn told(call: &ScalarFunction) -> Option<Told> {
    let (what, bounds) = call.args.split_first()?;
    let exclusion = match text(what)? {
        "" => Exclusion::Nothing,
        "current row" => Exclusion::CurrentRow,
        "group" => Exclusion::Group,
        "ties" => Exclusion::Ties,
        _ => return None,
    };
    let bounds = match bounds {
        [] => None,
        [units, first, first_offset, last, last_offset] => {
            let units = match text(units)? {
                "rows" => Units::Rows,
                "groups" => Units::Groups,
                "range" => Units::Range,
                _ => return None,
            };
            Some((units, [bound(first, first_offset)?, bound(last, last_offset)?]))
        }
        _ => return None,
    };
    Some(Told { exclusion, bounds })
}

fn bound(kind: &Expr, offset: &Expr) -> Option<ToldBound> {
    let is_preceding = match text(kind)? {
        "unbounded" => return Some(ToldBound::Unbounded),
        "current" => return Some(ToldBound::CurrentRow),
        "preceding" => true,
        "following" => false,
        _ => return None,
    };
    Some(ToldBound::Offset { is_preceding, offset: offset.clone() })
}

fn text(argument: &Expr) -> Option<&str> {
    match argument {
        Expr::Literal(ScalarValue::Utf8(Some(text)), _) => Some(text),
        _ => None,
    }
}

/// A range of values that DataFusion would compare by their keys, told in our way; it gets the whole partition.
pub(super) fn of_keys(frame: &mut WindowFrame, told: Option<Told>) -> Told {
    let bound = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::CurrentRow => ToldBound::CurrentRow,
        WindowFrameBound::Preceding(far) | WindowFrameBound::Following(far) if far.is_null() => {
            ToldBound::Unbounded
        }
        WindowFrameBound::Preceding(far) => {
            ToldBound::Offset { is_preceding: true, offset: Expr::Literal(far.clone(), None) }
        }
        WindowFrameBound::Following(far) => {
            ToldBound::Offset { is_preceding: false, offset: Expr::Literal(far.clone(), None) }
        }
    };
    let bounds = (Units::Range, [bound(&frame.start_bound), bound(&frame.end_bound)]);
    let unbounded = ScalarValue::UInt64(None);
    *frame = WindowFrame::new_bounds(
        WindowFrameUnits::Rows,
        WindowFrameBound::Preceding(unbounded.clone()),
        WindowFrameBound::Following(unbounded),
    );
    Told { exclusion: told.map_or(Exclusion::Nothing, |told| told.exclusion), bounds: Some(bounds) }
}

impl Reader<'_, '_> {
    /// Has the function computed over such a frame. `order`: what the rows are ordered by, and whether downwards.
    pub(super) fn framed(
        &mut self,
        window: &mut WindowFunction,
        told: &Told,
        order: Option<(Expr, bool)>,
    ) -> Result<()> {
        let mut arguments = std::mem::take(&mut window.params.args);
        let own = arguments.len();
        let has_filter = window.params.filter.is_some();
        arguments.extend(window.params.filter.take().map(|filter| *filter));
        let is_descending = order.as_ref().is_some_and(|(_, is_descending)| *is_descending);
        let bounds = match &told.bounds {
            None => None,
            Some((units, [first, last])) => {
                let mut made = |bound: &ToldBound| -> Result<FrameBound> {
                    match bound {
                        ToldBound::Unbounded => Ok(FrameBound::Unbounded),
                        ToldBound::CurrentRow => Ok(FrameBound::CurrentRow),
                        ToldBound::Offset { is_preceding, offset } => {
                            let argument = arguments.len();
                            arguments.extend(self.offset(*units, offset, *is_preceding, order.as_ref())?);
                            Ok(FrameBound::Offset { is_preceding: *is_preceding, argument })
                        }
                    }
                };
                Some((*units, made(first)?, made(last)?))
            }
        };
        let frame = Frame { exclusion: told.exclusion, bounds, is_descending, own, has_filter };
        window.fun = framed::over(window.fun.clone(), frame);
        window.params.args = arguments;
        Ok(())
    }

    /// The arguments for a bound that is so far away.
    fn offset(
        &mut self,
        units: Units,
        offset: &Expr,
        is_preceding: bool,
        order: Option<&(Expr, bool)>,
    ) -> Result<Vec<Expr>> {
        if !offset.column_refs().is_empty() {
            let name = match units {
                Units::Rows => "ROWS",
                Units::Groups => "GROUPS",
                Units::Range => "RANGE",
            };
            let message = format!("argument of {name} must not contain variables");
            return Err(external(Error::new(SqlState::InvalidColumnReference, message)));
        }
        if units != Units::Range {
            let operand = self.read(offset)?;
            return Ok(vec![self.emit_as(operand, DataType::BigInt)?]);
        }
        let Some((order, is_descending)) = order else {
            return Err(external(not_supported("RANGE without an order")));
        };
        let known = field_type(&self.emitted(order)?.to_field(self.schema.as_ref())?.1);
        let offset = &self.range_offset(offset, known)?;
        // Counted in numerics of any length, which have no end that an offset could lead behind.
        let base = match known.is_some_and(DataType::is_exact) {
            true => cast(order.clone(), UNCONSTRAINED_NUMERIC),
            false => order.clone(),
        };
        let call = |symbol: &'static str, operands: Vec<Expr>| {
            let function = written::function_of_operator(symbol);
            Expr::ScalarFunction(ScalarFunction::new_udf(function, operands))
        };
        let symbol = if is_preceding == *is_descending { "+" } else { "-" };
        let bound = self.emitted(&call(symbol, vec![base.clone(), offset.clone()]))?;
        let is_negative = self.emitted(&call("<", vec![offset.clone(), lit("0")]))?;
        let base = match field_type(&bound.to_field(self.schema.as_ref())?.1) {
            Some(wanted) => {
                let operand = self.read(&base)?;
                self.emit_as(operand, wanted)?
            }
            None => self.emitted(&base)?,
        };
        let compared = |value: Expr| keyed::framed(keyed::ordered(value, self.schema)?, self.schema);
        Ok(vec![compared(base)?, compared(bound)?, is_negative])
    }

    /// An offset from values of a type; a constant without a type has that of numbers there.
    ///
    /// # Errors
    /// 0A000 for one of a type that PostgreSQL does not find.
    fn range_offset(&mut self, offset: &Expr, order: Option<DataType>) -> Result<Expr> {
        let Some((order, wanted)) = order.and_then(|order| Some((order, wanted_offset(order)?))) else {
            return Ok(offset.clone());
        };
        let Operand::Typed(typed) = self.read(offset)? else { return Ok(offset.clone()) };
        match typed.data_type {
            Some(known) if is_offset(known, wanted) => Ok(offset.clone()),
            Some(known) => Err(no_offset(order, known)),
            None => {
                let wanted = if wanted == DataType::BigInt { order } else { wanted };
                self.emit_as(Operand::Typed(typed), wanted)
            }
        }
    }
}
