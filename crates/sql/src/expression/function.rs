//! Functions of the OLTP path: which there are, what they take, what they give.

use super::bind::{Bound, Typed, elsewhere, type_name};
use super::types::{numeric, scale_of};
use super::{Binder, Expression};
use crate::name::{DATABASE, SCHEMA};
use crate::version::VERSION;
use ankerdb_engine::{DataType, Error, SqlState, Value};
use datafusion::sql::sqlparser::ast;

/// A function whose arguments have the types it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    /// The value of the numbered subquery's only row.
    Subquery(usize),
    /// Whether the numbered subquery gave a row.
    Exists(usize),
    /// `now()`: when the transaction began, as a timestamptz.
    Now,
    CurrentDate,
    LocalTimestamp,
    Lower,
    Upper,
    Length,
    OctetLength,
    Abs,
    Round,
    Ceil,
    Floor,
    Sign,
    Substring,
    Left,
    Right,
    Replace,
    Position,
    Trim,
    TrimStart,
    TrimEnd,
    Concat,
    Greatest,
    Least,
}

impl Function {
    /// Words that stand for a value without parentheses.
    pub fn constant(name: &str) -> Option<Typed> {
        let call = |function, data_type| Some(Typed::new(Expression::Call(function, vec![]), data_type));
        let text = |value: &str| Some(Typed::new(Expression::Literal(Value::text(value)), DataType::Text));
        match name {
            "current_timestamp" => call(Function::Now, DataType::TimestampTz),
            "localtimestamp" => call(Function::LocalTimestamp, DataType::Timestamp),
            "current_date" => call(Function::CurrentDate, DataType::Date),
            "current_user" | "session_user" | "user" => text("ankerdb"),
            "current_schema" => text(SCHEMA),
            "current_catalog" => text(DATABASE),
            _ => None,
        }
    }
}

