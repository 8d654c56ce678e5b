//! VALUES with subqueries.
//!
//! DataFusion computes the rows of VALUES without a plan, in which a subquery has no place. Such rows are queries of their own:
//! ```text
//! VALUES (1), ((SELECT ...))    SELECT column1 FROM (VALUES (1, 0) UNION ALL SELECT (SELECT ...), 1) AS v (column1, n) ORDER BY n
//! ```

use super::names::HIDDEN;
use crate::plain_query::{plain_query, plain_select};
use crate::visit::visit_expressions;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, OrderBy, OrderByExpr, OrderByKind, OrderByOptions, Parens, Query, SelectItem, SetExpr,
    SetOperator, SetQuantifier, TableAlias, TableAliasColumnDef, TableFactor, TableWithJoins, Value, Values,
};
use std::mem::take;
use std::ops::ControlFlow;

/// Writes VALUES with subqueries as queries, where a query or a part of it is no more than that.
pub(super) fn as_queries(query: &mut Query) {
    body(&mut query.body);
}

fn body(set: &mut SetExpr) {
    match set {
        SetExpr::Values(values) if has_subquery(values) => {
            if let Some(rows) = rows(values) {
                *set = rows;
            }
        }
        SetExpr::SetOperation { left, right, .. } => {
            body(left);
            body(right);
        }
        _ => {}
    }
}

fn has_subquery(values: &Values) -> bool {
    values.rows.iter().any(|row| row.content.iter().any(is_query))
}

fn is_query(cell: &Expr) -> bool {
    let found = visit_expressions(cell, |part| match part {
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// `None` for rows of different lengths, which the planner refuses.
fn rows(values: &Values) -> Option<SetExpr> {
    let width = values.rows.first()?.content.len();
    if values.rows.iter().any(|row| row.content.len() != width) {
        return None;
    }
    let mut names: Vec<String> = (1..=width).map(|column| format!("column{column}")).collect();
    if let [row] = values.rows.as_slice() {
        let named = |(cell, name): (&Expr, &String)| SelectItem::ExprWithAlias {
            expr: cell.clone(),
            alias: quoted(name),
        };
        let items = row.content.iter().zip(&names).map(named);
        return Some(SetExpr::Select(Box::new(plain_select(items.collect(), Vec::new(), None))));
    }
    let items = names.iter().map(|name| SelectItem::UnnamedExpr(Expr::Identifier(quoted(name)))).collect();
    let number = format!("{HIDDEN}row");
    names.push(number.clone());
    let mut rows = plain_query(None, Vec::new(), Vec::new(), None);
    rows.body = Box::new(joined(pieces(values))?);
    let mut ordered = plain_query(None, items, vec![derived(rows, &names)], None);
    let key = OrderByExpr {
        expr: Expr::Identifier(quoted(&number)),
        options: OrderByOptions { asc: None, nulls_first: None },
        with_fill: None,
    };
    ordered.order_by = Some(OrderBy { kind: OrderByKind::Expressions(vec![key]), interpolate: None });
    Some(SetExpr::Query(Box::new(ordered)))
}

/// Rows with subqueries by themselves, and those between them together, each with its number behind.
fn pieces(values: &Values) -> Vec<SetExpr> {
    let (mut pieces, mut between) = (Vec::new(), Vec::new());
    let plain =
        |rows: &mut Vec<Parens<Vec<Expr>>>| SetExpr::Values(Values { rows: take(rows), ..values.clone() });
    for (position, row) in values.rows.iter().enumerate() {
        let mut numbered = row.clone();
        numbered.content.push(Expr::value(Value::Number(position.to_string(), false)));
        if !row.content.iter().any(is_query) {
            between.push(numbered);
            continue;
        }
        if !between.is_empty() {
            pieces.push(plain(&mut between));
        }
        let items = numbered.content.into_iter().map(SelectItem::UnnamedExpr).collect();
        pieces.push(SetExpr::Select(Box::new(plain_select(items, Vec::new(), None))));
    }
    if !between.is_empty() {
        pieces.push(plain(&mut between));
    }
    pieces
}

/// All of them by UNION ALL, in a tree that is not deep.
fn joined(mut pieces: Vec<SetExpr>) -> Option<SetExpr> {
    while pieces.len() > 1 {
        let mut pairs = Vec::with_capacity(pieces.len().div_ceil(2));
        let mut rest = pieces.into_iter();
        while let Some(left) = rest.next() {
            pairs.push(match rest.next() {
                None => left,
                Some(right) => SetExpr::SetOperation {
                    op: SetOperator::Union,
                    set_quantifier: SetQuantifier::All,
                    left: Box::new(left),
                    right: Box::new(right),
                },
            });
        }
        pieces = pairs;
    }
    pieces.pop()
}

fn quoted(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

fn derived(rows: Query, names: &[String]) -> TableWithJoins {
    let name = quoted(&format!("{HIDDEN}rows"));
    let columns = names.iter().map(|name| TableAliasColumnDef { name: quoted(name), data_type: None });
    let alias = Some(TableAlias { explicit: true, at: None, name, columns: columns.collect() });
    let relation = TableFactor::Derived { lateral: false, subquery: Box::new(rows), alias, sample: None };
    TableWithJoins { relation, joins: Vec::new() }
}
