//! Documents in expressions: what they are compared by, and what they are cast to.

use super::bind::Bound;
use super::library::{self, Builtin, JSONB_KEY, row_key};
use super::operator::with_blanks;
use super::types::{exact_constant, numeric};
use super::{Binder, Expression, Function, Typed};
use crate::name::not_supported;
use ankerdb_engine::{DataType, Error, Interrupt, ListType, SqlState, SystemType, Value};
use ankerdb_value::Number;
use datafusion::sql::sqlparser::ast::Expr;

/// The key of a `jsonb`, which orders as documents do.
pub(crate) fn comparison_key(jsonb: Expression) -> Expression {
    called(Builtin::only(JSONB_KEY), DataType::Text, jsonb)
}

/// The `jsonb` whose key the expression is.
pub(crate) fn keyed(expression: &Expression) -> Option<&Expression> {
    match expression {
        Expression::Call(Function::Library(call, _), operands) if call.name() == JSONB_KEY => {
            operands.first()
        }
        _ => None,
    }
}

fn called(call: Builtin, result: DataType, operand: Expression) -> Expression {
    Expression::Call(Function::Library(call, result), vec![operand])
}

/// The call of a function that makes a `json` of a value, by its type.
pub(crate) const TO_JSON: &str = "operator to json";

/// The call that makes a `json` of the text of an array, and the name of its type.
pub(crate) const LIST_TO_JSON: &str = "operator list to json";

/// Functions of which any argument may be a row.
pub(crate) const TAKERS: [&str; 6] = [
    "to_json",
    "to_jsonb",
    "json_build_array",
    "jsonb_build_array",
    "json_build_object",
    "jsonb_build_object",
];

/// The `json` of the row that an expression is; `None` if it is none.
pub(super) fn of_row(binder: &mut Binder, expr: &Expr) -> Bound<Option<Typed>> {
    let Some(members) = binder.members(expr)? else { return Ok(None) };
    let name = |name: String| Typed { expression: Expression::Literal(Value::text(name)), data_type: None };
    let parts = members.into_iter().flat_map(|(member, value)| [name(member), value]).collect();
    library::call(binder, library::ROW, parts).map(Some)
}

/// The value as a `json`. A text without a type is one.
pub(crate) fn as_json(binder: &mut Binder, item: Typed) -> Bound<Expression> {
    let known = match item.data_type {
        Some(DataType::Json | DataType::Jsonb) => return Ok(item.expression),
        Some(DataType::System(SystemType::List(list))) => {
            let list = match list {
                ListType::Enum(_) => ListType::Text,
                ListType::Row(_) => return Err(not_supported("a document of rows that are values").into()),
                other => other,
            };
            let name = Expression::Literal(Value::text(DataType::System(SystemType::List(list)).to_string()));
            let text = binder.resolve(item, DataType::Text)?;
            let made = Function::Library(Builtin::only(LIST_TO_JSON), DataType::Json);
            return Ok(Expression::Call(made, vec![text, name]));
        }
        Some(DataType::System(SystemType::Row(_))) => {
            return Err(not_supported("a document of a row that is a value").into());
        }
        Some(DataType::Char(_) | DataType::System(_)) => {
            let text = binder.resolve(with_blanks(item), DataType::Text)?;
            return Ok(called(Builtin::only(TO_JSON), DataType::Json, text));
        }
        known => known.unwrap_or(DataType::Text),
    };
    let value = binder.resolve(item, known)?;
    Ok(called(Builtin::only(TO_JSON), DataType::Json, value))
}

/// The expression, or what it is sorted by.
///
/// # Errors
/// 42883 for a `json`, which has no order.
pub(crate) fn ordered(expression: Expression, data_type: DataType) -> Result<Expression, Error> {
    match data_type {
        DataType::Jsonb => Ok(comparison_key(expression)),
        DataType::System(SystemType::Row(row)) => Ok(row_key(expression, row)),
        DataType::Json => Err(unordered("an ordering operator")),
        _ => Ok(expression),
    }
}

/// 42883 for a `json`, which has no operators to compare it.
pub(crate) fn unordered(operator: &str) -> Error {
    let message = format!("could not identify {operator} for type json");
    Error::new(SqlState::UndefinedFunction, message)
}

/// Whether a scalar of a `jsonb` can be cast to the type.
pub(crate) fn is_cast(target: DataType) -> bool {
    target == DataType::Boolean || target.is_numeric()
}

/// `CAST(jsonb AS number or boolean)`
pub(crate) fn cast(jsonb: Expression, target: DataType) -> Typed {
    let name = match target {
        DataType::Boolean => "operator jsonb to boolean",
        DataType::SmallInt => "operator jsonb to smallint",
        DataType::Integer => "operator jsonb to integer",
        DataType::BigInt => "operator jsonb to bigint",
        DataType::Real => "operator jsonb to real",
        DataType::DoublePrecision => "operator jsonb to double precision",
        DataType::Number => "operator jsonb to number",
        _ => "operator jsonb to numeric",
    };
    let expression = match target {
        DataType::Numeric { scale, .. } => {
            let value = called(Builtin::only(name), numeric(scale.max(FRACTION)), jsonb);
            Expression::Cast(Box::new(value), target)
        }
        _ => called(Builtin::only(name), target, jsonb),
    };
    Typed::new(expression, target)
}

/// `CAST('1.50'::jsonb AS numeric)`, with the fractional digits that the constant has.
///
/// # Errors
/// 22023 for what is no number.
pub(crate) fn constant_number(jsonb: &str) -> Result<Typed, Error> {
    let call = Builtin::only("operator jsonb to number");
    let value = call.compute(&[Value::text(jsonb)], &Interrupt::default())?;
    let (value, data_type) = match &value {
        Value::Number(text) => exact_constant(&Number::read(text)),
        _ => (value, DataType::Number),
    };
    Ok(Typed::new(Expression::Literal(value), data_type))
}

/// Fractional digits of a numeric that a `jsonb` is, before it is rounded to those of its target.
const FRACTION: u8 = 10;

/// GREATEST and LEAST know no keys.
pub(crate) fn check_extreme(data_type: DataType) -> Result<(), Error> {
    match data_type {
        DataType::Jsonb => Err(not_supported("GREATEST or LEAST of jsonb")),
        DataType::Json => Err(unordered("a comparison function")),
        _ => Ok(()),
    }
}
