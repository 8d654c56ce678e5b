//! Operators and functions as they were written, before the types of their operands are known.
//!
//! DataFusion's planner asks every expression for its type while it builds a plan, and refuses what its own rules do not
//! allow, such as a boolean compared with a constant in quotes. So the operators that PostgreSQL has other rules for, and
//! the functions that we compute ourselves, go through the planner as calls that take anything. When the plan is built,
//! [`typing`](super::typing) puts what they mean in their place. None of them is left then.

use super::arrow::{computed_type, wide_type};
use super::cells::CELL;
use super::error::external;
use super::quantified;
use super::sets;
use super::told_casts::CAST;
use super::unknown_function::{self, OPERATOR};
use super::value::{field_type, sql_type};
use crate::domains;
use crate::expression::notation::{OVERLAP, SUBSCRIPT};
use crate::expression::{Math, Temporal, labels, library};
use crate::rewrite::TIES;
use crate::window_frames::FRAME;
use ankerdb_engine::{DataType as SqlType, Error, SqlState, SystemType};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, ScalarValue, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr, RawFieldAccessExpr};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, GetFieldAccess, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility, lit, when,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use std::sync::Arc;

/// Operators by the names of calls.
pub(crate) const NEGATED: &str = "operator negative";
pub(crate) const POSITIVE: &str = "operator positive";
pub(crate) const DISTINCT: &str = "operator is distinct from";
pub(crate) const NOT_DISTINCT: &str = "operator is not distinct from";

/// Bytes of a name.
const NAME_BYTES: i64 = 64;

/// Lets the planner write operators as [`Written`].
#[derive(Debug)]
pub(crate) struct WrittenOperators;

impl ExprPlanner for WrittenOperators {
    fn plan_binary_op(&self, expr: RawBinaryExpr, _: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator as B;
        let (symbol, result) = match &expr.op {
            B::Plus => ("+", Rough::Number),
            B::Minus => ("-", Rough::Difference),
            B::Multiply => ("*", Rough::Number),
            B::Divide => ("/", Rough::Number),
            B::Modulo => ("%", Rough::Number),
            B::StringConcat => ("||", Rough::Text),
            B::Eq => ("=", Rough::Boolean),
            B::NotEq => ("<>", Rough::Boolean),
            B::Lt => ("<", Rough::Boolean),
            B::LtEq => ("<=", Rough::Boolean),
            B::Gt => (">", Rough::Boolean),
            B::GtEq => (">=", Rough::Boolean),
            // Beside something without a type; otherwise conditions stay what other rewrites look for.
            B::And if is_bare(&expr.left) || is_bare(&expr.right) => ("&&", Rough::Boolean),
            B::Or if is_bare(&expr.left) || is_bare(&expr.right) => ("|||", Rough::Boolean),
            B::Custom(symbol) => {
                let unknown = unknown_function::named(&format!("{OPERATOR}{symbol}"));
                let call = ScalarFunction::new_udf(unknown, vec![expr.left, expr.right]);
                return Ok(PlannerResult::Planned(Expr::ScalarFunction(call)));
            }
            _ => return Ok(PlannerResult::Original(expr)),
        };
        let written = Written::function(symbol, result);
        let call = ScalarFunction::new_udf(written, vec![expr.left, expr.right]);
        Ok(PlannerResult::Planned(Expr::ScalarFunction(call)))
    }

