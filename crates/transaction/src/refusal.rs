//! What transactions fail with, in PostgreSQL's words.

use ankerdb_base::{Error, SqlState};
use ankerdb_table::{Index, Table};
use ankerdb_value::{Value, format_text};

/// 40001: another transaction has changed what this one was going to write to.
pub(crate) fn concurrent_update() -> Error {
    Error::serialization("could not serialize access due to concurrent update")
}

/// 40001: what was read has changed meanwhile.
pub(crate) fn dependencies() -> Error {
    Error::serialization("could not serialize access due to read/write dependencies among transactions")
}

/// 40001: the table's definition is not, or will not be, the one that the transaction has worked by.
#[cold]
pub(crate) fn redefined(table: &Table) -> Error {
    let message =
        format!("could not serialize access due to a concurrent change of table \"{}\"", table.name());
    Error::new(SqlState::SerializationFailure, message)
}

/// 42P01: the table was dropped, or has another definition by now.
#[cold]
pub(crate) fn gone(table: &Table) -> Error {
    Error::new(SqlState::UndefinedTable, format!("relation \"{}\" does not exist", table.name()))
}

/// 23505: another row has the key.
pub(crate) fn duplicate_key(table: &Table, index: &Index, value: &dyn Fn(usize) -> Value) -> Error {
    let definition = index.definition();
    let message = format!("duplicate key value violates unique constraint \"{}\"", definition.name);
    let name = |column: usize| table.columns()[column].name.clone();
    let (names, key): (Vec<String>, Vec<Value>) = match index.derivation() {
        None => definition.columns.iter().map(|&column| (name(column), value(column))).unzip(),
        Some(derivation) => {
            let key = derivation.function.key(value).ok().flatten().unwrap_or_default();
            (derivation.parts.iter().map(|part| part.with_names(name)).collect(), key)
        }
    };
    let shown = |(part, value): (usize, &Value)| {
        let mut text = String::from(if value.is_null() { "null" } else { "" });
        format_text(value, index.part_type(part), &mut text);
        text
    };
    let values: Vec<String> = key.iter().enumerate().map(shown).collect();
    let detail = format!("Key ({})=({}) already exists.", names.join(", "), values.join(", "));
    Error::new(SqlState::UniqueViolation, message)
        .with_detail(detail)
        .with_table(table.schema(), table.name())
        .with_constraint(&definition.name)
}

/// 55P03: a row was waited for for too long.
#[cold]
pub(crate) fn lock_timed_out() -> Error {
    Error::new(SqlState::LockNotAvailable, "canceling statement due to lock timeout")
}
