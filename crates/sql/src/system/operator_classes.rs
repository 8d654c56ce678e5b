//! Operator classes and collations: how an index compares the values of a type.
//!
//! There is one order of values here, that of their bytes for texts, which is what the classes for patterns have as well. So a
//! class that fits the type of a column changes nothing, and is kept to be shown.

use super::objects::OWNER_OID;
use super::types::type_of;
use super::{PG_CATALOG_OID, Rows, SystemCatalog, row};
use crate::name::{not_supported, quoted};
use ankerdb_engine::{DataType, Error, IndexKind, Result, SqlState, SystemType};

/// A class: its number and its family's in trees, the same in hash tables, its name, and the type of values.
type Class = ((u32, u32), (u32, u32), &'static str, u32);

/// Those that a type has by itself come first.
const CLASSES: &[Class] = &[
    ((10003, 424), (10048, 2222), "bool_ops", 16),
    ((10006, 428), (10049, 2223), "bytea_ops", 17),
    ((1979, 1976), (10019, 1977), "int2_ops", 21),
    ((1978, 1976), (10020, 1977), "int4_ops", 23),
    ((3124, 1976), (10021, 1977), "int8_ops", 20),
    ((10012, 1970), (10013, 1971), "float4_ops", 700),
    ((3123, 1970), (10014, 1971), "float8_ops", 701),
    ((3125, 1988), (10030, 1998), "numeric_ops", 1700),
    ((3126, 1994), (10037, 1995), "text_ops", 25),
    ((10004, 426), (10005, 427), "bpchar_ops", 1042),
    ((3122, 434), (10011, 435), "date_ops", 1082),
    ((10038, 1996), (10039, 1997), "time_ops", 1083),
    ((3128, 434), (10046, 2040), "timestamp_ops", 1114),
    ((3127, 434), (10040, 1999), "timestamptz_ops", 1184),
    ((10022, 1982), (10023, 1983), "interval_ops", 1186),
    ((10041, 2000), (10042, 2001), "timetz_ops", 1266),
    ((10076, 3901), (10077, 3903), "range_ops", RANGE),
    ((10065, 2968), (10066, 2969), "uuid_ops", 2950),
    ((10015, 1974), (10016, 1975), "inet_ops", 869),
    ((10002, 423), (0, 0), "bit_ops", 1560),
    ((10043, 2002), (0, 0), "varbit_ops", 1562),
    ((10088, 4033), (10089, 4034), "jsonb_ops", 3802),
    ((10044, 1994), (10045, 1995), "varchar_ops", 25),
    ((4217, 2095), (10056, 2229), "text_pattern_ops", 25),
    ((4218, 2095), (10057, 2229), "varchar_pattern_ops", 25),
    ((4219, 2097), (10058, 2231), "bpchar_pattern_ops", 1042),
];

const TEXT: u32 = 25;
const CHARACTER: u32 = 1042;
const INET: u32 = 869;
const RANGE: u32 = 3831;

/// The type whose classes a type has.
fn input_of(data_type: DataType) -> u32 {
    match type_of(data_type).0 {
        1043 => TEXT,
        650 => INET,
        3904 | 3908 | 3910 | 3912 | 3926 => RANGE,
        other => other,
    }
}

fn numbers(class: &Class, kind: IndexKind) -> (u32, u32) {
    match kind {
        IndexKind::Ordered => class.0,
        IndexKind::Hash => class.1,
    }
}

fn own_class(data_type: DataType) -> Option<&'static Class> {
    let wanted = input_of(data_type);
    CLASSES.iter().find(|(.., input)| *input == wanted)
}

/// The number of the class that a key column has: the one that was named, or its type's own.
pub(super) fn class_of(name: Option<&str>, kind: IndexKind, data_type: DataType) -> u32 {
    let named = name.and_then(|name| CLASSES.iter().find(|(.., known, _)| *known == name));
    named.or_else(|| own_class(data_type)).map_or(0, |class| numbers(class, kind).0)
}

