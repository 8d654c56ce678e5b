//! Functions and operators of arrays, and subscripts: PostgreSQL 15's, over arrays of any dimensions and positions.
//!
//! Analytical queries have functions of their own for lists (`olap/typing`); these are for everything else: constraints, generated
//! columns, indexes, defaults, statements by a key, RETURNING and ON CONFLICT.

use super::array::push;
use super::array_assignment::assigned;
use super::array_slice::{self, Bounds};
use super::bind::{Binder, Bound, Typed, elsewhere};
use super::evaluate::{order, shown};
use super::notation::SUBSCRIPT;
use super::operator::is_quoted;
use super::types::{alternative_type, common_type, family, is_float};
use super::{Expression, Function, function};
use ankerdb_engine::{
    Array, ArrayBuilder, ArrayRef, DataType, Error, Interrupt, ListType, Result, SqlState, SystemType, Value,
};
use ankerdb_value::{Dimension, cast};
use datafusion::sql::sqlparser::ast::{AccessExpr, Expr, Subscript};
use std::cmp::Ordering;

/// Items between two looks at the interrupt.
const STRIDE: usize = 1024;

/// PostgreSQL's limits of an array.
const DIMENSIONS_MAX: usize = 6;
const ITEMS_MAX: u64 = 134_217_727;

/// A function of arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ArrayFunction {
    /// `a[1]`, `a[1][2]`.
    Subscript,
    Length,
    Lower,
    Upper,
    Cardinality,
    DimensionCount,
    Dimensions,
    Append,
    Prepend,
    Concatenate,
    Position,
    Positions,
    Remove,
    Replace,
    ToText,
    /// An array of one item over and over.
    Fill,
    /// The array without its last items.
    Trim,
    Contains,
    ContainedBy,
    Overlaps,
    /// `a[1:2]`.
    Slice(Bounds),
    /// `SET a[1] = item`: the array with it.
    Assign,
    /// `SET a[1:2] = array`: the array with its items.
    AssignSlice(Bounds),
}

use ArrayFunction as F;

/// What an argument has to be, seen from the array's type.
#[derive(Clone, Copy)]
enum Taken {
    /// The array.
    List,
    /// An item of it.
    Item,
    Integer,
    Text,
    /// An array of integers.
    Integers,
}

use Taken as T;

/// The functions that are called by a name, and what they take: the last so many arguments may be left out.
const CALLS: [(&str, ArrayFunction, &[Taken], usize); 16] = [
    ("array_length", F::Length, &[T::List, T::Integer], 0),
    ("array_lower", F::Lower, &[T::List, T::Integer], 0),
    ("array_upper", F::Upper, &[T::List, T::Integer], 0),
    ("cardinality", F::Cardinality, &[T::List], 0),
    ("array_ndims", F::DimensionCount, &[T::List], 0),
    ("array_dims", F::Dimensions, &[T::List], 0),
    ("array_append", F::Append, &[T::List, T::Item], 0),
    ("array_prepend", F::Prepend, &[T::Item, T::List], 0),
    ("array_cat", F::Concatenate, &[T::List, T::List], 0),
    ("array_position", F::Position, &[T::List, T::Item, T::Integer], 1),
    ("array_positions", F::Positions, &[T::List, T::Item], 0),
    ("array_remove", F::Remove, &[T::List, T::Item], 0),
    ("array_replace", F::Replace, &[T::List, T::Item, T::Item], 0),
    ("array_to_string", F::ToText, &[T::List, T::Text, T::Text], 1),
    ("array_fill", F::Fill, &[T::Item, T::Integers, T::Integers], 1),
    ("trim_array", F::Trim, &[T::List, T::Integer], 0),
];

/// What a function of this name that takes so many arguments takes.
fn by_name(name: &str, arguments: usize) -> Option<(ArrayFunction, &'static [Taken])> {
    let takes = |taken: &[Taken], optional| (taken.len() - optional..=taken.len()).contains(&arguments);
    let mut calls =
        CALLS.iter().filter(|(known, _, taken, optional)| *known == name && takes(taken, *optional));
    calls.next().map(|&(_, function, taken, _)| (function, &taken[..arguments]))
}