    fn plan_field_access(
        &self,
        access: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        let GetFieldAccess::ListIndex { key } = &access.field_access else {
            return Ok(PlannerResult::Original(access));
        };
        let field = access.expr.to_field(schema)?.1;
        match field.data_type() {
            DataType::List(_) => {
                let item = datafusion::functions_nested::expr_fn::array_element(access.expr, (**key).clone());
                Ok(PlannerResult::Planned(item))
            }
            // Names are arrays of bytes, counted from 0.
            _ if field_type(&field) == Some(SqlType::System(SystemType::Name)) => {
                let call = |name, result, arguments| {
                    Expr::ScalarFunction(ScalarFunction::new_udf(Written::function(name, result), arguments))
                };
                let position = || key.as_ref().clone();
                let begins = call(">=", Rough::Boolean, vec![position(), lit(0i64)]);
                let ends = call("<", Rough::Boolean, vec![position(), lit(NAME_BYTES)]);
                let from = call("+", Rough::Number, vec![position(), lit(1i64)]);
                let byte = call("substr", Rough::Text, vec![access.expr, from, lit(1i64)]);
                Ok(PlannerResult::Planned(when(begins.and(ends), byte).end()?))
            }
            _ if field_type(&field) == Some(SqlType::Jsonb) || is_part(&access.expr) => {
                let written = Written::function(SUBSCRIPT, Rough::Library);
                let call = ScalarFunction::new_udf(written, vec![access.expr, key.as_ref().clone()]);
                Ok(PlannerResult::Planned(Expr::ScalarFunction(call)))
            }
            // Arrays of one dimension have nothing at places of two.
            _ if is_item(&access.expr) => Ok(PlannerResult::Planned(when(lit(false), access.expr).end()?)),
            DataType::Boolean | DataType::Int16 | DataType::Int32 | DataType::Int64 => {
                let known = field_type(&field).unwrap_or(SqlType::BigInt);
                let message =
                    format!("cannot subscript type {known} because it does not support subscripting");
                Err(external(Error::new(SqlState::DatatypeMismatch, message)))
            }
            _ => Ok(PlannerResult::Original(access)),
        }
    }
}

/// Whether an expression is a part of a document.
fn is_part(expression: &Expr) -> bool {
    matches!(expression, Expr::ScalarFunction(call) if call.func.name() == SUBSCRIPT)
}

/// Whether an expression is what is at a place of an array.
fn is_item(expression: &Expr) -> bool {
    match expression {
        Expr::ScalarFunction(call) => call.func.name() == "array_element",
        Expr::Case(case) => {
            matches!(case.when_then_expr.as_slice(), [(never, item)] if **never == lit(false) && is_item(item))
        }
        _ => false,
    }
}

/// The function of this name as a [`Written`] one, if its calls are ours to compute.
pub(crate) fn function(name: &str) -> Option<Arc<ScalarUDF>> {
    let (name, result) = match name {
        "coalesce" => ("coalesce", Rough::Argument),
        "nullif" => ("nullif", Rough::Argument),
        "greatest" => ("greatest", Rough::Argument),
        labels::FIRST => (labels::FIRST, Rough::Argument),
        labels::LAST => (labels::LAST, Rough::Argument),
        labels::RANGE => (labels::RANGE, Rough::ListOfArgument),
        "least" => ("least", Rough::Argument),
        "abs" => ("abs", Rough::NumberArgument),
        "round" => ("round", Rough::NumberArgument),
        "trunc" => ("trunc", Rough::NumberArgument),
        "ceil" | "ceiling" => ("ceil", Rough::NumberArgument),
        "floor" => ("floor", Rough::NumberArgument),
        "sign" => ("sign", Rough::NumberArgument),
        "mod" => ("mod", Rough::NumberArgument),
        "lower" => ("lower", Rough::Text),
        "upper" => ("upper", Rough::Text),
        "left" => ("left", Rough::Text),
        "right" => ("right", Rough::Text),
        "replace" => ("replace", Rough::Text),
        "concat" => ("concat", Rough::Text),
        "substring" => ("substring", Rough::Text),
        "substr" => ("substr", Rough::Text),
        "trim" | "btrim" => ("btrim", Rough::Text),
        "ltrim" => ("ltrim", Rough::Text),
        "rtrim" => ("rtrim", Rough::Text),
        "length" | "char_length" | "character_length" => ("length", Rough::Integer),
        "octet_length" => ("octet_length", Rough::Integer),
        "strpos" => ("strpos", Rough::Integer),
        "position" => ("position", Rough::Integer),
        "nextval" => ("nextval", Rough::Count),
        "currval" => ("currval", Rough::Count),
        "setval" => ("setval", Rough::Count),
        "lastval" => ("lastval", Rough::Count),
        "current_setting" => ("current_setting", Rough::Text),
        "set_config" => ("set_config", Rough::Text),
        "pg_typeof" => ("pg_typeof", Rough::Type),
        "date_part" => ("date_part", Rough::Double),
        "date_trunc" => ("date_trunc", Rough::Moment),
        "timezone" => ("timezone", Rough::Moment),
        "extract" => ("extract", Rough::Numeric),
        TIES => (TIES, Rough::Count),
        FRAME => (FRAME, Rough::Boolean),
        CAST => (CAST, Rough::First),
        CELL => (CELL, Rough::Second),
        OVERLAP => (OVERLAP, Rough::Boolean),
        NEGATED => (NEGATED, Rough::Number),
        POSITIVE => (POSITIVE, Rough::Number),
        DISTINCT => (DISTINCT, Rough::Boolean),
        NOT_DISTINCT => (NOT_DISTINCT, Rough::Boolean),
        other if let Some(name) = other.strip_prefix(sets::PREFIX).and_then(sets::own) => match name {
            sets::UNNEST => (name, Rough::Item),
            sets::SUBSCRIPTS => (name, Rough::Integer),
            _ => (name, Rough::Count),
        },
        other if let Some(known) = of_arrays(other) => known,
        other if let Some((_, _, name)) = quantified::by_name(other) => (name, Rough::Boolean),
        other if let Some(version) = domains::by_call(other) => (&*version.call, Rough::First),
        other => match (Temporal::known_name(other), Math::known_name(other)) {
            (Some(name), _) => (name, Rough::Interval),
            (None, Some(name)) => (name, Rough::Double),
            (None, None) => (library::known_name(other)?, Rough::Library),
        },
    };
    Some(Written::function(name, result))
}

