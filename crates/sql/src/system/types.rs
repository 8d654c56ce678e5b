//! Types, collations and operator classes: `pg_type` and what belongs to it.

use super::objects::OWNER_OID;
use super::type_functions::{self, Purpose};
use super::{Datum, NULL, PG_CATALOG_OID, Rows, SystemCatalog, row};
use ankerdb_engine::{DataType, ListType, ObjectKind, SystemType};
use ankerdb_value::{IntervalLimit, Precision};

/// A type of PostgreSQL, by the columns of `pg_type` that differ.
pub(super) struct TypeEntry {
    pub(super) oid: u32,
    pub(super) name: &'static str,
    pub(super) length: i32,
    pub(super) by_value: bool,
    /// `typtype`, `typcategory`, `typalign`, `typstorage`.
    letters: &'static [u8; 4],
    /// The type of its elements, and of lists of it.
    element: u32,
    list: u32,
    pub(super) collation: u32,
    /// The function that reads its texts.
    pub(super) input: (u32, &'static str),
}

#[expect(clippy::too_many_arguments, reason = "a row of the table below")]
const fn t(
    oid: u32,
    name: &'static str,
    length: i32,
    by_value: bool,
    letters: &'static [u8; 4],
    element: u32,
    list: u32,
    collation: u32,
    input: (u32, &'static str),
) -> TypeEntry {
    TypeEntry { oid, name, length, by_value, letters, element, list, collation, input }
}

/// The types that AnKerDB has, with their lists; and others that clients look up when they connect, or that columns of the
/// system catalog are declared with.
#[rustfmt::skip]
pub(super) const TYPES: &[TypeEntry] = &[
    t(16, "bool", 1, true, b"bBcp", 0, 1000, 0, (1242, "boolin")),
    t(17, "bytea", -1, false, b"bUix", 0, 1001, 0, (1244, "byteain")),
    t(18, "char", 1, true, b"bZcp", 0, 1002, 0, (1245, "charin")),
    t(19, "name", 64, false, b"bScp", 18, 1003, 950, (34, "namein")),
    t(20, "int8", 8, true, b"bNdp", 0, 1016, 0, (460, "int8in")),
    t(21, "int2", 2, true, b"bNsp", 0, 1005, 0, (38, "int2in")),
    t(22, "int2vector", -1, false, b"bAip", 21, 1006, 0, (40, "int2vectorin")),
    t(23, "int4", 4, true, b"bNip", 0, 1007, 0, (42, "int4in")),
    t(24, "regproc", 4, true, b"bNip", 0, 1008, 0, (44, "regprocin")),
    t(25, "text", -1, false, b"bSix", 0, 1009, 100, (46, "textin")),
    t(26, "oid", 4, true, b"bNip", 0, 1028, 0, (1798, "oidin")),
    t(27, "tid", 6, false, b"bUsp", 0, 1010, 0, (48, "tidin")),
    t(28, "xid", 4, true, b"bUip", 0, 1011, 0, (50, "xidin")),
    t(29, "cid", 4, true, b"bUip", 0, 1012, 0, (52, "cidin")),
    t(30, "oidvector", -1, false, b"bAip", 26, 1013, 0, (54, "oidvectorin")),
    t(114, "json", -1, false, b"bUix", 0, 199, 0, (321, "json_in")),
    t(142, "xml", -1, false, b"bUix", 0, 143, 0, (2893, "xml_in")),
    t(194, "pg_node_tree", -1, false, b"bZix", 0, 0, 100, (195, "pg_node_tree_in")),
    t(199, "_json", -1, false, b"bAix", 114, 0, 0, (750, "array_in")),
    t(650, "cidr", -1, false, b"bIim", 0, 651, 0, (1267, "cidr_in")),
    t(700, "float4", 4, true, b"bNip", 0, 1021, 0, (200, "float4in")),
    t(701, "float8", 8, true, b"bNdp", 0, 1022, 0, (214, "float8in")),
    t(705, "unknown", -2, false, b"pXcp", 0, 0, 0, (109, "unknownin")),
    t(790, "money", 8, true, b"bNdp", 0, 791, 0, (886, "cash_in")),
    t(869, "inet", -1, false, b"bIim", 0, 1041, 0, (910, "inet_in")),
    t(1000, "_bool", -1, false, b"bAix", 16, 0, 0, (750, "array_in")),
    t(1001, "_bytea", -1, false, b"bAix", 17, 0, 0, (750, "array_in")),
    t(1002, "_char", -1, false, b"bAix", 18, 0, 0, (750, "array_in")),
    t(1003, "_name", -1, false, b"bAix", 19, 0, 950, (750, "array_in")),
    t(1005, "_int2", -1, false, b"bAix", 21, 0, 0, (750, "array_in")),
    t(1006, "_int2vector", -1, false, b"bAix", 22, 0, 0, (750, "array_in")),
    t(1007, "_int4", -1, false, b"bAix", 23, 0, 0, (750, "array_in")),
    t(1008, "_regproc", -1, false, b"bAix", 24, 0, 0, (750, "array_in")),
    t(1009, "_text", -1, false, b"bAix", 25, 0, 100, (750, "array_in")),
    t(1011, "_xid", -1, false, b"bAix", 28, 0, 0, (750, "array_in")),
    t(1013, "_oidvector", -1, false, b"bAix", 30, 0, 0, (750, "array_in")),
    t(1014, "_bpchar", -1, false, b"bAix", 1042, 0, 100, (750, "array_in")),
    t(1015, "_varchar", -1, false, b"bAix", 1043, 0, 100, (750, "array_in")),
    t(1016, "_int8", -1, false, b"bAdx", 20, 0, 0, (750, "array_in")),
    t(1021, "_float4", -1, false, b"bAix", 700, 0, 0, (750, "array_in")),
    t(1022, "_float8", -1, false, b"bAdx", 701, 0, 0, (750, "array_in")),
    t(1028, "_oid", -1, false, b"bAix", 26, 0, 0, (750, "array_in")),
    t(1033, "aclitem", 12, false, b"bUip", 0, 1034, 0, (1031, "aclitemin")),
    t(1034, "_aclitem", -1, false, b"bAix", 1033, 0, 0, (750, "array_in")),
    t(1042, "bpchar", -1, false, b"bSix", 0, 1014, 100, (1044, "bpcharin")),
    t(1043, "varchar", -1, false, b"bSix", 0, 1015, 100, (1046, "varcharin")),
    t(1082, "date", 4, true, b"bDip", 0, 1182, 0, (1084, "date_in")),
    t(1083, "time", 8, true, b"bDdp", 0, 1183, 0, (1143, "time_in")),
    t(1114, "timestamp", 8, true, b"bDdp", 0, 1115, 0, (1312, "timestamp_in")),
    t(1115, "_timestamp", -1, false, b"bAdx", 1114, 0, 0, (750, "array_in")),
    t(1182, "_date", -1, false, b"bAix", 1082, 0, 0, (750, "array_in")),
    t(1183, "_time", -1, false, b"bAdx", 1083, 0, 0, (750, "array_in")),
    t(1184, "timestamptz", 8, true, b"bDdp", 0, 1185, 0, (1150, "timestamptz_in")),
    t(1185, "_timestamptz", -1, false, b"bAdx", 1184, 0, 0, (750, "array_in")),
    t(1186, "interval", 16, false, b"bTdp", 0, 1187, 0, (1160, "interval_in")),
    t(651, "_cidr", -1, false, b"bAix", 650, 0, 0, (750, "array_in")),
    t(1041, "_inet", -1, false, b"bAix", 869, 0, 0, (750, "array_in")),
    t(1187, "_interval", -1, false, b"bAdx", 1186, 0, 0, (750, "array_in")),
    t(1231, "_numeric", -1, false, b"bAix", 1700, 0, 0, (750, "array_in")),
    t(1266, "timetz", 12, false, b"bDdp", 0, 1270, 0, (1350, "timetz_in")),
    t(1270, "_timetz", -1, false, b"bAdx", 1266, 0, 0, (750, "array_in")),
    t(1560, "bit", -1, false, b"bVix", 0, 1561, 0, (1564, "bit_in")),
    t(1561, "_bit", -1, false, b"bAix", 1560, 0, 0, (750, "array_in")),
    t(1563, "_varbit", -1, false, b"bAix", 1562, 0, 0, (750, "array_in")),
    t(1562, "varbit", -1, false, b"bVix", 0, 1563, 0, (1579, "varbit_in")),
    t(1700, "numeric", -1, false, b"bNim", 0, 1231, 0, (1701, "numeric_in")),
    t(2205, "regclass", 4, true, b"bNip", 0, 2210, 0, (2218, "regclassin")),
    t(2206, "regtype", 4, true, b"bNip", 0, 2211, 0, (2220, "regtypein")),
    t(2210, "_regclass", -1, false, b"bAix", 2205, 0, 0, (750, "array_in")),
    t(2211, "_regtype", -1, false, b"bAix", 2206, 0, 0, (750, "array_in")),
    t(2249, "record", -1, false, b"pPdx", 0, 2287, 0, (2290, "record_in")),
    t(2275, "cstring", -2, false, b"pPcp", 0, 1263, 0, (2292, "cstring_in")),
    t(2281, "internal", 8, true, b"pPdp", 0, 0, 0, (2304, "internal_in")),
    t(2276, "any", 4, true, b"pPip", 0, 0, 0, (2294, "any_in")),
    t(2277, "anyarray", -1, false, b"pPdx", 0, 0, 0, (2296, "anyarray_in")),
    t(2278, "void", 4, true, b"pPip", 0, 0, 0, (2298, "void_in")),
    t(2287, "_record", -1, false, b"pPdx", 2249, 0, 0, (750, "array_in")),
    t(2950, "uuid", 16, false, b"bUcp", 0, 2951, 0, (2952, "uuid_in")),
    t(2951, "_uuid", -1, false, b"bAix", 2950, 0, 0, (750, "array_in")),
    t(3904, "int4range", -1, false, b"rRix", 0, 3905, 0, (3834, "range_in")),
    t(3905, "_int4range", -1, false, b"bAix", 3904, 0, 0, (750, "array_in")),
    t(3908, "tsrange", -1, false, b"rRdx", 0, 3909, 0, (3834, "range_in")),
    t(3909, "_tsrange", -1, false, b"bAdx", 3908, 0, 0, (750, "array_in")),
    t(3910, "tstzrange", -1, false, b"rRdx", 0, 3911, 0, (3834, "range_in")),
    t(3911, "_tstzrange", -1, false, b"bAdx", 3910, 0, 0, (750, "array_in")),
    t(3912, "daterange", -1, false, b"rRix", 0, 3913, 0, (3834, "range_in")),
    t(3913, "_daterange", -1, false, b"bAix", 3912, 0, 0, (750, "array_in")),
    t(3926, "int8range", -1, false, b"rRdx", 0, 3927, 0, (3834, "range_in")),
    t(3927, "_int8range", -1, false, b"bAdx", 3926, 0, 0, (750, "array_in")),
    t(3802, "jsonb", -1, false, b"bUix", 0, 3807, 0, (3806, "jsonb_in")),
    t(3807, "_jsonb", -1, false, b"bAix", 3802, 0, 0, (750, "array_in")),
    t(4072, "jsonpath", -1, false, b"bUix", 0, 4073, 0, (4001, "jsonpath_in")),
    t(4073, "_jsonpath", -1, false, b"bAix", 4072, 0, 0, (750, "array_in")),
    t(4089, "regnamespace", 4, true, b"bNip", 0, 4090, 0, (4084, "regnamespacein")),
    t(4096, "regrole", 4, true, b"bNip", 0, 4097, 0, (4098, "regrolein")),
];

impl TypeEntry {
    pub(super) fn category(&self) -> char {
        char::from(self.letters[1])
    }

    pub(super) fn align(&self) -> char {
        char::from(self.letters[2])
    }

    pub(super) fn storage(&self) -> char {
        char::from(self.letters[3])
    }

    /// The name as SQL has it.
    fn sql_name(&self) -> &'static str {
        match self.name {
            "bool" => "boolean",
            "char" => "\"char\"",
            "int8" => "bigint",
            "int2" => "smallint",
            "int4" => "integer",
            "float4" => "real",
            "float8" => "double precision",
            "bpchar" => "character",
            "varchar" => "character varying",
            "time" => "time without time zone",
            "timetz" => "time with time zone",
            "timestamp" => "timestamp without time zone",
            "timestamptz" => "timestamp with time zone",
            "varbit" => "bit varying",
            "any" => "\"any\"",
            other => other,
        }
    }
}

/// The type with that number.
pub(super) fn by_oid(oid: u32) -> Option<&'static TypeEntry> {
    TYPES.iter().find(|known| known.oid == oid)
}

