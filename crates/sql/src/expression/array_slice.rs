//! Slices of arrays, `a[1:2]` and `a[:3][2:]`, and assignments to them, which
//! [`item_assignments`](crate::item_assignments) writes as calls.

use super::array::push;
use super::array_assignment::{DIMENSIONS_MAX, ITEMS_MAX, refused_position, too_large, too_many_positions};
use super::array_function::{ArrayFunction, list_of, of_type, position};
use super::bind::{Binder, Bound, elsewhere};
use super::{Expression, Typed};
use crate::item_assignments::OPEN;
use ankerdb_engine::{
    Array, ArrayBuilder, ArrayRef, DataType, Error, Interrupt, ListType, Result, SqlState, SystemType, Value,
    ValueRef,
};
use ankerdb_value::Dimension;
use datafusion::sql::sqlparser::ast::{AccessExpr, Expr, Subscript};
use std::ops::RangeInclusive;

/// Items between two looks at the interrupt.
const STRIDE: usize = 1 << 16;

/// Which bounds of a slice are written: of each dimension the lower one, then the upper one. Those are the call's arguments.
///
/// The number of dimensions is in the first four bits, and the others are one for each bound: expressions stay small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Bounds([u8; 2]);

const BOUNDS_MAX: u32 = 2 * DIMENSIONS_MAX as u32;

/// The bounds of a dimension, where they are written.
type Span = (Option<i32>, Option<i32>);

impl Bounds {
    /// Binds bounds, two for each dimension.
    fn bind(binder: &mut Binder, given: &[Option<&Expr>]) -> Bound<(Bounds, Vec<Expression>)> {
        if given.len() > 2 * DIMENSIONS_MAX {
            return Err(too_many_positions(given.len() / 2).into());
        }
        let (mut written, mut arguments) = (0_u16, Vec::new());
        for (nth, bound) in given.iter().enumerate() {
            if let Some(bound) = bound {
                let bound = binder.bind(bound)?;
                arguments.push(position(binder, &bound)?);
                written |= 1 << nth;
            }
        }
        let dimensions = (given.len() / 2) as u16;
        Ok((Bounds((dimensions << BOUNDS_MAX | written).to_be_bytes()), arguments))
    }

    fn dimensions(self) -> u8 {
        (u16::from_be_bytes(self.0) >> BOUNDS_MAX) as u8
    }

    fn is_written(self, nth: u8) -> bool {
        u16::from_be_bytes(self.0) & (1 << nth) != 0
    }

    /// What is written, by its values.
    fn spans(self, values: &[Value]) -> Result<Vec<Span>> {
        let mut values = values.iter();
        let mut next = |nth: u8| match self.is_written(nth).then(|| values.next()) {
            None => Ok(None),
            Some(Some(Value::Integer(bound))) => Ok(Some(*bound)),
            Some(other) => Err(refused_position(other)),
        };
        (0..self.dimensions()).map(|at| Ok((next(2 * at)?, next(2 * at + 1)?))).collect()
    }

    /// As it is written, with these texts for the bounds.
    pub(crate) fn text(self, mut bounds: impl Iterator<Item = String>) -> String {
        let mut bound = |nth: u8| match self.is_written(nth) {
            true => bounds.next().unwrap_or_default(),
            false => String::new(),
        };
        (0..self.dimensions()).map(|at| format!("[{}:{}]", bound(2 * at), bound(2 * at + 1))).collect()
    }
}

/// `root[1:2]`: where one subscript is a slice, all of them are, and a single position ends one that begins with 1.
pub(super) fn slice(binder: &mut Binder, root: &Expr, chain: &[AccessExpr]) -> Bound<Typed> {
    let one = Expr::value(datafusion::sql::sqlparser::ast::Value::Number("1".to_owned(), false));
    let array = binder.bind(root)?;
    let Some(list) = list_of(&array) else { return elsewhere("a slice of what is no array") };
    let mut given = Vec::new();
    for access in chain {
        match access {
            AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, stride: None }) => {
                given.extend([lower_bound.as_ref(), upper_bound.as_ref()]);
            }
            AccessExpr::Subscript(Subscript::Index { index }) => given.extend([Some(&one), Some(index)]),
            _ => return elsewhere("a slice with a stride"),
        }
    }
    let (bounds, positions) = Bounds::bind(binder, &given)?;
    let arguments = std::iter::once(array.expression).chain(positions).collect();
    Ok(of_type(ArrayFunction::Slice(bounds), arguments, DataType::System(SystemType::List(list))))
}