/// A function of arrays: the planner's library knows most of them, too, but not what they give for items of several types.
fn of_arrays(name: &str) -> Option<(&'static str, Rough)> {
    Some(match name {
        "array_append" => ("array_append", Rough::Argument),
        "array_cat" => ("array_cat", Rough::Argument),
        "array_prepend" => ("array_prepend", Rough::Second),
        "array_remove" => ("array_remove", Rough::Argument),
        "array_replace" => ("array_replace", Rough::Argument),
        "array_position" => ("array_position", Rough::Integer),
        "array_positions" => ("array_positions", Rough::Integers),
        "array_fill" => ("array_fill", Rough::ListOfArgument),
        "trim_array" => ("trim_array", Rough::Argument),
        _ => return None,
    })
}

/// A call of an operator between values of one type.
pub(crate) fn function_of_operator(symbol: &'static str) -> Arc<ScalarUDF> {
    let result = if symbol == "<" { Rough::Boolean } else { Rough::Number };
    Written::function(symbol, result)
}

/// The operator's symbol, if the call is one of an operator.
pub(crate) fn operator(call: &ScalarFunction) -> Option<&'static str> {
    let written = call.func.inner().downcast_ref::<Written>()?;
    written.name.starts_with(|first: char| !first.is_ascii_alphabetic()).then_some(written.name)
}

/// The function's name, if the call gives rows.
pub(crate) fn set_function(call: &ScalarFunction) -> Option<&'static str> {
    let written = call.func.inner().downcast_ref::<Written>()?;
    (sets::own(written.name).is_some() || library::is_set(written.name)).then_some(written.name)
}

fn is_bare(operand: &Expr) -> bool {
    matches!(operand, Expr::Placeholder(_) | Expr::Literal(ScalarValue::Utf8(_), _))
}

/// About which type a result has: enough for the planner, which looks for conditions and numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Rough {
    Boolean,
    Integer,
    Integers,
    Count,
    /// The type of the items of the first argument.
    Item,
    Text,
    Double,
    Numeric,
    Interval,
    /// The type of the second argument; a timestamp with time zone where that is none of moments or intervals.
    Moment,
    /// What the library says.
    Library,
    /// The number of a type.
    Type,
    /// The type of the operands.
    Number,
    /// The type of the operands; days between dates, an interval between moments and between times.
    Difference,
    /// The type of the first argument.
    First,
    /// The type of the second argument.
    Second,
    /// The type of the first argument that has one.
    Argument,
    /// A list of what the first argument that has a type is.
    ListOfArgument,
    /// The type of the first argument that has one, and a double if none has: functions of numbers prefer these.
    NumberArgument,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Written {
    name: &'static str,
    result: Rough,
    signature: Signature,
}

