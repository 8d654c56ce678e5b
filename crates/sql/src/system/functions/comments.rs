//! Functions that tell comments.

use super::{oid, text};
use crate::system::comments::{Commented, DATABASES, RELATIONS};
use crate::system::{Datum, PG_CATALOG, SystemCatalog, relation};
use ankerdb_engine::{Result, Value};

fn comment(catalog: &SystemCatalog, object: u32, class: u32, column: i32) -> Datum {
    catalog.comments.get(&Commented { object, class, column }).map(String::as_str).into()
}

/// The relation of the system catalog that the second argument names: it lists objects of a kind.
fn class(arguments: &[Value]) -> u32 {
    relation(PG_CATALOG, text(arguments.get(1))).map_or(0, |relation| relation.definition.oid)
}

/// The comment on an object, which is of any kind if none is named.
pub(super) fn description(catalog: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    let object = oid(arguments.first());
    if arguments.len() > 1 {
        let class = class(arguments);
        return Ok(if class == DATABASES { Datum::Null } else { comment(catalog, object, class, 0) });
    }
    let first = Commented { object, class: 0, column: 0 };
    let of_object = catalog.comments.range(first..).take_while(|(about, _)| about.object == object);
    let mut own = of_object.filter(|(about, _)| about.class != DATABASES && about.column == 0);
    Ok(own.next().map(|(_, text)| text.as_str()).into())
}

pub(super) fn of_column(catalog: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    match arguments.get(1) {
        Some(Value::Integer(column)) => Ok(comment(catalog, oid(arguments.first()), RELATIONS, *column)),
        _ => Ok(Datum::Null),
    }
}

/// The comment on an object that all databases share: on a database.
pub(super) fn of_shared(catalog: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    match class(arguments) {
        DATABASES => Ok(comment(catalog, oid(arguments.first()), DATABASES, 0)),
        _ => Ok(Datum::Null),
    }
}