/// The number of the type that SQL calls so, or that `pg_type` has by that name.
pub(super) fn oid_by_name(name: &str) -> Option<u32> {
    let name = name.trim();
    if let Some(element) = name.strip_suffix("[]") {
        return by_oid(oid_by_name(element)?).map(|known| known.list).filter(|list| *list != 0);
    }
    let name = match name.to_ascii_lowercase().as_str() {
        "int" => "int4".to_owned(),
        "decimal" | "dec" => "numeric".to_owned(),
        "\"char\"" => "char".to_owned(),
        "char" => "bpchar".to_owned(),
        other => other.strip_prefix("pg_catalog.").unwrap_or(other).replace('"', ""),
    };
    let found = TYPES.iter().find(|known| known.sql_name() == name || known.name == name);
    found.map(|known| known.oid)
}

/// The number of a type of ours, and its modifier as PostgreSQL packs it.
pub(super) fn type_of(data_type: DataType) -> (u32, i32) {
    let length = |length: u32| i32::try_from(length).unwrap_or(i32::MAX - 4) + 4;
    match data_type {
        DataType::Boolean => (16, -1),
        DataType::SmallInt => (21, -1),
        DataType::Integer => (23, -1),
        DataType::BigInt => (20, -1),
        DataType::Real => (700, -1),
        DataType::DoublePrecision => (701, -1),
        DataType::Number => (1700, -1),
        DataType::Numeric { precision, scale } => (1700, (i32::from(precision) << 16 | i32::from(scale)) + 4),
        DataType::Text => (25, -1),
        DataType::ANY_VARCHAR => (1043, -1),
        DataType::Varchar(characters) => (1043, length(characters)),
        DataType::ANY_CHAR => (1042, -1),
        DataType::Char(characters) => (1042, length(characters)),
        DataType::Date => (1082, -1),
        DataType::Timestamp(precision) => (1114, seconds_modifier(precision)),
        DataType::TimestampTz(precision) => (1184, seconds_modifier(precision)),
        DataType::Time(precision) => (1083, seconds_modifier(precision)),
        DataType::Interval(limit) => (1186, limit.modifier()),
        DataType::Bytea => (17, -1),
        DataType::Uuid => (2950, -1),
        DataType::Json => (114, -1),
        DataType::Jsonb => (3802, -1),
        DataType::Packed(packed) => (packed.numbers().0, packed.length().map_or(-1, |length| length as i32)),
        DataType::Enum(labels) => (labels.oid(), -1),
        DataType::System(SystemType::List(ListType::Limited(limit))) => {
            (system_type(SystemType::List(ListType::Limited(limit))), type_of(limit.item_type()).1)
        }
        DataType::System(system) => (system_type(system), -1),
    }
}

