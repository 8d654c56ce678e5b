//! Types of the system catalog: numbers and texts that name objects, and lists of them.
//!
//! Expressions and results have them; columns of tables cannot. Their values are those of other types: a number that names an
//! object is a [`Value::BigInt`](crate::Value), and a name is a text. A list is an [`Array`](crate::Array), or, where an analytical
//! query has written it already, a text in the form `{1,2}` that clients see. A row is such a text.

use crate::{
    BitLength, DataType, EnumType, ItemLimit, MAX_NUMERIC_PRECISION, PackedType, RangeType, RowType,
};
use std::fmt;

/// A type that only the system catalog and queries of it have.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SystemType {
    /// `oid`: the number of an object, 32 bits without a sign
    Oid,
    /// `name`: a text of at most 63 bytes
    Name,
    /// `"char"`: a single byte
    Char,
    /// `jsonpath`: the canonical text of a path of SQL/JSON (see [`JsonPath`](crate::json::JsonPath))
    JsonPath,
    /// A number that is shown as the name of the object.
    Object(ObjectKind),
    /// A list.
    List(ListType),
    /// A row.
    Row(RowType),
}

/// What the number of an object is looked up in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ObjectKind {
    /// `regclass`: tables, indexes, sequences
    Class,
    /// `regtype`
    Type,
    /// `regproc`: functions
    Function,
    /// `regnamespace`: schemas
    Namespace,
    /// `regrole`
    Role,
}

/// A list, by its elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ListType {
    /// `int2vector`: shown as `1 2`
    SmallIntVector,
    /// `oidvector`: shown as `1 2`
    OidVector,
    /// `boolean[]`
    Boolean,
    /// `smallint[]`
    SmallInt,
    /// `integer[]`
    Integer,
    /// `bigint[]`
    BigInt,
    /// `double precision[]`
    DoublePrecision,
    /// `text[]`
    Text,
    /// `name[]`
    Name,
    /// `"char"[]`
    Char,
    /// `oid[]`
    Oid,
    /// `real[]`
    Real,
    /// `numeric[]`, each item with the digits that it has
    Numeric,
    /// `character varying[]`
    Varchar,
    /// `character[]`, without trailing blanks
    Bpchar,
    /// `date[]`
    Date,
    /// `timestamp without time zone[]`
    Timestamp,
    /// `timestamp with time zone[]`
    TimestampTz,
    /// `time without time zone[]`
    Time,
    /// `interval[]`
    Interval,
    /// `bytea[]`
    Bytea,
    /// `uuid[]`
    Uuid,
    /// Of a packed type, such as `inet[]`.
    Packed(PackedType),
    /// Of a type of labels.
    Enum(EnumType),
    /// Of rows. Its values are arrays of their texts.
    Row(RowType),
    /// With a limit of its items, such as `varchar(3)[]`: the type of columns and of casts. Its values are those of the type without.
    Limited(ItemLimit),
}

/// What items of `numeric[]` are read as: the scale says nothing about them, they keep their own.
const ITEM_NUMERIC: DataType = DataType::Numeric { precision: MAX_NUMERIC_PRECISION, scale: 10 };

impl ListType {
    /// All of them but the vectors and those of types that users make: what PostgreSQL calls arrays.
    pub const ARRAYS: [ListType; 30] = {
        use ListType::*;
        [
            Boolean,
            SmallInt,
            Integer,
            BigInt,
            DoublePrecision,
            Text,
            Name,
            Char,
            Oid,
            Real,
            Numeric,
            Varchar,
            Bpchar,
            Date,
            Timestamp,
            TimestampTz,
            Time,
            Interval,
            Bytea,
            Uuid,
            Packed(PackedType::Inet),
            Packed(PackedType::Cidr),
            Packed(PackedType::TimeTz),
            Packed(PackedType::Range(RangeType::Integer)),
            Packed(PackedType::Range(RangeType::BigInt)),
            Packed(PackedType::Range(RangeType::Date)),
            Packed(PackedType::Range(RangeType::Timestamp)),
            Packed(PackedType::Range(RangeType::TimestampTz)),
            Packed(PackedType::Bit(BitLength::ANY)),
            Packed(PackedType::BITS),
        ]
    };

