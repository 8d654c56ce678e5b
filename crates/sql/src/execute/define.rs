//! Runs definitions.

use crate::plan::default::{counts_by, next_value};
use crate::plan::{Definition, positions};
use ankerdb_engine::{
    Catalog, Database, Definitions, Error, IndexDefinition, Interrupt, Result, SequenceDefinition, SqlState,
    Table, TableDefinition,
};
use std::sync::Arc;

/// Changes the catalog, unless the statement is ended before. The session does truncation, because it writes rows.
pub(crate) fn define(database: &Database, definition: &Definition, interrupt: &Interrupt) -> Result<()> {
    let definitions = database.definitions(interrupt);
    match definition {
        Definition::CreateTable { definition, sequences, if_not_exists } => {
            let catalog = database.catalog();
            if *if_not_exists && catalog.has_relation(&definition.name) {
                return Ok(());
            }
            let (definition, sequences) = counted(definition, sequences, &catalog);
            match definitions.create_table_with(definition, sequences) {
                Err(error) if *if_not_exists && error.state() == SqlState::DuplicateTable => Ok(()),
                other => other.map(drop),
            }
        }
        Definition::CreateSequence { definition, if_not_exists } => {
            match definitions.create_sequence(definition.clone()) {
                Err(error) if *if_not_exists && error.state() == SqlState::DuplicateTable => Ok(()),
                other => other,
            }
        }
        Definition::DropSequences { names, if_exists, cascade } => {
            drop_sequences(names, *if_exists, *cascade, &database.catalog(), &definitions)
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

/// The table with defaults that count, and the sequences with their names.
fn counted(
    table: &TableDefinition,
    sequences: &[(usize, SequenceDefinition)],
    catalog: &Catalog,
) -> (TableDefinition, Vec<SequenceDefinition>) {
    let (mut table, mut named) = (table.clone(), Vec::<SequenceDefinition>::with_capacity(sequences.len()));
    for (column, sequence) in sequences {
        let base = format!("{}_{}_seq", table.name, table.columns[*column].name);
        let is_taken =
            |name: &str| catalog.has_relation(name) || named.iter().any(|other| other.name == name);
        let name = numbered(base, is_taken);
        table.columns[*column].default = Some(next_value(&name));
        named.push(SequenceDefinition {
            name,
            owner: Some((table.name.clone(), *column)),
            ..sequence.clone()
        });
    }
    (table, named)
}

/// All or none: before the first is gone, each is found, and found not to be needed.
fn drop_sequences(
    names: &[String],
    if_exists: bool,
    cascade: bool,
    catalog: &Catalog,
    definitions: &Definitions,
) -> Result<()> {
    let exists = |name: &&String| catalog.sequence(name).is_ok();
    for name in names {
        if !exists(&name) && !if_exists {
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
    }
    names.iter().filter(exists).try_for_each(|name| definitions.drop_sequence(name))
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
    numbered(format!("{}_{}_idx", table.name(), columns.join("_")), taken)
}

/// The name, or the first of those with a number behind it, that is not taken.
fn numbered(base: String, taken: impl Fn(&str) -> bool) -> String {
    if !taken(&base) {
        return base;
    }
    let numbered = (1..).map(|number| format!("{base}{number}"));
    numbered.into_iter().find(|name| !taken(name)).unwrap_or(base)
}
