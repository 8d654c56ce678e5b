//! Schemas come, go and are renamed, with what is in them.

use super::alter::drop_domain_of_schema;
use super::defining::Defining;
use super::sequence::drop_sequence;
use super::user_type::{check_role, drop_type_of_schema, shown_type};
use super::view::{drop_relation, follow_schema, kind_of};
use crate::name::not_supported;
use crate::plan::default::foreign_schemas;
use crate::system::{INFORMATION_SCHEMA, PG_CATALOG};
use ankerdb_engine::{
    Catalog, Definitions, Error, Interrupt, NameRef, OnCommit, QualifiedName, RelationName, Result, SchemaId,
    SqlState, Table, Transaction,
};
use std::sync::Arc;

/// What statements call the schema of their session's temporary relations.
const TEMPORARY: &str = "pg_temp";

pub(super) fn is_system_schema(name: &str) -> bool {
    matches!(name, PG_CATALOG | INFORMATION_SCHEMA)
}

/// 42P06
pub(super) fn schema_exists(name: &str) -> Error {
    Error::new(SqlState::DuplicateSchema, format!("schema \"{name}\" already exists"))
}

/// 3F000
pub(super) fn no_schema(name: &str) -> Error {
    Error::new(SqlState::InvalidSchemaName, format!("schema \"{name}\" does not exist"))
}

/// 3F000 if the name has a schema that does not exist.
pub(crate) fn check_schema(name: &QualifiedName, catalog: &Catalog) -> Result<()> {
    match &name.schema {
        Some(schema) if catalog.schema(schema).is_none() && !is_system_schema(schema) => {
            Err(no_schema(schema))
        }
        _ => Ok(()),
    }
}

/// A relation's name as messages show it: with its schema where it is not found without.
pub(super) fn shown(catalog: &Catalog, name: &RelationName) -> String {
    match catalog.lookup(&name.name).as_ref() == Some(name) {
        true => name.name.clone(),
        false => NameRef::Qualified(catalog.schema_name(name.schema), &name.name).to_string(),
    }
}

/// The schema in which a statement makes a relation: that of the session's temporary ones, made now if it is the first, or the one
/// that the name asks for.
///
/// # Errors
/// `InvalidSchemaName` if there is none; `InvalidTableDefinition` for a temporary relation in another one.
pub(super) fn target(
    definitions: &mut Definitions,
    name: &QualifiedName,
    is_temporary: bool,
) -> Result<SchemaId> {
    let catalog = definitions.catalog()?;
    let Some(own) = &catalog.path().temporary else { return catalog.schema_for(name) };
    let names_own = name.schema.as_ref().is_some_and(|schema| schema == TEMPORARY || schema == own);
    if !is_temporary && !names_own {
        return catalog.schema_for(name);
    }
    if name.schema.is_some() && !names_own {
        let message = "cannot create temporary relation in non-temporary schema";
        return Err(Error::new(SqlState::InvalidTableDefinition, message));
    }
    match catalog.schema(TEMPORARY) {
        Some(schema) => Ok(schema.id),
        None => definitions.create_schema(own),
    }
}

/// Whether a relation is a temporary one of the session.
pub(crate) fn is_temporary(catalog: &Catalog, name: &RelationName) -> bool {
    catalog.schema(TEMPORARY).is_some_and(|schema| schema.id == name.schema)
}

/// Drops the session's temporary relations, or else those only that go with each commit.
///
/// # Errors
/// Those of the catalog; the interrupt's.
pub(crate) fn drop_temporary(
    definitions: &mut Definitions,
    mut transaction: Option<&mut Transaction>,
    all: bool,
    interrupt: &Interrupt,
) -> Result<()> {
    let catalog = definitions.catalog()?;
    let Some(schema) = catalog.schema(TEMPORARY) else { return Ok(()) };
    if all {
        return drop_contents((definitions, transaction), schema.id, interrupt);
    }
    let goes = |table: &&Arc<Table>| table.definition().on_commit == OnCommit::Drop;
    for table in catalog.tables_in(schema.id).filter(goes) {
        let name = RelationName::of(table);
        drop_relation((definitions, transaction.as_deref_mut()), "table", &name, &[], true)?;
    }
    Ok(())
}

/// All or none.
pub(super) fn drop_schemas(
    defining: &mut Defining,
    names: &[String],
    if_exists: bool,
    cascade: bool,
) -> Result<()> {
    for name in names {
        if is_system_schema(name) {
            let message = format!("cannot drop schema {name} because it is required by the database system");
            return Err(Error::new(SqlState::DependentObjectsStillExist, message));
        }
        match defining.definitions.catalog()?.schema(name).map(|schema| schema.id) {
            Some(id) => drop_schema(defining, name, id, cascade)?,
            None if if_exists => {}
            None => return Err(no_schema(name)),
        }
    }
    Ok(())
}

