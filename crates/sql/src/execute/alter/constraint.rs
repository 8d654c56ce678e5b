//! Constraints that come, go, or are renamed.

use super::copy::visit_rows;
use super::{Altering, column};
use crate::execute::defining::numbered;
use crate::execute::view_columns::free_key_of_groups;
use crate::name::{folded, not_supported};
use crate::plan::check::{add_checks, parsed_check};
use crate::plan::{Key, foreign_key, key_definition, table_key};
use crate::visit::visit_expressions_mut;
use ankerdb_engine::{
    Check, Error, IndexDefinition, NameRef, Part, RelationName, Result, SqlState, TableDefinition,
};
use datafusion::sql::sqlparser::ast::{Expr, TableConstraint};
use std::ops::ControlFlow;

impl Altering<'_, '_> {
    /// Adds a constraint; without `is_valid` (NOT VALID) the rows that are there are not tested.
    pub(super) fn add_constraint(&mut self, constraint: &TableConstraint, is_valid: bool) -> Result<()> {
        match constraint {
            TableConstraint::Check(check) => {
                self.add_check(check.name.as_ref().map(folded), &check.expr, is_valid)
            }
            TableConstraint::ForeignKey(clause) => {
                let mut clause = foreign_key(clause, None, &[])?;
                clause.key.is_validated = is_valid;
                self.add_foreign_key(&clause)
            }
            other if !is_valid => Err(not_marked_valid(other)),
            other => match table_key(other)? {
                Some(key) => self.add_key(key),
                None => Err(not_supported(&format!("the constraint {other}"))),
            },
        }
    }

    /// All rows are tested before the constraint is there for others.
    fn add_check(&mut self, name: Option<String>, expr: &Expr, is_valid: bool) -> Result<()> {
        let mut definition = self.definition()?;
        if let Some(name) = &name
            && self.catalog()?.has_constraint(&self.table, name)
        {
            return Err(constraint_exists(name, &definition.name));
        }
        let before = definition.checks.clone();
        add_checks(&mut definition, vec![(name, expr)])?;
        let new = definition.checks.iter_mut().find(|check| !before.contains(check));
        let new = new.ok_or_else(|| Error::internal("the constraint is not there"))?;
        new.is_validated = is_valid;
        let new = new.clone();
        self.close()?;
        if is_valid {
            self.test_check(&new)?;
        }
        self.redefine(definition)
    }

    /// 23514 if a row of the table, which is closed to others, does not fulfil a condition.
    fn test_check(&mut self, check: &Check) -> Result<()> {
        let (schema, name) = (self.table.schema(), self.table.name().to_owned());
        visit_rows(&self.table, self.defining, |_, row| {
            if (check.test)(&|column| row[column].clone())? {
                return Ok(());
            }
            let message =
                format!("check constraint \"{}\" of relation \"{name}\" is violated by some row", check.name);
            let error = Error::new(SqlState::CheckViolation, message);
            Err(error.with_table(schema, &name).with_constraint(&check.name))
        })
    }

    /// VALIDATE CONSTRAINT: tests the rows that were there before the constraint.
    pub(super) fn validate_constraint(&mut self, name: &str) -> Result<()> {
        let mut definition = self.definition()?;
        if let Some(check) = definition.checks.iter_mut().find(|check| check.name == name) {
            if !std::mem::replace(&mut check.is_validated, true) {
                let check = check.clone();
                self.close()?;
                self.test_check(&check)?;
                self.redefine(definition)?;
            }
            return Ok(());
        }
        if self.validate_foreign_key(name)? {
            return Ok(());
        }
        match self.key(name)? {
            Some(key) if key.is_constraint => {
                let message = format!(
                    "constraint \"{name}\" of relation \"{}\" is not a foreign key or check constraint",
                    definition.name
                );
                Err(Error::new(SqlState::WrongObjectType, message))
            }
            _ => Err(no_constraint(name, &definition.name)),
        }
    }

    fn add_key(&mut self, key: Key) -> Result<()> {
        let mut definition = self.definition()?;
        let catalog = self.catalog()?;
        if key.primary && catalog.indexes_of(&self.table).any(|index| index.definition().primary) {
            let message = format!("multiple primary keys for table \"{}\" are not allowed", definition.name);
            return Err(Error::new(SqlState::InvalidTableDefinition, message));
        }
        definition.indexes.clear();
        let nullable: Vec<usize> = match key.primary {
            true => key.columns.iter().map(|name| column(&definition, name)).collect::<Result<_>>()?,
            false => Vec::new(),
        };
        let is_named = key.name.is_some();
        if let Some(name) = &key.name
            && definition.checks.iter().any(|check| check.name == *name)
        {
            return Err(constraint_exists(name, &definition.name));
        }
        let mut index = key_definition(&mut definition, key)?;
        if !is_named {
            let schema = definition.schema;
            let is_taken = |name: &str| {
                catalog.has_relation(NameRef::In(schema, name)) || catalog.has_constraint(&self.table, name)
            };
            index.name = numbered(index.name, is_taken);
        }
        let table = self.table.clone();
        for position in nullable.into_iter().filter(|&position| table.is_nullable(position)) {
            self.rewriting()?.definition.columns[position].nullable = false;
        }
        self.rewrite()?;
        self.defining.definitions.create_index(&RelationName::of(&self.table), index)
    }

