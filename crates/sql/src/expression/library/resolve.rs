//! Which of several functions of a name is meant: PostgreSQL's rules.
//!
//! 1. Functions that take the arguments as they are, or after a conversion that needs no cast.
//! 2. Of these, the ones with the most arguments of exactly their types.
//! 3. Of these, the ones that convert the most arguments to the preferred type of its kind.
//! 4. Constants without a type are texts if any function takes one there; else what all functions agree on, and the
//!    preferred type of that.
//!
//! No function left is 42883, several left are 42725.

use super::entry::{Entry, Returns};
use super::{Builtin, OPERATOR, named, rows, type_function};
use crate::expression::bind::{Bound, elsewhere, type_name};
use crate::expression::notation::{OVERLAP, SUBSCRIPT};
use crate::expression::operator::{is_quoted, with_blanks};
use crate::expression::types::numeric;
use crate::expression::{Binder, Expression, Function, Typed, document, fold};
use ankerdb_engine::{DataType, Error, PackedType, Result, SqlState, SystemType, Value};
use ankerdb_value::{Number, cast};

/// Operators that see the blanks of a `char(n)`.
const MATCHES: [&str; 4] = ["operator ~", "operator ~*", "operator !~", "operator !~*"];

/// A call of one of the functions of the name.
///
/// # Errors
/// 42883 and 42725, and what is wrong with constants that take the function's types.
pub(crate) fn call(binder: &mut Binder, name: &str, items: Vec<Typed>) -> Bound<Typed> {
    let is_match = MATCHES.contains(&name);
    let items: Vec<Typed> =
        items.into_iter().map(|item| if is_match { with_blanks(item) } else { item }).collect();
    if let (SUBSCRIPT, Some(known)) = (name, items.first().and_then(|item| item.data_type))
        && known != DataType::Jsonb
    {
        let known = type_name(known);
        let message = format!("cannot subscript type {known} because it does not support subscripting");
        return Err(Error::new(SqlState::DatatypeMismatch, message).into());
    }
    let is_list = |item: &Typed| matches!(item.data_type, Some(DataType::System(SystemType::List(_))));
    if name == "array_to_json" && !items.iter().all(is_list) {
        return Err(missing(name, &items).into());
    }
    let entry = resolved(name, &items)?;
    if let Some(items) = with_long_constants(binder, entry, &items)? {
        return call(binder, name, items);
    }
    if let Some(long) = long_result(entry, &items) {
        return Ok(long);
    }
    if matches!((name, items.as_slice()), ("to_json" | "to_jsonb", [Typed { data_type: None, .. }])) {
        let message = "could not determine polymorphic type because input has type unknown";
        return Err(Error::new(SqlState::DatatypeMismatch, message).into());
    }
    let result = returned(entry, &items)?;
    let mut arguments = Vec::with_capacity(items.len());
    for (position, item) in items.into_iter().enumerate() {
        arguments.push(match entry.arguments.get(position) {
            Some(wanted @ DataType::Numeric { .. }) => number(binder, item, *wanted)?,
            Some(wanted @ DataType::System(SystemType::List(_))) => list_text(binder, item, *wanted)?,
            Some(wanted) => binder.resolve(item, *wanted)?,
            None if entry.takes_documents => document::as_json(binder, item)?,
            None => shown(binder, item)?,
        });
    }
    Ok(Typed::new(Expression::Call(Function::Library(Builtin::new(entry), result), arguments), result))
}

/// The type of a call's result; `None` if there is no such function. Types that are not known are `None`.
pub(crate) fn result(name: &str, types: &[Option<DataType>]) -> Option<DataType> {
    let typed = |data_type: &Option<DataType>| Typed {
        expression: Expression::Literal(Value::Null),
        data_type: *data_type,
    };
    if let (Some(target), [_]) = (type_function(name), types) {
        return Some(target);
    }
    let items: Vec<Typed> = types.iter().map(typed).collect();
    returned(resolved(name, &items).ok()?, &items).ok()
}

/// The types of the arguments that the function takes which is called; `None` if there is no such function.
pub(crate) fn argument_types(name: &str, types: &[Option<DataType>]) -> Option<&'static [DataType]> {
    let typed = |data_type: &Option<DataType>| Typed {
        expression: Expression::Literal(Value::Null),
        data_type: *data_type,
    };
    let items: Vec<Typed> = types.iter().map(typed).collect();
    Some(resolved(name, &items).ok()?.arguments)
}

/// The type of what a call of the entry gives.
fn returned(entry: &Entry, items: &[Typed]) -> Result<DataType> {
    Ok(match entry.returns {
        Returns::Always(result) => result,
        Returns::Digits(digits) => numeric(digits(items)),
        Returns::Row => rows::type_of(entry, items)?,
    })
}

