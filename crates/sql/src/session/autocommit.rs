//! Statements outside of transaction blocks: each is a transaction of its own.
//!
//! Clients need not see a serialization failure of such a statement: the server runs it again:
//! ```text
//! 1  a few times as a procedure: without locks, the cheapest way if no others write the same rows
//! 2  then, or at once if it sleeps anyway, as an interactive transaction: it locks the rows that it is going to write
//!    before it writes, waits for those that others have locked, and looks again where one has changed
//! ```
//! With locks a statement only fails by what it reads and does not write. The tries are counted ([`Tries`]), with longer
//! and longer pauses between them, so that a statement that always conflicts ends with 40001 at last.
//!
//! A procedure must not sleep for others, because it keeps the memory that others retire from being freed: queries on
//! the analytical threads and waits for locked rows belong in interactive transactions.

use super::{Runner, SqlSession};
use ankerdb_engine::{Error, Interrupt, Isolation, Result, Transaction};
use std::time::{Duration, Instant};

/// Tries as a procedure.
const PROCEDURE_TRIES: u32 = 3;
/// Tries with locks.
const TRIES_MAX: u32 = 100;
/// Tries that follow each other at once.
const EAGER_TRIES: u32 = 3;
/// The longest rest between two tries.
const REST_MAX: Duration = Duration::from_millis(20);

/// Whether a statement waits for others between its first read and its commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sleeps {
    /// Only if another transaction has locked a row that it writes.
    Perhaps,
    /// It locks rows itself, or runs a query on the analytical threads.
    Surely,
}

/// Ends a transaction's waits.
pub(super) struct WaitLimits {
    interrupt: Interrupt,
    lock: Option<Duration>,
    waits_for_log: bool,
}

impl WaitLimits {
    pub(super) fn set_on(&self, transaction: &mut Transaction) {
        transaction.set_interrupt(self.interrupt.clone());
        transaction.set_lock_timeout(self.lock);
        transaction.set_waits_for_log(self.waits_for_log);
    }
}

/// Counts how often a statement was run.
#[derive(Default)]
pub(super) struct Tries(u32);

impl Tries {
    /// Rests before another try.
    ///
    /// # Errors
    /// `failure` if there were enough tries, or the reason why the statement has to end.
    pub(super) fn next(&mut self, failure: Error, interrupt: &Interrupt) -> Result<()> {
        self.0 += 1;
        if self.0 >= TRIES_MAX {
            return Err(failure);
        }
        if self.0 > EAGER_TRIES {
            rest(Duration::from_micros(50 << self.0.min(10)).min(REST_MAX), interrupt);
        }
        interrupt.check()
    }
}

/// Sleeps, but not past an interrupt.
fn rest(time: Duration, interrupt: &Interrupt) {
    let until = Instant::now() + time;
    let _woken = interrupt.wakes_me();
    while !interrupt.is_raised() && Instant::now() < until {
        std::thread::park_timeout(until.saturating_duration_since(Instant::now()));
    }
}

impl SqlSession {
    pub(super) fn limits(&self) -> WaitLimits {
        WaitLimits {
            interrupt: self.runner.interrupt().clone(),
            lock: self.settings.limits.lock,
            waits_for_log: self.settings.waits_for_log,
        }
    }

    /// Runs the body in a transaction of its own and commits it; again after serialization failures and deadlocks. The
    /// body is told whether it has to lock rows before it writes them.
    pub(super) fn autocommit<T>(
        &mut self,
        sleeps: Sleeps,
        mut body: impl FnMut(&Runner, &mut Transaction, bool) -> Result<T>,
    ) -> Result<T> {
        if sleeps == Sleeps::Perhaps {
            for _ in 0..PROCEDURE_TRIES {
                match self.as_procedure(|runner, transaction| body(runner, transaction, false)) {
                    Err(error) if error.is_retryable() => {
                        self.runner.interrupt().check()?;
                        self.session.wait_for_blocker()?;
                    }
                    outcome => return outcome,
                }
            }
        }
        let mut tries = Tries::default();
        loop {
            match self.with_locks(|runner, transaction| body(runner, transaction, true)) {
                Err(error) if error.is_retryable() => tries.next(error, self.runner.interrupt())?,
                outcome => return outcome,
            }
        }
    }

    fn as_procedure<T>(&mut self, body: impl FnOnce(&Runner, &mut Transaction) -> Result<T>) -> Result<T> {
        // One statement alone sees one snapshot at every level.
        let isolation = match self.settings.default_isolation {
            Isolation::Serializable => Isolation::Serializable,
            _ => Isolation::RepeatableRead,
        };
        let (limits, runner) = (self.limits(), &self.runner);
        self.session.try_run(isolation, |transaction| {
            limits.set_on(transaction);
            body(runner, transaction)
        })
    }

    fn with_locks<T>(&mut self, body: impl FnOnce(&Runner, &mut Transaction) -> Result<T>) -> Result<T> {
        // Below SERIALIZABLE the statement may look again where it had to wait, from a snapshot of that moment.
        let isolation = match self.settings.default_isolation {
            Isolation::Serializable => Isolation::Serializable,
            _ => Isolation::ReadCommitted,
        };
        let mut transaction = self.begin_engine(isolation);
        let done = body(&self.runner, &mut transaction)?;
        match transaction.commit() {
            Ok(_) => Ok(done),
            Err(error) => transaction.wait_for_definition().and(Err(error)),
        }
    }

    /// Runs a body that only reads and may wait for others, in a transaction of its own.
    pub(super) fn read_waiting<T>(
        &mut self,
        body: impl FnOnce(&Runner, &mut Transaction) -> Result<T>,
    ) -> Result<T> {
        let mut transaction = self.begin_engine(Isolation::RepeatableRead);
        let done = body(&self.runner, &mut transaction)?;
        transaction.commit().map(|_| done)
    }

    /// Runs a body that only reads, in a transaction of its own. Reading one snapshot is serializable as of that
    /// snapshot, with nothing to validate.
    pub(super) fn read_only<T>(
        &mut self,
        body: impl FnOnce(&Runner, &mut Transaction) -> Result<T>,
    ) -> Result<T> {
        let (limits, runner) = (self.limits(), &self.runner);
        self.session.try_run(Isolation::RepeatableRead, |transaction| {
            limits.set_on(transaction);
            body(runner, transaction)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ankerdb_engine::{Cause, SqlState};

    #[test]
    fn tries_come_to_an_end() {
        let (mut tries, interrupt) = (Tries::default(), Interrupt::new());
        let mut count = 1;
        let last = loop {
            match tries.next(Error::serialization("again"), &interrupt) {
                Ok(()) => count += 1,
                Err(error) => break error,
            }
        };
        assert_eq!((count, last.state()), (TRIES_MAX, SqlState::SerializationFailure));
    }

    #[test]
    fn an_interrupt_ends_a_rest() {
        let interrupt = Interrupt::new();
        let begun = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| rest(Duration::from_secs(60), &interrupt));
            std::thread::sleep(Duration::from_millis(20));
            interrupt.raise(Cause::Request);
        });
        assert!(begun.elapsed() < Duration::from_secs(30));
        let mut tries = Tries(EAGER_TRIES);
        let ended = tries.next(Error::serialization("again"), &interrupt).map_err(|error| error.state());
        assert_eq!(ended, Err(SqlState::QueryCanceled));
    }
}
