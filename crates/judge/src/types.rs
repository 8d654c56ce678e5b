//! The types of columns and expressions that statements are made of.

/// Types of columns and expressions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Type {
    Bool,
    SmallInt,
    Int,
    BigInt,
    Real,
    Double,
    Numeric,
    Text,
    Varchar,
    Char,
    Date,
    Timestamp,
    TimestampTz,
    Time,
    Interval,
    Bytea,
    Uuid,
}

use Type::*;

/// All of them.
pub const TYPES: [Type; 17] = [
    Bool,
    SmallInt,
    Int,
    BigInt,
    Real,
    Double,
    Numeric,
    Text,
    Varchar,
    Char,
    Date,
    Timestamp,
    TimestampTz,
    Time,
    Interval,
    Bytea,
    Uuid,
];

impl Type {
    /// In a column's definition.
    pub fn declared(self) -> &'static str {
        match self {
            Numeric => "numeric(12,2)",
            Varchar => "varchar(8)",
            Char => "char(4)",
            other => other.name(),
        }
    }

    /// In a cast.
    pub fn name(self) -> &'static str {
        match self {
            Bool => "boolean",
            SmallInt => "smallint",
            Int => "integer",
            BigInt => "bigint",
            Real => "real",
            Double => "double precision",
            Numeric => "numeric",
            Text => "text",
            Varchar => "varchar",
            Char => "char(4)",
            Date => "date",
            Timestamp => "timestamp",
            TimestampTz => "timestamptz",
            Time => "time",
            Interval => "interval",
            Bytea => "bytea",
            Uuid => "uuid",
        }
    }

    /// Integers.
    pub fn is_integer(self) -> bool {
        matches!(self, SmallInt | Int | BigInt)
    }

    /// Numbers.
    pub fn is_number(self) -> bool {
        self.is_integer() || matches!(self, Real | Double | Numeric)
    }

    /// Texts.
    pub fn is_text(self) -> bool {
        matches!(self, Text | Varchar | Char)
    }

    /// A value in text form that every column of the type takes.
    pub fn sample(self) -> &'static str {
        match self {
            Date => "2024-02-29",
            Timestamp => "2024-02-29 12:30:00",
            TimestampTz => "2024-02-29 12:30:00+00",
            Time => "12:30:00",
            Uuid => "01234567-89ab-cdef-0123-456789abcdef",
            Bytea => "\\x61",
            Varchar | Char => "a",
            _ => "1",
        }
    }
}

/// As a literal in quotes.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