/// The type of the array that an argument is. Vectors of the catalog are none.
pub(super) fn list_of(item: &Typed) -> Option<ListType> {
    match item.data_type {
        Some(DataType::System(SystemType::List(list))) if !list.is_vector() => Some(list.unlimited()),
        _ => None,
    }
}

/// Whether the function brings its arrays and items to one type (`anycompatiblearray`); others take one type only.
fn is_compatible(function: ArrayFunction) -> bool {
    let is_looking = matches!(function, F::Position | F::Positions | F::Remove | F::Replace);
    is_looking || matches!(function, F::Append | F::Prepend | F::Concatenate)
}

/// The type of the items that an argument brings.
fn items_of(item: &Typed, taken: Taken) -> Option<DataType> {
    match taken {
        T::List => list_of(item).map(item_type),
        T::Item => item.data_type,
        T::Integer | T::Text | T::Integers => None,
    }
}

/// The names of functions that are called so.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    CALLS.iter().map(|(name, ..)| *name)
}

/// What arrays and items of several types become beside each other.
pub(crate) enum Common {
    /// They are of one already, or the function does not ask.
    Same,
    /// They have nothing in common.
    Apart,
    /// This one; for each argument whether it is the array, an item of it, or something else.
    List(ListType, Vec<Option<bool>>),
}

/// What the arguments of a call by name, or of the operator `||`, become beside each other.
pub(crate) fn common_list(name: &str, items: &[Typed]) -> Common {
    let taken: Option<(_, &[Taken])> = match (name, items) {
        ("||", [left, right]) => match (list_of(left), list_of(right)) {
            (Some(_), Some(_)) => Some((F::Concatenate, &[T::List, T::List])),
            (Some(_), None) if right.data_type.is_some() => Some((F::Append, &[T::List, T::Item])),
            (None, Some(_)) if left.data_type.is_some() => Some((F::Prepend, &[T::Item, T::List])),
            _ => None,
        },
        _ => by_name(name, items.len()),
    };
    let Some((_, taken)) = taken.filter(|(function, _)| is_compatible(*function)) else {
        return Common::Same;
    };
    let types: Vec<DataType> =
        items.iter().zip(taken).filter_map(|(item, taken)| items_of(item, *taken)).collect();
    let is_one = types.windows(2).all(|pair| family(pair[0]) == family(pair[1]));
    if is_one && !items.iter().any(is_quoted) {
        return Common::Same;
    }
    let common = types.into_iter().map(Some).reduce(|left, right| alternative_type(left?, right?));
    let roles = taken.iter().map(|taken| match taken {
        T::List => Some(true),
        T::Item => Some(false),
        _ => None,
    });
    match common.flatten().and_then(ListType::of) {
        Some(list) => Common::List(list, roles.collect()),
        None => Common::Apart,
    }
}

/// A call of a function of arrays; `None` if the name is none's.
pub(super) fn call(binder: &mut Binder, name: &str, arguments: &[&Expr]) -> Option<Bound<Typed>> {
    let (function, taken) = by_name(name, arguments.len())?;
    let items = arguments.iter().map(|argument| binder.bind(argument)).collect::<Bound<Vec<_>>>();
    Some(items.and_then(|items| typed(binder, function, items, taken)))
}

/// An operator of arrays; `None` if no operand is one.
pub(super) fn operator(
    binder: &mut Binder,
    left: &Typed,
    symbol: &str,
    right: &Typed,
) -> Option<Bound<Typed>> {
    let (function, taken): (_, &[Taken]) = match (symbol, list_of(left), list_of(right)) {
        (_, None, None) => return None,
        ("@>", ..) => (F::Contains, &[T::List, T::List]),
        ("<@", ..) => (F::ContainedBy, &[T::List, T::List]),
        ("&&", ..) => (F::Overlaps, &[T::List, T::List]),
        ("||", Some(_), None) if right.data_type.is_some() => (F::Append, &[T::List, T::Item]),
        ("||", None, Some(_)) if left.data_type.is_some() => (F::Prepend, &[T::Item, T::List]),
        // What has no type is an array, too.
        ("||", ..) => (F::Concatenate, &[T::List, T::List]),
        _ => return None,
    };
    Some(typed(binder, function, vec![left.clone(), right.clone()], taken))
}

