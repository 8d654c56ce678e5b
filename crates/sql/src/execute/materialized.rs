//! Materialized views: tables with the rows that a query had.
//!
//! REFRESH fills another table and puts it in the place of the one that is there, as ALTER TABLE does with copies; readers go on
//! with what they read. CONCURRENTLY writes the differences to the table itself, so that not even those who began earlier notice it.

use super::defining::Defining;
use super::schema::{check_schema, is_temporary, target};
use super::view::view;
use crate::expression::Parameters;
use crate::made_table::source;
use crate::name::{full_name, object_name, quoted};
use crate::plan::{ColumnSource, InsertPlan, InsertSource, Planner, QueryPlan, WritePlan};
use crate::refreshing::Refresh;
use crate::view_text;
use ankerdb_engine::{
    ColumnSet, Error, Interrupt, Materialized, NameRef, RelationName, Result, RowId, SqlState, Table,
    TableDefinition, Transaction, Value, View,
};
use ankerdb_value::format_text;
use datafusion::sql::sqlparser::ast;
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Makes a materialized view. Returns the command tag.
pub(super) fn create_materialized(defining: &mut Defining, create: &ast::CreateView) -> Result<String> {
    let name = object_name(&create.name)?;
    let schema = target(defining.definitions, &name, false)?;
    let catalog = defining.definitions.catalog()?;
    let tag = || Ok("CREATE MATERIALIZED VIEW".to_owned());
    if create.if_not_exists && catalog.has_relation(NameRef::In(schema, &name.name)) {
        return tag();
    }
    let (query, with_data) = source(&create.query);
    let create = ast::CreateView { query: Box::new(query.clone()), ..create.clone() };
    let View { columns, query, reads, .. } =
        view(&name.name, &create, &catalog, defining).map_err(in_words_of_tables)?;
    if reads.iter().any(|read| is_temporary(&catalog, &RelationName::new(read.schema, read.name.as_str()))) {
        let message = "materialized views must not use temporary tables or views";
        return Err(Error::new(SqlState::FeatureNotSupported, message));
    }
    let materialized = Materialized { query, reads, is_populated: with_data };
    let definition = TableDefinition {
        schema,
        columns,
        materialized: Some(Arc::new(materialized)),
        ..TableDefinition::new(name.name.as_str())
    };
    let table = defining.definitions.create_table(definition)?;
    defining.number(NameRef::In(table.schema(), table.name()))?;
    match with_data {
        true => Ok(format!("SELECT {}", fill(defining, &table)?)),
        false => tag(),
    }
}

/// A materialized view is made as a table is, and its errors say so.
fn in_words_of_tables(error: Error) -> Error {
    match error.message() {
        "CREATE VIEW specifies more column names than columns" => {
            Error::new(SqlState::SyntaxError, "too many column names were specified")
        }
        _ => error,
    }
}

/// Runs the query of a materialized view, and adds its rows.
fn fill(defining: &mut Defining, table: &Arc<Table>) -> Result<usize> {
    let plan = planned(defining, table)?;
    let places = (0..table.columns().len()).map(ColumnSource::Of).collect();
    let (source, subqueries) = (InsertSource::Query(plan, places), Vec::new());
    let (conflict, returning, checks) = (None, None, Vec::new());
    let plan = InsertPlan { table: table.clone(), source, conflict, returning, checks, subqueries };
    let Defining { transaction, now, runner, .. } = defining;
    let done = runner.run_write(&WritePlan::Insert(Box::new(plan)), transaction, &[], *now, true)?;
    Ok(done.count)
}

fn planned(defining: &mut Defining, table: &Table) -> Result<QueryPlan> {
    let catalog = defining.definitions.catalog()?;
    materialized(table)?;
    let view = View::of_table(table).ok_or_else(|| Error::internal("a materialized view without a query"))?;
    let query = view_text::current_query(&view, &catalog)?;
    let runner = defining.runner;
    let planner = Planner::new(&runner.engine, &runner.cancel, &runner.activity, catalog);
    planner.query(&query, &mut Parameters::default()).map(|(plan, _)| plan)
}

/// 0A000 for a table that is no materialized view, as PostgreSQL has it.
fn materialized(table: &Table) -> Result<&Arc<Materialized>> {
    table.definition().materialized.as_ref().ok_or_else(|| {
        let message = format!("{} is not a materialized view", quoted(table.name()));
        Error::new(SqlState::FeatureNotSupported, message)
    })
}

