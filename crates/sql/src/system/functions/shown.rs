//! What objects look like in SQL, and how large they are.

use super::{by_number, oid, relation, text};
use crate::name::DATABASE;
use crate::system::definition::{DefinitionStyle, expression_text, view_text};
use crate::system::objects::{OWNER, OWNER_OID};
use crate::system::{Datum, SystemCatalog, TableEntry, classes, constraints, type_functions, types};
use ankerdb_engine::{Error, Result, SqlState, Value};

/// Whether the flag for a shorter form is given.
fn is_brief(flag: Option<&Value>) -> bool {
    flag == Some(&Value::Boolean(true))
}

pub(super) fn format_type(catalog: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    let number = oid(arguments.first());
    if let (Some(Value::BigInt(_)), Some(shown)) =
        (arguments.first(), catalog.shown_user_type(number).or_else(|| catalog.shown_domain_of(number)))
    {
        return Ok(shown.into());
    }
    let modifier = match arguments.get(1) {
        Some(Value::Integer(modifier)) => Some(*modifier),
        _ => None,
    };
    match arguments.first() {
        Some(Value::BigInt(_)) => Ok(types::format_type(oid(arguments.first()), modifier).into()),
        _ => Ok(Datum::Null),
    }
}

/// The names of the types whose numbers a vector has.
pub(super) fn types_of_vector(catalog: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    let numbers = text(arguments.first()).split_ascii_whitespace();
    let name = |number: &str| {
        let number = number.parse().unwrap_or_default();
        let own = catalog.shown_user_type(number).or_else(|| catalog.shown_domain_of(number));
        own.unwrap_or_else(|| types::format_type(number, None))
    };
    Ok(numbers.map(name).collect::<Vec<_>>().join(", ").into())
}

/// Expressions are kept as texts, with all of their parentheses.
pub(super) fn expression(catalog: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    let whole = text(arguments.first());
    if !is_brief(arguments.get(2)) {
        return Ok(whole.into());
    }
    let style = DefinitionStyle { is_pretty: true, wrap: 0 };
    Ok(expression_text(catalog, catalog.table(oid(arguments.get(1))), whole, None, style).into())
}

/// The statement that makes an index, or one of its columns.
pub(super) fn index(catalog: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    let Some((table, index)) = catalog.index(oid(arguments.first())) else { return Ok(Datum::Null) };
    Ok(match arguments.get(1) {
        Some(Value::Integer(number @ 1..)) => {
            let number = usize::try_from(*number).unwrap_or(0);
            let column = constraints::index_column(catalog, table, index, number, is_brief(arguments.get(2)));
            column.unwrap_or_default().into()
        }
        _ => constraints::index_definition(catalog, table, index, is_brief(arguments.get(2))).into(),
    })
}

/// The query of a view: plain, or pretty, perhaps with so many columns in a line.
pub(super) fn view(catalog: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    let number = oid(arguments.first());
    let found = catalog.views.iter().find(|entry| entry.oid == number).map(|entry| &*entry.view);
    let materialized = || Some(&catalog.table(number)?.materialized.as_ref()?.0);
    let style = match arguments.get(1) {
        Some(Value::BigInt(wrap)) => {
            DefinitionStyle { is_pretty: true, wrap: i32::try_from(*wrap).unwrap_or(i32::MAX) }
        }
        flag => DefinitionStyle { is_pretty: is_brief(flag), wrap: 0 },
    };
    Ok(found.or_else(materialized).map(|view| view_text(catalog, view, style)).into())
}

pub(super) fn constraint(catalog: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    let found = constraints::by_number(catalog, oid(arguments.first()));
    let shown =
        found.map(|(table, constraint)| constraint.definition(catalog, table, is_brief(arguments.get(1))));
    Ok(shown.or_else(|| catalog.domain_check_definition(oid(arguments.first()))).into())
}

pub(super) fn function_result(_: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    let oid = oid(arguments.first());
    let of_type = || of_type(oid).map(|(_, result)| types::format_type(result, None));
    Ok(by_number(oid).map(|known| known.result.to_string()).or_else(of_type).into())
}

pub(super) fn function_arguments(_: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    let oid = oid(arguments.first());
    let list = |known: &super::SystemFunction| {
        known.arguments.iter().map(|argument| argument.to_string()).collect::<Vec<_>>().join(", ")
    };
    let of_type = || of_type(oid).map(|(argument, _)| types::format_type(argument, None));
    Ok(by_number(oid).map(list).or_else(of_type).into())
}

