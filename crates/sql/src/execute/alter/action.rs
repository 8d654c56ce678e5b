//! The actions of ALTER TABLE, one by one.

use super::foreign_key::sets_defaults;
use super::{Altering, column, column_exists};
use crate::drop_expression::drops_expression;
use crate::execute::view_columns::{check_not_read, follow_column, free_read_column};
use crate::identity_actions::identity_action;
use crate::name::{check_column_name, folded, not_supported};
use crate::plan::default::{checked, resolved};
use crate::plan::generation::users_of;
use crate::plan::{default_values, storage_option};
use crate::table_actions::table_action;
use ankerdb_engine::{
    ColumnDefinition, DataType, Error, Identity, RelationName, Result, SqlState, TableDefinition,
};
use datafusion::sql::sqlparser::ast::{self, AlterColumnOperation, AlterTableOperation, Expr};

impl Altering<'_, '_> {
    pub(super) fn act(&mut self, action: &AlterTableOperation) -> Result<()> {
        use AlterTableOperation as Action;
        match action {
            Action::AddColumn { if_not_exists, column_def, column_position: None, .. } => {
                self.add_column(column_def, *if_not_exists)
            }
            Action::DropColumn { column_names, if_exists, drop_behavior, .. } => {
                let cascade = *drop_behavior == Some(ast::DropBehavior::Cascade);
                column_names.iter().try_for_each(|name| self.drop_column(&folded(name), *if_exists, cascade))
            }
            Action::RenameColumn { old_column_name, new_column_name } => {
                self.rename_column(&folded(old_column_name), &folded(new_column_name))
            }
            Action::AlterColumn { column_name, op } => self.alter_column(&folded(column_name), op),
            Action::AddConstraint { constraint, not_valid } => self.add_constraint(constraint, !not_valid),
            Action::ValidateConstraint { name } => self.validate_constraint(&folded(name)),
            Action::DropConstraint { if_exists, name, drop_behavior } => {
                let cascade = *drop_behavior == Some(ast::DropBehavior::Cascade);
                self.drop_constraint(&folded(name), *if_exists, cascade)
            }
            Action::RenameConstraint { old_name, new_name } => match table_action(&new_name.value) {
                Some(action) => self.table_action(&folded(old_name), &action),
                None => self.rename_constraint(&folded(old_name), &folded(new_name)),
            },
            Action::SetOptionsParens { options } => options.iter().try_for_each(storage_option),
            other => Err(not_supported(&format!("ALTER TABLE ... {other}"))),
        }
    }

    fn add_column(&mut self, new: &ast::ColumnDef, if_not_exists: bool) -> Result<()> {
        let catalog = self.catalog()?;
        let rewriting = self.rewriting()?;
        let name = folded(&new.name);
        if rewriting.definition.position(&name).is_some() {
            let table = &rewriting.definition.name;
            return if if_not_exists { Ok(()) } else { Err(column_exists(&name, table)) };
        }
        rewriting.add_column(new, &catalog)
    }

    fn drop_column(&mut self, name: &str, if_exists: bool, cascade: bool) -> Result<()> {
        self.free_column(name, cascade)?;
        free_read_column(self.defining, &RelationName::of(&self.table), name, cascade)?;
        let rewriting = self.rewriting()?;
        let users = users_of(&rewriting.definition, name)?;
        if !users.is_empty() && !cascade {
            return Err(is_used(name, &rewriting.definition.name, &users));
        }
        users.iter().try_for_each(|user| self.drop_column(user, false, true))?;
        let rewriting = self.rewriting()?;
        match column(&rewriting.definition, name) {
            Err(_) if if_exists => Ok(()),
            position => rewriting.drop_column(position?),
        }
    }

    fn rename_column(&mut self, old: &str, new: &str) -> Result<()> {
        let mut definition = self.definition()?;
        let position = column(&definition, old)?;
        check_column_name(new)?;
        if definition.position(new).is_some() {
            return Err(column_exists(new, &definition.name));
        }
        definition.columns[position].name = new.to_owned();
        super::constraint::rename_in_checks(&mut definition, old, new)?;
        self.redefine(definition)?;
        follow_column(self.defining, &RelationName::of(&self.table), old, new)?;
        self.find_again()
    }

    fn alter_column(&mut self, name: &str, action: &AlterColumnOperation) -> Result<()> {
        match action {
            AlterColumnOperation::SetDefault { value } if let Some(if_exists) = drops_expression(value) => {
                self.drop_expression(name, if_exists)
            }
            AlterColumnOperation::SetDefault { value } if let Some(action) = identity_action(value) => {
                self.change_identity(name, &action)
            }
            AlterColumnOperation::SetDefault { value } => self.set_default(name, Some(value)),
            AlterColumnOperation::DropDefault => self.set_default(name, None),
            AlterColumnOperation::SetNotNull => self.set_nullable(name, false),
            AlterColumnOperation::DropNotNull => self.set_nullable(name, true),
            AlterColumnOperation::SetDataType { data_type, using, .. } => {
                let domain = crate::domains::domain(data_type);
                let data_type = crate::plan::column_type(data_type)?;
                self.set_type(name, data_type, using.as_ref())?;
                let rewriting = self.rewriting()?;
                let position = column(&rewriting.definition, name)?;
                rewriting.set_domain(position, domain);
                Ok(())
            }
            AlterColumnOperation::AddGenerated { generated_as, sequence_options } => {
                self.add_identity(name, *generated_as, sequence_options.as_deref())
            }
        }
    }

