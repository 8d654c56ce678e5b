//! Transaction blocks: explicit ones between BEGIN and COMMIT, implicit ones around the statements of one
//! simple-query string, and autocommit.
//!
//! The engine's transaction begins with the block's first statement that needs one, so that SET TRANSACTION may
//! come before and an idle BEGIN holds nothing.

use super::autocommit::Tries;
use super::lasting::SettingChanges;
use super::savepoint::Savepoints;
use super::setting::Settings;
use super::{Runner, SqlSession};
pub(super) use crate::activity::now;
use crate::kept_snapshots::KeptSnapshot;
use crate::plan::{Definition, Modes, Planned, Utility};
use crate::prepared::Prepared;
use crate::session_sequences::SessionSequences;
use crate::{Outcome, Statement, TransactionStatus};
use ankerdb_engine::{Definitions, Error, Isolation, Result, Snapshot, SqlState, Transaction, Value};
use std::sync::Arc;

/// The kind of the open block.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum BlockKind {
    #[default]
    None,
    /// Around several statements of one query string.
    Implicit,
    Explicit,
}

/// The open transaction block, if any.
#[derive(Default)]
pub(super) struct Block {
    kind: BlockKind,
    /// Whether a query string of several statements is under way.
    several: bool,
    pub(super) failed: bool,
    pub(super) transaction: Option<Transaction>,
    pub(super) savepoints: Savepoints,
    /// What SET has changed.
    pub(super) settings: Option<Box<SettingChanges>>,
    modes: Modes,
    /// Whether it was begun for the parts of one statement.
    ends_with_statement: bool,
    began: Option<i64>,
    /// Whether its transaction shares a snapshot: what that has read is not validated, so it must not write, whatever is set later.
    pub(super) shares: bool,
    /// The transaction's number, once it was asked for.
    pub(super) number: Option<u64>,
    /// What the statement that runs is read as of, in a transaction that is not the session's own.
    as_of: Option<Arc<KeptSnapshot>>,
}

/// A session's own block while a statement is read as of a moment.
pub(super) struct OuterBlock {
    kind: BlockKind,
    transaction: Option<Transaction>,
    modes: Modes,
    began: Option<i64>,
}

impl Block {
    /// Whether statements run in the block's transaction rather than each in its own.
    pub(super) fn is_open(&self) -> bool {
        self.kind != BlockKind::None
    }

    /// Whether it was begun for the parts of one statement.
    pub(super) fn ends_with_statement(&self) -> bool {
        self.ends_with_statement
    }

    /// What the statement that runs is read as of.
    pub(super) fn as_of(&self) -> Option<&KeptSnapshot> {
        self.as_of.as_deref()
    }

    pub(super) fn modes(&self) -> Modes {
        self.modes
    }

    /// Whether the transaction cannot write.
    pub(super) fn is_read_only(&self, settings: &Settings) -> bool {
        self.shares || self.modes.read_only.unwrap_or(settings.default_read_only)
    }

    /// Whether the transaction could still read another snapshot than that of its begin.
    pub(super) fn can_import(&self) -> bool {
        self.transaction.is_none() && self.savepoints.is_empty()
    }

    /// Puts back whether the transaction can write, as it was at a savepoint.
    pub(super) fn restore_read_only(&mut self, read_only: Option<bool>) {
        self.modes.read_only = read_only;
    }

    /// 25P01 outside of a block that the client has begun.
    pub(super) fn check_explicit(&self, command: &str) -> Result<()> {
        if self.kind == BlockKind::Explicit {
            return Ok(());
        }
        let message = format!("{command} can only be used in transaction blocks");
        Err(Error::new(SqlState::NoActiveSqlTransaction, message))
    }

    /// Closes the block; what follows in the same query string is implicit again.
    fn close(&mut self) -> Option<Transaction> {
        let kind = if self.several { BlockKind::Implicit } else { BlockKind::None };
        let closed = std::mem::replace(self, Block { kind, several: self.several, ..Block::default() });
        closed.transaction
    }
}

fn in_failed_transaction() -> Error {
    let message = "current transaction is aborted, commands ignored until end of transaction block";
    Error::new(SqlState::InFailedSqlTransaction, message)
}

