//! How the values of a type lie in a file.

use ankerdb_engine::{DataType, Error, ListType, Result, SqlState, SystemType};
use ankerdb_value::MAX_NUMERIC_PRECISION;
use datafusion::arrow::datatypes::{DataType as ArrowType, Field, TimeUnit};
use parquet::basic::{ConvertedType, LogicalType, Repetition, TimeUnit as FileUnit, Type as Physical};
use parquet::errors::ParquetError;
use parquet::schema::types::Type;
use std::sync::Arc;

/// Bytes of an interval: months, days and milliseconds, each 32 bits without a sign.
pub(super) const INTERVAL_BYTES: usize = 12;
const UUID_BYTES: usize = 16;
/// The name that readers expect of a list's items.
const ITEM: &str = "element";

/// How the values of a column, or the items of its lists, lie in a file.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum ParquetKind {
    Boolean,
    SmallInt,
    Integer,
    BigInt,
    Real,
    Double,
    Decimal {
        precision: u8,
        scale: u8,
    },
    /// What clients see, where Parquet has no type of its own.
    Text,
    /// The text of a JSON document.
    Document,
    Bytes,
    Uuid,
    Date,
    Timestamp {
        in_utc: bool,
    },
    Time,
    Interval,
    List(Box<Item>),
}

/// The items of a list.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Item {
    pub list: ListType,
    pub kind: ParquetKind,
}

impl ParquetKind {
    /// # Errors
    /// 0A000 for a type that no file has.
    pub(super) fn of(data_type: DataType) -> Result<ParquetKind> {
        Ok(match data_type {
            DataType::Boolean => ParquetKind::Boolean,
            DataType::SmallInt => ParquetKind::SmallInt,
            DataType::Integer => ParquetKind::Integer,
            DataType::BigInt => ParquetKind::BigInt,
            DataType::Real => ParquetKind::Real,
            DataType::DoublePrecision => ParquetKind::Double,
            DataType::Numeric { precision, scale } => {
                ParquetKind::Decimal { precision: precision.min(MAX_NUMERIC_PRECISION), scale }
            }
            // Digits without an end, NaN and infinities: a decimal holds none of them.
            DataType::Number => ParquetKind::Text,
            DataType::Text | DataType::Varchar(_) | DataType::Char(_) => ParquetKind::Text,
            DataType::Json | DataType::Jsonb => ParquetKind::Document,
            DataType::Date => ParquetKind::Date,
            DataType::Timestamp(_) => ParquetKind::Timestamp { in_utc: false },
            DataType::TimestampTz(_) => ParquetKind::Timestamp { in_utc: true },
            DataType::Time(_) => ParquetKind::Time,
            DataType::Interval(_) => ParquetKind::Interval,
            DataType::Bytea => ParquetKind::Bytes,
            DataType::Uuid => ParquetKind::Uuid,
            DataType::Packed(_) | DataType::Enum(_) => ParquetKind::Text,
            DataType::System(SystemType::Oid) => ParquetKind::BigInt,
            DataType::System(SystemType::List(list)) if !list.is_vector() => {
                ParquetKind::List(Box::new(Item { list, kind: ParquetKind::of_item(list)? }))
            }
            DataType::System(SystemType::Row(_)) => {
                let message = "COPY of rows as values is not supported in PARQUET mode";
                return Err(Error::new(SqlState::FeatureNotSupported, message));
            }
            DataType::System(_) => ParquetKind::Text,
        })
    }

    fn of_item(list: ListType) -> Result<ParquetKind> {
        match list {
            // Each item has digits of its own.
            ListType::Numeric => Ok(ParquetKind::Text),
            list => ParquetKind::of(list.item_type()),
        }
    }

    /// The arrays that values are collected in.
    pub(super) fn arrow_type(&self) -> ArrowType {
        match self {
            ParquetKind::Boolean => ArrowType::Boolean,
            ParquetKind::SmallInt => ArrowType::Int16,
            ParquetKind::Integer => ArrowType::Int32,
            ParquetKind::BigInt => ArrowType::Int64,
            ParquetKind::Real => ArrowType::Float32,
            ParquetKind::Double => ArrowType::Float64,
            ParquetKind::Decimal { precision, scale } => ArrowType::Decimal128(*precision, *scale as i8),
            ParquetKind::Text | ParquetKind::Document => ArrowType::Utf8View,
            ParquetKind::Bytes => ArrowType::BinaryView,
            ParquetKind::Uuid => ArrowType::FixedSizeBinary(UUID_BYTES as i32),
            ParquetKind::Date => ArrowType::Date32,
            // The file's type says whether it is in UTC.
            ParquetKind::Timestamp { .. } => ArrowType::Timestamp(TimeUnit::Microsecond, None),
            ParquetKind::Time => ArrowType::Time64(TimeUnit::Microsecond),
            ParquetKind::Interval => ArrowType::FixedSizeBinary(INTERVAL_BYTES as i32),
            ParquetKind::List(item) => ArrowType::List(Arc::new(item.field())),
        }
    }