/// The types of the argument and the result of a type's function.
fn of_type(oid: u32) -> Option<(u32, u32)> {
    type_functions::signatures()
        .find(|(known, ..)| *known == oid)
        .map(|(_, _, argument, result)| (argument, result))
}

pub(super) fn role(_: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    Ok(match oid(arguments.first()) {
        OWNER_OID => OWNER.into(),
        other => format!("unknown (OID={other})").into(),
    })
}

/// What PostgreSQL grants when an object is made: to everybody, and to its owner. The first argument is the kind of the object.
pub(super) fn default_privileges(_: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    let (everybody, owner) = match text(arguments.first()) {
        "c" => ("", ""),
        "r" => ("", "arwdDxt"),
        "s" => ("", "rwU"),
        "d" => ("Tc", "CTc"),
        "f" => ("X", "X"),
        "l" | "T" => ("U", "U"),
        "L" => ("", "rw"),
        "n" => ("", "UC"),
        "t" => ("", "C"),
        "F" | "S" => ("", "U"),
        "p" => ("", "sA"),
        other => {
            let message = format!("unrecognized objtype abbreviation: {other}");
            return Err(Error::internal(message));
        }
    };
    let role = match oid(arguments.get(1)) {
        OWNER_OID => OWNER.to_owned(),
        other => other.to_string(),
    };
    let granted = [("", everybody), (&*role, owner)].into_iter().filter(|(_, rights)| !rights.is_empty());
    Ok(granted.map(|(to, rights)| format!("{to}={rights}/{role}")).collect::<Vec<String>>().into())
}

pub(super) fn encoding(_: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    Ok(match arguments.first() {
        Some(Value::Integer(6)) => "UTF8".into(),
        Some(Value::Integer(0)) => "SQL_ASCII".into(),
        _ => "".into(),
    })
}

/// Texts of clients have one encoding.
pub(super) fn client_encoding(_: &SystemCatalog, _: &[Value]) -> Result<Datum> {
    Ok("UTF8".into())
}

/// Bytes of a table, with its indexes, which are a part of it; none of their own for the others.
pub(super) fn relation_size(catalog: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    let oid = relation(catalog, arguments.first())?;
    if let Some(table) = catalog.table(oid) {
        return Ok(classes::size(table).1.into());
    }
    Ok(catalog.relation_name(oid).map(|_| 0i64).into())
}

/// Bytes of a table's indexes, which are counted with the table.
pub(super) fn indexes_size(catalog: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    let oid = relation(catalog, arguments.first())?;
    Ok(catalog.relation_name(oid).map(|_| 0i64).into())
}

pub(super) fn database_size(catalog: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    let name = text(arguments.first());
    if name != DATABASE && name.parse::<u32>().is_err() {
        return Err(Error::new(SqlState::InvalidCatalogName, format!("database \"{name}\" does not exist")));
    }
    let bytes = |table: &TableEntry| classes::size(table).1;
    Ok(catalog.tables.iter().map(bytes).fold(0i64, i64::saturating_add).into())
}

/// Bytes in the largest unit of which there are at least ten.
pub(super) fn size_pretty(_: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    let Some(Value::BigInt(bytes)) = arguments.first() else { return Ok(Datum::Null) };
    Ok(pretty(*bytes).into())
}

fn pretty(bytes: i64) -> String {
    const UNITS: [&str; 6] = ["bytes", "kB", "MB", "GB", "TB", "PB"];
    let limit = 10 * 1024i64;
    if bytes.unsigned_abs() < limit.unsigned_abs() {
        return format!("{bytes} bytes");
    }
    // Twice the amount, so that the last division can round.
    let mut doubled = i128::from(bytes) / 512;
    let mut unit = 1;
    while unit + 1 < UNITS.len() && doubled.abs() >= i128::from(2 * limit - 1) {
        doubled /= 1024;
        unit += 1;
    }
    let rounded = if doubled < 0 { (doubled - 1) / 2 } else { (doubled + 1) / 2 };
    format!("{rounded} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_to_units() {
        for (bytes, shown) in [
            (0, "0 bytes"),
            (10_239, "10239 bytes"),
            (10_240, "10 kB"),
            (8_192_000, "8000 kB"),
            (10_485_248, "10 MB"),
            (10_485_247, "10239 kB"),
            (-20_480, "-20 kB"),
        ] {
            assert_eq!(pretty(bytes), shown);
        }
    }
}
