//! Spellings of PostgreSQL that DataFusion's planner does not know, in those that it does.
//!
//! - `x COLLATE "C"`, and other names for the order that texts have here: `x`
//! - `a OPERATOR(pg_catalog.~) b`: `a ~ b`
//! - `ARRAY(SELECT x FROM ...)`: in `list_query`
//! - `VALUES ('1'::jsonb), ('2')`: both cast; with subqueries: in `computed_rows`
//! - `B'101'`: `CAST('b101' AS pg_catalog."bit")`, a string of bits of any length
//! - `1e100`: `CAST('1e100' AS numeric)`, a number of any length
//! - `json_agg(x)`: in `document_aggregate`
//! - `f(x)` in FROM: in `sets`
//! - `a[:2]`: `a[1:2]`
//! - `LOCALTIMESTAMP`, `CURRENT_DATE` and their like: `CAST(now() AS timestamp)`, as the session's clocks show the moment
//! - `WHERE 'yes'`: `WHERE CAST('yes' AS boolean)`
//! - `VALUES (a::varchar(3)), (b::varchar(5))`: `coalesce(a::varchar(3))`

use super::computed_rows;
use super::document_aggregate;
use super::hypothetical::as_counts;
use super::list_query::list_of_subquery;
use super::percentiles::as_list;
use super::quantified;
use super::sets;
use super::written::{DISTINCT, NEGATED, NOT_DISTINCT, POSITIVE};
use super::{told_casts, told_subqueries};
use crate::domains;
use crate::expression::bind::is_bare_numeric;
use crate::expression::notation::as_call;
use crate::expression::quantified::{comparison, parts};
use crate::expression::types::{ANY_BIT, data_type as expression_type};
use crate::name::dotted;
use crate::visit::{Work, visit, visit_expressions};
use ankerdb_engine::{DataType as SqlType, Error, PackedType, Result, SqlState};
use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, CastKind, DataType, ExactNumberInfo, Expr, Function, FunctionArg,
    FunctionArgExpr, FunctionArgumentClause, FunctionArgumentList, FunctionArguments, Ident, ObjectName,
    Query, SetExpr, Statement, Subscript, TimezoneInfo, TypedString, UnaryOperator, Value,
};
use std::ops::ControlFlow;

/// The name of the function that gives an empty list for none; see [`lists`](super::lists).
pub(super) const OR_EMPTY: &str = "array_or_empty";
/// The name of the function that makes a list of its arguments. The planner does not look for columns of the queries around in `ARRAY[a]`.
pub(super) const ARRAY: &str = "operator array";