/// `root[1]`, of an array; positions of documents and of the catalog's vectors are another's.
pub(super) fn subscript(binder: &mut Binder, root: &Expr, chain: &[AccessExpr]) -> Bound<Typed> {
    if chain.iter().any(|access| matches!(access, AccessExpr::Subscript(Subscript::Slice { .. }))) {
        return array_slice::slice(binder, root, chain);
    }
    let mut items = vec![binder.bind(root)?];
    for access in chain {
        let AccessExpr::Subscript(Subscript::Index { index }) = access else {
            return elsewhere("a field of an array");
        };
        items.push(binder.bind(index)?);
    }
    match subscripted_by(binder, &items) {
        Some(item) => item,
        None if items[0].data_type == Some(DataType::Jsonb) => function::call(binder, SUBSCRIPT, items),
        None => elsewhere("a subscript of what is no array"),
    }
}

/// The array and its positions, which are converted as assignment does; `None` if the first is no array.
pub(super) fn subscripted_by(binder: &mut Binder, items: &[Typed]) -> Option<Bound<Typed>> {
    let (root, positions) = items.split_first()?;
    let list = list_of(root)?;
    let positions = positions.iter().map(|item| position(binder, item)).collect::<Bound<Vec<_>>>();
    Some(positions.map(|positions| {
        let arguments = std::iter::once(root.expression.clone()).chain(positions).collect();
        let item = if list == ListType::Varchar { DataType::ANY_VARCHAR } else { item_type(list) };
        of_type(F::Subscript, arguments, item)
    }))
}

/// A position, which is converted as assignment does.
pub(super) fn position(binder: &mut Binder, item: &Typed) -> Bound<Expression> {
    match item.data_type {
        Some(known) if known.is_numeric() => {
            binder.cast(item.clone(), DataType::Integer).map(|cast| cast.expression)
        }
        None => binder.resolve(item.clone(), DataType::Integer),
        Some(_) => {
            Err(Error::new(SqlState::DatatypeMismatch, "array subscript must have type integer").into())
        }
    }
}

/// The type of an item by itself.
pub(crate) fn item_type(list: ListType) -> DataType {
    match list {
        ListType::Numeric => DataType::Number,
        ListType::Varchar => DataType::ANY_VARCHAR,
        other => other.item_type(),
    }
}

pub(super) fn of_type(function: ArrayFunction, arguments: Vec<Expression>, data_type: DataType) -> Typed {
    Typed::new(Expression::Call(Function::Array(function, data_type), arguments), data_type)
}

/// The call with arguments of the types that it takes.
fn typed(binder: &mut Binder, function: ArrayFunction, items: Vec<Typed>, taken: &[Taken]) -> Bound<Typed> {
    let mut common: Option<DataType> = None;
    for (item, taken) in items.iter().zip(taken) {
        common = match (common, items_of(item, *taken)) {
            (Some(left), Some(right)) if is_compatible(function) => match alternative_type(left, right) {
                Some(both) => Some(both),
                None => return elsewhere("arrays of several types"),
            },
            (Some(left), Some(right)) if left != right => return elsewhere("arrays of several types"),
            (left, right) => left.or(right),
        };
    }
    let Some(list) = common.and_then(ListType::of) else {
        if function == F::Fill && items[0].data_type.is_none() {
            let message = "could not determine polymorphic type because input has type unknown";
            return Err(Error::new(SqlState::DatatypeMismatch, message).into());
        }
        return elsewhere("a function of arrays without one");
    };
    let arguments = items.into_iter().zip(taken).map(|(item, taken)| taken_as(binder, item, *taken, list));
    let arguments = arguments.collect::<Bound<Vec<_>>>()?;
    let itself = DataType::System(SystemType::List(list));
    let result = match function {
        F::Length | F::Lower | F::Upper | F::Cardinality | F::DimensionCount | F::Position => {
            DataType::Integer
        }
        F::Dimensions | F::ToText => DataType::Text,
        F::Subscript | F::Slice(_) | F::Assign | F::AssignSlice(_) => return Err(wrong().into()),
        F::Append | F::Prepend | F::Concatenate | F::Remove | F::Replace | F::Fill | F::Trim => itself,
        F::Positions => DataType::System(SystemType::List(ListType::Integer)),
        F::Contains | F::ContainedBy | F::Overlaps => DataType::Boolean,
    };
    Ok(of_type(function, arguments, result))
}

