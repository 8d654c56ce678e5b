//! From Rust to SQL.

use crate::error::{Error, Result};
use ankerdb_engine::{Decimal, Interval, SqlState, Value, ValueRef};
use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

/// A type that can be stored in a column, be part of a key, or be a parameter of a statement.
///
/// Nothing is copied or allocated on the way. The value need not have the column's own type: it is converted if
/// nothing is lost by it, see the [crate's table of types](crate#types).
///
/// ```
/// use ankerdb::{Result, ToValue, ValueRef};
///
/// struct Cents(i64);
///
/// impl ToValue for Cents {
///     fn to_value(&self) -> Result<ValueRef<'_>> {
///         Ok(ValueRef::BigInt(self.0))
///     }
/// }
///
/// let db = ankerdb::Database::in_memory()?;
/// # #[cfg(feature = "sql")] {
/// db.execute("CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL)", ())?;
/// db.execute("INSERT INTO account VALUES ($1, $2)", (1, Cents(100)))?;
/// # }
/// # Ok::<(), ankerdb::Error>(())
/// ```
pub trait ToValue {
    /// The value in SQL's terms.
    ///
    /// # Errors
    /// `NumericValueOutOfRange` or another error if SQL has no such value: a `u64` above 2⁶³, say.
    fn to_value(&self) -> Result<ValueRef<'_>>;
}

impl<T: ToValue + ?Sized> ToValue for &T {
    #[inline]
    fn to_value(&self) -> Result<ValueRef<'_>> {
        (**self).to_value()
    }
}

/// Types whose values are another type's or a variant's.
macro_rules! direct {
    ($($(#[$doc:meta])* $name:ty => |$value:ident| $made:expr;)*) => {
        $($(#[$doc])* impl ToValue for $name {
            #[inline]
            fn to_value(&self) -> Result<ValueRef<'_>> {
                let $value = self;
                Ok($made)
            }
        })*
    };
}

direct! {
    bool => |value| ValueRef::Boolean(*value);
    i8 => |value| ValueRef::SmallInt(i16::from(*value));
    i16 => |value| ValueRef::SmallInt(*value);
    i32 => |value| ValueRef::Integer(*value);
    i64 => |value| ValueRef::BigInt(*value);
    u16 => |value| ValueRef::Integer(i32::from(*value));
    u32 => |value| ValueRef::BigInt(i64::from(*value));
    f32 => |value| ValueRef::Real(*value);
    f64 => |value| ValueRef::Double(*value);
    Decimal => |value| ValueRef::Numeric(*value);
    Interval => |value| ValueRef::Interval(*value);
    str => |value| ValueRef::Text(value);
    String => |value| ValueRef::Text(value);
    [u8] => |value| ValueRef::Bytea(value);
    Vec<u8> => |value| ValueRef::Bytea(value);
    Value => |value| ValueRef::from(value);
    ValueRef<'_> => |value| *value;
}

/// Integers that do not all fit 64 bits with a sign.
macro_rules! large {
    ($($name:ty)*) => {
        $(impl ToValue for $name {
            #[inline]
            fn to_value(&self) -> Result<ValueRef<'_>> {
                let fits = i64::try_from(*self).map(ValueRef::BigInt);
                fits.map_err(|_| Error::new(SqlState::NumericValueOutOfRange, "bigint out of range"))
            }
        })*
    };
}

large! { u64 usize isize }

impl<T: ToValue> ToValue for Option<T> {
    #[inline]
    fn to_value(&self) -> Result<ValueRef<'_>> {
        self.as_ref().map_or(Ok(ValueRef::Null), T::to_value)
    }
}

/// Owners of a value that is not sized: strings and bytes.
macro_rules! owners {
    ($($name:ident)*) => {
        $(impl<T: ToValue + ?Sized> ToValue for $name<T> {
            #[inline]
            fn to_value(&self) -> Result<ValueRef<'_>> {
                (**self).to_value()
            }
        })*
    };
}

owners! { Box Rc Arc }

impl<T: ToValue + ToOwned + ?Sized> ToValue for Cow<'_, T> {
    #[inline]
    fn to_value(&self) -> Result<ValueRef<'_>> {
        (**self).to_value()
    }
}
