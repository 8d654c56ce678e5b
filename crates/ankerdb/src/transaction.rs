//! A transaction as programs use it.
//!
//! Three kinds share one type, because what can be done in them is the same:
//!
//! | kind | made by | rows written | ends |
//! | --- | --- | --- | --- |
//! | procedure | [`Database::transaction`](crate::Database::transaction) | are checked at the commit; all of it runs again after a conflict | with the closure |
//! | interactive | [`Database::begin`](crate::Database::begin) | are locked before they are written | [`commit`](Transaction::commit), [`rollback`](Transaction::rollback), or when dropped |
//! | of a snapshot | [`Snapshot::reader`](crate::Snapshot::reader) | none: 25006 | when dropped |
//!
//! Tables and rows borrow the transaction, several at a time, so it is changed behind a `RefCell`. What a program runs while
//! that is borrowed are conversions of single cells; one that used the transaction itself would get an error.

use crate::connection::{Alarm, ConnectionPool, Lease, SqlSlot};
use crate::error::{Error, Result};
use crate::table::Opened;
use ankerdb_engine::{Isolation, Result as EngineResult, SqlState, Table, Transaction as EngineTransaction};
use std::cell::{RefCell, RefMut};
use std::ops::{Deref, DerefMut};
#[cfg(feature = "sql")]
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Something that the transaction or its caller owns. As large as a pointer in either case: transactions are moved.
pub(crate) enum Held<'c, T> {
    Borrowed(&'c mut T),
    Owned(Box<T>),
}

impl<T> Held<'_, T> {
    fn own(owned: T) -> Self {
        Held::Owned(Box::new(owned))
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match self {
            Held::Borrowed(held) => held,
            Held::Owned(held) => held,
        }
    }
}

impl<T> DerefMut for Held<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        match self {
            Held::Borrowed(held) => held,
            Held::Owned(held) => held,
        }
    }
}

/// Why a transaction can only be rolled back.
pub(crate) enum RollbackCause {
    /// A conflict: all of it is to run again.
    Conflict(ankerdb_engine::Error),
    #[cfg_attr(not(feature = "sql"), expect(dead_code, reason = "of SQL statements"))]
    /// An SQL statement has failed, and may have written a part of its rows.
    Statement(ankerdb_engine::Error),
}

impl RollbackCause {
    /// What the error of an SQL statement means for its transaction.
    #[cfg(feature = "sql")]
    pub(crate) fn of(error: &ankerdb_engine::Error) -> RollbackCause {
        match error.is_retryable() {
            true => RollbackCause::Conflict(error.clone()),
            false => RollbackCause::Statement(error.clone()),
        }
    }
}

/// The state that changes while a transaction runs.
pub(crate) struct Inner<'c> {
    pub engine: Held<'c, EngineTransaction>,
    pub sql: Held<'c, SqlSlot>,
    pub failure: Option<RollbackCause>,
    /// Memory for the key that is looked up, as bytes.
    pub key: Held<'c, Vec<u8>>,
    /// When it began, in microseconds since 1970; asked for by SQL only.
    #[cfg(feature = "sql")]
    began: Option<i64>,
}

impl<'c> Inner<'c> {
    #[inline]
    fn new(engine: Held<'c, EngineTransaction>, sql: Held<'c, SqlSlot>, key: Held<'c, Vec<u8>>) -> Inner<'c> {
        Inner {
            engine,
            sql,
            failure: None,
            key,
            #[cfg(feature = "sql")]
            began: None,
        }
    }

    /// The time that `now()` gives in all statements of the transaction.
    #[cfg(feature = "sql")]
    pub(crate) fn began(&mut self) -> i64 {
        *self.began.get_or_insert_with(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
            since.as_micros() as i64
        })
    }

    /// Notes what an error means for the transaction.
    #[cold]
    fn note(&mut self, error: ankerdb_engine::Error) -> Error {
        if error.is_retryable() {
            self.failure = Some(RollbackCause::Conflict(error.clone()));
        }
        error.into()
    }

    /// Does something that writes, or takes it back: constraints are tested when it has been written.
    fn as_a_whole<R>(&mut self, work: impl FnOnce(&mut Self) -> EngineResult<R>) -> EngineResult<R> {
        let savepoint = self.engine.set_savepoint()?;
        let outcome = checked(self, work);
        if outcome.is_err() {
            self.engine.rollback_to(savepoint);
        }
        self.engine.release_savepoint(savepoint);
        outcome
    }
}

/// Does something that writes, and tests the constraints behind it.
#[inline]
fn checked<'c, R>(
    inner: &mut Inner<'c>,
    work: impl FnOnce(&mut Inner<'c>) -> EngineResult<R>,
) -> EngineResult<R> {
    let done = work(inner)?;
    inner.engine.check_constraints()?;
    Ok(done)
}