/// An argument as what the function takes.
fn taken_as(binder: &mut Binder, item: Typed, taken: Taken, list: ListType) -> Bound<Expression> {
    let wanted = match taken {
        T::List => DataType::System(SystemType::List(list)),
        T::Item => item_type(list),
        T::Integer => DataType::Integer,
        T::Text => DataType::Text,
        T::Integers => DataType::System(SystemType::List(ListType::Integer)),
    };
    let Some(known) = item.data_type else { return binder.resolve(item, wanted) };
    let fits = match taken {
        T::List | T::Integers => list_of(&item).is_some(),
        // Each keeps its own digits.
        T::Item if list == ListType::Numeric => known.is_numeric() && !is_float(known),
        T::Item | T::Integer => {
            known == wanted
                || common_type(known, wanted).is_some_and(|common| family(common) == family(wanted))
        }
        T::Text => known.is_text(),
    };
    match (fits, taken) {
        (false, _) => elsewhere("an argument of another type beside an array"),
        (true, T::List | T::Integers) if known == wanted => Ok(item.expression),
        (true, T::List) if list_of(&item) == Some(list) => Ok(item.expression),
        (true, T::List) => Ok(Expression::Cast(Box::new(item.expression), wanted)),
        (true, T::Integers) => elsewhere("dimensions that are no integers"),
        (true, _) => binder.resolve(item, wanted),
    }
}

