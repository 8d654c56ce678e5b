//! Members: the databases of organizations, as black boxes. A member is asked for nothing but SQL, triggers and isolation
//! levels.
//!
//! A block is one transaction of the database with a savepoint around each of its transactions, and is committed when the vote
//! has been won. So the members durably have a block or have nothing of it, pay one sync for it, and a member that loses the
//! vote has nothing to undo.

pub mod address;
pub mod ankerdb;
pub mod connection;
mod literal;
pub mod mariadb;
pub mod postgres;
mod trigger;

use crate::change::RowChange;
use crate::definition::SharedTable;
use crate::error::LedgerResult;
use crate::hash::LedgerHash;
use crate::statement::PortableStatement;
use crate::value::Content;
use std::collections::BTreeMap;

pub use trigger::TriggerMember;

/// A database of an organization.
pub trait Member: Send {
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

    /// Rows with these keys, as contents of their columns. Keys without a row are left out.
    ///
    /// # Errors
    /// [`crate::error::LedgerError::Database`].
    fn read(&mut self, table: &SharedTable, keys: &[Vec<u8>]) -> LedgerResult<Vec<Vec<Content>>>;

    /// Inside of a block: deletes the rows with these keys and inserts these rows. Their digests are the caller's to take.
    ///
    /// # Errors
    /// [`crate::error::LedgerError::Database`].
    fn repair(&mut self, table: &SharedTable, keys: &[Vec<u8>], rows: &[Vec<Content>]) -> LedgerResult<()>;
}
