//! CREATE TABLE AS: a table with the columns of a query, and its rows.

use super::defining::Defining;
use crate::expression::Parameters;
use crate::expression::library::row_type;
use crate::name::{check_column_name, folded, quoted};
use crate::plan::{ColumnSource, InsertPlan, InsertSource, WritePlan};
use ankerdb_engine::{ColumnDefinition, DataType, Error, NameRef, Result, SqlState, TableDefinition};
use ankerdb_value::MAX_NUMERIC_PRECISION;
use datafusion::sql::sqlparser::ast;

/// The type of the column that keeps an expression's values: a computed numeric has no declared digits, and keeps those that it has.
fn stored(data_type: DataType, is_computed: bool) -> DataType {
    match data_type {
        DataType::Numeric { precision: MAX_NUMERIC_PRECISION, .. } => DataType::Number,
        DataType::Numeric { .. } if is_computed => DataType::Number,
        other => other,
    }
}

/// Why a column cannot have values that are rows.
fn no_rows(column: &str) -> Error {
    let message = format!("column {} has pseudo-type record", quoted(column));
    Error::new(SqlState::InvalidTableDefinition, message).with_hint("Select the columns of the row instead.")
}

/// Which columns of the query are computed, and no columns of others or casts; none where `*` stands for some.
fn computed(query: &ast::Query) -> Vec<bool> {
    let ast::SetExpr::Select(select) = &*query.body else { return Vec::new() };
    let is_computed = |item: &ast::SelectItem| match item {
        ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. } => Some(!matches!(
            expr,
            ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_) | ast::Expr::Cast { .. }
        )),
        _ => None,
    };
    select.projection.iter().map(is_computed).collect::<Option<_>>().unwrap_or_default()
}

/// `definition` has no columns yet. Returns the command tag.
pub(super) fn create_table_as(
    defining: &mut Defining,
    mut definition: TableDefinition,
    (names, query, with_data): (&[ast::ColumnDef], &ast::Query, bool),
    if_not_exists: bool,
) -> Result<String> {
    let catalog = defining.definitions.catalog()?;
    if if_not_exists && catalog.has_relation(NameRef::In(definition.schema, &definition.name)) {
        return Ok("CREATE TABLE AS".into());
    }
    let mut parameters = Parameters::default();
    let runner = defining.runner;
    let (plan, output) = runner.planner(catalog).query(query, &mut parameters)?;
    if !parameters.known().is_empty() {
        return Err(Error::new(SqlState::UndefinedParameter, "there is no parameter $1"));
    }
    if names.len() > output.len() {
        return Err(Error::new(SqlState::SyntaxError, "too many column names were specified"));
    }
    let computed = computed(query);
    for (position, column) in output.iter().enumerate() {
        let name = names.get(position).map_or_else(|| column.name.clone(), |given| folded(&given.name));
        check_column_name(&name)?;
        let is_computed = computed.get(position).copied().unwrap_or_default();
        if row_type(column.data_type).is_some() {
            return Err(no_rows(&name));
        }
        let data_type = stored(column.data_type, is_computed);
        definition.columns.push(ColumnDefinition::new(name, data_type).nullable());
    }
    let table = defining.definitions.create_table(definition)?;
    defining.number(NameRef::In(table.schema(), table.name()))?;
    if !with_data {
        return Ok("CREATE TABLE AS".into());
    }
    let places = (0..output.len()).map(ColumnSource::Of).collect();
    let (source, subqueries) = (InsertSource::Query(plan, places), Vec::new());
    let (conflict, returning, checks) = (None, None, Vec::new());
    let plan = InsertPlan { table, source, conflict, returning, checks, subqueries };
    let plan = WritePlan::Insert(Box::new(plan));
    let Defining { transaction, now, .. } = defining;
    let done = runner.run_write(&plan, transaction, &[], *now, true)?;
    Ok(format!("SELECT {}", done.count))
}