impl ArrayFunction {
    pub(crate) fn name(self) -> &'static str {
        match self {
            F::Subscript => "[]",
            F::Slice(_) => "[:]",
            F::Assign => "assignment to an item",
            F::AssignSlice(_) => "assignment to a slice",
            F::Contains => "operator @>",
            F::ContainedBy => "operator <@",
            F::Overlaps => "operator &&",
            named => {
                CALLS.iter().find(|(_, function, ..)| *function == named).map_or("array", |(name, ..)| name)
            }
        }
    }

    /// Whether equal arguments give equal results: texts of items depend on settings.
    pub(crate) fn is_immutable(self) -> bool {
        self != F::ToText
    }

    /// Whether a NULL among the arguments makes the result NULL.
    pub(super) fn is_strict(self) -> bool {
        !matches!(
            self,
            F::Append
                | F::Prepend
                | F::Concatenate
                | F::Position
                | F::Positions
                | F::Remove
                | F::Replace
                | F::ToText
                | F::Fill
                | F::Assign
                | F::AssignSlice(_)
        )
    }

    /// Computes the function; the type is its result's.
    ///
    /// # Errors
    /// PostgreSQL's for dimensions that do not fit, 54000 for results that are too large, and the interrupt's.
    pub(super) fn compute(self, values: &[Value], result: DataType, interrupt: &Interrupt) -> Result<Value> {
        let is_null = |value: &Value| value.is_null();
        if self.is_strict() && values.iter().any(is_null) {
            return Ok(Value::Null);
        }
        match (self, values) {
            (F::Assign, [array, item, positions @ ..]) => assigned(array, item, positions, result, interrupt),
            (F::AssignSlice(bounds), [array, source, values @ ..]) => {
                array_slice::assigned(array, source, bounds, values, list_result(result)?, interrupt)
            }
            (F::Prepend, [item, array]) => append(array, item, true, result),
            (F::Append, [array, item]) => append(array, item, false, result),
            (F::Concatenate, [Value::Null, other] | [other, Value::Null]) => Ok(other.clone()),
            (F::Fill, [item, lengths, lowers @ ..]) => {
                filled(item, lengths, lowers.first(), list_result(result)?, interrupt)
            }
            (F::Concatenate, [Value::Array(left), Value::Array(right)]) => {
                concatenate(left.borrow(), right.borrow())
            }
            (_, [first, ..]) if first.is_null() => Ok(Value::Null),
            (_, [Value::Array(array), rest @ ..]) => self.of(array.borrow(), rest, result, interrupt),
            _ => Err(wrong()),
        }
    }

    fn of(
        self,
        array: ArrayRef<'_>,
        rest: &[Value],
        result: DataType,
        interrupt: &Interrupt,
    ) -> Result<Value> {
        let dimension = || match rest {
            [Value::Integer(nth)] => {
                usize::try_from(*nth).ok().and_then(|nth| array.dimensions().nth(nth.checked_sub(1)?))
            }
            _ => None,
        };
        let integer = |value: Option<i64>| value.map_or(Value::Null, |value| Value::Integer(value as i32));
        Ok(match (self, rest) {
            (F::Subscript, positions) => return subscripted(array, positions, result),
            (F::Slice(bounds), values) => return array_slice::sliced(array, bounds, values, interrupt),
            (F::Length, _) => integer(dimension().map(|dimension| i64::from(dimension.length))),
            (F::Lower, _) => integer(dimension().map(|dimension| i64::from(dimension.lower))),
            (F::Upper, _) => integer(dimension().map(Dimension::upper)),
            (F::Cardinality, _) => integer(Some(array.len() as i64)),
            (F::DimensionCount, _) => {
                integer(Some(array.dimensions().len() as i64).filter(|count| *count > 0))
            }
            (F::Dimensions, _) => {
                let bounds = |dimension: Dimension| format!("[{}:{}]", dimension.lower, dimension.upper());
                let text: String = array.dimensions().map(bounds).collect();
                if text.is_empty() { Value::Null } else { Value::text(text) }
            }
            (F::Position, [item, from @ ..]) => return position_of(array, item, from.first(), interrupt),
            (F::Positions, [item]) => return positions(array, item, interrupt),
            (F::Remove, [item]) => return without(array, item, interrupt),
            (F::Replace, [old, new]) => return replaced(array, old, new, interrupt),
            (F::Trim, [Value::Integer(count)]) => return trimmed(array, *count, interrupt),
            (F::ToText, [Value::Null, ..]) => Value::Null,
            (F::ToText, [between, null @ ..]) => return text_of(array, between, null.first(), interrupt),
            (F::Contains, [Value::Array(other)]) => Value::Boolean(all_in(other.borrow(), array, interrupt)?),
            (F::ContainedBy, [Value::Array(other)]) => {
                Value::Boolean(all_in(array, other.borrow(), interrupt)?)
            }
            (F::Overlaps, [Value::Array(other)]) => {
                let (left, right) = (Sought::new(array), Sought::new(other.borrow()));
                let (few, many) = if left.0.len() < right.0.len() { (left, right) } else { (right, left) };
                Value::Boolean(few.count_in(&many, interrupt)? > 0)
            }
            _ => return Err(wrong()),
        })
    }
}

fn wrong() -> Error {
    Error::internal("a function of arrays got other arguments")
}

fn list_result(result: DataType) -> Result<ListType> {
    match result {
        DataType::System(SystemType::List(list)) => Ok(list),
        _ => Err(wrong()),
    }
}

/// The only dimension of an array that has at most one; one without items if it has none.
fn line(array: ArrayRef<'_>) -> Option<Dimension> {
    let mut dimensions = array.dimensions();
    let first = dimensions.next().unwrap_or(Dimension { length: 0, lower: 1 });
    dimensions.next().is_none().then_some(first)
}

fn subscripted(array: ArrayRef<'_>, positions: &[Value], result: DataType) -> Result<Value> {
    if positions.len() != array.dimensions().len() {
        return Ok(Value::Null);
    }
    let mut at = 0_usize;
    for (dimension, position) in array.dimensions().zip(positions) {
        let Value::Integer(position) = position else { return Err(wrong()) };
        let within = i64::from(*position) - i64::from(dimension.lower);
        if !(0..i64::from(dimension.length)).contains(&within) {
            return Ok(Value::Null);
        }
        at = at * dimension.length as usize + within as usize;
    }
    match array.items().nth(at).map(|item| item.to_value()) {
        None | Some(Value::Null) => Ok(Value::Null),
        Some(item) if result == DataType::Number => cast(item, DataType::Number),
        Some(item) => Ok(item),
    }
}

