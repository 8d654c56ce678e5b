//! Temporary relations: the session's own, in a schema of their own (docs/design/schemas.md).
//!
//! What a commit does to some of them is a part of the committing transaction. A statement outside of a block commits by itself, so
//! it is followed by a transaction of its own: nobody else can see the table in between.

use super::SqlSession;
use super::autocommit::{Sleeps, Tries};
use super::truncate::delete_all;
use crate::execute;
use crate::execute::schema::drop_temporary;
use crate::plan::Definition;
use ankerdb_engine::{Database, Interrupt, OnCommit, Result, SearchPath, Table};
use std::sync::Arc;

impl SqlSession {
    /// The session's tables that a commit does something to.
    fn tables_of_commits(&self, wanted: OnCommit) -> Vec<Arc<Table>> {
        if !self.has_temporary {
            return Vec::new();
        }
        let catalog = self.runner.catalog();
        let Some(schema) = catalog.schema("pg_temp") else { return Vec::new() };
        let is_wanted = |table: &&Arc<Table>| table.definition().on_commit == wanted;
        catalog.tables_in(schema.id).filter(is_wanted).cloned().collect()
    }

    /// Does, in the open transaction, what its commit is to do to temporary tables.
    pub(super) fn before_commit(&mut self) -> Result<()> {
        if self.block.transaction.is_some() {
            for table in self.tables_of_commits(OnCommit::DeleteRows) {
                let plan = delete_all(table);
                self.in_block(|runner, transaction| {
                    execute::delete(&plan, transaction, &runner.environment(&[], 0, true)).map(drop)
                })?;
            }
        }
        if !self.tables_of_commits(OnCommit::Drop).is_empty() {
            self.define(&Definition::DropTemporary { all: false }, &[])?;
        }
        Ok(())
    }

    /// Does what the commit of a statement outside of a block is to do to temporary tables.
    pub(crate) fn after_statement(&mut self) -> Result<()> {
        if !self.has_temporary || self.block.is_open() {
            return Ok(());
        }
        for table in self.tables_of_commits(OnCommit::DeleteRows) {
            if table.row_count() > 0 {
                let plan = delete_all(table);
                self.autocommit(Sleeps::Perhaps, |runner, transaction, locking| {
                    execute::delete(&plan, transaction, &runner.environment(&[], 0, locking)).map(drop)
                })?;
            }
        }
        if !self.tables_of_commits(OnCommit::Drop).is_empty() {
            self.define(&Definition::DropTemporary { all: false }, &[])?;
        }
        Ok(())
    }

    /// Notes whether the session has temporary relations, after a definition.
    pub(super) fn note_temporary(&mut self) {
        self.has_temporary |= self.runner.catalog().schema("pg_temp").is_some();
    }
}

/// Drops a session's temporary relations and their schema, whatever ends the session.
fn drop_all_temporary(database: &Database, path: &Arc<SearchPath>) -> Result<()> {
    // The session's own may be raised, which is why it ends.
    let interrupt = Interrupt::new();
    let mut tries = Tries::default();
    loop {
        let mut definitions = database.definitions(&interrupt);
        definitions.set_path(path);
        let done = drop_temporary(&mut definitions, None, true, &interrupt).and_then(|()| {
            let catalog = definitions.catalog()?;
            match catalog.schema("pg_temp") {
                Some(schema) => definitions.drop_schema(&schema.name),
                None => Ok(()),
            }
        });
        match done.and_then(|()| definitions.commit(None)) {
            Err(error) if error.is_retryable() => tries.next(error, &interrupt)?,
            done => return done,
        }
    }
}

impl Drop for SqlSession {
    fn drop(&mut self) {
        if !self.has_temporary {
            return;
        }
        self.forget_transaction();
        let (database, path) = (self.runner.engine.database().clone(), self.settings.path.clone());
        // Nobody is left to be told of an error; what could not be dropped stays hidden from all others.
        let end = move || drop(drop_all_temporary(&database, &path));
        match std::thread::panicking() {
            // A panic in the middle of a commit ends the process, and so this thread must not commit.
            true => drop(std::thread::spawn(end)),
            false => end(),
        }
    }
}