/// The call for an assignment to a slice of an array; `bounds` are two for each dimension.
pub(super) fn assignment(
    binder: &mut Binder,
    array: Typed,
    list: ListType,
    items: Expression,
    bounds: &[&Expr],
) -> Bound<Typed> {
    let is_open = |bound: &Expr| matches!(bound, Expr::Identifier(name) if name.value == OPEN);
    let given: Vec<Option<&Expr>> =
        bounds.iter().map(|&bound| Some(bound).filter(|bound| !is_open(bound))).collect();
    let (bounds, positions) = Bounds::bind(binder, &given)?;
    let arguments = [array.expression, items].into_iter().chain(positions).collect();
    Ok(of_type(ArrayFunction::AssignSlice(bounds), arguments, DataType::System(SystemType::List(list))))
}

/// The items within the bounds, counted from 1; an array without items where there are none.
pub(super) fn sliced(
    array: ArrayRef<'_>,
    bounds: Bounds,
    values: &[Value],
    interrupt: &Interrupt,
) -> Result<Value> {
    let (spans, dimensions) = (bounds.spans(values)?, array.dimensions().collect::<Vec<_>>());
    let within = |(nth, dimension): (usize, &Dimension)| {
        let (lower, upper) = spans.get(nth).copied().unwrap_or((None, None));
        let first = i64::from(dimension.lower);
        let low = lower.map_or(first, i64::from).max(first);
        let high = upper.map_or(dimension.upper(), i64::from).min(dimension.upper());
        low - first..=high - first
    };
    let ranges: Vec<RangeInclusive<i64>> = dimensions.iter().enumerate().map(within).collect();
    if dimensions.len() < spans.len() || ranges.is_empty() || ranges.iter().any(RangeInclusive::is_empty) {
        return Ok(Value::Array(Array::empty(array.list_type())));
    }
    let mut items = ArrayBuilder::new(array.list_type());
    for (nth, item) in array.items().enumerate() {
        if nth % STRIDE == STRIDE - 1 {
            interrupt.check()?;
        }
        if is_within(nth, &dimensions, &ranges) {
            items.push(item)?;
        }
    }
    let lengths = ranges.iter().map(|range| Dimension { length: length(range) as u32, lower: 1 });
    items.finish_in(&lengths.collect::<Vec<_>>()).map(Value::Array)
}

fn length(range: &RangeInclusive<i64>) -> i64 {
    range.end() - range.start() + 1
}

/// Whether the item that is so many behind the first one is in all ranges.
fn is_within(nth: usize, dimensions: &[Dimension], ranges: &[RangeInclusive<i64>]) -> bool {
    let mut left = nth as i64;
    dimensions.iter().zip(ranges).rev().all(|(dimension, range)| {
        let length = i64::from(dimension.length);
        let at = left % length;
        left /= length;
        range.contains(&at)
    })
}

/// The array with other items within the bounds. One of one dimension grows as far as they go, with NULLs between. Where the other items
/// are NULL, it stays as it is.
///
/// # Errors
/// 22004 for a bound that is NULL, 2202E for bounds outside of an array of several dimensions, bounds that are left out of an array
/// without items, and fewer new items than places, 54000 for an array that would be too large, and the interrupt's.
pub(super) fn assigned(
    array: &Value,
    source: &Value,
    bounds: Bounds,
    values: &[Value],
    list: ListType,
    interrupt: &Interrupt,
) -> Result<Value> {
    let spans = bounds.spans(values)?;
    let source = match (source, array) {
        (Value::Array(source), _) => source,
        (_, Value::Null) => return Ok(Value::Array(Array::empty(list))),
        _ => return Ok(array.clone()),
    };
    let source = source.borrow();
    match array {
        Value::Array(array) if !array.borrow().is_empty() => {
            let array = array.borrow();
            let dimensions: Vec<Dimension> = array.dimensions().collect();
            match (dimensions.as_slice(), spans.as_slice()) {
                ([line], [span]) => grown(array, *line, source, *span, interrupt),
                _ => replaced(array, &dimensions, source, &spans, interrupt),
            }
        }
        _ => only_slice(source, &spans),
    }
}

