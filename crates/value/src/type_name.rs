//! Names of types, with all of PostgreSQL's aliases and length modifiers.

use crate::{
    BitLength, DataType, EnumType, IntervalFields, IntervalLimit, MAX_NUMERIC_PRECISION, PackedType,
    Precision,
};
use ankerdb_base::{Error, Result, SqlState};

/// PostgreSQL's limit for the length of `char(n)` and `varchar(n)`; those of bits may be eight times as long.
const LENGTH_MAX: u32 = 10_485_760;

/// The type with this SQL name (`int4`, `integer`, `varchar`, `numeric` ...) and these modifiers, the numbers
/// in parentheses. Case, repeated blanks and the schema `pg_catalog` do not matter.
///
/// `numeric` without modifiers has any number of digits; `varchar` and `bpchar` without a length are `text`; a precision of
/// seconds beyond 6 is 6.
///
/// # Errors
/// 42704 for an unknown type, 22023 for modifiers outside of their range, 42601 for modifiers where the type
/// takes none.
pub fn type_by_name(name: &str, modifiers: &[u32]) -> Result<DataType> {
    let lower = name.split_ascii_whitespace().collect::<Vec<_>>().join(" ").to_ascii_lowercase();
    let known = match lower.strip_prefix("pg_catalog.").unwrap_or(&lower) {
        "boolean" | "bool" => DataType::Boolean,
        "smallint" | "int2" => DataType::SmallInt,
        "integer" | "int" | "int4" => DataType::Integer,
        "bigint" | "int8" => DataType::BigInt,
        "real" | "float4" => DataType::Real,
        "double precision" | "float8" => DataType::DoublePrecision,
        "float" => return float(modifiers),
        "numeric" | "decimal" | "dec" => return numeric(modifiers),
        "text" => DataType::Text,
        "varchar" | "character varying" | "char varying" => {
            return Ok(length("varchar", modifiers)?.map_or(DataType::ANY_VARCHAR, DataType::Varchar));
        }
        "char" | "character" => {
            return Ok(DataType::Char(length("char", modifiers)?.unwrap_or(1)));
        }
        "bpchar" => return Ok(length("char", modifiers)?.map_or(DataType::ANY_CHAR, DataType::Char)),
        "date" => DataType::Date,
        "timestamp" | "timestamp without time zone" => return seconds(modifiers).map(DataType::Timestamp),
        "timestamptz" | "timestamp with time zone" => return seconds(modifiers).map(DataType::TimestampTz),
        "timetz" | "time with time zone" => {
            let is_whole = matches!(seconds(modifiers)?.declared(), None | Some(6));
            let known = DataType::Packed(PackedType::TimeTz);
            return is_whole.then_some(known).ok_or_else(|| {
                let message = "a precision of a time with time zone other than 6 is not supported";
                Error::new(SqlState::FeatureNotSupported, message)
            });
        }
        "time" | "time without time zone" => return seconds(modifiers).map(DataType::Time),
        name if let Some(fields) = interval_fields(name) => return interval(fields, modifiers),
        "bytea" => DataType::Bytea,
        "uuid" => DataType::Uuid,
        "json" => DataType::Json,
        "jsonb" => DataType::Jsonb,
        "bit" => {
            let length = bits("bit", modifiers)?.unwrap_or(1);
            return Ok(DataType::Packed(PackedType::Bit(BitLength::new(length))));
        }
        "varbit" | "bit varying" => {
            let length = bits("varbit", modifiers)?.map_or(BitLength::ANY, BitLength::new);
            return Ok(DataType::Packed(PackedType::Varbit(length)));
        }
        packed if let Some(packed) = PackedType::by_name(packed) => DataType::Packed(packed),
        kept if let Some(labels) = kept_enum(kept) => DataType::Enum(labels),
        _ => {
            let message = format!("type \"{name}\" does not exist");
            return Err(Error::new(SqlState::UndefinedObject, message));
        }
    };
    if modifiers.is_empty() {
        Ok(known)
    } else {
        let message = format!("type modifier is not allowed for type \"{name}\"");
        Err(Error::new(SqlState::SyntaxError, message))
    }
}

/// How the name of a type of labels begins in texts that are kept; its number follows. It stays when the type gets another name, and
/// is written with the schema `pg_catalog`, in which nobody else makes types.
pub const KEPT_ENUM: &str = "enum_";

/// The type of labels that a text which is kept names so.
fn kept_enum(name: &str) -> Option<EnumType> {
    EnumType::by_number(name.strip_prefix(KEPT_ENUM)?.parse().ok()?)
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(SqlState::InvalidParameterValue, message.into())
}

/// The length of a `char` or `varchar`, if one is given.
fn length(name: &str, modifiers: &[u32]) -> Result<Option<u32>> {
    limited(name, modifiers, LENGTH_MAX)
}

/// The length of a `bit` or `varbit`, if one is given.
fn bits(name: &str, modifiers: &[u32]) -> Result<Option<u32>> {
    limited(name, modifiers, 8 * LENGTH_MAX)
}

fn limited(name: &str, modifiers: &[u32], most: u32) -> Result<Option<u32>> {
    match *modifiers {
        [] => Ok(None),
        [0] => Err(invalid(format!("length for type {name} must be at least 1"))),
        [length] if length > most => Err(invalid(format!("length for type {name} cannot exceed {most}"))),
        [length] => Ok(Some(length)),
        _ => Err(invalid("invalid type modifier")),
    }
}

/// The largest precision and scale of a numeric to PostgreSQL.
const MODIFIER_MAX: u32 = 1000;

