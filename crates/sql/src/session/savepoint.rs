//! SAVEPOINT, RELEASE and ROLLBACK TO.
//!
//! A failed statement leaves a transaction with savepoints as it is, to be rolled back to one of them; locks that it holds
//! stay. An error of the whole transaction, such as a serialization failure or a deadlock, ends it all the same: no savepoint
//! of it can be had back.

use super::SqlSession;
use super::lasting::KeptSettings;
use crate::name::quoted;
use ankerdb_engine::{DefinitionMark, Definitions, Error, Result, Savepoint, SqlState};

/// The savepoints of a transaction block, by name; the newest last.
#[derive(Default)]
pub(super) struct Savepoints(Vec<Named>);

struct Named {
    name: String,
    settings: KeptSettings,
    /// Whether the transaction could not write.
    read_only: Option<bool>,
    /// Cursors declared later have this number or a higher one.
    cursors: u64,
    /// Advisory locks that the transaction had.
    locks: usize,
    /// Locks on tables that it had.
    tables: usize,
    /// What the transaction had said on channels.
    said: usize,
    /// `None` before the block has done anything for which the engine's transaction would have begun.
    savepoint: Option<Savepoint>,
    /// `None` before the transaction has defined anything.
    definitions: Option<DefinitionMark>,
}

impl Savepoints {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a transaction in which a statement has failed is needed for one of them.
    pub(super) fn can_go_on(&self) -> bool {
        self.0.iter().any(|named| named.savepoint.is_some())
    }

    /// The newest of this name. 3B001 if there is none.
    fn position(&self, name: &str) -> Result<usize> {
        self.0.iter().rposition(|named| named.name == name).ok_or_else(|| {
            let message = format!("savepoint {} does not exist", quoted(name));
            Error::new(SqlState::InvalidSavepointSpecification, message)
        })
    }
}

impl SqlSession {
    pub(super) fn set_savepoint(&mut self, name: &str) -> Result<()> {
        self.block.check_explicit("SAVEPOINT")?;
        let savepoint = self.block.transaction.as_mut().map(|transaction| transaction.set_savepoint());
        let definitions = self.runner.definitions.as_ref().map(Definitions::mark);
        let (name, savepoint, settings) = (name.to_owned(), savepoint.transpose()?, self.keep_settings());
        let (read_only, tables) = (self.block.modes().read_only, self.tables.mark());
        let (cursors, locks, said) = (self.cursors.mark(), self.functions.mark(), self.functions.talk.mark());
        self.block.savepoints.0.push(Named {
            name,
            settings,
            read_only,
            cursors,
            locks,
            tables,
            said,
            savepoint,
            definitions,
        });
        Ok(())
    }

    pub(super) fn release_savepoint(&mut self, name: &str) -> Result<()> {
        self.block.check_explicit("RELEASE SAVEPOINT")?;
        let position = self.block.savepoints.position(name)?;
        // Those that were set before the transaction began come first.
        let first = self.block.savepoints.0.drain(position..).find_map(|named| named.savepoint);
        if let (Some(transaction), Some(savepoint)) = (&mut self.block.transaction, first) {
            transaction.release_savepoint(savepoint);
        }
        Ok(())
    }

    pub(super) fn rollback_to(&mut self, name: &str) -> Result<()> {
        self.block.check_explicit("ROLLBACK TO SAVEPOINT")?;
        let position = self.block.savepoints.position(name)?;
        let Named { savepoint, ref definitions, .. } = self.block.savepoints.0[position];
        match (savepoint, &mut self.block.transaction) {
            (Some(savepoint), Some(transaction)) => {
                transaction.rollback_to(savepoint);
                if let Some(defined) = &mut self.runner.definitions {
                    defined.rollback_to(definitions.as_ref(), Some(transaction));
                }
            }
            (Some(_), None) => {
                let message = "could not serialize access: the transaction has failed as a whole";
                let hint = "Roll it back, and run it again.";
                return Err(Error::new(SqlState::SerializationFailure, message).with_hint(hint));
            }
            (None, _) => self.forget_transaction(),
        }
        self.block.savepoints.0.truncate(position + 1);
        let settings = self.block.savepoints.0[position].settings.clone();
        self.restore_settings(settings);
        self.block.restore_read_only(self.block.savepoints.0[position].read_only);
        self.end_cursors_since(self.block.savepoints.0[position].cursors);
        self.functions.release_since(self.block.savepoints.0[position].locks);
        self.tables.release_since(self.block.savepoints.0[position].tables);
        self.functions.talk.forget_since(self.block.savepoints.0[position].said);
        self.block.failed = false;
        self.catch_up()
    }
}