fn refused(message: &'static str) -> Error {
    Error::new(SqlState::ArraySubscriptError, message)
}

fn check_source(source: ArrayRef<'_>, places: i64) -> Result<()> {
    if (source.len() as i64) < places { Err(refused("source array too small")) } else { Ok(()) }
}

/// An array of the slice alone.
fn only_slice(source: ArrayRef<'_>, spans: &[Span]) -> Result<Value> {
    let (mut dimensions, mut places) = (Vec::new(), 1_i64);
    for span in spans {
        let (Some(lower), Some(upper)) = *span else {
            let detail = "When assigning to a slice of an empty array value, slice boundaries must be fully specified.";
            return Err(refused("array slice subscript must provide both boundaries").with_detail(detail));
        };
        let length = 1 + i64::from(upper) - i64::from(lower);
        places = places.saturating_mul(length);
        if length < 0 || places > ITEMS_MAX {
            return Err(too_large());
        }
        dimensions.push(Dimension { length: length as u32, lower });
    }
    check_source(source, places)?;
    if places == 0 {
        return Ok(Value::Array(Array::empty(source.list_type())));
    }
    let mut items = ArrayBuilder::new(source.list_type());
    source.items().take(places as usize).try_for_each(|item| items.push(item))?;
    items.finish_in(&dimensions).map(Value::Array)
}

fn check_order(low: i64, high: i64) -> Result<()> {
    if low > high { Err(refused("upper bound cannot be less than lower bound")) } else { Ok(()) }
}

/// An array of one dimension with other items between two positions.
fn grown(
    array: ArrayRef<'_>,
    line: Dimension,
    source: ArrayRef<'_>,
    (lower, upper): Span,
    interrupt: &Interrupt,
) -> Result<Value> {
    let (first, last) = (i64::from(line.lower), line.upper());
    let (low, high) = (lower.map_or(first, i64::from), upper.map_or(last, i64::from));
    check_order(low, high)?;
    let all = low.min(first)..=high.max(last);
    if length(&all) > ITEMS_MAX {
        return Err(too_large());
    }
    check_source(source, high - low + 1)?;
    let mut items = ArrayBuilder::new(array.list_type());
    let (mut old, mut new) = (array.items(), source.items());
    for at in all.clone() {
        if at % STRIDE as i64 == 0 {
            interrupt.check()?;
        }
        let kept = if (first..=last).contains(&at) { old.next() } else { None };
        let given = if (low..=high).contains(&at) { new.next() } else { kept };
        items.push(given.unwrap_or(ValueRef::Null))?;
    }
    let lower = i32::try_from(*all.start())
        .map_err(|_| Error::new(SqlState::NumericValueOutOfRange, "integer out of range"))?;
    let length = items.len() as u32;
    items.finish_in(&[Dimension { length, lower }]).map(Value::Array)
}

/// An array of several dimensions with other items within the bounds.
fn replaced(
    array: ArrayRef<'_>,
    dimensions: &[Dimension],
    source: ArrayRef<'_>,
    spans: &[Span],
    interrupt: &Interrupt,
) -> Result<Value> {
    if dimensions.len() < spans.len() {
        return Err(refused("wrong number of array subscripts"));
    }
    let mut ranges = Vec::new();
    for (nth, dimension) in dimensions.iter().enumerate() {
        let (lower, upper) = spans.get(nth).copied().unwrap_or((None, None));
        let (first, last) = (i64::from(dimension.lower), dimension.upper());
        let (low, high) = (lower.map_or(first, i64::from), upper.map_or(last, i64::from));
        check_order(low, high)?;
        if low < first || high > last {
            return Err(refused("array subscript out of range"));
        }
        ranges.push(low - first..=high - first);
    }
    check_source(source, ranges.iter().map(length).product())?;
    let (mut items, mut new) = (ArrayBuilder::new(array.list_type()), source.items());
    for (nth, old) in array.items().enumerate() {
        if nth % STRIDE == STRIDE - 1 {
            interrupt.check()?;
        }
        let given = if is_within(nth, dimensions, &ranges) { new.next() } else { None };
        match given {
            Some(given) => push(&mut items, &given.to_value())?,
            None => items.push(old)?,
        }
    }
    items.finish_in(dimensions).map(Value::Array)
}
