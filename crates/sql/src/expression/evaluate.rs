//! Computes bound expressions. NULL follows SQL's three-valued logic; errors are those of the operators.

use super::array::make_array;
use super::pattern::Pattern;
use super::quantified::over_items;
use super::sequences::{NoSequences, Sequences};
use super::{Arithmetic, Comparison, Expression, Function, Like, SessionFunction, text};
use ankerdb_engine::{DataType, Decimal, Error, Interrupt, Result, SqlState, Value};
use ankerdb_value::{
    MAX_NUMERIC_PRECISION, Number, Zone, add, cast, compare, divide, modulo, multiply, negate, subtract,
};
use std::borrow::Cow;
use std::cmp::Ordering;

/// Values compared with one operand between two looks at the interrupt.
const ITEMS_BETWEEN_CHECKS: usize = 4096;
/// Microseconds in a day.
const DAY: i64 = 86_400_000_000;

/// The values that an expression is computed over.
pub(crate) struct Context<'a> {
    /// The row's value in a column.
    pub column: &'a dyn Fn(usize) -> Value,
    pub parameters: &'a [Value],
    /// First column of the rows that each subquery gave.
    pub subqueries: &'a [Vec<Value>],
    /// When the transaction began: microseconds since 1970-01-01 UTC.
    pub now: i64,
    /// Ends a long computation.
    pub interrupt: &'a Interrupt,
    /// The sequences that `nextval` uses.
    pub sequences: &'a dyn Sequences,
}

impl<'a> Context<'a> {
    /// That of an immutable expression over a row: nothing in it depends on what is empty here.
    pub(crate) fn of_row(column: &'a dyn Fn(usize) -> Value, interrupt: &'a Interrupt) -> Context<'a> {
        Context { column, parameters: &[], subqueries: &[], now: 0, interrupt, sequences: &NoSequences }
    }
}

/// Whether the condition is true, rather than false or NULL.
pub(crate) fn is_true(condition: &Expression, context: &Context) -> Result<bool> {
    Ok(truth(condition, context)? == Some(true))
}

/// The expression's value.
pub(crate) fn evaluate(expression: &Expression, context: &Context) -> Result<Value> {
    Ok(match expression {
        Expression::Column(column) => (context.column)(*column),
        Expression::Parameter(position) => parameter(context, *position)?.clone(),
        Expression::Literal(value) => value.clone(),
        Expression::Cast(operand, data_type) => cast(evaluate(operand, context)?, *data_type)?,
        Expression::Arithmetic(operator, pair) => {
            let (left, right) = (evaluate(&pair.0, context)?, evaluate(&pair.1, context)?);
            arithmetic(*operator, &left, &right)?
        }
        Expression::Negate(operand) => match evaluate(operand, context)? {
            Value::Null => Value::Null,
            value => negate(&value)?,
        },
        Expression::Case(branches, otherwise) => {
            for (condition, result) in branches {
                if is_true(condition, context)? {
                    return evaluate(result, context);
                }
            }
            evaluate(otherwise, context)?
        }
        Expression::Coalesce(items) => {
            for item in items {
                let value = evaluate(item, context)?;
                if !value.is_null() {
                    return Ok(value);
                }
            }
            Value::Null
        }
        Expression::Concatenate(pair) => match (evaluate(&pair.0, context)?, evaluate(&pair.1, context)?) {
            (Value::Null, _) | (_, Value::Null) => Value::Null,
            (left, right) => Value::text(into_text(left)? + &into_text(right)?),
        },
        Expression::Call(function, arguments) => call(*function, arguments, context)?,
        _ => truth(expression, context)?.map_or(Value::Null, Value::Boolean),
    })
}

fn parameter<'a>(context: &'a Context, position: usize) -> Result<&'a Value> {
    context.parameters.get(position).ok_or_else(|| {
        Error::new(SqlState::UndefinedParameter, format!("there is no parameter ${}", position + 1))
    })
}

