//! ALTER ... RENAME TO and ALTER ... SET SCHEMA, of relations of every kind.
//!
//! The parser knows the first of them for tables only. [`crate::naming`] writes all of them as that, with a schema that no client can write:
//! it says what is meant, and which kind the statement names.

use super::Altering;
use crate::execute::defining::Defining;
use crate::execute::schema::{is_system_schema, is_temporary};
use crate::execute::view::{check_readers, follow_relation, kind_of};
use crate::name::{not_supported, object_name};
use crate::naming::{KIND, MOVED, RENAMED};
use crate::plan::default::{moved, renamed};
use ankerdb_engine::{
    Catalog, Error, QualifiedName, RelationName, Result, SchemaId, SequenceDefinition, SqlState, Table,
    TableDefinition, View,
};
use datafusion::sql::sqlparser::ast::{AlterTableOperation, RenameTableNameKind};
use std::sync::Arc;

/// What a relation is to be called, or where it is to be.
pub(super) struct Naming {
    /// The kind that the statement names.
    kind: String,
    change: Change,
}

enum Change {
    Name(String),
    /// The name of a schema.
    Schema(String),
    /// Nothing: what follows is for a relation of the kind.
    Nothing,
}

impl Naming {
    /// Whether it says nothing but the kind.
    pub(super) fn is_mark(&self) -> bool {
        matches!(self.change, Change::Nothing)
    }
}

/// The naming that an action asks for; `None` if it asks for something else.
pub(super) fn naming(action: &AlterTableOperation) -> Result<Option<Naming>> {
    let AlterTableOperation::RenameTable { table_name } = action else { return Ok(None) };
    let (RenameTableNameKind::To(written) | RenameTableNameKind::As(written)) = table_name;
    let QualifiedName { schema, name } = object_name(written)?;
    Ok(Some(match schema.as_deref() {
        None => Naming { kind: "table".into(), change: Change::Name(name) },
        Some(marked) => match (marked.strip_prefix(RENAMED), marked.strip_prefix(MOVED)) {
            (Some(kind), _) => Naming { kind: kind.into(), change: Change::Name(name) },
            (_, Some(kind)) => Naming { kind: kind.into(), change: Change::Schema(name) },
            (None, None) if let Some(kind) = marked.strip_prefix(KIND) => {
                Naming { kind: kind.into(), change: Change::Nothing }
            }
            (None, None) => {
                return Err(Error::new(SqlState::SyntaxError, "syntax error at or near \".\""));
            }
        },
    }))
}

/// Renames or moves a relation; views that read it go on reading it.
pub(super) fn rename(defining: &mut Defining, old: &RelationName, naming: &Naming) -> Result<()> {
    let catalog = defining.definitions.catalog()?;
    check_kind(old, naming, &catalog)?;
    let new = match &naming.change {
        Change::Name(name) => RelationName::new(old.schema, name.as_str()),
        Change::Schema(_) if is_temporary(&catalog, old) => return Err(into_or_out_of_temporary()),
        Change::Schema(schema) => RelationName::new(schema_id(schema, &catalog)?, old.name.as_str()),
        Change::Nothing => return Ok(()),
    };
    if new == *old {
        return match naming.change {
            Change::Name(_) => Err(exists(&old.name)),
            Change::Schema(_) | Change::Nothing => Ok(()),
        };
    }
    if let Ok(table) = catalog.table(old) {
        rename_table(defining, &table, &new)?;
        follow_relation(defining, old, &new)?;
        return check_readers(&new, defining);
    }
    if let Some(view) = catalog.view(old) {
        let view = View { schema: new.schema, name: new.name.clone(), ..(**view).clone() };
        defining.definitions.redefine_view(old, view)?;
        follow_relation(defining, old, &new)?;
        return check_readers(&new, defining);
    }
    if let Ok(sequence) = catalog.sequence(old) {
        return rename_sequence(defining, old, &new, sequence.definition());
    }
    let table = catalog.table_of_index(old).ok_or_else(|| Error::internal("a relation of no kind"))?;
    let name = RelationName::of(&table);
    Altering { defining, table, rewriting: None, lifted: Vec::new() }.rename_key(&old.name, &new.name)?;
    check_readers(&name, defining)
}

