//! From names to numbers of objects, and back.

use super::{numbered, oid, text, undefined};
use crate::name::{name_parts, not_supported};
use crate::session::setting::{FIXED as FIXED_SETTINGS, is_known as is_setting};
use crate::system::objects::{OWNER, OWNER_OID};
use crate::system::quoting::quote_ident;
use crate::system::{Datum, PG_CATALOG, SchemaEntry, SequenceEntry, SystemCatalog, sequences, types};
use ankerdb_engine::{Error, Result, SqlState, Value};

/// Schema and name.
fn qualified(text: &str) -> Result<(Option<String>, String)> {
    let mut parts = name_parts(text)?;
    let name = parts.pop().unwrap_or_default();
    match parts.len() {
        0 => Ok((None, name)),
        1 | 2 => Ok((parts.pop(), name)),
        _ => {
            let message = "improper relation name (too many dotted names)";
            Err(Error::new(SqlState::SyntaxError, format!("{message}: {text}")))
        }
    }
}

/// A number written as one.
fn number(text: &str) -> Option<u32> {
    text.trim().parse().ok()
}

/// The relation with that name. 42P01 if there is none.
pub(super) fn relation(catalog: &SystemCatalog, name: &str) -> Result<u32> {
    if let Some(oid) = number(name) {
        return Ok(oid);
    }
    if name == "-" {
        return Ok(0);
    }
    let (schema, own) = qualified(name)?;
    catalog.relation_oid(schema.as_deref(), &own).ok_or_else(|| {
        if let Some(schema) = schema.as_ref().filter(|schema| schema_by_name(catalog, schema).is_none()) {
            return undefined("schema", schema, SqlState::InvalidSchemaName);
        }
        let whole = schema.map_or(own.clone(), |schema| format!("{schema}.{own}"));
        undefined("relation", &whole, SqlState::UndefinedTable)
    })
}

pub(super) fn class_in(catalog: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    relation(catalog, text(arguments.first())).map(Datum::from)
}

pub(super) fn to_class(catalog: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    match relation(catalog, text(arguments.first())) {
        Ok(oid) => Ok(oid.into()),
        Err(error) if matches!(error.state(), SqlState::UndefinedTable | SqlState::InvalidSchemaName) => {
            Ok(Datum::Null)
        }
        Err(error) => Err(error),
    }
}

pub(super) fn class_out(catalog: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    let oid = oid(arguments.first());
    Ok(match catalog.relation_name(oid) {
        _ if oid == 0 => "-".into(),
        Some((schema, name)) => catalog.shown_name(schema, name).into(),
        None => oid.to_string().into(),
    })
}

/// The type of the system, or of users, that a name stands for.
fn type_by_name(catalog: &SystemCatalog, name: &str) -> Option<u32> {
    types::oid_by_name(name).or_else(|| {
        let (items, mark) = match name.trim().strip_suffix("[]") {
            Some(items) => (items, "[]"),
            None => (name, ""),
        };
        let (schema, own) = qualified(items).ok()?;
        let own = format!("{own}{mark}");
        // In quotes a name of the system's is the same one, but that the word without them is another type.
        let is_of_system = schema.as_deref().is_none_or(|schema| schema == PG_CATALOG) && items.contains('"');
        let of_system = is_of_system.then(|| match own.strip_prefix("char") {
            Some("" | "[]") => types::oid_by_name(&format!("\"char\"{mark}")),
            _ => types::oid_by_name(&own),
        });
        of_system
            .flatten()
            .or_else(|| catalog.user_type_oid(schema.as_deref(), &own))
            .or_else(|| catalog.domain_oid(schema.as_deref(), &own))
    })
}

pub(super) fn type_in(catalog: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    let name = text(arguments.first());
    let found = number(name).or_else(|| type_by_name(catalog, name));
    found.map(Datum::from).ok_or_else(|| undefined("type", name, SqlState::UndefinedObject))
}

pub(super) fn to_type(catalog: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    Ok(type_by_name(catalog, text(arguments.first())).into())
}

pub(super) fn type_out(catalog: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    let oid = oid(arguments.first());
    if let Some(shown) = catalog.shown_user_type(oid).or_else(|| catalog.shown_domain_of(oid)) {
        return Ok(shown.into());
    }
    Ok(match types::by_oid(oid) {
        Some(_) => types::format_type(oid, None).into(),
        None if oid == 0 => "-".into(),
        None => oid.to_string().into(),
    })
}

pub(super) fn function_in(_: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    let name = text(arguments.first());
    let own = name.strip_prefix("pg_catalog.").unwrap_or(name);
    let found = number(name).or_else(|| numbered().find(|(_, known)| *known == own).map(|(oid, _)| oid));
    found.map(Datum::from).ok_or_else(|| undefined("function", name, SqlState::UndefinedFunction))
}

pub(super) fn function_out(_: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    let oid = oid(arguments.first());
    Ok(match numbered().find(|(known, _)| *known == oid) {
        Some((_, name)) => name.into(),
        None if oid == 0 => "-".into(),
        None => oid.to_string().into(),
    })
}

pub(super) fn namespace_in(catalog: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    let name = text(arguments.first());
    let own = name_parts(name)?.join(".");
    let found = number(name).or_else(|| schema_by_name(catalog, &own));
    found.map(Datum::from).ok_or_else(|| undefined("schema", name, SqlState::InvalidSchemaName))
}

fn schema_by_name(catalog: &SystemCatalog, name: &str) -> Option<u32> {
    catalog.all_schemas().find(|(_, known)| *known == name).map(|(oid, _)| oid)
}