/// Whether an item may be a column, or be made of one.
fn names_columns(items: &[Expr]) -> bool {
    let see = |part: &Expr| match part {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    items.iter().any(|item| visit_expressions(item, see).is_break())
}

/// The query in other words.
///
/// # Errors
/// 42704 for a collation that there is not, 0A000 for what has no other words.
pub(super) fn respelled(query: &Statement) -> Result<Statement> {
    let mut query = sets::written_out(query)?;
    let mut spelling = Spelling { refused: None };
    visit(&mut query, &mut spelling);
    spelling.refused.map_or(Ok(query), Err)
}

/// The query with calls in place of the operators and words that stand for them: `a & b`, `overlay(a PLACING b FROM 2)`. Texts as `U&'...'` are plain ones. (Not a part
/// of [`respelled`], because columns are called by what was written.)
///
/// # Errors
/// 42883 for a call of `rank` and its like that has another number of arguments than its order.
pub(super) fn with_calls(query: &Statement) -> Result<Statement> {
    let mut query = query.clone();
    let mut calls = Calls { refused: None, depth: 0 };
    visit(&mut query, &mut calls);
    calls.refused.map_or_else(|| Ok(told_subqueries::told(told_casts::told(query))), Err)
}

struct Calls {
    refused: Option<Error>,
    /// How many queries are around what is being visited.
    depth: usize,
}

impl Work for Calls {
    fn query(&mut self, _: &mut Query) {
        self.depth += 1;
    }

    fn end_of_query(&mut self) {
        self.depth -= 1;
    }

    fn expression(&mut self, expression: &mut Expr) {
        if let Some(call) = domains::as_call(expression) {
            *expression = call;
        }
        if let Some((name, mut arguments)) = as_call(expression) {
            // A sign may have gone before the base of a power.
            arguments.iter_mut().for_each(|argument| self.expression(argument));
            *expression = calls(name, arguments, Vec::new());
        }
        if let Expr::Function(function) = expression
            && let Some(now) = local_now(function)
        {
            *expression = now;
        }
        if let Expr::Function(function) = expression {
            leave_out_constants(function);
            name_set(function);
            match as_counts(function) {
                Some(Ok(counts)) => *expression = counts,
                Some(Err(error)) => self.refused = Some(error),
                None => {
                    if let Some(list) = as_list(function) {
                        *expression = list;
                    }
                }
            }
        }
        if let Some(call) = over_items(expression) {
            *expression = call;
        }
        if let Expr::CompoundFieldAccess { access_chain, .. } = expression {
            bound_slices(access_chain);
        }
        if let Some(call) = of_numbers(expression) {
            *expression = call;
        }
        if let Expr::Array(array) = expression
            && self.depth > 1
            && names_columns(&array.elem)
        {
            *expression = calls(ARRAY, std::mem::take(&mut array.elem), Vec::new());
        }
        if let Expr::Value(value) = expression {
            match &value.value {
                Value::UnicodeStringLiteral(text) => {
                    *expression = Expr::value(Value::SingleQuotedString(text.clone()));
                }
                Value::Number(text, _) if is_long(text) => *expression = number(text),
                Value::SingleQuotedByteStringLiteral(digits) => *expression = bits('b', digits),
                Value::HexStringLiteral(digits) => *expression = bits('x', digits),
                _ => {}
            }
        }
    }
}

/// A string of bits as a text that is cast to the type of any length.
fn bits(kind: char, digits: &str) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::value(Value::SingleQuotedString(format!("{kind}{digits}")))),
        data_type: any_bits(),
        array: false,
        format: None,
    }
}

/// Whether the item is a constant string of bits.
fn is_of_bits(item: &Expr) -> bool {
    use Value::{HexStringLiteral, SingleQuotedByteStringLiteral};
    matches!(item, Expr::Value(value) if matches!(value.value, SingleQuotedByteStringLiteral(_) | HexStringLiteral(_)))
}

/// The type of strings of any number of bits.
fn any_bits() -> DataType {
    let name = vec![Ident::new("pg_catalog"), Ident::with_quote('"', "bit")];
    DataType::Custom(ObjectName::from(name), Vec::new())
}

/// Gives slices the bounds that are not written. What has several subscripts is a slice if one of them is, and has no items: there are no
/// arrays of several dimensions here.
fn bound_slices(chain: &mut Vec<AccessExpr>) {
    let number = |number: i32| Expr::value(Value::Number(number.to_string(), false));
    let is_slice = |access: &AccessExpr| matches!(access, AccessExpr::Subscript(Subscript::Slice { .. }));
    if chain.len() > 1
        && let Some(slice) = chain.iter().position(is_slice)
    {
        chain.swap(0, slice);
        chain.truncate(1);
        if let AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, .. }) = &mut chain[0] {
            (*lower_bound, *upper_bound) = (Some(number(2)), Some(number(1)));
        }
    }
    for access in chain {
        if let AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, .. }) = access {
            lower_bound.get_or_insert_with(|| number(1));
            upper_bound.get_or_insert_with(|| number(i32::MAX));
        }
    }
}

