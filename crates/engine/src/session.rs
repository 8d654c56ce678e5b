//! A session: one connection or worker thread.

use crate::contention::COURTESY;
use crate::database::Database;
use ankerdb_base::{Result, Timestamp};
use ankerdb_snapshot::Snapshot;
use ankerdb_transaction::Patience;
use ankerdb_transaction::{Interrupt, Isolation, Transaction, Worker};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Failed tries of a procedure after which it takes precedence.
const TRIES_BEFORE_PRECEDENCE: u32 = 8;
/// Tries of a procedure before its thread gives way to others each time.
const EAGER_TRIES: u32 = 3;

/// Writes of procedures between two collections of retired memory. Left to itself the collector frees four objects for
/// each procedure. One that overwrites a dozen rows retires as many versions, and the rest would pile up. A collection
/// frees up to 512.
const WRITES_BETWEEN_COLLECTIONS: usize = 256;

/// Begins transactions and reuses their memory. One thread at a time.
pub struct Session {
    database: Database,
    worker: Arc<Worker>,
    /// For procedures; interactive transactions are handed out.
    transaction: Transaction,
    retries: u64,
    last_commit: Timestamp,
    writes_since_collection: usize,
}

impl Database {
    /// A session: one connection or worker thread.
    pub fn session(&self) -> Session {
        Session::new(self.clone())
    }
}

