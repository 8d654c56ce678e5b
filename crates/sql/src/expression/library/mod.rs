//! PostgreSQL's functions that are no more than their arguments: one table for both paths.
//!
//! An [`Entry`] has a function's name, the types of its arguments and of its result, and what computes it from values. The
//! OLTP path calls that for a row, the OLAP path for each row of a batch (`olap/operation.rs`): there is no second
//! implementation. Names with several entries are told apart by PostgreSQL's rules (`resolve.rs`).
//!
//! Operators that are functions under another name (`a & b`) are here by a name that begins with `operator`
//! (`notation.rs`).

mod bins;
mod bit_strings;
mod bits;
mod bytes;
mod calendar;
mod degrees;
mod entry;
mod format;
mod identifiers;
mod interval_format;
mod json;
mod keywords;
mod long_numbers;
mod make;
mod moment_format;
mod moment_parse;
mod moment_picture;
mod networks;
mod number_format;
mod number_picture;
mod numbers;
mod periods;
mod random;
mod ranges;
mod regexp;
mod resolve;
mod rows;
mod sets;
mod text;
mod times;
mod wire_bytes;
mod zone;

pub(crate) use bit_strings::Combination;
pub(crate) use bytes::LETTERS;
pub(crate) use entry::{Entry, Volatility};
pub(crate) use json::{
    AGGREGATES, BYTES_KEY, JSON_ITEM, JSON_MEMBER, JSON_WHOLE, JSONB_KEY, MEMBER, NUMBER_KEY, ROW,
};
pub(crate) use ranges::{LOWER, UPPER};
pub(crate) use regexp::SUBSTRING;
pub(crate) use resolve::{argument_types, call, not_unique, only_result, result};
pub(crate) use rows::{ROW_OF_RELATION, ROW_VALUE, is_null, row_key, row_key_call, row_type};
pub(crate) use sets::{SetColumns, SetValues, column, columns};

use ankerdb_engine::{DataType, Interrupt, Result, Value};
use std::hash::{Hash, Hasher};

/// All functions.
const TABLES: &[&[Entry]] = &[
    bins::ENTRIES,
    bit_strings::ENTRIES,
    bits::ENTRIES,
    bytes::ENTRIES,
    degrees::ENTRIES,
    format::ENTRIES,
    identifiers::ENTRIES,
    json::access::ENTRIES,
    json::cast::ENTRIES,
    json::change::ENTRIES,
    json::make::ENTRIES,
    json::paths::ENTRIES,
    long_numbers::ENTRIES,
    make::ENTRIES,
    interval_format::ENTRIES,
    moment_format::ENTRIES,
    moment_parse::ENTRIES,
    networks::ENTRIES,
    number_format::ENTRIES,
    numbers::ENTRIES,
    periods::TIMESTAMPS,
    periods::INSTANTS,
    periods::TIMES,
    periods::ZONED_TIMES,
    random::ENTRIES,
    ranges::INTEGERS,
    ranges::BIGINTS,
    ranges::DATES,
    ranges::TIMESTAMPS,
    ranges::INSTANTS,
    regexp::ENTRIES,
    rows::ENTRIES,
    sets::ENTRIES,
    text::ENTRIES,
    times::ENTRIES,
    wire_bytes::ENTRIES,
    zone::ENTRIES,
];

/// What an operator's name begins with.
pub(crate) const OPERATOR: &str = "operator ";

/// A function of the library.
#[derive(Clone, Copy)]
pub(crate) struct Builtin(&'static Entry);

impl Builtin {
    pub(crate) fn new(entry: &'static Entry) -> Builtin {
        Builtin(entry)
    }

    /// The function of an entry whose name no other entry has.
    pub(crate) fn only(name: &str) -> Builtin {
        Builtin(named(name).next().expect("the names of our own calls are in the tables"))
    }

    pub(crate) fn name(self) -> &'static str {
        self.0.name
    }

    pub(crate) fn is_strict(self) -> bool {
        self.0.is_strict
    }

    pub(crate) fn volatility(self) -> Volatility {
        self.0.volatility
    }

    /// The values of a call that gives rows.
    ///
    /// # Errors
    /// The function's own, and XX000 for one that gives a value.
    pub(crate) fn start(self, values: &[Value], interrupt: &Interrupt) -> Result<SetValues> {
        let Some(start) = self.0.set else { return Err(entry::wrong_argument()) };
        match self.0.is_strict && values.iter().any(Value::is_null) {
            true => Ok(Box::new(std::iter::empty())),
            false => start(values, interrupt),
        }
    }

    /// Computes the function.
    ///
    /// # Errors
    /// The function's own, and the interrupt's.
    pub(crate) fn compute(self, values: &[Value], interrupt: &Interrupt) -> Result<Value> {
        if self.0.is_strict && values.iter().any(Value::is_null) {
            return Ok(Value::Null);
        }
        (self.0.compute)(values, interrupt)
    }
}

impl std::fmt::Debug for Builtin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{:?}", self.0.name, self.0.arguments)
    }
}

/// Entries are told apart by where they lie: there is one of each.
impl PartialEq for Builtin {
    fn eq(&self, other: &Builtin) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for Builtin {}

impl Hash for Builtin {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::from_ref(self.0).hash(state);
    }
}

/// All entries.
fn entries() -> impl Iterator<Item = &'static Entry> {
    static ENTRIES: &[&[Entry]] = TABLES;
    ENTRIES.iter().copied().flatten()
}

/// The entries of a name.
pub(crate) fn named(name: &str) -> impl Iterator<Item = &'static Entry> {
    entries().filter(move |entry| entry.name == name)
}

/// Whether there is a function of this name that takes so many arguments.
pub(crate) fn is_known(name: &str, arguments: usize) -> bool {
    named(name).any(|entry| entry.takes(arguments))
}

/// Whether the functions of this name give rows.
pub(crate) fn is_set(name: &str) -> bool {
    named(name).next().is_some_and(|entry| entry.set.is_some())
}

/// Types whose names are functions that cast to them.
const TYPES: [(&str, DataType); 9] = [
    ("bool", DataType::Boolean),
    ("date", DataType::Date),
    ("float4", DataType::Real),
    ("float8", DataType::DoublePrecision),
    ("int2", DataType::SmallInt),
    ("int4", DataType::Integer),
    ("int8", DataType::BigInt),
    ("text", DataType::Text),
    ("timestamptz", DataType::TIMESTAMPTZ),
];

/// The type that the function of this name casts to.
pub(crate) fn type_function(name: &str) -> Option<DataType> {
    TYPES.iter().find(|(known, _)| *known == name).map(|(_, data_type)| *data_type)
}

/// The function's name, which lives for ever.
pub(crate) fn known_name(name: &str) -> Option<&'static str> {
    let of_type = TYPES.iter().find(|(known, _)| *known == name).map(|(known, _)| *known);
    of_type.or_else(|| named(name).next().map(|entry| entry.name))
}

/// The names of all functions.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let of_types = TYPES.iter().map(|(name, _)| *name);
    let known = entries().map(|entry| entry.name).filter(|name| !name.starts_with(OPERATOR));
    // What gives several columns is a function for each.
    known.map(|name| name.split(' ').next().unwrap_or(name)).chain(of_types)
}
