//! Where PostgreSQL takes no aggregates and no window functions.

use crate::aggregates::aggregates;
use crate::expression::library;
use crate::name::dotted;
use ankerdb_engine::{Error, Result, SqlState};
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArguments, GroupByExpr, JoinConstraint, ObjectName, Query, Select, SelectItem,
    SetExpr, TableWithJoins, Value, Visitor,
};
use std::ops::ControlFlow;

/// Functions that are nothing without OVER.
const WINDOWED: [&str; 11] = [
    "row_number",
    "rank",
    "dense_rank",
    "percent_rank",
    "cume_dist",
    "ntile",
    "lag",
    "lead",
    "first_value",
    "last_value",
    "nth_value",
];
/// Those of them that WITHIN GROUP makes aggregates.
const HYPOTHETICAL: [&str; 4] = ["rank", "dense_rank", "percent_rank", "cume_dist"];

/// # Errors
/// 42P20 for window functions in conditions and groups, 42803 for aggregates in groups.
pub(super) fn check(query: &Query) -> Result<()> {
    let mut bodies = vec![query.body.as_ref()];
    while let Some(body) = bodies.pop() {
        match body {
            SetExpr::Select(select) => check_select(select)?,
            SetExpr::SetOperation { left, right, .. } => bodies.extend([left.as_ref(), right.as_ref()]),
            _ => {}
        }
    }
    Ok(())
}

/// A condition of single rows outside of a query, which `what` calls it.
///
/// # Errors
/// 42803 for aggregates, 42P20 for window functions, 0A000 for functions that give rows and for subqueries.
pub(crate) fn check_condition_of_rows(condition: &Expr, what: &str) -> Result<()> {
    no_windows(condition, what)?;
    let called = calls(condition);
    if called.aggregate {
        let message = format!("aggregate functions are not allowed in {what}");
        return Err(Error::new(SqlState::GroupingError, message));
    }
    let refused = match called {
        CalledHere { set: true, .. } => format!("set-returning functions are not allowed in {what}"),
        CalledHere { subquery: true, .. } => format!("subqueries are not allowed in {what}"),
        _ => return Ok(()),
    };
    Err(Error::new(SqlState::FeatureNotSupported, refused))
}

fn check_select(select: &Select) -> Result<()> {
    for (clause, condition) in [("WHERE", &select.selection), ("HAVING", &select.having)] {
        if let Some(condition) = condition {
            no_windows(condition, clause)?;
        }
    }
    select.from.iter().try_for_each(check_joins)?;
    let GroupByExpr::Expressions(groups, _) = &select.group_by else { return Ok(()) };
    for group in groups {
        let group = numbered(select, group).unwrap_or(group);
        no_windows(group, "GROUP BY")?;
        if calls(group).aggregate {
            let message = "aggregate functions are not allowed in GROUP BY";
            return Err(Error::new(SqlState::GroupingError, message));
        }
    }
    Ok(())
}

/// The column of the list that a number stands for.
fn numbered<'s>(select: &'s Select, group: &Expr) -> Option<&'s Expr> {
    let Expr::Value(value) = group else { return None };
    let Value::Number(number, _) = &value.value else { return None };
    let position = number.parse::<usize>().ok()?.checked_sub(1)?;
    let items = select.projection.get(..=position)?;
    let column = |item: &'s SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    };
    items.iter().map(column).collect::<Option<Vec<_>>>()?.pop()
}

fn check_joins(item: &TableWithJoins) -> Result<()> {
    for join in &item.joins {
        if let Some(JoinConstraint::On(condition)) = super::refused::constraint(&join.join_operator) {
            no_windows(condition, "JOIN conditions")?;
        }
    }
    Ok(())
}

fn no_windows(expression: &Expr, clause: &str) -> Result<()> {
    match calls(expression).window {
        true => {
            let message = format!("window functions are not allowed in {clause}");
            Err(Error::new(SqlState::WindowingError, message))
        }
        false => Ok(()),
    }
}

/// Which functions an expression calls, other than in subqueries.
#[derive(Default)]
struct CalledHere {
    aggregate: bool,
    window: bool,
    set: bool,
    subquery: bool,
    depth: usize,
}

fn calls(expression: &Expr) -> CalledHere {
    let mut calls = CalledHere::default();
    let _ = crate::visit::walk(expression, &mut calls);
    calls
}

impl Visitor for CalledHere {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth += 1;
        self.subquery = true;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        if let (0, Expr::Function(call)) = (self.depth, expression) {
            self.window |= call.over.is_some();
            self.aggregate |= aggregates(call);
            self.set |= gives_rows(&call.name);
        }
        ControlFlow::Continue(())
    }
}

fn gives_rows(name: &ObjectName) -> bool {
    let name = dotted(name);
    let name = name.strip_prefix("pg_catalog.").unwrap_or(&name);
    library::is_set(name) || matches!(name, "unnest" | "generate_subscripts")
}

/// # Errors
/// 42809 for a window function without OVER, OVER behind a function that gives rows, and `count()`.
pub(super) fn call(function: &Function) -> Result<()> {
    let FunctionArguments::List(list) = &function.args else { return Ok(()) };
    let name = dotted(&function.name);
    let name = name.strip_prefix("pg_catalog.").unwrap_or(&name);
    let message = match function.over {
        _ if name == "count" && list.args.is_empty() => {
            "count(*) must be used to call a parameterless aggregate function".to_owned()
        }
        Some(_) if gives_rows(&function.name) => {
            format!("OVER specified, but {name} is not a window function nor an aggregate function")
        }
        None if WINDOWED.contains(&name) && function.within_group.is_empty() => {
            match HYPOTHETICAL.contains(&name) && !list.args.is_empty() {
                true => format!("WITHIN GROUP is required for ordered-set aggregate {name}"),
                false => format!("window function {name} requires an OVER clause"),
            }
        }
        _ => return Ok(()),
    };
    Err(Error::new(SqlState::WrongObjectType, message))
}
