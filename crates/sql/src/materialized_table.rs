//! What may be done with a table that is a materialized view.

use crate::name::quoted;
use ankerdb_engine::{Error, Result, SqlState, Table};

/// 42809 if statements cannot do this to the rows of the table: it is a materialized view.
pub(crate) fn check_changeable(table: &Table, verb: &str) -> Result<()> {
    if table.definition().materialized.is_none() {
        return Ok(());
    }
    let message = format!("cannot {verb} materialized view {}", quoted(table.name()));
    Err(Error::new(SqlState::WrongObjectType, message))
}

/// 55000 if the table is a materialized view that was never filled, or was emptied.
pub(crate) fn check_populated(table: &Table) -> Result<()> {
    if table.definition().materialized.as_ref().is_none_or(|materialized| materialized.is_populated) {
        return Ok(());
    }
    let message = format!("materialized view {} has not been populated", quoted(table.name()));
    let hint = "Use the REFRESH MATERIALIZED VIEW command.";
    Err(Error::new(SqlState::ObjectNotInPrerequisiteState, message).with_hint(hint))
}
