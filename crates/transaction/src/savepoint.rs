//! Savepoints: taking back what a transaction has written since, and nothing else.
//!
//! Pending writes are private, so taking them back is a matter of the write set alone ([`crate::undo`]). What was read since
//! stays noted, as its results have been seen: a transaction commits only if those reads still hold. Rows that were locked
//! since stay locked until the transaction ends (PostgreSQL gives them up): others wait longer than they had to, and see
//! nothing else.

use crate::transaction::Transaction;
use ankerdb_base::{Error, Result};

/// A point in a transaction to which it can be rolled back. Good for the transaction that set it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Savepoint(usize);

impl Transaction {
    /// Sets a savepoint. Costs a few words, whatever has been written.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn set_savepoint(&mut self) -> Result<Savepoint> {
        let depth = self.writes.set_savepoint();
        depth.map(Savepoint).map_err(|()| Error::out_of_memory(size_of::<Savepoint>()))
    }

    /// Takes back everything written since the savepoint, which stays, while later ones are gone. Costs what was written
    /// since. After an error of a write or a lookup that is not retryable, the transaction can go on from here.
    pub fn rollback_to(&mut self, savepoint: Savepoint) {
        self.writes.rollback_to(savepoint.0);
        self.references.forget_statement();
        self.contested.clear();
    }

    /// Forgets a savepoint and all later ones; what was written stays.
    pub fn release_savepoint(&mut self, savepoint: Savepoint) {
        self.writes.release_savepoint(savepoint.0);
    }
}