    /// The type of the items.
    pub fn item_type(self) -> DataType {
        match self {
            ListType::Boolean => DataType::Boolean,
            ListType::SmallInt | ListType::SmallIntVector => DataType::SmallInt,
            ListType::Integer => DataType::Integer,
            ListType::BigInt => DataType::BigInt,
            ListType::Real => DataType::Real,
            ListType::DoublePrecision => DataType::DoublePrecision,
            ListType::Numeric => ITEM_NUMERIC,
            ListType::Text | ListType::Varchar => DataType::Text,
            ListType::Bpchar => DataType::ANY_CHAR,
            ListType::Name => DataType::System(SystemType::Name),
            ListType::Char => DataType::System(SystemType::Char),
            ListType::Oid | ListType::OidVector => DataType::System(SystemType::Oid),
            ListType::Date => DataType::Date,
            ListType::Timestamp => DataType::TIMESTAMP,
            ListType::TimestampTz => DataType::TIMESTAMPTZ,
            ListType::Time => DataType::TIME,
            ListType::Interval => DataType::INTERVAL,
            ListType::Bytea => DataType::Bytea,
            ListType::Uuid => DataType::Uuid,
            ListType::Packed(packed) => DataType::Packed(packed),
            ListType::Enum(labels) => DataType::Enum(labels),
            ListType::Row(row) => DataType::System(SystemType::Row(row)),
            ListType::Limited(limit) => limit.item_type(),
        }
    }

    /// The array type with items of a type, without a limit of them (see [`declared`](Self::declared)); `None` where there is
    /// none here.
    pub fn of(item: DataType) -> Option<ListType> {
        match item {
            DataType::Numeric { .. } | DataType::Number => Some(ListType::Numeric),
            DataType::Varchar(_) => Some(ListType::Varchar),
            DataType::Char(_) => Some(ListType::Bpchar),
            DataType::Enum(labels) => Some(ListType::Enum(labels)),
            DataType::Packed(packed) => Some(ListType::Packed(packed.of_any_length())),
            DataType::System(SystemType::Row(row)) => Some(ListType::Row(row)),
            other => {
                let item = other.of_any_precision();
                ListType::ARRAYS.into_iter().find(|list| list.item_type() == item)
            }
        }
    }

    /// Whether this is a vector of the catalog, which counts from 0 and is shown without braces.
    pub fn is_vector(self) -> bool {
        matches!(self, ListType::SmallIntVector | ListType::OidVector)
    }
}

impl SystemType {
    /// All of them but rows and the lists of types that users make.
    pub const ALL: [SystemType; 41] = {
        use ListType as L;
        use ObjectKind as K;
        use SystemType::{Char, JsonPath, List, Name, Object, Oid};
        [
            Oid,
            Name,
            Char,
            JsonPath,
            Object(K::Class),
            Object(K::Type),
            Object(K::Function),
            Object(K::Namespace),
            Object(K::Role),
            List(L::SmallIntVector),
            List(L::OidVector),
            List(L::Boolean),
            List(L::SmallInt),
            List(L::Integer),
            List(L::BigInt),
            List(L::DoublePrecision),
            List(L::Text),
            List(L::Name),
            List(L::Char),
            List(L::Oid),
            List(L::Real),
            List(L::Numeric),
            List(L::Varchar),
            List(L::Bpchar),
            List(L::Date),
            List(L::Timestamp),
            List(L::TimestampTz),
            List(L::Time),
            List(L::Interval),
            List(L::Bytea),
            List(L::Uuid),
            List(L::Packed(PackedType::Inet)),
            List(L::Packed(PackedType::Cidr)),
            List(L::Packed(PackedType::TimeTz)),
            List(L::Packed(PackedType::Range(RangeType::Integer))),
            List(L::Packed(PackedType::Range(RangeType::BigInt))),
            List(L::Packed(PackedType::Range(RangeType::Date))),
            List(L::Packed(PackedType::Range(RangeType::Timestamp))),
            List(L::Packed(PackedType::Range(RangeType::TimestampTz))),
            List(L::Packed(PackedType::Bit(BitLength::ANY))),
            List(L::Packed(PackedType::BITS)),
        ]
    };

