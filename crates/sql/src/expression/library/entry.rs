//! What the library knows of a function: its types, and what computes it.

use crate::expression::{Expression, Typed};
use ankerdb_engine::{DataType, Error, Interrupt, Result, SqlState, Value};

/// Computes a function of arguments that have the entry's types.
pub(crate) type Compute = fn(&[Value], &Interrupt) -> Result<Value>;

/// Any numeric, as the type of an argument.
pub(super) const NUMERIC: DataType = DataType::Numeric { precision: 38, scale: 0 };

/// One function of a name, for arguments of certain types.
pub(crate) struct Entry {
    pub name: &'static str,
    pub arguments: &'static [DataType],
    /// How many arguments of any type follow: at least, and at most.
    pub others: (usize, usize),
    /// Whether those that follow are given as documents; they are given as texts otherwise.
    pub takes_documents: bool,
    pub returns: Returns,
    /// Whether a NULL among the arguments makes the result NULL.
    pub is_strict: bool,
    pub volatility: Volatility,
    pub compute: Compute,
    /// What begins a call, if it gives rows: it is no value then.
    pub set: Option<super::sets::Start>,
}

/// When equal arguments give equal results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Volatility {
    /// Always.
    Immutable,
    /// Within a session with the same settings.
    Stable,
    /// Never.
    Volatile,
}

/// The type of a function's result.
#[derive(Clone, Copy)]
pub(crate) enum Returns {
    Always(DataType),
    /// A numeric with as many fractional digits as the arguments call for.
    Digits(fn(&[Typed]) -> u8),
    /// A row of the arguments.
    Row,
}

/// A strict and immutable function.
pub(super) const fn entry(
    name: &'static str,
    arguments: &'static [DataType],
    result: DataType,
    compute: Compute,
) -> Entry {
    let returns = Returns::Always(result);
    let volatility = Volatility::Immutable;
    Entry {
        name,
        arguments,
        others: (0, 0),
        takes_documents: false,
        returns,
        is_strict: true,
        volatility,
        compute,
        set: None,
    }
}

impl Entry {
    /// With a numeric for a result.
    pub(super) const fn digits(self, digits: fn(&[Typed]) -> u8) -> Entry {
        Entry { returns: Returns::Digits(digits), ..self }
    }

    /// With a row of its arguments for a result.
    pub(super) const fn gives_row(self) -> Entry {
        Entry { returns: Returns::Row, ..self }
    }

    /// That sees its NULLs.
    pub(super) const fn lenient(self) -> Entry {
        Entry { is_strict: false, ..self }
    }

    /// With more arguments, of any type.
    pub(super) const fn and_any(self, least: usize, most: usize) -> Entry {
        Entry { others: (least, most), ..self }
    }

    /// With more arguments, of any type, each of which it is given as a `json`.
    pub(super) const fn and_documents(self, least: usize, most: usize) -> Entry {
        Entry { others: (least, most), takes_documents: true, ..self }
    }

    /// That is not computed when the statement is planned.
    pub(super) const fn stable(self) -> Entry {
        Entry { volatility: Volatility::Stable, ..self }
    }

    /// Computed anew for each row.
    pub(super) const fn volatile(self) -> Entry {
        Entry { volatility: Volatility::Volatile, ..self }
    }
}

impl Entry {
    /// Whether it takes so many arguments.
    pub(super) fn takes(&self, count: usize) -> bool {
        let (least, most) = self.others;
        count.checked_sub(self.arguments.len()).is_some_and(|others| (least..=most).contains(&others))
    }
}

/// The text of an argument that is one.
///
/// # Errors
/// XX000 if it is none: a mistake of the caller.
pub(super) fn text(values: &[Value], position: usize) -> Result<&str> {
    match values.get(position) {
        Some(Value::Text(text)) => Ok(text),
        _ => Err(wrong_argument()),
    }
}

/// The bytes of an argument that has them.
///
/// # Errors
/// XX000 if it has none.
pub(super) fn bytes(values: &[Value], position: usize) -> Result<&[u8]> {
    match values.get(position) {
        Some(Value::Bytea(bytes)) => Ok(bytes),
        _ => Err(wrong_argument()),
    }
}

/// The integer of an argument that is one, of any width.
///
/// # Errors
/// XX000 if it is none.
pub(super) fn integer(values: &[Value], position: usize) -> Result<i64> {
    values.get(position).and_then(Value::as_integer).ok_or_else(wrong_argument)
}

/// The double of an argument that is one.
///
/// # Errors
/// XX000 if it is none.
pub(super) fn double(values: &[Value], position: usize) -> Result<f64> {
    match values.get(position) {
        Some(Value::Double(value)) => Ok(*value),
        _ => Err(wrong_argument()),
    }
}

/// The error for an argument of a type that the function does not take.
pub(super) fn wrong_argument() -> Error {
    Error::internal("a function was given an argument of a type that it does not take")
}

/// 22023
pub(super) fn invalid(message: impl Into<String>) -> Error {
    Error::new(SqlState::InvalidParameterValue, message.into())
}

/// The text of an argument that is a constant.
pub(super) fn constant_text(items: &[Typed], position: usize) -> Option<&str> {
    match &items.get(position)?.expression {
        Expression::Literal(Value::Text(text)) => Some(text),
        _ => None,
    }
}