    pub(super) fn drop_constraint(&mut self, name: &str, if_exists: bool, cascade: bool) -> Result<()> {
        let mut definition = self.definition()?;
        if self.drop_foreign_key(name)? {
            return Ok(());
        }
        let checks = definition.checks.len();
        definition.checks.retain(|check| check.name != name);
        if definition.checks.len() < checks {
            return self.redefine(definition);
        }
        match self.key(name)? {
            Some(key) => {
                let what = format!("constraint {name} on table {}", definition.name);
                self.free_key(&key.columns, &what, cascade)?;
                self.defining.definitions.drop_key(NameRef::In(definition.schema, name))?;
                free_key_of_groups(self.defining, &RelationName::of(&self.table), &what, cascade)
            }
            None if if_exists => Ok(()),
            None => Err(no_constraint(name, &definition.name)),
        }
    }

    /// The key with this name.
    fn key(&mut self, name: &str) -> Result<Option<IndexDefinition>> {
        let catalog = self.catalog()?;
        let mut keys = catalog.indexes_of(&self.table).filter(|index| index.definition().unique);
        Ok(keys.find(|index| index.definition().name == name).map(|index| index.definition().clone()))
    }

    pub(super) fn rename_constraint(&mut self, old: &str, new: &str) -> Result<()> {
        let mut definition = self.definition()?;
        if definition.checks.iter().any(|check| check.name == new) {
            return Err(constraint_exists(new, &definition.name));
        }
        if self.rename_foreign_key(old, new)? {
            return Ok(());
        }
        match definition.checks.iter_mut().find(|check| check.name == old) {
            Some(check) => check.name = new.to_owned(),
            None if self.key(old)?.is_some() => return self.rename_key(old, new),
            None => return Err(no_constraint(old, &definition.name)),
        }
        definition.checks.sort_by(|left, right| left.name.cmp(&right.name));
        let part = |name: &str| Part::Constraint(name.to_owned());
        self.defining.definitions.rename_part(&self.table, &part(old), &part(new))?;
        self.redefine(definition)
    }
}

impl Altering<'_, '_> {
    /// Gives an index, and the constraint that it is for, another name. The rows are copied, as an index knows its own.
    pub(super) fn rename_key(&mut self, old: &str, new: &str) -> Result<()> {
        let definition = self.definition()?;
        if self.catalog()?.has_relation(NameRef::In(definition.schema, new)) {
            let message = format!("relation \"{new}\" already exists");
            return Err(Error::new(SqlState::DuplicateTable, message));
        }
        for part in [Part::Index as fn(String) -> Part, Part::Constraint] {
            let (from, to) = (part(old.to_owned()), part(new.to_owned()));
            self.defining.definitions.rename_part(&self.table, &from, &to)?;
        }
        let indexes = &mut self.rewriting()?.definition.indexes;
        let index = indexes.iter_mut().find(|index| index.name == old);
        index.ok_or_else(|| Error::internal("the index is not there"))?.name = new.to_owned();
        self.rewrite()
    }
}

/// The texts of conditions, and of what is computed, name the column anew. What they mean is found by position, and stays.
pub(super) fn rename_in_checks(definition: &mut TableDefinition, old: &str, new: &str) -> Result<()> {
    let checks = definition.checks.iter_mut().map(|check| &mut check.text);
    let computed = definition.columns.iter_mut().filter_map(|column| column.generation.as_mut());
    for text in checks.chain(computed.map(|generation| &mut generation.text)) {
        let mut expr = parsed_check(text)?;
        let _ = visit_expressions_mut(&mut expr, |expr| {
            let name = match expr {
                Expr::Identifier(name) => Some(name),
                Expr::CompoundIdentifier(parts) => parts.last_mut(),
                _ => None,
            };
            if let Some(name) = name.filter(|name| folded(name) == old) {
                *name = crate::name::identifier(new);
            }
            ControlFlow::<()>::Continue(())
        });
        *text = expr.to_string();
    }
    Ok(())
}

/// 42704.
fn no_constraint(name: &str, table: &str) -> Error {
    let message = format!("constraint \"{name}\" of relation \"{table}\" does not exist");
    Error::new(SqlState::UndefinedObject, message)
}

/// 0A000 for a key, of which PostgreSQL says so too.
fn not_marked_valid(constraint: &TableConstraint) -> Error {
    let kind = if matches!(constraint, TableConstraint::PrimaryKey(_)) { "PRIMARY KEY" } else { "UNIQUE" };
    let message = format!("{kind} constraints cannot be marked NOT VALID");
    Error::new(SqlState::FeatureNotSupported, message)
}

/// 42710.
fn constraint_exists(name: &str, table: &str) -> Error {
    let message = format!("constraint \"{name}\" for relation \"{table}\" already exists");
    Error::new(SqlState::DuplicateObject, message)
}