    /// The name as PostgreSQL's `format_type` writes it, without a limit of items.
    pub fn name(self) -> &'static str {
        match self {
            SystemType::Oid => "oid",
            SystemType::Name => "name",
            SystemType::Char => "\"char\"",
            SystemType::JsonPath => "jsonpath",
            SystemType::Object(ObjectKind::Class) => "regclass",
            SystemType::Object(ObjectKind::Type) => "regtype",
            SystemType::Object(ObjectKind::Function) => "regproc",
            SystemType::Object(ObjectKind::Namespace) => "regnamespace",
            SystemType::Object(ObjectKind::Role) => "regrole",
            SystemType::List(ListType::SmallIntVector) => "int2vector",
            SystemType::List(ListType::OidVector) => "oidvector",
            SystemType::List(ListType::Boolean) => "boolean[]",
            SystemType::List(ListType::SmallInt) => "smallint[]",
            SystemType::List(ListType::Integer) => "integer[]",
            SystemType::List(ListType::BigInt) => "bigint[]",
            SystemType::List(ListType::DoublePrecision) => "double precision[]",
            SystemType::List(ListType::Text) => "text[]",
            SystemType::List(ListType::Name) => "name[]",
            SystemType::List(ListType::Char) => "\"char\"[]",
            SystemType::List(ListType::Oid) => "oid[]",
            SystemType::List(ListType::Real) => "real[]",
            SystemType::List(ListType::Numeric) => "numeric[]",
            SystemType::List(ListType::Varchar) => "character varying[]",
            SystemType::List(ListType::Bpchar) => "character[]",
            SystemType::List(ListType::Date) => "date[]",
            SystemType::List(ListType::Timestamp) => "timestamp without time zone[]",
            SystemType::List(ListType::TimestampTz) => "timestamp with time zone[]",
            SystemType::List(ListType::Time) => "time without time zone[]",
            SystemType::List(ListType::Interval) => "interval[]",
            SystemType::List(ListType::Bytea) => "bytea[]",
            SystemType::List(ListType::Uuid) => "uuid[]",
            SystemType::List(ListType::Packed(packed)) => packed.list_name(),
            SystemType::List(ListType::Enum(labels)) => labels.list_name(),
            SystemType::List(ListType::Row(_)) => "record[]",
            SystemType::List(list @ ListType::Limited(_)) => SystemType::List(list.unlimited()).name(),
            SystemType::Row(_) => "record",
        }
    }

    /// The type with this name.
    pub fn by_name(name: &str) -> Option<SystemType> {
        SystemType::ALL.into_iter().find(|known| known.name() == name)
    }

    /// Whether values are single texts.
    pub fn is_text(self) -> bool {
        matches!(self, SystemType::Name | SystemType::Char)
    }

    /// Whether values are numbers of objects.
    pub fn is_number(self) -> bool {
        matches!(self, SystemType::Oid | SystemType::Object(_))
    }

    /// The most bytes of a text; `None` where there is no limit.
    pub(crate) fn bytes_max(self) -> Option<usize> {
        match self {
            SystemType::Name => Some(63),
            SystemType::Char => Some(1),
            _ => None,
        }
    }
}

impl fmt::Display for SystemType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SystemType::List(ListType::Limited(limit)) => write!(f, "{}[]", limit.item_type()),
            other => f.write_str(other.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_types() {
        for known in SystemType::ALL {
            assert_eq!(SystemType::by_name(known.name()), Some(known));
        }
        assert_eq!(SystemType::by_name("money"), None);
    }
}