/// Whether the statement ends a transaction block, or goes back to a savepoint of it.
pub(super) fn ends_block(statement: &Statement) -> bool {
    use datafusion::sql::sqlparser::ast;
    matches!(statement.ast.as_deref(), Some(ast::Statement::Commit { .. } | ast::Statement::Rollback { .. }))
}

impl SqlSession {
    /// Whether a transaction block is open, as the protocol reports it.
    pub fn transaction_status(&self) -> TransactionStatus {
        match (self.block.kind, self.block.failed) {
            (BlockKind::Explicit, true) => TransactionStatus::Failed,
            (BlockKind::Explicit, false) => TransactionStatus::InTransaction,
            _ => TransactionStatus::Idle,
        }
    }

    /// Implicit transaction of a multi-statement simple query, as PostgreSQL has it: begun by the server before
    /// the first statement of several, ended after the last.
    pub fn begin_implicit(&mut self) {
        self.block.several = true;
        if self.block.kind == BlockKind::None {
            self.block.kind = BlockKind::Implicit;
        }
    }

    /// Ends the implicit transaction: commits it, unless an explicit one is left open.
    ///
    /// # Errors
    /// The commit's.
    pub fn end_implicit(&mut self) -> Result<()> {
        self.block.several = false;
        if self.block.kind != BlockKind::Implicit {
            return Ok(());
        }
        self.begin_time();
        let committed = self.end_block(true);
        self.end_message();
        committed
    }

    /// Ends the implicit transaction after an error: rolls it back. An explicit one stays, `Failed`.
    pub fn fail_implicit(&mut self) {
        self.block.several = false;
        self.fail();
        if self.block.kind == BlockKind::Implicit {
            // Nothing is committed that could fail.
            let _ = self.end_block(false);
        }
    }

    /// Goes on in an explicit block for the parts of a statement: in that of the client, or in one that ends with the statement.
    pub(super) fn enter_block(&mut self) -> BlockKind {
        let former = std::mem::replace(&mut self.block.kind, BlockKind::Explicit);
        self.block.ends_with_statement |= former == BlockKind::None;
        self.block_now();
        former
    }

    /// Ends what [`enter_block`](Self::enter_block) has begun, by a commit if the statement has succeeded.
    pub(super) fn leave_block(&mut self, former: BlockKind, has_succeeded: bool) -> Result<()> {
        match former {
            BlockKind::None => self.end_block(has_succeeded),
            _ => {
                self.block.kind = former;
                Ok(())
            }
        }
    }

    /// Puts a transaction that reads a kept snapshot in the place of the session's own.
    pub(super) fn enter_as_of(&mut self, transaction: Transaction, kept: Arc<KeptSnapshot>) -> OuterBlock {
        let block = &mut self.block;
        let outer = OuterBlock {
            kind: block.kind,
            transaction: block.transaction.replace(transaction),
            modes: block.modes,
            began: block.began,
        };
        if !block.is_open() {
            block.kind = BlockKind::Implicit;
            block.began = self.publisher.began();
        }
        block.modes = Modes { isolation: Some(Isolation::RepeatableRead), read_only: Some(true) };
        block.as_of = Some(kept);
        outer
    }

    /// Ends that transaction, and goes back to what there was before.
    pub(super) fn leave_as_of(&mut self, outer: OuterBlock) {
        let OuterBlock { kind, transaction, modes, began } = outer;
        let block = &mut self.block;
        (block.kind, block.transaction, block.modes, block.as_of) = (kind, transaction, modes, None);
        // The clock of the session's own transaction stands since its first statement, which this may have been.
        if !block.is_open() {
            block.began = began;
        }
    }

