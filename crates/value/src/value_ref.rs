//! One cell where it lies: a value that is read, not owned.

use crate::{ArrayRef, Decimal, EnumValue, Interval, PackedRef, Value};

/// A value, or NULL, that borrows its text or bytes. Results are written to clients from these, so that a text is copied
/// once, into the client's buffer. Otherwise like [`Value`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ValueRef<'a> {
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
    Number(&'a str),
    /// `text`, `varchar`, `char` without its trailing blanks, `json`, and the canonical text of a `jsonb`
    Text(&'a str),
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
    Bytea(&'a [u8]),
    /// `uuid`, in the order it is written
    Uuid([u8; 16]),
    /// a value of a packed type, such as `inet`
    Packed(PackedRef<'a>),
    /// a label of a type of labels
    Enum(EnumValue),
    /// an array
    Array(ArrayRef<'a>),
}

impl ValueRef<'_> {
    /// Whether this is NULL.
    pub fn is_null(self) -> bool {
        matches!(self, ValueRef::Null)
    }

    /// A value of its own. Allocates for text, bytea and arrays.
    pub fn to_value(self) -> Value {
        match self {
            ValueRef::Null => Value::Null,
            ValueRef::Boolean(value) => Value::Boolean(value),
            ValueRef::SmallInt(value) => Value::SmallInt(value),
            ValueRef::Integer(value) => Value::Integer(value),
            ValueRef::BigInt(value) => Value::BigInt(value),
            ValueRef::Real(value) => Value::Real(value),
            ValueRef::Double(value) => Value::Double(value),
            ValueRef::Numeric(value) => Value::Numeric(value),
            ValueRef::Number(text) => Value::Number(text.into()),
            ValueRef::Text(text) => Value::text(text),
            ValueRef::Date(days) => Value::Date(days),
            ValueRef::Timestamp(microseconds) => Value::Timestamp(microseconds),
            ValueRef::TimestampTz(microseconds) => Value::TimestampTz(microseconds),
            ValueRef::Time(microseconds) => Value::Time(microseconds),
            ValueRef::Interval(interval) => Value::Interval(interval),
            ValueRef::Bytea(bytes) => Value::Bytea(bytes.into()),
            ValueRef::Uuid(bytes) => Value::Uuid(bytes),
            ValueRef::Packed(packed) => Value::Packed(packed.to_packed()),
            ValueRef::Enum(value) => Value::Enum(value),
            ValueRef::Array(array) => Value::Array(array.to_array()),
        }
    }
}

impl<'a> From<&'a Value> for ValueRef<'a> {
    fn from(value: &'a Value) -> ValueRef<'a> {
        match value {
            Value::Null => ValueRef::Null,
            Value::Boolean(value) => ValueRef::Boolean(*value),
            Value::SmallInt(value) => ValueRef::SmallInt(*value),
            Value::Integer(value) => ValueRef::Integer(*value),
            Value::BigInt(value) => ValueRef::BigInt(*value),
            Value::Real(value) => ValueRef::Real(*value),
            Value::Double(value) => ValueRef::Double(*value),
            Value::Numeric(value) => ValueRef::Numeric(*value),
            Value::Number(text) => ValueRef::Number(text),
            Value::Text(text) => ValueRef::Text(text),
            Value::Date(days) => ValueRef::Date(*days),
            Value::Timestamp(microseconds) => ValueRef::Timestamp(*microseconds),
            Value::TimestampTz(microseconds) => ValueRef::TimestampTz(*microseconds),
            Value::Time(microseconds) => ValueRef::Time(*microseconds),
            Value::Interval(interval) => ValueRef::Interval(*interval),
            Value::Bytea(bytes) => ValueRef::Bytea(bytes),
            Value::Uuid(bytes) => ValueRef::Uuid(*bytes),
            Value::Packed(packed) => ValueRef::Packed(packed.borrow()),
            Value::Enum(value) => ValueRef::Enum(*value),
            Value::Array(array) => ValueRef::Array(array.borrow()),
        }
    }
}
