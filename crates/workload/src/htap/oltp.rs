//! The OLTP stream: threads that run TPC-C transactions in closed loops.
//!
//! A transaction that fails to serialize is run again with the same input until it commits; its latency
//! is the time from the first start to the last commit. A New-Order that is rolled back for its unused item (1%) is
//! completed work, as in the specification.

use super::acknowledged::{Acknowledged, AcknowledgedCount};
use super::marker::Marker;
use crate::tpcc::input::{Access, Input, Inputs, TpccTransaction};
use crate::tpcc::load::now;
use crate::tpcc::schema::TpccTables;
use crate::tpcc::transactions::{Outcome, Terminal};
use ankerdb_engine::{Database, Error, Isolation, Result, SqlState};
use ankerdb_measure::cpu::ThreadClock;
use ankerdb_measure::histogram::{Histogram, LiveHistogram};
use ankerdb_measure::latency::Latencies;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The database that a stream runs on.
#[derive(Clone)]
pub struct OltpWorld {
    /// The database.
    pub database: Database,
    /// Its TPC-C tables.
    pub tables: Arc<TpccTables>,
    /// Served by the first thread.
    pub marker: Arc<Marker>,
}

/// How a stream runs.
#[derive(Clone, Copy, Debug)]
pub struct OltpOptions {
    /// Threads.
    pub threads: usize,
    /// Isolation level.
    pub isolation: Isolation,
    /// The access pattern of transactions.
    pub access: Access,
    /// Warehouses that were loaded.
    pub warehouses: u32,
    /// Same seed, same inputs.
    pub seed: u64,
    /// Transactions of each thread, if not endless.
    pub limit: Option<u64>,
}

/// The outcome of one kind of transaction.
#[derive(Clone, Default)]
pub struct KindResult {
    /// Committed, or rolled back as the specification demands.
    pub completed: u64,
    /// Rolled back as the specification demands.
    pub rolled_back: u64,
    /// Executions that failed to serialize.
    pub aborts: u64,
    /// Executions after the first, of transactions that failed to serialize.
    pub retries: u64,
    /// From first start to completion.
    pub latency: Latencies,
}

impl KindResult {
    /// Adds another thread's or phase's.
    pub fn add(&mut self, other: &KindResult) {
        self.completed += other.completed;
        self.rolled_back += other.rolled_back;
        self.aborts += other.aborts;
        self.retries += other.retries;
        self.latency.add(&other.latency);
    }
}

/// The outcome of the stream while it was recorded.
#[derive(Clone, Default)]
pub struct OltpResult {
    /// The recorded time.
    pub elapsed: Duration,
    /// CPU time of its threads meanwhile.
    pub cpu: Duration,
    /// By [`TpccTransaction::PAPER`].
    pub kinds: [KindResult; TpccTransaction::PAPER.len()],
}

impl OltpResult {
    /// All kinds together.
    pub fn total(&self) -> KindResult {
        let mut total = KindResult::default();
        self.kinds.iter().for_each(|kind| total.add(kind));
        total
    }