fn numeric(modifiers: &[u32]) -> Result<DataType> {
    let (precision, scale) = match *modifiers {
        [] => return Ok(DataType::Number),
        [precision] => (precision, 0),
        [precision, scale] => (precision, scale),
        _ => return Err(invalid("invalid NUMERIC type modifier")),
    };
    if !(1..=MODIFIER_MAX).contains(&precision) {
        return Err(invalid(format!("NUMERIC precision {precision} must be between 1 and {MODIFIER_MAX}")));
    }
    if scale > MODIFIER_MAX {
        let message = format!("NUMERIC scale {scale} must be between -{MODIFIER_MAX} and {MODIFIER_MAX}");
        return Err(invalid(message));
    }
    if precision > u32::from(MAX_NUMERIC_PRECISION) || scale > precision {
        let message = format!("the type numeric({precision},{scale}) is not supported");
        let hint = "A numeric without a precision holds all digits.";
        return Err(Error::new(SqlState::FeatureNotSupported, message).with_hint(hint));
    }
    Ok(DataType::Numeric { precision: precision as u8, scale: scale as u8 })
}

/// `float(p)` counts binary digits: up to 24 fit a real.
fn float(modifiers: &[u32]) -> Result<DataType> {
    match *modifiers {
        [] | [25..=53] => Ok(DataType::DoublePrecision),
        [0] => Err(invalid("precision for type float must be at least 1 bit")),
        [1..=24] => Ok(DataType::Real),
        [_] => Err(invalid("precision for type float must be less than 54 bits")),
        _ => Err(invalid("invalid type modifier")),
    }
}

fn seconds(modifiers: &[u32]) -> Result<Precision> {
    match *modifiers {
        [] => Ok(Precision::NONE),
        [digits] => Ok(Precision::digits(digits)),
        _ => Err(invalid("invalid type modifier")),
    }
}

/// The fields behind `interval`.
fn interval_fields(name: &str) -> Option<IntervalFields> {
    let rest = name.strip_prefix("interval")?;
    match rest.strip_prefix(' ') {
        Some(fields) => IntervalFields::by_name(fields),
        None => rest.is_empty().then_some(IntervalFields::All),
    }
}

/// Only fields that end with seconds have a precision.
fn interval(fields: IntervalFields, modifiers: &[u32]) -> Result<DataType> {
    let has_seconds = matches!(
        fields,
        IntervalFields::All
            | IntervalFields::Second
            | IntervalFields::DayToSecond
            | IntervalFields::HourToSecond
            | IntervalFields::MinuteToSecond
    );
    if !has_seconds && !modifiers.is_empty() {
        return Err(Error::new(SqlState::SyntaxError, "syntax error at or near \"(\""));
    }
    Ok(DataType::Interval(IntervalLimit { fields, precision: seconds(modifiers)? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_mean_the_same_type() {
        for (name, modifiers, data_type) in [
            ("INT4", &[][..], DataType::Integer),
            ("pg_catalog.int8", &[], DataType::BigInt),
            ("double  precision", &[], DataType::DoublePrecision),
            ("float", &[24], DataType::Real),
            ("float", &[25], DataType::DoublePrecision),
            ("decimal", &[12, 2], DataType::Numeric { precision: 12, scale: 2 }),
            ("numeric", &[5], DataType::Numeric { precision: 5, scale: 0 }),
            ("numeric", &[], DataType::Number),
            ("character varying", &[16], DataType::Varchar(16)),
            ("varchar", &[], DataType::ANY_VARCHAR),
            ("char", &[], DataType::Char(1)),
            ("bpchar", &[9], DataType::Char(9)),
            ("timestamp with time zone", &[], DataType::TIMESTAMPTZ),
            ("timestamp", &[3], DataType::Timestamp(Precision::digits(3))),
            ("timestamp", &[7], DataType::Timestamp(Precision::digits(6))),
        ] {
            assert_eq!(type_by_name(name, modifiers), Ok(data_type), "{name}");
        }
    }

    #[test]
    fn names_of_types_are_read_back() {
        for data_type in
            [DataType::Boolean, DataType::SmallInt, DataType::TIMESTAMP, DataType::Uuid, DataType::Jsonb]
        {
            assert_eq!(type_by_name(&data_type.to_string(), &[]), Ok(data_type));
        }
    }

    #[test]
    fn unknown_names_and_bad_modifiers_are_refused() {
        assert_eq!(type_by_name("foo", &[]).unwrap_err().message(), "type \"foo\" does not exist");
        let state = |name, modifiers: &[u32]| type_by_name(name, modifiers).unwrap_err().state();
        assert_eq!(state("foo", &[]), SqlState::UndefinedObject);
        assert_eq!(state("varchar", &[0]), SqlState::InvalidParameterValue);
        assert_eq!(state("char", &[10_485_761]), SqlState::InvalidParameterValue);
        assert_eq!(state("numeric", &[39]), SqlState::FeatureNotSupported);
        assert_eq!(state("numeric", &[3, 4]), SqlState::FeatureNotSupported);
        assert_eq!(state("float", &[54]), SqlState::InvalidParameterValue);
        assert_eq!(state("integer", &[3]), SqlState::SyntaxError);
        assert_eq!(state("timestamp", &[3, 4]), SqlState::InvalidParameterValue);
        assert_eq!(state("interval year", &[3]), SqlState::SyntaxError);
        assert_eq!(state("interval month to day", &[]), SqlState::UndefinedObject);
    }
}
