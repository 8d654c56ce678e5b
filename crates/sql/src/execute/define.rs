//! Runs definitions.

use super::alter::alter;
use super::create_as::create_table_as;
use super::defining::{Defining, counted, numbered};
use super::view::{create_view, drop_relations};
use crate::plan::default::counts_by;
use crate::plan::{Definition, positions};
use ankerdb_engine::{Definitions, Error, IndexDefinition, Result, SqlState, Table};
use std::sync::Arc;

/// Changes the catalog of the transaction; returns the command tag. After an error the caller takes back what was done. The
/// session does truncation.
pub(crate) fn define(mut defining: Defining, definition: &Definition) -> Result<String> {
    let definitions = &mut *defining.definitions;
    match definition {
        Definition::CreateTable { definition, sequences, unnamed, if_not_exists } => {
            let catalog = definitions.catalog()?;
            if !(*if_not_exists && catalog.has_relation(&definition.name)) {
                let (mut definition, sequences) = counted(definition, sequences, &catalog);
                for &index in unnamed {
                    let name = std::mem::take(&mut definition.indexes[index].name);
                    let is_taken = |name: &str| {
                        catalog.has_relation(name)
                            || definition.indexes.iter().any(|index| index.name == name)
                    };
                    definition.indexes[index].name = numbered(name, is_taken);
                }
                definitions.create_table_with(definition, sequences)?;
            }
        }
        Definition::CreateSequence { definition, if_not_exists } => {
            if !(*if_not_exists && definitions.catalog()?.has_relation(&definition.name)) {
                definitions.create_sequence(definition.clone())?;
            }
        }
        Definition::DropSequences { names, if_exists, cascade } => {
            drop_sequences(names, *if_exists, *cascade, definitions)?;
        }
        Definition::DropTables { names, if_exists, cascade } => {
            drop_relations(definitions, "table", names, *if_exists, *cascade)?;
        }
        Definition::DropViews { names, if_exists, cascade } => {
            drop_relations(definitions, "view", names, *if_exists, *cascade)?;
        }
        Definition::CreateView(create) => create_view(&mut defining, create)?,
        Definition::CreateTableAs { name, columns, query, if_not_exists } => {
            return create_table_as(&mut defining, name, columns, query, *if_not_exists);
        }
        Definition::CreateIndex { name, table, columns, unique, kind, if_not_exists } => {
            let catalog = definitions.catalog()?;
            let table = catalog.table(table)?;
            let name = match name {
                Some(name) => name.clone(),
                None => index_name(&table, columns, |name| catalog.table_of_index(name).is_some()),
            };
            let columns = positions(&table, columns)?;
            if !(*if_not_exists && catalog.has_relation(&name)) {
                let index = IndexDefinition {
                    name,
                    columns,
                    unique: *unique,
                    primary: false,
                    is_constraint: false,
                    kind: *kind,
                };
                definitions.create_index(table.name(), index)?;
            }
        }
        Definition::DropIndexes { names, if_exists } => {
            for name in names {
                if !(*if_exists && definitions.catalog()?.table_of_index(name).is_none()) {
                    definitions.drop_index(name)?;
                }
            }
        }
        Definition::AlterTable(statement) => alter(&mut defining, statement)?,
        Definition::Truncate { .. } => return Err(Error::internal("TRUNCATE is not a definition")),
    }
    Ok(definition.command().into())
}

/// Each is found, and found not to be needed, before it goes.
fn drop_sequences(
    names: &[String],
    if_exists: bool,
    cascade: bool,
    definitions: &mut Definitions,
) -> Result<()> {
    for name in names {
        let catalog = definitions.catalog()?;
        if catalog.sequence(name).is_err() {
            if if_exists {
                continue;
            }
            let (state, message) = match catalog.has_relation(name) {
                true => (SqlState::WrongObjectType, format!("\"{name}\" is not a sequence")),
                false => (SqlState::UndefinedTable, format!("sequence \"{name}\" does not exist")),
            };
            return Err(Error::new(state, message));
        }
        let counts = |table: &&Arc<Table>| table.columns().iter().any(|column| counts_by(column, name));
        if let Some(table) = catalog.tables().find(counts) {
            if cascade {
                return Err(crate::name::not_supported(
                    "DROP SEQUENCE ... CASCADE of one that a column counts by",
                ));
            }
            let message = format!("cannot drop sequence {name} because other objects depend on it");
            let detail = format!("a default value of table {} depends on sequence {name}", table.name());
            return Err(Error::new(SqlState::DependentObjectsStillExist, message).with_detail(detail));
        }
        definitions.drop_sequence(name)?;
    }
    Ok(())
}

/// PostgreSQL's name for an index without one: `table_column_idx`, numbered if that is taken.
fn index_name(table: &Table, columns: &[String], taken: impl Fn(&str) -> bool) -> String {
    numbered(format!("{}_{}_idx", table.name(), columns.join("_")), taken)
}