/// Binds a call. Functions unknown here, aggregates and windows are left to the OLAP path.
pub(super) fn bind_function(binder: &mut Binder, function: &ast::Function) -> Bound<Typed> {
    let [ast::ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else {
        return elsewhere(format!("the function {}", function.name));
    };
    let name = crate::name::folded(name);
    if function.over.is_some() || function.filter.is_some() || !function.within_group.is_empty() {
        return elsewhere("an aggregate or window function here");
    }
    let arguments = match &function.args {
        ast::FunctionArguments::None => {
            return Function::constant(&name).map_or_else(|| elsewhere(format!("the function {name}")), Ok);
        }
        ast::FunctionArguments::Subquery(_) => return elsewhere(format!("the function {name}")),
        ast::FunctionArguments::List(list) => list,
    };
    if arguments.duplicate_treatment.is_some() || !arguments.clauses.is_empty() {
        return elsewhere("an aggregate function here");
    }
    let mut exprs = Vec::with_capacity(arguments.args.len());
    for argument in &arguments.args {
        match argument {
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => exprs.push(expr),
            _ => return elsewhere(format!("the function {name} with such arguments")),
        }
    }
    bind_call(binder, &name, &exprs)
}

/// Binds `substring(text from start for length)`.
pub(super) fn bind_substring(
    binder: &mut Binder,
    text: &ast::Expr,
    from: Option<&ast::Expr>,
    length: Option<&ast::Expr>,
) -> Bound<Typed> {
    let one = ast::Expr::value(ast::Value::Number("1".into(), false));
    let mut arguments = vec![text, from.unwrap_or(&one)];
    arguments.extend(length);
    bind_call(binder, "substring", &arguments)
}

/// Binds `trim(both what from text)`.
pub(super) fn bind_trim(
    binder: &mut Binder,
    side: Option<ast::TrimWhereField>,
    what: Option<&ast::Expr>,
    text: &ast::Expr,
) -> Bound<Typed> {
    let name = match side {
        None | Some(ast::TrimWhereField::Both) => "btrim",
        Some(ast::TrimWhereField::Leading) => "ltrim",
        Some(ast::TrimWhereField::Trailing) => "rtrim",
    };
    let mut arguments = vec![text];
    arguments.extend(what);
    bind_call(binder, name, &arguments)
}

/// Binds a call by name.
pub(super) fn bind_call(binder: &mut Binder, name: &str, arguments: &[&ast::Expr]) -> Bound<Typed> {
    match (name, arguments.len()) {
        ("coalesce", 1..) => {
            let (items, data_type) = merged(binder, arguments, "COALESCE")?;
            Ok(Typed::new(Expression::Coalesce(items), data_type))
        }
        ("nullif", 2) => {
            let (mut items, data_type) = merged(binder, arguments, "NULLIF")?;
            match (items.pop(), items.pop()) {
                (Some(second), Some(first)) => {
                    Ok(Typed::new(Expression::NullIf(Box::new((first, second))), data_type))
                }
                _ => elsewhere("nullif"),
            }
        }
        ("greatest", 1..) => {
            let (items, data_type) = merged(binder, arguments, "GREATEST")?;
            Ok(Typed::new(Expression::Call(Function::Greatest, items), data_type))
        }
        ("least", 1..) => {
            let (items, data_type) = merged(binder, arguments, "LEAST")?;
            Ok(Typed::new(Expression::Call(Function::Least, items), data_type))
        }
        ("now" | "transaction_timestamp" | "statement_timestamp", 0) => {
            Ok(Typed::new(Expression::Call(Function::Now, vec![]), DataType::TimestampTz))
        }
        ("version", 0) => Ok(Typed::new(Expression::Literal(Value::text(VERSION)), DataType::Text)),
        ("current_database", 0) => Ok(Typed::new(Expression::Literal(Value::text(DATABASE)), DataType::Text)),
        ("current_schema", 0) => Ok(Typed::new(Expression::Literal(Value::text(SCHEMA)), DataType::Text)),
        ("pg_is_in_recovery", 0) => {
            Ok(Typed::new(Expression::Literal(Value::Boolean(false)), DataType::Boolean))
        }
        ("abs" | "round" | "ceil" | "ceiling" | "floor" | "sign" | "mod", 1..) => {
            numeric_call(binder, name, arguments)
        }
        _ => text_call(binder, name, arguments),
    }
}

fn merged(binder: &mut Binder, arguments: &[&ast::Expr], what: &str) -> Bound<(Vec<Expression>, DataType)> {
    let items = arguments.iter().map(|argument| binder.bind(argument)).collect::<Bound<Vec<_>>>()?;
    binder.merge(items, what)
}

fn numeric_call(binder: &mut Binder, name: &str, arguments: &[&ast::Expr]) -> Bound<Typed> {
    let mut items = arguments.iter().map(|argument| binder.bind(argument)).collect::<Bound<Vec<_>>>()?;
    if name == "mod" && items.len() == 2 {
        let (Some(right), Some(left)) = (items.pop(), items.pop()) else { return elsewhere(name) };
        return binder.arithmetic(super::Arithmetic::Modulo, left, right);
    }
    let operand_type = items[0].data_type.unwrap_or(DataType::DoublePrecision);
    if !operand_type.is_numeric() {
        return Err(no_function(name, &items).into());
    }
    let integer = matches!(operand_type, DataType::SmallInt | DataType::Integer | DataType::BigInt);
    let result = match (name, items.len()) {
        ("abs", 1) => operand_type,
        ("sign" | "round" | "ceil" | "ceiling" | "floor", 1) => match operand_type {
            DataType::Numeric { .. } => numeric(0),
            _ => DataType::DoublePrecision,
        },
        ("round", 2) if integer || matches!(operand_type, DataType::Numeric { .. }) => {
            numeric(scale_of(operand_type))
        }
        _ => return Err(no_function(name, &items).into()),
    };
    let function = match name {
        "abs" => Function::Abs,
        "sign" => Function::Sign,
        "round" => Function::Round,
        "floor" => Function::Floor,
        _ => Function::Ceil,
    };
    // Integers are rounded as the result's type, as PostgreSQL resolves these calls.
    let operand = match (name, integer) {
        ("abs", _) | (_, false) => operand_type,
        _ => result,
    };
    let second = items.split_off(1).pop();
    let mut bound = items.into_iter().map(|item| binder.resolve(item, operand)).collect::<Bound<Vec<_>>>()?;
    let mut result = result;
    if let Some(digits) = second {
        let digits = match digits.data_type {
            None | Some(DataType::SmallInt | DataType::Integer) => {
                binder.resolve(digits, DataType::Integer)?
            }
            Some(_) => return elsewhere("round with such digits"),
        };
        if let Expression::Literal(Value::Integer(digits @ 0..=38)) = digits {
            result = numeric(digits as u8);
        }
        bound.push(digits);
    }
    Ok(Typed::new(Expression::Call(function, bound), result))
}

fn text_call(binder: &mut Binder, name: &str, arguments: &[&ast::Expr]) -> Bound<Typed> {
    use DataType::{Integer, Text};
    let (function, parameters, result): (_, &[DataType], _) = match (name, arguments.len()) {
        ("lower", 1) => (Function::Lower, &[Text], Text),
        ("upper", 1) => (Function::Upper, &[Text], Text),
        ("length" | "char_length" | "character_length", 1) => (Function::Length, &[Text], Integer),
        ("octet_length", 1) => (Function::OctetLength, &[Text], Integer),
        ("substring" | "substr", 2) => (Function::Substring, &[Text, Integer], Text),
        ("substring" | "substr", 3) => (Function::Substring, &[Text, Integer, Integer], Text),
        ("left", 2) => (Function::Left, &[Text, Integer], Text),
        ("right", 2) => (Function::Right, &[Text, Integer], Text),
        ("replace", 3) => (Function::Replace, &[Text, Text, Text], Text),
        ("strpos", 2) => (Function::Position, &[Text, Text], Integer),
        ("btrim" | "trim", 1) => (Function::Trim, &[Text], Text),
        ("btrim" | "trim", 2) => (Function::Trim, &[Text, Text], Text),
        ("ltrim", 1) => (Function::TrimStart, &[Text], Text),
        ("ltrim", 2) => (Function::TrimStart, &[Text, Text], Text),
        ("rtrim", 1) => (Function::TrimEnd, &[Text], Text),
        ("rtrim", 2) => (Function::TrimEnd, &[Text, Text], Text),
        ("concat", 1..) => {
            let items = arguments.iter().map(|argument| {
                let typed = binder.bind(argument)?;
                binder.resolve(typed, Text)
            });
            let items = items.collect::<Bound<Vec<_>>>()?;
            return Ok(Typed::new(Expression::Call(Function::Concat, items), Text));
        }
        _ => return elsewhere(format!("the function {name}")),
    };
    let items = arguments.iter().map(|argument| binder.bind(argument)).collect::<Bound<Vec<_>>>()?;
    let fits = |(item, wanted): (&Typed, &DataType)| match item.data_type {
        None => true,
        Some(known) if *wanted == Text => known.is_text(),
        Some(known) => matches!(known, DataType::SmallInt | Integer),
    };
    if !items.iter().zip(parameters).all(fits) {
        // `length` and `substring` of bytea, for example, are the OLAP path's to answer or to refuse.
        let bytes = items.iter().any(|item| item.data_type == Some(DataType::Bytea));
        return if bytes {
            elsewhere(format!("the function {name} of bytea"))
        } else {
            Err(no_function(name, &items).into())
        };
    }
    let bound = items.into_iter().zip(parameters).map(|(item, wanted)| binder.resolve(item, *wanted));
    Ok(Typed::new(Expression::Call(function, bound.collect::<Bound<Vec<_>>>()?), result))
}

fn no_function(name: &str, arguments: &[Typed]) -> Error {
    let types = arguments.iter().map(|argument| argument.data_type.map_or("unknown".into(), type_name));
    let types = types.collect::<Vec<_>>().join(", ");
    let hint =
        "No function matches the given name and argument types. You might need to add explicit type casts.";
    Error::new(SqlState::UndefinedFunction, format!("function {name}({types}) does not exist"))
        .with_hint(hint)
}
