//! Spellings of PostgreSQL that DataFusion's planner does not know, in those that it does.
//!
//! - `x COLLATE "C"`, and other names for the order that texts have here: `x`
//! - `a OPERATOR(pg_catalog.~) b`: `a ~ b`
//! - `ARRAY(SELECT x FROM ...)`: the subquery as an aggregate, which gives a list
//! - `VALUES ('1'::jsonb), ('2')`: both cast
//! - `json_agg(x)`: in `document_aggregate`
//! - `f(x)` in FROM: in `sets`

use super::document_aggregate;
use super::quantified;
use super::sets;
use crate::expression::notation::as_call;
use crate::expression::quantified::{comparison, parts};
use crate::name::{dotted, folded, not_supported};
use crate::visit::{Work, visit};
use ankerdb_engine::{Error, Result, SqlState};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArgumentList, FunctionArguments, GroupByExpr, Ident, ObjectName, OrderByExpr, OrderByKind, Query,
    Select, SelectItem, SetExpr, Statement, Value,
};

/// The name of the function that gives an empty list for none; see [`lists`](super::lists).
pub(super) const OR_EMPTY: &str = "array_or_empty";

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
pub(super) fn with_calls(query: &Statement) -> Statement {
    let mut query = query.clone();
    visit(&mut query, &mut Calls);
    query
}

struct Calls;

impl Work for Calls {
    fn expression(&mut self, expression: &mut Expr) {
        if let Some((name, mut arguments)) = as_call(expression) {
            // A sign may have gone before the base of a power.
            arguments.iter_mut().for_each(|argument| self.expression(argument));
            *expression = calls(name, arguments, Vec::new());
        }
        if let Expr::Function(function) = expression {
            name_set(function);
        }
        if let Some(call) = over_items(expression) {
            *expression = call;
        }
        if let Expr::Value(value) = expression
            && let Value::UnicodeStringLiteral(text) = &value.value
        {
            *expression = Expr::value(Value::SingleQuotedString(text.clone()));
        }
    }
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
                    cast_documents(&mut rows.collect::<Vec<_>>());
                }
                // Queries in parentheses are visited by themselves.
                _ => {}
            }
        }
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

/// Casts constants without a type in a column of VALUES that has documents, which the planner cannot tell from texts.
fn cast_documents(rows: &mut [&mut [Expr]]) {
    let width = rows.first().map_or(0, |row| row.len());
    for column in 0..width {
        let document = rows.iter().find_map(|row| match row.get(column) {
            Some(Expr::Cast { data_type: data_type @ (DataType::JSON | DataType::JSONB), .. }) => {
                Some(data_type.clone())
            }
            _ => None,
        });
        let Some(data_type) = document else { continue };
        for item in rows.iter_mut().filter_map(|row| row.get_mut(column)) {
            if matches!(item, Expr::Value(_)) {
                let expr = Box::new(item.clone());
                let (kind, data_type) = (CastKind::Cast, data_type.clone());
                *item = Expr::Cast { kind, expr, data_type, array: false, format: None };
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

/// `ARRAY(SELECT ...)`; `None` for other calls.
fn list_of_subquery(function: &Function) -> Option<Result<Expr>> {
    let [name] = function.name.0.as_slice() else { return None };
    let FunctionArguments::Subquery(query) = &function.args else { return None };
    if folded(name.as_ident()?) != "array" {
        return None;
    }
    let mut query = query.clone();
    Some(match aggregate(&mut query) {
        Some(()) => Ok(call(OR_EMPTY, Expr::Subquery(query), Vec::new())),
        None => Err(not_supported("ARRAY(SELECT ...) with such a subquery")),
    })
}

/// Makes the query's only column a list; `None` if it is not plain enough.
fn aggregate(query: &mut Query) -> Option<()> {
    let order = query.order_by.take();
    let is_plain = query.with.is_none() && query.limit_clause.is_none() && query.fetch.is_none();
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    let item = match select.projection.as_slice() {
        [SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }] => item.clone(),
        _ => return None,
    };
    if !is_plain || !has_rows_of_tables(select) {
        return None;
    }
    let order = match order.map(|order| order.kind) {
        None => Vec::new(),
        Some(OrderByKind::Expressions(order)) => {
            order.into_iter().map(|part| resolved(part, &item)).collect()
        }
        Some(OrderByKind::All(_)) => return None,
    };
    let clauses = if order.is_empty() { Vec::new() } else { vec![FunctionArgumentClause::OrderBy(order)] };
    select.projection = vec![SelectItem::UnnamedExpr(call("array_agg", item, clauses))];
    Some(())
}

/// A number in ORDER BY stands for the only column.
fn resolved(part: OrderByExpr, item: &Expr) -> OrderByExpr {
    let is_number = matches!(&part.expr, Expr::Value(value) if matches!(value.value, Value::Number(..)));
    if is_number { OrderByExpr { expr: item.clone(), ..part } } else { part }
}

/// Whether the rows are those of FROM and WHERE.
fn has_rows_of_tables(select: &Select) -> bool {
    let is_ungrouped = matches!(&select.group_by, GroupByExpr::Expressions(list, modifiers) if list.is_empty() && modifiers.is_empty());
    is_ungrouped && select.distinct.is_none() && select.having.is_none()
}

fn call(name: &str, argument: Expr, clauses: Vec<FunctionArgumentClause>) -> Expr {
    calls(name, vec![argument], clauses)
}

fn calls(name: &str, arguments: Vec<Expr>, clauses: Vec<FunctionArgumentClause>) -> Expr {
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