fn seconds_modifier(precision: Precision) -> i32 {
    precision.declared().map_or(-1, i32::from)
}

fn system_type(system: SystemType) -> u32 {
    match system {
        SystemType::Oid => 26,
        SystemType::Name => 19,
        SystemType::Char => 18,
        SystemType::JsonPath => 4072,
        SystemType::Object(ObjectKind::Class) => 2205,
        SystemType::Object(ObjectKind::Type) => 2206,
        SystemType::Object(ObjectKind::Function) => 24,
        SystemType::Object(ObjectKind::Namespace) => 4089,
        SystemType::Object(ObjectKind::Role) => 4096,
        SystemType::Row(row) => row.oid(),
        SystemType::List(ListType::SmallIntVector) => 22,
        SystemType::List(ListType::OidVector) => 30,
        SystemType::List(ListType::Boolean) => 1000,
        SystemType::List(ListType::SmallInt) => 1005,
        SystemType::List(ListType::Integer) => 1007,
        SystemType::List(ListType::BigInt) => 1016,
        SystemType::List(ListType::DoublePrecision) => 1022,
        SystemType::List(ListType::Text) => 1009,
        SystemType::List(ListType::Name) => 1003,
        SystemType::List(ListType::Char) => 1002,
        SystemType::List(ListType::Oid) => 1028,
        SystemType::List(ListType::Bytea) => 1001,
        SystemType::List(ListType::Bpchar) => 1014,
        SystemType::List(ListType::Varchar) => 1015,
        SystemType::List(ListType::Real) => 1021,
        SystemType::List(ListType::Timestamp) => 1115,
        SystemType::List(ListType::Date) => 1182,
        SystemType::List(ListType::Time) => 1183,
        SystemType::List(ListType::TimestampTz) => 1185,
        SystemType::List(ListType::Interval) => 1187,
        SystemType::List(ListType::Numeric) => 1231,
        SystemType::List(ListType::Uuid) => 2951,
        SystemType::List(ListType::Packed(packed)) => packed.numbers().1,
        SystemType::List(ListType::Enum(labels)) => labels.list_oid(),
        SystemType::List(ListType::Row(row)) => row.list_oid(),
        SystemType::List(list @ ListType::Limited(_)) => system_type(SystemType::List(list.unlimited())),
    }
}

