//! Statements about kinds of things that a database here never has.

use super::SqlSession;
use crate::absent::{Absent, AbsentKind, AbsentNames, AbsentObject};
use crate::execute::schema::check_schema;
use crate::name::{not_supported, qualified, quoted, undefined_table};
use ankerdb_engine::{Catalog, Error, Result, SqlState};

impl SqlSession {
    /// Refuses the statement, or says which of the things are not there that it would drop.
    pub(super) fn run_absent(&mut self, absent: &Absent) -> Result<()> {
        let notices = notices(absent, &self.runner.catalog())?;
        self.tell_notices(notices);
        Ok(())
    }
}

/// What a statement is told about its objects: notices about those that it skips.
///
/// # Errors
/// `FeatureNotSupported` for what cannot be done, and what PostgreSQL has for a thing that is not there.
fn notices(absent: &Absent, catalog: &Catalog) -> Result<Vec<String>> {
    let (kind, objects, if_exists) = match absent {
        Absent::Refused(error) => return Err(error.clone()),
        Absent::Dropped { kind, objects, if_exists } => (kind, objects, *if_exists),
    };
    let mut notices = Vec::new();
    for object in objects {
        if is_of_system(kind, object) {
            return Err(not_supported(kind.tag));
        }
        let missing = missing(kind, object, catalog, if_exists).unwrap_or_else(|error| error);
        match if_exists && missing.message().ends_with("does not exist") {
            true => notices.push(format!("{}, skipping", missing.message())),
            false => return Err(missing),
        }
    }
    Ok(notices)
}

/// Whether the system may have a thing of this name.
fn is_of_system(kind: &AbsentKind, object: &AbsentObject) -> bool {
    let name = object.parts.last().map_or("", String::as_str);
    match kind.names {
        AbsentNames::Plain(known) => known.contains(&name),
        AbsentNames::WithArguments => crate::expression::library::known_name(name).is_some(),
        AbsentNames::OfRelation | AbsentNames::Other => false,
    }
}

/// The error for a thing that is not there, or whose schema or relation is not.
fn missing(kind: &AbsentKind, object: &AbsentObject, catalog: &Catalog, if_exists: bool) -> Result<Error> {
    let name = object.parts.join(".");
    let path = qualified(object.relation.as_ref().unwrap_or(&object.parts).clone())?;
    check_schema(&path, catalog)?;
    let none = |state: SqlState, what: String| Ok(Error::new(state, format!("{what} does not exist")));
    if object.relation.is_some() {
        if !catalog.has_relation(&path) {
            return Ok(undefined_table(&path.to_string()));
        }
        // PostgreSQL has another word in the notice.
        let of = if if_exists || kind.noun == "rule" { "relation" } else { "table" };
        let what = format!("{} {} for {of} {}", kind.noun, quoted(&name), quoted(&path.name));
        return none(SqlState::UndefinedObject, what);
    }
    let state = match kind.noun {
        "database" => SqlState::InvalidCatalogName,
        _ if matches!(kind.names, AbsentNames::WithArguments) => {
            let what = format!("{} {name}({})", kind.noun, object.arguments);
            return none(SqlState::UndefinedFunction, what);
        }
        _ => SqlState::UndefinedObject,
    };
    none(state, format!("{} {}", kind.noun, quoted(&name)))
}
