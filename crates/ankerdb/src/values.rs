//! Several values at once: a row to insert, a key, the changes of an update, the parameters of a statement.

use crate::column::{Column, ColumnPlace};
use crate::error::{Error, Result};
use crate::value::ToValue;
use ankerdb_engine::{SqlState, ValueRef};

/// Several values, in order or by name: a row, a key, changes, parameters.
///
/// | what | example |
/// | --- | --- |
/// | none | `()` |
/// | one | `1` |
/// | of several types | `(1, "Ann", Some(2.5))`, up to 16 |
/// | of one type | `[1, 2, 3]`, `&[1, 2][..]`, `vec![1, 2]` |
/// | of any number and type | `&[&1 as &dyn ToValue, &"Ann"][..]` |
/// | by name | [`named!`](crate::named)` { id: 1, owner: "Ann" }`, `[("id", 1), ("balance", 5)]` |
/// | by column handle | `[(balance, 5)]` |
///
/// Types of your own can implement it: a struct that is a row of a table, say.
///
/// ```
/// use ankerdb::{Result, Target, ToValue, ValueRef, Values};
///
/// struct Account {
///     id: i32,
///     balance: i64,
/// }
///
/// impl Values for Account {
///     fn count(&self) -> usize {
///         2
///     }
///
///     fn value(&self, position: usize) -> Result<ValueRef<'_>> {
///         if position == 0 { self.id.to_value() } else { self.balance.to_value() }
///     }
///
///     fn target(&self, position: usize) -> Target<'_> {
///         Target::Name(if position == 0 { "id" } else { "balance" })
///     }
/// }
/// ```
pub trait Values {
    /// How many there are.
    fn count(&self) -> usize;

    /// The value at a position below [`count`](Self::count).
    ///
    /// # Errors
    /// Those of [`ToValue::to_value`].
    fn value(&self, position: usize) -> Result<ValueRef<'_>>;

    /// The target of the value at a position. All targets of a list are of one kind.
    #[inline]
    fn target(&self, position: usize) -> Target<'_> {
        let _ = position;
        Target::InOrder
    }
}

/// The target of one of several values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Target<'a> {
    /// The column, key part or parameter at the same position.
    InOrder,
    /// The column or parameter of this name.
    Name(&'a str),
    /// The column of a [handle](Column), of which only handles tell.
    Column(ColumnPlace),
}

/// The error for a position out of bounds.
#[cold]
fn beyond(position: usize) -> Error {
    Error::new(SqlState::InternalError, format!("there is no value {position}"))
}

impl<T: ToValue> Values for T {
    #[inline]
    fn count(&self) -> usize {
        1
    }

    #[inline]
    fn value(&self, position: usize) -> Result<ValueRef<'_>> {
        if position == 0 { self.to_value() } else { Err(beyond(position)) }
    }
}

impl Values for () {
    fn count(&self) -> usize {
        0
    }

    fn value(&self, position: usize) -> Result<ValueRef<'_>> {
        Err(beyond(position))
    }
}

macro_rules! tuples {
    ($($count:literal: $($name:ident $position:tt)*;)*) => {
        $(impl<$($name: ToValue),*> Values for ($($name,)*) {
            #[inline]
            fn count(&self) -> usize {
                $count
            }

            #[inline]
            fn value(&self, position: usize) -> Result<ValueRef<'_>> {
                match position {
                    $($position => self.$position.to_value(),)*
                    _ => Err(beyond(position)),
                }
            }
        })*
    };
}

tuples! {
    1: A 0;
    2: A 0 B 1;
    3: A 0 B 1 C 2;
    4: A 0 B 1 C 2 D 3;
    5: A 0 B 1 C 2 D 3 E 4;
    6: A 0 B 1 C 2 D 3 E 4 F 5;
    7: A 0 B 1 C 2 D 3 E 4 F 5 G 6;
    8: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7;
    9: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8;
    10: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9;
    11: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10;
    12: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11;
    13: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11 M 12;
    14: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11 M 12 N 13;
    15: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11 M 12 N 13 O 14;
    16: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11 M 12 N 13 O 14 P 15;
}

/// One item of a list: a value, or a value with its target.
mod item {
    use super::{ColumnName, Target};
    use crate::error::Result;
    use crate::value::ToValue;
    use ankerdb_engine::ValueRef;

    pub trait Item {
        fn item_value(&self) -> Result<ValueRef<'_>>;
        fn item_target(&self) -> Target<'_>;
    }