/// The array and an item more, before its first or behind its last one. Positions begin where they did.
fn append(array: &Value, item: &Value, at_front: bool, result: DataType) -> Result<Value> {
    let empty;
    let array = match array {
        Value::Array(array) => array.borrow(),
        Value::Null => {
            empty = Array::empty(list_result(result)?);
            empty.borrow()
        }
        _ => return Err(wrong()),
    };
    let Some(dimension) = line(array) else {
        let message = "argument must be empty or one-dimensional array";
        return Err(Error::new(SqlState::DataException, message));
    };
    if dimension.upper() >= i64::from(i32::MAX) - 1 && dimension.length > 0 {
        return Err(Error::new(SqlState::NumericValueOutOfRange, "integer out of range"));
    }
    let mut items = ArrayBuilder::new(array.list_type());
    if at_front {
        push(&mut items, item)?;
    }
    array.items().try_for_each(|item| items.push(item))?;
    if !at_front {
        push(&mut items, item)?;
    }
    let length = items.len() as u32;
    items.finish_in(&[Dimension { length, ..dimension }]).map(Value::Array)
}

/// The items of both: of as many dimensions, or one is an item of the other. Positions begin where those of the one with more
/// dimensions do, or of the left.
fn concatenate(left: ArrayRef<'_>, right: ArrayRef<'_>) -> Result<Value> {
    if left.is_empty() || right.is_empty() {
        return Ok(Value::Array(if left.is_empty() { right } else { left }.to_array()));
    }
    let (ours, theirs): (Vec<_>, Vec<_>) = (left.dimensions().collect(), right.dimensions().collect());
    let (count, other) = (ours.len(), theirs.len());
    let (mut outer, inner, added) = match count.abs_diff(other) {
        0 => (ours, &theirs[1..], theirs[0].length),
        1 if count > other => (ours, &theirs[..], 1),
        1 => (theirs, &ours[..], 1),
        _ => {
            let detail =
                format!("Arrays of {count} and {other} dimensions are not compatible for concatenation.");
            return Err(apart(detail));
        }
    };
    if outer[1..] != *inner {
        let what = if count == other { "element dimensions" } else { "dimensions" };
        return Err(apart(format!("Arrays with differing {what} are not compatible for concatenation.")));
    }
    outer[0].length = outer[0].length.saturating_add(added);
    let mut items = ArrayBuilder::new(left.list_type());
    left.items().chain(right.items()).try_for_each(|item| items.push(item))?;
    items.finish_in(&outer).map(Value::Array)
}

fn apart(detail: String) -> Error {
    Error::new(SqlState::ArraySubscriptError, "cannot concatenate incompatible arrays").with_detail(detail)
}

/// Whether the two are equal, as NULLs are among each other.
fn is_same(left: &Value, right: &Value) -> Result<bool> {
    Ok(match (left, right) {
        (Value::Null, Value::Null) => true,
        _ => order(left, right)? == Some(Ordering::Equal),
    })
}

/// The items as values, looking at the interrupt now and then.
fn values<'a>(
    array: ArrayRef<'a>,
    interrupt: &'a Interrupt,
) -> impl Iterator<Item = Result<Value>> + use<'a> {
    array.items().enumerate().map(move |(nth, item)| {
        if nth % STRIDE == STRIDE - 1 {
            interrupt.check()?;
        }
        Ok(item.to_value())
    })
}

/// The only dimension; 0A000 with this message if there are several.
fn only_dimension(array: ArrayRef<'_>, what: &str) -> Result<Dimension> {
    let message = || format!("{what} multidimensional arrays is not supported");
    line(array).ok_or_else(|| Error::new(SqlState::FeatureNotSupported, message()))
}

const SEARCHING: &str = "searching for elements in";

