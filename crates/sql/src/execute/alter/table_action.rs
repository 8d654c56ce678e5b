//! Actions about how constraints and columns are kept.

use super::{Altering, column};
use crate::expression::bind::type_name;
use crate::name::quoted;
use crate::system::is_of_one_length;
use crate::table_actions::TableAction;
use ankerdb_engine::{ConstraintTiming, DataType, Error, Result, SqlState};

impl Altering<'_, '_> {
    /// Columns, and the pages that PostgreSQL has, are kept in one way here, so that most of these change nothing.
    pub(super) fn table_action(&mut self, name: &str, action: &TableAction<'_>) -> Result<()> {
        match action {
            TableAction::Timing(timing) => self.set_timing(name, *timing),
            TableAction::Storage(storage) => self.check_storage(name, storage),
            TableAction::Compression(method) => {
                self.check_variable(name, "does not support compression")?;
                match *method {
                    "default" | "pglz" | "lz4" => Ok(()),
                    other => {
                        let message = format!("invalid compression method {}", quoted(other));
                        Err(Error::new(SqlState::InvalidParameterValue, message))
                    }
                }
            }
            TableAction::Column => self.type_of(name).map(drop),
            TableAction::Nothing => Ok(()),
        }
    }

    /// ALTER CONSTRAINT.
    fn set_timing(&mut self, name: &str, timing: ConstraintTiming) -> Result<()> {
        let mut definition = self.definition()?;
        if let Some(key) = definition.foreign_keys.iter_mut().find(|key| key.name == name) {
            key.timing = timing;
            return self.redefine(definition);
        }
        let catalog = self.catalog()?;
        let of = format!("constraint {} of relation {}", quoted(name), quoted(&definition.name));
        Err(match catalog.has_constraint(&self.table, name) {
            true => {
                let message = format!("{of} is not a foreign key constraint");
                Error::new(SqlState::WrongObjectType, message)
            }
            false => Error::new(SqlState::UndefinedObject, format!("{of} does not exist")),
        })
    }

    fn type_of(&mut self, name: &str) -> Result<DataType> {
        let definition = self.definition()?;
        Ok(definition.columns[column(&definition, name)?].data_type)
    }

    fn check_storage(&mut self, name: &str, storage: &str) -> Result<()> {
        match storage {
            "plain" => self.type_of(name).map(drop),
            "external" | "extended" | "main" => self.check_variable(name, "can only have storage PLAIN"),
            other => {
                let message = format!("invalid storage type {}", quoted(other));
                Err(Error::new(SqlState::InvalidParameterValue, message))
            }
        }
    }

    /// 0A000 for a column whose values all have one length.
    fn check_variable(&mut self, name: &str, message: &str) -> Result<()> {
        let data_type = self.type_of(name)?;
        match is_of_one_length(data_type) {
            false => Ok(()),
            true => {
                let message = format!("column data type {} {message}", type_name(data_type));
                Err(Error::new(SqlState::FeatureNotSupported, message))
            }
        }
    }
}
