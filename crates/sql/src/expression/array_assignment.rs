//! Assignment to an item of an array: `UPDATE t SET a[2] = x`, which [`item_assignments`](crate::item_assignments) writes as a call.

use super::array::push;
use super::array_function::{ArrayFunction, list_of, of_type, position};
use super::array_slice;
use super::bind::{Binder, Bound, Typed, type_name};
use super::notation::ASSIGN_PART;
use super::types::{assignable, is_float};
use super::{Expression, function};
use crate::item_assignments::{ASSIGN, ASSIGN_SLICE};
use ankerdb_engine::{
    ArrayBuilder, ArrayRef, DataType, Error, Interrupt, ListType, Result, SqlState, SystemType, Value,
    ValueRef,
};
use ankerdb_value::Dimension;
use datafusion::sql::sqlparser::ast::Expr;

/// The most dimensions that an array may be given.
pub(super) const DIMENSIONS_MAX: usize = 6;
/// The most items that a position beyond the end may add.
pub(super) const ITEMS_MAX: i64 = 134_217_727;
/// Items between two looks at the interrupt.
const STRIDE: i64 = 1 << 16;

/// The call for an assignment; `None` for other names.
pub(super) fn call(binder: &mut Binder, name: &str, arguments: &[&Expr]) -> Option<Bound<Typed>> {
    match (name, arguments) {
        (ASSIGN, [array, item, positions @ ..]) => Some(assignment(binder, array, item, positions)),
        (ASSIGN_SLICE, [array, items, bounds @ ..]) => {
            Some(assignment_of_slice(binder, array, items, bounds))
        }
        _ => None,
    }
}

fn assignment(binder: &mut Binder, array: &Expr, item: &Expr, positions: &[&Expr]) -> Bound<Typed> {
    let array = binder.bind(array)?;
    if array.data_type == Some(DataType::Jsonb) {
        return assignment_of_part(binder, array, item, positions);
    }
    let list = list_of(&array).ok_or_else(|| not_subscripted(&array))?;
    if positions.len() > DIMENSIONS_MAX {
        return Err(too_many_positions(positions.len()).into());
    }
    let item = binder.bind(item)?;
    let mut arguments = vec![array.expression, as_item(binder, item, list)?];
    for position_of in positions {
        let bound = binder.bind(position_of)?;
        arguments.push(position(binder, &bound)?);
    }
    Ok(of_type(ArrayFunction::Assign, arguments, DataType::System(SystemType::List(list))))
}

fn assignment_of_slice(binder: &mut Binder, array: &Expr, items: &Expr, bounds: &[&Expr]) -> Bound<Typed> {
    let array = binder.bind(array)?;
    if array.data_type == Some(DataType::Jsonb) {
        let message = "jsonb subscript does not support slices";
        return Err(Error::new(SqlState::DatatypeMismatch, message).into());
    }
    let list = list_of(&array).ok_or_else(|| not_subscripted(&array))?;
    let items = binder.bind(items)?;
    let items = converted(binder, items, DataType::System(SystemType::List(list)))?;
    array_slice::assignment(binder, array, list, items, bounds)
}

/// Of a part of a document.
fn assignment_of_part(binder: &mut Binder, document: Typed, item: &Expr, steps: &[&Expr]) -> Bound<Typed> {
    let item = binder.bind(item)?;
    let item = Typed::new(converted(binder, item, DataType::Jsonb)?, DataType::Jsonb);
    let (mut texts, mut is_of_array) = (Vec::new(), None);
    for step in steps {
        let step = binder.bind(step)?;
        let is_position = match step.data_type {
            None => false,
            Some(known) if known.is_text() => false,
            Some(DataType::Integer | DataType::SmallInt) => true,
            Some(known) => {
                let message = format!("subscript type {} is not supported", type_name(known));
                let hint = "jsonb subscript must be coercible to either integer or text.";
                return Err(Error::new(SqlState::DatatypeMismatch, message).with_hint(hint).into());
            }
        };
        is_of_array.get_or_insert(is_position);
        texts.push(binder.cast(step, DataType::Text)?);
    }
    // What is NULL becomes an array or an object.
    let is_of_array = Expression::Literal(Value::Boolean(is_of_array == Some(true)));
    let mut items = vec![document, item, Typed::new(is_of_array, DataType::Boolean)];
    items.extend(texts);
    function::call(binder, ASSIGN_PART, items)
}

pub(super) fn too_many_positions(count: usize) -> Error {
    let message =
        format!("number of array dimensions ({count}) exceeds the maximum allowed ({DIMENSIONS_MAX})");
    Error::new(SqlState::ProgramLimitExceeded, message)
}

pub(super) fn too_large() -> Error {
    let message = format!("array size exceeds the maximum allowed ({ITEMS_MAX})");
    Error::new(SqlState::ProgramLimitExceeded, message)
}

/// Why a value is no position.
pub(super) fn refused_position(value: Option<&Value>) -> Error {
    match value {
        Some(Value::Null) => {
            Error::new(SqlState::NullValueNotAllowed, "array subscript in assignment must not be null")
        }
        _ => Error::internal("a position of an array is no integer"),
    }
}