    /// The type of a column, as it is written into the file.
    pub(super) fn file_type(&self, name: &str) -> Result<Type, ParquetError> {
        let logical = |physical: Physical, logical: Option<LogicalType>| {
            Type::primitive_type_builder(name, physical)
                .with_repetition(Repetition::OPTIONAL)
                .with_logical_type(logical)
        };
        match self {
            ParquetKind::Boolean => logical(Physical::BOOLEAN, None),
            ParquetKind::SmallInt => logical(Physical::INT32, Some(LogicalType::integer(16, true))),
            ParquetKind::Integer => logical(Physical::INT32, Some(LogicalType::integer(32, true))),
            ParquetKind::BigInt => logical(Physical::INT64, Some(LogicalType::integer(64, true))),
            ParquetKind::Real => logical(Physical::FLOAT, None),
            ParquetKind::Double => logical(Physical::DOUBLE, None),
            ParquetKind::Decimal { precision, scale } => return decimal(name, *precision, *scale),
            ParquetKind::Text => logical(Physical::BYTE_ARRAY, Some(LogicalType::String)),
            ParquetKind::Document => logical(Physical::BYTE_ARRAY, Some(LogicalType::Json)),
            ParquetKind::Bytes => logical(Physical::BYTE_ARRAY, None),
            ParquetKind::Uuid => logical(Physical::FIXED_LEN_BYTE_ARRAY, Some(LogicalType::Uuid))
                .with_length(UUID_BYTES as i32),
            ParquetKind::Date => logical(Physical::INT32, Some(LogicalType::Date)),
            ParquetKind::Timestamp { in_utc } => {
                logical(Physical::INT64, Some(LogicalType::timestamp(*in_utc, FileUnit::MICROS)))
            }
            ParquetKind::Time => logical(Physical::INT64, Some(LogicalType::time(false, FileUnit::MICROS))),
            ParquetKind::Interval => logical(Physical::FIXED_LEN_BYTE_ARRAY, None)
                .with_converted_type(ConvertedType::INTERVAL)
                .with_length(INTERVAL_BYTES as i32),
            ParquetKind::List(item) => return list(name, &item.kind),
        }
        .build()
    }
}

impl Item {
    pub(super) fn field(&self) -> Field {
        Field::new(ITEM, self.kind.arrow_type(), true)
    }
}

/// The narrowest type that holds all digits.
fn decimal(name: &str, precision: u8, scale: u8) -> Result<Type, ParquetError> {
    let (physical, bytes) = match precision {
        0..=9 => (Physical::INT32, 0),
        10..=18 => (Physical::INT64, 0),
        _ => (Physical::FIXED_LEN_BYTE_ARRAY, decimal_bytes(precision)),
    };
    Type::primitive_type_builder(name, physical)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(Some(LogicalType::decimal(scale.into(), precision.into())))
        .with_precision(precision.into())
        .with_scale(scale.into())
        .with_length(bytes)
        .build()
}

/// The bytes that so many digits and a sign need.
fn decimal_bytes(precision: u8) -> i32 {
    let largest = 10_i128.pow(precision.into()) - 1;
    let bits = i128::BITS - largest.leading_zeros() + 1;
    bits.div_ceil(8) as i32
}

/// A list in three levels, as the format's description wants it.
fn list(name: &str, item: &ParquetKind) -> Result<Type, ParquetError> {
    let items = Type::group_type_builder("list")
        .with_repetition(Repetition::REPEATED)
        .with_fields(vec![Arc::new(item.file_type(ITEM)?)])
        .build()?;
    Type::group_type_builder(name)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(Some(LogicalType::List))
        .with_fields(vec![Arc::new(items)])
        .build()
}

/// Whether values of the type are written as texts, and so read from texts.
pub(super) fn is_read_from_text(data_type: DataType) -> bool {
    match data_type {
        DataType::Numeric { .. } | DataType::Uuid | DataType::Interval(_) => true,
        other => matches!(ParquetKind::of(other), Ok(ParquetKind::Text | ParquetKind::Document)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_have_the_bytes_that_readers_expect() {
        // Of the format's description: the digits that n bytes hold.
        for (bytes, digits) in [(9, 20), (10, 23), (11, 26), (12, 28), (13, 31), (14, 33), (15, 35), (16, 38)]
        {
            assert_eq!(decimal_bytes(digits), bytes);
        }
        assert_eq!((decimal_bytes(19), decimal_bytes(21)), (9, 9));
    }
}
