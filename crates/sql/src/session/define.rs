//! Definitions: part of the open transaction, or a transaction of their own.
//!
//! The transaction's catalog ([`Definitions`]) is made by its first definition, for which the engine's transaction begins, too.

use super::SqlSession;
use super::autocommit::Tries;
use crate::Outcome;
use crate::execute::define::define;
use crate::execute::defining::Defining;
use crate::plan::Definition;
use ankerdb_engine::{Definitions, Error, Isolation, Result, SqlState, Value};

impl SqlSession {
    pub(super) fn define(&mut self, definition: &Definition, parameters: &[Value]) -> Result<Outcome> {
        self.note_skipped(definition);
        let tag = match definition {
            Definition::Truncate { names, cascade, restart } => {
                let names = self.truncated_tables(names, *cascade)?;
                self.truncate(&names)?;
                if *restart {
                    self.restart_sequences(&names)?;
                }
                definition.command().into()
            }
            _ if self.block.is_open() && definition.is_concurrent() => {
                let message =
                    format!("{} CONCURRENTLY cannot run inside a transaction block", definition.command());
                return Err(Error::new(SqlState::ActiveSqlTransaction, message));
            }
            _ if self.block.is_open() => self.define_in_block(definition, parameters)?,
            _ => self.define_alone(definition, parameters)?,
        };
        Ok(Outcome::Command(tag))
    }

    /// 55P04 for a label that only this transaction knows yet: values of it come with its commit.
    pub(super) fn explain_label(&self, error: Error) -> Error {
        if error.state() != SqlState::InvalidTextRepresentation || self.runner.definitions.is_none() {
            return error;
        }
        for known in self.runner.catalog().user_types() {
            let (name, shown) = (known.labels.name(), known.labels.state());
            let added = known.state.labels().iter().filter(|label| shown.label(label.text).is_none());
            let is_meant = |text: &str| {
                error.message()
                    == format!("invalid input value for enum {name}: {}", crate::name::quoted(text))
            };
            if let Some(label) = added.into_iter().find(|label| is_meant(label.text)) {
                let message = format!("unsafe use of new value \"{}\" of enum type {name}", label.text);
                let hint = "New enum values must be committed before they can be used.";
                return Error::new(SqlState::UnsafeNewEnumValueUsage, message).with_hint(hint);
            }
        }
        error
    }

    fn new_definitions(&self) -> Definitions {
        let mut definitions = self.runner.engine.database().definitions(self.runner.interrupt());
        definitions.set_path(&self.runner.path);
        definitions
    }

    /// What a statement has defined is taken back if it fails.
    fn define_in_block(&mut self, definition: &Definition, parameters: &[Value]) -> Result<String> {
        let now = self.block_now();
        let taken = self.runner.definitions.take();
        let mut definitions = taken.unwrap_or_else(|| self.new_definitions());
        let done = self.within_block(|runner, transaction| {
            transaction.begin_statement();
            let mark = definitions.mark();
            let defining = Defining { definitions: &mut definitions, transaction, runner, parameters, now };
            let done = define(defining, definition);
            if done.is_err() {
                definitions.rollback_to(Some(&mark), Some(transaction));
            }
            transaction.set_relations(Some(definitions.known_catalog().clone()));
            done
        });
        self.runner.definitions = Some(definitions);
        let caught_up = self.catch_up();
        done.and_then(|tag| caught_up.map(|()| tag))
    }

    fn define_alone(&mut self, definition: &Definition, parameters: &[Value]) -> Result<String> {
        // A statement alone may look at what is committed now where it has to.
        let isolation = match self.settings.default_isolation {
            Isolation::Serializable => Isolation::Serializable,
            _ => Isolation::ReadCommitted,
        };
        let (mut tries, now) = (Tries::default(), super::transaction::now());
        loop {
            let mut definitions = self.new_definitions();
            let mut transaction = self.begin_engine(isolation);
            let (runner, transaction) = (&self.runner, &mut transaction);
            let defining = Defining { definitions: &mut definitions, transaction, runner, parameters, now };
            let done = define(defining, definition);
            let done = done.and_then(|tag| definitions.commit(Some(transaction)).map(|()| tag));
            // A copy of rows has counted by the catalog of this transaction, which is over.
            runner.sequences.use_catalog(None);
            match done {
                Err(error) if error.is_retryable() => tries.next(error, self.runner.interrupt())?,
                done => return done,
            }
        }
    }
}
