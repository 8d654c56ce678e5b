//! What the parser takes although PostgreSQL has no such form.

use crate::name::{dotted, not_supported};
use crate::syntax_error::near;
use crate::written_forms::CURRENT_OF;
use ankerdb_engine::{Error, Result, SqlState};
use datafusion::sql::sqlparser::ast::{
    AccessExpr, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    JoinConstraint, JoinOperator, ObjectName, OrderByKind, Query, Select, SelectItem, SetExpr, Statement,
    Subscript, TableFactor, TableWithJoins,
};

/// PostgreSQL's limit for the arguments of GROUPING.
const GROUPING_MAX: usize = 31;

/// # Errors
/// 42601 for MERGE without anything to do.
pub(super) fn statement(statement: &Statement) -> Result<()> {
    match statement {
        Statement::Merge(merge) if merge.clauses.is_empty() => {
            Err(Error::new(SqlState::SyntaxError, "syntax error at end of input"))
        }
        _ => Ok(()),
    }
}

/// # Errors
/// 42601 for names that are written as texts.
pub(super) fn relation(name: &ObjectName) -> Result<()> {
    name.0.iter().filter_map(|part| part.as_ident()).try_for_each(ident)
}

fn ident(name: &Ident) -> Result<()> {
    match name.quote_style {
        Some('\'') => Err(near(&format!("'{}'", name.value))),
        _ => Ok(()),
    }
}

/// # Errors
/// 42601 for names that are written as texts, names with dots in USING, and joins without a condition; 0A000 for an order of a set operation that computes.
pub(super) fn query(query: &Query) -> Result<()> {
    order_of_set(query)?;
    let mut bodies = vec![query.body.as_ref()];
    while let Some(body) = bodies.pop() {
        match body {
            SetExpr::Select(select) => self::select(select)?,
            SetExpr::SetOperation { left, right, .. } => bodies.extend([left.as_ref(), right.as_ref()]),
            // Queries in parentheses are visited by themselves.
            _ => {}
        }
    }
    Ok(())
}

/// 0A000 for a set operation that is ordered by something else than its columns.
fn order_of_set(query: &Query) -> Result<()> {
    let (SetExpr::SetOperation { .. }, Some(order)) = (query.body.as_ref(), &query.order_by) else {
        return Ok(());
    };
    let OrderByKind::Expressions(keys) = &order.kind else { return Ok(()) };
    let is_column =
        |key: &Expr| matches!(key, Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_));
    match keys.iter().all(|key| is_column(&key.expr)) {
        true => Ok(()),
        false => {
            let message = "invalid UNION/INTERSECT/EXCEPT ORDER BY clause";
            Err(Error::new(SqlState::FeatureNotSupported, message)
                .with_detail("Only result column names can be used, not expressions or functions.")
                .with_hint(
                    "Add the expression/function to every SELECT, or move the UNION into a FROM clause.",
                ))
        }
    }
}

fn select(select: &Select) -> Result<()> {
    for item in &select.projection {
        if let SelectItem::ExprWithAlias { alias, .. } = item {
            ident(alias)?;
        }
    }
    select.from.iter().try_for_each(joins)
}

/// By what a join of one of PostgreSQL's kinds joins; `None` for CROSS JOIN and other kinds.
pub(super) fn constraint(join: &JoinOperator) -> Option<&JoinConstraint> {
    use JoinOperator::{FullOuter, Inner, Join, Left, LeftOuter, Right, RightOuter};
    match join {
        Join(constraint)
        | Inner(constraint)
        | Left(constraint)
        | LeftOuter(constraint)
        | Right(constraint)
        | RightOuter(constraint)
        | FullOuter(constraint) => Some(constraint),
        _ => None,
    }
}

fn joins(item: &TableWithJoins) -> Result<()> {
    factor(&item.relation)?;
    for join in &item.joins {
        factor(&join.relation)?;
        match constraint(&join.join_operator) {
            Some(JoinConstraint::Using(names)) if names.iter().any(|name| name.0.len() > 1) => {
                return Err(near("."));
            }
            Some(JoinConstraint::None) => {
                return Err(Error::new(SqlState::SyntaxError, "syntax error: JOIN without ON or USING"));
            }
            _ => {}
        }
    }
    Ok(())
}

fn factor(factor: &TableFactor) -> Result<()> {
    match factor {
        TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => {
            ident(&alias.name)
        }
        TableFactor::NestedJoin { table_with_joins, .. } => joins(table_with_joins),
        _ => Ok(()),
    }
}

/// # Errors
/// 0A000 for places of cursors; 42601 for slices with a step and `count(DISTINCT *)`; 42809 for aggregates of an order without one; 42883 for TRIM of three; 54023 for
/// GROUPING of too many.
pub(super) fn expression(expression: &Expr) -> Result<()> {
    match expression {
        Expr::CompoundFieldAccess { access_chain, .. } => {
            let is_stepped = |access: &AccessExpr| {
                matches!(access, AccessExpr::Subscript(Subscript::Slice { stride: Some(_), .. }))
            };
            if access_chain.iter().any(is_stepped) { Err(near(":")) } else { Ok(()) }
        }
        Expr::Trim { trim_characters: Some(characters), .. } if characters.len() > 1 => {
            let given = vec!["unknown"; characters.len() + 1].join(", ");
            let message = format!("function pg_catalog.btrim({given}) does not exist");
            Err(Error::new(SqlState::UndefinedFunction, message))
        }
        Expr::Function(function) => call(function).and_then(|()| super::places::call(function)),
        _ => Ok(()),
    }
}

fn call(function: &Function) -> Result<()> {
    let FunctionArguments::List(list) = &function.args else { return Ok(()) };
    let is_wildcard =
        |argument: &FunctionArg| matches!(argument, FunctionArg::Unnamed(FunctionArgExpr::Wildcard));
    if list.duplicate_treatment == Some(DuplicateTreatment::Distinct) && list.args.iter().any(is_wildcard) {
        return Err(near("*"));
    }
    let name = dotted(&function.name);
    match name.strip_prefix("pg_catalog.").unwrap_or(&name) {
        CURRENT_OF => Err(not_supported(CURRENT_OF)),
        name @ ("mode" | "percentile_cont" | "percentile_disc")
            if function.within_group.is_empty() && list.args.len() == 1 + usize::from(name != "mode") =>
        {
            let message = format!("WITHIN GROUP is required for ordered-set aggregate {name}");
            Err(Error::new(SqlState::WrongObjectType, message))
        }
        "grouping" if list.args.len() > GROUPING_MAX => {
            let message = format!("GROUPING must have fewer than {} arguments", GROUPING_MAX + 1);
            Err(Error::new(SqlState::TooManyArguments, message))
        }
        _ => Ok(()),
    }
}
