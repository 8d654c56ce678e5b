//! From names to numbers of objects, and back.

use super::{numbered, oid, text, undefined};
use crate::name::{SCHEMA, name_parts, not_supported};
use crate::session::setting::{FIXED as FIXED_SETTINGS, is_known as is_setting};
use crate::system::objects::{OWNER, OWNER_OID, SCHEMAS, schema_oid};
use crate::system::quoting::quote_ident;
use crate::system::{Datum, PG_CATALOG, SystemCatalog, sequences, types};
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
        Err(error) if error.state() == SqlState::UndefinedTable => Ok(Datum::Null),
        Err(error) => Err(error),
    }
}

pub(super) fn class_out(catalog: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    let oid = oid(arguments.first());
    Ok(match catalog.relation_name(oid) {
        _ if oid == 0 => "-".into(),
        Some((SCHEMA | PG_CATALOG, name)) => quote_ident(name).into(),
        Some((schema, name)) => format!("{}.{}", quote_ident(schema), quote_ident(name)).into(),
        None => oid.to_string().into(),
    })
}

pub(super) fn type_in(_: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    let name = text(arguments.first());
    let found = number(name).or_else(|| types::oid_by_name(name));
    found.map(Datum::from).ok_or_else(|| undefined("type", name, SqlState::UndefinedObject))
}

pub(super) fn to_type(_: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    Ok(types::oid_by_name(text(arguments.first())).into())
}

pub(super) fn type_out(_: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    let oid = oid(arguments.first());
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

pub(super) fn namespace_in(_: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    let name = text(arguments.first());
    let found = number(name).or_else(|| schema_oid(name));
    found.map(Datum::from).ok_or_else(|| undefined("schema", name, SqlState::InvalidSchemaName))
}

pub(super) fn namespace_out(_: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    let oid = oid(arguments.first());
    let found = SCHEMAS.iter().find(|(known, _)| *known == oid).map(|(_, name)| quote_ident(name));
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

pub(super) fn type_is_visible(_: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    Ok(types::by_oid(oid(arguments.first())).map(|_| true).into())
}

pub(super) fn function_is_visible(_: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    let oid = oid(arguments.first());
    Ok(numbered().any(|(known, _)| known == oid).then_some(true).into())
}

/// Where names without a schema are looked for.
pub(super) fn current_schemas(_: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    let implicit = arguments.first() == Some(&Value::Boolean(true));
    let schemas = if implicit { vec![PG_CATALOG, SCHEMA] } else { vec![SCHEMA] };
    Ok(Datum::Texts(schemas.into_iter().map(str::to_owned).collect()))
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
    Ok(owned.map(|sequence| format!("{SCHEMA}.{}", quote_ident(&sequence.definition.name))).into())
}

/// The role may do everything with what there is: (role,) relation, privilege.
pub(super) fn has_table_privilege(catalog: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    let name = text(arguments.get(arguments.len().saturating_sub(2)));
    let oid = relation(catalog, name)?;
    Ok(catalog.relation_name(oid).map(|_| true).into())
}

pub(super) fn has_schema_privilege(_: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    let name = text(arguments.get(arguments.len().saturating_sub(2)));
    let is_known = |&(oid, known): &(u32, &str)| known == name || number(name) == Some(oid);
    match (SCHEMAS.iter().any(is_known), number(name)) {
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