fn not_subscripted(array: &Typed) -> Error {
    let known = array.data_type.map_or("unknown".to_owned(), type_name);
    let message = format!("cannot subscript type {known} because it does not support subscripting");
    Error::new(SqlState::DatatypeMismatch, message)
}

/// The value as an item, converted as assignment does.
fn as_item(binder: &mut Binder, item: Typed, list: ListType) -> Bound<Expression> {
    match item.data_type {
        // Each keeps its own digits.
        Some(known) if list == ListType::Numeric && known.is_numeric() && !is_float(known) => {
            Ok(item.expression)
        }
        Some(known) if list == ListType::Numeric && assignable(known, list.item_type()) => {
            Ok(binder.cast_to_numeric(item)?.expression)
        }
        _ => converted(binder, item, list.item_type()),
    }
}

/// The value as one of a type, converted as assignment does.
fn converted(binder: &mut Binder, item: Typed, target: DataType) -> Bound<Expression> {
    match item.data_type {
        None => binder.resolve(item, target),
        Some(known) if assignable(known, target) => Ok(binder.cast(item, target)?.expression),
        Some(known) => {
            let (target, known) = (type_name(target), type_name(known));
            let message =
                format!("subscripted assignment requires type {target} but expression is of type {known}");
            let hint = "You will need to rewrite or cast the expression.";
            Err(Error::new(SqlState::DatatypeMismatch, message).with_hint(hint).into())
        }
    }
}

/// The array with the item at the position. An array without items has that one only; one of one dimension grows as far as the position,
/// with NULLs between.
///
/// # Errors
/// 22004 for a position that is NULL, 2202E for one outside of an array of several dimensions and for too few or too many positions,
/// 54000 for an array that would be too large, and the interrupt's.
pub(super) fn assigned(
    array: &Value,
    item: &Value,
    positions: &[Value],
    result: DataType,
    interrupt: &Interrupt,
) -> Result<Value> {
    let position = |position: &Value| match position {
        Value::Integer(position) => Ok(*position),
        other => Err(refused_position(Some(other))),
    };
    let positions = positions.iter().map(position).collect::<Result<Vec<i32>>>()?;
    match array {
        Value::Array(array) if !array.borrow().is_empty() => {
            with_item(array.borrow(), item, &positions, interrupt)
        }
        Value::Array(array) => only_item(array.borrow().list_type(), item, &positions),
        _ => match result {
            DataType::System(SystemType::List(list)) => only_item(list, item, &positions),
            _ => Err(Error::internal("an assignment to an item gives no array")),
        },
    }
}

fn only_item(list: ListType, item: &Value, positions: &[i32]) -> Result<Value> {
    let mut items = ArrayBuilder::new(list);
    push(&mut items, item)?;
    let dimensions = positions.iter().map(|&lower| Dimension { length: 1, lower });
    items.finish_in(&dimensions.collect::<Vec<_>>()).map(Value::Array)
}

fn with_item(array: ArrayRef<'_>, item: &Value, positions: &[i32], interrupt: &Interrupt) -> Result<Value> {
    let dimensions: Vec<Dimension> = array.dimensions().collect();
    let refused = |message: &'static str| Error::new(SqlState::ArraySubscriptError, message);
    let place = |(dimension, position): (&Dimension, &i32)| i64::from(*position) - i64::from(dimension.lower);
    match (dimensions.as_slice(), positions) {
        ([line], [at]) => grown(array, *line, item, place((line, at)), interrupt),
        _ if dimensions.len() != positions.len() => Err(refused("wrong number of array subscripts")),
        _ => {
            let mut at = 0;
            for pair in dimensions.iter().zip(positions) {
                let within = place(pair);
                if !(0..i64::from(pair.0.length)).contains(&within) {
                    return Err(refused("array subscript out of range"));
                }
                at = at * pair.0.length as usize + within as usize;
            }
            let mut items = ArrayBuilder::new(array.list_type());
            for (nth, before) in array.items().enumerate() {
                if nth == at { push(&mut items, item)? } else { items.push(before)? }
            }
            items.finish_in(&dimensions).map(Value::Array)
        }
    }
}

/// An array of one dimension with the item at a place, counted from its first item.
fn grown(
    array: ArrayRef<'_>,
    line: Dimension,
    item: &Value,
    place: i64,
    interrupt: &Interrupt,
) -> Result<Value> {
    let length = i64::from(line.length);
    let (before, behind) = ((-place).max(0), (place + 1 - length).max(0));
    if length + before + behind > ITEMS_MAX {
        return Err(too_large());
    }
    let mut items = ArrayBuilder::new(array.list_type());
    let mut old = array.items();
    for at in place.min(0)..length.max(place + 1) {
        if at % STRIDE == STRIDE - 1 {
            interrupt.check()?;
        }
        let kept = if (0..length).contains(&at) { old.next() } else { None };
        match kept {
            _ if at == place => push(&mut items, item)?,
            Some(kept) => items.push(kept)?,
            None => items.push(ValueRef::Null)?,
        }
    }
    let lower = i32::try_from(i64::from(line.lower) - before)
        .map_err(|_| Error::new(SqlState::NumericValueOutOfRange, "integer out of range"))?;
    let length = items.len() as u32;
    items.finish_in(&[Dimension { length, lower }]).map(Value::Array)
}