/// A boolean expression as true, false or unknown.
fn truth(expression: &Expression, context: &Context) -> Result<Option<bool>> {
    Ok(match expression {
        Expression::Compare(comparison, pair) => {
            let ordering = match (&pair.0, &pair.1) {
                // The usual condition, without a copy of the constant.
                (left, Expression::Literal(right)) => order(&evaluate(left, context)?, right)?,
                (left, Expression::Parameter(position)) => {
                    order(&evaluate(left, context)?, parameter(context, *position)?)?
                }
                (left, right) => order(&evaluate(left, context)?, &evaluate(right, context)?)?,
            };
            ordering.map(|ordering| holds(*comparison, ordering))
        }
        Expression::And(operands) => junction(operands, context, false)?,
        Expression::Or(operands) => junction(operands, context, true)?,
        Expression::Not(operand) => truth(operand, context)?.map(|value| !value),
        Expression::IsNull(operand, null) => Some(evaluate(operand, context)?.is_null() == *null),
        Expression::IsBoolean(operand, value, negated) => {
            Some((truth(operand, context)? == Some(*value)) != *negated)
        }
        Expression::Distinct(pair, negated) => {
            let (left, right) = (evaluate(&pair.0, context)?, evaluate(&pair.1, context)?);
            let same = match (left.is_null(), right.is_null()) {
                (false, false) => order(&left, &right)? == Some(Ordering::Equal),
                (left, right) => left == right,
            };
            Some(same == *negated)
        }
        Expression::InList(operand, items, negated) => {
            let operand = evaluate(operand, context)?;
            let items = items.iter().map(|item| evaluate(item, context).map(Cow::Owned));
            contains(&operand, items, context)?.map(|found| found != *negated)
        }
        Expression::InSubquery(operand, number, negated) => {
            let rows = context.subqueries.get(*number).map_or(&[][..], Vec::as_slice);
            // What nothing is compared with is not computed.
            if rows.is_empty() {
                return Ok(Some(*negated));
            }
            let operand = evaluate(operand, context)?;
            let rows = rows.iter().map(|row| Ok(Cow::Borrowed(row)));
            contains(&operand, rows, context)?.map(|found| found != *negated)
        }
        Expression::Quantified(comparison, quantifier, pair) => {
            let operand = evaluate(&pair.0, context)?;
            let evaluated;
            // Usually a parameter, which is not copied for each row.
            let array = match &pair.1 {
                Expression::Literal(array) => array,
                Expression::Parameter(position) => parameter(context, *position)?,
                other => {
                    evaluated = evaluate(other, context)?;
                    &evaluated
                }
            };
            match array {
                Value::Array(array) => {
                    over_items(*comparison, *quantifier, &operand, array.borrow(), context.interrupt)?
                }
                Value::Null => None,
                _ => return Err(wrong_argument()),
            }
        }
        Expression::Like(like) => matches(like, context)?,
        // Every node that ends here is computed by `evaluate` itself, never handed back.
        other => match evaluate(other, context)? {
            Value::Boolean(value) => Some(value),
            Value::Null => None,
            _ => return Err(Error::new(SqlState::DatatypeMismatch, "expression is not a boolean")),
        },
    })
}

/// AND (`decisive` false) or OR (`decisive` true): one decisive operand decides; otherwise NULL makes unknown.
fn junction(operands: &[Expression], context: &Context, decisive: bool) -> Result<Option<bool>> {
    let mut unknown = false;
    for operand in operands {
        match truth(operand, context)? {
            Some(value) if value == decisive => return Ok(Some(decisive)),
            Some(_) => {}
            None => unknown = true,
        }
    }
    Ok(if unknown { None } else { Some(!decisive) })
}

fn contains<'a>(
    operand: &Value,
    items: impl Iterator<Item = Result<Cow<'a, Value>>>,
    context: &Context,
) -> Result<Option<bool>> {
    let mut unknown = false;
    let mut empty = true;
    for (number, item) in items.enumerate() {
        empty = false;
        if number.is_multiple_of(ITEMS_BETWEEN_CHECKS) {
            context.interrupt.check()?;
        }
        match order(operand, &*item?)? {
            Some(Ordering::Equal) => return Ok(Some(true)),
            Some(_) => {}
            None => unknown = true,
        }
    }
    Ok(if unknown && !empty { None } else { Some(false) })
}