/// The class of this name for columns of a type; `None` if it is the one that they have anyway.
///
/// # Errors
/// `UndefinedObject` if there is none; `DatatypeMismatch` if it is for another type.
pub(crate) fn operator_class(name: &str, kind: IndexKind, data_type: DataType) -> Result<Option<String>> {
    let method = match kind {
        IndexKind::Ordered => "btree",
        IndexKind::Hash => "hash",
    };
    let Some(class) = CLASSES.iter().find(|(.., known, _)| *known == name) else {
        let message =
            format!("operator class {} does not exist for access method {}", quoted(name), quoted(method));
        return Err(Error::new(SqlState::UndefinedObject, message));
    };
    match (input_of(data_type), class.3) {
        (wanted, input) if wanted == input => {
            let is_own = own_class(data_type).is_some_and(|own| own.2 == name);
            Ok((!is_own).then(|| name.to_owned()))
        }
        // They would be compared without the blanks at their ends.
        (TEXT, CHARACTER) => Err(not_supported(&format!("operator class {name} for a text"))),
        _ => {
            let message = format!("operator class {} does not accept data type {data_type}", quoted(name));
            Err(Error::new(SqlState::DatatypeMismatch, message))
        }
    }
}

/// The collation of this name for a column, or for a key; `None` if it is the one that texts have anyway. All of them compare bytes.
///
/// # Errors
/// `UndefinedObject` if there is none; `DatatypeMismatch` if values of the type are no texts.
pub(crate) fn sortable_collation(name: &str, data_type: DataType) -> Result<Option<String>> {
    let of_items = match data_type {
        DataType::System(SystemType::List(list)) => list.item_type(),
        other => other,
    };
    if !matches!(input_of(of_items), TEXT | CHARACTER) {
        let message = format!("collations are not supported by type {data_type}");
        return Err(Error::new(SqlState::DatatypeMismatch, message));
    }
    match name {
        "default" => Ok(None),
        "C" | "POSIX" => Ok(Some(name.to_owned())),
        _ => {
            let message = format!("collation {} for encoding \"UTF8\" does not exist", quoted(name));
            Err(Error::new(SqlState::UndefinedObject, message))
        }
    }
}

/// The number of a collation in the catalog.
pub(super) fn collation_number(name: &str) -> i64 {
    match name {
        "C" => 950,
        "POSIX" => 951,
        _ => 100,
    }
}

/// `pg_opclass`.
pub(super) fn operator_classes(_: &SystemCatalog) -> Rows {
    let of_method = |kind: IndexKind, method: u32| {
        // There are no hash tables of bits in PostgreSQL.
        let known = CLASSES.iter().enumerate().filter(move |(_, class)| numbers(class, kind).0 != 0);
        known.map(move |(position, class)| {
            let ((oid, family), (.., name, input)) = (numbers(class, kind), class);
            let is_own = CLASSES[..position].iter().all(|(.., before)| before != input);
            row![oid, method, *name, PG_CATALOG_OID, OWNER_OID, family, *input, is_own, 0]
        })
    };
    let methods = [IndexKind::Ordered, IndexKind::Hash];
    let methods = methods.into_iter();
    methods.flat_map(|kind| of_method(kind, super::classes::method_oid(kind))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_kept_only_where_it_is_not_the_types_own() {
        let class = |name, data_type| operator_class(name, IndexKind::Ordered, data_type);
        assert_eq!(class("text_ops", DataType::Text).unwrap(), None);
        assert_eq!(class("text_ops", DataType::Varchar(9)).unwrap(), None);
        assert_eq!(class("varchar_ops", DataType::Varchar(9)).unwrap().as_deref(), Some("varchar_ops"));
        assert_eq!(class("int4_ops", DataType::Text).unwrap_err().state(), SqlState::DatatypeMismatch);
        assert_eq!(class("int5_ops", DataType::Integer).unwrap_err().state(), SqlState::UndefinedObject);
    }
}
