//! From SQL to Rust.

use crate::error::{Error, Result};
use ankerdb_engine::{ArrayRef, DataType, Decimal, Interval, SqlState, SystemType, Value, ValueRef};
use ankerdb_value::{Number, format_text};
use std::rc::Rc;
use std::sync::Arc;

/// A type that the cell of a row can be read as.
///
/// Nothing is rounded or cut on the way, and nothing wraps around: what does not fit is an error, see the
/// [crate's table of types](crate#types). NULL is read as `Option<T>`, or as a [`Value`].
///
/// ```
/// use ankerdb::{DataType, FromValue, Result, ValueRef};
///
/// #[derive(Debug, PartialEq)]
/// struct Cents(i64);
///
/// impl FromValue for Cents {
///     fn from_value(value: ValueRef<'_>) -> Result<Cents> {
///         i64::from_value(value).map(Cents)
///     }
///
///     fn reads(data_type: DataType) -> bool {
///         i64::reads(data_type)
///     }
/// }
///
/// assert_eq!(Cents::from_value(ValueRef::BigInt(5))?, Cents(5));
/// # Ok::<(), ankerdb::Error>(())
/// ```
pub trait FromValue: Sized {
    /// Reads a value.
    ///
    /// # Errors
    /// `DatatypeMismatch` for a value of another type, `NullValueNotAllowed` for NULL, `NumericValueOutOfRange` for a
    /// number that does not fit.
    fn from_value(value: ValueRef<'_>) -> Result<Self>;

    /// Whether values of a column of this type can be read at all, so that a [column handle](crate::Column) can be refused
    /// before the first row is read. True by default.
    fn reads(data_type: DataType) -> bool {
        let _ = data_type;
        true
    }

    /// Whether this can be NULL.
    #[doc(hidden)]
    const READS_NULL: bool = false;
}

/// The error for a value that is not what it is read as.
#[cold]
pub(crate) fn wrong_type(value: ValueRef<'_>, wanted: &str) -> Error {
    if value.is_null() {
        let error = ankerdb_engine::Error::new(
            SqlState::NullValueNotAllowed,
            format!("NULL cannot be read as {wanted}"),
        );
        return error.with_hint("Read it as an Option.").into();
    }
    let found = value.to_value().type_name();
    Error::new(SqlState::DatatypeMismatch, format!("a value of type {found} cannot be read as {wanted}"))
}

/// Integers are read from every integer type that has room for the value.
macro_rules! integers {
    ($($name:ident)*) => {
        $(impl FromValue for $name {
            #[inline]
            fn from_value(value: ValueRef<'_>) -> Result<$name> {
                let wide = match value {
                    ValueRef::SmallInt(value) => i64::from(value),
                    ValueRef::Integer(value) => i64::from(value),
                    ValueRef::BigInt(value) => value,
                    other => return Err(wrong_type(other, stringify!($name))),
                };
                $name::try_from(wide).map_err(|_| out_of_range(wide, stringify!($name)))
            }

            fn reads(data_type: DataType) -> bool {
                matches!(data_type, DataType::SmallInt | DataType::Integer | DataType::BigInt)
            }
        })*
    };
}

integers! { i8 i16 i32 i64 isize u8 u16 u32 u64 usize }

#[cold]
fn out_of_range(value: i64, wanted: &str) -> Error {
    Error::new(SqlState::NumericValueOutOfRange, format!("{value} does not fit {wanted}"))
}

/// Types that are read from some variants as they are.
macro_rules! direct {
    ($($name:ty, $types:pat, { $($variant:pat => $made:expr,)* })*) => {
        $(impl FromValue for $name {
            #[inline]
            fn from_value(value: ValueRef<'_>) -> Result<$name> {
                match value {
                    $($variant => Ok($made),)*
                    other => Err(wrong_type(other, stringify!($name))),
                }
            }

            fn reads(data_type: DataType) -> bool {
                matches!(data_type, $types)
            }
        })*
    };
}

direct! {
    bool, DataType::Boolean, {
        ValueRef::Boolean(value) => value,
    }
    f32, DataType::Real, {
        ValueRef::Real(value) => value,
    }
    f64, DataType::Real | DataType::DoublePrecision | DataType::SmallInt | DataType::Integer, {
        ValueRef::Double(value) => value,
        ValueRef::Real(value) => f64::from(value),
        ValueRef::SmallInt(value) => f64::from(value),
        ValueRef::Integer(value) => f64::from(value),
    }
    Decimal, DataType::Numeric { .. } | DataType::Number | DataType::SmallInt | DataType::Integer | DataType::BigInt, {
        ValueRef::Numeric(value) => value,
        ValueRef::Number(text) => decimal(text)?,
        ValueRef::SmallInt(value) => Decimal::from(i64::from(value)),
        ValueRef::Integer(value) => Decimal::from(i64::from(value)),
        ValueRef::BigInt(value) => Decimal::from(value),
    }
    String, DataType::Number | DataType::Text | DataType::Varchar(_) | DataType::Char(_) | DataType::Json | DataType::Jsonb | DataType::Packed(_) | DataType::Enum(_) | DataType::System(SystemType::List(_)), {
        ValueRef::Text(text) | ValueRef::Number(text) => text.to_owned(),
        ValueRef::Packed(packed) => packed.to_text(),
        ValueRef::Enum(value) => value.label().to_owned(),
        // An array of an analytical query is a text already.
        ValueRef::Array(array) => array_text(array),
    }
    Box<str>, DataType::Text | DataType::Varchar(_) | DataType::Char(_) | DataType::Json | DataType::Jsonb | DataType::Enum(_), {
        ValueRef::Text(text) => text.into(),
        ValueRef::Enum(value) => value.label().into(),
    }
    Rc<str>, DataType::Text | DataType::Varchar(_) | DataType::Char(_) | DataType::Json | DataType::Jsonb | DataType::Enum(_), {
        ValueRef::Text(text) => text.into(),
        ValueRef::Enum(value) => value.label().into(),
    }
    Arc<str>, DataType::Text | DataType::Varchar(_) | DataType::Char(_) | DataType::Json | DataType::Jsonb | DataType::Enum(_), {
        ValueRef::Text(text) => text.into(),
        ValueRef::Enum(value) => value.label().into(),
    }
    Vec<u8>, DataType::Bytea, {
        ValueRef::Bytea(bytes) => bytes.to_owned(),
    }
    Box<[u8]>, DataType::Bytea, {
        ValueRef::Bytea(bytes) => bytes.into(),
    }
    Interval, DataType::Interval(_) | DataType::Time(_), {
        ValueRef::Interval(interval) => interval,
        ValueRef::Time(microseconds) => Interval::new(0, 0, microseconds),
    }
    [u8; 16], DataType::Uuid, {
        ValueRef::Uuid(bytes) => bytes,
    }
}

/// A numeric of any length, if it has few enough digits.
fn decimal(text: &str) -> Result<Decimal> {
    Number::read(text).to_decimal().ok_or_else(|| {
        let message = format!("{text} is no number of at most 38 digits: read it as a String");
        Error::new(SqlState::NumericValueOutOfRange, message)
    })
}

fn array_text(array: ArrayRef<'_>) -> String {
    let mut text = String::new();
    format_text(ValueRef::Array(array), DataType::System(SystemType::List(array.list_type())), &mut text);
    text
}

impl FromValue for Value {
    fn from_value(value: ValueRef<'_>) -> Result<Value> {
        Ok(value.to_value())
    }

    const READS_NULL: bool = true;
}

impl<T: FromValue> FromValue for Option<T> {
    #[inline]
    fn from_value(value: ValueRef<'_>) -> Result<Option<T>> {
        if value.is_null() { Ok(None) } else { T::from_value(value).map(Some) }
    }

    fn reads(data_type: DataType) -> bool {
        T::reads(data_type)
    }

    const READS_NULL: bool = true;
}
