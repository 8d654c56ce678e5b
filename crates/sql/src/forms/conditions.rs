//! Aggregates in the WHERE of a subquery, which belong to a query around it or are wrong there.
//!
//! DataFusion refuses all of them. Which it is, the columns in it tell, when what names mean is known (`olap/outer_aggregate.rs`); until
//! then it is hidden in a subquery of its own, which means the same:
//! ```text
//! WHERE i.a = sum(o.x)    WHERE i.a = (SELECT sum(o.x))
//! ```

use crate::aggregates::is_aggregate;
use crate::plain_query::plain_query;
use crate::visit::visit_expressions;
use datafusion::sql::sqlparser::ast::{Expr, Function, Query, SelectItem, SetExpr};
use std::ops::ControlFlow;

/// Hides the aggregates in the conditions of a subquery's selects.
pub(super) fn hidden(query: &mut Query) {
    body(&mut query.body);
}

fn body(set: &mut SetExpr) {
    match set {
        SetExpr::Select(select) => select.selection.iter_mut().for_each(expression),
        SetExpr::SetOperation { left, right, .. } => {
            body(left);
            body(right);
        }
        _ => {}
    }
}

fn expression(whole: &mut Expr) {
    match whole {
        Expr::Nested(inner)
        | Expr::UnaryOp { expr: inner, .. }
        | Expr::IsNull(inner)
        | Expr::IsNotNull(inner)
        | Expr::Cast { expr: inner, .. }
        | Expr::InSubquery { expr: inner, .. } => expression(inner),
        Expr::BinaryOp { left, right, .. }
        | Expr::IsDistinctFrom(left, right)
        | Expr::IsNotDistinctFrom(left, right) => {
            expression(left);
            expression(right);
        }
        Expr::Between { expr, low, high, .. } => {
            [expr, low, high].into_iter().for_each(|part| expression(part));
        }
        Expr::InList { expr, list, .. } => {
            expression(expr);
            list.iter_mut().for_each(expression);
        }
        Expr::Function(call) if call.over.is_none() && is_aggregate(&call.name) && has_column(call) => {
            let value = SelectItem::UnnamedExpr(Expr::Function(call.clone()));
            *whole = Expr::Subquery(Box::new(plain_query(None, vec![value], Vec::new(), None)));
        }
        _ => {}
    }
}

fn has_column(call: &Function) -> bool {
    let found = visit_expressions(call, |part| match part {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}