/// Whether all values of a type take the same room in PostgreSQL.
pub(crate) fn is_of_one_length(data_type: DataType) -> bool {
    by_oid(type_of(data_type).0).is_some_and(|known| known.length > 0)
}

/// `format_type`: the type as SQL writes it, with what the modifier says.
pub(super) fn format_type(oid: u32, modifier: Option<i32>) -> String {
    let Some(known) = by_oid(oid) else {
        return if oid == 0 { "-".to_owned() } else { "???".to_owned() };
    };
    if known.element != 0 && known.name.starts_with('_') {
        return format!("{}[]", format_type(known.element, modifier));
    }
    let name = known.sql_name();
    match (known.name, modifier) {
        // Without its length it would be read as character(1).
        ("bpchar", Some(-1)) => "bpchar".to_owned(),
        ("bpchar" | "varchar", Some(packed @ 4..)) => format!("{name}({})", packed - 4),
        ("bit", Some(-1)) => "\"bit\"".to_owned(),
        ("bit" | "varbit", Some(length @ 0..)) => format!("{name}({length})"),
        ("numeric", Some(packed @ 4..)) => {
            format!("{name}({},{})", (packed - 4) >> 16, (packed - 4) & 0xffff)
        }
        ("interval", Some(packed @ 0..)) => {
            DataType::Interval(IntervalLimit::of_modifier(packed)).to_string()
        }
        ("timestamp" | "timestamptz" | "time" | "timetz", Some(digits @ 0..)) => {
            let (first, rest) = name.split_once(' ').unwrap_or((name, ""));
            format!("{first}({digits}) {rest}")
        }
        _ => name.to_owned(),
    }
}