/// Whether an ordering is one that the comparison accepts.
pub(crate) fn holds(comparison: Comparison, ordering: Ordering) -> bool {
    match comparison {
        Comparison::Equal => ordering == Ordering::Equal,
        Comparison::NotEqual => ordering != Ordering::Equal,
        Comparison::Less => ordering == Ordering::Less,
        Comparison::LessOrEqual => ordering != Ordering::Greater,
        Comparison::Greater => ordering == Ordering::Greater,
        Comparison::GreaterOrEqual => ordering != Ordering::Less,
    }
}

pub(super) fn order(left: &Value, right: &Value) -> Result<Option<Ordering>> {
    match (left, right) {
        (Value::Null, _) | (_, Value::Null) => Ok(None),
        (Value::Integer(left), Value::Integer(right)) => Ok(Some(left.cmp(right))),
        (Value::Text(left), Value::Text(right)) => Ok(Some(left.as_bytes().cmp(right.as_bytes()))),
        _ => compare(left, right),
    }
}

fn arithmetic(operator: Arithmetic, left: &Value, right: &Value) -> Result<Value> {
    if left.is_null() || right.is_null() {
        return Ok(Value::Null);
    }
    match operator {
        Arithmetic::Add => add(left, right),
        Arithmetic::Subtract => subtract(left, right),
        Arithmetic::Multiply => multiply(left, right),
        Arithmetic::Divide => divide(left, right),
        Arithmetic::Modulo => modulo(left, right),
    }
}

fn matches(like: &Like, context: &Context) -> Result<Option<bool>> {
    let (text, pattern) = match (evaluate(&like.text, context)?, evaluate(&like.pattern, context)?) {
        (Value::Null, _) | (_, Value::Null) => return Ok(None),
        (text, pattern) => (into_text(text)?, into_text(pattern)?),
    };
    let pattern = Pattern::new(&pattern, like.escape, like.syntax)?;
    let found = pattern.matches(&text, context.interrupt)?;
    Ok(Some(found != like.negated))
}

/// The text of a value; of other types, as a cast to text writes it.
fn into_text(value: Value) -> Result<String> {
    match value {
        Value::Text(text) => Ok(text.into_string()),
        other => match cast(other, DataType::Text)? {
            Value::Text(text) => Ok(text.into_string()),
            _ => Err(Error::internal("a cast to text gave no text")),
        },
    }
}

/// Appends the text that shows a value.
pub(super) fn shown(value: Value, text: &mut String) -> Result<()> {
    match value {
        Value::Boolean(value) => text.push(if value { 't' } else { 'f' }),
        Value::Packed(packed) => *text += &packed.borrow().to_text(),
        other => *text += &into_text(other)?,
    }
    Ok(())
}

fn call(function: Function, arguments: &[Expression], context: &Context) -> Result<Value> {
    match function {
        Function::Now => return Ok(Value::TimestampTz(context.now)),
        Function::LocalTimestamp => return Zone::current().local(context.now).map(Value::Timestamp),
        Function::CurrentDate => {
            let local = Zone::current().local(context.now)?;
            return Ok(Value::Date(local.div_euclid(DAY) as i32));
        }
        Function::Subquery(number) => return subquery_value(context, number),
        Function::Exists(number) => {
            return Ok(Value::Boolean(context.subqueries.get(number).is_some_and(|rows| !rows.is_empty())));
        }
        _ => {}
    }
    let mut values = Vec::with_capacity(arguments.len());
    for argument in arguments {
        values.push(evaluate(argument, context)?);
    }
    match function {
        Function::Greatest => extreme(values, Ordering::Greater),
        Function::Least => extreme(values, Ordering::Less),
        Function::MakeArray(list) => make_array(list, values).map(Value::Array),
        Function::Domain(test) => {
            let value = values.pop().unwrap_or(Value::Null);
            test.0.test(&value, context)?;
            Ok(value)
        }
        Function::Array(function, result) => function.compute(&values, result, context.interrupt),
        Function::Library(function, _) => function.compute(&values, context.interrupt),
        Function::Concat => {
            let mut text = String::new();
            for value in values.into_iter().filter(|value| !value.is_null()) {
                shown(value, &mut text)?;
            }
            Ok(Value::text(text))
        }
        Function::Session(notify @ SessionFunction::Notify) => {
            // No payload is an empty one.
            let given = |value: Value| if value.is_null() { Value::text("") } else { value };
            let values: Vec<Value> = values.into_iter().map(given).collect();
            context.sequences.call(notify, &values, context.interrupt)
        }
        _ if values.iter().any(Value::is_null) => Ok(Value::Null),
        Function::NextValue | Function::CurrentValue | Function::LastValue | Function::SetValue => {
            sequence_call(function, &values, context.sequences)
        }
        Function::Session(function) => context.sequences.call(function, &values, context.interrupt),
        Function::Abs
        | Function::Round
        | Function::Truncate
        | Function::Ceil
        | Function::Floor
        | Function::Sign => number_call(function, &values),
        Function::Temporal(function, _) => function.of(&values),
        Function::Math(function) => match values.as_slice() {
            [Value::Double(value)] => Ok(Value::Double(function.of(*value)?)),
            [Value::Double(left), Value::Double(right)] => Ok(Value::Double(function.of_two(*left, *right)?)),
            _ => Err(wrong_argument()),
        },
        _ => text_call(function, &values),
    }
}

