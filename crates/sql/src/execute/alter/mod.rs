//! ALTER TABLE.
//!
//! Two ways lead to another definition (docs/design/definitions.md):
//! - where the columns stay as they are (names, defaults, constraints), the rows get another definition ([`Altering::redefine`]);
//! - else they are copied to a new table ([`copy`]). Actions that follow each other are collected and copied for at once.
//!
//! In both, others cannot commit to the table meanwhile, and what is looked at is what is committed now.

mod action;
mod constraint;
mod copy;
mod foreign_key;
mod naming;

use crate::execute::defining::Defining;
use crate::execute::view::check_readers;
use crate::name::{object_name, quoted, undefined_column_of};
use ankerdb_engine::{Catalog, Error, Result, SqlState, Table, TableDefinition};
use copy::Rewriting;
use datafusion::sql::sqlparser::ast;
pub(super) use foreign_key::add_foreign_key;
use naming::{naming, rename};
use std::sync::Arc;

/// Runs the statement. After an error the caller takes back what was done.
pub(super) fn alter(defining: &mut Defining, statement: &ast::AlterTable) -> Result<()> {
    let written = object_name(&statement.name)?;
    let catalog = defining.definitions.catalog()?;
    let Some(name) = catalog.lookup(&written) else {
        return if statement.if_exists { Ok(()) } else { catalog.table(&written).map(drop) };
    };
    if let [operation] = statement.operations.as_slice()
        && let Some(naming) = naming(operation)?
    {
        return rename(defining, &name, &naming);
    }
    let table = catalog.table(&name)?;
    if defining.transaction.has_deferred(&table) {
        let message =
            format!("cannot ALTER TABLE {} because it has pending trigger events", quoted(table.name()));
        return Err(Error::new(SqlState::ObjectInUse, message));
    }
    let mut altering = Altering { defining, table, rewriting: None };
    statement.operations.iter().try_for_each(|action| altering.act(action))?;
    altering.rewrite()?;
    check_readers(&name, defining)
}

/// A table that is being altered.
struct Altering<'a, 'd> {
    defining: &'a mut Defining<'d>,
    /// As it is by now.
    table: Arc<Table>,
    /// What it is to become, if that has not been done yet.
    rewriting: Option<Rewriting>,
}

impl Altering<'_, '_> {
    fn catalog(&mut self) -> Result<Arc<Catalog>> {
        self.defining.definitions.catalog()
    }

    /// Keeps others from committing to the table from now on.
    fn close(&mut self) -> Result<()> {
        self.defining.definitions.close(&self.table, self.defining.transaction)
    }

    /// The definition that the table has now: what is collected is done first.
    fn definition(&mut self) -> Result<TableDefinition> {
        self.rewrite()?;
        Ok(self.table.definition().clone())
    }

    /// Gives the rows, which the caller knows to fit, another definition.
    fn redefine(&mut self, definition: TableDefinition) -> Result<()> {
        let Defining { definitions, transaction, .. } = &mut *self.defining;
        self.table = definitions.redefine_table(&self.table, definition, transaction)?;
        Ok(())
    }

    /// The collected changes of columns, to which more are added.
    fn rewriting(&mut self) -> Result<&mut Rewriting> {
        if self.rewriting.is_none() {
            let catalog = self.catalog()?;
            self.rewriting = Some(Rewriting::new(&self.table, &catalog)?);
        }
        Ok(self.rewriting.as_mut().expect("made above"))
    }

    /// Does what is collected.
    fn rewrite(&mut self) -> Result<()> {
        let Some(rewriting) = self.rewriting.take() else { return Ok(()) };
        self.close()?;
        let (table, foreign_keys) = rewriting.copy(&self.table, self.defining)?;
        self.table = table;
        foreign_keys.iter().try_for_each(|clause| self.add_foreign_key(clause))
    }
}

/// The position of a column. 42703 if there is none.
fn column(definition: &TableDefinition, name: &str) -> Result<usize> {
    definition.position(name).ok_or_else(|| undefined_column_of(name, &definition.name))
}

/// 42701.
fn column_exists(name: &str, table: &str) -> Error {
    let message = format!("column \"{name}\" of relation \"{table}\" already exists");
    Error::new(SqlState::DuplicateColumn, message)
}