fn drop_schema(defining: &mut Defining, name: &str, id: SchemaId, cascade: bool) -> Result<()> {
    let catalog = defining.definitions.catalog()?;
    if catalog.is_used(id) && !cascade {
        let message = format!("cannot drop schema {name} because other objects depend on it");
        let hint = "Use DROP ... CASCADE to drop the dependent objects too.";
        let details = relations(&catalog, id).map(|(kind, relation)| {
            let shown = match catalog.user_type(&relation).filter(|_| kind == "type") {
                Some(known) => shown_type(&catalog, known),
                None => shown(&catalog, &relation),
            };
            format!("{kind} {shown} depends on schema {name}")
        });
        let detail = details.collect::<Vec<_>>().join("\n");
        let error = Error::new(SqlState::DependentObjectsStillExist, message);
        return Err(error.with_detail(detail).with_hint(hint));
    }
    let interrupt = defining.runner.interrupt();
    drop_contents((defining.definitions, Some(defining.transaction)), id, interrupt)?;
    defining.definitions.drop_schema(name)
}

/// Drops everything in a schema, and what depends on that.
fn drop_contents(
    (definitions, mut transaction): (&mut Definitions, Option<&mut Transaction>),
    id: SchemaId,
    interrupt: &Interrupt,
) -> Result<()> {
    let catalog = definitions.catalog()?;
    for (kind, relation) in relations(&catalog, id) {
        interrupt.check()?;
        if kind == "domain" {
            drop_domain_of_schema(definitions, &relation)?;
            continue;
        }
        if kind == "type" {
            drop_type_of_schema(definitions, &relation)?;
            continue;
        }
        // It may have gone with another one.
        if !definitions.catalog()?.has_relation(&relation) {
            continue;
        }
        match kind {
            "sequence" => drop_sequence((definitions, transaction.as_deref_mut()), &relation, true)?,
            _ => drop_relation((definitions, transaction.as_deref_mut()), kind, &relation, &[], true)?,
        }
    }
    Ok(())
}

/// The kinds and names of what is in a schema; what others need comes last.
fn relations(catalog: &Catalog, id: SchemaId) -> impl Iterator<Item = (&'static str, RelationName)> + use<> {
    let views = catalog.views().map(|view| ("view", view.full_name()));
    let tables = catalog.tables().map(|table| {
        let name = RelationName::of(table);
        (kind_of(catalog, &name), name)
    });
    let sequences = catalog.sequences().map(|sequence| ("sequence", sequence.full_name()));
    let types = catalog.user_types().map(|known| ("type", known.full_name()));
    let domains = catalog.domains().map(|domain| ("domain", domain.full_name()));
    // Those that others are made over come last.
    let domains = domains.collect::<Vec<_>>().into_iter().rev();
    let all = views
        .chain(tables)
        .chain(sequences)
        .chain(domains)
        .chain(types)
        .filter(|(_, name)| name.schema == id);
    all.collect::<Vec<_>>().into_iter()
}

/// 42P06 if there is one of the name, unless that is no matter.
pub(super) fn create_schema(definitions: &mut Definitions, name: &str, if_not_exists: bool) -> Result<()> {
    let exists = is_system_schema(name) || definitions.catalog()?.schema(name).is_some();
    match (exists, if_not_exists) {
        (true, true) => Ok(()),
        (true, false) => Err(schema_exists(name)),
        (false, _) => definitions.create_schema(name).map(drop),
    }
}

/// There is one role, to which it belongs.
pub(super) fn give_schema(defining: &mut Defining, name: &str, owner: &str) -> Result<()> {
    check_role(owner)?;
    if is_system_schema(name) {
        return Ok(());
    }
    defining.definitions.catalog()?.schema_for(NameRef::Qualified(name, "")).map(drop)
}

/// What is in it stays; texts that name it are written anew.
pub(super) fn rename_schema(defining: &mut Defining, name: &str, new: &str) -> Result<()> {
    if is_system_schema(new) {
        return Err(schema_exists(new));
    }
    let catalog = defining.definitions.catalog()?;
    for table in catalog.tables() {
        let texts = table.columns().iter().filter_map(|column| column.default.as_deref());
        for text in texts {
            if foreign_schemas(text)?.iter().any(|schema| schema == name) {
                return Err(not_supported(
                    "ALTER SCHEMA ... RENAME where a table of another schema counts by its sequences",
                ));
            }
        }
    }
    defining.definitions.rename_schema(name, new)?;
    follow_schema(defining, name, new)
}
