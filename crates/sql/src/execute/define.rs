//! Runs definitions.

use crate::plan::{Definition, positions};
use ankerdb_engine::{Database, Definitions, Error, IndexDefinition, Interrupt, Result, SqlState, Table};

/// Changes the catalog, unless the statement is ended before. The session does truncation, because it writes rows.
pub(crate) fn define(database: &Database, definition: &Definition, interrupt: &Interrupt) -> Result<()> {
    let definitions = database.definitions(interrupt);
    match definition {
        Definition::CreateTable { definition, if_not_exists } => {
            match definitions.create_table(definition.clone()) {
                Err(error) if *if_not_exists && error.state() == SqlState::DuplicateTable => Ok(()),
                other => other.map(drop),
            }
        }
        Definition::DropTables { names, if_exists } => {
            if !if_exists {
                // All or none: a missing one is found before the first is gone.
                let catalog = database.catalog();
                names
                    .iter()
                    .try_for_each(|name| catalog.table(name).map(drop).map_err(|_| no_table(name)))?;
            }
            names.iter().try_for_each(|name| match definitions.drop_table(name) {
                Err(error) if *if_exists && error.state() == SqlState::UndefinedTable => Ok(()),
                other => other,
            })
        }
        Definition::CreateIndex { name, table, columns, unique, kind, if_not_exists } => {
            let catalog = database.catalog();
            let table = catalog.table(table)?;
            let name = match name {
                Some(name) => name.clone(),
                None => index_name(&table, columns, |name| catalog.table_of_index(name).is_some()),
            };
            let columns = positions(&table, columns)?;
            let index = IndexDefinition { name, columns, unique: *unique, primary: false, kind: *kind };
            match definitions.create_index(table.name(), index) {
                Err(error) if *if_not_exists && is_duplicate(&error) => Ok(()),
                other => other,
            }
        }
        Definition::DropIndexes { names, if_exists } => {
            let missing = |name: &String| database.catalog().table_of_index(name).is_none();
            if let Some(name) = names.iter().find(|name| missing(name))
                && !if_exists
            {
                let message = format!("index \"{name}\" does not exist");
                return Err(Error::new(SqlState::UndefinedObject, message));
            }
            let mut existing = names.iter().filter(|name| !missing(name));
            existing.try_for_each(|name| drop_index(database, &definitions, name))
        }
        Definition::Truncate { .. } => Err(Error::internal("TRUNCATE is not a definition")),
    }
}

fn drop_index(database: &Database, definitions: &Definitions, name: &str) -> Result<()> {
    let catalog = database.catalog();
    if let Some(table) = catalog.table_of_index(name)
        && table.all_indexes().any(|(_, index)| index.definition().name == name && index.definition().primary)
    {
        let message = format!(
            "cannot drop index {name} because constraint {name} on table {} requires it",
            table.name()
        );
        return Err(Error::new(SqlState::FeatureNotSupported, message));
    }
    definitions.drop_index(name)
}

fn is_duplicate(error: &Error) -> bool {
    matches!(error.state(), SqlState::DuplicateTable | SqlState::DuplicateObject)
}

fn no_table(name: &str) -> Error {
    Error::new(SqlState::UndefinedTable, format!("table \"{name}\" does not exist"))
}

/// PostgreSQL's name for an index without one: `table_column_idx`, numbered if that is taken.
fn index_name(table: &Table, columns: &[String], taken: impl Fn(&str) -> bool) -> String {
    let base = format!("{}_{}_idx", table.name(), columns.join("_"));
    if !taken(&base) {
        return base;
    }
    let numbered = (1..).map(|number| format!("{base}{number}"));
    numbered.into_iter().find(|name| !taken(name)).unwrap_or(base)
}
