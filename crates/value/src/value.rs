//! One cell outside of storage.

use crate::Decimal;

/// A value, or NULL. Its type is told by the column or expression it belongs to; `text`, `varchar` and
/// `char` share one variant, and numerics carry their own scale.
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
    /// `numeric`
    Numeric(Decimal),
    /// `text`, `varchar`, and `char` without its trailing blanks
    Text(Box<str>),
    /// `date`, days since 1970-01-01
    Date(i32),
    /// `timestamp`, microseconds since 1970-01-01 00:00
    Timestamp(i64),
    /// `timestamptz`, microseconds since 1970-01-01 00:00 UTC
    TimestampTz(i64),
    /// `bytea`
    Bytea(Box<[u8]>),
    /// `uuid`, in the order it is written
    Uuid([u8; 16]),
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
}