pub(super) fn types(catalog: &SystemCatalog) -> Rows {
    let of_users = super::user_types::types(catalog)
        .chain(super::domains::types(catalog))
        .chain(super::row_types::types(catalog));
    TYPES.iter().map(type_row).chain(of_users).collect()
}

fn type_row(known: &TypeEntry) -> Vec<Datum> {
    let letter = |position: usize| char::from(known.letters[position]).to_string();
    let function = |wanted: &str, purpose| match known.name {
        name if name.starts_with('_') => super::functions::internal(&format!("array_{wanted}")),
        _ => type_functions::function(known.oid, purpose),
    };
    row![
        known.oid,
        known.name,
        PG_CATALOG_OID,
        OWNER_OID,
        known.length,
        known.by_value,
        letter(0),
        letter(1),
        matches!(known.oid, 16 | 25 | 26 | 701 | 869 | 1184 | 1186 | 1562),
        true,
        ",",
        0,
        0,
        known.element,
        known.list,
        known.input.0,
        function("out", Purpose::Write),
        function("recv", Purpose::ReadBinary),
        function("send", Purpose::WriteBinary),
        0,
        0,
        0,
        letter(2),
        letter(3),
        false,
        0,
        -1,
        0,
        known.collation,
        NULL,
        NULL,
        NULL,
    ]
}

/// The collations that there are: texts are compared byte by byte.
pub(super) fn collations(_: &SystemCatalog) -> Rows {
    vec![
        row![100, "default", PG_CATALOG_OID, OWNER_OID, "d", true, -1, NULL, NULL, NULL, NULL],
        row![950, "C", PG_CATALOG_OID, OWNER_OID, "c", true, -1, "C", "C", NULL, NULL],
        row![951, "POSIX", PG_CATALOG_OID, OWNER_OID, "c", true, -1, "POSIX", "POSIX", NULL, NULL],
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_elements_name_each_other() {
        for known in TYPES.iter().filter(|known| known.list != 0) {
            if let Some(list) = by_oid(known.list) {
                assert_eq!(list.element, known.oid, "{}", known.name);
            }
        }
    }

    #[test]
    fn types_are_written_as_sql_has_them() {
        for data_type in [
            DataType::Varchar(40),
            DataType::Char(3),
            DataType::Numeric { precision: 5, scale: 2 },
            DataType::TIMESTAMPTZ,
            DataType::TIME,
            DataType::INTERVAL,
            DataType::Real,
            DataType::Jsonb,
        ] {
            let (oid, modifier) = type_of(data_type);
            assert_eq!(format_type(oid, Some(modifier)), data_type.to_string());
        }
        // With a modifier that says nothing, the catalog's own name stands for character.
        for system in SystemType::ALL {
            assert_eq!(format_type(system_type(system), None), system.name());
        }
    }
}