impl Written {
    fn function(name: &'static str, result: Rough) -> Arc<ScalarUDF> {
        let signature = Signature::user_defined(Volatility::Immutable);
        Arc::new(ScalarUDF::new_from_impl(Written { name, result, signature }))
    }
}

impl ScalarUDFImpl for Written {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        Ok(arguments.to_vec())
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        let known = || arguments.iter().find(|argument| !is_unknown(argument)).cloned();
        Ok(match self.result {
            Rough::Boolean => DataType::Boolean,
            Rough::Integer => DataType::Int32,
            Rough::Integers => DataType::new_list(DataType::Int32, true),
            Rough::Count => DataType::Int64,
            Rough::Item => match arguments.first() {
                Some(DataType::List(items)) => items.data_type().clone(),
                _ => DataType::Utf8View,
            },
            Rough::Text => match arguments.iter().find(|argument| matches!(argument, DataType::List(_))) {
                // Lists are concatenated, too.
                Some(list) if self.name == "||" => list.clone(),
                _ => DataType::Utf8View,
            },
            Rough::Double => DataType::Float64,
            Rough::Numeric => DataType::Decimal128(38, 0),
            Rough::Interval => wide_type(SqlType::INTERVAL),
            Rough::Moment => match arguments.get(1) {
                Some(known @ (DataType::Timestamp(..) | DataType::Interval(_))) => known.clone(),
                _ => wide_type(SqlType::TIMESTAMPTZ),
            },
            Rough::Type => DataType::Int64,
            Rough::Library => {
                let known = |argument: &DataType| (!is_unknown(argument)).then(|| sql_type(argument));
                let types: Vec<_> = arguments.iter().map(known).collect();
                // Arrow's types do not tell a document from a text.
                let result = library::result(self.name, &types);
                let result = result.or_else(|| library::only_result(self.name, types.len()));
                result.map_or(DataType::Utf8View, computed_type)
            }
            Rough::Difference => difference(arguments),
            Rough::Number => number(arguments),
            Rough::First => arguments[0].clone(),
            Rough::Second => arguments[1].clone(),
            Rough::Argument => known().unwrap_or(DataType::Utf8),
            Rough::ListOfArgument => DataType::new_list(known().unwrap_or(DataType::Utf8View), true),
            Rough::NumberArgument => known().unwrap_or(DataType::Float64),
        })
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("the types of {} were not settled", self.name)
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let names: Vec<String> = args.iter().map(|argument| argument.schema_name().to_string()).collect();
        match (operator_like(self.name), names.as_slice()) {
            (true, [left, right]) => Ok(format!("{left} {} {right}", self.name)),
            _ => Ok(format!("{}({})", self.name, names.join(","))),
        }
    }
}

fn operator_like(name: &str) -> bool {
    name.starts_with(|first: char| !first.is_ascii_alphabetic())
}

fn is_unknown(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Null | DataType::Utf8)
}

/// What has no type yet has that of the other side.
fn difference(operands: &[DataType]) -> DataType {
    let all = |wanted: fn(&DataType) -> bool| {
        operands.iter().all(|side| is_unknown(side) || wanted(side)) && operands.iter().any(wanted)
    };
    let is_date = |side: &DataType| *side == DataType::Date32;
    let is_moment = |side: &DataType| matches!(side, DataType::Timestamp(..) | DataType::Date32);
    if all(is_date) {
        DataType::Int32
    } else if all(is_moment) || all(|side| matches!(side, DataType::Time64(_))) {
        wide_type(SqlType::INTERVAL)
    } else {
        number(operands)
    }
}

/// The wider of two numbers; beside something else, that.
fn number(operands: &[DataType]) -> DataType {
    let rank = |data_type: &DataType| match data_type {
        unknown if is_unknown(unknown) => 0,
        DataType::Int16 => 1,
        DataType::Int32 => 2,
        DataType::Int64 => 3,
        DataType::Decimal128(..) => 4,
        // Numerics of any length.
        DataType::LargeBinary => 5,
        DataType::Float32 => 6,
        DataType::Float64 => 7,
        DataType::Interval(_) => 8,
        _ => 9,
    };
    operands.iter().max_by_key(|operand| rank(operand)).cloned().unwrap_or(DataType::Int64)
}
