//! `SELECT DISTINCT ON (1) a`: a number is a column of the list.

use ankerdb_engine::{Error, Result, SqlState};
use datafusion::sql::sqlparser::ast::{Distinct, Expr, Query, Select, SelectItem, SetExpr, Value};

/// Writes the columns in place of their numbers, in all selects of the query.
///
/// # Errors
/// 42P10 for a number that no column has.
pub(super) fn written(query: &mut Query) -> Result<()> {
    selects(&mut query.body)
}

fn selects(body: &mut SetExpr) -> Result<()> {
    match body {
        SetExpr::Select(select) => named(select),
        SetExpr::SetOperation { left, right, .. } => {
            selects(left)?;
            selects(right)
        }
        _ => Ok(()),
    }
}

fn named(select: &mut Select) -> Result<()> {
    let items = select.projection.clone();
    let Some(Distinct::On(columns)) = &mut select.distinct else { return Ok(()) };
    for column in columns {
        let Expr::Value(value) = &*column else { continue };
        let Value::Number(number, _) = &value.value else { continue };
        let Ok(position) = number.parse::<usize>() else { continue };
        let is_spread =
            |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
        match items.get(position.wrapping_sub(1)) {
            Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. })
                if !items[..position].iter().any(is_spread) =>
            {
                *column = expr.clone();
            }
            _ if items.iter().any(is_spread) => {}
            _ => {
                let message = format!("SELECT DISTINCT ON position {position} is not in select list");
                return Err(Error::new(SqlState::InvalidColumnReference, message));
            }
        }
    }
    Ok(())
}