    /// Ends the block's transaction, and everything that lasts as long.
    fn end_block(&mut self, commits: bool) -> Result<()> {
        let held = if commits { self.hold_cursors().and_then(|()| self.before_commit()) } else { Ok(()) };
        let waits_for_log = self.settings.waits_for_log;
        if let Some(transaction) = &mut self.block.transaction {
            // SET may have changed it since.
            transaction.set_waits_for_log(waits_for_log);
        }
        let settings = self.block.settings.take();
        let definitions = self.take_definitions();
        let functions = self.functions.clone();
        let (turn, said) = match held.and_then(|()| if commits { functions.talk.turn() } else { Ok(None) }) {
            Ok(turn) => (turn, Ok(())),
            Err(error) => (None, Err(error)),
        };
        let ended = match (definitions, self.block.close()) {
            _ if !commits => Ok(()),
            _ if said.is_err() => said,
            (Some(definitions), mut transaction) => definitions.commit(transaction.as_mut()),
            (None, Some(mut transaction)) => transaction.commit().map(drop),
            (None, None) => Ok(()),
        };
        let is_committed = commits && ended.is_ok();
        self.leave_settings(settings, is_committed);
        self.end_cursors(is_committed);
        self.functions.release_since(0);
        self.functions.end_exports();
        self.tables.release_since(0);
        self.end_talk(is_committed);
        drop(turn);
        ended
    }

    /// Tells the session that a result has failed while it was read: like an error of the statement, this ends
    /// the open transaction.
    pub fn fail(&mut self) {
        self.fail_for(None);
    }

    /// A statement has failed: what the transaction was at its savepoints can still be had, unless the error is one of the
    /// whole transaction.
    pub(crate) fn fail_for(&mut self, error: Option<&Error>) {
        if self.block.is_open() {
            let is_over = error.is_some_and(Error::is_retryable);
            if is_over || !self.block.savepoints.can_go_on() {
                self.forget_transaction();
                self.end_cursors(false);
                self.functions.release_since(0);
            }
            if self.block.savepoints.is_empty() {
                self.tables.release_since(0);
            }
            self.block.failed = true;
        }
    }

    /// 25P02 unless the statement may run in the state that the block is in.
    pub(super) fn check_usable(&self, prepared: &Prepared) -> Result<()> {
        if !self.block.failed || prepared.ends_failure() || prepared.is_empty() {
            return Ok(());
        }
        Err(in_failed_transaction())
    }

    /// 25P02 in a transaction that has failed, unless the statement ends it; this precedes all other errors.
    pub(super) fn check_alive(&self, statement: &Statement) -> Result<()> {
        let is_something = statement.ast.is_some() || statement.command.is_some();
        match self.block.failed && is_something && !ends_block(statement) {
            true => Err(in_failed_transaction()),
            false => Ok(()),
        }
    }

    /// 25006 in a read-only transaction.
    pub(crate) fn check_writable(&self, command: &str) -> Result<()> {
        if !self.block.is_read_only(&self.settings) {
            return Ok(());
        }
        let message = format!("cannot execute {command} in a read-only transaction");
        Err(Error::new(SqlState::ReadOnlySqlTransaction, message))
    }

    /// The open transaction and all that it has done is gone.
    pub(super) fn forget_transaction(&mut self) {
        drop(self.take_definitions());
        self.block.transaction = None;
        self.functions.end_exports();
    }

    pub(super) fn take_definitions(&mut self) -> Option<Definitions> {
        let definitions = self.runner.definitions.take()?;
        self.runner.sequences.use_catalog(None);
        Some(definitions)
    }

    /// A statement that is not part of a transaction: refused in an explicit block; in an implicit one, what came
    /// before it is committed first.
    pub(super) fn prepare_alone(&mut self, command: &str) -> Result<()> {
        if self.block.kind == BlockKind::Explicit {
            let message = format!("{command} cannot run inside a transaction block");
            return Err(Error::new(SqlState::ActiveSqlTransaction, message));
        }
        self.end_block(true)
    }

    /// A transaction of the engine that ends when this session's statement has to.
    pub(super) fn begin_engine(&mut self, isolation: Isolation) -> Transaction {
        let mut transaction = self.session.begin(isolation);
        self.limits().set_on(&mut transaction);
        transaction
    }

    /// The block's transaction, begun now if it has not been yet.
    pub(super) fn block_transaction(&mut self) -> &mut Transaction {
        if self.block.transaction.is_none() {
            let isolation = self.block.modes.isolation.unwrap_or(self.settings.default_isolation);
            let sharing = self.begin_sharing(isolation);
            self.block.transaction = Some(sharing.unwrap_or_else(|| self.begin_engine(isolation)));
            // Which the default has no say in any more.
            self.block.modes.isolation = Some(isolation);
        }
        // SET may have changed them since.
        let limits = self.limits();
        let transaction = self.block.transaction.as_mut().expect("begun above");
        limits.set_on(transaction);
        transaction
    }