    fn set_default(&mut self, name: &str, value: Option<&Expr>) -> Result<()> {
        let mut definition = self.definition()?;
        let position = column(&definition, name)?;
        let column = &definition.columns[position];
        if column.identity.is_some() {
            return Err(is_identity(name, self.table.name()));
        }
        if column.generation.is_some() {
            let message =
                format!("column \"{name}\" of relation \"{}\" is a generated column", definition.name);
            let error = Error::new(SqlState::SyntaxError, message);
            let hint = "Use ALTER TABLE ... ALTER COLUMN ... DROP EXPRESSION instead.";
            return Err(if value.is_some() { error } else { error.with_hint(hint) });
        }
        let text = value.map(|value| checked(value, column)).transpose()?;
        let catalog = self.catalog()?;
        let text = text.map(|text| resolved(&text, definition.schema, &catalog)).transpose()?;
        let column = &mut definition.columns[position];
        column.default = text;
        if let Some(domain) = &mut column.domain {
            domain.gives_default = column.default.is_none();
            let version = crate::domains::current(domain.identity);
            column.default = column.default.take().or_else(|| version?.default.clone());
        }
        self.set_defaults_of_keys(&mut definition, position)?;
        self.redefine(definition)
    }

    /// The foreign keys over a column that give it its default.
    fn set_defaults_of_keys(&mut self, definition: &mut TableDefinition, position: usize) -> Result<()> {
        let catalog = self.catalog()?;
        let schema = catalog.schema_name(definition.schema);
        let mut keys = std::mem::take(&mut definition.foreign_keys);
        for key in &mut keys {
            if key.columns.contains(&position) && sets_defaults(key.on_delete, key.on_update) {
                key.defaults = default_values(definition, &key.columns, schema)?;
            }
        }
        definition.foreign_keys = keys;
        Ok(())
    }

    /// The column keeps its values, and takes others from now on.
    fn drop_expression(&mut self, name: &str, if_exists: bool) -> Result<()> {
        let mut definition = self.definition()?;
        let position = column(&definition, name)?;
        if definition.columns[position].generation.take().is_some() {
            return self.redefine(definition);
        }
        let message =
            format!("column \"{name}\" of relation \"{}\" is not a stored generated column", definition.name);
        match if_exists {
            true => Ok(()),
            false => Err(Error::new(SqlState::ObjectNotInPrerequisiteState, message)),
        }
    }

    fn set_nullable(&mut self, name: &str, nullable: bool) -> Result<()> {
        let catalog = self.catalog()?;
        let definition = match &self.rewriting {
            Some(rewriting) => &rewriting.definition,
            None => self.table.definition(),
        };
        let position = column(definition, name)?;
        let ColumnDefinition { nullable: before, identity, .. } = definition.columns[position];
        if before == nullable {
            return Ok(());
        }
        if nullable && identity.is_some_and(|kind| matches!(kind, Identity::Always | Identity::ByDefault)) {
            return Err(is_identity(name, self.table.name()));
        }
        let is_key = |index: &ankerdb_engine::Index| {
            index.definition().primary
                && index.definition().columns.iter().any(|&at| self.table.columns()[at].name == name)
        };
        if nullable && catalog.indexes_of(&self.table).any(|index| is_key(index)) {
            let message = format!("column \"{name}\" is in a primary key");
            return Err(Error::new(SqlState::InvalidTableDefinition, message));
        }
        self.rewriting()?.definition.columns[position].nullable = nullable;
        Ok(())
    }

    fn set_type(&mut self, name: &str, data_type: DataType, using: Option<&Expr>) -> Result<()> {
        let relation = RelationName::of(&self.table);
        check_not_read(self.defining, &relation, name)?;
        self.lift_foreign_keys(name)?;
        self.follow_identity(name, data_type)?;
        let rewriting = self.rewriting()?;
        let position = column(&rewriting.definition, name)?;
        if let [user, ..] = users_of(&rewriting.definition, name)?.as_slice() {
            let message = "cannot alter type of a column used by a generated column";
            let detail = format!("Column \"{name}\" is used by generated column \"{user}\".");
            return Err(Error::new(SqlState::FeatureNotSupported, message).with_detail(detail));
        }
        rewriting.set_type(position, data_type, using)
    }
}

/// 2BP01 for a column from which others are computed.
fn is_used(column: &str, table: &str, users: &[String]) -> Error {
    let message = format!("cannot drop column {column} of table {table} because other objects depend on it");
    let depends =
        |user: &String| format!("column {user} of table {table} depends on column {column} of table {table}");
    let detail: Vec<String> = users.iter().map(depends).collect();
    let hint = "Use DROP ... CASCADE to drop the dependent objects too.";
    let error = Error::new(SqlState::DependentObjectsStillExist, message);
    error.with_detail(detail.join("\n")).with_hint(hint)
}

/// 42601.
fn is_identity(column: &str, table: &str) -> Error {
    let message = format!("column \"{column}\" of relation \"{table}\" is an identity column");
    Error::new(SqlState::SyntaxError, message)
}
