//! PostgreSQL's numbers for types.

use ankerdb_base::{Error, Result, SqlState};
use ankerdb_value::{DataType, EnumType, ListType, ObjectKind, PackedType, Precision, SystemType};

/// What a RowDescription says about a type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct WireType {
    pub oid: u32,
    /// Bytes of a value, or -1 if they vary.
    pub size: i16,
    /// Length or precision and scale, as PostgreSQL packs them; -1 if there are none.
    pub modifier: i32,
}

/// Added to lengths in type modifiers: the header of PostgreSQL's variable-length values.
const MODIFIER_HEADER: i32 = 4;

/// How the type is described to clients.
pub(crate) fn wire_type(data_type: DataType) -> WireType {
    let (oid, size, modifier) = match data_type {
        DataType::Boolean => (16, 1, -1),
        DataType::Bytea => (17, -1, -1),
        DataType::BigInt => (20, 8, -1),
        DataType::SmallInt => (21, 2, -1),
        DataType::Integer => (23, 4, -1),
        DataType::Text => (25, -1, -1),
        DataType::Real => (700, 4, -1),
        DataType::DoublePrecision => (701, 8, -1),
        DataType::Char(length) => (1042, -1, length_modifier(length)),
        DataType::Varchar(length) => (1043, -1, length_modifier(length)),
        DataType::Date => (1082, 4, -1),
        DataType::Timestamp(precision) => (1114, 8, seconds_modifier(precision)),
        DataType::TimestampTz(precision) => (1184, 8, seconds_modifier(precision)),
        DataType::Time(precision) => (1083, 8, seconds_modifier(precision)),
        DataType::Interval(limit) => (1186, 16, limit.modifier()),
        DataType::Number => (1700, -1, -1),
        DataType::Numeric { precision, scale } => {
            (1700, -1, ((precision as i32) << 16 | scale as i32) + MODIFIER_HEADER)
        }
        DataType::Uuid => (2950, 16, -1),
        DataType::Json => (114, -1, -1),
        DataType::Jsonb => (3802, -1, -1),
        DataType::Packed(packed) => {
            let (oid, _, size) = packed.numbers();
            (oid, size, packed.length().map_or(-1, |length| length as i32))
        }
        DataType::Enum(labels) => (labels.oid(), 4, -1),
        DataType::System(system) => system_type(system),
    };
    WireType { oid, size, modifier }
}

/// Number and size of a type of the system catalog.
fn system_type(system: SystemType) -> (u32, i16, i32) {
    let (oid, size) = match system {
        SystemType::Oid => (26, 4),
        SystemType::Name => (19, 64),
        SystemType::Char => (18, 1),
        SystemType::JsonPath => (4072, -1),
        SystemType::Object(ObjectKind::Class) => (2205, 4),
        SystemType::Object(ObjectKind::Type) => (2206, 4),
        SystemType::Object(ObjectKind::Function) => (24, 4),
        SystemType::Object(ObjectKind::Namespace) => (4089, 4),
        SystemType::Object(ObjectKind::Role) => (4096, 4),
        SystemType::List(list) => (list_type(list), -1),
        SystemType::Row(row) => (row.oid(), -1),
    };
    let modifier = match system {
        SystemType::List(ListType::Limited(limit)) => wire_type(limit.item_type()).modifier,
        _ => -1,
    };
    (oid, size, modifier)
}

fn list_type(list: ListType) -> u32 {
    match list {
        ListType::SmallIntVector => 22,
        ListType::OidVector => 30,
        ListType::Boolean => 1000,
        ListType::Bytea => 1001,
        ListType::Char => 1002,
        ListType::Name => 1003,
        ListType::SmallInt => 1005,
        ListType::Integer => 1007,
        ListType::Text => 1009,
        ListType::Bpchar => 1014,
        ListType::Varchar => 1015,
        ListType::BigInt => 1016,
        ListType::Real => 1021,
        ListType::DoublePrecision => 1022,
        ListType::Oid => 1028,
        ListType::Timestamp => 1115,
        ListType::Date => 1182,
        ListType::Time => 1183,
        ListType::TimestampTz => 1185,
        ListType::Interval => 1187,
        ListType::Numeric => 1231,
        ListType::Uuid => 2951,
        ListType::Packed(packed) => packed.numbers().1,
        ListType::Enum(labels) => labels.list_oid(),
        ListType::Row(row) => row.list_oid(),
        ListType::Limited(_) => list_type(list.unlimited()),
    }
}