/// The type of the result of all functions of this name that take so many arguments; `None` if they differ.
pub(crate) fn only_result(name: &str, arguments: usize) -> Option<DataType> {
    let mut results = named(name).filter(|entry| entry.takes(arguments)).map(|entry| match entry.returns {
        Returns::Always(result) => Some(result),
        Returns::Digits(_) | Returns::Row => None,
    });
    let first = results.next()??;
    results.all(|other| other == Some(first)).then_some(first)
}

/// A constant list as its text, which functions of paths take, too: the analytical path has no values that are lists.
fn list_text(binder: &mut Binder, item: Typed, wanted: DataType) -> Bound<Expression> {
    match (item.data_type, &item.expression) {
        (None, Expression::Literal(_)) => Ok(item.expression),
        _ => binder.resolve(item, wanted),
    }
}

/// A numeric with the fractional digits that it has.
fn number(binder: &mut Binder, item: Typed, wanted: DataType) -> Bound<Expression> {
    match (item.data_type, &item.expression) {
        (Some(DataType::Numeric { .. }), _) => Ok(item.expression),
        (None, Expression::Literal(Value::Text(_))) => Ok(binder.cast_to_numeric(item)?.expression),
        _ => binder.resolve(item, wanted),
    }
}

/// An argument of any type: its text, but of types whose casts to text are not what shows them.
fn shown(binder: &mut Binder, item: Typed) -> Bound<Expression> {
    match item.data_type {
        Some(DataType::Boolean | DataType::Packed(_) | DataType::System(SystemType::Row(_))) => {
            Ok(item.expression)
        }
        _ => binder.resolve(with_blanks(item), DataType::Text),
    }
}

fn resolved(name: &str, items: &[Typed]) -> Bound<&'static Entry> {
    let takes = |entry: &&'static Entry| {
        entry.takes(items.len())
            && items.iter().zip(entry.arguments).all(|(item, wanted)| is_taken(item, *wanted))
            && (!is_of_ranges(entry) || is_exactly_taken(items, entry))
    };
    let mut left: Vec<&'static Entry> = named(name).filter(takes).collect();
    keep_short(&mut left, items);
    if left.is_empty() {
        // Lists have these operators, too, on the analytical path.
        let is_list = |item: &Typed| matches!(item.data_type, Some(DataType::System(SystemType::List(_))));
        return match name {
            "operator @>" | "operator <@" | OVERLAP if items.iter().any(is_list) => {
                elsewhere("an operator of lists")
            }
            _ => Err(missing(name, items).into()),
        };
    }
    keep_best(&mut left, |entry| count(items, entry, is_exactly));
    keep_best(&mut left, |entry| {
        count(items, entry, |known, wanted| is_exactly(known, wanted) || is_preferred(wanted))
    });
    for (position, _) in items.iter().enumerate().filter(|(_, item)| item.data_type.is_none()) {
        settle_unknown(&mut left, position);
    }
    match left.as_slice() {
        [one] => Ok(one),
        _ => match same_as_known(items) {
            // A constant beside arguments of one type is of that type, if that decides.
            Some(known) => {
                let takes_all =
                    |entry: &&'static Entry| entry.arguments.iter().all(|wanted| is_exactly(known, *wanted));
                let converts_all = |entry: &&'static Entry| {
                    let item = Typed::new(Expression::Literal(Value::Null), known);
                    entry.arguments.iter().all(|wanted| is_taken(&item, *wanted))
                };
                let exact = only(left.iter().copied().filter(takes_all));
                exact
                    .or_else(|| only(left.iter().copied().filter(converts_all)))
                    .ok_or_else(|| not_unique(name, items).into())
            }
            None => Err(not_unique(name, items).into()),
        },
    }
}

/// The entry, if there is one only.
fn only(mut entries: impl Iterator<Item = &'static Entry>) -> Option<&'static Entry> {
    entries.next().filter(|_| entries.next().is_none())
}

/// Whether it is an operator of ranges, whose other operand is of their own type or that of their bounds, and converted to neither.
fn is_of_ranges(entry: &Entry) -> bool {
    let is_range = |wanted: &DataType| matches!(wanted, DataType::Packed(PackedType::Range(_)));
    entry.name.starts_with(OPERATOR) && entry.arguments.iter().any(is_range)
}

fn is_exactly_taken(items: &[Typed], entry: &Entry) -> bool {
    let is_exact = |(item, wanted): (&Typed, &DataType)| {
        item.data_type.is_none_or(|known| is_exactly(known.of_any_precision(), *wanted))
    };
    items.iter().zip(entry.arguments).all(is_exact)
}

/// Numerics of any length have functions of their own: without one among the arguments, those of declared digits are meant.
fn keep_short(left: &mut Vec<&'static Entry>, items: &[Typed]) {
    let is_long = |entry: &&'static Entry| entry.arguments.contains(&DataType::Number);
    let is_short = |entry: &&'static Entry| {
        entry.arguments.iter().any(|wanted| matches!(wanted, DataType::Numeric { .. }))
    };
    let has_long = items.iter().any(|item| item.data_type == Some(DataType::Number));
    if !has_long && left.iter().any(is_short) {
        left.retain(|entry| !is_long(entry));
    }
}