/// REFRESH MATERIALIZED VIEW.
pub(super) fn refresh(defining: &mut Defining, refresh: &Refresh) -> Result<()> {
    if refresh.concurrently && !refresh.with_data {
        let message = "REFRESH options CONCURRENTLY and WITH NO DATA cannot be used together";
        return Err(Error::new(SqlState::SyntaxError, message));
    }
    let catalog = defining.definitions.catalog()?;
    let Some(name) = catalog.lookup(&refresh.name) else {
        check_schema(&refresh.name, &catalog)?;
        return catalog.table(&refresh.name).map(drop);
    };
    let Ok(table) = catalog.table(&name) else {
        let message = format!("{} is not a materialized view", quoted(&name.name));
        return Err(Error::new(SqlState::WrongObjectType, message));
    };
    let former = materialized(&table)?.clone();
    if refresh.concurrently {
        return refresh_concurrently(defining, &table, former.is_populated);
    }
    defining.definitions.close(&table, defining.transaction)?;
    let catalog = defining.definitions.catalog()?;
    let mut definition = table.definition().clone();
    definition.indexes = catalog.indexes_of(&table).map(|index| index.definition().clone()).collect();
    let is_populated = refresh.with_data;
    definition.materialized = Some(Arc::new(Materialized { is_populated, ..(*former).clone() }));
    let new = defining.definitions.replace_table(&table, definition, Some)?;
    if is_populated { fill(defining, &new).map(drop) } else { Ok(()) }
}

/// Writes what differs, row by row. A unique index says which rows are meant to be the same; that its key is in the rows twice is told
/// in PostgreSQL's words.
fn refresh_concurrently(defining: &mut Defining, table: &Arc<Table>, is_populated: bool) -> Result<()> {
    let catalog = defining.definitions.catalog()?;
    let is_total = |index: &ankerdb_engine::IndexDefinition| index.unique && index.derivation.is_none();
    if !catalog.indexes_of(table).any(|index| is_total(index.definition())) {
        let name = full_name(catalog.schema_of(table), table.name());
        let message = format!("cannot refresh materialized view {} concurrently", quoted(&name));
        let hint =
            "Create a unique index with no WHERE clause on one or more columns of the materialized view.";
        return Err(Error::new(SqlState::ObjectNotInPrerequisiteState, message).with_hint(hint));
    }
    if !is_populated {
        let message = "CONCURRENTLY cannot be used when the materialized view is not populated";
        return Err(Error::new(SqlState::FeatureNotSupported, message));
    }
    let plan = planned(defining, table)?;
    let Defining { transaction, now, runner, .. } = defining;
    let environment = runner.environment(&[], *now, true);
    let mut former = rows_of(table, transaction, runner.interrupt())?;
    let rows = runner.run_query(&plan, transaction, &environment, &[])?;
    let (mut new, mut seen) = (Vec::new(), HashSet::new());
    for row in rows {
        runner.interrupt().check()?;
        let row = super::write::assigned(table, row)?;
        let image = image(table, &row);
        match former.get_mut(&image) {
            Some(former) if former.is_some() => *former = None,
            known => {
                if (known.is_some() || !seen.insert(image)) && !row.iter().any(Value::is_null) {
                    return Err(duplicate(table, &row));
                }
                new.push(row);
            }
        }
    }
    for row in former.into_values().flatten() {
        runner.interrupt().check()?;
        transaction.delete(table, row)?;
    }
    for row in new {
        runner.interrupt().check()?;
        transaction.insert(table, row)?;
    }
    Ok(())
}

/// The rows of a table that the transaction sees, by their [images](image): all differ, or are not told apart by a unique index.
fn rows_of(
    table: &Arc<Table>,
    transaction: &mut Transaction,
    interrupt: &Interrupt,
) -> Result<HashMap<Vec<u8>, Option<RowId>>> {
    let (mut rows, mut others) = (HashMap::new(), Vec::new());
    transaction.scan_table(table, ColumnSet::ALL, None, &mut |transaction, row| {
        interrupt.check()?;
        let values: Vec<Value> =
            (0..table.columns().len()).map(|column| transaction.value(table, row, column)).collect();
        if let Some(Some(other)) = rows.insert(image(table, &values), Some(row)) {
            others.push(other);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    // Rows with NULL may be there several times; those beyond the first one are written anew.
    for row in others {
        transaction.delete(table, row)?;
    }
    Ok(rows)
}

/// Bytes that are the same for rows that clients cannot tell apart.
fn image(table: &Table, row: &[Value]) -> Vec<u8> {
    let mut text = String::new();
    for (value, column) in row.iter().zip(table.columns()) {
        let start = text.len();
        if !value.is_null() {
            format_text(value, column.data_type, &mut text);
        }
        // What is before the mark says how long the value is: no two rows run into each other.
        let length = if value.is_null() { usize::MAX } else { text.len() - start };
        text.push_str(&format!("|{length};"));
    }
    text.into_bytes()
}

/// 21000.
fn duplicate(table: &Table, row: &[Value]) -> Error {
    let shown = row.iter().zip(table.columns()).map(|(value, column)| {
        let mut text = String::new();
        format_text(value, column.data_type, &mut text);
        text
    });
    let shown: Vec<String> = shown.collect();
    let message = format!(
        "new data for materialized view {} contains duplicate rows without any null columns",
        quoted(table.name())
    );
    Error::new(SqlState::CardinalityViolation, message).with_detail(format!("Row: ({})", shown.join(",")))
}
