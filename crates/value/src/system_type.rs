//! Types of the system catalog: numbers and texts that name objects, and lists of them.
//!
//! Expressions and results have them; columns of tables cannot. Their values are those of other types: a number that names an
//! object is a [`Value::BigInt`](crate::Value), a name is a text, and a list is a text in the form `{1,2}` that clients see.

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
    /// `json`: a text, as functions write it
    Json,
    /// A number that is shown as the name of the object.
    Object(ObjectKind),
    /// A list.
    List(ListType),
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
}

impl SystemType {
    /// All of them.
    pub const ALL: [SystemType; 20] = {
        use ListType as L;
        use ObjectKind as K;
        use SystemType::{Char, Json, List, Name, Object, Oid};
        [
            Oid,
            Name,
            Char,
            Json,
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
        ]
    };

    /// The name as PostgreSQL's `format_type` writes it.
    pub fn name(self) -> &'static str {
        match self {
            SystemType::Oid => "oid",
            SystemType::Name => "name",
            SystemType::Char => "\"char\"",
            SystemType::Json => "json",
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
        f.write_str(self.name())
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
