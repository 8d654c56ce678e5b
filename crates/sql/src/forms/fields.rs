//! Fields of rows that are written as such: `(ROW(a, b)).f2` is `b`.

use super::rows::row;
use crate::name::{folded, quoted};
use ankerdb_engine::{Error, Result, SqlState};
use datafusion::sql::sqlparser::ast::{AccessExpr, Expr, Ident, Query, SelectItem, SetExpr};

/// Writes the columns of the query's lists that are fields, under their names.
///
/// # Errors
/// 42703 for a field that the row has not.
pub(super) fn listed(query: &mut Query) -> Result<()> {
    let mut bodies = vec![query.body.as_mut()];
    while let Some(body) = bodies.pop() {
        match body {
            SetExpr::Select(select) => {
                let mut items = Vec::with_capacity(select.projection.len());
                for item in std::mem::take(&mut select.projection) {
                    items.push(column(item)?);
                }
                select.projection = items;
            }
            SetExpr::SetOperation { left, right, .. } => bodies.extend([left.as_mut(), right.as_mut()]),
            _ => {}
        }
    }
    Ok(())
}

fn column(item: SelectItem) -> Result<SelectItem> {
    if let SelectItem::UnnamedExpr(expression) = &item
        && let Some((expr, alias)) = field(expression)?
    {
        return Ok(SelectItem::ExprWithAlias { expr, alias });
    }
    Ok(item)
}

/// Writes a field in another place.
///
/// # Errors
/// 42703 for a field that the row has not.
pub(super) fn value(expression: &mut Expr) -> Result<()> {
    if let Some((value, _)) = field(expression)? {
        *expression = value;
    }
    Ok(())
}

/// The value of a field, and its name.
fn field(expression: &Expr) -> Result<Option<(Expr, Ident)>> {
    let Expr::CompoundFieldAccess { root, access_chain } = expression else { return Ok(None) };
    let (Expr::Nested(inner), [AccessExpr::Dot(Expr::Identifier(name))]) = (&**root, access_chain.as_slice())
    else {
        return Ok(None);
    };
    let Some(values) = row(inner) else { return Ok(None) };
    let called = folded(name);
    let number = called.strip_prefix('f').and_then(|number| number.parse::<usize>().ok());
    match number.and_then(|number| values.into_iter().nth(number.checked_sub(1)?)) {
        Some(value) => Ok(Some((Expr::Nested(Box::new(value)), name.clone()))),
        None => {
            let message = format!("could not identify column {} in record data type", quoted(&called));
            Err(Error::new(SqlState::UndefinedColumn, message))
        }
    }
}