/// A call of constants whose result 38 digits do not hold. What fails otherwise is left to the evaluation, which may never come.
fn long_result(entry: &Entry, items: &[Typed]) -> Option<Typed> {
    if entry.set.is_some() || !entry.arguments.iter().all(|wanted| matches!(wanted, DataType::Numeric { .. }))
    {
        return None;
    }
    let literal = |item: &Typed| match &item.expression {
        Expression::Literal(value) if value.is_number() => cast(value.clone(), DataType::Number).ok(),
        _ => None,
    };
    let values = items.iter().map(literal).collect::<Option<Vec<Value>>>()?;
    let short = |value: &Value| match value {
        Value::Number(text) => Number::read(text).to_decimal().map(Value::Numeric),
        _ => None,
    };
    let shorts = values.iter().map(short).collect::<Option<Vec<Value>>>()?;
    let interrupt = fold::interrupt();
    match (entry.compute)(&shorts, &interrupt) {
        Err(error) if error.state() == SqlState::NumericValueOutOfRange => {}
        _ => return None,
    }
    let takes_long = |other: &&'static Entry| {
        other.arguments.len() == values.len()
            && other.arguments.iter().all(|wanted| *wanted == DataType::Number)
    };
    let long = named(entry.name).find(takes_long)?;
    let result = (long.compute)(&values, &interrupt).ok()?;
    Some(Typed::new(Expression::Literal(result), DataType::Number))
}

/// The arguments with constants in quotes as numerics of any length, where numerics are wanted and 38 digits do not hold one of them.
fn with_long_constants(binder: &mut Binder, entry: &Entry, items: &[Typed]) -> Bound<Option<Vec<Typed>>> {
    let mut typed = items.to_vec();
    for (item, wanted) in typed.iter_mut().zip(entry.arguments) {
        if matches!(wanted, DataType::Numeric { .. }) && is_quoted(item) {
            *item = binder.cast_to_numeric(item.clone())?;
        }
    }
    let is_long = typed.iter().any(|item| item.data_type == Some(DataType::Number));
    let had_long = items.iter().any(|item| item.data_type == Some(DataType::Number));
    Ok((is_long && !had_long).then_some(typed))
}

/// The type of all arguments that have one.
fn same_as_known(items: &[Typed]) -> Option<DataType> {
    let mut known = items.iter().filter_map(|item| item.data_type);
    let first = known.next()?;
    known.all(|other| is_exactly(other, first)).then_some(first)
}

fn keep_best(left: &mut Vec<&'static Entry>, score: impl Fn(&Entry) -> usize) {
    let best = left.iter().map(|entry| score(entry)).max().unwrap_or(0);
    left.retain(|entry| score(entry) == best);
}

/// How many arguments of a known type are as asked for.
fn count(items: &[Typed], entry: &Entry, is_as_asked: impl Fn(DataType, DataType) -> bool) -> usize {
    let pairs = items.iter().zip(entry.arguments);
    pairs.filter(|(item, wanted)| item.data_type.is_some_and(|known| is_as_asked(known, **wanted))).count()
}

fn settle_unknown(left: &mut Vec<&'static Entry>, position: usize) {
    let kind_there = |entry: &&'static Entry| entry.arguments.get(position).map(|wanted| kind(*wanted));
    let kinds: Vec<Option<Kind>> = left.iter().map(kind_there).collect();
    let chosen = match kinds.contains(&Some(Kind::Text)) {
        true => Some(Kind::Text),
        false if kinds.windows(2).all(|pair| pair[0] == pair[1]) => kinds.first().copied().flatten(),
        false => None,
    };
    let Some(chosen) = chosen else { return };
    left.retain(|entry| kind_there(entry) == Some(chosen));
    let is_preferred_there =
        |entry: &&'static Entry| entry.arguments.get(position).is_some_and(|wanted| is_preferred(*wanted));
    if left.iter().any(is_preferred_there) {
        left.retain(is_preferred_there);
    }
}

/// Kinds of types, of each of which one is preferred.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Boolean,
    Number,
    Text,
    Moment,
    Network,
    Bits,
    Other,
}