/// Operators as calls whose operands the planner would look at: it knows no numerics of any length.
fn of_numbers(expression: &mut Expr) -> Option<Expr> {
    match expression {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
            let is_plain = |value: &Value| matches!(value, Value::Number(text, _) if !is_long(text));
            match &**expr {
                Expr::Value(value) if is_plain(&value.value) => None,
                operand => Some(calls(NEGATED, vec![operand.clone()], Vec::new())),
            }
        }
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } => {
            Some(calls(POSITIVE, vec![(**expr).clone()], Vec::new()))
        }
        Expr::IsDistinctFrom(left, right) => {
            Some(calls(DISTINCT, vec![(**left).clone(), (**right).clone()], Vec::new()))
        }
        Expr::IsNotDistinctFrom(left, right) => {
            Some(calls(NOT_DISTINCT, vec![(**left).clone(), (**right).clone()], Vec::new()))
        }
        _ => None,
    }
}

/// Takes constants out of the order of an aggregate's rows: they are no places of columns there.
fn leave_out_constants(function: &mut Function) {
    let FunctionArguments::List(list) = &mut function.args else { return };
    for clause in &mut list.clauses {
        if let FunctionArgumentClause::OrderBy(keys) = clause {
            keys.retain(|key| !matches!(key.expr, Expr::Value(_)));
        }
    }
    list.clauses.retain(|clause| !matches!(clause, FunctionArgumentClause::OrderBy(keys) if keys.is_empty()));
}

/// Calls a function that takes lists apart by the name that it is planned by.
fn name_set(function: &mut Function) {
    let name = dotted(&function.name);
    if let Some(own) = sets::own(name.strip_prefix("pg_catalog.").unwrap_or(&name)) {
        function.name = ObjectName::from(vec![Ident::with_quote('"', format!("{}{own}", sets::PREFIX))]);
    }
}

/// `a = ANY (list)` as a call; `None` for other expressions, and for subqueries.
fn over_items(expression: &Expr) -> Option<Expr> {
    let (left, operator, quantifier, right) = parts(expression)?;
    if matches!(right, Expr::Subquery(_)) {
        return None;
    }
    let name = quantified::name(comparison(operator)?, quantifier);
    Some(calls(name, vec![left.clone(), right.clone()], Vec::new()))
}

struct Spelling {
    refused: Option<Error>,
}

impl Work for Spelling {
    fn query(&mut self, query: &mut Query) {
        let mut bodies = vec![query.body.as_mut()];
        while let Some(body) = bodies.pop() {
            match body {
                SetExpr::SetOperation { left, right, .. } => bodies.extend([left.as_mut(), right.as_mut()]),
                SetExpr::Values(values) => {
                    let rows = values.rows.iter_mut().map(|row| row.content.as_mut_slice());
                    let mut rows = rows.collect::<Vec<_>>();
                    cast_constants(&mut rows);
                    cast_numbers(&mut rows);
                    cast_limited(&mut rows);
                }
                SetExpr::Select(select) => {
                    [&mut select.selection, &mut select.having]
                        .into_iter()
                        .flatten()
                        .for_each(cast_condition);
                }
                // Queries in parentheses are visited by themselves.
                _ => {}
            }
        }
        computed_rows::as_queries(query);
    }

    fn expression(&mut self, expression: &mut Expr) {
        let respelled = match expression {
            Expr::Collate { expr, collation } => without_collation(expr, collation),
            Expr::BinaryOp { op, .. } => {
                if let BinaryOperator::PGCustomBinaryOperator(names) = op
                    && let Some(known) = operator(names)
                {
                    *op = known;
                }
                return;
            }
            Expr::Function(function) => {
                match list_of_subquery(function).or_else(|| document_aggregate::respelled(function)) {
                    Some(list) => list,
                    None => return,
                }
            }
            _ => return,
        };
        match respelled {
            Ok(respelled) => *expression = respelled,
            Err(error) => self.refused = Some(error),
        }
    }
}

/// A constant in quotes that is a condition is a boolean.
fn cast_condition(condition: &mut Expr) {
    match condition {
        Expr::Nested(inner) => cast_condition(inner),
        Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)) => {
            let expr = Box::new(condition.clone());
            let data_type = DataType::Boolean;
            *condition = Expr::Cast { kind: CastKind::Cast, expr, data_type, array: false, format: None };
        }
        _ => {}
    }
}

