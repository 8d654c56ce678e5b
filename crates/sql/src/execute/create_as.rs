//! CREATE TABLE AS: a table with the columns of a query, and its rows.

use super::defining::Defining;
use crate::expression::Parameters;
use crate::name::folded;
use crate::plan::{InsertPlan, InsertSource, Place, WritePlan};
use ankerdb_engine::{ColumnDefinition, Error, NameRef, Result, SqlState, TableDefinition};
use datafusion::sql::sqlparser::ast;

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
    for (position, column) in output.iter().enumerate() {
        let name = names.get(position).map_or_else(|| column.name.clone(), |given| folded(&given.name));
        definition.columns.push(ColumnDefinition::new(name, column.data_type).nullable());
    }
    let table = defining.definitions.create_table(definition)?;
    if !with_data {
        return Ok("CREATE TABLE AS".into());
    }
    let places = (0..output.len()).map(Place::Of).collect();
    let (source, subqueries) = (InsertSource::Query(plan, places), Vec::new());
    let plan = InsertPlan { table, source, conflict: None, returning: None, subqueries };
    let plan = WritePlan::Insert(Box::new(plan));
    let Defining { transaction, now, .. } = defining;
    let done = runner.run_write(&plan, transaction, &[], *now, true)?;
    Ok(format!("SELECT {}", done.count))
}
