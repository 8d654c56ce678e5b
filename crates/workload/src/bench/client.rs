//! The interface of a workload: clients that draw transactions and run them.

use ankerdb_engine::{Isolation, Result};

/// A workload over data that is loaded.
pub trait Workload: Sync {
    /// Names of the kinds of transactions; a kind is a position in this list.
    fn kinds(&self) -> &[&'static str];

    /// One thread's client.
    ///
    /// # Errors
    /// The database's, such as those of statements that are prepared.
    fn client(&self, setup: &ClientSetup) -> Result<Box<dyn Client>>;
}

/// The identity of a client.
#[derive(Clone, Copy, Debug)]
pub struct ClientSetup {
    /// Which of the threads, from 0 on.
    pub number: usize,
    /// Same seed and number, same inputs. Different in every phase.
    pub seed: u64,
    /// Isolation level of its transactions.
    pub isolation: Isolation,
}

/// One thread's transactions.
pub trait Client: Send {
    /// Draws the next transaction and returns its kind.
    fn draw(&mut self) -> usize;

    /// Runs the drawn transaction once; called again if it fails with a retryable error. `now` is the date to write,
    /// in microseconds since 1970.
    ///
    /// # Errors
    /// Those of the transaction.
    fn run(&mut self, now: i64) -> Result<Done>;
}

/// How a transaction was completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Done {
    /// Committed.
    Committed,
    /// Rolled back as the specification demands: completed, too.
    RolledBack,
    /// Committed, with this many things left out, which the specification wants to be counted.
    Skipped(u32),
}