fn schema_id(schema: &str, catalog: &Catalog) -> Result<SchemaId> {
    if is_system_schema(schema) {
        return Err(not_supported("a relation of users in a schema of the system"));
    }
    let name = QualifiedName { schema: Some(schema.to_owned()), name: String::new() };
    let id = catalog.schema_for(&name)?;
    match is_temporary(catalog, &RelationName::new(id, "")) {
        true => Err(into_or_out_of_temporary()),
        false => Ok(id),
    }
}

/// 0A000, as on PostgreSQL.
fn into_or_out_of_temporary() -> Error {
    Error::new(SqlState::FeatureNotSupported, "cannot move objects into or out of temporary schemas")
}

/// 42809 unless the relation is of the kind that the statement names. ALTER TABLE names all of them.
pub(super) fn check_kind(name: &RelationName, naming: &Naming, catalog: &Catalog) -> Result<()> {
    let (kind, article) = (naming.kind.as_str(), if naming.kind == "index" { "an" } else { "a" });
    let is_it = match kind {
        "view" => catalog.view(name).is_some(),
        "materialized view" => kind_of(catalog, name) == kind,
        "sequence" => catalog.sequence(name).is_ok(),
        "index" => matches!(naming.change, Change::Name(_)) || catalog.table_of_index(name).is_some(),
        _ => true,
    };
    match is_it {
        true => Ok(()),
        false => {
            let message = format!("\"{}\" is not {article} {kind}", name.name);
            Err(Error::new(SqlState::WrongObjectType, message))
        }
    }
}

fn exists(name: &str) -> Error {
    Error::new(SqlState::DuplicateTable, format!("relation \"{name}\" already exists"))
}

/// The table's rows stay. Its sequences go along, and its defaults count by those that they did.
fn rename_table(defining: &mut Defining, table: &Arc<Table>, new: &RelationName) -> Result<()> {
    let catalog = defining.definitions.catalog()?;
    let old = RelationName::of(table);
    let mut definition =
        TableDefinition { schema: new.schema, name: new.name.clone(), ..table.definition().clone() };
    if new.schema != old.schema {
        let is_owned = |name: &str| {
            let sequence = catalog.sequence(&RelationName::new(old.schema, name));
            let owner = sequence.ok().and_then(|sequence| sequence.definition().owner.clone());
            owner.is_some_and(|(owner, _)| owner == old)
        };
        let from = catalog.schema_name(old.schema);
        for column in &mut definition.columns {
            let text = column.default.as_deref().map(|text| moved(text, from, is_owned));
            column.default = text.transpose()?;
        }
    }
    let Defining { definitions, transaction, .. } = defining;
    definitions.redefine_table(table, definition, transaction).map(drop)
}

fn rename_sequence(
    defining: &mut Defining,
    old: &RelationName,
    new: &RelationName,
    definition: &SequenceDefinition,
) -> Result<()> {
    if new.schema != old.schema && definition.owner.is_some() {
        let message = "cannot move an owned sequence into another schema";
        return Err(Error::new(SqlState::FeatureNotSupported, message));
    }
    let catalog = defining.definitions.catalog()?;
    let old_schema = catalog.schema_name(old.schema);
    let new_schema = catalog.schema_name(new.schema);
    for table in catalog.tables() {
        defining.runner.interrupt().check()?;
        let mut changed = table.definition().clone();
        for column in &mut changed.columns {
            let Some(text) = &column.default else { continue };
            let from = (old_schema, old.name.as_str());
            let text = renamed(text, catalog.schema_of(table), from, (new_schema, new.name.as_str()))?;
            column.default = text.or_else(|| column.default.clone());
        }
        if changed != *table.definition() {
            let Defining { definitions, transaction, .. } = &mut *defining;
            definitions.redefine_table(table, changed, transaction)?;
        }
    }
    let definition = SequenceDefinition { schema: new.schema, name: new.name.clone(), ..definition.clone() };
    defining.definitions.redefine_sequence(old, definition, None)
}