    /// Begins the block's transaction to read what a snapshot shows. What it reads at SERIALIZABLE needs no validation: it writes
    /// nothing, so it takes place as of the snapshot.
    pub(super) fn begin_block_at(&mut self, isolation: Isolation, snapshot: &Snapshot) -> Result<()> {
        let mut transaction = self.session.begin_at(snapshot)?;
        self.limits().set_on(&mut transaction);
        self.block.transaction = Some(transaction);
        // Which it cannot change any more.
        self.block.modes.isolation = Some(isolation);
        Ok(())
    }

    /// When the block's transaction began.
    pub(super) fn block_now(&mut self) -> i64 {
        *self.block.began.get_or_insert_with(now)
    }

    /// When the transaction of the statement that runs began: with the statement, where no block is open.
    pub(super) fn began(&mut self) -> i64 {
        match self.block.is_open() {
            true => self.block_now(),
            false => self.publisher.began().unwrap_or_else(now),
        }
    }

    /// From here on texts like `now` stand for when the statement's transaction began. `is_begun`: whether the statement has.
    pub(super) fn enter_present(&self, is_begun: bool) {
        let began = match self.block.is_open() {
            true => self.block.began,
            false => self.publisher.began().filter(|_| is_begun),
        };
        ankerdb_value::enter_present(began);
    }

    /// What expressions see that are not part of a statement's plan: when the transaction began, and sequences.
    pub(crate) fn now_and_sequences(&mut self) -> (i64, Arc<SessionSequences>) {
        (self.began(), self.runner.sequences.clone())
    }

    /// Runs the body with the block's transaction beside the session.
    pub(super) fn within_block<T>(
        &mut self,
        body: impl FnOnce(&Runner, &mut Transaction) -> Result<T>,
    ) -> Result<T> {
        self.block_transaction();
        let mut transaction = self.block.transaction.take().expect("begun above");
        if let Some(definitions) = &self.runner.definitions {
            transaction.set_relations(Some(definitions.known_catalog().clone()));
        }
        let result = body(&self.runner, &mut transaction);
        self.block.transaction = Some(transaction);
        result
    }

    /// Runs one statement of the block. The client has seen nothing of a transaction's first statement before it ends:
    /// after a serialization failure or a deadlock it runs again, in a new transaction, as often as a statement in
    /// autocommit does.
    pub(super) fn in_block<T>(
        &mut self,
        mut body: impl FnMut(&Runner, &mut Transaction) -> Result<T>,
    ) -> Result<T> {
        let is_first = self.block.transaction.is_none();
        let mut tries = Tries::default();
        loop {
            let done = self.within_block(|runner, transaction| {
                transaction.begin_statement();
                body(runner, transaction)
            });
            match done {
                Err(error) if is_first && error.is_retryable() => {
                    self.block.transaction = None;
                    tries.next(error, self.runner.interrupt())?;
                }
                other => return other,
            }
        }
    }

    /// Runs the body in the open transaction, or else in one of its own that is committed after it.
    pub(crate) fn with_transaction<T>(
        &mut self,
        body: impl FnOnce(&mut Transaction) -> Result<T>,
    ) -> Result<T> {
        if self.block.is_open() {
            return self.within_block(|_, transaction| body(transaction));
        }
        let limits = self.limits();
        self.session.try_run(self.settings.default_isolation, |transaction| {
            limits.set_on(transaction);
            body(transaction)
        })
    }

    /// A transaction for a statement that goes on after `execute` (COPY); `None` if a block is open, whose
    /// transaction such a statement uses.
    pub(crate) fn begin_own(&mut self) -> Option<Transaction> {
        (!self.block.is_open()).then(|| self.begin_engine(self.settings.default_isolation))
    }

