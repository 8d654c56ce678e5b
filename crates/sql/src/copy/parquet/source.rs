//! What a column of somebody else's file is.

use ankerdb_engine::{DataType, ListType, SystemType};
use datafusion::arrow::datatypes::{DataType as ArrowType, Field, Fields, TimeUnit};
use parquet::basic::{ConvertedType, LogicalType, Type as Physical};
use parquet::errors::ParquetError;
use parquet::schema::types::{GroupTypeBuilder, Type};
use std::sync::Arc;

const UUID_BYTES: i32 = 16;

/// What the values of a column are.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum ParquetSource {
    /// NULL, all of them.
    Nothing,
    /// Values of a type that tables have.
    Values(DataType),
    /// Months, days and milliseconds in twelve bytes.
    Interval,
    /// Bytes that a `uuid` has as many of.
    SixteenBytes,
    List(Box<ParquetSource>),
    /// What no table has.
    Other(&'static str),
}

impl ParquetSource {
    /// `file` is the column's type in the file, `arrow` that of the arrays in which it is read.
    pub(super) fn of(file: &Type, arrow: &ArrowType) -> ParquetSource {
        if let ArrowType::List(item) = arrow {
            return ParquetSource::List(Box::new(ParquetSource::of(file, item.data_type())));
        }
        let leaf = leaf(file);
        let info = leaf.get_basic_info();
        ParquetSource::Values(match arrow {
            ArrowType::Null => return ParquetSource::Nothing,
            ArrowType::Struct(_) => return ParquetSource::Other("struct"),
            ArrowType::Map(..) => return ParquetSource::Other("map"),
            ArrowType::FixedSizeBinary(_) if info.converted_type() == ConvertedType::INTERVAL => {
                return ParquetSource::Interval;
            }
            ArrowType::FixedSizeBinary(UUID_BYTES) if info.logical_type_ref() != Some(&LogicalType::Uuid) => {
                return ParquetSource::SixteenBytes;
            }
            ArrowType::FixedSizeBinary(UUID_BYTES) => DataType::Uuid,
            ArrowType::Boolean => DataType::Boolean,
            ArrowType::Int8 | ArrowType::Int16 | ArrowType::UInt8 => DataType::SmallInt,
            ArrowType::Int32 | ArrowType::UInt16 => DataType::Integer,
            ArrowType::Int64 | ArrowType::UInt32 => DataType::BigInt,
            ArrowType::UInt64 => DataType::Numeric { precision: 20, scale: 0 },
            ArrowType::Float16 | ArrowType::Float32 => DataType::Real,
            ArrowType::Float64 => DataType::DoublePrecision,
            ArrowType::Decimal128(precision, scale @ 0..) => {
                DataType::Numeric { precision: *precision, scale: *scale as u8 }
            }
            ArrowType::Decimal256(..) => DataType::Number,
            ArrowType::Utf8 => DataType::Text,
            ArrowType::Binary | ArrowType::FixedSizeBinary(_) => DataType::Bytea,
            ArrowType::Date32 => DataType::Date,
            ArrowType::Timestamp(_, None) => DataType::TIMESTAMP,
            ArrowType::Timestamp(_, Some(_)) => DataType::TIMESTAMPTZ,
            ArrowType::Time32(_) | ArrowType::Time64(_) => DataType::TIME,
            _ => return ParquetSource::Other("a type that no column of a table has"),
        })
    }

    /// What an error calls it.
    pub(super) fn name(&self) -> String {
        match self {
            ParquetSource::Nothing => "unknown".into(),
            ParquetSource::Values(data_type) => data_type.to_string(),
            ParquetSource::Interval => "interval".into(),
            ParquetSource::SixteenBytes => "bytea".into(),
            ParquetSource::List(item) => match &**item {
                ParquetSource::Values(data_type) if let Some(list) = ListType::of(*data_type) => {
                    SystemType::List(list).name().into()
                }
                item => format!("{}[]", item.name()),
            },
            ParquetSource::Other(name) => (*name).into(),
        }
    }
}

/// The type of the values of a column, in however many lists.
fn leaf(mut file: &Type) -> &Type {
    while let Type::GroupType { fields, .. } = file {
        match fields.first() {
            Some(field) => file = field,
            None => break,
        }
    }
    file
}

/// The schema as the library is to read it: it forgets the months of intervals, and takes labels for bytes.
///
/// # Errors
/// Those of a schema that is none.
pub(super) fn readable(file: &Type) -> Result<Type, ParquetError> {
    let info = file.get_basic_info();
    match file {
        Type::PrimitiveType { physical_type: Physical::FIXED_LEN_BYTE_ARRAY, type_length, .. }
            if info.converted_type() == ConvertedType::INTERVAL =>
        {
            Type::primitive_type_builder(file.name(), Physical::FIXED_LEN_BYTE_ARRAY)
                .with_repetition(info.repetition())
                .with_length(*type_length)
                .build()
        }
        Type::PrimitiveType { physical_type: Physical::BYTE_ARRAY, .. }
            if info.converted_type() == ConvertedType::ENUM =>
        {
            Type::primitive_type_builder(file.name(), Physical::BYTE_ARRAY)
                .with_repetition(info.repetition())
                .with_logical_type(Some(LogicalType::String))
                .build()
        }
        Type::PrimitiveType { .. } => Ok(file.clone()),
        Type::GroupType { fields, .. } => {
            let fields = fields.iter().map(|field| readable(field).map(Arc::new));
            let group = Type::group_type_builder(file.name()).with_fields(fields.collect::<Result<_, _>>()?);
            let group: GroupTypeBuilder<'_> = match info.has_repetition() {
                true => group.with_repetition(info.repetition()),
                false => group,
            };
            group
                .with_logical_type(info.logical_type_ref().cloned())
                .with_converted_type(info.converted_type())
                .build()
        }
    }
}

/// Whether the values are moments in the 96 bits that old programs write.
pub(super) fn has_old_moments(file: &Type) -> bool {
    match file {
        Type::PrimitiveType { physical_type, .. } => *physical_type == Physical::INT96,
        Type::GroupType { fields, .. } => fields.iter().any(|field| has_old_moments(field)),
    }
}

/// The fields with moments in microseconds where they would be in nanoseconds without a zone: 64 bits of those are 584 years.
pub(super) fn in_microseconds(fields: &Fields) -> Fields {
    fields.iter().map(|field| Arc::new(field_in_microseconds(field))).collect()
}

fn field_in_microseconds(field: &Field) -> Field {
    let data_type = match field.data_type() {
        ArrowType::Timestamp(TimeUnit::Nanosecond, None) => ArrowType::Timestamp(TimeUnit::Microsecond, None),
        ArrowType::List(item) => ArrowType::List(Arc::new(field_in_microseconds(item))),
        other => other.clone(),
    };
    field.clone().with_data_type(data_type)
}
