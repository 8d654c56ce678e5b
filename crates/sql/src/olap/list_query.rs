//! `ARRAY(SELECT ...)`: the subquery as an aggregate, which gives a list.
//!
//! ```text
//! ARRAY(SELECT x FROM t ORDER BY y)            (SELECT array_agg(x ORDER BY y) FROM t)
//! ARRAY(SELECT x FROM t ORDER BY y LIMIT 3)    (SELECT array_agg(x ORDER BY k) FROM (SELECT x, y ... LIMIT 3) AS q (x, k))
//! ```
//! and the empty list in place of NULL.

use super::spelling::{OR_EMPTY, call};
use crate::aggregates::is_aggregate;
use crate::name::{folded, not_supported};
use crate::plain_query::plain_query;
use crate::visit::visit_expressions;
use ankerdb_engine::{Error, Result, SqlState};
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArgumentClause, FunctionArguments, GroupByExpr, Ident, OrderByExpr, OrderByKind,
    Query, Select, SelectItem, SetExpr, TableAlias, TableAliasColumnDef, TableFactor, TableWithJoins, Value,
};
use std::ops::ControlFlow;

/// The name of the query that is read, and of its column; no client can write them.
const ROWS: &str = "\0rows of list";
const ITEM: &str = "\0item of list";

/// `ARRAY(SELECT ...)`; `None` for other calls.
pub(super) fn list_of_subquery(function: &Function) -> Option<Result<Expr>> {
    let [name] = function.name.0.as_slice() else { return None };
    let FunctionArguments::Subquery(query) = &function.args else { return None };
    if folded(name.as_ident()?) != "array" {
        return None;
    }
    if let SetExpr::Select(select) = query.body.as_ref()
        && select.projection.len() > 1
    {
        let message = "subquery must return only one column";
        return Some(Err(Error::new(SqlState::SyntaxError, message)));
    }
    let list = match plain(query) {
        Some(list) => Some(list),
        None => over_rows(query),
    };
    Some(match list {
        Some(list) => Ok(call(OR_EMPTY, Expr::Subquery(Box::new(list)), Vec::new())),
        None => Err(not_supported("ARRAY(SELECT ...) with such a subquery")),
    })
}

/// The query with its only column as a list; `None` if it is not plain enough.
fn plain(query: &Query) -> Option<Query> {
    let mut query = query.clone();
    let order = keys(&query)?;
    query.order_by = None;
    let is_plain = query.with.is_none() && query.limit_clause.is_none() && query.fetch.is_none();
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    let item = only_item(select)?.clone();
    if !is_plain || !has_rows_of_tables(select) || is_of_rows(&item) {
        return None;
    }
    let order = order.into_iter().map(|key| match is_place(&key) {
        true => OrderByExpr { expr: item.clone(), ..key },
        false => key,
    });
    let list = call("array_agg", item.clone(), clauses(order.collect()));
    select.projection = vec![SelectItem::UnnamedExpr(list)];
    Some(query)
}

/// A list of the rows of any query; `None` if they are ordered by what is not known outside.
fn over_rows(query: &Query) -> Option<Query> {
    let mut rows = query.clone();
    let shown = match query.body.as_ref() {
        SetExpr::Select(select) => Some((select.distinct.is_some(), select.projection.first()?.clone())),
        _ => None,
    };
    let mut columns = vec![ITEM.to_owned()];
    let mut order = Vec::new();
    for key in keys(query)? {
        let is_item = is_place(&key) || shown.as_ref().is_some_and(|(_, item)| is_shown(item, &key.expr));
        let name = match (is_item, &shown, rows.body.as_mut()) {
            (true, ..) => ITEM.to_owned(),
            (false, Some((false, _)), SetExpr::Select(select)) => {
                let name = format!("{ITEM} {}", columns.len());
                select.projection.push(SelectItem::UnnamedExpr(key.expr.clone()));
                columns.push(name.clone());
                name
            }
            _ => return None,
        };
        order.push(OrderByExpr { expr: column(&name), ..key });
    }
    let from = TableWithJoins { relation: derived(rows, columns), joins: Vec::new() };
    let list = call("array_agg", column(ITEM), clauses(order));
    Some(plain_query(None, vec![SelectItem::UnnamedExpr(list)], vec![from], None))
}

/// The only column of a select list, unless it is a wildcard.
fn only_item(select: &Select) -> Option<&Expr> {
    match select.projection.as_slice() {
        [SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }] => Some(item),
        _ => None,
    }
}

fn keys(query: &Query) -> Option<Vec<OrderByExpr>> {
    match query.order_by.as_ref().map(|order| &order.kind) {
        None => Some(Vec::new()),
        Some(OrderByKind::Expressions(keys)) => Some(keys.clone()),
        Some(OrderByKind::All(_)) => None,
    }
}

/// Whether it is a number, which stands for the only column.
fn is_place(key: &OrderByExpr) -> bool {
    matches!(&key.expr, Expr::Value(value) if matches!(value.value, Value::Number(..)))
}

/// Whether the key is the column that is shown, or its name.
fn is_shown(item: &SelectItem, key: &Expr) -> bool {
    match item {
        SelectItem::UnnamedExpr(item) => item == key,
        SelectItem::ExprWithAlias { expr, alias } => {
            expr == key || matches!(key, Expr::Identifier(name) if folded(alias) == folded(name))
        }
        _ => false,
    }
}

fn clauses(order: Vec<OrderByExpr>) -> Vec<FunctionArgumentClause> {
    if order.is_empty() { Vec::new() } else { vec![FunctionArgumentClause::OrderBy(order)] }
}

/// Whether an expression is about several rows.
fn is_of_rows(item: &Expr) -> bool {
    let found = visit_expressions(item, |part| match part {
        Expr::Function(call) if call.over.is_some() || is_aggregate(&call.name) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// Whether the rows are those of FROM and WHERE.
fn has_rows_of_tables(select: &Select) -> bool {
    let is_ungrouped = matches!(&select.group_by, GroupByExpr::Expressions(list, modifiers) if list.is_empty() && modifiers.is_empty());
    is_ungrouped && select.distinct.is_none() && select.having.is_none()
}

fn column(name: &str) -> Expr {
    Expr::Identifier(Ident::with_quote('"', name))
}

fn derived(rows: Query, columns: Vec<String>) -> TableFactor {
    let column = |name| TableAliasColumnDef { name: Ident::with_quote('"', name), data_type: None };
    let alias = TableAlias {
        explicit: true,
        at: None,
        name: Ident::with_quote('"', ROWS),
        columns: columns.into_iter().map(column).collect(),
    };
    TableFactor::Derived { lateral: false, subquery: Box::new(rows), alias: Some(alias), sample: None }
}