/// The present moment in place of a word that stands for a part of it, as the session's clocks show it.
fn local_now(function: &Function) -> Option<Expr> {
    if !matches!(function.args, FunctionArguments::None) {
        return None;
    }
    let data_type = match dotted(&function.name).as_str() {
        "current_date" => DataType::Date,
        "current_time" => DataType::Time(None, TimezoneInfo::WithTimeZone),
        "localtime" => DataType::Time(None, TimezoneInfo::None),
        "localtimestamp" => DataType::Timestamp(None, TimezoneInfo::None),
        _ => return None,
    };
    let expr = Box::new(calls("now", Vec::new(), Vec::new()));
    Some(Expr::Cast { kind: CastKind::Cast, expr, data_type, array: false, format: None })
}

/// The type that constants without one have beside such an item, if the planner does not find it: of documents, which it cannot tell
/// from texts, and of packed types.
fn type_beside(item: &Expr) -> Option<DataType> {
    if is_of_bits(item) {
        return Some(any_bits());
    }
    let (Expr::Cast { data_type, .. } | Expr::TypedString(TypedString { data_type, .. })) = item else {
        return None;
    };
    match expression_type(data_type).ok()? {
        SqlType::Json | SqlType::Jsonb => Some(data_type.clone()),
        SqlType::Packed(PackedType::Bit(_)) => Some(any_bits()),
        SqlType::Packed(PackedType::Varbit(_)) => Some(DataType::VarBit(None)),
        SqlType::Packed(_) => Some(data_type.clone()),
        _ => None,
    }
}

/// Casts constants without a type in a column of VALUES where the planner does not find which they have.
fn cast_constants(rows: &mut [&mut [Expr]]) {
    let width = rows.first().map_or(0, |row| row.len());
    for column in 0..width {
        let known = rows.iter().find_map(|row| row.get(column).and_then(type_beside));
        let Some(data_type) = known else { continue };
        for item in rows.iter_mut().filter_map(|row| row.get_mut(column)) {
            let is_untyped = |value: &Value| matches!(value, Value::SingleQuotedString(_) | Value::Null);
            if matches!(item, Expr::Value(value) if is_untyped(&value.value)) {
                let expr = Box::new(item.clone());
                let (kind, data_type) = (CastKind::Cast, data_type.clone());
                *item = Expr::Cast { kind, expr, data_type, array: false, format: None };
            }
        }
    }
}

/// Whether the number may have more digits than DataFusion's planner reads.
fn is_long(number: &str) -> bool {
    const DIGITS_SURE: usize = 38;
    number.len() > DIGITS_SURE || number.contains(['e', 'E'])
}

/// The number as a numeric in quotes.
fn number(text: &str) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::value(Value::SingleQuotedString(text.replace('_', "")))),
        data_type: DataType::Numeric(ExactNumberInfo::None),
        array: false,
        format: None,
    }
}

/// Whether numbers among the items have different numbers of fractional digits, which each keeps.
fn have_scales<'e>(items: impl Iterator<Item = &'e Expr>) -> bool {
    let scale = |item: &Expr| match item {
        Expr::Value(value) => match &value.value {
            Value::Number(text, _) => Some(text.split_once('.').map_or(0, |(_, digits)| digits.len())),
            _ => None,
        },
        _ => None,
    };
    let mut scales = items.filter_map(scale);
    scales.next().is_some_and(|first| scales.any(|other| other != first))
}

/// Numbers in a column of VALUES that has one of any length as such numbers: the planner wants equal types there.
fn cast_numbers(rows: &mut [&mut [Expr]]) {
    let has_any_length = |item: &Expr| match item {
        Expr::Value(value) => matches!(&value.value, Value::Number(text, _) if is_long(text)),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
            matches!(&**expr, Expr::Value(value) if matches!(&value.value, Value::Number(text, _) if is_long(text)))
        }
        Expr::Cast { data_type, .. } => is_bare_numeric(data_type),
        _ => false,
    };
    for column in 0..rows.first().map_or(0, |row| row.len()) {
        let items = || rows.iter().filter_map(|row| row.get(column));
        if !items().any(has_any_length) && !have_scales(items()) {
            continue;
        }
        for item in rows.iter_mut().filter_map(|row| row.get_mut(column)) {
            let is_cast = matches!(item, Expr::Cast { .. });
            let is_null = matches!(item, Expr::Value(value) if matches!(value.value, Value::Null));
            if !is_cast && !is_null {
                let expr = Box::new(item.clone());
                let (kind, data_type) = (CastKind::Cast, DataType::Numeric(ExactNumberInfo::None));
                *item = Expr::Cast { kind, expr, data_type, array: false, format: None };
            }
        }
    }
}

