//! VACUUM, ANALYZE, REINDEX and CLUSTER, for which there is nothing to do: memory is reclaimed, and statistics are counted, by
//! themselves; indexes are whole at all times, and rows lie in no order. What they name is looked at all the same. CHECKPOINT.

use super::SqlSession;
use super::notice::Severity;
use crate::command::{Reindexed, ReindexedKind};
use crate::name::{DATABASE, folded, object_name, quoted, schema_name, undefined_table};
use ankerdb_engine::{Catalog, Error, IndexKind, QualifiedName, Result, SqlState, Table};
use datafusion::sql::sqlparser::ast;

impl SqlSession {
    /// VACUUM, ANALYZE and CHECKPOINT.
    pub(super) fn maintain(
        &mut self,
        tag: &str,
        tables: &[(ast::ObjectName, Vec<ast::Ident>)],
    ) -> Result<()> {
        if tag == "VACUUM" {
            self.prepare_alone(tag)?;
        }
        if tag == "CHECKPOINT" {
            let interrupt = self.runner.interrupt();
            self.runner.engine.database().checkpoint(&|| interrupt.check())?;
        }
        let catalog = self.runner.catalog();
        for (name, columns) in tables {
            let name = object_name(name)?;
            if is_of_system(&name) {
                continue;
            }
            if catalog.has_relation(&name) && catalog.table(&name).is_err() {
                let verb = tag.to_lowercase();
                let message = format!(
                    "skipping {} --- cannot {verb} non-tables or special system tables",
                    quoted(&name.name)
                );
                self.tell(Severity::Warning, Error::new(SqlState::Warning, message));
                continue;
            }
            check_columns(&*catalog.table(&name)?, columns)?;
        }
        Ok(())
    }

    /// REINDEX.
    ///
    /// # Errors
    /// `UndefinedTable`, `InvalidSchemaName` and `WrongObjectType` for what it names; `ActiveSqlTransaction` in a block, unless it is
    /// about one table or index.
    pub(super) fn reindex(&mut self, reindexed: &Reindexed) -> Result<()> {
        let Reindexed { what, name, concurrently } = reindexed;
        let alone = match what {
            _ if *concurrently => Some("REINDEX CONCURRENTLY"),
            ReindexedKind::Index | ReindexedKind::Table => None,
            ReindexedKind::Schema => Some("REINDEX SCHEMA"),
            ReindexedKind::Database => Some("REINDEX DATABASE"),
            ReindexedKind::System => Some("REINDEX SYSTEM"),
        };
        if let Some(command) = alone {
            self.prepare_alone(command)?;
        }
        let catalog = self.runner.catalog();
        match what {
            ReindexedKind::Index => check_index(&catalog, &object_name(name)?),
            ReindexedKind::Table => check_table(&catalog, &object_name(name)?),
            ReindexedKind::Schema => check_schema(&catalog, &schema_name(name)?),
            ReindexedKind::System if *concurrently => {
                let message = "cannot reindex system catalogs concurrently";
                Err(Error::new(SqlState::FeatureNotSupported, message))
            }
            ReindexedKind::Database | ReindexedKind::System => {
                let message = "can only reindex the currently open database";
                match object_name(name)?.name == DATABASE {
                    true => Ok(()),
                    false => Err(Error::new(SqlState::FeatureNotSupported, message)),
                }
            }
        }
    }

    /// CLUSTER of a table by one of its indexes, or of all tables that were clustered before.
    ///
    /// # Errors
    /// `UndefinedTable`, `UndefinedObject` and `WrongObjectType` for what it names; `FeatureNotSupported` for an index without an
    /// order of all rows; `ActiveSqlTransaction` if it is about all tables in a block.
    pub(super) fn cluster(&mut self, clustered: Option<&(ast::ObjectName, ast::Ident)>) -> Result<()> {
        let Some((table, index)) = clustered else { return self.prepare_alone("CLUSTER") };
        let catalog = self.runner.catalog();
        let name = object_name(table)?;
        check_table(&catalog, &name)?;
        let Ok(table) = catalog.table(&name) else { return Ok(()) };
        let index = folded(index);
        let found = catalog.indexes_of(&table).find(|known| known.definition().name == index);
        let Some(found) = found else {
            let message =
                format!("index {} for table {} does not exist", quoted(&index), quoted(table.name()));
            return Err(Error::new(SqlState::UndefinedObject, message));
        };
        let definition = found.definition();
        let is_partial = definition.derivation.as_ref().is_some_and(|made| made.predicate.is_some());
        let message = match definition.kind {
            IndexKind::Hash => format!(
                "cannot cluster on index {} because access method does not support clustering",
                quoted(&index)
            ),
            _ if is_partial => format!("cannot cluster on partial index {}", quoted(&index)),
            _ => return Ok(()),
        };
        Err(Error::new(SqlState::FeatureNotSupported, message))
    }
}

/// 42703 and 42701 for a list of columns.
fn check_columns(table: &Table, columns: &[ast::Ident]) -> Result<()> {
    let names: Vec<String> = columns.iter().map(folded).collect();
    let of = |column: &str| format!("column {} of relation {}", quoted(column), quoted(table.name()));
    for (at, name) in names.iter().enumerate() {
        if table.column_position(name).is_none() {
            let message = format!("{} does not exist", of(name));
            return Err(Error::new(SqlState::UndefinedColumn, message));
        }
        if names[..at].contains(name) {
            let message = format!("{} appears more than once", of(name));
            return Err(Error::new(SqlState::DuplicateColumn, message));
        }
    }
    Ok(())
}

fn is_of_system(name: &QualifiedName) -> bool {
    crate::system::relation(name.schema.as_deref().unwrap_or("pg_catalog"), &name.name).is_some()
}

fn check_schema(catalog: &Catalog, name: &str) -> Result<()> {
    let named = QualifiedName { schema: Some(name.to_owned()), name: String::new() };
    crate::execute::schema::check_schema(&named, catalog)
}

fn check_index(catalog: &Catalog, name: &QualifiedName) -> Result<()> {
    if catalog.table_of_index(name).is_some() {
        return Ok(());
    }
    if !catalog.has_relation(name) {
        crate::execute::schema::check_schema(name, catalog)?;
        return Err(undefined_table(&name.to_string()));
    }
    let message = format!("{} is not an index", quoted(&name.name));
    Err(Error::new(SqlState::WrongObjectType, message))
}

/// 42809 for a relation that has no rows of its own.
fn check_table(catalog: &Catalog, name: &QualifiedName) -> Result<()> {
    if is_of_system(name) || catalog.table(name).is_ok() {
        return Ok(());
    }
    if !catalog.has_relation(name) {
        return catalog.table(name).map(drop);
    }
    let message = format!("{} is not a table or materialized view", quoted(&name.name));
    Err(Error::new(SqlState::WrongObjectType, message))
}
