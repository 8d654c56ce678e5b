//! COMMENT ON.

use super::alter::found_domain;
use super::defining::Defining;
use super::schema::{check_schema, is_system_schema, no_schema};
use super::user_type::found as found_type;
use super::view::kind_of;
use crate::name::{DATABASE, not_supported, quoted, undefined_column_of, undefined_table};
use crate::plan::Commented;
use ankerdb_engine::{Catalog, Error, Object, Part, QualifiedName, RelationName, Result, SqlState, Subject};

/// Gives what it names a comment, or takes it away.
pub(super) fn comment(defining: &mut Defining, on: &Commented, text: Option<&str>) -> Result<()> {
    let catalog = defining.definitions.catalog()?;
    match subject(&catalog, on)? {
        Some(subject) => defining.definitions.set_comment(subject, text),
        None => Ok(()),
    }
}

/// What a statement comments on; `None` if PostgreSQL does nothing but warn.
fn subject(catalog: &Catalog, on: &Commented) -> Result<Option<Subject>> {
    let whole = |object: Object| Ok(Some(Subject::new(object, Part::Whole)));
    match on {
        Commented::Database(name) if name == DATABASE => whole(Object::Database),
        Commented::Database(_) => Ok(None),
        Commented::Schema(name) if is_system_schema(name) => {
            Err(not_supported("COMMENT ON a schema of the system"))
        }
        Commented::Schema(name) => {
            let schema = catalog.schema(name).ok_or_else(|| no_schema(name))?;
            whole(Object::Schema(schema.id))
        }
        Commented::Relation(kind, name) => relation(catalog, kind, name).map(Some),
        Commented::Column(name, column) => self::column(catalog, name, column).map(Some),
        Commented::Type(name) if let Some(domain) = catalog.domain(name) => {
            whole(Object::Type(domain.full_name()))
        }
        Commented::Type(name) => whole(Object::Type(found_type(catalog, name)?.full_name())),
        Commented::Domain(name) => whole(Object::Type(found_domain(catalog, name)?.full_name())),
        Commented::Constraint(name, table) => constraint(catalog, name, table).map(Some),
    }
}

/// The relation that a name stands for. 42P01 if there is none.
fn found(catalog: &Catalog, name: &QualifiedName) -> Result<RelationName> {
    if let Some(found) = catalog.lookup(name) {
        return Ok(found);
    }
    let schemas = name.schema.as_ref().map_or(&catalog.path().searched[..], std::slice::from_ref);
    if schemas.iter().any(|schema| crate::system::relation(schema, &name.name).is_some()) {
        return Err(not_supported("COMMENT ON a relation of the system"));
    }
    check_schema(name, catalog)?;
    Err(undefined_table(&name.to_string()))
}

fn relation(catalog: &Catalog, kind: &str, name: &QualifiedName) -> Result<Subject> {
    let found = found(catalog, name)?;
    let whole = |object| Ok(Subject::new(object, Part::Whole));
    match kind {
        "table" | "materialized view"
            if let Ok(table) = catalog.table(&found)
                && kind_of(catalog, &found) == kind =>
        {
            whole(Object::Table(table.origin()))
        }
        "view" if catalog.view(&found).is_some() => whole(Object::View(found)),
        "sequence" if catalog.sequence(&found).is_ok() => whole(Object::Sequence(found)),
        "index" if let Some(table) = catalog.table_of_index(&found) => {
            Ok(Subject::new(Object::Table(table.origin()), Part::Index(found.name)))
        }
        _ => {
            let article = if kind == "index" { "an" } else { "a" };
            let message = format!("{} is not {article} {kind}", quoted(&found.name));
            Err(Error::new(SqlState::WrongObjectType, message))
        }
    }
}

fn column(catalog: &Catalog, name: &QualifiedName, column: &str) -> Result<Subject> {
    let found = found(catalog, name)?;
    let missing = || undefined_column_of(column, &found.name);
    let (object, position) = if let Ok(table) = catalog.table(&found) {
        (Object::Table(table.origin()), table.column_position(column))
    } else if let Some(view) = catalog.view(&found) {
        let position = view.columns.iter().position(|known| known.name == column);
        (Object::View(found.clone()), position)
    } else {
        let kind = if catalog.sequence(&found).is_ok() { "sequences" } else { "indexes" };
        let message = format!("cannot set comment on relation {}", quoted(&found.name));
        let detail = format!("This operation is not supported for {kind}.");
        return Err(Error::new(SqlState::WrongObjectType, message).with_detail(detail));
    };
    Ok(Subject::new(object, Part::Column(position.ok_or_else(missing)?)))
}

fn constraint(catalog: &Catalog, name: &str, table: &QualifiedName) -> Result<Subject> {
    let found = found(catalog, table)?;
    let missing = || {
        let message = format!("constraint {} for table {} does not exist", quoted(name), quoted(&found.name));
        Error::new(SqlState::UndefinedObject, message)
    };
    let table = catalog.table(&found).map_err(|_| missing())?;
    match catalog.has_constraint(&table, name) {
        true => Ok(Subject::new(Object::Table(table.origin()), Part::Constraint(name.to_owned()))),
        false => Err(missing()),
    }
}