impl Session {
    fn new(database: Database) -> Session {
        let manager = &database.shared.manager;
        let worker = manager.acquire_worker();
        let transaction = Transaction::new(manager.clone(), worker.clone());
        let last_commit = Timestamp::ZERO;
        Session { database, worker, transaction, retries: 0, last_commit, writes_since_collection: 0 }
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Begins an interactive transaction, to be kept between statements. Ends when it is committed, rolled back or
    /// dropped.
    pub fn begin(&mut self, isolation: Isolation) -> Transaction {
        let manager = self.database.shared.manager.clone();
        let mut transaction = Transaction::new(manager, self.worker.clone());
        transaction.begin(isolation, true);
        transaction
    }

    /// Begins a procedure's transaction that is kept between calls, such as a load that gets its rows one by one: it locks no
    /// rows, and the keys of new ones are checked when it commits.
    pub fn begin_procedure(&mut self, isolation: Isolation) -> Transaction {
        let manager = self.database.shared.manager.clone();
        let mut transaction = Transaction::new(manager, self.worker.clone());
        transaction.begin(isolation, false);
        transaction
    }

    /// Begins an interactive transaction that reads what a snapshot shows, at REPEATABLE READ; see [`Transaction::begin_at`].
    ///
    /// # Errors
    /// `InvalidParameterValue` if the snapshot is of another database.
    pub fn begin_at(&mut self, snapshot: &Snapshot) -> Result<Transaction> {
        let manager = self.database.shared.manager.clone();
        let mut transaction = Transaction::new(manager, self.worker.clone());
        transaction.begin_at(snapshot)?;
        Ok(transaction)
    }

    /// Begins a transaction like [`begin_at`](Self::begin_at), whose queries share what is lent and copied for the snapshot with all
    /// others that read it.
    ///
    /// # Errors
    /// Those of [`begin_at`](Self::begin_at).
    pub fn begin_sharing(&mut self, snapshot: &Snapshot) -> Result<Transaction> {
        let manager = self.database.shared.manager.clone();
        let mut transaction = Transaction::new(manager, self.worker.clone());
        transaction.begin_sharing(snapshot)?;
        Ok(transaction)
    }

    /// The interrupt that ends this session's procedures, and their waits. Transactions that it hands out have their own.
    pub fn set_interrupt(&mut self, interrupt: Interrupt) {
        self.transaction.set_interrupt(interrupt);
    }

    /// How long procedures wait for a row that an interactive transaction has locked; see [`Transaction::set_lock_timeout`].
    pub fn set_lock_timeout(&mut self, limit: Option<Duration>) {
        self.transaction.set_lock_timeout(limit);
    }

    /// Runs a procedure in a transaction and commits it; runs it again from the start while that fails with a
    /// serialization failure or a deadlock. Any other error, even of the procedure itself, rolls back and is returned,
    /// as is the interrupt's between two tries. After some tries the procedure takes precedence over others, so that it
    /// ends.
    ///
    /// # Errors
    /// Those of the procedure and of [`Transaction::commit`], but for `SerializationFailure` and `DeadlockDetected`;
    /// that of the interrupt.
    pub fn run<T>(
        &mut self,
        isolation: Isolation,
        mut procedure: impl FnMut(&mut Transaction) -> Result<T>,
    ) -> Result<T> {
        let mut tries = 0;
        loop {
            self.give_way(tries)?;
            // Only procedures that need it touch the count, which all threads share.
            let shared = (tries >= TRIES_BEFORE_PRECEDENCE).then(|| self.database.shared.clone());
            let precedence = shared.as_ref().map(|shared| shared.contention.take_precedence());
            match self.try_run(isolation, &mut procedure) {
                Err(error) if error.is_retryable() => {
                    drop(precedence);
                    self.retries += 1;
                    tries += 1;
                    self.before_retry(tries)?;
                }
                outcome => return outcome,
            }
        }
    }

    /// Waits for what has stopped the last [`try_run`](Self::try_run), if that is an interactive transaction: it may hold
    /// the row for long.
    ///
    /// # Errors
    /// Those of [`Transaction::wait_for_blocker`].
    pub fn wait_for_blocker(&mut self) -> Result<()> {
        self.transaction.wait_for_blocker()
    }

    fn before_retry(&mut self, tries: u32) -> Result<()> {
        self.transaction.check_interrupt()?;
        // Sleeps instead of trying in vain.
        self.wait_for_blocker()?;
        if tries > EAGER_TRIES {
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Lets a procedure that has failed too often go first.
    fn give_way(&mut self, tries: u32) -> Result<()> {
        let contention = &self.database.shared.contention;
        if tries >= TRIES_BEFORE_PRECEDENCE || !contention.is_contended() {
            return Ok(());
        }
        let (begun, patience) = (Instant::now(), Patience::new());
        while contention.is_contended() && begun.elapsed() < COURTESY {
            self.transaction.check_interrupt()?;
            patience.wait();
        }
        Ok(())
    }

    /// Runs a procedure like [`run`](Self::run), but once: the caller sees 40001 and decides itself.
    ///
    /// # Errors
    /// Those of the procedure and of [`Transaction::commit`], `SerializationFailure` and `DeadlockDetected` among
    /// them.
    pub fn try_run<T>(
        &mut self,
        isolation: Isolation,
        procedure: impl FnOnce(&mut Transaction) -> Result<T>,
    ) -> Result<T> {
        // No pin over all of it: a procedure may wait for a row, and would keep all retired memory until it has it.
        self.transaction.begin(isolation, false);
        let running = Running(&mut self.transaction);
        let outcome = procedure(running.0).and_then(|value| {
            self.writes_since_collection += running.0.write_count();
            self.last_commit = running.0.commit()?;
            Ok(value)
        });
        drop(running);
        if self.writes_since_collection >= WRITES_BETWEEN_COLLECTIONS {
            self.writes_since_collection = 0;
            crossbeam_epoch::pin().flush();
        }
        outcome
    }

    /// Whether tables stay cached between two procedures (the default); see [`Transaction::set_keeps_tables`].
    pub fn set_keeps_tables(&mut self, keeps: bool) {
        self.transaction.set_keeps_tables(keeps);
    }

    /// A snapshot of everything committed so far.
    pub fn snapshot(&mut self) -> Snapshot {
        self.database.snapshot()
    }

    /// The snapshot that a query at this isolation level reads. It is the same in all configurations but that of READ
    /// UNCOMMITTED.
    pub fn snapshot_at(&mut self, isolation: Isolation) -> Snapshot {
        self.database.shared.manager.snapshot_at(isolation)
    }

    /// Like [`snapshot_at`](Self::snapshot_at), for a query that may miss what was committed in the last `staleness`, but nothing up
    /// to `seen`: see [`Database::snapshot_within`].
    pub fn snapshot_within(
        &mut self,
        isolation: Isolation,
        staleness: Duration,
        seen: Timestamp,
    ) -> Snapshot {
        let manager = &self.database.shared.manager;
        match manager.strategy_at(isolation) == manager.strategy() {
            true => self.database.snapshot_within(staleness, seen),
            false => manager.snapshot_at(isolation),
        }
    }

    /// The timestamp at which the last procedure has committed, or, if it has written nothing, at which it read: snapshots
    /// from there on show it. Before the first one: [`Timestamp::ZERO`].
    pub fn last_commit(&self) -> Timestamp {
        self.last_commit
    }

    /// How often [`run`](Self::run) has started a procedure again.
    pub fn retries(&self) -> u64 {
        self.retries
    }
}

/// A procedure's transaction, rolled back unless it has ended, even when the procedure panics: code that catches the panic
/// can go on with the session.
struct Running<'s>(&'s mut Transaction);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.rollback();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.transaction.rollback();
        self.database.shared.manager.release_worker(self.worker.clone());
    }
}