fn sequence_call(function: Function, values: &[Value], sequences: &dyn Sequences) -> Result<Value> {
    let number = match (function, values) {
        (Function::NextValue, [Value::Text(name)]) => sequences.next(name),
        (Function::CurrentValue, [Value::Text(name)]) => sequences.current(name),
        (Function::LastValue, []) => sequences.last(),
        (Function::SetValue, [Value::Text(name), Value::BigInt(value)]) => sequences.set(name, *value, true),
        (Function::SetValue, [Value::Text(name), Value::BigInt(value), Value::Boolean(is_used)]) => {
            sequences.set(name, *value, *is_used)
        }
        _ => return Err(wrong_argument()),
    };
    number.map(Value::BigInt)
}

fn subquery_value(context: &Context, number: usize) -> Result<Value> {
    match context.subqueries.get(number).map_or(&[][..], Vec::as_slice) {
        [] => Ok(Value::Null),
        [value] => Ok(value.clone()),
        _ => {
            let message = "more than one row returned by a subquery used as an expression";
            Err(Error::new(SqlState::CardinalityViolation, message))
        }
    }
}

fn extreme(values: Vec<Value>, wanted: Ordering) -> Result<Value> {
    let mut best = Value::Null;
    for value in values.into_iter().filter(|value| !value.is_null()) {
        if best.is_null() || order(&value, &best)? == Some(wanted) {
            best = value;
        }
    }
    Ok(best)
}

fn number_call(function: Function, values: &[Value]) -> Result<Value> {
    match (function, values) {
        (Function::Abs, [value]) => absolute(value),
        (_, [Value::Double(value)]) => Ok(Value::Double(double_call(function, *value))),
        (_, [Value::Real(value)]) => Ok(Value::Double(double_call(function, f64::from(*value)))),
        (_, [Value::Numeric(value)]) => Ok(Value::Numeric(decimal_call(function, *value)?)),
        (_, [Value::Number(text)]) => Ok(Value::number(&long_call(function, &Number::read(text), 0)?)),
        (Function::Round | Function::Truncate, [Value::Number(text), Value::Integer(digits)]) => {
            Ok(Value::number(&long_call(function, &Number::read(text), *digits)?))
        }
        (Function::Round | Function::Truncate, [Value::Numeric(value), Value::Integer(digits)]) => {
            Ok(Value::Numeric(at_digit(function, *value, *digits)?))
        }
        _ => Err(wrong_argument()),
    }
}

/// A function of a numeric of any length that gives one.
fn long_call(function: Function, value: &Number, digits: i32) -> Result<Number> {
    Ok(match function {
        Function::Round => value.round(digits)?,
        Function::Truncate => value.trunc(digits)?,
        Function::Ceil => value.ceil()?,
        Function::Floor => value.floor()?,
        _ => value.sign(),
    })
}