fn position_of(
    array: ArrayRef<'_>,
    item: &Value,
    from: Option<&Value>,
    interrupt: &Interrupt,
) -> Result<Value> {
    let lower = i64::from(only_dimension(array, SEARCHING)?.lower);
    let from = match from {
        None => lower,
        Some(Value::Integer(from)) => i64::from(*from),
        Some(_) => {
            return Err(Error::new(SqlState::NullValueNotAllowed, "initial position must not be null"));
        }
    };
    for (at, value) in (lower..).zip(values(array, interrupt)) {
        if at >= from && is_same(&value?, item)? {
            return Ok(Value::Integer(at as i32));
        }
    }
    Ok(Value::Null)
}

fn positions(array: ArrayRef<'_>, item: &Value, interrupt: &Interrupt) -> Result<Value> {
    let lower = only_dimension(array, SEARCHING)?.lower;
    let mut found = ArrayBuilder::new(ListType::Integer);
    for (at, value) in (lower..).zip(values(array, interrupt)) {
        if is_same(&value?, item)? {
            push(&mut found, &Value::Integer(at))?;
        }
    }
    Ok(Value::Array(found.finish()))
}

fn without(array: ArrayRef<'_>, item: &Value, interrupt: &Interrupt) -> Result<Value> {
    let dimension = only_dimension(array, "removing elements from")?;
    let mut items = ArrayBuilder::new(array.list_type());
    for value in values(array, interrupt) {
        let value = value?;
        if !is_same(&value, item)? {
            push(&mut items, &value)?;
        }
    }
    let length = items.len() as u32;
    items.finish_in(&[Dimension { length, ..dimension }]).map(Value::Array)
}

fn replaced(array: ArrayRef<'_>, old: &Value, new: &Value, interrupt: &Interrupt) -> Result<Value> {
    let mut items = ArrayBuilder::new(array.list_type());
    for value in values(array, interrupt) {
        let value = value?;
        push(&mut items, if is_same(&value, old)? { new } else { &value })?;
    }
    let dimensions: Vec<Dimension> = array.dimensions().collect();
    items.finish_in(&dimensions).map(Value::Array)
}

/// An array of these lengths, of which every item is this one.
fn filled(
    item: &Value,
    lengths: &Value,
    lowers: Option<&Value>,
    list: ListType,
    interrupt: &Interrupt,
) -> Result<Value> {
    let (lengths, lowers) = (numbers_of(lengths)?, lowers.map(numbers_of).transpose()?);
    if lengths.len() > DIMENSIONS_MAX {
        let message = format!(
            "number of array dimensions ({}) exceeds the maximum allowed ({DIMENSIONS_MAX})",
            lengths.len()
        );
        return Err(Error::new(SqlState::ProgramLimitExceeded, message));
    }
    if lowers.as_ref().is_some_and(|lowers| lowers.len() != lengths.len()) {
        let detail = "Low bound array has different size than dimensions array.";
        return Err(
            Error::new(SqlState::ArraySubscriptError, "wrong number of array subscripts").with_detail(detail)
        );
    }
    let mut dimensions = Vec::with_capacity(lengths.len());
    for (at, &length) in lengths.iter().enumerate() {
        let lower = lowers.as_ref().map_or(1, |lowers| lowers[at]);
        let too_large = || {
            let message = format!("array size exceeds the maximum allowed ({ITEMS_MAX})");
            Error::new(SqlState::ProgramLimitExceeded, message)
        };
        dimensions.push(Dimension { length: u32::try_from(length).map_err(|_| too_large())?, lower });
        let items = dimensions.iter().try_fold(1_u64, |all, next| all.checked_mul(next.length.into()));
        items.filter(|items| *items <= ITEMS_MAX).ok_or_else(too_large)?;
    }
    let count: u64 = dimensions.iter().map(|dimension| u64::from(dimension.length)).product();
    if dimensions.is_empty() || count == 0 {
        return Ok(Value::Array(Array::empty(list)));
    }
    let mut items = ArrayBuilder::new(list);
    for nth in 0..count {
        if nth as usize % STRIDE == STRIDE - 1 {
            interrupt.check()?;
        }
        push(&mut items, item)?;
    }
    items.finish_in(&dimensions).map(Value::Array)
}

