//! Members: the databases of organizations, as black boxes. A member is asked for nothing but SQL, triggers and isolation
//! levels.
//!
//! A block is one transaction of the database with a savepoint around each of its transactions, and is committed when the vote
//! has been won. So the members durably have a block or have nothing of it, pay one sync for it, and a member that loses the
//! vote has nothing to undo. A [`parallel::ParallelMember`] has several connections, each with an open transaction for its part
//! of the block (docs/design/ledger-parallel.md).

pub mod address;
pub mod ankerdb;
pub mod connection;
mod literal;
pub mod mariadb;
pub mod parallel;
pub mod postgres;
pub mod reader;
pub mod snapshot;
mod trigger;

use crate::access::LockReach;
use crate::change::RowChange;
use crate::definition::SharedTable;
use crate::error::LedgerResult;
use crate::hash::LedgerHash;
use crate::schedule::PlacedTransaction;
use crate::statement::PortableStatement;
use crate::value::Content;
use std::collections::{BTreeMap, BTreeSet};

pub use trigger::TriggerMember;

/// How the transactions of a block were executed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlockExecution {
    /// Why transactions have failed, by their places in the block, in ascending order.
    pub failures: BTreeMap<usize, String>,
    /// How many connections have executed a part of it.
    pub connections: usize,
    /// Why it was executed on one connection, after it was begun on several.
    pub serial_because: Option<String>,
}

/// What is shown the rows of a table, one after the other.
pub type RowVisitor<'a> = dyn FnMut(Vec<Content>) -> LedgerResult<()> + 'a;

/// What has rows of shared tables: a member, or a snapshot of one.
pub trait RowSource {
    /// Rows with these keys, as contents of their columns. Keys without a row are left out.
    ///
    /// # Errors
    /// [`crate::error::LedgerError::Database`].
    fn read(&mut self, table: &SharedTable, keys: &[Vec<u8>]) -> LedgerResult<Vec<Vec<Content>>>;

    /// Inside of a block or a snapshot: shows the rows of a table, in no order, one after the other until `show` fails. They
    /// are never in memory at once.
    ///
    /// # Errors
    /// [`crate::error::LedgerError::Database`], and that of `show`.
    fn visit_rows(&mut self, table: &SharedTable, show: &mut RowVisitor<'_>) -> LedgerResult<()>;
}

/// A database of an organization.
pub trait Member: RowSource + Send {
    /// Product and version.
    fn system(&self) -> &str;

    /// Makes an empty shared table that reports its changes. One that is there goes.
    ///
    /// # Errors
    /// [`crate::error::LedgerError::Database`].
    fn create_table(&mut self, table: &SharedTable) -> LedgerResult<()>;

    /// Begins a block.
    ///
    /// # Errors
    /// [`crate::error::LedgerError::Database`].
    fn begin(&mut self) -> LedgerResult<()>;

    /// Executes the statements of a transaction inside of the block, all or none. Says why there were none.
    ///
    /// # Errors
    /// [`crate::error::LedgerError::Database`] if that is not the transaction's fault; the block has to be rolled back then.
    fn execute(
        &mut self,
        statements: &[PortableStatement],
        tables: &BTreeMap<String, SharedTable>,
    ) -> LedgerResult<Option<String>>;

    /// Executes the transactions of a block, inside of it, with the effects that they have one after the other. `is_spread` says whether several connections may do it, if the member has them.
    ///
    /// # Errors
    /// [`crate::error::LedgerError::Database`] if that is no transaction's fault; the block has to be rolled back then.
    fn execute_block(
        &mut self,
        transactions: &[PlacedTransaction<'_>],
        tables: &BTreeMap<String, SharedTable>,
        is_spread: bool,
    ) -> LedgerResult<BlockExecution> {
        let _ = is_spread;
        let mut execution = BlockExecution { connections: 1, ..BlockExecution::default() };
        for transaction in transactions {
            let failure = self.execute(transaction.statements, tables)?;
            execution.failures.extend(failure.map(|reason| (transaction.place, reason)));
        }
        Ok(execution)
    }

    /// Whether the open block is spread over several connections, none of which sees all of it.
    fn is_spread(&self) -> bool {
        false
    }

    /// The places of transactions of the block after the last one that the database has already: it was stopped between the
    /// commits of a block's parts.
    ///
    /// # Errors
    /// [`crate::error::LedgerError::Database`].
    fn finished(&mut self, height: u64) -> LedgerResult<BTreeSet<usize>>;

    /// What the block has changed, in the order in which it was changed, and what somebody else has changed since the block
    /// before.
    ///
    /// # Errors
    /// [`crate::error::LedgerError::Database`].
    fn take_changes(&mut self) -> LedgerResult<Vec<RowChange>>;

    /// Commits the block, and that the database has the blocks up to this one.
    ///
    /// # Errors
    /// [`crate::error::LedgerError::Database`].
    fn commit(&mut self, height: u64) -> LedgerResult<()>;

    /// Takes the block back.
    ///
    /// # Errors
    /// [`crate::error::LedgerError::Database`].
    fn rollback(&mut self) -> LedgerResult<()>;

    /// Up to which block the database has them.
    ///
    /// # Errors
    /// [`crate::error::LedgerError::Database`].
    fn height(&mut self) -> LedgerResult<u64>;

    /// Key and hash of every row of a table, in no order. Reads all of it.
    ///
    /// # Errors
    /// [`crate::error::LedgerError::Database`].
    fn scan(&mut self, table: &SharedTable) -> LedgerResult<Vec<(Vec<u8>, LedgerHash)>>;

    /// Inside of a block: deletes the rows with these keys and inserts these rows. Their digests are the caller's to take.
    ///
    /// # Errors
    /// [`crate::error::LedgerError::Database`].
    fn repair(&mut self, table: &SharedTable, keys: &[Vec<u8>], rows: &[Vec<Content>]) -> LedgerResult<()>;
}

/// One connection that executes a part of a block, beside others with other parts.
pub trait PartConnection: Send {
    /// What the database locks.
    fn lock_reach(&self) -> LockReach;

    /// Begins a part. Until it ends a statement waits for a lock for one second only.
    ///
    /// # Errors
    /// [`crate::error::LedgerError::Database`].
    fn begin_part(&mut self) -> LedgerResult<()>;

    /// Executes the statements of a transaction inside of the part, as [`Member::execute`].
    ///
    /// # Errors
    /// [`crate::error::LedgerError::Database`] if that is not the transaction's fault.
    fn execute(
        &mut self,
        statements: &[PortableStatement],
        tables: &BTreeMap<String, SharedTable>,
    ) -> LedgerResult<Option<String>>;

    /// What this connection has changed since it has begun, in the order in which it was changed.
    ///
    /// # Errors
    /// [`crate::error::LedgerError::Database`].
    fn take_part_changes(&mut self) -> LedgerResult<Vec<RowChange>>;

    /// Commits the part, and that these transactions of the block are done.
    ///
    /// # Errors
    /// [`crate::error::LedgerError::Database`].
    fn commit_part(&mut self, height: u64, part: usize, places: &[usize]) -> LedgerResult<()>;

    /// Takes the part back.
    ///
    /// # Errors
    /// [`crate::error::LedgerError::Database`].
    fn rollback_part(&mut self) -> LedgerResult<()>;
}