/// A numeric rounded or cut off at so many fractional digits; at a power of ten, if that is negative.
pub(crate) fn at_digit(function: Function, value: Decimal, digits: i32) -> Result<Decimal> {
    match u8::try_from(digits) {
        Ok(digits @ 0..=MAX_NUMERIC_PRECISION) if function == Function::Round => {
            value.fit(MAX_NUMERIC_PRECISION, digits)
        }
        Ok(digits @ 0..=MAX_NUMERIC_PRECISION) => Ok(value.truncated(digits)),
        Ok(_) => Err(crate::name::not_supported("a numeric with so many fractional digits")),
        Err(_) if digits > 0 => Err(crate::name::not_supported("a numeric with so many fractional digits")),
        Err(_) => {
            let zeros = digits.unsigned_abs();
            let Some(divisor) = 10i128.checked_pow(zeros.saturating_add(u32::from(value.scale))) else {
                return Ok(Decimal::ZERO);
            };
            let (quotient, rest) = (value.unscaled / divisor, value.unscaled % divisor);
            let is_up = function == Function::Round && rest.unsigned_abs() >= divisor.unsigned_abs() / 2;
            let count = quotient + if is_up { value.unscaled.signum() } else { 0 };
            Decimal::new(count, 0).checked_mul(Decimal::new(10i128.pow(zeros), 0))
        }
    }
}

/// The number without its sign. The smallest integers have no opposite.
fn absolute(value: &Value) -> Result<Value> {
    Ok(match value {
        Value::SmallInt(0..) | Value::Integer(0..) | Value::BigInt(0..) => value.clone(),
        Value::Real(value) => Value::Real(value.abs()),
        Value::Double(value) => Value::Double(value.abs()),
        Value::Numeric(decimal) if decimal.unscaled >= 0 => value.clone(),
        Value::Number(text) if !text.starts_with('-') => value.clone(),
        negative => negate(negative)?,
    })
}

/// A function of a double that gives a whole number.
pub(crate) fn double_call(function: Function, value: f64) -> f64 {
    match function {
        Function::Round => value.round_ties_even(),
        Function::Truncate => value.trunc(),
        Function::Ceil => value.ceil(),
        Function::Floor => value.floor(),
        // The sign, which is zero for NaN, as in PostgreSQL.
        _ => f64::from(i8::from(value > 0.0) - i8::from(value < 0.0)),
    }
}

/// A function of a numeric that gives a whole number.
pub(crate) fn decimal_call(function: Function, value: Decimal) -> Result<Decimal> {
    Ok(match function {
        Function::Floor => Decimal::new(value.floor().0, 0),
        Function::Truncate => value.truncated(0),
        Function::Ceil => {
            let (floor, has_fraction) = value.floor();
            Decimal::new(floor + i128::from(has_fraction), 0)
        }
        Function::Sign => Decimal::new(value.unscaled.signum(), 0),
        _ => value.fit(MAX_NUMERIC_PRECISION, 0)?,
    })
}

fn text_call(function: Function, values: &[Value]) -> Result<Value> {
    if let (Function::OctetLength, [Value::Bytea(bytes)]) = (function, values) {
        return text::length(bytes.len()).map(Value::Integer);
    }
    let argument = |position: usize| match values.get(position) {
        Some(Value::Text(text)) => Ok(&**text),
        _ => Err(wrong_argument()),
    };
    let integer = |position: usize| match values.get(position) {
        Some(Value::Integer(value)) => Ok(i64::from(*value)),
        Some(Value::SmallInt(value)) => Ok(i64::from(*value)),
        _ => Err(wrong_argument()),
    };
    let subject = argument(0)?;
    Ok(match function {
        Function::Lower => Value::text(text::lower(subject)),
        Function::Upper => Value::text(text::upper(subject)),
        Function::Length => Value::Integer(text::length(subject.chars().count())?),
        Function::OctetLength => Value::Integer(text::length(subject.len())?),
        Function::Replace => Value::text(text::replace(subject, argument(1)?, argument(2)?)),
        Function::Position => Value::Integer(text::position(subject, argument(1)?)?),
        Function::Substring => {
            let length = if values.len() > 2 { Some(integer(2)?) } else { None };
            Value::text(text::substring(subject, integer(1)?, length)?)
        }
        Function::Left => Value::text(text::left(subject, integer(1)?)),
        Function::Right => Value::text(text::right(subject, integer(1)?)),
        Function::Trim | Function::TrimStart | Function::TrimEnd => {
            let characters = if values.len() > 1 { argument(1)? } else { " " };
            Value::text(text::trim(function, subject, characters))
        }
        _ => return Err(wrong_argument()),
    })
}

fn wrong_argument() -> Error {
    Error::internal("a function was given an argument of a type that it does not take")
}