    /// Completed transactions per second.
    pub fn per_second(&self) -> f64 {
        let completed: u64 = self.kinds.iter().map(|kind| kind.completed).sum();
        completed as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Adds another phase's.
    pub fn add(&mut self, other: &OltpResult) {
        self.elapsed += other.elapsed;
        self.cpu += other.cpu;
        self.kinds.iter_mut().zip(&other.kinds).for_each(|(kind, other)| kind.add(other));
    }
}

/// The completed work of one thread, recorded or not. Only that thread writes it, in cache lines of its own.
#[repr(align(128))]
#[derive(Default)]
struct Tally {
    completed: AtomicU64,
    acknowledged: AcknowledgedCount,
    latencies: LiveHistogram,
}

impl Tally {
    /// Adds a transaction that its client knows to be committed.
    fn add(&self, input: &Input, outcome: &Outcome) {
        self.acknowledged.add(input, outcome);
        self.completed.store(self.completed.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

struct OltpState {
    stop: AtomicBool,
    recording: AtomicBool,
    /// Whether no payment is lost, as at the levels below REPEATABLE READ.
    keeps_payments: bool,
    tallies: Vec<Tally>,
}

/// A running stream.
pub struct OltpStream {
    shared: Arc<OltpState>,
    workers: Vec<JoinHandle<Result<OltpResult>>>,
    recording_since: Instant,
}

impl OltpStream {
    /// Starts the threads; nothing is recorded yet.
    pub fn start(world: &OltpWorld, options: &OltpOptions) -> OltpStream {
        let shared = Arc::new(OltpState {
            stop: AtomicBool::new(false),
            recording: AtomicBool::new(false),
            keeps_payments: !is_weak(options.isolation),
            tallies: (0..options.threads).map(|_| Tally::default()).collect(),
        });
        let workers = (0..options.threads)
            .map(|number| {
                let worker = Worker::new(world, options, number, shared.clone());
                let builder = std::thread::Builder::new().name(format!("oltp-{number}"));
                builder.spawn(move || worker.work()).expect("the system has threads left")
            })
            .collect();
        OltpStream { shared, workers, recording_since: Instant::now() }
    }

    /// From now on transactions are counted in the result.
    pub fn record(&mut self) {
        self.recording_since = Instant::now();
        self.shared.recording.store(true, Ordering::Relaxed);
    }

    /// Transactions completed since the start, recorded or not.
    pub fn completed(&self) -> u64 {
        self.shared.tallies.iter().map(|tally| tally.completed.load(Ordering::Relaxed)).sum()
    }

    /// How long they took, each from its first start to its completion.
    pub fn latencies(&self) -> Histogram {
        let mut all = Histogram::default();
        self.shared.tallies.iter().for_each(|tally| all.add(&tally.latencies.so_far()));
        all
    }

    /// What clients know to be committed since the start; of payments nothing at levels at which they may be lost.
    pub fn acknowledged(&self) -> Acknowledged {
        let counts = self.shared.tallies.iter().map(|tally| tally.acknowledged.so_far());
        let known = counts.fold(Acknowledged::default(), Acknowledged::and);
        Acknowledged { paid: if self.shared.keeps_payments { known.paid } else { 0 }, ..known }
    }

    /// Whether some thread has ended already: its limit was reached, or it failed.
    pub fn has_ended_early(&self) -> bool {
        self.workers.iter().any(JoinHandle::is_finished)
    }

    /// Ends the stream and returns what was recorded, or the first error that a thread met.
    ///
    /// # Errors
    /// The first one that a thread met.
    pub fn stop(self) -> Result<OltpResult> {
        let elapsed = self.recording_since.elapsed();
        self.shared.stop.store(true, Ordering::Relaxed);
        self.collect(Some(elapsed))
    }

    /// Waits until every thread has reached its limit.
    ///
    /// # Errors
    /// The first one that a thread met.
    pub fn join(self) -> Result<OltpResult> {
        self.collect(None)
    }

    fn collect(self, elapsed: Option<Duration>) -> Result<OltpResult> {
        let mut result = OltpResult::default();
        let mut failure = None;
        for worker in self.workers {
            match worker.join() {
                Ok(Ok(of_thread)) => result.add(&of_thread),
                Ok(Err(error)) => failure = failure.or(Some(error)),
                Err(_) => failure = failure.or(Some(Error::internal("an OLTP thread panicked"))),
            }
        }
        result.elapsed = elapsed.unwrap_or_else(|| self.recording_since.elapsed());
        failure.map_or(Ok(result), Err)
    }
}

struct Worker {
    client: Terminal,
    inputs: Inputs,
    shared: Arc<OltpState>,
    number: usize,
    isolation: Isolation,
    limit: u64,
    marker: Arc<Marker>,
    kinds: [KindResult; TpccTransaction::PAPER.len()],
    /// The thread's clock, and what it showed when recording began.
    clock: Option<(ThreadClock, Option<Duration>)>,
}

impl Worker {
    fn new(world: &OltpWorld, options: &OltpOptions, number: usize, shared: Arc<OltpState>) -> Worker {
        Worker {
            client: Terminal::new(&world.database, world.tables.clone(), options.isolation),
            inputs: Inputs::new(options.seed, number as u64, options.warehouses as i32, options.access),
            shared,
            number,
            isolation: options.isolation,
            limit: options.limit.unwrap_or(u64::MAX),
            marker: world.marker.clone(),
            kinds: Default::default(),
            clock: None,
        }
    }

    fn work(mut self) -> Result<OltpResult> {
        self.clock = ThreadClock::of_this_thread().map(|clock| (clock, None));
        for _ in 0..self.limit {
            if self.shared.stop.load(Ordering::Relaxed) {
                break;
            }
            self.run_next()?;
            if self.number == 0 {
                self.marker.serve(self.client.session())?;
            }
        }
        let cpu = self.clock.and_then(|(clock, since)| Some(clock.read().saturating_sub(since?)));
        Ok(OltpResult { elapsed: Duration::ZERO, cpu: cpu.unwrap_or_default(), kinds: self.kinds })
    }

    fn run_next(&mut self) -> Result<()> {
        let input = self.inputs.next_input();
        let started = Instant::now();
        let mut failures = 0;
        let outcome = loop {
            match self.client.run_once(&input, now()) {
                Ok(outcome) => break outcome,
                Err(error) if self.may_run_again(&error) => failures += 1,
                Err(error) => return Err(error),
            }
            if self.shared.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            pause(failures);
        };
        let latency = started.elapsed();
        let tally = &self.shared.tallies[self.number];
        tally.add(&input, &outcome);
        tally.latencies.record(latency);
        if self.shared.recording.load(Ordering::Relaxed) {
            if let Some((clock, since @ None)) = &mut self.clock {
                *since = Some(clock.read());
            }
            let kind = &mut self.kinds[input.kind() as usize];
            kind.completed += 1;
            kind.rolled_back += u64::from(matches!(outcome, Outcome::NewOrderRolledBack));
            kind.aborts += failures;
            kind.retries += failures;
            kind.latency.record(latency);
        }
        Ok(())
    }

    /// Below REPEATABLE READ two New-Orders may read the same next order number; the primary key then refuses
    /// the second.
    fn may_run_again(&self, error: &Error) -> bool {
        error.is_retryable() || (is_weak(self.isolation) && error.state() == SqlState::UniqueViolation)
    }
}

/// Whether transactions of the level may overwrite each other's changes.
fn is_weak(isolation: Isolation) -> bool {
    matches!(isolation, Isolation::ReadUncommitted | Isolation::ReadCommitted)
}

/// Lets the conflicting transaction finish; waits longer the more often there was a conflict.
fn pause(failures: u64) {
    if failures > 6 {
        std::thread::yield_now();
    } else {
        (0..1 << failures).for_each(|_| std::hint::spin_loop());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpcc::load::{LoadOptions, load};
    use std::ops::ControlFlow;

    /// Runs transactions at a level; returns what clients know to be committed, and the new orders.
    fn acknowledged(isolation: Isolation) -> (Acknowledged, i64) {
        let database = Database::new();
        let options = LoadOptions::new(1, 3);
        let tables = load(&database, &options, &|_, _| ControlFlow::Continue(())).expect("it loads");
        let tables = Arc::new(tables);
        let loaded = tables.orders.row_count();
        let marker = Arc::new(Marker::create(&database).expect("the table is new"));
        let world = OltpWorld { database, tables: tables.clone(), marker };
        let (access, limit) = (Access::Uniform, Some(1500));
        let options = OltpOptions { threads: 1, isolation, access, warehouses: 1, seed: 3, limit };
        let mut stream = OltpStream::start(&world, &options);
        stream.record();
        while !stream.has_ended_early() {
            std::thread::yield_now();
        }
        let known = stream.acknowledged();
        let result = stream.join().expect("nothing is in the way");
        assert!(
            result.kinds[TpccTransaction::NewOrder as usize].rolled_back > 0,
            "there are such orders, too"
        );
        (known, (tables.orders.row_count() - loaded) as i64)
    }

    #[test]
    fn what_clients_know_to_be_committed_is_added_up_and_rolled_back_orders_are_not() {
        let (known, orders) = acknowledged(Isolation::Serializable);
        assert_eq!(known.orders, orders);
        // An order has five to fifteen lines of one to ten.
        assert!((known.orders * 5..=known.orders * 150).contains(&known.quantity), "{known:?}");
        assert!(known.paid > 0);
        // Where payments may be lost, none is promised.
        assert_eq!(acknowledged(Isolation::ReadCommitted).0, Acknowledged { paid: 0, ..known });
    }
}
