//! `SELECT DISTINCT ON (1) a ORDER BY 1`: a number is a column of the list, in the order, too, where the planner would compare it with the
//! column.

use ankerdb_engine::{Error, Result, SqlState};
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr, Value,
};

/// Writes the columns in place of their numbers, in all selects of the query.
///
/// # Errors
/// 42P10 for a number that no column has.
pub(super) fn written(query: &mut Query) -> Result<()> {
    let mut columns = Vec::new();
    selects(&mut query.body, &mut columns)?;
    let Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) = &mut query.order_by else {
        return Ok(());
    };
    for key in keys {
        let named = number(&key.expr).and_then(|number| columns.iter().find(|(known, _)| *known == number));
        if let Some((_, column)) = named {
            key.expr = column.clone();
        }
    }
    Ok(())
}

/// Columns by their numbers.
type Columns = Vec<(usize, Expr)>;

fn number(expression: &Expr) -> Option<usize> {
    match expression {
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => number.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

fn selects(body: &mut SetExpr, columns: &mut Columns) -> Result<()> {
    match body {
        SetExpr::Select(select) => named(select, columns),
        SetExpr::SetOperation { left, right, .. } => {
            // Their order is that of the whole.
            selects(left, &mut Vec::new())?;
            selects(right, &mut Vec::new())
        }
        _ => Ok(()),
    }
}

fn named(select: &mut Select, written: &mut Columns) -> Result<()> {
    let items = select.projection.clone();
    let Some(Distinct::On(columns)) = &mut select.distinct else { return Ok(()) };
    for column in columns {
        let Some(position) = number(column) else { continue };
        let is_spread =
            |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
        match items.get(position.wrapping_sub(1)) {
            Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. })
                if !items[..position].iter().any(is_spread) =>
            {
                *column = expr.clone();
                written.push((position, expr.clone()));
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