pub(super) fn namespace_out(catalog: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    let oid = oid(arguments.first());
    let found = catalog.all_schemas().find(|(known, _)| *known == oid).map(|(_, name)| quote_ident(name));
    Ok(found.unwrap_or_else(|| if oid == 0 { "-".into() } else { oid.to_string() }).into())
}

pub(super) fn role_in(_: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    let name = text(arguments.first());
    let found = number(name).or((name == OWNER).then_some(OWNER_OID));
    found.map(Datum::from).ok_or_else(|| undefined("role", name, SqlState::UndefinedObject))
}

pub(super) fn role_out(_: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    Ok(match oid(arguments.first()) {
        OWNER_OID => OWNER.into(),
        0 => "-".into(),
        other => other.to_string().into(),
    })
}

/// Whether the relation is found by its name alone; NULL if there is none.
pub(super) fn table_is_visible(catalog: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    let oid = oid(arguments.first());
    let visible = |(_, name): (&str, &str)| catalog.relation_oid(None, name) == Some(oid);
    Ok(catalog.relation_name(oid).map(visible).into())
}

pub(super) fn type_is_visible(catalog: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    let oid = oid(arguments.first());
    let of_users = catalog.is_visible_type(oid).or_else(|| catalog.is_visible_domain(oid));
    Ok(of_users.or_else(|| types::by_oid(oid).map(|_| true)).into())
}

pub(super) fn function_is_visible(_: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    let oid = oid(arguments.first());
    Ok(numbered().any(|(known, _)| known == oid).then_some(true).into())
}

/// The schemas of a path that there are.
fn existing<'a>(catalog: &'a SystemCatalog, path: &'a [String]) -> impl Iterator<Item = &'a String> {
    path.iter().filter(|name| schema_by_name(catalog, name).is_some())
}

/// Where names without a schema are looked for.
pub(super) fn current_schemas(catalog: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    let implicit = arguments.first() == Some(&Value::Boolean(true));
    let path = if implicit { &catalog.path.searched } else { &catalog.path.asked };
    Ok(Datum::Texts(existing(catalog, path).cloned().collect()))
}

/// Where relations are made whose names have no schema.
pub(super) fn current_schema(catalog: &SystemCatalog, _: &[Value]) -> Result<Datum> {
    Ok(existing(catalog, &catalog.path.asked).next().cloned().into())
}

/// The number of the schema of the session's temporary relations.
pub(super) fn own_temporary_schema(catalog: &SystemCatalog, _: &[Value]) -> Result<Datum> {
    let own = catalog.path.temporary.as_ref().and_then(|name| schema_by_name(catalog, name));
    Ok(own.unwrap_or(0).into())
}

/// Whether a schema is that of another session's temporary relations.
pub(super) fn is_others_temporary_schema(catalog: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    let oid = oid(arguments.first());
    let found = catalog.schemas.iter().find(|schema| schema.oid == oid);
    let is_own = |schema: &SchemaEntry| catalog.path.temporary.as_deref() == Some(&*schema.name);
    Ok(found.is_some_and(|schema| schema.is_temporary() && !is_own(schema)).into())
}

/// The sequence that belongs to a column, given by the names of table and column.
pub(super) fn serial_sequence(catalog: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    let (table, column) = (text(arguments.first()), text(arguments.get(1)));
    let number = relation(catalog, table)?;
    let Some(entry) = catalog.table(number) else { return Ok(Datum::Null) };
    let Some(position) = entry.columns.iter().position(|known| known.definition.name == column) else {
        let message = format!("column \"{column}\" of relation \"{}\" does not exist", entry.name);
        return Err(Error::new(SqlState::UndefinedColumn, message));
    };
    let owned = catalog.sequences.iter().find(|sequence| {
        sequences::owner(catalog, sequence).is_some_and(|(table, at)| table.oid == number && at == position)
    });
    let shown = |sequence: &SequenceEntry| {
        format!("{}.{}", quote_ident(&sequence.schema.name), quote_ident(&sequence.definition.name))
    };
    Ok(owned.map(shown).into())
}

/// The role may do everything with what there is: (role,) relation, privilege.
pub(super) fn has_table_privilege(catalog: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    let name = text(arguments.get(arguments.len().saturating_sub(2)));
    let oid = relation(catalog, name)?;
    Ok(catalog.relation_name(oid).map(|_| true).into())
}

pub(super) fn has_schema_privilege(catalog: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    let name = text(arguments.get(arguments.len().saturating_sub(2)));
    let is_known = |(oid, known): (u32, &str)| known == name || number(name) == Some(oid);
    match (catalog.all_schemas().any(is_known), number(name)) {
        (true, _) => Ok(true.into()),
        (false, Some(_)) => Ok(Datum::Null),
        (false, None) => Err(undefined("schema", name, SqlState::InvalidSchemaName)),
    }
}

/// A setting that is the same in all sessions. 0A000 for others that there are: SHOW tells these.
pub(super) fn current_setting(_: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    let name = text(arguments.first()).to_lowercase();
    let fixed = FIXED_SETTINGS.iter().chain(&[("default_table_access_method", "heap")]);
    if let Some((_, value)) = fixed.into_iter().find(|(known, _)| *known == name) {
        return Ok((*value).into());
    }
    if arguments.get(1) == Some(&Value::Boolean(true)) && !is_setting(&name) {
        return Ok(Datum::Null);
    }
    match is_setting(&name) {
        true => Err(not_supported(&format!("current_setting of {name}, which sessions change,"))),
        false => {
            let message = format!("unrecognized configuration parameter \"{name}\"");
            Err(Error::new(SqlState::UndefinedObject, message))
        }
    }
}
