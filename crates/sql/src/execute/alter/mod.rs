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
mod domain;
mod foreign_key;
mod identity;
mod naming;
mod table_action;
mod view;

use crate::execute::defining::Defining;
use crate::execute::view::{check_readers, kind_of};
use crate::name::{ROLE, folded, not_supported, object_name, quoted, undefined_column_of};
use crate::table_actions::table_action;
use ankerdb_engine::{Catalog, Error, RelationName, Result, SqlState, Table, TableDefinition};
use copy::Rewriting;
use datafusion::sql::sqlparser::ast::{self, AlterTableOperation};
pub(super) use domain::found as found_domain;
pub(super) use domain::{alter_domain, create_domain, drop_domain, drop_domain_of_schema, drop_domains};
use foreign_key::Lifted;
pub(super) use foreign_key::add_foreign_key;
use naming::{check_kind, naming, rename};
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
    let operations = match statement.operations.as_slice() {
        [first, rest @ ..] if let Some(mark) = naming(first)?.filter(|naming| naming.is_mark()) => {
            check_kind(&name, &mark, &catalog)?;
            rest
        }
        all => all,
    };
    if let [AlterTableOperation::OwnerTo { new_owner }] = operations {
        return check_owner(new_owner);
    }
    if operations.iter().any(is_of_table) && !matches!(kind_of(&catalog, &name), "table") {
        return Err(not_supported("such an action of ALTER TABLE on something else than a table"));
    }
    if catalog.view(&name).is_some() {
        return view::alter_view(defining, &name, operations);
    }
    if kind_of(&catalog, &name) != "table" && kind_of(&catalog, &name) != "materialized view" {
        return catalog.table(&name).map(drop).map_err(|_| not_of_a_table(&catalog, &name, operations));
    }
    let table = catalog.table(&name)?;
    if table.definition().materialized.is_some() {
        operations.iter().try_for_each(|operation| check_materialized(&name, operation))?;
    }
    let is_naming = |action: &AlterTableOperation| {
        matches!(action, AlterTableOperation::RenameConstraint { .. }) && !is_of_table(action)
    };
    if !operations.iter().all(is_naming) {
        defining.transaction.check_none_deferred(&table, "ALTER TABLE")?;
    }
    let mut altering = Altering { defining, table, rewriting: None, lifted: Vec::new() };
    operations.iter().try_for_each(|action| altering.act(action))?;
    altering.rewrite()?;
    altering.restore_foreign_keys()?;
    check_readers(&name, defining)
}

/// The actions on things other than tables that are not there.
fn not_of_a_table(catalog: &Catalog, name: &RelationName, operations: &[AlterTableOperation]) -> Error {
    let what = operations.first().map(ToString::to_string).unwrap_or_default();
    not_supported(&format!("ALTER {} ... {what}", kind_of(catalog, name).to_uppercase()))
}

/// Whether an action stands for one of [`crate::table_actions`].
fn is_of_table(action: &AlterTableOperation) -> bool {
    matches!(action, AlterTableOperation::RenameConstraint { new_name, .. } if table_action(&new_name.value).is_some())
}

/// There is one role.
fn check_owner(owner: &ast::Owner) -> Result<()> {
    match owner {
        ast::Owner::Ident(role) if folded(role) != ROLE => {
            let message = format!("role {} does not exist", quoted(&folded(role)));
            Err(Error::new(SqlState::UndefinedObject, message))
        }
        _ => Ok(()),
    }
}

/// 42809 for what a materialized view cannot be made to do.
fn check_materialized(name: &RelationName, operation: &AlterTableOperation) -> Result<()> {
    use ast::AlterColumnOperation as Column;
    let action = match operation {
        AlterTableOperation::RenameColumn { .. } => return Ok(()),
        AlterTableOperation::AddColumn { .. } => "ADD COLUMN",
        AlterTableOperation::DropColumn { .. } => "DROP COLUMN",
        AlterTableOperation::AddConstraint { .. } => "ADD CONSTRAINT",
        AlterTableOperation::DropConstraint { .. } => "DROP CONSTRAINT",
        AlterTableOperation::AlterColumn { op, .. } => match op {
            Column::SetNotNull => "ALTER COLUMN ... SET NOT NULL",
            Column::DropNotNull => "ALTER COLUMN ... DROP NOT NULL",
            Column::SetDefault { .. } | Column::DropDefault => "ALTER COLUMN ... SET DEFAULT",
            Column::SetDataType { .. } => "ALTER COLUMN ... SET DATA TYPE",
            Column::AddGenerated { .. } => "ALTER COLUMN ... ADD IDENTITY",
        },
        other => return Err(not_supported(&format!("ALTER MATERIALIZED VIEW ... {other}"))),
    };
    let message = format!("ALTER action {action} cannot be performed on relation {}", quoted(&name.name));
    let detail = "This operation is not supported for materialized views.";
    Err(Error::new(SqlState::WrongObjectType, message).with_detail(detail))
}

/// A table that is being altered.
struct Altering<'a, 'd> {
    defining: &'a mut Defining<'d>,
    /// As it is by now.
    table: Arc<Table>,
    /// What it is to become, if that has not been done yet.
    rewriting: Option<Rewriting>,
    lifted: Vec<Lifted>,
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
