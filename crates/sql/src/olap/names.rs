//! The columns of a result: their names and types as PostgreSQL gives them.

use super::value::{sql_type, told_type};
use crate::OutputColumn;
use crate::column_name::column_name;
use crate::name::not_supported;
use ankerdb_engine::{DataType, Result, SystemType};
use datafusion::arrow::datatypes::DataType as ArrowType;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{Query, SelectItem, SetExpr, Statement};

/// Separates the visible part of a name from the part that makes it unique; no client can write it.
pub(super) const HIDDEN: char = '\0';

/// The part of a column's name that clients see.
pub(super) fn visible(name: &str) -> &str {
    name.split(HIDDEN).next().unwrap_or(name)
}

/// Names come from the query as written, types from the optimized plan. (Which of the text types it is, only the fields of
/// the bound plan tell.)
///
/// # Errors
/// `FeatureNotSupported` for a column of a type that SQL does not have here.
pub(crate) fn output(
    query: &Statement,
    bound: &LogicalPlan,
    optimized: &LogicalPlan,
) -> Result<Vec<OutputColumn>> {
    let written = written_names(query, bound.schema().fields().len());
    let columns = bound.schema().fields().iter().zip(optimized.schema().fields()).enumerate();
    columns
        .map(|(position, (field, coerced))| {
            check_shown(coerced.data_type())?;
            let computed = sql_type(coerced.data_type());
            let text = told_type(field).filter(|known| is_shown_as(*known, computed));
            let name =
                written.get(position).cloned().flatten().unwrap_or_else(|| visible(field.name()).to_owned());
            Ok(OutputColumn::new(name, text.unwrap_or(computed)))
        })
        .collect()
}

/// Fails for what has no form that clients read: a row as a value, a list of lists.
fn check_shown(data_type: &ArrowType) -> Result<()> {
    match data_type {
        ArrowType::Struct(_) | ArrowType::Map(..) | ArrowType::Union(..) => {
            Err(not_supported("a row as a value of a result"))
        }
        ArrowType::List(item) => match item.data_type() {
            ArrowType::List(_) => Err(not_supported("an array of several dimensions in a result")),
            item => check_shown(item),
        },
        _ => Ok(()),
    }
}

/// Whether values of an Arrow column of `computed` may be values of the told type.
fn is_shown_as(told: DataType, computed: DataType) -> bool {
    match told {
        DataType::System(SystemType::Oid) => computed == DataType::BigInt,
        DataType::System(_) | DataType::Json | DataType::Jsonb => computed == DataType::Text,
        DataType::Packed(packed) => computed == DataType::Packed(packed.of_value()),
        other if other.is_text() => computed.is_text(),
        other => other.of_any_precision() == computed,
    }
}

/// Names by position; `None` where the plan's own name is right (columns of a wildcard).
fn written_names(query: &Statement, width: usize) -> Vec<Option<String>> {
    let Statement::Query(query) = query else {
        return Vec::new();
    };
    let Some(items) = select_items(query) else {
        return Vec::new();
    };
    let is_wildcard =
        |item: &&SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
    let wildcards = items.iter().filter(is_wildcard).count();
    let Some(spread) = (width + wildcards).checked_sub(items.len()) else {
        return Vec::new();
    };
    if wildcards > 1 {
        return Vec::new();
    }
    let mut names = Vec::with_capacity(width);
    for item in items {
        match item {
            SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => {
                names.extend((0..spread).map(|_| None))
            }
            SelectItem::ExprWithAlias { .. } => names.push(None),
            SelectItem::UnnamedExpr(expression) => names.push(Some(column_name(expression))),
            _ => names.push(None),
        }
    }
    names
}

fn select_items(query: &Query) -> Option<&[SelectItem]> {
    let mut body = query.body.as_ref();
    loop {
        match body {
            SetExpr::Select(select) => return Some(&select.projection),
            SetExpr::Query(inner) => body = inner.body.as_ref(),
            SetExpr::SetOperation { left, .. } => body = left,
            _ => return None,
        }
    }
}
