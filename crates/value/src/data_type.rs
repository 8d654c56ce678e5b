//! What a column can be declared as.

use crate::{EnumType, IntervalLimit, PackedType, Precision, SystemType};
use std::fmt;

/// The most digits a numeric of declared digits can have: those of a 128-bit integer.
pub const MAX_NUMERIC_PRECISION: u8 = 38;

/// Width of the narrowest integer that holds every number of that many digits: 32, 64 or 128 bits.
pub const fn numeric_storage_bits(precision: u8) -> u32 {
    match precision {
        0..=9 => 32,
        10..=18 => 64,
        _ => 128,
    }
}

/// The type of a column, parameter or expression.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DataType {
    /// `boolean`
    Boolean,
    /// `smallint`, 16 bits
    SmallInt,
    /// `integer`, 32 bits
    Integer,
    /// `bigint`, 64 bits
    BigInt,
    /// `real`, 32-bit IEEE 754
    Real,
    /// `double precision`, 64-bit IEEE 754
    DoublePrecision,
    /// `numeric(precision, scale)`: an integer of at most `precision` digits, `scale` of them fractional
    Numeric {
        /// Total digits, 1 to 38.
        precision: u8,
        /// Fractional digits, 0 to `precision`.
        scale: u8,
    },
    /// `numeric` without a precision: a number of any length, NaN or an infinity (see [`Number`](crate::Number))
    Number,
    /// `text`
    Text,
    /// `varchar(n)`: at most n characters; without a length it is [`ANY_VARCHAR`](DataType::ANY_VARCHAR)
    Varchar(u32),
    /// `char(n)`: n characters; stored without trailing blanks, shown with them
    Char(u32),
    /// `date`: days since 1970-01-01
    Date,
    /// `timestamp`: microseconds since 1970-01-01 00:00
    Timestamp(Precision),
    /// `timestamptz`: microseconds since 1970-01-01 00:00 UTC
    TimestampTz(Precision),
    /// `time`: microseconds since midnight, at most those of a day
    Time(Precision),
    /// `interval`: months, days and microseconds
    Interval(IntervalLimit),
    /// `bytea`
    Bytea,
    /// `uuid`
    Uuid,
    /// `json`: the text of a document, as it was given
    Json,
    /// `jsonb`: the canonical text of a document (see [`json`](crate::json))
    Jsonb,
    /// A type whose values are ordered bytes, such as `inet`
    Packed(PackedType),
    /// A type whose values are labels
    Enum(EnumType),
    /// A type of the system catalog, which columns of tables cannot have.
    System(SystemType),
}

impl DataType {
    /// `varchar` without a length. (No text has as many characters.)
    pub const ANY_VARCHAR: DataType = DataType::Varchar(u32::MAX);
    /// `bpchar`: a `char` without a length, and so without blanks that fill it up. Unlike PostgreSQL's, its texts lose those that
    /// they were given, which no comparison sees.
    pub const ANY_CHAR: DataType = DataType::Char(u32::MAX);
    /// `timestamp` without a precision
    pub const TIMESTAMP: DataType = DataType::Timestamp(Precision::NONE);
    /// `timestamptz` without a precision
    pub const TIMESTAMPTZ: DataType = DataType::TimestampTz(Precision::NONE);
    /// `time` without a precision
    pub const TIME: DataType = DataType::Time(Precision::NONE);
    /// `interval` of all fields, without a precision
    pub const INTERVAL: DataType = DataType::Interval(IntervalLimit::NONE);

    /// The type, of times and intervals without a precision, of bits without a length, of arrays without a limit of their items;
    /// others are as they are.
    pub fn of_any_precision(self) -> DataType {
        match self {
            DataType::Timestamp(_) => DataType::TIMESTAMP,
            DataType::TimestampTz(_) => DataType::TIMESTAMPTZ,
            DataType::Time(_) => DataType::TIME,
            DataType::Interval(_) => DataType::INTERVAL,
            DataType::Packed(packed) => DataType::Packed(packed.of_any_length()),
            other => other.without_item_limit(),
        }
    }

    /// Whether values are strings of characters.
    pub fn is_text(self) -> bool {
        match self {
            DataType::Text | DataType::Varchar(_) | DataType::Char(_) => true,
            DataType::System(system) => system.is_text(),
            _ => false,
        }
    }

    /// Whether values are documents.
    pub fn is_document(self) -> bool {
        matches!(self, DataType::Json | DataType::Jsonb)
    }

    /// Whether values are exact numbers: integers and numerics.
    pub fn is_exact(self) -> bool {
        self.is_numeric() && !matches!(self, DataType::Real | DataType::DoublePrecision)
    }

    /// Whether values are numbers.
    pub fn is_numeric(self) -> bool {
        matches!(
            self,
            DataType::SmallInt
                | DataType::Integer
                | DataType::BigInt
                | DataType::Real
                | DataType::DoublePrecision
                | DataType::Numeric { .. }
                | DataType::Number
        )
    }
}

/// Types are copied everywhere.
const _: () = assert!(size_of::<DataType>() == 8);

/// The name as PostgreSQL's `format_type` writes it.
impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DataType::Boolean => f.write_str("boolean"),
            DataType::SmallInt => f.write_str("smallint"),
            DataType::Integer => f.write_str("integer"),
            DataType::BigInt => f.write_str("bigint"),
            DataType::Real => f.write_str("real"),
            DataType::DoublePrecision => f.write_str("double precision"),
            DataType::Number => f.write_str("numeric"),
            DataType::Numeric { precision, scale } => write!(f, "numeric({precision},{scale})"),
            DataType::Text => f.write_str("text"),
            DataType::Varchar(u32::MAX) => f.write_str("character varying"),
            DataType::Varchar(length) => write!(f, "character varying({length})"),
            DataType::Char(u32::MAX) => f.write_str("character"),
            DataType::Char(length) => write!(f, "character({length})"),
            DataType::Date => f.write_str("date"),
            DataType::Timestamp(precision) => write!(f, "timestamp{precision} without time zone"),
            DataType::TimestampTz(precision) => write!(f, "timestamp{precision} with time zone"),
            DataType::Time(precision) => write!(f, "time{precision} without time zone"),
            DataType::Interval(limit) => write!(f, "interval{limit}"),
            DataType::Bytea => f.write_str("bytea"),
            DataType::Uuid => f.write_str("uuid"),
            DataType::Json => f.write_str("json"),
            DataType::Jsonb => f.write_str("jsonb"),
            DataType::Packed(packed) => write!(f, "{packed}"),
            DataType::Enum(labels) => f.write_str(labels.name()),
            DataType::System(system) => write!(f, "{system}"),
        }
    }
}