fn kind(data_type: DataType) -> Kind {
    match data_type {
        DataType::Boolean => Kind::Boolean,
        known if known.is_numeric() => Kind::Number,
        known if known.is_text() => Kind::Text,
        DataType::Date | DataType::Timestamp(_) | DataType::TimestampTz(_) => Kind::Moment,
        DataType::Packed(packed) if packed.is_network() => Kind::Network,
        DataType::Packed(packed) if packed.is_bits() => Kind::Bits,
        _ => Kind::Other,
    }
}

fn is_preferred(data_type: DataType) -> bool {
    matches!(
        data_type,
        DataType::Boolean
            | DataType::DoublePrecision
            | DataType::Text
            | DataType::TimestampTz(_)
            | DataType::Packed(PackedType::Inet | PackedType::BITS)
    )
}

fn is_exactly(known: DataType, wanted: DataType) -> bool {
    match (known, wanted) {
        (DataType::Numeric { .. }, DataType::Numeric { .. } | DataType::Number) => true,
        (known, wanted) => known.of_any_precision() == wanted.of_any_precision(),
    }
}

/// Whether the argument can be given where that type is wanted.
fn is_taken(item: &Typed, wanted: DataType) -> bool {
    use DataType::*;
    let Some(known) = item.data_type else { return true };
    match (known, wanted) {
        (known, Text) => known.is_text(),
        (SmallInt, Integer | BigInt) | (Integer, BigInt) => true,
        (SmallInt | Integer | BigInt, Numeric { .. } | Number | Real | DoublePrecision) => true,
        (Numeric { .. }, Number | Real | DoublePrecision) | (Number, Real | DoublePrecision) => true,
        (Real, DoublePrecision) => true,
        (Packed(PackedType::Cidr), Packed(PackedType::Inet)) => true,
        (Packed(known), Packed(wanted)) if known.is_bits() && wanted.is_bits() => true,
        (Date, Timestamp(_) | TimestampTz(_)) | (Timestamp(_), TimestampTz(_)) => true,
        (known, wanted) => is_exactly(known, wanted),
    }
}

fn types(items: &[Typed]) -> Vec<String> {
    items.iter().map(|item| item.data_type.map_or("unknown".into(), type_name)).collect()
}

fn missing(name: &str, items: &[Typed]) -> Error {
    let types = types(items);
    let (message, hint) = match name.strip_prefix(OPERATOR) {
        Some(symbol) => {
            let written = match types.as_slice() {
                [left, right] => format!("{left} {symbol} {right}"),
                types => format!("{symbol} {}", types.join(", ")),
            };
            (
                format!("operator does not exist: {written}"),
                "No operator matches the given name and argument types. You might need to add explicit type casts.",
            )
        }
        None => (
            format!("function {name}({}) does not exist", types.join(", ")),
            "No function matches the given name and argument types. You might need to add explicit type casts.",
        ),
    };
    Error::new(SqlState::UndefinedFunction, message).with_hint(hint)
}

/// 42725: several functions of this name take the arguments.
pub(crate) fn not_unique(name: &str, items: &[Typed]) -> Error {
    let types = types(items).join(", ");
    let message = format!("function {name}({types}) is not unique");
    let hint = "Could not choose a best candidate function. You might need to add explicit type casts.";
    Error::new(SqlState::AmbiguousFunction, message).with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ankerdb_engine::DataType::{BigInt, Boolean, Date, Integer, SmallInt, Text};

    const NUMBER: DataType = DataType::Numeric { precision: 38, scale: 3 };

    #[test]
    fn the_function_that_fits_best_is_called() {
        assert_eq!(result("gcd", &[Some(SmallInt), Some(Integer)]), Some(Integer));
        assert_eq!(result("gcd", &[Some(Integer), Some(BigInt)]), Some(BigInt));
        assert_eq!(result("gcd", &[Some(Integer), Some(NUMBER)]), Some(NUMBER));
        assert_eq!(result("isfinite", &[Some(Date)]), Some(Boolean));
        assert_eq!(result("to_timestamp", &[Some(NUMBER)]), Some(DataType::TIMESTAMPTZ));
        assert_eq!(result("lpad", &[None, None]), Some(Text));
    }

    #[test]
    fn none_and_several_are_errors() {
        let state = |name, types: &[Option<DataType>]| {
            let typed = |data_type: &Option<DataType>| Typed {
                expression: Expression::Literal(Value::Null),
                data_type: *data_type,
            };
            let items: Vec<Typed> = types.iter().map(typed).collect();
            resolved(name, &items).err().map(|refusal| refusal.into_error().state())
        };
        assert_eq!(state("lpad", &[Some(Text), Some(BigInt)]), Some(SqlState::UndefinedFunction));
        assert_eq!(state("to_char", &[None, None]), Some(SqlState::AmbiguousFunction));
        assert_eq!(state("concat_ws", &[None]), Some(SqlState::UndefinedFunction));
    }
}