/// The items of an array of integers, none of which is NULL.
fn numbers_of(array: &Value) -> Result<Vec<i32>> {
    let null = |what| Error::new(SqlState::NullValueNotAllowed, what);
    let Value::Array(array) = array else {
        return Err(null("dimension array or low bound array cannot be null"));
    };
    if array.borrow().dimensions().len() > 1 {
        let detail = "Dimension array must be one dimensional.";
        return Err(
            Error::new(SqlState::ArraySubscriptError, "wrong number of array subscripts").with_detail(detail)
        );
    }
    let numbers = array.borrow().items().map(|item| match item.to_value() {
        Value::Integer(number) => Ok(number),
        _ => Err(null("dimension values cannot be null")),
    });
    numbers.collect()
}

/// The array without so many of its last items.
fn trimmed(array: ArrayRef<'_>, count: i32, interrupt: &Interrupt) -> Result<Value> {
    let mut dimensions: Vec<Dimension> = array.dimensions().collect();
    let length = dimensions.first().map_or(0, |dimension| dimension.length);
    let left = u32::try_from(count).ok().and_then(|count| length.checked_sub(count)).ok_or_else(|| {
        let message = format!("number of elements to trim must be between 0 and {length}");
        Error::new(SqlState::ArraySubscriptError, message)
    })?;
    let mut items = ArrayBuilder::new(array.list_type());
    if left == 0 {
        return Ok(Value::Array(items.finish()));
    }
    let kept = array.len() / length as usize * left as usize;
    for value in values(array, interrupt).take(kept) {
        push(&mut items, &value?)?;
    }
    // What is left counts from 1, as a slice does.
    dimensions[0].length = left;
    dimensions.iter_mut().for_each(|dimension| dimension.lower = 1);
    items.finish_in(&dimensions).map(Value::Array)
}

/// The items' texts with another between them. NULL items are left out if nothing stands for them.
fn text_of(
    array: ArrayRef<'_>,
    between: &Value,
    null: Option<&Value>,
    interrupt: &Interrupt,
) -> Result<Value> {
    let (Value::Text(between), null) = (between, null.filter(|null| !null.is_null())) else {
        return Err(wrong());
    };
    let (mut text, mut is_first) = (String::new(), true);
    for value in values(array, interrupt) {
        let value = value?;
        let Some(value) = (if value.is_null() { null.cloned() } else { Some(value) }) else { continue };
        if !std::mem::take(&mut is_first) {
            text.push_str(between);
        }
        shown(value, &mut text)?;
    }
    Ok(Value::text(text))
}

/// Items in order, to be found in a few steps; NULLs are left out, since they equal nothing.
struct Sought(Vec<Value>);

impl Sought {
    fn new(array: ArrayRef<'_>) -> Sought {
        let mut items: Vec<Value> =
            array.items().map(|item| item.to_value()).filter(|item| !item.is_null()).collect();
        items.sort_by(|left, right| order(left, right).ok().flatten().unwrap_or(Ordering::Equal));
        Sought(items)
    }

    fn has(&self, item: &Value) -> bool {
        let found = |known: &Value| order(known, item).ok().flatten().unwrap_or(Ordering::Less);
        self.0.binary_search_by(found).is_ok()
    }

    /// How many of these items are among the others.
    fn count_in(&self, others: &Sought, interrupt: &Interrupt) -> Result<usize> {
        let mut count = 0;
        for (nth, item) in self.0.iter().enumerate() {
            if nth % STRIDE == STRIDE - 1 {
                interrupt.check()?;
            }
            count += usize::from(others.has(item));
        }
        Ok(count)
    }
}

/// Whether each item of one is among the other's: a NULL is not.
fn all_in(one: ArrayRef<'_>, other: ArrayRef<'_>, interrupt: &Interrupt) -> Result<bool> {
    if one.has_null() {
        return Ok(false);
    }
    let one = Sought::new(one);
    Ok(one.count_in(&Sought::new(other), interrupt)? == one.0.len())
}