    /// Runs a statement about the session.
    pub(super) fn utility(&mut self, utility: &Utility, planned: &Planned) -> Result<Outcome> {
        let tag = |tag: &str| Ok(Outcome::Command(tag.into()));
        match utility {
            Utility::Begin(modes, words) => {
                self.begin(*modes)?;
                tag(words)
            }
            Utility::Commit { chain } => self.commit(*chain),
            Utility::Rollback { chain } => self.rollback(*chain),
            Utility::Savepoint(name) => {
                self.set_savepoint(name)?;
                tag("SAVEPOINT")
            }
            Utility::Release(name) => {
                self.release_savepoint(name)?;
                tag("RELEASE")
            }
            Utility::RollbackTo(name) => {
                self.rollback_to(name)?;
                tag("ROLLBACK")
            }
            Utility::SetTransaction(modes) => {
                match self.block.is_open() {
                    true => self.set_modes(*modes)?,
                    false => self.warn_of_no_block(),
                }
                tag("SET")
            }
            Utility::ImportSnapshot(identifier) => {
                self.import_snapshot(identifier)?;
                tag("SET")
            }
            Utility::LockTables(lock) => {
                self.lock_tables(lock)?;
                tag("LOCK TABLE")
            }
            Utility::SetDefaults(modes) => {
                self.change_settings(false, |settings| {
                    settings.default_isolation = modes.isolation.unwrap_or(settings.default_isolation);
                    settings.default_read_only = modes.read_only.unwrap_or(settings.default_read_only);
                    Ok(())
                })?;
                tag("SET")
            }
            Utility::Set(setting) if setting.name == "transaction_isolation" && self.block.is_open() => {
                let isolation =
                    super::setting::isolation(setting.value.as_deref().unwrap_or("serializable"))?;
                self.set_modes(Modes { isolation: Some(isolation), read_only: None })?;
                tag("SET")
            }
            Utility::Set(setting) if setting.name == "transaction_read_only" && self.block.is_open() => {
                let read_only =
                    super::setting::boolean(&setting.name, setting.value.as_deref().unwrap_or("off"))?;
                self.set_modes(Modes { isolation: None, read_only: Some(read_only) })?;
                tag("SET")
            }
            Utility::Set(setting) => {
                self.set(setting)?;
                tag("SET")
            }
            Utility::Reset(name) => {
                self.change_settings(false, |settings| settings.reset(name.as_deref()))?;
                tag("RESET")
            }
            Utility::Discard { all } => self.discard(*all),
            Utility::Show(name) => {
                let rows = self.show(name)?;
                Ok(self.ready(planned, rows, Some("SHOW".into())))
            }
            Utility::Accepted(words) => tag(words),
        }
    }

    /// DISCARD ALL, or else SEQUENCES.
    fn discard(&mut self, all: bool) -> Result<Outcome> {
        if all {
            self.prepare_alone("DISCARD ALL")?;
            self.change_settings(false, |settings| settings.reset(None))?;
            self.close_cursors();
            self.forget_statements();
            self.functions.release_all_of_session();
            self.functions.talk.unlisten(None);
            self.end_talk(true);
            self.define(&Definition::DropTemporary { all: true }, &[])?;
        }
        self.runner.sequences.forget();
        Ok(Outcome::Command(if all { "DISCARD ALL" } else { "DISCARD SEQUENCES" }.into()))
    }

    fn begin(&mut self, modes: Modes) -> Result<()> {
        match self.block.kind {
            BlockKind::Explicit => {
                self.warn(SqlState::ActiveSqlTransaction, "there is already a transaction in progress");
            }
            _ => self.block.kind = BlockKind::Explicit,
        }
        // The clock of the transaction stands from here on, whenever its first statement comes.
        self.block_now();
        self.set_modes(modes)
    }

    /// SET TRANSACTION that changes nothing.
    pub(super) fn warn_of_no_block(&mut self) {
        let message = "SET TRANSACTION can only be used in transaction blocks";
        self.warn(SqlState::NoActiveSqlTransaction, message);
    }

    fn set_modes(&mut self, modes: Modes) -> Result<()> {
        if let Some(isolation) = modes.isolation {
            if !self.block.savepoints.is_empty() {
                let message = "SET TRANSACTION ISOLATION LEVEL must not be called in a subtransaction";
                return Err(Error::new(SqlState::ActiveSqlTransaction, message));
            }
            let of_now = self.block.modes.isolation.unwrap_or(self.settings.default_isolation);
            if self.block.transaction.is_some() && of_now != isolation {
                let message = "SET TRANSACTION ISOLATION LEVEL must be called before any query";
                return Err(Error::new(SqlState::ActiveSqlTransaction, message));
            }
            self.block.modes.isolation = Some(isolation);
        }
        if let Some(read_only) = modes.read_only {
            if !read_only && self.block.modes.read_only == Some(true) && self.block.transaction.is_some() {
                let message = "transaction read-write mode must be set before any query";
                return Err(Error::new(SqlState::ActiveSqlTransaction, message));
            }
            self.block.modes.read_only = Some(read_only);
        }
        Ok(())
    }