    impl<T: ToValue> Item for T {
        #[inline]
        fn item_value(&self) -> Result<ValueRef<'_>> {
            self.to_value()
        }

        #[inline]
        fn item_target(&self) -> Target<'_> {
            Target::InOrder
        }
    }

    impl<N: ColumnName, T: ToValue> Item for (N, T) {
        #[inline]
        fn item_value(&self) -> Result<ValueRef<'_>> {
            self.1.to_value()
        }

        #[inline]
        fn item_target(&self) -> Target<'_> {
            self.0.target()
        }
    }
}

use item::Item;

/// What names a column in a list of changes: a text, or a [`Column`] handle.
pub trait ColumnName {
    /// What it names.
    fn target(&self) -> Target<'_>;
}

impl ColumnName for &str {
    fn target(&self) -> Target<'_> {
        Target::Name(self)
    }
}

impl ColumnName for String {
    fn target(&self) -> Target<'_> {
        Target::Name(self)
    }
}

impl<T> ColumnName for Column<T> {
    #[inline]
    fn target(&self) -> Target<'_> {
        Target::Column(self.place())
    }
}

macro_rules! lists {
    ($($list:ty $(, $count:ident)?;)*) => {
        $(impl<I: Item $(, const $count: usize)?> Values for $list {
            #[inline]
            fn count(&self) -> usize {
                self.len()
            }

            #[inline]
            fn value(&self, position: usize) -> Result<ValueRef<'_>> {
                self.get(position).ok_or_else(|| beyond(position))?.item_value()
            }

            #[inline]
            fn target(&self, position: usize) -> Target<'_> {
                self.get(position).map_or(Target::InOrder, Item::item_target)
            }
        })*
    };
}

lists! {
    [I; N], N;
    &[I; N], N;
    &[I];
    Vec<I>;
    &Vec<I>;
}

/// Values with names: `named! { id: 1, owner: "Ann" }`, for rows, changes and parameters (`$id`, `$owner`).
///
/// ```
/// use ankerdb::{Database, named};
///
/// let db = Database::in_memory()?;
/// # #[cfg(feature = "sql")] {
/// db.execute("CREATE TABLE account (id int PRIMARY KEY, owner text)", ())?;
/// db.execute("INSERT INTO account VALUES ($id, $owner)", named! { id: 1, owner: "Ann" })?;
/// let owner: String = db.query_one("SELECT owner FROM account WHERE id = $id", named! { id: 1 })?.get(0)?;
/// assert_eq!(owner, "Ann");
/// # }
/// # Ok::<(), ankerdb::Error>(())
/// ```
#[macro_export]
macro_rules! named {
    ($($name:ident : $value:expr),* $(,)?) => {
        [$((::core::stringify!($name), &$value as &dyn $crate::ToValue)),*]
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(values: impl Values) -> Vec<String> {
        (0..values.count())
            .map(|position| format!("{:?} {:?}", values.target(position), values.value(position).unwrap()))
            .collect()
    }

    #[test]
    fn lists_of_every_form_are_read() {
        assert!(shown(()).is_empty());
        assert_eq!(shown(1), ["InOrder Integer(1)"]);
        assert_eq!(shown((1, "a")), ["InOrder Integer(1)", "InOrder Text(\"a\")"]);
        assert_eq!(shown([1_i64]), ["InOrder BigInt(1)"]);
        assert_eq!(shown(&[Some(1_i16), None][..]), ["InOrder SmallInt(1)", "InOrder Null"]);
        assert_eq!(shown(vec![true]), ["InOrder Boolean(true)"]);
        assert_eq!(shown(&[&1 as &dyn ToValue, &"a"][..]), ["InOrder Integer(1)", "InOrder Text(\"a\")"]);
        assert_eq!(shown([("a", 1)]), ["Name(\"a\") Integer(1)"]);
        assert_eq!(shown(named! { a: 1, b: "x" }), ["Name(\"a\") Integer(1)", "Name(\"b\") Text(\"x\")"]);
        assert_eq!(shown(&b"ab"[..]), ["InOrder Bytea([97, 98])"]);
    }

    #[test]
    fn a_position_that_is_not_there_is_an_error() {
        assert!(
            (1, 2).value(2).is_err() && [1].value(1).is_err() && ().value(0).is_err() && 5.value(1).is_err()
        );
    }
}
