//! What ORDER BY may name: one column of the list, and behind DISTINCT nothing else than its columns.

use crate::column_name::column_name;
use crate::name::{folded, quoted};
use crate::visit::visit_expressions_mut;
use ankerdb_engine::{Error, Result, SqlState};
use datafusion::sql::sqlparser::ast::{
    CastKind, Distinct, Expr, Ident, ObjectNamePart, OrderBy, OrderByKind, Query, Select, SelectItem,
    SetExpr, Value,
};
use std::ops::ControlFlow;

/// Writes the numbers of columns in place of expressions behind DISTINCT, which the planner does not look for in the list.
///
/// # Errors
/// 42702 for a name of several columns, 42P10 for an order that is not in the list of DISTINCT.
pub(super) fn written(query: &mut Query) -> Result<()> {
    let (SetExpr::Select(select), Some(OrderBy { kind: OrderByKind::Expressions(keys), .. })) =
        (query.body.as_ref(), &mut query.order_by)
    else {
        return Ok(());
    };
    let is_distinct = matches!(select.distinct, Some(Distinct::Distinct));
    for key in keys {
        check_name(select, &key.expr)?;
        if is_distinct {
            list(select, &mut key.expr)?;
        }
    }
    Ok(())
}

/// The expressions of the list that has this name.
fn named<'s>(select: &'s Select, name: &str) -> impl Iterator<Item = &'s Expr> {
    select.projection.iter().filter_map(move |item| match item {
        SelectItem::ExprWithAlias { expr, alias } => (folded(alias) == name).then_some(expr),
        SelectItem::UnnamedExpr(expr) => (column_name(expr) == name).then_some(expr),
        _ => None,
    })
}

fn check_name(select: &Select, key: &Expr) -> Result<()> {
    let Expr::Identifier(name) = key else { return Ok(()) };
    let name = folded(name);
    let mut meant = named(select, &name);
    let Some(first) = meant.next() else { return Ok(()) };
    match meant.all(|other| is_same(other, first)) {
        true => Ok(()),
        false => {
            let message = format!("ORDER BY {} is ambiguous", quoted(&name));
            Err(Error::new(SqlState::AmbiguousColumn, message))
        }
    }
}

/// Names of columns are left to the planner.
fn list(select: &Select, key: &mut Expr) -> Result<()> {
    if matches!(key, Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_)) {
        return Ok(());
    }
    let is_it = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { expr, .. } | SelectItem::UnnamedExpr(expr) => is_same(expr, key),
        _ => false,
    };
    let Some(place) = select.projection.iter().position(is_it) else {
        let message = "for SELECT DISTINCT, ORDER BY expressions must appear in select list";
        return Err(Error::new(SqlState::InvalidColumnReference, message));
    };
    // How many columns a wildcard stands for is not known here.
    let is_counted =
        |item: &SelectItem| matches!(item, SelectItem::ExprWithAlias { .. } | SelectItem::UnnamedExpr(_));
    if select.projection[..place].iter().all(is_counted) {
        *key = Expr::value(Value::Number((place + 1).to_string(), false));
    }
    Ok(())
}

/// Whether two expressions are one, as far as they are written: a column may have the name of its table in one of them.
fn is_same(one: &Expr, other: &Expr) -> bool {
    let ((one, one_names_tables), (other, other_names_tables)) = (plain(one, false), plain(other, false));
    if one == other {
        return true;
    }
    let bare = |expression: &Expr| plain(expression, true).0;
    one_names_tables != other_names_tables && bare(&one) == bare(&other)
}

/// The expression without what makes no difference: parentheses, capital letters of names, how casts are written, and where that is
/// asked for, tables before columns. Whether it has tables before columns.
fn plain(expression: &Expr, without_tables: bool) -> (Expr, bool) {
    let (mut expression, mut names_tables) = (expression.clone(), false);
    let fold = |name: &mut Ident| *name = Ident::new(folded(name));
    let _ = visit_expressions_mut(&mut expression, |part: &mut Expr| {
        match part {
            Expr::CompoundIdentifier(names) => {
                names_tables = true;
                names.iter_mut().for_each(fold);
                if let Some(name) = names.pop_if(|_| without_tables) {
                    *part = Expr::Identifier(name);
                }
            }
            Expr::Identifier(name) => fold(name),
            Expr::Function(call) => {
                for name in &mut call.name.0 {
                    if let ObjectNamePart::Identifier(name) = name {
                        fold(name);
                    }
                }
            }
            Expr::Nested(inner) => *part = (**inner).clone(),
            Expr::Cast { kind, .. } => *kind = CastKind::Cast,
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    (expression, names_tables)
}
