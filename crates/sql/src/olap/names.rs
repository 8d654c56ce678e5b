//! The columns of a result: their names and types as PostgreSQL gives them.

use super::scan::TableHandle;
use super::value::sql_type;
use crate::OutputColumn;
use ankerdb_engine::DataType;
use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::logical_expr::{self, Distinct, LogicalPlan};
use datafusion::sql::sqlparser::ast::{Expr, FunctionArguments, Query, SelectItem, SetExpr, Statement};
use std::collections::HashMap;

/// Between what is seen of a name and what tells it apart from others like it; no client can write it.
pub(super) const HIDDEN: char = '\0';

/// The part of a column's name that clients see.
pub(super) fn visible(name: &str) -> &str {
    name.split(HIDDEN).next().unwrap_or(name)
}

/// Names come from the query as written, types from the optimized plan.
pub(crate) fn output(
    query: &Statement,
    bound: &LogicalPlan,
    optimized: &LogicalPlan,
) -> Result<Vec<OutputColumn>> {
    let declared = declared_types(bound)?;
    let written = written_names(query, bound.schema().fields().len());
    let sources = sources(bound);
    let columns = bound.schema().iter().zip(optimized.schema().fields()).enumerate();
    Ok(columns
        .map(|(position, ((relation, field), coerced))| {
            let itself = relation.map(|relation| (relation.table().to_owned(), field.name().clone()));
            let source = itself.or_else(|| sources.get(position).cloned().flatten());
            let known = source.and_then(|source| declared.get(&source));
            let computed = sql_type(coerced.data_type());
            // `varchar(n)` and `char(n)` are text to DataFusion.
            let data_type =
                known.copied().filter(|known| known.is_text() && computed.is_text()).unwrap_or(computed);
            let name =
                written.get(position).cloned().flatten().unwrap_or_else(|| visible(field.name()).to_owned());
            OutputColumn { name, data_type }
        })
        .collect())
}

/// For each column of the result that is a plain column under another name: the table's name and its own.
fn sources(plan: &LogicalPlan) -> Vec<Option<(String, String)>> {
    match plan {
        LogicalPlan::Sort(sort) => sources(&sort.input),
        LogicalPlan::Limit(limit) => sources(&limit.input),
        LogicalPlan::Distinct(Distinct::All(input)) => sources(input),
        LogicalPlan::Projection(projection) => projection.expr.iter().map(source).collect(),
        _ => Vec::new(),
    }
}

fn source(expression: &logical_expr::Expr) -> Option<(String, String)> {
    match expression {
        logical_expr::Expr::Alias(alias) => source(&alias.expr),
        logical_expr::Expr::Column(column) => {
            Some((column.relation.as_ref()?.table().to_owned(), column.name.clone()))
        }
        _ => None,
    }
}

/// The types that tables declare, by the name the query gives the table and the column's name.
fn declared_types(plan: &LogicalPlan) -> Result<HashMap<(String, String), DataType>> {
    let mut types = HashMap::new();
    let mut note = |relation: &str, scan: &LogicalPlan| {
        let LogicalPlan::TableScan(scan) = scan else {
            return;
        };
        let Ok(provider) = source_as_provider(&scan.source) else {
            return;
        };
        if let Some(handle) = provider.downcast_ref::<TableHandle>() {
            for column in handle.table().columns() {
                types.insert((relation.to_owned(), column.name.clone()), column.data_type);
            }
        }
    };
    plan.apply_with_subqueries(|node| {
        match node {
            LogicalPlan::TableScan(scan) => note(scan.table_name.table(), node),
            LogicalPlan::SubqueryAlias(alias) => note(alias.alias.table(), &alias.input),
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(types)
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
            SelectItem::UnnamedExpr(expression) => names.push(expression_name(expression, true)),
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

/// PostgreSQL's name for a column without alias (`FigureColname`); `None` for a plain column, whose name the
/// plan has. `top`: whether it is the whole item.
pub(super) fn expression_name(expression: &Expr, top: bool) -> Option<String> {
    let lower = |text: String| text.to_ascii_lowercase();
    let unknown = || top.then(|| "?column?".to_owned());
    match expression {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) if top => None,
        Expr::Identifier(name) => Some(lower(name.value.clone())),
        Expr::CompoundIdentifier(parts) => parts.last().map(|name| lower(name.value.clone())),
        Expr::Nested(inner) => match inner.as_ref() {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => None,
            other => expression_name(other, top),
        },
        Expr::Function(function) => {
            let name = function.name.0.last()?.to_string();
            // `current_date` and the like are functions without parentheses.
            let _: &FunctionArguments = &function.args;
            Some(lower(name).trim_matches('"').to_owned())
        }
        Expr::Cast { expr, data_type, .. } => expression_name(expr, false).or_else(|| {
            let name = lower(data_type.to_string());
            let name = name.split('(').next().unwrap_or_default().trim().to_owned();
            Some(internal_type_name(&name).to_owned())
        }),
        Expr::Case { else_result, .. } => {
            let inner = else_result.as_ref().and_then(|result| expression_name(result, false));
            Some(inner.unwrap_or_else(|| "case".to_owned()))
        }
        Expr::Exists { .. } => Some("exists".to_owned()),
        Expr::Extract { .. } => Some("extract".to_owned()),
        Expr::Substring { .. } => Some("substring".to_owned()),
        Expr::Trim { .. } => Some("btrim".to_owned()),
        Expr::Position { .. } => Some("position".to_owned()),
        Expr::Ceil { .. } => Some("ceil".to_owned()),
        Expr::Floor { .. } => Some("floor".to_owned()),
        Expr::Subquery(query) => match select_items(query)? {
            [SelectItem::UnnamedExpr(inner)] => expression_name(inner, false).or_else(unknown),
            [SelectItem::ExprWithAlias { alias, .. }] => Some(lower(alias.value.clone())),
            _ => unknown(),
        },
        _ => unknown(),
    }
}

/// A cast without a name of its own is named after the type's internal name.
fn internal_type_name(name: &str) -> &str {
    match name {
        "int" | "integer" => "int4",
        "smallint" => "int2",
        "bigint" => "int8",
        "real" => "float4",
        "double precision" | "float" => "float8",
        "boolean" => "bool",
        "character varying" => "varchar",
        "character" | "char" => "bpchar",
        "decimal" | "dec" => "numeric",
        other => other,
    }
}