/// Whether, and how, a transaction writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WriteMode {
    Procedure,
    Interactive,
    Snapshot,
}

/// A transaction: see [`Database::transaction`](crate::Database::transaction), [`Database::begin`](crate::Database::begin)
/// and [`Snapshot::reader`](crate::Snapshot::reader).
///
/// After an error with [`ErrorKind::Conflict`](crate::ErrorKind::Conflict), and after a failed SQL statement, the
/// transaction accepts no more calls and cannot commit, even if the program ignores the error. After other errors
/// it goes on as if the call had not been made.
///
/// One thread at a time; it may move to another one.
pub struct Transaction<'c> {
    inner: RefCell<Inner<'c>>,
    shared: &'c ConnectionPool,
    kind: WriteMode,
    tables: Opened,
    /// `None` only while it is being taken apart.
    connection: Option<Hold<'c>>,
}

/// The connection that it runs on.
enum Hold<'c> {
    /// The caller's connection.
    #[cfg_attr(not(feature = "sql"), expect(dead_code, reason = "SQL sessions are made with it"))]
    Lent(&'c Alarm),
    /// A connection of its own, to which it gives the SQL session back.
    Kept(Lease<&'c ConnectionPool>),
}

impl<'c> Transaction<'c> {
    /// A procedure, in a transaction of the caller's.
    #[inline]
    pub(crate) fn procedure(
        shared: &'c ConnectionPool,
        engine: &'c mut EngineTransaction,
        (sql, alarm): (&'c mut SqlSlot, &'c Alarm),
        key: &'c mut Vec<u8>,
    ) -> Transaction<'c> {
        let inner = Inner::new(Held::Borrowed(engine), Held::Borrowed(sql), Held::Borrowed(key));
        Transaction::new(shared, inner, WriteMode::Procedure, Hold::Lent(alarm))
    }

    #[inline]
    fn new(
        shared: &'c ConnectionPool,
        inner: Inner<'c>,
        kind: WriteMode,
        connection: Hold<'c>,
    ) -> Transaction<'c> {
        Transaction {
            inner: RefCell::new(inner),
            shared,
            kind,
            tables: Opened::default(),
            connection: Some(connection),
        }
    }

    /// A transaction of its own, begun on a connection that it keeps.
    pub(crate) fn own(
        mut lease: Lease<&'c ConnectionPool>,
        kind: WriteMode,
        mut engine: EngineTransaction,
    ) -> Transaction<'c> {
        engine.set_interrupt(lease.alarm.interrupt.clone());
        let shared = *lease.shared();
        engine.set_lock_timeout(shared.options.lock_timeout);
        let sql = std::mem::take(&mut lease.sql);
        let inner = Inner::new(Held::own(engine), Held::own(sql), Held::own(Vec::new()));
        Transaction::new(shared, inner, kind, Hold::Kept(lease))
    }

    /// Its isolation level.
    pub fn isolation(&self) -> Isolation {
        self.inner.borrow().engine.isolation()
    }

    /// Commits. When this has returned, transactions that begin later see it.
    ///
    /// # Errors
    /// `SerializationFailure` and `UniqueViolation` as for any commit; the error of an earlier call that the transaction
    /// could not go on after. Nothing of the transaction remains then.
    pub fn commit(self) -> Result<()> {
        let mut inner = self.inner.borrow_mut();
        match inner.failure.take() {
            Some(RollbackCause::Conflict(error) | RollbackCause::Statement(error)) => Err(error.into()),
            None => Ok(inner.engine.commit().map(drop)?),
        }
    }

    /// Rolls the transaction back, as dropping it does; nothing of it remains.
    pub fn rollback(self) {}

    /// Runs a part of the transaction that can fail alone: if the closure gives an error, what it has written is taken
    /// back, and the transaction goes on as it was before, also after a failed SQL statement. Parts may lie within parts.
    /// Costs a few words, and what was written if it is taken back.
    ///
    /// ```
    /// # use ankerdb::{ColumnDefinition, DataType, Database, Error, TableDefinition};
    /// # let db = Database::in_memory()?;
    /// # let definition = TableDefinition::new("item").column(ColumnDefinition::new("id", DataType::Integer));
    /// # db.create_table(definition.primary_key(&["id"]))?;
    /// db.transaction(|tx| {
    ///     let item = tx.table("item")?;
    ///     item.insert(1)?;
    ///     let part: Result<(), _> = tx.savepoint(|_| {
    ///         item.insert(2)?;
    ///         Err(Error::conversion("the supplier has no more of it"))
    ///     });
    ///     assert!(part.is_err() && item.get(1)?.is_some() && item.get(2)?.is_none());
    ///     Ok(())
    /// })?;
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// The closure's. After a conflict (40001, 40P01) the transaction has ended nevertheless. `OutOfMemory`.
    pub fn savepoint<T>(&self, part: impl FnOnce(&Transaction<'c>) -> Result<T>) -> Result<T> {
        let savepoint = self.with(|inner| inner.engine.set_savepoint())?;
        let done = part(self);
        let mut inner = self.inner.try_borrow_mut().map_err(|_| in_use())?;
        let inner = &mut *inner;
        if done.is_err() && !matches!(inner.failure, Some(RollbackCause::Conflict(_))) {
            inner.engine.rollback_to(savepoint);
            inner.failure = None;
        }
        inner.engine.release_savepoint(savepoint);
        done
    }

    /// The outcome of a procedure, besides its closure's result.
    pub(crate) fn into_failure(self) -> Option<RollbackCause> {
        self.inner.borrow_mut().failure.take()
    }

    #[inline]
    pub(crate) fn kind(&self) -> WriteMode {
        self.kind
    }

    pub(crate) fn shared(&self) -> &'c ConnectionPool {
        self.shared
    }

    pub(crate) fn tables(&self) -> &Opened {
        &self.tables
    }

    /// What ends the work of its connection.
    #[cfg(feature = "sql")]
    pub(crate) fn alarm(&self) -> Option<&Alarm> {
        match self.connection.as_ref()? {
            Hold::Lent(alarm) => Some(alarm),
            Hold::Kept(lease) => Some(&lease.alarm),
        }
    }

    /// Ends the transaction; its connection goes on to its next user.
    #[cfg(feature = "sql")]
    pub(crate) fn into_lease(mut self) -> Option<Lease<&'c ConnectionPool>> {
        match self.give_back()? {
            Hold::Kept(lease) => Some(lease),
            Hold::Lent(_) => None,
        }
    }

    /// Lets the connection go, with the SQL session that came with it.
    fn give_back(&mut self) -> Option<Hold<'c>> {
        let mut connection = self.connection.take()?;
        if let Hold::Kept(lease) = &mut connection {
            lease.sql = std::mem::take(&mut *self.inner.get_mut().sql);
        }
        Some(connection)
    }

    /// The transaction's state, unless it has failed.
    ///
    /// # Errors
    /// The failure's, or `InFailedSqlTransaction`.
    #[inline]
    pub(crate) fn enter(&self) -> Result<RefMut<'_, Inner<'c>>> {
        let inner = self.inner.try_borrow_mut().map_err(|_| in_use())?;
        if inner.failure.is_some() {
            return Err(failed(&inner));
        }
        Ok(inner)
    }

    /// Does something with the engine's transaction.
    ///
    /// # Errors
    /// Those of `work`, and of the interrupt; the failure's, or `InFailedSqlTransaction`, if the transaction has failed already.
    #[inline]
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut Inner<'c>) -> EngineResult<R>) -> Result<R> {
        let mut inner = self.enter()?;
        // The closure of a procedure is a loop of the program's, which may insert a million rows.
        let outcome = inner.engine.check_interrupt().and_then(|()| work(&mut inner));
        outcome.map_err(|error| inner.note(error))
    }

    /// Does something that may write to a table with the engine's transaction, like [`with`](Self::with).
    #[inline]
    pub(crate) fn write<R>(
        &self,
        table: &Table,
        command: &str,
        work: impl FnOnce(&mut Inner<'c>) -> EngineResult<R>,
    ) -> Result<R> {
        self.check_writable(command)?;
        // In a procedure keys are for the commit, and only foreign keys can refuse what has been written.
        let may_be_refused = self.kind == WriteMode::Interactive || table.has_references();
        self.with(|inner| if may_be_refused { inner.as_a_whole(work) } else { checked(inner, work) })
    }

    /// 25006 in a transaction that only reads.
    #[inline]
    pub(crate) fn check_writable(&self, command: &str) -> Result<()> {
        if self.kind != WriteMode::Snapshot {
            return Ok(());
        }
        let message = format!("cannot execute {command} in a read-only transaction");
        Err(Error::new(SqlState::ReadOnlySqlTransaction, message))
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        // The engine's transaction ends before its session has another user.
        let connection = self.give_back();
        if matches!(connection, Some(Hold::Kept(_))) {
            self.inner.get_mut().engine.rollback();
        }
    }
}

#[cold]
fn failed(inner: &Inner) -> Error {
    match &inner.failure {
        Some(RollbackCause::Conflict(error)) => error.clone().into(),
        _ => {
            let message = "current transaction is aborted, commands ignored until end of transaction block";
            Error::new(SqlState::InFailedSqlTransaction, message)
        }
    }
}

/// The error for a conversion of a cell that uses the transaction that the cell is read in.
#[cold]
fn in_use() -> Error {
    let message = "the transaction is reading a cell: its conversion cannot use the transaction";
    Error::new(SqlState::FeatureNotSupported, message)
}