/// Hides several lengths or precisions of types in a column of VALUES: the planner wants equal types there, too.
fn cast_limited(rows: &mut [&mut [Expr]]) {
    let limit = |item: &Expr| match item {
        item if is_of_bits(item) => Some(ANY_BIT),
        Expr::Cast { data_type, .. } => {
            let known = expression_type(data_type).ok()?;
            let is_limited = matches!(known, SqlType::Varchar(_) | SqlType::Packed(PackedType::Bit(_)));
            (is_limited || known != known.of_any_precision()).then_some(known)
        }
        _ => None,
    };
    for column in 0..rows.first().map_or(0, |row| row.len()) {
        let limits: Vec<_> = rows.iter().map(|row| row.get(column).and_then(limit)).collect();
        if limits.windows(2).all(|pair| pair[0] == pair[1]) {
            continue;
        }
        for (row, limit) in rows.iter_mut().zip(limits) {
            if let (Some(item), Some(_)) = (row.get_mut(column), limit) {
                *item = call("coalesce", item.clone(), Vec::new());
            }
        }
    }
}

/// Texts are compared byte by byte, which some collations are names for.
fn without_collation(expr: &Expr, collation: &ObjectName) -> Result<Expr> {
    let name = dotted(collation);
    match name.strip_prefix("pg_catalog.").unwrap_or(&name) {
        "default" | "C" | "POSIX" | "ucs_basic" => Ok(expr.clone()),
        other => {
            let message = format!("collation \"{other}\" for encoding \"UTF8\" does not exist");
            Err(Error::new(SqlState::UndefinedObject, message))
        }
    }
}

/// The operator that `OPERATOR(...)` names.
fn operator(names: &[String]) -> Option<BinaryOperator> {
    let (symbol, schema) = names.split_last()?;
    if !matches!(schema, [] | [_]) || schema.first().is_some_and(|schema| schema != "pg_catalog") {
        return None;
    }
    Some(match symbol.as_str() {
        "=" => BinaryOperator::Eq,
        "<>" | "!=" => BinaryOperator::NotEq,
        "<" => BinaryOperator::Lt,
        "<=" => BinaryOperator::LtEq,
        ">" => BinaryOperator::Gt,
        ">=" => BinaryOperator::GtEq,
        "+" => BinaryOperator::Plus,
        "-" => BinaryOperator::Minus,
        "*" => BinaryOperator::Multiply,
        "/" => BinaryOperator::Divide,
        "%" => BinaryOperator::Modulo,
        "||" => BinaryOperator::StringConcat,
        "~" => BinaryOperator::PGRegexMatch,
        "~*" => BinaryOperator::PGRegexIMatch,
        "!~" => BinaryOperator::PGRegexNotMatch,
        "!~*" => BinaryOperator::PGRegexNotIMatch,
        "~~" => BinaryOperator::PGLikeMatch,
        "~~*" => BinaryOperator::PGILikeMatch,
        "!~~" => BinaryOperator::PGNotLikeMatch,
        "!~~*" => BinaryOperator::PGNotILikeMatch,
        _ => return None,
    })
}

pub(super) fn call(name: &str, argument: Expr, clauses: Vec<FunctionArgumentClause>) -> Expr {
    calls(name, vec![argument], clauses)
}

pub(super) fn calls(name: &str, arguments: Vec<Expr>, clauses: Vec<FunctionArgumentClause>) -> Expr {
    let args =
        arguments.into_iter().map(|argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))).collect();
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList { duplicate_treatment: None, args, clauses }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}
