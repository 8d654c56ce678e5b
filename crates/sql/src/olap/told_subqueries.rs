//! Subqueries that show in the names of what is computed of them.
//!
//! A plan of DataFusion's has groups, aggregates and windows by their names, and all subqueries have one name there: of `bool_and(EXISTS (q))` and
//! `bool_and(EXISTS (r))` there would be one. A group that is a subquery's value has the name of its column, which may be another group's.
//! So where a query that groups has several, or values of subqueries, they go through the planner within calls that
//! number them, as casts do ([`told_casts`](super::told_casts)). Those with one text have one number, so that `GROUP BY (q)` is found again in the select list.

use super::spelling::calls;
use super::told_casts::CAST;
use crate::visit::{Work, visit, visit_expressions};
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, ObjectNamePart, OrderBy, Query,
    Select, SetExpr, Statement, Value,
};
use std::collections::HashMap;
use std::ops::ControlFlow;

/// The query with such subqueries as operands of calls.
pub(super) fn told(mut query: Statement) -> Statement {
    visit(&mut query, &mut Selects);
    query
}

struct Selects;

impl Work for Selects {
    fn query(&mut self, query: &mut Query) {
        if let SetExpr::Select(select) = query.body.as_mut() {
            tell(select, query.order_by.as_mut());
            return;
        }
        let mut bodies = vec![query.body.as_mut()];
        while let Some(body) = bodies.pop() {
            match body {
                SetExpr::Select(select) => tell(select, None),
                SetExpr::SetOperation { left, right, .. } => bodies.extend([left.as_mut(), right.as_mut()]),
                _ => {}
            }
        }
    }
}

/// Tells the subqueries of a query's lists, if there are several.
fn tell(select: &mut Select, mut order: Option<&mut OrderBy>) {
    let mut found = Subqueries {
        texts: HashMap::new(),
        has_values: false,
        depth: 0,
        is_grouped: is_grouped(select),
        tells: false,
    };
    lists(select, order.as_deref_mut(), &mut found);
    if found.is_grouped && (found.texts.len() > 1 || found.has_values) {
        found.tells = true;
        lists(select, order, &mut found);
    }
}

fn is_grouped(select: &Select) -> bool {
    !matches!(&select.group_by, GroupByExpr::Expressions(by, _) if by.is_empty()) || select.having.is_some()
}

/// Visits what is computed of groups.
fn lists(select: &mut Select, order: Option<&mut OrderBy>, work: &mut Subqueries) {
    visit(&mut select.projection, work);
    visit(&mut select.group_by, work);
    visit(&mut select.having, work);
    if let Some(order) = order {
        visit(order, work);
    }
}

/// The subqueries of one query, not those within them.
struct Subqueries {
    /// By their texts, with their numbers.
    texts: HashMap<String, usize>,
    /// Whether the value of one is asked for.
    has_values: bool,
    /// Of queries around.
    depth: usize,
    /// Whether the query may have groups or windows, or else a function of a subquery.
    is_grouped: bool,
    /// Whether they become operands of calls, or are only counted.
    tells: bool,
}

impl Work for Subqueries {
    fn query(&mut self, _query: &mut Query) {
        self.depth += 1;
    }

    fn end_of_query(&mut self) {
        self.depth -= 1;
    }

    fn expression(&mut self, expression: &mut Expr) {
        if self.depth > 0 {
            return;
        }
        match expression {
            Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } => match told_operand(right) {
                Some(plain) => **right = plain,
                None if matches!(**right, Expr::Subquery(_)) => {}
                None => return,
            },
            Expr::Exists { .. } | Expr::InSubquery { .. } => {}
            Expr::Subquery(_) => self.has_values = true,
            Expr::Function(_) => {
                self.is_grouped |= has_query(expression);
                return;
            }
            _ => return,
        }
        let next = self.texts.len();
        let number = *self.texts.entry(expression.to_string()).or_insert(next);
        if self.tells {
            let number = Expr::value(Value::SingleQuotedString(format!("subquery {number}")));
            *expression = calls(CAST, vec![expression.clone(), number], Vec::new());
        }
    }
}

/// The subquery of a call that was made of it.
fn told_operand(expression: &Expr) -> Option<Expr> {
    let Expr::Function(function) = expression else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else { return None };
    if name.value != CAST {
        return None;
    }
    match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(operand @ Expr::Subquery(_))), _] => {
            Some(operand.clone())
        }
        _ => None,
    }
}

fn has_query(expression: &Expr) -> bool {
    let found = visit_expressions(expression, |part| match part {
        Expr::Exists { .. } | Expr::InSubquery { .. } | Expr::Subquery(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}
