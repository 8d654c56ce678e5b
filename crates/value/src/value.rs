//! One cell outside of storage.

use crate::{Array, Decimal, EnumValue, Interval, Number, Packed};

/// A value, or NULL. Its type is told by the column or expression it belongs to; `text`, `varchar`, `char`, `json` and
/// `jsonb` share one variant, and numerics carry their own scale. A numeric is a [`Value::Number`] in columns without a precision, and
/// wherever it may have more digits than a [`Decimal`].
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// NULL of any type.
    Null,
    /// `boolean`
    Boolean(bool),
    /// `smallint`
    SmallInt(i16),
    /// `integer`
    Integer(i32),
    /// `bigint`
    BigInt(i64),
    /// `real`
    Real(f32),
    /// `double precision`
    Double(f64),
    /// `numeric(p, s)`
    Numeric(Decimal),
    /// `numeric` of any length, as its canonical text (see [`Number`](crate::Number))
    Number(Box<str>),
    /// `text`, `varchar`, `char` without its trailing blanks, `json`, and the canonical text of a `jsonb`
    Text(Box<str>),
    /// `date`, days since 1970-01-01
    Date(i32),
    /// `timestamp`, microseconds since 1970-01-01 00:00
    Timestamp(i64),
    /// `timestamptz`, microseconds since 1970-01-01 00:00 UTC
    TimestampTz(i64),
    /// `time`, microseconds since midnight
    Time(i64),
    /// `interval`
    Interval(Interval),
    /// `bytea`
    Bytea(Box<[u8]>),
    /// `uuid`, in the order it is written
    Uuid([u8; 16]),
    /// a value of a packed type, such as `inet`
    Packed(Packed),
    /// a label of a type of labels
    Enum(EnumValue),
    /// an array
    Array(Array),
}

impl Value {
    /// Whether this is NULL.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// Text from anything like a string.
    pub fn text(text: impl Into<Box<str>>) -> Value {
        Value::Text(text.into())
    }

    /// A numeric of any length.
    pub fn number(number: &Number) -> Value {
        Value::Number(number.to_string().into())
    }

    /// The name of the value's type as error messages show it, without modifiers; `unknown` for NULL.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Null => "unknown",
            Value::Boolean(_) => "boolean",
            Value::SmallInt(_) => "smallint",
            Value::Integer(_) => "integer",
            Value::BigInt(_) => "bigint",
            Value::Real(_) => "real",
            Value::Double(_) => "double precision",
            Value::Numeric(_) | Value::Number(_) => "numeric",
            Value::Text(_) => "text",
            Value::Date(_) => "date",
            Value::Timestamp(_) => "timestamp without time zone",
            Value::TimestampTz(_) => "timestamp with time zone",
            Value::Time(_) => "time without time zone",
            Value::Interval(_) => "interval",
            Value::Bytea(_) => "bytea",
            Value::Uuid(_) => "uuid",
            Value::Packed(packed) => packed.packed_type().name(),
            Value::Enum(value) => value.enum_type.name(),
            Value::Array(array) => array.borrow().type_name(),
        }
    }

    /// Whether this is a number of any type.
    pub fn is_number(&self) -> bool {
        let is_other =
            matches!(self, Value::Numeric(_) | Value::Number(_) | Value::Real(_) | Value::Double(_));
        is_other || self.as_integer().is_some()
    }

    /// The value of a smallint, integer or bigint.
    pub fn as_integer(&self) -> Option<i64> {
        match self {
            Value::SmallInt(value) => Some(i64::from(*value)),
            Value::Integer(value) => Some(i64::from(*value)),
            Value::BigInt(value) => Some(*value),
            _ => None,
        }
    }

    /// Whether this can be added to a date: a smallint, an integer or NULL.
    pub(crate) fn is_day_count(&self) -> bool {
        matches!(self, Value::SmallInt(_) | Value::Integer(_) | Value::Null)
    }
}