    fn commit(&mut self, chain: bool) -> Result<Outcome> {
        self.check_ending("COMMIT", chain)?;
        let (failed, modes) = (self.block.failed, self.block.modes);
        self.end_block(!failed)?;
        self.chain(chain, modes);
        Ok(Outcome::Command(if failed { "ROLLBACK" } else { "COMMIT" }.into()))
    }

    fn rollback(&mut self, chain: bool) -> Result<Outcome> {
        self.check_ending("ROLLBACK", chain)?;
        let modes = self.block.modes;
        self.end_block(false)?;
        self.chain(chain, modes);
        Ok(Outcome::Command("ROLLBACK".into()))
    }

    /// PREPARE TRANSACTION where none can be kept, as in PostgreSQL with its own settings: the transaction is rolled back.
    pub(super) fn prepare_transaction(&mut self) -> Result<Outcome> {
        let is_open = self.block.kind == BlockKind::Explicit;
        let rolled_back = self.rollback(false)?;
        if !is_open {
            return Ok(rolled_back);
        }
        let message = "prepared transactions are disabled";
        Err(Error::new(SqlState::ObjectNotInPrerequisiteState, message)
            .with_hint("AnKerDB has no two-phase commit."))
    }

    /// Why COMMIT PREPARED or ROLLBACK PREPARED fails.
    pub(super) fn no_prepared(&self, command: &str, name: &str) -> Error {
        if self.block.kind == BlockKind::Explicit {
            let message = format!("{command} cannot run inside a transaction block");
            return Error::new(SqlState::ActiveSqlTransaction, message);
        }
        let message = format!("prepared transaction with identifier \"{name}\" does not exist");
        Error::new(SqlState::UndefinedObject, message)
    }

    /// Warns where there is no transaction to end; 25P01 where one is to follow it.
    fn check_ending(&mut self, command: &str, chain: bool) -> Result<()> {
        if self.block.kind == BlockKind::Explicit {
            return Ok(());
        }
        if chain {
            let message = format!("{command} AND CHAIN can only be used in transaction blocks");
            return Err(Error::new(SqlState::NoActiveSqlTransaction, message));
        }
        self.warn(SqlState::NoActiveSqlTransaction, "there is no transaction in progress");
        Ok(())
    }

    /// Begins the transaction that AND CHAIN asks for, in the modes of the one before.
    fn chain(&mut self, chain: bool, modes: Modes) {
        if chain {
            self.block.kind = BlockKind::Explicit;
            self.block.modes = modes;
            self.block_now();
        }
    }

    fn show(&self, name: &str) -> Result<Vec<Vec<Value>>> {
        if name == "all" {
            let row =
                |(name, value): (&str, String)| vec![Value::text(name), Value::text(value), Value::text("")];
            let ours = ("memory_limit", self.setting("memory_limit")?);
            let mut all: Vec<_> = self.settings.all().chain([ours]).collect();
            all.sort();
            return Ok(all.into_iter().map(row).collect());
        }
        Ok(vec![vec![Value::text(self.setting(name)?)]])
    }

    /// The value of a setting as SHOW gives it.
    ///
    /// # Errors
    /// 42704 if there is no such setting.
    pub fn setting(&self, name: &str) -> Result<String> {
        let modes = &self.block.modes;
        match name {
            "transaction_isolation" => {
                let isolation = modes.isolation.unwrap_or(self.settings.default_isolation);
                Ok(super::setting::isolation_name(isolation).into())
            }
            "transaction_read_only" => {
                let read_only = modes.read_only.unwrap_or(self.settings.default_read_only);
                Ok(if read_only { "on" } else { "off" }.into())
            }
            "memory_limit" => {
                let limit = self.runner.engine.database().memory_limit();
                Ok(crate::size::shown_bytes(limit.bytes()))
            }
            _ => self.settings.get(name),
        }
    }
}