/// The number of the type of a list's items.
pub(crate) fn item_oid(list: ListType) -> u32 {
    match list {
        ListType::Limited(_) => item_oid(list.unlimited()),
        ListType::Varchar => 1043,
        ListType::Bpchar => 1042,
        other => wire_type(other.item_type()).oid,
    }
}

fn seconds_modifier(precision: Precision) -> i32 {
    precision.declared().map_or(-1, i32::from)
}

fn length_modifier(length: u32) -> i32 {
    i32::try_from(length).ok().and_then(|length| length.checked_add(MODIFIER_HEADER)).unwrap_or(-1)
}

/// The type that a client declared for a parameter; `None` where it leaves that to the server.
///
/// A client cannot declare the precision of a numeric: its values have any length.
pub(crate) fn declared_type(oid: u32) -> Result<Option<DataType>> {
    Ok(Some(match oid {
        0 | 705 => return Ok(None),
        16 => DataType::Boolean,
        17 => DataType::Bytea,
        20 => DataType::BigInt,
        21 => DataType::SmallInt,
        23 => DataType::Integer,
        18 => DataType::System(SystemType::Char),
        4072 => DataType::System(SystemType::JsonPath),
        19 => DataType::System(SystemType::Name),
        25 | 1042 | 1043 => DataType::Text,
        26 => DataType::System(SystemType::Oid),
        700 => DataType::Real,
        701 => DataType::DoublePrecision,
        1082 => DataType::Date,
        1114 => DataType::TIMESTAMP,
        1083 => DataType::TIME,
        1184 => DataType::TIMESTAMPTZ,
        1186 => DataType::INTERVAL,
        1700 => DataType::Number,
        2950 => DataType::Uuid,
        114 => DataType::Json,
        3802 => DataType::Jsonb,
        other => {
            if let Some(list) = ListType::ARRAYS.into_iter().find(|list| list_type(*list) == other) {
                return Ok(Some(DataType::System(SystemType::List(list))));
            }
            if let Some(packed) = PackedType::ALL.into_iter().find(|packed| packed.numbers().0 == other) {
                return Ok(Some(DataType::Packed(packed)));
            }
            if let Some(labels) = EnumType::by_oid(other) {
                return Ok(Some(match labels.oid() == other {
                    true => DataType::Enum(labels),
                    false => DataType::System(SystemType::List(ListType::Enum(labels))),
                }));
            }
            let message = format!("parameters of the type with OID {other} are not supported");
            return Err(Error::new(SqlState::FeatureNotSupported, message));
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modifiers_are_packed_as_postgresql_does() {
        assert_eq!(wire_type(DataType::Numeric { precision: 12, scale: 2 }).modifier, 786_438);
        assert_eq!(wire_type(DataType::Varchar(20)).modifier, 24);
        assert_eq!(wire_type(DataType::Text).modifier, -1);
        assert_eq!(wire_type(DataType::Varchar(u32::MAX)).modifier, -1);
    }

    #[test]
    fn declared_types_come_back_as_described() {
        for data_type in [
            DataType::Boolean,
            DataType::BigInt,
            DataType::Number,
            DataType::Uuid,
            DataType::Packed(PackedType::Inet),
            DataType::Packed(PackedType::Cidr),
            DataType::Json,
            DataType::Jsonb,
            DataType::Text,
            DataType::Date,
            DataType::TIME,
            DataType::INTERVAL,
        ] {
            assert_eq!(declared_type(wire_type(data_type).oid).unwrap(), Some(data_type));
        }
        for list in ListType::ARRAYS {
            let data_type = DataType::System(SystemType::List(list));
            assert_eq!(declared_type(wire_type(data_type).oid).unwrap(), Some(data_type));
        }
        assert_eq!(declared_type(0).unwrap(), None);
        assert_eq!(declared_type(142).unwrap_err().state(), SqlState::FeatureNotSupported);
    }
}
